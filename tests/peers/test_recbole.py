"""RecBole: what its trainer reports of sampled negatives, and what we read of them."""

import logging
import sys

import pytest
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

import sampled_metrics as sm
from sampled_metrics import readers

LEAVE_ONE_OUT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user"}


@pytest.fixture
def made(ratings, tmp_path, monkeypatch):
    """A function that makes a trainer of RecBole, and the three parts of the data."""
    monkeypatch.chdir(tmp_path)  # RecBole writes its logs into the folder it is run in
    monkeypatch.setattr(sys, "argv", ["tests"])  # and reads options from the command line
    (tmp_path / "tiny").mkdir()
    columns = {"user": "user_id:token", "item": "item_id:token", "time": "timestamp:float"}
    named = ratings.assign(user="u" + ratings["user"].astype(str)).rename(columns=columns)
    named.to_csv(tmp_path / "tiny" / "tiny.inter", sep="\t", index=False)

    def make(model, mode="uni100", **options):
        settings = {
            "data_path": str(tmp_path),
            "epochs": 2,
            "use_gpu": False,
            "state": "ERROR",
            "show_progress": False,
            "metric_decimal_place": 16,
            "metrics": ["Recall", "MRR", "NDCG", "Hit", "GAUC"],
            "topk": [10],
            "valid_metric": "MRR@10",
            "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
            "eval_args": {**LEAVE_ONE_OUT, "mode": mode},
            **options,
        }
        config = Config(model=model, dataset="tiny", config_dict=settings)
        init_seed(config["seed"], reproducibility=True)
        dataset = create_dataset(config)
        train, valid, test = data_preparation(config, dataset)
        built = get_model(config["model"])(config, train._dataset).to(config["device"])
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, built)
        return trainer, train, valid, test

    yield make
    logging.getLogger().handlers.clear()


@pytest.fixture
def fitted(made):
    """A function that fits a model of RecBole, and returns its trainer and the test data."""

    def fit(model, mode="uni100", **options):
        trainer, train, valid, test = made(model, mode, **options)
        trainer.fit(train, valid, verbose=False, show_progress=False)
        return trainer, test

    return fit


@pytest.mark.parametrize("mode", ["full", "uni100"])
def test_loop_reports_each_epoch_of_recboles_own_training(made, added, column, corrected, mode):
    trainer, train, valid_data, _ = made("BPR", mode, epochs=3, learning_rate=0.03)
    scores, history = [], {}
    ran = added("def report(epoch", trainer=trainer, valid_data=valid_data, history=history)

    def called(epoch, valid_score):
        scores.append(valid_score)
        ran["report"](epoch, valid_score)

    trainer.fit(train, valid_data, verbose=False, show_progress=False, callback_fn=called)
    assert list(history) == [0, 1, 2]
    for epoch, (theirs, found) in history.items():
        reported = column(found, "reported")
        expected = {"ndcg@10": theirs["ndcg@10"], "rr@10": theirs["mrr@10"]}
        assert reported == pytest.approx(expected, abs=1e-12)
        if mode == "full":
            assert theirs["mrr@10"] == scores[epoch]  # which RecBole computed before
            assert column(found, "estimate") == pytest.approx(expected, abs=1e-12)
    assert len({theirs["ndcg@10"] for theirs, _ in history.values()}) == 3
    if mode == "uni100":
        every_item = made("BPR", "full")[2]
        exact = trainer.evaluate(every_item, load_best_model=False)
        corrected(found, {"ndcg@10": exact["ndcg@10"], "rr@10": exact["mrr@10"]})


@pytest.mark.parametrize(
    ("model", "options"),
    [("BPR", {}), ("GRU4Rec", {"train_neg_sample_args": None, "MAX_ITEM_LIST_LENGTH": 8})],
)
def test_uni100_in_the_three_lines_of_the_how_to(fitted, naive, shown, ratings, model, options):
    trainer, test_data = fitted(model, **options)
    metrics = ["recall@10", "mrr@10", "ndcg@10", "auc"]
    ran = shown("rows = readers.recbole", metrics, trainer=trainer, test_data=test_data)
    rows = ran["rows"]
    reported = rows.attrs["reported"]
    assert naive(ran["found"]) == pytest.approx(
        {
            "recall@10": reported["recall@10"],
            "rr@10": reported["mrr@10"],
            "ndcg@10": reported["ndcg@10"],
            "auc": reported["gauc"],
        },
        abs=1e-6,  # RecBole adds in single precision
    )
    assert reported["hit@10"] == reported["recall@10"] > 0
    # Ids, and numbers of candidates, against the ratings themselves.
    last = ratings.sort_values("time").groupby("user").tail(1)
    held = dict(zip("u" + last["user"].astype(str), last["item"].astype(str), strict=True))
    assert dict(zip(rows["user"], rows["item"], strict=True)) == held
    known = ratings["user"].value_counts().rename(lambda user: f"u{user}")
    items = ratings["item"].nunique()
    draws = items - known[rows["user"]] + 1 if model == "BPR" else items
    assert rows["n_items"].tolist() == (draws + 0 * known[rows["user"]]).tolist()
    assert rows["n_negatives"].max() <= 100
    assert rows["n_negatives"].min() < 100  # some negatives were drawn twice
    assert set(rows["recommender"]) == {model}


def test_ties_are_counted_where_recbole_breaks_them(fitted, naive):
    trainer, test_data = fitted("Pop")
    rows = readers.recbole(trainer, test_data, load_best_model=False)
    log = sm.read_log(rows, replacement=False)
    found = sm.estimate(log, ["recall@10", "auc"], identification=False)
    assert rows["n_tied"].sum() > 100
    # GAUC takes the mean rank of equal scores, as we do; Recall@10 takes them as torch leaves them.
    assert naive(found)["auc"] == pytest.approx(rows.attrs["reported"]["gauc"], abs=1e-6)
    low, high = (
        ((rows["n_better"] + rows["n_tied"] * worst) < 10).mean() for worst in (True, False)
    )
    assert low <= rows.attrs["reported"]["recall@10"] <= high


def test_several_relevant_items(fitted, naive):
    ratio = {"split": {"RS": [0.6, 0.1, 0.3]}, "order": "RO", "group_by": "user"}
    trainer, test_data = fitted("BPR", eval_args={**ratio, "mode": "uni50"})
    rows = readers.recbole(trainer, test_data)
    log = sm.read_log(rows, replacement=False)
    found = sm.estimate(log, ["recall@10", "hr@10"], identification=False)
    assert log.frame["n_relevant"].max() > 1
    assert naive(found)["recall@10"] == pytest.approx(rows.attrs["reported"]["recall@10"], abs=1e-6)

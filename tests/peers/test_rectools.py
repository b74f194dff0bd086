"""RecTools: its recommendations, its own metrics of them, and ids and lists of all kinds."""

import numpy as np
import pandas as pd
import pytest
from implicit.als import AlternatingLeastSquares
from rectools import Columns
from rectools.dataset import Dataset
from rectools.metrics import MAP, MRR, NDCG, HitRate, Recall, calc_metrics
from rectools.models import ImplicitALSWrapperModel

import sampled_metrics as sm
from sampled_metrics import readers

METRICS = {
    "recall@10": Recall(10),
    "hit@10": HitRate(10),
    "rr@10": MRR(10),
    "ndcg@10": NDCG(10, divide_by_achievable=True),
}
KINDS = {
    "numbers": (lambda number: number, lambda number: number),
    "text": (lambda number: f"u{number}", lambda number: f"i{number}"),
    "digits as text": (str, str),
    "both": (
        lambda number: f"u{number}" if number % 2 else number,
        lambda number: f"i{number}" if number % 3 else number,
    ),
}


def tables(split, kind):
    """Training, test and drawn interactions of RecTools, with ids of a kind."""
    train, test, negatives = split
    user, item = KINDS[kind]
    rows = [(u, i) for u, own in negatives.items() for i in own]
    drawn = pd.DataFrame(rows, columns=["user", "item"])
    found = []
    for table in (train, test, drawn):
        ids = {Columns.User: table["user"].map(user), Columns.Item: table["item"].map(item)}
        found.append(pd.DataFrame({**ids, Columns.Weight: 1.0, Columns.Datetime: "2020-01-01"}))
    return found


def recommended(train, k=1000, model=None):
    dataset = Dataset.construct(train)
    model = model or ImplicitALSWrapperModel(
        AlternatingLeastSquares(factors=8, iterations=3, random_state=1, num_threads=1)
    )
    model.fit(dataset)
    return model.recommend(train[Columns.User].unique(), dataset, k=k, filter_viewed=True)


def own_metrics(reco, test, drawn, metrics=METRICS):
    """RecTools' metrics of the candidates alone."""
    keys = [Columns.User, Columns.Item]
    wanted = pd.concat([test[keys], drawn[keys]])
    sampled = reco.merge(wanted, on=keys)
    sampled[Columns.Rank] = sampled.groupby(Columns.User, sort=False).cumcount() + 1
    return calc_metrics(metrics, reco=sampled, interactions=test)


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_metrics_in_three_lines_with_ids_of_every_kind(split, naive, kind):
    train, interactions, drawn = tables(split, kind)
    reco = recommended(train)

    rows = readers.rectools(reco, interactions, drawn)
    log = sm.read_log(rows, n_items=200, replacement=False)
    found = sm.estimate(log, list(METRICS), identification=False)

    expected = own_metrics(reco, interactions, drawn)
    assert naive(found) == pytest.approx(expected, abs=1e-12)
    assert rows["n_negatives"].unique().tolist() == [50]
    assert set(rows["user"]) == set(interactions[Columns.User])
    assert set(map(type, rows["user"])) <= {int, str, np.int64}


def test_ndcg_of_rectools_is_ours_if_it_divides_by_what_can_be_had(split, naive):
    train, interactions, drawn = tables(split, "numbers")
    reco = recommended(train)
    log = sm.read_log(readers.rectools(reco, interactions, drawn), n_items=200, replacement=False)
    found = sm.estimate(log, ["ndcg@10"], identification=False)
    by_k = own_metrics(reco, interactions, drawn, {"by k": NDCG(10)})["by k"]
    ideal = (1 / np.log2(np.arange(2, 12))).sum()
    assert naive(found)["ndcg@10"] == pytest.approx(by_k * ideal, abs=1e-12)


def test_without_candidates_all_recommended_items_are(split):
    train, interactions, drawn = tables(split, "text")
    reco = recommended(train)
    rows = readers.rectools(reco, interactions)
    lengths = reco[Columns.User].value_counts()
    assert (rows["n_negatives"] == lengths[rows["user"]].to_numpy() - 1).all()
    assert rows["n_negatives"].min() > drawn[Columns.User].value_counts().max()


@pytest.mark.parametrize("last", [1, 3])
def test_loop_ranks_all_items_as_rectools_does(ratings, added, column, last):
    is_test = ratings["time"] > ratings.groupby("user")["time"].transform("max") - last
    is_known = ratings["item"].isin(ratings[~is_test]["item"])
    parts = ratings[~is_test], ratings[is_test & is_known], {}
    train, interactions, _ = tables(parts, "text")
    reco = recommended(train)
    found = added("rows = readers.rectools(reco", reco=reco, interactions=interactions)["found"]
    own = {"recall@10": Recall(10), "ndcg@10": METRICS["ndcg@10"], "ap": MAP(1000)}
    expected = calc_metrics(own, reco=reco, interactions=interactions)
    estimates = column(found, "estimate")
    assert {name: estimates[name] for name in own} == pytest.approx(expected, abs=1e-12)
    assert column(found, "reported") == estimates
    assert found.frame["users"].tolist() == [interactions[Columns.User].nunique()] * 4
    assert (interactions[Columns.User].value_counts().max() > 1) == (last > 1)

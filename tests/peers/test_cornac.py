"""Cornac: it ranks all items, or those it is given; its metrics of the latter, and ours."""

import numpy as np
import pytest
from cornac.data import Dataset
from cornac.eval_methods import RatioSplit
from cornac.eval_methods.base_method import ranking_eval
from cornac.metrics import AUC, MAP, MRR, NDCG, Recall
from cornac.models import BPR

METRICS = {"recall@10": Recall(k=10), "ndcg@10": NDCG(k=10), "rr": MRR(), "auc": AUC()}


def test_sampled_metrics_in_the_three_lines_of_the_how_to(split, naive, shown):
    train, test, negatives = split
    data = Dataset.from_uir(list(train.assign(time=1.0).itertuples(index=False, name=None)), seed=1)
    model = BPR(k=6, max_iter=30, num_threads=1, seed=2, verbose=False).fit(data)
    # What one evaluates with Cornac: candidates of each user in its own numbers, one relevant.
    users = {user: data.uid_map[user] for user in test["user"]}
    held = {users[u]: data.iid_map[i] for u, i in zip(test["user"], test["item"], strict=True)}
    candidates = {
        users[user]: np.array([held[users[user]], *(data.iid_map[i] for i in own)])
        for user, own in negatives.items()
    }

    given = {"model": model, "candidates": candidates, "held": held, "n_items": data.num_items}
    found = shown("run = {user", list(METRICS), **given)["found"]

    own = {name: [] for name in METRICS}
    for user, items in candidates.items():
        ranked, scores = model.rank(user_idx=user, item_indices=np.sort(items), k=-1)
        for name, metric in METRICS.items():
            own[name].append(
                metric.compute(
                    gt_pos=items[:1],
                    gt_neg=np.sort(items[1:]),
                    pd_rank=ranked,
                    pd_scores=scores,
                    item_indices=np.sort(items),
                )
            )
    expected = {name: np.mean(values) for name, values in own.items()}
    assert naive(found) == pytest.approx(expected, abs=1e-12)
    assert 0 < expected["recall@10"] < 1


@pytest.mark.parametrize("validated", [0.0, 0.2])
def test_loop_ranks_all_items_as_cornacs_experiments_do(ratings, added, column, validated):
    given = list(ratings.assign(time=1.0).itertuples(index=False, name=None))
    parts = RatioSplit(given, test_size=0.3, val_size=validated, seed=3)
    model = BPR(k=6, max_iter=30, num_threads=1, seed=2, verbose=False).fit(parts.train_set)
    known = [parts.train_set, parts.val_set] if validated else [parts.train_set]
    found = added("users, n_items = ", model=model, test_set=parts.test_set, known=known)["found"]
    metrics = {"recall@10": Recall(k=10), "ndcg@10": NDCG(k=10), "ap": MAP(), "auc": AUC()}
    expected, users = ranking_eval(
        model, list(metrics.values()), parts.train_set, parts.test_set, parts.val_set
    )
    estimates = column(found, "estimate")
    assert estimates == pytest.approx(dict(zip(metrics, expected, strict=True)), abs=1e-12)
    assert column(found, "reported") == estimates
    assert found.frame["users"].tolist() == [len(users[0])] * 4
    assert max(parts.test_set.csr_matrix.getnnz(axis=1)) > 1

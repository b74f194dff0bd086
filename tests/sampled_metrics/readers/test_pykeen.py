"""What an evaluator of PyKEEN holds, against its triples."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from sampled_metrics.evaluation import estimate
from sampled_metrics.log.read import read_log
from sampled_metrics.readers import pykeen

from .counts import Tensor, rows_of

ASKED, KNOWN = [(0, 0, 1), (2, 0, 1)], np.array([[0, 0, 3], [4, 0, 1]])


def evaluator(sampled=True, **changes):
    """What PyKEEN's evaluators hold after two batches of one triple; ranks as floats and whole."""
    ranks_by_side = defaultdict(list)
    ranks = {"head": ([2, 1], [2, 3]), "tail": ([1, 3], [1, 3])}
    for side, (first, last) in ranks.items():
        for optimistic, pessimistic in zip(first, last, strict=True):
            ranks_by_side[side, "optimistic"].append(np.array([optimistic]))
            ranks_by_side[side, "pessimistic"].append(np.array([pessimistic]))
            ranks_by_side[side, "realistic"].append(
                np.array([(optimistic + pessimistic) / 2], np.float32)
            )
    sizes = {"head": [np.array([3])] * 2, "tail": [np.array([3])] * 2}
    drawn = {"head": np.array([[1, 3], [3, 1]]), "tail": np.array([[0, 4], [0, 2]])}
    sampling = {"negative_samples": drawn, "num_entities": 5} if sampled else {}
    index_by_triple = {triple: i for i, triple in enumerate(ASKED)}
    attributes = {
        "ranks": ranks_by_side,
        "num_candidates": sizes,
        "triple_to_index": index_by_triple,
        **sampling,
        **changes,
    }
    return SimpleNamespace(**attributes)


def test_ranks_of_pykeen_are_two_instances_of_a_triple():
    rows = pykeen(evaluator(), recommender="RotatE")
    assert rows[["user", "instance"]].to_numpy().tolist() == [
        [0, "head"], [1, "head"], [0, "tail"], [1, "tail"],
    ]  # fmt: skip
    assert rows_of(rows) == [[1, 0, 2], [0, 2, 2], [0, 0, 2], [2, 0, 2]]
    log = read_log(rows, n_items=5)
    assert not log.replacement
    estimates = estimate(log, ["hit@1", "auc"], identification=False)
    user_values = [np.mean([0, 1]), np.mean([1 / 3, 0])]
    assert estimates.frame["reported"].tolist() == pytest.approx([np.mean(user_values), 0.5])
    assert estimates.frame["users"].tolist() == [2, 2]


def test_candidates_are_what_filtering_leaves():
    # Heads of (?, 0, 1) are 0, 2 and 4: two others are filtered. Tails of (0, 0, ?) are 1 and 3.
    expected = [3, 3, 4, 5]
    for known_triples in (KNOWN, [KNOWN[:1], Tensor(KNOWN[1:])], (KNOWN, np.array(ASKED))):
        assert pykeen(evaluator(), known=known_triples)["n_items"].tolist() == expected


def test_ranks_among_all_entities_are_an_evaluation_that_drew_every_negative():
    rows = pykeen(evaluator(sampled=False))
    assert rows["n_items"].tolist() == [3] * 4
    log = read_log(rows)
    assert (log.frame["n_negatives"] == 2).all()


def test_predictions_without_a_negative_are_left_out_and_named():
    one_sided = evaluator(sampled=False)
    one_sided.num_candidates["tail"] = [np.array([1]), np.array([3])]
    with pytest.warns(UserWarning, match="1 of 4 predictions are left out: filtering leaves"):
        rows = pykeen(one_sided)
    assert rows[["user", "instance"]].to_numpy().tolist() == [[0, "head"], [1, "head"], [1, "tail"]]


def test_what_is_no_evaluator_with_ranks_is_refused():
    with pytest.raises(ValueError, match="clear_on_finalize=False, and evaluate"):
        pykeen(evaluator(ranks={}))
    with pytest.raises(ValueError, match="got object without"):
        pykeen(object())
    with pytest.raises(ValueError, match="known must be omitted for ranks among all"):
        pykeen(evaluator(sampled=False), known=KNOWN)
    repeated = {"head": np.array([[1, 1], [3, 1]]), "tail": np.array([[0, 4], [0, 2]])}
    with pytest.raises(ValueError, match=r"one twice for 1 of 2 triples \(head\).*negatives = 2"):
        pykeen(evaluator(negative_samples=repeated))
    with pytest.raises(ValueError, match=r"got 2 ranks of 1 triples"):
        pykeen(evaluator(triple_to_index={ASKED[0]: 0}), known=KNOWN)
    with pytest.raises(ValueError, match=r"of shape \(n, 3\), got shapes \[\(2,\)\]"):
        pykeen(evaluator(), known=np.array([1, 2]))

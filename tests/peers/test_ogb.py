"""OGB: its evaluators of MRR and Hits@k, and ours (`make test-graphs`)."""

import numpy as np
import pytest
import torch
from ogb.linkproppred import Evaluator

from sampled_metrics import readers
from sampled_metrics.ranking.intervals import RankIntervals


def places(rows):
    return RankIntervals(rows["n_better"], rows["n_tied"], rows["n_negatives"] + 1)


def test_arrays_of_its_mrr_in_the_three_lines_of_the_how_to(naive, shown):
    rng = np.random.default_rng(2)
    given = {
        "y_pred_pos": torch.tensor(rng.normal(1, 1, 300)),
        "y_pred_neg": torch.tensor(rng.normal(0, 1, (300, 50))),
    }
    ran = shown("rows = readers.link_prediction", ["rr", "hit@10"], **given, n_items=20_000)
    reported = Evaluator("ogbl-citation2").eval(given)  # of NumPy's arrays it asks for a dim
    expected = {name: float(reported[f"{theirs}_list"].mean()) for name, theirs in
                (("rr", "mrr"), ("hit@10", "hits@10"))}  # fmt: skip
    assert naive(ran["found"]) == pytest.approx(expected, abs=1e-6)


def test_equal_scores_get_the_middle_rank_in_mrr():
    rng = np.random.default_rng(3)
    arrays = rng.integers(0, 5, 80), rng.integers(0, 5, (80, 20))
    given = dict(zip(("y_pred_pos", "y_pred_neg"), map(torch.tensor, arrays), strict=True))
    reported = Evaluator("ogbl-wikikg2").eval(given)
    found = places(readers.link_prediction(*given.values()))
    for ours, theirs in (("rr", "mrr_list"), ("hit@1", "hits@1_list"), ("hit@3", "hits@3_list")):
        values = np.asarray(reported[theirs])
        assert found.evaluate(ours, "realistic") == pytest.approx(values, abs=1e-6)


def test_equal_scores_come_last_in_hits_among_shared_negatives():
    rng = np.random.default_rng(4)
    given = {"y_pred_pos": rng.integers(0, 40, 80), "y_pred_neg": rng.integers(0, 40, 500)}
    reported = Evaluator("ogbl-ddi").eval(given)["hits@20"]
    found = places(readers.link_prediction(*given.values())).evaluate("hit@20", "pessimistic")
    assert found.mean() == pytest.approx(reported)
    assert 0 < reported < 1

"""Readers of link prediction against counting edge by edge, and against stand-ins of PyKEEN's.

tests/peers has them on PyKEEN itself.
"""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics import readers
from sampled_metrics.evaluation import estimate
from sampled_metrics.log.read import read_log
from sampled_metrics.metrics import metric
from sampled_metrics.published_tables import published
from sampled_metrics.ranking.exact import RankIntervals
from sampled_metrics.readers import links
from sampled_metrics.readers.links import link_prediction, pykeen, pykeen_metrics

COUNTS = ["n_better", "n_tied", "n_negatives"]
scores = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf])


def rows_of(frame):
    return frame[COUNTS].to_numpy().tolist()


def by_hand(own, lists):
    """One edge at a time: negatives above, level and in all."""
    return [
        [sum(s > mine for s in row), sum(s == mine for s in row), len(row)]
        for mine, row in zip(own, lists, strict=True)
    ]


class Tensor:
    """What a reader sees of a tensor."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values


@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_counts_equal_those_by_hand(data, n_edges, m):
    own = data.draw(st.lists(scores, min_size=n_edges, max_size=n_edges))
    table = [data.draw(st.lists(scores, min_size=m, max_size=m)) for _ in own]
    wanted = by_hand(own, table)
    assert rows_of(link_prediction(own, table)) == wanted
    assert rows_of(link_prediction(Tensor(np.array(own)), Tensor(np.array(table)))) == wanted
    shared = by_hand(own, [table[0]] * n_edges)
    assert rows_of(link_prediction(own, np.array(table[0]))) == shared
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n_edges * m, max_size=n_edges * m)))
    mask = mask.reshape(n_edges, m)
    mask[:, 0] = False
    left = [[s for s, out in zip(row, gone, strict=True) if not out]
            for row, gone in zip(table, mask, strict=True)]  # fmt: skip
    noise = np.where(mask, np.nan, table)  # what is filtered may be anything, as NaN in PyKEEN
    assert rows_of(link_prediction(own, noise, filtered=mask)) == by_hand(own, left)
    assert rows_of(link_prediction(own, left)) == by_hand(own, left)


def test_many_edges_are_counted_some_at_a_time(monkeypatch):
    rng = np.random.default_rng(4)
    own, table = rng.integers(0, 9, 50), rng.integers(0, 9, (50, 7))
    whole = rows_of(link_prediction(own, table))
    monkeypatch.setattr(links, "_BLOCK", 20)
    assert rows_of(link_prediction(own, table)) == whole == by_hand(own, table)


def test_a_log_of_filtered_candidates_has_sizes_of_its_own():
    rng = np.random.default_rng(5)
    own, table = rng.random(40), rng.random((40, 12))
    sizes = rng.integers(30, 60, 40)
    rows = link_prediction(own, table, n_items=sizes, recommender="TransE")
    log = read_log(rows, replacement=False)
    assert log.frame["n_items"].tolist() == sizes.tolist()
    assert log.recommenders == ("TransE",)
    found = estimate(log, ["rr"], identification=False).frame["reported"].item()
    assert found == pytest.approx(np.mean(1 / (1 + (table > own[:, None]).sum(axis=1))), abs=1e-12)
    with pytest.raises(ValueError, match="replacement is missing"):
        read_log(rows)


@pytest.mark.parametrize(
    ("own", "negatives", "options", "said"),
    [
        ([], [[1]], {}, r"y_pred_pos must have shape \(n_edges,\), got \(0,\)"),
        ([[1.0]], [[1]], {}, r"y_pred_pos must have shape \(n_edges,\), got \(1, 1\)"),
        (["a"], [[1]], {}, "y_pred_pos must hold real numbers"),
        ([[1], [1, 2]], [[1]], {}, "y_pred_pos must hold real numbers"),
        ([1.0, np.nan], [[1], [2]], {}, "y_pred_pos must not be NaN, got one for edge 1"),
        ([1.0, 2.0], [[1.0], [np.nan]], {}, "y_pred_neg must not be NaN, got one for edge 1"),
        ([1.0, 2.0], [[1.0, 3.0], [np.nan]], {}, "y_pred_neg must not be NaN, got one for edge 1"),
        ([1.0], [1.0, np.nan], {}, "y_pred_neg must not be NaN"),
        ([1.0, 2.0], [[1.0]], {}, "a row for each of 2 edges, got 1"),
        ([1.0], [["a"]], {}, r"y_pred_neg must have shape \(n_edges, m\)"),
        ([1.0, 2.0], [["a"], ["b", "c"]], {}, "y_pred_neg must hold real numbers"),
        ([1.0], [[[1.0]]], {}, r"y_pred_neg must have shape \(n_edges, m\) or \(m,\), got \(1, 1"),
        ([1.0, 2.0], [[1.0], []], {}, "a negative for each edge, got none for edge 1"),
        ([1.0], [[1.0]], {"filtered": [[True]]}, "got none for edge 0"),
        ([1.0], [[1.0]], {"filtered": [[1]]}, "filtered must be True or False for each"),
        ([1.0], [1.0], {"filtered": [True]}, "filtered must be omitted where all edges share"),
        ([1.0], [[1.0]], {"n_items": [5, 6]}, "one number or one for each of 1 edges"),
        ([1.0], [[1.0]], {"n_items": 1}, "n_items must be >= 2, got 1"),
    ],
)
def test_what_is_no_prediction_of_links_is_refused(own, negatives, options, said):
    with pytest.raises(ValueError, match=said):
        link_prediction(own, negatives, **options)


#: Triples of a graph with 5 nodes: two that are evaluated, and two that are known.
ASKED, KNOWN = [(0, 0, 1), (2, 0, 1)], np.array([[0, 0, 3], [4, 0, 1]])


def evaluator(sampled=True, **changes):
    """What PyKEEN's evaluators hold after two batches of one triple; ranks as floats and whole."""
    held = defaultdict(list)
    ranks = {"head": ([2, 1], [2, 3]), "tail": ([1, 3], [1, 3])}
    for target, (first, last) in ranks.items():
        for a, b in zip(first, last, strict=True):
            held[target, "optimistic"].append(np.array([a]))
            held[target, "pessimistic"].append(np.array([b]))
            held[target, "realistic"].append(np.array([(a + b) / 2], np.float32))
    sizes = {"head": [np.array([3])] * 2, "tail": [np.array([3])] * 2}
    drawn = {"head": np.array([[1, 3], [3, 1]]), "tail": np.array([[0, 4], [0, 2]])}
    more = {"negative_samples": drawn, "num_entities": 5} if sampled else {}
    asked = {triple: i for i, triple in enumerate(ASKED)}
    given = {"ranks": held, "num_candidates": sizes, "triple_to_index": asked, **more, **changes}
    return SimpleNamespace(**given)


def test_ranks_of_pykeen_are_two_instances_of_a_triple():
    rows = pykeen(evaluator(), recommender="RotatE")
    assert rows[["user", "instance"]].to_numpy().tolist() == [
        [0, "head"], [1, "head"], [0, "tail"], [1, "tail"],
    ]  # fmt: skip
    assert rows_of(rows) == [[1, 0, 2], [0, 2, 2], [0, 0, 2], [2, 0, 2]]
    log = read_log(rows, n_items=5)
    assert not log.replacement
    found = estimate(log, ["hit@1", "auc"], identification=False)
    users = [np.mean([0, 1]), np.mean([1 / 3, 0])]
    assert found.frame["reported"].tolist() == pytest.approx([np.mean(users), 0.5])
    assert found.frame["users"].tolist() == [2, 2]


def test_candidates_are_what_filtering_leaves():
    # Heads of (?, 0, 1) are 0, 2 and 4: two others are filtered. Tails of (0, 0, ?) are 1 and 3.
    wanted = [3, 3, 4, 5]
    for known in (KNOWN, [KNOWN[:1], Tensor(KNOWN[1:])], (KNOWN, np.array(ASKED))):
        assert pykeen(evaluator(), known=known)["n_items"].tolist() == wanted


def test_ranks_among_all_entities_are_an_evaluation_that_drew_every_negative():
    rows = pykeen(evaluator(sampled=False))
    assert rows["n_items"].tolist() == [3] * 4
    log = read_log(rows)
    assert (log.frame["n_negatives"] == 2).all()


def test_predictions_without_a_negative_are_left_out_and_named():
    held = evaluator(sampled=False)
    held.num_candidates["tail"] = [np.array([1]), np.array([3])]
    with pytest.warns(UserWarning, match="1 of 4 predictions are left out: filtering leaves"):
        rows = pykeen(held)
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


def test_averages_of_pykeen_are_a_row_of_a_published_table():
    ranks, m = np.array([1, 3, 11, 2, 1, 7] * 50), 10  # sampled ranks
    flat = {
        "both.realistic.hits_at_1": (ranks == 1).mean(),
        "both.realistic.hits_at_10": (ranks <= 10).mean(),
        "both.realistic.adjusted_hits_at_10": 0.4,
        "both.realistic.inverse_harmonic_mean_rank": (1 / ranks).mean(),
        "both.realistic.adjusted_arithmetic_mean_rank_index": 1 - (ranks.mean() - 1) / (m / 2),
        "head.realistic.hits_at_10": 0.25,
        "both.optimistic.hits_at_10": 0.5,
    }
    row = pykeen_metrics(SimpleNamespace(to_flat_dict=lambda: flat), method="ComplEx")
    assert row.columns.tolist() == ["method", "HR@1", "HR@10", "MRR", "AUC"]
    assert row["AUC"].item() == f"{1 - (ranks - 1).mean() / m:.6f}"
    found = published(row, n_items=100, n_negatives=m, users=ranks.size, replacement=False)
    assert found.checks["together"].all()
    low, high = found.frame.set_index("metric").loc["auc", ["low", "high"]]
    assert low < float(row["AUC"].item()) < high
    assert pykeen_metrics(flat, side="head").to_dict("list") == {
        "method": ["method"], "HR@10": ["0.250000"],
    }  # fmt: skip
    assert pykeen_metrics(flat, ties="optimistic")["HR@10"].tolist() == ["0.500000"]
    with pytest.raises(ValueError, match="metric of side 'tail' with ties 'realistic', got both"):
        pykeen_metrics(flat, side="tail")


def test_readers_have_the_names_too():
    assert readers.link_prediction is link_prediction
    assert (readers.pykeen, readers.pykeen_metrics) == (pykeen, pykeen_metrics)


@pytest.mark.parametrize("name", ["rr", "hit@1", "ndcg@3", "auc"])
def test_the_realistic_rank_is_the_middle_of_the_interval(name):
    places = RankIntervals([0, 1, 4], [0, 3, 1], [9, 9, 12])
    middle = np.array([1.0, 3.5, 5.5])
    defined = {
        "rr": 1 / middle,
        "hit@1": (middle <= 1) * 1.0,
        "ndcg@3": np.where(middle <= 3, 1 / np.log2(middle + 1), 0),
        "auc": 1 - (middle - 1) / np.array([8, 8, 11]),
    }
    assert places.evaluate(name, "realistic") == pytest.approx(defined[name], abs=1e-15)
    if name == "auc":
        assert places.evaluate(metric(name)) == pytest.approx(defined[name], abs=1e-15)
    with pytest.raises(ValueError, match="n_candidates must be >= 2"):
        RankIntervals([0], [0], [1]).evaluate(name, "realistic")


def test_a_frame_of_links_survives_a_file(tmp_path):
    rows = link_prediction([0.5, 0.1], [[0.2, 0.7], [0.1, 0.0]], n_items=20)
    rows.to_csv(tmp_path / "links.csv", index=False)
    log = read_log(tmp_path / "links.csv", replacement=True)
    pd.testing.assert_frame_equal(log.frame[COUNTS], rows[COUNTS], check_dtype=False)

"""Scores of edges against counting by hand, and their log."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics.evaluation import estimate
from sampled_metrics.log.read import read_log
from sampled_metrics.readers import link_prediction

from .counts import Tensor, rows_of

scores = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf])


def by_hand(positives, negatives):
    """One edge at a time: negatives above, level and in all."""
    return [
        [sum(score > positive for score in row), sum(score == positive for score in row), len(row)]
        for positive, row in zip(positives, negatives, strict=True)
    ]


@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_counts_equal_those_by_hand(data, n_edges, m):
    positives = data.draw(st.lists(scores, min_size=n_edges, max_size=n_edges))
    table = [data.draw(st.lists(scores, min_size=m, max_size=m)) for _ in positives]
    expected = by_hand(positives, table)
    assert rows_of(link_prediction(positives, table)) == expected
    assert (
        rows_of(link_prediction(Tensor(np.array(positives)), Tensor(np.array(table)))) == expected
    )
    shared = by_hand(positives, [table[0]] * n_edges)
    assert rows_of(link_prediction(positives, np.array(table[0]))) == shared
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n_edges * m, max_size=n_edges * m)))
    mask = mask.reshape(n_edges, m)
    mask[:, 0] = False
    kept_scores = [[score for score, is_masked in zip(row, mask_row, strict=True) if not is_masked]
            for row, mask_row in zip(table, mask, strict=True)]  # fmt: skip
    noise = np.where(mask, np.nan, table)  # what is filtered may be anything, as NaN in PyKEEN
    assert rows_of(link_prediction(positives, noise, filtered=mask)) == by_hand(
        positives, kept_scores
    )
    assert rows_of(link_prediction(positives, kept_scores)) == by_hand(positives, kept_scores)


def test_earlier_partners_are_left_out():
    rng = np.random.default_rng(6)
    positives, table = rng.integers(0, 9, 50), rng.integers(0, 9, (50, 7))
    number = rng.integers(0, 6, 50)
    is_partner, is_filtered = np.arange(7) < number[:, None], np.arange(7) == 5
    mask = is_partner | is_filtered
    ragged = [row[: 6 + i % 2] for i, row in enumerate(table)]
    ragged_mask = [row[: 6 + i % 2] for i, row in enumerate(is_partner)]
    expected = by_hand(positives, [row[n:] for row, n in zip(table, number, strict=True)])
    for historical in (number, is_partner, Tensor(number), is_partner.tolist()):
        assert rows_of(link_prediction(positives, table, historical=historical)) == expected
    first = by_hand(positives, [row[:3] for row in table])
    for uniform in (3, np.tile(np.arange(7) < 3, (50, 1))):
        assert rows_of(link_prediction(positives, table, uniform=uniform)) == first
    both = link_prediction(
        positives, table, historical=number, filtered=np.tile(is_filtered, (50, 1))
    )
    kept = [row[~left_out] for row, left_out in zip(table, mask, strict=True)]
    assert rows_of(both) == by_hand(positives, kept)
    expected = by_hand(positives, [row[n:] for row, n in zip(ragged, number, strict=True)])
    for historical in (number, ragged_mask):
        assert rows_of(link_prediction(positives, ragged, historical=historical)) == expected


def test_intervals_without_earlier_partners_hold_the_exact_value():
    rng = np.random.default_rng(7)
    n, m, n_past = 2000, 60, 25
    positives = rng.normal(3, 1, 800)
    scores = rng.normal(size=(800, n - 1))
    scores[:, :n_past] += 2.5  # partners come first, and 20 of them are in each list
    lists = [
        np.r_[rng.choice(row[:n_past], 20, False), rng.choice(row[n_past:], m - 20, False)]
        for row in scores
    ]
    above = (scores[:, n_past:] > positives[:, None]).sum(axis=1)
    exact = {"rr": (1 / (above + 1)).mean(), "auc": 1 - above.mean() / (n - 1 - n_past)}
    frames = {}
    for historical in (20, None):
        rows = link_prediction(positives, lists, historical=historical)
        log = read_log(rows, n_items=n - n_past, replacement=False)
        frames[historical] = estimate(log, list(exact)).frame.set_index("metric")
    for name, value in exact.items():
        assert frames[20]["possible_low"][name] <= value <= frames[20]["possible_high"][name]
    assert frames[None]["possible_high"]["auc"] < exact["auc"]


def test_many_edges_are_counted_some_at_a_time(monkeypatch):
    rng = np.random.default_rng(4)
    positives, table = rng.integers(0, 9, 50), rng.integers(0, 9, (50, 7))
    expected = rows_of(link_prediction(positives, table))
    monkeypatch.setattr(import_module("sampled_metrics.readers.link_prediction"), "_BLOCK", 20)
    assert rows_of(link_prediction(positives, table)) == expected == by_hand(positives, table)


def test_a_log_of_filtered_candidates_has_sizes_of_its_own():
    rng = np.random.default_rng(5)
    positives, table = rng.random(40), rng.random((40, 12))
    sizes = rng.integers(30, 60, 40)
    rows = link_prediction(positives, table, n_items=sizes, recommender="TransE")
    log = read_log(rows, replacement=False)
    assert log.frame["n_items"].tolist() == sizes.tolist()
    assert log.recommenders == ("TransE",)
    reported = estimate(log, ["rr"], identification=False).frame["reported"].item()
    assert reported == pytest.approx(
        np.mean(1 / (1 + (table > positives[:, None]).sum(axis=1))), abs=1e-12
    )
    with pytest.raises(ValueError, match="replacement is missing"):
        read_log(rows)


@pytest.mark.parametrize(
    ("own", "negatives", "options", "said"),
    [
        ([], [[1]], {}, r"y_pred_pos must have shape \(n_edges,\), got \(0,\)"),
        ([[1.0]], [[1]], {}, r"y_pred_pos must have shape \(n_edges,\), got \(1, 1\)"),
        ([1.0, np.nan], [[1], [2]], {}, "y_pred_pos must not be NaN, got one for edge 1"),
        ([1.0, 2.0], [[1.0], [np.nan]], {}, "y_pred_neg must not be NaN, got one for edge 1"),
        ([1.0, 2.0], [[1.0]], {}, "a row for each of 2 edges, got 1"),
        ([1.0], [["a"]], {}, r"y_pred_neg must have shape \(n_edges, m\)"),
        ([1.0], [[[1.0]]], {}, r"y_pred_neg must have shape \(n_edges, m\) or \(m,\), got \(1, 1"),
        ([1.0, 2.0], [[1.0], []], {}, "a negative for each edge, got none for edge 1"),
        ([1.0], [[1.0]], {"filtered": [[True]]}, "got none for edge 0"),
        ([1.0], [1.0], {"filtered": [True]}, "filtered must be omitted where all edges share"),
        ([1.0], [1.0], {"historical": 1}, "historical must be omitted where all edges share"),
        ([1.0], [[1.0]], {"historical": 1}, "a negative for each edge, got none for edge 0"),
        ([1.0], [[1.0]], {"historical": [1, 2]}, "one number or one for each of 1 edges"),
        ([1.0], [[1.0]], {"historical": [[1]]}, "historical must be True or False for each"),
        ([1.0], [1.0], {"uniform": 1}, "uniform must be omitted where all edges share"),
        ([1.0], [[1.0]], {"n_items": [5, 6]}, "one number or one for each of 1 edges"),
    ],
)
def test_what_is_no_prediction_of_links_is_refused(own, negatives, options, said):
    with pytest.raises(ValueError, match=said):
        link_prediction(own, negatives, **options)

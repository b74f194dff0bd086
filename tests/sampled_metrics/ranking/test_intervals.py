"""Metrics of intervals of ranks against the mean over every order of ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics import metric
from sampled_metrics.ranking.intervals import RankIntervals

METRICS = ["auc", "recall@3", "precision@3", "hit@2", "ap", "ap@4", "ndcg", "ndcg@4", "rr"]


interval = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30)).map(
    lambda t: (t[0], t[1], t[0] + t[1] + 1 + t[2])
)


@given(st.lists(interval, min_size=1, max_size=8), st.sampled_from(METRICS))
def test_mean_is_the_average_over_every_place(rows, name):
    intervals = RankIntervals(*np.array(rows).T)
    expected = [
        np.mean([metric(name)(b + 1 + place, n_items=n) for place in range(t + 1)])
        for b, t, n in rows
    ]
    means = intervals.evaluate(metric(name), "mean")
    np.testing.assert_allclose(means, expected, rtol=1e-12, atol=1e-14)


def test_random_places_are_uniform():
    draws = RankIntervals(*np.full((3, 60_000), [[4], [5], [20]])).ranks(
        "random", np.random.default_rng(2020)
    )
    places, counts = np.unique(draws, return_counts=True)
    assert places.tolist() == [5, 6, 7, 8, 9, 10]
    chi_square = ((counts - 10_000) ** 2 / 10_000).sum()
    assert chi_square < 20.5  # the 0.999 quantile with 5 degrees of freedom


def test_metrics_are_means_over_ties_and_ranks_need_a_policy():
    tied = RankIntervals([0], [3], [5])
    assert tied.evaluate("rr") == tied.evaluate("rr", "mean") == (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    with pytest.raises(TypeError, match="ties"):
        RankIntervals([0], [0], [5]).ranks()


def test_a_seed_stands_for_its_generator():
    intervals = RankIntervals([1] * 50, [7] * 50, [20] * 50)
    drawn_ranks = intervals.ranks("random", 3)
    assert drawn_ranks.tolist() == intervals.ranks("random", np.random.default_rng(3)).tolist()
    assert drawn_ranks.tolist() == intervals.ranks("random", np.int64(3)).tolist()
    assert drawn_ranks.tolist() != intervals.ranks("random", 4).tolist()
    assert intervals.evaluate("rr", "random", 3).tolist() == (1 / drawn_ranks).tolist()


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

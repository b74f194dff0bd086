"""What the first chapters compute, against enumeration and independent definitions."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from sampled_book.chapters.inconsistency import averaged, course
from sampled_book.chapters.index import opening
from sampled_book.chapters.movielens import under_ties
from sampled_book.chapters.one_negative import not_linear
from sampled_book.reference.enumeration import by_items, chi_square, exact_pmf, ndcg_by_integral
from sampled_metrics import Protocol, metric
from sampled_metrics.ranking.intervals import RankIntervals

TOY = {"A": [4, 4, 4], "B": [2, 11, 12], "C": [1, 9, 8]}


def mean_by_enumeration(name, ranks, n, m):
    values = metric(name)(np.arange(1, m + 2), m + 1)
    return float(np.mean([np.array(exact_pmf(n, m, r, False), float) @ values for r in ranks]))


@pytest.mark.parametrize("name", ["ap", "recall@2"])
def test_a_course_has_every_expectation_and_every_crossing(name):
    toy_course = course(TOY, name, Protocol(12, 11, replacement=False), points=50)
    assert toy_course.expected.index.tolist() == list(range(1, 12))
    slowly = {m: [mean_by_enumeration(name, r, 12, m) for r in TOY.values()] for m in range(1, 12)}
    assert toy_course.expected.to_numpy() == pytest.approx(
        np.array(list(slowly.values())), rel=1e-12
    )
    assert toy_course.exact == pytest.approx({k: metric(name)(r).mean() for k, r in TOY.items()})
    crossed = set()
    for before, after in pairwise(slowly):
        for i, j in ((0, 1), (0, 2), (1, 2)):
            gaps = [np.round(slowly[m][i] - slowly[m][j], 12) for m in (before, after)]
            if gaps[0] * gaps[1] < 0:
                crossed.add((after, round((slowly[after][i] + slowly[after][j]) / 2, 10)))
    assert crossed
    assert {(m, round(height, 10)) for m, height in toy_course.crossings} == crossed


def test_relative_courses_average_one_and_keep_their_order():
    toy_course = course(TOY, "ndcg", Protocol(12, 11, replacement=False))
    relative = toy_course.relative()
    assert relative.expected.mean(axis=1).to_numpy() == pytest.approx(1)
    assert np.mean(list(relative.exact.values())) == pytest.approx(1)
    for (m, height), (_, before) in zip(relative.crossings, toy_course.crossings, strict=True):
        assert height == pytest.approx(before / toy_course.expected.loc[m].mean())


def test_what_a_line_leaves_is_that_of_a_regression():
    values = metric("ndcg")(np.arange(1, 41))
    r = stats.linregress(np.arange(40), values).rvalue
    assert not_linear(values) == pytest.approx(1 - r**2, rel=1e-12)


def test_mean_over_ties_is_that_of_every_place():
    intervals = RankIntervals([1, 0], [3, 0], [9, 9])
    table = under_ties(intervals, ["ap", "auc"], 4, seed=1)
    tied_ranks, untied_ranks = range(2, 6), [1]
    for name, column in (("ap", "AP"), ("auc", "AUC")):
        exact = [
            np.mean([metric(name)(r, 9) for r in ranks]) for ranks in (tied_ranks, untied_ranks)
        ]
        sampled = [
            np.mean([mean_by_enumeration(name, [r], 9, 4) for r in ranks])
            for ranks in (tied_ranks, untied_ranks)
        ]
        assert table.loc[("mean", "exact"), column] == pytest.approx(100 * np.mean(exact))
        assert table.loc[("mean", "sampled"), column] == pytest.approx(100 * np.mean(sampled))
    best = [mean_by_enumeration("ap", [r], 9, 4) for r in (2, 1)]
    assert table.loc[("optimistic", "sampled"), "AP"] == pytest.approx(100 * np.mean(best))


def test_an_average_over_ties_is_that_of_every_place():
    intervals = RankIntervals([1, 0, 4], [3, 0, 2], [9, 9, 9])
    for name in ("ap", "recall@2", "auc"):
        means = [mean_by_enumeration(name, list(r), 9, 4) for r in (range(2, 6), [1], range(5, 8))]
        assert averaged(intervals, name, 4) == pytest.approx(np.mean(means), rel=1e-12)


def test_the_start_page_says_from_where_the_order_is_right():
    ranks = {"X": np.repeat([1, 9, 12], 10), "Z": np.repeat([2, 2, 59], 10)}
    n, zeros = np.full(30, 60), np.zeros(30, dtype=int)
    intervals = {name: RankIntervals(r - 1, zeros, n) for name, r in ranks.items()}
    curves, exact, (m, height) = opening(intervals, "recall@3", 12, points=4)
    protocol = Protocol(60, 59, replacement=False)
    (last,) = [m for m in course(ranks, "recall@3", protocol).orders.flips if m > 12]
    assert m == last
    values = [100 * mean_by_enumeration("recall@3", r.tolist(), 60, m) for r in ranks.values()]
    assert height == pytest.approx(np.mean(values), rel=1e-12)
    assert curves.loc[m].tolist() == pytest.approx(values, rel=1e-12)
    assert exact == pytest.approx({"X": 100 / 3, "Z": 200 / 3})


@pytest.mark.parametrize("replacement", [True, False])
def test_items_are_drawn_as_said_and_the_test_tells_the_ways_apart(replacement):
    drawn = by_items(30, 10, 7, replacement, 4_000, seed=1)
    p = {
        assumed: chi_square(drawn, Protocol(30, 10, replacement=assumed).pmf(7))[2]
        for assumed in (True, False)
    }
    assert p[replacement] > 1e-3
    assert p[not replacement] < 1e-6


def test_the_integral_is_the_sum():
    pmf = exact_pmf(9, 4, 5, False)
    summed = sum(float(q) / np.log2(x + 2) for x, q in enumerate(pmf))
    assert float(ndcg_by_integral(pmf)) == pytest.approx(summed, rel=1e-14)

"""Ties broken at random in a sampled evaluation: the law in closed form, against its definition."""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics.numerics.distributions import spread_ties
from sampled_metrics.ranking.intervals import RankIntervals
from tests.reference import exact_pmf

pytestmark = pytest.mark.words


@st.composite
def tied_instances(draw):
    n = draw(st.integers(3, 40))
    better = draw(st.integers(0, n - 1))
    return n, better, draw(st.integers(0, n - 1 - better)), draw(st.integers(1, n - 1))


@given(tied_instances())
def test_law_is_the_mean_of_the_laws_over_the_interval(instance):
    n, better, tied, m = instance
    pmfs = [exact_pmf(n, m, rank, False) for rank in range(better + 1, better + tied + 2)]
    mean = [float(sum(column) / len(pmfs)) for column in zip(*pmfs, strict=True)]
    pmf = RankIntervals([better], [tied], [n]).sampled_pmf(m)
    assert pmf.shape == (1, m + 1)
    assert np.allclose(pmf[0], mean, rtol=0, atol=1e-13)


def test_ties_broken_in_the_catalogue_or_in_the_sample_are_one_law():
    # Enumerated: b better, t tied, the rest worse; the item takes each place among the tied
    # negatives of the sample with equal chance.
    n, b, t, m = 9, 2, 4, 3
    pmf = [Fraction(0)] * (m + 1)
    for x in range(min(b, m) + 1):
        for k in range(min(t, m - x) + 1):
            n_samples = comb(b, x) * comb(t, k) * comb(n - 1 - b - t, m - x - k)
            for place in range(k + 1):
                pmf[x + place] += Fraction(n_samples, comb(n - 1, m) * (k + 1))
    sampled_pmf = RankIntervals([b], [t], [n]).sampled_pmf(m)[0]
    assert np.allclose(sampled_pmf, [float(p) for p in pmf], rtol=1e-13)


@pytest.mark.parametrize(
    ("n", "b", "t", "m"), [(6, 1, 2, 3), (5, 0, 4, 4), (7, 5, 0, 3), (2, 0, 1, 5), (7, 3, 1, 2)]
)
def test_with_replacement_copies_of_an_item_share_its_place(n, b, t, m):
    # Enumerated: every order of the item (-1) and its ties, every sequence of m draws.
    outcomes = Counter()
    for order in permutations([-1, *range(b, b + t)]):
        above = {*range(b), *order[: order.index(-1)]}
        for drawn in product(range(n - 1), repeat=m):
            outcomes[sum(i in above for i in drawn)] += 1
    chances = [float(Fraction(outcomes[x], outcomes.total())) for x in range(m + 1)]
    sampled_pmf = RankIntervals([b], [t], [n]).sampled_pmf(m, replacement=True)[0]
    assert np.allclose(sampled_pmf, chances, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("n", "b", "t", "m"), [(200, 20, 120, 60), (600, 0, 599, 20)])
def test_with_replacement_a_large_tie_is_the_mean_over_its_ranks(n, b, t, m):
    pmfs = [exact_pmf(n, m, rank, True) for rank in range(b + 1, b + t + 2)]
    mean = [float(sum(column) / len(pmfs)) for column in zip(*pmfs, strict=True)]
    sampled_pmf = RankIntervals([b], [t], [n]).sampled_pmf(m, replacement=True)[0]
    assert np.allclose(sampled_pmf, mean, rtol=0, atol=1e-14)


@pytest.mark.parametrize("m", [0, 3, 1.5])
def test_sampled_law_refuses_more_negatives_than_the_smallest_catalogue_has(m):
    with pytest.raises(ValueError, match="n_negatives must be"):
        RankIntervals([0, 0], [1, 0], [3, 10]).sampled_pmf(m)


def test_a_tied_item_is_at_each_of_its_places_as_often():
    rng = np.random.default_rng(3)
    better, tied, count = rng.integers(0, 6, 50), rng.integers(0, 4, 50), rng.integers(1, 9, 50)
    expected = np.zeros(12)
    for n_better, n_tied, n_users in zip(better, tied, count, strict=True):
        for place in range(n_better, n_better + n_tied + 1):
            expected[place] += n_users / (n_tied + 1)
    assert spread_ties(better, tied, count, 12) == pytest.approx(expected, abs=1e-12)


def test_a_place_without_an_item_has_nothing_of_the_others_rounding():
    better, tied = np.array([0, 1, 1, 7]), np.array([2, 0, 1, 0])
    for weight in np.random.default_rng(0).random((50, 4)):
        shares = spread_ties(better, tied, weight, 9)
        assert (shares[[3, 4, 5, 6, 8]] == 0).all()
        assert shares[[0, 1, 2, 7]].min() > 0

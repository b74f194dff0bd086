"""Sums with the law at all ranks against the law itself."""

import numpy as np
import pytest

from sampled_metrics import Protocol
from sampled_metrics.numerics.all_ranks import MOST_ITEMS, all_ranks, local_maxima

CASES = [(50, 3), (400, 399), (20_000, 60), (7_000, 300), (100_000, 30)]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("pool", "m"), CASES)
def test_every_sum_agrees_with_the_law(pool, m, replacement):
    protocol = Protocol(pool + 1, m, replacement=replacement)
    rank_pmfs, rng = all_ranks(protocol), np.random.default_rng(pool)
    ends = np.concatenate([np.arange(20), pool - np.arange(20), rng.integers(0, pool, 60)])
    above = np.unique(ends)
    rows = protocol.pmf(above + 1)
    np.testing.assert_allclose(rank_pmfs.rows(above), rows, rtol=1e-11, atol=1e-300)
    values = rng.normal(size=m + 1)
    np.testing.assert_allclose(rank_pmfs.expected(values)[above], rows @ values, atol=1e-12)
    mass = np.zeros(pool + 1)
    mass[above] = rng.dirichlet(np.ones(above.size))
    np.testing.assert_allclose(rank_pmfs.marginal(mass), mass[above] @ rows, atol=1e-13)
    np.testing.assert_allclose(rank_pmfs.products(mass), (rows.T * mass[above]) @ rows, atol=1e-13)


@pytest.mark.parametrize("replacement", [True, False])
def test_sums_over_some_sampled_ranks(replacement):
    protocol = Protocol(20_001, 75, replacement=replacement)
    rank_pmfs, rng = all_ranks(protocol), np.random.default_rng(7)
    rows, values = protocol.pmf(np.arange(1, 20_002)), rng.normal(size=76)
    mass, outcomes = rng.dirichlet(np.ones(20_001)), np.array([0, 3, 70])
    outcome_pmfs = rank_pmfs.only(outcomes)
    np.testing.assert_allclose(outcome_pmfs.rows(np.arange(50)), rows[:50][:, outcomes])
    np.testing.assert_allclose(
        outcome_pmfs.expected(values[:3]), rows[:, outcomes] @ values[:3], atol=1e-12
    )
    expected = (rows[:, outcomes].T * mass) @ rows[:, outcomes]
    np.testing.assert_allclose(outcome_pmfs.products(mass), expected, atol=1e-13)


def test_local_maxima_are_the_largest_and_plateaus_count():
    values = np.array([0.0, 2.0, 1.0, 3.0, 3.0, 0.0, 1.0])
    assert local_maxima(values, above=0.5).tolist() == [1, 3, 4, 6]
    assert local_maxima(values, above=0.5, limit=2).tolist() == [3, 4]
    assert local_maxima(values, above=5.0).tolist() == []


def test_a_catalogue_too_large_to_keep_a_number_for_each_rank_is_refused():
    with pytest.raises(ValueError, match=r"n_items must be at most 20,000,000 .* got 20,000,002"):
        all_ranks(Protocol(MOST_ITEMS + 2, 10))

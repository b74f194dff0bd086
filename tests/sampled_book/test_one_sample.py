"""One sample of documents for all queries, against enumeration."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sampled_book.data import retrieval
from sampled_book.experiments import one_sample


@pytest.mark.parametrize("sets", [({0, 1, 2}, {2, 3}), ({0, 1}, {2, 3, 4}), ({5}, {5})])
@pytest.mark.parametrize("m", [1, 3, 5])
def test_covariances_are_those_of_all_samples(sets, m):
    first, second = sets
    samples = [set(sample) for sample in itertools.combinations(range(6), m)]
    x = np.array([[len(first & s), len(second & s)] for s in samples])
    sizes = len(first), len(second), len(first & second)
    expected = np.cov(x.T, bias=True)[0, 1]
    assert one_sample.covariance(*sizes, 6, m) == pytest.approx(expected)
    values = np.array([1.0, 0.4, 0.3, 0.1])
    expected = np.cov(values[x].T, bias=True)[0, 1]
    assert one_sample.covariance_of_values(values, sizes, 6, m) == pytest.approx(expected)


def test_the_design_effect_of_auc_does_not_depend_on_the_sample_and_is_that_of_all_samples():
    rng = np.random.default_rng(3)
    relevant = [np.array([0, 1]), np.array([2])]
    orders = [rng.permutation(9) for _ in relevant]
    places = [retrieval.places_of(*pair) for pair in zip(orders, relevant, strict=True)]
    runs = retrieval.Runs(("a",), np.array([places]), np.zeros((1, 2, 1)), relevant)
    beaten = np.array([(1 - p[3:] / r.size) for p, r in zip(places, relevant, strict=True)])
    for m in (1, 2, 4):
        means = np.array(
            [beaten[:, list(s)].mean(axis=1) for s in itertools.combinations(range(6), m)]
        )
        expected = means.mean(axis=1).var() / (means.var(axis=0).sum() / 4)
        assert one_sample.auc_design_effects(runs) == pytest.approx(expected)


@pytest.mark.parametrize("b", [0, 1, 2])
def test_the_values_of_no_bias_have_the_reciprocal_rank_as_expectation(b):
    n, m = 7, 3
    values = one_sample.unbiased_rr(n, m)
    samples = list(itertools.combinations(range(n), m))
    mean = np.mean([values[sum(d < b for d in s)] for s in samples])
    assert mean == pytest.approx(1 / (1 + b))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("n", "m"), [(8, 4), (7, 5), (9, 4)])
def test_a_component_of_order_k_counts_k_times_n_plus_1_minus_k_over_n_times(order, n, m):
    smaller = [
        Fraction(int(one_sample.pure(order)(set(s))))
        for s in itertools.combinations(range(n), m - 1)
    ]
    found = one_sample.jackknife(one_sample.pure(order), n, m)
    if not any(smaller):
        assert min(m - 1, n - m + 1) < order
        return
    exact = sum(v * v for v in smaller) / len(smaller)
    assert sum(smaller) == 0
    assert found.smaller == pytest.approx(float(exact))
    assert found.expected == pytest.approx(float(exact * order * (n + 1 - order) / n))


def test_the_jackknife_is_too_large_on_average_for_any_statistic():
    rng = np.random.default_rng(7)
    for n, m in ((6, 2), (6, 4), (7, 7), (8, 5)):
        values = {s: rng.standard_normal() for s in itertools.combinations(range(n), m - 1)}
        found = one_sample.jackknife(lambda s, v=values: v[tuple(sorted(s))], n, m)
        assert found.expected >= found.smaller - 1e-12
        assert found.smaller >= found.mean - 1e-12
        # A factor (m - 1) / m, as in the jackknife for independent draws, is not covered.
    linear = one_sample.jackknife(lambda s: float(0 in s), 6, 3)
    assert linear.expected * 2 / 3 < linear.smaller

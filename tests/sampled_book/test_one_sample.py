"""One sample of documents for all queries, against enumeration."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sampled_book.data import retrieval
from sampled_book.experiments import one_sample
from sampled_metrics import metric
from sampled_metrics.designs.jackknife import evaluated
from sampled_metrics.log.sub_corpus import Order, SubCorpus


@pytest.mark.parametrize("sets", [({0, 1, 2}, {2, 3}), ({0, 1}, {2, 3, 4}), ({5}, {5})])
@pytest.mark.parametrize("m", [1, 3, 5])
def test_covariances_are_those_of_all_samples(sets, m):
    first, second = sets
    samples = [set(sample) for sample in itertools.combinations(range(6), m)]
    x = np.array([[len(first & s), len(second & s)] for s in samples])
    sizes = len(first), len(second), len(first & second)
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


def jackknife(statistic, n, m):
    """E V, the variance of t over samples of m - 1, and of the mean, over all samples of m."""
    estimates, totals = [], []
    for sample in itertools.combinations(range(n), m):
        left = np.array([statistic(set(sample) - {d}) for d in sample])
        estimates.append(left.mean())
        totals.append((1 - (m - 1) / n) * ((left - left.mean()) ** 2).sum())
    smaller = [statistic(set(sample)) for sample in itertools.combinations(range(n), m - 1)]
    return np.mean(totals), np.var(smaller), np.var(estimates)


def pure(order):
    """A statistic whose Hoeffding decomposition has a component of this order alone."""
    return lambda s: float(np.prod([(2 * i in s) - float(2 * i + 1 in s) for i in range(order)]))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("n", "m"), [(8, 4), (7, 5), (9, 4)])
def test_a_component_of_order_k_counts_k_times_n_plus_1_minus_k_over_n_times(order, n, m):
    smaller = [Fraction(int(pure(order)(set(s)))) for s in itertools.combinations(range(n), m - 1)]
    expected, variance, _ = jackknife(pure(order), n, m)
    if not any(smaller):
        assert min(m - 1, n - m + 1) < order
        return
    exact = sum(v * v for v in smaller) / len(smaller)
    assert sum(smaller) == 0
    assert variance == pytest.approx(float(exact))
    assert expected == pytest.approx(float(exact * order * (n + 1 - order) / n))


def test_the_jackknife_is_too_large_on_average_for_any_statistic():
    rng = np.random.default_rng(7)
    for n, m in ((6, 2), (6, 4), (7, 7), (8, 5)):
        values = {s: rng.standard_normal() for s in itertools.combinations(range(n), m - 1)}
        expected, variance, of_mean = jackknife(lambda s, v=values: v[tuple(sorted(s))], n, m)
        assert expected >= variance - 1e-12
        assert variance >= of_mean - 1e-12


def by_definition(sets, sample, values):
    """The estimates without each document, each from its own sample."""
    left = [
        np.mean([values[len(a & (set(sample) - {d}))] for a in sets]) for d in sorted(sample)
    ]  # fmt: skip
    return np.array(left)


@pytest.mark.parametrize("m", [3, 5, 7])
def test_coverage_is_that_of_all_samples(m):
    n, queries = 9, np.array([[2, 1], [1, 1]])
    sets = [{0, 1}, {0, 2}, {0}, {3}, set()]
    truth = np.mean([1 / (1 + len(a)) for a in sets])
    held = []
    for sample in itertools.combinations(range(n), m):
        left = by_definition(sets, sample, one_sample.unbiased_rr(n, m - 1))
        variance = (1 - (m - 1) / n) * ((left - left.mean()) ** 2).sum()
        width = stats.t.ppf(0.975, m - 1) * np.sqrt(variance)
        order = [
            [Order(np.array([1]), np.array([len(a & set(sample))]), np.array([1.0]),
                   np.array([int(d not in a) for d in sorted(sample)]))]
            for a in sets
        ]  # fmt: skip
        # A document that is not above the relevant one has that one above itself.
        log = SubCorpus(n + 5, 5, m, tuple("abcde"), {"s": order})
        low, high = evaluated(log, metric("rr"))["s"].range(0.95, population=True)
        held.append([abs(left.mean() - truth) <= width, low <= truth <= high])
    assert one_sample.hub_coverage(queries, n, m) == pytest.approx(np.mean(held, axis=0))


def test_a_hub_outside_the_sample_leaves_no_trace():
    table = one_sample.coverage_table(1_000, 100, (0.3, 0.6, 0.9))
    assert table["hub"].to_numpy() == pytest.approx(table["share"].to_numpy(), abs=0.02)
    assert (table["none"] > 0.9).all()

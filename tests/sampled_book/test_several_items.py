"""Several relevant items: moments and corrections, by enumeration and by drawing."""

from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest

from sampled_book.chapters import several_items
from sampled_book.experiments.theory import draw_set, expected_of_set, observed, variance_of_set
from sampled_book.reference.enumeration import every_sample, exact_pmf
from sampled_metrics import Protocol, estimators, metric

WAYS = {
    "naive": estimators.naive,
    "bias-variance": partial(estimators.bias_variance, gamma=0.01),
    "rank estimate": estimators.rank_estimate,
    "least bias": estimators.least_bias,
    "monotone": estimators.monotone,
}


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["auc", "precision@2", "recall@3", "ap", "ndcg", "rr"])
def test_moments_are_those_of_every_sample(name, replacement):
    n, m, ranks = 9, 3, [2, 5, 6]
    tally = Counter(every_sample(ranks, n, m, replacement))
    for make in WAYS.values():
        e = make(metric(name), Protocol(n, m, replacement=replacement, n_relevant=3))
        rows = [[Fraction(value) for value in row] for row in e.values.tolist()]
        sums = {key: sum(rows[j][r - j - 1] for j, r in enumerate(key)) for key in tally}
        mean = sum(count * sums[key] for key, count in tally.items()) / tally.total()
        square = sum(count * sums[key] ** 2 for key, count in tally.items()) / tally.total()
        # The j-th best item is drawn against like the item j - 1 ranks higher without the others.
        pmfs = [exact_pmf(n - 2, m, r - j, replacement) for j, r in enumerate(ranks)]
        assert mean == sum(
            q * v
            for pmf, row in zip(pmfs, rows, strict=True)
            for q, v in zip(pmf, row, strict=True)
        )
        assert expected_of_set(e, ranks) == pytest.approx(float(mean), rel=1e-12, abs=1e-13)
        error = variance_of_set(e, ranks) - float(square - mean**2)
        assert abs(error) < 1e-12 * np.abs(e.values).max() ** 2


def test_no_function_of_all_sampled_ranks_has_less_bias_than_rows_with_their_own_priors():
    n, m, ap = 9, 3, metric("ap")
    sets = np.array(list(combinations(range(1, n + 1), 3)))
    protocol = Protocol(n, m, replacement=True, n_relevant=3)
    exact = np.array([ap.of_set(each) for each in sets])
    tables = np.hstack([protocol.pmf(sets[:, j], j + 1) for j in range(3)])
    priors = [observed(sets[:, j] - j) for j in range(3)]
    least = [estimators.least_bias(ap, protocol, prior).values[j] for j, prior in enumerate(priors)]
    outcomes = [Counter(every_sample([*map(int, each)], n, m, True)) for each in sets]
    seen = sorted(set().union(*outcomes))
    whole = np.array([[tally[key] / tally.total() for key in seen] for tally in outcomes])
    best = whole @ np.linalg.lstsq(whole, exact, rcond=None)[0] - exact
    assert np.abs(best).max() > 0.01
    np.testing.assert_allclose(tables @ np.concatenate(least) - exact, best, atol=1e-10)


@pytest.mark.parametrize("replacement", [True, False])
def test_two_counts_have_their_margins_and_their_covariance(replacement):
    n, m, pair = 10_000, 20, [2_500, 4_000]
    protocol = Protocol(n, m, replacement=replacement, n_relevant=2)
    joint, counts = several_items.joint_pmf(protocol, pair), np.arange(m + 1)
    first, second = (protocol.pmf(rank, j) for j, rank in enumerate(pair, start=1))
    np.testing.assert_allclose(joint.sum(axis=1), first, atol=1e-13)
    covariance = counts @ joint @ counts - (counts @ first) * (counts @ second)
    factor = 1 if replacement else (n - 2 - m) / (n - 3)
    p = np.array([2_499, 3_998]) / (n - 2)
    assert covariance == pytest.approx(m * p[0] * (1 - p[1]) * factor, rel=1e-9)


@pytest.mark.simulation
def test_drawn_samples_have_these_moments():
    protocol = Protocol(10_000, 100, replacement=True, n_relevant=20)
    instance, draws = several_items.drawn_users(10_000, [20], 1, 3.0, 11)[20][0], 20_000
    sampled, place = draw_set(protocol, instance, np.random.default_rng(11), draws), np.arange(20)
    for name, way in product(("auc", "ap", "ndcg", "recall@10"), ("naive", "bias-variance")):
        e = WAYS[way](metric(name), protocol)
        values = e.values[place, sampled - place - 1].sum(axis=1)
        variance, centred = variance_of_set(e, instance), values - values.mean()
        noise = sqrt(max((centred**4).mean() - values.var() ** 2, 0) / draws)
        step = np.abs(np.diff(e.values)).sum(axis=0).max()  # what one rare negative may do
        assert abs(values.var() - variance) <= 5 * noise + 10 * step**2 / draws + 1e-14
        error = values.mean() - expected_of_set(e, instance)
        assert abs(error) <= 5 * sqrt(variance / draws) + 1e-12


def test_counts_are_independent_where_one_of_them_is_constant():
    ends = estimators.naive("auc", Protocol(50, 7, replacement=True, n_relevant=2))
    for a, b, is_equal in ((1, 30, True), (20, 50, True), (20, 30, False)):
        independent = float(ends.variance(a) + ends.variance(b, 2))
        assert (abs(variance_of_set(ends, [a, b]) / independent - 1) < 1e-12) is is_equal

"""Quantiles and thresholds over groups, by enumeration and on drawn hierarchies."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from sampled_book.chapters import track_record
from sampled_book.experiments import conformal


def covered_share(groups, confidence):
    """The share of (new group, its evaluation) that the quantile of the other groups covers."""
    total = Fraction(0)
    for new in range(len(groups)):
        others = [np.array(group) for place, group in enumerate(groups) if place != new]
        weights = [np.full(len(group), 1.0 / len(group)) for group in others]
        quantile = conformal.quantile_over_groups(others, weights, confidence)
        total += Fraction(sum(score <= quantile for score in groups[new]), len(groups[new]))
    return total / len(groups)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9])
def test_the_quantile_covers_a_group_in_each_place_on_average(confidence):
    # Averaged over which of these groups is the new one, the theorem is plain arithmetic.
    rng = np.random.default_rng(1)
    for _ in range(40):
        sizes = rng.integers(1, 5, 10)
        groups = [list(rng.integers(0, 6, size).astype(float)) for size in sizes]
        groups[0] = [100.0] * len(groups[0])  # a group that is unlike all others
        assert covered_share(groups, confidence) >= Fraction(confidence).limit_denominator(10)


def test_the_quantile_is_the_smallest_such_score():
    scores = [np.array([1.0]), np.array([2.0]), np.array([3.0]), np.array([4.0])]
    weights = [np.ones(1)] * 4
    # Of five groups: two fifths have scores up to 2, four fifths up to 4.
    assert conformal.quantile_over_groups(scores, weights, 0.4) == 2.0
    assert conformal.quantile_over_groups(scores, weights, 0.41) == 3.0
    assert conformal.quantile_over_groups(scores, weights, 0.8) == 4.0
    assert conformal.quantile_over_groups(scores, weights, 0.81) == np.inf


def test_the_quantile_needs_19_groups_at_95_percent():
    one = [np.array([1.0])]
    for count in (18, 19):
        quantile = conformal.quantile_over_groups(one * count, [np.ones(1)] * count, 0.95)
        assert np.isfinite(quantile) == (count >= conformal.fewest_groups(0.95))


def wrong_share(groups, error_rate):
    """Wrongly called pairs of the new group, averaged over which group is the new one."""
    total = 0.0
    for new in range(len(groups)):
        others = [group for place, group in enumerate(groups) if place != new]
        threshold = conformal.threshold_over_groups(
            [np.array(strengths) for strengths, _ in others],
            [np.array(wrong) for _, wrong in others],
            [np.full(len(wrong), 1.0 / len(wrong)) for _, wrong in others],
            error_rate,
        )
        strengths, wrong = map(np.array, groups[new])
        total += float(np.mean(wrong & (strengths >= threshold)))
    return total / len(groups)


def test_the_threshold_keeps_the_share_of_wrong_calls():
    rng = np.random.default_rng(2)
    for _ in range(40):
        groups = []
        for size in rng.integers(1, 6, 12):
            strengths = rng.integers(0, 5, size).astype(float)
            groups.append((list(strengths), list(rng.random(size) < 0.4)))
        assert wrong_share(groups, 0.2) <= 0.2 + 1e-12


def test_the_threshold_calls_pairs_of_equal_strength_together():
    strengths, wrong = [np.array([2.0, 2.0, 1.0])] * 9, [np.array([False, True, False])] * 9
    weights = [np.full(3, 1.0 / 3.0)] * 9
    # Calling at 2 has a loss of 1/3 in each group, so 3 + 1 of 10 allowed at 0.4.
    assert conformal.threshold_over_groups(strengths, wrong, weights, 0.4) == 1.0
    assert conformal.threshold_over_groups(strengths, wrong, weights, 0.39) == np.inf
    assert conformal.threshold_over_groups(strengths, wrong, weights, 0.05) == np.inf


def test_the_order_of_groups_does_not_matter():
    groups = [np.array([1.0, 5.0]), np.array([2.0]), np.array([3.0, 3.0, 9.0])]
    weights = [np.full(part.size, 1.0 / part.size) for part in groups]
    found = {
        conformal.quantile_over_groups([groups[i] for i in order], [weights[i] for i in order], 0.6)
        for order in permutations(range(3))
    }
    assert len(found) == 1


@pytest.mark.parametrize("spread", ["moderate", "outliers"])
def test_drawn_hierarchies_keep_what_the_theorems_say(spread):
    same = conformal.simulated(24, 40, spread, 1.0, 300, seed=3)
    assert same["covered"] >= 0.95
    assert same["wrong"] <= 0.05
    shifted = conformal.simulated(24, 40, spread, 2.0, 300, seed=3)
    assert shifted["covered"] < same["covered"]
    assert shifted["wrong"] > same["wrong"]


def test_at_the_limit_the_evidence_is_20_by_exact_integration():
    # A product of terms 1 - s g is a polynomial in the stake s.
    rng = np.random.default_rng(1)
    called = rng.uniform(0.2, 1.0, 24)
    wrong = 0.1 * called * rng.random(24)
    limit = conformal.wrong_at_most(wrong, called, 0.95)
    product = Polynomial([1.0])
    for gain in wrong - limit * called:
        product *= Polynomial([1.0, -gain])
    integral = product.integ()
    assert 2.0 * (integral(1.0) - integral(0.5)) == pytest.approx(20.0, rel=0.005)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_limit_on_wrong_verdicts_is_below_the_true_share_in_5_percent_at_most(share):
    # A source has either no wrong verdict or only wrong ones, and sources call more or less.
    rng, misses = np.random.default_rng(1), 0
    for _ in range(600):
        called = rng.uniform(0.2, 1.0, 24)
        wrong = called * (rng.random(24) < share)
        misses += conformal.wrong_at_most(wrong, called, 0.95) < share
    assert misses <= 600 * 0.05 + 3 * np.sqrt(600 * 0.05 * 0.95)


def test_the_evidence_reaches_20_for_a_random_order_in_5_percent_at_most():
    rng = np.random.default_rng(1)
    scores = np.r_[np.zeros(10), np.geomspace(1.0, 1e6, 20)]  # with ties, and far outliers
    paths = [conformal.martingale(rng.permutation(scores), rng) for _ in range(600)]
    assert np.mean([path.max() >= 20 for path in paths]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)
    assert 0.5 < np.mean([path[4] for path in paths]) < 1.5  # an expectation of 1
    worst_last = [conformal.martingale(np.sort(scores), rng)[-1] for _ in range(5)]
    assert min(worst_last) > 20


def test_evidence_is_averaged_over_orders_of_the_sources_alone():
    scores = np.arange(6.0)
    streams = {"sources": scores[:4], "like them": np.r_[scores[:4], 1.5], "larger": scores}
    paths = track_record.evidence(streams, n_orders=300)
    for name, path in paths.items():
        assert path.size == streams[name].size
        np.testing.assert_allclose(path[:4], paths["sources"])
    assert paths["larger"][-1] > 1 > paths["like them"][-1]

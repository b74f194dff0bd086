"""The test of compare: by enumeration, in many digits, and on populations made to mislead it."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import factorial, prod

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from sampled_metrics.numerics.betting import _coarse, interval, log_e_value

GRID = [Fraction(i, 4) for i in range(-4, 5)]


def against(values, lowest, highest, bias=0.0):
    """The test that an interval inverts: whether a mean is 0, if expectations have this bias.

    Returns the sign of the mean (0 if neither side won its bet) and a two-sided p-value.
    """
    log_e_values = [
        log_e_value(*_coarse(side, None, low, high), low, bias)
        for side, low, high in ((values, lowest, highest), (-values, -highest, -lowest))
    ]
    largest = max(log_e_values)
    sign = 0 if largest <= 0 else 1 if log_e_values[0] == largest else -1
    return sign, float(min(1.0, 2.0 * np.exp(-largest)))


def log_e(values, lowest, mean):
    different, counts = np.unique(np.array(values, dtype=float), return_counts=True)
    return log_e_value(different, counts.astype(float), float(lowest), float(mean))


def distributions():
    """Distributions of mean 0 on two and on three points of a grid, the lowest of which is -1."""
    for a, b in product([x for x in GRID if x < 0], [x for x in GRID if x > 0]):
        yield {a: b / (b - a), b: -a / (b - a)}
        for c, share in product(GRID, (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))):
            # A share at c, and the rest at a and b so that the mean is 0.
            at_b = (-c * share - a * (1 - share)) / (b - a)
            if c not in (a, b) and 0 <= at_b <= 1 - share:
                yield {a: 1 - share - at_b, b: at_b, c: share}


@pytest.mark.simulation
@pytest.mark.parametrize("users", [1, 2, 4])
def test_the_expectation_of_an_e_value_is_at_most_1(users):
    largest = 0
    for pmf in distributions():
        expected = 0.0
        for drawn in combinations_with_replacement(pmf, users):
            orders = factorial(users) // prod(factorial(drawn.count(x)) for x in set(drawn))
            probability = orders * prod(pmf[x] for x in drawn)
            expected += float(probability) * np.exp(log_e(drawn, -1, 0))
        largest = max(largest, expected)
        assert expected <= 1 + 1e-12, pmf
    assert largest > 0.999


def test_users_may_differ_in_their_expectation():
    # Three users, each with its own two-point distribution on -1 and 1; means that average to 0.
    for means in [(0, 0, 0), (Fraction(1, 2), 0, Fraction(-1, 2)), (1, Fraction(-1, 2), -0.5)]:
        expected = 0.0
        for signs in product([-1, 1], repeat=3):
            probability = prod(
                (1 + sign * Fraction(mean)) / 2 for sign, mean in zip(signs, means, strict=True)
            )
            expected += float(probability) * np.exp(log_e(signs, -1, 0))
        assert expected <= 1 + 1e-12


def test_the_e_value_is_the_mean_of_products():
    values, lowest, mean = [Fraction(-1, 2), Fraction(1, 4), 1, 1], Fraction(-3, 4), Fraction(1, 8)
    stakes = [Fraction(9, 10) * Fraction(5, 6) ** k for k in range(5)]  # down to 0.9 / root of 4
    products = [prod(1 + stake * (x - mean) / (mean - lowest) for x in values) for stake in stakes]
    assert np.exp(log_e(values, lowest, mean)) == pytest.approx(float(sum(products) / 5), rel=1e-13)


def test_logarithms_agree_with_many_digits():
    rng = np.random.default_rng(3)
    values = np.round(rng.normal(0.02, 0.3, 100_000).clip(-1, 1), 2)
    different, counts = np.unique(values, return_counts=True)
    log_value = log_e_value(different, counts.astype(float), -1.0, 0.0)
    with mp.workdps(50):
        stakes = [mp.mpf(0.9) * mp.mpf(1.2) ** -k for k in range(33)]
        by_stake = [
            mp.fprod(
                (1 + stake * mp.mpf(float(x))) ** int(count)
                for x, count in zip(different, counts, strict=True)
            )
            for stake in stakes
        ]
        expected = float(mp.log(mp.fsum(by_stake) / len(stakes)))
    assert log_value == pytest.approx(expected, rel=1e-11)


def test_a_negated_sample_is_the_same_with_the_other_sign():
    values = np.random.default_rng(6).choice([-0.2, 0.4], 200)
    (sign, p), (negated_sign, negated_p) = against(values, -1.0, 0.5), against(-values, -0.5, 1.0)
    assert (sign, p) == (-negated_sign, negated_p)
    low, high = interval(values, -1.0, 0.5, 0.1)
    assert interval(-values, -0.5, 1.0, 0.1) == (-high, -low)


@pytest.mark.simulation
@pytest.mark.parametrize("users", [2, 3, 10, 50, 2_000])
def test_two_point_populations_are_misjudged_in_at_most_5_percent(users):
    # Exactly: the number of users at the rare point is binomial. Student's t is wrong in nearly
    # all samples of some of these.
    worst = 0.0
    for rare in (1e-3, 0.01, 0.1, 0.5):
        for rare_value in (-1.0, 1.0):
            usual_value = -rare_value * rare / (1 - rare)  # the mean is 0
            for lowest, highest in (
                (-1.0, 1.0),
                (min(rare_value, usual_value), max(rare_value, usual_value)),
            ):
                distribution = stats.binom(users, rare)
                counts = np.arange(int(distribution.ppf(1e-5)), int(distribution.ppf(1 - 1e-5)) + 1)
                samples = [np.repeat([usual_value, rare_value], [users - k, k]) for k in counts]
                p = np.array([against(values, lowest, highest)[1] for values in samples])
                wrong = distribution.pmf(counts[p <= 0.05]).sum()
                worst = max(worst, wrong)
                assert wrong <= 0.05, (rare, rare_value, lowest)
    assert worst < 0.05


def test_an_interval_holds_what_is_not_rejected():
    rng = np.random.default_rng(9)
    values = rng.choice([-0.5, 0.0, 0.1, 0.7], 300, p=[0.1, 0.5, 0.3, 0.1])
    low, high = interval(values, -1.0, 1.0, 0.05)
    assert low < values.mean() < high
    for mean, rejected in [
        (low - 1e-6, True), (low + 1e-6, False), (high - 1e-6, False), (high + 1e-6, True),
    ]:  # fmt: skip
        p = against(values - mean, -1.0 - mean, 1.0 - mean)[1]
        assert (p <= 0.05) is rejected


def test_a_bias_is_counted():
    values = np.repeat([0.0, 0.5], [20, 180])
    sign, p = against(values, -1.0, 1.0, bias=0.2)
    moved_sign, moved = against(values - 0.2, -1.2, 0.8)
    assert sign == moved_sign == 1
    assert against(values, -1.0, 1.0)[1] < p == pytest.approx(moved)
    assert against(values, -1.0, 1.0, bias=0.5) == (0, 1.0)


def test_many_different_values_are_rounded_to_the_worse_side():
    rng = np.random.default_rng(10)
    values = rng.normal(0.003, 0.1, 200_000).clip(-1, 1)
    sides = [np.unique(side, return_counts=True) for side in (values, -values)]
    exact = [log_e_value(points, counts.astype(float), -1.0, 0.0) for points, counts in sides]
    sign, p = against(values, -1.0, 1.0)
    assert sign == 1
    assert np.log(2 / p) <= max(exact)
    assert np.log(2 / p) == pytest.approx(max(exact), rel=0.1)


def test_constants():
    for value in (0.0, 0.3):
        assert interval(np.full(5, value), value, value, 0.05) == (value, value)
    assert against(np.zeros(5), 0.0, 0.0) == (0, 1.0)
    assert against(np.full(5, 0.3), 0.3, 0.3) == (1, 0.0)
    assert against(np.zeros(1000), -1.0, 1.0) == (0, 1.0)


@pytest.mark.parametrize(
    "population", [[0, 0, 0, 0, 1, 1], [0, 0.2, 0.5, 0.5, 1, 1], [0, 1, 1, 1, 1, 1]]
)
def test_the_expected_wealth_is_at_most_1_in_draws_without_replacement(population):
    """Over all samples of 3 of 6 values; the mean is that of the 6."""
    wealth = [
        np.exp(log_e_value(*np.unique(sample, return_counts=True), 0.0, float(np.mean(population))))
        for sample in combinations(population, 3)
    ]
    assert np.mean(wealth) <= 1 + 1e-12
    assert max(wealth) > 1

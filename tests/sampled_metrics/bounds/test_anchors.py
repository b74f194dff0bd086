"""Intervals from anchors: by enumeration of all draws, by a plain loop, and on hostile users."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from sampled_metrics.bounds.anchors import Anchors, draw, drawing_p_value

#: Sizes, values and bounds of small groups of users; a fourth list bounds what is subtracted.
GROUPS = [
    ([1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]),
    ([1.0, 0.5, 0.25, 0.2], [0.0, 0.5, 0.25, 0.2], [1.0, 0.5, 0.25, 0.2]),
    ([1.0, 0.5, 0.1, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.1, 0.0]),
    ([0.9, 0.9, 0.1, 0.1, 0.05], [0.1, 0.3, 0.0, 0.1, 0.05], [0.9, 0.3, 0.1, 0.1, 0.05]),
    ([1.0, 0.5, 0.5, 0.2], [-1.0, 0.5, 0.0, -0.2], [1.0, 0.5, 0.5, 0.0], [1.0, 0.2, 0.5, 0.2]),
]


def anchors_of(sizes, values, order, bounds=None, subtracted=None):
    sizes, values, order = np.asarray(sizes), np.asarray(values, dtype=float), list(order)
    bounds = sizes if bounds is None else np.asarray(bounds)
    is_rest = np.isin(np.arange(sizes.size), order, invert=True)
    largest, smallest = float(bounds[is_rest].sum()), 0.0
    if subtracted is not None:
        bounds = bounds - np.asarray(subtracted)
        smallest = -float(np.asarray(subtracted)[is_rest].sum())
    return Anchors(
        values=values[order],
        sizes=sizes[order],
        bounds=bounds[order],
        mean_bound=float(bounds.mean()),
        rest=float(sizes[is_rest].sum()),
        rest_values=(smallest, largest),
        users=sizes.size,
        are_differences=subtracted is not None,
    )


def draws_with_probability(sizes, n):
    """Every order of n users of positive size, with its probability."""
    positive = [user for user, size in enumerate(sizes) if size > 0]
    for order in permutations(positive, n):
        left, probability = sum(sizes), 1.0
        for user in order:
            probability *= sizes[user] / left
            left -= sizes[user]
        yield order, probability


def plain_log_wealth(anchors, values, mean, lowest, error_rate, sign):
    """The log wealth of the bets on one side after each draw, in the words of the definition."""
    low, n = lowest, len(values)
    high = low + (2 if anchors.are_differences else 1)
    known, earlier, log_wealth, path = 0.0, [], 0.0, []
    squares = 0.25
    for t in range(n):
        left = anchors.rest + sum(anchors.sizes[t:])
        expected = ((anchors.users * mean - known) / left - low) / (high - low)
        z = (values[t] / anchors.sizes[t] - low) / (high - low)
        stake = np.sqrt(2 * np.log(2 / error_rate) / (n * squares / (t + 1)))
        losable = expected if sign > 0 else 1 - expected
        stake = min(stake, 0.75 / losable) if losable > 0 else stake
        log_wealth += np.log(1 + sign * stake * (z - expected))
        path.append(log_wealth)
        earlier.append(z)
        squares += (z - (0.5 + sum(earlier)) / (t + 2)) ** 2
        known += values[t]
    return np.array(path)


def test_users_are_drawn_in_proportion_to_their_sizes():
    sizes, n_trials = [0.6, 0.3, 0.0, 0.1], 4_000
    rng = np.random.default_rng(5)
    orders = [tuple(draw(sizes, 2, rng).tolist()) for _ in range(n_trials)]
    expected = dict(draws_with_probability(sizes, 2))
    assert set(orders) <= set(expected)
    counts = [orders.count(order) for order in expected]
    assert stats.chisquare(counts, n_trials * np.array([*expected.values()])).pvalue > 1e-3
    assert sorted(draw(sizes, 10, rng).tolist()) == [0, 1, 3]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_over_all_draws_estimates_are_unbiased_and_the_interval_holds(group, n):
    (sizes, values, *bounds), missed = group, {0.5: 0.0, 0.8: 0.0}
    mean, expected = np.mean(values), np.zeros(2)
    for order, probability in draws_with_probability(sizes, n):
        anchors = anchors_of(sizes, values, order, *bounds)
        expected += [probability * (added + b.estimates.mean()) for b, added in anchors._bets]
        for error_rate in missed:
            low, high = anchors.interval(error_rate)
            missed[error_rate] += probability * (not low - 1e-12 <= mean <= high + 1e-12)
    assert expected == pytest.approx([mean, mean], abs=1e-12)
    assert all(share <= error_rate for error_rate, share in missed.items()), missed


@pytest.mark.parametrize("group", GROUPS)
def test_over_all_draws_bets_against_the_mean_neither_win_nor_lose(group):
    sizes, values, *bounds = group
    for which, sign in product((0, 1), (1, -1)):
        total = 0.0
        for order, probability in draws_with_probability(sizes, 2):
            bets, added = anchors_of(sizes, values, order, *bounds)._bets[which]
            path = bets.log_wealth(np.mean(values) - added, bets.stakes(0.05), sign)
            total += probability * np.exp(path[-1])
        assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("are_differences", [False, True])
def test_the_ends_are_where_the_wealth_of_the_definition_reaches_its_limit(are_differences):
    rng = np.random.default_rng(11)
    for error_rate in (0.05, 0.5):
        bounds = [rng.choice([1.0, 0.63, 0.5, 0.3], 300) for _ in range(1 + are_differences)]
        values = bounds[0] * rng.choice([1.0, 1.0, 0.0], 300)
        sizes = np.maximum.reduce([*bounds, rng.choice([0.4, 1.0], 300)])
        if are_differences:
            values = values - bounds[1] * rng.choice([1.0, 0.0], 300)
        anchors = anchors_of(sizes, values, draw(sizes, 80, rng), *bounds)
        low, high = anchors.interval(error_rate)
        assert anchors.limits[0] < low < high < anchors.limits[1]
        least, added = -1 if are_differences else 0, anchors.mean_bound
        for end, sign in ((low, 1), (high, -1)):
            direct = plain_log_wealth(anchors, anchors.values, end, least, error_rate, sign)
            lacks = anchors.values - anchors.bounds
            others = plain_log_wealth(anchors, lacks, end - added, -1, error_rate, sign)
            wealth = 0.5 * np.exp(direct) + 0.5 * np.exp(others)
            assert wealth.max() == pytest.approx(2 / error_rate, rel=1e-6)


def test_all_users_ranked_are_exact():
    sizes, values = np.array([0.5, 0.0, 1.0, 0.25]), np.array([0.5, 0.0, 0.2, 0.0])
    anchors = anchors_of(sizes, values, draw(sizes, 10, np.random.default_rng(1)))
    assert anchors.interval(0.05) == pytest.approx((values.mean(), values.mean()), abs=1e-15)
    assert (anchors.estimate, anchors.standard_error) == (pytest.approx(values.mean()), 0.0)


def test_an_interval_keeps_to_what_is_possible():
    """Whatever the ranks of the others are, the mean is between these limits."""
    anchors = anchors_of([1.0, 0.5, 0.5, 0.1], [0.2, 0.5, 0.0, 0.1], [0, 1, 2])
    low, high = anchors.interval(0.05)
    assert (low, high) == pytest.approx((0.7 / 4, 0.8 / 4))


HOSTILE = {
    "three at rank 1 of 2,000": lambda rng: (np.ones(2_000), np.arange(2_000) < 3),
    "all but three": lambda rng: (np.ones(2_000), np.arange(2_000) >= 3),
    "rare large residuals": lambda rng: (
        np.where(np.arange(1_000) < 50, 1.0, 0.05),
        np.where(np.arange(1_000) < 2, 1.0, 0.0),
    ),
    "small sizes alone are true": lambda rng: (
        np.where(np.arange(1_000) < 100, 1.0, 0.1),
        np.where(np.arange(1_000) < 100, 0.0, 0.1),
    ),
    "a half": lambda rng: (np.ones(500), rng.random(500) < 0.5),
}


@pytest.mark.simulation
@pytest.mark.parametrize("n", [10, 60])
@pytest.mark.parametrize("name", HOSTILE)
def test_the_interval_holds_for_hostile_users(name, n):
    rng = np.random.default_rng(n)
    sizes, values = HOSTILE[name](rng)
    values, missed = values.astype(float), 0
    for _ in range(1_000):
        order = draw(sizes, n, rng)
        low, high = anchors_of(sizes, values, order).interval(0.1)
        missed += not low <= values.mean() <= high
    assert stats.binomtest(missed, 1_000, 0.1, alternative="greater").pvalue > 1e-3, missed


@pytest.mark.parametrize("users", [5, 40])
def test_the_interval_of_a_population_holds_when_all_users_are_ranked(users):
    """Users are hits with a probability; the number of hits is binomial."""
    sizes = np.ones(users)
    hits = np.arange(users + 1)
    intervals = [
        anchors_of(sizes, np.arange(users) < hit, range(users)).population_interval(0.05)
        for hit in hits
    ]
    lows, highs = np.transpose(intervals)
    for mean in np.linspace(0, 1, 201):
        covered = stats.binom.pmf(hits, users, mean)[(lows <= mean) & (mean <= highs)].sum()
        assert covered >= 0.96 - 1e-12
    assert lows[users // 2] > 0
    assert highs[users // 2] < 1


def test_the_interval_of_a_population_is_wider():
    rng = np.random.default_rng(2)
    sizes = rng.choice([1.0, 0.5, 0.1], 3_000)
    order = draw(sizes, 200, rng)
    anchors = anchors_of(sizes, sizes * rng.integers(0, 2, 3_000), order)
    (low, high), (wider_low, wider_high) = anchors.interval(0.05), anchors.population_interval(0.05)
    assert 0 < wider_low < low < high < wider_high < 1


def test_over_all_draws_the_test_of_the_drawing_keeps_its_level():
    sizes = np.array([1.0, 0.6, 0.3, 0.3, 0.1, 0.0])
    for n, level in product((2, 4), (0.6, 0.9)):
        rejected = sum(
            probability
            for order, probability in draws_with_probability(sizes, n)
            if drawing_p_value(sizes, np.array(order)) <= level
        )
        assert rejected <= level


def test_users_that_were_drawn_otherwise_are_noticed():
    rng = np.random.default_rng(3)
    sizes = 1.0 / np.arange(1, 1_001)
    ways = {"uniformly": rng.permutation(1_000)[:100], "the first": np.arange(100)}
    ways["in reverse"] = draw(sizes, 1_000, rng)[::-1][:100]
    assert all(drawing_p_value(sizes, order) < 1e-3 for order in ways.values())
    assert drawing_p_value(sizes, draw(sizes, 100, rng)) > 0.05
    assert drawing_p_value(np.ones(1_000), rng.permutation(1_000)[:100]) > 0.05

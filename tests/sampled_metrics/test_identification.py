"""Intervals against a general optimiser, closed forms and simulated logs, also hostile ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import chi2

from sampled_metrics import Protocol, identification, metric
from sampled_metrics.identification import Shape, interval
from sampled_metrics.printed import published

METRICS = ["recall@3", "ndcg@10", "ap", "auc"]
THRESHOLD = chi2.ppf(0.95, 2)


def a_log(protocol, seed, users=500):
    rng = np.random.default_rng(seed)
    ranks = 1 + (protocol.n_items * rng.beta(0.4, 2.0, size=users)).astype(int)
    drawn = protocol.draw(np.minimum(ranks, protocol.n_items), rng)
    return np.bincount(drawn - 1, minlength=protocol.n_negatives + 1).astype(float)


def constraints(n, m, shape):
    """The docstring of Shape, written out: rows that must not be negative."""
    if shape is None:
        return np.zeros((0, n))
    head = min(int(shape.head * n / m), n)
    rows = [np.eye(n)[r] - np.eye(n)[r + 1] for r in range(head - 1)]
    if np.isfinite(shape.steepness):
        doublings = [range(2**k - 1, 2 ** (k + 1) - 1) for k in range(20)]
        doublings = [list(d) for d in doublings if d[-1] < head]
        for here, deeper in itertools.pairwise(doublings):
            row = np.zeros(n)
            row[deeper] = shape.steepness / len(deeper)
            row[here] = -1.0 / len(here)
            rows.append(row)
    return np.array(rows)


def kinds_of(n, m, shape):
    """What the users may be mixtures of, rank by rank: single ranks, or geometric ones in the head.

    At other rates than the package takes.
    """
    if shape is None or not shape.geometric:
        return np.eye(n)
    head = min(int(shape.head * n / m), n)
    rates = np.append(np.geomspace(0.05 / head, 60.0, 24), 0.0)
    kinds = np.zeros((rates.size + n - head, n))
    kinds[: rates.size, :head] = np.exp(-rates[:, np.newaxis] * np.arange(head))
    kinds[rates.size :, head:] = np.eye(n - head)
    return kinds / kinds.sum(axis=1, keepdims=True)


def optimum(objective, gradient, n, rows, bound=None):
    """Least objective over distributions of n ranks, by SLSQP from the uniform one."""
    conditions = [{"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones((1, n))}]
    if len(rows):
        conditions.append({"type": "ineq", "fun": lambda p: rows @ p, "jac": lambda p: rows})
    if bound is not None:
        conditions.append({"type": "ineq", "fun": bound[0], "jac": bound[1]})
    # SLSQP stops short from some starts on some processors: the best of what is feasible counts.
    decreasing = 0.9 ** np.arange(n)
    values = []
    for start in (np.ones(n), decreasing, decreasing**3, 1.0 / np.arange(1, n + 1)):
        found = minimize(
            objective, start / start.sum(), jac=gradient, bounds=[(0, 1)] * n, method="SLSQP",
            constraints=conditions, options={"maxiter": 500, "ftol": 1e-12},
        )  # fmt: skip
        slack = [np.min(c["fun"](found.x), initial=0.0) for c in conditions[1:]]
        if abs(found.x.sum() - 1) < 1e-6 and min(slack, default=0.0) > -1e-6:
            values.append(found.fun)
    return min(values)


def by_slsqp(counts, protocol, name, shape):
    """Both ends of the interval as the docstring has them, by a general optimiser."""
    n, m = protocol.n_items, protocol.n_negatives
    kinds = kinds_of(n, m, shape)
    law, values = kinds @ protocol.pmf(np.arange(1, n + 1)), kinds @ metric(name).vector(n)
    rows, ends, n = constraints(n, m, shape) @ kinds.T, [], len(kinds)
    for sign, user in ((1.0, -1.0), (-1.0, 1.0)):
        c = np.array(counts, dtype=float)
        c[np.flatnonzero(c)[0] if user < 0 else 0] += user
        seen = c > 0

        def likelihood(p, c=c, seen=seen):
            return float(c[seen] @ np.log(np.maximum((p @ law)[seen], 1e-300)))

        def slope(p, c=c, seen=seen):
            return law[:, seen] @ (c[seen] / np.maximum((p @ law)[seen], 1e-300))

        best = -optimum(lambda p: -likelihood(p), lambda p: -slope(p), n, rows)
        bound = (
            lambda p, best=best: np.array([likelihood(p) - best + THRESHOLD / 2]),
            lambda p: slope(p)[np.newaxis],
        )
        towards = sign * values
        end = optimum(lambda p, v=towards: p @ v, lambda p, v=towards: v, n, rows, bound)
        ends.append(sign * end)
    return ends


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("shape", [None, Shape(4.0), Shape(4.0, 3.0)])
def test_a_general_optimiser_over_all_ranks_agrees(name, shape, replacement):
    protocol = Protocol(20, 4, replacement=replacement)
    counts = a_log(protocol, seed=3)
    found = interval(counts, protocol, name, shape=shape)
    low, high = by_slsqp(counts, protocol, name, shape)
    assert found.certified
    # Wider by the gap at most, and never narrower but for the optimiser's own inaccuracy.
    assert low - found.gap - 1e-3 <= found.low <= low + 1e-4
    assert high - 1e-4 <= found.high <= high + found.gap + 1e-3


@pytest.mark.parametrize(("name", "replacement"), [("recall@3", True), ("ndcg@10", False)])
def test_a_general_optimiser_over_geometric_distributions_agrees(name, replacement):
    test_a_general_optimiser_over_all_ranks_agrees(name, Shape(1.0, geometric=True), replacement)


def test_the_ends_of_a_mixture_of_geometric_distributions_are_such_mixtures():
    protocol = Protocol(2_000, 20)
    counts = a_log(protocol, seed=5)
    shape = Shape(head=1.0, geometric=True)
    found = interval(counts, protocol, "recall@10", shape=shape)
    for end, masses in ((found.low, found.at_low), (found.high, found.at_high)):
        p = np.array([masses.get(rank, 0.0) for rank in range(1, 2_001)])
        assert p.sum() == pytest.approx(1.0, abs=1e-4)  # without shares below 1e-6
        # Where the line that gives the end touches the profile, which is near the end.
        assert p[:10].sum() == pytest.approx(end, abs=0.05 * (found.high - found.low))
        # All differences of a mixture of geometric distributions have alternating signs.
        for order in range(1, 6):
            rounding = 1e-12 * 2**order
            assert ((-1) ** order * np.diff(p[:100], order) >= -rounding).all(), order


def test_geometric_users_are_held_and_a_drop_is_refused():
    protocol, n = Protocol(1_000, 20), 1_000
    ranks, rng = np.arange(1, n + 1), np.random.default_rng(4)
    laws, shape = protocol.pmf(ranks), Shape(geometric=True)
    missed = 0
    for rate in (60.0, 0.3, 0.03):
        p = np.exp(-rate * (ranks - 1))
        p = 0.7 * p / p.sum() + 0.3 / n
        for _ in range(12):
            counts = rng.multinomial(3_000, p @ laws)
            found = interval(counts, protocol, "recall@10", shape=shape)
            missed += not found.low <= p[:10].sum() <= found.high
    # Of 36 intervals of 95% more than 5 miss in one case in 120.
    assert missed <= 5
    # As many users at each of the first 150 ranks, and none beyond.
    counts = np.round(50_000 * laws[:150].mean(axis=0))
    assert interval(counts, protocol, "recall@10", shape=Shape()).high < 0.12
    with pytest.raises(identification.IncompatibleError, match="a mixture of geometric"):
        interval(counts, protocol, "recall@10", shape=shape)


def test_geometric_is_refused_where_it_cannot_be_assumed():
    shape = Shape(geometric=True)
    unequal = Protocol(7, 2, weights=[1.0, 1, 2, 2, 3, 3, 4], replacement=True)
    with pytest.raises(ValueError, match="geometric must be True or False, got 'yes'"):
        Shape(geometric="yes")
    with pytest.raises(ValueError, match="not be geometric, where negatives are not drawn alike"):
        interval([3, 1, 0], unequal, "recall@2", shape=shape)
    with pytest.raises(ValueError, match="must not be geometric for printed averages"):
        published("no.csv", replacement=True, shape=shape)


def test_one_negative_tells_the_mean_rank_and_nothing_else():
    # With m = 1 only the mean of (r - 1) / (n - 1) is known. Recall@k is largest with its share w
    # at rank k and the rest at rank n, where w (k - 1) / (n - 1) + 1 - w is that mean.
    n, k, mean = 101, 11, 0.4
    found = interval([1 - mean, mean], Protocol(n, 1), f"recall@{k}", users=np.inf)
    assert found.low == pytest.approx(0.0, abs=1e-9)
    assert found.high == pytest.approx((1 - mean) / (1 - 10 / 100), abs=5e-4)
    assert found.at_high == pytest.approx({11: 2 / 3, 101: 1 / 3}, abs=2e-3)


def test_two_negatives_by_hand():
    # Nothing at ranks 2 to 10, as little as possible at rank 1: rank 11 gives the most first
    # places for its share of the others. Its law is (0.64, 0.32, 0.04)'s kind: p = 10 / 49.
    p, q = 10 / 49, 39 / 49
    middle = 0.3 / (2 * p * q)
    last = 0.1 - middle * p * p
    found = interval([6, 3, 1], Protocol(50, 2), "recall@10", users=np.inf)
    assert found.low == pytest.approx(1 - middle - last, abs=1e-3)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "m"), [(50, 3), (3_541, 100), (500_000, 30)])
def test_auc_is_a_point_up_to_the_users(n, m, replacement):
    protocol = Protocol(n, m, replacement=replacement)
    counts = a_log(protocol, seed=m)
    found = interval(counts, protocol, "auc")
    x = np.repeat(np.arange(m + 1) / m, counts.astype(int))
    normal = np.sqrt(THRESHOLD) * x.std() / np.sqrt(x.size)
    assert found.low == pytest.approx(1 - x.mean() - normal, abs=0.3 * normal)
    assert found.high == pytest.approx(1 - x.mean() + normal, abs=0.3 * normal)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(METRICS), st.booleans())
def test_every_distribution_is_inside_the_interval_of_its_own_law(seed, name, replacement):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(12, 400)), int(rng.integers(1, 11))
    protocol = Protocol(n, m, replacement=replacement)
    mass = rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-3, 1)))
    exact = mass @ metric(name).vector(n)
    law = mass @ protocol.pmf(np.arange(1, n + 1))
    for users in (30.0, 1e6):
        found = interval(law, protocol, name, users=users)
        assert found.low - 1e-9 <= exact <= found.high + 1e-9
    falling = np.sort(mass)[::-1]
    exact = falling @ metric(name).vector(n)
    found = interval(falling @ protocol.pmf(np.arange(1, n + 1)), protocol, name, users=1e4,
                     shape=Shape())  # fmt: skip
    assert found.low - 1e-9 <= exact <= found.high + 1e-9


@pytest.mark.parametrize("shape", [None, Shape(), Shape(10.0, 2.0)])
def test_the_ends_are_reached_by_distributions_that_are_compatible(shape):
    protocol = Protocol(1_000, 60)
    counts = a_log(protocol, seed=5, users=3_000)
    found = interval(counts, protocol, "ndcg@10", shape=shape)
    rows = constraints(1_000, 60, shape)
    laws = protocol.pmf(np.arange(1, 1_001))
    for masses, end, user in ((found.at_low, found.low, -1), (found.at_high, found.high, 1)):
        mass = np.zeros(1_000)
        mass[np.array(list(masses)) - 1] = list(masses.values())
        assert mass.sum() == pytest.approx(1, abs=1e-4)
        assert mass @ metric("ndcg@10").vector(1_000) == pytest.approx(end, rel=0.05)
        c = counts.copy()
        c[0] += user
        q, seen = mass @ laws, c > 0
        assert 2 * c[seen] @ np.log(c[seen] / c.sum() / q[seen]) < chi2.ppf(0.999, 60)
        if len(rows):
            assert (rows @ mass).min() > -1e-6


def test_less_confidence_and_more_users_narrow_it():
    protocol = Protocol(300, 20)
    counts = a_log(protocol, seed=6)
    sure, unsure = (interval(counts, protocol, "ap", c) for c in (0.99, 0.5))
    assert sure.low < unsure.low < unsure.high < sure.high
    law = protocol.pmf([2, 20, 150]).mean(axis=0)
    several = [interval(law, protocol, "ap", users=u) for u in (1e2, 1e4, 1e6, np.inf)]
    assert (np.diff([found.low for found in several]) > 0).all()
    assert (np.diff([found.high for found in several]) < 0).all()


def test_what_is_assumed_narrows_it_and_steeper_falls_widen_it():
    protocol = Protocol(3_000, 99)
    counts = a_log(protocol, seed=7, users=3_000)
    shapes = [None, Shape(), Shape(10.0, 4.0), Shape(10.0, 2.0)]
    found = [interval(counts, protocol, "ndcg@10", shape=shape) for shape in shapes]
    slack = max(each.gap for each in found)
    assert all(a.low <= b.low + slack for a, b in itertools.pairwise(found))
    assert all(a.high >= b.high - slack for a, b in itertools.pairwise(found))
    assert found[1].low > 3 * found[0].low
    assert found[3].high < 0.9 * found[1].high


N = 400
POPULATIONS = {
    "at rank 1": {1: 0.1},
    "all at rank 1": {1: 1.0},
    "at rank 10": {10: 0.1},
    "at rank 11": {11: 0.2},
    "at rank n": {N: 1.0},
    "two modes": {5: 0.3, 300: 0.7},
    "a few first, all others last": {1: 0.02, N: 0.98},
    "uniform": {},
}


def population(spikes):
    p = np.full(N, (1.0 - sum(spikes.values())) / N)
    for rank, share in spikes.items():
        p[rank - 1] += share
    return p


def missed(p, users, m, name, shape, samples=60, seed=11, threshold=THRESHOLD):
    """How many of the intervals of simulated samples do not hold the exact metric."""
    rng = np.random.default_rng(seed)
    protocol, of = Protocol(N, m), metric(name)
    law = np.clip(p @ protocol.pmf(np.arange(1, N + 1)), 0, None)
    counts = rng.multinomial(users, law / law.sum(), size=samples).astype(float)
    parts = identification.partition(np.array([[m, 1, 1, N]]), np.array([float(users)]), of, True)
    profiles = parts.programme(shape).profiles([parts.counts([c]) for c in counts], (threshold,))
    ends = np.array([profile.interval(threshold) for profile in profiles])
    refused = sum(profile.fit.p_value < identification.REFUTED for profile in profiles)
    exact = p @ of.vector(N)
    return ((ends[:, 0] > exact + 1e-9) | (ends[:, 1] < exact - 1e-9)).sum(), refused


@pytest.mark.parametrize(("users", "name", "m"), [(50, "ndcg@10", 60), (2_000, "recall@10", 20)])
@pytest.mark.parametrize("spikes", POPULATIONS)
def test_intervals_by_chance_hold_the_exact_metric_of_hostile_populations(spikes, users, name, m):
    # One or none is wrong, where 3 of 60 may be; 15% wrong would show as 5 or more in 96% of cases.
    wrong, refused = missed(population(POPULATIONS[spikes]), users, m, name, None)
    assert wrong < 5
    assert refused <= 1


FALLING = {
    "power law": 1.0 / np.arange(1, N + 1),
    "steep": 1.0 / np.arange(1, N + 1) ** 2,
    "rank 1": np.append(1.0, np.full(N - 1, 9.0 / (N - 1))),
    "flat to 10": np.append(np.full(10, 3.0), np.full(N - 10, 0.2)),
    "flat to 60": np.append(np.full(60, 1.0), np.full(N - 60, 0.01)),
    "first ranks, then far": np.append(np.full(20, 1.0), [*np.zeros(300), *np.ones(N - 320)]),
}


@pytest.mark.parametrize(("users", "name", "m"), [(50, "recall@10", 20), (2_000, "ndcg@10", 60)])
@pytest.mark.parametrize("kind", FALLING)
def test_intervals_by_chance_hold_the_exact_metric_where_the_shape_does(kind, users, name, m):
    wrong, refused = missed(FALLING[kind] / FALLING[kind].sum(), users, m, name, Shape())
    assert wrong < 5
    assert refused <= 1


LEAST_FAVOURABLE = {
    "rank 1 or 11": ({1: 0.5, 11: 0.5}, "recall@10", None),
    "rank 10 or 200": ({10: 0.5, 200: 0.5}, "recall@10", None),
    "uniform": ({}, "ndcg@10", Shape(50.0)),
}


@pytest.mark.parametrize("kind", LEAST_FAVOURABLE)
def test_intervals_by_chance_hold_the_exact_metric_of_the_least_favourable(kind):
    # One degree of freedom would have a tenth missed. 5% of 120 are 6; 12 or more are there once in
    # 200 times where exactly 5% are wrong.
    spikes, name, shape = LEAST_FAVOURABLE[kind]
    wrong, refused = missed(population(spikes), 3_000, 20, name, shape, samples=120)
    assert wrong < 12
    assert refused <= 1


def test_a_steep_fall_is_missed_by_a_shape_that_excludes_it():
    # What the tests above would show if an assumption failed, so that they can fail at all.
    p = FALLING["steep"] / FALLING["steep"].sum()
    wrong, refused = missed(p, 20_000, 20, "ndcg@10", Shape(10.0, 1.2))
    assert wrong + refused > 50


def test_a_sample_that_no_ranks_explain_is_refused():
    # The number of negatives above an item spreads: 1,000 users cannot all have 50 of 100.
    counts = np.zeros(101)
    counts[50] = 1_000
    with pytest.raises(identification.IncompatibleError, match="contradict the protocol"):
        interval(counts, Protocol(10_000, 100), "ap")
    assert interval(counts / 200, Protocol(10_000, 100), "ap").low > 0


def test_a_sample_that_contradicts_a_shape_is_refused_with_the_evidence():
    protocol = Protocol(10_000, 100)
    ranks = np.repeat([600, 9_000], 1_500)  # six negatives above, on average
    counts = np.bincount(protocol.draw(ranks, np.random.default_rng(2)) - 1, minlength=101)
    assert interval(counts, protocol, "ndcg@10").low == pytest.approx(0, abs=1e-3)
    with pytest.raises(identification.IncompatibleError, match=r"deviance \d+ on at most \d+ deg"):
        interval(counts, protocol, "ndcg@10", shape=Shape())


def test_users_of_one_catalogue_size_may_be_given_in_classes():
    protocol = Protocol(300, 20)
    first, second = a_log(protocol, seed=8), a_log(protocol, seed=9, users=90)
    whole = interval(first + second, protocol, "ndcg")
    split = interval([first, second, 0 * first], [protocol] * 3, "ndcg")
    assert [split.low, split.high] == pytest.approx([whole.low, whole.high], abs=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
def test_many_catalogue_sizes_hold_every_distribution(replacement):
    rng = np.random.default_rng(11)
    protocols = [Protocol(n, 8, replacement=replacement) for n in range(60, 240, 4)]
    ranks = [1 + (p.n_items * rng.beta(0.5, 3.0, size=5)).astype(int) for p in protocols]
    laws = [5 * p.pmf(r).mean(axis=0) for p, r in zip(protocols, ranks, strict=True)]
    for name in ("recall@10", "ap"):
        values = [metric(name)(r, n_items=p.n_items) for p, r in zip(protocols, ranks, strict=True)]
        found = interval(laws, protocols, name, users=1e5)
        assert found.low <= np.mean(values) <= found.high


def test_users_with_a_few_more_negatives_count_as_if_they_had_fewer():
    ranks = np.array([1, 3, 8, 30, 77])
    few, many = Protocol(100, 20), Protocol(100, 21)
    laws = [100 * few.pmf(ranks).mean(axis=0), 300 * many.pmf(ranks).mean(axis=0)]
    found, alone = interval(laws, [few, many], "ap"), interval(4 * laws[0], few, "ap")
    assert [found.low, found.high] == pytest.approx([alone.low, alone.high], abs=1e-6)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["ndcg@5", "ap", "rr", "recall@5", "auc"])
def test_several_relevant_items(name, replacement):
    protocol = Protocol(60, 5, replacement=replacement, n_relevant=3)
    rng = np.random.default_rng(13)
    sets = [sorted(rng.choice(np.arange(1, 41), 3, replace=False)) for _ in range(50)]
    laws = np.array([[protocol.pmf(ranks[j - 1], j) for j in (1, 2, 3)] for ranks in sets]).mean(
        axis=0
    )
    exact = np.mean([metric(name).of_set(ranks, n_items=60) for ranks in sets])
    for users in (500, 1e6):
        found = interval(laws, protocol, name, users=users)
        assert found.low - 1e-7 <= exact <= found.high + 1e-7


def test_a_metric_that_sees_only_the_best_item_is_as_of_that_item_alone():
    protocol = Protocol(60, 5, n_relevant=2)
    counts = np.array([[70, 20, 6, 2, 1, 1], [10, 20, 30, 20, 10, 10]])
    found = interval(counts, protocol, "rr")
    alone = interval(counts[0], Protocol(59, 5), "rr")
    assert [found.low, found.high] == pytest.approx([alone.low, alone.high], abs=1e-9)


def test_a_shape_is_of_the_best_item_alone():
    protocol = Protocol(60, 5, n_relevant=2)
    counts = np.array([[70, 20, 6, 2, 1, 1], [10, 20, 30, 20, 10, 10]])
    found = interval(counts, protocol, "rr", shape=Shape())
    alone = interval(counts[0], Protocol(59, 5), "rr", shape=Shape())
    assert [found.low, found.high] == pytest.approx([alone.low, alone.high], abs=1e-9)
    # All of the best at one deep rank contradict it.
    with pytest.raises(identification.IncompatibleError, match="the assumption that deeper"):
        interval([[0, 0, 9_000, 0, 0, 0]] * 2, Protocol(60_000, 5, n_relevant=2), "rr",
                 shape=Shape())  # fmt: skip
    with pytest.raises(ValueError, match="deeper ranks may well have more users for item 2 of 2"):
        interval(counts, protocol, "ap", shape=Shape())


def test_intervals_of_the_best_of_several_hold_where_each_item_is_likeliest_at_the_top():
    # Three items of each user by falling weights: the best one's rank falls, the next one's rises.
    rng, n, m, of = np.random.default_rng(5), N, 20, metric("hit@10")
    keys = -0.5 * np.log(np.arange(1, n + 1)) + rng.gumbel(size=(10_000, n))
    ranks = np.sort(np.argpartition(-keys, 3, axis=1)[:, :3], axis=1) + 1
    best, second = (np.bincount(ranks[:, j], minlength=n + 1)[1:] for j in (0, 1))
    assert best[0] > best[1] > best[3]
    assert second[1] < second[5]
    mass = best[: n - 2] / best.sum()
    law = mass @ Protocol(n - 2, m).pmf(np.arange(1, n - 1))
    counts = rng.multinomial(2_000, law / law.sum(), size=60).astype(float)
    kinds = np.array([[m, 3, j, n] for j in (1, 2, 3)])
    parts = identification.partition(kinds, np.full(3, 2_000.0), of, True)
    samples = [parts.counts([c, c, c]) for c in counts]
    for shape, widest in ((None, 0.6), (Shape(), 0.2)):
        found = parts.programme(shape).profiles(samples, (THRESHOLD,))
        ends = np.array([profile.interval(THRESHOLD) for profile in found])
        exact = mass[:10].sum()
        assert ((ends[:, 0] > exact) | (ends[:, 1] < exact)).sum() < 9  # 5% of 60 are 3
        assert np.median(ends[:, 1] - ends[:, 0]) < widest


@pytest.mark.parametrize("shape", [None, Shape()])
def test_intervals_by_chance_hold_the_exact_metric_of_many_users_with_few_negatives(shape):
    # As benchmarks/intervals.py, which also tries 1,000 negatives, and populations that break more.
    rng, sizes, m, of = np.random.default_rng(6), (2_000, 6_000, 20_000), 10, metric("ndcg@10")
    kinds, exact, laws = np.array([[m, 1, 1, n] for n in sizes]), 0.0, []
    for n in sizes:
        mass = np.arange(1, n + 1) ** -0.8
        mass /= mass.sum()
        exact += mass @ of.vector(n) / 3
        laws.append(mass @ Protocol(n, m).pmf(np.arange(1, n + 1)))
    drawn = [rng.multinomial(33_000, law / law.sum(), size=20).astype(float) for law in laws]
    parts = identification.partition(kinds, np.full(3, 33_000.0), of, True)
    samples = [parts.counts(list(each)) for each in zip(*drawn, strict=True)]
    found = parts.programme(shape).profiles(samples, (THRESHOLD,))
    ends = np.array([profile.interval(THRESHOLD) for profile in found])
    # 5% of 20 are 1; 5 or more are there once in 400 times where exactly 5% are wrong.
    assert ((ends[:, 0] > exact) | (ends[:, 1] < exact)).sum() < 5


def test_a_metric_that_is_the_same_for_every_rank_is_a_point():
    found = interval([5, 3, 1], Protocol(9, 2), "recall@10")
    assert (found.low, found.high, found.gap) == (1.0, 1.0, 0.0)


def test_ranks_that_are_missing_make_an_interval_wider_and_not_wrong(monkeypatch):
    protocol = Protocol(2_000, 40)
    counts = a_log(protocol, seed=14, users=5_000)
    whole = interval(counts, protocol, "ap")
    columns = identification._columns
    few = lambda part, shape: replace((all_ := columns(part, shape)), first=all_.cover)  # noqa: E731
    monkeypatch.setattr(identification, "_columns", few)
    monkeypatch.setattr(identification, "_ROUNDS", 0)
    rough = interval(counts, protocol, "ap")
    assert rough.low < whole.low - whole.gap
    assert rough.high >= whole.high - whole.gap
    assert whole.certified


def test_a_fall_of_any_steepness_is_no_bound_on_it():
    protocol = Protocol(3_000, 99)
    counts = a_log(protocol, seed=7, users=3_000)
    any_fall, nearly = (
        interval(counts, protocol, "ndcg@10", shape=shape) for shape in (Shape(), Shape(10.0, 1e4))
    )
    slack = any_fall.gap + nearly.gap + 1e-4
    assert [nearly.low, nearly.high] == pytest.approx([any_fall.low, any_fall.high], abs=slack)


@pytest.mark.parametrize("shape", [None, Shape(4.0)])
def test_two_samples_are_as_far_apart_as_a_general_optimiser_finds(shape):
    n, m, protocol, rng = 30, 4, Protocol(30, 4), np.random.default_rng(1)
    counts = [
        np.bincount(protocol.draw(np.repeat(ranks, 30), rng) - 1, minlength=m + 1).astype(float)
        for i, ranks in enumerate(([1, 2, 9], [6, 17, 28]))
    ]
    of, law = metric("recall@10"), protocol.pmf(np.arange(1, n + 1))
    parts = identification.partition(np.array([[m, 1, 1, n]]), np.array([90.0]), of, True)
    samples = [parts.counts([c]) for c in counts]
    programme = parts.programme(shape)
    first, second = programme.profiles(samples)
    slope = identification.meeting(first, second)
    assert slope > 0
    assert identification.meeting(second, first) == 0.0
    (fall,), _ = programme.apart([tuple(samples)], np.array([slope]))
    values, rows = of.vector(n), constraints(n, m, shape)
    moved = [counts[0] - np.eye(m + 1)[0], counts[1] + np.eye(m + 1)[0]]

    def likelihood(p, c):
        return float(c @ np.log(np.maximum(p @ law, 1e-300)))

    def gradient(p, c):
        return law @ (c / np.maximum(p @ law, 1e-300))

    best = [-optimum(lambda p, c=c: -likelihood(p, c), lambda p, c=c: -gradient(p, c), n, rows)
            for c in moved]  # fmt: skip
    conditions = [
        {"type": "eq", "fun": lambda p: np.array([p[:n].sum() - 1, p[n:].sum() - 1])},
        {"type": "ineq", "fun": lambda p: np.array([(p[n:] - p[:n]) @ values])},
    ]
    if len(rows):
        conditions.append({"type": "ineq", "fun": lambda p: np.append(rows @ p[:n], rows @ p[n:])})
    together = minimize(
        lambda p: -sum(likelihood(p[i * n : (i + 1) * n], c) for i, c in enumerate(moved)),
        np.full(2 * n, 1 / n), bounds=[(0, 1)] * (2 * n), method="SLSQP", constraints=conditions,
        jac=lambda p: -np.append(gradient(p[:n], moved[0]), gradient(p[n:], moved[1])),
        options={"maxiter": 800, "ftol": 1e-10},
    )  # fmt: skip
    wanted = 2 * (sum(best) + together.fun)
    # Any slope gives a bound; that of a few lines leaves some of it where samples are far apart.
    assert 0.7 * wanted <= fall <= wanted + 1e-3


GOOD = [6, 3, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [6, 3]}, r"counts must have shape \(3,\), got \(2,\)"),
        ({"counts": []}, r"counts must have shape \(3,\), got \(0,\)"),
        ({"counts": [6, -3, 1]}, "counts must be finite numbers >= 0, got -3"),
        ({"counts": [6, np.nan, 1]}, "counts must be finite numbers >= 0, got nan"),
        ({"counts": [6, np.inf, 1]}, "counts must be finite numbers >= 0, got inf"),
        ({"counts": [0, 0, 0]}, "at least one user"),
        ({"counts": ["a", "b", "c"]}, "counts must be numbers"),
        ({"counts": [GOOD, GOOD]}, r"counts must have shape \(3,\)"),
        ({"counts": [GOOD], "protocol": []}, "must hold one for each of 1 counts, got 0"),
        ({"counts": [], "protocol": []}, "at least one user"),
        (
            {
                "counts": [GOOD] * 2,
                "protocol": [Protocol(50, 2), Protocol(50, 2, replacement=False)],
            },
            "replacement must be the same",
        ),
        ({"protocol": Protocol([50, 60, 70], 2)}, r"n_items must be one number .* \(3,\)"),
        ({"protocol": Protocol(30_000_000, 2)}, "n_items must be at most 20,000,000"),
        ({"confidence": 1.0}, r"confidence must be a number in \(0, 1\), got 1.0"),
        ({"confidence": "high"}, "confidence must be a number"),
        ({"confidence": np.nan}, "confidence must be a number"),
        ({"users": 0}, "users must be a number > 0, got 0"),
        ({"users": np.nan}, "users must be a number > 0, got nan"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"counts": GOOD, "protocol": Protocol(50, 2), "metric": metric("ap")}
    with pytest.raises(ValueError, match=message):
        interval(**(given | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": 0}, "head must be a number >= 1e-09, got 0"),
        ({"head": np.nan}, "head must be a number >= 1e-09, got nan"),
        ({"steepness": 0.5}, "steepness must be a number >= 1, got 0.5"),
        ({"steepness": "steep"}, "steepness must be a number >= 1, got 'steep'"),
    ],
)
def test_a_shape_out_of_range_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        Shape(**change)


def test_positions_must_count_the_same_users():
    protocol = Protocol(50, 2, n_relevant=2)
    with pytest.raises(ValueError, match="the same sum at every position"):
        interval([[5, 3, 1], [1, 3, 4]], protocol, metric("ap"))


@given(st.lists(st.floats(max_value=1e9), max_size=4))
def test_any_list_gives_an_interval_or_a_sentence(counts):
    message = "counts "
    try:
        found = interval(counts, Protocol(30, 2), metric("ap"))
    except ValueError as error:
        message = str(error)
    else:
        assert 0 <= found.low <= found.high <= 1
    assert message.startswith("counts ")

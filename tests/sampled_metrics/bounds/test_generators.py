"""Generators against distributions summed by hand, and their maxima against every rank."""

import itertools

import numpy as np
import pytest
from scipy import stats

from sampled_metrics import Assumption, Protocol, metric
from sampled_metrics.bounds import generators as module
from sampled_metrics.bounds.generators import Generators, hats, knots

from . import populations


@pytest.fixture
def few_looked_at(monkeypatch):
    """Ranks with gaps between them, already in small catalogues."""
    monkeypatch.setattr(module, "_ALL", 0)
    monkeypatch.setattr(module, "_EVERY", 40)
    monkeypatch.setattr(module, "_ANGLES", 4)
    monkeypatch.setattr(module, "_RATIOS", 6)


def generators_of(pool, m, replacement, top=0, steepness=np.inf, geometric=False):
    """Those of an assumption on the first `top` ranks; of nothing assumed, if there are none."""
    assumption = Assumption(steepness=steepness, geometric=geometric) if top else None
    return Generators(Protocol(pool + 1, m, replacement=replacement), assumption, top)


def on_knots(pmfs, m):
    """What straight lines between the knots make of distributions of the sampled rank."""
    x = np.arange(m + 1)
    lines = np.array([np.interp(x, knots(m), row) for row in np.eye(knots(m).size)])
    return pmfs @ lines.T


def averages(rows):
    """The average over the ranks down to each."""
    return np.cumsum(rows, axis=0) / np.arange(1, len(rows) + 1)[:, np.newaxis]


@pytest.mark.parametrize("m", [1, 2, 3, 10, 99, 100, 1_000])
def test_knots_and_their_lines(m):
    knot_ranks, x = knots(m), np.arange(m + 1)
    assert (knot_ranks[0], knot_ranks[-1]) == (0, m)
    assert (np.diff(knot_ranks) > 0).all()
    values = np.random.default_rng(m).normal(size=knot_ranks.size)
    np.testing.assert_allclose(
        hats(m) @ values, np.interp(x, knot_ranks, values), rtol=0, atol=1e-13
    )
    # No two are further apart than the sampled rank spreads, at the one before.
    spread = np.sqrt(knot_ranks[:-1] * (1 - knot_ranks[:-1] / m))
    assert (np.diff(knot_ranks) <= np.maximum(1.0, 0.75 * spread + 0.5)).all()


@pytest.mark.parametrize("top", [0, 40])
def test_exact_ranks_need_no_distribution_of_the_sampled_rank(monkeypatch, top):
    expected = on_knots(np.eye(301), 300)
    monkeypatch.setattr(Protocol, "rows", None)  # the identity, of 10^8 entries in large catalogues
    generators = generators_of(300, 300, False, top)
    np.testing.assert_allclose(
        generators.pmf[generators.spread :], expected[top:], rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        generators.pmf[: generators.spread], averages(expected)[:top], rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("pool", "m", "top"), [(9, 2, 0), (9, 2, 4), (30, 30, 12), (400, 60, 65)])
def test_distributions_of_small_catalogues(pool, m, top, replacement):
    generators = generators_of(pool, m, replacement, top)
    pmfs = on_knots(populations.law(m, pool + 1, replacement), m)
    assert generators.spread == top
    assert generators.last.tolist() == [*range(top), *range(top, pool + 1)]
    np.testing.assert_allclose(generators.pmf[:top], averages(pmfs)[:top], rtol=0, atol=1e-12)
    np.testing.assert_allclose(generators.pmf[top:], pmfs[top:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("pool", "m", "top"), [(3_000, 7, 900), (2_000, 50, 505), (700, 1, 300)])
@pytest.mark.usefixtures("few_looked_at")
def test_averages_that_are_not_summed_one_by_one(pool, m, top, replacement):
    generators = generators_of(pool, m, replacement, top)
    assert 40 < generators.spread < top
    assert generators.last[generators.spread - 1] == top - 1
    pmfs = populations.law(m, pool + 1, replacement)
    average_pmfs, rank_pmfs = on_knots(averages(pmfs), m), on_knots(pmfs, m)
    spread, last = generators.pmf[: generators.spread], generators.last
    if replacement:  # a remainder, which `largest` adds
        rng = np.random.default_rng(1)
        for function in rng.normal(size=(20, knots(m).size)):
            rest = generators._rest(function, last * 0.0, 0.0)
            difference = np.abs((spread - average_pmfs[last[: generators.spread]]) @ function).max()
            assert difference <= rest + 1e-12
        # Two terms of the formula leave so little that none of them is wrong.
        np.testing.assert_allclose(
            spread, average_pmfs[last[: generators.spread]], rtol=0, atol=2e-8
        )
    else:
        np.testing.assert_allclose(
            spread, average_pmfs[last[: generators.spread]], rtol=0, atol=1e-12
        )
    np.testing.assert_allclose(
        generators.pmf[generators.spread :],
        rank_pmfs[last[generators.spread :]],
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("replacement", [True, False])
def test_averages_in_a_large_catalogue(replacement):
    pool, m, top = 1_000_000, 20, 60_000
    generators = generators_of(pool, m, replacement, top)
    assert generators.spread < 10_000
    expected = on_knots(averages(populations.law(m, pool + 1, replacement, top)), m)
    last = generators.last[: generators.spread]
    np.testing.assert_allclose(
        generators.pmf[: generators.spread], expected[last], rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("name", ["recall@3", "ndcg@10", "ap", "auc"])
@pytest.mark.parametrize("few", [True, False])
def test_the_metric_of_a_generator_is_the_mean_over_its_ranks(name, few, request):
    if few:
        request.getfixturevalue("few_looked_at")
    pool, top = 500, 130
    generators, parsed_metric = generators_of(pool, 8, True, top), metric(name)
    values = parsed_metric.vector(pool + 1)
    expected = np.where(
        np.arange(generators.last.size) < generators.spread,
        averages(values[:, np.newaxis])[generators.last, 0],
        values[generators.last],
    )
    generator_metrics = generators.metric(values[:top], values[generators.last])
    np.testing.assert_allclose(generator_metrics, expected, rtol=0, atol=1e-13)


def test_constraints_are_what_steepness_allows():
    n, m, steepness = 200, 10, 3.0
    generators = generators_of(n - 1, m, True, 70, steepness)
    for generator_index in range(generators.last.size):
        p = np.zeros(n)
        if generator_index < generators.spread:
            p[: generators.last[generator_index] + 1] = 1.0 / (generators.last[generator_index] + 1)
        else:
            p[generators.last[generator_index]] = 1.0
        shares = [p[2**k - 1 : 2 ** (k + 1) - 1].sum() for k in range(6)]  # 63 ranks, not 127
        expected = [
            deeper - 2.0 / steepness * shallower for shallower, deeper in itertools.pairwise(shares)
        ]
        np.testing.assert_allclose(
            generators.constraints[:, generator_index], expected, rtol=0, atol=1e-13
        )


@pytest.mark.parametrize("top", [7, 8, 40])
def test_constraints_of_geometric_distributions(top):
    generators = generators_of(60, 5, True, top, 2.0, geometric=True)
    doublings = [slice(2**k - 1, 2 ** (k + 1) - 1) for k in range(int(np.log2(top + 1)))]
    doubling_shares = np.array(
        [generators._mixed[:, doubling].sum(axis=1) for doubling in doublings]
    )
    assert generators.constraints.shape == (len(doublings) - 1, generators.last.size)
    np.testing.assert_allclose(
        generators.constraints[:, : generators.spread],
        doubling_shares[1:] - doubling_shares[:-1],
        atol=1e-12,
    )
    assert not generators.constraints[:, generators.spread :].any()


@pytest.mark.parametrize("top", [0, 1, 2])
def test_nothing_is_constrained_where_there_is_one_doubling_at_most(top):
    generators = generators_of(50, 4, False, top, 2.0)
    assert generators.constraints.shape == (0, generators.last.size)
    assert generators.spread == (2 if top == 2 else 0)


def test_geometric_distributions_are_such_from_even_to_rank_1_alone():
    pool, m, top = 300, 9, 40
    generators = generators_of(pool, m, False, top, geometric=True)
    weights = generators._mixed
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weights[0], 1.0 / top, rtol=0, atol=1e-15)
    np.testing.assert_allclose(weights[-1], np.eye(top)[0], rtol=0, atol=1e-15)
    for rank_weights in weights[1:1_000:37]:
        ratios = rank_weights[1:] / rank_weights[:-1]
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)
    pmfs = on_knots(populations.law(m, pool + 1, False), m)
    np.testing.assert_allclose(
        generators.pmf[: generators.spread], weights @ pmfs[:top], rtol=0, atol=1e-12
    )
    assert generators.last[generators.spread :].tolist() == list(range(top, pool + 1))
    values = metric("ndcg").vector(pool + 1)
    generator_metrics = generators.metric(values[:top], values[generators.last])
    np.testing.assert_allclose(
        generator_metrics[: generators.spread], weights @ values[:top], rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(generator_metrics[generators.spread :], values[top:], rtol=0, atol=0)


def test_geometric_is_refused_of_too_many_ranks():
    with pytest.raises(ValueError, match="geometric must be False where an assumption is of more"):
        generators_of(100_000, 10, True, 5_000, geometric=True)


def functions(m, rng, n_functions=6):
    """Functions of the sampled rank on its knots: rough, smooth and steep ones."""
    positions = knots(m) / m
    for i in range(n_functions):
        if i % 3 == 0:
            yield rng.random(positions.size)
        elif i % 3 == 1:
            yield 1.0 + 0.5 * np.sin(rng.normal() + 6.0 * positions)
        else:
            yield np.exp(
                -rng.exponential(8.0) * np.abs(positions - rng.choice([0.0, rng.random()]))
            )


def every_value(m, n, replacement, function, values, slope):
    """An expectation less a price of a metric at each rank, and over each average."""
    expectations = populations.law(m, n, replacement) @ np.interp(
        np.arange(m + 1), knots(m), function
    )
    net_values = expectations - slope * values
    return net_values, np.cumsum(net_values) / np.arange(1, n + 1)


def by_hand(m, n, replacement, top, function, values, slope):
    rank_values, average_values = every_value(m, n, replacement, function, values, slope)
    generator_values = (
        np.append(average_values[:top], rank_values[top:]) if top > 1 else rank_values
    )
    return generator_values.max()


SIZES = [(6, 1, 0), (30, 4, 7), (900, 9, 0), (900, 60, 150), (2_000, 20, 2_000)]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["recall@10", "ap", "auc"])
@pytest.mark.parametrize(("n", "m", "top"), SIZES)
def test_the_maximum_is_that_over_all_ranks(n, m, top, name, replacement):
    rng, values = np.random.default_rng(n + m), metric(name).vector(n)
    generators = generators_of(n - 1, m, replacement, top)
    price = generators.metric(values[: max(top, 1)], values[generators.last])
    for function in functions(m, rng):
        slope = rng.choice([-1.0, 1.0]) * rng.exponential()
        expected = by_hand(m, n, replacement, top, function, values, slope)
        bound, generator_values = generators.largest(function, slope * price, 1e-6)
        assert bound == pytest.approx(expected, abs=1e-11)
        assert generator_values.max() == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["recall@10", "ndcg", "auc"])
@pytest.mark.parametrize(("n", "m", "top"), [(900, 9, 0), (3_000, 60, 500), (3_000, 20, 3_000)])
@pytest.mark.usefixtures("few_looked_at")
def test_the_maximum_is_not_missed_between_ranks_that_are_looked_at(n, m, top, name, replacement):
    rng, values = np.random.default_rng(n + m), metric(name).vector(n)
    generators = generators_of(n - 1, m, replacement, top)
    assert generators.last.size < n / 3
    price = generators.metric(values[: max(top, 1)], values[generators.last])
    n_beyond = 0
    for function in functions(m, rng, 18):
        slope = rng.choice([-1.0, 1.0]) * rng.exponential()
        expected = by_hand(m, n, replacement, top, function, values, slope)
        tolerance = 0.02
        bound, generator_values = generators.largest(function, slope * price, tolerance)
        assert bound >= expected - 1e-12
        assert generator_values.max() <= expected + 1e-9 + generators._rest(function, price, 0.0)
        n_beyond += generator_values.max() < expected - 1e-9
        if not top:  # averages are not looked at more closely, nor are prices
            assert bound <= expected + tolerance + abs(slope) * np.abs(np.diff(price)).max()
    assert n_beyond  # so that what was looked at alone would not do


@pytest.mark.usefixtures("few_looked_at")
def test_distributions_between_ranks_are_kept_for_other_functions(monkeypatch):
    generators = generators_of(2_999, 60, False)
    for above in ([700, 90, 95], [95, 700, 2_000], [90], [2_000, 91]):
        rows = generators._between_rows(np.array(above))
        assert rows == pytest.approx(generators.rows(np.array(above)), abs=1e-15)
    known, rows = generators._between
    assert known.tolist() == [90, 91, 95, 700, 2_000]
    monkeypatch.setattr(module, "_KEPT", 0)
    assert generators._between_rows(np.array([5, 90])).shape == (2, knots(60).size)
    assert generators._between[0].size == 5


def test_a_peak_between_two_ranks_that_are_looked_at_counts():
    # 200 draws are 50 above at one rank in four and hardly elsewhere.
    pool, m = 300_000, 200
    generators = generators_of(pool, m, True)
    function = np.zeros(knots(m).size)
    function[np.searchsorted(knots(m), 50)] = 1.0
    x, gaps = np.arange(m + 1), generators.last[:-1][np.diff(generators.last) > 1]
    for tolerance in (1e-3, 1e-9):
        bound, _ = generators.largest(function, generators.last * 0.0, tolerance)
        above = gaps[(gaps > 0.2 * pool) & (gaps < 0.3 * pool)]
        fine_grid = np.arange(above[0], above[-1], 7)
        expectations = stats.binom.pmf(x, m, fine_grid[:, np.newaxis] / pool) @ np.interp(
            x, knots(m), function
        )
        assert expectations.max() - 1e-12 <= bound <= expectations.max() + tolerance + 1e-5


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("replacement", [True, False])
def test_what_steepness_is_worth_is_added(replacement, few, request):
    if few:
        request.getfixturevalue("few_looked_at")
    n, m, top, steepness = 1_000, 10, 400, 2.0
    rng, values = np.random.default_rng(4), metric("ap").vector(n)
    generators = generators_of(n - 1, m, replacement, top, steepness)
    price = generators.metric(values[:top], values[generators.last])
    ranks, starts = np.arange(n), 2 ** np.arange(9) - 1
    doubling = np.searchsorted(starts, ranks, side="right") - 1  # 8 of the last, which is cut
    in_doubling = np.eye(9)[doubling][:, :8]
    falls = in_doubling[:, 1:] - 2.0 / steepness * in_doubling[:, :-1]
    for function in functions(m, rng):
        slope, prices = rng.normal(), rng.exponential(size=7)
        # Down to the top the falls are part of what is averaged; beyond there is none.
        rank_values, average_values = every_value(m, n, replacement, function, values, slope)
        average_values += np.cumsum(np.where(ranks < top, falls @ prices, 0.0)) / (ranks + 1.0)
        expected = max(rank_values[top:].max(), average_values[:top].max())
        bound, generator_values = generators.largest(function, slope * price, 1e-9, prices)
        assert bound >= expected - 1e-9
        if not few:
            assert bound == pytest.approx(expected, abs=1e-9)
            assert generator_values.max() == pytest.approx(expected, abs=1e-9)


def test_a_fall_may_be_worth_most_between_two_ranks_that_are_looked_at(few_looked_at):
    # Deeper down a fall is worth more, and the expectation is less: as much less at the next rank.
    pool, m, top = 999, 10, 400
    generators = generators_of(pool, m, True, top, 1e6)
    gaps = np.flatnonzero(np.diff(generators.last[: generators.spread]) > 1)
    for gap, fall in itertools.product(gaps, generators.constraints):
        gain = fall[gap + 1] - fall[gap]
        mean = -0.5 * m / pool * generators.last
        if gain <= 0:
            continue
        scale = gain / (mean[gap] - mean[gap + 1])
        cost = np.full(generators.last.size, 10.0)
        cost[gap : gap + 2] = 0.0
        prices = (generators.constraints == fall).all(axis=1).astype(float)
        bound, generator_values = generators.largest(-scale * knots(m), cost, 1e-9, prices)
        above = np.arange(generators.last[gap], generators.last[gap + 1] + 1)
        # Within a doubling the share of users in it, or in those before, is a + b / ranks.
        inverse = 1.0 / (generators.last[[gap, gap + 1]] + 1.0)
        fall_values = fall[gap] + gain * (1.0 / (above + 1.0) - inverse[0]) / (
            inverse[1] - inverse[0]
        )
        expected = (fall_values - 0.5 * scale * m / pool * above).max()
        assert generator_values.max() < expected <= bound


@pytest.mark.parametrize("steepness", [np.inf, 3.0])
@pytest.mark.parametrize(("n", "m", "top"), [(300, 10, 60), (400, 4, 400)])
def test_no_rate_between_those_that_are_looked_at_is_above_the_maximum(n, m, top, steepness):
    rng = np.random.default_rng(9)
    generators = generators_of(n - 1, m, True, top, steepness, geometric=True)
    pmfs = populations.law(m, n, True)
    rates = np.concatenate([[0.0], np.geomspace(1e-4 / top, 60.0, 20_000), [700.0]])
    doublings = int(np.log2(top + 1)) if np.isfinite(steepness) else 0
    cases, top_values, beyond = [], [], []
    for name in ("recall@10", "auc"):
        values = metric(name).vector(n)
        price = generators.metric(values[:top], values[generators.last])
        for function in functions(m, rng):
            slope, prices = rng.normal(), rng.exponential(size=max(doublings - 1, 0))
            rank_values = pmfs @ np.interp(np.arange(m + 1), knots(m), function) - slope * values
            beyond.append(rank_values[top:].max(initial=-np.inf))
            for k, fall_price in enumerate(prices):
                rank_values[2 ** (k + 1) - 1 : 2 ** (k + 2) - 1] += fall_price
                rank_values[2**k - 1 : 2 ** (k + 1) - 1] -= 2.0 / steepness * fall_price
            top_values.append(rank_values[:top])
            cases.append((function, slope * price, prices))
    highest = np.array(beyond)
    for block in np.array_split(rates, 20):
        p = np.exp(-np.outer(block, np.arange(top)))
        means = p @ np.array(top_values).T / p.sum(axis=1, keepdims=True)
        highest = np.maximum(highest, means.max(axis=0))
    for (function, cost, prices), expected in zip(cases, highest, strict=True):
        bound, generator_values = generators.largest(function, cost, 1e-9, prices)
        rest = generators._rest(function, cost, float(prices.sum()) * (1 + 2 / steepness))
        assert bound >= expected - 1e-12
        assert bound <= expected + rest + 1e-7
        assert rest < 2e-3 * (np.ptp(function) + np.ptp(cost) + 3.0 * prices.sum())
        assert generator_values.max() <= expected + 1e-7


@pytest.mark.parametrize("few", [True, False])
def test_a_density_over_the_ranks_leads_to_its_marginal(few, request):
    if few:
        request.getfixturevalue("few_looked_at")
    n, m = 1_000, 12
    generators = generators_of(n - 1, m, True, 200)
    ranks = np.arange(1.0, n + 1)
    p = (ranks + 5.0) ** -0.7
    marginal = generators.marginal(lambda rank: (rank + 5.0) ** -0.7)
    expected = on_knots(p / p.sum() @ populations.law(m, n, True), m)
    np.testing.assert_allclose(marginal, expected, rtol=0, atol=1.5e-3 if few else 1e-12)
    assert marginal.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_fit_begins_where_no_knot_is_impossible():
    for m in (3, 100):
        generators = generators_of(2_000, m, True, 300)
        assert (generators.pmf[generators.first].max(axis=0) > 0.01).all()
        assert generators.first.size < 500

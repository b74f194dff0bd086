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


def on_knots(laws, m):
    """What straight lines between the knots make of distributions of the sampled rank."""
    x = np.arange(m + 1)
    lines = np.array([np.interp(x, knots(m), row) for row in np.eye(knots(m).size)])
    return laws @ lines.T


def averages(laws):
    """The average over the ranks down to each."""
    return np.cumsum(laws, axis=0) / np.arange(1, len(laws) + 1)[:, np.newaxis]


@pytest.mark.parametrize("m", [1, 2, 3, 10, 99, 100, 1_000])
def test_knots_and_their_lines(m):
    at, x = knots(m), np.arange(m + 1)
    assert (at[0], at[-1]) == (0, m)
    assert (np.diff(at) > 0).all()
    values = np.random.default_rng(m).normal(size=at.size)
    np.testing.assert_allclose(hats(m) @ values, np.interp(x, at, values), rtol=0, atol=1e-13)
    # No two are further apart than the sampled rank spreads, at the one before.
    spread = np.sqrt(at[:-1] * (1 - at[:-1] / m))
    assert (np.diff(at) <= np.maximum(1.0, 0.75 * spread + 0.5)).all()


@pytest.mark.parametrize("top", [0, 40])
def test_exact_ranks_need_no_distribution_of_the_sampled_rank(monkeypatch, top):
    expected = on_knots(np.eye(301), 300)
    monkeypatch.setattr(module, "thinning", None)
    monkeypatch.setattr(Protocol, "rows", None)  # the identity, of 10^8 entries in large catalogues
    found = generators_of(300, 300, False, top)
    np.testing.assert_allclose(found.pmf[found.spread :], expected[top:], rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        found.pmf[: found.spread], averages(expected)[:top], rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("pool", "m", "top"), [(9, 2, 0), (9, 2, 4), (30, 30, 12), (400, 60, 65)])
def test_distributions_of_small_catalogues(pool, m, top, replacement):
    found = generators_of(pool, m, replacement, top)
    laws = on_knots(populations.law(m, pool + 1, replacement), m)
    assert found.spread == top
    assert found.last.tolist() == [*range(top), *range(top, pool + 1)]
    np.testing.assert_allclose(found.pmf[:top], averages(laws)[:top], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.pmf[top:], laws[top:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("pool", "m", "top"), [(3_000, 7, 900), (2_000, 50, 505), (700, 1, 300)])
@pytest.mark.usefixtures("few_looked_at")
def test_averages_that_are_not_summed_one_by_one(pool, m, top, replacement):
    found = generators_of(pool, m, replacement, top)
    assert 40 < found.spread < top
    assert found.last[found.spread - 1] == top - 1
    laws = populations.law(m, pool + 1, replacement)
    even, single = on_knots(averages(laws), m), on_knots(laws, m)
    spread, last = found.pmf[: found.spread], found.last
    if replacement:  # a remainder, which `largest` adds
        rng = np.random.default_rng(1)
        for function in rng.normal(size=(20, knots(m).size)):
            rest = found._rest(function, last * 0.0, 0.0)
            apart = np.abs((spread - even[last[: found.spread]]) @ function).max()
            assert apart <= rest + 1e-12
        # Two terms of the formula leave so little that none of them is wrong.
        np.testing.assert_allclose(spread, even[last[: found.spread]], rtol=0, atol=2e-8)
    else:
        np.testing.assert_allclose(spread, even[last[: found.spread]], rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        found.pmf[found.spread :], single[last[found.spread :]], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("replacement", [True, False])
def test_averages_in_a_large_catalogue(replacement):
    pool, m, top = 1_000_000, 20, 60_000
    found = generators_of(pool, m, replacement, top)
    assert found.spread < 10_000
    expected = on_knots(averages(populations.law(m, pool + 1, replacement, top)), m)
    last = found.last[: found.spread]
    np.testing.assert_allclose(found.pmf[: found.spread], expected[last], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["recall@3", "ndcg@10", "ap", "auc"])
@pytest.mark.parametrize("few", [True, False])
def test_the_metric_of_a_generator_is_the_mean_over_its_ranks(name, few, request):
    if few:
        request.getfixturevalue("few_looked_at")
    pool, top = 500, 130
    found, of = generators_of(pool, 8, True, top), metric(name)
    values = of.vector(pool + 1)
    expected = np.where(
        np.arange(found.last.size) < found.spread,
        averages(values[:, np.newaxis])[found.last, 0],
        values[found.last],
    )
    made = found.metric(values[:top], values[found.last])
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-13)


def test_constraints_are_what_steepness_allows():
    n, m, steepness = 200, 10, 3.0
    found = generators_of(n - 1, m, True, 70, steepness)
    for g in range(found.last.size):
        p = np.zeros(n)
        if g < found.spread:
            p[: found.last[g] + 1] = 1.0 / (found.last[g] + 1)
        else:
            p[found.last[g]] = 1.0
        users = [p[2**k - 1 : 2 ** (k + 1) - 1].sum() for k in range(6)]  # 63 ranks, not 127
        expected = [b - 2.0 / steepness * a for a, b in itertools.pairwise(users)]
        np.testing.assert_allclose(found.constraints[:, g], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("top", [7, 8, 40])
def test_constraints_of_geometric_distributions(top):
    found = generators_of(60, 5, True, top, 2.0, geometric=True)
    doublings = [slice(2**k - 1, 2 ** (k + 1) - 1) for k in range(int(np.log2(top + 1)))]
    users = np.array([found._mixed[:, each].sum(axis=1) for each in doublings])
    assert found.constraints.shape == (len(doublings) - 1, found.last.size)
    np.testing.assert_allclose(
        found.constraints[:, : found.spread], users[1:] - users[:-1], atol=1e-12
    )
    assert not found.constraints[:, found.spread :].any()


@pytest.mark.parametrize("top", [0, 1, 2])
def test_nothing_is_constrained_where_there_is_one_doubling_at_most(top):
    found = generators_of(50, 4, False, top, 2.0)
    assert found.constraints.shape == (0, found.last.size)
    assert found.spread == (2 if top == 2 else 0)


def test_geometric_distributions_are_such_from_even_to_rank_1_alone():
    pool, m, top = 300, 9, 40
    found = generators_of(pool, m, False, top, geometric=True)
    weights = found._mixed
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weights[0], 1.0 / top, rtol=0, atol=1e-15)
    np.testing.assert_allclose(weights[-1], np.eye(top)[0], rtol=0, atol=1e-15)
    for each in weights[1:1_000:37]:
        ratios = each[1:] / each[:-1]
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)
    law = on_knots(populations.law(m, pool + 1, False), m)
    np.testing.assert_allclose(found.pmf[: found.spread], weights @ law[:top], rtol=0, atol=1e-12)
    assert found.last[found.spread :].tolist() == list(range(top, pool + 1))
    values = metric("ndcg").vector(pool + 1)
    made = found.metric(values[:top], values[found.last])
    np.testing.assert_allclose(made[: found.spread], weights @ values[:top], rtol=0, atol=1e-13)
    np.testing.assert_allclose(made[found.spread :], values[top:], rtol=0, atol=0)


def test_geometric_is_refused_of_too_many_ranks():
    with pytest.raises(ValueError, match="geometric must be False where an assumption is of more"):
        generators_of(100_000, 10, True, 5_000, geometric=True)


def functions(m, rng, several=6):
    """Functions of the sampled rank on its knots: rough, smooth and steep ones."""
    at = knots(m) / m
    for i in range(several):
        if i % 3 == 0:
            yield rng.random(at.size)
        elif i % 3 == 1:
            yield 1.0 + 0.5 * np.sin(rng.normal() + 6.0 * at)
        else:
            yield np.exp(-rng.exponential(8.0) * np.abs(at - rng.choice([0.0, rng.random()])))


def every_value(m, n, replacement, function, values, slope):
    """An expectation less a price of a metric at each rank, and over each average."""
    single = populations.law(m, n, replacement) @ np.interp(np.arange(m + 1), knots(m), function)
    each = single - slope * values
    return each, np.cumsum(each) / np.arange(1, n + 1)


def by_hand(m, n, replacement, top, function, values, slope):
    single, even = every_value(m, n, replacement, function, values, slope)
    each = np.append(even[:top], single[top:]) if top > 1 else single
    return each.max()


SIZES = [(6, 1, 0), (30, 4, 7), (900, 9, 0), (900, 60, 150), (2_000, 20, 2_000)]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["recall@10", "ap", "auc"])
@pytest.mark.parametrize(("n", "m", "top"), SIZES)
def test_the_maximum_is_that_over_all_ranks(n, m, top, name, replacement):
    rng, values = np.random.default_rng(n + m), metric(name).vector(n)
    found = generators_of(n - 1, m, replacement, top)
    price = found.metric(values[: max(top, 1)], values[found.last])
    for function in functions(m, rng):
        slope = rng.choice([-1.0, 1.0]) * rng.exponential()
        expected = by_hand(m, n, replacement, top, function, values, slope)
        bound, each = found.largest(function, slope * price, 1e-6)
        assert bound == pytest.approx(expected, abs=1e-11)
        assert each.max() == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["recall@10", "ndcg", "auc"])
@pytest.mark.parametrize(("n", "m", "top"), [(900, 9, 0), (3_000, 60, 500), (3_000, 20, 3_000)])
@pytest.mark.usefixtures("few_looked_at")
def test_the_maximum_is_not_missed_between_ranks_that_are_looked_at(n, m, top, name, replacement):
    rng, values = np.random.default_rng(n + m), metric(name).vector(n)
    found = generators_of(n - 1, m, replacement, top)
    assert found.last.size < n / 3
    price = found.metric(values[: max(top, 1)], values[found.last])
    beyond = 0
    for function in functions(m, rng, 18):
        slope = rng.choice([-1.0, 1.0]) * rng.exponential()
        expected = by_hand(m, n, replacement, top, function, values, slope)
        near = 0.02
        bound, each = found.largest(function, slope * price, near)
        assert bound >= expected - 1e-12
        assert each.max() <= expected + 1e-9 + found._rest(function, price, 0.0)
        beyond += each.max() < expected - 1e-9
        if not top:  # averages are not looked at more closely, nor are prices
            assert bound <= expected + near + abs(slope) * np.abs(np.diff(price)).max()
    assert beyond  # so that what was looked at alone would not do


def test_a_peak_between_two_ranks_that_are_looked_at_counts():
    # 200 draws are 50 above at one rank in four and hardly elsewhere.
    pool, m = 300_000, 200
    found = generators_of(pool, m, True)
    function = np.zeros(knots(m).size)
    function[np.searchsorted(knots(m), 50)] = 1.0
    x, gaps = np.arange(m + 1), found.last[:-1][np.diff(found.last) > 1]
    for near in (1e-3, 1e-9):
        bound, _ = found.largest(function, found.last * 0.0, near)
        above = gaps[(gaps > 0.2 * pool) & (gaps < 0.3 * pool)]
        fine = np.arange(above[0], above[-1], 7)
        of = stats.binom.pmf(x, m, fine[:, np.newaxis] / pool) @ np.interp(x, knots(m), function)
        assert of.max() - 1e-12 <= bound <= of.max() + near + 1e-5


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("replacement", [True, False])
def test_what_steepness_is_worth_is_added(replacement, few, request):
    if few:
        request.getfixturevalue("few_looked_at")
    n, m, top, steepness = 1_000, 10, 400, 2.0
    rng, values = np.random.default_rng(4), metric("ap").vector(n)
    found = generators_of(n - 1, m, replacement, top, steepness)
    price = found.metric(values[:top], values[found.last])
    ranks, starts = np.arange(n), 2 ** np.arange(9) - 1
    doubling = np.searchsorted(starts, ranks, side="right") - 1  # 8 of the last, which is cut
    users = np.eye(9)[doubling][:, :8]
    falls = users[:, 1:] - 2.0 / steepness * users[:, :-1]
    for function in functions(m, rng):
        slope, prices = rng.normal(), rng.exponential(size=7)
        # Down to the top the falls are part of what is averaged; beyond there is none.
        each, even = every_value(m, n, replacement, function, values, slope)
        even += np.cumsum(np.where(ranks < top, falls @ prices, 0.0)) / (ranks + 1.0)
        expected = max(each[top:].max(), even[:top].max())
        bound, seen = found.largest(function, slope * price, 1e-9, prices)
        assert bound >= expected - 1e-9
        if not few:
            assert bound == pytest.approx(expected, abs=1e-9)
            assert seen.max() == pytest.approx(expected, abs=1e-9)


def test_a_fall_may_be_worth_most_between_two_ranks_that_are_looked_at(few_looked_at):
    # Deeper down a fall is worth more, and the expectation is less: as much less at the next rank.
    pool, m, top = 999, 10, 400
    found = generators_of(pool, m, True, top, 1e6)
    gaps = np.flatnonzero(np.diff(found.last[: found.spread]) > 1)
    for left, fall in itertools.product(gaps, found.constraints):
        more = fall[left + 1] - fall[left]
        mean = -0.5 * m / pool * found.last
        if more <= 0:
            continue
        scale = more / (mean[left] - mean[left + 1])
        cost = np.full(found.last.size, 10.0)
        cost[left : left + 2] = 0.0
        prices = (found.constraints == fall).all(axis=1).astype(float)
        bound, seen = found.largest(-scale * knots(m), cost, 1e-9, prices)
        above = np.arange(found.last[left], found.last[left + 1] + 1)
        # Within a doubling the share of users in it, or in those before, is a + b / ranks.
        inverse = 1.0 / (found.last[[left, left + 1]] + 1.0)
        worth = fall[left] + more * (1.0 / (above + 1.0) - inverse[0]) / (inverse[1] - inverse[0])
        expected = (worth - 0.5 * scale * m / pool * above).max()
        assert seen.max() < expected <= bound


@pytest.mark.parametrize("steepness", [np.inf, 3.0])
@pytest.mark.parametrize(("n", "m", "top"), [(300, 10, 60), (400, 4, 400)])
def test_no_rate_between_those_that_are_looked_at_is_above_the_maximum(n, m, top, steepness):
    rng = np.random.default_rng(9)
    found = generators_of(n - 1, m, True, top, steepness, geometric=True)
    single = populations.law(m, n, True)
    rates = np.concatenate([[0.0], np.geomspace(1e-4 / top, 60.0, 20_000), [700.0]])
    doublings = int(np.log2(top + 1)) if np.isfinite(steepness) else 0
    tried, worth, beyond = [], [], []
    for name in ("recall@10", "auc"):
        values = metric(name).vector(n)
        price = found.metric(values[:top], values[found.last])
        for function in functions(m, rng):
            slope, prices = rng.normal(), rng.exponential(size=max(doublings - 1, 0))
            each = single @ np.interp(np.arange(m + 1), knots(m), function) - slope * values
            beyond.append(each[top:].max(initial=-np.inf))
            for k, one in enumerate(prices):
                each[2 ** (k + 1) - 1 : 2 ** (k + 2) - 1] += one
                each[2**k - 1 : 2 ** (k + 1) - 1] -= 2.0 / steepness * one
            worth.append(each[:top])
            tried.append((function, slope * price, prices))
    highest = np.array(beyond)
    for block in np.array_split(rates, 20):
        p = np.exp(-np.outer(block, np.arange(top)))
        means = p @ np.array(worth).T / p.sum(axis=1, keepdims=True)
        highest = np.maximum(highest, means.max(axis=0))
    for (function, cost, prices), expected in zip(tried, highest, strict=True):
        bound, seen = found.largest(function, cost, 1e-9, prices)
        rest = found._rest(function, cost, float(prices.sum()) * (1 + 2 / steepness))
        assert bound >= expected - 1e-12
        assert bound <= expected + rest + 1e-7
        assert rest < 2e-3 * (np.ptp(function) + np.ptp(cost) + 3.0 * prices.sum())
        assert seen.max() <= expected + 1e-7


@pytest.mark.parametrize("few", [True, False])
def test_a_density_over_the_ranks_leads_to_its_marginal(few, request):
    if few:
        request.getfixturevalue("few_looked_at")
    n, m = 1_000, 12
    found = generators_of(n - 1, m, True, 200)
    ranks = np.arange(1.0, n + 1)
    p = (ranks + 5.0) ** -0.7
    made = found.marginal(lambda rank: (rank + 5.0) ** -0.7)
    expected = on_knots(p / p.sum() @ populations.law(m, n, True), m)
    np.testing.assert_allclose(made, expected, rtol=0, atol=1.5e-3 if few else 1e-12)
    assert made.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_fit_begins_where_no_knot_is_impossible():
    for m in (3, 100):
        found = generators_of(2_000, m, True, 300)
        assert (found.pmf[found.first].max(axis=0) > 0.01).all()
        assert found.first.size < 500

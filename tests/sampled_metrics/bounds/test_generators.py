"""Generators against distributions summed by hand, and their maxima against every rank."""

import numpy as np
import pytest

from sampled_metrics import Protocol, metric
from sampled_metrics.bounds import generators as module
from sampled_metrics.bounds.generators import Generators, knots

from . import populations


@pytest.fixture
def few_looked_at(monkeypatch):
    """Ranks with gaps between them, already in small catalogues."""
    monkeypatch.setattr(module, "_ALL", 0)
    monkeypatch.setattr(module, "_EVERY", 40)
    monkeypatch.setattr(module, "_ANGLES", 4)
    monkeypatch.setattr(module, "_RATIOS", 6)


def generators_of(pool, m, replacement, top=0):
    """Those of an assumption on the first `top` ranks; of nothing assumed, if there are none."""
    return Generators(Protocol(pool + 1, m, replacement=replacement), top)


def on_knots(pmfs, m):
    """What straight lines between the knots make of distributions of the sampled rank."""
    x = np.arange(m + 1)
    lines = np.array([np.interp(x, knots(m), row) for row in np.eye(knots(m).size)])
    return pmfs @ lines.T


def averages(rows):
    """The average over the ranks down to each."""
    return np.cumsum(rows, axis=0) / np.arange(1, len(rows) + 1)[:, np.newaxis]


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
            rest = generators._rest(function)
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


@pytest.mark.parametrize("top", [0, 1, 2])
def test_one_rank_alone_has_nothing_to_be_deeper_than(top):
    assert generators_of(50, 4, False, top).spread == (2 if top == 2 else 0)


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
        bound = generators.largest(function, slope * price, 1e-6)
        assert bound == pytest.approx(expected, abs=1e-11)


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
        assert (bound := generators.largest(function, slope * price, tolerance)) >= expected - 1e-12
        looked_at = (generators.pmf @ function - slope * price).max()
        assert looked_at <= expected + 1e-9 + generators._rest(function)
        n_beyond += looked_at < expected - 1e-9
        if not top:  # averages are not looked at more closely, nor are prices
            assert bound <= expected + tolerance + abs(slope) * np.abs(np.diff(price)).max()
    assert n_beyond  # so that what was looked at alone would not do

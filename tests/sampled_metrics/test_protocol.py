"""The law of the sampled rank against exact, 50-digit and simulated ones."""

import math
import pickle
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sampled_metrics import Protocol, consistency, estimators, planning, priors
from tests.reference import digits_pmf, every_sample, exact_pmf

pytestmark = pytest.mark.words

LAWS = [True, False]


def ranks_of(n):
    return sorted({1, 2, 3, n // 3, n // 2, n - 1, n} - {0})


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 2), (7, 1), (12, 5), (12, 11), (60, 30)])
def test_equals_exact_rational_law(n, m, replacement):
    pmf = Protocol(n, m, replacement=replacement).pmf(np.arange(1, n + 1))
    for rank in range(1, n + 1):
        exact = exact_pmf(n, m, rank, replacement)
        assert pmf[rank - 1] == pytest.approx([float(p) for p in exact], rel=1e-13, abs=0)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize(
    ("n", "m"),
    [*product([1_001, 10**6, 10**9], [1, 9, 100, 1_000]), (10**5, 10**4), (10**9, 10**4)],
)
def test_relative_error_against_fifty_digits(n, m, replacement):
    protocol = Protocol(n, m, replacement=replacement)
    for rank in ranks_of(n):
        mean = m * (rank - 1) // (n - 1)
        candidates = {0, 1, 2, mean // 2, mean, (mean + m) // 2, m - 1, m} | set(
            range(0, m, m // 7 + 1)
        )
        counts = sorted(x for x in candidates if 0 <= x <= m)
        pmf = protocol.pmf(rank, counts=counts)
        logs = protocol.logpmf(rank, counts=counts)
        for x, p, log_p in zip(counts, pmf, logs, strict=True):
            exact = digits_pmf(n, m, rank, replacement, x)
            if exact == 0:
                assert (p, log_p) == (0, -math.inf)
            elif exact < 1e-300:
                assert p < 1e-299
                assert log_p == pytest.approx(float(_log(exact)), rel=1e-12)
            else:
                assert abs(float(p / exact - 1)) < 1e-12, (rank, x)


def _log(value):
    import mpmath as mp

    with mp.workdps(50):
        return mp.log(value)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("n", [1_001, 10**9])
def test_tails_mean_and_variance_against_fifty_digits(n, replacement):
    m = 60
    protocol = Protocol(n, m, replacement=replacement)
    for rank in ranks_of(n):
        exact = [digits_pmf(n, m, rank, replacement, x) for x in range(m + 1)]
        lower, upper = protocol.cdf(rank), protocol.sf(rank)
        for x in range(m + 1):
            below, above = sum(exact[: x + 1]), sum(exact[x + 1 :])
            assert below < 1e-300 or abs(float(lower[x] / below - 1)) < 1e-12
            assert above < 1e-300 or abs(float(upper[x] / above - 1)) < 1e-12
        mean = sum((1 + x) * p for x, p in enumerate(exact))
        assert abs(float(protocol.mean(rank) / mean - 1)) < 1e-12
        variance = sum((1 + x - mean) ** 2 * p for x, p in enumerate(exact))
        assert abs(float(protocol.variance(rank)) - float(variance)) <= 1e-12 * float(variance)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("ranks", [[1, 2], [2, 5, 6], [4, 8], [3], [1, 4, 7, 8]])
def test_law_of_every_relevant_item_by_enumeration(ranks, replacement):
    n, m = 8, 3
    protocol = Protocol(n, m, replacement=replacement, n_relevant=len(ranks))
    samples = every_sample(ranks, n, m, replacement)
    for j, rank in enumerate(ranks, start=1):
        counted = Counter(sample[j - 1] - j for sample in samples)
        exact = [float(Fraction(counted[x], len(samples))) for x in range(m + 1)]
        assert protocol.pmf(rank, position=j) == pytest.approx(exact, rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("rank", "position", "options"),
    [
        (2, 1, {}),
        (40, 1, {"replacement": False}),
        (299, 1, {}),
        (40, 3, {"n_relevant": 3}),
        (40, 3, {"n_relevant": 3, "replacement": False}),
        (9, 1, {"weights": 1000.0 / np.arange(1, 301)}),
        (9, 1, {"weights": 1000.0 / np.arange(1, 301), "replacement": False}),
    ],
)
def test_draws_follow_the_law(rank, position, options):
    protocol = Protocol(300, 25, **options)
    draws = protocol.draw(rank, np.random.default_rng(20), size=20_000, position=position)
    _chi_square(draws - position, protocol.pmf(rank, position=position))


def _chi_square(drawn, pmf):
    """Fail if counts stray from the law; cells that expect fewer than 5 are pooled."""
    expected = pmf * drawn.size
    counts = np.bincount(drawn, minlength=pmf.size)
    assert counts[pmf == 0].sum() == 0
    is_small = expected < 5
    observed = np.append(counts[~is_small], counts[is_small].sum())
    pooled = np.append(expected[~is_small], expected[is_small].sum())
    if pooled[-1] < 5:
        observed = np.append(observed[:-2], observed[-2:].sum())
        pooled = np.append(pooled[:-2], pooled[-2:].sum())
    assert stats.chisquare(observed, pooled * (observed.sum() / pooled.sum())).pvalue > 1e-3


def test_catalogue_sizes_broadcast():
    protocol = Protocol(np.array([50, 3_000]), 9, replacement=False)
    assert protocol.pmf([20, 700]).shape == (2, 10)
    for i, (n, rank) in enumerate([(50, 20), (3_000, 700)]):
        assert np.array_equal(
            protocol.pmf([20, 700])[i], Protocol(n, 9, replacement=False).pmf(rank)
        )
    assert protocol.mean([20, 700]).tolist() == [1 + 9 * 19 / 49, 1 + 9 * 699 / 2999]
    assert protocol.draw([1, 1], np.random.default_rng(0)).tolist() == [1, 1]


FEW = {"n_items": 5, "n_negatives": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_items": 1, "n_negatives": 1}, "n_items must be >= 2, got 1"),
        ({"n_items": [], "n_negatives": 1}, "n_items must hold at least one catalogue size"),
        ({"n_items": 5, "n_negatives": 0}, "n_negatives must be a whole number >= 1, got 0"),
        ({"n_items": 5, "n_negatives": 1.0}, "n_negatives must be a whole number >= 1, got 1.0"),
        (
            {"n_items": 5, "n_negatives": 5, "replacement": False},
            "n_negatives must be <= 4, the irrelevant items there are, when sampling without "
            "replacement, got 5",
        ),
        ({"n_items": 5, "n_negatives": 1, "replacement": 1}, "replacement must be True or False"),
        ({"n_items": 5, "n_negatives": 1, "n_relevant": 0}, "n_relevant must be a whole number"),
        ({"n_items": 3, "n_negatives": 1, "n_relevant": 3}, "n_items must be >= 4, got 3"),
        ({"n_items": 10**15, "n_negatives": 10**4}, r"n_items \* n_negatives must be < 2\*\*62"),
        (FEW | {"weights": [1, 2]}, r"weights must have shape \(5,\)"),
        (FEW | {"weights": [1, 2, -1, 1, 1]}, "weights must be finite and >= 0, got -1.0"),
        (FEW | {"weights": [1, 0, 0, 0, 0]}, "weights must hold more than 1 above 0, got 1"),
        (FEW | {"weights": [1] * 5, "n_relevant": 2}, "n_relevant must be 1 with weights, got 2"),
        (FEW | {"collapsed": True, "replacement": False}, "collapsed must be False without repl"),
        (FEW | {"collapsed": "yes"}, "collapsed must be True or False, got 'yes'"),
    ],
)
def test_bad_protocols(arguments, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**arguments)


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "sf", "mean", "variance"])
@pytest.mark.parametrize(
    ("n_relevant", "arguments", "message"),
    [
        (1, {"rank": 0}, "rank must be >= 1, got 0"),
        (1, {"rank": 11}, "rank must be <= 10, got 11"),
        (1, {"rank": 2.5}, "rank must be whole numbers >= 1, got 2.5"),
        (2, {"rank": 5, "position": 3}, r"position must be a whole number in \[1, 2\], got 3"),
        (2, {"rank": 10, "position": 1}, "rank must be <= 9, got 10"),
    ],
)
def test_bad_ranks(method, n_relevant, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(Protocol(10, 3, n_relevant=n_relevant), method)(**arguments)
    with pytest.raises(ValueError, match="counts must be <= 3, got 4"):
        Protocol(10, 3).pmf(5, counts=[4])


def test_arrays_given_cannot_be_changed_from_outside():
    sizes = np.array([10, 20])
    protocol = Protocol(sizes, 3)
    sizes[0] = 2
    assert protocol.mean([10, 20]).tolist() == [4.0, 4.0]
    with pytest.raises(ValueError, match="read-only"):
        protocol.n_items[0] = 2


def test_a_seed_stands_for_its_generator():
    protocol = Protocol(100, 9, n_relevant=2)
    first = protocol.draw([50] * 20, 5).tolist()
    assert first == protocol.draw([50] * 20, np.random.default_rng(5)).tolist()
    assert first != protocol.draw([50] * 20, 6).tolist()
    for wrong in (None, 1.5, True, -1):
        with pytest.raises(ValueError, match="rng must be a seed >= 0"):
            protocol.draw(50, wrong)


def test_protocols_are_equal_if_they_sample_alike():
    twins = [Protocol(np.arange(50, 5_000), 9) for _ in range(2)]
    assert twins[0] == twins[1]
    assert len(set(twins)) == 1
    distinct = [
        Protocol(50, 9),
        Protocol([50], 9),
        Protocol([50, 50], 9),
        Protocol(50, 8),
        Protocol(50, 9, replacement=False),
        Protocol(50, 9, n_relevant=2),
        (50, 9),
    ]
    assert len({twins[0], *distinct}) == 1 + len(distinct)
    assert repr(twins[0]) == "Protocol(n_items=<50 to 4999>, n_negatives=9)"
    for protocol in distinct[3:6]:
        assert eval(repr(protocol)) == protocol


WEIGHTS = [[3, 1, 4, 1, 5], [1, 1, 1, 1], [9, 0, 2, 2, 0, 1], [100, 1, 10, 1, 1, 1000]]


def sequences(weights, place, m, replacement):
    """Every sequence of m draws of other items, and its probability as a fraction."""
    pool = [i for i in range(len(weights)) if i != place]
    for draws in product(pool, repeat=m):
        chance, mass = Fraction(1), {i: Fraction(weights[i]) for i in pool}
        for i in draws:
            chance *= mass.get(i, Fraction(0)) / sum(mass.values()) if sum(mass.values()) else 0
            if not replacement:
                mass.pop(i, None)
        yield draws, chance


def drawn_by(weights, place, m, replacement):
    """Law of the items above a place among m, over all sequences of draws, in fractions."""
    pmf = [Fraction(0)] * (m + 1)
    for draws, chance in sequences(weights, place, m, replacement):
        pmf[sum(i < place for i in draws)] += chance
    return [float(p) for p in pmf]


@pytest.mark.some(12)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_weighted_laws_equal_an_enumeration(weights, replacement, m):
    if not replacement and sum(w > 0 for w in weights) <= m:
        with pytest.raises(ValueError, match="weights must hold more than"):
            Protocol(len(weights), m, weights=weights, replacement=replacement)
        return
    protocol = Protocol(len(weights), m, weights=weights, replacement=replacement)
    ranks = np.arange(1, len(weights) + 1)
    pmf = protocol.pmf(ranks)
    for place in range(len(weights)):
        exact = drawn_by(weights, place, m, replacement)
        np.testing.assert_allclose(pmf[place], exact, rtol=0, atol=1e-13)
        counts = np.arange(m + 1)
        assert protocol.mean(place + 1) == pytest.approx(1 + exact @ counts, abs=1e-12)
        spread = exact @ (counts - exact @ counts) ** 2
        assert protocol.variance(place + 1) == pytest.approx(spread, abs=1e-12)
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(
    ("replacement", "collapsed"), [(True, False), (True, True), (False, False)]
)
def test_inclusion_equals_an_enumeration(weights, replacement, collapsed):
    m, place = 2, 1
    protocol = Protocol(
        len(weights), m, weights=weights, replacement=replacement, collapsed=collapsed
    )
    expected = np.zeros(len(weights))
    for draws, chance in sequences(weights, place, m, replacement):
        for i in set(draws) if collapsed else draws:
            expected[i] += float(chance)
    np.testing.assert_allclose(protocol.inclusion(place + 1), expected, atol=1e-13)


def test_equal_weights_draw_alike():
    ranks = [1, 2, 40, 2_999, 3_000]
    for replacement in LAWS:
        plain = Protocol(3_000, 100, replacement=replacement)
        weighted = Protocol(3_000, 100, replacement=replacement, weights=np.full(3_000, 0.3))
        np.testing.assert_allclose(weighted.pmf(ranks), plain.pmf(ranks), atol=1e-12)
        np.testing.assert_allclose(weighted.mean(ranks), plain.mean(ranks), rtol=1e-11)
        assert weighted.inclusion(7).sum() == pytest.approx(100, rel=1e-12)
    collapsed = Protocol(3_000, 100, collapsed=True)
    # 2,999 (1 - (1 - 1 / 2,999)^100) distinct ones are expected, all above the last item.
    expected = -2_999 * math.expm1(100 * math.log1p(-1 / 2_999))
    assert collapsed.mean(3_000) == pytest.approx(1 + expected, rel=1e-12)


def test_a_pool_of_several_items_lists_collapses():
    # Two relevant items, and 2 * 2 draws of which the distinct ones are ranked with both.
    protocol = Protocol(6, 4, n_relevant=2, collapsed=True)
    for position, rank in ((1, 2), (2, 5)):
        pmf, above = [Fraction(0)] * 5, rank - position
        for draws in product(range(4), repeat=4):
            pmf[sum(i < above for i in set(draws))] += Fraction(1, 4**4)
        exact = [float(p) for p in pmf]
        np.testing.assert_allclose(protocol.pmf(rank, position), exact, atol=1e-14)


def test_a_copy_has_the_class_of_its_weights():
    uniform, weighted = Protocol(5, 2), Protocol(5, 2, weights=[4, 1, 1, 1, 1])
    assert (uniform.uniform, weighted.uniform) == (True, False)
    for expected, copy in (
        (weighted, pickle.loads(pickle.dumps(weighted))),
        (weighted, replace(uniform, weights=weighted.weights)),
        (uniform, replace(weighted, weights=None)),
    ):
        assert copy == expected
        assert type(copy) is type(expected)
        np.testing.assert_array_equal(copy.pmf(3), expected.pmf(3))


@pytest.mark.parametrize("options", [{"weights": range(1, 51)}, {"collapsed": True}])
def test_what_is_for_negatives_drawn_alike_refuses_others(options):
    protocol = Protocol(50, 5, **{k: list(v) if k == "weights" else v for k, v in options.items()})
    counts = [1] * 6
    ranks = {"a": [1, 2], "b": [4, 5]}
    for use in (
        lambda: estimators.rank_estimate("ap", protocol),
        lambda: estimators.bias_variance("ap", protocol, 0.1),
        lambda: estimators.monotone("ap", protocol),
        lambda: priors.maximum_entropy(counts, protocol),
        lambda: planning.plan({"a": [1, 2], "b": [4, 5]}, "ap", protocol, 5),
        lambda: consistency.order_by_negatives(ranks, "ap", protocol),
        lambda: protocol.pool,
    ):
        with pytest.raises(ValueError, match="protocol must draw negatives uniformly"):
            use()
    assert estimators.naive("recall@3", protocol).expected(1) == 1.0

"""The naive estimator's exact expectation and variance against slower ways to get them."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sampled_metrics import Protocol, estimators, metric
from sampled_metrics import protocol as protocol_module
from sampled_metrics.estimators import Estimator, naive
from tests.reference import DIGITS, digits_pmf, exact_pmf

LAWS = [True, False]
NAMES = ["auc", "precision@2", "recall@3", "ap", "ap@2", "ndcg", "ndcg@3", "rr@2", "accuracy"]


def digits_metric(m, sampled_rank, size):
    """Metric of one relevant item at `sampled_rank` among `size` items, to 50 digits."""
    if m.k is not None and sampled_rank > m.k:
        return mp.mpf(0)
    if m.base == "auc":
        return mp.mpf(size - sampled_rank) / (size - 1)
    if m.base == "ndcg":
        return 1 / mp.log(sampled_rank + 1, 2)
    if m.base == "ap":
        return mp.mpf(1) / sampled_rank
    assert m.base == "recall"
    return mp.mpf(1)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("name", NAMES)
def test_moments_equal_the_rational_sum(name, replacement):
    n, m = 11, 4
    estimator = naive(metric(name), Protocol(n, m, replacement=replacement))
    values = [Fraction(float(v)) for v in metric(name).vector(m + 1)]
    ranks = np.arange(1, n + 1)
    for rank, expected, variance in zip(
        ranks, estimator.expected(ranks), estimator.variance(ranks), strict=True
    ):
        pmf = exact_pmf(n, m, int(rank), replacement)
        mean = sum(p * v for p, v in zip(pmf, values, strict=True))
        second_moment = sum(p * (v - mean) ** 2 for p, v in zip(pmf, values, strict=True))
        assert expected == pytest.approx(float(mean), rel=1e-13, abs=0)
        assert variance == pytest.approx(float(second_moment), rel=1e-12, abs=1e-30)


@pytest.mark.some(12)
@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("name", ["auc", "recall@10", "ap", "ap@10", "ndcg", "ndcg@10"])
@pytest.mark.parametrize(("n", "m"), [(1_001, 100), (10**6, 100), (10**9, 300)])
def test_expectation_against_fifty_digits(name, n, m, replacement):
    estimator = naive(metric(name), Protocol(n, m, replacement=replacement))
    for rank in (1, 2, n // 2, n - 1, n):
        with mp.workdps(DIGITS):
            exact = mp.fsum(
                digits_pmf(n, m, rank, replacement, x)
                * digits_metric(estimator.metric, x + 1, m + 1)
                for x in range(m + 1)
            )
        if exact < 1e-290:
            assert float(estimator.expected(rank)) < 1e-289
        else:
            relative = float(estimator.expected(rank) / exact)
            assert relative == pytest.approx(1, rel=1e-12, abs=0), rank


@pytest.mark.parametrize("replacement", LAWS)
def test_auc_is_unbiased(replacement):
    ranks = np.array([1, 2, 500, 10**9])
    estimator = naive(metric("auc"), Protocol(10**9, 100, replacement=replacement))
    assert np.array_equal(estimator.bias(ranks), np.zeros(4))
    # The closed form against the general sum.
    summed = Estimator.expected(estimator, ranks)
    assert summed == pytest.approx(estimator.expected(ranks), rel=1e-13, abs=1e-16)


def test_the_bias_is_that_of_the_position():
    estimator = naive(metric("ap"), Protocol(50, 9, n_relevant=3))
    bias = float(estimator.expected(20, position=2)) - 2 / 20 / 3
    assert float(estimator.bias(20, position=2)) == pytest.approx(bias, rel=1e-12)


def test_blocks_do_not_change_the_result(monkeypatch):
    sizes, ranks = np.arange(500, 530), np.arange(1, 31) * 16
    estimator = naive(metric("ndcg"), Protocol(sizes, 40))
    moments = estimator.expected(ranks), estimator.variance(ranks)
    monkeypatch.setattr(protocol_module, "_BLOCK", 100)
    assert estimator.expected(ranks) == pytest.approx(moments[0], rel=1e-14)
    assert estimator.variance(ranks) == pytest.approx(moments[1], rel=1e-14)


def test_any_vector_is_an_estimator():
    protocol = Protocol(1_000, 2)
    always_one = Estimator(metric("ap"), protocol, np.ones(3))
    assert always_one.expected([1, 500]).tolist() == [1.0, 1.0]
    assert always_one.variance(500) == 0.0
    assert always_one.bias(4) == pytest.approx(0.75, rel=1e-14)
    with pytest.raises(ValueError, match=r"values must have shape \(3,\), got \(2,\)"):
        Estimator(metric("ap"), protocol, np.ones(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e(0), "sampled_ranks must be >= 1, got 0"),
        (lambda e: e(11), "sampled_ranks must be <= 10, got 11"),
        (lambda e: e(1.5), "sampled_ranks must be whole numbers >= 1, got 1.5"),
        *[
            (lambda e, name=name, bad=bad: getattr(e, name)(*bad), message)
            for name in ("expected", "variance", "bias")
            for bad, message in (
                (([1, 101],), "rank must be <= 100, got 101"),
                ((math.nan,), "rank must be whole numbers >= 1, got nan"),
                ((3, 2), r"position must be .*1.*, got 2"),
            )
        ],
    ],
)
def test_bad_ranks(call, message):
    with pytest.raises(ValueError, match=message):
        call(naive(metric("ap"), Protocol(100, 9)))


def test_estimators_are_equal_if_they_say_the_same():
    protocol = Protocol([50, 60], 2)
    first, second = (Estimator(metric("ap"), protocol, [1, 0.5, 0.2], "own") for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    different_estimators = [
        Estimator(metric("ap"), protocol, [1, 0.5, 0.1], "own"),
        Estimator(metric("ap"), protocol, [1, 0.5, 0.2], "another"),
        Estimator(metric("rr"), protocol, [1, 0.5, 0.2], "own"),
        Estimator(metric("ap"), Protocol([50, 61], 2), [1, 0.5, 0.2], "own"),
        "own",
    ]
    assert len({first, second, *different_estimators}) == 1 + len(different_estimators)
    assert repr(first) == "Estimator('own', ap, Protocol(n_items=<50 to 60>, n_negatives=2))"


@pytest.mark.parametrize("replacement", [True, False])
def test_counts_too_rare_to_matter_are_left_out_unnoticed(replacement):
    """Users with candidates of their own and many negatives: the sum over all counts."""
    rng = np.random.default_rng(4)
    items = rng.integers(900, 2_000, size=300)
    ranks = np.minimum((items ** rng.random(300)).astype(int) + 1, items)
    protocol = Protocol(items, 700, replacement=replacement)
    pmf = protocol.pmf(ranks)
    for estimator in (estimators.naive("ndcg", protocol), estimators.naive("recall@10", protocol)):
        summed = pmf @ estimator.values
        assert estimator.expected(ranks) == pytest.approx(summed, rel=1e-13)
    corrected = estimators.bias_variance("ap", Protocol(1_500, 700, replacement=True), 0.01).values
    estimator = estimators.Estimator(metric("ap"), protocol, corrected)
    assert estimator.expected(ranks) == pytest.approx(pmf @ corrected, rel=1e-12)

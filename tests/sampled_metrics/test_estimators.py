"""The naive estimator's exact expectation and variance against slower ways to get them."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics import Metric, Protocol, estimators, metric, priors
from sampled_metrics import protocol as protocol_module
from sampled_metrics.estimators import Estimator, naive
from tests.reference import DIGITS, digits_pmf, exact_pmf

LAWS = [True, False]
NAMES = ["auc", "precision@2", "recall@3", "ap", "ap@2", "ndcg", "ndcg@3", "rr@2", "accuracy"]


def digits_metric(m: Metric, sampled_rank: int, size: int) -> mp.mpf:
    """Metric of one relevant item at `sampled_rank` among `size` items, to 50 digits."""
    if m.k is not None and sampled_rank > m.k:
        return mp.mpf(0)
    if m.kind == "auc":
        return mp.mpf(size - sampled_rank) / (size - 1)
    if m.kind == "ndcg":
        return 1 / mp.log(sampled_rank + 1, 2)
    if m.kind == "ap":
        return mp.mpf(1) / sampled_rank
    assert m.kind == "recall"
    return mp.mpf(1)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("name", NAMES)
def test_moments_equal_the_rational_sum(name: str, replacement: bool) -> None:
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
def test_expectation_against_fifty_digits(name: str, n: int, m: int, replacement: bool) -> None:
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


@pytest.mark.parametrize(
    ("n", "m", "replacement"),
    [
        (n, m, replacement)
        for n, m, replacement in product([3, 10**4 + 1, 10**9], [1, 2, 99, 10**4], LAWS)
        if replacement or m < n
    ],
)
def test_average_precision_at_extremes(n: int, m: int, replacement: bool) -> None:
    protocol = Protocol(n, m, replacement=replacement)
    for rank in sorted({1, 2, 3, n // 100 + 1, n // 2 + 1, n - 1, n}):
        with mp.workdps(DIGITS):
            if replacement:
                p = mp.mpf(rank - 1) / (n - 1)
                exact = (1 - (1 - p) ** (m + 1)) / ((m + 1) * p) if p else mp.mpf(1)
            else:
                missed = mp.binomial(n - rank, m + 1) / mp.binomial(n, m + 1)
                exact = mp.mpf(n) / (rank * (m + 1)) * (1 - missed)
        relative = float(naive("ap", protocol).expected(rank) / exact)
        assert relative == pytest.approx(1, rel=1e-13, abs=0), rank


@given(
    n=st.integers(2, 10**9),
    m=st.integers(1, 60),
    where=st.floats(0, 1),
    name=st.sampled_from(NAMES),
    replacement=st.booleans(),
)
def test_expectation_is_within_the_values(
    n: int, m: int, where: float, name: str, replacement: bool
) -> None:
    protocol = Protocol(n, min(m, n - 1), replacement=replacement)
    rank = 1 + round(where * (n - 1))
    estimator = naive(metric(name), protocol)
    slack = 1e-12
    low, high = estimator.values.min() - slack, estimator.values.max() + slack
    assert low <= float(estimator.expected(rank)) <= high
    # A variance cannot exceed what values at the two ends would give (Popoviciu).
    assert 0 <= float(estimator.variance(rank)) <= (high - low) ** 2 / 4 + slack


@given(n=st.integers(3, 10**6), name=st.sampled_from(NAMES), replacement=st.booleans())
def test_one_negative_makes_every_metric_affine(n: int, name: str, replacement: bool) -> None:
    # krichene2020, section 4.4.4.
    ranks = np.unique(np.linspace(1, n, 7).astype(int))
    best, second = metric(name).vector(2)
    affine = ranks * (second - best) / (n - 1) + (n * best - second) / (n - 1)
    expected = naive(metric(name), Protocol(n, 1, replacement=replacement)).expected(ranks)
    assert expected == pytest.approx(affine, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_sampling_everything_is_exact(name: str) -> None:
    n = 30
    ranks = np.arange(1, n + 1)
    estimator = naive(metric(name), Protocol(n, n - 1, replacement=False))
    assert estimator.expected(ranks) == pytest.approx(metric(name).vector(n), rel=1e-12)
    assert estimator.bias(ranks) == pytest.approx(np.zeros(n), abs=1e-14)
    assert estimator.variance(ranks) == pytest.approx(np.zeros(n), abs=1e-25)


@pytest.mark.parametrize("replacement", LAWS)
def test_auc_is_unbiased(replacement: bool) -> None:
    ranks = np.array([1, 2, 500, 10**9])
    estimator = naive(metric("auc"), Protocol(10**9, 100, replacement=replacement))
    assert np.array_equal(estimator.bias(ranks), np.zeros(4))
    # The closed form against the general sum.
    summed = Estimator.expected(estimator, ranks)
    assert summed == pytest.approx(estimator.expected(ranks), rel=1e-13, abs=1e-16)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("name", ["ap", "rr", "ap@200", "ap@81", "ap@80", "rr@80"])
def test_average_precision_closed_form_equals_the_sum(name: str, replacement: bool) -> None:
    protocol = Protocol(5_000, 80, replacement=replacement, n_relevant=3)
    estimator = naive(metric(name), protocol)
    ranks = np.array([1, 2, 7, 100, 2_500, 4_998])
    assert Estimator.expected(estimator, ranks) == pytest.approx(
        estimator.expected(ranks), rel=1e-12
    )
    # The second and third items have no closed form, only the sum.
    assert estimator.expected(ranks[1:], position=2).shape == (5,)


def test_the_bias_is_that_of_the_position() -> None:
    estimator = naive(metric("ap"), Protocol(50, 9, n_relevant=3))
    bias = float(estimator.expected(20, position=2)) - 2 / 20 / 3
    assert float(estimator.bias(20, position=2)) == pytest.approx(bias, rel=1e-12)


def test_simulation_confirms_expectation_and_variance() -> None:
    protocol = Protocol(1_000, 50, replacement=False)
    estimator = naive(metric("ndcg@10"), protocol)
    rank, repeats = 60, 200_000
    drawn = estimator(protocol.draw(rank, np.random.default_rng(30), size=repeats))
    spread = math.sqrt(float(estimator.variance(rank)) / repeats)
    assert drawn.mean() == pytest.approx(float(estimator.expected(rank)), abs=4 * spread)
    assert drawn.var() == pytest.approx(float(estimator.variance(rank)), rel=0.02)


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, ranks = np.arange(500, 530), np.arange(1, 31) * 16
    estimator = naive(metric("ndcg"), Protocol(sizes, 40))
    moments = estimator.expected(ranks), estimator.variance(ranks)
    monkeypatch.setattr(protocol_module, "_BLOCK", 100)
    assert estimator.expected(ranks) == pytest.approx(moments[0], rel=1e-14)
    assert estimator.variance(ranks) == pytest.approx(moments[1], rel=1e-14)


def test_shapes() -> None:
    estimator = naive(metric("ndcg@5"), Protocol(100, 9))
    assert estimator.expected([[1, 2, 3], [4, 5, 6]]).shape == (2, 3)
    assert estimator.expected(7).shape == ()
    assert estimator.expected([]).shape == (0,)
    sizes = naive(metric("ndcg@5"), Protocol([[100], [200]], 9))
    assert sizes.variance([1, 2, 3]).shape == (2, 3)
    assert estimator([1, 10]).tolist() == estimator([1.0, 10.0]).tolist() == [1.0, 0.0]
    several = naive(metric("ap"), Protocol(100, 9, n_relevant=3))
    assert several.values.shape == (3, 10)
    assert several([3, 4], position=3) == pytest.approx([1 / 3, 3 / 4 / 3])


def test_any_vector_is_an_estimator() -> None:
    protocol = Protocol(1_000, 2)
    always_one = Estimator(metric("ap"), protocol, np.ones(3))
    assert always_one.expected([1, 500]).tolist() == [1.0, 1.0]
    assert always_one.variance(500) == 0.0
    assert always_one.bias(4) == pytest.approx(0.75, rel=1e-14)
    with pytest.raises(ValueError, match=r"values must have shape \(3,\), got \(2,\)"):
        Estimator(metric("ap"), protocol, np.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda value: Protocol(1_000, 2, replacement=value),
        lambda value: estimators.rank_estimate("ap", Protocol(1_000, 2), value),
        lambda value: estimators.bias_variance("ap", Protocol(1_000, 2), value),
        lambda value: priors.maximum_entropy([1, 2, 3], Protocol(50, 2), value),
    ],
)
def test_a_long_value_is_cut_in_an_error(call) -> None:
    with pytest.raises(ValueError, match=r"got '9{56}\.\.\.$"):
        call("9" * 1_000)


def test_values_given_cannot_be_changed_from_outside() -> None:
    values = np.ones(3)
    estimator = Estimator(metric("ap"), Protocol(1_000, 2), values)
    values[0] = 2
    assert estimator(1) == 1
    with pytest.raises(ValueError, match="read-only"):
        estimator.values[0] = 2


@pytest.mark.parametrize(
    ("sampled", "message"),
    [
        (0, "sampled_ranks must be >= 1, got 0"),
        (11, "sampled_ranks must be <= 10, got 11"),
        (1.5, "sampled_ranks must be whole numbers >= 1, got 1.5"),
    ],
)
def test_bad_sampled_ranks(sampled: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        naive(metric("ap"), Protocol(100, 9))(sampled)


@pytest.mark.parametrize("method", ["expected", "variance", "bias"])
def test_bad_true_ranks(method: str) -> None:
    estimator = naive(metric("auc"), Protocol(100, 9))
    with pytest.raises(ValueError, match="rank must be <= 100, got 101"):
        getattr(estimator, method)([1, 101])
    with pytest.raises(ValueError, match="rank must be whole numbers >= 1, got nan"):
        getattr(estimator, method)(math.nan)
    with pytest.raises(ValueError, match=r"position must be .*1.*, got 2"):
        getattr(estimator, method)(3, position=2)


def test_estimators_are_equal_if_they_say_the_same() -> None:
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

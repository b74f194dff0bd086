"""Random decoys: how many of them the user would like, and what those cost.

Ranked with a user's test items, decoys count as irrelevant. One that the user would like is
*misclassified* (ekstrand2017). The number K of such decoys among N has a distribution, a vector
over 0..N; a recommender that is right about every item has a value for each K, another such vector;
the product of the two is the expected cost of misclassified decoys.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from math import ceil, comb

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from sampled_metrics._validate import FloatArray, as_written, floats, integer, integers
from sampled_metrics.metrics import Metric
from sampled_metrics.numerics.distributions import log_hypergeometric
from sampled_metrics.ranking.intervals import RankIntervals

PLACEMENTS = ("random", "above")


def misclassified(n_decoys: ArrayLike, goodness: ArrayLike) -> FloatArray:
    """Probability that at least one of N decoys is good, if each is good with probability g,
    independently: 1 - (1 - g)^N, to about 15 digits however small g is; arguments broadcast.

    ekstrand2017, "Probability of Misclassified Decoys", equates it with (1 - g)^N, the probability
    of no good decoy.
    """
    decoys, good = integers(n_decoys, "n_decoys", 0), _shares(goodness, "goodness")
    with np.errstate(divide="ignore", invalid="ignore"):
        log_none = decoys * np.log1p(-good)
    return np.asarray(-np.expm1(np.where(decoys == 0, 0.0, log_none)))


def misclassified_among(n_decoys: int, goodness: ArrayLike) -> float:
    """Probability that at least one of N decoys is good, if item i of the pool is good with its own
    probability, independently; decoys are drawn uniformly without replacement.

    The recursion goes through the pool item by item and keeps the probability for a random choice
    of k of the first i items; the i-th is among them with probability k / i. By Maclaurin's
    inequality the result is at least :func:`misclassified` at the mean goodness.
    """
    items = _shares(goodness, "goodness")
    if items.ndim != 1 or items.size == 0:
        raise ValueError(f"goodness must be a non-empty list of numbers, got shape {items.shape}")
    size = integer(n_decoys, "n_decoys", 0, items.size)
    probability = np.zeros(size + 1)
    for i, good in enumerate(items.tolist(), start=1):
        share = np.arange(1, min(i, size) + 1) / i
        before = probability[: share.size]
        probability[1 : share.size + 1] = (1 - share) * probability[1 : share.size + 1] + share * (
            before + good * (1 - before)
        )
    return float(probability[size])


def pmf(n_decoys: int, goodness: float, correlation: float = 0.0) -> FloatArray:
    """Distribution of the number of good decoys among N, over 0..N, where goodness varies by user.

    Binomial for a correlation of 0 (ekstrand2017 assumes independence), else beta-binomial
    (skellam1948): each user's goodness is drawn from a Beta distribution with mean g, and
    `correlation`, in [0, 1), is the inverse of one plus the sum of its parameters. With t =
    correlation / (1 - correlation), P(0) is the product over i < N of 1 - g / (1 + i t), and P(x +
    1) / P(x) = (N - x) (g + x t) / ((x + 1) (1 - g + (N - x - 1) t)). Relative error below 1e-10
    for N up to 10,000.
    """
    size = integer(n_decoys, "n_decoys", 0)
    g = _share(goodness, "goodness")
    rho = _number(correlation, "correlation")
    if not 0 <= rho < 1:
        raise ValueError(f"correlation must be a number in [0, 1), got {rho}")
    if g > 0.5:  # good and bad change places, so that nothing is divided by 1 - g = 0
        return pmf(size, 1 - g, rho)[::-1]
    t, x = rho / (1 - rho), np.arange(size)
    log_none = np.log1p(-g / (1 + x * t)).sum()
    with np.errstate(divide="ignore"):
        log_ratios = (
            np.log((size - x) / (x + 1)) + np.log(g + x * t) - np.log1p((size - x - 1) * t - g)
        )
    return np.asarray(np.exp(log_none + np.concatenate([[0.0], np.cumsum(log_ratios)])))


def pmf_in_pool(n_decoys: int, n_good: int, pool: int) -> FloatArray:
    """Distribution of the number of good decoys among N drawn without replacement from a pool with
    G good items: hypergeometric, as in ekstrand2017's protocol.
    """
    items = integer(pool, "pool", 1)
    size = integer(n_decoys, "n_decoys", 0, items)
    good = integer(n_good, "n_good", 0, items)
    return np.asarray(np.exp(log_hypergeometric(np.arange(size + 1), size, good, items)))


def at_least(law: ArrayLike, count: int) -> float:
    """Probability of at least `count` good decoys, summed from the right, so that small
    probabilities keep their relative accuracy.
    """
    probability = _pmf(law)
    least = integer(count, "count", 0)
    return float(min(probability[least:][::-1].sum(), 1.0))


def at_least_share(law: ArrayLike, share: float) -> float:
    """Probability that at least this share of the decoys is good. The share is taken as the decimal
    it prints as, so that 0.07 of 100 decoys are 7.
    """
    size = _pmf(law).size - 1
    if size == 0:
        raise ValueError("law must be that of at least 1 decoy to have a share, got that of 0")
    return at_least(law, ceil(Fraction(repr(_share(share, "share"))) * size))


def largest_goodness(n_decoys: ArrayLike, confidence: ArrayLike) -> FloatArray:
    """Largest g at which N decoys hold no good item with probability c: 1 - c^(1 / N); broadcasts.
    From ekstrand2017, "Probability of Misclassified Decoys": 1 - g = 0.95^(1 / N).
    """
    decoys = integers(n_decoys, "n_decoys", 1)
    return np.asarray(-np.expm1(np.log(_confidence(confidence)) / decoys))


def largest_sample(goodness: float, confidence: float) -> int:
    """Largest N at which the decoys hold no good item with probability c, at goodness g > 0.

    The floor of log(c) / log(1 - g), of both numbers as the decimals they print as. Decimal
    arithmetic has enough digits to be right where the quotient is a whole number, too.
    """
    g = Decimal(repr(_share(goodness, "goodness")))
    if g == 0:
        raise ValueError("goodness must be > 0 for a largest number of decoys, got 0.0")
    c = Decimal(repr(float(_confidence(_number(confidence, "confidence")))))
    if g == 1:
        return 0
    with localcontext() as context:
        context.prec = 60 - g.adjusted()  # 1 - g is exact, and 40 places of the quotient are right
        quotient = c.ln() / (1 - g).ln()
        nearest = quotient.to_integral_value()
        # Whole only if c is a power of 1 - g, which takes N times as many digits: N is small then.
        is_whole = abs(quotient - nearest) < Decimal("1e-30")
        return int(nearest if is_whole else quotient.to_integral_value(ROUND_FLOOR))


def largest_in_pool(size: int, pool: int, confidence: float) -> int:
    """Largest number of items of the pool that a random choice of `size` avoids with this
    confidence.

    The probability that N decoys avoid G good items is C(pool - N, G) / C(pool, G), which is the
    same with N and G exchanged. So this is the largest G for a given N, and the largest N for a
    given G. Computed in whole numbers.
    """
    items = integer(pool, "pool", 1)
    drawn = integer(size, "size", 0, items)
    least = Fraction(repr(float(_confidence(_number(confidence, "confidence")))))
    low, high = 0, items - drawn  # the answer is in [low, high]
    while low < high:
        middle = (low + high + 1) // 2
        smaller, larger = sorted((drawn, middle))
        is_clean = least.denominator * comb(items - larger, smaller) >= least.numerator * comb(
            items, smaller
        )
        low, high = (middle, high) if is_clean else (low, middle - 1)
    return low


def perfect(
    metric: Metric, n_decoys: int, n_test: int = 1, placement: str = "random"
) -> FloatArray:
    """Expected value of a perfect recommender with K = 0..N good decoys, of T test items.

    It ranks all that the user would like, test items and good decoys, above all else; the metric
    counts good decoys as irrelevant. `placement`: good decoys are in random order among the test
    items, or all "above" them. In random order they come one after the other: with x of K good
    decoys above the j-th best test item, the next one is above it, too, with probability (j + x) /
    (T + 1 + K). Without a cut-off this takes of the order of T N^2 steps.
    """
    size, tests = integer(n_decoys, "n_decoys", 0), integer(n_test, "n_test", 1)
    if placement not in PLACEMENTS:
        raise ValueError(
            f"placement must be one of {', '.join(PLACEMENTS)}, got {as_written(placement)}"
        )
    j, x = np.arange(1, tests + 1)[:, np.newaxis], np.arange(size + 1)
    worth = metric.term(j + x, j, tests, tests + size if metric.kind == "auc" else None)
    if placement == "above":
        return np.asarray(worth.sum(axis=0))
    reach = np.flatnonzero(worth.any(axis=0))[-1] + 1  # beyond the cut-off nothing counts
    probability = np.zeros((tests, reach))  # of x good decoys above the j-th test item
    probability[:, 0] = 1.0
    values = np.empty(size + 1)
    for k in range(size + 1):
        values[k] = (probability * worth[:, :reach]).sum()
        support = slice(0, min(k + 1, reach))
        moved_up = probability[:, support] * (j + x[support]) / (tests + 1 + k)
        probability[:, support] *= (tests + 1 - j + k - x[support]) / (tests + 1 + k)
        probability[:, 1 : k + 2] += moved_up[:, : reach - 1]
    return values


def loss(law: ArrayLike, values: ArrayLike) -> float:
    """Expected cost of misclassified decoys: the value without any less the expected value, given
    the distribution of their number and the value for each number.
    """
    probability, value = _pmf(law), floats(values, "values")
    if value.shape != probability.shape:
        raise ValueError(f"values must have the law's shape {probability.shape}, got {value.shape}")
    return float(probability[1:] @ (value[0] - value[1:]))


def uncounted(ranks: RankIntervals, metric: Metric, goodness: float) -> FloatArray:
    """Each user's expected metric if good items above the test item did not count against it.

    Every item above the test item is good with probability g, independently, and is then taken out
    of the list. Ties are in random order; the metric needs a cut-off.
    """
    g = _share(goodness, "goodness")
    if metric.k is None:
        raise ValueError(
            f"metric must be one with a cut-off, such as recall@10, got {metric.label}"
        )
    most_above = int((ranks.n_better + ranks.n_tied).max())
    n_left, above = np.arange(metric.k), np.arange(most_above + 1)[:, np.newaxis]
    at_rank = binom.pmf(n_left, above, 1 - g) @ metric(
        n_left + 1
    )  # of an item with so many above it
    sums = np.concatenate([[0.0], np.cumsum(at_rank)])
    last = ranks.n_better + ranks.n_tied + 1
    return np.asarray((sums[last] - sums[ranks.n_better]) / (ranks.n_tied + 1))


def _number(value: object, name: str) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise ValueError(f"{name} must be a number, got {as_written(value)}")
    return float(floats(value, name))


def _share(value: object, name: str) -> float:
    return float(_shares(_number(value, name), name))


def _shares(values: ArrayLike, name: str) -> FloatArray:
    """Return `values` as floats, or raise ValueError naming the first outside [0, 1]."""
    shares = np.asarray(values)
    if shares.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number in [0, 1], got {as_written(values)}")
    is_bad = ~((shares >= 0) & (shares <= 1))
    if is_bad.any():
        raise ValueError(f"{name} must be a number in [0, 1], got {shares[is_bad].flat[0]}")
    return shares.astype(float, copy=False)


def _confidence(values: ArrayLike) -> FloatArray:
    confidence = np.asarray(values)
    if confidence.dtype.kind not in "iuf":
        raise ValueError(f"confidence must be a number in (0, 1), got {as_written(values)}")
    is_bad = ~((confidence > 0) & (confidence < 1))
    if is_bad.any():
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence[is_bad].flat[0]}")
    return confidence.astype(float, copy=False)


def _pmf(values: ArrayLike) -> FloatArray:
    """Return a law as an array, or raise ValueError unless it is one."""
    probabilities = floats(values, "law")
    if probabilities.ndim != 1 or probabilities.size == 0:
        raise ValueError(
            f"law must be a non-empty list of probabilities, got shape {probabilities.shape}"
        )
    if not (probabilities >= 0).all():
        negative = probabilities[~(probabilities >= 0)][0]
        raise ValueError(f"law must hold no negative number or NaN, got {negative}")
    if abs(probabilities.sum() - 1) > 1e-6:
        raise ValueError(f"law must add up to 1, got {probabilities.sum()}")
    return probabilities

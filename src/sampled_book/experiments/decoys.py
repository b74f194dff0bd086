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

from sampled_metrics._validate import FloatArray
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
    decoys, good = np.asarray(n_decoys), np.asarray(goodness, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_none = decoys * np.log1p(-good)
    return np.asarray(-np.expm1(np.where(decoys == 0, 0.0, log_none)))


def pmf(n_decoys: int, goodness: float, correlation: float = 0.0) -> FloatArray:
    """Distribution of the number of good decoys among N, over 0..N, where goodness varies by user.

    Binomial for a correlation of 0 (ekstrand2017 assumes independence), else beta-binomial
    (skellam1948): each user's goodness is drawn from a Beta distribution with mean g, and
    `correlation`, in [0, 1), is the inverse of one plus the sum of its parameters. With t =
    correlation / (1 - correlation), P(0) is the product over i < N of 1 - g / (1 + i t), and P(x +
    1) / P(x) = (N - x) (g + x t) / ((x + 1) (1 - g + (N - x - 1) t)). Relative error below 1e-10
    for N up to 10,000.
    """
    g, size = goodness, n_decoys
    if g > 0.5:  # good and bad change places, so that nothing is divided by 1 - g = 0
        return pmf(size, 1 - g, correlation)[::-1]
    t, x = correlation / (1 - correlation), np.arange(size)
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
    counts = np.arange(n_decoys + 1)
    return np.asarray(np.exp(log_hypergeometric(counts, n_decoys, n_good, pool)))


def at_least(law: ArrayLike, count: int) -> float:
    """Probability of at least `count` good decoys, summed from the right, so that small
    probabilities keep their relative accuracy.
    """
    return float(min(np.asarray(law)[count:][::-1].sum(), 1.0))


def at_least_share(law: ArrayLike, share: float) -> float:
    """Probability that at least this share of the decoys is good. The share is taken as the decimal
    it prints as, so that 0.07 of 100 decoys are 7.
    """
    return at_least(law, ceil(Fraction(repr(share)) * (np.size(law) - 1)))


def largest_goodness(n_decoys: ArrayLike, confidence: ArrayLike) -> FloatArray:
    """Largest g at which N decoys hold no good item with probability c: 1 - c^(1 / N); broadcasts.
    From ekstrand2017, "Probability of Misclassified Decoys": 1 - g = 0.95^(1 / N).
    """
    return np.asarray(-np.expm1(np.log(confidence) / np.asarray(n_decoys)))


def largest_sample(goodness: float, confidence: float) -> int:
    """Largest N at which the decoys hold no good item with probability c, at goodness g > 0.

    The floor of log(c) / log(1 - g), of both numbers as the decimals they print as. Decimal
    arithmetic has enough digits to be right where the quotient is a whole number, too.
    """
    g, c = Decimal(repr(goodness)), Decimal(repr(confidence))
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
    least = Fraction(repr(confidence))
    low, high = 0, pool - size  # the answer is in [low, high]
    while low < high:
        middle = (low + high + 1) // 2
        smaller, larger = sorted((size, middle))
        clean, every = comb(pool - larger, smaller), comb(pool, smaller)
        is_clean = least.denominator * clean >= least.numerator * every
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
    size, tests = n_decoys, n_test
    j, x = np.arange(1, tests + 1)[:, np.newaxis], np.arange(size + 1)
    worth = metric.term(j + x, j, tests, tests + size if metric.base == "auc" else None)
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
    value = np.asarray(values)
    return float(np.asarray(law)[1:] @ (value[0] - value[1:]))


def uncounted(ranks: RankIntervals, metric: Metric, goodness: float) -> FloatArray:
    """Each user's expected metric if good items above the test item did not count against it.

    Every item above the test item is good with probability g, independently, and is then taken out
    of the list. Ties are in random order; the metric needs a cut-off.
    """
    assert metric.k is not None
    most_above = int((ranks.n_better + ranks.n_tied).max())
    n_left, above = np.arange(metric.k), np.arange(most_above + 1)[:, np.newaxis]
    # of an item with so many above it
    at_rank = binom.pmf(n_left, above, 1 - goodness) @ metric(n_left + 1)
    sums = np.concatenate([[0.0], np.cumsum(at_rank)])
    last = ranks.n_better + ranks.n_tied + 1
    return np.asarray((sums[last] - sums[ranks.n_better]) / (ranks.n_tied + 1))

"""Random decoys: how many of them the user would like, and what those cost.

Ranked with a user's test items, decoys count as irrelevant. One that the user would like is
*misclassified* (ekstrand2017). The number K of such decoys among N has a law, a vector over 0..N;
a recommender that is right about every item has a value for each K, another such vector; and what
misclassified decoys cost it is the product of the two.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from math import ceil, comb

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from sampled_metrics.metrics import Metric
from sampled_metrics.numerics.distributions import log_hypergeometric
from sampled_metrics.ranking.intervals import RankIntervals

from ..checks import FloatArray, as_written, floats, integer, integers

PLACEMENTS = ("random", "above")


def misclassified(n_decoys: ArrayLike, goodness: ArrayLike) -> FloatArray:
    """Probability that at least one of N decoys is good, if goodness is independent.

    One less (1 - g)^N, the probability of none (ekstrand2017, "Probability of Misclassified
    Decoys", where the two are equated).

    Parameters
    ----------
    n_decoys : array_like of int, any shape
        N, at least 0.
    goodness : array_like of float
        g, the probability that a decoy is good, in [0, 1]; broadcasts.

    Returns
    -------
    ndarray of float
        To about 15 digits, however small g is.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> misclassified([100, 1000], 0.001).round(4)
    array([0.0952, 0.6323])
    """
    decoys, good = integers(n_decoys, "n_decoys", 0), _shares(goodness, "goodness")
    with np.errstate(divide="ignore", invalid="ignore"):
        log_none = decoys * np.log1p(-good)
    return np.asarray(-np.expm1(np.where(decoys == 0, 0.0, log_none)))


def misclassified_among(n_decoys: int, goodness: ArrayLike) -> float:
    """Probability that at least one of N decoys is good, if each item has a goodness of its own.

    The decoys are drawn from the pool uniformly without replacement, and the items are good
    independently. Item by item through the pool, what is kept is the probability for a random
    choice of k of the items so far: the item is among them with probability k / i.

    Parameters
    ----------
    n_decoys : int
        N, from 0 to the size of the pool.
    goodness : array_like of float, shape (pool,)
        Probability that each item of the pool is good, in [0, 1]; 0 and 1 for a fixed set of good
        items.

    Returns
    -------
    float
        Not below :func:`misclassified` at the mean goodness, by Maclaurin's inequality.

    Raises
    ------
    ValueError
        If an argument is outside its range or `goodness` is not a non-empty list.

    Examples
    --------
    >>> round(misclassified_among(2, [1, 0, 0, 0]), 12)
    0.5
    """
    items = _shares(goodness, "goodness")
    if items.ndim != 1 or items.size == 0:
        raise ValueError(f"goodness must be a non-empty list of numbers, got shape {items.shape}")
    size = integer(n_decoys, "n_decoys", 0, items.size)
    found = np.zeros(size + 1)
    for i, good in enumerate(items.tolist(), start=1):
        share = np.arange(1, min(i, size) + 1) / i
        before = found[: share.size]
        found[1 : share.size + 1] = (1 - share) * found[1 : share.size + 1] + share * (
            before + good * (1 - before)
        )
    return float(found[size])


def pmf(n_decoys: int, goodness: float, correlation: float = 0.0) -> FloatArray:
    """Law of the number of good decoys among N, for a goodness that varies from user to user.

    Binomial for a correlation of 0 (ekstrand2017's assumption of independence), else
    beta-binomial (skellam1948): each user's goodness is drawn from a Beta distribution. With
    t = correlation / (1 - correlation) the probability of none is the product over i < N of
    1 - g / (1 + i t), and the ratio of that of x + 1 to that of x is
    (N - x) (g + x t) / ((x + 1) (1 - g + (N - x - 1) t)).

    Parameters
    ----------
    n_decoys : int
        N, at least 0.
    goodness : float
        g, the mean over users, in [0, 1].
    correlation : float
        Correlation between the goodness of two decoys of one user, in [0, 1): the inverse of
        one plus the sum of the parameters of the Beta distribution.

    Returns
    -------
    ndarray of float, shape (n_decoys + 1,)
        Relative error below 1e-10 for N up to 10,000.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> pmf(2, 0.5).round(12)
    array([0.25, 0.5 , 0.25])
    >>> pmf(2, 0.5, correlation=1 / 3).round(4)
    array([0.3333, 0.3333, 0.3333])
    """
    size = integer(n_decoys, "n_decoys", 0)
    g = _share(goodness, "goodness")
    rho = _number(correlation, "correlation")
    if not 0 <= rho < 1:
        raise ValueError(f"correlation must be a number in [0, 1), got {rho}")
    if g > 0.5:  # good and bad change places, so that nothing is divided by 1 - g = 0
        return pmf(size, 1 - g, rho)[::-1]
    t, x = rho / (1 - rho), np.arange(size)
    none = np.log1p(-g / (1 + x * t)).sum()
    with np.errstate(divide="ignore"):
        up = np.log((size - x) / (x + 1)) + np.log(g + x * t) - np.log1p((size - x - 1) * t - g)
    return np.asarray(np.exp(none + np.concatenate([[0.0], np.cumsum(up)])))


def pmf_in_pool(n_decoys: int, n_good: int, pool: int) -> FloatArray:
    """Law of the number of good decoys among N drawn from a pool that holds G good items.

    Hypergeometric: decoys are drawn without replacement, as in ekstrand2017's protocol.

    Parameters
    ----------
    n_decoys : int
        N, from 0 to `pool`.
    n_good : int
        G, the unrated items that the user would like, from 0 to `pool`.
    pool : int
        Unrated items, at least 1.

    Returns
    -------
    ndarray of float, shape (n_decoys + 1,)

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> pmf_in_pool(2, 2, 4).round(4)
    array([0.1667, 0.6667, 0.1667])
    """
    items = integer(pool, "pool", 1)
    size = integer(n_decoys, "n_decoys", 0, items)
    good = integer(n_good, "n_good", 0, items)
    return np.asarray(np.exp(log_hypergeometric(np.arange(size + 1), size, good, items)))


def at_least(law: ArrayLike, count: int) -> float:
    """Probability of at least so many good decoys.

    A sum of positive terms from the right: it keeps its relative accuracy where it is small.

    Parameters
    ----------
    law : array_like of float, shape (n_decoys + 1,)
        Law of the number of good decoys.
    count : int
        At least 0.

    Raises
    ------
    ValueError
        If `pmf` is not a list of probabilities that add up to 1, or `count` is negative.

    Examples
    --------
    >>> at_least([0.25, 0.5, 0.25], 1)
    0.75
    """
    probability = _pmf(law)
    least = integer(count, "count", 0)
    return float(min(probability[least:][::-1].sum(), 1.0))


def at_least_share(law: ArrayLike, share: float) -> float:
    """Probability that at least this share of the decoys is good.

    Parameters
    ----------
    law : array_like of float, shape (n_decoys + 1,)
        Law of the number of good decoys, of at least one decoy.
    share : float
        In [0, 1]; taken as the decimal it prints as, so that 0.07 of 100 decoys are 7.

    Raises
    ------
    ValueError
        As :func:`at_least`, and if `share` is outside [0, 1] or there is no decoy.

    Examples
    --------
    >>> at_least_share([0.25, 0.5, 0.25], 0.5)
    0.75
    """
    size = _pmf(law).size - 1
    if size == 0:
        raise ValueError("law must be that of at least 1 decoy to have a share, got that of 0")
    return at_least(law, ceil(Fraction(repr(_share(share, "share"))) * size))


def largest_goodness(n_decoys: ArrayLike, confidence: ArrayLike) -> FloatArray:
    """Largest g at which N decoys hold no good item with this probability: 1 - c^(1 / N).

    From ekstrand2017, "Probability of Misclassified Decoys": 1 - g = 0.95^(1 / N).

    Parameters
    ----------
    n_decoys : array_like of int, any shape
        N, at least 1.
    confidence : array_like of float
        c, in (0, 1); broadcasts.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> float(largest_goodness(1000, 0.95).round(8)), round(1 / float(largest_goodness(1000, 0.95)))
    (5.129e-05, 19496)
    """
    decoys = integers(n_decoys, "n_decoys", 1)
    return np.asarray(-np.expm1(np.log(_confidence(confidence)) / decoys))


def largest_sample(goodness: float, confidence: float) -> int:
    """Largest N at which the decoys hold no good item with this probability, at goodness g.

    The whole part of log(c) / log(1 - g), of both numbers as the decimals they print as. It is
    computed to so many digits that it is right where the quotient is whole, too.

    Parameters
    ----------
    goodness : float
        g, in (0, 1]: with no good items there is no largest N.
    confidence : float
        c, in (0, 1).

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> largest_sample(0.01, 0.95), largest_sample(0.05, 0.95), largest_sample(0.1, 0.95)
    (5, 1, 0)
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
        whole = abs(quotient - nearest) < Decimal("1e-30")
        return int(nearest if whole else quotient.to_integral_value(ROUND_FLOOR))


def largest_in_pool(size: int, pool: int, confidence: float) -> int:
    """Largest number of items that a random choice of `size` from the pool avoids.

    The probability that N decoys avoid G good items is C(pool - N, G) / C(pool, G), which is the
    same with N and G exchanged. So this is the largest G for a given N, and the largest N for a
    given G. Computed in whole numbers.

    Parameters
    ----------
    size : int
        The decoys, or the good items: from 0 to `pool`.
    pool : int
        Unrated items, at least 1.
    confidence : float
        Probability that the two sets have no item in common, in (0, 1).

    Returns
    -------
    int
        The good items, or the decoys: from 0 to ``pool - size``.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> largest_in_pool(1000, 26_600, 0.95), largest_in_pool(1000, 10_534, 0.95)
    (1, 0)
    """
    items = integer(pool, "pool", 1)
    taken = integer(size, "size", 0, items)
    least = Fraction(repr(float(_confidence(_number(confidence, "confidence")))))
    low, high = 0, items - taken  # the answer is in [low, high]
    while low < high:
        middle = (low + high + 1) // 2
        few, many = sorted((taken, middle))
        clean = least.denominator * comb(items - many, few) >= least.numerator * comb(items, few)
        low, high = (middle, high) if clean else (low, middle - 1)
    return low


def perfect(of: Metric, n_decoys: int, n_test: int = 1, placement: str = "random") -> FloatArray:
    """Expected value of a perfect recommender, as a vector over the number of good decoys.

    It ranks all that the user would like, test items and good decoys, above all else; the metric
    counts good decoys as irrelevant. Placed at random, they come one after the other: with x of
    K good decoys above the j-th best of T test items, the next one is above it, too, with
    probability (j + x) / (T + 1 + K).

    Parameters
    ----------
    n_decoys : int
        N, at least 0; AUC needs 1.
    n_test : int
        T, the test items, at least 1: the relevant items of the metric.
    placement : {"random", "above"}
        Whether good decoys are in random order among the test items, or all above them. All
        below, they would cost nothing.

    Returns
    -------
    ndarray of float, shape (n_decoys + 1,)
        Value with K = 0..N good decoys. Without a cut-off random placement takes of the order of
        ``n_test * n_decoys**2`` steps.

    Raises
    ------
    ValueError
        If a number is outside its range or `placement` is another word.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> perfect(metric("rr"), 2).round(4)
    array([1.    , 0.75  , 0.6111])
    >>> perfect(metric("rr"), 2, placement="above").round(4)
    array([1.    , 0.5   , 0.3333])
    """
    size, tests = integer(n_decoys, "n_decoys", 0), integer(n_test, "n_test", 1)
    if placement not in PLACEMENTS:
        raise ValueError(
            f"placement must be one of {', '.join(PLACEMENTS)}, got {as_written(placement)}"
        )
    j, x = np.arange(1, tests + 1)[:, np.newaxis], np.arange(size + 1)
    worth = of.term(j + x, j, tests, tests + size if of.kind == "auc" else None)
    if placement == "above":
        return np.asarray(worth.sum(axis=0))
    reach = np.flatnonzero(worth.any(axis=0))[-1] + 1  # beyond the cut-off nothing counts
    chance = np.zeros((tests, reach))  # of x good decoys above the j-th test item
    chance[:, 0] = 1.0
    values = np.empty(size + 1)
    for k in range(size + 1):
        values[k] = (chance * worth[:, :reach]).sum()
        seen = slice(0, min(k + 1, reach))
        over = chance[:, seen] * (j + x[seen]) / (tests + 1 + k)
        chance[:, seen] *= (tests + 1 - j + k - x[seen]) / (tests + 1 + k)
        chance[:, 1 : k + 2] += over[:, : reach - 1]
    return values


def loss(law: ArrayLike, values: ArrayLike) -> float:
    """What misclassified decoys cost in expectation: the value without any, less the expected one.

    Parameters
    ----------
    law : array_like of float, shape (n_decoys + 1,)
        Law of the number of good decoys.
    values : array_like of float, shape (n_decoys + 1,)
        Value with each number of good decoys, as from :func:`perfect`.

    Raises
    ------
    ValueError
        If `pmf` is not a law, or `values` is not of its shape.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> loss([0.5, 0.25, 0.25], [1.0, 0.5, 0.25])
    0.3125
    """
    probability, value = _pmf(law), floats(values, "values")
    if value.shape != probability.shape:
        raise ValueError(f"values must have the law's shape {probability.shape}, got {value.shape}")
    return float(probability[1:] @ (value[0] - value[1:]))


def uncounted(ranks: RankIntervals, of: Metric, goodness: float) -> FloatArray:
    """A metric of real ranks if good items above the test item did not count against it.

    Every item above the test item is good with the same probability, independently, and is taken
    out of the list. Ties are in random order.

    Parameters
    ----------
    ranks : RankIntervals
        Of one test item each.
    of : Metric
        With a cut-off.
    goodness : float
        g, in [0, 1].

    Returns
    -------
    ndarray of float, shape (users,)
        Expected value of each user; with a goodness of 0 the metric itself.

    Raises
    ------
    ValueError
        If `goodness` is outside its range, or the metric has no cut-off.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> second = RankIntervals([1], [0], [10])
    >>> uncounted(second, metric("recall@1"), 0.25)
    array([0.25])
    """
    g = _share(goodness, "goodness")
    if of.k is None:
        raise ValueError(f"of must be a metric with a cut-off, such as recall@10, got {of.label}")
    most = int((ranks.n_better + ranks.n_tied).max())
    left, above = np.arange(of.k), np.arange(most + 1)[:, np.newaxis]
    at_rank = binom.pmf(left, above, 1 - g) @ of(left + 1)  # of an item with so many above it
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
    given = np.asarray(values)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number in [0, 1], got {as_written(values)}")
    bad = ~((given >= 0) & (given <= 1))
    if bad.any():
        raise ValueError(f"{name} must be a number in [0, 1], got {given[bad].flat[0]}")
    return given.astype(float, copy=False)


def _confidence(values: ArrayLike) -> FloatArray:
    given = np.asarray(values)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"confidence must be a number in (0, 1), got {as_written(values)}")
    bad = ~((given > 0) & (given < 1))
    if bad.any():
        raise ValueError(f"confidence must be a number in (0, 1), got {given[bad].flat[0]}")
    return given.astype(float, copy=False)


def _pmf(values: ArrayLike) -> FloatArray:
    """Return a law as an array, or raise ValueError unless it is one."""
    law = floats(values, "law")
    if law.ndim != 1 or law.size == 0:
        raise ValueError(f"law must be a non-empty list of probabilities, got shape {law.shape}")
    if not (law >= 0).all():
        raise ValueError(f"law must hold no negative number or NaN, got {law[~(law >= 0)][0]}")
    if abs(law.sum() - 1) > 1e-6:
        raise ValueError(f"law must add up to 1, got {law.sum()}")
    return law

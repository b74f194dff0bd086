"""Binomial and hypergeometric probabilities in logarithms, to about 13 digits for any sizes.

Both are computed by Loader's saddle-point expansion (loader2000), in which nothing cancels, on
whole numbers, so that they hold for catalogues of 1e9 items. Probabilities as floating-point
numbers would already lose 7 of those digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._validate import FloatArray, IntArray

#: log(x!) - log(sqrt(2 pi x) (x / e)^x) for x = 0..15; beyond, the series below is exact enough.
_STIRLING_ERROR = np.array(
    [
        0.0,
        0.08106146679532726,
        0.0413406959554093,
        0.02767792568499834,
        0.020790672103765093,
        0.016644691189821193,
        0.013876128823070748,
        0.01189670994589177,
        0.010411265261972096,
        0.009255462182712733,
        0.00833056343336287,
        0.007573675487951841,
        0.00694284010720953,
        0.006408994188004207,
        0.0059513701127588475,
        0.005554733551962801,
    ]
)

_STIRLING_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)

_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


def log_law(
    x: IntArray, draws: ArrayLike, successes: ArrayLike, pool: ArrayLike, replacement: bool
) -> FloatArray:
    """Log-probability of `x` successes in `draws` from a pool, with or without replacement.

    Arguments as those of :func:`log_binomial`.

    Examples
    --------
    >>> [float(np.exp(log_law(np.array(1), 2, 2, 4, kind)).round(4)) for kind in (True, False)]
    [0.5, 0.6667]
    """
    law = log_binomial if replacement else log_hypergeometric
    return law(x, draws, successes, pool)


def log_binomial(
    x: IntArray, trials: ArrayLike, successes: ArrayLike, pool: ArrayLike
) -> FloatArray:
    """Log-probability of `x` successes in `trials` draws, each from `successes` of `pool` items.

    Loader's form (loader2000): the deviances of x and of trials - x from their means, which
    are never negative, and the errors of Stirling's formula. Arguments broadcast; the result is
    -inf off the support. `x` and `pool` are whole. So are `trials` and `successes`, but where
    they exceed `x` by 16 or more they may lie between whole numbers (sums over ranks are
    evaluated there).

    Examples
    --------
    >>> float(np.exp(log_binomial(np.array(1), 2, 2, 4)).round(12))
    0.5
    """
    x, trials, successes, pool = np.broadcast_arrays(x, trials, successes, pool)
    failures = pool - successes
    inside = (x > 0) & (x < trials) & (successes > 0) & (failures > 0)
    # Every draw alike: log of a probability near 1 is taken from its complement.
    edge = np.where(x == 0, failures, successes)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_edge = np.where(2 * edge > pool, np.log1p(-(pool - edge) / pool), np.log(edge / pool))
        out = np.where(trials == 0, 0.0, trials * log_edge)
    at_edge = (x == 0) | (x == trials)
    out = np.where(at_edge, out, -np.inf)
    if inside.any():
        out[inside] = _log_binomial_inside(
            x[inside], trials[inside], successes[inside], pool[inside]
        )
    return out


def _log_binomial_inside(
    x: IntArray, trials: np.ndarray, successes: np.ndarray, pool: IntArray
) -> FloatArray:
    """`log_binomial` for 0 < x < trials and 0 < successes < pool, one-dimensional."""
    # x minus its mean, times the pool: whole numbers, so nothing is lost.
    excess = x * pool - trials * successes
    mean = trials * (successes / pool)
    mean_failures = trials * ((pool - successes) / pool)
    rest = trials - x
    return np.asarray(
        stirling_error(trials)
        - stirling_error(x)
        - stirling_error(rest)
        - deviance(mean, excess / (trials * successes.astype(float)))
        - deviance(mean_failures, -excess / (trials * (pool - successes).astype(float)))
        - _HALF_LOG_2PI
        - 0.5 * np.log(x * (rest / trials))
    )


def log_hypergeometric(
    x: IntArray, draws: ArrayLike, successes: ArrayLike, pool: ArrayLike
) -> FloatArray:
    """Log-probability of `x` successes among `draws` of `pool` items, without replacement.

    The ratio of three binomials whose success probability is draws / pool (loader2000).

    Examples
    --------
    >>> float(np.exp(log_hypergeometric(np.array(1), 2, 2, 4)).round(12))
    0.666666666667
    """
    # Before it is broadcast: the same for every count, and often for every rank.
    all_drawn = log_binomial(np.asarray(draws), pool, draws, pool)
    x, draws, successes, pool = np.broadcast_arrays(x, draws, successes, pool)
    rest = draws - x
    possible = (x <= successes) & (rest <= pool - successes)
    hit = np.where(possible, x, 0)
    missed = np.where(possible, rest, 0)
    out = (
        log_binomial(hit, np.where(possible, successes, 0), draws, pool)
        + log_binomial(missed, np.where(possible, pool - successes, 0), draws, pool)
        - all_drawn
    )
    return np.where(possible, out, -np.inf)


def stirling_error(x: np.ndarray) -> FloatArray:
    """``log(x!) - log(sqrt(2 pi x) (x / e)**x)`` for whole x >= 1, and any x >= 16.

    Examples
    --------
    >>> float(stirling_error(np.array(100)).round(9))
    0.000833331
    """
    inverse = 1.0 / np.maximum(x, 16)
    square = inverse * inverse
    series = np.zeros_like(inverse)
    for coefficient in reversed(_STIRLING_SERIES):
        series = series * square + coefficient
    table = _STIRLING_ERROR[np.minimum(x, 15).astype(int)]
    return np.asarray(np.where(x < 16, table, series * inverse))


def deviance(mean: FloatArray, relative: FloatArray) -> FloatArray:
    """``mean * ((1 + d) log(1 + d) - d)`` for the relative deviation d > -1: never negative.

    Where 1 + d is within a factor of three of 1 the two terms nearly cancel, and the series of
    ``atanh(d / (2 + d))`` takes their place.

    Examples
    --------
    >>> float(deviance(np.array(1e6), np.array(1e-9)).round(20))
    5e-13
    """
    d = np.asarray(relative, dtype=float)
    out = np.empty(np.broadcast_shapes(np.shape(mean), d.shape))
    d = np.broadcast_to(d, out.shape)
    v = d / (2.0 + d)
    near = np.abs(v) < 0.5
    far = ~near
    out[far] = (1.0 + d[far]) * np.log1p(d[far]) - d[far]
    square = v[near] ** 2
    series = np.zeros_like(square)
    for j in range(27, 0, -1):
        series = (series + 1.0 / (2 * j + 1)) * square
    out[near] = v[near] * (d[near] + 2.0 * (1.0 + d[near]) * series)
    return np.asarray(mean * out)

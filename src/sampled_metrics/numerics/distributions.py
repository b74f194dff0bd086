"""Binomial and hypergeometric probabilities in logarithms, to about 13 digits for any sizes.

Both are computed by Loader's saddle-point expansion (loader2000), in which nothing cancels, on
whole numbers, so that they hold for catalogues of 1e9 items. Probabilities as floating-point
numbers would already lose 7 of those digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

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


#: Entries of a law that are computed at once: few enough to stay in the processor's cache.
_BLOCK = 1 << 15
#: Up to so many draws the products below keep 12 digits: no more than 20 sqrt(draws) factors, each
#: rounded four times, lie between the most likely count and those as rare as 1e-300.
_MOST_FACTORS = 40_000


def law(
    draws: ArrayLike,
    successes: ArrayLike,
    pool: ArrayLike,
    replacement: bool,
    width: int | None = None,
) -> FloatArray:
    """Probabilities of 0, 1, ... successes in `draws` from a pool, with or without replacement.

    From the most likely count, whose probability is that of :func:`log_law`, up and down by the
    ratios of neighbours.

    Parameters
    ----------
    draws, successes, pool : array_like, shapes that broadcast to (...)
        As those of :func:`log_binomial`.
    replacement : bool
    width : int, optional
        How many of the counts; up to the largest of `draws` if omitted.

    Returns
    -------
    ndarray of float, shape (..., width)
        Relative error below 1e-12, down to 1e-300.

    Examples
    --------
    >>> law(2, [0, 2], 4, replacement=True)
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.5 , 0.25]])
    """
    drawn, some, everything = np.broadcast_arrays(draws, successes, pool)
    columns = int(drawn.max(initial=0)) + 1 if width is None else width
    if drawn.max(initial=0) > _MOST_FACTORS:
        drawn, some, everything = (g[..., np.newaxis] for g in (drawn, some, everything))
        counts = np.arange(columns)
        possible = np.minimum(counts, drawn)
        logs = log_law(possible, drawn, some, everything, replacement)
        return np.asarray(np.where(counts == possible, np.exp(logs), 0.0))
    shape = drawn.shape
    drawn, some, everything = np.ravel(drawn), np.ravel(some), np.ravel(everything)
    if replacement:
        mode = ((drawn + 1) * (some / everything)).astype(np.int64)
    else:
        mode = np.maximum((drawn + 1) * (some + 1) // (everything + 2), drawn - everything + some)
        mode = np.minimum(mode, some).astype(np.int64)
    mode = np.minimum(np.minimum(mode, drawn), columns - 1)
    # Where every count is there the probabilities add up to 1, and else one of them is needed.
    whole = columns > drawn.max(initial=0)
    highest = None if whole else np.exp(log_law(mode, drawn, some, everything, replacement))
    out = np.empty((drawn.size, columns))
    step = max(_BLOCK // columns, 1)
    x = np.arange(1.0, columns)
    # From the rarer side: so the first probability of a thousand draws is not yet too small.
    alike = replacement and whole and drawn.size > 0 and drawn.min() == columns - 1
    fraction = (columns - x) / x
    turned = alike & (2 * some > everything)
    mode = np.where(turned, drawn - mode, mode)
    for start in range(0, drawn.size, step):
        part = slice(start, start + step)
        marked = some[part, np.newaxis].astype(float)
        others = everything[part, np.newaxis] - marked
        # The probability of x over that of x - 1, as a fraction; 0 is what is off the support.
        if alike:  # the same fraction of whole numbers in all rows, times the odds of each
            up, down = fraction * np.minimum(marked, others), np.maximum(marked, others)
        elif replacement:
            up, down = np.maximum(drawn[part, np.newaxis] - (x - 1), 0.0) * marked, x * others
        else:
            left = np.maximum(drawn[part, np.newaxis] - (x - 1), 0.0)
            up = np.maximum(marked - (x - 1), 0.0) * left
            down = x * np.maximum(others - drawn[part, np.newaxis] + x, 0.0)
        found = out[part]
        most = _relative(up, down, mode[part, np.newaxis], found)
        scale = 1.0 / found.sum(axis=1) if highest is None else highest[part] / most
        found *= scale[:, np.newaxis]
        if turned[part].any():
            found[turned[part]] = found[turned[part], ::-1]
    return out.reshape(*shape, columns)


def _relative(up: FloatArray, down: FloatArray, mode: IntArray, out: FloatArray) -> FloatArray:
    """Write to `out` each row's probabilities but for a factor, and return the largest of each.

    `up` over `down` is the probability of 1, 2, ... over that of one less. The products start at 0,
    or, in rows where that is impossible or rarer than 1e-300, at the most likely count.
    """
    out[:, 0] = 1.0
    with np.errstate(all="ignore"):
        np.divide(up, down, out=out[:, 1:])
        np.cumprod(out[:, 1:], axis=1, out=out[:, 1:])
    most = np.take_along_axis(out, mode, axis=1)[:, 0]
    rare = ~(most < 1e300) | (down <= 0.0).any(axis=1)
    if rare.any():
        up, down, above = up[rare], down[rare], np.arange(1, out.shape[1]) > mode[rare]
        ratio = np.where(above, up, down)
        ratio /= np.where(above, np.maximum(down, 1e-300), np.maximum(up, 1e-300))
        part = np.ones((len(up), out.shape[1]))
        np.cumprod(np.where(above, ratio, 1.0), axis=1, out=part[:, 1:])
        part[:, :-1] *= np.cumprod(np.where(above, 1.0, ratio)[:, ::-1], axis=1)[:, ::-1]
        out[rare], most[rare] = part, 1.0
    return np.asarray(most)


def spread_ties(better: IntArray, tied: IntArray, weight: ArrayLike, places: int) -> FloatArray:
    """Total weight at each of some places, that of an item with ties shared among its places.

    Parameters
    ----------
    better, tied : ndarray of int, shape (k,)
        How many candidates are above each item, and how many are tied with it.
    weight : array_like of float, shape (k,)
    places : int
        More than all of `better` plus `tied`.

    Returns
    -------
    ndarray of float, shape (places,)

    Examples
    --------
    >>> spread_ties(np.array([0, 1]), np.array([0, 1]), np.array([1.0, 1.0]), 4)
    array([1. , 0.5, 0.5, 0. ])
    """
    each = np.broadcast_to(np.asarray(weight) / (tied + 1.0), better.shape)
    changes = np.bincount(better, each, places + 1)
    changes -= np.bincount(better + tied + 1, each, places + 1)
    # Sums of what was added and taken away again may end below 0 by rounding.
    return np.asarray(np.maximum(np.cumsum(changes)[:-1], 0.0))


def polynomials(
    draws: int, successes: FloatArray, pool: ArrayLike, replacement: bool, width: int
) -> FloatArray:
    """:func:`law` for numbers of successes between whole ones, in which it is a polynomial.

    Without replacement that is a sum of logarithms of the factors of falling factorials: slower,
    and right to an absolute error only.

    Examples
    --------
    >>> polynomials(2, np.array([0.5, 1.0]), 3, False, 3)
    array([[ 0.625     ,  0.41666667, -0.04166667],
           [ 0.33333333,  0.66666667,  0.        ]])
    """
    if replacement:
        return law(draws, successes, pool, True, width)
    x, size = np.arange(width), np.asarray(pool, dtype=float)
    hit_sign, hit = _falling(successes, size, draws)
    missed_sign, missed = _falling(size - successes, size, draws)
    logs = hit[:, x] + missed[:, draws - x] - _falling(size, size, draws)[1][..., -1:]
    logs += gammaln(draws + 1) - gammaln(x + 1) - gammaln(draws - x + 1)
    return np.asarray(hit_sign[:, x] * missed_sign[:, draws - x] * np.exp(logs))


def _falling(x: FloatArray, pool: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """Signs and logarithms of ``x (x - 1) ... (x - k + 1) / pool**k`` for k = 0..m."""
    factors = np.ones((*np.shape(x), m + 1))
    factors[..., 1:] = (x[..., np.newaxis] - np.arange(m)) / pool
    with np.errstate(divide="ignore"):
        logs = np.cumsum(np.log(np.abs(factors)), axis=-1)
    return np.asarray(np.cumprod(np.sign(factors), axis=-1)), np.asarray(logs)


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
    out = np.full(x.shape, -np.inf)
    at_edge = (x == 0) | (x == trials)
    if at_edge.any():  # every draw alike: log of a probability near 1 is taken from its complement
        n, of = trials[at_edge], pool[at_edge]
        edge = np.where(x[at_edge] == 0, failures[at_edge], successes[at_edge])
        with np.errstate(divide="ignore", invalid="ignore"):
            log_edge = np.where(2 * edge > of, np.log1p(-(of - edge) / of), np.log(edge / of))
            out[at_edge] = np.where(n == 0, 0.0, n * log_edge)
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
    excess, rest, failures = x * pool - trials * successes, trials - x, pool - successes
    share, other = successes / pool, failures / pool
    of_both, of_x, of_rest = stirling_error(np.stack([trials, x, rest]))
    missed, spare = deviance(
        np.stack([trials * share, trials * other]),
        np.stack([excess / (trials * successes.astype(float)),
                  -excess / (trials * failures.astype(float))]),
    )  # fmt: skip
    return np.asarray(
        of_both - of_x - of_rest - missed - spare
        - _HALF_LOG_2PI
        - 0.5 * np.log(x * (rest / trials))
    )  # fmt: skip


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
    counts, of = np.stack([x, draws - x]), np.stack([successes, pool - successes])
    possible = (counts <= of).all(axis=0)
    hit, missed = log_binomial(
        np.where(possible, counts, 0), np.where(possible, of, 0), draws, pool
    )
    return np.where(possible, hit + missed - all_drawn, -np.inf)


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
    size = np.abs(v)
    far = size >= 0.5
    out[far] = (1.0 + d[far]) * np.log1p(d[far]) - d[far]
    for low, high, terms in ((0.0, 0.05, 6), (0.05, 0.5, 27)):  # the rest is below 1e-17 of the sum
        near = (size >= low) & (size < high)
        square = v[near] ** 2
        series = np.zeros_like(square)
        for j in range(terms, 0, -1):
            series += 1.0 / (2 * j + 1)
            series *= square
        out[near] = v[near] * (d[near] + 2.0 * (1.0 + d[near]) * series)
    return np.asarray(mean * out)

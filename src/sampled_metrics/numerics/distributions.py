"""Binomial and hypergeometric probabilities to about 13 digits for any sizes.

Both use Loader's saddle-point expansion (loader2000), which avoids cancellation. The arguments are
whole numbers, so that the result holds for catalogues of 1e9 items; success probabilities as
floating-point numbers would already lose 7 digits there.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from .._validate import FloatArray, IntArray

#: log(x!) - log(sqrt(2 pi x) (x / e)^x) for x = 0..15; beyond, the series below is accurate.
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


#: Probabilities per block: few enough to stay in the processor's cache.
_BLOCK = 1 << 15
#: Up to so many draws products of ratios keep 12 digits: at most 20 sqrt(draws) factors, each
#: rounded four times, lie between the mode and counts as rare as 1e-300.
_MOST_FACTORS = 40_000


def law(
    draws: ArrayLike,
    successes: ArrayLike,
    pool: ArrayLike,
    replacement: bool,
    width: int | None = None,
    *,
    whole: bool = False,
    first: int = 0,
) -> FloatArray:
    """Binomial or hypergeometric probabilities of 0..width - 1 successes, (..., width).

    Starts at the most likely count, by :func:`log_law`, and multiplies by ratios of neighbours.
    Relative error below 1e-12, down to 1e-300. Arguments as for :func:`log_binomial`. `whole` says
    that other counts have a negligible probability, which saves the time of :func:`log_law`; the
    counts then are ``first, ..., first + width - 1``.
    """
    drawn, some, everything = np.broadcast_arrays(draws, successes, pool)
    columns = int(drawn.max(initial=0)) + 1 if width is None else width
    if drawn.max(initial=0) > _MOST_FACTORS:
        drawn, some, everything = (g[..., np.newaxis] for g in (drawn, some, everything))
        counts = np.arange(first, first + columns)
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
    mode = np.clip(np.minimum(mode, drawn) - first, 0, columns - 1)
    # With all counts, normalise to a sum of 1; else scale by the probability of the mode.
    reach = drawn if replacement else np.minimum(drawn, some)
    whole = whole or columns > reach.max(initial=0)
    if first and not whole:
        raise ValueError("first needs whole=True")
    highest = None if whole else np.exp(log_law(mode, drawn, some, everything, replacement))
    out = np.empty((drawn.size, columns))
    step = max(_BLOCK // columns, 1)
    x = np.arange(first + 1.0, first + columns)
    # Start from the likelier end, so that the first probability does not underflow.
    alike = replacement and drawn.size > 0 and drawn.min() == drawn.max() == columns - 1
    alike &= not first
    fraction = (columns - x) / x
    turned = alike & (2 * some > everything)
    mode = np.where(turned, drawn - mode, mode)
    for start in range(0, drawn.size, step):
        part = slice(start, start + step)
        marked = some[part, np.newaxis].astype(float)
        others = everything[part, np.newaxis] - marked
        # Many short rows are filled column by column.
        order: Literal["C", "F"] = "F" if len(marked) > columns else "C"
        # up / down is the probability of x over the probability of x - 1; 0 off the support.
        if alike:  # one fraction for all rows, times the odds of each
            up = np.multiply(fraction, np.minimum(marked, others), order=order)
            down = np.maximum(marked, others)
        elif replacement:
            up = _falling_from(drawn[part], x, order)
            up *= marked
            down = np.multiply(x, others, order=order)
        else:
            up = _falling_from(drawn[part], x, order)
            up *= _falling_from(some[part], x, order)
            spare = others - drawn[part, np.newaxis]
            down = np.add(x, spare, order=order)
            if spare.min() < -first:
                np.maximum(down, 0.0, out=down)
            down *= x
        found = np.empty((len(marked), columns), order=order)
        most = _relative(up, down, mode[part, np.newaxis], found)
        scale = 1.0 / found.sum(axis=1) if highest is None else highest[part] / most
        np.multiply(found, scale[:, np.newaxis], out=out[part])
        if turned[part].any():
            found = out[part]
            found[turned[part]] = found[turned[part], ::-1]
    return out.reshape(*shape, columns)


def _falling_from(counts: IntArray, x: FloatArray, order: Literal["C", "F"]) -> FloatArray:
    """``max(counts - (x - 1), 0)``; shape (counts, x)."""
    left = np.subtract(counts[:, np.newaxis], x - 1, order=order)
    if x.size and counts.min() < x[-1] - 1:
        np.maximum(left, 0.0, out=left)
    return np.asarray(left)


def _relative(up: FloatArray, down: FloatArray, mode: IntArray, out: FloatArray) -> FloatArray:
    """Fill `out` with the probabilities of each row up to a factor; return the largest of each row.

    ``up / down`` is the probability of 1, 2, ... over that of one less. Products start at 0, or at
    the mode where the probability of 0 underflows.
    """
    out[:, 0] = 1.0
    with np.errstate(all="ignore"):
        np.divide(up, down, out=out[:, 1:])
        if out.flags.f_contiguous:
            for column in range(2, out.shape[1]):
                out[:, column] *= out[:, column - 1]
        else:
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
    """Total weight at each place, an item's weight shared equally among the places of its ties."""
    each = np.broadcast_to(np.asarray(weight) / (tied + 1.0), better.shape)
    changes = np.bincount(better, each, places + 1)
    changes -= np.bincount(better + tied + 1, each, places + 1)
    # Sums of what was added and taken away again may end below 0 by rounding.
    return np.asarray(np.maximum(np.cumsum(changes)[:-1], 0.0))


def polynomials(
    draws: int, successes: FloatArray, pool: ArrayLike, replacement: bool, width: int
) -> FloatArray:
    """:func:`law` continued as a polynomial to fractional numbers of successes.

    Without replacement from logarithms of falling factorials: slower, with an absolute error only.
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
    """Binomial or hypergeometric log-probability of `x` successes; see :func:`log_binomial`."""
    law = log_binomial if replacement else log_hypergeometric
    return law(x, draws, successes, pool)


def log_binomial(
    x: IntArray, trials: ArrayLike, successes: ArrayLike, pool: ArrayLike
) -> FloatArray:
    """Log-probability of `x` successes in `trials` draws, each from `successes` of `pool` items.

    Loader's form: two deviances, never negative, and three Stirling errors. Arguments broadcast;
    -inf off the support. `trials` and `successes` may be fractions where they exceed `x` by 16 or
    more, because sums over ranks are evaluated there.
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
    """:func:`log_binomial` for 0 < x < trials and 0 < successes < pool, one-dimensional."""
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

    A ratio of three binomial probabilities with success probability draws / pool (loader2000).
    """
    # Before broadcasting: it is the same for every count, and often for every rank.
    all_drawn = log_binomial(np.asarray(draws), pool, draws, pool)
    x, draws, successes, pool = np.broadcast_arrays(x, draws, successes, pool)
    counts, of = np.stack([x, draws - x]), np.stack([successes, pool - successes])
    possible = (counts <= of).all(axis=0)
    hit, missed = log_binomial(
        np.where(possible, counts, 0), np.where(possible, of, 0), draws, pool
    )
    return np.where(possible, hit + missed - all_drawn, -np.inf)


def stirling_error(x: np.ndarray) -> FloatArray:
    """``log(x!) - log(sqrt(2 pi x) (x / e)**x)`` for whole x >= 1, and any x >= 16."""
    inverse = 1.0 / np.maximum(x, 16)
    square = inverse * inverse
    series = np.zeros_like(inverse)
    for coefficient in reversed(_STIRLING_SERIES):
        series = series * square + coefficient
    table = _STIRLING_ERROR[np.minimum(x, 15).astype(int)]
    return np.asarray(np.where(x < 16, table, series * inverse))


def deviance(mean: FloatArray, relative: FloatArray) -> FloatArray:
    """``mean * ((1 + d) log(1 + d) - d)`` for the relative deviation d > -1: never negative.

    For 1 + d within a factor of three of 1 the terms nearly cancel; the series of
    ``atanh(d / (2 + d))`` replaces them.
    """
    d = np.asarray(relative, dtype=float)
    out = np.empty(np.broadcast_shapes(np.shape(mean), d.shape))
    d = np.broadcast_to(d, out.shape)
    v = d / (2.0 + d)
    size = np.abs(v)
    far = size >= 0.5
    out[far] = (1.0 + d[far]) * np.log1p(d[far]) - d[far]
    for low, high, terms in ((0.0, 0.05, 6), (0.05, 0.5, 27)):  # truncation below 1e-17 of the sum
        near = (size >= low) & (size < high)
        square = v[near] ** 2
        series = np.zeros_like(square)
        for j in range(terms, 0, -1):
            series += 1.0 / (2 * j + 1)
            series *= square
        out[near] = v[near] * (d[near] + 2.0 * (1.0 + d[near]) * series)
    return np.asarray(mean * out)

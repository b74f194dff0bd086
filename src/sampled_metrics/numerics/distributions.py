"""Binomial and hypergeometric probabilities to about 13 digits for any sizes.

Both use Loader's saddle-point expansion (loader2000), which avoids cancellation. The arguments are
whole numbers, so that the result holds for catalogues of 1e9 items; success probabilities as
floating-point numbers would already lose 7 digits there.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from .._validate import FloatArray, IntArray, as_intp

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


def pmf_table(
    draws: ArrayLike,
    successes: ArrayLike,
    pool: ArrayLike,
    replacement: bool,
    width: int | None = None,
) -> FloatArray:
    """Binomial or hypergeometric probabilities of 0..width - 1 successes, (..., width).

    Starts at the most likely count, by :func:`log_pmf`, and multiplies by ratios of neighbours.
    Relative error below 1e-12, down to 1e-300. Arguments as for :func:`log_binomial`.
    """
    n_draws, n_successes, n_pool = _broadcast(draws, successes, pool)
    columns = int(n_draws.max(initial=0)) + 1 if width is None else width
    if n_draws.max(initial=0) > _MOST_FACTORS:
        return _table_of_logs(np.arange(columns), n_draws, n_successes, n_pool, replacement)
    shape = n_draws.shape
    n_draws, n_successes, n_pool = np.ravel(n_draws), np.ravel(n_successes), np.ravel(n_pool)
    mode = np.clip(_modes(n_draws, n_successes, n_pool, replacement), 0, columns - 1)
    # With all counts, normalise to a sum of 1; else scale by the probability of the mode.
    reach = n_draws if replacement else np.minimum(n_draws, n_successes)
    mode_mass = (
        None
        if columns > reach.max(initial=0)
        else np.exp(log_pmf(mode, n_draws, n_successes, n_pool, replacement))
    )
    pmf = np.empty((n_draws.size, columns))
    step = max(_BLOCK // columns, 1)
    x = np.arange(1.0, columns)
    # Start from the likelier end, so that the first probability does not underflow.
    is_whole = replacement and (n_draws == columns - 1).all()
    is_mirrored = is_whole & (2 * n_successes > n_pool)
    mode = np.where(is_mirrored, n_draws - mode, mode)
    for start in range(0, n_draws.size, step):
        block = slice(start, start + step)
        # Many short rows are filled column by column.
        order: Literal["C", "F"] = "F" if mode[block].size > columns else "C"
        arguments = x, n_draws[block], n_successes[block], n_pool[block], order
        if is_whole:
            ratios = _mirrored_ratios(*arguments)
        else:
            ratios = (_binomial_ratios if replacement else _hypergeometric_ratios)(*arguments)
        block_pmf = np.empty((mode[block].size, columns), order=order)
        largest = _relative(*ratios, mode[block, np.newaxis], block_pmf)
        scale = 1.0 / block_pmf.sum(axis=1) if mode_mass is None else mode_mass[block] / largest
        np.multiply(block_pmf, scale[:, np.newaxis], out=pmf[block])
        if is_mirrored[block].any():
            block_pmf = pmf[block]
            block_pmf[is_mirrored[block]] = block_pmf[is_mirrored[block], ::-1]
    return pmf.reshape(*shape, columns)


def _table_of_logs(
    counts: IntArray, draws: IntArray, successes: IntArray, pool: IntArray, replacement: bool
) -> FloatArray:
    """Probabilities of the counts by :func:`log_pmf`, for so many draws that ratios lose digits."""
    draws, successes, pool = (array[..., np.newaxis] for array in (draws, successes, pool))
    possible = np.minimum(counts, draws)
    logs = log_pmf(possible, draws, successes, pool, replacement)
    return np.asarray(np.where(counts == possible, np.exp(logs), 0.0))


def _modes(draws: IntArray, successes: IntArray, pool: IntArray, replacement: bool) -> IntArray:
    """The most likely numbers of successes."""
    if replacement:
        mode = ((draws + 1) * (successes / pool)).astype(np.int64)
    else:
        mode = np.maximum((draws + 1) * (successes + 1) // (pool + 2), draws - pool + successes)
        mode = np.minimum(mode, successes).astype(np.int64)
    return np.minimum(mode, draws)


# Numerators and denominators of the ratio of the probability of x to that of x - 1, (rows, x); the
# numerator is 0 off the support.


def _mirrored_ratios(
    x: FloatArray, draws: IntArray, successes: IntArray, pool: IntArray, order: Literal["C", "F"]
) -> tuple[FloatArray, FloatArray]:
    """Of the less likely outcome, if all rows have one draw for each x: one fraction times odds."""
    marked = successes[:, np.newaxis].astype(float)
    unmarked = pool[:, np.newaxis] - marked
    numerator = np.multiply((x.size + 1 - x) / x, np.minimum(marked, unmarked), order=order)
    return numerator, np.maximum(marked, unmarked)


def _binomial_ratios(
    x: FloatArray, draws: IntArray, successes: IntArray, pool: IntArray, order: Literal["C", "F"]
) -> tuple[FloatArray, FloatArray]:
    marked = successes[:, np.newaxis].astype(float)
    numerator = _falling_from(draws, x, order)
    numerator *= marked
    return numerator, np.multiply(x, pool[:, np.newaxis] - marked, order=order)


def _hypergeometric_ratios(
    x: FloatArray, draws: IntArray, successes: IntArray, pool: IntArray, order: Literal["C", "F"]
) -> tuple[FloatArray, FloatArray]:
    numerator = _falling_from(draws, x, order)
    numerator *= _falling_from(successes, x, order)
    spare = (pool - successes.astype(float) - draws)[:, np.newaxis]
    denominator = np.add(x, spare, order=order)
    if x.size and spare.min() < 1 - x[0]:
        np.maximum(denominator, 0.0, out=denominator)
    denominator *= x
    return numerator, denominator


def _falling_from(counts: IntArray, x: FloatArray, order: Literal["C", "F"]) -> FloatArray:
    """``max(counts - (x - 1), 0)``; shape (counts, x)."""
    factors = np.subtract(counts[:, np.newaxis], x - 1, order=order)
    if x.size and counts.min() < x[-1] - 1:
        np.maximum(factors, 0.0, out=factors)
    return np.asarray(factors)


def _relative(
    numerator: FloatArray, denominator: FloatArray, mode: IntArray, pmf: FloatArray
) -> FloatArray:
    """Fill `pmf` with the probabilities of each row up to a factor; return the largest of each row.

    ``up / down`` is the probability of 1, 2, ... over that of one less. Products start at 0, or at
    the mode where the probability of 0 underflows.
    """
    pmf[:, 0] = 1.0
    with np.errstate(all="ignore"):
        np.divide(numerator, denominator, out=pmf[:, 1:])
        if pmf.flags.f_contiguous:
            for column in range(2, pmf.shape[1]):
                pmf[:, column] *= pmf[:, column - 1]
        else:
            np.cumprod(pmf[:, 1:], axis=1, out=pmf[:, 1:])
    largest = np.take_along_axis(pmf, mode, axis=1)[:, 0]
    is_extreme = ~(largest < 1e300) | (denominator <= 0.0).any(axis=1)
    if is_extreme.any():
        numerator, denominator, is_above_mode = (
            numerator[is_extreme],
            denominator[is_extreme],
            np.arange(1, pmf.shape[1]) > mode[is_extreme],
        )
        ratio = np.where(is_above_mode, numerator, denominator)
        ratio /= np.where(
            is_above_mode, np.maximum(denominator, 1e-300), np.maximum(numerator, 1e-300)
        )
        products = np.ones((len(numerator), pmf.shape[1]))
        np.cumprod(np.where(is_above_mode, ratio, 1.0), axis=1, out=products[:, 1:])
        products[:, :-1] *= np.cumprod(np.where(is_above_mode, 1.0, ratio)[:, ::-1], axis=1)[
            :, ::-1
        ]
        pmf[is_extreme], largest[is_extreme] = products, 1.0
    return np.asarray(largest)


def spread_ties(better: IntArray, tied: IntArray, weight: ArrayLike, n_ranks: int) -> FloatArray:
    """Total weight at each rank, an item's weight shared equally among the ranks of its ties."""
    shares = np.broadcast_to(np.asarray(weight) / (tied + 1.0), better.shape)

    def sums(weights: FloatArray | None) -> NDArray[Any]:
        first, beyond = as_intp(better), as_intp(better + tied + 1)
        added = np.bincount(first, weights, n_ranks + 1)
        return np.cumsum(added - np.bincount(beyond, weights, n_ranks + 1))[:-1]

    # Rounding leaves a trace of what was added and taken away again. A fit to it takes minutes, so
    # ranks without an item get 0.
    return np.asarray(np.where(sums(None) > 0, np.maximum(sums(shares), 0.0), 0.0))


def polynomials(
    draws: int, successes: FloatArray, pool: ArrayLike, replacement: bool
) -> FloatArray:
    """:func:`pmf_table` continued as a polynomial to fractional numbers of successes.

    Without replacement from logarithms of falling factorials: slower, with an absolute error only.
    """
    if replacement:
        return pmf_table(draws, successes, pool, True)
    x, size = np.arange(draws + 1), np.asarray(pool, dtype=float)
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


def _broadcast(*values: ArrayLike) -> tuple[NDArray[Any], ...]:
    """Broadcast arrays; whole numbers as int64, because products of theirs exceed 32 bits."""
    arrays = [np.asarray(value) for value in values]
    types = [np.int64 if array.dtype.kind in "iu" else array.dtype for array in arrays]
    return np.broadcast_arrays(*(map(np.asarray, arrays, types)))


def log_pmf(
    x: IntArray, draws: ArrayLike, successes: ArrayLike, pool: ArrayLike, replacement: bool
) -> FloatArray:
    """Binomial or hypergeometric log-probability of `x` successes; see :func:`log_binomial`."""
    log_probability = log_binomial if replacement else log_hypergeometric
    return log_probability(x, draws, successes, pool)


def log_binomial(
    x: IntArray, trials: ArrayLike, successes: ArrayLike, pool: ArrayLike
) -> FloatArray:
    """Log-probability of `x` successes in `trials` draws, each from `successes` of `pool` items.

    Loader's form: two deviances, never negative, and three Stirling errors. Arguments broadcast;
    -inf off the support. `trials` and `successes` may be fractions where they exceed `x` by 16 or
    more, because sums over ranks are evaluated there.
    """
    x, trials, successes, pool = _broadcast(x, trials, successes, pool)
    failures = pool - successes
    inside = (x > 0) & (x < trials) & (successes > 0) & (failures > 0)
    log_pmf = np.full(x.shape, -np.inf)
    at_edge = (x == 0) | (x == trials)
    if at_edge.any():  # every draw alike: log of a probability near 1 is taken from its complement
        edge_trials, edge_pool = trials[at_edge], pool[at_edge]
        edge = np.where(x[at_edge] == 0, failures[at_edge], successes[at_edge])
        with np.errstate(divide="ignore", invalid="ignore"):
            log_edge = np.where(
                2 * edge > edge_pool,
                np.log1p(-(edge_pool - edge) / edge_pool),
                np.log(edge / edge_pool),
            )
            log_pmf[at_edge] = np.where(edge_trials == 0, 0.0, edge_trials * log_edge)
    if inside.any():
        log_pmf[inside] = _log_binomial_inside(
            x[inside], trials[inside], successes[inside], pool[inside]
        )
    return log_pmf


def _log_binomial_inside(
    x: IntArray, trials: np.ndarray, successes: np.ndarray, pool: IntArray
) -> FloatArray:
    """:func:`log_binomial` for 0 < x < trials and 0 < successes < pool, one-dimensional."""
    # x minus its mean, times the pool: whole numbers, so nothing is lost.
    excess, rest, failures = x * pool - trials * successes, trials - x, pool - successes
    success_share, failure_share = successes / pool, failures / pool
    trials_error, x_error, rest_error = stirling_error(np.stack([trials, x, rest]))
    success_deviance, failure_deviance = deviance(
        np.stack([trials * success_share, trials * failure_share]),
        np.stack([excess / (trials * successes.astype(float)),
                  -excess / (trials * failures.astype(float))]),
    )  # fmt: skip
    return np.asarray(
        trials_error - x_error - rest_error - success_deviance - failure_deviance
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
    counts, group_sizes = np.stack([x, draws - x]), np.stack([successes, pool - successes])
    is_possible = (counts <= group_sizes).all(axis=0)
    log_hit, log_missed = log_binomial(
        np.where(is_possible, counts, 0), np.where(is_possible, group_sizes, 0), draws, pool
    )
    return np.where(is_possible, log_hit + log_missed - all_drawn, -np.inf)


def stirling_error(x: np.ndarray) -> FloatArray:
    """``log(x!) - log(sqrt(2 pi x) (x / e)**x)`` for whole x >= 1, and any x >= 16."""
    inverse = 1.0 / np.maximum(x, 16)
    square = inverse * inverse
    series = np.zeros_like(inverse)
    for coefficient in reversed(_STIRLING_SERIES):
        series = series * square + coefficient
    table = _STIRLING_ERROR[np.minimum(x, 15).astype(np.intp)]
    return np.asarray(np.where(x < 16, table, series * inverse))


def deviance(mean: FloatArray, relative: FloatArray) -> FloatArray:
    """``mean * ((1 + d) log(1 + d) - d)`` for the relative deviation d > -1: never negative.

    For 1 + d within a factor of three of 1 the terms nearly cancel; the series of
    ``atanh(d / (2 + d))`` replaces them.
    """
    d = np.asarray(relative, dtype=float)
    unit_deviance = np.empty(np.broadcast_shapes(np.shape(mean), d.shape))
    d = np.broadcast_to(d, unit_deviance.shape)
    ratio = d / (2.0 + d)
    magnitude = np.abs(ratio)
    is_far = magnitude >= 0.5
    unit_deviance[is_far] = (1.0 + d[is_far]) * np.log1p(d[is_far]) - d[is_far]
    for low, high, terms in ((0.0, 0.05, 6), (0.05, 0.5, 27)):  # truncation below 1e-17 of the sum
        is_near = (magnitude >= low) & (magnitude < high)
        square = ratio[is_near] ** 2
        series = np.zeros_like(square)
        for j in range(terms, 0, -1):
            series += 1.0 / (2 * j + 1)
            series *= square
        unit_deviance[is_near] = ratio[is_near] * (d[is_near] + 2.0 * (1.0 + d[is_near]) * series)
    return np.asarray(mean * unit_deviance)

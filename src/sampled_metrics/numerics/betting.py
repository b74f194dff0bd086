"""An interval for a mean of bounded values, valid for any number of values.

Bet against "the mean is at most c": a stake of lambda turns a wealth of 1 into the product of 1 +
lambda (value - c). If the values are independent and the average of their expectations is at most
c, the expected wealth is at most 1, by the inequality of arithmetic and geometric means. The same
holds for an average over several stakes. So the wealth exceeds 1 / error with a probability of at
most `error` (waudbysmith2024). The stakes are fixed in advance: the result does not depend on the
order of the values, and these need not have equal expectations. Values drawn without replacement
are negatively associated, so that the expected wealth is no larger: the mean may be that of a
finite set from which they were drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from .._validate import FloatArray

#: Largest stake, as a share of the stake that can lose everything, and the ratio of the grid.
_MOST, _RATIO = 0.9, 1.2
#: With more distinct values than this, all are rounded conservatively.
_DISTINCT = 1 << 16
#: Tolerance of an end, outwards, as a share of the range.
_NEAR = 1e-12


def log_e_value(values: FloatArray, counts: FloatArray, lowest: float, mean: float) -> float:
    """Logarithm of the e-value against a mean of at most `mean`; `values` are distinct."""
    if mean <= lowest:  # then all values are the lowest
        beyond = bool((values > lowest).any()) or mean < lowest
        return np.inf if beyond else 0.0
    users = float(counts.sum())
    stakes = _MOST * _RATIO ** -np.arange(1.0 + np.ceil(np.log(users) / np.log(_RATIO) / 2))
    gains = (values - mean) / (mean - lowest)
    return float(logsumexp(np.log1p(np.outer(stakes, gains)) @ counts) - np.log(stakes.size))


def interval(
    values: FloatArray,
    lowest: float,
    highest: float,
    error_rate: float,
    *,
    counts: FloatArray | None = None,
) -> tuple[float, float]:
    """The means that a bet on either side does not reject; it misses with at most `error_rate`.

    `lowest` and `highest` bound a value; `counts` are the users with each value.
    """
    low = _lower(values, counts, lowest, highest, error_rate / 2)
    return low, -_lower(-values, counts, -highest, -lowest, error_rate / 2)


def _lower(
    values: FloatArray, counts: FloatArray | None, lowest: float, highest: float, error_rate: float
) -> float:
    """A lower confidence bound: above the mean with a probability of at most `error_rate`."""
    distinct, distinct_counts = _coarse(values, counts, lowest, highest)
    tolerance = _NEAR * (highest - lowest)
    average = float(distinct @ distinct_counts / distinct_counts.sum())

    def above(mean: float) -> float:
        return log_e_value(distinct, distinct_counts, lowest, mean) + float(np.log(error_rate))

    if average <= lowest + tolerance or above(lowest + tolerance) <= 0:
        return lowest
    return crossing(above, lowest + tolerance, average, tolerance)


def crossing(
    excess: Callable[[float], float], start: float, stop: float, tolerance: float = 1e-13
) -> float:
    """Root of a decreasing function between `start` and `stop`, rounded towards `start`.

    The Illinois variant of regula falsi: importing `scipy.optimize` would take longer than the
    searches. Returns `start` if the function is not positive there, and `stop` if it is still
    positive there.
    """
    start_excess, stop_excess, previous = excess(start), excess(stop), 0.0
    if start_excess <= 0 or stop_excess > 0:
        return start if start_excess <= 0 else stop
    step = 0.5 * tolerance * np.sign(stop - start)
    for _ in range(100):
        if abs(stop - start) <= tolerance:
            break
        middle = 0.5 * (start + stop)
        if np.isfinite(start_excess):
            middle = start + (stop - start) * start_excess / (start_excess - stop_excess)
            middle = middle - step if abs(middle - start) > tolerance else start + step
        if middle in (start, stop):
            break
        value = excess(middle)
        if value > 0:
            start, start_excess = middle, value
            stop_excess *= 0.5 if previous > 0 else 1.0
        else:
            stop, stop_excess = middle, value
            start_excess *= 0.5 if previous < 0 else 1.0
        previous = value
    return float(start)


def tally(values: FloatArray, counts: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Distinct values in increasing order, with their counts."""
    distinct, inverse = np.unique(values, return_inverse=True)
    return distinct, np.bincount(inverse, counts, distinct.size).astype(float)


def _coarse(
    values: FloatArray, counts: FloatArray | None, lowest: float, highest: float
) -> tuple[FloatArray, FloatArray]:
    """Distinct values with counts; with many values, rounded down, which is conservative."""
    distinct, distinct_counts = tally(values, counts)
    if distinct.size > _DISTINCT:
        step = (highest - lowest) / _DISTINCT
        distinct, distinct_counts = tally(
            lowest + step * np.floor((distinct - lowest) / step), distinct_counts
        )
    return distinct, distinct_counts

"""A test and an interval for a mean of bounded numbers that hold for any number of them.

Bet against "the mean is at most c": a stake of lambda turns a capital of 1 into the product of
1 + lambda (value - c). If the values are independent and the average of their expectations is at
most c, the expected capital is at most 1, since no product of numbers that sum to at most N is
above 1. So it is for the average over several stakes, and the capital exceeds 1 / error with at
most probability error (waudbysmith2024). Stakes that are fixed beforehand do not depend on the
order of the values, and the values need not have the same expectation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from .._validate import FloatArray

#: The largest stake, as a share of the one that can lose everything, and the ratio of neighbours.
_MOST, _RATIO = 0.9, 1.2
#: With more distinct values than this, all are rounded to the worse side.
_DISTINCT = 1 << 16
#: How far outside its exact place an end may lie, as a share of the range.
_NEAR = 1e-12


def log_e_value(values: FloatArray, counts: FloatArray, lowest: float, mean: float) -> float:
    """Logarithm of what is left of 1 after betting that the mean is above `mean`.

    Parameters
    ----------
    values : ndarray of float, shape (k,)
        Different values, none below `lowest`.
    counts : ndarray of float, shape (k,)
        How often each was observed.
    lowest, mean : float
        The least that a value can be, and the mean that is bet against.

    Returns
    -------
    float
        If the mean is at most `mean`, the expectation of its exponential is at most 1.

    Examples
    --------
    >>> round(log_e_value(np.array([0.0, 1.0]), np.array([2.0, 18.0]), lowest=0.0, mean=0.5), 3)
    6.057
    """
    if mean <= lowest:  # then all values would be the lowest
        beyond = bool((values > lowest).any()) or mean < lowest
        return np.inf if beyond else 0.0
    users = float(counts.sum())
    stakes = _MOST * _RATIO ** -np.arange(1.0 + np.ceil(np.log(users) / np.log(_RATIO) / 2))
    gains = (values - mean) / (mean - lowest)
    return float(logsumexp(np.log1p(np.outer(stakes, gains)) @ counts) - np.log(stakes.size))


def against(
    values: FloatArray,
    lowest: float,
    highest: float,
    bias: float = 0.0,
    *,
    counts: FloatArray | None = None,
) -> tuple[int, float]:
    """Test whether a mean is 0, where the values may be wrong by up to `bias` on average.

    Parameters
    ----------
    values : ndarray of float, shape (k,)
        Of independent users.
    lowest, highest : float
        The least and the most that a value can be.
    bias : float
        The mean of the values' expectations lies within this of the one that is tested.
    counts : ndarray of float, shape (k,), optional
        How many users have each value; one if omitted.

    Returns
    -------
    sign : int
        Of what the bets were won on: 1, -1, or 0 if none was.
    p_value : float
        Two-sided. If the mean is 0 or has another sign than `sign`, this is at most any a with at
        most probability a, whatever the distribution and the number of values.

    Examples
    --------
    >>> sign, p = against(np.array([0.0, 1.0]), -1.0, 1.0, counts=np.array([80.0, 20.0]))
    >>> sign, round(p, 5)
    (1, 6e-05)
    """
    logs = [
        log_e_value(*_coarse(side, counts, low, high), low, bias)
        for side, low, high in ((values, lowest, highest), (-values, -highest, -lowest))
    ]
    most = max(logs)
    sign = 0 if most <= 0 else 1 if logs[0] == most else -1
    return sign, float(min(1.0, 2.0 * np.exp(-most)))


def interval(
    values: FloatArray,
    lowest: float,
    highest: float,
    error: float,
    *,
    counts: FloatArray | None = None,
) -> tuple[float, float]:
    """Find the means that :func:`against` would not reject at the level `error`.

    Parameters
    ----------
    values, lowest, highest, counts
        As for :func:`against`.
    error : float
        Probability, at most, that the mean of the expectations is outside.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> low, high = interval(np.array([0.0, 1.0]), 0.0, 1.0, 0.05, counts=np.array([80.0, 20.0]))
    >>> round(low, 3), round(high, 3)
    (0.096, 0.341)
    """
    low = _lower(values, counts, lowest, highest, error / 2)
    return low, -_lower(-values, counts, -highest, -lowest, error / 2)


def _lower(
    values: FloatArray, counts: FloatArray | None, lowest: float, highest: float, error: float
) -> float:
    """A bound that is above the mean with at most probability `error`."""
    different, each = _coarse(values, counts, lowest, highest)
    near = _NEAR * (highest - lowest)
    average = float(different @ each / each.sum())

    def above(mean: float) -> float:
        return log_e_value(different, each, lowest, mean) + float(np.log(error))

    if average <= lowest + near or above(lowest + near) <= 0:
        return lowest
    return crossing(above, lowest + near, average, near)


def crossing(
    excess: Callable[[float], float], near: float, far: float, tolerance: float = 1e-13
) -> float:
    """Where a function that falls from `near` to `far` becomes 0, or a little nearer.

    By the Illinois method, which is regula falsi with weights that keep both ends moving.
    `scipy.optimize` takes as long to import as many of these searches.

    Parameters
    ----------
    excess : callable
        May be infinite; positive at what is returned, unless that is `near`.
    near, far : float
    tolerance : float
        How far on the side of `near` the answer may lie.

    Returns
    -------
    float
        `near` if the function is not positive there, and `far` if it is positive there.

    Examples
    --------
    >>> round(crossing(lambda x: 2.0 - x**2, 1.0, 5.0), 9)
    1.414213562
    """
    high, low, before = excess(near), excess(far), 0.0
    if high <= 0 or low > 0:
        return near if high <= 0 else far
    step = 0.5 * tolerance * np.sign(far - near)
    for _ in range(100):
        if abs(far - near) <= tolerance:
            break
        middle = 0.5 * (near + far)
        if np.isfinite(high):
            middle = near + (far - near) * high / (high - low)
            middle = middle - step if abs(middle - near) > tolerance else near + step
        if middle in (near, far):
            break
        value = excess(middle)
        if value > 0:
            near, high = middle, value
            low *= 0.5 if before > 0 else 1.0
        else:
            far, low = middle, value
            high *= 0.5 if before < 0 else 1.0
        before = value
    return float(near)


def tally(values: FloatArray, counts: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Different values, in order, and how often each is there.

    Parameters
    ----------
    values : ndarray of float, shape (k,)
    counts : ndarray of float, shape (k,), optional
        How often each is there; once if omitted.

    Returns
    -------
    different, counts : ndarray of float

    Examples
    --------
    >>> different, counts = tally(np.array([0.5, 0.0, 0.5]), np.array([1.0, 2.0, 3.0]))
    >>> different.tolist(), counts.tolist()
    ([0.0, 0.5], [2.0, 4.0])
    """
    different, which = np.unique(values, return_inverse=True)
    return different, np.bincount(which, counts, different.size).astype(float)


def _coarse(
    values: FloatArray, counts: FloatArray | None, lowest: float, highest: float
) -> tuple[FloatArray, FloatArray]:
    """Different values, rounded down where they are many, and how often each is there."""
    different, each = tally(values, counts)
    if different.size > _DISTINCT:  # down is the worse side of a bet on more
        step = (highest - lowest) / _DISTINCT
        different, each = tally(lowest + step * np.floor((different - lowest) / step), each)
    return different, each

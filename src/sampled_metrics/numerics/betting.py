"""A test and an interval for a mean of bounded numbers that hold for any number of them.

Bet against "the mean is at most c": a stake of lambda turns a capital of 1 into the product of
1 + lambda (value - c). If the values are independent and the average of their expectations is at
most c, the expected capital is at most 1, since no product of numbers that sum to at most N is
above 1. So it is for the average over several stakes, and the capital exceeds 1 / error with at
most probability error (waudbysmith2024). Stakes that are fixed beforehand do not depend on the
order of the values, and the values need not have the same expectation.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from .._validate import FloatArray

#: The largest stake, as a share of the one that can lose everything, and the ratio of the stakes.
_MOST, _RATIO = 0.9, 1.2
#: Where there are more different values than this, all are rounded to the worse side.
_DISTINCT = 1 << 16
#: How far outside the solution an end may lie, as a share of the range.
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
    from scipy.optimize import brentq  # takes as long to import as all the rest

    return max(float(brentq(above, lowest + near, average, xtol=near)) - near, lowest)


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

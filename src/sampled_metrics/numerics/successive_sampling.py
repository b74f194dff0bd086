"""Negatives drawn with unequal probabilities: how many of them are above an item.

Without replacement, each next item is drawn from the remaining ones in proportion to its weight.
This is the order of independent exponential arrival times with the weights as rates (rosen1972).
Given the time of the m-th arrival, arrivals are independent trials, so that the distribution is one
integral over that time. The integrand has positive terms and is smooth in the logarithm of the
time: the trapezoidal rule reaches 13 digits with some fifty nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log, sqrt

import numpy as np

from .._validate import FloatArray, IntArray

#: Numbers held in memory at once.
_BLOCK = 1 << 23
#: Log-probability below which tails of an integral are left out.
_RARE = -44.0


def successive(weights: FloatArray, indices: IntArray, m: int) -> FloatArray:
    """Distribution of the number of items above each index among m drawn successively.

    `weights` (n,) are in the order of the ranking, the item at the index itself is not drawn. Shape
    (indices, m + 1); relative error below 1e-11 where the probability is not negligible.
    """
    pmf = np.empty((indices.size, m + 1))
    for block, _, spread in _spread(weights, indices, m):
        pmf[block] = spread.sum(axis=1)
    return pmf


def drawn_first(weights: FloatArray, m: int) -> FloatArray:
    """Inclusion probability of each item among m drawn without replacement.

    Items of equal weight share it; each distinct weight costs one index of :func:`successive`.
    """
    if m >= np.count_nonzero(weights):
        return np.asarray((weights > 0).astype(float))
    weights = weights / weights.max()  # the rates of :func:`_spread`'s times
    distinct, first, inverse = np.unique(weights, return_index=True, return_inverse=True)
    # An item is drawn if it arrives before the m-th of the others.
    inside = np.empty(distinct.size)
    for block, times, spread in _spread(weights, first, m):
        arrived = -np.expm1(-np.outer(distinct[block], times))
        inside[block] = (spread.sum(axis=2) * arrived).sum(axis=1)
    return np.asarray(inside[inverse])


def _spread(
    weights: FloatArray, indices: IntArray, m: int
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yields, for blocks of indices, times and joint probabilities (indices, times, m + 1).

    Jointly: the m-th arrival among the other items is about then, and so many of the first m are
    above.
    """
    weights = weights / weights.max()
    without = np.delete(weights, indices[np.argmax(weights[indices])])
    if m > np.count_nonzero(without):
        raise ValueError(
            f"weights must have {m} items above 0 besides the relevant one to draw {m} "
            f"without replacement, got {np.count_nonzero(without)}"
        )
    low = _edge(weights[weights > 0], m, early=True)
    high = _edge(without[without > 0], m, early=False)
    step = min(0.25, 0.4 / sqrt(m))
    logs = np.arange(low, high + step, step)
    times, mass = np.exp(logs), step * np.exp(logs)
    length = max(1, _BLOCK // (4 * times.size * (m + 1)))
    for start in range(0, indices.size, length):
        block = slice(start, start + length)
        above = _swept(weights, indices[block], times, m)
        below = _swept(weights[::-1], weights.size - 1 - indices[block], times, m)
        spread = np.zeros((indices[block].size, times.size, m + 1))
        for row, ((above_pmf, above_rate), (below_pmf, below_rate)) in enumerate(
            zip(above, below, strict=True)
        ):
            # The m-th arrival is above, or it is not; arrays are (count, time).
            spread[row, :, 1:] += (above_rate[:-1] * below_pmf[:-1][::-1]).T
            spread[row, :, :-1] += (above_pmf[:-1] * below_rate[:-1][::-1]).T
        spread *= mass[:, np.newaxis]
        yield block, times, spread


def _edge(weights: FloatArray, m: int, early: bool) -> float:
    """Log of a time before (or after) which the m-th arrival is negligibly rare (Chernoff)."""

    def rare(log_time: float) -> bool:
        arrived = float(-np.expm1(-weights * exp(log_time)).sum())
        if early:
            return arrived < m and m * log(arrived / m) + m - arrived < _RARE
        remaining, least = weights.size - arrived, weights.size - m + 1
        if (
            remaining < least
            and least * log(max(remaining, 1e-300) / least) + least - remaining < _RARE
        ):
            return True
        return arrived > m - 1 and (m - 1) * log(arrived / max(m - 1, 1)) + m - 1 - arrived < _RARE

    low, high = -800.0, 700.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if rare(middle) == early:
            low = middle
        else:
            high = middle
    return low if early else high


def _swept(
    weights: FloatArray, indices: IntArray, times: FloatArray, m: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Distribution of arrivals before each index, and density of the next; (m + 1, times)."""
    pmf, rate = np.zeros((m + 1, times.size)), np.zeros((m + 1, times.size))
    pmf[0] = 1.0
    swept_by_index: dict[int, tuple[FloatArray, FloatArray]] = {}
    index_set = set(indices.tolist())
    for i in range(int(indices.max()) + 1):
        if i in index_set:
            swept_by_index[i] = pmf.copy(), rate.copy()
        weight = weights[i]
        if weight == 0:
            continue
        stay = np.exp(-weight * times)
        come = -np.expm1(-weight * times)
        moved = rate[:-1] * come
        rate *= stay
        rate[1:] += moved
        rate += (weight * stay) * pmf
        moved = pmf[:-1] * come
        pmf *= stay
        pmf[1:] += moved
    return [swept_by_index[i] for i in indices.tolist()]


def occupied(m: int, pool: int) -> FloatArray:
    """Distribution of the number of distinct items among m drawn uniformly with replacement."""
    pmf = np.zeros(m + 1)
    pmf[0] = 1.0
    repeat_probability = np.minimum(np.arange(m + 1) / pool, 1.0)
    for _ in range(m):
        new = pmf[:-1] * (1.0 - repeat_probability[:-1])
        pmf *= repeat_probability
        pmf[1:] += new
    return pmf

"""Negatives drawn with unequal probabilities: how many of them are above an item.

Without replacement, each next item is drawn from those left in proportion to its weight. That is
the order in which items arrive that wait for independent exponential times with the weights as
rates (rosen1972). At a given time arrivals are independent trials, so that the number of the first
m that belong to some items is one integral over the time of the m-th arrival. Its integrand is a
sum of products of positive terms, and smooth in the logarithm of the time: the trapezoidal rule has
13 digits with some fifty nodes.

With replacement and duplicates collapsed, the generating function of the numbers of distinct items
over all numbers of draws is a product over the items. The coefficient of m draws is an integral
over a circle through the saddle point, where the trapezoidal rule is exact but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, lgamma, log, sqrt

import numpy as np
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray

#: Numbers held in memory at once.
_BLOCK = 1 << 23
#: Logarithm of the probability below which a tail of an integral is left out.
_RARE = -44.0
#: Items whose share of the weight, times sqrt(m), is larger do not share a circle with others.
_LARGE = 0.1


def successive(weights: FloatArray, places: IntArray, m: int) -> FloatArray:
    """Distribution of the number of items above each place among m drawn without replacement.

    Parameters
    ----------
    weights : ndarray of float, shape (n,)
        In the order of the ranking; what is at the place itself is not drawn.
    places : ndarray of int, shape (k,)
        In [0, n - 1].
    m : int
        Draws; fewer than the positive weights.

    Returns
    -------
    ndarray of float, shape (k, m + 1)
        Relative error below 1e-11 where it is not negligible.

    Examples
    --------
    >>> successive(np.array([2.0, 1.0, 1.0]), np.array([1]), 1)
    array([[0.33333333, 0.66666667]])
    """
    out = np.empty((places.size, m + 1))
    for part, _, spread in _spread(weights, places, m):
        out[part] = spread.sum(axis=1)
    return out


def drawn_first(weights: FloatArray, m: int) -> FloatArray:
    """Probability of each item to be among m drawn without replacement.

    Items of equal weight have the same; each different weight costs a place of :func:`successive`.

    Examples
    --------
    >>> drawn_first(np.array([2.0, 1.0, 1.0]), 1)
    array([0.5 , 0.25, 0.25])
    """
    if m >= np.count_nonzero(weights):
        return np.asarray((weights > 0).astype(float))
    weights = weights / weights.max()  # as the times are of these rates
    kinds, first, kind = np.unique(weights, return_index=True, return_inverse=True)
    # An item is drawn if it arrives before the m-th of the others.
    inside = np.empty(kinds.size)
    for part, times, spread in _spread(weights, first, m):
        came = -np.expm1(-np.outer(kinds[part], times))
        inside[part] = (spread.sum(axis=2) * came).sum(axis=1)
    return np.asarray(inside[kind])


def _spread(
    weights: FloatArray, places: IntArray, m: int
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """For some places each: times, and (places, times, m + 1) probabilities.

    Each is that the m-th of all others arrives about then, and so many of the first m are above.
    """
    weights = weights / weights.max()
    without = np.delete(weights, places[np.argmax(weights[places])])
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
    for start in range(0, places.size, length):
        part = slice(start, start + length)
        before = _swept(weights, places[part], times, m)
        behind = _swept(weights[::-1], weights.size - 1 - places[part], times, m)
        spread = np.zeros((places[part].size, times.size, m + 1))
        for one, ((few, few_now), (many, many_now)) in enumerate(zip(before, behind, strict=True)):
            # The last of the m to arrive is above, or it is not; arrays are (count, time).
            spread[one, :, 1:] += (few_now[:-1] * many[:-1][::-1]).T
            spread[one, :, :-1] += (few[:-1] * many_now[:-1][::-1]).T
        spread *= mass[:, np.newaxis]
        yield part, times, spread


def _edge(weights: FloatArray, m: int, early: bool) -> float:
    """Logarithm of a time before, or after, which the m-th arrival hardly ever is (Chernoff)."""

    def rare(at: float) -> bool:
        came = float(-np.expm1(-weights * exp(at)).sum())
        if early:
            return came < m and m * log(came / m) + m - came < _RARE
        left, least = weights.size - came, weights.size - m + 1
        if left < least and least * log(max(left, 1e-300) / least) + least - left < _RARE:
            return True
        return came > m - 1 and (m - 1) * log(came / max(m - 1, 1)) + m - 1 - came < _RARE

    low, high = -800.0, 700.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if rare(middle) == early:
            low = middle
        else:
            high = middle
    return low if early else high


def _swept(
    weights: FloatArray, places: IntArray, times: FloatArray, m: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Arrivals among the items before each place, by any time: law, and rates of the next one.

    Both are (m + 1, times): the probability of so many arrivals, and the density of one more.
    """
    law, rate = np.zeros((m + 1, times.size)), np.zeros((m + 1, times.size))
    law[0] = 1.0
    found: dict[int, tuple[FloatArray, FloatArray]] = {}
    wanted = set(places.tolist())
    for i in range(int(places.max()) + 1):
        if i in wanted:
            found[i] = law.copy(), rate.copy()
        w = weights[i]
        if w == 0:
            continue
        stay = np.exp(-w * times)
        come = -np.expm1(-w * times)
        moved = rate[:-1] * come
        rate *= stay
        rate[1:] += moved
        rate += (w * stay) * law
        moved = law[:-1] * come
        law *= stay
        law[1:] += moved
    return [found[place] for place in places.tolist()]


def distinct(weights: FloatArray, places: IntArray, m: int) -> FloatArray:
    """Distribution of the number of distinct items above each place, of m drawn with replacement.

    Parameters and returned shape as :func:`successive`; absolute error below 1e-12.

    Examples
    --------
    >>> distinct(np.array([1.0, 0.0, 1.0]), np.array([1]), 2).round(12)
    array([[0.25, 0.75, 0.  ]])
    """
    out = np.empty((places.size, m + 1))
    total = weights.sum()
    share = weights[places] / total
    together = np.flatnonzero(share * sqrt(m) < _LARGE)
    apart = np.flatnonzero(share * sqrt(m) >= _LARGE)
    for group in [together, *apart[:, np.newaxis]]:
        length = max(1, _BLOCK // (4 * (m + 1) * (m + 50)))
        for start in range(0, group.size, length):
            some = group[start : start + length]
            out[some] = _on_circle(weights, places[some], m)
    return out


def _on_circle(weights: FloatArray, places: IntArray, m: int) -> FloatArray:
    """As :func:`distinct`, for places of nearly the same weight."""
    total = np.cumsum(weights)
    pool = total[-1] - weights[places]
    radius = m / float(pool.mean())
    count = m + 40 + 12 * int(sqrt(m))
    angles = np.arange(count // 2 + 1) * (2 * np.pi / count)
    z = radius * np.exp(1j * angles)
    # A conjugate pair for each node but those on the real axis.
    pairs = np.where((angles == 0) | np.isclose(angles, np.pi), 1.0, 2.0)
    law: NDArray[np.complex128] = np.zeros((m + 1, z.size), dtype=complex)
    law[0] = 1.0
    found = {}
    wanted = set(places.tolist())
    last = int(places.max())
    for i in range(last + 1):
        if i in wanted:
            found[i] = law.copy()
        if weights[i] == 0 or i == last:
            continue
        moved = law[:-1] * np.expm1(weights[i] * z)
        law[1:] += moved
        law *= exp(-weights[i] * radius)
    out = np.empty((places.size, m + 1))
    for one, place in enumerate(places.tolist()):
        above = total[place] - weights[place]
        behind = pool[one] - above
        around = pairs * np.exp(behind * (z - radius)) * np.exp(-1j * m * angles)
        mean = pool[one] * radius
        scale = exp(lgamma(m + 1) + mean - m * log(mean)) / count
        out[one] = np.maximum((found[place] @ around).real * scale, 0.0)
    return out


def occupied(m: int, pool: int) -> FloatArray:
    """Distribution of the number of distinct items among m drawn uniformly with replacement.

    Examples
    --------
    >>> occupied(2, 4)
    array([0.  , 0.25, 0.75])
    """
    law = np.zeros(m + 1)
    law[0] = 1.0
    again = np.minimum(np.arange(m + 1) / pool, 1.0)
    for _ in range(m):
        new = law[:-1] * (1.0 - again[:-1])
        law *= again
        law[1:] += new
    return law

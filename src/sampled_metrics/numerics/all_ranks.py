"""The law at every true rank at once, without the matrix of all of them.

Whatever is expected of a sampled rank is a polynomial in the true rank, of a degree of at most m.
Its values at m + 1 Chebyshev nodes are therefore all there is to know: from them the
expectation follows at all n ranks, exactly but for rounding, by Clenshaw's recurrence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import lgamma

import numpy as np
from numpy.polynomial.chebyshev import chebval

from .._validate import FloatArray, IntArray
from .distributions import law

#: Largest catalogue: a programme over its ranks then takes a few GB.
MOST_ITEMS = 20_000_000
#: Entries of a law that is small enough to be kept whole.
_SMALL = 1 << 15
#: Ranks that a recurrence carries at once: few enough to stay in the processor's cache.
_RANKS = 1 << 13


@dataclass(frozen=True, eq=False)
class AllRanks:
    """The law of the negatives above an item with 0, 1, ..., `pool` irrelevant items above it.

    Attributes
    ----------
    pool : int
        Irrelevant items that the negatives are drawn from.
    m : int
        Negatives drawn.
    replacement : bool
    """

    pool: int
    m: int
    replacement: bool
    _matrix: FloatArray | None = field(repr=False)
    _coefficients: FloatArray = field(repr=False)

    def rows(self, above: IntArray) -> FloatArray:
        """The law at each number of items in `above`; shape (above.size, m + 1)."""
        if self._matrix is not None:
            return np.asarray(self._matrix[above])
        return law(self.m, above, self.pool, self.replacement)

    def expected(self, values: FloatArray) -> FloatArray:
        """The law times `values`, at all ranks; shape (pool + 1,)."""
        if self._matrix is not None:
            return np.asarray(self._matrix @ values)
        coefficients = self._coefficients @ values
        out = np.empty(self.pool + 1)
        for part, points in self._blocks():
            out[part] = chebval(points, coefficients)
        return out

    def marginal(self, mass: FloatArray) -> FloatArray:
        """The law of the sampled rank if the true ranks have the probabilities `mass`."""
        if self._matrix is not None:
            return np.asarray(mass @ self._matrix)
        return np.asarray(self._moments(mass, self.m) @ self._coefficients)

    def products(self, mass: FloatArray) -> FloatArray:
        """Sum over the ranks of `mass` times the outer square of the law; (m + 1, m + 1)."""
        if self._matrix is not None:
            rows = self._matrix * np.sqrt(mass)[:, np.newaxis]
            return np.asarray(rows.T @ rows)
        moments = self._moments(mass, 2 * self.m)
        at = np.arange(self.m + 1)
        # The product of two Chebyshev polynomials is the mean of two others.
        sums = moments[at[:, np.newaxis] + at] + moments[np.abs(at[:, np.newaxis] - at)]
        return np.asarray(self._coefficients.T @ (0.5 * sums) @ self._coefficients)

    def _moments(self, mass: FloatArray, degree: int) -> FloatArray:
        """Sums over the ranks of `mass` times each Chebyshev polynomial up to `degree`."""
        out = np.zeros(degree + 1)
        for part, points in self._blocks():
            weights = mass[part]
            before, now = points, np.ones_like(points)
            for k in range(degree + 1):
                out[k] += weights @ now
                before, now = now, 2.0 * points * now - before
        return out

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Stretches of the ranks, and where they lie between -1 and 1."""
        for start in range(0, self.pool + 1, _RANKS):
            part = slice(start, min(start + _RANKS, self.pool + 1))
            yield part, (2.0 * np.arange(part.start, part.stop) - self.pool) / self.pool


def all_ranks(pool: int, m: int, replacement: bool) -> AllRanks:
    """The law at all ranks; small ones are kept as a matrix, large ones as polynomials.

    Raises
    ------
    ValueError
        If there are more ranks than `MOST_ITEMS`.

    Examples
    --------
    >>> law = all_ranks(4, 2, True)
    >>> law.expected(np.array([0.0, 1.0, 2.0]))
    array([0. , 0.5, 1. , 1.5, 2. ])
    """
    if pool >= MOST_ITEMS:
        raise ValueError(
            f"n_items must be at most {MOST_ITEMS:,} for an identification interval or a fitted "
            f"prior, which keep a number for each rank (leave them out), got {pool + 1:,}"
        )
    if (pool + 1) * (m + 1) <= _SMALL or pool <= 2 * m:
        matrix = law(m, np.arange(pool + 1), pool, replacement)
        return AllRanks(pool, m, replacement, matrix, np.empty((0, 0)))
    make = _few_coefficients if m < 128 else _coefficients
    # With replacement all catalogues have the same polynomials, in the rank over their size.
    return AllRanks(pool, m, replacement, None, make(1 if replacement else pool, m, replacement))


def _coefficients(pool: int, m: int, replacement: bool) -> FloatArray:
    """The law's polynomials, as coefficients of the Chebyshev polynomials; (m + 1, m + 1)."""
    angles = np.pi * (np.arange(m + 1) + 0.5) / (m + 1)
    values = _between(0.5 * pool * (1.0 + np.cos(angles)), pool, m, replacement)
    cosines = np.cos(np.arange(m + 1)[:, np.newaxis] * angles)
    cosines[0] *= 0.5
    coefficients = 2.0 / (m + 1) * cosines @ values
    coefficients.setflags(write=False)
    return np.asarray(coefficients)


#: A log can have a thousand catalogue sizes, each of which is met again and again.
_few_coefficients = lru_cache(maxsize=1024)(_coefficients)


def _between(above: FloatArray, pool: int, m: int, replacement: bool) -> FloatArray:
    """The law as polynomials, at numbers `above` that need not be whole; (above.size, m + 1)."""
    if replacement:
        return law(m, above, pool, True)
    ways = [lgamma(m + 1) - lgamma(x + 1) - lgamma(m - x + 1) for x in range(m + 1)]
    hit_sign, hit = _falling(above, pool, m)
    missed_sign, missed = (part[:, ::-1] for part in _falling(pool - above, pool, m))
    all_drawn = np.log((pool - np.arange(m)) / pool).sum()
    return np.asarray(hit_sign * missed_sign * np.exp(hit + missed + ways - all_drawn))


def _falling(x: FloatArray, pool: int, m: int) -> tuple[FloatArray, FloatArray]:
    """Signs and logarithms of ``x (x - 1) ... (x - k + 1) / pool**k`` for k = 0..m."""
    factors = np.ones((x.size, m + 1))
    factors[:, 1:] = (x[:, np.newaxis] - np.arange(m)) / pool
    with np.errstate(divide="ignore"):
        logs = np.cumsum(np.log(np.abs(factors)), axis=1)
    return np.asarray(np.cumprod(np.sign(factors), axis=1), dtype=float), logs


def spread(law: AllRanks) -> IntArray:
    """Numbers of items above that lie closer together than the law is wide, and at both ends.

    Examples
    --------
    >>> spread(all_ranks(9, 1, True))
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    angles = np.linspace(0.0, np.pi, int(4 * np.pi * np.sqrt(law.m)) + 2)
    even, doubling = 0.5 * law.pool * (1.0 - np.cos(angles)), np.geomspace(1, law.pool, 40)
    return np.unique(np.round(np.concatenate([even, doubling])).astype(np.int64))


def local_maxima(values: FloatArray, above: float, most: int = 30) -> IntArray:
    """Where `values` are as large as their neighbours and larger than `above`: the `most` largest.

    Examples
    --------
    >>> local_maxima(np.array([3.0, 1.0, 2.0, 0.0]), above=1.5)
    array([0, 2])
    """
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    largest = (values >= padded[:-2]) & (values >= padded[2:]) & (values > above)
    at = np.flatnonzero(largest)
    return np.asarray(np.sort(at[np.argsort(-values[at])[:most]]))

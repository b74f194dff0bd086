"""Products of P with vectors over all true ranks, without storing P.

The probability of each outcome is a polynomial in the true rank, of a degree of at most m. Its
values at m + 1 Chebyshev nodes determine it. Clenshaw's recurrence then evaluates it at all n
ranks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.polynomial.chebyshev import chebval

from .._validate import FloatArray, IntArray

#: Largest catalogue: computations over all of its ranks take a few GB.
MOST_ITEMS = 20_000_000
#: A P of at most so many entries is kept as a matrix.
_SMALL = 1 << 15
#: Ranks per block of a recurrence: few enough to stay in the processor's cache.
_RANKS = 1 << 13


class DesignRows(Hashable, Protocol):
    """The part of :class:`sampled_metrics.Protocol` that sums over ranks need."""

    @property
    def pool(self) -> IntArray: ...
    @property
    def n_outcomes(self) -> int: ...
    def rows(self, above: np.ndarray) -> FloatArray: ...
    def _polynomials(self, above: np.ndarray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class AllRanks:
    """P for 0, 1, ..., `pool` irrelevant items above; made by :func:`all_ranks`.

    `columns` are the outcomes kept; P is stored as a matrix or as Chebyshev coefficients.
    """

    design: DesignRows
    columns: IntArray | slice
    _matrix: FloatArray | None = field(repr=False)
    _coefficients: FloatArray = field(repr=False)

    @property
    def pool(self) -> int:
        """Irrelevant items, from which the negatives are drawn."""
        return int(self.design.pool)

    @property
    def degree(self) -> int:
        """Degree of the polynomials: negatives drawn, at most."""
        return self.design.n_outcomes - 1

    def only(self, columns: IntArray) -> AllRanks:
        """P for some outcomes."""
        matrix = None if self._matrix is None else self._matrix[:, columns]
        return replace(
            self, columns=columns, _matrix=matrix, _coefficients=self._coefficients[:, columns]
        )

    def rows(self, above: IntArray) -> FloatArray:
        """P at each number of items in `above`; shape (above.size, outcomes)."""
        if self._matrix is not None:
            return np.asarray(self._matrix[above])
        return np.asarray(self.design.rows(above)[:, self.columns])

    def expected(self, values: FloatArray) -> FloatArray:
        """P times `values` at all ranks; shape (pool + 1,)."""
        if self._matrix is not None:
            return np.asarray(self._matrix @ values)
        coefficients = self._coefficients @ values
        expectations = np.empty(self.pool + 1)
        for block, points in self._blocks():
            expectations[block] = chebval(points, coefficients)
        return expectations

    def marginal(self, mass: FloatArray) -> FloatArray:
        """Distribution of the outcome if the true ranks have the probabilities `mass`."""
        if self._matrix is not None:
            return np.asarray(mass @ self._matrix)
        return np.asarray(self._moments(mass, self.degree) @ self._coefficients)

    def products(self, mass: FloatArray) -> FloatArray:
        """Sum over the ranks of `mass` times the outer product of each row with itself."""
        if self._matrix is not None:
            rows = self._matrix * np.sqrt(mass)[:, np.newaxis]
            return np.asarray(rows.T @ rows)
        moments = self._moments(mass, 2 * self.degree)
        degrees = np.arange(self.degree + 1)
        # T_i T_j = (T_(i+j) + T_|i-j|) / 2
        sums = (
            moments[degrees[:, np.newaxis] + degrees]
            + moments[np.abs(degrees[:, np.newaxis] - degrees)]
        )
        return np.asarray(self._coefficients.T @ (0.5 * sums) @ self._coefficients)

    def _moments(self, mass: FloatArray, degree: int) -> FloatArray:
        """Sums over the ranks of `mass` times each Chebyshev polynomial up to `degree`."""
        moments = np.zeros(degree + 1)
        for block, points in self._blocks():
            weights = mass[block]
            previous, polynomial = points, np.ones_like(points)
            for k in range(degree + 1):
                moments[k] += weights @ polynomial
                previous, polynomial = polynomial, 2.0 * points * polynomial - previous
        return moments

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Slices of the ranks, and these ranks scaled to [-1, 1]."""
        for start in range(0, self.pool + 1, _RANKS):
            block = slice(start, min(start + _RANKS, self.pool + 1))
            yield block, (2.0 * np.arange(block.start, block.stop) - self.pool) / self.pool


def all_ranks(design: DesignRows) -> AllRanks:
    """P at all ranks: a small one as a matrix, a large one as polynomials."""
    pool, outcomes = int(design.pool), design.n_outcomes
    if pool >= MOST_ITEMS:
        raise ValueError(
            f"n_items must be at most {MOST_ITEMS:,} for an identification interval or a fitted "
            f"prior, which keep a number for each rank (leave them out), got {pool + 1:,}"
        )
    if (pool + 1) * outcomes <= _SMALL or pool <= 2 * (outcomes - 1):
        matrix = design.rows(np.arange(pool + 1))
        return AllRanks(design, slice(None), matrix, np.empty((0, outcomes)))
    make = _few_coefficients if outcomes <= 128 else _coefficients
    return AllRanks(design, slice(None), None, make(design))


def _coefficients(design: DesignRows) -> FloatArray:
    """Chebyshev coefficients of the columns of P; shape (outcomes, outcomes)."""
    count = design.n_outcomes
    angles = np.pi * (np.arange(count) + 0.5) / count
    values = design._polynomials(0.5 * int(design.pool) * (1.0 + np.cos(angles)))
    cosines = np.cos(np.arange(count)[:, np.newaxis] * angles)
    cosines[0] *= 0.5
    coefficients = 2.0 / count * cosines @ values
    coefficients.setflags(write=False)
    return np.asarray(coefficients)


#: Cached, since a log can have a thousand catalogue sizes that recur.
_few_coefficients = lru_cache(maxsize=1024)(_coefficients)


def local_maxima(values: FloatArray, above: float, limit: int = 30) -> IntArray:
    """Indices of the `limit` largest local maxima above a bound.

    >>> local_maxima(np.array([3.0, 1.0, 2.0, 0.0]), above=1.5)
    array([0, 2])
    """
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    is_peak = (values >= padded[:-2]) & (values >= padded[2:]) & (values > above)
    peaks = np.flatnonzero(is_peak)
    return np.asarray(np.sort(peaks[np.argsort(-values[peaks])[:limit]]))

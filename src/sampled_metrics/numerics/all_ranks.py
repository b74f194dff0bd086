"""P times a vector at every true rank at once, without the matrix of all of them.

The expectation of anything that an evaluation records is a polynomial in the true rank, of a degree
of at most m. Its values at m + 1 Chebyshev nodes determine it: from them the expectation follows at
all n ranks, exactly but for rounding, by Clenshaw's recurrence.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.polynomial.chebyshev import chebval

from .._validate import FloatArray, IntArray

#: Largest catalogue: a programme over its ranks then takes a few GB.
MOST_ITEMS = 20_000_000
#: Entries of a P that is small enough to be kept whole.
_SMALL = 1 << 15
#: Ranks that a recurrence carries at once: few enough to stay in the processor's cache.
_RANKS = 1 << 13


class Rows(Hashable, Protocol):
    """The part of :class:`sampled_metrics.protocol.Design` that sums over the ranks need."""

    @property
    def pool(self) -> IntArray: ...
    @property
    def n_outcomes(self) -> int: ...
    def rows(self, above: np.ndarray) -> FloatArray: ...
    def polynomials(self, above: np.ndarray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class AllRanks:
    """P for 0, 1, ..., `pool` irrelevant items above; make it with :func:`all_ranks`.

    Attributes
    ----------
    design : Rows
    columns : ndarray of int or slice
        The outcomes that are kept.
    """

    design: Rows
    columns: IntArray | slice
    _matrix: FloatArray | None = field(repr=False)
    _coefficients: FloatArray = field(repr=False)

    @property
    def pool(self) -> int:
        """Irrelevant items that the negatives are drawn from."""
        return int(self.design.pool)

    @property
    def degree(self) -> int:
        """Degree of the polynomials: negatives drawn, at most."""
        return self.design.n_outcomes - 1

    def only(self, columns: IntArray) -> AllRanks:
        """The same for some of the outcomes."""
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
        """P times `values`, at all ranks; shape (pool + 1,)."""
        if self._matrix is not None:
            return np.asarray(self._matrix @ values)
        coefficients = self._coefficients @ values
        out = np.empty(self.pool + 1)
        for part, points in self._blocks():
            out[part] = chebval(points, coefficients)
        return out

    def marginal(self, mass: FloatArray) -> FloatArray:
        """The distribution of the outcome if the true ranks have the probabilities `mass`."""
        if self._matrix is not None:
            return np.asarray(mass @ self._matrix)
        return np.asarray(self._moments(mass, self.degree) @ self._coefficients)

    def products(self, mass: FloatArray) -> FloatArray:
        """Sum over the ranks of `mass` times the outer square of P; (outcomes, outcomes)."""
        if self._matrix is not None:
            rows = self._matrix * np.sqrt(mass)[:, np.newaxis]
            return np.asarray(rows.T @ rows)
        moments = self._moments(mass, 2 * self.degree)
        at = np.arange(self.degree + 1)
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


def all_ranks(design: Rows) -> AllRanks:
    """P at all ranks; a small one is kept as a matrix, a large one as polynomials.

    Raises
    ------
    ValueError
        If there are more ranks than `MOST_ITEMS`.

    Examples
    --------
    >>> from sampled_metrics.protocol import Protocol
    >>> all_ranks(Protocol(5, 2)).expected(np.array([0.0, 1.0, 2.0]))
    array([0. , 0.5, 1. , 1.5, 2. ])
    """
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


def _coefficients(design: Rows) -> FloatArray:
    """The columns of P as coefficients of the Chebyshev polynomials; (outcomes, outcomes)."""
    count = design.n_outcomes
    angles = np.pi * (np.arange(count) + 0.5) / count
    values = design.polynomials(0.5 * int(design.pool) * (1.0 + np.cos(angles)))
    cosines = np.cos(np.arange(count)[:, np.newaxis] * angles)
    cosines[0] *= 0.5
    coefficients = 2.0 / count * cosines @ values
    coefficients.setflags(write=False)
    return np.asarray(coefficients)


#: A log can have a thousand catalogue sizes, each of which is met again and again.
_few_coefficients = lru_cache(maxsize=1024)(_coefficients)


def spread(law: AllRanks) -> IntArray:
    """Numbers of items above that lie closer together than a row of P is wide, and at both ends.

    Examples
    --------
    >>> from sampled_metrics.protocol import Protocol
    >>> spread(all_ranks(Protocol(10, 1)))
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    angles = np.linspace(0.0, np.pi, int(4 * np.pi * np.sqrt(law.degree)) + 2)
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

"""Comparisons of inner products that do not depend on the order in which they were summed.

A matrix product sums in an order that its library, the processor and the shape of the matrices
choose, so two items whose scores differ by less than the rounding may change places between
machines. Every order is within a known distance of the exact sum. Scores that are further from the
held-out item's are compared as they are, and the few others are summed again, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import namespace, on_host
from .._validate import FloatArray

_ROWS = (
    4096  # checked for whole numbers at a time: most factors show in the first that they have none
)


@dataclass(frozen=True)
class Bounds:
    """How far the products of two matrices can be from exact, by the norms of their rows.

    Parameters
    ----------
    users, items : ndarray of float32 or of float64, shapes (n_users, d) and (n_items, d)

    Attributes
    ----------
    of_users, of_items : ndarray of float, shapes (n_users,) and (n_items,)
        Not less than the Euclidean norms; infinite or NaN where these are, or nearly.
    safe : bool
        Whether no sum can overflow, in any order.
    whole : bool
        Whether every sum is exact in any order, because all factors are small whole numbers.

    Examples
    --------
    >>> bounds = Bounds.of(np.array([[0.5, 1.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    >>> bounds.safe, bounds.whole, bounds.of_items
    (True, False, array([5., 1.]))
    """

    of_users: FloatArray
    of_items: FloatArray
    safe: bool
    whole: bool

    @classmethod
    def of(cls, users: NDArray[Any], items: Any) -> Bounds:
        """Look at two matrices of one type and width; `items` may be of another array library."""
        found = [norms(matrix) for matrix in (users, items)]
        largest = [float(each.max(initial=0.0)) for each in found]
        kind = np.finfo(users.dtype)
        top = largest[0] * largest[1]
        safe = bool(top < kind.max / 4)  # False for NaN
        whole = isinstance(items, np.ndarray) and top < 2.0**kind.nmant
        whole = whole and _whole(users) and _whole(items)
        return cls(found[0], found[1], safe, whole)


def norms(matrix: Any) -> FloatArray:
    """Euclidean norms of rows, or a little more where squares are too small to add up.

    Examples
    --------
    >>> norms(np.array([[3.0, 4.0], [0.0, 0.0]])).round(3)
    array([5., 0.])
    """
    xp = namespace(matrix)
    with np.errstate(all="ignore"):
        if xp is None:
            squares = np.einsum("ij,ij->i", matrix, matrix)
        else:
            squares = on_host(xp.sum(matrix * matrix, axis=1))
        least = matrix.shape[1] * float(np.finfo(squares.dtype).tiny)
        found: FloatArray = np.sqrt(squares.astype(np.float64) + least)
    return found


def radius(dtype: Any, width: int, users: FloatArray, items: Any) -> FloatArray:
    """Bound of abs(computed - exact) for products of `width` terms, summed in any order.

    Parameters
    ----------
    dtype : dtype
        float32 or float64, of the factors and of the sum.
    width : int
        Number of terms, below a hundredth of the inverse of the unit roundoff.
    users, items : float or ndarray of float
        Euclidean norms, which broadcast.

    Returns
    -------
    ndarray of float
        By the classical bound of Higham, Accuracy and Stability of Numerical Algorithms, chapter 3,
        with Cauchy and Schwarz's for the sum of absolute values; and once more for the other side
        of a comparison, summed in float64.

    Examples
    --------
    >>> float(radius(np.float32, 64, np.float64(1.0), 1.0).round(8))
    3.91e-06
    """
    kind = np.finfo(dtype)
    unit = (float(kind.eps) + float(np.finfo(np.float64).eps)) / 2
    return np.asarray(1.01 * (width + 1) * unit * users * items + 2 * width * float(kind.tiny))


def exact_band(
    users: NDArray[Any], own: NDArray[Any], margin: FloatArray
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lowest and the highest computed score that may be as good as each held-out item's.

    In the type of the factors, rounded outwards; both are the score itself where `margin` is 0.
    `users` and `own` are the factors of each instance's user and held-out item, and `margin` is
    their :func:`radius`.

    Examples
    --------
    >>> low, high = exact_band(np.ones((1, 1)), np.ones((1, 1)), np.array([0.5]))
    >>> bool(low[0] < 0.5 < 1.5 < high[0])
    True
    """
    centre = np.einsum("ij,ij->i", users.astype(np.float64), own.astype(np.float64))
    kind, wide = users.dtype, margin > 0
    low, high = ((centre + sign * margin).astype(kind) for sign in (-1, 1))
    return (
        np.nextafter(low, kind.type(-np.inf), out=low, where=wide),
        np.nextafter(high, kind.type(np.inf), out=high, where=wide),
    )


def doubt(width: int) -> tuple[float, float]:
    """How far a product with a difference of two rows of factors can be from exact, in float64.

    Returns
    -------
    relative, absolute : float
        The first for each unit of the product of both norms.

    Examples
    --------
    >>> doubt(64)[0] < 1e-13
    True
    """
    # The difference is one more rounding of each term. Twice, since norms are rounded as well.
    ends = 2 * radius(np.float64, width + 1, np.array([1.0, 0.0]), 1.0)
    return float(ends[0]), float(ends[1])


def signs(users: NDArray[Any], items: NDArray[Any], others: NDArray[Any]) -> NDArray[np.int8]:
    """Whether each user's exact product with the item is above that with the other item.

    Parameters
    ----------
    users, items, others : ndarray of float, shape (n_pairs, d)
        Such that no product overflows.

    Returns
    -------
    ndarray of int8, shape (n_pairs,)
        1 for above, 0 for equal, -1 for below.

    Examples
    --------
    Summed from left to right, both products below are 0:

    >>> users = np.ones((2, 3))
    >>> items = np.array([[1e17, 1.0, -1e17], [1e17, 0.0, -1e17]])
    >>> signs(users, items, np.zeros((2, 3)))
    array([1, 0], dtype=int8)
    """
    width = users.shape[1]
    left, differences = users.astype(np.float64), items.astype(np.float64) - others
    found = np.einsum("ij,ij->i", left, differences)
    relative, absolute = doubt(width)
    margin = relative * norms(left) * norms(differences) + absolute
    same = ~((left != 0) & (differences != 0)).any(axis=1)  # no term is left
    result: NDArray[np.int8] = np.where(same, 0, np.sign(found)).astype(np.int8)
    for pair in np.flatnonzero(~same & ~(np.abs(found) > margin)):
        rows = (each[pair].tolist() for each in (users, items, others))
        exact = sum(
            Fraction(u) * (Fraction(i) - Fraction(o)) for u, i, o in zip(*rows, strict=True)
        )
        result[pair] = (exact > 0) - (exact < 0)
    return result


def _whole(matrix: NDArray[Any]) -> bool:
    parts = (matrix[a : a + _ROWS] for a in range(0, len(matrix), _ROWS))
    return all(np.array_equal(np.rint(part), part) for part in parts)

"""Comparisons of inner products that do not depend on the order of summation.

The library, the processor and the shape of the matrices choose the order of a sum. Items whose
scores differ by less than the rounding error may therefore swap places between machines. Every
computed score lies within a known distance of the exact one: scores further apart are compared
directly, and the few others are recomputed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import FloatArray
from .arrays import namespace, on_host

#: Rows checked for whole numbers at once: the first block usually decides.
_ROWS = 4096


@dataclass(frozen=True)
class Bounds:
    """Bounds of the rounding errors of products of two matrices.

    `of_users` and `of_items` bound the Euclidean norms of the rows from above (infinite or NaN near
    overflow). `safe`: no sum can overflow in any order. `exact`: every sum is exact, because all
    factors are small whole numbers.
    """

    of_users: FloatArray
    of_items: FloatArray
    safe: bool
    exact: bool

    @classmethod
    def of_matrices(cls, users: NDArray[Any], items: Any) -> Bounds:
        """The bounds of two matrices of one dtype; `items` may be of another array library."""
        all_norms = [norms(matrix) for matrix in (users, items)]
        largest = [float(matrix_norms.max(initial=0.0)) for matrix_norms in all_norms]
        limits = np.finfo(users.dtype)
        largest_product = largest[0] * largest[1]
        safe = bool(largest_product < limits.max / 4)  # False for NaN
        is_whole = isinstance(items, np.ndarray) and largest_product < 2.0**limits.nmant
        is_whole = is_whole and _whole(users) and _whole(items)
        return cls(all_norms[0], all_norms[1], safe, is_whole)


def norms(matrix: Any) -> FloatArray:
    """Euclidean norms of rows, increased slightly where the squares underflow."""
    xp = namespace(matrix)
    with np.errstate(all="ignore"):
        if xp is None:
            squares = np.einsum("ij,ij->i", matrix, matrix)
        else:
            squares = on_host(xp.sum(matrix * matrix, axis=1))
        least = matrix.shape[1] * float(np.finfo(squares.dtype).tiny)
        row_norms: FloatArray = np.sqrt(squares.astype(np.float64) + least)
    return row_norms


def radius(dtype: Any, width: int, users: FloatArray, items: Any) -> FloatArray:
    """Bound of abs(computed - exact) for products of `width` terms, summed in any order.

    The classical bound of Higham, Accuracy and Stability of Numerical Algorithms, chapter 3, with
    Cauchy-Schwarz for the sum of absolute values; plus the float64 error of the other side of a
    comparison. `users` and `items` are norms; `width` is below 1% of the inverse unit roundoff.
    """
    kind = np.finfo(dtype)
    unit = (float(kind.eps) + float(np.finfo(np.float64).eps)) / 2
    return np.asarray(1.01 * (width + 1) * unit * users * items + 2 * width * float(kind.tiny))


def exact_band(
    users: NDArray[Any], own_factors: NDArray[Any], margin: FloatArray
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lowest and highest computed scores that may equal each held-out item's exact score.

    In the dtype of the factors, rounded outwards; both are the score itself where `margin`, the
    :func:`radius`, is 0. `own_factors` are the factors of the held-out items.
    """
    centre = np.einsum("ij,ij->i", users.astype(np.float64), own_factors.astype(np.float64))
    dtype, is_wide = users.dtype, margin > 0
    low, high = ((centre + sign * margin).astype(dtype) for sign in (-1, 1))
    return (
        np.nextafter(low, dtype.type(-np.inf), out=low, where=is_wide),
        np.nextafter(high, dtype.type(np.inf), out=high, where=is_wide),
    )


def doubt(width: int) -> tuple[float, float]:
    """Relative and absolute float64 error bounds of a product with a difference of two rows.

    The relative bound is per unit of the product of the norms.
    """
    # The difference rounds each term once more; a factor of 2 covers the rounding of the norms.
    ends = 2 * radius(np.float64, width + 1, np.array([1.0, 0.0]), 1.0)
    return float(ends[0]), float(ends[1])


def signs(users: NDArray[Any], items: NDArray[Any], held_out: NDArray[Any]) -> NDArray[np.int8]:
    """Exact sign, as int8, of each user's product with `items` less the product with `held_out`."""
    width = users.shape[1]
    user_factors, differences = users.astype(np.float64), items.astype(np.float64) - held_out
    products = np.einsum("ij,ij->i", user_factors, differences)
    relative, absolute = doubt(width)
    margin = relative * norms(user_factors) * norms(differences) + absolute
    is_equal = ~((user_factors != 0) & (differences != 0)).any(axis=1)  # no term is left
    exact_signs: NDArray[np.int8] = np.where(is_equal, 0, np.sign(products)).astype(np.int8)
    for pair in np.flatnonzero(~is_equal & ~(np.abs(products) > margin)):
        rows = (matrix[pair].tolist() for matrix in (users, items, held_out))
        exact_product = sum(
            Fraction(u) * (Fraction(i) - Fraction(o)) for u, i, o in zip(*rows, strict=True)
        )
        exact_signs[pair] = (exact_product > 0) - (exact_product < 0)
    return exact_signs


def _whole(matrix: NDArray[Any]) -> bool:
    parts = (matrix[a : a + _ROWS] for a in range(0, len(matrix), _ROWS))
    return all(np.array_equal(np.rint(part), part) for part in parts)

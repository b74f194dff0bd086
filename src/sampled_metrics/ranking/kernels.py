"""Scores counted in one pass over them, compiled by Numba where it is installed.

NumPy compares scores with a bound and adds up the hits in passes of their own, and a rank with its
ties needs both twice. The compiled pass does all four while it reads a score once, and a second
function compares the few pairs that the rounding leaves open without copying their factors. What is
compiled is kept on disk, where Numba keeps it: beside this file, or in the user's own cache if that
is not writable. The import of Numba takes half a second and the first compilation two or three, so
a process that counts few scores does without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import IntArray

#: What counts a tile: see :func:`counting`.
Pass = Callable[..., tuple[IntArray, IntArray]]

#: What says of pairs which item is ahead: see :func:`deciding`.
Decision = Callable[..., NDArray[np.int8]]

#: Scores that a process counts before it imports Numba: NumPy loses about as long with so many.
WORTH = 2**30

#: Scores that are looked at one by one if any of them is within the bounds.
STRETCH = 64

#: What :func:`deciding` says of a pair whose order its own rounding may hide.
OPEN = 2
TINY = float(np.finfo(np.float64).tiny)

_counted = 0
_lock = Lock()


@dataclass(frozen=True)
class Compiled:
    """What is compiled for one type of factors: :func:`counting` and :func:`deciding`."""

    count: Pass
    decide: Decision


def compiled(dtype: np.dtype[Any], scores: int) -> Compiled | None:
    """What counts so many more scores of float32 or float64.

    None as long as the process has counted few, and without Numba.

    Examples
    --------
    >>> compiled(np.dtype(np.float32), 0) is None
    True
    """
    global _counted
    with _lock:
        _counted += scores
        return _compiled(dtype) if _counted >= WORTH else None


@cache
def _compiled(dtype: np.dtype[Any]) -> Compiled | None:
    try:
        import numba
    except ImportError:
        return None
    types: Any = numba.types
    kind = types.float32 if dtype == np.float32 else types.float64
    matrix = types.Array(kind, 2, "C", readonly=True)  # which takes one that is not, too
    whole, real = types.int64, types.float64
    count = matrix, matrix, types.boolean[::1], whole[::1], whole[::1], whole[:, ::1]
    decide = matrix, matrix, matrix, whole[::1], whole[::1], real, real
    return Compiled(
        _kept(numba.njit, counting(dtype), count),
        # Sums may be taken in any order, which the margin allows for.
        _kept(numba.njit, deciding, decide, fastmath={"reassoc", "contract"}),
    )


def _kept(njit: Any, function: Callable[..., Any], given: tuple[Any, ...], **options: Any) -> Any:
    """A function compiled for these types and kept on disk, if there is a place to keep it."""
    try:
        return njit(given, nogil=True, cache=True, **options)(function)
    except (RuntimeError, OSError):  # no folder that is writable, or no space
        return njit(given, nogil=True, **options)(function)


def deciding(
    users: NDArray[Any],
    items: NDArray[Any],
    own: NDArray[Any],
    instance: IntArray,
    item: IntArray,
    relative: float,
    absolute: float,
) -> NDArray[np.int8]:
    """Which of two items is ahead, for each pair, in Python, which is what Numba compiles.

    The first is a row of `items`, the other the row of `own` of the same instance as that of
    `users`. 1 says that the first item is ahead, -1 that it is behind, and `OPEN` that the
    difference, in double precision, is not above the margin: `relative` times the norms of both
    sides, and `absolute`.
    """
    found = np.empty(instance.size, np.int8)
    least = users.shape[1] * TINY
    for pair in range(instance.size):
        at, row = instance[pair], item[pair]
        total, left, right = 0.0, 0.0, 0.0
        for k in range(users.shape[1]):
            factor = np.float64(users[at, k])
            difference = np.float64(items[row, k]) - np.float64(own[at, k])
            total += factor * difference
            left += factor * factor
            right += difference * difference
        # Squares that are too small to add up count as much as they can be.
        margin = relative * np.sqrt(left + least) * np.sqrt(right + least) + absolute
        # An infinite or missing margin leaves the pair open.
        found[pair] = 1 if total > margin else -1 if total < -margin else OPEN
    return found


def counting(dtype: np.dtype[Any]) -> Pass:
    """The pass over scores of float32 or float64 in Python, which is what Numba compiles.

    It gets a tile of scores in C order, the lower and the upper bound of each row, which rows are
    unclear, rows and columns that are not counted (none twice), and `counts`. To these it adds how
    many scores of each row are above its upper bound, and how many are not below the lower one.
    It returns rows and columns of the scores within the bounds, in rows that are unclear.
    """
    # Counters as wide as the scores: a vector then holds as many of the one as of the other.
    number = np.int32 if dtype == np.float32 else np.int64

    def count(
        scores: NDArray[Any],
        bounds: NDArray[Any],
        unclear: NDArray[np.bool_],
        out_row: IntArray,
        out_column: IntArray,
        counts: IntArray,
    ) -> tuple[IntArray, IntArray]:
        n_rows, n_columns = scores.shape
        found = np.empty((2, n_rows), np.int64)
        for row in range(n_rows):
            low, high = bounds[0, row], bounds[1, row]
            above, level = number(0), number(0)
            for column in range(n_columns):
                score = scores[row, column]
                above = number(above + number(score > high))
                level = number(level + number(score >= low))
            found[0, row], found[1, row] = above, level
        # What is not counted, as a list for each row that is linked backwards.
        last, before = np.full(n_rows, -1), np.empty(out_row.size, np.int64)
        for at in range(out_row.size):
            row = out_row[at]
            score = scores[row, out_column[at]]
            found[0, row] -= np.int64(score > bounds[1, row])
            found[1, row] -= np.int64(score >= bounds[0, row])
            before[at], last[row] = last[row], at
        size = 0
        for row in range(n_rows):
            counts[0, row] += found[0, row]
            counts[1, row] += found[1, row]
            if unclear[row]:
                size += found[1, row] - found[0, row]
        rows, columns = np.empty(size, np.int64), np.empty(size, np.int64)
        masked = np.zeros(n_columns, np.bool_)
        size = 0
        for row in range(n_rows):
            if unclear[row] and found[0, row] < found[1, row]:
                at = last[row]
                while at >= 0:
                    masked[out_column[at]] = True
                    at = before[at]
                low, high = bounds[0, row], bounds[1, row]
                for start in range(0, n_columns, STRETCH):
                    stop = min(start + STRETCH, n_columns)
                    inside = number(0)
                    for column in range(start, stop):
                        score = scores[row, column]
                        inside = number(inside + number((score >= low) & (score <= high)))
                    if inside:
                        for column in range(start, stop):
                            score = scores[row, column]
                            if score >= low and score <= high and not masked[column]:
                                rows[size], columns[size] = row, column
                                size += 1
                at = last[row]
                while at >= 0:
                    masked[out_column[at]] = False
                    at = before[at]
        return rows, columns

    return count

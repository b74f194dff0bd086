"""Scores counted in one pass over them, compiled by Numba where it is installed.

NumPy compares scores with a bound and adds up the hits in passes of their own, and a rank with its
ties needs both twice. The compiled pass does all four while it reads a score once. The import of
Numba and the compilation take a second or two, so a process that counts few scores does without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validate import IntArray

#: What counts a tile: see :func:`counting`.
Pass = Callable[..., tuple[IntArray, IntArray]]

#: Scores that a process counts before it compiles: NumPy loses a second or two with so many.
WORTH = 2**31

#: Scores that are looked at one by one if any of them is within the bounds.
STRETCH = 64

_counted = 0
_lock = Lock()


def counter(dtype: np.dtype[Any], scores: int) -> Pass | None:
    """The pass for so many more scores of float32 or float64.

    None as long as the process has counted few, and without Numba.

    Examples
    --------
    >>> counter(np.dtype(np.float32), 0) is None
    True
    """
    global _counted
    with _lock:
        _counted += scores
        return _compiled(dtype) if _counted >= WORTH else None


@cache
def _compiled(dtype: np.dtype[Any]) -> Pass | None:
    try:
        import numba
    except ImportError:
        return None
    types: Any = numba.types
    kind = types.float32 if dtype == np.float32 else types.float64
    tile = types.Array(kind, 2, "C", readonly=True)  # which takes one that is not, too
    whole = types.int64
    given = (tile, tile, types.boolean[::1], whole[::1], whole[::1], whole[:, ::1])
    found: Pass = numba.njit(given, nogil=True)(counting(dtype))
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

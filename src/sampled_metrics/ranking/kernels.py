"""Counting in one pass over the scores, compiled by Numba if it is installed.

NumPy needs four passes for a rank with its ties: two comparisons and two sums. The compiled pass
reads each score once; a second function compares pairs that rounding leaves undecided without
copying their factors. Numba caches the machine code beside this file, or in the user's cache if
that is not writable. Importing Numba takes half a second and the first compilation two or three, so
processes that count few scores do not use it.
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

#: Counts a tile, see :func:`counting`.
Pass = Callable[..., tuple[IntArray, IntArray]]

#: Orders pairs of items, see :func:`deciding`.
Decision = Callable[..., NDArray[np.int8]]

#: Scores counted before Numba is imported: by then NumPy has lost as much time as the import takes.
WORTH = 2**30

#: Scores tested together for one within the bounds, before they are tested one by one.
STRETCH = 64

#: Result of :func:`deciding` for a pair within the margin of its own rounding.
OPEN = 2
TINY = float(np.finfo(np.float64).tiny)

_counted = 0
_lock = Lock()


@dataclass(frozen=True)
class Compiled:
    """Compiled :func:`counting` and :func:`deciding` for one dtype of factors."""

    count: Pass
    decide: Decision


def compiled(dtype: np.dtype[Any], scores: int) -> Compiled | None:
    """Compiled functions for float32 or float64, to count so many more scores.

    None until the process has counted `WORTH` scores, and without Numba.
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
    factor_type = types.float32 if dtype == np.float32 else types.float64
    matrix = types.Array(factor_type, 2, "C", readonly=True)  # also accepts writable arrays
    int_type, float_type = types.int64, types.float64
    entry_types = int_type[::1], int_type[::1]
    add_types = matrix, matrix, *entry_types
    collect_types = matrix, matrix, int_type[::1], *entry_types
    decide_types = matrix, matrix, matrix, int_type[::1], int_type[::1], float_type, float_type
    return Compiled(
        counting(
            _kept(numba.njit, adding(dtype), add_types),
            _kept(numba.njit, collecting(dtype), collect_types),
        ),
        # The margin allows for sums in any order.
        _kept(numba.njit, deciding, decide_types, fastmath={"reassoc", "contract"}),
    )


def _kept(
    njit: Any, function: Callable[..., Any], argument_types: tuple[Any, ...], **options: Any
) -> Any:
    """Compile for these types; cache on disk if possible."""
    try:
        return njit(argument_types, nogil=True, cache=True, **options)(function)
    except (RuntimeError, OSError):  # no writable folder, or no space
        return njit(argument_types, nogil=True, **options)(function)


def deciding(
    users: NDArray[Any],
    items: NDArray[Any],
    own_factors: NDArray[Any],
    instance: IntArray,
    item: IntArray,
    relative: float,
    absolute: float,
) -> NDArray[np.int8]:
    """Which item of each pair scores higher for a user; plain Python that Numba compiles.

    Pair i compares row item[i] of `items` with row instance[i] of `own_factors`, for row
    instance[i] of `users`: 1 if the first scores higher, -1 if lower, and `OPEN` if the difference
    in double precision is within the margin, `relative` times both norms plus `absolute`.
    """
    order = np.empty(instance.size, np.int8)
    least = users.shape[1] * TINY
    for pair in range(instance.size):
        instance_row, item_row = instance[pair], item[pair]
        total, user_squares, difference_squares = 0.0, 0.0, 0.0
        for k in range(users.shape[1]):
            factor = np.float64(users[instance_row, k])
            difference = np.float64(items[item_row, k]) - np.float64(own_factors[instance_row, k])
            total += factor * difference
            user_squares += factor * factor
            difference_squares += difference * difference
        # `least` bounds the squares lost to underflow.
        margin = (
            relative * np.sqrt(user_squares + least) * np.sqrt(difference_squares + least)
            + absolute
        )
        # An infinite or NaN margin leaves the pair open.
        order[pair] = 1 if total > margin else -1 if total < -margin else OPEN
    return order


def counting(add: Callable[..., IntArray], collect: Callable[..., Any]) -> Pass:
    """The counting pass from :func:`adding` and :func:`collecting`, compiled or not.

    It takes a C-ordered tile of scores, the lower and upper bound of each row, which rows are
    unclear, and entries that do not count (each once). It adds to `counts` the scores of each row
    above the upper bound and those not below the lower one, and returns the entries within the
    bounds of unclear rows.
    """

    def count(
        scores: NDArray[Any],
        bounds: NDArray[Any],
        unclear: NDArray[np.bool_],
        out_row: IntArray,
        out_column: IntArray,
        counts: IntArray,
    ) -> tuple[IntArray, IntArray]:
        row_counts = add(scores, bounds, out_row, out_column)
        counts += row_counts
        n_within = np.where(unclear, row_counts[1] - row_counts[0], 0)
        rows, columns = collect(scores, bounds, n_within, out_row, out_column)
        return rows, columns

    return count


def adding(dtype: np.dtype[Any]) -> Callable[..., IntArray]:
    """Scores of each row above the upper bound, and not below the lower; Numba compiles it."""
    # Counters as wide as scores, so that vector registers hold equally many of both.
    counter = np.int32 if dtype == np.float32 else np.int64

    def add(
        scores: NDArray[Any], bounds: NDArray[Any], out_row: IntArray, out_column: IntArray
    ) -> IntArray:
        n_rows, n_columns = scores.shape
        row_counts = np.empty((2, n_rows), np.int64)
        for row in range(n_rows):
            low, high = bounds[0, row], bounds[1, row]
            n_above, n_not_below = counter(0), counter(0)
            for column in range(n_columns):
                score = scores[row, column]
                n_above = counter(n_above + counter(score > high))
                n_not_below = counter(n_not_below + counter(score >= low))
            row_counts[0, row], row_counts[1, row] = n_above, n_not_below
        for entry_index in range(out_row.size):
            row = out_row[entry_index]
            score = scores[row, out_column[entry_index]]
            row_counts[0, row] -= np.int64(score > bounds[1, row])
            row_counts[1, row] -= np.int64(score >= bounds[0, row])
        return row_counts

    return add


def collecting(dtype: np.dtype[Any]) -> Callable[..., tuple[IntArray, IntArray]]:
    """The entries within the bounds, of rows that have `n_within` of them; Numba compiles it."""
    counter = np.int32 if dtype == np.float32 else np.int64

    def collect(
        scores: NDArray[Any],
        bounds: NDArray[Any],
        n_within: IntArray,
        out_row: IntArray,
        out_column: IntArray,
    ) -> tuple[IntArray, IntArray]:
        n_rows, n_columns = scores.shape
        # Excluded entries as a linked list for each row, last entry first.
        last_entry, entry_before = np.full(n_rows, -1), np.empty(out_row.size, np.int64)
        for entry_index in range(out_row.size):
            row = out_row[entry_index]
            entry_before[entry_index], last_entry[row] = last_entry[row], entry_index
        n_entries = n_within.sum()
        rows, columns = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
        masked = np.zeros(n_columns, np.bool_)
        size = 0
        for row in np.flatnonzero(n_within):
            entry_index = last_entry[row]
            while entry_index >= 0:
                masked[out_column[entry_index]] = True
                entry_index = entry_before[entry_index]
            low, high = bounds[0, row], bounds[1, row]
            for start in range(0, n_columns, STRETCH):
                stop = min(start + STRETCH, n_columns)
                inside = counter(0)
                for column in range(start, stop):
                    score = scores[row, column]
                    inside = counter(inside + counter((score >= low) & (score <= high)))
                if inside:
                    for column in range(start, stop):
                        score = scores[row, column]
                        if score >= low and score <= high and not masked[column]:
                            rows[size], columns[size] = row, column
                            size += 1
            entry_index = last_entry[row]
            while entry_index >= 0:
                masked[out_column[entry_index]] = False
                entry_index = entry_before[entry_index]
        return rows, columns

    return collect

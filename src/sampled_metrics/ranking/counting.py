"""Count the scores above and equal to those of held-out items, a tile at a time.

A tile is some instances times some items. Scores stay in their array library and on their device.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import IntArray, as_intp, real_scores
from ..numerics.arrays import like, namespace, on_host

#: Maps a slice of the items to their scores for a block of instances.
Tile = Callable[[slice], Any]
#: Rows and columns of entries of a matrix of scores.
Entries = tuple[IntArray, IntArray]

#: The lowest and the highest score that ties with each instance's own.
Limits = tuple[NDArray[Any], NDArray[Any]]

#: Instances and items of a tile: small enough that scores are still in the cache when they are
#: compared, large enough for an efficient product.
TILE = 256, 2040
#: Scores held on another device at a time.
_DEVICE_ENTRIES = 2**25


def tie_limits(own_scores: NDArray[Any], tolerance: float) -> Limits:
    """Scores within a relative tolerance of the held-out items', rounded inwards.

    Both ends have the dtype of the scores, since mixed comparisons are slow.
    """
    if not tolerance:
        return own_scores, own_scores
    if own_scores.dtype.kind != "f":  # Python's integers do not overflow
        numerator, denominator = tolerance.as_integer_ratio()
        exact, limits = own_scores.astype(object), np.iinfo(own_scores.dtype)
        margin = abs(exact) * numerator // denominator
        ends = np.maximum(exact - margin, limits.min), np.minimum(exact + margin, limits.max)
        return ends[0].astype(own_scores.dtype), ends[1].astype(own_scores.dtype)
    centre = own_scores.astype(np.result_type(own_scores, np.float64))
    with np.errstate(all="ignore"):
        margin = tolerance * np.where(np.isfinite(centre), np.abs(centre), 0)
        low, high = (
            (centre - margin).astype(own_scores.dtype),
            (centre + margin).astype(own_scores.dtype),
        )
        low = np.where(centre - low > margin, np.nextafter(low, own_scores), low)
        high = np.where(high - centre > margin, np.nextafter(high, own_scores), high)
    return low, high


def checked_scores(values: Any, rows: Any) -> Any:
    """A matrix of scores in any array library, checked like :func:`real_scores`."""
    xp = namespace(values)
    if xp is None:
        return real_scores(values, rows)
    if not xp.isdtype(values.dtype, ("real floating", "integral")):
        raise ValueError(f"scores must be real numbers, got dtype {values.dtype}")
    if xp.isdtype(values.dtype, "real floating"):
        bad = xp.any(xp.isnan(values), axis=1)
        if bool(xp.any(bad)):
            row = rows[int(np.argmax(on_host(bad)))]
            raise ValueError(f"scores must not be NaN, got one in row {row}")
    return values


def count_blocks(
    tiles: Callable[[slice], tuple[Limits, Tile]],
    own_columns: IntArray,
    owners: IntArray,
    seen: sp.csr_array,
    size: tuple[int, int],
    *,
    example: Any,
    stop_at: int | None = None,
) -> IntArray:
    """Candidates above each held-out item, and those that tie with it, shape (2, k).

    `tiles` maps a slice of instances to their limits and tiles of scores. `own_columns` (k,) are
    those of the held-out items, -1 if outside; `owners` (k,) the rows of `seen`, the items that
    are not candidates, (n_users, n_items). `size` is instances and items per tile, and `example` an
    array of the scores' library. An item with `stop_at` items above may not be counted further.
    """
    counts = [np.zeros((2, 0), dtype=np.int64)]
    for start in range(0, own_columns.size, size[0]):
        block = slice(start, min(start + size[0], own_columns.size))
        n_rows = block.stop - block.start
        width = size[1] if namespace(example) is None else max(1, _DEVICE_ENTRIES // n_rows)
        limits, tile = tiles(block)
        excluded = _excluded(own_columns[block], owners[block], seen)
        counts.append(_count(tile, limits, excluded, seen.shape[1], width, stop_at))
    return np.concatenate(counts, axis=1)


def _excluded(own_columns: IntArray, owners: IntArray, seen: sp.csr_array) -> Entries:
    """The entries of a block that do not count: training items and the held-out item itself."""
    starts, ends = seen.indptr[owners], seen.indptr[owners + 1]
    row = np.repeat(np.arange(len(owners), dtype=np.int64), as_intp(ends - starts))
    before = np.cumsum(ends - starts, dtype=np.int64) - ends
    column = seen.indices[np.arange(row.size) - before[row]].astype(np.int64)
    if (column == own_columns[row]).any():
        item = column[column == own_columns[row]][0]
        raise ValueError(f"held_out must not be a training item of its own user, got item {item}")
    rows = np.flatnonzero(own_columns >= 0)
    return np.concatenate((row, rows)), np.concatenate((column, own_columns[rows]))


def _count(
    tile: Tile, limits: Limits, excluded: Entries, n_items: int, width: int, stop_at: int | None
) -> IntArray:
    """Both counts of a block, on the device of its scores; only counts are copied to the host."""
    low, high = limits
    above, not_below = np.zeros((2, len(low)), dtype=np.int64)
    starts, rows = range(0, n_items, width), np.arange(len(low))
    for start, entries in zip(starts, _by_tile(excluded, len(starts), width), strict=True):
        scores = tile(slice(start, min(start + width, n_items)))
        if stop_at is not None and start:
            rows = rows[above[rows] < stop_at]
            is_open = np.isin(entries[0], rows)
            entries = np.searchsorted(rows, entries[0][is_open]), entries[1][is_open]
            scores = (namespace(scores) or np).take(scores, like(rows, scores), axis=0)
        above[rows] += _counted(scores > like(high[rows], scores)[:, None], entries)
        not_below[rows] += _counted(scores >= like(low[rows], scores)[:, None], entries)
    return np.stack([above, not_below - above])


def _counted(hits: Any, excluded: Entries) -> IntArray:
    """True entries of each row, less those that do not count."""
    xp = namespace(hits)
    row, column = excluded
    if xp is None:
        return np.asarray(
            np.count_nonzero(hits, axis=1)
            - np.bincount(as_intp(row[hits[row, column]]), minlength=len(hits))
        )
    totals = on_host(xp.sum(xp.astype(hits, xp.int64), axis=1))
    if not row.size:
        return totals
    flat = like(row * hits.shape[1] + column, hits)
    masked = on_host(xp.take(xp.reshape(hits, (-1,)), flat))
    return np.asarray(totals - np.bincount(as_intp(row[masked]), minlength=hits.shape[0]))


def _by_tile(entries: Entries, n_tiles: int, width: int) -> list[Entries]:
    """Split entries by tile; columns count within the tile."""
    # The stable (radix) sort of small integers takes one or two passes.
    tile = (entries[1] // width).astype(np.min_scalar_type(n_tiles))
    order = np.argsort(tile, kind="stable")
    row, column = entries[0][order], entries[1][order] % width
    edges = np.searchsorted(tile[order], np.arange(n_tiles + 1)).tolist()
    return [(row[start:stop], column[start:stop]) for start, stop in pairwise(edges)]

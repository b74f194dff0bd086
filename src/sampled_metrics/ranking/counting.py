"""Count the scores above and equal to those of held-out items, a tile at a time.

A tile is some instances times some items. Scores stay in their array library and on their device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import IntArray, as_intp, real_scores
from ..numerics.arrays import like, namespace, on_host
from . import kernels

#: Maps a slice of the items to their scores for a block of instances.
Tile = Callable[[slice], Any]
#: Rows and columns of entries of a matrix of scores.
Entries = tuple[IntArray, IntArray]

#: Instances and items of a tile: small enough that the product is still in the cache when it is
#: compared, large enough for an efficient product. 255 * 8 items: see `_row_sums`.
TILE = 256, 255 * 8
#: The tile of the compiled pass, which handles short rows well. Not a power of two: rows a page
#: apart compete for the same cache lines, which made the product a quarter slower.
FAST_TILE = 1024, 520
#: Pairs undecided because of rounding that are collected before they are settled.
_MOST_PAIRS = 2**20
#: Scores held on another device at a time.
_DEVICE_ENTRIES = 2**25


@dataclass(frozen=True, eq=False)
class TieBand:
    """The lowest and highest score that may tie with each instance's own score.

    A score within the band is tied, unless `settle` is given: for pairs of an instance (one in
    `unclear`) and a column it returns 1 (above), 0 (tied) or -1 (below).
    """

    low: NDArray[Any]
    high: NDArray[Any]
    unclear: NDArray[np.bool_] | None = None
    settle: Callable[[IntArray, IntArray], NDArray[np.int8]] | None = None

    @classmethod
    def of(cls, own_scores: NDArray[Any], tolerance: float) -> TieBand:
        """Scores within a relative tolerance, rounded inwards.

        Bounds have the dtype of the scores, since mixed comparisons are slow.
        """
        if not tolerance:
            return cls(own_scores, own_scores)
        if own_scores.dtype.kind != "f":  # Python's integers do not overflow
            numerator, denominator = tolerance.as_integer_ratio()
            exact, limits = own_scores.astype(object), np.iinfo(own_scores.dtype)
            margin = abs(exact) * numerator // denominator
            ends = np.maximum(exact - margin, limits.min), np.minimum(exact + margin, limits.max)
            return cls(ends[0].astype(own_scores.dtype), ends[1].astype(own_scores.dtype))
        centre = own_scores.astype(np.result_type(own_scores, np.float64))
        with np.errstate(all="ignore"):
            margin = tolerance * np.where(np.isfinite(centre), np.abs(centre), 0)
            low, high = (
                (centre - margin).astype(own_scores.dtype),
                (centre + margin).astype(own_scores.dtype),
            )
            low = np.where(centre - low > margin, np.nextafter(low, own_scores), low)
            high = np.where(high - centre > margin, np.nextafter(high, own_scores), high)
        return cls(low, high)

    def corrections(self, rows: IntArray, columns: IntArray) -> IntArray:
        """What settled pairs add to the counts of scores above, and of scores above or equal."""
        if self.settle is None or not rows.size:
            return np.zeros((2, len(self.low)), dtype=np.int64)
        sign, n = self.settle(rows, columns), len(self.low)
        above, below = (np.bincount(as_intp(rows[sign == side]), minlength=n) for side in (1, -1))
        return np.stack([above, -below])


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
    tiles: Callable[[slice], tuple[TieBand, Tile]],
    places: IntArray,
    owners: IntArray,
    seen: sp.csr_array,
    size: tuple[int, int],
    *,
    example: Any,
    fast: kernels.Pass | None = None,
) -> IntArray:
    """Candidates above each held-out item, and those that tie with it, shape (2, k).

    `tiles` maps a slice of instances to their band and tiles of scores. `places` (k,) are the
    columns of the held-out items, -1 if outside; `owners` (k,) the rows of `seen`, the items that
    are not candidates, (n_users, n_items). `size` is instances and items per tile, `example` an
    array of the scores' library, and `fast` the compiled pass, for C-ordered scores.
    """
    n_items = seen.shape[1]
    count: Callable[..., IntArray] = _count_on_device
    if namespace(example) is None:
        width = min(size[1], -(-n_items // 8) * 8)
        if fast is None:
            hits = np.zeros((2, min(size[0], places.size), width), dtype=bool)
            fast = partial(_count_tile, hits=hits)
        count = partial(_count, width=width, count_tile=fast)
    counts = [np.zeros((2, 0), dtype=np.int64)]
    for start in range(0, places.size, size[0]):
        block = slice(start, min(start + size[0], places.size))
        band, tile = tiles(block)
        counts.append(count(tile, band, _excluded(places[block], owners[block], seen), n_items))
    return np.concatenate(counts, axis=1)


def _excluded(places: IntArray, owners: IntArray, seen: sp.csr_array) -> Entries:
    """The entries of a block that do not count: training items and the held-out item itself."""
    starts, ends = seen.indptr[owners], seen.indptr[owners + 1]
    row = np.repeat(np.arange(len(owners), dtype=np.int64), as_intp(ends - starts))
    before = np.cumsum(ends - starts, dtype=np.int64) - ends
    column = seen.indices[np.arange(row.size) - before[row]].astype(np.int64)
    if (column == places[row]).any():
        item = column[column == places[row]][0]
        raise ValueError(f"held_out must not be a training item of its own user, got item {item}")
    rows = np.flatnonzero(places >= 0)
    return np.concatenate((row, rows)), np.concatenate((column, places[rows]))


def _count(
    tile: Tile,
    band: TieBand,
    excluded: Entries,
    n_items: int,
    *,
    width: int,
    count_tile: kernels.Pass,
) -> IntArray:
    """Both counts of a block, from comparisons with both ends of the band."""
    bounds = np.stack([band.low, band.high])
    unclear = np.zeros(len(band.low), dtype=bool) if band.unclear is None else band.unclear
    counts = np.zeros((2, len(band.low)), dtype=np.int64)
    pairs: list[Entries] = []
    n_pairs = 0
    starts = range(0, n_items, width)
    for start, tile_excluded in zip(starts, _by_tile(excluded, len(starts), width), strict=True):
        scores = tile(slice(start, min(start + width, n_items)))
        row, column = count_tile(scores, bounds, unclear, *tile_excluded, counts)
        pairs.append((row, start + column))
        n_pairs += len(row)
        if n_pairs > _MOST_PAIRS or start == starts[-1]:
            counts += band.corrections(
                *(np.concatenate(indices) for indices in zip(*pairs, strict=True))
            )
            pairs.clear()
            n_pairs = 0
    counts[1] -= counts[0]
    return counts


def _count_tile(
    scores: NDArray[Any],
    bounds: NDArray[Any],
    unclear: NDArray[np.bool_],
    out_row: IntArray,
    out_column: IntArray,
    counts: IntArray,
    *,
    hits: NDArray[np.bool_],
) -> Entries:
    """:func:`.kernels.counting` in NumPy, in several passes.

    `hits` is scratch space: two tiles with at least as many rows.
    """
    n_rows, n_columns = scores.shape
    hits = hits[:, :n_rows]
    hits[:, :, n_columns:] = False
    sums = []
    # If rows are shorter than its buffer, NumPy copies the broadcast operand, which takes three
    # times as long. The buffer size must be a multiple of 16.
    buffer = np.setbufsize(max(16, n_columns // 16 * 16))
    try:
        ends = (np.greater, bounds[1]), (np.greater_equal, bounds[0])
        for is_hit, (compare, bound) in zip(hits, ends, strict=True):
            compare(scores, bound[:, np.newaxis], out=is_hit[:, :n_columns])
            is_hit[out_row, out_column] = False
            sums.append(_row_sums(is_hit))
    finally:
        np.setbufsize(buffer)
    counts += sums
    rows = np.flatnonzero(unclear & (sums[0] != sums[1]))
    words = hits.view(np.uint64)  # eight booleans at a time
    is_within = (words[0, rows] ^ words[1, rows]).view(np.bool_)
    row, column = np.divmod(np.flatnonzero(is_within), hits.shape[2])
    return rows[row], column


def _row_sums(hits: NDArray[np.bool_]) -> IntArray:
    """True entries of each row: adds eight byte counters per word, which hold at most 255."""
    words: NDArray[np.uint64] = np.add.reduce(hits.view(np.uint64), axis=1)
    sums: IntArray = words.view(np.uint8).reshape(len(hits), 8).sum(axis=1, dtype=np.int64)
    return sums


def _by_tile(entries: Entries, n_tiles: int, width: int) -> list[Entries]:
    """Split entries by tile; columns count within the tile."""
    # The stable (radix) sort of small integers takes one or two passes.
    tile = (entries[1] // width).astype(np.min_scalar_type(n_tiles))
    order = np.argsort(tile, kind="stable")
    row, column = entries[0][order], entries[1][order] % width
    edges = np.searchsorted(tile[order], np.arange(n_tiles + 1)).tolist()
    return [(row[start:stop], column[start:stop]) for start, stop in pairwise(edges)]


def _count_on_device(tile: Tile, band: TieBand, excluded: Entries, n_items: int) -> IntArray:
    """Both counts of a block on its device; only counts are copied to the host."""
    n_rows = len(band.low)
    width = max(1, _DEVICE_ENTRIES // n_rows)
    counts = np.zeros((2, n_rows), dtype=np.int64)
    for start in range(0, n_items, width):
        columns = slice(start, min(start + width, n_items))
        scores = tile(columns)
        xp = namespace(scores) or np
        high, low = (like(end, scores)[:, None] for end in (band.high, band.low))
        hits = scores > high, scores >= low
        units = like(np.ones(1, np.int64), scores), like(np.zeros(1, np.int64), scores)
        counts += [on_host(xp.sum(xp.where(is_hit, *units), axis=1)) for is_hit in hits]
        in_tile = (excluded[1] >= columns.start) & (excluded[1] < columns.stop)
        row, column = excluded[0][in_tile], excluded[1][in_tile] - start
        flat = row * (columns.stop - start) + column
        if flat.size:
            flat_index = like(flat, scores)
            for is_hit, total in zip(hits, counts, strict=True):
                masked = on_host(xp.take(xp.reshape(is_hit, (-1,)), flat_index))
                total -= np.bincount(as_intp(row[masked]), minlength=n_rows)
        if band.unclear is not None and band.unclear.any():
            in_band = xp.logical_and(hits[1], xp.logical_not(hits[0]))
            inside = on_host(xp.nonzero(xp.reshape(in_band, (-1,)))[0])
            row, column = np.divmod(inside[~np.isin(inside, flat)], columns.stop - start)
            is_unclear = band.unclear[row]
            counts += band.corrections(row[is_unclear], start + column[is_unclear])
    counts[1] -= counts[0]
    return counts

"""Exact ranks from user and item factors, without a matrix of all scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._arrays import like, namespace, on_host
from .._arrays import rows as rows_of
from .._validate import IntArray, integers, real_scores
from ..numerics.products import Bounds, doubt, exact_band, norms, radius, signs
from . import kernels
from .counting import FAST_TILE, TILE, Band, Tile, checked_scores, count_blocks
from .inputs import ItemSets, as_csr, checked_held_out
from .intervals import RankIntervals

#: Factors of pairs whose order the rounding leaves open that are copied at a time.
_PAIR_ENTRIES = 2**16


def exact_ranks_from_factors(
    user_factors: ArrayLike,
    item_factors: ArrayLike,
    held_out: ArrayLike,
    train: ItemSets | None,
    *,
    users: ArrayLike | None = None,
    relative_tolerance: float = 0.0,
    progress: bool = False,
) -> RankIntervals:
    """Rank held-out items by inner products of user and item factors.

    The matrix of all scores never exists: scores are summed and compared a few MiB at a time,
    while they are in the cache, which takes little longer than the product alone. Once a process
    has 1e9 scores to compare they are counted in one compiled pass, if Numba is installed
    (``sampled-metrics[fast]``). They are summed in float32 where both factors are float32, as a
    library does that serves from them, and in float64 otherwise. The other held-out items of a row
    are candidates, too; :func:`~sampled_metrics.ranking.files.rank` can leave them out.

    Parameters
    ----------
    user_factors : array_like, shape (n_users, n_factors)
    item_factors : array_like, shape (n_items, n_factors)
        Arrays of PyTorch, CuPy, JAX or another library of the array API standard are multiplied and
        compared on the device where they are (array-api-compat must be installed). A device that
        rounds the factors first, as TF32 does, is refused.
    held_out, train, relative_tolerance
        As in :func:`~.ranking.exact.exact_ranks`, `train` having a row for each row of
        `user_factors`. Without a tolerance two products are compared as if summed without rounding,
        so that ranks are the same on every processor, and items of one vector are tied; with one,
        as they are computed, and where a sum could overflow.
    users : array_like of int, shape (n_instances,), optional
        The row of `user_factors` that each held-out item belongs to, for users with several of
        them or none: best in ascending order. If omitted, each row has one.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    RankIntervals

    Raises
    ------
    ValueError
        If the factors are not two matrices of real numbers of one width, and as in
        :func:`~.ranking.exact.exact_ranks`.

    Examples
    --------
    >>> exact_ranks_from_factors([[1.0, 0.0]], [[3, 1], [2, 9], [1, 0]], [1], None).n_better
    array([1])
    """
    factors, catalogue = _factors(user_factors, item_factors)
    n_items = catalogue.shape[0]
    items = checked_held_out(held_out, n_items, relative_tolerance)
    owners = _owners(users, items.size, len(factors))
    seen = as_csr(train, len(factors), n_items)
    own = on_host(rows_of(catalogue, items))
    better, tied = shard_counts(
        factors, catalogue, owners, own, items, seen, relative_tolerance, progress
    )
    return RankIntervals(better, tied, n_items - np.diff(seen.indptr)[owners])


def shard_counts(
    users: NDArray[Any],
    shard: Any,
    owners: IntArray,
    own: NDArray[Any],
    places: IntArray,
    seen: sp.csr_array,
    tolerance: float = 0.0,
    progress: bool = False,
) -> IntArray:
    """How many candidates of a part of the catalogue score above each held-out item, or the same.

    Ranks are counts, so those of the whole catalogue are the sums over its parts.

    Parameters
    ----------
    users, shard, own : ndarray of float32, or of float64, shapes (n_users, d), (n_items, d), (k, d)
        Factors of some users, of the part of the catalogue, and of the k held-out items. The
        part may be in an array of another library: it is multiplied and counted on its device.
    owners, places, seen
        As for :func:`~.ranking.counting.count_blocks`, the rows of `seen` being those of `users`.
    tolerance, progress
        As `relative_tolerance` and `progress` of :func:`exact_ranks_from_factors`.
    """
    bounds = Bounds.of(users, shard)
    xp = namespace(shard)
    fast = None if xp is not None else kernels.compiled(users.dtype, places.size * shard.shape[0])
    size = FAST_TILE if fast else TILE
    product = np.empty(math.prod(size), dtype=users.dtype)
    most = bounds.of_items.max(initial=0.0)
    exactly = bounds.safe and not tolerance

    def tiles(block: slice) -> tuple[Band, Tile]:
        distinct, place = np.unique(owners[block], return_inverse=True)
        rows = users[distinct]
        in_order = np.array_equal(place, np.arange(len(rows)))
        factors = like(rows if in_order else rows[place], shard)

        def on_host_tile(columns: slice) -> NDArray[Any]:
            shape = len(rows), columns.stop - columns.start
            out = product[: math.prod(shape)].reshape(shape)
            with np.errstate(all="ignore"):
                np.matmul(rows, shard[columns].T, out=out)
            if not bounds.safe:
                real_scores(out, distinct)
            return out if in_order else out[place]

        def on_device_tile(columns: slice) -> Any:
            with np.errstate(all="ignore"):
                scores = xp.matmul(factors, shard[columns, :].T)
            return scores if bounds.safe else checked_scores(scores, distinct[place])

        tile = on_host_tile if xp is None else on_device_tile
        if not exactly:
            return Band.of(_own_scores(rows[place], own[block]), tolerance), tile
        margin = np.zeros(len(place))
        if not bounds.whole:
            longest = np.maximum(norms(own[block]), most)
            margin = radius(users.dtype, users.shape[1], bounds.of_users[distinct][place], longest)
            margin[~np.any(rows, axis=1)[place]] = 0.0  # all scores of such a user are 0
        of_users, of_own = np.ascontiguousarray(rows[place]), np.ascontiguousarray(own[block])

        def settle(instance: IntArray, column: IntArray) -> NDArray[np.int8]:
            order = np.full(len(instance), kernels.OPEN, dtype=np.int8)
            if fast and shard.flags.c_contiguous:
                given = of_users, shard, of_own, instance, column
                order = fast.decide(*given, *doubt(users.shape[1]))
            still_open = np.flatnonzero(order == kernels.OPEN)
            step = max(1, _PAIR_ENTRIES // max(1, users.shape[1]))
            for start in range(0, still_open.size, step):
                part = still_open[start : start + step]
                of_items, each = on_host(rows_of(shard, column[part])), instance[part]
                order[part] = signs(of_users[each], of_items, of_own[each])
            return order

        band = Band(*exact_band(of_users, of_own, margin), margin > 0, settle)
        if xp is not None:
            _refuse_coarse(xp.matmul(factors, like(of_own, shard).T), band)
        return band, tile

    count = fast.count if fast else None
    return count_blocks(
        tiles, places, owners, seen, size, example=shard, fast=count, progress=progress
    )


def _refuse_coarse(products: Any, band: Band) -> None:
    """Raise ValueError if a device does not multiply in the precision of its numbers."""
    own = np.diagonal(on_host(products))
    if not ((band.low <= own) & (own <= band.high)).all():
        raise ValueError(
            f"item_factors must be multiplied in the precision of {band.low.dtype}, and their "
            "device rounds further: switch off TF32 or the like"
        )


def _owners(users: ArrayLike | None, n_instances: int, n_users: int) -> IntArray:
    """The row of the user factors that each instance belongs to."""
    if users is None:
        if n_instances != n_users:
            raise ValueError(
                f"held_out must have one item for each of {n_users} rows of user_factors, got "
                f"{n_instances}: name their rows in users"
            )
        return np.arange(n_users)
    owners = integers(users, "users", 0, n_users - 1)
    if owners.shape != (n_instances,):
        raise ValueError(
            f"users must have one row for each of {n_instances} held-out items, got shape "
            f"{owners.shape}"
        )
    return owners


def _factors(users: ArrayLike, items: Any) -> tuple[NDArray[Any], Any]:
    """Both factors in the precision in which scores are summed; users' as an array of NumPy."""
    xp = namespace(items)
    left, right = np.asarray(on_host(users)), np.asarray(items) if xp is None else items
    kinds = [left.dtype, right.dtype if xp is None else on_host(right[:1, ...]).dtype]
    for name, kind in zip(("user_factors", "item_factors"), kinds, strict=True):
        if kind.kind not in "iuf":
            raise ValueError(f"{name} must be real numbers, got dtype {kind}")
    kind = "float32" if kinds == [np.float32, np.float32] else "float64"
    left = left.astype(kind, copy=False)
    if xp is None:
        right = right.astype(kind, copy=False)
    else:
        right = xp.astype(right, getattr(xp, kind), copy=False)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise ValueError(
            "user_factors and item_factors must be matrices of one width, got shapes "
            f"{left.shape} and {tuple(right.shape)}"
        )
    return left, right


def _own_scores(users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
    """Inner product of each row of the one with that of the other.

    As the diagonal of a product, which sums in the order of the product of all: equal items
    then have equal scores where the kernel does not depend on a matrix's size.
    """
    with np.errstate(all="ignore"):
        return np.diagonal(users @ items.T)

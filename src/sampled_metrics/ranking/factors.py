"""Exact ranks from user and item factors, without a matrix of all scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._validate import IntArray, integers, real_scores
from ..numerics.arrays import like, namespace, on_host
from ..numerics.arrays import rows as rows_of
from ..numerics.products import Bounds, doubt, exact_band, norms, radius, signs
from . import kernels
from .counting import FAST_TILE, TILE, Band, Tile, checked_scores, count_blocks
from .inputs import ItemSets, as_csr, checked_held_out
from .intervals import RankIntervals

#: Factors copied at a time to settle pairs that rounding leaves undecided.
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

    The matrix of all scores never exists: a few MiB of scores are computed and compared at a time,
    while in the cache, which takes little longer than the product alone. After 1e9 scores a process
    counts in one compiled pass if Numba is installed (``sampled-metrics[fast]``). Scores are summed
    in float32 if both factors are float32, otherwise in float64. A user's other held-out items are
    candidates; :func:`~sampled_metrics.rank` can leave them out.

    Parameters
    ----------
    user_factors : array_like, shape (n_users, n_factors)
    item_factors : array_like, shape (n_items, n_factors)
        Arrays of PyTorch, CuPy, JAX or another library of the array API standard are multiplied and
        compared on their device (needs array-api-compat). A device that rounds the factors first,
        as with TF32, is refused.
    held_out, train, relative_tolerance
        As in :func:`~sampled_metrics.exact_ranks`, with a row of `train` for each row of
        `user_factors`. Without a tolerance, products are compared as if summed without rounding:
        ranks are the same on every processor, and items with equal vectors tie. With a tolerance,
        or if a sum could overflow, they are compared as computed.
    users : array_like of int, shape (n_instances,), optional
        The row of `user_factors` of each held-out item, preferably in ascending order. By default
        held-out item i belongs to row i.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    RankIntervals

    Raises
    ------
    ValueError
        If the factors are not two matrices of real numbers of one width, and as in
        :func:`~sampled_metrics.exact_ranks`.

    See Also
    --------
    sampled_metrics.exact_ranks : Rank by a matrix of scores.
    sampled_metrics.rank : The same from files, and on a cluster.

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
    own_factors = on_host(rows_of(catalogue, items))
    better, tied = shard_counts(
        factors, catalogue, owners, own_factors, items, seen, relative_tolerance, progress
    )
    return RankIntervals(better, tied, n_items - np.diff(seen.indptr)[owners])


def shard_counts(
    users: NDArray[Any],
    shard: Any,
    owners: IntArray,
    own_factors: NDArray[Any],
    places: IntArray,
    seen: sp.csr_array,
    tolerance: float = 0.0,
    progress: bool = False,
) -> IntArray:
    """Candidates of a shard above each held-out item, and those that tie with it, shape (2, k).

    Counts over the catalogue are sums over its shards. `users` (n_users, d), `shard` (n_items, d)
    and `own_factors` (k, d), the factors of the held-out items, are all float32 or all float64; the
    shard may be an array of another library, on its device. Other arguments as for
    :func:`~.ranking.counting.count_blocks`, with a row of `seen` for each of `users`.
    """
    bounds = Bounds.of_matrices(users, shard)
    xp = namespace(shard)
    fast = None if xp is not None else kernels.compiled(users.dtype, places.size * shard.shape[0])
    size = FAST_TILE if fast else TILE
    product = np.empty(math.prod(size), dtype=users.dtype)
    largest_norm = bounds.of_items.max(initial=0.0)
    exactly = bounds.safe and not tolerance

    def tiles(block: slice) -> tuple[Band, Tile]:
        distinct, place = np.unique(owners[block], return_inverse=True)
        rows = users[distinct]
        in_order = np.array_equal(place, np.arange(len(rows)))
        factors = like(rows if in_order else rows[place], shard)

        def on_host_tile(columns: slice) -> NDArray[Any]:
            shape = len(rows), columns.stop - columns.start
            host_scores = product[: math.prod(shape)].reshape(shape)
            with np.errstate(all="ignore"):
                np.matmul(rows, shard[columns].T, out=host_scores)
            if not bounds.safe:
                real_scores(host_scores, distinct)
            return host_scores if in_order else host_scores[place]

        def on_device_tile(columns: slice) -> Any:
            with np.errstate(all="ignore"):
                scores = xp.matmul(factors, shard[columns, :].T)
            return scores if bounds.safe else checked_scores(scores, distinct[place])

        tile = on_host_tile if xp is None else on_device_tile
        if not exactly:
            return Band.of(_own_scores(rows[place], own_factors[block]), tolerance), tile
        margin = np.zeros(len(place))
        if not bounds.exact:
            longest = np.maximum(norms(own_factors[block]), largest_norm)
            margin = radius(users.dtype, users.shape[1], bounds.of_users[distinct][place], longest)
            margin[~np.any(rows, axis=1)[place]] = 0.0  # all scores of such a user are 0
        user_rows, own_rows = (
            np.ascontiguousarray(rows[place]),
            np.ascontiguousarray(own_factors[block]),
        )

        def settle(instance: IntArray, column: IntArray) -> NDArray[np.int8]:
            order = np.full(len(instance), kernels.OPEN, dtype=np.int8)
            if fast and shard.flags.c_contiguous:
                pairs = user_rows, shard, own_rows, instance, column
                order = fast.decide(*pairs, *doubt(users.shape[1]))
            still_open = np.flatnonzero(order == kernels.OPEN)
            step = max(1, _PAIR_ENTRIES // max(1, users.shape[1]))
            for start in range(0, still_open.size, step):
                part = still_open[start : start + step]
                item_rows, part_instance = on_host(rows_of(shard, column[part])), instance[part]
                order[part] = signs(user_rows[part_instance], item_rows, own_rows[part_instance])
            return order

        band = Band(*exact_band(user_rows, own_rows, margin), margin > 0, settle)
        if xp is not None:
            _refuse_coarse(xp.matmul(factors, like(own_rows, shard).T), band)
        return band, tile

    count = fast.count if fast else None
    return count_blocks(
        tiles, places, owners, seen, size, example=shard, fast=count, progress=progress
    )


def _refuse_coarse(products: Any, band: Band) -> None:
    """Refuse a device that multiplies in less precision than the dtype has."""
    own_scores = np.diagonal(on_host(products))
    if not ((band.low <= own_scores) & (own_scores <= band.high)).all():
        raise ValueError(
            f"item_factors must be multiplied in the precision of {band.low.dtype}, and their "
            "device rounds further: switch off TF32 or the like"
        )


def _owners(users: ArrayLike | None, n_instances: int, n_users: int) -> IntArray:
    """The row of the user factors of each instance."""
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
    """Both factors in the precision of the scores; users' as a NumPy array."""
    xp = namespace(items)
    user_factors, item_factors = (
        np.asarray(on_host(users)),
        np.asarray(items) if xp is None else items,
    )
    dtypes = [
        user_factors.dtype,
        item_factors.dtype if xp is None else on_host(item_factors[:1, ...]).dtype,
    ]
    for name, dtype in zip(("user_factors", "item_factors"), dtypes, strict=True):
        if dtype.kind not in "iuf":
            raise ValueError(f"{name} must be real numbers, got dtype {dtype}")
    dtype = "float32" if dtypes == [np.float32, np.float32] else "float64"
    user_factors = user_factors.astype(dtype, copy=False)
    if xp is None:
        item_factors = item_factors.astype(dtype, copy=False)
    else:
        item_factors = xp.astype(item_factors, getattr(xp, dtype), copy=False)
    if (
        user_factors.ndim != 2
        or item_factors.ndim != 2
        or user_factors.shape[1] != item_factors.shape[1]
    ):
        raise ValueError(
            "user_factors and item_factors must be matrices of one width, got shapes "
            f"{user_factors.shape} and {tuple(item_factors.shape)}"
        )
    return user_factors, item_factors


def _own_scores(users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
    """Inner products of matching rows, as the diagonal of a matrix product.

    A matrix product sums in the same order as the tiles, so that equal items have equal scores
    where the BLAS kernel does not depend on the size.
    """
    with np.errstate(all="ignore"):
        return np.diagonal(users @ items.T)

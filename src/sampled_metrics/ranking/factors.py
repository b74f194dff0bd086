"""Counts of a shard of the catalogue by products of factors, without a matrix of all scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray, real_scores
from ..numerics.products import Bounds, doubt, exact_band, norms, radius, signs
from . import kernels
from .counting import FAST_TILE, TILE, TieBand, Tile, count_blocks

#: Factors copied at a time to settle pairs that rounding leaves undecided.
_PAIR_ENTRIES = 2**16


def shard_counts(
    users: NDArray[Any],
    shard: NDArray[Any],
    owners: IntArray,
    own_factors: NDArray[Any],
    places: IntArray,
    seen: sp.csr_array,
    tolerance: float = 0.0,
) -> IntArray:
    """Candidates of a shard above each held-out item, and those that tie with it, shape (2, k).

    Counts over the catalogue are sums over its shards. `users` (n_users, d), `shard` (n_items, d)
    and `own_factors` (k, d), the factors of the held-out items, are all float32 or all float64.
    Other arguments as for :func:`~.ranking.counting.count_blocks`, with a row of `seen` for each of
    `users`. Without a tolerance, products are compared as if summed without rounding, so that ranks
    are the same on every processor. With a tolerance, or if a sum could overflow, they are compared
    as computed. A few MiB of scores are computed and compared at a time, while in the cache.
    """
    bounds = Bounds.of_matrices(users, shard)
    fast = kernels.compiled(users.dtype, places.size * shard.shape[0])
    size = FAST_TILE if fast else TILE
    product = np.empty(math.prod(size), dtype=users.dtype)

    def tiles(block: slice) -> tuple[TieBand, Tile]:
        distinct, place = np.unique(owners[block], return_inverse=True)
        rows = users[distinct]
        in_order = np.array_equal(place, np.arange(len(rows)))

        def tile(columns: slice) -> NDArray[Any]:
            shape = len(rows), columns.stop - columns.start
            scores = product[: math.prod(shape)].reshape(shape)
            with np.errstate(all="ignore"):
                np.matmul(rows, shard[columns].T, out=scores)
            if not bounds.safe:
                real_scores(scores, distinct)
            return scores if in_order else scores[place]

        pairs = np.ascontiguousarray(rows[place]), np.ascontiguousarray(own_factors[block])
        if tolerance or not bounds.safe:
            return TieBand.of(_own_scores(*pairs), tolerance), tile
        margin = _margin(*pairs, bounds, bounds.of_users[distinct][place])
        settle = _settling(*pairs, shard, fast)
        return TieBand(*exact_band(*pairs, margin), margin > 0, settle), tile

    count = fast.count if fast else None
    return count_blocks(tiles, places, owners, seen, size, example=shard, fast=count)


def _margin(
    users: NDArray[Any], own_factors: NDArray[Any], bounds: Bounds, user_norms: FloatArray
) -> FloatArray:
    """How far rounding may move a score from the held-out item's, for each pair of rows."""
    if bounds.exact:
        return np.zeros(len(users))
    longest = np.maximum(norms(own_factors), bounds.of_items.max(initial=0.0))
    margin = radius(users.dtype, users.shape[1], user_norms, longest)
    margin[~np.any(users, axis=1)] = 0.0  # all scores of such a user are 0
    return margin


def _settling(
    users: NDArray[Any],
    own_factors: NDArray[Any],
    shard: NDArray[Any],
    fast: kernels.Compiled | None,
) -> Callable[[IntArray, IntArray], NDArray[np.int8]]:
    """A function that orders pairs of an instance and an item of the shard without rounding."""

    def settle(instance: IntArray, column: IntArray) -> NDArray[np.int8]:
        order = np.full(len(instance), kernels.OPEN, dtype=np.int8)
        if fast and shard.flags.c_contiguous:
            order = fast.decide(users, shard, own_factors, instance, column, *doubt(users.shape[1]))
        still_open = np.flatnonzero(order == kernels.OPEN)
        step = max(1, _PAIR_ENTRIES // max(1, users.shape[1]))
        for start in range(0, still_open.size, step):
            part = still_open[start : start + step]
            rows = instance[part]
            order[part] = signs(users[rows], shard[column[part]], own_factors[rows])
        return order

    return settle


def _own_scores(users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
    """Inner products of matching rows, as the diagonal of a matrix product.

    A matrix product sums in the same order as the tiles, so that equal items have equal scores
    where the BLAS kernel does not depend on the size.
    """
    with np.errstate(all="ignore"):
        return np.diagonal(users @ items.T)

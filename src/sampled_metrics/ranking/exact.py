"""Exact ranks of held-out items in the whole catalogue, from given scores.

Where items tie, the rank depends on an order that most code chooses silently. Here the number of
ties is kept, and the metrics of :class:`~.ranking.intervals.RankIntervals` name the tie policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .._validate import FloatArray, IntArray, integer, real_scores
from ..numerics.arrays import like, namespace, on_host
from .counting import TILE, Limits, Tile, checked_scores, count_blocks, tie_limits
from .inputs import ItemSets, as_csr, checked_held_out
from .intervals import RankIntervals

#: Maps a slice of instances to their scores, (instances, n_items).
ScoreBlocks = Callable[[slice], ArrayLike]

_BLOCK_ENTRIES = 2**21  # scores per block: 16 MiB in float64


def exact_ranks(
    scores: ArrayLike | ScoreBlocks,
    held_out: ArrayLike,
    train: ItemSets | None,
    *,
    relative_tolerance: float = 0.0,
    stop_at: int | None = None,
) -> RankIntervals:
    """Rank interval of each instance's held-out item among all items outside its training items.

    A user's other held-out items are candidates too. To rank among irrelevant items only, like the
    n_better of a log, add them to `train`. About 16 MiB of scores are held at a time (at least one
    instance).

    Parameters
    ----------
    scores : array_like, shape (n_instances, n_items), or callable
        Higher is better. Compared exactly: integers of any width without rounding; infinite scores
        tie only with their equals. Minus infinity does not exclude an item: name it in `train`. A
        callable maps a slice of instances to their scores, so that the whole matrix need not exist.
        Arrays of PyTorch, CuPy, JAX and others of the array API standard are counted on their
        device.
    held_out : array_like of int, shape (n_instances,)
        Item to rank, in [0, n_items). A user with several held-out items has several instances.
    train : sparse matrix (n_instances, n_items), sequence of item lists, or None
        Items that are not candidates: the non-zero entries of each row, or a list for each
        instance. None makes every item a candidate.
    relative_tolerance : float
        In [0, 1). Finite scores s with abs(s - h) <= relative_tolerance * abs(h), h the held-out
        item's score, count as tied; 0 requires equality. Choose a little more than the rounding
        error if equal scores are summed in different orders.
    stop_at : int, optional
        Count no further once so many items are above: then n_better is `stop_at` and n_tied 0, and
        metrics with a cut-off up to this number stay exact. Scores that you have not computed yet
        are saved by :func:`~sampled_metrics.rank`, not here.

    Returns
    -------
    RankIntervals
        n_candidates is the catalogue without the instance's training items; it includes the
        held-out item and the user's other held-out items.

    Raises
    ------
    ValueError
        If lengths or shapes do not match, `held_out` is empty, an item is not in the catalogue,
        a held-out item is in its user's training set, a score is NaN or not a real number, the
        tolerance is not in [0, 1), or `stop_at` is below 1.

    See Also
    --------
    sampled_metrics.rank : The same from factors, or by any scoring function, without a matrix of
        scores.

    Examples
    --------
    >>> intervals = exact_ranks([[0.9, 0.5, 0.5, 0.1]], held_out=[1], train=[[0]])
    >>> intervals.n_better, intervals.n_tied, intervals.n_candidates
    (array([0]), array([1]), array([3]))

    The last item has three above; with two it cannot be among the first two:

    >>> exact_ranks([[0.9, 0.5, 0.5, 0.1]], [3], None, stop_at=2).evaluate("recall@2")
    array([0.])
    """
    items = checked_held_out(held_out, None, relative_tolerance)
    blocks = scores if callable(scores) else _blocks_of(scores, items.size)
    first = _block(blocks, slice(0, 1))
    n_items = first.shape[1]
    checked_held_out(items, n_items, relative_tolerance)
    seen = as_csr(train, items.size, n_items)
    most = n_items if stop_at is None else integer(stop_at, "stop_at", 1)

    def tiles(block: slice) -> tuple[Limits, Tile]:
        values = _block(blocks, block, n_items)
        xp = namespace(values) or np
        flat_index = like(np.arange(values.shape[0]) * n_items + items[block], values)
        own_scores = on_host(xp.take(xp.reshape(values, (-1,)), flat_index))
        return tie_limits(own_scores, relative_tolerance), lambda columns: values[:, columns]

    size = max(1, _BLOCK_ENTRIES // max(1, n_items)), TILE[1]
    better, tied = count_blocks(
        tiles, items, np.arange(items.size), seen, size, example=first, stop_at=stop_at
    )
    n_candidates = n_items - np.diff(seen.indptr)
    tied = np.where(better < most, tied, 0)
    return RankIntervals(np.minimum(better, most), tied, n_candidates, stop_at)


def score_counts(
    scores: Callable[[IntArray, slice], Any],
    own_scores: ArrayLike,
    owners: IntArray,
    own_columns: IntArray,
    seen: sp.csr_array,
    names: IntArray,
    margin: FloatArray | None = None,
) -> IntArray:
    """Candidates of a shard above each held-out item, and those that tie with it, shape (2, k).

    Counts over the catalogue are sums over its shards. `scores` maps rows of users, (k',), and a
    slice of the shard's items to a matrix of k' rows in any array library. `own_scores` are the
    scores of the held-out items, and scores within `margin` of them tie; `names` are the users'
    numbers for errors. Other arguments as for :func:`~.ranking.counting.count_blocks`.
    """
    own_scores = real_scores(np.asarray(own_scores)[:, np.newaxis], names[owners])[:, 0]

    def tiles(block: slice) -> tuple[Limits, Tile]:
        distinct, inverse = np.unique(owners[block], return_inverse=True)
        in_order = np.array_equal(inverse, np.arange(len(distinct)))

        def tile(columns: slice) -> Any:
            values = scores(distinct, columns)
            values = np.asarray(values) if namespace(values) is None else values
            shape = (len(distinct), columns.stop - columns.start)
            if tuple(values.shape) != shape:
                raise ValueError(
                    f"scores must have shape {shape} for so many users and items, got "
                    f"{tuple(values.shape)}"
                )
            values = checked_scores(values, names[distinct])
            if in_order:
                return values
            xp = namespace(values) or np
            return xp.take(values, like(inverse, values), axis=0)

        item_scores, reach = own_scores[block], 0 if margin is None else margin[block]
        return (item_scores - reach, item_scores + reach), tile

    first = scores(np.arange(1), slice(0, 1))
    return count_blocks(tiles, own_columns, owners, seen, TILE, example=first)


def _blocks_of(scores: ArrayLike, n_instances: int) -> ScoreBlocks:
    """A score matrix as a function of blocks."""
    matrix: Any = np.asarray(scores) if namespace(scores) is None else scores
    if matrix.ndim != 2 or matrix.shape[0] != n_instances:
        raise ValueError(
            f"scores must have one row for each of {n_instances} held-out items, got shape "
            f"{matrix.shape}"
        )
    return lambda block: matrix[block, :]


def _block(blocks: ScoreBlocks, block: slice, n_items: int | None = None) -> Any:
    """The scores of a block, checked."""
    values: Any = blocks(block)
    if namespace(values) is None:
        values = np.asarray(values)
    rows = block.stop - block.start
    if values.ndim != 2 or values.shape[0] != rows or n_items not in (None, values.shape[1]):
        raise ValueError(
            f"scores must have shape ({rows}, {n_items or 'n_items'}) for {rows} instances, got "
            f"{tuple(values.shape)}"
        )
    return checked_scores(values, range(block.start, block.stop))

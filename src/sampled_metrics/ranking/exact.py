"""Exact ranks of held-out items in the whole catalogue, ties kept as intervals.

A recommender that gives many items the same score does not say which comes first, and the
metric of its ranking then depends on a choice that most code makes without a word. Here the
choice is kept open: :func:`exact_ranks` counts how many candidates score above the held-out
item and how many score the same. Metrics are averaged over the order of ties if no other policy
is named; a rank has no such mean, and asks for a policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .. import _arrays, _progress
from .._validate import (
    FloatArray,
    IntArray,
    as_written,
    checked_tolerance,
    generator,
    integers,
    real_scores,
    span,
)
from ..metrics import Metric
from ..metrics import metric as parsed
from ..numerics.products import Bounds, doubt, exact_band, norms, radius, signs
from ..protocol import Protocol
from . import kernels

#: A block of scores on demand: a slice of instances -> array (instances, n_items).
ScoreBlocks = Callable[[slice], ArrayLike]
#: Items of each instance: a sparse matrix whose non-zero entries they are, or lists of items.
ItemSets = Any
#: Scores of a block of instances for a slice of the items.
Tile = Callable[[slice], NDArray[Any]]
RankTies = Literal["optimistic", "pessimistic", "random"]
Ties = Literal["optimistic", "pessimistic", "mean", "random", "realistic"]

_BLOCK_ENTRIES = 2**21  # given scores that are checked at a time: 16 MiB in float64
#: Instances and items whose scores are compared at a time: small enough to be in the cache still
#: when they have been multiplied, large enough for the product. 255 * 8 items: see `_row_sums`.
_TILE_ROWS, _TILE_COLUMNS = 256, 255 * 8
#: The same for the compiled pass, to which short rows are as good. No power of two: rows that are
#: a page apart share their places in the cache, and the product took a quarter longer.
_FAST_ROWS, _FAST_COLUMNS = 1024, 520
#: Pairs whose order the rounding leaves open that are kept before they are settled.
_MOST_PAIRS = 2**20
#: Factors of such pairs that are copied at a time.
_PAIR_ENTRIES = 2**16


@dataclass(frozen=True, eq=False, repr=False)
class RankIntervals:
    """The ranks of held-out items, as an interval where they are tied.

    The rank of instance i is one of n_better[i] + 1, ..., n_better[i] + n_tied[i] + 1.

    Parameters
    ----------
    n_better : array_like of int, shape (n_instances,)
        Candidates that score above the held-out item.
    n_tied : array_like of int, shape (n_instances,)
        Other candidates that score the same.
    n_candidates : array_like of int, shape (n_instances,)
        All candidates, the held-out item included: what metrics call `n_items`.

    Raises
    ------
    ValueError
        If lengths differ, a count is negative or fractional, or n_better + n_tied + 1 exceeds
        n_candidates.

    Examples
    --------
    >>> intervals = RankIntervals([0, 1], [0, 2], [5, 5])
    >>> intervals.ranks("pessimistic")
    array([1, 4])
    >>> intervals.evaluate("auc")
    array([1. , 0.5])
    """

    n_better: IntArray
    n_tied: IntArray
    n_candidates: IntArray

    def __post_init__(self) -> None:
        for name, low in (("n_better", 0), ("n_tied", 0), ("n_candidates", 1)):
            counts = integers(getattr(self, name), name, low)
            if counts.ndim != 1:
                raise ValueError(f"{name} must have one dimension, got shape {counts.shape}")
            object.__setattr__(self, name, counts)
        sizes = (self.n_better.size, self.n_tied.size, self.n_candidates.size)
        if len(set(sizes)) > 1:
            raise ValueError(
                f"n_better, n_tied and n_candidates must have one length, got {sizes[0]}, "
                f"{sizes[1]} and {sizes[2]}"
            )
        excess = self.n_better + self.n_tied + 1 > self.n_candidates
        if excess.any():
            i = int(np.argmax(excess))
            raise ValueError(
                f"n_candidates must be >= n_better + n_tied + 1, got {self.n_candidates[i]} with "
                f"n_better {self.n_better[i]} and n_tied {self.n_tied[i]}"
            )

    def __repr__(self) -> str:
        return (
            f"RankIntervals(instances={self.n_better.size}, tied={np.count_nonzero(self.n_tied)}, "
            f"n_candidates={span(self.n_candidates)})"
        )

    def ranks(self, ties: RankTies, rng: int | np.random.Generator | None = None) -> IntArray:
        """Ranks under a named tie policy, 1 the best.

        Parameters
        ----------
        ties : {"optimistic", "pessimistic", "random"}
            The held-out item comes first among its ties, last, or at a place drawn uniformly.
        rng : int or numpy.random.Generator, optional
            A seed, or where the draws come from. Needed by "random" alone.

        Returns
        -------
        ndarray of int, shape (n_instances,)

        Raises
        ------
        ValueError
            If `ties` is not one of the three ("mean" has no single rank: see :meth:`evaluate`),
            or if `rng` is missing for "random".

        Examples
        --------
        >>> intervals = RankIntervals([2], [3], [10])
        >>> intervals.ranks("optimistic"), intervals.ranks("pessimistic")
        (array([3]), array([6]))
        """
        if ties == "optimistic":
            return self.n_better + 1
        if ties == "pessimistic":
            return self.n_better + self.n_tied + 1
        if ties == "random":
            return self.n_better + 1 + generator(rng).integers(self.n_tied + 1)
        raise ValueError(
            "ties must be 'optimistic', 'pessimistic' or 'random' to give ranks, got "
            f"{as_written(ties)}"
        )

    def evaluate(
        self,
        metric: Metric | str,
        ties: Ties = "mean",
        rng: int | np.random.Generator | None = None,
    ) -> FloatArray:
        """Value of a metric for each instance.

        Parameters
        ----------
        metric : Metric or str
            From :func:`sampled_metrics.metric`.
        ties : {"mean", "optimistic", "pessimistic", "random", "realistic"}
            "mean" is the exact expectation of the metric over ties broken uniformly at random.
            "realistic" is the metric of the mean of the first and the last rank, which may lie
            between two ranks, as PyKEEN, OGB and TGB have it; for AUC that is the same. The others
            are as in :meth:`ranks`.
        rng : int or numpy.random.Generator, optional
            A seed, or where the draws come from. Needed by "random" alone.

        Returns
        -------
        ndarray of float, shape (n_instances,)

        Raises
        ------
        ValueError
            If `ties` is not one of the five, or if `rng` is missing for "random".

        Examples
        --------
        >>> RankIntervals([0], [1], [10]).evaluate("rr")
        array([0.75])
        >>> RankIntervals([0], [1], [10]).evaluate("rr", "realistic").round(4)  # 1 over 1.5
        array([0.6667])
        """
        metric = parsed(metric)
        if ties == "mean":
            return self._mean(metric)
        if ties == "realistic":
            if (self.n_candidates < 2).any():
                raise ValueError("n_candidates must be >= 2 to evaluate ties 'realistic', got 1")
            middle = self.n_better + 1 + self.n_tied / 2
            return metric.term_between(middle, np.array(1), 1, self.n_candidates)
        if ties not in ("optimistic", "pessimistic", "random"):
            raise ValueError(
                "ties must be 'optimistic', 'pessimistic', 'mean', 'random' or 'realistic', got "
                f"{as_written(ties)}"
            )
        return metric(self.ranks(ties, rng), n_items=self.n_candidates)

    def _mean(self, metric: Metric) -> FloatArray:
        first, last = self.ranks("optimistic"), self.ranks("pessimistic")
        if metric.linear:  # linear in the rank, so its mean is that of the two ends
            ends = [metric(end, n_items=self.n_candidates) for end in (first, last)]
            return np.asarray((ends[0] + ends[1]) / 2)
        # Every other metric depends on the rank alone: one prefix sum serves all instances.
        sums = np.concatenate(([0.0], np.cumsum(metric(np.arange(1, last.max(initial=1) + 1)))))
        return np.asarray((sums[last] - sums[first - 1]) / (self.n_tied + 1))

    def sampled_pmf(self, n_negatives: int, replacement: bool = False) -> FloatArray:
        """Probabilities of the number of sampled negatives above the item, ties broken at random.

        Without replacement the rank is uniform on first..last, so this is the mean of
        :meth:`Protocol.pmf <sampled_metrics.Protocol.pmf>` over these ranks. Of the
        subsets of m + 1 of the n candidates, C(r - 1, k) C(n - r, m - k) have their (k + 1)-th
        best item at rank r. Summed over r these are the subsets with at most k items above first
        and more than k in the first `last`. So the mean is a difference of two tails.

        With replacement the order of ties is drawn anew for each negative, also for one that comes
        back: the share of candidates above is uniform between its two ends, and the mean of the
        binomial distribution over them is again a difference of two tails, with m + 1 negatives.

        Parameters
        ----------
        n_negatives : int
            m, at least 1; without replacement at most n_candidates - 1.
        replacement : bool
            Whether a negative may come back.

        Returns
        -------
        ndarray of float, shape (n_instances, n_negatives + 1)
            The absolute error is below 1e-12, and for an instance without ties the relative one,
            too.

        Raises
        ------
        ValueError
            If `n_negatives` is outside its range.

        Examples
        --------
        >>> RankIntervals([0, 1], [1, 0], [4, 4]).sampled_pmf(2).round(4)
        array([[0.6667, 0.3333, 0.    ],
               [0.3333, 0.6667, 0.    ]])
        """
        first, last = self.ranks("optimistic"), self.ranks("pessimistic")
        law = Protocol(self.n_candidates, n_negatives, replacement=replacement).pmf(first)
        tied = self.n_tied > 0
        if tied.any():
            # Without replacement one more candidate, the item itself, and one more place to be in.
            candidates, more = self.n_candidates[tied], 0 if replacement else 1
            wider = Protocol(candidates + more, n_negatives + 1, replacement=replacement)
            tails = wider.sf(last[tied] + more) - wider.sf(first[tied])
            places = (n_negatives + 1.0) * (self.n_tied[tied] + more)
            scale = (candidates - 1 + more) / places
            law[tied] = np.maximum(scale[:, np.newaxis] * tails[:, :-1], 0.0)
        return law


def exact_ranks(
    scores: ArrayLike | ScoreBlocks,
    held_out: ArrayLike,
    train: ItemSets | None,
    *,
    relative_tolerance: float = 0.0,
) -> RankIntervals:
    """Rank interval of each instance's held-out item among all items it was not trained on.

    A user's other held-out items are candidates, too: they take places in the user's list. To rank
    among the irrelevant items alone, as the n_better of a log counts, name them in `train`.

    Works through blocks of instances, so that about 16 MiB of scores are held at a time (one
    instance at a time where the catalogue alone is larger).

    Parameters
    ----------
    scores : array_like, shape (n_instances, n_items), or callable
        Higher is better; compared as they are, integers of any width without rounding, and
        infinite ones as level with their equals alone. An item that is masked by minus infinity
        is a candidate all the same: name it in `train` if it is none. A callable gets a slice of
        instances and returns their scores, so that the whole matrix need not exist. Arrays of
        PyTorch, CuPy, JAX and others of the array API standard are counted on their own device.
    held_out : array_like of int, shape (n_instances,)
        Item to rank, in [0, n_items). For several held-out items of one user repeat the user.
    train : sparse matrix (n_instances, n_items), sequence of item lists, or None
        Items that are not candidates: the non-zero entries of each row, or each list. None
        leaves every item a candidate.
    relative_tolerance : float
        In [0, 1). Scores s with abs(s - h) <= relative_tolerance * abs(h), h the held-out item's
        score, count as tied if both are finite; 0 asks for equal numbers. Give a little more
        than the rounding error where equal scores are summed in different orders.

    Returns
    -------
    RankIntervals
        n_candidates is the catalogue less the instance's training items, the held-out item and
        the user's other held-out items included.

    Raises
    ------
    ValueError
        If lengths or shapes do not match, `held_out` is empty, an item is not in the catalogue,
        a held-out item is in its user's training set, a score is NaN or no real number, or the
        tolerance is not in [0, 1).

    Examples
    --------
    >>> intervals = exact_ranks([[0.9, 0.5, 0.5, 0.1]], held_out=[1], train=[[0]])
    >>> intervals.n_better, intervals.n_tied, intervals.n_candidates
    (array([0]), array([1]), array([3]))
    """
    items = _held_out(held_out, None, relative_tolerance)
    blocks = scores if callable(scores) else _blocks_of(scores, items.size)
    first = _block(blocks, slice(0, 1))
    n_items = first.shape[1]
    _held_out(items, n_items, relative_tolerance)
    masked = _as_csr(train, items.size, n_items)
    size = max(1, _BLOCK_ENTRIES // max(1, n_items))

    def tiles(block: slice) -> tuple[_Band, Tile]:
        values = _block(blocks, block, n_items)
        xp = _arrays.namespace(values) or np
        at = _arrays.like(np.arange(values.shape[0]) * n_items + items[block], values)
        own = _arrays.on_host(xp.take(xp.reshape(values, (-1,)), at))
        return _Band(*_band(own, relative_tolerance)), lambda columns: values[:, columns]

    def excluded(block: slice) -> tuple[IntArray, IntArray]:
        return _excluded(items[block], np.arange(items.size)[block], masked)

    better, tied = _count_blocks(
        tiles, excluded, items.size, (size, _TILE_COLUMNS), n_items, like=first
    )
    return RankIntervals(better, tied, n_items - np.diff(masked.indptr))


def _score_counts(
    scores: Callable[[IntArray, slice], Any],
    own: ArrayLike,
    owners: IntArray,
    places: IntArray,
    seen: sp.csr_array,
    tolerance: float = 0.0,
    named: IntArray | None = None,
) -> IntArray:
    """:func:`_shard_counts` for scores that come from elsewhere.

    Parameters
    ----------
    scores : callable
        Gets rows of users, as an array of k' numbers, and a slice of the shard's items, and returns
        a matrix of k' rows in the array library and on the device of its choice.
    own : array_like, shape (k,)
        Scores of the held-out items, as `scores` gives them.
    owners, places, seen, tolerance
        As for :func:`_shard_counts`.
    named : ndarray of int, shape (n_users,), optional
        Numbers of the users in errors.

    Returns
    -------
    ndarray of int, shape (2, k)
        Above, and the same.

    Examples
    --------
    >>> matrix = np.array([[0.9, 0.5, 0.5, 0.1]])
    >>> zero, none = np.array([0]), sp.csr_array((1, 4))
    >>> _score_counts(lambda rows, items: matrix[rows, items], [0.5], zero, zero + 1, none)
    array([[1],
           [1]])
    """
    n_items = seen.shape[1]
    names = np.arange(seen.shape[0]) if named is None else named
    own = real_scores(np.asarray(own)[:, np.newaxis], names[owners])[:, 0]

    def tiles(block: slice) -> tuple[_Band, Tile]:
        distinct, place = np.unique(owners[block], return_inverse=True)
        in_order = np.array_equal(place, np.arange(len(distinct)))

        def tile(columns: slice) -> Any:
            found = scores(distinct, columns)
            found = np.asarray(found) if _arrays.namespace(found) is None else found
            shape = (len(distinct), columns.stop - columns.start)
            if tuple(found.shape) != shape:
                raise ValueError(
                    f"scores must have shape {shape} for so many users and items, got "
                    f"{tuple(found.shape)}"
                )
            found = _real(found, names[distinct])
            if in_order:
                return found
            xp = _arrays.namespace(found) or np
            return xp.take(found, _arrays.like(place, found), axis=0)

        return _Band(*_band(own[block], tolerance)), tile

    def excluded(block: slice) -> tuple[IntArray, IntArray]:
        return _excluded(places[block], owners[block], seen)

    first = scores(np.arange(1), slice(0, 1))
    size = _TILE_ROWS, _TILE_COLUMNS
    return _count_blocks(tiles, excluded, places.size, size, n_items, like=first)


def _real(values: Any, rows: Any) -> Any:
    """Scores checked as :func:`real_scores` does, wherever they are."""
    xp = _arrays.namespace(values)
    if xp is None:
        return real_scores(values, rows)
    if not xp.isdtype(values.dtype, ("real floating", "integral")):
        raise ValueError(f"scores must be real numbers, got dtype {values.dtype}")
    if xp.isdtype(values.dtype, "real floating"):
        bad = xp.any(xp.isnan(values), axis=1)
        if bool(xp.any(bad)):
            row = rows[int(np.argmax(_arrays.on_host(bad)))]
            raise ValueError(f"scores must not be NaN, got one in row {row}")
    return values


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
    """:func:`exact_ranks` for scores that are inner products of user and item factors.

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
        As in :func:`exact_ranks`, `train` having a row for each row of `user_factors`. Without a
        tolerance two products are compared as if summed without rounding, so that ranks are the
        same on every processor, and items of one vector are tied; with one, as they are computed,
        and where a sum could overflow.
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
        :func:`exact_ranks`.

    Examples
    --------
    >>> exact_ranks_from_factors([[1.0, 0.0]], [[3, 1], [2, 9], [1, 0]], [1], None).n_better
    array([1])
    """
    factors, catalogue = _factors(user_factors, item_factors)
    n_items = catalogue.shape[0]
    items = _held_out(held_out, n_items, relative_tolerance)
    owners = _owners(users, items.size, len(factors))
    seen = _as_csr(train, len(factors), n_items)
    own = _arrays.on_host(_arrays.rows(catalogue, items))
    better, tied = _shard_counts(
        factors, catalogue, owners, own, items, seen, relative_tolerance, progress
    )
    return RankIntervals(better, tied, n_items - np.diff(seen.indptr)[owners])


def _shard_counts(
    users: NDArray[Any],
    shard: NDArray[Any],
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
    owners : ndarray of int, shape (k,)
        The row of `users` that each held-out item belongs to.
    places : ndarray of int, shape (k,)
        The row of `shard` that is the held-out item itself, -1 if it is in another part.
    seen : scipy.sparse.csr_array, shape (n_users, n_items)
        Items of the part that are no candidates.
    tolerance, progress
        As `relative_tolerance` and `progress` of :func:`exact_ranks_from_factors`.

    Returns
    -------
    ndarray of int, shape (2, k)
        Above, and the same.

    Examples
    --------
    One user and one held-out item, of factor 2, against three items of which it is the last:

    >>> users, shard = np.array([[1.0]]), np.array([[3.0], [2.0], [2.0]])
    >>> none = sp.csr_array((1, 3))
    >>> _shard_counts(users, shard, np.array([0]), shard[2:], np.array([2]), none)
    array([[1],
           [1]])
    """
    bounds = Bounds.of(users, shard)
    xp = _arrays.namespace(shard)
    n_items = shard.shape[0]
    fast = None if xp is not None else kernels.compiled(users.dtype, places.size * n_items)
    size = (_FAST_ROWS, _FAST_COLUMNS) if fast else (_TILE_ROWS, _TILE_COLUMNS)
    product = np.empty(math.prod(size), dtype=users.dtype)
    most = bounds.of_items.max(initial=0.0)
    exactly = bounds.safe and not tolerance

    def tiles(block: slice) -> tuple[_Band, Tile]:
        distinct, place = np.unique(owners[block], return_inverse=True)
        rows = users[distinct]
        in_order = np.array_equal(place, np.arange(len(rows)))
        factors = _arrays.like(rows if in_order else rows[place], shard)

        def tile(columns: slice) -> NDArray[Any]:
            shape = len(rows), columns.stop - columns.start
            out = product[: math.prod(shape)].reshape(shape)
            with np.errstate(all="ignore"):
                np.matmul(rows, shard[columns].T, out=out)
            if not bounds.safe:
                real_scores(out, distinct)
            return out if in_order else out[place]

        def elsewhere(columns: slice) -> Any:
            with np.errstate(all="ignore"):
                found = xp.matmul(factors, shard[columns, :].T)
            return found if bounds.safe else _real(found, distinct[place])

        tile = tile if xp is None else elsewhere
        if not exactly:
            return _Band(*_band(_own_scores(rows[place], own[block]), tolerance)), tile
        margin = np.zeros(len(place))
        if not bounds.whole:
            longest = np.maximum(norms(own[block]), most)
            margin = radius(users.dtype, users.shape[1], bounds.of_users[distinct][place], longest)
            margin[~np.any(rows, axis=1)[place]] = 0.0  # all scores of such a user are 0
        of_users, of_own = np.ascontiguousarray(rows[place]), np.ascontiguousarray(own[block])

        def settle(instance: IntArray, column: IntArray) -> NDArray[np.int8]:
            found = np.full(len(instance), kernels.OPEN, dtype=np.int8)
            if fast and shard.flags.c_contiguous:
                given = of_users, shard, of_own, instance, column
                found = fast.decide(*given, *doubt(users.shape[1]))
            left = np.flatnonzero(found == kernels.OPEN)
            step = max(1, _PAIR_ENTRIES // max(1, users.shape[1]))
            for start in range(0, left.size, step):
                part = left[start : start + step]
                of_items = _arrays.on_host(_arrays.rows(shard, column[part]))
                each = instance[part]
                found[part] = signs(of_users[each], of_items, of_own[each])
            return found

        band = _Band(*exact_band(of_users, of_own, margin), margin > 0, settle)
        if xp is not None:
            _refuse_coarse(xp.matmul(factors, _arrays.like(of_own, shard).T), band)
        return band, tile

    def excluded(block: slice) -> tuple[IntArray, IntArray]:
        return _excluded(places[block], owners[block], seen)

    return _count_blocks(
        tiles,
        excluded,
        places.size,
        size,
        n_items,
        like=shard,
        fast=fast.count if fast else None,
        progress=progress,
    )


def _refuse_coarse(products: Any, band: _Band) -> None:
    """Raise ValueError if a device does not multiply in the precision of its numbers."""
    found = np.diagonal(_arrays.on_host(products))
    if not ((band.low <= found) & (found <= band.high)).all():
        raise ValueError(
            f"item_factors must be multiplied in the precision of {band.low.dtype}, and their "
            "device rounds further: switch off TF32 or the like"
        )


def _blocks_of(scores: ArrayLike, n_instances: int) -> ScoreBlocks:
    """A whole score matrix as a source of blocks."""
    matrix: Any = np.asarray(scores) if _arrays.namespace(scores) is None else scores
    if matrix.ndim != 2 or matrix.shape[0] != n_instances:
        raise ValueError(
            f"scores must have one row for each of {n_instances} held-out items, got shape "
            f"{matrix.shape}"
        )
    return lambda block: matrix[block, :]


def _block(blocks: ScoreBlocks, block: slice, n_items: int | None = None) -> Any:
    """The scores of a block, checked."""
    values: Any = blocks(block)
    if _arrays.namespace(values) is None:
        values = np.asarray(values)
    rows = block.stop - block.start
    if values.ndim != 2 or values.shape[0] != rows or n_items not in (None, values.shape[1]):
        raise ValueError(
            f"scores must have shape ({rows}, {n_items or 'n_items'}) for {rows} instances, got "
            f"{tuple(values.shape)}"
        )
    return _real(values, range(block.start, block.stop))


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


def _held_out(held_out: ArrayLike, n_items: int | None, tolerance: float) -> IntArray:
    """The items to rank, checked; n_items is None as long as it is not known."""
    items = integers(held_out, "held_out", 0)
    if items.ndim != 1 or not items.size:
        raise ValueError(f"held_out must be a list of one item or more, got shape {items.shape}")
    checked_tolerance(tolerance)
    if n_items is not None and items.max() >= n_items:
        raise ValueError(f"held_out must be < n_items = {n_items}, got {items.max()}")
    return items


def _factors(users: ArrayLike, items: Any) -> tuple[NDArray[Any], Any]:
    """Both factors in the precision in which scores are summed; users' as an array of NumPy."""
    xp = _arrays.namespace(items)
    left, right = np.asarray(_arrays.on_host(users)), np.asarray(items) if xp is None else items
    kinds = [left.dtype, right.dtype if xp is None else _arrays.on_host(right[:1, ...]).dtype]
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


def _as_csr(train: ItemSets | None, n_instances: int, n_items: int) -> sp.csr_array:
    """Training items as a matrix without duplicates or stored zeros; the input stays as it is."""
    if train is None:
        return sp.csr_array((n_instances, n_items))
    if isinstance(train, np.ndarray) and train.ndim > 1:  # zeros and ones, or lists of items?
        raise ValueError(
            "train must be a sparse matrix or a sequence of item lists, got an array of shape "
            f"{train.shape}"
        )
    given: Any = train if sp.issparse(train) else _csr_of_lists(train, n_items)
    matrix: sp.csr_array = sp.csr_array(given, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.shape != (n_instances, n_items):
        raise ValueError(
            f"train must have shape ({n_instances}, {n_items}) to match scores and held_out, got "
            f"{matrix.shape}"
        )
    return matrix


def _csr_of_lists(lists: Sequence[ArrayLike], n_items: int) -> sp.csr_array:
    # An empty list has no dtype of its own.
    rows = [integers(row if np.size(row) else np.zeros(0, int), "train", 0) for row in lists]
    indptr = np.concatenate(([0], np.cumsum([row.size for row in rows], dtype=np.int64)))
    indices = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
    if indices.size and indices.max() >= n_items:
        raise ValueError(f"train must hold items < n_items = {n_items}, got {indices.max()}")
    return sp.csr_array((np.ones(indices.size), indices, indptr), shape=(len(rows), n_items))


def _count_blocks(
    tiles: Callable[[slice], tuple[_Band, Tile]],
    excluded: Callable[[slice], tuple[IntArray, IntArray]],
    n_instances: int,
    size: tuple[int, int],
    n_items: int,
    *,
    like: Any,
    fast: kernels.Pass | None = None,
    progress: bool = False,
) -> IntArray:
    """Both counts of all instances, `size` of them, and of items, at a time.

    `tiles` gives what counts as tied with them, and all scores, which are in the library of `like`;
    `excluded` what is not counted. `fast` counts scores that are in C order.
    """
    count: Callable[..., IntArray] = _arrays.count
    if _arrays.namespace(like) is None:
        width = min(size[1], -(-n_items // 8) * 8)
        if fast is None:
            hits = np.zeros((2, min(size[0], n_instances), width), dtype=bool)
            fast = partial(_count_tile, hits=hits)
        count = partial(_count, width=width, count_tile=fast)
    counts = [np.zeros((2, 0), dtype=np.int64)]
    starts = range(0, n_instances, size[0])
    for start in _progress.bar(starts, desc="ranks", unit="block", show=progress):
        block = slice(start, min(start + size[0], n_instances))
        band, tile = tiles(block)
        counts.append(count(tile, band, excluded(block), n_items))
    return np.concatenate(counts, axis=1)


def _excluded(places: IntArray, owners: IntArray, train: sp.csr_array) -> tuple[IntArray, IntArray]:
    """Row and column of each score of a block that is not counted: training items and the own.

    `owners` are the rows of `train` that the block's instances belong to.
    """
    starts, ends = train.indptr[owners], train.indptr[owners + 1]
    row = np.repeat(np.arange(len(owners)), ends - starts)
    before = np.cumsum(ends - starts, dtype=np.int64) - ends
    column = train.indices[np.arange(row.size) - before[row]].astype(np.int64)
    rows = np.flatnonzero(places >= 0)
    if (column == places[row]).any():
        item = column[column == places[row]][0]
        raise ValueError(f"held_out must not be a training item of its own user, got item {item}")
    return np.concatenate((row, rows)), np.concatenate((column, places[rows]))


def _count(
    tile: Tile,
    band: _Band,
    excluded: tuple[IntArray, IntArray],
    n_items: int,
    *,
    width: int,
    count_tile: kernels.Pass,
) -> IntArray:
    """`n_better` and `n_tied` of a block: comparisons with both ends of what counts as tied."""
    bounds = np.stack([band.low, band.high])
    unclear = np.zeros(len(band.low), dtype=bool) if band.unclear is None else band.unclear
    counts = np.zeros((2, len(band.low)), dtype=np.int64)
    pairs: list[tuple[IntArray, IntArray]] = []
    waiting = 0
    starts = range(0, n_items, width)
    for start, out in zip(starts, _by_tile(excluded, len(starts), width), strict=True):
        scores = tile(slice(start, min(start + width, n_items)))
        row, column = count_tile(scores, bounds, unclear, *out, counts)
        pairs.append((row, start + column))
        waiting += len(row)
        if waiting > _MOST_PAIRS or start == starts[-1]:
            counts += band.moved(*(np.concatenate(each) for each in zip(*pairs, strict=True)))
            pairs.clear()
            waiting = 0
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
) -> tuple[IntArray, IntArray]:
    """What :func:`.kernels.counting` does in one pass, in several of NumPy.

    `hits` are two tiles to work in, of as many rows or more.
    """
    n_rows, n_columns = scores.shape
    hits = hits[:, :n_rows]
    hits[:, :, n_columns:] = False
    found = []
    # NumPy copies the operand that is broadcast, at a third of the speed, while rows are shorter
    # than its buffer.
    buffer = np.setbufsize(max(16, n_columns // 16 * 16))  # must be a multiple of 16
    try:
        ends = (np.greater, bounds[1]), (np.greater_equal, bounds[0])
        for above, (compare, bound) in zip(hits, ends, strict=True):
            compare(scores, bound[:, np.newaxis], out=above[:, :n_columns])
            above[out_row, out_column] = False
            found.append(_row_sums(above))
    finally:
        np.setbufsize(buffer)
    counts += found
    rows = np.flatnonzero(unclear & (found[0] != found[1]))
    words = hits.view(np.uint64)  # above the one end and not above the other: eight at a time
    within = (words[0, rows] ^ words[1, rows]).view(np.bool_)
    row, column = np.divmod(np.flatnonzero(within), hits.shape[2])
    return rows[row], column


@dataclass(frozen=True, eq=False)
class _Band:
    """The lowest and the highest score that may count as tied with each instance's own.

    What is within it is tied, unless `settle` is given: it then says of the pairs of these
    instances (rows of `unclear`) and columns whether they are above (1), tied (0) or below (-1).
    """

    low: NDArray[Any]
    high: NDArray[Any]
    unclear: NDArray[np.bool_] | None = None
    settle: Callable[[IntArray, IntArray], NDArray[np.int8]] | None = None

    def moved(self, rows: IntArray, columns: IntArray) -> IntArray:
        """What is to be added to the counts above, and at least level, of each instance."""
        if self.settle is None or not rows.size:
            return np.zeros((2, len(self.low)), dtype=np.int64)
        sign, n = self.settle(rows, columns), len(self.low)
        above, below = (np.bincount(rows[sign == at], minlength=n) for at in (1, -1))
        return np.stack([above, -below])


def _by_tile(
    entries: tuple[IntArray, IntArray], n_tiles: int, width: int
) -> list[tuple[IntArray, IntArray]]:
    """Row and column, within the tile, of the entries of each tile."""
    # A stable sort of numbers with few bits takes one pass or two.
    tile = (entries[1] // width).astype(np.min_scalar_type(n_tiles))
    order = np.argsort(tile, kind="stable")
    row, column = entries[0][order], entries[1][order] % width
    edges = np.searchsorted(tile[order], np.arange(n_tiles + 1)).tolist()
    return [(row[a:b], column[a:b]) for a, b in pairwise(edges)]


def _band(own: NDArray[Any], tolerance: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lowest and the highest score that count as tied with each instance's own.

    In the type of the scores, since mixed comparisons are slow, and rounded inwards.
    """
    if not tolerance:
        return own, own
    if own.dtype.kind != "f":  # as Python's whole numbers, which have no largest
        parts, whole = tolerance.as_integer_ratio()
        exact, limits = own.astype(object), np.iinfo(own.dtype)
        margin = abs(exact) * parts // whole
        ends = np.maximum(exact - margin, limits.min), np.minimum(exact + margin, limits.max)
        return ends[0].astype(own.dtype), ends[1].astype(own.dtype)
    centre = own.astype(np.result_type(own, np.float64))
    with np.errstate(all="ignore"):
        margin = tolerance * np.where(np.isfinite(centre), np.abs(centre), 0)
        low, high = (centre - margin).astype(own.dtype), (centre + margin).astype(own.dtype)
        low = np.where(centre - low > margin, np.nextafter(low, own), low)
        high = np.where(high - centre > margin, np.nextafter(high, own), high)
    return low, high


def _row_sums(hits: NDArray[np.bool_]) -> IntArray:
    """How many are true in each row: words of eight counters are added, none beyond 255."""
    words: NDArray[np.uint64] = np.add.reduce(hits.view(np.uint64), axis=1)
    sums: IntArray = words.view(np.uint8).reshape(len(hits), 8).sum(axis=1, dtype=np.int64)
    return sums

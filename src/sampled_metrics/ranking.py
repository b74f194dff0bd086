"""Exact ranks of held-out items in the whole catalogue, ties kept as intervals.

A recommender that gives many items the same score does not say which comes first, and the
metric of its ranking then depends on a choice that most code makes without a word. Here the
choice is kept open: :func:`exact_ranks` counts how many candidates score above the held-out
item and how many score the same. Metrics are averaged over the order of ties if no other policy
is named; a rank has no such mean, and asks for a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from . import _progress
from ._validate import (
    FloatArray,
    IntArray,
    as_written,
    checked_tolerance,
    generator,
    integers,
    real_scores,
    span,
)
from .metrics import Metric
from .metrics import metric as parsed
from .protocol import Protocol

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
        if metric.kind == "auc":  # linear in the rank, so its mean is that of the two ends
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
        instances and returns their scores, so that the whole matrix need not exist.
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
    n_items = _block(blocks, slice(0, 1)).shape[1]
    _held_out(items, n_items, relative_tolerance)
    masked = _as_csr(train, items.size, n_items)
    size = max(1, _BLOCK_ENTRIES // max(1, n_items))

    def tiles(block: slice) -> tuple[NDArray[Any], Tile]:
        values = _block(blocks, block, n_items)
        own = values[np.arange(len(values)), items[block]]
        return own, lambda columns: values[:, columns]

    owners = np.arange(items.size)
    return _count_blocks(tiles, items, masked, owners, size, relative_tolerance, progress=False)


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
    while they are in the cache, which takes little longer than the product alone. They are
    summed in float32 where both factors are float32, as a library does that serves from them,
    and in float64 otherwise. The other held-out items of a row are candidates, too;
    :func:`~.readers.rank_files` can leave them out.

    Parameters
    ----------
    user_factors : array_like, shape (n_users, n_factors)
    item_factors : array_like, shape (n_items, n_factors)
    held_out, train, relative_tolerance
        As in :func:`exact_ranks`, `train` having a row for each row of `user_factors`. Two items
        with one vector of factors may get scores that differ in the last bit, which a tolerance
        of about 1e-12 evens out (1e-5 in float32).
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
    items = _held_out(held_out, len(catalogue), relative_tolerance)
    owners = _owners(users, items.size, len(factors))
    seen = _as_csr(train, len(factors), len(catalogue))
    product = np.empty((_TILE_ROWS, _TILE_COLUMNS), dtype=factors.dtype)
    safe = _cannot_overflow(factors, catalogue)

    def tiles(block: slice) -> tuple[NDArray[Any], Tile]:
        distinct, place = np.unique(owners[block], return_inverse=True)
        rows = factors[distinct]
        in_order = np.array_equal(place, np.arange(len(rows)))

        def tile(columns: slice) -> NDArray[Any]:
            out = product[: len(rows), : columns.stop - columns.start]
            with np.errstate(all="ignore"):
                np.matmul(rows, catalogue[columns].T, out=out)
            if not safe:
                real_scores(out, distinct)
            return out if in_order else out[place]

        return _own_scores(rows[place], catalogue[items[block]]), tile

    return _count_blocks(tiles, items, seen, owners, _TILE_ROWS, relative_tolerance, progress)


def _blocks_of(scores: ArrayLike, n_instances: int) -> ScoreBlocks:
    """A whole score matrix as a source of blocks."""
    matrix = np.asarray(scores)
    if matrix.ndim != 2 or len(matrix) != n_instances:
        raise ValueError(
            f"scores must have one row for each of {n_instances} held-out items, got shape "
            f"{matrix.shape}"
        )
    return lambda block: matrix[block]


def _block(blocks: ScoreBlocks, block: slice, n_items: int | None = None) -> NDArray[Any]:
    """The scores of a block, checked."""
    values = np.asarray(blocks(block))
    rows = block.stop - block.start
    if values.ndim != 2 or len(values) != rows or n_items not in (None, values.shape[1]):
        raise ValueError(
            f"scores must have shape ({rows}, {n_items or 'n_items'}) for {rows} instances, got "
            f"{values.shape}"
        )
    return real_scores(values, range(block.start, block.stop))


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


def _factors(users: ArrayLike, items: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both factors in the precision in which scores are summed."""
    given = [np.asarray(users), np.asarray(items)]
    single = all(factors.dtype == np.float32 for factors in given)
    for name, factors in zip(("user_factors", "item_factors"), given, strict=True):
        if factors.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be real numbers, got dtype {factors.dtype}")
    left, right = (
        factors.astype(np.float32 if single else np.float64, copy=False) for factors in given
    )
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise ValueError(
            "user_factors and item_factors must be matrices of one width, got shapes "
            f"{left.shape} and {right.shape}"
        )
    return left, right


def _cannot_overflow(users: NDArray[Any], items: NDArray[Any]) -> bool:
    """Whether every score is finite, because the largest sum of products is."""
    largest = [max(float(f.max(initial=0)), -float(f.min(initial=0))) for f in (users, items)]
    bound = largest[0] * largest[1] * users.shape[1]
    return bool(bound < np.finfo(users.dtype).max / 2)  # False for NaN


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
    tiles: Callable[[slice], tuple[NDArray[Any], Tile]],
    items: IntArray,
    train: sp.csr_array,
    owners: IntArray,
    size: int,
    tolerance: float,
    progress: bool,
) -> RankIntervals:
    """Rank intervals, `size` instances at a time; `tiles` gives their own scores and all scores.

    `owners` are the rows of `train` that the instances belong to.
    """
    counts = []
    starts = range(0, items.size, size)
    for start in _progress.bar(starts, desc="ranks", unit="block", show=progress):
        block = slice(start, min(start + size, items.size))
        own, tile = tiles(block)
        excluded = _excluded(items[block], train[owners[block]])
        counts.append(_count(tile, own, excluded, train.shape[1], tolerance))
    better, tied = np.concatenate(counts, axis=1)
    return RankIntervals(better, tied, train.shape[1] - np.diff(train.indptr)[owners])


def _excluded(items: IntArray, train: sp.csr_array) -> tuple[IntArray, IntArray]:
    """Row and column of each score of a block that is not counted: training items and the own."""
    rows = np.arange(len(items))
    row, column = np.repeat(rows, np.diff(train.indptr)), train.indices
    if (column == items[row]).any():
        item = column[column == items[row]][0]
        raise ValueError(f"held_out must not be a training item of its own user, got item {item}")
    return np.concatenate((row, rows)), np.concatenate((column, items))


def _count(
    tile: Tile,
    own: NDArray[Any],
    excluded: tuple[IntArray, IntArray],
    n_items: int,
    tolerance: float,
) -> tuple[IntArray, IntArray]:
    """`n_better` and `n_tied` of a block: comparisons with both ends of what counts as tied."""
    low, high = _band(own, tolerance)
    comparisons = ((np.greater, high[:, np.newaxis]), (np.greater_equal, low[:, np.newaxis]))
    counts = np.zeros((2, len(own)), dtype=np.int64)
    hits = np.zeros((len(own), _TILE_COLUMNS), dtype=bool)
    # NumPy copies the operand that is broadcast, at a third of the speed, while rows are shorter
    # than its buffer.
    buffer = np.setbufsize(_TILE_COLUMNS // 16 * 16)  # must be a multiple of 16
    try:
        starts = range(0, n_items, _TILE_COLUMNS)
        for start, out in zip(starts, _by_tile(excluded, len(starts)), strict=True):
            scores = tile(slice(start, min(start + _TILE_COLUMNS, n_items)))
            hits[:, scores.shape[1] :] = False
            for count, (compare, bound) in zip(counts, comparisons, strict=True):
                compare(scores, bound, out=hits[:, : scores.shape[1]])
                hits[out] = False
                count += _row_sums(hits)
    finally:
        np.setbufsize(buffer)
    return counts[0], counts[1] - counts[0]


def _by_tile(entries: tuple[IntArray, IntArray], n_tiles: int) -> list[tuple[IntArray, IntArray]]:
    """Row and column, within the tile, of the entries of each tile."""
    # A stable sort of numbers with few bits takes one pass or two.
    tile = (entries[1] // _TILE_COLUMNS).astype(np.min_scalar_type(n_tiles))
    order = np.argsort(tile, kind="stable")
    row, column = entries[0][order], entries[1][order] % _TILE_COLUMNS
    edges = np.searchsorted(tile[order], np.arange(n_tiles + 1))
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

"""Exact ranks by blocks of users and shards of items, in this process or on a Dask cluster.

A rank is one plus a count, and the count over a catalogue is the sum of the counts over its shards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import _progress
from .._validate import IntArray, as_intp
from .cluster import count_on_cluster
from .job import Job, Trial, sum_of

if TYPE_CHECKING:
    import pandas as pd

_SHARD_BYTES = 2**26  # size of the factors of a shard, in float64
#: Multiplications of a task: at least a third of a second, so that scheduling is cheap in
#: comparison; at most half a minute, so that a lost worker loses little; about 1024 in between.
_LEAST_WORK, _MOST_WORK, _TASKS = 2**32, 2**38, 1024
_BLOCK_ROWS = (256, 2**16)  # least and most held-out items of a block


@dataclass(frozen=True)
class Layout:
    """Blocks of held-out items, whole users each, and shards of the catalogue.

    It depends on sizes only.
    """

    blocks: list[slice]
    shards: list[slice]

    @classmethod
    def of(cls, users: IntArray, n_items: int, width: int) -> Layout:
        """The layout for held-out items in ascending order of `users`."""
        n_shards = max(1, math.ceil(n_items * width * 8 / _SHARD_BYTES))
        size = math.ceil(n_items / n_shards)
        work = min(max(_LEAST_WORK, users.size * n_items * width // _TASKS), _MOST_WORK)
        rows = min(max(_BLOCK_ROWS[0], work // (size * width)), _BLOCK_ROWS[1])
        user_starts = np.flatnonzero(np.diff(users, prepend=-1))  # where a user begins
        block_starts = user_starts[
            np.searchsorted(user_starts, np.arange(0, users.size, rows), side="right") - 1
        ]
        edges = [*np.unique(block_starts).tolist(), users.size]
        blocks = [slice(start, stop) for start, stop in pairwise(edges)]
        starts = range(0, n_items, size)
        return cls(blocks, [slice(start, min(start + size, n_items)) for start in starts])


def ranked(
    job: Job,
    frame: pd.DataFrame,
    seen: sp.csr_array | None,
    *,
    cluster: Any = None,
    progress: bool = False,
) -> pd.DataFrame:
    """The frame of :class:`~sampled_metrics.results.Ranks` for columns user and item, sorted by
    user.

    `seen` are the items that are not candidates, shape (n_users, n_items).
    """
    users, items = (frame[name].to_numpy() for name in ("user", "item"))
    n_candidates = np.full(len(frame), job.shape[1], dtype=np.int64)
    if seen is not None:
        n_candidates -= np.diff(seen.indptr)[users]
    layout = Layout.of(users, job.shape[1], job.width)
    run = _count_here if cluster is None else partial(count_on_cluster, cluster)
    blocks = ((block, _tasks(layout, block, users, items, seen)) for block in layout.blocks)
    ends = layout.shards[0], layout.shards[-1]
    trial_shards = [slice(shard.start, min(shard.start + 8, shard.stop)) for shard in ends]
    trial = np.unique(users[layout.blocks[0]])[:4], trial_shards
    better, tied = np.zeros((2, len(frame)), dtype=np.int64)
    with _progress.bar(total=len(layout.blocks), desc="ranks", unit="block", show=progress) as bar:
        for block, counts in run(job, trial, blocks, len(layout.shards)):
            better[block], tied[block] = counts
            bar.update(1)
    ranks = frame.assign(n_better=better, n_tied=tied, n_candidates=n_candidates)
    return _with_relevant(ranks)


def ranked_lazily(
    job: Job,
    frame: pd.DataFrame,
    seen: sp.csr_array | None,
    stop_at: int,
    candidates: sp.csr_array | None,
) -> tuple[pd.DataFrame, int]:
    """As :func:`ranked`, but a user's count ends once `stop_at` items are above each of its items.

    First the user's `candidates` are scored; without them, one part of the items after another,
    each as large as all before. A column `stopped` says whose counts are incomplete. Also returns
    how many scores there were.
    """
    users, items = (frame[name].to_numpy() for name in ("user", "item"))
    seen = sp.csr_array(job.shape) if seen is None else seen
    job.tried(np.unique(users)[:4], [slice(0, min(8, job.shape[1]))])
    counts, is_open = np.zeros((2, len(frame)), dtype=np.int64), np.ones(len(frame), dtype=bool)
    start, stop, n_scores = 0, min(4 * stop_at, job.shape[1]), 0
    if candidates is not None:
        above, sizes = _above_among(job, users, items, seen, candidates)
        is_open = np.isin(users, users[above < stop_at])
        counts[0], n_scores = np.where(is_open, 0, above), int(sizes[~is_open].sum())
        stop = job.shape[1]
    while start < job.shape[1] and is_open.any():
        rows = np.flatnonzero(is_open)
        blocks = Layout.of(users[rows], job.shape[1], job.width).blocks
        for block in blocks:
            layout = Layout([block], [slice(start, stop)])
            for task in _tasks(layout, block, users[rows], items[rows], seen):
                counts[:, rows[block]] += job.counts(*task)
        n_scores += np.unique(users[rows]).size * (stop - start)
        start, stop = stop, min(2 * stop, job.shape[1])
        if start < job.shape[1]:
            is_open &= np.isin(users, users[counts[0] < stop_at])
    n_candidates = job.shape[1] - np.diff(seen.indptr)[users]
    names = ("n_better", "n_tied")
    ranks = frame.assign(**dict(zip(names, counts, strict=True)), n_candidates=n_candidates)
    ranks = _with_relevant(ranks).assign(stopped=~is_open)
    ranks["n_tied"] = ranks["n_tied"].where(is_open, ranks["relevant_tied"])
    return ranks, n_scores


def _above_among(
    job: Job, users: IntArray, items: IntArray, seen: sp.csr_array, candidates: sp.csr_array
) -> IntArray:
    """How many of its user's candidates are above each item; and the scores of the first items."""
    counts = np.zeros((2, users.size), dtype=np.int64)
    starts = np.flatnonzero(np.diff(users, prepend=-1))
    for start, stop in pairwise([*starts.tolist(), users.size]):
        user = users[[start]]
        shard = np.setdiff1d(candidates[user].indices, seen[user].indices).astype(np.int64)
        counts[1, start] = np.union1d(shard, items[start:stop]).size
        if shard.size:
            task = users[start:stop], items[start:stop], shard, np.zeros((2, 0), dtype=np.int64)
            counts[0, start:stop] = job.counts(*task)[0]
    return counts


def _with_relevant(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the number of the user's test items, and of the others above and equal."""
    # One user's items are ordered by n_better, and equal scores have equal n_better.
    tie_sizes = frame.groupby(["user", "n_better"])["item"].transform("size")
    return frame.assign(
        n_relevant=frame.groupby("user")["item"].transform("size"),
        relevant_better=frame.groupby("user")["n_better"].rank(method="min").astype(np.int64) - 1,
        relevant_tied=tie_sizes - 1,
    )


def _tasks(
    layout: Layout, block: slice, users: IntArray, held_out: IntArray, seen: sp.csr_array | None
) -> Iterator[tuple[IntArray, IntArray, slice, IntArray]]:
    """Arguments of :meth:`Job.counts` for each shard."""
    block_users = users[block]
    row = column = np.zeros(0, np.int32)
    if seen is not None:
        distinct = np.unique(block_users)
        seen_rows = seen[distinct]
        order = np.argsort(seen_rows.indices, kind="stable")
        column = seen_rows.indices[order]
        lengths = as_intp(np.diff(seen_rows.indptr))
        row = np.repeat(np.arange(len(distinct), dtype=np.int32), lengths)[order]
    for shard in layout.shards:
        start, stop = np.searchsorted(column, [shard.start, shard.stop])
        pairs = np.stack([row[start:stop], column[start:stop] - shard.start])
        yield block_users, held_out[block], shard, pairs


def _count_here(
    job: Job, trial: Trial, blocks: Iterator[Any], n_shards: int
) -> Iterator[tuple[slice, IntArray]]:
    job.tried(*trial)
    for block, tasks in blocks:
        yield block, sum_of(*(job.counts(*task) for task in tasks))

"""Exact ranks by blocks of users and shards of items, in this process or on a Dask cluster.

A rank is one plus a count, and the count over a catalogue is the sum of the counts over its shards.
Finished blocks are written at once.
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
from .parts import Parts

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

    It depends on sizes only, so that a run can be resumed with other workers.
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
    all_candidates: bool = True,
    parts: Parts | None = None,
    cluster: Any = None,
    progress: bool = False,
) -> pd.DataFrame:
    """The frame of :class:`~sampled_metrics.results.Ranks` for columns user and item, sorted by
    user.

    `seen` are the items that are not candidates, shape (n_users, n_items); `parts` holds finished
    blocks of an earlier run and receives new ones.
    """
    import pandas as pd

    users, items = (frame[name].to_numpy() for name in ("user", "item"))
    n_candidates = np.full(len(frame), job.shape[1], dtype=np.int64)
    if seen is not None:
        n_candidates -= np.diff(seen.indptr)[users]
    layout = Layout.of(users, job.shape[1], job.width)
    tables: dict[int, pd.DataFrame] = {}
    if parts is not None:
        for number, block in enumerate(layout.blocks):
            finished = parts.read(number, frame.iloc[block].reset_index(drop=True))
            if finished is not None:
                tables[number] = finished
    skip = set(tables)
    for number, block, counts in _counted(
        job, layout, users, items, seen, cluster=cluster, skip=skip, progress=progress
    ):
        table = frame.iloc[block].reset_index(drop=True)
        table["n_better"], table["n_tied"] = counts
        table["n_candidates"] = n_candidates[block]
        tables[number] = _with_relevant(table, all_candidates)
        if parts is not None:
            parts.write(number, tables[number])
    return pd.concat([tables[number] for number in sorted(tables)], ignore_index=True)


def _with_relevant(frame: pd.DataFrame, all_candidates: bool) -> pd.DataFrame:
    """Add counts of the user's other test items above and equal; drop them from candidates if
    asked.
    """
    # One user's items are ordered by n_better, and equal scores have equal n_better.
    tie_sizes = frame.groupby(["user", "n_better"])["item"].transform("size")
    above = frame.groupby("user")["n_better"].rank(method="min").astype(np.int64) - 1
    ranks = frame.assign(
        n_relevant=frame.groupby("user")["item"].transform("size"),
        relevant_better=above,
        relevant_tied=tie_sizes - 1,
    )
    if not all_candidates:
        ranks["n_better"] -= ranks["relevant_better"]
        ranks["n_tied"] -= ranks["relevant_tied"]
        ranks["n_candidates"] -= ranks["n_relevant"] - 1
    return ranks


def _counted(
    job: Job,
    layout: Layout,
    users: IntArray,
    held_out: IntArray,
    seen: sp.csr_array | None,
    *,
    cluster: Any,
    skip: set[int],
    progress: bool,
) -> Iterator[tuple[int, slice, IntArray]]:
    """Number, rows and counts of each block as it finishes, in any order."""
    unfinished = [
        (block_index, block)
        for block_index, block in enumerate(layout.blocks)
        if block_index not in skip
    ]
    with _progress.bar(total=len(layout.blocks), desc="ranks", unit="block", show=progress) as bar:
        bar.update(len(skip))
        if not unfinished:
            return
        run = _count_here if cluster is None else partial(count_on_cluster, cluster)
        arguments = (
            (block_index, block, _tasks(layout, block, users, held_out, seen))
            for block_index, block in unfinished
        )
        end_shards = layout.shards[0], layout.shards[-1]
        trial_shards = [
            slice(shard.start, min(shard.start + 8, shard.stop)) for shard in end_shards
        ]
        trial = np.unique(users[unfinished[0][1]])[:4], trial_shards
        for number, block, counts in run(job, trial, arguments, len(layout.shards)):
            bar.update(1)
            yield number, block, counts


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
) -> Iterator[tuple[int, slice, IntArray]]:
    job.tried(*trial)
    for number, block, tasks in blocks:
        yield number, block, sum_of(*(job.counts(*task) for task in tasks))

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
from .._validate import IntArray
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
        first = np.flatnonzero(np.diff(users, prepend=-1))  # where a user begins
        at = first[np.searchsorted(first, np.arange(0, users.size, rows), side="right") - 1]
        edges = [*np.unique(at).tolist(), users.size]
        blocks = [slice(a, b) for a, b in pairwise(edges)]
        starts = range(0, n_items, size)
        return cls(blocks, [slice(a, min(a + size, n_items)) for a in starts])


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
    n_candidates = np.full(len(frame), job.shape[1])
    if seen is not None:
        n_candidates -= np.diff(seen.indptr)[users]
    layout = Layout.of(users, job.shape[1], job.width)
    tables: dict[int, pd.DataFrame] = {}
    if parts is not None:
        for number, block in enumerate(layout.blocks):
            kept = parts.read(number, frame.iloc[block].reset_index(drop=True))
            if kept is not None:
                tables[number] = kept
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
    same = frame.groupby(["user", "n_better"])["item"].transform("size")
    above = frame.groupby("user")["n_better"].rank(method="min").astype(np.int64) - 1
    result = frame.assign(
        n_relevant=frame.groupby("user")["item"].transform("size"),
        relevant_better=above,
        relevant_tied=same - 1,
    )
    if not all_candidates:
        result["n_better"] -= result["relevant_better"]
        result["n_tied"] -= result["relevant_tied"]
        result["n_candidates"] -= result["n_relevant"] - 1
    return result


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
    wanted = [(n, block) for n, block in enumerate(layout.blocks) if n not in skip]
    with _progress.bar(
        total=len(layout.blocks), desc="ranks", unit="block", show=progress
    ) as shown:
        shown.update(len(skip))
        if not wanted:
            return
        run = _count_here if cluster is None else partial(count_on_cluster, cluster)
        arguments = (
            (n, block, _tasks(layout, block, users, held_out, seen)) for n, block in wanted
        )
        ends = layout.shards[0], layout.shards[-1]
        few = [slice(at.start, min(at.start + 8, at.stop)) for at in ends]
        trial = np.unique(users[wanted[0][1]])[:4], few
        for number, block, counts in run(job, trial, arguments, len(layout.shards)):
            shown.update(1)
            yield number, block, counts


def _tasks(
    layout: Layout, block: slice, users: IntArray, held_out: IntArray, seen: sp.csr_array | None
) -> Iterator[tuple[IntArray, IntArray, slice, IntArray]]:
    """Arguments of :meth:`Job.counts` for each shard."""
    of = users[block]
    row = column = np.zeros(0, np.int32)
    if seen is not None:
        distinct = np.unique(of)
        rows = seen[distinct]
        order = np.argsort(rows.indices, kind="stable")
        column = rows.indices[order]
        row = np.repeat(np.arange(len(distinct), dtype=np.int32), np.diff(rows.indptr))[order]
    for shard in layout.shards:
        a, b = np.searchsorted(column, [shard.start, shard.stop])
        pairs = np.stack([row[a:b], column[a:b] - shard.start])
        yield of, held_out[block], shard, pairs


def _count_here(
    job: Job, trial: Trial, blocks: Iterator[Any], n_shards: int
) -> Iterator[tuple[int, slice, IntArray]]:
    job.tried(*trial)
    for number, block, tasks in blocks:
        yield number, block, sum_of(*(job.counts(*task) for task in tasks))

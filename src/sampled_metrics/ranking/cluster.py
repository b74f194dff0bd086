"""Blocks of users counted by Dask tasks, which survive the loss of workers."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._validate import IntArray, as_written, unimported
from ..numerics import arrays
from ..numerics.arrays import on_host
from .job import Input, Job, Trial, as_index, sum_of

_IN_FLIGHT = 64  # most tasks at the scheduler, or four per thread if that is more


def count_on_cluster(
    cluster: Any, job: Job, trial: Trial, blocks: Iterator[Any], n_shards: int
) -> Iterator[tuple[slice, IntArray]]:
    """Rows and counts of each block; a bounded number of tasks is submitted at a time."""
    from distributed import KilledWorker, as_completed

    with _connected(cluster) as (client, local), TemporaryDirectory() as scratch:
        portable_job = _portable(job, Path(scratch) if local else None)
        rows_of = partial(_future_rows, client)
        # A task's result is recomputed if its worker dies; scattered data would be lost.
        computed = [rows_of(job.users, trial[0]), *(rows_of(job.items, x) for x in trial[1])]
        shared = client.submit(Job.tried, portable_job, *trial, computed, pure=False)
        window = math.ceil(max(_IN_FLIGHT, 4 * sum(client.nthreads().values())) / n_shards)
        shards: dict[int, Any] = {}  # futures of their rows, if items are a Dask array
        waiting: dict[Any, slice] = {}
        done = as_completed(loop=client.loop)

        def submit(block: slice, tasks: Iterator[Any]) -> None:
            with _reached(client):
                counts: list[Any] = []
                for task in tasks:
                    users, held_out, shard, _ = task
                    if not counts:
                        user_rows = rows_of(job.users, as_index(np.unique(users)))
                        own_rows = rows_of(job.items, held_out)
                    if shard.start not in shards:
                        shards[shard.start] = rows_of(job.items, shard)
                    rows = user_rows, shards[shard.start], own_rows
                    counts.append(client.submit(Job.counts, shared, *task, rows, pure=False))
                total = client.submit(sum_of, *counts, pure=False, priority=1)
                waiting[total] = block
                done.add(total)

        try:
            for block, tasks in islice(blocks, window):
                submit(block, tasks)
            for total in done:
                yield waiting.pop(total), _result(client, total)
                for block, tasks in islice(blocks, 1):
                    submit(block, tasks)
        except KilledWorker:
            raise MemoryError(
                "workers died again and again at one block of users, perhaps for want of memory: "
                "give each worker more, or fewer threads"
            ) from None
        finally:
            with suppress(Exception):
                client.cancel(list(waiting))


def _future_rows(client: Any, job_input: Input | None, row_index: slice | IntArray) -> Any:
    """A future of rows of a Dask array; None if each task opens the input itself."""
    if job_input is None or not job_input.lazy:
        return None
    return client.compute(arrays.rows(job_input.values, row_index))


def _result(client: Any, total: Any) -> IntArray:
    """The result of a finished task, or its error."""
    with _reached(client):
        problem = total.exception()
        if problem is None or isinstance(problem, CancelledError):
            counts: IntArray = total.result()
            return counts
    raise problem


@contextmanager
def _reached(client: Any) -> Iterator[None]:
    """Turn any sign that the scheduler is gone into one ConnectionError."""
    try:
        yield
    except Exception as problem:
        lost = isinstance(problem, OSError | CancelledError)
        if not lost and client.status in ("running", "connecting"):
            raise
        raise ConnectionError(
            f"the scheduler at {client.scheduler.address} is gone, so begin again"
        ) from None


def _portable(job: Job, scratch: Path | None) -> Job:
    """The job with matrices saved to files that workers can map; without them for Dask arrays."""
    inputs: dict[str, Any] = {}
    for name in ("users", "items"):
        job_input = getattr(job, name)
        if job_input is None or (job_input.path is None and np.ndim(job_input.values) == 1):
            inputs[name] = job_input
        elif job_input.path is not None:
            inputs[name] = Input(job_input.name, os.path.abspath(job_input.path))
        elif job_input.lazy:
            inputs[name] = Input(job_input.name)  # tasks receive its rows
        elif scratch is None:
            raise ValueError(
                f"{name} must be a file that every worker can read, got an array: save it with "
                "numpy.save where the workers find it"
            )
        else:
            path = scratch / f"{name}.npy"
            np.save(path, on_host(job_input.values))
            inputs[name] = Input(job_input.name, str(path))
    return replace(job, **inputs)


@contextmanager
def _connected(cluster: Any) -> Iterator[tuple[Any, bool]]:
    """A client of the cluster, and whether the cluster was started here for this run."""
    try:
        from distributed import Client, LocalCluster
    except Exception as problem:  # a broken library raises any
        sentence = "cluster needs Dask: install sampled-metrics[cluster], or dask and distributed"
        raise unimported("distributed", problem, sentence) from None
    if isinstance(cluster, Client):
        if cluster.asynchronous:
            raise ValueError("cluster must be a client that waits, got an asynchronous one")
        yield cluster, False
        return
    if not isinstance(cluster, str):
        raise ValueError(
            "cluster must be an address, 'local:N' or a distributed.Client, got "
            f"{as_written(cluster)}"
        )
    match = re.fullmatch(r"local(?::(\d+))?", cluster)
    if match:
        workers = int(match[1] or os.cpu_count() or 1)
        if not workers:
            raise ValueError("cluster must have one worker or more, got 'local:0'")
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                silence_logs=50,
            ) as local_cluster,
            Client(local_cluster, set_as_default=False) as client,
        ):
            yield client, True
        return
    try:
        client = Client(cluster, set_as_default=False, timeout="10s")
    except (OSError, ValueError) as problem:
        reason = str(problem).split("\n")[0]
        raise ValueError(
            "cluster must be the address of a scheduler that answers, or local:N, got "
            f"{cluster!r}: {reason}"
        ) from None
    with client:
        yield client, False

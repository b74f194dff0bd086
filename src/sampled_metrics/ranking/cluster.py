"""Blocks of users counted by Dask tasks, which survive the loss of workers."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._validate import IntArray, as_written, unimported
from ..numerics import arrays
from ..numerics.arrays import on_host
from .job import Job, Source, Trial, as_index, sum_of

_IN_FLIGHT = 64  # most tasks at the scheduler, or four per thread if that is more
_ATTEMPTS = 10  # times a block may be lost with its workers
_KEPT = "finished blocks are kept where an output was named, and the same call goes on after them"
_PATIENCE = 300.0  # seconds that a cluster may have no worker


def count_on_cluster(
    cluster: Any, job: Job, trial: Trial, blocks: Iterator[Any], n_shards: int
) -> Iterator[tuple[int, slice, IntArray]]:
    """Number, rows and counts of each block; a bounded number of tasks is submitted at a time."""
    from distributed import KilledWorker, as_completed

    with _connected(cluster) as (client, local), TemporaryDirectory() as scratch:
        portable_job = _portable(job, Path(scratch) if local else None)

        rows_of = partial(_future_rows, client)

        def begun() -> Any:
            # A task's result is recomputed if its worker dies; scattered data would be lost.
            computed = [rows_of(job.users, trial[0])]
            computed += [rows_of(job.items, row_index) for row_index in trial[1]]
            return client.submit(Job.tried, portable_job, *trial, computed, pure=False)

        shared = begun()
        threads = sum(client.nthreads().values())
        window = math.ceil(max(_IN_FLIGHT, 4 * threads) / n_shards)
        waiting: dict[Any, tuple[int, slice, list[Any], int]] = {}
        done = as_completed(loop=client.loop)

        shards: dict[int, Any] = {}  # futures of their rows, if items are a Dask array

        def count(task: tuple[Any, ...], user_rows: Any, own_rows: Any) -> Any:
            shard_start = task[2].start
            if shard_start not in shards:
                shards[shard_start] = rows_of(job.items, task[2])
            computed = user_rows, shards[shard_start], own_rows
            return client.submit(Job.counts, shared, *task, computed, pure=False)

        def submit(number: int, block: slice, tasks: list[Any], attempt: int = 0) -> None:
            with _reached(client):
                user_rows = rows_of(job.users, as_index(np.unique(tasks[0][0])))
                own_rows = rows_of(job.items, tasks[0][1])
                counts = [count(task, user_rows, own_rows) for task in tasks]
                total = client.submit(sum_of, *counts, pure=False, priority=1)
            waiting[total] = number, block, tasks, attempt
            done.add(total)

        try:
            for _, (number, block, tasks) in zip(range(window), blocks, strict=False):
                submit(number, block, list(tasks))
            for total in _finished(client, done):
                number, block, tasks, attempt = waiting.pop(total)
                problem, counts = _outcome(client, total)
                if isinstance(problem, KilledWorker) and attempt < _ATTEMPTS:
                    if shared.status == "error":  # lost too often itself
                        shared = begun()
                    for rows in shards.values():
                        if rows is not None and rows.status == "error":
                            rows.retry()
                    submit(number, block, tasks, attempt + 1)
                    continue
                if isinstance(problem, KilledWorker):
                    raise MemoryError(
                        f"workers died {attempt + 1} times at one block of users, perhaps for want "
                        "of memory: give each worker more, or fewer threads"
                    )
                if problem is not None:
                    raise problem
                yield number, block, counts
                for number, block, tasks in blocks:
                    submit(number, block, list(tasks))
                    break
        finally:
            with suppress(Exception):
                client.cancel(list(waiting))


def _future_rows(client: Any, source: Source | None, row_index: slice | IntArray) -> Any:
    """A future of rows of a Dask array; None if each task opens the source itself."""
    if source is None or not source.lazy:
        return None
    return client.compute(arrays.rows(source.values, row_index))


def _finished(client: Any, done: Any) -> Iterator[Any]:
    """Futures as they finish; ConnectionError if there is no worker for `_PATIENCE`."""
    patience = _Patience(client)
    while not done.is_empty():
        if done.has_ready():
            yield next(done)
            patience.renew()
            continue
        with done.thread_condition:
            done.thread_condition.wait(timeout=0.1)
        patience.ask()


def _outcome(client: Any, future: Any) -> tuple[BaseException | None, Any]:
    """The error or result of a finished task.

    A result lost with its worker is computed again if there is another worker.
    """
    patience = _Patience(client)
    while future.status != "error":
        with _reached(client):
            try:
                return None, future.result(timeout=min(1.0, _PATIENCE))
            except Exception as problem:
                if future.status != "error" and not isinstance(problem, TimeoutError):
                    raise
        patience.ask()
    return future.exception(), None


class _Patience:
    """Asks for workers once a second; ConnectionError if there was none for `_PATIENCE`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._asked = self._last = time.monotonic()  # _last: when a worker was there

    def renew(self) -> None:
        self._last = time.monotonic()

    def ask(self) -> None:
        if time.monotonic() < self._asked + min(1.0, _PATIENCE):
            return
        with _reached(self._client):
            has_workers = bool(self._client.nthreads())
        self._asked = time.monotonic()
        self._last = self._asked if has_workers else self._last
        if self._asked > self._last + _PATIENCE:
            raise ConnectionError(
                f"the scheduler at {self._client.scheduler.address} has had no worker for "
                f"{_PATIENCE:g} seconds, so start some: {_KEPT}"
            )


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
            f"the scheduler at {client.scheduler.address} is gone: {_KEPT}"
        ) from None


def _portable(job: Job, scratch: Path | None) -> Job:
    """The job with matrices saved to files that workers can map; without them for Dask arrays."""
    sources: dict[str, Any] = {}
    for name in ("users", "items"):
        source = getattr(job, name)
        if source is None or (source.path is None and np.ndim(source.values) == 1):
            sources[name] = source
        elif source.path is not None:
            sources[name] = Source(source.name, os.path.abspath(source.path))
        elif source.lazy:
            sources[name] = Source(source.name)  # tasks receive its rows
        elif scratch is None:
            raise ValueError(
                f"{name} must be a file that every worker can read, got an array: save it with "
                "numpy.save where the workers find it"
            )
        else:
            path = scratch / f"{name}.npy"
            np.save(path, on_host(source.values))
            sources[name] = Source(source.name, str(path))
    return Job(sources["users"], sources["items"], job.score, job.bias, job.tolerance)


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

"""Finished blocks of ranks on disk, so that a killed run can be resumed."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .._files import replacing
from ..numerics.arrays import on_host
from .job import Job

if TYPE_CHECKING:
    import pandas as pd


class Parts:
    """A folder of finished blocks, one Parquet file each.

    Each file contains the :func:`fingerprint` of the inputs (`mark`); other blocks are refused.
    `name` is the recommender, which is written with each block.
    """

    def __init__(self, folder: Path, mark: str, name: str | None = None) -> None:
        self.folder, self._mark, self._name = folder, mark.encode(), name
        try:
            folder.mkdir(exist_ok=True)
            for stale in folder.glob(".*.part"):  # unfinished files of a killed run
                stale.unlink()
            names = sorted(path.name for path in folder.iterdir())
        except OSError as problem:
            raise self._unwritable(problem) from None
        other_files = [name for name in names if not re.fullmatch(r"part-\d{6,}\.parquet", name)]
        if other_files:
            raise ValueError(f"{folder} must hold nothing but ranks, got {other_files[0]}")
        if names and self._mark_of(folder / names[0]) not in (self._mark, None):
            raise ValueError(
                f"{folder} holds ranks of other inputs or options: remove it to begin anew, or "
                "name another output"
            )

    def read(self, number: int, expected: pd.DataFrame) -> pd.DataFrame | None:
        """A finished block; None if it is missing or damaged."""
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(self._path(number))
        except (OSError, ValueError):
            return None
        metadata, frame = table.schema.metadata or {}, table.to_pandas()
        frame = frame.drop(columns="recommender", errors="ignore")
        if metadata.get(b"inputs") != self._mark or metadata.get(b"digest") != _digest(frame):
            return None
        return frame if frame[["user", "item"]].equals(expected) else None

    def write(self, number: int, frame: pd.DataFrame) -> None:
        """Write a finished block atomically."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(with_name(frame, self._name), preserve_index=False)
        marks = {b"inputs": self._mark, b"digest": _digest(frame)}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **marks})
        try:
            with replacing(self._path(number)) as beside:
                pq.write_table(table, beside)
        except OSError as problem:
            raise self._unwritable(problem) from None

    def remove(self) -> None:
        """Remove the folder, after all blocks are in one file."""
        with suppress(OSError):
            for part in self.folder.glob("part-*.parquet"):
                part.unlink()
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.parquet"

    def _mark_of(self, path: Path) -> bytes | None:
        """The fingerprint in a file; None if it is damaged."""
        import pyarrow.parquet as pq

        with suppress(OSError, ValueError):
            mark: bytes = (pq.read_schema(path).metadata or {}).get(b"inputs", b"")
            return mark
        return None

    def _unwritable(self, problem: OSError) -> ValueError:
        reason = problem.strerror or str(problem).split("\n")[0]
        with suppress(OSError):
            n_finished = len(list(self.folder.glob("part-*.parquet")))
            if n_finished:
                reason += f"; {n_finished} finished blocks are kept there, and the next run goes on"
        return ValueError(f"{self.folder} cannot be written: {reason}")


def with_name(frame: pd.DataFrame, name: str | None) -> pd.DataFrame:
    """Ranks with the recommender's name as first column, if it has one."""
    if name is None:
        return frame
    named = frame.assign(recommender=name)
    return named[["recommender", *frame.columns]]


def _digest(frame: pd.DataFrame) -> bytes:
    digest = hashlib.sha256()
    for name in frame:
        digest.update(str(name).encode() + np.ascontiguousarray(frame[name], np.int64).tobytes())
    return digest.hexdigest().encode()


def fingerprint(
    job: Job,
    frame: pd.DataFrame,
    seen: sp.csr_array | None,
    *options: object,
    cluster: Any = None,
) -> str:
    """A digest of everything that determines the ranks; a scoring function by its name."""
    digest = hashlib.sha256(b"ranks 1")
    score: Any = job.score
    name = getattr(score, "__qualname__", type(score).__name__) if callable(score) else score
    digest.update(repr((name, job.tolerance, job.shape, options)).encode())
    for source in (job.users, job.items):
        if source is not None:
            matrix = source.matrix
            digest.update(repr((matrix.shape, str(matrix.dtype))).encode())
            if source.lazy:
                digest.update("".join(_chunk_digests(matrix, cluster)).encode())
                continue
            for start in range(0, matrix.shape[0], 2**14):
                rows = on_host(matrix[start : start + 2**14, ...])
                digest.update(np.ascontiguousarray(rows).data)
    if job.bias is not None:
        digest.update(np.ascontiguousarray(job.bias).data)
    digest.update(_digest(frame))
    if seen is not None:
        digest.update(seen.indptr.astype(np.int64).data)
        digest.update(seen.indices.astype(np.int64).data)
    return digest.hexdigest()


def _chunk_digests(matrix: Any, cluster: Any) -> list[str]:
    """Digests of the chunks of a Dask array, computed where the chunks are."""
    from dask.base import compute
    from dask.delayed import delayed

    digests = [delayed(_digest_of_chunk)(chunk) for chunk in matrix.to_delayed().ravel()]
    if hasattr(cluster, "gather"):  # a client, which may hold the chunks
        return list(cluster.gather(cluster.compute(digests)))
    return list(compute(*digests))


def _digest_of_chunk(chunk: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(on_host(chunk)).data).hexdigest()

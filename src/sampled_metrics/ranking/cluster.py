"""Exact ranks by blocks of users and shards of items, in this process or on a Dask cluster.

The rank of an item is one more than a count of the items above it, and a count over a catalogue is
the sum of those over its parts. So a task needs the factors of some users and of one shard, and
returns two whole numbers for each held-out item; whoever sums them has the rank. A task is a
function of its inputs, so one that is lost with its worker is run again, and its result enters the
sum once. Finished blocks are written as they come, and a run that is killed goes on after them.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from .. import _arrays, _progress
from .._arrays import namespace, on_host
from .._validate import IntArray, as_written, checked_tolerance, integer
from .exact import _score_counts, _shard_counts

#: How users and items are scored: by their factors in one of three ways, or by a function of some
#: rows of each that returns a matrix.
Score = Literal["dot", "cosine", "euclidean"] | Callable[[Any, Any], Any]

#: Users and shards that a function is tried with before the run.
Trial = tuple[IntArray, list[slice]]

SCORES = ("dot", "cosine", "euclidean")
_SHARD_BYTES = 2**26  # factors of a shard, in the type they are multiplied in
#: Multiplications of a task: about a third of a second at the least, so that the engine's part is
#: small, and half a minute at the most, so that little is lost with a worker. In between, such
#: that there are a thousand or more.
_LEAST_WORK, _MOST_WORK, _TASKS = 2**32, 2**38, 1024
_BLOCK_ROWS = (256, 2**16)
_IN_FLIGHT = 64  # tasks that wait at the scheduler, or four for each thread if that is more
_ATTEMPTS = 10  # times that a block may be lost with its workers before it is given up
_KEPT = "finished blocks are kept where an output was named, and the same call goes on after them"
_PATIENCE = 300.0  # seconds that a cluster may be without any worker


@dataclass(frozen=True)
class Source:
    """Rows of a matrix that any process can read: of a file by its path, or values that travel.

    Parameters
    ----------
    name : str
        What it is called in errors.
    path : str, optional
        A file; each process opens it anew.
    values : array, optional
        The rows themselves, or an array of Dask, which is computed by some rows at a time.

    Examples
    --------
    >>> Source("users", values=np.arange(6.0).reshape(3, 2)).rows(slice(1, 3))
    array([[2., 3.],
           [4., 5.]])
    """

    name: str
    path: str | None = None
    values: Any = None

    @classmethod
    def of(cls, given: Any, name: str) -> Source:
        """A source of a file, of an array, or of the numbers below a number."""
        if isinstance(given, (str, Path)):
            source = cls(name, path=str(given))
            source.matrix  # noqa: B018 - a file that is none is refused now
            return source
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            return cls(name, values=np.arange(integer(given, name, 1)))
        lazy = type(given).__module__.split(".")[0] == "dask" and hasattr(given, "chunks")
        values = np.asarray(given) if namespace(given) is None and not lazy else given
        if namespace(given) is None and values.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be real numbers, got dtype {values.dtype}")
        if lazy and np.isnan(values.shape).any():
            raise ValueError(
                f"{name} must have rows of known number, got chunks of unknown size: call "
                "compute_chunk_sizes() of the array"
            )
        return cls(name, values=values)

    @property
    def lazy(self) -> bool:
        """Whether it is an array of Dask."""
        return hasattr(self.values, "to_delayed")

    @property
    def matrix(self) -> Any:
        """The whole, mapped where its file is one of NumPy's."""
        if self.path is None:
            return self.values
        changed = size = 0
        with suppress(OSError):  # what is missing is said by whoever opens it
            status = os.stat(self.path)
            changed, size = status.st_mtime_ns, status.st_size
        return _opened(self.path, changed, size)

    def rows(self, at: slice | IntArray, found: Any = None) -> Any:
        """Some rows, checked for NaN; `found` has them where a cluster computed them before."""
        rows = _arrays.rows(self.matrix, at) if found is None else found
        if self.lazy and found is None:
            rows = rows.compute()
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and np.isnan(rows.sum()):
            bad = np.flatnonzero(np.isnan(rows).reshape(len(rows), -1).any(axis=1))
            if bad.size:  # infinite numbers of both signs have no sum, either
                row = int(at.start + bad[0] if isinstance(at, slice) else at[bad[0]])
                raise ValueError(f"{self.name} must hold no NaN, got one in {self._place(at, row)}")
        return rows

    def _place(self, at: slice | IntArray, row: int) -> str:
        of = "" if self.path is None else f" of {self.path}"
        if isinstance(at, slice):
            of += f", in the shard of rows {at.start} to {at.stop - 1}"
        return f"row {row}{of}"


@lru_cache(maxsize=4)
def _opened(path: str, changed: int, size: int) -> Any:
    from .inputs import load_factors

    return load_factors(path)


@dataclass(frozen=True)
class Job:
    """What scores are made of, wherever they are counted.

    Parameters
    ----------
    users, items : Source
        A row for each user and item. `items` is None if `users` are the scores themselves.
    score : {"dot", "cosine", "euclidean"} or callable
        See :func:`~sampled_metrics.ranking.files.rank`.
    bias : ndarray of float, shape (n_items,), optional
        What is added to each item's score.
    tolerance : float
        As `relative_tolerance` of :func:`~sampled_metrics.ranking.exact.exact_ranks`.

    Examples
    --------
    Two items of three; the second is the better one, and the one to rank is the first:

    >>> users, items = np.ones((1, 1)), np.array([[1.0], [2.0], [0.5]])
    >>> job = Job(Source("users", values=users), Source("items", values=items))
    >>> seen = np.zeros((2, 0), int)
    >>> job.counts(np.array([0]), np.array([0]), slice(0, 3), seen)
    array([[1],
           [0]])
    """

    users: Source
    items: Source | None
    score: Score = "dot"
    bias: Any = None
    tolerance: float = 0.0

    @classmethod
    def of(cls, users: Any, items: Any, score: Score, bias: Any, tolerance: Any) -> Job:
        """Check what :func:`~sampled_metrics.ranking.files.rank` is given."""
        if not (callable(score) or (isinstance(score, str) and score in SCORES)):
            raise ValueError(
                f"score must be 'dot', 'cosine', 'euclidean' or a function, got {as_written(score)}"
            )
        known = checked_tolerance(tolerance)
        of_users, of_items = Source.of(users, "users"), None
        if items is None:
            if score != "dot" or bias is not None:
                raise ValueError("items must be given for a score or an item_bias of its own")
            return cls(of_users, None, "dot", None, known).checked()
        of_items = Source.of(items, "items")
        if bias is not None:
            bias = np.asarray(on_host(Source.of(bias, "item_bias").matrix[:]))
            if bias.size != len(bias) or bias.dtype.kind not in "iuf" or np.isnan(bias.sum()):
                raise ValueError(
                    "item_bias must be a number for each item, got shape "
                    f"{bias.shape} of {bias.dtype}"
                    + (" with NaN" if bias.dtype.kind == "f" else "")
                )
            bias = bias.reshape(-1).astype(np.float64)
            if callable(score):
                raise ValueError(
                    "item_bias must be left out if score is a function that can add it"
                )
        return cls(of_users, of_items, score, bias, known).checked()

    def checked(self) -> Job:
        """The job itself, or ValueError unless its parts fit together."""
        shapes = [tuple(s.matrix.shape) for s in (self.users, self.items) if s is not None]
        apart = any(len(shape) != 2 for shape in shapes) or len({s[1] for s in shapes}) > 1
        if apart and (self.items is None or not callable(self.score)):
            raise ValueError(
                "user_factors and item_factors must be matrices of one width, got shapes "
                + " and ".join(map(str, shapes))
            )
        if self.bias is not None and len(self.bias) != self.shape[1]:
            raise ValueError(
                f"item_bias must have a number for each of {self.shape[1]} items, got "
                f"{len(self.bias)}"
            )
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Users and items."""
        if self.items is None:
            n_users, n_items = self.users.matrix.shape
            return int(n_users), int(n_items)
        return int(self.users.matrix.shape[0]), int(self.items.matrix.shape[0])

    @property
    def width(self) -> int:
        """Multiplications of a score, about."""
        if self.items is None or callable(self.score):
            return 64
        return int(self.users.matrix.shape[1]) + 1

    def tried(self, users: IntArray, shards: list[slice], found: list[Any] | None = None) -> Job:
        """The job itself, or ValueError if its function draws: the same call twice must be equal.

        Some users and some items of each shard are scored twice in turn, in the same arrays, since
        sums may differ in the last digits between calls of other shapes. `found` has the rows of
        users and of each shard where a cluster computed them.
        """
        if callable(self.score) and self.items is not None:
            given = found or [None] * (1 + len(shards))
            rows = self.users.rows(users, given[0])
            parts = [self.items.rows(at, of) for at, of in zip(shards, given[1:], strict=True)]
            once, again = (
                [on_host(self.score(rows, part)).tobytes() for part in parts] for _ in range(2)
            )
            if once != again:
                raise ValueError(
                    "score must give the same scores at each call, got others for the same users "
                    "and items: switch off dropout, or whatever it draws"
                )
        return self

    def counts(
        self,
        users: IntArray,
        held_out: IntArray,
        shard: slice,
        seen: IntArray,
        found: tuple[Any, Any, Any] = (None, None, None),
    ) -> IntArray:
        """Candidates of a shard above each held-out item, and level with it.

        Parameters
        ----------
        users, held_out : ndarray of int, shape (k,)
            Users, in ascending order, and their items.
        shard : slice
            Rows of the items.
        seen : ndarray of int, shape (2, nnz)
            Items of the shard that are no candidates: number of the user among the distinct ones,
            and row within the shard.
        found : tuple
            Rows of the distinct users, of the shard and of the held-out items, where a cluster
            computed them from an array of Dask.

        Returns
        -------
        ndarray of int, shape (2, k)
        """
        distinct, owners = np.unique(users, return_inverse=True)
        inside = (held_out >= shard.start) & (held_out < shard.stop)
        places = np.where(inside, held_out - shard.start, -1)
        shape = len(distinct), shard.stop - shard.start
        masked = sp.csr_array((np.ones(seen.shape[1], bool), tuple(seen)), shape=shape)
        rows = self.users.rows(_at(distinct), found[0])
        if self.items is None:
            own = rows[owners, held_out]
            rows = rows[:, shard]
            return _score_counts(
                lambda block, columns: rows[block, columns],
                own, owners, places, masked, self.tolerance, distinct,
            )  # fmt: skip
        part = self.items.rows(shard, found[1])
        own = self.items.rows(held_out, found[2])
        if callable(self.score):
            return self._by_function(rows, part, own, owners, places, masked, distinct)
        biases = (None, None) if self.bias is None else (self.bias[shard], self.bias[held_out])
        left, right = as_products(rows, part, self.score, biases[0])
        right_own = as_products(rows[:0], own, self.score, biases[1])[1]
        return _shard_counts(left, right, owners, right_own, places, masked, self.tolerance)

    def _by_function(
        self, rows: Any, part: Any, own: Any, owners: IntArray, places: IntArray,
        masked: sp.csr_array, distinct: IntArray,
    ) -> IntArray:  # fmt: skip
        score: Any = self.score
        few = 16  # a function scores all pairs of what it is given, and the own ones are wanted
        parts = [
            np.diagonal(on_host(score(rows[owners[a : a + few]], own[a : a + few])))
            for a in range(0, len(owners), few)
        ]
        return _score_counts(
            lambda block, columns: score(rows[block], part[columns]),
            np.concatenate(parts), owners, places, masked, self.tolerance, distinct,
        )  # fmt: skip


def _at(distinct: IntArray) -> slice | IntArray:
    """Numbers in ascending order as a slice, which is read in one go, if they are one."""
    at = slice(int(distinct[0]), int(distinct[-1]) + 1)
    return at if at.stop - at.start == len(distinct) else distinct


def as_products(
    users: NDArray[Any], items: NDArray[Any], score: str, bias: NDArray[Any] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Factors whose inner products put each user's items in the order of a score.

    Parameters
    ----------
    users, items : ndarray, shapes (n_users, d) and (n_items, d)
    score : {"dot", "cosine", "euclidean"}
        The inner product, the cosine of the angle (0 with a vector of zeros), or the Euclidean
        distance, of which the smaller is the better. By :math:`-|u - v|^2 / 2 = u v - |v|^2 / 2 -
        |u|^2 / 2` the last is a product with one factor more, but for what a user's items share;
        it is computed in float64.
    bias : ndarray, shape (n_items,), optional
        What is added to the product, cosine, or minus half the squared distance. A user's own bias
        changes no order, and is not asked for.

    Returns
    -------
    users, items : ndarray of float32 where all is, of float64 otherwise

    Examples
    --------
    >>> users, items = np.array([[1.0]]), np.array([[0.0], [2.0], [5.0]])
    >>> left, right = as_products(users, items, "euclidean")
    >>> left @ right.T
    array([[ 0. ,  0. , -7.5]])
    """
    single = users.dtype == items.dtype == np.float32 and score != "euclidean"
    kind = np.float32 if single else np.float64
    left, right = users.astype(kind, copy=False), items.astype(kind, copy=False)
    added = None if bias is None else np.asarray(bias, dtype=np.float64)
    if score != "dot":
        squares = np.square(right, dtype=np.float64).sum(axis=1)
    if score == "cosine":
        length = np.sqrt(np.where(squares > 0, squares, 1.0))
        right = (right / length[:, np.newaxis]).astype(kind)
    if score == "euclidean":
        added = -squares / 2 + (0.0 if added is None else added)
    if added is None:
        return left, right
    return (
        np.column_stack([left, np.ones(len(left), kind)]),
        np.column_stack([right, added.astype(kind)]),
    )


@dataclass(frozen=True)
class Layout:
    """Blocks of held-out items, whole users each, and shards of the catalogue.

    A function of sizes alone, so that a run can go on with other workers than it began with.

    Examples
    --------
    >>> Layout.of(np.array([0, 0, 1, 3]), n_items=1000, width=8)
    Layout(blocks=[slice(0, 4, None)], shards=[slice(0, 1000, None)])
    """

    blocks: list[slice]
    shards: list[slice]

    @classmethod
    def of(cls, users: IntArray, n_items: int, width: int) -> Layout:
        """Lay out held-out items whose users are in ascending order."""
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


class Parts:
    """Finished blocks in a folder, a Parquet file each, which says what it was made of.

    Parameters
    ----------
    folder : Path
        Made if need be, in a folder that exists.
    mark : str
        A fingerprint of all inputs and options; a folder with blocks of another is refused.
    """

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder, self._mark = folder, mark.encode()
        try:
            folder.mkdir(exist_ok=True)
            for stale in folder.glob(".*.part"):  # what was being written when a run was killed
                stale.unlink()
            names = sorted(each.name for each in folder.iterdir())
        except OSError as problem:
            raise self._unwritable(problem) from None
        others = [name for name in names if not re.fullmatch(r"part-\d{6,}\.parquet", name)]
        if others:
            raise ValueError(f"{folder} must hold nothing but ranks, got {others[0]}")
        if names and self._marked(folder / names[0]) not in (self._mark, None):
            raise ValueError(
                f"{folder} holds ranks of other inputs or options: remove it to begin anew, or "
                "name another output"
            )

    def read(self, number: int, expected: pd.DataFrame) -> pd.DataFrame | None:
        """A finished block, or None if there is none, or it is damaged."""
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(self._path(number))
        except (OSError, ValueError):
            return None
        metadata, frame = table.schema.metadata or {}, table.to_pandas()
        if metadata.get(b"inputs") != self._mark or metadata.get(b"digest") != _digest(frame):
            return None
        return frame if frame[["user", "item"]].equals(expected) else None

    def write(self, number: int, frame: pd.DataFrame) -> None:
        """Keep a block: its file appears when it is whole."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from .._files import replacing

        table = pa.Table.from_pandas(frame, preserve_index=False)
        said = {b"inputs": self._mark, b"digest": _digest(frame)}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **said})
        try:
            with replacing(self._path(number)) as beside:
                pq.write_table(table, beside)
        except OSError as problem:
            raise self._unwritable(problem) from None

    def remove(self) -> None:
        """Remove the folder, once all is in one file."""
        with suppress(OSError):
            for part in self.folder.glob("part-*.parquet"):
                part.unlink()
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.parquet"

    def _marked(self, path: Path) -> bytes | None:
        import pyarrow.parquet as pq

        try:
            found: bytes | None = (pq.read_schema(path).metadata or {}).get(b"inputs", b"")
        except (OSError, ValueError):
            return None
        return found

    def _unwritable(self, problem: OSError) -> ValueError:
        reason = problem.strerror or str(problem).split("\n")[0]
        with suppress(OSError):
            kept = len(list(self.folder.glob("part-*.parquet")))
            if kept:
                reason += f"; {kept} finished blocks are kept there, and the next run goes on"
        return ValueError(f"{self.folder} cannot be written: {reason}")


def _digest(frame: pd.DataFrame) -> bytes:
    found = hashlib.sha256()
    for name in frame:
        found.update(str(name).encode() + np.ascontiguousarray(frame[name], np.int64).tobytes())
    return found.hexdigest().encode()


def fingerprint(
    job: Job,
    frame: pd.DataFrame,
    seen: sp.csr_array | None,
    *options: object,
    cluster: Any = None,
) -> str:
    """A digest of all that the ranks are a function of; a scoring function counts by its name.

    Examples
    --------
    >>> one = Source("users", values=np.ones((1, 1)))
    >>> frame = pd.DataFrame({"user": [0], "item": [0]})
    >>> found = {fingerprint(Job(one, one, score), frame, None) for score in SCORES}
    >>> len(found)
    3
    """
    found = hashlib.sha256(b"ranks 1")
    score: Any = job.score
    named = getattr(score, "__qualname__", type(score).__name__) if callable(score) else score
    found.update(repr((named, job.tolerance, job.shape, options)).encode())
    for source in (job.users, job.items):
        if source is not None:
            matrix = source.matrix
            found.update(repr((matrix.shape, str(matrix.dtype))).encode())
            if source.lazy:
                found.update("".join(_digests(matrix, cluster)).encode())
                continue
            for start in range(0, matrix.shape[0], 2**14):
                rows = on_host(matrix[start : start + 2**14, ...])
                found.update(np.ascontiguousarray(rows).data)
    if job.bias is not None:
        found.update(np.ascontiguousarray(job.bias).data)
    found.update(_digest(frame))
    if seen is not None:
        found.update(seen.indptr.astype(np.int64).data)
        found.update(seen.indices.astype(np.int64).data)
    return found.hexdigest()


def _digests(matrix: Any, cluster: Any) -> list[str]:
    """A digest of each chunk of an array of Dask, made where the chunk is computed."""
    from dask.base import compute
    from dask.delayed import delayed

    digests = [delayed(_digest_of_chunk)(chunk) for chunk in matrix.to_delayed().ravel()]
    if hasattr(cluster, "gather"):  # a client, which may hold the chunks
        found: list[str] = cluster.gather(cluster.compute(digests))
        return found
    return list(compute(*digests))


def _digest_of_chunk(chunk: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(on_host(chunk)).data).hexdigest()


def ranked(
    job: Job,
    frame: pd.DataFrame,
    seen: sp.csr_array | None,
    *,
    together: bool = True,
    parts: Parts | None = None,
    cluster: Any = None,
    progress: bool = False,
) -> pd.DataFrame:
    """The table of :class:`~sampled_metrics.results.Ranks`.

    Parameters
    ----------
    job : Job
    frame : DataFrame
        Columns user and item, in ascending order of users.
    seen, cluster, progress
        As for :func:`counted`.
    together : bool
        Whether a user's other held-out items are candidates.
    parts : Parts, optional
        Where finished blocks are, and are written to.

    Returns
    -------
    DataFrame
        A row for each of `frame`.

    Examples
    --------
    >>> items = Source("items", values=np.array([[1.0], [2.0], [3.0]]))
    >>> job = Job(Source("users", values=np.ones((2, 1))), items)
    >>> ranked(job, pd.DataFrame({"user": [0, 1], "item": [0, 2]}), None)["n_better"].tolist()
    [2, 0]
    """
    users, items = (frame[name].to_numpy() for name in ("user", "item"))
    n_candidates = np.full(len(frame), job.shape[1])
    if seen is not None:
        n_candidates -= np.diff(seen.indptr)[users]
    found: dict[int, pd.DataFrame] = {}

    def finished(number: int, block: slice) -> bool:
        kept = None
        if parts is not None:
            kept = parts.read(number, frame.iloc[block].reset_index(drop=True))
        if kept is not None:
            found[number] = kept
        return kept is not None

    for number, block, counts in counted(
        job, users, items, seen, cluster=cluster, skip=finished, progress=progress
    ):
        table = frame.iloc[block].reset_index(drop=True)
        table["n_better"], table["n_tied"] = counts
        table["n_candidates"] = n_candidates[block]
        found[number] = _with_relevant(table, together)
        if parts is not None:
            parts.write(number, found[number])
    return pd.concat([found[number] for number in sorted(found)], ignore_index=True)


def _with_relevant(frame: pd.DataFrame, together: bool) -> pd.DataFrame:
    """Add how many of the candidates above each test item, and level, are the user's others."""
    # Of two items of a user the one with fewer candidates above it is above.
    same = frame.groupby(["user", "n_better"])["item"].transform("size")
    above = frame.groupby("user")["n_better"].rank(method="min").astype(np.int64) - 1
    result = frame.assign(
        n_relevant=frame.groupby("user")["item"].transform("size"),
        relevant_better=above,
        relevant_tied=same - 1,
    )
    if not together:
        result["n_better"] -= result["relevant_better"]
        result["n_tied"] -= result["relevant_tied"]
        result["n_candidates"] -= result["n_relevant"] - 1
    return result


def counted(
    job: Job,
    users: IntArray,
    held_out: IntArray,
    seen: sp.csr_array | None,
    *,
    cluster: Any = None,
    skip: Callable[[int, slice], bool] = lambda number, block: False,
    progress: bool = False,
) -> Iterator[tuple[int, slice, IntArray]]:
    """Counts of each block as it is finished, in any order.

    Parameters
    ----------
    job : Job
    users, held_out : ndarray of int, shape (k,)
        Users in ascending order, and their items.
    seen : scipy.sparse.csr_array, shape (n_users, n_items), optional
        Items that are no candidates.
    cluster : optional
        As in :func:`~sampled_metrics.ranking.files.rank`.
    skip : callable
        Whether a block, by its number and place, is not wanted.
    progress : bool

    Yields
    ------
    number : int
        Of the block.
    block : slice
        Its rows.
    counts : ndarray of int, shape (2, rows of the block)

    Examples
    --------
    >>> items = Source("items", values=np.array([[1.0], [2.0], [3.0]]))
    >>> job = Job(Source("users", values=np.ones((2, 1))), items)
    >>> for number, block, counts in counted(job, np.array([0, 1]), np.array([0, 2]), None):
    ...     print(block, counts[0])
    slice(0, 2, None) [2 0]
    """
    layout = Layout.of(users, job.shape[1], job.width)
    wanted = [(n, block) for n, block in enumerate(layout.blocks) if not skip(n, block)]
    with _progress.bar(
        total=len(layout.blocks), desc="ranks", unit="block", show=progress
    ) as shown:
        shown.update(len(layout.blocks) - len(wanted))
        if not wanted:
            return
        run = _here if cluster is None else partial(_on_cluster, cluster)
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


def _here(
    job: Job, trial: Trial, blocks: Iterator[Any], n_shards: int
) -> Iterator[tuple[int, slice, IntArray]]:
    job.tried(*trial)
    for number, block, tasks in blocks:
        yield number, block, sum_of(*(job.counts(*task) for task in tasks))


def sum_of(*counts: IntArray) -> IntArray:
    """The sum of the shards' counts.

    Examples
    --------
    >>> sum_of(np.array([[1], [0]]), np.array([[2], [1]]))
    array([[3],
           [1]])
    """
    total: IntArray = np.sum(counts, axis=0, dtype=np.int64)
    return total


def _count_task(job: Job, *task: Any) -> IntArray:
    return job.counts(*task)


def _tried(job: Job, trial: Trial, found: list[Any]) -> Job:
    return job.tried(*trial, found)


def _on_cluster(
    cluster: Any, job: Job, trial: Trial, blocks: Iterator[Any], n_shards: int
) -> Iterator[tuple[int, slice, IntArray]]:
    """As :func:`_here`, by tasks of Dask, of which a bounded number waits at any time."""
    from distributed import KilledWorker, as_completed

    with _connected(cluster) as (client, local), TemporaryDirectory() as scratch:
        travelling = _portable(job, Path(scratch) if local else None)

        def rows_of(source: Source | None, at: slice | IntArray) -> Any:
            """A future of some rows of an array of Dask, None for what each task opens itself."""
            if source is None or not source.lazy:
                return None
            return client.compute(_arrays.rows(source.values, at))

        def begun() -> Any:
            # The result of a task, not data put on a worker, which would be gone with it.
            found = [rows_of(job.users, trial[0]), *(rows_of(job.items, at) for at in trial[1])]
            return client.submit(_tried, travelling, trial, found, pure=False)

        shared = begun()
        threads = sum(client.nthreads().values())
        window = math.ceil(max(_IN_FLIGHT, 4 * threads) / n_shards)
        waiting: dict[Any, tuple[int, slice, list[Any], int]] = {}
        done = as_completed(loop=client.loop)

        shards: dict[int, Any] = {}  # futures of their rows, where items are an array of Dask

        def count(task: tuple[Any, ...], of_users: Any, own: Any) -> Any:
            first = task[2].start
            if first not in shards:
                shards[first] = rows_of(job.items, task[2])
            found = of_users, shards[first], own
            return client.submit(_count_task, shared, *task, found, pure=False)

        def submit(number: int, block: slice, tasks: list[Any], attempt: int = 0) -> None:
            with _reached(client):
                of_users = rows_of(job.users, _at(np.unique(tasks[0][0])))
                own = rows_of(job.items, tasks[0][1])
                counts = [count(task, of_users, own) for task in tasks]
                total = client.submit(sum_of, *counts, pure=False, priority=1)
            waiting[total] = number, block, tasks, attempt
            done.add(total)

        try:
            for _, (number, block, tasks) in zip(range(window), blocks, strict=False):
                submit(number, block, list(tasks))
            for total in _finished(client, done):
                number, block, tasks, attempt = waiting.pop(total)
                problem, counts = _ended(client, total)
                if isinstance(problem, KilledWorker) and attempt < _ATTEMPTS:
                    if shared.status == "error":  # lost with several workers itself
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


def _finished(client: Any, done: Any) -> Iterator[Any]:
    """Futures as they end; ConnectionError where no worker is there, and none comes."""
    patience = _Patience(client)
    while not done.is_empty():
        if done.has_ready():
            yield next(done)
            patience.renew()
            continue
        with done.thread_condition:
            done.thread_condition.wait(timeout=0.1)
        patience.ask()


def _ended(client: Any, future: Any) -> tuple[BaseException | None, Any]:
    """What a task that has ended raised or returned.

    A result that was on a worker that is gone is computed again, if there is another.
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
    """Asks for workers, once a second; ConnectionError if there was none for `_PATIENCE`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._asked = self._last = time.monotonic()  # and when there was one

    def renew(self) -> None:
        self._last = time.monotonic()

    def ask(self) -> None:
        if time.monotonic() < self._asked + min(1.0, _PATIENCE):
            return
        with _reached(self._client):
            there = bool(self._client.nthreads())
        self._asked = time.monotonic()
        self._last = self._asked if there else self._last
        if self._asked > self._last + _PATIENCE:
            raise ConnectionError(
                f"the scheduler at {self._client.scheduler.address} has had no worker for "
                f"{_PATIENCE:g} seconds, so start some: {_KEPT}"
            )


@contextmanager
def _reached(client: Any) -> Iterator[None]:
    """One sentence if the scheduler is gone: a connection may end at any of its uses."""
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
    """The job with matrices in files, which every worker of this machine can map.

    Or without, if they are arrays of Dask.
    """
    sources: dict[str, Any] = {}
    for name in ("users", "items"):
        source = getattr(job, name)
        if source is None or (source.path is None and np.ndim(source.values) == 1):
            sources[name] = source
        elif source.path is not None:
            sources[name] = Source(source.name, os.path.abspath(source.path))
        elif source.lazy:
            sources[name] = Source(source.name)  # its rows come as they are computed
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
    """A client of a cluster, and whether the cluster was started for it on this machine."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ImportError(
            "cluster needs Dask: install sampled-metrics[cluster], or dask and distributed"
        ) from None
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
    named = re.fullmatch(r"local(?::(\d+))?", cluster)
    if named:
        workers = int(named[1] or os.cpu_count() or 1)
        if not workers:
            raise ValueError("cluster must have one worker or more, got 'local:0'")
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                silence_logs=50,
            ) as started,
            Client(started, set_as_default=False) as client,
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

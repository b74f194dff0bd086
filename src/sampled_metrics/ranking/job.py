"""The inputs of scores, and the counts of some users over a shard of the items.

A task takes the factors of some users and one shard, and returns two counts for each held-out item.
It is a pure function, so that it can be repeated if its worker is lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from .._validate import IntArray, as_written, integer
from ..numerics import arrays
from ..numerics.arrays import namespace, on_host
from .exact import score_counts
from .factors import factor_counts
from .inputs import load_factors

#: A product of factors, or a function of rows of users and rows of items that returns a matrix.
Score = Literal["dot", "cosine", "euclidean"] | Callable[[Any, Any], Any]

#: Users and shards on which a scoring function is tested before the run.
Trial = tuple[IntArray, list[slice]]

SCORES = ("dot", "cosine", "euclidean")
#: Held-out items per call for their own scores: a function scores all pairs of a call.
_OWN_SCORES = 16


@dataclass(frozen=True)
class Input:
    """Rows of a matrix that any process can read: a file by its path, or an array.

    `values` may be a Dask array, of which some rows are computed at a time.
    """

    name: str
    path: str | None = None
    values: Any = None

    @classmethod
    def of(cls, file_or_array: Any, name: str) -> Input:
        """An input from a file, an array, or an int n for the numbers 0 to n - 1."""
        if isinstance(file_or_array, (str, Path)):
            job_input = cls(name, path=str(file_or_array))
            job_input.matrix  # noqa: B018 - refuse an invalid file now
            return job_input
        if isinstance(file_or_array, (int, np.integer)) and not isinstance(file_or_array, bool):
            return cls(name, values=np.arange(integer(file_or_array, name, 1)))
        lazy = type(file_or_array).__module__.split(".")[0] == "dask" and hasattr(
            file_or_array, "chunks"
        )
        values = (
            np.asarray(file_or_array)
            if namespace(file_or_array) is None and not lazy
            else file_or_array
        )
        if namespace(file_or_array) is None and values.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be real numbers, got dtype {values.dtype}")
        if lazy and np.isnan(values.shape).any():
            raise ValueError(
                f"{name} must have rows of known number, got chunks of unknown size: call "
                "compute_chunk_sizes() of the array"
            )
        return cls(name, values=values)

    @property
    def lazy(self) -> bool:
        """Whether it is a Dask array."""
        return hasattr(self.values, "to_delayed")

    @property
    def matrix(self) -> Any:
        """The whole matrix, memory-mapped if its file is .npy."""
        if self.path is None:
            return self.values
        state: tuple[int, ...] = ()
        with suppress(OSError):  # `load_factors` reports a missing file
            status = os.stat(self.path)
            state = status.st_mtime_ns, status.st_size
        return _opened(self.path, state)

    def rows(self, row_index: slice | IntArray, computed: Any = None) -> Any:
        """Some rows, checked for NaN; `computed` holds them if a cluster has computed them."""
        rows = arrays.rows(self.matrix, row_index) if computed is None else computed
        if self.lazy and computed is None:
            rows = rows.compute()
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and np.isnan(rows.sum()):
            bad_rows = np.flatnonzero(np.isnan(rows).reshape(len(rows), -1).any(axis=1))
            if bad_rows.size:  # inf - inf also sums to NaN
                row = int(
                    row_index.start + bad_rows[0]
                    if isinstance(row_index, slice)
                    else row_index[bad_rows[0]]
                )
                location = "" if self.path is None else f" of {self.path}"
                if isinstance(row_index, slice):
                    location += f", in the shard of rows {row_index.start} to {row_index.stop - 1}"
                raise ValueError(f"{self.name} must hold no NaN, got one in row {row}{location}")
        return rows


@lru_cache(maxsize=4)
def _opened(path: str, state: tuple[int, ...]) -> Any:
    """A matrix in a file, opened again only if the modification time or size (`state`) changes."""
    return load_factors(path)


@dataclass(frozen=True)
class Job:
    """The inputs of scores; `items` is None if `users` are the scores.

    See :func:`~.ranking.files.rank` for `score`.
    """

    users: Input
    items: Input | None
    score: Score = "dot"

    @classmethod
    def of(cls, users: Any, items: Any, score: Score) -> Job:
        """Check the arguments of :func:`~.ranking.files.rank`."""
        if not (callable(score) or (isinstance(score, str) and score in SCORES)):
            raise ValueError(
                f"score must be 'dot', 'cosine', 'euclidean' or a function, got {as_written(score)}"
            )
        if items is None and score != "dot":
            raise ValueError("items must be given with a score that is not 'dot'")
        item_input = None if items is None else Input.of(items, "items")
        return cls(Input.of(users, "users"), item_input, score).checked()

    def checked(self) -> Job:
        """The job itself; ValueError unless its shapes match."""
        shapes = [tuple(s.matrix.shape) for s in (self.users, self.items) if s is not None]
        unequal = any(len(shape) != 2 for shape in shapes) or len({s[1] for s in shapes}) > 1
        if unequal and (self.items is None or not callable(self.score)):
            raise ValueError(
                "user_factors and item_factors must be matrices of one width, got shapes "
                + " and ".join(map(str, shapes))
            )
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items."""
        if self.items is None:
            n_users, n_items = self.users.matrix.shape
            return int(n_users), int(n_items)
        return int(self.users.matrix.shape[0]), int(self.items.matrix.shape[0])

    @property
    def width(self) -> int:
        """Approximate multiplications per score."""
        if self.items is None or callable(self.score):
            return 64
        return int(self.users.matrix.shape[1]) + 1

    def tried(self, users: IntArray, shards: list[slice], computed: list[Any] | None = None) -> Job:
        """The job itself; ValueError if its scoring function is random.

        It is called twice with the same arrays: other shapes may change the last digits of sums.
        `computed` holds the rows of users and of each shard if a cluster has computed them.
        """
        if callable(self.score) and self.items is not None:
            computed_rows = computed or [None] * (1 + len(shards))
            rows = self.users.rows(users, computed_rows[0])
            parts = [
                self.items.rows(shard, shard_rows)
                for shard, shard_rows in zip(shards, computed_rows[1:], strict=True)
            ]
            first_scores, second_scores = (
                [on_host(self.score(rows, part)).tobytes() for part in parts] for _ in range(2)
            )
            if first_scores != second_scores:
                raise ValueError(
                    "score must give the same scores at each call, got others for the same users "
                    "and items: switch off dropout, or whatever it draws"
                )
        return self

    def counts(
        self,
        users: IntArray,
        held_out: IntArray,
        shard: slice | IntArray,
        seen: IntArray,
        computed: tuple[Any, Any, Any] = (None, None, None),
    ) -> IntArray:
        """Candidates of a shard above each held-out item, and those that tie with it, shape (2, k).

        `users` (k,) are in ascending order, `held_out` (k,) their items. A shard is a slice of the
        items, or some items in ascending order. `seen` (2, nnz) are the
        items of the shard that are not candidates: index among the distinct users, and row in the
        shard. `computed` holds the rows of the distinct users, the shard and the held-out items of
        a Dask array.
        """
        distinct, owners = np.unique(users, return_inverse=True)
        items = np.arange(shard.start, shard.stop) if isinstance(shard, slice) else shard
        own_columns = np.where(np.isin(held_out, items), np.searchsorted(items, held_out), -1)
        shape = len(distinct), len(items)
        masked = sp.csr_array((np.ones(seen.shape[1], bool), tuple(seen)), shape=shape)
        rows = self.users.rows(as_index(distinct), computed[0])
        rows = rows if callable(self.score) else on_host(rows)
        arguments = owners, own_columns, masked, distinct
        if self.items is None:
            own_values, rows = rows[owners, held_out], rows[:, shard]
            return score_counts(
                lambda row_index, columns: rows[row_index, columns], own_values, *arguments
            )
        part = self.items.rows(shard, computed[1])
        own_values = self.items.rows(held_out, computed[2])
        if not callable(self.score):
            return factor_counts(rows, on_host(part), on_host(own_values), self.score, *arguments)
        score, step = self.score, _OWN_SCORES
        diagonals = [
            np.diagonal(
                on_host(score(rows[owners[start : start + step]], own_values[start : start + step]))
            )
            for start in range(0, len(owners), step)
        ]
        return score_counts(
            lambda row_index, columns: score(rows[row_index], part[columns]),
            np.concatenate(diagonals),
            *arguments,
        )


def as_index(distinct: IntArray) -> slice | IntArray:
    """Ascending numbers as a slice if they are consecutive, since slices read faster."""
    row_slice = slice(int(distinct[0]), int(distinct[-1]) + 1)
    return row_slice if row_slice.stop - row_slice.start == len(distinct) else distinct


def sum_of(*counts: IntArray) -> IntArray:
    """The sum of counts over shards."""
    total: IntArray = np.sum(counts, axis=0, dtype=np.int64)
    return total

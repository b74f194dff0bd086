"""Users' items in order of time: the form of every data set of the benchmark, and its files."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sampled_metrics._validate import IntArray

#: Endings of files of sequences.
_SUFFIXES = (".txt", ".txt.gz")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Users' items in order of time: `items`, numbered from 0, of the first user, then of the
    second, ...; `starts` (n_users + 1,) where each user's items start. `in_order` is False where
    the order in time is unknown: recommenders that go by it are left out. At most `n_ranked`
    users, drawn at random, are ranked in the end; None ranks all.
    """

    items: IntArray
    starts: IntArray
    n_items: int
    in_order: bool = True
    n_ranked: int | None = None

    @classmethod
    def from_users(cls, users: Iterable[Sequence[Any]], *, in_order: bool = True) -> Sequences:
        """From numbers or words for items; no repeated ones, and no users with fewer than three."""
        distinct_items = [list(dict.fromkeys(user_items)) for user_items in users]
        long_enough = [user_items for user_items in distinct_items if len(user_items) >= 3]
        if not long_enough:
            raise ValueError("users must have three items at least, got none that has")
        ids, items = np.unique(np.concatenate(long_enough), return_inverse=True)
        starts = np.concatenate([[0], np.cumsum([len(user_items) for user_items in long_enough])])
        return cls(items, starts, ids.size, in_order)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.starts.size - 1

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Users by items, 1 where the user has the item."""
        return self.aged(1.0)

    def aged(self, decay: float) -> sp.csr_array:
        """Users by items: a user's last item has weight 1, each before it `decay` of the next."""
        age = np.repeat(self.starts[1:], np.diff(self.starts)) - 1 - np.arange(self.items.size)
        weighted_matrix = sp.csr_array(
            (decay**age, self.items.copy(), self.starts), shape=(self.n_users, self.n_items)
        )
        weighted_matrix.sort_indices()
        return weighted_matrix

    def without_last(self, n: int) -> tuple[Sequences, IntArray]:
        """The sequences less the last `n` items of each, and the first item that was cut."""
        sizes = np.diff(self.starts) - n
        is_kept = np.arange(self.items.size) < np.repeat(self.starts[1:] - n, sizes + n)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        held_out = self.items[self.starts[1:] - n]
        shorter = replace(self, items=self.items[is_kept], starts=starts)
        return shorter, held_out

    def among(self, items: IntArray) -> Sequences:
        """The same users with these items alone, numbered in their order."""
        number = np.full(self.n_items, -1)
        number[items] = np.arange(items.size)
        is_among = number[self.items] >= 0
        starts = np.concatenate([[0], np.cumsum(is_among)])[self.starts]
        chosen = number[self.items[is_among]]
        return replace(self, items=chosen, starts=starts, n_items=items.size)


def read_text(path: Path) -> str:
    """The text of a file, compressed if its name ends in .gz; a sentence if it is no such text."""
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise ValueError(
            f"{path} must be a gzip file, got one that is cut off or altered: {problem}"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be text in UTF-8, got other bytes") from None


def read_sequences(path: Path) -> Sequences:
    """Sequences of a file: one user a line, the user, then items in order of time, any words."""
    return parsed(read_text(path), str(path))


def parsed(text: str, source: str) -> Sequences:
    """Sequences of a text; `source` names it in errors."""
    users: list[list[Any]] = [line.split()[1:] for line in text.splitlines()]
    with contextlib.suppress(ValueError):  # words stay words
        users = [[int(item) for item in words] for words in users]
    try:
        return Sequences.from_users(users)
    except ValueError as problem:
        raise ValueError(f"{source} must hold a user and items on each line: {problem}") from None


def sequence_files(path: Path) -> dict[str, Path]:
    """The files of sequences at a path, by name of the data set: itself, or a folder's.

    In a folder each ``.txt`` and ``.txt.gz`` is one, but for those whose name ends in ``_sample``:
    S3-Rec keeps the negatives of its evaluations there.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_SUFFIXES))
    file_by_name: dict[str, Path] = {}
    for file in files:
        name = Path(file.name.removesuffix(".gz")).stem
        if name.endswith("_sample"):
            continue
        kept = file_by_name.setdefault(name.lower(), file)
        if kept is not file:
            raise ValueError(f"{path} must hold a data set once, got {kept.name} and {file.name}")
    if not file_by_name or not all(file.is_file() for file in file_by_name.values()):
        raise FileNotFoundError(
            f"{path} must be a file of sequences or a folder of .txt or .txt.gz files"
        )
    return file_by_name

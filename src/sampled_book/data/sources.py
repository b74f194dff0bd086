"""Data sets of one folder, each with its source: ``NAME.txt.gz`` and a line of ``index.csv``.

A file has one user a line: the user, then the user's items, whole numbers from 1. `index.csv` says
where each comes from (`group` and `platform`: sets of one group are not independent), whether the
items are in order of time, and how many users, items and interactions there are. The files
themselves are not bundled; :func:`table` is what is known of the sets whose ranks are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics._validate import as_written

from . import datasets
from .sequences import Sequences, read_text

SEED = 12
#: Users of a data set that are ranked at most, drawn at random.
MOST_USERS = 5_000
INDEX = "index.csv"
#: Folder of these sets in the folder that holds the benchmark's other data.
FOLDER = "recommenders"
#: Where the sources of the bundled ranks are listed.
TABLE = datasets.BUNDLE / "benchmark" / "sources.csv"
_COUNTS = ("users", "items", "interactions")
_WORDS = ("name", "group", "platform", "in_order", "repository", "path")


@dataclass(frozen=True)
class Source:
    """A line of ``index.csv``: the file of a data set, and how many of what it must hold."""

    name: str
    group: str
    platform: str
    file: Path
    in_order: bool
    counts: tuple[int, int, int]
    origin: tuple[str, str]

    @classmethod
    def from_line(cls, line: Mapping[str, str], folder: Path) -> Source:
        """From the values of a line, all text."""
        if line["in_order"] not in ("yes", "no"):
            raise ValueError(f"in_order must be yes or no, got {as_written(line['in_order'])}")
        if not all(line[key].isdecimal() for key in _COUNTS):
            raise ValueError("users, items and interactions must be whole numbers")
        users, items, interactions = (int(line[key]) for key in _COUNTS)
        return cls(
            line["name"],
            line["group"],
            line["platform"],
            folder / f"{line['name']}.txt.gz",
            line["in_order"] == "yes",
            (users, items, interactions),
            (line["repository"], line["path"]),
        )

    def read(self) -> Sequences:
        """The sequences, checked against the index; shuffled where time gives no order."""
        users = _numbered(read_text(self.file), self.file)
        items = {item for user_items in users for item in user_items}
        counts = len(users), len(items), sum(map(len, users))
        if counts != self.counts:
            raise ValueError(
                f"{self.file} must hold {_said(self.counts)}, as {INDEX} says, got {_said(counts)}"
            )
        if not self.in_order:
            shuffler = np.random.default_rng([SEED, _number(self.name)])
            users = [shuffler.permutation(user_items).tolist() for user_items in users]
        data = Sequences.from_users(users, in_order=self.in_order)
        return replace(data, n_ranked=MOST_USERS)


def read_index(folder: Path) -> tuple[dict[str, Source], list[str]]:
    """The sources of a folder by name, and a sentence for each line that cannot be used.

    Two lines with the same counts, or the same file of a repository, are one source under two
    names: the first is taken.
    """
    path = folder / INDEX
    lines = pd.read_csv(StringIO(read_text(path)), dtype=str, keep_default_na=False)
    missing = [name for name in (*_WORDS, *_COUNTS) if name not in lines]
    if missing:
        raise ValueError(f"{path} must have a column {missing[0]}, got {', '.join(lines.columns)}")
    sources: dict[str, Source] = {}
    problems = []
    for line in lines.to_dict("records"):
        name = line["name"]
        try:
            source = Source.from_line({str(key): value for key, value in line.items()}, folder)
        except ValueError as problem:
            problems.append(f"{name} in {path}: {problem}")
            continue
        twins = [old.name for old in sources.values() if _is_same(old, source)]
        if name in sources:
            problems.append(f"{path} must name {name} once: its first line is taken")
        elif twins:
            problems.append(f"{name} is the source of {twins[0]} under another name: left out")
        elif not source.file.is_file():
            problems.append(f"{source.file} is missing: {path} names it")
        else:
            sources[name] = source
    strangers = {file.name.removesuffix(".txt.gz") for file in folder.glob("*.txt.gz")}
    strangers -= set(lines["name"])
    problems += [f"{name}.txt.gz has no line in {path}: left out" for name in sorted(strangers)]
    return sources, problems


def local() -> tuple[dict[str, Source], list[str]]:
    """What :func:`read_index` gives for the local data folder; nothing if it has no such sets."""
    root = os.environ.get(datasets.FOLDER_VARIABLE)
    folder = Path(root or "") / FOLDER
    return read_index(folder) if root and (folder / INDEX).is_file() else ({}, [])


def table() -> pd.DataFrame:
    """The sources of the bundled ranks: a row for each data set, with its licence."""
    return pd.read_csv(TABLE, keep_default_na=False)


def _is_same(old: Source, new: Source) -> bool:
    return old.counts == new.counts or (bool(new.origin[0]) and old.origin == new.origin)


def _numbered(text: str, path: Path) -> list[list[int]]:
    """Each user's items; a sentence about the first line that is no user with items."""
    users: dict[int, list[int]] = {}
    for row, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
            raise ValueError(
                f"{path} must hold whole numbers from 1, a user and items, on each line, got "
                f"{as_written(line[:40])} in line {row}"
            )
        user, *items = map(int, words)
        if user in users:
            raise ValueError(f"{path} must have one line for each user, got two of user {user}")
        users[user] = items
    return list(users.values())


def _said(counts: Iterable[int]) -> str:
    values: Any = zip(counts, _COUNTS, strict=True)
    return ", ".join(f"{count:,} {name}" for count, name in values)


def _number(name: str) -> int:
    """A number for a name, the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")

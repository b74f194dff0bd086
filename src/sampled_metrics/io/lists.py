"""A log with several rows of a user, held in a byte or two a row.

A user's rows stand together, best first, so that a row's place among the relevant items and how
many these are need not be kept. What is left of a row is its kind, of which there are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import IntArray
from .compact import Log
from .grids import Builder, UnusualError, longer, one_row_each

#: Users that are looked at together.
_BLOCK = 1 << 17
#: Kinds of rows, with every place among so many relevant items.
_CELLS = 1 << 22
#: Rows that are sorted at once, and files that are open.
_SORTED, _FILES = 1 << 22, 256
#: Numbers that are kept in one piece: so many that their memory is free when they are given up.
_KEPT = 1 << 26
#: Columns whose numbers may be beyond two billion.
_LONG = ("n_items", "n_negatives")

#: Rows of a part of a log: names of recommenders, which of them each is of, users, columns, items.
Part = tuple[
    Sequence[str], NDArray[Any], NDArray[Any], Mapping[str, NDArray[Any]], NDArray[Any] | None
]


class MixedError(UnusualError):
    """Rows whose users are not in order."""


def _codes(
    size: NDArray[Any], kind: NDArray[Any], places: int
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """For some users: how many rows each has, whose each row is, and the number of its kind, place
    among relevant items and how many these are, which has `places` values for each kind."""
    start = 0
    for at in range(0, size.size, _BLOCK):
        many = size[at : at + _BLOCK].astype(np.int64)
        ends = np.cumsum(many)
        user = np.repeat(np.arange(many.size), many)
        own = kind[start : start + user.size]
        # After all places of fewer relevant items, of which there are s (s - 1) / 2.
        place = np.arange(user.size) + (many * (many - 1) // 2 - (ends - many))[user]
        yield many, user, own.astype(np.int64) * places + place
        start += user.size


class ListsBuilder(Builder):
    """Lists that grow by parts of a log, in which the users of each recommender are in order.

    A user's rows may be in any order, and in two parts.
    """

    def __init__(self, first: int = 0, last: int = -1, rows: int = 0) -> None:
        super().__init__(first, last, rows)
        self._size: list[NDArray[Any]] = []
        self._blocks: list[list[tuple[NDArray[Any], int]]] = []
        self._open: dict[int, list[NDArray[Any]]] = {}  # the rows of the last user so far

    def take(self, part: Part) -> None:
        """Take in more rows.

        Raises
        ------
        MixedError
            If a user's rows come after those of a larger one.
        UnusualError
            If rows are not to be held so: it is then for the whole log to say what is wrong.
        """
        names, recommender, user, columns, item = part
        place = self._placed(names, user)
        for _ in range(len(self.recommenders) - len(self._size)):
            self._size.append(np.zeros(self.places, dtype=np.uint8))
            self._blocks.append([])
        kind, keys = self._numbered(columns, user.size), [place]
        for name in ("rank", "n_better", "n_tied"):
            if name in columns:
                keys.append(np.broadcast_to(columns[name], user.size))
        rows = [kind, place if item is None else item, *keys]
        for number, own in self._apart(names, recommender, rows):
            before = self._open.pop(number, None)
            if before is not None:
                own = [np.concatenate(each) for each in zip(before, own, strict=True)]
            place = own[2]
            # The open rows stand in front, so that this finds rows of users before them too.
            if (place[1:] < place[:-1]).any():
                raise MixedError
            cut = int(np.searchsorted(place, place[-1]))
            self._open[number] = [column[cut:].copy() for column in own]
            if cut:
                self._close(number, [column[:cut] for column in own], item is not None)
        self._has_items = item is not None
        self.read += user.size

    def _close(self, number: int, rows: list[NDArray[Any]], has_items: bool) -> None:
        """Keep the rows of users who have no more to come."""
        kind, item, place, *keys = rows
        new = np.append(True, place[1:] != place[:-1])
        more = ~new[1:]
        if more.any():
            run = np.cumsum(new) - 1
            level = more
            for key in keys:
                if (level & (key[1:] < key[:-1])).any():  # not best first
                    order = np.lexsort((*keys[::-1], run))
                    kind, keys = kind[order], [each[order] for each in keys]
                    break
                level = level & (key[1:] == key[:-1])
            same = [key[1:] == key[:-1] for key in keys]
            if np.logical_and.reduce([more, *same]).any():
                raise UnusualError  # a row that stands twice
            if has_items:
                order = np.lexsort((item, run))
                if (more & (item[order][1:] == item[order][:-1])).any():
                    raise UnusualError
            of_kind = self._sizes_of_kinds()
            if of_kind is not None:
                found = of_kind[kind]
                if (more & (found[1:] != found[:-1])).any():
                    raise UnusualError  # one n_items and n_negatives for all rows of an instance
        starts = np.flatnonzero(new)
        many = np.diff(np.append(starts, place.size))
        self._size = [longer(each, self.places) for each in self._size]
        wide = np.min_scalar_type(int(many.max()))
        if wide.itemsize > self._size[number].dtype.itemsize:
            self._size[number] = self._size[number].astype(wide)
        self._size[number][place[starts]] = many
        self._keep(number, kind)

    def _keep(self, number: int, kind: NDArray[Any]) -> None:
        blocks = self._blocks[number]
        while kind.size:
            if not blocks or blocks[-1][1] == _KEPT or blocks[-1][0].dtype != kind.dtype:
                blocks.append((np.empty(_KEPT, dtype=kind.dtype), 0))
            block, used = blocks[-1]
            some, kind = kind[: _KEPT - used], kind[_KEPT - used :]
            block[used : used + some.size] = some
            blocks[-1] = block, used + some.size

    def _sizes_of_kinds(self) -> IntArray | None:
        """A number for each kind that kinds of one n_items and n_negatives share, None if all."""
        wanted = [self._columns.index(name) for name in ("n_items", "n_negatives")]
        pairs = np.array([[kind[at] for at in wanted] for kind in self._kinds], dtype=np.int64)
        different, number = np.unique(pairs, axis=0, return_inverse=True)
        return None if len(different) == 1 else np.append(-1, number.ravel())

    def lists(
        self, named: Callable[[Mapping[str, IntArray], IntArray], Any], replacement: bool
    ) -> Log:
        """The log of all rows.

        Parameters
        ----------
        named : callable
            Gets the columns of kinds and the place of each among relevant items, and returns
            what rows share in the columns that lists have.
        """
        for number, rows in sorted(self._open.items()):
            self._close(number, rows, self._has_items)
        self._open.clear()
        sizes = [longer(each, self.places) for each in self._size]
        most = max(int(each.max()) for each in sizes)
        places = most * (most + 1) // 2
        if (len(self._kinds) + 1) * places > _CELLS:
            raise UnusualError
        kinds = [_joined(blocks, self._type) for blocks in self._blocks]
        cells = (len(self._kinds) + 1) * places
        counts = np.zeros((len(kinds), cells), dtype=np.int64)
        for own, size, kind in zip(counts, sizes, kinds, strict=True):
            for _, _, code in _codes(size, kind, places):
                own += np.bincount(code, minlength=cells)
        found = np.flatnonzero(counts.sum(axis=0))
        at, place = np.divmod(found, places)
        many = np.repeat(np.arange(1, most + 1), np.arange(1, most + 1))
        position = place - many[place] * (many[place] - 1) // 2 + 1
        columns = {name: column[at - 1] for name, column in self.kinds.items()}
        shared = named(columns | {"n_relevant": many[place]}, position)
        order = np.lexsort(list(shared.values())[::-1])
        cell = np.zeros(cells, dtype=np.min_scalar_type(found.size))
        cell[found[order]] = np.arange(1, found.size + 1)
        shared = one_row_each({name: column[order] for name, column in shared.items()})
        coded = []
        for size in sizes:
            parts = _codes(size, kinds.pop(0), places)
            coded.append(np.concatenate([cell[code] for _, _, code in parts]))
        users = range(self.first, self.first + self.places)
        return Log(tuple(self.recommenders), users, coded, sizes, shared, replacement)


def _joined(blocks: list[tuple[NDArray[Any], int]], kind: Any) -> NDArray[Any]:
    """What fills blocks, one after the other; each is given up as it is copied."""
    found = np.empty(sum(used for _, used in blocks), dtype=kind)
    blocks.reverse()
    at = 0
    while blocks:
        block, used = blocks.pop()
        found[at : at + used] = block[:used]
        at += used
    return found


def in_order(parts: Iterable[Part], low: int, high: int, rows: int, folder: Path) -> Iterator[Part]:
    """Rows of a log in order of their users, by way of files in a folder.

    Parameters
    ----------
    parts : iterable
        The rows, in any order.
    low, high : int
        The least and the largest user.
    rows : int
        How many there are, about.
    folder : Path
        An empty one, for some twenty bytes a row.

    Yields
    ------
    tuple
        Rows of some users; those of the next ones are larger.
    """
    width = -(-(high - low + 1) // min(_FILES, max(1, rows // _SORTED)))
    files = range((high - low) // width + 1)
    numbers: dict[str, int] = {}
    kind: Any = None
    with ExitStack() as stack:
        opened = [stack.enter_context((folder / str(at)).open("wb")) for at in files]
        for names, recommender, user, columns, item in parts:
            if kind is None:
                whole = list(columns)
                fields = [("recommender", np.int32), ("user", np.int64)]
                fields += [(name, np.int64 if name in _LONG else np.int32) for name in whole]
                fields += [("item", np.int64)] if item is not None else []
                kind = np.dtype(fields)
            of = [numbers.setdefault(name, len(numbers)) for name in names]
            table = np.empty(user.size, dtype=kind)
            table["recommender"], table["user"] = np.array(of)[recommender], user
            for name, column in columns.items():
                if name not in _LONG and column.max() >= 2**31:
                    raise UnusualError
                table[name] = column
            if item is not None:
                table["item"] = item
            at = ((user.astype(np.int64) - low) // width).astype(np.int16)
            order = np.argsort(at, kind="stable")
            ends = np.searchsorted(at[order], np.arange(len(files) + 1))
            table = table[order]
            for file, start, end in zip(opened, ends[:-1], ends[1:], strict=True):
                table[start:end].tofile(file)
    for path in (folder / str(at) for at in files):
        table = np.fromfile(path, dtype=kind)
        path.unlink()
        if not table.size:
            continue
        # One number to sort by; a recommender's rows of one user may come in any order.
        by = table["recommender"] * np.int64(high - low + 1) + (table["user"] - low)
        table = table[np.argsort(by)]
        columns = {name: np.ascontiguousarray(table[name]) for name in whole}
        item = np.ascontiguousarray(table["item"]) if "item" in table.dtype.names else None
        user, own = (np.ascontiguousarray(table[name]) for name in ("user", "recommender"))
        yield list(numbers), own, user, columns, item

"""A log with one row for each recommender and user, held in a byte or two a row.

Rows that are alike are of one kind, and there are few kinds however many users there are: for each
recommender and user the number of its kind says all. A billion rows are a gigabyte.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray

#: Users that are looked at together.
_BLOCK = 1 << 20
#: Places for users without a row that are kept free for each row, and those besides.
_SPARE, _FREE = 4, 1 << 26
#: Kinds of rows that are looked up one by one.
_KINDS = 1 << 20
#: Pairs of kinds that are counted in a table.
_PAIRS = 1 << 22


class UnusualError(Exception):
    """Rows that cannot be held as a grid, or a file that cannot be read in parts."""


def alike(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], list[IntArray]]:
    """Find which rows of several columns agree in all of them.

    Parameters
    ----------
    columns : sequence of ndarray of int, each of shape (rows,)

    Returns
    -------
    kind : ndarray of int, shape (rows,)
        Which of the different rows each is.
    kinds : list of ndarray of int, each of shape (kinds,)
        The different rows, in order.

    Examples
    --------
    >>> kind, kinds = alike([np.array([7, 3, 7]), np.array([1, 2, 1])])
    >>> kind.tolist(), [column.tolist() for column in kinds]
    ([1, 0, 1], [[3, 7], [2, 1]])
    """
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    if math.prod(spans) > 1 << 16:
        return _sorted_alike(columns, lows, spans)
    # Nothing has to be sorted, however many rows there are.
    code: NDArray[Any] = np.zeros(columns[0].size, dtype=np.int32)
    wide = [at for at, span in enumerate(spans) if span > 1]
    for at in wide:
        places = (columns[at] - lows[at]).astype(np.int32, copy=False)
        code = places if at == wide[0] else code * np.int32(spans[at]) + places
    there = np.bincount(code, minlength=math.prod(spans)) > 0
    found = np.unravel_index(np.flatnonzero(there), spans)
    kinds = [place.astype(np.int64) + low for place, low in zip(found, lows, strict=True)]
    return code if there.all() else (np.cumsum(there, dtype=np.int32) - 1)[code], kinds


def _sorted_alike(
    columns: Sequence[NDArray[Any]], lows: Sequence[int], spans: Sequence[int]
) -> tuple[NDArray[Any], list[IntArray]]:
    """The same for columns with many kinds of rows, or few but far apart."""
    kinds = 1
    code: NDArray[Any] = np.zeros(columns[0].size, dtype=np.int64)
    for column, low, span in zip(columns, lows, spans, strict=True):
        if span == 1:
            continue
        places = column - low
        if kinds * span >= 2**62:
            (code, some), (places, others) = (pd.factorize(x, sort=True) for x in (code, places))
            kinds, span = some.size, others.size
        code = places if kinds == 1 else code * np.int64(span) + places
        kinds *= span
    code, different = pd.factorize(code, sort=True)
    first = np.empty(different.size, dtype=np.int64)
    first[code] = np.arange(code.size)
    return code, [column[first].astype(np.int64) for column in columns]


@dataclass(frozen=True, eq=False)
class Grid:
    """The kind of row that each recommender has for each user.

    Attributes
    ----------
    recommenders : tuple of str
        In the order of their first rows.
    first : int
        The user of the first place; the others are counted on from it.
    kind : list of ndarray of unsigned int, each of shape (places,)
        For each recommender the number of every user's kind, from 1 on; 0 if there is no row.
    kinds : dict of str to ndarray of int, shape (kinds,)
        What the rows of a kind share, in order.
    """

    recommenders: tuple[str, ...]
    first: int
    kind: list[NDArray[Any]]
    kinds: Mapping[str, IntArray]

    #: Whether every user of a recommender has one row.
    alone = True

    @cached_property
    def counts(self) -> IntArray:
        """Users of each kind under each recommender, shape (recommenders, kinds)."""
        many = len(next(iter(self.kinds.values()))) + 1
        found = np.zeros((len(self.kind), many), dtype=np.int64)
        for own, kind in zip(found, self.kind, strict=True):
            for (part,) in _blocks(kind):
                own += np.bincount(part, minlength=many)
        return found[:, 1:]

    @cached_property
    def users(self) -> int:
        """How many users have a row."""
        parts = _blocks(*self.kind)
        return sum(int(np.logical_or.reduce([p > 0 for p in part]).sum()) for part in parts)

    def together(self, *of: int) -> Iterator[tuple[list[IntArray], IntArray]]:
        """Kinds that users have under several recommenders, 0 if none; and how many users do."""
        many, kinds = self.counts.shape[1] + 1, [self.kind[i] for i in of]
        if many ** len(of) > _PAIRS:
            for part in _blocks(*kinds):
                there = np.logical_or.reduce([p > 0 for p in part])
                if there.any():
                    yield [p[there] for p in part], np.ones(int(there.sum()), dtype=np.int64)
            return
        if of not in self._tables:
            table = np.zeros(many ** len(of), dtype=np.int64)
            for part in _blocks(*kinds):
                code = part[0].astype(np.int32)
                for p in part[1:]:
                    code *= many
                    code += p
                table += np.bincount(code, minlength=table.size)
            table[0] = 0  # of no recommender's users
            self._tables[of] = table
        found = np.flatnonzero(self._tables[of])
        yield list(np.unravel_index(found, (many,) * len(of))), self._tables[of][found]

    def values(self, parts: Mapping[int, FloatArray]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Sums of the values of users' rows, and how many users have each.

        `parts` are the values of rows of each kind under some of the recommenders.
        """
        absent = [np.append(0.0, worth) for worth in parts.values()]
        for kinds, counts in self.together(*parts):
            found = sum(worth[kind] for worth, kind in zip(absent, kinds, strict=True))
            yield np.asarray(found), counts.astype(float)

    @cached_property
    def _tables(self) -> dict[tuple[int, ...], IntArray]:
        return {}

    def apart(self, one: int, other: int) -> tuple[int, int | None]:
        """How many users only one of two recommenders has, and the first of them."""
        return apart(self.first, self.kind[one], self.kind[other])


def apart(first: int, one: NDArray[Any], other: NDArray[Any]) -> tuple[int, int | None]:
    """How many users only one of two columns has a number above 0 for, and the first of them.

    Examples
    --------
    >>> apart(10, np.array([1, 0, 2]), np.array([1, 1, 0]))
    (2, 11)
    """
    found, user, done = 0, None, 0
    for a, b in _blocks(one, other):
        differ = (a > 0) != (b > 0)
        if user is None and differ.any():
            user = first + done + int(np.argmax(differ))
        found, done = found + int(differ.sum()), done + a.size
    return found, user


def _blocks(*columns: NDArray[Any]) -> Iterator[list[NDArray[Any]]]:
    """Stretches of columns that are equally long."""
    for start in range(0, columns[0].size, _BLOCK):
        yield [column[start : start + _BLOCK] for column in columns]


class Builder:
    """A grid that grows by parts of a log.

    Parameters
    ----------
    first, last : int
        Users are in this range, if anything is known of it; else they are not below `first`.
    rows : int
        How many there will be, as far as it is known.
    """

    def __init__(self, first: int = 0, last: int = -1, rows: int = 0) -> None:
        self.first, self.places, self.rows = first, max(last - first + 1, 1 << 16), rows
        self.read = 0
        self.recommenders: dict[str, int] = {}
        self._kind: list[NDArray[Any]] = []
        self._type: Any = np.uint8
        self._kinds: dict[tuple[int, ...], int] = {}
        #: The first row of each kind.
        self.rows_of: list[int] = []
        self._columns: list[str] = []

    def add(
        self,
        names: Sequence[str],
        recommender: NDArray[Any],
        user: NDArray[Any],
        columns: Mapping[str, NDArray[Any]],
    ) -> None:
        """Take in more rows, in order.

        Parameters
        ----------
        names : sequence of str
        recommender : ndarray of int, shape (rows,) or (1,)
            Which of `names` each row is of, which are in order of their first rows.
        user : ndarray of int, shape (rows,)
        columns : dict of str to ndarray of int, each of shape (rows,) or (1,)
        """
        place = self._placed(names, user)
        self._kind = [longer(kind, self.places) for kind in self._kind]
        while len(self._kind) < len(self.recommenders):
            self._kind.append(np.zeros(self.places, dtype=self._type))
        kind = self._numbered(columns, user.size)
        for number, (own, kinds) in self._apart(names, recommender, [place, kind]):
            if not self.read and np.unique(own).size < own.size:
                raise UnusualError  # as `grid` finds in the end
            self._kind[number][own] = kinds
        self.read += user.size

    def _placed(self, names: Sequence[str], user: NDArray[Any]) -> IntArray:
        """The places of the users of more rows, for whom and for recommenders room is made."""
        low, high = int(user.min()) - self.first, int(user.max()) - self.first
        for name in names:
            self.recommenders.setdefault(name, len(self.recommenders))
        rows = max(self.rows, self.read + user.size)
        if low < 0 or len(self.recommenders) * high > _SPARE * rows + _FREE:
            raise UnusualError
        if self.first + high > 2**62 or len(self._kinds) > _KINDS:
            raise UnusualError
        if high >= self.places:
            self.places = max(high + 1, 2 * self.places)
        return user.astype(np.int64, copy=False) - self.first

    def _apart(
        self, names: Sequence[str], recommender: NDArray[Any], columns: list[NDArray[Any]]
    ) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """Columns of the rows of each recommender, and its number."""
        ends = np.array([columns[0].size])
        if len(names) > 1:
            small = recommender.astype(np.min_scalar_type(len(names)))
            order = np.argsort(small, kind="stable")
            ends = np.cumsum(np.bincount(small, minlength=len(names)))
            columns = [column[order] for column in columns]
        for name, start, end in zip(names, np.append(0, ends), ends, strict=False):
            if start < end:
                yield self.recommenders[name], [column[start:end] for column in columns]

    def _numbered(self, columns: Mapping[str, NDArray[Any]], size: int) -> NDArray[Any]:
        """The number of each row's kind, from 1 on."""
        self._columns = list(columns)
        wide = [name for name, column in columns.items() if column.size > 1]
        own, found = alike([columns[name] for name in wide] or [np.zeros(size, dtype=np.int64)])
        kinds = dict(columns) | dict(zip(wide, found, strict=False))
        lists = [np.broadcast_to(column, found[0].size).tolist() for column in kinds.values()]
        numbers = []
        for at, each in enumerate(zip(*lists, strict=True)):
            if each not in self._kinds:
                self._kinds[each] = len(self._kinds) + 1
                self.rows_of.append(self.read + int(np.argmax(own == at)))
            numbers.append(self._kinds[each])
        if np.min_scalar_type(len(self._kinds)) != self._type:
            self._type = np.min_scalar_type(len(self._kinds))
            self._kind = [kind.astype(self._type) for kind in self._kind]
        return np.asarray(np.array(numbers, dtype=self._type)[own])

    @property
    def kinds(self) -> dict[str, IntArray]:
        """What the rows of each kind share, in the order of `rows_of`."""
        columns = np.array(list(self._kinds), dtype=np.int64).reshape(len(self._kinds), -1).T
        return dict(zip(self._columns, columns, strict=True))

    def grid(self, kinds: Mapping[str, IntArray]) -> Grid:
        """The grid of all rows.

        Parameters
        ----------
        kinds : dict of str to ndarray of int
            What the rows of each kind share, for those of `kinds`.

        Raises
        ------
        UnusualError
            If a user has several rows with one recommender.
        """
        places = np.lexsort(list(kinds.values())[::-1])
        number = np.append(0, np.argsort(places) + 1).astype(self._type)
        there = 0
        for kind in self._kind:
            for (part,) in _blocks(kind):
                there += int(np.count_nonzero(part))
                part[:] = number[part]
        if there < self.read:
            raise UnusualError
        ordered = {name: column[places] for name, column in kinds.items()}
        return Grid(tuple(self.recommenders), self.first, self._kind, ordered)


def longer(column: NDArray[Any], size: int) -> NDArray[Any]:
    """A column with zeros behind it, of so many numbers; itself if it has them.

    Examples
    --------
    >>> longer(np.array([3, 4]), 3)
    array([3, 4, 0])
    """
    if column.size == size:
        return column
    found = np.zeros(size, dtype=column.dtype)
    found[: column.size] = column
    return found

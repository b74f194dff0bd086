"""A log with one row for each recommender and user, held in a byte or two a row.

Rows that are alike are of one kind, and there are few kinds however many users there are: for each
recommender and user the number of its kind says all. A billion rows are a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import IntArray
from .compact import Log, alike

#: Users that are looked at together.
_BLOCK = 1 << 20
#: Places for users without a row that are kept free for each row, and those besides.
_SPARE, _FREE = 4, 1 << 26
#: Kinds of rows that are looked up one by one.
_KINDS = 1 << 20


class UnusualError(Exception):
    """Rows that cannot be held as a grid, or a file that cannot be read in parts."""


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
        own, found = alike([columns[name] for name in wide] or [np.zeros(1, dtype=np.int64)], size)
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

    def log(self, kinds: Mapping[str, IntArray], replacement: bool) -> Log:
        """The log of all rows.

        Parameters
        ----------
        kinds : dict of str to ndarray of int
            What the rows of each kind share, for those of `kinds`.
        replacement : bool

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
        ordered = one_row_each({name: column[places] for name, column in kinds.items()})
        users = range(self.first, self.first + self.places)
        return Log(tuple(self.recommenders), users, self._kind, None, ordered, replacement)


def one_row_each(kinds: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Kinds of rows without ties among relevant items, of users with one instance."""
    none = np.zeros_like(kinds["position"])
    return {**kinds, "n_instances": none + 1, "tied_position": none, "tied_relevant": none}


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

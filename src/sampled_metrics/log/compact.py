"""A log in memory: a small integer code for each row, and a table of the distinct rows.

Rows that agree in all their numbers share a code (a *kind*). There are few kinds however many users
there are: with up to 255 kinds, a billion rows take a gigabyte. An evaluation needs only the rows
of each kind, joint counts of two recommenders' kinds, and sums over a user's rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray, span
from ..adaptive import Adaptive
from ..numerics.betting import tally
from ..protocol import Protocol

if TYPE_CHECKING:
    import pandas as pd

#: The columns of :attr:`Log.frame`, in order.
COLUMNS = (
    "recommender",
    "user",
    "instance",
    "n_better",
    "n_tied",
    "position",
    "n_relevant",
    "n_items",
    "n_negatives",
)
#: The columns that all rows of a kind share.
KIND = COLUMNS[3:]
#: Users per block, so that temporary arrays stay in the processor's cache.
_BLOCK = 1 << 18
#: Largest table of joint counts; beyond it, distinct pairs are sorted and counted.
_TABLE = 1 << 22
#: Distinct values kept before partial tallies are merged, to bound memory.
_TALLIED = 1 << 20


def tallied(
    parts: Iterable[tuple[NDArray[Any], FloatArray | None]],
) -> tuple[FloatArray, FloatArray]:
    """Distinct values in order with their counts, from blocks of values (counts of 1 if None).

    >>> parts = [(np.array([3.0, 1.0]), None), (np.array([3.0]), np.array([4.0]))]
    >>> [column.tolist() for column in tallied(parts)]
    [[1.0, 3.0], [1.0, 5.0]]
    """

    def merged() -> tuple[FloatArray, FloatArray]:
        values, counts = zip(*found, strict=True)
        return tally(np.concatenate(values), np.concatenate(counts))

    found: list[tuple[FloatArray, FloatArray]] = []
    for values, counts in parts:
        found.append(tally(values, counts))
        if sum(each.size for each, _ in found) > 4 * found[0][0].size + _TALLIED:
            found = [merged()]
    return merged()


def equal_rows(columns: Sequence[NDArray[Any]], size: int) -> tuple[NDArray[Any], list[IntArray]]:
    """Code each row of several integer columns by the distinct row that it equals.

    Columns have shape (size,), or (1,) if constant. Returns the codes, (size,), and the columns of
    the distinct rows in lexicographic order. Columns are packed into one integer; only if that may
    exceed 16 bits are the values hashed.

    >>> kind, kinds = equal_rows([np.array([7, 3, 7]), np.array([1])], 3)
    >>> kind.tolist(), [column.tolist() for column in kinds]
    ([1, 0, 1], [[3, 7], [1, 1]])
    """
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    wide = [at for at, span in enumerate(spans) if span > 1]
    kinds = 1
    code: NDArray[Any] = np.zeros(size, dtype=np.int32)
    small = math.prod(spans) <= 1 << 16
    for at in wide:
        places = columns[at] - lows[at]
        if kinds * spans[at] >= 2**62:
            (code, some), (places, others) = map(_factorized, (code, places))
            kinds, spans[at] = some.size, others.size
        places = places.astype(np.int32 if small else np.int64, copy=False)
        code = places if kinds == 1 else code * places.dtype.type(spans[at]) + places
        kinds *= spans[at]
    if small:  # a table of all combinations avoids sorting
        there = np.bincount(code, minlength=math.prod(spans)) > 0
        found = np.unravel_index(np.flatnonzero(there), spans)
        different = [place.astype(np.int64) + low for place, low in zip(found, lows, strict=True)]
        return code if there.all() else (np.cumsum(there, dtype=np.int32) - 1)[code], different
    code, values = _factorized(code)
    first = np.empty(values.size, dtype=np.int64)
    first[code] = np.arange(code.size)
    rows = (np.broadcast_to(column, size)[first] for column in columns)
    return code, [column.astype(np.int64) for column in rows]


def _factorized(values: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """Codes of numbers and the distinct numbers in order, by hashing instead of sorting all."""
    import pandas as pd

    codes, different = pd.factorize(values, sort=True)
    return codes, np.asarray(different)


@dataclass(eq=False)
class Log:
    """A sampled evaluation, as :func:`~sampled_metrics.read_log` returns it.

    Attributes
    ----------
    recommenders : tuple of str
        Their names, in the order of the log.
    users : range or ndarray
        Labels, numbers or text. A range may include numbers without a row.
    codes : list of ndarray of unsigned int
        For each recommender the kind of every row, counted from 1, in the order of users; a user's
        rows by instance, best first. If `sizes` is None, one code per user, 0 without a row.
    sizes : list of ndarray of unsigned int, each of shape (users,), or None
        For each recommender the number of rows of every user; None if no user has several.
    kinds : dict of str to ndarray, each of shape (kinds,)
        The distinct rows in lexicographic order: the columns n_better, n_tied, position,
        n_relevant, n_items and n_negatives of `frame`; n_instances of the user with the
        recommender; tied_relevant, how many relevant items of the instance tie with one another and
        with negatives, and tied_position, the row's place among these (both 0 elsewhere); and
        n_above, if present.
    replacement : bool
        Whether negatives were drawn with replacement.
    weights : ndarray of float, shape (users,), or None
        How many users each of `users` stands for (column count); None means one.
    paired : bool
        Whether recommenders can be compared user by user; False if a log of counts has no users.
    protocol : Protocol, Adaptive or None
        The protocol of weighted negatives, or the adaptive design, if `read_log` was given one.
    shared_negatives : bool
        Whether users share their negatives, so that their sampled ranks are not independent.
    fixed_sample_size : bool
        Whether the log's reader was told that n_negatives does not depend on the ranking.

    Examples
    --------
    >>> from sampled_metrics.log.read import read_log
    >>> log = read_log("bundled")
    >>> log.recommenders, len(log.frame), log.replacement
    (('X', 'Y', 'Z'), 18120, False)
    >>> read_log(log.frame.head(2), replacement=True)
    Log(recommenders=1, users=2, rows=2, n_items=<3578 to 3654>, n_negatives=100, replacement=True)
    """

    recommenders: tuple[str, ...]
    users: range | NDArray[Any]
    codes: list[NDArray[Any]]
    sizes: list[NDArray[Any]] | None
    kinds: Mapping[str, NDArray[Any]]
    replacement: bool
    weights: FloatArray | None = None
    paired: bool = True
    protocol: Protocol | Adaptive | None = None
    shared_negatives: bool = False
    fixed_sample_size: bool = False

    @property
    def weighted(self) -> bool:
        """Whether negatives are weighted: the log has a protocol of such, or a column n_above."""
        return isinstance(self.protocol, Protocol) or "n_above" in self.kinds

    @property
    def design(self) -> Adaptive | None:
        """The adaptive design of its samples; None for one round, which is a fixed sample."""
        design = self.protocol
        return design if isinstance(design, Adaptive) and design.first < design.most else None

    def outcomes(self) -> dict[str, IntArray]:
        """n_better and n_negatives of each kind as in a log of fixed samples.

        An adaptive design has as many outcomes as its most negatives have sampled ranks, and their
        places (:meth:`~sampled_metrics.Adaptive.places`) stand for n_better.
        """
        better, drawn = self.kinds["n_better"], self.kinds["n_negatives"]
        if self.design is not None:
            better, drawn = self.design.places(drawn, better), np.full_like(drawn, self.design.most)
        return {"n_better": better, "n_negatives": drawn}

    @property
    def n_users(self) -> int:
        """Number of users; the largest number of any recommender if users are not paired."""
        if not self.paired:
            return max(self.users_of.values())
        return sum(
            self._users(some, np.logical_or.reduce([own > 0 for own in there]))
            for some, there in self._presence(*range(len(self.codes)))
        )

    @cached_property
    def users_of(self) -> dict[str, int]:
        """Number of users of each recommender."""
        first = self.kinds["position"] == 1
        return {name: round(float(own[first].sum())) for name, own in self.user_counts.items()}

    @cached_property
    def user_counts(self) -> dict[str, FloatArray]:
        """For each recommender, users per kind; a user is shared evenly by its instances."""
        return dict(zip(self.recommenders, self.kind_counts * self._share, strict=True))

    @cached_property
    def _share(self) -> FloatArray:
        """One over the number of the user's instances, for each kind."""
        return np.asarray(1.0 / self.kinds["n_instances"])

    @cached_property
    def kind_counts(self) -> IntArray:
        """Rows of each kind and recommender, shape (recommenders, kinds)."""
        many = self.kinds["position"].size + 1
        found = np.zeros((len(self.codes), many))
        for number, own in enumerate(found):
            for some, ((code, user),) in self._rows(number):
                each = None
                if self.weights is not None:
                    each = self.weights[some] if user is None else self.weights[some][user]
                own += np.bincount(code, each, many)
        return found[:, 1:].astype(np.int64)

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Distinct rows with their count: recommender, the columns of `KIND`, and count (int)."""
        import pandas as pd

        kinds = pd.DataFrame({name: self.kinds[name] for name in KIND})
        tables = [
            kinds.assign(count=count).groupby(list(KIND), as_index=False)["count"].sum()
            for count in self.kind_counts
        ]
        for name, table in zip(self.recommenders, tables, strict=True):
            table.insert(0, "recommender", name)
        found: pd.DataFrame = pd.concat(tables)
        return found.query("count > 0").reset_index(drop=True)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each held-out item (for each kind of user, if the log has counts).

        The columns are recommender (str); user; instance (int; equal for items ranked together);
        n_better and n_tied (int; sampled negatives that scored above the item, and equal);
        position (int; the item's place among the relevant items of the instance, 1 the best);
        n_relevant (int; relevant items of the instance); n_items (int; candidates of the instance,
        relevant items included); n_negatives (int; sampled negatives); and, if the log has them,
        count (int; users with this row) or n_above (float).
        """
        import pandas as pd

        user, code = [], []
        for own, size in zip(self.codes, self.sizes or self.codes, strict=True):
            there = np.flatnonzero(size)
            user.append(there if self.sizes is None else np.repeat(there, size[there]))
            code.append(own[there] if self.sizes is None else own)
        names = np.repeat(np.array(self.recommenders, dtype=object), [own.size for own in code])
        users, kind = np.concatenate(user), np.concatenate(code).astype(np.int64) - 1
        labels = (
            np.arange(self.users.start, self.users.stop)[users]
            if isinstance(self.users, range)
            else self.users[users]
        )
        columns = {name: self.kinds[name][kind] for name in KIND}
        instance = np.cumsum(columns["position"] == 1) - 1
        found = {"recommender": names, "user": labels, "instance": instance, **columns}
        if self.weights is not None:
            found["count"] = self.weights[users].astype(np.int64)
        if "n_above" in self.kinds:
            found["n_above"] = self.kinds["n_above"][kind]
        return pd.DataFrame(found)

    def __repr__(self) -> str:
        held: dict[str, object] = {"recommenders": len(self.recommenders)}
        held |= {"users": self.n_users, "rows": int(self.kind_counts.sum())}
        for name in ("n_items", "n_negatives"):
            held[name] = span(self.kinds[name])
        held["replacement"] = self.replacement
        if self.protocol is not None:
            held["protocol"] = self.protocol
        return f"Log({', '.join(f'{name}={value}' for name, value in held.items())})"

    def joint_counts(self, *names: str) -> tuple[list[IntArray], IntArray]:
        """Codes that users have under several recommenders, and the users with each combination.

        Only for logs with at most one row per user. A missing row has code 0.
        """
        if names not in self._joint:
            many = self.kinds["position"].size + 1
            size = many ** len(names)
            if size <= _TABLE:
                table = sum(np.bincount(*each, size) for each in self._joint_codes(np.int32, names))
                found = np.flatnonzero(table)
                counts = np.asarray(table)[found]
            else:
                values, counts = tallied(self._joint_codes(np.int64, names))
                found = values.astype(np.int64)
            there = found > 0  # code 0: users with rows under other recommenders only
            kinds = np.unravel_index(found[there], (many,) * len(names))
            self._joint[names] = [*kinds], counts[there].astype(np.int64)
        return self._joint[names]

    @cached_property
    def _joint(self) -> dict[tuple[str, ...], tuple[list[IntArray], IntArray]]:
        return {}

    def _joint_codes(
        self, dtype: Any, names: Sequence[str]
    ) -> Iterator[tuple[IntArray, FloatArray | None]]:
        """Blocks of users: one code for the combination of recommenders, and weights."""
        for some, rows in self._rows(*map(self.recommenders.index, names)):
            code = np.zeros(rows[0][0].size, dtype=dtype)
            for own, _ in rows:
                code *= self.kinds["position"].size + 1
                code += own
            yield code, None if self.weights is None else self.weights[some]

    def sums(self, values: Mapping[str, FloatArray]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield users' values and how many users have each, in blocks of users.

        `values` maps recommenders to the value of a row of each kind. A user's value is the sum
        over recommenders of the mean over the user's instances of the sum of the rows' values.
        Users without rows are skipped.
        """
        of_code = [np.append(0.0, own * self._share) for own in values.values()]
        if self.sizes is None and of_code[0].size ** len(values) <= _TABLE:
            kinds, counts = self.joint_counts(*values)
            found = sum(own[kind] for own, kind in zip(of_code, kinds, strict=True))
            yield np.asarray(found), counts.astype(float)
            return
        of = [self.recommenders.index(name) for name in values]
        for (some, rows), (_, presence) in zip(self._rows(*of), self._presence(*of), strict=True):
            sums = np.zeros(presence[0].size)
            for own, (code, user) in zip(of_code, rows, strict=True):
                each = own[code]
                sums += each if user is None else np.bincount(user, each, sums.size)
            there = np.logical_or.reduce([own > 0 for own in presence])
            if there.any():
                each = np.ones(sums.size) if self.weights is None else self.weights[some]
                yield sums[there], each[there]

    @cached_property
    def same_users(self) -> bool:
        """Whether every recommender has the same users."""
        return self.paired and set(self.users_of.values()) == {self.n_users}

    def check_same_users(self) -> None:
        """Raise ValueError unless recommenders can be compared user by user."""
        first, *others = self.recommenders
        if not others:
            raise ValueError(f"recommenders must be 2 or more to be compared, got {first} only")
        if not self.paired:
            raise ValueError(
                "recommenders of a log with a column count are compared if the same users can be "
                "told: add a column user, one value for all rows of the users that a count is of"
            )
        for number, name in enumerate(others, start=1):
            users, label = self.difference(0, number)
            if users:
                raise ValueError(
                    f"recommenders must have the same users to be compared, but {first} and {name} "
                    f"differ in {users}, such as {label}"
                )

    def difference(self, one: int, other: int) -> tuple[int, object]:
        """Number of users that only one of two recommenders has, and the first of them."""
        found, user = 0, None
        for some, (first, second) in self._presence(one, other):
            differ = (first > 0) != (second > 0)
            if user is None and differ.any():
                user = self.users[some][int(np.argmax(differ))]
            found += self._users(some, differ)
        return found, user

    def _users(self, some: slice, which: NDArray[np.bool_]) -> int:
        return int(which.sum() if self.weights is None else self.weights[some][which].sum())

    def _presence(self, *of: int) -> Iterator[tuple[slice, list[NDArray[Any]]]]:
        """Blocks of users; for each recommender, numbers above 0 where a user has rows."""
        for start in range(0, len(self.users), _BLOCK):
            some = slice(start, min(start + _BLOCK, len(self.users)))
            yield some, [(self.sizes or self.codes)[number][some] for number in of]

    def _rows(self, *of: int) -> Iterator[tuple[slice, list[tuple[NDArray[Any], IntArray | None]]]]:
        """Blocks of users; for each recommender, the codes of rows and the user of each row.

        Users are numbered within the block; None where each user has one code.
        """
        ends = [0] * len(of)
        for some, presence in self._presence(*of):
            if self.sizes is None:
                yield some, [(code, None) for code in presence]
                continue
            found: list[tuple[NDArray[Any], IntArray | None]] = []
            for at, (number, size) in enumerate(zip(of, presence, strict=True)):
                user = np.repeat(np.arange(size.size), size)
                found.append((self.codes[number][ends[at] : ends[at] + user.size], user))
                ends[at] += user.size
            yield some, found


class Builder:
    """Builds a log from blocks of rows.

    Use :meth:`append` for sorted rows, all rows of a user in one block; `rows` is then the number
    of rows of each recommender. Use :meth:`place` for rows in any order, at most one per
    recommender and user.
    """

    def __init__(
        self,
        recommenders: Sequence[str],
        users: range | NDArray[Any],
        rows: Sequence[int] | None = None,
    ) -> None:
        self.recommenders, self.users = tuple(recommenders), users
        self._names: list[str] = []
        self._kinds: list[IntArray] = []
        self._type: Any = np.uint8
        self._sizes: list[NDArray[Any]] | None = None
        self._ends = [0] * len(recommenders)
        if rows is None:
            table = np.zeros((len(recommenders), len(users)), dtype=np.uint8)
            self._codes = [*table]
        else:
            self._codes = [np.zeros(many, dtype=np.uint8) for many in rows]
            self._sizes = [np.zeros(len(users), dtype=np.uint8) for _ in rows]

    def place(
        self, recommender: NDArray[Any], user: NDArray[Any], columns: Mapping[str, NDArray[Any]]
    ) -> None:
        """Add rows of users with one row per recommender.

        `columns` are those of `KIND` except position and n_relevant, and optionally n_above; of
        shape (rows,), or (1,) if constant.
        """
        one = np.ones(1, dtype=np.int64)
        code = self._coded({"position": one, "n_relevant": one, **columns}, one, None, user.size)
        for number in np.flatnonzero(np.bincount(recommender)).tolist():
            if recommender.size == 1 or (recommender == number).all():
                self._codes[number][user] = code
            else:
                own = recommender == number
                self._codes[number][user[own]] = code[own]

    @property
    def placed(self) -> int:
        """Number of cells filled; less than the rows placed if a user had two."""
        return sum(int(np.count_nonzero(code)) for code in self._codes)

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Add all rows of some users, sorted by recommender, user and instance, best first.

        `rows` has the columns of `COLUMNS`, recommenders and users as codes, and optionally
        n_above; of shape (rows,), or (1,) if constant.
        """
        assert self._sizes is not None
        user = rows["user"]
        recommender = np.broadcast_to(rows["recommender"], user.size)
        new = np.append(True, (user[1:] != user[:-1]) | (recommender[1:] != recommender[:-1]))
        number = np.cumsum(new) - 1
        instances = np.bincount(number, np.broadcast_to(rows["position"], user.size) == 1)
        columns = {name: rows[name] for name in (*KIND, "n_above") if name in rows}
        tied = _tied(rows, user.size)
        code = self._coded(columns, instances.astype(np.int64)[number], tied, user.size)
        starts = np.flatnonzero(new)
        many = np.diff(np.append(starts, user.size))
        wide = np.min_scalar_type(int(many.max()))
        for at in range(len(self._codes)):
            own, first = recommender == at, recommender[starts] == at
            if first.any():
                if wide.itemsize > self._sizes[at].itemsize:
                    self._sizes[at] = self._sizes[at].astype(wide)
                self._sizes[at][user[starts[first]]] = many[first]
                end = self._ends[at] + int(own.sum())
                self._codes[at][self._ends[at] : end] = code[own]
                self._ends[at] = end

    def _coded(
        self,
        columns: Mapping[str, NDArray[Any]],
        instances: NDArray[Any],
        tied: Sequence[NDArray[Any]] | None,
        size: int,
    ) -> NDArray[Any]:
        """The codes of rows; new kinds are numbered in order of appearance."""
        none = np.zeros(1, dtype=np.int64)
        place, many = (none, none) if tied is None else tied
        more = {"n_instances": instances, "tied_position": place, "tied_relevant": many}
        wanted = {name: columns[name] for name in KIND} | more
        if "n_above" in columns:
            wanted["n_above"] = columns["n_above"]
        kind, found = equal_rows(list(wanted.values()), size)
        known = self._kinds[0].size if self._kinds else 0
        if known:
            both = [np.append(old, new) for old, new in zip(self._kinds, found, strict=True)]
            merged, found = equal_rows(both, both[0].size)
        else:
            self._kinds = [new[:0] for new in found]
            merged = np.arange(found[0].size)
        # Known kinds keep their numbers, so that codes already stored stay valid.
        number = np.full(found[0].size, -1)
        number[merged[:known]] = np.arange(known)
        new = np.flatnonzero(number < 0)
        number[new] = np.arange(known, number.size)
        self._names = [*wanted]
        self._kinds = [
            np.append(old, now[new]) for old, now in zip(self._kinds, found, strict=True)
        ]
        if np.min_scalar_type(number.size).itemsize > np.dtype(self._type).itemsize:
            self._type = np.min_scalar_type(number.size)
            self._codes = [code.astype(self._type) for code in self._codes]
        return np.asarray((number[merged[known:]] + 1).astype(self._type)[kind])

    @property
    def kinds(self) -> dict[str, IntArray]:
        """The distinct rows so far, in order of appearance."""
        return dict(zip(self._names, self._kinds, strict=True))

    def log(
        self,
        replacement: bool,
        weights: FloatArray | None = None,
        paired: bool = True,
        above: FloatArray | None = None,
    ) -> Log:
        """The finished log, with kinds in lexicographic order; n_above are codes into `above`."""
        order = np.lexsort(self._kinds[::-1])
        number = np.append(0, np.argsort(order) + 1).astype(self._type)
        for code in self._codes:
            for start in range(0, code.size, _BLOCK):
                part = code[start : start + _BLOCK]
                part[:] = number[part]
        kinds: dict[str, NDArray[Any]] = {name: own[order] for name, own in self.kinds.items()}
        if above is not None:
            kinds["n_above"] = above[kinds["n_above"]]
        held = self.recommenders, self.users, self._codes, self._sizes, kinds
        return Log(*held, replacement, weights, paired)


def _tied(rows: Mapping[str, NDArray[Any]], size: int) -> tuple[IntArray, IntArray]:
    """Place among relevant items that tie with each other and with negatives, and their number.

    Two relevant items with equal n_better and n_tied > 0 must have the same score.
    """
    place, many = np.zeros((2, size), dtype=np.int64)
    columns = (rows[name] for name in ("instance", "n_better", "n_tied"))
    instance, better, tied = (np.broadcast_to(column, size) for column in columns)
    same = np.zeros(size + 1, dtype=bool)
    equal = [column[1:] == column[:-1] for column in (instance, better, tied)]
    same[1:-1] = np.logical_and.reduce([*equal, tied[1:] > 0])
    among = np.flatnonzero(same[1:] | same[:-1])
    if among.size:
        starts = np.flatnonzero(~same[among])
        run = np.cumsum(~same[among]) - 1
        place[among] = np.arange(among.size) - starts[run] + 1
        many[among] = np.bincount(run)[run]
    return place, many

"""A log in memory: one small code for each row, and a table of what each code stands for.

Rows that agree in all their numbers are of one kind, and there are few kinds however many users
there are. With up to 255 kinds a billion rows are a gigabyte. All that an evaluation needs of a log
is here: how many rows are of each kind, how often two recommenders give a user these two kinds, and
sums over a user's rows of a value that depends on the kind.
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

#: The columns of :attr:`Log.frame`, in their order.
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
#: Those of them that rows of one kind share.
KIND = COLUMNS[3:]
#: Users whose rows are looked at together, so that what is made of them stays in the cache.
_BLOCK = 1 << 18
#: Combinations of kinds that are counted in a table; of more, users are looked at one by one.
_TABLE = 1 << 22
#: Different values that are kept before they are counted together.
_TALLIED = 1 << 20


def tallied(
    parts: Iterable[tuple[NDArray[Any], FloatArray | None]],
) -> tuple[FloatArray, FloatArray]:
    """Different values in order, and how often each is there, from parts of them with counts.

    Examples
    --------
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
    """Find which rows of several columns agree in all of them.

    Parameters
    ----------
    columns : sequence of ndarray of int, each of shape (rows,), or (1,) for one that is constant
    size : int
        How many rows there are.

    Returns
    -------
    kind : ndarray of int, shape (rows,)
        Which of the different rows each is.
    kinds : list of ndarray of int, each of shape (kinds,)
        The different rows, in lexicographic order.

    Examples
    --------
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
    if small:  # nothing has to be sorted, however many rows there are
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
    """Places of numbers among the different ones, and these in order: by hashing, not sorting."""
    import pandas as pd

    codes, different = pd.factorize(values, sort=True)
    return codes, np.asarray(different)


@dataclass(eq=False)
class Log:
    """A sampled evaluation, as :func:`~sampled_metrics.log.read.read_log` returns it.

    Attributes
    ----------
    recommenders : tuple of str
        Their names, in the order of the log.
    users : range or ndarray
        Numbers or text; some may have no row.
    codes : list of ndarray of unsigned int
        For each recommender the kind of every row, from 1 on, in the order of users; a user's rows
        by instance, best first. Without `sizes` there is one code for each user, 0 if the user has
        no row.
    sizes : list of ndarray of unsigned int, each of shape (users,), or None
        For each recommender the number of rows of every user; None if it is 0 or 1 for all.
    kinds : dict of str to ndarray, each of shape (kinds,)
        What the rows of a kind share: the columns of `KIND`; n_instances of their user with the
        recommender; tied_relevant, how many relevant items of the instance tie with one another
        and with negatives, and tied_position, the row's place among these (both 0 elsewhere); and
        n_above, if the log has it. In lexicographic order.
    replacement : bool
        Whether negatives were drawn with replacement.
    weights : ndarray of float, shape (users,), or None
        How many users each of `users` stands for; one if None.
    paired : bool
        Whether one of `users` has its own rows with each recommender; else each row has its own.
    protocol : Protocol, Adaptive or None
        How negatives were drawn, where that was not alike, or not as many whatever they showed,
        and `read_log` was told so.
    shared_negatives : bool
        Whether users share their negatives, so that their sampled ranks are not independent.

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

    @property
    def weighted(self) -> bool:
        """Whether its negatives were not drawn alike: by `protocol`, or it has a column n_above."""
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
        """How many users there are; the most that a recommender has, if they are not paired."""
        if not self.paired:
            return max(self.users_of.values())
        return sum(
            self._users(some, np.logical_or.reduce([own > 0 for own in there]))
            for some, there in self._presence(*range(len(self.codes)))
        )

    @cached_property
    def users_of(self) -> dict[str, int]:
        """How many users each recommender has."""
        first = self.kinds["position"] == 1
        return {name: round(float(own[first].sum())) for name, own in self.user_counts.items()}

    @cached_property
    def user_counts(self) -> dict[str, FloatArray]:
        """Users of each recommender with a row of each kind, shared evenly by their instances."""
        return dict(zip(self.recommenders, self.kind_counts * self._share, strict=True))

    @cached_property
    def _share(self) -> FloatArray:
        """The share of its user that an instance has, for each kind."""
        return np.asarray(1.0 / self.kinds["n_instances"])

    @cached_property
    def kind_counts(self) -> IntArray:
        """How many rows of each kind every recommender has, shape (recommenders, kinds)."""
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
        """How many rows are alike: recommender, the columns of `KIND`, and count (all int)."""
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
        """A row for each held-out item, with the columns of `COLUMNS`.

        These are recommender (str); user; instance (int; the rows of one were ranked together);
        n_better and n_tied (int; sampled negatives that scored above the item, and the same);
        position (int; the item's place among the relevant ones of the instance, 1 the best);
        n_relevant (int; how many these are); n_items (int; candidates of the instance, the relevant
        ones included) and n_negatives (int; how many were sampled). If the log has them, there is
        count (int; how many users have this row) or n_above (float).
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
        """Codes that users have under several recommenders, and how many users have each.

        Only where every user has one row, or none, whose code is 0.
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
            there = found > 0  # users of other recommenders have no code
            kinds = np.unravel_index(found[there], (many,) * len(names))
            self._joint[names] = [*kinds], counts[there].astype(np.int64)
        return self._joint[names]

    @cached_property
    def _joint(self) -> dict[tuple[str, ...], tuple[list[IntArray], IntArray]]:
        return {}

    def _joint_codes(
        self, dtype: Any, names: Sequence[str]
    ) -> Iterator[tuple[IntArray, FloatArray | None]]:
        """Stretches of users, each with one code for all recommenders, and users' weights."""
        for some, rows in self._rows(*map(self.recommenders.index, names)):
            code = np.zeros(rows[0][0].size, dtype=dtype)
            for own, _ in rows:
                code *= self.kinds["position"].size + 1
                code += own
            yield code, None if self.weights is None else self.weights[some]

    def sums(self, values: Mapping[str, FloatArray]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Values of users, and how many users have each.

        A user's value is a sum over recommenders of the mean over the user's instances of the sum
        of the rows' values.

        Parameters
        ----------
        values : dict of str to ndarray of float, each of shape (kinds,)
            Under names of recommenders, the value of a row of each kind.

        Yields
        ------
        sums, users : ndarray of float
            Of some users after the other, without those who have no row.
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
        """Whether every recommender has all users."""
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
        """How many users only one of two recommenders has, and the first of them, or None."""
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
        """Stretches of users, each with numbers that are above 0 for users of the recommenders."""
        for start in range(0, len(self.users), _BLOCK):
            some = slice(start, min(start + _BLOCK, len(self.users)))
            yield some, [(self.sizes or self.codes)[number][some] for number in of]

    def _rows(self, *of: int) -> Iterator[tuple[slice, list[tuple[NDArray[Any], IntArray | None]]]]:
        """Stretches of users, each with the codes and the users of rows under the recommenders.

        The users are counted within the stretch, and None where each user has one code.
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
    """A log that grows by some of its rows at a time.

    Either all rows of a user come together in the end, sorted (:meth:`append`), or in any order, if
    a user has one with each recommender at most (:meth:`place`).

    Parameters
    ----------
    recommenders, users
        As of :class:`Log`.
    rows : sequence of int, optional
        How many rows each recommender has, if users may have several.
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
        """Take in rows of users who have no other one with the recommender.

        `columns` are those of `KIND` but for position and n_relevant, and maybe n_above, of shape
        (rows,), or (1,) where all rows have the same.
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
        """How many rows were placed, without those in whose place another one came."""
        return sum(int(np.count_nonzero(code)) for code in self._codes)

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Take in all rows of some users with some recommenders, in order and best first.

        `rows` has the columns of `COLUMNS`, recommenders and users by their places, and maybe
        n_above; of shape (rows,), or (1,) where all rows have the same.
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
        """The codes of rows, in the order in which their kinds came."""
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
        # Kinds that are known keep their numbers, so that no code has to change.
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
        """What the rows of each kind share so far, in the order in which they came."""
        return dict(zip(self._names, self._kinds, strict=True))

    def log(
        self,
        replacement: bool,
        weights: FloatArray | None = None,
        paired: bool = True,
        above: FloatArray | None = None,
    ) -> Log:
        """The log of all rows; n_above in them are places in `above`."""
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
    """The places of items that tie with negatives and other relevant items, and how many do.

    Two relevant items with the same negatives above and level have the same score.
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

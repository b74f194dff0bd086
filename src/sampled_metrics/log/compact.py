"""A log in memory: a small integer code for each row, and a table of the distinct rows.

Rows that agree in all their numbers share a code (a *kind*). There are few kinds however many users
there are: with up to 255 kinds, a billion rows take a gigabyte. An evaluation needs only the rows
of each kind, joint counts of two recommenders' kinds, and sums over a user's rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray, as_intp, span
from ..metrics import Metric
from ..numerics.betting import tally

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
#: Columns of a kind that only some logs have.
OPTIONAL = ("n_above", "n_chosen", "n_chosen_better")
#: The columns of anchors: the rank among all items, and the number of the draw, from 1.
ANCHOR_COLUMNS = ("exact_rank", "draw")
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
        values, counts = zip(*tallies, strict=True)
        return tally(np.concatenate(values), np.concatenate(counts))

    tallies: list[tuple[FloatArray, FloatArray]] = []
    for values, counts in parts:
        tallies.append(tally(values, counts))
        if sum(distinct.size for distinct, _ in tallies) > 4 * tallies[0][0].size + _TALLIED:
            tallies = [merged()]
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
    varying = [column_index for column_index, span in enumerate(spans) if span > 1]
    n_kinds = 1
    code: NDArray[Any] = np.zeros(size, dtype=np.int32)
    small = math.prod(spans) <= 1 << 16
    for column_index in varying:
        offsets = columns[column_index] - lows[column_index]
        if n_kinds * spans[column_index] >= 2**62:
            (code, distinct_codes), (offsets, distinct_offsets) = map(_factorized, (code, offsets))
            n_kinds, spans[column_index] = distinct_codes.size, distinct_offsets.size
        offsets = offsets.astype(np.int32 if small else np.int64, copy=False)
        code = offsets if n_kinds == 1 else code * offsets.dtype.type(spans[column_index]) + offsets
        n_kinds *= spans[column_index]
    if small:  # a table of all combinations avoids sorting
        is_present = np.bincount(code, minlength=math.prod(spans)) > 0
        kind_offsets = np.unravel_index(np.flatnonzero(is_present), spans)
        kind_columns = [
            offset.astype(np.int64) + low for offset, low in zip(kind_offsets, lows, strict=True)
        ]
        kind = code if is_present.all() else (np.cumsum(is_present, dtype=np.int32) - 1)[code]
        return kind, kind_columns
    code, values = _factorized(code)
    example_rows = np.empty(values.size, dtype=np.int64)
    example_rows[code] = np.arange(code.size)
    rows = (np.broadcast_to(column, size)[example_rows] for column in columns)
    return code, [column.astype(np.int64) for column in rows]


def _factorized(values: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """Codes of numbers and the distinct numbers in order, by hashing instead of sorting all."""
    import pandas as pd

    codes, distinct = pd.factorize(values, sort=True)
    return codes, np.asarray(distinct)


@dataclass(frozen=True)
class Draws:
    """How negatives were drawn.

    >>> Uniform(replacement=False).uniform, Unstated(replacement=False).uniform
    (True, False)
    """

    replacement: bool
    uniform: ClassVar[bool] = False
    #: In words.
    drawn: ClassVar[str]


class Uniform(Draws):
    """Uniform negatives: each row says how many there are, and of how many items."""

    uniform = True
    drawn = "uniformly"


class InBlocks(Uniform):
    """Each user is ranked among the items of its block; blocks partition the items at random."""

    drawn = "uniformly, by a partition into blocks"


class Unstated(Draws):
    """Negatives drawn with probabilities for which only the column n_above allows."""

    drawn = "with the probabilities that n_above allows for"


class Censored(Draws):
    """Uniform negatives; a row with ties says only that its rank is beyond those above."""

    drawn = "uniformly, with ranks that are known near the top alone"


class BesideChosen(Draws):
    """Uniform negatives from the items beside chosen ones, all of which were scored."""

    drawn = "uniformly, beside chosen items that are all scored"


@dataclass(frozen=True, eq=False)
class AnchorRanks:
    """The exact ranks of anchors.

    Attributes
    ----------
    metrics : tuple of Metric
        By whose largest possible values the anchors were drawn.
    users : ndarray of int, shape (anchors,)
        Indices into the users of the log, in the order of the draws.
    ranks : ndarray of int, shape (recommenders, anchors)
        The ranks among all items.
    """

    metrics: tuple[Metric, ...]
    users: IntArray
    ranks: IntArray


@dataclass(frozen=True, eq=False, repr=False)
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
        n_above, n_chosen and n_chosen_better, if present.
    protocol : Uniform, InBlocks, Censored, BesideChosen or Unstated
        How negatives were drawn, with a field `replacement`. InBlocks stands for a column block,
        which is then that of `groups`. Unstated stands for a column n_above,
        BesideChosen for a column n_chosen, Censored for a column hit or ranks such as ">10".
    weights : ndarray of float, shape (users,), or None
        How many users each of `users` stands for (column count); None means one.
    paired : bool
        Whether recommenders can be compared user by user; False if a log of counts has no users.
    shared_negatives : bool
        Whether users share their negatives, so that their sampled ranks are not independent.
    fixed_sample_size : bool
        Whether the log's reader was told that n_negatives does not depend on the ranking.
    exact_values : mapping of str to mapping of str to float
        Known exact metrics of the recommenders; empty except for the bundled log.
    groups : pandas.Series of categories, shape (users,), or None
        The group of each user, named by the column, if the log was read with `by`.
    anchors : AnchorRanks or None
        The users whose held-out item was ranked among all items, if the log has them.

    See Also
    --------
    sampled_metrics.read_log : Read a log from a file or a data frame.

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
    protocol: Draws
    weights: FloatArray | None = None
    paired: bool = True
    shared_negatives: bool = False
    fixed_sample_size: bool = False
    exact_values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    groups: pd.Series | None = None
    anchors: AnchorRanks | None = None

    @property
    def replacement(self) -> bool:
        """Whether negatives were drawn with replacement."""
        return self.protocol.replacement

    @property
    def n_users(self) -> int:
        """Number of users; the largest number of any recommender if users are not paired."""
        if not self.paired:
            return max(self.users_of.values())
        return sum(
            self._users(block, np.logical_or.reduce([marker > 0 for marker in presence]))
            for block, presence in self._presence(*range(len(self.codes)))
        )

    @cached_property
    def users_of(self) -> dict[str, int]:
        """Number of users of each recommender."""
        first = self.kinds["position"] == 1
        return {name: round(float(users[first].sum())) for name, users in self.user_counts.items()}

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
        n_codes = self.kinds["position"].size + 1
        counts = np.zeros((len(self.codes), n_codes))
        for recommender, code_counts in enumerate(counts):
            for block, ((code, user),) in self._rows(recommender):
                weights = None
                if self.weights is not None:
                    weights = self.weights[block] if user is None else self.weights[block][user]
                code_counts += np.bincount(as_intp(code), weights, n_codes)
        return counts[:, 1:].astype(np.int64)

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
        rows: pd.DataFrame = pd.concat(tables)
        return rows.query("count > 0").reset_index(drop=True)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each held-out item (for each kind of user, if the log has counts).

        The columns are recommender (str); user; instance (int; equal for items ranked together);
        n_better and n_tied (int; sampled negatives that scored above the item, and equal);
        position (int; the item's place among the relevant items of the instance, 1 the best);
        n_relevant (int; relevant items of the instance); n_items (int; candidates of the instance,
        relevant items included); n_negatives (int; sampled negatives); and, if the log has them,
        count (int; users with this row), n_above (float), or n_chosen and n_chosen_better (int);
        and the column of `groups`.
        """
        import pandas as pd

        user_parts, code_parts = [], []
        for codes, size in zip(self.codes, self.sizes or self.codes, strict=True):
            present_users = np.flatnonzero(size)
            n_rows = 1 if self.sizes is None else as_intp(size[present_users])
            user_parts.append(np.repeat(present_users, n_rows))
            code_parts.append(codes[present_users] if self.sizes is None else codes)
        names = np.repeat(
            np.array(self.recommenders, dtype=object), [codes.size for codes in code_parts]
        )
        users = np.concatenate(user_parts, dtype=np.int64)
        kind = np.concatenate(code_parts, dtype=np.int64) - 1
        labels = users + self.users.start if isinstance(self.users, range) else self.users[users]
        columns = {name: self.kinds[name][kind] for name in KIND}
        instance = np.cumsum(columns["position"] == 1, dtype=np.int64) - 1
        frame_columns = {"recommender": names, "user": labels, "instance": instance, **columns}
        if self.weights is not None:
            frame_columns["count"] = self.weights[users].astype(np.int64)
        frame_columns |= {name: self.kinds[name][kind] for name in OPTIONAL if name in self.kinds}
        if self.groups is not None:
            frame_columns[str(self.groups.name)] = self.groups.array[users]
        return pd.DataFrame(frame_columns)

    def __repr__(self) -> str:
        fields: dict[str, object] = {"recommenders": len(self.recommenders)}
        fields |= {"users": self.n_users, "rows": int(self.kind_counts.sum())}
        for name in ("n_items", "n_negatives"):
            fields[name] = span(self.kinds[name])
        fields["replacement"] = self.replacement
        return f"Log({', '.join(f'{name}={value}' for name, value in fields.items())})"

    def joint_counts(self, *names: str) -> tuple[list[IntArray], IntArray]:
        """Codes that users have under several recommenders, and the users with each combination.

        Only for logs with at most one row per user. A missing row has code 0.
        """
        if names not in self._joint:
            n_codes = self.kinds["position"].size + 1
            size = n_codes ** len(names)
            if size <= _TABLE:
                table = sum(np.bincount(*part, size) for part in self._joint_codes(np.int32, names))
                combinations = np.flatnonzero(table)
                counts = np.asarray(table)[combinations]
            else:
                values, counts = tallied(self._joint_codes(np.int64, names))
                combinations = values.astype(np.int64)
            has_rows = combinations > 0  # code 0: users with rows under other recommenders only
            powers = [n_codes**i for i in reversed(range(len(names)))]
            kinds = [combinations[has_rows] // power % n_codes for power in powers]
            self._joint[names] = kinds, counts[has_rows].astype(np.int64)
        return self._joint[names]

    @cached_property
    def _joint(self) -> dict[tuple[str, ...], tuple[list[IntArray], IntArray]]:
        return {}

    def _joint_codes(
        self, dtype: Any, names: Sequence[str]
    ) -> Iterator[tuple[IntArray, FloatArray | None]]:
        """Blocks of users: one code for the combination of recommenders, and weights."""
        for block, rows in self._rows(*map(self.recommenders.index, names)):
            joint_codes = np.zeros(rows[0][0].size, dtype=dtype)
            for codes, _ in rows:
                joint_codes *= self.kinds["position"].size + 1
                joint_codes += codes
            yield joint_codes, None if self.weights is None else self.weights[block]

    def user_sums(
        self, values: Mapping[str, FloatArray]
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield users' values and how many users have each, in blocks of users.

        `values` maps recommenders to the value of a row of each kind. A user's value is the sum
        over recommenders of the mean over the user's instances of the sum of the rows' values.
        Users without rows are skipped.
        """
        values_by_code = [np.append(0.0, column * self._share) for column in values.values()]
        if self.sizes is None and values_by_code[0].size ** len(values) <= _TABLE:
            kinds, counts = self.joint_counts(*values)
            user_values = sum(
                column[kind] for column, kind in zip(values_by_code, kinds, strict=True)
            )
            yield np.asarray(user_values), counts.astype(float)
            return
        recommenders = [self.recommenders.index(name) for name in values]
        for (block, rows), (_, presence) in zip(
            self._rows(*recommenders), self._presence(*recommenders), strict=True
        ):
            sums = np.zeros(presence[0].size)
            for column, (code, user) in zip(values_by_code, rows, strict=True):
                terms = column[code]
                sums += terms if user is None else np.bincount(user, terms, sums.size)
            has_rows = np.logical_or.reduce([column > 0 for column in presence])
            if has_rows.any():
                users = np.ones(sums.size) if self.weights is None else self.weights[block]
                yield sums[has_rows], users[has_rows]

    @cached_property
    def same_users(self) -> bool:
        """Whether every recommender has the same users."""
        return self.paired and set(self.users_of.values()) == {self.n_users}

    def check_same_users(self) -> None:
        """Raise ValueError unless recommenders can be compared user by user."""
        first, *other_names = self.recommenders
        if not other_names:
            raise ValueError(f"recommenders must be 2 or more to be compared, got {first} only")
        if not self.paired:
            raise ValueError(
                "to compare recommenders, a log with a column count needs a column user, with one "
                "value for each group of users that is counted"
            )
        for recommender, name in enumerate(other_names, start=1):
            n_users, user = self._difference(0, recommender)
            if n_users:
                raise ValueError(
                    f"recommenders must have the same users to be compared, but {first} and {name} "
                    f"differ in {n_users}, such as {user}"
                )

    def _difference(self, first_index: int, second_index: int) -> tuple[int, object]:
        """Number of users that only one of two recommenders has, and the first of them."""
        n_users, user = 0, None
        for block, (first, second) in self._presence(first_index, second_index):
            differ = (first > 0) != (second > 0)
            if user is None and differ.any():
                user = self.users[block][int(np.argmax(differ))]
            n_users += self._users(block, differ)
        return n_users, user

    def _users(self, block: slice, is_selected: NDArray[np.bool_]) -> int:
        return int(
            is_selected.sum() if self.weights is None else self.weights[block][is_selected].sum()
        )

    def _presence(self, *recommenders: int) -> Iterator[tuple[slice, list[NDArray[Any]]]]:
        """Blocks of users; for each recommender, numbers above 0 where a user has rows."""
        for start in range(0, len(self.users), _BLOCK):
            block = slice(start, min(start + _BLOCK, len(self.users)))
            yield (
                block,
                [(self.sizes or self.codes)[recommender][block] for recommender in recommenders],
            )

    def _rows(
        self, *recommenders: int
    ) -> Iterator[tuple[slice, list[tuple[NDArray[Any], IntArray | None]]]]:
        """Blocks of users; for each recommender, the codes of rows and the user of each row.

        Users are numbered within the block; None where each user has one code.
        """
        ends = [0] * len(recommenders)
        for block, presence in self._presence(*recommenders):
            if self.sizes is None:
                yield block, [(code, None) for code in presence]
                continue
            rows: list[tuple[NDArray[Any], IntArray | None]] = []
            for slot, (recommender, size) in enumerate(zip(recommenders, presence, strict=True)):
                user = np.repeat(np.arange(size.size), as_intp(size))
                rows.append((self.codes[recommender][ends[slot] : ends[slot] + user.size], user))
                ends[slot] += user.size
            yield block, rows


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
            self._codes = [np.zeros(n_rows, dtype=np.uint8) for n_rows in rows]
            self._sizes = [np.zeros(len(users), dtype=np.uint8) for _ in rows]

    def place(
        self, recommender: NDArray[Any], user: NDArray[Any], columns: Mapping[str, NDArray[Any]]
    ) -> None:
        """Add rows of users with one row per recommender.

        `columns` are those of `KIND` except position and n_relevant, and optionally those of
        `OPTIONAL`; of shape (rows,), or (1,) if constant.
        """
        ones = np.ones(1, dtype=np.int64)
        code = self._coded({"position": ones, "n_relevant": ones, **columns}, ones, None, user.size)
        for recommender_index in np.flatnonzero(np.bincount(recommender)).tolist():
            if recommender.size == 1 or (recommender == recommender_index).all():
                self._codes[recommender_index][user] = code
            else:
                matches = recommender == recommender_index
                self._codes[recommender_index][user[matches]] = code[matches]

    @property
    def placed(self) -> int:
        """Number of cells filled; less than the rows placed if a user had two."""
        return sum(int(np.count_nonzero(code)) for code in self._codes)

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Add all rows of some users, sorted by recommender, user and instance, best first.

        `rows` has the columns of `COLUMNS`, recommenders and users as codes, and optionally
        those of `OPTIONAL`; of shape (rows,), or (1,) if constant.
        """
        assert self._sizes is not None
        user = rows["user"]
        recommender = np.broadcast_to(rows["recommender"], user.size)
        starts_user = np.append(
            True, (user[1:] != user[:-1]) | (recommender[1:] != recommender[:-1])
        )
        user_index = np.cumsum(starts_user) - 1
        instances = np.bincount(user_index, np.broadcast_to(rows["position"], user.size) == 1)
        columns = {name: rows[name] for name in (*KIND, *OPTIONAL) if name in rows}
        tied = _tied(rows, user.size)
        code = self._coded(columns, instances.astype(np.int64)[user_index], tied, user.size)
        starts = np.flatnonzero(starts_user)
        sizes = np.diff(np.append(starts, user.size))
        dtype = np.min_scalar_type(int(sizes.max()))
        for recommender_index in range(len(self._codes)):
            matches = recommender == recommender_index
            first = matches[starts]
            if first.any():
                if dtype.itemsize > self._sizes[recommender_index].itemsize:
                    self._sizes[recommender_index] = self._sizes[recommender_index].astype(dtype)
                self._sizes[recommender_index][user[starts[first]]] = sizes[first]
                end = self._ends[recommender_index] + int(matches.sum())
                self._codes[recommender_index][self._ends[recommender_index] : end] = code[matches]
                self._ends[recommender_index] = end

    def _coded(
        self,
        columns: Mapping[str, NDArray[Any]],
        instances: NDArray[Any],
        tied: Sequence[NDArray[Any]] | None,
        size: int,
    ) -> NDArray[Any]:
        """The codes of rows; new kinds are numbered in order of appearance."""
        zeros = np.zeros(1, dtype=np.int64)
        kind_columns = {name: columns[name] for name in KIND} | {"n_instances": instances}
        tied_columns = (zeros, zeros) if tied is None else tied
        kind_columns |= zip(("tied_position", "tied_relevant"), tied_columns, strict=True)
        kind_columns |= {name: columns[name] for name in OPTIONAL if name in columns}
        kind, kinds = equal_rows(list(kind_columns.values()), size)
        n_known = self._kinds[0].size if self._kinds else 0
        if n_known:
            stacked = [np.append(old, new) for old, new in zip(self._kinds, kinds, strict=True)]
            merged, kinds = equal_rows(stacked, stacked[0].size)
        else:
            self._kinds = [new[:0] for new in kinds]
            merged = np.arange(kinds[0].size)
        # Known kinds keep their numbers, so that codes already stored stay valid.
        number = np.full(kinds[0].size, -1)
        number[merged[:n_known]] = np.arange(n_known)
        new = np.flatnonzero(number < 0)
        number[new] = np.arange(n_known, number.size)
        self._names = [*kind_columns]
        self._kinds = [
            np.append(old, column[new]) for old, column in zip(self._kinds, kinds, strict=True)
        ]
        if np.min_scalar_type(number.size).itemsize > np.dtype(self._type).itemsize:
            self._type = np.min_scalar_type(number.size)
            self._codes = [code.astype(self._type) for code in self._codes]
        return np.asarray((number[merged[n_known:]] + 1).astype(self._type)[kind])

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
        kinds: dict[str, NDArray[Any]] = {
            name: column[order] for name, column in self.kinds.items()
        }
        protocol: Draws = Uniform(replacement)
        if "n_chosen" in kinds:
            protocol = BesideChosen(replacement)
        if above is not None:
            kinds["n_above"], protocol = above[kinds["n_above"]], Unstated(replacement)
        fields = self.recommenders, self.users, self._codes, self._sizes, kinds
        return Log(*fields, protocol, weights, paired)


def _tied(rows: Mapping[str, NDArray[Any]], size: int) -> tuple[IntArray, IntArray]:
    """Place among relevant items that tie with each other and with negatives, and their number.

    Two relevant items with equal n_better and n_tied > 0 must have the same score.
    """
    tied_position, tied_relevant = np.zeros((2, size), dtype=np.int64)
    columns = (rows[name] for name in ("instance", "n_better", "n_tied"))
    instance, better, tied = (np.broadcast_to(column, size) for column in columns)
    equals_previous = np.zeros(size + 1, dtype=bool)
    equal = [column[1:] == column[:-1] for column in (instance, better, tied)]
    equals_previous[1:-1] = np.logical_and.reduce([*equal, tied[1:] > 0])
    tied_rows = np.flatnonzero(equals_previous[1:] | equals_previous[:-1])
    if tied_rows.size:
        starts = np.flatnonzero(~equals_previous[tied_rows])
        run = np.cumsum(~equals_previous[tied_rows]) - 1
        tied_position[tied_rows] = np.arange(tied_rows.size) - starts[run] + 1
        tied_relevant[tied_rows] = np.bincount(run)[run]
    return tied_position, tied_relevant

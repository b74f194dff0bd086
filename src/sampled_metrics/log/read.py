"""The log of a sampled evaluation, read and checked, and the one bundled with the package.

A log has a row for each held-out item: how many of the sampled negatives scored above it and
how many the same. All that later modules need to know of an evaluation is in these rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._validate import as_written
from ..protocol import Protocol
from .columns import (
    INPUT,
    Key,
    Place,
    check_columns,
    check_pooling,
    key_of,
    lean,
    line,
    name_ignored,
    real,
    size_column,
    understood,
    whole,
)
from .compact import COLUMNS, Builder, Log
from .sources import WHOLE, Table, files, has_engine, is_dask, loaded, opened_dask

#: What files of exact ranks have besides.
_EXACT = ("n_candidates", "n_relevant", "n_better", "n_tied", "user")
#: Seed and number of negatives of the bundled log.
BUNDLED_NEGATIVES = 100
#: Users whose rows say whether a column that nobody knows tells recommenders apart.
_SOME_USERS = 10_000
#: Users without a row that are given a place beside each row, and those besides.
_SPARE, _FREE = 4, 1 << 26
#: What is said where nobody says how the negatives were drawn.
_UNSAID = (
    "replacement is missing: say whether one user's negatives may repeat (replacement=True, "
    "--replacement) or are distinct, as from random.sample or after duplicates were removed "
    "(replacement=False, --no-replacement); sampled-metrics audit tells it from the negatives"
)
#: Where the bundled log is.
BUNDLE = Path(__file__).parents[1] / "data"


def read_log(
    source: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    protocol: Protocol | None = None,
    shared_negatives: bool | None = None,
) -> Log:
    """Read and check the log of a sampled evaluation.

    Parameters
    ----------
    source : str, Path, sequence of these, or data frame of pandas, Polars, Arrow, Dask or Spark
        A CSV file (also .csv.gz), a Parquet file, several of them (a list, a folder, or a pattern
        such as ``"log/*.parquet"``), a data frame, or "bundled" for the log that comes with the
        package. Folders named as in recommender=ALS say a column. A row for each held-out item,
        with the columns

        - recommender: its name; may be missing if there is one only;
        - user: number or text;
        - either n_better and n_tied, the sampled negatives that scored above the item and the
          same, or rank, in [1, n_negatives + n_relevant], 1 the best, among the sampled
          negatives and the user's other relevant items;
        - item, optional: number or text of the held-out item;
        - instance, optional: number or text. Rows with the same recommender and user (and the
          same instance, if there is such a column) are the relevant items of one instance, ranked
          together among the same negatives; where each item was ranked among negatives of its
          own, number them here;
        - n_above, optional, >= 0: an estimate of how many irrelevant items of the catalogue are
          above the item, from negatives that are not drawn alike, as
          :func:`~sampled_metrics.readers.weighted.counts_above` makes it;
        - n_items, n_negatives, optional: as below, where they differ from user to user;
        - count, optional: how many users have this row. All rows of one `user` have the same count
          then, so that `user` is a kind of users who are alike under every recommender. If there
          is no user, each row is of users of its own, and recommenders cannot be compared.

        The names that other libraries give these columns are understood: RecTools' user_id and
        model, RecBole's user_id:token, trec_eval's qid and run, also in upper case. Other columns
        are left out. A warning says both.
    n_items : int, optional
        Candidates of each instance, the relevant items included, more than `n_relevant`.
    n_negatives : int, optional
        Sampled negatives of each instance, at least 1.
    replacement : bool
        Whether negatives were drawn with replacement, so that one user's may repeat. After
        duplicates were removed they are distinct: given how many are left, they are a sample
        without replacement. :func:`~sampled_metrics.auditing.audit` tells it from the negatives.
        It may be left out where the log says it: a table from :mod:`sampled_metrics.readers`
        whose candidates are distinct; the bundled log, which was drawn without; and exact ranks,
        as of :func:`~sampled_metrics.ranking.files.rank`, where users have one held-out item:
        they are read as an evaluation that drew every negative once.
    protocol : Protocol, optional
        Says all three instead. If it has weights, or duplicates are collapsed, each user has one
        held-out item, and all have the same candidates but for that one; of the weights the order
        does not matter. Items that are left out for a user leave the others larger shares of the
        draws, which is not in what is possible.
    shared_negatives : bool, optional
        Whether users share their negatives, such as one list for all users. Then their sampled
        ranks are not independent, and no range or verdict is proved: `estimate` and `compare`
        refuse them. False if omitted, except for a table from
        :func:`~sampled_metrics.readers.from_scores` in which most users have the same negatives
        as another user. :func:`~sampled_metrics.auditing.audit` tells it from the negatives.

    Returns
    -------
    Log
        In memory a row takes a byte for up to 255 kinds of rows, and two bytes for up to 65,535.
        Users with several rows take one more byte for each recommender. DuckDB reads files and data
        frames of Dask a few rows at a time, within 600 MB. It sorts users with several rows in the
        temporary folder (TMPDIR) if they do not fit. Data frames of pandas, Polars and Arrow, and
        logs with a column count or n_above, take some fifty bytes a row while they are read. Spark
        counts the users of its data frame who have the same rows, and the log has one of each kind,
        with a column count. All rows come if there is a column item or instance.

    Raises
    ------
    ValueError
        If the file cannot be read or is cut short, is empty, lacks a column, has a misnamed one
        or two that may both be meant, holds what is no number or out of its range, or holds a row
        twice; if `replacement` is missing, or not what the log says; or if users have a row for
        each value of a column that is left out.
    ImportError
        If a file is given and DuckDB is not installed.

    Warns
    -----
    UserWarning
        Where a column is read by another name or left out, and where several rows of a user are
        read as relevant items that were ranked together though no column item, instance or
        position says so.

    Examples
    --------
    >>> rows = pd.DataFrame({"user": [1, 2, 2], "item": [7, 7, 8], "rank": [3, 1, 5]})
    >>> log = read_log(rows, n_items=50, n_negatives=9, replacement=True)
    >>> log.frame[["user", "n_better", "position", "n_relevant"]]
       user  n_better  position  n_relevant
    0     1         2         1           1
    1     2         0         1           2
    2     2         3         2           2

    Three users whose item was first under A and second under B, and one with the reverse:

    >>> rows = {"user": [1, 1, 2, 2], "recommender": [*"ABAB"], "rank": [1, 2, 2, 1]}
    >>> rows = pd.DataFrame(rows).assign(count=[3, 3, 1, 1])
    >>> read_log(rows, n_items=50, n_negatives=9, replacement=True)
    Log(recommenders=2, users=4, rows=8, n_items=50, n_negatives=9, replacement=True)
    """
    for name, given in (("replacement", replacement), ("shared_negatives", shared_negatives)):
        if not isinstance(given, (bool, np.bool_, type(None))):
            raise ValueError(f"{name} must be True or False, got {as_written(given)}")
    if protocol is not None:
        log = _by_protocol(source, protocol, (n_items, n_negatives, replacement))
    elif isinstance(source, str) and source == "bundled":
        log = _bundled(n_items, n_negatives, replacement)
    else:
        log = _of_source(source, n_items, n_negatives, replacement)
    if shared_negatives is None:  # a reader may have seen it
        shared_negatives = getattr(source, "attrs", {}).get("shared_negatives", False)
    log.shared_negatives = bool(shared_negatives)
    return log


def _of_source(
    source: Any, n_items: int | None, n_negatives: int | None, replacement: bool | None
) -> Log:
    """The log in files or a data frame."""
    sizes = {"n_items": (n_items, 2), "n_negatives": (n_negatives, 1)}
    found = files(source)
    if found is None and not (is_dask(source) and has_engine()):
        frame, name = loaded(source, "the log")
        return _of_frame(frame, name, sizes, replacement)
    with opened_dask(source) if found is None else found.opened() as table:
        return _of_table(table, sizes, replacement)


def _by_protocol(source: Any, protocol: Protocol, others: tuple[object, ...]) -> Log:
    for name, other in zip(("n_items", "n_negatives", "replacement"), others, strict=True):
        if other is not None:
            raise ValueError(f"{name} must be left out with a protocol, got {as_written(other)}")
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol, got {as_written(protocol)}")
    if not isinstance(protocol.n_items, int) or protocol.n_relevant > 1:
        raise ValueError(f"protocol must have one n_items and one relevant item, got {protocol!r}")
    items, m = protocol.n_items, protocol.n_negatives
    log = read_log(source, n_items=items, n_negatives=m, replacement=protocol.replacement)
    if protocol.uniform:
        return log
    kinds = log.counts
    for name, only in (("n_items", items), ("n_negatives", m), ("n_relevant", 1)):
        other = kinds.loc[kinds[name] != only, name]
        if other.size:
            raise ValueError(
                f"{name} must be {only} for all users, as the protocol says, got {other.iloc[0]}"
            )
    log.protocol = protocol
    return log


def _of_frame(
    frame: pd.DataFrame,
    name: str,
    sizes: Mapping[str, tuple[int | None, int]],
    replacement: bool | None,
) -> Log:
    """The log in a data frame."""
    if set(_EXACT) <= set(frame.columns):
        frame, replacement = _of_exact_ranks(frame, name, replacement), False
    told = frame.attrs.get("replacement")  # by a reader
    if replacement and told is False:
        raise ValueError(
            f"replacement must be False for {name}, whose candidates are distinct, got True"
        )
    if replacement is None and told is None:
        raise ValueError(_UNSAID)
    replacement = bool(told if replacement is None else replacement)
    return _in_memory(_with_known_names(frame, name), name, sizes, replacement)


def _with_known_names(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    frame = understood(frame, name, INPUT)
    check_columns(list(frame.columns), name)
    name_ignored(frame, name, {*INPUT, *COLUMNS})
    return frame


def _in_memory(
    frame: pd.DataFrame,
    name: str,
    sizes: Mapping[str, tuple[int | None, int]],
    replacement: bool,
) -> Log:
    """The log of rows with the names of a log for their columns, checked and sorted."""
    if frame.empty:
        raise ValueError(f"{name} must hold one row or more, got none")
    columns, keys = _checked(frame, name, sizes)
    told = _told(frame.columns)
    if not told:
        check_pooling(frame, keys, name)
    log = _canonical(keys, columns, len(frame), replacement, name, "user" in frame)
    most = int(log.kinds["n_relevant"].max())
    if most > 1 and not told:
        _say_together(name, most)
    return log


def _checked(
    frame: pd.DataFrame, name: str, sizes: Mapping[str, tuple[int | None, int]]
) -> tuple[dict[str, NDArray[Any]], dict[str, Key]]:
    """The columns of rows as numbers, each checked for itself."""
    columns: dict[str, NDArray[Any]] = {
        key: size_column(frame, key, option, low, name) for key, (option, low) in sizes.items()
    }
    keys = {key: key_of(frame, key, name) for key in ("recommender", "user", "instance")}
    if "item" in frame:
        keys["item"] = key_of(frame, "item", name)
    if "rank" in frame:
        columns["rank"] = lean(whole(frame, "rank", 1, name))
    else:
        columns |= {key: lean(whole(frame, key, 0, name)) for key in ("n_better", "n_tied")}
    if "count" in frame:
        columns["count"] = lean(whole(frame, "count", 1, name), small=False)
        _check_total(columns["count"], len(frame), name)
    if "n_above" in frame:
        if "count" in frame:
            raise ValueError(f"n_above needs a row for each user, got a column count in {name}")
        columns["n_above"] = real(frame, "n_above", name)
    return columns, keys


def _told(names: Iterable[str]) -> bool:
    """Whether columns say which rows of a user were ranked together."""
    found = set(names)
    return bool({"item", "instance", "position"} & found) or "user" not in found


def _of_table(
    table: Table, sizes: Mapping[str, tuple[int | None, int]], replacement: bool | None
) -> Log:
    """The log in a table of DuckDB.

    Of whole numbers and text only a code for each row comes to memory. Other logs, and those of
    which something may be refused, come as they are.
    """
    header = pd.DataFrame(columns=list(table.columns))
    if set(_EXACT) <= set(header.columns):
        return _of_frame(table.frame(), table.place, sizes, replacement)
    if replacement is None:
        raise ValueError(_UNSAID)
    names = list(_with_known_names(header, table.name).columns)
    scan = _Scan(table, names, sizes, replacement)
    log = scan.log()
    if log is None:
        frame = table.frame().set_axis(names, axis=1)
        return _in_memory(frame, table.place, sizes, replacement)
    if log.sizes is not None and not _told(names):
        _say_together(table.name, int(log.kinds["n_relevant"].max()))
    return log


class _Scan:
    """The columns of a log in a table of DuckDB, and what is known of them."""

    def __init__(
        self,
        table: Table,
        names: list[str],
        sizes: Mapping[str, tuple[int | None, int]],
        replacement: bool,
    ) -> None:
        self.table, self.names, self.sizes, self.replacement = table, names, sizes, replacement
        self.at = {name: f"c{names.index(name)}" for name in INPUT if name in names}
        self.type = {name: table.types[names.index(name)] for name in self.at}
        self.ranks = {"rank": 1} if "rank" in self.at else {"n_better": 0, "n_tied": 0}
        #: Numbers that all rows have.
        self.same = {
            key: size_column(pd.DataFrame(columns=names), key, option, low, table.name)
            for key, (option, low) in sizes.items()
            if key not in self.at
        }
        self.numbers = [*self.ranks, *(key for key in sizes if key in self.at)]

    def log(self) -> Log | None:
        """The log, or None if it has to be checked in memory."""
        types = {name: WHOLE if name in self.numbers else (*WHOLE, "VARCHAR") for name in self.at}
        plain = all(self.type[name] in types[name] for name in self.at)
        if not plain or {"count", "n_above"} & set(self.at) or "user" not in self.at:
            return None
        if not self._are_allowed() or not self._take_recommenders() or not self._take_users():
            self._refuse_row(alone=False)
            return None
        log = self._placed()
        return self._appended() if log is None else log

    def _are_allowed(self) -> bool:
        """Whether nothing is missing, and all numbers are in their range."""
        asked = ["count(*)"]
        for name, column in self.at.items():
            asked.append(f"count({column})")
            if self.type[name] in WHOLE:
                asked += [f"min({column})", f"max({column})"]
            else:
                blank = f"count_if(trim({column}) = '')" if name in ("item", "instance") else "0"
                asked += [blank, "0"]
        (self.rows, *found) = self.table.query(f"SELECT {', '.join(asked)} FROM log").fetchone()
        there, low, high = (dict(zip(self.at, found[i::3], strict=True)) for i in range(3))
        if not self.rows or set(there.values()) != {self.rows}:
            return False
        least = {**self.ranks, **{key: least for key, (_, least) in self.sizes.items()}}
        given = {key: option for key, (option, _) in self.sizes.items() if option is not None}
        self.first, self.last = low["user"], high["user"]
        self.cast = {
            name: "INTEGER" if name in self.ranks and high[name] < 2**30 else "BIGINT"
            for name in self.numbers
        }
        return not any(low[name] for name in self.at if self.type[name] == "VARCHAR") and all(
            low[name] >= least[name]
            and high[name] <= 2**62
            and (name not in given or low[name] == high[name] == given[name])
            for name in self.numbers
        )

    def _refuse_row(self, alone: bool) -> None:
        """Name the first row whose own values are not allowed, without holding the others.

        If rows are `alone` with their users, what counts they may have is known, too.
        """
        taken, one, starts = 0, np.ones(1, dtype=np.int64), self.table.place.starts
        for part in self.table.chunks("SELECT * FROM log"):
            frame = self.table.named(part.reset_index(drop=True)).set_axis(self.names, axis=1)
            rows = range(taken, taken + len(frame))
            place = Place(self.table.name, starts, rows)
            columns, _ = _checked(frame, place, self.sizes)
            if alone:
                if "rank" in columns:
                    columns |= {"n_better": columns["rank"] - 1, "n_tied": one - 1}
                _check_ranges(columns, one, one, self.replacement, len(frame), _first_in(place))
            taken += len(frame)

    def _take_recommenders(self) -> bool:
        """Find the recommenders in order of their first rows; False if one has no name."""
        self.recommenders, self.recommender, self.given = ["recommender"], "0::USMALLINT", []
        if "recommender" not in self.at:
            return True
        column = f"{self.at['recommender']}::VARCHAR"
        found = self.table.query(f"SELECT DISTINCT {column} FROM log").fetchall()
        names = sorted(name for (name,) in found)
        order: dict[int, None] = {}
        for part in self.table.chunks(f"SELECT list_position(?, {column}) AS k FROM log", [names]):
            order |= dict.fromkeys(pd.unique(part["k"]).tolist())
            if len(order) == len(names):
                break
        self.recommenders = [names[number - 1] for number in order]
        self.recommender = f"(list_position(?, {column}) - 1)::USMALLINT"
        self.given = [self.recommenders]
        return all(name.strip() for name in names)

    def _take_users(self) -> bool:
        """Find a place for each user; False if one has no name."""
        own, self.joined = self.at["user"], ""
        if self.type["user"] != "VARCHAR":
            span = self.last - self.first + 1
            if len(self.recommenders) * span <= _SPARE * self.rows + _FREE and self.last < 2**62:
                self.users: range | NDArray[Any] = range(self.first, self.last + 1)
                self.user = f"({own}::BIGINT - {self.first})"
                return True
        self.table.keep(
            "users",
            "SELECT label, row_number() OVER (ORDER BY label) - 1 AS place "
            f"FROM (SELECT DISTINCT {own} AS label FROM log)",
        )
        found = self.table.query("SELECT label FROM users ORDER BY place").fetchnumpy()["label"]
        self.users = np.asarray(found)
        self.user, self.joined = "users.place", f"JOIN users ON {own} = users.label"
        return self.type["user"] != "VARCHAR" or all(name.strip() for name in self.users)

    def _select(self, more: str = "", order: str = "") -> Any:
        """Rows with a recommender r, a user u and numbers, some at a time."""
        numbers = ", ".join(
            f"{self.at[name]}::{self.cast[name]} AS {name}" for name in self.numbers
        )
        query = f"SELECT {self.recommender} AS r, {self.user} AS u, {numbers}{more} FROM log"
        for part in self.table.chunks(f"{query} {self.joined} {order}", self.given):
            columns = {str(name): part[name].to_numpy() for name in part.columns}
            yield columns.pop("r"), columns.pop("u"), {**columns, **self.same}

    def _placed(self) -> Log | None:
        """The log, if every user has one row with each recommender; else None."""
        builder, taken, looked = Builder(self.recommenders, self.users), 0, 0
        for recommender, user, columns in self._select():
            if "rank" in columns:
                columns["n_better"] = columns.pop("rank") - 1
                columns["n_tied"] = np.zeros(1, dtype=np.int64)
            builder.place(recommender, user, {name: _one(own) for name, own in columns.items()})
            taken += user.size
            if taken >= 2 * looked:  # most logs with several rows of a user show it soon
                looked = taken
                if builder.placed < taken:
                    return None
        if builder.placed < self.rows:
            return None
        kinds, one = builder.kinds, np.ones(1, dtype=np.int64)
        size = kinds["n_items"].size
        try:
            _check_ranges(kinds, one, one, self.replacement, size, lambda _: (0, ""))
        except ValueError:
            self._refuse_row(alone=True)
            raise
        return builder.log(self.replacement)

    def _appended(self) -> Log:
        """The log, whose rows DuckDB sorts."""
        if not _told(self.names) and not set(self.names) <= set(INPUT):
            self._check_pooling()
        counts = f"SELECT {self.recommender} AS r, count(*) FROM log GROUP BY r"
        rows = dict(self.table.query(counts, self.given).fetchall())
        many = [rows[number] for number in range(len(self.recommenders))]
        builder = Builder(self.recommenders, self.users, many)
        more, keys = "", ["r", "u"]
        for name in ("instance", "item"):
            if name in self.at:
                column = self.at[name]
                value = f"hash({column})" if self.type[name] == "VARCHAR" else column
                more += f", {value} AS {name}"
                keys += [column] if name == "instance" else []
        order = f"ORDER BY {', '.join([*keys, *(self.at[name] for name in self.ranks)])}"
        left: dict[str, NDArray[Any]] = {}
        for recommender, user, columns in self._select(more, order):
            columns = {"recommender": recommender, "user": user, **columns}
            whole = {name: c for name, c in columns.items() if name not in self.same}
            if left:
                whole = {name: np.append(left[name], c) for name, c in whole.items()}
            of, user = whole["recommender"], whole["user"]
            # The last user may have more rows to come.
            cut = int(np.flatnonzero((of != of[-1]) | (user != user[-1]))[-1:].sum()) + 1
            cut = cut if of[0] != of[-1] or user[0] != user[-1] else 0
            left = {name: column[cut:] for name, column in whole.items()}
            if cut:
                self._append(builder, {name: column[:cut] for name, column in whole.items()})
        self._append(builder, left)
        return builder.log(self.replacement)

    def _append(self, builder: Builder, rows: Mapping[str, NDArray[Any]]) -> None:
        def where(bad: NDArray[np.bool_]) -> tuple[int, str]:
            at = int(np.argmax(bad))
            self._name(self.recommenders[rows["recommender"][at]], self.users[rows["user"][at]])
            return at, self.table.name

        builder.append(_instances({**rows, **self.same}, self.replacement, where))

    def _name(self, recommender: str, user: object) -> None:
        """Refuse the rows of a user, and say which one is wrong."""
        sql = "FROM (SELECT *, row_number() OVER () - 1 AS row FROM log) WHERE"
        sql += f" {self.at['user']} = ?"
        given = [user.item() if isinstance(user, np.generic) else user]
        if "recommender" in self.at:
            sql += f" AND {self.at['recommender']}::VARCHAR = ?"
            given.append(recommender)
        found = self.table.query(f"SELECT * {sql} ORDER BY row", given).df()
        place = Place(self.table.name, self.table.place.starts, found.pop("row").tolist())
        frame = self.table.named(found).set_axis(self.names, axis=1)
        _in_memory(frame, place, self.sizes, self.replacement)

    def _check_pooling(self) -> None:
        """Refuse a column that tells the rows of a user apart, as far as some users show."""
        own = self.at["user"]
        some = f"SELECT * FROM log WHERE {own} IN (SELECT DISTINCT {own} FROM log LIMIT ?)"
        frame = self.table.frame(some, [_SOME_USERS]).set_axis(self.names, axis=1)
        name = self.table.name
        keys = {key: key_of(frame, key, name) for key in ("recommender", "user")}
        check_pooling(frame, keys, name)


def _first_in(source: str, order: NDArray[Any] | None = None) -> Any:
    """What finds the first of the rows that are marked, and names it, if sorted by `order`."""

    def where(bad: NDArray[np.bool_]) -> tuple[int, str]:
        at = int(np.argmax(bad))
        return at, line(source, at if order is None else int(order[at]))

    return where


def _one(column: NDArray[Any]) -> NDArray[Any]:
    """A column, or the one number that all rows have."""
    return column[:1] if (column == column[0]).all() else column


def _say_together(source: str, most: int) -> None:
    """Warn of rows that are read as relevant items of one instance without a column that says so"""
    warnings.warn(
        f"{source}: up to {most} rows of a user are read as relevant items that were ranked "
        "together: add a column item if they are, instance if each was ranked apart, or "
        "recommender if they are of several",
        UserWarning,
        stacklevel=4,
    )


def _of_exact_ranks(frame: pd.DataFrame, name: str, replacement: bool | None) -> pd.DataFrame:
    """The log that exact ranks are: of an evaluation that drew every negative once."""
    if replacement:
        raise ValueError(f"replacement must be False for the exact ranks in {name}, got True")
    relevant = whole(frame, "n_relevant", 1, name)
    if relevant.max() > 1:
        raise ValueError(
            f"{name} has exact ranks of users with up to {relevant.max()} held-out items: "
            "sampled-metrics rank --metrics prints their metrics"
        )
    items = whole(frame, "n_candidates", 2, name)
    kept = frame.drop(columns=[*_EXACT[:2], "relevant_better", "relevant_tied"], errors="ignore")
    return kept.assign(n_items=items, n_negatives=items - 1)


def _bundled(n_items: int | None, n_negatives: int | None, replacement: bool | None) -> Log:
    """The bundled log; the options may only repeat what it says itself."""
    if replacement not in (None, False):
        raise ValueError(
            f"replacement must be False for the bundled log, which was drawn without, got "
            f"{as_written(replacement)}"
        )
    with np.load(BUNDLE / "log.npz") as bundle:
        names, items = bundle["names"], bundle["n_items"].astype(np.int64)
        counts = {name: bundle[name].ravel().astype(np.int64) for name in ("n_better", "n_tied")}
    labels = {
        "recommender": np.repeat(names, items.size),
        "user": np.tile(np.arange(items.size), len(names)),
    }
    sizes = {"n_items": np.tile(items, len(names)), "n_negatives": BUNDLED_NEGATIVES}
    rows = pd.DataFrame(labels | counts | sizes)
    return read_log(rows, n_items=n_items, n_negatives=n_negatives, replacement=False)


def _canonical(
    keys: Mapping[str, Key],
    columns: dict[str, NDArray[Any]],
    size: int,
    replacement: bool,
    source: str,
    paired: bool,
) -> Log:
    """The log of rows in memory, sorted and checked against one another.

    Columns are of shape (size,), or (1,) where all rows have the same.
    """
    best = [columns[key] for key in ("n_tied", "n_better", "rank") if key in columns]
    by = [*best, *(keys[key].codes for key in ("instance", "user", "recommender"))]
    order = np.lexsort([np.broadcast_to(each, size) for each in by])
    codes = {key: _taken(found.codes, order) for key, found in keys.items()}
    columns = {key: _taken(column, order) for key, column in columns.items()}

    where = _first_in(source, order)
    of = np.broadcast_to(codes["user"], size)
    weights, above = None, None
    if "count" in columns:
        count = np.broadcast_to(columns["count"], size)
        weights = np.ones(keys["user"].values.size)
        weights[of] = count
        mixed = weights[of] != count
        if mixed.any():
            at, bad_line = where(mixed)
            raise ValueError(
                f"count must be the same for all rows of a user, got {count[at]} and "
                f"{weights[of[at]]:.0f} in {bad_line}"
            )
    if "n_above" in columns:
        columns["n_above"], above = pd.factorize(columns["n_above"], sort=True)
    rows = _instances({**columns, **codes, "user": of}, replacement, where)
    recommender = np.broadcast_to(codes["recommender"], size)
    names, users = keys["recommender"].values.tolist(), keys["user"].values
    again = (of[1:] == of[:-1]) & (recommender[1:] == recommender[:-1])
    if again.any():
        builder = Builder(names, users, np.bincount(recommender, minlength=len(names)).tolist())
        builder.append(rows)
    else:
        builder = Builder(names, users)
        builder.place(recommender, of, rows)
    return builder.log(replacement, weights, paired, above)


def _instances(
    rows: Mapping[str, NDArray[Any]], replacement: bool, where: Any
) -> dict[str, NDArray[Any]]:
    """Check rows that are sorted by recommender, user, instance and rank, and number them.

    Parameters
    ----------
    rows : dict of str to ndarray
        Recommender, user and maybe instance and item, as numbers; n_items and n_negatives; and
        rank, or n_better and n_tied; of shape (rows,), or (1,) where all rows have the same.
    replacement : bool
    where : callable
        From a mask of bad rows to the first of them and its name.

    Returns
    -------
    dict of str to ndarray
        The columns of `COLUMNS`.
    """
    size = rows["user"].size
    columns = {name: rows[name] for name in rows if name != "item"}
    by = [np.broadcast_to(rows[n], size) for n in ("recommender", "user", "instance") if n in rows]
    new = np.append(True, np.logical_or.reduce([column[1:] != column[:-1] for column in by]))
    columns["instance"] = instance = np.cumsum(new, dtype=np.int32) - 1
    n_relevant = position = np.ones(1, dtype=np.int32)
    if not new.all():
        starts = np.flatnonzero(new)
        n_relevant = np.diff(np.append(starts, size)).astype(np.int32)[instance]
        position = np.arange(1, size + 1, dtype=np.int32) - starts.astype(np.int32)[instance]
        all_rows = {key: np.broadcast_to(column, size) for key, column in columns.items()}
        _check_twice(rows.get("item"), all_rows, instance, where)
        for key in ("n_items", "n_negatives"):
            first = all_rows[key][starts][instance]
            mixed = all_rows[key] != first
            if mixed.any():
                at, bad_line = where(mixed)
                raise ValueError(
                    f"{key} must be the same for all rows of an instance, got "
                    f"{all_rows[key][at]} and {first[at]} in {bad_line}"
                )
    if "rank" in columns:
        columns["n_better"] = columns["rank"] - position
        columns["n_tied"] = np.zeros(1, dtype=np.int32)
    _check_ranges(columns, position, n_relevant, replacement, size, where)
    return columns | {"position": position, "n_relevant": n_relevant}


def _check_total(count: NDArray[Any], size: int, source: str) -> None:
    """Refuse more users than numbers in double precision can count."""
    total = float(np.broadcast_to(count, size).sum(dtype=float))
    if total > 2**53:
        raise ValueError(f"counts must sum to <= 2**53, got {total:.4g} in {source}")


def _taken(column: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    """A column in another order, if it is not the same in every row."""
    return column if column.size == 1 else column[order]


def _check_twice(
    item: NDArray[Any] | None,
    columns: Mapping[str, NDArray[Any]],
    instance: NDArray[Any],
    where: Any,
) -> None:
    """Refuse a row that stands twice, and ranks that two items of an instance share."""
    if item is not None:
        item = np.broadcast_to(item, instance.size)
        by_item = np.lexsort((item, instance))
        same = np.zeros(instance.size, dtype=bool)
        pairs = (np.diff(instance[by_item]) == 0) & (np.diff(item[by_item]) == 0)
        same[by_item[1:]] = pairs
        if same.any():
            line = where(same)[1]
            raise ValueError(f"an item must stand once in an instance, not again in {line}")
    names = [name for name in ("rank", "n_better", "n_tied") if name in columns]
    same = np.zeros(instance.size, dtype=bool)
    same[1:] = (np.diff(instance) == 0) & np.all(
        [np.diff(columns[name]) == 0 for name in names], axis=0
    )
    if not same.any():
        return
    at, line = where(same)
    if "rank" in columns:
        raise ValueError(
            f"a user's relevant items must have different ranks, got {columns['rank'][at]} twice, "
            f"again in {line}: remove a row that stands twice, or number what was ranked apart in "
            "a column instance"
        )
    if item is None:
        raise ValueError(
            f"a row must not stand twice, as in {line}: if these are different items, add a "
            "column item"
        )


def _check_ranges(
    columns: Mapping[str, NDArray[Any]],
    position: NDArray[Any],
    n_relevant: NDArray[Any],
    replacement: bool,
    size: int,
    where: Any,
) -> None:
    """Refuse counts that the numbers of negatives and of candidates do not allow."""
    m, n = columns["n_negatives"], columns["n_items"]

    def of(column: NDArray[Any], at: int) -> int:
        return int(np.broadcast_to(column, size)[at])

    small = n <= n_relevant
    if small.any():
        at, line = where(small)
        raise ValueError(
            f"n_items must be above the number of relevant items, {of(n_relevant, at)}, got "
            f"{of(n, at)} in {line}"
        )
    few = (m > n - n_relevant) & (not replacement)
    if few.any():
        at, line = where(few)
        raise ValueError(
            f"n_negatives must be <= {of(n - n_relevant, at)}, the irrelevant items there are, "
            f"without replacement, got {of(m, at)} in {line}"
        )
    huge = n > 2**61 // m
    if huge.any():
        at, line = where(huge)
        raise ValueError(
            f"n_items * n_negatives must be < 2**61, got {of(n, at)} * {of(m, at)} in {line}"
        )
    beyond = columns["n_better"] + columns["n_tied"] > m
    if not beyond.any():
        return
    at, line = where(beyond)
    column = "; if users have different numbers of negatives, add a column n_negatives"
    if "rank" in columns:
        raise ValueError(
            f"rank must be <= {of(m + position, at)}, with {of(m, at)} negatives, got "
            f"{of(columns['rank'], at)} in {line}{column}"
        )
    raise ValueError(
        f"n_better + n_tied must be <= n_negatives = {of(m, at)}, got "
        f"{of(columns['n_better'], at)} + {of(columns['n_tied'], at)} in {line}{column}"
    )

"""Read a log from a table of DuckDB in blocks, keeping only a code for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .columns import INPUT, Location, check_pooling, key_of, locator, size_option
from .compact import OPTIONAL, Builder, Log
from .groups import groups_of
from .row_checks import (
    Sizes,
    check_ranges,
    checked_columns,
    instances_of,
    log_of_frame,
    says_instances,
)
from .tables import WHOLE, Table

if TYPE_CHECKING:
    import pandas as pd

#: Users whose rows are searched for a column that separates recommenders.
_SOME_USERS = 10_000
#: Numeric user ids index an array directly if their range times the number of recommenders is at
#: most `_SPARE` times the rows plus `_FREE`; otherwise ids are looked up in a table.
_SPARE, _FREE = 4, 1 << 26


class _Column(NamedTuple):
    """How many values a column has, and its least and largest number; for text, blank values."""

    n_values: int
    low: Any
    high: Any


class _Recommenders(NamedTuple):
    """Names by first appearance, and the SQL for a row's number, with its parameters."""

    names: list[str]
    sql: str
    parameters: list[Any]


class _Users(NamedTuple):
    """Labels in order, and the SQL for a row's number, with the join that it needs."""

    labels: range | NDArray[Any]
    sql: str
    join: str


class _Codes(NamedTuple):
    """Everything that turns rows into codes and numbers."""

    n_rows: int
    recommenders: _Recommenders
    users: _Users
    numbers: str
    """SQL for the columns of numbers."""


class Scan:
    """Scans a log: checks in SQL, then codes for each block of rows."""

    def __init__(
        self,
        table: Table,
        names: list[str],
        sizes: Sizes,
        replacement: bool,
    ) -> None:
        self.table, self.names, self.sizes, self.replacement = table, names, sizes, replacement
        self.at = {name: f"c{names.index(name)}" for name in INPUT if name in names}
        self.type = {name: table.types[names.index(name)] for name in self.at}
        self.ranks = {"rank": 1} if "rank" in self.at else {"n_better": 0, "n_tied": 0}
        #: Sizes given as options, equal for all rows.
        self.same = {
            key: size_option(key, option, low, table.name)
            for key, (option, low) in sizes.items()
            if key not in self.at
        }
        self.numbers = [*self.ranks, *(key for key in sizes if key in self.at)]

    def log(self) -> Log | None:
        """The log, or None if it must be read in memory instead."""
        types = {name: WHOLE if name in self.numbers else (*WHOLE, "VARCHAR") for name in self.at}
        plain = all(self.type[name] in types[name] for name in self.at)
        if not plain or {"count", *OPTIONAL} & set(self.at) or "user" not in self.at:
            return None
        codes = self._codes()
        if codes is None:
            self._refuse_row(unique=False)
            return None
        log = self._placed(codes)
        return self._appended(codes) if log is None else log

    def groups(self, by: str) -> pd.Series:
        """The group of each user by a column."""
        columns = [name for name in self.names if name in ("user", by)]
        selected = ", ".join(f"c{self.names.index(name)}" for name in columns)
        rows = self.table.query(
            f"SELECT {selected}, min(row) AS row FROM (SELECT *, row_number() OVER () - 1 AS row "
            "FROM log) GROUP BY ALL ORDER BY row"
        ).df()
        location = Location(self.table.name, self.table.location.starts, rows.pop("row").tolist())
        return groups_of(self.table.named(rows).set_axis(columns, axis=1), by, location)

    def _codes(self) -> _Codes | None:
        """How rows become codes; None if a value is missing, blank or out of range."""
        n_rows, columns = self._columns()
        if not n_rows or not all(
            column.n_values == n_rows and self._is_allowed(name, column)
            for name, column in columns.items()
        ):
            return None
        recommenders = self._recommenders(n_rows)
        users = self._users(columns["user"], n_rows * _SPARE + _FREE, len(recommenders.names))
        labels: Any = users.labels if self.type["user"] == "VARCHAR" else ()
        if not all(name.strip() for name in (*recommenders.names, *labels)):
            return None
        small = [name for name in self.ranks if columns[name].high < 2**30]
        numbers = ", ".join(
            f"{self.at[name]}::{'INTEGER' if name in small else 'BIGINT'} AS {name}"
            for name in self.numbers
        )
        return _Codes(n_rows, recommenders, users, numbers)

    def _columns(self) -> tuple[int, dict[str, _Column]]:
        """The number of rows and a summary of each column, by one aggregate query."""
        parts = ["count(*)"]
        for name, column in self.at.items():
            parts.append(f"count({column})")
            if self.type[name] in WHOLE:
                parts += [f"min({column})", f"max({column})"]
            else:
                blank = f"count_if(trim({column}) = '')" if name in ("item", "instance") else "0"
                parts += [blank, "0"]
        (n_rows, *values) = self.table.query(f"SELECT {', '.join(parts)} FROM log").fetchone()
        summaries = map(_Column, values[::3], values[1::3], values[2::3])
        return n_rows, dict(zip(self.at, summaries, strict=True))

    def _is_allowed(self, name: str, column: _Column) -> bool:
        """Whether all numbers are in range, or no text is blank."""
        if name not in self.numbers:
            return self.type[name] in WHOLE or not column.low
        option, lowest = self.sizes.get(name, (None, self.ranks.get(name)))
        is_option = option is None or column.low == column.high == option
        return bool(is_option and lowest <= column.low and column.high <= 2**62)

    def _refuse_row(self, unique: bool) -> None:
        """Name the first row with invalid values, reading in blocks.

        `unique`: each user has one row, so that its counts can be checked against n_negatives too.
        """
        n_read, ones, starts = 0, np.ones(1, dtype=np.int64), self.table.location.starts
        for part in self.table.chunks("SELECT * FROM log"):
            frame = self.table.named(part.reset_index(drop=True)).set_axis(self.names, axis=1)
            rows = range(n_read, n_read + len(frame))
            location = Location(self.table.name, starts, rows)
            columns, _ = checked_columns(frame, location, self.sizes)
            if unique:
                if "rank" in columns:
                    columns |= {"n_better": columns["rank"] - 1, "n_tied": ones - 1}
                check_ranges(columns, ones, ones, self.replacement, len(frame), locator(location))
            n_read += len(frame)

    def _recommenders(self, n_rows: int) -> _Recommenders:
        """Number recommenders by first appearance."""
        if "recommender" not in self.at:
            return _Recommenders(["recommender"], "0::USMALLINT", [])
        column = f"{self.at['recommender']}::VARCHAR"
        rows = self.table.query(f"SELECT DISTINCT {column} FROM log").fetchall()
        names = sorted(name for (name,) in rows)
        order: dict[int, None] = {}
        statement = f"SELECT list_position(?, {column})::USMALLINT AS k FROM log"
        for part in self.table.arrays(statement, [names], n_rows):
            numbers, first = np.unique(part["k"], return_index=True)
            order |= dict.fromkeys(numbers[np.argsort(first)].tolist())
            if len(order) == len(names):
                break
        names = [names[number - 1] for number in order]
        return _Recommenders(names, f"(list_position(?, {column}) - 1)::USMALLINT", [names])

    def _users(self, ids: _Column, most_cells: int, n_recommenders: int) -> _Users:
        """Number users, by subtraction if ids are dense, else by a table kept in the database."""
        column = self.at["user"]
        if self.type["user"] != "VARCHAR":
            first, last = ids.low, ids.high
            if n_recommenders * (last - first + 1) <= most_cells and last < 2**62:
                return _Users(range(first, last + 1), f"({column}::BIGINT - {first})", "")
        self.table.keep(
            "users",
            "SELECT label, row_number() OVER (ORDER BY label) - 1 AS code "
            f"FROM (SELECT DISTINCT {column} AS label FROM log)",
        )
        labels = self.table.query("SELECT label FROM users ORDER BY code").fetchnumpy()["label"]
        return _Users(np.asarray(labels), "users.code", f"JOIN users ON {column} = users.label")

    def _blocks(
        self, codes: _Codes, extra_sql: str = "", order: str = ""
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Blocks of rows: codes of recommender and user, and columns of numbers."""
        recommenders, users = codes.recommenders, codes.users
        query = (
            f'SELECT {recommenders.sql} AS recommender, {users.sql} AS "user", '
            f"{codes.numbers}{extra_sql} FROM log {users.join} {order}"
        )
        return self.table.arrays(query, recommenders.parameters, codes.n_rows)

    def _placed(self, codes: _Codes) -> Log | None:
        """The log if no user has two rows with a recommender; else None."""
        builder = Builder(codes.recommenders.names, codes.users.labels)
        n_rows = checked = 0
        for columns in self._blocks(codes):
            recommender, user = columns.pop("recommender"), columns.pop("user")
            columns |= self.same
            if "rank" in columns:
                columns["n_better"] = columns.pop("rank") - 1
                columns["n_tied"] = np.zeros(1, dtype=np.int64)
            builder.place(
                recommender,
                user,
                {name: _without_repeats(column) for name, column in columns.items()},
            )
            n_rows += user.size
            if n_rows >= 2 * checked:  # logs with several rows of a user usually show it soon
                checked = n_rows
                if builder.placed < n_rows:
                    return None
        if builder.placed < n_rows:
            return None
        kinds, ones = builder.kinds, np.ones(1, dtype=np.int64)
        size = kinds["n_items"].size
        try:
            check_ranges(kinds, ones, ones, self.replacement, size, lambda _: (0, ""))
        except ValueError:
            self._refuse_row(unique=True)
            raise
        return builder.log(self.replacement)

    def _appended(self, codes: _Codes) -> Log:
        """The log of users with several rows, which DuckDB sorts."""
        if not says_instances(self.names) and not set(self.names) <= set(INPUT):
            self._check_pooling()
        recommenders, labels = codes.recommenders, codes.users.labels
        counts = f"SELECT {recommenders.sql} AS r, count(*) FROM log GROUP BY r ORDER BY r"
        rows = self.table.query(counts, recommenders.parameters).fetchall()
        builder = Builder(recommenders.names, labels, [n_rows for _, n_rows in rows])
        for block in _whole_users(self._sorted(codes)):
            self._append(builder, codes, block)
        return builder.log(self.replacement)

    def _sorted(self, codes: _Codes) -> Iterator[dict[str, NDArray[Any]]]:
        """Blocks of rows by recommender, user, instance and rank, with codes of these and items."""
        labels = {name: self.at[name] for name in ("instance", "item") if name in self.at}
        extra_sql = "".join(
            f", {f'hash({column})' if self.type[name] == 'VARCHAR' else column} AS {name}"
            for name, column in labels.items()
        )
        keys = [self.at[name] for name in ("instance", *self.ranks) if name in self.at]
        return self._blocks(codes, extra_sql, f"ORDER BY {', '.join(['1', '2', *keys])}")

    def _append(self, builder: Builder, codes: _Codes, rows: dict[str, NDArray[Any]]) -> None:
        """Append rows of complete users; on an error, name the row in the input."""

        def where(is_invalid: NDArray[np.bool_]) -> tuple[int, str]:
            row = int(np.argmax(is_invalid))
            self._refuse_user(
                codes.recommenders.names[rows["recommender"][row]],
                codes.users.labels[rows["user"][row]],
            )
            return row, self.table.name

        builder.append(instances_of({**rows, **self.same}, self.replacement, where))

    def _refuse_user(self, recommender: str, user: object) -> None:
        """Check the rows of one user in the order of the input, to name the wrong one."""
        sql = "FROM (SELECT *, row_number() OVER () - 1 AS row FROM log) WHERE"
        sql += f" {self.at['user']} = ?"
        parameters = [user.item() if isinstance(user, np.generic) else user]
        if "recommender" in self.at:
            sql += f" AND {self.at['recommender']}::VARCHAR = ?"
            parameters.append(recommender)
        rows = self.table.query(f"SELECT * {sql} ORDER BY row", parameters).df()
        location = Location(self.table.name, self.table.location.starts, rows.pop("row").tolist())
        frame = self.table.named(rows).set_axis(self.names, axis=1)
        log_of_frame(frame, location, self.sizes, self.replacement)

    def _check_pooling(self) -> None:
        """Refuse an unknown column that separates the rows of a user, judged from some users."""
        column = self.at["user"]
        query = f"SELECT * FROM log WHERE {column} IN (SELECT DISTINCT {column} FROM log LIMIT ?)"
        frame = self.table.frame(query, [_SOME_USERS]).set_axis(self.names, axis=1)
        name = self.table.name
        keys = {key: key_of(frame, key, name) for key in ("recommender", "user")}
        check_pooling(frame, keys, name)


def _whole_users(
    blocks: Iterable[dict[str, NDArray[Any]]],
) -> Iterator[dict[str, NDArray[Any]]]:
    """Sorted blocks, cut where a user ends: the next one may have more rows of the last user."""
    carried: dict[str, NDArray[Any]] = {}
    for block in blocks:
        if carried:
            block = {name: np.append(carried[name], values) for name, values in block.items()}
        recommender, user = block["recommender"], block["user"]
        is_before = (recommender != recommender[-1]) | (user != user[-1])
        cut = int(np.flatnonzero(is_before)[-1]) + 1 if is_before[0] else 0
        carried = {name: column[cut:] for name, column in block.items()}
        if cut:
            yield {name: column[:cut] for name, column in block.items()}
    yield carried


def _without_repeats(column: NDArray[Any]) -> NDArray[Any]:
    """A single number if the column is constant."""
    return column[:1] if (column == column[0]).all() else column

"""Read a log from a table of DuckDB in blocks, keeping only a code for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import INPUT, Place, check_pooling, key_of, locator, size_option
from .compact import Builder, Log
from .rows import (
    Sizes,
    check_ranges,
    checked_columns,
    instances_of,
    log_of_frame,
    says_instances,
)
from .sources import WHOLE, Table

#: Users whose rows are searched for a column that separates recommenders.
_SOME_USERS = 10_000
#: Numeric user ids index an array directly if their range times the number of recommenders is at
#: most `_SPARE` times the rows plus `_FREE`; otherwise ids are looked up in a table.
_SPARE, _FREE = 4, 1 << 26


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
        if not plain or {"count", "n_above"} & set(self.at) or "user" not in self.at:
            return None
        if not self._are_allowed() or not self._take_recommenders() or not self._take_users():
            self._refuse_row(unique=False)
            return None
        log = self._placed()
        return self._appended() if log is None else log

    def _are_allowed(self) -> bool:
        """Whether no value is missing and all numbers are in range, by one aggregate query."""
        columns = ["count(*)"]
        for name, column in self.at.items():
            columns.append(f"count({column})")
            if self.type[name] in WHOLE:
                columns += [f"min({column})", f"max({column})"]
            else:
                blank = f"count_if(trim({column}) = '')" if name in ("item", "instance") else "0"
                columns += [blank, "0"]
        (self.rows, *facts) = self.table.query(f"SELECT {', '.join(columns)} FROM log").fetchone()
        n_present, low, high = (dict(zip(self.at, facts[i::3], strict=True)) for i in range(3))
        if not self.rows or set(n_present.values()) != {self.rows}:
            return False
        lowest = {**self.ranks, **{key: lowest for key, (_, lowest) in self.sizes.items()}}
        options = {key: option for key, (option, _) in self.sizes.items() if option is not None}
        self.first, self.last = low["user"], high["user"]
        self.cast = {
            name: "INTEGER" if name in self.ranks and high[name] < 2**30 else "BIGINT"
            for name in self.numbers
        }
        return not any(low[name] for name in self.at if self.type[name] == "VARCHAR") and all(
            low[name] >= lowest[name]
            and high[name] <= 2**62
            and (name not in options or low[name] == high[name] == options[name])
            for name in self.numbers
        )

    def _refuse_row(self, unique: bool) -> None:
        """Name the first row with invalid values, reading in blocks.

        `unique`: each user has one row, so that its counts can be checked against n_negatives too.
        """
        n_read, ones, starts = 0, np.ones(1, dtype=np.int64), self.table.place.starts
        for part in self.table.chunks("SELECT * FROM log"):
            frame = self.table.named(part.reset_index(drop=True)).set_axis(self.names, axis=1)
            rows = range(n_read, n_read + len(frame))
            place = Place(self.table.name, starts, rows)
            columns, _ = checked_columns(frame, place, self.sizes)
            if unique:
                if "rank" in columns:
                    columns |= {"n_better": columns["rank"] - 1, "n_tied": ones - 1}
                check_ranges(columns, ones, ones, self.replacement, len(frame), locator(place))
            n_read += len(frame)

    def _take_recommenders(self) -> bool:
        """Number recommenders by first appearance; False if a name is blank."""
        self.recommenders, self.recommender, self.given = ["recommender"], "0::USMALLINT", []
        if "recommender" not in self.at:
            return True
        column = f"{self.at['recommender']}::VARCHAR"
        rows = self.table.query(f"SELECT DISTINCT {column} FROM log").fetchall()
        names = sorted(name for (name,) in rows)
        order: dict[int, None] = {}
        place = f"SELECT list_position(?, {column})::USMALLINT AS k FROM log"
        for part in self.table.arrays(place, [names], self.rows):
            numbers, first = np.unique(part["k"], return_index=True)
            order |= dict.fromkeys(numbers[np.argsort(first)].tolist())
            if len(order) == len(names):
                break
        self.recommenders = [names[number - 1] for number in order]
        self.recommender = f"(list_position(?, {column}) - 1)::USMALLINT"
        self.given = [self.recommenders]
        return all(name.strip() for name in names)

    def _take_users(self) -> bool:
        """Number the users, by subtraction if ids are dense; False if a name is blank."""
        column, self.joined = self.at["user"], ""
        if self.type["user"] != "VARCHAR":
            span = self.last - self.first + 1
            if len(self.recommenders) * span <= _SPARE * self.rows + _FREE and self.last < 2**62:
                self.users: range | NDArray[Any] = range(self.first, self.last + 1)
                self.user = f"({column}::BIGINT - {self.first})"
                return True
        self.table.keep(
            "users",
            "SELECT label, row_number() OVER (ORDER BY label) - 1 AS place "
            f"FROM (SELECT DISTINCT {column} AS label FROM log)",
        )
        labels = self.table.query("SELECT label FROM users ORDER BY place").fetchnumpy()["label"]
        self.users = np.asarray(labels)
        self.user, self.joined = "users.place", f"JOIN users ON {column} = users.label"
        return self.type["user"] != "VARCHAR" or all(name.strip() for name in self.users)

    def _select(self, extra_sql: str = "", order: str = "") -> Any:
        """Blocks of recommender codes, user codes, and number columns."""
        numbers = ", ".join(
            f"{self.at[name]}::{self.cast[name]} AS {name}" for name in self.numbers
        )
        query = f"SELECT {self.recommender} AS r, {self.user} AS u, {numbers}{extra_sql} FROM log"
        for columns in self.table.arrays(f"{query} {self.joined} {order}", self.given, self.rows):
            yield columns.pop("r"), columns.pop("u"), {**columns, **self.same}

    def _placed(self) -> Log | None:
        """The log if no user has two rows with a recommender; else None."""
        builder = Builder(self.recommenders, self.users)
        rows = checked = 0
        for recommender, user, columns in self._select():
            if "rank" in columns:
                columns["n_better"] = columns.pop("rank") - 1
                columns["n_tied"] = np.zeros(1, dtype=np.int64)
            builder.place(
                recommender,
                user,
                {name: _without_repeats(column) for name, column in columns.items()},
            )
            rows += user.size
            if rows >= 2 * checked:  # logs with several rows of a user usually show it soon
                checked = rows
                if builder.placed < rows:
                    return None
        if builder.placed < self.rows:
            return None
        kinds, ones = builder.kinds, np.ones(1, dtype=np.int64)
        size = kinds["n_items"].size
        try:
            check_ranges(kinds, ones, ones, self.replacement, size, lambda _: (0, ""))
        except ValueError:
            self._refuse_row(unique=True)
            raise
        return builder.log(self.replacement)

    def _appended(self) -> Log:
        """The log of users with several rows, which DuckDB sorts."""
        if not says_instances(self.names) and not set(self.names) <= set(INPUT):
            self._check_pooling()
        counts = f"SELECT {self.recommender} AS r, count(*) FROM log GROUP BY r"
        rows = dict(self.table.query(counts, self.given).fetchall())
        row_counts = [rows[number] for number in range(len(self.recommenders))]
        builder = Builder(self.recommenders, self.users, row_counts)
        extra_sql, keys = "", ["r", "u"]
        for name in ("instance", "item"):
            if name in self.at:
                column = self.at[name]
                expression = f"hash({column})" if self.type[name] == "VARCHAR" else column
                extra_sql += f", {expression} AS {name}"
                keys += [column] if name == "instance" else []
        order = f"ORDER BY {', '.join([*keys, *(self.at[name] for name in self.ranks)])}"
        carried: dict[str, NDArray[Any]] = {}
        for recommender, user, columns in self._select(extra_sql, order):
            columns = {"recommender": recommender, "user": user, **columns}
            block = {name: values for name, values in columns.items() if name not in self.same}
            if carried:
                block = {name: np.append(carried[name], values) for name, values in block.items()}
            recommenders, user = block["recommender"], block["user"]
            # The next block may have more rows of the last user.
            is_before = (recommenders != recommenders[-1]) | (user != user[-1])
            cut = int(np.flatnonzero(is_before)[-1]) + 1 if is_before[0] else 0
            carried = {name: column[cut:] for name, column in block.items()}
            if cut:
                self._append(builder, {name: column[:cut] for name, column in block.items()})
        self._append(builder, carried)
        return builder.log(self.replacement)

    def _append(self, builder: Builder, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append rows of complete users; on an error, name the row in the source."""

        def where(is_invalid: NDArray[np.bool_]) -> tuple[int, str]:
            row = int(np.argmax(is_invalid))
            self._refuse_user(
                self.recommenders[rows["recommender"][row]], self.users[rows["user"][row]]
            )
            return row, self.table.name

        builder.append(instances_of({**rows, **self.same}, self.replacement, where))

    def _refuse_user(self, recommender: str, user: object) -> None:
        """Check the rows of one user in the order of the source, to name the wrong one."""
        sql = "FROM (SELECT *, row_number() OVER () - 1 AS row FROM log) WHERE"
        sql += f" {self.at['user']} = ?"
        parameters = [user.item() if isinstance(user, np.generic) else user]
        if "recommender" in self.at:
            sql += f" AND {self.at['recommender']}::VARCHAR = ?"
            parameters.append(recommender)
        rows = self.table.query(f"SELECT * {sql} ORDER BY row", parameters).df()
        place = Place(self.table.name, self.table.place.starts, rows.pop("row").tolist())
        frame = self.table.named(rows).set_axis(self.names, axis=1)
        log_of_frame(frame, place, self.sizes, self.replacement)

    def _check_pooling(self) -> None:
        """Refuse an unknown column that separates the rows of a user, judged from some users."""
        column = self.at["user"]
        query = f"SELECT * FROM log WHERE {column} IN (SELECT DISTINCT {column} FROM log LIMIT ?)"
        frame = self.table.frame(query, [_SOME_USERS]).set_axis(self.names, axis=1)
        name = self.table.name
        keys = {key: key_of(frame, key, name) for key in ("recommender", "user")}
        check_pooling(frame, keys, name)


def _without_repeats(column: NDArray[Any]) -> NDArray[Any]:
    """A single number if the column is constant."""
    return column[:1] if (column == column[0]).all() else column

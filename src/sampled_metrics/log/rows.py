"""Rows of a log in memory: check, sort and group them by instance."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .columns import (
    Key,
    Locator,
    check_pooling,
    key_of,
    locator,
    real,
    refuse_first,
    shrunk,
    size_column,
    whole,
)
from .compact import Builder, Log

if TYPE_CHECKING:
    import pandas as pd

#: For n_items and n_negatives: the option given, or None, and the least value allowed.
Sizes = Mapping[str, tuple[int | None, int]]


def log_of_frame(frame: pd.DataFrame, name: str, sizes: Sizes, replacement: bool) -> Log:
    """Check and sort the rows of a data frame whose columns have the names of a log."""
    if frame.empty:
        raise ValueError(f"{name} must hold one row or more, got none")
    columns, keys = checked_columns(frame, name, sizes)
    grouped = says_instances(frame.columns)
    if not grouped:
        check_pooling(frame, keys, name)
    log = _sorted_log(keys, columns, len(frame), replacement, name, "user" in frame)
    most = int(log.kinds["n_relevant"].max())
    if most > 1 and not grouped:
        warn_of_instances(name, most)
    return log


def checked_columns(
    frame: pd.DataFrame, name: str, sizes: Sizes
) -> tuple[dict[str, NDArray[Any]], dict[str, Key]]:
    """Columns as numbers and labels as codes, each column checked by itself."""
    columns: dict[str, NDArray[Any]] = {
        key: size_column(frame, key, option, low, name) for key, (option, low) in sizes.items()
    }
    keys = {key: key_of(frame, key, name) for key in ("recommender", "user", "instance")}
    if "item" in frame:
        keys["item"] = key_of(frame, "item", name)
    if "rank" in frame:
        columns["rank"] = shrunk(whole(frame, "rank", 1, name))
    else:
        columns |= {key: shrunk(whole(frame, key, 0, name)) for key in ("n_better", "n_tied")}
    if "count" in frame:
        columns["count"] = count = shrunk(whole(frame, "count", 1, name), small=False)
        total = float(np.broadcast_to(count, len(frame)).sum(dtype=float))
        if total > 2**53:  # larger floats skip whole numbers
            raise ValueError(f"counts must sum to <= 2**53, got {total:.4g} in {name}")
    if "n_above" in frame:
        if "count" in frame:
            raise ValueError(f"n_above needs a row for each user, got a column count in {name}")
        columns["n_above"] = real(frame, "n_above", name)
    return columns, keys


def says_instances(names: Iterable[str]) -> bool:
    """Whether the columns determine which rows of a user were ranked together."""
    columns = set(names)
    return bool({"item", "instance", "position"} & columns) or "user" not in columns


def warn_of_instances(source: str, most: int) -> None:
    """Warn that rows without a column item or instance are read as ranked together."""
    warnings.warn(
        f"{source}: up to {most} rows of a user are read as relevant items that were ranked "
        "together: add a column item if they are, instance if each was ranked apart, or "
        "recommender if they are of several",
        UserWarning,
        stacklevel=4,
    )


def _sorted_log(
    keys: Mapping[str, Key],
    columns: dict[str, NDArray[Any]],
    size: int,
    replacement: bool,
    source: str,
    paired: bool,
) -> Log:
    """Sort the rows and check them against each other. Columns: (size,), or (1,) if constant."""
    import pandas as pd

    best = [columns[key] for key in ("n_tied", "n_better", "rank") if key in columns]
    by = [*best, *(keys[key].codes for key in ("instance", "user", "recommender"))]
    order = np.lexsort([np.broadcast_to(each, size) for each in by])
    codes = {key: _permuted(found.codes, order) for key, found in keys.items()}
    columns = {key: _permuted(column, order) for key, column in columns.items()}

    where = locator(source, order)
    of = np.broadcast_to(codes["user"], size)
    weights, above = None, None
    if "count" in columns:
        count = np.broadcast_to(columns["count"], size)
        weights = np.ones(keys["user"].values.size)
        weights[of] = count
        refuse_first(
            weights[of] != count,
            where,
            lambda at: (
                "count must be the same for all rows of a user, got "
                f"{count[at]} and {weights[of[at]]:.0f}"
            ),
        )
    if "n_above" in columns:
        columns["n_above"], above = pd.factorize(columns["n_above"], sort=True)
    rows = instances_of({**columns, **codes, "user": of}, replacement, where)
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


def instances_of(
    rows: Mapping[str, NDArray[Any]], replacement: bool, where: Locator
) -> dict[str, NDArray[Any]]:
    """Number the instances and positions of rows sorted by recommender, user, instance and rank.

    `rows` are columns, (rows,) or (1,) if constant: codes of recommender, user and optionally
    instance and item; n_items, n_negatives; and rank, or n_better and n_tied. Returns the columns
    of `COLUMNS`.
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
        _check_duplicates(rows.get("item"), all_rows, instance, where)
        for key in ("n_items", "n_negatives"):
            _refuse_mixed(key, all_rows[key], all_rows[key][starts][instance], where)
    if "rank" in columns:
        columns["n_better"] = columns["rank"] - position
        columns["n_tied"] = np.zeros(1, dtype=np.int32)
    check_ranges(columns, position, n_relevant, replacement, size, where)
    return columns | {"position": position, "n_relevant": n_relevant}


def _permuted(column: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    """Reorder a column unless it is constant."""
    return column if column.size == 1 else column[order]


def _refuse_mixed(key: str, own: NDArray[Any], first: NDArray[Any], where: Locator) -> None:
    """Refuse a column that varies within an instance; `first` is its value in the first row."""
    wanted = f"{key} must be the same for all rows of an instance"
    refuse_first(own != first, where, lambda at: f"{wanted}, got {own[at]} and {first[at]}")


def _check_duplicates(
    item: NDArray[Any] | None,
    columns: Mapping[str, NDArray[Any]],
    instance: NDArray[Any],
    where: Locator,
) -> None:
    """Refuse repeated items, and equal ranks or rows, within an instance."""
    if item is not None:
        item = np.broadcast_to(item, instance.size)
        by_item = np.lexsort((item, instance))
        same = np.zeros(instance.size, dtype=bool)
        pairs = (np.diff(instance[by_item]) == 0) & (np.diff(item[by_item]) == 0)
        same[by_item[1:]] = pairs
        refuse_first(same, where, lambda _: "an item must stand once in an instance, not again")
    names = [name for name in ("rank", "n_better", "n_tied") if name in columns]
    equal = [np.diff(columns[name]) == 0 for name in names]
    same = np.append(False, (np.diff(instance) == 0) & np.all(equal, axis=0))
    if "rank" in columns:
        wanted = "a user's relevant items must have different ranks"
        refuse_first(
            same,
            where,
            lambda at: f"{wanted}, got {columns['rank'][at]} twice, again",
            ": remove a row that stands twice, or number what was ranked apart in a column "
            "instance",
        )
    elif item is None:
        hint = ": if these are different items, add a column item"
        refuse_first(same, where, lambda _: "a row must not stand twice, as", hint)


def check_ranges(
    columns: Mapping[str, NDArray[Any]],
    position: NDArray[Any],
    n_relevant: NDArray[Any],
    replacement: bool,
    size: int,
    where: Locator,
) -> None:
    """Refuse counts that are impossible with so many negatives and candidates."""
    m, n = columns["n_negatives"], columns["n_items"]

    def of(column: NDArray[Any], at: int) -> int:
        return int(np.broadcast_to(column, size)[at])

    refuse_first(
        n <= n_relevant,
        where,
        lambda at: (
            f"n_items must be above the number of relevant items, {of(n_relevant, at)}, got "
            f"{of(n, at)}"
        ),
    )
    refuse_first(
        (m > n - n_relevant) & (not replacement),
        where,
        lambda at: (
            f"n_negatives must be <= {of(n - n_relevant, at)}, the irrelevant items there are, "
            f"without replacement, got {of(m, at)}"
        ),
    )
    refuse_first(
        n > 2**61 // m,
        where,
        lambda at: f"n_items * n_negatives must be < 2**61, got {of(n, at)} * {of(m, at)}",
    )

    def beyond(at: int) -> str:
        if "rank" in columns:
            most = f"rank must be <= {of(m + position, at)}, with {of(m, at)} negatives"
            return f"{most}, got {of(columns['rank'], at)}"
        got = " + ".join(str(of(columns[name], at)) for name in ("n_better", "n_tied"))
        return f"n_better + n_tied must be <= n_negatives = {of(m, at)}, got {got}"

    hint = "; if users have different numbers of negatives, add a column n_negatives"
    refuse_first(columns["n_better"] + columns["n_tied"] > m, where, beyond, hint)

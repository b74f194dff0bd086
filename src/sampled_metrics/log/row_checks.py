"""Rows of a log in memory: check, sort and group them by instance."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import shortened
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

#: The columns about items of the evaluator's choice that are all scored.
CHOSEN = {"n_chosen", "n_chosen_better"}
#: For n_items and n_negatives: the option given, or None, and the least value allowed.
Sizes = Mapping[str, tuple[int | None, int]]


def log_of_frame(frame: pd.DataFrame, name: str, sizes: Sizes, replacement: bool) -> Log:
    """Check and sort the rows of a data frame whose columns have the names of a log."""
    if frame.empty:
        raise ValueError(f"{name} must hold one row or more, got none")
    columns, keys = checked_columns(frame, name, sizes)
    if not says_instances(frame.columns):
        check_pooling(frame, keys, name)
    log = _sorted_log(keys, columns, len(frame), replacement, name, "user" in frame)
    warn_of_instances(frame.columns, name, log)
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
    if chosen := CHOSEN & set(frame.columns):
        columns |= _chosen_columns(frame, chosen, name)
    return columns, keys


def _chosen_columns(frame: pd.DataFrame, present: set[str], origin: str) -> dict[str, NDArray[Any]]:
    """How many chosen items each user has, and how many of them are above the held-out item."""
    if len(present) == 1:
        (absent,) = CHOSEN - present
        raise ValueError(f"{origin} must have a column {absent} beside {min(present)}")
    if refused := {"rank", "n_above", "instance"} & set(frame.columns):
        raise ValueError(
            f"{origin} must have no column {min(refused)} beside n_chosen: it needs one row for "
            "each user, with n_better among the n_negatives beside the chosen items"
        )
    columns = {key: shrunk(whole(frame, key, 0, origin)) for key in sorted(CHOSEN)}
    n_chosen, better = columns["n_chosen"], columns["n_chosen_better"]
    refuse_first(
        np.broadcast_to(better > n_chosen, len(frame)),
        origin,
        lambda row: (
            "n_chosen_better must be <= n_chosen, got "
            f"{_value(better, row)} and {_value(n_chosen, row)}"
        ),
    )
    tied = whole(frame, "n_tied", 0, origin) if "n_tied" in frame else np.zeros(1)
    refuse_first(
        tied > 0,
        origin,
        lambda row: (
            f"n_tied must be 0 beside n_chosen, got {_value(tied, row)}: before counting, give "
            "the held-out item one random place among all items that score the same"
        ),
    )
    return columns


def _value(column: NDArray[Any], row: int) -> int:
    """A value of a column that has one element if it is constant."""
    return int(column[0] if column.size == 1 else column[row])


def says_instances(names: Iterable[str]) -> bool:
    """Whether the columns determine which rows of a user were ranked together."""
    columns = set(names)
    return bool({"item", "instance", "position"} & columns) or "user" not in columns


def warn_of_instances(names: Iterable[str], origin: str, log: Log) -> None:
    """Warn if rows without a column item or instance are read as ranked together."""
    if log.sizes is None or says_instances(names):
        return
    max_rows = int(log.kinds["n_relevant"].max())
    warnings.warn(
        f"{origin}: up to {max_rows} rows of a user are read as relevant items that were ranked "
        "together: add a column item if they are, instance if each was ranked separately, or "
        "recommender if they belong to several",
        UserWarning,
        stacklevel=4,
    )


def _sorted_log(
    keys: Mapping[str, Key],
    columns: dict[str, NDArray[Any]],
    size: int,
    replacement: bool,
    origin: str,
    paired: bool,
) -> Log:
    """Sort the rows and check them against each other. Columns: (size,), or (1,) if constant."""
    import pandas as pd

    rank_keys = [columns[key] for key in ("n_tied", "n_better", "rank") if key in columns]
    sort_keys = [*rank_keys, *(keys[key].codes for key in ("instance", "user", "recommender"))]
    order = np.lexsort([np.broadcast_to(sort_key, size) for sort_key in sort_keys])
    codes = {key: _permuted(labels.codes, order) for key, labels in keys.items()}
    columns = {key: _permuted(column, order) for key, column in columns.items()}

    locate = locator(origin, order)
    user = np.broadcast_to(codes["user"], size)
    weights, above = None, None
    if "count" in columns:
        count = np.broadcast_to(columns["count"], size)
        weights = np.ones(keys["user"].values.size)
        weights[user] = count
        refuse_first(
            weights[user] != count,
            locate,
            lambda row: (
                "count must be the same for all rows of a user, got "
                f"{count[row]} and {weights[user[row]]:.0f}"
            ),
        )
    if "n_above" in columns:
        columns["n_above"], above = pd.factorize(columns["n_above"], sort=True)
    items = keys["item"].values if "item" in keys else None
    recommender = np.broadcast_to(codes["recommender"], size)
    names, users = keys["recommender"].values.tolist(), keys["user"].values
    repeats_user = (user[1:] == user[:-1]) & (recommender[1:] == recommender[:-1])
    if "n_chosen" in columns:
        refuse_first(
            np.append(False, repeats_user),
            locate,
            lambda row: (
                "a log with n_chosen must have one row for each user, got another one of "
                f"{shortened(str(users[user[row]]))}"
            ),
        )
    rows = instances_of({**columns, **codes, "user": user}, replacement, locate, items)
    if repeats_user.any():
        builder = Builder(names, users, np.bincount(recommender, minlength=len(names)).tolist())
        builder.append(rows)
    else:
        builder = Builder(names, users)
        builder.place(recommender, user, rows)
    return builder.log(replacement, weights, paired, above)


def instances_of(
    rows: Mapping[str, NDArray[Any]],
    replacement: bool,
    locate: Locator,
    items: NDArray[Any] | None = None,
) -> dict[str, NDArray[Any]]:
    """Number the instances and positions of rows sorted by recommender, user, instance and rank.

    `rows` are columns, (rows,) or (1,) if constant: codes of recommender, user and optionally
    instance and item; n_items, n_negatives; and rank, or n_better and n_tied. `items` are the
    items of the codes, for error messages. Returns the columns of `COLUMNS`.
    """
    size = rows["user"].size
    columns = {name: rows[name] for name in rows if name != "item"}
    keys = [
        np.broadcast_to(rows[n], size) for n in ("recommender", "user", "instance") if n in rows
    ]
    starts_instance = np.append(
        True, np.logical_or.reduce([column[1:] != column[:-1] for column in keys])
    )
    columns["instance"] = instance = np.cumsum(starts_instance, dtype=np.int32) - 1
    n_relevant = position = np.ones(1, dtype=np.int32)
    n_scored = n_relevant + columns.get("n_chosen", 0)
    if not starts_instance.all():
        starts = np.flatnonzero(starts_instance)
        n_relevant = np.diff(np.append(starts, size)).astype(np.int32)[instance]
        position = np.arange(1, size + 1, dtype=np.int32) - starts.astype(np.int32)[instance]
        n_scored = n_relevant
        all_rows = {key: np.broadcast_to(column, size) for key, column in columns.items()}
        _check_duplicates(rows.get("item"), all_rows, instance, locate, items)
        for key in ("n_items", "n_negatives"):
            _refuse_mixed(key, all_rows[key], all_rows[key][starts][instance], locate)
    if "rank" in columns:
        columns["n_better"] = columns["rank"] - position
        columns["n_tied"] = np.zeros(1, dtype=np.int32)
    check_ranges(columns, position, n_scored, replacement, size, locate)
    return columns | {"position": position, "n_relevant": n_relevant}


def _permuted(column: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    """Reorder a column unless it is constant."""
    return column if column.size == 1 else column[order]


def _refuse_mixed(key: str, values: NDArray[Any], first: NDArray[Any], locate: Locator) -> None:
    """Refuse a column that varies within an instance; `first` is its value in the first row."""
    requirement = f"{key} must be the same for all rows of an instance"
    refuse_first(
        values != first, locate, lambda row: f"{requirement}, got {values[row]} and {first[row]}"
    )


def _check_duplicates(
    item: NDArray[Any] | None,
    columns: Mapping[str, NDArray[Any]],
    instance: NDArray[Any],
    locate: Locator,
    items: NDArray[Any] | None,
) -> None:
    """Refuse repeated items, and equal ranks or rows, within an instance."""
    if item is not None:
        item = np.broadcast_to(item, instance.size)
        by_item = np.lexsort((item, instance))
        is_duplicate = np.zeros(instance.size, dtype=bool)
        equals_previous = (np.diff(instance[by_item]) == 0) & (np.diff(item[by_item]) == 0)
        is_duplicate[by_item[1:]] = equals_previous
        codes = item
        refuse_first(
            is_duplicate,
            locate,
            lambda row: (
                "each item must occur only once in an instance: item "
                f"{shortened(str(codes[row] if items is None else items[codes[row]]))} occurs again"
            ),
        )
    names = [name for name in ("rank", "n_better", "n_tied") if name in columns]
    equal = [np.diff(columns[name]) == 0 for name in names]
    is_duplicate = np.append(False, (np.diff(instance) == 0) & np.all(equal, axis=0))
    if "rank" in columns:
        requirement = "items that were ranked together must have different ranks"
        refuse_first(
            is_duplicate,
            locate,
            lambda row: f"{requirement}: rank {columns['rank'][row]} occurs again",
            "; remove the repeated row, or, if a user's items were ranked separately, number the "
            "rankings in a column instance",
        )
    elif item is None:
        hint = "; if these are different items, add a column item"
        refuse_first(is_duplicate, locate, lambda _: "rows must be distinct: one is repeated", hint)


def check_ranges(
    columns: Mapping[str, NDArray[Any]],
    position: NDArray[Any],
    n_scored: NDArray[Any],
    replacement: bool,
    size: int,
    locate: Locator,
) -> None:
    """Refuse counts that are impossible with so many negatives and candidates.

    `n_scored` are the items that are always ranked: relevant ones, and chosen ones if there are.
    """
    m, n = columns["n_negatives"], columns["n_items"]

    def of(column: NDArray[Any], row: int) -> int:
        return int(np.broadcast_to(column, size)[row])

    has_chosen = "n_chosen" in columns
    scored = "relevant and chosen items" if has_chosen else "relevant items"
    rest = "irrelevant items beside the chosen ones" if has_chosen else "irrelevant items there are"
    refuse_first(
        n <= n_scored,
        locate,
        lambda row: (
            f"n_items must be above the number of {scored}, {of(n_scored, row)}, got {of(n, row)}"
        ),
    )
    refuse_first(
        (m > n - n_scored) & (not replacement),
        locate,
        lambda row: (
            f"n_negatives must be <= {of(n - n_scored, row)}, the {rest}, without replacement, "
            f"got {of(m, row)}"
        ),
    )
    refuse_first(
        n > 2**61 // np.maximum(m, 1),
        locate,
        lambda row: f"n_items * n_negatives must be < 2**61, got {of(n, row)} * {of(m, row)}",
    )

    def beyond(row: int) -> str:
        if "rank" in columns:
            requirement = f"rank must be <= {of(m + position, row)}, with {of(m, row)} negatives"
            return f"{requirement}, got {of(columns['rank'], row)}"
        got = " + ".join(str(of(columns[name], row)) for name in ("n_better", "n_tied"))
        return f"n_better + n_tied must be <= n_negatives = {of(m, row)}, got {got}"

    hint = "; if users have different numbers of negatives, add a column n_negatives"
    refuse_first(columns["n_better"] + columns["n_tied"] > m, locate, beyond, hint)

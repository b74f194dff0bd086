"""Columns of a log or another table: their names and aliases, and checks of their values."""

from __future__ import annotations

import difflib
import numbers
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray, as_written, integer, shortened
from .compact import ANCHOR_COLUMNS, COLUMNS, OPTIONAL

if TYPE_CHECKING:
    import pandas as pd

#: Column names allowed in the input. `COLUMNS[:5]` leaves out those that are computed.
INPUT = (
    *COLUMNS[:5],
    "n_items",
    "n_negatives",
    "rank",
    "item",
    "count",
    *OPTIONAL,
    *ANCHOR_COLUMNS,
)
#: Aliases of columns in other libraries: lower case, without blanks, "_" and "-".
_SYNONYMS = {
    "recommender": "model modelname algorithm algo system method run runid",
    "user": "userid uid qid query queryid",
    "item": "itemid iid docid docno",
    "rank": "sampledrank",
    "n_items": "numitems",
    "n_negatives": "numnegatives",
}

#: What to do about ranks that count from 0.
_FROM_ZERO = ": if the best rank is 0, say --first-rank 0, or first_rank=0"
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.ASCII | re.IGNORECASE)


def meaning(name: object) -> str | None:
    """The column of a log that a name is an alias of, or None."""
    plain = re.sub(r":(token|float)$|[\s_-]", "", str(name).lower())  # RecBole has user_id:token
    for key in INPUT:
        if plain == key.replace("_", "") or plain in _SYNONYMS.get(key, "").split():
            return key
    return None


def listed(names: Iterable[object]) -> str:
    """Column names for an error message: the first eight, each cut to 30 characters."""
    texts = [str(name) for name in names]
    texts = [shortened(text if text.isprintable() else as_written(text), 30) for text in texts]
    suffix = f" and {len(texts) - 8} more" if len(texts) > 9 else ""
    return (", ".join(texts[:8] if suffix else texts) or "none") + suffix


def require_columns(
    frame: pd.DataFrame, names: Iterable[str], origin: str, aliases: Mapping[str, str] | None = None
) -> None:
    """Refuse a table that has no rows, or lacks one of these columns or has it twice.

    `aliases` maps a library's own column names to ours, so that errors use the library's names.
    """
    library_names = {ours: theirs for theirs, ours in (aliases or {}).items()}
    for name in names:
        if list(frame.columns).count(name) != 1:
            columns = listed([library_names.get(str(column), column) for column in frame.columns])
            raise ValueError(
                f"{origin} must have one column {library_names.get(name, name)}, got {columns}"
            )
    if frame.empty:
        raise ValueError(f"{origin} must hold one row or more, got none")


def log_names(columns: Iterable[Any], origin: str, keys: Iterable[str]) -> list[Any]:
    """Replace aliases by the names of a log, and warn of each replacement."""
    names, renamed = list(columns), {}
    for key in keys:
        aliases = [name for name in names if name == key or meaning(name) == key]
        if len(aliases) > 1 and len({str(alias).removesuffix(".1") for alias in aliases}) > 1:
            raise ValueError(
                f"{origin} has the columns {listed(aliases)}, which may each be the {key}: rename "
                "or remove those that are not"
            )
        if aliases and aliases[0] != key:
            renamed[aliases[0]] = key
    if renamed:
        pairs = ", ".join(f"{listed([name])} as {key}" for name, key in renamed.items())
        warnings.warn(f"{origin}: read column {pairs}", UserWarning, stacklevel=3)
    return [renamed.get(name, name) for name in names]


def warn_ignored(names: Iterable[Any], origin: str, accepted: Iterable[str]) -> None:
    """Warn of columns that are not read."""
    ignored = [name for name in names if name not in accepted]
    if ignored:
        columns = "column" if len(ignored) == 1 else "columns"
        warnings.warn(f"{origin}: {columns} {listed(ignored)} left out", UserWarning, stacklevel=3)


def check_pooling(frame: pd.DataFrame, keys: Mapping[str, Key], origin: str) -> None:
    """Refuse an unknown column that tells the rows of each user apart, such as "algo_name".

    It is probably the recommender under a name we do not know; to ignore it would pool them.
    """
    import pandas as pd

    if set(frame.columns) <= set(INPUT):
        return
    recommender, user = keys["recommender"], keys["user"]
    group = recommender.codes.astype(np.int64) * len(user.values) + user.codes
    group, _ = _factorized(pd.Series(np.broadcast_to(group, len(frame))), sort=True)
    n_groups = group.max() + 1
    if n_groups in (1, group.size):
        return
    for column_index, name in enumerate(frame.columns):
        column = frame.iloc[:, column_index].reset_index(drop=True)
        if name in INPUT or not _are_scalars(column).all():
            continue
        value, _ = _factorized(column, sort=False)
        n_values = value.max() + 1
        is_unique = np.unique(group * n_values + value).size == group.size and value.min() >= 0
        # An item column, unlike a recommender column, has many values and few of them per user.
        if is_unique and 2 * group.size > n_values * n_groups:
            raise ValueError(
                f"{origin} has several rows for each user, which differ in the column "
                f"{listed([name])}: rename it to recommender, instance or item, whichever it is"
            )


def check_columns(names: list[Any], origin: str) -> None:
    """Refuse a table whose columns are not those of a log, and suggest near names."""
    # Of two columns with one name pandas calls the second one "name.1".
    base_names = [str(name).removesuffix(".1") for name in names]
    repeated = [name for name in INPUT if base_names.count(name) > 1]
    if repeated:
        raise ValueError(f"{origin} must have one column {repeated[0]}, got {listed(names)}")
    _refuse_misspelt(names, origin)
    if "rank" in names and {"n_better", "n_tied"} & set(names):
        raise ValueError(
            f"{origin} must have either a column rank or n_better and n_tied, got {listed(names)}"
        )
    absent = _absent(names)
    if absent:
        raise ValueError(
            f"{origin} must have the columns user, and either rank or n_better and n_tied: there "
            f"is no {absent[0]}{_hint(absent, names)}, got {listed(names)}"
        )


def _refuse_misspelt(names: list[Any], origin: str) -> None:
    """Refuse an unknown column whose name is near that of a column which is not there."""
    unused = [name for name in INPUT if name not in names]
    for name in (str(name) for name in names if name not in INPUT):
        matches = difflib.get_close_matches(name.strip().lower(), unused, n=1, cutoff=0.8)
        if matches:
            raise ValueError(
                f"{origin} has a column {as_written(name)}: did you mean {matches[0]!r}?"
            )


def without_negatives(names: Iterable[Any]) -> bool:
    """Whether a table has chosen items, and no sampled negatives."""
    columns = {*names}
    sampled = {"rank", "n_better", "n_tied", "n_negatives"}
    return "n_chosen_better" in columns and columns.isdisjoint(sampled)


def _absent(names: list[Any]) -> list[str]:
    """Necessary columns that are not there."""
    counts = [] if "rank" in names or without_negatives(names) else ["n_better", "n_tied"]
    if counts and not set(counts) & set(names):
        counts = ["rank"]
    user_optional = "count" in names and not {"item", "instance"} & set(names)
    needed = counts if user_optional else ["user", *counts]
    return [name for name in needed if name not in names]


def _hint(absent: list[str], names: list[Any]) -> str:
    """Which column may be the first absent one, in brackets."""
    if "rank" in absent and "position" in names:
        return " (if it is position, --first-rank 0 or 1 says which position is the best)"
    matches = difflib.get_close_matches(absent[0], map(str, names), n=1, cutoff=0.3)
    return f" (is it {as_written(matches[0])}?)" if matches and matches[0] not in INPUT else ""


class Location(str):
    """What to call an input that also knows the first row of each file, to locate rows in errors.

    `rows` are the row numbers of a part of the table; None if all rows are in memory.
    """

    starts: list[tuple[str, int]]
    rows: Sequence[int] | None

    def __new__(
        cls, name: str, starts: Sequence[tuple[str, int]], rows: Sequence[int] | None = None
    ) -> Location:
        location = super().__new__(cls, name)
        location.starts, location.rows = list(starts), rows
        return location


#: Maps a mask of bad rows to the first bad row and the words that locate it.
Locator = Callable[[NDArray[np.bool_]], tuple[int, str]]


def line(origin: str, row: int) -> str:
    """Locate a row for an error message; rows count from 1, without the header."""
    if isinstance(origin, Location):
        row = row if origin.rows is None else origin.rows[row]
        origin, first = [(name, first) for name, first in origin.starts if first <= row][-1]
        row -= first
    return f"row {row + 1} of {origin}"


def locator(origin: str, order: NDArray[Any] | None = None) -> Locator:
    """A locator for an input whose rows were sorted by `order`."""

    def where(is_invalid: NDArray[np.bool_]) -> tuple[int, str]:
        row = int(np.argmax(is_invalid))
        return row, line(origin, row if order is None else int(order[row]))

    return where


def refuse_first(
    is_invalid: Any, origin: str | Locator, sentence: Callable[[int], str], hint: str = ""
) -> None:
    """Raise ValueError for the first bad row, if any, and say where it is."""
    if np.any(is_invalid):
        row, words = (locator(origin) if isinstance(origin, str) else origin)(is_invalid)
        raise ValueError(f"{sentence(row)} in {words}{hint}")


def whole_numbers(frame: pd.DataFrame, key: str, low: int, origin: str) -> IntArray:
    """A column of whole numbers >= `low`, as int64."""
    return whole(frame, key, low, origin).astype(np.int64)


def whole(frame: pd.DataFrame, key: str, low: int, origin: str) -> NDArray[Any]:
    """A column of whole numbers >= `low`, in its own type if that is an integer type."""
    column = frame[key]
    if column.dtype.kind in "iu" and not column.hasnans:  # pandas' nullable integers
        values = column.to_numpy()
    else:
        numeric = _floats(column)
        is_invalid = (
            ~np.isfinite(numeric) | (numeric != np.floor(numeric)) | (np.abs(numeric) > 2**53)
        )
        requirement = f"{key} must be a whole number >= {low}"
        refuse_first(
            is_invalid, origin, lambda row: f"{requirement}, got {as_written(column.iloc[row])}"
        )
        values = numeric.astype(np.int64)
    hint = _FROM_ZERO if key == "rank" and low == 1 and values.min(initial=1) == 0 else ""
    refuse_first(
        values < low, origin, lambda row: f"{key} must be >= {low}, got {values[row]}", hint
    )
    if values.dtype.kind == "u" and values.max() > 2**62:
        raise ValueError(f"{key} must be <= 2**62, got {values.max()} in {origin}")
    return values


def shrunk(values: NDArray[Any], small: bool = True) -> NDArray[Any]:
    """A copy in 32 bits where values fit; a single number if all rows are equal."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low], dtype=np.int64)
    return values.astype(np.int32 if small and high < 2**30 else np.int64)


def _floats(column: pd.Series) -> FloatArray:
    """A column as floats, NaN for anything but a number (truth values and dates too)."""
    if column.dtype.kind == "f":
        return column.to_numpy(dtype=float, na_value=np.nan)
    return np.array([_float(value) for value in column], dtype=float)


def _float(value: object) -> float:
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else np.nan
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, Decimal)):
        return np.nan
    try:
        return float(value)
    except (OverflowError, ValueError):  # too large, or a NaN that signals
        return np.inf


def real(frame: pd.DataFrame, key: str, origin: str) -> FloatArray:
    """A column of finite numbers >= 0."""
    import pandas as pd

    values = pd.to_numeric(frame[key], errors="coerce").to_numpy(dtype=float)
    is_invalid = ~(np.isfinite(values) & (values >= 0))
    refuse_first(
        is_invalid,
        origin,
        lambda row: f"{key} must hold numbers >= 0, got {as_written(frame[key].iloc[row])}",
    )
    return values


def _are_scalars(column: pd.Series) -> NDArray[np.bool_]:
    import pandas as pd

    if column.dtype.kind != "O":
        return np.ones(len(column), dtype=bool)
    return np.fromiter(map(pd.api.types.is_scalar, column), dtype=bool, count=len(column))


class SizeMissingError(ValueError):
    """Neither an option nor a `column` gives n_items or n_negatives."""

    def __init__(self, column: str, origin: str) -> None:
        super().__init__(column, origin)
        self.column = column

    def __str__(self) -> str:
        name, origin = self.args
        option = f"--{name.replace('_', '-')}"
        return f"{name} is needed: give it ({option}), or a column {name} in {origin}"


def size_option(key: str, option: int | None, low: int, origin: str) -> IntArray:
    """n_items or n_negatives given as an option, where the table has no such column."""
    if option is None:
        raise SizeMissingError(key, origin)
    return np.array([integer(option, key, low, 2**62)], dtype=np.int64)


def size_column(
    frame: pd.DataFrame, key: str, option: int | None, low: int, origin: str
) -> IntArray:
    """n_items or n_negatives of every row, from the column or the option; one if all equal."""
    if key not in frame:
        return size_option(key, option, low, origin)
    if option is not None:
        option = integer(option, key, low, 2**62)
    column = shrunk(whole(frame, key, low, origin), small=False)
    if option is not None:
        requirement = f"{key} must agree with the column {key}, got {option}"
        refuse_first(column != option, origin, lambda row: f"{requirement} and {column[row]}")
    return column


@dataclass(frozen=True, eq=False)
class Key:
    """A column of labels as codes into `values`; one code if all rows have the same label.

    Recommenders are numbered in order of first appearance; other labels are sorted if possible.
    """

    codes: NDArray[Any]
    values: NDArray[Any]


def key_of(frame: pd.DataFrame, key: str, origin: str) -> Key:
    """A label column as codes; without one, each row is a user, and other labels are all equal."""
    import pandas as pd

    if key not in frame and key == "user":
        numbers = np.arange(len(frame), dtype=np.int64)
        return Key(numbers, numbers)
    if key not in frame:
        return Key(np.zeros(1, dtype=np.int32), np.array(["recommender"], dtype=object))
    column = frame[key].reset_index(drop=True)
    try:
        codes, values = _factorized(column, sort=key != "recommender")
        is_nested = np.append(~_are_scalars(pd.Series(values)), False)[codes]  # code -1: missing
    except TypeError:  # lists and the like cannot be hashed
        is_nested = ~_are_scalars(column)
    requirement = f"{key} must be a number or text"
    refuse_first(
        is_nested, origin, lambda row: f"{requirement}, got {as_written(column.iloc[row])}"
    )
    is_text = values.dtype.kind not in "iufb"
    is_blank = [is_text and isinstance(value, str) and not value.strip() for value in values]
    is_missing = np.append(np.array(is_blank, dtype=bool), True)[codes]
    refuse_first(is_missing, origin, lambda _: f"{key} must not be missing, as it is")
    if key == "recommender":
        name_codes, values = pd.factorize(np.array([str(value) for value in values], dtype=object))
        codes = name_codes[codes]
    return Key(codes.astype(np.int32), values)


def labelled(frame: pd.DataFrame, key: str, origin: str) -> pd.Series:
    """A label column as a series, checked for gaps."""
    import pandas as pd

    labels = key_of(frame, key, origin)
    return pd.Series(labels.values[np.broadcast_to(labels.codes, len(frame))])


def _factorized(column: pd.Series, sort: bool) -> tuple[IntArray, NDArray[Any]]:
    """`pandas.factorize`, sorted where labels can be compared; -1 for missing values."""
    import pandas as pd

    try:
        codes, values = pd.factorize(column, sort=sort)
    except TypeError:  # numbers and text together have no order
        codes, values = pd.factorize(column)
    return codes.astype(np.int64), np.asarray(values)


def refuse_twice(frame: pd.DataFrame, key: list[str], origin: str, hint: str = "") -> None:
    """Refuse rows that agree in these columns."""
    is_duplicate = frame.duplicated(key)
    if is_duplicate.any():
        row = frame.loc[is_duplicate, key].iloc[0]
        label = ", ".join(f"{name} {shortened(str(row[name]))}" for name in key)
        raise ValueError(
            f"{origin} must have one row for each {', '.join(key)}, got {label} twice{hint}"
        )


def item_of_user(user: object, item: object) -> str:
    return f"item {shortened(str(item))} of user {shortened(str(user))}"

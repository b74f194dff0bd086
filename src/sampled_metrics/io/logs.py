"""The log of a sampled evaluation, read and checked, and the one bundled with the package.

A log has a row for each held-out item: how many of the sampled negatives scored above it and
how many the same. All that later modules need to know of an evaluation is in these rows.
"""

from __future__ import annotations

import difflib
import io
import numbers
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray, as_written, integer, shortened

#: The columns of :class:`Log`, in their order.
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
_INPUT = (*COLUMNS[:5], "n_items", "n_negatives", "rank", "item")
#: What other libraries call these columns, without upper case, blanks, "_" and "-".
_SYNONYMS = {
    "recommender": "model modelname algorithm algo system method run runid",
    "user": "userid uid qid query queryid",
    "item": "itemid iid docid docno",
    "rank": "sampledrank",
    "n_items": "numitems",
    "n_negatives": "numnegatives",
}

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.ASCII | re.IGNORECASE)

#: Seed and number of negatives of the bundled log.
BUNDLED_NEGATIVES = 100
#: Where the bundled log is.
BUNDLE = Path(__file__).parents[1] / "data"


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """A sampled evaluation, as :func:`read_log` returns it: checked, and sorted.

    Attributes
    ----------
    frame : pandas.DataFrame
        A row for each held-out item, with the columns of `COLUMNS`: recommender (str), user,
        instance (int; the rows of one instance were ranked together), n_better and n_tied (int;
        sampled negatives that scored above the item, and the same), position (int; the item's
        place among the relevant ones of the instance, 1 the best), n_relevant (int; how many
        these are), n_items (int; candidates of the instance, the relevant ones included) and
        n_negatives (int; how many were sampled).
    replacement : bool
        Whether negatives were drawn with replacement.

    Examples
    --------
    >>> log = read_log("bundled")
    >>> log.recommenders, len(log.frame), log.replacement
    (('X', 'Y', 'Z'), 18120, False)
    >>> read_log(log.frame.head(2), replacement=True)
    Log(recommenders=1, users=2, rows=2, n_items=<3578 to 3654>, n_negatives=100, replacement=True)
    """

    frame: pd.DataFrame
    replacement: bool

    def __repr__(self) -> str:
        users = self.frame["user"].nunique()
        held: dict[str, object] = {"recommenders": len(self.recommenders), "users": users}
        held["rows"] = len(self.frame)
        for name in ("n_items", "n_negatives"):
            low, high = self.frame[name].min(), self.frame[name].max()
            held[name] = low if low == high else f"<{low} to {high}>"
        held["replacement"] = self.replacement
        return f"Log({', '.join(f'{name}={value}' for name, value in held.items())})"

    @property
    def recommenders(self) -> tuple[str, ...]:
        """Their names, in the order of the log."""
        return tuple(self.frame["recommender"].unique())


def read_log(
    source: str | Path | pd.DataFrame,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
) -> Log:
    """Read and check the log of a sampled evaluation.

    Parameters
    ----------
    source : str, Path or pandas.DataFrame
        A CSV file (also .csv.gz), a Parquet file, a data frame, or "bundled" for the log that
        comes with the package. A row for each held-out item, with the columns

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
        - n_items, n_negatives, optional: as below, where they differ from user to user.

        The names that other libraries give these columns are understood: RecTools' user_id and
        model, RecBole's user_id:token, trec_eval's qid and run, also in upper case. Other columns
        are left out. A warning says both.
    n_items : int, optional
        Candidates of each instance, the relevant items included, more than `n_relevant`.
    n_negatives : int, optional
        Sampled negatives of each instance, at least 1.
    replacement : bool, optional
        Whether negatives were drawn with replacement; True if omitted. After duplicates were
        removed, the law given how many distinct ones are left is that without replacement. The
        bundled log is without replacement, and cannot be read otherwise.

    Returns
    -------
    Log

    Raises
    ------
    ValueError
        If the file cannot be read or is cut short, is empty, lacks a column, has a misnamed one
        or two that may both be meant, holds what is no number or out of its range, or holds a row
        twice; or if users have a row for each value of a column that is left out.
    ImportError
        If a Parquet file is given and pyarrow is not installed.

    Warns
    -----
    UserWarning
        Where a column is read by another name or left out, and where several rows of a user are
        read as relevant items that were ranked together though no column item, instance or
        position says so.

    Examples
    --------
    >>> rows = pd.DataFrame({"user": [1, 2, 2], "item": [7, 7, 8], "rank": [3, 1, 5]})
    >>> log = read_log(rows, n_items=50, n_negatives=9)
    >>> log.frame[["user", "n_better", "position", "n_relevant"]]
       user  n_better  position  n_relevant
    0     1         2         1           1
    1     2         0         1           2
    2     2         3         2           2
    """
    if isinstance(source, str) and source == "bundled":
        return _bundled(n_items, n_negatives, replacement)
    with_replacement = True if replacement is None else replacement
    if not isinstance(with_replacement, (bool, np.bool_)):
        raise ValueError(f"replacement must be True or False, got {replacement!r}")
    given, name = _loaded(source, "the log")
    frame = _understood(given, name, _INPUT)
    _check_columns(list(frame.columns), name)
    _name_ignored(frame, name, {*_INPUT, *COLUMNS})
    if frame.empty:
        raise ValueError(f"{name} must hold one row or more, got none")
    sizes = {"n_items": (n_items, 2), "n_negatives": (n_negatives, 1)}
    columns = {
        key: _size_column(frame, key, option, low, name) for key, (option, low) in sizes.items()
    }
    keys = {key: _labels(frame, key, name) for key in ("recommender", "user", "instance", "item")}
    if "rank" in frame:
        columns["rank"] = _numbers(frame, "rank", 1, name)
    else:
        columns |= {key: _numbers(frame, key, 0, name) for key in ("n_better", "n_tied")}
    told = bool({"item", "instance", "position"} & set(frame.columns))
    if not told:
        _check_pooling(frame, keys, name)
    rows = _canonical(keys, columns, bool(with_replacement), name)
    most = rows["n_relevant"].max()
    if most > 1 and not told:
        warnings.warn(
            f"{name}: up to {most} rows of a user are read as relevant items that were ranked "
            "together: add a column item if they are, instance if each was ranked apart, or "
            "recommender if they are of several",
            UserWarning,
            stacklevel=2,
        )
    return Log(rows, bool(with_replacement))


def _bundled(n_items: int | None, n_negatives: int | None, replacement: bool | None) -> Log:
    """The bundled log; the options may only repeat what it says itself."""
    if replacement not in (None, False):
        raise ValueError(
            f"replacement must be False for the bundled log, which was drawn without, got "
            f"{replacement!r}"
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


def _loaded(source: object, name: str) -> tuple[pd.DataFrame, str]:
    """The rows of a file or data frame as they are, and what to call them: a file by its path."""
    if isinstance(source, pd.DataFrame):
        return source, name
    if not isinstance(source, (str, Path)):
        argument = name.removeprefix("the ")
        raise ValueError(f"{argument} must be a file or a data frame, got {type(source).__name__}")
    path = Path(source)
    parquet = path.suffix.lower() in (".parquet", ".pq")
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as problem:  # ValueError: a path with a null character
        reason = getattr(problem, "strerror", None) or problem
        raise ValueError(f"{path} cannot be read: {reason}") from None
    if not content:
        raise ValueError(f"{path} must hold one row or more, got an empty file")
    return (_parquet if parquet else _csv)(content, path), str(path)


def _need_pyarrow() -> None:
    """Raise ImportError unless Parquet files can be read and written."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(
            "a Parquet file needs the library pyarrow: pip install 'sampled-metrics[parquet]'"
        ) from None


def _parquet(content: bytes, path: Path) -> pd.DataFrame:
    _need_pyarrow()
    from pyarrow import BufferReader, parquet

    try:
        # Not by pandas, which would trust what the file says of the frame it came from.
        table = parquet.read_table(BufferReader(content)).to_pandas(ignore_metadata=True)
    except Exception as problem:  # a damaged file can lead to any
        raise ValueError(f"{path} must be a whole Parquet file, got: {_first(problem)}") from None
    return pd.DataFrame(table)


def _csv(content: bytes, path: Path) -> pd.DataFrame:
    """The table of a CSV file; what is no number in it stays text, for the checks to name."""
    import gzip
    import zlib

    try:
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        if not content.strip():
            raise ValueError("an empty file")
        _check_text(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas only warns where it drops fields
            header = pd.read_csv(io.BytesIO(content), index_col=False, nrows=0)
            return pd.read_csv(
                io.BytesIO(content),
                keep_default_na=False,
                index_col=False,
                dtype={n: str for n in header.columns if _meaning(n) == "recommender"},
                low_memory=False,
            )
    except pd.errors.ParserWarning:
        raise ValueError(
            f"{path} must be a CSV file, got: rows of more fields than names"
        ) from None
    except (EOFError, OSError, ValueError, zlib.error) as problem:
        raise ValueError(f"{path} must be a CSV file, got: {_first(problem)}") from None


def _check_text(content: bytes) -> None:
    """Refuse what pandas would read as something else, or explain worse."""
    if b"\0" in content:
        raise ValueError("a null character, as in UTF-16 or in a file that is no text")
    try:
        content.decode()
    except UnicodeDecodeError as problem:
        raise ValueError(f"text that is not UTF-8, from byte {problem.start + 1} on") from None
    names = re.split(rb"[\r\n]", content.lstrip(), maxsplit=1)[0]
    for separator in (b";", b"\t"):
        if separator in names and b"," not in names:
            shown = as_written(separator.decode())
            raise ValueError(f"fields separated by {shown}: separate them by commas")
    if not content.endswith((b"\n", b"\r")):
        raise ValueError(
            "a last line without its end, as if the file were cut short (end it if it is whole)"
        )


def _first(problem: BaseException) -> str:
    """The first line of an error, for a message of one sentence."""
    lines = str(problem).strip().splitlines()
    return lines[0].strip() if lines else type(problem).__name__


def _meaning(name: object) -> str | None:
    """The column of a log that a name stands for, if it is known."""
    plain = re.sub(r":(token|float)$|[\s_-]", "", str(name).lower())  # RecBole has user_id:token
    for key in _INPUT:
        if plain == key.replace("_", "") or plain in _SYNONYMS.get(key, "").split():
            return key
    return None


def _listed(names: Iterable[object]) -> str:
    """Names of columns for a sentence, cut to a sane length."""
    shown = [str(name) for name in names]
    shown = [shortened(n if n.isprintable() else as_written(n), 30) for n in shown]
    more = f" and {len(shown) - 8} more" if len(shown) > 9 else ""
    return (", ".join(shown[:8] if more else shown) or "none") + more


def _need(
    frame: pd.DataFrame, names: Iterable[str], source: str, shown: Mapping[str, str] | None = None
) -> None:
    """Refuse a table without rows or these columns; `shown` maps the source's own names to them."""
    own = {ours: theirs for theirs, ours in (shown or {}).items()}
    for name in names:
        if list(frame.columns).count(name) != 1:
            had = _listed([own.get(str(column), column) for column in frame.columns])
            raise ValueError(f"{source} must have one column {own.get(name, name)}, got {had}")
    if frame.empty:
        raise ValueError(f"{source} must hold one row or more, got none")


def _understood(frame: pd.DataFrame, source: str, wanted: Iterable[str]) -> pd.DataFrame:
    """The table with the names of a log for its columns, saying what was taken for what."""
    taken = {}
    for key in wanted:
        found = [name for name in frame.columns if name == key or _meaning(name) == key]
        if len(found) > 1 and len({str(n).removesuffix(".1") for n in found}) > 1:
            raise ValueError(
                f"{source} has the columns {_listed(found)}, which may each be the {key}: rename "
                "or remove those that are not"
            )
        if found and found[0] != key:
            taken[found[0]] = key
    if taken:
        said = ", ".join(f"{_listed([name])} as {key}" for name, key in taken.items())
        warnings.warn(f"{source}: read column {said}", UserWarning, stacklevel=3)
    return frame.rename(columns=taken)


def _name_ignored(frame: pd.DataFrame, source: str, known: Iterable[str]) -> None:
    ignored = [name for name in frame.columns if name not in known]
    if ignored:
        columns = "column" if len(ignored) == 1 else "columns"
        warnings.warn(f"{source}: {columns} {_listed(ignored)} left out", UserWarning, stacklevel=3)


def _check_pooling(frame: pd.DataFrame, keys: Mapping[str, Any], source: str) -> None:
    """Refuse rows of a user that a column without a meaning tells apart, as of two recommenders."""
    if set(frame.columns) <= set(_INPUT):
        return
    found = [_factorized(keys[key], key) for key in ("recommender", "user")]
    group = _factorized(pd.Series(found[0] * (found[1].max() + 1) + found[1]), "user")
    groups = group.max() + 1
    if groups in (1, group.size):
        return
    for at, name in enumerate(frame.columns):
        column = frame.iloc[:, at].reset_index(drop=True)
        if name in _INPUT or not _are_scalars(column).all():
            continue
        value = _factorized(column, "value")
        values = value.max() + 1
        once = np.unique(group * values + value).size == group.size and value.min() >= 0
        # A column of items has many values, of which a user has few.
        if once and 2 * group.size > values * groups:
            raise ValueError(
                f"{source} has a row of each user for each value of the column "
                f"{_listed([name])}, which a log does not have: rename it to recommender, "
                "instance or item, as it may be"
            )


def _check_columns(names: list[Any], source: str) -> None:
    """Refuse a table whose columns are not those of a log."""
    shown = _listed(names)
    # Of two columns with one name pandas calls the second one "name.1".
    once = [str(name).removesuffix(".1") for name in names]
    twice = [name for name in _INPUT if once.count(name) > 1]
    if twice:
        raise ValueError(f"{source} must have one column {twice[0]}, got {shown}")
    unused = [name for name in _INPUT if name not in names]
    for name in (str(name) for name in names if name not in _INPUT):
        plain = name.strip().lower()
        near = difflib.get_close_matches(plain, unused, n=1, cutoff=0.8)
        if near:
            raise ValueError(f"{source} has a column {as_written(name)}: did you mean {near[0]!r}?")
    counts = [name for name in ("n_better", "n_tied") if name in names]
    wanted = "user, and either rank or n_better and n_tied"
    if "rank" in names and counts:
        raise ValueError(
            f"{source} must have either a column rank or n_better and n_tied, got {shown}"
        )
    lacking = [] if "user" in names else ["user"]
    if "rank" not in names:
        lacking += [n for n in ("n_better", "n_tied") if n not in names] if counts else ["rank"]
    if lacking:
        near = difflib.get_close_matches(lacking[0], map(str, names), n=1, cutoff=0.3)
        hint = f" (is it {as_written(near[0])}?)" if near and near[0] not in _INPUT else ""
        raise ValueError(
            f"{source} must have the columns {wanted}: there is no {lacking[0]}{hint}, got {shown}"
        )


def _line(source: str, row: int) -> str:
    """Where a row is: a line of a file, whose first holds the names, or a row of a frame."""
    return f"row {row + 1} of {source}"


def _numbers(frame: pd.DataFrame, key: str, low: int, source: str) -> IntArray:
    """A column of whole numbers, at least `low`."""
    column = frame[key]
    if column.dtype.kind in "iu" and not column.hasnans:  # pandas' own integers may be missing
        values = column.to_numpy()
    else:
        numeric = _floats(column)
        bad = ~np.isfinite(numeric) | (numeric != np.floor(numeric)) | (np.abs(numeric) > 2**53)
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"{key} must be a whole number >= {low}, got {as_written(column.iloc[row])} in "
                f"{_line(source, row)}"
            )
        values = numeric.astype(np.int64)
    bad = values < low
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{key} must be >= {low}, got {values[row]} in {_line(source, row)}")
    if values.dtype.kind == "u" and values.max() > 2**62:
        raise ValueError(f"{key} must be <= 2**62, got {values.max()} in {source}")
    return values.astype(np.int64)


def _floats(column: pd.Series) -> FloatArray:
    """A column as floats, NaN for what is no number: neither a truth value nor a date."""
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


def _are_scalars(column: pd.Series) -> NDArray[np.bool_]:
    if column.dtype.kind != "O":
        return np.ones(len(column), dtype=bool)
    return np.fromiter(map(pd.api.types.is_scalar, column), dtype=bool, count=len(column))


def _size_column(
    frame: pd.DataFrame, key: str, option: int | None, low: int, source: str
) -> IntArray:
    """n_items or n_negatives of every row, from the column or the option."""
    if option is not None:
        option = integer(option, key, low, 2**62)
    if key not in frame:
        if option is None:
            raise ValueError(f"{key} is needed: give it, or a column {key} in {source}")
        return np.full(len(frame), option)
    column = _numbers(frame, key, low, source)
    if option is not None and (column != option).any():
        row = int(np.argmax(column != option))
        raise ValueError(
            f"{key} must be that of the column {key}, got {option} and {column[row]} in "
            f"{_line(source, row)}"
        )
    return column


def _labels(frame: pd.DataFrame, key: str, source: str) -> pd.Series | None:
    """A column of names or numbers without gaps; None if there is none."""
    if key not in frame:
        if key != "recommender":
            return None
        return pd.Series(np.full(len(frame), "recommender", dtype=object))
    column = frame[key].reset_index(drop=True)
    nested = ~_are_scalars(column)
    if nested.any():
        row = int(np.argmax(nested))
        raise ValueError(
            f"{key} must be a number or text, got {as_written(column.iloc[row])} in "
            f"{_line(source, row)}"
        )
    missing = column.isna().to_numpy()
    if column.dtype.kind not in "iufb":
        missing = missing | (column.astype(str).str.strip() == "").to_numpy()
    if missing.any():
        raise ValueError(
            f"{key} must not be missing, as it is in {_line(source, int(np.argmax(missing)))}"
        )
    return column.astype(str) if key == "recommender" else column


def _canonical(
    keys: Mapping[str, pd.Series | None],
    columns: dict[str, IntArray],
    replacement: bool,
    source: str,
) -> pd.DataFrame:
    """The rows sorted, with positions, and checked against one another."""
    codes = {
        key: np.zeros(columns["n_items"].size, dtype=np.int64)
        if column is None
        else _factorized(column, key)
        for key, column in keys.items()
    }
    first, second = ("rank", "rank") if "rank" in columns else ("n_better", "n_tied")
    group = ("recommender", "user", "instance")
    order = np.lexsort((columns[second], columns[first], *(codes[key] for key in group[::-1])))
    codes = {key: code[order] for key, code in codes.items()}
    columns = {key: column[order] for key, column in columns.items()}

    def where(bad: np.ndarray) -> tuple[int, str]:
        at = int(np.argmax(bad))
        return at, _line(source, int(order[at]))

    new = np.ones(order.size, dtype=bool)
    new[1:] = np.any([np.diff(codes[key]) != 0 for key in group], axis=0)
    instance = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    n_relevant = np.diff(np.append(starts, order.size))[instance]
    position = np.arange(order.size) - starts[instance] + 1
    _check_twice(codes, columns, instance, keys["item"] is not None, where)
    for key in ("n_items", "n_negatives"):
        mixed = columns[key] != columns[key][starts][instance]
        if mixed.any():
            at, line = where(mixed)
            raise ValueError(
                f"{key} must be the same for all rows of an instance, got {columns[key][at]} and "
                f"{columns[key][starts][instance][at]} in {line}"
            )
    if "rank" in columns:
        columns["n_better"] = columns["rank"] - position
        columns["n_tied"] = np.zeros_like(position)
    _check_ranges(columns, position, n_relevant, replacement, where)
    frame = pd.DataFrame({"instance": instance})
    for key in ("recommender", "user"):
        column = keys[key]
        assert column is not None
        frame[key] = column.to_numpy()[order]
    frame = frame.assign(
        n_better=columns["n_better"],
        n_tied=columns["n_tied"],
        position=position,
        n_relevant=n_relevant,
        n_items=columns["n_items"],
        n_negatives=columns["n_negatives"],
    )
    return frame[list(COLUMNS)]


def _factorized(column: pd.Series, key: str) -> IntArray:
    """Numbers for the values of a column, in the order of recommenders, sorted for the others."""
    try:
        codes, _ = pd.factorize(column, sort=key != "recommender")
    except TypeError:  # numbers and text together have no order
        codes, _ = pd.factorize(column)
    return np.asarray(codes, dtype=np.int64)


def _check_twice(
    codes: Mapping[str, IntArray],
    columns: Mapping[str, IntArray],
    instance: IntArray,
    has_items: bool,
    where: Any,
) -> None:
    """Refuse a row that stands twice, and ranks that two items of an instance share."""
    if has_items:
        by_item = np.lexsort((codes["item"], instance))
        same = np.zeros(instance.size, dtype=bool)
        pairs = (np.diff(instance[by_item]) == 0) & (np.diff(codes["item"][by_item]) == 0)
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
    if not has_items:
        raise ValueError(
            f"a row must not stand twice, as in {line}: if these are different items, add a "
            "column item"
        )


def _check_ranges(
    columns: Mapping[str, IntArray],
    position: IntArray,
    n_relevant: IntArray,
    replacement: bool,
    where: Any,
) -> None:
    """Refuse counts that the numbers of negatives and of candidates do not allow."""
    m, n = columns["n_negatives"], columns["n_items"]
    small = n <= n_relevant
    if small.any():
        at, line = where(small)
        raise ValueError(
            f"n_items must be above the number of relevant items, {n_relevant[at]}, got {n[at]} "
            f"in {line}"
        )
    few = (m > n - n_relevant) & (not replacement)
    if few.any():
        at, line = where(few)
        raise ValueError(
            f"n_negatives must be <= {n[at] - n_relevant[at]}, the irrelevant items there are, "
            f"without replacement, got {m[at]} in {line}"
        )
    huge = n > 2**61 // m
    if huge.any():
        at, line = where(huge)
        raise ValueError(f"n_items * n_negatives must be < 2**61, got {n[at]} * {m[at]} in {line}")
    beyond = columns["n_better"] + columns["n_tied"] > m
    if not beyond.any():
        return
    at, line = where(beyond)
    column = "; if users have different numbers of negatives, add a column n_negatives"
    if "rank" in columns:
        most = m[at] + position[at]
        raise ValueError(
            f"rank must be <= {most}, with {m[at]} negatives, got {columns['rank'][at]} in "
            f"{line}{column}"
        )
    raise ValueError(
        f"n_better + n_tied must be <= n_negatives = {m[at]}, got {columns['n_better'][at]} + "
        f"{columns['n_tied'][at]} in {line}{column}"
    )

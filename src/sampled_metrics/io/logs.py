"""The log of a sampled evaluation, read and checked, and the one bundled with the package.

A log has a row for each held-out item: how many of the sampled negatives scored above it and
how many the same. All that later modules need to know of an evaluation is in these rows.
"""

from __future__ import annotations

import difflib
import glob
import io
import math
import numbers
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, union_categoricals

from .._validate import FloatArray, IntArray, as_written, integer, shortened
from ..protocol import Protocol
from .compact import COLUMNS, KIND, Log, sorted_log
from .grids import Builder, UnusualError
from .lists import ListsBuilder, MixedError, Part, in_order

_INPUT = (*COLUMNS[:5], "n_items", "n_negatives", "rank", "item", "count", "n_above")
#: Those of them that are read as whole numbers, of whatever type.
_NUMBERS = ("n_better", "n_tied", "n_items", "n_negatives", "rank", "count")
#: What files of exact ranks have besides.
_EXACT = ("n_candidates", "n_relevant", "n_better", "n_tied", "user")
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
#: Files of at least so many bytes are read in parts, and so many rows of them at once.
_LARGE = 1 << 24
_ROWS = 1 << 19
#: Partitions of a data frame of Dask that are computed at once.
_PARTITIONS = 4
_PARQUET = (".parquet", ".pq")
_PATTERN = re.compile(r"[*?\[]")
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
) -> Log:
    """Read and check the log of a sampled evaluation.

    Parameters
    ----------
    source : str, Path, sequence of these, or DataFrame of pandas, Dask or Spark
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
          :func:`~sampled_metrics.weighting.counts_above` makes it;
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
        It may be left out where the log says it: a table from :mod:`sampled_metrics.io.readers`
        whose candidates are distinct; the bundled log, which was drawn without; and exact ranks,
        as of :func:`~sampled_metrics.io.readers.rank_files`, where users have one held-out item:
        they are read as an evaluation that drew every negative once.
    protocol : Protocol, optional
        Says all three instead. If it has weights, or duplicates are collapsed, each user has one
        held-out item, and all have the same candidates but for that one; of the weights the order
        does not matter. Items that are left out for a user leave the others larger shares of the
        draws, which is not in what is possible.

    Returns
    -------
    Log
        Files of 16 MB or more together, and data frames of Dask, are read part by part. Where users
        are whole numbers that leave few out, a row takes a byte in memory for up to 255 kinds of
        rows, two bytes for up to 65,535; users with several rows, which need whole numbers as items
        and no column instance, take one more for each recommender. If these rows are not in order
        of users they are sorted by way of the temporary folder (TMPDIR), some 25 bytes a row. Other
        logs take some fifty bytes a row while they are read. Spark counts the users of its data
        frame who have the same rows, and the log has one of each kind, with a column count. All
        rows come if there is a column item or instance.

    Raises
    ------
    ValueError
        If the file cannot be read or is cut short, is empty, lacks a column, has a misnamed one
        or two that may both be meant, holds what is no number or out of its range, or holds a row
        twice; if `replacement` is missing, or not what the log says; or if users have a row for
        each value of a column that is left out.
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
    if protocol is not None:
        return _by_protocol(source, protocol, (n_items, n_negatives, replacement))
    if isinstance(source, str) and source == "bundled":
        return _bundled(n_items, n_negatives, replacement)
    if not isinstance(replacement, (bool, np.bool_, type(None))):
        raise ValueError(f"replacement must be True or False, got {as_written(replacement)}")
    sizes = {"n_items": (n_items, 2), "n_negatives": (n_negatives, 1)}
    with suppress(UnusualError):
        return _in_parts(source, sizes, replacement)
    frame, name = _loaded(source, "the log", lean=True)
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
    frame = _understood(frame, name, _INPUT)
    _check_columns(list(frame.columns), name)
    _name_ignored(frame, name, {*_INPUT, *COLUMNS})
    if frame.empty:
        raise ValueError(f"{name} must hold one row or more, got none")
    columns: dict[str, NDArray[Any]] = {
        key: _size_column(frame, key, option, low, name) for key, (option, low) in sizes.items()
    }
    keys = {key: _key(frame, key, name) for key in ("recommender", "user", "instance")}
    if "item" in frame:
        keys["item"] = _key(frame, "item", name)
    if "rank" in frame:
        columns["rank"] = _lean(_whole(frame, "rank", 1, name))
    else:
        columns |= {key: _lean(_whole(frame, key, 0, name)) for key in ("n_better", "n_tied")}
    if "count" in frame:
        columns["count"] = _lean(_whole(frame, "count", 1, name), small=False)
        _check_total(columns["count"], len(frame), name)
    paired = "user" in frame
    told = bool({"item", "instance", "position"} & set(frame.columns)) or not paired
    if "n_above" in frame:
        if "count" in frame:
            raise ValueError(f"n_above needs a row for each user, got a column count in {name}")
        columns["n_above"] = _real(frame, "n_above", name)
    if not told:
        _check_pooling(frame, keys, name)
    size = len(frame)
    del frame  # of a large file nobody else has it
    log = _canonical(keys, columns, size, replacement, name, paired)
    most = int(log.kinds["n_relevant"].max())
    if most > 1 and not told:
        _say_together(name, most, 3)
    return log


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


def _in_parts(
    source: object, sizes: Mapping[str, tuple[int | None, int]], replacement: bool | None
) -> Log:
    """The log of large files with one row for each recommender and user, who are numbers.

    Raises
    ------
    UnusualError
        If the log is another one, which is then read, or refused, in one piece.
    """
    files = _Partitions(source) if _is_dask(source) else _files(source)
    if files is None or not files.large:
        raise UnusualError
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        header = files.header()
        if set(_EXACT) <= set(header.columns):
            raise UnusualError
        if replacement is None:
            raise ValueError(_UNSAID)
        names = header.columns
        header = _understood(header, files.name, _INPUT)
        _check_columns(list(header.columns), files.name)
        _name_ignored(header, files.name, {*_INPUT, *COLUMNS})
    others = {"item", "instance"} & set(header.columns)  # of no consequence in a grid, if numbers
    whole_log = {"count", "n_above"} & set(header.columns) or "user" not in header
    if whole_log or not _are_whole(header, others):
        raise UnusualError
    taken = dict(zip(names, header.columns, strict=True))
    try:
        log: Log | None = None
        with suppress(UnusualError):
            log = _gridded(files, taken, sizes, replacement)
        if log is None:
            log = _listed_by_user(files, taken, sizes, replacement)
    except ValueError:
        _say(said)
        raise
    _say(said)
    if log.sizes is not None and not {"item", "position"} & set(header.columns):
        _say_together(files.name, int(log.kinds["n_relevant"].max()), 4)
    return log


def _say_together(source: str, most: int, level: int) -> None:
    """Warn of rows that are read as relevant items of one instance without a column that says so"""
    warnings.warn(
        f"{source}: up to {most} rows of a user are read as relevant items that were ranked "
        "together: add a column item if they are, instance if each was ranked apart, or "
        "recommender if they are of several",
        UserWarning,
        stacklevel=level,
    )


def _are_whole(frame: pd.DataFrame, names: Iterable[str]) -> bool:
    """Whether columns are NumPy's whole numbers."""
    types = [frame[name].dtype for name in names]
    return all(isinstance(one, np.dtype) and one.kind in "iu" for one in types)


def _say(warned: Iterable[warnings.WarningMessage]) -> None:
    for warning in warned:
        warnings.warn(str(warning.message), UserWarning, stacklevel=4)


def _gridded(
    files: _Files | _Partitions,
    taken: Mapping[str, str],
    sizes: Mapping[str, tuple[int | None, int]],
    replacement: bool,
) -> Log:
    """A log with one row of each user, from files whose columns are `taken` for others."""
    builder = Builder(*files.bounds([name for name in taken if taken[name] == "user"]))
    for names, recommender, user, columns, _ in _numbers_of(files, taken, sizes):
        builder.add(names, recommender, user, columns)
    if not builder.read:
        raise ValueError(f"{files.name} must hold one row or more, got none")
    kinds = builder.kinds
    one = np.ones(len(builder.rows_of), dtype=np.int64)
    if "rank" in kinds:
        kinds |= {"n_better": kinds["rank"] - 1, "n_tied": one - 1}
    log = builder.log({name: kinds.get(name, one) for name in KIND}, replacement)
    part = _Place(files.name, files.starts)
    first = np.array(builder.rows_of)
    order = np.argsort(first)  # the first one that is wrong, as in the files

    def where(bad: NDArray[np.bool_]) -> tuple[int, str]:
        at = int(np.argmax(bad))
        return at, _line(part, int(first[order][at]))

    ordered = {name: column[order] for name, column in kinds.items()}
    _check_ranges(ordered, one, one, replacement, one.size, where)
    return log


def _numbers_of(
    files: _Files | _Partitions,
    taken: Mapping[str, str],
    sizes: Mapping[str, tuple[int | None, int]],
) -> Iterator[Part]:
    """The rows of a log's files, whose columns are `taken` for others, part by part."""
    header, read = set(taken.values()), 0
    ranks = {"rank": 1} if "rank" in header else {"n_better": 0, "n_tied": 0}
    for batch in files.batches([name for name in taken if taken[name] in _INPUT]):
        frame = pd.DataFrame({taken[name]: column for name, column in batch.items()}, copy=False)
        part = _Place(files.name, [(name, first - read) for name, first in files.starts])
        columns = {
            key: _size_column(frame, key, option, low, part) for key, (option, low) in sizes.items()
        }
        recommender = _key(frame, "recommender", part)
        if not _are_whole(frame, {"user", "item", "instance"} & header):
            raise UnusualError
        columns |= {key: _lean(_whole(frame, key, low, part)) for key, low in ranks.items()}
        user, item = (
            frame[name].to_numpy() if name in frame else None for name in ("user", "item")
        )
        assert user is not None
        yield recommender.values.tolist(), recommender.codes, user, columns, item
        read += user.size


def _listed_by_user(
    files: _Files | _Partitions,
    taken: Mapping[str, str],
    sizes: Mapping[str, tuple[int | None, int]],
    replacement: bool,
) -> Log:
    """A log with several rows of a user, from files.

    Raises
    ------
    UnusualError
        If they cannot be held so, or must be refused: which row it is for is said by who reads
        them in one piece.
    """
    header, names = set(taken.values()), [name for name in taken if taken[name] == "user"]
    told = {"item", "position"} & header
    if "instance" in header or (not told and not header <= set(_INPUT)):
        raise UnusualError
    low, high, rows = files.bounds(names)
    builder, mixed = ListsBuilder(low, high, rows), False
    try:
        for part in _numbers_of(files, taken, sizes):
            builder.take(part)
    except MixedError:
        mixed = True
    if mixed:
        if high < low:
            low, high, rows = _bounds_of(files, names[0])
        builder = ListsBuilder(low, high, rows)
        _take_in_order(builder, files, taken, sizes, (low, high, rows))

    def named(kinds: Mapping[str, IntArray], position: IntArray) -> dict[str, IntArray]:
        found = {**kinds, "position": position}
        if "rank" in kinds:
            found |= {"n_better": kinds["rank"] - position, "n_tied": np.zeros_like(position)}
        try:
            _check_ranges(
                found, position, kinds["n_relevant"], replacement, position.size, lambda _: (0, "")
            )
        except ValueError as problem:
            raise UnusualError from problem
        return {name: found[name] for name in KIND}

    return builder.lists(named, replacement)


def _bounds_of(files: _Files | _Partitions, name: str) -> tuple[int, int, int]:
    """The least and the largest number of a column, and how many rows, by reading it."""
    low, high, rows = 2**63 - 1, 0, 0
    for batch in files.batches([name]):
        user = np.asarray(batch[name])
        low, high = min(low, int(user.min())), max(high, int(user.max()))
        rows += user.size
    return low, high, rows


def _take_in_order(
    builder: ListsBuilder,
    files: _Files | _Partitions,
    taken: Mapping[str, str],
    sizes: Mapping[str, tuple[int | None, int]],
    bounds: tuple[int, int, int],
) -> None:
    """Give a builder the rows in order of users, sorted by way of a temporary folder."""
    given = [name for name in sizes if name not in taken.values()]
    alike = {name: np.array([sizes[name][0]]) for name in given}
    parts = (
        (names, of, user, {key: c for key, c in columns.items() if key not in alike}, item)
        for names, of, user, columns, item in _numbers_of(files, taken, sizes)
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            for names, of, user, columns, item in in_order(parts, *bounds, Path(folder)):
                builder.take((names, of, user, {**alike, **columns}, item))
        except OSError as problem:
            raise ValueError(
                f"{files.name} must be sorted by user, or have room for its rows in the temporary "
                f"folder {tempfile.gettempdir()} (TMPDIR names another), got: {problem.strerror}"
            ) from None


def _of_exact_ranks(frame: pd.DataFrame, name: str, replacement: bool | None) -> pd.DataFrame:
    """The log that exact ranks are: of an evaluation that drew every negative once."""
    if replacement:
        raise ValueError(f"replacement must be False for the exact ranks in {name}, got True")
    relevant = _whole(frame, "n_relevant", 1, name)
    if relevant.max() > 1:
        raise ValueError(
            f"{name} has exact ranks of users with up to {relevant.max()} held-out items: "
            "sampled-metrics rank --metrics prints their metrics"
        )
    items = _whole(frame, "n_candidates", 2, name)
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


def _loaded(source: Any, name: str, lean: bool = False) -> tuple[pd.DataFrame, str]:
    """The rows of files or a data frame as they are, and what to call them: a file by its path.

    If `lean`, names of recommenders in a large file are categories, and numbers of a small type.
    """
    if isinstance(source, pd.DataFrame):
        return source, name
    if _is_dask(source):
        return source.compute().reset_index(drop=True), name
    if _is_spark(source):
        return _of_spark(source), name
    files = _files(source)
    if files is None:
        argument = name.removeprefix("the ")
        raise ValueError(f"{argument} must be a file or a data frame, got {type(source).__name__}")
    if len(files.paths) == 1 and not files.keys[0]:
        return _of_file(files.paths[0], lean), files.name
    frames: list[pd.DataFrame] = []
    starts, rows = [], 0
    for path, keys in zip(files.paths, files.keys, strict=True):
        frame = _of_file(path, lean).assign(**keys)
        if frames and set(frame.columns) != set(frames[0].columns):
            raise ValueError(
                f"files of a log must have the same columns, got {_listed(frame.columns)} in "
                f"{path} and {_listed(frames[0].columns)} in {files.paths[0]}"
            )
        starts.append((str(path), rows))
        frames.append(frame)
        rows += len(frame)
    for column in frames[0].columns:  # of one type, or of numbers and text as they are
        if any(isinstance(frame[column].dtype, pd.CategoricalDtype) for frame in frames):
            frames = [frame.astype({column: object}) for frame in frames]
    return pd.concat(frames, ignore_index=True), _Place(files.name, starts)


def _of_file(path: Path, lean: bool) -> pd.DataFrame:
    """The rows of a file as they are."""
    parquet = path.suffix.lower() in _PARQUET
    if lean and _is_large(path):
        with suppress(Exception):  # anything unusual: it is read, or refused, in one piece
            batches = (_parquet_batches if parquet else _csv_batches)(path)
            return pd.DataFrame(_joined(batches), copy=False)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as problem:  # ValueError: a path with a null character
        reason = getattr(problem, "strerror", None) or problem
        raise ValueError(f"{path} cannot be read: {reason}") from None
    if not content:
        raise ValueError(f"{path} must hold one row or more, got an empty file")
    return (_parquet if parquet else _csv)(content, path)


@dataclass(eq=False)
class _Files:
    """The files of a log, in order, and the columns that the names of their folders say."""

    name: str
    paths: list[Path]
    keys: list[dict[str, str]]
    #: The files that were begun, and their first rows.
    starts: list[tuple[str, int]]

    @property
    def large(self) -> bool:
        return sum(path.stat().st_size for path in self.paths if path.is_file()) >= _LARGE

    def header(self) -> pd.DataFrame:
        """The first rows of the first file."""
        batches: Iterator[dict[str, Any]] = self.batches(None)
        try:
            return pd.DataFrame(next(batches)).head(0)
        except (StopIteration, OSError):
            raise UnusualError from None
        finally:
            self.starts.clear()

    def batches(self, names: Sequence[str] | None) -> Iterator[dict[str, Any]]:
        """Columns of some rows after the other; of all names if None."""
        self.starts.clear()
        rows, first = 0, None
        for path, keys in zip(self.paths, self.keys, strict=True):
            self.starts.append((str(path), rows))
            wanted = None if names is None else [name for name in names if name not in keys]
            parquet = path.suffix.lower() in _PARQUET
            own = _parquet_batches(path, wanted) if parquet else _csv_batches(path, wanted)
            try:
                for batch in own:
                    first = set(batch) if first is None else first
                    size = len(next(iter(batch.values())))
                    if set(batch) != first or not size:
                        raise UnusualError
                    rows += size
                    for key, value in keys.items():
                        batch[key] = pd.Categorical([value]).repeat(size)
                    yield batch
            except UnusualError:
                raise
            except Exception as problem:  # read, or refused, in one piece
                raise UnusualError from problem

    def bounds(self, names: Sequence[str]) -> tuple[int, int, int]:
        """The least and the largest number of a column, and how many rows; as far as is known."""
        if len(names) != 1 or any(path.suffix.lower() not in _PARQUET for path in self.paths):
            return 0, -1, 0
        from pyarrow import parquet

        ends, rows = [], 0
        for path in self.paths:
            try:
                told = parquet.read_metadata(path)
            except Exception as problem:
                raise UnusualError from problem
            rows += told.num_rows
            for group in range(told.num_row_groups):
                columns = (told.row_group(group).column(i) for i in range(told.num_columns))
                for column in columns:
                    if column.path_in_schema == names[0]:
                        known = column.statistics
                        if known is None or not known.has_min_max:
                            return 0, -1, rows
                        ends += [known.min, known.max]
        if not ends or not all(isinstance(end, int) for end in ends):
            raise UnusualError
        return min(ends), max(ends), rows


def _is_dask(source: object) -> bool:
    """Whether this is a data frame of Dask, which is not imported here."""
    return hasattr(source, "partitions") and hasattr(source, "compute")


def _is_spark(source: object) -> bool:
    """Whether this is a data frame of Spark, which is not imported here."""
    return type(source).__module__.startswith("pyspark.sql") and hasattr(source, "toPandas")


def _of_spark(frame: Any) -> pd.DataFrame:
    """The rows of a log in Spark: of users who are alike only once, with their count.

    Spark gathers each user's rows and counts equal ones, so that as many come as there are kinds of
    users. All rows come where items or instances are told apart, or something may be refused.
    """
    names = list(frame.columns)
    meanings = [_meaning(name) for name in names]
    apart = {None, "item", "instance", "count", "n_above"} & set(meanings)
    if apart or len(set(meanings)) < len(names) or "user" not in meanings:
        return pd.DataFrame(frame.toPandas())
    user = names.pop(meanings.index("user"))
    if frame.schema[user].dataType.typeName() not in ("byte", "short", "integer", "long", "string"):
        return pd.DataFrame(frame.toPandas())
    from pyspark.sql import functions

    own = functions.sort_array(functions.collect_list(functions.struct(*names))).alias("rows")
    missing = functions.col(user).isNull().alias("missing")
    kinds = frame.groupBy(user).agg(own).groupBy("rows", missing).count().collect()
    rows = [
        (None if kind["missing"] else at, *row, kind["count"])
        for at, kind in enumerate(kinds)
        for row in kind["rows"]
    ]
    return pd.DataFrame(rows, columns=[user, *names, "count"])


class _Partitions:
    """A data frame of Dask, a few of whose partitions are computed at once."""

    name, large = "the log", True

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.starts = [(self.name, 0)]

    def header(self) -> pd.DataFrame:
        return pd.DataFrame(self._frame.head(0, npartitions=1))

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        frame = self._frame[list(names)]
        for start in range(0, frame.npartitions, _PARTITIONS):
            part = frame.partitions[start : start + _PARTITIONS].compute().reset_index(drop=True)
            for begin in range(0, len(part), _ROWS):
                some = part.iloc[begin : begin + _ROWS].reset_index(drop=True)
                yield {name: _plain(some[name], name) for name in names}

    def bounds(self, names: Sequence[str]) -> tuple[int, int, int]:
        return 0, -1, 0


def _plain(column: pd.Series, name: str) -> Any:
    """A column of whole numbers as NumPy's, in a small type; others as they are."""
    if pd.api.types.is_integer_dtype(column.dtype) and not column.hasnans:
        return _small(column.to_numpy(dtype=np.int64), name)
    return column


def _files(source: object) -> _Files | None:
    """The files that a path, a folder, a pattern or a list of these names; None if it is none."""
    if isinstance(source, (str, Path)):
        name, given = str(source), [source]
    elif isinstance(source, Sequence) and source:
        given = list(source)
        if not all(isinstance(one, (str, Path)) for one in given):
            return None
        name = _listed(given)
    else:
        return None
    paths: list[Path] = []
    for one in given:
        path, found = Path(one), [Path(one)]
        if "\0" in str(one) or path.is_file():
            pass
        elif path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.is_file() and _is_part(p, path))
        elif _PATTERN.search(str(one)):
            found = sorted(Path(p) for p in glob.glob(str(one), recursive=True))
            found = [p for p in found if p.is_file()]
        if not found:
            raise ValueError(f"{path} must hold files .parquet, .csv or .csv.gz, got none")
        paths += found
    roots = [Path(one) for one in given]
    return _Files(name, paths, [_keys(path, roots) for path in paths], [])


def _is_part(path: Path, folder: Path) -> bool:
    """Whether a file in a folder is a part of a log; engines begin the names of others so."""
    if any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts):
        return False
    return path.suffix.lower() in (*_PARQUET, ".csv") or path.name.lower().endswith(".csv.gz")


def _keys(path: Path, roots: Sequence[Path]) -> dict[str, str]:
    """The columns that folders between a root and a file name, as in recommender=ALS."""
    if path in roots:
        return {}
    pairs = (part.split("=", 1) for part in path.parent.parts if "=" in part)
    return {key: unquote(value) for key, value in pairs}


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


def _is_large(path: Path) -> bool:
    """Whether a file is one to read in parts, which can be opened several times."""
    try:
        return path.is_file() and path.stat().st_size >= _LARGE
    except (OSError, ValueError):
        return False


class _Text(io.RawIOBase):
    """The bytes of a file, as long as `_check_text` has nothing to say of them but of UTF-8."""

    def __init__(self, source: Any) -> None:
        self._source, self._last = source, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found: bytes = self._source.read(len(buffer))
        if b"\0" in found or (not found and self._last not in (b"\r", b"\n")):
            raise UnusualError
        self._last = found[-1:] or self._last
        buffer[: len(found)] = found
        return len(found)


def _csv_batches(path: Path, names: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Columns of a CSV file, with any error if a part does not have the types of the first."""
    import gzip

    with path.open("rb") as file:
        opened: Any = gzip.open if file.read(2) == b"\x1f\x8b" else open
    options: dict[str, Any] = {"keep_default_na": False, "index_col": False}
    with warnings.catch_warnings(), opened(path, "rb") as file:
        warnings.simplefilter("error")
        begin = file.read(1 << 16).lstrip()
        file.seek(0)
        if b"," not in re.split(rb"[\r\n]", begin, maxsplit=1)[0]:
            raise UnusualError
        # A column that begins as text is text. If the rest of one that begins as numbers is not
        # alike, the parser raises an error.
        types: dict[str, Any] = {}
        for name, column in pd.read_csv(file, nrows=min(_ROWS, 1_000), **options).items():
            if _meaning(name) == "recommender":
                types[str(name)] = "category"
            elif column.dtype.kind == "O":
                types[str(name)] = str
            elif column.dtype in (np.int64, np.float64):
                types[str(name)] = column.dtype
            else:
                raise UnusualError
    with warnings.catch_warnings(), opened(path, "rb") as file:
        warnings.simplefilter("error")
        text = io.BufferedReader(_Text(file), 1 << 20)
        for frame in pd.read_csv(text, dtype=types, chunksize=_ROWS, **options):
            batch = {}
            for name in types if names is None else names:
                column = frame[name]
                if types[name] == "category" and not _is_text(column):
                    raise UnusualError  # names that are numbers, which pandas writes in its way
                numbers = isinstance(types[name], np.dtype)
                batch[name] = _small(column.to_numpy(), name) if numbers else column
            yield batch


def _parquet_batches(path: Path, names: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Columns of a Parquet file, with an error if they are not of plain types without gaps."""
    _need_pyarrow()
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    kinds = pa.types
    text = [f.name for f in schema if kinds.is_string(f.type) or kinds.is_large_string(f.type)]
    labels = [name for name in text if _meaning(name) == "recommender"]
    plain = all(f.name in text or kinds.is_integer(f.type) or kinds.is_float64(f.type)
                for f in schema)  # fmt: skip
    if not plain or len(set(schema.names)) < len(schema):
        raise UnusualError
    wanted = list(schema.names if names is None else names)
    with parquet.ParquetFile(path, read_dictionary=labels) as file:
        for batch in file.iter_batches(_ROWS, columns=wanted):
            found: dict[str, Any] = {}
            for name in wanted:
                column = batch.column(name)
                if column.null_count:
                    raise UnusualError
                if name in labels:
                    values = pd.Index(column.dictionary.to_pylist(), dtype=object)
                    found[name] = pd.Categorical.from_codes(column.indices.to_numpy(), values)
                elif name in text:
                    found[name] = column.to_pandas()
                else:
                    found[name] = _small(column.to_numpy(zero_copy_only=False), name)
            yield found
    pa.default_memory_pool().release_unused()


def _joined(batches: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """All rows of a file."""
    parts: dict[str, list[Any]] = {}
    for batch in batches:
        for name, some in batch.items():
            parts.setdefault(name, []).append(some)
    joined: dict[str, Any] = {}
    for name in list(parts):  # one column at a time stands twice in memory
        some = parts.pop(name)
        if isinstance(some[0], pd.Categorical) or some[0].dtype == "category":
            joined[name] = union_categoricals(some, sort_categories=True)
        elif isinstance(some[0], pd.Series):
            joined[name] = pd.concat(some, ignore_index=True)
        else:
            joined[name] = np.concatenate(some)
    return joined


def _small(column: Any, name: str) -> NDArray[Any]:
    """Numbers of a column whose type is of no consequence, in a small one; others as they are."""
    values = np.asarray(column)
    if _meaning(name) not in _NUMBERS or values.dtype != np.int64 or not values.size:
        return values
    small = values.min() > -(2**30) and values.max() < 2**30
    return values.astype(np.int32) if small else values


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
            "a last line without its end, as if the file were cut short (add a line break if it is "
            "whole)"
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
    found_all = frame.copy(deep=False)
    found_all.columns = pd.Index([taken.get(name, name) for name in frame.columns])
    return found_all


def _name_ignored(frame: pd.DataFrame, source: str, known: Iterable[str]) -> None:
    ignored = [name for name in frame.columns if name not in known]
    if ignored:
        columns = "column" if len(ignored) == 1 else "columns"
        warnings.warn(f"{source}: {columns} {_listed(ignored)} left out", UserWarning, stacklevel=3)


def _check_pooling(frame: pd.DataFrame, keys: Mapping[str, _Key], source: str) -> None:
    """Refuse rows of a user that a column without a meaning tells apart, as of two recommenders."""
    if set(frame.columns) <= set(_INPUT):
        return
    recommender, user = keys["recommender"], keys["user"]
    group = recommender.codes * np.int64(len(user.values)) + user.codes
    group = _factorized(pd.Series(np.broadcast_to(group, len(frame))), "user")
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
    alone = "count" in names and not {"item", "instance"} & set(names)
    lacking = [] if "user" in names or alone else ["user"]
    if "rank" not in names:
        lacking += [n for n in ("n_better", "n_tied") if n not in names] if counts else ["rank"]
    if lacking:
        near = difflib.get_close_matches(lacking[0], map(str, names), n=1, cutoff=0.3)
        hint = f" (is it {as_written(near[0])}?)" if near and near[0] not in _INPUT else ""
        raise ValueError(
            f"{source} must have the columns {wanted}: there is no {lacking[0]}{hint}, got {shown}"
        )


class _Place(str):
    """What several files are called together, and where the rows of each begin."""

    def __new__(cls, name: str, starts: Sequence[tuple[str, int]]) -> _Place:
        found = super().__new__(cls, name)
        found.starts = list(starts)
        return found

    starts: list[tuple[str, int]]


def _line(source: str, row: int) -> str:
    """Where a row is: a row of a file, not counting the names, or of a frame."""
    if isinstance(source, _Place):
        source, first = [(name, first) for name, first in source.starts if first <= row][-1]
        row -= first
    return f"row {row + 1} of {source}"


def _numbers(frame: pd.DataFrame, key: str, low: int, source: str) -> IntArray:
    """A column of whole numbers, at least `low`."""
    return _whole(frame, key, low, source).astype(np.int64)


def _whole(frame: pd.DataFrame, key: str, low: int, source: str) -> NDArray[Any]:
    """A column of whole numbers, at least `low`, in the type that it has."""
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
    return values


def _lean(values: NDArray[Any], small: bool = True) -> NDArray[Any]:
    """A copy in a small type; one number if they are all the same."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low])
    return values.astype(np.int32 if small and high < 2**30 else np.int64)


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


def _real(frame: pd.DataFrame, key: str, source: str) -> FloatArray:
    """A column of finite numbers >= 0."""
    values = pd.to_numeric(frame[key], errors="coerce").to_numpy(dtype=float)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{key} must hold numbers >= 0, got {as_written(frame[key].iloc[row])} in "
            f"{_line(source, row)}"
        )
    return values


def _are_scalars(column: pd.Series) -> NDArray[np.bool_]:
    if column.dtype.kind != "O":
        return np.ones(len(column), dtype=bool)
    return np.fromiter(map(pd.api.types.is_scalar, column), dtype=bool, count=len(column))


def _size_column(
    frame: pd.DataFrame, key: str, option: int | None, low: int, source: str
) -> IntArray:
    """n_items or n_negatives of every row, from the column or the option; one if all are alike."""
    if option is not None:
        option = integer(option, key, low, 2**62)
    if key not in frame:
        if option is None:
            raise ValueError(
                f"{key} is needed: give it (--{key.replace('_', '-')}), or a column {key} in "
                f"{source}"
            )
        return np.array([option])
    column = _lean(_whole(frame, key, low, source), small=False)
    if option is not None and (column != option).any():
        row = int(np.argmax(column != option))
        raise ValueError(
            f"{key} must be that of the column {key}, got {option} and {column[row]} in "
            f"{_line(source, row)}"
        )
    return column


@dataclass(frozen=True, eq=False)
class _Key:
    """A column of names or numbers: which of `values` each row has, or the one that all have.

    Numbers of recommenders are in order of their first rows, others sorted if they can be.
    """

    codes: NDArray[Any]
    values: NDArray[Any]


def _key(frame: pd.DataFrame, key: str, source: str) -> _Key:
    """A column of names or numbers without gaps, by numbers; zeros if there is none."""
    if key not in frame and key == "user":
        return _Key(np.arange(len(frame), dtype=np.int32), np.arange(len(frame)))
    if key not in frame:
        return _Key(np.zeros(1, dtype=np.int32), np.array(["recommender"], dtype=object))
    column = frame[key]
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        codes, numbers = _ranked(column.to_numpy())
        values = np.asarray(pd.Series(numbers).astype(str) if key == "recommender" else numbers)
    elif isinstance(column.dtype, pd.CategoricalDtype) and _is_text(column):
        codes, used = column.cat.codes.to_numpy(), None
        if (codes == codes[0]).all():
            codes, used = np.zeros(1, dtype=np.int32), codes[:1]
        else:
            codes, used = _ranked(codes)
        values = np.array(column.cat.categories, dtype=object)[used]
        if used[0] < 0 or any(not name.strip() for name in values):
            _labels(frame, key, source)  # says where
    elif _is_text(column):
        codes, names = pd.factorize(column, sort=key != "recommender")
        values = np.array(names, dtype=object)
        if codes.min() < 0 or any(not name.strip() for name in values):
            _labels(frame, key, source)  # says where
    else:
        labels = _labels(frame, key, source)
        assert labels is not None
        codes, values = _factorized(labels, key), np.array([])
        written = labels.to_numpy()
        codes = codes.astype(np.int32)
        return _Key(codes, written[_first_rows(codes, int(codes.max()) + 1)])
    if key == "recommender":
        values = values.astype(object)
        order = np.argsort(_first_rows(codes, values.size))
        if (np.diff(order) < 0).any():
            place = np.empty(values.size, dtype=np.int32)
            place[order] = np.arange(values.size)
            codes, values = place[codes], values[order]
    return _Key(codes.astype(np.int32, copy=False), values)


def _first_rows(codes: NDArray[Any], count: int) -> NDArray[Any]:
    """The first row of each of the numbers 0, 1, ..., count - 1."""
    first = np.empty(count, dtype=np.int32)
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1, dtype=np.int32)  # the last one stays
    return first


def _is_text(column: pd.Series) -> bool:
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.categories.to_series()
    return isinstance(column.dtype, pd.StringDtype) or (
        column.dtype == object and infer_dtype(column, skipna=False) == "string"
    )


def _ranked(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Whole numbers as places among the different ones, which are sorted."""
    low, span = int(values.min()), int(values.max()) - int(values.min())
    if span > values.size or int(values.max()) > 2**62:
        codes, found = pd.factorize(values, sort=True)
        return codes, found
    # Without a table of hashes: a place for each number that there may be.
    there = np.zeros(span + 1, dtype=bool)
    for part in _parts(values.size):
        there[values[part] - low] = True
    place = np.cumsum(there, dtype=np.int32) - 1
    codes = np.empty(values.size, dtype=np.int32)
    for part in _parts(values.size):
        codes[part] = place[values[part] - low]
    return codes, (np.flatnonzero(there) + low).astype(values.dtype)


def _parts(size: int) -> Iterator[slice]:
    """Stretches of the rows, short enough that what is made of them stays in the cache."""
    step = 1 << 16
    return (slice(start, start + step) for start in range(0, size, step))


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
    keys: Mapping[str, _Key],
    columns: dict[str, NDArray[Any]],
    size: int,
    replacement: bool,
    source: str,
    paired: bool,
) -> Log:
    """The rows sorted, with positions, and checked against one another.

    Columns are of shape (size,), or (1,) where all rows have the same.
    """
    group, order = _sorted(keys, columns, size)
    codes = {key: _taken(found.codes, order) for key, found in keys.items()}
    for key in list(columns):
        columns[key] = _taken(columns[key], order)

    def where(bad: NDArray[np.bool_]) -> tuple[int, str]:
        at = int(np.argmax(bad))
        return at, _line(source, at if order is None else int(order[at]))

    n_relevant = position = np.ones(1, dtype=np.int32)
    instance = np.arange(size, dtype=np.int32)
    if group is not None:
        new = np.append(True, group[1:] != group[:-1])
        starts = np.flatnonzero(new)
        instance = np.cumsum(new, dtype=np.int32) - 1
        n_relevant = np.diff(np.append(starts, size)).astype(np.int32)[instance]
        position = np.arange(1, size + 1, dtype=np.int32) - starts.astype(np.int32)[instance]
        whole = {key: np.broadcast_to(column, size) for key, column in columns.items()}
        _check_twice(codes.get("item"), whole, instance, where)
        for key in ("n_items", "n_negatives"):
            first = whole[key][starts][instance]
            mixed = whole[key] != first
            if mixed.any():
                at, line = where(mixed)
                raise ValueError(
                    f"{key} must be the same for all rows of an instance, got {whole[key][at]} "
                    f"and {first[at]} in {line}"
                )
    counts = None
    if "count" in columns:
        count, of = np.broadcast_to(columns["count"], size), np.broadcast_to(codes["user"], size)
        counts = np.ones(keys["user"].values.size)
        counts[of] = count
        mixed = counts[of] != count
        if mixed.any():
            at, line = where(mixed)
            raise ValueError(
                f"count must be the same for all rows of a user, got {count[at]} and "
                f"{counts[of[at]]:.0f} in {line}"
            )
    if "rank" in columns:
        columns["n_better"] = columns["rank"] - position
        columns["n_tied"] = np.zeros(1, dtype=np.int32)
    _check_ranges(columns, position, n_relevant, replacement, size, where)
    columns |= {"instance": instance, "position": position, "n_relevant": n_relevant}
    rows = columns | {
        "recommender": codes["recommender"],
        "user": np.broadcast_to(codes["user"], size),
    }
    names, users = tuple(keys["recommender"].values), keys["user"].values
    return sorted_log(names, users, rows, replacement, counts, paired)


def _check_total(count: NDArray[Any], size: int, source: str) -> None:
    """Refuse more users than numbers in double precision can count."""
    total = float(np.broadcast_to(count, size).sum(dtype=float))
    if total > 2**53:
        raise ValueError(f"counts must sum to <= 2**53, got {total:.4g} in {source}")


def _taken(column: NDArray[Any], order: NDArray[Any] | None) -> NDArray[Any]:
    """A column in another order, if it is not the same in every row."""
    return column if order is None or column.size == 1 else column[order]


def _sorted(
    keys: Mapping[str, _Key], columns: Mapping[str, NDArray[Any]], size: int
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The instance of each row, in order, and the order of the rows.

    None if each row is an instance of its own, and if they are in order.
    """
    group: NDArray[Any] = np.zeros(1, dtype=np.int32)
    groups = 1
    for key in ("recommender", "user", "instance"):
        if groups * keys[key].values.size >= 2**62:
            group, found = _ranked(group)
            groups = found.size
        groups *= keys[key].values.size
        group = group.astype(np.int32 if groups < 2**31 else np.int64)
        group = group * keys[key].values.size + keys[key].codes
    group = np.broadcast_to(group, size)
    if (group[1:] > group[:-1]).all():
        return None, None
    if groups <= 4 * size:  # a place for each instance, and no need to sort if each has one row
        place = np.full(groups, -1, dtype=np.int32)
        place[group] = np.arange(size, dtype=np.int32)
        by_place = place[place >= 0]
        if by_place.size == size:
            return None, by_place
    best = [columns[key] for key in ("rank", "n_better", "n_tied") if key in columns]
    spans = [int(column.max()) + 1 for column in best]
    if groups * math.prod(spans) < 2**62:
        mixed = group.astype(np.int64)
        for column, span in zip(best, spans, strict=True):
            mixed = mixed * span + column
        order = np.argsort(mixed, kind="stable")
    else:
        by = [np.broadcast_to(column, size) for column in reversed(best)]
        order = np.lexsort((*by, group))
    return group[order], order


def _factorized(column: pd.Series, key: str) -> IntArray:
    """Numbers for the values of a column, in the order of recommenders, sorted for the others."""
    try:
        codes, _ = pd.factorize(column, sort=key != "recommender")
    except TypeError:  # numbers and text together have no order
        codes, _ = pd.factorize(column)
    return np.asarray(codes, dtype=np.int64)


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

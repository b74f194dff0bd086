"""Tables: files, which DuckDB reads, and data frames of other libraries.

DuckDB is imported only for files and Dask frames, which may be larger than memory. It uses at most
the memory in `_SETTINGS`, and spills to the temporary folder (TMPDIR).
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from .._validate import as_written, shortened, unimported
from .columns import Location, listed, meaning
from .compact import OPTIONAL
from .formats import copied, is_json, json_reader

if TYPE_CHECKING:
    import pandas as pd

#: DuckDB's integer types.
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
#: Rows per block.
_ROWS = 1 << 19
#: Few threads, since each needs memory; no downloads of extensions.
_SETTINGS: dict[str, Any] = {
    "memory_limit": "600MB",
    "threads": 2,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_PARQUET = (".parquet", ".pq")
#: First bytes of a Parquet file.
_MAGIC = b"PAR1"
#: Bytes in a line of a CSV file that DuckDB reads, and columns for which it has memory.
_MOST_BYTES, _MOST_COLUMNS = 2_000_000, 5_000
_PATTERN = re.compile(r"[*?\[]")
#: Fixed CSV options: DuckDB must not guess the dialect.
_CSV = "quote = '\"', escape = '\"', header = true"
_TYPES = "auto_type_candidates = ['BIGINT', 'DOUBLE', 'VARCHAR']"
#: Text in number columns that DuckDB misreads: 0x3 and 0b11 as integers, 25e-1 rounded, and nan as
#: a missing value. `_ODD` are parts of such text in lower case.
_MISREAD = {"BIGINT": "(?i)0[xb]|[0-9]e-", "DOUBLE": "(?i)nan|inf"}
_ODD = (b"0x", b"0b", b"e-", b"nan", b"inf")
#: CSV rows from which DuckDB infers column types: some, then all, then none (all text).
_SAMPLES = (20_480, -1, 0)


@dataclass(frozen=True)
class Files:
    """The files of a table, in order, and the columns given by the names of their folders."""

    name: str
    paths: list[Path]
    keys: list[dict[str, str]]

    @contextmanager
    def opened(self) -> Iterator[Table]:
        """The table, while DuckDB is open."""
        with tempfile.TemporaryDirectory() as folder, _duckdb(self.name) as connection:
            copies = [copied(path, Path(folder)) for path in self.paths]
            table = None
            for sample_size in _SAMPLES:  # retry if a later row does not have the inferred type
                with suppress(_import_duckdb().ConversionException):
                    table = table or self._table(connection, copies, sample_size)
            assert table is not None  # text always reads
            yield table

    def _table(self, connection: Any, copies: list[Path], sample_size: int) -> Table:
        all_files = [
            _file(connection, path, copy, keys, sample_size)
            for path, copy, keys in zip(self.paths, copies, self.keys, strict=True)
        ]
        for path, file in zip(self.paths, all_files, strict=True):
            if set(file.columns) != set(all_files[0].columns):
                raise ValueError(
                    "files of a log must have the same columns, got "
                    f"{listed(file.columns)} in {path} and {listed(all_files[0].columns)} in "
                    f"{self.paths[0]}"
                )
        return Table.of_files(connection, self.name, all_files)


@dataclass(frozen=True)
class _File:
    """A file: the SQL that reads it, its column names and DuckDB types, and its folder keys.

    `copy` is the file to read: that at `path`, or an array of that name as CSV.
    """

    path: Path
    copy: Path
    reader: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    keys: tuple[str, ...]
    is_csv: bool


#: A file or a data frame of pandas.
Tabular: TypeAlias = "str | Path | pd.DataFrame"


class Table:
    """A table in DuckDB, read in blocks of rows.

    In SQL the columns are c0, c1, ..., because DuckDB's names ignore case. `name` is for errors.
    """

    def __init__(
        self, connection: Any, name: str, columns: Sequence[str], types: Sequence[str]
    ) -> None:
        self.connection, self.name = connection, name
        self.columns, self.types = tuple(columns), tuple(types)
        self._rows, self._paths = "SELECT * FROM log", list[Any]()
        self._files: list[_File] = []

    @classmethod
    def of_files(cls, connection: Any, name: str, all_files: Sequence[_File]) -> Table:
        """The rows of several files, one after the other."""
        columns = all_files[0].columns
        types = [
            _common({file.types[file.columns.index(column)] for file in all_files})
            for column in columns
        ]
        table = cls(connection, name, columns, types)
        queries, paths = [], list[Any]()
        for (reader, names, _, keys), group in groupby(
            all_files, lambda file: (file.reader, file.columns, file.types, file.keys)
        ):
            file_columns = names[: len(names) - len(keys)]
            # If in order, two columns with one name match by position.
            in_order = file_columns == columns[: len(file_columns)]
            number = {
                i if in_order else columns.index(column): i for i, column in enumerate(file_columns)
            }
            values = [
                f"k{number[i]}::{sql_type} AS c{i}" if i in number else f"?::VARCHAR AS c{i}"
                for i, sql_type in enumerate(types)
            ]
            alias = ", ".join(f"k{i}" for i in range(len(file_columns)))
            queries.append(f"SELECT {', '.join(values)} FROM {reader} AS t({alias})")
            constants = dict(zip(names[len(file_columns) :], keys, strict=True))
            paths += [constants[column] for column in columns if column in constants]
            paths.append([str(file.copy) for file in group])
        table._rows, table._paths = " UNION ALL ".join(queries), paths
        table._files = list(all_files)
        if any(file.is_csv for file in all_files):
            connection.execute(f"CREATE TABLE log AS {table._rows}", paths)
            table._rows, table._paths = "SELECT * FROM log", []
        return table

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a query in which `log` is the table."""
        return self.connection.execute(
            f"WITH log AS ({self._rows}) {sql}", [*self._paths, *parameters]
        )

    def keep(self, name: str, sql: str) -> None:
        """Store the rows of a query as another table."""
        statement = f"CREATE TABLE {name} AS WITH log AS ({self._rows}) {sql}"
        self.connection.execute(statement, self._paths)

    def arrays(
        self, sql: str, parameters: Sequence[Any], n_rows: int
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """The columns of a query in blocks of rows; avoids pandas if all fit in one block."""
        if n_rows <= _ROWS:
            columns = self.query(sql, parameters).fetchnumpy()
            yield {name: np.asarray(column) for name, column in columns.items()}
            return
        for chunk in self.chunks(sql, parameters):
            yield {str(name): chunk[name].to_numpy() for name in chunk.columns}

    def chunks(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[pd.DataFrame]:
        """The rows of a query in blocks."""
        cursor = self.query(sql, parameters)
        while len(chunk := cursor.fetch_df_chunk(max(1, _ROWS >> 11))):
            for start in range(0, len(chunk), _ROWS):
                yield chunk.iloc[start : start + _ROWS]

    def frame(self, sql: str = "SELECT * FROM log", parameters: Sequence[Any] = ()) -> pd.DataFrame:
        """The rows of a query, with their original column names."""
        return self.named(self.query(sql, parameters).df())

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Restore column names; missing values of a CSV file become empty text."""
        if any(file.is_csv for file in self._files):
            for name in frame.columns[frame.isna().any()]:
                frame[name] = frame[name].astype(object).where(frame[name].notna(), "")
        numbers = [int(str(name)[1:]) for name in frame.columns]
        return frame.set_axis([self.columns[number] for number in numbers], axis=1)

    @cached_property
    def location(self) -> Location:
        """The files and the first row of each, to locate errors."""
        starts, rows = [], 0
        for file in self._files:
            starts.append((str(file.path), rows))
            ((n_rows,),) = self.connection.execute(
                f"SELECT count(*) FROM {file.reader}", [[str(file.copy)]]
            ).fetchall()
            rows += n_rows
        return Location(self.name, starts or [(self.name, 0)])


def _import_duckdb() -> Any:
    try:
        import duckdb
    except Exception as problem:  # a broken library raises any
        sentence = "files are read by the library duckdb: pip install duckdb"
        raise unimported("duckdb", problem, sentence) from None
    return duckdb


def _common(types: set[str]) -> str:
    """A type that holds values of several types."""
    if len(types) == 1:
        return types.pop()
    if types <= {*WHOLE, "FLOAT", "DOUBLE"}:
        return "BIGINT" if types <= {*WHOLE} else "DOUBLE"
    return "VARCHAR"


@contextmanager
def _duckdb(name: str) -> Iterator[Any]:
    """A connection to a temporary database, deleted afterwards; errors become ValueErrors."""
    duckdb = _import_duckdb()
    with tempfile.TemporaryDirectory() as folder:
        connection = duckdb.connect(
            f"{folder}/rows", config={**_SETTINGS, "temp_directory": folder}
        )
        try:
            yield connection
        except duckdb.OutOfMemoryException as problem:
            raise ValueError(
                "a log must have room for its rows in the temporary folder "
                f"{tempfile.gettempdir()} (TMPDIR names another), got: {_reason(problem)}"
            ) from None
        except duckdb.Error as problem:
            raise ValueError(f"{name} must be whole files, got: {_reason(problem)}") from None
        finally:
            connection.close()


def _file(
    connection: Any, path: Path, copy: Path, keys: Mapping[str, str], sample_size: int
) -> _File:
    """Find out how to read a file; ValueError if it cannot be read."""
    duckdb = _import_duckdb()
    try:
        with copy.open("rb") as file:
            first_bytes = file.read(len(_MAGIC))
    except (OSError, ValueError) as problem:  # ValueError: a path with a null character
        reason = getattr(problem, "strerror", None) or problem
        raise ValueError(f"{path} cannot be read: {reason}") from None
    if not first_bytes:
        raise ValueError(f"{path} must hold one row or more, got an empty file")
    is_parquet = path.suffix.lower() in _PARQUET or first_bytes == _MAGIC
    file_type = "whole Parquet" if is_parquet else "JSON" if is_json(copy) else "CSV"
    try:
        if is_parquet:
            reader, names, types = _parquet_reader(connection, copy)
        elif file_type == "JSON":
            reader, names, types = json_reader(connection, copy)
        else:
            reader, names, types = _csv_reader(connection, copy, sample_size)
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.Error, ValueError, EOFError, OSError, zlib.error) as problem:
        raise ValueError(f"{path} must be a {file_type} file, got: {_reason(problem)}") from None
    if keys.keys() & set(names):
        raise ValueError(
            f"{path} must not have a column that its folders name, got {listed(names)}"
        )
    all_names, all_types = (*names, *keys), (*types, *["VARCHAR"] * len(keys))
    values = tuple(keys.values())
    return _File(path, copy, reader, all_names, all_types, values, is_csv=file_type == "CSV")


def _parquet_reader(connection: Any, path: Path) -> tuple[str, list[str], list[str]]:
    """The SQL that reads a Parquet file, and its columns with their types."""
    reader = "read_parquet(?, hive_partitioning = false)"
    columns = connection.execute(f"DESCRIBE SELECT * FROM {reader}", [[str(path)]]).fetchall()
    names, types, *_ = map(list, zip(*columns, strict=True))
    schema = connection.execute("SELECT name FROM parquet_schema(?)", [str(path)])
    schema_names = [name for (name,) in schema.fetchall()][1:]
    # DuckDB renames columns that differ in case alone. With nested columns the schema is longer.
    return reader, schema_names if len(schema_names) == len(names) else names, types


def _csv_reader(connection: Any, path: Path, sample_size: int) -> tuple[str, list[str], list[str]]:
    """The SQL that reads a CSV file, the names of its columns, and their types."""
    with path.open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    names, separator, skipped, plain, odd = _csv_names(path, gzip.open if gzipped else open)
    options = f"delim = '{separator}', {_CSV}, skip = {skipped}, compression = "
    options += "'gzip'" if gzipped else "'none'"
    # As text, short rows are padded; the checks of columns then name the missing value.
    types, padded = ["VARCHAR"] * len(names), ", null_padding = true"
    sniffed = _sniffed(connection, path, options, sample_size if plain else -1)
    if len(sniffed) == len(names) and sample_size:
        types, padded = sniffed, ""
    types = list(map(_type_of, names, types))
    if odd:
        types = _with_text(connection, path, f"{options}, auto_detect = false", types)
    columns = ", ".join(f"'k{i}': '{sql_type}'" for i, sql_type in enumerate(types))
    text_columns = ", ".join(f"'k{i}'" for i, sql_type in enumerate(types) if sql_type == "VARCHAR")
    options += f", auto_detect = false, hive_partitioning = false, columns = {{{columns}}}{padded}"
    options += f", force_not_null = [{text_columns}]" if text_columns else ""
    reader = f"read_csv(?, {options})"
    if padded:
        connection.execute(f"SELECT count(*) FROM {reader}", [[str(path)]])
    return reader, names, types


def _sniffed(connection: Any, path: Path, options: str, sample_size: int) -> list[str]:
    """The types that DuckDB infers; none if it cannot."""
    sniff = f"SELECT columns FROM sniff_csv(?, {options}, {_TYPES}, sample_size = {sample_size})"
    with suppress(_import_duckdb().Error):
        ((columns,),) = connection.execute(sniff, [str(path)]).fetchall()
        return [column["type"] for column in columns]
    return []


def _type_of(name: str, sql_type: str) -> str:
    """Names of recommenders are text, and so are labels with a decimal point."""
    labels = ("recommender", "user", "item", "instance")[: 4 if sql_type == "DOUBLE" else 1]
    return "VARCHAR" if meaning(name) in labels else sql_type


def _with_text(connection: Any, path: Path, options: str, types: list[str]) -> list[str]:
    """The types, but text for number columns with values that DuckDB would misread."""
    names = ", ".join(f"'k{i}': 'VARCHAR'" for i in range(len(types)))
    checks = ", ".join(
        f"bool_or(regexp_matches(k{i}, '{_MISREAD[sql_type]}'))"
        if sql_type in _MISREAD
        else "false"
        for i, sql_type in enumerate(types)
    )
    reader = f"read_csv(?, {options}, columns = {{{names}}}, null_padding = true)"
    (misread,) = connection.execute(f"SELECT {checks} FROM {reader}", [str(path)]).fetchall()
    return [
        "VARCHAR" if is_misread else sql_type
        for is_misread, sql_type in zip(misread, types, strict=True)
    ]


def _csv_names(path: Path, open_file: Any) -> tuple[list[str], str, int, bool, bool]:
    """The column names of a CSV file, their separator, the empty lines before them, and two facts.

    The first fact is whether no value contains "." or "_", the second whether any contains one of
    `_ODD`. Refuse what DuckDB would explain badly.
    """
    with open_file(path, "rb") as file:
        marks, odd, last_byte = _checked_text(file)
    with open_file(path, "rt", encoding="utf-8-sig", newline="") as lines:
        names, skipped = _header(lines)
    if len(names) > _MOST_COLUMNS:
        raise ValueError(
            f"{len(names):,} columns: keep the columns of a log, or {_MOST_COLUMNS:,} at most"
        )
    separator = next((mark for mark in ";\t" if len(names) == 1 and mark in names[0]), ",")
    if separator != ",":
        (names,) = csv.reader(names, delimiter=separator)
    if last_byte not in (b"\n", b"\r"):
        raise ValueError(
            "a last line without its end, as if the file were cut short (add a line break if it is "
            "whole)"
        )
    name_marks = sum(name.count(".") + name.count("_") for name in names)
    return names, separator, skipped, marks == name_marks, odd


def _checked_text(file: Any) -> tuple[int, bool, bytes]:
    """How many "." and "_" a file has, whether it has one of `_ODD`, and its last byte.

    DuckDB would round 2.5 to an integer and read 1_0 as 10. Refuse what is no text, and long lines.
    """
    decoder, n_read, last_bytes = codecs.getincrementaldecoder("utf-8")(), 0, b""
    marks, odd, number, length = 0, False, 1, 0  # length: bytes of the line that goes on
    while block := file.read(1 << 20):
        if b"\0" in block:
            raise ValueError("a null character, as in UTF-16 or in a file that is no text")
        ends = block.replace(b"\r", b"\n")
        length += len(block) if (end := ends.find(b"\n")) < 0 else end
        if length > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes in line {number:,}")
        if end >= 0:
            number, length = number + block.count(b"\n"), len(block) - 1 - ends.rfind(b"\n")
        n_undecoded = len(decoder.getstate()[0])
        try:
            decoder.decode(block)
        except UnicodeDecodeError as problem:
            byte = n_read - n_undecoded + problem.start + 1
            raise ValueError(f"text that is not UTF-8, from byte {byte} on") from None
        odd = odd or any(part in (last_bytes + block).lower() for part in _ODD)
        n_read, last_bytes = n_read + len(block), block[-2:]
        marks += block.count(b".") + block.count(b"_")
    return marks, odd, last_bytes[-1:]


def _header(lines: Any) -> tuple[list[str], int]:
    """The first line that is not empty, split at commas, and the number of lines before it."""
    try:
        for skipped, names in enumerate(csv.reader(lines)):
            if any(name.strip() for name in names):
                return names, skipped
    except csv.Error as problem:
        raise ValueError(str(problem)) from None
    raise ValueError("an empty file")


def _reason(problem: BaseException) -> str:
    """The first line of an error, without DuckDB's suggestions."""
    text = str(problem).strip()
    csv_error = re.search(r"CSV Error on Line: (\d+)\s*\n(?:Original Line: (.*)\n)?\s*(.*)", text)
    if csv_error is not None:
        number, line, reason = csv_error.groups()
        fields = re.fullmatch(r"Expected Number of Columns: (\d+) Found: (\d+)", reason.strip())
        if fields is not None:
            reason = f"{fields[2]} fields for {fields[1]} names"
        return f"{reason.strip()}, in line {number}, {as_written(shortened(line or ''))}"
    if "state machine" in text:
        return "lines that end in different ways"
    lines = text.splitlines()
    return lines[0].strip() if lines else type(problem).__name__


@contextmanager
def opened_dask(frame: Any) -> Iterator[Table]:
    """The table of a Dask frame, loaded one partition at a time."""
    with _duckdb("the log") as connection:
        statement = "CREATE TABLE log AS"
        for number in range(frame.npartitions):
            part = frame.partitions[number].compute()
            part = part.set_axis([f"c{i}" for i in range(part.shape[1])], axis=1)
            expressions = [
                f"{name}::VARCHAR AS {name}" if part[name].dtype.kind == "O" else name
                for name in part
            ]
            connection.register("part", part)
            connection.execute(f"{statement} SELECT {', '.join(expressions)} FROM part")
            statement = "INSERT INTO log"
        types = [row[1] for row in connection.execute("DESCRIBE log").fetchall()]
        yield Table(connection, "the log", list(frame.columns), types)


def has_engine() -> bool:
    """Whether DuckDB is installed."""
    return find_spec("duckdb") is not None


def is_dask(tabular: object) -> bool:
    """Whether this is a Dask frame, without importing Dask."""
    return hasattr(tabular, "partitions") and hasattr(tabular, "compute")


def loaded(tabular: Any, name: str) -> tuple[pd.DataFrame, str]:
    """A table as a pandas frame, and what to call it in errors: a file by its path."""
    if "pandas" in sys.modules and isinstance(tabular, sys.modules["pandas"].DataFrame):
        return tabular, name
    if is_dask(tabular):
        return tabular.compute().reset_index(drop=True), name
    if type(tabular).__module__.startswith("pyspark.sql") and hasattr(tabular, "toPandas"):
        return _of_spark(tabular), name
    if hasattr(tabular, "collect") and hasattr(tabular, "lazy"):  # a lazy frame of Polars
        tabular = tabular.collect()
    if hasattr(tabular, "to_pandas"):  # a frame of Polars or Arrow
        return tabular.to_pandas(), name
    paths = files(tabular)
    if paths is None:
        argument, type_name = name.removeprefix("the "), type(tabular).__name__
        hint = ": sampled_metrics.evaluate takes a sparse matrix of ranks" * hasattr(
            tabular, "tocoo"
        )
        raise ValueError(f"{argument} must be a file or a data frame, got {type_name}{hint}")
    with paths.opened() as table:
        return table.frame(), table.location if len(paths.paths) > 1 else paths.name


def _of_spark(frame: Any) -> pd.DataFrame:
    """The rows of a log in Spark, one copy of equal users with their count.

    Spark groups each user's rows and counts equal groups, so that one copy per kind of user is
    transferred. All rows are, if items or instances are numbered or columns need checking.
    """
    import pandas as pd

    names = list(frame.columns)
    meanings = [meaning(name) for name in names]
    if (
        {None, "item", "instance", "count", *OPTIONAL} & set(meanings)
        or len(set(meanings)) < len(names)
        or "user" not in meanings
    ):
        return pd.DataFrame(frame.toPandas())
    user = names.pop(meanings.index("user"))
    if frame.schema[user].dataType.typeName() not in ("byte", "short", "integer", "long", "string"):
        return pd.DataFrame(frame.toPandas())
    from pyspark.sql import functions

    user_rows = functions.sort_array(functions.collect_list(functions.struct(*names))).alias("rows")
    missing = functions.col(user).isNull().alias("missing")
    kinds = frame.groupBy(user).agg(user_rows).groupBy("rows", missing).count().collect()
    rows = [
        (None if kind["missing"] else kind_index, *row, kind["count"])
        for kind_index, kind in enumerate(kinds)
        for row in kind["rows"]
    ]
    return pd.DataFrame(rows, columns=[user, *names, "count"])


def files(tabular: object, any_suffix: bool = False) -> Files | None:
    """The files that a path, folder, pattern or list names; None if `tabular` is no path.

    Of a folder only CSV and Parquet files count, unless `any_suffix`.
    """
    locations: Any = [tabular] if isinstance(tabular, (str, Path)) else tabular
    if not isinstance(locations, Sequence) or not locations:
        return None
    if not all(isinstance(location, (str, Path)) for location in locations):
        return None
    paths = [path for location in locations for path in _matches(location, any_suffix)]
    roots = [Path(location) for location in locations]
    name = str(tabular) if locations is not tabular else listed(locations)
    return Files(name, paths, [_keys(path, roots) for path in paths])


def _matches(location: str | Path, any_suffix: bool) -> list[Path]:
    """The files that one path, folder or pattern names; a path as it is if there is none."""
    path = Path(location)
    if "\0" in str(location) or path.is_file():
        return [path]
    if path.is_dir():
        matches = [file for file in path.rglob("*") if _is_part(file, path, any_suffix)]
    elif _PATTERN.search(str(location)):
        matches = list(map(Path, glob.glob(str(location), recursive=True)))
    else:
        return [path]
    matches = sorted(file for file in matches if file.is_file())
    if not matches:
        wanted_files = "one file or more" if any_suffix else "files .parquet, .csv or .csv.gz"
        raise ValueError(f"{path} must hold {wanted_files}, got none")
    return matches


def _is_part(path: Path, folder: Path, any_suffix: bool) -> bool:
    """Whether a file in a folder belongs to the log; engines mark other files by "_" or "."."""
    if any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts):
        return False
    is_table = path.suffix.lower() in (*_PARQUET, ".csv") or path.name.lower().endswith(".csv.gz")
    return any_suffix or is_table


def _keys(path: Path, roots: Sequence[Path]) -> dict[str, str]:
    """Columns given by the folders below a root, as in recommender=ALS."""
    if path in roots:
        return {}
    pairs = (part.split("=", 1) for part in path.parent.parts if "=" in part)
    return {key: unquote(value) for key, value in pairs}

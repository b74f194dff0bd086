"""Files that are neither CSV nor Parquet: rewritten as CSV, read as lists, or refused."""

from __future__ import annotations

import gzip
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import named
from .._validate import as_written, shortened, unimported
from .columns import listed, meaning, refuse_first

if TYPE_CHECKING:
    import pandas as pd

_GZIP = b"\x1f\x8b"
#: Lines without a header: a user, then items.
_LISTS = (
    r"\((\d+),\s*\d+\)((?:\t\d+)+)\s*",
    r"(\d+)\t(\d+)\t[\d.]+(?:\t[\d.]+)?\s*",
    r"(\d+)((?: \d+)+)\s*",
)
#: A list of whole numbers as text: in brackets or not, by commas, blanks or bars.
_LIST = re.compile(r"[\[(]?\s*(\d+(?:\s*[\s,;|]\s*\d+)*)?[\s,]*[\])]?", re.ASCII)
#: The first line of MIND's prediction.txt or behaviors.tsv.
_IMPRESSIONS = re.compile(rb"\d+ \[\d+(, ?\d+)*\]\s|.*[\t ]N\d+-[01]\s")


def copied(path: Path, folder: Path) -> Path:
    """The file, or a copy of an array as CSV; refuse impressions, and what is no file."""
    if path.exists() and not path.is_file():  # a pipe can be read only once
        raise ValueError(f"{named(path)} must be a file, got a folder, a pipe or a device")
    try:
        with path.open("rb") as file:
            first_bytes = file.read(4_096)
    except (OSError, ValueError):  # who reads it says so
        return path
    refuse_impressions(path, first_bytes)
    if not first_bytes.startswith(b"\x93NUMPY"):
        return path
    copy = folder / f"{len(list(folder.iterdir()))}.csv"
    _of_array(path).to_csv(copy, index=False)
    return copy


def refuse_impressions(path: str | Path, first_bytes: bytes) -> None:
    """Refuse files of MIND, whose candidates are the news that were shown."""
    if _IMPRESSIONS.match(first_bytes + b"\n"):
        raise ValueError(
            f"{named(path)} must be a log or a run, got impressions as in MIND: their candidates "
            "were shown by a site and not drawn, so that no metric of the catalogue follows; the "
            "metrics of impressions are exact, and a table of them by query is compared by "
            "sampled-metrics compare"
        )


def _of_array(path: Path) -> pd.DataFrame:
    """The ranks of an array, one for each user."""
    import pandas as pd

    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as problem:
        raise ValueError(
            f"{named(path)} must be a whole array of numbers, got: {shortened(str(problem))}"
        ) from None
    if array.ndim != 1:
        raise ValueError(
            f"{named(path)} must hold a rank for each user, got an array of shape {array.shape}"
        )
    return pd.DataFrame({"user": np.arange(array.size), "rank": array})


def is_json(path: Path) -> bool:
    """Whether a file, packed or not, begins as JSON does: no header of CSV does."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
        with gzip.open(path) if packed else path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    except (OSError, EOFError):  # who reads it says so
        return False


def json_reader(connection: Any, path: Path) -> tuple[str, list[str], list[str]]:
    """The SQL that reads JSON lines or a list of objects, and its columns with their types."""
    reader = "read_json(?, sample_size = -1, hive_partitioning = false)"
    columns = connection.execute(f"DESCRIBE SELECT * FROM {reader}", [[str(path)]]).fetchall()
    names, types, *_ = map(list, zip(*columns, strict=True))
    nested = [name for name, sql in zip(names, types, strict=True) if re.search(r"\(|\[", sql)]
    if nested or names == ["json"]:
        raise ValueError('no rows such as {"user": 1, "rank": 3}: write JSON lines, CSV or Parquet')
    return reader, names, [sql if sql in ("BIGINT", "DOUBLE") else "VARCHAR" for sql in types]


def lists(path: Path) -> pd.DataFrame | None:
    """Columns user and item of a file without a header; None if it is not one of these.

    NCF's negatives: ``(user,item)``, then the negatives, by tabs. NCF's and MovieLens' ratings:
    user, item, rating and perhaps a time, by tabs. Lists as those of S3-Rec: a user, then items, by
    blanks. Numbers stay as they are.
    """
    import pandas as pd

    try:
        data = path.read_bytes() if path.is_file() else b""
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
        lines = data.decode("ascii").splitlines()
    except (OSError, EOFError, ValueError):  # not text, or not whole: the reader of tables says so
        return None
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    first = numbered[0][1].strip() if numbered else ""
    pattern = next((pattern for pattern in _LISTS if re.fullmatch(pattern, first)), None)
    if pattern is None:
        return None
    users, drawn = [], []
    for number, line in numbered:
        match = re.fullmatch(pattern, line)
        if match is None:
            raise ValueError(
                f"{named(path)} must have lines like its first, a user and then items, got "
                f"{as_written(shortened(line))} in line {number}"
            )
        users.append(int(match[1]))
        drawn.append(match[2].split())
    items = [int(item) for row in drawn for item in row]
    return pd.DataFrame({"user": np.repeat(users, list(map(len, drawn))), "item": items})


def _is_list(value: object) -> bool:
    """Whether a cell holds a list: text without brackets only if it has three numbers or more."""
    if not isinstance(value, str):
        return isinstance(value, (list, tuple, np.ndarray))
    text = value.strip()
    in_brackets = text.startswith(("[", "(")) and text.endswith(("]", ")"))
    return in_brackets or bool(_LIST.fullmatch(text) and len(re.findall(r"\d+", text)) > 2)


def _list_columns(frame: pd.DataFrame, origin: str) -> tuple[Any, list[Any]]:
    """The column of lists of negatives, None if there is none, and those of other items."""
    firsts = [frame.iloc[:, i].dropna().head(1).tolist() for i in range(frame.shape[1])]
    names = [name for name, first in zip(frame, firsts, strict=True) if first and _is_list(*first)]
    if not names:
        return None, []
    items = [name for name in frame if meaning(name) == "item" and name not in names]
    negatives = [name for name in names if "neg" in str(name).lower()]
    if not negatives and not items:
        negatives = names
    if len(negatives) != 1:
        raise ValueError(
            f"{origin} holds lists in {listed(names)}: rename the one of negatives to neg_items, "
            "or remove it if it holds something else"
        )
    return negatives[0], items


def listed_negatives(frame: pd.DataFrame, origin: str) -> pd.DataFrame:
    """One row for each negative, if a column holds lists of them, as ReChorus' neg_items does."""
    import pandas as pd

    name, items = _list_columns(frame, origin)
    if name is None:
        return frame
    texts = [
        value if isinstance(value, str) else " ".join(map(str, np.atleast_1d(value)))
        for value in frame[name]
    ]
    refuse_first(
        np.array([not _LIST.fullmatch(text.strip()) for text in texts]),
        origin,
        lambda row: f"{name} must hold lists such as [3, 8], got {as_written(texts[row])}",
    )
    lists = [re.findall(r"\d+", text) for text in texts]
    left_out = f", and left out {listed(items)}" if items else ""
    warnings.warn(f"{origin}: read the lists in {name} as negatives{left_out}", stacklevel=4)
    rows = np.repeat(np.arange(len(frame)), list(map(len, lists)))
    items_listed = pd.Series([int(item) for row in lists for item in row], dtype=object)
    frame = frame.drop(columns=[name, *items]).iloc[rows].reset_index(drop=True)
    return frame.assign(item=items_listed.infer_objects())


def need_pyarrow() -> None:
    """Raise ImportError if pyarrow, which reads and writes Parquet, is missing or broken."""
    try:
        import pyarrow  # noqa: F401
    except Exception as problem:  # beside an older NumPy it raises others than ImportError
        sentence = "Parquet files need the library pyarrow: pip install 'sampled-metrics[parquet]'"
        raise unimported("pyarrow", problem, sentence) from None

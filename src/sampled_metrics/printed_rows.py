"""Rows of a published table: averages as printed, and what the paper says of its experiments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ._validate import as_written, integer, printable
from .metrics import DECLARED, Metric
from .metrics import metric as parsed

#: Accepted names of the columns other than metrics.
_NAMES = {
    "method": ("method", "methods", "model", "models", "recommender", "algorithm", "name",
               "system", "systems"),
    "dataset": ("dataset", "datasets", "data set", "data"),
    "n_items": ("n_items", "items", "n items", "#items"),
    "n_negatives": ("n_negatives", "negatives", "n negatives", "#negatives"),
    "users": ("users", "n_users", "n users", "#users", "queries", "n_queries", "#queries"),
    "documents": ("documents", "n_documents", "documents kept", "#documents"),
    "corpus_size": ("corpus_size", "corpus size", "of", "documents in full"),
    "corpus": ("corpus", "kind of corpus"),
    "mean_rank": ("mean_rank", "mean rank", "mean ranks", "mr", "average rank", "avg rank"),
}  # fmt: skip
#: Columns of a table whose methods ranked one corpus for all queries.
_SHARED = ("documents", "corpus_size", "corpus")
_MEAN_RANK = "the mean rank is read as AUC, which is 1 - (mean rank - 1) / n_negatives"
#: Largest sizes, and the digits of a number that is too large for any of them.
_MOST = {"n_items": 2**62, "n_negatives": 2**62, "users": 10**15}
_MOST |= {"documents": 2**62, "corpus_size": 2**62}
_DIGITS = 100
#: Cells without a number.
_EMPTY = ("", "-", "–", "—", "−", "nan", "n/a", "na", "none")


@dataclass(frozen=True, eq=False)
class Row:
    """A row of the table; `printed` has each value and half a unit of its last digit."""

    name: str
    dataset: str
    method: str
    printed: dict[Metric, tuple[float, float]]
    sizes: dict[str, int]
    corpus: str = ""


class Printed:
    """A published table, read as text; `notes` say what is left out."""

    def __init__(self, table: str | Path | pd.DataFrame) -> None:
        frame, self.name = _text(table)
        self.frame = _wide(frame, self.name)
        self.columns, ignored = _columns(self.frame, self.name)
        left_out = f"columns left out, as they are no metric: {', '.join(ignored)}"
        self.notes = [left_out] if ignored else []
        self.notes += [_MEAN_RANK] if "mean_rank" in self.columns else []

    @property
    def is_shared(self) -> bool:
        """Whether the table says of one corpus for all queries what was kept of it."""
        return any(key in self.columns for key in _SHARED)

    def rows(self, sizes: dict[str, int | None]) -> list[Row]:
        """The rows with a number, and the sizes from their columns or else as given."""
        return _rows(self, sizes)


def _rows(table: Printed, sizes: dict[str, int | None]) -> list[Row]:
    columns, name = table.columns, table.name
    rows, seen_methods = [], set()
    for record in table.frame.to_dict("records"):
        dataset, method = (
            str(record[columns[key]]).strip() if key in columns else ""
            for key in ("dataset", "method")
        )
        label = printable(f"{method} on {dataset}" if dataset else method)
        printed, mean_rank = _numbers(record, columns, label), record.get(columns.get("mean_rank"))
        if not printed and str(mean_rank).strip().lower() in _EMPTY:
            table.notes.append(f"{label} is left out: it has no number")
            continue
        row_sizes = {
            key: _size(key, record.get(columns.get(key, "")), default, label)
            for key, default in sizes.items()
        }
        if (key := (dataset, method, row_sizes.get("n_negatives"))) in seen_methods:
            raise ValueError(f"{name} has two rows for {label}")
        seen_methods.add(key)
        if "n_negatives" in row_sizes:
            for metric, number in _auc(mean_rank, row_sizes["n_negatives"], label).items():
                printed.setdefault(metric, number)
        corpus = str(record.get(columns.get("corpus"), "")).strip().lower()
        rows.append(Row(label, dataset, method, printed, row_sizes, corpus))
    if not rows:
        raise ValueError(f"{name} must hold one number or more, got none")
    return rows


def _wide(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """A column for each metric, of a table with the columns metric and value."""
    keys = {str(column).strip().lower(): column for column in frame.columns}
    if not {"metric", "value"} <= {*keys}:
        return frame
    rows: dict[tuple[str, ...], dict[Any, object]] = {}
    for record in frame.to_dict("records"):
        metric, cell = str(record.pop(keys["metric"])).strip(), record.pop(keys["value"])
        wide = rows.setdefault(tuple(map(str, record.values())), dict(record))
        if metric in wide:
            label = printable(", ".join(map(str, [metric, *record.values()])))
            raise ValueError(f"{name} has two rows for {label}")
        wide[metric] = cell
    return pd.DataFrame([*rows.values()], dtype=object).fillna("")


def _columns(frame: pd.DataFrame, name: str) -> tuple[dict[str | Metric, str], list[str]]:
    """The column of each key of `_NAMES` and of each metric; and the other columns."""
    columns: dict[str | Metric, str] = {}
    unknown_columns = []
    for column in map(str, frame.columns):
        normalized = " ".join(column.lower().split())
        keys = (key for key, names in _NAMES.items() if normalized in names)
        meaning = next(keys, None) or _metric(column)
        if meaning is None:
            unknown_columns.append(column)
        elif meaning in columns:
            label = getattr(meaning, "label", meaning)
            raise ValueError(f"{name} has two columns for {label}: {columns[meaning]}, {column}")
        else:
            columns[meaning] = column
    if "method" not in columns:
        if not unknown_columns:
            raise ValueError(f"{name} needs a column method, got {', '.join(columns.values())}")
        columns["method"] = unknown_columns.pop(0)
    if not any(isinstance(key, Metric) or key == "mean_rank" for key in columns):
        raise ValueError(f"{name} needs a column of a metric, such as HR@10, got none")
    if frame.empty:
        raise ValueError(f"{name} must hold one row or more, got none")
    return columns, [printable(column) for column in unknown_columns]


def _numbers(
    record: dict[Any, object], columns: dict[str | Metric, str], label: str
) -> dict[Metric, tuple[float, float]]:
    """The published numbers of a row."""
    numbers = {}
    for metric, column in columns.items():
        if isinstance(metric, Metric):
            number = _number(record[column], f"{metric.label} of {label}")
            if number is not None:
                numbers[metric] = number
    return numbers


def _text(table: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """A table as text, and its name in messages."""
    if isinstance(table, pd.DataFrame):
        return table, "the table"
    if not isinstance(table, (str, Path)):
        raise ValueError(f"table must be a file or a data frame, got {type(table).__name__}")
    try:
        return pd.read_csv(
            Path(table), dtype=str, keep_default_na=False, skipinitialspace=True, index_col=False,
            encoding="utf-8-sig",
        ), str(table)  # fmt: skip
    except OSError as problem:
        raise ValueError(f"{table} cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:  # pandas' and the decoder's errors are some
        reason = (str(problem).splitlines() or [""])[0]
        reason = reason.replace("No columns to parse from file", "") or "an empty file"
        raise ValueError(f"{table} must be a CSV file, got: {reason}") from None


def _metric(column: str) -> Metric | None:
    """The metric that a column is named after, or None (also for a bare "P" or "R@")."""
    try:
        return parsed(column.strip())
    except ValueError:
        if "@" in column and column.partition("@")[0].strip().lower() in (*DECLARED, "hr", "mrr"):
            raise
        return None


def _auc(cell: object, n_negatives: int, label: str) -> dict[Metric, tuple[float, float]]:
    """The AUC of a mean rank among the negatives, if there is one."""
    rank = _number(cell, f"the mean rank of {label}", n_negatives + 1)
    if rank is None:
        return {}
    if rank[0] + rank[1] < 1:
        raise ValueError(f"the mean rank of {label} must be at least 1, got {as_written(cell)}")
    return {parsed("auc"): (1.0 - (rank[0] - 1.0) / n_negatives, rank[1] / n_negatives)}


def _number(cell: object, label: str, limit: int = 1) -> tuple[float, float] | None:
    """A published number and half a unit of its last digit; None for an empty cell.

    >>> _number("**.250**", "HR@10 of A"), _number("25.0%", "HR@10 of A"), _number("-", "")
    ((0.25, 0.0005), (0.25, 0.0005), None)
    """
    text = str(cell).strip().strip("*†‡_ ").replace("−", "-")
    if text.lower() in _EMPTY or cell is None:
        return None
    match = re.fullmatch(r"(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?\s*(%?)", text)
    if not match or not (match[1] or match[2]):
        raise ValueError(
            f"{label} must be a published number such as 0.250, got {as_written(cell)}"
        )
    decimals, exponent = match[2] or "", int(match[3] or 0) - 2 * len(match[4])
    value = float(f"{match[1]}.{decimals}e{exponent}")
    if value > limit:
        hint = ": write percentages as 25.0%" if limit == 1 else ", the negatives and the item"
        raise ValueError(
            f"{label} must be in [{int(limit > 1)}, {limit}], got {as_written(cell)}{hint}"
        )
    return value, 0.5 * 10.0 ** (exponent - len(decimals))


def _size(key: str, cell: object, default: int | None, label: str) -> int:
    """A size from its column, or else the option."""
    text = str(cell).strip().replace(",", "").removesuffix(".0")
    if cell is None or text.lower() in _EMPTY:
        if default is None:
            option = f"it (--{key.replace('_', '-')}), or "
            raise ValueError(
                f"{key} is needed for {label}: give {'' if key in _SHARED else option}a column "
                f"{key}"
            )
        return integer(default, key, 1, _MOST[key])
    if not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
        raise ValueError(
            f"{key} of {label} must be a whole number in [1, {_MOST[key]}], got {as_written(cell)}"
        )
    return integer(int(text), f"{key} of {label}", 1, _MOST[key])

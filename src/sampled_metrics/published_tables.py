"""Bounds on exact metrics from published averages of sampled metrics.

A table prints averages over users of metrics of the sampled rank: HR@10, NDCG@10, MRR. Digits are
taken as rounded to the nearest. The bounds are those of ``sampled_metrics.bounds.averages``; all
bounds of one data set hold jointly with the given confidence.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from ._confidence import CONFIDENCE, PROVED
from ._files import is_pipe, read_pipe
from ._threads import one_thread
from ._validate import FloatArray, as_written, checked_confidence, integer, printable
from .bounds.assumption import Assumption, assumption_name, checked_assumption
from .bounds.averages import Averages, averages, contrasts
from .metrics import CUTOFF, Metric
from .metrics import metric as parsed
from .protocol import Protocol
from .results import Published

#: Steepness of the third assumption, if the second has none.
STEEPNESS = 4.0
#: Accepted names of the columns other than metrics.
_NAMES = {
    "method": ("method", "methods", "model", "models", "recommender", "algorithm", "name"),
    "dataset": ("dataset", "datasets", "data set", "data"),
    "n_items": ("n_items", "items", "n items", "#items"),
    "n_negatives": ("n_negatives", "negatives", "n negatives", "#negatives"),
    "users": ("users", "n_users", "n users", "#users"),
}
#: Largest sizes, and the digits of a number that is too large for any of them.
_MOST = {"n_items": 2**62, "n_negatives": 2**62, "users": 10**15}
_DIGITS = 100
#: Cells without a number.
_EMPTY = ("", "-", "–", "—", "−", "nan", "n/a", "na", "none")


@one_thread
def published(
    table: str | Path | pd.DataFrame,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    users: int | None = None,
    replacement: bool,
    metrics: Sequence[str | Metric] | None = None,
    assumption: Assumption | str | None = "decreasing",
    confidence: float = CONFIDENCE,
) -> Published:
    """Bound exact metrics from the averages that a paper prints.

    Each user has one held-out item, ranked among negatives of its own, drawn uniformly.

    Parameters
    ----------
    table : str, Path or pandas.DataFrame
        A CSV file, or a data frame of text: a row for each method (and data set), with columns
        method, dataset (optional) and one for each metric, named as in papers (HR@10, Hit@10,
        Recall@10, NDCG@10, MRR, AUC). Cells are text as printed, such as "0.250" or "25.0%": the
        last digit shows the rounding. Empty cells and "-" are skipped. Columns n_items,
        n_negatives and users may give sizes that differ between rows.
    n_items : int, optional
        Candidates of each user, the held-out item included, if there is no such column. Where
        users' own items are not candidates it differs a little between users; give the mean.
    n_negatives : int, optional
        Sampled negatives of each user.
    users : int, optional
        Number of users averaged over.
    replacement : bool
        Whether negatives were drawn with replacement.
    metrics : sequence of str or Metric, optional
        Exact metrics to bound; by default those of the table.
    assumption : Assumption, "decreasing" or None
        The assumption of the second pair of bounds; "decreasing" is ``Assumption()``. If its
        steepness is infinite, a third pair of bounds has steepness `STEEPNESS`.
    confidence : float
        In (0, 1): probability, at least, that all bounds and orders of a data set hold jointly, if
        the assumption does. Only the draws of the negatives are random, not the users: the exact
        metrics are averages over the same users.

    Returns
    -------
    Published
        Its frame has a row for each row of the table and each metric: dataset (if there is one),
        method, metric, printed (NaN where the table has no number), low and high (no assumption),
        low_decreasing and high_decreasing, low_steep and high_steep, and guess, the exact metric
        if the true ranks are as even as the published numbers allow. Bounds are NaN if no
        distribution of true ranks agrees with the numbers; `checks` says why.

        `checks` has a row for each row of the table: together (bool), whether any list of sampled
        ranks has all its averages; possible, decreasing and steep (bool), whether any true ranks
        agree with them, without and with the assumptions; and finding, a sentence.

        `orders` has a row for each metric and each two methods of a data set: first (the larger
        published average) and second; verdict, "unknown" if either may be ahead; and assumption
        and warrant of the verdict, as for :func:`~sampled_metrics.compare`, empty if it
        is unknown.

    Raises
    ------
    ValueError
        If the table cannot be read, a cell is not a number in [0, 1], a column or a size is
        missing, a method occurs twice, or an option is outside its range.

    See Also
    --------
    sampled_metrics.estimate : Tighter bounds, from the sampled ranks.

    Examples
    --------
    Two methods of a paper, with 22,363 users, 12,101 items and 99 negatives. Either may have the
    higher HR@10 on all items:

    >>> rows = pd.DataFrame({"method": ["A", "B"], "HR@1": ["0.1870", "0.1531"],
    ...                      "HR@10": ["0.4696", "0.4739"], "NDCG@10": ["0.3156", "0.2964"]})
    >>> sizes = {"n_items": 12_101, "n_negatives": 99, "users": 22_363, "replacement": False}
    >>> published(rows, **sizes, metrics=["hit@10"])
    method  metric  printed  no assumption   decreasing      at most 4x       guess
    A       hit@10   0.4696  .0000 to .2082  .0170 to .1720  .0179 to .1651  0.0430
    B       hit@10   0.4739  .0000 to .1707  .0128 to .1328  .0130 to .1286  0.0293
    decreasing: assuming that deeper ranks have fewer users, down to the rank with 10 negatives
    above it on average
    at most 4x: moreover at most 4 times fewer from one doubling to the next
    ranges: proved, each under the assumption of its column
    guess: if the true ranks are as even as the printed numbers allow
    hit@10: 0 of 1 orders of two methods settled
    """
    if not isinstance(replacement, (bool, np.bool_)):
        raise ValueError(f"replacement must be True or False, got {as_written(replacement)}")
    assumption = checked_assumption(assumption)
    if assumption is not None and assumption.geometric:
        raise ValueError(
            f"assumption must not be geometric for printed averages, got {assumption!r}"
        )
    confidence = checked_confidence(confidence)
    sizes = {"n_items": n_items, "n_negatives": n_negatives, "users": users}
    rows, notes = _read(table, sizes)
    wanted = None if metrics is None else list(dict.fromkeys(map(parsed, metrics)))
    assumptions = _assumptions(assumption)
    tables = []
    for same in _by_dataset(rows):
        counted = sum(len(contrasts(tuple(row.printed))) for row in same)
        nats = float(np.log(2.0 * counted / (1.0 - confidence)))
        tables.append([_judged(row, bool(replacement), assumptions, wanted, nats) for row in same])
    named = any(row.dataset for row in rows)
    every = [each for same in tables for each in same]
    checks = pd.DataFrame([each.check for each in every])
    frame = pd.DataFrame([line for each in every for line in each.lines])
    orders = pd.DataFrame(
        [line for same in tables for line in _orders(same, assumptions)],
        columns=[each.name for each in fields(_Order)],
    )
    if not named:
        checks, frame, orders = (f.drop(columns="dataset") for f in (checks, frame, orders))
    notes += [row["finding"] for row in checks.to_dict("records") if row["finding"]]
    assumed: dict[str, object] = (
        {} if len(assumptions) < 2 else {"assumed": f"that {assumptions[1]}"}
    )
    if len(assumptions) > 2 and assumptions[2] is not None:
        assumed["steepness"] = assumptions[2].steepness
    given = {name: value for name, value in sizes.items() if value is not None}
    settings = given | {"replacement": bool(replacement), "confidence": confidence} | assumed
    return Published(frame, settings, tuple(notes), orders, checks)


@dataclass(frozen=True, eq=False)
class _Row:
    """A row of the table; `printed` has each value and half a unit of its last digit."""

    dataset: str
    method: str
    printed: dict[Metric, tuple[float, float]]
    n_items: int
    n_negatives: int
    users: int

    @property
    def name(self) -> str:
        return printable(self.method) + (f" on {printable(self.dataset)}" if self.dataset else "")


@dataclass(frozen=True, eq=False)
class _Judged:
    """The results of a row; `ends` has the bounds of each metric, shape (assumptions, 2)."""

    row: _Row
    check: dict[str, object]
    lines: list[dict[str, object]]
    ends: dict[Metric, FloatArray]


def _assumptions(assumption: Assumption | None) -> list[Assumption | None]:
    if assumption is None:
        return [None]
    steeper = (
        [] if np.isfinite(assumption.steepness) else [replace(assumption, steepness=STEEPNESS)]
    )
    return [None, assumption, *steeper]


# --- reading ------------------------------------------------------------------------------------


def _read(
    table: str | Path | pd.DataFrame, sizes: dict[str, int | None]
) -> tuple[list[_Row], list[str]]:
    """The rows of a table, and notes on what is left out."""
    frame, name = _text(table)
    columns: dict[str, str] = {}
    of_metrics: dict[Metric, str] = {}
    unknown = []
    for column in map(str, frame.columns):
        plain = " ".join(column.lower().split())
        meaning = next((key for key, names in _NAMES.items() if plain in names), None)
        of = None if meaning else _metric(column)
        if of is not None and of in of_metrics:
            raise ValueError(f"{name} has two columns for {of.label}: {of_metrics[of]}, {column}")
        if meaning in columns:
            raise ValueError(f"{name} has two columns for {meaning}: {columns[meaning]}, {column}")
        if meaning:
            columns[meaning] = column
        elif of is not None:
            of_metrics[of] = column
        else:
            unknown.append(column)
    if "method" not in columns and unknown:
        columns["method"] = unknown.pop(0)
    if "method" not in columns:
        raise ValueError(f"{name} needs a column method, got {', '.join(map(str, frame.columns))}")
    if not of_metrics:
        raise ValueError(f"{name} needs a column of a metric, such as HR@10, got none")
    if frame.empty:
        raise ValueError(f"{name} must hold one row or more, got none")
    ignored = ", ".join(map(printable, unknown))
    notes = [f"columns left out, as they are no metric: {ignored}"] if unknown else []
    rows, seen = [], set()
    for record in frame.to_dict("records"):
        method = str(record[columns["method"]]).strip()
        dataset = str(record[columns["dataset"]]).strip() if "dataset" in columns else ""
        where = printable(f"{method} on {dataset}" if dataset else method)
        if (dataset, method) in seen:
            raise ValueError(f"{name} has two rows for {where}")
        seen.add((dataset, method))
        cells = {of: _number(record[c], f"{of.label} of {where}") for of, c in of_metrics.items()}
        printed = {of: cell for of, cell in cells.items() if cell is not None}
        if not printed:
            notes.append(f"{where} is left out: no number is printed")
            continue
        given = {
            key: _size(key, record.get(columns.get(key, "")), default, where)
            for key, default in sizes.items()
        }
        rows.append(_Row(dataset, method, printed, **given))
    if not rows:
        raise ValueError(f"{name} must hold one number or more, got none")
    return rows, notes


def _text(table: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """A table as text, and its name in messages."""
    if isinstance(table, pd.DataFrame):
        return table, "the table"
    if not isinstance(table, (str, Path)):
        raise ValueError(f"table must be a file or a data frame, got {type(table).__name__}")
    path = Path(table)
    source = io.BytesIO(b"".join(read_pipe(path))) if is_pipe(path) else path
    try:
        return pd.read_csv(
            source, dtype=str, keep_default_na=False, skipinitialspace=True, encoding="utf-8-sig",
            index_col=False,
        ), str(table)  # fmt: skip
    except OSError as problem:
        raise ValueError(f"{table} cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:  # pandas' and the decoder's errors are some
        said = (str(problem).splitlines() or [""])[0]
        said = said.replace("No columns to parse from file", "") or "an empty file"
        raise ValueError(f"{table} must be a CSV file, got: {said}") from None


def _metric(column: str) -> Metric | None:
    """The metric that a column is named after, or None (also for a bare "P" or "R@")."""
    try:
        return parsed(column.strip())
    except ValueError:
        if "@" in column and column.partition("@")[0].strip().lower() in (*CUTOFF, "hr", "mrr"):
            raise
        return None


def _number(cell: object, what: str) -> tuple[float, float] | None:
    """A published number and half a unit of its last digit; None for an empty cell.

    >>> _number("**.250**", "HR@10 of A"), _number("25.0%", "HR@10 of A"), _number("-", "")
    ((0.25, 0.0005), (0.25, 0.0005), None)
    """
    text = str(cell).strip().strip("*†‡_ ").replace("−", "-")
    if text.lower() in _EMPTY or cell is None:
        return None
    found = re.fullmatch(r"(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?\s*(%?)", text)
    if not found or not (found[1] or found[2]):
        raise ValueError(f"{what} must be a printed number such as 0.250, got {as_written(cell)}")
    exponent = int(found[3] or 0) - (2 if found[4] else 0)
    value = float(f"{found[1] or 0}.{found[2] or 0}e{exponent}")
    if value > 1:
        raise ValueError(
            f"{what} must be in [0, 1], got {as_written(cell)}: write percentages as 25.0%"
        )
    return value, 0.5 * 10.0 ** (exponent - len(found[2] or ""))


def _size(key: str, cell: object, default: int | None, where: str) -> int:
    """A size from its column, or else the option."""
    text = str(cell).strip().replace(",", "").removesuffix(".0")
    if cell is None or text.lower() in _EMPTY:
        if default is None:
            raise ValueError(
                f"{key} is needed for {where}: give it (--{key.replace('_', '-')}), or a column "
                f"{key}"
            )
        return integer(default, key, 1, _MOST[key])
    if not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
        raise ValueError(
            f"{key} of {where} must be a whole number in [1, {_MOST[key]}], got {as_written(cell)}"
        )
    return integer(int(text), f"{key} of {where}", 1, _MOST[key])


def _by_dataset(rows: list[_Row]) -> list[list[_Row]]:
    found: dict[str, list[_Row]] = {}
    for row in rows:
        found.setdefault(row.dataset, []).append(row)
    return list(found.values())


# --- judging -------------------------------------------------------------------------------------


def _rounded(row: _Row) -> tuple[FloatArray, FloatArray]:
    """Bounds on the unrounded averages; hits are whole numbers of users."""
    low = np.array([max(value - half, 0.0) for value, half in row.printed.values()])
    high = np.array([min(value + half, 1.0) for value, half in row.printed.values()])
    for i, of in enumerate(row.printed):
        values = of.vector(row.n_negatives + 1)
        most = float(values.max())
        if np.isin(values, (0.0, most)).all():  # a hit or none
            slack = 1e-9 * row.users
            low[i] = np.ceil(low[i] / most * row.users - slack) * most / row.users
            high[i] = np.floor(high[i] / most * row.users + slack) * most / row.users
    return low, high


def _judged(
    row: _Row,
    replacement: bool,
    assumptions: list[Assumption | None],
    wanted: list[Metric] | None,
    nats: float,
) -> _Judged:
    try:
        protocol = Protocol(row.n_items, row.n_negatives, replacement=replacement)
    except ValueError as problem:
        raise ValueError(f"{problem}, for {row.name}") from None
    averages_of = averages(protocol, tuple(row.printed))
    low, high = _rounded(row)
    why = _inconsistent(row, averages_of, low, high)
    together = not why
    ends = averages_of.expectations(low, high, row.users, nats)
    targets = list(row.printed) if wanted is None else wanted
    bounds = {of: np.full((len(assumptions), 2), np.nan) for of in targets}
    possible = [False] * len(assumptions)
    for i, assumption in enumerate(assumptions if together else []):
        found = {of: averages_of.bounds(of, assumption, *ends) for of in targets}
        possible[i] = bool(np.isfinite(list(found.values())).all())
        if not possible[i]:
            break  # a stronger assumption is refused, too
        for of, pair in found.items():
            bounds[of][i] = pair
    if together and not all(possible):
        refused = assumptions[possible.index(False)]
        assumed = "any true ranks" if refused is None else f"the assumption that {refused}"
        numbers = ", ".join(f"{of.label} {v:g}" for of, (v, _) in row.printed.items())
        why = f"{row.name}: {numbers} contradict {assumed}"
    mass = averages_of.most_even(low, high, row.users) if possible[0] else None
    lines = []
    for of in targets:
        line: dict[str, object] = {"dataset": row.dataset, "method": row.method, "metric": of.name}
        line["printed"] = row.printed[of][0] if of in row.printed else np.nan
        for name, both in zip(("", "_decreasing", "_steep"), bounds[of], strict=False):
            line |= {f"low{name}": float(both[0]), f"high{name}": float(both[1])}
        line["guess"] = np.nan if mass is None else float(mass @ of.vector(row.n_items))
        lines.append(line)
    check = {"dataset": row.dataset, "method": row.method, "together": together}
    names = ("possible", "decreasing", "steep")
    check |= dict(zip(names, possible, strict=False)) | {"finding": why}
    return _Judged(row, check, lines, bounds)


def _inconsistent(row: _Row, of: Averages, low: FloatArray, high: FloatArray) -> str:
    """Why no list of sampled ranks has the averages of a row; empty if one has."""
    names = [f"{of.label} {value:g}" for of, (value, _) in row.printed.items()]
    for i in np.flatnonzero(low > high):
        return f"{row.name}: {names[i]} is no number of hits among {row.users:,} users"
    if of.consistent(low, high):
        return ""
    pairs = combinations(range(len(names)), 2)
    few = next((pair for pair in pairs if not of.consistent(low, high, pair)), None)
    said = ", ".join(names) if few is None else " and ".join(names[i] for i in few)
    return f"{row.name}: no list of sampled ranks has {said} at once"


@dataclass(frozen=True)
class _Order:
    """The order of two methods of a data set on a metric; a row of `orders`."""

    dataset: str
    metric: str
    first: str
    second: str
    verdict: str = "unknown"
    assumption: str = ""
    warrant: str = ""


def _orders(same: list[_Judged], assumptions: list[Assumption | None]) -> list[_Order]:
    """The order of each two methods of a data set, on each metric."""
    found = []
    for of in dict.fromkeys(of for each in same for of in each.ends):
        have = [each for each in same if of in each.ends]
        for pair in combinations(have, 2):
            # As they stand in the table where both printed averages are the same.
            first, second = sorted(pair, key=lambda each: -each.row.printed.get(of, (0.0, 0.0))[0])
            names = first.row.method, second.row.method
            order = _Order(first.row.dataset, of.name, *names)
            for i, assumed in enumerate(assumptions):
                (low, high), (least, most) = first.ends[of][i], second.ends[of][i]
                if low > most or least > high:  # not where one is NaN
                    ahead, behind = names if low > most else names[::-1]
                    verdict, name = f"{ahead} beats {behind}", assumption_name(assumed)
                    order = replace(order, verdict=verdict, assumption=name, warrant=PROVED)
                    break
            found.append(order)
    return found

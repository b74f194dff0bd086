"""What a published table says: the exact metrics that printed averages of a sample leave possible.

A table prints averages over users of metrics of the sampled rank: HR@10, NDCG@10, MRR. Each is
linear in the distribution q of the sampled ranks, and its expectation is linear in the distribution
p of the true ranks. So all that the printed numbers allow is a linear programme with a row for each
of them: whether they can stand together, and between which ends an exact metric lies, under each
assumption on p. The programmes are solved on some ranks and bounded by their dual on all.

Printed digits are taken as rounded to the nearest. For the sampling of the negatives, averages of N
independent values in [0, 1] deviate by more than `b` nats of relative entropy, times N, with a
probability of at most ``exp(-b)`` to either side (hoeffding1963, theorem 1), whatever the true
ranks of the users are. That holds for each average and for the differences of neighbouring ones;
`b` is such that all of those of one data set hold at once with the confidence asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from ._promises import PROVED
from ._threads import one_thread
from ._validate import FloatArray, IntArray, as_written, integer, printable
from .bounds.assumption import Assumption, assumption_name
from .metrics import CUTOFF, Metric
from .metrics import metric as parsed
from .numerics.all_ranks import AllRanks, all_ranks, local_maxima
from .protocol import Protocol
from .results import Published

#: Steepness of the third assumption, where the second allows any.
STEEPNESS = 4.0
#: Other names of the columns that are no metrics.
_NAMES = {
    "method": ("method", "methods", "model", "models", "recommender", "algorithm", "name"),
    "dataset": ("dataset", "datasets", "data set", "data"),
    "n_items": ("n_items", "items", "n items", "#items"),
    "n_negatives": ("n_negatives", "negatives", "n negatives", "#negatives"),
    "users": ("users", "n_users", "n users", "#users"),
}
#: What stands where a paper prints no number.
_EMPTY = ("", "-", "–", "—", "−", "nan", "n/a", "na", "none")
#: Ranks that a programme begins with, ranks added at once and how often; a bound is near enough.
_GRID, _MORE, _ROUNDS, _NEAR = 60, 8, 30, 2e-6
#: Steps of a bisection, and of Newton's method.
_STEPS = 60
#: Columns of a programme whose row is infeasible by less than this, in units of its width, pass.
_SLACK = 1e-6


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
    confidence: float = 0.95,
) -> Published:
    """Bound exact metrics from the averages that a paper prints.

    Each user has one held-out item, ranked among negatives of its own, drawn uniformly.

    Parameters
    ----------
    table : str, Path or pandas.DataFrame
        A CSV file, or the same as text in a data frame: a row for each method, and data set, with
        columns method, dataset (may be missing) and one for each metric, named as papers do
        (HR@10, Hit@10, Recall@10, NDCG@10, MRR, AUC). Cells are text as printed, such as "0.250"
        or "25.0%": the last digit says how far they were rounded. Empty cells and "-" are left
        out. Columns n_items, n_negatives and users may say what differs from row to row.
    n_items : int, optional
        Candidates of each user, the held-out item included, if there is no such column.
    n_negatives : int, optional
        Sampled negatives of each user.
    users : int, optional
        Users that are averaged over.
    replacement : bool
        Whether negatives were drawn with replacement.
    metrics : sequence of str or Metric, optional
        Exact metrics to bound; those of the table if omitted.
    assumption : Assumption, "decreasing" or None
        What is assumed for the second column of bounds; "decreasing" is ``Assumption()``. If its
        steepness is infinite, there is a third column with a steepness of `STEEPNESS`.
    confidence : float
        In (0, 1): how often, at least, all bounds and orders of a data set hold at once, if the
        assumption does. It counts the draws of the negatives, not those of the users: the exact
        metrics are averages over the same users.

    Returns
    -------
    Published
        Its frame has a row for each row of the table and each metric: dataset (if there is one),
        method, metric, printed (float, NaN where the table has none), low and high (without
        assumption), low_decreasing and high_decreasing, low_steep and high_steep, and guess, the
        exact metric if the true ranks are as even as the printed numbers allow. Bounds that no
        distribution of true ranks has are NaN, and `checks` says why.

        `checks` has a row for each row of the table: together (bool), whether any list of sampled
        ranks has all its averages; possible, decreasing and steep (bool), whether any true ranks,
        without assumption and with it, lead to them; and finding, a sentence.

        `orders` has a row for each metric and each two methods of a data set: first, second (of
        which the first has the larger printed average); verdict, or "unknown" if either may be
        ahead; and the assumption and the warrant of the verdict, as for
        :func:`~sampled_metrics.evaluation.compare`. Both are empty without a verdict.

    Raises
    ------
    ValueError
        If the table cannot be read, a cell is no number in [0, 1], a column or a size is missing,
        a method stands twice, or an option is outside its range.

    See Also
    --------
    sampled_metrics.evaluation.estimate : Takes the sampled ranks themselves, which tell more.
    sampled_metrics.bounds.identification.interval : The same for counts of sampled ranks.

    Notes
    -----
    Where users' own items are no candidates, `n_items` differs from user to user a little, and the
    mean stands for all.

    Examples
    --------
    Two methods of a paper, with 22,363 users, 12,101 items and 99 negatives; their order on HR@10
    among all items may be either:

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
    if not (assumption is None or isinstance(assumption, Assumption) or assumption == "decreasing"):
        raise ValueError(
            f"assumption must be an Assumption, 'decreasing' or None, got {assumption!r}"
        )
    if isinstance(assumption, Assumption) and assumption.geometric:
        raise ValueError(
            f"assumption must not be geometric for printed averages, got {assumption!r}"
        )
    if isinstance(confidence, bool) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")
    sizes = {"n_items": n_items, "n_negatives": n_negatives, "users": users}
    rows, notes = _read(table, sizes)
    wanted = None if metrics is None else list(dict.fromkeys(map(parsed, metrics)))
    assumptions = _assumptions(Assumption() if isinstance(assumption, str) else assumption)
    tables = []
    for same in _by_dataset(rows):
        counted = sum(len(_contrasts(tuple(row.printed))) for row in same)
        nats = float(np.log(2.0 * counted / (1.0 - confidence)))
        tables.append([_judged(row, bool(replacement), assumptions, wanted, nats) for row in same])
    named = any(row.dataset for row in rows)
    every = [each for same in tables for each in same]
    checks = pd.DataFrame([each.check for each in every])
    frame = pd.DataFrame([line for each in every for line in each.lines])
    orders = pd.DataFrame(
        [line for same in tables for line in _orders(same, assumptions)],
        columns=["dataset", "metric", "first", "second", "verdict", "assumption", "warrant"],
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
    """A row of the table; `printed` has each number, and half a unit of its last digit."""

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
    """What became of a row: `ends` has the bounds of each metric, a row for each assumption."""

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
    """The rows of a table, and what is to be said of it."""
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
    """A table as text, and what to call it."""
    if isinstance(table, pd.DataFrame):
        return table, "the table"
    if not isinstance(table, (str, Path)):
        raise ValueError(f"table must be a file or a data frame, got {type(table).__name__}")
    try:
        return pd.read_csv(
            table, dtype=str, keep_default_na=False, skipinitialspace=True, encoding="utf-8-sig",
            index_col=False,
        ), str(table)  # fmt: skip
    except OSError as problem:
        raise ValueError(f"{table} cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:  # pandas' and the decoder's errors are some
        said = (str(problem).splitlines() or [""])[0]
        said = said.replace("No columns to parse from file", "") or "an empty file"
        raise ValueError(f"{table} must be a CSV file, got: {said}") from None


def _metric(column: str) -> Metric | None:
    """The metric that a column's name says, or None; a bare "P" or "R@" says none."""
    try:
        return parsed(column.strip())
    except ValueError:
        if "@" in column and column.partition("@")[0].strip().lower() in (*CUTOFF, "hr", "mrr"):
            raise
        return None


def _number(cell: object, what: str) -> tuple[float, float] | None:
    """A printed number and half a unit of its last digit; None where nothing is printed.

    Examples
    --------
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
        return integer(default, key, 1)
    if not text.isdecimal():
        raise ValueError(f"{key} of {where} must be a whole number, got {as_written(cell)}")
    return integer(int(text), key, 1)


def _by_dataset(rows: list[_Row]) -> list[list[_Row]]:
    found: dict[str, list[_Row]] = {}
    for row in rows:
        found.setdefault(row.dataset, []).append(row)
    return list(found.values())


# --- what the printed averages allow ------------------------------------------------------------


@lru_cache(maxsize=256)
def _contrasts(metrics: tuple[Metric, ...]) -> FloatArray:
    """Averages that are bounded, in terms of the printed ones: these, and some differences.

    The differences are of one metric at neighbouring cut-offs, and of HR and NDCG at the same
    cut-off: each is an average of values in a short interval, so that its sampling error is less
    than those of its two parts.
    """
    pairs = []
    kinds = dict.fromkeys("hit" if m.kind == "recall" else m.kind for m in metrics)
    for kind in kinds:
        same = [m for m in metrics if kind in (m.kind, m.kind.replace("recall", "hit")) and m.k]
        pairs += list(pairwise(sorted(same, key=lambda m: m.k or 0)))
    pairs += [
        (low, high)
        for low in metrics if low.kind == "ndcg"
        for high in metrics if high.kind in ("hit", "recall") and high.k == low.k
    ]  # fmt: skip
    rows = np.zeros((len(pairs), len(metrics)))
    for i, (low, high) in enumerate(pairs):
        rows[i, metrics.index(high)], rows[i, metrics.index(low)] = 1.0, -1.0
    found = np.concatenate([np.eye(len(metrics)), rows])
    found.setflags(write=False)
    return found


def _rounded(row: _Row) -> tuple[FloatArray, FloatArray]:
    """The ends of what was averaged; hits are whole numbers of users."""
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


def _expectations(
    values: FloatArray, low: FloatArray, high: FloatArray, users: int, nats: float
) -> tuple[FloatArray, FloatArray]:
    """The ends of the expectations of averages that lie between `low` and `high`.

    Parameters
    ----------
    values : ndarray of float, shape (c, m + 1)
        What is averaged.
    low, high : ndarray of float, shape (c,)
    users : int
    nats : float
        Of relative entropy, times the number of users, that an average may deviate by.

    Examples
    --------
    Half of 1,000 users had a hit; the standard error is 0.016:

    >>> hit = np.array([[1.0, 0.0]])
    >>> half = np.array([0.5])
    >>> [float(end.round(3)[0]) for end in _expectations(hit, half, half, 1_000, np.log(40))]
    [0.457, 0.543]
    """
    least, width = values.min(axis=1), np.ptp(values, axis=1)
    scale = np.where(width > 0, width, 1.0)
    ends = []
    for at, side in ((low, 0.0), (high, 1.0)):
        seen = np.clip((at - least) / scale, 0.0, 1.0)
        inner, outer = seen, np.full_like(seen, side)
        for _ in range(_STEPS):
            middle = 0.5 * (inner + outer)
            far = users * _relative_entropy(seen, middle) > nats
            inner, outer = np.where(far, inner, middle), np.where(far, middle, outer)
        ends.append(least + scale * outer)
    return ends[0], ends[1]


def _relative_entropy(seen: FloatArray, expected: FloatArray) -> FloatArray:
    """Of two coins, in nats."""
    total = np.zeros_like(seen)
    for a, b in ((seen, expected), (1.0 - seen, 1.0 - expected)):
        with np.errstate(divide="ignore", invalid="ignore"):
            total += np.where(a > 0, a * np.log(a / b), 0.0)
    return np.asarray(total)


@dataclass(eq=False)
class _Programme:
    """Linear programmes over mixtures of columns; some columns are used, all are looked at.

    Attributes
    ----------
    rows : ndarray of float, shape (c, columns)
        What is bounded from both sides.
    falls : ndarray of float, shape (r, columns)
        What must not be negative.
    chosen : ndarray of int
        The columns that are used.

    Examples
    --------
    The most that the last of three values can weigh where their mean is at most 1:

    >>> programme = _Programme(np.array([[0.0, 1.0, 3.0]]), np.zeros((0, 3)), np.arange(3))
    >>> low, high = np.array([0.0]), np.array([1.0])
    >>> found = -programme.least(np.array([0.0, 0.0, -1.0]), low, high)
    >>> round(found, 6), programme.feasible(low, high), programme.feasible(low + 4, high + 4)
    (0.333333, True, False)
    """

    rows: FloatArray
    falls: FloatArray
    chosen: IntArray

    def least(self, target: FloatArray, low: FloatArray, high: FloatArray) -> float:
        """The least of `target`, or a little less: the dual's bound on all columns.

        Infinite if the dual proves that no mixture is between the ends.
        """
        best = -np.inf
        for _ in range(_ROUNDS):
            found, y, z = self._on_chosen(target[self.chosen], low, high)
            if found.status == 2 and not self.feasible(low, high):
                return np.inf
            if found.status not in (0, 2):  # the solver gave up: the bound so far is proved
                break
            if found.status == 0:
                reduced = target - y @ self.rows - z @ self.falls
                least, used = float(reduced.min()), float(reduced[self.chosen].min())
                best = max(best, _worth(y, low, high) + least)
                if least >= used - _NEAR:
                    break
                self._add(reduced, used - 0.5 * _NEAR)
        return best

    def feasible(self, low: FloatArray, high: FloatArray) -> bool:
        """Whether some mixture is between the ends; if not, the dual proves it."""
        if (low > high).any():
            return False
        widths = 0.5 * (high - low) + 1e-6
        for _ in range(_ROUNDS):
            found, y, z = self._on_chosen(np.zeros(self.chosen.size), low, high, widths)
            if found.status != 0 or found.fun <= _SLACK:
                break
            y = y / max(1.0, float(np.abs(y * widths).max()))
            reduced = -y @ self.rows - z @ self.falls
            if _worth(y, low, high) + float(reduced.min()) > _SLACK:
                return False
            self._add(reduced, float(reduced[self.chosen].min()) - 0.5 * _SLACK)
        return True

    def _add(self, reduced: FloatArray, below: float) -> None:
        self.chosen = np.union1d(self.chosen, local_maxima(-reduced, -below, _MORE))

    def _on_chosen(
        self,
        target: FloatArray,
        low: FloatArray,
        high: FloatArray,
        widths: FloatArray | None = None,
    ) -> tuple[Any, FloatArray, FloatArray]:
        """What the solver found, and its prices of the rows and of the falls.

        Its unknowns are the weights of the chosen columns, the values of the rows and, with
        `widths`, how many of these each row is above its upper end, and below its lower one.
        """
        at, c, r = self.chosen, len(self.rows), len(self.falls)
        slacks = np.zeros((c, 0)) if widths is None else np.diag(widths)
        equal = np.concatenate([self.rows[:, at], -np.eye(c), slacks, -slacks], axis=1)
        free = equal.shape[1] - at.size - c
        total = np.concatenate([np.ones(at.size), np.zeros(c + free)])
        found = linprog(
            np.concatenate([target, np.zeros(c), np.ones(free)]),
            A_ub=np.pad(-self.falls[:, at], ((0, 0), (0, c + free))) if r else None,
            b_ub=np.zeros(r) if r else None,
            A_eq=np.concatenate([equal, total[np.newaxis]]),
            b_eq=np.append(np.zeros(c), 1.0),
            bounds=[
                *[(0.0, None)] * at.size,
                *zip(low.tolist(), high.tolist(), strict=True),
                *[(0.0, None)] * free,
            ],
            method="highs",
            options={"presolve": False},
        )
        if found.status != 0:
            return found, np.zeros(c), np.zeros(r)
        prices = np.maximum(-found.ineqlin.marginals, 0.0) if r else np.zeros(0)
        return found, np.asarray(found.eqlin.marginals[:c]), prices


def _worth(y: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """What prices of rows are worth, at least, whatever is between the ends."""
    return float(np.maximum(y, 0.0) @ low - np.maximum(-y, 0.0) @ high)


@dataclass(frozen=True, eq=False)
class _Setting:
    """Everything about a protocol and the printed metrics that does not depend on the numbers.

    Attributes
    ----------
    values : ndarray of float, shape (j, m + 1)
        The metrics of the sampled rank.
    expected : ndarray of float, shape (j, n)
        Their expectations at each true rank.
    """

    protocol: Protocol
    metrics: tuple[Metric, ...]
    law: AllRanks = field(repr=False)
    values: FloatArray = field(repr=False)
    expected: FloatArray = field(repr=False)

    @property
    def n_items(self) -> int:
        return int(self.protocol.n_items)

    def programme(self, assumption: Assumption | None) -> tuple[_Programme, int]:
        """The programmes under an assumption, and how many ranks it is about."""
        n, m = self.n_items, self.protocol.n_negatives
        head = 0 if assumption is None else min(int(assumption.head * n / m), n)
        rows = _contrasts(self.metrics) @ _means(self.expected, head)
        falls = np.zeros((0, n))
        doublings = int(np.log2(head + 1)) if head else 0
        if assumption is not None and np.isfinite(assumption.steepness) and doublings > 1:
            # The share of the first 1, 2, ... ranks in each doubling, as in `identification`.
            ends = np.arange(1.0, head + 1)
            starts = 2.0 ** np.arange(doublings + 1) - 1.0
            within = np.clip(ends - starts[:, np.newaxis], 0.0, None)
            shares = np.pad(-np.diff(within, axis=0) / ends, ((0, 0), (0, n - head)))
            falls = shares[1:] - 2.0 / assumption.steepness * shares[:-1]
        cuts = [of.k for of in self.metrics if of.k]
        near = [k + d for k in cuts for d in (-1, 0)]
        steps = [*np.geomspace(1, n, _GRID), *np.linspace(1, n, _GRID), head or 1, head + 1]
        chosen = np.unique(np.clip(np.round([*np.array(steps) - 1, *near, *range(20)]), 0, n - 1))
        return _Programme(rows, falls, chosen.astype(np.int64)), head


def _means(values: FloatArray, head: int) -> FloatArray:
    """The columns of values at ranks: their means over the first 1, 2, ..., `head`; then these."""
    found = values.copy()
    found[:, :head] = np.cumsum(values[:, :head], axis=1) / np.arange(1.0, head + 1)
    return found


@lru_cache(maxsize=8)
def _setting(protocol: Protocol, metrics: tuple[Metric, ...]) -> _Setting:
    n, m = int(protocol.n_items), protocol.n_negatives
    law = all_ranks(n - 1, m, protocol.replacement)
    values = np.stack([of.vector(m + 1) for of in metrics])
    return _Setting(protocol, metrics, law, values, np.stack([law.expected(v) for v in values]))


@lru_cache(maxsize=32)
def _programme(
    protocol: Protocol, metrics: tuple[Metric, ...], assumption: Assumption | None
) -> tuple[_Programme, int]:
    """Kept, as the ranks that one row needs are good for the next."""
    return _setting(protocol, metrics).programme(assumption)


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
    metrics = tuple(row.printed)
    setting = _setting(protocol, metrics)
    low, high = _rounded(row)
    why = _apart(row, setting.values, low, high)
    together = not why
    contrasts = _contrasts(metrics)
    up, down = np.maximum(contrasts, 0.0), np.maximum(-contrasts, 0.0)
    ends = _expectations(
        contrasts @ setting.values, up @ low - down @ high, up @ high - down @ low, row.users, nats
    )
    targets = list(metrics) if wanted is None else wanted
    bounds = {of: np.full((len(assumptions), 2), np.nan) for of in targets}
    possible = [False] * len(assumptions)
    for i, assumption in enumerate(assumptions if together else []):
        programme, head = _programme(protocol, metrics, assumption)
        found = {}
        for of in targets:
            target = _means(of.vector(row.n_items)[np.newaxis], head)[0]
            least, most = programme.least(target, *ends), -programme.least(-target, *ends)
            found[of] = max(least, target.min()), min(most, target.max())
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
    mass = _most_even(setting, row.users, low, high) if possible[0] else None
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


def _apart(row: _Row, values: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """Why no list of sampled ranks has the averages of a row, in a sentence; nothing if one has."""
    names = [f"{of.label} {value:g}" for of, (value, _) in row.printed.items()]
    for i in np.flatnonzero(low > high):
        return f"{row.name}: {names[i]} is no number of hits among {row.users:,} users"

    def together(at: Sequence[int]) -> bool:
        some, ranks = list(at), values.shape[1]
        programme = _Programme(values[some], np.zeros((0, ranks)), np.arange(ranks))
        return programme.feasible(low[some], high[some])

    every = range(len(names))
    if together(every):
        return ""
    few = next((pair for pair in combinations(every, 2) if not together(pair)), every)
    said = " and ".join(names[i] for i in few) if len(few) == 2 else ", ".join(names)
    return f"{row.name}: no list of sampled ranks has {said} at once"


def _most_even(setting: _Setting, users: int, low: FloatArray, high: FloatArray) -> FloatArray:
    r"""The most even distribution of true ranks that makes the printed averages likely.

    It maximises a normal log-likelihood of the averages plus the square root of the number of users
    times the entropy, as :func:`~sampled_metrics.priors.maximum_entropy` does for the sampled ranks
    themselves: :math:`p(r) \propto \exp(\lambda \cdot g(r))`, with g(r) the expected metrics at
    rank r, by Newton's method for the multipliers. The covariance of the metrics is that under the
    distribution that is found, in a few rounds.
    """
    values, expected = setting.values, setting.expected
    printed, multipliers = 0.5 * (low + high), np.zeros(len(values))
    tilt = multipliers @ expected
    for _ in range(3):
        mass = np.exp(tilt - tilt.max())
        q = np.maximum(setting.law.marginal(mass / mass.sum()), 0.0)
        q /= q.sum()
        spread = (values * q) @ values.T - np.outer(values @ q, values @ q)
        spread += np.diag(1e-9 + (high - low) ** 2 * users / 12.0)  # and of the rounding
        worth = spread / np.sqrt(users)

        def dual(x: FloatArray, worth: FloatArray = worth) -> tuple[float, FloatArray]:
            at = x @ expected
            top = float(at.max())
            mass = np.exp(at - top)
            total = float(mass.sum())
            return top + np.log(total) - x @ printed + 0.5 * x @ worth @ x, mass / total

        value, mass = dual(multipliers)
        for _ in range(_STEPS):
            mean = expected @ mass
            slope = mean - printed + worth @ multipliers
            curved = (expected * mass) @ expected.T - np.outer(mean, mean) + worth
            step = -np.linalg.solve(curved, slope)
            gain, size = float(slope @ step), 1.0
            if -gain < 1e-13:
                break
            while size > 1e-10:
                moved, new = dual(multipliers + size * step)
                if moved <= value + 1e-4 * size * gain:
                    break
                size *= 0.5
            else:
                break
            multipliers, value, mass = multipliers + size * step, moved, new
        tilt = multipliers @ expected
    return np.asarray(mass)


def _orders(same: list[_Judged], assumptions: list[Assumption | None]) -> list[tuple[str, ...]]:
    """What is known of each two methods of a data set, on each metric."""
    found: list[tuple[str, ...]] = []
    for of in dict.fromkeys(of for each in same for of in each.ends):
        have = [each for each in same if of in each.ends]
        for one, other in combinations(have, 2):
            a, b = (each.row.printed.get(of, (0.0, 0.0))[0] for each in (one, other))
            first, second = (one, other) if a >= b else (other, one)
            names = first.row.method, second.row.method
            verdict, assumption, warrant = "unknown", "", ""
            for i, assumed in enumerate(assumptions):
                (low, high), (least, most) = first.ends[of][i], second.ends[of][i]
                if low > most or least > high:  # not where one is NaN
                    ahead, behind = names if low > most else names[::-1]
                    verdict = f"{ahead} beats {behind}"
                    assumption, warrant = assumption_name(assumed), PROVED
                    break
            found.append((one.row.dataset, of.name, *names, verdict, assumption, warrant))
    return found

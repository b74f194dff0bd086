"""Bounds on exact metrics from published averages of sampled metrics.

A table prints averages over users of metrics of the sampled rank: HR@10, NDCG@10, MRR. Digits are
taken as rounded to the nearest. The bounds are those of ``sampled_metrics.bounds.averages``; all
bounds of one data set hold jointly with the given confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from ._confidence import CONFIDENCE, THEOREM, UNDECIDED
from ._threads import one_thread
from ._validate import FloatArray, as_written, checked_confidence
from .bounds.assumption import FEWER_USERS, assumption_name, checked_assumption
from .bounds.averages import Averages, averages, contrasts
from .metrics import Metric, recall_depth
from .metrics import metric as parsed
from .printed_rows import Printed, Row
from .protocol import Protocol
from .published_corpora import of_corpora
from .results import Published


@one_thread
def published(
    table: str | Path | pd.DataFrame,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    users: int | None = None,
    replacement: bool | None = None,
    metrics: Sequence[str | Metric] | None = None,
    assumption: str | None = "decreasing",
    confidence: float = CONFIDENCE,
) -> Published:
    """Bound exact metrics from the averages that a paper prints.

    Each user has one held-out item, ranked among separate negatives, drawn uniformly. :ref:`What
    does a paper's table say? <howto-table>` describes the tables of the result.

    Parameters
    ----------
    table : str, Path or pandas.DataFrame
        A CSV file, or a data frame of text: a row for each method (and data set), with columns
        method, dataset (optional) and one for each metric, named as in papers (HR@10, Hit@10,
        Recall@10, NDCG@10, MRR, AUC). Cells are text as printed, such as "0.250" or "25.0%", or
        "0.25 to 0.30"; empty cells and "-" are skipped. Columns n_items, n_negatives and users may
        give sizes that differ between rows. If the methods ranked one corpus for all queries, the
        columns are queries, documents (kept), of (documents in full), and corpus: uniform, pooled
        or unknown. A row may also be of one number, in columns metric and value.
    n_items : int, optional
        Candidates of each user, the held-out item included, if there is no such column. All users
        must have nearly as many.
    n_negatives : int, optional
        Sampled negatives of each user.
    users : int, optional
        Number of users averaged over.
    replacement : bool, optional
        Whether negatives were drawn with replacement. Leave it and the numbers of items and
        negatives out for one corpus that all queries share.
    metrics : sequence of str or Metric, optional
        Exact metrics to bound; by default those of the table.
    assumption : {"decreasing"}, optional
        The assumption of the second pair of bounds; None leaves them out.
    confidence : float
        In (0, 1): probability, at least, that all bounds and orders of a data set hold jointly, if
        the assumption does. An assumption and its bounds are about the population that the users
        are a random sample of; with no assumption also about the paper's own users.

    Returns
    -------
    Published
        Its frame has for each row of the table and each metric: depth, the cut-off of the exact
        Recall that a printed Recall measures, where the benchmark shows how closely; bounds low
        and high (no assumption), low_decreasing, high_decreasing; and guess. `checks`
        says which rows are possible, and `orders` which of two methods is better. For one corpus
        that all queries share: low, high, largest_error (the largest standard error over queries
        that the number allows) and what the row proves.

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
    >>> rows = pd.DataFrame({"method": ["A"], "HR@1": ["0.1870"], "HR@10": ["0.4696"]})
    >>> sizes = {"n_items": 12_101, "n_negatives": 99, "users": 22_363, "replacement": False}
    >>> published(rows, **sizes, metrics=["hit@10"]).frame["high"].round(2).item()
    0.21
    """
    if not isinstance(replacement, (bool, np.bool_, type(None))):
        raise ValueError(f"replacement must be True or False, got {as_written(replacement)}")
    assumption = checked_assumption(assumption)
    confidence = checked_confidence(confidence)
    sizes = {"n_items": n_items, "n_negatives": n_negatives, "users": users}
    printed = Printed(table)
    exact_metrics = None if metrics is None else list(dict.fromkeys(map(parsed, metrics)))
    if printed.is_shared:
        given = {"n_items": n_items, "n_negatives": n_negatives, "replacement": replacement}
        return of_corpora(printed, users, exact_metrics, given)
    if replacement is None:
        raise ValueError(
            "replacement must be True or False, got None: say whether a user's negatives may "
            "repeat (--replacement or --no-replacement)"
        )
    rows, notes = printed.rows(sizes), printed.notes
    assumptions = [*dict.fromkeys((None, assumption))]
    datasets = []
    for dataset_rows in _by_dataset(rows):
        n_contrasts = sum(len(contrasts(tuple(row.printed))) for row in dataset_rows)
        nats = float(np.log(2.0 * n_contrasts / (1.0 - confidence)))
        judging = bool(replacement), assumptions, exact_metrics, nats
        datasets.append([_judged(row, *judging) for row in dataset_rows])
    settings: dict[str, object] = {key: size for key, size in sizes.items() if size is not None}
    settings |= {"replacement": bool(replacement), "confidence": confidence}
    settings |= {} if assumption is None else {"assumed": f"that {FEWER_USERS}"}
    return _result(datasets, assumptions, settings, notes)


def _result(
    datasets: list[list[_Judged]],
    assumptions: list[str | None],
    settings: dict[str, object],
    notes: list[str],
) -> Published:
    judged_rows = [judged for dataset_rows in datasets for judged in dataset_rows]
    orders = [order for dataset_rows in datasets for order in _orders(dataset_rows, assumptions)]
    tables = [
        pd.DataFrame([line for judged in judged_rows for line in judged.lines]),
        pd.DataFrame(orders, columns=[column.name for column in fields(_Order)]),
        pd.DataFrame([judged.check for judged in judged_rows]),
    ]
    notes += [finding for finding in tables[-1]["finding"] if finding]
    if not any(judged.row.dataset for judged in judged_rows):
        tables = [table.drop(columns="dataset") for table in tables]
    frame, orders_frame, checks = tables
    frame["depth"] = frame["depth"].astype("Int64")
    return Published(frame, settings, tuple(notes), orders_frame, checks)


@dataclass(frozen=True, eq=False)
class _Judged:
    """The results of a row; `ends` has the bounds of each metric, shape (assumptions, 2)."""

    row: Row
    check: dict[str, object]
    lines: list[dict[str, object]]
    ends: dict[Metric, FloatArray]


def _by_dataset(rows: list[Row]) -> list[list[Row]]:
    rows_by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_dataset.setdefault(row.dataset, []).append(row)
    return list(rows_by_dataset.values())


# --- judging -------------------------------------------------------------------------------------


def _rounded(row: Row) -> tuple[FloatArray, FloatArray]:
    """Bounds on the unrounded averages."""
    value, half = np.array([*row.printed.values()]).T
    return np.maximum(value - half, 0.0), np.minimum(value + half, 1.0)


def _fractional(row: Row, low: FloatArray, high: FloatArray) -> str:
    """Which average is no whole number of hits, as after averaging over ties or runs; or empty."""
    for i, metric in enumerate(row.printed):
        values = metric.vector(row.sizes["n_negatives"] + 1)
        hit_value, slack = float(values.max()), 1e-9 * row.sizes["users"]
        first, last = np.array([low[i], high[i]]) / hit_value * row.sizes["users"] + [-slack, slack]
        if np.isin(values, (0.0, hit_value)).all() and np.ceil(first) > np.floor(last):
            return (
                f"{row.name}: {metric.label} {row.printed[metric][0]:g} is no number of hits among "
                f"{row.sizes['users']:,} users, unless ties or runs were averaged"
            )
    return ""


def _judged(
    row: Row,
    replacement: bool,
    assumptions: list[str | None],
    exact_metrics: list[Metric] | None,
    nats: float,
) -> _Judged:
    try:
        protocol = Protocol(row.sizes["n_items"], row.sizes["n_negatives"], replacement=replacement)
    except ValueError as problem:
        raise ValueError(f"{problem}, for {row.name}") from None
    published_averages = averages(protocol, tuple(row.printed))
    low, high = _rounded(row)
    metrics = list(row.printed) if exact_metrics is None else exact_metrics
    finding = _inconsistent(row, published_averages, low, high)
    is_consistent = not finding
    bounds = np.full((len(assumptions), len(metrics), 2), np.nan)
    if is_consistent:
        ends = published_averages.expectations(low, high, row.sizes["users"], nats)
        for i, assumption in enumerate(assumptions):
            intervals = [published_averages.bounds(metric, assumption, *ends) for metric in metrics]
            if not np.isfinite(intervals).all():
                finding = _contradiction(row, assumption)
                break  # a stronger assumption is refused, too
            bounds[i] = intervals
    possible = np.isfinite(bounds).all(axis=(1, 2)).tolist()
    mass = published_averages.most_even(low, high, row.sizes["users"]) if possible[0] else None
    lines = []
    by_metric = dict(zip(metrics, bounds.swapaxes(0, 1), strict=True))
    for metric, metric_bounds in by_metric.items():
        line: dict[str, object] = {"dataset": row.dataset, "method": row.method}
        is_printed = metric in row.printed
        line |= {"metric": metric.name, "printed": row.printed[metric][0] if is_printed else np.nan}
        measured = recall_depth(metric, row.sizes["n_items"], row.sizes["n_negatives"])
        line["depth"] = measured[0] if is_printed and measured else None
        suffixes = "", "_decreasing"
        for suffix, (least, most) in zip(suffixes, metric_bounds.tolist(), strict=False):
            line |= {f"low{suffix}": least, f"high{suffix}": most}
        line["guess"] = (
            np.nan if mass is None else float(mass @ metric.vector(row.sizes["n_items"]))
        )
        lines.append(line)
    check = {"dataset": row.dataset, "method": row.method, "together": is_consistent}
    check |= dict(zip(("possible", "decreasing"), possible, strict=False))
    check["finding"] = finding or _fractional(row, low, high)
    return _Judged(row, check, lines, by_metric)


def _contradiction(row: Row, assumption: str | None) -> str:
    claim = "any true ranks" if assumption is None else f"the assumption that {FEWER_USERS}"
    numbers = ", ".join(f"{metric.label} {value:g}" for metric, (value, _) in row.printed.items())
    return f"{row.name}: {numbers} contradict {claim}"


def _inconsistent(row: Row, of: Averages, low: FloatArray, high: FloatArray) -> str:
    """Why no list of sampled ranks has the averages of a row; empty if one has."""
    if of.consistent(low, high):
        return ""
    names = [f"{metric.label} {value:g}" for metric, (value, _) in row.printed.items()]
    pairs = combinations(range(len(names)), 2)
    pair = next((pair for pair in pairs if not of.consistent(low, high, pair)), None)
    numbers = ", ".join(names) if pair is None else " and ".join(names[i] for i in pair)
    return f"{row.name}: no list of sampled ranks has {numbers} at once"


@dataclass(frozen=True)
class _Order:
    """The order of two methods of a data set on a metric; a row of `orders`."""

    dataset: str
    metric: str
    first: str
    second: str
    verdict: str = UNDECIDED
    assumption: str = ""
    warrant: str = ""


def _orders(dataset_rows: list[_Judged], assumptions: list[str | None]) -> list[_Order]:
    """The order of each two methods of a data set, on each metric."""
    orders = []
    for metric in dict.fromkeys(metric for judged in dataset_rows for metric in judged.ends):
        judged_rows = [judged for judged in dataset_rows if metric in judged.ends]
        for pair in combinations(judged_rows, 2):
            # As they stand in the table where both printed averages are the same.
            first, second = sorted(
                pair, key=lambda judged: -judged.row.printed.get(metric, (0.0, 0.0))[0]
            )
            names = first.row.method, second.row.method
            order = _Order(first.row.dataset, metric.name, *names)
            for i, assumption in enumerate(assumptions):
                first_low, first_high = first.ends[metric][i]
                second_low, second_high = second.ends[metric][i]
                if first_low > second_high or second_low > first_high:  # not where one is NaN
                    ahead, behind = names if first_low > second_high else names[::-1]
                    verdict, name = f"{ahead} beats {behind}", assumption_name(assumption)
                    order = replace(order, verdict=verdict, assumption=name, warrant=THEOREM)
                    break
            orders.append(order)
    return orders

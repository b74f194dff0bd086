"""Bounds on exact metrics from published averages of sampled metrics.

A table prints averages over users of metrics of the sampled rank: HR@10, NDCG@10, MRR. Digits are
taken as rounded to the nearest. The bounds are those of ``sampled_metrics.bounds.averages``; all
bounds of one data set hold jointly with the given confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from ._confidence import CONFIDENCE, THEOREM, UNDECIDED
from ._threads import one_thread
from ._validate import FloatArray, as_written, checked_confidence
from .bounds.assumption import FEWER_USERS, assumption_name, checked_assumption
from .bounds.averages import Population, averages, contrasts, population
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
        Recall@10, NDCG@10, MRR, AUC). Cells are text as printed, such as "0.250" or "25.0%";
        empty cells and "-" are skipped. A mean rank is read as AUC. Columns
        n_items, n_negatives and users may give the sizes of a row, of which a method may have
        several. If the methods ranked one corpus for all queries, the columns are queries,
        documents (kept), of (documents in full), and corpus: uniform, pooled or unknown.
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
        Recall that a printed Recall measures; bounds low and high (no assumption), low_decreasing,
        high_decreasing; and guess. `checks` says which rows are possible, and `orders` which of two
        methods is better. For one corpus: low, high, largest_error (the largest standard error over
        queries that the number allows) and what the row proves.

    Raises
    ------
    ValueError
        If the table cannot be read, a cell is no number in [0, 1], or a size is missing.

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
        options = {"n_items": n_items, "n_negatives": n_negatives, "replacement": replacement}
        return of_corpora(printed, users, exact_metrics, options)
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
        datasets.append([_judged(of_one, *judging) for of_one in _by_method(dataset_rows)])
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
        pd.DataFrame([check for judged in judged_rows for check in judged.checks]),
    ]
    notes += dict.fromkeys(finding for finding in tables[-1]["finding"] if finding)
    if not any(judged.dataset for judged in judged_rows):
        tables = [table.drop(columns="dataset") for table in tables]
    frame, orders_frame, checks = tables
    frame["depth"] = frame["depth"].astype("Int64")
    _beside_method(frame, checks)
    return Published(frame, settings, tuple(notes), orders_frame, checks)


def _beside_method(*tables: pd.DataFrame) -> None:
    """Move the numbers of negatives of methods with several rows beside the methods."""
    for table in tables if "n_negatives" in tables[0] else ():
        negatives = table.pop("n_negatives").astype("Int64")
        table.insert(list(table).index("method") + 1, "n_negatives", negatives)


@dataclass(frozen=True, eq=False)
class _Judged:
    """The results of a method; `ends` has the bounds of each metric, shape (assumptions, 2).

    `printed` has the number of the row with the fewest negatives.
    """

    dataset: str
    method: str
    printed: dict[Metric, tuple[float, float]]
    checks: list[dict[str, object]]
    lines: list[dict[str, object]]
    ends: dict[Metric, FloatArray]


def _by_dataset(rows: list[Row]) -> list[list[Row]]:
    rows_by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_dataset.setdefault(row.dataset, []).append(row)
    return list(rows_by_dataset.values())


def _by_method(rows: list[Row]) -> list[list[Row]]:
    """The rows of each method, which differ in their numbers of negatives, the fewest first."""
    by_method: dict[str, list[Row]] = {}
    for row in rows:
        by_method.setdefault(row.method, []).append(row)
    for of_one in by_method.values():
        of_one.sort(key=lambda row: row.sizes["n_negatives"])
        if len({row.sizes["n_items"] for row in of_one}) > 1:
            raise ValueError(f"n_items must be the same in all rows of {of_one[0].name}")
    return list(by_method.values())


# --- judging -------------------------------------------------------------------------------------


def _rounded(row: Row) -> tuple[FloatArray, FloatArray]:
    """Bounds on the unrounded averages."""
    value, half = np.array([*row.printed.values()]).T
    return np.maximum(value - half, 0.0), np.minimum(value + half, 1.0)


def _or_fractional(finding: str, row: Row) -> str:
    """A finding, or which average is no whole number of hits, as after averaging over ties."""
    if finding:
        return finding
    low, high = _rounded(row)
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
    rows: list[Row],
    replacement: bool,
    assumptions: list[str | None],
    exact_metrics: list[Metric] | None,
    nats: float,
) -> _Judged:
    """The bounds of one method, by all its rows."""
    samples = tuple((_protocol(row, replacement), tuple(row.printed)) for row in rows)
    ends, n_users = list(map(_rounded, rows)), [row.sizes["users"] for row in rows]
    printed = {metric: value for row in rows[::-1] for metric, value in row.printed.items()}
    metrics = list(printed) if exact_metrics is None else exact_metrics
    findings = list(map(_inconsistent, rows, samples))
    bounds = np.full((len(assumptions), len(metrics), 2), np.nan)
    are_consistent = [not finding for finding in findings]
    if all(are_consistent):
        limits = [
            averages(*sample).expectations(*of_row, users, nats)
            for sample, of_row, users in zip(samples, ends, n_users, strict=True)
        ]
        contradicted = _bound(bounds, population(*samples), metrics, assumptions, limits)
        if contradicted < len(assumptions):
            findings = [_contradiction(rows, assumptions[contradicted])] * len(rows)
    findings = list(map(_or_fractional, findings, rows))
    possible = np.isfinite(bounds).all(axis=(1, 2)).tolist()
    guesses = np.full(len(metrics), np.nan)
    if possible[0]:
        mass = population(*samples).most_even(*_joined(ends), n_users)
        guesses = np.array([mass @ metric.vector(mass.size) for metric in metrics])
    by_metric = dict(zip(metrics, bounds.swapaxes(0, 1), strict=True))
    checked = dict(zip(("possible", "decreasing"), possible, strict=False))
    checks = [
        _key(row, rows) | {"together": are_consistent[i]} | checked | {"finding": findings[i]}
        for i, row in enumerate(rows)
    ]
    lines = [line for row in rows for line in _lines(row, _key(row, rows), by_metric, guesses)]
    return _Judged(rows[0].dataset, rows[0].method, printed, checks, lines, by_metric)


def _joined(ends: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """The ends of all rows, one after the other."""
    low, high = zip(*ends, strict=True)
    return np.concatenate(low), np.concatenate(high)


def _bound(
    bounds: FloatArray,
    of_rows: Population,
    metrics: list[Metric],
    assumptions: list[str | None],
    limits: list[tuple[FloatArray, FloatArray]],
) -> int:
    """Fill in the bounds under each assumption, up to the first that is contradicted."""
    for i, assumption in enumerate(assumptions):
        ends = [of_rows.bounds(metric, assumption, *_joined(limits)) for metric in metrics]
        if not np.isfinite(ends).all():
            return i  # a stronger assumption is refused, too
        bounds[i] = ends
    return len(assumptions)


def _key(row: Row, rows: list[Row]) -> dict[str, object]:
    """What identifies a row of a method."""
    negatives = {"n_negatives": row.sizes["n_negatives"]} if len(rows) > 1 else {}
    return {"dataset": row.dataset, "method": row.method, **negatives}


def _lines(
    row: Row, key: dict[str, object], by_metric: dict[Metric, FloatArray], guesses: FloatArray
) -> Iterator[dict[str, object]]:
    """The lines of the frame for a row: one for each metric."""
    for (metric, bounds), guess in zip(by_metric.items(), guesses.tolist(), strict=True):
        line, is_printed = {**key, "metric": metric.name}, metric in row.printed
        line["printed"] = row.printed[metric][0] if is_printed else np.nan
        depth = recall_depth(metric, row.sizes["n_items"], row.sizes["n_negatives"])
        line["depth"] = depth if is_printed else None
        for suffix, (low, high) in zip(("", "_decreasing"), bounds.tolist(), strict=False):
            line |= {f"low{suffix}": low, f"high{suffix}": high}
        yield {**line, "guess": guess}


def _protocol(row: Row, replacement: bool) -> Protocol:
    try:
        return Protocol(row.sizes["n_items"], row.sizes["n_negatives"], replacement=replacement)
    except ValueError as problem:
        raise ValueError(f"{problem}, for {row.name}") from None


def _contradiction(rows: list[Row], assumption: str | None) -> str:
    claim = "any true ranks" if assumption is None else f"the assumption that {FEWER_USERS}"
    numbers = ", ".join(
        f"{metric.label} {value:g}" + f" among {row.sizes['n_negatives']:,}" * (len(rows) > 1)
        for row in rows
        for metric, (value, _) in row.printed.items()
    )
    return f"{rows[0].name}: {numbers} contradict {claim}"


def _inconsistent(row: Row, sample: tuple[Protocol, tuple[Metric, ...]]) -> str:
    """Why no list of sampled ranks has the averages of a row; empty if one has."""
    row_averages, (low, high) = averages(*sample), _rounded(row)
    if row_averages.consistent(low, high):
        return ""
    names = [f"{metric.label} {value:g}" for metric, (value, _) in row.printed.items()]
    pairs = combinations(range(len(names)), 2)
    pair = next((pair for pair in pairs if not row_averages.consistent(low, high, pair)), None)
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
                pair, key=lambda judged: -judged.printed.get(metric, (0.0, 0.0))[0]
            )
            names = first.method, second.method
            order = _Order(first.dataset, metric.name, *names)
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

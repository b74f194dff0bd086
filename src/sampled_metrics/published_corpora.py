"""What a published number on one small corpus, shared by all queries, says of the whole corpus.

If the corpus has all relevant documents, each of them only falls as other documents are added. So a
metric that never rises with the rank is at most as large in full: all metrics here but AUC, which
divides by the number of the others.

A metric in [0, 1] with the mean v over Q queries varies most if each query has 0 or 1 (Bhatia and
Davis), and the difference of two metrics if besides they are both 1 for as few queries as possible.
So standard errors have upper bounds, from the printed numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import inf, sqrt
from typing import NamedTuple

import pandas as pd

from ._confidence import UNDECIDED
from ._validate import as_written, printable
from .metrics import Metric
from .printed_rows import Printed, Row
from .results import Published

#: What a number on each kind of corpus proves.
PROVES = {
    "uniform": "if all relevant documents were kept, and scores do not depend on the "
    "corpus, the value in full is at most the published one for these queries, on every metric but "
    "AUC; one number gives no lower bound and two give no order: give the run itself to "
    "sampled-metrics estimate RUN --qrels QRELS --corpus-size {corpus_size}",
    "pooled": "if all relevant documents were kept, and scores do not depend on the "
    "corpus, the value in full is at most the published one for these queries, for systems in the "
    "pool and outside, on every metric but AUC; with a cutoff k it is the published one if the "
    "pool has the system's first k documents of each query; nothing follows if judgements were "
    "dropped with their documents",
    "unknown": "nothing follows, not even an upper bound, since relevant documents may be "
    "missing: ask how the documents were chosen, whether all relevant ones were kept, and whether "
    "judgements were dropped",
}
#: Columns of the orders, as for other tables.
_ORDER = ["dataset", "metric", "first", "second", "verdict", "assumption", "warrant", "lead",
          "largest_error", "queries"]  # fmt: skip


class _Line(NamedTuple):
    """A row of the frame."""

    dataset: str
    method: str
    metric: str
    printed: float
    low: float
    high: float
    largest_error: float
    queries: int
    documents: int
    corpus_size: int
    corpus: str
    proves: str

    @property
    def evaluation(self) -> tuple[object, ...]:
        """Whatever two lines must share to be compared."""
        return self.dataset, self.metric, *self[self._fields.index("queries") :]


def of_corpora(
    table: Printed,
    users: int | None,
    metrics: list[Metric] | None,
    of_negatives: Mapping[str, object],
) -> Published:
    """The bounds of a table whose methods ranked one corpus for all queries.

    `of_negatives` has the options of other tables, to refuse.
    """
    for name, value in of_negatives.items():
        if value is not None:
            raise ValueError(
                f"{name} must be left out for one corpus that all queries share, got "
                f"{as_written(value)}"
            )
    rows = table.rows({"users": users, "documents": None, "corpus_size": None})
    lines = [line for row in rows for line in _lines(row, metrics)]
    if not lines:
        names = ", ".join(metric.name for metric in metrics or ())
        raise ValueError(f"metrics must be in the table for one shared corpus, got {names}")
    orders = _orders(rows, lines)
    settings = {_name(line): line.proves for line in lines} | dict(_leads(orders))
    checks = pd.DataFrame(columns=["dataset", "method", "together", "finding"])
    tables = [pd.DataFrame(lines, columns=_Line._fields), orders.drop(columns="queries"), checks]
    if not any(row.dataset for row in rows):
        tables = [frame.drop(columns="dataset") for frame in tables]
    return Published(tables[0], settings, tuple(table.notes), tables[1], tables[2])


def _orders(rows: list[Row], lines: list[_Line]) -> pd.DataFrame:
    """The order of each two methods that were evaluated alike."""
    halves = {
        (row.dataset, row.method, metric.name): half
        for row in rows
        for metric, (_, half) in row.printed.items()
    }
    pairs = [pair for pair in combinations(lines, 2) if pair[0].evaluation == pair[1].evaluation]
    orders = [_order(*pair, sum(halves[line[:3]] for line in pair)) for pair in pairs]
    return pd.DataFrame(orders, columns=_ORDER)


def _lines(row: Row, metrics: list[Metric] | None) -> list[_Line]:
    n_queries, documents, size = (row.sizes[key] for key in ("users", "documents", "corpus_size"))
    if row.corpus not in PROVES:
        raise ValueError(
            f"corpus of {row.name} must be uniform, pooled or unknown, got {as_written(row.corpus)}"
        )
    if documents >= size:
        raise ValueError(
            f"corpus_size of {row.name} must exceed its {documents:,} documents, got {size:,}: "
            "with all documents ranked the published value is exact"
        )
    lines = []
    for metric, (value, half) in row.printed.items():
        if metrics is None or metric in metrics:
            low, high = max(value - half, 0.0), min(value + half, 1.0)
            is_bounded = row.corpus != "unknown" and metric.base != "auc"
            varies_most = min(max(0.5, low), high)  # of the numbers that round to the printed one
            error = _error(varies_most * (1.0 - varies_most), n_queries)
            proves = PROVES[row.corpus].format(corpus_size=size)
            lines.append(_Line(
                row.dataset, row.method, metric.name, value, 0.0, high if is_bounded else 1.0,
                error, n_queries, documents, size, row.corpus, proves,
            ))  # fmt: skip
    return lines


def _error(variance: float, n_queries: int) -> float:
    """The standard error of a mean of `n_queries` values with this variance."""
    return sqrt(variance / (n_queries - 1)) if n_queries > 1 else inf


def _order(line_a: _Line, line_b: _Line, rounding: float) -> tuple[object, ...]:
    """A row of the orders: which method leads, and the largest standard error of its lead."""
    first, second = sorted((line_a, line_b), key=lambda line: -line.printed)
    total, lead = first.printed + second.printed, first.printed - second.printed
    total = min(max(1.0, total - rounding), total + rounding)
    variance = min(total, 2.0 - total) - max(lead - rounding, 0.0) ** 2
    error = _error(variance, line_a.queries)
    return (
        line_a.dataset, line_a.metric, first.method, second.method, UNDECIDED, "", "", lead, error,
        line_a.queries,
    )  # fmt: skip


def _name(line: _Line) -> str:
    """The kind of corpus, with its size if that is part of what to do."""
    is_sized = line.corpus == "uniform"
    return f"{line.corpus}, {line.corpus_size:,} documents in full" if is_sized else line.corpus


def _leads(orders: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """For each data set and metric, how many leads may be noise between queries."""
    for (dataset, metric_name), rows in orders.groupby(["dataset", "metric"], sort=False):
        small = int((rows["lead"] < 2.0 * rows["largest_error"]).sum())
        row = rows.nsmallest(1, "lead").iloc[0]
        scope = printable(", ".join(filter(None, [str(dataset), str(metric_name)])))
        yield (
            f"leads on {scope}",
            f"{small} of {len(rows)} are below twice the largest standard error "
            f"over queries that the published numbers allow; the smallest is that of "
            f"{printable(str(row['first']))} over {printable(str(row['second']))}, "
            f"{row['lead']:.4f} on {row['queries']:,} queries, where the standard error is at most "
            f"{row['largest_error']:.4f}: compare the values of each query",
        )

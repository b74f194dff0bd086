"""How well the exact metric of a stretched rank describes a sampled one, on the benchmark.

The stretched rank of an item at true rank r is its mean sampled rank, ``1 + (r - 1) m / (n - 1)``.
``python -m sampled_book.experiments.stretch`` compares expected sampled metrics with exact metrics
of the rank as it is, and of the stretched rank, on the bundled ranks. :func:`bundled` reads what it
wrote: reversed pairs as in :mod:`~sampled_book.experiments.reversals`, and the smallest and the
largest relative error of any recommender.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from sampled_metrics import estimators, metric
from sampled_metrics._validate import FloatArray
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle, sources
from . import reversals
from .protocols import FLOOR
from .theory import moments

METRICS = ("recall@1", "recall@5", "recall@10", "recall@20", "ndcg@10", "rr", "auc")
#: What the expected sampled metric is compared with.
TARGETS = ("exact", "stretched")
FILE = reversals.FILE.with_name("stretch.csv.gz")


def stretched(name: str, n_items: float, n_negatives: int, top: int) -> FloatArray:
    """The exact metric of the stretched rank at the true ranks 1 to `top`.

    A cut-off k keeps stretched ranks below k + 1: fewer than k negatives are above on average.

    >>> stretched("recall@1", 9, 2, 6)  # Recall@4
    array([1., 1., 1., 1., 0., 0.])
    """
    above = np.arange(top) * (n_negatives / (n_items - 1))
    if metric(name).linear:
        return 1.0 - above / n_negatives
    cutoff = metric(name).cutoff or np.inf
    return np.where(above < cutoff, metric(name).declaration.function(1.0, 1.0 + above), 0.0)


def counted(
    ranks: Mapping[str, RankIntervals], sizes: Sequence[int], metrics: Sequence[str] = METRICS
) -> pd.DataFrame:
    """A row for each metric, number of negatives and target. Negatives are distinct; the stretch
    takes the mean number of candidates, and the mean over tied places.
    """
    judged = [intervals for name, intervals in ranks.items() if name != FLOOR]
    n_items, top = judged[0].n_candidates.mean(), int(judged[0].n_candidates.max())
    most_negatives = min(int(r.n_candidates.min()) for r in judged) - 1
    rows = []
    for m in [size for size in sizes if size <= most_negatives]:
        protocol = Protocol(round(float(n_items)), m, replacement=False)
        vectors = [estimators.naive(name, protocol).values for name in metrics]
        sampled = moments(judged, np.column_stack(vectors), m, False).mean.T
        for name, expected in zip(metrics, sampled, strict=True):
            by_rank = np.concatenate([[0.0], np.cumsum(stretched(name, n_items, m, top))])
            values = {
                "exact": [r.evaluate(name).mean() for r in judged],
                "stretched": [_mean(r, by_rank) for r in judged],
            }
            for target in TARGETS:
                exact = np.array(values[target])
                counts = reversals.reversed_pairs(exact, expected)
                with np.errstate(divide="ignore"):
                    errors = expected / exact - 1.0
                key = {"metric": name, "m": m, "target": target, "recommenders": len(judged)}
                part = {kind: counts[kind] for kind in ("pairs", "reversed", "level")}
                rows.append(key | part | {"low": errors.min(), "high": errors.max()})
    return pd.DataFrame(rows)


def _mean(intervals: RankIntervals, sums: FloatArray) -> float:
    """Mean over users, and over tied places, of values whose sums over the top ranks are given."""
    first, places = intervals.n_better, intervals.n_tied + 1
    return float(((sums[first + places] - sums[first]) / places).mean())


def bundled() -> pd.DataFrame:
    """The counts of all data sets, computed before, with their groups."""
    return reversals.bundled(FILE)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """By metric and number of negatives: the share of pairs reversed against either target, a mean
    over sources, and the smallest and the largest relative error of the stretched rank.
    """
    parts = {
        target: reversals.by_group(table.assign(estimator=table["target"]), estimator=target)
        .groupby(["metric", "m"])
        .mean()
        for target in TARGETS
    }
    errors = table[table["target"] == "stretched"].groupby(["metric", "m"])
    parts |= {"low": errors["low"].min(), "high": errors["high"].max()}
    return pd.DataFrame(parts).reindex(METRICS, level="metric")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare on every data set whose ranks are bundled, and write the table."""
    parser = bundle.parser("sampled_book.experiments.stretch", main.__doc__)
    arguments = parser.parse_args(argv)

    def write() -> list[object]:
        names = sorted(sources.table()["name"])
        tables = {name: counted(benchmark.ranks(name), reversals.SIZES) for name in names}
        table = pd.concat(tables, names=["data"]).reset_index("data")
        return [bundle.write_table((arguments.output or FILE.parent) / FILE.name, table, 5)]

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())

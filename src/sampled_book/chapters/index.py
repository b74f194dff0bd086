"""The start page: Recall of X, Y and Z by the number of negatives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from sampled_metrics import Metric, metric
from sampled_metrics.metrics import recall_depth
from sampled_metrics.ranking.intervals import RankIntervals

from ..display.tables import Frame, Texts
from .inconsistency import averaged


def opening(
    intervals: Mapping[str, RankIntervals], metric: Metric | str, n_negatives: int, points: int = 20
) -> tuple[Frame, dict[str, float], tuple[int, float]]:
    """Recall of X, Y and Z in percent by the number of negatives, averaged over ties; the exact
    values; and the number of negatives from which Z is ahead of X, with their height there. At
    `n_negatives` X is ahead; `points` numbers from 10 to all.
    """
    largest = int(next(iter(intervals.values())).n_candidates.min()) - 1

    def expected(m: int) -> dict[str, float]:
        return {name: 100 * averaged(each, metric, m) for name, each in intervals.items()}

    exact = {name: 100 * float(each.evaluate(metric).mean()) for name, each in intervals.items()}
    wrong, right = n_negatives, largest  # X is ahead of Z at the first and not at the second
    while right - wrong > 1:
        middle = (wrong + right) // 2
        values = expected(middle)
        wrong, right = (wrong, middle) if values["X"] < values["Z"] else (middle, right)
    sizes = {*np.geomspace(10, largest, points).round().astype(int).tolist(), n_negatives, right}
    curves = pd.DataFrame.from_dict({m: expected(m) for m in sorted(sizes)}, orient="index")
    crossed = expected(right)
    return curves, exact, (right, (crossed["X"] + crossed["Z"]) / 2)


def depth_texts(
    intervals: Mapping[str, RankIntervals], expected: Frame, exact: Mapping[str, float], m: int
) -> Texts:
    """What the page says of sampled Recall@10, and of exact Recall at the depth that it measures.

    >>> from sampled_book.data import datasets
    >>> ranks = datasets.bundled_ranks()
    >>> expected, exact, _ = opening(ranks, "recall@10", 100)
    >>> depth_texts(ranks, expected, exact, 100)["deep"]
    '67.8, 57.5 and 55.4'
    """
    n_items = float(next(iter(intervals.values())).n_candidates.mean())
    depth = recall_depth(metric("recall@10"), n_items, m)
    deep = [100 * float(each.evaluate(f"recall@{depth}").mean()) for each in intervals.values()]
    found = {"items": f"{n_items:,.0f}", "depth": f"{depth}"}
    for key, values in (("sampled", expected.loc[m, [*intervals]]), ("deep", deep)):
        x, y, z = (f"{value:.1f}" for value in values)
        found[key] = f"{x}, {y} and {z}"
    return found | {f"exact-{name}": f"{value:.1f}" for name, value in exact.items()}

"""The start page: Recall of X, Y and Z by the number of negatives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from sampled_metrics import Metric
from sampled_metrics.ranking.intervals import RankIntervals

from ..display.tables import Frame, Texts
from .inconsistency import averaged


def opening(
    intervals: Mapping[str, RankIntervals], metric: Metric | str, n_negatives: int, points: int = 20
) -> tuple[Frame, dict[str, float], Texts]:
    """Recall of X, Y and Z in percent by the number of negatives, averaged over ties, exact values,
    and text values. At `n_negatives` the order of X and Z is wrong, and one larger number
    corrects it; `points` numbers from 10 to all.
    """
    n = next(iter(intervals.values())).n_candidates
    largest = int(n.min()) - 1
    sizes = {*np.geomspace(10, largest, points).round().astype(int).tolist(), n_negatives}
    rows = {
        m: {
            name: 100 * averaged(rank_intervals, metric, m)
            for name, rank_intervals in intervals.items()
        }
        for m in sorted(sizes)
    }
    exact = {
        name: 100 * float(rank_intervals.evaluate(metric).mean())
        for name, rank_intervals in intervals.items()
    }
    wrong, right = n_negatives, largest  # X is ahead of Z at the first and not at the second
    while right - wrong > 1:
        middle = (wrong + right) // 2
        if averaged(intervals["X"], metric, middle) < averaged(intervals["Z"], metric, middle):
            right = middle
        else:
            wrong = middle
    texts: Texts = {"m": n_negatives, "late": right, "users": n.size}
    texts["candidates"] = (float(n.mean()), ",.0f")
    for name in "XZ":
        sampled = rows[n_negatives][name]
        texts[f"exact_{name.lower()}"] = (exact[name], ".1f")
        texts[f"sampled_{name.lower()}"] = (sampled, ".1f")
        texts[f"ratio_{name.lower()}"] = (sampled / exact[name], ".1f")
    return pd.DataFrame.from_dict(rows, orient="index"), exact, texts

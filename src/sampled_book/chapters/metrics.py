"""The chapter on metrics: the value of each rank, and three recommenders' metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Texts


def plot_worths(shapes: Iterable[Metric], ranks: Mapping[str, ArrayLike], n_items: int) -> Figure:
    """Plot each metric over all ranks, and below them where the items of each recommender are.

    >>> from sampled_metrics import metric
    >>> figure = plot_worths([metric("auc"), metric("ap")], {"A": [3, 5]}, 100)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['AUC', 'AP', 'A']
    """
    figure, ax = figures.panels(height=3.9)
    grid = np.unique(np.r_[1 : min(301, n_items + 1), np.geomspace(1, n_items, 400).astype(int)])
    places = {
        "auc": (n_items // 4, (8, 8), "left"),
        "ap": (2, (-4, -16), "right"),
        "ndcg": (30, (4, 8), "left"),
    }
    for parsed_metric in shapes:
        style = {"drawstyle": "steps-mid"} if parsed_metric.k else {}
        width = 1 if parsed_metric.k else 2  # its zeros lie on those of AP
        ax.plot(grid, parsed_metric(grid, n_items), "k", lw=width, **style)
        ax.plot(grid[:10], parsed_metric(grid[:10], n_items), "k.", ms=7)
        rank, offset, alignment = places.get(
            parsed_metric.base, ((parsed_metric.k or 0) + 1, (8, 66), "left")
        )
        height = float(parsed_metric(rank, n_items))
        figures.note(ax, parsed_metric.label, (rank, height), offset, ha=alignment)
    for depth, (name, mark) in enumerate(figures.greys(ranks).items(), 1):
        item_ranks, counts = np.unique(ranks[name], return_counts=True)
        height = -0.1 * depth
        line = np.full(item_ranks.size, height)
        ax.plot(item_ranks, line, mark["marker"], color=mark["color"], ms=7, mfc="none")
        figures.note(ax, name, (item_ranks[0], height), (-9, 0), ha="right", va="center")
        for rank, count in zip(item_ranks[counts > 1], counts[counts > 1], strict=True):
            figures.note(ax, f"{count} users", (rank, height), (7, 0), va="center")
    ax.set(xscale="log", xlabel="rank of the relevant item", ylabel="value of the item")
    ax.set(ylim=(-0.4, 1.15), yticks=[0, 0.5, 1])
    return figure


def film_texts(intervals: Mapping[str, RankIntervals]) -> Texts:
    """Text values on X and Z: Recall@10 and AUC; the lead of Z in Recall@10 and of X in NDCG, with
    their standard errors over users, in percentage points; and the first cut-off k at which X has
    the higher Recall@k than Z.

    >>> even, uneven = (RankIntervals(above, [0, 0], [99, 99]) for above in ([5, 20], [0, 30]))
    >>> film_texts({"X": even, "Z": uneven})["passes"]
    21
    """
    longest = int(next(iter(intervals.values())).n_candidates.max())
    texts: Texts = {}
    for name, kind in product("XZ", ("recall@10", "auc")):
        value = float(intervals[name].evaluate(kind).mean())
        texts[f"{name.lower()}_{kind.split('@')[0]}"] = (value, ".1%")
    for kind, first, second, form in (("ndcg", "X", "Z", ".2f"), ("recall@10", "Z", "X", ".1f")):
        gap = intervals[first].evaluate(kind) - intervals[second].evaluate(kind)
        key = kind.split("@")[0]
        texts[f"{key}_gap"] = (100 * float(gap.mean()), form)
        texts[f"{key}_error"] = (100 * float(gap.std(ddof=1)) / gap.size**0.5, form)
    texts["passes"] = next(
        k
        for k in range(1, longest + 1)
        if intervals["X"].evaluate(f"recall@{k}").mean()
        > intervals["Z"].evaluate(f"recall@{k}").mean()
    )
    return texts

"""The chapter on one negative: how far expected sampled metrics are from a straight line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, metric
from sampled_metrics.consistency import order_by_negatives
from sampled_metrics.estimators import naive
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Frame, Texts


def not_linear(values: ArrayLike) -> float:
    """Share of the variance of a metric over uniform ranks 1 to n that no straight line explains, 1
    - R^2; NaN where the metric is constant.
    """
    column = np.asarray(values, dtype=float)
    if np.ptp(column) <= 1e-12:
        return float("nan")
    centred = np.arange(column.size) - (column.size - 1) / 2
    slope = centred @ column / (centred @ centred)
    rest = column - column.mean() - slope * centred
    return float(rest @ rest / (column.size * column.var()))


def linear_share(intervals: RankIntervals, n_negatives: int, seed: int) -> float:
    """R^2 of a line in the rank fitted to expected sampled AP, over a recommender's own ranks; ties
    in a random order.

    Each user's rank counts as the share p of candidates above, so that catalogues of several sizes
    can be compared. Drawn with replacement, E 1/(1 + X) is (1 - (1 - p)^(m + 1)) / ((m + 1) p).

    >>> even = np.arange(10_000)
    >>> round(linear_share(RankIntervals(even, 0 * even, 0 * even + 10_000), 2, 0), 4)
    0.9836
    """
    p = (intervals.ranks("random", seed) - 1) / (intervals.n_candidates - 1)
    first = p == 0
    m = n_negatives + 1
    expected = np.where(first, 1.0, (1 - (1 - p) ** m) / (m * np.where(first, 1.0, p)))
    return float(np.corrcoef(p, expected)[0, 1] ** 2)


def plot_bends(metrics: Sequence[str], n_items: int, sizes: Sequence[int]) -> Figure:
    """Plot expected sampled metrics, from 1 at the first rank to 0 at the last, by number of
    negatives.

    >>> figure = plot_bends(["ap"], 1_000, [1, 10])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '10']
    """
    grid = np.arange(1, n_items + 1)[:: max(1, n_items // 400)]
    figure, axes = figures.panels(
        -(-len(metrics) // 2), 2, height=2.8, sharex=True, sharey=True, squeeze=False
    )
    heights = np.linspace(0.75, 0.15, len(sizes))
    for ax, name in zip(axes.flat, metrics, strict=False):
        exact, curves = metric(name)(grid, n_items), {}
        for m in sizes:
            curve = naive(name, Protocol(n_items, m, replacement=True)).expected(grid)
            fall = curve[0] - curve[-1]
            curves[m] = (curve - curve[-1]) / (fall if fall > 1e-12 else np.nan)
        figures.by_negatives(ax, grid, curves, (exact - exact[-1]) / (exact[0] - exact[-1]))
        ax.set(title=metric(name).label, xticks=[1, n_items // 2, n_items])
        named = {f"m = {m:,}": float(height) for m, height in zip(sizes, heights, strict=True)}
        for text in figures.on_curves(ax, named).texts:
            text.set_text(text.get_text().removeprefix("m = "))
    for ax in axes.flat[len(metrics) :]:
        ax.set_visible(False)
    figure.supxlabel("true rank", fontsize=12)
    figure.supylabel("expected metric, scaled", fontsize=12)
    return figure


def limit_of_two(metric_or_name: Metric | str) -> float:
    """1 - R^2 of a linear fit to a metric's expectation with two negatives, in the limit of a large
    catalogue, where the expectation is a parabola in the rank.
    """
    first, second, third = metric(metric_or_name)([1, 2, 3], 3)
    bend = float(first - 2 * second + third)
    return bend**2 / (bend**2 + 15 * float(first - third) ** 2)


def by_negatives(metrics: Sequence[str], n_items: int, sizes: Sequence[int]) -> Frame:
    """The share of each metric's variance that no line explains. It has a row for each number of
    negatives, drawn with replacement, and one for the exact metric.

    >>> by_negatives(["ap"], 1_000, [1, 2]).round(4)["AP"].tolist()
    [0.0, 0.0164, 0.943]
    """
    ranks, rows = np.arange(1, n_items + 1), {}
    for m in sizes:
        protocol = Protocol(n_items, m, replacement=True)
        rows[f"{m:,}"] = [not_linear(naive(name, protocol).expected(ranks)) for name in metrics]
    rows["exact"] = [not_linear(metric(name)(ranks, n_items)) for name in metrics]
    labels = [metric(name).label for name in metrics]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=labels)
    return frame.rename_axis("m").reset_index()


def line_texts(n_items: int) -> Texts:
    """Text values on straight lines: AP with ten and a hundred negatives, two negatives in a large
    catalogue, and a mean NDCG of 0.8 with one negative.

    >>> texts = line_texts(10_000)
    >>> round(texts["limit_ap"][0] * 61, 9), round(texts["back"][0], 3)
    (1.0, 0.458)
    """
    second = float(metric("ndcg")(2))
    ranks = np.arange(1, n_items + 1)
    of_ten, of_hundred = (Protocol(n_items, m, replacement=True) for m in (10, 100))
    texts: Texts = {
        "n": n_items,
        "explained_ten": (1 - not_linear(naive("ap", of_ten).expected(ranks)), ".1%"),
        "explained_hundred": (1 - not_linear(naive("ap", of_hundred).expected(ranks)), ".0%"),
        "back": ((0.8 - second) / (1 - second), ".3f"),
    }
    for name in ("ap", "ndcg", "recall@1"):
        limit, key = limit_of_two(name), name.replace("@", "")
        texts |= {f"limit_{key}": (limit, ".2%"), f"explained_{key}": (1 - limit, ".1%")}
    return texts


def pair_texts(ranks: Mapping[str, ArrayLike], metrics: Sequence[str], n_items: int) -> Texts:
    """The numbers of negatives from which metrics first leave the order of AUC.

    >>> toy = {"A": [100] * 5, "C": [212, 2, 743, 5342, 1548]}
    >>> pair_texts(toy, ["ndcg", "recall@1"], 10_000)["leaves"]
    '692 for NDCG, 161 for Recall@1'
    """
    whole, leaves = Protocol(n_items, n_items - 1, replacement=True), []
    tie = " = ".join(ranks)
    by_auc = order_by_negatives(ranks, "auc", whole).exact
    for name in metrics:
        orders = order_by_negatives(ranks, name, whole)
        other = [
            m
            for m, order in zip(orders.starts, orders.orders, strict=True)
            if order not in (by_auc, tie)
        ]
        leaves += [f"{other[0]:,} for {metric(name).label}"] if other else []
    return {"leaves": ", ".join(leaves) or "none"}


def recommender_texts(recommenders: Mapping[str, RankIntervals], seed: int) -> Texts:
    """AP and AUC of each recommender with one negative, ties averaged over their orders, and the
    lead of the first in AUC, in percentage points; and the number of negatives from which the
    last is before the first in AP, with ties broken at random by `seed`, and its range over this
    seed and the nine that follow; and what a line explains over each recommender's own ranks.
    """
    texts: Texts = {}
    aucs: dict[str, float] = {}
    for name, intervals in recommenders.items():
        auc = intervals.evaluate("auc").mean()
        ap = intervals.sampled_pmf(1).mean(axis=0) @ [1, 1 / 2]
        aucs[name] = float(auc)
        texts |= {f"one_ap_{name}": (float(ap), ".3f"), f"one_auc_{name}": (float(auc), ".3f")}
    names = list(recommenders)
    texts |= {f"lead_{k}": (100 * (aucs[names[0]] - aucs[k]), ".1f") for k in names[1:]}
    candidates = recommenders[names[0]].n_candidates
    whole = Protocol(candidates, candidates.min() - 1, replacement=False)
    starts = []
    for order in range(seed, seed + 10):
        ranks = {name: recommenders[name].ranks("random", order) for name in (names[0], names[-1])}
        starts.append(order_by_negatives(ranks, "ap", whole).right_from)
    known = [start for start in starts if start]
    for name, m in (("two", 2), ("ten", 10)):
        own = [linear_share(intervals, m, seed) for intervals in recommenders.values()]
        texts[f"own_{name}"] = f"{100 * min(own):.1f}% to {100 * max(own):.1f}%"
    return texts | {
        "users": candidates.size,
        "z_from": starts[0] or "none",
        "z_from_low": min(known, default="none"),
        "z_from_high": max(known, default="none"),
    }

"""The chapter on one negative: how far expected sampled metrics are from a straight line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Protocol, metric
from sampled_metrics.consistency import order_by_negatives
from sampled_metrics.estimators import naive
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Frame, Texts


def not_linear(values: ArrayLike) -> float:
    """Share of the variance of a metric over uniform ranks 1 to n that no straight line explains;
    NaN where the metric is constant.
    """
    column = np.asarray(values, dtype=float)
    if np.ptp(column) <= 1e-12:
        return float("nan")
    centred = np.arange(column.size) - (column.size - 1) / 2
    slope = centred @ column / (centred @ centred)
    rest = column - column.mean() - slope * centred
    return float(rest @ rest / (column.size * column.var()))


def linear_share(intervals: RankIntervals, n_negatives: int, seed: int) -> float:
    """Share of the variance of expected sampled AP that a line in the rank explains, over a
    recommender's own ranks; ties in a random order.

    Each user's rank counts as theta, the share of the other candidates that are above, so that
    catalogues of several sizes can be compared. Drawn with replacement, E 1/(1 + X) is
    (1 - (1 - theta)^(m + 1)) / ((m + 1) theta).

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
            if text.get_position()[0] < 0.05 * n_items:  # beside the vertical axis
                text.set_horizontalalignment("left")
    for ax in axes.flat[len(metrics) :]:
        ax.set_visible(False)
    figure.supxlabel("true rank", fontsize=12)
    figure.supylabel("expected metric, scaled", fontsize=12)
    return figure


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
    """Shares of the variance of expected sampled AP that a straight line explains, with ten and
    with a hundred negatives, over equally weighted ranks.

    >>> round(line_texts(10_000)["explained_ten"][0], 3)
    0.749
    """
    ranks, texts = np.arange(1, n_items + 1), {}
    for name, m in (("ten", 10), ("hundred", 100)):
        ap = naive("ap", Protocol(n_items, m, replacement=True)).expected(ranks)
        texts[f"explained_{name}"] = (1 - not_linear(ap), ".0%")
    return texts


def recommender_texts(recommenders: Mapping[str, RankIntervals], seed: int) -> Texts:
    """AP of the first and the last recommender with one negative, ties averaged over their orders,
    and the lead of the first in AUC, in percentage points; and the number of negatives from which
    the last is before the first in AP, with ties broken at random by `seed`.
    """
    names, aucs = list(recommenders), {k: v.evaluate("auc").mean() for k, v in recommenders.items()}
    texts: Texts = {
        f"lead_{name}": (100 * float(aucs[names[0]] - aucs[name]), ".1f") for name in names[1:]
    }
    for name in (names[0], names[-1]):
        ap = recommenders[name].sampled_pmf(1).mean(axis=0) @ [1, 1 / 2]
        texts[f"one_ap_{name}"] = (float(ap), ".3f")
    candidates = recommenders[names[0]].n_candidates
    whole = Protocol(candidates, candidates.min() - 1, replacement=False)
    ranks = {name: recommenders[name].ranks("random", seed) for name in (names[0], names[-1])}
    return texts | {"z_from": order_by_negatives(ranks, "ap", whole).right_from or "none"}

"""Chapter 4: how far expected sampled metrics are from a straight line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, metric
from sampled_metrics.estimators import naive

from ..display import figures


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
    return figure


def limit_of_two(metric_or_name: Metric | str) -> float:
    """1 - R^2 of a linear fit to a metric's expectation with two negatives, in the limit of a large
    catalogue, where the expectation is a parabola in the rank.
    """
    first, second, third = metric(metric_or_name)([1, 2, 3], 3)
    bend = float(first - 2 * second + third)
    return bend**2 / (bend**2 + 15 * float(first - third) ** 2)

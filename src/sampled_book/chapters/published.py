"""Figures of the chapter on published tables, and the table that a paper would publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sampled_metrics import RankIntervals

from ..display import figures
from ..display.tables import Frame


def paper(log: Frame, columns: Sequence[str]) -> Frame:
    """The table of a paper on a log: averages to four digits, also over the orders of ties.

    >>> log = pd.DataFrame({"recommender": ["A", "A"], "n_better": [0, 9], "n_tied": [0, 3]})
    >>> paper(log.assign(n_negatives=20), ["HR@10"]).to_numpy().tolist()
    [['A', '0.6250']]
    """
    ranks = RankIntervals(log["n_better"], log["n_tied"], log["n_negatives"] + 1)
    values = pd.DataFrame({name: ranks.evaluate(name, "mean") for name in columns}, log.index)
    averages = values.groupby(log["recommender"]).mean()
    return averages.map("{:.4f}".format).reset_index(names="method")


def plot_paper(rows: Frame, exact: Mapping[str, float], label: str) -> Figure:
    """Plot the identification interval of each recommender (grey bars), its published average
    (open) and its exact value (filled), in the recommender's colour.

    >>> ends = {"low": 0.0, "high": 0.4, "low_decreasing": 0.1, "high_decreasing": 0.3}
    >>> row = pd.DataFrame({"method": ["A"], "printed": 0.6} | ends)
    >>> figure = plot_paper(row, {"A": 0.2}, "HR@10")
    >>> [round(float(bar.get_width()), 2) for bar in figure.axes[0].patches]
    [0.4, 0.2]
    """
    figure, ax = figures.panels(1, 1, height=2.5)
    names = rows["method"].to_list()
    for end, grey in (("", "#d9d9d9"), ("_decreasing", "#adadad")):
        low, high = rows[f"low{end}"], rows[f"high{end}"]
        ax.barh(names, high - low, 0.6, low, color=grey)
    for (name, mark), printed in zip(figures.marks(names).items(), rows["printed"], strict=True):
        point = {"marker": mark["marker"], "color": mark["color"], "ms": 9}
        ax.plot([exact[name]], [name], **point)
        ax.plot([printed], [name], **point, mfc="none")
        ax.annotate(f"{name}: published", (printed + 0.015, name), color=mark["color"], va="center")
    top = names[0]
    ax.annotate("exact", (exact[top], top), (0, 17), textcoords="offset points", ha="center")
    ax.annotate("interval", (0.6 * rows["high"].iloc[0], top), (0, 17), textcoords="offset points")
    ax.set(xlim=(0, 0.9), ylim=(len(names) - 0.5, -0.85), xlabel=label, yticks=[])
    ax.grid(False, axis="y")
    return figure


def plot_bounds(rows: Frame, label: str) -> Figure:
    """Plot each method's identification intervals from its published averages, the published value
    among negatives (open) and the one among all items (filled).

    >>> row = pd.DataFrame({"method": ["A"], "low": 0.0, "high": 0.4, "exact": 0.1, "printed": 0.6})
    >>> figure = plot_bounds(row.assign(low_decreasing=0.05, high_decreasing=0.3), "HR@10")
    >>> [round(float(bar.get_width()), 2) for bar in figure.axes[0].patches]
    [0.4, 0.25]
    """
    figure, ax = figures.panels(1, 1, height=3.1)
    for end, grey in (("", "#d9d9d9"), ("_decreasing", "#adadad")):
        low, high = rows[f"low{end}"], rows[f"high{end}"]
        ax.barh(rows["method"], high - low, 0.8, low, color=grey)
    ax.plot(rows["exact"], rows["method"], "o", color="black", ms=6)
    ax.plot(rows["printed"], rows["method"], "o", color="black", ms=6, mfc="none")
    for name, place in (("all items", "exact"), ("99 negatives", "printed")):
        at = rows[place].iloc[0], rows["method"].iloc[0]
        ax.annotate(name, at, (0, 12), textcoords="offset points", ha="center")
    ax.set_ylim(len(rows) - 0.5, -1.2)
    ax.grid(False, axis="y")
    ax.set_xlabel(label)
    return figure


def plot_first(
    first: NDArray[np.float64],
    k: int,
    n_candidates: int,
    exact: Mapping[str, float],
    reported: Mapping[str, float],
) -> Figure:
    r"""Plot how often an item comes first, by its true rank (n,), and the orders of recommenders by
    exact Recall@k and by the reported share of users whose item comes first.

    >>> shares = {"A": 0.1, "B": 0.2}, {"A": 0.4, "B": 0.3}
    >>> figure = plot_first(np.linspace(1, 0, 100), 10, 20, *shares)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['Recall@10', 'Recall@5', 'Hit@1\namong\n20']
    """
    ranks, deep = np.arange(1, first.size + 1), round(first.size / n_candidates)
    figure, (left_ax, right_ax) = figures.panels(1, 2, height=3.6)
    left_ax.plot(ranks, first, color="black", linewidth=2.2)
    for depth, style, height in ((k, "--", 0.06), (deep, ":", 0.9)):
        left_ax.plot(ranks, ranks <= depth, style, color="#5b5b5b", drawstyle="steps-post")
        left_ax.annotate(f"Recall@{depth}", (depth * 1.2, height), fontsize=10)
    place = max(round(first.size / n_candidates / 5), 1)
    left_ax.annotate(
        f"Hit@1\namong\n{n_candidates}",
        xy=(place, first[place - 1]),
        xytext=(1.3, 0.4),
        fontsize=10,
        arrowprops={"arrowstyle": "-", "color": "black", "linewidth": 1},
    )
    left_ax.set(xscale="log", xlabel="true rank", ylabel="probability of a hit")
    figures.slopes(right_ax, {f"Recall@{k}": exact, f"Hit@1 among {n_candidates}": reported})
    return figure

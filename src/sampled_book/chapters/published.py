"""Figures and counts of the chapter on published tables: bounds from one half of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import Assumption, _confidence, metric
from sampled_metrics.published_tables import STEEPNESS

from ..display import figures
from ..display.tables import Frame, Texts

#: How the columns end that have the bounds under each assumption.
ENDINGS = {
    _confidence.NONE: "",
    Assumption().name: "_decreasing",
    Assumption(steepness=STEEPNESS).name: "_steep",
}


def paper(log: Frame, rng: np.random.Generator, columns: Sequence[str]) -> Frame:
    """The table that a paper would print of a log: averages to four digits, ties broken at random.

    >>> log = pd.DataFrame({"recommender": ["A", "A"], "n_better": [0, 10], "n_tied": 0})
    >>> paper(log, np.random.default_rng(0), ["HR@10", "NDCG@10"]).to_numpy().tolist()
    [['A', '0.5000', '0.5000']]
    """
    ranks = 1 + log["n_better"] + rng.integers(log["n_tied"] + 1)
    values = pd.DataFrame({name: metric(name)(ranks, 10**6) for name in columns}, log.index)
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
    """Plot each method's identification intervals from its published averages, and the exact value.

    >>> row = pd.DataFrame({"method": ["A"], "low": 0.0, "high": 0.4, "exact": 0.1})
    >>> figure = plot_bounds(row.assign(low_decreasing=0.05, high_decreasing=0.3), "HR@10")
    >>> [round(float(bar.get_width()), 2) for bar in figure.axes[0].patches]
    [0.4, 0.25]
    """
    figure, ax = figures.panels(1, 1, height=3.1)
    for end, grey in (("", "#d9d9d9"), ("_decreasing", "#adadad")):
        low, high = rows[f"low{end}"], rows[f"high{end}"]
        ax.barh(rows["method"], high - low, 0.8, low, color=grey)
    ax.plot(rows["exact"], rows["method"], "o", color="black", ms=6)
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    ax.set_xlabel(label)
    return figure


def inside(rows: Frame, end: str = "") -> Frame:
    """Whether each exact value is within the bounds of one ending of :data:`ENDINGS`.

    >>> inside(pd.DataFrame({"low": [0.1, 0.1], "exact": [0.2, 0.4], "high": 0.3})).tolist()
    [True, False]
    """
    is_inside: pd.Series = rows["exact"].between(rows[f"low{end}"], rows[f"high{end}"])
    return is_inside


def assumptions_table(rows: Frame, orders: Frame) -> Frame:
    """By assumption: how many exact values are within the bounds, how wide these are, and how many
    orders they settle (in `orders`, an undecided order has an empty assumption).

    >>> both = ("low", 0.1), ("high", 0.3)
    >>> ends = {f"{side}{end}": [x] for end in ENDINGS.values() for side, x in both}
    >>> known = pd.DataFrame({"assumption": ["none", "decreasing at the top", ""]})
    >>> found = assumptions_table(pd.DataFrame(ends | {"exact": [0.2]}), known)
    >>> dict(zip(found["assumption"], found["orders settled"]))
    {'none': 1, 'decreasing at the top': 2, 'at most 4 times per doubling': 2}
    """
    lines, settled = [], 0
    for name, end in ENDINGS.items():
        settled += int((orders["assumption"] == name).sum())
        is_inside, width = inside(rows, end), (rows[f"high{end}"] - rows[f"low{end}"]).median()
        lines.append((name, int(is_inside.sum()), int((~is_inside).sum()), width, settled))
    columns = ["assumption", "inside", "outside", "median width", "orders settled"]
    return pd.DataFrame(lines, columns=columns)


def texts(rows: Frame, orders: Frame) -> Texts:
    """Text values on the intervals from one half of S3-Rec's table against the other half;
    `orders` as in :func:`assumptions_table`.
    """
    outside = rows[~inside(rows, "_decreasing")]
    outside_names = sorted({f"{row.method} on {row.dataset}" for row in outside.itertuples()})
    return {
        "pub_settled": int((orders["assumption"] != "").sum()) or "none",
        "pub_known": len(orders),
        "pub_values": len(rows),
        "pub_inside": int(inside(rows).sum()),
        "pub_n_outside": len(outside),
        "pub_outside": " and ".join(outside_names) or "none",
    }

"""Figures and counts of the chapter on published tables: bounds from one half of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sampled_metrics import Assumption, _confidence
from sampled_metrics.published_tables import STEEPNESS

from ..display import figures
from ..display.tables import Frame, Texts

#: How the columns end that have the bounds under each assumption.
ENDINGS = {
    _confidence.NONE: "",
    Assumption().name: "_decreasing",
    Assumption(steepness=STEEPNESS).name: "_steep",
}


def plot_bounds(rows: Frame, label: str) -> Figure:
    """Plot each method's bounds from its published averages, the guess, and the exact value.

    >>> row = pd.DataFrame({"method": ["A"], "low": 0.0, "high": 0.4, "exact": 0.1, "guess": 0.2})
    >>> figure = plot_bounds(row.assign(low_decreasing=0.05, high_decreasing=0.3), "HR@10")
    >>> [round(float(bar.get_width()), 2) for bar in figure.axes[0].patches]
    [0.4, 0.25]
    """
    figure, ax = figures.panels(1, 1, height=3.1)
    for end, grey in (("", "#d9d9d9"), ("_decreasing", "#adadad")):
        low, high = rows[f"low{end}"], rows[f"high{end}"]
        ax.barh(rows["method"], high - low, 0.8, low, color=grey)
    ax.plot(rows["exact"], rows["method"], "o", color="black", ms=6)
    ax.plot(rows["guess"], rows["method"], "o", color="#0b3c6f", ms=6, mfc="none")
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
    orders they settle (in `orders`, an unknown order has an empty assumption).

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


def times_off(values: Frame, exact: Frame) -> float:
    """Median factor by which values are off, too high or too low.

    >>> times_off(pd.Series([2.0, 0.25, 3.0]), pd.Series([1.0, 1.0, 1.0])).__round__(6)
    3.0
    """
    return float(np.exp(np.abs(np.log(values / exact))).median())


def turned_orders(values: NDArray[np.float64], exact: NDArray[np.float64]) -> int:
    """Pairs whose order by values is the opposite of the exact one.

    >>> turned_orders(np.array([0.3, 0.2, 0.1]), np.array([0.1, 0.3, 0.2]))
    2
    """
    product = np.subtract.outer(values, values) * np.subtract.outer(exact, exact)
    return int((np.triu(product, 1) < 0).sum())


def texts(rows: Frame, orders: Frame, twins: Frame) -> Texts:
    """Text values on bounds and on the guess, against published metrics of all items: `rows` of
    S3-Rec's table, `twins` of models that were evaluated both ways, `orders` as in
    :func:`assumptions_table`.
    """
    exact, shaped = rows["exact"], inside(rows, "_decreasing")
    parts = [part for _, part in rows.groupby(["dataset", "metric"])]
    n_reversed = {
        name: sum(
            turned_orders(table[name].to_numpy(), table["exact"].to_numpy()) for table in parts
        )
        for name in ("guess", "printed")
    }
    outside = rows[~shaped]
    hits = outside[outside["metric"] == "hit@10"]
    example = hits.iloc[0] if len(hits) else rows.iloc[0]
    outside_names = sorted({f"{row.method} on {row.dataset}" for row in outside.itertuples()})
    return {
        "pub_settled": int((orders["assumption"] != "").sum()) or "none of the",
        "pub_known": len(orders),
        "pub_values": len(rows),
        "pub_outside": " and ".join(outside_names) or "none",
        "pub_out_exact": (float(example["exact"]), ".4f"),
        "pub_out_low": (float(example["low_decreasing"]), ".4f", "down"),
        "pub_out_printed": (float(example["printed"]), ".2f"),
        "pub_factor": (times_off(rows["guess"], exact), ".1f"),
        "pub_naive": (times_off(rows["printed"], exact), ".0f"),
        "pub_middle": (
            times_off(np.sqrt(rows["low_decreasing"] * rows["high_decreasing"]), exact),
            ".1f",
        ),
        "pub_low": int((rows["guess"] < exact).sum()),
        "pub_wrong": n_reversed["guess"],
        "pub_wrong_naive": n_reversed["printed"],
        "pub_total": sum(len(table) * (len(table) - 1) // 2 for table in parts),
        "pub_games": len(twins),
        "pub_games_inside": int(inside(twins, "_steep").sum()),
    }


def plot_guesses(rows: Frame) -> Figure:
    """Plot the guess of each value against the published one of all items, by data set.

    >>> figure = plot_guesses(pd.DataFrame({"dataset": ["D"], "exact": [0.01], "guess": [0.02]}))
    >>> len(figure.axes[0].lines)
    2
    """
    figure, ax = figures.panels(1, 1, height=3.6)
    for (name, part), marker in zip(rows.groupby("dataset", sort=False), "os^Dv", strict=False):
        ax.plot(part["exact"], part["guess"], marker, ms=4, alpha=0.8, label=name)
    ends = [2e-3, 0.1]
    ax.plot(ends, ends, color="black", linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="printed, among all items", ylabel="guess")
    ax.legend()
    return figure

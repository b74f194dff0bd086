"""The figure and text values of the chapter on whether the exact metric is the truth."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter

from ..display import figures
from ..display.tables import Frame, Texts
from ..experiments import complete_data

#: The recommenders whose reported values are plotted, and their short names.
SHOWN = {"taste, noise 0.5": "best", "popularity": "popular", "item cosine": "item cosine"}
#: Where each set-up's name stands: negatives, and the side of the curve.
_PLACES = {
    complete_data.AT_RANDOM: (50, "right", "above"),
    complete_data.BY_POPULARITY: (50, "right", "above"),
    complete_data.FRONT_PAGE: (200, "left", "above"),
    complete_data.OLD_LISTS: (500, "left", "below"),
}
#: Numbers of negatives for the curves of values, one by one where they cross the true value.
FINE = (*range(20, 260), *range(260, 990, 27), 989)
_TICKS = (20, 50, 100, 200, 500, 1000)


def plot(orders: Mapping[str, Frame], levels: Frame) -> Figure:
    """Plot the share of pairs in the wrong order by number of negatives, a curve for each set-up
    of `complete_data.orders`, with crosses for the exact metric at the depth 10 (n - 1)/m; and the
    reported value as a multiple of the true one, from `complete_data.values` with the sizes `FINE`.
    """
    figure, (order_ax, value_ax) = figures.panels(1, 2, height=3.8)
    lines = {name: 100 * table["sampled"] for name, table in orders.items()}
    negatives = next(iter(lines.values())).index.to_numpy()
    looks = figures.greys(lines)
    for (name, look), line in zip(looks.items(), lines.values(), strict=True):
        order_ax.plot(negatives, line, label=name, **{**look, "marker": ""})
        order_ax.plot(negatives, 100 * orders[name]["deeper"], "x", color=look["color"], ms=7)
    order_ax.set(ylim=(-1, 50), ylabel="pairs in the wrong order, %")
    multiples = levels["sampled"].div(levels["true"].iloc[:, 0], axis=0)
    ratios = {short: multiples.loc[name] for name, short in SHOWN.items()}
    ratio_looks = figures.greys(ratios)
    figures.curves(value_ax, multiples.columns, ratios, ratio_looks)
    value_ax.axhline(1, color="black", linewidth=1)
    value_ax.set(yscale="log", ylabel="reported / complete NDCG@10")
    value_ax.yaxis.set_major_locator(FixedLocator([0.1, 0.2, 0.5, 1, 2, 5, 10]))
    value_ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for ax in (order_ax, value_ax):
        ax.set(xscale="log", xlabel="negatives $m$", xlim=(17, 1150))
        ax.xaxis.set_major_locator(FixedLocator(_TICKS))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.tick_params(axis="x", labelsize=9)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_formatter(NullFormatter())
    for name, look in looks.items():
        m, side, height = _PLACES[name]
        _name(order_ax, name, (m, lines[name][m]), look["color"], side, height)
    sides = ("left", "below"), ("right", "above"), ("right", "above")
    places = (50, 50), (20, 17), (100, 100)  # the second name begins left of its curve
    for (m, left), (name, look), beside in zip(places, ratio_looks.items(), sides, strict=True):
        _name(value_ax, name, (left, ratios[name][m]), look["color"], *beside)
    return figure


def _name(
    ax: Axes, name: str, at: tuple[float, float], colour: str, side: str, height: str
) -> None:
    """Write a curve's name beside the point `at`, to its right or left, above or below it."""
    x, alignment = (8, "left") if side == "right" else (-5, "right")
    y, vertical = (4, "bottom") if height == "above" else (-5, "top")
    style = {"color": colour, "fontsize": 10, "fontweight": "bold"}
    figures.note(ax, name, at, (x, y), ha=alignment, va=vertical, **style)


def orders_table(orders: Mapping[str, Frame]) -> Frame:
    """Share of pairs in the wrong order: a row for each set-up, a column for each number of
    negatives; the last one is the exact metric.
    """
    shares = pd.DataFrame({name: table["sampled"] for name, table in orders.items()}).T
    last = shares.columns[-1]
    shares.columns = [f"m = {m:,}" if m != last else "exact" for m in shares.columns]
    return shares.rename_axis("Set-up").reset_index()


def texts(orders: Mapping[str, Frame], levels: Frame, crossings: pd.Series) -> Texts:
    """Shares of reversed pairs with the fewest negatives and all, by set-up; the largest gap of
    these shares between the sampled metric and the exact one at the same depth; which part of the
    true NDCG@10 the exact one reports; and between which numbers of negatives the reported value
    falls below the true one.
    """
    found: Texts = {}
    for name, table in orders.items():
        key = name.replace(" ", "-")
        found[f"exact-{key}"] = f"{100 * table['sampled'].iloc[-1]:.0f}%"
        found[f"sampled-{key}"] = f"{100 * table['sampled'].iloc[0]:.0f}%"
    gaps = [(table["sampled"] - table["deeper"]).abs().max() for table in orders.values()]
    found["exact-depth-gap"] = f"{100 * max(gaps):.1f}"
    multiples = levels["exact"].iloc[:, 0] / levels["true"].iloc[:, 0]
    found["exact-part-least"] = f"{100 * multiples.min():.0f}%"
    found["exact-part-most"] = f"{100 * multiples.max():.0f}%"
    found["exact-crossing-least"] = f"{crossings.min():.0f}"
    found["exact-crossing-most"] = f"{crossings.max():.0f}"
    return found

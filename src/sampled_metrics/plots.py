"""The look of all figures, and those that a report draws.

Every mark is told apart three ways (colour, line style, marker), so that figures survive
greyscale, and text is large enough to be read at the width of a phone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

#: Width of every figure in inches: at 12 points, text is still 9 pixels high on a phone.
WIDTH = 6.0

#: Colour, line style and marker of the first, second, ... thing compared; the colours differ in
#: lightness too.
MARKS: tuple[dict[str, Any], ...] = (
    {"color": "#0b3c6f", "linestyle": "-", "marker": "o"},
    {"color": "#d1581a", "linestyle": "--", "marker": "s"},
    {"color": "#3f9c6f", "linestyle": "-.", "marker": "^"},
    {"color": "#8e4585", "linestyle": ":", "marker": "D"},
    {"color": "#c9a100", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
    {"color": "#5b5b5b", "linestyle": (0, (1, 2)), "marker": "x"},
)

STYLE: dict[str, Any] = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.labelsize": 12,
    "legend.fontsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "sampled-metrics",
}


def marks(names: Any) -> dict[str, dict[str, Any]]:
    """Give each name its colour, line style and marker, in order.

    Examples
    --------
    >>> marks(["A", "B"])["B"]["marker"]
    's'
    """
    return dict(zip(names, cycle(MARKS), strict=False))


def curves(ax: Axes, x: ArrayLike, lines: Mapping[str, ArrayLike]) -> Axes:
    """Draw named curves over the same abscissa, with a marker here and there along each.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    x : array_like, shape (p,)
    lines : mapping of str to array_like, shape (p,)
        Ordinates of each curve; its name goes to the legend. One that is NaN throughout keeps its
        place in the order of colours, but nothing is drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> [line.get_label() for line in curves(ax, [1, 2], {"A": [0, 1], "B": [1, 0]}).lines]
    ['A', 'B']
    """
    for i, (name, mark) in enumerate(marks(lines).items()):
        # Matplotlib cannot space markers along a curve without points.
        drawn = np.isfinite(np.asarray(lines[name], dtype=float)).any()
        every = (0.03 + 0.04 * i, 0.25) if drawn else None
        ax.plot(x, lines[name], label=name, markevery=every, ms=6, **mark)
    return ax


def intervals(
    ax: Axes,
    found: Mapping[str, Mapping[str, tuple[float, float, float]]],
    *possible: Mapping[str, tuple[float, float]],
) -> Axes:
    """Draw values with their intervals line by line, and behind them what is possible at all.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    found : mapping of str to mapping of str to three of float
        For each recommender, from top to bottom, and below its name for each estimator the value
        (a marker) and the ends of its interval (a line), NaN where there is none.
    possible : mapping of str to two of float
        For recommenders that have one, the ends of a wider interval: a grey bar behind all lines
        of the recommender; each further one is darker, and drawn over the one before.

    Notes
    -----
    What is below -0.1 or above 1.1, as no metric is, is cut off: an arrowhead at that edge stands
    for a marker beyond it.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> ax = intervals(ax, {"A": {"naive": (0.3, 0.2, 0.4)}}, {"A": (0.0, 0.5)})
    >>> [float(line.get_xdata()[0]) for line in ax.lines], float(ax.patches[0].get_width())
    ([0.3], 0.5)
    """
    names = dict.fromkeys(name for values in found.values() for name in values)
    styles = marks(name for name in names if name != "exact")
    styles["exact"] = {"color": "black", "marker": "o"}  # as in every figure
    lines: list[tuple[str, str]] = []  # from top to bottom, what stands beside each
    for recommender, values in found.items():
        top = len(lines)
        lines.append((recommender, "bold"))
        for place, (name, (value, low, high)) in enumerate(values.items(), start=top + 1):
            mark = styles[name]
            ax.hlines(place, low, high, color=mark["color"], linewidth=1.6)
            beyond = "<" if value < -0.1 else ">" if value > 1.1 else mark["marker"]
            at = min(max(value, -0.1), 1.1)
            ax.plot(at, place, beyond, color=mark["color"], ms=6, clip_on=at == value)
            lines.append((name, "normal"))
        middle, height = (top + len(lines) - 1) / 2, len(lines) - top - 0.1
        for bars, grey in zip(possible, ("#d9d9d9", "#adadad"), strict=False):
            if recommender in bars:
                low, high = bars[recommender]
                ax.barh(middle, high - low, height, low, color=grey, linewidth=0)
    ax.set_yticks(range(len(lines)), [text for text, _ in lines])
    for label, (_, weight) in zip(ax.get_yticklabels(), lines, strict=True):
        label.set_fontweight(weight)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    lowest, highest = ax.get_xlim()
    ax.set_xlim(max(lowest, -0.1), min(highest, 1.1))
    ax.grid(False, axis="y")
    return ax

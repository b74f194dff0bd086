"""The look of all figures, and those that a report draws.

Every mark is told apart three ways (colour, line style, marker), so that figures survive
greyscale, and text is large enough to be read at the width of a phone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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


#: The exact value, in every figure.
EXACT: dict[str, Any] = {"color": "black", "linestyle": "-", "marker": "o", "linewidth": 2.2}
#: Colour, line style and marker of what is reported for a sampled metric, wherever it is drawn.
ESTIMATORS: dict[str, dict[str, Any]] = {
    "uncorrected": {"color": "#b3123c", "linestyle": "--", "marker": "X"},
    "rank estimate": {"color": "#7a5c00", "linestyle": "-.", "marker": "P"},
    "CLS": {"color": "#00798c", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "d"},
    "bias-variance": {"color": "#8b4fc0", "linestyle": (0, (3, 1)), "marker": "o"},
    "bias-variance, fitted prior": {"color": "#c23fb0", "linestyle": (0, (2, 1)), "marker": "*"},
    "least bias": {"color": "#4a4a4a", "linestyle": (0, (1, 1)), "marker": "s"},
    "maximum likelihood": {"color": "#a85b00", "linestyle": (0, (4, 2)), "marker": "^"},
    "maximum entropy": {"color": "#2a5fd0", "linestyle": (0, (6, 1, 1, 1)), "marker": "v"},
}
#: What the same are called elsewhere.
_ALIASES = {"naive": "uncorrected", "reported": "uncorrected", "printed": "uncorrected"}
_ALIASES |= {"monotone": "CLS", "corrected": "bias-variance", "estimate": "bias-variance"}
_ALIASES |= {"ML": "maximum likelihood", "entropy": "maximum entropy", "all items": "exact"}
#: Bias-variance corrections with a weight in their name: the darker, the less the variance weighs.
_LESS_AND_LESS = (("#b58ad8", ":"), ("#8b4fc0", (0, (3, 1))), ("#5f2496", "-"), ("#33084f", "--"))


def marks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each name its colour, line style and marker.

    Parameters
    ----------
    names : iterable of str
        "exact" is solid black. An estimator, by its name in the package or in the book, has the
        marks of :data:`ESTIMATORS`, and "BV" with a weight those of a bias-variance correction.
        All others take those of :data:`MARKS` in order.

    Examples
    --------
    >>> found = marks(["A", "naive", "B", "exact"])
    >>> found["B"]["marker"], found["exact"]["color"], found["naive"] == ESTIMATORS["uncorrected"]
    ('s', 'black', True)
    """
    known = ESTIMATORS | {"exact": EXACT}
    others, free = cycle(MARKS), list(range(len(_LESS_AND_LESS)))
    found = {}
    for name in names:
        if _ALIASES.get(name, name) in known:
            found[name] = known[_ALIASES.get(name, name)]
        elif weighted := re.fullmatch(r"BV ([\d.e-]+)", name):
            weight = float(weighted[1])
            at = min(free or range(4), key=lambda i: abs(i + np.log10(weight)))
            free = [i for i in free if i != at]
            colour, line = _LESS_AND_LESS[at]
            found[name] = {"color": colour, "linestyle": line, "marker": "o"}
        else:
            found[name] = next(others)
    return found


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
    styles = marks(names)
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
    ax.use_sticky_edges = False  # an axis where a grey bar begins would hide that it begins
    ax.autoscale_view(scaley=False)
    lowest, highest = ax.get_xlim()
    ax.set_xlim(max(lowest, -0.1), min(highest, 1.1))
    ax.grid(False, axis="y")
    return ax

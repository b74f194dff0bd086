"""What the chapters draw. Each function takes the axes to draw on and returns them.

Every mark is told apart three ways (colour, line style, marker), so that figures survive
greyscale, and text is large enough to be read at the width of a phone.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

#: Width of every figure in inches: at 12 points, text is still 9 pixels high on a phone.
WIDTH = 6.0

#: Colour, line style and marker of the first, second, ... thing compared; the colours differ in
#: lightness too.
MARKS: tuple[dict[str, str], ...] = (
    {"color": "#0b3c6f", "linestyle": "-", "marker": "o"},
    {"color": "#d1581a", "linestyle": "--", "marker": "s"},
    {"color": "#3f9c6f", "linestyle": "-.", "marker": "^"},
    {"color": "#8e4585", "linestyle": ":", "marker": "D"},
    {"color": "#c9a100", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},  # type: ignore[dict-item]
    {"color": "#5b5b5b", "linestyle": (0, (1, 2)), "marker": "x"},  # type: ignore[dict-item]
)

_STYLE: dict[str, Any] = {
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


def use_style() -> None:
    """Set matplotlib up for the book: the look of figures, and SVG output in notebooks.

    Examples
    --------
    >>> use_style()
    >>> mpl.rcParams["font.size"]
    12.0
    """
    plt.style.use(_STYLE)
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:  # outside a notebook there is no inline backend to set
        return
    set_matplotlib_formats("svg", metadata={"Date": None})  # type: ignore[no-untyped-call]


def panels(
    rows: int = 1, columns: int = 1, height: float = 3.4, **kwargs: Any
) -> tuple[Figure, Any]:
    """Make a figure of the book's width and its axes, as :func:`matplotlib.pyplot.subplots`.

    Parameters
    ----------
    rows, columns : int
        Panels; more than two columns cannot be read on a phone.
    height : float
        Height of one row, inches.
    **kwargs
        Passed on to ``subplots``.

    Examples
    --------
    >>> figure, axes = panels(2, 2)
    >>> float(figure.get_figwidth()), axes.shape
    (6.0, (2, 2))
    >>> plt.close(figure)
    """
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, height * rows), **kwargs)
    return figure, axes


def marks(names: Any) -> dict[str, dict[str, str]]:
    """Give each name its colour, line style and marker, in order.

    Examples
    --------
    >>> marks(["A", "B"])["B"]["marker"]
    's'
    """
    return dict(zip(names, cycle(MARKS), strict=False))

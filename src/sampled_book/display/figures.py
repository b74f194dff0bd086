"""The figures of the chapters: each function draws on the given axes and returns them.

Marks differ in colour, line style and marker, so that figures survive greyscale. Text is large
enough to be read at the width of a phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from sampled_metrics.report.figures import MARKS, STYLE, WIDTH, Looks, intervals, marks

__all__ = ["MARKS", "WIDTH", "intervals", "marks"]

#: Looks of series that are none of X, Y and Z, which alone have the first three colours.
GREYS: tuple[dict[str, Any], ...] = (
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": "#4d4d4d", "linestyle": "--", "marker": "s"},
    {"color": "#767676", "linestyle": "-.", "marker": "^"},
    {"color": "black", "linestyle": ":", "marker": "D"},
    {"color": "#4d4d4d", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
)


def curves(
    ax: Axes, x: ArrayLike, lines: Mapping[str, ArrayLike], looks: Looks | None = None
) -> Axes:
    """Plot named curves over common abscissas `x`, each with a few markers at its own places.

    A curve that is NaN throughout keeps its place in the order of colours. `looks` are those of
    :func:`marks` unless they are given.
    """
    for i, (name, mark) in enumerate((looks or marks(lines)).items()):
        # Matplotlib cannot space markers along a curve without points.
        has_points = np.isfinite(np.asarray(lines[name], dtype=float)).any()
        marker_spacing = (0.03 + 0.04 * i, 0.25) if has_points else None
        ax.plot(x, lines[name], label=name, markevery=marker_spacing, ms=6, **mark)
    return ax


def greys(names: Iterable[str]) -> Looks:
    """Looks in black and grey, in the order of the names.

    >>> [look["color"] for look in greys("AB").values()]
    ['black', '#4d4d4d']
    """
    return dict(zip(names, cycle(GREYS), strict=False))


def use_style() -> None:
    """Set matplotlib up for the book: the look of figures, and SVG output in notebooks.

    >>> use_style()
    >>> plt.rcParams["font.size"]
    12.0
    """
    plt.style.use(STYLE)
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:  # outside a notebook there is no inline backend to set
        return
    set_matplotlib_formats("svg", metadata={"Date": None})  # type: ignore[no-untyped-call]


def panels(
    rows: int = 1, columns: int = 1, height: float = 3.4, **kwargs: Any
) -> tuple[Figure, Any]:
    """Make a figure of the book's width and its axes, as :func:`matplotlib.pyplot.subplots`.
    `height` is that of one row, in inches. More than two columns cannot be read on a phone.
    """
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, height * rows), **kwargs)
    return figure, axes


def grid(count: int, height: float, **kwargs: Any) -> tuple[Figure, list[Any]]:
    """A figure with so many panels, two in a row.

    >>> figure, axes = grid(3, 2.9)
    >>> len(axes), len(figure.axes)
    (3, 3)
    """
    figure, axes = panels(-(-count // 2), min(2, count), height, squeeze=False, **kwargs)
    for ax in axes.flat[count:]:
        ax.remove()
    return figure, list(axes.flat[:count])


def pmf_matrix(ax: Axes, pmf: ArrayLike) -> Axes:
    """Shade the matrix P: a row for each true rank, a column for each sampled rank. The shade is
    the square root of the probability, so that rare outcomes can be seen; cells that cannot
    happen are left white. A line is where the sampled rank equals the true one.
    """
    mass = np.asarray(pmf, dtype=float)
    rows, columns = mass.shape
    shade = np.ma.masked_where(mass == 0, np.sqrt(mass))
    extent = (0.5, columns + 0.5, rows + 0.5, 0.5)
    ax.imshow(shade, cmap="Blues", vmin=-0.15, vmax=1, extent=extent, aspect="auto")
    last = min(rows, columns)
    ax.plot([1, last], [1, last], color=MARKS[1]["color"], linestyle="--")
    ax.set_ylim(rows + 0.5, 0.5)
    ax.set_xlim(0.5, columns + 0.5)
    ax.grid(False)
    return ax


def expected_curves(
    ax: Axes,
    n_negatives: ArrayLike,
    expected: Mapping[str, ArrayLike],
    exact: Mapping[str, float],
    looks: Looks | None = None,
) -> Axes:
    """Plot expected sampled metrics, (p,) by name, against the number of negatives, on a
    logarithmic axis (krichene2020, fig. 2). Exact values are wedges on the right edge, in the
    colour of their curve. :func:`on_gaps` and :func:`beside` name curves and wedges once the
    limits of the axes are final.
    """
    looks = looks or marks(expected)
    curves(ax, n_negatives, expected, looks)
    for name, mark in looks.items():
        edge_style: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "clip_on": False}
        ax.plot(1.02, exact[name], "<", color=mark["color"], ms=8, **edge_style)
    ax.set(xscale="log", xlabel="negatives $m$")
    return ax


def beside(
    ax: Axes,
    heights: Mapping[str, float],
    x: float = 1.05,
    gap: float = 0.075,
    form: str = "{name}",
    looks: Looks | None = None,
    **style: Any,
) -> Axes:
    """Write each name beside the axes at its height, moved apart where two would touch.

    They are moved as little as possible, by least squares, and never beyond the ends of the axis.
    A name that had to move keeps a line to its height if `x` leaves room for one. `heights` are in
    units of the vertical axis, whose limits are final; `x` is where names begin, and `gap` the
    least distance of two names, both as shares of the axes; `form` may show the height as well, as
    in "exact: {name} {height:.1f}%". Colours follow the order of the names, unless
    `looks` has them.

    >>> figure, ax = panels()
    >>> ax = beside(ax, {"A": 0.50, "B": 0.51})
    >>> [(text.get_text(), round(text.get_position()[1], 2)) for text in ax.texts]
    [('A', 0.47), ('B', 0.54)]
    """
    to_axes = ax.transAxes.inverted()
    x_left = ax.get_xlim()[0]
    axes_heights = {
        name: float(to_axes.transform(ax.transData.transform((x_left, height)))[1])
        for name, height in heights.items()
    }
    colours, order = looks or marks(heights), sorted(axes_heights, key=axes_heights.__getitem__)
    steps = gap * np.arange(len(order))
    free = isotonic_regression([axes_heights[name] for name in order] - steps).x
    for name, place in zip(order, free.clip(0.0, 1.0 - steps[-1]) + steps, strict=True):
        text_style = {"color": colours[name]["color"], "va": "center", "fontsize": 11} | style
        text = form.format(name=name, height=heights[name])
        ax.text(x, float(place), text, transform=ax.transAxes, **text_style)
        if x > 1.08:  # a wedge ends at 1.04
            ends = [axes_heights[name], float(place)]
            line = {"color": text_style["color"], "linewidth": 0.9, "clip_on": False}
            ax.plot([1.045, x - 0.01], ends, transform=ax.transAxes, **line)
    return ax


def on_gaps(
    ax: Axes, x: ArrayLike, lines: Mapping[str, ArrayLike], looks: Looks | None = None, **style: Any
) -> Axes:
    """Write the name of each curve on it, where the nearest two curves are farthest apart. The
    limits of the axes are final; the outer tenths of the axes are left free.

    >>> figure, ax = panels()
    >>> ax.set_xlim(0, 4), ax.set_ylim(0, 1)
    ((0.0, 4.0), (0.0, 1.0))
    >>> ax = on_gaps(ax, [1, 2, 3], {"A": [0.5, 0.5, 0.5], "B": [0.6, 0.9, 0.4]})
    >>> [(text.get_text(), tuple(map(float, text.get_position()))) for text in ax.texts]
    [('A', (2.0, 0.5)), ('B', (2.0, 0.9))]
    """
    places = np.asarray(x, dtype=float)
    heights = np.array([np.asarray(line, dtype=float) for line in lines.values()])
    to_axes = ax.transData + ax.transAxes.inverted()
    shown = np.array([to_axes.transform(np.c_[places, line]) for line in heights])
    nearest = np.diff(np.sort(shown[..., 1], axis=0), axis=0).min(axis=0)
    inside = (shown[0, :, 0] > 0.1) & (shown[0, :, 0] < 0.9)
    best = int(np.argmax(np.where(inside, nearest, -1.0)))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 2.0}
    for (name, mark), height in zip((looks or marks(lines)).items(), heights[:, best], strict=True):
        text_style = {"color": mark["color"], "fontsize": 11, "fontweight": "bold"} | style
        ax.text(places[best], height, name, ha="center", va="center", bbox=box, **text_style)
    return ax


def note(
    ax: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Write a text at an offset, in typographic points, from a point of the axes."""
    ax.annotate(text, point, offset, textcoords="offset points", **style)


def by_negatives(
    ax: Axes, x: ArrayLike, sampled: Mapping[int, ArrayLike], exact: ArrayLike
) -> Axes:
    """Plot a metric for several numbers of negatives, (p,) for each, in grey, darker for more, and
    the exact one in black.

    >>> figure, ax = panels()
    >>> ax = by_negatives(ax, [1, 2], {10: [1.0, 0.9], 1_000: [1.0, 0.6]}, [1.0, 0.5])
    >>> [line.get_label() for line in ax.lines], ax.lines[-1].get_color()
    (['m = 10', 'm = 1,000', 'exact'], 'black')
    """
    shades = plt.get_cmap("Greys")(np.linspace(0.5, 0.85, len(sampled)))
    styles = cycle(((0, (1, 1)), (0, (3, 1, 1, 1)), (0, (5, 1.5)), (0, (8, 2)), "-."))
    for (m, values), shade, line in zip(sampled.items(), shades, styles, strict=False):
        ax.plot(x, values, color=shade, linestyle=line, label=f"m = {m:,}")
    ax.plot(x, exact, color="black", linewidth=2.2, label="exact")
    return ax


def on_curves(ax: Axes, heights: Mapping[str, float]) -> Axes:
    """Write labels of falling curves where each curve has come down to a height; a curve that stays
    above it gets none.

    >>> figure, ax = panels()
    >>> ax = on_curves(by_negatives(ax, [1, 2, 3], {9: [1, 0.4, 0]}, [1, 0, 0]), {"m = 9": 0.5})
    >>> [(text.get_text(), tuple(map(float, text.get_position()))) for text in ax.texts]
    [('m = 9', (2.0, 0.4))]
    """
    for line in ax.lines:
        name, points = str(line.get_label()), np.asarray(line.get_xydata())
        below = points[points[:, 1] <= heights.get(name, -np.inf)]
        if below.size:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            ax.text(below[0, 0], below[0, 1], name, ha="center", va="center", fontsize=10, bbox=box)
    return ax


def heat_map(
    ax: Axes,
    values: ArrayLike,
    texts: ArrayLike,
    rows: Iterable[str],
    columns: Iterable[str],
    scale: tuple[float, float] = (0.0, 1.0),
    colours: str = "RdYlBu",
) -> Axes:
    """Plot a table whose cells hold texts of one or two lines, coloured by `values` (p, q), grey
    where NaN. `scale` has the values of the first and the last colour.
    """
    table, cell_texts = np.asarray(values, dtype=float), np.asarray(texts)
    shades = plt.get_cmap(colours).with_extremes(bad="#e8e8e8")
    low, high = scale
    ax.pcolormesh(
        np.ma.masked_invalid(table), cmap=shades, vmin=low, vmax=high, edgecolors="w", linewidth=1
    )
    for (i, j), text in np.ndenumerate(cell_texts):
        share = np.clip((table[i, j] - low) / (high - low), 0, 1)
        red, green, blue, _ = shades(share if np.isfinite(share) else np.nan)
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        cell_label = ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=11)
        cell_label.set(color="white" if dark else "black", linespacing=1.15)
    short = {"uncorrected": "un-\ncorr.", "rank estimate": "rank\nestim."}
    names = [short.get(name, name.replace(" ", "\n")) for name in columns]
    ax.set_xticks(np.arange(table.shape[1]) + 0.5, names, fontsize=10)
    ax.set_yticks(np.arange(table.shape[0]) + 0.5, list(rows))
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    ax.invert_yaxis()
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return ax


def rank_buckets(ax: Axes, ranks: Mapping[str, ArrayLike], edges: ArrayLike) -> Axes:
    """Plot a histogram of each recommender's ranks, bars side by side. `edges` are the last rank of
    each bucket; one more bucket holds the ranks beyond.
    """
    last = np.asarray(edges)
    places = np.arange(last.size + 1)
    width = 0.84 / len(ranks)
    hatches = cycle(("", "///", "...", "xxx", "---", "+++"))
    for i, (name, mark) in enumerate(marks(ranks).items()):
        height = np.bincount(np.searchsorted(last, ranks[name]), minlength=places.size)
        shift = (i - (len(ranks) - 1) / 2) * width
        style = {"color": mark["color"], "edgecolor": "white", "linewidth": 0.5}
        ax.bar(places + shift, height, width, label=name, hatch=next(hatches), **style)
    first = np.append(1, last + 1)
    names = [f"{a:,}–{b:,}" if a < b else f"{b:,}" for a, b in zip(first, last, strict=False)]
    ax.set_xticks(places, [*names, f"{first[-1]:,}+"], rotation=45, ha="right")
    ax.set(ylabel="instances")
    ax.grid(False, axis="x")
    return ax


def errors_by_gamma(
    ax: Axes,
    gammas: ArrayLike,
    errors: Mapping[str, ArrayLike],
    rule: Mapping[str, tuple[float, float]],
    looks: Looks | None = None,
) -> Axes:
    """Plot the error of an average against gamma, both logarithmic, with a star at each minimum.
    `rule` has the gamma of a rule, and the error there: an open circle around whatever is inside.
    """
    gamma_values = np.asarray(gammas)
    for name, mark in (looks or marks(errors)).items():
        values = np.asarray(errors[name])
        line = {"color": mark["color"], "linestyle": mark["linestyle"]}
        ax.plot(gamma_values, values, label=name, **line)
        least = int(values.argmin())
        ax.plot(gamma_values[least], values[least], "*", ms=9, color=mark["color"], zorder=4)
        if name in rule:
            ax.plot(*rule[name], "o", ms=13, mfc="none", mec=mark["color"], mew=1.5)
    ax.set(xscale="log", yscale="log", xlabel=r"$\gamma$", ylabel="error of the average")
    return ax


def estimates(
    ax: Axes,
    names: Iterable[str],
    summaries: Mapping[str, tuple[ArrayLike, ArrayLike]],
    exact: Mapping[str, float],
) -> Axes:
    """Plot the estimates of several estimators for each recommender, beside the exact value.

    `summaries` holds for each recommender, by estimator, the mean (a marker) and the standard
    deviation (a bar to both sides); `exact` values are lines across in the recommender's colour.
    """
    labels = list(names)
    places = np.arange(len(labels))
    for i, (name, mark) in enumerate(marks(summaries).items()):
        mean, sd = (np.asarray(column, dtype=float) for column in summaries[name])
        colour, shift = mark["color"], 0.24 * (i - (len(summaries) - 1) / 2)
        ax.axhline(exact[name], color=colour, linestyle=mark["linestyle"], linewidth=1.4, zorder=1)
        ax.errorbar(places + shift, mean, sd, fmt=mark["marker"], color=colour, ms=6, label=name)
    ax.set_xticks(places, labels)
    ax.grid(False, axis="x")
    return ax


def clean_region(
    ax: Axes,
    n_decoys: ArrayLike,
    limits: Mapping[str, ArrayLike],
    printed: Mapping[str, tuple[float, float]],
    levels: Mapping[str, float],
) -> Axes:
    """Plot the largest goodness at which a set of decoys is clean, against the set's size, by
    confidence; the region below the last curve is shaded. `printed` has points (decoys,
    goodness) to mark with a cross, `levels` the goodness of horizontal lines.
    """
    curves(ax, n_decoys, limits)
    ax.set(xscale="log", yscale="log")
    last = np.asarray(list(limits.values())[-1], dtype=float)
    bottom = min(last.min(), *(y for _, y in printed.values())) / 3 if printed else last.min()
    ax.fill_between(np.asarray(n_decoys), bottom, last, color="#e6e6e6", linewidth=0)
    first = float(np.min(n_decoys))
    for text, level in levels.items():
        ax.axhline(level, color="#5b5b5b", linestyle=":", linewidth=1.2)
        ax.annotate(text, (1, level), (-2, 3), ax.get_yaxis_transform(), "offset points",
                    ha="right", fontsize=11)  # fmt: skip
    for text, (size, goodness) in printed.items():
        ax.plot(size, goodness, "x", color="black", ms=9, mew=2.5)
        # The curves fall to the right: text above them goes to that side, else to the left.
        side = 1 if goodness > np.interp(size, np.asarray(n_decoys), last) else -1
        alignment = "left" if side == 1 else "right"
        note(ax, text, (size, goodness), (9 * side, -4), ha=alignment, fontsize=11)
    ax.set(xlim=(first, float(np.max(n_decoys))), ylim=(bottom, None))
    ax.legend(loc="lower left")
    return ax


def decoy_curves(
    ax: Axes,
    n_decoys: ArrayLike,
    expected: Mapping[str, ArrayLike],
    full: Mapping[str, float],
    run: Mapping[str, ArrayLike] | None = None,
) -> Axes:
    """Plot expected metrics, (p,) by recommender, against the number of decoys on a logarithmic
    axis (ekstrand2017, figures 2 to 6). `full` has the metrics with all unrated items as decoys:
    wedges on the right edge; `run` one simulated run: open markers.
    """
    expected_curves(ax, n_decoys, expected, full)
    if run is not None:
        for name, mark in marks(expected).items():
            points = {"marker": mark["marker"], "color": mark["color"], "mfc": "none"}
            ax.plot(n_decoys, run[name], linestyle="none", ms=6, mew=1.0, **points)
    ax.set(xlabel="decoys m")
    return ax


def rating_counts(ax: Axes, counts: Mapping[str, ArrayLike]) -> Axes:
    """Plot the share of items with at least each number of ratings, both axes logarithmic
    (ekstrand2017, figure 1).
    """
    for name, mark in marks(counts).items():
        values, items = np.unique(np.asarray(counts[name]), return_counts=True)
        share = np.cumsum(items[::-1])[::-1] / items.sum()
        ax.plot(values, share, label=name, color=mark["color"], linestyle=mark["linestyle"])
    ax.set(xscale="log", yscale="log", xlabel="ratings", ylabel="share of items with as many")
    ax.legend(loc="lower left")
    return ax


def rows_of_dots(ax: Axes, rows: Mapping[str, Mapping[str, float]]) -> Axes:
    """Plot a row of marks for each setting, from the top down, a mark for each name; every row has
    the same names.
    """
    names = list(next(iter(rows.values())))
    places = np.arange(len(rows))
    for name, mark in marks(names).items():
        values = [row[name] for row in rows.values()]
        style = {"color": mark["color"], "marker": mark["marker"], "linestyle": ""}
        ax.plot(values, places, label=name, markersize=9, alpha=0.85, **style)
    ax.set(yticks=places, yticklabels=list(rows), ylim=(len(rows) - 0.5, -0.5))
    ax.grid(axis="y", visible=False)
    ax.hlines(places, 0, 1, color="#dddddd", linewidth=0.6, zorder=0)
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)
    return ax


def slopes(ax: Axes, columns: Mapping[str, Mapping[str, float]]) -> Axes:
    """Plot a slope chart: connect each name's place in two columns, each from its lowest to its
    highest value. Values stand beside the ends.

    >>> figure, ax = panels()
    >>> ax = slopes(ax, {"exact": {"A": 0.1, "B": 0.3}, "sampled": {"A": 0.5, "B": 0.4}})
    >>> [line.get_ydata().tolist() for line in ax.lines]
    [[0.0, 1.0], [1.0, 0.0]]
    """
    ends = [(min(column.values()), max(column.values())) for column in columns.values()]
    for name, mark in marks(next(iter(columns.values()))).items():
        values = [column[name] for column in columns.values()]
        heights = [
            (value - low) / (high - low) for value, (low, high) in zip(values, ends, strict=True)
        ]
        ax.plot([0, 1], heights, ms=7, **mark)
        sides = ((-0.06, "right", f"{name} {values[0]:.3f}"), (1.06, "left", f"{values[1]:.3f}"))
        for (x, align, text), y in zip(sides, heights, strict=True):
            ax.annotate(text, (x, y), ha=align, va="center", fontsize=11, color=mark["color"])
    ax.set(xlim=(-0.6, 1.5), ylim=(-0.08, 1.08), yticks=[], xticks=[0, 1])
    ax.set_xticklabels([name.replace(" ", "\n", 1) for name in columns])
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False)
    return ax


def shrinking(
    ax: Axes,
    users: ArrayLike,
    bands: Mapping[str, tuple[ArrayLike, ArrayLike]],
    exact: Mapping[str, float],
) -> Axes:
    """Plot both ends of intervals, (p,) by name, against the number of users on a logarithmic axis,
    each darker than the one before and the last one dashed; the exact value has the colour of its
    recommender.
    """
    shades = np.linspace(0.75, 0.0, len(bands))
    for i, (name, ends) in enumerate(bands.items()):
        line: dict[str, Any] = {"color": str(shades[i])}
        line["linestyle"] = "--" if i == len(bands) - 1 else "-"
        for values, label in zip(reversed(ends), (name, None), strict=True):
            ax.plot(users, values, label=label, **line)
    for name, mark in marks(exact).items():
        ax.axhline(exact[name], color=mark["color"], linewidth=2)
        ax.annotate(f"exact: {name}", (0, exact[name]), (4, 3), ax.get_yaxis_transform(),
                    "offset points", ha="left", fontsize=11, color=mark["color"])  # fmt: skip
    ax.set(xscale="log", xlabel="users")
    ax.minorticks_off()
    ax.legend(loc="upper right")
    return ax

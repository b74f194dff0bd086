"""The style of all figures, and the figures of results.

Every series has its own colour, line style and marker, so that figures survive greyscale. Text is
large enough to be read at the width of a phone.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._validate import as_written, printable, unimported
from ..metrics import shown as metric
from ..results import Audit, Comparison, Estimates, Plan, Published, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    #: A function that draws a panel of a figure, and the panel's height in inches.
    Panel = tuple[Callable[[Axes], Any], float]

#: Colour, line style and marker of each name.
Looks = Mapping[str, Mapping[str, Any]]

#: Width of every figure in inches: at 12 points, text is still 9 pixels high on a phone.
WIDTH = 6.0

#: Colour, line style and marker of the first, second, ... series; the colours differ in lightness.
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


#: The look of exact values.
EXACT: dict[str, Any] = {"color": "black", "linestyle": "-", "marker": "o", "linewidth": 2.2}
#: The look of each estimator.
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
#: Other names of estimators.
_ALIASES = {"naive": "uncorrected", "reported": "uncorrected", "printed": "uncorrected"}
_ALIASES |= {"monotone": "CLS", "corrected": "bias-variance", "estimate": "bias-variance"}
_ALIASES |= {"ML": "maximum likelihood", "entropy": "maximum entropy", "all items": "exact"}
#: Bias-variance corrections with a weight in their name: the darker, the less the variance weighs.
_LESS_AND_LESS = (("#b58ad8", ":"), ("#8b4fc0", (0, (3, 1))), ("#5f2496", "-"), ("#33084f", "--"))


def marks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour, line style and marker of each name.

    "exact" and estimators have fixed ones; "BV" with a weight is a shade of bias-variance; all
    others take those of :data:`MARKS` in order.
    """
    fixed_looks = ESTIMATORS | {"exact": EXACT}
    series_looks, free_shades = cycle(MARKS), list(range(len(_LESS_AND_LESS)))
    looks = {}
    for name in names:
        if _ALIASES.get(name, name) in fixed_looks:
            looks[name] = fixed_looks[_ALIASES.get(name, name)]
        elif weight_match := re.fullmatch(r"BV ([\d.e-]+)", name):
            weight = float(weight_match[1])
            shade = min(free_shades or range(4), key=lambda i: abs(i + np.log10(weight)))
            free_shades = [i for i in free_shades if i != shade]
            colour, line = _LESS_AND_LESS[shade]
            looks[name] = {"color": colour, "linestyle": line, "marker": "o"}
        else:
            looks[name] = next(series_looks)
    return looks


def intervals(
    ax: Axes,
    estimates: Mapping[str, Mapping[str, tuple[float, float, float]]],
    *possible: Mapping[str, tuple[float, float]],
) -> Axes:
    """Plot values with intervals, line by line, before grey bars of the identification intervals.

    `estimates` maps each recommender and estimator to (value, low, high), NaN for no interval. Each
    further mapping of recommenders to (low, high) in `possible` is a darker bar over the last one.
    No metric is below -0.1 or above 1.1: an arrowhead marks values beyond.
    """
    names = dict.fromkeys(name for values in estimates.values() for name in values)
    styles = marks(names)
    lines: list[tuple[str, str]] = []  # from top to bottom, what stands beside each
    for recommender, values in estimates.items():
        top = len(lines)
        lines.append((recommender, "bold"))
        for y, (name, (value, low, high)) in enumerate(values.items(), start=top + 1):
            mark = styles[name]
            ax.hlines(y, low, high, color=mark["color"], linewidth=1.6)
            marker = "<" if value < -0.1 else ">" if value > 1.1 else mark["marker"]
            x = min(max(value, -0.1), 1.1)
            ax.plot(x, y, marker, color=mark["color"], ms=6, clip_on=x == value)
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
    ax.use_sticky_edges = False  # else a grey bar could begin on the axis, unseen
    ax.autoscale_view(scaley=False)
    lowest, highest = ax.get_xlim()
    ax.set_xlim(max(lowest, -0.1), min(highest, 1.1))
    ax.grid(False, axis="y")
    return ax


def figure(result: Result) -> Figure:
    """The figure of a result, with a panel for each metric or pair."""
    figures: dict[type[Result], Callable[[Any], Figure]] = {
        Estimates: _estimates_figure,
        Comparison: lambda comparison: _drawn(
            *map(comparison_panel, comparison.by_metric().values())
        ),
        Plan: _plan_figure,
        Published: published_figure,
        Audit: _audit_figure,
    }
    if type(result) not in figures:
        raise TypeError(f"{type(result).__name__} has no figure")
    return figures[type(result)](result)


def _estimates_figure(result: Estimates) -> Figure:
    groups = result.frame.groupby("metric", sort=False)
    return _drawn(*(estimates_panel(rows, metric(str(name)).label) for name, rows in groups))


def _plan_figure(result: Plan) -> Figure:
    groups = result.frame.groupby(["first", "second"], sort=False)
    return _drawn(*(
        _needs_panel(rows, " and ".join(_figure_names(map(str, pair)).values()))
        for pair, rows in groups
    ))  # fmt: skip


def estimates_panel(rows: pd.DataFrame, label: str) -> Panel:
    """The estimates of one metric; a curve if they are for several corpora."""
    if "documents" in rows:
        return growth_panel(rows, label)
    longest = 24
    if "group" in rows:
        rows, longest = rows.assign(recommender=rows["group"] + ": " + rows["recommender"]), 48
    labels = _figure_names(rows["recommender"], longest)
    values: dict[str, dict[str, tuple[float, float, float]]] = {n: {} for n in labels.values()}
    possible: dict[str, tuple[float, float]] = {}
    for row in rows.to_dict("records"):
        name = labels[row["recommender"]]
        value, error = row.get("estimate", row["reported"]), row["standard_error"]
        if "estimate" in row and not np.isnan(row["reported"]):
            values[name]["reported"] = row["reported"], np.nan, np.nan
        ends = row.get("typical_low", np.nan), row.get("typical_high", np.nan)
        if np.isnan(ends[0]):
            ends = value - error, value + error
        values[name]["estimate"] = value, *ends
        if not np.isnan(row["possible_low"]):
            possible[name] = row["possible_low"], row["possible_high"]

    def draw(ax: Axes) -> None:
        intervals(ax, values, possible)
        ax.set_xlabel(label)

    return draw, 1.0 + 0.24 * (len(values) + sum(map(len, values.values())))


def growth_panel(rows: pd.DataFrame, label: str) -> Panel:
    """A metric by the size of the corpus, with typical ranges where there are some, else others."""
    by_system = dict(list(rows.groupby("recommender", sort=False)))
    labels = _figure_names(map(str, by_system))

    sizes = sorted(rows["documents"].unique())

    def draw(ax: Axes) -> None:
        looks = marks(labels.values())
        for i, (name, part) in enumerate(by_system.items()):
            look, beside = looks[labels[str(name)]], 1.02 ** (i - (len(by_system) - 1) / 2)
            x, middle = part["documents"] * beside, part["estimate"]
            has_record = part["typical_low"].notna()
            low = part["typical_low"].where(has_record, part["possible_low"])
            high = part["typical_high"].where(has_record, part["possible_high"])
            ends = middle - low, high - middle
            ax.errorbar(x, middle, ends, label=labels[str(name)], ms=6, elinewidth=1, **look)
        ax.set(xscale="log", xlabel="documents in the corpus", ylabel=label)
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.minorticks_off()
        ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.25), ncols=2)

    return draw, 3.2 + 0.25 * ((len(labels) + 1) // 2)


def published_figure(result: Published, name: str | None = None) -> Figure:
    """Published numbers and guesses for one metric, in front of the bounds."""
    metric_name = result.frame["metric"].iloc[0] if name is None else metric(name).name
    rows = result.frame[result.frame["metric"] == metric_name]
    if rows.empty:
        raise ValueError(f"metric must be one of the table, got {as_written(name)}")
    methods = rows["dataset"] + ": " + rows["method"] if "dataset" in rows else rows["method"]
    names = list(_figure_names(methods).values())

    def draw(ax: Axes) -> None:
        pairs = rows.reindex(columns=["printed", "guess"]).to_numpy(dtype=float)
        values = {
            name: {"printed": (published, np.nan, np.nan), "guess": (guess, np.nan, np.nan)}
            for name, (published, guess) in zip(names, pairs, strict=True)
        }
        bars = [
            dict(zip(names, zip(rows[f"low{end}"], rows[f"high{end}"], strict=True), strict=True))
            for end in ("", "_decreasing")
            if f"low{end}" in rows
        ]
        intervals(ax, values, *bars)
        ax.set_xlabel(metric(metric_name).label)

    return _drawn((draw, 1.0 + 0.75 * len(names)))


def comparison_panel(result: Comparison) -> Panel:
    """The corrected difference of each pair, in front of the identification interval."""
    rows, compared_metric = result.winner_first(), metric(result.settings["metric"])
    names = _figure_names(rows[["first", "second"]].to_numpy().ravel())
    pairs = rows[["first", "second"]].itertuples(index=False, name=None)
    labels = [f"{names[first]} minus {names[second]}" for first, second in pairs]
    if "group" in rows:
        groups = _figure_names(rows["group"])
        labels = [f"{groups[key]}: {pair}" for key, pair in zip(rows["group"], labels, strict=True)]

    def draw(ax: Axes) -> None:
        color, marker = MARKS[0]["color"], MARKS[0]["marker"]
        heights = range(len(labels))
        ax.hlines(heights, rows["possible_low"], rows["possible_high"], color=color)
        ax.plot(rows["estimate"], heights, marker, color=color)
        ax.axvline(0.0, color="black", linewidth=1)
        ax.set_yticks(heights, labels)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_xlabel(f"difference in {compared_metric.label}")

    return draw, 1.2 + 0.35 * len(labels)


def _needs_panel(rows: pd.DataFrame, title: str) -> Panel:
    """The negatives or users that each estimator needs, by the scores to compute."""
    records: list[dict[str, Any]] = [dict(row) for _, row in rows.astype(object).iterrows()]
    labels = []
    for row in records:
        share = f"{row['probability']:.0%}" if row["probability"] < 0.995 else "over 99%"
        name = "all items" if row is records[-1] else row["estimator"]
        labels.append(f"{name}\nright in {share}")
    columns = ["scores_by_negatives", "scores_by_users"]
    scores = [float(x) for x in rows[columns].to_numpy().ravel() if not pd.isna(x)] or [1.0]

    def draw(ax: Axes) -> None:
        ax.set(xscale="log", title=title, xlabel="scores to compute for one recommender")
        ax.set_xlim(min(scores) / 2, 20 * max(scores))  # with room for the labels
        ax.minorticks_off()
        for center, row in enumerate(records):
            for i, resource in enumerate(("negatives", "users")):
                count, x = row[f"{resource}_needed"], row[f"scores_by_{resource}"]
                y, color = center + 0.4 * i - 0.2, MARKS[i]["color"]
                text = f"not reached with more {resource}"
                if row is records[-1] and resource == "negatives":
                    text, color = "users as planned", "black"
                elif not pd.isna(count):
                    text = f"{count:,} {resource if count != 1 else resource[:-1]}"
                if not pd.isna(x):
                    ax.plot(x, y, MARKS[i]["marker"], color=color, ms=6)
                text_x = min(scores) / 2 if pd.isna(x) else x  # beyond all counts, too
                ax.annotate(text, (text_x, y), (7, 0), textcoords="offset points", va="center",
                            fontsize=10, color=color)  # fmt: skip
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.grid(False, axis="y")

    return draw, 1.1 + 0.55 * len(records)


#: Smaller p-values are drawn here, as arrowheads.
_LEAST_P = 1e-12


def _audit_figure(result: Audit) -> Figure:
    checks, error_rate = result.frame, 1.0 - result.settings["confidence"]

    def draw(ax: Axes) -> None:
        alarms = ", ".join(result.alarms)
        ax.set(xscale="log", xlim=(1.6, _LEAST_P / 2), title=f"alarm: {alarms or 'none'}")
        ax.axvspan(error_rate / len(checks), _LEAST_P / 2, color="#e6e6e6", linewidth=0)
        for y, (alarm, p_value) in enumerate(zip(checks["alarm"], checks["p_value"], strict=True)):
            mark, p = MARKS[int(alarm)], max(float(p_value), _LEAST_P)
            shape = ">" if p_value < _LEAST_P else mark["marker"]
            ax.hlines(y, 1.0, p, color=mark["color"], linewidth=1.6)
            ax.plot(p, y, shape, color=mark["color"], ms=7)
        ax.set_yticks(range(len(checks)), list(checks["check"]))
        for label, alarm in zip(ax.get_yticklabels(), checks["alarm"], strict=True):
            label.set_fontweight("bold" if alarm else "normal")
        ax.set_ylim(len(checks) - 0.4, -0.6)
        ax.grid(False, axis="y")
        ax.set_xlabel(
            "p-value: how often negatives drawn as claimed look\n"
            "as odd as these, or odder; grey raises an alarm"
        )

    return _drawn((draw, 1.5 + 0.3 * len(checks)))


def image(*panels: Panel) -> str:
    """Panels as a base64 SVG to put inside a page, its text as outlines."""
    figure, buffer = _drawn(*panels), io.StringIO()
    from matplotlib.style import context

    with context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # it is drawn as a box
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return base64.b64encode(buffer.getvalue().encode()).decode()


def _drawn(*panels: Panel) -> Figure:
    """A figure with a row for each panel."""
    import_figures()
    from matplotlib.figure import Figure
    from matplotlib.style import context

    heights = [height for _, height in panels]
    with context(STYLE):
        drawn_figure = Figure((WIDTH, sum(heights)))  # not by pyplot: no window is involved
        axes = drawn_figure.subplots(len(panels), squeeze=False, height_ratios=heights)
        for ax, (draw, _) in zip(axes[:, 0], panels, strict=True):
            draw(ax)
    return drawn_figure


def import_figures() -> None:
    """Raise ImportError without matplotlib, before work is done that would be lost."""
    try:
        import matplotlib  # noqa: F401
    except Exception as problem:  # a broken library raises any
        sentence = "a report needs matplotlib: pip install 'sampled-metrics[report]'"
        raise unimported("matplotlib", problem, sentence) from None


def _figure_names(names: Iterable[str], longest: int = 24) -> dict[str, str]:
    """Names as matplotlib can show them: no mathematics, not too long, all different."""
    labels: dict[str, str] = {}
    counts = Counter[str]()
    for name in dict.fromkeys(names):
        label = printable(name)
        label = label if len(label) <= longest else label[: longest - 1] + "…"
        label = label.replace("$", r"\$") or "–"
        counts[label] += 1
        labels[name] = f"{label}\u2009#{counts[label]}" if counts[label] > 1 else label
    return labels

"""One page of HTML that holds all of an evaluation: tables, figures, verdicts and definitions.

The page asks no other host for anything: styles are inside, and so are the figures, as images in
vector form. It follows the reader's choice of light or dark, and the width of the screen. What it
says is in the folder templates; here is what is filled in.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from ..metrics import metric
from ..results import Comparison, Estimates, Plan, printable, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    #: What draws a panel of a figure, and its height in inches.
    _Panel = tuple[Callable[[Axes], Any], float]

#: What the words of the page mean.
DEFINITIONS = {
    "naive": "The metric applied to the sampled rank as if the sampled items were the catalogue: "
    "what sampled evaluations report. It is not an estimate of the exact metric.",
    "rank estimate": "The metric at an unbiased estimate of the true rank, rounded down.",
    "least bias": "The correction whose squared bias, on average over true ranks, is the least "
    "there is; its variance can be huge.",
    "monotone": "The least biased correction among those that never rise with the sampled rank.",
    "bias-variance": "The correction with the least squared bias plus gamma times variance, on "
    "average over true ranks.",
    "race": "Exact ranks of users in random order until bets prove which of two recommenders has "
    "the higher metric over all users. Its users and scores are expectations.",
    "maximum likelihood": "The exact metric of the distribution of true ranks under which the "
    "observed sampled ranks are most likely.",
    "maximum entropy": "The exact metric of the most even distribution of true ranks that agrees "
    "with the observed sampled ranks.",
    "reported": "The metric of the sampled ranks, which is what sampled evaluations report. It "
    "estimates AUC, and no other exact metric.",
    "estimate": "By bias-variance, or by the naive metric where it has no bias. A single number "
    "rests on the correction's own assumptions; its bias is not in its error.",
    "standard error": "Of the average over users, who are taken as a sample; the noise of the "
    "sampled negatives is included, and so is that of priors fitted to the log. Bias is not.",
    "possible": "All exact values that the log does not contradict under the "
    "assumption named, at the confidence named. Where this range is wide, the sample does not say "
    "what the exact metric is.",
    "assumption": "What a range or a verdict assumes of the true ranks. None: nothing. Decreasing "
    "at the top: near the top, deeper ranks have fewer users. At most k times per doubling: "
    "moreover, they are at most k times fewer from one doubling of the rank to the next. Mixture "
    "of geometrics: near the top, users are a mixture of geometric distributions.",
    "warrant": "Why a range or a verdict is right as often as the confidence says. Proved: there "
    "is a proof for any number of users. Large sample: by Student's test, which needs many users.",
    "quote": "What a sentence may quote: the estimate with its standard error where it has no bias "
    "and that says as much as the range, and else the range.",
    "low, high": "Ends of Student's interval for the estimator's expectation, which is the "
    "exact metric only where the estimator has no bias.",
    "verdict": "One beats the other if the log contradicts the opposite. The chance that any "
    "verdict on the log's pairs by one metric is wrong is at most 1 less the confidence, if the "
    "verdict's assumption holds. It is a promise on the exact metrics of a population that the "
    "users were drawn from at random. A verdict with no assumption on the ranks holds for the "
    "log's own users, too.",
}


def _written(value: object) -> object:
    """What a template writes: pieces of a page as they are, all else as for the eye."""
    return value if hasattr(value, "__html__") else text(value)


_TEMPLATES = Environment(
    loader=PackageLoader("sampled_metrics.report"),
    autoescape=True,
    finalize=_written,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters["is_numeric"] = pd.api.types.is_numeric_dtype


def _filled(template: str, **values: object) -> str:
    return _TEMPLATES.get_template(template).render(values)


def of_estimates(
    estimates: Estimates,
    comparisons: Mapping[str, Comparison],
    facts: Mapping[str, object],
) -> str:
    """Write the page of an estimation and of the verdicts that go with it.

    Parameters
    ----------
    estimates : Estimates
    comparisons : mapping of str to Comparison
        Under the name of each metric.
    facts : mapping of str to object
        What was read, under the name of each fact.

    Returns
    -------
    str
        A page of HTML.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> found = sm.estimate("bundled", ["auc"])
    >>> page = of_estimates(found, {}, {"log": "bundled"})
    >>> page.startswith("<!doctype html>"), page.count("<table>"), page.count("<img ")
    (True, 1, 1)
    """
    metrics = []
    frame, shown = estimates.frame, estimates.shown
    for name in dict.fromkeys([*frame["metric"], *comparisons]):
        label, here = metric(name).label, frame["metric"] == name
        compared = comparisons.get(name)
        metrics.append({
            "label": label,
            "sentences": [] if compared is None else compared.sentences,
            "differences": None if compared is None else compared.shown,
            "of_differences": [] if compared is None else compared.promises(),
            "estimates": shown[here].drop(columns="metric"),
            "promises": estimates.promises(name),
            "image": _image(_estimates_panel(frame[here], label)) if here.any() else "",
        })  # fmt: skip
    said = [*frame.get("estimator", []), *frame.columns, *shown.columns]
    said += [word for one in comparisons.values() for word in (*one.frame.columns, *one.shown)]
    notes = [*estimates.notes, *(note for one in comparisons.values() for note in one.notes)]
    return _filled(
        "estimates.html",
        metrics=metrics,
        facts=facts,
        notes=list(dict.fromkeys(notes)),
        definitions=_defined(said),
    )


def of_comparison(comparison: Comparison, facts: Mapping[str, object]) -> str:
    """Write the page of a comparison by itself.

    Parameters
    ----------
    comparison : Comparison
    facts : mapping of str to object
        As for :func:`of_estimates`; with the name of the metric.

    Returns
    -------
    str
        A page of HTML.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> page = of_comparison(sm.compare("bundled", "auc"), {"metric": "auc"})
    >>> page.count("<table>"), page.count("<img "), page.count("X beats Y on AUC")
    (1, 1, 1)
    """
    label = metric(str(facts["metric"])).label
    return _filled(
        "comparison.html",
        label=label,
        sentences=comparison.sentences,
        differences=comparison.shown,
        promises=comparison.promises(),
        image=_image(_comparison_panel(comparison.frame, label)),
        facts=facts,
        notes=comparison.notes,
        definitions=_defined([*comparison.frame.columns, *comparison.shown.columns]),
    )


def of_plan(plan: Plan, curves: pd.DataFrame, facts: Mapping[str, object]) -> str:
    """Write the page of a plan.

    Parameters
    ----------
    plan : Plan
        As from :func:`sampled_metrics.planning.for_all`.
    curves : pandas.DataFrame
        As from :func:`~sampled_metrics.planning.curve`, of each pair, by
        :func:`~sampled_metrics.planning.for_pairs`.
    facts : mapping of str to object
        As for :func:`of_estimates`.

    Returns
    -------
    str
        A page of HTML.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from sampled_metrics import Protocol, planning
    >>> ranks, samples = {"A": {1: 1.0}, "B": {9: 1.0}}, [Protocol(100, m) for m in (5, 10)]
    >>> found = planning.for_all(ranks, "ap", samples[-1], 5, estimators="naive")
    >>> by = planning.for_pairs(planning.curve, ranks, "ap", samples, 5, estimators="naive")
    >>> page = of_plan(found, by, {})
    >>> page.count("<table>"), page.count("<img ")
    (1, 2)
    """
    pairs = []
    for (first, second), rows in plan.frame.groupby(["first", "second"], sort=False):
        drawn = curves[(curves["first"] == first) & (curves["second"] == second)]
        pairs.append({
            "name": f"{printable(str(first))} and {printable(str(second))}",
            "images": {what: _image(_plan_panel(drawn, what)) for what in _VARIED},
            "plans": rows.drop(columns=["first", "second", "ties"]),
        })  # fmt: skip
    definitions = _defined(plan.frame["estimator"])
    said = {"sentences": plan.sentences, "promises": plan.promises()}
    return _filled("plan.html", pairs=pairs, facts=facts, definitions=definitions, **said)


def of_table(title: str, frame: pd.DataFrame, caption: str, notes: Sequence[str] = ()) -> str:
    """Write the page of a table.

    Examples
    --------
    >>> of_table("Audit", pd.DataFrame({"a": [1]}), "One.").count("<h1>Audit</h1>")
    1
    """
    return _filled("result.html", title=title, frame=frame, caption=caption, notes=notes)


def table(frame: pd.DataFrame, caption: str, notes: Sequence[str] = ()) -> str:
    """A table as a notebook shows it, and the notes below it.

    Examples
    --------
    >>> table(pd.DataFrame({"a": [1]}), "One.").count("<td")
    1
    """
    return _filled("table.html", frame=frame, caption=caption, notes=notes)


def _defined(names: Iterable[str]) -> dict[str, str]:
    """What the words that a page uses mean, in the order of the list above."""
    used = {word for name in names for word in (name.replace("_", " "), name.split(",")[0])}
    return {name: said for name, said in DEFINITIONS.items() if used & set(name.split(", "))}


def _estimates_panel(rows: pd.DataFrame, label: str) -> _Panel:
    """The estimates of one metric."""
    shown = _figure_names(rows["recommender"])
    found: dict[str, dict[str, tuple[float, float, float]]] = {n: {} for n in shown.values()}
    possible: dict[str, tuple[float, float]] = {}
    for row in rows.to_dict("records"):
        name = shown[row["recommender"]]
        if "estimator" in row:
            found[name][row["estimator"]] = row["value"], row["low"], row["high"]
            continue
        value, error = row["estimate"], row["standard_error"]
        found[name]["reported"] = row["reported"], np.nan, np.nan
        found[name]["estimate"] = value, value - error, value + error
        if not np.isnan(row["possible_low"]):
            possible[name] = row["possible_low"], row["possible_high"]

    def draw(ax: Axes) -> None:
        from . import figures as plots

        plots.intervals(ax, found, possible)
        ax.set_xlabel(label)

    return draw, 1.0 + 0.24 * (len(found) + sum(map(len, found.values())))


def estimates_figures(estimates: pd.DataFrame) -> Figure:
    """The figures of the page of an estimation, one below the other.

    Examples
    --------
    >>> row = ("A", "ndcg@10", "naive", 0.5, 0.01, 0.48, 0.52, 100)
    >>> names = "recommender metric estimator value standard_error low high users".split()
    >>> len(estimates_figures(pd.DataFrame([row], columns=names)).axes)
    1
    """
    groups = estimates.groupby("metric", sort=False)
    return _drawn(*(_estimates_panel(rows, metric(str(name)).label) for name, rows in groups))


def published_figure(rows: pd.DataFrame, label: str) -> Figure:
    """What is printed and guessed in each row, before all that is possible.

    Examples
    --------
    >>> columns = "method printed low high low_decreasing high_decreasing guess".split()
    >>> row = ("A", 0.5, 0.0, 0.2, 0.01, 0.1, 0.03)
    >>> len(published_figure(pd.DataFrame([row], columns=columns), "NDCG@10").axes)
    1
    """
    joined = rows["dataset"] + ": " + rows["method"] if "dataset" in rows else rows["method"]
    names = list(_figure_names(joined).values())

    def draw(ax: Axes) -> None:
        from . import figures as plots

        values = rows[["printed", "guess"]].to_numpy(dtype=float)
        found = {
            name: {"printed": (a, np.nan, np.nan), "guess": (b, np.nan, np.nan)}
            for name, (a, b) in zip(names, values, strict=True)
        }
        bars = [
            dict(zip(names, zip(rows[f"low{end}"], rows[f"high{end}"], strict=True), strict=True))
            for end in ("", "_decreasing")
            if f"low{end}" in rows
        ]
        plots.intervals(ax, found, *bars)
        ax.set_xlabel(label)

    return _drawn((draw, 1.0 + 0.75 * len(names)))


def _comparison_panel(comparison: pd.DataFrame, label: str) -> _Panel:
    """The corrected difference of each pair, and all that the sample leaves possible."""
    shown = _figure_names(comparison[["first", "second"]].to_numpy().ravel())
    pairs = comparison[["first", "second"]].itertuples(index=False, name=None)
    labels = [f"{shown[first]} and {shown[second]}" for first, second in pairs]

    def draw(ax: Axes) -> None:
        from .figures import MARKS

        color, marker = MARKS[0]["color"], MARKS[0]["marker"]
        places = range(len(labels))
        ax.hlines(places, comparison["possible_low"], comparison["possible_high"], color=color)
        ax.plot(comparison["estimate"], places, marker, color=color)
        ax.axvline(0.0, color="black", linewidth=1)
        ax.set_yticks(places, labels)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_xlabel(f"difference in {label}")

    return draw, 1.2 + 0.35 * len(labels)


def comparison_figure(comparison: pd.DataFrame, name: str) -> Figure:
    """The corrected difference of each pair, and all that the sample leaves possible.

    Examples
    --------
    >>> row = {"first": "A", "second": "B", "estimate": 0.2}
    >>> row |= {"possible_low": 0.1, "possible_high": 0.3}
    >>> comparison_figure(pd.DataFrame([row]), "auc").axes[0].get_xlabel()
    'difference in AUC'
    """
    return _drawn(_comparison_panel(comparison, metric(name).label))


#: What a plan's curves may be drawn over, and the columns of that and of what is as planned.
_VARIED = {"negatives per user": ("n_negatives", "n_users"), "users": ("n_users", "n_negatives")}


def _plan_panel(rows: pd.DataFrame, what: str) -> _Panel:
    """The probability of the right verdict by negatives or users, the other as planned."""
    by, other = _VARIED[what]
    sampled = rows[rows["n_negatives"].notna()]
    planned = sampled.groupby(other)[by].nunique().idxmax()
    lines = {
        str(name): part.set_index(by)["probability"].sort_index().astype(float)
        for name, part in sampled[sampled[other] == planned].groupby("estimator", sort=False)
    }
    at = next(iter(lines.values())).index.to_numpy(dtype=float)
    exact = rows[rows["n_negatives"].isna()].set_index("n_users")["probability"]
    if by == "n_users":
        lines["exact"] = exact.reindex(at).astype(float)

    def draw(ax: Axes) -> None:
        from . import figures as plots

        if by == "n_negatives":
            ax.axhline(float(exact[exact.index == planned].iloc[0]), color="#5b5b5b", linewidth=1)
        plots.curves(ax, at, lines)
        ax.set(xscale="log", ylim=(-0.02, 1.04), xlabel=what)
        ax.set_ylabel("probability of the right verdict")
        ax.legend()

    return draw, 3.6


#: How a plan may reach its probability: the word, and the columns of counts and scores.
_WAYS = {
    "negatives": ("negatives_needed", "scores_by_negatives"),
    "users": ("users_needed", "scores_by_users"),
}


def _needs_panel(rows: pd.DataFrame, title: str) -> _Panel:
    """What each estimator of a plan needs, by the scores that it takes."""
    records: list[dict[str, Any]] = [dict(row) for _, row in rows.astype(object).iterrows()]
    exact = records[-1]
    names = [*(str(row["estimator"]) for row in records[:-1]), "all items"]
    shares = [f"{p:.0%}" if (p := row["probability"]) < 0.995 else "over 99%" for row in records]
    labels = [
        name if name == "race" else f"{name}\nright in {share}"
        for name, share in zip(names, shares, strict=True)
    ]
    scores = [
        float(row[at]) for row in records for _, at in _WAYS.values() if not pd.isna(row[at])
    ] or [1.0]
    low, high = min(scores), max(scores)

    def draw(ax: Axes) -> None:
        from matplotlib.ticker import NullFormatter

        from .figures import MARKS

        ax.set(xscale="log", title=title, xlabel="scores to compute for one recommender")
        ax.set_xlim(low / 2, high * 2)
        ax.xaxis.set_minor_formatter(NullFormatter())
        if not pd.isna(exact["scores_by_negatives"]):
            ax.axvline(exact["scores_by_negatives"], color="black", linewidth=1)
        for place, row in enumerate(records):
            for (way, (needed, at)), mark, up in zip(
                _WAYS.items(), MARKS, (-0.2, 0.2), strict=False
            ):
                count, x, color = row[needed], row[at], mark["color"]
                if row is exact and way == "negatives":
                    label, color = "users as planned", "black"
                elif row["estimator"] == "race" and way == "negatives":
                    continue
                elif pd.isna(count):
                    label = f"not reached with more {way}"
                else:
                    label = f"{count:,} {way if count != 1 else way[:-1]}"
                right = True
                if pd.isna(x):  # beyond all counts, too
                    x = low / 2
                else:
                    ax.plot(x, place + up, mark["marker"], color=color, ms=6)
                    right = float(x) ** 2 < low * high
                ax.annotate(
                    label,
                    (x, place + up),
                    (7 if right else -7, 0),
                    textcoords="offset points",
                    ha="left" if right else "right",
                    va="center",
                    fontsize=10,
                    color=color,
                    bbox={"facecolor": "white", "linewidth": 0, "pad": 0.5},
                )
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.grid(False, axis="y")

    return draw, 1.1 + 0.55 * len(records)


def plan_figure(plans: pd.DataFrame) -> Figure:
    """For each pair what every estimator needs, in negatives or in users, and what that costs.

    Below its name stands the probability of the right verdict as planned. The line is what it
    costs to rank all items for the planned users.

    Examples
    --------
    >>> from sampled_metrics import Protocol, planning
    >>> found = planning.plan({1: 1.0}, {9: 1.0}, "ap", Protocol(100, 5), 5, estimators=["naive"])
    >>> [text.get_text() for text in plan_figure(found.frame).axes[0].texts]
    ['8 negatives', '8 users', 'users as planned', '1 user']
    """
    if "first" not in plans:
        return _drawn(_needs_panel(plans, ""))
    groups = plans.groupby(["first", "second"], sort=False)
    return _drawn(*(
        _needs_panel(rows, " and ".join(_figure_names(map(str, pair)).values()))
        for pair, rows in groups
    ))  # fmt: skip


#: Smaller p-values are drawn here, as arrowheads.
_LEAST_P = 1e-12


def audit_figure(checks: pd.DataFrame, level: float) -> Figure:
    """How odd each check of an audit found the negatives, and from where on it raises an alarm.

    Parameters
    ----------
    checks : pandas.DataFrame
        The frame of an audit.
    level : float
        Of its alarms together.

    Examples
    --------
    >>> checks = pd.DataFrame({"check": ["items"], "p_value": [0.3], "alarm": [False]})
    >>> [text.get_text() for text in audit_figure(checks, 0.05).axes[0].get_yticklabels()]
    ['items']
    """

    def draw(ax: Axes) -> None:
        from .figures import MARKS

        alarms = ", ".join(checks.loc[checks["alarm"], "check"])
        ax.set(xscale="log", xlim=(1.6, _LEAST_P / 2), title=f"alarm: {alarms or 'none'}")
        ax.axvspan(level / len(checks), _LEAST_P / 2, color="#e6e6e6", linewidth=0)
        for place, (alarm, found) in enumerate(
            zip(checks["alarm"], checks["p_value"], strict=True)
        ):
            mark, p = MARKS[int(alarm)], max(float(found), _LEAST_P)
            shape = ">" if found < _LEAST_P else mark["marker"]
            ax.hlines(place, 1.0, p, color=mark["color"], linewidth=1.6)
            ax.plot(p, place, shape, color=mark["color"], ms=7)
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


def _image(panel: _Panel) -> str:
    """A panel as an image to put inside a page: in vector form, its text as outlines."""
    figure, buffer = _drawn(panel), io.StringIO()
    from matplotlib.style import context

    from .figures import STYLE

    with context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # it is drawn as a box
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return base64.b64encode(buffer.getvalue().encode()).decode()


def _drawn(*panels: _Panel) -> Figure:
    """A figure with a row for each panel."""
    import_figures()
    from matplotlib.figure import Figure
    from matplotlib.style import context

    from .figures import STYLE, WIDTH

    heights = [height for _, height in panels]
    with context(STYLE):
        made = Figure((WIDTH, sum(heights)))  # not by pyplot: no window is involved
        rows = made.subplots(len(panels), squeeze=False, height_ratios=heights)
        for ax, (draw, _) in zip(rows[:, 0], panels, strict=True):
            draw(ax)
    return made


def import_figures() -> None:
    """Find out whether figures can be drawn, before work is done that would be lost.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import_figures()
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(
            "a report needs matplotlib: pip install 'sampled-metrics[report]'"
        ) from None


def _figure_names(names: Iterable[str], longest: int = 24) -> dict[str, str]:
    """Names as a figure can draw them: no mathematics, not too long, and all different."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        shown = printable(name)
        shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
        shown = shown.replace("$", r"\$") or "–"
        alike = sum(other.split("\u2009#")[0] == shown for other in found.values())
        found[name] = f"{shown}\u2009#{alike + 1}" if alike else shown
    return found

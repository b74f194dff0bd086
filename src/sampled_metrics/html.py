"""One page of HTML that holds all of an evaluation: tables, figures, verdicts and definitions.

The page asks no other host for anything: styles are inside, and so are the figures, as images in
vector form. It follows the reader's choice of light or dark, and the width of the screen.
"""

from __future__ import annotations

import base64
import html
import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from .metrics import metric
from .results import printable, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    "maximum likelihood": "The exact metric of the distribution of true ranks under which the "
    "observed sampled ranks are most likely.",
    "maximum entropy": "The exact metric of the most even distribution of true ranks that agrees "
    "with the observed sampled ranks.",
    "identification": "The smallest and the largest exact metric that any distribution of true "
    "ranks compatible with the observed sampled ranks can have. Where this interval is wide, the "
    "sample does not say what the exact metric is, and an estimate rests on its assumptions.",
    "standard error": "Of the average over users, who are taken as a sample; the noise of the "
    "sampled negatives is included, and so is that of priors fitted to the log. Bias is not.",
    "low, high": "Ends of the interval of the given confidence: for an estimator Student's, with "
    "many users, for its expectation, which is the exact metric only where the estimator has no "
    "bias; for the difference of two recommenders all exact differences that the sample leaves "
    "possible, for any number of users.",
    "p-value": "Of a test whether chance and the worst bias could explain the corrected "
    "difference, for any number of users; adjusted for the number of pairs and for the two ways "
    "to a verdict. Missing where the estimator is fitted to the sample.",
    "separate": "Whether the identification intervals of the two recommenders, at the confidence "
    "that all of them need to hold together, do not overlap.",
    "verdict": "One beats the other if the p-value is at most 1 less the confidence or the "
    "intervals are separate. That is also the most that the chance of any wrong verdict can be.",
}

_STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --page: #ffffff; --line: #8a8a8a;
  --soft: #f1f3f5; --note: #8a2f00; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --page: #16181b; --line: #7d8590;
  --soft: #23272c; --note: #ffb08a; } }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; color: var(--text);
  background: var(--page); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .5rem; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
.number { text-align: right; }
thead th { background: var(--soft); }
figure { margin: 1.5rem 0; }
figure img { width: 100%; max-width: 45rem; height: auto; background: #ffffff; }
.warned { color: var(--note); }
dt { font-weight: 600; margin-top: .6rem; }
dd { margin-left: 1rem; }
"""


def of_estimates(
    estimates: pd.DataFrame,
    comparisons: Mapping[str, pd.DataFrame],
    facts: Mapping[str, object],
    notes: Sequence[str] = (),
) -> str:
    """Write the page of an estimation and of the verdicts that follow from it.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The table of :class:`~sampled_metrics.results.Estimates`.
    comparisons : mapping of str to pandas.DataFrame
        Under the name of each metric the table of :class:`~sampled_metrics.results.Comparison`.
    facts : mapping of str to object
        What was read, under the name of each fact.
    notes : sequence of str
        What is left out.

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
    >>> row = ("A", "ndcg@10", "naive", 0.5, 0.01, 0.48, 0.52, 100)
    >>> names = "recommender metric estimator value standard_error low high users".split()
    >>> page = of_estimates(pd.DataFrame([row], columns=names), {}, {"log": "a.csv"})
    >>> page.startswith("<!doctype html>"), page.count("<table>"), page.count("<img ")
    (True, 1, 1)
    """
    parts = [_facts(facts), _notes(notes)]
    for name in dict.fromkeys([*estimates["metric"], *comparisons]):
        label = metric(name).label
        parts.append(f"<h2>{_escaped(label)}</h2>")
        if name in comparisons:
            parts.append(_verdicts(comparisons[name], label))
        rows = estimates[estimates["metric"] == name].drop(columns="metric")
        if len(rows):
            parts.append(_estimates_figure(rows, label))
            caption = f"{label}: what each estimator says of each recommender."
            parts.append(_table(rows, caption))
        if name in comparisons:
            caption = f"{label}: differences, first recommender less second."
            parts.append(_table(comparisons[name].drop(columns="warning"), caption))
    said = [*estimates["estimator"], "standard error", "low, high"]
    said += ["p-value", "separate", "verdict"] if comparisons else []
    return _page("What a sampled evaluation says", [*parts, _definitions(said)])


def of_comparison(
    comparison: pd.DataFrame, facts: Mapping[str, object], notes: Sequence[str] = ()
) -> str:
    """Write the page of a comparison by itself.

    Parameters
    ----------
    comparison : pandas.DataFrame
        The table of :class:`~sampled_metrics.results.Comparison`.
    facts, notes
        As for :func:`of_estimates`; `facts` has the name of the metric.

    Returns
    -------
    str
        A page of HTML.

    Examples
    --------
    >>> names = "first second naive corrected standard_error low high p_value separate verdict"
    >>> row = "A", "B", 0.1, 0.2, 0.05, 0.1, 0.3, 0.001, True, "A beats B"
    >>> frame = pd.DataFrame([row], columns=names.split()).assign(warning="")
    >>> page = of_comparison(frame, {"metric": "auc"})
    >>> page.count("<table>"), page.count("<img "), page.count("<strong>A beats B</strong>")
    (1, 1, 1)
    """
    label = metric(str(facts["metric"])).label
    caption = f"{label}: differences, first recommender less second."
    said = ["standard error", "low, high", "p-value", "separate", "verdict"]
    parts = [
        _verdicts(comparison, label),
        _figure(_comparison_drawn(comparison, label), f"Differences in {label}.", caption,
                height=1.2 + 0.35 * len(comparison)),
        _table(comparison.drop(columns="warning"), caption),
        _facts(facts), _notes(notes), _definitions(said),
    ]  # fmt: skip
    return _page("Which recommender beats which", parts)


def of_plan(plans: pd.DataFrame, curves: pd.DataFrame, facts: Mapping[str, object]) -> str:
    """Write the page of a plan.

    Parameters
    ----------
    plans, curves : pandas.DataFrame
        As from :func:`sampled_metrics.planning.plan` and :func:`~sampled_metrics.planning.curve`,
        each with two columns more in front, first and second: the recommenders.
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
    >>> from . import Protocol, planning
    >>> pair, given = pd.DataFrame({"first": ["A"], "second": ["B"]}), ({1: 1.0}, {9: 1.0})
    >>> samples = [Protocol(100, m) for m in (5, 10)]
    >>> found = planning.plan(*given, "ap", samples[-1], 5, estimators=["naive"]).frame
    >>> by = planning.curve(*given, "ap", samples, 5, estimators=["naive"])
    >>> page = of_plan(pair.merge(found, "cross"), pair.merge(by, "cross"), {})
    >>> page.count("<table>"), page.count("<img ")
    (1, 2)
    """
    parts = [_facts(facts)]
    for (first, second), rows in plans.groupby(["first", "second"], sort=False):
        pair = f"{printable(str(first))} and {printable(str(second))}"
        parts.append(f"<h2>{_escaped(pair)}</h2>")
        chosen = (curves["first"] == first) & (curves["second"] == second)
        parts += [_plan_figure(curves[chosen], pair, by) for by in ("n_negatives", "n_users")]
        caption = (
            f"{pair}: probability of the right verdict and of a tie with the planned numbers; "
            "negatives needed with the planned users; users needed with the planned negatives; "
            "scores to compute for one recommender in either case."
        )
        parts.append(_table(rows.drop(columns=["first", "second"]), caption))
    names = [name for name in plans["estimator"].unique() if name in DEFINITIONS]
    return _page("How large an evaluation must be", [*parts, _definitions(names)])


def page(title: str, body: str) -> str:
    """A page of its own for a table.

    Examples
    --------
    >>> page("Audit", "<p>Nothing.</p>").startswith("<!doctype html>")
    True
    """
    return _page(title, [body])


def _page(title: str, parts: Iterable[str]) -> str:
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{_escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>",
            f"<body>\n<main>\n<h1>{_escaped(title)}</h1>",
            *parts,
            "</main>\n</body>\n</html>\n",
        ]
    )


def _escaped(value: object) -> str:
    return html.escape(text(value))


def _facts(facts: Mapping[str, object]) -> str:
    items = "".join(f"<li>{_escaped(name)}: {_escaped(fact)}</li>" for name, fact in facts.items())
    return f"<h2>What was read</h2>\n<ul>{items}</ul>"


def _definitions(names: Iterable[str]) -> str:
    """The words that the page uses, in the order of the list above."""
    used = set(names)
    items = "".join(
        f"<dt>{_escaped(name)}</dt><dd>{_escaped(meaning)}</dd>"
        for name, meaning in DEFINITIONS.items()
        if any(word == name or word.startswith(f"{name},") for word in used)
    )
    return f"<h2>How to read this</h2>\n<dl>{items}</dl>"


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{_escaped(note)}.</li>" for note in notes)
    return f"<p>Left out:</p>\n<ul>{items}</ul>" if items else ""


def table(frame: pd.DataFrame, caption: str, notes: Sequence[str] = ()) -> str:
    """A table as a notebook shows it, and the notes below it.

    Examples
    --------
    >>> table(pd.DataFrame({"a": [1]}), "One.").count("<td")
    1
    """
    return _table(frame, caption) + _notes(notes)


def _table(frame: pd.DataFrame, caption: str) -> str:
    numeric = [pd.api.types.is_numeric_dtype(frame[name]) for name in frame.columns]
    kinds = [' class="number"' if number else "" for number in numeric]
    heads = [str(name).replace("_", " ") for name in frame.columns]
    head = "".join(
        f'<th scope="col"{kind}>{_escaped(name)}</th>'
        for name, kind in zip(heads, kinds, strict=True)
    )
    rows = []
    for values in frame.itertuples(index=False, name=None):
        cells = [f"<td{kind}>{_escaped(v)}</td>" for v, kind in zip(values, kinds, strict=True)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    # A wide table scrolls by itself, also by keyboard, so that the page does not.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_escaped(caption)}">\n'
        f"<table><caption>{_escaped(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _verdicts(comparison: pd.DataFrame, label: str) -> str:
    """The verdict on each pair in a sentence, with a warning where the naive metric misleads."""
    said = []
    for row in comparison.to_dict("records"):
        pair = f"{row['first']} and {row['second']}"
        line = f"{_escaped(pair)}: <strong>{_escaped(row['verdict'])}</strong>."
        if text(row["warning"]):
            line += f' <span class="warned">Warning: {_escaped(row["warning"])}.</span>'
        said.append(f"<li>{line}</li>")
    return f"<p>Verdicts on {_escaped(label)}:</p>\n<ul>{''.join(said)}</ul>"


def _estimates_drawn(rows: pd.DataFrame, label: str) -> tuple[Callable[[Axes], Any], int]:
    """What draws the estimates of one metric, and the lines that it takes."""
    shown = _figure_names(rows["recommender"].unique())
    found: dict[str, dict[str, tuple[float, float, float]]] = {n: {} for n in shown.values()}
    possible: dict[str, tuple[float, float]] = {}
    for row in rows.to_dict("records"):
        name, ends = shown[row["recommender"]], (row["low"], row["high"])
        if row["estimator"] == "identification":
            possible[name] = ends
        else:
            found[name][row["estimator"]] = (row["value"], *ends)

    def draw(ax: Axes) -> None:
        from . import plots

        plots.intervals(ax, found, possible)
        ax.set_xlabel(label)

    return draw, len(found) + sum(map(len, found.values()))


def _estimates_figure(rows: pd.DataFrame, label: str) -> str:
    draw, lines = _estimates_drawn(rows, label)
    caption = (
        f"{label} of each recommender. Markers: the estimators, with confidence intervals of their "
        "expectations. Grey bars: all values that the sample leaves possible, where they were "
        "computed. An arrowhead at the edge is a value beyond it. The table has the numbers."
    )
    alt = f"Intervals of {label} for each recommender and estimator; the same numbers as the table."
    return _figure(draw, alt, caption, height=1.0 + 0.24 * lines)


def estimates_figures(estimates: pd.DataFrame) -> Figure:
    """The figures of the page of an estimation, one below the other.

    Examples
    --------
    >>> row = ("A", "ndcg@10", "naive", 0.5, 0.01, 0.48, 0.52, 100)
    >>> names = "recommender metric estimator value standard_error low high users".split()
    >>> len(estimates_figures(pd.DataFrame([row], columns=names)).axes)
    1
    """
    parts = [
        _estimates_drawn(rows, metric(str(name)).label)
        for name, rows in estimates.groupby("metric", sort=False)
    ]
    return _drawn([draw for draw, _ in parts], [1.0 + 0.24 * lines for _, lines in parts])


def _comparison_drawn(comparison: pd.DataFrame, label: str) -> Callable[[Axes], Any]:
    """What draws the differences that each pair may have."""
    found = {}
    for row in comparison.to_dict("records"):
        pair = " and ".join(_figure_names([row["first"], row["second"]]).values())
        found[pair] = {row["verdict"]: (row["corrected"], row["low"], row["high"])}

    def draw(ax: Axes) -> None:
        for place, (pair, ((_, (value, low, high)),)) in enumerate(
            (pair, tuple(each.items())) for pair, each in found.items()
        ):
            ax.hlines(place, low, high, color="#0b3c6f")
            ax.plot(value, place, "o", color="#0b3c6f", label=pair)
        ax.axvline(0.0, color="black", linewidth=1)
        ax.set_yticks(range(len(found)), list(found))
        ax.set_ylim(len(found) - 0.4, -0.6)
        ax.set_xlabel(f"difference in {label}")

    return draw


def comparison_figure(comparison: pd.DataFrame, name: str) -> Figure:
    """The corrected difference of each pair, and all that the sample leaves possible.

    Examples
    --------
    >>> row = {"first": "A", "second": "B", "corrected": 0.2, "low": 0.1, "high": 0.3}
    >>> frame = pd.DataFrame([row | {"verdict": "A beats B"}])
    >>> comparison_figure(frame, "auc").axes[0].get_xlabel()
    'difference in AUC'
    """
    draw = _comparison_drawn(comparison, metric(name).label)
    return _drawn([draw], [1.2 + 0.35 * len(comparison)])


def _plan_figure(rows: pd.DataFrame, pair: str, by: str) -> str:
    """The probability of the right verdict by negatives or users, the other as planned."""
    what, other = {
        "n_negatives": ("negatives per user", "n_users"),
        "n_users": ("users", "n_negatives"),
    }[by]
    sampled = rows[rows["n_negatives"].notna()]
    planned = sampled.groupby(other)[by].nunique().idxmax()
    lines = {
        str(name): part.set_index(by)["probability"].sort_index().astype(float)
        for name, part in sampled[sampled[other] == planned].groupby("estimator", sort=False)
    }
    at = next(iter(lines.values())).index.to_numpy(dtype=float)
    exact = rows[rows["n_negatives"].isna()].set_index("n_users")["probability"]

    def draw(ax: Axes) -> None:
        from . import plots

        if by == "n_users":
            lines["exact"] = exact.reindex(at).astype(float)
        else:
            ax.axhline(float(exact[exact.index == planned].iloc[0]), color="#5b5b5b", linewidth=1)
        plots.curves(ax, at, lines)
        ax.set(xscale="log", ylim=(-0.02, 1.04), xlabel=what)
        ax.set_ylabel("probability of the right verdict")
        ax.legend()

    last = "the grey line is" if by == "n_negatives" else "one is"
    caption = (
        f"{pair}: probability of the right verdict by the number of {what} (logarithmic), the "
        f"other number as planned. Each curve is an estimator; {last} the exact evaluation of as "
        "many users."
    )
    alt = f"Curves of the probability of the right verdict on {pair}, by {what}."
    return _figure(draw, alt, caption, height=3.6)


def _figure(draw: Callable[[Axes], Any], alt: str, caption: str, height: float) -> str:
    """An image inside the page: drawn in vector form, its text as outlines."""
    import_figures()
    from matplotlib.style import context

    from . import plots

    buffer = io.StringIO()
    with context(plots.STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # it is drawn as a box
        _drawn([draw], [height]).savefig(buffer, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(buffer.getvalue().encode()).decode()
    return (
        f'<figure><img alt="{_escaped(alt)}" src="data:image/svg+xml;base64,{encoded}">'
        f"<figcaption>{_escaped(caption)}</figcaption></figure>"
    )


def _drawn(draw: Sequence[Callable[[Axes], Any]], heights: Sequence[float]) -> Figure:
    """A figure with a row for each thing to draw."""
    import_figures()
    from matplotlib.figure import Figure
    from matplotlib.style import context

    from . import plots

    with context(plots.STYLE):
        made = Figure((plots.WIDTH, sum(heights)))  # not by pyplot: no window is involved
        rows = made.subplots(len(draw), squeeze=False, height_ratios=heights)
        for ax, each in zip(rows[:, 0], draw, strict=True):
            each(ax)
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
    for name in names:
        shown = printable(name)
        shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
        shown = shown.replace("$", r"\$") or "–"
        alike = sum(other.split("\u2009#")[0] == shown for other in found.values())
        found[name] = f"{shown}\u2009#{alike + 1}" if alike else shown
    return found

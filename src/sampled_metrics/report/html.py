"""One page of HTML with all of an evaluation: tables, figures, verdicts and definitions.

The page loads nothing from other hosts: styles and figures (vector images) are inside. It follows
the reader's choice of light or dark, and the width of the screen. The fixed text is in the folder
templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from .._confidence import UNDECIDED
from ..designs.track_record import benchmark
from ..metrics import shown as metric
from ..results import Comparison, Estimates, Plan, Result
from .figures import comparison_panel, estimates_panel, image
from .text import made_with, pair_name, text

#: Definitions of the terms on the pages.
DEFINITIONS = {
    "naive": "The metric applied to the sampled rank as if the sampled items were the catalogue: "
    "what sampled evaluations report. Except for AUC, it does not estimate the exact metric.",
    "rank estimate": "The metric at an unbiased estimate of the true rank, rounded down.",
    "monotone": "The least biased correction among those that never rise with the sampled rank.",
    "bias-variance": "The correction with the least squared bias plus gamma times variance, on "
    "average over true ranks.",
    "reported": "The metric of the sampled ranks, which is what sampled evaluations report. It "
    "estimates AUC, and no other exact metric.",
    "learned prior": "The metric of the true ranks that are likely by the sampled ranks and by a "
    "prior learned from recommenders with known exact ranks. Its standard error is the error of "
    "the value, for the log's own users.",
    "estimate": "By default, by the learned prior, or by the naive metric where it has no bias. "
    "The standard error of a correction leaves out its bias.",
    "typical": "A range for the exact metric of the log's own users. It was calibrated on models "
    "whose exact metrics are known: the line above the ranges says on which. At most 5% of these "
    "get a range that misses, on average over their sources. That is no promise "
    "for one source, for all rows of a log at once, or for a model chosen because its result is "
    "high.",
    "probability": "By the track record: how often two recommenders whose estimates differ as "
    "clearly were in the order of their estimates, averaged over the benchmark's sources, at most "
    "99%. The second number is that of the worst source. The figures rest on "
    f"{benchmark()}.",
    "standard error": "Of the average over users, who are taken as a sample; the noise of the "
    "sampled negatives is included, and so is that of priors fitted to the log. Bias is not.",
    "interval": "All exact values that are consistent with the log under the assumption named, at "
    "the confidence named: in 5% of logs at most a 95% interval misses the exact value, if the "
    "assumption holds. That is the value of a population that the users were drawn from, unless "
    "it says otherwise. Where it is wide, the sample does not say what the exact metric is.",
    "large sample": "Student's interval of the paired differences, as for any metric without bias. "
    "It needs many users.",
    "assumption": "What a range or a verdict assumes of the true ranks. None: nothing. None, of "
    "these users: nothing, and it is of the log's users and not of a population. Decreasing at the "
    "top: near the top, deeper ranks have fewer users.",
    "warrant": "Why a range or a verdict is right as often as the confidence says. Theorem: for "
    "any number of users, if the assumption holds. Large sample: by Student's test, which needs "
    "many users. Track record: calibrated on recommenders whose exact metrics are known, with a "
    "theorem on the average over sources like theirs.",
    "quote": "What a sentence may quote: the estimate with its interval. Name the assumption and "
    "the confidence with it.",
    "verdict": "One beats the other if the log contradicts the opposite at the confidence named. "
    "The chance that any such verdict on the log's pairs by one metric is wrong is at most 1 less "
    "the confidence, if the verdict's assumption holds. It is a promise on the exact metrics of a "
    "population that the users were drawn from at random. A verdict whatever the ranks holds for "
    "the log's own users, too, and for them alone if it says so. One probably beats the other if "
    "the log does not decide, but the track record does. It is calibrated so that at most 5% of "
    "all pairs of the benchmark get a wrong verdict, on average over its sources.",
}


def _written(value: object) -> object:
    """What a template prints: markup unchanged, all other values formatted as text."""
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


def page(result: Result) -> str:
    """The page of a result as HTML."""
    pages: dict[type[Result], Callable[[Any], str]] = {
        Estimates: _estimates_page,
        Comparison: _comparison_page,
        Plan: of_plan,
    }
    return pages.get(type(result), _result_page)(result)


def _result_page(result: Result) -> str:
    return _filled("result.html", title=type(result).__name__, **_parts(result))


def _estimates_page(result: Estimates) -> str:
    return of_estimates(result, result.comparisons, _facts(result))


def _comparison_page(result: Comparison) -> str:
    if result.estimates is None:
        return of_comparison(result, _facts(result))
    return of_estimates(result.estimates, result.by_metric(), _facts(result))


def _facts(result: Estimates | Comparison) -> Mapping[str, object]:
    """What the page says of the log; the settings if the result does not know its log."""
    if not result.facts:
        return result.settings
    return {**result.facts, "confidence": f"{result.settings['confidence']:g}"}


def of_estimates(
    estimates: Estimates,
    comparisons: Mapping[str, Comparison],
    facts: Mapping[str, object],
) -> str:
    """The page of estimates, with the comparison of each metric by its name."""
    metrics = []
    frame, shown = estimates.frame, estimates.shown
    for name in dict.fromkeys([*frame["metric"], *comparisons]):
        label, in_metric = metric(name).label, frame["metric"] == name
        compared = comparisons.get(name)
        metrics.append({
            "label": label,
            "matrix": {} if compared is None else matrix(compared),
            "sentences": [] if compared is None else compared.sentences,
            "differences": None if compared is None else compared.shown,
            "of_differences": [] if compared is None else compared.promises(),
            "estimates": shown[in_metric].drop(columns="metric"),
            "promises": estimates.promises(name),
            "image": image(estimates_panel(frame[in_metric], label)) if in_metric.any() else "",
        })  # fmt: skip
    words = [*frame.columns, *shown.columns]
    words += [
        word
        for comparison in comparisons.values()
        for word in (*_present(comparison), *comparison.shown)
    ]
    notes = [
        *estimates.notes,
        *(note for comparison in comparisons.values() for note in comparison.notes),
    ]
    return _filled(
        "estimates.html",
        metrics=metrics,
        facts=facts,
        notes=list(dict.fromkeys(notes)),
        methods=replace(estimates, comparisons=comparisons).methods(),
        tables=[result.to_latex() for result in (estimates, *comparisons.values())],
        definitions=_defined(words),
    )


def matrix(comparison: Comparison) -> dict[str, list[str]]:
    """The verdicts of each recommender on all of them, in the same order, most victories first.

    Empty for two recommenders, whose only verdict needs no table, and for groups.
    """
    frame = comparison.frame
    names = list(dict.fromkeys([*frame["first"], *frame["second"]]))
    if len(names) < 3 or frame.duplicated(["first", "second"]).any():
        return {}
    words = {(name, rival): UNDECIDED if name != rival else "" for name in names for rival in names}
    for first, second, verdict in frame[["first", "second", "verdict"]].itertuples(index=False):
        for name, rival in ((first, second), (second, first)):
            for sure in ("", "probably "):
                if verdict == f"{name} {sure}beats {rival}":
                    words[name, rival], words[rival, name] = f"{sure}beats", f"{sure}loses"

    def score(name: str) -> int:
        row = [words[name, rival] for rival in names]
        return sum(word.endswith("loses") - word.endswith("beats") for word in row)

    order = sorted(names, key=score)
    return {name: [words[name, rival] for rival in order] for name in order}


def of_comparison(comparison: Comparison, facts: Mapping[str, object]) -> str:
    """The page of a comparison without estimates."""
    parts = comparison.by_metric()
    return _filled(
        "comparison.html",
        label=", ".join(metric(name).label for name in parts),
        matrix=matrix(comparison),
        sentences=comparison.sentences,
        differences=comparison.shown,
        promises=comparison.promises(),
        image=image(*map(comparison_panel, parts.values())),
        facts=facts,
        notes=comparison.notes,
        methods=comparison.methods(),
        tables=[comparison.to_latex()],
        definitions=_defined([*_present(comparison), *comparison.shown.columns]),
    )


def of_plan(plan: Plan) -> str:
    """The page of a plan."""
    pairs = [
        {"name": pair_name({"first": first, "second": second}),
         "plans": rows.drop(columns=["first", "second"])}
        for (first, second), rows in plan.frame.groupby(["first", "second"], sort=False)
    ]  # fmt: skip
    return _filled(
        "plan.html",
        pairs=pairs,
        facts=plan.facts or plan.settings,
        sentences=plan.sentences,
        promises=plan.promises(),
        definitions=_defined(plan.frame["estimator"]),
    )


def table(result: Result) -> str:
    """A table as a notebook shows it, with the notes below."""
    return _filled("table.html", **_parts(result))


def _parts(result: Result) -> dict[str, object]:
    return {"frame": result.shown, "caption": made_with(result), "notes": result.notes}


def _present(comparison: Comparison) -> Iterable[str]:
    """The columns that hold something."""
    return comparison.frame.dropna(axis="columns", how="all").columns


def _defined(names: Iterable[str]) -> dict[str, str]:
    """The definitions of the terms that a page uses, in the order of DEFINITIONS."""
    names = [name.rpartition("% ")[2] for name in names]  # "interval" of every confidence
    used = {word for name in names for word in (name.replace("_", " "), name.split(",")[0])}
    return {name: meaning for name, meaning in DEFINITIONS.items() if used & set(name.split(", "))}

"""What a paper says of a result: a paragraph on the methods, and the table with its caption."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from .._confidence import LARGE_SAMPLE, THEOREM
from .._validate import printable
from ..designs.track_record import benchmark
from ..metrics import shown as metric
from ..results import Comparison, Estimates, Result
from .text import assuming, cells_of, confidence_of, grounds_of, is_number, shown

#: How to cite the package, as in CITATION.cff, and the paper of its corrections.
CITATION = "The Sampled Metrics authors, Sampled Metrics, version 0.1.0, 2026"
CORRECTION = "Krichene and Rendle, On Sampled Metrics for Item Recommendation, KDD 2020"
#: Columns that rest on the track record, in words.
_RECORDED = {"typical_low": "typical ranges", "probability": "probabilities of orders"}
_LATEX_ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)


def latex(result: Result, caption: str | None, label: str | None) -> str:
    """A table as LaTeX, for the package booktabs."""
    frame, caption = shown(result), _caption(result) if caption is None else caption
    headings = [str(name).replace("_", " ") for name in frame]
    alignments = "".join("r" if is_number(frame[name]) else "l" for name in frame)
    return pd.DataFrame(cells_of(frame), columns=headings).to_latex(
        index=False, escape=True, column_format=alignments, caption=caption or None, label=label
    )


def methods(result: Result) -> str:
    """A paragraph for a paper: log, estimator, ranges, and what they rest on."""
    labels, names = _labels_and_names(result)
    compared = [*result.comparisons.values()] if isinstance(result, Estimates) else [result]
    lines, is_exact = _drawn(result.facts, names)
    lines += _estimated(result, labels, is_exact)
    lines += [f"The {line}." for line in _ranges_promised(result)]
    if "by" in result.settings and isinstance(result, Estimates):
        lines.append(
            "For each recommender and metric, the intervals of all users and of all groups hold "
            "together (Bonferroni)."
        )
    if any((comparison.frame["warrant"] == THEOREM).any() for comparison in compared):
        scope = "on all these metrics" if "metric" in compared[0].frame else "on one metric"
        scope += " and in all groups" if "by" in result.settings else ""
        lines.append(
            f"With a probability of at least {confidence_of(result)} all verdicts with this "
            f"confidence {scope} are right, if their assumptions hold."
        )
    is_missing = pd.concat([comparison.frame.isna().all() for comparison in (result, *compared)])
    lines += _recorded(result.settings, {*is_missing.index[~is_missing.astype(bool)]})
    return " ".join([*lines, f"Software: {CITATION}."])


def _drawn(facts: Mapping[str, Any], names: str) -> tuple[list[str], bool]:
    """Sentences on users and negatives; and whether these are all candidates."""
    evaluated = f"We evaluated {names} on {facts.get('users', 0):,} users."
    anchors = f"We ranked all items for {facts.get('anchors')} given the scored items."
    if "negatives" not in facts:
        return [evaluated, anchors] if "anchors" in facts else [], False
    ranked_among, is_exact = _negatives(facts)
    if not is_exact:
        design = f"{facts['design']}," if "design" in facts else "uniformly"
        ranked_among += f", drawn {design} from the {facts['items']} candidates of each user"
    ranked = f"Each held-out item was ranked among {ranked_among}."
    return [evaluated, ranked, *[anchors] * ("anchors" in facts)], is_exact


def _estimated(result: Result, labels: str, is_exact: bool) -> list[str]:
    """Sentences on the estimators."""
    settings = result.settings
    estimator = settings.get("estimator", "")
    if not estimator:
        return [f"We bounded {labels} on all candidates."]
    if is_exact and estimator == "naive":
        return [f"We computed {labels} of these exact ranks, without a correction."]
    lines = [f"We estimated {labels} on all candidates; estimator: {estimator}."]
    # Beside others it is there by default, and so only where it has no bias.
    if labels == "AUC" if estimator == "naive" else "naive" in estimator:
        lines.append("The naive metric is that of the sampled ranks; here it has no bias.")
    if "learned prior" in estimator:
        lines.append(
            f"The prior was learned from the exact ranks of {benchmark()} (Sampled Metrics)."
        )
    if "bias-variance" in estimator and "gamma" in settings:
        gamma = f"gamma {settings['gamma']:.3g}"
        lines.append(f"The bias-variance correction (with {gamma}) is from {CORRECTION}.")
    return lines


def _recorded(settings: Mapping[str, Any], columns: set[str]) -> list[str]:
    """A sentence on what rests on the track record, of the columns with values."""
    if "typical" in settings and "typical_low" in columns:
        return [f"The typical ranges are {settings['typical']}."]
    recorded = [words for name, words in _RECORDED.items() if name in columns]
    if not recorded:
        return []
    return [
        f"The {_joined(recorded)} are a track record, calibrated on the benchmark of Sampled "
        f"Metrics: {benchmark()}."
    ]


def _labels_and_names(result: Result) -> tuple[str, str]:
    """The metrics and the recommenders of a result, as in a sentence."""
    frame, is_comparison = result.frame, isinstance(result, Comparison)
    metric_names = result.by_metric() if isinstance(result, Comparison) else frame["metric"]
    columns = ["first", "second"] if is_comparison else ["recommender"]
    return (
        _joined(metric(name).label for name in metric_names),
        _joined(printable(str(name)) for name in frame[columns].to_numpy().ravel()),
    )


def _joined(words: Iterable[str]) -> str:
    """Distinct words as in a sentence.

    >>> _joined("XYZX"), _joined("X")
    ('X, Y and Z', 'X')
    """
    *rest, last = dict.fromkeys(words)
    return f"{', '.join(rest)} and {last}" if rest else last


def _negatives(facts: Mapping[str, object]) -> tuple[str, bool]:
    """The items that a held-out item is ranked among, and whether they are all candidates."""
    number, drawn = str(facts["negatives"]).rsplit(", ", 1)
    if drawn == "all of them":
        return f"all {facts['items']} candidates", True
    if number == "1":
        return "1 negative", False
    if drawn == "without replacement":
        return f"{number} distinct negatives", False
    return f"{number} negatives ({drawn})", False


def _ranges_promised(result: Result) -> list[str]:
    """Confidence, warrant and assumption of the intervals, in words."""
    intervals = f"{confidence_of(result)} intervals"
    if isinstance(result, Comparison):
        intervals += " of differences"
    grounds = {
        THEOREM: "valid with any number of users",
        LARGE_SAMPLE: "Student's, for large samples",
    }
    lines = [
        f"{grounds[warrant]}{scope and ','}{scope}, {condition}"
        for warrant, scope, condition in grounds_of(result, None, lambda name: metric(name).label)
    ]
    return [f"{intervals} are {'; '.join([*lines, *assuming(result)])}"] if lines else []


def _caption(result: Result) -> str | None:
    """LaTeX of a caption with what a reader needs to judge the table; None without a log."""
    if not isinstance(result, (Estimates, Comparison)) or "negatives" not in result.facts:
        return None
    labels, names = _labels_and_names(result)
    ranked_among, is_exact = _negatives(result.facts)
    sample = f"from {ranked_among} among {result.facts['items']} candidates"
    if is_exact:
        sample = f"ranked among {ranked_among}"
    differences = "Differences in " if isinstance(result, Comparison) else ""
    caption = f"{differences}{labels} of {names} on {result.facts['users']:,} users, {sample}"
    return "; ".join([caption, *_ranges_promised(result)]).translate(_LATEX_ESCAPES) + "."

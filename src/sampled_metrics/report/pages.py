"""Pages of a log: estimates with the verdicts on each pair, and what was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import evaluation
from ..log.compact import Log
from ..results import Comparison, Estimates, source_of


def with_verdicts(estimates: Estimates, log: Log, **options: Any) -> Estimates:
    """Add the verdicts on each pair, and the facts about the log, to the page of estimates.

    `options` are those of :func:`~sampled_metrics.compare`, as given to `estimate`.
    """
    source = source_of(log) | _confidence(estimates)
    if len(log.recommenders) < 2:
        note = "verdicts are left out: there is one recommender only"
        return replace(estimates, source=source, notes=(*estimates.notes, note))
    metric_names = estimates.frame["metric"].unique()
    comparisons = {
        metric_name: evaluation.compare(log, metric_name, **options) for metric_name in metric_names
    }
    return replace(estimates, source=source, comparisons=comparisons)


def with_estimates(comparison: Comparison, log: Log, **options: Any) -> Comparison:
    """Add each recommender's estimates, and the facts about the log, to the page of a comparison.

    `options` are those of :func:`~sampled_metrics.estimate`, as given to `compare`.
    """
    estimates = evaluation.estimate(log, [comparison.settings["metric"]], **options)
    source = source_of(log) | _confidence(comparison)
    return replace(comparison, source=source, estimates=estimates)


def _confidence(result: Estimates | Comparison) -> dict[str, object]:
    return {"confidence": f"{result.settings['confidence']:g}"}

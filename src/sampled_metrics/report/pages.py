"""Pages of a log: estimates with the verdicts on each pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import evaluation
from ..log.compact import Log
from ..log.sub_corpus import SubCorpus
from ..results import Comparison, Estimates


def with_verdicts(estimates: Estimates, log: Log | SubCorpus, **options: Any) -> Estimates:
    """Add the verdicts on each pair to the page of estimates.

    `options` are those of :func:`~sampled_metrics.compare`, as given to `estimate`.
    """
    if estimates.frame["recommender"].nunique() < 2 or "documents" in estimates.frame:
        is_curve = "documents" in estimates.frame
        reason = "there are several corpora" if is_curve else "there is one recommender only"
        note = f"verdicts are left out: {reason}"
        return replace(estimates, notes=(*estimates.notes, note))
    metric_names = estimates.frame["metric"].unique()
    comparisons = {
        metric_name: evaluation.compare(log, metric_name, **options) for metric_name in metric_names
    }
    return replace(estimates, comparisons=comparisons)


def with_estimates(comparison: Comparison, log: Log | SubCorpus, **options: Any) -> Comparison:
    """Add each recommender's estimates to the page of a comparison.

    `options` are those of :func:`~sampled_metrics.estimate`, as given to `compare`.
    """
    estimates = evaluation.estimate(log, list(comparison.by_metric()), **options)
    return replace(comparison, estimates=estimates)

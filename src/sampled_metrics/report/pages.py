"""Pages of a log: estimates with the verdicts on each pair, and what was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import evaluation
from ..log.compact import Log
from ..results import Comparison, Estimates, source_of


def with_verdicts(estimates: Estimates, log: Log, **options: Any) -> Estimates:
    """Add the verdicts on each pair to estimates, for their page.

    Parameters
    ----------
    estimates : Estimates
        Of this log, from :func:`~sampled_metrics.evaluation.estimate`.
    log : Log
    **options
        As for :func:`~sampled_metrics.evaluation.compare`: what was given to `estimate`, too.

    Returns
    -------
    Estimates

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> log = sm.read_log("bundled")
    >>> found = with_verdicts(sm.estimate(log, ["auc"]), log)
    >>> found.to_html().count("X beats Y on AUC")
    1
    """
    source = source_of(log) | _confidence(estimates)
    if len(log.recommenders) < 2:
        alone = "verdicts are left out: there is one recommender only"
        return replace(estimates, source=source, notes=(*estimates.notes, alone))
    names = estimates.frame["metric"].unique()
    comparisons = {each: evaluation.compare(log, each, **options) for each in names}
    return replace(estimates, source=source, comparisons=comparisons)


def with_estimates(comparison: Comparison, log: Log, **options: Any) -> Comparison:
    """Add the estimates of each recommender to a comparison, for its page.

    Parameters
    ----------
    comparison : Comparison
        Of this log, from :func:`~sampled_metrics.evaluation.compare`.
    log : Log
    **options
        As for :func:`~sampled_metrics.evaluation.estimate`: what was given to `compare`, too.

    Returns
    -------
    Comparison
    """
    estimates = evaluation.estimate(log, [str(comparison.settings["metric"])], **options)
    source = source_of(log) | _confidence(comparison)
    return replace(comparison, source=source, estimates=estimates)


def _confidence(result: Estimates | Comparison) -> dict[str, object]:
    return {"confidence": f"{result.settings['confidence']:g}"}

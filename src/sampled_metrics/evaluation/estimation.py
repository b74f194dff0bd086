"""Estimates of exact metrics from a log of sampled ranks, with identification intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from .._confidence import CONFIDENCE
from .._threads import one_thread
from .._validate import checked_confidence
from ..designs import Request, options
from ..log.compact import Log
from ..log.sub_corpus import SubCorpus
from ..metrics import Metric
from ..results import Estimates
from .grouped import answers

#: Default metrics.
DEFAULT_METRICS = ("recall@10", "ndcg@10", "ap", "auc")


@one_thread
def estimate(
    log: Log | SubCorpus | str | Path | Sequence[str | Path] | pd.DataFrame,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    replacement: bool | None = None,
    assumption: str | None = "decreasing",
    estimator: str | None = None,
    family: str | Mapping[str, str] | None = None,
    gamma: float | None = None,
    confidence: float = CONFIDENCE,
    identification: bool = True,
    population: bool = False,
    by: str | None = None,
    progress: bool = False,
) -> Estimates:
    """Report for each recommender the naive metric, an estimate of the exact one, and its ranges.

    Means over users, with ties broken at random. Theorems: :ref:`Guarantees <lib-guarantees>`.

    Parameters
    ----------
    log : Log, or what read_log takes
        At least two users for each recommender. A table is read with `replacement` alone.
    metrics : sequence of str or Metric
        By default `DEFAULT_METRICS`.
    replacement : bool
        As for :func:`~sampled_metrics.read_log`; not needed for a `Log`.
    assumption : {"decreasing"}, optional
        What identification intervals assume of the top true ranks; by default that deeper ranks
        have fewer users. Use None, for nothing, with models that predict ratings. Nothing is
        assumed if the sample contradicts the assumption, or of several relevant items.
    estimator : str, optional
        One of `ESTIMATORS`; by default the one for :ref:`the metric <howto-correction>`.
    family : str or mapping of recommenders to str, optional
        "sequential" or "popularity", for which the :ref:`learned prior <howto-correction>` differs;
        "ratings" for models that predict ratings, which get no typical range.
    gamma : float, optional
        Weight of the variance in "bias-variance", finite and above 0, which is then the default
        estimator; else :func:`~sampled_metrics.estimators.default_gamma` of the number of users.
    confidence : float
        Of the identification intervals, in (0, 1).
    identification : bool
        Whether to compute identification intervals, which takes most of the time.
    population : bool
        Whether intervals from :ref:`anchors <howto-anchors>` are for the population of the users.
    by : str, optional
        A column with the group of each user, for :ref:`rows for each group <howto-groups>`, too.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Estimates
        A row for each recommender, metric and group (with `by`), with how many users, and

        - reported, estimate: the naive value, and that of the estimator;
        - standard_error: of the estimate; without bias, except by the learned prior;
        - typical_low, typical_high: the typical range by track record, or missing with a note;
        - possible_low, possible_high: the identification interval;
        - assumption, warrant: what the interval assumes of the true ranks, and why it holds;
        - quote: the estimate with the identification interval, rounded outwards.

    Raises
    ------
    ValueError
        If an option is out of range, or no true ranks are consistent with the sample.

    See Also
    --------
    compare : Which recommender beats which, and under what assumption.

    Examples
    --------
    >>> estimate("bundled", ["recall@10"]).frame["quote"].tolist()
    ['0.079 (0.049 to 0.115)', '0.092 (0.056 to 0.138)', '0.104 (0.064 to 0.154)']
    """
    request = Request(
        options.checked_metrics(metrics, log),
        gamma,
        checked_confidence(confidence),
        assumption,
        identification,
        estimator,
        population=population,
        family=family,
    )
    opened = options.opened(log, request.metrics, replacement, by)
    if population and getattr(opened, "anchors", None) is None:
        raise ValueError("population must be False for a log without anchors, got True")
    answer: Estimates = answers(
        opened, by, [request], lambda analysis: analysis.estimates(progress=progress)
    )
    return answer

"""Compare the recommenders of a log pair by pair."""

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
from ..results import Comparison
from .grouped import answers


@one_thread
def compare(
    log: Log | SubCorpus | str | Path | Sequence[str | Path] | pd.DataFrame,
    metric: str | Metric | Sequence[str | Metric],
    *,
    replacement: bool | None = None,
    assumption: str | None = "decreasing",
    estimator: str | None = None,
    family: str | Mapping[str, str] | None = None,
    gamma: float | None = None,
    confidence: float = CONFIDENCE,
    by: str | None = None,
    progress: bool = False,
) -> Comparison:
    """Decide for each pair of recommenders which one is better, and under what assumption.

    A verdict holds by a theorem, without an assumption or else under `assumption`; or it may hold
    by track record. See :ref:`Verdicts <lib-guarantees-verdicts>` for what each of these promises.

    Parameters
    ----------
    log : Log, or what read_log takes
        As for :func:`estimate`, with the same users for every recommender.
    metric : str or Metric, or sequence of these
        With several, their verdicts and intervals :ref:`hold together <howto-groups>`.
    replacement : bool
        As for :func:`estimate`.
    assumption : {"decreasing"}, optional
        Deeper ranks have fewer users: tried if nothing can be decided without it. Use None with
        models that predict ratings.
    estimator : str, optional
        One of `ESTIMATORS`; by default as for :func:`estimate`.
    family, gamma, confidence, by
        As for :func:`estimate`.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Comparison
        A row for each pair. Differences are those of first minus second:

        - group, metric: the first columns, where there are several;
        - reported, estimate, standard_error: as for :func:`estimate`, of the difference;
        - student_low, student_high: Student's paired interval, if the estimate is unbiased;
        - possible_low, possible_high: identification interval of the exact difference;
        - verdict: "A beats B" or "A probably beats B" with their names, or `UNDECIDED`;
        - assumption, warrant: what the verdict assumes, and why it holds;
        - favoured, probability: who leads an undecided pair, and how often such leaders are ahead;
        - detectable, users_needed: the smallest difference that the log can detect, and how many
          such users would decide it, if the estimate is unbiased.

    Raises
    ------
    ValueError
        If there are fewer than two recommenders, their users differ, and as for :func:`estimate`.

    See Also
    --------
    estimate : Identification intervals of each recommender.
    sampled_metrics.plan : How many negatives a verdict needs.

    Examples
    --------
    >>> import numpy as np, pandas as pd, sampled_metrics as sm
    >>> true = np.repeat([1, 90, 20, 500], 50)  # two ranks from A, and two from B
    >>> ranks = sm.Protocol(1_000, 9).draw(true, np.random.default_rng(1))
    >>> names, users = ["A"] * 100 + ["B"] * 100, [*range(100)] * 2
    >>> rows = pd.DataFrame({"recommender": names, "user": users, "rank": ranks})
    >>> log = sm.read_log(rows, n_items=1_000, n_negatives=9, replacement=True)
    >>> compare(log, "auc").verdicts, compare(log, "recall@10", assumption=None).verdicts
    ({('A', 'B'): 'A beats B'}, {('A', 'B'): 'undecided'})
    """
    metrics = options.checked_metrics(metric, log)
    requests = [
        Request(
            [parsed_metric],
            gamma,
            checked_confidence(confidence),
            assumption,
            estimator=estimator,
            family=family,
        )
        for parsed_metric in metrics
    ]
    opened = options.opened(log, metrics, replacement, by)
    answer: Comparison = answers(
        opened, by, requests, lambda analysis: analysis.comparison(progress=progress)
    )
    return answer

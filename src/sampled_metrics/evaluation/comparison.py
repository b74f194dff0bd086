"""Compare the recommenders of a log pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import _confidence, _progress
from .._confidence import CONFIDENCE
from .._threads import one_thread
from .._validate import as_written, checked_confidence
from ..bounds.assumption import Assumption, checked_assumption
from ..log.compact import Log
from ..metrics import Metric
from ..results import Comparison
from . import judging, options
from .sample import Sample, UserMean, difference
from .values import Values


class ComparisonRow(NamedTuple):
    """A row of the frame of :func:`compare`, which explains the columns."""

    first: str
    second: str
    reported: float
    estimate: float
    standard_error: float
    possible_low: float
    possible_high: float
    verdict: str
    assumption: str
    warrant: str
    steepness: float
    likely: str
    shown: float
    users_needed: int | None
    negatives_needed: str


@one_thread
def compare(
    log: Log | str | Path | Sequence[str | Path] | pd.DataFrame,
    metric: str | Metric,
    *,
    replacement: bool | None = None,
    assumption: Assumption | str | None = "decreasing",
    estimator: str | None = None,
    gamma: float | None = None,
    confidence: float = CONFIDENCE,
    progress: bool = False,
) -> Comparison:
    """Decide for each pair of recommenders which one is better, and under what assumption.

    A verdict rests on the first of these assumptions under which it can be given:

    - *none*: no assumption on the true ranks. If the metric has an unbiased estimator, like AUC,
      this is a bet on the users' differences (waudbysmith2024).
    - *decreasing at the top*: near the top, deeper ranks have fewer users
      (:class:`~sampled_metrics.Assumption`); or *mixture of geometrics*, if
      `assumption` is geometric.
    - *at most k times per doubling*: moreover, the number of users falls at most k-fold from one
      doubling of the rank to the next. k is the largest of 2, 3, 4 and 8 such that the verdict
      holds for it and all smaller ones. The verdict may fail if users fall faster.

    Each verdict is a bet against "A is at most B" that has won enough, proved for any number of
    users (warrant "proved"). A bet adds a function of the user's sampled rank with A and one of the
    rank with B (``sampled_metrics.bounds.bets``), so the two ranks may depend on each other in any
    way, and both recommenders may be scored on the same negatives. Negatives of different users
    must be drawn independently. A verdict is an identification interval of the difference without
    0. If the assumption holds, all intervals and verdicts of a comparison hold together in at least
    95% of logs (`confidence`); those without an assumption do so in any case.

    Users are taken as drawn at random from a population, and verdicts concern the exact metrics of
    that population. Verdicts without an assumption also hold for the average over the log's own
    users. Verdicts under an assumption need not: the ranks of a few users seldom decrease like
    those of a population. The assumption is about all users of a catalogue size, as for
    :func:`estimate`.

    Parameters
    ----------
    log : Log, or what read_log takes
        As for :func:`estimate`, with the same users for every recommender.
    metric : str or Metric
    replacement : bool
        As for :func:`estimate`.
    assumption : Assumption or {"decreasing"}, optional
        The strongest assumption to use; None for no assumption. Refused for a log with a column
        n_above if an `Assumption`, since none is used there.
    estimator : str, optional
        One of `ESTIMATORS` except "maximum likelihood", which has no standard error. By default
        "naive" if that is unbiased, as for AUC, else "bias-variance".
    gamma : float, optional
        As for :func:`estimate`.
    confidence : float
        In (0, 1).
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Comparison
        Its frame has a row for each pair, with the columns

        - first, second: the recommenders;
        - reported, estimate: difference of the naive means and of the corrected means, first minus
          second;
        - standard_error: of the estimate, from the users' own differences, without bias;
        - possible_low, possible_high: identification interval of the exact difference, under the
          assumption of the verdict, or else under the strongest assumption;
        - verdict: "A beats B" or "B beats A" with their names, or `UNKNOWN`;
        - assumption, warrant: as above, the warrant being "proved" or "large sample"; empty without
          a verdict;
        - steepness: the largest k as above, infinite if the assumption does not limit it;
        - likely: the recommender ahead if Student's interval of the estimate excludes 0. This
          is not a verdict, because it ignores the bias. Empty beside a verdict;
        - shown: roughly the smallest difference that this log can detect under `assumption`;
        - users_needed: how many similar users would roughly give a verdict under `assumption`;
          missing if no number would;
        - negatives_needed: roughly how many negatives would, as text, if the true ranks were those
          of :func:`~sampled_metrics.priors.maximum_entropy` and samples behaved as expected. 1, 2,
          5, 10, ... up to 500 are tried. ">500" says that ranking all items would do, "all" that
          nothing less would, and "none" that not even that would, as where all users have all
          negatives. Empty beside a verdict, if the metric needs no correction, or if users have
          several relevant items, or for adaptive designs.

        Its notes say which assumptions the log contradicts. For a log with a column n_above only
        AUC is compared, by Student's test of the users' differences, with Holm's method for several
        pairs and the warrant "large sample". If two recommenders share negatives, their users'
        values are correlated, which makes the test more powerful; the notes give the correlation.

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
    Does A, whose items are at ranks 1 and 90, beat B, whose items are at 20 and 500?

    >>> import sampled_metrics as sm
    >>> true = np.repeat([1, 90, 20, 500], 50)  # two ranks from A, and two from B
    >>> ranks = sm.Protocol(1_000, 9).draw(true, np.random.default_rng(1))
    >>> names, users = ["A"] * 100 + ["B"] * 100, [*range(100)] * 2
    >>> rows = pd.DataFrame({"recommender": names, "user": users, "rank": ranks})
    >>> log = sm.read_log(rows, n_items=1_000, n_negatives=9, replacement=True)
    >>> compare(log, "auc").verdicts, compare(log, "recall@10", assumption=None).verdicts
    ({('A', 'B'): 'A beats B'}, {('A', 'B'): 'unknown'})
    """
    log = options.opened(log, replacement)
    (parsed_metric,), level = options.checked_metrics([metric]), checked_confidence(confidence)
    options.refuse_if_weighted(log, estimator=estimator, gamma=gamma)
    assumed = checked_assumption(assumption)
    if log.weighted:
        _check_weighted(log, parsed_metric, assumption)
    sample = Sample(log)
    sample.check_independent("estimate with identification=False says what was reported")
    log._check_same_users()
    values = Values(sample, options.checked_gamma(gamma, sample))
    estimator_name = estimator or values.default(parsed_metric)
    notes = [] if log.weighted else _checked_estimator(estimator_name, values)
    notes += options.note_on_reported(sample)
    metric_assumption = options.assumption_for(assumed, sample, parsed_metric)
    unbiased = not log.weighted and values.unbiased(parsed_metric)
    pairs = list(combinations(sample.names, 2))
    with _progress.bar(total=3, desc="compare", unit="step", show=progress) as bar:
        naive = values.means(parsed_metric, "naive")
        means = naive if estimator_name == "naive" else values.means(parsed_metric, estimator_name)
        bar.update()
        differences = {}
        for first, second in pairs:
            gap = difference(means[first].value, means[second].value)
            differences[first, second] = sample.mean(
                means[first].minus(means[second]), means[first].users, gap
            )
        if log.weighted:
            judgements = judging.by_student(differences, level)
            notes = [
                _correlation(means[first], means[second], paired, first, second)
                for (first, second), paired in differences.items()
            ]
        elif unbiased:
            judgements = judging.by_means(values, parsed_metric, naive, pairs, level)
        else:
            judgements, bet_notes = judging.by_bets(
                sample, parsed_metric, pairs, metric_assumption, level, bar
            )
            notes += bet_notes
        negatives_needed = judging.negatives_needed(
            values, parsed_metric, judgements, metric_assumption, level
        )
        bar.update(bar.total - bar.n)
    rows = []
    for (first, second), paired in differences.items():
        low, high, _ = paired.student(level)
        judgement = judgements[first, second]
        is_decided = judgement.sign != 0
        is_favoured = not (is_decided or log.weighted or low <= 0 <= high)
        rows.append(
            ComparisonRow(
                first=first,
                second=second,
                reported=difference(naive[first].value, naive[second].value),
                estimate=paired.value,
                standard_error=paired.error,
                possible_low=judgement.low,
                possible_high=judgement.high,
                verdict=judgement.verdict(first, second),
                assumption=judgement.assumption if is_decided else "",
                warrant=judgement.warrant if is_decided else "",
                steepness=judgement.steepness if is_decided else np.nan,
                likely=(first if paired.value > 0 else second) if is_favoured else "",
                shown=judgement.detectable,
                users_needed=judgement.users_needed,
                negatives_needed=negatives_needed.get((first, second), ""),
            )
        )
    frame = pd.DataFrame(rows, columns=ComparisonRow._fields).astype({"users_needed": "Int64"})
    settings: dict[str, Any] = {"metric": parsed_metric.name, "estimator": estimator_name}
    if not log.weighted:
        settings["gamma"] = values.gamma
    settings["confidence"] = level
    assumes_nothing = unbiased or metric_assumption is None
    settings["assumed"] = _confidence.Assumed(() if assumes_nothing else (metric_assumption,))
    if log.weighted:
        settings["assumed"] = _confidence.Assumed(("n_above is without bias",))
    settings["warrant"] = _confidence.LARGE_SAMPLE if log.weighted else _confidence.PROVED
    return Comparison(frame, settings, tuple(dict.fromkeys(filter(None, notes))))


def _checked_estimator(estimator: str, values: Values) -> list[str]:
    """Notes on the estimator of a comparison; ValueError if it has no standard error."""
    options.checked_estimators(estimator, values)
    if estimator == "maximum likelihood":
        raise ValueError(
            f"estimator must have a standard error for differences, got {as_written(estimator)}"
        )
    return options.notes_on([estimator], estimator, values)


def _check_weighted(log: Log, metric: Metric, assumption: Assumption | str | None) -> None:
    """Refuse comparisons of weighted negatives, except of AUC from n_above."""
    if isinstance(assumption, Assumption):
        raise ValueError(
            f"assumption must be left out, got {as_written(assumption)}: the comparison tests "
            f"the users' n_above and assumes nothing of the true ranks of {log!r}"
        )
    if "n_above" not in log.kinds:
        raise ValueError(
            f"a comparison with weighted negatives needs a log with a column n_above, got {log!r}"
        )
    if not metric.linear:
        raise ValueError(f"metric must be auc for a log with n_above, got {metric.name!r}")


def _correlation(first: UserMean, second: UserMean, paired: UserMean, a: str, b: str) -> str:
    """A note on how much the correlation of users' values reduces the standard error."""
    unpaired = np.hypot(first.error, second.error)
    if not first.error * second.error:
        return ""
    rho = (unpaired**2 - paired.error**2) / (2.0 * first.error * second.error)
    return (
        f"{a} and {b}: users' values have a correlation of {rho:.2f}, so that the difference has a "
        f"standard error of {paired.error:.4f}, and not {unpaired:.4f}"
    )

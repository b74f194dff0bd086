"""Who beats whom, judged from a log of sampled ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import _progress, _promises
from .._threads import one_thread
from .._validate import as_written
from ..bounds.assumption import Assumption
from ..log.compact import Log
from ..metrics import Metric
from ..results import Comparison
from . import judging, options
from .sample import Sample, UserMean, difference
from .values import Values


class ComparisonRow(NamedTuple):
    """A row of the frame that `compare` returns, explained there."""

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
    confidence: float = 0.95,
    progress: bool = False,
) -> Comparison:
    """Say of each pair of recommenders which one beats the other, and under what assumption.

    A verdict stands on the first of these that gives one:

    - *none*: nothing is assumed of the true ranks. Where the metric has an unbiased estimator,
      as AUC has, that is a bet on the users' differences (waudbysmith2024).
    - *decreasing at the top*: near the top, deeper ranks have fewer users
      (:class:`~sampled_metrics.bounds.assumption.Assumption`). It is *mixture of geometrics* if
      `assumption` is geometric.
    - *at most k times per doubling*: they are moreover at most k times fewer from one doubling
      of the rank to the next. k is the largest up to which the verdict holds for every k tried,
      2, 3, 4 and 8: if the users' number falls faster than that, it may fail.

    Each verdict is a bet against "A is at most B" that has won enough. Its warrant is "proved", for
    any number of users. A bet adds up a function of the user's sampled rank with A and one of the
    rank with B (``sampled_metrics.bounds.bets``), so the two ranks may depend on each
    other in any way, and the two recommenders may be scored on the same negatives. Negatives of
    different users must be drawn independently. A verdict is a range of possible differences that
    does not hold 0. All ranges and verdicts of a comparison hold together in at least 95% of the
    logs (`confidence`), if the assumption holds. Those that assume nothing hold together so often
    in any case.

    The log's users are taken as drawn at random from a population, and a verdict is on the exact
    metrics of that population. A verdict that assumes nothing of the ranks also holds for the
    average over the log's own users. One under an assumption need not: the ranks of a few users
    seldom fall as those of a population.

    Parameters
    ----------
    log : Log, or what read_log takes
        As for :func:`estimate`, with the same users for every recommender.
    metric : str or Metric
    replacement : bool
        As for :func:`estimate`.
    assumption : Assumption or {"decreasing"}, optional
        The most that may be assumed; nothing if None. Of a log with a column n_above an
        `Assumption` is refused: no assumption on the true ranks is used.
    estimator : str, optional
        Of `ESTIMATORS`, but for "maximum likelihood", which has no standard error. If omitted the
        naive one where that is unbiased at every true rank, as for AUC, and else "bias-variance".
    gamma : float, optional
        As for :func:`estimate`.
    confidence : float
        In (0, 1).
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Comparison
        Its frame has for each pair the columns first, second; reported, estimate: difference of
        the means, first less second, as reported and corrected; standard_error: of the estimate,
        from the users' own differences, without its bias; possible_low, possible_high: the exact
        differences that the sample leaves possible under the assumption of the verdict, or under
        the strongest there is, 0 not among them beside a verdict; verdict: "A beats B", "B beats
        A" with their names, or `UNKNOWN`; assumption: the one that the verdict stands on, as above;
        warrant: why the verdict is right as often as confidence says, "proved" or "large sample"
        (both are empty if there is no verdict); steepness: the largest k, infinite
        if any will do; likely: the one ahead by the estimate, if its standard error
        leaves no doubt, which is no verdict, since its bias is not in it; shown: the smallest
        difference that this log could have shown under `assumption`, roughly; users_needed: how
        many users of the same kind would give a verdict under `assumption`, to two digits; missing
        where no number would and more negatives are needed; negatives_needed: how many would,
        roughly, as text, if the true ranks were those of
        :func:`~sampled_metrics.priors.maximum_entropy` and the evaluation showed what it does on
        average. 1, 2, 5, 10, ... up to 500 are tried; ">500" says that ranking all items would do,
        "all" that nothing less would, and "none" that not even that, as where all users have all
        negatives. It is empty beside a verdict, where the metric needs no correction of fewer
        negatives, where users have several relevant items, and for adaptive designs. Its notes say
        what was refused. Of a log with a column n_above only AUC is compared, by Student's test of
        the users' differences and Holm's method for several pairs. Its warrant is "large sample",
        as it needs many users. What two recommenders have in common, above all the same negatives,
        makes the test sharper: the notes have the correlation of the users' values.

    Raises
    ------
    ValueError
        If there are fewer than two recommenders, they have not the same users, and as
        :func:`estimate`.

    See Also
    --------
    estimate : What is possible for each recommender.
    sampled_metrics.planning.plan : How many negatives a verdict needs.

    Examples
    --------
    Do A's lists, whose item is at rank 1 or 90, beat B's, where it is at 20 or 500?

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
    (of,), level = options.checked_metrics([metric]), options.checked_confidence(confidence)
    options.refuse_if_weighted(log, estimator=estimator, gamma=gamma)
    assumed = options.checked_assumption(assumption)
    if log.weighted:
        _check_weighted(log, of, assumption)
    sample = Sample(log)
    sample.check_independent("estimate with identification=False says what was reported")
    log.check_same_users()
    values = Values(sample, options.checked_gamma(gamma, sample))
    name = estimator or values.default(of)
    notes = [] if log.weighted else _checked_estimator(name, values)
    notes += options.note_on_reported(sample)
    of_metric = options.assumption_for(assumed, sample, of)
    unbiased = not log.weighted and values.unbiased(of)
    both = list(combinations(sample.names, 2))
    with _progress.bar(total=3, desc="compare", unit="step", show=progress) as bar:
        naive = values.means(of, "naive")
        means = naive if name == "naive" else values.means(of, name)
        bar.update()
        differences = {}
        for a, b in both:
            gap = difference(means[a].value, means[b].value)
            differences[a, b] = sample.mean(means[a].minus(means[b]), means[a].users, gap)
        if log.weighted:
            judged = judging.by_student(differences, level)
            notes = [
                _correlation(means[a], means[b], own, a, b) for (a, b), own in differences.items()
            ]
        elif unbiased:
            judged = judging.by_means(values, of, naive, both, level)
        else:
            judged, said = judging.by_bets(sample, of, both, of_metric, level, bar)
            notes += said
        needed = judging.negatives_needed(values, of, judged, of_metric, level)
        bar.update(bar.total - bar.n)
    rows = []
    for (a, b), own in differences.items():
        low, high, _ = own.student(level)
        judgement = judged[a, b]
        known = judgement.sign != 0
        ahead = not (known or log.weighted or low <= 0 <= high)
        rows.append(
            ComparisonRow(
                first=a,
                second=b,
                reported=difference(naive[a].value, naive[b].value),
                estimate=own.value,
                standard_error=own.error,
                possible_low=judgement.low,
                possible_high=judgement.high,
                verdict=judgement.verdict(a, b),
                assumption=judgement.assumption if known else "",
                warrant=judgement.warrant if known else "",
                steepness=judgement.steepness if known else np.nan,
                likely=(a if own.value > 0 else b) if ahead else "",
                shown=judgement.detectable,
                users_needed=judgement.users_needed,
                negatives_needed=needed.get((a, b), ""),
            )
        )
    frame = pd.DataFrame(rows, columns=ComparisonRow._fields).astype({"users_needed": "Int64"})
    settings: dict[str, Any] = {"metric": of.name, "estimator": name}
    if not log.weighted:
        settings["gamma"] = values.gamma
    settings["confidence"] = level
    settings["assumed"] = "nothing" if unbiased or of_metric is None else f"that {of_metric}"
    if log.weighted:
        settings["assumed"] = "that n_above is without bias"
    settings["warrant"] = _promises.LARGE_SAMPLE if log.weighted else _promises.PROVED
    return Comparison(frame, settings, tuple(dict.fromkeys(filter(None, notes))))


def _checked_estimator(name: str, values: Values) -> list[str]:
    """Notes on the estimator of a comparison, or ValueError."""
    options.checked_estimators(name, values)
    if name == "maximum likelihood":
        raise ValueError(
            f"estimator must have a standard error for differences, got {as_written(name)}"
        )
    return options.notes_on([name], name, values)


def _check_weighted(log: Log, of: Metric, assumption: Assumption | str | None) -> None:
    """Refuse comparisons of weighted negatives but of AUC, which n_above estimates."""
    if isinstance(assumption, Assumption):
        raise ValueError(
            f"assumption must be left out, got {as_written(assumption)}: the comparison tests "
            f"the users' n_above and assumes nothing of the true ranks of {log!r}"
        )
    if "n_above" not in log.kinds:
        raise ValueError(
            "a comparison of negatives that are not drawn alike needs a log with a column n_above, "
            f"got {log!r}"
        )
    if not of.linear:
        raise ValueError(f"metric must be auc for a log with n_above, got {of.name!r}")


def _correlation(first: UserMean, second: UserMean, paired: UserMean, a: str, b: str) -> str:
    """How much smaller the error of a difference is since users share their negatives."""
    unpaired = np.hypot(first.error, second.error)
    if not first.error * second.error:
        return ""
    rho = (unpaired**2 - paired.error**2) / (2.0 * first.error * second.error)
    return (
        f"{a} and {b}: users' values have a correlation of {rho:.2f}, so that the difference has a "
        f"standard error of {paired.error:.4f}, and not {unpaired:.4f}"
    )

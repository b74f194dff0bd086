"""Compare the recommenders of a log pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from .._confidence import CONFIDENCE
from .._threads import one_thread
from .._validate import checked_confidence
from ..bounds.assumption import Assumption
from ..designs import Request, analysis_of, options
from ..log.compact import Log
from ..log.sub_corpus import SubCorpus
from ..metrics import Metric
from ..results import Comparison


@one_thread
def compare(
    log: Log | SubCorpus | str | Path | Sequence[str | Path] | pd.DataFrame,
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

    Each such verdict is a bet against "A is at most B" that has won enough, by a theorem for any
    number of users (warrant "theorem"). A bet adds a function of the user's sampled rank with A and
    one of the rank with B (``sampled_metrics.bounds.bets``), so the two ranks may depend on each
    other in any way, and both recommenders may be scored on the same negatives. Negatives of
    different users must be drawn independently. A verdict is an identification interval of the
    difference without 0. If the assumption holds, all intervals and verdicts of a comparison hold
    together in at least 95% of logs (`confidence`); those without an assumption do so in any case.

    If a pair is undecided, the *track record* gives a probability that the exact metrics are in the
    order of the estimates. It comes from a model that was fitted to evaluations of 64 recommenders
    on six data sets from four sources, whose exact metrics are known. They are neighbourhood
    methods, factorisations, linear models and popularity; none of them is neural. The model is
    fitted six times, each time without one data set, and the smallest probability counts. From 95%
    on (or `confidence`, if larger) it is a verdict, "A probably beats B". This assumes that
    recommenders and data are like the benchmark's, and promises nothing for another data set. It is
    not corrected for several pairs. The benchmark has two or three recommenders in a log, and each
    has negatives of its own. If the benchmark has no such numbers of users, candidates or
    negatives, a note says what is missing.

    If estimates are unbiased, as for AUC or if all items were ranked, Student's paired interval
    (warrant "large sample") is given beside the other one. It decides nothing, except for logs
    with a column n_above.

    Verdicts by a theorem concern the exact metrics of a population that the users were drawn from
    at random. Those without an assumption also hold for the average over the log's own users; those
    under an assumption need not, because the ranks of a few users seldom decrease like those of a
    population. The assumption is about all users of a catalogue size, as for :func:`estimate`.
    Verdicts by track record concern the log's own users.

    Parameters
    ----------
    log : Log, or what read_log takes
        As for :func:`estimate`, with the same users for every recommender.
    metric : str or Metric
    replacement : bool
        As for :func:`estimate`.
    assumption : Assumption or {"decreasing"}, optional
        What to assume if nothing can be decided without an assumption; from "decreasing", limits on
        the steepness are tried, too. None for no assumption, as is right for models that predict
        ratings (see :func:`estimate`). Refused for a log with a column
        n_above if an `Assumption`, since none is used there.
    estimator : str, optional
        One of `ESTIMATORS` except "maximum likelihood", which has no standard error. By default
        as for :func:`estimate`.
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
          assumption of a verdict by a theorem, or else under `assumption`;
        - student_low, student_high: Student's interval of the paired differences, if the estimate
          is unbiased;
        - verdict: "A beats B" or "A probably beats B" with their names, or `UNDECIDED`;
        - assumption, warrant: as above, the warrant being "theorem", "large sample" or "track
          record"; empty without a verdict;
        - steepness: the largest k as above, infinite if the assumption does not limit it, missing
          unless the warrant is "theorem";
        - favoured: the recommender ahead if `probability` is 80% or more or Student's interval
          excludes 0; empty beside a verdict by a theorem or "large sample";
        - probability: the probability, by the track record, that the leader's exact metric is the
          larger, in [0.5, 0.99]; missing beside a verdict by a theorem and without a track record;
        - detectable: roughly the smallest difference that this log can detect under `assumption`;
        - users_needed: how many similar users would roughly give a verdict under `assumption`;
          missing if no number would;
        - negatives_needed: roughly how many negatives would, if the true ranks were those of
          :func:`~sampled_metrics.priors.maximum_entropy` and samples behaved as expected. 1, 2, 5,
          10, ... up to 500 are tried. Missing if none of these would;
        - ranking_decides: whether ranking all items would. It and negatives_needed are missing
          beside a verdict by a theorem, if the metric needs no correction, if users have several
          relevant items, and for adaptive designs.

        For runs over one sub-corpus, see :func:`estimate`: a verdict has the warrant "large sample"
        where the range of the difference excludes 0. The ranges of all pairs hold together with the
        confidence, by Bonferroni's method.

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
    ({('A', 'B'): 'A beats B'}, {('A', 'B'): 'undecided'})
    """
    request = Request(
        options.checked_metrics([metric]), gamma, checked_confidence(confidence), assumption
    )
    analysis = analysis_of(options.opened(log, replacement), request)
    return analysis.comparison(estimator, progress=progress)

"""Estimates of exact metrics from a log of sampled ranks, with identification intervals."""

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
from ..results import Estimates

#: Default metrics.
DEFAULT_METRICS = ("recall@10", "ndcg@10", "ap", "auc")


@one_thread
def estimate(
    log: Log | SubCorpus | str | Path | Sequence[str | Path] | pd.DataFrame,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    replacement: bool | None = None,
    assumption: Assumption | str | None = "decreasing",
    gamma: float | None = None,
    confidence: float = CONFIDENCE,
    identification: bool = True,
    progress: bool = False,
) -> Estimates:
    """Report for each recommender the naive metric, an estimate of the exact one, and its ranges.

    Each held-out item gets a value; an instance (one ranked list) gets the sum of its items'
    values, a user the mean over its instances, and the estimate is the mean over users. Ties with
    sampled negatives count as if broken at random: their expected value is used. With replacement,
    tied draws may be copies of one item, all above the held-out item or all below it, and a log
    does not say which are. Values treat them as different items, unless there is one irrelevant
    item. Intervals and verdicts hold for any number of different items.

    Parameters
    ----------
    log : Log, or what read_log takes
        From :func:`~sampled_metrics.read_log`, or a source that it can read with
        `replacement` alone; at least two users for each recommender.
    metrics : sequence of str or Metric
        By default `DEFAULT_METRICS`.
    replacement : bool
        As for :func:`~sampled_metrics.read_log`; not needed for a `Log`.
    assumption : Assumption or {"decreasing"}, optional
        What identification intervals assume of the top true ranks; by default that deeper ranks
        have fewer users. Nothing is assumed if None, if the sample contradicts the assumption (a
        note says so), or if users have several relevant items and the metric uses more than the
        best. Use None for models that predict ratings, which put few relevant items at the very
        top: the sample often does not contradict the assumption there, and the intervals missed.
    gamma : float, optional
        Weight of the variance in "bias-variance", finite and above 0. By default
        :func:`~sampled_metrics.estimators.default_gamma` of the number of users.
    confidence : float
        Of the identification intervals, in (0, 1).
    identification : bool
        Whether to compute identification intervals, which takes most of the time.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Estimates
        Its frame has a row for each recommender and metric, with the columns

        - recommender, metric, users (how many);
        - reported: the naive value;
        - estimate: by "naive" if that is unbiased, as for AUC, else by "bias-variance, fitted
          prior". The prior is fitted to all recommenders together, so adding one changes the
          estimates of others a little. If none can be fitted, by "bias-variance", as a note says;
        - standard_error: of the estimate, for users drawn at random, each with negatives of its
          own; without bias;
        - typical_low, typical_high: the typical range, for the exact metric of the log's own users
          (warrant "track record"). It was fitted so that on each of six data sets 95% of such
          ranges hold the exact metric, whatever `confidence` is; on a data set left out of the fit
          85% to 100% did, with 100 negatives. The 64 recommenders of these data sets, which come
          from four sources, are neighbourhood methods, factorisations, linear models and
          popularity; none of them is neural. Missing, with a note, if the log is outside the
          benchmark's range of users, candidates or negatives, and for metrics that need no
          correction;
        - possible_low, possible_high: the identification interval, the exact metrics consistent
          with the sample and the assumption, see
          :func:`~sampled_metrics.interval`;
        - assumption, warrant: what the interval assumes of the true ranks, and why it holds with
          `confidence`, as for :func:`compare`; empty without an interval;
        - quote: for a sentence, the estimate with the identification interval, rounded outwards.

        If every user has all negatives, sampled ranks are exact ranks: every metric is estimated
        without bias, and the interval is for the population of users, by a theorem.

        **Guarantee.** The warrant "theorem" holds for any number of users. Let users be drawn
        at random from a population whose true ranks satisfy the assumption, separately for each
        catalogue size (`n_items`), and let the negatives of different users be drawn independently.
        Then the interval contains the population's exact metric in at least 95% of such logs
        (`confidence`). If sizes differ, the population has the log's mix of them. Numbers of
        negatives and of relevant items may depend on the true ranks, because the assumption is
        about all users of a catalogue size together. If these users have different numbers of
        negatives, an interval under an assumption uses a random subsample of the smallest number,
        and a note says so. If a user has several instances of different sizes, the assumption is
        also separate for each combination of sizes. With the assumption "none", the interval also
        holds for the average over the log's own users, whatever their ranks. Under an assumption it
        may miss that average more often, since the ranks of a log's own users need not decrease
        even if those of the population do. Users may have different n_items, ties, several relevant
        items and several instances; the rows of one user may depend on each other in any way. Logs
        known to share negatives between users are refused (`shared_negatives` of
        :func:`~sampled_metrics.read_log`). For the theorem and its proof see
        :func:`~sampled_metrics.interval`.

        **Weighted negatives.** From a column n_above
        (:func:`~sampled_metrics.readers.counts_above`) AUC is estimated without bias, with
        Student's interval (warrant "large sample"). Other metrics have no estimate, because only
        AUC is linear in ranks. A log read with a protocol of weighted negatives has identification
        intervals that hold whichever items are above: ``weighted``.
        `gamma` is refused, since there is no correction.

        **Adaptive designs.** Of a log that was read with ``protocol=sm.Adaptive(...)`` `reported`
        is empty, as is the difference in :func:`compare`: users at the top were ranked among more
        negatives, so that a metric of their sampled ranks is not the same number for all of them.
        Every metric, AUC too, is estimated by "bias-variance" for the outcomes of the design. The
        identification interval is by a theorem, as for fixed samples.

        **One sub-corpus for all queries.** Runs that :func:`~sampled_metrics.readers.trec` or
        :func:`~sampled_metrics.readers.ranx` read with `corpus_size` are the systems, and their
        queries the users. The estimate is by "bias-variance" for a prior in which each doubling of
        the rank counts the same. Its standard error comes from a jackknife over the sampled
        documents, which allows for documents above the relevant ones of many queries, and from the
        spread of the queries. possible_low and possible_high are a range by Student's distribution
        (warrant "large sample") that also bounds the bias of the correction at every rank. It is
        for the exact metric over a population that the queries were drawn from, and with more
        confidence than stated over the queries at hand. It needs many queries and many sampled
        documents. If `corpus_size` has several sizes, there is a row for each, with the size in the
        column documents. The typical range is two standard errors on each side, for runs like those
        of eleven models on two collections, where all such ranges held. `assumption`,
        `identification` and `progress` change nothing there.

        The notes say what is left out, and why.

    Raises
    ------
    ValueError
        If a name is unknown, there is no metric or only one user, `gamma` or `confidence` is out of
        range, or no true ranks are consistent with the sample.

    See Also
    --------
    estimate_each : The estimate by each estimator.
    compare : Which recommender beats which, and under what assumption.
    sampled_metrics.plan : What an evaluation needs to distinguish two recommenders.

    Examples
    --------
    Three recommenders were reported with a Recall@10 of 66%, 56% and 54%. Among all films:

    >>> found = estimate("bundled", ["recall@10", "auc"])
    >>> found.frame[["recommender", "metric", "quote"]]
      recommender     metric                   quote
    0           X  recall@10  0.065 (0.049 to 0.115)
    1           X        auc  0.892 (0.885 to 0.899)
    2           Y  recall@10  0.085 (0.056 to 0.138)
    3           Y        auc  0.852 (0.844 to 0.860)
    4           Z  recall@10  0.093 (0.064 to 0.154)
    5           Z        auc  0.748 (0.737 to 0.759)
    """
    request = Request(
        options.checked_metrics(metrics),
        gamma,
        checked_confidence(confidence),
        assumption,
        identification,
    )
    return analysis_of(options.opened(log, replacement), request).estimates(progress=progress)


@one_thread
def estimate_each(
    log: Log | str | Path | Sequence[str | Path] | pd.DataFrame,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    estimators: Sequence[str] | str = "all",
    replacement: bool | None = None,
    gamma: float | None = None,
    confidence: float = CONFIDENCE,
    progress: bool = False,
) -> Estimates:
    """Report for each recommender and metric the estimate by each estimator.

    Estimates are means over users as for :func:`estimate`. Their intervals leave out the bias of
    the estimator, so they may miss the exact metric far more often than `confidence` says. The
    identification interval of :func:`estimate` contains it that often if its assumption holds.

    Parameters
    ----------
    log : Log, or what read_log takes
        As for :func:`estimate`, without weighted negatives.
    metrics : sequence of str or Metric
        By default `DEFAULT_METRICS`.
    estimators : sequence of str, or str
        Of `ESTIMATORS`, or "all". "all" leaves out "maximum likelihood", which has no standard
        error; "least bias" if double precision cannot represent it (from about 40 negatives on);
        and those in `FITTED` if users have more than 20 million candidates, or without replacement
        more negatives than the mean catalogue. "bias-variance, fitted prior" uses the maximum
        entropy fit to all recommenders together. With several relevant items, the best, second best
        and so on have a prior each, in which users are weighted like their items in the metric;
        from the tenth on, neighbouring places share one. If n_items differs, priors are fitted for
        its rounded mean; if n_negatives differs, to random subsamples of the smallest number.
        Adaptive designs have only "bias-variance" and those in `FITTED`.
    replacement : bool
        As for :func:`~sampled_metrics.read_log`; not needed for a `Log`.
    gamma : float, optional
        As for :func:`estimate`.
    confidence : float
        Of the intervals, in (0, 1).
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Estimates
        Its frame has a row for each recommender, metric and estimator, with the columns

        - recommender, metric, estimator, users (how many);
        - value: the estimate;
        - standard_error: for users drawn at random, each with negatives of its own; without bias.
          For fitted priors it includes the fit, to first order in each user's influence. Missing
          for "maximum likelihood", whose estimate jumps from sample to sample, by more than
          bootstrap refits show;
        - low, high: Student's interval with users - 1 degrees of freedom, for the expectation of
          the estimator. It covers about as often as stated with many users, less often with few
          users or if a few users have extreme values. With many users at the first ranks, 95%
          intervals of AP by a fitted prior covered in 92% of logs of 100 users and in 94% of logs
          of 300 (simulated).

        The notes say what is left out, and why.

    Raises
    ------
    ValueError
        If a name is unknown, there is no metric, no estimator or only one user, `gamma` or
        `confidence` is out of range, or the log does not allow an estimator.

    See Also
    --------
    estimate : One estimate, and an identification interval for the exact metric.

    Examples
    --------
    >>> found = estimate_each("bundled", ["recall@10"], estimators=["naive", "bias-variance"])
    >>> found.frame[["recommender", "estimator", "value"]].round(3)
      recommender      estimator  value
    0           X          naive  0.660
    1           X  bias-variance  0.066
    2           Y          naive  0.561
    3           Y  bias-variance  0.081
    4           Z          naive  0.543
    5           Z  bias-variance  0.090
    """
    request = Request(options.checked_metrics(metrics), gamma, checked_confidence(confidence))
    analysis = analysis_of(options.opened(log, replacement), request)
    return analysis.by_estimator(estimators, progress=progress)

"""What one's own sampled evaluation says of the exact metrics, and of who beats whom.

A correction is a vector over the sampled ranks, so each row of a log has a number, and the
users' spread of these numbers is the standard error: it holds the users that happened to be
evaluated and the negatives that happened to be drawn. What no spread shows is the bias;
:mod:`sampled_metrics.bounds.identification` bounds it, and no verdict is given without that bound.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln, stdtr, stdtrit

from . import _progress, _promises, _ranges, priors
from . import estimators as corrections
from ._threads import one_thread
from ._validate import FloatArray, IntArray, as_written, shortened
from .bounds import bets, identification
from .bounds.assumption import Assumption, assumption_name
from .bounds.generators import hats
from .bounds.shortest import least_width
from .log.compact import KIND, Log
from .log.read import read_log
from .metrics import Metric
from .metrics import metric as parsed
from .numerics import betting
from .numerics.all_ranks import MOST_ITEMS
from .numerics.distributions import law
from .protocol import Protocol, steps, thinned
from .results import Comparison, Estimates

#: If so many users with fewer negatives than others should be above all of them, some are.
_STOPPED = 10.0
#: The corrections that are fitted to the log itself.
FITTED = ("bias-variance, fitted prior", "maximum entropy", "maximum likelihood")
#: All corrections, by the names that the tables print.
ESTIMATORS = (*corrections.NAMES, *FITTED)
#: The metrics that are estimated if none is named.
DEFAULT_METRICS = ("recall@10", "ndcg@10", "ap", "auc")
#: The verdict where neither recommender is known to beat the other.
UNKNOWN = "unknown"
#: The most negatives that are tried for a verdict, short of all.
_MOST_NEGATIVES = 500
#: For how many times the users bets are made that say how many users are needed, and the most.
_MORE_USERS, _MANY_TIMES = (8.0, 64.0, 512.0), 1e6
#: How much steeper and steeper a fall of the users is tried for a verdict.
_STEEPNESS = (2.0, 3.0, 4.0, 8.0)

#: Sizes of the catalogue that a correction is computed at are added until it is right between
#: them to this share of its largest value.
_TOLERANCE = 1e-9
#: Different values that are kept before they are counted together.
_TALLIED = 1 << 20
#: Differences below this share of the largest value are rounding, and none.
_ROUNDING = 1e-13
#: Biases of a metric below this are those of rounding.
_UNBIASED = 1e-9
#: Sizes for the monotone correction, whose values jump from size to size.
_MONOTONE_SIZES = 32
#: Entries of a table of values for several sizes, or of random orders, held at once.
_BLOCK = 1 << 21

#: From one protocol to the values of an estimator, a row for each position.
_Build = Callable[[Protocol], FloatArray]
#: From sizes of the catalogue to values, (sizes, n_relevant, m + 1).
_Between = Callable[[IntArray], FloatArray]


@one_thread
def estimate(
    log: Log | str | Path | Sequence[str | Path] | pd.DataFrame,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    replacement: bool | None = None,
    estimators: Sequence[str] | str | None = None,
    assumption: Assumption | str | None = "decreasing",
    gamma: float | None = None,
    confidence: float = 0.95,
    identification: bool = True,
    efficiency: bool = False,
    progress: bool = False,
) -> Estimates:
    """Say of every recommender of a log what was reported, and what the exact metric may be.

    Each held-out item gets a value; an instance (one ranked list) gets the sum of its items'
    values, a user the mean over its instances, and the estimate is the mean over users. Ties with
    sampled negatives count as if broken at random: their expected value is used.

    Parameters
    ----------
    log : Log, or what read_log takes
        From :func:`~sampled_metrics.log.read.read_log`, or what that reads without being told
        more than `replacement`; two users or more for each recommender.
    metrics : sequence of str or Metric
        `DEFAULT_METRICS` if omitted.
    replacement : bool
        As for :func:`~sampled_metrics.log.read.read_log`; a `Log` knows it.
    estimators : sequence of str, optional
        Of `ESTIMATORS`, or "all": the table then has a row for each of them instead of one for
        each recommender and metric. "all" are those that the log allows but "maximum likelihood",
        which has no interval: "least bias" is left out where double precision cannot hold it (from
        about 40 negatives on), and those in `FITTED` where users have more than 20 million
        candidates, or without replacement more negatives than a mean catalogue holds.
        "bias-variance, fitted prior" takes as prior the maximum entropy fit to all recommenders
        together. Of several relevant items the best, the second best and so on have a prior each,
        to which a user counts as the metric weights its items; from the tenth on neighbouring
        places share one. Where n_items differs, priors are fitted for its mean, rounded; where
        n_negatives does, to as many of each user's as the user with the fewest has.
    assumption : Assumption or {"decreasing"}, optional
        What is assumed of the first true ranks for what is possible: by default that deeper ranks
        have fewer users, and nothing if None, if the sample contradicts it (a note says so), or
        where users have several relevant items and the metric looks at more than the best.
    gamma : float, optional
        Weight of the variance in "bias-variance", with either prior: above 0, and finite. If
        omitted :func:`~sampled_metrics.estimators.default_gamma` of the number of users.
    confidence : float
        Of the intervals, in (0, 1).
    identification : bool
        Whether to say what is possible, which takes most of the time.
    efficiency : bool
        Whether to compare the ranges' widths with a lower bound for every method.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Estimates
        One row for each recommender and metric. Its frame has the columns recommender; metric;
        reported: the naive value; estimate: by the naive estimator where it has no bias, as for
        AUC, and by "bias-variance" else; standard_error: of the estimate, for users drawn at
        random, each with negatives of its own, and without its bias; possible_low, possible_high:
        the exact metrics that the assumption and the sample leave possible, see
        :func:`~sampled_metrics.bounds.identification.interval`; assumption and warrant: what they
        assume of the true ranks, and why they hold as often as `confidence` says, as for
        :func:`compare` (both are empty where there is no range); quote: what a sentence may quote,
        the estimate plus or minus one standard error where the estimator is unbiased, and otherwise
        the range, rounded outwards; and users. With `efficiency` there is a column shortest: no
        method with the same promise has ranges that are shorter than this on average, at the
        population fitted to the log (:func:`~sampled_metrics.bounds.identification.shortest`).
        Users whose catalogue sizes differ by a tenth or less are taken to have the largest of them.
        It is empty where a user has several rows. Where every user has all negatives, the sampled
        ranks are the exact ones: the estimate of every metric has no bias, and what is possible is
        proved by bets for a population that the users are drawn from.

        **What a range promises.** Its warrant is "proved": a theorem, for any number of users.
        Let users be drawn at random from a population whose true ranks the assumption allows, for
        the users of each catalogue size (`n_items`). Let the negatives of each user be drawn
        independently of those of other users. Then the range holds the population's exact metric in
        at least 95% of such logs (`confidence`). Where sizes differ, the population has the log's
        own mix of them. A range whose assumption is "none" also holds for the average over the
        log's own users, whatever their ranks are. Under an assumption it may miss that average more
        often: the ranks of a log's own users need not decrease even if those of their population
        do. Users may have different n_items, ties, several relevant items and several instances.
        The rows of one user may depend on each other in any way. Users who share a sample of
        negatives are refused, where the log is known to have such (`shared_negatives` of
        :func:`~sampled_metrics.log.read.read_log`).
        :func:`~sampled_metrics.bounds.identification.interval` has the theorem and its proof.

        With `estimators`, one row for each of them, with the columns recommender, metric,
        estimator, value, standard_error, low, high and users: low and high are Student's interval
        with users - 1 degrees of freedom. With many users they hold the expectation of the
        estimator about as often as they say, less often with few of whom some are rare and far
        from the rest; the estimator's bias is not in them. For a prior that is fitted to the log
        the fitting counts: a user's part in it is taken to first order, and recommenders that
        share a prior depend on each other's users. With few users a skewed estimate is held less
        often than said: AP by a fitted prior in 92% of logs of 100 users and in 94% of 300, for
        95% asked, where many users are at the first ranks. "maximum likelihood" has a value only:
        its estimate jumps from sample to sample, by more than refits to resampled users show.

        Of a log with a column n_above, AUC is estimated from that, without bias, with Student's
        interval; other metrics have no estimate, see :mod:`sampled_metrics.weighting`. Of a log
        that was read with a protocol whose negatives are not drawn alike, the row has what is
        possible whichever items are above: :mod:`sampled_metrics.bounds.weighted`.

        The notes say what is left out, and why.

    Raises
    ------
    ValueError
        If a name is unknown, there is no metric or one user only, `gamma` or `confidence` is out
        of range, an estimator is named that the log does not allow, or no true ranks lead to such
        sampled ranks.

    See Also
    --------
    compare : Which recommender beats which, and under what assumption.
    sampled_metrics.planning.plan : What an evaluation needs to tell two recommenders apart.

    Examples
    --------
    Three recommenders were reported with a Recall@10 of 66%, 56% and 54%. Among all films:

    >>> found = estimate("bundled", ["recall@10", "auc"])
    >>> found.frame[["recommender", "metric", "quote"]]
      recommender     metric            quote
    0           X  recall@10   0.049 to 0.115
    1           X        auc  0.8920 ± 0.0020
    2           Y  recall@10   0.056 to 0.138
    3           Y        auc  0.8522 ± 0.0024
    4           Z  recall@10   0.064 to 0.154
    5           Z        auc  0.7481 ± 0.0033
    """
    log = _read(log, replacement)
    if identification and estimators is None:
        _independent(log, "identification=False leaves the ranges out")
    if log.weighted:
        from . import weighting

        _refuse(log, estimators=estimators, gamma=gamma)
        wanted, level = _metrics(metrics), _confidence(confidence)
        return weighting.estimated(log, wanted, level, _assumption(assumption), identification)
    sample = _Sample(log)
    wanted, level = _metrics(metrics), _confidence(confidence)
    values = _Values(sample, _gamma(gamma, sample), wanted)
    assumed = {of: _assumed_of(assumption, sample, of) for of in wanted}
    if estimators is None:
        table, notes = _one_row_each(
            sample, values, wanted, level, assumed, identification, efficiency, progress
        )
    else:
        table, notes = _row_for_each(sample, values, wanted, level, estimators, progress)
    by_recommender = table["recommender"].map(sample.names.index)
    by_metric = table["metric"].map([of.name for of in wanted].index)
    order = [by_metric, by_recommender] if estimators is None else [by_recommender, by_metric]
    table = table.iloc[np.lexsort(order)].reset_index(drop=True)
    settings: dict[str, Any] = {"gamma": values.gamma, "confidence": level}
    if estimators is None and identification:
        settings["assumed"] = _said(next(filter(None, assumed.values()), None))
        assuming = table.loc[table["assumption"] != _promises.NONE, "metric"].tolist()
        known = [of.name for of in wanted if of.name not in assuming]
        if len(known) == len(wanted):
            settings["assumed"] = "nothing"
        elif known:
            settings["assumed"] += f"; nothing for {', '.join(known)}"
    return Estimates(table, settings, tuple(dict.fromkeys(notes)))


def _one_row_each(
    sample: _Sample,
    values: _Values,
    wanted: list[Metric],
    level: float,
    assumptions: Mapping[Metric, Assumption | None],
    identification: bool,
    efficiency: bool,
    progress: bool,
) -> tuple[pd.DataFrame, list[str]]:
    rows, notes = [], []
    if efficiency and not sample.alone:
        notes.append("the shortest width is left out: it needs one row for each user")
    with _progress.bar(total=len(wanted) * 2, desc="estimate", unit="table", show=progress) as bar:
        for of in wanted:
            naive = values.of(of, "naive")
            unbiased = values.unbiased(of)
            found = naive if unbiased else values.of(of, "bias-variance")
            bar.update()
            ends: dict[str, tuple[float, float]] = {}
            standing: dict[str, str] = {}
            if unbiased:
                low, high = values.range(of)
                for name, one in naive.items():
                    each, counts = sample.tally(one.parts)
                    ends[name] = betting.interval(each, low, high, 1.0 - level, counts=counts)
            elif identification:
                ends, standing, said = sample.possible(of, assumptions[of], level)
                notes += said
            bar.update()
            for name, one in found.items():
                error = _student(one, level)[0]
                low, high = ends.get(name, (np.nan, np.nan))
                row = naive[name].value, one.value, error, low, high
                # The error of a correction does not hold its bias, which may be all there is.
                quote = _quote(one.value, error if unbiased else 0.0, low, high, level)
                promised = (
                    (standing.get(name, _promises.NONE), _promises.PROVED)
                    if name in ends
                    else ("", "")
                )
                least = np.nan
                if efficiency and sample.alone and promised[0]:
                    assumed = assumptions[of] if promised[0] != _promises.NONE else None
                    least = sample.shortest(of, assumed, level, name)
                rows.append((name, of.name, *row, *promised, quote, one.users, least))
    columns = ["recommender", "metric", "reported", "estimate", "standard_error"]
    columns += ["possible_low", "possible_high", "assumption", "warrant", "quote", "users"]
    table = pd.DataFrame(rows, columns=[*columns, "shortest"])
    return table if efficiency else table[columns], notes


def _row_for_each(
    sample: _Sample,
    values: _Values,
    wanted: list[Metric],
    level: float,
    estimators: Sequence[str] | str,
    progress: bool,
) -> tuple[pd.DataFrame, list[str]]:
    names = _estimators(estimators, sample)
    notes = _notes(estimators, sample, names)
    rows = []
    steps = len(wanted) * len(names)
    with _progress.bar(total=steps, desc="estimate", unit="table", show=progress) as bar:
        for of in wanted:
            for name in names:
                found = values.of(of, name, estimators == "all")
                if not found:
                    notes.append(
                        f"{name} is left out of {of.name}: with so many negatives it has no "
                        "correct digits"
                    )
                for recommender, one in found.items():
                    row = (one.value, *_student(one, level)[:3])
                    rows.append((recommender, of.name, name, *row, one.users))
                bar.update()
    columns = ["recommender", "metric", "estimator", "value", "standard_error", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "users"]), notes


def _quote(value: float, error: float, low: float, high: float, level: float) -> str:
    """What a sentence may say: the range, unless the estimate's own error says as much."""
    if np.isnan(low):
        return ""
    digits = int(np.clip(1 - np.floor(np.log10(max(error, 1e-9))), 3, 6))
    # Half as far again as bets on a normal mean leave.
    reach = 1.5 * np.sqrt(2.0 * identification.need(level)) * error
    if value - reach <= low <= value <= high <= value + reach:
        return f"{value:.{digits}f} \u00b1 {error:.{digits}f}"
    return _ranges.written(low, high)


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
        negatives, and where users have several relevant items. Its notes say what was refused. Of a
        log with a column n_above only AUC is compared, by Student's test of the users' differences.
        Its warrant is "large sample", as it needs many users.

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

    >>> from sampled_metrics.log.read import read_log
    >>> true = np.repeat([1, 90, 20, 500], 50)  # two ranks from A, and two from B
    >>> ranks = Protocol(1_000, 9).draw(true, np.random.default_rng(1))
    >>> names, users = ["A"] * 100 + ["B"] * 100, [*range(100)] * 2
    >>> rows = pd.DataFrame({"recommender": names, "user": users, "rank": ranks})
    >>> log = read_log(rows, n_items=1_000, n_negatives=9, replacement=True)
    >>> compare(log, "auc").verdicts, compare(log, "recall@10", assumption=None).verdicts
    ({('A', 'B'): 'A beats B'}, {('A', 'B'): 'unknown'})
    """
    log = _read(log, replacement)
    _independent(log, "estimate with identification=False says what was reported")
    (of,), level = _metrics([metric]), _confidence(confidence)
    if log.weighted:
        from . import weighting

        _refuse(log, estimator=estimator, gamma=gamma)
        _assumption(assumption)
        if isinstance(assumption, Assumption):
            raise ValueError(
                f"assumption must be left out, got {as_written(assumption)}: the comparison tests "
                f"the users' n_above and assumes nothing of the true ranks of {log!r}"
            )
        return weighting.compared(log, of, level)
    sample = _Sample(log)
    values = _Values(sample, _gamma(gamma, sample))
    _same_users(sample)
    (name,) = _estimators([estimator or "bias-variance"], sample)
    if name == "maximum likelihood":
        raise ValueError(
            f"estimator must have a standard error for differences, got {as_written(name)}"
        )
    assumed, notes = _assumed_of(assumption, sample, of), _notes([name], sample, [name])
    pairs = list(combinations(sample.names, 2))
    with _progress.bar(total=3, desc="compare", unit="step", show=progress) as bar:
        naive = values.of(of, "naive")
        unbiased = values.unbiased(of)
        if estimator is None and unbiased:
            name = "naive"
        corrected = values.of(of, name)
        bar.update()
        if unbiased:
            found = {pair: values.bet(of, naive, pair, 1.0 - level) for pair in pairs}
            judged = {
                pair: _Judged(
                    one.sign,
                    _promises.NONE,
                    np.inf,
                    one.ends,
                    one.shown,
                    None if one.sign else _users_needed(sample, naive, pair, one.shown),
                )
                for pair, one in found.items()
            }
        else:
            judged, said = _ladder(sample, of, pairs, assumed, level, bar)
            notes += said
        if sample.whole:  # all negatives are there, and only users can be more
            settling = {pair: "none" for pair in pairs if not judged[pair].sign}
        else:
            settling = {} if unbiased else _negatives_needed(values, of, judged, assumed, level)
        bar.update(bar.total - bar.n)
    rows = []
    for one, two in pairs:
        a, b, judgement = corrected[one], corrected[two], judged[one, two]
        difference = _difference(a.value, b.value)
        paired = _Found.over(sample, _less(a, b), a.users, difference)
        error, low, high, _ = _student(paired, level)
        reported = _difference(naive[one].value, naive[two].value)
        likely = "" if low <= 0 <= high or judgement.sign else one if difference > 0 else two
        row = one, two, reported, difference, error, *judgement.ends
        stands = (judgement.assumption, _promises.PROVED) if judgement.sign else ("", "")
        steepness = judgement.steepness if judgement.sign else np.nan
        verdict = _verdict(judgement.sign, one, two)
        more = judgement.shown, judgement.users_needed, settling.get((one, two), "")
        rows.append((*row, verdict, *stands, steepness, likely, *more))
    columns = ["first", "second", "reported", "estimate", "standard_error", "possible_low"]
    columns += ["possible_high", "verdict", "assumption", "warrant", "steepness", "likely", "shown"]
    columns += ["users_needed", "negatives_needed"]
    table = pd.DataFrame(rows, columns=columns)
    table["users_needed"] = table["users_needed"].astype("Int64")
    settings = {"metric": of.name, "estimator": name, "gamma": values.gamma, "confidence": level}
    settings["assumed"] = _said(None if unbiased else assumed)
    settings["warrant"] = _promises.PROVED
    return Comparison(table, settings, tuple(dict.fromkeys(notes)))


def _independent(log: Log, instead: str) -> None:
    """Refuse samples that the proof of ranges and verdicts does not hold for.

    Those are samples that users share, and samples that were made larger because of what they
    showed. The second are recognised by doubled numbers of negatives: only users with the largest
    have no negative above their item.
    """
    kinds = log.kinds
    sampled = kinds["n_negatives"] < kinds["n_items"] - kinds["n_relevant"]
    if log.shared_negatives and sampled.any():
        raise ValueError(
            "shared_negatives must be False for a range or a verdict, whose proof needs negatives "
            f"of its own for each user, got True: {instead}"
        )
    numbers = np.unique(kinds["n_negatives"])
    stopped = kinds["n_negatives"] < numbers[-1]
    # Even of a random order so many users would have none above their item.
    many = float((log.kind_counts.sum(axis=0) / (kinds["n_negatives"] + 1.0))[stopped].sum())
    doubled = numbers.size > 1 and (np.diff(numbers[:-1]) == numbers[:-2]).all()
    doubled &= numbers[-1] <= 2 * numbers[:-1].max(initial=0)
    if doubled and many >= _STOPPED and (kinds["n_better"][stopped] > 0).all():
        raise ValueError(
            "n_negatives must not depend on n_better for a range or a verdict, and here no user "
            f"with fewer than {numbers[-1]:,} negatives has an item above all of them, as if "
            f"samples were doubled until one was above: {instead}"
        )


def _refuse(log: Log, **options: object) -> None:
    """Raise ValueError for an option that means nothing where negatives are not drawn alike."""
    for name, given in options.items():
        if given is not None:
            raise ValueError(
                f"{name} must be left out, got {as_written(given)}: no correction is for "
                f"negatives that are not drawn alike, as those of {log!r}"
            )


def _users_needed(
    sample: _Sample, found: Mapping[str, _Found], pair: tuple[str, str], shown: float
) -> int | None:
    """How many users would show a difference without bias, if what shows falls with their root."""
    one, two = pair
    apart, users = abs(_difference(found[one].value, found[two].value)), sample.users[one]
    needed = users * (shown / apart) ** 2 if apart else np.inf
    return max(users + 1, int(np.ceil(needed))) if needed <= 1e12 else None


def _read(
    log: Log | str | Path | Sequence[str | Path] | pd.DataFrame, replacement: bool | None
) -> Log:
    """A log, or what is read as one."""
    if not isinstance(log, Log):
        return read_log(log, replacement=replacement)
    if replacement not in (None, log.replacement):
        said = as_written(replacement)
        raise ValueError(f"replacement must be {log.replacement} as in the log, got {said}")
    return log


@dataclass(frozen=True)
class _Judged:
    """What is known of a pair: the verdict's sign, what it stands on, and what is possible."""

    sign: int
    assumption: str
    steepness: float
    ends: tuple[float, float]
    shown: float
    users_needed: int | None


def _ways(assumed: Assumption | None) -> dict[Assumption | None, float]:
    """The assumptions on which pairs are judged one after the other, and the weights of their bets.

    Those at most so many times per doubling share the last: only one of them can be the gentlest
    that is true.
    """
    if assumed is None:
        return {None: 1.0}
    if np.isfinite(assumed.steepness):
        return {None: 0.2, assumed: 0.8}
    gentler = [replace(assumed, steepness=steepness) for steepness in _STEEPNESS]
    return {None: 0.2, assumed: 0.5} | dict.fromkeys(gentler, 0.3)


def _ladder(
    sample: _Sample,
    of: Metric,
    pairs: list[tuple[str, str]],
    assumed: Assumption | None,
    level: float,
    bar: Any,
) -> tuple[dict[tuple[str, str], _Judged], list[str]]:
    """Judge pairs under no assumption, then under more and more."""
    judge, ways = _Judge(sample, of, pairs, level), _ways(assumed)
    judged: dict[tuple[str, str], _Judged] = {}
    notes: list[str] = []
    left = pairs
    for assumption in dict.fromkeys((None, assumed)):
        found, said = judge.under(assumption, left, ways[assumption], last=assumption == assumed)
        notes += said
        judged |= found
        left = [pair for pair in left if not judged[pair].sign]
        bar.update()
    # Only on from where it holds: so a verdict is wrong only if it is under the gentlest true fall.
    for assumption in [*ways][2:]:
        found, _ = judge.under(assumption, left, ways[assumption], keep=False)
        judged |= {pair: one for pair, one in found.items() if one.sign}
        # What contradicts a fall so gentle may still allow a steeper one.
        left = [pair for pair in left if pair not in found or found[pair].sign]
    return judged, notes


def _negatives_needed(
    values: _Values,
    of: Metric,
    judged: Mapping[tuple[str, str], _Judged],
    assumed: Assumption | None,
    level: float,
) -> dict[tuple[str, str], str]:
    """How many negatives would decide the pairs that are not, if a fit to each sample were true.

    By bets that guess right, and win on average: half of the evaluations with so many
    negatives decide, roughly. From one negative to all, fits and users stay.
    """
    sample = values.sample
    left = [pair for pair, one in judged.items() if not one.sign]
    if not left or int(sample.relevant.max()) > 1 or _unfit(sample):
        return {}
    names = [name for name in sample.names if any(name in pair for pair in left)]
    (band,) = values._bands(of)
    masses = {name: np.asarray(values._fit("maximum entropy", band, name).mass) for name in names}
    fits = {name: priors.condensed(mass) for name, mass in masses.items()}
    n_items = int(values._mean_protocol(1).n_items)
    wanted, weights = identification.need(level, len(judged)), _ways(assumed)
    means, variances = {}, {}
    for name, (ranks, mass) in fits.items():
        exact = of.term(ranks, 1, 1, n_items)
        means[name] = float(mass @ exact)
        variances[name] = float(mass @ exact**2 - means[name] ** 2) / sample.users[name]
    fewest = int(sample.negatives.min())
    more = "all" if n_items - 2 <= _MOST_NEGATIVES else f">{_MOST_NEGATIVES}"
    needed = {}
    for a, b in left:
        spread = variances[a] + variances[b]
        apart = abs(_difference(means[a], means[b]))
        # With the true ranks, a difference shows if it is so many times its standard error.
        enough = apart > 0 and apart**2 >= 2.0 * wanted * spread and fewest < n_items - 1
        needed[a, b] = more if enough else "none"
    for m in steps(min(_MOST_NEGATIVES, n_items - 2)):
        for assumption in dict.fromkeys((None, assumed)):
            name = assumption_name(assumption)
            pairs = [p for p in left if needed[p] == more and judged[p].assumption == name]
            if m > fewest and pairs:
                users, more_wanted = sample.users[pairs[0][0]], wanted - np.log(weights[assumption])
                protocol = values._mean_protocol(m)
                for pair in _decided(fits, protocol, of, pairs, assumption, users, more_wanted):
                    needed[pair] = str(m)
    return needed


def _decided(
    masses: Mapping[str, tuple[IntArray, FloatArray]],
    protocol: Protocol,
    of: Metric,
    pairs: Sequence[tuple[str, str]],
    assumption: Assumption | None,
    users: float,
    wanted: float,
) -> list[tuple[str, str]]:
    """The pairs that bets would decide on average, had they been made on the true ranks."""
    assert isinstance(protocol.n_items, int)
    m = protocol.n_negatives
    parts = bets.partition(
        np.array([[m, 1, 1, protocol.n_items]]), np.ones(1), of, protocol.replacement
    )
    if not parts.parts:
        return []
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    pmf = {name: mass @ protocol.pmf(ranks) for name, (ranks, mass) in masses.items()}
    # A hundredth is spread evenly, so that no sampled rank ruins a bet.
    laws = (0.99 * np.array([pmf[name] for name in names]) + 0.01 / (m + 1)) @ hats(m)
    made = bets.build(parts, assumption, bets.SUM_NEED * wanted, users, [laws])
    values = made.values(bets.Rows(np.zeros(m + 1, dtype=np.int64), np.arange(m + 1)))
    sums = bets.Sums.of(made, made.certificates[:, 0], made.certificates[:, 0])
    found = []
    for pair in pairs:
        for a, b in (pair, pair[::-1]):
            place = names.index(a) * len(names) + names.index(b)
            over, under = values[sums.over[place]], values[sums.under[place]]
            both = np.add.outer(over, sums.ratio[place] * under) - sums.less[place]
            growth = pmf[a] @ np.log(both) @ pmf[b] - np.log(sums.mean[place])
            if users * growth >= wanted:
                found.append(pair)
                break
    return found


class _Judge:
    """Pairs of a sample judged by bets on both recommenders of a user, added up.

    The bets under an assumption are added to those under weaker ones, which are as valid. Their
    weights sum to 1, so that all ranges and verdicts hold together. A verdict is a range without 0.
    """

    def __init__(
        self, sample: _Sample, of: Metric, pairs: list[tuple[str, str]], level: float
    ) -> None:
        self.sample, self.level = sample, level
        self.parts = sample.partition(of)
        #: What the ranges of all pairs need together.
        self.wanted = identification.need(level, len(pairs))
        #: For each pair and its reverse, what was won under weaker assumptions.
        self.kept: dict[tuple[str, str], bets.Evidence] = {}

    def under(
        self,
        assumption: Assumption | None,
        pairs: list[tuple[str, str]],
        weight: float,
        keep: bool = True,
        last: bool = False,
    ) -> tuple[dict[tuple[str, str], _Judged], list[str]]:
        """A judgement of each pair; of none with a recommender that contradicts the assumption.

        Bets are kept for assumptions to come. Of pairs that are judged for the last time the users
        needed are computed.
        """
        sample, name = self.sample, assumption_name(assumption)
        names = [name for name in sample.names if any(name in pair for pair in pairs)]
        checks = len(sample.names) * (2 + len(_STEEPNESS))
        kept, notes = sample.contradicted(self.parts, assumption, names, self.level, checks)
        pairs = [pair for pair in pairs if all(name in kept for name in pair)]
        if not pairs:
            return {}, notes
        won = {
            way: one.with_(self.kept.get(way))
            for way, one in self._won(assumption, pairs, weight).items()
        }
        if keep:
            self.kept |= won
        spans = {name: self.parts.span(sample.share(name)) for name in kept}
        steepness = np.inf if assumption is None else assumption.steepness
        judged = {}
        for pair in pairs:
            ends = []
            for a, b in (pair, pair[::-1]):
                least, most = spans[a][0] - spans[b][1], spans[a][1] - spans[b][0]
                ends.append(won[a, b].end(1, self.wanted, least, most))
            low, high = ends[0], -ends[1]
            if low > high:  # no difference is left, and the assumption is wrong
                continue
            sign = int(low > 0) - int(high < 0)
            judged[pair] = _Judged(sign, name, steepness, (low, high), 0.5 * (high - low), None)
        left = [pair for pair, one in judged.items() if not one.sign] if last else []
        for pair, needed in self._users_needed(assumption, left, weight).items():
            judged[pair] = replace(judged[pair], users_needed=needed)
        if assumption is None and len(judged) < len(pairs):
            raise ValueError(
                "the ranks contradict the protocol at any true ranks: check n_items, n_negatives "
                "and replacement"
            )
        return judged, notes

    def _won(
        self,
        assumption: Assumption | None,
        pairs: Sequence[tuple[str, str]],
        weight: float,
        times: float = 1.0,
    ) -> dict[tuple[str, str], bets.Evidence]:
        """Bets that the first metric of a pair is larger than the second, and the other way round.

        They are made for so many times the users.
        """
        sample = self.sample
        users = sample.users[pairs[0][0]]
        made = bets.build(self.parts, assumption, bets.SUM_NEED * self.wanted, users * times)
        each = made.values(sample.betted)
        mean = {name: made.certificates @ sample.share(name) for pair in pairs for name in pair}
        found = {}
        for pair in pairs:
            for a, b in (pair, pair[::-1]):
                sums = bets.Sums.of(made, mean[a], mean[b])
                logs = np.empty(sums.slope.size)
                if sample.alone:
                    first, second, counts = sample.pairs(a, b)
                choices = zip(sums.over, sums.under, sums.ratio, sums.less, strict=True)
                for place, (over, under, ratio, less) in enumerate(choices):
                    if sample.alone:
                        both = each[over, first] + ratio * each[under, second]
                        logs[place] = counts @ np.log(both - less)
                    else:
                        parts = {a: each[over], b: ratio * each[under]}
                        of_users = sample.values(parts)
                        logs[place] = sum(n @ np.log(v - less) for v, n in of_users)
                ones = np.ones(logs.size, dtype=np.int64)
                found[a, b] = bets.Evidence.of(ones, sums.slope, sums.mean, logs, users, weight)
        return found

    def _users_needed(
        self, assumption: Assumption | None, pairs: Sequence[tuple[str, str]], weight: float
    ) -> dict[tuple[str, str], int]:
        """How many users like these would decide pairs; no entry where no number would."""
        found: dict[tuple[str, str], int] = {}
        for times in _MORE_USERS if pairs else ():
            won = self._won(assumption, pairs, weight, times)
            enough = {
                way for way, one in won.items() if one.against(1, 0.0, _MANY_TIMES) >= self.wanted
            }
            for way in enough:
                if way[::-1] in enough:  # the few users are not like those of any population
                    continue
                pair, one = way if way in pairs else way[::-1], won[way]
                low, high = 1.0, _MANY_TIMES
                for _ in range(40):
                    middle = np.sqrt(low * high)
                    some = one.against(1, 0.0, middle) >= self.wanted
                    low, high = (low, middle) if some else (middle, high)
                users = max(_upwards(one.users[0] * high), int(one.users[0]) + 1)
                found[pair] = min(users, found.get(pair, users))
        return found


def _upwards(users: float) -> int:
    """A number of users, rounded up to two digits: it is no more exact."""
    unit = int(10 ** max(np.floor(np.log10(users)) - 1.0, 0.0))
    return int(np.ceil(users / unit)) * unit


@dataclass(frozen=True, eq=False)
class _Found:
    """The estimate for one recommender, its standard error, and what users' values are made of.

    A user's value is the sum over recommenders of its rows' values, which `parts` has by cell.
    """

    value: float
    users: int
    error: float
    parts: Mapping[str, FloatArray]

    @classmethod
    def over(
        cls,
        sample: _Sample,
        parts: Mapping[str, FloatArray],
        users: int,
        value: float | None = None,
    ) -> _Found:
        """An estimate whose users' values vary as these do; their mean if no value is given."""
        mean = sample.mean(parts, users)
        error = sample.error(parts, users, mean)
        return cls(mean if value is None else value, users, error, parts)

    @classmethod
    def of(cls, sample: _Sample, recommender: str, worth: FloatArray) -> _Found:
        """The mean of a recommender's users, from the value of a row of each cell."""
        return cls.over(sample, {recommender: worth}, sample.users[recommender])


def _less(first: _Found, second: _Found) -> dict[str, FloatArray]:
    """The parts of the users' differences."""
    names = dict.fromkeys([*first.parts, *second.parts])
    return {
        name: np.asarray(first.parts.get(name, 0.0) - second.parts.get(name, np.float64(0.0)))
        for name in names
    }


@dataclass(frozen=True, eq=False)
class _Class:
    """The rows whose instances share everything of the protocol but the size of the catalogue.

    Attributes
    ----------
    n_negatives, n_relevant : int
    rows : ndarray of int, shape (k,)
        In order of their size.
    sizes : ndarray of int
        The different sizes, in order.
    size : ndarray of int, shape (k,)
        Which of them each row has.
    """

    n_negatives: int
    n_relevant: int
    rows: IntArray
    sizes: IntArray
    size: IntArray


@dataclass(frozen=True)
class _Band:
    """Places among the relevant items that share a fitted prior, and the weight of their items.

    Attributes
    ----------
    first, last : int
        The places.
    weights : tuple of float
        What the metric weights the items of a ranking with, for each number of relevant items.
    """

    first: int
    last: int
    weights: tuple[float, ...]

    @property
    def places(self) -> range:
        return range(self.first, self.last + 1)


def _joined(parts: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, ...]:
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


class _Sample:
    """The rows of a log as counts: users of each recommender in each cell of rows that are alike.

    Attributes
    ----------
    better, tied, position, relevant, items, negatives : ndarray of int, shape (cells,)
        What the rows of a cell share.
    place, many : ndarray of int, shape (cells,)
        Where several relevant items are tied with negatives and each other: the row's place among
        these, and how many they are; else 0.
    counts : dict of str to ndarray of float, shape (cells,)
        Users of each recommender; a user's instances have a share of the user each.
    users : dict of str to int
        How many users each recommender has.
    mean_items : int
        Size of the catalogue, without the user's other relevant items, over the rows.
    alone : bool
        Whether every user of a recommender has one row.
    """

    def __init__(self, log: Log) -> None:
        if log.weighted:
            raise ValueError(f"the log must have negatives that are drawn alike here, got {log!r}")
        self.log, self.names, self.replacement = log, log.recommenders, log.replacement
        self.users, self.alone = log.users_of, log.sizes is None
        for name, users in self.users.items():
            if users < 2:
                raise ValueError(
                    f"users must be 2 or more for a standard error, got 1 of {shortened(name)}"
                )
        self.better, self.tied, self.position, self.relevant, self.items, self.negatives = (
            log.kinds[name] for name in KIND
        )
        self.place, self.many = log.kinds["tied_position"], log.kinds["tied_relevant"]
        #: The share of its user that an instance has.
        self.share_of_user = 1.0 / log.kinds["n_instances"]
        self.counts = {
            name: own * self.share_of_user
            for name, own in zip(self.names, log.kind_counts, strict=True)
        }
        rows = log.kind_counts.sum(axis=0)
        self.mean_items = round(float(rows @ (self.items - self.relevant + 1)) / float(rows.sum()))

    @cached_property
    def classes(self) -> list[_Class]:
        """A class for each number of negatives and of relevant items."""
        order = np.lexsort((self.items, self.relevant, self.negatives))
        columns = [each[order] for each in (self.negatives, self.relevant, self.items)]
        new = np.logical_or.reduce([np.diff(each, prepend=-1) != 0 for each in columns[:2]])
        starts = np.append(np.flatnonzero(new), order.size).tolist()
        found = []
        for start, end in pairwise(starts):
            m, relevant = (int(each[start]) for each in columns[:2])
            sizes, size = np.unique(columns[2][start:end], return_inverse=True)
            found.append(_Class(m, relevant, order[start:end], sizes, size))
        return found

    @cached_property
    def whole(self) -> bool:
        """Whether every user has all negatives, so that the sampled ranks are the true ones."""
        return all(map(self.is_whole, self.classes))

    def is_whole(self, one: _Class) -> bool:
        """Whether all negatives are drawn for the users of a class, each once."""
        return not self.replacement and int(one.sizes[-1]) == one.n_negatives + one.n_relevant

    def protocol(self, of: _Class, size: int) -> Protocol:
        """The protocol of the instances of a class that have a size of the catalogue."""
        return Protocol(
            size, of.n_negatives, replacement=self.replacement, n_relevant=of.n_relevant
        )

    def values(self, parts: Mapping[str, FloatArray]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Values of users, and how many users have each.

        A user's value is the sum over recommenders of the mean over the user's instances of the
        sum of the rows' values, which `parts` has by cell.
        """
        numbers = map(self.names.index, parts)
        yield from self.log.sums({at: parts[self.names[at]] * self.share_of_user for at in numbers})

    def mean(self, parts: Mapping[str, FloatArray], users: int) -> float:
        """Sum of users' values over so many users."""
        return sum(float(self.counts[name] @ worth) for name, worth in parts.items()) / users

    def error(self, parts: Mapping[str, FloatArray], users: int, mean: float) -> float:
        """Standard error of the mean of users' values; rounding is none."""
        scale = max(float(np.abs(worth).max()) for worth in parts.values())
        squares = largest = 0.0
        for values, counts in self.values(parts):
            values = _rounded(values, scale)
            squares += float(counts @ (values - mean) ** 2)
            largest = max(largest, float(np.abs(values).max()))
        error = float(np.sqrt(squares / (users - 1) / users))
        return 0.0 if error <= _ROUNDING * largest else error

    def tally(self, parts: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Different values of users, in order, and how many users have each."""
        scale = max(float(np.abs(worth).max()) for worth in parts.values())
        found: list[tuple[FloatArray, FloatArray]] = []
        for values, counts in self.values(parts):
            found.append(betting.tally(_rounded(values, scale), counts))
            if sum(each.size for each, _ in found) > 4 * found[0][0].size + _TALLIED:
                found = [betting.tally(*_joined(found))]
        return betting.tally(*_joined(found))

    @cached_property
    def same_users(self) -> bool:
        """Whether every recommender has all users."""
        total = self.log.n_users
        return self.log.paired and all(users == total for users in self.users.values())

    @cached_property
    def numbers(self) -> tuple[IntArray, IntArray]:
        """The numbers of relevant items that rankings have, and which of them each cell has."""
        found, of_cell = np.unique(self.relevant, return_inverse=True)
        return found, of_cell

    def weighted(self, band: _Band) -> FloatArray:
        """The weight of the items of each cell in a band; 0 outside."""
        inside = (self.position >= band.first) & (self.position <= band.last)
        return np.asarray(np.where(inside, np.array(band.weights)[self.numbers[1]], 0.0))

    def at_ranks(self, recommender: str, m: int, weights: FloatArray) -> FloatArray:
        """Users with m negatives at each sampled rank, times a weight for each cell; (m + 1,)."""
        counts = self.counts[recommender] * weights
        here = (self.negatives == m) & (counts > 0)
        found = self._spread(np.flatnonzero(here & (self.many == 0)), counts, m)
        together = np.flatnonzero(here & (self.many > 0))
        kinds, kind = np.unique(
            np.stack([self.tied, self.place, self.many])[:, together], axis=1, return_inverse=True
        )
        for i, (length, *order) in enumerate(kinds.T.tolist()):
            at = together[kind.ravel() == i]
            start = np.bincount(self.better[at], counts[at], m + 1)[: m + 1 - length]
            found += np.convolve(start, _among_ties(length, *order))
        return found

    @cached_property
    def kinds(self) -> tuple[IntArray, IntArray]:
        """What rows share but their ranks: kinds, (k, 4), as a partition takes them; each row's."""
        kinds, of_row, before = [], np.empty(self.better.size, dtype=np.int64), 0
        for one in self.classes:
            code = one.size + one.sizes.size * (self.position[one.rows] - 1)
            of_row[one.rows] = before + code
            before += one.sizes.size * one.n_relevant
            for j in range(1, one.n_relevant + 1):
                same = [np.full(one.sizes.size, v) for v in (one.n_negatives, one.n_relevant, j)]
                kinds.append(np.column_stack([*same, one.sizes]))
        return np.concatenate(kinds), of_row

    def partition(self, of: Metric) -> bets.Partition:
        """The parts of the sample that share bets on a metric."""
        kinds, of_row = self.kinds
        weights = np.zeros(len(kinds))
        for counts in self.counts.values():
            weights += np.bincount(of_row, counts, len(kinds))
        return bets.partition(kinds, weights, of, self.replacement)

    @cached_property
    def betted(self) -> bets.Rows:
        """The cells as bets take them: ties with negatives are broken at random."""
        kind = self.kinds[1]
        if not self.tied.any():
            return bets.Rows(kind, self.better)
        starts, cell, above, share = self.broken(np.arange(self.tied.size))
        return bets.Rows(kind[cell], above, starts, share)

    def broken(self, cells: IntArray) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """Every way in which the ties of some cells may be broken, one after the other.

        Returns the first way of each cell, and of each way its cell, the negatives above, and its
        probability.
        """
        many = self.tied[cells] + 1
        starts = np.cumsum(many) - many
        cell, share = np.repeat(cells, many), np.repeat(1.0 / many, many)
        above = self.better[cell] + np.arange(cell.size) - np.repeat(starts, many)
        for at in np.flatnonzero(self.many[cells] > 0).tolist():
            order = (int(column[cells[at]]) for column in (self.tied, self.place, self.many))
            share[starts[at] : starts[at] + many[at]] = _among_ties(*order)
        return starts, cell, above, share

    def evidence(self, made: bets.Bets, each: FloatArray, recommender: str) -> bets.Evidence:
        """What bets have won on a recommender's users, each with the sum of its rows' bets."""
        users = self.users[recommender]
        logs = np.empty(made.sign.size)
        for bet, worth in enumerate(each):
            found = self.values({recommender: worth})
            logs[bet] = sum(float(counts @ np.log(values)) for values, counts in found)
        mean = made.certificates @ self.share(recommender)
        return bets.Evidence.of(made.sign, made.slope, mean, logs, users)

    def share(self, recommender: str) -> FloatArray:
        """The share of a recommender's users that have a row of each kind."""
        kinds, of_row = self.kinds
        weights = self.counts[recommender] / self.users[recommender]
        return np.asarray(np.bincount(of_row, weights, len(kinds)), dtype=float)

    def pairs(self, first: str, second: str) -> tuple[IntArray, IntArray, FloatArray]:
        """The cells that users have with either recommender, and how many users have both.

        Of users with one row for each recommender.
        """
        size = self.better.size
        cell = np.arange(float(size))
        each, counts = self.tally({first: size * cell, second: cell})
        code = each.astype(np.int64)
        return code // size, code % size, counts

    def _spread(self, at: IntArray, counts: FloatArray, m: int) -> FloatArray:
        """Users of some cells at each sampled rank, ties spread evenly; shape (m + 1,)."""
        better, tied, users = self.better[at], self.tied[at], counts[at]
        if not tied.any():
            return np.bincount(better, users, m + 1).astype(float)
        each = users / (tied + 1)
        steps = np.bincount(better, each, m + 2) - np.bincount(better + tied + 1, each, m + 2)
        return np.asarray(np.maximum(np.cumsum(steps)[:-1], 0.0))

    def contradicted(
        self,
        parts: bets.Partition,
        assumption: Assumption | None,
        names: Sequence[str],
        confidence: float,
        many: int = 1,
    ) -> tuple[list[str], list[str]]:
        """The recommenders that an assumption may be made of, and what is said of the others.

        Raises
        ------
        ValueError
            If nothing is assumed, so that it is the protocol that is contradicted.
        """
        if not self.alone or not names:
            return list(names), []
        found = bets.refutations(
            parts, assumption, self.betted, [self.counts[name] for name in names]
        )
        kept, notes = [], []
        for name, against in zip(names, found, strict=True):
            try:
                whose = f"the ranks of {shortened(name)}"
                identification.check(against, assumption, confidence, whose, many)
            except identification.IncompatibleError as problem:
                notes.append(_contradiction(problem, assumption))
            else:
                kept.append(name)
        return kept, notes

    def possible(
        self, of: Metric, assumption: Assumption | None, confidence: float
    ) -> tuple[dict[str, tuple[float, float]], dict[str, str], list[str]]:
        """The exact metrics that each recommender may have, under which assumption, and notes."""
        parts, users = self.partition(of), max(self.users.values())
        found: dict[str, tuple[float, float]] = {}
        standing: dict[str, str] = {}
        notes: list[str] = []
        for assumed in (assumption, None) if assumption is not None else (None,):
            left, said = self.contradicted(
                parts, assumed, [name for name in self.names if name not in found], confidence
            )
            notes += said
            if not left:
                continue
            made = bets.build(parts, assumed, identification.need(confidence), users)
            each = made.values(self.betted)
            for name in left:
                whose = f"the ranks of {shortened(name)}"
                try:
                    evidence = self.evidence(made, each, name)
                    if self.alone:
                        wanted = identification.need(confidence)
                        rows, counts = self.betted, self.counts[name]
                        more = bets.learnt(parts, assumed, wanted, rows, counts)
                        evidence = evidence.with_(more, 0.5)
                    found[name] = identification.left(
                        evidence,
                        confidence,
                        parts.span(self.share(name)),
                        assumed,
                        whose,
                    )
                except identification.IncompatibleError as problem:
                    notes.append(_contradiction(problem, assumed))
                else:
                    standing[name] = assumption_name(assumed)
        return found, standing, notes

    def shortest(
        self, of: Metric, assumption: Assumption | None, confidence: float, name: str
    ) -> float:
        """The least mean width that any range of the metric of a recommender can have."""
        rows, counts = self.betted, self.counts[name].astype(float)
        return least_width(self.partition(of), assumption, confidence, rows, counts)


def _contradiction(problem: Exception, assumption: Assumption | None) -> str:
    """What is said of a contradicted assumption; a contradicted protocol is an error."""
    if assumption is None:
        raise ValueError(f"{problem}: check n_items, n_negatives and replacement") from None
    return str(problem)


class _Values:
    """The values that each estimator gives the rows of a sample."""

    def __init__(self, sample: _Sample, gamma: float, wanted: Sequence[Metric] = ()) -> None:
        self.sample, self.gamma = sample, gamma
        self.wanted, self._built = list(wanted), dict[tuple[Metric, Protocol], FloatArray]()
        self._unbiased: dict[Metric, bool] = {}
        self._fitted: dict[tuple[str, _Band, tuple[str, ...]], priors.FittedPrior] = {}
        self._expanded: dict[tuple[_Band, tuple[str, ...]], priors.Expansion] = {}

    def of(self, of: Metric, name: str, leave_out: bool = False) -> dict[str, _Found]:
        """Estimates of a metric for all recommenders by a named estimator.

        None if `leave_out` and double precision cannot hold the estimator's values.
        """
        names = self.sample.names
        if name == FITTED[0]:
            return self._with_fitted_prior(of)
        if name in FITTED:
            return {recommender: self._plugged_in(of, name, recommender) for recommender in names}
        try:
            worth = self._reported(of) if name == "naive" else self.worth(*self._build(of, name))
        except corrections.IllConditionedError:
            if leave_out:
                return {}
            raise
        return {recommender: _Found.of(self.sample, recommender, worth) for recommender in names}

    def _build(self, of: Metric, name: str) -> tuple[_Build, str]:
        """How the estimator is made, and how it depends on the size of the catalogue."""
        ways = {"naive": "constant", "rank estimate": "each", "monotone": "lines"}

        def build(protocol: Protocol) -> FloatArray:
            if name != "bias-variance":
                return np.atleast_2d(corrections.by_name(name, of, protocol).values)
            if (of, protocol) not in self._built:  # all metrics' take little longer than one's
                for each in dict.fromkeys([of, *self.wanted]):
                    made = corrections.bias_variance(each, protocol, self.gamma).values
                    self._built[each, protocol] = np.atleast_2d(made)
            return self._built[of, protocol]

        return build, ways.get(name, "smooth")

    def _bands(self, of: Metric) -> list[_Band]:
        """Places that a metric looks at: each of the first nine alone, then more and more together.

        The metric's term of an item is a weight, for how many relevant items its ranking has,
        times a function of its place and rank. An average over rankings with few and with many
        relevant items is therefore one over weighted items, place by place, and all that it needs
        of the items of a place is the distribution of their ranks.
        """
        numbers = self.sample.numbers[0].tolist()
        reach = 1 if of.best_only else of.k or numbers[-1]
        weights = tuple(float(of.term(1, 1, many, many + 1)) for many in numbers)
        bands, first = [], 1
        while first <= min(reach, numbers[-1]):
            last = min(first + max(first // 5, 1) - 1, reach, numbers[-1])
            bands.append(_Band(first, last, weights))
            first = last + 1
        return bands

    def _terms(self, of: Metric, band: _Band, above: IntArray) -> FloatArray:
        """A metric's terms without weights, for the places of a band, and so many items above."""
        j, n_items = np.array(band.places)[:, np.newaxis], self.sample.mean_items + band.last - 1
        terms = of.term(above + j, j, band.last, n_items)
        return np.asarray(terms / of.term(1, 1, band.last, n_items))

    def _plugged_in(self, of: Metric, name: str, recommender: str) -> _Found:
        """The metric of fitted priors, and for maximum entropy its expansion in the users."""
        sample, users = self.sample, self.sample.users[recommender]
        rows = np.zeros((int(sample.relevant.max()), int(sample.negatives.min()) + 1))
        for band in self._bands(of):
            shares = self._shares(band, recommender)
            if not shares.any():
                continue
            mass = self._fit(name, band, recommender).mass
            ranks, mass = priors.listed(mass)
            own = rows[band.first - 1 : band.last]
            own += (self._terms(of, band, ranks - 1) @ mass)[:, np.newaxis]
            if name == "maximum entropy":
                moves = self._expansion(band, recommender)
                target = shares @ self._terms(of, band, moves.ranks - 1) / shares.sum()
                own += moves.influence(target)
        worth = self.worth(self._of_thinned(of, rows), "constant")
        if name == "maximum likelihood":  # jumps from a few ranks to others: nothing to expand
            return _Found(sample.mean({recommender: worth}, users), users, np.nan, {})
        return _Found.of(sample, recommender, worth)

    def _with_fitted_prior(self, of: Metric) -> dict[str, _Found]:
        """Bias-variance with the maximum entropy fit to all recommenders together as its prior.

        A user counts twice: by the values of its own sampled ranks, and by what these ranks, for
        whichever recommender, do to the prior and so to all values.
        """
        sample, names = self.sample, self.sample.names
        most, fewest = int(sample.relevant.max()), int(sample.negatives.min())
        tables = {m: np.zeros((most, m + 1)) for m in np.unique(sample.negatives).tolist()}
        pulls = np.zeros((len(names), most, fewest + 1))
        for band in self._bands(of):
            moves = self._expansion(band, *names)
            prior = dict(zip(moves.ranks.tolist(), moves.mass.tolist(), strict=True))
            exact = self._terms(of, band, moves.ranks - 1)
            slopes = np.zeros((moves.ranks.size, len(names)))
            for m, table in tables.items():
                protocol = self._mean_protocol(m, band.last)
                made = corrections.bias_variance(of, protocol, self.gamma, prior).values
                scale = float(of.term(1, 1, band.last, protocol.n_items))
                leads = moves.rows
                if m + 1 > leads.shape[1]:
                    leads = law(m, moves.ranks - 1, protocol.pool, protocol.replacement)
                for j, own in zip(band.places, exact, strict=True):
                    table[j - 1] = np.atleast_2d(made)[j - 1] / scale
                    weights = sample.weighted(replace(band, first=j, last=j))
                    shares = [sample.at_ranks(r, m, weights) / sample.users[r] for r in names]
                    slopes += _slopes(
                        table[j - 1], np.column_stack(shares), leads, moves.mass, own, self.gamma
                    )
            weights = sample.weighted(band)
            total = sum(float(counts @ weights) for counts in sample.counts.values())
            pulls[:, band.first - 1 : band.last] = (moves.influence(slopes) / total).T[:, None]

        worth = self.worth(self._of_rows(of, tables.__getitem__), "constant")
        found = {}
        for recommender, pull in zip(names, pulls, strict=True):
            users = sample.users[recommender]
            value = sample.mean({recommender: worth}, users)
            parts = dict.fromkeys(names, self.worth(self._of_thinned(of, pull * users), "constant"))
            if sample.same_users:
                parts[recommender] = parts[recommender] + worth
                found[recommender] = _Found.over(sample, parts, users, value)
            else:  # other recommenders' users count too
                parts[recommender] = parts[recommender] + (worth - value / sample.relevant)
                error = sample.error(parts, users, 0.0)
                found[recommender] = _Found(value, users, error, parts)
        return found

    def _fit(self, name: str, band: _Band, *recommenders: str) -> priors.FittedPrior:
        """The distribution of true ranks fitted to the sampled ranks of some recommenders."""
        key = (name, band, recommenders)
        if key not in self._fitted:
            fit = {
                "maximum likelihood": priors.maximum_likelihood,
                "maximum entropy": priors.maximum_entropy,
            }[name]
            protocol = self._mean_protocol(int(self.sample.negatives.min()))
            self._fitted[key] = fit(self._counts(band, *recommenders), protocol)
        return self._fitted[key]

    def _expansion(self, band: _Band, *recommenders: str) -> priors.Expansion:
        """How the maximum entropy fit to the sampled ranks of some recommenders moves."""
        key = (band, recommenders)
        if key not in self._expanded:
            fit = self._fit("maximum entropy", band, *recommenders)
            protocol = self._mean_protocol(int(self.sample.negatives.min()))
            self._expanded[key] = priors.Expansion(fit, self._counts(band, *recommenders), protocol)
        return self._expanded[key]

    def _shares(self, band: _Band, recommender: str) -> FloatArray:
        """What the items at each place of a band weigh in the mean over a recommender's users."""
        weights = self.sample.weighted(band) * self.sample.counts[recommender]
        found = np.bincount(self.sample.position, weights, band.last + 1)[
            band.first : band.last + 1
        ]
        return np.asarray(found / self.sample.users[recommender])

    def _counts(self, band: _Band, *recommenders: str) -> FloatArray:
        """Users at each sampled rank, all thinned to the fewest negatives that a user has.

        Weighted items of a band are as many as that many users whose items weigh the same, with
        one item each.
        """
        fewest, sample = int(self.sample.negatives.min()), self.sample
        found, weights = np.zeros(fewest + 1), sample.weighted(band)
        for m in np.unique(sample.negatives).tolist():
            counts = np.sum([sample.at_ranks(r, m, weights) for r in recommenders], axis=0)
            found += counts @ thinned(m, fewest)
        squares = sum(float(sample.counts[r] @ weights**2) for r in recommenders)
        return np.asarray(found * (found.sum() / squares / len(band.places)))

    def _mean_protocol(self, n_negatives: int, n_relevant: int = 1) -> Protocol:
        return Protocol(
            self.sample.mean_items + n_relevant - 1,
            n_negatives,
            replacement=self.sample.replacement,
            n_relevant=n_relevant,
        )

    def _of_thinned(self, of: Metric, rows: FloatArray) -> _Build:
        """Values for the fewest negatives, expected of any so many of a user's negatives."""
        fewest = rows.shape[1] - 1
        return self._of_rows(of, lambda m: rows @ thinned(m, fewest).T)

    def _of_rows(self, of: Metric, rows: Callable[[int], FloatArray]) -> _Build:
        """Values from those of items of weight 1 at each place, given a number of negatives."""

        def build(protocol: Protocol) -> FloatArray:
            relevant = protocol.n_relevant
            weight = float(of.term(1, 1, relevant, relevant + 1))
            return np.asarray(weight * rows(protocol.n_negatives)[:relevant])

        return build

    def worth(self, build: _Build, way: str) -> FloatArray:
        """The value of a row of each cell."""
        out = np.empty(self.sample.better.size)
        for one in self.sample.classes:
            for part, at, table in _tables(build, way, one, self.sample):
                rows = one.rows[part]
                out[rows] = self._looked_up(table, at, rows)
        return out

    def _looked_up(self, table: FloatArray, at: IntArray, rows: IntArray) -> FloatArray:
        """Values of cells from a table for their sizes, (sizes, n_relevant, m + 1)."""
        sample, (_, relevant, columns) = self.sample, table.shape
        start, tied = at * relevant + sample.position[rows] - 1, sample.tied[rows]
        sums = np.zeros((*table.shape[:2], columns + 1))
        np.cumsum(table, axis=2, out=sums[:, :, 1:])
        first, begin = sample.better[rows], start * (columns + 1) + sample.better[rows]
        out = (sums.ravel()[begin + tied + 1] - sums.ravel()[begin]) / (tied + 1)
        out = np.where(tied == 0, table.ravel()[start * columns + first], out)
        together = sample.many[rows] > 0
        kinds = np.column_stack(
            [x[rows[together]] for x in (sample.tied, sample.place, sample.many)]
        )
        kinds, kind = np.unique(kinds, axis=0, return_inverse=True)
        for i, (length, *order) in enumerate(kinds.tolist()):
            here = np.flatnonzero(together)[kind.ravel() == i]
            entries = (start[here] * columns + first[here])[:, np.newaxis]
            chances = _among_ties(length, *order)
            out[here] = table.ravel()[entries + np.arange(length + 1)] @ chances
        return np.asarray(out)

    def _reported(self, of: Metric) -> FloatArray:
        """The naive value of a row of each cell; ties with negatives count by their mean value.

        Every class has its own table of values, which is longer than the few ranks that its rows
        have where every user has another number of negatives: then only these are computed.
        """
        sample = self.sample
        table = sum(one.n_relevant * (one.n_negatives + 1) for one in sample.classes)
        if int((sample.tied + 1).sum()) > table:
            return self.worth(*self._build(of, "naive"))
        out = np.empty(sample.better.size)
        for relevant in sample.numbers[0].tolist():
            of_number = np.flatnonzero(sample.relevant == relevant)
            ends = np.cumsum(sample.tied[of_number] + 1)
            cuts = np.searchsorted(ends, np.arange(_BLOCK, ends[-1], _BLOCK), side="right")
            for rows in filter(len, np.split(of_number, cuts)):
                starts, row, above, shares = sample.broken(rows)
                j = sample.position[row]
                values = of.term(above + j, j, relevant, sample.negatives[row] + relevant)
                out[rows] = np.add.reduceat(values * shares, starts)
        return out

    def range(self, of: Metric) -> tuple[float, float]:
        """The least and the most that a user's naive value can be.

        No metric rises with the rank, so that all relevant items are last, or first.
        """
        low, high = np.inf, -np.inf
        for relevant in self.sample.numbers[0].tolist():
            negatives = np.unique(self.sample.negatives[self.sample.relevant == relevant])
            j = np.arange(1, relevant + 1)[:, np.newaxis]
            for m in np.array_split(negatives, 1 + negatives.size * relevant // _BLOCK):
                last = of.term(m + j, j, relevant, m + relevant).sum(axis=0)
                first = of.term(j, j, relevant, m + relevant).sum(axis=0)
                low, high = min(low, float(last.min())), max(high, float(first.max()))
        return low, high

    def unbiased(self, of: Metric) -> bool:
        """Whether the naive metric is the exact one in expectation, whatever the true ranks are.

        That is so of AUC, which is linear in the true rank as the expected sampled rank is, and
        of users who have all negatives, whose sampled rank is the true one.
        """
        if of not in self._unbiased:
            build, _ = self._build(of, "naive")
            self._unbiased[of] = of.linear or all(
                _is_exact(build(protocol), of, protocol)
                for one in self.sample.classes
                if not self.sample.is_whole(one)
                for size in one.sizes[np.linspace(0, one.sizes.size - 1, 5).astype(int)].tolist()
                for protocol in [self.sample.protocol(one, size)]
            )
        return self._unbiased[of]

    def bet(
        self, of: Metric, found: Mapping[str, _Found], pair: tuple[str, str], error: float
    ) -> _Bet:
        """What the users' differences, without bias, say of the exact one."""
        values, counts = self.sample.tally(_less(*(found[name] for name in pair)))
        low, high = self.range(of)
        span = high - low
        many = len(self.sample.names) * (len(self.sample.names) - 1) // 2
        low, high = betting.interval(values, -span, span, error / many, counts=counts)
        return _Bet(int(low > 0) - int(high < 0), (low, high), 0.5 * (high - low))


@dataclass(frozen=True)
class _Bet:
    """A verdict's sign, the differences that are possible, and half of how far they go."""

    sign: int
    ends: tuple[float, float]
    shown: float


def _slopes(
    values: FloatArray,
    shares: FloatArray,
    rows: FloatArray,
    mass: FloatArray,
    exact: FloatArray,
    gamma: float,
) -> FloatArray:
    """How means of bias-variance's values move with the mass that its prior gives each rank.

    The values v solve (1 - gamma) P'DPv + gamma diag(q) v = P'DM, with D = diag(p) and q = pP.

    Parameters
    ----------
    values : ndarray of float, shape (m + 1,)
    shares : ndarray of float, shape (m + 1, several)
        Of the sampled ranks, for each mean.
    rows : ndarray of float, shape (k, m + 1)
        P, at the ranks that the prior has.
    mass, exact : ndarray of float, shape (k,)
        The prior p, and the metric M there.
    gamma : float

    Returns
    -------
    ndarray of float, shape (k, several)
    """
    q = mass @ rows
    root = np.where(q > 0, np.sqrt(q), np.inf)  # nobody is where nobody can be
    scaled = np.sqrt(mass)[:, np.newaxis] * rows / root
    system = (1.0 - gamma) * scaled.T @ scaled + gamma * np.eye(q.size)
    back = np.linalg.solve(system, shares / root[:, np.newaxis]) / root[:, np.newaxis]
    left = exact - (1.0 - gamma) * (rows @ values)
    spread = gamma * (rows @ (back * values[:, np.newaxis]))
    return np.asarray((rows @ back) * left[:, np.newaxis] - spread)


def _tables(
    build: _Build, way: str, one: _Class, sample: _Sample
) -> Iterator[tuple[slice, IntArray, FloatArray]]:
    """Values for all sizes of a class, block by block.

    Yields which of its rows have these sizes, which size each has, and the table of values,
    (sizes, n_relevant, m + 1).
    """

    def made(sizes: IntArray) -> FloatArray:
        return np.stack([build(sample.protocol(one, size)) for size in sizes.tolist()])

    if way == "constant":
        yield slice(None), np.zeros(one.rows.size, dtype=np.int64), made(one.sizes[:1])
        return
    between = {"each": _every, "smooth": _interpolated, "lines": _straight}[way](made, one.sizes)
    length = max(1, _BLOCK // (one.n_relevant * (one.n_negatives + 1)))
    for start in range(0, one.sizes.size, length):
        sizes = one.sizes[start : start + length]
        part = slice(*np.searchsorted(one.size, [start, start + length]).tolist())
        yield part, one.size[part] - start, between(sizes)


def _every(made: _Between, sizes: IntArray) -> _Between:
    return made


def _interpolated(made: _Between, sizes: IntArray) -> _Between:
    """Values at any of the sizes by a polynomial in the logarithm of the size.

    Its nodes, Chebyshev's rounded to whole numbers, are doubled until it is right at three sizes
    in between; where that takes as many nodes as there are sizes, nothing is interpolated.
    """
    count = 12
    test = sizes[np.linspace(0, sizes.size - 1, 5).round().astype(int)[1:4]]
    low, high = np.log(sizes[[0, -1]])
    wanted: FloatArray | None = None
    while 2 * count < sizes.size:
        wanted = made(test) if wanted is None else wanted
        points = 0.5 * (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count))
        nodes = np.unique(np.round(np.exp(low + points * (high - low))).astype(np.int64))
        polynomial = _polynomial(np.log(nodes), made(nodes))
        error = np.abs(polynomial(np.log(test)) - wanted).max()
        if error <= _TOLERANCE * np.abs(wanted).max():
            return lambda at: polynomial(np.log(at))
        count *= 2
    return made


def _polynomial(nodes: FloatArray, values: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """The polynomial through values at nodes, by the barycentric formula (berrut2004)."""
    gaps = 4.0 * np.subtract.outer(nodes, nodes) / (nodes[-1] - nodes[0])
    np.fill_diagonal(gaps, 1.0)
    weights = 1.0 / gaps.prod(axis=1)

    def at(points: FloatArray) -> FloatArray:
        away = np.subtract.outer(points, nodes)
        hit = away == 0
        shares = np.where(hit, 1.0, weights / np.where(hit, 1.0, away))
        shares[hit.any(axis=1)] = hit[hit.any(axis=1)]
        shares /= shares.sum(axis=1, keepdims=True)
        return np.tensordot(shares, values, 1)

    return at


def _straight(made: _Between, sizes: IntArray) -> _Between:
    """Values at any of the sizes by straight lines in the logarithm of the size.

    Of many nearly equal solutions the monotone correction is one or another, from size to size;
    what lies between two of them is monotone too, and as nearly right.
    """
    if sizes.size <= _MONOTONE_SIZES:
        return made
    low, high = np.log(sizes[[0, -1]])
    points = np.linspace(low, high, _MONOTONE_SIZES)
    nodes = np.unique(np.round(np.exp(points)).astype(np.int64))
    values, logs = made(nodes), np.log(nodes)

    def between(at: IntArray) -> FloatArray:
        x = np.log(at)
        left = np.clip(np.searchsorted(logs, x, side="right") - 1, 0, nodes.size - 2)
        share = ((x - logs[left]) / (logs[left + 1] - logs[left]))[:, np.newaxis, np.newaxis]
        return np.asarray((1.0 - share) * values[left] + share * values[left + 1])

    return between


@lru_cache(maxsize=1 << 12)
def _among_ties(tied: int, place: int, many: int) -> FloatArray:
    """Distribution of tied negatives above the `place`-th best of `many` tied relevant items."""
    above = np.arange(tied + 1)

    def log_ways(n: IntArray | int, k: IntArray | int) -> FloatArray:
        left = np.subtract(n, k)
        return np.asarray(gammaln(np.add(n, 1)) - gammaln(np.add(k, 1)) - gammaln(left + 1))

    before = log_ways(above + place - 1, above)
    after = log_ways(tied - above + many - place, tied - above)
    found = np.asarray(np.exp(before + after - log_ways(tied + many, tied)))
    found.setflags(write=False)  # it is kept
    return found


def _is_exact(values: FloatArray, of: Metric, protocol: Protocol) -> bool:
    """Whether a metric's values for the sampled ranks are it in expectation, at all true ranks.

    The expectation is a polynomial in the rank, of degree m: it is looked at where two
    of these that differ do so, at both ends, and where the metric has a jump.
    """
    pool, relevant, m = int(protocol.pool), protocol.n_relevant, protocol.n_negatives
    angles = np.linspace(0.0, np.pi, int(4 * np.pi * np.sqrt(m)) + 2)
    jump = np.clip([(of.k or 1) - 1, of.k or 1], 0, pool)
    above = np.unique(np.append(np.round(0.5 * pool * (1.0 - np.cos(angles))), jump))
    above = above.astype(np.int64)
    found = values @ law(m, above, pool, protocol.replacement).T
    j = np.arange(1, relevant + 1)[:, np.newaxis]
    exact = of.term(above + j, j, relevant, protocol.n_items)
    return bool(np.abs(found - exact).max() < _UNBIASED)


def _student(found: _Found, level: float) -> tuple[float, float, float, float]:
    """Standard error of a mean over users, Student's interval and two-sided p-value against 0."""
    users, value, error = found.users, found.value, found.error
    reach = float(stdtrit(users - 1, 0.5 + level / 2)) * error
    if error == 0:
        return error, value, value, float(value == 0)
    p = 2.0 * float(stdtr(users - 1, -abs(value) / error))
    return error, value - reach, value + reach, p


def _difference(first: float, second: float) -> Any:
    """First less second, and exactly 0 where they differ by rounding."""
    return _rounded(np.subtract(first, second), max(abs(first), abs(second)))[()]


def _rounded(values: Any, scale: float) -> Any:
    """The values, and exactly 0 where they are rounding of values so large."""
    return np.where(np.abs(values) <= _ROUNDING * scale, 0.0, values)


def _verdict(sign: int, first: str, second: str) -> str:
    if sign == 0:
        return UNKNOWN
    better, worse = (first, second) if sign > 0 else (second, first)
    return f"{better} beats {worse}"


def _same_users(sample: _Sample) -> None:
    """Refuse a log whose recommenders cannot be compared user by user."""
    if len(sample.names) < 2:
        raise ValueError(
            f"recommenders must be 2 or more to be compared, got {', '.join(sample.names)} only"
        )
    if not sample.log.paired:
        raise ValueError(
            "recommenders of a log with a column count are compared if the same users can be told: "
            "add a column user, one value for all rows of the users that a count is of"
        )
    first, *others = sample.names
    for number, name in enumerate(others, start=1):
        apart, label = sample.log.difference(0, number)
        if apart:
            raise ValueError(
                f"recommenders must have the same users to be compared, but {first} and {name} "
                f"differ in {apart}, such as {label}"
            )


def _metrics(given: Sequence[str | Metric]) -> list[Metric]:
    if isinstance(given, (str, Metric)):
        given = [given]
    wanted = dict.fromkeys(of if isinstance(of, Metric) else parsed(of) for of in given)
    if not wanted:
        raise ValueError("metrics must hold one metric or more, got none")
    return list(wanted)


def _assumed_of(given: Assumption | str | None, sample: _Sample, of: Metric) -> Assumption | None:
    """What is assumed of the first true ranks; nothing of other relevant items than the best."""
    assumption, best_alone = _assumption(given), of.best_only
    return assumption if best_alone or int(sample.relevant.max()) <= 1 else None


def _assumption(given: Assumption | str | None) -> Assumption | None:
    if not (given is None or isinstance(given, Assumption) or given == "decreasing"):
        raise ValueError(
            f"assumption must be an Assumption, 'decreasing' or None, got {as_written(given)}"
        )
    return Assumption() if given == "decreasing" else given  # type: ignore[return-value]


def _said(assumption: Assumption | None) -> str:
    return "nothing" if assumption is None else f"that {assumption}"


def _estimators(given: Sequence[str] | str, sample: _Sample) -> list[str]:
    """The estimators asked for, or all that the sample allows and that have an interval."""
    unfit = _unfit(sample)
    if given == "all":
        return [name for name in ESTIMATORS[:-1] if not unfit or name not in FITTED]
    names = list(dict.fromkeys([given] if isinstance(given, str) else given))
    for name in names:
        if name not in ESTIMATORS:
            near = difflib.get_close_matches(str(name), ESTIMATORS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(ESTIMATORS)}"
            raise ValueError(f"estimator {as_written(name)} is unknown: {hint}")
        if name in FITTED and unfit:
            raise ValueError(f"estimator {name!r} does not fit this log: {unfit}")
    if not names:
        raise ValueError("estimators must hold one name or more, got none")
    return names


def _unfit(sample: _Sample) -> str:
    """Why no distribution of true ranks can be fitted to a log, or nothing."""
    mean, most = sample.mean_items, int(sample.negatives.max())
    if int(sample.items.max()) > MOST_ITEMS:
        return (
            f"a user has {int(sample.items.max()):,} items, and a fit is of {MOST_ITEMS:,} at most"
        )
    if not sample.replacement and most >= mean:
        return f"a user has {most:,} negatives, and a fit is for the mean of n_items, {mean:,}"
    return ""


def _notes(given: Sequence[str] | str, sample: _Sample, names: Sequence[str]) -> list[str]:
    """What is left out of a table, or out of a fit, and why."""
    notes, unfit = [], _unfit(sample)
    if given == "all" and unfit:
        notes.append(f"{FITTED[0]}, and {FITTED[1]}, are left out: {unfit}")
    fewest, most = int(sample.negatives.min()), int(sample.negatives.max())
    if fewest < most and set(names) & set(FITTED):
        notes.append(
            f"users have {fewest:,} to {most:,} negatives: priors are fitted to {fewest:,} of each"
        )
    if FITTED[2] in names:
        notes.append(f"{FITTED[2]} has no standard error: from sample to sample its estimate jumps")
    return notes


def _gamma(given: float | None, sample: _Sample) -> float:
    if given is None:
        return corrections.default_gamma(max(sample.users.values()))
    if not isinstance(given, numbers.Real) or not 0 < given < np.inf:
        raise ValueError(f"gamma must be a finite number > 0, got {as_written(given)}")
    return float(given)


def _confidence(given: float) -> float:
    if not isinstance(given, numbers.Real) or not 0 < given < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {as_written(given)}")
    return float(given)

"""The verb plan: how large an evaluation has to be.

It starts from distributions of true ranks, which are fitted to a log or given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from .. import _progress
from .._confidence import CONFIDENCE
from .._threads import one_thread
from .._validate import as_written, integer
from ..designs.options import opened
from ..log.compact import Log
from ..log.sub_corpus import SubCorpus
from ..metrics import Metric
from ..metrics import metric as parsed
from ..numerics.distributions import spread_ties
from ..protocol import Adaptive, Design, Protocol, thinned
from ..results import Plan, source_of
from .pairs import ESTIMATORS, Population, for_all, rank_grid
from .races import rebinned

#: A log, or a source that :func:`~sampled_metrics.read_log` reads.
LogSource = Log | str | Path | Sequence[str | Path] | pd.DataFrame


@one_thread
def plan(
    data: LogSource | Mapping[str, Population],
    metric: Metric | str,
    protocol: Protocol | None = None,
    n_users: int | None = None,
    *,
    replacement: bool | None = None,
    n_items: int | None = None,
    estimators: str | Sequence[str] = ESTIMATORS,
    confidence: float = CONFIDENCE,
    max_negatives: int | None = None,
    budget: int | None = None,
    sequential: bool | int = False,
    progress: bool = False,
) -> Plan:
    """Find how many negatives or users give the right verdict with probability `confidence`.

    The plan is for each pair of recommenders. It starts from the distributions of their true ranks:
    given, or fitted to a log. The fit is the most even distribution that agrees with the log
    (:func:`~sampled_metrics.priors.maximum_entropy`). Very different true ranks can lead to nearly
    the same log, so the plan may be far off: the identification interval of
    :func:`~sampled_metrics.estimate` shows how much the log leaves open.

    Parameters
    ----------
    data : Log, what read_log takes, or mapping of str to population
        A :class:`~sampled_metrics.Log`, or a source that :func:`~sampled_metrics.read_log` can read
        with `replacement` alone, with two recommenders or more and one relevant item for each user.
        Or the names of two recommenders or more, each with its population, which is one of

        - a mapping from true ranks in 1..n_items to their probabilities (int to float);
        - an array of true ranks, shape (known users,), with the same users in the same order for
          all recommenders: the planned users are drawn from them, as for
          :func:`~sampled_metrics.verdicts.verdict`;
        - exact ranks of the same users for all recommenders:
          :class:`~sampled_metrics.RankIntervals`, or for several relevant items
          :class:`~sampled_metrics.RelevantSets` (a list of them if users differ in the number of
          items). The planned users are drawn from these users, each with its own candidates; the
          average is approximated as normal, with exact mean and variance.
    metric : Metric or str
    protocol : Protocol
        For populations: how the evaluation samples; one catalogue size, `n_relevant` = 1. Its
        `n_negatives` is used where only the number of users varies. With RelevantSets, the sets
        give the number of relevant items. Leave it out with a log, which gives the negatives: the
        smallest number of a user or, for an adaptive design, the mean.
    n_users : int
        Users of the planned evaluation, at least 1; by default those of the log. Needed for
        populations.
    replacement : bool
        As for :func:`~sampled_metrics.read_log`; not needed for a `Log`.
    n_items : int, optional
        With a log: candidates of each user in the planned evaluation; by default the mean of the
        log. In a catalogue of another size, the share of candidates above each user's item stays
        the same.
    estimators : str or sequence of str
        Names such as "naive" or "bias-variance"; by default `ESTIMATORS`.
    confidence : float
        Probability of the right verdict to reach, in [0.5, 1).
    max_negatives : int, optional
        Most negatives to consider; by default 1,000 (100 for several relevant items), or all of a
        user's candidates if they are fewer. The time of a correction grows with its cube.
    budget : int, optional
        Scores that may be computed for one recommender, at least 1. The plan then divides them
        into users and negatives.
    sequential : bool or int
        Whether to add a row for :func:`~sampled_metrics.race`. All pairs share the error of the
        race; give their number if it will have others.
    progress : bool
        Show progress bars on the error stream.

    Returns
    -------
    Plan
        Its frame has, for each pair of recommenders with different averages, a row for each
        estimator, one named ``race`` if `sequential`, and a last one, ``exact``, for ranking all
        items. Its columns:

        - *first*, *second*: the two recommenders
        - *estimator*
        - *probability* of the right verdict with `n_users` and the protocol
        - *ties*: probability that the two averages are equal, which is no verdict
        - *negatives_needed* with `n_users`: the fewest from which on `confidence` is kept up to
          `max_negatives`; NA if there is no such number. It is found among 1, 2, 5, 10, ..., and
          then refined within the last step.
        - *scores_by_negatives*: scores for one recommender with these negatives: users times
          (negatives + 1); in the row ``exact``, users times `n_items`
        - *users_needed* with the protocol; NA if the expected order is wrong, since more users then
          only make the wrong verdict more certain, or above 10**12. For bias-variance gamma
          depends on the number of users; the search is then that for negatives.
        - *scores_by_users*: the scores with these users
        - *best_negatives*, *best_users*, *best_probability*, with a `budget`: its best division
          among 1, 2, 5, 10, ... negatives, and the probability of the right verdict

        Counts above 2**62 are NA.

        In the row ``race``, *users_needed* is the number of users, out of `n_users`, after which
        the race is expected to reach its verdict, and *scores_by_users* the scores for one
        recommender until then, averaged over the two; the other columns are NA. With probability
        at least `confidence`, the verdict is the order of the exact metrics over all `n_users`.
        Both numbers are approximations: they assume that the log wealth of each bet grows at its
        expected rate and, for distributions, that a user's two ranks are independent. Most often
        these are positively correlated, and the race is shorter.

        Its `designs` are, for each pair, the cheapest evaluations of each kind that reach
        `confidence` with up to `n_users` users, the cheapest first; NA where none does:

        - *design*: ``fixed``, the same number of negatives for each user; ``adaptive``, see
          :class:`~sampled_metrics.Adaptive`, with 10, 20 or 50 negatives first and up to
          16 times as many (only for distributions); or ``full ranking``
        - *estimator*: the cheapest of `estimators`, ``bias-variance``, or ``exact``, with gamma
          for `n_users`
        - *negatives*, *most*: a user's first and largest number of negatives
        - *users*, *scores*: users needed, and scores for one recommender (expected, averaged over
          the two, if adaptive). For two arrays of ranks, the average of an adaptive design is
          approximated as normal.

        Its `limits` hold for every method, including :func:`~sampled_metrics.compare`, that names
        the wrong winner in at most 5% of evaluations, whatever the true ranks are. With
        *negatives*, and *users* drawn separately for each recommender, such a method names the
        better one in at most *most_decided* of the evaluations under the *assumption*. With common
        users it may do better. Guessing reaches 5%. Empty for exact ranks of users and for
        more than a million candidates.

    Raises
    ------
    ValueError
        If the log is invalid, has users with several relevant items or has weighted negatives; if
        populations lack `protocol` or `n_users`, or come with `n_items` or `replacement`, or a log
        with `protocol`; if there are fewer than two recommenders or no two with different
        averages; as :func:`~sampled_metrics.verdicts.verdict`; or if an estimator is unknown or a
        number out of range.

    Warns
    -----
    UserWarning
        If two recommenders have equal averages: they have no order to plan for.

    See Also
    --------
    sampled_metrics.compare : The verdict that a log allows now.
    sampled_metrics.race : An evaluation that stops as soon as the order is decided.
    sampled_metrics.verdicts.verdict : The verdict of one evaluation.

    Examples
    --------
    How many users does AUC need with one negative each to tell the recommenders of a log apart?

    >>> result = plan("bundled", "auc", estimators="naive", max_negatives=1)
    >>> result.frame[["first", "second", "estimator", "users_needed"]].head(2)
      first second estimator  users_needed
    0     X      Y     naive            99
    1     X      Y     exact            96

    Before there is a log: the better recommender ranks 30% of the items second, the other one ranks
    60% of them 30th. Would 50 users with 100 negatives each be enough?

    >>> populations = {"A": {2: 0.3, 500: 0.7}, "B": {30: 0.6, 500: 0.4}}
    >>> result = plan(populations, "ndcg@10", Protocol(1_000, 100), n_users=50)
    >>> result.frame[["estimator", "probability", "negatives_needed", "users_needed"]].round(2)
           estimator  probability  negatives_needed  users_needed
    0          naive         0.48               244          <NA>
    1  rank estimate         1.00                49            14
    2       monotone         1.00                49            14
    3  bias-variance         1.00                33             8
    4          exact         1.00              <NA>             9

    A budget of 2,000 scores is best spent on 19 users with 100 negatives each:

    >>> options = {"estimators": "rank estimate", "budget": 2_000}
    >>> result = plan(populations, "ndcg@10", Protocol(1_000, 20), 50, **options)
    >>> result.frame[["estimator", "best_negatives", "best_users", "best_probability"]].round(3)
           estimator  best_negatives  best_users  best_probability
    0  rank estimate             100          19             0.979
    1          exact            <NA>           2              0.51

    The cheapest evaluations that are right 95 times in 100:

    >>> result.designs.drop(columns=["first", "second"])
             design      estimator  negatives  most  users  scores
    0      adaptive  bias-variance         10   160      5     220
    1         fixed  rank estimate        100   100     14    1414
    2  full ranking          exact        999   999      9    9000
    """
    inputs = _Inputs.of(data, metric, protocol, n_users, replacement, n_items, progress)
    planned = for_all(
        inputs.populations,
        inputs.metric,
        inputs.protocol,
        inputs.n_users,
        estimators=estimators,
        confidence=confidence,
        max_negatives=max_negatives,
        budget=budget,
        sequential=sequential,
        progress=progress,
    )
    source = inputs.source | {
        "metric": inputs.metric.label,
        "planned": f"{inputs.n_users:,} users, {planned.settings['n_items']:,} items, "
        f"{inputs.protocol.n_negatives:,} negatives",
        "confidence": f"{confidence:g}",
    }
    return replace(planned, notes=inputs.notes, source=source)


@dataclass(frozen=True)
class _Inputs:
    """The populations and sizes that a plan starts from."""

    populations: Mapping[str, Population]
    metric: Metric
    protocol: Protocol
    n_users: int
    notes: tuple[str, ...] = ()
    source: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        data: LogSource | Mapping[str, Population],
        metric: Metric | str,
        protocol: Protocol | None,
        n_users: int | None,
        replacement: bool | None,
        n_items: int | None,
        progress: bool,
    ) -> _Inputs:
        parsed_metric = parsed(metric)
        if not isinstance(data, Mapping):
            if protocol is not None:
                raise ValueError(
                    "protocol must be left out with a log, which states its own, got "
                    f"{protocol}: for another catalogue give n_items"
                )
            log = opened(data, replacement)
            if isinstance(log, SubCorpus):
                raise ValueError("a sub-corpus has no plan: only estimate and compare take one")
            return cls._of_log(log, parsed_metric, n_users, n_items, progress)
        for name in data:
            if not isinstance(name, str):
                raise ValueError(
                    "data must map the names of recommenders to their true ranks, as in "
                    f"{{'A': first, 'B': second}}, got the name {as_written(name)}"
                )
        for option, value in (("n_items", n_items), ("replacement", replacement)):
            if value is not None:
                raise ValueError(
                    f"{option} must be left out with populations, got {as_written(value)}: the "
                    "protocol gives it"
                )
        if protocol is None or n_users is None:
            missing = "protocol" if protocol is None else "n_users"
            raise ValueError(f"{missing} must be given with populations, got None")
        return cls(data, parsed_metric, protocol, n_users)

    @classmethod
    def _of_log(
        cls, log: Log, metric: Metric, n_users: int | None, n_items: int | None, progress: bool
    ) -> _Inputs:
        rows = log.counts
        if n_items is None:
            n_items = round(float((rows["n_items"] * rows["count"]).sum() / rows["count"].sum()))
        n_negatives, largest = int(rows["n_negatives"].min()), int(rows["n_negatives"].max())
        notes: tuple[str, ...] = ()
        if n_negatives < largest:
            notes = (
                f"users have {n_negatives:,} to {largest:,} negatives: true ranks are fitted to "
                f"{n_negatives:,} of each, and the plan is for as many",
            )
        if isinstance(log.protocol, Adaptive):
            n_negatives = round(float(np.average(rows["n_negatives"], weights=rows["count"])))
            notes = (
                f"the plan is for {n_negatives:,} negatives, as many as the log has on average",
            )
        ranks = fitted(log, n_items, progress=progress)
        protocol = Protocol(n_items, n_negatives, replacement=log.replacement)
        users = log.n_users if n_users is None else n_users
        return cls(ranks, metric, protocol, users, notes, source_of(log))


def fitted(log: Log, n_items: int, *, progress: bool = False) -> dict[str, dict[int, float]]:
    """The maximum-entropy distribution of true ranks of each recommender of a log.

    It is moved to the ranks of :func:`~sampled_metrics.planning.rank_grid` without changing its
    mean (linear binning). If users differ in the number of negatives, the fit is for the smallest
    number: a random subset of a user's negatives is a sample, too. Outcomes of an adaptive design
    are fitted as they are.
    """
    from .. import priors  # its solvers take long to import, and no other function needs them

    if not log.protocol.uniform:
        raise ValueError(f"the log must have negatives that are drawn alike here, got {log!r}")
    rows = log.counts
    if (rows["n_relevant"] > 1).any():
        raise ValueError(
            "a fit needs one relevant item for each user, and this log has users with "
            f"{int(rows['n_relevant'].max())}: give plan the RelevantSets of an exact evaluation"
        )
    design = log.protocol
    if isinstance(design, Adaptive):
        outcomes = design.places(rows["n_negatives"], rows["n_better"])
        rows = rows.assign(n_better=outcomes, n_negatives=design.most)
    negatives = int(rows["n_negatives"].min())
    min_items = 2 if log.replacement else negatives + 1
    n_items = integer(n_items, "n_items", min_items)
    protocol: Design = Protocol(n_items, negatives, replacement=log.replacement)
    if isinstance(design, Adaptive):
        protocol = replace(design, n_items=n_items)
    distributions, grid = {}, rank_grid(n_items)
    for name in _progress.bar(log.recommenders, desc="fit", unit="recommender", show=progress):
        counts = np.zeros(negatives + 1)
        recommender_rows = rows[rows["recommender"] == name]
        for m in recommender_rows["n_negatives"].unique().tolist():
            size_rows = recommender_rows[recommender_rows["n_negatives"] == m]
            better, tied, users = (
                size_rows[column].to_numpy() for column in ("n_better", "n_tied", "count")
            )
            counts += spread_ties(better, tied, users, m + 1) @ thinned(m, negatives)
        mass = np.asarray(priors.maximum_entropy(counts, protocol).mass)
        binned_mass = rebinned(mass, np.arange(1, mass.size + 1), grid)
        distributions[name] = dict(zip(grid.tolist(), binned_mass.tolist(), strict=True))
    return distributions

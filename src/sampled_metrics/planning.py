"""How large a sampled evaluation has to be before its verdict on two recommenders can be trusted.

A plan starts from two distributions of true ranks: those of recommenders that were ranked exactly
before, or those fitted to a sampled log. Users are drawn from them, and negatives for each user. A
verdict is right if it is the order of the exact metric averaged over the distributions. The exact
evaluation of a few users can be wrong as well, so it has a row of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from . import _progress
from . import estimators as corrections
from ._threads import one_thread
from ._validate import FloatArray, IntArray, integer, integers
from .adaptive import Adaptive, bias_variance
from .bounds import bets
from .bounds.assumption import Assumption, assumption_name
from .bounds.shortest import decidable
from .consistency import sign
from .differences import Differences
from .estimators import Estimator
from .log.compact import Log
from .metrics import Metric
from .metrics import metric as parsed
from .protocol import Protocol, by_negatives, one_size, thinned
from .protocol import steps as steps
from .ranking.intervals import RankIntervals
from .relevant_sets import RelevantSets
from .results import Plan
from .verdicts import Ranks, Verdict, _Pair, negatives_needed

#: What is known of a recommender: a distribution of true ranks, or the same users' exact ranks.
Known = Ranks | RankIntervals | RelevantSets | Sequence[RelevantSets]

#: What a plan compares if nothing is named. Gamma of bias-variance is that of
#: :func:`~sampled_metrics.estimators.default_gamma`, as in
#: :func:`~sampled_metrics.evaluation.estimate`.
ESTIMATORS = ("naive", "rank estimate", "monotone", "bias-variance")

#: The estimators that depend on the number of users.
_BY_USERS = {"bias-variance"}

#: Users of a plan, and counts that its tables show, at most.
_MOST_USERS, _MOST_COUNT = 10**12, 2**62

#: The confidence of verdicts in the limits, and the most candidates that these are computed for.
_PROVED, _MOST_RANKS = 0.95, 10**6

#: Row names of the evaluations with exact metrics: a race, which stops early, and a full ranking.
RACE, EXACT = "race", "exact"

#: Negatives of the first round of the adaptive designs that are tried, and how many times as many
#: a user has at most.
_FIRST, _TIMES = (10, 20, 50), 16


@one_thread
def plan(
    first: Known,
    second: Known,
    metric: Metric | str,
    protocol: Protocol,
    n_users: int,
    *,
    estimators: str | Sequence[str] = ESTIMATORS,
    confidence: float = 0.95,
    max_negatives: int | None = None,
    budget: int | None = None,
    sequential: bool | int = False,
    progress: bool = False,
) -> Plan:
    """How many negatives, or how many users, until the verdict on two recommenders is right.

    Parameters
    ----------
    first, second : array_like of int, or mapping of int to float
        Distributions of true ranks in 1..n_items, as for
        :func:`~sampled_metrics.verdicts.verdict`. Or what an exact evaluation of the same users
        found for both: :class:`~sampled_metrics.ranking.intervals.RankIntervals`, or for several
        relevant items :class:`~sampled_metrics.relevant_sets.RelevantSets`, one or a list of them
        for users with different numbers of items. Users are then drawn from these at random, each
        with its own candidates; expectations and variances are exact, and the average is taken to
        be normal.
    metric : Metric or str
    protocol : Protocol
        How the evaluation samples, and what corrections are made for; one catalogue size. Its
        `n_negatives` are what the evaluation has if only users are added. Its `n_relevant` must
        be 1, and gives way to that of sets.
    n_users : int
        Users of the evaluation, at least 1.
    estimators : str or sequence of str
        Names of :func:`~sampled_metrics.estimators.by_name`; those in `ESTIMATORS` if omitted.
    confidence : float
        Probability of the right verdict to reach, in [0.5, 1).
    max_negatives : int, optional
        Most negatives to consider; by default 1,000, or 100 for sets, or all of a user's
        candidates if they are fewer. The time that a correction takes grows with the cube of this
        number.
    budget : int, optional
        Scores that may be computed for one recommender, at least 1: who pays for each of them, as
        for the calls of a language model, has many users with few candidates or few users with
        many.
    sequential : bool or int
        Whether to add a row with the users and scores that
        :func:`~sampled_metrics.sequential.race` is expected to need. If the race has several pairs,
        give their number: they share the error, so each pair needs more users. True means 1.
    progress : bool
        Show a progress bar on the error stream.

    Returns
    -------
    Plan
        Its frame has a row for each estimator, one named ``race`` if `sequential`, and a last one,
        ``exact``, for ranking all items. Its columns:

        - *estimator*
        - *probability* of the right verdict with `n_users` and the protocol
        - *ties*: probability that the two are level, which is no verdict
        - *negatives_needed* with `n_users`: the fewest from which on `confidence` is kept up to
          `max_negatives`; NA if it is not reached. The numbers 1, 2, 5, 10, ... are tried, and the
          last step is refined.
        - *scores_by_negatives*: scores to compute for one recommender with these negatives, which
          is users times (negatives + 1), or users times `n_items` in the row ``exact``
        - *users_needed* with the protocol; NA if the expected order is wrong, so that more users
          only make the wrong order more certain, or if 10**12 are not enough. Gamma of
          bias-variance falls with the users; for it, these are the fewest from which on
          `confidence` is kept, found in the same way.
        - *scores_by_users*: the same with these users
        - *best_negatives*, *best_users*, *best_probability*, with a `budget`: how it is best
          divided, of 1, 2, 5, 10, ... negatives, and how often the verdict is then right

        Counts above 2**62 are NA.

        In the row ``race``, *users_needed* is the number of users, out of `n_users`, after which
        the race is expected to reach its verdict. *scores_by_users* is the number of scores for one
        recommender until then, averaged over the two. The other columns are NA. With probability
        at least `confidence`, the verdict is the order of the exact metrics over all `n_users`.
        Both numbers are approximations: they assume that the log wealth of each bet grows at its
        expected rate. If `first` and `second` are distributions, they also assume that a user's two
        ranks are independent. Most often these are positively correlated, and the race is shorter.

        Its `designs` are the cheapest evaluations of each kind that reach `confidence` with up to
        `n_users` users, the cheapest first:

        - *design*: ``fixed``, the same number of negatives for each user; ``adaptive``, see
          :class:`~sampled_metrics.adaptive.Adaptive`, of 10, 20 or 50 negatives and up to 16 times
          as many; or ``full ranking``
        - *estimator*: the one of `estimators` with which a fixed number is the cheapest,
          ``bias-variance`` for an adaptive one, and ``exact``; gamma is that for `n_users`
        - *negatives*, *most*: of a user at first and in the end at most
        - *users*, *scores*: how many are needed, and the scores for one recommender; the mean of
          the two where they depend on it. Of two arrays of ranks the average of an adaptive
          design is taken to be normal.

        All four are NA where no such evaluation was found. For sets there is no adaptive one.

        Its `limits` are about verdicts of :func:`~sampled_metrics.evaluation.compare`, and of every
        other method that names A in at most 5% of evaluations wherever A is not better. With so
        many *negatives*, and so many *users* of its own for each recommender, such a method names
        the better one in at most *most_decided* of the evaluations, under an *assumption* on the
        ranks. On common users it may do better. Guessing reaches 5%. Empty for several relevant
        items and for more than a million candidates.

    Raises
    ------
    ValueError
        As :func:`~sampled_metrics.verdicts.verdict`, or if an estimator is unknown or a number
        out of range.

    See Also
    --------
    curve : The probabilities at several numbers of negatives and users.
    for_all, for_pairs : A plan for each pair of several recommenders.
    fitted : Distributions of true ranks from a log.
    sampled_metrics.verdicts.verdict : The verdict of one evaluation.

    Examples
    --------
    >>> better, worse = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
    >>> found = plan(better, worse, "ndcg@10", Protocol(1_000, 100), n_users=50)
    >>> found.frame[["estimator", "probability", "negatives_needed", "users_needed"]].round(2)
           estimator  probability  negatives_needed  users_needed
    0          naive         0.48               244          <NA>
    1  rank estimate         1.00                49            14
    2       monotone         1.00                49            14
    3  bias-variance         1.00                33             8
    4          exact         1.00              <NA>             9

    Who can pay for 2,000 scores takes 19 users with 100 negatives each:

    >>> sample = Protocol(1_000, 20)
    >>> found = plan(better, worse, "ndcg@10", sample, 50, estimators="rank estimate", budget=2_000)
    >>> found.frame[["estimator", "best_negatives", "best_users", "best_probability"]].round(3)
           estimator  best_negatives  best_users  best_probability
    0  rank estimate             100          19             0.979
    1          exact            <NA>           2              0.51

    What is the cheapest evaluation that is right 95 times in 100?

    >>> found.designs
             design      estimator  negatives  most  users  scores
    0      adaptive  bias-variance         10   160      5     220
    1         fixed  rank estimate        100   100     14    1414
    2  full ranking          exact        999   999      9    9000
    """
    metric = parsed(metric)
    pair = _known(first, second, metric, protocol)
    users = integer(n_users, "n_users", 1, _MOST_USERS)
    several = isinstance(pair, _Sets) and pair.n_relevant > 1
    most = None if protocol.replacement else pair.pool
    drawn = protocol.n_negatives
    last = min(100 if several else 1_000, pair.pool) if max_negatives is None else max_negatives
    grid = steps(integer(last, "max_negatives", 1, most))
    names = _names(estimators)
    paid = None if budget is None else integer(budget, "budget", 1, _MOST_USERS)
    raced = (
        int(sequential) if isinstance(sequential, bool) else integer(sequential, "sequential", 1)
    )
    if raced and pair.difference == 0:
        raise ValueError("sequential must be False for two equal averages: they have no order")
    rows, splits = [], []
    judged = {name: _Judged(pair, name, protocol) for name in names}
    for name in _progress.bar(names, desc="plan", unit="estimator", show=progress):
        at = judged[name]
        now = at(drawn, users)
        fewest = _kept_from(partial(at, n_users=users), grid, confidence)
        rows.append((name, now, fewest, at.users_needed(now, drawn, confidence)))
        splits.append(_best_split(at, grid, paid, pair.n_relevant))
    full = pair.exact(users)
    rows.append((EXACT, full, None, full.users(confidence)))
    frame = _frame(rows, users, drawn, pair.n_items, pair.n_relevant)
    if raced:
        frame = _with_race(frame, *_raced(pair, users, (1.0 - confidence) / (2.0 * raced)))
        splits.append((None, None, None))
    if paid is not None:
        each = min(paid // pair.n_items, _MOST_USERS)
        splits.append((None, each or None, pair.exact(each).probability if each else None))
        counts = dict.fromkeys(("best_negatives", "best_users"), "Int64")
        best = pd.DataFrame(splits, columns=[*counts, "best_probability"])
        frame = frame.join(best.astype(counts | {"best_probability": "Float64"}))
    settings = {"metric": metric.name, "n_items": pair.n_items, "n_users": users}
    settings |= {"max_negatives": grid[-1], "confidence": confidence}
    cheapest = _cheapest(judged, grid, full, users, confidence)
    return Plan(frame, settings, designs=cheapest, limits=_limits(pair, protocol, users))


def _limits(pair: _Pair | _Sets, protocol: Protocol, n_users: int) -> pd.DataFrame:
    """How often any proved verdict can decide a pair, by what is assumed of the ranks."""
    rows = []
    if isinstance(pair, _Pair) and pair.n_items <= _MOST_RANKS and pair.difference != 0:
        masses = [
            np.asarray(np.bincount(ranks - 1, mass, pair.n_items), dtype=float)
            for ranks, mass in zip(pair.ranks, pair.masses, strict=True)
        ]
        better, worse = masses if pair.difference > 0 else masses[::-1]
        kinds = np.array([[protocol.n_negatives, 1, 1, pair.n_items]])
        parts = bets.partition(kinds, np.ones(1), pair.metric, protocol.replacement)
        for assumption in (None, Assumption()) if parts.parts else ():
            found = decidable(parts, assumption, _PROVED, better, worse, float(n_users))
            rows.append((assumption_name(assumption), protocol.n_negatives, n_users, found))
    return pd.DataFrame(rows, columns=["assumption", "negatives", "users", "most_decided"])


def curve(
    first: Known,
    second: Known,
    metric: Metric | str,
    protocol: Protocol | Sequence[Protocol],
    n_users: ArrayLike,
    *,
    estimators: str | Sequence[str] = ESTIMATORS,
    progress: bool = False,
) -> pd.DataFrame:
    """Probability of the right verdict by the numbers of negatives and of users.

    Parameters
    ----------
    first, second, metric, estimators, progress
        As for :func:`plan`.
    protocol : Protocol or sequence of Protocol
        One for each number of negatives; they must not differ in anything else.
    n_users : int or array_like of int
        Numbers of users. Every one is judged with every protocol.

    Returns
    -------
    pandas.DataFrame
        Columns estimator, n_negatives (NA for ``exact``), n_users, probability, ties and scores
        (to compute for one recommender).

    Raises
    ------
    ValueError
        As :func:`plan`.

    See Also
    --------
    plan : How many negatives or users are needed.

    Examples
    --------
    >>> better, worse = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
    >>> samples = [Protocol(1_000, m) for m in (10, 100)]
    >>> curve(better, worse, "ap", samples, n_users=50, estimators=["naive"]).round(3)
      estimator  n_negatives  n_users  probability  ties  scores
    0     naive           10       50        0.015   0.0     550
    1     naive          100       50        0.924   0.0    5050
    2     exact         <NA>       50        1.000   0.0   50000
    """
    metric = parsed(metric)
    protocols = by_negatives(protocol)
    pair = _known(first, second, metric, protocols[0])
    users = np.unique(integers(n_users, "n_users", 1, _MOST_USERS)).tolist()
    negatives = [each.n_negatives for each in protocols]
    rows: list[tuple[str, int | None, int, float, float, int]] = []
    for name in _progress.bar(_names(estimators), desc="curve", unit="estimator", show=progress):
        at = _Judged(pair, name, protocols[0])
        for u, m in product(users, negatives):
            found = at(m, u)
            scores = round(u * (m + pair.n_relevant))
            rows.append((name, m, u, found.probability, found.ties, scores))
    for u in users:
        found = pair.exact(u)
        rows.append((EXACT, None, u, found.probability, found.ties, u * pair.n_items))
    if max(row[-1] for row in rows) > _MOST_COUNT:
        raise ValueError(f"n_users * n_items and n_users * n_negatives must be <= {_MOST_COUNT}")
    columns = ["estimator", "n_negatives", "n_users", "probability", "ties", "scores"]
    return pd.DataFrame(rows, columns=columns).astype({"n_negatives": "Int64"})


def around(n_users: int) -> list[int]:
    """Numbers of users from a tenth to ten times as many, at least 1.

    See Also
    --------
    steps : Numbers of negatives.

    Examples
    --------
    >>> around(30)
    [3, 6, 15, 30, 60, 150, 300]
    """
    factors = (0.1, 0.2, 0.5, 1, 2, 5, 10)
    return sorted({max(1, round(factor * n_users)) for factor in factors})


def fitted(log: Log, n_items: int, *, progress: bool = False) -> dict[str, dict[int, float]]:
    """Fit to each recommender of a log the most even distribution of true ranks.

    This is the fit of :func:`~sampled_metrics.priors.maximum_entropy`, moved to fewer ranks: all
    of 1 to 100, and further on ranks 2% apart. The probability of a rank in between is divided
    between its two neighbours so that the mean rank stays. In a catalogue of another size, the
    share of candidates above each user's item stays as it is in the log. A log cannot tell true
    ranks apart that lead to nearly the same sampled ranks: see
    :mod:`sampled_metrics.bounds.identification`.

    Parameters
    ----------
    log : Log
        From :func:`~sampled_metrics.log.read.read_log`; one relevant item for each user. Where
        users differ in the number of negatives, the fit is for the smallest such number: a random
        subset of a user's negatives is a sample, too.
    n_items : int
        Candidates in the planned catalogue; more than the log's negatives.
    progress : bool
        Show a progress bar on the error stream.

    Returns
    -------
    dict of str to dict of int to float
        For each recommender the probabilities of ranks in 1..n_items.

    Raises
    ------
    ValueError
        If a user has several relevant items, or there are not enough items.

    See Also
    --------
    sampled_metrics.priors.maximum_entropy : The fit itself.
    plan : What to do with the distributions.

    Examples
    --------
    >>> from .io.logs import read_log
    >>> rows = pd.DataFrame({"user": [1, 2, 3, 4], "rank": [1, 1, 1, 5]})
    >>> found = fitted(read_log(rows, n_items=50, n_negatives=4, replacement=True), 101)
    >>> len(found["recommender"]), round(sum(found["recommender"].values()), 9)
    (101, 1.0)
    """
    from . import priors  # no other function here needs its solvers

    if log.weighted:
        raise ValueError(f"the log must have negatives that are drawn alike here, got {log!r}")
    rows = log.counts
    if (rows["n_relevant"] > 1).any():
        raise ValueError(
            "a fit needs one relevant item for each user, and this log has users with "
            f"{int(rows['n_relevant'].max())}: give plan the RelevantSets of an exact evaluation"
        )
    negatives = int(rows["n_negatives"].min())
    least = 2 if log.replacement else negatives + 1
    protocol = Protocol(integer(n_items, "n_items", least), negatives, replacement=log.replacement)
    found, grid = {}, _grid(n_items)
    for name in _progress.bar(log.recommenders, desc="fit", unit="recommender", show=progress):
        counts = np.zeros(negatives + 1)
        own = rows[rows["recommender"] == name]
        for m in own["n_negatives"].unique().tolist():
            counts += _counts(own[own["n_negatives"] == m], m) @ thinned(m, negatives)
        mass = np.asarray(priors.maximum_entropy(counts, protocol).mass)
        found[name] = dict(zip(grid.tolist(), _condensed(mass, grid).tolist(), strict=True))
    return found


def _counts(rows: pd.DataFrame, m: int) -> FloatArray:
    """Users with 0, 1, ..., m negatives above their item, averaged over the order of ties."""
    above, tied = rows["n_better"].to_numpy(), rows["n_tied"].to_numpy()
    each = rows["count"].to_numpy() / (tied + 1.0)
    changes = np.zeros(m + 2)
    np.add.at(changes, above, each)
    np.add.at(changes, above + tied + 1, -each)
    return np.asarray(np.maximum(np.cumsum(changes)[:-1], 0.0))


def _grid(n_items: int) -> IntArray:
    """Ranks that are enough for a smooth distribution: all of the first, then fewer and fewer."""
    far = max(n_items, 101)
    points = np.geomspace(100, far, 2 + int(50 * np.log(far / 100)))
    near = np.concatenate([np.arange(1, 101), points.round().astype(np.int64), [n_items]])
    return np.unique(near[near <= n_items])


def _condensed(mass: FloatArray, grid: IntArray) -> FloatArray:
    """Masses of the ranks 1, 2, ... moved to those of the grid; sum and mean stay as they are."""
    ranks = np.arange(1, mass.size + 1)
    left = np.minimum(np.searchsorted(grid, ranks, side="right") - 1, grid.size - 2)
    share = (ranks - grid[left]) / (grid[left + 1] - grid[left])
    lower = np.bincount(left, mass * (1 - share), minlength=grid.size)
    return np.asarray(lower + np.bincount(left + 1, mass * share, minlength=grid.size))


@one_thread
def for_pairs(
    of: Callable[..., pd.DataFrame | Plan],
    ranks: Mapping[str, Known],
    metric: Metric | str,
    protocol: Protocol | Sequence[Protocol],
    *arguments: Any,
    **options: Any,
) -> pd.DataFrame:
    """Call :func:`plan` or :func:`curve` for each pair of recommenders.

    Parameters
    ----------
    of : callable
        One of the two.
    ranks : mapping of str to array_like of int, mapping of int to float, RankIntervals or sets
        Of each recommender, such as from :func:`fitted`.
    metric, protocol, *arguments, **options
        As for `of`.

    Returns
    -------
    pandas.DataFrame
        Columns first and second, the recommenders, before those of `of`.

    Raises
    ------
    ValueError
        If there are fewer than two recommenders or no two with different averages, and as `of`.

    Warns
    -----
    UserWarning
        If the exact averages of two recommenders are equal: they have no order to plan for.

    See Also
    --------
    plan, curve : What is called for each pair.

    Examples
    --------
    >>> ranks = {"A": {1: 1.0}, "B": {9: 1.0}, "C": {2: 0.5, 70: 0.5}}
    >>> found = for_pairs(plan, ranks, "ap", Protocol(100, 10), 5, estimators=["naive"])
    >>> found[["first", "second", "estimator", "negatives_needed"]].head(3)
      first second estimator  negatives_needed
    0     A      B     naive                 8
    1     A      B     exact              <NA>
    2     A      C     naive                 2
    """
    tables = []
    for one, two, made in _of_pairs(of, ranks, metric, protocol, *arguments, **options):
        found = made.frame if isinstance(made, Plan) else made
        tables.append(_named(found, one, two))
    return pd.concat(tables, ignore_index=True)


@one_thread
def for_all(
    ranks: Mapping[str, Known],
    metric: Metric | str,
    protocol: Protocol,
    n_users: int,
    **options: Any,
) -> Plan:
    """A plan for each pair of recommenders, as one: tables and designs alike.

    Parameters
    ----------
    ranks : mapping of str to array_like of int, mapping of int to float, RankIntervals or sets
        Of each recommender, such as from :func:`fitted`.
    metric, protocol, n_users, **options
        As for :func:`plan`.

    Returns
    -------
    Plan
        Its tables have columns first and second, the recommenders, before those of :func:`plan`.

    Raises
    ------
    ValueError
        As :func:`for_pairs`.

    Warns
    -----
    UserWarning
        As :func:`for_pairs`.

    See Also
    --------
    for_pairs : The same for curves.

    Examples
    --------
    >>> ranks = {"A": {1: 1.0}, "B": {9: 1.0}, "C": {2: 0.5, 70: 0.5}}
    >>> found = for_all(ranks, "ap", Protocol(100, 10), 500, estimators=["naive"])
    >>> found.designs[["first", "second", "design", "users", "scores"]].head(3)
      first second        design  users  scores
    0     A      B         fixed      2      42
    1     A      B      adaptive      1      61
    2     A      B  full ranking      1     100
    """
    frames, designs, limits = [], [], []
    if options.get("sequential") is True:
        options["sequential"] = len(ranks) * (len(ranks) - 1) // 2
    for one, two, made in _of_pairs(plan, ranks, metric, protocol, n_users, **options):
        frames.append(_named(made.frame, one, two))
        designs.append(_named(made.designs, one, two))
        limits.append(_named(made.limits, one, two))
    frame, cheapest, most = (
        pd.concat(each, ignore_index=True) for each in (frames, designs, limits)
    )
    return Plan(frame, made.settings, designs=cheapest, limits=most)


def _named(frame: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """The table of one pair, with its names in front."""
    frame.insert(0, "first", first)
    frame.insert(1, "second", second)
    return frame


def _of_pairs(
    of: Callable[..., Any],
    ranks: Mapping[str, Known],
    metric: Metric | str,
    protocol: Protocol | Sequence[Protocol],
    *arguments: Any,
    **options: Any,
) -> list[tuple[str, str, Any]]:
    """What is found for each pair that has an order."""
    metric = parsed(metric)
    sample = by_negatives(protocol)[0]
    if len(ranks) < 2:
        raise ValueError(f"a plan needs two recommenders or more, got {len(ranks)}")
    found = []
    for one, two in combinations(ranks, 2):
        if _known(ranks[one], ranks[two], metric, sample).difference == 0:
            warnings.warn(
                f"{one} and {two} have the same {metric.label} in the distributions given: there "
                "is no order to plan for",
                stacklevel=3,
            )
            continue
        made = of(ranks[one], ranks[two], metric, protocol, *arguments, **options)
        found.append((one, two, made))
    if not found:
        raise ValueError(f"all recommenders have the same {metric.label}: there is no order")
    return found


@dataclass(frozen=True, eq=False)
class _Judged:
    """The verdict of one estimator by the numbers of negatives and of users."""

    pair: _Pair | _Sets
    name: str
    protocol: Protocol
    _known: dict[tuple[int, int], Verdict] = field(default_factory=dict)

    def __call__(self, n_negatives: int, n_users: int) -> Verdict:
        if (n_negatives, n_users) not in self._known:
            self._known[n_negatives, n_users] = self._found(n_negatives, n_users)
        return self._known[n_negatives, n_users]

    def _found(self, n_negatives: int, n_users: int) -> Verdict:
        protocol = replace(self.protocol, n_negatives=n_negatives)
        gamma = corrections.default_gamma(n_users)

        def made(n_relevant: int) -> Estimator:
            of = replace(protocol, n_relevant=n_relevant)
            return corrections.by_name(self.name, self.pair.metric, of, gamma=gamma)

        if isinstance(self.pair, _Sets):
            return self.pair.verdict(made, n_users)
        return self.pair.verdict(made(1), n_users)

    def users_needed(self, now: Verdict, n_negatives: int, confidence: float) -> int | None:
        """Fewest users for the confidence, where the estimator may depend on their number."""
        if self.name not in _BY_USERS:
            return now.users(confidence)
        return _kept_from(partial(self, n_negatives), steps(_MOST_USERS), confidence)


@dataclass(frozen=True, eq=False)
class _Sets:
    """The exact ranks of the same users under two recommenders, in classes of as many items."""

    metric: Metric
    n_items: int
    classes: list[tuple[RelevantSets, RelevantSets]]

    @classmethod
    def of(cls, first: Known, second: Known, metric: Metric, protocol: Protocol) -> _Sets:
        n_items = one_size(protocol)
        if protocol.n_relevant != 1:
            raise ValueError(
                f"protocol must be for n_relevant = 1, which gives way to that of the sets, got "
                f"{protocol.n_relevant}"
            )
        one, two = _listed(first, "first"), _listed(second, "second")
        shapes = [[each.n_better.shape for each in given] for given in (one, two)]
        if shapes[0] != shapes[1] or any(
            (a.n_irrelevant != b.n_irrelevant).any() for a, b in zip(one, two, strict=True)
        ):
            raise ValueError(
                "first and second must hold the same users, with as many items and candidates, "
                f"got shapes {shapes[0]} and {shapes[1]}"
            )
        return cls(metric, n_items, list(zip(one, two, strict=True)))

    @property
    def pool(self) -> int:
        """The most negatives that every user has."""
        return min(int(one.n_irrelevant.min()) for one, _ in self.classes)

    @cached_property
    def n_relevant(self) -> float:
        """Relevant items of a user, on average."""
        users, items = np.sum(
            [(len(one.n_better), one.n_better.size) for one, _ in self.classes], axis=0
        )
        return float(items / users)

    @cached_property
    def _exact(self) -> FloatArray:
        """Each user's difference of the exact metric."""
        return np.concatenate(
            [one.evaluate(self.metric) - two.evaluate(self.metric) for one, two in self.classes]
        )

    @property
    def difference(self) -> float:
        """Difference of the averages of the exact metric; 0 where it is only rounding."""
        found = float(self._exact.mean())
        return found if sign(found, 0.0) else 0.0

    def verdict(self, made: Callable[[int], Estimator], n_users: int) -> Verdict:
        """The verdict by estimators, made for a number of relevant items, of users drawn."""
        means, variances = [], []
        for pair in self.classes:
            estimator = made(pair[0].n_better.shape[1])
            moments = [_moments(each, estimator) for each in pair]
            means.append(moments[0][0] - moments[1][0])
            variances.append(moments[0][1] + moments[1][1])
        mean = np.concatenate(means)
        variance = float(mean.var() + np.concatenate(variances).mean())
        return self._judged(float(mean.mean()), variance, n_users)

    def exact(self, n_users: int) -> Verdict:
        """The verdict by the exact metric, of users drawn."""
        return self._judged(float(self._exact.mean()), float(self._exact.var()), n_users)

    def _judged(self, mean: float, variance: float, n_users: int) -> Verdict:
        return Verdict(self.difference, mean, float(np.sqrt(variance / n_users)), n_users)


def _moments(sets: RelevantSets, estimator: Estimator) -> tuple[FloatArray, FloatArray]:
    """Expectation and variance of each user's value."""
    of = estimator.protocol
    mean = sets.expected(estimator, of.n_negatives, replacement=of.replacement)
    if sets.n_better.shape[1] > 1:
        return mean, sets.variance(estimator, of.n_negatives, replacement=of.replacement)
    # Of one item the square is a value of the sampled rank like any other.
    squared = replace(estimator, values=estimator.values**2)
    square = sets.expected(squared, of.n_negatives, replacement=of.replacement)
    return mean, np.maximum(square - mean**2, 0.0)


def _known(first: Known, second: Known, metric: Metric, protocol: Protocol) -> _Pair | _Sets:
    """Two recommenders by their distributions of ranks, or by the ranks of their users."""
    if _are_sets(first) or _are_sets(second):
        return _Sets.of(first, second, metric, protocol)
    return _Pair.of(first, second, metric, protocol)  # type: ignore[arg-type]


def _are_sets(given: Known) -> bool:
    listed = isinstance(given, Sequence) and len(given) and isinstance(given[0], RelevantSets)
    return bool(listed) or isinstance(given, (RankIntervals, RelevantSets))


def _listed(given: Known, name: str) -> list[RelevantSets]:
    """The classes of users of one recommender."""
    if isinstance(given, RankIntervals):
        above, tied = given.n_better[:, np.newaxis], given.n_tied[:, np.newaxis]
        return [RelevantSets(above, tied, np.zeros_like(above), given.n_candidates - 1)]
    if isinstance(given, RelevantSets):
        return [given]
    if isinstance(given, Sequence) and all(isinstance(each, RelevantSets) for each in given):
        return list(given)
    raise ValueError(
        f"{name} must be RankIntervals or RelevantSets as the other one, got {given!r:.60}"
    )


def _cheapest(
    judged: Mapping[str, _Judged], grid: list[int], full: Verdict, n_users: int, confidence: float
) -> pd.DataFrame:
    """The cheapest design of each kind with which the verdict is right often enough."""
    at = next(iter(judged.values()))
    pair, protocol = at.pair, at.protocol
    found: list[tuple[str, str, int, int, int, int]] = []
    for name, verdict_at in judged.items():
        for m in grid:
            if found and m + pair.n_relevant >= min(each[-1] for each in found):
                break  # one user alone would cost as much
            users = _fewest(verdict_at(m, n_users), n_users, confidence)
            if users is not None:
                scores = round(users * (m + pair.n_relevant))
                found.append(("fixed", name, m, m, users, scores))
    if isinstance(pair, _Pair):
        for first, most in dict.fromkeys(
            (min(first, grid[-1]), min(_TIMES * first, grid[-1])) for first in _FIRST
        ):
            design = Adaptive(pair.n_items, first, most, replacement=protocol.replacement)
            verdict, each = _adaptive(pair, design, n_users)
            users = _fewest(verdict, n_users, confidence)
            if users is not None:
                scores = int(np.ceil(users * each))
                found.append(("adaptive", "bias-variance", first, most, users, scores))
    users = _fewest(full, n_users, confidence)
    if users is not None:
        all_negatives = pair.n_items - 1
        scores = users * pair.n_items
        found.append(("full ranking", EXACT, all_negatives, all_negatives, users, scores))
    kinds = ["fixed", *(["adaptive"] if isinstance(pair, _Pair) else []), "full ranking"]
    best = [min((row for row in found if row[0] == kind), key=lambda row: row[-1], default=None)
            for kind in kinds]  # fmt: skip
    rows = [row or (kind, *[None] * 5) for kind, row in zip(kinds, best, strict=True)]
    rows.sort(key=lambda row: np.inf if row[-1] is None else row[-1])
    counts = ["negatives", "most", "users", "scores"]
    frame = pd.DataFrame(rows, columns=["design", "estimator", *counts])
    return frame.astype(dict.fromkeys(counts, "Int64"))


def _fewest(verdict: Verdict, n_users: int, confidence: float) -> int | None:
    """Users that are enough, if there are as many."""
    users = verdict.users(confidence)
    return users if users is not None and users <= n_users else None


def _adaptive(pair: _Pair, design: Adaptive, n_users: int) -> tuple[Verdict, float]:
    """The verdict by an adaptive design, and the scores of a user.

    Of users whose two ranks are drawn together the average is taken to be normal.
    """
    made = bias_variance(pair.metric, design, corrections.default_gamma(n_users))
    cost = sum(m @ design.cost(ranks) for m, ranks in zip(pair.masses, pair.ranks, strict=True))
    if pair.users is None:
        law = [mass @ design.pmf(at) for mass, at in zip(pair.masses, pair.ranks, strict=True)]
        each = Differences(made.values, np.stack(law), np.array([1.0, -1.0]))
        return pair._judged(each, n_users), float(cost / 2)
    (one, first), (two, second) = ((made.expected(at), made.variance(at)) for at in pair.ranks)
    mean = (one[pair.users[0]] - two[pair.users[1]]).astype(float)
    variance = mean.var() + pair.masses[0] @ first + pair.masses[1] @ second
    sd = float(np.sqrt(variance / n_users))
    return Verdict(pair.difference, float(mean.mean()), sd, n_users), float(cost / 2)


def _raced(pair: _Pair | _Sets, n_users: int, error: float) -> tuple[int, int | None]:
    """Users until a race is expected to end, and mean scores until then for one recommender."""
    from . import expected_race as expected  # imported here: only a plan with a race needs it

    grid = _grid(pair.n_items)
    each = expected.scores(pair.metric, grid - 1, pair.n_items)
    if isinstance(pair, _Sets):
        difference = pair._exact
        best = [sets.n_better.min(axis=1) + 1 for both in pair.classes for sets in both]
        cost = np.interp(np.concatenate(best), grid, each).mean()
    else:
        parts = list(zip(pair.masses, pair.ranks, strict=True))
        cost = np.mean([mass @ np.interp(ranks, grid, each) for mass, ranks in parts])
        if pair.users is None:
            marginals = zip(pair.masses, pair.values, strict=True)
            one, two = (expected.on_grid(mass, values) for mass, values in marginals)
            law = np.convolve(one, two[::-1])
        else:
            difference = pair.values[0][pair.users[0]] - pair.values[1][pair.users[1]]
    if isinstance(pair, _Sets) or pair.users is not None:
        law = expected.on_grid(np.full(difference.size, 1 / difference.size), difference, -1.0)
    users = expected.users(law, n_users, error)
    scores = round(users * float(cost))
    return users, scores if scores <= _MOST_COUNT else None


def _with_race(frame: pd.DataFrame, users: int, scores: int | None) -> pd.DataFrame:
    """The table of a plan, with a row for the race before the last row, ``exact``."""
    row = frame.iloc[-1:].copy()
    row.loc[:, ["probability", "ties"]] = np.nan
    row.loc[:, ["negatives_needed", "scores_by_negatives"]] = pd.NA
    row = row.assign(estimator=RACE, users_needed=users, scores_by_users=scores)
    return pd.concat(
        [frame.iloc[:-1], row.astype(frame.dtypes), frame.iloc[-1:]], ignore_index=True
    )


def _best_split(
    at: _Judged, grid: list[int], budget: int | None, n_relevant: float
) -> tuple[int | None, int | None, float | None]:
    """Negatives and users that cost a budget and make the verdict the surest."""
    best: tuple[int | None, int | None, float | None] = (None, None, None)
    surest = (-np.inf, -np.inf)
    for m in grid if budget is not None else []:
        assert budget is not None
        users = int(budget / (m + n_relevant))
        if users:
            found = at(m, users)
            if (round(found.probability, 9), found.z) > surest:
                surest = round(found.probability, 9), found.z
                best = m, users, found.probability
    return best


def _kept_from(at: Callable[[int], Verdict], grid: list[int], confidence: float) -> int | None:
    """Fewest negatives, or users, from which on the confidence is kept at every later step."""
    kept = grid[-1] + 1
    for step in reversed(grid):
        found = at(step)
        if found.z <= 0 or found.probability < confidence:
            return negatives_needed(at, step, kept, confidence) if kept <= grid[-1] else None
        kept = step
    return kept


def _frame(
    rows: Iterable[tuple[str, Verdict, int | None, int | None]],
    users: int,
    negatives: int,
    n_items: int,
    n_relevant: float = 1,
) -> pd.DataFrame:
    """The table of a plan; `rows` hold the negatives and the users that are needed last."""
    table = []
    for name, now, needed, more in rows:
        more = None if more is None or more > _MOST_USERS else more
        each = n_items if name == EXACT else negatives + n_relevant
        by_negatives = None if needed is None else round(users * (needed + n_relevant))
        if name == EXACT:
            by_negatives = users * n_items
        by_users = None if more is None else round(more * each)
        found = (needed, by_negatives, more, by_users)
        shown = (None if c is None or c > _MOST_COUNT else c for c in found)
        table.append((name, now.probability, now.ties, *shown))
    counts = ["negatives_needed", "scores_by_negatives", "users_needed", "scores_by_users"]
    frame = pd.DataFrame(table, columns=["estimator", "probability", "ties", *counts])
    return frame.astype(dict.fromkeys(counts, "Int64"))


def _names(given: str | Sequence[str]) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise ValueError("estimators must hold one name or more, got none")
    return [corrections.known(name) for name in names]

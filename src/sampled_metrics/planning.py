"""How large a sampled evaluation has to be before its verdict on two recommenders can be trusted.

A plan starts from two distributions of true ranks: those of recommenders that were ranked exactly
before, or those fitted to a sampled log. Users are drawn from them, and negatives for each user. A
verdict is right if it is the order of the exact metric averaged over the distributions. The exact
evaluation of a few users can be wrong as well, so it has a row of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from . import _progress
from . import estimators as corrections
from ._threads import one_thread
from ._validate import IntArray, integer, integers
from .adaptive import Adaptive
from .bounds import bets
from .bounds.assumption import Assumption, assumption_name
from .bounds.shortest import decidable
from .estimators import Estimator
from .exact_pairs import ExactPair, ExactRanks, are_exact
from .metrics import Metric
from .metrics import metric as parsed
from .protocol import Protocol, by_negatives
from .protocol import steps as steps
from .results import Plan, table_of
from .sequential import DIFFERENCES, METRICS, expected_scores, expected_users, rebinned
from .verdicts import Ranks, Verdict, _Pair, negatives_needed

#: What is known of a recommender: a distribution of true ranks, or the same users' exact ranks.
Population = Ranks | ExactRanks

#: What a plan compares if nothing is named. Gamma of bias-variance is that of
#: :func:`~sampled_metrics.estimators.default_gamma`, as in
#: :func:`~sampled_metrics.evaluation.estimate`.
ESTIMATORS = ("naive", "rank estimate", "monotone", "bias-variance")

#: Users of a plan, and counts that its tables show, at most.
_MOST_USERS, _MOST_COUNT = 10**12, 2**62

#: The confidence of verdicts in the limits, and the most candidates that these are computed for.
_PROVED, _MOST_RANKS = 0.95, 10**6

#: Row names of the evaluations with exact metrics: a race, which stops early, and a full ranking.
RACE, EXACT = "race", "exact"

#: Negatives of the first round of the adaptive designs that are tried, and how many times as many
#: a user has at most.
_FIRST, _TIMES = (10, 20, 50), 16


class _PlanRow(NamedTuple):
    estimator: str
    probability: float
    ties: float
    negatives_needed: int | None
    scores_by_negatives: int | None
    users_needed: int | None
    scores_by_users: int | None


class _BudgetRow(NamedTuple):
    best_negatives: int | None = None
    best_users: int | None = None
    best_probability: float | None = None


class _DesignRow(NamedTuple):
    design: str
    estimator: str | None = None
    negatives: int | None = None
    most: int | None = None
    users: int | None = None
    scores: int | None = None


class _LimitRow(NamedTuple):
    assumption: str
    negatives: int
    users: int
    most_decided: float


class _CurveRow(NamedTuple):
    estimator: str
    n_negatives: int | None
    n_users: int
    probability: float
    ties: float
    scores: int


@one_thread
def plan(
    first: Population,
    second: Population,
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
    sampled_metrics.log_plans.plan_log : A plan from a log.
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
    pair = _pair(first, second, metric, protocol)
    users = integer(n_users, "n_users", 1, _MOST_USERS)
    several = isinstance(pair, ExactPair) and pair.n_relevant > 1
    most = None if protocol.replacement else pair.pool
    last = min(100 if several else 1_000, pair.pool) if max_negatives is None else max_negatives
    grid = steps(integer(last, "max_negatives", 1, most))
    verdicts = [_Verdicts(pair, name, protocol) for name in _checked_names(estimators)]
    paid = None if budget is None else integer(budget, "budget", 1, _MOST_USERS)
    races = (
        int(sequential) if isinstance(sequential, bool) else integer(sequential, "sequential", 1)
    )
    if races and pair.difference == 0:
        raise ValueError("sequential must be False for two equal averages: they have no order")
    rows, splits = [], []
    each = protocol.n_negatives + pair.n_relevant
    for at in _progress.bar(verdicts, desc="plan", unit="estimator", show=progress):
        now = at(protocol.n_negatives, users)
        fewest = _fewest_reaching(partial(at, n_users=users), grid, confidence)
        scores = None if fewest is None else round(users * (fewest + pair.n_relevant))
        needed = at.users_needed(now, protocol.n_negatives, confidence)
        rows.append(_row(at.name, now, each, fewest, scores, needed))
        splits.append(_BudgetRow() if paid is None else _best_split(at, grid, paid))
    if races:
        rows.append(_race_row(pair, users, (1.0 - confidence) / (2.0 * races)))
        splits.append(_BudgetRow())
    full = pair.exact(users)
    needed = full.users(confidence)
    rows.append(_row(EXACT, full, pair.n_items, None, users * pair.n_items, needed))
    frame = table_of(_PlanRow, rows)
    if paid is not None:
        ranked = min(paid // pair.n_items, _MOST_USERS)
        exact = pair.exact(ranked).probability if ranked else None
        splits.append(_BudgetRow(None, ranked or None, exact))
        frame = frame.join(table_of(_BudgetRow, splits))
    settings = {"metric": metric.name, "n_items": pair.n_items, "n_users": users}
    settings |= {"max_negatives": grid[-1], "confidence": confidence}
    designs = _designs(verdicts, grid, full, users, confidence)
    return Plan(frame, settings, designs=designs, limits=_limits(pair, protocol, users))


def _row(
    name: str,
    now: Verdict,
    each: float,
    negatives: int | None = None,
    scores: int | None = None,
    users: int | None = None,
) -> _PlanRow:
    """A row of a plan, where a user takes `each` scores; counts that are too large are missing."""
    users = None if users is None or users > _MOST_USERS else users
    counts = (negatives, scores, users, None if users is None else round(users * each))
    shown = (None if count is None or count > _MOST_COUNT else count for count in counts)
    return _PlanRow(name, now.probability, now.ties, *shown)


def _limits(pair: _Pair | ExactPair, protocol: Protocol, n_users: int) -> pd.DataFrame:
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
            most = decidable(parts, assumption, _PROVED, better, worse, float(n_users))
            name = assumption_name(assumption)
            rows.append(_LimitRow(name, protocol.n_negatives, n_users, most))
    return table_of(_LimitRow, rows)


def curve(
    first: Population,
    second: Population,
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
    pair = _pair(first, second, metric, protocols[0])
    users = np.unique(integers(n_users, "n_users", 1, _MOST_USERS)).tolist()
    names = _checked_names(estimators)
    rows = []
    for name in _progress.bar(names, desc="curve", unit="estimator", show=progress):
        at = _Verdicts(pair, name, protocols[0])
        for u, m in product(users, (each.n_negatives for each in protocols)):
            made = at(m, u)
            scores = round(u * (m + pair.n_relevant))
            rows.append(_CurveRow(name, m, u, made.probability, made.ties, scores))
    for u in users:
        made = pair.exact(u)
        rows.append(_CurveRow(EXACT, None, u, made.probability, made.ties, u * pair.n_items))
    if max(row.scores for row in rows) > _MOST_COUNT:
        raise ValueError(f"n_users * n_items and n_users * n_negatives must be <= {_MOST_COUNT}")
    return table_of(_CurveRow, rows)


@one_thread
def for_pairs(
    of: Callable[..., pd.DataFrame | Plan],
    ranks: Mapping[str, Population],
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
        Of each recommender, such as from :func:`~sampled_metrics.log_plans.fitted`.
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
    made = _by_pair(of, ranks, metric, protocol, *arguments, **options)
    return _stacked({pair: getattr(each, "frame", each) for pair, each in made.items()})


@one_thread
def for_all(
    ranks: Mapping[str, Population],
    metric: Metric | str,
    protocol: Protocol,
    n_users: int,
    **options: Any,
) -> Plan:
    """Plan for each pair of recommenders, and join the tables.

    Parameters
    ----------
    ranks : mapping of str to array_like of int, mapping of int to float, RankIntervals or sets
        Of each recommender, such as from :func:`~sampled_metrics.log_plans.fitted`.
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
    if options.get("sequential") is True:
        options["sequential"] = len(ranks) * (len(ranks) - 1) // 2
    plans = _by_pair(plan, ranks, metric, protocol, n_users, **options)
    settings = next(iter(plans.values())).settings
    frame, designs, limits = (
        _stacked({pair: getattr(made, name) for pair, made in plans.items()})
        for name in ("frame", "designs", "limits")
    )
    return Plan(frame, settings, designs=designs, limits=limits)


def _by_pair(
    of: Callable[..., Any],
    ranks: Mapping[str, Population],
    metric: Metric | str,
    protocol: Protocol | Sequence[Protocol],
    *arguments: Any,
    **options: Any,
) -> dict[tuple[str, str], Any]:
    """What `of` returns for each pair that has an order."""
    metric = parsed(metric)
    sample = by_negatives(protocol)[0]
    if len(ranks) < 2:
        raise ValueError(f"a plan needs two recommenders or more, got {len(ranks)}")
    made = {}
    for one, two in combinations(ranks, 2):
        if _pair(ranks[one], ranks[two], metric, sample).difference == 0:
            warnings.warn(
                f"{one} and {two} have the same {metric.label} in the distributions given: there "
                "is no order to plan for",
                stacklevel=3,
            )
            continue
        made[one, two] = of(ranks[one], ranks[two], metric, protocol, *arguments, **options)
    if not made:
        raise ValueError(f"all recommenders have the same {metric.label}: there is no order")
    return made


def _stacked(tables: Mapping[tuple[str, str], pd.DataFrame]) -> pd.DataFrame:
    """The tables of all pairs, one below the other, with the pair in front."""
    for (first, second), table in tables.items():
        table.insert(0, "first", first)
        table.insert(1, "second", second)
    return pd.concat(list(tables.values()), ignore_index=True)


def _pair(
    first: Population, second: Population, metric: Metric, protocol: Protocol
) -> _Pair | ExactPair:
    """Two recommenders by their distributions of ranks, or by the ranks of their users."""
    if are_exact(first) or are_exact(second):
        return ExactPair.of(first, second, metric, protocol)
    return _Pair.of(first, second, metric, protocol)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _Verdicts:
    """The verdict of one estimator by the numbers of negatives and of users."""

    pair: _Pair | ExactPair
    name: str
    protocol: Protocol
    _cache: dict[tuple[int, int], Verdict] = field(default_factory=dict)

    def __call__(self, n_negatives: int, n_users: int) -> Verdict:
        if (n_negatives, n_users) not in self._cache:
            self._cache[n_negatives, n_users] = self._verdict(n_negatives, n_users)
        return self._cache[n_negatives, n_users]

    def _verdict(self, n_negatives: int, n_users: int) -> Verdict:
        gamma = corrections.default_gamma(n_users)

        def estimator(n_relevant: int) -> Estimator:
            of = replace(self.protocol, n_negatives=n_negatives, n_relevant=n_relevant)
            return corrections.by_name(self.name, self.pair.metric, of, gamma=gamma)

        if isinstance(self.pair, ExactPair):
            return self.pair.verdict(estimator, n_users)
        return self.pair.verdict(estimator(1), n_users)

    def users_needed(self, now: Verdict, n_negatives: int, confidence: float) -> int | None:
        """Fewest users for the confidence; gamma of bias-variance depends on their number."""
        if self.name != "bias-variance":
            return now.users(confidence)
        return _fewest_reaching(partial(self, n_negatives), steps(_MOST_USERS), confidence)


def _fewest_reaching(
    at: Callable[[int], Verdict], grid: list[int], confidence: float
) -> int | None:
    """Fewest negatives, or users, from which on the confidence is kept at every later step."""
    kept = grid[-1] + 1
    for step in reversed(grid):
        made = at(step)
        if made.z <= 0 or made.probability < confidence:
            return negatives_needed(at, step, kept, confidence) if kept <= grid[-1] else None
        kept = step
    return kept


def _best_split(at: _Verdicts, grid: list[int], budget: int) -> _BudgetRow:
    """Negatives and users that cost a budget and make the verdict the surest."""
    tried = ((m, int(budget / (m + at.pair.n_relevant))) for m in grid)
    made = [(m, users, at(m, users)) for m, users in tried if users]
    if not made:
        return _BudgetRow()
    m, users, best = max(made, key=lambda row: (round(row[2].probability, 9), row[2].z))
    return _BudgetRow(m, users, best.probability)


def _designs(
    verdicts: Sequence[_Verdicts], grid: list[int], full: Verdict, n_users: int, confidence: float
) -> pd.DataFrame:
    """The cheapest design of each kind with which the verdict is right often enough."""
    pair, protocol = verdicts[0].pair, verdicts[0].protocol
    best: dict[str, _DesignRow] = {"fixed": _DesignRow("fixed")}

    def cost(kind: str) -> float:
        scores = best[kind].scores
        return np.inf if scores is None else scores

    def consider(kind: str, name: str, first: int, most: int, made: Verdict, each: float) -> None:
        users = made.users(confidence)
        if users is not None and users <= n_users:
            # An adaptive design's cost is an expectation: rounded upwards.
            scores = int(np.ceil(users * each)) if kind == "adaptive" else round(users * each)
            if scores < cost(kind):
                best[kind] = _DesignRow(kind, name, first, most, users, scores)

    for at in verdicts:
        for m in grid:
            if m + pair.n_relevant >= cost("fixed"):
                break  # one user alone would cost as much
            consider("fixed", at.name, m, m, at(m, n_users), m + pair.n_relevant)
    if isinstance(pair, _Pair):
        best["adaptive"] = _DesignRow("adaptive")
        sizes = [(min(first, grid[-1]), min(_TIMES * first, grid[-1])) for first in _FIRST]
        for first, most in dict.fromkeys(sizes):
            design = Adaptive(pair.n_items, first, most, replacement=protocol.replacement)
            made, each = _adaptive_verdict(pair, design, n_users)
            consider("adaptive", "bias-variance", first, most, made, each)
    best["full ranking"] = _DesignRow("full ranking")
    everyone = pair.n_items - 1
    consider("full ranking", EXACT, everyone, everyone, full, pair.n_items)
    return table_of(_DesignRow, (best[kind] for kind in sorted(best, key=cost)))


def _adaptive_verdict(pair: _Pair, design: Adaptive, n_users: int) -> tuple[Verdict, float]:
    """The verdict by an adaptive design, and the scores of a user.

    Of users whose two ranks are drawn together the average is taken to be normal.
    """
    made = corrections.bias_variance(pair.metric, design, corrections.default_gamma(n_users))
    marginals = list(zip(pair.masses, pair.ranks, strict=True))
    cost = float(sum(mass @ design.cost(ranks) for mass, ranks in marginals) / 2)
    if pair.users is None:
        return pair.verdict(made, n_users), cost
    (one, first), (two, second) = ((made.expected(at), made.variance(at)) for at in pair.ranks)
    mean = (one[pair.users[0]] - two[pair.users[1]]).astype(float)
    variance = mean.var() + pair.masses[0] @ first + pair.masses[1] @ second
    sd = float(np.sqrt(variance / n_users))
    return Verdict(pair.difference, float(mean.mean()), sd, n_users), cost


def _race_row(pair: _Pair | ExactPair, n_users: int, error: float) -> _PlanRow:
    """Users until a race is expected to end, and mean scores until then for one recommender."""
    grid = rank_grid(pair.n_items)
    each = expected_scores(pair.metric, grid - 1, pair.n_items)
    if isinstance(pair, ExactPair):
        best = np.concatenate([sets.n_better.min(axis=1) for both in pair.classes for sets in both])
        cost, differences = np.interp(best + 1, grid, each).mean(), pair.differences
    else:
        parts = zip(pair.masses, pair.ranks, strict=True)
        cost = np.mean([mass @ np.interp(ranks, grid, each) for mass, ranks in parts])
        if pair.users is not None:
            differences = pair.values[0][pair.users[0]] - pair.values[1][pair.users[1]]
    if isinstance(pair, _Pair) and pair.users is None:
        marginals = zip(pair.masses, pair.values, strict=True)
        one, two = (rebinned(mass, values, METRICS) for mass, values in marginals)
        pmf = np.convolve(one, two[::-1])
    else:
        share = np.full(differences.size, 1 / differences.size)
        pmf = rebinned(share, differences, DIFFERENCES)
    users = expected_users(pmf, n_users, error)
    scores = round(users * float(cost))
    scores_shown = scores if scores <= _MOST_COUNT else None
    return _PlanRow(RACE, np.nan, np.nan, None, None, users, scores_shown)


def rank_grid(n_items: int) -> IntArray:
    """Ranks that are enough for a smooth distribution: all of the first, then fewer and fewer.

    Examples
    --------
    >>> rank_grid(110)[[0, 98, 99, 100, -1]]
    array([  1,  99, 100, 102, 110])
    """
    far = max(n_items, 101)
    points = np.geomspace(100, far, 2 + int(50 * np.log(far / 100)))
    near = np.concatenate([np.arange(1, 101), points.round().astype(np.int64), [n_items]])
    return np.unique(near[near <= n_items])


def _checked_names(given: str | Sequence[str]) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise ValueError("estimators must hold one name or more, got none")
    return [corrections.known(name) for name in names]

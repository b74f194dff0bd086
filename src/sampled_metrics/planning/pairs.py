"""How many negatives or users an evaluation needs until its verdict can be trusted.

A plan starts from the distributions of two recommenders' true ranks: known from an earlier exact
evaluation, or fitted to a sampled log. Users are drawn from them, and negatives for each user. A
verdict is right if it names the order of the exact metric, averaged over the distributions. An
exact evaluation of a few users can be wrong as well, so it has a row of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import _progress
from .. import estimators as corrections
from .._confidence import CONFIDENCE
from .._printed_ranges import steps as steps
from .._threads import one_thread
from .._validate import IntArray, as_intp, integer
from ..bounds import bets
from ..bounds.assumption import Assumption, assumption_name
from ..bounds.shortest import decidable
from ..estimators import Estimator
from ..metrics import Metric
from ..metrics import metric as parsed
from ..protocol import Adaptive, Protocol
from ..results import Plan, table_of
from ..verdicts import PopulationPair, Ranks, Verdict, negatives_needed
from .exact_pairs import ExactPair, ExactRanks, are_exact

#: A recommender's distribution of true ranks, or the exact ranks of its users.
Population = Ranks | ExactRanks

#: The estimators of a plan by default; gamma of bias-variance is ``default_gamma(n_users)``.
ESTIMATORS = ("naive", "rank estimate", "monotone", "bias-variance")

#: Largest number of users, and largest count shown in a table.
_MOST_USERS, _MOST_COUNT = 10**12, 2**62

#: The most candidates for which `limits` are computed.
_MOST_RANKS = 10**6

#: Row name of a full ranking.
EXACT = "exact"

#: First numbers of negatives of the adaptive designs tried, and the largest multiple of them.
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


@one_thread
def plan_pair(
    first: Population,
    second: Population,
    metric: Metric | str,
    protocol: Protocol,
    n_users: int,
    *,
    estimators: str | Sequence[str] = ESTIMATORS,
    confidence: float = CONFIDENCE,
    max_negatives: int | None = None,
    budget: int | None = None,
    progress: bool = False,
) -> Plan:
    """The plan of one pair of populations.

    :func:`~sampled_metrics.plan` documents the parameters and the tables, which lack the columns
    first and second here.
    """
    metric = parsed(metric)
    pair = _pair(first, second, metric, protocol)
    users = integer(n_users, "n_users", 1, _MOST_USERS)
    grid = steps(_largest_tried(max_negatives, pair, protocol))
    verdicts = [_Verdicts(pair, name, protocol) for name in _checked_names(estimators)]
    max_scores = None if budget is None else integer(budget, "budget", 1, _MOST_USERS)
    bar = _progress.bar(verdicts, desc="plan", unit="estimator", show=progress)
    rows = [_estimator_row(verdict_at, grid, users, confidence) for verdict_at in bar]
    exact_verdict = pair.exact(users)
    users_needed = exact_verdict.users(confidence)
    rows.append(_row(EXACT, exact_verdict, pair.n_items, None, users * pair.n_items, users_needed))
    frame = table_of(_PlanRow, rows)
    if max_scores is not None:
        splits = [_best_split(verdict_at, grid, max_scores) for verdict_at in verdicts]
        ranked_users = min(max_scores // pair.n_items, _MOST_USERS) or None
        exact_probability = pair.exact(ranked_users).probability if ranked_users else None
        splits.append(_BudgetRow(None, ranked_users, exact_probability))
        frame = frame.join(table_of(_BudgetRow, splits))
    settings = {"metric": metric.name, "n_items": pair.n_items, "n_users": users}
    settings |= {"max_negatives": grid[-1], "confidence": confidence}
    designs = _designs(verdicts, grid, exact_verdict, users, confidence)
    return Plan(frame, settings, designs=designs, limits=_limits(pair, protocol, users))


def _largest_tried(
    max_negatives: int | None, pair: PopulationPair | ExactPair, protocol: Protocol
) -> int:
    """The largest number of negatives to consider."""
    if max_negatives is None:
        has_several = isinstance(pair, ExactPair) and pair.n_relevant > 1
        max_negatives = min(100 if has_several else 1_000, pair.pool)
    return integer(max_negatives, "max_negatives", 1, None if protocol.replacement else pair.pool)


def _estimator_row(
    verdict_at: _Verdicts, grid: list[int], n_users: int, confidence: float
) -> _PlanRow:
    n_negatives, n_relevant = verdict_at.protocol.n_negatives, verdict_at.pair.n_relevant
    verdict = verdict_at(n_negatives, n_users)
    fewest = _fewest_reaching(partial(verdict_at, n_users=n_users), grid, confidence)
    scores = None if fewest is None else round(n_users * (fewest + n_relevant))
    users_needed = verdict_at.users_needed(verdict, n_negatives, confidence)
    cost = n_negatives + n_relevant
    return _row(verdict_at.name, verdict, cost, fewest, scores, users_needed)


def _row(
    name: str,
    verdict: Verdict,
    cost: float,
    negatives: int | None = None,
    scores: int | None = None,
    users: int | None = None,
) -> _PlanRow:
    """A row of a plan whose users take `cost` scores; counts that are too large are missing."""
    users = None if users is None or users > _MOST_USERS else users
    counts = (negatives, scores, users, None if users is None else round(users * cost))
    shown = (None if count is None or count > _MOST_COUNT else count for count in counts)
    return _PlanRow(name, verdict.probability, verdict.ties, *shown)


def _limits(pair: PopulationPair | ExactPair, protocol: Protocol, n_users: int) -> pd.DataFrame:
    """An upper bound, for each assumption, on how often a theorem decides a pair at 95%."""
    rows = []
    if isinstance(pair, PopulationPair) and pair.n_items <= _MOST_RANKS and pair.difference != 0:
        masses = [
            np.asarray(np.bincount(as_intp(ranks - 1), mass, pair.n_items), dtype=float)
            for ranks, mass in zip(pair.ranks, pair.masses, strict=True)
        ]
        better, worse = masses if pair.difference > 0 else masses[::-1]
        row_kinds = np.array([[protocol.n_negatives, 1, 1, pair.n_items]])
        parts = bets.partition(row_kinds, np.ones(1), pair.metric, protocol.replacement)
        for assumption in (None, Assumption()) if parts.parts else ():
            max_decided = decidable(parts, assumption, CONFIDENCE, better, worse, float(n_users))
            name = assumption_name(assumption)
            rows.append(_LimitRow(name, protocol.n_negatives, n_users, max_decided))
    return table_of(_LimitRow, rows)


@one_thread
def for_all(
    ranks: Mapping[str, Population],
    metric: Metric | str,
    protocol: Protocol,
    n_users: int,
    **options: Any,
) -> Plan:
    """One :func:`plan_pair` for all pairs: its tables have columns first and second in front.

    Two recommenders with equal exact averages have no order to plan for: they are left out, with
    a warning.
    """
    metric = parsed(metric)
    if len(ranks) < 2:
        raise ValueError(f"a plan needs two recommenders or more, got {len(ranks)}")
    plans = {}
    for first, second in combinations(ranks, 2):
        pair = ranks[first], ranks[second]
        if _pair(*pair, metric, protocol).difference == 0:
            warnings.warn(
                f"{first} and {second} have the same {metric.label} in the distributions given: "
                "there is no order to plan for",
                stacklevel=2,
            )
            continue
        plans[first, second] = plan_pair(*pair, metric, protocol, n_users, **options)
    if not plans:
        raise ValueError(f"all recommenders have the same {metric.label}: there is no order")
    settings = next(iter(plans.values())).settings
    frame, designs, limits = (
        _stacked({pair: getattr(pair_plan, name) for pair, pair_plan in plans.items()})
        for name in ("frame", "designs", "limits")
    )
    return Plan(frame, settings, designs=designs, limits=limits)


def _stacked(tables: Mapping[tuple[str, str], pd.DataFrame]) -> pd.DataFrame:
    """The tables of all pairs below one another, with the pair in front."""
    for (first, second), table in tables.items():
        table.insert(0, "first", first)
        table.insert(1, "second", second)
    return pd.concat(list(tables.values()), ignore_index=True)


def _pair(
    first: Population, second: Population, metric: Metric, protocol: Protocol
) -> PopulationPair | ExactPair:
    """Two recommenders by their distributions of ranks, or by exact ranks of the same users."""
    if are_exact(first) or are_exact(second):
        return ExactPair.of(first, second, metric, protocol)
    return PopulationPair.of(first, second, metric, protocol)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _Verdicts:
    """The verdicts of one estimator by the numbers of negatives and users, cached."""

    pair: PopulationPair | ExactPair
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
            protocol = replace(self.protocol, n_negatives=n_negatives, n_relevant=n_relevant)
            return corrections.by_name(self.name, self.pair.metric, protocol, gamma=gamma)

        if isinstance(self.pair, ExactPair):
            return self.pair.verdict(estimator, n_users)
        return self.pair.verdict(estimator(1), n_users)

    def users_needed(self, verdict: Verdict, n_negatives: int, confidence: float) -> int | None:
        """Fewest users for the confidence; a search where gamma depends on them."""
        if self.name != "bias-variance":
            return verdict.users(confidence)
        return _fewest_reaching(partial(self, n_negatives), steps(_MOST_USERS), confidence)


def _fewest_reaching(
    verdict_at: Callable[[int], Verdict], grid: list[int], confidence: float
) -> int | None:
    """Fewest negatives, or users, from which on all steps of the grid keep the confidence."""
    fewest = grid[-1] + 1
    for step in reversed(grid):
        verdict = verdict_at(step)
        if verdict.z <= 0 or verdict.probability < confidence:
            return (
                negatives_needed(verdict_at, step, fewest, confidence)
                if fewest <= grid[-1]
                else None
            )
        fewest = step
    return fewest


def _best_split(verdict_at: _Verdicts, grid: list[int], budget: int) -> _BudgetRow:
    """The division of a budget into negatives and users with the surest verdict."""
    tried = ((m, int(budget / (m + verdict_at.pair.n_relevant))) for m in grid)
    splits = [(m, users, verdict_at(m, users)) for m, users in tried if users]
    if not splits:
        return _BudgetRow()
    m, users, verdict = max(splits, key=lambda row: (round(row[2].probability, 9), row[2].z))
    return _BudgetRow(m, users, verdict.probability)


def _designs(
    verdicts: Sequence[_Verdicts],
    grid: list[int],
    exact_verdict: Verdict,
    n_users: int,
    confidence: float,
) -> pd.DataFrame:
    """The cheapest design of each kind that reaches the confidence."""
    pair, protocol = verdicts[0].pair, verdicts[0].protocol
    cheapest: dict[str, _DesignRow] = {"fixed": _DesignRow("fixed")}

    def cost(kind: str) -> float:
        scores = cheapest[kind].scores
        return np.inf if scores is None else scores

    def consider(
        kind: str, name: str, first: int, max_negatives: int, verdict: Verdict, user_cost: float
    ) -> None:
        if verdict.needs_more_than(
            min(n_users, int(min(cost(kind) / user_cost, _MOST_USERS))), confidence
        ):
            return  # one look at the most users that may pay, in place of a search for the fewest
        users = verdict.users(confidence)
        if users is not None and users <= n_users:
            # An adaptive design's cost is an expectation: rounded upwards.
            scores = (
                int(np.ceil(users * user_cost)) if kind == "adaptive" else round(users * user_cost)
            )
            if scores < cost(kind):
                cheapest[kind] = _DesignRow(kind, name, first, max_negatives, users, scores)

    for verdict_at in verdicts:
        for m in grid:
            if m + pair.n_relevant >= cost("fixed"):
                break  # one user alone would cost as much
            consider("fixed", verdict_at.name, m, m, verdict_at(m, n_users), m + pair.n_relevant)
    if isinstance(pair, PopulationPair):
        cheapest["adaptive"] = _DesignRow("adaptive")
        sizes = [(min(first, grid[-1]), min(_TIMES * first, grid[-1])) for first in _FIRST]
        for first, max_negatives in dict.fromkeys(sizes):
            design = Adaptive(pair.n_items, first, max_negatives, replacement=protocol.replacement)
            verdict, user_cost = _adaptive_verdict(pair, design, n_users)
            consider("adaptive", "bias-variance", first, max_negatives, verdict, user_cost)
    cheapest["full ranking"] = _DesignRow("full ranking")
    n_irrelevant = pair.n_items - 1
    consider("full ranking", EXACT, n_irrelevant, n_irrelevant, exact_verdict, pair.n_items)
    return table_of(_DesignRow, (cheapest[kind] for kind in sorted(cheapest, key=cost)))


def _adaptive_verdict(
    pair: PopulationPair, design: Adaptive, n_users: int
) -> tuple[Verdict, float]:
    """The verdict by an adaptive design, and its expected scores for a user.

    If the two ranks of a user are drawn jointly, the average is approximated as normal.
    """
    estimator = corrections.bias_variance(pair.metric, design, corrections.default_gamma(n_users))
    marginals = list(zip(pair.masses, pair.ranks, strict=True))
    cost = float(sum(mass @ design.cost(ranks) for mass, ranks in marginals) / 2)
    if pair.users is None:
        return pair.verdict(estimator, n_users), cost
    (first_mean, first_variance), (second_mean, second_variance) = (
        (estimator.expected(pair_ranks), estimator.variance(pair_ranks))
        for pair_ranks in pair.ranks
    )
    means = (first_mean[pair.users[0]] - second_mean[pair.users[1]]).astype(float)
    variance = means.var() + pair.masses[0] @ first_variance + pair.masses[1] @ second_variance
    sd = float(np.sqrt(variance / n_users))
    return Verdict(pair.difference, float(means.mean()), sd, n_users), cost


def rank_grid(n_items: int) -> IntArray:
    """Ranks 1 to 100, then a geometric grid (2% apart) to n_items, for smooth distributions."""
    grid_end = max(n_items, 101)
    points = np.geomspace(100, grid_end, 2 + int(50 * np.log(grid_end / 100)))
    ranks = np.concatenate([np.arange(1, 101), points.round().astype(np.int64), [n_items]])
    return np.unique(ranks[ranks <= n_items])


def _checked_names(estimators: str | Sequence[str]) -> list[str]:
    names = [estimators] if isinstance(estimators, str) else list(estimators)
    if not names:
        raise ValueError("estimators must hold one name or more, got none")
    return [corrections.known(name) for name in names]

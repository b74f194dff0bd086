"""Two recommenders whose exact ranks are known for the same users, and verdicts on similar users.

The planned users are drawn at random from the known ones, each with its own candidates. Mean and
variance are exact, and the average is approximated as normal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._validate import FloatArray
from ..consistency import sign
from ..estimators import Estimator
from ..metrics import Metric
from ..protocol import Protocol, one_size
from ..ranking.intervals import RankIntervals
from ..relevant_sets import RelevantSets
from ..verdicts import Verdict

#: Exact ranks of users; a list if users differ in the number of relevant items.
ExactRanks = RankIntervals | RelevantSets | Sequence[RelevantSets]


@dataclass(frozen=True, eq=False)
class ExactPair:
    """Exact ranks of the same users under two recommenders, grouped by number of items."""

    metric: Metric
    n_items: int
    classes: list[tuple[RelevantSets, RelevantSets]]

    @classmethod
    def of(cls, first: Any, second: Any, metric: Metric, protocol: Protocol) -> ExactPair:
        n_items = one_size(protocol)
        if protocol.n_relevant != 1:
            raise ValueError(
                "protocol must have n_relevant = 1, since the rankings have their own numbers of "
                f"relevant items, got {protocol.n_relevant}"
            )
        first_classes, second_classes = _classes(first, "first"), _classes(second, "second")
        shapes = [
            [sets.n_better.shape for sets in classes] for classes in (first_classes, second_classes)
        ]
        if shapes[0] != shapes[1] or any(
            (first_sets.n_irrelevant != second_sets.n_irrelevant).any()
            for first_sets, second_sets in zip(first_classes, second_classes, strict=True)
        ):
            raise ValueError(
                "first and second must hold the same users, with as many items and candidates, "
                f"got shapes {shapes[0]} and {shapes[1]}"
            )
        return cls(metric, n_items, list(zip(first_classes, second_classes, strict=True)))

    @property
    def pool(self) -> int:
        """The largest number of negatives that every user has."""
        return min(int(sets.n_irrelevant.min()) for sets, _ in self.classes)

    @cached_property
    def n_relevant(self) -> float:
        """Mean number of relevant items of a user."""
        users, items = np.sum(
            [(len(sets.n_better), sets.n_better.size) for sets, _ in self.classes], axis=0
        )
        return float(items / users)

    @cached_property
    def differences(self) -> FloatArray:
        """Each user's difference of the exact metric."""
        return np.concatenate(
            [
                first_sets.evaluate(self.metric) - second_sets.evaluate(self.metric)
                for first_sets, second_sets in self.classes
            ]
        )

    @property
    def difference(self) -> float:
        """Difference of the averages of the exact metric; 0 if it is only rounding error."""
        mean = float(self.differences.mean())
        return mean if sign(mean, 0.0) else 0.0

    def verdict(self, make_estimator: Callable[[int], Estimator], n_users: int) -> Verdict:
        """The verdict of `n_users` users; `make_estimator` maps n_relevant to an estimator."""
        means, variances = [], []
        for pair in self.classes:
            estimator = make_estimator(pair[0].n_better.shape[1])
            moments = [_moments(sets, estimator) for sets in pair]
            means.append(moments[0][0] - moments[1][0])
            variances.append(moments[0][1] + moments[1][1])
        mean = np.concatenate(means)
        variance = float(mean.var() + np.concatenate(variances).mean())
        return self._judged(float(mean.mean()), variance, n_users)

    def exact(self, n_users: int) -> Verdict:
        """The verdict of the exact metric."""
        return self._judged(float(self.differences.mean()), float(self.differences.var()), n_users)

    def _judged(self, mean: float, variance: float, n_users: int) -> Verdict:
        return Verdict(self.difference, mean, float(np.sqrt(variance / n_users)), n_users)


def _moments(sets: RelevantSets, estimator: Estimator) -> tuple[FloatArray, FloatArray]:
    """Expectation and variance of each user's value under sampling."""
    protocol = estimator.protocol
    mean = sets.expected(estimator, protocol.n_negatives, replacement=protocol.replacement)
    if sets.n_better.shape[1] > 1:
        return mean, sets.variance(
            estimator, protocol.n_negatives, replacement=protocol.replacement
        )
    # For one item, the square is a function of the sampled rank, too: E[x^2] - E[x]^2.
    squared_estimator = replace(estimator, values=estimator.values**2)
    mean_square = sets.expected(
        squared_estimator, protocol.n_negatives, replacement=protocol.replacement
    )
    return mean, np.maximum(mean_square - mean**2, 0.0)


def are_exact(ranks: Any) -> bool:
    """Whether the ranks come from an exact evaluation of users, not from a distribution."""
    if isinstance(ranks, Sequence) and len(ranks):
        return isinstance(ranks[0], RelevantSets)
    return isinstance(ranks, (RankIntervals, RelevantSets))


def _classes(ranks: Any, name: str) -> list[RelevantSets]:
    """The groups of users of one recommender, one for each number of relevant items."""
    if isinstance(ranks, RankIntervals):
        above, tied = ranks.n_better[:, np.newaxis], ranks.n_tied[:, np.newaxis]
        return [RelevantSets(above, tied, np.zeros_like(above), ranks.n_candidates - 1)]
    if isinstance(ranks, RelevantSets):
        return [ranks]
    if isinstance(ranks, Sequence) and all(isinstance(sets, RelevantSets) for sets in ranks):
        return list(ranks)
    raise ValueError(
        f"{name} must be RankIntervals or RelevantSets as the other one, got {ranks!r:.60}"
    )

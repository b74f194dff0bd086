"""Bounds of exact metrics from published averages of sampled metrics: HR@10, NDCG@10, MRR.

Each average is linear in the distribution of the sampled ranks, and its expectation is linear in
the distribution of the true ranks. So linear programmes with a row for each average tell whether
the averages can all be right, and bound an exact metric under each assumption. They are solved on
some ranks and bounded by their dual on all.

By Hoeffding's inequality (hoeffding1963, theorem 1), an average of N independent values in [0, 1]
deviates from its expectation by more than `b` / N nats of relative entropy with a probability of at
most ``exp(-b)`` to either side, whatever the true ranks are. This holds for each average and for
the difference of neighbouring ones; the caller chooses `b` such that all hold at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import linprog
from scipy.special import rel_entr

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..numerics.all_ranks import all_ranks, local_maxima
from ..numerics.newton import damped_newton
from ..protocol import Protocol
from .assumption import top_ranks

#: Ranks at the start, ranks added per round, rounds, and the tolerance of a bound.
_GRID, _MORE, _ROUNDS, _NEAR = 60, 8, 30, 2e-6
#: Bisection steps.
_STEPS = 60
#: Rows may miss their ends by this share of their width and count as feasible.
_SLACK = 1e-6


@lru_cache(maxsize=256)
def contrasts(metrics: tuple[Metric, ...]) -> FloatArray:
    """The averages that are bounded, as combinations of the published ones (columns).

    They are the published averages, differences of one metric at neighbouring cut-offs, and HR less
    NDCG at the same cut-off. The values of a difference lie in a short interval, so that its
    sampling error is smaller than those of its parts.
    """
    by_base: dict[str, list[Metric]] = {}
    for metric in metrics:
        base = "hit" if metric.declaration.is_hit_rate else metric.base
        by_base.setdefault(base, []).extend([metric] * bool(metric.k))
    pairs: list[tuple[Metric, Metric]] = []
    for of_base in by_base.values():
        pairs += pairwise(sorted(of_base, key=lambda metric: metric.k or 0))
    pairs += [
        (low, high)
        for low in metrics if low.base == "ndcg"
        for high in metrics if high.declaration.is_hit_rate and high.k == low.k
    ]  # fmt: skip
    rows = np.zeros((len(pairs), len(metrics)))
    for row, (low, high) in enumerate(pairs):
        rows[row, metrics.index(high)], rows[row, metrics.index(low)] = 1.0, -1.0
    combinations = np.concatenate([np.eye(len(metrics)), rows])
    combinations.setflags(write=False)
    return combinations


class Averages:
    """Bounds from averages of some metrics of the sampled rank.

    The protocol has one catalogue size and one relevant item. A million users, half of whom rank
    above both of two negatives:

    >>> from sampled_metrics import metric
    >>> half_hit = Averages(Protocol(50, 2), (metric("hit@1"),))
    >>> half = np.array([0.5])
    >>> ends = half_hit.expectations(half, half, users=1_000_000, nats=np.log(40))
    >>> [round(end, 2) for end in Population((half_hit,)).bounds(metric("hit@10"), None, *ends)]
    [0.0, 0.75]
    """

    def __init__(self, protocol: Protocol, metrics: tuple[Metric, ...]) -> None:
        n, m = int(protocol.n_items), protocol.n_negatives
        self.metrics, self.n, self.m = metrics, n, m
        self.pmf = all_ranks(protocol)
        #: Metrics of the sampled rank, (metrics, m + 1), and their expectations at each true rank.
        self.values = np.stack([metric.vector(m + 1) for metric in metrics])
        self.expected = np.stack([self.pmf.expected(vector) for vector in self.values])

    def consistent(
        self, low: FloatArray, high: FloatArray, rows: Sequence[int] | None = None
    ) -> bool:
        """Whether some list of sampled ranks has the averages (all, or `rows`) between two ends."""
        chosen = list(range(len(self.metrics)) if rows is None else rows)
        n_ranks = self.m + 1
        programme = _Programme(self.values[chosen], np.arange(n_ranks))
        return programme.feasible(low[chosen], high[chosen])

    def expectations(
        self, low: FloatArray, high: FloatArray, users: int, nats: float
    ) -> tuple[FloatArray, FloatArray]:
        """Confidence limits of the expectations of all :func:`contrasts`.

        `low` and `high` are the ends of the averages.
        """
        rows = contrasts(self.metrics)
        positive, negative = np.maximum(rows, 0.0), np.maximum(-rows, 0.0)
        lower, upper = positive @ low - negative @ high, positive @ high - negative @ low
        return _expectations(rows @ self.values, lower, upper, users, nats)

    def covariance(self, mass: FloatArray) -> FloatArray:
        """The covariance of the metrics of a user's sampled rank, for a population."""
        pmf = np.maximum(self.pmf.marginal(mass), 0.0)
        pmf /= pmf.sum()
        means = self.values @ pmf
        return np.asarray((self.values * pmf) @ self.values.T - np.outer(means, means))


class Population:
    """Bounds from all samples of one population of true ranks, in one catalogue.

    An assumption is made down to the rank that the sample with the most negatives allows.
    """

    def __init__(self, samples: tuple[Averages, ...]) -> None:
        self._samples, self._n = samples, samples[0].n
        #: Cached: the columns generated for one row of a table serve the next.
        self._programmes: dict[str | None, tuple[_Programme, int]] = {}

    def bounds(
        self, metric: Metric, assumption: str | None, low: FloatArray, high: FloatArray
    ) -> tuple[float, float]:
        """Least and largest value of an exact metric, infinite if no true ranks are possible.

        `low` and `high` are the limits of :meth:`Averages.expectations`, of one sample after the
        other.
        """
        if assumption not in self._programmes:
            self._programmes[assumption] = self._programme(assumption)
        programme, top = self._programmes[assumption]
        cost = _means(metric.vector(self._n)[np.newaxis], top)[0]
        lower, upper = programme.least(cost, low, high), -programme.least(-cost, low, high)
        return max(lower, float(cost.min())), min(upper, float(cost.max()))

    def _programme(self, assumption: str | None) -> tuple[_Programme, int]:
        """The linear programmes under an assumption, and the number of ranks it is about."""
        n, samples = self._n, self._samples
        top = 0 if assumption is None else min(top_ranks(n, sample.m) for sample in samples)
        rows = [contrasts(sample.metrics) @ _means(sample.expected, top) for sample in samples]
        cutoffs = [
            metric.k + offset
            for sample in samples for metric in sample.metrics if metric.k for offset in (-1, 0)
        ]  # fmt: skip
        grid = [*np.geomspace(1, n, _GRID), *np.linspace(1, n, _GRID), top or 1, top + 1]
        chosen = np.unique(np.clip(np.round([*np.array(grid) - 1, *cutoffs, *range(20)]), 0, n - 1))
        return _Programme(np.concatenate(rows), chosen.astype(np.int64)), top

    def most_even(self, low: FloatArray, high: FloatArray, users: Sequence[int]) -> FloatArray:
        r"""The most even distribution of true ranks that makes the averages likely.

        Maximises a normal log-likelihood of the averages plus sqrt(users) times the entropy, as
        :func:`~sampled_metrics.priors.maximum_entropy` does for sampled ranks. The solution is
        :math:`p(r) \propto \exp(\lambda \cdot g(r))`, with g(r) the expected metrics at rank r;
        Newton's method finds the multipliers. Three rounds update the covariance of the metrics.
        """
        expected = np.concatenate([sample.expected for sample in self._samples])
        midpoints, max_users = 0.5 * (low + high), max(users)
        rounding = np.diag(1e-9 + (high - low) ** 2 * max_users / 12.0)
        multipliers, mass = np.zeros(len(expected)), np.full(self._n, 1.0 / self._n)

        def dual(x: FloatArray) -> tuple[float, FloatArray]:
            tilt = x @ expected
            peak = float(tilt.max())
            mass = np.exp(tilt - peak)
            total = float(mass.sum())
            return peak + np.log(total) - x @ midpoints + 0.5 * x @ penalty @ x, mass / total

        def slopes(x: FloatArray, _: float, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
            mean = expected @ mass
            covariance = (expected * mass) @ expected.T - np.outer(mean, mean)
            return mean - midpoints + penalty @ x, covariance + penalty

        for _ in range(3):
            covariances = [
                sample.covariance(mass) * (max_users / n_users)
                for sample, n_users in zip(self._samples, users, strict=True)
            ]
            penalty = (block_diag(*covariances) + rounding) / np.sqrt(max_users)
            multipliers, _, mass = damped_newton(dual, slopes, multipliers, 1e-13)
        return mass


@lru_cache(maxsize=8)
def averages(protocol: Protocol, metrics: tuple[Metric, ...]) -> Averages:
    """A cached :class:`Averages`."""
    return Averages(protocol, metrics)


@lru_cache(maxsize=8)
def population(*samples: tuple[Protocol, tuple[Metric, ...]]) -> Population:
    """A cached :class:`Population`."""
    return Population(tuple(averages(*sample) for sample in samples))


def _means(values: FloatArray, top: int) -> FloatArray:
    """Values at single ranks, the first `top` replaced by means over the ranks so far."""
    means = values.copy()
    means[:, :top] = np.cumsum(values[:, :top], axis=1) / np.arange(1.0, top + 1)
    return means


def _expectations(
    values: FloatArray, low: FloatArray, high: FloatArray, users: int, nats: float
) -> tuple[FloatArray, FloatArray]:
    """Confidence limits of the expectations of averages between two ends.

    `values` (c, m + 1) are averaged. Each limit deviates by `nats` of relative entropy, times the
    number of users. Half of 1,000 users had a hit; the standard error is 0.016:

    >>> hit = np.array([[1.0, 0.0]])
    >>> half = np.array([0.5])
    >>> [float(end.round(3)[0]) for end in _expectations(hit, half, half, 1_000, np.log(40))]
    [0.457, 0.543]
    """
    minimum, width = values.min(axis=1), np.ptp(values, axis=1)
    scale = np.where(width > 0, width, 1.0)
    ends = []
    for published, side in ((low, 0.0), (high, 1.0)):
        scaled = np.clip((published - minimum) / scale, 0.0, 1.0)
        inner, outer = scaled, np.full_like(scaled, side)
        for _ in range(_STEPS):
            middle = 0.5 * (inner + outer)
            entropy = rel_entr(scaled, middle) + rel_entr(1.0 - scaled, 1.0 - middle)
            is_refuted = users * entropy > nats
            inner, outer = np.where(is_refuted, inner, middle), np.where(is_refuted, middle, outer)
        ends.append(minimum + scale * outer)
    return ends[0], ends[1]


@dataclass(eq=False)
class _Programme:
    """Linear programmes over mixtures of columns, solved by column generation.

    `rows` (c, columns) are bounded from both sides; `chosen` are the columns in use. The largest
    weight of the last of three values if their mean is at most 1:

    >>> programme = _Programme(np.array([[0.0, 1.0, 3.0]]), np.arange(3))
    >>> low, high = np.array([0.0]), np.array([1.0])
    >>> found = -programme.least(np.array([0.0, 0.0, -1.0]), low, high)
    >>> round(found, 6), programme.feasible(low, high), programme.feasible(low + 4, high + 4)
    (0.333333, True, False)
    """

    rows: FloatArray
    chosen: IntArray

    def least(self, cost: FloatArray, low: FloatArray, high: FloatArray) -> float:
        """Lower bound of `cost`, by the dual over all columns; infinite if proved infeasible."""
        bound = -np.inf
        for _ in range(_ROUNDS):
            solution, row_prices = self._on_chosen(cost[self.chosen], low, high)
            if solution.status == 2 and not self.feasible(low, high):
                return np.inf
            if solution.status not in (0, 2):  # the solver gave up: the bound so far is proved
                break
            if solution.status == 0:
                reduced = cost - row_prices @ self.rows
                smallest, used = float(reduced.min()), float(reduced[self.chosen].min())
                bound = max(bound, _worth(row_prices, low, high) + smallest)
                if smallest >= used - _NEAR:
                    break
                self._add(reduced, used - 0.5 * _NEAR)
        return bound

    def feasible(self, low: FloatArray, high: FloatArray) -> bool:
        """Whether some mixture lies between the ends; False is proved by the dual."""
        if (low > high).any():
            return False
        widths = 0.5 * (high - low) + 1e-6
        for _ in range(_ROUNDS):
            solution, row_prices = self._on_chosen(np.zeros(self.chosen.size), low, high, widths)
            if solution.status != 0 or solution.fun <= _SLACK:
                break
            row_prices = row_prices / max(1.0, float(np.abs(row_prices * widths).max()))
            reduced = -row_prices @ self.rows
            if _worth(row_prices, low, high) + float(reduced.min()) > _SLACK:
                return False
            self._add(reduced, float(reduced[self.chosen].min()) - 0.5 * _SLACK)
        return True

    def _add(self, reduced: FloatArray, threshold: float) -> None:
        self.chosen = np.union1d(self.chosen, local_maxima(-reduced, -threshold, _MORE))

    def _on_chosen(
        self,
        cost: FloatArray,
        low: FloatArray,
        high: FloatArray,
        widths: FloatArray | None = None,
    ) -> tuple[Any, FloatArray]:
        """Solution on the chosen columns, with the dual prices of the rows.

        Unknowns: the weights, the values of the rows and, with `widths`, by how many widths each
        row exceeds its upper end or misses its lower one.
        """
        chosen, c = self.chosen, len(self.rows)
        slacks = np.zeros((c, 0)) if widths is None else np.diag(widths)
        equalities = np.concatenate([self.rows[:, chosen], -np.eye(c), slacks, -slacks], axis=1)
        n_slacks = equalities.shape[1] - chosen.size - c
        weight_sum = np.concatenate([np.ones(chosen.size), np.zeros(c + n_slacks)])
        solution = linprog(
            np.concatenate([cost, np.zeros(c), np.ones(n_slacks)]),
            A_eq=np.concatenate([equalities, weight_sum[np.newaxis]]),
            b_eq=np.append(np.zeros(c), 1.0),
            bounds=[
                *[(0.0, None)] * chosen.size,
                *zip(low.tolist(), high.tolist(), strict=True),
                *[(0.0, None)] * n_slacks,
            ],
            method="highs",
            options={"presolve": False},
        )
        if solution.status != 0:
            return solution, np.zeros(c)
        return solution, np.asarray(solution.eqlin.marginals[:c])


def _worth(row_prices: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """Lower bound on the value of rows between the ends, at the prices `row_prices`."""
    return float(np.maximum(row_prices, 0.0) @ low - np.maximum(-row_prices, 0.0) @ high)

"""Bounds of exact metrics from averages over users of sampled metrics: HR@10, NDCG@10, MRR.

Each average is linear in the distribution q of the sampled ranks, and its expectation is linear in
the distribution p of the true ranks. So all that averages allow is a linear programme with a row
for each of them: whether they can stand together, and between which ends an exact metric lies,
under each assumption on p. The programmes are solved on some ranks and bounded by their dual on
all.

For the sampling of the negatives, averages of N independent values in [0, 1] deviate by more than
`b` nats of relative entropy, times N, with a probability of at most ``exp(-b)`` to either side
(hoeffding1963, theorem 1), whatever the true ranks of the users are. That holds for each average
and for the differences of neighbouring ones; whoever asks for bounds chooses `b` such that all of
them hold at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.special import rel_entr

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..numerics.all_ranks import all_ranks, local_maxima
from ..numerics.newton import damped_newton
from ..protocol import Protocol
from .assumption import Assumption, doublings

#: Ranks that a programme begins with, ranks added at once and how often; a bound is near enough.
_GRID, _MORE, _ROUNDS, _NEAR = 60, 8, 30, 2e-6
#: Steps of a bisection.
_STEPS = 60
#: Columns of a programme whose row is infeasible by less than this, in units of its width, pass.
_SLACK = 1e-6


@lru_cache(maxsize=256)
def contrasts(metrics: tuple[Metric, ...]) -> FloatArray:
    """Averages that are bounded, in terms of the printed ones: these, and some differences.

    The differences are of one metric at neighbouring cut-offs, and of HR and NDCG at the same
    cut-off: each is an average of values in a short interval, so that its sampling error is less
    than those of its two parts.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> contrasts((metric("hit@10"), metric("hit@5")))
    array([[ 1.,  0.],
           [ 0.,  1.],
           [ 1., -1.]])
    """
    pairs = []
    kinds = dict.fromkeys("hit" if m.kind == "recall" else m.kind for m in metrics)
    for kind in kinds:
        same = [m for m in metrics if kind in (m.kind, m.kind.replace("recall", "hit")) and m.k]
        pairs += list(pairwise(sorted(same, key=lambda m: m.k or 0)))
    pairs += [
        (low, high)
        for low in metrics if low.kind == "ndcg"
        for high in metrics if high.kind in ("hit", "recall") and high.k == low.k
    ]  # fmt: skip
    rows = np.zeros((len(pairs), len(metrics)))
    for i, (low, high) in enumerate(pairs):
        rows[i, metrics.index(high)], rows[i, metrics.index(low)] = 1.0, -1.0
    found = np.concatenate([np.eye(len(metrics)), rows])
    found.setflags(write=False)
    return found


class Averages:
    """The averages of some metrics of the sampled rank, and what they say of exact metrics.

    Parameters
    ----------
    protocol : Protocol
        With one catalogue size and one relevant item.
    metrics : tuple of Metric

    Examples
    --------
    A million users, half of whom are above both of two negatives:

    >>> from sampled_metrics import metric
    >>> found = Averages(Protocol(50, 2), (metric("hit@1"),))
    >>> half = np.array([0.5])
    >>> ends = found.expectations(half, half, users=1_000_000, nats=np.log(40))
    >>> [round(end, 2) for end in found.bounds(metric("hit@10"), None, *ends)]
    [0.0, 0.75]
    """

    def __init__(self, protocol: Protocol, metrics: tuple[Metric, ...]) -> None:
        n, m = int(protocol.n_items), protocol.n_negatives
        self.metrics, self._n, self._m = metrics, n, m
        self._pmf = all_ranks(protocol)
        #: Of the sampled rank, (metrics, m + 1), and their expectations at each true rank.
        self._values = np.stack([of.vector(m + 1) for of in metrics])
        self._expected = np.stack([self._pmf.expected(each) for each in self._values])
        #: Kept, as the ranks that one table row needs are good for the next.
        self._programmes: dict[Assumption | None, tuple[_Programme, int]] = {}

    def consistent(
        self, low: FloatArray, high: FloatArray, some: Sequence[int] | None = None
    ) -> bool:
        """Whether any list of sampled ranks has all averages, or some of them, between two ends."""
        at = list(range(len(self.metrics)) if some is None else some)
        ranks = self._m + 1
        programme = _Programme(self._values[at], np.zeros((0, ranks)), np.arange(ranks))
        return programme.feasible(low[at], high[at])

    def expectations(
        self, low: FloatArray, high: FloatArray, users: int, nats: float
    ) -> tuple[FloatArray, FloatArray]:
        """The ends of the expectations of all :func:`contrasts` of averages between two ends."""
        rows = contrasts(self.metrics)
        up, down = np.maximum(rows, 0.0), np.maximum(-rows, 0.0)
        least, most = up @ low - down @ high, up @ high - down @ low
        return _expectations(rows @ self._values, least, most, users, nats)

    def bounds(
        self, of: Metric, assumption: Assumption | None, low: FloatArray, high: FloatArray
    ) -> tuple[float, float]:
        """The least and the most of an exact metric; infinite if no true ranks are possible.

        Expectations of the contrasts are between `low` and `high`.
        """
        if assumption not in self._programmes:
            self._programmes[assumption] = self._programme(assumption)
        programme, top = self._programmes[assumption]
        target = _means(of.vector(self._n)[np.newaxis], top)[0]
        least, most = programme.least(target, low, high), -programme.least(-target, low, high)
        return max(least, float(target.min())), min(most, float(target.max()))

    def _programme(self, assumption: Assumption | None) -> tuple[_Programme, int]:
        """The programmes under an assumption, and how many ranks it is about."""
        n, top = self._n, 0
        constraints = np.zeros((0, n))
        if assumption is not None:
            top = assumption.top(n, self._m)
            upto = np.arange(1.0, top + 1)[:, np.newaxis]
            within = np.minimum(doublings(top), upto) / upto
            constraints = np.pad(assumption.constraints(within), ((0, 0), (0, n - top)))
        rows = contrasts(self.metrics) @ _means(self._expected, top)
        near = [of.k + d for of in self.metrics if of.k for d in (-1, 0)]
        steps = [*np.geomspace(1, n, _GRID), *np.linspace(1, n, _GRID), top or 1, top + 1]
        chosen = np.unique(np.clip(np.round([*np.array(steps) - 1, *near, *range(20)]), 0, n - 1))
        return _Programme(rows, constraints, chosen.astype(np.int64)), top

    def most_even(self, low: FloatArray, high: FloatArray, users: int) -> FloatArray:
        r"""The most even distribution of true ranks that makes the averages likely.

        It maximises a normal log-likelihood of the averages plus the square root of the number of
        users times the entropy, as :func:`~sampled_metrics.priors.maximum_entropy` does for the
        sampled ranks themselves: :math:`p(r) \propto \exp(\lambda \cdot g(r))`, with g(r) the
        expected metrics at rank r, by Newton's method for the multipliers. The covariance of the
        metrics is that under the distribution that is found, in a few rounds.
        """
        values, expected, middle = self._values, self._expected, 0.5 * (low + high)
        rounding = np.diag(1e-9 + (high - low) ** 2 * users / 12.0)
        multipliers, mass = np.zeros(len(values)), np.full(self._n, 1.0 / self._n)

        def dual(x: FloatArray) -> tuple[float, FloatArray]:
            tilt = x @ expected
            top = float(tilt.max())
            mass = np.exp(tilt - top)
            total = float(mass.sum())
            return top + np.log(total) - x @ middle + 0.5 * x @ penalty @ x, mass / total

        def slopes(x: FloatArray, _: float, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
            mean = expected @ mass
            covariance = (expected * mass) @ expected.T - np.outer(mean, mean)
            return mean - middle + penalty @ x, covariance + penalty

        for _ in range(3):
            q = np.maximum(self._pmf.marginal(mass), 0.0)
            q /= q.sum()
            covariance = (values * q) @ values.T - np.outer(values @ q, values @ q)
            penalty = (covariance + rounding) / np.sqrt(users)
            multipliers, _, mass = damped_newton(dual, slopes, multipliers, 1e-13)
        return mass


@lru_cache(maxsize=8)
def averages(protocol: Protocol, metrics: tuple[Metric, ...]) -> Averages:
    """The averages of a protocol, made once."""
    return Averages(protocol, metrics)


def _means(values: FloatArray, top: int) -> FloatArray:
    """The columns of values at ranks: their means over the first 1, 2, ..., `top`; then these."""
    found = values.copy()
    found[:, :top] = np.cumsum(values[:, :top], axis=1) / np.arange(1.0, top + 1)
    return found


def _expectations(
    values: FloatArray, low: FloatArray, high: FloatArray, users: int, nats: float
) -> tuple[FloatArray, FloatArray]:
    """The ends of the expectations of averages that lie between `low` and `high`.

    Parameters
    ----------
    values : ndarray of float, shape (c, m + 1)
        What is averaged.
    low, high : ndarray of float, shape (c,)
    users : int
    nats : float
        Of relative entropy, times the number of users, that an average may deviate by.

    Examples
    --------
    Half of 1,000 users had a hit; the standard error is 0.016:

    >>> hit = np.array([[1.0, 0.0]])
    >>> half = np.array([0.5])
    >>> [float(end.round(3)[0]) for end in _expectations(hit, half, half, 1_000, np.log(40))]
    [0.457, 0.543]
    """
    least, width = values.min(axis=1), np.ptp(values, axis=1)
    scale = np.where(width > 0, width, 1.0)
    ends = []
    for at, side in ((low, 0.0), (high, 1.0)):
        seen = np.clip((at - least) / scale, 0.0, 1.0)
        inner, outer = seen, np.full_like(seen, side)
        for _ in range(_STEPS):
            middle = 0.5 * (inner + outer)
            apart = rel_entr(seen, middle) + rel_entr(1.0 - seen, 1.0 - middle)
            far = users * apart > nats
            inner, outer = np.where(far, inner, middle), np.where(far, middle, outer)
        ends.append(least + scale * outer)
    return ends[0], ends[1]


@dataclass(eq=False)
class _Programme:
    """Linear programmes over mixtures of columns; some columns are used, all are looked at.

    Attributes
    ----------
    rows : ndarray of float, shape (c, columns)
        What is bounded from both sides.
    constraints : ndarray of float, shape (r, columns)
        What must not be negative.
    chosen : ndarray of int
        The columns that are used.

    Examples
    --------
    The most that the last of three values can weigh where their mean is at most 1:

    >>> programme = _Programme(np.array([[0.0, 1.0, 3.0]]), np.zeros((0, 3)), np.arange(3))
    >>> low, high = np.array([0.0]), np.array([1.0])
    >>> found = -programme.least(np.array([0.0, 0.0, -1.0]), low, high)
    >>> round(found, 6), programme.feasible(low, high), programme.feasible(low + 4, high + 4)
    (0.333333, True, False)
    """

    rows: FloatArray
    constraints: FloatArray
    chosen: IntArray

    def least(self, target: FloatArray, low: FloatArray, high: FloatArray) -> float:
        """The least of `target`, or a little less: the dual's bound on all columns.

        Infinite if the dual proves that no mixture is between the ends.
        """
        best = -np.inf
        for _ in range(_ROUNDS):
            found, y, z = self._on_chosen(target[self.chosen], low, high)
            if found.status == 2 and not self.feasible(low, high):
                return np.inf
            if found.status not in (0, 2):  # the solver gave up: the bound so far is proved
                break
            if found.status == 0:
                reduced = target - y @ self.rows - z @ self.constraints
                least, used = float(reduced.min()), float(reduced[self.chosen].min())
                best = max(best, _worth(y, low, high) + least)
                if least >= used - _NEAR:
                    break
                self._add(reduced, used - 0.5 * _NEAR)
        return best

    def feasible(self, low: FloatArray, high: FloatArray) -> bool:
        """Whether some mixture is between the ends; if not, the dual proves it."""
        if (low > high).any():
            return False
        widths = 0.5 * (high - low) + 1e-6
        for _ in range(_ROUNDS):
            found, y, z = self._on_chosen(np.zeros(self.chosen.size), low, high, widths)
            if found.status != 0 or found.fun <= _SLACK:
                break
            y = y / max(1.0, float(np.abs(y * widths).max()))
            reduced = -y @ self.rows - z @ self.constraints
            if _worth(y, low, high) + float(reduced.min()) > _SLACK:
                return False
            self._add(reduced, float(reduced[self.chosen].min()) - 0.5 * _SLACK)
        return True

    def _add(self, reduced: FloatArray, below: float) -> None:
        self.chosen = np.union1d(self.chosen, local_maxima(-reduced, -below, _MORE))

    def _on_chosen(
        self,
        target: FloatArray,
        low: FloatArray,
        high: FloatArray,
        widths: FloatArray | None = None,
    ) -> tuple[Any, FloatArray, FloatArray]:
        """What the solver found, and its prices of the rows and of the constraints.

        Its unknowns are the weights of the chosen columns, the values of the rows and, with
        `widths`, how many of these each row is above its upper end, and below its lower one.
        """
        at, c, r = self.chosen, len(self.rows), len(self.constraints)
        slacks = np.zeros((c, 0)) if widths is None else np.diag(widths)
        equal = np.concatenate([self.rows[:, at], -np.eye(c), slacks, -slacks], axis=1)
        free = equal.shape[1] - at.size - c
        total = np.concatenate([np.ones(at.size), np.zeros(c + free)])
        found = linprog(
            np.concatenate([target, np.zeros(c), np.ones(free)]),
            A_ub=np.pad(-self.constraints[:, at], ((0, 0), (0, c + free))) if r else None,
            b_ub=np.zeros(r) if r else None,
            A_eq=np.concatenate([equal, total[np.newaxis]]),
            b_eq=np.append(np.zeros(c), 1.0),
            bounds=[
                *[(0.0, None)] * at.size,
                *zip(low.tolist(), high.tolist(), strict=True),
                *[(0.0, None)] * free,
            ],
            method="highs",
            options={"presolve": False},
        )
        if found.status != 0:
            return found, np.zeros(c), np.zeros(r)
        prices = np.maximum(-found.ineqlin.marginals, 0.0) if r else np.zeros(0)
        return found, np.asarray(found.eqlin.marginals[:c]), prices


def _worth(y: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """What prices of rows are worth, at least, whatever is between the ends."""
    return float(np.maximum(y, 0.0) @ low - np.maximum(-y, 0.0) @ high)

"""Values for counts of sampled documents: estimates of a metric, and bounds of it.

A relevant document stands below k - 1 kept documents and b others of the corpus, so that its rank
is k + b. In a sample of m of these n others, x is hypergeometric. Three kinds of values v(x):

- *middle* ones minimise squared bias plus gamma times variance, as
  :func:`~sampled_metrics.estimators.bias_variance` does;
- *low* and *high* ones have expectations of at most and at least the metric at every rank, so that
  their means bound it whatever the ranks are. Linear programmes choose, of all such values, those
  whose expectation is closest to the metric plus a penalty times their mean deviation from a
  constant: a small penalty is a small bias, and a large one a small variance.

All three are made for a prior of ranks, (k + b) to the power -s, whose steepness s is the likeliest
for a system's counts. A wrong prior makes ranges wide, and not false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..numerics.distributions import log_hypergeometric

#: Numbers of documents above that are nodes of the prior one by one.
_FINE = 60
#: Counts above this are not told apart.
_MOST_COUNTED = 4_000
STEEPNESSES = (1.0, 2.0, 4.0)
#: The part of each prior with the steepness 1.
_SHARE_OF_TAIL = 0.05
#: Penalties of the mean deviation, of which the narrowest range is chosen.
PENALTIES = (0.15, 0.5)
#: Weights of the variance to choose from for the middle values.
_GAMMAS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
#: Variance of a mean over queries, as a multiple of that for independent relevant documents, when
#: gamma is chosen: those of one query share the documents above them.
_DESIGN_EFFECT = 2.0


class CorpusValues(NamedTuple):
    """Values of a metric for each position k and count x.

    Attributes
    ----------
    positions : ndarray of int, shape (p,)
        The k that there are values for, in order.
    rows : ndarray of float, shape (1 + 2 penalties, p, x)
        The middle values, then the low ones for each penalty, then the high ones. The bounds hold
        at all nodes of the prior, and to within 0.0002 between them. The last x stands for all
        larger ones, too.
    variances : ndarray of float, shape (1 + 2 penalties, p)
        Variances of the values, given the rank, on average over the prior.
    """

    positions: IntArray
    rows: FloatArray
    variances: FloatArray


@dataclass(frozen=True, eq=False)
class Sampling:
    """The distribution of x, in bins, at nodes b; `last_rank` is the deepest rank that counts."""

    n_others: int
    n_sampled: int
    last_rank: int | None

    @cached_property
    def largest(self) -> int:
        """The count from which on all are in one bin."""
        if self.last_rank is None:
            return min(self.n_sampled, _MOST_COUNTED)
        expected = self.last_rank * self.n_sampled / self.n_others
        return min(self.n_sampled, int(expected + 10.0 * np.sqrt(expected) + 30.0))

    @cached_property
    def nodes(self) -> IntArray:
        """Numbers of documents above: each of the first, then steps below the spread of x."""
        nodes = [*range(min(max(_FINE, self.last_rank or 0), self.n_others) + 1)]
        share = self.n_sampled / self.n_others
        last_node = (self.largest + 10.0 * np.sqrt(self.largest) + 30.0) / share
        while nodes[-1] < min(last_node, self.n_others):
            b = nodes[-1]
            nodes.append(min(b + max(1, int(b / max(40.0, np.sqrt(b * share)))), self.n_others))
        return np.unique([*nodes, self.n_others])

    @cached_property
    def starts(self) -> IntArray:
        """The first count of each bin."""
        starts = [0]
        while starts[-1] < self.largest:
            starts.append(min(max(starts[-1] + 1, int(1.25 * starts[-1])), self.largest))
        return np.array(starts)

    @cached_property
    def bins(self) -> IntArray:
        """The bin of each count up to the largest."""
        return np.searchsorted(self.starts, np.arange(self.largest + 1), side="right") - 1

    @cached_property
    def pmf(self) -> FloatArray:
        """The probability of each bin at each node."""
        x, nodes = np.arange(self.largest), self.nodes[:, np.newaxis]
        pmf = np.exp(log_hypergeometric(x, self.n_sampled, nodes, self.n_others))
        sums = np.add.reduceat(pmf, self.starts[:-1], axis=1)
        return np.column_stack([sums, np.maximum(1.0 - sums.sum(axis=1), 0.0)])

    def prior(self, position: int, steepness: float) -> FloatArray:
        """The integral of (k + b) to the power -s over the b that each node stands for, as shares.

        A node stands for the b from the geometric mean with the node before. A part of each prior
        has s = 1, so that values stay small where a steep one has no weight.
        """
        nodes = self.nodes.astype(float)
        first = np.append(0.0, np.floor(np.sqrt(nodes[1:] * nodes[:-1])) + 1.0)
        edges = np.append(first, nodes[-1] + 1.0) + position - 0.5
        shares = []
        for s in (steepness, 1.0):
            integral = np.log(edges) if s == 1 else edges ** (1 - s) / (1 - s)
            shares.append(np.diff(integral) / (integral[-1] - integral[0]))
        return np.asarray((1.0 - _SHARE_OF_TAIL) * shares[0] + _SHARE_OF_TAIL * shares[1])

    def log_likelihood(self, position: int, counts: IntArray, steepness: float) -> FloatArray:
        """Of each count at a position."""
        marginal = self.prior(position, steepness) @ self.pmf
        bins = self.bins[np.minimum(counts, self.largest)]
        return np.asarray(np.log(np.maximum(marginal[bins], np.finfo(float).tiny)))

    def fitted(self, targets: FloatArray, prior: FloatArray, gamma: float) -> FloatArray:
        """The middle values of each column of targets at the nodes, by ridge regression."""
        scale = np.sqrt(np.maximum(prior @ self.pmf, np.finfo(float).tiny))
        roots = np.sqrt(prior)[:, np.newaxis]
        rows = roots * self.pmf / scale
        matrix = (1.0 - gamma) * rows @ rows.T
        matrix.flat[:: len(matrix) + 1] += gamma
        return np.asarray((rows.T @ cho_solve(cho_factor(matrix), roots * targets)).T / scale)

    def above(self, target: FloatArray, prior: FloatArray, penalty: float) -> FloatArray:
        """Values with expectations of at least the target at every node, by a linear programme."""
        from scipy.optimize import linprog  # takes as long to import as all the rest

        lowest, highest = float(target.min()), float(target.max())
        # Unknown are the values, their deviations from a constant, and that constant.
        n_bins = self.starts.size
        weights, eye, ones = prior @ self.pmf, np.eye(n_bins), np.ones((n_bins, 1))
        reach = np.hstack([-self.pmf, np.zeros((self.nodes.size, n_bins + 1))])
        deviations = np.vstack([np.hstack([eye, -eye, -ones]), np.hstack([-eye, -eye, ones])])
        solved = linprog(
            np.concatenate([weights, penalty * weights, [0.0]]),
            A_ub=np.vstack([reach, deviations]),
            b_ub=np.concatenate([-target, np.zeros(2 * n_bins)]),
            # Values far outside the metric's range gain little and vary much.
            bounds=[(2 * lowest - highest, 2 * highest - lowest)] * n_bins
            + [(None, None)] * (n_bins + 1),
            method="highs",
        )
        solution = solved.x[:n_bins] if solved.success else np.full(n_bins, target.max())
        # The programme is solved to a tolerance; beyond it, add what lacks.
        return np.asarray(solution + max(0.0, float(np.max(target - self.pmf @ solution))))

    def variances(self, values: FloatArray, prior: FloatArray) -> FloatArray:
        """The variance of each row of values, given the rank, on average over a prior."""
        spread = self.pmf @ values.T**2 - (self.pmf @ values.T) ** 2
        return np.asarray(prior @ np.maximum(spread, 0.0))


@lru_cache(maxsize=16)
def sampling(n_others: int, n_sampled: int, last_rank: int | None) -> Sampling:
    """See :class:`Sampling`; its arrays are made once."""
    return Sampling(n_others, n_sampled, last_rank)


def _firsts(last: int, step: float) -> list[int]:
    """First positions of classes, up to one after the deepest: twelve alone, then by a step.

    >>> _firsts(14, 1.1)[-4:]
    [11, 12, 14, 16]
    """
    firsts = [*range(1, 13)]
    while firsts[-1] <= last:
        firsts.append(int(firsts[-1] * step) + 1)
    return firsts


def values(
    metric: Metric,
    n_others: int,
    n_sampled: int,
    positions: Sequence[int] | IntArray,
    n_queries: int,
    steepness: float,
    gamma: float | None = None,
) -> CorpusValues:
    """Values for `positions`, for a prior of one steepness.

    By default gamma is that of the least squared bias plus variance of a mean over `n_queries`
    relevant documents, at the prior.
    """
    distinct = np.unique(positions)
    n_rows = 1 + 2 * len(PENALTIES)
    if metric.linear:  # exactly unbiased
        x = np.arange(n_sampled + 1)
        row = metric.unscaled(distinct[:, np.newaxis] + x * (n_others / n_sampled))
        return CorpusValues(distinct, np.stack([row] * n_rows), np.zeros((n_rows, distinct.size)))
    draws = sampling(n_others, n_sampled, metric.cutoff)
    rows = np.zeros((n_rows, distinct.size, draws.largest + 1))
    variances = np.zeros((n_rows, distinct.size))
    is_counted = distinct <= (metric.cutoff or np.inf)
    if gamma is None:
        gamma = _gamma(metric, n_others, n_sampled, steepness, n_queries)
    # 1 / (k + b) is nearly the same for near positions; what is cut at a rank is not.
    firsts = _firsts(int(distinct[-1]), 1.5 if metric.cutoff is None else 1.15)
    for first, after in pairwise(firsts):
        of_class = np.flatnonzero(is_counted & (distinct >= first) & (distinct < after))
        if not of_class.size:
            continue
        prior = draws.prior(first, steepness)
        targets = metric.unscaled(draws.nodes[:, np.newaxis] + distinct[of_class])
        middle = draws.fitted(targets, prior, gamma)
        # The metric falls with the rank: the first position bounds the class, as does the last.
        ends = _ends(metric, n_others, n_sampled, first, after - 1, steepness)
        rows[0, of_class] = middle[:, draws.bins]
        rows[1:, of_class] = ends[:, np.newaxis, draws.bins]
        variances[0, of_class] = draws.variances(middle, prior)
        variances[1:, of_class] = draws.variances(ends, prior)[:, np.newaxis]
    return CorpusValues(distinct, rows, variances)


@lru_cache(maxsize=4096)
def _ends(
    metric: Metric, n_others: int, n_sampled: int, first: int, last: int, steepness: float
) -> FloatArray:
    """Low values for the last position of a class and high ones for its first."""
    draws = sampling(n_others, n_sampled, metric.cutoff)
    prior, nodes = draws.prior(first, steepness), draws.nodes
    lows = [-draws.above(-metric.unscaled(nodes + last), prior, penalty) for penalty in PENALTIES]
    highs = [draws.above(metric.unscaled(nodes + first), prior, penalty) for penalty in PENALTIES]
    return np.array(lows + highs)


@lru_cache(maxsize=256)
def _gamma(
    metric: Metric, n_others: int, n_sampled: int, steepness: float, n_queries: int
) -> float:
    draws = sampling(n_others, n_sampled, metric.cutoff)
    prior, target = draws.prior(1, steepness), metric.unscaled(draws.nodes + 1)

    def squared_error(gamma: float) -> float:
        values = draws.fitted(target[:, np.newaxis], prior, gamma)
        bias = float(prior @ np.abs(draws.pmf @ values[0] - target))
        return bias**2 + _DESIGN_EFFECT * float(draws.variances(values, prior)[0]) / n_queries

    return min(_GAMMAS, key=squared_error)


cached_values = lru_cache(maxsize=64)(values)

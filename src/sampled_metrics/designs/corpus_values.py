"""Values for counts of sampled documents, and bounds on their bias.

A relevant document stands below k - 1 kept documents and b others of the corpus, so that its rank
is k + b. In a sample of m of these n others, x is hypergeometric. The values v(x) minimise squared
bias plus gamma times variance, as :func:`~sampled_metrics.estimators.bias_variance` does for a
:class:`~sampled_metrics.protocol.Stratified` design, for a prior with the weight 1 / (b + 1): each
doubling of the rank counts the same, since few relevant documents are deep in a corpus of millions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import digamma

from .._validate import FloatArray, IntArray
from ..estimators import default_gamma
from ..metrics import Metric
from ..numerics.distributions import log_hypergeometric

#: Numbers of documents above that are nodes of the prior one by one.
_FINE = 150
#: Weights of the variance to choose from, as parts of the default for independent negatives.
_PARTS = (1.0, 0.3, 0.1, 0.03, 0.01)


@dataclass(frozen=True)
class CorpusValues:
    """Values of a metric for each position k and count x, and what they may be wrong by.

    Attributes
    ----------
    positions : ndarray of int, shape (p,)
        The k that there are values for, in order.
    middle : ndarray of float, shape (p, m + 1)
        v(x).
    low, high : ndarray of float, shape (p, m + 1)
        Values whose expectations are at most, and at least, the metric at every rank. That holds
        at all nodes of the prior, and to within 0.0002 between them.
    """

    positions: IntArray
    middle: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class _Sampling:
    """The distribution of x at nodes b, with the weight of each node in the prior."""

    n_others: int
    n_sampled: int
    jumps: tuple[int, ...]

    @cached_property
    def nodes(self) -> IntArray:
        """Numbers of documents above: each of the first, then steps below the spread of x."""
        nodes = [*range(min(_FINE, self.n_others) + 1)]
        while nodes[-1] < self.n_others:
            b = nodes[-1]
            spread = np.sqrt(b * self.n_sampled / self.n_others)
            nodes.append(min(b + max(1, int(b / max(25.0, spread))), self.n_others))
        beside = [jump + i for jump in self.jumps for i in (-1, 0) if jump <= self.n_others]
        return np.unique([*nodes, *beside])

    @cached_property
    def weights(self) -> FloatArray:
        """The sum of 1 / (b + 1) over the whole numbers that a node stands for; they sum to 1."""
        nodes = self.nodes.astype(float)
        last = np.append(np.floor(np.sqrt(nodes[1:] * nodes[:-1])), nodes[-1])
        edges = digamma(np.append(0.0, last + 1.0) + 1.0)
        return np.asarray(np.diff(edges) / (edges[-1] - edges[0]))

    @cached_property
    def pmf(self) -> FloatArray:
        x = np.arange(self.n_sampled + 1)
        return np.exp(
            log_hypergeometric(x, self.n_sampled, self.nodes[:, np.newaxis], self.n_others)
        )

    def fitted(self, targets: FloatArray, gamma: float) -> FloatArray:
        """v for each column of targets at the nodes, by ridge regression in as many unknowns."""
        marginal = self.weights @ self.pmf
        scale = np.sqrt(np.maximum(marginal, np.finfo(float).tiny))
        roots = np.sqrt(self.weights)[:, np.newaxis]
        rows = roots * self.pmf / scale
        matrix = (1.0 - gamma) * rows @ rows.T
        matrix.flat[:: len(matrix) + 1] += gamma
        return np.asarray((rows.T @ cho_solve(cho_factor(matrix), roots * targets)).T / scale)

    def cover(self, errors: FloatArray) -> FloatArray:
        """For each column of errors at the nodes a u >= 0 with expectations of at least these.

        Linear programmes find u, constant on bins of x, of the least mean over the prior. There is
        one for each of the first positions, and for each tenth more; others take the last of these,
        multiplied by as much as it takes.
        """
        from scipy.optimize import linprog  # takes as long to import as all the rest

        starts = [0]
        while starts[-1] <= self.n_sampled:
            starts.append(max(starts[-1] + 1, int(1.25 * starts[-1])))
        starts = [start for start in starts if start <= self.n_sampled]
        sums = np.add.reduceat(self.pmf, starts, axis=1)
        widths = np.diff([*starts, self.n_sampled + 1])
        covers, last = np.zeros((errors.shape[1], len(starts))), -1
        for i, error in enumerate(np.maximum(errors, 0.0).T):
            expected = sums @ covers[last] if last >= 0 else np.zeros(len(sums))
            if not error.max() > 0:
                continue
            ratio = np.max(error[error > 0] / np.maximum(expected[error > 0], 1e-300))
            if i < 12 or 10 * (i - last) > i or not ratio < 4:
                solved = linprog(
                    self.weights @ sums, A_ub=-sums, b_ub=-error, bounds=(0, None), method="highs"
                )
                bins = (
                    np.maximum(solved.x, 0.0)
                    if solved.success
                    else np.full(len(starts), error.max())
                )
                covers[i], last = bins, i
                expected = sums @ bins
                ratio = np.max(error[error > 0] / np.maximum(expected[error > 0], 1e-300))
                # The programme is solved to a tolerance; beyond it, at worst add what lacks.
                covers[i] += max(0.0, float(np.max(error - expected)))
            else:
                covers[i] = covers[last] * max(ratio, 0.0)
        return np.repeat(covers, widths, axis=1)


def factors(metric: Metric, gain: FloatArray) -> FloatArray:
    """What the metric's function of the rank is multiplied by, for each document, the best first.

    The gain in NDCG is the relevance, as in trec_eval.
    """
    if metric.declaration.graded:
        ideal = np.sort(gain)[::-1][: metric.k]
        return np.asarray(gain / metric.unscaled(np.arange(1, ideal.size + 1), ideal).sum())
    weight = metric.declaration.weight(np.arange(1, gain.size + 1))
    return np.asarray(weight / metric.scale(gain.size))


def values(
    metric: Metric,
    n_others: int,
    n_sampled: int,
    positions: Sequence[int] | IntArray,
    n_queries: int,
    gamma: float | None = None,
) -> tuple[CorpusValues, float]:
    """Values for `positions`, and gamma.

    By default gamma is the part of :func:`~sampled_metrics.estimators.default_gamma` with the
    narrowest range at the prior: bounds of the bias at both ends, and two standard errors of a mean
    over `n_queries`.
    """
    places = np.unique(positions)
    x = np.arange(n_sampled + 1)
    if metric.linear:  # exactly unbiased
        row = metric.unscaled(places[:, np.newaxis] + x * (n_others / n_sampled))
        return CorpusValues(places, row, row, row), 0.0
    counted = places if metric.cutoff is None else places[places <= metric.cutoff]
    jumps = counted[:0] if metric.cutoff is None else metric.cutoff + 1 - counted
    sampling = _Sampling(n_others, n_sampled, tuple(jumps.tolist()))
    targets = metric.unscaled(sampling.nodes[:, np.newaxis] + counted)
    middle = low = high = np.zeros((places.size, n_sampled + 1))
    if counted.size:
        if gamma is None:
            choices = [part * default_gamma(n_queries) for part in _PARTS]
            gamma = min(choices, key=lambda g: _width(sampling, targets[:, :1], g, n_queries))
        fitted, errors = _with_errors(sampling, targets, gamma)
        is_counted = np.isin(places, counted)
        middle, low, high = (np.zeros((places.size, n_sampled + 1)) for _ in range(3))
        middle[is_counted] = fitted
        low[is_counted] = fitted - sampling.cover(errors)
        high[is_counted] = fitted + sampling.cover(-errors)
    return CorpusValues(places, middle, low, high), float(gamma or 0.0)


def _with_errors(
    sampling: _Sampling, targets: FloatArray, gamma: float
) -> tuple[FloatArray, FloatArray]:
    fitted = sampling.fitted(targets, gamma)
    return fitted, sampling.pmf @ fitted.T - targets


def _width(sampling: _Sampling, target: FloatArray, gamma: float, n_queries: int) -> float:
    fitted, errors = _with_errors(sampling, target, gamma)
    rows = [fitted[0] - sampling.cover(errors)[0], fitted[0] + sampling.cover(-errors)[0]]
    means = [sampling.pmf @ row for row in rows]
    variances = [
        np.maximum(sampling.pmf @ row**2 - mean**2, 0.0)
        for row, mean in zip(rows, means, strict=True)
    ]
    gap = sampling.weights @ (means[1] - means[0])
    spread = sum(2.0 * np.sqrt(sampling.weights @ v / n_queries) for v in variances)
    return float(gap + spread)


cached_values = lru_cache(maxsize=32)(
    lambda metric, n_others, n_sampled, positions, n_queries, gamma: values(
        metric, n_others, n_sampled, positions, n_queries, gamma
    )
)

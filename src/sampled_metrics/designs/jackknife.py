"""Estimates where one sub-corpus serves all queries, with a jackknife over its documents.

A sampled document above the relevant ones of many queries moves all of these together. So the
queries are not independent, and the variance comes from a jackknife over the m sampled documents.
Let T_d be the estimate without document d, by the values for m - 1 documents. Reported is the mean
of the T_d, with

.. math:: V = \\Bigl(1 - \\frac{m - 1}{n}\\Bigr) \\sum_d (T_d - \\bar T)^2 .

**Theorem.** For uniform samples without replacement from n documents, :math:`E V` is at least the
variance of :math:`\\bar T`, whatever the rankings are.

*Proof.* T_d is a function t of a sample A of r = m - 1 documents, and :math:`\\bar T` is its
conditional expectation given the sample of m. So :math:`Var\\,\\bar T \\le Var\\,t(A)`. Write t as
the sum of its Hoeffding components of order k = 0, ..., min(r, n - r), with the variances
:math:`s_k^2`. They are eigenvectors of exchanging a random document of A for one outside, with the
eigenvalues :math:`1 - \\lambda_k / r`, where :math:`\\lambda_k = k (n + 1 - k) / (n - r)`. The
samples without d and without d' are such neighbours, so that :math:`E \\sum_d (T_d - \\bar T)^2` is
:math:`\\sum_k \\lambda_k s_k^2`. The factor 1 - r/n leaves :math:`k (n + 1 - k) / n` of each
:math:`\\lambda_k`, which is at least 1 for 1 <= k <= n. So E V is at least the sum of the
:math:`s_k^2`, the variance of t(A).

**The mean.** Reported is :math:`\\bar T`, and for it the textbook's jackknife is enough: V times
(m - 1) (n - m) / (m (n - m + 1)) still has an expectation of at least :math:`Var\\,\\bar T`. The
appendix on one sample has the proof.

**Coverage.** Both ends of a range have values of their own, whose expectations are at most and at
least the metric at every rank, so that bias is allowed for. V is as good as the documents that it
has seen: if no sampled document moves an end, V is 0 though others would. So each variance is at
least what the values would have, given the ranks, under the prior that they were made for, if the
relevant documents were independent. For a population of queries the variance between queries,
s²/Q, is added, which counts the independent part of the sampling twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from .._validate import FloatArray
from ..log.sub_corpus import Order, SubCorpus
from ..metrics import Metric, factors
from . import corpus_values
from .corpus_values import CorpusValues, cached_values

#: Below this many degrees of freedom a handful of documents make V, as hubs do.
_FEWEST_DEGREES = 6.0
_N_ENDS = len(corpus_values.PENALTIES)


class Evaluated(NamedTuple):
    """A system on a metric, or the difference of two.

    The columns of the arrays are the middle values, the low ones for each penalty, and the high
    ones.
    """

    reported: float
    by_document: FloatArray
    """T_d, the mean over queries without sampled document d; shape (m, columns)."""
    by_query: FloatArray
    """Means over d, for each query; shape (queries, columns)."""
    floors: FloatArray
    """The least variance that each query adds: see the module's text; shape (queries, columns)."""
    n_others: int

    def minus(self, other: Evaluated) -> Evaluated:
        # The low end of a difference is the low end of the first minus the high end of the second.
        swapped = [0, *range(1 + _N_ENDS, 1 + 2 * _N_ENDS), *range(1, 1 + _N_ENDS)]
        gaps = np.abs(self.by_query - other.by_query).max(axis=1, keepdims=True)
        return Evaluated(
            self.reported - other.reported,
            self.by_document - other.by_document[:, swapped],
            self.by_query - other.by_query[:, swapped],
            (self.floors + other.floors[:, swapped]) * (gaps > 1e-12),
            self.n_others,
        )

    @property
    def means(self) -> FloatArray:
        return np.asarray(self.by_query.mean(axis=0))

    @property
    def value(self) -> float:
        return float(self.means[0])

    @property
    def error(self) -> float:
        """The standard error of the middle, for these queries."""
        return float(np.sqrt(self._variances()[0][0]))

    @property
    def population_error(self) -> float:
        """The same for queries like these."""
        return float(np.sqrt(self._variances(population=True)[0][0]))

    @property
    def is_exact(self) -> bool:
        """Whether the whole corpus was ranked."""
        return not self.floors.any() and bool(np.ptp(self.by_document) == 0)

    @property
    def is_even(self) -> bool:
        """Whether no few documents make most of V."""
        return bool(self._variances()[1][0] >= _FEWEST_DEGREES)

    def _variances(self, *, population: bool = False) -> tuple[FloatArray, FloatArray]:
        """The variance of each column, and its degrees of freedom.

        Degrees of freedom of V are by the kurtosis of the T_d: few if a hub makes most of it. Those
        of a sum are Welch and Satterthwaite's.
        """
        squares, m = (self.by_document - self.by_document.mean(axis=0)) ** 2, len(self.by_document)
        total = squares.sum(axis=0)
        variances = (m - 1) * (self.n_others - m) / (m * self.n_others) * total
        scaled = squares / np.where(total > 0, total, 1.0)
        freedom = 2.0 / np.maximum((scaled**2).sum(axis=0) - 1.0 / m, 2.0 / m)
        freedom = np.where(total > 0, np.maximum(freedom, 1.0), m)
        variances = np.maximum(variances, self.floors.sum(axis=0))
        if not population:
            return variances, freedom
        n_queries = len(self.by_query)
        between = self.by_query.var(axis=0, ddof=1) / n_queries
        sums = variances + between
        ratios = variances**2 / freedom + between**2 / (n_queries - 1)
        return sums, np.where(sums > 0, sums**2 / np.where(ratios > 0, ratios, 1.0), 1.0)

    def range(self, confidence: float, *, population: bool = False) -> tuple[float, float]:
        """An interval for these queries, or for queries `like` these; the narrowest penalty's."""
        variances, freedom = self._variances(population=population)
        errors, ranges = np.sqrt(variances), []
        for low in range(1, 1 + _N_ENDS):
            ends = [low, low + _N_ENDS]
            bottom, top = self.means[ends].tolist()
            error = errors[ends]
            times = _times(top - bottom, float(error.max()), float(freedom[ends].min()), confidence)
            ranges.append((bottom - times * float(error[0]), top + times * float(error[1])))
        return min(ranges, key=lambda ends: ends[1] - ends[0])


def _times(gap: float, error: float, freedom: float, confidence: float) -> float:
    """How many standard errors to go beyond the ends of a gap, by Student's t.

    A value in a wide gap can miss at one end only, so that this is less than for a gap of 0 (Imbens
    and Manski, 2004).

    >>> round(_times(0.0, 1.0, 1e6, 0.95), 2), round(_times(9.0, 1.0, 1e6, 0.95), 2)
    (1.96, 1.64)
    """
    low, high = float(stdtrit(freedom, confidence)), float(stdtrit(freedom, 0.5 + confidence / 2))
    if not error > 0:
        return 0.0
    for _ in range(40):  # bisection
        times = (low + high) / 2
        is_enough = stdtr(freedom, times + max(gap, 0.0) / error) - stdtr(freedom, -times)
        low, high = (low, times) if is_enough >= confidence else (times, high)
    return high


def evaluated(log: SubCorpus, metric: Metric, gamma: float | None = None) -> dict[str, Evaluated]:
    """Each system on a metric."""
    shown = {
        name: np.array([_reported(log, metric, q, orders) for q, orders in enumerate(by_query)])
        for name, by_query in log.orders.items()
    }
    if log.n_sampled == log.n_others:  # the whole corpus was ranked: only the queries are a sample
        n_columns = 1 + 2 * _N_ENDS
        return {
            name: Evaluated(
                float(by_query.mean()),
                np.full((2, n_columns), by_query.mean()),
                np.tile(by_query[:, np.newaxis], n_columns),
                np.zeros((by_query.size, n_columns)),
                log.n_others,
            )
            for name, by_query in shown.items()
        }
    result = {}
    for name, by_query in shown.items():
        all_orders = [order for orders in log.orders[name] for order in orders]
        positions = np.unique(np.concatenate([order.position for order in all_orders]))
        values = partial(
            _values,
            metric=metric,
            positions=tuple(positions.tolist()),
            n_queries=len(log.queries),
            steepness=_steepness(log, metric, log.orders[name]),
            gamma=gamma,
        )
        result[name] = _without_each(log, metric, name, values, float(by_query.mean()))
    return result


def _values(n_others: int, n_sampled: int, **options: Any) -> CorpusValues:
    """Values for one document fewer than those sampled."""
    return cached_values(n_others=n_others, n_sampled=n_sampled - 1, **options)


def _steepness(log: SubCorpus, metric: Metric, by_query: list[list[Order]]) -> float:
    """The likeliest steepness for the counts of a system's relevant documents."""
    if metric.linear:
        return 1.0
    draws = corpus_values.sampling(log.n_others, log.n_sampled - 1, metric.cutoff)
    weight, position, count = (
        np.concatenate(arrays)
        for arrays in zip(
            *(
                (factors(metric, order.gain) / len(orders), order.position, order.n_above)
                for orders in by_query
                for order in orders
            ),
            strict=True,
        )
    )
    is_counted = (weight > 0) & (position <= (metric.cutoff or np.inf))
    weight, position, count = weight[is_counted], position[is_counted], count[is_counted]
    groups = [np.flatnonzero(position == value) for value in np.unique(position)]

    def fit(steepness: float) -> float:
        return sum(
            float(weight[i] @ draws.log_likelihood(int(position[i[0]]), count[i], steepness))
            for i in groups
        )

    return max(corpus_values.STEEPNESSES, key=fit)


def _scaled(metric: Metric, gain: FloatArray, n_documents: int) -> tuple[FloatArray, float]:
    """Factors of the relevant documents' functions of the rank, and what is added to their sum."""
    if not metric.linear:
        return factors(metric, gain), 0.0
    pool = n_documents - gain.size  # AUC: 1 - (rank - order) / pool, averaged
    order = np.arange(1, gain.size + 1)
    return np.full(gain.size, 1.0 / (pool * gain.size)), float(1.0 + order.mean() / pool)


def _reported(log: SubCorpus, metric: Metric, query: int, orders: list[Order]) -> float:
    values, is_ranked = [], log.own_id is not None and log.own_id[query] >= 0
    for order in orders:
        factor, constant = _scaled(metric, order.gain, log.n_kept + log.n_sampled - is_ranked)
        values.append(constant + factor @ metric.unscaled(order.position + order.n_above))
    return float(np.mean(values))


def _without_each(
    log: SubCorpus,
    metric: Metric,
    name: str,
    values: Callable[[int, int], CorpusValues],
    reported: float,
) -> Evaluated:
    """A system by its values: only the relevant documents below d change without it.

    A query that is a sampled document itself has a sample of one document fewer, except without it.
    """
    n_columns, n_queries = 1 + 2 * _N_ENDS, len(log.queries)
    by_document = np.zeros((log.n_sampled, n_columns))
    by_query, floors = np.zeros((2, n_queries, n_columns))
    n_documents = log.corpus_size - (log.own_id is not None)
    for q, orders in enumerate(log.orders[name]):
        share, (n_others, n_sampled) = 1.0 / len(orders), log.without_own(q)
        table = values(n_others, n_sampled)
        own_id = -1 if log.own_id is None else int(log.own_id[q])
        last = table.rows.shape[2] - 1
        for order in orders:
            factor, constant = _scaled(metric, order.gain, n_documents)
            k = np.searchsorted(table.positions, order.position)
            # If all m are above a document, so are the others without any of them.
            unchanged = table.rows[:, k, np.minimum(order.n_above, last)].T
            removed = table.rows[:, k, np.clip(order.n_above - 1, 0, last)].T
            changes = factor[:, np.newaxis] * (removed - unchanged)
            below = np.vstack([np.cumsum(changes[::-1], axis=0)[::-1], np.zeros(n_columns)])
            baseline = constant + factor @ unchanged
            change = below[order.n_better]
            if n_sampled < log.n_sampled:
                rows = values(n_others, log.n_sampled).rows
                above = np.minimum(order.n_above, rows.shape[2] - 1)
                change[own_id] = constant + factor @ rows[:, k, above].T - baseline
            by_document += share * (baseline + change)
            by_query[q] += share * (baseline + change.mean(axis=0))
            floors[q] += share * (table.variances[:, k] @ factor**2)
    return Evaluated(
        reported, by_document / n_queries, by_query, floors / n_queries**2, log.n_others
    )

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

**Coverage.** For the queries at hand V is enough. For a population of queries, V plus the variance
between queries, s²/Q, is at least the variance on average: it counts the independent part of the
sampling twice. Ranges here use the sum, and so cover both. Both ends have values of their own,
whose expectations are at most and at least the metric at every rank, so that bias is allowed for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from .._validate import FloatArray, IntArray
from ..log.sub_corpus import Order, SubCorpus
from ..metrics import Metric
from .corpus_values import cached_values, factors


class Totals(NamedTuple):
    """An estimate, or one end of its range, for each sample without one document and each query."""

    by_document: FloatArray
    """T_d, the mean over queries without sampled document d."""
    by_query: FloatArray
    """Means over d, for each query."""
    n_others: int

    def minus(self, other: Totals) -> Totals:
        return Totals(
            self.by_document - other.by_document, self.by_query - other.by_query, self.n_others
        )

    @property
    def value(self) -> float:
        return float(self.by_query.mean())

    @property
    def variances(self) -> tuple[float, float]:
        """V by the jackknife over documents, and that of the mean by the spread of queries."""
        m, n_queries = self.by_document.size, self.by_query.size
        gaps = self.by_document - self.by_document.mean()
        by_documents = (1.0 - (m - 1) / self.n_others) * float(gaps @ gaps)
        return by_documents, float(self.by_query.var(ddof=1)) / n_queries

    @property
    def error(self) -> float:
        return float(np.sqrt(sum(self.variances)))

    def half_width(self, confidence: float) -> float:
        """Student's, with Welch and Satterthwaite's degrees of freedom of a sum of variances."""
        parts = np.array(self.variances)
        if not parts.sum() > 0:
            return 0.0
        degrees = np.array([self.by_document.size, self.by_query.size]) - 1
        freedom = parts.sum() ** 2 / (parts**2 / degrees).sum()
        return float(stdtrit(freedom, 0.5 + confidence / 2)) * self.error


class Evaluated(NamedTuple):
    """A system on a metric: what the sub-corpus shows, the estimate, and the ends of its range."""

    reported: float
    low: Totals
    middle: Totals
    high: Totals

    def minus(self, other: Evaluated) -> Evaluated:
        return Evaluated(
            self.reported - other.reported,
            self.low.minus(other.high),
            self.middle.minus(other.middle),
            self.high.minus(other.low),
        )

    def range(self, confidence: float) -> tuple[float, float]:
        return (
            self.low.value - self.low.half_width(confidence),
            self.high.value + self.high.half_width(confidence),
        )


def totals(
    log: SubCorpus, metric: Metric, gamma: float | None = None
) -> tuple[dict[str, Evaluated], float]:
    """Each system on a metric, and the gamma of the values."""
    shown = {
        name: np.array([_reported(log, metric, orders) for orders in by_query])
        for name, by_query in log.orders.items()
    }
    if log.n_sampled == log.n_others:  # the whole corpus was ranked: only the queries are a sample
        evaluated = {}
        for name, by_query in shown.items():
            exact = Totals(np.full(2, by_query.mean()), by_query, log.n_others)
            evaluated[name] = Evaluated(exact.value, exact, exact, exact)
        return evaluated, 0.0
    n_left = log.n_sampled - 1
    positions = np.unique(
        [
            k
            for orders in log.orders.values()
            for query in orders
            for order in query
            for k in order.position
        ]
    )
    made, gamma = cached_values(
        metric, log.n_others, n_left, tuple(positions.tolist()), len(log.queries), gamma
    )
    evaluated = {}
    for name, by_query in shown.items():
        ends = (made.low, made.middle, made.high)
        evaluated[name] = Evaluated(
            float(by_query.mean()),
            *(_without_each(log, metric, name, made.positions, rows) for rows in ends),
        )
    return evaluated, gamma


def _scaled(metric: Metric, gain: FloatArray, n_documents: int) -> tuple[FloatArray, float]:
    """Factors of the relevant documents' functions of the rank, and what is added to their sum."""
    if not metric.linear:
        return factors(metric, gain), 0.0
    pool = n_documents - gain.size  # AUC: 1 - (rank - place) / pool, averaged
    place = np.arange(1, gain.size + 1)
    return np.full(gain.size, 1.0 / (pool * gain.size)), float(1.0 + place.mean() / pool)


def _reported(log: SubCorpus, metric: Metric, orders: list[Order]) -> float:
    parts = []
    for order in orders:
        factor, constant = _scaled(metric, order.gain, log.n_kept + log.n_sampled)
        parts.append(constant + factor @ metric.unscaled(order.position + order.n_above))
    return float(np.mean(parts))


def _without_each(
    log: SubCorpus, metric: Metric, name: str, positions: IntArray, rows: FloatArray
) -> Totals:
    """Totals of values: only the relevant documents below d change without it."""
    by_document, by_query = np.zeros(log.n_sampled), np.zeros(len(log.queries))
    last = rows.shape[1] - 1
    for q, orders in enumerate(log.orders[name]):
        for order in orders:
            factor, constant = _scaled(metric, order.gain, log.corpus_size)
            k = np.searchsorted(positions, order.position)
            # If all m are above a document, so are the others without any of them.
            kept = rows[k, np.minimum(order.n_above, last)]
            removed = rows[k, np.maximum(order.n_above - 1, 0)]
            changes = factor * (removed - kept)
            below = np.append(np.cumsum(changes[::-1])[::-1], 0.0)
            share = 1.0 / len(orders)
            whole = constant + factor @ kept
            change = below[order.n_better]
            by_document += share * (whole + change)
            by_query[q] += share * (whole + change.mean())
    return Totals(by_document / len(log.queries), by_query, log.n_others)

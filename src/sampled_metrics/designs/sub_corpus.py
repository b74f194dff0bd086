"""Estimates and verdicts where one sub-corpus serves all queries.

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

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from .. import _ranges
from .._confidence import LARGE_SAMPLE, NONE, UNDECIDED, Assumed
from .._validate import FloatArray, IntArray, as_written
from ..log.sub_corpus import Order, SubCorpus
from ..metrics import Metric
from ..results import Comparison, Estimates, table_of
from .corpus_values import cached_values, factors, shape
from .rows import ComparisonRow


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
    """Factors of the relevant documents' shapes, and what is added to their sum."""
    if not metric.linear:
        return factors(metric, gain), 0.0
    pool = n_documents - gain.size  # AUC: 1 - (rank - place) / pool, averaged
    place = np.arange(1, gain.size + 1)
    return np.full(gain.size, 1.0 / (pool * gain.size)), float(1.0 + place.mean() / pool)


def _reported(log: SubCorpus, metric: Metric, orders: list[Order]) -> float:
    parts = []
    for order in orders:
        factor, constant = _scaled(metric, order.gain, log.n_kept + log.n_sampled)
        parts.append(constant + factor @ shape(metric, order.position + order.n_above))
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


#: What the notes of every result say.
_CAVEAT = (
    "sampled documents that stand above the relevant ones of many queries widen the ranges; the "
    "most common one does so for {:.0%} of the queries; a document outside the sample, as one is "
    "with probability {}, leaves no trace in the ranges"
)

#: What typical ranges are; `benchmarks/collections.csv` has the counts.
RECORD = (
    "two standard errors on each side, which held the exact value for the run's own queries in all "
    "of 2,640 cases (track record of eleven retrieval models on two collections, none of them "
    "neural)"
)
#: Lowest exact and highest reported values at k = 10 and 100 of the models behind `RECORD`.
_LEVELS = {"ndcg": (0.15, 0.6, 0.6), "recall": (0.06, 0.46, 0.82)}
_UNRECORDED = (
    "typical ranges are for ndcg@k and recall@k, k from 10 to 100, of 90 queries or more, with 100 "
    "or more sampled documents from at most 20 times as many others, and for estimates and "
    "reported values of ndcg@k from 0.15 to 0.6, and of recall@10 from 0.06 to 0.46 "
    "(recall@100: 0.82)"
)
_GROWTH = (
    "each corpus has the relevant documents of this one, and the others of this one are like a "
    "uniform sample of its others"
)


def _checked(log: SubCorpus, gamma: object) -> None:
    if len(log.queries) < 2:
        raise ValueError(f"there must be 2 queries or more, got {len(log.queries)}")
    is_number = isinstance(gamma, (int, float, np.floating)) and not isinstance(gamma, bool)
    if gamma is not None and not (is_number and 0 < gamma <= 1):  # type: ignore[operator]
        raise ValueError(f"gamma must be a number in (0, 1], got {as_written(gamma)}")


def _about(log: SubCorpus) -> dict[str, object]:
    return {
        "systems": ", ".join(log.systems),
        "queries": len(log.queries),
        "corpus": f"{_sizes(log)} documents",
        "sub-corpus": f"{log.n_kept:,} documents kept on purpose, {log.n_sampled:,} sampled",
    }


def estimate(
    log: SubCorpus, metrics: Sequence[Metric], gamma: float | None, confidence: float
) -> Estimates:
    """:func:`~sampled_metrics.estimate` of systems that ranked one sub-corpus."""
    _checked(log, gamma)
    rows = []
    sizes = (log.corpus_size, *log.larger)
    for metric, size in product(metrics, sizes):
        for name, found in totals(replace(log, corpus_size=size), metric, gamma)[0].items():
            low, high = found.range(confidence)
            low, high = max(low, 0.0), min(high, 1.0)
            value = min(max(found.middle.value, low), high)  # corrections may leave [0, 1]
            is_recorded = _has_record(log, metric, size, (value, found.reported))
            typical = 2.0 * found.middle.error if is_recorded else np.nan
            rows.append(
                {
                    "recommender": name,
                    "metric": metric.name,
                    "documents": size,
                    "reported": found.reported,
                    "estimate": value,
                    "standard_error": found.middle.error,
                    "typical_low": max(value - typical, low),
                    "typical_high": min(value + typical, high),
                    "possible_low": low,
                    "possible_high": high,
                    "assumption": NONE,
                    "warrant": LARGE_SAMPLE,
                    "quote": f"{np.clip(value, 0.0, 1.0) + 0.0:.3f} ({_ranges.written(low, high)})",
                    "users": len(log.queries),
                }
            )
    import pandas as pd

    frame = pd.DataFrame(rows).drop(columns="documents" if len(sizes) == 1 else [])
    order = frame["recommender"].map({name: i for i, name in enumerate(log.systems)})
    frame = frame.loc[order.sort_values(kind="stable").index].reset_index(drop=True)
    notes = [*_notes(log)]
    if frame["typical_low"].isna().any():
        notes.append(_UNRECORDED)
    settings = _settings(confidence) | {"typical": RECORD}
    return Estimates(frame, settings, tuple(notes), source=_about(log))


def _has_record(log: SubCorpus, metric: Metric, size: int, levels: tuple[float, float]) -> bool:
    """Whether the benchmark has sub-corpora and systems like these: see `RECORD`."""
    n_others = size - log.n_kept
    is_like = log.n_sampled < n_others <= 20 * log.n_sampled and log.n_sampled >= 100
    k = metric.cutoff if metric.kind in _LEVELS else None
    if not is_like or len(log.queries) < 90 or k is None or not 10 <= k <= 100:
        return False
    least, at_10, at_100 = _LEVELS[metric.kind]
    most = at_10 + (at_100 - at_10) * np.log10(k / 10)
    return all(least <= level <= most for level in levels)


def compare(log: SubCorpus, metric: Metric, gamma: float | None, confidence: float) -> Comparison:
    """:func:`~sampled_metrics.compare` of systems that ranked one sub-corpus."""
    _checked(log, gamma)
    if log.larger:
        raise ValueError(f"corpus_size must be one number to compare systems, got {_sizes(log)}")
    if len(log.systems) < 2:
        raise ValueError(f"there must be 2 systems or more, got {', '.join(log.systems)} alone")
    evaluated, gamma = totals(log, metric, gamma)
    pairs, rows = list(combinations(log.systems, 2)), []
    for first, second in pairs:
        found = evaluated[first].minus(evaluated[second])
        # Bonferroni: the ranges of all pairs together.
        low, high = found.range(1.0 - (1.0 - confidence) / len(pairs))
        verdict = UNDECIDED
        if low > 0 or high < 0:
            better, worse = (first, second) if low > 0 else (second, first)
            verdict = f"{better} beats {worse}"
        rows.append(
            ComparisonRow(
                first, second, found.reported, found.middle.value, found.middle.error,
                np.nan, np.nan, max(low, -1.0), min(high, 1.0), verdict,
                assumption=NONE if verdict != UNDECIDED else "",
                warrant=LARGE_SAMPLE if verdict != UNDECIDED else "",
                steepness=np.nan, favoured="", probability=np.nan, detectable=np.nan,
                users_needed=None, negatives_needed=None, ranking_decides=None,
            )
        )  # fmt: skip
    settings = {"metric": metric.name, **_settings(confidence), "warrant": LARGE_SAMPLE}
    return Comparison(table_of(ComparisonRow, rows), settings, _notes(log), source=_about(log))


def _settings(confidence: float) -> dict[str, Any]:
    return {"estimator": "bias-variance", "confidence": confidence, "assumed": Assumed()}


def _sizes(log: SubCorpus) -> str:
    return ", ".join(f"{size:,}" for size in (log.corpus_size, *log.larger))


def _notes(log: SubCorpus) -> tuple[str, ...]:
    above = [
        np.mean([np.mean([one.n_better == 0 for one in orders], axis=0) for orders in by_query], 0)
        for by_query in log.orders.values()
    ]
    n_others = max(log.corpus_size, *log.larger) - log.n_kept if log.larger else log.n_others
    missing = 1.0 - log.n_sampled / n_others
    caveat = _CAVEAT.format(np.max(above), f"{missing:.0%}" if missing < 0.995 else "over 99%")
    return (*log.notes, caveat, *(_GROWTH,) * bool(log.larger))

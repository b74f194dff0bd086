"""The analysis of systems that ranked one sub-corpus for all queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .. import _printed_ranges
from .._confidence import LARGE_SAMPLE, NONE, UNDECIDED, Assumed
from .._validate import as_written, shortened
from ..bounds.identification import REFUTED
from ..log.sub_corpus import SubCorpus
from ..metrics import Metric
from ..metrics import metric as parsed
from ..results import Comparison, Estimates, table_of
from .analysis import Analysis, Request
from .jackknife import Evaluated, evaluated
from .result_columns import ComparisonRow, EstimateRow
from .track_record import PRINTED

#: What the notes of every result say.
_CAVEAT = (
    "sampled documents that stand above the relevant ones of many queries widen the ranges; the "
    "most common one does so for {:.0%} of the queries; a document outside the sample, as one is "
    "with probability {}, leaves no trace in the ranges"
)

#: How many standard errors a typical range has on each side.
_ERRORS = 3.0
#: What typical ranges are; `benchmarks/collections.csv` has the counts.
RECORD = (
    "three standard errors on each side (track record of thirteen retrieval models on seven "
    "collections, two of them made up from the judgements and none neural)"
)
#: The lowest and highest exact values of the systems behind `RECORD`.
_LEVELS = {"ndcg": (0.1, 0.85), "recall": (0.05, 0.95)}
#: Reported leads, and the share of pairs with such a lead, from each to the next, whose order is
#: right by the reported value, or by the estimate for `_BY_ESTIMATE`: of samples of a tenth, a
#: fifth and half of the others the smallest share, rounded down, at most .99. The counts, of the
#: systems behind `RECORD`, are in `benchmarks/collections_pairs.csv`.
LEADS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
RIGHT = {
    "ndcg@10": (0.56, 0.65, 0.80, 0.89, 0.98, 0.99),
    "rr": (0.59, 0.67, 0.77, 0.92, 0.98, 0.99),
    "recall@10": (0.55, 0.67, 0.77, 0.94, 0.99, 0.99),
    "recall@100": (0.75, 0.76, 0.83, 0.93, 0.98, 0.99),
}
_BY_ESTIMATE = "recall@100"
_UNRECORDED = (
    "typical ranges are for ndcg@k and recall@k, k from 10 to 100, of 20 queries or more, with 100 "
    "or more sampled documents from at most 10 times as many others, and for estimates of ndcg@k "
    "from 0.1 to 0.85, and of recall@k from 0.05 to 0.95; and for samples in which no few "
    "documents make most of the standard error"
)
_THESE = (
    "ranges hold the metric of these {:,} queries; that of other queries like them differs by more"
)
_GROWTH = (
    "each corpus has the relevant documents of this one, and the others of this one are like a "
    "uniform sample of its others"
)


class SubCorpusAnalysis(Analysis):
    """Queries share their sampled documents, so that ranges come from a jackknife over these."""

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, SubCorpus)

    def __init__(self, log: SubCorpus, request: Request) -> None:
        self.log, self.request = log, request
        if len(log.queries) < 2:
            raise ValueError(f"there must be 2 queries or more, got {len(log.queries)}")
        if (estimator := request.estimator) is not None:
            raise ValueError(
                f"estimator must be left out for a sub-corpus, got {as_written(estimator)}"
            )
        gamma = request.gamma
        is_number = isinstance(gamma, (int, float, np.floating)) and not isinstance(gamma, bool)
        if gamma is not None and not (is_number and 0 < gamma <= 1):
            raise ValueError(f"gamma must be a number in (0, 1], got {as_written(gamma)}")

    def estimates(self, *, progress: bool) -> Estimates:
        self._check()
        log, rows = self.log, list[tuple[int, EstimateRow]]()
        sizes = (log.corpus_size, *log.larger)
        for metric in self.request.metrics:
            of_sizes = [
                evaluated(replace(log, corpus_size=size), metric, self.request.gamma)
                for size in sizes
            ]
            for name in log.systems:
                grown = _grown(metric, [systems[name] for systems in of_sizes], self.request)
                rows += [
                    (size, self._row(name, metric, size, systems[name], ends))
                    for size, systems, ends in zip(sizes, of_sizes, grown, strict=True)
                ]
        rows.sort(key=lambda row: log.systems.index(row[1].recommender))
        frame = table_of(EstimateRow, [row for _, row in rows])
        if log.larger:
            frame.insert(2, "documents", [size for size, _ in rows])
        notes = [*self._notes(), _THESE.format(len(log.queries))]
        if frame["typical_low"].isna().any():
            notes.append(_UNRECORDED)
        return Estimates(
            frame,
            self._settings() | {"typical": RECORD},
            tuple(notes),
            facts=self._facts(),
        )

    def _row(
        self, name: str, metric: Metric, size: int, system: Evaluated, ends: _Ends
    ) -> EstimateRow:
        low, value, high = ends
        is_recorded = system.is_even and _has_record(self.log, metric, size, value)
        typical = _ERRORS * system.error if is_recorded else np.nan
        return EstimateRow(
            recommender=name,
            metric=metric.name,
            reported=system.reported,
            estimate=value,
            standard_error=system.error,
            typical_low=max(value - typical, low),
            typical_high=min(value + typical, high),
            possible_low=low,
            possible_high=high,
            assumption=NONE,
            warrant=LARGE_SAMPLE,
            quote=f"{value:.3f} ({_printed_ranges.written(low, high)})",
            users=len(self.log.queries),
        )

    def _check(self) -> None:
        """Refuse ranks that no uniform sample has: RR below 0, or above its reported value."""
        for name, system in evaluated(self.log, parsed("rr")).items():
            low, high = system.range(1.0 - REFUTED, population=True)
            if not system.is_exact and (high < 0.0 or low > system.reported):
                hint = ", and whether queries are documents (queries_are_documents=True, or "
                hint = "" if self.log.own_id is not None else hint + "--queries-are-documents)"
                raise ValueError(
                    f"the ranks of {shortened(name)} contradict a uniform sample of the documents "
                    f"that were not kept (p-value about {REFUTED:g} at most): check corpus_size "
                    f"and kept{hint}"
                )

    def comparison(self, *, progress: bool) -> Comparison:
        log, (metric,) = self.log, self.request.metrics
        if log.larger:
            sizes = _written((log.corpus_size, *log.larger))
            raise ValueError(f"corpus_size must be one number to compare systems, got {sizes}")
        if len(log.systems) < 2:
            raise ValueError(f"there must be 2 systems or more, got {', '.join(log.systems)} alone")
        self._check()
        systems = evaluated(log, metric, self.request.gamma)
        pairs = [*combinations(log.systems, 2)]
        # Bonferroni: the ranges of all pairs together.
        confidence = 1.0 - (1.0 - self.request.confidence) / len(pairs)
        rows = [
            self._pair_row(first, second, systems[first].minus(systems[second]), confidence)
            for first, second in pairs
        ]
        settings = {"metric": metric.name, **self._settings(), "warrant": LARGE_SAMPLE}
        frame = table_of(ComparisonRow, rows)
        return Comparison(frame, settings, self._notes(), facts=self._facts())

    def _pair_row(
        self, first: str, second: str, difference: Evaluated, confidence: float
    ) -> ComparisonRow:
        low, high = difference.range(confidence, population=True)
        verdict = UNDECIDED
        if low > 0 or high < 0:
            better, worse = (first, second) if low > 0 else (second, first)
            verdict = f"{better} beats {worse}"
        is_decided = verdict != UNDECIDED
        favoured, probability = "", np.nan
        if not is_decided:
            favoured, probability = self._leader(first, second, difference)
        return ComparisonRow(
            first=first,
            second=second,
            reported=difference.reported,
            estimate=difference.value,
            standard_error=difference.population_error,
            possible_low=max(low, -1.0),
            possible_high=min(high, 1.0),
            verdict=verdict,
            assumption=NONE if is_decided else "",
            warrant=LARGE_SAMPLE if is_decided else "",
            favoured=favoured,
            probability=probability,
        )

    def _leader(self, first: str, second: str, difference: Evaluated) -> tuple[str, float]:
        """Who leads by the better of two values, and how often such leaders are ahead.

        Nobody if the record has no such sub-corpora, or too seldom.
        """
        metric = self.request.metrics[0].name
        lead = difference.value if metric == _BY_ESTIMATE else difference.reported
        lead_class = int(np.searchsorted(LEADS, abs(difference.reported), side="right")) - 1
        share = RIGHT[metric][lead_class] if metric in RIGHT and lead else 0.0
        is_like = difference.is_even and _is_recorded(self.log, self.log.corpus_size)
        if not is_like or share < PRINTED:
            return "", np.nan
        return (first if lead > 0 else second), share

    def _settings(self) -> dict[str, Any]:
        confidence = self.request.confidence
        return {"estimator": "bias-variance", "confidence": confidence, "assumed": Assumed()}

    def _facts(self) -> dict[str, object]:
        log = self.log
        return {
            "systems": ", ".join(log.systems),
            "queries": len(log.queries),
            "corpus": f"{_written((log.corpus_size, *log.larger))} documents",
            "sub-corpus": f"{log.n_kept:,} documents kept on purpose, {log.n_sampled:,} sampled",
        }

    def _notes(self) -> tuple[str, ...]:
        log = self.log
        above = [
            np.mean(
                [np.mean([order.n_better == 0 for order in orders], 0) for orders in by_query], 0
            )
            for by_query in log.orders.values()
        ]
        n_others = max(log.corpus_size, *log.larger) - log.n_kept if log.larger else log.n_others
        missing = 1.0 - log.n_sampled / n_others
        caveat = _CAVEAT.format(np.max(above), f"{missing:.0%}" if missing < 0.995 else "over 99%")
        return (*log.notes, caveat, *(_GROWTH,) * bool(log.larger))


class _Ends(NamedTuple):
    """A range and the estimate in it."""

    low: float
    value: float
    high: float


def _grown(metric: Metric, of_sizes: list[Evaluated], request: Request) -> list[_Ends]:
    """Ranges and estimates for sizes of the corpus, the smallest first.

    More documents push relevant ones down, so that a metric other than AUC falls from the reported
    value on. An end moves only outwards for that, and so holds whatever it held.
    """
    # Without a cutoff a few documents at the top make most of the metric, and ranges missed too
    # often by V alone.
    lows, highs = np.array([
        system.range(request.confidence, population=metric.cutoff is None and not system.is_exact)
        for system in of_sizes
    ]).T  # fmt: skip
    values = np.array([system.value for system in of_sizes])
    lows, highs = np.clip(lows, 0.0, 1.0), np.clip(highs, 0.0, 1.0)
    if not metric.linear:
        values = np.minimum.accumulate(np.minimum(values, of_sizes[0].reported))
        lows = np.minimum.accumulate(lows)
        highs = np.maximum.accumulate(highs[::-1])[::-1]
        highs = np.minimum(highs, of_sizes[0].reported)
        lows = np.minimum(lows, highs)
    values = np.clip(values, lows, highs)  # corrections may leave [0, 1]
    return [_Ends(*map(float, ends)) for ends in zip(lows, values, highs, strict=True)]


def _has_record(log: SubCorpus, metric: Metric, size: int, value: float) -> bool:
    """Whether the benchmark has sub-corpora and systems like these: see `RECORD`."""
    k = metric.cutoff if metric.base in _LEVELS else None
    if not _is_recorded(log, size) or k is None or not 10 <= k <= 100:
        return False
    low, high = _LEVELS[metric.base]
    return low <= value <= high


def _is_recorded(log: SubCorpus, size: int) -> bool:
    """Whether the benchmark has sub-corpora of such sizes."""
    is_like = log.n_sampled < size - log.n_kept <= 10 * log.n_sampled and log.n_sampled >= 100
    return is_like and len(log.queries) >= 20


def _written(sizes: Iterable[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)

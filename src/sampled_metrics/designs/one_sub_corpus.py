"""The analysis of systems that ranked one sub-corpus for all queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import _printed_ranges
from .._confidence import LARGE_SAMPLE, NONE, UNDECIDED, Assumed
from .._validate import as_written
from ..log.sub_corpus import SubCorpus
from ..metrics import Metric
from ..results import Comparison, Estimates, table_of
from .analysis import Analysis, Request
from .jackknife import Evaluated, totals
from .result_columns import ComparisonRow

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


class SubCorpusRow(NamedTuple):
    """A row of the frame of :func:`~sampled_metrics.estimate` for a sub-corpus."""

    recommender: str
    metric: str
    documents: int
    reported: float
    estimate: float
    standard_error: float
    typical_low: float
    typical_high: float
    possible_low: float
    possible_high: float
    assumption: str
    warrant: str
    quote: str
    users: int


class SubCorpusAnalysis(Analysis):
    """Queries share their sampled documents, so that ranges come from a jackknife over these."""

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, SubCorpus)

    def __init__(self, log: SubCorpus, request: Request) -> None:
        self.log, self.request = log, request
        if len(log.queries) < 2:
            raise ValueError(f"there must be 2 queries or more, got {len(log.queries)}")
        gamma = request.gamma
        is_number = isinstance(gamma, (int, float, np.floating)) and not isinstance(gamma, bool)
        if gamma is not None and not (is_number and 0 < gamma <= 1):
            raise ValueError(f"gamma must be a number in (0, 1], got {as_written(gamma)}")

    def estimates(self, *, progress: bool) -> Estimates:
        log, rows = self.log, list[SubCorpusRow]()
        sizes = (log.corpus_size, *log.larger)
        for metric, size in product(self.request.metrics, sizes):
            of_size, _ = totals(replace(log, corpus_size=size), metric, self.request.gamma)
            rows += [self._row(name, metric, size, of_size[name]) for name in log.systems]
        rows.sort(key=lambda row: log.systems.index(row.recommender))
        frame = pd.DataFrame(rows, columns=SubCorpusRow._fields)
        notes = [*self._notes()]
        if frame["typical_low"].isna().any():
            notes.append(_UNRECORDED)
        return Estimates(
            frame.drop(columns="documents" if len(sizes) == 1 else []),
            self._settings() | {"typical": RECORD},
            tuple(notes),
            source=self._source(),
        )

    def _row(self, name: str, metric: Metric, size: int, system: Evaluated) -> SubCorpusRow:
        low, high = system.range(self.request.confidence)
        low, high = max(low, 0.0), min(high, 1.0)
        value = min(max(system.middle.value, low), high)  # corrections may leave [0, 1]
        is_recorded = _has_record(self.log, metric, size, (value, system.reported))
        typical = 2.0 * system.middle.error if is_recorded else np.nan
        return SubCorpusRow(
            recommender=name,
            metric=metric.name,
            documents=size,
            reported=system.reported,
            estimate=value,
            standard_error=system.middle.error,
            typical_low=max(value - typical, low),
            typical_high=min(value + typical, high),
            possible_low=low,
            possible_high=high,
            assumption=NONE,
            warrant=LARGE_SAMPLE,
            quote=f"{np.clip(value, 0.0, 1.0) + 0.0:.3f} ({_printed_ranges.written(low, high)})",
            users=len(self.log.queries),
        )

    def comparison(self, estimator: str | None, *, progress: bool) -> Comparison:
        log, (metric,) = self.log, self.request.metrics
        if estimator is not None:
            raise ValueError(
                f"estimator must be left out for a sub-corpus, got {as_written(estimator)}"
            )
        if log.larger:
            sizes = _written((log.corpus_size, *log.larger))
            raise ValueError(f"corpus_size must be one number to compare systems, got {sizes}")
        if len(log.systems) < 2:
            raise ValueError(f"there must be 2 systems or more, got {', '.join(log.systems)} alone")
        evaluated, _ = totals(log, metric, self.request.gamma)
        pairs = [*combinations(log.systems, 2)]
        # Bonferroni: the ranges of all pairs together.
        confidence = 1.0 - (1.0 - self.request.confidence) / len(pairs)
        rows = [
            _pair_row(first, second, evaluated[first].minus(evaluated[second]), confidence)
            for first, second in pairs
        ]
        settings = {"metric": metric.name, **self._settings(), "warrant": LARGE_SAMPLE}
        frame = table_of(ComparisonRow, rows)
        return Comparison(frame, settings, self._notes(), source=self._source())

    def by_estimator(self, estimators: Sequence[str] | str, *, progress: bool) -> Estimates:
        raise ValueError(
            "a sub-corpus has no table of estimators: only estimate and compare take one"
        )

    def _settings(self) -> dict[str, Any]:
        confidence = self.request.confidence
        return {"estimator": "bias-variance", "confidence": confidence, "assumed": Assumed()}

    def _source(self) -> dict[str, object]:
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
            np.mean([np.mean([one.n_better == 0 for one in orders], 0) for orders in by_query], 0)
            for by_query in log.orders.values()
        ]
        n_others = max(log.corpus_size, *log.larger) - log.n_kept if log.larger else log.n_others
        missing = 1.0 - log.n_sampled / n_others
        caveat = _CAVEAT.format(np.max(above), f"{missing:.0%}" if missing < 0.995 else "over 99%")
        return (*log.notes, caveat, *(_GROWTH,) * bool(log.larger))


def _pair_row(first: str, second: str, difference: Evaluated, confidence: float) -> ComparisonRow:
    low, high = difference.range(confidence)
    verdict = UNDECIDED
    if low > 0 or high < 0:
        better, worse = (first, second) if low > 0 else (second, first)
        verdict = f"{better} beats {worse}"
    is_decided = verdict != UNDECIDED
    return ComparisonRow(
        first=first,
        second=second,
        reported=difference.reported,
        estimate=difference.middle.value,
        standard_error=difference.middle.error,
        student_low=np.nan,
        student_high=np.nan,
        possible_low=max(low, -1.0),
        possible_high=min(high, 1.0),
        verdict=verdict,
        assumption=NONE if is_decided else "",
        warrant=LARGE_SAMPLE if is_decided else "",
        steepness=np.nan,
        favoured="",
        probability=np.nan,
        probability_low=np.nan,
        detectable=np.nan,
        users_needed=None,
        negatives_needed=None,
        ranking_decides=None,
    )


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


def _written(sizes: Iterable[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)

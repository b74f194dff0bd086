"""The analysis of a log that knows ranks only near the top: a hit or a miss, or "> 10"."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._validate import as_written
from ..bounds import bets
from ..log.compact import Censored, Log
from ..metrics import Metric
from .analysis import Request
from .judging import Paired
from .ranges import MetricInterval, identified
from .sample import Sample, UserMean
from .track_record import Record
from .uniform import UniformAnalysis

_NO_ESTIMATE = (
    "estimate is left empty: corrections need every sampled rank, and the log says of some only "
    "that they are beyond {}"
)


class CensoredSample(Sample):
    """A sample whose tied negatives may be above or below: bets take their least value."""

    @cached_property
    def bet_rows(self) -> bets.Rows:
        starts, kind, above, probabilities = self.broken_ties(np.arange(self.tied.size))
        return bets.Rows(self.bet_kinds[1][kind], above, starts, probabilities, ordered=False)

    @property
    def known(self) -> int:
        """The last rank that is known of all users."""
        is_beyond = self.tied > 0
        return int(self.better[is_beyond].min()) if is_beyond.any() else int(self.negatives.max())


class CensoredAnalysis(UniformAnalysis):
    """Metrics with a cutoff within the known ranks are reported; each metric has an interval."""

    estimators: ClassVar[tuple[str, ...]] = ()
    sample_class: ClassVar[type[Sample]] = CensoredSample
    sample: CensoredSample

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, Log) and isinstance(log.protocol, Censored)

    def __init__(self, log: Log, request: Request) -> None:
        for name in ("gamma", "estimator"):
            if (value := getattr(request, name)) is not None:
                raise ValueError(
                    f"{name} must be left out, got {as_written(value)}: corrections need every "
                    "sampled rank"
                )
        if (log.kinds["n_relevant"] > 1).any():
            raise ValueError(
                "each user must have one row in a log with hits, or ranks such as >10: of several "
                "relevant items ranked together all ranks are needed"
            )
        super().__init__(log, request)

    def unbiased(self, metric: Metric) -> bool:
        return False

    def estimator(self, metric: Metric) -> str:
        return ""

    def reported(self, metric: Metric) -> dict[str, UserMean]:
        is_known = metric.k is not None and metric.k <= self.sample.known
        return super().reported(metric) if is_known else self.no_means

    def ranges(
        self, metric: Metric, naive: Mapping[str, UserMean]
    ) -> tuple[dict[str, MetricInterval], list[str]]:
        notes = [_NO_ESTIMATE.format(self.sample.known)]
        if not self.request.identification:
            return {}, notes
        intervals, interval_notes = identified(
            self.sample, metric, self.assumption(metric), self.request.confidence
        )
        return intervals, [*interval_notes, *notes]

    def record(self, metric: Metric, estimator: str) -> tuple[Record | None, str]:
        return None, "the log does not say every sampled rank"

    def settings(self) -> dict[str, Any]:
        return {"confidence": self.request.confidence}

    def notes_on_comparison(self, estimator: str) -> list[str]:
        return [_NO_ESTIMATE.format(self.sample.known)]

    def _paired(self, metric: Metric, estimator: str) -> Paired:
        return self.without_estimates(metric, self.reported(metric))

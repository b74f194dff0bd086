"""The analysis of a log with chosen items that are all scored, and negatives from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, ClassVar

import numpy as np

from .._validate import FloatArray, as_written
from ..bounds import bets
from ..bounds.chosen import AtPosition, partition
from ..log.compact import BesideChosen, Log
from ..metrics import Metric
from . import ranges
from .analysis import Request
from .judging import Paired
from .ranges import MetricInterval
from .sample import Sample, UserMean
from .track_record import Record
from .uniform import UniformAnalysis
from .values import Values

_NO_RECORD = "it is of logs whose negatives were drawn from all items"
_NO_ESTIMATE = (
    "estimate is left empty: the log does not say how many items above were neither chosen nor "
    "drawn; reported ranks the held-out item among the scored items, which is at least the exact "
    "value. The function plan says what a shorter interval or the exact value costs"
)


class ChosenSample(Sample):
    """A sample in which a row's `position` is 1 plus the number of chosen items above.

    `relevant` is the largest position, the same for all rows, and `items` has so many more than the
    others from which negatives are drawn.
    """

    def columns(self) -> dict[str, Any]:
        kinds = self.log.kinds
        position = kinds["n_chosen_better"] + 1
        relevant = np.full_like(position, position.max())
        rest = kinds["n_items"] - 1 - kinds["n_chosen"]
        return {**kinds, "position": position, "n_relevant": relevant, "n_items": rest + relevant}

    def partition(self, metric: Metric, assumption: str | None) -> bets.Partition:
        bet_kinds, bet_kind_index = self.bet_kinds
        users = np.sum([*self.counts.values()], axis=0)
        weights = np.bincount(bet_kind_index, users, len(bet_kinds)).astype(float)
        return partition(bet_kinds, weights, metric, self.replacement)

    def is_mixed(self, recommender: str) -> bool:
        return True  # of numbers of chosen items above

    def check_ranks(self) -> None:
        """All negatives of a user may be above: the chosen items are not."""

    def enlarged(self, recommender: str) -> None:
        return None  # the tests are for negatives from all items


class ChosenValues(Values):
    """Values of rows by the rank among the scored items; for AUC without bias."""

    def naive(self, metric: Metric) -> FloatArray:
        sample, kinds = self.sample, self.sample.log.kinds
        if metric.linear:
            rest = kinds["n_items"] - 1 - kinds["n_chosen"]
            above = kinds["n_chosen_better"] + sample.better * (rest / sample.negatives)
            return np.asarray(1.0 - above / (kinds["n_items"] - 1))
        rank = kinds["n_chosen_better"] + sample.better + 1
        return metric.smooth_term(rank, np.ones_like(rank), 1, None)

    def span(self, metric: Metric) -> tuple[float, float]:
        return 0.0, 1.0

    def unbiased(self, metric: Metric) -> bool:
        return metric.linear


class ChosenAnalysis(UniformAnalysis):
    """AUC has an estimate; every metric has an interval, whatever the ranks.

    Except for AUC it is for the log's users, and not for a population: certificates are averaged
    over these users, and no end exceeds their own reported mean.
    """

    estimators: ClassVar[tuple[str, ...]] = ()
    sample_class: ClassVar[type[Sample]] = ChosenSample

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, Log) and isinstance(log.protocol, BesideChosen)

    def __init__(self, log: Log, request: Request) -> None:
        for name in ("gamma", "estimator"):
            _refuse(name, getattr(request, name))
        if not log.kinds["n_negatives"].all():
            raise ValueError(
                "the log must have sampled negatives or anchors beside its chosen items: draw "
                "anchors with the function or command anchors, and add exact_rank and draw"
            )
        at_position = [
            metric if metric.linear else AtPosition(*astuple(metric)) for metric in request.metrics
        ]
        super().__init__(log, request._replace(metrics=at_position, assumption=None))
        self.values = ChosenValues(self.sample, self.values.gamma)

    def estimator(self, metric: Metric) -> str:
        return "naive" if metric.linear else ""

    def ranges(
        self, metric: Metric, naive: Mapping[str, UserMean]
    ) -> tuple[dict[str, MetricInterval], list[str]]:
        if metric.linear:
            return super().ranges(metric, naive)
        if not self.request.identification:
            return {}, [_NO_ESTIMATE]
        intervals, notes = ranges.identified(self.sample, metric, None, self.request.confidence)
        if not self.log.replacement:  # the others above are at least as many as the negatives above
            for name, mean in naive.items():
                high = min(intervals[name].high, mean.value)
                intervals[name] = intervals[name]._replace(high=high)
        return intervals, [*notes, _NO_ESTIMATE]

    def settings(self) -> dict[str, Any]:
        return {"confidence": self.request.confidence}

    def record(self, metric: Metric, estimator: str) -> tuple[Record | None, str]:
        return None, _NO_RECORD

    def notes_on_comparison(self, estimator: str) -> list[str]:
        return [] if estimator else [_NO_ESTIMATE]

    def _paired(self, metric: Metric, estimator: str) -> Paired:
        if estimator:
            return super()._paired(metric, estimator)
        return self.without_estimates(metric, self.reported(metric))


def _refuse(name: str, value: object) -> None:
    """Refuse an option of corrections."""
    if value is not None:
        raise ValueError(
            f"{name} must be left out, got {as_written(value)}: there are no corrections with "
            "chosen items"
        )

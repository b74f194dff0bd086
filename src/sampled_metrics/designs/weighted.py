"""The analysis of a log with n_above, whose negatives were drawn with unequal probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from .. import _confidence
from .._confidence import Assumed
from .._validate import as_written
from ..log.compact import Log, Unstated
from ..metrics import Metric
from ..results import Comparison
from . import judging, ranges
from .analysis import Request
from .judging import Pair, Paired, Verdict
from .ranges import MetricInterval
from .sample import UserMean
from .track_record import FIXED_NEGATIVES, Record
from .uniform import UniformAnalysis
from .values import WEIGHTED

#: What is assumed of a column n_above.
_N_ABOVE = "n_above is without bias"


class NAboveAnalysis(UniformAnalysis):
    """Only AUC has an estimate, from the column n_above; no estimator corrects other metrics."""

    estimators: ClassVar[tuple[str, ...]] = ()
    warrant: ClassVar[str] = _confidence.LARGE_SAMPLE

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, Log) and isinstance(log.protocol, Unstated)

    def __init__(self, log: Log, request: Request) -> None:
        for name in ("gamma", "estimator"):
            _refuse(log, name, getattr(request, name))
        super().__init__(log, request)

    def estimator(self, metric: Metric) -> str:
        return WEIGHTED if self.unbiased(metric) else ""

    def unbiased(self, metric: Metric) -> bool:
        return metric.linear

    def ranges(
        self, metric: Metric, naive: Mapping[str, UserMean]
    ) -> tuple[dict[str, MetricInterval], list[str]]:
        if not metric.linear:
            return {}, [
                f"{metric.name} has no estimate: n_above estimates ranks without bias, and "
                f"{metric.name} is not linear in them"
            ]
        if not self.request.identification:
            return {}, []
        confidence, means = self.request.confidence, self.means(metric, WEIGHTED)
        return {name: ranges.student_interval(mean, confidence) for name, mean in means.items()}, []

    def record(self, metric: Metric, estimator: str) -> tuple[Record | None, str]:
        return None, FIXED_NEGATIVES

    def settings(self) -> dict[str, Any]:
        return {"confidence": self.request.confidence}

    def assumed(self, frame: pd.DataFrame) -> dict[str, Assumed]:
        return {"assumed": Assumed((_N_ABOVE,))}

    def comparison(self, *, progress: bool) -> Comparison:
        (metric,) = self.request.metrics
        if not metric.linear:
            raise ValueError(f"metric must be auc for a log with n_above, got {metric.name!r}")
        return super().comparison(progress=progress)

    def notes_on_comparison(self, estimator: str) -> list[str]:
        return []

    def verdicts(self, paired: Paired, bar: Any) -> tuple[dict[Pair, Verdict], list[str]]:
        return judging.by_student(paired.differences, self.request.confidence), [
            _correlation(*pair, paired) for pair in paired.differences
        ]

    def assumed_of_pairs(self, metric: Metric) -> Assumed:
        return Assumed((_N_ABOVE,))


def _refuse(log: Log, name: str, value: object) -> None:
    """Refuse an option of corrections."""
    if value is not None:
        raise ValueError(
            f"{name} must be left out, got {as_written(value)}: there are no corrections for "
            f"weighted negatives, as in {log!r}"
        )


def _correlation(first: str, second: str, paired: Paired) -> str:
    """A note on how much the correlation of users' values reduces the standard error."""
    first_error, second_error = paired.means[first].error, paired.means[second].error
    if not first_error * second_error:
        return ""
    error, unpaired = paired.differences[first, second].error, np.hypot(first_error, second_error)
    correlation = (unpaired**2 - error**2) / (2.0 * first_error * second_error)
    return (
        f"{first} and {second}: users' values have a correlation of {correlation:.2f}, so that the "
        f"difference has a standard error of {error:.4f}, and not {unpaired:.4f}"
    )

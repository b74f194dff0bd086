"""The analysis of a log of an adaptive design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..bounds import bets
from ..bounds.assumption import Assumption
from ..log.compact import Log
from ..metrics import Metric
from ..protocol import Adaptive
from .ranges import Range
from .sample import ProtocolClass, Sample, UserMean
from .track_record import FIXED_NEGATIVES, Record
from .uniform import UniformAnalysis
from .values import FITTED


class AdaptiveSample(Sample):
    """A sample whose rows hold outcomes of one adaptive design.

    Places of outcomes stand for `better`, and the design's `most` for `negatives`, since so many
    fixed negatives have as many outcomes.
    """

    @property
    def design(self) -> Adaptive:
        assert isinstance(self.log.protocol, Adaptive)
        return self.log.protocol

    def columns(self) -> dict[str, Any]:
        kinds, design = self.log.kinds, self.design
        places = design.places(kinds["n_negatives"], kinds["n_better"])
        most = np.full_like(kinds["n_negatives"], design.most)
        return {**kinds, "n_better": places, "n_negatives": most}

    def is_whole(self, protocol_class: ProtocolClass) -> bool:
        return False

    def protocol(self, size: int, n_negatives: int, n_relevant: int) -> Adaptive:
        return self.design  # it has one size

    def partition(self, metric: Metric, assumption: Assumption | None) -> bets.Partition:
        return self.partition_of(metric, assumption, self.design)


class AdaptiveAnalysis(UniformAnalysis):
    """Every metric needs a correction, since better ranks are among more negatives."""

    estimators: ClassVar[tuple[str, ...]] = ("bias-variance", *FITTED)
    sample_class: ClassVar[type[Sample]] = AdaptiveSample

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, Log) and isinstance(log.protocol, Adaptive)

    def unbiased(self, metric: Metric) -> bool:
        return False

    def reported(self, metric: Metric) -> dict[str, UserMean]:
        return self.no_means

    def record(self, metric: Metric, estimator: str) -> tuple[Record | None, str]:
        return None, FIXED_NEGATIVES

    def ranges(
        self, metric: Metric, naive: Mapping[str, UserMean]
    ) -> tuple[dict[str, Range], list[str]]:
        intervals, notes = super().ranges(metric, naive)
        return intervals, [*notes, self._nothing_reported]

    def notes_on_comparison(self, estimator: str) -> list[str]:
        notes = super().notes_on_comparison(estimator)
        return [*notes, self._nothing_reported]

    @property
    def _nothing_reported(self) -> str:
        design = self.log.protocol
        assert isinstance(design, Adaptive)
        return (
            f"reported is left empty: ranks among {design.first:,} to {design.most:,} negatives, "
            "as many as an adaptive design drew for each user, are not averaged"
        )

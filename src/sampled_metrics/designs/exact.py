"""The analysis of a log in which each user has all negatives: sampled ranks are exact ranks."""

from __future__ import annotations

from typing import Any

from ..log.compact import Log, Uniform
from .uniform import UniformAnalysis


class ExactAnalysis(UniformAnalysis):
    """Every metric is estimated without bias, and only the users are a sample."""

    @classmethod
    def takes(cls, log: Any) -> bool:
        if not isinstance(log, Log) or not isinstance(log.protocol, Uniform):
            return False
        n_irrelevant = log.kinds["n_items"] - log.kinds["n_relevant"]
        return not log.replacement and bool((log.kinds["n_negatives"] == n_irrelevant).all())

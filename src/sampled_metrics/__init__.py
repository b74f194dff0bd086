"""Ranking metrics under sampling: a metric M, a protocol P and an estimator M-hat."""

from . import consistency, estimators
from .metrics import Metric, metric
from .protocol import Protocol

__all__ = ["Metric", "Protocol", "consistency", "estimators", "metric"]

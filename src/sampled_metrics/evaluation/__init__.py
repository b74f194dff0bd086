"""Evaluate a log: estimates of exact metrics, identification intervals, and verdicts.

A correction assigns a value to each sampled rank, so each row of a log has a value. The standard
error of the mean over users includes the sampling of users and of negatives, but not the bias of
the correction. ``identification`` bounds the bias, and every verdict
rests on that bound.
"""

from .._confidence import UNDECIDED
from ..designs.values import ESTIMATORS, FITTED, LEARNED
from .anchoring import anchors
from .comparison import compare
from .estimation import DEFAULT_METRICS, estimate

__all__ = [
    "DEFAULT_METRICS",
    "ESTIMATORS",
    "FITTED",
    "LEARNED",
    "UNDECIDED",
    "anchors",
    "compare",
    "estimate",
]

"""The rows of the frames that `estimate` and `compare` return, which explain the columns."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._confidence import UNDECIDED


class EstimateRow(NamedTuple):
    """A row of the frame of :func:`~sampled_metrics.estimate`."""

    recommender: str
    metric: str
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


class ComparisonRow(NamedTuple):
    """A row of the frame of :func:`~sampled_metrics.compare`."""

    first: str
    second: str
    reported: float
    estimate: float
    standard_error: float
    student_low: float = math.nan
    student_high: float = math.nan
    possible_low: float = -1.0
    possible_high: float = 1.0
    verdict: str = UNDECIDED
    assumption: str = ""
    warrant: str = ""
    favoured: str = ""
    probability: float = math.nan
    probability_low: float = math.nan
    detectable: float = math.nan
    users_needed: int | None = None

"""The rows of the frames that `estimate` and `compare` return, which explain the columns."""

from __future__ import annotations

from typing import NamedTuple


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
    student_low: float
    student_high: float
    possible_low: float
    possible_high: float
    verdict: str
    assumption: str
    warrant: str
    favoured: str
    probability: float
    probability_low: float
    detectable: float
    users_needed: int | None

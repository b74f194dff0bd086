"""What the verbs ask of a log, whatever its design."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._confidence import CONFIDENCE
from ..metrics import Metric
from ..results import Comparison, Estimates


class Request(NamedTuple):
    """What a verb is asked to compute; `assumption` and `gamma` as the caller wrote them.

    `nominal` is the confidence that the caller wrote, if `confidence` is corrected for several
    results. `record` says whether the track record is about such users, and `population` whether
    intervals from anchors are for the population of the users.
    """

    metrics: Sequence[Metric]
    gamma: float | None = None
    confidence: float = CONFIDENCE
    assumption: str | None = None
    identification: bool = True
    estimator: str | None = None
    nominal: float | None = None
    record: bool = True
    population: bool = False
    family: str | Mapping[str, str] | None = None

    @property
    def of_record(self) -> float:
        """The confidence that verdicts by track record must not exceed."""
        return self.nominal or self.confidence


class Analysis(ABC):
    """The answers to `estimate` and `compare` for one log.

    There is a subclass for each design of a log, which :func:`designs.analysis_of` chooses once. A
    new design is a file with a subclass and its place in `designs.DESIGNS`.
    """

    @classmethod
    @abstractmethod
    def takes(cls, log: Any) -> bool:
        """Whether a log has this design."""

    @abstractmethod
    def __init__(self, log: Any, request: Request) -> None:
        """Check what the design refuses of a log and of a request."""

    @abstractmethod
    def estimates(self, *, progress: bool) -> Estimates:
        """A row for each recommender and metric."""

    @abstractmethod
    def comparison(self, *, progress: bool) -> Comparison:
        """A verdict on each pair of recommenders, by the only metric."""

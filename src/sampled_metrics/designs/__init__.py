"""What a log can tell, by its design: values, means over users, ranges and verdicts of pairs."""

from __future__ import annotations

from typing import Any

from .analysis import Analysis, Request
from .anchored import AnchoredAnalysis
from .blocks import BlockAnalysis
from .censored import CensoredAnalysis
from .chosen import ChosenAnalysis
from .exact import ExactAnalysis
from .one_sub_corpus import SubCorpusAnalysis
from .query_values import QueryValuesAnalysis
from .uniform import UniformAnalysis
from .weighted import NAboveAnalysis

__all__ = ["DESIGNS", "Analysis", "Request", "analysis_of"]

#: The analyses, each more special than those after it.
DESIGNS: list[type[Analysis]] = [
    SubCorpusAnalysis,
    QueryValuesAnalysis,
    AnchoredAnalysis,
    ChosenAnalysis,
    CensoredAnalysis,
    NAboveAnalysis,
    ExactAnalysis,
    BlockAnalysis,
    UniformAnalysis,
]


def analysis_of(log: Any, request: Request) -> Analysis:
    """The analysis of a log by the first design that takes it."""
    return next(design for design in DESIGNS if design.takes(log))(log, request)


AnchoredAnalysis.analysis_of = staticmethod(analysis_of)

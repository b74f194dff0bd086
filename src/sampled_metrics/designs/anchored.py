"""The analysis of a log with anchors: users drawn by what they can add, and ranked exactly."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from .._confidence import LIKE_BENCHMARK, NONE, OF_USERS, THEOREM, Assumed, percent
from .._printed_ranges import written
from .._validate import as_written, shortened
from ..bounds.anchors import Anchors, drawing_p_value
from ..log import anchors as log_anchors
from ..log.compact import Log
from ..metrics import Metric
from ..results import Comparison, Estimates, facts_of, table_of
from . import ranges
from .analysis import Analysis, Request
from .judging import Verdict
from .ranges import MetricInterval
from .result_columns import ComparisonRow, EstimateRow
from .track_record import TYPICAL

#: The share of correct draws that are refused.
_LEVEL = 1e-3
#: When ranges that rest on the negatives hold, by their assumption on the true ranks.
_UNIFORM = "if the negatives were drawn as the log says"
_FEWER = f"{_UNIFORM} and deeper ranks have fewer users"


class AnchoredAnalysis(Analysis):
    """Bets on the exact values of anchors; those of pairs on their differences.

    `analysis_of` gives the analysis of the log without its anchors.
    """

    analysis_of: ClassVar[staticmethod[[Log, Request], Analysis]]

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, Log) and log.anchors is not None

    def __init__(self, log: Log, request: Request) -> None:
        assert log.anchors is not None
        self.log, self.request, self.anchors = log, request, log.anchors
        for name in ("gamma", "estimator"):
            if (value := getattr(request, name)) is not None:
                raise ValueError(
                    f"{name} must be left out, got {as_written(value)}: anchors need no correction"
                )
        self.sizes = log_anchors.sizes(log, self.anchors.metrics)
        self.n_users = self.sizes.size
        if (p_value := self._drawing_p_value()) < _LEVEL:
            raise ValueError(
                f"anchors must be drawn in proportion to the largest possible {self._drawn_by}, in "
                f"the order of draw, but users drawn so would differ from these with p = "
                f"{p_value:.1g}"
            )

    @property
    def _drawn_by(self) -> str:
        return " or ".join(metric.label for metric in self.anchors.metrics)

    def _drawing_p_value(self) -> float:
        """Of the anchors' order; 0 if one of them cannot have been drawn."""
        users = self.anchors.users
        return drawing_p_value(self.sizes, users) if (self.sizes[users] > 0).all() else 0.0

    def _anchors(self, metric: Metric, names: tuple[str, ...]) -> Anchors:
        """The anchors' values of one recommender, or the differences of two."""
        rows, users = [self.log.recommenders.index(name) for name in names], self.anchors.users
        possible = log_anchors.bounds(self.log, metric)[rows]
        items = log_anchors.column(self.log, "n_items")[rows][:, users]
        values = metric(self.anchors.ranks[rows], items)
        bound = possible.max(axis=0)
        if unbounded := np.flatnonzero((self.sizes == 0) & (bound > 0)).tolist():
            user = shortened(str(self.log.users[unbounded[0]]))
            raise ValueError(
                f"anchors drawn by {self._drawn_by} do not bound {metric.label}: user {user} may "
                "have a positive value, but could not be drawn"
            )
        positive = self.sizes > 0
        sizes = self.sizes * (bound[positive] / self.sizes[positive]).max()
        return Anchors.of(values[0] - sum(values[1:]), possible, sizes, users)

    def estimates(self, *, progress: bool) -> Estimates:
        rows = [
            self._estimate_row(name, metric)
            for name in self.log.recommenders
            for metric in self.request.metrics
        ]
        frame = pd.DataFrame(rows, columns=EstimateRow._fields)
        settings = {"estimator": "anchors", **self._settings()}
        notes = (*self._notes(), *self._contradictions())
        return Estimates(frame, settings, notes, facts=self._facts(), log=self.log)

    def _contradictions(self) -> list[str]:
        """Notes on ranges from the negatives that are disjoint from the anchors' interval."""
        log, request = replace(self.log, anchors=None), self.request._replace(population=False)
        if log.shared_negatives or not (request.identification and log.kinds["n_negatives"].all()):
            return []
        try:
            rows = self.analysis_of(log, request).estimates(progress=False).frame.to_dict("records")
        except ValueError as problem:
            return [f"without its anchors this log would be refused: {problem}"]
        notes, error_rate = list[str](), 1.0 - request.confidence
        for row, metric in product(rows, request.metrics):
            if row["metric"] != metric.name:
                continue
            anchors = self._anchors(metric, (row["recommender"],))
            of_users, is_free = anchors.interval(error_rate), row["assumption"] in (NONE, OF_USERS)
            is_wider = row["assumption"] != OF_USERS
            ends = anchors.population_interval(error_rate) if is_wider else of_users
            for kind, (low, high), other_rate, condition in (
                ("possible", ends, error_rate, _UNIFORM if is_free else _FEWER),
                ("typical", of_users, 1.0 - TYPICAL, f"if {LIKE_BENCHMARK}"),
            ):
                other = row[f"{kind}_low"], row[f"{kind}_high"]
                if other[1] < low or other[0] > high:
                    notes.append(
                        f"{metric.name} of {shortened(row['recommender'])} is "
                        f"{written(low, high)} by the anchors, but its {kind} range without them "
                        f"is {written(*other)}: {condition}, at most "
                        f"{percent(error_rate + other_rate)} of logs have ranges so far apart"
                    )
                    break
        return notes

    def _estimate_row(self, name: str, metric: Metric) -> EstimateRow:
        anchors, error_rate = self._anchors(metric, (name,)), 1.0 - self.request.confidence
        of_population = self.request.population
        assumption = NONE if of_population else OF_USERS
        ends = (anchors.population_interval if of_population else anchors.interval)(error_rate)
        interval = MetricInterval(*ends, assumption, THEOREM)
        spread = anchors.estimate, anchors.standard_error
        quote = ranges.quoted(anchors.estimate, interval)
        return EstimateRow(
            *(name, metric.name, anchors.mean_bound, *spread, np.nan, np.nan),
            *(*ends, assumption, THEOREM, quote, self.n_users),
        )

    def comparison(self, *, progress: bool) -> Comparison:
        (metric,) = self.request.metrics
        self.log.check_same_users()
        pairs = [*combinations(self.log.recommenders, 2)]
        # Bonferroni: the intervals of all pairs hold together.
        error_rate = (1.0 - self.request.confidence) / len(pairs)
        frame = table_of(
            ComparisonRow, [self._pair_row(pair, metric, error_rate) for pair in pairs]
        )
        settings = {"metric": metric.name, "estimator": "anchors", **self._settings()}
        settings["warrant"] = THEOREM
        return Comparison(frame, settings, self._notes(), facts=self._facts())

    def _pair_row(self, pair: tuple[str, str], metric: Metric, error_rate: float) -> ComparisonRow:
        anchors = self._anchors(metric, pair)
        low, high = anchors.interval(error_rate)
        sign = int(low > 0) - int(high < 0)
        verdict = Verdict(sign, low, high).sentence(*pair)
        ground = (OF_USERS, THEOREM) if sign else ("", "")
        spread = anchors.estimate, anchors.standard_error
        return ComparisonRow(
            *(*pair, anchors.mean_bound, *spread, np.nan, np.nan, low, high),
            *(verdict, *ground, "", np.nan, np.nan),
            detectable=np.nan if sign else 0.5 * (high - low),
            users_needed=None,
        )

    def _settings(self) -> dict[str, Any]:
        of_users = not self.request.population
        return {"confidence": self.request.confidence, "assumed": Assumed(of_users=of_users)}

    def _notes(self) -> tuple[str, ...]:
        return (
            f"all items were ranked for {self._facts()['anchors']}: the intervals hold if they "
            "were drawn so, and draw is the order",
        )

    def _facts(self) -> dict[str, object]:
        facts = facts_of(self.log)
        if not self.log.kinds["n_negatives"].any():
            facts = {key: value for key, value in facts.items() if key != "negatives"}
        n_anchors = self.anchors.users.size
        drawn = f"{n_anchors:,} users, drawn in proportion to the largest possible {self._drawn_by}"
        return {**facts, "anchors": drawn}

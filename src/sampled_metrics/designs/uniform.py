"""The analysis of a log with a fixed number of uniform negatives for each user.

The analyses of other designs of sampled ranks are subclasses that replace what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from .. import _confidence, _progress
from .._confidence import NONE, OF_USERS, Assumed, percent
from .._validate import shortened
from ..bounds.assumption import FEWER_USERS, checked_assumption
from ..log.compact import Log, Uniform
from ..metrics import Metric
from ..results import Comparison, Estimates, facts_of, table_of
from . import judging, options, ranges, track_record
from .analysis import Analysis, Request
from .judging import Pair, Paired, Verdict
from .ranges import MetricInterval
from .result_columns import ComparisonRow, EstimateRow
from .sample import Sample, UserMean, difference
from .values import ESTIMATORS, FITTED, LEARNED, WEIGHTED, Values


class UniformAnalysis(Analysis):
    """Each metric has an estimate by a correction, or by its naive value if that is unbiased."""

    #: The estimators of this design.
    estimators: ClassVar[tuple[str, ...]] = ESTIMATORS
    sample_class: ClassVar[type[Sample]] = Sample
    #: The warrant that the settings of a comparison name.
    warrant: ClassVar[str] = _confidence.THEOREM

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, Log) and isinstance(log.protocol, Uniform)

    def __init__(self, log: Log, request: Request) -> None:
        self.log, self.request = log, request
        self.checked_assumption = checked_assumption(request.assumption)
        self.sample = self.sample_class(log)
        self.sample.check_ranks()
        corrected = [metric for metric in request.metrics if not metric.linear]
        gamma = options.checked_gamma(request.gamma, self.sample)
        families, self.family_notes = options.families(request.family, self.sample.names)
        self.values = Values(self.sample, gamma, corrected, families)
        if request.estimator is not None:
            options.check_estimator(request.estimator, self.estimators, self.values)

    # What the design answers on a metric

    def unbiased(self, metric: Metric) -> bool:
        """Whether the default estimate has no bias at any true rank."""
        return self.values.unbiased(metric)

    def estimator(self, metric: Metric) -> str:
        """The estimator of a metric; empty if there is none."""
        if self.request.estimator is not None:
            return self.request.estimator
        if self.unbiased(metric):
            return "naive"
        if self.request.gamma is None and not self.values.not_learned:
            return LEARNED
        if self.values.fits.too_large:
            return "rank estimate"
        return "bias-variance" if self.values.fits.unfit else FITTED[0]

    def assumption(self, metric: Metric) -> str | None:
        """The assumption; None if users have several relevant items and not only the best counts.

        An assumption is about the ranks of the best item.
        """
        has_one = metric.best_only or int(self.sample.relevant.max()) <= 1
        return self.checked_assumption if has_one else None

    def reported(self, metric: Metric) -> dict[str, UserMean]:
        """What the evaluation reports, for each recommender."""
        return self.values.means(metric, "naive")

    @cached_property
    def no_means(self) -> dict[str, UserMean]:
        return dict.fromkeys(self.sample.names, UserMean(np.nan, 0, np.nan, {}))

    def means(self, metric: Metric, estimator: str) -> dict[str, UserMean]:
        """The estimates of each recommender by an estimator."""
        if estimator == "naive":
            return self.reported(metric)
        return self.values.means(metric, estimator) if estimator else self.no_means

    def ranges(
        self, metric: Metric, naive: Mapping[str, UserMean]
    ) -> tuple[dict[str, MetricInterval], list[str]]:
        """Intervals of a metric by the bounds that apply to it, and notes."""
        if self.unbiased(metric):  # fast, so that they are always computed
            return ranges.of_means(self.values, metric, naive, self.request.confidence), []
        if not self.request.identification:
            return {}, []
        return ranges.identified(
            self.sample, metric, self.assumption(metric), self.request.confidence
        )

    def record(self, metric: Metric, estimator: str) -> tuple[track_record.Record | None, str]:
        """The track record of such estimates; or None, and what the benchmark lacks."""
        if not self.request.record:
            return None, ""
        return track_record.of_log(self.sample, metric, estimator)

    def settings(self) -> dict[str, Any]:
        estimators = map(self.estimator, self.request.metrics)
        has_gamma = any(name.startswith("bias-variance") for name in estimators)
        gamma = {"gamma": self.values.gamma} if has_gamma else {}
        return {**gamma, "confidence": self.request.confidence}

    # Estimates

    def estimates(self, *, progress: bool) -> Estimates:
        if self.request.identification:
            self.sample.check_independent("identification=False leaves the ranges out")
        metrics = self.request.metrics
        rows, notes, without_record = list[EstimateRow](), list[str](), dict[str, list[str]]()
        bar = _progress.bar(total=2 * len(metrics), desc="estimate", unit="table", show=progress)
        with bar:
            for metric in metrics:
                rows += self._estimate_rows(metric, bar, notes, without_record)
        notes += [
            f"no typical range for {', '.join(names)}: {reason}"
            for reason, names in without_record.items()
        ]
        if self.log.protocol.uniform and self.request.record:  # not for groups of users
            notes += options.notes_on_depth(self.sample, metrics)
        if LEARNED in map(self.estimator, metrics):
            notes += self.family_notes
        notes += options.note_on_exact_values(self.log, metrics)
        rows.sort(key=lambda row: self.sample.names.index(row.recommender))
        frame = pd.DataFrame(rows, columns=EstimateRow._fields)
        settings = self._estimators() | self.settings() | self.assumed(frame)
        return Estimates(frame, settings, _distinct(notes), facts=facts_of(self.log), log=self.log)

    def _estimate_rows(
        self, metric: Metric, bar: Any, notes: list[str], without_record: dict[str, list[str]]
    ) -> list[EstimateRow]:
        """The rows of a metric; appends notes, and its name to those without a track record."""
        naive, estimator = self.reported(metric), self.estimator(metric)
        means, record = self.means(metric, estimator), None
        bar.update()
        if estimator in self.estimators and not self.unbiased(metric):
            note = options.note_on_default if self.request.estimator is None else options.notes_on
            notes += note(self.values, estimator)
            record, reason = self.record(metric, estimator)
            if reason:
                without_record.setdefault(reason, []).append(metric.name)
        intervals, range_notes = self.ranges(metric, naive)
        notes += range_notes
        bar.update()
        rows = []
        for name, mean in means.items():
            interval = intervals.get(name, MetricInterval())
            typical_low, typical_high = self._typical(metric, record, name, mean, notes)
            notes += self._doubts(metric, name, mean, interval)
            rows.append(
                EstimateRow(
                    recommender=name,
                    metric=metric.name,
                    reported=naive[name].value,
                    estimate=mean.value,
                    standard_error=mean.error,
                    typical_low=typical_low,
                    typical_high=typical_high,
                    possible_low=interval.low,
                    possible_high=interval.high,
                    assumption=interval.assumption,
                    warrant=interval.warrant,
                    quote=ranges.quoted(mean.value, interval),
                    users=self.sample.users[name],
                )
            )
        return rows

    def _typical(
        self,
        metric: Metric,
        record: track_record.Record | None,
        recommender: str,
        mean: UserMean,
        notes: list[str],
    ) -> tuple[float, float]:
        """The typical range by a record; missing, with a note, for a level that it lacks."""
        if record is None:
            return np.nan, np.nan
        first = self.sample.share_first(recommender)
        outside = track_record.beyond(record, first, recommender, mean.value)
        if self._family(recommender) == options.RATINGS:
            outside = track_record.RATINGS_MISSED
        if outside:
            notes.append(f"no typical range of {metric.name}: {outside}")
            return np.nan, np.nan
        return track_record.typical_range(record, mean.value, mean.error / mean.value, mean.users)

    def _family(self, recommender: str) -> str:
        """The family that was stated, or else the one that the name suggests."""
        stated = self.values.families[self.sample.names.index(recommender)]
        return stated or options.likely_family(recommender)

    def _doubts(
        self, metric: Metric, recommender: str, mean: UserMean, interval: MetricInterval
    ) -> list[str]:
        """Notes on an estimate that cannot be right, or on ranks that seem to be inverted."""
        notes, confidence = [], percent(self.request.confidence)
        if interval.assumption and not ranges.holds(interval, mean.value):
            notes.append(
                f"the estimate of {metric.name} for {shortened(recommender)} is outside the "
                f"{confidence} interval, so it is wrong if the interval is right"
            )
        if metric.linear and interval.high < 0.5:
            notes.append(
                f"the AUC of {shortened(recommender)} is below one half, worse than a random "
                "order: scores or ranks may be inverted (the highest score, or rank 1, is the best)"
            )
        return notes

    def _estimators(self) -> dict[str, str]:
        """The setting estimator: its name, or each with the metrics that it is for."""
        labels: dict[str, list[str]] = {}
        for metric in self.request.metrics:
            labels.setdefault(self.estimator(metric), []).append(metric.label)
        names = [
            name if len(labels) == 1 else f"{name} ({', '.join(of_metrics)})"
            for name, of_metrics in labels.items()
            if name
        ]
        return {"estimator": "; ".join(names)} if names else {}

    def assumed(self, frame: pd.DataFrame) -> dict[str, Assumed]:
        """The setting assumed: what the intervals assume; absent if there are none."""
        if not self.request.identification:
            return {}
        assuming = set(frame.loc[~frame["assumption"].isin([NONE, OF_USERS]), "metric"])
        metrics = self.request.metrics
        free_metrics = [metric.name for metric in metrics if metric.name not in assuming]
        if len(free_metrics) == len(metrics):
            return {"assumed": Assumed()}
        return {"assumed": Assumed((FEWER_USERS,), tuple(free_metrics))}

    # Comparisons

    def comparison(self, *, progress: bool) -> Comparison:
        (metric,) = self.request.metrics
        self.sample.check_independent("estimate with identification=False says what was reported")
        self.log.check_same_users()
        name = self.estimator(metric)
        notes = self.notes_on_comparison(name)
        with _progress.bar(total=3, desc="compare", unit="step", show=progress) as bar:
            paired = self._paired(metric, name)
            bar.update()
            verdicts, judging_notes = self.verdicts(paired, bar)
            notes += judging_notes
            is_undecided = not all(verdict.sign for verdict in verdicts.values())
            record, reason = None, ""
            if is_undecided and not self.unbiased(metric):
                record, reason = self.record(metric, name)
            if reason:
                notes.append(f"no track record for {metric.name} here: {reason}")
            bar.update(bar.total - bar.n)
        rows = [
            self._pair_row(pair, paired, verdict, record, notes)
            for pair, verdict in verdicts.items()
        ]
        settings = {"metric": metric.name, "estimator": name, **self.settings()}
        settings |= {"assumed": self.assumed_of_pairs(metric), "warrant": self.warrant}
        notes += options.note_on_exact_values(self.log, [metric])
        return Comparison(
            table_of(ComparisonRow, rows),
            settings,
            _distinct(notes),
            facts=facts_of(self.log),
        )

    def notes_on_comparison(self, estimator: str) -> list[str]:
        """Notes on the estimator of differences."""
        notes = options.notes_on(self.values, estimator)
        if self.request.estimator is None:
            notes += options.note_on_default(self.values, estimator)
        return notes + self.family_notes * (estimator == LEARNED)

    def _paired(self, metric: Metric, estimator: str) -> Paired:
        naive = self.reported(metric)
        means = self.means(metric, estimator)
        differences = {}
        for first, second in combinations(self.sample.names, 2):
            pair = means[first], means[second]
            gap = difference(pair[0].value, pair[1].value)
            if estimator == LEARNED:
                error = self.values.learned_error(metric, first, second, scaled=True)
                differences[first, second] = UserMean(gap, pair[0].users, error, {})
            else:
                differences[first, second] = self.sample.mean(
                    pair[0].minus(pair[1]), pair[0].users, gap
                )
        return Paired(metric, estimator, naive, means, differences)

    def without_estimates(self, metric: Metric, naive: Mapping[str, UserMean]) -> Paired:
        """What is compared where there are reported values alone."""
        users, names = self.sample.users, self.sample.names
        means = {name: UserMean(np.nan, users[name], np.nan, {}) for name in names}
        differences = {pair: means[pair[0]] for pair in combinations(names, 2)}
        return Paired(metric, "", naive, means, differences)

    def verdicts(self, paired: Paired, bar: Any) -> tuple[dict[Pair, Verdict], list[str]]:
        """A verdict on each pair, and notes."""
        metric, confidence = paired.metric, self.request.confidence
        if self.unbiased(metric):
            return judging.by_means(self.values, paired, confidence), []
        assumption, pairs = self.assumption(metric), [*paired.differences]
        return judging.by_bets(self.sample, metric, pairs, assumption, confidence, bar)

    def assumed_of_pairs(self, metric: Metric) -> Assumed:
        """The setting assumed of a comparison."""
        if self.unbiased(metric):
            return Assumed()
        if self.assumption(metric):
            return Assumed((FEWER_USERS,))
        return Assumed(of_users=any(map(self.sample.is_mixed, self.sample.names)))

    def _pair_row(
        self,
        pair: Pair,
        paired: Paired,
        verdict: Verdict,
        record: track_record.Record | None,
        notes: list[str],
    ) -> ComparisonRow:
        """The row of a pair; appends a note if the pair is beyond the record."""
        (first, second), gap = pair, paired.differences[pair]
        low, high = np.nan, np.nan
        if self.unbiased(paired.metric) and paired.estimator in ("naive", WEIGHTED):
            low, high = gap.student(self.request.confidence)[:2]
        probability, probability_low = np.nan, np.nan
        if record and not verdict.sign:
            strength = self._strength(pair, paired, record, notes)
            probability, probability_low = track_record.odds(record, strength)
            if strength >= record.decided:
                verdict = judging.with_record(verdict, gap.value, self.request.of_record)
        by_sample = verdict.sign != 0 and verdict.warrant != _confidence.TRACK_RECORD
        is_ahead = probability >= track_record.PRINTED or low > 0 or high < 0
        favoured = first if gap.value > 0 else second
        return ComparisonRow(
            first=first,
            second=second,
            reported=difference(paired.naive[first].value, paired.naive[second].value),
            estimate=gap.value,
            standard_error=gap.error,
            student_low=low,
            student_high=high,
            possible_low=verdict.low,
            possible_high=verdict.high,
            verdict=verdict.sentence(first, second),
            assumption=verdict.assumption if verdict.sign else "",
            warrant=verdict.warrant if verdict.sign else "",
            favoured=favoured if is_ahead and not by_sample else "",
            probability=probability,
            probability_low=probability_low,
            detectable=verdict.detectable,
            users_needed=verdict.users_needed,
        )

    def _strength(
        self, pair: Pair, paired: Paired, record: track_record.Record, notes: list[str]
    ) -> float:
        """How clearly, by a record, the leader of a pair is better; missing outside the record."""
        metric, (first, second) = paired.metric, pair
        outside = ""
        for name in pair:
            share, value = self.sample.share_first(name), paired.means[name].value
            outside = outside or track_record.beyond(record, share, name, value)
        if outside:
            names = " and ".join(map(shortened, pair))
            notes.append(f"no track record for {names} on {metric.name}: {outside}")
            return np.nan
        lead = abs(np.log(paired.means[first].value / paired.means[second].value))
        error = self.values.learned_error(metric, first, second)
        reads_sequences = {self._family(name) == options.SEQUENTIAL for name in pair}
        likeness = self.sample.likeness(first, second)
        return float(track_record.strength(lead, error, likeness, len(reads_sequences) == 2))


def _distinct(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, notes)))

"""Verdicts on pairs of recommenders, and what would decide undecided pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .. import _confidence
from ..bounds import bets, identification
from ..bounds.assumption import DECREASING, assumption_name
from ..metrics import Metric
from ..numerics import betting
from . import track_record
from .ranges import compatible
from .sample import Sample, UserMean, difference
from .values import Values

#: Assumptions in the order in which pairs are judged, and the weights of their bets.
WEIGHTS: dict[str | None, float] = {None: 0.2, DECREASING: 0.8}

Pair = tuple[str, str]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a pair and the interval of its difference.

    `sign` is that of the difference, 0 if undecided; `low` and `high` bound the difference under
    `assumption` and by `warrant`; `detectable` is roughly the smallest
    difference this log can show; `users_needed` such users would give a verdict, if the estimate
    is unbiased. Bets on ranks name no such number: extrapolating them takes the noise of one log
    for the difference, and logs with as many users as they named decided nothing.
    """

    sign: int
    low: float
    high: float
    assumption: str = _confidence.NONE
    warrant: str = _confidence.THEOREM
    detectable: float = np.nan
    users_needed: int | None = None

    def sentence(self, first: str, second: str) -> str:
        if self.sign == 0:
            return _confidence.UNDECIDED
        better, worse = (first, second) if self.sign > 0 else (second, first)
        beats = "probably beats" if self.warrant == _confidence.TRACK_RECORD else "beats"
        return f"{better} {beats} {worse}"


def by_student(means: Mapping[Pair, UserMean], confidence: float) -> dict[Pair, Verdict]:
    """Student's test of the users' differences, with Holm's method over all pairs."""
    signs, remaining = dict.fromkeys(means, 0), len(means)
    p_values = {pair: mean.student(confidence)[2] for pair, mean in means.items()}
    for pair in sorted(means, key=p_values.__getitem__):
        if p_values[pair] > (1.0 - confidence) / remaining:
            break
        signs[pair] = 1 if means[pair].value > 0 else -1
        remaining -= 1
    verdicts = {}
    for pair, mean in means.items():
        low, high, _ = mean.student(1.0 - (1.0 - confidence) / len(means))
        half_width = 0.5 * (high - low)
        warrant = _confidence.LARGE_SAMPLE
        verdicts[pair] = Verdict(signs[pair], low, high, warrant=warrant, detectable=half_width)
    return verdicts


def with_record(verdict: Verdict, gap: float, confidence: float) -> Verdict:
    """The verdict of the track record on an undecided pair, unless more confidence is asked for."""
    if confidence > track_record.TYPICAL:
        return verdict
    return replace(
        verdict,
        sign=1 if gap > 0 else -1,
        assumption=_confidence.LIKE_BENCHMARK,
        warrant=_confidence.TRACK_RECORD,
    )


class Paired(NamedTuple):
    """Means of a metric by an estimator, and their differences between recommenders."""

    metric: Metric
    estimator: str
    naive: Mapping[str, UserMean]
    means: Mapping[str, UserMean]
    differences: Mapping[Pair, UserMean]


def by_means(values: Values, paired: Paired, confidence: float) -> dict[Pair, Verdict]:
    """Bets on the users' differences of naive values, if these are unbiased."""
    least_value, largest_value = values.span(paired.metric)
    span, verdicts = largest_value - least_value, {}
    for first, second in paired.differences:
        first_mean, second_mean = paired.naive[first], paired.naive[second]
        user_values, counts = values.sample.tally(first_mean.minus(second_mean))
        low, high = betting.interval(
            user_values, -span, span, (1.0 - confidence) / len(paired.differences), counts=counts
        )
        sign, half_width, users_needed = int(low > 0) - int(high < 0), 0.5 * (high - low), None
        gap = abs(difference(first_mean.value, second_mean.value))
        if not sign and gap and (times := (half_width / gap) ** 2) * first_mean.users <= 1e12:
            # The detectable difference falls as 1/sqrt(users).
            users_needed = max(first_mean.users + 1, int(np.ceil(first_mean.users * times)))
        verdicts[first, second] = Verdict(
            sign, low, high, detectable=half_width, users_needed=users_needed
        )
    return verdicts


def by_bets(
    sample: Sample,
    metric: Metric,
    pairs: list[Pair],
    assumed: str | None,
    confidence: float,
    bar: Any,
) -> tuple[dict[Pair, Verdict], list[str]]:
    """Bets on sampled ranks, under no assumption and then under the one asked for; with notes."""
    judge = Judge(sample, metric, pairs, confidence)
    weights = {None: 1.0} if assumed is None else WEIGHTS
    verdicts: dict[Pair, Verdict] = {}
    notes: list[str] = []
    undecided = pairs
    for assumption, weight in weights.items():
        new_verdicts, new_notes = judge.under(assumption, undecided, weight)
        notes += new_notes
        verdicts |= new_verdicts
        undecided = [pair for pair in undecided if not verdicts[pair].sign]
        bar.update()
    return verdicts, notes


class Judge:
    """Judges pairs by sums of bets on both recommenders of each user.

    Evidence without an assumption is added to that under one, where it is valid too. The weights of
    the bets sum to 1, so that all intervals and verdicts hold together.
    """

    def __init__(
        self, sample: Sample, metric: Metric, pairs: list[Pair], confidence: float
    ) -> None:
        self.sample, self.confidence, self.metric = sample, confidence, metric
        #: Log evidence that refutes a value, corrected for the number of pairs.
        self.log_evidence_needed = identification.log_evidence_needed(confidence, len(pairs))
        #: Evidence without an assumption, for each pair and its reverse.
        self.free_evidence: dict[Pair, bets.Evidence] = {}

    def under(
        self,
        assumption: str | None,
        pairs: list[Pair],
        weight: float,
    ) -> tuple[dict[Pair, Verdict], list[str]]:
        """Judge pairs under an assumption, except those with a recommender that contradicts it."""
        names = [name for name in self.sample.names if name in set(chain(*pairs))]
        checks, notes = len(self.sample.names) * len(WEIGHTS), list[str]()
        parts = self.sample.partition(self.metric, assumption)
        names = compatible(self.sample, parts, assumption, names, self.confidence, notes, checks)
        pairs = [pair for pair in pairs if {*pair} <= {*names}]
        if not pairs:
            return {}, notes
        notes += self.sample.notes_on_thinning(assumption)
        evidence = {
            order: pair_evidence.combined(self.free_evidence.get(order))
            for order, pair_evidence in self.evidence(assumption, pairs, weight).items()
        }
        if not any(map(self.sample.is_mixed, names)):  # else it is of these users alone
            self.free_evidence |= evidence
        spans = {name: parts.span(self.sample.share(name)) for name in names}
        verdicts = self._verdicts(assumption, pairs, evidence, spans)
        if assumption is None and len(verdicts) < len(pairs):
            raise ValueError(
                "no true ranks lead to these sampled ranks under the protocol: check n_items, "
                "n_negatives and replacement"
            )
        return verdicts, notes

    def _verdicts(
        self,
        assumption: str | None,
        pairs: Sequence[Pair],
        evidence: Mapping[Pair, bets.Evidence],
        spans: Mapping[str, tuple[float, float]],
    ) -> dict[Pair, Verdict]:
        """The interval of each difference, except where the log contradicts the assumption."""
        verdicts = {}
        for pair in pairs:
            ends = []
            for first, second in (pair, pair[::-1]):
                span = [difference(spans[first][i], spans[second][1 - i]) for i in (0, 1)]
                ends.append(evidence[first, second].end(1, self.log_evidence_needed, *span))
            low, high = ends[0], 0.0 - ends[1]
            if low <= high:
                verdicts[pair] = Verdict(
                    sign=int(low > 0) - int(high < 0),
                    low=low,
                    high=high,
                    assumption=self._stated(assumption, pair),
                    detectable=0.5 * (high - low),
                )
        return verdicts

    def _stated(self, assumption: str | None, pair: Pair) -> str:
        """What a verdict assumes, or that it is of the log's users alone."""
        if assumption is None and any(map(self.sample.is_mixed, pair)):
            return _confidence.OF_USERS
        return assumption_name(assumption)

    def evidence(
        self,
        assumption: str | None,
        pairs: Sequence[Pair],
        weight: float,
    ) -> dict[Pair, bets.Evidence]:
        """Bets that the first metric of a pair is larger, and of its reverse."""
        sample, users = self.sample, self.sample.units(pairs[0][0])
        parts = sample.partition(self.metric, assumption)
        built_bets = bets.build(parts, assumption, bets.SUM_NEED * self.log_evidence_needed, users)
        bet_values = built_bets.values(sample.bet_rows)
        means = {
            name: built_bets.certificates @ sample.share(name) for pair in pairs for name in pair
        }
        evidence_by_pair = {}
        for pair in pairs:
            for first_name, second_name in (pair, pair[::-1]):
                sums = bets.Sums.of(built_bets, means[first_name], means[second_name])
                log_wealth = np.empty(sums.slope.size)
                if sample.one_row_per_user:
                    (first_codes, second_codes), counts = sample.log.joint_counts(
                        first_name, second_name
                    )
                choices = zip(sums.larger, sums.smaller, sums.ratio, sums.constant, strict=True)
                for bet_index, (first_bet, second_bet, ratio, offset) in enumerate(choices):
                    first_values, second_values = bet_values[first_bet], bet_values[second_bet]
                    if sample.one_row_per_user:  # codes count from 1
                        bet_sums = (
                            first_values[first_codes - 1] + ratio * second_values[second_codes - 1]
                        )
                        log_wealth[bet_index] = counts @ np.log(bet_sums - offset)
                    else:
                        values = sample.log.user_sums(
                            {first_name: first_values, second_name: ratio * second_values}
                        )
                        log_wealth[bet_index] = sum(
                            n_users @ np.log(user_values - offset)
                            for user_values, n_users in values
                        )
                ones = np.ones(log_wealth.size, dtype=np.int64)
                evidence_by_pair[first_name, second_name] = bets.Evidence.of(
                    ones, sums.slope, sums.mean, log_wealth, users, weight
                )
        return evidence_by_pair

"""Intervals of the exact metric of one recommender, with their assumption and warrant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from .. import _confidence, _printed_ranges
from .._validate import shortened
from ..bounds import bets, identification
from ..bounds.assumption import assumption_name
from ..metrics import Metric
from ..numerics import betting
from .sample import Sample, UserMean
from .values import Values


class MetricInterval(NamedTuple):
    """An interval of the exact metric."""

    low: float = np.nan
    high: float = np.nan
    assumption: str = ""
    warrant: str = ""


def student_interval(mean: UserMean, confidence: float) -> MetricInterval:
    """Student's interval, clipped to [0, 1], for AUC from n_above."""
    low, high = np.clip(mean.student(confidence)[:2], 0.0, 1.0).tolist()
    return MetricInterval(low, high, _confidence.NONE, _confidence.LARGE_SAMPLE)


def of_means(
    values: Values, metric: Metric, naive: Mapping[str, UserMean], confidence: float
) -> dict[str, MetricInterval]:
    """Intervals by bets on the naive values, if these are unbiased."""
    low, high = values.span(metric)
    intervals = {}
    for name, mean in naive.items():
        user_values, counts = values.sample.tally(mean.row_values)
        ends = betting.interval(user_values, low, high, 1.0 - confidence, counts=counts)
        intervals[name] = MetricInterval(*ends, _confidence.NONE, _confidence.THEOREM)
    return intervals


def identified(
    sample: Sample,
    metric: Metric,
    assumption: str | None,
    confidence: float,
) -> tuple[dict[str, MetricInterval], list[str]]:
    """Identification intervals, without assumption if the sample contradicts it, and notes."""
    intervals: dict[str, MetricInterval] = {}
    notes: list[str] = []
    for assumed in dict.fromkeys((assumption, None)):
        names = [name for name in sample.names if name not in intervals]
        if not names:
            break
        for name, ends in _by_bets(sample, metric, assumed, names, confidence, notes).items():
            stated = assumption_name(assumed)
            if assumed is None and sample.is_mixed(name):
                stated = _confidence.OF_USERS
            intervals[name] = MetricInterval(*ends, stated, _confidence.THEOREM)
    return intervals, notes


def _by_bets(
    sample: Sample,
    metric: Metric,
    assumption: str | None,
    names: Sequence[str],
    confidence: float,
    notes: list[str],
) -> dict[str, tuple[float, float]]:
    """Intervals by bets on the sampled ranks."""
    intervals: dict[str, tuple[float, float]] = {}
    parts = sample.partition(metric, assumption)
    log_evidence_needed = identification.log_evidence_needed(confidence)
    names = compatible(sample, parts, assumption, names, confidence, notes)
    if not names:
        return intervals
    notes += sample.notes_on_thinning(assumption)
    built_bets = bets.build(parts, assumption, log_evidence_needed, max(map(sample.units, names)))
    bet_values = built_bets.values(sample.bet_rows)
    for name in names:
        with contradiction_noted(sample, name, assumption, notes):
            evidence = sample.evidence(built_bets, bet_values, name)
            if sample.one_row_per_user:
                counts = sample.counts[name]
                learnt_evidence = bets.learnt(
                    parts, assumption, log_evidence_needed, sample.bet_rows, counts
                )
                evidence = evidence.combined(learnt_evidence, 0.5)
            span = parts.span(sample.share(name))
            intervals[name] = identification.unrefuted(evidence, confidence, span, assumption)
    return intervals


def compatible(
    sample: Sample,
    parts: bets.Partition,
    assumption: str | None,
    names: Sequence[str],
    confidence: float,
    notes: list[str],
    n_checks: int = 1,
) -> list[str]:
    """The recommenders consistent with an assumption; the others are noted.

    `n_checks` is the number of checks that share the error probability.
    """
    if not sample.one_row_per_user or not names:
        return list(names)
    counts = [sample.counts[name] for name in names]
    refutations = bets.refutations(parts, assumption, sample.bet_rows, counts)
    compatible_names = []
    for name, refutation in zip(names, refutations, strict=True):
        with contradiction_noted(sample, name, assumption, notes):
            identification.check(refutation, assumption, confidence, n_checks=n_checks)
            compatible_names.append(name)
    return compatible_names


@contextmanager
def contradiction_noted(
    sample: Sample, name: str, assumption: str | None, notes: list[str]
) -> Iterator[None]:
    """Turn a contradicted assumption into a note.

    Without an assumption the protocol is contradicted, which is a ValueError.
    """
    try:
        yield
    except identification.IncompatibleError as problem:
        message = f"the ranks of {shortened(name)} {problem.contradiction}"
        if assumption is None:
            hint = "check n_items, n_negatives and replacement"
            if (last := sample.cut_at(name)) is not None:
                hint = (
                    f"rank {last} is the last and has many users, as if all ranks beyond "
                    f"{last - 1} were written as {last}, but a log needs the rank among all "
                    "candidates"
                )
            raise ValueError(f"{message}: {hint}") from None
        notes.append(message)


def holds(interval: MetricInterval, value: float) -> bool:
    """Whether an interval holds a value, to the three digits in which both are printed.

    >>> interval = MetricInterval(0.0, 0.1)
    >>> holds(interval, -1e-6), holds(interval, -0.01), holds(MetricInterval(), np.nan)
    (True, False, True)
    """
    return not (value < interval.low - 5e-4 or value > interval.high + 5e-4)


def quoted(value: float, interval: MetricInterval) -> str:
    """Text to quote: the estimate with its interval; the interval alone if it excludes that.

    A negative estimate, which has no meaning as a metric, is quoted as 0.

    >>> quoted(0.0381, MetricInterval(0.0252, 0.0926)), quoted(-1e-16, MetricInterval(0.0, 0.011))
    ('0.038 (0.025 to 0.093)', '0.000 (0.000 to 0.011)')
    """
    if np.isnan(interval.low):
        return ""
    written = _printed_ranges.written(interval.low, interval.high)
    if np.isnan(value) or not holds(interval, value):
        return written
    digits = len(written.split()[0].partition(".")[2])
    return f"{np.clip(value, 0.0, 1.0) + 0.0:.{digits}f} ({written})"

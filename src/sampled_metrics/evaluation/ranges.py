"""Intervals of the exact metric of one recommender, with their assumption and warrant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from .. import _confidence, _ranges
from .._validate import shortened
from ..bounds import bets, identification
from ..bounds.assumption import Assumption, assumption_name
from ..bounds.shortest import least_width
from ..metrics import Metric
from ..numerics import betting
from ..protocol import Protocol
from .sample import Sample, UserMean
from .values import Values


class Range(NamedTuple):
    """An interval of the exact metric; `assumption` is the name of `assumed`."""

    low: float = np.nan
    high: float = np.nan
    assumption: str = ""
    warrant: str = ""
    assumed: Assumption | None = None


def by_student(mean: UserMean, level: float) -> Range:
    """Student's interval, clipped to [0, 1], for AUC from n_above."""
    low, high = np.clip(mean.student(level)[:2], 0.0, 1.0).tolist()
    return Range(low, high, _confidence.NONE, _confidence.LARGE_SAMPLE)


def of_means(
    values: Values, of: Metric, naive: dict[str, UserMean], level: float
) -> dict[str, Range]:
    """Intervals by bets on the naive values, if these are unbiased."""
    low, high = values.span(of)
    found = {}
    for name, mean in naive.items():
        each, counts = values.sample.tally(mean.parts)
        ends = betting.interval(each, low, high, 1.0 - level, counts=counts)
        found[name] = Range(*ends, _confidence.NONE, _confidence.PROVED)
    return found


def identified(
    sample: Sample, of: Metric, assumption: Assumption | None, level: float
) -> tuple[dict[str, Range], list[str]]:
    """Identification intervals, without assumption if the sample contradicts it, and notes."""
    under = _by_weights if isinstance(sample.log.protocol, Protocol) else _by_bets
    found: dict[str, Range] = {}
    notes: list[str] = []
    for assumed in dict.fromkeys((assumption, None)):
        names = [name for name in sample.names if name not in found]
        if not names:
            break
        for name, ends in under(sample, of, assumed, names, level, notes).items():
            found[name] = Range(*ends, assumption_name(assumed), _confidence.PROVED, assumed)
    return found, notes


def _by_weights(
    sample: Sample,
    of: Metric,
    assumption: Assumption | None,
    names: Sequence[str],
    level: float,
    notes: list[str],
) -> dict[str, tuple[float, float]]:
    """Intervals for weighted negatives, whichever items are above."""
    protocol, found = sample.log.protocol, {}
    assert isinstance(protocol, Protocol)
    if not sample.alone:
        raise ValueError("each user must have one held-out item where negatives are weighted")
    for name in names:
        counts = sample.counts[name].astype(float)
        with contradiction_noted(name, assumption, notes):
            interval = identification.of_ties(
                sample.better, sample.tied, counts, protocol, of, level, assumption
            )
            found[name] = interval.low, interval.high
    return found


def _by_bets(
    sample: Sample,
    of: Metric,
    assumption: Assumption | None,
    names: Sequence[str],
    level: float,
    notes: list[str],
) -> dict[str, tuple[float, float]]:
    """Intervals by bets on the sampled ranks."""
    found: dict[str, tuple[float, float]] = {}
    parts, needed = sample.partition(of, assumption), identification.need(level)
    names = compatible(sample, parts, assumption, names, level, notes)
    if not names:
        return found
    notes += sample.notes_on_thinning(assumption)
    made = bets.build(parts, assumption, needed, max(sample.users.values()))
    each = made.values(sample.bet_rows)
    for name in names:
        with contradiction_noted(name, assumption, notes):
            evidence = sample.evidence(made, each, name)
            if sample.alone:
                counts = sample.counts[name]
                learnt = bets.learnt(parts, assumption, needed, sample.bet_rows, counts)
                evidence = evidence.with_(learnt, 0.5)
            span = parts.span(sample.share(name))
            found[name] = identification.left(evidence, level, span, assumption)
    return found


def compatible(
    sample: Sample,
    parts: bets.Partition,
    assumption: Assumption | None,
    names: Sequence[str],
    level: float,
    notes: list[str],
    many: int = 1,
) -> list[str]:
    """The recommenders consistent with an assumption; the others are noted.

    `many` is the number of checks that share the error probability.
    """
    if not sample.alone or not names:
        return list(names)
    counts = [sample.counts[name] for name in names]
    against = bets.refutations(parts, assumption, sample.bet_rows, counts)
    found = []
    for name, own in zip(names, against, strict=True):
        with contradiction_noted(name, assumption, notes):
            identification.check(own, assumption, level, many=many)
            found.append(name)
    return found


@contextmanager
def contradiction_noted(
    name: str, assumption: Assumption | None, notes: list[str]
) -> Iterator[None]:
    """Turn a contradicted assumption into a note.

    Without an assumption the protocol is contradicted, which is a ValueError.
    """
    try:
        yield
    except identification.IncompatibleError as problem:
        said = f"the ranks of {shortened(name)}{str(problem).removeprefix('counts')}"
        if assumption is None:
            raise ValueError(f"{said}: check n_items, n_negatives and replacement") from None
        notes.append(said)


def shortest(sample: Sample, of: Metric, found: Range, level: float, name: str) -> float:
    """A lower bound on the mean width of any interval of the metric of a recommender."""
    counts = sample.counts[name].astype(float)
    return least_width(
        sample.partition(of, found.assumed), found.assumed, level, sample.bet_rows, counts
    )


def quoted(value: float, error: float, found: Range, level: float) -> str:
    """Text to quote: the estimate and its error if the interval says no more, else the interval."""
    if np.isnan(found.low):
        return ""
    digits = int(np.clip(1 - np.floor(np.log10(max(error, 1e-9))), 3, 6))
    # 1.5 times the half-width that bets on a normal mean give.
    reach = 1.5 * np.sqrt(2.0 * identification.need(level)) * error
    if value - reach <= found.low <= value <= found.high <= value + reach:
        return f"{value:.{digits}f} \u00b1 {error:.{digits}f}"
    return _ranges.written(found.low, found.high)

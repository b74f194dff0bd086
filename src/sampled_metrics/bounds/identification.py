"""Identification intervals: the exact metrics that are compatible with the sampled ranks.

A sample shows the distribution q = p P of the sampled rank, not the distribution p of the true
ranks. Many p have the same q, or one that the sample does not contradict. The
assumption that deeper ranks have fewer users narrows the interval. The intervals have a
finite-sample proof: ``sampled_metrics.bounds.bets``.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .. import _confidence
from .._confidence import CONFIDENCE
from .._threads import one_thread
from .._validate import FloatArray, as_written, checked_confidence, user_counts
from ..metrics import Metric
from ..metrics import metric as parsed
from ..protocol import Protocol, one_size
from . import bets
from .assumption import FEWER_USERS, assumption_name, checked_assumption

#: A sample contradicts its protocol or an assumption if its p-value is below `REFUTED`, and below
#: the share `_REFUTING` of an interval's error.
REFUTED, _REFUTING = 1e-3, 0.02
#: Rounding error of an end.
_ROUNDING = 1e-12
#: Stands for infinitely many users: beyond, rounding errors dominate.
_INFINITE = 1e8


class IncompatibleError(ValueError):
    """The sample contradicts the protocol at any true ranks, or the assumption.

    See Also
    --------
    interval : The function that raises it.

    Examples
    --------
    >>> interval([0, 0, 2_000], Protocol(50, 2), "recall@10", assumption="decreasing")
    Traceback (most recent call last):
    ...
    sampled_metrics.bounds.identification.IncompatibleError: counts contradict ...
    """

    def __init__(self, contradiction: str) -> None:
        super().__init__(contradiction)
        #: The message without its subject, the counts.
        self.contradiction = contradiction

    def __str__(self) -> str:
        return f"counts {self.contradiction}"


@dataclass(frozen=True)
class Interval:
    """The exact metrics that are compatible with a sample.

    Attributes
    ----------
    low, high : float
        In units of the metric.
    confidence : float
        Such an interval holds the exact metric at least this often.
    assumption : str
        Name of the assumption on the true ranks; "none" if nothing is assumed.
    warrant : str
        Why the confidence holds: "theorem", for any number of users.

    See Also
    --------
    interval : Computes it.

    Examples
    --------
    >>> found = interval([60, 30, 10], Protocol(n_items=50, n_negatives=2), "recall@10")
    >>> round(found.low, 2), round(found.high, 2), found.assumption, found.warrant
    (0.0, 1.0, 'none', 'theorem')
    """

    low: float
    high: float
    confidence: float
    assumption: str
    warrant: str = _confidence.THEOREM


def log_evidence_needed(confidence: float, n_intervals: int = 1) -> float:
    """Logarithm of the e-value that refutes a value from one of two sides.

    The error is shared by `n_intervals` intervals. Reserves a share of it for samples that
    contradict a true assumption.
    """
    return float(np.log(2.0 * n_intervals / ((1.0 - _REFUTING) * (1.0 - confidence))))


@one_thread
def interval(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
    metric: Metric | str,
    confidence: float = CONFIDENCE,
    users: float | None = None,
    *,
    assumption: str | None = None,
) -> Interval:
    """The exact metrics that are compatible with the observed sampled ranks.

    By a theorem, the interval holds the exact metric of a population that the assumption allows in
    at least 95% of samples, for any number of users. See :ref:`Intervals
    <lib-guarantees-intervals>` for its conditions and its proof.

    Parameters
    ----------
    counts : array_like of float, shape (m + 1,) or (n_relevant, m + 1), or a sequence of such
        Users with 0, 1, ..., m sampled negatives above the item, with several relevant items a row
        for each position. A sequence has one array for each class of users. Counts may be
        fractions, as of ties spread over their places: without replacement the interval is then
        valid but wider than from a log, which keeps ties together. With replacement tied draws may
        be copies of one item: use a log.
    protocol : Protocol or sequence of Protocol
        Of uniform negatives, with one catalogue size; one for each class.
    metric : Metric or str
    confidence : float
        In (0, 1).
    users : float, optional
        Number of users that `counts`, then shares, stand for; ``inf`` for the limit (computed with
        1e8 users). The sum of the counts if omitted.
    assumption : {"decreasing"}, optional
        Deeper ranks have fewer users, near the top and in each class; nothing is assumed if
        omitted. With several relevant items it is on the best one's rank, and the metric must look
        at no other, as "hit@10" and "rr".

    Returns
    -------
    Interval
        Of the average metric over the users.

    Raises
    ------
    ValueError
        If the counts are negative, not finite, all zero or of the wrong shape, `confidence` or
        `users` is out of range, or something is assumed of other relevant items than the best.
    IncompatibleError
        A ValueError, if the sample contradicts the protocol at any true ranks, or the assumption.

    See Also
    --------
    sampled_metrics.estimate : Takes a log, and knows which rows are of one user.
    sampled_metrics.priors.maximum_entropy : One of the compatible distributions.

    Examples
    --------
    What 99 negatives show about the first ten ranks; the exact value is 0.096:

    >>> protocol = Protocol(n_items=1_000, n_negatives=99)
    >>> true = np.random.default_rng(1).geometric(0.01, size=5_000)
    >>> drawn = np.bincount(protocol.draw(np.minimum(true, 1_000), 1) - 1, minlength=100)
    >>> for assumption in (None, "decreasing"):
    ...     found = interval(drawn, protocol, "recall@10", assumption=assumption)
    ...     print(round(found.low, 2), round(found.high, 2))
    0.02 0.21
    0.08 0.13
    """
    metric, assumption = _checked(metric, confidence, users), checked_assumption(assumption)
    parts, rows, users_by_row, total = _sample(counts, protocol, metric, users)
    _check_assumption(parts, assumption)
    one_row_each = bool((parts.kinds[:, 1] == 1).all())
    if one_row_each:
        (log_evidence,) = bets.refutations(parts, assumption, rows, [users_by_row])
        check(log_evidence, assumption, confidence)
    guess_bets = bets.build(parts, assumption, log_evidence_needed(confidence), total)
    # By Jensen's inequality, the log of a user's mean over positions is at least the mean log.
    weight = parts.weight[rows.kind]
    used = np.flatnonzero(weight)
    logs = np.log(guess_bets.values(rows)[:, used] / weight[used]) @ (users_by_row * weight)[used]
    mean = guess_bets.certificates @ parts.share
    evidence = bets.Evidence.of(guess_bets.sign, guess_bets.slope, mean, logs, total)
    if one_row_each:
        learnt_evidence = bets.learnt(
            parts, assumption, log_evidence_needed(confidence), rows, users_by_row
        )
        evidence = evidence.combined(learnt_evidence, 0.5)
    return Interval(
        *unrefuted(evidence, confidence, parts.span(), assumption),
        float(confidence),
        assumption_name(assumption),
    )


def _checked(metric: Metric | str, confidence: float, users: float | None) -> Metric:
    """The parsed metric; checks the numbers."""
    checked_confidence(confidence)
    if users is not None and (not isinstance(users, numbers.Real) or not users > 0):
        raise ValueError(f"users must be a number > 0, got {as_written(users)}")
    return parsed(metric)


def _sample(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
    metric: Metric,
    users: float | None,
) -> tuple[bets.Partition, bets.Rows, FloatArray, float]:
    """Parts of a sample, its rows, the users with each row, and the number of users."""
    classes = checked_counts(counts, protocol)
    total = sum(class_users for _, _, class_users in classes)
    scale = 1.0 if users is None else min(float(users), _INFINITE) / total
    kinds: list[tuple[int, int, int, int]] = []
    weights, kind, x, users_by_row = [], [], [], []
    for vectors, sampling, class_users in classes:
        for j, vector in enumerate(vectors):
            outcomes = np.flatnonzero(vector)
            kind.append(np.full(outcomes.size, len(kinds)))
            x.append(outcomes)
            users_by_row.append(scale * vector[outcomes])
            kinds.append((sampling.n_negatives, len(vectors), j + 1, int(sampling.n_items)))
            weights.append(scale * class_users)
    replacement = classes[0][1].replacement
    parts = bets.partition(np.array(kinds), np.array(weights), metric, replacement)
    rows = bets.Rows(np.concatenate(kind), np.concatenate(x))
    return parts, rows, np.concatenate(users_by_row), scale * total


def unrefuted(
    evidence: bets.Evidence,
    confidence: float,
    span: tuple[float, float],
    assumption: str | None,
) -> tuple[float, float]:
    """The values of a metric that bets do not refute, rounded outwards.

    If no value is left at this confidence, tries the level that would contradict the assumption.
    """
    for trial_confidence in (confidence, 1.0 - REFUTED):
        (lower, upper), threshold = span, log_evidence_needed(trial_confidence)
        low = evidence.end(1, threshold, lower, upper)
        high = evidence.end(-1, threshold, upper, lower)
        if low <= high:
            return max(float(low) - _ROUNDING, 0.0), min(float(high) + _ROUNDING, 1.0)
    raise IncompatibleError(f"contradict {_why(assumption)}: p-value at most {REFUTED:g}")


def _check_assumption(parts: bets.Partition, assumption: str | None) -> None:
    """Refuse an assumption on other relevant items than the best."""
    _, relevant, position, _ = parts.kinds[parts.part >= 0].T
    if assumption is not None and (position > 1).any():
        later = int(np.argmax(position > 1))
        raise ValueError(
            "assumption must be None where the metric looks at more than the best relevant item: "
            f"deeper ranks may well have more users for item {position[later]} of {relevant[later]}"
        )


def check(
    log_evidence: float,
    assumption: str | None,
    confidence: float = CONFIDENCE,
    n_checks: int = 1,
) -> None:
    """Raise IncompatibleError if the log e-value `log_evidence` contradicts the assumption."""
    if log_evidence > -np.log(min(REFUTED, _REFUTING * (1.0 - confidence)) / n_checks):
        p_value = _p(log_evidence)
        raise IncompatibleError(f"contradict {_why(assumption)}: p-value at most {p_value}")


def _why(assumption: str | None) -> str:
    return (
        "the protocol at any true ranks"
        if assumption is None
        else f"the assumption that {FEWER_USERS}"
    )


def _p(log_evidence: float) -> str:
    """The p-value of a log e-value, rounded up."""
    if log_evidence > 690:
        return "1e-300"
    p = float(np.exp(-log_evidence))
    unit = 10.0 ** np.floor(np.log10(p))
    return f"{np.ceil(p / unit - 1e-9) * unit:.0e}".replace("e-0", "e-")


def checked_counts(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
) -> list[tuple[FloatArray, Protocol, float]]:
    """For each class of users: counts (n_relevant, outcomes), protocol and number of users.

    >>> checked_counts([2, 1], Protocol(n_items=5, n_negatives=1))[0][2]
    3.0
    """
    protocols: list[Protocol]
    if isinstance(protocol, Protocol):
        samples: list[ArrayLike] = [counts]  # type: ignore[list-item]
        protocols = [protocol]
    else:
        samples, protocols = list(counts), list(protocol)  # type: ignore[arg-type]
        if len(samples) != len(protocols):
            raise ValueError(
                f"protocol must hold one for each of {len(samples)} counts, got {len(protocols)}"
            )
        if len({sampling.replacement for sampling in protocols}) > 1:
            raise ValueError("replacement must be the same for all classes, got both")
    classes = []
    for sample, sampling in zip(samples, protocols, strict=True):
        one_size(sampling)
        relevant = sampling.n_relevant
        rows, n_outcomes = user_counts(sample), sampling.n_outcomes
        expected_shape = (n_outcomes,) if relevant == 1 else (relevant, n_outcomes)
        if rows.shape != expected_shape:
            raise ValueError(f"counts must have shape {expected_shape}, got {rows.shape}")
        rows = rows.reshape(relevant, n_outcomes)
        users = float(rows[0].sum())
        if not np.allclose(rows.sum(axis=1), users, rtol=1e-9, atol=0):
            raise ValueError(
                f"counts must have the same sum at every position, got {rows.sum(axis=1).tolist()}"
            )
        if users > 0:
            classes.append((rows, sampling, users))
    if not classes:
        raise ValueError("counts must hold at least one user, got none")
    return classes

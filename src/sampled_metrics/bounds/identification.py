"""What the sample cannot tell: the exact metrics that are compatible with the sampled ranks.

A sample of negatives shows the distribution of the sampled rank, q = p P, and not the distribution
p of the true ranks; many p have the same q, or one that the observed sample does not contradict.
What is assumed of p narrows the range of its metric: nothing, or an :class:`Assumption` near the
top, where the sample shows little. The ranges have a finite-sample proof:
``sampled_metrics.bounds.bets``.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .. import _promises
from .._threads import one_thread
from .._validate import FloatArray, as_written
from ..metrics import Metric
from ..metrics import metric as parsed
from ..protocol import Protocol, drawn_alike
from . import bets, weighted
from .assumption import Assumption, assumption_name
from .generators import knots
from .shortest import least_width

#: A sample is incompatible with its protocol, or with an assumption, if it is as unlikely as this:
#: at most this part of the error that ranges are allowed.
REFUTED, _REFUTING = 1e-3, 0.02
#: An end may be wrong by less than this.
_ROUNDING = 1e-12
#: Users that stand for infinitely many: with more, rounding is what one sees.
_INFINITE = 1e8


class IncompatibleError(ValueError):
    """No distribution of true ranks leads to such sampled ranks."""


@dataclass(frozen=True)
class Interval:
    """The exact metrics that are compatible with a sample.

    Attributes
    ----------
    low, high : float
    confidence : float
        How often, in the long run, such an interval holds the exact metric, at least.
    assumption : str
        On the true ranks; "none" if nothing is assumed.
    warrant : str
        Why it holds it so often: "proved".

    Examples
    --------
    >>> found = interval([60, 30, 10], Protocol(n_items=50, n_negatives=2), "recall@10")
    >>> round(found.low, 2), round(found.high, 2), found.assumption, found.warrant
    (0.0, 1.0, 'none', 'proved')
    """

    low: float
    high: float
    confidence: float
    assumption: str
    warrant: str = _promises.PROVED


def error(confidence: float) -> float:
    """How often a range may miss, or any verdict be wrong: the rest is for refuted assumptions.

    Examples
    --------
    >>> round(error(0.95), 3)
    0.049
    """
    return (1.0 - _REFUTING) * (1.0 - confidence)


def need(confidence: float, many: int = 1) -> float:
    """The logarithm of the e-value that refutes a value from one of two sides, of many ranges.

    Examples
    --------
    >>> round(float(np.exp(need(0.95))), 1)
    40.8
    """
    return float(np.log(2.0 * many / error(confidence)))


@one_thread
def interval(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
    metric: Metric | str,
    confidence: float = 0.95,
    users: float | None = None,
    *,
    assumption: Assumption | None = None,
) -> Interval:
    """The exact metrics that are compatible with the observed sampled ranks.

    **Theorem.** Let N users be drawn from a population of true ranks that the assumption allows,
    and negatives for each of them, independently. With several classes there is a population for
    each, and their metrics are weighted by the users of the classes. Then the interval holds the
    population's metric in at least 95% of the samples, for every N and every such population. If
    nothing is assumed, it also holds the mean metric of these very users, whatever their true ranks
    are.

    Proof: ``sampled_metrics.bounds.bets`` bets against every value outside the interval, by
    functions of the sampled rank that were fixed before the sample was looked at. At the true
    value, or on its side towards the interval, the expectation of what is left of 1 is at most 1,
    so that by Markov's inequality it exceeds 40.8 in at most 2.45% of the samples. Each end is the
    value at which the average bet has won so much. The remaining 0.1% is for samples that
    contradict a true assumption.

    Parameters
    ----------
    counts : array_like of float, shape (m + 1,) or (n_relevant, m + 1), or a sequence of such
        Users with 0, 1, ..., m sampled negatives above the item, with several relevant items a
        row for each position. They may be fractions, as of ties spread over the places they
        cover: for negatives without replacement that makes the interval wider than ties that are
        kept together (a log), and not invalid. A sequence has one array for each class of users.
    protocol : Protocol or sequence of Protocol
        With one catalogue size; as many as there are classes. One whose negatives are not drawn
        alike (:mod:`~sampled_metrics.bounds.weighted`) stands alone, for one relevant item: the
        interval then is of all sets of items that may be above, by exact binomial intervals.
    metric : Metric or str
    confidence : float
        In (0, 1).
    users : float, optional
        Users that `counts`, then shares, stand for; ``inf`` leaves what even a hundred million
        users cannot tell. The sum of the counts if omitted.
    assumption : Assumption, optional
        What is assumed of the first true ranks; nothing if omitted. With several relevant items
        it is of the best one's, for metrics that look at no other, such as "hit@10" and "rr": the
        second best may well be rarer at rank 2 than further down where each item is likeliest at
        the top. With several classes it is of each class.

    Returns
    -------
    Interval
        Of the average metric over the users. With several relevant items the positions of one
        user may depend on each other in any way. With few users it is wide, up to all values that
        the metric can have, and holds all the same.

    Raises
    ------
    ValueError
        If the counts are negative, not finite, all zero or of another shape than the protocol's,
        if `confidence` or `users` is out of range, if something is assumed of other relevant items
        than the best, or (:class:`IncompatibleError`) if the sample contradicts the protocol at
        any true ranks, or the assumption: if users with one row each have an e-value above 1,000
        against it, or if no value of the metric is left.

    See Also
    --------
    sampled_metrics.evaluation.estimate : Takes a log, and knows which rows are of one user.
    sampled_metrics.priors.maximum_entropy : One distribution of those that are compatible.

    Examples
    --------
    How much of the catalogue's first ten ranks 99 negatives show:

    >>> protocol = Protocol(n_items=1_000, n_negatives=99)
    >>> true = np.random.default_rng(1).geometric(0.01, size=5_000)
    >>> drawn = np.bincount(protocol.draw(np.minimum(true, 1_000), 1) - 1, minlength=100)
    >>> found = interval(drawn, protocol, "recall@10")
    >>> round(found.low, 2), round(found.high, 2)  # the exact one is 0.096
    (0.02, 0.21)
    >>> found = interval(drawn, protocol, "recall@10", assumption=Assumption())
    >>> round(found.low, 2), round(found.high, 2)
    (0.08, 0.13)
    """
    metric = _checked(metric, confidence, users)
    if isinstance(protocol, Protocol) and not protocol.uniform:
        return _of_unequal(counts, protocol, metric, float(confidence), users, assumption)
    parts, rows, many, total = _sample(counts, protocol, metric, users)
    _check_assumption(parts, assumption)
    alone = bool((parts.kinds[:, 1] == 1).all())
    if alone:
        (against,) = bets.refutations(parts, assumption, rows, [many])
        check(against, assumption, confidence)
    made = bets.build(parts, assumption, need(confidence), total)
    # A user's weighted mean over positions has a logarithm of at least the mean logarithm.
    weight = parts.weight[rows.kind]
    some = np.flatnonzero(weight)
    logs = np.log(made.values(rows)[:, some] / weight[some]) @ (many * weight)[some]
    mean = made.certificates @ parts.share
    evidence = bets.Evidence.of(made.sign, made.slope, mean, logs, total)
    if alone:
        more = bets.learnt(parts, assumption, need(confidence), rows, many)
        evidence = evidence.with_(more, 0.5)
    return Interval(
        *left(evidence, confidence, parts.span(), assumption),
        float(confidence),
        assumption_name(assumption),
    )


@one_thread
def shortest(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
    metric: Metric | str,
    confidence: float = 0.95,
    users: float | None = None,
    *,
    assumption: Assumption | None = None,
) -> float:
    """Lower bound on the mean width of any valid interval, at the population fitted to a sample.

    **Theorem.** Let a method's intervals hold the metric in at least 95% (`confidence`) of samples
    from each population that the assumption allows. Let p be the population that is fitted here to
    the counts, within the assumption. Then the mean width of the method's intervals, over samples
    from p, is at least the result.

    Proof: the interval is a test of each value of the metric, and its mean width is the integral of
    how often that test does not reject. The theorem of Neyman and Pearson bounds this from below by
    any one population with the value (pratt1961): see ``sampled_metrics.bounds.shortest``.

    Parameters
    ----------
    counts, protocol, metric, confidence, users, assumption
        As for :func:`interval`; one relevant item for each user. Where classes with nearly the same
        catalogue size or numbers of negatives are put together, all are taken to have the largest
        catalogue and the fewest negatives: then the result is approximate, and may be too large.

    Returns
    -------
    float
        In units of the metric.

    Raises
    ------
    ValueError
        As for :func:`interval`, or if users have several relevant items or negatives are not drawn
        alike.

    See Also
    --------
    interval : An interval that holds the metric as often as it says.
    sampled_metrics.evaluation.estimate : Says how far its ranges are from this bound.

    Examples
    --------
    How many times as wide as the bound an interval is:

    >>> protocol = Protocol(n_items=1_000, n_negatives=99)
    >>> true = np.random.default_rng(1).geometric(0.01, size=5_000)
    >>> drawn = np.bincount(protocol.draw(np.minimum(true, 1_000), 1) - 1, minlength=100)
    >>> found = interval(drawn, protocol, "recall@10")
    >>> least = shortest(drawn, protocol, "recall@10")
    >>> round((found.high - found.low) / least, 1)
    1.3
    """
    metric = _checked(metric, confidence, users)
    parts, rows, many, _ = _sample(counts, protocol, metric, users)
    if (parts.kinds[:, 1] > 1).any():
        raise ValueError(f"n_relevant must be 1, got {int(parts.kinds[:, 1].max())}")
    return least_width(parts, assumption, float(confidence), rows, many)


def _checked(metric: Metric | str, confidence: float, users: float | None) -> Metric:
    """The metric, if it is one and the numbers are in their ranges."""
    if not isinstance(confidence, numbers.Real) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {as_written(confidence)}")
    if users is not None and (not isinstance(users, numbers.Real) or not users > 0):
        raise ValueError(f"users must be a number > 0, got {as_written(users)}")
    return parsed(metric)


def _sample(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
    metric: Metric,
    users: float | None,
) -> tuple[bets.Partition, bets.Rows, FloatArray, float]:
    """The parts of a sample, its rows, the users with each, and how many users there are."""
    classes = checked_counts(counts, protocol)
    total = sum(of_class for _, _, of_class in classes)
    scale = 1.0 if users is None else min(float(users), _INFINITE) / total
    kinds: list[tuple[int, int, int, int]] = []
    weights, kind, x, seen = [], [], [], []
    for vectors, of, of_class in classes:
        for j, vector in enumerate(vectors):
            at = np.flatnonzero(vector)
            kind.append(np.full(at.size, len(kinds)))
            x.append(at)
            seen.append(scale * vector[at])
            kinds.append((of.n_negatives, of.n_relevant, j + 1, int(of.n_items)))
            weights.append(scale * of_class)
    parts = bets.partition(np.array(kinds), np.array(weights), metric, classes[0][1].replacement)
    rows = bets.Rows(np.concatenate(kind), np.concatenate(x))
    return parts, rows, np.concatenate(seen), scale * total


def left(
    evidence: bets.Evidence,
    confidence: float,
    span: tuple[float, float],
    assumption: Assumption | None,
    whose: str = "counts",
) -> tuple[float, float]:
    """The values of a metric within its span that bets leave, if the assumption is not wrong.

    Raises
    ------
    IncompatibleError
        If none is left even at the confidence with which an assumption is refuted.

    Examples
    --------
    >>> kinds, users = np.array([[9, 1, 1, 50]]), 100.0
    >>> parts = bets.partition(kinds, np.array([users]), parsed("recall@25"), replacement=True)
    >>> made = bets.build(parts, None, need(0.95), users)
    >>> first = bets.Rows(np.array([0]), np.array([0]))  # all are above their negatives
    >>> logs, mean = users * np.log(made.values(first)[:, 0]), made.certificates @ parts.share
    >>> evidence = bets.Evidence.of(made.sign, made.slope, mean, logs, users)
    >>> [round(end, 2) for end in left(evidence, 0.95, parts.span(), None)]
    [0.9, 1.0]
    """
    for level in (confidence, 1.0 - REFUTED):
        (least, most), wanted = span, need(level)
        low, high = evidence.end(1, wanted, least, most), evidence.end(-1, wanted, most, least)
        if low <= high:
            # Outwards by more than rounding, since every metric lies in [0, 1].
            return max(float(low) - _ROUNDING, 0.0), min(float(high) + _ROUNDING, 1.0)
    raise IncompatibleError(f"{whose} contradict {_why(assumption)}: p-value at most {REFUTED:g}")


def _check_assumption(parts: bets.Partition, assumption: Assumption | None) -> None:
    """Refuse an assumption on other relevant items than the best."""
    _, relevant, position, _ = parts.kinds[parts.part >= 0].T
    if assumption is not None and (position > 1).any():
        later = int(np.argmax(position > 1))
        raise ValueError(
            "assumption must be None where the metric looks at more than the best relevant item: "
            f"deeper ranks may well have more users for item {position[later]} of {relevant[later]}"
        )


def check(
    against: float,
    assumption: Assumption | None,
    confidence: float = 0.95,
    whose: str = "counts",
    many: int = 1,
) -> None:
    """Refuse a sample that contradicts an assumption.

    Parameters
    ----------
    against : float
        Logarithm of the e-value against it.
    assumption : Assumption, optional
        What was assumed.
    confidence : float
        Of the ranges.
    whose : str
        What contradicts, for the message.
    many : int
        Assumptions that are checked together.

    Raises
    ------
    IncompatibleError
        If the e-value is above 1 / `REFUTED`, or more for a higher confidence.

    Examples
    --------
    >>> check(4.0, Assumption())
    >>> check(42.0, None, whose="the ranks of B")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sampled_metrics...IncompatibleError: the ranks of B contradict the protocol at any true ranks: ...
    """
    if against > -np.log(min(REFUTED, _REFUTING * (1.0 - confidence)) / many):
        raise IncompatibleError(
            f"{whose} contradict {_why(assumption)}: p-value at most {_p(against)}"
        )


def _of_unequal(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol,
    metric: Metric,
    confidence: float,
    users: float | None,
    assumption: Assumption | None,
) -> Interval:
    """As :func:`interval`, of negatives that are not drawn alike."""
    if not isinstance(protocol.n_items, int) or protocol.n_relevant > 1:
        raise ValueError(
            "protocol must have one n_items and one relevant item where negatives are not drawn "
            f"alike, got {protocol!r}"
        )
    if assumption is not None and (np.isfinite(assumption.steepness) or assumption.geometric):
        raise ValueError(
            "assumption must have no steepness, and not be geometric, where negatives are not "
            f"drawn alike, got {assumption!r}"
        )
    seen, m = _finite(counts), protocol.n_negatives
    if seen.shape != (m + 1,):
        raise ValueError(f"counts must have shape {(m + 1,)}, got {seen.shape}")
    if not seen.any():
        raise ValueError("counts must hold at least one user, got none")
    if users is not None:
        seen = seen * (min(float(users), _INFINITE) / seen.sum())
    head = (
        0
        if assumption is None
        else min(int(assumption.head * protocol.n_items / m), protocol.n_items)
    )
    starts = knots(m)[1:]
    # A band that no distribution respects may be the rare one that fails.
    for level in (confidence, 1.0 - REFUTED):
        band = weighted.band(seen, starts, level)
        found = weighted.ends(protocol, metric, starts, *band, head)
        if found is not None:
            return Interval(found.low, found.high, confidence, assumption_name(assumption))
    raise IncompatibleError(f"counts contradict {_why(assumption)}: p-value below {REFUTED:g}")


def _why(assumption: Assumption | None) -> str:
    return (
        "the protocol at any true ranks"
        if assumption is None
        else f"the assumption that {assumption}"
    )


def _p(against: float) -> str:
    """What 1 over an e-value is, rounded up."""
    if against > 690:
        return "1e-300"
    p = float(np.exp(-against))
    unit = 10.0 ** np.floor(np.log10(p))
    return f"{np.ceil(p / unit - 1e-9) * unit:.0e}".replace("e-0", "e-")


def checked_counts(
    counts: ArrayLike | Sequence[ArrayLike], protocol: Protocol | Sequence[Protocol]
) -> list[tuple[FloatArray, Protocol, float]]:
    """The counts of each class of users as a row for each position, its protocol and its users.

    Raises
    ------
    ValueError
        As :func:`interval`; classes without users are left out.

    Examples
    --------
    >>> checked_counts([2, 1], Protocol(n_items=5, n_negatives=1))[0][2]
    3.0
    """
    if isinstance(protocol, Protocol):
        given: list[ArrayLike] = [counts]  # type: ignore[list-item]
        protocols = [protocol]
    else:
        given, protocols = list(counts), list(protocol)  # type: ignore[arg-type]
        if len(given) != len(protocols):
            raise ValueError(
                f"protocol must hold one for each of {len(given)} counts, got {len(protocols)}"
            )
        if len({each.replacement for each in protocols}) > 1:
            raise ValueError("replacement must be the same for all classes, got both")
    classes = []
    for each, of in zip(given, protocols, strict=True):
        drawn_alike(of)
        if not isinstance(of.n_items, int):
            raise ValueError(
                f"n_items must be one number for each class, got shape {of.n_items.shape}"
            )
        rows = _finite(each)
        columns, relevant = of.n_negatives + 1, of.n_relevant
        expected = (columns,) if relevant == 1 else (relevant, columns)
        if rows.shape != expected:
            raise ValueError(f"counts must have shape {expected}, got {rows.shape}")
        rows = rows.reshape(relevant, columns)
        users = float(rows[0].sum())
        if not np.allclose(rows.sum(axis=1), users, rtol=1e-9, atol=0):
            raise ValueError(
                f"counts must have the same sum at every position, got {rows.sum(axis=1).tolist()}"
            )
        if users > 0:
            classes.append((rows, of, users))
    if not classes:
        raise ValueError("counts must hold at least one user, got none")
    return classes


def _finite(counts: ArrayLike | Sequence[ArrayLike]) -> FloatArray:
    try:
        rows = np.asarray(counts, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"counts must be numbers, got {as_written(counts)}") from None
    bad = rows[~(np.isfinite(rows) & (rows >= 0))]
    if bad.size:
        raise ValueError(f"counts must be finite numbers >= 0, got {bad[0]}")
    return rows

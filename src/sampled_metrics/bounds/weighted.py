"""What is possible where negatives are not drawn alike: by popularity, or duplicates collapsed.

A sampled rank does not say which items are above the held-out one. If these are the most often
drawn items, as many negatives as possible are above it, and as few as possible if they are the
least often drawn. To exchange an item above for one below that is drawn more often moves the
sampled rank down, in distribution, for draws with replacement and without: the negatives can be
drawn for both so that none is above in the one and not in the other. So the distribution of the
sampled rank lies between two that can be computed, for each true rank, and with replacement it is
binomial with a probability between two.

Observed are the shares of users with at most so many negatives above, and each of some twenty of
them is within an exact binomial interval of the true one. What is possible are the metrics of all
mixtures that respect all intervals: two linear programmes. They hold the exact metric as often as
they say for any number of users and any distribution of their ranks.

All users are taken to have the same items but for the held-out one, which is not drawn. If others
are left out for a user, as what the user has seen, a draw is above with a probability that is up
to one over the share of the weight that is left times as large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import bdtr, betaincinv

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..protocol import Protocol

#: Ranks that columns stand for: all up to the first number, then stretches this much longer.
_EVERY, _LONGER = 256, 1.01
#: Probabilities of a draw that are looked at, per standard deviation of the number above.
_FINE = 24
#: Smaller shares are none to the solver.
_TINY = 1e-9
#: What is between two of them may be so many times further from their chord than in the middle.
_SAFE = 1.5


@dataclass(frozen=True, eq=False)
class Ends:
    """The least and the most that a metric can be, and distributions of the true ranks there.

    `gap` is how much further out than the programme's own solution either end may lie.
    """

    low: float
    high: float
    gap: float
    at_low: dict[int, float]
    at_high: dict[int, float]


def band(users: FloatArray, starts: IntArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Intervals that hold all true shares of users with fewer negatives above than each start.

    Parameters
    ----------
    users : ndarray of float, shape (m + 1,)
        With 0, 1, ..., m negatives above.
    starts : ndarray of int, shape (k,)
        In [1, m].
    confidence : float
        In (0, 1), of all together: each is Clopper and Pearson's, and they share what is left.

    Returns
    -------
    below, above : ndarray of float, shape (k,)

    See Also
    --------
    ends : What such a band leaves possible.

    Examples
    --------
    >>> below, above = band(np.array([60.0, 30.0, 10.0]), np.array([1, 2]), 0.95)
    >>> below.round(2), above.round(2)
    (array([0.48, 0.81]), array([0.71, 0.96]))
    """
    total, seen = float(users.sum()), np.cumsum(users)[starts - 1]
    least = 0.5 * (1.0 - confidence) / starts.size
    few, many = np.floor(seen + 1e-9), np.minimum(np.ceil(seen - 1e-9), np.ceil(total))
    total = max(total, 1.0)
    with np.errstate(invalid="ignore"):
        below = np.where(few > 0, betaincinv(few, total - few + 1.0, least), 0.0)
        above = np.where(many < total, betaincinv(many + 1.0, total - many, 1.0 - least), 1.0)
    return below, above


def ends(
    protocol: Protocol,
    metric: Metric,
    starts: IntArray,
    below: FloatArray,
    above: FloatArray,
    head: int = 0,
) -> Ends | None:
    """The range of a metric over the distributions of true ranks that a band allows.

    Parameters
    ----------
    protocol : Protocol
        With one relevant item and catalogue size. Of its weights the order does not matter.
    metric : Metric
        Not increasing with the rank.
    starts, below, above : ndarray, shape (k,)
        The shares of users with fewer negatives above than each start are within these.
    head : int
        Among so many first ranks deeper ones have fewer users, if above 1.

    Returns
    -------
    Ends or None
        None if no distribution is allowed. With a head what is impossible without it is left out.

    See Also
    --------
    band : Of a sample.
    sampled_metrics.bounds.identification.interval : From counts of users.

    Examples
    --------
    Of five items, one is drawn as often as all others together. If half of the users have neither
    negative above their item, how many of them may have it at rank 1?

    >>> from sampled_metrics.metrics import metric
    >>> protocol = Protocol(5, 2, weights=[4, 1, 1, 1, 1])
    >>> half = np.array([0.5])
    >>> found = ends(protocol, metric("recall@1"), np.array([1]), half, half)
    >>> round(found.low, 3), round(found.high, 3)
    (0.0, 0.5)
    """
    asked = protocol, metric, tuple(starts.tolist()), head
    outer, inner = _columns(*asked, outer=True), _columns(*asked, outer=False)
    found, gap = [], 0.0
    for side in (0, 1):
        solved = _solved(outer, side, below, above)
        if solved is None:
            return None
        bound, weights = solved
        within = _solved(inner, side, below, above)
        gap = max(gap, abs(within[0] - bound) if within else 1.0)
        found.append((bound, dict(_masses(outer, side, weights))))
    (low, at_low), (high, at_high) = found
    if head > 1:  # the same band, and other columns
        free = ends(protocol, metric, starts, below, above)
        if free is None:
            return None
        low, at_low = max((low, at_low), (free.low, free.at_low), key=lambda end: end[0])
        high, at_high = min((high, at_high), (free.high, free.at_high), key=lambda end: end[0])
    every = metric.term(np.array([1, int(protocol.n_items)]), 1, 1, int(protocol.n_items))
    low, high = np.clip([low, high], every.min(), every.max()).tolist()
    return Ends(low, max(low, high), gap, at_low, at_high)


@dataclass(frozen=True, eq=False)
class _Columns:
    """What a distribution of the true ranks is a mixture of.

    Attributes
    ----------
    least, most : ndarray of float, shape (k, starts)
        The shares with fewer negatives above than each start are between these.
    values : tuple of ndarray of float, shape (k,)
        The least and the most that the metric is.
    ranks : tuple of ndarray of int, shape (k,)
        The ranks where it is that.
    head : int
        Columns that are spread evenly over all ranks from the first to theirs.
    slack : float
        How far the shares may be from those of any mixture of columns.
    """

    least: FloatArray
    most: FloatArray
    values: tuple[FloatArray, FloatArray]
    ranks: tuple[IntArray, IntArray]
    head: int
    slack: float


@lru_cache(maxsize=16)
def _columns(
    protocol: Protocol, metric: Metric, begin: tuple[int, ...], head: int, outer: bool
) -> _Columns:
    """Columns that allow all that is possible, and maybe more, or that allow nothing else."""
    starts = np.array(begin)
    n = int(protocol.n_items)
    term = metric.term(np.arange(1, n + 1), 1, 1, n)
    binomial = protocol.weights is not None and protocol.replacement and not protocol.collapsed
    if binomial and head < 2:
        return _by_share(protocol, term, starts, outer)
    last = np.arange(min(n, _EVERY))
    if n > _EVERY:
        steps = int(np.log(n / _EVERY) / np.log(_LONGER)) + 2
        last = np.unique(np.append(last, np.geomspace(_EVERY, n, steps).astype(int) - 1))
    first = np.append(0, last[:-1] + 1)
    least, most = _between(protocol, last + 1, starts)
    # A stretch of ranks has the least of any, and the most, or the other way round.
    wide, before = last > first, np.maximum(np.arange(last.size) - 1, 0)
    if outer:
        most = np.where(wide[:, np.newaxis], most[before], most)
    else:
        least = np.where(wide[:, np.newaxis], least[before], least)
    small, large = np.minimum.reduceat(term, first), np.maximum.reduceat(term, first)
    low, high = (small, large) if outer else (large, small)
    if head < 2:
        return _Columns(least, most, (low, high), (last + 1, first + 1), 0, 0.0)
    of = np.repeat(np.arange(last.size), last - first + 1)[:head]
    many = np.arange(1.0, of.size + 1)
    tail = last >= of.size
    means = [np.cumsum(x[of], axis=0) / many.reshape(-1, *[1] * (x.ndim - 1)) for x in (
        least, most, low, high,
    )]  # fmt: skip
    least, most, low, high = (
        np.concatenate([mean, x[tail]])
        for mean, x in zip(means, (least, most, low, high), strict=True)
    )
    within = np.arange(1, of.size + 1)
    ranks = np.append(within, last[tail] + 1), np.append(within, first[tail] + 1)
    return _Columns(least, most, (low, high), ranks, of.size, 0.0)


def _between(
    protocol: Protocol, ranks: IntArray, starts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The least and the most that the share with fewer negatives above is, at each rank."""
    if protocol.weights is None:
        both = protocol.cdf(ranks)[:, starts - 1]
        return both, both
    order = np.sort(protocol.weights)
    heavy, light = replace(protocol, weights=order[::-1]), replace(protocol, weights=order)
    m, fewer = protocol.n_negatives, starts - 1
    if not protocol.replacement:
        return heavy.cdf(ranks)[:, fewer], light.cdf(ranks)[:, fewer]
    shares = [one.share(ranks)[:, np.newaxis] for one in (heavy, light)]
    least, most = (bdtr(fewer.astype(float), m, share) for share in shares)
    if protocol.collapsed:
        # No more different ones than draws above, nor than items; none only if none was drawn.
        least = np.where(fewer >= ranks[:, np.newaxis] - 1, 1.0, least)
        most = np.where(fewer > 0, 1.0, most)
    return least, most


def _by_share(protocol: Protocol, term: FloatArray, starts: IntArray, outer: bool) -> _Columns:
    """Columns for each probability that a draw is above: the number above is then binomial."""
    assert protocol.weights is not None
    n, m = term.size, protocol.n_negatives
    order = np.sort(protocol.weights)
    largest, smallest = (
        np.maximum.accumulate(replace(protocol, weights=one).share(np.arange(1, n + 1)))
        for one in (order[::-1], order)
    )
    few = np.unique(np.append(np.arange(min(n, _EVERY)), np.geomspace(1, n, 200).astype(int) - 1))
    angles = np.linspace(0.0, 0.5 * np.pi, int(_FINE * np.pi * np.sqrt(m)) + 2)
    every = np.concatenate([np.sin(angles) ** 2, largest[few], smallest[few]])
    q = np.unique(np.clip(every, 0.0, 1.0))

    def fewer(q: FloatArray) -> FloatArray:
        return np.asarray(bdtr(starts - 1.0, m, q[:, np.newaxis]))

    laws, slack = fewer(q), 0.0
    before, after = q, q
    if outer:
        # Whatever is between two columns has at best what is just behind the one, or before the
        # other, and nearly a mixture of their distributions.
        middle = np.sin(0.5 * (np.arcsin(np.sqrt(q[1:])) + np.arcsin(np.sqrt(q[:-1])))) ** 2
        part = ((middle - q[:-1]) / np.diff(q))[:, np.newaxis]
        chord = (1.0 - part) * laws[:-1] + part * laws[1:]
        slack = _SAFE * float(np.abs(fewer(middle) - chord).max())
        before, after = np.append(0.0, q[:-1]), np.append(q[1:], 1.0)
    rounding = 1e-12
    least = np.searchsorted(largest, before + (rounding if outer else -rounding))
    least[q == 0.0] = 0
    most = np.searchsorted(smallest, after - (rounding if outer else -rounding), side="right") - 1
    most[q == 1.0] = n - 1
    least, most = np.clip(least, 0, n - 1), np.clip(most, 0, n - 1)
    return _Columns(laws, laws, (term[most], term[least]), (most + 1, least + 1), 0, slack)


def _solved(
    columns: _Columns, side: int, below: FloatArray, above: FloatArray
) -> tuple[float, FloatArray] | None:
    """A bound on the least value, or the most, from the dual; and weights of the columns."""
    from scipy.optimize import linprog  # takes as long to import as all the rest

    sign = 1.0 if side == 0 else -1.0
    cost = sign * columns.values[side]
    rows = np.concatenate([columns.least.T, -columns.most.T])
    right = np.concatenate([above, -below]) + columns.slack
    every, rough = np.ones((1, cost.size)), np.where(np.abs(rows) < _TINY, 0.0, rows)
    for method in ("highs-ds", "highs-ipm"):
        found = linprog(cost, A_ub=rough, b_ub=right, A_eq=every, b_eq=[1.0], method=method)
        if found.status == 2:
            return None
        if found.status == 0:
            break
    else:
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    # Any prices of the rows bound the optimum, so that rounding of the solver's does no harm.
    prices = np.minimum(found.ineqlin.marginals, 0.0)
    bound = float((cost - prices @ rows).min() + prices @ right)
    return sign * bound, np.asarray(found.x)


def _masses(columns: _Columns, side: int, weights: FloatArray) -> Iterator[tuple[int, float]]:
    """Users at each rank, as a share of all."""
    found: dict[int, float] = {}
    for at in np.flatnonzero(weights > 1e-9).tolist():
        last, mass = int(columns.ranks[side][at]), float(weights[at])
        for rank in range(1, last + 1) if at < columns.head else (last,):
            found[rank] = found.get(rank, 0.0) + (mass / last if at < columns.head else mass)
    yield from sorted(found.items())

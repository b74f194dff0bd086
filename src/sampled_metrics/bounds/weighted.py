"""Identification intervals for weighted negatives, or with duplicates collapsed.

A sampled rank does not say which items are above the held-out one. If these are the most often
drawn items, as many negatives as possible are above it; if the least often drawn, as few as
possible. To exchange an item above for one below that is drawn more often lowers the sampled rank
in distribution, with and without replacement: couple the draws so that no negative is above in the
first case and not in the second. So, for each true rank, the distribution of the sampled rank lies
between two that can be computed; with replacement it is binomial with a probability between two.

The data are the shares of users with fewer than so many negatives above. Each of some twenty shares
lies in an exact binomial interval. Two linear programmes then bound the metric over all mixtures
that respect all intervals. The result is valid for any number of users and any true ranks.

Tied items are in random order, so a user with ties counts by the probability of having fewer above,
given the draws. Each share is then a mean of independent numbers between 0 and 1. Its tail is at
most e times the binomial tail (bentkus2004), so the intervals are computed for 1/e of the error.
Without replacement tied negatives are different items, and each number of them above is equally
likely. With replacement they may be copies of one item, and the log only bounds the probability
(`fewer_above`).

All users are taken to have the same items except the held-out one, which is not drawn. If more
items are left out for a user, such as seen ones, the probability that a draw is above can be larger
by a factor of up to one over the share of the weight that is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import bdtr, betaincinv

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..protocol import Weighted

#: One column for each of the first ranks, then stretches that grow by this ratio.
_EVERY, _LONGER = 256, 1.01
#: Grid of draw probabilities, per standard deviation of the number above.
_FINE = 24
#: Smaller coefficients are 0 for the solver.
_TINY = 1e-9
#: Safety factor: between grid points the distance from the chord may exceed the one in the middle.
_SAFE = 1.5


def fewer_above(
    better: IntArray, tied: IntArray, starts: IntArray, copies: bool
) -> tuple[FloatArray, FloatArray]:
    """Bounds of the probability of fewer negatives above than each start; shape (rows, starts).

    Tied items are in random order. Without `copies` the t tied negatives are different items, and
    the number T of them above is uniform. With copies T and t - T have the same distribution, so
    that T <= a has probability 1/2 or more if a >= (t - 1) / 2. At most t different items are tied,
    so that T = 0 has probability 1 / (t + 1) or more. Two tied draws are one item or two:

    >>> fewer_above(np.array([0]), np.array([2]), np.array([1, 2]), True)
    (array([[0.33333333, 0.5       ]]), array([[0.5       , 0.66666667]]))
    """
    limit, ties = starts - 1 - better[:, np.newaxis], tied[:, np.newaxis]
    if not copies:
        probabilities = np.clip((limit + 1.0) / (ties + 1.0), 0.0, 1.0)
        return probabilities, probabilities

    def least(limit: IntArray) -> FloatArray:
        interior = np.where(2 * limit >= ties - 1, 0.5, 1.0 / (ties + 1.0))
        return np.asarray(np.where(limit < 0, 0.0, np.where(limit >= ties, 1.0, interior)))

    return least(limit), 1.0 - least(ties - 1 - limit)


def band(
    lower: FloatArray, upper: FloatArray, total: float, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Simultaneous Clopper-Pearson intervals of the shares with fewer above than each start.

    Of `total` users between `lower` and `upper`, (starts,), have fewer negatives above than each of
    the starts. Given users have unequal probabilities. The tails of their count are no larger than
    the binomial ones (hoeffding1956), except that one user or more can have the sum of the
    probabilities, s, in place of 1 - exp(-s); hence the slightly smaller error rate.
    """
    error_rate = -np.expm1(-0.5 * (1.0 - confidence) / lower.size)
    n_lower, n_upper = np.floor(lower + 1e-9), np.minimum(np.ceil(upper - 1e-9), np.ceil(total))
    total = max(total, 1.0)
    with np.errstate(invalid="ignore"):
        below = np.where(n_lower > 0, betaincinv(n_lower, total - n_lower + 1.0, error_rate), 0.0)
        above = np.where(
            n_upper < total, betaincinv(n_upper + 1.0, total - n_upper, 1.0 - error_rate), 1.0
        )
    return below, above


def tied_confidence(confidence: float) -> float:
    """The confidence of a band that has `confidence` where users count in parts.

    >>> round(tied_confidence(0.95), 3)
    0.982
    """
    return 1.0 - (1.0 - confidence) / float(np.e)


def ends(
    protocol: Weighted,
    metric: Metric,
    starts: IntArray,
    below: FloatArray,
    above: FloatArray,
    top: int = 0,
) -> tuple[float, float] | None:
    """Least and largest value of a metric over the true ranks that a band allows, or None if none.

    The metric must not increase with the rank. Among the first `top` ranks deeper ones have fewer
    users. Either end may be a little further out. One of five items is drawn as often as the others
    together, and half of the users have neither negative above:

    >>> from sampled_metrics.metrics import metric
    >>> protocol = Weighted(5, 2, weights=[4, 1, 1, 1, 1])
    >>> half = np.array([0.5])
    >>> low, high = ends(protocol, metric("recall@1"), np.array([1]), half, half)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.5)
    """
    columns = _columns(protocol, metric, tuple(starts.tolist()), top)
    solved = [_solved(columns, side, below, above) for side in (0, 1)]
    if solved[0] is None or solved[1] is None:
        return None
    low, high = solved[0], solved[1]
    if top > 1:  # coarser columns must not make an assumption widen the result
        free = ends(protocol, metric, starts, below, above)
        if free is None:
            return None
        low, high = max(low, free[0]), min(high, free[1])
    extremes = metric.term(np.array([1, int(protocol.n_items)]), 1, 1, int(protocol.n_items))
    low, high = np.clip([low, high], extremes.min(), extremes.max()).tolist()
    return low, max(low, high)


@dataclass(frozen=True, eq=False)
class _Columns:
    """Columns whose mixtures include every distribution of the true ranks.

    The shares with fewer negatives above than each start lie between `least` and `most`, (k,
    starts), up to `slack`; the metric lies between the two `values`.
    """

    least: FloatArray
    most: FloatArray
    values: tuple[FloatArray, FloatArray]
    slack: float


@lru_cache(maxsize=16)
def _columns(protocol: Weighted, metric: Metric, begin: tuple[int, ...], top: int) -> _Columns:
    """The columns; conservative where a column stands for several ranks."""
    starts = np.array(begin)
    n = int(protocol.n_items)
    term = metric.term(np.arange(1, n + 1), 1, 1, n)
    binomial = protocol.weights is not None and protocol.replacement and not protocol.collapsed
    if binomial and top < 2:
        return _by_share(protocol, term, starts)
    last = np.arange(min(n, _EVERY))
    if n > _EVERY:
        steps = int(np.log(n / _EVERY) / np.log(_LONGER)) + 2
        last = np.unique(np.append(last, np.geomspace(_EVERY, n, steps).astype(np.intp) - 1))
    first = np.append(0, last[:-1] + 1)
    lower, upper = _between(protocol, last + 1, starts)
    # A stretch of ranks has the bounds of all its ranks.
    wide, before = last > first, np.maximum(np.arange(last.size) - 1, 0)
    upper = np.where(wide[:, np.newaxis], upper[before], upper)
    low, high = np.minimum.reduceat(term, first), np.maximum.reduceat(term, first)
    if top > 1:
        column_by_rank = np.repeat(np.arange(last.size), last - first + 1)[:top]
        ranks, tail = np.arange(1.0, column_by_rank.size + 1), last >= column_by_rank.size

        def averaged(x: FloatArray) -> FloatArray:
            return np.concatenate([(np.cumsum(x[column_by_rank], axis=0).T / ranks).T, x[tail]])

        lower, upper, low, high = map(averaged, (lower, upper, low, high))
    return _Columns(lower, upper, (low, high), 0.0)


def _between(
    protocol: Weighted, ranks: IntArray, starts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds of the shares with fewer negatives above, at each rank; shape (ranks, starts)."""
    if protocol.weights is None:
        cdf = protocol.cdf(ranks)[:, starts - 1]
        return cdf, cdf
    order = np.sort(protocol.weights)
    heavy, light = replace(protocol, weights=order[::-1]), replace(protocol, weights=order)
    m, max_above = protocol.n_negatives, starts - 1
    if not protocol.replacement:
        return heavy.cdf(ranks)[:, max_above], light.cdf(ranks)[:, max_above]
    shares = [ordered.share(ranks)[:, np.newaxis] for ordered in (heavy, light)]
    lower, upper = (bdtr(max_above.astype(float), m, share) for share in shares)
    if protocol.collapsed:
        # At most as many distinct items above as draws or items above; 0 only if no draw is above.
        lower = np.where(max_above >= ranks[:, np.newaxis] - 1, 1.0, lower)
        upper = np.where(max_above > 0, 1.0, upper)
    return lower, upper


def _by_share(protocol: Weighted, term: FloatArray, starts: IntArray) -> _Columns:
    """Columns for probabilities of a draw above: the number above is then binomial."""
    assert protocol.weights is not None
    n, m = term.size, protocol.n_negatives
    order = np.sort(protocol.weights)
    largest, smallest = (
        np.maximum.accumulate(replace(protocol, weights=weights).share(np.arange(1, n + 1)))
        for weights in (order[::-1], order)
    )
    rank_indices = np.unique(
        np.append(np.arange(min(n, _EVERY)), np.geomspace(1, n, 200).astype(np.intp) - 1)
    )
    angles = np.linspace(0.0, 0.5 * np.pi, int(_FINE * np.pi * np.sqrt(m)) + 2)
    candidates = np.concatenate(
        [np.sin(angles) ** 2, largest[rank_indices], smallest[rank_indices]]
    )
    grid = np.unique(np.clip(candidates, 0.0, 1.0))

    def fewer(grid: FloatArray) -> FloatArray:
        return np.asarray(bdtr(starts - 1.0, m, grid[:, np.newaxis]))

    cdf = fewer(grid)
    # Between two grid points the distribution is nearly a mixture, and the metric is at most the
    # one just behind the first point.
    middle = np.sin(0.5 * (np.arcsin(np.sqrt(grid[1:])) + np.arcsin(np.sqrt(grid[:-1])))) ** 2
    weight = ((middle - grid[:-1]) / np.diff(grid))[:, np.newaxis]
    chord = (1.0 - weight) * cdf[:-1] + weight * cdf[1:]
    slack = _SAFE * float(np.abs(fewer(middle) - chord).max())
    rounding = 1e-12
    first = np.searchsorted(largest, np.append(0.0, grid[:-1]) + rounding)
    first[grid == 0.0] = 0
    last = np.searchsorted(smallest, np.append(grid[1:], 1.0) - rounding, side="right") - 1
    last[grid == 1.0] = n - 1
    first, last = np.clip(first, 0, n - 1), np.clip(last, 0, n - 1)
    return _Columns(cdf, cdf, (term[last], term[first]), slack)


def _solved(columns: _Columns, side: int, below: FloatArray, above: FloatArray) -> float | None:
    """Bound of the least value (side 0) or the largest (side 1) from the dual."""
    from scipy.optimize import linprog  # takes as long to import as all the rest

    sign = 1.0 if side == 0 else -1.0
    cost = sign * columns.values[side]
    rows = np.concatenate([columns.least.T, -columns.most.T])
    rhs = np.concatenate([above, -below]) + columns.slack
    ones, rounded = np.ones((1, cost.size)), np.where(np.abs(rows) < _TINY, 0.0, rows)
    for method in ("highs-ds", "highs-ipm"):
        solution = linprog(cost, A_ub=rounded, b_ub=rhs, A_eq=ones, b_eq=[1.0], method=method)
        if solution.status == 2:
            return None
        if solution.status == 0:
            break
    else:
        raise RuntimeError(f"the linear programme was not solved: {solution.message}")
    # Any dual prices bound the optimum, so that the solver's rounding does no harm.
    prices = np.minimum(solution.ineqlin.marginals, 0.0)
    bound = float((cost - prices @ rows).min() + prices @ rhs)
    return sign * bound

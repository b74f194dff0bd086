"""What the sample cannot tell: the exact metrics that are compatible with the sampled ranks.

A sample of negatives shows the law of the sampled rank, q = p P, and not the distribution p of
the true ranks; many p have the same q, or one that the observed sample cannot tell from it. The
smallest and the largest exact metric among them are linear programmes over p. They are solved by
column generation over the ranks and returned with their duals' bound, which holds for every
rank of the catalogue: the interval contains the programme's own whatever the solver did.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.special import betaincinv

from ._validate import FloatArray, IntArray
from .metrics import Metric
from .metrics import metric as parsed
from .numerics.all_ranks import AllRanks, all_ranks, local_maxima, spread
from .protocol import Protocol

#: An interval is certified if it is at most this much wider than need be, at either end.
CERTIFIED = 1e-6
#: Rounds of column generation, and how near the two bounds of the programme are to come.
_ROUNDS, _NEAR = 40, 1e-9
#: What a unit of a sampled rank's probability outside its band costs: larger than any multiplier.
_PENALTIES = (1e3, 1e5, 1e7)
#: Ranks added in one round for one catalogue size.
_COLUMNS = 30
#: Singular values of the law, relative to the largest, that are told from zero.
_SEEN = 1e-7
#: Half the width of the bands that stand for a point: below, HiGHS fails.
_ROUNDING = 1e-11
#: Catalogue sizes that are told apart; where there are more, bins that they are put in.
_SIZES, _BINS = 12, 4
_OPTIONS: dict[str, Any] = {
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


class IncompatibleError(ValueError):
    """No distribution of true ranks leads to such sampled ranks."""


@dataclass(frozen=True, eq=False)
class Interval:
    """The exact metrics that are compatible with a sample.

    Attributes
    ----------
    low, high : float
        The smallest and the largest value, or a little beyond: see `gap`.
    confidence : float
        Probability, at least, that the interval holds the exact metric.
    gap : float
        How much further out than the programme's own solution either end may lie.
    at_low, at_high : dict of int to float
        Distributions of the true ranks at the two ends: users at each rank, as a share of all
        users. With several relevant items they sum to the number of them that the metric sees.

    Examples
    --------
    >>> from . import metric
    >>> found = interval([60, 30, 10], Protocol(n_items=50, n_negatives=2), metric("recall@10"))
    >>> round(found.low, 3), round(found.high, 3), found.certified
    (0.0, 0.996, True)
    """

    low: float
    high: float
    confidence: float
    gap: float
    at_low: dict[int, float] = field(repr=False)
    at_high: dict[int, float] = field(repr=False)

    @property
    def certified(self) -> bool:
        """Whether the gap is below 1e-6."""
        return self.gap < CERTIFIED


def interval(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
    metric: Metric | str,
    confidence: float = 0.95,
    users: float | None = None,
) -> Interval:
    """The exact metrics that are compatible with the observed sampled ranks.

    A distribution of the true ranks is compatible if the law of the sampled rank that it leads
    to lies in a region around the observed shares. The region holds the law with the given
    probability, for users who are a sample of their like and for users whose ranks are fixed
    (their counts spread less than binomial ones: hoeffding1956):

    - the share of each sampled rank, and of the first 2, 3, ... of them, is in its exact
      binomial interval (clopper1934), at a level split evenly among them. Where users are spread
      over several sampled ranks, by ties or by instances, at half of that level: their sum,
      rounded outwards, is that far out at most twice as often as a binomial count, which given
      the parts is as likely as not to be beyond it (jogdeo1968);
    - the mean sampled rank is in an empirical Bernstein interval (maurer2009, theorem 4), which
      has half of the error probability to itself.

    Parameters
    ----------
    counts : array_like of float, shape (m + 1,) or (n_relevant, m + 1), or a sequence of such
        Users with 0, 1, ..., m sampled negatives above the item, with several relevant items a
        row for each position. They may be fractions, as of ties spread over the places they
        cover. A sequence has one array for each class of users.
    protocol : Protocol or sequence of Protocol
        With one catalogue size; as many as there are classes.
    metric : Metric or str
    confidence : float
        In (0, 1).
    users : float, optional
        Users that `counts`, then shares, stand for; ``inf`` makes the region a point and leaves
        what even infinitely many users cannot tell, where the shares are known to floating-point
        precision (which from about 25 negatives on is less than all digits would tell). The sum
        of the counts if omitted.

    Returns
    -------
    Interval
        Of the average metric over the users. With several relevant items or several numbers of
        negatives it is the sum of the intervals for each, jointly at that confidence, and then
        wider than need be; so it is with more than 12 catalogue sizes, of which those that are
        close together may exchange users, and the smallest, the middle and the largest of each
        bin of them stand for all.

    Raises
    ------
    ValueError
        If the counts are negative, not finite, all zero or of another shape than the protocol's,
        if `confidence` or `users` is out of range, or (:class:`IncompatibleError`) if no
        distribution of true ranks is compatible with the sample.

    Warns
    -----
    RuntimeWarning
        If the interval is valid but its gap could not be brought below 1e-6.

    Examples
    --------
    AUC is linear in the rank: a point, but for the users being few.

    >>> from . import metric
    >>> protocol, shares = Protocol(n_items=50, n_negatives=2), [0.6, 0.3, 0.1]
    >>> auc = interval(shares, protocol, metric("auc"), users=float("inf"))
    >>> round(auc.low, 6), round(auc.high, 6)
    (0.75, 0.75)
    >>> recall = interval(shares, protocol, metric("recall@10"), users=float("inf"))
    >>> round(recall.low, 3), round(recall.high, 3)
    (0.015, 0.895)
    """
    metric = parsed(metric)
    if not isinstance(confidence, numbers.Real) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")
    classes = checked_counts(counts, protocol)
    total = sum(users for _, _, users in classes)
    if users is not None and (not isinstance(users, numbers.Real) or not users > 0):
        raise ValueError(f"users must be a number > 0, got {users!r}")
    scale = 1.0 if users is None else float(users) / total
    problems = _problems(classes, metric)
    error = (1.0 - float(confidence)) / max(sum(p.range[0] < p.range[1] for p in problems), 1)
    parts = [
        (problem, _region(problem, float(problem.counts.sum()) * scale, error), share)
        for problem, share in ((p, float(p.counts.sum()) / total) for p in problems)
    ]
    lowest, highest = (_end(parts, sign) for sign in (-1.0, 1.0))
    gap = max(lowest.gap, highest.gap)
    if gap >= CERTIFIED:
        warnings.warn(
            f"the identification interval is valid but may be {gap:.1g} too wide at either end",
            RuntimeWarning,
            stacklevel=2,
        )
    return Interval(lowest.bound, highest.bound, float(confidence), gap, lowest.mass, highest.mass)


def _end(parts: list[tuple[_Problem, _Region, float]], sign: float) -> _Found:
    """The lower (sign -1) or upper (1) end: a sum over positions and numbers of negatives."""
    found = [(share, _Programme(problem, region, sign).solve()) for problem, region, share in parts]
    masses: dict[int, float] = {}
    for share, each in found:
        for rank, mass in each.mass.items():
            masses[rank] = masses.get(rank, 0.0) + share * mass
    return _Found(
        sum(share * each.bound for share, each in found),
        sum(share * each.gap for share, each in found),
        dict(sorted(masses.items())),
    )


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
                f"counts and protocol must be as many, got {len(given)} and {len(protocols)}"
            )
    classes = []
    for each, law in zip(given, protocols, strict=True):
        if not isinstance(law.n_items, int):
            raise ValueError(
                f"n_items must be one number for each class, got shape {law.n_items.shape}"
            )
        rows = _finite(each)
        columns, relevant = law.n_negatives + 1, law.n_relevant
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
            classes.append((rows, law, users))
    if not classes:
        raise ValueError("counts must hold at least one user, got none")
    return classes


def _finite(counts: ArrayLike) -> FloatArray:
    try:
        rows = np.asarray(counts, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"counts must be numbers, got {counts!r:.60}") from None
    bad = rows[~(np.isfinite(rows) & (rows >= 0))]
    if bad.size:
        raise ValueError(f"counts must be finite numbers >= 0, got {bad[0]}")
    return rows


@dataclass(frozen=True, eq=False)
class _Size:
    """The users of one catalogue size: their law, and the metric's term for each rank."""

    law: AllRanks
    metric: Metric
    position: int
    n_relevant: int

    @cached_property
    def target(self) -> FloatArray:
        """The term with 0, 1, ... irrelevant items above; shape (pool + 1,)."""
        return self.term(np.arange(self.law.pool + 1))

    def term(self, above: IntArray) -> FloatArray:
        """The term with `above` irrelevant items above."""
        items, j = self.law.pool + self.n_relevant, self.position
        return self.metric.term(above + j, j, self.n_relevant, items)


@dataclass(frozen=True, eq=False)
class _Problem:
    """One position among the relevant items, for the users that have one number of negatives.

    Users of the catalogue sizes of one bin, which are close, may exchange places.
    """

    counts: FloatArray
    position: int
    sizes: list[_Size]
    bins: IntArray
    shares: FloatArray

    @cached_property
    def range(self) -> tuple[float, float]:
        """The least and the most that the metric, which never rises with the rank, can be."""
        ends = [size.term(np.array([0, size.law.pool])) for size in self.sizes]
        return float(min(last for _, last in ends)), float(max(first for first, _ in ends))


def _problems(classes: list[tuple[FloatArray, Protocol, float]], metric: Metric) -> list[_Problem]:
    groups: dict[tuple[int, bool, int], dict[int, FloatArray]] = {}
    for rows, law, _ in classes:
        kind = law.n_negatives, law.replacement, law.n_relevant
        by_pool = groups.setdefault(kind, {})
        by_pool[int(law.pool)] = by_pool.get(int(law.pool), 0.0) + rows
    problems = []
    for (m, replacement, relevant), by_pool in groups.items():
        pools = sorted(by_pool)
        users = np.array([by_pool[pool][0].sum() for pool in pools])
        bins = _bins(users)
        shares = np.bincount(bins, weights=users) / users.sum()
        counts = np.sum(list(by_pool.values()), axis=0)
        laws = [all_ranks(pool, m, replacement) for pool in pools]
        for j in range(1, relevant + 1):
            sizes = [_Size(law, metric, j, relevant) for law in laws]
            problems.append(_Problem(counts[j - 1], j, sizes, bins, shares))
    return problems


def _bins(users: FloatArray) -> IntArray:
    """The bin of each size: its own if there are few, else one of some with about equal users."""
    if users.size <= _SIZES:
        return np.arange(users.size)
    middle = (np.cumsum(users) - 0.5 * users) / users.sum()
    _, bins = np.unique((middle * _BINS).astype(int), return_inverse=True)
    return bins


@dataclass(frozen=True, eq=False)
class _Region:
    """Bands, from low to high, on linear functionals of the law of the sampled rank."""

    functionals: FloatArray
    bands: FloatArray


def _region(problem: _Problem, users: float, error: float) -> _Region:
    """The simultaneous region: half of the error for the mean, half for cells and levels."""
    m = problem.counts.size - 1
    shares, x = problem.counts / problem.counts.sum(), np.arange(m + 1) / m
    if np.isinf(users):
        return _point(problem.sizes[-1].law, shares)
    # The first level is a cell, and the last one is what the last cell leaves.
    levels = np.tril(np.ones((m + 1, m + 1)))[1 : m - 1]
    functionals = np.concatenate([np.eye(m + 1), levels, x[np.newaxis]])
    each = 0.5 * error / (m + 1 + len(levels))
    counts = np.concatenate([shares, np.cumsum(shares)[1 : m - 1]]) * users
    if (np.abs(counts - np.round(counts)) > 1e-12 * users + 1e-9).any():
        each /= 2
    band = bernstein(float(shares @ x), float(shares @ (x - shares @ x) ** 2), users, 0.5 * error)
    bands = np.concatenate([clopper_pearson(counts, users, each), [band]])
    return _Region(functionals, bands)


def _point(law: AllRanks, shares: FloatArray) -> _Region:
    """The law itself, in the directions that floating-point numbers tell from zero.

    What the true ranks add to the other directions is below the rounding of the shares.
    """
    _, s, right = np.linalg.svd(law.rows(spread(law)), full_matrices=False)
    seen = s > _SEEN * s[0]
    # The mean, by itself: AUC depends on nothing else.
    mean = np.arange(law.m + 1.0)[np.newaxis] / law.m
    functionals = np.concatenate([right[seen] / s[seen, np.newaxis], mean])
    centre = functionals @ shares
    width = _ROUNDING * np.append(1.0 / s[seen], 0.1)
    return _Region(functionals, np.stack([centre - width, centre + width], axis=-1))


def bernstein(mean: float, variance: float, users: float, error: float) -> tuple[float, float]:
    """Empirical Bernstein interval for the mean of numbers in [0, 1] (maurer2009, theorem 4).

    `variance` is the mean squared distance from `mean`; the interval is wrong with at most
    probability `error`.

    Examples
    --------
    >>> low, high = bernstein(0.3, 0.01, 1_000, 0.05)
    >>> round(low, 4), round(high, 4)
    (0.2804, 0.3196)
    """
    if users <= 1:
        return 0.0, 1.0
    log = np.log(4.0 / error)
    sample = variance * users / (users - 1.0)
    far = float(np.sqrt(2.0 * sample * log / users) + 7.0 * log / (3.0 * (users - 1.0)))
    return max(mean - far, 0.0), min(mean + far, 1.0)


def clopper_pearson(counts: FloatArray, users: float, error: float) -> FloatArray:
    """Exact binomial intervals (clopper1934), each wrong with at most probability `error`.

    Counts that are not whole are rounded outwards.

    Examples
    --------
    >>> clopper_pearson(np.array([0.0, 5.0]), 10, 0.05).round(4)
    array([[0.    , 0.3085],
           [0.1871, 0.8129]])
    """
    # Sums of fractions miss whole numbers by their rounding; that of more users is not worth it.
    tiny = 1e-12 * users + 1e-9
    whole = tiny < 1e-2
    few = np.clip(np.floor(counts + tiny) if whole else counts, 0.0, users)
    many = np.clip(np.ceil(counts - tiny) if whole else counts, 0.0, users)
    with np.errstate(invalid="ignore"):
        low = np.where(few > 0, betaincinv(few, users - few + 1.0, error / 2), 0.0)
        high = np.where(
            many < users,
            betaincinv(many + 1.0, np.maximum(users - many, 1e-300), 1 - error / 2),
            1.0,
        )
    return np.stack([low, high], axis=-1)


@dataclass(frozen=True)
class _Found:
    """One end of an interval: the bound, how far the solution is from it, and the solution."""

    bound: float
    gap: float
    mass: dict[int, float]


class _Programme:
    """Minimise minus `sign` times the metric over the distributions compatible with a region.

    Its variables are the masses of a growing set of ranks of each catalogue size, the region's
    functionals of the law of the sampled rank, and what of them lies outside, at a price.
    """

    def __init__(self, problem: _Problem, region: _Region, sign: float) -> None:
        self.problem, self.region, self.sign = problem, region, sign
        #: The sizes that are looked at in every round: of each bin the first, middle and last.
        self.watched: list[int] = []
        # Neighbours are nearly alike: ranks of one to begin with, and of others what they add.
        self.columns: dict[int, IntArray] = {}
        for b in range(problem.shares.size):
            inside = np.flatnonzero(problem.bins == b)
            first, middle, last = (int(inside[i]) for i in (0, inside.size // 2, -1))
            self.watched += sorted({first, middle, last})
            self.columns[middle] = _first_ranks(problem.sizes[middle])

    def solve(self) -> _Found:
        lowest, highest = self.problem.range
        if lowest == highest:
            return _Found(lowest, 0.0, {})
        best = _Found(highest if self.sign > 0 else lowest, np.inf, {})
        for penalty in _PENALTIES:
            bound, value, outside, mass = self._generate(1.0, penalty)
            end = float(np.clip(-self.sign * bound, lowest, highest))
            gap = abs(end + self.sign * value) + penalty * outside
            if gap < best.gap:
                best = _Found(end, gap, mass)
            if not outside * penalty > 0.1 * CERTIFIED:
                break
            empty, *_ = self._generate(0.0, 1.0)
            if empty > 1e-8:
                raise IncompatibleError(
                    "counts are not compatible with the protocol at this confidence: no "
                    "distribution of true ranks leads to such sampled ranks"
                )
        return best

    def _generate(
        self, weight: float, penalty: float
    ) -> tuple[float, float, float, dict[int, float]]:
        """Bound, value, what is outside the bands, and masses; of the metric times `weight`."""
        every = list(range(len(self.problem.sizes)))
        bound, watched_bound, value, outside = -np.inf, -np.inf, np.inf, np.inf
        best: FloatArray | None = None
        mass: dict[int, float] = {}
        for _ in range(_ROUNDS):
            solved = self._restricted(weight, penalty)
            if solved is None:
                break
            found, multipliers, size = solved
            outside = float(found.x[size + len(self.region.bands) :].sum())
            value, mass = found.fun - penalty * outside, self._by_rank(found.x[:size])
            grown = False
            # Half way to the best multipliers so far they swing less from round to round.
            tries = [multipliers] if best is None else [multipliers, 0.5 * (best + multipliers)]
            for tried in tries:
                new_bound, more = self._priced(weight, tried, self.watched)
                grown = more or grown
                if new_bound > watched_bound:
                    watched_bound, best = new_bound, tried
            done = found.fun - watched_bound < _NEAR or not grown
            if len(every) == len(self.watched):
                bound = watched_bound
            elif done:
                new_bound, grown = self._priced(weight, multipliers, every)
                bound, watched_bound, best = max(bound, new_bound), -np.inf, None
                done = found.fun - bound < 0.1 * CERTIFIED or not grown
            if done:
                break
        return bound, value, outside, mass

    def _by_rank(self, masses: FloatArray) -> dict[int, float]:
        found: dict[int, float] = {}
        above = np.concatenate(list(self.columns.values()))
        for i in np.flatnonzero(masses > 0):
            rank = int(above[i]) + self.problem.position
            found[rank] = found.get(rank, 0.0) + float(masses[i])
        return found

    def _restricted(self, weight: float, penalty: float) -> tuple[Any, FloatArray, int] | None:
        """Solve the programme for the ranks in `columns`; None if HiGHS cannot.

        Returns what HiGHS found, the multipliers, and how many columns there are.
        """
        functionals, bands, sizes = self.region.functionals, self.region.bands, self.problem.sizes
        laws = [sizes[i].law.rows(above) for i, above in self.columns.items()]
        costs = [-self.sign * weight * sizes[i].term(above) for i, above in self.columns.items()]
        bins = np.repeat(
            self.problem.bins[list(self.columns)], [above.size for above in self.columns.values()]
        )
        k, one = len(bands), sp.eye_array(len(bands))
        shares = self.problem.shares
        rows: list[list[Any]] = [
            [sp.csr_array(functionals @ np.concatenate(laws).T), -one, one, -one],
            [sp.csr_array((np.ones(bins.size), (bins, np.arange(bins.size)))), None, None, None],
        ]
        programme: dict[str, Any] = {
            "c": np.concatenate([*costs, np.zeros(k), np.full(2 * k, penalty)]),
            "A_eq": sp.block_array(rows, format="csc"),
            "b_eq": np.append(np.zeros(k), shares),
            "bounds": np.concatenate([_free(bins.size), bands, _free(2 * k)]),
            "options": _OPTIONS,
        }
        # Rounding can defeat one of the solvers where the bands are narrow.
        for method in ("highs", "highs-ds", "highs-ipm"):
            found: Any = linprog(method=method, **programme)
            if found.status == 0:
                return found, np.asarray(found.eqlin.marginals), bins.size
        return None

    def _priced(
        self, weight: float, multipliers: FloatArray, which: list[int]
    ) -> tuple[float, bool]:
        """A bound by weak duality over the sizes in `which`, and whether ranks were added.

        Any multipliers give a bound: they are taken as they are, and each functional is put at
        the better end of its band. Ranks are added where the reduced cost is least and below 0.
        """
        k, problem = len(self.region.bands), self.problem
        prices, shares = multipliers[:k] @ self.region.functionals, multipliers[k:]
        least, grown = np.full(problem.shares.size, np.inf), False
        # Of many sizes in a bin, those found first say enough about their neighbours.
        left = np.full(problem.shares.size, 4 * _COLUMNS)
        for i in which:
            size, b = problem.sizes[i], problem.bins[i]
            target = size.target if i in self.columns else size.term(np.arange(size.law.pool + 1))
            costs = -self.sign * weight * target - size.law.expected(prices)
            least[b] = min(least[b], float(costs.min()))
            at = local_maxima(-costs, 1e-12 - shares[b], min(_COLUMNS, left[b]))
            at = np.setdiff1d(at, self.columns.get(i, ()))
            left[b] -= at.size
            if at.size:
                self.columns[i] = np.append(self.columns.get(i, np.empty(0, np.int64)), at)
                grown = True
        at_best = (multipliers[:k, np.newaxis] * self.region.bands).min(axis=1)
        return float(problem.shares @ least + at_best.sum()), grown


def _free(count: int) -> FloatArray:
    """Bounds of variables that may be anything from 0 up."""
    return np.tile([0.0, np.inf], (count, 1))


def _first_ranks(size: _Size) -> IntArray:
    """Ranks to begin with: close together everywhere, and both sides of the metric's jump."""
    jump = int(np.argmin(np.diff(size.target)))
    return np.unique(np.concatenate([spread(size.law), [jump, jump + 1]]))

"""The populations that an assumption allows, as mixtures of generators.

With nothing assumed a population is a mixture of single ranks. If deeper ranks have fewer users
down to a rank L, it is a mixture of even distributions over the ranks 1..j, for j up to L, and of
single ranks below; or, if the users there are of several kinds with so many per cent fewer at every
rank, of geometric distributions that are cut off at L. Whatever is linear in a population is
largest at a generator, so an expectation is bounded over a whole class by looking at all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import block_diag

from .._validate import FloatArray, IntArray
from ..numerics.distributions import law
from ..protocol import Protocol
from .assumption import doublings

if TYPE_CHECKING:
    from ..adaptive import Adaptive
    from .assumption import Assumption

#: Sampled ranks are known to a function at knots this far apart, in standard deviations.
_CELL = 0.75
#: All ranks are looked at if they have at most so many probabilities. Else all down to the second
#: number are, then so many per unit of the angle and of the logarithm of the rank.
_ALL, _EVERY, _ANGLES, _RATIOS = 12_000_000, 4_096, 32, 50
#: Ranks between those looked at are added until what they may hide is small, at most so often.
_ROUNDS = 6
#: Rates of geometric distributions that are looked at, and the steepest one, which is rank 1 alone.
_RATES, _STEEPEST = 3_000, 40.0
#: Law entries computed at once.
_BLOCK = 1 << 22


@lru_cache(maxsize=64)
def knots(n_negatives: int) -> IntArray:
    """Sampled ranks, counted from 0, between which a bet is interpolated linearly.

    Examples
    --------
    >>> knots(20)
    array([ 0,  1,  2,  3,  4,  5,  6,  8, 10, 12, 14, 16, 17, 18, 19, 20])
    """
    found, x = [], 0
    while x < n_negatives:
        found.append(x)
        x += max(1, round(_CELL * float(np.sqrt(x * (1.0 - x / n_negatives)))))
    array = np.array([*found, n_negatives])
    array.setflags(write=False)
    return array


@lru_cache(maxsize=64)
def hats(n_negatives: int) -> FloatArray:
    """Hat functions of the knots at each sampled rank: the weights of linear interpolation.

    Examples
    --------
    >>> hats(20)[7]  # halfway between 6 and 8
    array([0. , 0. , 0. , 0. , 0. , 0. , 0.5, 0.5, 0. , 0. , 0. , 0. , 0. ,
           0. , 0. , 0. ])
    """
    at = knots(n_negatives)
    x = np.arange(n_negatives + 1)
    left = np.clip(np.searchsorted(at, x, side="right") - 1, 0, at.size - 2)
    share = (x - at[left]) / (at[left + 1] - at[left])
    found = np.zeros((x.size, at.size))
    found[x, left] = 1.0 - share
    found[x, left + 1] += share
    found.setflags(write=False)
    return found


@lru_cache(maxsize=64)
def basis(protocol: Protocol | Adaptive) -> FloatArray:
    """Hat functions of the knots at each outcome; shape (n_outcomes, knots), rows sum to 1.

    An adaptive design has knots of its own among the outcomes of each round.

    Examples
    --------
    >>> from sampled_metrics.adaptive import Adaptive
    >>> basis(Adaptive(n_items=1_000, first=1, most=2))  # (2, 0), (2, 1) and (1, 1)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    if isinstance(protocol, Protocol):
        return hats(protocol.n_negatives)
    drawn, above = protocol.outcomes
    rounds = [above[drawn == each] for each in dict.fromkeys(drawn.tolist())]
    # From 1 above, except in the last round, where none may be.
    found = block_diag(*(hats(int(each[-1]))[each[0] :, each[0] :] for each in rounds))
    found.setflags(write=False)
    return np.asarray(found)


@lru_cache(maxsize=64)
def given_all(protocol: Protocol | Adaptive) -> FloatArray:
    """The probability of each outcome, given how many of the most negatives are above the item.

    That is the design in a catalogue of which all negatives are drawn; the identity for a fixed
    number of negatives. (See ``sampled_metrics.bounds.bets``.)

    Examples
    --------
    >>> from sampled_metrics.adaptive import Adaptive
    >>> given_all(Adaptive(n_items=1_000, first=1, most=2))
    array([[1. , 0. , 0. ],
           [0. , 0.5, 0.5],
           [0. , 0. , 1. ]])
    """
    most = protocol.n_outcomes - 1
    every = replace(protocol, n_items=most + 1, replacement=False)
    return every.rows(np.arange(most + 1))


class Generators:
    """The generators of one catalogue size, and the sampled ranks that each leads to.

    Parameters
    ----------
    protocol : Protocol or Adaptive
        With one catalogue size and one relevant item.
    assumption : Assumption, optional
        Nothing is assumed if omitted.
    top : int, optional
        How many of the first ranks it is about, if fewer than it says.

    Raises
    ------
    ValueError
        If the assumption is geometric and about more than 4,096 ranks.

    Attributes
    ----------
    pmf : ndarray of float, shape (k, knots)
        Distribution of the sampled rank on the knots, for each generator that is looked at.
    last : ndarray of int, shape (k,)
        Irrelevant items above the deepest rank of each generator.
    spread : int
        The first so many generators are spread over several ranks, the others are single ranks.
    above : ndarray of int
        Irrelevant items above each single rank that is looked at.
    constraints : ndarray of float, shape (constraints, k)
        Of the assumption: not negative on average.
    first : ndarray of int
        Generators that a fit begins with.

    Examples
    --------
    >>> from .assumption import Assumption
    >>> found = Generators(Protocol(10, 2, replacement=False), Assumption(), top=3)
    >>> found.spread, found.last
    (3, array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]))
    >>> found.largest(np.array([1.0, 0.0, 0.0]), found.last * 0.0, 1e-9)[0]  # nobody above: rank 1
    1.0
    """

    def __init__(
        self,
        protocol: Protocol | Adaptive,
        assumption: Assumption | None = None,
        top: int | None = None,
    ) -> None:
        self.protocol = protocol
        self.pool, self.m = int(protocol.pool), protocol.n_outcomes - 1
        self._basis = basis(protocol)
        #: The same for each number of all negatives above, where all of them are drawn.
        self._given_all = given_all(protocol) @ self._basis
        self._assumption = assumption
        if assumption is None:
            top = 0
        elif top is None:
            top = assumption.top(self.pool + 1, self.m)
        self.top = top if top >= 2 else 0
        above = _looked_at(self.pool, self.m)
        if self.top:  # the last rank of each doubling and of the top, and the one after
            ends = np.append(doublings(self.top)[1:] - 1, [self.top - 1, self.top])
            above = np.union1d(above, ends[ends <= self.pool])
        single = self.rows(above)
        upto = int((above < self.top).sum())
        geometric = assumption is not None and assumption.geometric
        #: Weights of the first ranks in each geometric distribution; none where they are even.
        self._mixed = self._geometric() if geometric and self.top else None
        if self._mixed is None:
            pmfs, last = self._averages(above[:upto], single), above[:upto]
        else:
            pmfs = self._mixed @ single[:upto]
            last = np.full(len(pmfs), self.top - 1)
        self.spread = last.size
        self.pmf = np.concatenate([pmfs, single[upto:]])
        self.last = np.concatenate([last, above[upto:]])
        self.constraints = self._constraints()
        #: Where generators lie between neighbours that are looked at.
        self._gaps = np.flatnonzero(np.diff(self.last) > 1)
        self.first = self._begin()
        self.above, self._single = above, single
        edges = np.concatenate([[-0.5], 0.5 * (above[1:] + above[:-1]), [self.pool + 0.5]])
        self._widths = np.diff(edges)
        for each in (self.pmf, self.last, self.constraints, self.first):
            each.setflags(write=False)

    def _geometric(self) -> FloatArray:
        if self.top > _EVERY:
            raise ValueError(
                f"geometric must be False where an assumption is of more than {_EVERY:,} ranks, "
                f"got {self.top:,}"
            )
        rates = np.append(0.0, np.geomspace(0.01 / self.top, _STEEPEST, _RATES))
        found = np.exp(-np.outer(rates, np.arange(self.top)))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def rows(self, above: IntArray) -> FloatArray:
        """The distribution of the sampled rank on the knots at single ranks."""
        found = np.empty((above.size, self._basis.shape[1]))
        step = max(1, _BLOCK // (self.m + 1))
        for start in range(0, above.size, step):
            part = slice(start, start + step)
            found[part] = self.protocol.rows(above[part]) @ self._basis
        return found

    def _averages(self, ends: IntArray, single: FloatArray) -> FloatArray:
        """The average over the ranks down to each of some ends.

        Summed one by one while every rank is looked at. Beyond, without replacement, the sum of
        hypergeometric probabilities over the ranks is the tail of another; with replacement it is
        an integral, a binomial tail, with two terms of the Euler-Maclaurin formula (`_rest`).
        """
        if not ends.size:
            return np.empty((0, single.shape[1]))
        every = int(np.argmax(np.append(np.diff(ends) > 1, True))) + 1
        sums = np.cumsum(single[:every], axis=0)
        if every < ends.size:
            sums = np.concatenate([sums, self._sums(ends[every:] + 1) @ self._given_all])
        return np.asarray(sums / (ends + 1.0)[:, np.newaxis])

    def _sums(self, upto: IntArray) -> FloatArray:
        """Sums over so many ranks of the probability of each number of all negatives above."""
        m, pool = self.m, self.pool
        if not self.protocol.replacement:
            found = law(m + 1, upto, pool + 1, False)
            return np.asarray(_tails(found) * ((pool + 1.0) / (m + 1.0)))
        found = _tails(law(m + 1, upto, pool, True)) * (pool / (m + 1.0))
        first, last = law(m, 0, pool, True), law(m, upto, pool, True)

        def slope(at: IntArray | int) -> FloatArray:
            fewer = law(m - 1, at, pool, True) if m > 1 else np.ones((*np.shape(at), 1))
            zero = np.zeros((*fewer.shape[:-1], 1))
            lower = np.concatenate([zero, fewer], -1) - np.concatenate([fewer, zero], -1)
            return np.asarray(lower * (m / pool))

        return np.asarray(found - 0.5 * (last - first) + (slope(upto) - slope(0)) / 12.0)

    def _rest(self, function: FloatArray, cost: FloatArray, paid: float) -> float:
        """What an expectation over spread generators may be wrong by.

        Of an average over ranks, the remainder of the Euler-Maclaurin formula. Of a geometric
        distribution between two rates that are looked at: the second derivative with respect to
        the logarithm of the rate is at most 1.5 times how far the averaged numbers lie apart,
        since the variance of the rank is at most 1 / rate^2.
        """
        if self._mixed is not None:
            apart = np.ptp(function) + abs(float(cost[self.spread - 1])) + paid
            step = np.log(_STEEPEST * self.top / 0.01) / (_RATES - 1)
            return float(1.5 * step**2 / 8.0 * apart)
        every = not self.spread or self.last[self.spread - 1] + 1 == self.spread
        if every or not self.protocol.replacement:
            return 0.0
        return float(16.0 / 720.0 * (self.m / self.pool) ** 4 * np.ptp(function))

    def _constraints(self) -> FloatArray:
        if self._assumption is None:
            return np.zeros((0, self.last.size))
        starts = doublings(self.top)
        if self._mixed is None:
            upto = self.last[: self.spread, np.newaxis] + 1.0
            within = np.minimum(starts, upto) / upto
        else:
            within = np.pad(np.cumsum(self._mixed, axis=1), ((0, 0), (1, 0)))[:, starts]
        found = self._assumption.constraints(within)
        return np.pad(found, ((0, 0), (0, self.last.size - self.spread)))

    def _begin(self) -> IntArray:
        """A few generators of each kind, near enough that a mixture of them is nearly any."""
        angles = np.linspace(0.0, np.pi, int(2 * np.pi * np.sqrt(self.m)) + 2)
        few = [*range(12), *(0.5 * self.pool * (1.0 - np.cos(angles)))]
        few += [*np.geomspace(1, self.pool, 24)]
        if self.top:
            few += [*(np.geomspace(1, self.top, 36) - 1), self.top - 1, self.top]
        chosen = np.unique(np.clip(np.round(few), 0, self.pool))
        found = self.spread + np.searchsorted(self.last[self.spread :], chosen)
        found = found[found < self.last.size]
        if self._mixed is None:
            found = np.append(
                np.searchsorted(self.last[: self.spread], chosen[chosen < self.top]), found
            )
        else:
            found = np.append(np.arange(0, self.spread, 48), found)
        likely = self.pmf.argmax(axis=0)  # so that no knot is impossible
        return np.unique(np.concatenate([found, likely]))

    def marginal(self, density: Callable[[Any], FloatArray]) -> FloatArray:
        """The distribution of the sampled rank on the knots, of a density over the true ranks."""
        mass = self._widths * density(self.above + 1.0)
        return np.asarray(mass / mass.sum() @ self._single)

    def mass(self, weights: FloatArray, at: IntArray) -> FloatArray:
        """The distribution of the true rank in mixtures of some generators; (mixtures, ranks)."""
        spread, last = at < self.spread, self.last[at]
        found = np.zeros((len(weights), self.pool + 1))
        if self._mixed is not None:
            found[:, : self.top] = weights[:, spread] @ self._mixed[at[spread]]
        else:
            found[:, last[spread]] = weights[:, spread] / (last[spread] + 1.0)
            found = np.cumsum(found[:, ::-1], axis=1)[:, ::-1]
        found[:, last[~spread]] += weights[:, ~spread]
        return found

    def expected(self, terms: FloatArray) -> FloatArray:
        """The mean metric given a sampled rank on the knots, if all true ranks are as likely."""
        return np.asarray((self._widths * terms) @ self._single / (self._widths @ self._single))

    def metric(self, terms: FloatArray, at: FloatArray) -> FloatArray:
        """The metric of each generator.

        Parameters
        ----------
        terms : ndarray of float, shape (max(top, 1),)
            The metric at the first ranks.
        at : ndarray of float, shape (k,)
            The metric at the rank of `last`, for each generator.
        """
        found = np.array(at, dtype=float)
        if self._mixed is not None:
            found[: self.spread] = self._mixed @ terms
        elif self.spread:
            upto = self.last[: self.spread]
            found[: self.spread] = np.cumsum(terms)[upto] / (upto + 1.0)
        return found

    def largest(
        self,
        function: FloatArray,
        cost: FloatArray,
        near: float,
        prices: FloatArray | None = None,
    ) -> tuple[float, FloatArray]:
        """An upper bound of an expectation less a cost, over all generators.

        Parameters
        ----------
        function : ndarray of float, shape (knots,)
            Of the sampled rank, a straight line between knots.
        cost : ndarray of float, shape (k,)
            Of each generator that is looked at. Between two neighbours it lies between theirs.
        near : float
            How much larger than a generator's value the bound may be, if that can be had.
        prices : ndarray of float, shape (constraints,), optional
            Not negative: what each unit of `constraints` is worth.

        Returns
        -------
        bound : float
        values : ndarray of float, shape (k,)
            Of the generators that are looked at.
        """
        prices = np.zeros(len(self.constraints)) if prices is None else prices
        expected, paid = self.pmf @ function, prices @ self.constraints
        values = expected - cost + paid
        best = float(values.max())
        steepness = np.inf if self._assumption is None else self._assumption.steepness
        steep = float(prices.sum()) * (1.0 + 2.0 / steepness)
        rest = self._rest(function, cost, steep)
        if not self._gaps.size:
            return best + rest, values
        # An expectation between two ranks is above the line that joins them by at most its second
        # difference: that of a polynomial, which is the expected second difference of the function
        # with two draws fewer. An average over ranks bends a third as much.
        bend = float(np.abs(np.diff(self._given_all @ function, 2)).max(initial=0.0))
        less = 0.0 if self.protocol.replacement else 1.0
        bend *= self.m * (self.m - 1.0) / (self.pool * (self.pool - less)) / 8.0
        left, right = self._gaps, self._gaps + 1
        least = np.minimum(cost[left], cost[right]) - np.maximum(paid[left], paid[right])
        sides = (self.last[left], self.last[right], expected[left], expected[right], least)
        gaps: FloatArray = np.stack(sides).astype(float)
        bound, single = best, left >= self.spread
        for turn in range(_ROUNDS):
            width = gaps[1] - gaps[0]
            wide = width > 1.0
            over = np.maximum(gaps[2], gaps[3]) - gaps[4] + np.where(wide, bend * width**2, 0.0)
            far = (over > best + near) & wide & single & (turn < _ROUNDS - 1)
            bound = max(bound, float(over[~far].max(initial=bound)))
            if not far.any():
                break
            gaps, single = gaps[:, far], single[far]
            middle = (gaps[0] + gaps[1]) // 2
            at = self.rows(middle.astype(np.int64)) @ function
            best = max(best, float((at - gaps[4]).max()))
            first, second = gaps.copy(), gaps.copy()
            first[1], first[3], second[0], second[2] = middle, at, middle, at
            gaps, single = np.concatenate([first, second], axis=1), np.tile(single, 2)
        return max(bound, best) + rest, values


@lru_cache(maxsize=8)
def generators(
    protocol: Protocol | Adaptive, assumption: Assumption | None = None, top: int | None = None
) -> Generators:
    """The generators of a catalogue, made once."""
    return Generators(protocol, assumption, top)


def _looked_at(pool: int, m: int) -> IntArray:
    if pool * (m + 1) <= _ALL or pool <= _EVERY:
        return np.arange(pool + 1)
    angles = np.linspace(0.0, np.pi, int(_ANGLES * np.pi * np.sqrt(m)) + 2)
    even = 0.5 * pool * (1.0 - np.cos(angles))
    ratios = np.geomspace(_EVERY, pool, int(_RATIOS * np.log(pool / _EVERY)) + 2)
    above = np.append(np.arange(_EVERY + 1), np.round([*even, *ratios]).astype(np.int64))
    return np.unique(np.clip(above, 0, pool))


def _tails(probabilities: FloatArray) -> FloatArray:
    """Probabilities of 1 or more, 2 or more, ...; never a difference of nearly equal numbers."""
    return np.asarray(np.cumsum(probabilities[..., :0:-1], axis=-1)[..., ::-1])

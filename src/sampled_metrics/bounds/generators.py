"""The populations that an assumption allows, as mixtures of generators.

With nothing assumed a population is a mixture of single ranks. If deeper ranks have fewer users
down to a rank L, it is a mixture of uniform distributions on the ranks 1..j, for j up to L, and of
single ranks below. Under the geometric assumption the first are geometric distributions cut off at
L. A linear function of the population is largest at a generator, so that looking at all generators
bounds an expectation over the whole class.
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

#: Distance of the knots, in standard deviations of the sampled rank.
_CELL = 0.75
#: All ranks are evaluated if P has at most so many entries. Else all down to `_EVERY`, then so many
#: per unit of the angle (in standard deviations) and of the logarithm of the rank.
_ALL, _EVERY, _ANGLES, _RATIOS = 12_000_000, 4_096, 32, 50
#: Most bisections of the gaps between evaluated ranks, to certify the maximum in between.
_ROUNDS = 6
#: Number of rates of geometric distributions, and the steepest rate, which is rank 1 alone.
_RATES, _STEEPEST = 3_000, 40.0
#: Generators are small if P has at most so many entries; they then take a few MB.
_SMALL = 500_000
#: Entries of P computed at once.
_BLOCK = 1 << 22


@lru_cache(maxsize=64)
def knots(n_negatives: int) -> IntArray:
    """Sampled ranks, counted from 0, between which a bet is interpolated linearly."""
    found, x = [], 0
    while x < n_negatives:
        found.append(x)
        x += max(1, round(_CELL * float(np.sqrt(x * (1.0 - x / n_negatives)))))
    array = np.array([*found, n_negatives])
    array.setflags(write=False)
    return array


@lru_cache(maxsize=64)
def hats(n_negatives: int) -> FloatArray:
    """Hat functions of the knots at each sampled rank; shape (n_negatives + 1, knots)."""
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

    An adaptive design has its own knots in each round.
    """
    if isinstance(protocol, Protocol):
        return hats(protocol.n_negatives)
    drawn, above = protocol.outcomes
    rounds = [above[drawn == each] for each in dict.fromkeys(drawn.tolist())]
    # A round ends with 1 or more above; only the last may end with none.
    found = block_diag(*(hats(int(each[-1]))[each[0] :, each[0] :] for each in rounds))
    found.setflags(write=False)
    return np.asarray(found)


@lru_cache(maxsize=64)
def given_all(protocol: Protocol | Adaptive) -> FloatArray:
    """Matrix K of :mod:`~sampled_metrics.bounds.bets`: outcome given all negatives above.

    It is the design in a catalogue that is drawn completely; the identity for a fixed sample.
    """
    most = protocol.n_outcomes - 1
    every = replace(protocol, n_items=most + 1, replacement=False)
    return every.rows(np.arange(most + 1))


class Generators:
    """The generators of one catalogue size, and their distributions of the sampled rank.

    `top`, if given, limits the ranks of the assumption. `pmf` (k, knots): distributions of the
    sampled rank; `last` (k,): irrelevant items above the deepest rank of each generator; the first
    `spread` generators cover several ranks, the others are the single ranks `above`; `constraints`
    (constraints, k) are >= 0 on average; `first` are the columns a fit begins with.
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
        #: Hat functions given the number of the `most` negatives above.
        self._given_all = self._basis
        if not isinstance(protocol, Protocol):  # for a fixed sample the matrix is the identity
            self._given_all = given_all(protocol) @ self._basis
        #: Whether sampled ranks are exact ranks, so that P is the identity too.
        self._whole = isinstance(protocol, Protocol) and protocol.whole
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
        #: Weights of the first ranks in each geometric distribution; None for even ones.
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
        #: Gaps between neighbouring evaluated generators.
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
        """Distribution of the sampled rank on the knots at single ranks."""
        if self._whole:
            return np.asarray(self._basis[above])
        found = np.empty((above.size, self._basis.shape[1]))
        step = max(1, _BLOCK // (self.m + 1))
        for start in range(0, above.size, step):
            part = slice(start, start + step)
            found[part] = self.protocol.rows(above[part]) @ self._basis
        return found

    def _averages(self, ends: IntArray, single: FloatArray) -> FloatArray:
        """Averages of P over the ranks 1 to each of `ends`.

        Cumulative sums while every rank is evaluated. Beyond: without replacement, a sum of
        hypergeometric probabilities is the tail of another hypergeometric distribution; with
        replacement, an integral (a binomial tail) and two terms of the Euler-Maclaurin formula,
        with the error bound in `_rest`.
        """
        if not ends.size:
            return np.empty((0, single.shape[1]))
        if self._whole:
            return np.asarray(np.cumsum(self._basis, axis=0)[ends] / (ends + 1.0)[:, np.newaxis])
        every = int(np.argmax(np.append(np.diff(ends) > 1, True))) + 1
        sums = np.cumsum(single[:every], axis=0)
        if every < ends.size:
            sums = np.concatenate([sums, self._sums(ends[every:] + 1) @ self._given_all])
        return np.asarray(sums / (ends + 1.0)[:, np.newaxis])

    def _sums(self, upto: IntArray) -> FloatArray:
        """Sums over so many ranks of the distribution of the number of all negatives above."""
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
        """Bound of the error of an expectation over spread generators.

        For averages over ranks, the Euler-Maclaurin remainder. For a geometric distribution between
        two evaluated rates: the second derivative in the logarithm of the rate is at most 1.5 times
        the range of the averaged values, since the variance of the rank is at most 1 / rate^2.
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
        """A few generators of each kind, whose mixtures approximate the whole class."""
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
        """Distribution of the sampled rank on the knots, for a density over the true ranks."""
        mass = self._widths * density(self.above + 1.0)
        return np.asarray(mass / mass.sum() @ self._single)

    def mass(self, weights: FloatArray, at: IntArray) -> FloatArray:
        """Distribution of the true rank in mixtures of generators; shape (mixtures, ranks)."""
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
        """Posterior mean metric given a sampled rank on the knots, under uniform true ranks."""
        return np.asarray((self._widths * terms) @ self._single / (self._widths @ self._single))

    def metric(self, terms: FloatArray, at: FloatArray) -> FloatArray:
        """Metric of each generator, given `terms` at the first ranks and `at` those of `last`."""
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
        """Upper bound over all generators of an expectation less a cost.

        Returns the bound, and the values (k,) at the evaluated generators. `function` is on the
        knots, `prices` are multipliers of the constraints; gaps are bisected until they may hide at
        most `near`.
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
        # Between two ranks an expectation exceeds its chord by at most width^2 / 8 times its second
        # difference: the expected second difference of the function with two draws fewer. An
        # average over ranks bends a third as much.
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


def generators(
    protocol: Protocol | Adaptive, assumption: Assumption | None = None, top: int | None = None
) -> Generators:
    """A cached :class:`Generators`; many small ones are kept, for logs with many parts."""
    small = int(protocol.pool) * protocol.n_outcomes <= _SMALL
    return (_small_generators if small else _large_generators)(protocol, assumption, top)


_small_generators = lru_cache(maxsize=64)(Generators)
_large_generators = lru_cache(maxsize=8)(Generators)


def _looked_at(pool: int, m: int) -> IntArray:
    if pool * (m + 1) <= _ALL or pool <= _EVERY:
        return np.arange(pool + 1)
    angles = np.linspace(0.0, np.pi, int(_ANGLES * np.pi * np.sqrt(m)) + 2)
    even = 0.5 * pool * (1.0 - np.cos(angles))
    ratios = np.geomspace(_EVERY, pool, int(_RATIOS * np.log(pool / _EVERY)) + 2)
    above = np.append(np.arange(_EVERY + 1), np.round([*even, *ratios]).astype(np.int64))
    return np.unique(np.clip(above, 0, pool))


def _tails(probabilities: FloatArray) -> FloatArray:
    """Probabilities of 1 or more, 2 or more, ..., summed from the far end: nothing cancels."""
    return np.asarray(np.cumsum(probabilities[..., :0:-1], axis=-1)[..., ::-1])

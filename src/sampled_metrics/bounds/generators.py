"""The populations that an assumption allows, as mixtures of generators.

With nothing assumed a population is a mixture of single ranks. If deeper ranks have fewer users
down to a rank L, it is a mixture of uniform distributions on the ranks 1..j, for j up to L, and of
single ranks below. A linear function of the population is largest at a generator, so that looking
at all generators bounds an expectation over the whole class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .._validate import FloatArray, IntArray
from ..numerics.distributions import pmf_table
from ..protocol import Protocol

#: Distance of the knots, in standard deviations of the sampled rank.
_CELL = 0.75
#: All ranks are evaluated if P has at most so many entries. Else all down to `_EVERY`, then so many
#: per unit of the angle (in standard deviations) and of the logarithm of the rank.
_ALL, _EVERY, _ANGLES, _RATIOS = 12_000_000, 4_096, 32, 50
#: Most bisections of the gaps between evaluated ranks, to certify the maximum in between.
_ROUNDS = 6
#: Generators are small if P has at most so many entries; they then take a few MB.
_SMALL = 500_000
#: Entries of P computed at once.
_BLOCK = 1 << 22
#: Entries, on the knots, of ranks between evaluated ones that are kept: 64 MB.
_KEPT = 1 << 23


@lru_cache(maxsize=64)
def knots(n_negatives: int) -> IntArray:
    """Sampled ranks, counted from 0, between which a bet is interpolated linearly."""
    knot_ranks, x = [], 0
    while x < n_negatives:
        knot_ranks.append(x)
        x += max(1, round(_CELL * float(np.sqrt(x * (1.0 - x / n_negatives)))))
    array = np.array([*knot_ranks, n_negatives])
    array.setflags(write=False)
    return array


@lru_cache(maxsize=64)
def hats(n_negatives: int) -> FloatArray:
    """Hat functions of the knots at each sampled rank, (n_negatives + 1, knots); rows sum to 1."""
    knot_ranks = knots(n_negatives)
    x = np.arange(n_negatives + 1)
    left_knot = np.clip(np.searchsorted(knot_ranks, x, side="right") - 1, 0, knot_ranks.size - 2)
    share = (x - knot_ranks[left_knot]) / (knot_ranks[left_knot + 1] - knot_ranks[left_knot])
    hat_values = np.zeros((x.size, knot_ranks.size))
    hat_values[x, left_knot] = 1.0 - share
    hat_values[x, left_knot + 1] += share
    hat_values.setflags(write=False)
    return hat_values


class Generators:
    """The generators of one catalogue size, and their distributions of the sampled rank.

    `top` is the number of first ranks at which deeper ones have fewer users; 0 if nothing is
    assumed. `pmf` (k, knots): distributions of the sampled rank; `last` (k,): irrelevant items
    above the deepest rank of each generator; the first `spread` generators cover all ranks up to
    that one, the others are single ranks; `first` are the columns that a fit begins with.
    """

    def __init__(self, protocol: Protocol, top: int = 0) -> None:
        self.protocol, self.top = protocol, top if top >= 2 else 0
        self.pool, self.m = int(protocol.pool), protocol.n_negatives
        self._hats = hats(self.m)
        above = _evaluated_ranks(self.pool, self.m)
        if self.top:  # the last rank of the top, and the one after
            above = np.union1d(above, [self.top - 1, min(self.top, self.pool)])
        single = self.rows(above)
        n_top = int((above < self.top).sum())
        self.spread = n_top
        self.pmf = np.concatenate([self._averages(above[:n_top], single), single[n_top:]])
        self.last, self._single = above, single
        #: Gaps between neighbouring evaluated generators.
        self._gaps = np.flatnonzero(np.diff(self.last) > 1)
        self.first = self._begin()
        edges = np.concatenate([[-0.5], 0.5 * (above[1:] + above[:-1]), [self.pool + 0.5]])
        self._widths = np.diff(edges)
        #: Ranks in gaps that were looked at, in order, and their distributions.
        self._between = np.empty(0, dtype=np.int64), np.empty((0, single.shape[1]))
        for array in (self.pmf, self.last, self.first):
            array.setflags(write=False)

    def rows(self, above: IntArray) -> FloatArray:
        """Distribution of the sampled rank on the knots at single ranks."""
        if self.protocol.whole:
            return np.asarray(self._hats[above])
        pmfs = np.empty((above.size, self._hats.shape[1]))
        step = max(1, _BLOCK // (self.m + 1))
        for start in range(0, above.size, step):
            block = slice(start, start + step)
            pmfs[block] = self.protocol.rows(above[block]) @ self._hats
        return pmfs

    def _between_rows(self, above: IntArray) -> FloatArray:
        """:meth:`rows` at ranks in gaps, which the bounds of many functions bisect alike."""
        evaluated, rows = self._between
        new = np.setdiff1d(above, evaluated)
        if new.size:
            if (evaluated.size + new.size) * rows.shape[1] > _KEPT:
                return self.rows(above)
            indices = np.searchsorted(evaluated, new)
            rows = np.insert(rows, indices, self.rows(new), axis=0)
            evaluated = np.insert(evaluated, indices, new)
            self._between = evaluated, rows
        return np.asarray(rows[np.searchsorted(evaluated, above)])

    def _averages(self, ends: IntArray, single: FloatArray) -> FloatArray:
        """Averages of P over the ranks 1 to each of `ends`.

        Cumulative sums while every rank is evaluated. Beyond: without replacement, a sum of
        hypergeometric probabilities is the tail of another hypergeometric distribution; with
        replacement, an integral (a binomial tail) and two terms of the Euler-Maclaurin formula,
        with the error bound in `_rest`.
        """
        if not ends.size:
            return np.empty((0, single.shape[1]))
        if self.protocol.whole:
            return np.asarray(np.cumsum(self._hats, axis=0)[ends] / (ends + 1.0)[:, np.newaxis])
        n_consecutive = int(np.argmax(np.append(np.diff(ends) > 1, True))) + 1
        sums = np.cumsum(single[:n_consecutive], axis=0)
        if n_consecutive < ends.size:
            sums = np.concatenate([sums, self._sums(ends[n_consecutive:] + 1) @ self._hats])
        return np.asarray(sums / (ends + 1.0)[:, np.newaxis])

    def _sums(self, upto: IntArray) -> FloatArray:
        """Sums over so many ranks of the distribution of the number of all negatives above."""
        m, pool = self.m, self.pool
        if not self.protocol.replacement:
            terms = pmf_table(m + 1, upto, pool + 1, False)
            return np.asarray(_tails(terms) * ((pool + 1.0) / (m + 1.0)))
        terms = _tails(pmf_table(m + 1, upto, pool, True)) * (pool / (m + 1.0))
        first, last = pmf_table(m, 0, pool, True), pmf_table(m, upto, pool, True)

        def slope(above: IntArray | int) -> FloatArray:
            pmf = pmf_table(m - 1, above, pool, True) if m > 1 else np.ones((*np.shape(above), 1))
            zero = np.zeros((*pmf.shape[:-1], 1))
            change = np.concatenate([zero, pmf], -1) - np.concatenate([pmf, zero], -1)
            return np.asarray(change * (m / pool))

        return np.asarray(terms - 0.5 * (last - first) + (slope(upto) - slope(0)) / 12.0)

    def _rest(self, function: FloatArray) -> float:
        """Euler-Maclaurin remainder of expectations over averages of ranks."""
        is_exact = not self.spread or self.last[self.spread - 1] + 1 == self.spread
        if is_exact or not self.protocol.replacement:
            return 0.0
        return float(16.0 / 720.0 * (self.m / self.pool) ** 4 * np.ptp(function))

    def _begin(self) -> IntArray:
        """A few generators of each kind, whose mixtures approximate the whole class."""
        angles = np.linspace(0.0, np.pi, int(2 * np.pi * np.sqrt(self.m)) + 2)
        candidates = [*range(12), *(0.5 * self.pool * (1.0 - np.cos(angles)))]
        candidates += [*np.geomspace(1, self.pool, 24)]
        if self.top:
            candidates += [*(np.geomspace(1, self.top, 36) - 1), self.top - 1, self.top]
        chosen = np.unique(np.clip(np.round(candidates), 0, self.pool))
        columns = self.spread + np.searchsorted(self.last[self.spread :], chosen)
        columns = columns[columns < self.last.size]
        top_columns = np.searchsorted(self.last[: self.spread], chosen[chosen < self.top])
        columns = np.append(top_columns, columns)
        likely = self.pmf.argmax(axis=0)  # so that no knot is impossible
        return np.unique(np.concatenate([columns, likely]))

    def marginal(self, density: Callable[[Any], FloatArray]) -> FloatArray:
        """Distribution of the sampled rank on the knots, for a density over the true ranks."""
        mass = self._widths * density(self.last + 1.0)
        return np.asarray(mass / mass.sum() @ self._single)

    def expected(self, terms: FloatArray) -> FloatArray:
        """Posterior mean metric given a sampled rank on the knots, under uniform true ranks."""
        return np.asarray((self._widths * terms) @ self._single / (self._widths @ self._single))

    def metric(self, terms: FloatArray, last_terms: FloatArray) -> FloatArray:
        """Metric of each generator, given its `terms` at the first ranks, and those of `last`."""
        values = np.array(last_terms, dtype=float)
        if self.spread:
            last = self.last[: self.spread]
            values[: self.spread] = np.cumsum(terms)[last] / (last + 1.0)
        return values

    def largest(self, function: FloatArray, cost: FloatArray, tolerance: float) -> float:
        """Upper bound over all generators of an expectation less a cost.

        `function` is on the knots; gaps are bisected until they may hide at most `tolerance`.
        """
        expected = self.pmf @ function
        best = float((expected - cost).max())
        if not self._gaps.size:
            return best + self._rest(function)
        # Between two ranks an expectation exceeds its chord by at most width^2 / 8 times its second
        # difference: the expected second difference of the function with two draws fewer. An
        # average over ranks bends a third as much.
        bend = float(np.abs(np.diff(self._hats @ function, 2)).max(initial=0.0))
        n_removed = 0.0 if self.protocol.replacement else 1.0
        bend *= self.m * (self.m - 1.0) / (self.pool * (self.pool - n_removed)) / 8.0
        start, stop = self._gaps, self._gaps + 1
        least = np.minimum(cost[start], cost[stop])
        sides = (self.last[start], self.last[stop], expected[start], expected[stop], least)
        gaps: FloatArray = np.stack(sides).astype(float)
        bound, is_single = best, start >= self.spread
        for iteration in range(_ROUNDS):
            width = gaps[1] - gaps[0]
            is_wide = width > 1.0
            upper = np.maximum(gaps[2], gaps[3]) - gaps[4] + np.where(is_wide, bend * width**2, 0.0)
            to_bisect = (upper > best + tolerance) & is_wide & is_single & (iteration < _ROUNDS - 1)
            bound = max(bound, float(upper[~to_bisect].max(initial=bound)))
            if not to_bisect.any():
                break
            gaps, is_single = gaps[:, to_bisect], is_single[to_bisect]
            middle = (gaps[0] + gaps[1]) // 2
            middle_values = self._between_rows(middle.astype(np.int64)) @ function
            best = max(best, float((middle_values - gaps[4]).max()))
            first, second = gaps.copy(), gaps.copy()
            first[1], first[3], second[0], second[2] = middle, middle_values, middle, middle_values
            gaps, is_single = np.concatenate([first, second], axis=1), np.tile(is_single, 2)
        return max(bound, best) + self._rest(function)


def generators(protocol: Protocol, top: int = 0) -> Generators:
    """A cached :class:`Generators`; many small ones are kept, for logs with many parts."""
    small = int(protocol.pool) * (protocol.n_negatives + 1) <= _SMALL
    return (_small_generators if small else _large_generators)(protocol, top)


_small_generators = lru_cache(maxsize=64)(Generators)
_large_generators = lru_cache(maxsize=8)(Generators)


def _evaluated_ranks(pool: int, m: int) -> IntArray:
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

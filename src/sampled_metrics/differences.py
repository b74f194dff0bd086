"""The probabilities that a sum of users' independent differences is above 0, and that it is 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ndtr

from ._validate import FloatArray, IntArray
from .estimators import Estimator
from .protocol import fixed

#: Relative tolerance: of values to their range, of sums to their largest term, and to a lattice.
_SAME = 1e-11
#: Probability that a sum is outside the computed interval, by Bernstein's bound.
_OUTSIDE = 1e-10
#: Values with a smaller expected count are left out.
_NEVER = 1e-40
#: Squared skewness and excess kurtosis, together, up to which Edgeworth's series is right to 1e-4.
_NEARLY_NORMAL = 2e-3
#: Points of all Fourier transforms together, and of each at least and at most.
_POINTS, _LEAST, _MOST = 1 << 22, 1 << 12, 1 << 15
#: Most sums that are enumerated, and the total probability of omitted ones.
_SUMS, _LEFT_OUT = 1 << 18, 1e-13
#: Fewest sums after merging neighbours, and the most work.
_MERGED, _WORK = 1 << 10, 1 << 22
#: Excess probability near 0 from which on a lattice may be too coarse to tell the sign.
_UNRESOLVED = 5e-3
#: Numbers of lattice steps to try between two neighbouring values.
_PARTS = np.arange(1, 65)


@dataclass(frozen=True, eq=False)
class Differences:
    """A sum of independent values, some added and some subtracted.

    `values` (K,); `pmfs` (R, K) are their distributions; `counts` (R,) is how many are drawn from
    each row, negative if subtracted. Either the counts sum to 0, or 0 is among the values.
    """

    values: FloatArray
    pmfs: FloatArray
    counts: FloatArray

    @cached_property
    def _atoms(self) -> tuple[FloatArray, FloatArray]:
        """Distinct values relative to one of them, and their probabilities in each row.

        The probability of the value 0 is stored less 1, to keep its digits near 1.
        """
        balanced = self.counts.sum() == 0
        kept = (np.abs(self.counts) @ self.pmfs > _NEVER) | (~balanced & (self.values == 0))
        happens = np.flatnonzero(kept)
        by_value = happens[np.argsort(self.values[happens])]
        ordered = self.values[by_value]
        new = np.diff(ordered, prepend=-np.inf) > _SAME * (ordered[-1] - ordered[0])
        starts = np.flatnonzero(new)
        laws = np.add.reduceat(self.pmfs[:, by_value], starts, axis=1)
        values = ordered[starts]
        often = np.abs(self.counts) @ laws
        origin = int(np.argmax(often if balanced else -np.abs(values)))
        laws[:, origin] = 0.0
        laws[:, origin] = -laws.sum(axis=1)
        return values - values[origin], laws

    @cached_property
    def cumulants(self) -> FloatArray:
        """First four cumulants of the sum; a mean that is only rounding is set to 0."""
        values, laws = self._atoms
        first, second, third, fourth = (laws @ values**power for power in range(1, 5))
        two = np.maximum(second - first**2, 0.0)
        three = third - 3 * second * first + 2 * first**3
        four = fourth - 4 * third * first - 3 * second**2 + 12 * second * first**2 - 6 * first**4
        many = np.abs(self.counts)
        mean = float(self.counts @ first)
        if abs(mean) <= 1e-12 * float(many @ np.abs(laws) @ np.abs(values)):
            mean = 0.0  # rounding
        return np.array([mean, many @ two, self.counts @ three, many @ four])

    @cached_property
    def _lattice(self) -> float:
        """Spacing of the lattice of the values, or 0 if there is none."""
        distances = np.unique(np.abs(self._atoms[0]))
        if distances.size < 2:
            return 0.0
        spacings = np.min(np.diff(distances)) / _PARTS
        steps = distances / spacings[:, np.newaxis]
        fits = (np.abs(steps - steps.round()) <= 100 * _SAME * (1 + steps)).all(axis=1)
        whole = fits & (steps[:, -1] < 1 / (1000 * _SAME))
        return float(spacings[np.argmax(whole)]) if whole.any() else 0.0

    def chances(self, times: float = 1.0) -> tuple[float, float]:
        """Probabilities that the sum of `times` as many draws is above 0, and that it is 0.

        Few draws: enumerate all sums. More: convolve on a lattice; values on no lattice are rounded
        to a fine one, keeping the mean and the cancellation of opposite values. If too much mass is
        near 0 for the lattice, enumerate with neighbouring sums merged. Nearly normal sums:
        Edgeworth's series, with a continuity correction on a lattice. A coin that wins with
        probability 0.6, less a fair one:

        >>> coins = np.array([[0.4, 0.6], [0.5, 0.5]])
        >>> once = Differences(np.array([0.0, 1.0]), coins, np.array([1.0, -1.0]))
        >>> above, level = once.chances()
        >>> round(above, 12), round(level, 12)
        (0.3, 0.5)
        """
        mean, variance, third, fourth = (self.cumulants * times).tolist()
        values, laws = self._atoms
        scale = float(np.ptp(values))
        if variance <= (_SAME * scale) ** 2:
            tie = abs(mean) <= _SAME * scale * times * float(np.abs(self.counts).sum())
            return float(mean > 0 and not tie), float(tie)
        enumerated = self._enumerated(times)
        if enumerated is not None:
            return enumerated
        spacing, log_tail = self._lattice, float(np.log(2 / _OUTSIDE))
        reach = log_tail * scale / 3
        reach += float(np.sqrt(reach**2 + 2 * log_tail * variance))
        added, taken = (times * float(np.maximum(c, 0).sum()) for c in (self.counts, -self.counts))
        low = max(mean - reach, added * values.min() - taken * values.max())
        high = min(mean + reach, added * values.max() - taken * values.min())
        if low > 0 or high < 0:
            return float(low > 0), 0.0
        most = int(np.clip(_POINTS // self.counts.size, _LEAST, _MOST))
        rounding = high - low > (most - 80) * spacing
        if rounding:
            if third**2 / variance**3 + abs(fourth) / variance**2 <= _NEARLY_NORMAL:
                return _edgeworth(mean, variance, third, fourth, spacing)
            # Where the values are fractions, such as 1/2, 1/3, 1/4, some of them stay exact.
            parts = min((most - 80) / (high - low), 2520 / scale)
            whole = 2520 if parts >= 2520 else 60
            spacing = 1.0 / (parts // whole * whole or parts)
        steps = _rounded(values / spacing, times * self.counts @ laws)
        beyond = 2 + int(min(added + taken, 32))  # rounding may leave the interval
        length = next_fast_len(int((high - low) / spacing) + 2 * beyond + 2, real=True)
        start = int(np.floor(low / spacing)) - beyond
        law = self._pmf_modulo(steps, length, times)
        at = (start + np.arange(length)) % length
        whole = np.maximum(law[at], 0.0)
        zero = -start if 0 <= -start < length else length - 1
        above, tie = float(whole[max(1 - start, 0) :].sum()), float(whole[zero])
        if rounding:
            # Does the lattice leave too much mass near 0 to tell its sign?
            wide = 2 + int((added + taken) / 2)
            middle = whole[max(zero - wide, 0) : zero + wide + 1]
            around = whole[max(zero - 16 - 4 * wide, 0) : zero + 17 + 4 * wide]
            if middle.sum() - middle.size * np.median(around) > _UNRESOLVED:
                enumerated = self._enumerated(times, merged=True)
                if enumerated is not None:
                    return enumerated
            # Mass rounded to 0 is estimated by its neighbours; half belongs on either side.
            near = np.delete(whole[max(zero - 16, 0) : zero + 17], min(zero, 16))
            by_chance = min(float(np.median(near)), tie)
            above, tie = above + by_chance / 2, tie - by_chance
        return min(above, 1.0), max(min(tie, 1.0 - above), 0.0)

    def _enumerated(self, times: float, merged: bool = False) -> tuple[float, float] | None:
        """:meth:`chances` by enumeration, or None if there are too many sums.

        Meet in the middle: the sums of the added and of the subtracted draws (or of two halves) are
        enumerated separately. This resolves values as different as 1/2 and 1/5,000, which no
        lattice of some thousand points does. `merged` merges neighbouring sums into about equally
        likely ones.
        """
        counts = times * self.counts
        many = np.abs(counts).round()
        if (np.abs(many - np.abs(counts)) > 1e-9).any():
            return None
        different = int((np.abs(self.counts) @ self.pmfs > _NEVER).sum())
        most = int(_WORK / (many.sum() * different)) if merged else 0
        if most < _MERGED if merged else many.sum() > np.log2(_SUMS):
            return None
        rows = np.repeat(np.arange(many.size), many.astype(int))
        second = counts[rows] < 0
        if second.all() or not second.any():
            second = np.arange(rows.size) % 2 == 1
        parts = []
        for side in (~second, second):
            part = np.zeros(1), np.zeros(1), np.ones(1)
            for row in rows[side].tolist():
                happens = self.pmfs[row] > _LEFT_OUT / self.values.size
                if not merged and part[0].size * np.count_nonzero(happens) > _SUMS:
                    return None
                values = np.sign(counts[row]) * self.values[happens]
                part = _added(part, values, self.pmfs[row, happens])
                if merged:
                    part = _merged(*part, most)
            parts.append(part)
        (one, size, chance), (other, _, weight) = parts
        other, below = -other[::-1], np.append(0.0, np.cumsum(weight[::-1]))
        ahead = below[np.searchsorted(other, one - _SAME * size, side="left")]
        behind = below[np.searchsorted(other, one + _SAME * size, side="right")]
        return min(float(chance @ ahead), 1.0), float(chance @ (behind - ahead))

    def _pmf_modulo(self, steps: IntArray, length: int, times: float) -> FloatArray:
        """Distribution of the sum of steps modulo `length`, by Fourier transforms."""
        _, laws = self._atoms
        places, column = np.unique(steps % length, return_inverse=True)
        log = np.zeros(length // 2 + 1, dtype=complex)
        rows = max(1, (1 << 19) // length)
        for begin in range(0, self.counts.size, rows):
            part = laws[begin : begin + rows]
            block = np.zeros((part.shape[0], length))
            by_column = np.argsort(column, kind="stable")
            starts = np.searchsorted(column[by_column], np.arange(places.size))
            block[:, places] = np.add.reduceat(part[:, by_column], starts, axis=1)
            with np.errstate(divide="ignore"):
                own = np.log1p(np.fft.rfft(block))
            count = times * self.counts[begin : begin + rows]
            log += np.abs(count) @ own.real + 1j * (count @ own.imag)
        return np.fft.irfft(np.exp(log.real) * np.exp(1j * log.imag), length)


def _added(
    part: tuple[FloatArray, FloatArray, FloatArray], values: FloatArray, law: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sorted sums with one more draw, each with its largest term and its probability."""
    sums = np.add.outer(part[0], values).ravel()
    sizes = np.maximum.outer(part[1], np.abs(values)).ravel()
    chances = np.outer(part[2], law).ravel()
    order = np.argsort(sums, kind="stable")
    sums, sizes, chances = sums[order], sizes[order], chances[order]
    new = np.diff(sums, prepend=-np.inf) > _SAME * sizes
    starts = np.flatnonzero(new)
    sums, sizes = sums[starts], np.maximum.reduceat(sizes, starts)
    chances = np.add.reduceat(chances, starts)
    kept = chances > _LEFT_OUT / chances.size
    return sums[kept], sizes[kept], chances[kept]


def _merged(
    sums: FloatArray, sizes: FloatArray, chances: FloatArray, most: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Merge neighbouring sums into their mean while their probability is below 1 / `most`."""
    if sums.size <= most:
        return sums, sizes, chances
    heavy = chances * most >= 1.0
    group = np.floor(np.cumsum(chances) * most)
    new = (np.diff(group, prepend=-1.0) != 0) | heavy | np.append(False, heavy[:-1])
    starts = np.flatnonzero(new)
    total = np.add.reduceat(chances, starts)
    alone = np.diff(np.append(starts, sums.size)) == 1
    means = np.where(alone, sums[starts], np.add.reduceat(sums * chances, starts) / total)
    return means, np.maximum.reduceat(sizes, starts), total


def tabulated(
    estimator: Estimator, ranks: Mapping[int, IntArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values, their distribution at each distinct rank (and catalogue), and signed counts.

    `ranks` are the true ranks under the recommender that is added (1) and subtracted (-1). Trailing
    zeros of the values are merged.

    >>> from sampled_metrics import Protocol
    >>> from sampled_metrics.estimators import naive
    >>> found = tabulated(naive("recall@1", Protocol(3, 2)), {1: np.array([1, 2, 2])})
    >>> [each.tolist() for each in found]
    [[1.0, 0.0], [[1.0, 0.0], [0.25, 0.75]], [1.0, 2.0]]
    """
    protocol, values = fixed(estimator.protocol, "a verdict"), estimator.values
    reach = int(np.max(np.nonzero(values)[0], initial=0)) + 1
    laws, counts = [], []
    for sign, given in ranks.items():
        pairs = np.stack(np.broadcast_arrays(given, protocol.n_items))
        kinds, number = np.unique(pairs, axis=1, return_counts=True)
        own = protocol if isinstance(protocol.n_items, int) else replace(protocol, n_items=kinds[1])
        laws += list(own.blocks(kinds[0], width=reach))
        counts.append(sign * number)
    law, many = np.concatenate(laws), np.concatenate(counts).astype(np.float64)
    if reach < values.size:
        law = np.column_stack([law, np.maximum(1.0 - law.sum(axis=1), 0.0)])
    return values[: law.shape[1]], law, many


def _rounded(steps: FloatArray, weight: FloatArray) -> IntArray:
    """Round `steps` symmetrically to whole numbers, keeping the weighted mean."""
    sizes, place = np.unique(np.abs(steps).round(9), return_inverse=True)
    net = np.bincount(place, np.sign(steps) * weight, minlength=sizes.size)
    out = np.round(sizes)
    if sizes.size <= 4_000:
        off = 0.0
        for i in np.argsort(-np.abs(net)).tolist():
            if abs(sizes[i] - out[i]) > 1e-6:
                low = np.floor(sizes[i])
                near = [off + net[i] * (low + up - sizes[i]) for up in (0, 1)]
                up = int(abs(near[1]) < abs(near[0]))
                out[i], off = low + up, near[up]
    return np.asarray(np.sign(steps) * out[place], dtype=np.int64)


def _edgeworth(
    mean: float, variance: float, third: float, fourth: float, spacing: float
) -> tuple[float, float]:
    """Probabilities of more than 0 and of 0 by Edgeworth's series.

    On a lattice the sum is smoothed by a uniform variable of one spacing (continuity correction).
    """
    variance += spacing**2 / 12
    fourth -= spacing**4 / 120
    sd = np.sqrt(variance)
    skewness, excess = third / sd**3, fourth / variance**2
    z = (mean + np.array([-0.5, 0.5]) * spacing) / sd
    x = -z
    series = (
        skewness / 6 * (x**2 - 1)
        + excess / 24 * (x**3 - 3 * x)
        + skewness**2 / 72 * (x**5 - 10 * x**3 + 15 * x)
    )
    above, least = np.clip(ndtr(z) + np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * series, 0, 1)
    return float(above), max(float(least - above), 0.0) if spacing else 0.0

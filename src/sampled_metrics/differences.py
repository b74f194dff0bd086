"""The probabilities that a sum of users' independent differences is above 0, and that it is 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ndtr

from ._validate import FloatArray, IntArray, as_intp
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
        has_mass = (np.abs(self.counts) @ self.pmfs > _NEVER) | (~balanced & (self.values == 0))
        columns = np.flatnonzero(has_mass)
        ordered_columns = columns[np.argsort(self.values[columns])]
        ordered_values = self.values[ordered_columns]
        is_new = np.diff(ordered_values, prepend=-np.inf) > _SAME * (
            ordered_values[-1] - ordered_values[0]
        )
        starts = np.flatnonzero(is_new)
        pmfs = np.add.reduceat(self.pmfs[:, ordered_columns], starts, axis=1)
        values = ordered_values[starts]
        expected_counts = np.abs(self.counts) @ pmfs
        origin = int(np.argmax(expected_counts if balanced else -np.abs(values)))
        pmfs[:, origin] = 0.0
        pmfs[:, origin] = -pmfs.sum(axis=1)
        return values - values[origin], pmfs

    @cached_property
    def cumulants(self) -> FloatArray:
        """First four cumulants of the sum; a mean that is only rounding is set to 0."""
        values, pmfs = self._atoms
        first, second, third, fourth = (pmfs @ values**power for power in range(1, 5))
        variances = np.maximum(second - first**2, 0.0)
        third_cumulants = third - 3 * second * first + 2 * first**3
        fourth_cumulants = (
            fourth - 4 * third * first - 3 * second**2 + 12 * second * first**2 - 6 * first**4
        )
        n_draws = np.abs(self.counts)
        mean = float(self.counts @ first)
        if abs(mean) <= 1e-12 * float(n_draws @ np.abs(pmfs) @ np.abs(values)):
            mean = 0.0  # rounding
        return np.array(
            [mean, n_draws @ variances, self.counts @ third_cumulants, n_draws @ fourth_cumulants]
        )

    @cached_property
    def _lattice(self) -> float:
        """Spacing of the lattice of the values, or 0 if there is none."""
        distances = np.unique(np.abs(self._atoms[0]))
        if distances.size < 2:
            return 0.0
        spacings = np.min(np.diff(distances)) / _PARTS
        steps = distances / spacings[:, np.newaxis]
        fits = (np.abs(steps - steps.round()) <= 100 * _SAME * (1 + steps)).all(axis=1)
        is_usable = fits & (steps[:, -1] < 1 / (1000 * _SAME))
        return float(spacings[np.argmax(is_usable)]) if is_usable.any() else 0.0

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
        values, pmfs = self._atoms
        scale = float(np.ptp(values))
        if variance <= (_SAME * scale) ** 2:
            tie = abs(mean) <= _SAME * scale * times * float(np.abs(self.counts).sum())
            return float(mean > 0 and not tie), float(tie)
        enumerated = self._enumerated(times)
        if enumerated is not None:
            return enumerated
        spacing, log_tail = self._lattice, float(np.log(2 / _OUTSIDE))
        max_deviation = log_tail * scale / 3
        max_deviation += float(np.sqrt(max_deviation**2 + 2 * log_tail * variance))
        n_added, n_subtracted = (
            times * float(np.maximum(signed_counts, 0).sum())
            for signed_counts in (self.counts, -self.counts)
        )
        low = max(mean - max_deviation, n_added * values.min() - n_subtracted * values.max())
        high = min(mean + max_deviation, n_added * values.max() - n_subtracted * values.min())
        if low > 0 or high < 0:
            return float(low > 0), 0.0
        max_points = int(np.clip(_POINTS // self.counts.size, _LEAST, _MOST))
        rounding = high - low > (max_points - 80) * spacing
        if rounding:
            if third**2 / variance**3 + abs(fourth) / variance**2 <= _NEARLY_NORMAL:
                return _edgeworth(mean, variance, third, fourth, spacing)
            # Where the values are fractions, such as 1/2, 1/3, 1/4, some of them stay exact.
            parts = min((max_points - 80) / (high - low), 2520 / scale)
            whole = 2520 if parts >= 2520 else 60
            spacing = 1.0 / (parts // whole * whole or parts)
        steps = _rounded(values / spacing, times * self.counts @ pmfs)
        margin = 2 + int(min(n_added + n_subtracted, 32))  # rounding may leave the interval
        length = next_fast_len(int((high - low) / spacing) + 2 * margin + 2, real=True)
        start = int(np.floor(low / spacing)) - margin
        pmf = self._pmf_modulo(steps, length, times)
        lattice_index = (start + np.arange(length)) % length
        whole = np.maximum(pmf[lattice_index], 0.0)
        zero_index = -start if 0 <= -start < length else length - 1
        above, tie = float(whole[max(1 - start, 0) :].sum()), float(whole[zero_index])
        if rounding:
            # Does the lattice leave too much mass near 0 to tell its sign?
            half_width = 2 + int((n_added + n_subtracted) / 2)
            middle = whole[max(zero_index - half_width, 0) : zero_index + half_width + 1]
            around = whole[
                max(zero_index - 16 - 4 * half_width, 0) : zero_index + 17 + 4 * half_width
            ]
            if middle.sum() - middle.size * np.median(around) > _UNRESOLVED:
                enumerated = self._enumerated(times, merged=True)
                if enumerated is not None:
                    return enumerated
            # Mass rounded to 0 is estimated by its neighbours; half belongs on either side.
            neighbours = np.delete(
                whole[max(zero_index - 16, 0) : zero_index + 17], min(zero_index, 16)
            )
            by_chance = min(float(np.median(neighbours)), tie)
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
        n_draws = np.abs(counts).round()
        if (np.abs(n_draws - np.abs(counts)) > 1e-9).any():
            return None
        n_values = int((np.abs(self.counts) @ self.pmfs > _NEVER).sum())
        max_sums = int(_WORK / (n_draws.sum() * n_values)) if merged else 0
        if max_sums < _MERGED if merged else n_draws.sum() > np.log2(_SUMS):
            return None
        rows = np.repeat(np.arange(n_draws.size), as_intp(n_draws))
        is_second = counts[rows] < 0
        if is_second.all() or not is_second.any():
            is_second = np.arange(rows.size) % 2 == 1
        parts = []
        for in_part in (~is_second, is_second):
            part = np.zeros(1), np.zeros(1), np.ones(1)
            for row in rows[in_part].tolist():
                is_possible = self.pmfs[row] > _LEFT_OUT / self.values.size
                if not merged and part[0].size * np.count_nonzero(is_possible) > _SUMS:
                    return None
                values = np.sign(counts[row]) * self.values[is_possible]
                part = _added(part, values, self.pmfs[row, is_possible])
                if merged:
                    part = _merged(*part, max_sums)
            parts.append(part)
        (sums, sizes, probabilities), (other_sums, _, other_probabilities) = parts
        other_sums, cumulative = (
            -other_sums[::-1],
            np.append(0.0, np.cumsum(other_probabilities[::-1])),
        )
        p_less = cumulative[np.searchsorted(other_sums, sums - _SAME * sizes, side="left")]
        p_less_or_equal = cumulative[
            np.searchsorted(other_sums, sums + _SAME * sizes, side="right")
        ]
        return min(float(probabilities @ p_less), 1.0), float(
            probabilities @ (p_less_or_equal - p_less)
        )

    def _pmf_modulo(self, steps: IntArray, length: int, times: float) -> FloatArray:
        """Distribution of the sum of steps modulo `length`, by Fourier transforms."""
        _, pmfs = self._atoms
        distinct_steps, step_index = np.unique(steps % length, return_inverse=True)
        log_transform = np.zeros(length // 2 + 1, dtype=complex)
        block_rows = max(1, (1 << 19) // length)
        for begin in range(0, self.counts.size, block_rows):
            part = pmfs[begin : begin + block_rows]
            block = np.zeros((part.shape[0], length))
            by_column = np.argsort(step_index, kind="stable")
            starts = np.searchsorted(step_index[by_column], np.arange(distinct_steps.size))
            block[:, distinct_steps] = np.add.reduceat(part[:, by_column], starts, axis=1)
            with np.errstate(divide="ignore"):
                log_transforms = np.log1p(np.fft.rfft(block))
            count = times * self.counts[begin : begin + block_rows]
            log_transform += np.abs(count) @ log_transforms.real + 1j * (
                count @ log_transforms.imag
            )
        return np.fft.irfft(np.exp(log_transform.real) * np.exp(1j * log_transform.imag), length)


def _added(
    part: tuple[FloatArray, FloatArray, FloatArray], values: FloatArray, pmf: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sorted sums with one more draw, each with its largest term and its probability."""
    sums = np.add.outer(part[0], values).ravel()
    sizes = np.maximum.outer(part[1], np.abs(values)).ravel()
    probabilities = np.outer(part[2], pmf).ravel()
    order = np.argsort(sums, kind="stable")
    sums, sizes, probabilities = sums[order], sizes[order], probabilities[order]
    is_new = np.diff(sums, prepend=-np.inf) > _SAME * sizes
    starts = np.flatnonzero(is_new)
    sums, sizes = sums[starts], np.maximum.reduceat(sizes, starts)
    probabilities = np.add.reduceat(probabilities, starts)
    has_mass = probabilities > _LEFT_OUT / probabilities.size
    return sums[has_mass], sizes[has_mass], probabilities[has_mass]


def _merged(
    sums: FloatArray, sizes: FloatArray, probabilities: FloatArray, max_sums: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Merge neighbouring sums into their mean while their probability is below 1 / `max_sums`."""
    if sums.size <= max_sums:
        return sums, sizes, probabilities
    is_heavy = probabilities * max_sums >= 1.0
    group = np.floor(np.cumsum(probabilities) * max_sums)
    is_new = (np.diff(group, prepend=-1.0) != 0) | is_heavy | np.append(False, is_heavy[:-1])
    starts = np.flatnonzero(is_new)
    group_mass = np.add.reduceat(probabilities, starts)
    is_single = np.diff(np.append(starts, sums.size)) == 1
    means = np.where(
        is_single, sums[starts], np.add.reduceat(sums * probabilities, starts) / group_mass
    )
    return means, np.maximum.reduceat(sizes, starts), group_mass


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
    width = int(np.max(np.nonzero(values)[0], initial=0)) + 1
    pmf_rows, counts = [], []
    for sign, true_ranks in ranks.items():
        pairs = np.stack(np.broadcast_arrays(true_ranks, protocol.n_items))
        distinct_pairs, multiplicity = np.unique(pairs, axis=1, return_counts=True)
        pair_protocol = (
            protocol
            if isinstance(protocol.n_items, int)
            else replace(protocol, n_items=distinct_pairs[1])
        )
        pmf_rows += list(pair_protocol.blocks(distinct_pairs[0], width=width))
        counts.append(sign * multiplicity)
    pmfs, signed_counts = np.concatenate(pmf_rows), np.concatenate(counts).astype(np.float64)
    if width < values.size:
        pmfs = np.column_stack([pmfs, np.maximum(1.0 - pmfs.sum(axis=1), 0.0)])
    return values[: pmfs.shape[1]], pmfs, signed_counts


def _rounded(steps: FloatArray, weight: FloatArray) -> IntArray:
    """Round `steps` symmetrically to whole numbers, keeping the weighted mean."""
    sizes, size_index = np.unique(np.abs(steps).round(9), return_inverse=True)
    net_weights = np.bincount(size_index, np.sign(steps) * weight, minlength=sizes.size)
    rounded_sizes = np.round(sizes)
    if sizes.size <= 4_000:
        weighted_error = 0.0
        for i in np.argsort(-np.abs(net_weights)).tolist():
            if abs(sizes[i] - rounded_sizes[i]) > 1e-6:
                low = np.floor(sizes[i])
                errors = [
                    weighted_error + net_weights[i] * (low + increment - sizes[i])
                    for increment in (0, 1)
                ]
                increment = int(abs(errors[1]) < abs(errors[0]))
                rounded_sizes[i], weighted_error = low + increment, errors[increment]
    return np.asarray(np.sign(steps) * rounded_sizes[size_index], dtype=np.int64)


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
    p_above, p_at_least = np.clip(ndtr(z) + np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * series, 0, 1)
    return float(p_above), max(float(p_at_least - p_above), 0.0) if spacing else 0.0

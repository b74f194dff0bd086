"""Where relevant items stand in a sample: distributions, expectations and joint moments with ties.

Each function is about a block of rankings. :class:`~sampled_metrics.RelevantSets` is the public
face.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._validate import FloatArray, IntArray, as_intp
from .numerics import distributions
from .numerics.quadrature import gauss

_BLOCK = 1 << 21  # probabilities held at once: 16 MiB
_MOST_NODES = 64  # of a Gauss rule, in an estimate of memory


@dataclass(frozen=True, eq=False)
class Places:
    """Candidates, or their weights, around the best, second best, ... item of each ranking.

    Shapes (n_rankings, n_relevant), but `total` (n_rankings,). `first` is the number of relevant
    items before the item's tied group, `size` that group's relevant items; `repeat`: with
    replacement. `n_tied` are the tied candidates, and `tied` their weight, shared equally.
    """

    better: IntArray
    tied: IntArray
    total: IntArray
    first: IntArray
    size: IntArray
    n_tied: IntArray
    repeat: bool

    def rows(self, part: slice | IntArray) -> Places:
        names = ("better", "tied", "total", "first", "size", "n_tied")
        return replace(self, **{name: getattr(self, name)[part] for name in names})

    def blocks(self, width: int) -> Iterator[slice]:
        return blocks(np.full(self.total.size, self.better.shape[1] * width))

    def pmf(self, part: slice, draws: IntArray, width: int) -> FloatArray:
        """Distributions of the negatives above each item; shape (rows, n_relevant, width)."""
        places = self.rows(part)
        relevant = places.better.shape[1]
        better, tied, size = places.better.ravel(), places.tied.ravel(), places.size.ravel()
        total, draws_by_item = np.repeat(places.total, relevant), np.repeat(draws, relevant)
        probabilities = np.empty((better.size, width))
        is_untied = tied == 0
        probabilities[is_untied] = distributions.pmf_table(
            draws_by_item[is_untied], better[is_untied], total[is_untied], self.repeat, width
        )
        is_sole = ~is_untied & (size == 1) & (not self.repeat)
        probabilities[is_sole] = _tail_difference(
            draws_by_item[is_sole], better[is_sole], tied[is_sole], total[is_sole], width
        )
        for indices, mixture in places.mixtures(draws, width):
            probabilities[indices] = mixture
        return probabilities.reshape(-1, relevant, width)

    def expected(self, part: slice, draws: IntArray, values: FloatArray) -> FloatArray:
        """Expected ``values[t, j, negatives above the j-th item]``; shape (t, rows, n_relevant).

        `values` has shape (t, n_relevant, width) and is 0 beyond. Without replacement an item that
        is tied with irrelevant candidates only has a difference of two tails (`_tail_difference`).
        Summation by parts turns it into a difference of two expectations, of the sums of the values
        from each count on.
        """
        places = self.rows(part)
        relevant, width = values.shape[1:]
        better, tied, size = places.better.ravel(), places.tied.ravel(), places.size.ravel()
        total, draws_by_item = np.repeat(places.total, relevant), np.repeat(draws, relevant)
        place = np.tile(np.arange(relevant), places.total.size)
        untied = np.flatnonzero(tied == 0)
        sole = np.flatnonzero((tied > 0) & (size == 1) & (not self.repeat))
        pool, tail_draws = total[sole] + 1, draws_by_item[sole] + 1
        marked = better[sole], better[sole] + tied[sole] + 1
        expectations = _expectations(
            np.concatenate([draws_by_item[untied], tail_draws, tail_draws]),
            np.concatenate([better[untied], *marked]),
            np.concatenate([total[untied], pool, pool]),
            np.concatenate([place[untied], *[place[sole] + relevant] * 2]),
            np.concatenate([values, values[..., ::-1].cumsum(axis=2)[..., ::-1]], axis=1),
            self.repeat,
        )
        upper, lower = expectations[:, untied.size :].reshape(len(values), 2, -1).swapaxes(0, 1)
        terms = np.empty((len(values), better.size))
        terms[:, untied] = expectations[:, : untied.size]
        terms[:, sole] = pool / (tail_draws * (tied[sole] + 1.0)) * (upper - lower)
        for indices, pmf in places.mixtures(draws, width):
            terms[:, indices] = np.einsum("rcx,trcx->trc", pmf, values[:, place[indices]])
        return terms.reshape(len(values), -1, relevant)

    def mixtures(self, draws: IntArray, width: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Groups of c relevant items tied with candidates: their raveled indices, (rows, c), and
        the distributions of the negatives above each, (rows, c, width).

        Without replacement only groups of two or more.
        """
        relevant = self.better.shape[1]
        better, tied, size = self.better.ravel(), self.tied.ravel(), self.size.ravel()
        total, draws_by_item = np.repeat(self.total, relevant), np.repeat(draws, relevant)
        opens_group = (tied > 0) & (
            self.first.ravel() == np.tile(np.arange(relevant), self.total.size)
        )
        for c in range(1 if self.repeat else 2, relevant + 1):  # tied items follow one another
            starts = np.flatnonzero(opens_group & (size == c))
            if not starts.size:
                continue
            group = draws_by_item[starts], better[starts], tied[starts], total[starts]
            if self.repeat:
                pmf = mixed_repeats(*group, self.n_tied.ravel()[starts], c, width)
            else:
                pmf = _mixed_distinct(*group, c, width)
            yield starts[:, np.newaxis] + np.arange(c), pmf


def blocks(costs: IntArray) -> Iterator[slice]:
    """Slices of neighbouring rows with a total cost of at most about `_BLOCK`."""
    start, spent = 0, 0
    for row, cost in enumerate(costs.tolist()):
        if spent and spent + cost > _BLOCK:
            yield slice(start, row)
            start, spent = row, 0
        spent += max(cost, 1)
    if spent:
        yield slice(start, costs.size)


def _expectations(
    draws: IntArray,
    marked: IntArray,
    pool: IntArray,
    row: IntArray,
    values: FloatArray,
    repeat: bool,
) -> FloatArray:
    """Expected ``values[t, row, X]`` for the number X of marked candidates drawn; shape (t, size).

    `values` has shape (t, rows, width) and is 0 beyond. Counts that have a probability below
    `_NEGLIGIBLE` together are left out. Most distributions then need few columns, and those that
    fit are normalised to a sum of 1, which is much faster than to compute one of their
    probabilities.
    """
    width = values.shape[2]
    expectations = np.zeros((len(values), draws.size))
    mean = draws * (marked / pool)
    certain = (draws == pool) & (not repeat)
    indices = np.flatnonzero(certain & (marked < width))
    expectations[:, indices] = values[:, row[indices], marked[indices]]
    values = np.concatenate([values, np.zeros((*values.shape[:2], 1))], axis=2)
    remaining = np.flatnonzero(~certain & (mean < _least_mean(width)))
    remaining = remaining[np.argsort(row[remaining], kind="stable")]

    def add(indices: IntArray, first: int, columns: int, complete: bool) -> None:
        pmf = distributions.pmf_table(
            draws[indices],
            marked[indices],
            pool[indices],
            repeat,
            columns,
            complete=complete,
            first=first,
        )
        ends = np.flatnonzero(np.diff(row[indices], append=-1)) + 1
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            row_values = values[:, row[indices[start]], first : first + columns]
            expectations[:, indices[start:end]] = (
                row_values @ pmf[start:end, : row_values.shape[1]].T
            )

    # Large means: only the counts around them, for rows whose means are near one another.
    distance = _bernstein(mean[remaining] * (1 - marked[remaining] / pool[remaining]))
    low = np.maximum(np.floor(mean[remaining] - distance), 0).astype(np.int64)
    high = np.minimum(np.ceil(mean[remaining] + distance).astype(np.int64), draws[remaining])
    group = np.where((low > 0) & (high <= width), (mean[remaining] / _WINDOW).astype(np.int64), -1)
    for number in np.unique(group[group >= 0]):
        in_group = group == number
        first = int(low[in_group].min())
        add(remaining[in_group], first, int(high[in_group].max()) + 1 - first, True)
    remaining = remaining[group < 0]

    columns, ladder = width, [width]
    while columns > 16:
        columns = (columns + 1) // 2
        ladder.append(columns)
    ladder.reverse()
    step = np.searchsorted([_most_mean(number) for number in ladder], mean[remaining])
    for i, columns in enumerate(ladder):
        if (step == i).any():
            add(remaining[step == i], 0, columns, True)
    indices = remaining[step == len(ladder)]
    if indices.size:  # one column more may hold them all
        complete = bool(draws[indices].max() == width)
        add(indices, 0, width + complete, complete)
    return expectations


#: Means that are nearer than this to one another are treated together.
_WINDOW = 32.0


def _bernstein(variance: FloatArray) -> FloatArray:
    """Distance from the mean at which larger and smaller counts are negligible, by Bernstein."""
    half = -_NEGLIGIBLE / 3
    return np.asarray(half + np.sqrt(half**2 - 2 * _NEGLIGIBLE * variance))


#: Logarithm of a probability that adds nothing to 16 digits.
_NEGLIGIBLE = -46.0


def _log_tail(count: float, mean: float) -> float:
    """Chernoff's bound on the log-probability of counts from `count` on, away from the mean.

    It is Poisson's; binomial and hypergeometric tails are lighter (hoeffding1963).
    """
    return count - mean + (count * math.log(mean / count) if count else 0.0)


@cache
def _most_mean(width: int) -> float:
    """The largest mean with which counts of `width` or more are negligible."""
    return _bisected(lambda mean: _log_tail(width, mean) <= _NEGLIGIBLE, 1e-9, width)


@cache
def _least_mean(width: int) -> float:
    """The least mean with which counts below `width` are negligible."""
    return _bisected(
        lambda mean: _log_tail(width - 1, mean) > _NEGLIGIBLE, max(width - 1, 1e-9), width + 1e6
    )


def _bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number for which `holds`, true of `low` and false of `high`."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _tail_difference(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, width: int
) -> FloatArray:
    """Distribution of the distinct negatives above an item tied with irrelevant ones only.

    As in `RankIntervals.sampled_pmf`.
    """
    upper, lower = (
        np.cumsum(distributions.pmf_table(draws + 1, marked, pool + 1, False, width), axis=1)
        for marked in (better, better + tied + 1)
    )
    scale = (pool + 1) / ((draws + 1.0) * (tied + 1))
    return np.asarray(np.maximum(scale[:, np.newaxis] * (upper - lower), 0.0))


def _mixed_distinct(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, size: int, width: int
) -> FloatArray:
    """Distributions of distinct negatives above tied relevant items; shape (rows, size, width).

    A mixture over the number of tied candidates above the item.
    """
    pmf = np.empty((draws.size, size, width))
    for part in blocks((tied + 1) * width):
        row = np.repeat(np.arange(part.stop - part.start), as_intp(tied[part] + 1))
        starts = np.cumsum(tied[part] + 1) - tied[part] - 1
        tied_above = np.arange(row.size) - starts[row]
        above = better[part][row] + tied_above
        # With so many above it, fewer than `width` of them are drawn with probability 1e-26.
        mean = draws[part][row] * above / pool[part][row]
        is_likely = (mean < width) | ((mean - width) ** 2 < 120 * mean)
        is_likely[starts] = True
        row, tied_above, above = row[is_likely], tied_above[is_likely], above[is_likely]
        starts = np.searchsorted(row, np.arange(part.stop - part.start))
        conditional = distributions.pmf_table(
            draws[part][row], above, pool[part][row], False, width
        )
        for k in range(1, size + 1):
            share = _share_above(tied_above, tied[part][row], k, size)
            pmf[part, k - 1] = np.add.reduceat(share[:, np.newaxis] * conditional, starts, axis=0)
    return pmf


def mixed_repeats(
    draws: IntArray,
    better: IntArray,
    tied: IntArray,
    pool: IntArray,
    n_tied: IntArray,
    size: int,
    width: int,
) -> FloatArray:
    """`_mixed_distinct` with replacement: all copies of one candidate share its place.

    `tied` is the weight of the `n_tied` tied candidates, which have equal weights. The binomial
    probabilities are polynomials in the number of these above the item, summed by a Gauss rule.
    """
    pmf = np.empty((draws.size, size, width))
    count = _n_nodes(draws, tied, pool, size)
    for part in blocks(np.minimum(n_tied + 1, count) * width):
        row, tied_above, weight = _nodes(n_tied[part], count)
        starts = np.searchsorted(row, np.arange(part.stop - part.start))
        above = better[part][row] + tied_above * (tied[part] / n_tied[part])[row]
        conditional = distributions.pmf_table(draws[part][row], above, pool[part][row], True, width)
        for k in range(1, size + 1):
            share = weight * _share_above(tied_above, n_tied[part][row], k, size)
            pmf[part, k - 1] = np.add.reduceat(share[:, np.newaxis] * conditional, starts, axis=0)
    return pmf


def _n_nodes(draws: IntArray, tied: IntArray, pool: IntArray, size: int) -> int:
    """Nodes of a Gauss rule for the number of tied candidates above one of `size` relevant items.

    Its error falls at least as ``(e * expected / (4 * nodes)) ** (2 * nodes)``, with `expected`
    tied candidates drawn.
    """
    expected = float((draws * (tied / pool)).max(initial=0.0))
    exact = (int(draws.max(initial=0)) + size) // 2 + 1
    return min(exact, 20 + size + int(expected))


def _nodes(n_tied: ArrayLike, count: int, head: int = 0) -> tuple[IntArray, FloatArray, FloatArray]:
    """Numbers of tied candidates above, and weights: index of `n_tied`, number, weight.

    All whole numbers up to `n_tied`, or the first `head` and a Gauss rule of `count` nodes.
    """
    rows, nodes, weights = [], [], []
    distinct, inverse = np.unique(n_tied, return_inverse=True)
    for i, most in enumerate(distinct.tolist()):
        first = min(head, int(most) + 1)
        tail, tail_weights = gauss(first, most if most >= first + count else int(most), count)
        members = np.flatnonzero(inverse == i)
        rows.append(np.repeat(members, first + tail.size))
        nodes.append(np.tile(np.append(np.arange(float(first)), tail), members.size))
        weights.append(np.tile(np.append(np.ones(first), tail_weights), members.size))
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    return row[order], np.concatenate(nodes)[order], np.concatenate(weights)[order]


def _share_above(
    tied_above: ArrayLike, tied: ArrayLike, place: ArrayLike, size: ArrayLike
) -> FloatArray:
    """Probability that `tied_above` of `tied` candidates come before the place-th of `size` others.

    Negative hypergeometric: the first among + place - 1 hold place - 1 of the others, then comes
    one.
    """
    if isinstance(place, int) and isinstance(size, int):  # a polynomial, for fractions too
        above, rest = (
            np.asarray(tied_above, dtype=float),
            np.subtract(tied, tied_above, dtype=float),
        )
        factors = [(above, k) for k in range(1, place)]
        factors += [(rest, k) for k in range(1, size - place + 1)]
        share = 1.0 / (above + rest + 1.0)
        for i, (count, k) in enumerate(factors, start=2):
            share *= (count + k) / k * (i / (above + rest + i))
        return np.asarray(share)
    candidates, tied_total, k, c = np.broadcast_arrays(tied_above, tied, place, size)
    n_before, n_total = candidates + k - 1, tied_total + c
    next_share = (c - k + 1) / (n_total - n_before)
    return np.asarray(
        np.exp(distributions.log_hypergeometric(k - 1, n_before, c, n_total)) * next_share
    )


def spread(places: Places, n_possible: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Possible numbers of candidates above each item: raveled index, number, probability.

    Of the tied candidates 0..within - 1 are above.
    """
    relevant = places.better.shape[1]
    counts = as_intp(n_possible.ravel())
    item_index = np.repeat(np.arange(counts.size), counts)
    tied_above = np.arange(item_index.size) - (np.cumsum(counts) - counts)[item_index]
    place = (np.arange(relevant) - places.first).ravel() + 1
    tied, size = places.tied.ravel()[item_index], places.size.ravel()[item_index]
    return (
        item_index,
        places.better.ravel()[item_index] + tied_above,
        _share_above(tied_above, tied, place[item_index], size),
    )


def second_moment(places: Places, draws: IntArray, values: FloatArray) -> FloatArray:
    """Expected square of the sum of ``values[j, negatives above the j-th best]``, by ranking.

    Goes through the groups of tied items from the best, batching rankings with equal groups.
    """
    relevant, width = values.shape
    moment = np.zeros(draws.size)
    passed = np.zeros_like(draws)  # candidates down to the end of the last group
    carried = np.zeros((draws.size, width))  # expected terms so far, given the decoys among these
    for start in range(relevant):
        for size in range(1, relevant - start + 1):
            rows = np.flatnonzero(
                (places.first[:, start] == start) & (places.size[:, start] == size)
            )
            if not rows.size:
                continue
            mean_above = draws[rows] * (places.better[rows, start] / places.total[rows])
            is_reached = mean_above < _least_mean(width)  # the others add nothing, here and later
            rows, mean_above = rows[is_reached], mean_above[is_reached]
            group_values = values[start : start + size]
            if places.repeat:
                is_tied = places.tied[rows, start] > 0
                _add_repeated(
                    places, rows[is_tied], start, draws, group_values, passed, carried, moment
                )
                rows, mean_above = rows[~is_tied], mean_above[~is_tied]
            if not rows.size:
                continue
            better, tied = places.better[rows, start], places.tied[rows, start]
            terms_before = _thinned(passed[rows], better, carried[rows], places.repeat)
            fits = mean_above <= _most_mean(width)
            order = np.argsort(tied, kind="stable")
            for complete in (True, False):
                sorted_indices = order[fits[order] == complete]
                for part in _tied_blocks(places, rows[sorted_indices], start, draws, width):
                    indices = sorted_indices[part]
                    moment[rows[indices]] += _group_moment(
                        places.rows(rows[indices]),
                        start,
                        draws[rows[indices]],
                        group_values,
                        terms_before[indices],
                        complete,
                    )
            mean, _ = _group_terms(group_values, width - 1)
            carried[rows] = _carried(better, tied, terms_before, mean)
            passed[rows] = better + tied
    return moment


def _add_repeated(
    places: Places,
    rows: IntArray,
    start: int,
    draws: IntArray,
    values: FloatArray,
    passed: IntArray,
    carried: FloatArray,
    moment: FloatArray,
) -> None:
    """Go through a group of items with tied candidates, with replacement: update three arrays."""
    n_nodes = np.minimum(places.n_tied[rows, start] + 1, _MOST_NODES)
    for part in blocks(n_nodes * values.shape[1] ** 2):
        indices = rows[part]
        added, carried[indices] = _repeated_moment(
            places.rows(indices), start, draws[indices], values, passed[indices], carried[indices]
        )
        moment[indices] += added
    passed[rows] = (places.better + places.tied)[rows, start]


def _tied_blocks(
    places: Places, rows: IntArray, start: int, draws: IntArray, width: int
) -> Iterator[slice]:
    """Blocks of rankings, sorted by ties, that bound the size of tables over (above, tied)."""
    most_tied = np.minimum(places.tied[rows, start], draws[rows])
    return blocks(np.maximum.accumulate(most_tied + 1) * width)


def _thinned(
    marked: NDArray[Any], pool: NDArray[Any], carried: FloatArray, repeat: bool
) -> FloatArray:
    """``E[carried[X]]`` given 0..width - 1 negatives in the pool, X of which are marked.

    Shapes (rows,), (rows,) and (rows, width); entries for impossible counts are arbitrary.
    """
    rows, width = carried.shape
    counts = np.arange(width)
    thinned = np.zeros((rows, width))
    nonzero_rows = np.flatnonzero((carried != 0).any(axis=1))
    if not nonzero_rows.size:
        return thinned
    pool = np.where(pool > 0, pool, 1)  # of an empty one no decoy comes, and none is marked
    marked = np.minimum(marked, pool)  # a fraction may exceed it by rounding
    marked, pool = marked[nonzero_rows, np.newaxis], pool[nonzero_rows, np.newaxis]
    draws = counts if repeat else np.minimum(counts, pool)
    pmf = distributions.pmf_table(draws, marked, pool, repeat, width)
    thinned[nonzero_rows] = np.einsum("ryx,rx->ry", pmf, carried[nonzero_rows])
    return thinned


def _carried(
    better: IntArray, tied: IntArray, terms_before: FloatArray, mean: FloatArray
) -> FloatArray:
    """Expected sum of the terms through a group, given the distinct negatives above its end.

    `terms_before` (rows, width): terms before the group given the negatives above it;
    ``mean[b, t]``: terms of the group given b negatives above it and t tied with it.
    """
    rows, width = terms_before.shape
    expected_terms = np.empty((rows, width))
    is_untied = tied == 0
    expected_terms[is_untied] = terms_before[is_untied] + mean[:, 0]
    tied_rows = np.flatnonzero(~is_untied)
    if tied_rows.size:
        above, pool = better[tied_rows, np.newaxis], (better + tied)[tied_rows, np.newaxis]
        draws = np.minimum(np.arange(width), pool)
        pmf = distributions.pmf_table(draws, above, pool, False, width)
        tied_drawn = np.arange(width) - np.arange(width)[:, np.newaxis]  # decoys tied: y - b
        group_terms = np.where(
            tied_drawn >= 0, mean[np.arange(width)[:, np.newaxis], tied_drawn.clip(0)], 0.0
        )
        expected_terms[tied_rows] = np.einsum("ryb,rb->ry", pmf, terms_before[tied_rows])
        expected_terms[tied_rows] += np.einsum("ryb,by->ry", pmf, group_terms)
    return expected_terms


def _group_moment(
    places: Places,
    start: int,
    draws: IntArray,
    values: FloatArray,
    terms_before: FloatArray,
    complete: bool,
) -> FloatArray:
    """Second moment added by a group of tied items, in expectation over the draws.

    With replacement for groups without tied candidates only. `complete`: more negatives above the
    group than the metric reaches have a negligible probability.
    """
    width = terms_before.shape[1]
    better, tied = places.better[:, start], places.tied[:, start]
    above_pmf = distributions.pmf_table(
        draws, better, places.total, places.repeat, width, complete=complete
    )
    if not tied.any():
        mean, square = _group_terms(values, 0)
        return np.asarray(above_pmf @ square[:, 0] + 2.0 * (above_pmf * terms_before) @ mean[:, 0])
    most_tied = int(np.minimum(tied, draws).max())
    tied, pool_left = tied[:, np.newaxis], (places.total - better)[:, np.newaxis]
    draws_left = np.maximum(draws[:, np.newaxis] - np.arange(width), 0)
    mean, square = _group_terms(values, most_tied)
    tied_pmf = distributions.pmf_table(
        np.minimum(draws_left, pool_left), tied, np.maximum(pool_left, 1), False, most_tied + 1
    )
    joint_square = np.einsum("rbt,bt->rb", tied_pmf, square)
    joint_mean = np.einsum("rbt,bt->rb", tied_pmf, mean)
    return np.asarray((above_pmf * (joint_square + 2.0 * terms_before * joint_mean)).sum(axis=1))


def _repeated_moment(
    places: Places,
    start: int,
    draws: IntArray,
    values: FloatArray,
    passed: IntArray,
    carried: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Second moment added by a group, and `_carried` after it, with replacement.

    Given how many tied candidates are above an item, the negatives above an earlier item are a
    binomial sample of those above it.
    """
    size, width = values.shape
    better, tied, n_tied = (
        column[:, start] for column in (places.better, places.tied, places.n_tied)
    )
    end, weight = better + tied, tied / n_tied
    count = _n_nodes(draws, tied, places.total, size)
    # Earlier items have a rule of their own, up to each node: with few candidates all numbers.
    row, nodes, node_weights = _nodes(n_tied, count, count if size > 1 else 0)
    above, moment = better[row] + weight[row] * nodes, np.zeros(draws.size)
    pmf = distributions.pmf_table(draws[row], above, places.total[row], True, width)
    through = _thinned(passed, end, carried, True)
    before_group = _thinned(passed[row], above, carried[row], True)
    for k in range(1, size + 1):
        share = node_weights * _share_above(nodes, n_tied[row], k, size)
        before = before_group.copy()
        for part in blocks(np.full(nodes.size if k > 1 else 0, count * width * width)):
            entry, earlier_nodes, weights = _nodes(nodes[part], count)
            pool, entry_row = above[part][entry], row[part][entry]
            marked = better[entry_row] + weight[entry_row] * earlier_nodes
            for i in range(1, k):
                shares = weights * _share_above(earlier_nodes, nodes[part][entry], i, k - 1)
                terms = _thinned(marked, pool, _repeated(values[i - 1], entry.size), True)
                np.add.at(before[part], entry, shares[:, np.newaxis] * terms)
        term = values[k - 1]
        added = share * (pmf * (term * (term + 2.0 * before))).sum(axis=1)
        moment += np.bincount(row, added, draws.size)
        if start + size < places.better.shape[1]:
            terms = _thinned(above, end[row], _repeated(term, row.size), True)
            np.add.at(through, row, share[:, np.newaxis] * terms)
    return moment, through


def _repeated(values: FloatArray, rows: int) -> FloatArray:
    """The values in each of some rows; read-only."""
    return np.broadcast_to(values, (rows, values.size))


def _group_terms(values: FloatArray, most_tied: int) -> tuple[FloatArray, FloatArray]:
    """Mean of the sum of a group's terms, and of its square; each (width, most + 1).

    Indexed by the negatives above the group and tied with it; `values` has shape (size, width).
    """
    size, width = values.shape
    counts = np.arange(width)
    n_above = np.arange(width)[:, np.newaxis] + counts
    tied = np.arange(most_tied + 1)
    mean, square = np.zeros((width, most_tied + 1)), np.zeros((width, most_tied + 1))
    for k in range(1, size + 1):
        # What the k-th reports when b + d decoys are above it.
        term = np.where(n_above < width, values[k - 1][np.minimum(n_above, width - 1)], 0.0)
        terms_before = np.zeros_like(term)  # expected terms of those before it, given d
        for i in range(1, k):
            earlier_term = np.where(
                n_above < width, values[i - 1][np.minimum(n_above, width - 1)], 0.0
            )
            terms_before += earlier_term @ _shares(counts, i, k - 1, width).T
        share = _shares(tied, k, size, width).T
        mean += term @ share
        square += (term * (term + 2.0 * terms_before)) @ share
    return mean, square


def _shares(tied: IntArray, place: int, size: int, width: int) -> FloatArray:
    """`_share_above` for 0..width - 1 among each number of tied ones; shape (tied, width)."""
    tied_above, n_tied = np.arange(width), tied[:, np.newaxis]
    is_possible = tied_above <= n_tied
    share = _share_above(np.where(is_possible, tied_above, 0), n_tied, place, size)
    return np.where(is_possible, share, 0.0)

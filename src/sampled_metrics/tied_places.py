"""Where relevant items stand in a sample: distributions, expectations and joint moments with ties.

Each function is about a block of rankings. :class:`~sampled_metrics.RelevantSets` is the public
face.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray
from .numerics import distributions

_BLOCK = 1 << 21  # probabilities held at once: 16 MiB


@dataclass(frozen=True, eq=False)
class Places:
    """Candidates, or their weights, around the best, second best, ... item of each ranking.

    Shapes (n_rankings, n_relevant), but `total` (n_rankings,). `first` is the number of relevant
    items before the item's tied group, `size` that group's relevant items; `repeat`: with
    replacement.
    """

    better: IntArray
    tied: IntArray
    total: IntArray
    first: IntArray
    size: IntArray
    repeat: bool

    def rows(self, part: slice | IntArray) -> Places:
        names = ("better", "tied", "total", "first", "size")
        return replace(self, **{name: getattr(self, name)[part] for name in names})

    def blocks(self, width: int) -> Iterator[slice]:
        return blocks(np.full(self.total.size, self.better.shape[1] * width))

    def draw(
        self, marked: IntArray, pool: IntArray, draws: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Draw how many of `draws` negatives are among the marked candidates of the pool."""
        if self.repeat:
            return np.asarray(rng.binomial(draws, marked / np.maximum(pool, 1)))
        return np.asarray(rng.hypergeometric(marked, pool - marked, draws))

    def pmf(self, part: slice, draws: IntArray, width: int) -> FloatArray:
        """Distributions of the negatives above each item; shape (rows, n_relevant, width)."""
        own = self.rows(part)
        relevant = own.better.shape[1]
        better, tied, size = own.better.ravel(), own.tied.ravel(), own.size.ravel()
        total, drawn = np.repeat(own.total, relevant), np.repeat(draws, relevant)
        law = np.empty((better.size, width))
        plain = tied == 0
        law[plain] = distributions.law(
            drawn[plain], better[plain], total[plain], self.repeat, width
        )
        alone = ~plain & (size == 1)
        law[alone] = _tail_difference(
            drawn[alone], better[alone], tied[alone], total[alone], width, self.repeat
        )
        for at, found in own.mixtures(draws, width):
            law[at] = found
        return law.reshape(-1, relevant, width)

    def expected(self, part: slice, draws: IntArray, values: FloatArray) -> FloatArray:
        """Expected ``values[t, j, negatives above the j-th item]``; shape (t, rows, n_relevant).

        `values` has shape (t, n_relevant, width) and is 0 beyond. An item that is tied with
        irrelevant candidates only has a difference of two tails (`_tail_difference`). Summation by
        parts turns it into a difference of two expectations, of the sums of the values from each
        count on.
        """
        own = self.rows(part)
        relevant, width = values.shape[1:]
        better, tied, size = own.better.ravel(), own.tied.ravel(), own.size.ravel()
        total, drawn = np.repeat(own.total, relevant), np.repeat(draws, relevant)
        place = np.tile(np.arange(relevant), own.total.size)
        plain, more = np.flatnonzero(tied == 0), int(not self.repeat)
        alone = np.flatnonzero((tied > 0) & (size == 1))
        pool, most = total[alone] + more, drawn[alone] + 1
        marked = better[alone], better[alone] + tied[alone] + more
        found = _expectations(
            np.concatenate([drawn[plain], most, most]),
            np.concatenate([better[plain], *marked]),
            np.concatenate([total[plain], pool, pool]),
            np.concatenate([place[plain], *[place[alone] + relevant] * 2]),
            np.concatenate([values, values[..., ::-1].cumsum(axis=2)[..., ::-1]], axis=1),
            self.repeat,
        )
        upper, lower = found[:, plain.size :].reshape(len(values), 2, -1).swapaxes(0, 1)
        terms = np.empty((len(values), better.size))
        terms[:, plain] = found[:, : plain.size]
        terms[:, alone] = pool / (most * (tied[alone] + float(more))) * (upper - lower)
        for at, law in own.mixtures(draws, width):
            terms[:, at] = np.einsum("rcx,trcx->trc", law, values[:, place[at]])
        return terms.reshape(len(values), -1, relevant)

    def mixtures(self, draws: IntArray, width: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Groups of c >= 2 relevant items tied with candidates: their raveled indices, (rows, c),
        and the distributions of the negatives above each, (rows, c, width).
        """
        relevant = self.better.shape[1]
        better, tied, size = self.better.ravel(), self.tied.ravel(), self.size.ravel()
        total, drawn = np.repeat(self.total, relevant), np.repeat(draws, relevant)
        opens = (tied > 0) & (self.first.ravel() == np.tile(np.arange(relevant), self.total.size))
        mixture = _mixed_repeats if self.repeat else _mixed_distinct
        for c in range(2, relevant + 1):  # c relevant items that are tied follow one another
            at = np.flatnonzero(opens & (size == c))
            if at.size:
                law = mixture(drawn[at], better[at], tied[at], total[at], c, width)
                yield at[:, np.newaxis] + np.arange(c), law


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
    found = np.zeros((len(values), draws.size))
    mean = draws * (marked / pool)
    certain = (draws == pool) & (not repeat)
    at = np.flatnonzero(certain & (marked < width))
    found[:, at] = values[:, row[at], marked[at]]
    values = np.concatenate([values, np.zeros((*values.shape[:2], 1))], axis=2)
    left = np.flatnonzero(~certain & (mean < _least_mean(width)))
    left = left[np.argsort(row[left], kind="stable")]

    def add(at: IntArray, first: int, columns: int, whole: bool) -> None:
        law = distributions.law(
            draws[at], marked[at], pool[at], repeat, columns, whole=whole, first=first
        )
        ends = np.flatnonzero(np.diff(row[at], append=-1)) + 1
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            of = values[:, row[at[start]], first : first + columns]
            found[:, at[start:end]] = of @ law[start:end, : of.shape[1]].T

    # Large means: only the counts around them, for rows whose means are near one another.
    t = _bernstein(mean[left] * (1 - marked[left] / pool[left]))
    low = np.maximum(np.floor(mean[left] - t), 0).astype(np.int64)
    high = np.minimum(np.ceil(mean[left] + t).astype(np.int64), draws[left])
    group = np.where((low > 0) & (high <= width), (mean[left] / _WINDOW).astype(np.int64), -1)
    for each in np.unique(group[group >= 0]):
        mine = group == each
        first = int(low[mine].min())
        add(left[mine], first, int(high[mine].max()) + 1 - first, True)
    left = left[group < 0]

    columns, ladder = width, [width]
    while columns > 16:
        columns = (columns + 1) // 2
        ladder.append(columns)
    ladder.reverse()
    step = np.searchsorted([_most_mean(each) for each in ladder], mean[left])
    for i, columns in enumerate(ladder):
        if (step == i).any():
            add(left[step == i], 0, columns, True)
    at = left[step == len(ladder)]
    if at.size:  # one column more may hold them all
        whole = bool(draws[at].max() == width)
        add(at, 0, width + whole, whole)
    return found


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
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, width: int, repeat: bool
) -> FloatArray:
    """Distribution of the negatives above a relevant item that is tied with irrelevant ones only.

    Without replacement as in `RankIntervals.sampled_pmf`. With replacement, the share of the tied
    weight above the item is uniform; integrating the binomial probabilities over it gives the same
    difference of two tails, of one more draw.
    """
    more = 0 if repeat else 1
    upper, lower = (
        np.cumsum(distributions.law(draws + 1, marked, pool + more, repeat, width), axis=1)
        for marked in (better, better + tied + more)
    )
    scale = (pool + more) / ((draws + 1.0) * (tied + more))
    return np.asarray(np.maximum(scale[:, np.newaxis] * (upper - lower), 0.0))


def _mixed_distinct(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, size: int, width: int
) -> FloatArray:
    """Distributions of distinct negatives above tied relevant items; shape (rows, size, width).

    A mixture over the number of tied candidates above the item.
    """
    law = np.empty((draws.size, size, width))
    for part in blocks((tied + 1) * width):
        row = np.repeat(np.arange(part.stop - part.start), tied[part] + 1)
        starts = np.cumsum(tied[part] + 1) - tied[part] - 1
        among = np.arange(row.size) - starts[row]
        above = better[part][row] + among
        # With so many above it, fewer than `width` of them are drawn with probability 1e-26.
        mean = draws[part][row] * above / pool[part][row]
        kept = (mean < width) | ((mean - width) ** 2 < 120 * mean)
        kept[starts] = True
        row, among, above = row[kept], among[kept], above[kept]
        starts = np.searchsorted(row, np.arange(part.stop - part.start))
        counts = distributions.law(draws[part][row], above, pool[part][row], False, width)
        for k in range(1, size + 1):
            share = _share_above(among, tied[part][row], k, size)
            law[part, k - 1] = np.add.reduceat(share[:, np.newaxis] * counts, starts, axis=0)
    return law


def _mixed_repeats(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, size: int, width: int
) -> FloatArray:
    """`_mixed_distinct` with replacement.

    The share u of the tied weight above the k-th item has a Beta distribution. The binomial
    probabilities are polynomials in u, integrated by a Gauss rule; its error falls at least as ``(e
    * expected / (4 * nodes)) ** (2 * nodes)``, with `expected` tied candidates drawn.
    """
    from scipy.stats import beta  # takes as long to import as all the rest

    law = np.zeros((draws.size, size, width))
    for part in blocks(np.full(draws.size, size * width)):
        given = draws[part], better[part], tied[part], pool[part]
        expected = float((given[0] * (given[2] / given[3])).max())
        exact = (int(given[0].max()) + size) // 2 + 1
        nodes, weights = np.polynomial.legendre.leggauss(min(exact, 20 + size + int(expected)))
        for u, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
            counts = distributions.law(given[0], given[1] + u * given[2], given[3], True, width)
            for k in range(1, size + 1):
                law[part, k - 1] += weight * beta.pdf(u, k, size + 1 - k) * counts
    return law


#: Relevant items of one score whose shares are computed by multiplication.
_FEW = 10


def _share_above(
    among: ArrayLike, tied: ArrayLike, place: ArrayLike, size: ArrayLike
) -> FloatArray:
    """Probability that `among` of `tied` candidates come before the place-th of `size` others.

    Negative hypergeometric: the first among + place - 1 hold place - 1 of the others, then comes
    one.
    """
    if isinstance(place, int) and isinstance(size, int) and size <= _FEW:
        above, rest = np.asarray(among, dtype=float), np.subtract(tied, among, dtype=float)
        share = np.ones(np.broadcast_shapes(above.shape, rest.shape))
        for k in range(1, place):
            share *= (above + k) / k
        for k in range(1, size - place + 1):
            share *= (rest + k) / k
        for k in range(1, size + 1):
            share *= k / (above + rest + k)
        return np.asarray(share)
    candidates, behind, k, c = np.broadcast_arrays(among, tied, place, size)
    before, everything = candidates + k - 1, behind + c
    next_one = (c - k + 1) / (everything - before)
    return np.asarray(
        np.exp(distributions.log_hypergeometric(k - 1, before, c, everything)) * next_one
    )


def spread(own: Places, within: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Possible numbers of candidates above each item: raveled index, number, probability.

    Of the tied candidates 0..within - 1 are above.
    """
    relevant = own.better.shape[1]
    counts = within.ravel()
    row = np.repeat(np.arange(counts.size), counts)
    among = np.arange(row.size) - (np.cumsum(counts) - counts)[row]
    place = (np.arange(relevant) - own.first).ravel() + 1
    tied, size = own.tied.ravel()[row], own.size.ravel()[row]
    return row, own.better.ravel()[row] + among, _share_above(among, tied, place[row], size)


def second_moment(own: Places, draws: IntArray, values: FloatArray) -> FloatArray:
    """Expected square of the sum of ``values[j, negatives above the j-th best]``, by ranking.

    Goes through the groups of tied items from the best, batching rankings with equal groups.
    """
    relevant, width = values.shape
    moment = np.zeros(draws.size)
    passed = np.zeros_like(draws)  # candidates down to the end of the last group
    carried = np.zeros((draws.size, width))  # expected terms so far, given the decoys among these
    for start in range(relevant):
        for size in range(1, relevant - start + 1):
            rows = np.flatnonzero((own.first[:, start] == start) & (own.size[:, start] == size))
            if not rows.size:
                continue
            mean_above = draws[rows] * (own.better[rows, start] / own.total[rows])
            reached = mean_above < _least_mean(width)  # the others add nothing, here and later
            rows, mean_above = rows[reached], mean_above[reached]
            if not rows.size:
                continue
            better, tied = own.better[rows, start], own.tied[rows, start]
            so_far = _thinned(passed[rows], better, carried[rows], own.repeat)
            group = values[start : start + size]
            fits = mean_above <= _most_mean(width)
            order = np.argsort(tied, kind="stable")
            for whole in (True, False):
                some = order[fits[order] == whole]
                for part in _tied_blocks(own, rows[some], start, draws, width):
                    at = some[part]
                    moment[rows[at]] += _group_moment(
                        own.rows(rows[at]), start, draws[rows[at]], group, so_far[at], whole
                    )
            mean, _ = _group_terms(group, width - 1)
            carried[rows] = _carried(better, tied, so_far, mean, own.repeat)
            passed[rows] = better + tied
    return moment


def _tied_blocks(
    own: Places, rows: IntArray, start: int, draws: IntArray, width: int
) -> Iterator[slice]:
    """Blocks of rankings, sorted by ties, that bound the size of tables over (above, tied)."""
    most = np.minimum(own.tied[rows, start], draws[rows]) if not own.repeat else draws[rows]
    most = np.where(own.tied[rows, start] == 0, 0, most)
    return blocks(np.maximum.accumulate(most + 1) * width)


def _thinned(marked: IntArray, pool: IntArray, carried: FloatArray, repeat: bool) -> FloatArray:
    """``E[carried[X]]`` given 0..width - 1 negatives in the pool, X of which are marked.

    Shapes (rows,), (rows,) and (rows, width); entries for impossible counts are arbitrary.
    """
    rows, width = carried.shape
    known = np.arange(width)
    found = np.zeros((rows, width))
    some = np.flatnonzero((carried != 0).any(axis=1))
    if not some.size:
        return found
    pool = np.maximum(pool, 1)  # of an empty one no decoy comes, and none of no decoys is marked
    marked, pool = marked[some, np.newaxis], pool[some, np.newaxis]
    most = known if repeat else np.minimum(known, pool)
    law = distributions.law(most, marked, pool, repeat, width)
    found[some] = np.einsum("ryx,rx->ry", law, carried[some])
    return found


def _carried(
    better: IntArray, tied: IntArray, so_far: FloatArray, mean: FloatArray, repeat: bool
) -> FloatArray:
    """Expected sum of the terms through a group, given the negatives above its end.

    `so_far` (rows, width): terms before the group given the negatives above it; ``mean[b, t]``:
    terms of the group given b negatives above it and t tied with it.
    """
    rows, width = so_far.shape
    found = np.empty((rows, width))
    plain = tied == 0
    found[plain] = so_far[plain] + mean[:, 0]
    some = np.flatnonzero(~plain)
    if some.size:
        above, pool = better[some, np.newaxis], (better + tied)[some, np.newaxis]
        most = np.arange(width) if repeat else np.minimum(np.arange(width), pool)
        law = distributions.law(most, above, pool, repeat, width)
        split = np.arange(width) - np.arange(width)[:, np.newaxis]  # decoys tied: y - b
        within = np.where(split >= 0, mean[np.arange(width)[:, np.newaxis], split.clip(0)], 0.0)
        found[some] = np.einsum("ryb,rb->ry", law, so_far[some])
        found[some] += np.einsum("ryb,by->ry", law, within)
    return found


def _group_moment(
    own: Places,
    start: int,
    draws: IntArray,
    group: FloatArray,
    so_far: FloatArray,
    whole: bool,
) -> FloatArray:
    """Second moment added by a group of tied items, in expectation over the draws.

    `whole`: more negatives above the group than the metric reaches have a negligible probability.
    """
    width = so_far.shape[1]
    better, tied = own.better[:, start], own.tied[:, start]
    above = distributions.law(draws, better, own.total, own.repeat, width, whole=whole)
    if not tied.any():
        mean, square = _group_terms(group, 0)
        return np.asarray(above @ square[:, 0] + 2.0 * (above * so_far) @ mean[:, 0])
    most = int(draws.max()) if own.repeat else int(np.minimum(tied, draws).max())
    left = np.maximum(draws[:, np.newaxis] - np.arange(width), 0)
    tied, behind = tied[:, np.newaxis], (own.total - better)[:, np.newaxis]
    if own.repeat:  # a share of the draws so small that it adds nothing to 16 digits is left out
        from scipy.stats import binom

        share = float((tied / np.maximum(behind, 1)).max())
        most = min(most, int(binom.isf(1e-20, int(draws.max()), min(share, 1.0))) + 1)
    else:
        left = np.minimum(left, behind)
    mean, square = _group_terms(group, most)
    level = distributions.law(left, tied, np.maximum(behind, 1), own.repeat, most + 1)
    joint_square = np.einsum("rbt,bt->rb", level, square)
    joint_mean = np.einsum("rbt,bt->rb", level, mean)
    return np.asarray((above * (joint_square + 2.0 * so_far * joint_mean)).sum(axis=1))


def _group_terms(group: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Mean of the sum of a group's terms, and of its square; each (width, most + 1).

    Indexed by the negatives above the group and tied with it; `group` has shape (size, width).
    """
    size, width = group.shape
    among = np.arange(width)
    reach = np.arange(width)[:, np.newaxis] + among
    tied = np.arange(most + 1)
    mean, square = np.zeros((width, most + 1)), np.zeros((width, most + 1))
    for k in range(1, size + 1):
        # What the k-th reports when b + d decoys are above it.
        report = np.where(reach < width, group[k - 1][np.minimum(reach, width - 1)], 0.0)
        before = np.zeros_like(report)  # expected terms of those before it, given d
        for i in range(1, k):
            worse = np.where(reach < width, group[i - 1][np.minimum(reach, width - 1)], 0.0)
            before += worse @ _shares(among, i, k - 1, width).T
        share = _shares(tied, k, size, width).T
        mean += report @ share
        square += (report * (report + 2.0 * before)) @ share
    return mean, square


def _shares(tied: IntArray, place: int, size: int, width: int) -> FloatArray:
    """`_share_above` for 0..width - 1 among each number of tied ones; shape (tied, width)."""
    among, most = np.arange(width), tied[:, np.newaxis]
    possible = among <= most
    share = _share_above(np.where(possible, among, 0), most, place, size)
    return np.where(possible, share, 0.0)

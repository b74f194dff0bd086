"""Where relevant items stand in a sample of the irrelevant candidates, with ties.

One random order of the items breaks all ties, so that all copies of a negative share its place. The
k-th of c relevant items tied with t candidates has a negative hypergeometric number of these above
it. Given that number, the negatives above the item are binomial or hypergeometric. Each function is
about a block of rankings; :class:`~sampled_metrics.RelevantSets` is the public face.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ._validate import FloatArray, IntArray, as_intp
from .numerics.distributions import pmf_table
from .numerics.quadrature import gauss

_BLOCK = 1 << 21  # probabilities held at once: 16 MiB


@dataclass(frozen=True, eq=False)
class Places:
    """Candidates around the best, second best, ... item of each ranking.

    Shapes (n_rankings, n_relevant), but `total` (n_rankings,). `place` is the item's place among
    the `size` relevant items that tie with it, from 1.
    """

    better: IntArray
    tied: IntArray
    total: IntArray
    place: IntArray
    size: IntArray

    def mean(self, draws: IntArray) -> FloatArray:
        """Expected negatives above each item."""
        above = self.better + self.tied * (self.place / (self.size + 1))
        return np.asarray(above * (draws / self.total)[:, np.newaxis])

    def pmf(self, draws: IntArray, replacement: bool, width: int) -> FloatArray:
        """Distributions of the negatives above each item; shape (rows, n_relevant, width)."""
        pmf = np.empty((self.better.size, width))
        for place, size, index in self._groups():
            for block in blocks(np.full(index.size, width)):
                pmf[index[block]] = self._pmf(index[block], draws, place, size, replacement, width)
        return pmf.reshape(*self.better.shape, width)

    def expected(self, draws: IntArray, replacement: bool, values: FloatArray) -> FloatArray:
        """Expected ``values[t, j, negatives above the j-th item]``; shape (t, rows, n_relevant).

        `values` has shape (t, n_relevant, width) and is 0 beyond. Of items with few candidates
        above them, counts that have a probability below 1e-20 together are left out (Bernstein).
        """
        relevant, width = values.shape[1:]
        mean = (self.better + self.tied) * (draws / self.total)[:, np.newaxis]
        columns = np.minimum(width, mean + 9 * np.sqrt(mean) + 55).astype(np.int64).ravel()
        terms = np.empty((len(values), columns.size))
        for place, size, group in self._groups():
            index = group[np.argsort(columns[group], kind="stable")]
            for block in blocks(columns[index]):
                rows = index[block]
                reach = int(columns[rows[-1]])
                pmf = self._pmf(rows, draws, place, size, replacement, reach)
                for j in range(relevant):
                    of_item = rows % relevant == j
                    terms[:, rows[of_item]] = values[:, j, :reach] @ pmf[of_item].T
        return terms.reshape(len(values), -1, relevant)

    def _pmf(
        self, index: IntArray, draws: IntArray, place: int, size: int, replacement: bool, width: int
    ) -> FloatArray:
        """Distributions for items of one of the groups, by their raveled indices."""
        row = index // self.better.shape[1]
        better, tied = self.better.ravel()[index], self.tied.ravel()[index]
        counts = draws[row], better, tied, self.total[row]
        if not tied.any():
            return pmf_table(draws[row], better, self.total[row], replacement, width)
        if size == 1 and not replacement:
            return _tail_difference(*counts, width)
        return mixture(*counts, place, size, replacement, width)

    def all_drawn(self, values: FloatArray) -> FloatArray:
        """Expected ``values[j, candidates above the j-th item]``; shape (n_rankings, n_relevant).

        `values` has shape (n_relevant, width) and is 0 beyond.
        """
        relevant, width = values.shape
        better, tied = self.better.ravel(), self.tied.ravel()
        terms = np.zeros(better.size)
        for place, size, index in self._groups():
            n_possible = np.clip(np.minimum(tied[index], width - 1 - better[index]) + 1, 0, None)
            for block in blocks(n_possible):
                row = np.repeat(index[block], as_intp(n_possible[block]))
                ends = np.cumsum(n_possible[block])
                above = np.arange(row.size) - np.repeat(ends - n_possible[block], n_possible[block])
                share = _share_above(above.astype(float), tied[row], place, size)
                value = values[row % relevant, better[row] + above]
                terms += np.bincount(row, share * value, terms.size)
        return terms.reshape(-1, relevant)

    def _groups(self) -> Iterator[tuple[int, int, IntArray]]:
        """Items of one place in groups of one size, by their raveled indices; untied ones first."""
        place, size = self.place.ravel(), self.size.ravel()
        is_tied = self.tied.ravel() > 0
        if not is_tied.all():
            yield 1, 1, np.flatnonzero(~is_tied)
        for group_size in np.unique(size[is_tied]).tolist():
            for group_place in range(1, group_size + 1):
                in_group = is_tied & (size == group_size) & (place == group_place)
                yield group_place, group_size, np.flatnonzero(in_group)


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


def _tail_difference(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, width: int
) -> FloatArray:
    """Distribution of the distinct negatives above an item tied with irrelevant ones only.

    As in `RankIntervals.sampled_pmf`.
    """
    upper, lower = (
        np.cumsum(pmf_table(draws + 1, marked, pool + 1, False, width), axis=1)
        for marked in (better, better + tied + 1)
    )
    scale = (pool + 1) / ((draws + 1.0) * (tied + 1))
    return np.asarray(np.maximum(scale[:, np.newaxis] * (upper - lower), 0.0))


def mixture(
    draws: IntArray,
    better: IntArray,
    tied: IntArray,
    pool: IntArray,
    place: int,
    size: int,
    replacement: bool,
    width: int,
) -> FloatArray:
    """Distributions of the negatives above the place-th of `size` items tied with candidates.

    A mixture over the number of tied candidates above the item. With replacement, the probabilities
    are polynomials in that number, summed by a Gauss rule. Its error falls at least as
    ``(e * expected / (4 * nodes)) ** (2 * nodes)``, with `expected` tied candidates drawn.
    """
    pmf = np.empty((draws.size, width))
    count = int(tied.max(initial=0)) + 1
    if replacement:
        expected = float((draws * (tied / pool)).max(initial=0.0))
        exact = (int(draws.max(initial=0)) + size) // 2 + 1
        count = min(exact, 20 + size + int(expected))
    for block in blocks(np.minimum(tied + 1, count) * width):
        row, above, weight = _nodes(tied[block], count)
        marked, n_draws, n_pool = better[block][row] + above, draws[block][row], pool[block][row]
        conditional = pmf_table(n_draws, marked, n_pool, replacement, width)
        share = weight * _share_above(above, tied[block][row], place, size)
        starts = np.searchsorted(row, np.arange(block.stop - block.start))
        pmf[block] = np.add.reduceat(share[:, np.newaxis] * conditional, starts, axis=0)
    return pmf


def _nodes(tied: IntArray, count: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Numbers of tied candidates above: index of `tied`, number, and weight of a Gauss rule.

    All whole numbers up to `tied` if there are at most `count`.
    """
    distinct, inverse = np.unique(tied, return_inverse=True)
    rules = [gauss(0, n_tied, count) for n_tied in distinct.tolist()]
    row = np.repeat(np.arange(tied.size), [rules[i][0].size for i in inverse])
    nodes, weights = (np.concatenate([rules[i][k] for i in inverse]) for k in (0, 1))
    return row, nodes, weights


def _share_above(above: FloatArray, tied: IntArray, place: int, size: int) -> FloatArray:
    """Probability that `above` of `tied` candidates come before the place-th of `size` others.

    Negative hypergeometric, as a polynomial, for fractions too: the first above + place - 1 hold
    place - 1 of the others, then comes one.
    """
    rest = tied - above
    factors = [(above, k) for k in range(1, place)]
    factors += [(rest, k) for k in range(1, size - place + 1)]
    share = 1.0 / (tied + 1.0)
    for i, (count, k) in enumerate(factors, start=2):
        share = share * (count + k) / k * (i / (tied + i))
    return np.asarray(share)


def second_moment(
    better: IntArray, total: IntArray, draws: IntArray, values: FloatArray, replacement: bool
) -> FloatArray:
    """Expected square of the sum of ``values[j, negatives above the j-th item]``, without ties.

    Given the negatives above an item, those above an earlier one are a random sample of the
    candidates above it. So the expected sum of the terms so far is carried from item to item as a
    function of that number.
    """
    relevant, width = values.shape
    moment, carried = np.zeros(draws.size), np.zeros((draws.size, width))
    for j in range(relevant):
        if j:
            carried += values[j - 1]
            pool = np.maximum(better[:, j, np.newaxis], 1)  # of none comes no negative
            counts = np.arange(width) if replacement else np.minimum(np.arange(width), pool)
            thinned = pmf_table(counts, better[:, j - 1, np.newaxis], pool, replacement, width)
            carried = np.einsum("ryx,rx->ry", thinned, carried)
        pmf = pmf_table(draws, better[:, j], total, replacement, width)
        moment += (pmf * values[j] * (values[j] + 2.0 * carried)).sum(axis=1)
    return moment

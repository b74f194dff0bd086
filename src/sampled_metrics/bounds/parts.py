"""The parts of a sample, which share a bet, and the rows that bets are made on.

Users whose protocols hardly differ share a bet, and so do positions among their relevant items.
An assumption is made of all users of a population, whatever their numbers of negatives and of
relevant items, so that they share a bet if these numbers differ. Else the ranks of the users with
20 negatives could increase, and those with 400 make up for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..numerics.all_ranks import MOST_ITEMS
from ..numerics.distributions import law
from ..protocol import Protocol
from .generators import Generators, basis, generators

if TYPE_CHECKING:
    from ..adaptive import Adaptive
    from .assumption import Assumption

#: Largest ratios of catalogue sizes, and of positions and numbers of relevant items, that share a
#: function. Groups with a smaller share of the users than `_FEW` are merged in any case.
_ALIKE, _ALIKE_SETS, _FEW = 1.1, 2.0, 0.03


@dataclass(frozen=True)
class Part:
    """Users, or their items, that share a function of the sampled rank.

    `protocol` has the fewest negatives and the largest catalogue of any of them. `shallowest`,
    n_items and n_negatives of the smallest ratio, and `fewest` irrelevant items limit the ranks of
    an assumption to ranks that all have. `position`, `relevant` and `counted` (items that count)
    are the most frequent.
    """

    protocol: Protocol | Adaptive
    shallowest: tuple[int, int]
    fewest: int
    position: int
    relevant: int
    counted: int

    @property
    def place(self) -> tuple[int, int, int]:
        """Position and n_relevant of most users, and the largest catalogue size."""
        return self.position, self.relevant, self.pool + self.relevant

    @property
    def m(self) -> int:
        """Negatives, at most."""
        return self.protocol.n_outcomes - 1

    @property
    def pool(self) -> int:
        """Irrelevant items."""
        return int(self.protocol.pool)

    def generators(self, assumption: Assumption | None) -> Generators:
        if assumption is None:
            return generators(self.protocol)
        top = min(assumption.top(*self.shallowest), self.fewest + 1)
        return generators(self.protocol, assumption, top)


@dataclass(frozen=True, eq=False)
class Partition:
    """The parts of a sample, and the part of each kind of row.

    `kinds` (k, 4): n_negatives, n_relevant, position, n_items. For each kind: `part` (-1 if the
    metric does not depend on the rank), `share` of the users with such a row, `counted`, the
    number of positions at which the metric depends on the rank, and `certified`, the kind whose
    certificate it has. Partitions of equal kinds and metric are equal.
    """

    parts: list[Part]
    part: IntArray
    kinds: IntArray
    share: FloatArray
    counted: IntArray
    certified: IntArray
    metric: Metric

    @cached_property
    def _own_key(self) -> tuple[object, ...]:
        arrays = self.part, self.kinds, self.share, self.certified
        return tuple(self.parts), self.metric, *(each.tobytes() for each in arrays)

    def __hash__(self) -> int:
        return hash(self._own_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self._own_key == other._own_key

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Cache key shared by partitions for other metrics."""
        return tuple(self.parts), self.part.tobytes()

    @property
    def weight(self) -> FloatArray:
        """Weight of a row's function in the user's sum; the weights of a ranking sum to 1."""
        counts = np.where(self.part >= 0, self.counted, np.inf)
        none = self.counted == 0
        return np.asarray(np.where(none, 1.0 / self.kinds[:, 1], 1.0 / counts))

    def span(self, share: FloatArray | None = None) -> tuple[float, float]:
        """Least and largest value of the metric, given the users' share of each kind."""
        share = self.share if share is None else share
        least = most = 0.0
        for (relevant, j, items), kinds in self.distinct(np.arange(len(self.kinds))):
            ends = self.metric.term(np.array([0, items - relevant]) + j, j, relevant, items)
            weight = float(share[kinds].sum())
            most, least = most + weight * float(ends[0]), least + weight * float(ends[1])
        return least, most

    def distinct(self, kinds: IntArray) -> Iterator[tuple[tuple[int, int, int], IntArray]]:
        """Kinds with different metrics: (n_relevant, position, n_items) and indices of kinds.

        All metrics but AUC are the same for all catalogue sizes: the largest one stands for them.
        """
        columns = self.kinds[kinds, 1:].copy()
        if not self.metric.linear:
            columns[:, 2] = columns[:, 2].max(initial=0)
        found, which = np.unique(columns, axis=0, return_inverse=True)
        for place, (relevant, j, items) in enumerate(found.tolist()):
            yield (relevant, j, items), kinds[which.ravel() == place]


def partition(
    kinds: IntArray,
    weights: FloatArray,
    metric: Metric,
    replacement: bool,
    design: Adaptive | None = None,
    population: IntArray | None = None,
) -> Partition:
    """Group kinds of rows (as in :class:`Partition`) that can share a function of the sampled rank.

    `weights` are the users of each kind. An adaptive `design` has one kind, with its `most`
    negatives. Kinds of one `population`, for an assumption on the best item's rank, have one
    n_items, and share a part and a certificate. In this example catalogues of 1,000 and 1,050 items
    share a part:

    >>> from sampled_metrics import metric
    >>> kinds = np.array([[99, 1, 1, 1_000], [99, 1, 1, 1_050], [99, 1, 1, 3_000]])
    >>> found = partition(kinds, np.array([500.0, 300.0, 200.0]), metric("recall@10"), True)
    >>> found.part.tolist(), [part.pool for part in found.parts]
    ([1, 1, 0], [2999, 1049])
    """
    negatives, relevant, position, items = kinds.T
    pools = items - relevant
    population = np.arange(len(kinds)) if population is None else population
    shared = np.bincount(population, minlength=len(kinds))[population] > 1
    if pools.max() >= MOST_ITEMS:
        raise ValueError(
            f"n_items must be at most {MOST_ITEMS:,} for what is possible (leave it out), got "
            f"{int(items.max()):,}"
        )
    largest = int(items.max())
    pairs, pair = np.unique(kinds[:, 1:3], axis=0, return_inverse=True)
    constant = np.empty(len(pairs), dtype=bool)
    for row, (r, j) in enumerate(pairs.tolist()):  # whatever the size of the catalogue
        ends = metric.term(np.array([0, largest - r]) + j, j, r, largest)
        constant[row] = ends[0] == ends[1]
    if shared.any():  # few users' metrics may be constant, but not their population's
        best = pairs[:, 1] == 1
        constant[best] = constant[best].all()
    numbers, number = np.unique(pairs[:, 0], return_inverse=True)
    places = np.bincount(number.ravel(), ~constant, numbers.size).astype(np.int64)
    counted = places[number.ravel()][pair.ravel()]
    constant = constant[pair.ravel()]
    # The users of a population are judged like those with the fewest negatives and relevant items.
    order = np.lexsort((relevant, population))
    first = order[np.append(True, np.diff(population[order]) != 0)]
    certified = first[np.searchsorted(population[first], population)]
    fewest = np.full(len(kinds), np.iinfo(np.int64).max)
    np.minimum.at(fewest, population, negatives)
    negatives, relevant, pools = fewest[population], relevant[certified], pools[certified]
    code = np.zeros(len(kinds), dtype=np.int64)
    columns = (
        (negatives, _ALIKE),
        (position, _ALIKE_SETS),
        (relevant, _ALIKE_SETS),
        (pools, _ALIKE),
    )
    for values, ratio in columns:
        split = np.zeros_like(code)
        for each in np.unique(code[~constant]):
            inside = (code == each) & ~constant
            split[inside] = _bins(values[inside], weights[inside] / weights.sum(), ratio)
        _, code = np.unique(np.stack([code, split]), axis=1, return_inverse=True)
        code = code.ravel()
    code[constant], certified[constant] = -1, np.flatnonzero(constant)
    _, found = np.unique(code[~constant], return_inverse=True)
    code[~constant] = found.ravel()
    parts = []
    for each in range(code.max(initial=-1) + 1):
        inside = np.flatnonzero(code == each)
        most = inside[int(np.argmax(weights[inside]))]
        largest, m = int(pools[inside].max()) + 1, int(negatives[inside].min())
        shallowest = inside[int(np.argmin(items[inside] / negatives[inside]))]
        parts.append(
            Part(
                design or Protocol(largest, m, replacement=replacement),
                (int(items[shallowest]), int(negatives[shallowest])),
                int((items - kinds[:, 1])[inside].min()),
                int(position[most]),
                int(relevant[most]),
                int(counted[most]),
            )
        )
    users = float(weights[position == 1].sum())
    return Partition(parts, code, kinds, weights / users, counted, certified, metric)


def _bins(values: IntArray, weights: FloatArray, ratio: float) -> IntArray:
    """Bin values that differ by at most a factor, or that few users have."""
    distinct, at = np.unique(values, return_inverse=True)
    at = at.ravel()
    share = np.bincount(at, weights)
    bins, top, inside = np.zeros(distinct.size, dtype=np.int64), distinct[-1], 0.0
    for i in range(distinct.size - 1, -1, -1):
        if top > ratio * distinct[i] and inside >= _FEW and share[: i + 1].sum() >= _FEW:
            bins[: i + 1] += 1
            top, inside = distinct[i], 0.0
        inside += share[i]
    return np.asarray(bins[at])


class Rows:
    """Distinct rows of a sample: their kinds and sampled ranks from 0 (or adaptive outcomes).

    With ties a row has several entries with probabilities `share`, beginning at `starts`. Tied
    negatives drawn without replacement are different items: the row's bet is its average over their
    random order. With replacement they may be copies of one item, all above the relevant item or
    all below, and a log does not say so: with two tied negatives or more, the row's bet is its
    least value over all orders.
    """

    def __init__(
        self,
        kind: IntArray,
        x: IntArray,
        starts: IntArray | None = None,
        share: FloatArray | None = None,
    ) -> None:
        self.kind = kind if starts is None else kind[starts]
        self._entries, self._x, self._starts, self._share = kind, x, starts, share
        self._seen: dict[tuple[object, ...], list[_Seen]] = {}
        #: Cache of e-values against an assumption, which do not depend on the metric.
        self.refuted: dict[tuple[object, ...], list[float]] = {}

    def seen(self, parts: Partition) -> list[_Seen]:
        """For each part, the weights of its rows on its knots."""
        if parts.key not in self._seen:
            self._seen[parts.key] = [self._of_part(parts, g) for g in range(len(parts.parts))]
        return self._seen[parts.key]

    def _of_part(self, parts: Partition, g: int) -> _Seen:
        one, rows = parts.parts[g], np.flatnonzero(parts.part[self.kind] == g)
        entries, starts, share, least = rows, None, None, None
        if self._starts is not None and self._share is not None:
            many = np.diff(self._starts, append=self._entries.size)[rows]
            starts = np.cumsum(many) - many
            entries = np.repeat(self._starts[rows] - starts, many) + np.arange(many.sum())
            share = self._share[entries]
            least = np.flatnonzero((many > 2) & one.protocol.replacement)
        base = int(self._x.max(initial=0)) + 1
        code = self._entries[entries] * base + self._x[entries]
        code, pair = np.unique(code, return_inverse=True)
        return _Seen(rows, _given(parts, one, *np.divmod(code, base)), pair, starts, share, least)


#: Added items that are drawn less often than this are left out of a row's weights.  That only
#: lowers the value of a bet, as its function is positive.
_NEVER = 1e-20


def _given(parts: Partition, one: Part, kind: IntArray, x: IntArray) -> FloatArray:
    """Weights of sampled ranks of some kinds on the knots of a part; shape (pairs, knots)."""
    columns = parts.kinds[kind]
    negatives, pools = columns[:, 0], columns[:, 3] - columns[:, 1]
    lines = basis(one.protocol)
    weights = np.empty((x.size, lines.shape[1]))
    for m in np.unique(negatives).tolist():
        rows = np.flatnonzero(negatives == m)
        weights[rows] = _thinned_lines(lines, m, one.m, x[rows])
        smaller = rows[(pools[rows] < one.pool) & (x[rows] > 0)]
        for above in np.unique(x[smaller]).tolist():
            same = smaller[x[smaller] == above]
            kept = law(above, pools[same], one.pool, one.protocol.replacement)
            likely = np.flatnonzero(kept.max(axis=0) > _NEVER)
            weights[same] = kept[:, likely] @ _thinned_lines(lines, m, one.m, likely)
    return weights


def _thinned_lines(lines: FloatArray, m: int, fewer: int, x: IntArray) -> FloatArray:
    """Mean rows of `lines` for any `fewer` of m negatives of which x are above, for each x.

    Only for the x that occur: the matrix for all of them has m^2 entries.
    """
    if m == fewer:
        return np.asarray(lines[x])
    distinct, place = np.unique(x, return_inverse=True)
    among = Protocol(m + 1, fewer, replacement=False).pmf(distinct + 1)
    return np.asarray((among @ lines)[place.ravel()])


@dataclass(frozen=True, eq=False)
class _Seen:
    """The rows of a part, and their weights on the knots.

    A row without ties has one (kind, sampled rank) pair. With ties it has several: its value is
    their average with the probabilities `share`, or for the rows `least` their minimum.
    """

    rows: IntArray
    given: FloatArray
    pair: IntArray
    starts: IntArray | None
    share: FloatArray | None
    least: IntArray | None

    def values(self, functions: FloatArray) -> FloatArray:
        """Functions given at the knots, evaluated at the rows; shape (functions, rows)."""
        of_pairs = functions @ self.given.T
        if self.starts is None or not self.rows.size:
            return np.asarray(of_pairs[:, self.pair])
        found = np.empty((len(functions), self.rows.size))
        for row, values in zip(found, of_pairs, strict=True):
            each = values[self.pair]
            row[:] = np.add.reduceat(each * self.share, self.starts)
            row[self.least] = np.minimum.reduceat(each, self.starts)[self.least]
        return found

    def observed(self, counts: np.ndarray) -> FloatArray:
        """Counts of users by row, (rows, samples), spread over the knots; (samples, knots)."""
        if self.starts is not None and self.share is not None:
            many = np.diff(self.starts, append=self.pair.size)
            counts = np.repeat(counts, many, axis=0) * self.share[:, np.newaxis]
        size = len(self.given)
        return np.array([np.bincount(self.pair, each, size) for each in counts.T]) @ self.given

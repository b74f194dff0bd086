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

import numpy as np
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray, as_intp
from ..metrics import Metric
from ..numerics.all_ranks import MOST_ITEMS
from ..numerics.distributions import pmf_table
from ..protocol import Protocol
from .assumption import top_ranks
from .generators import Generators, generators, hats

#: Most negatives of a user that a bet or a fit uses, since their memory grows with the square of
#: the number: of a larger sample they use its random subsets, which are samples too.
MOST_NEGATIVES = 3_000
#: Largest ratios of catalogue sizes, and of positions and numbers of relevant items, that share a
#: function. Groups with a smaller share of the users than `_FEW` are merged in any case.
_ALIKE, _ALIKE_SETS, _FEW = 1.1, 2.0, 0.03

#: Probabilities computed at once.
_BLOCK = 1 << 22

#: Guessed populations (a, b, part): a part of the users has ranks r in proportion to (r + a n /
#: m)^-b, the rest uniform ranks, so that no sampled rank ruins a bet. Selected greedily from 101
#: such populations for short intervals on the benchmark's recommenders.
GUESSES = (
    (0.1, 0.7, 1.0),
    (0.1, 0.0, 1.0),
    (0.02, 0.7, 1.0),
    (1.0, 1.0, 1.0),
    (3.0, 1.0, 0.1),
    (1.0, 1.5, 0.6),
    (1.0, 2.5, 0.99),
)


def guess(generators: Generators, a: float, b: float, part: float) -> FloatArray:
    """Distribution of the sampled rank, on the knots, in one of the guessed populations."""
    n = generators.pool + 1.0
    power = generators.marginal(lambda rank: (rank + a * n / generators.m) ** -b)
    return np.asarray(part * power + (1.0 - part) * generators.marginal(np.ones_like))


@dataclass(frozen=True)
class Part:
    """Users, or their items, that share a function of the sampled rank.

    `protocol` has the fewest negatives and the largest catalogue of any of them. `shallowest`,
    n_items and n_negatives of the smallest ratio, and `fewest` irrelevant items limit the ranks of
    an assumption to ranks that all have. `position`, `relevant` and `counted` (items that count)
    are the most frequent.
    """

    protocol: Protocol
    shallowest: tuple[int, int]
    fewest: int
    position: int
    relevant: int
    counted: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Position and n_relevant of most users, and the largest catalogue size."""
        return self.position, self.relevant, self.pool + self.relevant

    @property
    def m(self) -> int:
        """Negatives."""
        return self.protocol.n_negatives

    @property
    def pool(self) -> int:
        """Irrelevant items."""
        return int(self.protocol.pool)

    def generators(self, assumption: str | None) -> Generators:
        top = 0 if assumption is None else min(top_ranks(*self.shallowest), self.fewest + 1)
        return generators(self.protocol, top)


@dataclass(frozen=True, eq=False)
class Partition:
    """The parts of a sample, and the part of each kind of row.

    `kinds` (k, 4): n_negatives, n_relevant, position, n_items. For each kind: `part` (-1 if the
    metric does not depend on the rank), `share` of the users with such a row, `counted`, the
    number of positions at which the metric depends on the rank, and `certificate_kind`, the kind
    whose certificate it has. Partitions of equal kinds and metric are equal.
    """

    parts: list[Part]
    part: IntArray
    kinds: IntArray
    share: FloatArray
    counted: IntArray
    certificate_kind: IntArray
    metric: Metric

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        arrays = self.part, self.kinds, self.share, self.certificate_kind
        return tuple(self.parts), self.metric, *(array.tobytes() for array in arrays)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self._identity == other._identity

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Cache key shared by partitions for other metrics."""
        return tuple(self.parts), self.part.tobytes()

    @property
    def weight(self) -> FloatArray:
        """Weight of a row's function in the user's sum; the weights of a ranking sum to 1."""
        counts = np.where(self.part >= 0, self.counted, np.inf)
        is_constant = self.counted == 0
        return np.asarray(np.where(is_constant, 1.0 / self.kinds[:, 1], 1.0 / counts))

    def guesses(self, generators: Generators) -> FloatArray:
        """Guessed distributions of the sampled rank, on the knots of a part; (guesses, knots)."""
        return np.array([guess(generators, *parameters) for parameters in GUESSES])

    def span(self, share: FloatArray | None = None) -> tuple[float, float]:
        """Least and largest value of the metric, given the users' share of each kind."""
        share = self.share if share is None else share
        lower = upper = 0.0
        for (relevant, j, items), kinds in self.distinct(np.arange(len(self.kinds))):
            ends = self.metric.term(np.array([0, items - relevant]) + j, j, relevant, items)
            weight = float(share[kinds].sum())
            upper, lower = upper + weight * float(ends[0]), lower + weight * float(ends[1])
        return lower, upper

    def distinct(self, kinds: IntArray) -> Iterator[tuple[tuple[int, int, int], IntArray]]:
        """Kinds with different metrics: (n_relevant, position, n_items) and indices of kinds.

        All metrics but AUC are the same for all catalogue sizes: the largest one stands for them.
        """
        columns = self.kinds[kinds, 1:].copy()
        if not self.metric.linear:
            columns[:, 2] = columns[:, 2].max(initial=0)
        unique_rows, inverse = np.unique(columns, axis=0, return_inverse=True)
        for row, (relevant, j, items) in enumerate(unique_rows.tolist()):
            yield (relevant, j, items), kinds[inverse.ravel() == row]


def partition(
    kinds: IntArray,
    weights: FloatArray,
    metric: Metric,
    replacement: bool,
    population: IntArray | None = None,
) -> Partition:
    """Group kinds of rows (as in :class:`Partition`) that can share a function of the sampled rank.

    `weights` are the users of each kind. Kinds of one `population`, for an assumption on the best
    item's rank, have one n_items, and share a part and a certificate. In this example catalogues of
    1,000 and 1,050 items share a part:

    >>> from sampled_metrics import metric
    >>> kinds = np.array([[99, 1, 1, 1_000], [99, 1, 1, 1_050], [99, 1, 1, 3_000]])
    >>> found = partition(kinds, np.array([500.0, 300.0, 200.0]), metric("recall@10"), True)
    >>> found.part.tolist(), [part.pool for part in found.parts]
    ([1, 1, 0], [2999, 1049])
    """
    kinds = kinds.astype(np.int64, copy=False)
    negatives, relevant, position, items = kinds.T
    if (items - relevant).max() >= MOST_ITEMS:
        raise ValueError(
            f"n_items must be at most {MOST_ITEMS:,} for an identification interval, got "
            f"{int(items.max()):,}"
        )
    population = np.arange(len(kinds)) if population is None else population
    is_shared = np.unique(population).size < population.size
    is_constant, counted = _constant(kinds, metric, is_shared)
    certificate_kind, fewest = _certificate_kinds(population, relevant, negatives)
    judged = np.stack(
        [fewest, position, relevant[certificate_kind], (items - relevant)[certificate_kind]]
    )
    part = np.full(len(kinds), -1)
    part[~is_constant] = _groups(judged[:, ~is_constant], (weights / weights.sum())[~is_constant])
    parts = []
    for group in range(part.max(initial=-1) + 1):
        in_group = np.flatnonzero(part == group)
        heaviest = in_group[int(np.argmax(weights[in_group]))]
        shallowest = in_group[int(np.argmin(items[in_group] / fewest[in_group]))]
        largest, m = int(judged[3, in_group].max()) + 1, int(fewest[in_group].min())
        if m < largest - 1 or replacement:  # else sampled ranks are exact ranks
            m = min(m, MOST_NEGATIVES)
        parts.append(
            Part(
                Protocol(largest, m, replacement=replacement),
                (int(items[shallowest]), int(fewest[shallowest])),
                int((items - relevant)[in_group].min()),
                int(position[heaviest]),
                int(judged[2, heaviest]),
                int(counted[heaviest]),
            )
        )
    certificate_kind = np.where(is_constant, np.arange(len(kinds)), certificate_kind)
    users = float(weights[position == 1].sum())
    return Partition(parts, part, kinds, weights / users, counted, certificate_kind, metric)


def _constant(
    kinds: IntArray, metric: Metric, is_shared: bool
) -> tuple[NDArray[np.bool_], IntArray]:
    """Kinds at whose position the metric is constant, and at how many it is not.

    `is_shared`: some kinds are of one population.
    """
    largest = int(kinds[:, 3].max())  # whatever the size of the catalogue
    pairs, pair = np.unique(kinds[:, 1:3], axis=0, return_inverse=True)
    is_constant = np.empty(len(pairs), dtype=bool)
    for row, (n_relevant, j) in enumerate(pairs.tolist()):
        ends = metric.term(np.array([0, largest - n_relevant]) + j, j, n_relevant, largest)
        is_constant[row] = ends[0] == ends[1]
    if is_shared:  # few users' metrics may be constant, but not their population's
        is_best = pairs[:, 1] == 1
        is_constant[is_best] = is_constant[is_best].all()
    numbers, number = np.unique(pairs[:, 0], return_inverse=True)
    counted = np.bincount(number.ravel(), ~is_constant, numbers.size).astype(np.int64)
    return is_constant[pair.ravel()], counted[number.ravel()][pair.ravel()]


def _certificate_kinds(
    population: IntArray, relevant: IntArray, negatives: IntArray
) -> tuple[IntArray, IntArray]:
    """Of each kind's population: the kind with the fewest relevant items, and fewest negatives.

    The users of a population are judged like those.
    """
    order = np.lexsort((relevant, population))
    _, first = np.unique(population[order], return_index=True)
    _, group = np.unique(population, return_inverse=True)
    fewest = np.minimum.reduceat(negatives[order], first)
    return order[first][group], fewest[group]


def _groups(judged: IntArray, share: FloatArray) -> IntArray:
    """The number of the part of each kind (column): values in one are alike in every row."""
    code = np.zeros(share.size, dtype=np.int64)
    for values, ratio in zip(judged, (_ALIKE, _ALIKE_SETS, _ALIKE_SETS, _ALIKE), strict=True):
        split = np.zeros_like(code)
        for group in np.unique(code):
            in_group = code == group
            split[in_group] = _bins(values[in_group], share[in_group], ratio)
        _, code = np.unique(code * (split.max(initial=0) + 1) + split, return_inverse=True)
    return code


def _bins(values: IntArray, weights: FloatArray, ratio: float) -> IntArray:
    """Bin values that differ by at most a factor, or that few users have."""
    distinct, inverse = np.unique(values, return_inverse=True)
    inverse = inverse.ravel()
    share = np.bincount(inverse, weights)
    bins, top, bin_share = np.zeros(distinct.size, dtype=np.int64), distinct[-1], 0.0
    for i in range(distinct.size - 1, -1, -1):
        if top > ratio * distinct[i] and bin_share >= _FEW and share[: i + 1].sum() >= _FEW:
            bins[: i + 1] += 1
            top, bin_share = distinct[i], 0.0
        bin_share += share[i]
    return np.asarray(bins[inverse])


class Rows:
    """Distinct rows of a sample: their kinds and sampled ranks from 0.

    With ties a row has several entries with probabilities `share`, beginning at `starts`. Tied
    negatives drawn without replacement are different items: the row's bet is its average over their
    random order. With replacement they may be copies of one item, all above the relevant item or
    all below, and a log does not say so: with two tied negatives or more, the row's bet is its
    least value over all orders. So it is of all rows that are not `ordered`: whose ties stand for
    negatives that may be above or below.
    """

    def __init__(
        self,
        kind: IntArray,
        x: IntArray,
        starts: IntArray | None = None,
        share: FloatArray | None = None,
        *,
        ordered: bool = True,
    ) -> None:
        self._ordered = ordered
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

    def _of_part(self, parts: Partition, part_index: int) -> _Seen:
        part, rows = parts.parts[part_index], np.flatnonzero(parts.part[self.kind] == part_index)
        entries, starts, share, least = rows, None, None, None
        if self._starts is not None and self._share is not None:
            n_entries = as_intp(np.diff(self._starts, append=self._entries.size)[rows])
            starts = np.cumsum(n_entries) - n_entries
            entries = np.repeat(self._starts[rows] - starts, n_entries) + np.arange(n_entries.sum())
            share = self._share[entries]
            least = np.flatnonzero((n_entries > 2) & part.protocol.replacement)
            least = least if self._ordered else np.flatnonzero(n_entries > 1)
        base = int(self._x.max(initial=0)) + 1
        code = self._entries[entries].astype(np.int64, copy=False) * base + self._x[entries]
        code, pair = np.unique(code, return_inverse=True)
        return _Seen(
            rows, _weights(parts, part, *np.divmod(code, base)), pair, starts, share, least
        )


#: Added items that are drawn less often than this are left out of a row's weights.  That only
#: lowers the value of a bet, as its function is positive.
_NEVER = 1e-20


def _weights(parts: Partition, part: Part, kind: IntArray, x: IntArray) -> FloatArray:
    """Weights of sampled ranks of some kinds on the knots of a part; shape (pairs, knots)."""
    columns = parts.kinds[kind]
    negatives, pools = columns[:, 0], columns[:, 3] - columns[:, 1]
    lines = hats(part.m)
    weights = np.empty((x.size, lines.shape[1]))
    for m in np.unique(negatives).tolist():
        rows = np.flatnonzero(negatives == m)
        weights[rows] = _thinned_lines(lines, m, part.m, x[rows])
        smaller = rows[(pools[rows] < part.pool) & (x[rows] > 0)]
        for above in np.unique(x[smaller]).tolist():
            equal_rows = smaller[x[smaller] == above]
            thinned_pmf = pmf_table(above, pools[equal_rows], part.pool, part.protocol.replacement)
            likely = np.flatnonzero(thinned_pmf.max(axis=0) > _NEVER)
            weights[equal_rows] = thinned_pmf[:, likely] @ _thinned_lines(lines, m, part.m, likely)
    return weights


def _thinned_lines(lines: FloatArray, m: int, n_kept: int, x: IntArray) -> FloatArray:
    """Mean rows of `lines` for any `n_kept` of m negatives of which x are above, for each x.

    Only for the x that occur: the matrix for all of them has m^2 entries.
    """
    if m == n_kept:
        return np.asarray(lines[x])
    distinct, inverse = np.unique(x, return_inverse=True)
    thinned_lines = [
        pmf_table(n_kept, part, m, False) @ lines
        for part in np.array_split(distinct, 1 + distinct.size * (n_kept + 1) // _BLOCK)
    ]
    return np.concatenate(thinned_lines)[inverse.ravel()]


@dataclass(frozen=True, eq=False)
class _Seen:
    """The rows of a part, and their weights on the knots.

    A row without ties has one (kind, sampled rank) pair. With ties it has several: its value is
    their average with the probabilities `share`, or for the rows `least` their minimum.
    """

    rows: IntArray
    weights: FloatArray
    pair: IntArray
    starts: IntArray | None
    share: FloatArray | None
    least: IntArray | None

    def values(self, functions: FloatArray) -> FloatArray:
        """Functions given at the knots, evaluated at the rows; shape (functions, rows)."""
        pair_values = functions @ self.weights.T
        if self.starts is None or not self.rows.size:
            return np.asarray(pair_values[:, self.pair])
        row_values = np.empty((len(functions), self.rows.size))
        for row, values in zip(row_values, pair_values, strict=True):
            entry_values = values[self.pair]
            row[:] = np.add.reduceat(entry_values * self.share, self.starts)
            row[self.least] = np.minimum.reduceat(entry_values, self.starts)[self.least]
        return row_values

    def observed(self, counts: np.ndarray) -> FloatArray:
        """Counts of users by row, (rows, samples), spread over the knots; (samples, knots)."""
        if self.starts is not None and self.share is not None:
            n_entries = as_intp(np.diff(self.starts, append=self.pair.size))
            counts = np.repeat(counts, n_entries, axis=0) * self.share[:, np.newaxis]
        size = len(self.weights)
        return np.array([np.bincount(self.pair, users, size) for users in counts.T]) @ self.weights

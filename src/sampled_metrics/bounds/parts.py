"""The parts of a sample that bets are made for, and the rows that they are made on.

Users whose protocols hardly differ share a bet, and so do places among their relevant items.
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
from ..protocol import Protocol, thinned
from .generators import Generators, basis, generators

if TYPE_CHECKING:
    from ..adaptive import Adaptive
    from .assumption import Assumption

#: Catalogue sizes that differ by at most this factor, positions and numbers of relevant items by
#: the next, share a function; so do groups with a smaller share of the users than the last.
_ALIKE, _ALIKE_SETS, _FEW = 1.1, 2.0, 0.03


@dataclass(frozen=True)
class Part:
    """Users, or their items, that share a function.

    Attributes
    ----------
    protocol : Protocol or Adaptive
        For one relevant item, the fewest negatives of any and the most irrelevant items of any.
    shallowest : tuple of int
        `n_items` and `n_negatives` where their ratio is least: there an assumption is of the fewest
        ranks.
    fewest : int
        The fewest irrelevant items of any: no assumption is about ranks that some user lacks.
    position, relevant, counted : int
        Of most of them: the place of the item, and how many items there are and count.
    """

    protocol: Protocol | Adaptive
    shallowest: tuple[int, int]
    fewest: int
    position: int
    relevant: int
    counted: int

    @property
    def place(self) -> tuple[int, int, int]:
        """Of most of them: the place of the item, and how many are relevant, and items in all."""
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
    """The parts of a sample, and which of them each kind of row belongs to.

    Equal to another of the same kinds of users and the same metric.

    Attributes
    ----------
    parts : list of Part
    part : ndarray of int, shape (k,)
        Of each kind; -1 where the metric does not depend on the rank.
    kinds : ndarray of int, shape (k, 4)
        Numbers of negatives and of relevant items, position among these, and n_items.
    share : ndarray of float, shape (k,)
        Of the users, those who have a row of the kind.
    counted : ndarray of int, shape (k,)
        At how many places among its relevant items a ranking's metric depends on the rank.
    metric : Metric
    """

    parts: list[Part]
    part: IntArray
    kinds: IntArray
    share: FloatArray
    counted: IntArray
    metric: Metric

    @cached_property
    def _own_key(self) -> tuple[object, ...]:
        arrays = self.part, self.kinds, self.share
        return tuple(self.parts), self.metric, *(each.tobytes() for each in arrays)

    def __hash__(self) -> int:
        return hash(self._own_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self._own_key == other._own_key

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What it has in common with partitions by other metrics."""
        return tuple(self.parts), self.part.tobytes()

    @property
    def weight(self) -> FloatArray:
        """The weight of a row's function in the user's sum; those of a ranking sum to 1."""
        counts = np.where(self.part >= 0, self.counted, np.inf)
        none = self.counted == 0
        return np.asarray(np.where(none, 1.0 / self.kinds[:, 1], 1.0 / counts))

    def span(self, share: FloatArray | None = None) -> tuple[float, float]:
        """The least and the most that the metric of some users can be, given their share by kind.

        Of all users of the sample if omitted.
        """
        share = self.share if share is None else share
        least = most = 0.0
        for (relevant, j, items), kinds in self.distinct(np.arange(len(self.kinds))):
            ends = self.metric.term(np.array([0, items - relevant]) + j, j, relevant, items)
            weight = float(share[kinds].sum())
            most, least = most + weight * float(ends[0]), least + weight * float(ends[1])
        return least, most

    def distinct(self, kinds: IntArray) -> Iterator[tuple[tuple[int, int, int], IntArray]]:
        """The kinds that the metric distinguishes: relevant items, position, n_items, and which.

        All metrics but AUC are the same for all catalogue sizes: the largest stands for them.
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
) -> Partition:
    """Put rows together that can share a function of the sampled rank.

    Parameters
    ----------
    kinds : ndarray of int, shape (k, 4)
        Numbers of negatives and of relevant items, the position among these, and n_items.
    weights : ndarray of float, shape (k,)
        Users of each kind.
    metric : Metric
    replacement : bool
    design : Adaptive, optional
        How negatives were drawn, if not so many for each user. Then there is one kind, with the
        `most` negatives of the design, and rows have the places of its `outcomes`.

    Returns
    -------
    Partition

    Raises
    ------
    ValueError
        If a catalogue has more than `MOST_ITEMS` items.

    Examples
    --------
    Catalogues of 1,000 and 1,050 items are alike, one of 3,000 is a part of its own:

    >>> from sampled_metrics import metric
    >>> kinds = np.array([[99, 1, 1, 1_000], [99, 1, 1, 1_050], [99, 1, 1, 3_000]])
    >>> found = partition(kinds, np.array([500.0, 300.0, 200.0]), metric("recall@10"), True)
    >>> found.part.tolist(), [part.pool for part in found.parts]
    ([1, 1, 0], [2999, 1049])
    """
    negatives, relevant, position, items = kinds.T
    pools = items - relevant
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
    numbers, number = np.unique(pairs[:, 0], return_inverse=True)
    places = np.bincount(number.ravel(), ~constant, numbers.size).astype(np.int64)
    counted = places[number.ravel()][pair.ravel()]
    constant = constant[pair.ravel()]
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
    code[constant] = -1
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
                int(pools[inside].min()),
                int(position[most]),
                int(relevant[most]),
                int(counted[most]),
            )
        )
    users = float(weights[position == 1].sum())
    return Partition(parts, code, kinds, weights / users, counted, metric)


def _bins(values: IntArray, weights: FloatArray, ratio: float) -> IntArray:
    """Numbers for values that differ by at most a factor, or that few users have."""
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
    """Rows of a sample that are alike: their kinds and sampled ranks.

    Parameters
    ----------
    kind : ndarray of int, shape (k,)
        Of each entry, in a partition.
    x : ndarray of int, shape (k,)
        Sampled ranks from 0, or places of an adaptive design's outcomes.
    starts : ndarray of int, optional
        Where there are ties with negatives: the first entry of each row; else each row has one.
    share : ndarray of float, shape (k,), optional
        The probability of each entry of a row, if ties are broken at random.

    Notes
    -----
    Drawn without replacement, tied negatives are different items, and a row's bet is its average
    over their random order. Drawn with replacement they may be one item drawn several times, which
    is above the relevant item as a whole or not at all. A log does not say so. The bet of a row
    with two tied negatives or more is then its least value over all orders.
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
        #: E-values against an assumption, which many metrics have in common.
        self.refuted: dict[tuple[object, ...], list[float]] = {}

    def seen(self, parts: Partition) -> list[_Seen]:
        """What the rows of each part give to its knots."""
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


def _given(parts: Partition, one: Part, kind: IntArray, x: IntArray) -> FloatArray:
    """What sampled ranks of some kinds give to the knots of a part; (pairs, knots)."""
    of = parts.kinds[kind]
    negatives, pools = of[:, 0], of[:, 3] - of[:, 1]
    lines = basis(one.protocol)
    found = np.empty((x.size, lines.shape[1]))
    for m in np.unique(negatives).tolist():
        at = np.flatnonzero(negatives == m)
        each = lines if m == one.m else thinned(m, one.m) @ lines
        found[at] = each[x[at]]
        smaller = at[(pools[at] < one.pool) & (x[at] > 0)]
        for above in np.unique(x[smaller]).tolist():
            some = smaller[x[smaller] == above]
            kept = law(above, pools[some], one.pool, one.protocol.replacement)
            found[some] = kept @ each[: above + 1]
    return found


@dataclass(frozen=True, eq=False)
class _Seen:
    """The rows of a part, and what each gives to the knots.

    A row is one of the pairs of a kind and a sampled rank, or, where it has ties, several. Then its
    value is their average, with the probabilities in `share`, or in some rows their least value.
    """

    rows: IntArray
    given: FloatArray
    pair: IntArray
    starts: IntArray | None
    share: FloatArray | None
    least: IntArray | None

    def values(self, functions: FloatArray) -> FloatArray:
        """Functions that are given at the knots, at the rows; (functions, rows)."""
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
        """Users with each row, (rows, samples), spread over the knots; (samples, knots)."""
        if self.starts is not None and self.share is not None:
            many = np.diff(self.starts, append=self.pair.size)
            counts = np.repeat(counts, many, axis=0) * self.share[:, np.newaxis]
        size = len(self.given)
        return np.array([np.bincount(self.pair, each, size) for each in counts.T]) @ self.given

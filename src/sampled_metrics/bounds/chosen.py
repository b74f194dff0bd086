"""Bets on negatives that were drawn beside chosen items, all of which were scored.

Let `a` chosen items and `b` of the others be above the held-out item, so that its rank is 1 + a +
b. The log shows `a`; the negatives, drawn uniformly from the others, tell of `b`. The metric at the
rank 1 + a + b is a function of `b` for each `a`. So users with equal `a` are a kind of row of their
own, like a relevant item at the position 1 + a, and the proof of :mod:`~sampled_metrics.bounds
.bets` applies: certificates are computed for each kind, over all `b`.

Guesses differ from those of other logs. A useful choice leaves few items above, so that most users
have no negative above.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..protocol import Protocol
from .generators import Generators
from .parts import Part, Partition

#: Guessed populations (share, scale, exponent): this share of the users has others above, as many
#: as b in proportion to (b + scale)^-exponent.
GUESSES = tuple(
    (share, scale, exponent)
    for share in (0.003, 0.01, 0.03, 0.1, 0.3)
    for scale, exponent in ((2.0, 1.5), (31.0, 2.0))
)
#: Numbers of negatives that differ by at most this factor may share functions.
_ALIKE = 1.1
#: Share of the guessed users with others above whose `b` is uniform, so that none ruins a bet.
_UNIFORM = 0.05


@dataclass(frozen=True, repr=False)
class AtPosition(Metric):
    """A metric of one relevant item, whose position counts the chosen items above it.

    >>> AtPosition("rr").term([3, 3], position=[1, 3], n_relevant=3).round(2).tolist()
    [0.33, 0.33]
    """

    def smooth_term(
        self, r: np.ndarray, j: np.ndarray, relevant: int, items: IntArray | None
    ) -> FloatArray:
        return super().smooth_term(r, np.ones_like(j), 1, items)


@dataclass(frozen=True, eq=False)
class ChosenPartition(Partition):
    """A partition by position, with one row for each user."""

    @property
    def weight(self) -> FloatArray:
        return np.ones(len(self.kinds))

    def guesses(self, generators: Generators) -> FloatArray:
        """The guessed distributions of the number above, on the knots; (guesses, knots)."""
        none_above = generators.rows(np.zeros(1, dtype=np.int64))[0]
        uniform = generators.marginal(np.ones_like)
        pmfs = []
        for share, scale, exponent in GUESSES:
            power = generators.marginal(partial(_above_none, scale=scale, exponent=exponent))
            some_above = (1.0 - _UNIFORM) * power + _UNIFORM * uniform
            pmfs.append((1.0 - share) * none_above + share * some_above)
        return np.array(pmfs)


def _above_none(rank: np.ndarray, scale: float, exponent: float) -> FloatArray:
    """The density (b + scale)^-exponent of b = rank - 1 others above, without b = 0."""
    return np.where(rank > 1, (rank - 1.0 + scale) ** -exponent, 0.0)


def partition(
    kinds: IntArray, weights: FloatArray, metric: Metric, replacement: bool
) -> ChosenPartition:
    """Group kinds of rows by their position; `kinds` and `weights` as in `parts.partition`.

    Users with 2^i - 1 to 2^(i + 1) - 2 chosen items above, and nearly as many negatives, share the
    functions of their bets.
    """
    negatives, relevant, position, items = kinds.T
    pools = items - relevant
    rank = np.column_stack([position, position + pools])
    ends = metric.term(rank, position[:, np.newaxis], int(relevant.max()), items[:, np.newaxis])
    is_constant = ends[:, 0] == ends[:, 1]
    size = np.floor(np.log(negatives) / np.log(_ALIKE)).astype(np.int64)
    code = np.log2(position).astype(np.int64) * (1 + int(size.max())) + size
    labels, part = np.unique(np.where(is_constant, -1, code), return_inverse=True)
    part = part.ravel() - int(labels[0] < 0)
    parts = []
    for index in range(part.max(initial=-1) + 1):
        rows = np.flatnonzero(part == index)
        heaviest, largest = rows[np.argmax(weights[rows])], int(pools[rows].max())
        m = int(negatives[rows].min())
        protocol = Protocol(largest + 1, m, replacement=replacement)
        numbers = int(position[heaviest]), int(relevant[heaviest])
        parts.append(Part(protocol, (largest + 1, m), int(pools[rows].min()), *numbers, 1))
    counted, share = np.where(is_constant, 0, 1), weights / weights.sum()
    return ChosenPartition(parts, part, kinds, share, counted, np.arange(part.size), metric)

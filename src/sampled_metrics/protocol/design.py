"""The interface of every P: the distribution of what an evaluation records, given the true rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import FloatArray, IntArray, integer, integers
from ..metrics import Metric
from ..numerics.distributions import pmf_table, polynomials

#: Entries of P held in memory at once.
_BLOCK = 1 << 20


class Design:
    """What turns a true rank into an outcome: the interface of estimators and fitted priors.

    P has a row for each true rank and a column for each outcome. The number of irrelevant items
    above an item determines its row. Its `position` is its place, from 1, among the items that are
    always ranked with the sample: the relevant items of the instance.
    """

    if TYPE_CHECKING:

        @property
        def n_items(self) -> int | IntArray: ...
        @property
        def n_negatives(self) -> int:
            """Negatives drawn, at most."""

        @property
        def replacement(self) -> bool: ...

    #: Number of the first outcome: that of the sampled rank 1.
    first_outcome: ClassVar[int] = 1
    #: Whether all items are equally likely to be drawn, and all drawn items are ranked.
    uniform: ClassVar[bool] = True

    @property
    def n_relevant(self) -> int:
        """Relevant items of an instance."""
        return 1

    @property
    def n_positions(self) -> int:
        """Items that are always ranked with the sample, the held-out one included."""
        return self.n_relevant

    @property
    def n_outcomes(self) -> int:
        """Columns of P: outcomes of an item at a known position.

        >>> from sampled_metrics import Protocol
        >>> Protocol(n_items=10_000, n_negatives=99).n_outcomes
        100
        """
        return self.n_negatives + 1

    @property
    def pool(self) -> IntArray:
        """Irrelevant items, from which negatives are drawn uniformly, or ValueError."""
        drawn_alike(self)
        return np.asarray(self.n_items, dtype=np.int64) - self.n_positions

    def above(self, rank: ArrayLike, position: int = 1) -> IntArray:
        """Number of irrelevant items above the item at true `rank`; broadcasts with `n_items`.

        Raises ValueError if a rank is fractional, below `position`, or leaves no place for the
        items that are always ranked and behind it.

        >>> from sampled_metrics import Protocol
        >>> Protocol(n_items=10, n_negatives=3, n_relevant=2).above([4, 7], position=2)
        array([2, 5])
        """
        j = integer(position, "position", 1, self.n_positions)
        last = np.asarray(self.n_items) - (self.n_positions - j)
        return integers(rank, "rank", j, last) - j

    def exact_term(self, metric: Metric, rank: np.ndarray, position: np.ndarray) -> FloatArray:
        """Term of the metric for an item at a true rank; nothing is checked.

        >>> from sampled_metrics import Metric, Protocol
        >>> Protocol(10, 3).exact_term(Metric("ap"), np.array([2.0]), np.array(1))
        array([0.5])
        """
        return metric.smooth_term(rank, position, self.n_relevant, np.asarray(self.n_items))

    def rows(self, above: np.ndarray) -> FloatArray:
        """Rows of P for numbers of irrelevant items above, (..., n_outcomes); nothing is checked.

        The numbers may be fractions if at least `n_negatives` + 17 irrelevant items are on either
        side: the probabilities are polynomials in them.

        >>> from sampled_metrics import Protocol
        >>> Protocol(n_items=5, n_negatives=2).rows(np.array([2.0]))
        array([[0.25, 0.5 , 0.25]])
        """
        return self._first_columns(pmf_table, above, self.pool, self.n_outcomes)

    def pmf(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Probability of each outcome at a true rank, (..., n_outcomes), to 12 digits.

        >>> from sampled_metrics import Adaptive
        >>> Adaptive(n_items=5, first=1, most=2).pmf(3)  # (2, 0), (2, 1) and (1, 1)
        array([0.25, 0.25, 0.5 ])
        """
        return self.rows(self.above(rank, position))

    def _polynomials(self, above: np.ndarray) -> FloatArray:
        """:meth:`rows` for any fractional numbers of items above: slower, with absolute errors.

        >>> from sampled_metrics import Protocol
        >>> Protocol(4, 2, replacement=False)._polynomials(np.array([0.5]))
        array([[ 0.625     ,  0.41666667, -0.04166667]])
        """
        return self._first_columns(polynomials, above, self.pool, self.n_outcomes)

    def _first_columns(
        self, table: Any, above: np.ndarray, pool: IntArray, width: int
    ) -> FloatArray:
        """The first columns of P, from :func:`pmf_table` or :func:`polynomials`."""
        return np.asarray(table(self.n_negatives, above, pool, self.replacement, width))

    def blocks(
        self, rank: ArrayLike, position: int = 1, width: int | None = None
    ) -> Iterator[FloatArray]:
        """The first `width` columns of the rows at each rank in turn, in blocks of bounded size.

        >>> from sampled_metrics import Protocol
        >>> [block.shape for block in Protocol(10_000, 99).blocks(np.arange(1, 10_001), width=100)]
        [(10000, 100)]
        """
        above, width = self.above(rank, position), self.n_outcomes if width is None else width
        above, pool = (counts.ravel() for counts in np.broadcast_arrays(above, self.pool))
        step = max(1, _BLOCK // width)
        for start in range(0, above.size, step):
            part = slice(start, start + step)
            yield self._first_columns(pmf_table, above[part], pool[part], width)

    def marginal(self, rank: ArrayLike, mass: FloatArray, position: int = 1) -> FloatArray:
        """Distribution of the outcome in a population with the probability `mass` at each rank.

        >>> from sampled_metrics import Protocol
        >>> Protocol(n_items=5, n_negatives=2).marginal([1, 3], np.array([0.5, 0.5]))
        array([0.625, 0.25 , 0.125])
        """
        pmf, start = np.zeros(self.n_outcomes), 0
        for block in self.blocks(rank, position):
            pmf += mass[start : start + len(block)] @ block
            start += len(block)
        return pmf


def drawn_alike(design: Design) -> None:
    """Raise ValueError unless negatives are drawn uniformly and all ranked.

    >>> from sampled_metrics import Protocol
    >>> drawn_alike(Protocol(10_000, 99))
    """
    if not design.uniform:
        raise ValueError(
            f"protocol must draw negatives uniformly and rank all of them here, got {design!r}"
        )


def one_size(design: Design) -> int:
    """The catalogue size of a uniform design that has only one, or ValueError.

    >>> from sampled_metrics import Protocol
    >>> one_size(Protocol(10_000, 99))
    10000
    """
    drawn_alike(design)
    return one_number(design)


def one_number(design: Design) -> int:
    """The catalogue size of a design that has only one, or ValueError."""
    if not isinstance(design.n_items, int):
        raise ValueError(
            f"n_items must be one catalogue size here, got shape {design.n_items.shape}"
        )
    return design.n_items

"""M-hat: what an evaluation reports for each sampled rank, and what that means in expectation.

An estimator is a vector over the sampled ranks; its expectation at a true rank is the row of
the protocol's law at that rank times the vector: P M-hat. `naive`, the metric applied to the
sampled rank as if the sample were the catalogue, is the one that everyone reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, integer, integers
from .metrics import Metric
from .protocol import Protocol, log_hypergeometric

#: Entries of the law held in memory at once.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Estimator:
    """A value for each sampled rank, judged under the protocol that produced the rank.

    Attributes
    ----------
    metric : Metric
        What it estimates.
    protocol : Protocol
        How negatives are sampled.
    values : ndarray of float, shape (m + 1,) or (n_relevant, m + 1)
        What it reports when 0, 1, ..., m sampled negatives are above the item; with several
        relevant items a row for each position among them, to be summed over the items.
    name : str
    """

    metric: Metric
    protocol: Protocol
    values: FloatArray = field(repr=False)
    name: str = "custom"

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=float)
        columns, relevant = self.protocol.n_negatives + 1, self.protocol.n_relevant
        expected = (columns,) if relevant == 1 else (relevant, columns)
        if values.shape != expected:
            raise ValueError(f"values must have shape {expected}, got {values.shape}")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __call__(self, sampled_ranks: ArrayLike, position: int = 1) -> FloatArray:
        """Reported value for each sampled rank, in [position, position + m]; any shape.

        Raises
        ------
        ValueError
            If a sampled rank is outside that range.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> naive(metric("ap"), Protocol(n_items=100, n_negatives=4))([1, 2, 5])
        array([1. , 0.5, 0.2])
        """
        row = self._row(position)
        ranks = integers(
            sampled_ranks, "sampled_ranks", position, position + self.protocol.n_negatives
        )
        return np.asarray(row[ranks - position])

    def expected(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Exact expectation at each true rank: P M-hat (krichene2020, eq. 16).

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True ranks; broadcasts with the protocol's `n_items`.
        position : int
            Place among the relevant items, in [1, n_relevant].

        Returns
        -------
        ndarray of float, shape (...)

        Raises
        ------
        ValueError
            If a rank is fractional or outside what the protocol allows.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.expected([1, 100, 1_000, 10_000]).round(3)
        array([1.   , 1.   , 0.466, 0.   ])
        """
        row = self._row(position)
        reach = int(np.max(np.nonzero(row)[0], initial=0)) + 1
        counts = np.arange(reach)
        parts = [law @ row[:reach] for law in self._law_blocks(rank, position, counts)]
        return self._joined(parts, rank)

    def variance(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Exact variance at each true rank, over the draws of negatives; arguments as `expected`.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.variance([1, 1_000]).round(3)
        array([0.   , 0.249])
        """
        row = self._row(position)
        counts = np.arange(row.size)
        parts = []
        for law in self._law_blocks(rank, position, counts):
            mean = law @ row
            parts.append(np.einsum("ij,ij->i", law, (row - mean[:, np.newaxis]) ** 2))
        return self._joined(parts, rank)

    def bias(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Exact bias at each true rank: P M-hat - M; arguments as `expected`.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.bias([1, 100]).round(6)
        array([0., 1.])
        """
        exact = self.metric.term(rank, position, self.protocol.n_relevant, self.protocol.n_items)
        return self.expected(rank, position) - exact

    def expected_of_set(self, ranks: ArrayLike) -> float:
        """Exact expectation for one instance with several relevant items.

        The metric is a sum over the items, so the law of each item's own sampled rank is
        enough, although these ranks are dependent.

        Parameters
        ----------
        ranks : array_like of int, shape (n_relevant,)
            Their distinct true ranks, in any order.

        Raises
        ------
        ValueError
            If `ranks` is not a set of the protocol's `n_relevant` ranks.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("auc"), Protocol(n_items=10, n_negatives=3, n_relevant=2))
        >>> est.expected_of_set([3, 5]), metric("auc").of_set([3, 5], n_items=10)
        (0.6875, 0.6875)
        """
        ordered = self.protocol.checked_set(ranks)
        terms = [self.expected(rank, j) for j, rank in enumerate(ordered, start=1)]
        return float(np.sum(terms))

    def _row(self, position: int) -> FloatArray:
        j = integer(position, "position", 1, self.protocol.n_relevant)
        return self.values if self.values.ndim == 1 else self.values[j - 1]

    def _law_blocks(self, rank: ArrayLike, position: int, counts: IntArray) -> Iterator[FloatArray]:
        """The law at each rank in turn, in blocks of rows of bounded size."""
        self.protocol.above(rank, position)
        ranks, items = np.broadcast_arrays(np.asarray(rank), self.protocol.n_items)
        ranks, items = ranks.ravel(), items.ravel()
        rows = max(1, _BLOCK // counts.size)
        for start in range(0, ranks.size, rows):
            part = slice(start, start + rows)
            sub = Protocol(
                items[part],
                self.protocol.n_negatives,
                self.protocol.replacement,
                self.protocol.n_relevant,
            )
            yield sub.pmf(ranks[part], position, counts)

    def _joined(self, parts: list[FloatArray], rank: ArrayLike) -> FloatArray:
        shape = np.broadcast_shapes(np.shape(rank), np.shape(self.protocol.n_items))
        return np.concatenate(parts).reshape(shape) if parts else np.empty(shape)


class _Naive(Estimator):
    """The naive estimator: the general sum is replaced by a closed form where there is one."""

    def expected(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        if self.metric.kind == "auc":
            return self.metric.term(rank, position, self.protocol.n_relevant, self.protocol.n_items)
        whole = self.metric.k is None or self.metric.k > self.protocol.n_negatives
        if position == 1 and whole and self.metric.kind in ("ap", "rr"):
            best = self._row(1)[0]
            return np.asarray(expected_average_precision(rank, self.protocol) * best)
        return super().expected(rank, position)


def naive(metric: Metric, protocol: Protocol) -> Estimator:
    """The sampled metric that everyone reports: M applied to the sampled rank.

    Parameters
    ----------
    metric : Metric
    protocol : Protocol

    Returns
    -------
    Estimator
        Its `values` are the metric of the ``m + n_relevant`` ranked items. Its `expected` uses
        the closed forms of krichene2020: eq. 17 for AUC, eq. 18 for metrics with a cut-off
        (a sum of k terms), eq. 19 and its counterpart without replacement for AP.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> est = naive(metric("ap"), Protocol(n_items=10_000, n_negatives=99))
    >>> est.values[:3]
    array([1.        , 0.5       , 0.33333333])
    >>> est.expected([100]).round(4), metric("ap")([100])
    (array([0.6366]), array([0.01]))
    """
    m, relevant = protocol.n_negatives, protocol.n_relevant
    above = np.arange(m + 1)
    rows = [metric.term(above + j, j, relevant, m + relevant) for j in range(1, relevant + 1)]
    values = rows[0] if relevant == 1 else np.stack(rows)
    return _Naive(metric, protocol, values, "naive")


def expected_average_precision(rank: ArrayLike, protocol: Protocol) -> FloatArray:
    """Expectation of 1 / (1 + negatives above the best relevant item), in closed form.

    With one relevant item this is expected sampled Average Precision. With replacement it is
    krichene2020, eq. 19, ``(1 - q**(m + 1)) / ((m + 1) p)``; without,
    ``n / (r (m + 1)) (1 - C(n - r, m + 1) / C(n, m + 1))``, which the paper does not give.
    Both are evaluated so that no digits cancel when few negatives are expected above the item.

    Parameters
    ----------
    rank : array_like of int, shape (...)
        True rank of the best relevant item; broadcasts with the protocol's `n_items`.
    protocol : Protocol

    Returns
    -------
    ndarray of float, shape (...)
        In (0, 1].

    Raises
    ------
    ValueError
        If a rank is outside what the protocol allows.

    Examples
    --------
    >>> float(expected_average_precision(3, Protocol(n_items=5, n_negatives=2)).round(6))
    0.583333
    >>> without = Protocol(n_items=5, n_negatives=2, replacement=False)
    >>> float(expected_average_precision(3, without).round(6))
    0.555556
    """
    above, pool = np.broadcast_arrays(protocol.above(rank), protocol.pool)
    draws = protocol.n_negatives + 1
    if protocol.replacement:
        with np.errstate(divide="ignore"):
            log_none = draws * np.where(
                2 * above < pool, np.log1p(-above / pool), np.log((pool - above) / pool)
            )
        mean = draws * above / pool
        return np.where(above == 0, 1.0, -np.expm1(log_none) / np.where(above == 0, 1.0, mean))
    log_none = _log_none_drawn(draws, above + 1, pool + 1)
    return np.asarray((pool + 1) / ((above + 1) * float(draws)) * -np.expm1(log_none))


def _log_none_drawn(draws: int, marked: IntArray, total: IntArray) -> FloatArray:
    """Log-probability that `draws` of `total` items, without replacement, miss all `marked` ones.

    Accurate in relative terms: where the probability is near 1 it is a sum of like-signed
    logarithms, over the fewer of the draws and the marked items, which have the same role.
    """
    out = np.asarray(log_hypergeometric(np.array(0), draws, marked, total))
    rare = draws * marked < 0.1 * total
    few, many = np.minimum(marked, draws)[rare], np.maximum(marked, draws)[rare]
    if few.size:
        log_none, left = np.zeros(few.shape), total[rare]
        for i in range(int(few.max())):
            log_none += np.where(i < few, np.log1p(-many / np.maximum(left - i, many + 1)), 0.0)
        out[rare] = log_none
    return out

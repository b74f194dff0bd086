"""Ranks of held-out items as intervals of ties, and their metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .._validate import FloatArray, IntArray, as_written, generator, integers, span
from ..metrics import Metric
from ..metrics import metric as parsed
from ..protocol import Protocol
from ..tied_places import mixture

RankTies = Literal["optimistic", "pessimistic", "random"]
Ties = Literal["optimistic", "pessimistic", "mean", "random", "realistic"]


@dataclass(frozen=True, eq=False, repr=False)
class RankIntervals:
    """The ranks of held-out items, an interval where they tie.

    Instance i has a rank in n_better[i] + 1, ..., n_better[i] + n_tied[i] + 1.

    Parameters
    ----------
    n_better : array_like of int, shape (n_instances,)
        Candidates that score above the held-out item.
    n_tied : array_like of int, shape (n_instances,)
        Other candidates that score the same.
    n_candidates : array_like of int, shape (n_instances,)
        All candidates, the held-out item included; the `n_items` of metrics.
    stop_at : int, optional
        An `n_better` of so many means that many or more.

    Raises
    ------
    ValueError
        If lengths differ, a count is negative or fractional, or n_better + n_tied + 1 exceeds
        n_candidates.

    See Also
    --------
    sampled_metrics.exact_ranks : Rank by a matrix of scores.
    sampled_metrics.rank : Rank by factors.
    sampled_metrics.RelevantSets : Users with several held-out items.

    Examples
    --------
    >>> intervals = RankIntervals([0, 1], [0, 2], [5, 5])
    >>> intervals.ranks("pessimistic")
    array([1, 4])
    >>> intervals.evaluate("auc")
    array([1. , 0.5])
    """

    n_better: IntArray
    n_tied: IntArray
    n_candidates: IntArray
    stop_at: int | None = None

    def __post_init__(self) -> None:
        for name, low in (("n_better", 0), ("n_tied", 0), ("n_candidates", 1)):
            counts = integers(getattr(self, name), name, low)
            if counts.ndim != 1:
                raise ValueError(f"{name} must have one dimension, got shape {counts.shape}")
            object.__setattr__(self, name, counts)
        sizes = (self.n_better.size, self.n_tied.size, self.n_candidates.size)
        if len(set(sizes)) > 1:
            raise ValueError(
                f"n_better, n_tied and n_candidates must have one length, got {sizes[0]}, "
                f"{sizes[1]} and {sizes[2]}"
            )
        excess = self.n_better + self.n_tied + 1 > self.n_candidates
        if excess.any():
            i = int(np.argmax(excess))
            raise ValueError(
                f"n_candidates must be >= n_better + n_tied + 1, got {self.n_candidates[i]} with "
                f"n_better {self.n_better[i]} and n_tied {self.n_tied[i]}"
            )

    def __repr__(self) -> str:
        return (
            f"RankIntervals(instances={self.n_better.size}, tied={np.count_nonzero(self.n_tied)}, "
            f"n_candidates={span(self.n_candidates)})"
        )

    def ranks(self, ties: RankTies, rng: int | np.random.Generator | None = None) -> IntArray:
        """Ranks under a tie policy, 1 the best.

        Parameters
        ----------
        ties : {"optimistic", "pessimistic", "random"}
            The held-out item comes first among its ties, last, or at a place drawn uniformly.
        rng : int or numpy.random.Generator, optional
            Seed or generator, required by "random".

        Returns
        -------
        ndarray of int, shape (n_instances,)

        Raises
        ------
        ValueError
            If `ties` is another policy ("mean" gives no single rank, see :meth:`evaluate`), `rng`
            is missing for "random", or ranks were not counted to the end.

        Examples
        --------
        >>> intervals = RankIntervals([2], [3], [10])
        >>> intervals.ranks("optimistic"), intervals.ranks("pessimistic")
        (array([3]), array([6]))
        """
        if self.stop_at is not None:
            raise ValueError(f"ranks must be counted to the end, got stop_at = {self.stop_at}")
        if ties == "optimistic":
            return self.n_better + 1
        if ties == "pessimistic":
            return self.n_better + self.n_tied + 1
        if ties == "random":
            return self.n_better + 1 + generator(rng).integers(self.n_tied + 1)
        raise ValueError(
            "ties must be 'optimistic', 'pessimistic' or 'random', or of metrics also 'mean' or "
            f"'realistic', got {as_written(ties)}"
        )

    def evaluate(
        self,
        metric: Metric | str,
        ties: Ties = "mean",
        rng: int | np.random.Generator | None = None,
    ) -> FloatArray:
        """Value of a metric for each instance.

        Parameters
        ----------
        metric : Metric or str
            From :func:`sampled_metrics.metric`.
        ties : {"mean", "optimistic", "pessimistic", "random", "realistic"}
            "mean" is the expected metric with ties broken uniformly at random, computed exactly.
            "realistic" is the metric of the mean of the first and the last rank, as in PyKEEN, OGB
            and TGB; for AUC both agree. The others are as in :meth:`ranks`.
        rng : int or numpy.random.Generator, optional
            Seed or generator, required by "random".

        Returns
        -------
        ndarray of float, shape (n_instances,)

        Raises
        ------
        ValueError
            If `ties` is another policy, `rng` is missing for "random", or the metric's cut-off is
            beyond `stop_at`.

        Examples
        --------
        >>> RankIntervals([0], [1], [10]).evaluate("rr")
        array([0.75])
        >>> RankIntervals([0], [1], [10]).evaluate("rr", "realistic").round(4)  # 1 over 1.5
        array([0.6667])
        """
        metric = parsed(metric)
        if self.stop_at is not None:
            refuse_beyond(self.stop_at, [metric])
            return replace(self, stop_at=None).evaluate(metric, ties, rng)
        if ties == "mean":
            return self._mean(metric)
        if ties == "realistic":
            if (self.n_candidates < 2).any():
                raise ValueError("n_candidates must be >= 2 to evaluate ties 'realistic', got 1")
            middle = self.n_better + 1 + self.n_tied / 2
            return metric.smooth_term(middle, np.array(1), 1, self.n_candidates)
        return metric(self.ranks(ties, rng), n_items=self.n_candidates)

    def _mean(self, metric: Metric) -> FloatArray:
        first, last = self.ranks("optimistic"), self.ranks("pessimistic")
        if metric.linear:  # its mean over an interval is the mean of both ends
            ends = [metric(end, n_items=self.n_candidates) for end in (first, last)]
            return np.asarray((ends[0] + ends[1]) / 2)
        # Other metrics do not depend on n_items: one prefix sum serves all instances.
        sums = np.concatenate(([0.0], np.cumsum(metric(np.arange(1, last.max(initial=1) + 1)))))
        return np.asarray((sums[last] - sums[first - 1]) / (self.n_tied + 1))

    def sampled_pmf(self, n_negatives: int, replacement: bool = False) -> FloatArray:
        """Distribution of the number of sampled negatives above the item, ties broken at random.

        Without replacement the rank is uniform on first..last, so this is the mean of
        :meth:`Protocol.pmf <sampled_metrics.Protocol.pmf>` over these ranks. Of the subsets of m +
        1 of the n candidates, C(r - 1, k) C(n - r, m - k) have their (k + 1)-th best item at rank
        r. Summed over r, these are the subsets with at most k items above rank `first` and more
        than k up to `last`: a difference of two tails.

        With replacement all copies of a negative share its place, so this is again the mean over
        the ranks first..last. Binomial probabilities are polynomials in the rank, and a Gauss rule
        sums them.

        Parameters
        ----------
        n_negatives : int
            m, at least 1; without replacement at most n_candidates - 1.
        replacement : bool
            Whether negatives are drawn with replacement.

        Returns
        -------
        ndarray of float, shape (n_instances, n_negatives + 1)
            With an absolute error below 1e-12; also the relative error, for instances without ties.

        Raises
        ------
        ValueError
            If `n_negatives` is outside its range.

        Examples
        --------
        >>> RankIntervals([0, 1], [1, 0], [4, 4]).sampled_pmf(2).round(4)
        array([[0.6667, 0.3333, 0.    ],
               [0.3333, 0.6667, 0.    ]])
        """
        first, last = self.ranks("optimistic"), self.ranks("pessimistic")
        pmf = Protocol(self.n_candidates, n_negatives, replacement=replacement).pmf(first)
        is_tied = self.n_tied > 0
        if is_tied.any() and replacement:
            better, tied = self.n_better[is_tied], self.n_tied[is_tied]
            draws, pool = np.full(better.size, n_negatives), self.n_candidates[is_tied] - 1
            pmf[is_tied] = mixture(draws, better, tied, pool, 1, 1, True, n_negatives + 1)
        elif is_tied.any():
            # The subsets include the item itself: one more candidate and place.
            candidates, tied = self.n_candidates[is_tied], self.n_tied[is_tied]
            wider = Protocol(candidates + 1, n_negatives + 1, replacement=False)
            tails = wider.sf(last[is_tied] + 1) - wider.sf(first[is_tied])
            scale = candidates / ((n_negatives + 1.0) * (tied + 1))
            pmf[is_tied] = np.maximum(scale[:, np.newaxis] * tails[:, :-1], 0.0)
        return pmf


def refuse_beyond(stop_at: int, metrics: Iterable[Metric]) -> None:
    """Refuse metrics of ranks that were not counted beyond `stop_at`."""
    for metric in metrics:
        if metric.cutoff is None or metric.cutoff > stop_at:
            raise ValueError(
                f"metrics must have a cut-off of at most stop_at = {stop_at}, got {metric.name}"
            )

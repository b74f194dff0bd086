"""Several relevant items ranked together among random negatives, with ties: exact expectations.

Every metric here is a sum over j of a function of the rank of the j-th best relevant item, which is
j plus the number of negatives above it. An expectation needs the distribution of that number for
each j, a variance the joint distribution of two of them. Both follow from where the relevant items
stand among all irrelevant candidates: nothing has to be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, as_written, integer, integers, span
from .estimators import Estimator
from .metrics import Metric
from .metrics import metric as parsed
from .tied_places import Places, blocks, second_moment


@dataclass(frozen=True, eq=False, repr=False)
class RelevantSets:
    """Where the relevant items of each ranking stand among the irrelevant ones, with their ties.

    Negatives are drawn from the irrelevant candidates and ranked together with the relevant items
    (ekstrand2017); items of equal score come in random order. Negatives are distinct, all sets
    being equally likely, or with ``replacement=True`` drawn one by one, each from all candidates. A
    candidate that is drawn twice is in the list twice, both times above a relevant item or both
    times below it, also if their scores tie. For negatives drawn by weights with replacement, give
    weights, such as numbers of ratings, in place of the numbers of candidates.

    Parameters
    ----------
    n_better : array_like of int, shape (n_rankings, n_relevant)
        Irrelevant candidates that score above each relevant item.
    n_tied : array_like of int, shape (n_rankings, n_relevant)
        Irrelevant candidates with its score.
    level : array_like of int, shape (n_rankings, n_relevant)
        Dense rank of its score among the ranking's relevant items: 0 for the best, equal for equal
        scores, without gaps.
    n_irrelevant : array_like of int, shape (n_rankings,)
        Irrelevant candidates in all, at least 1.

    Raises
    ------
    ValueError
        If shapes do not match, a count is negative or fractional, a level is left out, or counts
        contradict one another: items of one level differ in their counts, an item has fewer
        candidates above it than the level before with its ties, or the counts exceed the total.

    See Also
    --------
    sampled_metrics.Protocol : One relevant item, or several whose true ranks differ.
    sampled_metrics.RankIntervals : One relevant item with ties.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> sets = RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8])
    >>> sets.evaluate(metric("ap")), sets.expected(metric("ap"), 2).round(6)
    (array([0.68333333]), array([0.86756]))
    """

    n_better: IntArray
    n_tied: IntArray
    level: IntArray
    n_irrelevant: IntArray

    def __post_init__(self) -> None:
        for column in fields(RelevantSets):
            is_per_ranking = column.name == "n_irrelevant"
            counts = integers(getattr(self, column.name), column.name, int(is_per_ranking))
            object.__setattr__(self, column.name, counts)
            if self.n_better.ndim != 2 or self.n_better.shape[1] == 0:
                raise ValueError(
                    f"n_better must have shape (n_rankings, n_relevant), got {self.n_better.shape}"
                )
            shape = self.n_better.shape[:1] if is_per_ranking else self.n_better.shape
            if counts.shape != shape:
                raise ValueError(f"{column.name} must have shape {shape}, got {counts.shape}")
        self._check_levels()
        self._check_counts()

    def __repr__(self) -> str:
        rankings, relevant = self.n_better.shape
        return (
            f"RelevantSets(rankings={rankings}, relevant={relevant}, "
            f"n_irrelevant={span(self.n_irrelevant)})"
        )

    def _check_levels(self) -> None:
        dense = np.sort(self.level, axis=1)
        has_gap = (dense[:, 0] != 0) | (np.diff(dense, axis=1) > 1).any(axis=1)
        if has_gap.any():
            row = int(np.argmax(has_gap))
            raise ValueError(
                "level must be dense, 0 for the best item and no number left out, got "
                f"{as_written(self.level[row].tolist())} in ranking {row}"
            )

    def _check_counts(self) -> None:
        level, better, tied = (
            np.take_along_axis(array, self._order, axis=1)
            for array in (self.level, self.n_better, self.n_tied)
        )
        is_same_level = np.diff(level, axis=1) == 0
        is_unequal = is_same_level & ((np.diff(better, axis=1) != 0) | (np.diff(tied, axis=1) != 0))
        is_early = ~is_same_level & (better[:, 1:] < better[:, :-1] + tied[:, :-1])
        is_beyond = better[:, -1] + tied[:, -1] > self.n_irrelevant
        for is_wrong, requirement in (
            (is_unequal.any(axis=1), "must be equal for items of one level, but are not: "),
            (is_early.any(axis=1), "must grow by at least the ties of the level before: "),
            (is_beyond, "must not exceed n_irrelevant with the ties: "),
        ):
            if is_wrong.any():
                row = int(np.argmax(is_wrong))
                raise ValueError(
                    f"n_better {requirement}got {as_written(better[row].tolist())} with n_tied "
                    f"{as_written(tied[row].tolist())} in ranking {row} of {self.n_irrelevant[row]}"
                )

    def evaluate(self, metric: Metric | str) -> FloatArray:
        """Value of a metric with all irrelevant candidates, averaged over the order of ties.

        Parameters
        ----------
        metric : Metric or str

        Returns
        -------
        ndarray of float, shape (n_rankings,)

        See Also
        --------
        expected : The same with a sample of the irrelevant candidates.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> RelevantSets([[0, 0]], [[1, 1]], [[0, 0]], [9]).evaluate(metric("rr")).round(6)
        array([0.833333])
        """
        metric = parsed(metric)
        if metric.linear:
            return self.expected(metric, self.n_irrelevant)
        target = self._target(metric, self.n_irrelevant)
        return target.of(self._places.all_drawn(target.values).sum(axis=1))

    def pmf(
        self,
        n_negatives: ArrayLike,
        reach: int | None = None,
        *,
        replacement: bool = False,
    ) -> FloatArray:
        """Probabilities of the number of negatives above the best, second best, ... relevant item.

        Parameters
        ----------
        n_negatives : int or array_like of int, shape (n_rankings,)
            Negatives drawn: at least 0, and at most `n_irrelevant` if distinct.
        reach : int, optional
            Return the probabilities of 0..reach - 1 negatives; all ``n_negatives + 1`` if omitted.
        replacement : bool
            How negatives are drawn.

        Returns
        -------
        ndarray of float, shape (n_rankings, n_relevant, reach)
            Absolute error below 1e-12; for items without ties also the relative one.

        Raises
        ------
        ValueError
            If `n_negatives` or `reach` is out of range.

        See Also
        --------
        sampled_metrics.Protocol.pmf : The same for true ranks.

        Examples
        --------
        >>> RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8]).pmf(2).round(4)
        array([[[1.    , 0.    , 0.    ],
                [0.2857, 0.5536, 0.1607]]])
        """
        draws = self._draws(n_negatives, replacement)
        full_width = int(draws.max(initial=0)) + 1
        width = full_width if reach is None else integer(reach, "reach", 1)
        return self._places.pmf(draws, replacement, width)

    def expected(
        self,
        metric: Metric | str | Estimator | Sequence[Metric | str | Estimator],
        n_negatives: ArrayLike,
        *,
        replacement: bool = False,
    ) -> FloatArray:
        """Exact expectation of the sampled metric, over draws and the order of ties.

        Parameters
        ----------
        metric : Metric, str, Estimator, or list of these
            The protocol of an estimator must have as many relevant items and negatives. A list
            takes little longer than one of its elements.
        n_negatives, replacement
            As in :meth:`pmf`.

        Returns
        -------
        ndarray of float, shape (n_rankings,), or (n_metrics, n_rankings) for a list

        Raises
        ------
        ValueError
            As :meth:`pmf`, or if an estimator is for other numbers of items or negatives, or AUC is
            asked for without negatives.

        See Also
        --------
        variance : How much it varies from sample to sample.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> sets = RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8])
        >>> sets.expected([metric("auc"), metric("precision@2")], 4).round(6)
        array([[0.78125 ],
               [0.521429]])
        """
        is_list = isinstance(metric, (list, tuple))
        draws = self._draws(n_negatives, replacement)
        metrics: Any = metric if is_list else [metric]
        targets = [self._target(element, draws) for element in metrics]
        width = max((t.values.shape[1] for t in targets if not t.linear), default=1)
        values = np.zeros((len(targets), self.n_better.shape[1], width))
        for target, padded in zip(targets, values, strict=True):
            if not target.linear:
                padded[:, : target.values.shape[1]] = target.values
        sums = self._places.expected(draws, replacement, values).sum(axis=2)
        for target, total in zip(targets, sums, strict=True):
            if target.linear:
                total[:] = self._places.mean(draws).sum(axis=1)
        expectations = np.array([t.of(total) for t, total in zip(targets, sums, strict=True)])
        return expectations if is_list else np.asarray(expectations[0])

    def variance(
        self,
        metric: Metric | str | Estimator,
        n_negatives: ArrayLike,
        *,
        replacement: bool = False,
    ) -> FloatArray:
        """Exact variance of the sampled metric over draws, for rankings without ties.

        The time for a ranking grows with the square of the cut-off, or of the number of negatives
        for a metric without cut-off. Where items tie, break the ties at random.

        Parameters
        ----------
        metric : Metric, str or Estimator
        n_negatives, replacement
            As in :meth:`pmf`.

        Returns
        -------
        ndarray of float, shape (n_rankings,)
            Absolute error below 1e-12.

        Raises
        ------
        ValueError
            As :meth:`expected`, or if items tie.

        See Also
        --------
        expected : The expectation.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> sets = RelevantSets([[0, 3]], [[0, 0]], [[0, 1]], [8])
        >>> sets.variance(metric("ap"), 2).round(6)
        array([0.008105])
        """
        draws, places = self._draws(n_negatives, replacement), self._places
        is_tied = (places.tied > 0) | (places.size > 1)
        if is_tied.any():
            row = int(np.argmax(is_tied.any(axis=1)))
            raise ValueError(
                f"variance is for rankings without ties, got some in ranking {row}: break them at "
                "random"
            )
        target = self._target(metric, draws)
        width, square = target.values.shape[1], np.zeros(draws.size)
        for block in blocks(np.full(draws.size, places.better.shape[1] * width * width)):
            counts = places.better[block], places.total[block], draws[block]
            square[block] = second_moment(*counts, target.values, replacement)
        mean = (self.expected(metric, draws, replacement=replacement) - target.shift) / target.scale
        return np.asarray(target.scale**2 * np.maximum(square - mean**2, 0.0))

    @cached_property
    def _order(self) -> IntArray:
        """The items of each ranking, the best first."""
        return np.argsort(self.level, axis=1, kind="stable")

    @cached_property
    def _places(self) -> Places:
        level, better, tied = (
            np.take_along_axis(array, self._order, axis=1)
            for array in (self.level, self.n_better, self.n_tied)
        )
        is_same_level = level[:, :, np.newaxis] == level[:, np.newaxis, :]
        n_before = (level[:, :, np.newaxis] > level[:, np.newaxis, :]).sum(axis=2)
        place = np.arange(1, level.shape[1] + 1) - n_before
        return Places(better, tied, self.n_irrelevant, place, is_same_level.sum(axis=2))

    def _draws(self, n_negatives: ArrayLike, replacement: bool) -> IntArray:
        """The number of negatives drawn for each ranking."""
        draws = integers(n_negatives, "n_negatives", 0)
        if draws.shape not in ((), self.n_irrelevant.shape):
            raise ValueError(
                f"n_negatives must be one number or have shape {self.n_irrelevant.shape}, got "
                f"shape {draws.shape}"
            )
        draws = np.broadcast_to(draws, self.n_irrelevant.shape).copy()
        is_too_many = draws > self.n_irrelevant
        if not replacement and is_too_many.any():
            row = int(np.argmax(is_too_many))
            raise ValueError(
                f"n_negatives must be <= {self.n_irrelevant[row]}, the irrelevant candidates of "
                f"ranking {row}, got {draws[row]}"
            )
        return draws

    def _target(self, metric: Metric | str | Estimator, draws: IntArray) -> _Target:
        """The metric as values over the negatives above the j-th best item, for each j."""
        scorer = metric if isinstance(metric, Estimator) else parsed(metric)
        relevant, ones = self.n_better.shape[1], np.ones(draws.size)
        most_draws = int(draws.max(initial=0))
        if isinstance(scorer, Estimator):
            protocol = scorer.protocol
            required = (relevant, {protocol.n_negatives})
            if (protocol.n_relevant, set(draws.tolist()) | {protocol.n_negatives}) != required:
                raise ValueError(
                    f"the estimator must be for {relevant} relevant items and {most_draws} "
                    f"negatives, got one for {protocol.n_relevant} and {protocol.n_negatives}"
                )
            return _Target(np.atleast_2d(scorer.values), ones, 0.0).trimmed()
        j = np.arange(1, relevant + 1)[:, np.newaxis]
        if scorer.linear:  # linear in the counts, with a factor that depends on N
            if (draws == 0).any():
                raise ValueError("n_negatives must be >= 1 for auc, got 0")
            counts = np.tile(np.arange(most_draws + 1.0), (relevant, 1))
            return _Target(counts, -ones / (draws * float(relevant)), 1.0, linear=True)
        k = scorer.cutoff
        width = most_draws + 1 if k is None else min(k, most_draws + 1)
        values = scorer.term(np.arange(width) + j, j, relevant)
        return _Target(values, ones, 0.0).trimmed()


@dataclass(frozen=True, eq=False)
class _Target:
    """``shift + scale * sum over j of values[j, negatives above the j-th best]``.

    `values` has shape (n_relevant, reach) and is 0 beyond `reach`; `scale` has an entry per
    ranking. `linear`: the values are the counts themselves.
    """

    values: FloatArray
    scale: FloatArray
    shift: float
    linear: bool = False

    def of(self, total: FloatArray) -> FloatArray:
        return np.asarray(self.shift + self.scale * total)

    def trimmed(self) -> _Target:
        """Without trailing columns of zeros."""
        nonzero_columns = np.flatnonzero((self.values != 0).any(axis=0))
        reach = int(nonzero_columns[-1]) + 1 if nonzero_columns.size else 1
        return _Target(self.values[:, :reach], self.scale, self.shift)

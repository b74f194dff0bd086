"""Several relevant items ranked together among random negatives, with ties: exact expectations.

Every metric here is a sum over j of a function of the rank of the j-th best relevant item, which is
j plus the number of negatives above it. An expectation needs the distribution of that number for
each j, a variance the joint distribution of two of them. Both follow from where the relevant items
stand among all irrelevant candidates: nothing has to be drawn.

One random order of the items breaks all ties, so that all copies of a negative share its place. The
k-th of c relevant items tied with t candidates has a negative hypergeometric number of these above
it (`tied_places`). If only one tied item is relevant and negatives are distinct, the distribution
of the negatives above it is a difference of two tails, as in :meth:`RankIntervals.sampled_pmf
<sampled_metrics.RankIntervals.sampled_pmf>`.
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
from .tied_places import Places, blocks, second_moment, spread


@dataclass(frozen=True, eq=False, repr=False)
class RelevantSets:
    """Where the relevant items of each ranking stand among the irrelevant ones, with their ties.

    Negatives are drawn from the irrelevant candidates and ranked together with the relevant items
    (ekstrand2017); items of equal score come in random order. There are three ways to draw them:

    - distinct negatives, all sets equally likely (the default);
    - ``replacement=True``: one by one, each from all candidates;
    - ``replacement=True, weighted=True``: one by one, each candidate with a probability in
      proportion to its weight, such as its number of ratings.

    A candidate that is drawn twice is in the list twice, both times above a relevant item or both
    times below it, also if their scores tie.

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
    weight_better, weight_tied : array_like of int, shape (n_rankings, n_relevant), optional
        Total weight of the candidates above the item, and of those tied with it. Candidates that
        tie with an item must have equal weights, since a total does not say which one is drawn
        more often. If they differ, give each order of the tied items as a ranking without ties, and
        average the results.
    weight_total : array_like of int, shape (n_rankings,), optional
        Weight of all irrelevant candidates, at least 1.

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
    weight_better: IntArray | None = None
    weight_tied: IntArray | None = None
    weight_total: IntArray | None = None

    def __post_init__(self) -> None:
        for column in fields(self):
            raw_counts = getattr(self, column.name)
            if raw_counts is None:
                continue
            is_per_ranking = column.name in ("n_irrelevant", "weight_total")
            counts = integers(raw_counts, column.name, int(is_per_ranking))
            object.__setattr__(self, column.name, counts)
            if self.n_better.ndim != 2 or self.n_better.shape[1] == 0:
                raise ValueError(
                    f"n_better must have shape (n_rankings, n_relevant), got {self.n_better.shape}"
                )
            shape = self.n_better.shape[:1] if is_per_ranking else self.n_better.shape
            if counts.shape != shape:
                raise ValueError(f"{column.name} must have shape {shape}, got {counts.shape}")
        self._check_levels()
        self._check_counts("n", self.n_better, self.n_tied, self.n_irrelevant, "n_irrelevant")
        weights = (self.weight_better, self.weight_tied, self.weight_total)
        if weights[0] is not None and weights[1] is not None and weights[2] is not None:
            self._check_counts("weight", weights[0], weights[1], weights[2], "weight_total")
        elif any(weight is not None for weight in weights):
            raise ValueError("weight_better, weight_tied and weight_total must be given together")

    def __repr__(self) -> str:
        rankings, relevant = self.n_better.shape
        weights = "" if self.weight_total is None else f", weight_total={span(self.weight_total)}"
        return (
            f"RelevantSets(rankings={rankings}, relevant={relevant}, "
            f"n_irrelevant={span(self.n_irrelevant)}{weights})"
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

    def _check_counts(
        self, kind: str, better: IntArray, tied: IntArray, total: IntArray, total_name: str
    ) -> None:
        order = np.argsort(self.level, axis=1, kind="stable")
        level, better, tied = (
            np.take_along_axis(array, order, axis=1) for array in (self.level, better, tied)
        )
        is_same_level = np.diff(level, axis=1) == 0
        is_unequal = is_same_level & ((np.diff(better, axis=1) != 0) | (np.diff(tied, axis=1) != 0))
        is_early = ~is_same_level & (better[:, 1:] < better[:, :-1] + tied[:, :-1])
        for is_wrong, requirement in (
            (is_unequal.any(axis=1), f"must be equal for items of one level, but are not: {kind}_"),
            (is_early.any(axis=1), f"must grow by at least the ties of the level before: {kind}_"),
            (better[:, -1] + tied[:, -1] > total, f"must not exceed {total_name} with the ties: "),
        ):
            if is_wrong.any():
                row = int(np.argmax(is_wrong))
                raise ValueError(
                    f"{kind}_better {requirement.removesuffix(f'{kind}_')}got "
                    f"{as_written(better[row].tolist())} with {kind}_tied "
                    f"{as_written(tied[row].tolist())} in ranking {row} of {total[row]}"
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
        target = self._target(metric, self.n_irrelevant)
        return target.of(self._all_terms([target])[0].sum(axis=1))

    def pmf(
        self,
        n_negatives: ArrayLike,
        reach: int | None = None,
        *,
        replacement: bool = False,
        weighted: bool = False,
    ) -> FloatArray:
        """Probabilities of the number of negatives above the best, second best, ... relevant item.

        Parameters
        ----------
        n_negatives : int or array_like of int, shape (n_rankings,)
            Negatives drawn: at least 0, and at most `n_irrelevant` if distinct.
        reach : int, optional
            Return the probabilities of 0..reach - 1 negatives; all ``n_negatives + 1`` if omitted.
        replacement, weighted : bool
            How negatives are drawn; see the class.

        Returns
        -------
        ndarray of float, shape (n_rankings, n_relevant, reach)
            Absolute error below 1e-12; for items without ties also the relative one.

        Raises
        ------
        ValueError
            If `n_negatives` or `reach` is out of range, or `weighted` comes without weights,
            without `replacement`, or with a `weight_tied` that is no multiple of `n_tied`.

        See Also
        --------
        sampled_metrics.Protocol.pmf : The same for true ranks.

        Examples
        --------
        >>> RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8]).pmf(2).round(4)
        array([[[1.    , 0.    , 0.    ],
                [0.2857, 0.5536, 0.1607]]])
        """
        places, draws = self._drawn(n_negatives, replacement, weighted)
        full_width = int(draws.max(initial=0)) + 1
        width = full_width if reach is None else integer(reach, "reach", 1)
        blocks = [places.pmf(part, draws[part], width) for part in places.blocks(width)]
        shape = (0, self.n_better.shape[1], width)
        return np.concatenate(blocks) if blocks else np.zeros(shape)

    def expected(
        self,
        metric: Metric | str | Estimator | Sequence[Metric | str | Estimator],
        n_negatives: ArrayLike,
        *,
        replacement: bool = False,
        weighted: bool = False,
    ) -> FloatArray:
        """Exact expectation of the sampled metric, over draws and the order of ties.

        Parameters
        ----------
        metric : Metric, str, Estimator, or list of these
            The protocol of an estimator must have as many relevant items and negatives. A list
            takes little longer than one of its elements.
        n_negatives, replacement, weighted
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
        places, draws = self._drawn(n_negatives, replacement, weighted)
        metrics: Any = metric if is_list else [metric]
        targets = [self._target(element, draws) for element in metrics]
        terms = self._sampled_terms(targets, places, draws)
        expectations = [
            target.of(term.sum(axis=1)) for target, term in zip(targets, terms, strict=True)
        ]
        return np.array(expectations) if is_list else expectations[0]

    def variance(
        self,
        metric: Metric | str | Estimator,
        n_negatives: ArrayLike,
        *,
        replacement: bool = False,
        weighted: bool = False,
    ) -> FloatArray:
        """Exact variance of the sampled metric, over draws and the order of ties.

        Given the number of negatives above a group of tied items, these negatives are a random
        sample of the candidates above it. So the expected sum of the terms so far is carried from
        group to group as a function of that number. The time for a ranking grows with the square of
        the cut-off, or of the number of negatives for a metric without cut-off. With replacement
        each number of tied candidates above an item, up to some dozens, is a case of its own.

        Parameters
        ----------
        metric : Metric, str or Estimator
        n_negatives, replacement, weighted
            As in :meth:`pmf`.

        Returns
        -------
        ndarray of float, shape (n_rankings,)
            Absolute error below 1e-12.

        Raises
        ------
        ValueError
            As :meth:`expected`.

        See Also
        --------
        expected : The expectation.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> sets = RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8])
        >>> sets.variance(metric("ap"), 2).round(6)
        array([0.007881])
        """
        places, draws = self._drawn(n_negatives, replacement, weighted)
        target = self._target(metric, draws)
        width = target.values.shape[1]
        second_moments = [
            second_moment(places.rows(part), draws[part], target.values)
            for part in places.blocks(width * width)
        ]
        mean_square = np.concatenate(second_moments) if second_moments else np.zeros(0)
        mean = self._sampled_terms([target], places, draws)[0].sum(axis=1)
        return np.asarray(target.scale**2 * np.maximum(mean_square - mean**2, 0.0))

    @cached_property
    def _order(self) -> IntArray:
        """The items of each ranking, the best first."""
        return np.argsort(self.level, axis=1, kind="stable")

    def _places(self, better: IntArray, tied: IntArray, total: IntArray, repeat: bool) -> Places:
        level = np.take_along_axis(self.level, self._order, axis=1)
        is_same_level = level[:, :, np.newaxis] == level[:, np.newaxis, :]
        is_before = level[:, :, np.newaxis] > level[:, np.newaxis, :]
        return Places(
            np.take_along_axis(better, self._order, axis=1),
            np.take_along_axis(tied, self._order, axis=1),
            total,
            is_before.sum(axis=2),
            is_same_level.sum(axis=2),
            np.take_along_axis(self.n_tied, self._order, axis=1),
            repeat,
        )

    def _drawn(
        self, n_negatives: ArrayLike, replacement: bool, weighted: bool
    ) -> tuple[Places, IntArray]:
        """Counts or weights around the ordered items, and the number of negatives drawn."""
        if weighted and not replacement:
            raise ValueError("weighted negatives must be drawn with replacement=True, got False")
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
        if not weighted:
            counts = (self.n_better, self.n_tied, self.n_irrelevant)
            return self._places(*counts, replacement), draws
        if self.weight_better is None or self.weight_tied is None or self.weight_total is None:
            raise ValueError("weighted negatives need weight_better, weight_tied and weight_total")
        is_unequal = self.weight_tied != self.n_tied * (self.weight_tied // self.n_tied.clip(1))
        if is_unequal.any():
            row, column = np.argwhere(is_unequal)[0].tolist()
            raise ValueError(
                "weight_tied must be a multiple of n_tied, since tied candidates must have equal "
                f"weights, got {self.weight_tied[row, column]} with n_tied "
                f"{self.n_tied[row, column]} in ranking {row}: if their weights differ, give each "
                "order of the tied items as a ranking without ties, and average the results"
            )
        weights = (self.weight_better, self.weight_tied, self.weight_total)
        return self._places(*weights, True), draws

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
            return _Target(counts, -ones / (draws * float(relevant)), 1.0)
        k = scorer.cutoff
        width = most_draws + 1 if k is None else min(k, most_draws + 1)
        values = scorer.term(np.arange(width) + j, j, relevant)
        return _Target(values, ones, 0.0).trimmed()

    def _sampled_terms(
        self, targets: Sequence[_Target], places: Places, draws: IntArray
    ) -> list[FloatArray]:
        """Expected term of each j under each target; arrays of shape (n_rankings, n_relevant)."""
        width = max((t.values.shape[1] for t in targets), default=1)
        values = np.zeros((len(targets), self.n_better.shape[1], width))
        for target, padded in zip(targets, values, strict=True):
            padded[:, : target.values.shape[1]] = target.values
        terms = np.empty((len(targets), *self.n_better.shape))
        for part in places.blocks(width):
            terms[:, part] = places.expected(part, draws[part], values)
        return [*terms]

    def _all_terms(self, targets: Sequence[_Target]) -> list[FloatArray]:
        """`_sampled_terms` with every irrelevant candidate drawn."""
        counts = (self.n_better, self.n_tied, self.n_irrelevant)
        places, relevant = self._places(*counts, False), self.n_better.shape[1]
        terms = [np.zeros(self.n_better.shape) for _ in targets]
        for target, term in zip(targets, terms, strict=True):
            reach = target.values.shape[1]
            n_possible = np.clip(np.minimum(places.tied, reach - 1 - places.better) + 1, 0, None)
            for part in blocks(n_possible.sum(axis=1)):
                item_index, above, share = spread(places.rows(part), n_possible[part])
                weighted_values = share * target.values[item_index % relevant, above]
                size = (part.stop - part.start) * relevant
                term[part] = np.bincount(item_index, weighted_values, size).reshape(-1, relevant)
        return terms


@dataclass(frozen=True, eq=False)
class _Target:
    """``shift + scale * sum over j of values[j, negatives above the j-th best]``.

    `values` has shape (n_relevant, reach) and is 0 beyond `reach`; `scale` has an entry per
    ranking.
    """

    values: FloatArray
    scale: FloatArray
    shift: float

    def of(self, total: FloatArray) -> FloatArray:
        return np.asarray(self.shift + self.scale * total)

    def trimmed(self) -> _Target:
        """Without trailing columns of zeros."""
        nonzero_columns = np.flatnonzero((self.values != 0).any(axis=0))
        reach = int(nonzero_columns[-1]) + 1 if nonzero_columns.size else 1
        return _Target(self.values[:, :reach], self.scale, self.shift)

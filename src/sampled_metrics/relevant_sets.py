"""Several relevant items ranked together among random negatives, with ties: exact expectations.

Every metric here is a sum over j of a function of the rank of the j-th best relevant item, which is
j plus the number of negatives above it. An expectation needs the distribution of that number for
each j, a variance the joint distribution of two of them. Both follow from where the relevant items
stand among all irrelevant candidates: nothing has to be drawn.

Ties are broken at random. The k-th of c relevant items tied with t candidates has a negative
hypergeometric number of these above it (`_share_above`). If only one tied item is relevant, the
distribution of the negatives above it is a difference of two tails, as in
:meth:`RankIntervals.sampled_pmf <sampled_metrics.RankIntervals.sampled_pmf>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, as_written, generator, integer, integers, span
from .estimators import Estimator
from .metrics import Metric
from .metrics import metric as parsed
from .numerics import distributions

_BLOCK = 1 << 21  # probabilities held at once: 16 MiB


@dataclass(frozen=True, eq=False, repr=False)
class RelevantSets:
    """Where the relevant items of each ranking stand among the irrelevant ones, with their ties.

    Negatives are drawn from the irrelevant candidates and ranked together with the relevant items
    (ekstrand2017); items of equal score come in random order. There are three ways to draw them:

    - distinct negatives, all sets equally likely (the default);
    - ``replacement=True``: one by one, each from all candidates;
    - ``replacement=True, weighted=True``: one by one, each candidate with a probability in
      proportion to its weight, such as its number of ratings.

    A candidate that is drawn twice is in the list twice.

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
        Total weight of the candidates above the item, and of those tied with it.
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
        for item in fields(self):
            given = getattr(self, item.name)
            if given is None:
                continue
            total = item.name in ("n_irrelevant", "weight_total")
            counts = integers(given, item.name, int(total))
            object.__setattr__(self, item.name, counts)
            if self.n_better.ndim != 2 or self.n_better.shape[1] == 0:
                raise ValueError(
                    f"n_better must have shape (n_rankings, n_relevant), got {self.n_better.shape}"
                )
            shape = self.n_better.shape[:1] if total else self.n_better.shape
            if counts.shape != shape:
                raise ValueError(f"{item.name} must have shape {shape}, got {counts.shape}")
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
        gap = (dense[:, 0] != 0) | (np.diff(dense, axis=1) > 1).any(axis=1)
        if gap.any():
            row = int(np.argmax(gap))
            raise ValueError(
                "level must be dense, 0 for the best item and no number left out, got "
                f"{as_written(self.level[row].tolist())} in ranking {row}"
            )

    def _check_counts(
        self, kind: str, better: IntArray, tied: IntArray, total: IntArray, total_name: str
    ) -> None:
        order = np.argsort(self.level, axis=1, kind="stable")
        level, better, tied = (
            np.take_along_axis(each, order, axis=1) for each in (self.level, better, tied)
        )
        same = np.diff(level, axis=1) == 0
        unequal = same & ((np.diff(better, axis=1) != 0) | (np.diff(tied, axis=1) != 0))
        early = ~same & (better[:, 1:] < better[:, :-1] + tied[:, :-1])
        for wrong, said in (
            (unequal.any(axis=1), f"must be equal for items of one level, but are not: {kind}_"),
            (early.any(axis=1), f"must grow by at least the ties of the level before: {kind}_"),
            (better[:, -1] + tied[:, -1] > total, f"must not exceed {total_name} with the ties: "),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                raise ValueError(
                    f"{kind}_better {said.removesuffix(f'{kind}_')}got "
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
            If `n_negatives` or `reach` is out of range, or `weighted` comes without weights or
            without `replacement`.

        See Also
        --------
        sampled_metrics.Protocol.pmf : The same for true ranks.

        Examples
        --------
        >>> RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8]).pmf(2).round(4)
        array([[[1.    , 0.    , 0.    ],
                [0.2857, 0.5536, 0.1607]]])
        """
        places, drawn = self._drawn(n_negatives, replacement, weighted)
        whole = int(drawn.max(initial=0)) + 1
        width = whole if reach is None else integer(reach, "reach", 1)
        blocks = [places.pmf(part, drawn[part], width) for part in places.blocks(width)]
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
        several = isinstance(metric, (list, tuple))
        places, drawn = self._drawn(n_negatives, replacement, weighted)
        given: Any = metric if several else [metric]
        targets = [self._target(each, drawn) for each in given]
        terms = self._sampled_terms(targets, places, drawn)
        found = [t.of(term.sum(axis=1)) for t, term in zip(targets, terms, strict=True)]
        return np.array(found) if several else found[0]

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
        the cut-off, or of the number of negatives for a metric without cut-off.

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
        draw : Simulated runs.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> sets = RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8])
        >>> sets.variance(metric("ap"), 2).round(6)
        array([0.007881])
        """
        places, drawn = self._drawn(n_negatives, replacement, weighted)
        target = self._target(metric, drawn)
        width = target.values.shape[1]
        found = [
            _second_moment(places.rows(part), drawn[part], target.values)
            for part in places.blocks(width * width)
        ]
        second = np.concatenate(found) if found else np.zeros(0)
        mean = self._sampled_terms([target], places, drawn)[0].sum(axis=1)
        return np.asarray(target.scale**2 * np.maximum(second - mean**2, 0.0))

    def draw(
        self,
        n_negatives: ArrayLike,
        rng: int | np.random.Generator,
        *,
        replacement: bool = False,
        weighted: bool = False,
    ) -> IntArray:
        """Draw the negatives of every ranking once and break ties: one simulated run.

        Parameters
        ----------
        n_negatives, replacement, weighted
            As in :meth:`pmf`.
        rng : int or numpy.random.Generator
            A seed or a generator.

        Returns
        -------
        ndarray of int, shape (n_rankings, n_relevant)
            Rank of each relevant item among the negatives and the other relevant items, 1 the best;
            in the order of the items.

        Raises
        ------
        ValueError
            As :meth:`pmf`, or if `rng` is neither a seed nor a generator.

        See Also
        --------
        expected, variance : Exact moments over many runs.

        Examples
        --------
        >>> sets = RelevantSets([[3, 0]] * 2, [[1, 0]] * 2, [[1, 0]] * 2, [8, 8])
        >>> sets.draw(4, rng=1)
        array([[5, 1],
               [3, 1]])
        """
        places, left = self._drawn(n_negatives, replacement, weighted)
        relevant, rng = self.n_better.shape[1], generator(rng)
        height = rng.random(self.n_better.shape)
        # Ties: relevant items and decoys all get a random height, the lowest comes first.
        order = np.lexsort((height, self.level))
        height = np.take_along_axis(height, order, axis=1)
        ranks = np.empty_like(self.n_better)
        above, level_left, passed = np.zeros_like(left), np.zeros_like(left), np.zeros_like(left)
        floor = np.zeros(left.size)
        for j in range(relevant):
            new = places.first[:, j] == j
            above += np.where(new, level_left, 0)
            better, tied = places.better[:, j], places.tied[:, j]
            gap = np.where(new, better - passed, 0)
            found = places.draw(gap, places.total - passed, left, rng)
            passed, left, above = passed + gap, left - found, above + found
            gap = np.where(new, tied, 0)
            found = places.draw(gap, places.total - passed, left, rng)
            passed, left = passed + gap, left - found
            level_left = np.where(new, found, level_left)
            floor = np.where(new, 0.0, floor)
            found = rng.binomial(level_left, (height[:, j] - floor) / (1.0 - floor))
            above, level_left, floor = above + found, level_left - found, height[:, j]
            np.put_along_axis(ranks, order[:, j : j + 1], (above + j + 1)[:, np.newaxis], axis=1)
        return ranks

    @cached_property
    def _order(self) -> IntArray:
        """The items of each ranking, the best first."""
        return np.argsort(self.level, axis=1, kind="stable")

    def _places(self, better: IntArray, tied: IntArray, total: IntArray, repeat: bool) -> _Places:
        level = np.take_along_axis(self.level, self._order, axis=1)
        same = level[:, :, np.newaxis] == level[:, np.newaxis, :]
        before = level[:, :, np.newaxis] > level[:, np.newaxis, :]
        return _Places(
            np.take_along_axis(better, self._order, axis=1),
            np.take_along_axis(tied, self._order, axis=1),
            total,
            before.sum(axis=2),
            same.sum(axis=2),
            repeat,
        )

    def _drawn(
        self, n_negatives: ArrayLike, replacement: bool, weighted: bool
    ) -> tuple[_Places, IntArray]:
        """Counts or weights around the ordered items, and the number of negatives drawn."""
        if weighted and not replacement:
            raise ValueError("weighted decoys are drawn with replacement=True, got False")
        drawn = integers(n_negatives, "n_negatives", 0)
        if drawn.shape not in ((), self.n_irrelevant.shape):
            raise ValueError(
                f"n_negatives must be one number or have shape {self.n_irrelevant.shape}, got "
                f"shape {drawn.shape}"
            )
        drawn = np.broadcast_to(drawn, self.n_irrelevant.shape).copy()
        over = drawn > self.n_irrelevant
        if not replacement and over.any():
            row = int(np.argmax(over))
            raise ValueError(
                f"n_negatives must be <= {self.n_irrelevant[row]}, the irrelevant candidates of "
                f"ranking {row}, got {drawn[row]}"
            )
        if not weighted:
            counts = (self.n_better, self.n_tied, self.n_irrelevant)
            return self._places(*counts, replacement), drawn
        if self.weight_better is None or self.weight_tied is None or self.weight_total is None:
            raise ValueError("weighted decoys need weight_better, weight_tied and weight_total")
        weights = (self.weight_better, self.weight_tied, self.weight_total)
        return self._places(*weights, True), drawn

    def _target(self, given: Metric | str | Estimator, drawn: IntArray) -> _Target:
        """The metric as values over the negatives above the j-th best item, for each j."""
        wanted = given if isinstance(given, Estimator) else parsed(given)
        relevant, ones = self.n_better.shape[1], np.ones(drawn.size)
        most = int(drawn.max(initial=0))
        if isinstance(wanted, Estimator):
            protocol = wanted.protocol
            needed = (relevant, {protocol.n_negatives})
            if (protocol.n_relevant, set(drawn.tolist()) | {protocol.n_negatives}) != needed:
                raise ValueError(
                    f"the estimator must be for {relevant} relevant items and {most} negatives, "
                    f"got one for {protocol.n_relevant} and {protocol.n_negatives}"
                )
            return _Target(np.atleast_2d(wanted.values), ones, 0.0).trimmed()
        j = np.arange(1, relevant + 1)[:, np.newaxis]
        if wanted.linear:  # linear in the counts, with a factor that depends on N
            if (drawn == 0).any():
                raise ValueError("n_negatives must be >= 1 for auc, got 0")
            counts = np.tile(np.arange(most + 1.0), (relevant, 1))
            return _Target(counts, -ones / (drawn * float(relevant)), 1.0)
        k = wanted.cutoff
        width = most + 1 if k is None else min(k, most + 1)
        values = wanted.term(np.arange(width) + j, j, relevant)
        return _Target(values, ones, 0.0).trimmed()

    def _sampled_terms(
        self, targets: Sequence[_Target], places: _Places, drawn: IntArray
    ) -> list[FloatArray]:
        """Expected term of each j under each target; arrays of shape (n_rankings, n_relevant)."""
        width = max((t.values.shape[1] for t in targets), default=1)
        values = np.zeros((len(targets), self.n_better.shape[1], width))
        for target, padded in zip(targets, values, strict=True):
            padded[:, : target.values.shape[1]] = target.values
        terms = np.empty((len(targets), *self.n_better.shape))
        for part in places.blocks(width):
            terms[:, part] = places.expected(part, drawn[part], values)
        return [*terms]

    def _all_terms(self, targets: Sequence[_Target]) -> list[FloatArray]:
        """`_sampled_terms` with every irrelevant candidate drawn."""
        counts = (self.n_better, self.n_tied, self.n_irrelevant)
        places, relevant = self._places(*counts, False), self.n_better.shape[1]
        terms = [np.zeros(self.n_better.shape) for _ in targets]
        for target, term in zip(targets, terms, strict=True):
            reach = target.values.shape[1]
            within = np.clip(np.minimum(places.tied, reach - 1 - places.better) + 1, 0, None)
            for part in _blocks(within.sum(axis=1)):
                row, above, share = _spread(places.rows(part), within[part])
                value = share * target.values[row % relevant, above]
                size = (part.stop - part.start) * relevant
                term[part] = np.bincount(row, value, size).reshape(-1, relevant)
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
        used = np.flatnonzero((self.values != 0).any(axis=0))
        reach = int(used[-1]) + 1 if used.size else 1
        return _Target(self.values[:, :reach], self.scale, self.shift)


@dataclass(frozen=True, eq=False)
class _Places:
    """Candidates, or their weights, around the best, second best, ... item of each ranking.

    Shapes (n_rankings, n_relevant), but `total` (n_rankings,). `first` is the number of relevant
    items before the item's tied group, `size` that group's relevant items; `repeat`: with
    replacement.
    """

    better: IntArray
    tied: IntArray
    total: IntArray
    first: IntArray
    size: IntArray
    repeat: bool

    def rows(self, part: slice | IntArray) -> _Places:
        names = ("better", "tied", "total", "first", "size")
        return replace(self, **{name: getattr(self, name)[part] for name in names})

    def blocks(self, width: int) -> Iterator[slice]:
        return _blocks(np.full(self.total.size, self.better.shape[1] * width))

    def draw(
        self, marked: IntArray, pool: IntArray, draws: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Draw how many of `draws` negatives are among the marked candidates of the pool."""
        if self.repeat:
            return np.asarray(rng.binomial(draws, marked / np.maximum(pool, 1)))
        return np.asarray(rng.hypergeometric(marked, pool - marked, draws))

    def pmf(self, part: slice, draws: IntArray, width: int) -> FloatArray:
        """Distributions of the negatives above each item; shape (rows, n_relevant, width)."""
        own = self.rows(part)
        relevant = own.better.shape[1]
        better, tied, size = own.better.ravel(), own.tied.ravel(), own.size.ravel()
        total, drawn = np.repeat(own.total, relevant), np.repeat(draws, relevant)
        law = np.empty((better.size, width))
        plain = tied == 0
        law[plain] = distributions.law(
            drawn[plain], better[plain], total[plain], self.repeat, width
        )
        alone = ~plain & (size == 1)
        law[alone] = _tail_difference(
            drawn[alone], better[alone], tied[alone], total[alone], width, self.repeat
        )
        for at, found in own.mixtures(draws, width):
            law[at] = found
        return law.reshape(-1, relevant, width)

    def expected(self, part: slice, draws: IntArray, values: FloatArray) -> FloatArray:
        """Expected ``values[t, j, negatives above the j-th item]``; shape (t, rows, n_relevant).

        `values` has shape (t, n_relevant, width) and is 0 beyond. An item that is tied with
        irrelevant candidates only has a difference of two tails (`_tail_difference`). Summation by
        parts turns it into a difference of two expectations, of the sums of the values from each
        count on.
        """
        own = self.rows(part)
        relevant, width = values.shape[1:]
        better, tied, size = own.better.ravel(), own.tied.ravel(), own.size.ravel()
        total, drawn = np.repeat(own.total, relevant), np.repeat(draws, relevant)
        place = np.tile(np.arange(relevant), own.total.size)
        plain, more = np.flatnonzero(tied == 0), int(not self.repeat)
        alone = np.flatnonzero((tied > 0) & (size == 1))
        pool, most = total[alone] + more, drawn[alone] + 1
        marked = better[alone], better[alone] + tied[alone] + more
        found = _expectations(
            np.concatenate([drawn[plain], most, most]),
            np.concatenate([better[plain], *marked]),
            np.concatenate([total[plain], pool, pool]),
            np.concatenate([place[plain], *[place[alone] + relevant] * 2]),
            np.concatenate([values, values[..., ::-1].cumsum(axis=2)[..., ::-1]], axis=1),
            self.repeat,
        )
        upper, lower = found[:, plain.size :].reshape(len(values), 2, -1).swapaxes(0, 1)
        terms = np.empty((len(values), better.size))
        terms[:, plain] = found[:, : plain.size]
        terms[:, alone] = pool / (most * (tied[alone] + float(more))) * (upper - lower)
        for at, law in own.mixtures(draws, width):
            terms[:, at] = np.einsum("rcx,trcx->trc", law, values[:, place[at]])
        return terms.reshape(len(values), -1, relevant)

    def mixtures(self, draws: IntArray, width: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Groups of c >= 2 relevant items tied with candidates: their raveled indices, (rows, c),
        and the distributions of the negatives above each, (rows, c, width).
        """
        relevant = self.better.shape[1]
        better, tied, size = self.better.ravel(), self.tied.ravel(), self.size.ravel()
        total, drawn = np.repeat(self.total, relevant), np.repeat(draws, relevant)
        opens = (tied > 0) & (self.first.ravel() == np.tile(np.arange(relevant), self.total.size))
        mixture = _mixed_repeats if self.repeat else _mixed_distinct
        for c in range(2, relevant + 1):  # c relevant items that are tied follow one another
            at = np.flatnonzero(opens & (size == c))
            if at.size:
                law = mixture(drawn[at], better[at], tied[at], total[at], c, width)
                yield at[:, np.newaxis] + np.arange(c), law


def _blocks(costs: IntArray) -> Iterator[slice]:
    """Slices of neighbouring rows with a total cost of at most about `_BLOCK`."""
    start, spent = 0, 0
    for row, cost in enumerate(costs.tolist()):
        if spent and spent + cost > _BLOCK:
            yield slice(start, row)
            start, spent = row, 0
        spent += max(cost, 1)
    if spent:
        yield slice(start, costs.size)


def _expectations(
    draws: IntArray,
    marked: IntArray,
    pool: IntArray,
    row: IntArray,
    values: FloatArray,
    repeat: bool,
) -> FloatArray:
    """Expected ``values[t, row, X]`` for the number X of marked candidates drawn; shape (t, size).

    `values` has shape (t, rows, width) and is 0 beyond. Counts that have a probability below
    `_NEGLIGIBLE` together are left out. Most distributions then need few columns, and those that
    fit are normalised to a sum of 1, which is much faster than to compute one of their
    probabilities.
    """
    width = values.shape[2]
    found = np.zeros((len(values), draws.size))
    mean = draws * (marked / pool)
    certain = (draws == pool) & (not repeat)
    at = np.flatnonzero(certain & (marked < width))
    found[:, at] = values[:, row[at], marked[at]]
    values = np.concatenate([values, np.zeros((*values.shape[:2], 1))], axis=2)
    left = np.flatnonzero(~certain & (mean < _least_mean(width)))
    left = left[np.argsort(row[left], kind="stable")]

    def add(at: IntArray, first: int, columns: int, whole: bool) -> None:
        law = distributions.law(
            draws[at], marked[at], pool[at], repeat, columns, whole=whole, first=first
        )
        ends = np.flatnonzero(np.diff(row[at], append=-1)) + 1
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            of = values[:, row[at[start]], first : first + columns]
            found[:, at[start:end]] = of @ law[start:end, : of.shape[1]].T

    # Large means: only the counts around them, for rows whose means are near one another.
    t = _bernstein(mean[left] * (1 - marked[left] / pool[left]))
    low = np.maximum(np.floor(mean[left] - t), 0).astype(np.int64)
    high = np.minimum(np.ceil(mean[left] + t).astype(np.int64), draws[left])
    group = np.where((low > 0) & (high <= width), (mean[left] / _WINDOW).astype(np.int64), -1)
    for each in np.unique(group[group >= 0]):
        mine = group == each
        first = int(low[mine].min())
        add(left[mine], first, int(high[mine].max()) + 1 - first, True)
    left = left[group < 0]

    columns, ladder = width, [width]
    while columns > 16:
        columns = (columns + 1) // 2
        ladder.append(columns)
    ladder.reverse()
    step = np.searchsorted([_most_mean(each) for each in ladder], mean[left])
    for i, columns in enumerate(ladder):
        if (step == i).any():
            add(left[step == i], 0, columns, True)
    at = left[step == len(ladder)]
    if at.size:  # one column more may hold them all
        whole = bool(draws[at].max() == width)
        add(at, 0, width + whole, whole)
    return found


#: Means that are nearer than this to one another are treated together.
_WINDOW = 32.0


def _bernstein(variance: FloatArray) -> FloatArray:
    """Distance from the mean at which larger and smaller counts are negligible, by Bernstein."""
    half = -_NEGLIGIBLE / 3
    return np.asarray(half + np.sqrt(half**2 - 2 * _NEGLIGIBLE * variance))


#: Logarithm of a probability that adds nothing to 16 digits.
_NEGLIGIBLE = -46.0


def _log_tail(count: float, mean: float) -> float:
    """Chernoff's bound on the log-probability of counts from `count` on, away from the mean.

    It is Poisson's; binomial and hypergeometric tails are lighter (hoeffding1963).
    """
    return count - mean + (count * math.log(mean / count) if count else 0.0)


@cache
def _most_mean(width: int) -> float:
    """The largest mean with which counts of `width` or more are negligible."""
    return _bisected(lambda mean: _log_tail(width, mean) <= _NEGLIGIBLE, 1e-9, width)


@cache
def _least_mean(width: int) -> float:
    """The least mean with which counts below `width` are negligible."""
    return _bisected(
        lambda mean: _log_tail(width - 1, mean) > _NEGLIGIBLE, max(width - 1, 1e-9), width + 1e6
    )


def _bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number for which `holds`, true of `low` and false of `high`."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _tail_difference(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, width: int, repeat: bool
) -> FloatArray:
    """Distribution of the negatives above a relevant item that is tied with irrelevant ones only.

    Without replacement as in `RankIntervals.sampled_pmf`. With replacement, the share of the tied
    weight above the item is uniform; integrating the binomial probabilities over it gives the same
    difference of two tails, of one more draw.
    """
    more = 0 if repeat else 1
    upper, lower = (
        np.cumsum(distributions.law(draws + 1, marked, pool + more, repeat, width), axis=1)
        for marked in (better, better + tied + more)
    )
    scale = (pool + more) / ((draws + 1.0) * (tied + more))
    return np.asarray(np.maximum(scale[:, np.newaxis] * (upper - lower), 0.0))


def _mixed_distinct(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, size: int, width: int
) -> FloatArray:
    """Distributions of distinct negatives above tied relevant items; shape (rows, size, width).

    A mixture over the number of tied candidates above the item.
    """
    law = np.empty((draws.size, size, width))
    for part in _blocks((tied + 1) * width):
        row = np.repeat(np.arange(part.stop - part.start), tied[part] + 1)
        starts = np.cumsum(tied[part] + 1) - tied[part] - 1
        among = np.arange(row.size) - starts[row]
        above = better[part][row] + among
        # With so many above it, fewer than `width` of them are drawn with probability 1e-26.
        mean = draws[part][row] * above / pool[part][row]
        kept = (mean < width) | ((mean - width) ** 2 < 120 * mean)
        kept[starts] = True
        row, among, above = row[kept], among[kept], above[kept]
        starts = np.searchsorted(row, np.arange(part.stop - part.start))
        counts = distributions.law(draws[part][row], above, pool[part][row], False, width)
        for k in range(1, size + 1):
            share = _share_above(among, tied[part][row], k, size)
            law[part, k - 1] = np.add.reduceat(share[:, np.newaxis] * counts, starts, axis=0)
    return law


def _mixed_repeats(
    draws: IntArray, better: IntArray, tied: IntArray, pool: IntArray, size: int, width: int
) -> FloatArray:
    """`_mixed_distinct` with replacement.

    The share u of the tied weight above the k-th item has a Beta distribution. The binomial
    probabilities are polynomials in u, integrated by a Gauss rule; its error falls at least as ``(e
    * expected / (4 * nodes)) ** (2 * nodes)``, with `expected` tied candidates drawn.
    """
    from scipy.stats import beta  # takes as long to import as all the rest

    law = np.zeros((draws.size, size, width))
    for part in _blocks(np.full(draws.size, size * width)):
        given = draws[part], better[part], tied[part], pool[part]
        expected = float((given[0] * (given[2] / given[3])).max())
        exact = (int(given[0].max()) + size) // 2 + 1
        nodes, weights = np.polynomial.legendre.leggauss(min(exact, 20 + size + int(expected)))
        for u, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
            counts = distributions.law(given[0], given[1] + u * given[2], given[3], True, width)
            for k in range(1, size + 1):
                law[part, k - 1] += weight * beta.pdf(u, k, size + 1 - k) * counts
    return law


#: Relevant items of one score whose shares are computed by multiplication.
_FEW = 10


def _share_above(
    among: ArrayLike, tied: ArrayLike, place: ArrayLike, size: ArrayLike
) -> FloatArray:
    """Probability that `among` of `tied` candidates come before the place-th of `size` others.

    Negative hypergeometric: the first among + place - 1 hold place - 1 of the others, then comes
    one.
    """
    if isinstance(place, int) and isinstance(size, int) and size <= _FEW:
        above, rest = np.asarray(among, dtype=float), np.subtract(tied, among, dtype=float)
        share = np.ones(np.broadcast_shapes(above.shape, rest.shape))
        for k in range(1, place):
            share *= (above + k) / k
        for k in range(1, size - place + 1):
            share *= (rest + k) / k
        for k in range(1, size + 1):
            share *= k / (above + rest + k)
        return np.asarray(share)
    candidates, behind, k, c = np.broadcast_arrays(among, tied, place, size)
    before, everything = candidates + k - 1, behind + c
    next_one = (c - k + 1) / (everything - before)
    return np.asarray(
        np.exp(distributions.log_hypergeometric(k - 1, before, c, everything)) * next_one
    )


def _spread(own: _Places, within: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Possible numbers of candidates above each item: raveled index, number, probability.

    Of the tied candidates 0..within - 1 are above.
    """
    relevant = own.better.shape[1]
    counts = within.ravel()
    row = np.repeat(np.arange(counts.size), counts)
    among = np.arange(row.size) - (np.cumsum(counts) - counts)[row]
    place = (np.arange(relevant) - own.first).ravel() + 1
    tied, size = own.tied.ravel()[row], own.size.ravel()[row]
    return row, own.better.ravel()[row] + among, _share_above(among, tied, place[row], size)


def _second_moment(own: _Places, draws: IntArray, values: FloatArray) -> FloatArray:
    """Expected square of the sum of ``values[j, negatives above the j-th best]``, by ranking.

    Goes through the groups of tied items from the best, batching rankings with equal groups.
    """
    relevant, width = values.shape
    moment = np.zeros(draws.size)
    passed = np.zeros_like(draws)  # candidates down to the end of the last group
    carried = np.zeros((draws.size, width))  # expected terms so far, given the decoys among these
    for start in range(relevant):
        for size in range(1, relevant - start + 1):
            rows = np.flatnonzero((own.first[:, start] == start) & (own.size[:, start] == size))
            if not rows.size:
                continue
            mean_above = draws[rows] * (own.better[rows, start] / own.total[rows])
            reached = mean_above < _least_mean(width)  # the others add nothing, here and later
            rows, mean_above = rows[reached], mean_above[reached]
            if not rows.size:
                continue
            better, tied = own.better[rows, start], own.tied[rows, start]
            so_far = _thinned(passed[rows], better, carried[rows], own.repeat)
            group = values[start : start + size]
            fits = mean_above <= _most_mean(width)
            order = np.argsort(tied, kind="stable")
            for whole in (True, False):
                some = order[fits[order] == whole]
                for part in _tied_blocks(own, rows[some], start, draws, width):
                    at = some[part]
                    moment[rows[at]] += _group_moment(
                        own.rows(rows[at]), start, draws[rows[at]], group, so_far[at], whole
                    )
            mean, _ = _group_terms(group, width - 1)
            carried[rows] = _carried(better, tied, so_far, mean, own.repeat)
            passed[rows] = better + tied
    return moment


def _tied_blocks(
    own: _Places, rows: IntArray, start: int, draws: IntArray, width: int
) -> Iterator[slice]:
    """Blocks of rankings, sorted by ties, that bound the size of tables over (above, tied)."""
    most = np.minimum(own.tied[rows, start], draws[rows]) if not own.repeat else draws[rows]
    most = np.where(own.tied[rows, start] == 0, 0, most)
    return _blocks(np.maximum.accumulate(most + 1) * width)


def _thinned(marked: IntArray, pool: IntArray, carried: FloatArray, repeat: bool) -> FloatArray:
    """``E[carried[X]]`` given 0..width - 1 negatives in the pool, X of which are marked.

    Shapes (rows,), (rows,) and (rows, width); entries for impossible counts are arbitrary.
    """
    rows, width = carried.shape
    known = np.arange(width)
    found = np.zeros((rows, width))
    some = np.flatnonzero((carried != 0).any(axis=1))
    if not some.size:
        return found
    pool = np.maximum(pool, 1)  # of an empty one no decoy comes, and none of no decoys is marked
    marked, pool = marked[some, np.newaxis], pool[some, np.newaxis]
    most = known if repeat else np.minimum(known, pool)
    law = distributions.law(most, marked, pool, repeat, width)
    found[some] = np.einsum("ryx,rx->ry", law, carried[some])
    return found


def _carried(
    better: IntArray, tied: IntArray, so_far: FloatArray, mean: FloatArray, repeat: bool
) -> FloatArray:
    """Expected sum of the terms through a group, given the negatives above its end.

    `so_far` (rows, width): terms before the group given the negatives above it; ``mean[b, t]``:
    terms of the group given b negatives above it and t tied with it.
    """
    rows, width = so_far.shape
    found = np.empty((rows, width))
    plain = tied == 0
    found[plain] = so_far[plain] + mean[:, 0]
    some = np.flatnonzero(~plain)
    if some.size:
        above, pool = better[some, np.newaxis], (better + tied)[some, np.newaxis]
        most = np.arange(width) if repeat else np.minimum(np.arange(width), pool)
        law = distributions.law(most, above, pool, repeat, width)
        split = np.arange(width) - np.arange(width)[:, np.newaxis]  # decoys tied: y - b
        within = np.where(split >= 0, mean[np.arange(width)[:, np.newaxis], split.clip(0)], 0.0)
        found[some] = np.einsum("ryb,rb->ry", law, so_far[some])
        found[some] += np.einsum("ryb,by->ry", law, within)
    return found


def _group_moment(
    own: _Places,
    start: int,
    draws: IntArray,
    group: FloatArray,
    so_far: FloatArray,
    whole: bool,
) -> FloatArray:
    """Second moment added by a group of tied items, in expectation over the draws.

    `whole`: more negatives above the group than the metric reaches have a negligible probability.
    """
    width = so_far.shape[1]
    better, tied = own.better[:, start], own.tied[:, start]
    above = distributions.law(draws, better, own.total, own.repeat, width, whole=whole)
    if not tied.any():
        mean, square = _group_terms(group, 0)
        return np.asarray(above @ square[:, 0] + 2.0 * (above * so_far) @ mean[:, 0])
    most = int(draws.max()) if own.repeat else int(np.minimum(tied, draws).max())
    left = np.maximum(draws[:, np.newaxis] - np.arange(width), 0)
    tied, behind = tied[:, np.newaxis], (own.total - better)[:, np.newaxis]
    if own.repeat:  # a share of the draws so small that it adds nothing to 16 digits is left out
        from scipy.stats import binom

        share = float((tied / np.maximum(behind, 1)).max())
        most = min(most, int(binom.isf(1e-20, int(draws.max()), min(share, 1.0))) + 1)
    else:
        left = np.minimum(left, behind)
    mean, square = _group_terms(group, most)
    level = distributions.law(left, tied, np.maximum(behind, 1), own.repeat, most + 1)
    joint_square = np.einsum("rbt,bt->rb", level, square)
    joint_mean = np.einsum("rbt,bt->rb", level, mean)
    return np.asarray((above * (joint_square + 2.0 * so_far * joint_mean)).sum(axis=1))


def _group_terms(group: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Mean of the sum of a group's terms, and of its square; each (width, most + 1).

    Indexed by the negatives above the group and tied with it; `group` has shape (size, width).
    """
    size, width = group.shape
    among = np.arange(width)
    reach = np.arange(width)[:, np.newaxis] + among
    tied = np.arange(most + 1)
    mean, square = np.zeros((width, most + 1)), np.zeros((width, most + 1))
    for k in range(1, size + 1):
        # What the k-th reports when b + d decoys are above it.
        report = np.where(reach < width, group[k - 1][np.minimum(reach, width - 1)], 0.0)
        before = np.zeros_like(report)  # expected terms of those before it, given d
        for i in range(1, k):
            worse = np.where(reach < width, group[i - 1][np.minimum(reach, width - 1)], 0.0)
            before += worse @ _shares(among, i, k - 1, width).T
        share = _shares(tied, k, size, width).T
        mean += report @ share
        square += (report * (report + 2.0 * before)) @ share
    return mean, square


def _shares(tied: IntArray, place: int, size: int, width: int) -> FloatArray:
    """`_share_above` for 0..width - 1 among each number of tied ones; shape (tied, width)."""
    among, most = np.arange(width), tied[:, np.newaxis]
    possible = among <= most
    share = _share_above(np.where(possible, among, 0), most, place, size)
    return np.where(possible, share, 0.0)

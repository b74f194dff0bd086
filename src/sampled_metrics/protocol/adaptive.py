"""Designs that spend negatives near the top: adaptive ones, and some items scored whole.

An adaptive design draws a few negatives for every user, and more for those whose item is still
first among them. It records the numbers of negatives drawn and above the item. By exchangeability
such an outcome has the probability of a sample of fixed size times a factor that does not depend on
the true rank (:class:`Adaptive`).

A stratified design (:class:`Stratified`) scores some items for everyone, such as popular ones or
the results of an approximate search, and samples the rest.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import FloatArray, IntArray, generator, integer, integers
from ..metrics import Metric
from ..numerics.distributions import log_hypergeometric, log_pmf
from .design import Design, one_size
from .fixed import Protocol


@dataclass(frozen=True)
class Adaptive(Design):
    """More negatives for the users whose item is near the top (after li2023).

    `first` negatives are drawn. While none of those drawn so far is above the item, their number is
    doubled, up to `most`. An outcome is how many were drawn in the end and how many of them are
    above: stopped after :math:`m_t` negatives with x above,

    .. math:: P(m_t, x \\mid r) = W_t(x)\\, P_{m_t}(x \\mid r), \\qquad
              W_t(x) = \\binom{m_t - m_{t-1}}{x} \\Big/ \\binom{m_t}{x},

    where :math:`P_m` is the distribution for a fixed number of negatives, binomial or
    hypergeometric, and W is the chance that the x of the :math:`m_t` all came in the last round:
    any order of the draws is as likely as any other. As W does not depend on the rank, the
    likelihood of a log is that of a log with fixed numbers of negatives.

    Ties are broken before negatives are drawn: each user's relevant item gets one random place
    among the items that score the same. A coin for each tied negative would make every such item
    look like one in the middle of its tie, and no counts could show the mistake.

    Attributes
    ----------
    n_items : int
        Candidates, the relevant one included; at least 2.
    first, most : int
        Negatives of the first round, at least 1, and in the end at most; `most` >= `first`.
    replacement : bool
        Whether an item may be drawn twice.

    Raises
    ------
    ValueError
        If a number is outside its range, or without replacement `most` exceeds the ``n_items - 1``
        negatives there are.

    See Also
    --------
    sampled_metrics.Protocol : A fixed number of negatives.
    sampled_metrics.estimators.bias_variance : A correction for the outcomes of either.

    Examples
    --------
    >>> design = Adaptive(n_items=10_000, first=50, most=800)
    >>> design.stages
    (50, 100, 200, 400, 800)

    Items near the top cost more scores, the relevant item's included. That leaves less bias there
    than 150 negatives for each item:

    >>> design.cost([1, 20, 100, 1_000]).round()
    array([801., 503., 153.,  51.])
    >>> from sampled_metrics.estimators import bias_variance
    >>> for each in (design, Protocol(10_000, 150)):
    ...     print(bias_variance("ndcg@10", each, gamma=0.01).bias([1, 10, 30]).round(2))
    [-0.28 -0.1  -0.02]
    [-0.73 -0.1   0.07]

    A log has a row for each user with the negatives drawn and those above:

    >>> drawn, above = design.draw([1, 100, 5_000], rng=0)
    >>> bias_variance("ndcg@10", design, gamma=0.01)(design.places(drawn, above)).round(2) + 0.0
    array([0.72, 0.  , 0.  ])
    """

    n_items: int
    first: int
    most: int
    _: KW_ONLY
    replacement: bool = True

    def __post_init__(self) -> None:
        first = integer(self.first, "first", 1)
        max_negatives = integer(self.most, "most", first)
        n_items = one_size(Protocol(self.n_items, 1, replacement=self.replacement))  # checks both
        if not self.replacement and max_negatives > n_items - 1:
            raise ValueError(
                f"most must be <= {n_items - 1}, the irrelevant items there are, when sampling "
                f"without replacement, got {max_negatives}"
            )
        Protocol(n_items, max_negatives)  # checks that their product is not too large
        for name, value in (("n_items", n_items), ("first", first), ("most", max_negatives)):
            object.__setattr__(self, name, value)

    #: Outcomes are numbered as :attr:`outcomes` lists them.
    first_outcome: ClassVar[int] = 0

    @property
    def n_negatives(self) -> int:
        """Negatives drawn, at most."""
        return self.most

    @property
    def drawn(self) -> str:
        """How negatives are drawn, in words.

        >>> Adaptive(10_000, 50, 800).drawn
        'uniformly, 50 at first, doubled up to 800 while none was above the item'
        """
        rounds = f"doubled up to {self.most} while none was above the item"
        return f"uniformly, {self.first} at first, {rounds}"

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """Negatives after each round, from `first` to `most`."""
        sizes = [self.first]
        while sizes[-1] < self.most:
            sizes.append(min(2 * sizes[-1], self.most))
        return tuple(sizes)

    @cached_property
    def outcomes(self) -> tuple[IntArray, IntArray]:
        """Negatives drawn and negatives above of each outcome; shapes (most + 1,).

        From the last round, which alone can end with none above, to the first. There are as many
        outcomes as with `most` fixed negatives.

        Examples
        --------
        >>> Adaptive(n_items=10, first=2, most=5).outcomes
        (array([5, 5, 4, 4, 2, 2]), array([0, 1, 1, 2, 1, 2]))
        """
        drawn, above = [], []
        for n_before, n_after in reversed(self._rounds):
            counts = np.arange(0 if n_after == self.most else 1, n_after - n_before + 1)
            drawn.append(np.full(counts.size, n_after))
            above.append(counts)
        return np.concatenate(drawn), np.concatenate(above)

    def places(self, drawn: ArrayLike, above: ArrayLike) -> IntArray:
        """Number outcomes as :attr:`outcomes` lists them, from 0; any shape.

        Estimators take these numbers, and fits of a population the users with each.

        Parameters
        ----------
        drawn, above : array_like of int, shape (...)
            Negatives drawn, and how many of them are above the item.

        Raises
        ------
        ValueError
            If there is no such outcome.

        Examples
        --------
        >>> Adaptive(n_items=10, first=2, most=5).places([5, 4], [0, 2])
        array([0, 3])
        """
        logged = {"drawn": drawn, "above": above}
        n_drawn, n_above = np.broadcast_arrays(
            *(integers(values, name, 0, self.most) for name, values in logged.items())
        )
        columns = (column.tolist() for column in self.outcomes)
        outcome_index = {pair: i for i, pair in enumerate(zip(*columns, strict=True))}
        pairs = list(zip(n_drawn.ravel().tolist(), n_above.ravel().tolist(), strict=True))
        invalid = [pair for pair in pairs if pair not in outcome_index]
        if invalid:
            raise ValueError(
                f"drawn must be one of {self.stages}, and above at least 1 and at most the number "
                f"drawn in the last round, or 0 of {self.most}, got {invalid[0][0]} and "
                f"{invalid[0][1]}"
            )
        return np.array([outcome_index[pair] for pair in pairs], dtype=np.int64).reshape(
            n_drawn.shape
        )

    @property
    def _rounds(self) -> list[tuple[int, int]]:
        """Negatives before and after each round."""
        return list(zip((0, *self.stages[:-1]), self.stages, strict=True))

    @cached_property
    def _log_order(self) -> FloatArray:
        """Log-probability that all the negatives above came in the last round, by outcome."""
        drawn, above = self.outcomes
        previous_stage = {n_after: n_before for n_before, n_after in self._rounds}
        n_before = np.array([previous_stage[n_after] for n_after in drawn.tolist()])
        return np.asarray(log_hypergeometric(np.zeros_like(above), n_before, above, drawn))

    def logpmf(self, rank: ArrayLike) -> FloatArray:
        """Logarithm of :meth:`pmf`, finite where that underflows; same arguments and errors.

        Examples
        --------
        >>> rare = Adaptive(n_items=1_000_000, first=100, most=1_600).logpmf(900_000)[0]
        >>> float(rare.round(3))  # that none of 1,600 is above it
        -3684.135
        """
        above = self.above(rank)[..., np.newaxis]
        drawn, negatives_above = self.outcomes
        log_probabilities = log_pmf(negatives_above, drawn, above, self.pool, self.replacement)
        return np.asarray(log_probabilities + self._log_order)

    def _first_columns(
        self, table: Any, above: np.ndarray, pool: IntArray, width: int
    ) -> FloatArray:
        parts = []
        for n_before, n_after in reversed(self._rounds):
            stage_pmf = table(n_after, above, pool, self.replacement, n_after - n_before + 1)
            parts.append(stage_pmf if n_after == self.most else stage_pmf[..., 1:])
        rows = np.concatenate(parts, axis=-1) * np.exp(self._log_order)
        return np.asarray(rows[..., :width])

    def cost(self, rank: ArrayLike) -> FloatArray:
        """Expected scores to compute for a user, the relevant item's own included.

        Arguments and errors as :meth:`pmf`; shape (...).

        Examples
        --------
        >>> float(Adaptive(n_items=5, first=1, most=2).cost(3))
        2.5
        """
        above = self.above(rank)
        expected_scores = np.full(above.shape, 1.0 + self.first)
        for n_before, n_after in self._rounds[1:]:
            p_none_above = np.exp(
                log_pmf(np.array(0), n_before, above, self.pool, self.replacement)
            )
            expected_scores += (n_after - n_before) * p_none_above
        return expected_scores

    def draw(self, rank: ArrayLike, rng: int | np.random.Generator) -> tuple[IntArray, IntArray]:
        """Draw, round by round, the negatives that are drawn and how many of them are above.

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True ranks in [1, n_items].
        rng : int or numpy.random.Generator
            A seed, or where the draws come from.

        Returns
        -------
        drawn, found : ndarray of int, shape (...)
            The two columns of a log: its number of negatives and its rank less 1.

        Raises
        ------
        ValueError
            As :meth:`pmf`, or if `rng` is neither a seed nor a generator.

        Examples
        --------
        >>> Adaptive(n_items=10_000, first=50, most=800).draw([1, 100, 5_000], rng=0)
        (array([800,  50,  50]), array([ 0,  1, 23]))
        """
        above, rng = self.above(rank), generator(rng)
        drawn, negatives_above = np.zeros_like(above), np.zeros_like(above)
        for n_before, n_after in self._rounds:
            is_active = negatives_above == 0
            if self.replacement:
                new_above = rng.binomial(n_after - n_before, above / self.pool)
            else:
                # None drawn before was above: all were drawn from the other items.
                n_below = np.maximum(self.pool - n_before - above, 0)
                new_above = rng.hypergeometric(
                    above, np.maximum(n_below, n_after - n_before - above), n_after - n_before
                )
            drawn = np.where(is_active, n_after, drawn)
            negatives_above = np.where(is_active, new_above, negatives_above)
        return drawn, negatives_above


@dataclass(frozen=True)
class Stratified(Design):
    """Some items scored whole, and the rest sampled.

    The stratum that is scored whole may be the same for all users, such as the most popular items,
    or each user's own, such as the results of an approximate search. The number of its items above
    the relevant one is then known; `position` is 1 plus that number, and the sampled rank is
    `position` plus the number of negatives above. An estimator has a row of values for each
    position.

    Parameters
    ----------
    n_items : int
        Candidates, the relevant one included.
    n_ranked : int
        Irrelevant items scored whole, at least 1.
    n_negatives : int
        Negatives sampled from the other ``n_items - 1 - n_ranked``, at least 1.
    replacement : bool
        Whether one of these may be drawn twice.

    Raises
    ------
    ValueError
        If a number is outside its range, or without replacement there are not enough items.

    Examples
    --------
    >>> design = Stratified(n_items=10_000, n_ranked=100, n_negatives=50)
    >>> design.rest, design.cost
    (Protocol(n_items=9900, n_negatives=50), 151)

    An item at rank 204 with 3 of the stratum above it, and one at rank 11 with 10. The second is
    not in the top ten, whatever the sample:

    >>> from sampled_metrics.estimators import bias_variance
    >>> made = bias_variance("recall@10", design, gamma=0.01)
    >>> made.bias([204, 11], position=[4, 11]).round(3)
    array([-0.01,  0.  ])
    """

    n_items: int
    n_ranked: int
    n_negatives: int
    _: KW_ONLY
    replacement: bool = True

    def __post_init__(self) -> None:
        n_items = one_size(Protocol(self.n_items, 1))
        object.__setattr__(self, "n_items", n_items)
        object.__setattr__(self, "n_ranked", integer(self.n_ranked, "n_ranked", 1, n_items - 2))
        object.__setattr__(self, "n_negatives", self.rest.n_negatives)

    @property
    def n_positions(self) -> int:
        """Items that are always ranked: the stratum and the relevant one."""
        return self.n_ranked + 1

    @property
    def rest(self) -> Protocol:
        """How the rest is sampled."""
        n_rest = self.n_items - self.n_ranked
        return Protocol(n_rest, self.n_negatives, replacement=self.replacement)

    @property
    def cost(self) -> int:
        """Scores to compute for a user, the relevant item's own included."""
        return self.n_positions + self.n_negatives

    def exact_term(self, metric: Metric, rank: np.ndarray, position: np.ndarray) -> FloatArray:
        """The metric at true ranks: the items of the stratum are not relevant."""
        first_position = np.ones_like(position)
        return metric.smooth_term(rank, first_position, 1, np.asarray(self.n_items))

"""Designs that spend negatives where they tell the most: adaptive, and with a part scored whole.

An adaptive design draws a few negatives for every user, and more for those whose item is still
first among them. What it records is the number of negatives drawn and the number above the item.
By exchangeability that outcome has the probability that it has in a sample of fixed size, times a
factor that does not depend on the true rank (:class:`Adaptive`). So P has a column for it like any
other, and the corrections of :mod:`sampled_metrics.estimators` follow.

A design with a stratum scored whole (:class:`Stratified`) knows exactly how many of some items are
above, popular ones or those that an approximate search finds first, and samples the rest.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ._threads import one_thread
from ._validate import FloatArray, IntArray, as_written, generator, integer, integers
from .estimators import Prior, _checked_gamma, _checked_prior
from .metrics import Metric
from .metrics import metric as parsed
from .numerics import least_squares
from .numerics.distributions import law, log_hypergeometric, log_law
from .numerics.least_squares import Law, System
from .numerics.quadrature import MARGIN, all_ranks
from .protocol import Protocol, one_size

if TYPE_CHECKING:
    from .priors import FittedPrior

#: Entries of the distribution held in memory at once.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Adaptive:
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
    bias_variance : The correction for its outcomes.
    Stratified : Some items scored whole instead.
    sampled_metrics.Protocol : A fixed number of negatives.

    Examples
    --------
    >>> design = Adaptive(n_items=10_000, first=50, most=800)
    >>> design.stages
    (50, 100, 200, 400, 800)

    Items near the top cost more scores, the relevant item's included:

    >>> design.cost([1, 100, 5_000]).round(1)
    array([801. , 153.2,  51. ])
    """

    n_items: int
    first: int
    most: int
    _: KW_ONLY
    replacement: bool = True

    def __post_init__(self) -> None:
        first = integer(self.first, "first", 1)
        most = integer(self.most, "most", first)
        # It checks the other two.
        items = one_size(Protocol(self.n_items, 1, replacement=self.replacement))
        if not self.replacement and most > items - 1:
            raise ValueError(
                f"most must be <= {items - 1}, the irrelevant items there are, when sampling "
                f"without replacement, got {most}"
            )
        Protocol(items, most)  # their product is not too large
        for name, value in (("n_items", items), ("first", first), ("most", most)):
            object.__setattr__(self, name, value)

    @property
    def pool(self) -> int:
        """Number of irrelevant items that negatives are drawn from."""
        return self.n_items - 1

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """Negatives after each round, from `first` to `most`."""
        found = [self.first]
        while found[-1] < self.most:
            found.append(min(2 * found[-1], self.most))
        return tuple(found)

    @cached_property
    def outcomes(self) -> tuple[IntArray, IntArray]:
        """Negatives drawn and negatives above of each outcome; shapes (most + 1,).

        From the last round, where none may be above, to the first one. There are as many outcomes
        as `most` fixed negatives have, and without a bound on the users they tell as much.

        Examples
        --------
        >>> Adaptive(n_items=10, first=2, most=5).outcomes
        (array([5, 5, 4, 4, 2, 2]), array([0, 1, 1, 2, 1, 2]))
        """
        drawn, above = [], []
        for before, now in reversed(self._rounds):
            counts = np.arange(0 if now == self.most else 1, now - before + 1)
            drawn.append(np.full(counts.size, now))
            above.append(counts)
        return np.concatenate(drawn), np.concatenate(above)

    def places(self, drawn: ArrayLike, above: ArrayLike) -> IntArray:
        """Where outcomes stand among `outcomes`; any shape.

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
        given = [integers(drawn, "drawn", 0, self.most), integers(above, "above", 0, self.most)]
        stops, found = np.broadcast_arrays(*given)
        columns = (each.tolist() for each in self.outcomes)
        place = {pair: i for i, pair in enumerate(zip(*columns, strict=True))}
        pairs = list(zip(stops.ravel().tolist(), found.ravel().tolist(), strict=True))
        wrong = [pair for pair in pairs if pair not in place]
        if wrong:
            raise ValueError(
                f"outcomes must be {self.stages} negatives with one or more above, or "
                f"{self.most} with none, and no more above than were drawn last, got {wrong[0]}"
            )
        return np.array([place[pair] for pair in pairs], dtype=np.int64).reshape(stops.shape)

    @property
    def _rounds(self) -> list[tuple[int, int]]:
        """Negatives before and after each round."""
        return list(zip((0, *self.stages[:-1]), self.stages, strict=True))

    @cached_property
    def _log_order(self) -> FloatArray:
        """Log-probability that all the negatives above came in the last round, by outcome."""
        drawn, above = self.outcomes
        before = {now: early for early, now in self._rounds}
        early = np.array([before[now] for now in drawn.tolist()])
        return np.asarray(log_hypergeometric(np.zeros_like(above), early, above, drawn))

    def logpmf(self, rank: ArrayLike) -> FloatArray:
        """Logarithm of :meth:`pmf`, finite where that underflows; same arguments and errors.

        Examples
        --------
        >>> rare = Adaptive(n_items=1_000_000, first=100, most=1_600).logpmf(900_000)[0]
        >>> float(rare.round(3))  # that none of 1,600 is above it
        -3684.135
        """
        above = self._above(rank)[..., np.newaxis]
        drawn, found = self.outcomes
        logs = log_law(found, drawn, above, self.pool, self.replacement)
        return np.asarray(logs + self._log_order)

    def pmf(self, rank: ArrayLike) -> FloatArray:
        """Probability of each of the `outcomes`.

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True ranks in [1, n_items].

        Returns
        -------
        ndarray of float, shape (..., most + 1)
            Relative error below 1e-12.

        Raises
        ------
        ValueError
            If a rank is fractional or out of range.

        Examples
        --------
        >>> Adaptive(n_items=5, first=1, most=2).pmf(3)  # (2, 0), (2, 1) and (1, 1)
        array([0.25, 0.25, 0.5 ])
        """
        return self.rows(self._above(rank))

    def _above(self, rank: ArrayLike) -> IntArray:
        return integers(rank, "rank", 1, self.n_items) - 1

    @property
    def n_outcomes(self) -> int:
        """Columns of P: how many `outcomes` there are."""
        return self.most + 1

    def rows(self, above: np.ndarray) -> FloatArray:
        """Rows of P for numbers of irrelevant items above, which need not be whole.

        Shape (..., n_outcomes). Unlike :meth:`pmf` this checks nothing.

        Examples
        --------
        >>> Adaptive(n_items=5, first=1, most=2).rows(np.array([2.0]))
        array([[0.25, 0.25, 0.5 ]])
        """
        parts = []
        for before, now in reversed(self._rounds):
            found = law(now, above, self.pool, self.replacement, now - before + 1)
            parts.append(found if now == self.most else found[..., 1:])
        return np.asarray(np.concatenate(parts, axis=-1) * np.exp(self._log_order))

    def cost(self, rank: ArrayLike) -> FloatArray:
        """Expected scores to compute for a user, the relevant item's own included.

        Arguments and errors as :meth:`pmf`; shape (...).

        Examples
        --------
        >>> float(Adaptive(n_items=5, first=1, most=2).cost(3))
        2.5
        """
        above = self._above(rank)
        found = np.full(above.shape, 1.0 + self.first)
        for before, now in self._rounds[1:]:
            none = np.exp(log_law(np.array(0), before, above, self.pool, self.replacement))
            found += (now - before) * none
        return found

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
        above, rng = self._above(rank), generator(rng)
        drawn, found = np.zeros_like(above), np.zeros_like(above)
        for before, now in self._rounds:
            goes_on = found == 0
            if self.replacement:
                new = rng.binomial(now - before, above / self.pool)
            else:
                # None of those drawn before was above: they are gone from the others.
                others = np.maximum(self.pool - before - above, 0)
                new = rng.hypergeometric(
                    above, np.maximum(others, now - before - above), now - before
                )
            drawn, found = np.where(goes_on, now, drawn), np.where(goes_on, new, found)
        return drawn, found


@dataclass(frozen=True)
class Stratified:
    """Some items scored whole, and the rest sampled.

    The stratum scored whole may be the same for everyone, as the most popular items, or each user's
    own, as what an approximate search finds first. The number of its items above the relevant one
    is then known, and the negatives above tell of the rest alone. The true rank is 1, plus the
    items of the stratum above, plus those of the rest above.

    Attributes
    ----------
    n_items : int
        Candidates, the relevant one included.
    n_whole : int
        Irrelevant items scored whole, at least 1.
    n_negatives : int
        Negatives sampled from the other ``n_items - 1 - n_whole``, at least 1.
    replacement : bool
        Whether one of these may be drawn twice.

    Raises
    ------
    ValueError
        If a number is outside its range, or without replacement there are not enough items.

    See Also
    --------
    bias_variance : The correction for its outcomes.
    Adaptive : Negatives by what was seen of the user.

    Examples
    --------
    >>> design = Stratified(n_items=10_000, n_whole=100, n_negatives=50)
    >>> design.rest
    Protocol(n_items=9900, n_negatives=50)
    >>> design.cost
    151
    """

    n_items: int
    n_whole: int
    n_negatives: int
    _: KW_ONLY
    replacement: bool = True

    def __post_init__(self) -> None:
        items = one_size(Protocol(self.n_items, 1))
        object.__setattr__(self, "n_items", items)
        object.__setattr__(self, "n_whole", integer(self.n_whole, "n_whole", 1, items - 2))
        object.__setattr__(self, "n_negatives", self.rest.n_negatives)

    @property
    def rest(self) -> Protocol:
        """How the rest is sampled."""
        items = self.n_items - self.n_whole
        return Protocol(items, self.n_negatives, replacement=self.replacement)

    @property
    def cost(self) -> int:
        """Scores to compute for a user, the relevant item's own included."""
        return 1 + self.n_whole + self.n_negatives


@dataclass(frozen=True, eq=False, repr=False)
class Correction:
    """A value for each outcome of a design, to be averaged over the users.

    Attributes
    ----------
    metric : Metric
        What it estimates.
    design : Adaptive or Stratified
    values : ndarray of float
        For an adaptive design of shape (most + 1,), in the order of its `outcomes`. For a
        stratified one of shape (k, n_negatives + 1): a row for 0, 1, ... items of the stratum
        above, and 0 beyond the last row.
    name : str

    See Also
    --------
    bias_variance : What makes one.
    sampled_metrics.estimators.Estimator : The same for a fixed number of negatives.

    Examples
    --------
    >>> bias_variance("recall@10", Adaptive(n_items=1_000, first=20, most=160), gamma=0.01)
    Correction('bias-variance, gamma 0.01', recall@10, <Adaptive>)
    """

    metric: Metric
    design: Adaptive | Stratified
    values: FloatArray
    name: str = "custom"

    def __repr__(self) -> str:
        return f"Correction({self.name!r}, {self.metric.name}, <{type(self.design).__name__}>)"

    def __call__(self, *outcome: ArrayLike) -> FloatArray:
        """Reported value for each user's outcome.

        Parameters
        ----------
        *outcome : array_like of int
            Of an adaptive design how many negatives were drawn and how many of them are above the
            item; of a stratified one how many items of the stratum are above, and how many
            negatives. All of one shape.

        Raises
        ------
        ValueError
            If the design has no such outcome.

        Examples
        --------
        >>> made = bias_variance("recall@10", Adaptive(1_000, 20, 160), gamma=0.01)
        >>> made([160, 160, 40], [0, 1, 1]).round(2)
        array([ 1.15,  2.17, -0.02])
        """
        design = self.design
        if isinstance(design, Stratified):
            whole = integers(outcome[0], "outcome", 0, design.n_whole)
            found = integers(outcome[1], "outcome", 0, design.n_negatives)
            return self._of(whole, found)
        return np.asarray(self.values[design.places(*outcome)])

    def _of(self, whole: IntArray, found: IntArray) -> FloatArray:
        known = whole < len(self.values)
        return np.where(known, self.values[np.where(known, whole, 0), found], 0.0)

    def expected(self, *true: ArrayLike) -> FloatArray:
        """Exact expectation: of P times the values.

        Parameters
        ----------
        *true : array_like of int, shape (...)
            Of an adaptive design the true rank. Of a stratified one the number of items above in
            the stratum and the number of those in the rest.

        Returns
        -------
        ndarray of float, shape (...)

        Raises
        ------
        ValueError
            If there are no such ranks.

        Examples
        --------
        >>> made = bias_variance("recall@10", Adaptive(1_000, 20, 160), gamma=0.01)
        >>> made.expected([1, 10, 11, 100]).round(2)
        array([1.15, 0.49, 0.42, 0.  ])
        """
        return self._moments(*true)[0]

    def variance(self, *true: ArrayLike) -> FloatArray:
        """Exact variance over the draws of negatives; arguments as `expected`.

        Examples
        --------
        >>> made = bias_variance("recall@10", Stratified(1_000, 100, 50), 0.01)
        >>> made.variance([3, 10], [200, 0]).round(3)
        array([0.001, 0.   ])
        """
        return self._moments(*true)[1]

    def bias(self, *true: ArrayLike) -> FloatArray:
        """Exact bias; arguments as `expected`.

        Examples
        --------
        With ten popular items above, no sample of the rest is needed:

        >>> made = bias_variance("recall@10", Stratified(1_000, 100, 50), 0.01)
        >>> made.bias([3, 10], [200, 0]).round(3)
        array([0.002, 0.   ])
        """
        exact = self.metric(self._rank(*true), self.design.n_items)
        return np.asarray(self.expected(*true) - exact)

    def mse(self, *true: ArrayLike) -> FloatArray:
        """Exact mean squared error: bias**2 + variance; arguments as `expected`.

        Examples
        --------
        >>> made = bias_variance("recall@10", Stratified(1_000, 100, 50), 0.01)
        >>> float(made.mse(10, 0))
        0.0
        """
        return np.asarray(self.bias(*true) ** 2 + self.variance(*true))

    def _rank(self, *true: ArrayLike) -> IntArray:
        if isinstance(self.design, Adaptive):
            return self.design._above(*true) + 1
        whole = integers(true[0], "items of the stratum above", 0, self.design.n_whole)
        most = self.design.n_items - 1 - self.design.n_whole
        return whole + integers(true[1], "items of the rest above", 0, most) + 1

    def _moments(self, *true: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Expectation and variance."""
        ranks = self._rank(*true)
        mean, spread = np.empty(ranks.size), np.empty(ranks.size)
        whole = None
        if isinstance(self.design, Stratified):
            whole = np.broadcast_to(true[0], ranks.shape).ravel()
        above = ranks.ravel() - 1 - (0 if whole is None else whole)
        for part, rows in _blocks(self.design, above):
            values = self.values
            if whole is not None:
                columns = np.arange(self.values.shape[1])
                values = self._of(whole[part, np.newaxis], columns)
            mean[part] = (rows * values).sum(axis=1)
            spread[part] = (rows * (values - mean[part, np.newaxis]) ** 2).sum(axis=1)
        return mean.reshape(ranks.shape), spread.reshape(ranks.shape)


def _blocks(design: Adaptive | Stratified, above: np.ndarray) -> Iterator[tuple[slice, FloatArray]]:
    """The distribution of what is sampled, of some numbers of items above at a time."""
    step = max(1, _BLOCK // (_sampled(design)[1] + 1))
    for start in range(0, above.size, step):
        part = slice(start, start + step)
        if isinstance(design, Adaptive):
            yield part, design.rows(above[part])
        else:
            of = design.rest
            yield part, law(of.n_negatives, above[part], int(of.pool), of.replacement)


@one_thread
def maximum_entropy(
    drawn: ArrayLike, above: ArrayLike, design: Adaptive, weight: float | None = None
) -> FittedPrior:
    """The most even distribution of true ranks that makes an adaptive log likely.

    This is :func:`sampled_metrics.priors.maximum_entropy` for the outcomes of the design. Its
    `marginal` is in the order of :attr:`Adaptive.outcomes`.

    Parameters
    ----------
    drawn, above : array_like of int, shape (n_users,)
        Negatives drawn for each user, and how many of them are above the item.
    design : Adaptive
    weight : float, optional
        Weight of the entropy beside the logarithm of the likelihood, above 0 and finite: the
        square root of the number of users if omitted.

    Returns
    -------
    sampled_metrics.priors.FittedPrior
        Its `mass` has a probability for each rank.

    Raises
    ------
    ValueError
        If there are no users, the design has no such outcome, or `weight` is not above 0 and
        finite.

    Warns
    -----
    RuntimeWarning
        If the criterion is not within 1e-6 of its best, per user and in nats.

    See Also
    --------
    bias_variance : Takes the mass as its prior.

    Examples
    --------
    >>> design = Adaptive(n_items=500, first=5, most=40)
    >>> ranks = np.array([1, 2, 5, 20, 100, 300]).repeat(100)
    >>> fitted = maximum_entropy(*design.draw(ranks, rng=0), design)
    >>> fitted.certified, float(fitted.mass[:10].sum().round(2))
    (True, 0.5)
    """
    from . import priors  # no other function here needs its solvers

    places = design.places(drawn, above)
    if not places.size:
        raise ValueError("drawn and above must hold one user or more, got none")
    counts = np.bincount(places.ravel(), minlength=design.most + 1).astype(float)
    users = float(counts.sum())
    strength = float(np.sqrt(users)) if weight is None else weight
    if not isinstance(strength, numbers.Real) or not 0 < strength < np.inf:
        raise ValueError(f"weight must be a finite number > 0, got {as_written(weight)}")
    on = np.flatnonzero(counts)
    seen, every = counts[on] / users, _Seen(design, on)
    # As in the fit of a fixed sample: nearly all the way with sums over few ranks.
    nodes, weights = all_ranks(design.n_items, 3 * design.most)
    few = priors._Quadrature(design.rows(nodes - 1.0)[:, on], np.log(weights))
    path = np.geomspace(max(users, strength), strength, int(np.log10(max(users / strength, 1))) + 2)
    at = np.ones(on.size)
    for step in path:
        at, mass, gap = priors._tilted(few, seen, users / float(step), at, 1e-6)
    at, mass, gap = priors._tilted(few, seen, users / strength, at, 1e-10, last=True)
    at, mass, gap = priors._tilted(every, seen, users / strength, at, 1e-10)
    marginal = np.zeros(design.most + 1)
    for part, rows in _blocks(design, np.arange(design.n_items)):
        marginal += mass[part] @ rows
    return priors._fitted(mass, counts, marginal, gap * strength / users, "maximum entropy")


@dataclass(frozen=True, eq=False)
class _Seen:
    """The distribution of some outcomes at all ranks, in blocks of them."""

    design: Adaptive
    columns: IntArray

    def _parts(self) -> Iterator[tuple[slice, FloatArray]]:
        for part, rows in _blocks(self.design, np.arange(self.design.n_items)):
            yield part, rows[:, self.columns]

    def expected(self, values: FloatArray) -> FloatArray:
        return np.concatenate([rows @ values for _, rows in self._parts()])

    def marginal(self, mass: FloatArray) -> FloatArray:
        return np.asarray(sum(mass[part] @ rows for part, rows in self._parts()))

    def products(self, mass: FloatArray) -> FloatArray:
        return np.asarray(sum((rows.T * mass[part]) @ rows for part, rows in self._parts()))


@dataclass(frozen=True, eq=False)
class _Outcomes(Law):
    """The distribution of an adaptive design's outcomes over a prior."""

    design: Adaptive

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        step = max(self.m + 2, _BLOCK // (self.m + 2))
        for start in range(0, self.nodes.size, step):
            part = slice(start, start + step)
            yield part, self.design.rows(self.nodes[part] - 1.0)


@one_thread
def bias_variance(
    metric: Metric | str, design: Adaptive | Stratified, gamma: float, prior: Prior = None
) -> Correction:
    """The correction with the least squared bias plus gamma times variance, for a design.

    It is that of :func:`sampled_metrics.estimators.bias_variance`, with the outcomes of the design
    in place of the sampled ranks.

    Parameters
    ----------
    metric : Metric or str
    design : Adaptive or Stratified
    gamma : float
        Weight of the variance, at least 0 and finite;
        :func:`~sampled_metrics.estimators.default_gamma` gives one.
    prior : optional
        As for :func:`sampled_metrics.estimators.least_bias`. Of a stratified design it is that of
        the rank among the rest alone, in 1..n_items - n_whole.

    Returns
    -------
    Correction

    Raises
    ------
    ValueError
        If `gamma` is negative or not finite, or the prior is none.
    IllConditionedError
        A ValueError, if `gamma` is so small that double precision cannot hold the values.

    See Also
    --------
    sampled_metrics.estimators.bias_variance : The same for a fixed number of negatives.

    Examples
    --------
    Fifty negatives for most users and 800 for few leave less bias at the top than 150 for each:

    >>> from sampled_metrics.estimators import bias_variance as fixed
    >>> design = Adaptive(n_items=10_000, first=50, most=800)
    >>> design.cost([1, 20, 100, 1_000]).round()
    array([801., 503., 153.,  51.])
    >>> bias_variance("ndcg@10", design, 0.01).bias([1, 10, 30]).round(2)
    array([-0.28, -0.1 , -0.02])
    >>> fixed("ndcg@10", Protocol(10_000, 150), 0.01).bias([1, 10, 30]).round(2)
    array([-0.73, -0.1 ,  0.07])
    """
    metric, weight = parsed(metric), _checked_gamma(gamma)
    points = None if prior is None else _checked_prior(prior, _sampled(design)[0])
    rows = np.stack(least_squares.solve(_systems(metric, design, points), weight))
    values = rows if isinstance(design, Stratified) else rows[0]
    return Correction(metric, design, values, f"bias-variance, gamma {weight:g}")


def _sampled(design: Adaptive | Stratified) -> tuple[int, int]:
    """Ranks among the items that are sampled, and negatives at most."""
    if isinstance(design, Adaptive):
        return design.n_items, design.most
    return design.n_items - design.n_whole, design.n_negatives


@lru_cache(maxsize=4)
def _systems(
    metric: Metric,
    design: Adaptive | Stratified,
    prior: tuple[tuple[int, ...], tuple[float, ...]] | None,
) -> tuple[System, ...]:
    """The least-squares problem of the metric, or of each number of items of the stratum above."""
    n, m = _sampled(design)
    cut = design.n_items if metric.k is None else metric.k
    # With as many items above as the cut-off there is nothing to estimate.
    known = min(design.n_whole + 1, cut) if isinstance(design, Stratified) else 1
    if prior is None:
        near = metric.k is None or cut <= m + MARGIN
        jumps = () if near else tuple(range(max(1, cut - known + 1), cut + 1))
        nodes, weights = all_ranks(n, m, jumps)
        weights = weights / n
    else:
        nodes, weights = np.array(prior[0], dtype=float), np.array(prior[1])
    law_of = Law(nodes, weights, n - 1, m, design.replacement)
    if isinstance(design, Adaptive):
        law_of = _Outcomes(nodes, weights, n - 1, m, design.replacement, design)
    size, one = np.array(design.n_items), np.array(1)
    targets = [metric.term_between(nodes + i, one, 1, size) for i in range(known)]
    return tuple(System(law_of, target) for target in targets)

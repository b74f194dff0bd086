"""How often one sampled evaluation finds the order of two recommenders.

The difference of two averages is a sum over users of independent differences. Its mean and
variance are sums, and its distribution is approximated as normal. Either the users are given and
only their negatives are random, or the users are drawn at random as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from ._confidence import CONFIDENCE
from ._threads import one_thread
from ._validate import FloatArray, IntArray, as_written, checked_confidence, integer, integers
from .consistency import TOLERANCE, checked_ranks, sign
from .estimators import Estimator, by_name, default_gamma
from .metrics import Metric
from .protocol import Protocol, checked, one_size

#: True ranks of users, or probabilities of ranks.
Ranks = ArrayLike | Mapping[int, float]


@dataclass(frozen=True)
class Order:
    """How often one sampled evaluation finds the order of two recommenders.

    Attributes
    ----------
    exact : float
        Average of the exact metric, first recommender less second; not 0.
    expected : float
        Expectation of the same difference in a sampled evaluation.
    sd : float
        Standard deviation of that difference from one evaluation to the next, at least 0.
    n_users : int
        Users that are averaged over.

    Raises
    ------
    ValueError
        If `exact` is 0, so that there is no order to find, a number is not finite, `sd` is
        negative or `n_users` is below 1.

    See Also
    --------
    order : The order of two recommenders.

    Examples
    --------
    >>> Order(exact=-0.02, expected=-0.01, sd=0.01, n_users=100).z
    1.0
    """

    exact: float
    expected: float
    sd: float
    n_users: int

    def __post_init__(self) -> None:
        for name in ("exact", "expected", "sd"):
            if not np.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}")
        if self.exact == 0:
            raise ValueError("exact must not be 0: two equal recommenders have no order to find")
        if self.sd < 0:
            raise ValueError(f"sd must be >= 0, got {self.sd}")
        integer(self.n_users, "n_users", 1)

    @property
    def z(self) -> float:
        """Expected difference in standard deviations; positive if it has the exact one's sign."""
        toward = float(np.sign(self.exact)) * self.expected
        if self.sd == 0:
            return float(np.sign(toward)) * np.inf if toward else 0.0
        return toward / self.sd

    @property
    def probability(self) -> float:
        """Share of sampled evaluations that find the exact order, as in krichene2020, Table 4.

        It is 0 where the two are level in every evaluation. Half of other ties count as right.

        Examples
        --------
        >>> round(Order(exact=-0.02, expected=-0.01, sd=0.01, n_users=100).probability, 4)
        0.8413
        """
        return float(ndtr(self.z)) if self.sd or self.z else 0.0

    def users(self, confidence: float = CONFIDENCE) -> int | None:
        """Fewest users like these for which `probability` reaches `confidence`, or None.

        More users leave the expected difference unchanged and divide its variance. If the expected
        order is wrong, more users only make the wrong order more certain, and the answer is None.

        Parameters
        ----------
        confidence : float
            In [0.5, 1); at 0.5 the order has to be right in expectation.

        Returns
        -------
        int or None

        Raises
        ------
        ValueError
            If `confidence` is outside that range.

        Examples
        --------
        >>> Order(exact=-0.02, expected=-0.01, sd=0.01, n_users=100).users()
        271
        >>> Order(exact=-0.02, expected=0.01, sd=0.01, n_users=100).users() is None
        True
        """
        quantile = _normal_quantile(confidence)
        if self.z <= 0:
            return None
        return max(1, int(np.ceil(self.n_users * (quantile / self.z) ** 2)))


@one_thread
def order(
    first: Ranks,
    second: Ranks,
    estimator: Estimator | str,
    metric: Metric | str | None = None,
    protocol: Protocol | None = None,
    *,
    n_users: int | None = None,
) -> Order:
    """How often a sampled evaluation finds the order of two recommenders, without simulation.

    Negatives are drawn independently for every user and recommender. Mean and variance of the
    difference are exact, and its distribution is approximated as normal: :ref:`the chapter on
    verdicts <ch-verdicts>` shows the error for 6,040 users. With a few users the error may be
    large, and half of the ties count as right.

    Parameters
    ----------
    first, second : array_like of int, shape (n,), or mapping of int to float
        True ranks of the same users under each recommender; or, with `n_users`, probabilities of
        ranks.
    estimator : Estimator or str
        What the evaluation reports, for one relevant item. A name is one of
        `sampled_metrics.estimators.NAMES`; "bias-variance" has the gamma of
        :func:`~sampled_metrics.estimators.default_gamma`.
    metric : Metric or str, optional
    protocol : Protocol, optional
        Needed with a name; an :class:`~sampled_metrics.estimators.Estimator` has its own.
    n_users : int, optional
        If omitted, the users are given and only their negatives are random. Otherwise this many
        users are drawn at random: from two arrays a user's two ranks together; from probabilities
        independently, which overstates the variance where both recommenders do well for the same
        users.

    Returns
    -------
    Order

    Raises
    ------
    ValueError
        If the numbers of users differ, a rank is out of range, probabilities do not sum to 1 or are
        given without `n_users`, a name comes without metric or protocol or an estimator with them,
        there are several relevant items, users are to be drawn from several catalogue sizes, or the
        exact averages are equal.

    See Also
    --------
    sampled_metrics.plan : How many users or negatives an evaluation needs.
    sampled_metrics.consistency.order_by_negatives : The order in expectation.

    Examples
    --------
    >>> protocol = Protocol(n_items=1_000, n_negatives=200)
    >>> found = order([3] * 5, [8] * 5, "naive", "ap", protocol)
    >>> round(found.probability, 2), found.users(0.99)
    (0.95, 10)

    A hundred users, each of them like one of these two:

    >>> found = order([3, 30], [8, 20], "naive", "ap", protocol, n_users=100)
    >>> round(found.exact, 3), round(found.probability, 3), found.users()
    (0.096, 0.998, 33)
    """
    if isinstance(estimator, str):
        if metric is None or protocol is None:
            raise ValueError(
                f"metric and protocol are needed with the name {as_written(estimator)}, got None"
            )
        n_given = 1 if isinstance(first, Mapping) else max(1, np.size(first))
        gamma = default_gamma(n_given if n_users is None else n_users)
        estimator = by_name(estimator, metric, checked(protocol, n_relevant=1), gamma=gamma)
    elif metric is not None or protocol is not None:
        raise ValueError("metric and protocol must be left out: the estimator has its own")
    metric, protocol = estimator.metric, checked(estimator.protocol, n_relevant=1)
    if n_users is not None:
        return PopulationPair.of(first, second, metric, protocol).order(estimator, n_users)
    ranks_by_name = {"first": first, "second": second}
    for name, ranks in ranks_by_name.items():
        if isinstance(ranks, Mapping):
            raise ValueError(f"n_users is needed where {name} holds probabilities, got None")
    true_ranks = checked_ranks(ranks_by_name, protocol.n_items)  # type: ignore[arg-type]
    exact = [metric(ranks, protocol.n_items) for ranks in true_ranks.values()]
    means = [float(estimator.expected(ranks).mean()) for ranks in true_ranks.values()]
    variance = sum(float(estimator.variance(ranks).mean()) for ranks in true_ranks.values())
    users, sd = exact[0].size, _standard_deviation(variance / exact[0].size, means)
    exact_gap = _difference(*(float(values.mean()) for values in exact))
    return Order(exact_gap, _difference(*means), sd, users)


def _difference(first: float, second: float) -> float:
    """`first` less `second`; 0 if they differ by rounding alone."""
    return first - second if sign(first, second) else 0.0


def _standard_deviation(variance: float, means: list[float]) -> float:
    """Root of a variance; 0 if that is only rounding of the means."""
    sd = float(np.sqrt(variance))
    return sd if sd > TOLERANCE * max(map(abs, means)) else 0.0


def negatives_needed(
    order_at: Callable[[int], Order], low: int, high: int, confidence: float = CONFIDENCE
) -> int | None:
    """Number of negatives at which the right order is found with a given probability.

    The search interpolates the expected difference in standard deviations linearly, and bisects at
    every third step.

    Parameters
    ----------
    order_at : callable
        From a number of negatives to the order with as many.
    low, high : int
        Numbers of negatives to search between, both included.
    confidence : float
        In [0.5, 1); at 0.5 the order has to be right in expectation.

    Returns
    -------
    int or None
        A number m at which `confidence` is reached although it is not at m - 1; `low` if it is
        reached there, and None if it is not at `high`. Where it is crossed only once, this is the
        smallest such number. The probability of a correction may rise and fall with m.

    Raises
    ------
    ValueError
        If `low` is below 1 or above `high`, or `confidence` out of range.

    See Also
    --------
    order : What to ask at each number of negatives.
    sampled_metrics.plan : The same for several estimators, and in users.

    Examples
    --------
    >>> def found(m):
    ...     return order([3] * 5, [300] * 5, "naive", "recall@10", Protocol(1_000, m))
    >>> negatives_needed(found, 10, 900)
    29
    """
    quantile = _normal_quantile(confidence)
    below, reached = integer(low, "low", 1), integer(high, "high", low)

    def excess_at(m: int) -> float:
        z = order_at(m).z
        return z - quantile if z > 0 else min(z - quantile, -TOLERANCE)

    lack = excess_at(below)
    if lack >= 0:
        return below
    excess = excess_at(reached)
    if excess < 0:
        return None
    steps = 0
    while reached - below > 1:
        steps += 1  # interpolation alone may converge from one side only
        is_linear = steps % 3 > 0 and np.isfinite(lack - excess)
        share = lack / (lack - excess) if is_linear else 0.5
        middle = below + min(max(round(share * (reached - below)), 1), reached - below - 1)
        probe = excess_at(middle)
        if probe >= 0:
            reached, excess = middle, probe
        else:
            below, lack = middle, probe
    return reached


def _normal_quantile(confidence: float) -> float:
    confidence = checked_confidence(confidence, low=0.5)
    # At 0.5 equal expectations are not enough.
    return max(float(ndtri(confidence)), float(np.finfo(float).tiny))


@dataclass(frozen=True, eq=False)
class PopulationPair:
    """Two distributions of true ranks, with the pairs of ranks of each user if known."""

    metric: Metric
    n_items: int
    ranks: tuple[IntArray, IntArray]
    masses: tuple[FloatArray, FloatArray]
    users: tuple[IntArray, IntArray] | None  # places of each user's two ranks; None: independent

    @classmethod
    def of(cls, first: Ranks, second: Ranks, metric: Metric, protocol: Protocol) -> PopulationPair:
        n_items = one_size(checked(protocol, n_relevant=1))
        ranks_by_name = {"first": first, "second": second}
        distributions = [
            _distribution(ranks, name, n_items) for name, ranks in ranks_by_name.items()
        ]
        ranks, masses, users = zip(*distributions, strict=True)
        first_users, second_users = users
        user_places = None
        if first_users is not None and second_users is not None:
            if first_users.size != second_users.size:
                raise ValueError(
                    "first and second must hold the ranks of the same users, got "
                    f"{first_users.size} and {second_users.size}"
                )
            user_places = (first_users, second_users)
        return cls(metric, n_items, ranks, masses, user_places)

    @property
    def pool(self) -> int:
        """The most negatives that a user can have without replacement."""
        return self.n_items - 1

    @cached_property
    def values(self) -> tuple[FloatArray, FloatArray]:
        """The exact metric at the ranks of each."""
        first_values, second_values = (self.metric(ranks, self.n_items) for ranks in self.ranks)
        return first_values, second_values

    @cached_property
    def difference(self) -> float:
        """Difference of the exact averages; 0 if it is only rounding."""
        return _difference(
            *(float(mass @ value) for mass, value in zip(self.masses, self.values, strict=True))
        )

    def order(self, estimator: Estimator, n_users: int) -> Order:
        """The order by an estimator, for users drawn at random."""
        first, second = (estimator.expected(ranks) for ranks in self.ranks)
        variances = [estimator.variance(ranks) for ranks in self.ranks]
        return self._judged(first, second, variances, n_users)

    def exact(self, n_users: int) -> Order:
        """The order by the exact metric, for users drawn at random."""
        return self._judged(*self.values, [np.zeros(ranks.size) for ranks in self.ranks], n_users)

    def _judged(
        self, first: FloatArray, second: FloatArray, variances: list[FloatArray], n_users: int
    ) -> Order:
        """The order by values with these means and variances at the ranks of each."""
        variance = sum(
            float(mass @ values) for mass, values in zip(self.masses, variances, strict=True)
        )
        sides = list(zip(self.masses, (first, second), strict=True))
        means = [float(mass @ values) for mass, values in sides]
        if self.users is not None:
            variance += float(np.var(first[self.users[0]] - second[self.users[1]]))
        else:
            squares = (
                mass @ (values - mean) ** 2
                for (mass, values), mean in zip(sides, means, strict=True)
            )
            variance += float(sum(squares))
        users = integer(n_users, "n_users", 1)
        sd = _standard_deviation(variance / users, means)
        return Order(self.difference, _difference(*means), sd, users)


def _distribution(
    rank_source: Ranks, name: str, n_items: int
) -> tuple[IntArray, FloatArray, IntArray | None]:
    """Ranks, their probabilities and, from an array, the index of each user's rank."""
    if isinstance(rank_source, Mapping):
        ranks = integers(np.array(list(rank_source)), f"ranks of {name}", 1, n_items)
        masses = np.array(list(rank_source.values()), dtype=float)
        if not (np.isfinite(masses) & (masses >= 0)).all() or abs(masses.sum() - 1) > 1e-9:
            raise ValueError(
                f"{name} must hold probabilities that sum to 1, got a sum of {masses.sum()}"
            )
        return ranks, masses, None
    array = np.asarray(rank_source)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must be a list of ranks, got shape {array.shape}")
    user_ranks = integers(array, f"ranks of {name}", 1, n_items)
    ranks, inverse, counts = np.unique(user_ranks, return_inverse=True, return_counts=True)
    return ranks, counts / user_ranks.size, inverse

"""Intervals from anchors: users whose items are ranked exactly, drawn in proportion to a size.

The size `U` of a user is an upper bound of the user's metric `M`, such as the metric of the rank
among the scored items alone. Auditors draw invoices in this way, in proportion to their amounts.
Users are drawn without replacement. Before a draw let `K` be the sum of `M` over the users drawn
earlier, and `S` the sum of `U` over all others. If the mean of `M` over all `N` users is `mu`, then
the next `z = M / U` has the expectation `(N mu - K) / S`, and it is in [0, 1]. So (K + S z) / N has
the expectation `mu` (desraj1956), and bets on `z` give an interval for any number of anchors
(waudbysmith2024). The users are fixed, whoever they are: only the draw is random, and it is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from .._validate import FloatArray, IntArray
from ..numerics.betting import crossing, tally

#: Largest stake, as a share of the stake that can lose everything.
_MOST = 0.75
#: The share of the error rate that an interval of the users has within one of their population.
_SHARE = 0.2


def draw(sizes: ArrayLike, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Draw users without replacement, each time in proportion to `sizes` (rosen1972).

    Returns their indices in the order of the draws: `n_draws`, or all users of positive size.

    >>> sorted(draw([0.0, 2.0, 1.0], 5, np.random.default_rng(1)).tolist())
    [1, 2]
    """
    positive = np.flatnonzero(np.asarray(sizes) > 0)
    times = rng.exponential(size=positive.size) / np.asarray(sizes, dtype=float)[positive]
    return positive[np.argsort(times, kind="stable")[:n_draws]]


@dataclass(frozen=True, eq=False)
class _Bets:
    """Values of anchors whose ratio to the size is in [lowest, lowest + span], and bets on it."""

    values: FloatArray
    sizes: FloatArray
    rest: float
    users: int
    lowest: float
    span: float

    @cached_property
    def _known(self) -> FloatArray:
        """Before each draw the sum of the values drawn earlier."""
        return np.append(0.0, np.cumsum(self.values)[:-1])

    @cached_property
    def _open(self) -> FloatArray:
        """Before each draw the sum of the sizes of the users that are not drawn yet."""
        return np.asarray(self.rest + np.cumsum(self.sizes[::-1])[::-1])

    @cached_property
    def _ratios(self) -> FloatArray:
        return np.asarray((self.values / self.sizes - self.lowest) / self.span)

    @property
    def estimates(self) -> FloatArray:
        """From each draw an unbiased estimate of the mean; those of two draws are uncorrelated."""
        return np.asarray((self._known + self._open * self.values / self.sizes) / self.users)

    def stakes(self, error_rate: float) -> FloatArray:
        """The stake of each draw by the spread of the ratios before it (waudbysmith2024, eq 26)."""
        ratios, draws = self._ratios, np.arange(1.0, self.values.size + 1.0)
        means = (0.5 + np.cumsum(ratios)) / (draws + 1.0)
        variances = (0.25 + np.cumsum((ratios - means) ** 2)) / (draws + 1.0)
        earlier = np.append(0.25, variances[:-1])
        return np.asarray(np.sqrt(2.0 * np.log(2.0 / error_rate) / (ratios.size * earlier)))

    def log_wealth(self, mean: float, stakes: FloatArray, sign: int) -> FloatArray:
        """After each draw, of bets that the mean is larger (`sign` 1) or smaller (-1).

        It is monotone in the mean, so that the means that are not rejected are an interval.
        """
        expected = (self.users * mean - self._known) / self._open
        share = np.clip((expected - self.lowest) / self.span, 0.0, 1.0)
        losable = share if sign > 0 else 1.0 - share
        capped = np.minimum(stakes, _MOST / np.maximum(losable, 1e-300))
        return np.asarray(np.cumsum(np.log1p(sign * capped * (self._ratios - share))))


@dataclass(frozen=True, eq=False)
class Anchors:
    """The values of anchors in the order of their draws, and what is known of the other users.

    Attributes
    ----------
    values, sizes : ndarray of float, shape (draws,)
        M and U of each anchor, or more than U; or differences of M, and the larger U.
    bounds : ndarray of float, shape (draws,)
        The largest possible values, or the differences of these.
    mean_bound : float
        Their mean over all users.
    rest : float
        The sum of the sizes of all users that were not drawn.
    rest_values : tuple of float
        The smallest and the largest possible sum of these users' values.
    users : int
        All users, those of size 0 included, whose values are 0.
    are_differences : bool
        Whether values / sizes may be negative, down to -1.

    Examples
    --------
    Three of ten users can have a positive value, and two of them were ranked:

    >>> sizes = np.array([0.5, 1.0])
    >>> anchors = Anchors(np.array([0.5, 0.0]), sizes, sizes, 0.17, 0.2, (0.0, 0.2), 10)
    >>> round(anchors.estimate, 3), [round(end, 3) for end in anchors.interval(0.05)]
    (0.07, [0.05, 0.07])
    """

    values: FloatArray
    sizes: FloatArray
    bounds: FloatArray
    mean_bound: float
    rest: float
    rest_values: tuple[float, float]
    users: int
    are_differences: bool = False

    @classmethod
    def of(
        cls, values: FloatArray, bounds: FloatArray, sizes: FloatArray, order: IntArray
    ) -> Anchors:
        """Of the users `order`, with their values.

        `bounds` (1 or 2, users) are the largest values of all users; with two rows, `values` are
        differences of values that these bound.
        """
        is_rest = np.ones(sizes.size, dtype=bool)
        is_rest[order] = False
        are_differences, largest = len(bounds) == 2, bounds[:, is_rest].sum(axis=1).tolist()
        net, low = (bounds[0] - bounds[1], -largest[1]) if are_differences else (bounds[0], 0.0)
        rest, mean_bound = float(sizes[is_rest].sum()), float(net.mean())
        drawn = (values, sizes[order], net[order])
        return cls(*drawn, mean_bound, rest, (low, largest[0]), sizes.size, are_differences)

    @cached_property
    def _bets(self) -> tuple[tuple[_Bets, float], ...]:
        """Bets on the values, and on what they lack of their bounds; and what to add to the mean.

        The spread of the second is small where the bounds are good. If sizes are bounds, both are
        the same bet.
        """
        common, lowest = (self.sizes, self.rest, self.users), -float(self.are_differences)
        span = 2.0 if self.are_differences else 1.0
        return (
            (_Bets(self.values, *common, lowest, span), 0.0),
            (_Bets(self.values - self.bounds, *common, -1.0, span), self.mean_bound),
        )

    @property
    def limits(self) -> tuple[float, float]:
        """The means that are possible whatever the values of the users that were not drawn."""
        total = float(self.values.sum())
        low, high = self.rest_values
        return (total + low) / self.users, (total + high) / self.users

    @property
    def is_exact(self) -> bool:
        """Whether no other user can have a value other than 0."""
        return self.limits[0] == self.limits[1]

    @cached_property
    def _estimates(self) -> FloatArray:
        """The estimates from each draw by the bets of the smaller spread."""
        by_bet = [added + bets.estimates for bets, added in self._bets]
        return min(by_bet, key=lambda estimates: float(estimates.std()))

    @property
    def estimate(self) -> float:
        """The mean of the estimates from each draw, cut to the limits."""
        return float(np.clip(self._estimates.mean(), *self.limits))

    @property
    def standard_error(self) -> float:
        """Of the estimate, from the spread over the draws; 0 if the mean is exact."""
        if self.is_exact:
            return 0.0
        n_draws = self.values.size
        return float(self._estimates.std(ddof=1) / np.sqrt(n_draws)) if n_draws > 1 else np.nan

    def interval(self, error_rate: float) -> tuple[float, float]:
        """Means over the users that no bet rejects; it misses with at most `error_rate`.

        Half of the wealth is for larger means and half for smaller ones; each is shared evenly by
        the bets on values and those on what these lack of their bounds.
        """
        low, high = self.limits
        if self.is_exact:
            return low, high
        needed = float(np.log(2.0 / error_rate))
        betting = [(bets, bets.stakes(error_rate), added) for bets, added in self._bets]

        def excess(mean: float, sign: int) -> float:
            logs = [bets.log_wealth(mean - added, stakes, sign) for bets, stakes, added in betting]
            return float(np.logaddexp(*logs).max()) - float(np.log(2.0)) - needed

        larger = crossing(lambda mean: excess(mean, 1), low, high)
        smaller = crossing(lambda mean: excess(mean, -1), high, low)
        return min(larger, smaller), max(larger, smaller)

    def population_interval(self, error_rate: float) -> tuple[float, float]:
        """Means over a population of which the users are a random sample, of values in [0, 1].

        A fifth of the error rate is for the mean over the users; the rest is for the Chernoff bound
        of a mean of independent values in [0, 1].
        """
        ends = self.interval(_SHARE * error_rate)
        needed = np.log(2.0 / ((1.0 - _SHARE) * error_rate))

        def outwards(end: float, limit: float) -> float:
            def excess(mean: float) -> float:
                divergence = rel_entr(end, mean) + rel_entr(1.0 - end, 1.0 - mean)
                return float(self.users * divergence - needed)

            return crossing(excess, limit, end)

        return outwards(ends[0], 0.0), outwards(ends[1], 1.0)


def drawing_p_value(sizes: FloatArray, order: IntArray) -> float:
    """p-value of the hypothesis that users were drawn in this order in proportion to `sizes`.

    For each draw take the share of the sizes then open that smaller ones have, and half of that of
    equal ones. Its expectation is one half whatever was drawn before, so that Hoeffding's
    inequality holds for the mean over the draws (hoeffding1963).
    """
    distinct, counts = tally(sizes[sizes > 0])
    index = np.searchsorted(distinct, sizes[order])
    drawn = np.zeros((order.size, distinct.size))
    drawn[np.arange(order.size), index] = 1.0
    open_sizes = distinct * (counts - np.cumsum(drawn, axis=0) + drawn)
    below = np.cumsum(open_sizes, axis=1) - 0.5 * open_sizes
    shares = (below * drawn).sum(axis=1) / open_sizes.sum(axis=1)
    return float(min(1.0, 2.0 * np.exp(-2.0 * order.size * (shares.mean() - 0.5) ** 2)))

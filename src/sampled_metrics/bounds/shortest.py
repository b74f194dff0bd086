"""How short an interval can be: a lower bound for every method.

Take a population p of the class, and a method whose intervals hold the metric of every population
of the class in at least 95% of samples. For a value v let p_v be a population of the class with the
metric v. On samples from p_v the method rejects v, that is, leaves it outside, in at most 5%: it is
a test of p_v at this level. Let beta(v) be the least type II error under p of any such test. On
samples from p the interval holds v with at least this probability, and its mean width is the
integral of that probability (pratt1961):

    mean width under p  >=  integral of beta(v) dv,

whatever the p_v are. The closer the distributions of the sampled rank, the larger the bound. Here
p_v maximises the mean log-likelihood under p less a price times the metric; each price gives one v.
For values between the metric of p and v take mixtures of p and p_v: the class is convex. Replace
each user's sampled rank, with a fixed probability, by one drawn from p. That turns a sample from
p_v into one from the mixture, and leaves a sample from p as it is. So the mixture is no easier to
reject than p_v, beta falls with the distance, and sums over a few values bound the integral.

With L the product over users of the ratio of p_v's distribution to p's, and phi a test of level 5%,

    E_p (1 - phi)  >=  E_p (1 - phi + t L phi) - 0.05 t  >=  E_p min(1, t L) - 0.05 t

for any t > 0 (Neyman and Pearson). The distribution of log L is a convolution, computed on a
lattice. Each user's ratio is divided between two neighbours so that its mean is kept. Since
min(1, t L) is concave in each ratio, that can only lower the bound, as does lowering a ratio that
is beyond the lattice. What is left are rounding and sums that leave the lattice on either side, at
14 standard deviations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._validate import FloatArray
from ..numerics.distributions import law
from .bets import Partition, Rows, _Building, _observed
from .generators import Generators, hats

if TYPE_CHECKING:
    from .assumption import Assumption

#: Prices of the metric that populations are made with, as parts of the one that bets would have.
_PRICES = np.geomspace(1 / 100, 4.0, 18)
#: The same where they must make two metrics equal.
_UNTIL_EQUAL = np.append(0.0, np.geomspace(1e-4, 1_000.0, 48))
#: Populations between each two of them.
_BETWEEN = 3
#: Points of the lattice in a standard deviation of a user's log ratio, and how many standard
#: deviations of the sum it reaches in either direction.
_FINE, _REACH = 16, 14.0
#: Points of the lattice on either side, at most: with more users its cells are wider.
_MOST = 1 << 19
#: With more users than this, rounding leaves no digit of a product over them.
_USERS = 1e9
#: Log ratios of so little variance tell nothing.
_NONE = 1e-14
#: The logarithm of what bets are to win, for the first price, and how near fits come for all users.
_GROWN, _NEAR = 3.0, 0.1
#: What is mixed into the distributions that populations are found for.
_EVEN = 1e-6
#: Law entries computed at once.
_BLOCK = 1 << 22


def least_width(
    parts: Partition,
    assumption: Assumption | None,
    confidence: float,
    rows: Rows,
    counts: FloatArray,
) -> float:
    """Lower bound on the mean width of any valid interval, at the population fitted to a sample.

    The theorem holds for the population computed, whether or not it is the likeliest.

    Parameters
    ----------
    parts : Partition
        Of users with one row each. Where users of a part differ, all are taken to have its largest
        catalogue and its fewest negatives; then the bound is an approximation, and not proved.
    assumption : Assumption or None
        The class of populations.
    confidence : float
        At least so often a range holds the metric of each population of the class.
    rows : Rows
    counts : ndarray of float, shape (rows,)
        Users with each row.

    Returns
    -------
    float
        0 or more.

    Examples
    --------
    Of 1,000 users 300 are above all of 9 negatives; the others are below half of them or more:

    >>> from sampled_metrics.metrics import metric
    >>> from sampled_metrics.bounds import bets
    >>> kinds = np.array([[9, 1, 1, 101]])
    >>> parts = bets.partition(kinds, np.array([1_000.0]), metric("recall@10"), True)
    >>> rows = bets.Rows(np.zeros(6, dtype=int), np.array([0, 5, 6, 7, 8, 9]))
    >>> found = least_width(parts, None, 0.95, rows, np.array([300.0, 140, 140, 140, 140, 140]))
    >>> round(found, 2)
    0.05
    """
    users = float(counts.sum())
    if not parts.parts or not users:
        return 0.0
    start = _Towards(
        parts, assumption, _observed(parts, assumption, rows, counts[:, np.newaxis]), users
    )
    here, laws = start.populations(1, np.zeros(1))
    towards = _Towards(parts, assumption, [_on_knots(each) for each in laws], users)
    width = 0.0
    for sign in (1, -1):
        there, others = towards.populations(sign, towards.price(sign) * _PRICES)
        pairs = [np.concatenate(each) for each in zip(laws, others, strict=True)]
        metric: FloatArray = np.append(here, there)
        width += _side(metric, pairs, np.asarray(users * towards.shares), 1.0 - confidence, sign)
    return width


def decidable(
    parts: Partition,
    assumption: Assumption | None,
    confidence: float,
    better: FloatArray,
    worse: FloatArray,
    users: float,
) -> float:
    """Upper bound on the probability that a valid method names the better of two populations.

    Valid is a method that names A in at most 5% of evaluations for all pairs of populations of the
    class of which A is not better. The two recommenders are evaluated on users of their own, or
    their ranks are independent. **On common users a method may do better**, since it can compare
    each user's ranks. The bound uses one pair of populations with equal metrics, found by a common
    price; any such pair would do. Guessing reaches 5%.

    Parameters
    ----------
    parts : Partition
        With one part.
    assumption : Assumption or None
        The class; the two populations need not belong to it.
    confidence : float
    better, worse : ndarray of float, shape (n_items,)
        Probabilities of the true ranks.
    users : float

    Returns
    -------
    float
        In [1 - confidence, 1].

    Examples
    --------
    Of one recommender every tenth item is at rank 5, of the other at rank 30. Ten negatives tell
    these ranks apart if there are a million users:

    >>> from sampled_metrics.metrics import metric
    >>> from sampled_metrics.bounds import bets
    >>> parts = bets.partition(np.array([[10, 1, 1, 1_000]]), np.ones(1), metric("ndcg@10"), True)
    >>> better, worse = np.zeros((2, 1_000))
    >>> better[[4, 499]] = worse[[29, 499]] = 0.1, 0.9
    >>> [round(decidable(parts, None, 0.95, better, worse, users), 2) for users in (1e2, 1e4, 1e6)]
    [0.06, 0.29, 1.0]
    """
    (part,) = parts.parts
    known = [_sampled(part.generators(None), each[np.newaxis]) for each in (better, worse)]
    sides = [_Towards(parts, assumption, [_on_knots(each)], users) for each in known]
    price = max(side.price(sign) for side, sign in zip(sides, (1, -1), strict=True))
    moved = [
        side.populations(sign, price * _UNTIL_EQUAL)
        for side, sign in zip(sides, (1, -1), strict=True)
    ]
    apart = moved[0][0] - moved[1][0]
    if apart[-1] > 0:  # no population of the class is so far
        return 1.0
    at = int(np.argmax(apart <= 0))
    # Between two prices, populations are mixed; those of the first price may be level already.
    part_of = 0.0 if at == 0 else apart[at - 1] / (apart[at - 1] - apart[at])
    level = [(1.0 - part_of) * laws[0][max(at - 1, 0)] + part_of * laws[0][at] for _, laws in moved]
    pairs = [(true[0], other) for true, other in zip(known, level, strict=True)]
    return 1.0 - missed(pairs, np.array([users, users]), 1.0 - confidence)


class _Towards:
    """Populations of a class that are likely under a distribution of the sampled rank.

    Parameters
    ----------
    parts : Partition
    assumption : Assumption or None
    laws : list of ndarray of float, shape (1, knots)
        For each part, the distribution.
    users : float
    """

    def __init__(
        self, parts: Partition, assumption: Assumption | None, laws: list[FloatArray], users: float
    ) -> None:
        self._given, self._users = (parts, assumption), users
        # A little of what is even, since fits need a positive chance of every sampled rank.
        self._laws = []
        for part, each in zip(parts.parts, laws, strict=True):
            even = part.generators(None).marginal(np.ones_like)
            self._laws.append((1.0 - _EVEN) * each + _EVEN * even)
        self.shares = self._building(1, 1).shares

    def _building(self, sign: int, many: int, near: float = _NEAR) -> _Building:
        laws = [np.tile(each, (many, 1)) for each in self._laws]
        return _Building(*self._given, near / self._users, laws, (sign,))

    def price(self, sign: int) -> float:
        """The price of the metric with which bets on the distribution would grow best."""
        return float(self._building(sign, 1, _GROWN).slopes()[0])

    def populations(self, sign: int, prices: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """The metric of one for each price, and for each part their distributions.

        The higher the price, the smaller the metric if `sign` is 1, and the larger if it is -1.
        """
        made, metric, laws = self._building(sign, prices.size), np.zeros(prices.size), []
        for g, weights in enumerate(made.populations(prices)):
            mass = made.found[g].mass(weights, made.used[g])
            part = self._given[0].parts[g]
            ranks = np.arange(1, part.pool + 2)
            terms = self._given[0].metric.term(ranks, 1, 1, part.pool + 1)
            metric += made.shares[g] * (mass @ terms)
            laws.append(_sampled(made.found[g], mass))
        return metric, laws


def _on_knots(laws: FloatArray) -> FloatArray:
    return laws @ hats(laws.shape[1] - 1)


def _sampled(found: Generators, mass: FloatArray) -> FloatArray:
    """The distribution of the sampled rank in some populations; (populations, m + 1)."""
    at = np.flatnonzero(mass.any(axis=0))
    laws = np.zeros((len(mass), found.m + 1))
    step = max(1, _BLOCK // (found.m + 1))
    for start in range(0, at.size, step):
        some = at[start : start + step]
        laws += mass[:, some] @ law(found.m, some, found.pool, found.replacement)
    return laws


def _side(
    metric: FloatArray, laws: list[FloatArray], users: FloatArray, error: float, sign: int
) -> float:
    """What the values on one side of the first population's metric add to the width."""
    away = sign * (metric[0] - metric)
    order = np.argsort(away, kind="stable")[int((away < 0).sum()) :]
    width, best = 0.0, 0.0
    # From the furthest one inwards: no value in between is easier to reject (see the module).
    for near, far in zip(order[-2::-1], order[:0:-1], strict=True):
        for step in range(_BETWEEN, 0, -1):
            part = step / _BETWEEN
            pairs = [(each[0], (1.0 - part) * each[near] + part * each[far]) for each in laws]
            best = max(best, missed(pairs, users, error))
            width += best * abs(metric[far] - metric[near]) / _BETWEEN
    return float(width)


def missed(pairs: list[tuple[FloatArray, FloatArray]], users: FloatArray, error: float) -> float:
    """Lower bound on the type II error of every test of one distribution against another.

    Parameters
    ----------
    pairs : list of (ndarray of float, ndarray of float)
        For each part of the users, the distribution that they are drawn from, and the one tested.
    users : ndarray of float, shape (parts,)
    error : float
        The level of the tests.

    Returns
    -------
    float
        In [0, 1 - error]; 0, which says nothing, of more than a billion users.

    Examples
    --------
    A fair coin is tossed once. That it shows heads in 5% of tosses is rejected if it does:

    >>> round(missed([(np.array([0.5, 0.5]), np.array([0.95, 0.05]))], np.array([1.0]), 0.05), 3)
    0.5
    """
    ratios, variance, common = [], 0.0, 1.0
    for (true, tested), many in zip(pairs, np.rint(users).astype(int).tolist(), strict=True):
        both = (true > 0) & (tested > 0)
        ratio = np.log(tested[both]) - np.log(true[both])
        common = min(common, float(true[both].sum()), float(tested[both].sum()))
        middle = float(true[both] @ ratio)
        variance += many * float(true[both] @ (ratio - middle) ** 2)
        ratios.append((true[both], ratio, many))
    if variance < _NONE and common > 1.0 - _NONE:
        return 1.0 - error
    if users.sum() > _USERS:
        return 0.0
    variance = max(variance, _NONE)
    from scipy import fft  # intervals need not wait for its import

    fine = 2.0 / _FINE * np.sqrt(variance / users.sum())
    cell = max(fine, _REACH * np.sqrt(variance) / _MOST)
    half = int(np.ceil(_REACH * np.sqrt(variance) / cell)) + _FINE
    size = fft.next_fast_len(2 * half, real=True)
    transform, centre = np.ones(size // 2 + 1, dtype=complex), 0.0
    for true, ratio, many in ratios:
        # What is beyond half of the lattice is lowered to it, or to 0: that lowers the bound.
        kept = ratio > -0.5 * half * cell
        place = np.minimum(ratio[kept], 0.5 * half * cell) / cell
        low = np.floor(place).astype(np.int64)
        up = np.expm1((place - low) * cell) / np.expm1(cell)
        row = np.bincount(low % size, true[kept] * (1.0 - up), size)
        row += np.bincount((low + 1) % size, true[kept] * up, size)
        transform *= fft.rfft(row) ** many
        centre += many * float(true[kept] @ place)
    chance = np.maximum(fft.irfft(transform, size), 0.0)
    at = np.arange(size)
    log = (at + size * np.rint((centre - at) / size)) * cell  # the sum that each place stands for
    order = np.argsort(log)
    log, chance = log[order], chance[order]
    above = chance.sum() - np.cumsum(chance)
    with np.errstate(divide="ignore", over="ignore"):
        below = np.exp(np.logaddexp.accumulate(np.log(chance) + log) - log)
        found = below + above - error * np.exp(-log)
    return float(np.clip(found.max(), 0.0, 1.0 - error))

"""How short a range can be: a lower bound for every method.

Take a population p of the class, and a range that holds the metric of every population of the class
in at least 95% of samples. It tests each value c at a level of 5%: reject c if it is outside. The
expected width of the range is the integral over c of the probability that c is not rejected
(pratt1961). For users drawn from p that probability is at least beta(c), the least error of the
second kind of any test at that level of one population with the metric c against p. So

    expected width under p  >=  integral of beta(c) dc,

whatever populations of the class are chosen, one for each c. Good ones lead to nearly the same
sampled ranks as p. Here they are those with the largest likelihood under p that a price for the
metric moves to c. Mixing such a population with p makes the two harder to tell apart, so that beta
falls with the distance of c from the metric of p, and sums over a few c bound the integral.

With L the product over the users of the ratio of the two distributions, the error is at least
E min(1, t L) - 0.05 t under p for any t > 0 (Neyman and Pearson). The distribution of log L is a
convolution. To compute it on a lattice, each user's ratio is divided between two neighbours so that
its mean is kept. Since min(1, t L) is concave in each ratio, that can only lower the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from .._validate import FloatArray
from ..numerics.distributions import law
from .bets import Partition, Rows, _Building, _observed
from .generators import Generators, hats

if TYPE_CHECKING:
    from ..identification import Shape

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
    shape: Shape | None,
    confidence: float,
    rows: Rows,
    counts: FloatArray,
) -> float:
    """The least expected width that any range can have at the population likeliest for a sample.

    Parameters
    ----------
    parts : Partition
        Of users with one row each. Where sizes differ within a part, all are taken to have its
        largest catalogue and its fewest negatives.
    shape : Shape or None
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

    >>> from ..metrics import metric
    >>> from . import bets
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
    start = _Towards(parts, shape, _observed(parts, rows, counts[:, np.newaxis]), users)
    here, laws = start.populations(1, np.zeros(1))
    towards = _Towards(parts, shape, [_on_knots(each) for each in laws], users)
    width = 0.0
    for sign in (1, -1):
        there, others = towards.populations(sign, towards.price(sign) * _PRICES)
        pairs = [np.concatenate(each) for each in zip(laws, others, strict=True)]
        metric: FloatArray = np.append(here, there)
        width += _side(metric, pairs, np.asarray(users * towards.shares), 1.0 - confidence)
    return width


def decidable(
    parts: Partition,
    shape: Shape | None,
    confidence: float,
    better: FloatArray,
    worse: FloatArray,
    users: float,
) -> float:
    """How often, at most, any method can decide between two populations, and rightly.

    The method says at most 5% of the time that the first is better if it is not, for all pairs of
    populations of the class. It does not know that it has these. The least favourable pair is about
    the one that a common price moves to equal metrics. The ranks of a user are taken to be
    independent between the two, in all pairs.

    Parameters
    ----------
    parts : Partition
        With one part.
    shape : Shape or None
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

    >>> from ..metrics import metric
    >>> from . import bets
    >>> parts = bets.partition(np.array([[10, 1, 1, 1_000]]), np.ones(1), metric("ndcg@10"), True)
    >>> better, worse = np.zeros((2, 1_000))
    >>> better[[4, 499]] = worse[[29, 499]] = 0.1, 0.9
    >>> [round(decidable(parts, None, 0.95, better, worse, users), 2) for users in (1e2, 1e4, 1e6)]
    [0.06, 0.29, 1.0]
    """
    (part,) = parts.parts
    known = [_sampled(part.generators(None), each[np.newaxis]) for each in (better, worse)]
    sides = [_Towards(parts, shape, [_on_knots(each)], users) for each in known]
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
    shape : Shape or None
    laws : list of ndarray of float, shape (1, knots)
        For each part, the distribution.
    users : float
    """

    def __init__(
        self, parts: Partition, shape: Shape | None, laws: list[FloatArray], users: float
    ) -> None:
        self._given, self._users = (parts, shape), users
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


def _side(metric: FloatArray, laws: list[FloatArray], users: FloatArray, error: float) -> float:
    """What the values on one side of the first population's metric add to the width."""
    width, best = 0.0, 0.0
    # From the furthest one inwards: no value in between is easier to reject.
    for far in range(metric.size - 1, 0, -1):
        near = far - 1
        for step in range(_BETWEEN, 0, -1):
            part = step / _BETWEEN
            pairs = [(each[0], (1.0 - part) * each[near] + part * each[far]) for each in laws]
            best = max(best, missed(pairs, users, error))
            width += best * abs(metric[far] - metric[near]) / _BETWEEN
    return float(width)


def missed(pairs: list[tuple[FloatArray, FloatArray]], users: FloatArray, error: float) -> float:
    """How often, at least, a test at the level `error` of one distribution misses another.

    Parameters
    ----------
    pairs : list of (ndarray of float, ndarray of float)
        For each part of the users, the distribution that they are drawn from, and the one tested.
    users : ndarray of float, shape (parts,)
    error : float

    Returns
    -------
    float
        In [0, 1 - error]; 0, which says nothing, of more than a billion users.

    Examples
    --------
    A coin that is tossed once shows heads by one distribution and nearly never by the other:

    >>> round(missed([(np.array([0.5, 0.5]), np.array([0.95, 0.05]))], np.array([1.0]), 0.05), 3)
    0.5
    """
    ratios, variance = [], 0.0
    for (true, tested), many in zip(pairs, np.rint(users).astype(int).tolist(), strict=True):
        both = (true > 0) & (tested > 0)
        ratio = np.log(tested[both]) - np.log(true[both])
        middle = float(true[both] @ ratio)
        variance += many * float(true[both] @ (ratio - middle) ** 2)
        ratios.append((true[both], ratio, many))
    if variance < _NONE:
        return 1.0 - error
    if users.sum() > _USERS:
        return 0.0
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

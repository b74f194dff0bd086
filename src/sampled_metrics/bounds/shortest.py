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
from .bets import Partition, Rows, _Building, _observed
from .generators import Generators, basis

if TYPE_CHECKING:
    from .assumption import Assumption

#: Prices of the metric for the populations p_v, relative to the price of the best bet.
_PRICES = np.geomspace(1 / 100, 4.0, 18)
#: Prices among which two metrics become equal.
_UNTIL_EQUAL = np.append(0.0, np.geomspace(1e-4, 1_000.0, 48))
#: Steps between two neighbouring populations.
_BETWEEN = 3
#: Lattice points per standard deviation of a user's log ratio; reach of the lattice in standard
#: deviations of the sum.
_FINE, _REACH = 16, 14.0
#: Most lattice points on either side; with more users cells are wider.
_MOST = 1 << 19
#: With more users, rounding leaves no digit of a product over them.
_USERS = 1e9
#: Distributions with a smaller variance of the log ratio count as equal.
_NONE = 1e-14
#: Log e-value for which the first price is chosen, and tolerance of fits, over all users.
_GROWN, _NEAR = 3.0, 0.1
#: Share of a uniform population mixed in, since fits need positive probabilities.
_EVEN = 1e-6
#: Entries of P computed at once.
_BLOCK = 1 << 22


def least_width(
    parts: Partition,
    assumption: Assumption | None,
    confidence: float,
    rows: Rows,
    counts: FloatArray,
) -> float:
    """Lower bound on the mean width of any valid interval, at the population fitted to a sample.

    Proved for the population computed, whether or not it is the likeliest. Users of a part that
    differ are all given its largest catalogue and fewest negatives; then the bound is only
    approximate.
    """
    users = float(counts.sum())
    if not parts.parts or not users:
        return 0.0
    start = _Towards(
        parts, assumption, _observed(parts, assumption, rows, counts[:, np.newaxis]), users
    )
    here, pmfs = start.populations(1, np.zeros(1))
    towards = _Towards(parts, assumption, _on_knots(parts, pmfs), users)
    width = 0.0
    for sign in (1, -1):
        there, others = towards.populations(sign, towards.price(sign) * _PRICES)
        pairs = [np.concatenate(each) for each in zip(pmfs, others, strict=True)]
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

    A valid method names A in at most 5% of evaluations whenever A is not better. Guessing reaches
    5%. The recommenders are evaluated on different users, or their ranks are independent: **on
    common users a method may do better**. The bound uses one pair of populations with equal
    metrics; any pair would do. `better` and `worse` (n_items,) are probabilities of the true ranks,
    and need not belong to the class.

    Every tenth item is at rank 5 under one recommender, at rank 30 under the other. Ten negatives
    distinguish them with a million users:

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
    sides = [_Towards(parts, assumption, _on_knots(parts, [each]), users) for each in known]
    price = max(side.price(sign) for side, sign in zip(sides, (1, -1), strict=True))
    moved = [
        side.populations(sign, price * _UNTIL_EQUAL)
        for side, sign in zip(sides, (1, -1), strict=True)
    ]
    gap = moved[0][0] - moved[1][0]
    if gap[-1] > 0:  # no two populations of the class are level
        return 1.0
    at = int(np.argmax(gap <= 0))
    # Mix the populations of two prices until level; the first price may do already.
    part_of = 0.0 if at == 0 else gap[at - 1] / (gap[at - 1] - gap[at])
    level = [(1.0 - part_of) * pmfs[0][max(at - 1, 0)] + part_of * pmfs[0][at] for _, pmfs in moved]
    pairs = [(true[0], other) for true, other in zip(known, level, strict=True)]
    return 1.0 - missed(pairs, np.array([users, users]), 1.0 - confidence)


class _Towards:
    """Populations of a class that are likely under given distributions of the sampled rank.

    `pmfs` has a distribution (1, knots) for each part.
    """

    def __init__(
        self, parts: Partition, assumption: Assumption | None, pmfs: list[FloatArray], users: float
    ) -> None:
        self._given, self._users = (parts, assumption), users
        self._laws = []
        for part, each in zip(parts.parts, pmfs, strict=True):
            even = part.generators(None).marginal(np.ones_like)
            self._laws.append((1.0 - _EVEN) * each + _EVEN * even)
        self.shares = self._building(1, 1).shares

    def _building(self, sign: int, many: int, near: float = _NEAR) -> _Building:
        pmfs = [np.tile(each, (many, 1)) for each in self._laws]
        return _Building(*self._given, near / self._users, pmfs, (sign,))

    def price(self, sign: int) -> float:
        """The price of the metric at which bets on the distribution grow best."""
        return float(self._building(sign, 1, _GROWN).slopes()[0])

    def populations(self, sign: int, prices: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """For each price a population: its metric, and by part its sampled-rank distribution.

        A higher price lowers the metric if `sign` is 1 and raises it if `sign` is -1.
        """
        made, metric, pmfs = self._building(sign, prices.size), np.zeros(prices.size), []
        for g, weights in enumerate(made.populations(prices)):
            mass = made.generators[g].mass(weights, made.columns[g])
            part = self._given[0].parts[g]
            ranks = np.arange(1, part.pool + 2)
            terms = self._given[0].metric.term(ranks, 1, 1, part.pool + 1)
            metric += made.shares[g] * (mass @ terms)
            pmfs.append(_sampled(made.generators[g], mass))
        return metric, pmfs


def _on_knots(parts: Partition, pmfs: list[FloatArray]) -> list[FloatArray]:
    return [each @ basis(part.protocol) for each, part in zip(pmfs, parts.parts, strict=True)]


def _sampled(found: Generators, mass: FloatArray) -> FloatArray:
    """Distribution of the sampled rank, (populations, m + 1), given `mass` of the ranks."""
    at = np.flatnonzero(mass.any(axis=0))
    pmfs = np.zeros((len(mass), found.m + 1))
    step = max(1, _BLOCK // (found.m + 1))
    for start in range(0, at.size, step):
        some = at[start : start + step]
        pmfs += mass[:, some] @ found.protocol.rows(some)
    return pmfs


def _side(
    metric: FloatArray, pmfs: list[FloatArray], users: FloatArray, error: float, sign: int
) -> float:
    """Contribution to the width of the values on one side of the first population's metric."""
    away = sign * (metric[0] - metric)
    order = np.argsort(away, kind="stable")[int((away < 0).sum()) :]
    width, best = 0.0, 0.0
    # From the furthest one inwards: no value in between is easier to reject (see the module).
    for near, far in zip(order[-2::-1], order[:0:-1], strict=True):
        for step in range(_BETWEEN, 0, -1):
            part = step / _BETWEEN
            pairs = [(each[0], (1.0 - part) * each[near] + part * each[far]) for each in pmfs]
            best = max(best, missed(pairs, users, error))
            width += best * abs(metric[far] - metric[near]) / _BETWEEN
    return float(width)


def missed(pairs: list[tuple[FloatArray, FloatArray]], users: FloatArray, error: float) -> float:
    """Lower bound on the type II error of any test of one distribution against another.

    `pairs` has for each part the true distribution and the tested one; `error` is the level. At
    most 1 - error; 0, a trivial bound, for more than a billion users. A fair coin, tossed once,
    against a coin that shows heads in 5%:

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
    from scipy import fft  # a slow import that only this function needs

    fine = 2.0 / _FINE * np.sqrt(variance / users.sum())
    cell = max(fine, _REACH * np.sqrt(variance) / _MOST)
    half = int(np.ceil(_REACH * np.sqrt(variance) / cell)) + _FINE
    size = fft.next_fast_len(2 * half, real=True)
    transform, centre = np.ones(size // 2 + 1, dtype=complex), 0.0
    for true, ratio, many in ratios:
        # Ratios beyond half of the lattice are lowered to its end, or to 0: that lowers the bound.
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
    log = (at + size * np.rint((centre - at) / size)) * cell  # the sum at each lattice point
    order = np.argsort(log)
    log, chance = log[order], chance[order]
    above = chance.sum() - np.cumsum(chance)
    with np.errstate(divide="ignore", over="ignore"):
        below = np.exp(np.logaddexp.accumulate(np.log(chance) + log) - log)
        found = below + above - error * np.exp(-log)
    return float(np.clip(found.max(), 0.0, 1.0 - error))

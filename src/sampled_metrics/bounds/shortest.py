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
from .bets import Building, Partition, Rows, observed_pmfs
from .generators import Generators, hats

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
        parts, assumption, observed_pmfs(parts, assumption, rows, counts[:, np.newaxis]), users
    )
    fitted_metric, pmfs = start.populations(1, np.zeros(1))
    fitted = _Towards(parts, assumption, _on_knots(parts, pmfs), users)
    width = 0.0
    for sign in (1, -1):
        moved_metrics, moved_pmfs = fitted.populations(sign, fitted.price(sign) * _PRICES)
        pairs = [np.concatenate(part_pmfs) for part_pmfs in zip(pmfs, moved_pmfs, strict=True)]
        metric: FloatArray = np.append(fitted_metric, moved_metrics)
        width += _side(metric, pairs, np.asarray(users * fitted.shares), 1.0 - confidence, sign)
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
    true_pmfs = [_sampled(part.generators(None), pmf[np.newaxis]) for pmf in (better, worse)]
    sides = [_Towards(parts, assumption, _on_knots(parts, [pmf]), users) for pmf in true_pmfs]
    price = max(side.price(sign) for side, sign in zip(sides, (1, -1), strict=True))
    moved = [
        side.populations(sign, price * _UNTIL_EQUAL)
        for side, sign in zip(sides, (1, -1), strict=True)
    ]
    gap = moved[0][0] - moved[1][0]
    if gap[-1] > 0:  # no two populations of the class are level
        return 1.0
    row = int(np.argmax(gap <= 0))
    # Mix the populations of two prices until level; the first price may do already.
    share = 0.0 if row == 0 else gap[row - 1] / (gap[row - 1] - gap[row])
    equal_pmfs = [
        (1.0 - share) * pmfs[0][max(row - 1, 0)] + share * pmfs[0][row] for _, pmfs in moved
    ]
    pairs = [
        (true_pmf[0], equal_pmf) for true_pmf, equal_pmf in zip(true_pmfs, equal_pmfs, strict=True)
    ]
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
        for part, pmf in zip(parts.parts, pmfs, strict=True):
            even = part.generators(None).marginal(np.ones_like)
            self._laws.append((1.0 - _EVEN) * pmf + _EVEN * even)
        self.shares = self._building(1, 1).shares

    def _building(self, sign: int, n_prices: int, log_evidence_needed: float = _NEAR) -> Building:
        pmfs = [np.tile(pmf, (n_prices, 1)) for pmf in self._laws]
        return Building(*self._given, log_evidence_needed / self._users, pmfs, (sign,))

    def price(self, sign: int) -> float:
        """The price of the metric at which bets on the distribution grow best."""
        return float(self._building(sign, 1, _GROWN).slopes()[0])

    def populations(self, sign: int, prices: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """For each price a population: its metric, and by part its sampled-rank distribution.

        A higher price lowers the metric if `sign` is 1 and raises it if `sign` is -1.
        """
        building, metric, pmfs = self._building(sign, prices.size), np.zeros(prices.size), []
        for part_index, weights in enumerate(building.populations(prices)):
            mass = building.generators[part_index].mass(weights, building.columns[part_index])
            part = self._given[0].parts[part_index]
            ranks = np.arange(1, part.pool + 2)
            terms = self._given[0].metric.term(ranks, 1, 1, part.pool + 1)
            metric += building.shares[part_index] * (mass @ terms)
            pmfs.append(_sampled(building.generators[part_index], mass))
        return metric, pmfs


def _on_knots(parts: Partition, pmfs: list[FloatArray]) -> list[FloatArray]:
    return [pmf @ hats(part.m) for pmf, part in zip(pmfs, parts.parts, strict=True)]


def _sampled(generators: Generators, mass: FloatArray) -> FloatArray:
    """Distribution of the sampled rank, (populations, m + 1), given `mass` of the ranks."""
    above = np.flatnonzero(mass.any(axis=0))
    pmfs = np.zeros((len(mass), generators.m + 1))
    step = max(1, _BLOCK // (generators.m + 1))
    for start in range(0, above.size, step):
        block = above[start : start + step]
        pmfs += mass[:, block] @ generators.protocol.rows(block)
    return pmfs


def _side(
    metric: FloatArray, pmfs: list[FloatArray], users: FloatArray, error_rate: float, sign: int
) -> float:
    """Contribution to the width of the values on one side of the first population's metric."""
    distances = sign * (metric[0] - metric)
    order = np.argsort(distances, kind="stable")[int((distances < 0).sum()) :]
    width, best = 0.0, 0.0
    # From the furthest one inwards: no value in between is easier to reject (see the module).
    for inner, outer in zip(order[-2::-1], order[:0:-1], strict=True):
        for step in range(_BETWEEN, 0, -1):
            share = step / _BETWEEN
            pairs = [
                (part_pmfs[0], (1.0 - share) * part_pmfs[inner] + share * part_pmfs[outer])
                for part_pmfs in pmfs
            ]
            best = max(best, missed(pairs, users, error_rate))
            width += best * abs(metric[outer] - metric[inner]) / _BETWEEN
    return float(width)


def missed(
    pairs: list[tuple[FloatArray, FloatArray]], users: FloatArray, error_rate: float
) -> float:
    """Lower bound on the type II error of any test of one distribution against another.

    `pairs` has for each part the true distribution and the tested one; `error_rate` is the level of
    the test. At most 1 - error_rate; 0, a trivial bound, for more than a billion users. A fair
    coin, tossed once, against a coin that shows heads in 5%:

    >>> round(missed([(np.array([0.5, 0.5]), np.array([0.95, 0.05]))], np.array([1.0]), 0.05), 3)
    0.5
    """
    ratios, variance, common = [], 0.0, 1.0
    for (true, tested), n_users in zip(pairs, map(int, np.rint(users).tolist()), strict=True):
        in_both = (true > 0) & (tested > 0)
        ratio = np.log(tested[in_both]) - np.log(true[in_both])
        common = min(common, float(true[in_both].sum()), float(tested[in_both].sum()))
        middle = float(true[in_both] @ ratio)
        variance += n_users * float(true[in_both] @ (ratio - middle) ** 2)
        ratios.append((true[in_both], ratio, n_users))
    if variance < _NONE and common > 1.0 - _NONE:
        return 1.0 - error_rate
    if users.sum() > _USERS:
        return 0.0
    variance = max(variance, _NONE)
    from scipy import fft  # a slow import that only this function needs

    fine = 2.0 / _FINE * np.sqrt(variance / users.sum())
    cell = max(fine, _REACH * np.sqrt(variance) / _MOST)
    half = int(np.ceil(_REACH * np.sqrt(variance) / cell)) + _FINE
    size = fft.next_fast_len(2 * half, real=True)
    transform, centre = np.ones(size // 2 + 1, dtype=complex), 0.0
    for true, ratio, n_users in ratios:
        # Ratios beyond half of the lattice are lowered to its end, or to 0: that lowers the bound.
        is_kept = ratio > -0.5 * half * cell
        place = np.minimum(ratio[is_kept], 0.5 * half * cell) / cell
        low = np.floor(place).astype(np.intp)
        upper_share = np.expm1((place - low) * cell) / np.expm1(cell)
        user_mass = np.bincount(low % size, true[is_kept] * (1.0 - upper_share), size)
        user_mass += np.bincount((low + 1) % size, true[is_kept] * upper_share, size)
        transform *= fft.rfft(user_mass) ** n_users
        centre += n_users * float(true[is_kept] @ place)
    mass = np.maximum(fft.irfft(transform, size), 0.0)
    points = np.arange(size)
    log_ratio = (
        points + size * np.rint((centre - points) / size)
    ) * cell  # the sum at each lattice point
    order = np.argsort(log_ratio)
    log_ratio, mass = log_ratio[order], mass[order]
    above = mass.sum() - np.cumsum(mass)
    with np.errstate(divide="ignore", over="ignore"):
        below = np.exp(np.logaddexp.accumulate(np.log(mass) + log_ratio) - log_ratio)
        bounds = below + above - error_rate * np.exp(-log_ratio)
    return float(np.clip(bounds.max(), 0.0, 1.0 - error_rate))

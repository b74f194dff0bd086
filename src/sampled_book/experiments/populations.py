"""Populations that are likely given sampled ranks, and how short any valid interval can be.

Take a population p of the class that an assumption allows, and a method whose intervals hold the
metric of every population of the class in at least 95% of samples. For a value v let p_v be a
population of the class with the metric v. On samples from p_v the method leaves v outside in at
most 5%: it is a test of p_v at this level. Let beta(v) be the least type II error under p of any
such test. On samples from p the interval holds v with at least this probability, and its mean
width is the integral of that probability (pratt1961):

    mean width under p  >=  integral of beta(v) dv,

whatever the p_v are. Here p_v maximises the mean log-likelihood under p less a price times the
metric; each price gives one v. For values between the metric of p and v take mixtures of p and p_v:
the class is convex. Replace each user's sampled rank, with a fixed probability, by one drawn from
p. That turns a sample from p_v into one from the mixture, and leaves a sample from p as it is. So
beta falls with the distance, and sums over a few values bound the integral.

With L the product over users of the ratio of p_v's distribution to p's, and phi a test of level 5%,

    E_p (1 - phi)  >=  E_p (1 - phi + t L phi) - 0.05 t  >=  E_p min(1, t L) - 0.05 t

for any t > 0 (Neyman and Pearson). The distribution of log L is a convolution, computed on a
lattice. Each user's ratio is divided between two neighbours so that its mean is kept. Since
min(1, t L) is concave in each ratio, that can only lower the bound, as does lowering a ratio that
is beyond the lattice. What is left are rounding and sums that leave the lattice on either side, at
14 standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft
from scipy.special import xlogy

from sampled_metrics import Metric, Protocol
from sampled_metrics._validate import FloatArray
from sampled_metrics.bounds.assumption import top_ranks
from sampled_metrics.bounds.generators import hats
from sampled_metrics.numerics.mixtures import likeliest
from sampled_metrics.priors import FittedPrior

#: Prices of the metric, times the number of users.
_PRICES = np.append(0.0, np.geomspace(0.1, 1e6, 32))
#: Steps between two neighbouring populations.
_BETWEEN = 3
#: Lattice points per standard deviation of a user's log ratio; reach of the lattice in standard
#: deviations of the sum; most lattice points on either side.
_FINE, _REACH, _MOST = 16, 14.0, 1 << 19
#: Distributions with a smaller variance of the log ratio count as equal.
_NONE = 1e-14
#: Tolerance of fits, over all users, and share of even ranks mixed in: fits need some everywhere.
_NEAR, _EVEN = 1e-3, 1e-6
#: Smaller weights of a fit are rounding.
_ROUNDING = 1e-6


def maximum_likelihood(counts: ArrayLike, protocol: Protocol) -> FittedPrior:
    """The distribution of true ranks under which the observed sampled ranks are the most likely
    (jin2021, wang2007), by an interior-point method over all ranks; one catalogue size. The
    derivative at every rank bounds the remaining gain.

    >>> fitted = maximum_likelihood([9, 0, 1], Protocol(n_items=50, n_negatives=2))
    >>> fitted.mass[[0, 49]].round(6).tolist(), fitted.certified
    ([0.9, 0.1], True)
    """
    users = np.asarray(counts, dtype=float)
    shares, pmfs = users / users.sum(), protocol.pmf(np.arange(1, int(protocol.n_items) + 1))
    support, mass = np.arange(len(pmfs)), np.zeros(len(pmfs))
    for _ in range(2):  # once more without the ranks that rounding has left
        weights = _likely(pmfs[support][:, shares > 0], shares[shares > 0], 1e-11)[0]
        support, kept = support[weights > _ROUNDING], weights[weights > _ROUNDING]
    mass[support] = kept / kept.sum()
    q = mass @ pmfs
    gap = float((pmfs[:, shares > 0] @ (shares / np.where(q > 0, q, 1.0))[shares > 0]).max()) - 1.0
    return FittedPrior(mass, float(np.sum(xlogy(users, q))), gap, q)


def _likely(
    pmfs: FloatArray, shares: FloatArray, tolerance: float, cost: FloatArray | float = 0.0
) -> FloatArray:
    """Weights of the mixtures of `pmfs` (k, outcomes) that are likeliest, less their `cost`."""
    costs = np.atleast_2d(np.broadcast_to(cost, np.shape(cost) or (1, len(pmfs))))
    rows = np.broadcast_to(shares, (len(costs), shares.size))
    return likeliest(pmfs.T, rows, costs, tolerance)


def shortest(
    counts: ArrayLike,
    protocol: Protocol,
    metric: Metric,
    confidence: float,
    assumption: str | None = None,
) -> float:
    """Lower bound on the mean width of any valid interval, at the population fitted to a sample.

    Let a method's intervals hold the metric in at least 95% (`confidence`) of samples from each
    population that the assumption allows, and let p be the one that is fitted to the counts. Then
    the mean width of the method's intervals, over samples from p, is at least the result. One
    catalogue size, one relevant item.

    How many times as wide as the bound an interval is:

    >>> from sampled_metrics import interval, metric
    >>> protocol, recall = Protocol(n_items=1_000, n_negatives=99), metric("recall@10")
    >>> true = np.random.default_rng(1).geometric(0.01, size=5_000)
    >>> drawn = np.bincount(protocol.draw(np.minimum(true, 1_000), 1) - 1, minlength=100)
    >>> found = interval(drawn, protocol, recall)
    >>> round((found.high - found.low) / shortest(drawn, protocol, recall, 0.95), 1)
    1.3
    """
    users = np.asarray(counts, dtype=float)
    allowed = _Class(protocol, metric, assumption)
    fitted, law = allowed.near(users / users.sum(), users.sum(), np.zeros(1))
    width = 0.0
    for sign in (1, -1):
        values, laws = allowed.near(law[0], users.sum(), sign * _PRICES)
        width += _side(np.append(fitted, values), np.concatenate([law, laws]), users.sum(),
                       1.0 - confidence, sign)  # fmt: skip
    return width


def decidable(
    pair: Sequence[FloatArray],
    protocol: Protocol,
    metric: Metric,
    confidence: float,
    users: float,
    assumption: str | None = None,
) -> float:
    """Upper bound on the probability that a valid method names the better of two populations.

    A valid method names A in at most 5% of evaluations whenever A is not better. Guessing reaches
    5%. The recommenders are evaluated on different users, or their ranks are independent: on common
    users a method may do better. The bound uses one pair of populations with equal metrics; any
    pair would do. `pair` has the probabilities of the true ranks, (n_items,), of the better one and
    of the worse one.

    Every tenth item is at rank 5 under one recommender, at rank 30 under the other. Ten negatives
    distinguish them with a million users:

    >>> from sampled_metrics import metric
    >>> protocol, ndcg = Protocol(1_000, 10), metric("ndcg@10")
    >>> pair = better, worse = np.zeros((2, 1_000))
    >>> better[[4, 499]] = worse[[29, 499]] = 0.1, 0.9
    >>> [round(decidable(pair, protocol, ndcg, 0.95, users), 2) for users in (1e2, 1e4, 1e6)]
    [0.06, 0.29, 1.0]
    """
    allowed = _Class(protocol, metric, assumption)
    true = [mass @ protocol.pmf(np.arange(1, mass.size + 1)) for mass in pair]
    moved = [
        allowed.near(law, users, sign * _PRICES) for law, sign in zip(true, (1, -1), strict=True)
    ]
    gap = moved[0][0] - moved[1][0]
    if gap[-1] > 0:  # no two populations of the class are level
        return 1.0
    row = int(np.argmax(gap <= 0))
    # Mix the populations of two prices until level; the first price may do already.
    share = 0.0 if row == 0 else gap[row - 1] / (gap[row - 1] - gap[row])
    level = [(1.0 - share) * laws[max(row - 1, 0)] + share * laws[row] for _, laws in moved]
    return 1.0 - missed(list(zip(true, level, strict=True)), users, 1.0 - confidence)


class _Class:
    """The populations that an assumption allows, as mixtures of single ranks, or of even ones.

    Ranks are a grid that is fine near both ends, unless few ranks alone lead to a sampled one: for
    a bound populations need not be the likeliest.
    """

    def __init__(self, protocol: Protocol, metric: Metric, assumption: str | None) -> None:
        n_items = int(protocol.n_items)
        ranks = np.arange(1, n_items + 1)
        laws, values = protocol.pmf(ranks), metric(ranks, n_items)
        self.even, self.knots = laws.mean(axis=0), hats(protocol.n_negatives)
        steps = np.geomspace(1, n_items, int(50 * np.log(n_items)) + 2)
        depths = np.append(steps, n_items + 1 - steps[::2])
        if 2 * protocol.n_negatives > n_items:
            depths = ranks.astype(float)
        if assumption is not None:  # the first ranks to each depth, evenly
            top = top_ranks(n_items, protocol.n_negatives)
            laws[:top] = np.cumsum(laws[:top], axis=0) / ranks[:top, np.newaxis]
            values[:top] = np.cumsum(values[:top]) / ranks[:top]
            depths = np.append(depths, [top, min(top + 1, n_items)])
        kept = np.unique(depths.round().astype(int)) - 1
        self.laws, self.values = laws[kept], values[kept]

    def near(
        self, law: FloatArray, users: float, prices: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """For each price the likeliest population: its metric and sampled-rank distribution.

        Likely under a distribution of the sampled rank; a higher price lowers the metric.
        """
        shares = ((1.0 - _EVEN) * law + _EVEN * self.even) @ self.knots
        costs = np.outer(prices / users, self.values)
        weights = _likely(self.laws @ self.knots, shares, _NEAR / users, costs)
        return weights @ self.values, weights @ self.laws


def _side(
    metric: FloatArray, laws: FloatArray, users: float, error_rate: float, sign: int
) -> float:
    """Contribution to the width of the values on one side of the first population's metric."""
    distances = sign * (metric[0] - metric)
    order = np.argsort(distances, kind="stable")[int((distances < 0).sum()) :]
    width, best = 0.0, 0.0
    # From the furthest one inwards: no value in between is easier to reject (see the module).
    for inner, outer in zip(order[-2::-1], order[:0:-1], strict=True):
        for step in range(_BETWEEN, 0, -1):
            share = step / _BETWEEN
            mixed = (1.0 - share) * laws[inner] + share * laws[outer]
            best = max(best, missed([(laws[0], mixed)], users, error_rate))
            width += best * abs(metric[outer] - metric[inner]) / _BETWEEN
    return float(width)


def missed(
    pairs: Sequence[tuple[FloatArray, FloatArray]], users: float, error_rate: float
) -> float:
    """Lower bound on the type II error of any test of one distribution against another.

    `pairs` has the true distribution and the tested one, of several groups of so many users each;
    `error_rate` is the level of the test. At most 1 - error_rate. A fair coin, tossed once, against
    a coin that shows heads in 5%:

    >>> round(missed([(np.array([0.5, 0.5]), np.array([0.95, 0.05]))], 1.0, 0.05), 3)
    0.5
    """
    ratios, variance, common = [], 0.0, 1.0
    for true, tested in pairs:
        both = (true > 0) & (tested > 0)
        ratio = np.log(tested[both]) - np.log(true[both])
        common = min(common, float(true[both].sum()), float(tested[both].sum()))
        variance += users * float(true[both] @ (ratio - true[both] @ ratio) ** 2)
        ratios.append((true[both], ratio))
    if variance < _NONE and common > 1.0 - _NONE:
        return 1.0 - error_rate
    variance = max(variance, _NONE)
    fine = 2.0 / _FINE * np.sqrt(variance / users / len(pairs))
    cell = max(fine, _REACH * np.sqrt(variance) / _MOST)
    half = int(np.ceil(_REACH * np.sqrt(variance) / cell)) + _FINE
    size = fft.next_fast_len(2 * half, real=True)
    transform, centre = np.ones(size // 2 + 1, dtype=complex), 0.0
    for true, ratio in ratios:
        # Ratios beyond half of the lattice are lowered to its end, or to 0: that lowers the bound.
        kept = ratio > -0.5 * half * cell
        place = np.minimum(ratio[kept], 0.5 * half * cell) / cell
        low = np.floor(place).astype(np.intp)
        upper = np.expm1((place - low) * cell) / np.expm1(cell)
        mass = np.bincount(low % size, true[kept] * (1.0 - upper), size)
        mass += np.bincount((low + 1) % size, true[kept] * upper, size)
        transform *= fft.rfft(mass) ** round(users)
        centre += users * float(true[kept] @ place)
    mass = np.maximum(fft.irfft(transform, size), 0.0)
    points = np.arange(size)
    sums = (points + size * np.rint((centre - points) / size)) * cell  # at each lattice point
    order = np.argsort(sums)
    sums, mass = sums[order], mass[order]
    above = mass.sum() - np.cumsum(mass)
    with np.errstate(divide="ignore", over="ignore"):
        below = np.exp(np.logaddexp.accumulate(np.log(mass) + sums) - sums)
        bounds = below + above - error_rate * np.exp(-sums)
    return float(np.clip(bounds.max(), 0.0, 1.0 - error_rate))

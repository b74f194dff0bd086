r"""Estimators of the literature that the library does not have (li2020, jin2021, li2023).

Notation: :math:`P` has the probability of x = 0..m negatives above the item in row r of true ranks
1..n, s is the share of users at each x in one log, p a distribution of true ranks, :math:`q = pP`.
Of the papers we could read the abstracts and introductions, so that the definitions are those of
the authors' programs, named in each docstring, and have no numbers of equations.

Maximum likelihood until convergence is :func:`sampled_metrics.priors.maximum_likelihood`, and
bias-variance with a prior is :func:`sampled_metrics.estimators.bias_variance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import betabinom

from sampled_metrics import metric
from sampled_metrics._validate import FloatArray
from sampled_metrics.numerics.newton import damped_newton
from sampled_metrics.numerics.quadrature import all_ranks
from sampled_metrics.protocol import Protocol

#: Weight of the entropy, and of the variance, in the authors' notebooks (li2023).
GAMMA = 0.01
#: Steps of expectation maximisation in their notebook.
STEPS = 100


@dataclass(frozen=True, eq=False)
class Grid:
    """P at some true ranks, whose weighted sums are sums over all ranks.

    >>> grid = Grid.of(Protocol(5_000, 20))
    >>> grid.ranks.size, round(grid.weights.sum())
    (442, 5000)
    """

    ranks: FloatArray
    weights: FloatArray
    rows: FloatArray

    @staticmethod
    def of(protocol: Protocol) -> Grid:
        """Quadrature for polynomials of three times the degree of P, since priors are steeper."""
        ranks, weights = all_ranks(int(protocol.n_items), 3 * protocol.n_negatives)
        return Grid(ranks, weights, protocol.rows(ranks - 1.0))

    def values(self, metric_name: str) -> FloatArray:
        """A metric at the ranks."""
        return metric(metric_name).smooth_term(self.ranks, np.array(1), 1, None)


def squared_entropy(
    grid: Grid, shares: FloatArray, gamma: float = GAMMA, start: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""MES, the distribution p that minimises squared distances minus entropy:

    .. math:: (m + 1) \sum_x s_x (q_x - s_x)^2 + \gamma \sum_r p_r \log p_r.

    As in `MES.ipynb` of li2023. The dual problem is smooth and convex in one multiplier for each x
    that some user has,

    .. math:: p_r \propto \exp\Big(\sum_x \lambda_x P_{rx}\Big), \qquad
              \lambda_x = 2 (m + 1) s_x (s_x - q_x) / \gamma,

    and is minimised by Newton's method. Returns the masses at the grid's ranks, weights included,
    and the multipliers, which can be the `start` of a similar problem.

    >>> grid = Grid.of(Protocol(50, 2))
    >>> mass, multipliers = squared_entropy(grid, np.array([0.9, 0.06, 0.04]))
    >>> multipliers.round(2), (mass @ grid.rows).round(3)
    (array([ 7.3 , -1.46,  0.65]), array([0.886, 0.101, 0.013]))
    """
    seen = np.flatnonzero(shares)
    rows, observed, log_weights = grid.rows[:, seen], shares[seen], np.log(grid.weights)
    stiffness = gamma / (2.0 * shares.size * observed)

    def dual(x: FloatArray) -> tuple[float, FloatArray]:
        tilt = rows @ x + log_weights
        top = float(tilt.max())
        mass = np.exp(tilt - top)
        total = float(mass.sum())
        value = top + np.log(total) - x @ observed + 0.5 * stiffness @ x**2
        return float(value), mass / total

    def slopes(x: FloatArray, value: float, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = mass @ rows
        hessian = (rows.T * mass) @ rows - np.outer(q, q) + np.diag(stiffness)
        return q - observed + stiffness * x, hessian

    first = np.zeros(seen.size) if start is None else start[seen]
    x, value, mass = damped_newton(dual, slopes, first, 1e-12)
    gradient, hessian = slopes(x, value, mass)
    multipliers = np.zeros(shares.size)
    multipliers[seen] = x - np.linalg.solve(hessian, gradient)  # squares the error that is left
    return dual(multipliers[seen])[1], multipliers


def discounted(shares: FloatArray) -> FloatArray:
    """Weights of WMLE (jin2021), proportional to 1/log2(1 + sampled rank), times the shares.

    The likelihood is weighted, as the paper's abstract says. The weights are our choice, since
    neither the abstract nor the authors' program shows theirs.

    >>> discounted(np.array([0.5, 0.5])).round(3)
    array([0.613, 0.387])
    """
    weighted = shares / np.log2(np.arange(shares.size) + 2.0)
    return np.asarray(weighted / weighted.sum())


def expectation_maximisation(grid: Grid, shares: FloatArray, steps: int = STEPS) -> FloatArray:
    r"""MLE of `MLE.ipynb` of li2023: so many steps from uniform masses of

    .. math:: p_r \leftarrow p_r \sum_x P_{rx} s_x / q_x .

    So few steps do not reach the maximum: the result is smoother. With :func:`discounted` shares
    it is WMLE, since a weighted likelihood is that of weighted shares.

    >>> grid = Grid.of(Protocol(50, 2))
    >>> (expectation_maximisation(grid, np.array([0.9, 0.06, 0.04])) @ grid.rows).round(3)
    array([0.9 , 0.06, 0.04])
    """
    seen = np.flatnonzero(shares)
    rows, observed = grid.rows[:, seen], shares[seen]
    mass = grid.weights / grid.weights.sum()
    for _ in range(steps):
        mass = mass * (rows @ (observed / (mass @ rows)))
    return np.asarray(mass / mass.sum())


def bias_variance(
    grid: Grid, mass: FloatArray, values: FloatArray, gamma: float = GAMMA
) -> FloatArray:
    r"""BV_MES, if `mass` is of MES: bias-variance of krichene2020 with this prior.

    .. math:: \big((1 - \gamma) P^\top D P + \gamma \operatorname{diag}(q)\big) \hat M
              = P^\top D M, \qquad D = \operatorname{diag}(p)

    As in `BV_MES_MLE.ipynb` of li2023. `values` has M at the grid's ranks, a column for each
    metric. The library's estimator of this name is the same; here P is shared by many logs.

    >>> grid = Grid.of(Protocol(50, 2))
    >>> bias_variance(grid, np.full(50, 0.02), grid.values("recall@10")).round(3)
    array([ 1.085, -0.663,  0.152])
    """
    q, products = mass @ grid.rows, (grid.rows.T * mass) @ grid.rows
    return _solved((1.0 - gamma) * products + gamma * np.diag(q), grid, mass, values)


def multinomial(grid: Grid, mass: FloatArray, values: FloatArray, n_users: int) -> FloatArray:
    r"""MN_MES, if `mass` is of MES: the variance is summed over the ranks without their masses.

    .. math:: \Big(P^\top D P + \tfrac 1 N \sum_r \big(\operatorname{diag}(P_r)
              - P_r^\top P_r\big)\Big) \hat M = P^\top D M

    with N users, as in `MN_MES_MLE.ipynb` of li2023. With equal masses it is bias-variance with
    gamma n / N.

    >>> grid = Grid.of(Protocol(50, 2))
    >>> multinomial(grid, np.full(50, 0.02), grid.values("recall@10"), 5_000).round(3)
    array([ 1.085, -0.663,  0.152])
    """
    products = (grid.rows.T * mass) @ grid.rows
    weighted = grid.rows.T * grid.weights
    variance = np.diag(weighted.sum(axis=1)) - weighted @ grid.rows
    return _solved(products + variance / n_users, grid, mass, values)


def _solved(system: FloatArray, grid: Grid, mass: FloatArray, values: FloatArray) -> FloatArray:
    """Solve for M-hat, scaled so that outcomes of tiny probability keep their digits."""
    scale = 1.0 / np.sqrt(np.diag(system))
    right = ((grid.rows.T * mass) @ values).T * scale
    return np.asarray(scale * np.linalg.solve(scale[:, np.newaxis] * system * scale, right.T).T).T


#: The mappings of li2020: the true rank that stands for sampled rank k, of n items with m
#: negatives. Those of a beta distribution have its first parameter, the second being 1. No program
#: of theirs shows the formulas; these agree with the hit ratios of their tables 3 and 4.
MAPPINGS: dict[str, Callable[[FloatArray, int, int], FloatArray]] = {
    "linear": lambda k, n, m: 1 + (k - 1) * (n - 1) / m,
    "bound": lambda k, n, m: 1 + (k - 0.5) * (n - 1) / m,
    "beta 1": lambda k, n, m: _beta_rank(k, n, m, 1.0),
    "beta 0.5": lambda k, n, m: _beta_rank(k, n, m, 0.5),
    "beta 0.2": lambda k, n, m: _beta_rank(k, n, m, 0.2),
}


def _beta_rank(k: FloatArray, n: int, m: int, a: float) -> FloatArray:
    return np.asarray(1 + (n - 1) * betabinom.cdf(k - 1, m, a, 1) ** (1 / a))


def mapped_recall(shares: FloatArray, n_items: int, depth: ArrayLike, mapping: str) -> FloatArray:
    """Recall at a depth of the catalogue, read off sampled Recall@k at the ranks that k maps to.

    Between these ranks, and from 0 to the first, it is interpolated in a straight line; li2020
    report only depths that some k maps to.

    >>> shares = np.array([0.2, 0.1] + [0.007] * 100)[:101]
    >>> mapped_recall(shares / shares.sum(), 5_000, [10, 27, 52], "beta 1").round(3)
    array([0.04 , 0.108, 0.204])
    """
    m, depths = shares.size - 1, np.asarray(depth, dtype=float)
    ranks = MAPPINGS[mapping](np.arange(1.0, m + 2), n_items, m)
    recalls = np.concatenate([[0.0], np.cumsum(shares)])
    return np.asarray(np.interp(depths, np.concatenate([[0.0], ranks]), recalls))

r"""Published estimators beside the learned prior, on one log each of all sources.

Notation: :math:`P` has the probability of x = 0..m negatives above the item in row r of true ranks
1..n, s is the share of users at each x in one log, p a distribution of true ranks, :math:`q = pP`.
The estimators of li2023 are defined by the authors' notebooks, named in each docstring. As there,
each recommender's prior is fitted to its own sampled ranks.

``python -m sampled_book.experiments.all_estimators`` computes the table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln

from sampled_metrics import Protocol, estimators, learned_prior, metric, priors
from sampled_metrics._validate import FloatArray
from sampled_metrics.learned_prior import Counts, Prior
from sampled_metrics.numerics.newton import damped_newton
from sampled_metrics.numerics.quadrature import all_ranks
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle
from . import left_out
from .learned_prior import exact_counts, group_by_data, priors_without
from .left_out import Drawn, by_source, counts_of, different_pairs, drawn, logarithm

NAME, FILE = "sampled_book.experiments.all_estimators", "all_estimators.csv.gz"
METRICS = ("ndcg@10", "recall@10", "ap")
LEARNED, ORACLE = "learned prior", "oracle"
#: In the order of tables; figures show those that are the best of their kind.
ESTIMATORS = ("reported", "bias-variance", "bias-variance, fitted prior",
              "BV_MES", "BV_MLE", "MN_MES", "power law", LEARNED, ORACLE)  # fmt: skip
#: Weight of the entropy, and of the variance, and steps of expectation maximisation in the
#: authors' notebooks (li2023).
GAMMA, STEPS = 0.01, 100
_LOG = ["data", "n_negatives", "users", "whole", "metric", "estimator"]


# --- the estimators of li2023 ---------------------------------------------------------------------


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

    def values(self, metric_names: Sequence[str]) -> FloatArray:
        """Metrics at the ranks, (ranks, metrics)."""
        one = np.array(1)
        return np.stack([metric(n).smooth_term(self.ranks, one, 1, None) for n in metric_names], 1)


def squared_entropy(grid: Grid, shares: FloatArray) -> FloatArray:
    r"""MES, the distribution p that minimises squared distances minus entropy:

    .. math:: (m + 1) \sum_x s_x (q_x - s_x)^2 + \gamma \sum_r p_r \log p_r.

    As in `MES.ipynb`. The dual problem is smooth and convex in one multiplier for each x that some
    user has,

    .. math:: p_r \propto \exp\Big(\sum_x \lambda_x P_{rx}\Big), \qquad
              \lambda_x = 2 (m + 1) s_x (s_x - q_x) / \gamma,

    and is minimised by Newton's method. Returns the masses at the grid's ranks, weights included.
    """
    seen = np.flatnonzero(shares)
    rows, observed, log_weights = grid.rows[:, seen], shares[seen], np.log(grid.weights)
    stiffness = GAMMA / (2.0 * shares.size * observed)

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

    x, value, mass = damped_newton(dual, slopes, np.zeros(seen.size), 1e-12)
    gradient, hessian = slopes(x, value, mass)
    return dual(x - np.linalg.solve(hessian, gradient))[1]  # squares the error that is left


def expectation_maximisation(grid: Grid, shares: FloatArray) -> FloatArray:
    r"""MLE of `MLE.ipynb`: 100 steps from uniform masses of

    .. math:: p_r \leftarrow p_r \sum_x P_{rx} s_x / q_x .

    So few steps do not reach the maximum: the result is smoother.
    """
    seen = np.flatnonzero(shares)
    rows, observed = grid.rows[:, seen], shares[seen]
    mass = grid.weights / grid.weights.sum()
    for _ in range(STEPS):
        mass = mass * (rows @ (observed / (mass @ rows)))
    return np.asarray(mass / mass.sum())


def corrected(
    grid: Grid, mass: FloatArray, values: FloatArray, n_users: int | None = None
) -> FloatArray:
    r"""BV_MES or BV_MLE, by the prior: bias-variance of krichene2020, as in `BV_MES_MLE.ipynb`,

    .. math:: \big((1 - \gamma) P^\top D P + \gamma \operatorname{diag}(q)\big) \hat M
              = P^\top D M, \qquad D = \operatorname{diag}(p).

    With `n_users` it is MN_MES, as in `MN_MES_MLE.ipynb`, where the variance is summed over the
    ranks without their masses:

    .. math:: \Big(P^\top D P + \tfrac 1 N \sum_r \big(\operatorname{diag}(P_r)
              - P_r^\top P_r\big)\Big) \hat M = P^\top D M .
    """
    system = (grid.rows.T * mass) @ grid.rows
    if n_users is None:
        system = (1.0 - GAMMA) * system + GAMMA * np.diag(mass @ grid.rows)
    else:
        weighted = grid.rows.T * grid.weights
        system = system + (np.diag(weighted.sum(axis=1)) - weighted @ grid.rows) / n_users
    # Scaled so that outcomes of tiny probability keep their digits.
    scale = 1.0 / np.sqrt(np.diag(system))[:, np.newaxis]
    right = scale * ((grid.rows.T * mass) @ values)
    return np.asarray(scale * np.linalg.solve(scale * system * scale.T, right))


# --- all estimates of a log -----------------------------------------------------------------------


def power_law(shares: FloatArray, items: int, metric_name: str) -> float:
    """A metric where a share A (r / n)^b of users has rank r or better.

    The expected share of users with fewer than x of m negatives above is then
    A Gamma(x + b) Gamma(m + 1) / (Gamma(x) Gamma(m + 1 + b)). The shares for x = 1 and 3 give b and
    A.

    >>> round(power_law(np.array([0.2, 0.06, 0.04] + 98 * [0.7 / 98]), 10_000, "recall@10"), 3)
    0.111
    """
    first, third, m = shares[0], shares[:3].sum(), shares.size - 1
    if first == 0:
        return 0.0
    exponent = 0.5 * (np.sqrt(1.0 + 8.0 * third / first) - 3.0)
    log_share = np.log(first) + gammaln(m + 1 + exponent) - gammaln(m + 1) - gammaln(1 + exponent)
    ranks = np.arange(1.0, items + 1.0)
    below = np.minimum(np.exp(log_share + exponent * np.log(ranks / items)), 1.0)
    return float(np.diff(below, prepend=0.0) @ metric(metric_name).term(ranks, n_items=items))


def informed(counts: Counts, exact: Counts, prior: Prior) -> FloatArray:
    """Estimates by the learned prior of who knows all exact ranks but those of the recommender."""
    group = np.append(counts.group, exact.group + counts.group.max() + 1)
    likelihood = np.concatenate([counts.likelihood, exact.likelihood])
    rows = []
    for i in range(len(counts.names)):
        is_own = np.arange(len(counts.names))[:, np.newaxis] == i
        users = np.hstack([counts.users * is_own, exact.users * ~is_own])
        fit = learned_prior.fit(Counts(counts.names, counts.cells, group, likelihood, users), prior)
        rows.append([np.exp(fit.logarithms(metric(name))[0][i]) for name in METRICS])
    return np.array(rows)


def estimates(log: Drawn, prior: Prior) -> dict[str, FloatArray]:
    """The estimates of each estimator but the learned prior, (recommenders, metrics)."""
    m, n_users = log.n_negatives, log.sizes.size
    protocol = Protocol(round(float(log.sizes.mean())), m, replacement=log.replacement)
    users = np.array([np.bincount(part, minlength=m + 1) for part in log.better.values()])
    shares, gamma = users / n_users, estimators.default_gamma(n_users)
    ranks, mass = priors.condensed(priors.maximum_entropy(users.sum(axis=0), protocol).mass)
    fitted = dict(zip(ranks.tolist(), mass, strict=True))
    vectors = {"reported": [estimators.naive(name, protocol).values for name in METRICS]}
    for name, each in (("bias-variance", None), ("bias-variance, fitted prior", fitted)):
        vectors[name] = [
            estimators.bias_variance(metric_name, protocol, gamma, each).values
            for metric_name in METRICS
        ]
    tables = {name: shares @ np.array(rows).T for name, rows in vectors.items()}
    grid, counts = Grid.of(protocol), counts_of(log.better, m, log.sizes, log.replacement)
    values, published = grid.values(METRICS), []
    for row in shares:
        entropy, likeliest = squared_entropy(grid, row), expectation_maximisation(grid, row)
        published.append(
            [
                row @ corrected(grid, entropy, values),
                row @ corrected(grid, likeliest, values),
                row @ corrected(grid, entropy, values, n_users),
            ]
        )
    by_name = zip(("BV_MES", "BV_MLE", "MN_MES"), np.array(published).swapaxes(0, 1), strict=True)
    items = int(protocol.n_items)
    power = [[power_law(row, items, name) for name in METRICS] for row in shares]
    return tables | {
        **dict(by_name),
        "power law": np.array(power),
        ORACLE: informed(counts, exact_counts(log.ranks), prior),
    }


def judged(name: str, ranks: Mapping[str, RankIntervals], prior: Prior) -> pd.DataFrame:
    """Errors and orders of each estimator on logs without replacement: means over recommenders of
    `off`, the logarithm of estimate / exact, and of its `square`, and pairs in the `right` order.
    """
    rows = []
    for log in drawn(name, ranks):
        if log.replacement:
            continue
        exact = np.stack(
            [[part.evaluate(n).mean() for n in METRICS] for part in log.ranks.values()]
        )
        for estimator, table in estimates(log, prior).items():
            for column, metric_name in enumerate(METRICS):
                row = name, log.n_negatives, log.sizes.size, log.whole, metric_name, estimator
                rows.append((*row, *_errors(table[:, column], exact[:, column], log.sizes.size)))
    return pd.DataFrame(rows, columns=[*_LOG, "off", "square", "right"])


def _errors(values: FloatArray, exact: FloatArray, n_users: int) -> tuple[float, float, float]:
    off = logarithm(values, n_users) - logarithm(exact, n_users)
    first, second = different_pairs(exact)
    right = (values[first] - values[second]) * (exact[first] - exact[second]) > 0
    return float(off.mean()), float((off**2).mean()), float(right.mean())


def compute(tell: Any = print) -> pd.DataFrame:
    """:func:`judged` of all data sets, the oracle by priors learned without their sources."""
    groups, tables = group_by_data(), []
    for group, prior in priors_without(sorted({*groups.values()})):
        names = [name for name in benchmark.names_in() if groups[name] == group]
        tables += [judged(name, benchmark.ranks(name), prior) for name in names]
        tell(group)
    return pd.concat(tables)


def bundled() -> pd.DataFrame:
    """What was computed before, with the source of each data set, and the learned prior's errors
    and orders on the same logs, from :func:`sampled_book.experiments.left_out.bundled`.
    """
    table = pd.read_csv(benchmark.BUNDLE / "evidence" / FILE)
    parts = []
    for part in left_out.bundled():
        part = part[~part["replacement"] & part["metric"].isin(METRICS)]
        parts.append(part.rename(columns={"is_whole": "whole"}).assign(estimator=LEARNED))
    errors = parts[0].assign(square=parts[0]["off"] ** 2).groupby(_LOG)[["off", "square"]].mean()
    orders = parts[1].set_index(_LOG)
    learned = errors.assign(right=orders["right"] / orders["pairs"]).reset_index()
    every = pd.concat([table, learned], ignore_index=True)
    return every.assign(group=every["data"].map(group_by_data()))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """rms, bias and share of right orders by metric, estimator, negatives and whether the log has
    all users, sources alike.
    """
    rows = []
    for key, part in table.groupby(["metric", "estimator", "whole", "n_negatives"], sort=False):
        means = [float(by_source(part, part[name]).mean()) for name in ("square", "off", "right")]
        rows.append((*key, np.sqrt(means[0]), *means[1:]))
    columns = ["metric", "estimator", "whole", "n_negatives", "rms", "bias", "right"]
    return pd.DataFrame(rows, columns=columns)


def main(argv: Sequence[str] | None = None) -> int:
    """Judge all estimators on logs of all data sets."""
    arguments = bundle.parser(NAME, main.__doc__).parse_args(argv)

    def write() -> list[Path]:
        folder = arguments.output or benchmark.BUNDLE / "evidence"
        return [bundle.write_table(folder / FILE, compute(), 5)]

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())

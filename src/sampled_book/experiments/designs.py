"""Some items scored whole, and the rest sampled: errors at equal numbers of scores.

``python -m sampled_book.experiments.designs`` computes what :func:`strata` reads. Nothing is
simulated: with the true ranks known, the bias and the variance of an average over the users are
sums over the ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.linalg import svds

from sampled_metrics import Protocol, estimators, metric
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.estimators import bias_variance

from ..data import benchmark, bundle, datasets
from ..data.sequences import Sequences

BUNDLE = datasets.BUNDLE / "designs"
#: Data sets with strata; of each at most so many users, the first of the benchmark's random order.
STRATA, USERS = ("ml-100k", "lastfm", "beauty"), 5_000
#: Items scored whole, factors of the search, and negatives of the rest.
WHOLE, COARSE, REST = 100, 16, 49


def split_ranks(
    data: Sequences, factors: int, users: IntArray, n_ranked: int, coarse: int
) -> pd.DataFrame:
    """How many items are above each user's test item (*above*), and how many of these are in two
    strata of `n_ranked` items: the most *popular*, and those that a *search* by the `coarse`
    leading factors finds first.

    The recommender is the benchmark's PureSVD. Of two items with one score the first in the
    catalogue is above. Strata exclude the user's own items and the test item.
    """
    learnt, held_out = data.without_last(1)
    matrix = learnt.matrix
    start_vector = np.random.default_rng(benchmark.SEED).random(min(matrix.shape))
    item_factors = svds(matrix, k=min(factors, min(matrix.shape) - 1), v0=start_vector)[2]
    by_popularity = np.argsort(-np.bincount(learnt.items, minlength=data.n_items), kind="stable")
    parts = []
    for block in np.array_split(users, max(1, users.size // 500)):
        user_factors = matrix[block] @ item_factors.T
        scores = user_factors @ item_factors
        row, test = np.arange(block.size), held_out[block]
        is_excluded = np.zeros(scores.shape, dtype=bool)
        is_excluded[np.repeat(row, np.diff(matrix[block].indptr)), matrix[block].indices] = True
        test_scores = scores[row, test][:, np.newaxis]
        precedes_test = np.arange(data.n_items) < test[:, np.newaxis]
        is_above = ~is_excluded & (
            (scores > test_scores) | ((scores == test_scores) & precedes_test)
        )
        is_excluded[row, test] = True
        is_candidate = ~is_excluded[:, by_popularity]
        is_popular = is_candidate & (np.cumsum(is_candidate, axis=1) <= n_ranked)
        # svds gives the leading factors last.
        coarse_scores = np.where(
            is_excluded, -np.inf, user_factors[:, -coarse:] @ item_factors[-coarse:]
        )
        search_items = np.argpartition(-coarse_scores, n_ranked, axis=1)[:, :n_ranked]
        parts.append(np.column_stack([
            is_above.sum(axis=1),
            (is_above[:, by_popularity] & is_popular).sum(axis=1),
            np.take_along_axis(is_above, search_items, axis=1).sum(axis=1),
        ]))  # fmt: skip
    return pd.DataFrame(np.concatenate(parts), columns=["above", "popular", "search"])


def strata(name: str) -> pd.DataFrame:
    """The bundled results of :func:`split_ranks` for PureSVD on a data set of `STRATA`."""
    with np.load(BUNDLE / "strata.npz") as archive:
        return pd.DataFrame(archive[name].astype(np.int64), columns=["above", "popular", "search"])


def stratified_values(
    metric_name: str, n_items: int, n_ranked: int, n_negatives: int, gamma: float
) -> FloatArray:
    """Bias-variance corrections beside a stratum of `n_ranked` items, by the book's equation.

    A row of values for the number of sampled negatives above, for each number of the stratum's
    items above; ranks in the rest are uniform.

    >>> stratified_values("recall@1", 4, 1, 1, 0.1).round(2).tolist()
    [[0.81, -0.14], [0.0, 0.0]]
    """
    rest = Protocol(n_items - n_ranked, n_negatives, replacement=False)
    above = np.arange(int(rest.pool) + 1)
    rows, inside = rest.rows(above), np.arange(n_ranked + 1)
    exact = metric(metric_name)(1 + above[:, np.newaxis] + inside, n_items)
    matrix = (1.0 - gamma) * rows.T @ rows + gamma * np.diag(rows.sum(axis=0))
    return np.asarray(np.linalg.solve(matrix, rows.T @ exact).T)


def unexplained_variance(rows: FloatArray, values: FloatArray, weights: FloatArray) -> float:
    """Mean squared error of the best prediction of a user's value from a sample's outcome.

    The best prediction is the mean over the users with the same outcome; with the population known,
    no correction does better. So it measures how informative a sample is. `rows` (k, outcomes);
    `values` and `weights` (k,).
    """
    outcome_shares = weights @ rows
    sums = (weights * values) @ rows
    explained = np.divide(
        sums**2, outcome_shares, out=np.zeros_like(sums), where=outcome_shares > 0
    ).sum()
    return float(max(weights @ values**2 - explained, 0.0))


def by_design(
    split: pd.DataFrame, n_items: int, metric_name: str, n_ranked: int = WHOLE, rest: int = REST
) -> pd.DataFrame:
    """Errors of each design on the same users for the same number of scores.

    A stratum scores `n_ranked` items and draws `rest` negatives beside it. Columns: *scores* of a
    user; *bias*, *sd* and *rmse* of the average; *left*, :func:`unexplained_variance` as a part of
    the variance of the users' values. *search, trusted* assumes that items which the search does
    not find rank below the test item.
    """
    users, total = len(split), 1 + n_ranked + rest
    gamma, above = estimators.default_gamma(users), split["above"].to_numpy()
    exact = metric(metric_name)(above + 1, n_items)
    weights, records = np.full(users, 1 / users), []

    def add(name: str, rows: FloatArray, values: FloatArray, groups: IntArray) -> None:
        """A design with rows of P, values of outcomes by user, and groups known beforehand."""
        mean = (rows * values).sum(axis=1)
        variance = float(((rows * values**2).sum(axis=1) - mean**2).mean())
        left = sum(
            unexplained_variance(
                rows[groups == label], exact[groups == label], weights[groups == label]
            )
            for label in np.unique(groups)
        )
        record(name, total, float(np.mean(mean - exact)), np.sqrt(variance / users), left)

    def record(name: str, scores: int, bias: float, sd: float, left: float) -> None:
        records.append((name, scores, bias, sd, float(np.hypot(bias, sd)), left / exact.var()))

    protocol = Protocol(n_items, n_ranked + rest, replacement=False)
    fixed = bias_variance(metric_name, protocol, gamma)
    add("fixed", protocol.pmf(above + 1), fixed.values, np.zeros_like(above))
    beside = Protocol(n_items - n_ranked, rest, replacement=False)
    values = stratified_values(metric_name, n_items, n_ranked, rest, gamma)
    for stratum in ("popular", "search"):
        inside = split[stratum].to_numpy()
        add(stratum, beside.rows(above - inside), values[inside], inside)
    trusted = metric(metric_name)(inside + 1, n_items)
    groups = pd.Series(exact).groupby(inside)
    left = float((groups.var(ddof=0) * groups.size()).sum() / users)
    record("search, trusted", 1 + n_ranked, float(np.mean(trusted - exact)), 0.0, left)
    return pd.DataFrame(records, columns=["design", "scores", "bias", "sd", "rmse", "left"])


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the bundle again and write it."""
    arguments = bundle.parser("sampled_book.experiments.designs", main.__doc__).parse_args(argv)
    return bundle.run(lambda: _all_strata(arguments.output or BUNDLE))


def _all_strata(folder: Path) -> Iterator[str]:
    """Write how many items are above the test items in each stratum."""
    strata: dict[str, Any] = {}
    for name in STRATA:
        data, facts = benchmark.DATA[name](), benchmark.facts(name)
        users = np.random.default_rng(benchmark.SEED).permutation(data.n_users)[:USERS]
        factors = int(facts["recommenders"]["PureSVD"]["settings"]["factors"])
        ranks = split_ranks(data, factors, users, WHOLE, COARSE)
        strata[name] = ranks.to_numpy().astype(np.uint16)
        yield f"{name}, strata: done"
    bundle.write_arrays(folder / "strata.npz", **strata)


if __name__ == "__main__":
    sys.exit(main())

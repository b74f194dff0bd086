"""How negatives should be drawn: designs at equal numbers of scores, on real recommenders.

``python -m sampled_book.experiments.designs`` computes what :func:`bundled` and :func:`strata`
read. Nothing is simulated: with the true ranks known, the bias and the variance of an average over
the users are sums over the ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.linalg import svds

from sampled_metrics import Protocol, estimators, metric, priors
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.estimators import Estimator, bias_variance
from sampled_metrics.numerics.distributions import spread_ties
from sampled_metrics.protocol import Adaptive, Stratified
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle, datasets
from ..data.sequences import Sequences

BUNDLE = datasets.BUNDLE / "designs"
METRICS = ("recall@10", "ndcg@10")
#: Negatives of the first round and at most, of the designs that are compared.
DESIGNS = ((50, 800), (20, 320))
#: Weights of the variance among which the best is looked for.
GAMMAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
#: Data sets with fits to logs, and how many logs of each recommender.
FITTED = {"lastfm": 3, "ml-100k": 3, "beauty": 1}
#: Data sets with strata; of each at most so many users, the first of the benchmark's random order.
STRATA, USERS = ("ml-100k", "lastfm", "beauty"), 5_000
#: Items scored whole, factors of the search, and negatives of the rest.
WHOLE, COARSE, REST = 100, 16, 49


def population(places: RankIntervals) -> FloatArray:
    """Share of the users at each true rank; an item with ties is spread over their places."""
    n = int(np.max(places.n_candidates))
    return spread_ties(places.n_better, places.n_tied, 1.0 / places.n_better.size, n)


def some_ranks(n_items: int) -> IntArray:
    """The first 1,024 ranks and then ranks 1% apart: errors are smooth in the rank between them.

    >>> some_ranks(2_000).size
    1091
    """
    deep_ranks = np.geomspace(
        1_024, max(n_items, 1_024), 2 + int(100 * np.log(max(n_items / 1_024, 1)))
    )
    ranks = np.append(np.arange(1, min(n_items, 1_024) + 1), deep_ranks.round().astype(np.int64))
    return np.unique(ranks[ranks <= n_items])


def moments(rows: FloatArray, values: FloatArray, ranks: IntArray, mass: FloatArray) -> FloatArray:
    """Expectation of a user's value, and the mean of its variances given the rank, for each
    correction: result (2, corrections). `rows` (k, outcomes) is the distribution of the outcome
    at some ranks, `mass` (n,) that of the true ranks.
    """
    mean = rows @ values.T
    variance = np.maximum(rows @ values.T**2 - mean**2, 0.0)
    all_ranks = np.arange(1, mass.size + 1)
    return np.array([
        [mass @ np.interp(all_ranks, ranks, column) for column in moment.T]
        for moment in (mean, variance)
    ])  # fmt: skip


def compared(
    places: dict[str, RankIntervals],
    first: int,
    most_negatives: int,
    metrics: Sequence[str] = METRICS,
    gammas: Sequence[float] = GAMMAS,
) -> pd.DataFrame:
    """Errors of adaptive sampling and of a fixed number of negatives that costs as many scores.

    Both are corrected by bias-variance, with gamma = 1/sqrt(users), and (columns ``_best``) with
    the best gamma of some. A row for each metric and recommender: *scores* of a user in the
    adaptive design, *m* negatives that cost at least as much, and for each design and gamma *bias*
    and *sd* of the average and the *ratio* of the mean squared errors. `most_negatives` is at most
    half of the catalogue.
    """
    populations = {name: population(intervals) for name, intervals in places.items()}
    n = max(mass.size for mass in populations.values())
    design = Adaptive(n, first, min(most_negatives, n // 2), replacement=False)
    ranks, all_ranks = some_ranks(n), np.arange(1, n + 1)
    adaptive_pmf, cost = design.pmf(ranks), np.interp(all_ranks, ranks, design.cost(ranks))
    users = next(iter(places.values())).n_better.size
    all_gammas = (estimators.default_gamma(users), *gammas)
    adaptive_values = {
        metric_name: np.stack(
            [bias_variance(metric_name, design, gamma).values for gamma in all_gammas]
        )
        for metric_name in metrics
    }
    records = []
    for name, mass in populations.items():
        mass = np.pad(mass, (0, n - mass.size))
        scores = float(mass @ cost)
        protocol = Protocol(n, int(np.ceil(scores - 1)), replacement=False)
        fixed_pmf = protocol.pmf(ranks)
        for metric_name in metrics:
            fixed_values = np.stack(
                [bias_variance(metric_name, protocol, gamma).values for gamma in all_gammas]
            )
            exact = float(mass @ metric(metric_name)(all_ranks, n))
            row = {
                "metric": metric_name,
                "recommender": name,
                "n_items": n,
                "users": users,
                "exact": exact,
            }
            row |= {"scores": scores, "m": protocol.n_negatives}
            squared_errors = {}
            for kind, pmf, values in (
                ("adaptive", adaptive_pmf, adaptive_values[metric_name]),
                ("fixed", fixed_pmf, fixed_values),
            ):
                mean, variance = moments(pmf, values, ranks, mass)
                squared_errors[kind] = (mean - exact) ** 2 + variance / users
                best = int(np.argmin(squared_errors[kind]))
                for suffix, index in (("", 0), ("_best", best)):
                    row[f"{kind}_bias{suffix}"] = mean[index] - exact
                    row[f"{kind}_sd{suffix}"] = float(np.sqrt(variance[index] / users))
            row["ratio"] = squared_errors["adaptive"][0] / squared_errors["fixed"][0]
            row["ratio_best"] = squared_errors["adaptive"].min() / squared_errors["fixed"].min()
            records.append(row)
    return pd.DataFrame(records)


def bundled() -> pd.DataFrame:
    """Bundled results of :func:`compared` on the benchmark, with columns data, first and most."""
    return pd.read_csv(BUNDLE / "compared.csv")


def fitted(
    places: dict[str, RankIntervals],
    first: int,
    most_negatives: int,
    seeds: Sequence[int],
    metrics: Sequence[str] = METRICS,
) -> pd.DataFrame:
    """The same comparison with a distribution of true ranks fitted to each drawn log, one log of
    either design per seed.

    A fit is not a fixed vector, so its errors are not sums over ranks. Ties are at their best.
    Columns *adaptive* and *fixed* are errors of the metric of the fitted distribution.
    """
    n = max(int(np.max(intervals.n_candidates)) for intervals in places.values())
    design = Adaptive(n, first, min(most_negatives, n // 2), replacement=False)
    records = []
    for name, intervals in places.items():
        ranks = intervals.n_better + 1
        scores = float(design.cost(ranks).mean())
        protocol = Protocol(n, int(np.ceil(scores - 1)), replacement=False)
        for seed in seeds:
            n_above = protocol.draw(ranks, seed) - 1
            fixed_counts = np.bincount(n_above, minlength=protocol.n_outcomes)
            outcomes = design.places(*design.draw(ranks, seed))
            adaptive_counts = np.bincount(outcomes, minlength=design.n_outcomes)
            masses = {
                "adaptive": priors.maximum_entropy(adaptive_counts, design).mass,
                "fixed": priors.maximum_entropy(fixed_counts, protocol).mass,
            }
            for metric_name in metrics:
                values = metric(metric_name).vector(n)
                exact = float(values[ranks - 1].mean())
                row = {"metric": metric_name, "recommender": name, "seed": seed, "exact": exact}
                errors = {
                    kind: float(np.asarray(mass) @ values) - exact for kind, mass in masses.items()
                }
                records.append(row | errors)
    return pd.DataFrame(records)


def bundled_fits() -> pd.DataFrame:
    """The bundled results of :func:`fitted` on some data sets, with column data."""
    return pd.read_csv(BUNDLE / "fitted.csv")


def fits_table() -> pd.DataFrame:
    """Root mean squared errors of the bundled fits over recommenders and logs, by data set and
    metric, and for how many of *all* recommenders adaptive sampling errs less (*better*).

    >>> list(fits_table())
    ['data', 'metric', 'adaptive', 'fixed', 'better', 'all']
    """
    rows = bundled_fits()
    squares = rows.assign(adaptive=rows["adaptive"] ** 2, fixed=rows["fixed"] ** 2)
    kinds = ["adaptive", "fixed"]
    mean_squares = squares.groupby(["data", "metric", "recommender"], sort=False)[kinds].mean()
    mean_squares["better"] = mean_squares["adaptive"] < mean_squares["fixed"]
    groups = mean_squares.groupby(["data", "metric"], sort=False)
    rmse = groups[kinds].mean() ** 0.5
    return rmse.join(groups["better"].agg(better="sum", all="size")).reset_index()


def counts(ratio: str = "ratio", first: int = 50) -> pd.DataFrame:
    """For how many recommenders adaptive sampling errs less, by metric, and by how much.

    `ratio` is "ratio" (gamma by rule) or "ratio_best"; `first` names a design of `DESIGNS`.
    *median*, *least* and *most* are ratios of mean squared errors over all recommenders; the column
    of a data set has its median.

    >>> int(counts().loc["ndcg@10", "all"])
    70
    """
    rows = bundled()
    rows = rows[rows["first"] == first]
    by_metric = rows.groupby("metric")[ratio]
    summary = pd.DataFrame({
        "better": by_metric.agg(lambda ratios: int((ratios < 1).sum())),
        "all": by_metric.size(),
        "median": by_metric.median(),
        "least": by_metric.min(),
        "most": by_metric.max(),
    })  # fmt: skip
    return summary.join(rows.groupby(["metric", "data"])[ratio].median().unstack())


def misread(metric_name: str, design: Adaptive, gamma: float) -> Estimator:
    """The estimator that corrects each user of an adaptive design as if its number of negatives had
    been fixed beforehand. The number depends on the draws, so this is biased.

    >>> design = Adaptive(1_000, 20, 160)
    >>> wrong, right = misread("auc", design, 0.01), bias_variance("auc", design, 0.01)
    >>> [float(each.bias(50).round(3)) for each in (wrong, right)]
    [-0.013, -0.001]
    """
    values = np.empty(design.most + 1)
    drawn, above = design.outcomes
    for m in design.stages:
        protocol = Protocol(design.n_items, m, replacement=design.replacement)
        at_stage = drawn == m
        values[at_stage] = bias_variance(metric_name, protocol, gamma).values[above[at_stage]]
    return Estimator(metric(metric_name), design, values, "misread")


# --- a stratum scored whole -----------------------------------------------------------------------


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


def adaptive_of_cost(above: IntArray, n_items: int, scores: float) -> Adaptive:
    """The most expensive adaptive design within `scores` per user, with up to 16 times the first
    negatives.
    """
    best = Adaptive(n_items, 1, 16, replacement=False)
    for first in range(1, int(scores)):
        most_negatives = min(16 * first, n_items - 1)
        design = Adaptive(n_items, first, most_negatives, replacement=False)
        if float(design.cost(above + 1).mean()) > scores:
            break
        best = design
    return best


def unexplained_variance(rows: FloatArray, values: FloatArray, weights: FloatArray) -> float:
    """Mean squared error of the best prediction of a user's value from a design's outcome.

    The best prediction is the mean over the users with the same outcome; with the population known,
    no correction does better. So it measures how informative a design is. `rows` (k, outcomes);
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
    gamma = estimators.default_gamma(users)
    above = split["above"].to_numpy()
    exact = metric(metric_name)(above + 1, n_items)
    ranks, inverse, counts = np.unique(above + 1, return_inverse=True, return_counts=True)
    values, shares, user_weights = (
        metric(metric_name)(ranks, n_items),
        counts / users,
        np.full(users, 1 / users),
    )
    total_variance, records = float(exact.var()), []

    def add(
        name: str, scores: float, mean: FloatArray, variance: float, unexplained: float
    ) -> None:
        bias, sd = float(np.mean(mean - exact)), float(np.sqrt(variance / users))
        records.append(
            (name, scores, bias, sd, float(np.hypot(bias, sd)), unexplained / total_variance)
        )

    protocol = Protocol(n_items, n_ranked + rest, replacement=False)
    fixed = bias_variance(metric_name, protocol, gamma)
    unexplained = unexplained_variance(protocol.pmf(ranks), values, shares)
    add(
        "fixed",
        total,
        fixed.expected(ranks)[inverse],
        float(shares @ fixed.variance(ranks)),
        unexplained,
    )
    design = adaptive_of_cost(above, n_items, total)
    adaptive = bias_variance(metric_name, design, gamma)
    unexplained = unexplained_variance(design.pmf(ranks), values, shares)
    cost = float(shares @ design.cost(ranks))
    add(
        "adaptive",
        cost,
        adaptive.expected(ranks)[inverse],
        float(shares @ adaptive.variance(ranks)),
        unexplained,
    )
    stratified = Stratified(n_items, n_ranked, rest, replacement=False)
    stratified_estimator = bias_variance(metric_name, stratified, gamma)
    for stratum in ("popular", "search"):
        inside = split[stratum].to_numpy()
        true_ranks = above + 1, inside + 1
        unexplained = 0.0
        for count in np.unique(inside):
            has_count = inside == count
            rows = stratified.pmf(above[has_count] + 1, count + 1)
            unexplained += unexplained_variance(rows, exact[has_count], user_weights[has_count])
        add(
            stratum,
            total,
            stratified_estimator.expected(*true_ranks),
            float(stratified_estimator.variance(*true_ranks).mean()),
            unexplained,
        )
    groups = pd.Series(exact).groupby(inside)
    unexplained = float((groups.var(ddof=0) * groups.size()).sum() / users)
    trusted = metric(metric_name)(inside + 1, n_items)
    add("search, trusted", 1 + n_ranked, trusted, 0.0, unexplained)
    return pd.DataFrame(records, columns=["design", "scores", "bias", "sd", "rmse", "left"])


# --- the bundle -----------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the bundle again and write it."""
    parser = bundle.parser("sampled_book.experiments.designs", main.__doc__)
    kinds = {"compared": _all_compared, "fitted": _all_fitted, "strata": _all_strata}
    parser.add_argument("--only", choices=list(kinds), help="one of the files")
    arguments = parser.parse_args(argv)
    folder = arguments.output or BUNDLE
    chosen = [arguments.only] if arguments.only else kinds
    return bundle.run(lambda: (line for kind in chosen for line in kinds[kind](folder)))


def _all_compared(folder: Path) -> Iterator[str]:
    """Write the errors of each design on each data set; what is done is kept."""
    tables = []
    for (first, most_negatives), name in product(DESIGNS, benchmark.DATA):
        table = compared(benchmark.ranks(name), first, most_negatives)
        for column, value in (("most", most_negatives), ("first", first), ("data", name)):
            table.insert(0, column, value)
        tables.append(table)
        bundle.write_table(folder / "compared.csv", pd.concat(tables), 6)
        yield f"{name}, {first} to {most_negatives}: done"


def _all_fitted(folder: Path) -> Iterator[str]:
    """Write the errors of fitted ranks on each data set; what is done is kept."""
    tables = []
    for name, logs in FITTED.items():
        tables.append(fitted(benchmark.ranks(name), *DESIGNS[0], range(logs)))
        tables[-1].insert(0, "data", name)
        bundle.write_table(folder / "fitted.csv", pd.concat(tables), 6)
        yield f"{name}, fitted: done"


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

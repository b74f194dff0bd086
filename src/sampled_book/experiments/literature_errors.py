"""Errors and orders of the estimators of `literature` on the benchmark.

``python -m sampled_book.experiments.literature_errors`` draws logs of each data set, estimates the
metrics of each recommender on each log, and writes what `bundled` reads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from sampled_metrics import estimators, priors
from sampled_metrics._validate import FloatArray
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle, sources
from . import literature
from .evidence import BUNDLE, FITTED_PRIOR
from .protocols import FLOOR
from .theory import HANDFUL, users_behind

METRICS = ("recall@10", "ndcg@10", "ap")
NEGATIVES, SEED = 100, 12
#: Logs that estimators are judged on, and logs whose fitted priors are averaged: the authors'
#: number of repetitions. The first are among the second, as in their notebooks.
JUDGED, AVERAGED = 20, 100
NAME = "sampled_book.experiments.literature_errors"
FILE = BUNDLE / "literature.csv.gz"


def errors(
    ranks: Mapping[str, RankIntervals], judged: int = JUDGED, averaged: int = AVERAGED
) -> pd.DataFrame:
    """Each estimator's error and order with `NEGATIVES` drawn without replacement for each user.

    share: the root mean squared error over recommenders and logs, over the mean exact metric;
    bias: the mean error over the mean exact metric; wrong: the share of pairs in the wrong order in
    one log, of those whose exact order rests on a handful of users. At most
    `sources.MOST_USERS` users count.
    """
    few = slice(sources.MOST_USERS)
    chosen = {
        name: RankIntervals(each.n_better[few], each.n_tied[few], each.n_candidates[few])
        for name, each in ranks.items()
        if name != FLOOR
    }
    exact_by_user = {name: [each.evaluate(name) for each in chosen.values()] for name in METRICS}
    rows = []
    for (name, estimator), by_log in estimates(list(chosen.values()), judged, averaged).items():
        user_values = exact_by_user[name]
        exact = np.array([each.mean() for each in user_values])
        miss = by_log - exact
        pairs = [
            (i, j)
            for i, j in combinations(range(exact.size), 2)
            if users_behind(user_values[i], user_values[j]) >= HANDFUL
        ]
        wrong = [_wrong(by_log[:, i] - by_log[:, j], exact[i] - exact[j]) for i, j in pairs]
        share, bias = np.sqrt(np.mean(miss**2)) / exact.mean(), miss.mean() / exact.mean()
        rows.append((name, estimator, share, bias, float(np.mean(wrong)) if wrong else np.nan))
    return pd.DataFrame(rows, columns=["metric", "estimator", "share", "bias", "wrong"])


def _wrong(differences: FloatArray, exact: float) -> float:
    """Part of the differences that have the wrong sign, a half for those that are 0."""
    return float(np.mean(0.5 - 0.5 * np.sign(differences) * np.sign(exact)))


def estimates(
    recommenders: Sequence[RankIntervals], judged: int, averaged: int
) -> dict[tuple[str, str], FloatArray]:
    """Values by metric and estimator, shape (judged, recommenders)."""
    items = recommenders[0].n_candidates
    protocol = Protocol(round(float(items.mean())), NEGATIVES, replacement=False)
    grid, rng = literature.Grid.of(protocol), np.random.default_rng(SEED)
    logs = [[_shares(each, rng) for each in recommenders] for _ in range(averaged)]
    masses = [_masses(grid, shares) for shares in zip(*logs, strict=True)]
    values = np.column_stack([grid.values(name) for name in METRICS])
    average = [_with_prior(grid, np.mean(each, axis=0), values, items.size) for each in masses]
    by_log = []
    for log, log_masses in zip(logs[:judged], zip(*masses, strict=True), strict=False):
        estimated = _of_vectors(log, protocol, items.size)
        rows = [
            _of_shares(grid, shares, mass, values, items.size, fixed)
            for shares, mass, fixed in zip(log, log_masses, average, strict=True)
        ]
        for estimator in rows[0]:
            for i, name in enumerate(METRICS):
                estimated[name, estimator] = np.array([row[estimator][i] for row in rows])
        by_log.append(estimated | _mapped(log, int(protocol.n_items)))
    return {key: np.array([estimated[key] for estimated in by_log]) for key in by_log[0]}


def _shares(intervals: RankIntervals, rng: np.random.Generator) -> FloatArray:
    """Shares of users with 0..m negatives above the item in one log, ties in random order."""
    above = intervals.ranks("random", rng) - 1
    drawn = rng.hypergeometric(above, intervals.n_candidates - 1 - above, NEGATIVES)
    return np.asarray(np.bincount(drawn, minlength=NEGATIVES + 1) / drawn.size)


def _masses(grid: literature.Grid, logs: Sequence[FloatArray]) -> list[FloatArray]:
    """Maximum entropy for each log of one recommender, each fit beginning at the one before."""
    masses, multipliers = [], None
    for shares in logs:
        mass, multipliers = literature.squared_entropy(grid, shares, start=multipliers)
        masses.append(mass)
    return masses


def _of_vectors(
    log: Sequence[FloatArray], protocol: Protocol, users: int
) -> dict[tuple[str, str], FloatArray]:
    """The reported metric and the library's correction, whose prior is fitted to all recommenders
    of the log.
    """
    fitted = priors.maximum_entropy(users * np.sum(log, axis=0), protocol).mass
    prior = dict(
        zip(*(part.tolist() for part in priors.condensed(np.asarray(fitted))), strict=True)
    )
    gamma = estimators.default_gamma(users)
    vectors = {
        (name, each): estimator.values
        for name in METRICS
        for each, estimator in (
            ("naive", estimators.naive(name, protocol)),
            (FITTED_PRIOR, estimators.bias_variance(name, protocol, gamma, prior)),
        )
    }
    return {key: np.array(log) @ vector for key, vector in vectors.items()}


def _with_prior(
    grid: literature.Grid, mass: FloatArray, values: FloatArray, users: int
) -> dict[str, FloatArray]:
    """Vectors M-hat of both estimators of li2023, a column for each metric."""
    return {
        "BV_MES": literature.bias_variance(grid, mass, values),
        "MN_MES": literature.multinomial(grid, mass, values, users),
    }


def _of_shares(
    grid: literature.Grid,
    shares: FloatArray,
    mass: FloatArray,
    values: FloatArray,
    users: int,
    average: Mapping[str, FloatArray],
) -> dict[str, FloatArray]:
    """Estimates of one recommender from one log, with the prior of this log, which is its `mass`,
    and with vectors of the average prior.
    """
    weighted = literature.discounted(shares)
    own = _with_prior(grid, mass, values, users)
    return {
        "MES": mass @ values,
        "MLE": literature.expectation_maximisation(grid, shares) @ values,
        "WMLE": literature.expectation_maximisation(grid, weighted) @ values,
        **{name: shares @ vectors for name, vectors in own.items()},
        **{f"{name}, averaged": shares @ vectors for name, vectors in average.items()},
    }


def _mapped(log: Sequence[FloatArray], items: int) -> dict[tuple[str, str], FloatArray]:
    recall = METRICS[0]
    return {
        (recall, f"mapping, {name}"): np.array(
            [literature.mapped_recall(shares, items, 10, name) for shares in log]
        )
        for name in literature.MAPPINGS
    }


def bundled() -> pd.DataFrame:
    """The table of :func:`errors` of all data sets of the benchmark, computed before."""
    return pd.read_csv(FILE)


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the errors of the estimators on all data sets, or some, and write them."""
    parser = bundle.parser(NAME, main.__doc__)
    parser.add_argument("--data", nargs="+", help="names; default: all whose ranks are bundled")
    arguments = parser.parse_args(argv)
    path = FILE if arguments.output is None else arguments.output / FILE.name

    def write() -> Iterable[Path]:
        stored = pd.read_csv(path) if path.exists() else pd.DataFrame({"data": []})
        tables = {str(name): table for name, table in stored.groupby("data")}
        for name in arguments.data or sorted(each.stem for each in benchmark.BUNDLE.glob("*.npz")):
            table = errors(benchmark.ranks(name))
            table.insert(0, "data", name)
            tables[name] = table
            done = pd.concat([tables[each] for each in sorted(tables)], ignore_index=True)
            yield bundle.write_table(path, done, 5)

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())

"""Logs that the tests of designs share."""

import numpy as np
import pandas as pd
from scipy import stats

from sampled_metrics import Protocol, evaluation
from sampled_metrics.log.read import read_log


def estimate(*arguments, **options):
    """The table alone."""
    return evaluation.estimate(*arguments, **options).frame


def estimate_each(log, metrics, estimators, **options):
    """Estimates by several estimators, with Student's interval for their expectation."""
    tables = []
    for name in estimators:
        table = estimate(log, metrics, estimator=name, identification=False, **options)
        reach = stats.t.ppf(0.975, table["users"] - 1) * table["standard_error"]
        ends = {"low": table["estimate"] - reach, "high": table["estimate"] + reach}
        tables.append(table.assign(estimator=name, value=table["estimate"], **ends))
    table = pd.concat(tables).sort_values(["recommender", "metric"], kind="stable")
    return table.reset_index(drop=True)


def compare(*arguments, **options):
    """The table alone."""
    return evaluation.compare(*arguments, **options).frame


def log_of(ranks, n_items=50, n_negatives=9, **columns):
    """A log of one recommender from sampled ranks, a user each."""
    table = pd.DataFrame({"user": np.arange(len(ranks)), "rank": ranks}).assign(**columns)
    return read_log(table, n_items=n_items, n_negatives=n_negatives, replacement=True)


def values(log, metric_name, name, **options):
    table = estimate_each(log, [metric_name], estimators=[name], **options)
    return table["value"].to_numpy()


def two(first, second, **columns):
    names = np.repeat(["A", "B"], [len(first), len(second)])
    users = np.concatenate([np.arange(len(first)), np.arange(len(second))])
    table = pd.DataFrame({"recommender": names, "user": users, "rank": [*first, *second]})
    return read_log(table.assign(**columns), n_items=1_000, n_negatives=9, replacement=True)


def drawn(population, users, n, m, rng):
    """A log of some of the users of a population, {recommender: true ranks}, and its truth."""
    user_index = rng.integers(0, len(next(iter(population.values()))), users)
    tables = [
        pd.DataFrame(
            {
                "recommender": name,
                "user": np.arange(users),
                "rank": Protocol(n, m).draw(ranks[user_index], rng),
            }
        )
        for name, ranks in population.items()
    ]
    return read_log(
        pd.concat(tables, ignore_index=True), n_items=n, n_negatives=m, replacement=True
    )

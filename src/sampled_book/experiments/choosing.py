"""The cost of choosing a recommender by a sampled metric.

The ranks of :mod:`sampled_book.data.benchmark` give the expectation of every sampled metric, so
nothing is drawn. Each recommender was tuned by its exact validation metric; the choice here is
among kinds of recommenders, by the metric of the test items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from sampled_metrics import metric

from ..data import benchmark, sources
from .protocols import FLOOR
from .theory import of_users

_DEPTH = 10


def choices(sizes: Sequence[int] = (100,), names: Iterable[str] | None = None) -> pd.DataFrame:
    """The tuned recommender of highest expected sampled NDCG@10 on each data set of the benchmark,
    that of highest exact NDCG@10, and `loss`, the part of the exact NDCG@10 that the first lacks.
    At most `sources.MOST_USERS` users, who are in random order; a random order of items is none.
    """
    groups = sources.table().set_index("name")["group"]
    gains, rows = metric("ndcg@10").vector(_DEPTH), []
    for name in benchmark.names_in() if names is None else names:
        some = slice(sources.MOST_USERS)
        sets = {key: of_users(r, some) for key, r in benchmark.ranks(name).items() if key != FLOOR}
        exact = pd.Series({key: r.evaluate("ndcg@10").mean() for key, r in sets.items()})
        for m in sizes:
            pmfs = {key: r.sampled_pmf(m)[:, :_DEPTH] for key, r in sets.items()}
            sampled = {key: (pmf @ gains).mean() for key, pmf in pmfs.items()}
            taken, best = str(pd.Series(sampled).idxmax()), str(exact.idxmax())
            loss = 1 - exact[taken] / exact[best]
            rows.append((name, groups[name], m, len(sets), taken, best, loss))
    return pd.DataFrame(
        rows, columns=["data", "group", "m", "recommenders", "taken", "best", "loss"]
    )


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """By number of negatives: share of data sets where another recommender is taken, and the loss:
    means and quantiles over groups, whose data sets count alike, and the worst data set.
    """
    by_group = table.assign(other=table["taken"] != table["best"]).groupby(["m", "group"])
    means = by_group[["other", "loss"]].mean()
    loss = means["loss"].groupby("m")
    return pd.DataFrame(
        {
            "other": means["other"].groupby("m").mean(),
            "mean": loss.mean(),
            "median": loss.median(),
            "90%": loss.quantile(0.9),
            "worst": table.groupby("m")["loss"].max(),
        }
    )

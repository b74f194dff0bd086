"""The cost of choosing a recommender by a sampled metric.

The ranks of :mod:`sampled_book.data.benchmark` give the expectation of every sampled metric, so
nothing is drawn. Each recommender was tuned by its exact validation metric; the choice here is
among kinds of recommenders, by the metric of the test items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from sampled_metrics import RelevantSets, metric

from ..data import benchmark, sources
from .protocols import FLOOR

_DEPTH = 10


def choices(sizes: Sequence[int] = (100,), names: Iterable[str] | None = None) -> pd.DataFrame:
    """The tuned recommender of highest expected sampled NDCG@10 on each data set of the benchmark,
    that of highest exact NDCG@10, and `loss`, the part of the exact NDCG@10 that the first lacks.
    At most `sources.MOST_USERS` users, who are in random order; a random order of items is none.
    """
    groups = sources.table().set_index("name")["group"]
    gains, rows = metric("ndcg@10").vector(_DEPTH), []
    for name in benchmark.names_in() if names is None else names:
        few = slice(sources.MOST_USERS)
        sets = {
            recommender: RelevantSets(
                r.n_better[few, np.newaxis],
                r.n_tied[few, np.newaxis],
                np.zeros_like(r.n_better[few, np.newaxis]),
                r.n_candidates[few] - 1,
            )
            for recommender, r in benchmark.ranks(name).items()
            if recommender != FLOOR
        }
        exact = pd.Series({key: r.evaluate("ndcg@10").mean() for key, r in sets.items()})
        for m in sizes:
            sampled = {key: (r.pmf(m, _DEPTH)[:, 0] @ gains).mean() for key, r in sets.items()}
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

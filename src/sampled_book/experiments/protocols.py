"""What a choice of candidates does to real recommenders, and rules tried on each data set.

The recommenders are those of :mod:`sampled_book.data.benchmark`. Their exact ranks, and how much of
the catalogue's popularity stands above each test item, give the expected report of every protocol,
so nothing is drawn: all items, uniform negatives, negatives drawn by popularity, fewer users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from sampled_metrics._validate import FloatArray
from sampled_metrics.metrics import Metric, metric
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking.intervals import RankIntervals

from .theory import HANDFUL, users_behind

ALL, POPULAR, FLOOR = "all items", "Popular", "Random"
_REACH = 1.959963984540054  # standard errors on either side of a 95% interval


def _worth(metric_name: str, n_negatives: int) -> FloatArray:
    """The metric at each sampled rank."""
    return np.asarray(metric(metric_name)(np.arange(1, n_negatives + 2), n_items=n_negatives + 1))


def among_popular(shares: pd.DataFrame, metric_name: str, n_negatives: int) -> dict[str, float]:
    """Expected report of each recommender among negatives drawn with replacement in proportion to
    the users that an item has; `shares` is from
    :func:`~sampled_book.data.benchmark.shares_above`.
    """
    # A catalogue so large that a share of it is a rank to six digits.
    protocol = Protocol(10**7 + 1, n_negatives, replacement=True)
    worth = _worth(metric_name, n_negatives)
    reports = {}
    for name, part in shares.groupby("recommender", sort=False):
        pmf = protocol.pmf(np.rint(part["share"].to_numpy() * 10**7).astype(np.int64) + 1)
        users = part["users"].to_numpy()
        reports[str(name)] = float(users @ (pmf @ worth) / users.sum())
    return reports


def means(
    errors: pd.DataFrame, shares: pd.DataFrame, metric_name: str, n_negatives: int = 100
) -> pd.DataFrame:
    """Expected report of each recommender but the random one under each protocol: columns "20
    uniform", ..., "100 by popularity", "all items".

    `errors` and `shares` are of one data set, from
    :func:`~sampled_book.experiments.evidence.bundled` and
    :func:`~sampled_book.data.benchmark.shares_above`. `n_negatives` are drawn by popularity;
    uniform ones are as many as in `errors`.

    >>> from sampled_book.data import benchmark
    >>> from sampled_book.experiments import evidence
    >>> errors = evidence.bundled("errors", ["lastfm"])
    >>> found = means(errors, benchmark.shares_above("lastfm"), "recall@10")
    >>> found.loc["Popular", ["100 uniform", "100 by popularity", "all items"]].round(3).tolist()
    [0.292, 0.092, 0.044]
    """
    naive = errors[(errors["estimator"] == "naive") & (errors["metric"] == metric_name)]
    naive = naive[~naive["replacement"] & (naive["recommender"] != FLOOR)]
    table = {
        f"{m} uniform": (part["exact"] + part["bias"]).set_axis(part["recommender"])
        for m, part in naive.groupby("m")
    }
    table[f"{n_negatives} by popularity"] = pd.Series(
        among_popular(shares, metric_name, n_negatives)
    )
    table[ALL] = naive.groupby("recommender", sort=False)["exact"].first()
    return pd.DataFrame(table).loc[naive["recommender"].unique()]


def reversed_orders(metric_means: pd.DataFrame, pairs: pd.DataFrame, metric_name: str) -> pd.Series:
    """How many of the settled "pairs" (:func:`~sampled_book.experiments.evidence.settled_pairs`)
    each protocol of :func:`means` orders wrongly in expectation.
    """
    settled = pairs[(pairs["metric"] == metric_name) & (pairs["users"] >= HANDFUL)]
    pair_names = set(zip(settled["first"], settled["second"], strict=True))
    gaps = pd.DataFrame({(a, b): metric_means.loc[a] - metric_means.loc[b] for a, b in pair_names})
    wrong = (gaps.mul(gaps.loc[ALL]) < 0).sum(axis=1).drop(ALL)
    counts: pd.Series[int] = pd.concat([wrong, pd.Series({"pairs": len(pair_names)})])
    return counts


def effects(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int,
    metrics: Sequence[str] = ("recall@10", "ndcg@10"),
) -> pd.DataFrame:
    """Effects of uniform negatives on each recommender but the random one, in expectation.

    Averages over users: sampled; exact; deep, the exact metric at cut-off k n / m, n being the mean
    number of candidates; first and last, sampled with the test item first and last among its ties.
    The metrics have a cut-off.
    """
    items = float(ranks[POPULAR].n_candidates.mean())
    worth = np.column_stack([_worth(metric_name, n_negatives) for metric_name in metrics])
    rows = []
    for name, intervals in ranks.items():
        if name == FLOOR:
            continue
        no_ties = np.zeros_like(intervals.n_tied)
        variants = (
            intervals,
            RankIntervals(intervals.n_better, no_ties, intervals.n_candidates),
            RankIntervals(intervals.n_better + intervals.n_tied, no_ties, intervals.n_candidates),
        )
        sampled, first, last = (variant.sampled_pmf(n_negatives) @ worth for variant in variants)
        for i, metric_name in enumerate(metrics):
            parsed_metric = metric(metric_name)
            exact = intervals.evaluate(parsed_metric)
            depth = max(1, round((parsed_metric.k or 1) * items / n_negatives))
            deep = Metric(parsed_metric.base, depth)
            of_users = sampled[:, i], exact, intervals.evaluate(deep), first[:, i], last[:, i]
            rows.append((metric_name, name, *(values.mean() for values in of_users)))
    columns = ["metric", "recommender", "sampled", "exact", "deep", "first", "last"]
    return pd.DataFrame(rows, columns=columns)


def fewer_users(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int,
    metrics: Sequence[str] = ("recall@10", "ndcg@10"),
) -> pd.DataFrame:
    """Exact ranking of a random subset of users that costs as many scores as `n_negatives` for all.

    By metric: the users; and over pairs whose order rests on at least a handful of users, the mean
    probabilities that these users give the wrong order, and that the 95% interval of the difference
    lies on the right and on the wrong side of 0, by the normal distribution.
    """
    judged = {name: intervals for name, intervals in ranks.items() if name != FLOOR}
    items = float(ranks[POPULAR].n_candidates.mean())
    n_users = ranks[POPULAR].n_candidates.size
    users = max(2, round(n_users * (n_negatives + 1) / items))
    rows = []
    for metric_name in metrics:
        values = {name: intervals.evaluate(metric_name) for name, intervals in judged.items()}
        chances = []
        for a, b in combinations(values, 2):
            if users_behind(values[a], values[b]) < HANDFUL:
                continue
            gaps = values[a] - values[b]
            error = float(np.sqrt(gaps.var() / users))
            spread = error * np.sqrt((n_users - users) / (n_users - 1))
            gap, reach = abs(float(gaps.mean())), _REACH * error
            chances.append(ndtr(np.array([-gap, gap - reach, -gap - reach]) / spread))
        averages = np.mean(chances, axis=0) if chances else np.full(3, np.nan)
        rows.append((metric_name, users, *averages))
    return pd.DataFrame(rows, columns=["metric", "users", "wrong", "said_right", "said_wrong"])

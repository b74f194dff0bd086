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

from sampled_metrics.metrics import Metric, metric
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking.intervals import RankIntervals

from ..checks import FloatArray
from .theory import HANDFUL, users_behind

ALL, POPULAR, FLOOR = "all items", "Popular", "Random"
#: Part of the users whose test items count as the most popular.
TOP_PART = 0.2
_REACH = 1.959963984540054  # standard errors on either side of a 95% interval


def _worth(of: str, n_negatives: int) -> FloatArray:
    """The metric at each sampled rank."""
    return np.asarray(metric(of)(np.arange(1, n_negatives + 2), n_items=n_negatives + 1))


def among_popular(shares: pd.DataFrame, of: str, n_negatives: int) -> dict[str, float]:
    """Expected report of each recommender among negatives drawn by popularity.

    With replacement, in proportion to how many users have an item.

    Parameters
    ----------
    shares : DataFrame
        Of :func:`~sampled_book.data.benchmark.shares_above`.

    Examples
    --------
    >>> half = pd.DataFrame({"recommender": "A", "share": [0.5, 0.0], "users": [3, 1]})
    >>> round(among_popular(half, "recall@1", 2)["A"], 4)
    0.4375
    """
    # A catalogue so large that a share of it is a rank to six digits.
    protocol, worth = Protocol(10**7 + 1, n_negatives, replacement=True), _worth(of, n_negatives)
    found = {}
    for name, part in shares.groupby("recommender", sort=False):
        law = protocol.pmf(np.rint(part["share"].to_numpy() * 10**7).astype(np.int64) + 1)
        users = part["users"].to_numpy()
        found[str(name)] = float(users @ (law @ worth) / users.sum())
    return found


def means(
    errors: pd.DataFrame, shares: pd.DataFrame, of: str, n_negatives: int = 100
) -> pd.DataFrame:
    """Expected reports of all recommenders but the random one under each protocol.

    Parameters
    ----------
    errors : DataFrame
        Of :func:`~sampled_book.experiments.evidence.bundled`, of one data set.
    shares : DataFrame
        Of :func:`~sampled_book.data.benchmark.shares_above`, of the same.
    n_negatives : int
        Of those drawn by popularity; uniform ones are as many as `errors` knows.

    Returns
    -------
    DataFrame
        A row for each recommender; columns "20 uniform", ..., "100 by popularity", "all items".

    Examples
    --------
    >>> from sampled_book.data import benchmark
    >>> from sampled_book.experiments import evidence
    >>> errors = evidence.bundled("errors", ["lastfm"])
    >>> found = means(errors, benchmark.shares_above("lastfm"), "recall@10")
    >>> found.loc["Popular", ["100 uniform", "100 by popularity", "all items"]].round(3).tolist()
    [0.292, 0.092, 0.044]
    """
    naive = errors[(errors["estimator"] == "naive") & (errors["metric"] == of)]
    naive = naive[~naive["replacement"] & (naive["recommender"] != FLOOR)]
    table = {
        f"{m} uniform": (part["exact"] + part["bias"]).set_axis(part["recommender"])
        for m, part in naive.groupby("m")
    }
    table[f"{n_negatives} by popularity"] = pd.Series(among_popular(shares, of, n_negatives))
    table[ALL] = naive.groupby("recommender", sort=False)["exact"].first()
    return pd.DataFrame(table).loc[naive["recommender"].unique()]


def reversed_orders(of_each: pd.DataFrame, pairs: pd.DataFrame, of: str) -> pd.Series:
    """How many pairs each protocol has in the wrong order in expectation.

    Parameters
    ----------
    of_each : DataFrame
        Of :func:`means`.
    pairs : DataFrame
        Of :func:`~sampled_book.experiments.evidence.bundled`, of the same data set.

    Returns
    -------
    Series
        A number for each protocol, and "pairs", of how many: those that are
        :func:`~sampled_book.experiments.evidence.settled_pairs`.

    Examples
    --------
    >>> table = pd.DataFrame({"sample": [0.5, 0.6], "all items": [0.2, 0.1]}, index=["A", "B"])
    >>> pair = {"metric": ["ap"], "first": ["A"], "second": ["B"], "users": [9]}
    >>> reversed_orders(table, pd.DataFrame(pair), "ap").to_dict()
    {'sample': 1, 'pairs': 1}
    """
    told = pairs[(pairs["metric"] == of) & (pairs["users"] >= HANDFUL)]
    both = set(zip(told["first"], told["second"], strict=True))
    gaps = pd.DataFrame({(a, b): of_each.loc[a] - of_each.loc[b] for a, b in both})
    wrong = (gaps.mul(gaps.loc[ALL]) < 0).sum(axis=1).drop(ALL)
    found: pd.Series[int] = pd.concat([wrong, pd.Series({"pairs": len(both)})])
    return found


def effects(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int,
    metrics: Sequence[str] = ("recall@10", "ndcg@10"),
    part: float = TOP_PART,
) -> pd.DataFrame:
    """What uniform negatives do to each recommender but the random one, in expectation.

    Parameters
    ----------
    ranks : mapping of str to RankIntervals
        Of the same users, with "Popular", whose ranks are the places of the test items by
        popularity.
    metrics : sequence of str
        With a cut-off.
    part : float
        What part of the users "top" means.

    Returns
    -------
    DataFrame
        Columns metric, recommender and, each an average over users: sampled; exact; deep, the
        metric among all items in a list of k n / m of them, n being the mean number of candidates;
        top_sampled and top_exact, the shares of the first two that come from the users with the
        most popular test items; first and last, sampled with the test item first and last among
        its ties.

    Examples
    --------
    >>> from sampled_book.data import benchmark
    >>> found = effects(benchmark.ranks("lastfm"), 100, ["recall@10"]).set_index("recommender")
    >>> found.loc["Popular", ["sampled", "exact", "deep"]].astype(float).round(3).to_dict()
    {'sampled': 0.292, 'exact': 0.044, 'deep': 0.301}
    """
    own = ranks[POPULAR]
    place = (own.n_better + own.n_tied / 2) / own.n_candidates
    top = np.argsort(place, kind="stable")[: round(part * place.size)]
    items = float(own.n_candidates.mean())
    worth = np.column_stack([_worth(of, n_negatives) for of in metrics])
    rows = []
    for name, each in ranks.items():
        if name == FLOOR:
            continue
        none = np.zeros_like(each.n_tied)
        ways = (
            each,
            RankIntervals(each.n_better, none, each.n_candidates),
            RankIntervals(each.n_better + each.n_tied, none, each.n_candidates),
        )
        sampled, first, last = (way.sampled_pmf(n_negatives) @ worth for way in ways)
        for i, of in enumerate(metrics):
            known = metric(of)
            exact = each.evaluate(known)
            deep = Metric(known.kind, max(1, round((known.k or 1) * items / n_negatives)))
            parts = [values[top].sum() / values.sum() for values in (sampled[:, i], exact)]
            averages = [values.mean() for values in (sampled[:, i], exact, each.evaluate(deep))]
            rows.append((of, name, *averages, *parts, first[:, i].mean(), last[:, i].mean()))
    columns = ["metric", "recommender", "sampled", "exact", "deep", "top_sampled", "top_exact"]
    return pd.DataFrame(rows, columns=[*columns, "first", "last"])


def fewer_users(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int,
    metrics: Sequence[str] = ("recall@10", "ndcg@10"),
) -> pd.DataFrame:
    """All items for some users, as many as have the scores that negatives cost for all users.

    Returns
    -------
    DataFrame
        Columns metric; users: how many; and over the pairs whose order rests on a handful of all
        users, the mean chances that the order among these users, chosen at random, is wrong, and
        that the 95% interval of the difference lies on the right side of 0, said_right, or on the
        wrong one, said_wrong; by the normal distribution.

    Examples
    --------
    >>> from sampled_book.data import benchmark
    >>> fewer_users(benchmark.ranks("lastfm"), 100, ["recall@10"]).round(3).values.tolist()
    [['recall@10', 31, 0.334, 0.07, 0.009]]
    """
    judged = {name: each for name, each in ranks.items() if name != FLOOR}
    items = float(ranks[POPULAR].n_candidates.mean())
    n_users = ranks[POPULAR].n_candidates.size
    users = max(2, round(n_users * (n_negatives + 1) / items))
    rows = []
    for of in metrics:
        values = {name: each.evaluate(of) for name, each in judged.items()}
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
        rows.append((of, users, *averages))
    return pd.DataFrame(rows, columns=["metric", "users", "wrong", "said_right", "said_wrong"])

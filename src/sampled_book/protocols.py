"""What a choice of candidates does to real recommenders, and rules tried on each data set.

The recommenders are those of :mod:`sampled_book.benchmark`. Their exact ranks, and how much of the
catalogue's popularity stands above each test item, give the expected report of every protocol, so
nothing is drawn: all items, uniform negatives, negatives drawn by popularity, fewer users.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from sampled_metrics._validate import FloatArray
from sampled_metrics.consistency import HANDFUL, users_behind
from sampled_metrics.metrics import metric
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking import RankIntervals

from . import benchmark, evidence

ALL, POPULAR = "all items", "Popular"
_REACH = 1.959963984540054  # standard errors on either side of a 95% interval


def reported(ranks: RankIntervals, of: str, n_negatives: int | None = None) -> FloatArray:
    """Each user's expected report among uniform negatives without replacement, or all items.

    Parameters
    ----------
    ranks : RankIntervals
    of : str
        Name of a metric.
    n_negatives : int, optional
        All items if omitted.

    Returns
    -------
    ndarray of float, shape (users,)

    Examples
    --------
    >>> one = RankIntervals([3], [0], [31])
    >>> reported(one, "recall@1"), reported(one, "recall@1", 10).round(4)
    (array([0.]), array([0.2808]))
    """
    if n_negatives is None:
        return ranks.evaluate(of)
    return np.asarray(ranks.sampled_pmf(n_negatives) @ _worth(of, n_negatives))


def _worth(of: str, n_negatives: int) -> FloatArray:
    """The metric at each sampled rank."""
    return np.asarray(metric(of)(np.arange(1, n_negatives + 2), n_items=n_negatives + 1))


def among_popular(shares: pd.DataFrame, of: str, n_negatives: int) -> dict[str, float]:
    """Expected report of each recommender among negatives drawn by popularity.

    With replacement, in proportion to how many users have an item.

    Parameters
    ----------
    shares : DataFrame
        Of :func:`~sampled_book.benchmark.shares_above`.
    of : str
    n_negatives : int

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> half = pd.DataFrame({"recommender": "A", "share": [0.5, 0.0], "users": [3, 1]})
    >>> among_popular(half, "recall@1", 2)
    {'A': 0.4375}
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
        Of :func:`~sampled_book.evidence.bundled`, of one data set.
    shares : DataFrame
        Of :func:`~sampled_book.benchmark.shares_above`, of the same.
    of : str
    n_negatives : int
        Of those drawn by popularity; uniform ones are as many as `errors` knows.

    Returns
    -------
    DataFrame
        A row for each recommender; columns "20 uniform", ..., "100 by popularity", "all items".

    Examples
    --------
    >>> errors = evidence.bundled("errors", ["lastfm"])
    >>> found = means(errors, benchmark.shares_above("lastfm"), "recall@10")
    >>> found.loc["Popular", ["100 uniform", "100 by popularity", "all items"]].round(3).tolist()
    [0.293, 0.049, 0.029]
    """
    naive = errors[(errors["estimator"] == "naive") & (errors["metric"] == of)]
    naive = naive[~naive["replacement"] & (naive["recommender"] != evidence.FLOOR)]
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
        Of :func:`~sampled_book.evidence.bundled`, of the same data set.
    of : str

    Returns
    -------
    Series
        A number for each protocol, and "pairs", of how many: those that are
        :func:`~sampled_book.evidence.told_apart`.

    Examples
    --------
    >>> table = pd.DataFrame({"sample": [0.5, 0.6], "all items": [0.2, 0.1]}, index=["A", "B"])
    >>> pair = {"metric": ["ap"], "first": ["A"], "second": ["B"], "users": [9]}
    >>> reversed_orders(table, pd.DataFrame(pair), "ap").to_dict()
    {'sample': 1, 'pairs': 1}
    """
    told = evidence.told_apart(pairs[pairs["metric"] == of])
    both = set(zip(told["first"], told["second"], strict=True))
    gaps = pd.DataFrame({(a, b): of_each.loc[a] - of_each.loc[b] for a, b in both})
    wrong = (gaps.mul(gaps.loc[ALL]) < 0).sum(axis=1).drop(ALL)
    return pd.concat([wrong, pd.Series({"pairs": len(both)})])


def at_depth(ranks: Mapping[str, RankIntervals], length: int, n_negatives: int) -> pd.DataFrame:
    """A list of some length among negatives beside a longer one among all items.

    Parameters
    ----------
    ranks : mapping of str to RankIntervals
    length : int
        k, of the list among `n_negatives`.
    n_negatives : int

    Returns
    -------
    DataFrame
        For each recommender but the random one Recall: sampled; deep, among all items in a list of
        k n / m of them, n the mean number of candidates; and exact, in a list of k.

    Examples
    --------
    >>> at_depth(benchmark.ranks("lastfm"), 10, 100).loc["Popular"].round(3).to_dict()
    {'sampled': 0.293, 'deep': 0.287, 'exact': 0.029}
    """
    rows = {}
    for name, each in ranks.items():
        if name != evidence.FLOOR:
            deep = round(length * float(each.n_candidates.mean()) / n_negatives)
            sampled = reported(each, f"recall@{length}", n_negatives)
            exact = [each.evaluate(f"recall@{k}") for k in (deep, length)]
            rows[name] = [float(values.mean()) for values in (sampled, *exact)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["sampled", "deep", "exact"])


def from_popular_items(
    ranks: Mapping[str, RankIntervals], of: str, n_negatives: int, part: float = 0.2
) -> pd.DataFrame:
    """How much of the report comes from the users whose test items are the most popular.

    Parameters
    ----------
    ranks : mapping of str to RankIntervals
        With "Popular", whose ranks are the places of the test items by popularity.
    of : str
    n_negatives : int
    part : float
        What part of the users these are.

    Returns
    -------
    DataFrame
        For each recommender but the random one the share: sampled and exact.

    Examples
    --------
    >>> from_popular_items(benchmark.ranks("lastfm"), "recall@10", 100).loc["Popular"].round(2)
    sampled    0.68
    exact      1.00
    Name: Popular, dtype: float64
    """
    own = ranks[POPULAR]
    place = (own.n_better + own.n_tied / 2) / own.n_candidates
    top = np.argsort(place, kind="stable")[: round(part * place.size)]
    rows = {}
    for name, each in ranks.items():
        if name != evidence.FLOOR:
            values = reported(each, of, n_negatives), each.evaluate(of)
            rows[name] = [float(value[top].sum() / value.sum()) for value in values]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["sampled", "exact"])


def fewer_users(ranks: Mapping[str, RankIntervals], of: str, n_negatives: int) -> dict[str, float]:
    """All items for some users, as many as have the scores that negatives cost for all users.

    Parameters
    ----------
    ranks : mapping of str to RankIntervals
    of : str
    n_negatives : int

    Returns
    -------
    dict
        users: how many; and over the pairs whose order rests on a handful of all users, the mean
        chances that the order among these users, chosen at random, is "wrong", and that the 95%
        interval of the difference lies on the wrong side of 0, "said_wrong", or on the right one,
        "said_right"; by the normal distribution.

    Examples
    --------
    >>> found = fewer_users(benchmark.ranks("lastfm"), "recall@10", 100)
    >>> found["users"], round(found["said_wrong"], 3)
    (31, 0.008)
    """
    judged = {name: each for name, each in ranks.items() if name != evidence.FLOOR}
    items = float(next(iter(judged.values())).n_candidates.mean())
    values = {name: each.evaluate(of) for name, each in judged.items()}
    n_users = next(iter(values.values())).size
    users = max(2, round(n_users * (n_negatives + 1) / items))
    wrong, right, said = [], [], []
    for a, b in combinations(values, 2):
        if users_behind(values[a], values[b]) < HANDFUL:
            continue
        gaps = values[a] - values[b]
        error = float(np.sqrt(gaps.var() / users))
        spread = error * np.sqrt((n_users - users) / (n_users - 1))
        gap, reach = abs(float(gaps.mean())), _REACH * error
        wrong.append(ndtr(-gap / spread))
        said.append(ndtr((-gap - reach) / spread))
        right.append(ndtr((gap - reach) / spread))
    chances = {"wrong": wrong, "said_wrong": said, "said_right": right}
    return {"users": users} | {name: float(np.mean(of_pairs)) for name, of_pairs in chances.items()}


def by_ties(
    ranks: Mapping[str, RankIntervals], of: str, n_negatives: int | None = None
) -> pd.DataFrame:
    """The expected report with the test item first among its ties, at random, and last.

    Parameters
    ----------
    ranks : mapping of str to RankIntervals
    of : str
    n_negatives : int, optional
        Uniform negatives; all items if omitted.

    Returns
    -------
    DataFrame
        A row for each recommender; columns first, random and last.

    Examples
    --------
    >>> by_ties({"A": RankIntervals([0, 3], [1, 0], [9, 9])}, "recall@1")
       first  random  last
    A    0.5    0.25   0.0
    """
    rows = {}
    for name, each in ranks.items():
        none = np.zeros_like(each.n_tied)
        first = RankIntervals(each.n_better, none, each.n_candidates)
        last = RankIntervals(each.n_better + each.n_tied, none, each.n_candidates)
        rows[name] = [float(reported(way, of, n_negatives).mean()) for way in (first, each, last)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["first", "random", "last"])

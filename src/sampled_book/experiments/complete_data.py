"""Does the exact metric of held-out items order recommenders as the metric of complete data does?

Users, items and relevance are simulated, so every relevant item is known. An item comes to light
with a probability in proportion to its exposure; ten relevant items of each user are for training,
and the held-out item is the next to come to light. Nothing but these items is drawn: the held-out
item is averaged over all relevant items, each with its probability, and so are the negatives. All
values follow from distributions of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from sampled_metrics import Protocol, estimators, metric
from sampled_metrics._validate import FloatArray

from ..data.recommenders import ItemBased
from .reversals import reversed_pairs

SETUPS = ("missing at random", "by popularity", "front page", "old lists")
AT_RANDOM, BY_POPULARITY, FRONT_PAGE, OLD_LISTS = SETUPS
#: Items of the front page and of an old list, and how much likelier they come to light.
SHOWN, FACTOR = 20, 10.0
N_ITEMS, N_USERS, N_TRAIN = 1000, 200, 10
#: Fewest and most relevant items of a user: at least ten stay after training.
FEWEST, MOST = 20, 60
SIZES = (20, 50, 100, 200, 500)
_N_FACTORS, _DEPTH = 8, 10


@dataclass(frozen=True, eq=False)
class World:
    """Complete data, each array (n_users, n_items): what users prefer, which items are relevant,
    how exposed each item is, and which relevant items are for training.
    """

    taste: FloatArray
    is_relevant: NDArray[np.bool_]
    exposure: FloatArray
    is_train: NDArray[np.bool_]


def world(setup: str, seed: int, n_users: int = N_USERS, n_items: int = N_ITEMS) -> World:
    """Draw complete data under one of `SETUPS`. The taste is an appeal of the item plus a product
    of factors; a user's relevant items are those of largest taste plus Gumbel noise.

    Exposure is equal ("missing at random"), the number of users an item is relevant to ("by
    popularity"), `FACTOR` times as high for the `SHOWN` most popular items ("front page"), or for
    the `SHOWN` items that an old recommender ranks first for the user ("old lists").
    """
    rng = np.random.default_rng([seed, 1])
    appeal = rng.normal(size=n_items)
    users, items = (rng.normal(size=(size, _N_FACTORS)) for size in (n_users, n_items))
    match = 1.5 * users @ items.T / np.sqrt(_N_FACTORS)
    taste = appeal + match
    n_relevant = rng.integers(FEWEST, MOST + 1, n_users)
    is_relevant = _places(taste + rng.gumbel(size=taste.shape)) < n_relevant[:, np.newaxis]
    exposure = np.ones_like(taste)
    popularity = is_relevant.sum(axis=0)
    if setup == BY_POPULARITY:
        exposure *= popularity + 1.0
    elif setup == FRONT_PAGE:
        exposure[:, np.argsort(-popularity, kind="stable")[:SHOWN]] = FACTOR
    elif setup == OLD_LISTS:
        old = appeal + match / 2 + rng.normal(size=taste.shape) / 2
        exposure[_places(old) < SHOWN] = FACTOR
    # The largest of log weight + Gumbel noise: successive sampling in proportion to the exposure.
    arrival = np.log(exposure) + rng.gumbel(size=taste.shape)
    is_train = _places(np.where(is_relevant, arrival, -np.inf)) < N_TRAIN
    return World(taste, is_relevant, exposure, is_train)


def recommenders(data: World, seed: int) -> dict[str, FloatArray]:
    """Scores (n_users, n_items) of sixteen recommenders: the true taste under growing noise, mixed
    with popularity or not, popularity, three kinds that learn from the training items, and none.
    """
    rng = np.random.default_rng([seed, 2])
    train = data.is_train.astype(np.float64)
    taste, noise = _standard(data.taste), rng.normal(size=data.taste.shape)
    popularity = np.broadcast_to(train.sum(axis=0), train.shape)
    scores = {f"taste, noise {size:g}": taste + size * noise for size in (0.5, 1, 1.5, 2, 3)}
    for weight in (0.5, 1, 2, 4):
        mixed = taste + 2 * noise + weight * _standard(np.log1p(popularity))
        scores[f"taste, noise 2, popularity {weight:g}"] = mixed
    scores["popularity"] = popularity
    for name, kind in (("item cosine", ItemBased(1)), ("item cosine, cubed", ItemBased(3))):
        scores[name] = np.asarray(kind.scores(sp.csr_array(train))(slice(None)))
    axes = np.linalg.svd(train, full_matrices=False)[2]
    for rank in (4, 16):
        scores[f"PureSVD {rank}"] = train @ axes[:rank].T @ axes[:rank]
    # Woodbury: the inverse of train' train + 100 up to a factor, which the weights do not need.
    inner = np.linalg.inv(train @ train.T + 100 * np.eye(len(train)))
    inverse = np.eye(train.shape[1]) - train.T @ inner @ train
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    scores["EASE"] = train @ weights
    scores["random"] = rng.normal(size=train.shape)
    return scores


def rank_distributions(data: World, scores: FloatArray) -> dict[str, FloatArray]:
    """Distributions over ranks 1, 2, ... among the items that are not for training, means over
    users. Equal scores are in the order of items, which is random.

    held out: of the held-out item; relevant: of a relevant item drawn uniformly from the user's;
    alone: of the same item among the irrelevant ones; count: relevant items at each rank.
    """
    left = data.is_relevant & ~data.is_train
    keys = np.where(data.is_train, np.inf, -np.round(scores, 9))
    order = np.argsort(keys, axis=1, kind="stable")[:, : scores.shape[1] - N_TRAIN]
    is_left = np.take_along_axis(left, order, axis=1)
    weight = np.where(is_left, np.take_along_axis(data.exposure, order, axis=1), 0.0)
    share = is_left / is_left.sum(axis=1, keepdims=True)
    places = np.arange(order.shape[1]) - (np.cumsum(is_left, axis=1) - is_left)
    alone = np.bincount(places.ravel(), share.ravel(), order.shape[1]) / len(order)
    return {
        "held out": (weight / weight.sum(axis=1, keepdims=True)).mean(axis=0),
        "relevant": share.mean(axis=0),
        "alone": alone,
        "count": is_left.mean(axis=0),
    }


def values(
    setup: str,
    seed: int,
    metric_name: str = "recall@10",
    sizes: Sequence[int] = SIZES,
    n_users: int = N_USERS,
    n_items: int = N_ITEMS,
) -> pd.DataFrame:
    """Values of Recall or NDCG at a cutoff of ten for each recommender (rows).

    true: with all relevant items known; alone: of a random relevant item among irrelevant items;
    exact: of the held-out item among all items; sampled and deeper, by number of negatives: the
    expectation of the sampled metric, and the exact metric at the depth 10 (n - 1)/m.
    """
    data, n = world(setup, seed, n_users, n_items), n_items - N_TRAIN
    exact, ranks, name = metric(metric_name).vector(n), np.arange(1, n + 1), metric_name[:-3]
    sampled = {
        m: estimators.naive(metric_name, Protocol(n, m, replacement=False)).expected(ranks)
        for m in sizes
    }
    ideal = exact[:_DEPTH].sum()  # all users have ten relevant items or more
    rows = {}
    for recommender, scores in recommenders(data, seed).items():
        found = rank_distributions(data, scores)
        row: dict[tuple[str, int], float] = {
            ("true", n - 1): float(
                found["relevant"] @ exact if name == "recall" else found["count"] @ exact / ideal
            ),
            ("alone", n - 1): float(found["alone"] @ exact),
            ("exact", n - 1): float(found["held out"] @ exact),
        }
        for m, curve in sampled.items():
            deep = metric(f"{name}@{round(_DEPTH * (n - 1) / m)}").vector(n)
            row["sampled", m] = float(found["held out"] @ curve)
            row["deeper", m] = float(found["held out"] @ deep)
        rows[recommender] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def orders(
    setup: str,
    seeds: Iterable[int] = range(3),
    metric_name: str = "recall@10",
    truth: str = "true",
    sizes: Sequence[int] = SIZES,
) -> pd.DataFrame:
    """Share of pairs in the reverse of the true order, by number of negatives, a mean over seeds:
    columns sampled and deeper. The last row, of all negatives, is the exact metric.
    """
    found = []
    for seed in seeds:
        table = values(setup, seed, metric_name, sizes)
        true = table[truth].to_numpy()[:, 0]
        for place, column in enumerate(table.columns):
            counts = reversed_pairs(true, table.iloc[:, place].to_numpy())
            found.append((column[0], column[1], counts["reversed"] / counts["pairs"]))
    shares = pd.DataFrame(found, columns=["kind", "m", "share"]).groupby(["kind", "m"]).mean()
    table = shares["share"].unstack("kind")
    table[["sampled", "deeper"]] = table[["sampled", "deeper"]].T.fillna(table["exact"]).T
    return table[["sampled", "deeper"]]


def crossings(table: pd.DataFrame) -> pd.Series:
    """Most negatives with which the sampled metric is not below the true one, for each recommender
    of :func:`values`; every one must be above it with the fewest negatives.
    """
    true = table["true"].to_numpy()
    is_above = table["sampled"].to_numpy() >= true
    sizes = np.where(is_above, table["sampled"].columns.to_numpy(), np.nan)
    return pd.Series(np.nanmax(sizes, axis=1), table.index)


def _places(keys: FloatArray) -> NDArray[np.int64]:
    """Place of each item in its row, 0 the largest."""
    places = np.empty(keys.shape, dtype=np.int64)
    order = np.argsort(-keys, axis=1, kind="stable")
    np.put_along_axis(places, order, np.arange(keys.shape[1])[np.newaxis, :], axis=1)
    return places


def _standard(scores: FloatArray) -> FloatArray:
    """Scores of each user with mean 0 and standard deviation 1."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    return np.asarray(centred / scores.std(axis=1, keepdims=True))

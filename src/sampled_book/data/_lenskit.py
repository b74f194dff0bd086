"""The four recommenders of ekstrand2017, by LensKit: the scores that `study` ranks.

The paper used a pre-release of LensKit 3.0, written in Java; this is the current LensKit, written
in Python and Rust. Its item-based filter and its FunkSVD descend from the Java ones and keep their
defaults. What the paper does not say, and what must differ:

- Means are not damped, which is the default of both (a film with one rating of 5 leads PersMean).
- FunkSVD learns at rate 0.001 with regularisation 0.015, the defaults of both, from features at
  0.1. The Java scorer clamped its predictions to the range of the ratings wherever the data set
  declared one; here they are not clamped, so that they do not tie at five stars.
- An item that a recommender cannot score, because no training user of it is a neighbour or nobody
  has rated it, gets its score from PersMean: the personal mean is the baseline that the authors
  fall back to in their other configurations.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics._validate import FloatArray, IntArray

#: What each recommender is given; all else is LensKit's default.
SETTINGS: dict[str, dict[str, Any]] = {
    "Popular": {"score": "count"},
    "PersMean": {"damping": 0.0},
    "Item-Item": {"max_nbrs": 20, "min_nbrs": 1, "feedback": "explicit"},
    "FunkSVD": {
        "embedding_size": 40,
        "epochs": 125,
        "learning_rate": 0.001,
        "regularization": 0.015,
        "damping": 0.0,
    },
}
#: Those whose scores depend on a seed, if only by their rounding.
SEEDED = ("Item-Item", "FunkSVD")
#: Two scores are level if they are closer than this part of the larger. LensKit sums in float32:
#: with users and items in another order a score moves by up to 2e-7 of itself, and the order of
#: two scores that are closer than that is an accident. Popular and PersMean have no rounding.
TIE_TOLERANCE = {"Popular": 0.0, "PersMean": 0.0, "Item-Item": 3e-7, "FunkSVD": 3e-7}


def scores(name: str, train: pd.DataFrame, users: IntArray, n_items: int, seed: int) -> FloatArray:
    """Scores of all items for some users, shape (n_users, n_items), higher is better.

    `train` has columns user, item and rating with users and items numbered from 0. `seed` is that
    of FunkSVD's order of ratings; for Item-Item it numbers users and items anew, which changes
    nothing but the rounding of its sums.
    """
    try:
        import lenskit  # noqa: F401
    except ImportError:
        raise ImportError(
            "the recommenders of the study need LensKit: pip install 'sampled-metrics[study]'"
        ) from None
    if name == "Popular":
        return np.tile(_counts(train, n_items), (len(users), 1))
    means, offsets = _bias(train, users, n_items)
    if name == "PersMean":  # a user's offset is the same for every item
        return np.tile(means, (len(users), 1))
    scorer = _item_item if name == "Item-Item" else _funk_svd
    model_scores = scorer(train, users, n_items, seed)
    return np.where(np.isnan(model_scores), means + offsets[:, None], model_scores)


def _counts(train: pd.DataFrame, n_items: int) -> FloatArray:
    from lenskit.basic import PopScorer

    scorer = PopScorer(**SETTINGS["Popular"])
    scorer.train(_dataset(train))
    counts = scorer(_items(np.arange(n_items))).scores().astype(np.float64)
    return np.asarray(np.nan_to_num(counts))  # an item without ratings is unknown to it


def _bias(train: pd.DataFrame, users: IntArray, n_items: int) -> tuple[FloatArray, FloatArray]:
    """Mean rating of each item, and by how much each user rates above their items' means.

    LensKit keeps its biases in float32, in which unequal means may be level. A mean of c ratings
    in half stars is a multiple of 1 / (2 c), so the nearest one is the mean itself, and quotients
    of whole numbers are level in float64 just where they are equal.
    """
    from lenskit.basic import BiasScorer

    scorer = BiasScorer(**SETTINGS["PersMean"])
    scorer.train(_dataset(train))
    model = scorer.model_
    rated_items, counts = np.unique(train["item"], return_counts=True)
    means = np.full(n_items, train["rating"].mean())  # of the items that nobody has rated
    rough = model.global_bias + model.item_biases[model.items.numbers(rated_items)].astype(
        np.float64
    )
    means[rated_items] = np.rint(2 * rough * counts) / (2 * counts)
    numbers = model.users.numbers(users, missing="negative")
    return means, np.where(numbers >= 0, model.user_biases[numbers], 0.0).astype(np.float64)


def _item_item(train: pd.DataFrame, users: IntArray, n_items: int, seed: int) -> FloatArray:
    from lenskit.knn import ItemKNNScorer

    rng = np.random.default_rng(seed)
    new_user = rng.permutation(1 + max(train["user"].max(), users.max()))
    new_item = rng.permutation(n_items)
    renamed = train.assign(user=new_user[train["user"]], item=new_item[train["item"]])
    scorer = ItemKNNScorer(**SETTINGS["Item-Item"])
    return _fit_and_score(scorer, renamed, new_user[users], new_item, seed)


def _funk_svd(train: pd.DataFrame, users: IntArray, n_items: int, seed: int) -> FloatArray:
    from lenskit.funksvd import FunkSVDScorer

    scorer = FunkSVDScorer(**SETTINGS["FunkSVD"])
    return _fit_and_score(scorer, train, users, np.arange(n_items), seed)


def _fit_and_score(
    scorer: Any, train: pd.DataFrame, users: IntArray, items: IntArray, seed: int
) -> FloatArray:
    """Scores of the items, in their order, for each user; NaN where the scorer has none."""
    from lenskit.data import RecQuery
    from lenskit.training import TrainingOptions

    data, item_list = _dataset(train), _items(items)
    scorer.train(data, TrainingOptions(rng=seed))
    score_table = np.full((len(users), len(items)), np.nan)
    for row, user in enumerate(users):
        history = data.user_row(user)
        if history is not None:
            score_table[row] = scorer(
                RecQuery(user_id=user, history_items=history), item_list
            ).scores()
    return score_table


def _dataset(train: pd.DataFrame) -> Any:
    from lenskit.data import from_interactions_df

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, about LensKit's use of it
        return from_interactions_df(
            train[["user", "item", "rating"]].copy(),
            user_col="user",
            item_col="item",
            rating_col="rating",
        )


def _items(items: IntArray) -> Any:
    from lenskit.data import ItemList

    return ItemList(item_ids=items)

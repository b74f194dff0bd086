"""Ratings divided into training and test, as in the study of random decoys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics._validate import FloatArray, IntArray, generator

N_SETS, N_TEST = 5, 5


@dataclass(frozen=True, eq=False)
class Division:
    """Ratings divided as in ekstrand2017, with users and items numbered from 0.

    `ratings`: user, item, rating and part, the set for which it is a test rating, or -1. `users`
    (n_users,): the test users, set after set, in random order; `part` (n_users,): the set of each.
    `test_items` and `gains` (n_users, n_test): test items in random order and their ratings.
    `left_out`: users, by their original name, with too few ratings to be test users; their ratings
    are training ratings.

    >>> ratings = pd.DataFrame({"user": [7, 7, 8], "item": [1, 2, 1], "rating": [3, 4, 5]})
    >>> sets = split(ratings, 0, n_sets=1, n_test=2)
    >>> sets.test_items.tolist(), sets.left_out.tolist()
    ([[0, 1]], [8])
    """

    ratings: pd.DataFrame
    users: IntArray
    part: IntArray
    test_items: IntArray
    gains: FloatArray
    left_out: IntArray

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return int(self.part.max()) + 1

    @property
    def n_items(self) -> int:
        """Number of items with a rating, in training or in test."""
        return int(self.ratings["item"].max()) + 1

    def training(self, part: int) -> pd.DataFrame:
        """Ratings that the recommenders learn from when one set is the test set."""
        return self.ratings.loc[self.ratings["part"] != part, ["user", "item", "rating"]]


def split(
    ratings: pd.DataFrame,
    rng: int | np.random.Generator,
    *,
    n_sets: int = N_SETS,
    n_test: int = N_TEST,
    users_per_set: int | None = None,
) -> Division:
    """Divide ratings as ekstrand2017 does ("Experimental Method"): `n_sets` disjoint sets of test
    users, and `n_test` test ratings of each. By default all users are in one set; the paper has
    5,000 `users_per_set` for 10M and 20M. No user rates an item twice.

    >>> ratings = pd.DataFrame({"user": np.repeat(range(6), 8), "item": [*range(8)] * 6})
    >>> sets = split(ratings.assign(rating=4.0), 0, n_sets=2)
    >>> sets.part.tolist(), sets.test_items.shape, len(sets.training(0))
    ([0, 0, 0, 1, 1, 1], (6, 5), 33)
    """
    rng = generator(rng)
    numbered, names = _numbered(ratings)
    counts = np.bincount(numbered["user"])
    eligible = rng.permutation(np.flatnonzero(counts >= n_test))
    n_users = len(eligible) if users_per_set is None else n_sets * users_per_set
    if len(eligible) < max(n_users, n_sets):
        raise ValueError(
            f"ratings must have {max(n_users, n_sets):,} users with {n_test} ratings or more for "
            f"{n_sets} sets, got {len(eligible):,}"
        )
    parts = np.array_split(eligible[:n_users], n_sets)
    users = np.concatenate(parts)
    part = np.repeat(np.arange(n_sets), [len(members) for members in parts])
    first = np.concatenate(([0], np.cumsum(counts)))
    rows = np.array([first[u] + rng.choice(counts[u], n_test, replace=False) for u in users])
    part_of_rating = np.full(len(numbered), -1)
    part_of_rating[rows] = part[:, None]
    items, gains = numbered["item"].to_numpy()[rows], numbered["rating"].to_numpy()[rows]
    return Division(
        numbered.assign(part=part_of_rating), users, part, items, gains, names[counts < n_test]
    )


def _numbered(ratings: pd.DataFrame) -> tuple[pd.DataFrame, Any]:
    """Ratings by users and items from 0, sorted by both; and the users' names."""
    user, names = pd.factorize(ratings["user"], sort=True)
    item, _ = pd.factorize(ratings["item"], sort=True)
    rating = ratings["rating"].to_numpy(np.float64)
    numbered = pd.DataFrame({"user": user, "item": item, "rating": rating})
    return numbered.sort_values(["user", "item"], ignore_index=True), np.asarray(names)

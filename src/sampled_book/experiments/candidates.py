"""Rankers that see few candidates, as language models do: what their lists hold.

``python -m sampled_book.experiments.candidates`` counts the bundled facts of LLMRank's lists anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from sampled_metrics._validate import IntArray
from sampled_metrics.auditing import audit

from ..data import bundle, datasets
from ..data.datasets import BUNDLE

#: Negatives in a list of twenty candidates.
NEGATIVES = 19
#: Candidate lists of hou2024: who made them, and their file's git blob id at commit 5ec1154.
LISTS = {
    "random": "ad3aa255830234d84685ff28e9693ee3457a6e2d",
    "pop": "2f8099ed2f6e3d760718ef326c1d23688727ee5f",
    "sasrec": "292ddffa5552b8de26017e3b30fe2daa64da25a4",
}
_URL = (
    "https://raw.githubusercontent.com/RUCAIBox/LLMRank/"
    "5ec1154cb74cbf68ed5721212f1d7e79336c39c7/llmrank/dataset/ml-1m-full/"
)


def share_ranked(
    values: Sequence[float], cutoffs: Sequence[int], half_unit: float = 0.0
) -> tuple[float, float]:
    r"""Least and largest share of users whose item has a rank up to the last cutoff, from averages
    of NDCG alone.

    With one relevant item, :math:`\mathrm{NDCG}@k_i - \mathrm{NDCG}@k_{i-1}` is the share of users
    with a rank in :math:`k_{i-1} + 1, \dots, k_i`, each weighted by :math:`1 / \log_2(r + 1)`. The
    weight is largest at the first of these ranks and smallest at the last, which bounds the share
    from both sides. Cutoffs begin at 1; `half_unit` is half a unit of the last printed digit. If
    the last cutoff is the length of the list, a largest share below 1 says that some items had no
    rank; a least share above 1 says that the values cannot belong together.
    """
    k, averages = np.asarray(cutoffs), np.asarray(values, dtype=np.float64)
    ends = []
    for inverse, sign in ((np.log2(np.append(1, k[:-1] + 1) + 1), -1), (np.log2(k + 1), 1)):
        weights = inverse - np.append(inverse[1:], 0.0)  # of each value in the sum of blocks
        ends.append(float(weights @ averages + sign * half_unit * np.abs(weights).sum()))
    return ends[0], ends[1]


def published_table() -> pd.DataFrame:
    """NDCG of rankers of 20 candidates as published by hou2024, from the pictures of their
    repository (README at commit 5ec1154).

    In pictures "tab-2" and "tab-3" the test item is among 19 random negatives; in "tab-4" there are
    21 candidates of seven retrievers, and n_negatives is empty. `users` are the lines of the
    candidate lists that their scripts name; averages such as 23.33% of 200 users are over several
    runs. NDCG is text, in percent.
    """
    path = BUNDLE / "published" / "llmrank.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def add_share_ranked(rows: pd.DataFrame, cutoffs: Sequence[int] = (1, 5, 10, 20)) -> pd.DataFrame:
    """Add to rows of :func:`published_table` the ends of :func:`share_ranked`: least and most."""
    ends = [
        share_ranked([float(row[f"NDCG@{k}"].rstrip("%")) / 100 for k in cutoffs], cutoffs, 5e-5)
        for row in rows.to_dict("records")
    ]
    return rows.assign(least=[low for low, _ in ends], most=[high for _, high in ends])


def read_lists(name: str) -> tuple[IntArray, IntArray]:
    """Candidate lists of hou2024 for MovieLens 1M, made by "random", "pop" or "sasrec": users, and
    each one's 100 candidates in order, in the numbers of :func:`~.datasets.ncf_split`.
    """
    content = datasets.published_file(_URL, f"ml-1m-full.{name}", "llmrank", LISTS[name])
    lines = [line.split("\t") for line in content.decode().splitlines()]
    number = pd.Series(np.arange(datasets.ncf_movie_ids().size), datasets.ncf_movie_ids())
    movies = np.array([items.split(" ") for _, items in lines], dtype=np.int64)
    users = np.array([user for user, _ in lines], dtype=np.int64) - 1  # MovieLens counts from 1
    return users, number[movies.ravel()].to_numpy(np.int64).reshape(movies.shape)


def count_lists() -> dict[str, Any]:
    """What :func:`bundled_lists` holds, counted from the data; a second or two."""
    split, ratings = datasets.ncf_split(), datasets.first_ratings()
    training = split.train.astype(bool)
    n_users, n_items = training.shape
    held_out = sp.csr_array(
        (np.ones(n_users, bool), (np.arange(n_users), split.held_out)), shape=training.shape
    )
    popularity = (training + held_out).sum(axis=0)
    popularity_rank = np.empty(n_items, dtype=np.int64)
    popularity_rank[np.argsort(-popularity, kind="stable")] = np.arange(1, n_items + 1)
    several = datasets.several_at_last_timestamp(ratings)
    single = several.index[~several].to_numpy() - 1
    facts: dict[str, Any] = {"items": n_items, "own": int(training.nnz), "single": int(single.size)}
    for name in LISTS:
        users, items = read_lists(name)
        seen = training[users[:, None], items[:, :NEGATIVES]].toarray()
        hit = items == split.held_out[users][:, None]
        # Are the lists uniform over the whole catalogue, with users' own items?
        none_owned = sp.csr_array((len(items), n_items))
        sizes = {"n_negatives": items.shape[1], "replacement": False}
        checks = audit(items, n_items, none_owned, **sizes).frame
        checks = checks[checks["check"] != "positives"]
        checks["p_value"] = checks["p_value"].round(6)
        facts[name] = {
            "users": int(np.unique(users).size),
            "listed": int(items.shape[1]),
            "lists": len({tuple(row) for row in items.tolist()}),
            "distinct": int(np.unique(items).size),
            "repeated": int((np.diff(np.sort(items, axis=1)) == 0).sum()),
            "popular": int((popularity_rank[np.unique(items)] <= items.shape[1]).sum()),
            "deepest": int(popularity_rank[items].max()),
            "own": int(seen.sum()),
            "users with own": int(seen.any(axis=1).sum()),
            "positions": hit.sum(axis=0).tolist(),
            "positions, single": hit[np.isin(users, single)].sum(axis=0).tolist(),
            "audit": checks.set_index("check")["p_value"].to_dict(),
        }
    return facts


def bundled_lists() -> dict[str, Any]:
    """Facts of the candidate lists of hou2024 for MovieLens 1M, as `count_lists` counts them.

    ``items``: in the catalogue; ``own``: pairs of a user and an item in training; ``single``:
    users, of the first 2,998, with one item at their last timestamp, for whom the held-out item is
    determined. And for "random", "pop" and "sasrec" a dict:

    - ``users``, ``listed``: lists, and candidates in each
    - ``lists``, ``distinct``, ``repeated``: different lists, different items in all of them,
      items that are in a list twice
    - ``popular``, ``deepest``: of the different items, how many are among the equally many most
      rated, and the place of the last of them in the order of ratings
    - ``own``, ``users with own``: among the first 19, items of the user's own training set
    - ``positions``: users whose held-out item is at place 1, 2, ... of their list;
      ``positions, single``: of the users ``single``
    - ``audit``: p-value of each check of :func:`~sampled_metrics.audit`, against lists
      drawn from the whole catalogue without replacement
    """
    facts: dict[str, Any] = json.loads((BUNDLE / "llmrank.json").read_text(encoding="utf-8"))
    return facts


def main(argv: Sequence[str] | None = None) -> int:
    """Count the facts of LLMRank's candidate lists, and write them into the package."""
    arguments = bundle.parser("sampled_book.experiments.candidates", main.__doc__).parse_args(argv)
    path = (arguments.output or BUNDLE) / "llmrank.json"
    return bundle.run(lambda: [bundle.write_json(path, count_lists())])


if __name__ == "__main__":
    sys.exit(main())

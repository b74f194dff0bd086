"""Estimates from a log of a million rows, against the mean of the naive metric by pandas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.evaluation import estimate
from sampled_metrics.log.read import read_log

RECOMMENDERS, USERS, NEGATIVES = 10, 100_000, 100


def rows(n: int, sizes: str) -> pd.DataFrame:
    """Sampled ranks of recommenders of different strength; users may differ in candidates."""
    rng = np.random.default_rng(9)
    shares = [rng.beta(0.4, 1 + 2 * strength, USERS) for strength in range(RECOMMENDERS)]
    items = n - rng.integers(0, n // 10, USERS) if sizes == "n by user" else np.full(USERS, n)
    return pd.DataFrame(
        {
            "recommender": np.repeat([f"R{i}" for i in range(RECOMMENDERS)], USERS),
            "user": np.tile(np.arange(USERS), RECOMMENDERS),
            "rank": 1 + rng.binomial(NEGATIVES, np.concatenate(shares)),
            "n_items": np.tile(items, RECOMMENDERS),
        }
    )


def by_pandas(table: pd.DataFrame) -> pd.DataFrame:
    """What everyone computes: the mean of sampled NDCG@10 and its standard error."""
    rank = table["rank"]
    value = (rank <= 10) / np.log2(1 + rank)
    return value.groupby(table["recommender"]).agg(["mean", "sem"])


@pytest.mark.parametrize("way", ["pandas", "read_log", "ours, naive", "ours", "what is possible"])
@pytest.mark.parametrize("sizes", ["one n", "n by user"])
def test_estimate(measure: Callable[..., None], sizes: str, way: str) -> None:
    n = 100_000
    table = rows(n, sizes)
    log = read_log(table, n_negatives=NEGATIVES, replacement=True)
    calls: dict[str, Callable[[], object]] = {
        "pandas": lambda: by_pandas(table),
        "read_log": lambda: read_log(table, n_negatives=NEGATIVES, replacement=True),
        "ours, naive": lambda: estimate(log, ["ndcg@10"], estimator="naive", identification=False),
        "ours": lambda: estimate(log, ["ndcg@10"], identification=False),
        "what is possible": lambda: estimate(log, ["ndcg@10"]),
    }
    many = way in ("pandas", "read_log", "ours, naive")
    what = f"{RECOMMENDERS * USERS:,} rows, {sizes}"
    measure("evaluation", what, way, n, calls[way], rounds=3 if many else 1)

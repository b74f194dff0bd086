"""Exact ranks from factors: against the product alone, sorting, and implicit's evaluator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from sampled_metrics.ranking.factors import exact_ranks_from_factors

USERS, FACTORS, SEEN = 512, 64, 100


def by_sorting(users: np.ndarray, items: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    order = np.argsort(-(users @ items.T), axis=1)
    return np.asarray(np.argmax(order == held_out[:, np.newaxis], axis=1) + 1)


def implicit_evaluator(
    users: np.ndarray, items: np.ndarray, held_out: np.ndarray, train: sp.csr_matrix
) -> Callable[[], object]:
    """The library's metrics of the ten best items: it gives no ranks beyond them."""
    als = pytest.importorskip("implicit.als")
    evaluation = pytest.importorskip("implicit.evaluation")
    model = als.AlternatingLeastSquares(factors=FACTORS, num_threads=1)
    model.user_factors, model.item_factors = users, items
    test = sp.csr_matrix((np.ones(USERS), (np.arange(USERS), held_out)), shape=train.shape)
    return lambda: evaluation.ranking_metrics_at_k(
        model, train, test, K=10, show_progress=False, num_threads=1
    )


@pytest.mark.parametrize(
    "way", ["ours", "ours, masked", "product alone", "product reused", "argsort", "implicit"]
)
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("n", [4_000, 100_000])
def test_ranking(measure: Callable[..., None], n: int, precision: str, way: str) -> None:
    if way == "implicit" and precision == "float64":
        pytest.skip("implicit keeps float32 factors")
    rng = np.random.default_rng(8)
    users, items = (rng.normal(size=(rows, FACTORS)).astype(precision) for rows in (USERS, n))
    held_out = rng.integers(n, size=USERS)
    seen = rng.integers(n, size=(USERS, SEEN))
    seen[seen == held_out[:, np.newaxis]] = (held_out[0] + 1) % n
    seen[seen == held_out[:, np.newaxis]] = (held_out[0] + 2) % n
    owner = np.repeat(np.arange(USERS), SEEN)
    train = sp.csr_matrix((np.ones(owner.size), (owner, seen.ravel())), shape=(USERS, n))
    kept = np.empty((USERS, n), precision) if way == "product reused" else None
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: exact_ranks_from_factors(users, items, held_out, None),
        "ours, masked": lambda: exact_ranks_from_factors(users, items, held_out, train),
        "product alone": lambda: users @ items.T,
        "product reused": lambda: np.matmul(users, items.T, out=kept),
        "argsort": lambda: by_sorting(users, items, held_out),
    }
    call = calls.get(way) or implicit_evaluator(users, items, held_out, train)
    measure("ranking", f"{USERS} users, {FACTORS} factors, {precision}", way, n, call, rounds=5)

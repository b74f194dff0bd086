"""Exact ranks from factors, against the matrix product alone and against sorting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sampled_metrics.ranking import exact_ranks_from_factors

USERS, FACTORS = 1_000, 64


def by_sorting(users: np.ndarray, items: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    order = np.argsort(-(users @ items.T), axis=1)
    return np.asarray(np.argmax(order == held_out[:, np.newaxis], axis=1) + 1)


@pytest.mark.parametrize("way", ["ours", "product alone", "argsort"])
@pytest.mark.parametrize("n", [4_000, 16_000, 64_000])
def test_ranking(measure: Callable[..., None], n: int, way: str) -> None:
    rng = np.random.default_rng(8)
    users, items = rng.normal(size=(USERS, FACTORS)), rng.normal(size=(n, FACTORS))
    held_out = rng.integers(n, size=USERS)
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: exact_ranks_from_factors(users, items, held_out, None),
        "product alone": lambda: users @ items.T,
        "argsort": lambda: by_sorting(users, items, held_out),
    }
    measure("ranking", f"{USERS} users, {FACTORS} factors", way, n, calls[way], rounds=5)

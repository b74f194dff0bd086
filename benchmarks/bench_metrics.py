"""Metrics of ten million ranks, against the plain expression without checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from sampled_metrics import metric

N_ITEMS, N_RANKS = 100_000, 10**7

PLAIN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "auc": lambda r: (N_ITEMS - r) / (N_ITEMS - 1),
    "recall@10": lambda r: (r <= 10).astype(float),
    "ap": lambda r: 1.0 / r,
    "ndcg@10": lambda r: np.where(r <= 10, 1.0 / np.log2(r + 1.0), 0.0),
}


@pytest.fixture(scope="module")
def ranks() -> np.ndarray:
    return np.random.default_rng(7).integers(1, N_ITEMS + 1, N_RANKS)


@pytest.mark.parametrize("way", ["ours", "numpy"])
@pytest.mark.parametrize("name", PLAIN)
def test_metric(measure: Callable[..., None], ranks: np.ndarray, name: str, way: str) -> None:
    ours = partial(metric(name), ranks, N_ITEMS)
    call = ours if way == "ours" else partial(PLAIN[name], ranks)
    measure("metrics", name, way, N_RANKS, call, rounds=7)

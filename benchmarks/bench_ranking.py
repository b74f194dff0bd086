"""Exact ranks by factors against the product alone, and against sorting all scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import rank

FACTORS, USERS = 64, {10_000: 2048, 100_000: 512}


@pytest.mark.parametrize("way", ["ours", "product", "argsort"])
@pytest.mark.parametrize("n", USERS)
def test_ranking(measure: Callable[..., None], n: int, way: str) -> None:
    rng = np.random.default_rng(8)
    users, items = (rng.normal(size=(rows, FACTORS)) for rows in (USERS[n], n))
    held_out = rng.integers(n, size=len(users))
    test = pd.DataFrame({"user": np.arange(len(users)), "item": held_out})
    blocks = [slice(start, start + 256) for start in range(0, len(users), 256)]

    def ours() -> None:
        rank(users, items, test)

    def product() -> None:
        for block in blocks:
            users[block] @ items.T

    def argsort() -> None:
        for block in blocks:
            order = np.argsort(-(users[block] @ items.T), axis=1)
            np.argmax(order == held_out[block, np.newaxis], axis=1)

    call = {"ours": ours, "product": product, "argsort": argsort}[way]
    measure("ranking", f"float64, {FACTORS} factors", way, n, call)

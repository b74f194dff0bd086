"""RankMetric.update against the two comparisons that every loop makes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sampled_metrics import RankMetric

USERS, BATCH = 6_040, 512


@pytest.mark.parametrize("way", ["ours", "bare comparisons"])
@pytest.mark.parametrize(("n", "masked"), [(3_706, False), (50_000, False), (3_706, True)])
def test_loop(measure: Callable[..., None], n: int, masked: bool, way: str) -> None:
    rng = np.random.default_rng(3)
    users = USERS if n < 10_000 else BATCH
    scores = rng.normal(size=(users, n)).astype(np.float32)
    targets = rng.integers(n, size=users)
    mask = rng.random(scores.shape) < 0.96  # 4% of the items, as in MovieLens, were trained on
    mask[np.arange(users), targets] = True
    batches = [slice(start, start + BATCH) for start in range(0, users, BATCH)]

    def ours() -> None:
        ndcg = RankMetric("ndcg@10")
        for batch in batches:
            ndcg.update(scores[batch], targets[batch], mask[batch] if masked else None)

    def bare() -> None:
        for batch in batches:
            own = np.take_along_axis(scores[batch], targets[batch, np.newaxis], axis=1)
            if masked:
                ((scores[batch] > own) & mask[batch]).sum(1)
                ((scores[batch] == own) & mask[batch]).sum(1)
            else:
                (scores[batch] > own).sum(1), (scores[batch] == own).sum(1)

    call = ours if way == "ours" else bare
    what = "float32, batches of 512 users" + ", with a mask" * masked
    measure("loop", what, way, n, call, rounds=7)

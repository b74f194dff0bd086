"""The log that comes with the library: one sampled evaluation of X, Y and Z."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics._validate import generator, integer
from sampled_metrics.log.read import BUNDLE, BUNDLED_NEGATIVES
from sampled_metrics.ranking.intervals import RankIntervals

from . import bundle

BUNDLED_SEED = 20_200
#: Metrics whose exact values come with the log.
EXACT_METRICS = (
    *(f"{name}@{k}" for name in ("recall", "ndcg") for k in (1, 5, 10, 20, 50, 100)),
    *("ndcg", "ap", "auc"),
)


def simulate(
    ranks: Mapping[str, RankIntervals], n_negatives: int, rng: int | np.random.Generator
) -> pd.DataFrame:
    """Draw the log of one sampled evaluation of known ranks, as :func:`read_log` takes it. Every
    row has negatives of its own, drawn without replacement from the candidates other than the
    held-out item; users are numbered from 0.
    """
    better, tied, items = (
        np.concatenate([getattr(part, name) for part in ranks.values()])
        for name in ("n_better", "n_tied", "n_candidates")
    )
    m = integer(n_negatives, "n_negatives", 1, int(items.min()) - 1)
    rng = generator(rng)
    above = rng.hypergeometric(better, items - 1 - better, m)
    sampled_ties = rng.hypergeometric(tied, items - 1 - better - tied, m - above)
    users = [np.arange(part.n_better.size) for part in ranks.values()]
    names = np.repeat(list(ranks), [part.size for part in users])
    return pd.DataFrame(
        {
            "recommender": names,
            "user": np.concatenate(users),
            "n_better": above,
            "n_tied": sampled_ties,
            "n_items": items,
            "n_negatives": m,
        }
    )


def write_bundled_log(ranks: Mapping[str, RankIntervals], folder: Path = BUNDLE) -> Path:
    """Write the log that ``read_log("bundled")`` reads, and its exact metrics beside it. All
    recommenders have the same users with the same numbers of candidates.
    """
    exact_values = {
        kind: {name: round(float(part.evaluate(kind).mean()), 6) for name, part in ranks.items()}
        for kind in EXACT_METRICS
    }
    bundle.write_json(folder / "exact.json", exact_values)
    rows = simulate(ranks, BUNDLED_NEGATIVES, BUNDLED_SEED)
    table: dict[str, Any] = {
        name: rows[name].to_numpy(dtype=np.uint16).reshape(len(ranks), -1)
        for name in ("n_better", "n_tied", "n_items")
    }
    table["n_items"] = table["n_items"][0]
    names, seed = np.array(list(ranks)), np.array(BUNDLED_SEED)
    return bundle.write_arrays(folder / "log.npz", names=names, seed=seed, **table)

"""What it costs to stop training, and to tune, by a sampled metric.

    python benchmarks/stopping.py        writes benchmarks/stopping.csv; some minutes

Two models learn from all but the last two items of each user, with four settings each. After every
epoch the validation items of 3,000 users are ranked among all items. So the exact NDCG@10 and the
expected one among 100 negatives are known; `drawn` is one sample. `test` is the exact NDCG@10 of
the same users' last items. Chapter 12 says what a choice by `expected` costs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from threadpoolctl import threadpool_limits

import sampled_metrics as sm
from sampled_book.data import benchmark, sources
from sampled_metrics.ranking.exact import exact_ranks

FILE = Path(__file__).with_name("stopping.csv")
DATA = ("lastfm", "yahoo_movies", "ml-1m")
ALS, BPR = AlternatingLeastSquares, BayesianPersonalizedRanking
SETTINGS = [
    *((ALS, {"alpha": a, "regularization": w}) for a in (1.0, 8.0) for w in (0.1, 3.0)),
    *((BPR, {"learning_rate": r, "regularization": w}) for r in (0.05, 0.2) for w in (0.001, 0.03)),
]
USERS, NEGATIVES, EPOCHS, SEED = 3_000, 100, 30, 1


def course(name: str, setting: int) -> pd.DataFrame:
    """Metrics by epoch."""
    model, options = SETTINGS[setting]
    data = benchmark.DATA[name]() if name in benchmark.DATA else sources.local()[0][name].read()
    learnt, test = data.without_last(1)
    train, validation = learnt.without_last(1)
    rng = np.random.default_rng(SEED)
    users = np.sort(rng.permutation(train.n_users)[:USERS])
    learner = model(factors=64, iterations=1, num_threads=1, random_state=SEED, **options)
    rows = []
    for epoch in range(1, EPOCHS + 1):
        learner.fit(sp.csr_matrix(train.matrix, dtype=np.float32), show_progress=False)
        vectors, items = learner.user_factors[users], learner.item_factors
        ranks, later = (
            exact_ranks(lambda block: vectors[block] @ items.T, held_out[users], owned[users])  # noqa: B023
            for held_out, owned in ((validation, train.matrix), (test, learnt.matrix))
        )
        protocol = sm.Protocol(int(ranks.n_candidates.max()), NEGATIVES, replacement=False)
        reported = sm.estimators.naive("ndcg@10", protocol).values
        pmf = ranks.sampled_pmf(NEGATIVES)
        sampled = (rng.random((users.size, 1)) > np.cumsum(pmf, axis=1)[:, :-1]).sum(axis=1)
        values = {"exact": ranks.evaluate("ndcg@10"), "expected": pmf @ reported}
        values |= {"drawn": reported[sampled], "test": later.evaluate("ndcg@10")}
        means = {metric: value.mean() for metric, value in values.items()}
        rows.append({"data": name, "setting": setting, "epoch": epoch} | means)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):
        courses = [course(name, setting) for name in DATA for setting in range(len(SETTINGS))]
    pd.concat(courses).to_csv(FILE, index=False, float_format="%.5f")

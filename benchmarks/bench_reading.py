"""Reading a log from a file, against pandas' own reading and the mean of the naive metric."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench_evaluation import by_pandas
from sampled_metrics.io import readers
from sampled_metrics.io.logs import read_log

RECOMMENDERS, USERS, NEGATIVES = 20, 100_000, 100


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Two million rows, in order and mixed up, as CSV and as Parquet."""
    rng = np.random.default_rng(10)
    shares = [rng.beta(0.4, 1 + 2 * strength, USERS) for strength in range(RECOMMENDERS)]
    table = pd.DataFrame(
        {
            "recommender": np.repeat([f"R{i}" for i in range(RECOMMENDERS)], USERS),
            "user": np.tile(np.arange(USERS), RECOMMENDERS),
            "rank": 1 + rng.binomial(NEGATIVES, np.concatenate(shares)),
        }
    )
    folder, found = tmp_path_factory.mktemp("logs"), {}
    for order, rows in (("in order", table), ("mixed up", table.sample(frac=1, random_state=1))):
        for kind in ("csv", "parquet"):
            found[kind, order] = folder / f"{order}.{kind}"
            if kind == "csv":
                rows.to_csv(found[kind, order], index=False)
            else:
                rows.to_parquet(found[kind, order], index=False)
    return found


@pytest.mark.parametrize("way", ["ours", "pandas"])
@pytest.mark.parametrize("order", ["in order", "mixed up"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_read(
    measure: Callable[..., None],
    files: dict[tuple[str, str], Path],
    kind: str,
    order: str,
    way: str,
) -> None:
    path = files[kind, order]
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: read_log(path, n_items=100_000, n_negatives=NEGATIVES),
        "pandas": lambda: by_pandas(pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)),
    }
    rows = RECOMMENDERS * USERS
    measure("reading", f"{kind}, {order}", way, rows, calls[way], rounds=3)


@pytest.mark.parametrize("way", ["ours", "pandas"])
def test_trec(measure: Callable[..., None], tmp_path: Path, way: str) -> None:
    """A run of 15,000 queries, 100 documents each: its ranks, against splitting its lines."""
    rng, run, qrels = np.random.default_rng(5), [], []
    for query in range(15_000):
        documents = rng.choice(100_000, 100, replace=False)
        scores = np.sort(rng.normal(size=100))[::-1]
        run += [
            f"q{query} Q0 doc{document} {rank} {score:.6f} bm25\n"
            for rank, (document, score) in enumerate(zip(documents, scores, strict=True), 1)
        ]
        qrels.append(f"q{query} 0 doc{documents[min(rng.geometric(0.05), 100) - 1]} 1\n")
    (tmp_path / "run.trec").write_text("".join(run))
    (tmp_path / "qrels.trec").write_text("".join(qrels))
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: readers.trec(tmp_path / "run.trec", tmp_path / "qrels.trec"),
        "pandas": lambda: pd.read_csv(tmp_path / "run.trec", sep=" ", header=None),
    }
    measure("reading", "TREC run", way, len(run), calls[way], rounds=3)

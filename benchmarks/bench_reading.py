"""Reading a log from a file, against pandas' own reading and the mean of the naive metric.

A run of the whole corpus is also evaluated, against ir_measures, if that is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.trec import written

from bench_evaluation import by_pandas
from sampled_metrics import estimate, readers
from sampled_metrics.log.read import read_log

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
        "ours": lambda: read_log(path, n_items=100_000, n_negatives=NEGATIVES, replacement=True),
        "pandas": lambda: by_pandas(pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)),
    }
    rows = RECOMMENDERS * USERS
    measure("reading", f"{kind}, {order}", way, rows, calls[way], rounds=3)


@pytest.mark.parametrize("way", ["ours", "pandas"])
def test_trec(measure: Callable[..., None], tmp_path: Path, way: str) -> None:
    """A run of 15,000 queries, 100 documents each: its ranks, against splitting its lines."""
    queries = 15_000
    run, qrels = written(tmp_path, queries, np.random.default_rng(5))
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: readers.trec(run, qrels),
        "pandas": lambda: pd.read_csv(run, sep=" ", header=None),
    }
    measure("reading", "TREC run", way, 100 * queries, calls[way], rounds=3)


@pytest.fixture(scope="module")
def of_all(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A run of 1,000 queries, 1,000 documents each, and ten relevant documents for each query."""
    run, qrels = written(tmp_path_factory.mktemp("run"), 1_000, np.random.default_rng(5), 1_000)
    with qrels.open("a") as file:  # no list has nine of the ten
        file.writelines(f"q{i} 0 missed{j} 1\n" for i in range(1_000) for j in range(9))
    return str(run), str(qrels)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("way", ["ours", "ir_measures"])
def test_of_all(measure: Callable[..., None], of_all: tuple[str, str], way: str) -> None:
    """Reading and evaluating a run of the whole corpus, in processor time."""
    irm = pytest.importorskip("ir_measures", reason="ir_measures is not installed")
    run, qrels = of_all
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: estimate(readers.trec(run, qrels, of_all=True), ["ndcg@10", "recall@100"]),
        "ir_measures": lambda: irm.calc_aggregate(
            [irm.nDCG @ 10, irm.R @ 100], irm.read_trec_qrels(qrels), irm.read_trec_run(run)
        ),
    }
    measure("reading", "TREC run of all, evaluated", way, 1_000_000, calls[way], rounds=5)

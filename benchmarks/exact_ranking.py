"""Exact ranking of the same factors, side by side with other libraries, in one run.

    python benchmarks/exact_ranking.py            ours, the product alone, and sorting
        --peers PYTHON    and implicit, RecTools and RecBole of this interpreter
        --study PYTHON    and LensKit of this one

Each way is a process of its own, on one thread; ways take turns. What is printed is processor
seconds, since the clock on a shared machine measures the others, and the memory that the call made
resident beyond what the process held before it. Making data, imports and whatever a library builds
before it is asked for metrics are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp

FACTORS, SEEN = 64, 50
#: Users, so that each size takes seconds.
USERS = {10_000: 2048, 100_000: 512, 1_000_000: 128}
OF = {
    "peers": ["implicit", "rectools", "recbole full", "recbole uni100"],
    "study": ["lenskit"],
}
OURS = [
    "ours, NumPy", "ours, compiled", "ours, NumPy, masked", "ours, compiled, masked", "product",
    "argsort",
]  # fmt: skip


def make(folder: Path, n_users: int, n_items: int) -> None:
    """Factors, held-out items, and training items of each user."""
    rng = np.random.default_rng(8)
    for name, rows in (("U", n_users), ("V", n_items)):
        np.save(folder / f"{name}.npy", rng.normal(size=(rows, FACTORS)).astype(np.float32))
    held_out = rng.integers(n_items, size=n_users)
    seen = rng.integers(n_items, size=(n_users, SEEN))
    seen[seen == held_out[:, None]] = (held_out.max() + 1) % n_items
    keep = seen != held_out[:, None]
    row = np.repeat(np.arange(n_users), SEEN)[keep.ravel()]
    train = sp.csr_matrix((np.ones(row.size, np.float32), (row, seen[keep])), (n_users, n_items))
    train.sum_duplicates()
    train.data[:] = 1
    np.save(folder / "test.npy", held_out)
    sp.save_npz(folder / "train.npz", train)


def choose(compiled: bool) -> None:
    """Let this process count by the compiled pass, which is loaded here, or never."""
    from sampled_metrics.ranking import kernels

    kernels.WORTH = 0 if compiled else 2**62
    if compiled and kernels.compiled(np.dtype(np.float32), 0) is None:
        raise ImportError("Numba is not installed")


def ours(
    users: Any, items: Any, test: Any, train: Any, compiled: bool, masked: bool
) -> Callable[[], object]:
    from sampled_metrics.ranking.factors import shard_counts
    from sampled_metrics.ranking.inputs import as_csr
    from sampled_metrics.ranking.intervals import RankIntervals

    choose(compiled)

    def call() -> object:
        seen = as_csr(train if masked else None, len(users), len(items))
        better, tied = shard_counts(users, items, np.arange(len(users)), items[test], test, seen)
        intervals = RankIntervals(better, tied, len(items) - np.diff(seen.indptr))
        return intervals.evaluate("ndcg@10").mean()

    return call


def product(users: Any, items: Any, test: Any, train: Any) -> Callable[[], object]:
    """256 users at a time, into one block: less than this no exact evaluation can do."""
    block = np.empty((min(256, len(users)), len(items)), np.float32)

    def call() -> object:
        for a in range(0, len(users), 256):
            np.matmul(users[a : a + 256], items.T, out=block[: len(users[a : a + 256])])
        return block[0, 0]

    return call


def argsort(users: Any, items: Any, test: Any, train: Any) -> Callable[[], object]:
    def call() -> object:
        found = []
        for a in range(0, len(users), 64):
            order = np.argsort(-(users[a : a + 64] @ items.T), axis=1)
            found.append(np.argmax(order == test[a : a + 64, None], axis=1) + 1)
        return np.concatenate(found)

    return call


def implicit(users: Any, items: Any, test: Any, train: Any) -> Callable[[], object]:
    from implicit.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k

    model = AlternatingLeastSquares(factors=FACTORS, num_threads=1)
    model.user_factors, model.item_factors = users, items
    held = sp.csr_matrix((np.ones(len(users)), (np.arange(len(users)), test)), train.shape)
    return lambda: ranking_metrics_at_k(
        model, train, held, K=10, show_progress=False, num_threads=1
    )


def rectools(users: Any, items: Any, test: Any, train: Any) -> Callable[[], object]:
    import pandas as pd
    from rectools import Columns
    from rectools.metrics import NDCG, calc_metrics
    from rectools.models.rank import Distance, ImplicitRanker

    ranker = ImplicitRanker(Distance.DOT, users, items, num_threads=1)
    ids = np.arange(len(users))
    held = pd.DataFrame({Columns.User: ids, Columns.Item: test})

    def call() -> object:
        of, found, scores = ranker.rank(ids, k=10, filter_pairs_csr=train)
        reco = pd.DataFrame({Columns.User: of, Columns.Item: found, Columns.Score: scores})
        reco[Columns.Rank] = reco.groupby(Columns.User, sort=False).cumcount() + 1
        return calc_metrics({"ndcg@10": NDCG(10)}, reco, held)

    return call


def recbole(users: Any, items: Any, test: Any, train: Any, mode: str) -> Callable[[], object]:
    """BPR of RecBole with these factors, and its trainer's evaluation of one item of each user."""
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer

    torch.set_num_threads(1)
    sys.argv = sys.argv[:1]
    folder = Path("data")
    folder.mkdir()
    pairs = sp.coo_matrix(train)
    rows = np.concatenate([pairs.row, np.arange(len(users))])
    columns = np.concatenate([pairs.col, test])
    times = np.concatenate([np.zeros(pairs.nnz), np.ones(len(users))])
    with (folder / "data.inter").open("w") as file:
        file.write("user_id:token\titem_id:token\ttimestamp:float\n")
        file.writelines(f"{u}\t{i}\t{t}\n" for u, i, t in zip(rows, columns, times, strict=True))
    with (folder / "data.item").open("w") as file:
        file.write("item_id:token\n")
        file.writelines(f"{i}\n" for i in range(len(items)))
    settings = {
        "data_path": ".", "use_gpu": False, "state": "ERROR", "show_progress": False,
        "metrics": ["NDCG"], "topk": [10], "valid_metric": "NDCG@10", "embedding_size": FACTORS,
        "load_col": {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id"]},
        "eval_args": {"split": {"LS": "test_only"}, "order": "TO", "group_by": "user",
                      "mode": mode},
        "eval_batch_size": 256 * (len(items) if mode == "full" else 101),
    }  # fmt: skip
    config = Config(model="BPR", dataset="data", config_dict=settings)
    dataset = create_dataset(config)
    fitted, _, tested = data_preparation(config, dataset)
    model = get_model("BPR")(config, fitted._dataset)
    with torch.no_grad():
        for table, given, name in ((model.user_embedding, users, "user_id"),
                                   (model.item_embedding, items, "item_id")):  # fmt: skip
            ids = dataset.field2id_token[name][1:].astype(int)
            table.weight[1 : len(ids) + 1] = torch.from_numpy(given[ids])
    trainer = get_trainer(config["MODEL_TYPE"], "BPR")(config, model)
    return lambda: trainer.evaluate(tested, load_best_model=False, show_progress=False)


def lenskit(users: Any, items: Any, test: Any, train: Any) -> Callable[[], object]:
    """Its item lists, their ten best and their NDCG: scores are the product of one user."""
    from lenskit.data import ItemList
    from lenskit.metrics import NDCG, call_metric

    ids = np.arange(len(items))

    def call() -> object:
        found = []
        for user, (row, item) in enumerate(zip(users, test, strict=True)):
            scores = items @ row
            scores[train.indices[train.indptr[user] : train.indptr[user + 1]]] = np.nan
            best = ItemList(item_ids=ids, scores=scores).top_n(10)
            found.append(call_metric(NDCG(10), best, ItemList(item_ids=[item])))
        return np.mean(found)

    return call


WAYS: dict[str, Callable[..., Callable[[], object]]] = {
    "ours, NumPy": lambda *given: ours(*given, False, False),
    "ours, NumPy, masked": lambda *given: ours(*given, False, True),
    "ours, compiled": lambda *given: ours(*given, True, False),
    "ours, compiled, masked": lambda *given: ours(*given, True, True),
    "product": product,
    "argsort": argsort,
    "implicit": implicit,
    "rectools": rectools,
    "recbole full": lambda *given: recbole(*given, "full"),
    "recbole uni100": lambda *given: recbole(*given, "uni100"),
    "lenskit": lenskit,
}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one(way: str, folder: Path) -> None:
    """What the process of one way does: its seconds and bytes as a line of JSON."""
    users, items = np.load(folder / "U.npy"), np.load(folder / "V.npy")
    test, train = np.load(folder / "test.npy"), sp.load_npz(folder / "train.npz").tocsr()
    with TemporaryDirectory() as scratch:
        os.chdir(scratch)
        call = WAYS[way](users, items, test, sp.csr_matrix(train))
        before = resident()
        with open("/proc/self/clear_refs", "w") as file:  # the highest mark begins here
            file.write("5")
        start = time.process_time()
        call()
        seconds = time.process_time() - start
        status = Path("/proc/self/status").read_text().split("VmHWM:")[1]
        os.chdir(folder)
    highest = int(status.split()[0]) * 1024
    print("\n" + json.dumps({"seconds": seconds, "bytes": max(0, highest - before)}))


def measured(way: str, folder: Path, pythons: dict[str, str]) -> dict[str, float] | None:
    """One process of one way; None if its library is not there or fails."""
    owner = next((env for env, ways in OF.items() if way in ways), None)
    python = sys.executable if owner is None else pythons[owner]
    environment = os.environ | {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    run = subprocess.run(
        [python, __file__, "--one", way, "--folder", str(folder)],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    if run.returncode:
        print(f"{way}: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(run.stdout.strip().splitlines()[-1])
    print(f"{way}: {found['seconds']:.3f} s", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="a Python with implicit, rectools and recbole")
    parser.add_argument("--study", help="a Python with lenskit")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--items", type=int, nargs="*", choices=list(USERS), default=list(USERS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one, given.folder)
        return
    pythons = {"peers": given.peers, "study": given.study}
    ways = OURS + [way for env, ways in OF.items() if pythons[env] for way in ways]
    for n_items in given.items:
        with TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, USERS[n_items], n_items)
            found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
            for _ in range(given.repeats):
                for way in ways:
                    if (one_run := measured(way, folder, pythons)) is not None:
                        found[way].append(one_run)
            base = [run["seconds"] for run in found["product"]]
            for way, runs in found.items():
                if runs:
                    seconds = np.median([run["seconds"] for run in runs])
                    ratios = [run["seconds"] / b for run, b in zip(runs, base, strict=False)]
                    peak = np.median([run["bytes"] for run in runs]) / 2**20
                    of = f"{n_items:9,} items {USERS[n_items]:5,} users  {way:22}"
                    ratio = f"{np.median(ratios):7.2f} x product"
                    print(f"{of} {seconds:8.3f} s {ratio} {peak:8.0f} MiB", flush=True)


if __name__ == "__main__":
    main()

"""Estimates and verdicts from logs of 1e7 to 1e9 rows: processor seconds and peak memory.

Each log is a folder of Parquet files, which is deleted after use: as many users as there are rows
for each of two recommenders, or with ``--items 3`` a third as many with three rows each, which
``--mixed`` mixes up within each file. Every command is a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

#: Rows of a file.
FILE = 10_000_000
NEGATIVES = 100
SIZES = ["--n-items", "100000", "--n-negatives", str(NEGATIVES), "--replacement"]
COMMANDS = {"estimate": ["--metrics", "ndcg@10", "auc"], "compare": ["--metric", "ndcg@10"]}


def write(folder: Path, rows: int, items: int, mixed: bool, seed: int = 1) -> None:
    """Two recommenders' logs, a folder each. With one row a user, A's users stand in order and B's
    do not; with more, a user's rows stand together unless they are mixed up within a file."""
    part = min(FILE, rows // 2) // items
    for strength, number in product(range(2), range(rows // 2 // items // part)):
        own = folder / f"recommender={'AB'[strength]}"
        own.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng([seed, strength, number])
        depths = np.sort(rng.beta(0.4, 1 + 2 * strength, (part, items)), axis=1)
        ranks = np.zeros((part, items), dtype=np.int32)
        above, before = np.zeros(part, dtype=np.int64), np.zeros(part)
        for at, depth in enumerate(depths.T):  # all among the same negatives
            above += rng.binomial(NEGATIVES - above, np.maximum(depth - before, 0) / (1 - before))
            ranks[:, at], before = above + at + 1, np.minimum(depth, 1 - 1e-9)
        user = np.arange(number * part, (number + 1) * part, dtype=np.int64)
        columns = {"user": np.repeat(user, items), "rank": ranks.ravel()}
        if items > 1:
            columns["item"] = (np.arange(items) + 10 * user[:, np.newaxis]).ravel()
        shuffled = mixed if items > 1 else strength == 1
        order = rng.permutation(ranks.size) if shuffled else slice(None)
        table = pa.table({key: column[order] for key, column in columns.items()})
        parquet.write_table(table, own / f"part-{number:03}.parquet")


def measured(*arguments: str) -> tuple[float, float, float]:
    """Processor seconds, seconds and gigabytes at the peak of one command."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "sampled_metrics", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{arguments[0]} failed")
    seconds = time.perf_counter() - start
    return used.ru_utime + used.ru_stime, seconds, used.ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=float, default=[1e7, 1e8])
    parser.add_argument("--folder", help="where to write the logs; a temporary one if omitted")
    parser.add_argument("--items", type=int, default=1, help="rows of each user")
    parser.add_argument("--mixed", action="store_true", help="mix up rows of several items")
    arguments = parser.parse_args()
    print("| rows | command | processor seconds | ns a row | seconds | GiB |")
    print("|---:|---|---:|---:|---:|---:|")
    for rows in map(int, arguments.rows):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write(Path(folder) / "log", rows, arguments.items, arguments.mixed)
            for command, options in COMMANDS.items():
                used, seconds, peak = measured(command, f"{folder}/log", *SIZES, *options)
                line = f"| {rows:,} | {command} | {used:.1f} | {1e9 * used / rows:.0f} |"
                print(f"{line} {seconds:.0f} | {peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()

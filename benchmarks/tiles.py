"""Exact ranks from factors beside the product that they cannot do without, in turn, in one process.

    python benchmarks/tiles.py [--factors 64 256] [--items 1e4 1e5 1e6] [--types float32 float64]
                               [--turns 7]

Prints the processor time of the product for a score, in ns, where it is written into a tile that
stays in the cache, and what exact ranks take of it: by NumPy's passes, and by the compiled one.
Each is the ratio of the smallest times, then that of the medians. One thread; imports and
compilation are not in it.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported

import numpy as np

from sampled_metrics.ranking import kernels as _compiled
from sampled_metrics.ranking.counting import FAST_TILE, TILE
from sampled_metrics.ranking.factors import exact_ranks_from_factors

#: Scores of a turn, about, and users at most.
SCORES, MOST_USERS = 10**8, 10_240
NEVER = 2**62


def product_in_tiles(users: np.ndarray, items: np.ndarray, size: tuple[int, int]) -> None:
    """All scores, of so many users and items at a time, each tile over the last."""
    tile = np.empty(math.prod(size), users.dtype)
    for row in range(0, len(users), size[0]):
        rows = users[row : row + size[0]]
        for start in range(0, len(items), size[1]):
            columns = items[start : start + size[1]]
            out = tile[: len(rows) * len(columns)].reshape(len(rows), len(columns))
            np.matmul(rows, columns.T, out=out)


def measured(n_factors: int, n_items: int, precision: str, turns: int) -> str:
    """One line of the table."""
    rng = np.random.default_rng(8)
    n_users = max(512, min(MOST_USERS, SCORES // n_items // 1024 * 1024))
    shapes = (n_users, n_factors), (n_items, n_factors)
    users, items = (rng.standard_normal(shape).astype(precision) for shape in shapes)
    held_out = rng.integers(n_items, size=n_users)

    def ranks(worth: int) -> Callable[[], object]:
        def call() -> object:
            _compiled.WORTH = worth
            return exact_ranks_from_factors(users, items, held_out, None)

        return call

    ways = [lambda size=size: product_in_tiles(users, items, size) for size in (TILE, FAST_TILE)]
    ways += [ranks(NEVER), ranks(0)]
    for way in ways:
        way()  # compiles, and touches the memory
    seconds = np.empty((turns, len(ways)))
    for turn, (at, way) in product(range(turns), enumerate(ways)):
        start = time.process_time()
        way()
        seconds[turn, at] = time.process_time() - start
    said = []
    for of in (np.min, np.median):
        best = of(seconds, axis=0)
        said.append(best[2:] / best[:2].min())
    least = 1e9 * seconds[:, :2].min() / n_users / n_items
    both = [f"{low:.2f} ({middle:.2f})" for low, middle in zip(*said, strict=True)]
    cells = f"{n_factors}, {precision}", f"{n_items:,}", f"{n_users:,}", f"{least:.2f}", *both
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--items", nargs="+", type=float, default=[1e4, 1e5, 1e6])
    parser.add_argument("--types", nargs="+", default=["float32", "float64"])
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    print("| factors | items | users | product, ns a score | NumPy | compiled |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for precision, n_factors, n_items in product(given.types, given.factors, given.items):
        print(measured(n_factors, round(n_items), precision, given.turns), flush=True)


if __name__ == "__main__":
    main()

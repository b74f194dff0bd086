"""What a race costs: python benchmarks/race.py [--pairs N] [--seed S]

For pairs of the benchmark's recommenders whose NDCG@10 differs by more than 20%, the scores that
`sampled_metrics.race` computes, divided into those for ranking all items for all users. A pair that
is left undecided would count at full cost; wrong verdicts are counted. Beside it the same bets on
users who are ranked among all items: so many users, but all their scores.

The benchmark keeps ranks, not models. So each recommender is a function that puts every user's item
at its rank, and the other items in an order that is random for each user.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_book.data import benchmark
from sampled_metrics.ranking.intervals import RankIntervals


class Recommender:
    """Scores that put each user's item at its rank: the k-th of n items has the score -k."""

    def __init__(self, ranks: RankIntervals, items: np.ndarray, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.sizes = ranks.n_candidates
        # Multiplication by a number without a common factor permutes the numbers below n.
        self.factor = np.array([_coprime(n, rng) for n in self.sizes.tolist()])
        above = ranks.n_better + ranks.n_tied // 2
        self.shift = above - self.factor * items

    def __call__(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        factor, shift, size = (a[users, np.newaxis] for a in (self.factor, self.shift, self.sizes))
        place = (factor * items + shift) % size
        return -np.where(items < size, place, self.sizes.max())  # others are none of the user's


def _coprime(n: int, rng: np.random.Generator) -> int:
    while True:
        found = int(rng.integers(n // 3, n))
        if np.gcd(found, n) == 1:
            return found


def raced(name: str, seed: int, few: int | None) -> pd.DataFrame:
    ranks, rows = benchmark.ranks(name), []
    metric = sm.metric("ndcg@10")
    exact = {each: float(of.evaluate(metric).mean()) for each, of in ranks.items()}
    pairs = [
        pair
        for pair in combinations(ranks, 2)
        if max(exact[one] for one in pair) > 1.2 * min(exact[one] for one in pair)
    ]
    rng = np.random.default_rng(seed)
    chosen = [pairs[at] for at in sorted(rng.permutation(len(pairs))[:few].tolist())]
    sizes = next(iter(ranks.values())).n_candidates
    users, items = sizes.size, int(sizes.max())
    held = rng.integers(sizes)
    test = pd.DataFrame({"user": np.arange(users), "item": held})
    for pair in chosen:
        models = {one: Recommender(ranks[one], held, at) for at, one in enumerate(pair)}
        start = time.process_time()
        found = sm.race(models, users, items, test, metric=metric, seed=seed)
        seconds = time.process_time() - start
        row, scores = found.frame.iloc[0], int(found.costs["scores"].sum())
        full, better = 2 * users * items, max(pair, key=exact.__getitem__)
        decided = row["verdict"] != "undecided"
        rows.append(
            {
                "data": name,
                "first": pair[0],
                "second": pair[1],
                "ratio": max(exact[one] for one in pair) / min(exact[one] for one in pair),
                "users": row["users"],
                "decided": decided,
                "wrong": decided and row["verdict"] != f"{better} beats {min(pair, key=exact.get)}",
                "race": full / scores if decided else 1.0,
                "subset": users / row["users"] if decided else 1.0,
                "seconds": seconds,
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a race costs.")
    parser.add_argument("--pairs", type=int, help="of each data set; all if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", help="a CSV file of all pairs")
    given = parser.parse_args()
    parts = []
    for name in benchmark.every():
        parts.append(raced(name, given.seed, given.pairs))
        one = parts[-1]
        counts = (
            f"{len(one)} pairs, {one['wrong'].sum()} wrong, {(~one['decided']).sum()} undecided"
        )
        print(
            f"{name}: {counts}; medians: a race takes {one['race'].median():.1f} times fewer "
            f"scores, random users {one['subset'].median():.1f}; {one['seconds'].median():.2f} s",
            flush=True,
        )
    table = pd.concat(parts, ignore_index=True)
    if given.output:
        table.to_csv(given.output, index=False)
    shown = table[["race", "subset"]].quantile([0.0, 0.1, 0.5, 0.9]).round(1)
    print(f"all      {len(table):4} pairs, wrong {table['wrong'].sum()}\n{shown.to_string()}")


if __name__ == "__main__":
    main()

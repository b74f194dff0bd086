"""Is a mixture of geometric distributions true of recommenders, and what does assuming it decide?

    python benchmarks/geometric.py [--negatives 20 100 500] [--draws 39] [--data ml-100k ...]

For each recommender of the benchmark, and each number of negatives: whether the exact ranks in the
head, and the ranks of one sampled log, contradict that the users there are decreasing, or moreover
a mixture of geometric distributions (at 5%; the likelihood ratio is calibrated on logs drawn from
the best fit); whether what is then possible holds the exact metric; and how many pairs of one data
set have ranges apart. Ranges of two recommenders that are apart say less than `compare`, at the
same confidence: they are here to compare two assumptions.
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np
import pandas as pd

from sampled_book.data import benchmark
from sampled_metrics import Protocol, metric
from sampled_metrics.bounds.assumption import Assumption
from sampled_metrics.bounds.identification import IncompatibleError, interval
from sampled_metrics.numerics.mixtures import likeliest

SHAPES = {"decreasing": Assumption(), "geometric": Assumption(geometric=True)}
METRICS = ("recall@10", "ndcg@10")
WIDER = 1.15  # of bins of exact ranks
RATES = 60


def head_bins(size: int) -> np.ndarray:
    """Where bins of the first `size` ranks begin, and where the last one ends."""
    ends = [0]
    while ends[-1] < size:
        ends.append(min(size, max(ends[-1] + 1, int(np.ceil(ends[-1] * WIDER)))))
    return np.array(ends)


def kinds(name: str, bins: np.ndarray) -> np.ndarray:
    """What users in bins of the head may be mixtures of: even spreads, or geometric ones."""
    if name == "decreasing":
        upto = np.minimum(bins[np.newaxis, :], bins[1:, np.newaxis])
    else:
        rates = np.append(np.geomspace(7.0, 0.2 / bins[-1], RATES - 1), 1e-9 / bins[-1])
        upto = -np.expm1(-rates[:, np.newaxis] * bins)
    found = np.diff(upto, axis=1)
    return np.maximum(found / found.sum(axis=1, keepdims=True), 1e-300)


def log_likelihoods(columns: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the best mixtures, a user each, and those."""
    free, one = np.zeros((len(shares), len(columns))), np.ones((1, len(columns)))
    weights, _ = likeliest(columns.T, shares, free, one, np.ones(1), 1e-8)
    mixed = weights @ columns
    return (shares * np.log(np.where(shares > 0, mixed, 1.0))).sum(axis=1), mixed


def p_value(users: np.ndarray, name: str, bins: np.ndarray, draws: int, rng) -> float:
    """Of users in bins, by likelihood ratios of as many that are drawn from the best mixture."""
    total, columns = int(users.sum()), kinds(name, bins)
    _, mixed = log_likelihoods(columns, users[np.newaxis] / total)
    drawn = rng.multinomial(total, mixed[0] / mixed[0].sum(), draws)
    shares = np.vstack([users[np.newaxis], drawn]) / total
    free = (shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    far = free - log_likelihoods(columns, shares)[0]
    return float((far >= far[0]).mean())


def judged(data: str, m: int, draws: int) -> pd.DataFrame:
    """A row for each recommender and shape."""
    rng, rows = np.random.default_rng(0), []
    for name, each in benchmark.ranks(data).items():
        n = round(float(each.n_candidates.mean()))
        above = each.n_better + np.floor(rng.random(each.n_better.size) * (each.n_tied + 1))
        above = np.rint((n - 1) / np.maximum(each.n_candidates - 1, 1) * above).astype(int)
        protocol = Protocol(n, m)
        counts = np.bincount(protocol.draw(above + 1, rng) - 1, minlength=m + 1)
        bins = head_bins(min(int(Assumption().head * n / m), n))
        users = np.histogram(above, bins)[0]
        users[-1] -= int((above == bins[-1]).sum())  # which a histogram's last bin holds, too
        for assumption, assumed in SHAPES.items():
            row = {"data": data, "m": m, "recommender": name, "shape": assumption}
            row["exact"] = p_value(users, assumption, bins, draws, rng) <= 0.05
            for of in METRICS:
                row[of] = float(metric(of)(above + 1, n).mean())
                try:
                    found = interval(counts, protocol, of, assumption=assumed)
                    row[f"{of} low"], row[f"{of} high"] = found.low, found.high
                except IncompatibleError:
                    row["refused"] = True
            rows.append(row)
    return pd.DataFrame(rows)


def told(table: pd.DataFrame) -> pd.Series:
    """What is printed of a shape and a number of negatives."""
    found = {"recommenders": len(table), "exact ranks contradict": int(table["exact"].sum())}
    found["sample refuses"] = int(table.get("refused", pd.Series(dtype=bool)).eq(True).sum())
    for of in METRICS:
        low, high, exact = table[f"{of} low"], table[f"{of} high"], table[of]
        found[f"{of}: missed"] = int(((low > exact) | (high < exact)).sum())
        found[f"{of}: width"] = round(float((high - low).median()), 4)
        apart = wrong = 0
        for _, group in table.groupby("data"):
            rows = group[[f"{of} low", f"{of} high", of]].to_numpy()
            for a, b in combinations(rows, 2):
                below, beyond = a[1] < b[0], b[1] < a[0]
                apart += int(below or beyond)
                wrong += int((below and a[2] >= b[2]) or (beyond and a[2] <= b[2]))
        found[f"{of}: pairs apart"], found[f"{of}: wrong"] = apart, wrong
    return pd.Series(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--negatives", nargs="+", type=int, default=[20, 100, 500])
    parser.add_argument("--draws", type=int, default=39)
    parser.add_argument("--data", nargs="+", default=list(benchmark.every()))
    given = parser.parse_args()
    for m in given.negatives:
        table = pd.concat([judged(data, m, given.draws) for data in given.data])
        shown = {
            assumption: told(group) for assumption, group in table.groupby("shape", sort=False)
        }
        print(f"{m} negatives\n{pd.DataFrame(shown).to_string()}\n", flush=True)


if __name__ == "__main__":
    main()

"""Our intervals beside F-localization and AMARI: width, misses and processor time.

    python benchmarks/rivals.py --output rivals.csv [--logs 200] [--draws 3] [--seed 1]

Both rivals are methods of Ignatiadis and Wager (arXiv 1902.02774) for a linear function of the
distribution of a parameter that is observed with noise. Here the parameter is a user's true rank,
what is observed is the sampled rank, and the function is the metric.

- *DKW*: the populations of the class whose sampled ranks have a distribution function within the
  band of Dvoretzky, Kiefer, Wolfowitz and Massart. Two linear programmes.
- *AMARI*: an affine estimator with the best worst bias for its variance, found by the modulus of
  continuity between two populations within a pilot band (DKW at 99%), for seven bounds on their
  distance. The interval is as long as that bias and the estimated standard error ask for, and it is
  cut to the pilot band's. The chi-squared distance takes the likeliest mixture as its weights.

The rivals look at the 110 to 170 generators that our fits begin with, and AMARI at the sampled rank
on our knots. It needs Clarabel, which the project does not depend on. We draw logs of recommenders,
for widths, and of populations that are made to break an interval, for misses. All users share one
catalogue size, and 100 negatives are drawn with replacement.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linprog
from scipy.stats import ncx2

from sampled_book.data import benchmark
from sampled_book.data.datasets import bundled_ranks
from sampled_metrics import Protocol, metric
from sampled_metrics.bounds import bets
from sampled_metrics.bounds.assumption import top_ranks
from sampled_metrics.bounds.generators import generators, hats
from sampled_metrics.bounds.identification import IncompatibleError, interval
from sampled_metrics.numerics.distributions import pmf_table
from sampled_metrics.numerics.mixtures import likeliest

M, METRICS = 100, ("recall@10", "ndcg@10")
ASSUMPTIONS = {"none": None, "decreasing": "decreasing"}
REAL = (("ml-100k", "EASE"), ("lastfm", "Item cosine"), ("beauty", "ALS"))
#: How often AMARI.s pilot band may miss, and the distances that are tried, times root users.
PILOT, DISTANCES = 0.01, np.arange(0.2, 6.7, 1.0)
CELL = ("population", "hostile", "users", "assumption", "metric", "method")
Ends = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Population:
    """True ranks, counted from 1, that share one catalogue size, and their shares."""

    name: str
    n: int
    ranks: np.ndarray
    shares: np.ndarray
    users: tuple[int, ...]
    assumptions: tuple[str, ...]
    hostile: bool = False

    def exact(self, of: str) -> float:
        return float(self.shares @ metric(of)(self.ranks, n_items=self.n))

    def log(self, users: int, rng: np.random.Generator) -> np.ndarray:
        """Users with 0, 1, ..., M negatives above their item."""
        mixed = self.shares @ pmf_table(M, self.ranks - 1, self.n - 1, True)
        return rng.multinomial(users, mixed / mixed.sum())


def populations() -> list[Population]:
    found: list[Population] = []
    real = [("", name, ranks) for name, ranks in bundled_ranks().items()]
    real += [(f" ({data})", name, benchmark.ranks(data)[name]) for data, name in REAL]
    for of, name, one in real:
        n = round(float(one.n_candidates.mean()))
        above = (n - 1) * (one.n_better + 0.5 * one.n_tied) / np.maximum(one.n_candidates - 1, 1)
        ranks, counts = np.unique(np.rint(above).astype(int) + 1, return_counts=True)
        users = tuple(dict.fromkeys((int(counts.sum()), 1_000)))
        shares = counts / counts.sum()
        found.append(Population(name + of, n, ranks, shares, users, tuple(ASSUMPTIONS)))

    even = dict.fromkeys(range(1, 51), 0.01) | {1_000: 0.5}
    for name, at, assumption in (
        ("91% at 11, 9% at 1", {11: 0.91, 1: 0.09}, "none"),
        ("half at 10, half last", {10: 0.5, 1_000: 0.5}, "none"),
        ("half even to 50, half last", even, "decreasing"),
    ):
        ranks, shares = np.array(list(at)), np.array(list(at.values()))
        found.append(Population(name, 1_000, ranks, shares, (1_000,), (assumption,), True))
    return found


class Class:
    """Generators of an assumption: distributions of the sampled rank, (k, M + 1), and metrics."""

    def __init__(self, n: int, of: str, assumption: str | None) -> None:
        self.n, self.name, self.shape = n, of, assumption
        found = generators(Protocol(n, M), 0 if assumption is None else top_ranks(n, M))
        spread = found.last[found.first[found.first < found.spread]]
        single = found.last[found.first[found.first >= found.spread]]
        laws, values = pmf_table(M, np.arange(n), n - 1, True), metric(of).vector(n)
        upto = (spread + 1.0)[:, np.newaxis]
        averages = np.cumsum(laws[: found.top], axis=0)[spread] / upto
        self.laws = np.concatenate([averages, laws[single]])
        self.metric = np.append(np.cumsum(values)[spread] / upto[:, 0], values[single])
        self.on_knots = self.laws @ hats(M)


def ours(counts: np.ndarray, of: Class) -> Ends | None:
    bets._built.cache_clear()  # as for the first log of its kind
    try:
        found = interval(counts, Protocol(of.n, M), of.name, assumption=of.shape)
    except IncompatibleError:
        return None
    return found.low, found.high


def dkw(counts: np.ndarray, of: Class, error: float = 0.05) -> Ends | None:
    """The least and the largest metric within a band, or None if no population is."""
    upto = np.cumsum(counts)[:-1] / counts.sum()
    band = np.sqrt(np.log(2.0 / error) / (2.0 * counts.sum()))
    rows = np.cumsum(of.laws, axis=1)[:, :-1].T
    within = np.concatenate([rows, -rows]), np.concatenate([upto + band, band - upto])
    one = np.ones((1, of.metric.size)), np.ones(1)
    ends = [linprog(sign * of.metric, *within, *one, method="highs") for sign in (1.0, -1.0)]
    if any(end.status != 0 for end in ends):
        return None
    return float(ends[0].fun), float(-ends[1].fun)


def amari(counts: np.ndarray, of: Class) -> Ends | None:
    users, outer = float(counts.sum()), dkw(counts, of, PILOT)
    if outer is None:
        return None
    seen = counts / users
    near = seen @ hats(M)
    no_cost = np.zeros((1, of.metric.size))
    weights = likeliest(of.on_knots.T, near[np.newaxis], no_cost, 1e-6)
    plug = 0.999 * (weights[0] @ of.on_knots) + 1e-3 / near.size
    found = [modulus(of, near, users, plug, each / np.sqrt(users)) for each in DISTANCES]
    tried = [each for each in found if each is not None]
    if not tried:
        return None
    bias, values, _ = min(tried, key=lambda each: each[0] ** 2 + each[2] ** 2 / users)
    values = hats(M) @ values
    middle = float(seen @ values)
    error = np.sqrt(float(seen @ (values - middle) ** 2) / (users - 1.0))
    far = bias / error if error > 0 else np.inf
    reach = np.sqrt(ncx2.ppf(0.95, 1, far**2)) * error if far < 7 else bias + 1.645 * error
    low, high = max(middle - reach, outer[0]), min(middle + reach, outer[1])
    return (low, high) if low <= high else None


def modulus(
    of: Class, seen: np.ndarray, users: float, plug: np.ndarray, distance: float
) -> tuple[float, np.ndarray, float] | None:
    """The worst bias of the best affine estimator, its values, and root of its variance proxy.

    Two populations within the pilot band, as far apart in the metric as their distributions of the
    sampled rank allow that are no further apart than `distance`.
    """
    try:
        import clarabel
    except ImportError:
        raise SystemExit("AMARI needs a conic solver: pip install clarabel") from None
    k, cells, root = of.metric.size, plug.size, np.sqrt(plug)
    band = np.sqrt(np.log(2.0 / PILOT) / (2.0 * users))
    # Variables: weights of both populations, and their distributions over the root of `plug`.
    two, sums = np.eye(2), np.tril(np.ones((cells, cells)))[:-1] * root
    laws, none = np.kron(two, of.on_knots.T / root[:, np.newaxis]), np.zeros((cells, 2 * k))
    upto, free = np.cumsum(seen)[:-1], np.zeros((2 * cells - 2, 2 * k))
    rows = [
        np.hstack([laws, -np.eye(2 * cells)]),
        np.hstack([np.kron(two, np.ones((1, k))), np.zeros((2, 2 * cells))]),
        -np.eye(2 * k, 2 * k + 2 * cells),
        *(np.hstack([free, np.kron(two, sign * sums)]) for sign in (1.0, -1.0)),
        np.zeros((1, 2 * k + 2 * cells)),
        np.hstack([none, -np.eye(cells), np.eye(cells)]),
    ]
    right = [np.zeros(2 * cells), np.ones(2), np.zeros(2 * k)]
    right += [np.tile(sign * upto + band, 2) for sign in (1.0, -1.0)]
    right += [np.array([distance]), np.zeros(cells)]
    cones = [clarabel.ZeroConeT(2 * cells + 2), clarabel.NonnegativeConeT(2 * k + 4 * cells - 4)]
    cones.append(clarabel.SecondOrderConeT(cells + 1))
    cost = np.concatenate([of.metric, -of.metric, np.zeros(2 * cells)])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-6
    given = sparse.csc_matrix(np.vstack(rows)), np.concatenate(right), cones, settings
    squares = sparse.csc_matrix((cost.size, cost.size))
    solved = clarabel.DefaultSolver(squares, cost, *given).solve()
    if "Solved" not in str(solved.status):
        return None
    x, slope = np.array(solved.x), float(solved.z[-cells - 1])
    ends = np.array([x[:k] @ of.metric, x[k : 2 * k] @ of.metric])
    low, high = x[2 * k :].reshape(2, cells)
    width, length = float(ends[1] - ends[0]), max(float(np.linalg.norm(high - low)), 1e-12)
    times = slope / length
    offset = ends.mean() - 0.5 * times * float((high - low) @ (high + low))
    return max(0.5 * (width - length * slope), 0.0), offset + times * (high - low) / root, slope


METHODS: dict[str, Callable[..., Ends | None]] = {"bets": ours, "DKW": dkw, "AMARI": amari}


def measured(one: Population, logs: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    for users, assumption, of in product(one.users, one.assumptions, METRICS):
        exact, known = one.exact(of), Class(one.n, of, ASSUMPTIONS[assumption])
        rng = np.random.default_rng([seed, users, crc32(one.name.encode())])
        drawn = [one.log(users, rng) for _ in range(logs)]
        for log, (name, method) in product(range(logs), METHODS.items()):
            start = time.process_time()
            low, high = method(drawn[log], known) or (np.nan, np.nan)
            row = dict(zip(CELL, (one.name, one.hostile, users, assumption, of, name), strict=True))
            row |= {"log": log, "low": low, "high": high, "seconds": time.process_time() - start}
            rows.append(row | {"missed": not low - 1e-9 <= exact <= high + 1e-9})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="file of all intervals", required=True)
    parser.add_argument("--logs", type=int, default=200, help="logs of each hostile population")
    parser.add_argument("--draws", type=int, default=3, help="logs of each recommender")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for one in populations():
        rows += measured(one, given.logs if one.hostile else given.draws, given.seed)
        table = pd.DataFrame(rows)
        table.to_csv(given.output, index=False, float_format="%.6g")
        print(f"{one.name}: done", flush=True)
    table["width"] = table["high"] - table["low"]
    of = {"width": ("width", "mean"), "missed": ("missed", "sum"), "seconds": ("seconds", "mean")}
    print(table.groupby([*CELL], sort=False).agg(logs=("log", "size"), **of).to_string())


if __name__ == "__main__":
    main()

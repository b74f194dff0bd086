"""How often what is possible holds the exact metric, where the true ranks are chosen to break it.

    .venv/bin/python benchmarks/intervals.py [--draws 20] [--users 50 2000 100000]
                                            [--sizes 10 100 1000] [--items 20000] [--seed 1]
                                            [--populations NAME ...] [--head 10]
    .venv/bin/python benchmarks/intervals.py --search 300 [--draws 60] [--seed 1] [--geometric]

Users are drawn from each population, and negatives for each user, with replacement. A miss is an
interval of :func:`sampled_metrics.identification.interval` that does not hold the population's
metric, or a sample that is refused. The assumption that deeper ranks have fewer users is tried
where it is true. They are counted for the quantile of one degree of freedom too, which does not
suffice everywhere.

``--search`` tries populations of a few ranks, or of a few steps down, at random, with random sizes
and metrics, and draws anew for those whose true metric was the least likely.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.special import chdtri

from sampled_metrics.identification import REFUTED, Profile, Shape, _head, partition, quantile
from sampled_metrics.metrics import Metric, metric
from sampled_metrics.protocol import Protocol

#: At 95% confidence: of one degree of freedom, and the one that is used.
THRESHOLDS = {"3.84": float(chdtri(1, 0.05)), "5.99": quantile(0.95)}
#: What the search draws from.
METRICS = ("recall@1", "recall@10", "ndcg@5", "ndcg@10", "ap", "rr")
#: A population: the users' share, their catalogue's size, and the probabilities of its ranks.
Population = list[tuple[float, int, np.ndarray]]


def spikes(n: int, shares: dict[int, float]) -> np.ndarray:
    """Some ranks with a share of the users each, and the others evenly spread."""
    found = np.full(n, (1.0 - sum(shares.values())) / n)
    found[np.array(list(shares), dtype=int) - 1] += list(shares.values())
    return found


def falling(n: int, power: float) -> np.ndarray:
    found = np.arange(1, n + 1) ** -power
    return found / found.sum()


def populations(n: int) -> dict[str, tuple[Population, bool]]:
    """By name, and whether deeper ranks have fewer users."""
    sizes = np.geomspace(n / 10, n, 4).astype(int).tolist()
    # Who has few candidates has the item first, who has many has it last; and the other way round.
    apart = [spikes(s, {10 if i % 2 else s: 0.5}) for i, s in enumerate(sizes)]
    each = 1.0 / len(sizes)
    alone = {
        "spike at 1": ({1: 0.1}, True),
        "all at 1": ({1: 1.0}, True),
        "spike at 10": ({10: 0.1}, False),
        "spike at 11": ({11: 0.2}, False),
        "all at n": ({n: 1.0}, False),
        "two modes": ({5: 0.3, 3 * n // 4: 0.7}, False),
        "few at 1, the rest at n": ({1: 0.02, n: 0.98}, False),
        # No other ranks have the same expected sample, and any other fit has more of the metric
        # (or, for the second, less): misses are all on one side.
        "1 or 11": ({1: 0.5, 11: 0.5}, False),
        "10 or n / 2": ({10: 0.5, n // 2: 0.5}, False),
        "even": ({}, True),
    }
    return {
        **{name: ([(1.0, n, spikes(n, at))], falls) for name, (at, falls) in alone.items()},
        "power law": ([(1.0, n, falling(n, 0.8))], True),
        "mixed n, power law": ([(each, s, falling(s, 0.8)) for s in sizes], True),
        "mixed n, 10 or n": ([(each, s, p) for s, p in zip(sizes, apart, strict=True)], False),
    }


def samples(
    population: Population, m: int, users: int, draws: int, rng: np.random.Generator
) -> Iterator[list[np.ndarray]]:
    """Users at each sampled rank, an array for each size of the catalogue."""
    for _ in range(draws):
        found = []
        for share, n, p in population:
            ranks = rng.choice(n, size=round(share * users), p=p) + 1
            drawn = Protocol(n, m, replacement=True).draw(ranks, rng)
            found.append(np.bincount(drawn - 1, minlength=m + 1).astype(float))
        yield found


def profiles(
    population: Population,
    of: Metric,
    m: int,
    drawn: list[list[np.ndarray]],
    shape: Shape | None,
    levels: tuple[float, ...],
) -> tuple[float, list[Profile]]:
    """The exact metric, and the profile of each sample near some levels."""
    exact = sum(share * float(p @ of.vector(n)) for share, n, p in population)
    kinds = np.array([[m, 1, 1, n] for _, n, _ in population])
    users = np.array([counts.sum() for counts in drawn[0]])
    parts = partition(kinds, users, of, replacement=True)
    return exact, parts.programme(shape).profiles([parts.counts(one) for one in drawn], levels)


def missed(exact: float, made: list[Profile], threshold: float) -> int:
    """How many intervals do not hold the exact metric, or are refused."""
    refused = np.array([profile.fit.p_value < REFUTED for profile in made])
    low, high = np.array([profile.interval(threshold) for profile in made]).T
    return int((refused | (low > exact + 1e-9) | (high < exact - 1e-9)).sum())


Unfavourable = Callable[[np.random.Generator], tuple[np.ndarray, int, int, str, Shape | None]]


def unfavourable(rng: np.random.Generator) -> tuple[np.ndarray, int, int, str, Shape | None]:
    """A population at random, with its negatives, users, metric and assumption."""
    n = int(rng.choice([100, 200, 1_000]))
    m = min(int(rng.choice([5, 10, 20, 50, 100])), n - 2)
    users, of = int(rng.choice([500, 3_000, 30_000, 300_000])), str(rng.choice(METRICS))
    anywhere = np.exp(rng.uniform(0.0, np.log(n), rng.integers(1, 6))).astype(int)
    p = np.zeros(n)
    if rng.random() < 0.5:  # a few ranks, every other one of them where a metric ends or starts
        special = rng.choice([1, 2, 5, 6, 10, 11, n // 2, n], anywhere.size)
        at = np.unique(np.where(rng.random(anywhere.size) < 0.5, anywhere, special))
        p[at - 1] = rng.dirichlet(np.ones(at.size))
        return p, m, users, of, None
    ends = np.unique(anywhere)
    for end, share in zip(ends, rng.dirichlet(np.ones(ends.size)), strict=True):
        p[:end] += share / end
    beyond = int(Shape().head * n / m)
    if beyond < n and rng.random() < 0.4:  # and some users far behind the head
        share = rng.uniform(0.2, 0.8)
        p *= 1.0 - share
        p[rng.integers(beyond, n)] += share
    return p, m, users, of, Shape()


def geometric(rng: np.random.Generator) -> tuple[np.ndarray, int, int, str, Shape]:
    """The same of one whose users near the top are a mixture of geometric distributions."""
    p, m, users, of, _ = unfavourable(rng)
    n, shape = p.size, Shape(geometric=True)
    first = np.arange(_head(n - 1, m, shape))
    p = np.zeros(n)
    rates = np.exp(rng.uniform(np.log(1e-2 / first.size), np.log(5.0), rng.integers(1, 5)))
    for rate, share in zip(rates, rng.dirichlet(np.ones(rates.size)), strict=True):
        fall = np.exp(-rate * first)
        p[first] += share * fall / fall.sum()
    if first.size < n and rng.random() < 0.5:  # and some users far behind the head
        share = rng.uniform(0.2, 0.8)
        p *= 1.0 - share
        p[rng.integers(first.size, n)] += share
    return p, m, users, of, shape


def search(populations: int, draws: int, seed: int, made_by: Unfavourable) -> pd.DataFrame:
    """Misses where they are most frequent among populations at random, in fresh draws."""
    found = []
    for i in range(populations):
        rng = np.random.default_rng([seed, i])
        p, m, users, name, shape = made_by(rng)
        drawn = list(samples([(1.0, p.size, p)], m, users, draws, rng))
        exact, made = profiles([(1.0, p.size, p)], metric(name), m, drawn, shape, (4.0, 6.0, 9.0))
        deviances = [float(profile.deviance(np.array(exact))) for profile in made]
        found.append((float(np.quantile(deviances, 0.9)), i, np.mean(np.array(deviances) > 5.99)))
        if i % 20 == 19:
            print(f"{i + 1} populations", flush=True)
    print(f"share of deviances above 5.99, of all: {np.mean([over for *_, over in found]):.2%}")
    rows = []
    for _, i, _ in sorted(found, reverse=True)[:10]:
        rng = np.random.default_rng([seed, i])
        p, m, users, name, shape = made_by(rng)
        rng = np.random.default_rng([seed, i, 1])
        drawn = list(samples([(1.0, p.size, p)], m, users, 10 * draws, rng))
        wrong = []
        for threshold in THRESHOLDS.values():
            exact, made = profiles([(1.0, p.size, p)], metric(name), m, drawn, shape, (threshold,))
            wrong.append(missed(exact, made, threshold))
        assumed = "geometric" if shape and shape.geometric else "decreasing" if shape else "nothing"
        top = ", ".join(f"{r + 1}: {p[r]:.2f}" for r in np.argsort(-p, kind="stable")[:5])
        rows.append((i, assumed, name, p.size, m, users, top, *wrong, 10 * draws))
    columns = [f"missed at {name}" for name in THRESHOLDS] + ["of"]
    names = ["number", "assumed", "metric", "n", "m", "users", "likeliest ranks"]
    return pd.DataFrame(rows, columns=[*names, *columns])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--users", type=int, nargs="+", default=[50, 2_000, 100_000])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1_000])
    parser.add_argument("--metrics", nargs="+", default=["recall@10", "ndcg@10"])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--populations", nargs="+", metavar="NAME", help="all if omitted")
    parser.add_argument("--head", type=float, default=Shape().head, help="of the assumption")
    parser.add_argument("--search", type=int, metavar="N", help="populations at random")
    parser.add_argument(
        "--geometric", action="store_true",
        help="search populations whose users near the top are a mixture of geometric distributions",
    )  # fmt: skip
    given = parser.parse_args()
    if given.search:
        made_by = geometric if given.geometric else unfavourable
        print(search(given.search, given.draws, given.seed, made_by).to_string(index=False))
        return
    rows = []
    for name, (population, falls) in populations(given.items).items():
        if given.populations and name not in given.populations:
            continue
        start = time.process_time()
        for users, m in ((users, m) for users in given.users for m in given.sizes):
            rng = np.random.default_rng([given.seed, users, m])
            drawn = list(samples(population, m, users, given.draws, rng))
            for of, shape in (
                (metric(of), shape)
                for of in given.metrics
                for shape in (None, *([Shape(given.head)] if falls else []))
            ):
                wrong = []
                for threshold in THRESHOLDS.values():  # each by itself, as an interval is found
                    made = profiles(population, of, m, drawn, shape, (threshold,))
                    wrong.append(missed(*made, threshold))
                assumed = "decreasing" if shape else "nothing"
                rows.append((name, assumed, of.name, users, m, *wrong, given.draws))
        print(f"{name}: {time.process_time() - start:.0f} s", flush=True)
    columns = [f"missed at {name}" for name in THRESHOLDS] + ["of"]
    names = ["population", "assumed", "metric", "users", "m"]
    frame = pd.DataFrame(rows, columns=[*names, *columns])
    print("\n5% are allowed:")
    print(frame.to_string(index=False))
    print("\nAll of them:")
    print(frame.groupby(["assumed", "users"])[columns].sum().to_string())


if __name__ == "__main__":
    main()

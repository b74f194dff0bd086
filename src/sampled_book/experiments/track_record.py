"""How close estimates came to exact metrics on real recommenders, and how often in their order.

The benchmark's recommenders have known exact ranks (:mod:`sampled_book.data.benchmark`). From these
``logs`` draws evaluations of two or three recommenders, with fewer users and smaller catalogues
too, and compares estimates with exact values. ``fit_probability`` and ``fit_typical`` turn the
comparison into a few numbers, which the library prints under the warrant "track record", and
:func:`held_out` tests them on a data set left out of the fit.
``python -m sampled_book.experiments.track_record`` computes all of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import gammaln, log_ndtr, ndtr

from sampled_metrics import metric, read_log
from sampled_metrics.designs import track_record
from sampled_metrics.designs.sample import Sample
from sampled_metrics.designs.values import FITTED, Values
from sampled_metrics.estimators import default_gamma
from sampled_metrics.log.compact import Log
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle
from ..data.bundled_log import simulate
from .protocols import FLOOR

NAME = "sampled_book.experiments.track_record"
BUNDLE = benchmark.BUNDLE / "evidence"
METRICS = ("recall@5", "recall@10", "recall@20", "recall@50", "ndcg@5", "ndcg@10", "ndcg@20", "ap")
SIZES = (20, 50, 100, 200, 500)
#: Users drawn at random from each data set; 0 for all.
USERS = (0, 500, 2_000, 8_000)
#: Shares of the catalogue kept at random.
SHARES = (1.0, 0.3)
#: Evaluations of each cell; of whole data sets with 100 negatives.
DRAWS, MAIN_DRAWS = 4, 20
SEED = 12
#: Recommenders in one log.
GROUP = 3
#: Fewest negatives, and most candidates for each of them, that the track record is for. With 20
#: negatives typical ranges missed half of Beauty's exact values.
FEWEST_NEGATIVES, MOST_PER_NEGATIVE = 50, 205.0
#: An evaluation: how it was drawn, and which recommenders it has.
LOG = ["n_negatives", "n_users", "share", "draw", "group"]
#: From this probability on the library gives a verdict.
VERDICT = track_record.VERDICT


@dataclass(frozen=True)
class Cell:
    """The settings of some drawn evaluations; `n_users` 0 for all."""

    n_negatives: int
    n_users: int
    share: float

    @property
    def draws(self) -> int:
        return MAIN_DRAWS if (self.n_negatives, self.n_users, self.share) == (100, 0, 1) else DRAWS


def thinned(
    ranks: RankIntervals, users: np.ndarray, share: float, rng: np.random.Generator
) -> RankIntervals:
    """The ranks of some users in a catalogue that keeps a random share of the other candidates."""
    better, tied, items = ranks.n_better[users], ranks.n_tied[users], ranks.n_candidates[users]
    if share == 1:
        return RankIntervals(better, tied, items)
    kept = np.round((items - 1) * share).astype(np.int64)
    kept_better = rng.hypergeometric(better, items - 1 - better, kept)
    kept_tied = rng.hypergeometric(tied, items - 1 - better - tied, kept - kept_better)
    return RankIntervals(kept_better, kept_tied, kept + 1)


def groups(names: Sequence[str], rng: np.random.Generator) -> list[list[str]]:
    """Recommenders in random groups of three, the last one perhaps of two."""
    order = rng.permutation(list(names)).tolist()
    cut = [order[start : start + GROUP] for start in range(0, len(order), GROUP)]
    return [group for group in cut if len(group) > 1]


def drawn(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int,
    replacement: bool,
    rng: np.random.Generator,
) -> Log:
    """A log of sampled ranks, with negatives of its own for each user and recommender."""
    if not replacement:
        return read_log(simulate(ranks, n_negatives, rng), replacement=False)
    parts = []
    for name, part in ranks.items():
        others = part.n_candidates - 1
        better = rng.binomial(n_negatives, part.n_better / others)
        below = np.maximum(others - part.n_better, 1)
        tied = rng.binomial(n_negatives - better, np.minimum(part.n_tied / below, 1.0))
        columns = {"n_better": better, "n_tied": tied, "n_items": part.n_candidates}
        rows = pd.DataFrame(columns | {"n_negatives": n_negatives, "recommender": name})
        parts.append(rows.assign(user=np.arange(better.size)))
    return read_log(pd.concat(parts), replacement=True)


def compared(ranks: Mapping[str, RankIntervals], log: Log) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The estimates of one drawn log beside exact values, and the errors of their differences.

    The exact value is that of the log's own users.
    """
    sample = Sample(log)
    values = Values(sample, default_gamma(log.n_users), [metric(name) for name in METRICS])
    estimates, differences = [], []
    for name in METRICS:
        parsed_metric = metric(name)
        means = values.means(parsed_metric, FITTED[0])
        for recommender, mean in means.items():
            exact = float(ranks[recommender].evaluate(name).mean())
            scale = values.bias_scale(parsed_metric)
            estimates.append((name, recommender, exact, mean.value, mean.error, scale))
        for first, second in combinations(means, 2):
            error = sample.mean(means[first].minus(means[second]), means[first].users).error
            differences.append((name, first, second, error))
    return (
        pd.DataFrame(
            estimates, columns=["metric", "recommender", "exact", "estimate", "error", "bias_scale"]
        ),
        pd.DataFrame(differences, columns=["metric", "first", "second", "error"]),
    )


def logs(
    ranks: Mapping[str, RankIntervals], cell: Cell
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """The tables of :func:`compared` for each drawn log of a cell, with the columns `LOG`.

    Negatives are drawn without replacement in every other log, and with it in the rest.
    """
    everyone = next(iter(ranks.values())).n_better.size
    for draw in range(cell.draws):
        seeds = [SEED, cell.n_negatives, cell.n_users, round(1000 * cell.share), draw]
        rng = np.random.default_rng(seeds)
        n_users = cell.n_users or everyone
        users = np.sort(rng.choice(everyone, n_users, replace=False))
        names = [name for name in ranks if name != FLOOR]
        for group, recommenders in enumerate(groups(names, rng)):
            chosen = {name: thinned(ranks[name], users, cell.share, rng) for name in recommenders}
            n_items = float(np.mean([part.n_candidates.mean() for part in chosen.values()]))
            for_log = dict(
                zip(LOG, (cell.n_negatives, n_users, cell.share, draw, group), strict=True)
            )
            log = drawn(chosen, cell.n_negatives, bool(draw % 2), rng)
            estimates, differences = compared(chosen, log)
            yield estimates.assign(**for_log, n_items=n_items), differences.assign(**for_log)


# --- the numbers that the library prints ----------------------------------------------------------


def pairs_of(estimates: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """The estimated and exact difference of each pair in a log; pairs with equal exact metrics are
    left out.
    """
    keys = ["data", *LOG, "metric"]
    columns = [*keys, "recommender", "exact", "estimate", "bias_scale", "n_items"]
    pairs = differences
    for side in ("first", "second"):
        values = estimates[columns].rename(columns={"recommender": side})
        pairs = pairs.merge(values, on=[*keys, side], suffixes=("", f"_{side}"))
    pairs["exact"] -= pairs.pop("exact_second")
    pairs["estimate"] -= pairs.pop("estimate_second")
    pairs["right"] = pairs["exact"] * pairs["estimate"] > 0
    return pairs[pairs["exact"] != 0].drop(columns=["bias_scale_second", "n_items_second"])


def in_scope(table: pd.DataFrame) -> pd.DataFrame:
    """The evaluations with enough negatives for the track record."""
    negatives = table["n_negatives"]
    enough = (negatives >= FEWEST_NEGATIVES) & (table["n_items"] <= MOST_PER_NEGATIVE * negatives)
    return table[enough]


def _weights(table: pd.DataFrame) -> np.ndarray:
    """Weights that give each data set, and each cell in it, the same total."""
    cell = ["data", *LOG[:3]]
    rows_of_cell = table.groupby(cell)["metric"].transform("size")
    cells_of_data = table.drop_duplicates(cell)["data"].value_counts()
    return np.asarray(1.0 / rows_of_cell / table["data"].map(cells_of_data))


def fit_probability(pairs: pd.DataFrame) -> tuple[float, float]:
    """Fit a probit model of whether a difference has the sign of its estimate.

    The slope, and the share of the bias scale, as in :class:`~track_record.Record`.
    """
    sizes, errors, scales = (
        np.abs(pairs[name].to_numpy()) for name in ("estimate", "error", "bias_scale")
    )
    signs, weights = np.where(pairs["right"], 1.0, -1.0), _weights(pairs)

    def loss(logarithms: np.ndarray) -> float:
        slope, share = np.exp(logarithms)
        z = signs * slope * sizes / np.hypot(errors, share * scales)
        return -float(weights @ log_ndtr(z))

    starts = [np.log([1.0, share]) for share in (0.02, 0.1)]
    fits = [minimize(loss, start, method="Nelder-Mead") for start in starts]
    slope, share = np.exp(min(fits, key=lambda fit: fit.fun).x)
    return float(slope), float(share) if share > 1e-6 else 0.0


def fit_typical(estimates: pd.DataFrame) -> tuple[float, float, float]:
    """The share of the bias scale, and the lowest and highest typical error.

    The ends hold 95% of the errors of each data set. The share is the one with the shortest ranges
    in the median, relative to the exact value.
    """
    gaps = (estimates["exact"] - estimates["estimate"]).to_numpy()
    best = (np.inf, (np.nan, np.nan, np.nan))
    for share in (0.0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3):
        deviations = np.hypot(
            estimates["error"].to_numpy(), share * estimates["bias_scale"].to_numpy()
        )
        errors = pd.Series(gaps / deviations, estimates.index).groupby(estimates["data"])
        low, high = float(errors.quantile(0.025).min()), float(errors.quantile(0.975).max())
        widths = pd.Series(deviations * (high - low), estimates.index) / estimates["exact"]
        width = float(widths[estimates["exact"] > 0].groupby(estimates["data"]).median().mean())
        best = min(best, (width, (share, low, high)))
    return best[1]


def fitted(estimates: pd.DataFrame, pairs: pd.DataFrame) -> track_record.Record:
    """The record of one metric from all data sets: refits without each one, and the ranges."""
    refits = [fit_probability(pairs[pairs["data"] != left_out]) for left_out in _sets(pairs)]
    return track_record.Record(tuple(refits), fit_typical(estimates))


def _sets(table: pd.DataFrame) -> list[str]:
    return [str(name) for name in table["data"].unique()]


# --- a data set that the numbers were not fitted to -----------------------------------------------


def held_out(estimates: pd.DataFrame, pairs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Each data set judged by the records of the others, for one metric.

    Returns `pairs` with columns "probability" that the estimates are in order, by the fit to all
    other data sets, and "smallest", the smallest of the fits that leave out one more; and
    `estimates` with "low" and "high" of typical ranges.
    """
    sets = _sets(pairs)
    without = cache(lambda *names: fit_probability(pairs[~pairs["data"].isin(names)]))
    pair_tables, estimate_tables = [], []
    for name in sets:
        own = pairs[pairs["data"] == name]
        tables = {"probability": [without(name)]}
        tables["smallest"] = [without(*sorted((name, other))) for other in sets if other != name]
        columns = {column: _probabilities(own, refits) for column, refits in tables.items()}
        pair_tables.append(own.assign(**columns))
        share, low, high = fit_typical(estimates[estimates["data"] != name])
        judged = estimates[estimates["data"] == name]
        deviations = np.hypot(judged["error"], share * judged["bias_scale"])
        ends = {"low": low, "high": high}
        ranges = {end: judged["estimate"] + ends[end] * deviations for end in ends}
        estimate_tables.append(judged.assign(**ranges))
    return pd.concat(pair_tables), pd.concat(estimate_tables)


def _probabilities(pairs: pd.DataFrame, refits: Sequence[tuple[float, float]]) -> np.ndarray:
    """The smallest probability by some fits, uncapped."""
    sizes, errors, scales = (
        np.abs(pairs[name].to_numpy()) for name in ("estimate", "error", "bias_scale")
    )
    by_refit = [ndtr(slope * sizes / np.hypot(errors, share * scales)) for slope, share in refits]
    return np.asarray(np.min(by_refit, axis=0))


def is_main(table: pd.DataFrame) -> pd.Series:
    """Evaluations of whole data sets: all users and the whole catalogue."""
    everyone = table.groupby("data")["n_users"].transform("max")
    return (table["n_users"] == everyone) & (table["share"] == 1)


def verdicts(pairs: pd.DataFrame, column: str = "probability") -> pd.DataFrame:
    """By data set: the share of pairs with a verdict, and of these the wrong ones.

    Also the share of undecided pairs whose probability is printed, and how many of these are in the
    order of their estimates. `column` holds the probability.
    """
    table = pairs.assign(
        decided=pairs[column] >= VERDICT,
        probable=pairs[column].between(track_record.PRINTED, VERDICT, inclusive="left"),
    )
    rows = {}
    for name, part in table.groupby("data", sort=False):
        decided, probable = part[part["decided"]], part[part["probable"]]
        rows[name] = {
            "pairs": len(part),
            "decided": part["decided"].mean(),
            "verdicts": len(decided),
            "wrong": 1.0 - decided["right"].mean(),
            "probable": part["probable"].mean(),
            "probable_right": probable["right"].mean(),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("data").reset_index()


def reliability(pairs: pd.DataFrame) -> pd.DataFrame:
    """The share of pairs in the order of the estimates, by probability and data set."""
    edges = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0]
    bins = pd.cut(pairs["probability"], edges, labels=False)
    table = pairs.assign(bin=bins).groupby(["bin", "data"], sort=True)
    averaged = {name: (name, "mean") for name in ("probability", "right")}
    return table.agg(**averaged, pairs=("right", "size")).reset_index()


def coverage(estimates: pd.DataFrame) -> pd.DataFrame:
    """By data set: how many typical ranges hold the exact value, and their median width."""
    holds = estimates["exact"].between(estimates["low"], estimates["high"])
    width = estimates["high"] - estimates["low"].clip(lower=0)
    table = estimates.assign(holds=holds, width=width).groupby("data", sort=False)
    return table.agg(holds=("holds", "mean"), width=("width", "median")).reset_index()


# --- the files ------------------------------------------------------------------------------------

KINDS = ("typical", "differences")


def bundled(kind: str) -> pd.DataFrame:
    """A table that was computed before: "typical", of estimates, or "differences"."""
    tables = []
    for name in benchmark.DATA:
        table = pd.read_csv(BUNDLE / f"{name}.{kind}.csv.gz")
        table.insert(0, "data", name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def compute(name: str, tell: Callable[[str], object]) -> None:
    """Draw the evaluations of a data set and write their tables."""
    ranks = benchmark.ranks(name)
    n_users, fewest = (part(next(iter(ranks.values())).n_candidates) for part in (np.size, np.min))
    tables: dict[str, list[pd.DataFrame]] = {kind: [] for kind in KINDS}
    for m in SIZES:
        for users in USERS:
            for share in SHARES:
                if users >= n_users or round((fewest - 1) * share) < m:
                    continue
                tell(f"{m} negatives, {users or n_users} users, {share:.0%} of the catalogue")
                for both in logs(ranks, Cell(m, users, share)):
                    for kind, table in zip(KINDS, both, strict=True):
                        tables[kind].append(table)
    for kind, parts in tables.items():
        bundle.write_table(BUNDLE / f"{name}.{kind}.csv.gz", pd.concat(parts), 5)


def _outwards(values: Any, digits: int) -> list[float]:
    """The smallest and the largest of some values, rounded outwards."""
    scale = 10.0**digits
    ends = np.floor(scale * np.min(values)) / scale, np.ceil(scale * np.max(values)) / scale
    return [float(end) for end in ends]


def correlations(estimates: pd.DataFrame, differences: pd.DataFrame) -> np.ndarray:
    """Of users' values under the two recommenders of each pair in `estimates`, of one metric."""
    keys = ["data", *LOG, "metric"]
    pairs = differences
    for side in ("first", "second"):
        errors = estimates[[*keys, "recommender", "error"]].rename(columns={"recommender": side})
        pairs = pairs.merge(errors, on=[*keys, side], suffixes=("", f"_{side}"))
    first, second = pairs["error_first"], pairs["error_second"]
    return np.asarray((first**2 + second**2 - pairs["error"] ** 2) / (2.0 * first * second))


def first_shares(ranks: Mapping[str, RankIntervals]) -> list[float]:
    """The expected share of users without a negative above, for each recommender and size.

    Distinct negatives; of tied candidates half stand above.
    """
    shares = []
    for part in (part for name, part in ranks.items() if name != FLOOR):
        others = part.n_candidates - 1.0
        below = others - part.n_better - part.n_tied / 2.0
        for m in (m for m in SIZES if FEWEST_NEGATIVES <= m <= others.min()):
            # The probability that all m are below, C(below, m) / C(others, m).
            log_probability = (
                gammaln(below + 1.0) - gammaln(np.maximum(below - m, 0.0) + 1.0)
                - gammaln(others + 1.0) + gammaln(others - m + 1.0)
            )  # fmt: skip
            shares.append(float(np.where(below >= m, np.exp(log_probability), 0.0).mean()))
    return shares


def stored(estimates: pd.DataFrame, differences: pd.DataFrame) -> dict[str, object]:
    """The content of the library's ``track_record.json``."""
    estimates = in_scope(estimates)
    pairs = in_scope(pairs_of(estimates, differences))
    metrics: dict[str, object] = {}
    for name in METRICS:
        own = estimates[estimates["metric"] == name]
        record = fitted(own, pairs[pairs["metric"] == name])
        metrics[name] = {
            "probability": [[float(f"{x:.4g}") for x in pair] for pair in record.probability],
            "typical": [float(f"{x:.4g}") for x in record.typical],
            "estimates": _outwards(own["estimate"], 3),
            "correlation": _outwards(correlations(own, differences), 2)[1],
        }
    sets = [benchmark.ranks(name) for name in _sets(estimates)]
    candidates = [next(iter(ranks.values())).n_candidates for ranks in sets]
    ratios = [float(sizes.max() / sizes.min()) for sizes in candidates]
    smallest = min(SHARES) * min(sizes.min() - 1 for sizes in candidates) + 1
    measured = {
        "users": estimates["n_users"],
        "negatives for each user": estimates["n_negatives"],
        "candidates": estimates["n_items"],
        "candidates for some users": np.array([smallest, max(map(np.max, candidates))]),
        "times as many candidates for some users as for others": np.array([1.0, max(ratios)]),
        "candidates for each negative": estimates["n_items"] / estimates["n_negatives"],
    }
    first = np.array([share for ranks in sets for share in first_shares(ranks)])
    return {
        "made_by": NAME,
        "data": _sets(estimates),
        "recommenders": int(estimates.groupby("data")["recommender"].nunique().sum()),
        "logs": len(estimates[["data", *LOG]].drop_duplicates()),
        "scope": {
            **{key: _outwards(values, 1) for key, values in measured.items()},
            "share without a negative above": _outwards(first, 2),
        },
        "metrics": metrics,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Draw evaluations of the benchmark's recommenders, and fit the library's track record."""
    parser = bundle.parser(NAME, main.__doc__)
    parser.add_argument("--data", nargs="+", default=list(benchmark.DATA), help="default: all")
    parser.add_argument("--fit-only", action="store_true", help="fit to the tables of a former run")
    arguments = parser.parse_args(argv)
    output = arguments.output or Path(track_record.__file__).with_suffix(".json")

    def write() -> None:
        for name in [] if arguments.fit_only else arguments.data:
            start = time.process_time()

            def tell(task: str, name: str = name, start: float = start) -> None:
                print(f"{name}, {task}, {time.process_time() - start:.0f} s", flush=True)

            compute(name, tell)
        bundle.write_json(output, stored(bundled(KINDS[0]), bundled(KINDS[1])))

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())

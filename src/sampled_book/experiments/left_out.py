"""How close the learned prior comes to exact metrics on sources that it was not learned from.

For each source, :mod:`~sampled_book.experiments.learned_prior` learns the prior from all others.
Logs of sampled ranks are drawn from the exact ranks of the source's data sets, with all their
recommenders, and estimates by that prior are compared with the exact values. ``python -m
sampled_book.experiments.left_out`` computes and prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd

from sampled_metrics import learned_prior, metric
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.learned_prior import Counts, Prior
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle
from .learned_prior import group_by_data, priors_without
from .protocols import FLOOR
from .theory import of_users

NAME = "sampled_book.experiments.left_out"
#: What is judged: numbers of negatives, of users (0: all), and metrics.
SIZES, USERS = (20, 50, 100, 500), (0, 1_000)
METRICS = ("ndcg@10", "recall@10", "recall@50", "ap")
#: Values below so many users in all count as that many: logarithms of smaller ones are noise.
FEWEST_USERS = 3
#: Standard errors on either side of an interval at 95%.
_REACH = 1.96
FAMILIES = {
    "Popular": "popularity",
    **dict.fromkeys(("Item cosine", "Item BM25", "User cosine", "RP3beta"), "neighbourhood"),
    **dict.fromkeys(("PureSVD", "ALS", "BPR"), "factors"),
    "EASE": "linear",
    **dict.fromkeys(("Markov chain", "Recent cosine"), "sequences"),
}
FILES = {kind: f"left_out_{kind}.csv.gz" for kind in ("estimates", "orders")}
_LOG = ["data", "n_negatives", "users", "replacement", "metric"]


def sampled_above(
    ranks: Mapping[str, RankIntervals],
    negatives: int | IntArray,
    replacement: bool,
    rng: np.random.Generator,
) -> list[IntArray]:
    """How many negatives each recommender draws above each user's item, ties broken at random."""
    better = []
    for part in ranks.values():
        above, others = part.ranks("random", rng) - 1, part.n_candidates - 1
        if replacement:
            better.append(rng.binomial(negatives, above / others))
        else:
            better.append(rng.hypergeometric(above, others - above, negatives))
    return better


def counts_of(
    better: Mapping[str, IntArray], negatives: int | IntArray, sizes: IntArray, replacement: bool
) -> Counts:
    """The counts of a log of the same users for all recommenders, with candidates `sizes`."""
    columns = [
        np.concatenate([*better.values()]),
        *(np.tile(np.broadcast_to(part, sizes.shape), len(better)) for part in (negatives, sizes)),
    ]
    kinds, index = np.unique(np.stack(columns), axis=1, return_inverse=True)
    users = {
        name: np.bincount(part, minlength=kinds.shape[1]).astype(float)
        for name, part in zip(better, np.split(index.ravel(), len(better)), strict=True)
    }
    above, m, candidates = kinds
    return learned_prior.counted(users, above, np.zeros_like(above), m, candidates, replacement)


class Drawn(NamedTuple):
    """A log of a data set: number of negatives, whether it has all users, and how it was drawn;
    the exact ranks of its users, how many negatives are above, and the users' candidates.
    """

    n_negatives: int
    whole: bool
    replacement: bool
    ranks: dict[str, RankIntervals]
    better: dict[str, IntArray]
    sizes: IntArray


def drawn(name: str, ranks: Mapping[str, RankIntervals]) -> Iterator[Drawn]:
    """The logs of a data set, each with all its recommenders."""
    parts = {key: part for key, part in ranks.items() if key != FLOOR}
    sizes = next(iter(parts.values())).n_candidates
    for m, n_users, replacement in product(SIZES, USERS, (False, True)):
        if sizes.min() - 1 < 1.2 * m or n_users >= sizes.size:
            continue
        rng = np.random.default_rng([crc32(name.encode()), m, n_users, int(replacement)])
        users = np.sort(rng.permutation(sizes.size)[: n_users or sizes.size])
        chosen = {key: of_users(part, users) for key, part in parts.items()}
        better = dict(zip(chosen, sampled_above(chosen, m, replacement, rng), strict=True))
        yield Drawn(m, n_users == 0, replacement, chosen, better, sizes[users])


def different_pairs(exact: FloatArray) -> IntArray:
    """The indices of all pairs of recommenders with different exact values, (2, pairs).

    >>> different_pairs(np.array([0.1, 0.2, 0.1])).tolist()
    [[0, 1], [1, 2]]
    """
    first, second = np.triu_indices(exact.size, 1)
    different = exact[first] != exact[second]
    return np.stack([first[different], second[different]])


def judged(
    name: str, ranks: Mapping[str, RankIntervals], prior: Prior
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Estimates of all recommenders of a data set beside exact values, and of their order.

    `estimate` and `exact` are values, `error` is the estimate's own standard error on the
    logarithmic scale. For each log there are so many `pairs` with different exact values, of which
    so many are in the `right` order, and of so many (`held`) the difference of logarithms is within
    1.96 of its own errors.
    """
    estimates, orders = [], []
    for m, whole, replacement, chosen, better, sizes in drawn(name, ranks):
        counts = counts_of(better, m, sizes, replacement)
        fit = learned_prior.fit(counts, prior)
        for metric_name in METRICS:
            row = name, m, sizes.size, replacement, metric_name
            exact = np.array([part.evaluate(metric_name).mean() for part in chosen.values()])
            log_estimates, covariance = fit.logarithms(metric(metric_name))
            errors = np.sqrt(np.diag(covariance))
            lines = zip(chosen, exact, np.exp(log_estimates), errors, strict=True)
            estimates += [(*row, whole, *line) for line in lines]
            first, second = different_pairs(exact)
            log_exact = logarithm(exact, sizes.size)
            lead = log_estimates[first] - log_estimates[second]
            variance = errors[first] ** 2 + errors[second] ** 2 - 2.0 * covariance[first, second]
            off = lead - (log_exact[first] - log_exact[second])
            right = int((lead * (exact[first] - exact[second]) > 0).sum())
            held = int((np.abs(off) <= _REACH * np.sqrt(variance)).sum())
            orders.append((*row, whole, first.size, right, held))
    columns = [*_LOG, "is_whole"]
    return (
        pd.DataFrame(estimates, columns=[*columns, "recommender", "exact", "estimate", "error"]),
        pd.DataFrame(orders, columns=[*columns, "pairs", "right", "held"]),
    )


def logarithm(values: Any, n_users: Any) -> Any:
    """The logarithm of values, each at least that of a few users."""
    return np.log(np.maximum(values, FEWEST_USERS / n_users))


def compute(tell: Any = print) -> dict[str, pd.DataFrame]:
    """The tables of :func:`judged` for all data sets, by priors learned without their sources."""
    tables: dict[str, list[pd.DataFrame]] = {kind: [] for kind in FILES}
    groups = group_by_data()
    for group, prior in priors_without(sorted({*groups.values()})):
        for name in [name for name in benchmark.names_in() if groups[name] == group]:
            for kind, table in zip(tables, judged(name, benchmark.ranks(name), prior), strict=True):
                tables[kind].append(table)
        tell(group)
    return {
        kind: pd.concat(parts).sort_values(_LOG, kind="stable") for kind, parts in tables.items()
    }


def bundled() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Estimates and orders that were computed before, with the source of each data set, and of
    each recommender its family. `off` is the logarithm of estimate by exact value, `held` whether
    it is within 1.96 of the estimate's own errors.
    """
    folder, groups = benchmark.BUNDLE / "evidence", group_by_data()
    estimates, orders = (pd.read_csv(folder / file) for file in FILES.values())
    off = logarithm(estimates["estimate"], estimates["users"]) - logarithm(
        estimates["exact"], estimates["users"]
    )
    return (
        estimates.assign(
            group=estimates["data"].map(groups),
            family=estimates["recommender"].map(FAMILIES),
            off=off,
            held=np.abs(off) <= _REACH * estimates["error"],
        ),
        orders.assign(group=orders["data"].map(groups)),
    )


def by_source(table: pd.DataFrame, values: pd.Series) -> pd.Series:
    """The mean of values for each source: its data sets alike, and in each all rows."""
    return values.groupby([table["group"], table["data"]]).mean().groupby("group").mean()


def figures(estimates: pd.DataFrame, orders: pd.DataFrame) -> dict[str, float]:
    """Errors and orders, sources alike, of one metric and one number of negatives.

    rms and bias of log(estimate / exact); `held`, the share within 1.96 of the estimate's own
    errors, and `worst`, that of the worst source; `order`, the share of pairs in the right order,
    and `pairs_held`, that of differences within 1.96 of their own errors.
    """
    held = by_source(estimates, estimates["held"].astype(float))
    return {
        "rms": float(np.sqrt(by_source(estimates, estimates["off"] ** 2).mean())),
        "bias": float(by_source(estimates, estimates["off"]).mean()),
        "held": float(held.mean()),
        "worst": float(held.min()),
        "order": float(by_source(orders, orders["right"] / orders["pairs"]).mean()),
        "pairs_held": float(by_source(orders, orders["held"] / orders["pairs"]).mean()),
    }


def summary(estimates: pd.DataFrame, orders: pd.DataFrame) -> pd.DataFrame:
    """:func:`figures` by metric and number of negatives; with and without replacement, and all
    users and 1,000, are pooled.
    """
    rows = []
    for name, m in product(METRICS, SIZES):
        parts = [
            table[(table["metric"] == name) & (table["n_negatives"] == m)]
            for table in (estimates, orders)
        ]
        rows.append({"metric": name, "n_negatives": m, **figures(*parts)})
    return pd.DataFrame(rows)


def by_family(estimates: pd.DataFrame, metric_name: str = "ndcg@10") -> pd.DataFrame:
    """rms and bias of log(estimate / exact) for each family of recommenders, sources alike."""
    rows: list[dict[Hashable, Any]] = []
    chosen = estimates[estimates["metric"] == metric_name]
    for (family, m), part in chosen.groupby(["family", "n_negatives"]):
        off = part["off"]
        rms, bias = np.sqrt(by_source(part, off**2).mean()), by_source(part, off).mean()
        held = by_source(part, part["held"].astype(float)).mean()
        row = {"family": family, "n_negatives": m, "sources": part["group"].nunique()}
        rows.append(row | {"rms": rms, "bias": bias, "held": held})
    return pd.DataFrame(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Judge the learned prior on each source by a prior learned from the others."""
    parser = bundle.parser(NAME, main.__doc__)
    parser.add_argument("--print-only", action="store_true", help="print the tables as bundled")
    arguments = parser.parse_args(argv)
    folder = arguments.output or benchmark.BUNDLE / "evidence"

    def write() -> list[Path]:
        tables = {} if arguments.print_only else compute()
        return [bundle.write_table(folder / FILES[kind], tables[kind], 5) for kind in tables]

    status = bundle.run(write)
    if not status:
        estimates, orders = bundled()
        for table in (summary(estimates, orders), by_family(estimates)):
            print(table.round(3).to_string(index=False))
    return status


if __name__ == "__main__":
    sys.exit(main())

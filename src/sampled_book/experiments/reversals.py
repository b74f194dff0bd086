"""How often a sampled evaluation would put two tuned recommenders in the wrong order.

The exact ranks of :mod:`sampled_book.data.benchmark` give the expectation of every reported and
corrected metric, so nothing is drawn. ``python -m sampled_book.experiments.reversals`` counts, for
each data set, metric and number of uniform negatives, the pairs whose expected order is the reverse
of the exact one; it resumes, and :func:`bundled` reads what it wrote. With ``--ranks FOLDER`` it
counts in the ranks that ``python -m sampled_book.data.benchmark --untuned --output FOLDER`` wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from sampled_metrics import estimators, priors
from sampled_metrics._validate import FloatArray
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle, sources
from . import evidence
from .protocols import FLOOR
from .theory import moments

METRICS = (
    *(f"recall@{k}" for k in (1, 5, 10, 20, 50)),
    *(f"ndcg@{k}" for k in (5, 10, 20)),
    *("ap", "auc"),
)
SIZES = (20, 50, 100, 500, 1000)
#: The reported value, and corrections of it.
ESTIMATORS = ("naive", "rank estimate", "bias-variance", evidence.FITTED_PRIOR)
FILE = benchmark.BUNDLE / "evidence" / "reversals.csv.gz"
#: The same for recommenders that were not tuned, whose ranks are not bundled; of fewer data sets.
UNTUNED = FILE.with_name("reversals_untuned.csv.gz")
#: Two exact values differ widely if they differ by more than this part of the larger.
WIDE = 0.1
#: Differences of means below this are none.
_ROUNDING = 1e-12
#: They differ significantly if they differ by more than so many paired standard errors over users.
SIGNIFICANT = 2.0
#: Sets of pairs that are counted: the name of each, and of its reversed ones.
PAIRS = ("pairs", "wide", "significant", "neighbours")


def expected_values(
    ranks: Mapping[str, RankIntervals], metrics: Sequence[str], n_negatives: int
) -> dict[tuple[str, str], FloatArray]:
    """Expectation of each estimate of each metric over samples, by metric and estimator, a value
    for each recommender: the reported one ("naive") and the corrections that take no time.

    Negatives are distinct, and drawn for each user alone. Corrections take the mean number of
    candidates and the default gamma. The fitted prior is the maximum entropy fit to the expected
    sample of all recommenders, as in :func:`~sampled_book.experiments.evidence.exact`.
    """
    sizes = next(iter(ranks.values())).n_candidates
    protocol = Protocol(round(float(sizes.mean())), n_negatives, replacement=False)
    gamma = estimators.default_gamma(sizes.size)
    prior = priors.maximum_entropy(evidence.expected_counts(ranks, protocol), protocol).mass
    vectors: dict[tuple[str, str], FloatArray] = {}
    for name in metrics:
        for label in ESTIMATORS[:-1]:
            vectors[name, label] = estimators.by_name(label, name, protocol, gamma=gamma).values
        fitted = estimators.bias_variance(name, protocol, gamma, prior)
        vectors[name, evidence.FITTED_PRIOR] = fitted.values
    means = moments(
        list(ranks.values()), np.column_stack(list(vectors.values())), n_negatives, False
    ).mean
    return dict(zip(vectors, means.T, strict=True))


def standard_errors(values: FloatArray) -> FloatArray:
    """Paired standard error of the difference of each two means; values (recommenders, users).

    >>> standard_errors(np.array([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]])).round(3).tolist()
    [[0.0, 0.289], [0.289, 0.0]]
    """
    covariance = np.cov(values)
    variances = np.diag(covariance)
    of_differences = variances[:, np.newaxis] + variances - 2.0 * covariance
    return np.asarray(np.sqrt(np.maximum(of_differences, 0.0) / values.shape[1]))


def reversed_pairs(
    exact: FloatArray, expected: FloatArray, errors: FloatArray | None = None
) -> dict[str, int]:
    """Counts of pairs of recommenders, given the exact value and the expected report of each.

    pairs: those whose exact values differ; wide: those that differ by more than `WIDE` of the
    larger value; significant: those that differ by more than `SIGNIFICANT` of the `errors`, as
    :func:`standard_errors` returns them; neighbours: those next to each other in a table sorted by
    the exact values, level ones being left out; reversed, wide_reversed and so on: how many of
    these the expected reports put in the reverse order; level: pairs that the reports cannot tell
    apart.

    >>> reversed_pairs(np.array([0.2, 0.19, 0.1]), np.array([0.4, 0.5, 0.3]))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'pairs': 3, 'reversed': 1, 'wide': 2, 'wide_reversed': 0,
     'neighbours': 2, 'neighbours_reversed': 1, 'level': 0}
    """
    order = np.argsort(-exact, kind="stable").tolist()
    all_pairs = list(combinations(order, 2))
    gaps = {pair: float(exact[pair[0]] - exact[pair[1]]) for pair in all_pairs}
    pairs = [pair for pair in all_pairs if gaps[pair] > _ROUNDING]
    is_next = set(pairwise(order))
    chosen = {
        "pairs": pairs,
        "wide": [(a, b) for a, b in pairs if gaps[a, b] > WIDE * exact[a]],
        "neighbours": [pair for pair in pairs if pair in is_next],
    }
    if errors is not None:
        chosen["significant"] = [pair for pair in pairs if gaps[pair] > SIGNIFICANT * errors[pair]]
    leads = {(a, b): float(expected[a] - expected[b]) for a, b in pairs}
    counts: dict[str, int] = {}
    for name, part in chosen.items():
        counts[name] = len(part)
        key = "reversed" if name == "pairs" else f"{name}_reversed"
        counts[key] = sum(leads[pair] < -_ROUNDING for pair in part)
    return counts | {"level": sum(abs(lead) <= _ROUNDING for lead in leads.values())}


def counted(
    ranks: Mapping[str, RankIntervals],
    metrics: Sequence[str],
    sizes: Sequence[int],
) -> pd.DataFrame:
    """The counts of a data set, a row for each metric, estimator and number of negatives that all
    users have items for. A random order is no recommender.
    """
    judged = {name: intervals for name, intervals in ranks.items() if name != FLOOR}
    most_negatives = min(int(r.n_candidates.min()) for r in judged.values()) - 1
    values = {name: np.array([r.evaluate(name) for r in judged.values()]) for name in metrics}
    errors = {name: standard_errors(of_users) for name, of_users in values.items()}
    rows = []
    for m in sizes:
        if m > most_negatives:
            continue
        for (name, label), expected in expected_values(judged, metrics, m).items():
            counts = reversed_pairs(values[name].mean(axis=1), expected, errors[name])
            key = {"metric": name, "m": m, "estimator": label, "recommenders": len(judged)}
            rows.append(key | counts)
    return pd.DataFrame(rows)


def bundled(path: str | Path | None = None) -> pd.DataFrame:
    """The counts of all data sets, computed before, with their groups."""
    table = pd.read_csv(FILE if path is None else path)
    groups = sources.table().set_index("name")["group"]
    return table.assign(group=table["data"].map(groups))


def by_group(table: pd.DataFrame, kind: str = "pairs", estimator: str = "naive") -> pd.Series:
    """Share of reversed pairs by metric, number of negatives and group, the data sets of a group
    counting alike; `kind` is one of `PAIRS`. Missing where the estimates tell no pair apart, as
    Recall@50 among 20 negatives.
    """
    rows = _with_share(table, kind, estimator)
    return rows.groupby(["metric", "m", "group"])["share"].mean()


def _with_share(table: pd.DataFrame, kind: str, estimator: str) -> pd.DataFrame:
    reversed_name = "reversed" if kind == "pairs" else f"{kind}_reversed"
    is_counted = (table[kind] > 0) & (table["level"] < table["pairs"])
    rows = table[is_counted & (table["estimator"] == estimator)]
    return rows.assign(share=rows[reversed_name] / rows[kind])


def shares(table: pd.DataFrame, kind: str = "pairs", estimator: str = "naive") -> pd.DataFrame:
    """Means of ``by_group`` over the groups, by metric (rows) and number of negatives."""
    by_metric = by_group(table, kind, estimator).groupby(["metric", "m"]).mean().unstack("m")
    return by_metric.reindex([name for name in METRICS if name in by_metric.index])


def rising(table: pd.DataFrame, kind: str = "pairs", estimator: str = "naive") -> pd.Series:
    """In how many data sets the share rises from a number of negatives to the next, by metric."""
    rows = _with_share(table, kind, estimator).sort_values("m")
    steps = rows.groupby(["metric", "data"])["share"].diff()
    is_rising = (steps > _ROUNDING).groupby([rows["metric"], rows["data"]]).any()
    return is_rising.groupby("metric").sum()


def against_reported(
    table: pd.DataFrame, metric_name: str, n_negatives: int, kind: str, estimator: str
) -> dict[str, int]:
    """In how many groups an estimator reverses a smaller share of pairs than the reported value
    does, as large a one, and a larger one: fewer, equal and more.
    """
    corrected, reported = (
        by_group(table, kind, label).loc[metric_name, n_negatives] for label in (estimator, "naive")
    )
    gains = reported - corrected
    counts = {"fewer": gains > _ROUNDING, "equal": gains.abs() <= _ROUNDING}
    counts["more"] = gains < -_ROUNDING
    return {name: int(part.sum()) for name, part in counts.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Count reversed pairs of every data set whose ranks are there, and write the table; ranks of
    untuned recommenders have a table apart.

    The exit status is 2 if there are no ranks.
    """
    parser = bundle.parser("sampled_book.experiments.reversals", main.__doc__)
    parser.add_argument("--ranks", type=Path, help="folder of the ranks; default: the package's")
    arguments = parser.parse_args(argv)
    folder = arguments.ranks or benchmark.BUNDLE

    def write() -> list[Path]:
        names = benchmark.names_in(folder)
        untuned = {bool(benchmark.facts(name, folder).get("untuned")) for name in names}
        if len(untuned) > 1:
            raise ValueError(
                f"{folder} must hold tuned or untuned recommenders, got both: keep them apart"
            )
        file = UNTUNED if untuned.pop() else FILE
        output = (arguments.output or file.parent) / file.name
        tables: dict[str, pd.DataFrame] = {}
        if output.exists():
            tables = {str(k): part for k, part in pd.read_csv(output).groupby("data")}
        for name in names:
            ranks = benchmark.ranks(name, folder)
            known = tables.get(name)
            if known is not None and (known["recommenders"] == len(ranks.keys() - {FLOOR})).all():
                continue
            tables[name] = counted(ranks, METRICS, SIZES).assign(data=name)
            print(f"{name}: {len(ranks)} recommenders", flush=True)
            table = pd.concat([tables[key] for key in sorted(tables)])
            table = table[["data", *(key for key in table.columns if key != "data")]]
            bundle.write_table(output, table, 5)
        return [output]

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())

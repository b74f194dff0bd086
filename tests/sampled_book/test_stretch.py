"""The exact metric of a stretched rank: its definition, bounds on its distance, and the counts."""

from fractions import Fraction
from itertools import combinations, product
from math import inf, log2

import numpy as np
import pytest
from scipy import stats

from sampled_book.data import benchmark, neural
from sampled_book.experiments import reversals, stretch
from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.metrics import DEPTH_ERROR, recall_depth

from .test_reversals import TOY, every_sample

#: Each metric as a function of the number of items above, which may be a fraction.
DEFINED = {
    "recall@1": lambda above: Fraction(above < 1),
    "recall@5": lambda above: Fraction(above < 5),
    "ndcg@5": lambda above: Fraction(1 / log2(2 + above) if above < 5 else 0),
    "rr": lambda above: 1 / Fraction(1 + above),
}


def by_hand(intervals, m, value):
    """Mean over users and tied places of the metric of the stretched rank, as a fraction."""
    total = Fraction(0)
    columns = (intervals.n_better, intervals.n_tied, intervals.n_candidates)
    for better, tied, n in zip(*(column.tolist() for column in columns), strict=True):
        places = range(better, better + tied + 1)
        total += sum(value(Fraction(above * m, n - 1)) for above in places) / len(places)
    return float(total / intervals.n_better.size)


@pytest.mark.parametrize("m", [2, 3, 6])
def test_counts_are_those_of_all_samples_and_of_the_definition(m):
    table = stretch.counted(TOY, (m, 8), list(DEFINED)).set_index(["metric", "target"])
    assert set(table["m"]) == {m}
    for name, value in DEFINED.items():
        sampled = [float(every_sample(r, m, lambda rank: value(rank - 1))) for r in TOY.values()]  # noqa: B023
        targets = {
            "stretched": [by_hand(r, m, value) for r in TOY.values()],
            "exact": [by_hand(r, 7, value) for r in TOY.values()],  # all seven others are negatives
        }
        for target, exact in targets.items():
            row = table.loc[name, target]
            pairs = [
                (i, j) for i, j in combinations(range(3), 2) if abs(exact[i] - exact[j]) > 1e-12
            ]
            products = [(exact[i] - exact[j]) * (sampled[i] - sampled[j]) for i, j in pairs]
            assert row["pairs"] == len(pairs)
            assert row["reversed"] == sum(product < -1e-15 for product in products)
            errors = [s / e - 1 if e else inf for s, e in zip(sampled, exact, strict=True)]
            assert (row["low"], row["high"]) == pytest.approx((min(errors), max(errors)), abs=1e-12)


def test_stretching_leaves_auc_alone_and_deepens_recall():
    assert stretch.stretched("auc", 50, 7, 50) == pytest.approx(1 - np.arange(50) / 49)
    assert stretch.stretched("recall@10", 3541, 100, 3541).sum() == 354


@pytest.fixture(scope="module")
def bundled():
    return stretch.bundled()


def test_bundled_counts_are_those_of_the_reversals(bundled):
    """Against the exact metric, the same pairs are counted from the same ranks elsewhere."""
    keys = ["data", "m", "pairs", "reversed", "level"]
    for name, other in (("recall@10", "recall@10"), ("ndcg@10", "ndcg@10"), ("rr", "ap")):
        is_here = (bundled["metric"] == name) & (bundled["target"] == "exact")
        table = reversals.bundled()
        is_there = (table["metric"] == other) & (table["estimator"] == "naive")
        here, there = (
            part[keys].sort_values(["data", "m"]).to_numpy().tolist()
            for part in (bundled[is_here], table[is_there])
        )
        assert here == there


def test_a_bundled_entry_is_recall_at_a_deeper_cut_off(bundled):
    ranks = [r for name, r in benchmark.ranks("lastfm").items() if name != "Random"]
    n = ranks[0].n_candidates.mean()
    depth = int(np.ceil(10 * (n - 1) / 100))
    exact = [r.evaluate(f"recall@{depth}").mean() for r in ranks]
    protocol = [r.sampled_pmf(100)[:, :10].sum(axis=1).mean() for r in ranks]
    errors = np.array(protocol) / exact - 1
    is_row = (bundled["data"] == "lastfm") & (bundled["metric"] == "recall@10")
    row = bundled[is_row & (bundled["m"] == 100) & (bundled["target"] == "stretched")].iloc[0]
    assert (row["low"], row["high"]) == pytest.approx((errors.min(), errors.max()), rel=1e-4)
    assert row["recommenders"] == len(ranks)


@pytest.mark.parametrize(("name", "most"), [("rr", 1.3), ("ndcg", 1.16)])
def test_convex_metrics_are_above_the_stretched_rank_and_below_poisson(name, most):
    for n, m, way in product((40, 1_000), (1, 2, 7, 39), (True, False)):
        expected = estimators.naive(name, Protocol(n, m, replacement=way)).expected(
            np.arange(1, n + 1)
        )
        exact = stretch.stretched(name, n, m, n)
        counts, above = np.arange(300), np.arange(n) * m / (n - 1)
        values = 1 / (1 + counts) if name == "rr" else 1 / np.log2(2 + counts)
        poisson = stats.poisson.pmf(counts, above[:, np.newaxis]) @ values
        assert (expected >= exact - 1e-12).all()
        assert (expected <= poisson + 1e-12).all()
        assert (poisson <= most * exact).all()


def test_a_depth_is_printed_only_where_the_benchmark_has_a_small_error(bundled):
    """A note of `estimate` and a column of `published` promise the error of all recommenders."""
    sizes = {
        name: benchmark.ranks(name)["Popular"].n_candidates.mean() for name in set(bundled["data"])
    }
    rows = bundled[(bundled["target"] == "stretched") & (bundled["metric"] != "auc")]
    promised = [
        recall_depth(metric(name), sizes[data], m)
        for data, name, m in zip(rows["data"], rows["metric"], rows["m"], strict=True)
    ]
    has_depth = np.array([one is not None for one in promised])
    errors = rows[["low", "high"]].abs().max(axis=1)
    assert (errors[has_depth] <= DEPTH_ERROR).all()
    assert set(rows.loc[has_depth, "metric"]) == {"recall@10", "recall@20"}
    assert set(rows.loc[has_depth, "m"]) == {50, 100, 500, 1_000}
    is_recall = rows["metric"].isin(["recall@10", "recall@20"]).to_numpy()
    assert errors[~has_depth & is_recall].max() > 0.2  # with 20 negatives


def test_neural_recommenders_keep_the_limit_of_the_depth():
    for path in neural.BUNDLE.glob("*.npz"):
        ranks = benchmark.ranks(path.stem, neural.BUNDLE)
        n_items = next(iter(ranks.values())).n_candidates.mean()
        sizes = [m for m in (50, 100, 1_000) if recall_depth(metric("recall@10"), n_items, m)]
        table = stretch.counted(ranks, sizes, ["recall@10", "recall@20"])
        errors = table.loc[table["target"] == "stretched", ["low", "high"]]
        assert sizes
        assert (errors.abs() < DEPTH_ERROR / 2).all(axis=None)

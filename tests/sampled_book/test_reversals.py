"""Counts of reversed pairs, against enumeration of all samples and another distribution."""

from fractions import Fraction
from itertools import combinations
from math import comb, log2

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom, sem

from sampled_book.data import benchmark, sources
from sampled_book.experiments import reversals
from sampled_metrics import Protocol, estimators
from sampled_metrics.ranking.intervals import RankIntervals

#: Three recommenders of four users with eight candidates, with ties.
TOY = {
    "A": RankIntervals([0, 6, 3, 2], [0, 0, 1, 0], [8, 8, 8, 8]),
    "B": RankIntervals([1, 1, 2, 5], [2, 0, 0, 0], [8, 8, 8, 8]),
    "C": RankIntervals([4, 0, 0, 7], [3, 0, 0, 0], [8, 8, 8, 8]),
}


def every_sample(intervals, m, value):
    """Mean of a value of the sampled rank over users, tied places and all samples of negatives."""
    total = Fraction(0)
    for better, tied, n in zip(
        intervals.n_better.tolist(),
        intervals.n_tied.tolist(),
        intervals.n_candidates.tolist(),
        strict=True,
    ):
        for above in range(better, better + tied + 1):
            samples = list(combinations(range(n - 1), m))
            worth = sum(value(1 + sum(item < above for item in sample)) for sample in samples)
            total += Fraction(worth, 1) / len(samples) / (tied + 1)
    return total / intervals.n_better.size


@pytest.mark.parametrize("m", [1, 2, 3, 7])
def test_expected_reports_are_means_over_all_samples(m):
    values = {
        "recall@1": lambda rank: Fraction(rank <= 1),
        "recall@5": lambda rank: Fraction(rank <= 5),
        "ap": lambda rank: Fraction(1, rank),
        "auc": lambda rank: 1 - Fraction(rank - 1, m),
    }
    table = reversals.expected_values(TOY, list(values), m)
    for name, value in values.items():
        expected = [float(every_sample(intervals, m, value)) for intervals in TOY.values()]
        assert table[name, "naive"] == pytest.approx(expected, abs=1e-13)


def test_corrected_values_are_means_over_all_samples_too():
    protocol = Protocol(8, 3, replacement=False)
    table = reversals.expected_values(TOY, ["recall@1"], 3)
    assert {label for _, label in table} == set(reversals.ESTIMATORS)
    values = estimators.by_name("bias-variance", "recall@1", protocol, gamma=0.5).values
    exact_values = [Fraction(value) for value in values.tolist()]
    for mean, intervals in zip(table["recall@1", "bias-variance"], TOY.values(), strict=True):
        expected = every_sample(intervals, 3, lambda rank: exact_values[rank - 1])
        assert mean == pytest.approx(float(expected), abs=1e-12)


def test_pairs_are_counted_by_gap_and_by_place_in_the_table():
    exact = np.array([0.5, 0.1, 0.48, 0.3, 0.3])
    expected = np.array([0.6, 0.9, 0.7, 0.6, 0.2])
    counts = reversals.reversed_pairs(exact, expected)
    # By value: 0.5 > 0.48 > 0.3 = 0.3 > 0.1, reports 0.6, 0.7, 0.6, 0.2, 0.9.
    assert counts["pairs"] == 9
    assert counts["reversed"] == 1 + 4  # 0.5 and 0.48; 0.1 and all others
    assert counts["level"] == 1  # 0.5 and the first 0.3
    assert (counts["wide"], counts["wide_reversed"]) == (8, 4)
    assert (counts["neighbours"], counts["neighbours_reversed"]) == (3, 2)
    assert "significant" not in counts
    errors = np.full((5, 5), 0.1)
    errors[0, 2] = errors[2, 0] = 0.009  # 0.5 and 0.48, in reverse order
    counts = reversals.reversed_pairs(exact, expected, errors)
    # By more than two errors: 0.5 and 0.48, and 0.1 and the two above 0.3; 0.2 is no more than two.
    assert (counts["significant"], counts["significant_reversed"]) == (3, 3)


def test_standard_errors_are_those_of_paired_differences():
    values = np.random.default_rng(0).normal(size=(3, 50))
    errors = reversals.standard_errors(values)
    for i, j in combinations(range(3), 2):
        assert errors[i, j] == pytest.approx(sem(values[i] - values[j]), rel=1e-12)
    assert np.diag(errors).tolist() == [0, 0, 0]


def test_all_items_as_negatives_reverse_nothing():
    table = reversals.counted(TOY, reversals.METRICS, (7,))
    assert table.loc[table["estimator"] == "naive", "reversed"].eq(0).all()
    assert table["pairs"].max() == 3


def test_too_many_negatives_are_left_out_and_a_random_order_is_no_recommender():
    random = {"Random": RankIntervals([7, 7, 7, 7], [0, 0, 0, 0], [8, 8, 8, 8])}
    table = reversals.counted(TOY | random, ["recall@1"], (2, 7, 8))
    assert table["m"].unique().tolist() == [2, 7]
    assert table["recommenders"].eq(3).all()


@pytest.fixture(scope="module")
def bundled():
    return reversals.bundled()


def test_a_bundled_entry_is_that_of_another_distribution(bundled):
    """NDCG@10 with 100 negatives on MovieLens 100K, user by user and tie by tie."""
    means = []
    for name, intervals in benchmark.ranks("ml-100k").items():
        if name == "Random":
            continue
        better, tied, n = intervals.n_better, intervals.n_tied, intervals.n_candidates
        user = np.repeat(np.arange(tied.size), tied + 1)
        above = np.concatenate([np.arange(b, b + t + 1) for b, t in zip(better, tied, strict=True)])
        gains = np.array([1 / log2(place + 2) for place in range(10)])
        chances = hypergeom.pmf(np.arange(10)[:, np.newaxis], n[user] - 1, above, 100)
        share = 1.0 / (tied[user] + 1) / tied.size
        top = np.where(above < 10, gains[np.minimum(above, 9)], 0.0)
        means.append((share @ top, share @ (gains @ chances)))
    pairs = [(a, b) for a, b in combinations(means, 2) if a[0] != b[0]]
    reversed_count = sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in pairs)
    is_entry = (bundled["data"] == "ml-100k") & (bundled["metric"] == "ndcg@10")
    is_entry &= bundled["estimator"] == "naive"
    entry = bundled[is_entry & (bundled["m"] == 100)].iloc[0]
    assert (entry["pairs"], entry["reversed"]) == (len(pairs), reversed_count)
    assert len(pairs) == comb(11, 2)


def test_bundled_counts_are_of_the_bundled_ranks(bundled):
    names = {path.stem for path in benchmark.BUNDLE.glob("*.npz")}
    assert set(bundled["data"]) == names == set(sources.table()["name"])
    recommenders = bundled.groupby("data")["recommenders"].unique()
    for name in recommenders.index:
        assert recommenders[name].tolist() == [len(benchmark.ranks(name)) - 1]
    assert not bundled["group"].isna().any()
    auc = bundled[(bundled["metric"] == "auc") & (bundled["estimator"] == "naive")]
    assert auc["reversed"].eq(0).all()  # it is right on average as it is


def test_groups_count_alike():
    columns = ["data", "metric", "m", "group", "pairs", "reversed", "wide", "wide_reversed"]
    columns += ["level", "estimator"]
    rows = [
        ("a", "ap", 20, "x", 10, 5, 4, 0, 1, "naive"),
        ("b", "ap", 20, "x", 10, 0, 0, 0, 0, "naive"),
        ("c", "ap", 20, "y", 4, 3, 2, 1, 0, "naive"),
        ("c", "ap", 20, "y", 4, 0, 2, 0, 0, "bias-variance"),
        ("a", "recall@50", 20, "x", 10, 0, 4, 0, 10, "naive"),  # all are level
    ]
    table = pd.DataFrame(rows, columns=columns)
    assert reversals.shares(table).loc["ap", 20] == (0.25 + 0.75) / 2
    assert reversals.shares(table, "wide").loc["ap", 20] == (0.0 + 0.5) / 2
    assert reversals.shares(table, estimator="bias-variance").loc["ap", 20] == 0
    assert reversals.shares(table).index.tolist() == ["ap"]


def made_up(*rows):
    """A table of counts from rows of data, group, m, estimator, pairs and reversed ones."""
    columns = ["data", "group", "m", "estimator", "pairs", "reversed"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(metric="ap", level=0)


def test_data_sets_whose_share_rises_are_counted_once():
    table = made_up(
        *(("a", "x", m, "naive", 10, count) for m, count in ((20, 3), (50, 4), (100, 5), (500, 1))),
        *(("b", "x", m, "naive", 10, count) for m, count in ((500, 1), (20, 3), (50, 1))),
        *(("c", "y", m, "naive", 5, count) for m, count in ((20, 0), (100, 1))),
        ("c", "y", 500, "rank estimate", 5, 4),
    )
    assert reversals.rising(table).to_dict() == {"ap": 2}


def test_corrections_are_compared_group_by_group():
    table = made_up(
        # 1/2 and 0, or 1/4 and 1/4: the same mean over the data sets of the group.
        ("a", "x", 20, "naive", 4, 2), ("b", "x", 20, "naive", 8, 0),
        ("a", "x", 20, "rank estimate", 4, 1), ("b", "x", 20, "rank estimate", 8, 2),
        ("c", "y", 20, "naive", 3, 2), ("c", "y", 20, "rank estimate", 3, 1),
        ("d", "z", 20, "naive", 3, 0), ("d", "z", 20, "rank estimate", 3, 1),
        ("e", "w", 20, "naive", 3, 3), ("e", "w", 20, "rank estimate", 3, 0),
        ("e", "w", 50, "naive", 3, 0), ("e", "w", 50, "rank estimate", 3, 3),
    )  # fmt: skip
    counts = reversals.against_reported(table, "ap", 20, "pairs", "rank estimate")
    assert counts == {"fewer": 2, "equal": 1, "more": 1}

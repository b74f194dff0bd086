"""What follows from the benchmark's ranks, against enumeration and simulation, and the bundle."""

import math

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark
from sampled_book.experiments import evidence
from sampled_book.experiments.evidence import KINDS
from sampled_metrics import Protocol
from sampled_metrics.ranking.intervals import RankIntervals


@pytest.fixture(scope="module")
def toy():
    """Three recommenders, two alike, and a random one; 300 users, some ties, unequal catalogues."""
    rng = np.random.default_rng(8)
    items = rng.integers(150, 200, 300)

    def ranks(power, tied):
        better = np.minimum((items * rng.random(300) ** power).astype(int), items - 1)
        return RankIntervals(
            better, np.minimum(tied * rng.integers(0, 4, 300), items - 1 - better), items
        )

    return {
        "Good": ranks(3, 0),
        "Near": ranks(2.7, 1),
        "Poor": ranks(1.5, 3),
        "Random": ranks(1, 0),
    }


@pytest.mark.parametrize("replacement", [False, True])
def test_moments_are_those_of_every_users_distribution(replacement):
    ranks = [
        RankIntervals([0, 4, 9], [0, 3, 0], [10, 12, 10]),
        RankIntervals([2, 0, 5], [1, 0, 0], [10, 12, 10]),
    ]
    vectors = np.random.default_rng(2).normal(size=(5, 3))
    moments = evidence.moments(ranks, vectors, 4, replacement)
    means = np.zeros((2, 3, 3))
    variances = np.zeros((2, 3))
    for row, intervals in enumerate(ranks):
        for user in range(3):
            pmf = RankIntervals(
                *(
                    [getattr(intervals, name)[user]]
                    for name in ("n_better", "n_tied", "n_candidates")
                )
            )
            pmf = pmf.sampled_pmf(4, replacement)[0]
            for k in range(3):
                mean = math.fsum(pmf * vectors[:, k])
                means[row, user, k] = mean
                variances[row, k] += math.fsum(pmf * (vectors[:, k] - mean) ** 2) / 3
    assert np.allclose(moments.mean, means.mean(axis=1))
    assert np.allclose(moments.within, variances)
    for k in range(3):
        assert np.allclose(moments.between[k], np.cov(means[:, :, k], bias=True))


@pytest.mark.parametrize("replacement", [False, True])
def test_errors_and_orders_are_those_of_simulated_evaluations(toy, replacement):
    m, metric_name, draws = 20, "ndcg@10", 1_500
    errors, pairs = evidence.exact(toy, m, replacement, [metric_name])
    rng = np.random.default_rng(3)
    items = toy["Good"].n_candidates
    protocol = Protocol(round(items.mean()), m, replacement=replacement)
    corrections = evidence.corrections(metric_name, protocol, items.size, {1: 0.5, 40: 0.5})
    averages = {}
    for name, intervals in toy.items():
        above = np.array([intervals.ranks("random", rng) - 1 for _ in range(draws)])
        if replacement:
            drawn = rng.binomial(m, above / (items - 1))
        else:
            drawn = rng.hypergeometric(above, items - 1 - above, m)
        for estimator in ("naive", "bias-variance", "monotone"):
            averages[name, estimator] = corrections[estimator].values[drawn].mean(axis=1)
    for row in errors.to_dict("records"):
        if (row["recommender"], row["estimator"]) not in averages:
            continue
        reported = averages[row["recommender"], row["estimator"]]
        assert abs(reported.mean() - row["exact"] - row["bias"]) < 5 * row["sd"] / math.sqrt(draws)
        assert math.isclose(reported.std(), row["sd"], rel_tol=0.1)
        rmse = math.sqrt(((reported - row["exact"]) ** 2).mean())
        assert math.isclose(rmse, row["rmse"], rel_tol=0.1)
    for row in pairs[pairs["estimator"] != "rank estimate"].to_dict("records"):
        if (row["first"], row["estimator"]) not in averages:
            continue
        gap = averages[row["first"], row["estimator"]] - averages[row["second"], row["estimator"]]
        assert abs((np.sign(gap) != np.sign(row["exact"])).mean() - row["wrong"]) < 0.05


def test_the_interval_holds_the_metric_of_users_like_these_as_often_as_it_says(toy):
    errors, _ = evidence.exact(toy, 20, False, ["recall@10"])
    chosen = errors[(errors["estimator"] == "bias-variance") & (errors["recommender"] == "Near")]
    row = chosen.iloc[0]
    rng = np.random.default_rng(4)
    intervals = toy["Near"]
    protocol = Protocol(round(intervals.n_candidates.mean()), 20, replacement=False)
    values = evidence.corrections("recall@10", protocol, 300, {1: 1.0})["bias-variance"].values
    n_covered = 0
    for _ in range(2_000):
        users = rng.integers(300, size=300)
        items = intervals.n_candidates[users]
        above = intervals.n_better[users] + rng.integers(intervals.n_tied[users] + 1)
        reported = values[rng.hypergeometric(above, items - 1 - above, 20)]
        n_covered += abs(reported.mean() - row["exact"]) < 1.96 * reported.std() / math.sqrt(300)
    assert abs(n_covered / 2_000 - row["covered"]) < 0.02


def test_what_is_always_level_is_no_order(toy):
    _, pairs = evidence.exact(toy, 20, False, ["recall@50"])
    naive = pairs[pairs["estimator"] == "naive"]  # everybody is among the best 50 of 21
    assert naive["expected"].eq(0).all()
    assert naive["wrong"].eq(0.5).all()
    assert naive[["said_right", "said_wrong"]].eq(0).all(axis=None)


def test_falls_spread_ties_and_miss_nobody():
    ranks = {"A": RankIntervals([0, 1, 3, 3], [0, 2, 0, 3], [9, 9, 9, 8])}
    users = evidence.users_by_doubling(ranks).set_index("first")["users"]
    # The second user is at 2, 3 or 4; the last one at 4, 5, 6 or 7.
    assert users.to_dict() == pytest.approx({1: 1, 2: 2 / 3, 4: 1 / 3 + 2, 8: 0})


def test_a_rise_is_told_in_standard_errors():
    better = np.repeat([0, 1, 2, 3, 5, 6], [100, 10, 10, 20, 45, 30])
    ranks = {"A": RankIntervals(better, np.zeros_like(better), np.full_like(better, 1_000))}
    row = evidence.shapes(ranks, 1_000).iloc[0]  # of the first ten ranks
    assert not row["decreasing"]
    assert row["head"] == 10
    per_rank = 95 / 4
    error = math.sqrt(95 / 16 + 20 / 4)
    assert row["rise"] == pytest.approx((per_rank - 10) / error)
    falling = {"B": RankIntervals([0, 0, 0, 1], [0] * 4, [40] * 4)}
    assert evidence.shapes(falling, 100)["decreasing"].tolist() == [True]


# --- the bundle -----------------------------------------------------------------------------------


def test_the_bundle_has_every_cell():
    for kind in KINDS:
        table = evidence.bundled(kind)
        assert list(dict.fromkeys(table["data"])) == list(benchmark.DATA)
        metrics = evidence.METRICS if kind in ("errors", "pairs") else evidence.JUDGED
        drawn = ["replacement"] * (kind in ("errors", "pairs"))
        cells = table.groupby(["data", "m", "metric", *drawn]).ngroups
        sizes = [m for m in evidence.SIZES if kind not in KINDS[4:] or m <= evidence.MOST_EFFECTS]
        assert cells == len(benchmark.DATA) * len(sizes) * len(metrics) * 2 ** len(drawn)
        if kind in ("verdicts", "possible"):
            logs = table.groupby("m")["draw"].nunique()
            assert logs.to_dict() == {m: evidence.DRAWS.get(m, 1) for m in evidence.SIZES}
    with pytest.raises(ValueError, match="kind must be one of"):
        evidence.bundled("pair")
    with pytest.raises(FileNotFoundError, match="no evidence of 'lastfn'"):
        evidence.bundled("pairs", ["lastfn"])


def test_a_cell_of_the_bundle_is_what_is_computed():
    ranks = benchmark.ranks("lastfm")
    bundled = {kind: evidence.bundled(kind, ["lastfm"]) for kind in KINDS}
    for kind, table in zip(KINDS, evidence.exact(ranks, 20, True), strict=False):
        rows = bundled[kind][(bundled[kind]["m"] == 20) & bundled[kind]["replacement"]]
        same(rows, table)
    for kind, table in zip(KINDS[2:], evidence.drawn(ranks, 20, "recall@10"), strict=False):
        cell = (bundled[kind]["m"] == 20) & (bundled[kind]["metric"] == "recall@10")
        rows = bundled[kind][cell & (bundled[kind]["draw"] == 0)]
        same(rows, table)


def same(rows, table):
    assert len(rows) == len(table) > 0
    for column in table:
        if pd.api.types.is_numeric_dtype(table[column]) and table[column].dtype != bool:
            expected, computed = rows[column].to_numpy(float), table[column].to_numpy(float)
            # How short a range is depends on how near a fit comes to its optimum.
            close = {"rtol": 0.01, "atol": 2e-4} if column in ("low", "high") else {"rtol": 2e-4}
            assert np.allclose(expected, computed, equal_nan=True, **({"atol": 1e-6} | close)), (
                column
            )
        else:
            assert rows[column].astype(str).tolist() == table[column].astype(str).tolist(), column


def test_evidence_of_a_folder_of_ranks(tmp_path, toy, capsys):
    ranks = {"Good": toy["Good"], "Popular": toy["Poor"], "Random": toy["Random"]}
    benchmark.write("toy", ranks, {}, {}, tmp_path)
    assert evidence.main(["--ranks", str(tmp_path), "--sizes", "20"]) == 0
    assert "toy, m 20, metric ndcg@10" in capsys.readouterr().out
    assert evidence.main(["--ranks", str(tmp_path), "--sizes", "20"]) == 0
    assert capsys.readouterr().out == ""  # all is there
    pairs = evidence.bundled("pairs", folder=tmp_path / "evidence")
    assert set(zip(pairs["first"], pairs["second"], strict=True)) == {("Good", "Popular")}
    assert evidence.naive_orders(pairs)["reversed"].sum() == 0
    verdicts = evidence.by_assumption(evidence.bundled("verdicts", folder=tmp_path / "evidence"))
    assert verdicts["pairs"].sum() == len(evidence.JUDGED)
    assert evidence.main(["--data", "none"]) == 2
    assert evidence.main(["--ranks", str(tmp_path / "nowhere")]) == 2
    assert "must hold ranks" in capsys.readouterr().err
    with pytest.raises(ValueError, match="toy must have users with more than 900 candidates"):
        evidence.run("toy", ranks, tmp_path, [900])

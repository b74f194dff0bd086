"""Evidence on protocols, counted in another way, and a folder of one's own."""

import numpy as np
import pandas as pd
import pytest

from sampled_book.chapters import instead
from sampled_book.data import benchmark
from sampled_book.experiments import evidence, protocols
from sampled_metrics.ranking.intervals import RankIntervals


@pytest.fixture(scope="module")
def bench():
    return instead.Bench()


def test_pairs_in_the_wrong_order_are_those_of_the_ranks(bench):
    name, metric_name = "lastfm", "recall@10"
    ranks = benchmark.ranks(name)
    cell = bench.cell("pairs")
    pairs = cell[(cell["data"] == name) & (cell["estimator"] == "naive") & (cell["users"] >= 5)]
    wrong = 0
    for a, b in zip(pairs["first"], pairs["second"], strict=True):
        exact, sampled = (
            [mean_of(ranks[recommender]) for recommender in (a, b)]
            for mean_of in (
                lambda intervals: intervals.evaluate(metric_name).mean(),
                lambda intervals: intervals.sampled_pmf(100)[:, :10].sum(axis=1).mean(),
            )
        )
        wrong += (exact[0] - exact[1]) * (sampled[0] - sampled[1]) < 0
    assert instead.reversed_by(bench, name)["100 uniform"] == wrong


def test_seconds_are_those_of_the_facts(bench):
    row = instead.seconds(bench).set_index("Data").loc["beauty"]
    spent = [
        record["processor seconds"] for record in benchmark.facts("beauty")["recommenders"].values()
    ]
    assert np.isclose(row["Ranking"], sum(record["ranking"] for record in spent))
    assert np.isclose(row["Share"] * row["Training"], row["Ranking"])


def test_what_moves_a_report(bench):
    row = instead.moved(bench).set_index("Data").loc["lastfm"]
    means = bench.means("lastfm").mean()
    assert np.isclose(means["100 uniform"] * (1 + row["by popularity"]), means["100 by popularity"])
    assert np.isclose(means["100 uniform"] * (1 + row["20 uniform"]), means["20 uniform"])
    assert row["20 uniform"] > 0 > row["500 uniform"]


def test_a_data_set_of_ones_own_is_tried_and_too_small_a_one_left_out(tmp_path):
    rng = np.random.default_rng(4)
    for name, items in (("large", 150), ("small", 30)):
        size, powers = np.full(80, items), {"Popular": 1.5, "Near": 2.0, "Far": 3.0, "Random": 1.0}
        drawn_ranks = {
            each: RankIntervals((items * rng.random(80) ** power).astype(int), 0 * size, size)
            for each, power in powers.items()
        }
        shares = {
            recommender: benchmark.in_bins(intervals.n_better / items, intervals.n_better / items)
            for recommender, intervals in drawn_ranks.items()
        }
        seconds = {"processor seconds": {"tuning": 1.0, "training": 1.0, "ranking": 1.0}}
        facts = {"users": 80, "items": items, "recommenders": dict.fromkeys(powers, seconds)}
        benchmark.write(name, drawn_ranks, facts, shares, tmp_path)
    for name in ("large", "small"):
        ranks = benchmark.ranks(name, tmp_path)
        for m in (20, 100):
            if m < ranks["Popular"].n_candidates.min():
                drawn = {"m": m, "replacement": False}
                parts = dict(zip(evidence.KINDS, evidence.exact(ranks, m, False), strict=False))
                parts |= {"effects": protocols.effects(ranks, m)}
                parts |= {"fewer": protocols.fewer_users(ranks, m)}
                for kind, table in parts.items():
                    path = tmp_path / "evidence" / f"{name}.{kind}.csv.gz"
                    old = [pd.read_csv(path)] if path.exists() else []
                    cell = drawn if kind in ("errors", "pairs") else {"m": m}
                    evidence.write(path, pd.concat([*old, table.assign(**cell)]))
        for kind in ("verdicts", "possible", "fitted"):
            table = evidence.bundled(kind, ["lastfm"]).drop(columns="data").iloc[:0]
            evidence.write(tmp_path / "evidence" / f"{name}.{kind}.csv.gz", table)
    bench = instead.Bench(tmp_path)
    assert list(bench.where) == [*benchmark.DATA, "large"]
    assert instead.seconds(bench)["Data"].iloc[-1] == "large"
    assert instead.Bench(tmp_path, n_negatives=20).where.keys() >= {"small", "large"}
    assert "small, Recall@10" in evidence.lookup("own", folder=tmp_path)._repr_html_()

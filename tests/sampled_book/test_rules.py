"""Evidence on protocols, counted in another way, and a folder of one's own."""

import numpy as np
import pytest

from sampled_book.chapters import instead
from sampled_book.data import benchmark


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

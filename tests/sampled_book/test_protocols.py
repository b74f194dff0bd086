"""What a choice of candidates does to recommenders, against enumeration and simulation."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark
from sampled_book.data.benchmark import RECOMMENDERS, Sequences
from sampled_book.experiments import protocols
from sampled_metrics.ranking.intervals import RankIntervals


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(3)
    return Sequences.from_users([rng.permutation(15)[: rng.integers(3, 9)] for _ in range(40)])


def test_shares_are_the_popularity_above_the_test_item(sequences):
    learnt, held_out = sequences.without_last(1)
    entry = RECOMMENDERS["RP3beta"]
    scores = entry.learn(learnt, alpha=1.0, beta=0.5)
    users = np.array([7, 0, 21])
    low, high = benchmark.popularity_above(entry, scores, learnt, held_out, users)
    counts = np.bincount(learnt.items, minlength=learnt.n_items)
    for row, user in enumerate(users):
        seen = set(learnt.items[learnt.starts[user] : learnt.starts[user + 1]])
        negatives = [i for i in range(learnt.n_items) if i not in seen and i != held_out[user]]
        user_scores = scores(np.array([user]))[0]
        test_score = user_scores[held_out[user]]
        total = sum(counts[i] for i in negatives)
        above = sum(counts[i] for i in negatives if user_scores[i] > test_score * (1 + 1e-9))
        tied = sum(
            counts[i] for i in negatives if math.isclose(user_scores[i], test_score, rel_tol=1e-9)
        )
        assert math.isclose(low[row], above / total, abs_tol=1e-12)
        assert math.isclose(high[row], (above + tied) / total, abs_tol=1e-12)


def test_bins_keep_every_user_and_the_mean_share():
    rng = np.random.default_rng(5)
    low = np.concatenate([rng.random(200) ** 4, [0.0, 1.0]])
    high = np.minimum(1.0, low + np.where(rng.random(202) < 0.5, 0.0, rng.random(202)))
    bins = benchmark.in_bins(low, high)
    assert math.isclose(bins["users"].sum(), 202)
    assert math.isclose(bins["share"] @ bins["users"], ((low + high) / 2).sum(), rel_tol=1e-12)
    assert bins["share"].between(0, 1).all()
    assert bins["share"].is_monotonic_increasing


def test_reports_among_popular_negatives_are_those_of_drawn_ones():
    rng = np.random.default_rng(6)
    low = rng.random(400) ** 2
    high = np.minimum(1.0, low + np.where(rng.random(400) < 0.3, 0.2, 0.0))
    shares = benchmark.in_bins(low, high).assign(recommender="A")
    expected = protocols.among_popular(shares, "ndcg@10", 50)["A"]
    drawn = rng.binomial(50, rng.uniform(low, high, (4_000, 400)))
    values = np.where(drawn < 10, 1 / np.log2(drawn + 2), 0.0).mean(axis=1)
    assert abs(values.mean() - expected) < 5 * values.std() / math.sqrt(4_000) + 1e-4


def test_pairs_turn_round_where_the_signs_differ_and_the_order_rests_on_enough_users():
    of_each = pd.DataFrame(
        {"sample": [0.9, 0.5, 0.6], "all items": [0.1, 0.2, 0.3]}, index=["A", "B", "C"]
    )
    pairs = pd.DataFrame(
        [("ap", a, b, 3 if (a, b) == ("A", "C") else 30) for a, b in combinations("ABC", 2)],
        columns=["metric", "first", "second", "users"],
    )
    counts = protocols.reversed_orders(of_each, pairs, "ap")
    assert counts.to_dict() == {"sample": 1, "pairs": 2}  # A and B; A and C rests on three


def test_fewer_users_have_the_orders_of_drawn_users():
    rng = np.random.default_rng(9)
    items = np.full(500, 250)
    ranks = {
        name: RankIntervals((249 * rng.random(500) ** power).astype(int), np.zeros(500, int), items)
        for name, power in (("A", 2.0), ("B", 2.6), ("Random", 1.0))
    }
    ranks["Popular"] = ranks.pop("A")
    row = protocols.fewer_users(ranks, 24, ["ndcg@10"]).iloc[0]
    assert row["users"] == 50
    values = [ranks[name].evaluate("ndcg@10") for name in ("Popular", "B")]
    gaps = values[0] - values[1]
    drawn = np.array([gaps[rng.permutation(500)[:50]] for _ in range(4_000)])
    mean, error = drawn.mean(axis=1), drawn.std(axis=1) / math.sqrt(50)
    sign = np.sign(gaps.mean())
    assert abs((mean * sign < 0).mean() - row["wrong"]) < 0.03
    assert abs(((mean * sign) - 1.96 * error > 0).mean() - row["said_right"]) < 0.04
    assert abs(((mean * sign) + 1.96 * error < 0).mean() - row["said_wrong"]) < 0.01


def test_ties_first_at_random_and_last_among_drawn_negatives():
    ranks = {"Popular": RankIntervals([0, 2, 5], [4, 0, 3], [10, 10, 10])}
    row = protocols.effects(ranks, 3, ["recall@1"]).iloc[0]

    def chance(above):  # of three of the nine others, none above
        return math.comb(9 - above, 3) / math.comb(9, 3)

    assert math.isclose(row["first"], (chance(0) + chance(2) + chance(5)) / 3)
    assert math.isclose(row["last"], (chance(4) + chance(2) + chance(8)) / 3)
    at_random = [np.mean([chance(x) for x in r]) for r in (range(5), [2], range(5, 9))]
    assert math.isclose(row["sampled"], float(np.mean(at_random)))


def test_a_list_among_negatives_is_like_a_longer_one_among_all():
    better = np.arange(10_000) % 2_000
    ranks = {"Popular": RankIntervals(better, np.zeros_like(better), np.full_like(better, 2_001))}
    row = protocols.effects(ranks, 100, ["recall@10"]).iloc[0]
    assert math.isclose(row["exact"], 10 / 2_000)
    assert math.isclose(row["deep"], 200 / 2_000)
    assert abs(row["sampled"] - 10 / 101) < 1e-3  # all ranks alike: all of 101 sampled ranks

"""Complete data against brute force, toys against all samples, and the choice against the ranks."""

from math import log2
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom, kendalltau

from sampled_book.data import benchmark
from sampled_book.experiments import choosing, complete_data

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"n_users": 12, "n_items": 130}


def ranks_by_hand(data, scores, user):
    """Ranks of the user's relevant items that are not for training, among all others that are not,
    and among the irrelevant ones, from pairwise comparisons. Items in order break ties.
    """
    items = range(scores.shape[1])
    others = [i for i in items if not data.is_train[user, i]]
    relevant = [i for i in others if data.is_relevant[user, i]]

    def is_above(i, j):
        return (-scores[user, i], i) < (-scores[user, j], j)

    ranks = {i: 1 + sum(is_above(j, i) for j in others) for i in relevant}
    alone = {
        i: 1 + sum(is_above(j, i) for j in others if not data.is_relevant[user, j])
        for i in relevant
    }
    return ranks, alone


def by_hand(data, scores, worth):
    """Means over users: (expected worth of the held-out item's rank, of a random relevant item's,
    of its rank among irrelevant items, sum over the relevant items).
    """
    rows = []
    for user in range(len(scores)):
        ranks, alone = ranks_by_hand(data, scores, user)
        weights = {i: data.exposure[user, i] for i in ranks}
        rows.append(
            (
                sum(weights[i] * worth(ranks[i]) for i in ranks) / sum(weights.values()),
                sum(map(worth, ranks.values())) / len(ranks),
                sum(map(worth, alone.values())) / len(ranks),
                sum(map(worth, ranks.values())),
            )
        )
    return np.mean(rows, axis=0)


def test_distributions_of_twenty_items_are_those_of_pairwise_comparisons():
    rng = np.random.default_rng(3)
    shape = (5, 20)
    is_train = np.argsort(np.argsort(rng.random(shape), axis=1), axis=1) < complete_data.N_TRAIN
    is_relevant = is_train | (rng.random(shape) < 0.5)
    assert (is_relevant & ~is_train).any(axis=1).all()
    data = complete_data.World(rng.random(shape), is_relevant, rng.random(shape), is_train)
    scores = rng.integers(0, 6, shape).astype(float)  # with ties
    found = complete_data.rank_distributions(data, scores)
    for depth in range(1, 11):
        expected = by_hand(data, scores, lambda rank: rank <= depth)  # noqa: B023
        sums = [found[key][:depth].sum() for key in ("held out", "relevant", "alone", "count")]
        assert sums == pytest.approx(expected)


@pytest.mark.parametrize("setup", complete_data.SETUPS)
def test_values_are_means_over_held_out_items_and_samples(setup):
    m = 30
    data = complete_data.world(setup, 5, **SMALL)
    n = SMALL["n_items"] - complete_data.N_TRAIN
    scores = complete_data.recommenders(data, 5)

    def sampled(gain):
        above = np.arange(n)[:, np.newaxis]
        curve = hypergeom(n - 1, above, m).pmf(range(10)) @ [gain(k + 1) for k in range(10)]
        return lambda rank: curve[rank - 1]

    gains = {
        "recall@10": (lambda rank: float(rank <= 10), 1.0),
        "ndcg@10": (
            lambda rank: (rank <= 10) / log2(rank + 1),
            sum(1 / log2(rank + 1) for rank in range(1, 11)),
        ),
    }
    for name, (gain, ideal) in gains.items():
        table = complete_data.values(setup, 5, name, [m], **SMALL)
        assert list(table.index) == list(scores)
        for recommender in ("taste, noise 1", "popularity", "EASE"):
            rounded = np.round(scores[recommender], 9)
            held_out, share, alone, total = by_hand(data, rounded, gain)
            row = table.loc[recommender]
            assert row["exact", n - 1] == pytest.approx(held_out)
            assert row["alone", n - 1] == pytest.approx(alone)
            true = share if name == "recall@10" else total / ideal
            assert row["true", n - 1] == pytest.approx(true)
            assert row["sampled", m] == pytest.approx(by_hand(data, rounded, sampled(gain))[0])
            deeper = (
                (lambda rank: rank <= 40)
                if name == "recall@10"
                else (lambda rank: (rank <= 40) / log2(rank + 1))
            )
            assert row["deeper", m] == pytest.approx(by_hand(data, rounded, deeper)[0])


def test_exact_recall_is_true_where_data_are_missing_at_random_and_not_elsewhere():
    for setup in complete_data.SETUPS:
        table = complete_data.values(setup, 1, sizes=[20], **SMALL)
        gaps = np.abs(table["exact"].to_numpy() - table["true"].to_numpy())
        if setup == complete_data.AT_RANDOM:
            assert gaps.max() < 1e-12
        else:
            assert gaps.max() > 0.01


def test_set_ups_expose_what_they_say():
    worlds = {setup: complete_data.world(setup, 4) for setup in complete_data.SETUPS}
    counts = worlds[complete_data.AT_RANDOM].is_relevant.sum(axis=0)
    for setup, data in worlds.items():
        assert (data.is_train.sum(axis=1) == complete_data.N_TRAIN).all()
        assert not (data.is_train & ~data.is_relevant).any()
        assert (data.is_relevant.sum(axis=0) == counts).all(), setup
        sizes = data.is_relevant.sum(axis=1)
        assert sizes.min() >= complete_data.FEWEST
        assert sizes.max() <= complete_data.MOST
    page = worlds[complete_data.FRONT_PAGE].exposure
    assert (page == page[0]).all()
    assert (page[0] == 10).sum() == 20
    assert counts[page[0] == 10].min() >= counts[page[0] == 1].max()
    lists = worlds[complete_data.OLD_LISTS].exposure
    assert ((lists == 10).sum(axis=1) == 20).all()
    assert not (lists == lists[0]).all()
    popular = worlds[complete_data.BY_POPULARITY].exposure
    assert (popular == counts + 1).all()
    # Of the training items, more are on the front page than if nothing had been shown.
    on_page = {key: (w.is_train & (page == 10)).sum() for key, w in worlds.items()}
    assert on_page[complete_data.FRONT_PAGE] > 2 * on_page[complete_data.AT_RANDOM]


def test_shares_of_reversed_pairs_are_those_of_kendalls_tau():
    setup, sizes = complete_data.BY_POPULARITY, (20, 100)
    found = complete_data.orders(setup, range(1), "ndcg@10", "alone", sizes)
    assert list(found.index) == [20, 100, 989]
    for m, kind in ((20, "sampled"), (100, "deeper"), (989, "sampled")):
        shares = []
        for seed in range(1):
            table = complete_data.values(setup, seed, "ndcg@10", sizes)
            column = table["exact", 989] if m == 989 else table[kind, m]
            tau = kendalltau(table["alone", 989], column).statistic
            shares.append((1 - tau) / 2)
        assert found.loc[m, kind] == pytest.approx(np.mean(shares))


@pytest.mark.matrix
def test_fewer_negatives_err_less_on_a_front_page_only_and_so_does_a_deeper_metric():
    for setup in complete_data.SETUPS:
        table = complete_data.orders(setup, range(2), sizes=(20, 100))
        fewest, exact = table.iloc[0], table.iloc[-1]
        assert (table["sampled"] - table["deeper"]).abs().max() < 0.05
        if setup == complete_data.FRONT_PAGE:
            assert (fewest < exact - 0.1).all()
        else:
            assert (fewest > exact).all()


def test_crossings_are_the_last_sizes_at_or_above_the_true_value():
    columns = pd.MultiIndex.from_tuples(
        [("true", 99), ("sampled", 5), ("sampled", 10), ("sampled", 20)]
    )
    table = pd.DataFrame([[0.5, 0.9, 0.5, 0.4], [0.1, 0.3, 0.2, 0.1]], ["A", "B"], columns)
    assert complete_data.crossings(table).to_dict() == {"A": 10, "B": 20}


# --- choosing -------------------------------------------------------------------------------------


def test_choices_are_those_of_the_sampled_ranks():
    names = ["camra2011", "retailrocket"]
    table = choosing.choices([20, 100], names).set_index(["data", "m"])
    gains = [1 / log2(rank + 1) for rank in range(1, 11)]
    for name in names:
        ranks = benchmark.ranks(name)
        del ranks["Random"]
        exact = {key: r.evaluate("ndcg@10").mean() for key, r in ranks.items()}
        for m in (20, 100):
            sampled = {key: (r.sampled_pmf(m)[:, :10] @ gains).mean() for key, r in ranks.items()}
            row = table.loc[name, m]
            assert row["taken"] == max(sampled, key=sampled.get)
            assert row["best"] == max(exact, key=exact.get)
            assert row["loss"] == pytest.approx(1 - exact[row["taken"]] / max(exact.values()))
    assert (table["loss"] >= 0).all()
    assert (table["loss"] > 0).any()


def test_data_sets_of_a_source_count_alike():
    table = pd.DataFrame(
        {
            "data": list("abc"),
            "group": ["s", "s", "t"],
            "m": 100,
            "taken": list("AAB"),
            "best": list("ABC"),
            "loss": [0.0, 0.2, 0.3],
        }
    )
    row = choosing.summary(table).loc[100]
    assert row["other"] == pytest.approx((0.5 + 1) / 2)
    assert row["mean"] == pytest.approx(0.2)
    assert row["median"] == pytest.approx(0.2)
    assert row["90%"] == pytest.approx(0.28)
    assert row["worst"] == pytest.approx(0.3)

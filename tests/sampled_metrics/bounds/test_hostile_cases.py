"""Populations and logs that are hard on a proof: each was once missed."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sampled_metrics import Protocol, compare, estimate, metric, read_log
from sampled_metrics.bounds import assumption, bets
from sampled_metrics.bounds.identification import interval


@pytest.mark.filterwarnings("ignore:the log. up to:UserWarning")
def test_each_recommender_has_the_range_of_its_own_users():
    """One has users with one relevant item, the other with ten, all of them at the top."""
    first_rows = [("A", user, 1, 1) for user in range(300)]
    second_rows = [("B", user, rank, 10) for user in range(300, 600) for rank in range(1, 11)]
    columns = ["recommender", "user", "rank", "n_relevant"]
    log = read_log(
        pd.DataFrame(first_rows + second_rows, columns=columns),
        n_items=200,
        n_negatives=20,
        replacement=False,
    )
    frame = estimate(log, ["precision@10"], assumption=None).frame.set_index("recommender")
    assert frame.possible_low["A"] <= 0.1 <= frame.possible_high["A"]
    assert frame.possible_low["B"] <= 1.0 - 1e-12 <= frame.possible_high["B"]


def test_the_assumption_is_not_of_ranks_that_a_user_lacks():
    """Users spread evenly over their own 60 items, judged in a catalogue of 66."""
    protocols = [Protocol(60, 5), Protocol(66, 5)]
    counts = [
        users * protocol.pmf(np.arange(1, protocol.n_items + 1)).mean(axis=0)
        for protocol, users in zip(protocols, (1e6, 100.0), strict=True)
    ]
    bounds = interval(np.round(counts), protocols, "recall@10", assumption="decreasing")
    assert bounds.low <= 1 / 6 <= bounds.high


def test_many_users_with_two_catalogue_sizes_are_not_missed():
    """A random stretch of the users has another mix of sizes than all of them."""
    rng, users, m = np.random.default_rng(5), 100_000, 20
    protocols = [Protocol(60, m), Protocol(3_000, m)]
    uniform_pmf = protocols[1].pmf(np.arange(1, 3_001)).mean(axis=0)
    exact, n_missed = 0.5 + 0.5 * 10 / 3_000, 0
    for _ in range(10):  # bets learnt from stretches missed more than two
        counts = [users * np.eye(m + 1)[0], rng.multinomial(users, uniform_pmf / uniform_pmf.sum())]
        bounds = interval(counts, protocols, "recall@10", assumption="decreasing")
        n_missed += not bounds.low <= exact <= bounds.high
    assert n_missed <= 2


def test_draws_of_one_tied_item_are_above_or_below_together():
    """Two items are level with the relevant one, and each is drawn again and again."""
    users, n_drawn = 5_000, 100
    rng = np.random.default_rng(0)
    tied = rng.binomial(n_drawn, 2 / 100, size=users)
    rows = pd.DataFrame({"user": range(users), "n_better": 0, "n_tied": tied})
    log = read_log(rows, n_items=101, n_negatives=n_drawn, replacement=True)
    row = estimate(log, ["rr"], assumption=None).frame.iloc[0]
    assert row.possible_low <= (1 + 1 / 2 + 1 / 3) / 3 <= row.possible_high


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(
    "kinds",
    [
        [(1, 1, 1, 3), (2, 1, 1, 3)],
        [(20, 1, 1, 200), (22, 1, 1, 205), (5, 1, 1, 40)],
        [(6, r, j, 60 + r) for r in (2, 4) for j in range(1, r + 1)],
    ],
)
def test_no_true_rank_is_expected_to_win_more_than_its_certificate(kinds, replacement):
    """By the law of each user's own catalogue, from another library."""
    kinds, parsed_metric = np.array(kinds), metric("recall@2")
    parts = bets.partition(kinds, np.ones(len(kinds)), parsed_metric, replacement)
    built_bets = bets.build(parts, None, np.log(40.0), 1_000.0)
    for kind, (m, relevant, j, items) in enumerate(kinds.tolist()):
        pool, x = items - relevant, np.arange(m + 1)
        above = np.arange(pool + 1)[:, np.newaxis]
        if replacement:
            pmfs = stats.binom.pmf(x, m, above / pool)
        else:
            pmfs = stats.hypergeom.pmf(x, pool, above, m)
        metric_values = parsed_metric.term(above.ravel() + j, j, relevant, items)
        net_values = built_bets.values(bets.Rows(np.full(m + 1, kind), x)) @ pmfs.T
        net_values -= np.outer(built_bets.sign * built_bets.slope, metric_values)
        assert (net_values.max(axis=1) <= built_bets.certificates[:, kind] + 1e-11).all()


@pytest.mark.parametrize(
    "kinds",
    [
        [(4, 1, 1, 60), (20, 1, 1, 60), (59, 1, 1, 60)],
        [(6, 1, 1, 60), (6, 2, 1, 60), (9, 20, 1, 60), (5, 57, 1, 60)],
    ],
)
def test_an_assumption_holds_for_users_whose_kinds_depend_on_their_ranks(kinds, monkeypatch):
    """Ranks decrease, and at each rank all users have the kind that wins most."""
    monkeypatch.setattr(assumption, "_NEGATIVES_ABOVE", 2)  # so that it ends within the catalogue
    bets._built.cache_clear()
    kinds, parsed_metric = np.array(kinds), metric("hit@5")
    kinds[:, 0] = np.minimum(kinds[:, 0], kinds[:, 3] - kinds[:, 1])
    one_population = np.zeros(len(kinds), dtype=int)
    parts = bets.partition(
        kinds, np.ones(len(kinds)), parsed_metric, False, population=one_population
    )
    built_bets = bets.build(parts, "decreasing", np.log(40.0), 1_000.0)
    bets._built.cache_clear()
    ranks = np.arange(1, 60)
    largest_by_rank = np.full((built_bets.sign.size, ranks.size), -np.inf)
    for kind, (m, relevant, _, items) in enumerate(kinds.tolist()):
        pool, x = items - relevant, np.arange(m + 1)
        best_ranks = ranks[: pool + 1]  # ranks of the best item of such users
        pmfs = stats.hypergeom.pmf(x, pool, best_ranks[:, np.newaxis] - 1, m)
        net_values = built_bets.values(bets.Rows(np.full(m + 1, kind), x)) @ pmfs.T
        net_values -= np.outer(
            built_bets.sign * built_bets.slope, parsed_metric.term(best_ranks, 1, relevant, items)
        )
        largest_by_rank[:, : best_ranks.size] = np.maximum(
            largest_by_rank[:, : best_ranks.size], net_values
        )
    top = int(2.0 * 60 / kinds[:, 0].min())
    averages = np.cumsum(largest_by_rank, axis=1)[:, :top] / ranks[:top]
    largest = np.maximum(averages.max(axis=1), largest_by_rank[:, top:].max(axis=1))
    assert (largest[:, np.newaxis] <= built_bets.certificates + 1e-9).all()


def ranks_among(rng, ranks, n, m):
    return rng.hypergeometric(ranks - 1, n - ranks, m) + 1


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.filterwarnings("ignore:maximum entropy did not converge:RuntimeWarning")
def test_users_with_deep_ranks_may_have_fewer_negatives(seed):
    """Ranks 1 to 20 are equally frequent, and those beyond 10 are among 20 negatives only."""
    rng, users, n = np.random.default_rng(seed), 4_000, 500
    true_ranks = rng.integers(1, 21, users)
    m = np.where(true_ranks > 10, 20, 200)
    better_ranks = np.where(rng.random(users) < 0.04, rng.integers(1, 11, users), true_ranks[::-1])
    sampled = {"n_items": n, "n_negatives": m, "rank": ranks_among(rng, true_ranks, n, m)}
    exact = {"n_items": n, "n_negatives": n - 1, "rank": better_ranks}
    log = pd.concat(
        pd.DataFrame({"recommender": name, "user": range(users)} | columns)
        for name, columns in (("A", sampled), ("C", exact))
    )
    log = read_log(log, replacement=False)
    estimates = estimate(log, ["recall@10"])
    row = estimates.frame.iloc[0]
    assert (row.recommender, row.assumption) == ("A", "decreasing at the top")
    assert row.possible_low <= 0.5 <= row.possible_high
    # C has one number of negatives, and keeps all of them.
    row = estimates.frame.iloc[1]
    assert row.possible_low <= 0.52 <= row.possible_high < row.possible_low + 0.2
    # The learned prior takes all users for a sample of one population, and the log refutes it.
    note, outside, no_typical = estimates.notes
    assert "different numbers of negatives (20 to 200)" in note
    assert outside.startswith("the estimate of recall@10 for A is outside the 95% interval")
    assert no_typical.startswith("no typical range for recall@10: users have 20 to 499 negatives")
    assert compare(log, "recall@10").verdicts["A", "C"] != "A beats C"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.filterwarnings("ignore:the log. up to:UserWarning")
def test_users_with_deep_ranks_may_have_more_relevant_items(seed):
    """And fewer negatives."""
    rng, users, n = np.random.default_rng(seed), 4_000, 500
    true_ranks = rng.integers(1, 21, users)
    relevant, m = np.where(true_ranks > 10, 4, 1), np.where(true_ranks > 10, 20, 200)
    rows = {"user": range(users), "n_relevant": relevant, "n_negatives": m}
    rows |= {"rank": ranks_among(rng, true_ranks, n - relevant + 1, m)}
    other_rows = [(user, 4, 20, 20 + j) for user in np.flatnonzero(relevant > 1) for j in (2, 3, 4)]
    log = pd.concat([pd.DataFrame(rows), pd.DataFrame(other_rows, columns=list(rows))])
    row = estimate(read_log(log, n_items=n, replacement=False), ["hit@10"]).frame.iloc[0]
    assert row.assumption == "decreasing at the top"
    assert row.possible_low <= 0.5 <= row.possible_high

"""Plans against enumeration, against simulated evaluations and against what cannot be otherwise."""

from itertools import product
from math import comb
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Protocol, estimators, metric, planning
from sampled_metrics.log.read import read_log
from sampled_metrics.orders import Order, PopulationPair, order
from sampled_metrics.planning import ESTIMATORS, EXACT, fitted
from sampled_metrics.protocol import thinned


def plan(*arguments, **options):
    """The table alone, of two recommenders A and B."""
    first, second, *others = arguments
    return planning.plan({"A": first, "B": second}, *others, **options).frame


def chances(pair, name, protocols, users, by):
    """The probability of the right verdict by an estimator, for each protocol and users."""
    return [
        order(
            *pair,
            estimators.by_name(by, metric(name), protocol, gamma=estimators.default_gamma(n_users)),
            n_users=n_users,
        ).probability
        for n_users in users
        for protocol in protocols
    ]


BETTER, WORSE = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
SEED = 20


def with_negatives(n_items, *numbers):
    return [Protocol(n_items, m) for m in numbers]


def test_mean_and_variance_by_enumeration():
    # Every pair of a user's ranks and every pair of sampled ranks, each with its probability.
    first, second = {1: 0.25, 4: 0.75}, {2: 0.5, 3: 0.125, 6: 0.375}
    protocol = Protocol(n_items=6, n_negatives=2)
    estimator = estimators.rank_estimate(metric("ap"), protocol)
    outcomes = []
    for (r, p), (s, q) in product(first.items(), second.items()):
        for x, y in product(range(3), repeat=2):
            weight = p * q * protocol.pmf(r)[x] * protocol.pmf(s)[y]
            outcomes.append((weight, estimator.values[x] - estimator.values[y]))
    weight, difference = np.array(outcomes).T
    pair_order = order(first, second, estimator, n_users=7)
    assert weight.sum() == pytest.approx(1)
    assert pair_order.expected == pytest.approx(weight @ difference)
    variance = weight @ difference**2 - (weight @ difference) ** 2
    assert pair_order.sd == pytest.approx(np.sqrt(variance / 7))
    exact = 0.25 + 0.75 / 4 - (0.5 / 2 + 0.125 / 3 + 0.375 / 6)
    assert pair_order.exact == pytest.approx(exact)


def test_a_fit_says_what_the_log_says():
    # The sampled ranks of the fit have the shares of the log, up to what many users smooth away.
    rng = np.random.default_rng(SEED)
    protocol, ranks = Protocol(300, 9), rng.geometric(0.02, 100_000).clip(1, 300)
    rows = pd.DataFrame({"user": np.arange(100_000), "rank": protocol.draw(ranks, rng)})
    log = read_log(rows, n_items=300, n_negatives=9, replacement=True)
    mass_by_rank = fitted(log, 300)["recommender"]
    fitted_ranks, mass = np.array(list(mass_by_rank)), np.array(list(mass_by_rank.values()))
    observed = np.bincount(rows["rank"] - 1, minlength=10) / 100_000
    assert mass @ protocol.pmf(fitted_ranks) == pytest.approx(observed, abs=0.01)
    assert mass @ fitted_ranks == pytest.approx(ranks.mean(), rel=0.03)
    # In a catalogue ten times as large, users have the same share of the items above theirs.
    larger = fitted(log, 2_991)["recommender"]
    mean = sum(rank * share for rank, share in larger.items())
    assert (mean - 1) / 2_990 == pytest.approx((mass @ fitted_ranks - 1) / 299, rel=0.01)


def test_ties_count_in_equal_parts_for_each_place():
    tied = pd.DataFrame({"user": range(30), "n_better": [0] * 30, "n_tied": [2] * 30})
    spread = pd.DataFrame({"user": range(30), "rank": [1, 2, 3] * 10})
    of_tied, of_spread = (
        fitted(read_log(rows, n_items=50, n_negatives=5, replacement=True), 50)
        for rows in (tied, spread)
    )
    assert list(of_tied["recommender"].values()) == pytest.approx(
        list(of_spread["recommender"].values())
    )


def test_some_of_the_negatives_are_a_smaller_sample():
    # By hand: of 3 negatives, 1 above; 2 of them hold it with probability 2/3.
    assert thinned(3, 2)[1] == pytest.approx([1 / 3, 2 / 3, 0])
    assert thinned(4, 4) == pytest.approx(np.eye(5))
    # The law with m negatives, thinned, is the law with fewer.
    for replacement in (True, False):
        pmfs_of_7, pmfs_of_4 = (
            Protocol(30, m, replacement=replacement).pmf(np.arange(1, 31)) for m in (7, 4)
        )
        assert pmfs_of_7 @ thinned(7, 4) == pytest.approx(pmfs_of_4, abs=1e-12)
    mixed = pd.DataFrame({"user": range(8), "rank": [1, 2] * 4, "n_negatives": [5, 5, 6, 6] * 2})
    mass_by_rank = fitted(read_log(mixed, n_items=50, replacement=True), 50)["recommender"]
    assert sum(mass_by_rank.values()) == pytest.approx(1)


def test_a_plan_opens_what_estimate_opens(tmp_path):
    options = {"estimators": "naive", "max_negatives": 1}
    expected = planning.plan(read_log("bundled"), "auc", **options).frame
    pd.testing.assert_frame_equal(planning.plan("bundled", "auc", **options).frame, expected)
    rows = pd.DataFrame({"recommender": list("AABB"), "user": [0, 1] * 2, "rank": [1, 3, 5, 2]})
    rows = rows.assign(n_items=50, n_negatives=9)
    path = tmp_path / "log.csv"
    rows.to_csv(path, index=False)
    log = read_log(rows, replacement=True)
    expected = planning.plan(log, "auc", **options).frame
    for source in (path, str(path), rows):
        found = planning.plan(source, "auc", replacement=True, **options).frame
        pd.testing.assert_frame_equal(found, expected)


def test_a_plan_takes_the_populations_of_recommenders(tmp_path):
    populations = {"A": BETTER, "B": WORSE, "C": {4: 0.4, 400: 0.6}}
    protocol, options = Protocol(1_000, 100), {"estimators": "naive", "max_negatives": 20}
    planned = planning.plan(populations, "ndcg@10", protocol, 60, **options)
    two = planning.plan({"A": BETTER, "C": populations["C"]}, "ndcg@10", protocol, 60, **options)
    pair_rows = planned.frame.query("first == 'A' and second == 'C'").reset_index(drop=True)
    pd.testing.assert_frame_equal(two.frame, pair_rows)
    planned.write(tmp_path / "plan.html")
    assert "60 users, 1,000 items, 100 negatives" in (tmp_path / "plan.html").read_text()


#: Two populations and their plan, and an instance that `plan` has no place for.
TWO = {"A": BETTER, "B": WORSE}
SAMPLED = {"protocol": Protocol(1_000, 9), "n_users": 5}
SAME = {"A": {1: 1.0}, "B": {2: 1.0}}
SEVERAL = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "rank": [1, 2, 1]})
LOGGED = {"n_items": 50, "n_negatives": 5, "replacement": True}


def said_of(first, second):
    return {"A": first, "B": second}, {"protocol": Protocol(100, 50), "n_users": 5}


@pytest.mark.parametrize(
    ("data", "arguments", "said"),
    [
        ({2: 0.3, 500: 0.7}, {}, "data must map the names of recommenders to .* got the name 2"),
        (TWO, {"n_users": 5}, "protocol must be given with populations"),
        (TWO, {"protocol": Protocol(1_000, 9)}, "n_users must be given with populations"),
        (TWO, SAMPLED | {"n_items": 9}, "n_items must be left out with populations, got 9"),
        ("bundled", {"protocol": Protocol(3_706, 9)}, "protocol must be left out with a log"),
        (read_log(SEVERAL[1:], **LOGGED), {"replacement": False}, "must be True as in the log"),
        (read_log(SEVERAL, **LOGGED), {}, "one relevant item for each user"),
        (*said_of([1, 2], [1]), "the same users, got 2 and 1"),
        (*said_of({1: 0.5}, {2: 1.0}), "first must hold probabilities that sum to 1"),
        (*said_of({1: 1.0}, {101: 1.0}), "ranks of second must be <= 100"),
        (
            SAME,
            SAMPLED | {"protocol": Protocol(10, 5, replacement=False), "max_negatives": 10},
            r"max_negatives must be a whole number in \[1, 9\]",
        ),
        (SAME, SAMPLED | {"protocol": Protocol(100, 9, n_relevant=2)}, "n_relevant = 1 .* got 2"),
        (SAME, SAMPLED | {"protocol": Protocol([100, 90], 9)}, "n_items must be one catalogue"),
        (SAME, SAMPLED | {"estimators": ["nave"]}, "'nave' is unknown: did you mean 'naive'"),
    ],
)
def test_what_a_plan_refuses(data, arguments, said):
    with pytest.raises(ValueError, match=said):
        planning.plan(data, "ap", **arguments)


def test_recommenders_without_an_order_are_left_out():
    ranks = {"A": {1: 1.0}, "B": {1: 1.0}, "C": {5: 1.0}}
    with pytest.warns(UserWarning, match="A and B have the same AP"):
        table = planning.plan(ranks, "ap", Protocol(50, 5), 5, estimators=["naive"]).frame
    assert set(zip(table["first"], table["second"], strict=True)) == {("A", "C"), ("B", "C")}
    with (
        pytest.warns(UserWarning, match="A and B"),
        pytest.raises(ValueError, match="all recommenders have the same AP"),
    ):
        planning.plan({"A": {1: 1.0}, "B": {1: 1.0}}, "ap", Protocol(50, 5), 5)


def test_arrays_are_drawn_as_pairs():
    # By hand: AUC differs by 1/9 for one user and by 3/9 for the other, and the sample is exact.
    first, second = [1, 4], [2, 7]
    estimator = estimators.naive(metric("auc"), Protocol(10, 9, replacement=False))
    paired = order(first, second, estimator, n_users=4)
    assert paired.expected == pytest.approx(2 / 9)
    assert paired.sd == pytest.approx(np.std([1 / 9, 3 / 9]) / 2)
    independent = order({1: 0.5, 4: 0.5}, {2: 0.5, 7: 0.5}, estimator, n_users=4)
    assert independent.expected == pytest.approx(paired.expected)
    assert independent.sd == pytest.approx(np.sqrt(np.var([0, 3 / 9]) + np.var([1 / 9, 6 / 9])) / 2)


def test_what_the_plan_asks_for_is_enough_and_one_less_is_not():
    table = plan(BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100), 50).set_index("estimator")
    for name in ESTIMATORS:
        m = int(table.loc[name, "negatives_needed"])
        samples = with_negatives(1_000, m - 1, m)
        low, high = chances((BETTER, WORSE), "ndcg@10", samples, [50], name)
        assert low < 0.95 <= high
    for name in ESTIMATORS:
        if pd.isna(table.loc[name, "users_needed"]):
            continue
        users = int(table.loc[name, "users_needed"])
        sample = with_negatives(1_000, 100)
        low, high = chances((BETTER, WORSE), "ndcg@10", sample, [users - 1, users], name)
        assert low < 0.95 <= high


def test_gamma_follows_the_users_that_are_needed():
    arguments = BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100)
    needed_at_5, needed_at_5000 = (
        plan(*arguments, n_users, estimators=["bias-variance"], max_negatives=1)["users_needed"][0]
        for n_users in (5, 5_000)
    )
    assert needed_at_5 == needed_at_5000
    users = [needed_at_5 - 1, needed_at_5]
    samples = with_negatives(1_000, 100)
    fewer, enough = chances((BETTER, WORSE), "ndcg@10", samples, users, "bias-variance")
    assert fewer < 0.95 <= enough


def test_more_users_cannot_mend_a_wrong_order_and_negatives_can():
    table = plan(BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100), 50).set_index("estimator")
    assert table["users_needed"].isna().to_dict()["naive"]
    assert table.loc["naive", "negatives_needed"] > 100
    samples = with_negatives(1_000, 50)
    wrong = chances((BETTER, WORSE), "ndcg@10", samples, [10, 100, 1_000], "naive")
    assert (np.diff(wrong) < 0).all()


def test_the_confidence_is_kept_by_every_later_step():
    # For few negatives the naive order is right by accident, then wrong, then right for good.
    first, second = {1: 0.5, 90: 0.5}, {9: 1.0}
    samples = with_negatives(100, 1, 5, 99)
    right = [one > 0.5 for one in chances((first, second), "ap", samples, [10**4], "naive")]
    table = plan(first, second, metric("ap"), Protocol(100, 5), 10**4, estimators=["naive"])
    assert right[-1]
    needed = int(table["negatives_needed"][0])
    samples = with_negatives(100, *range(needed, 100))
    assert min(chances((first, second), "ap", samples, [10**4], "naive")) >= 0.95


def test_counts_of_scores():
    table = plan(BETTER, WORSE, metric("ap"), Protocol(1_000, 100), 50).set_index("estimator")
    assert table.loc[EXACT, "scores_by_negatives"] == 50 * 1_000
    assert table.loc[EXACT, "scores_by_users"] == 1_000 * table.loc[EXACT, "users_needed"]
    row = table.loc["rank estimate"]
    assert row["scores_by_negatives"] == 50 * (row["negatives_needed"] + 1)
    assert row["scores_by_users"] == row["users_needed"] * 101


def test_ranking_all_items_needs_users_too():
    # 1 where the first wins and -1 where it loses: a coin with probability 0.6.
    first, second = [1] * 3 + [100] * 2, [100] * 3 + [1] * 2
    table = plan(first, second, metric("recall@1"), Protocol(100, 10), 401, max_negatives=1)
    exact = table.iloc[-1]
    at_least_201 = sum(comb(401, k) * 0.6**k * 0.4 ** (401 - k) for k in range(201, 402))
    assert exact["probability"] == pytest.approx(at_least_201, abs=1e-5)
    chance = [sum(comb(n, k) * 0.6**k * 0.4 ** (n - k) for k in range(n // 2 + 1, n + 1))
              for n in (exact["users_needed"] - 3 | 1, exact["users_needed"] + 3 | 1)]  # fmt: skip
    assert chance[0] < 0.95 < chance[1]


def test_counts_beyond_all_numbers_are_missing_or_refused():
    populations = {1: 0.5, 9: 0.5}, {1: 0.5 - 1e-8, 9: 0.5 + 1e-8}
    table = plan(
        *populations, metric("ap"), Protocol(10**5, 5), 10, estimators=["naive"], max_negatives=1
    )
    # More than there can be: 2.7 / (8 / 9 * 1e-8)**2 times a variance of 0.4.
    assert (
        PopulationPair.of(*populations, metric("ap"), Protocol(10**5, 5)).exact(10).users() > 10**15
    )
    assert table[["users_needed", "scores_by_users"]].iloc[-1].isna().all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_verdict_takes_the_name_of_an_estimator(name):
    protocol, gamma = Protocol(300, 20), estimators.default_gamma(40)
    estimator = estimators.by_name(name, "ndcg@10", protocol, gamma=gamma)
    for users, options in ((20, {}), (2, {"n_users": 40})):
        arguments = [3, 40] * users, [5, 20] * users
        pair_order = order(*arguments, name, "ndcg@10", protocol, **options)
        assert pair_order == order(*arguments, estimator, **options)


def test_a_plan_says_what_is_enough():
    protocol = Protocol(1_000, 100)
    # Who samples knows less than who ranks all: fewer users are enough by a bias alone.
    beside = {"A": {5: 0.01, 50: 0.99}, "B": {900: 1.0}}
    biased = planning.plan(beside, "recall@10", protocol, 60, estimators="naive")
    assert biased.frame["users_needed"][0] < biased.frame["users_needed"][1]
    assert "but only because its bias favours the better" in biased.sentences[0]
    out_of_reach = planning.plan(TWO, "ndcg@10", protocol, 60, estimators="naive", max_negatives=9)
    assert out_of_reach.sentences[0].startswith(
        "A and B on NDCG@10: up to 9 negatives for 60 users, or 100 for any number of users, do "
        "not reach the right order with probability 0.95; ranking all items takes "
    )


def test_the_detectable_difference_is_right_with_the_confidence():
    # As many users as planned, whose expected difference is just this.
    for row in plan(BETTER, WORSE, "ndcg@10", Protocol(1_000, 100), 50).to_dict("records"):
        sd = row["detectable"] / NormalDist().inv_cdf(0.95)
        assert Order(0.1, row["detectable"], sd, 50).probability == pytest.approx(0.95)
    exact = PopulationPair.of(BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100)).exact(50)
    assert sd == pytest.approx(exact.sd)

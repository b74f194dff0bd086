"""Plans against enumeration, against simulated evaluations and against what cannot be otherwise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from operator import mul

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, xlogy

from sampled_metrics import Protocol, RelevantSets, estimators, metric, planning
from sampled_metrics.adaptive import Adaptive
from sampled_metrics.consistency import sign
from sampled_metrics.differences import Differences
from sampled_metrics.log.read import read_log
from sampled_metrics.log_plans import fitted
from sampled_metrics.planning import ESTIMATORS, EXACT, curve, for_pairs
from sampled_metrics.protocol import thinned
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.sequential import rebinned
from sampled_metrics.verdicts import Verdict, _Pair, verdict
from tests.reference import exact_pmf


def plan(*given, **options) -> pd.DataFrame:
    """The table alone."""
    return planning.plan(*given, **options).frame


BETTER, WORSE = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
SEED = 20


def with_negatives(n_items: int, *numbers: int) -> list[Protocol]:
    return [Protocol(n_items, m) for m in numbers]


def test_mean_and_variance_by_enumeration() -> None:
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
    found = verdict(first, second, estimator, n_users=7)
    assert weight.sum() == pytest.approx(1)
    assert found.expected == pytest.approx(weight @ difference)
    variance = weight @ difference**2 - (weight @ difference) ** 2
    assert found.sd == pytest.approx(np.sqrt(variance / 7))
    exact = 0.25 + 0.75 / 4 - (0.5 / 2 + 0.125 / 3 + 0.375 / 6)
    assert found.exact == pytest.approx(exact)


def test_a_fit_says_what_the_log_says() -> None:
    # The sampled ranks of the fit have the shares of the log, up to what many users smooth away.
    rng = np.random.default_rng(SEED)
    protocol, ranks = Protocol(300, 9), rng.geometric(0.02, 100_000).clip(1, 300)
    rows = pd.DataFrame({"user": np.arange(100_000), "rank": protocol.draw(ranks, rng)})
    log = read_log(rows, n_items=300, n_negatives=9, replacement=True)
    found = fitted(log, 300)["recommender"]
    at, mass = np.array(list(found)), np.array(list(found.values()))
    observed = np.bincount(rows["rank"] - 1, minlength=10) / 100_000
    assert mass @ protocol.pmf(at) == pytest.approx(observed, abs=0.01)
    assert mass @ at == pytest.approx(ranks.mean(), rel=0.03)
    # In a catalogue ten times as large, users have the same share of the items above theirs.
    larger = fitted(log, 2_991)["recommender"]
    mean = sum(rank * share for rank, share in larger.items())
    assert (mean - 1) / 2_990 == pytest.approx((mass @ at - 1) / 299, rel=0.01)


def test_ties_count_in_equal_parts_for_each_place() -> None:
    tied = pd.DataFrame({"user": range(30), "n_better": [0] * 30, "n_tied": [2] * 30})
    apart = pd.DataFrame({"user": range(30), "rank": [1, 2, 3] * 10})
    one, two = (
        fitted(read_log(t, n_items=50, n_negatives=5, replacement=True), 50) for t in (tied, apart)
    )
    assert list(one["recommender"].values()) == pytest.approx(list(two["recommender"].values()))


def test_fewer_ranks_have_the_same_moments() -> None:
    # The whole distribution against its condensed form: a smooth one with a heavy head.
    n = 20_000
    mass = np.arange(1, n + 1) ** -0.7
    mass /= mass.sum()
    grid = planning.rank_grid(n)
    few = rebinned(mass, np.arange(1, n + 1), grid)
    assert grid.size < 500
    assert few.sum() == pytest.approx(1, abs=1e-12)
    assert few @ grid == pytest.approx(mass @ np.arange(1, n + 1), rel=1e-12)
    for name in ("recall@10", "ndcg@10", "ap", "auc"):
        for m in (10, 100):
            estimator = estimators.rank_estimate(metric(name), Protocol(n, m))
            whole = mass @ estimator.expected(np.arange(1, n + 1))
            assert few @ estimator.expected(grid) == pytest.approx(whole, rel=1e-3)


def test_a_plan_takes_one_item_a_user() -> None:
    several = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "rank": [1, 2, 1]})
    with pytest.raises(ValueError, match="one relevant item for each user"):
        fitted(read_log(several, n_items=50, n_negatives=5, replacement=True), 50)


def test_some_of_the_negatives_are_a_smaller_sample() -> None:
    # By hand: of 3 negatives, 1 above; 2 of them hold it with probability 2/3.
    assert thinned(3, 2)[1] == pytest.approx([1 / 3, 2 / 3, 0])
    assert thinned(4, 4) == pytest.approx(np.eye(5))
    # The law with m negatives, thinned, is the law with fewer.
    for replacement in (True, False):
        more, fewer = (
            Protocol(30, m, replacement=replacement).pmf(np.arange(1, 31)) for m in (7, 4)
        )
        assert more @ thinned(7, 4) == pytest.approx(fewer, abs=1e-12)
    mixed = pd.DataFrame({"user": range(8), "rank": [1, 2] * 4, "n_negatives": [5, 5, 6, 6] * 2})
    found = fitted(read_log(mixed, n_items=50, replacement=True), 50)["recommender"]
    assert sum(found.values()) == pytest.approx(1)


def test_recommenders_without_an_order_are_left_out() -> None:
    ranks = {"A": {1: 1.0}, "B": {1: 1.0}, "C": {5: 1.0}}
    with pytest.warns(UserWarning, match="A and B have the same AP"):
        found = for_pairs(plan, ranks, metric("ap"), Protocol(50, 5), 5, estimators=["naive"])
    assert set(zip(found["first"], found["second"], strict=True)) == {("A", "C"), ("B", "C")}
    with (
        pytest.warns(UserWarning, match="A and B"),
        pytest.raises(ValueError, match="all recommenders have the same AP"),
    ):
        for_pairs(plan, {"A": {1: 1.0}, "B": {1: 1.0}}, metric("ap"), Protocol(50, 5), 5)
    with pytest.raises(ValueError, match="two recommenders or more, got 1"):
        for_pairs(plan, {"A": {1: 1.0}}, metric("ap"), Protocol(50, 5), 5)


def test_arrays_are_drawn_as_pairs() -> None:
    # By hand: AUC differs by 1/9 for one user and by 3/9 for the other, and the sample is exact.
    first, second = [1, 4], [2, 7]
    estimator = estimators.naive(metric("auc"), Protocol(10, 9, replacement=False))
    found = verdict(first, second, estimator, n_users=4)
    assert found.expected == pytest.approx(2 / 9)
    assert found.sd == pytest.approx(np.std([1 / 9, 3 / 9]) / 2)
    apart = verdict({1: 0.5, 4: 0.5}, {2: 0.5, 7: 0.5}, estimator, n_users=4)
    assert apart.expected == pytest.approx(found.expected)
    assert apart.sd == pytest.approx(np.sqrt(np.var([0, 3 / 9]) + np.var([1 / 9, 6 / 9])) / 2)


def test_probabilities_are_of_users_who_are_drawn() -> None:
    estimator = estimators.naive("ap", Protocol(100, 5))
    with pytest.raises(ValueError, match="n_users is needed where second holds probabilities"):
        verdict([1], {2: 1.0}, estimator)


def test_users_who_are_all_alike_are_the_fixed_users() -> None:
    estimator = estimators.naive(metric("ndcg@10"), Protocol(1_000, 50))
    drawn = verdict({3: 1.0}, {8: 1.0}, estimator, n_users=5)
    fixed = verdict([3] * 5, [8] * 5, estimator)
    assert drawn.expected == pytest.approx(fixed.expected)
    assert drawn.sd == pytest.approx(fixed.sd)
    assert drawn.exact == pytest.approx(fixed.exact)


@pytest.mark.some(1)
@pytest.mark.simulation
@pytest.mark.parametrize("name", ESTIMATORS)
def test_probability_is_the_share_of_right_verdicts_of_simulated_evaluations(name: str) -> None:
    rng = np.random.default_rng(SEED)
    first, second = rng.integers(1, 120, 400), rng.integers(1, 160, 400)
    second[:80] = first[:80]
    n_users, repetitions, protocol = 400, 20_000, Protocol(500, 40)
    found = plan(first, second, metric("ap"), protocol, n_users, estimators=[name], max_negatives=1)
    gamma = estimators.default_gamma(n_users)
    estimator = estimators.by_name(name, metric("ap"), protocol, gamma=gamma)
    right = np.sign(metric("ap")(first).mean() - metric("ap")(second).mean())
    differences = []
    for _ in range(20):
        users = rng.integers(0, 400, (repetitions // 20, n_users))
        one, two = (estimator(protocol.draw(ranks[users], rng)) for ranks in (first, second))
        differences.append(one.mean(axis=1) - two.mean(axis=1))
    # Sums that are equal in whole numbers differ by rounding.
    difference = np.concatenate(differences)
    ties = np.abs(difference) < 1e-12
    share = (right * difference >= 1e-12).mean()
    assert found["probability"][0] == pytest.approx(share, abs=0.03)
    assert found["ties"][0] == pytest.approx(ties.mean(), abs=0.01)
    assert 0.55 < share < 0.995  # or nothing is shown


def test_what_the_plan_asks_for_is_enough_and_one_less_is_not() -> None:
    found = plan(BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100), 50).set_index("estimator")
    for name in ESTIMATORS:
        m = int(found.loc[name, "negatives_needed"])
        at = curve(
            BETTER, WORSE, metric("ndcg@10"), with_negatives(1_000, m - 1, m), 50, estimators=[name]
        )
        low, high = at["probability"][:2]
        assert low < 0.95 <= high
    for name in ESTIMATORS:
        if pd.isna(found.loc[name, "users_needed"]):
            continue
        u = int(found.loc[name, "users_needed"])
        at = curve(
            BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100), [u - 1, u], estimators=[name]
        )
        low, high = at["probability"][:2]
        assert low < 0.95 <= high


def listed(ranks: list[int], estimator: estimators.Estimator) -> tuple[np.ndarray, np.ndarray]:
    """All sums of the values of some users, and how likely each is."""
    sums, chances = np.zeros(1), np.ones(1)
    for rank in ranks:
        law = estimator.protocol.pmf([rank])[0]
        sums = np.add.outer(sums, estimator.values).ravel()
        chances = np.outer(chances, law).ravel()
    return sums, chances


FAR_APART = [
    ("rank estimate", "ap", Protocol(10_000, 40), [2784], [2401]),
    ("rank estimate", "rr", Protocol(10_000, 5), [4854], [7190]),
    ("rank estimate", "ap", Protocol(10_000, 5, replacement=False), [5085], [4618]),
    ("bias-variance", "ap", Protocol(1_000, 20, replacement=False), [537], [575]),
    ("least bias", "ap", Protocol(1_000, 20), [3], [919]),
    ("least bias", "ndcg@10", Protocol(10_000, 12), [2], [9812]),
    ("rank estimate", "ndcg", Protocol(1_000, 20), [721, 30], [650, 60]),
    ("rank estimate", "rr", Protocol(10_000, 5), [4649, 9000], [9706, 100]),
    ("bias-variance", "rr", Protocol(10_000, 8), [3112, 5122, 3365], [2292, 8285, 2349]),
    ("rank estimate", "ap", Protocol(10_000, 5), [7865, 966, 8898], [6991, 4414, 862]),
]


@pytest.mark.parametrize(("name", "of", "protocol", "first", "second"), FAR_APART)
def test_few_users_with_values_of_very_different_sizes(
    name: str, of: str, protocol: Protocol, first: list[int], second: list[int]
) -> None:
    estimator = estimators.by_name(name, of, protocol, gamma=1.0)
    (ours, chances), (theirs, weights) = (listed(r, estimator) for r in (first, second))
    order = np.argsort(theirs)
    below = np.append(0.0, np.cumsum(weights[order]))
    near = 1e-11 * np.abs(ours)
    ahead, level = (
        below[np.searchsorted(theirs[order], ours + side, way)]
        for side, way in ((-near, "left"), (near, "right"))
    )
    ahead, level = chances @ ahead, chances @ (level - ahead)
    found = verdict(first, second, estimator)
    right = ahead if found.exact > 0 else 1 - ahead - level
    # Sums whose terms cancel, or nearly, are told from level ones to a share of their terms only.
    assert (found.probability, found.ties) == pytest.approx((right, level), abs=2e-4)


@pytest.mark.parametrize(
    ("name", "of", "first", "second"),
    [("rank estimate", "rr", 9295, 7092), ("rank estimate", "ap", 8620, 8730)],
)
def test_tens_of_users_with_values_of_very_different_sizes(
    name: str, of: str, first: int, second: int
) -> None:
    # Twelve users at one rank: how many of them have each sampled rank is multinomial.
    users, protocol = 12, Protocol(10_000, 5)
    estimator = estimators.by_name(name, of, protocol)
    ways = [each for each in product(range(users + 1), repeat=5) if sum(each) <= users]
    many = np.array([(*each, users - sum(each)) for each in ways])
    coefficients = gammaln(users + 1) - gammaln(many + 1).sum(axis=1)
    ours, theirs = (
        np.exp(coefficients + xlogy(many, protocol.pmf([rank])[0]).sum(axis=1))
        for rank in (first, second)
    )
    sums = many @ estimator.values
    order = np.argsort(sums)
    below = np.append(0.0, np.cumsum(theirs[order]))
    ahead = ours @ below[np.searchsorted(sums[order], sums - 1e-11 * sums)]
    level = ours @ below[np.searchsorted(sums[order], sums + 1e-11 * sums)] - ahead
    found = verdict([first] * users, [second] * users, estimator)
    right = ahead if found.exact > 0 else 1 - ahead - level
    assert (found.probability, found.ties) == pytest.approx((right, level), abs=1e-3)


def test_no_more_than_one_copy_of_the_given_users_is_needed_where_one_is_enough() -> None:
    found = verdict([3] * 50, [8] * 50, "naive", "ap", Protocol(1_000, 200))
    assert found.probability > 0.99
    # Some of them do, as far as the normal distribution says.
    assert found.users(0.99) == replace(found, differences=None).users(0.99) == 10
    # A user's difference is 0 or 1, never below: the normal distribution asks for 37 of 30 users.
    differences = Differences(np.array([0.0, 1.0]), np.array([[0.8, 0.2]]), np.array([30.0]))
    found = Verdict._of(0.2, differences, 30, 30)
    assert found.probability == pytest.approx(1 - 0.8**30)
    assert replace(found, differences=None).users(0.9987) == 37
    assert found.users(0.9987) == 30


def test_shares_of_users_drawn_at_random_by_enumeration() -> None:
    # Three users, each with a pair of ranks, and every pair of sampled ranks, in fractions.
    pairs = [(1, 3), (4, 2), (2, 5)]
    n, m = 6, 2
    laws = {rank: exact_pmf(n, m, rank, True) for rank in range(1, n + 1)}
    for name in ("recall@1", "ap", "ndcg", "auc"):
        estimator = estimators.naive(metric(name), Protocol(n, m))
        one = metric(name)([a for a, _ in pairs], n).sum()
        two = metric(name)([b for _, b in pairs], n).sum()
        if sign(one, two) == 0:
            continue
        each = {
            (x, y): sum((laws[a][x] * laws[b][y] for a, b in pairs), Fraction(0)) / 3
            for x, y in product(range(m + 1), repeat=2)
        }
        right, ties = Fraction(0), Fraction(0)
        for users in product(each, repeat=3):
            chance = prod((each[user] for user in users), start=Fraction(1))
            total = sum(estimator.values[x] - estimator.values[y] for x, y in users)
            right += chance if total * (one - two) > 1e-12 else 0
            ties += chance if abs(total) <= 1e-12 else 0
        first, second = zip(*pairs, strict=True)
        found = verdict(first, second, estimator, n_users=3)
        assert found.probability == pytest.approx(float(right), abs=1e-9)
        assert found.ties == pytest.approx(float(ties), abs=1e-9)


@pytest.mark.matrix
def test_shares_of_users_drawn_at_random_by_simulation() -> None:
    rng, runs = np.random.default_rng(8), 20_000
    for name, users in (("recall@10", 40), ("ndcg@10", 15)):
        protocol = Protocol(1_000, 90)
        estimator = estimators.naive(metric(name), protocol)
        found = verdict(BETTER, WORSE, estimator, n_users=users)
        a, b = (
            estimator.values[
                rng.binomial(90, (rng.choice(list(d), (users, runs), p=list(d.values())) - 1) / 999)
            ]
            for d in (BETTER, WORSE)
        )
        difference = (a - b).sum(axis=0)
        shares = np.mean(difference > 1e-9), np.mean(np.abs(difference) <= 1e-9)
        for share, said in zip(shares, (found.probability, found.ties), strict=True):
            assert share == pytest.approx(said, abs=4 * np.sqrt(said * (1 - said) / runs) + 1e-3)


def test_a_plan_tells_ties_from_right_verdicts() -> None:
    # One user in a thousand has an item that few negatives can push out of the sampled top ten.
    first, second = {2: 0.999, 400: 0.001}, {2: 0.998, 400: 0.002}
    found = plan(first, second, metric("recall@10"), Protocol(1_000, 20), 30, estimators=["naive"])
    tied = curve(first, second, metric("recall@10"), Protocol(1_000, 20), 30, estimators=["naive"])
    out = sum(exact_pmf(1_000, 20, 400, True)[10:])
    one, two = (
        [comb(30, k) * p**k * (1 - p) ** (30 - k) for k in range(31)]
        for p in (out / 1_000, out / 500)
    )  # users who have lost their item
    assert found["ties"][0] == pytest.approx(float(sum(map(mul, one, two)))) == tied["ties"][0]
    right = sum(p * q for (i, p), (j, q) in product(enumerate(one), enumerate(two)) if i < j)
    assert found["probability"][0] == pytest.approx(float(right))
    users = int(found["users_needed"][0])
    near = curve(
        first,
        second,
        metric("recall@10"),
        Protocol(1_000, 20),
        [users - 1, users],
        estimators=["naive"],
    )
    assert near["probability"][0] < 0.95 <= near["probability"][1]


def test_gamma_follows_the_users_that_are_needed() -> None:
    given = BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100)
    one, many = (
        plan(*given, n_users, estimators=["bias-variance"], max_negatives=1)["users_needed"][0]
        for n_users in (5, 5_000)
    )
    assert one == many
    at = curve(*given, [one - 1, one], estimators=["bias-variance"])["probability"]
    assert at[0] < 0.95 <= at[1]


def test_more_users_cannot_mend_a_wrong_order_and_negatives_can() -> None:
    found = plan(BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100), 50).set_index("estimator")
    assert found["users_needed"].isna().to_dict()["naive"]
    assert found.loc["naive", "negatives_needed"] > 100
    wrong = curve(
        BETTER,
        WORSE,
        metric("ndcg@10"),
        Protocol(1_000, 50),
        [10, 100, 1_000],
        estimators=["naive"],
    )
    assert (np.diff(wrong["probability"][:3]) < 0).all()


def test_the_confidence_is_kept_by_every_later_step() -> None:
    # For few negatives the naive order is right by accident, then wrong, then right for good.
    first, second = {1: 0.5, 90: 0.5}, {9: 1.0}
    at = curve(
        first, second, metric("ap"), with_negatives(100, 1, 5, 99), 10**4, estimators=["naive"]
    )
    right = (at["probability"][:3] > 0.5).tolist()
    found = plan(first, second, metric("ap"), Protocol(100, 5), 10**4, estimators=["naive"])
    assert right[-1]
    needed = int(found["negatives_needed"][0])
    samples = with_negatives(100, *range(needed, 100))
    later = curve(first, second, metric("ap"), samples, 10**4, estimators=["naive"])
    assert (later["probability"] >= 0.95).all()


def of_sets(ranks: list[list[int]], n: int) -> RelevantSets:
    """Sets without ties from the true ranks of their items."""
    true = np.array(ranks)
    size = true.shape[1]
    above = true - np.arange(1, size + 1)
    levels = np.tile(np.arange(size), (len(true), 1))
    return RelevantSets(above, np.zeros_like(above), levels, np.full(len(true), n - size))


@pytest.mark.parametrize("name", ["ap", "ndcg@2", "recall@2"])
def test_sets_have_the_mean_and_variance_of_all_their_samples(name: str) -> None:
    # Two users with two items and one with three; every user, and every pair of samples.
    n, m, of = 8, 2, metric(name)
    first, second = [[[1, 4], [2, 7]], [[1, 2, 8]]], [[[3, 4], [1, 8]], [[4, 5, 6]]]

    def reported(ranks: list[int]) -> list[float]:
        others = [r for r in range(1, n + 1) if r not in ranks]
        return [
            of.of_set([j + sum(s < r for s in drawn) for j, r in enumerate(ranks, 1)], m + 3)
            for drawn in combinations(others, m)
        ]

    pairs = [(a, b) for one, two in zip(first, second, strict=True)
             for a, b in zip(one, two, strict=True)]  # fmt: skip
    each = [[x - y for x, y in product(reported(a), reported(b))] for a, b in pairs]
    mean = np.mean([np.mean(values) for values in each])
    square = np.mean([np.mean(np.square(values)) for values in each])
    sets = [[of_sets(ranks, n) for ranks in one] for one in (first, second)]
    pair = planning._pair(*sets, of, Protocol(n, m, replacement=False))
    at = planning._Verdicts(pair, "naive", Protocol(n, m, replacement=False))
    found = at(m, 7)
    assert found.expected == pytest.approx(mean, abs=1e-12)
    assert found.sd == pytest.approx(np.sqrt((square - mean**2) / 7))
    exact = np.array([of.of_set(a) - of.of_set(b) for a, b in pairs])
    assert found.exact == pytest.approx(exact.mean())
    full = pair.exact(7)
    assert full.sd == pytest.approx(exact.std() / np.sqrt(7))
    # Users, and 2 or 3 items each beside the negatives.
    table = plan(*sets, of, Protocol(n, m, replacement=False), 9, estimators="naive")
    assert set(table["scores_by_negatives"].dropna()) <= {21 + 9 * k for k in range(1, 6)} | {72}


def test_intervals_of_ranks_are_planned_for_as_their_ranks() -> None:
    rng = np.random.default_rng(SEED)
    first, second = rng.integers(1, 40, 60), rng.integers(1, 80, 60)
    intervals = [RankIntervals(r - 1, 0 * r, np.full(60, 100)) for r in (first, second)]
    given = metric("ndcg@10"), Protocol(100, 20, replacement=False)
    of_arrays = planning._pair(first, second, *given)
    of_intervals = planning._pair(*intervals, *given)
    assert of_intervals.difference == pytest.approx(of_arrays.difference)
    for name in ESTIMATORS:
        one, two = (planning._Verdicts(pair, name, given[1])(20, 50)
                    for pair in (of_arrays, of_intervals))  # fmt: skip
        assert (two.expected, two.sd) == pytest.approx((one.expected, one.sd), rel=1e-9)
        assert two.probability == pytest.approx(one.probability, abs=0.01)
    # Ties are in random order: the two places of an item are as two users with one each.
    tied = RankIntervals(np.zeros(2, int), np.ones(2, int), np.full(2, 9))
    both = RankIntervals(np.array([0, 1]), np.zeros(2, int), np.full(2, 9))
    other = RankIntervals(np.full(2, 5), np.zeros(2, int), np.full(2, 9))
    spread = [planning._pair(one, other, metric("ap"), Protocol(9, 4)).difference
              for one in (tied, both)]  # fmt: skip
    assert spread[0] == pytest.approx(spread[1])


def test_sets_must_be_of_the_same_users() -> None:
    one, two = of_sets([[1, 4], [2, 7]], 8), of_sets([[3, 4]], 8)
    protocol = Protocol(8, 2, replacement=False)
    with pytest.raises(ValueError, match=r"same users, .* \[\(2, 2\)\] and \[\(1, 2\)\]"):
        plan(one, two, "ap", protocol, 5)
    with pytest.raises(ValueError, match="second must be RankIntervals or RelevantSets as the oth"):
        plan(one, [3, 4], "ap", protocol, 5)
    with pytest.raises(ValueError, match="n_relevant = 1, which gives way"):
        plan(one, one, "ap", replace(protocol, n_relevant=2), 5)
    with pytest.raises(ValueError, match="exact must not be 0"):
        plan(one, one, "ap", protocol, 5)


def test_a_budget_is_divided_as_the_surest_of_all_divisions() -> None:
    given = BETTER, WORSE, metric("ndcg@10")
    names = ["rank estimate", "bias-variance"]
    found = plan(*given, Protocol(1_000, 20), 50, estimators=names, max_negatives=50, budget=1_500)
    for name in names:
        chances = {
            m: curve(*given, Protocol(1_000, m), 1_500 // (m + 1), estimators=[name])
            for m in planning.steps(50)
        }
        surest = max(chances, key=lambda m: chances[m]["probability"][0])
        row = found.set_index("estimator").loc[name]
        assert row["best_negatives"] == surest
        assert row["best_users"] == 1_500 // (surest + 1)
        assert row["best_probability"] == pytest.approx(chances[surest]["probability"][0])
    exact = found.iloc[-1]
    assert exact["best_users"] == 1
    assert exact["best_probability"] == pytest.approx(_Pair.of(
        *given, Protocol(1_000, 20)).exact(1).probability)  # fmt: skip
    none = plan(*given, Protocol(1_000, 20), 50, estimators=names, max_negatives=20, budget=1)
    assert none[["best_negatives", "best_users", "best_probability"]].isna().all(axis=None)
    assert "best_users" not in plan(*given, Protocol(1_000, 20), 50, estimators="naive")


def test_counts_of_scores() -> None:
    found = plan(BETTER, WORSE, metric("ap"), Protocol(1_000, 100), 50).set_index("estimator")
    assert found.loc[EXACT, "scores_by_negatives"] == 50 * 1_000
    assert found.loc[EXACT, "scores_by_users"] == 1_000 * found.loc[EXACT, "users_needed"]
    row = found.loc["rank estimate"]
    assert row["scores_by_negatives"] == 50 * (row["negatives_needed"] + 1)
    assert row["scores_by_users"] == row["users_needed"] * 101


def test_ranking_all_items_needs_users_too() -> None:
    # 1 where the first wins and -1 where it loses: a coin with probability 0.6.
    first, second = [1] * 3 + [100] * 2, [100] * 3 + [1] * 2
    found = curve(
        first, second, metric("recall@1"), Protocol(100, 10), [5, 500], estimators=["naive"]
    )
    exact = found[found["estimator"] == EXACT]["probability"].tolist()
    # At least three of five, which cannot be level.
    assert exact[0] == pytest.approx(sum(comb(5, k) * 0.6**k * 0.4 ** (5 - k) for k in (3, 4, 5)))
    assert found[found["estimator"] == EXACT]["ties"].iloc[0] == pytest.approx(0, abs=1e-12)
    assert exact[1] > 0.999


def test_a_sample_of_the_whole_catalogue_is_exact() -> None:
    protocol = Protocol(600, 599, replacement=False)
    found = plan(BETTER, WORSE, metric("ap"), protocol, 20, max_negatives=1)
    assert found["probability"][0] == pytest.approx(found["probability"].iloc[-1], abs=1e-9)


def test_none_where_the_level_is_out_of_reach() -> None:
    found = plan({3: 1.0}, {4: 1.0}, metric("recall@3"), Protocol(10_000, 10), 2, max_negatives=20)
    assert found["negatives_needed"].isna().all()
    assert found.iloc[-1]["probability"] == 1


def test_without_replacement_there_are_no_more_negatives_than_other_items() -> None:
    protocol = Protocol(10, 5, replacement=False)
    with pytest.raises(ValueError, match=r"max_negatives must be a whole number in \[1, 9\]"):
        plan({1: 1.0}, {2: 1.0}, metric("ap"), protocol, 5, max_negatives=10)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ([], [1], "first must be a list of ranks"),
        ([1, 2], [1], "the same users, got 2 and 1"),
        ({1: 0.5}, {2: 1.0}, "first must hold probabilities that sum to 1"),
        ({1: -0.5, 2: 1.5}, {2: 1.0}, "first must hold probabilities that sum to 1"),
        ({1: 1.0}, {101: 1.0}, "ranks of second must be <= 100"),
        ([1, 2], [2, 1], "exact must not be 0"),
    ],
)
def test_bad_distributions(first: object, second: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan(first, second, metric("ap"), Protocol(100, 50), 5)  # type: ignore[arg-type]


def found_by(n_users: int) -> Verdict:
    estimator = estimators.naive(metric("ap"), Protocol(100, 5))
    return verdict({1: 1.0}, {9: 1.0}, estimator, n_users=n_users)


def test_counts_beyond_all_numbers_are_missing_or_refused() -> None:
    near = {1: 0.5, 9: 0.5}, {1: 0.5 - 1e-8, 9: 0.5 + 1e-8}
    found = plan(*near, metric("ap"), Protocol(10**5, 5), 10, estimators=["naive"], max_negatives=1)
    # More than there can be: 2.7 / (8 / 9 * 1e-8)**2 times a variance of 0.4.
    assert _Pair.of(*near, metric("ap"), Protocol(10**5, 5)).exact(10).users() > 10**15
    assert found[["users_needed", "scores_by_users"]].iloc[-1].isna().all()
    many = planning._row("naive", found_by(10), 2**40 + 1, users=10**12)
    assert many.users_needed == 10**12
    assert many.scores_by_users is None
    with pytest.raises(ValueError, match="n_users must be a whole number in"):
        plan(*near, metric("ap"), Protocol(100, 5), 10**20)
    with pytest.raises(ValueError, match="n_users"):
        curve(*near, metric("ap"), Protocol(100, 5), [10**20])
    with pytest.raises(ValueError, match=r"n_users \* n_items"):
        curve(*near, metric("ap"), Protocol(10**9, 5), [10**12], estimators=["naive"])


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        (1_000, r"protocol must be a Protocol, as in Protocol\(10_000, 99\), got 1000"),
        (
            Protocol(100, 9, n_relevant=2),
            "protocol must be for n_relevant = 1 in each instance, got 2",
        ),
        (Protocol([100, 90], 9), "n_items must be one catalogue size here, got shape"),
        ([], "protocol must hold one Protocol or more, got none"),
        ([Protocol(100, 9), Protocol(90, 5)], "protocols must differ in n_negatives alone, got"),
        (
            [Protocol(9, 4), Protocol(9, 4, replacement=False)],
            "protocols must differ in n_negatives",
        ),
    ],
)
def test_bad_protocols(protocol: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        curve({1: 1.0}, {2: 1.0}, "ap", protocol, 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="protocol must be" if said.startswith("pro") else said):
        plan({1: 1.0}, {2: 1.0}, "ap", protocol, 5)  # type: ignore[arg-type]


def test_bad_names() -> None:
    given = {1: 1.0}, {2: 1.0}, "ap", Protocol(100, 50), 5
    with pytest.raises(ValueError, match="estimator 'nave' is unknown: did you mean 'naive'"):
        plan(*given, estimators=["nave"])
    with pytest.raises(ValueError, match="estimators must hold one name or more, got none"):
        plan(*given, estimators=[])


def test_one_name_stands_for_a_list_of_it() -> None:
    given = {1: 1.0}, {2: 1.0}, "ap", Protocol(100, 50), 5
    alone, listed = (plan(*given, estimators=names) for names in ("naive", ["naive"]))
    pd.testing.assert_frame_equal(alone, listed)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_verdict_takes_the_name_of_an_estimator(name: str) -> None:
    protocol, gamma = Protocol(300, 20), estimators.default_gamma(40)
    made = estimators.by_name(name, "ndcg@10", protocol, gamma=gamma)
    for users, options in ((20, {}), (2, {"n_users": 40})):
        given = [3, 40] * users, [5, 20] * users
        found = verdict(*given, name, "ndcg@10", protocol, **options)
        assert found == verdict(*given, made, **options)


def test_a_name_needs_a_metric_and_a_protocol_and_an_estimator_has_them() -> None:
    with pytest.raises(ValueError, match="metric and protocol are needed with the name 'naive'"):
        verdict([1], [2], "naive", "ap")
    with pytest.raises(ValueError, match="metric and protocol are those of the estimator"):
        verdict([1], [2], estimators.naive("ap", Protocol(9, 4)), "ap")


@pytest.mark.simulation
def test_the_cheapest_designs_give_the_verdict_that_was_asked_for() -> None:
    # Drawn user by user and round by round, each design as it is given, and one user less.
    protocol = Protocol(1_000, 20)
    found = planning.plan(BETTER, WORSE, "ndcg@10", protocol, 60, estimators="rank estimate")
    designs = found.designs.set_index("design")
    assert designs["scores"].tolist() == sorted(designs["scores"])
    rng, repetitions = np.random.default_rng(SEED), 20_000
    gamma = estimators.default_gamma(60)
    adaptive, fixed = designs.loc["adaptive"], designs.loc["fixed"]
    design = Adaptive(1_000, int(adaptive["negatives"]), int(adaptive["most"]))
    made = estimators.bias_variance("ndcg@10", design, gamma)
    drawn_by, above_by = (each.tolist() for each in design.outcomes)
    table = dict(zip(zip(drawn_by, above_by, strict=True), made.values, strict=True))
    sample = replace(protocol, n_negatives=int(fixed["negatives"]))
    rank_estimate = estimators.rank_estimate("ndcg@10", sample)

    def drawn(known: dict[int, float], shape: tuple[int, int]) -> np.ndarray:
        return rng.choice(list(known), p=list(known.values()), size=shape)

    def right(values: list[np.ndarray]) -> float:
        one, two = (each.mean(axis=1) for each in values)
        return float((one > two + 1e-12).mean())

    for fewer in (0, 1):
        shape = (repetitions, int(adaptive["users"]) - fewer)
        values, scores = [], 0.0
        for known in (BETTER, WORSE):
            negatives, above = design.draw(drawn(known, shape), rng)
            codes = negatives * 1_000 + above
            keys, back = np.unique(codes, return_inverse=True)
            of_keys = np.array([table[divmod(int(key), 1_000)] for key in keys])
            values.append(of_keys[back].reshape(shape))
            scores += negatives.mean() / 2 + 0.5
        share = right(values)
        assert share > 0.945 if not fewer else share < 0.955
        if not fewer:
            assert adaptive["scores"] == pytest.approx(scores * shape[1], rel=0.02)
        shape = (repetitions, int(fixed["users"]) - fewer)
        ranks = [sample.draw(drawn(known, shape), rng) for known in (BETTER, WORSE)]
        share = right([rank_estimate(each) for each in ranks])
        assert share > 0.945 if not fewer else share < 0.955
    assert fixed["scores"] == fixed["users"] * (fixed["negatives"] + 1)
    exact = designs.loc["full ranking"]
    assert exact["users"] == plan(BETTER, WORSE, "ndcg@10", protocol, 60)["users_needed"].iloc[-1]
    assert exact["scores"] == exact["users"] * 1_000


def test_a_fixed_number_is_the_cheapest_of_those_tried() -> None:
    protocol = Protocol(300, 10, replacement=False)
    first, second = {2: 0.3, 250: 0.7}, {30: 0.6, 250: 0.4}
    found = planning.plan(
        first, second, "recall@10", protocol, 80, estimators=["naive", "monotone"]
    ).designs.set_index("design")
    costs = []
    for name, m in product(["naive", "monotone"], planning.steps(299)):
        of = replace(protocol, n_negatives=m)
        users = verdict(first, second, name, "recall@10", of, n_users=80).users(0.95)
        if users is not None and users <= 80:
            costs.append(users * (m + 1))
    assert found.loc["fixed", "scores"] == min(costs)


def test_designs_that_the_users_are_too_few_for() -> None:
    found = planning.plan({3: 1.0}, {4: 0.9, 2: 0.1}, "ap", Protocol(500, 10), 2)
    assert found.designs.set_index("design")["scores"].isna().tolist() == [True, True, True]
    assert "full ranking" in found.summary()


def test_a_plan_says_what_is_enough() -> None:
    protocol, few = Protocol(1_000, 100), {"estimators": "rank estimate", "max_negatives": 200}
    whole = planning.for_all({"A": BETTER, "B": WORSE}, "ndcg@10", protocol, 60, **few)
    best = whole.designs.query("design != 'full ranking'").iloc[0]
    full = whole.frame.iloc[-1]
    assert best["design"] == "adaptive"
    assert whole.sentences[:-1] == [
        f"A and B: {best['users']} users with {best['negatives']} to {best['most']} negatives each "
        f"are enough on NDCG@10 ({best['estimator']}, {best['scores']:,} scores), but only as "
        "its bias favours the better one here; ranking all items takes "
        f"{full['users_needed']} users ({full['scores_by_users']:,} scores)."
    ]
    assert best["users"] < full["users_needed"]  # who samples knows less than who ranks all
    sure = planning.plan({1: 1.0}, {9: 1.0}, "auc", Protocol(100, 10), 500, estimators="naive")
    assert "bias" not in sure.sentences[0]
    none = planning.plan(BETTER, WORSE, "ndcg@10", protocol, 2, **few)
    assert none.sentences[:-1] == [
        "no evaluation of up to 2 users with up to 200 negatives is enough on NDCG@10; ranking "
        f"all items takes {full['users_needed']} users ({full['scores_by_users']:,} scores)."
    ]
    assert "no method that errs" in none.sentences[-1]
    assert "the two in" in none.sentences[-1]
    assert "probability 0.95, if true ranks are distributed as assumed" in " ".join(
        none.summary().split()
    )


@pytest.mark.matrix
def test_designs_of_users_whose_ranks_are_drawn_together() -> None:
    # As many users of each of two kinds as independence needs: pairing takes out the spread.
    first, second = [2, 500] * 30, [4, 520] * 30
    protocol = Protocol(1_000, 50)
    paired = planning.plan(first, second, "ap", protocol, 5_000, estimators="bias-variance")
    alone = planning.plan(
        {2: 0.5, 500: 0.5}, {4: 0.5, 520: 0.5}, "ap", protocol, 5_000, estimators="bias-variance"
    )
    kinds = ["adaptive", "full ranking"]
    users = [each.designs.set_index("design").loc[kinds, "users"] for each in (paired, alone)]
    assert (users[0] < users[1]).all()
    # The normal average against the distribution of the sums, with one rank for each kind.
    for (a, b), off in {(2, 9): 1, (20, 30): 2, (100, 130): 0}.items():
        one = planning.plan([a] * 9, [b] * 9, "ap", protocol, 5_000, estimators="naive").designs
        other = planning.plan({a: 1.0}, {b: 1.0}, "ap", protocol, 5_000, estimators="naive").designs
        both = [int(each.set_index("design").loc["adaptive", "users"]) for each in (one, other)]
        assert abs(both[0] - both[1]) <= off, both


def test_sets_have_no_adaptive_design() -> None:
    one = RankIntervals([0, 40, 3] * 20, [0] * 60, [200] * 60)
    two = RankIntervals([2, 60, 9] * 20, [0] * 60, [200] * 60)
    found = planning.plan(one, two, "ap", Protocol(200, 20), 200, estimators="naive").designs
    assert found["design"].tolist() == ["fixed", "full ranking"]


def test_plans_of_all_pairs_keep_their_designs() -> None:
    ranks = {"A": {1: 1.0}, "B": {9: 1.0}, "C": {2: 0.5, 70: 0.5}}
    whole = planning.for_all(ranks, "ap", Protocol(100, 10), 500, estimators=["naive"])
    one = planning.plan(ranks["A"], ranks["C"], "ap", Protocol(100, 10), 500, estimators=["naive"])
    own = whole.designs.query("first == 'A' and second == 'C'").drop(columns=["first", "second"])
    pd.testing.assert_frame_equal(own.reset_index(drop=True), one.designs)
    assert whole.frame.equals(
        for_pairs(planning.plan, ranks, "ap", Protocol(100, 10), 500, estimators=["naive"])
    )
    assert whole.summary().count("cheapest:") == 3

"""Plans against enumeration, against simulated evaluations and against what cannot be otherwise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, xlogy

from sampled_metrics import Protocol, RelevantSets, estimators, metric, planning
from sampled_metrics.consistency import sign
from sampled_metrics.differences import Differences
from sampled_metrics.log.read import read_log
from sampled_metrics.planning import ESTIMATORS, fitted
from sampled_metrics.planning import pairs as pair_plans
from sampled_metrics.planning.logs import rebinned
from sampled_metrics.planning.pairs import EXACT
from sampled_metrics.protocol import Adaptive, thinned
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.verdicts import PopulationPair, Verdict, verdict
from tests.reference import exact_pmf


def plan(*arguments, **options) -> pd.DataFrame:
    """The table alone."""
    return planning.plan_pair(*arguments, **options).frame


def chances(
    pair: tuple[Any, Any], name: str, protocols: list[Protocol], users: list[int], by: str
) -> list[float]:
    """The probability of the right verdict by an estimator, for each protocol and users."""
    return [
        verdict(
            *pair,
            estimators.by_name(by, metric(name), protocol, gamma=estimators.default_gamma(n_users)),
            n_users=n_users,
        ).probability
        for n_users in users
        for protocol in protocols
    ]


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
    pair_verdict = verdict(first, second, estimator, n_users=7)
    assert weight.sum() == pytest.approx(1)
    assert pair_verdict.expected == pytest.approx(weight @ difference)
    variance = weight @ difference**2 - (weight @ difference) ** 2
    assert pair_verdict.sd == pytest.approx(np.sqrt(variance / 7))
    exact = 0.25 + 0.75 / 4 - (0.5 / 2 + 0.125 / 3 + 0.375 / 6)
    assert pair_verdict.exact == pytest.approx(exact)


def test_a_fit_says_what_the_log_says() -> None:
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


def test_ties_count_in_equal_parts_for_each_place() -> None:
    tied = pd.DataFrame({"user": range(30), "n_better": [0] * 30, "n_tied": [2] * 30})
    spread = pd.DataFrame({"user": range(30), "rank": [1, 2, 3] * 10})
    of_tied, of_spread = (
        fitted(read_log(rows, n_items=50, n_negatives=5, replacement=True), 50)
        for rows in (tied, spread)
    )
    assert list(of_tied["recommender"].values()) == pytest.approx(
        list(of_spread["recommender"].values())
    )


def test_fewer_ranks_have_the_same_moments() -> None:
    # The whole distribution against its condensed form: a smooth one with a heavy head.
    n = 20_000
    mass = np.arange(1, n + 1) ** -0.7
    mass /= mass.sum()
    grid = planning.rank_grid(n)
    condensed = rebinned(mass, np.arange(1, n + 1), grid)
    assert grid.size < 500
    assert condensed.sum() == pytest.approx(1, abs=1e-12)
    assert condensed @ grid == pytest.approx(mass @ np.arange(1, n + 1), rel=1e-12)
    for name in ("recall@10", "ndcg@10", "ap", "auc"):
        for m in (10, 100):
            estimator = estimators.rank_estimate(metric(name), Protocol(n, m))
            expected = mass @ estimator.expected(np.arange(1, n + 1))
            assert condensed @ estimator.expected(grid) == pytest.approx(expected, rel=1e-3)


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
        pmfs_of_7, pmfs_of_4 = (
            Protocol(30, m, replacement=replacement).pmf(np.arange(1, 31)) for m in (7, 4)
        )
        assert pmfs_of_7 @ thinned(7, 4) == pytest.approx(pmfs_of_4, abs=1e-12)
    mixed = pd.DataFrame({"user": range(8), "rank": [1, 2] * 4, "n_negatives": [5, 5, 6, 6] * 2})
    mass_by_rank = fitted(read_log(mixed, n_items=50, replacement=True), 50)["recommender"]
    assert sum(mass_by_rank.values()) == pytest.approx(1)


def test_a_plan_opens_what_estimate_opens(tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match="replacement must be True as in the log, got False"):
        planning.plan(log, "auc", replacement=False)


def test_a_plan_takes_the_populations_of_recommenders(tmp_path: Path) -> None:
    populations = {"A": BETTER, "B": WORSE, "C": {4: 0.4, 400: 0.6}}
    protocol, options = Protocol(1_000, 100), {"estimators": "naive", "max_negatives": 20}
    planned = planning.plan(populations, "ndcg@10", protocol, 60, **options)
    expected = planning.for_all(populations, "ndcg@10", protocol, 60, **options)
    for name in ("frame", "designs", "limits"):
        pd.testing.assert_frame_equal(getattr(planned, name), getattr(expected, name))
    pair_frame = planning.plan_pair(BETTER, WORSE, "ndcg@10", protocol, 60, **options).frame
    two = planning.plan({"A": BETTER, "B": WORSE}, "ndcg@10", protocol, n_users=60, **options)
    pd.testing.assert_frame_equal(two.frame.drop(columns=["first", "second"]), pair_frame)
    planned.write(tmp_path / "plan.html")
    assert "60 users, 1,000 items, 100 negatives" in (tmp_path / "plan.html").read_text()


def test_a_plan_takes_the_exact_ranks_of_recommenders() -> None:
    no_ties, levels = np.zeros((2, 2), int), np.array([[0, 1], [0, 1]])
    sets = {
        name: RelevantSets(above, no_ties, levels, [40, 50])
        for name, above in {"A": [[0, 5], [2, 9]], "B": [[3, 20], [4, 30]]}.items()
    }
    planned = planning.plan(sets, "ndcg@10", Protocol(52, 10), 30, estimators="naive")
    assert planned.settings["max_negatives"] == 40


@pytest.mark.parametrize(
    ("data", "arguments", "said"),
    [
        ({2: 0.3, 500: 0.7}, {}, "data must map the names of recommenders to .* got the name 2"),
        ({"A": BETTER}, {"protocol": Protocol(1_000, 9), "n_users": 5}, "two recommenders or more"),
        ({"A": BETTER, "B": WORSE}, {"n_users": 5}, "protocol must be given with populations"),
        (
            {"A": BETTER, "B": WORSE},
            {"protocol": Protocol(1_000, 9)},
            "n_users must be given with populations",
        ),
        (
            {"A": BETTER, "B": WORSE},
            {"protocol": Protocol(1_000, 9), "n_users": 5, "n_items": 9},
            "n_items must be left out with populations, got 9",
        ),
        (
            {"A": BETTER, "B": WORSE},
            {"protocol": Protocol(1_000, 9), "n_users": 5, "replacement": True},
            "replacement must be left out with populations, got True",
        ),
        ("bundled", {"protocol": Protocol(3_706, 9)}, "protocol must be left out with a log"),
    ],
)
def test_arguments_that_belong_to_other_data(
    data: object, arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        planning.plan(data, "auc", **arguments)  # type: ignore[arg-type]


def test_recommenders_without_an_order_are_left_out() -> None:
    ranks = {"A": {1: 1.0}, "B": {1: 1.0}, "C": {5: 1.0}}
    with pytest.warns(UserWarning, match="A and B have the same AP"):
        table = planning.for_all(ranks, "ap", Protocol(50, 5), 5, estimators=["naive"]).frame
    assert set(zip(table["first"], table["second"], strict=True)) == {("A", "C"), ("B", "C")}
    with (
        pytest.warns(UserWarning, match="A and B"),
        pytest.raises(ValueError, match="all recommenders have the same AP"),
    ):
        planning.for_all({"A": {1: 1.0}, "B": {1: 1.0}}, "ap", Protocol(50, 5), 5)
    with pytest.raises(ValueError, match="two recommenders or more, got 1"):
        planning.for_all({"A": {1: 1.0}}, "ap", Protocol(50, 5), 5)


def test_arrays_are_drawn_as_pairs() -> None:
    # By hand: AUC differs by 1/9 for one user and by 3/9 for the other, and the sample is exact.
    first, second = [1, 4], [2, 7]
    estimator = estimators.naive(metric("auc"), Protocol(10, 9, replacement=False))
    paired = verdict(first, second, estimator, n_users=4)
    assert paired.expected == pytest.approx(2 / 9)
    assert paired.sd == pytest.approx(np.std([1 / 9, 3 / 9]) / 2)
    independent = verdict({1: 0.5, 4: 0.5}, {2: 0.5, 7: 0.5}, estimator, n_users=4)
    assert independent.expected == pytest.approx(paired.expected)
    assert independent.sd == pytest.approx(np.sqrt(np.var([0, 3 / 9]) + np.var([1 / 9, 6 / 9])) / 2)


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
    table = plan(first, second, metric("ap"), protocol, n_users, estimators=[name], max_negatives=1)
    gamma = estimators.default_gamma(n_users)
    estimator = estimators.by_name(name, metric("ap"), protocol, gamma=gamma)
    right = np.sign(metric("ap")(first).mean() - metric("ap")(second).mean())
    differences = []
    for _ in range(20):
        users = rng.integers(0, 400, (repetitions // 20, n_users))
        first_values, second_values = (
            estimator(protocol.draw(ranks[users], rng)) for ranks in (first, second)
        )
        differences.append(first_values.mean(axis=1) - second_values.mean(axis=1))
    # Sums that are equal in whole numbers differ by rounding.
    difference = np.concatenate(differences)
    ties = np.abs(difference) < 1e-12
    share = (right * difference >= 1e-12).mean()
    assert table["probability"][0] == pytest.approx(share, abs=0.03)
    assert table["ties"][0] == pytest.approx(ties.mean(), abs=0.01)
    assert 0.55 < share < 0.995  # or nothing is shown


def test_what_the_plan_asks_for_is_enough_and_one_less_is_not() -> None:
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


def listed(ranks: list[int], estimator: estimators.Estimator) -> tuple[np.ndarray, np.ndarray]:
    """All sums of the values of some users, and how likely each is."""
    sums, chances = np.zeros(1), np.ones(1)
    for rank in ranks:
        pmf = estimator.protocol.pmf([rank])[0]
        sums = np.add.outer(sums, estimator.values).ravel()
        chances = np.outer(chances, pmf).ravel()
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
    tolerance = 1e-11 * np.abs(ours)
    ahead, tied = (
        below[np.searchsorted(theirs[order], ours + shift, tie_side)]
        for shift, tie_side in ((-tolerance, "left"), (tolerance, "right"))
    )
    ahead, tied = chances @ ahead, chances @ (tied - ahead)
    pair_verdict = verdict(first, second, estimator)
    right = ahead if pair_verdict.exact > 0 else 1 - ahead - tied
    # Sums whose terms cancel, or nearly, are told from level ones to a share of their terms only.
    assert (pair_verdict.probability, pair_verdict.ties) == pytest.approx((right, tied), abs=2e-4)


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
    compositions = [
        counts for counts in product(range(users + 1), repeat=5) if sum(counts) <= users
    ]
    users_by_rank = np.array([(*counts, users - sum(counts)) for counts in compositions])
    coefficients = gammaln(users + 1) - gammaln(users_by_rank + 1).sum(axis=1)
    ours, theirs = (
        np.exp(coefficients + xlogy(users_by_rank, protocol.pmf([rank])[0]).sum(axis=1))
        for rank in (first, second)
    )
    sums = users_by_rank @ estimator.values
    order = np.argsort(sums)
    below = np.append(0.0, np.cumsum(theirs[order]))
    ahead = ours @ below[np.searchsorted(sums[order], sums - 1e-11 * sums)]
    tied = ours @ below[np.searchsorted(sums[order], sums + 1e-11 * sums)] - ahead
    pair_verdict = verdict([first] * users, [second] * users, estimator)
    right = ahead if pair_verdict.exact > 0 else 1 - ahead - tied
    assert (pair_verdict.probability, pair_verdict.ties) == pytest.approx((right, tied), abs=1e-3)


def test_no_more_than_one_copy_of_the_given_users_is_needed_where_one_is_enough() -> None:
    pair_verdict = verdict([3] * 50, [8] * 50, "naive", "ap", Protocol(1_000, 200))
    assert pair_verdict.probability > 0.99
    # Some of them do, as far as the normal distribution says.
    assert pair_verdict.users(0.99) == replace(pair_verdict, differences=None).users(0.99) == 10
    # A user's difference is 0 or 1, never below: the normal distribution asks for 37 of 30 users.
    differences = Differences(np.array([0.0, 1.0]), np.array([[0.8, 0.2]]), np.array([30.0]))
    pair_verdict = Verdict._of(0.2, differences, 30, 30)
    assert pair_verdict.probability == pytest.approx(1 - 0.8**30)
    assert replace(pair_verdict, differences=None).users(0.9987) == 37
    assert pair_verdict.users(0.9987) == 30


def test_shares_of_users_drawn_at_random_by_enumeration() -> None:
    # Three users, each with a pair of ranks, and every pair of sampled ranks, in fractions.
    pairs = [(1, 3), (4, 2), (2, 5)]
    n, m = 6, 2
    pmfs = {rank: exact_pmf(n, m, rank, True) for rank in range(1, n + 1)}
    for name in ("recall@1", "ap", "ndcg", "auc"):
        estimator = estimators.naive(metric(name), Protocol(n, m))
        first_sum = metric(name)([a for a, _ in pairs], n).sum()
        second_sum = metric(name)([b for _, b in pairs], n).sum()
        if sign(first_sum, second_sum) == 0:
            continue
        joint_pmf = {
            (x, y): sum((pmfs[a][x] * pmfs[b][y] for a, b in pairs), Fraction(0)) / 3
            for x, y in product(range(m + 1), repeat=2)
        }
        right, ties = Fraction(0), Fraction(0)
        for users in product(joint_pmf, repeat=3):
            chance = prod((joint_pmf[user] for user in users), start=Fraction(1))
            total = sum(estimator.values[x] - estimator.values[y] for x, y in users)
            right += chance if total * (first_sum - second_sum) > 1e-12 else 0
            ties += chance if abs(total) <= 1e-12 else 0
        first, second = zip(*pairs, strict=True)
        pair_verdict = verdict(first, second, estimator, n_users=3)
        assert pair_verdict.probability == pytest.approx(float(right), abs=1e-9)
        assert pair_verdict.ties == pytest.approx(float(ties), abs=1e-9)


@pytest.mark.matrix
def test_shares_of_users_drawn_at_random_by_simulation() -> None:
    rng, runs = np.random.default_rng(8), 20_000
    for name, users in (("recall@10", 40), ("ndcg@10", 15)):
        protocol = Protocol(1_000, 90)
        estimator = estimators.naive(metric(name), protocol)
        pair_verdict = verdict(BETTER, WORSE, estimator, n_users=users)
        first_values, second_values = (
            estimator.values[
                rng.binomial(
                    90,
                    (
                        rng.choice(list(mass_by_rank), (users, runs), p=list(mass_by_rank.values()))
                        - 1
                    )
                    / 999,
                )
            ]
            for mass_by_rank in (BETTER, WORSE)
        )
        difference = (first_values - second_values).sum(axis=0)
        shares = np.mean(difference > 1e-9), np.mean(np.abs(difference) <= 1e-9)
        for share, probability in zip(
            shares, (pair_verdict.probability, pair_verdict.ties), strict=True
        ):
            assert share == pytest.approx(
                probability, abs=4 * np.sqrt(probability * (1 - probability) / runs) + 1e-3
            )


def test_a_plan_tells_ties_from_right_verdicts() -> None:
    # One user in a thousand has an item that few negatives can push out of the sampled top ten.
    first, second = {2: 0.999, 400: 0.001}, {2: 0.998, 400: 0.002}
    table = plan(first, second, metric("recall@10"), Protocol(1_000, 20), 30, estimators=["naive"])
    loss_probability = sum(exact_pmf(1_000, 20, 400, True)[10:])
    first_pmf, second_pmf = (
        [comb(30, k) * p**k * (1 - p) ** (30 - k) for k in range(31)]
        for p in (loss_probability / 1_000, loss_probability / 500)
    )  # users who have lost their item
    assert table["ties"][0] == pytest.approx(float(sum(map(mul, first_pmf, second_pmf))))
    right = sum(
        p * q for (i, p), (j, q) in product(enumerate(first_pmf), enumerate(second_pmf)) if i < j
    )
    assert table["probability"][0] == pytest.approx(float(right))
    users = int(table["users_needed"][0])
    samples = with_negatives(1_000, 20)
    fewer, enough = chances((first, second), "recall@10", samples, [users - 1, users], "naive")
    assert fewer < 0.95 <= enough


def test_gamma_follows_the_users_that_are_needed() -> None:
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


def test_more_users_cannot_mend_a_wrong_order_and_negatives_can() -> None:
    table = plan(BETTER, WORSE, metric("ndcg@10"), Protocol(1_000, 100), 50).set_index("estimator")
    assert table["users_needed"].isna().to_dict()["naive"]
    assert table.loc["naive", "negatives_needed"] > 100
    samples = with_negatives(1_000, 50)
    wrong = chances((BETTER, WORSE), "ndcg@10", samples, [10, 100, 1_000], "naive")
    assert (np.diff(wrong) < 0).all()


def test_the_confidence_is_kept_by_every_later_step() -> None:
    # For few negatives the naive order is right by accident, then wrong, then right for good.
    first, second = {1: 0.5, 90: 0.5}, {9: 1.0}
    samples = with_negatives(100, 1, 5, 99)
    right = [one > 0.5 for one in chances((first, second), "ap", samples, [10**4], "naive")]
    table = plan(first, second, metric("ap"), Protocol(100, 5), 10**4, estimators=["naive"])
    assert right[-1]
    needed = int(table["negatives_needed"][0])
    samples = with_negatives(100, *range(needed, 100))
    assert min(chances((first, second), "ap", samples, [10**4], "naive")) >= 0.95


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
    n, m, chosen_metric = 8, 2, metric(name)
    first, second = [[[1, 4], [2, 7]], [[1, 2, 8]]], [[[3, 4], [1, 8]], [[4, 5, 6]]]

    def reported(ranks: list[int]) -> list[float]:
        irrelevant = [r for r in range(1, n + 1) if r not in ranks]
        return [
            chosen_metric.of_set(
                [j + sum(s < r for s in drawn) for j, r in enumerate(ranks, 1)], m + 3
            )
            for drawn in combinations(irrelevant, m)
        ]

    pairs = [(a, b) for lists, other_lists in zip(first, second, strict=True)
             for a, b in zip(lists, other_lists, strict=True)]  # fmt: skip
    differences = [[x - y for x, y in product(reported(a), reported(b))] for a, b in pairs]
    mean = np.mean([np.mean(values) for values in differences])
    square = np.mean([np.mean(np.square(values)) for values in differences])
    sets = [[of_sets(ranks, n) for ranks in lists] for lists in (first, second)]
    pair = pair_plans._pair(*sets, chosen_metric, Protocol(n, m, replacement=False))
    verdicts = pair_plans._Verdicts(pair, "naive", Protocol(n, m, replacement=False))
    pair_verdict = verdicts(m, 7)
    assert pair_verdict.expected == pytest.approx(mean, abs=1e-12)
    assert pair_verdict.sd == pytest.approx(np.sqrt((square - mean**2) / 7))
    exact = np.array([chosen_metric.of_set(a) - chosen_metric.of_set(b) for a, b in pairs])
    assert pair_verdict.exact == pytest.approx(exact.mean())
    full = pair.exact(7)
    assert full.sd == pytest.approx(exact.std() / np.sqrt(7))
    # Users, and 2 or 3 items each beside the negatives.
    table = plan(*sets, chosen_metric, Protocol(n, m, replacement=False), 9, estimators="naive")
    assert set(table["scores_by_negatives"].dropna()) <= {21 + 9 * k for k in range(1, 6)} | {72}


def test_intervals_of_ranks_are_planned_for_as_their_ranks() -> None:
    rng = np.random.default_rng(SEED)
    first, second = rng.integers(1, 40, 60), rng.integers(1, 80, 60)
    intervals = [RankIntervals(r - 1, 0 * r, np.full(60, 100)) for r in (first, second)]
    arguments = metric("ndcg@10"), Protocol(100, 20, replacement=False)
    of_arrays = pair_plans._pair(first, second, *arguments)
    of_intervals = pair_plans._pair(*intervals, *arguments)
    assert of_intervals.difference == pytest.approx(of_arrays.difference)
    for name in ESTIMATORS:
        one, two = (pair_plans._Verdicts(pair, name, arguments[1])(20, 50)
                    for pair in (of_arrays, of_intervals))  # fmt: skip
        assert (two.expected, two.sd) == pytest.approx((one.expected, one.sd), rel=1e-9)
        assert two.probability == pytest.approx(one.probability, abs=0.01)
    # Ties are in random order: the two places of an item are as two users with one each.
    tied = RankIntervals(np.zeros(2, int), np.ones(2, int), np.full(2, 9))
    untied = RankIntervals(np.array([0, 1]), np.zeros(2, int), np.full(2, 9))
    rival = RankIntervals(np.full(2, 5), np.zeros(2, int), np.full(2, 9))
    spread = [pair_plans._pair(one, rival, metric("ap"), Protocol(9, 4)).difference
              for one in (tied, untied)]  # fmt: skip
    assert spread[0] == pytest.approx(spread[1])


def test_sets_must_be_of_the_same_users() -> None:
    two_users, one_user = of_sets([[1, 4], [2, 7]], 8), of_sets([[3, 4]], 8)
    protocol = Protocol(8, 2, replacement=False)
    with pytest.raises(ValueError, match=r"same users, .* \[\(2, 2\)\] and \[\(1, 2\)\]"):
        plan(two_users, one_user, "ap", protocol, 5)
    with pytest.raises(ValueError, match="second must be RankIntervals or RelevantSets as the oth"):
        plan(two_users, [3, 4], "ap", protocol, 5)
    with pytest.raises(ValueError, match="n_relevant = 1, since the rankings"):
        plan(two_users, two_users, "ap", replace(protocol, n_relevant=2), 5)
    with pytest.raises(ValueError, match="exact must not be 0"):
        plan(two_users, two_users, "ap", protocol, 5)


def test_a_budget_is_divided_as_the_surest_of_all_divisions() -> None:
    arguments = BETTER, WORSE, metric("ndcg@10")
    names = ["rank estimate", "bias-variance"]
    table = plan(
        *arguments, Protocol(1_000, 20), 50, estimators=names, max_negatives=50, budget=1_500
    )
    for name in names:
        tried = {
            m: chances(
                arguments[:2], "ndcg@10", with_negatives(1_000, m), [1_500 // (m + 1)], name
            )[0]
            for m in pair_plans.steps(50)
        }
        surest = max(tried, key=tried.__getitem__)
        row = table.set_index("estimator").loc[name]
        assert row["best_negatives"] == surest
        assert row["best_users"] == 1_500 // (surest + 1)
        assert row["best_probability"] == pytest.approx(tried[surest])
    exact = table.iloc[-1]
    assert exact["best_users"] == 1
    assert exact["best_probability"] == pytest.approx(PopulationPair.of(
        *arguments, Protocol(1_000, 20)).exact(1).probability)  # fmt: skip
    unaffordable = plan(
        *arguments, Protocol(1_000, 20), 50, estimators=names, max_negatives=20, budget=1
    )
    assert unaffordable[["best_negatives", "best_users", "best_probability"]].isna().all(axis=None)
    assert "best_users" not in plan(*arguments, Protocol(1_000, 20), 50, estimators="naive")


def test_counts_of_scores() -> None:
    table = plan(BETTER, WORSE, metric("ap"), Protocol(1_000, 100), 50).set_index("estimator")
    assert table.loc[EXACT, "scores_by_negatives"] == 50 * 1_000
    assert table.loc[EXACT, "scores_by_users"] == 1_000 * table.loc[EXACT, "users_needed"]
    row = table.loc["rank estimate"]
    assert row["scores_by_negatives"] == 50 * (row["negatives_needed"] + 1)
    assert row["scores_by_users"] == row["users_needed"] * 101


def test_ranking_all_items_needs_users_too() -> None:
    # 1 where the first wins and -1 where it loses: a coin with probability 0.6.
    first, second = [1] * 3 + [100] * 2, [100] * 3 + [1] * 2
    exact, ties = zip(*(
        plan(first, second, metric("recall@1"), Protocol(100, 10), users, max_negatives=1)
        .iloc[-1][["probability", "ties"]] for users in (5, 500)
    ), strict=True)  # fmt: skip
    # At least three of five, which cannot be level.
    assert exact[0] == pytest.approx(sum(comb(5, k) * 0.6**k * 0.4 ** (5 - k) for k in (3, 4, 5)))
    assert ties[0] == pytest.approx(0, abs=1e-12)
    assert exact[1] > 0.999


def test_a_sample_of_the_whole_catalogue_is_exact() -> None:
    protocol = Protocol(600, 599, replacement=False)
    table = plan(BETTER, WORSE, metric("ap"), protocol, 20, max_negatives=1)
    assert table["probability"][0] == pytest.approx(table["probability"].iloc[-1], abs=1e-9)


def test_none_where_the_level_is_out_of_reach() -> None:
    table = plan({3: 1.0}, {4: 1.0}, metric("recall@3"), Protocol(10_000, 10), 2, max_negatives=20)
    assert table["negatives_needed"].isna().all()
    assert table.iloc[-1]["probability"] == 1


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
    populations = {1: 0.5, 9: 0.5}, {1: 0.5 - 1e-8, 9: 0.5 + 1e-8}
    table = plan(
        *populations, metric("ap"), Protocol(10**5, 5), 10, estimators=["naive"], max_negatives=1
    )
    # More than there can be: 2.7 / (8 / 9 * 1e-8)**2 times a variance of 0.4.
    assert (
        PopulationPair.of(*populations, metric("ap"), Protocol(10**5, 5)).exact(10).users() > 10**15
    )
    assert table[["users_needed", "scores_by_users"]].iloc[-1].isna().all()
    row = pair_plans._row("naive", found_by(10), 2**40 + 1, users=10**12)
    assert row.users_needed == 10**12
    assert row.scores_by_users is None
    with pytest.raises(ValueError, match="n_users must be a whole number in"):
        plan(*populations, metric("ap"), Protocol(100, 5), 10**20)


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        (1_000, r"protocol must be a Protocol, as in Protocol\(10_000, 99\), got 1000"),
        (
            Protocol(100, 9, n_relevant=2),
            "protocol must be for n_relevant = 1 in each instance, got 2",
        ),
        (Protocol([100, 90], 9), "n_items must be one catalogue size here, got shape"),
    ],
)
def test_bad_protocols(protocol: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan({1: 1.0}, {2: 1.0}, "ap", protocol, 5)  # type: ignore[arg-type]


def test_bad_names() -> None:
    arguments = {1: 1.0}, {2: 1.0}, "ap", Protocol(100, 50), 5
    with pytest.raises(ValueError, match="estimator 'nave' is unknown: did you mean 'naive'"):
        plan(*arguments, estimators=["nave"])
    with pytest.raises(ValueError, match="estimators must hold one name or more, got none"):
        plan(*arguments, estimators=[])


def test_one_name_stands_for_a_list_of_it() -> None:
    arguments = {1: 1.0}, {2: 1.0}, "ap", Protocol(100, 50), 5
    by_name, listed = (plan(*arguments, estimators=names) for names in ("naive", ["naive"]))
    pd.testing.assert_frame_equal(by_name, listed)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_verdict_takes_the_name_of_an_estimator(name: str) -> None:
    protocol, gamma = Protocol(300, 20), estimators.default_gamma(40)
    estimator = estimators.by_name(name, "ndcg@10", protocol, gamma=gamma)
    for users, options in ((20, {}), (2, {"n_users": 40})):
        arguments = [3, 40] * users, [5, 20] * users
        pair_verdict = verdict(*arguments, name, "ndcg@10", protocol, **options)
        assert pair_verdict == verdict(*arguments, estimator, **options)


def test_a_name_needs_a_metric_and_a_protocol_and_an_estimator_has_them() -> None:
    with pytest.raises(ValueError, match="metric and protocol are needed with the name 'naive'"):
        verdict([1], [2], "naive", "ap")
    with pytest.raises(ValueError, match="metric and protocol must be left out"):
        verdict([1], [2], estimators.naive("ap", Protocol(9, 4)), "ap")


@pytest.mark.matrix
def test_the_cheapest_designs_give_the_verdict_that_was_asked_for() -> None:
    # Drawn user by user and round by round, each design as it is given, and one user less.
    protocol = Protocol(1_000, 20)
    planned = planning.plan_pair(BETTER, WORSE, "ndcg@10", protocol, 60, estimators="rank estimate")
    designs = planned.designs.set_index("design")
    assert designs["scores"].tolist() == sorted(designs["scores"])
    rng, repetitions = np.random.default_rng(SEED), 20_000
    gamma = estimators.default_gamma(60)
    adaptive, fixed = designs.loc["adaptive"], designs.loc["fixed"]
    design = Adaptive(1_000, int(adaptive["negatives"]), int(adaptive["most"]))
    estimator = estimators.bias_variance("ndcg@10", design, gamma)
    drawn_by, above_by = (array.tolist() for array in design.outcomes)
    table = dict(zip(zip(drawn_by, above_by, strict=True), estimator.values, strict=True))
    sample = replace(protocol, n_negatives=int(fixed["negatives"]))
    rank_estimate = estimators.rank_estimate("ndcg@10", sample)

    def drawn(mass_by_rank: dict[int, float], shape: tuple[int, int]) -> np.ndarray:
        return rng.choice(list(mass_by_rank), p=list(mass_by_rank.values()), size=shape)

    def right(values: list[np.ndarray]) -> float:
        better_means, worse_means = (array.mean(axis=1) for array in values)
        return float((better_means > worse_means + 1e-12).mean())

    for n_dropped in (0, 1):
        shape = (repetitions, int(adaptive["users"]) - n_dropped)
        values, scores = [], 0.0
        for mass_by_rank in (BETTER, WORSE):
            negatives, above = design.draw(drawn(mass_by_rank, shape), rng)
            codes = negatives * 1_000 + above
            keys, inverse = np.unique(codes, return_inverse=True)
            of_keys = np.array([table[divmod(int(key), 1_000)] for key in keys])
            values.append(of_keys[inverse].reshape(shape))
            scores += negatives.mean() / 2 + 0.5
        share = right(values)
        assert share > 0.945 if not n_dropped else share < 0.955
        if not n_dropped:
            assert adaptive["scores"] == pytest.approx(scores * shape[1], rel=0.02)
        shape = (repetitions, int(fixed["users"]) - n_dropped)
        ranks = [sample.draw(drawn(mass_by_rank, shape), rng) for mass_by_rank in (BETTER, WORSE)]
        share = right([rank_estimate(array) for array in ranks])
        assert share > 0.945 if not n_dropped else share < 0.955
    assert fixed["scores"] == fixed["users"] * (fixed["negatives"] + 1)
    exact = designs.loc["full ranking"]
    assert exact["users"] == plan(BETTER, WORSE, "ndcg@10", protocol, 60)["users_needed"].iloc[-1]
    assert exact["scores"] == exact["users"] * 1_000


def test_a_fixed_number_is_the_cheapest_of_those_tried() -> None:
    protocol = Protocol(300, 10, replacement=False)
    first, second = {2: 0.3, 250: 0.7}, {30: 0.6, 250: 0.4}
    designs = planning.plan_pair(
        first, second, "recall@10", protocol, 80, estimators=["naive", "monotone"]
    ).designs.set_index("design")
    costs = []
    for name, m in product(["naive", "monotone"], pair_plans.steps(299)):
        fixed_protocol = replace(protocol, n_negatives=m)
        users = verdict(first, second, name, "recall@10", fixed_protocol, n_users=80).users(0.95)
        if users is not None and users <= 80:
            costs.append(users * (m + 1))
    assert designs.loc["fixed", "scores"] == min(costs)


def test_designs_that_the_users_are_too_few_for() -> None:
    planned = planning.plan_pair({3: 1.0}, {4: 0.9, 2: 0.1}, "ap", Protocol(500, 10), 2)
    assert planned.designs.set_index("design")["scores"].isna().tolist() == [True, True, True]
    assert "full ranking" in planned.summary()


def test_a_plan_says_what_is_enough() -> None:
    protocol, options = Protocol(1_000, 100), {"estimators": "rank estimate", "max_negatives": 200}
    planned = planning.for_all({"A": BETTER, "B": WORSE}, "ndcg@10", protocol, 60, **options)
    best = planned.designs.query("design != 'full ranking'").iloc[0]
    full = planned.frame.iloc[-1]
    assert best["design"] == "adaptive"
    assert planned.sentences[:-1] == [
        f"A and B on NDCG@10: {best['users']} users with {best['negatives']} to {best['most']} "
        f"negatives each reach the right order with probability 0.95 ({best['estimator']}, "
        f"{best['scores']:,} scores), but only because its bias favours the better recommender "
        "here; ranking all items takes "
        f"{full['users_needed']} users ({full['scores_by_users']:,} scores)."
    ]
    assert best["users"] < full["users_needed"]  # who samples knows less than who ranks all
    sure = planning.plan_pair({1: 1.0}, {9: 1.0}, "auc", Protocol(100, 10), 500, estimators="naive")
    assert "bias" not in sure.sentences[0]
    too_few = planning.plan_pair(BETTER, WORSE, "ndcg@10", protocol, 2, **options)
    assert too_few.sentences[:-1] == [
        "NDCG@10: no evaluation of up to 2 users with up to 200 negatives reaches the right order "
        "with probability 0.95; ranking all items takes "
        f"{full['users_needed']} users ({full['scores_by_users']:,} scores)."
    ]
    assert "Take any method that names the wrong recommender" in too_few.sentences[-1]
    assert too_few.sentences[-1].endswith(" Guessing reaches 5%.")
    assert "Probabilities are for true ranks distributed as assumed; compare says" in " ".join(
        too_few.summary().split()
    )


@pytest.mark.matrix
def test_designs_of_users_whose_ranks_are_drawn_together() -> None:
    # As many users of each of two kinds as independence needs: pairing takes out the spread.
    first, second = [2, 500] * 30, [4, 520] * 30
    protocol = Protocol(1_000, 50)
    paired = planning.plan_pair(first, second, "ap", protocol, 5_000, estimators="bias-variance")
    independent = planning.plan_pair(
        {2: 0.5, 500: 0.5}, {4: 0.5, 520: 0.5}, "ap", protocol, 5_000, estimators="bias-variance"
    )
    kinds = ["adaptive", "full ranking"]
    users = [each.designs.set_index("design").loc[kinds, "users"] for each in (paired, independent)]
    assert (users[0] < users[1]).all()
    # The normal average against the distribution of the sums, with one rank for each kind.
    for (a, b), off in {(2, 9): 1, (20, 30): 2, (100, 130): 0}.items():
        matched = planning.plan_pair(
            [a] * 9, [b] * 9, "ap", protocol, 5_000, estimators="naive"
        ).designs
        unmatched = planning.plan_pair(
            {a: 1.0}, {b: 1.0}, "ap", protocol, 5_000, estimators="naive"
        ).designs
        users_needed = [
            int(each.set_index("design").loc["adaptive", "users"]) for each in (matched, unmatched)
        ]
        assert abs(users_needed[0] - users_needed[1]) <= off, users_needed


def test_sets_have_no_adaptive_design() -> None:
    first = RankIntervals([0, 40, 3] * 20, [0] * 60, [200] * 60)
    second = RankIntervals([2, 60, 9] * 20, [0] * 60, [200] * 60)
    designs = planning.plan_pair(
        first, second, "ap", Protocol(200, 20), 200, estimators="naive"
    ).designs
    assert designs["design"].tolist() == ["fixed", "full ranking"]


def test_plans_of_all_pairs_keep_their_designs() -> None:
    ranks = {"A": {1: 1.0}, "B": {9: 1.0}, "C": {2: 0.5, 70: 0.5}}
    planned = planning.for_all(ranks, "ap", Protocol(100, 10), 500, estimators=["naive"])
    pair_plan = planning.plan_pair(
        ranks["A"], ranks["C"], "ap", Protocol(100, 10), 500, estimators=["naive"]
    )
    pair_designs = planned.designs.query("first == 'A' and second == 'C'").drop(
        columns=["first", "second"]
    )
    pd.testing.assert_frame_equal(pair_designs.reset_index(drop=True), pair_plan.designs)
    pair_rows = planned.frame.query("first == 'A' and second == 'C'").iloc[:, 2:]
    pd.testing.assert_frame_equal(pair_rows.reset_index(drop=True), pair_plan.frame)
    assert planned.summary().count("cheapest") == 3

"""Estimates and verdicts from a log: by hand, by enumeration, and over simulated logs."""

from collections import Counter
from itertools import combinations, permutations
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sampled_book.bundled_log import simulate
from sampled_book.datasets import bundled_ranks
from sampled_metrics import Protocol, estimators, evaluation, metric
from sampled_metrics.evaluation import CANNOT_TELL, ESTIMATORS, FITTED
from sampled_metrics.io.logs import Log, read_log
from sampled_metrics.numerics import betting
from sampled_metrics.ranking import RankIntervals


def estimate(*given, **options):
    """The table alone."""
    return evaluation.estimate(*given, **options).frame


def compare(*given, **options):
    """The table alone."""
    return evaluation.compare(*given, **options).frame


PLAIN = [name for name in ESTIMATORS if name not in FITTED]


def log_of(ranks, n_items=50, n_negatives=9, **columns):
    """A log of one recommender from sampled ranks, a user each."""
    table = pd.DataFrame({"user": np.arange(len(ranks)), "rank": ranks}).assign(**columns)
    return read_log(table, n_items=n_items, n_negatives=n_negatives)


def values(log, of, name, **options):
    found = estimate(log, [of], estimators=[name], identification=False, **options)
    return found["value"].to_numpy()


def test_naive_by_hand():
    (row,) = estimate(
        log_of([1, 3, 2]), ["recall@2"], estimators=["naive"], identification=False
    ).itertuples()
    assert row.value == pytest.approx(2 / 3)
    # Values 1, 0, 1: a variance of 1/3 between users. Student's 97.5% point for 2 is 4.302653.
    assert row.standard_error == pytest.approx(1 / 3)
    assert row.low == pytest.approx(2 / 3 - 4.302653 / 3, abs=1e-6)
    assert row.high == pytest.approx(2 / 3 + 4.302653 / 3, abs=1e-6)
    assert row.users == 3


def test_ties_are_averaged_over_their_order():
    table = pd.DataFrame({"user": [1, 2], "n_better": [1, 0], "n_tied": [2, 0]})
    log = read_log(table, n_items=50, n_negatives=9)
    by_hand = ((1 / 2 + 1 / 3 + 1 / 4) / 3 + 1) / 2
    assert values(log, "ap", "naive")[0] == pytest.approx(by_hand)


def enumerated(of, scores, negatives):
    """Mean of a metric over all orders of equal scores, by putting the items in each order."""
    labels = [(s, True) for s in scores] + [(s, False) for s in negatives]
    found = Counter()
    for order in permutations(range(len(labels))):
        ranked = sorted(order, key=lambda i: -labels[i][0])  # stable: ties as in `order`
        found[tuple(place for place, i in enumerate(ranked, start=1) if labels[i][1])] += 1
    values = [of.of_set(ranks, n_items=len(labels)) for ranks in found]
    return np.average(values, weights=list(found.values()))


@pytest.mark.parametrize("name", ["ap", "ndcg@3", "recall@2", "auc", "rr", "precision@3"])
def test_tied_relevant_items_are_averaged_over_their_order(name):
    users = {
        "u": ([5, 5, 2], [5, 5, 3, 1]),
        "v": ([4, 3, 3], [9, 4, 3, 1]),
        "w": ([7, 6, 5], [8, 7, 1, 1]),
    }
    rows, expected = [], []
    for user, (scores, negatives) in users.items():
        above = [sum(x > s for x in negatives) for s in scores]
        level = [sum(x == s for x in negatives) for s in scores]
        rows += [(user, i, a, t) for i, (a, t) in enumerate(zip(above, level, strict=True))]
        expected.append(enumerated(metric(name), scores, negatives))
    table = pd.DataFrame(rows, columns=["user", "item", "n_better", "n_tied"])
    log = read_log(table, n_items=40, n_negatives=4)
    assert values(log, name, "naive")[0] == pytest.approx(np.mean(expected), rel=1e-12)


def test_instances_of_a_user_are_averaged_before_users_are():
    table = pd.DataFrame({"user": [1, 1, 2], "instance": [1, 2, 1], "rank": [1, 4, 2]})
    (row,) = estimate(
        read_log(table, n_items=50, n_negatives=9),
        ["ap"],
        estimators=["naive"],
        identification=False,
    ).itertuples()
    one, two = (1 + 1 / 4) / 2, 1 / 2
    assert row.value == pytest.approx((one + two) / 2)
    assert row.standard_error == pytest.approx(abs(one - two) / 2)
    assert row.users == 2


@pytest.mark.parametrize("of", ["recall@3", "ap", "auc"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_user_has_the_estimator_of_its_own_protocol(of, name):
    # Users differ in catalogue, negatives and relevant items; each has an estimator of its own.
    users = {"a": (60, 9, [2, 5]), "b": (50, 9, [3]), "c": (60, 7, [1]), "d": (90, 7, [8])}
    rows = [(user, n, m, r, r) for user, (n, m, ranks) in users.items() for r in ranks]
    table = pd.DataFrame(rows, columns=["user", "n_items", "n_negatives", "rank", "item"])
    expected = []
    for n, m, ranks in users.values():
        protocol = Protocol(n, m, n_relevant=len(ranks))
        made = {
            "naive": estimators.naive,
            "rank estimate": estimators.rank_estimate,
            "least bias": estimators.least_bias,
            "monotone": estimators.monotone,
            "bias-variance": lambda of, p: estimators.bias_variance(of, p, 1 / 2),
        }[name](metric(of), protocol)
        expected.append(sum(float(made(r, j)) for j, r in enumerate(ranks, start=1)))
    assert values(read_log(table), of, name)[0] == pytest.approx(np.mean(expected), rel=1e-9)


CORRECTIONS = {
    "naive": estimators.naive,
    "rank estimate": estimators.rank_estimate,
    "monotone": estimators.monotone,
    "bias-variance": lambda of, protocol: estimators.bias_variance(of, protocol, 1e-3),
}


@pytest.mark.parametrize("of", ["recall@10", "ap"])
@pytest.mark.parametrize(
    ("name", "share"), [*zip(CORRECTIONS, [1e-9, 1e-9, 0.01, 1e-6], strict=True)]
)
def test_many_sizes_of_the_catalogue_cost_no_accuracy(of, name, share):
    # Over a hundred sizes: corrections are interpolated between a few of them.
    y = bundled_ranks()["Y"]
    few = np.sort(np.unique(y.n_candidates, return_index=True)[1])[::7]
    ranks = RankIntervals(y.n_better[few], y.n_tied[few], y.n_candidates[few])
    some = simulate({"Y": ranks}, 30, np.random.default_rng(3))
    assert some["n_items"].nunique() > 100
    log = read_log(some, replacement=False)
    table = estimate(log, [of], estimators=[name], gamma=1e-3, identification=False)
    each = []
    for user in some.itertuples():
        protocol = Protocol(user.n_items, 30, replacement=False)
        places = np.arange(user.n_better, user.n_better + user.n_tied + 1)
        each.append(CORRECTIONS[name](metric(of), protocol).values[places].mean())
    error = abs(table["value"][0] - np.mean(each)) / table["standard_error"][0]
    assert error < (0.01 if name == "monotone" else 1e-6)


def test_the_order_of_rows_and_the_names_of_users_do_not_matter():
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"user": np.arange(60), "rank": rng.integers(1, 11, 60)})
    other = table.assign(user=[f"u{i}" for i in rng.permutation(60)]).sample(frac=1, random_state=1)
    first, second = (
        estimate(read_log(t, n_items=50, n_negatives=9), ["ap", "recall@3"], identification=False)
        for t in (table, other)
    )
    numbers = ["value", "standard_error", "low", "high"]
    np.testing.assert_allclose(first[numbers], second[numbers], rtol=1e-9)
    assert first["estimator"].tolist()[: len(ESTIMATORS) - 1] == list(ESTIMATORS[:-1])


def test_least_bias_is_left_out_where_doubles_cannot_hold_it_and_refused_if_named():
    log = log_of([1, 5, 30, 101], n_items=3_000, n_negatives=100)
    found = evaluation.estimate(log, ["recall@10"], identification=False)
    assert set(found.frame["estimator"]) == set(ESTIMATORS[:-1]) - {"least bias"}
    assert list(found.notes) == [
        "least bias is left out of recall@10: with so many negatives it has no correct digits"
    ]
    with pytest.raises(ValueError, match="larger than 0 with 100 negatives"):
        values(log, "recall@10", "least bias")


def test_maximum_likelihood_and_entropy_are_the_metric_of_the_fitted_distribution():
    # Sampled without replacement down to one item left out: the fit has little choice.
    log = read_log(
        pd.DataFrame({"user": range(6), "rank": [1, 1, 2, 5, 5, 5]}),
        n_items=5,
        n_negatives=4,
        replacement=False,
    )
    # All four other items were sampled: sampled ranks are the true ones.
    for of, exact in (("ap", (2 + 0.5 + 0.6) / 6), ("recall@2", 0.5), ("auc", (2 + 0.75) / 6)):
        assert values(log, of, "maximum likelihood")[0] == pytest.approx(exact, abs=1e-6)


def test_every_gamma_has_the_plug_in_value_under_the_prior_of_maximum_likelihood():
    from sampled_metrics import priors

    counts, protocol = np.array([30, 12, 8, 9, 11, 30.0]), Protocol(200, 5)
    prior = priors.maximum_likelihood(counts, protocol)
    for name in ("recall@10", "ap"):
        plug_in = priors.plug_in(prior, metric(name), 200)
        for gamma in (1e-3, 0.1, 1.0, 10.0):
            made = estimators.bias_variance(metric(name), protocol, gamma, prior.mass)
            assert made.values @ counts / counts.sum() == pytest.approx(plug_in, abs=1e-8)


def test_the_standard_error_of_maximum_entropy_is_that_of_its_linear_expansion():
    # Against refits with a little more of each sampled rank.
    from sampled_metrics import priors

    rng = np.random.default_rng(8)
    protocol = Protocol(500, 20)
    ranks = protocol.draw(np.ceil(500 * rng.random(400) ** 3).astype(int), rng)
    log = log_of(ranks, 500, 20)
    row = estimate(log, ["recall@10"], estimators=["maximum entropy"], identification=False).iloc[0]
    counts = np.bincount(ranks - 1, minlength=21).astype(float)

    def refit(given):
        # The weight of entropy relative to the likelihood of one user stays as it was.
        weight = sqrt(400) * given.sum() / 400
        fit = priors.maximum_entropy(given, protocol, weight)
        return priors.plug_in(fit, metric("recall@10"), 500)

    step = 0.01
    slopes = np.array([(refit(counts + step * unit) - refit(counts)) / step for unit in np.eye(21)])
    slopes *= 400 + step
    shares = counts / 400
    spread = sqrt(shares @ slopes**2 - (shares @ slopes) ** 2)
    assert row["value"] == pytest.approx(refit(counts), abs=1e-7)
    assert row["standard_error"] == pytest.approx(spread / sqrt(399), rel=0.005)


def several_recommenders(users, same_users):
    """Rows of two recommenders with ties and two numbers of negatives, and perhaps other users."""
    rng = np.random.default_rng(8)
    true = np.minimum(rng.geometric(0.1, users), 60)
    rows = []
    for name, worse in (("A", 0), ("B", 6)):
        for user in range(users):
            m = 8 if user % 5 else 6
            above = int(rng.binomial(m, min(true[user] + worse - 1, 59) / 59))
            tied = int(rng.binomial(m - above, 0.1))
            other = user if name == "A" or same_users else user + 20
            rows.append((name, other, above, tied, m))
    return pd.DataFrame(rows, columns=["recommender", "user", "n_better", "n_tied", "n_negatives"])


@pytest.mark.parametrize("same_users", [True, False])
def test_standard_errors_are_those_of_leaving_out_one_user_and_fitting_anew(same_users):
    # Tukey's jackknife over all users of the log, each with its rows for all recommenders.
    rows, options = several_recommenders(40, same_users), {"gamma": 0.1, "identification": False}

    def fitted(kept):
        log = read_log(kept, n_items=60)
        return estimate(log, ["recall@3"], estimators=FITTED[:2], **options)

    found = fitted(rows)
    left = [fitted(rows[rows["user"] != user])["value"] for user in rows["user"].unique()]
    left = np.array(left)

    def spread(of):
        return np.sqrt((len(of) - 1) * of.var(axis=0))

    np.testing.assert_allclose(found["standard_error"], spread(left), rtol=0.06)
    for name in FITTED[:2] if same_users else ():
        compared = evaluation.compare(
            read_log(rows, n_items=60), "recall@3", estimator=name, gamma=0.1
        )
        table = compared.frame
        assert list(compared.notes) == [
            "users have 6 to 8 negatives: priors are fitted to 6 of each"
        ]
        (row,) = table.itertuples()
        apart = left[:, found["estimator"] == name] @ [1, -1]
        assert row.standard_error == pytest.approx(spread(apart), rel=0.06), name


def test_intervals_that_count_the_fitting_cover_the_expectation():
    # A population of which many are at the first ranks, and 120 logs of 300 of its users.
    rng = np.random.default_rng(42)
    first = np.minimum(rng.geometric(0.05, 4_000), 500)
    population = np.append(first, rng.integers(1, 501, 2_000))
    one = log_of(np.ones(300, dtype=int), 500, 20)
    tables = []
    for _ in range(120):
        ranks = Protocol(500, 20).draw(rng.choice(population, 300), rng)
        log = Log(one.frame.assign(n_better=ranks - 1), one.replacement)
        tables.append(estimate(log, ["ap"], estimators=FITTED[:1], identification=False))
    rows = pd.concat(tables)
    expected = rows["value"].mean()
    covered = ((rows["low"] <= expected) & (expected <= rows["high"])).sum()
    # Of 120 intervals of 95% fewer are one case in 58, of 85% so many one in 24.
    assert covered >= 109
    assert rows["standard_error"].mean() == pytest.approx(rows["value"].std(), rel=0.15)


def test_maximum_likelihood_has_no_interval_and_the_notes_say_so():
    log = log_of([1, 5, 3, 2, 9, 1, 1], 500, 20)
    found = evaluation.estimate(
        log, ["ap"], estimators=["maximum likelihood"], identification=False
    )
    table = found.frame
    assert table["value"].between(0, 1).all()
    assert table[["standard_error", "low", "high"]].isna().all(axis=None)
    assert table["users"].tolist() == [7]
    (note,) = found.notes
    assert note.startswith("maximum likelihood has no standard error")


def test_bad_arguments_are_named():
    log = log_of([1, 3, 2])
    for call, message in [
        (lambda: estimate(log, ["nddg@10"]), "did you mean 'ndcg'"),
        (lambda: estimate(log, []), "metrics must hold one metric"),
        (lambda: estimate(log, ["ap"], estimators=["naiv"]), "did you mean 'naive'"),
        (lambda: estimate(log, ["ap"], estimators=[]), "estimators must hold one"),
        (lambda: estimate(log, ["ap"], confidence=95), "confidence must be a number in"),
        (lambda: estimate(log, ["ap"], gamma=0), "gamma must be a finite number > 0"),
        (lambda: estimate(log_of([1]), ["ap"]), "users must be 2 or more"),
        (lambda: compare(log, "ap"), "recommenders must be 2 or more to be compared"),
        (lambda: estimate("no.csv", ["ap"]), "no.csv cannot be read"),
        (lambda: estimate(3, ["ap"]), "log must be a file or a data frame, got int"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def two(first, second, **columns):
    names = np.repeat(["A", "B"], [len(first), len(second)])
    users = np.concatenate([np.arange(len(first)), np.arange(len(second))])
    table = pd.DataFrame({"recommender": names, "user": users, "rank": [*first, *second]})
    return read_log(table.assign(**columns), n_items=1_000, n_negatives=9)


def test_priors_are_fitted_to_as_many_negatives_as_every_user_has():
    from fractions import Fraction

    from sampled_metrics import priors

    table = pd.DataFrame({"user": [1, 2, 3], "rank": [1, 2, 4], "n_negatives": [3, 2, 3]})
    log = read_log(table, n_items=50)
    result = evaluation.estimate(log, ["ap"], identification=False)
    found = result.frame
    assert found["estimator"].tolist() == list(ESTIMATORS[:-1])
    assert list(result.notes) == ["users have 2 to 3 negatives: priors are fitted to 2 of each"]
    # By leaving out each one of the three: of 0 or 3 above, 0 or 2 of any two are.
    counts = [Fraction(1), Fraction(1), Fraction(1)]
    fit = priors.maximum_entropy([float(c) for c in counts], Protocol(50, 2))
    plug_in = priors.plug_in(fit, metric("ap"), 50)
    assert values(log, "ap", "maximum entropy")[0] == pytest.approx(plug_in, abs=1e-9)
    # Bias-variance has for each user the values for its own number of negatives.
    means = []
    for m, better in ((3, 0), (2, 1), (3, 3)):
        prior = fit.mass
        made = estimators.bias_variance(metric("ap"), Protocol(50, m), 0.1, prior)
        means.append(made.values[better])
    corrected = values(log, "ap", FITTED[0], gamma=0.1)
    assert corrected[0] == pytest.approx(np.mean(means), abs=1e-9)


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        (
            {"user": [1, 1, 2], "item": [1, 2, 3], "rank": [1, 2, 3]},
            {},
            "a user has 2 relevant items",
        ),
        ({"user": [1, 2], "rank": [1, 3]}, {"n_items": 30_000_000}, "a user has 30,000,000 items"),
        (
            {"user": [1, 2, 3], "rank": [1, 2, 3], "n_items": [11, 5, 5], "n_negatives": [9, 3, 3]},
            {"replacement": False},
            "a user has 9 negatives, and a fit is for the mean of n_items, 7",
        ),
    ],
)
def test_what_is_left_out_of_a_table_is_said(columns, options, reason):
    sizes = {} if "n_items" in columns else {"n_items": 50, "n_negatives": 9}
    log = read_log(pd.DataFrame(columns), **(sizes | options))
    found = evaluation.estimate(log, ["ap"], identification=False)
    assert not set(found.frame["estimator"]) & set(FITTED)
    (note,) = found.notes
    assert note.startswith("bias-variance, fitted prior, and maximum entropy, are left out: ")
    assert reason in note
    with pytest.raises(ValueError, match=f"'maximum entropy' is not for this log: {reason}"):
        values(log, "ap", "maximum entropy")


def test_differences_are_paired_by_user():
    log = two([1, 2, 4, 3], [2, 4, 4, 10])
    (row,) = compare(log, "auc", estimator="naive").itertuples()
    # Of 9 negatives the second has 1, 2, 0 and 7 more above.
    differences = np.array([1, 2, 0, 7]) / 9
    assert row.corrected == row.naive == pytest.approx(differences.mean())
    assert row.standard_error == pytest.approx(differences.std(ddof=1) / 2)
    # Two ways to a verdict, and one pair.
    assert row.p_value == min(1.0, 2 * betting.against(differences, -1.0, 1.0)[1])


def test_p_values_are_adjusted_for_the_pairs_and_for_both_ways():
    # Ten users of whom B is 9 and C is 4 places of 9 behind A.
    names, ranks = np.repeat(["A", "B", "C"], 10), np.repeat([1, 10, 5], 10)
    rows = {"recommender": names, "user": [*range(10)] * 3, "rank": ranks}
    log = read_log(pd.DataFrame(rows), n_items=10, n_negatives=9, replacement=False)
    table = compare(log, "auc")
    stakes = [0.9 * 1.2**-k for k in range(8)]  # the last below 0.9 / root of 10
    for row, each in zip(table.itertuples(), [1, 4 / 9, -5 / 9], strict=True):
        e = np.mean([(1 + t * abs(each)) ** 10 for t in stakes])
        # Three pairs, two ways, two sides.
        assert row.p_value == pytest.approx(min(1.0, 3 * 2 * 2 / e))


def test_users_of_equal_auc_by_chance_are_no_verdict():
    # A is at rank 2 of 1,002, in 1 of 100 cases at the last, and B always at 12. No sample of 20
    # or 50 users without one of the cases can know of them.
    rng, protocol = np.random.default_rng(1), Protocol(1_002, 100)
    for users in (20, 50):
        drawn = {"A": protocol.draw(np.full(users, 2), rng)}
        drawn["B"] = protocol.draw(np.full(users, 12), rng)
        tables = [
            pd.DataFrame({"recommender": name, "user": range(users), "rank": ranks})
            for name, ranks in drawn.items()
        ]
        (row,) = compare(
            read_log(pd.concat(tables), n_items=1_002, n_negatives=100), "auc"
        ).itertuples()
        assert row.corrected > 2.5 * row.standard_error
        assert (row.verdict, row.separate) == (CANNOT_TELL, False)
        assert row.p_value > 0.05
        assert row.low < 0 < row.high


@pytest.mark.parametrize("of", ["auc", "recall@10"])
def test_nothing_beside_a_verdict_contradicts_it(population, of):
    rng, verdicts = np.random.default_rng(8), set()
    truth = {name: metric(of)(ranks, 300).mean() for name, ranks in population.items()}
    for users, m, name in [(60, 5, None), (300, 60, "naive"), (60, 5, "maximum entropy")]:
        for row in compare(drawn(population, users, 300, m, rng), of, estimator=name).itertuples():
            verdicts.add(given := row.verdict != CANNOT_TELL)
            assert given == (row.separate or row.p_value <= 0.05)
            assert given == (row.low > 0 or row.high < 0)
            assert not given or row.verdict.startswith(row.first) == (row.low > 0)
            assert row.low <= truth[row.first] - truth[row.second] <= row.high
            assert np.isnan(row.p_value) == (name in FITTED)
    assert of != "auc" or verdicts == {False, True}


def test_a_difference_beyond_the_bias_of_every_size_is_a_verdict():
    # The naive metric is biased by less than what is between a first and a last place.
    rng, users = np.random.default_rng(2), 300
    sizes = rng.integers(30, 45, users)
    tables = [
        pd.DataFrame({"recommender": name, "user": range(users), "n_items": sizes, "rank": ranks})
        for name, ranks in (("A", np.full(users, 1)), ("B", np.full(users, 29)))
    ]
    log = read_log(pd.concat(tables), n_negatives=28, replacement=False)
    (row,) = compare(log, "ap", estimator="naive").itertuples()
    values = evaluation._Values(evaluation._Sample(log), 0.1)
    ends = [naive_bias(size, 28, metric("ap")) for size in np.unique(sizes)]
    worst = max(high for _, high in ends) - min(low for low, _ in ends)
    assert values.worst_bias(metric("ap"), "naive", every=True) == pytest.approx(worst)
    assert 0 < values.worst_bias(metric("ap"), "naive") <= worst + 1e-12
    p = 4 * np.exp(-betting.log_e_value(np.array([28 / 29]), np.array([300.0]), -28 / 29, worst))
    assert row.p_value == pytest.approx(p, rel=1e-6)
    assert row.verdict == "A beats B"


def naive_bias(n_items, n_negatives, of):
    """The least and the largest bias of the naive metric over all ranks, from the definition."""
    ranks = np.arange(1, n_items + 1)
    sampled = np.arange(n_negatives + 1)
    law = stats.hypergeom(n_items - 1, (ranks - 1)[:, np.newaxis], n_negatives).pmf(sampled)
    bias = law @ of(sampled + 1, n_negatives + 1) - of(ranks, n_items)
    return bias.min(), bias.max()


def test_nothing_beside_a_verdict_counts_ties_as_half_right():
    # Up to nine negatives everything is a hit: no evaluation finds an order.
    (row,) = compare(two([1, 2, 5], [3, 1, 2]), "recall@10", estimator="naive").to_dict("records")
    assert row["verdict"] == CANNOT_TELL
    assert "probability" not in row
    assert (row["corrected"], row["p_value"], row["separate"]) == (0, 1, False)


def test_equal_recommenders_have_no_verdict():
    (row,) = compare(two([1, 2, 5], [1, 2, 5]), "ap", estimator="naive").itertuples()
    assert (row.corrected, row.p_value) == (0, 1)
    assert (row.verdict, row.warning, row.separate) == (CANNOT_TELL, "", False)


def test_users_must_be_the_same():
    with pytest.raises(ValueError, match="A and B differ in 1, such as 2"):
        compare(two([1, 2, 3], [1, 2]), "ap")
    with pytest.raises(ValueError, match="must have a standard error for differences"):
        compare(two([1, 2], [1, 2]), "ap", estimator="maximum likelihood")


@pytest.mark.parametrize("relevant", [1, 2])
def test_the_worst_bias_is_that_of_the_worst_users(relevant):
    protocol = Protocol(30, 5, n_relevant=relevant)
    table = pd.DataFrame({"user": np.repeat([1, 2], relevant), "rank": [3, 4][:relevant] * 2})
    table["item"] = table["rank"]
    values = evaluation._Values(evaluation._Sample(read_log(table, n_items=30, n_negatives=5)), 0.1)
    for name in ("naive", "bias-variance"):
        made = {
            "naive": estimators.naive,
            "bias-variance": lambda *a: estimators.bias_variance(*a, 0.1),
        }[name](metric("recall@2"), protocol)
        sets = list(combinations(range(1, 31), relevant))
        bias = [made.expected_of_set(r) - metric("recall@2").of_set(r, 30) for r in sets]
        worst = values.worst_bias(metric("recall@2"), name)
        # With several items the bound lets each be where its own bias is the worst.
        assert worst >= max(bias) - min(bias) - 1e-12
        if relevant == 1:
            assert worst == pytest.approx(max(bias) - min(bias), rel=1e-9)


@pytest.fixture(scope="module")
def simulated():
    """A thousand logs of 400 users each, as the recommenders of one log, and their population."""
    rng = np.random.default_rng(2_024)
    n, m, runs, users = 3_000, 20, 1_000, 400
    population = np.minimum(bundled_ranks()["X"].n_better + 1, n)
    ranks = rng.choice(population, (runs, users))
    table = pd.DataFrame(
        {
            "recommender": np.repeat(np.arange(runs), users),
            "user": np.tile(np.arange(users), runs),
            "rank": Protocol(n, m).draw(ranks, rng).ravel(),
        }
    )
    return read_log(table, n_items=n, n_negatives=m), population, Protocol(n, m)


@pytest.mark.parametrize("of", ["recall@10", "ndcg@10", "ap", "auc"])
def test_95_percent_intervals_cover_their_expectation(simulated, of):
    log, population, protocol = simulated
    makers = {
        "least bias": estimators.least_bias,
        "bias-variance": lambda *a: estimators.bias_variance(*a, 1 / 20),
        "monotone": estimators.monotone,
        "rank estimate": estimators.rank_estimate,
    }
    table = estimate(log, [of], estimators=list(makers), identification=False)
    for name, make in makers.items():
        expected = make(metric(of), protocol).expected(population).mean()
        rows = table[table["estimator"] == name]
        assert len(rows) == 1_000
        covered = ((rows["low"] <= expected) & (expected <= rows["high"])).mean()
        assert 0.93 <= covered <= 0.97, name


def drawn(population, users, n, m, rng):
    """A log of some of the users of a population, {recommender: true ranks}, and its truth."""
    some = rng.integers(0, len(next(iter(population.values()))), users)
    tables = [
        pd.DataFrame(
            {
                "recommender": name,
                "user": np.arange(users),
                "rank": Protocol(n, m).draw(ranks[some], rng),
            }
        )
        for name, ranks in population.items()
    ]
    return read_log(pd.concat(tables, ignore_index=True), n_items=n, n_negatives=m)


@pytest.fixture(scope="module")
def population():
    """Ranks of X, Y and Z in a catalogue of 300, and the same in nearly the same order."""
    return {
        name: 1 + np.floor(300 * (r.n_better + r.n_tied / 2) / r.n_candidates).astype(int)
        for name, r in bundled_ranks().items()
    }


@pytest.mark.parametrize("of", ["auc", "recall@10", "ap"])
def test_verdicts_are_right_or_not_given(population, of):
    rng = np.random.default_rng(17)
    truth = {name: metric(of)(ranks, 300).mean() for name, ranks in population.items()}
    given = 0
    for _ in range(8):
        table = compare(drawn(population, 500, 300, 10, rng), of)
        for row in table.itertuples():
            if row.verdict == CANNOT_TELL:
                continue
            given += 1
            better = max((row.first, row.second), key=truth.get)
            assert row.verdict.startswith(f"{better} beats ")
    # AUC is known but for chance; of a list of 10 the sample of 10 shows next to nothing.
    assert given >= 20 if of == "auc" else given == 0


def test_a_difference_beyond_any_bias_is_a_verdict():
    rng = np.random.default_rng(5)
    population = {"A": np.full(50, 200), "B": rng.integers(1, 5, 50)}
    (row,) = compare(drawn(population, 300, 300, 50, rng), "recall@10").itertuples()
    assert row.separate
    assert row.verdict == "B beats A"


def test_significance_is_no_verdict_where_bias_could_explain_it():
    # The naive difference is one of 30 standard errors, and wrong: all of A's ranks are beyond 10.
    rng = np.random.default_rng(6)
    population = {"A": np.full(100, 25), "B": np.append(np.full(30, 5), np.full(70, 290))}
    log = drawn(population, 400, 300, 10, rng)
    (row,) = compare(log, "recall@10", estimator="naive").itertuples()
    assert row.corrected > 20 * row.standard_error
    assert (row.verdict, row.separate, row.p_value) == (CANNOT_TELL, False, 1)
    assert row.low < 0 < row.high
    (row,) = compare(log, "recall@10", estimator="maximum entropy").itertuples()
    assert row.naive > 0


def test_identification_rows_hold_the_exact_metric_of_the_population(population):
    rng = np.random.default_rng(7)
    log = drawn(population, 400, 300, 10, rng)
    table = estimate(log, ["recall@10", "auc"], estimators=["naive"])
    rows = table[table["estimator"] == "identification"]
    assert rows["value"].isna().all()
    assert len(rows) == 6
    for row in rows.itertuples():
        exact = metric(row.metric)(population[row.recommender], 300).mean()
        assert row.low <= exact <= row.high
    assert (rows["high"] - rows["low"])[rows["metric"] == "auc"].max() < 0.12


def test_naive_and_corrected_disagree_with_a_warning(population):
    # X has the largest naive recall and the smallest exact one.
    rng = np.random.default_rng(9)
    log = drawn(population, 3_000, 300, 30, rng)
    table = compare(log, "recall@3")
    wrong = table["naive"] * table["corrected"] < 0
    assert wrong.any()
    assert (table["warning"] != "").tolist() == wrong.tolist()
    assert table.loc[wrong, "warning"].str.startswith("naive recall@3 says the opposite: ").all()


def test_rounding_is_no_difference_no_error_and_no_warning():
    rng = np.random.default_rng(4)
    ranks = rng.integers(1, 12, 199)
    table = pd.concat(
        pd.DataFrame({"recommender": name, "user": range(199), "rank": order})
        for name, order in (("A", ranks), ("B", rng.permutation(ranks)), ("C", ranks[::-1]))
    )
    found = compare(read_log(table, n_items=500, n_negatives=11), "ndcg")
    assert (found[["naive", "corrected"]] == 0).all(axis=None)
    assert (found["p_value"] == 1).all()
    assert (found["warning"] == "").all()
    alike = log_of([1] * 30, n_items=500, n_negatives=11)
    errors = estimate(alike, ["ndcg@10"], identification=False)["standard_error"]
    assert (errors == 0).all()


def test_ranks_that_no_sample_leads_to_are_refused():
    # All users at the middle of 99 negatives: a binomial count would spread.
    log = log_of([50] * 200, n_items=1_000, n_negatives=99)
    with pytest.raises(ValueError, match="the sampled ranks of recommender are none that such"):
        estimate(log, ["ap"], estimators=["naive"])

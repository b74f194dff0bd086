"""Estimates and verdicts from a log: by hand, by enumeration, and over simulated logs."""

from itertools import combinations, permutations
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sampled_metrics import Protocol, estimators, evaluation, metric
from sampled_metrics.datasets import bundled_ranks
from sampled_metrics.evaluation import CANNOT_TELL, ESTIMATORS, FITTED, compare, estimate
from sampled_metrics.logs import read_log

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
    found = []
    for order in permutations(range(len(labels))):
        ranked = sorted(order, key=lambda i: -labels[i][0])  # stable: ties as in `order`
        ranks = [place for place, i in enumerate(ranked, start=1) if labels[i][1]]
        found.append(of.of_set(ranks, n_items=len(labels)))
    return np.mean(found)


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
    rows = [(user, n, m, r) for user, (n, m, ranks) in users.items() for r in ranks]
    table = pd.DataFrame(rows, columns=["user", "n_items", "n_negatives", "rank"])
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
    frame = read_log("bundled").frame
    some = frame[frame["recommender"] == "Y"].iloc[::40]
    assert some["n_items"].nunique() > 100
    log = read_log(some.drop(columns=["instance", "position", "n_relevant"]), replacement=False)
    table = estimate(log, [of], estimators=[name], gamma=1e-3, identification=False)
    each = []
    for user in some.itertuples():
        protocol = Protocol(user.n_items, 100, replacement=False)
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


def test_least_bias_is_left_out_where_it_has_no_digits_and_warns_if_named():
    log = log_of([1, 5, 30, 101], n_items=3_000, n_negatives=100)
    table = estimate(log, ["recall@10"], identification=False)
    assert set(table["estimator"]) == set(ESTIMATORS[:-1]) - {"least bias"}
    with pytest.warns(RuntimeWarning, match="no correct digits|ill-conditioned"):
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
    # Against refits with a little more of each sampled rank. The expansion takes the fitted shares
    # for the observed ones, which is a matter of a tenth here.
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

    step = 0.1
    slopes = np.array([(refit(counts + step * unit) - refit(counts)) / step for unit in np.eye(21)])
    slopes *= 400 + step
    shares = counts / 400
    spread = sqrt(shares @ slopes**2 - (shares @ slopes) ** 2)
    assert row["value"] == pytest.approx(refit(counts), abs=1e-7)
    assert row["standard_error"] == pytest.approx(spread / sqrt(400), rel=0.15)


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
        (lambda: estimate("log.csv", ["ap"]), "log must be a Log"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def two(first, second, **columns):
    names = np.repeat(["A", "B"], [len(first), len(second)])
    users = np.concatenate([np.arange(len(first)), np.arange(len(second))])
    table = pd.DataFrame({"recommender": names, "user": users, "rank": [*first, *second]})
    return read_log(table.assign(**columns), n_items=1_000, n_negatives=9)


def test_fitted_priors_are_for_users_with_one_law():
    table = pd.DataFrame({"user": [1, 2], "rank": [1, 2], "n_negatives": [9, 8]})
    log = read_log(table, n_items=50)
    assert not set(estimate(log, ["ap"], identification=False)["estimator"]) & set(FITTED)
    with pytest.raises(ValueError, match="'maximum entropy' is for logs with one relevant item"):
        values(log, "ap", "maximum entropy")


def test_differences_are_paired_by_user():
    log = two([1, 2, 4, 3], [2, 4, 4, 10])
    (row,) = compare(log, "auc", estimator="naive").itertuples()
    # Of 9 negatives the second has 1, 2, 0 and 7 more above.
    differences = np.array([1, 2, 0, 7]) / 9
    assert row.corrected == row.naive == pytest.approx(differences.mean())
    assert row.standard_error == pytest.approx(differences.std(ddof=1) / 2)
    z = differences.mean() / (differences.std(ddof=1) / 2)
    assert row.probability == pytest.approx(stats.norm.cdf(z))
    assert row.p_value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)


def test_p_values_are_adjusted_by_holm():
    # Of sorted p-values the smallest counts three times, the next twice, and none falls.
    assert evaluation._holm(np.array([0.04, 0.01, 0.03])).tolist() == [0.06, 0.03, 0.06]
    assert evaluation._holm(np.array([0.9, 0.6])).tolist() == [1.0, 1.0]


def test_equal_recommenders_are_a_coin():
    (row,) = compare(two([1, 2, 5], [1, 2, 5]), "ap", estimator="naive").itertuples()
    assert (row.corrected, row.probability, row.p_value) == (0, 0.5, 1)
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
    values = evaluation._Values(evaluation._Sample(read_log(table, n_items=30, n_negatives=5)), 0.1)
    for name in ("naive", "bias-variance"):
        found = values.of(metric("recall@2"), name)["recommender"]
        made = {
            "naive": estimators.naive,
            "bias-variance": lambda *a: estimators.bias_variance(*a, 0.1),
        }[name](metric("recall@2"), protocol)
        sets = list(combinations(range(1, 31), relevant))
        bias = [made.expected_of_set(r) - metric("recall@2").of_set(r, 30) for r in sets]
        worst = values.worst_bias(metric("recall@2"), found, found)
        # With several items the bound lets each be where its own bias is the worst.
        assert worst >= max(bias) - min(bias) - 1e-12
        if relevant == 1:
            assert worst == pytest.approx(max(bias) - min(bias), rel=1e-9)


@pytest.fixture(scope="module")
def simulated():
    """A thousand logs of 400 users each, as the recommenders of one log, and their population."""
    rng = np.random.default_rng(2_024)
    exact = bundled_ranks()
    exact = exact[exact["recommender"] == "X"]
    n, m, runs, users = 3_000, 20, 1_000, 400
    population = np.minimum(exact["n_better"].to_numpy() + 1, n)
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
    ranks = bundled_ranks()
    share = (ranks["n_better"] + ranks["n_tied"] / 2) / ranks["n_candidates"]
    ranks["rank"] = 1 + np.floor(300 * share).astype(int)
    return {name: rows["rank"].to_numpy() for name, rows in ranks.groupby("recommender")}


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
    assert row.p_value < 1e-6
    assert row.corrected > 0
    assert (row.verdict, row.separate) == (CANNOT_TELL, False)
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

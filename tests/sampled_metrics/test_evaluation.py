"""Estimates and verdicts from a log: by hand, by enumeration, and over simulated logs."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from math import comb, sqrt

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sampled_metrics import Protocol, RelevantSets, _ranges, estimators, evaluation, metric
from sampled_metrics.bounds import identification
from sampled_metrics.bounds.assumption import Assumption, assumption_name
from sampled_metrics.designs import judging, ranges, remedies
from sampled_metrics.designs import values as row_values
from sampled_metrics.designs.sample import Sample
from sampled_metrics.designs.values import Values
from sampled_metrics.evaluation import ESTIMATORS, FITTED, UNDECIDED
from sampled_metrics.log import compact
from sampled_metrics.log import sources as _sources
from sampled_metrics.log.read import read_log
from sampled_metrics.numerics import betting
from sampled_metrics.protocol import Adaptive
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.readers import from_scores
from tests.reference import bundled_ranks, draw_log, plug_in


def estimate(*arguments, **options):
    """The table alone."""
    return evaluation.estimate(*arguments, **options).frame


def estimate_each(*arguments, **options):
    """The table alone."""
    return evaluation.estimate_each(*arguments, **options).frame


def compare(*arguments, **options):
    """The table alone."""
    return evaluation.compare(*arguments, **options).frame


PLAIN = [name for name in ESTIMATORS if name not in FITTED]


def log_of(ranks, n_items=50, n_negatives=9, **columns):
    """A log of one recommender from sampled ranks, a user each."""
    table = pd.DataFrame({"user": np.arange(len(ranks)), "rank": ranks}).assign(**columns)
    return read_log(table, n_items=n_items, n_negatives=n_negatives, replacement=True)


def values(log, metric_name, name, **options):
    table = estimate_each(log, [metric_name], estimators=[name], **options)
    return table["value"].to_numpy()


def test_naive_by_hand():
    (row,) = estimate_each(log_of([1, 3, 2]), ["recall@2"], estimators=["naive"]).itertuples()
    assert row.value == pytest.approx(2 / 3)
    # Values 1, 0, 1: a variance of 1/3 between users. Student's 97.5% point for 2 is 4.302653.
    assert row.standard_error == pytest.approx(1 / 3)
    assert row.low == pytest.approx(2 / 3 - 4.302653 / 3, abs=1e-6)
    assert row.high == pytest.approx(2 / 3 + 4.302653 / 3, abs=1e-6)
    assert row.users == 3


def test_ties_are_averaged_over_their_order():
    table = pd.DataFrame({"user": [1, 2], "n_better": [1, 0], "n_tied": [2, 0]})
    log = read_log(table, n_items=50, n_negatives=9, replacement=True)
    by_hand = ((1 / 2 + 1 / 3 + 1 / 4) / 3 + 1) / 2
    assert values(log, "ap", "naive")[0] == pytest.approx(by_hand)


def enumerated(parsed_metric, scores, negatives):
    """Mean of a metric over all orders of equal scores, by putting the items in each order."""
    labels = [(s, True) for s in scores] + [(s, False) for s in negatives]
    count_by_ranks = Counter()
    for order in permutations(range(len(labels))):
        ranked = sorted(order, key=lambda i: -labels[i][0])  # stable: ties as in `order`
        count_by_ranks[tuple(place for place, i in enumerate(ranked, start=1) if labels[i][1])] += 1
    values = [parsed_metric.of_set(ranks, n_items=len(labels)) for ranks in count_by_ranks]
    return np.average(values, weights=list(count_by_ranks.values()))


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
    log = read_log(table, n_items=40, n_negatives=4, replacement=True)
    assert values(log, name, "naive")[0] == pytest.approx(np.mean(expected), rel=1e-12)


def test_instances_of_a_user_are_averaged_before_users_are():
    table = pd.DataFrame({"user": [1, 1, 2], "instance": [1, 2, 1], "rank": [1, 4, 2]})
    (row,) = estimate_each(
        read_log(table, n_items=50, n_negatives=9, replacement=True),
        ["ap"],
        estimators=["naive"],
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
        estimator = {
            "naive": estimators.naive,
            "rank estimate": estimators.rank_estimate,
            "least bias": estimators.least_bias,
            "monotone": estimators.monotone,
            "bias-variance": lambda of, p: estimators.bias_variance(of, p, 1 / 2),
        }[name](metric(of), protocol)
        expected.append(sum(float(estimator(r, j)) for j, r in enumerate(ranks, start=1)))
    assert values(read_log(table, replacement=True), of, name)[0] == pytest.approx(
        np.mean(expected), rel=1e-9
    )


CORRECTIONS = {
    "naive": estimators.naive,
    "rank estimate": estimators.rank_estimate,
    "monotone": estimators.monotone,
    "bias-variance": lambda of, protocol: estimators.bias_variance(of, protocol, 1e-3),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("of", ["recall@10", "ap"])
@pytest.mark.parametrize(
    ("name", "share"), [*zip(CORRECTIONS, [1e-9, 1e-9, 0.01, 1e-6], strict=True)]
)
def test_many_sizes_of_the_catalogue_cost_no_accuracy(of, name, share):
    # Over a hundred sizes: corrections are interpolated between a few of them.
    intervals = bundled_ranks()["Y"]
    user_index = np.sort(np.unique(intervals.n_candidates, return_index=True)[1])[::7]
    ranks = RankIntervals(
        intervals.n_better[user_index],
        intervals.n_tied[user_index],
        intervals.n_candidates[user_index],
    )
    rows = draw_log({"Y": ranks}, 30, np.random.default_rng(3))
    assert rows["n_items"].nunique() > 100
    log = read_log(rows, replacement=False)
    table = estimate_each(log, [of], estimators=[name], gamma=1e-3)
    user_values = []
    for user in rows.itertuples():
        protocol = Protocol(user.n_items, 30, replacement=False)
        places = np.arange(user.n_better, user.n_better + user.n_tied + 1)
        user_values.append(CORRECTIONS[name](metric(of), protocol).values[places].mean())
    error = abs(table["value"][0] - np.mean(user_values)) / table["standard_error"][0]
    assert error < (0.01 if name == "monotone" else 1e-6)


def test_the_order_of_rows_and_the_names_of_users_do_not_matter():
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"user": np.arange(60), "rank": rng.integers(1, 11, 60)})
    shuffled = table.assign(user=[f"u{i}" for i in rng.permutation(60)]).sample(
        frac=1, random_state=1
    )
    first, second = (
        estimate_each(
            read_log(t, n_items=50, n_negatives=9, replacement=True),
            ["ap", "recall@3"],
            estimators="all",
        )
        for t in (table, shuffled)
    )
    numbers = ["value", "standard_error", "low", "high"]
    np.testing.assert_allclose(first[numbers], second[numbers], rtol=1e-9)
    assert first["estimator"].tolist()[: len(ESTIMATORS) - 1] == list(ESTIMATORS[:-1])


def test_least_bias_is_left_out_where_doubles_cannot_hold_it_and_refused_if_named():
    log = log_of([1, 5, 30, 101], n_items=3_000, n_negatives=100)
    estimates = evaluation.estimate_each(log, ["recall@10"])
    assert set(estimates.frame["estimator"]) == set(ESTIMATORS[:-1]) - {"least bias"}
    assert list(estimates.notes) == [
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
    for metric_name, exact in (
        ("ap", (2 + 0.5 + 0.6) / 6),
        ("recall@2", 0.5),
        ("auc", (2 + 0.75) / 6),
    ):
        assert values(log, metric_name, "maximum likelihood")[0] == pytest.approx(exact, abs=1e-6)


def test_every_gamma_has_the_plug_in_value_under_the_prior_of_maximum_likelihood():
    from sampled_metrics import priors

    counts, protocol = np.array([30, 12, 8, 9, 11, 30.0]), Protocol(200, 5)
    prior = priors.maximum_likelihood(counts, protocol)
    for name in ("recall@10", "ap"):
        plugged = plug_in(prior.mass, name, 200)
        for gamma in (1e-3, 0.1, 1.0, 10.0):
            estimator = estimators.bias_variance(metric(name), protocol, gamma, prior.mass)
            assert estimator.values @ counts / counts.sum() == pytest.approx(plugged, abs=1e-8)


def test_the_standard_error_of_maximum_entropy_is_that_of_its_linear_expansion():
    # Against refits with a little more of each sampled rank.
    from sampled_metrics import priors

    rng = np.random.default_rng(8)
    protocol = Protocol(500, 20)
    ranks = protocol.draw(np.ceil(500 * rng.random(400) ** 3).astype(int), rng)
    log = log_of(ranks, 500, 20)
    row = estimate_each(log, ["recall@10"], estimators=["maximum entropy"]).iloc[0]
    counts = np.bincount(ranks - 1, minlength=21).astype(float)

    def refit(refit_counts):
        # The weight of entropy relative to the likelihood of one user stays as it was.
        weight = sqrt(400) * refit_counts.sum() / 400
        fit = priors.maximum_entropy(refit_counts, protocol, weight)
        return fit.mass[:10].sum()

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
    true_ranks = np.minimum(rng.geometric(0.1, users), 60)
    rows = []
    for name, rank_shift in (("A", 0), ("B", 6)):
        for user in range(users):
            m = 8 if user % 5 else 6
            above = int(rng.binomial(m, min(true_ranks[user] + rank_shift - 1, 59) / 59))
            tied = int(rng.binomial(m - above, 0.1))
            user_label = user if name == "A" or same_users else user + 20
            rows.append((name, user_label, above, tied, m))
    return pd.DataFrame(rows, columns=["recommender", "user", "n_better", "n_tied", "n_negatives"])


def check_by_leaving_out(rows, of, same_users, tolerance, **sizes):
    """Hold standard errors against a jackknife: users left out, and counted twice.

    Tukey's, which only leaves out, is off by the curvature of the fit, as 1 over the users. Half
    the difference between counting a user twice and not at all is free of it.
    """

    def fitted(kept_rows):
        log = read_log(kept_rows, replacement=True, **sizes)
        return estimate_each(log, [of], estimators=FITTED[:2], gamma=0.1)

    table = fitted(rows)
    users = rows.groupby("recommender")["user"].nunique().max()  # of each, as of the other
    changes = []
    for user in rows["user"].unique():
        is_user = rows["user"] == user
        doubled = pd.concat([rows, rows[is_user].assign(user=10_000)])
        changes.append((fitted(doubled)["value"] - fitted(rows[~is_user])["value"]) / 2)
    changes = np.array(changes)

    def spread(of):  # a user of the other recommender changes nothing
        influence = (users - 1 / users) * of
        squares = (influence**2).sum(axis=0) - influence.sum(axis=0) ** 2 / users
        return np.sqrt(squares / users / (users - 1))

    np.testing.assert_allclose(table["standard_error"], spread(changes), rtol=tolerance)
    for name in FITTED[:2] if same_users else ():
        log = read_log(rows, replacement=True, **sizes)
        compared = evaluation.compare(log, of, estimator=name, gamma=0.1)
        assert "users have 6 to 8 negatives: priors are fitted to 6 of each" in compared.notes
        (row,) = compared.frame.itertuples()
        differences = changes[:, table["estimator"] == name] @ [1, -1]
        assert row.standard_error == pytest.approx(spread(differences), rel=tolerance), name


@pytest.mark.matrix
@pytest.mark.parametrize("same_users", [True, False])
def test_standard_errors_are_those_of_leaving_out_one_user_and_fitting_anew(same_users):
    rows = several_recommenders(40, same_users)
    check_by_leaving_out(rows, "recall@3", same_users, 0.06, n_items=60)


def sets_of(users, rng, n_irrelevant=60):
    """Rows of two recommenders whose users have 1 to 5 items: easy users have all near the top.

    Items may be tied with negatives and each other; every fifth user has fewer negatives.
    """
    rows, easy = [], rng.beta(0.6, 1.5, users)
    for name, place_shift in (("A", 0.0), ("B", 0.08)):
        for user in range(users):
            relevant, m = 1 + user * 7_919 % 5, 8 if user % 5 else 6
            place = np.clip(easy[user] + place_shift + rng.normal(0, 0.15, relevant), 0, 1)
            scores = np.sort((place * n_irrelevant).astype(int) // 3)
            negatives = rng.integers(0, n_irrelevant, m) // 3
            for item, score in enumerate(scores):
                counts = int((negatives < score).sum()), int((negatives == score).sum())
                rows.append((name, user, item, *counts, m, n_irrelevant + relevant))
    columns = ["recommender", "user", "item", "n_better", "n_tied", "n_negatives", "n_items"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.some(1)
@pytest.mark.exhaustive
@pytest.mark.parametrize("same_users", [True, False])
def test_standard_errors_of_sets_are_those_of_leaving_out_one_user_and_fitting_anew(same_users):
    rows = sets_of(25, np.random.default_rng(8))
    rows["user"] += np.where((rows["recommender"] == "B") & (not same_users), 20, 0)
    check_by_leaving_out(rows, "ndcg@4", same_users, 0.03)


@pytest.mark.parametrize("of", ["recall@3", "precision@2", "ndcg@3", "ndcg", "ap", "ap@3", "rr"])
def test_fits_to_sets_of_which_all_negatives_were_sampled_are_the_exact_metric(of):
    # Six irrelevant items, all of them drawn: sampled ranks are true ones, and a fit has no choice.
    sets = [(2,), (1, 4), (3, 4), (1, 2, 7), (2, 5, 9), (6,), (1, 8)]
    rows = [(user, rank, 6 + len(ranks)) for user, ranks in enumerate(sets) for rank in ranks]
    table = pd.DataFrame(rows, columns=["user", "rank", "n_items"])
    log = read_log(table.assign(item=table.index), n_negatives=6, replacement=False)
    exact = np.mean([metric(of).of_set(ranks, 6 + len(ranks)) for ranks in sets])
    assert values(log, of, "maximum likelihood")[0] == pytest.approx(exact, abs=1e-6)


def test_each_place_has_a_prior_of_its_own_by_hand():
    # Users with two items: a fit to the better ones, and one to the others.
    from sampled_metrics import priors

    ranks = np.array([[1, 2], [1, 4], [2, 3], [5, 9], [1, 3], [4, 5]])
    rows = {"user": np.repeat(np.arange(6), 2), "item": np.arange(12), "rank": ranks.ravel()}
    log = read_log(pd.DataFrame(rows), n_items=52, n_negatives=8, replacement=True)
    above = ranks - [1, 2]
    fits = [
        priors.maximum_entropy(np.bincount(place_above, minlength=9), Protocol(51, 8))
        for place_above in above.T
    ]
    for metric_name in ("recall@3", "ap", "ndcg"):
        plugged = [
            plug_in(dict(enumerate(fit.mass, start=1)), metric_name, 52, position=j, n_relevant=2)
            for j, fit in enumerate(fits, start=1)
        ]
        assert values(log, metric_name, "maximum entropy")[0] == pytest.approx(
            sum(plugged), abs=1e-9
        )
        corrected = 0.0
        for j, fit in enumerate(fits):
            estimator = estimators.bias_variance(
                metric_name, Protocol(52, 8, n_relevant=2), 0.1, prior=fit.mass
            )
            corrected += estimator.values[j][above[:, j]].mean()
        assert values(log, metric_name, FITTED[0], gamma=0.1)[0] == pytest.approx(
            corrected, abs=1e-9
        )


def test_items_of_many_and_of_few_weigh_as_in_the_metric():
    # Recall halves each item of two: 1.5 users' worth of better ones, whose weights are as even
    # as those of 1.5**2 / 1.25 users.
    from sampled_metrics import priors

    rows = {"user": [0, 1, 1], "item": [0, 1, 2], "rank": [4, 1, 8], "n_items": [51, 52, 52]}
    log = read_log(pd.DataFrame(rows), n_negatives=8, replacement=True)
    counts = np.zeros((2, 9))
    counts[0, [3, 0]] = np.array([1.0, 0.5]) * 1.5 / 1.25
    counts[1, 6] = 1.0
    first, second = (
        priors.maximum_entropy(place_counts, Protocol(51, 8)) for place_counts in counts
    )
    expected = 0.75 * first.mass[:3].sum() + 0.25 * second.mass[:2].sum()
    assert values(log, "recall@3", "maximum entropy")[0] == pytest.approx(expected, abs=1e-9)


def test_ties_among_relevant_items_are_spread_as_their_order_is():
    # The mean of a value over the spread ranks is that over the users, looked up one by one.
    sample = Sample(read_log(sets_of(60, np.random.default_rng(2)), replacement=True))
    assert (sample.many > 0).sum() > 20
    rng, values_of = np.random.default_rng(3), Values(sample, 0.1)
    tables = {m: rng.normal(size=(5, m + 1)) for m in (6, 8)}
    build = row_values._of_places(metric("precision@5"), tables.__getitem__)
    expected = sample.mean({"A": values_of.looked_up(build)}, 60).value
    total = sum(
        0.2 * table[j] @ sample.at_ranks("A", m, (sample.position == j + 1).astype(float))
        for m, table in tables.items()
        for j in range(5)
    )
    assert total / 60 == pytest.approx(expected, rel=1e-12)


@pytest.mark.matrix
@pytest.mark.simulation
def test_intervals_of_sets_cover_the_expectation_of_the_fits():
    # Logs of 120 users; a quarter of the population has all items at the top, a quarter nowhere.
    rng, tables = np.random.default_rng(2), []
    pool = 400
    for _ in range(60):
        relevant = rng.integers(1, 12, 120)
        kinds = rng.integers(0, 4, 120)
        rows = []
        for user, (n_relevant, user_kind) in enumerate(zip(relevant, kinds, strict=True)):
            above = rng.integers(0, {0: 4, 1: 40}.get(int(user_kind), pool), n_relevant)
            above = np.sort(above + (pool - 40 if user_kind == 2 else 0)).clip(0, pool)
            sampled = np.searchsorted(np.sort(rng.integers(0, pool, 20)), above)
            rows += [(user, i, x, 0, pool + n_relevant) for i, x in enumerate(sampled)]
        columns = ["user", "item", "n_better", "n_tied", "n_items"]
        log = read_log(pd.DataFrame(rows, columns=columns), n_negatives=20, replacement=True)
        tables.append(estimate_each(log, ["ap@10"], estimators=FITTED[:2]))
    rows = pd.concat(tables)
    for name, table in rows.groupby("estimator"):
        expected = table["value"].mean()
        covered = ((table["low"] <= expected) & (expected <= table["high"])).sum()
        # Of 60 intervals of 95% fewer are one case in 80.
        assert covered >= 53, name
        assert table["standard_error"].mean() == pytest.approx(table["value"].std(), rel=0.25)


@pytest.mark.matrix
def test_intervals_that_count_the_fitting_cover_the_expectation():
    # A population of which many are at the first ranks, and 120 logs of 300 of its users.
    rng = np.random.default_rng(42)
    first = np.minimum(rng.geometric(0.05, 4_000), 500)
    population = np.append(first, rng.integers(1, 501, 2_000))
    template_log = log_of(np.ones(300, dtype=int), 500, 20)
    tables = []
    for _ in range(120):
        ranks = Protocol(500, 20).draw(rng.choice(population, 300), rng)
        rows = template_log.frame.assign(n_better=ranks - 1)
        log = read_log(rows, replacement=template_log.replacement)
        tables.append(estimate_each(log, ["ap"], estimators=FITTED[:1]))
    rows = pd.concat(tables)
    expected = rows["value"].mean()
    covered = ((rows["low"] <= expected) & (expected <= rows["high"])).sum()
    # Of 120 intervals of 95% fewer are one case in 58, of 85% so many one in 24.
    assert covered >= 109
    assert rows["standard_error"].mean() == pytest.approx(rows["value"].std(), rel=0.15)


def test_maximum_likelihood_has_no_interval_and_the_notes_say_so():
    log = log_of([1, 5, 3, 2, 9, 1, 1], 500, 20)
    estimates = evaluation.estimate_each(log, ["ap"], estimators=["maximum likelihood"])
    table = estimates.frame
    assert table["value"].between(0, 1).all()
    assert table[["standard_error", "low", "high"]].isna().all(axis=None)
    assert table["users"].tolist() == [7]
    (note,) = estimates.notes
    assert note.startswith("maximum likelihood has no standard error")


def test_bad_arguments_are_named():
    log = log_of([1, 3, 2])
    for call, message in [
        (lambda: estimate(log, ["nddg@10"]), "did you mean 'ndcg'"),
        (lambda: estimate(log, []), "metrics must hold one metric"),
        (lambda: estimate_each(log, ["ap"], estimators=["naiv"]), "did you mean 'naive'"),
        (lambda: estimate_each(log, ["ap"], estimators=[]), "estimators must hold one"),
        (lambda: estimate(log, ["ap"], confidence=95), "confidence must be a number in"),
        (lambda: estimate(log, ["ap"], gamma=0), "gamma must be a finite number > 0"),
        (lambda: estimate(log_of([1]), ["ap"]), "users must be 2 or more"),
        (lambda: compare(log, "ap"), "recommenders must be 2 or more to be compared"),
        (lambda: estimate("no.csv", ["ap"]), "no.csv cannot be read"),
        (lambda: estimate(3, ["ap"]), "log must be a file or a data frame, got int"),
        (lambda: estimate(log.frame, ["ap"]), "replacement is missing: say whether"),
        (lambda: compare(log.frame, "ap"), "replacement is missing: say whether"),
        (lambda: estimate(log, replacement=False), "replacement must be True as in the log"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def two(first, second, **columns):
    names = np.repeat(["A", "B"], [len(first), len(second)])
    users = np.concatenate([np.arange(len(first)), np.arange(len(second))])
    table = pd.DataFrame({"recommender": names, "user": users, "rank": [*first, *second]})
    return read_log(table.assign(**columns), n_items=1_000, n_negatives=9, replacement=True)


def test_priors_are_fitted_to_as_many_negatives_as_every_user_has():
    from fractions import Fraction

    from sampled_metrics import priors

    table = pd.DataFrame({"user": [1, 2, 3], "rank": [1, 2, 4], "n_negatives": [3, 2, 3]})
    log = read_log(table, n_items=50, replacement=True)
    estimates = evaluation.estimate_each(log, ["ap"])
    estimate_table = estimates.frame
    assert estimate_table["estimator"].tolist() == list(ESTIMATORS[:-1])
    assert list(estimates.notes) == ["users have 2 to 3 negatives: priors are fitted to 2 of each"]
    # By leaving out each one of the three: of 0 or 3 above, 0 or 2 of any two are.
    counts = [Fraction(1), Fraction(1), Fraction(1)]
    fit = priors.maximum_entropy([float(c) for c in counts], Protocol(50, 2))
    plugged = plug_in(dict(enumerate(fit.mass, start=1)), "ap", 50)
    assert values(log, "ap", "maximum entropy")[0] == pytest.approx(plugged, abs=1e-9)
    # Bias-variance has for each user the values for its own number of negatives.
    means = []
    for m, better in ((3, 0), (2, 1), (3, 3)):
        prior = fit.mass
        estimator = estimators.bias_variance(metric("ap"), Protocol(50, m), 0.1, prior)
        means.append(estimator.values[better])
    corrected = values(log, "ap", FITTED[0], gamma=0.1)
    assert corrected[0] == pytest.approx(np.mean(means), abs=1e-9)


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
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
    log = read_log(pd.DataFrame(columns), **({"replacement": True} | sizes | options))
    estimates = evaluation.estimate_each(log, ["ap"])
    assert not set(estimates.frame["estimator"]) & set(FITTED)
    (note,) = estimates.notes
    assert note.startswith("bias-variance, fitted prior, and maximum entropy, are left out: ")
    assert reason in note
    with pytest.raises(ValueError, match=f"'maximum entropy' does not fit this log: {reason}"):
        values(log, "ap", "maximum entropy")


def test_differences_are_paired_by_user():
    log = two([1, 2, 4, 3], [2, 4, 4, 10])
    (row,) = compare(log, "auc").itertuples()
    # Of 9 negatives the second has 1, 2, 0 and 7 more above.
    differences = np.array([1, 2, 0, 7]) / 9
    assert row.estimate == row.reported == pytest.approx(differences.mean())
    assert row.standard_error == pytest.approx(differences.std(ddof=1) / 2)
    low, high = betting.interval(differences, -1.0, 1.0, 0.05)
    assert (row.possible_low, row.possible_high) == pytest.approx((low, high))
    assert row.detectable == pytest.approx((high - low) / 2)
    student = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    assert (row.student_low, row.student_high) == pytest.approx(tuple(student))
    assert student.low < 0 < student.high
    assert (row.verdict, row.favoured) == (UNDECIDED, "")


@pytest.mark.parametrize("name", [None, "bias-variance", "maximum entropy"])
def test_students_interval_is_left_out_for_estimators_with_a_bias(name):
    log = two([1, 2, 4, 3], [2, 4, 4, 10])
    for of in ("auc", "ap"):
        row = compare(log, of, estimator=name).iloc[0]
        is_unbiased = of == "auc" and name is None
        assert row[["student_low", "student_high"]].notna().tolist() == [is_unbiased] * 2


def test_verdicts_by_bets_are_adjusted_for_the_pairs():
    # Ten users of whom B is 9 and C is 4 places of 9 behind A.
    names, ranks = np.repeat(["A", "B", "C"], 10), np.repeat([1, 10, 5], 10)
    rows = {"recommender": names, "user": [*range(10)] * 3, "rank": ranks}
    log = read_log(pd.DataFrame(rows), n_items=10, n_negatives=9, replacement=False)
    stakes = [0.9 * 1.2**-k for k in range(8)]  # the last below 0.9 / root of 10
    by_pair = {}
    for pair, difference in {("A", "B"): 1, ("A", "C"): 4 / 9, ("B", "C"): 5 / 9}.items():
        by_pair[pair] = 2 / np.mean([(1 + t * difference) ** 10 for t in stakes])  # two sides
    first, second, third = sorted(by_pair, key=by_pair.get)
    assert [by_pair[pair] for pair in (first, second, third)] == sorted(by_pair.values())
    for error_rate, decided in [
        (0.99 * 3 * by_pair[first], set()),
        (1.01 * 3 * by_pair[first], {first}),
        (0.99 * 3 * by_pair[third], {first, second}),
        (1.01 * 3 * by_pair[third], {first, second, third}),
    ]:
        table = compare(log, "auc", confidence=1 - error_rate)
        decided_rows = table[table["verdict"] != UNDECIDED]
        assert set(zip(decided_rows["first"], decided_rows["second"], strict=True)) == decided, (
            error_rate
        )
    assert table["verdict"].tolist() == ["A beats B", "A beats C", "C beats B"]


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
            read_log(pd.concat(tables), n_items=1_002, n_negatives=100, replacement=True), "auc"
        ).itertuples()
        assert row.estimate > 2.5 * row.standard_error
        # Student's interval of so few users excludes 0, and this is no verdict.
        assert (row.verdict, row.assumption, row.favoured) == (UNDECIDED, "", "A")
        assert row.possible_low < 0 < row.student_low
        assert row.possible_high > 0


@pytest.mark.some(2)
@pytest.mark.simulation
@pytest.mark.parametrize("of", ["auc", "recall@10", "recall@50"])
def test_nothing_beside_a_verdict_contradicts_it(population, of):
    rng, verdicts = np.random.default_rng(8), set()
    truth = {name: metric(of)(ranks, 300).mean() for name, ranks in population.items()}
    for users, m, name in [(60, 5, None), (1_000, 60, "naive"), (60, 5, "maximum entropy")]:
        comparison = evaluation.compare(drawn(population, users, 300, m, rng), of, estimator=name)
        for row, sentence in zip(comparison.frame.itertuples(), comparison.sentences, strict=True):
            # The logs of 60 users are too small for a track record, and "naive" has none.
            assert row.warrant != "track record"
            assert np.isnan(row.probability)
            verdicts.add(is_decided := row.verdict != UNDECIDED)
            # An end of 0 beside a verdict is not possible itself.
            assert is_decided == (row.possible_low >= 0 or row.possible_high <= 0)
            assert not is_decided or row.verdict.startswith(row.first) == (row.possible_low >= 0)
            assert row.possible_low <= truth[row.first] - truth[row.second] <= row.possible_high
            assert is_decided == (row.assumption != "") == (not np.isnan(row.steepness))
            assert is_decided == (row.warrant != "")
            assert (row.assumption == "none" or np.isnan(row.steepness)) or row.steepness >= 1.5
            assert not is_decided or row.favoured == ""
            assert not is_decided or pd.isna(row.users_needed)
            assert row.favoured in ("", row.first if row.estimate > 0 else row.second)
            assert of == "auc" or row.favoured == ""  # no estimate of recall is without bias
            assert row.detectable > 0
            assert pd.isna(row.users_needed) or row.users_needed > users
            assert sentence.startswith(row.verdict) == is_decided
            assert (": undecided" in sentence) != is_decided
            assert (" paired interval favours " in sentence) == (row.favoured != "")
    assert of == "recall@10" or verdicts == {False, True}


@pytest.mark.parametrize("name", ["auc", "ap", "recall@1", "recall@28", "recall@44", "recall@45"])
def test_a_metric_is_unbiased_if_it_is_so_by_the_definition_at_every_rank_and_size(name):
    rng, users = np.random.default_rng(2), 300
    sizes = rng.integers(30, 46, users)
    table = pd.DataFrame({"user": range(users), "n_items": sizes, "rank": 1})
    log = read_log(table, n_negatives=28, replacement=False)
    values = Values(Sample(log), 0.1)
    ends = np.array([naive_bias(size, 28, metric(name)) for size in np.unique(sizes)])
    assert values.unbiased(metric(name)) == (np.abs(ends).max() < 1e-9)


def naive_bias(n_items, n_negatives, parsed_metric):
    """The least and the largest bias of the naive metric over all ranks, from the definition."""
    ranks = np.arange(1, n_items + 1)
    sampled = np.arange(n_negatives + 1)
    pmf = stats.hypergeom(n_items - 1, (ranks - 1)[:, np.newaxis], n_negatives).pmf(sampled)
    bias = pmf @ parsed_metric(sampled + 1, n_negatives + 1) - parsed_metric(ranks, n_items)
    return bias.min(), bias.max()


def test_nothing_beside_a_verdict_counts_ties_as_half_right():
    # Up to nine negatives everything is a hit: no evaluation finds an order.
    (row,) = compare(two([1, 2, 5], [3, 1, 2]), "recall@10", estimator="naive").to_dict("records")
    assert row["verdict"] == UNDECIDED
    assert (row["estimate"], row["standard_error"], row["favoured"]) == (0, 0, "")


def test_an_unknown_order_by_auc_takes_about_as_many_users_as_it_says():
    rng, protocol = np.random.default_rng(3), Protocol(1_000, 100)
    true_ranks = [1 + rng.binomial(999, rng.beta(1, shape, 300)) for shape in (6.0, 5.2)]

    def found(times):
        drawn = [protocol.draw(np.tile(ranks, times), rng) for ranks in true_ranks]
        users = [*range(300 * times)] * 2
        rows = {"recommender": np.repeat(["A", "B"], 300 * times), "user": users}
        table = pd.DataFrame(rows | {"rank": np.concatenate(drawn)})
        log = read_log(table, n_items=1_000, n_negatives=100, replacement=True)
        return evaluation.compare(log, "auc")

    comparison = found(1)
    (users,) = comparison.frame["users_needed"]
    written = -(-users // 100) * 100  # rounded up to two digits
    assert 1_000 < users < 10_000
    assert comparison.sentences[0].endswith(f"A decision takes about {written:,} such users.")
    assert found(-(-users // 600)).verdicts["A", "B"] == UNDECIDED
    assert found(-(-users // 200)).verdicts["A", "B"] == "A beats B"


@pytest.mark.simulation
@pytest.mark.parametrize("of", ["ap", "auc"])
def test_equal_recommenders_have_no_verdict(of):
    for ranks in ([1, 2, 5], [1] * 30, [10] * 30, [1, 1]):
        comparison = evaluation.compare(two(ranks, ranks), of)
        (row,) = comparison.frame.itertuples()
        assert (row.estimate, row.reported, row.standard_error) == (0, 0, 0)
        assert (row.verdict, row.assumption, row.favoured) == (UNDECIDED, "", "")
        assert pd.isna(row.users_needed)
        assert row.possible_low < 0 < row.possible_high
        remedy = {
            "ap": "more users than these, even with all items ranked",
            "auc": "more users",
        }[of]
        assert comparison.sentences[0].endswith(f"A decision takes {remedy}.")
        assert ": undecided. This log can detect" in comparison.sentences[0]
        assert row.negatives_needed is pd.NA
        # AUC needs no correction.
        assert row.ranking_decides is pd.NA if of == "auc" else not row.ranking_decides


#: Of 100 ranks, and further and further apart as more negatives are drawn.
FALLING = {name: fall ** np.arange(100.0) for name, fall in (("A", 0.94), ("B", 0.975))}


def as_expected(users, m, replacement=True):
    """A protocol with m negatives, and a log as it leads to at `FALLING` on average."""
    protocol, rng = Protocol(100, m, replacement=replacement), np.random.default_rng(3)
    tables = []
    for name, mass in FALLING.items():
        expected = users * (mass / mass.sum()) @ protocol.pmf(np.arange(1, 101))
        counts = np.diff(np.round(np.cumsum(expected)), prepend=0).astype(int)
        ranks = rng.permutation(np.repeat(np.arange(1, m + 2), counts))
        tables.append(pd.DataFrame({"recommender": name, "user": range(users), "rank": ranks}))
    log = read_log(pd.concat(tables), n_items=100, n_negatives=m, replacement=replacement)
    return protocol, log


@pytest.mark.parametrize("assumption", [None, Assumption()])
def test_what_is_said_to_decide_on_average_decides_as_a_log(assumption):
    recall, is_decided, ranks = metric("recall@10"), {}, np.arange(1, 101)
    populations = {
        name: remedies.Population(ranks, mass / mass.sum(), np.nan, np.nan)
        for name, mass in FALLING.items()
    }
    weight = judging.bet_weights(assumption)[assumption]
    log_evidence_needed = identification.log_evidence_needed(0.95) - np.log(weight)
    for m in (5, 20):
        protocol, log = as_expected(250, m)
        decisions = remedies.decided(
            populations, protocol, recall, [("A", "B")], assumption, 250.0, log_evidence_needed
        )
        assumed = evaluation.compare(log, recall, assumption=assumption).frame["assumption"][0]
        is_decided[m] = bool(decisions)
        assert is_decided[m] == (assumed in ("none", "decreasing at the top"))
    assert is_decided == {5: False, 20: assumption is not None}


def test_negatives_that_would_settle_a_pair():
    # Nothing assumed: ten ranks of a hundred are hardly seen, and all of them decide.
    comparison = evaluation.compare(as_expected(250, 20)[1], "recall@10", assumption=None)
    (row,) = comparison.frame.itertuples()
    assert (row.verdict, row.negatives_needed, row.ranking_decides) == (UNDECIDED, pd.NA, True)
    assert comparison.sentences[0].endswith("A decision takes all items ranked.")
    exact = evaluation.compare(as_expected(250, 99, False)[1], "recall@10", assumption=None)
    assert exact.verdicts == {("A", "B"): "A beats B"}
    # Few users with few negatives: more of them do, under the shape.
    comparison = evaluation.compare(as_expected(400, 3)[1], "recall@10")
    (row,) = comparison.frame.itertuples()
    assert (row.verdict, row.ranking_decides) == (UNDECIDED, True)
    assert row.negatives_needed in (5, 10, 20, 50)
    proof = f"A decision takes about {row.negatives_needed} negatives"
    assert proof in comparison.sentences[0]
    assert all(len(line) <= 100 for line in comparison.summary().splitlines())
    # So few that even their exact ranks would not.
    comparison = evaluation.compare(as_expected(12, 3)[1], "recall@10")
    (row,) = comparison.frame.itertuples()
    assert (row.negatives_needed, row.ranking_decides) == (pd.NA, False)
    assert "all items ranked" not in comparison.sentences[0]


def test_users_must_be_the_same():
    with pytest.raises(ValueError, match="A and B differ in 1, such as 2"):
        compare(two([1, 2, 3], [1, 2]), "ap")
    with pytest.raises(ValueError, match="must have a standard error for differences"):
        compare(two([1, 2], [1, 2]), "ap", estimator="maximum likelihood")


@pytest.mark.parametrize("n_relevant", [1, 2])
@pytest.mark.parametrize("kind", ["recall", "precision", "rr", "ap", "ndcg", "hit"])
def test_with_replacement_unbiased_values_are_linear_or_there_is_one_irrelevant_item(
    kind, n_relevant
):
    # Then it does not matter which tied draws are copies of one item.
    for pool, m, k in product(range(2, 7), range(1, 8), range(1, 9)):
        protocol = Protocol(pool + n_relevant, m, replacement=True, n_relevant=n_relevant)
        if row_values.is_unbiased(metric(f"{kind}@{k}"), protocol):
            j = np.arange(1, n_relevant + 1)[:, np.newaxis]
            values = metric(f"{kind}@{k}").term(np.arange(m + 1) + j, j, n_relevant, m + n_relevant)
            assert np.abs(np.diff(values, 2, axis=1)).max(initial=0.0) < 1e-12


@pytest.mark.parametrize("n_relevant", [1, 2])
@pytest.mark.parametrize("name", ["recall@1", "hit@1", "ndcg@1", "rr@1", "auc"])
def test_draws_that_tie_are_copies_if_there_is_one_other_item(name, n_relevant):
    users, m = 300, 5
    rows = pd.DataFrame({"user": np.repeat(range(users), n_relevant), "n_better": 0, "n_tied": m})
    rows["item"] = np.tile(range(n_relevant), users)
    log = read_log(rows, n_items=1 + n_relevant, n_negatives=m, replacement=True)
    items = range(n_relevant + 1)  # the last one is irrelevant, and all tie
    values = [
        metric(name).of_set([1 + order.index(i) for i in range(n_relevant)], 1 + n_relevant)
        for order in permutations(items)
    ]
    row = evaluation.estimate(log, [name], assumption=None).frame.iloc[0]
    assert row[["reported", "estimate"]].tolist() == pytest.approx([np.mean(values)] * 2)
    assert row["possible_low"] <= np.mean(values) <= row["possible_high"]
    assert row["possible_high"] - row["possible_low"] < 0.05


def test_a_recommender_that_always_ties_beats_one_that_is_first_for_fewer_than_half():
    first = np.arange(300) < 120
    a = pd.DataFrame({"recommender": "A", "user": range(300), "n_better": 0, "n_tied": 5})
    b = a.assign(recommender="B", n_better=np.where(first, 0, 5), n_tied=0)
    log = read_log(pd.concat([a, b]), n_items=2, n_negatives=5, replacement=True)
    assert evaluation.compare(log, "recall@1").verdicts == {("A", "B"): "A beats B"}


@pytest.mark.parametrize("distinct", [1, 2, 4])
def test_intervals_hold_however_many_items_the_tied_draws_are(distinct):
    # All of 20 items but `distinct` are below the relevant one, which ties with these.
    users, m, rng = 2_000, 30, np.random.default_rng(distinct)
    tied = rng.binomial(m, distinct / 19, users)
    rows = pd.DataFrame({"user": range(users), "n_better": 0, "n_tied": tied})
    log = read_log(rows, n_items=20, n_negatives=m, replacement=True)
    metrics = ["recall@1", "recall@2", "ap", "auc"]
    frame = evaluation.estimate(log, metrics, assumption=None).frame
    exact = [RankIntervals([0], [distinct], [20]).evaluate(name)[0] for name in metrics]
    assert (frame["possible_low"] <= exact).all()
    assert (frame["possible_high"] >= exact).all()


@pytest.mark.parametrize("name", ["auc", "recall@2", "precision@9"])
def test_a_metric_of_several_items_is_unbiased_if_it_is_so_for_every_set(name):
    protocol, parsed_metric = Protocol(14, 5, n_relevant=2), metric(name)
    table = pd.DataFrame({"user": [1, 1, 2, 2], "rank": [3, 4, 3, 4], "item": [3, 4, 3, 4]})
    log = read_log(table, n_items=14, n_negatives=5, replacement=True)
    values = Values(Sample(log), 0.1)
    ranks = np.array(list(combinations(range(1, 15), 2)))
    zero = np.zeros_like(ranks)
    places = np.tile([0, 1], (len(ranks), 1))
    sets = RelevantSets(ranks - [1, 2], zero, places, np.full(len(ranks), 12))
    bias = sets.expected(parsed_metric, protocol.n_negatives, replacement=True)
    bias -= [parsed_metric.of_set(rank_pair, 14) for rank_pair in ranks]
    assert values.unbiased(parsed_metric) == (np.abs(bias).max() < 1e-9)


def exact_ranks(users, rng, ties=0):
    """A log of two recommenders with all negatives of each user, of whom no two have as many."""
    sizes = rng.permutation(np.arange(100, 100 + users))
    frames = []
    for name, index in (("A", 0.5), ("B", 0.51)):
        tied = rng.integers(0, ties + 1, users)
        better = np.minimum(rng.pareto(index, users).astype(np.int64), sizes - 1 - tied)
        rows = {"recommender": name, "user": np.arange(users), "n_better": better, "n_tied": tied}
        frames.append(pd.DataFrame(rows | {"n_items": sizes, "n_negatives": sizes - 1}))
    return pd.concat(frames)


def test_exact_ranks_are_read_as_they_are(monkeypatch):
    rows = exact_ranks(2_000, np.random.default_rng(5))
    log = read_log(rows, replacement=False)

    def refused(*arguments, **options):
        raise AssertionError("a table for each of 2,000 catalogues takes minutes")

    for module, name in (
        (row_values, "is_unbiased"),
        (row_values, "pmf_table"),
        (row_values.corrections, "by_name"),
        (ranges, "identified"),
    ):
        monkeypatch.setattr(module, name, refused)
    names = ["recall@10", "ndcg@10", "ap", "auc"]
    for row in estimate(log, names).itertuples():
        recommender_rows = rows[rows["recommender"] == row.recommender]
        user_values = metric(row.metric)(
            recommender_rows["n_better"].to_numpy() + 1, recommender_rows["n_items"].to_numpy()
        )
        assert row.reported == row.estimate == pytest.approx(user_values.mean(), rel=1e-12)
        assert row.standard_error == pytest.approx(
            user_values.std(ddof=1) / sqrt(user_values.size), rel=1e-9
        )
        least = metric(row.metric)(
            recommender_rows["n_items"].max(), recommender_rows["n_items"].max()
        )
        interval = betting.interval(user_values, float(least), 1.0, 0.05)
        assert (row.possible_low, row.possible_high) == pytest.approx(interval, abs=1e-9)
    for name in names:
        comparison = evaluation.compare(log, name)
        (row,) = comparison.frame.itertuples()
        assert row.verdict == UNDECIDED
        assert (row.negatives_needed, row.ranking_decides) == (pd.NA, False)
        assert "negatives" not in comparison.sentences[0]
        assert "all items ranked" not in comparison.sentences[0]


@pytest.mark.parametrize("users", [3, 60])
def test_reported_values_are_those_of_a_table_for_each_class(users):
    rng = np.random.default_rng(users)
    rows = []
    for user in range(users):
        relevant, m = rng.integers(1, 4), rng.integers(5, 9)
        scores, negatives = rng.integers(0, 5, relevant), rng.integers(0, 5, m)
        rows += [
            (user, item, (negatives > s).sum(), (negatives == s).sum(), m, 40 + user % 2)
            for item, s in enumerate(scores)
        ]
    columns = ["user", "item", "n_better", "n_tied", "n_negatives", "n_items"]
    log = read_log(pd.DataFrame(rows, columns=columns), replacement=True)
    sample = Sample(log)
    assert (sample.many > 0).any()
    sample_values = Values(sample, 0.1)
    entries = sum(
        user_class.n_relevant * (user_class.n_negatives + 1) for user_class in sample.classes
    )
    by_rank = []
    for name in ("ap", "ndcg@3", "recall@2", "auc", "rr", "precision@3"):
        parsed_metric = metric(name)
        build = sample_values._build(parsed_metric, "naive")
        expected = sample_values.looked_up(build)
        by_rank.append((sample.tied + 1).sum() <= entries)
        np.testing.assert_allclose(
            sample_values.naive(parsed_metric), expected, rtol=1e-12, atol=1e-15
        )
        tables = [
            build(
                sample.protocol(
                    int(user_class.sizes[0]), user_class.n_negatives, user_class.n_relevant
                )
            )
            for user_class in sample.classes
        ]
        low = min(table.min(axis=1).sum() for table in tables)
        high = max(table.max(axis=1).sum() for table in tables)
        assert sample_values.span(parsed_metric) == pytest.approx((low, high), abs=1e-15)
    assert all(by_rank) == (users == 3)


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
    return read_log(table, n_items=n, n_negatives=m, replacement=True), population, Protocol(n, m)


@pytest.mark.some(2)
@pytest.mark.simulation
@pytest.mark.parametrize("of", ["recall@10", "ndcg@10", "ap", "auc"])
def test_95_percent_intervals_cover_their_expectation(simulated, of):
    log, population, protocol = simulated
    makers = {
        "least bias": estimators.least_bias,
        "bias-variance": lambda *a: estimators.bias_variance(*a, 1 / 20),
        "monotone": estimators.monotone,
        "rank estimate": estimators.rank_estimate,
    }
    table = estimate_each(log, [of], estimators=list(makers))
    for name, make in makers.items():
        expected = make(metric(of), protocol).expected(population).mean()
        rows = table[table["estimator"] == name]
        assert len(rows) == 1_000
        covered = ((rows["low"] <= expected) & (expected <= rows["high"])).mean()
        assert 0.93 <= covered <= 0.97, name


def drawn(population, users, n, m, rng):
    """A log of some of the users of a population, {recommender: true ranks}, and its truth."""
    user_index = rng.integers(0, len(next(iter(population.values()))), users)
    tables = [
        pd.DataFrame(
            {
                "recommender": name,
                "user": np.arange(users),
                "rank": Protocol(n, m).draw(ranks[user_index], rng),
            }
        )
        for name, ranks in population.items()
    ]
    return read_log(
        pd.concat(tables, ignore_index=True), n_items=n, n_negatives=m, replacement=True
    )


@pytest.fixture(scope="module")
def population():
    """Ranks of X, Y and Z in a catalogue of 300, and the same in nearly the same order."""
    return {
        name: 1 + np.floor(300 * (r.n_better + r.n_tied / 2) / r.n_candidates).astype(int)
        for name, r in bundled_ranks().items()
    }


def steepest_fall(ranks, last):
    """How many times fewer users there are at a rank from one doubling to the next, at most."""
    counts = np.bincount(ranks, minlength=2 * last)[1:]
    ends = 2 ** np.arange(int(np.log2(last + 1)) + 1) - 1
    means = [counts[a:b].mean() for a, b in pairwise(ends)]
    return max((a / b for a, b in pairwise(means)), default=1.0)


@pytest.mark.some(1)
@pytest.mark.simulation
@pytest.mark.parametrize(
    ("of", "users", "m", "assumptions"),
    [
        ("auc", 60, 5, {"", "none"}),
        ("recall@10", 500, 10, {""}),  # of a list of 10 a sample of 10 shows next to nothing
        ("recall@50", 2_000, 30, {"", "none", "decreasing at the top"}),
        ("recall@10", 6_000, 100, {"", "decreasing at the top"}),
    ],
)
def test_verdicts_are_right_or_not_given(population, of, users, m, assumptions):
    rng = np.random.default_rng(17)
    truth = {name: metric(of)(ranks, 300).mean() for name, ranks in population.items()}
    fall = {name: steepest_fall(ranks, min(3_000 // m, 100)) for name, ranks in population.items()}
    assumptions_seen = set()
    for _ in range(3):
        for row in compare(drawn(population, users, 300, m, rng), of).itertuples():
            assumptions_seen.add(row.assumption)
            holds = row.steepness >= max(fall[row.first], fall[row.second])
            if row.verdict != UNDECIDED and holds:
                better = max((row.first, row.second), key=truth.get)
                assert row.verdict.startswith(f"{better} beats "), row
    assert assumptions_seen == assumptions


@pytest.mark.matrix
def test_recommenders_equal_in_the_metric_are_rarely_parted_where_the_assumption_holds():
    # A fifth of the users within ten, evenly or 1.9 times fewer from doubling to doubling.
    ranks, rng = np.arange(1, 301), np.random.default_rng(29)
    even = np.where(ranks <= 10, 0.02, 0.012)
    steep = 1.9 ** -np.floor(np.log2(ranks))
    steep *= 0.2 / steep[:10].sum()
    shares = {}
    for name, top_pmf in (("A", even), ("B", steep)):
        shares[name] = np.where(ranks <= 31, top_pmf, (1 - top_pmf[:31].sum()) / 269)
        assert shares[name][:10].sum() == pytest.approx(0.2)
        assert (np.diff(shares[name]) <= 0).all()
    wrong = 0
    for _ in range(20):
        tables = []
        for name, share in shares.items():
            drawn_ranks = Protocol(300, 60).draw(rng.choice(ranks, 2_000, p=share), rng)
            table = {"recommender": name, "user": range(2_000), "rank": drawn_ranks}
            tables.append(pd.DataFrame(table))
        log = read_log(pd.concat(tables), n_items=300, n_negatives=60, replacement=True)
        (row,) = compare(log, "recall@10", assumption=Assumption(steepness=2.0)).itertuples()
        assert row.possible_high - row.possible_low > 0.01
        wrong += row.verdict != UNDECIDED
    # Of 20 more than three are wrong in one case of 60 if 5% may be.
    assert wrong <= 3


@pytest.mark.exhaustive
def test_steepness_is_the_largest_of_the_ladder_that_holds():
    # Numbers of users as they are expected, so that chance plays no part.
    protocol, ranks, steepnesses = Protocol(1_000, 100), np.arange(1, 1_001), set()
    ndcg, pairs, ladder = metric("ndcg@10"), [("A", "B")], (2.0, 3.0, 4.0, 8.0)
    for worse in (50, 60, 70):
        shares = {}
        for name, scale in (("A", 40.0), ("B", worse)):
            true = np.exp(-ranks / scale) + 0.02 * np.exp(-ranks / 400.0)
            shares[name] = true / true.sum() @ protocol.pmf(ranks)
        log = expected_log(shares, 3_000, 1_000, 100)
        (row,) = compare(log, ndcg).itertuples()
        steepnesses.add(row.steepness)
        # A fall of any steepness holds, and so nothing else is tried; or one holds, and none after.
        assert (row.assumption == "decreasing at the top") == np.isinf(row.steepness)
        judge = judging.Judge(Sample(log), ndcg, pairs, 0.95)
        signs = {
            assumption: judge.under(
                assumption, pairs, weight, keep=assumption in (None, Assumption())
            )[0][pairs[0]].sign
            for assumption, weight in judging.bet_weights(Assumption()).items()
        }
        assert signs[None] == 0
        assert signs[Assumption()] == np.isinf(row.steepness)
        holds = [k for k in ladder if all(signs[Assumption(steepness=j)] for j in ladder if j <= k)]
        if np.isfinite(row.steepness):
            assert row.assumption == f"at most {row.steepness:g} times per doubling"
        if not signs[Assumption()]:
            assert holds == (
                [] if np.isnan(row.steepness) else [k for k in ladder if k <= row.steepness]
            )
        for k in holds[-1:]:
            comparison = evaluation.compare(log, ndcg, assumption=Assumption(steepness=k))
            (row_k,) = comparison.frame.itertuples()
            assert (row_k.assumption, row_k.steepness) == (f"at most {k:g} times per doubling", k)
            assert comparison.sentences == [
                "A beats B on NDCG@10 "
                f"(95% confidence, if at most {k:g}x fewer users per doubling)."
            ]
    assert {2.0, np.inf} < steepnesses  # and nothing, where they are too alike


def expected_log(shares, users, n_items, n_negatives):
    """A log of as many users at each sampled rank as are expected, up to rounding."""
    tables = []
    for name, share in shares.items():
        ends = np.round(np.cumsum(share) * users).astype(int)
        ranks = 1 + np.searchsorted(ends, np.arange(users), side="right")
        tables.append(pd.DataFrame({"recommender": name, "user": range(users), "rank": ranks}))
    return read_log(pd.concat(tables), n_items=n_items, n_negatives=n_negatives, replacement=True)


def test_a_fall_too_gentle_for_the_sample_does_not_end_the_ladder(monkeypatch):
    # Whatever contradicts a fall of 2 times at each doubling is tried with 3 and more.
    tried = []

    class Judge:
        def __init__(self, *_):
            pass

        def under(self, assumption, pairs, weight, keep=True, last=False):
            assert keep == (
                assumption in (None, Assumption())
            )  # only one of the falls is the gentlest
            tried.append(np.inf if assumption is None else assumption.steepness)
            sign = int(assumption is not None and assumption.steepness in (3.0, 4.0))
            if assumption is not None and assumption.steepness == 2.0:
                return {}, ["contradicted"]
            name = assumption_name(assumption)
            judged = judging.Judgement(sign, 0.0, 1.0, name, steepness=tried[-1])
            return dict.fromkeys(pairs, judged), []

    monkeypatch.setattr(judging, "Judge", Judge)
    (row,) = compare(two([1, 2, 5], [3, 1, 2]), "recall@3").itertuples()
    assert tried == [np.inf, np.inf, 2.0, 3.0, 4.0, 8.0]
    assert (row.assumption, row.steepness) == ("at most 4 times per doubling", 4.0)


def test_a_shape_that_the_sample_contradicts_is_not_assumed():
    rng = np.random.default_rng(5)
    population = {
        "deep": np.full(300, 30),
        "A": np.minimum(rng.geometric(0.05, 300), 300),
        "B": np.minimum(rng.geometric(0.01, 300), 300),
    }
    log = drawn(population, 300, 300, 50, rng)
    estimates, free = (
        evaluation.estimate(log, ["recall@10"], assumption=s) for s in ("decreasing", None)
    )
    note, outside, no_typical = estimates.notes
    assert note.startswith("the ranks of deep contradict the assumption that deeper ranks have fe")
    assert outside.startswith("the estimate of recall@10 for deep is outside the 95% interval")
    few_users = no_typical.removeprefix("no typical range for recall@10: ")
    assert few_users.startswith("the log has 300 users; the benchmark has ")
    assert free.notes == (outside, no_typical)
    assumed = dict(
        estimates.frame[["recommender", "assumption"]].itertuples(index=False, name=None)
    )
    assert assumed.pop("deep") == "none"
    assert assumed == dict.fromkeys("AB", "decreasing at the top")
    assert set(free.frame["assumption"]) == {"none"}
    assert any(
        line.startswith("95% interval for recall@10 of A, B: if deeper ranks have fewer users")
        for line in estimates.promises()
    )
    assert any(
        line.startswith("95% interval for recall@10 of deep: whatever")
        for line in estimates.promises()
    )
    ends = ["possible_low", "possible_high"]
    end_tables = [estimated.frame.set_index("recommender")[ends] for estimated in (estimates, free)]
    np.testing.assert_allclose(end_tables[0].loc["deep"], end_tables[1].loc["deep"], atol=1e-4)
    width = [estimated["possible_high"] - estimated["possible_low"] for estimated in end_tables]
    assert (width[0] < 0.9 * width[1])[["A", "B"]].all()
    compared = evaluation.compare(log, "recall@10")
    assert list(compared.notes) == [note, f"no track record for recall@10 here: {few_users}"]
    free = compare(log, "recall@10", assumption=None).set_index(["first", "second"])
    for row in compared.frame.itertuples():
        if "deep" in (row.first, row.second):
            free_row = free.loc[(row.first, row.second)]
            assert row.assumption in ("", "none")
            assert (row.verdict, row.assumption) == (free_row["verdict"], free_row["assumption"])
            # The bets that assume nothing have a smaller weight where more may be assumed.
            assert free_row["possible_low"] - 0.05 < row.possible_low < free_row["possible_low"]


def test_nothing_is_assumed_of_users_with_several_relevant_items():
    table = pd.DataFrame({"user": np.repeat(range(30), 2), "item": [0, 1] * 30})
    table["n_better"] = np.random.default_rng(1).integers(0, 10, 60)
    table["n_tied"] = 0
    log = read_log(table, n_items=100, n_negatives=9, replacement=True)
    estimates = [
        evaluation.estimate(log, ["recall@10"], assumption=s) for s in ("decreasing", None)
    ]
    assert estimates[0].settings["assumed"].conditions == ()
    assert set(estimates[0].frame["assumption"]) == {"none"}
    assert estimates[0].frame["warrant"].ne("").all()
    assert set(evaluation.estimate(log, ["auc"]).frame["warrant"]) == {"theorem"}  # by bets
    pd.testing.assert_frame_equal(estimates[0].frame, estimates[1].frame)
    with pytest.raises(
        ValueError, match="assumption must be an Assumption, 'decreasing' or None, got 'flat'"
    ):
        evaluation.estimate(log, ["ap"], assumption="flat")


def dependent_log(kind):
    """Two recommenders whose ranks depend on each other, and on each other within a user."""
    rng = np.random.default_rng(6)
    rows = []
    for user in range(80):
        taste = rng.beta(1, 3)
        for name, taste_shift in (("A", 0.0), ("B", 0.1)):
            n_rows = {"single": 1, "instances": 1 + user % 3, "items": 1 + user % 2}[kind]
            ranks = rng.binomial(7, min(taste + taste_shift, 1.0), n_rows)
            for i, above in enumerate(ranks.tolist()):
                instance, item = (i, 0) if kind == "instances" else (0, i)
                rows.append((name, user, instance, item, above, int(rng.integers(0, 3))))
    columns = ["recommender", "user", "instance", "item", "n_better", "n_tied"]
    return read_log(
        pd.DataFrame(rows, columns=columns), n_items=200, n_negatives=9, replacement=True
    )


def test_items_of_a_user_that_move_together_widen_what_is_possible():
    # Two items of a user that are above each other's negatives alike say as much as one does.
    rng, users, rows = np.random.default_rng(3), 150, []
    for name, chance in (("A", 0.1), ("B", 0.02)):
        for item in (0, 1):
            above = rng.binomial(20, np.minimum(rng.geometric(chance, users), 200) / 200)
            above_together = above if item == 0 else np.array([a for a, *_ in rows[-users:]])
            rows += [
                (a, t, name, u, item)
                for u, (a, t) in enumerate(zip(above, above_together, strict=True))
            ]
    table = pd.DataFrame(rows, columns=["above", "together", "recommender", "user", "item"])
    widths = {}
    for kind in ("above", "together"):
        kind_rows = table.rename(columns={kind: "n_better"}).assign(n_tied=0)
        log = read_log(
            kind_rows.drop(columns={"above", "together"} - {kind}),
            n_items=202,
            n_negatives=20,
            replacement=True,
        )
        estimates = estimate(log, ["recall@50"])
        widths[kind] = (estimates["possible_high"] - estimates["possible_low"]).to_numpy()
        (row,) = compare(log, "recall@50").itertuples()
        widths[kind] = np.append(widths[kind], row.possible_high - row.possible_low)
    assert (widths["together"] > 1.03 * widths["above"]).all()


def test_a_difference_beyond_any_bias_is_a_verdict():
    rng = np.random.default_rng(5)
    population = {"A": np.full(50, 200), "B": rng.integers(1, 5, 50)}
    log = drawn(population, 300, 300, 50, rng)
    (row,) = compare(log, "recall@10").itertuples()
    assert (row.verdict, row.assumption, row.steepness) == ("B beats A", "none", np.inf)
    assert row.warrant == "theorem"
    assert compare(log, "auc")[["assumption", "warrant"]].values.tolist() == [["none", "theorem"]]
    assert row.possible_high < 0


def test_significance_is_no_verdict_where_bias_could_explain_it():
    # The naive difference is one of 30 standard errors, and wrong: all of A's ranks are beyond 10.
    rng = np.random.default_rng(6)
    population = {"A": np.full(100, 25), "B": np.append(np.full(30, 5), np.full(70, 290))}
    log = drawn(population, 400, 300, 10, rng)
    (row,) = compare(log, "recall@10", estimator="naive").itertuples()
    assert row.estimate > 20 * row.standard_error
    # The order of the estimates is false here. It is no verdict, and nothing is favoured.
    assert (row.verdict, row.assumption, row.favoured) == (UNDECIDED, "", "")
    assert row.possible_low < 0 < row.possible_high
    (entropy_row,) = compare(log, "recall@10", estimator="maximum entropy").itertuples()
    assert entropy_row.reported == row.reported == row.estimate > 0
    assert (entropy_row.possible_low, entropy_row.verdict) == (row.possible_low, row.verdict)


def test_what_is_possible_holds_the_exact_metric_of_the_population(population):
    log = drawn(population, 400, 300, 10, np.random.default_rng(7))
    table = estimate(log, ["recall@10", "auc"])
    assert table["recommender"].tolist() == ["X", "X", "Y", "Y", "Z", "Z"]
    for row in table.itertuples():
        exact = metric(row.metric)(population[row.recommender], 300).mean()
        assert row.possible_low <= exact <= row.possible_high
    auc, recall = (table[table["metric"] == metric_name] for metric_name in ("auc", "recall@10"))
    np.testing.assert_array_equal(auc["estimate"], auc["reported"])
    assert (auc["possible_high"] - auc["possible_low"]).max() < 0.12
    assert (recall["reported"] > recall["possible_high"]).all()
    bare = estimate(log, ["recall@10", "auc"], identification=False)
    columns = ["recommender", "metric", "reported", "estimate", "standard_error", "users"]
    pd.testing.assert_frame_equal(bare[columns], table[columns])
    # Without bias the range takes no time.
    unbiased = bare["metric"] == "auc"
    pd.testing.assert_frame_equal(bare[unbiased], table[unbiased])
    missing = bare[["possible_low", "possible_high"]].isna().all(axis=1) & (bare["quote"] == "")
    assert missing[~unbiased].all()
    assert (bare.loc[~unbiased, ["assumption", "warrant"]] == "").all(axis=None)


def test_the_row_of_a_recommender_is_that_of_its_estimator():
    log = log_of([1, 3, 2, 10, 1, 7])
    rows = estimate(log, ["ap", "auc"])
    all_estimates = estimate_each(log, ["ap", "auc"], estimators="all").set_index(
        ["metric", "estimator"]
    )
    names = ("bias-variance, fitted prior", "naive")
    for row, name in zip(rows.itertuples(), names, strict=True):
        assert row.reported == all_estimates.loc[(row.metric, "naive"), "value"]
        assert row.estimate == all_estimates.loc[(row.metric, name), "value"]
        assert row.standard_error == all_estimates.loc[(row.metric, name), "standard_error"]
    (auc,) = (row for row in rows.itertuples() if row.metric == "auc")
    low, high = all_estimates.loc[("auc", "naive"), ["low", "high"]]
    # Six users of whom few are far from the rest: Student's interval promises less.
    assert 0 <= auc.possible_low < auc.estimate < auc.possible_high <= 1
    assert 0.7 * (high - low) < auc.possible_high - auc.possible_low < 1.3 * (high - low)


@pytest.mark.parametrize(
    ("given", "quote"),
    [
        ((0.25, 0.2, 0.3), "0.250 (0.200 to 0.300)"),
        ((0.0381, 0.0252, 0.0926), "0.038 (0.025 to 0.093)"),  # outwards
        ((0.35, 0.1 + 0.2, 0.5), "0.350 (0.300 to 0.500)"),  # ends that are printed exactly
        ((0.25, 0.25, 0.25), "0.250 (0.250 to 0.250)"),
        ((0.25, 0.26, 0.28), "0.260 to 0.280"),  # the interval excludes the estimate
        ((0.29, 0.26, 0.28), "0.260 to 0.280"),
        ((np.nan, 0.26, 0.28), "0.260 to 0.280"),  # there is no estimate
        ((0.25, np.nan, np.nan), ""),
    ],
)
def test_the_estimate_is_quoted_with_its_range(given, quote):
    value, *ends = given
    assert ranges.quoted(value, ranges.Range(*ends)) == quote


@pytest.mark.parametrize("name", ["auc", "recall@10"])
def test_a_quote_takes_the_confidence_that_was_asked_for(name):
    rows = pd.DataFrame({"user": range(4), "rank": [1, 1, 3, 20]})
    log = read_log(rows, n_items=1_000, n_negatives=50, replacement=True)
    for confidence in (0.95, 0.999):
        (row,) = estimate(log, [name], confidence=confidence).itertuples()
        written = _ranges.written(row.possible_low, row.possible_high)
        assert row.quote == f"{row.estimate:.3f} ({written})"


def test_an_estimate_outside_its_range_is_not_quoted_and_a_note_says_so():
    # No exact rank of "deep" is within 10. The prior is fitted to "top" as well, which makes the
    # values at such sampled ranks negative.
    population = {"deep": np.full(300, 30), "top": np.tile(np.arange(1, 31), 10)}
    log = drawn(population, 300, 300, 50, np.random.default_rng(5))
    estimates = evaluation.estimate(log, ["recall@10"])
    deep, top = estimates.frame.itertuples()
    assert deep.estimate < deep.possible_low
    assert deep.quote == _ranges.written(deep.possible_low, deep.possible_high)
    assert top.possible_low < top.estimate < top.possible_high
    assert top.quote.startswith(f"{top.estimate:.3f} (")
    outside = [note for note in estimates.notes if "is outside the 95% interval" in note]
    assert outside == [
        "the estimate of recall@10 for deep is outside the 95% interval, so it is wrong if the "
        "interval is right"
    ]


def test_rounding_is_no_difference_and_no_error():
    rng = np.random.default_rng(4)
    ranks = rng.integers(1, 12, 199)
    table = pd.concat(
        pd.DataFrame({"recommender": name, "user": range(199), "rank": order})
        for name, order in (("A", ranks), ("B", rng.permutation(ranks)), ("C", ranks[::-1]))
    )
    log = read_log(table, n_items=500, n_negatives=11, replacement=True)
    for of in ("ndcg", "auc"):  # AUC has a Student's interval
        comparisons = compare(log, of)
        assert (comparisons[["reported", "estimate"]] == 0).all(axis=None)
        assert (comparisons["verdict"] == UNDECIDED).all()
        assert (comparisons["favoured"] == "").all()
    equal_log = log_of([1] * 30, n_items=500, n_negatives=11)
    errors = estimate_each(equal_log, ["ndcg@10"], estimators="all")["standard_error"]
    assert (errors == 0).all()


def test_ranks_that_no_sample_leads_to_are_refused():
    # All users at the middle of 99 negatives: a binomial count would spread.
    log = log_of([50] * 200, n_items=1_000, n_negatives=99)
    message = "the ranks of recommender contradict the protocol at any true ranks: .* check n_items"
    with pytest.raises(ValueError, match=message):
        estimate(log, ["ap"])
    pair = pd.concat([log.frame.assign(recommender=name) for name in "AB"])
    with pytest.raises(ValueError, match=message.replace("recommender", "A")):
        compare(pair, "ap", replacement=log.replacement)


def test_ranks_that_were_cut_are_named():
    rng = np.random.default_rng(0)
    ranks = 1 + rng.binomial(50, rng.beta(0.7, 2, 800))
    estimate(log_of(ranks, n_items=1_000, n_negatives=50), ["recall@10"])  # is possible
    cut = log_of(np.minimum(ranks, 11), n_items=1_000, n_negatives=50)
    message = "rank 11 is the last and has many users, as if all ranks beyond 10 were written as 11"
    with pytest.raises(ValueError, match=message):
        estimate(cut, ["recall@10"])


def test_an_inverted_log_is_named_and_quotes_nothing_below_zero():
    rng = np.random.default_rng(0)
    ranks = 1 + rng.binomial(100, rng.beta(8, 1.5, 800))
    for inverted in (True, False):
        log = log_of(ranks if inverted else 102 - ranks, n_items=2_000, n_negatives=100)
        found = evaluation.estimate(log, ["recall@10", "auc"])
        said = [note for note in found.notes if "may be inverted" in note]
        assert len(said) == inverted
        quotes = found.frame.set_index("metric")["quote"]
        assert not any("-" in quote for quote in quotes)
        assert quotes["recall@10"].startswith("0.000 (0.000") == inverted


EDGES = {
    "two users": two([1, 3], [2, 10]),
    "two users alike": two([1, 1], [10, 10]),
    "one negative": read_log(
        pd.DataFrame({"recommender": ["A"] * 9 + ["B"] * 9, "user": [*range(9)] * 2})
        .assign(rank=[1, 2, 1] * 3 + [1] * 9),
        n_items=50, n_negatives=1,
        replacement=True,
    ),
    "two items": read_log(
        pd.DataFrame({"recommender": ["A"] * 9 + ["B"] * 9, "user": [*range(9)] * 2})
        .assign(rank=[1, 2, 1] * 3 + [1] * 9),
        n_items=2, n_negatives=1, replacement=False,
    ),
    "exact ranks": read_log(
        pd.DataFrame({"recommender": ["A"] * 20 + ["B"] * 20, "user": [*range(20)] * 2})
        .assign(rank=[*range(1, 21), *[1] * 20]),
        n_items=20, n_negatives=19, replacement=False,
    ),
    "all tied": read_log(
        pd.DataFrame({"recommender": ["A"] * 9 + ["B"] * 9, "user": [*range(9)] * 2})
        .assign(n_better=0, n_tied=9),
        n_items=50, n_negatives=9,
        replacement=True,
    ),
    "a catalogue for each user": read_log(
        pd.DataFrame({"recommender": ["A"] * 40 + ["B"] * 40, "user": [*range(40)] * 2})
        .assign(rank=[1, 4, 2, 9] * 20, n_items=[*range(20, 820, 20)] * 2),
        n_negatives=9,
        replacement=True,
    ),
    "one to three items": dependent_log("items"),
}  # fmt: skip

#: Edges at which all items are ranked, and the naive metric has no bias.
WHOLE = ("two items", "exact ranks")


@pytest.mark.some(7)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("of", ["auc", "recall@10", "ap"])
@pytest.mark.parametrize("edge", EDGES)
def test_a_log_at_the_edge_has_numbers_and_no_warning(edge, of):
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        for assumption in ("decreasing", None):
            estimates = evaluation.estimate(EDGES[edge], [of], assumption=assumption)
            comparison = evaluation.compare(EDGES[edge], of, assumption=assumption)
            # Nothing here is like the benchmark: typical ranges and probability are missing.
            typical, probability = ["typical_low", "typical_high"], ["probability"]
            student = ["student_low", "student_high"]
            assert estimates.frame[typical].isna().all(axis=None)
            assert comparison.frame[probability].isna().all(axis=None)
            assert comparison.frame[student].isna().all(axis=None) or of == "auc" or edge in WHOLE
            needed = ["steepness", "users_needed", "negatives_needed"]
            for table in (
                estimates.frame.drop(columns=typical),
                comparison.frame.drop(columns=[*needed, *probability, *student]),
            ):
                assert np.isfinite(table.select_dtypes("number").to_numpy()).all()
            assert (estimates.frame["possible_low"] <= estimates.frame["possible_high"]).all()
            (row,) = comparison.frame.itertuples()
            assert row.possible_low <= row.possible_high
            assert "nan" not in estimates.summary() + comparison.summary()
    if edge == "exact ranks" and of == "recall@10":
        # What was sampled is what there is, and users who differ in the metric tell.
        assert row.verdict == "B beats A"
        assert row.estimate == row.reported == -0.5


def kinds_of_users(items):
    """A log of kinds of users who are alike under every recommender, and of each user alone."""
    rng, users = np.random.default_rng(11), 120
    kinds = pd.DataFrame(
        {
            "recommender": np.repeat(["A", "B", "C"], users * items),
            "user": np.tile(np.repeat(np.arange(users), items), 3),
            "item": np.tile(np.arange(items), 3 * users),
            "n_better": rng.binomial(9, rng.beta(0.5, 2.0, 3 * users * items)),
            "n_tied": 0,
        }
    )
    kinds["count"] = rng.integers(1, 4, users)[kinds["user"]]
    user_rows = kinds.loc[np.repeat(kinds.index, kinds["count"])].drop(columns="count")
    copy = user_rows.groupby(["recommender", "user", "item"]).cumcount()
    return kinds, user_rows.assign(user=1_000 * user_rows["user"] + copy)


@pytest.mark.some(2)
@pytest.mark.parametrize("items", [1, 2])
@pytest.mark.parametrize("way", ["one row", "all", "compare", "compare by bets"])
def test_a_count_is_so_many_rows(items, way):
    calls = {
        "one row": lambda log: evaluation.estimate(log, ["ndcg@3", "auc"]),
        "all": lambda log: evaluation.estimate_each(log, ["ndcg@3", "auc"]),
        "compare": lambda log: evaluation.compare(log, "ndcg@3"),
        "compare by bets": lambda log: evaluation.compare(log, "auc"),
    }
    counted, user_rows = kinds_of_users(items)
    sizes = {"n_items": 50, "n_negatives": 9, "replacement": True}
    from_counts, expected = (calls[way](read_log(table, **sizes)) for table in (counted, user_rows))
    assert from_counts.notes == expected.notes
    pd.testing.assert_frame_equal(from_counts.frame, expected.frame, rtol=1e-9)
    assert (from_counts.frame.select_dtypes("number").sum() != 0).any()


def test_counts_without_users_are_estimated_and_not_compared():
    counted, user_rows = kinds_of_users(1)
    sizes = {"n_items": 50, "n_negatives": 9, "replacement": True}
    count_rows = counted.groupby(["recommender", "n_better", "n_tied"], as_index=False)[
        "count"
    ].sum()
    log = read_log(count_rows, **sizes)
    # The prior is fitted to all recommenders, and their users are taken to be others here.
    others = user_rows.assign(user=user_rows["recommender"] + user_rows["user"].astype(str))
    from_counts, expected = (
        estimate(x, ["ndcg@3", "auc"]) for x in (log, read_log(others, **sizes))
    )
    pd.testing.assert_frame_equal(from_counts, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="a log with a column count needs a column user"):
        compare(log, "auc")


@pytest.mark.some(2)
@pytest.mark.parametrize("order", ["in order", "mixed up"])
@pytest.mark.parametrize("users", ["the same", "others"])
def test_files_with_several_rows_of_a_user_say_what_frames_say(tmp_path, monkeypatch, users, order):
    monkeypatch.setattr(_sources, "_ROWS", 97)
    monkeypatch.setattr(compact, "_BLOCK", 50)
    rng = np.random.default_rng(3)
    tables = []
    for name, better in (("one", 0.2), ("other", 0.4)):
        n_rows = rng.integers(1, 4, 300)
        ranks = np.concatenate([rng.choice(9, k, replace=False) for k in n_rows])
        columns = {"recommender": name, "user": np.repeat(np.arange(300), n_rows) + 7}
        ranks = np.where(rng.random(ranks.size) < better, ranks, 0)
        tables.append(pd.DataFrame(columns | {"n_better": ranks, "n_tied": rng.integers(0, 3)}))
    rows = pd.concat(tables, ignore_index=True).assign(n_negatives=12)
    rows["n_items"] = 50 + rows["user"] % 2
    rows = rows.drop_duplicates(["recommender", "user", "n_better"])
    rows = rows.assign(item=np.arange(len(rows)))
    if users == "others":
        rows = rows[~((rows["recommender"] == "one") & rows["user"].isin([20, 250]))]
    if order == "mixed up":
        rows = rows.sample(frac=1, random_state=1)
    rows.to_csv(tmp_path / "log.csv", index=False)
    log, in_memory = (read_log(source, replacement=True) for source in (tmp_path / "log.csv", rows))
    assert repr(log) == repr(in_memory)
    for verb in (estimate, estimate_each):
        from_file, expected = (verb(x, ["ndcg@3", "rr"]) for x in (log, in_memory))
        pd.testing.assert_frame_equal(from_file, expected, rtol=1e-9)
    if users == "the same":
        for options in ({}, {"estimator": "bias-variance, fitted prior"}):
            from_file, expected = (compare(x, "ndcg@3", **options) for x in (log, in_memory))
            pd.testing.assert_frame_equal(from_file, expected, rtol=1e-9)
        return
    messages = []
    for source in (log, in_memory):
        with pytest.raises(ValueError, match="must have the same users") as problem:
            compare(source, "ndcg@3")
        messages.append(str(problem.value))
    assert messages[0].split(", such as")[0] == messages[1].split(", such as")[0]
    pd.testing.assert_frame_equal(log.frame, in_memory.frame)


@pytest.mark.some(2)
@pytest.mark.parametrize("pairs", [1 << 22, 0])
@pytest.mark.parametrize("users", ["the same", "others"])
def test_files_say_what_frames_say(tmp_path, monkeypatch, users, pairs):
    monkeypatch.setattr(_sources, "_ROWS", 100)
    monkeypatch.setattr(compact, "_TABLE", pairs)
    monkeypatch.setattr(compact, "_BLOCK", 100)
    rows = kinds_of_users(1)[1].drop(columns="item").assign(n_negatives=9)
    rows["n_items"] = 50 + rows["user"] % 2
    if users == "others":
        rows = rows.drop(index=rows.index[[3, 500]])
    rows.to_csv(tmp_path / "log.csv", index=False)
    log = read_log(tmp_path / "log.csv", replacement=True)
    in_memory = read_log(rows, replacement=True)
    for verb in (estimate, estimate_each):
        from_file, expected = (verb(x, ["ndcg@3", "auc"]) for x in (log, in_memory))
        pd.testing.assert_frame_equal(from_file, expected, rtol=1e-9)
    for metric_name in ("ndcg@3", "auc"):
        if users == "the same":
            for options in ({}, {"estimator": "bias-variance, fitted prior"}):
                from_file, expected = (compare(x, metric_name, **options) for x in (log, in_memory))
                pd.testing.assert_frame_equal(from_file, expected, rtol=1e-9)
            continue
        messages = []
        for source in (log, in_memory):
            with pytest.raises(ValueError, match="must have the same users") as problem:
                compare(source, metric_name)
            messages.append(str(problem.value))
        assert messages[0].split(", such as")[0] == messages[1].split(", such as")[0]


def test_users_who_share_their_negatives_get_no_range() -> None:
    rows = pd.DataFrame({"user": range(60), "rank": [1, 3, 9] * 20})
    sizes = {"n_items": 100, "n_negatives": 20, "replacement": False}
    log = read_log(rows, **sizes, shared_negatives=True)
    with pytest.raises(ValueError, match="shared_negatives must be False for an ident"):
        estimate(log, ["recall@10"])
    pair_rows = pd.concat([rows.assign(recommender=name) for name in "AB"])
    with pytest.raises(ValueError, match="shared_negatives must be False for an ident"):
        compare(read_log(pair_rows, **sizes, shared_negatives=True), "recall@10")
    table = estimate(log, ["recall@10"], identification=False)
    assert table["reported"].tolist() == [1.0]
    assert estimate_each(log, ["recall@10"], estimators=["naive"])["value"].tolist() == [1.0]
    # Who ranks all items draws nothing.
    exact_log = read_log(rows, n_items=21, n_negatives=20, replacement=False, shared_negatives=True)
    assert estimate(exact_log, ["recall@10"])["warrant"].tolist() == ["theorem"]
    with pytest.raises(ValueError, match="shared_negatives must be True or False, got 'no'"):
        read_log(rows, **sizes, shared_negatives="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [True, False])
def test_a_table_of_candidates_shows_whether_users_share_negatives(shared: bool) -> None:
    rng, parts = np.random.default_rng(1), []
    shared_negatives = rng.choice(np.arange(40, 400), 30, replace=False)
    for user in range(40):
        negatives = (
            shared_negatives if shared else rng.choice(np.arange(40, 400), 30, replace=False)
        )
        items = np.append(rng.permutation(negatives), user)
        scores = {"user": user, "item": items, "score": rng.normal(size=31)}
        parts.append(pd.DataFrame(scores).assign(relevant=items == user))
    log = read_log(from_scores(pd.concat(parts)), n_items=400)
    assert log.shared_negatives is shared
    if shared:
        with pytest.raises(ValueError, match="shared_negatives"):
            estimate(log, ["ndcg@10"])
        with pytest.raises(
            ValueError, match="shared_negatives must be True, got False: users have"
        ):
            read_log(from_scores(pd.concat(parts)), n_items=400, shared_negatives=False)


def test_samples_that_were_doubled_while_the_item_was_first_get_no_range() -> None:
    ranks = np.minimum(np.random.default_rng(2).geometric(0.01, size=400), 500)
    drawn, above = Adaptive(n_items=500, first=10, most=160).draw(ranks, 3)
    rows = pd.DataFrame({"user": np.arange(400), "n_better": above, "n_tied": 0})
    log = read_log(rows.assign(n_negatives=drawn), n_items=500, replacement=True)
    with pytest.raises(ValueError, match="n_negatives must not depend on n_better"):
        estimate(log, ["recall@10"])
    assert len(estimate(log, ["recall@10"], identification=False)) == 1
    # Numbers that were chosen beforehand leave some items above all of the fewest negatives.
    protocol = Protocol(500, 10)
    fixed = np.random.default_rng(4).choice([10, 20, 40, 80, 160], size=400)
    above = np.array(
        [
            replace(protocol, n_negatives=int(m)).draw(r, 5 + i) - 1
            for i, (m, r) in enumerate(zip(fixed, ranks, strict=True))
        ]
    )
    rows = rows.assign(n_better=above, n_negatives=fixed)
    assert len(estimate(read_log(rows, n_items=500, replacement=True), ["recall@10"])) == 1


@pytest.mark.parametrize("given", [True, False])
def test_a_poor_recommender_with_a_fixed_design_gets_a_range_if_the_design_is_said(
    given: bool,
) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.choice([50, 100], size=2_000)
    rows = pd.DataFrame({"user": np.arange(2_000), "n_negatives": numbers, "n_tied": 0})
    rows["n_better"] = rng.binomial(numbers, 0.5)  # each item is at rank 250 of 500
    log = read_log(rows, n_items=500, replacement=True, fixed_sample_size=given)
    if given:
        assert len(estimate(log, ["recall@10"])) == 1
        return
    with pytest.raises(ValueError, match=r"fixed_sample_size=True \(--fixed-sample-size\)"):
        estimate(log, ["recall@10"])


def enlarged(first: int, add: int, most: int, users: int, seed: int, obeyed: float = 1.0):
    """A log whose samples were enlarged by `add` while no negative was above, mostly."""
    rng, rows = np.random.default_rng(seed), []
    for rank in np.minimum(1 + (rng.pareto(0.4, users) * 8).astype(int), 2_000):
        is_above, m = rng.permutation(1_999)[:most] < rank - 1, first
        while not is_above[:m].any() and m < most and rng.random() < obeyed:
            m = min(m + add, most)
        rows.append({"n_negatives": m, "n_better": int(is_above[:m].sum())})
    frame = pd.DataFrame(rows).assign(user=np.arange(users), n_tied=0)
    return read_log(frame, n_items=2_000, replacement=False)


@pytest.mark.parametrize(("users", "first", "add", "most"), [
    (150, 5, 5, 20), (300, 10, 10, 30), (60, 20, 20, 100), (400, 2, 1, 4), (400, 1, 1, 1_999),
])  # fmt: skip
def test_samples_enlarged_by_any_step_get_no_range(users: int, first: int, add: int, most: int):
    for seed in range(5):
        log = enlarged(first, add, most, users, seed)
        with pytest.raises(ValueError, match=r"negatives none had no negative above.*fixed_sample"):
            estimate(log, ["recall@10"], assumption=None)
        assert len(estimate(log, ["recall@10"], identification=False)) == 1


def test_a_few_samples_that_were_not_enlarged_do_not_hide_the_others() -> None:
    log = enlarged(5, 5, 20, 1_000, 1, obeyed=0.998)
    with pytest.raises(ValueError, match=r"of \d+ users of recommender with fewer than 20 "
                       r"negatives only \d had no negative above"):  # fmt: skip
        estimate(log, ["recall@10"], assumption=None)


def test_samples_enlarged_until_a_tied_negative_get_no_range() -> None:
    rows = pd.DataFrame({"user": range(90), "n_negatives": [20] * 40 + [40] * 50, "n_tied": 0})
    rows["n_better"] = [0] * 20 + [1] * 20 + [0] * 40 + [1] * 10
    rows.loc[:19, "n_tied"] = 1
    with pytest.raises(ValueError, match="of 40 users of recommender with fewer than 40 negatives"):
        estimate(read_log(rows, n_items=500, replacement=False), ["recall@10"])


@pytest.mark.parametrize("users", [30, 3_000])
@pytest.mark.parametrize("numbers", ["98 or 99", "a few 98", "collapsed", "history", "2 to 4"])
@pytest.mark.parametrize("recommender", ["good", "random", "half bad"])
def test_numbers_chosen_before_ranking_are_not_suspected(users, numbers, recommender) -> None:
    n, drawn = 2_000, {
        "98 or 99": lambda rng: rng.integers(98, 100, users),
        "a few 98": lambda rng: 99 - (rng.random(users) < 0.03),
        "collapsed": lambda rng: 100 - rng.poisson(3, users),
        "history": lambda rng: np.minimum(100, 4 * rng.geometric(0.05, users)),
        "2 to 4": lambda rng: rng.integers(2, 5, users),
    }  # fmt: skip
    ranked = {
        "good": lambda rng: np.minimum(1 + (rng.pareto(0.4, users) * 8).astype(int), n),
        "random": lambda rng: rng.integers(1, n + 1, users),
        "half bad": lambda rng: np.where(
            rng.random(users) < 0.5, n // 2, rng.integers(1, n + 1, users)
        ),
    }
    for seed in range(4):
        rng = np.random.default_rng(seed)
        m, rank = drawn[numbers](rng), ranked[recommender](rng)
        rows = pd.DataFrame({"user": range(users), "n_negatives": m, "n_tied": 0})
        rows["n_better"] = rng.hypergeometric(rank - 1, n - rank, m)
        sample = Sample(read_log(rows, n_items=n, replacement=False))
        sample.check_independent("")


def test_exact_ranks_among_different_numbers_are_not_suspected() -> None:
    numbers = np.arange(2, 1_002)  # nobody is first, and nothing was sampled
    rows = pd.DataFrame({"user": range(1_000), "n_negatives": numbers, "n_better": 2, "n_tied": 0})
    log = read_log(rows.assign(n_items=numbers + 1), replacement=False)
    assert estimate(log, ["recall@10"])["warrant"].tolist() == ["theorem"]


def test_the_error_rates_of_suspected_samples() -> None:
    """By fractions: whether k users drawn at random all have the largest number, and exp."""

    def suspected(fewer: int, most: int, first: int, m: int = 20) -> bool:
        rows = pd.DataFrame({"user": range(fewer + most), "n_tied": 0})
        rows["n_negatives"] = [m] * fewer + [2 * m] * most
        rows["n_better"] = [1] * fewer + [0] * first + [1] * (most - first)
        sample = Sample(read_log(rows, n_items=500, replacement=True))
        return sample.enlarged("recommender") is not None

    for fewer, most in ((20, 40), (40, 20), (30, 30)):
        for first in range(most + 1):
            share = Fraction(comb(most, first), comb(most + fewer, first))
            assert suspected(fewer, most, first) is (share < Fraction(1, 10**6))
    # 1 / (m + 1) of so many users is the number that a random recommender has first.
    for m, fewest in ((1, 28), (9, 139)):
        assert np.exp(-fewest / (m + 1)) < 1e-6 < np.exp(-(fewest - 1) / (m + 1))
        assert suspected(fewest, 1, 0, m)
        assert not suspected(fewest - 1, 1, 0, m)


def test_a_sample_size_is_fixed_or_adaptive() -> None:
    rows = pd.DataFrame({"user": [1, 2], "n_negatives": [2, 8], "n_better": [1, 0], "n_tied": 0})
    with pytest.raises(ValueError, match="must be left out with an adaptive design"):
        read_log(rows, protocol=Adaptive(50, first=2, most=8), fixed_sample_size=True)
    with pytest.raises(ValueError, match="fixed_sample_size must be True or False, got 'yes'"):
        read_log(rows, n_items=9, replacement=True, fixed_sample_size="yes")  # type: ignore[arg-type]

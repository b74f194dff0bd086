"""Priors fitted to a log, by definition and by leaving out users."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Protocol, estimators, evaluation, metric
from sampled_metrics.designs import values as row_values
from sampled_metrics.designs.sample import Sample
from sampled_metrics.designs.values import Values
from sampled_metrics.evaluation import FITTED
from sampled_metrics.log.read import read_log
from tests.reference import plug_in
from tests.sampled_metrics.designs.logs import estimate_each, log_of, values


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("same_users", [True, False])
def test_standard_errors_of_sets_are_those_of_leaving_out_one_user_and_fitting_anew(same_users):
    rows = sets_of(25, np.random.default_rng(8))
    rows["user"] += np.where((rows["recommender"] == "B") & (not same_users), 20, 0)
    check_by_leaving_out(rows, "ndcg@4", same_users, 0.03)


@pytest.mark.parametrize("of", ["recall@3", "precision@2", "ndcg@3", "ndcg", "ap", "ap@3", "rr"])
def test_fits_to_sets_of_which_all_negatives_were_sampled_are_the_exact_metric(of):
    # Six irrelevant items, all of them drawn: sampled ranks are true ones, whatever the prior.
    sets = [(2,), (1, 4), (3, 4), (1, 2, 7), (2, 5, 9), (6,), (1, 8)]
    rows = [(user, rank, 6 + len(ranks)) for user, ranks in enumerate(sets) for rank in ranks]
    table = pd.DataFrame(rows, columns=["user", "rank", "n_items"])
    log = read_log(table.assign(item=table.index), n_negatives=6, replacement=False)
    exact = np.mean([metric(of).of_set(ranks, 6 + len(ranks)) for ranks in sets])
    assert values(log, of, FITTED[0])[0] == pytest.approx(exact, abs=1e-6)


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


def test_priors_are_fitted_to_as_many_negatives_as_every_user_has():

    from sampled_metrics import priors

    table = pd.DataFrame({"user": [1, 2, 3], "rank": [1, 2, 4], "n_negatives": [3, 2, 3]})
    log = read_log(table, n_items=50, replacement=True)
    estimates = evaluation.estimate(log, ["ap"], estimator="maximum entropy")
    assert "users have 2 to 3 negatives: priors are fitted to 2 of each" in estimates.notes
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

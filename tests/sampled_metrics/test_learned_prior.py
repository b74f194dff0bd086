"""The learned prior against 50-digit arithmetic, differences, and draws from itself."""

import argparse
from dataclasses import replace

import mpmath as mp
import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import cli, learned_prior, metric
from sampled_metrics.designs import options
from sampled_metrics.learned_prior import Cells, Counts, counted, fit

METRICS = ["ndcg@10", "recall@10", "recall@100", "ap", "auc", "accuracy"]


def a_log(seed, n_users=400, replacement=True, recommenders=3, sizes=(900, 1_000), m=(50, 60)):
    """Columns of kinds of row, and users by kind: numbers of negatives and candidates differ."""
    rng = np.random.default_rng(seed)
    negatives = rng.choice(m, 200)
    candidates = rng.integers(*sizes, 200)
    better = np.minimum(rng.geometric(0.1, 200) - 1, negatives)
    tied = np.minimum(rng.integers(0, 2, 200), negatives - better)
    users = {
        f"R{i}": rng.multinomial(n_users, rng.dirichlet(np.ones(200))).astype(float)
        for i in range(recommenders)
    }
    return users, better, tied, negatives, candidates, replacement


def spline_in_digits(z, coefficients):
    """The natural cubic spline through values at the knots, by its 24 conditions."""
    knots = [mp.mpf(str(knot)) for knot in learned_prior.KNOTS]
    pieces = len(knots) - 1
    values = [*coefficients, mp.mpf(0)]
    system, right = mp.zeros(4 * pieces), mp.zeros(4 * pieces, 1)

    def derivative(order, x):
        factors = [mp.ff(power, order) for power in range(4)]
        return [
            factor * x ** max(power - order, 0) if power >= order else mp.mpf(0)
            for power, factor in enumerate(factors)
        ]

    row = 0
    for piece in range(pieces):
        for knot in (piece, piece + 1):
            system[row, 4 * piece : 4 * piece + 4] = mp.matrix([derivative(0, knots[knot])])
            right[row], row = values[knot], row + 1
        for order in (1, 2) if piece else ():
            for power, value in enumerate(derivative(order, knots[piece])):
                system[row, 4 * piece + power] = value
                system[row, 4 * piece - 4 + power] = -value
            row += 1
    for piece, knot in ((0, 0), (pieces - 1, pieces)):
        system[row, 4 * piece : 4 * piece + 4] = mp.matrix([derivative(2, knots[knot])])
        row += 1
    solved = mp.lu_solve(system, right)
    piece = max(i for i in range(pieces) if knots[i] <= z)
    return sum(solved[4 * piece + power] * z**power for power in range(4))


@pytest.mark.parametrize("replacement", [True, False])
def test_the_likelihood_of_a_small_log_in_50_digits(replacement):
    """Of 40 items every rank is a cell, so that this sums over all ranks."""
    n, m, theta = 40, 21, np.array([[-2.0, -1.5, -1.0, 0.3, -0.4, 0.2]])
    better = np.arange(m + 1)
    users = {"A": np.arange(m + 1.0) + 2.0}
    same = np.full(m + 1, 1)
    counts = counted(users, better, 0 * same, m * same, n * same, replacement)
    prior = learned_prior.learned()._replace(mean=theta[0])
    value, _, _ = learned_prior.log_posterior(counts, prior, theta, np.zeros(6))
    with mp.workdps(50):
        coefficients = [mp.mpf(float(part)) for part in theta[0]]
        scale, masses = mp.log(n) / 9, []
        for rank in range(1, n + 1):
            z = mp.log(rank) / mp.log(n) if rank < n else mp.mpf(1)
            masses.append(mp.exp(scale * spline_in_digits(z, coefficients)) / rank)
        total = mp.fsum(masses)

        def chance(x, rank):
            if replacement:
                share = mp.mpf(rank - 1) / (n - 1)
                return mp.binomial(m, x) * share**x * (1 - share) ** (m - x)
            hits = mp.binomial(rank - 1, x) * mp.binomial(n - rank, m - x)
            return hits / mp.binomial(n - 1, m)

        shares = [
            mp.fsum(mass / total * chance(x, rank + 1) for rank, mass in enumerate(masses))
            for x in range(3)
        ]
        shares.append(1 - mp.fsum(shares))
        observed = [2, 3, 4, sum(users["A"]) - 9]
        expected = mp.fsum(k * mp.log(share) for k, share in zip(observed, shares, strict=True))
    assert value == pytest.approx(float(expected), rel=1e-12)


def test_cells_part_the_ranks():
    for items in (2, 50, 65, 1_000, 5_000_000):
        cells = Cells(items)
        assert cells.first[0] == 1
        assert cells.last[-1] == items
        assert (cells.first[1:] == cells.last[:-1] + 1).all()
        assert ((cells.first <= cells.rank) & (cells.rank <= cells.last)).all()


@pytest.mark.parametrize("name", METRICS)
def test_values_of_cells_are_means_over_their_ranks(name):
    cells = Cells(3_000)
    values = metric(name).vector(3_000)
    expected = [values[a - 1 : b].mean() for a, b in zip(cells.first, cells.last, strict=True)]
    np.testing.assert_allclose(cells.values(metric(name)), expected, rtol=2e-3, atol=1e-3)


def moved(theta, i, j, step):
    changed = theta.copy()
    changed[i, j] += step
    return changed


def test_information_against_differences():
    """Of expected counts the observed information is the expected one."""
    counts, prior = counted(*a_log(3)), learned_prior.learned()
    theta, shared = np.tile(prior.mean + 0.3, (3, 1)), np.zeros(6)
    marginal = counts.cells.masses(theta) @ counts.likelihood.T
    users = counts.users @ (counts.group == counts.group[:, np.newaxis])
    expected = Counts(counts.names, counts.cells, counts.group, counts.likelihood, users * marginal)
    _, gradient, information = learned_prior.log_posterior(expected, prior, theta, shared)
    assert np.abs(gradient).max() < 1e-9
    for i, j in np.ndindex(3, 6):
        slopes = [
            learned_prior.log_posterior(expected, prior, moved(theta, i, j, step), shared)[1][i]
            for step in (1e-4, -1e-4)
        ]
        np.testing.assert_allclose(
            (slopes[1] - slopes[0]) / 2e-4, information[i, j], rtol=1e-4, atol=1e-3
        )


def test_the_mode_is_a_maximum():
    counts, prior = counted(*a_log(4)), learned_prior.learned()
    posterior = fit(counts, prior)
    best = learned_prior.log_posterior(counts, prior, posterior.theta, posterior.shared)[0]
    rng = np.random.default_rng(5)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            theta = posterior.theta + size * rng.normal(size=posterior.theta.shape)
            shared = posterior.shared + size * rng.normal(size=6)
            assert learned_prior.log_posterior(counts, prior, theta, shared)[0] < best


def test_covariance_is_the_inverse_of_the_joint_information():
    """And errors of metrics follow from it by differences of their logarithms."""
    counts, prior = counted(*a_log(6)), learned_prior.learned()
    posterior = fit(counts, prior)
    information = learned_prior.log_posterior(counts, prior, posterior.theta, posterior.shared)[2]
    within, between = np.linalg.inv(prior.within), np.linalg.inv(prior.between)
    joint = np.zeros((24, 24))
    joint[18:, 18:] = between + 3 * within
    for i in range(3):
        own = slice(6 * i, 6 * i + 6)
        joint[own, own] = information[i] + within
        joint[own, 18:] = joint[18:, own] = -within
    of_theta = np.linalg.inv(joint)[:18, :18]
    nothing = np.zeros((3, 6, 6))
    still = replace(posterior, conditional=nothing, response=nothing, shared_covariance=nothing[0])

    def level(theta):
        return replace(still, theta=theta).logarithms(metric("ndcg@10"))[0]

    slopes = np.zeros((3, 18))
    for i, j in np.ndindex(3, 6):
        ends = [level(moved(posterior.theta, i, j, step)) for step in (1e-4, -1e-4)]
        slopes[:, 6 * i + j] = (ends[0] - ends[1]) / 2e-4
    _, of_users = still.logarithms(metric("ndcg@10"))
    _, covariance = posterior.logarithms(metric("ndcg@10"))
    np.testing.assert_allclose(covariance, slopes @ of_theta @ slopes.T + of_users, rtol=1e-5)


@pytest.mark.parametrize("items", [50, 5_000_000])
@pytest.mark.parametrize("m", [2, 40])
@pytest.mark.parametrize("all_at", ["first", "last", "anywhere"])
@pytest.mark.parametrize("replacement", [True, False])
def test_odd_logs_get_an_estimate_with_an_error(items, m, all_at, replacement):
    """One recommender and 30 users."""
    better = np.arange(m + 1)
    places = {"first": [0], "last": [m], "anywhere": better}[all_at]
    users = np.zeros(m + 1)
    users[places] = 30 / len(places)
    same = np.ones(m + 1, dtype=np.int64)
    counts = counted({"A": users}, better, 0 * same, m * same, items * same, replacement)
    posterior = fit(counts, learned_prior.learned())
    for name in METRICS:
        values, covariance = posterior.logarithms(metric(name))
        is_one = name == "recall@100" and items == 50
        # At most 9 items that were not drawn can be above the item.
        is_drawn_first = (items, m, all_at, replacement) == (50, 40, "first", False)
        is_one |= name == "recall@10" and is_drawn_first
        is_zero = name == "accuracy" and all_at == "last"
        assert values[0] <= 0
        assert np.isneginf(values[0]) == is_zero
        assert (covariance[0, 0] == 0) == (is_one or is_zero)
        assert np.isfinite(covariance[0, 0])


def drawn_from(prior, rng, n_users=1_000, items=3_000, m=100, recommenders=3):
    """A log whose recommenders are drawn from the prior, and their users' exact values."""
    cells = Cells(items)
    shared = rng.multivariate_normal(np.zeros(6), prior.between)
    theta = prior.mean + shared + rng.multivariate_normal(np.zeros(6), prior.within, recommenders)
    values = cells.values(metric("ndcg@10"))
    users, exact = {}, []
    for i, mass in enumerate(cells.masses(theta)):
        cell = rng.choice(mass.size, n_users, p=mass)
        better = rng.binomial(m, (cells.rank[cell] - 1) / (items - 1))
        users[f"R{i}"] = np.bincount(better, minlength=m + 1).astype(float)
        exact.append(values[cell].mean())
    same = np.ones(m + 1, dtype=np.int64)
    log = users, np.arange(m + 1), 0 * same, m * same, items * same, True
    return log, np.array(exact)


def test_of_logs_from_the_prior_errors_are_what_the_posterior_says():
    """Deviations in units of the errors, and of differences, are standard normal."""
    prior, rng = learned_prior.learned(), np.random.default_rng(7)
    deviations, of_differences = [], []
    for _ in range(300):
        log, exact = drawn_from(prior, rng)
        estimates, covariance = fit(counted(*log), prior).logarithms(metric("ndcg@10"))
        off = estimates - np.log(exact)
        deviations.append(off / np.sqrt(np.diag(covariance)))
        variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
        of_differences.append((off[0] - off[1]) / np.sqrt(variance))
    for parts in (np.concatenate(deviations), np.array(of_differences)):
        assert abs(parts.mean()) < 0.15
        assert 0.93 < parts.std() < 1.08
        assert 0.93 < (np.abs(parts) < 1.96).mean() < 0.97
        assert 0.63 < (np.abs(parts) < 1.0).mean() < 0.74


def test_orders_of_users_and_recommenders_do_not_matter():
    users, *rest, replacement = a_log(8)
    prior = learned_prior.learned()
    order = np.random.default_rng(9).permutation(200)
    turned = {name: part[order] for name, part in reversed(users.items())}
    first = fit(counted(users, *rest, replacement), prior)
    again = fit(counted(turned, *(part[order] for part in rest), replacement), prior)
    for name in METRICS:
        values, covariance = first.logarithms(metric(name))
        values_again, covariance_again = again.logarithms(metric(name))
        np.testing.assert_allclose(values_again[::-1], values, rtol=1e-9)
        np.testing.assert_allclose(covariance_again[::-1, ::-1], covariance, rtol=1e-8)


def test_a_family_moves_the_mean_of_its_recommenders_alone():
    rows = pd.DataFrame({"user": range(300), "rank": np.random.default_rng(2).integers(1, 40, 300)})
    both = pd.concat([rows.assign(recommender=name) for name in ("A", "SASRec")])
    log = sm.read_log(both, n_items=5_000, n_negatives=100, replacement=True)

    def values(**options):
        return sm.estimate(log, ["ndcg@10"], identification=False, **options).frame["estimate"]

    plain, sequential = values(), values(family={"SASRec": "sequential"})
    assert plain[0] == pytest.approx(plain[1])
    assert sequential[1] > 1.2 * plain[1]  # more users at the very top
    assert sequential[0] < sequential[1]
    assert values(family="popularity")[0] < plain[0]
    shifted = learned_prior.learned().of(["sequential", "none", ""]).mean
    np.testing.assert_array_equal(shifted[1:], np.tile(learned_prior.learned().mean, (2, 1)))
    gap = sm.compare(log, "ndcg@10", family={"SASRec": "sequential"}).frame["estimate"].item()
    assert gap == pytest.approx(sequential[0] - sequential[1])


def test_notes_on_families():
    names = ["SASRec", "MostPop", "Popular music", "bert4rec-2", "ALS"]
    _, notes = options.families(None, names)
    assert [note.partition(" seems to be ")[0] for note in notes] == [
        "SASRec",
        "MostPop",
        "bert4rec-2",
    ]
    assert "(--family MostPop=popularity)" in notes[1]
    families, notes = options.families({"SASRec": "sequential", "ALS": "linear"}, ["SASRec", "ALS"])
    assert families == ["sequential", "linear"]
    (note,) = notes
    assert note.startswith("family linear has no mean of its own in the learned prior")
    with pytest.raises(ValueError, match="family must name recommenders of the log, got 'B'"):
        options.families({"B": "sequential"}, ["A"])


@pytest.mark.parametrize(
    ("words", "family"),
    [
        ([], None),
        (["sequential"], "sequential"),
        (["A=sequential", "k=5=popularity"], {"A": "sequential", "k=5": "popularity"}),
    ],
)
def test_families_on_the_command_line(words, family):
    assert cli._family(argparse.Namespace(family=words)) == family


def test_two_families_without_names_are_refused():
    with pytest.raises(ValueError, match="--family must be one family, or RECOMMENDER=FAMILY"):
        cli._family(argparse.Namespace(family=["sequential", "A=popularity"]))

"""Lower bounds against exact tests and intervals that keep their promise; fits against EM."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from sampled_book.experiments.populations import decidable, maximum_likelihood, missed, shortest
from sampled_metrics import Protocol, estimators, interval, metric
from tests.reference import plug_in
from tests.sampled_metrics.test_priors import a_log


def of_coins(true, tested, users, error_rate):
    """The best test of one coin against another, of all tests on the number of heads."""
    heads = np.arange(users + 1)
    true_pmf, tested_pmf = binom.pmf(heads, users, true), binom.pmf(heads, users, tested)
    log_ratios = binom.logpmf(heads, users, true) - binom.logpmf(heads, users, tested)
    cuts = np.exp(np.clip(log_ratios, -30.0, 30.0))[:, np.newaxis]
    return float(
        (np.minimum(true_pmf, cuts * tested_pmf).sum(axis=1) - cuts[:, 0] * error_rate).max()
    )


def as_law(heads):
    return np.array([1.0 - heads, heads])


@pytest.mark.parametrize("users", [1, 7, 50, 400])
@pytest.mark.parametrize(("true", "tested"), [(0.5, 0.3), (0.02, 0.05), (0.4, 0.95), (0.9, 0.91)])
def test_no_test_is_better_than_the_likelihood_ratio(users, true, tested):
    exact = of_coins(true, tested, users, 0.05)
    miss_rate = missed([(as_law(true), as_law(tested))], float(users), 0.05)
    assert exact - 0.012 <= miss_rate <= exact + 1e-9


def test_many_users_are_as_a_normal_shift():
    for shift in (0.5, 1.0, 2.0, 3.0):
        pair = as_law(0.4), as_law(0.4 + shift * np.sqrt(0.24 / 1e6))
        miss_rate = missed([pair], 1e6, 0.05)
        assert miss_rate == pytest.approx(norm.cdf(norm.ppf(0.95) - shift), abs=5e-3)


def test_what_one_distribution_never_shows():
    # Heads, which the tested coin never shows, come up but once in 2^3 tosses.
    miss_rate = missed([(as_law(0.5), as_law(0.0))], 3.0, 0.05)
    assert miss_rate == pytest.approx(0.5**3 * 0.95, abs=2e-3)


def test_distributions_that_share_a_part_of_what_they_show():
    pair = np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.0, 0.5])
    assert missed([pair], 100.0, 0.05) == pytest.approx(0.0, abs=1e-12)
    assert missed([pair], 1.0, 0.05) == pytest.approx(0.45, abs=1e-3)


def test_exact_ranks_leave_what_coins_leave():
    # With all items drawn, Recall@5 is a share of users: nothing but a coin's probability.
    users, share = 400, 0.2
    counts = np.zeros(30)
    counts[[2, 20]] = users * share, users * (1.0 - share)
    width = shortest(counts, Protocol(30, 29, replacement=False), metric("recall@5"), 0.95)
    grid = (np.arange(300) + 0.5) / 300
    miss_rates = np.array([of_coins(share, tested, users, 0.05) for tested in grid])
    exact = float(miss_rates.mean())
    assert 0.9 * exact <= width <= exact


@pytest.mark.matrix
@pytest.mark.parametrize("assumption", [None, "decreasing"])
def test_intervals_are_not_shorter_on_average(assumption):
    protocol, users = Protocol(500, 20), 800
    rng = np.random.default_rng(4)
    ranks = np.minimum(rng.geometric(0.02, size=4_000), 500)
    widths, shortest_widths = [], []
    for _ in range(8):
        drawn = protocol.draw(rng.choice(ranks, users), rng)
        counts = np.bincount(drawn - 1, minlength=21)
        identified = interval(counts, protocol, "recall@10", assumption=assumption)
        widths.append(identified.high - identified.low)
        shortest_widths.append(shortest(counts, protocol, metric("recall@10"), 0.95, assumption))
    assert 1.0 < np.mean(widths) / np.mean(shortest_widths) < 2.2
    assert np.std(shortest_widths) < 0.25 * np.mean(shortest_widths)


def test_what_can_be_decided_grows_with_users_and_negatives():
    better, worse = np.zeros((2, 400))
    better[[4, 199]] = worse[[29, 199]] = 0.3, 0.7
    power_by_m = {}
    for m in (10, 100, 399):
        protocol = Protocol(400, m, replacement=False)
        power_by_m[m] = [
            decidable((better, worse), protocol, metric("recall@10"), 0.95, users)
            for users in (50.0, 5e4)
        ]
        assert 0.05 <= power_by_m[m][0] < power_by_m[m][1] + 1e-9
    assert power_by_m[10][0] < power_by_m[100][0] < power_by_m[399][0]
    assert power_by_m[399][1] > 0.999
    assert power_by_m[10][0] < 0.15


def test_equal_recommenders_are_decided_as_often_as_errors_are_allowed():
    pair, protocol = np.full((2, 200), 1 / 200), Protocol(200, 20)
    power = decidable(pair, protocol, metric("ndcg@10"), 0.95, 1e3)
    assert power == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "m"), [(300, 20), (3_541, 100)])
def test_no_rank_raises_the_likelihood(n, m, replacement):
    protocol = Protocol(n, m, replacement=replacement)
    counts = a_log(protocol, seed=n)
    fitted, pmf = maximum_likelihood(counts, protocol), protocol.pmf(np.arange(1, n + 1))
    assert fitted.mass.sum() == pytest.approx(1)
    assert np.count_nonzero(fitted.mass) <= m + 1
    np.testing.assert_allclose(fitted.mass @ pmf, fitted.marginal, atol=1e-12)
    # The derivative towards each rank, per user, bounds what any mixture of them could gain.
    slope = pmf @ (counts / (fitted.mass @ pmf)) / counts.sum() - 1
    assert slope.max() == pytest.approx(fitted.gap, abs=1e-9)
    assert fitted.certified


def test_every_gamma_has_the_plug_in_value_under_the_prior_of_maximum_likelihood():
    counts, protocol = np.array([30, 12, 8, 9, 11, 30.0]), Protocol(200, 5)
    mass = maximum_likelihood(counts, protocol).mass
    prior = dict(zip((np.flatnonzero(mass) + 1).tolist(), mass[mass > 0].tolist(), strict=True))
    for name in ("recall@10", "ap"):
        plugged = plug_in(prior, name, 200)
        for gamma in (1e-3, 0.1, 1.0, 10.0):
            estimator = estimators.bias_variance(metric(name), protocol, gamma, prior)
            assert estimator.values @ counts / counts.sum() == pytest.approx(plugged, abs=1e-8)

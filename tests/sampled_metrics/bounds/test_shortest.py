"""The lower bound of a width, against exact tests and against intervals that keep their promise."""

import numpy as np
import pytest
from scipy.stats import binom, norm

import sampled_metrics as sm
from sampled_metrics import Protocol
from sampled_metrics.bounds import bets
from sampled_metrics.bounds.assumption import Assumption
from sampled_metrics.bounds.generators import Generators, hats
from sampled_metrics.bounds.identification import interval, shortest
from sampled_metrics.bounds.shortest import decidable, missed
from sampled_metrics.numerics.distributions import pmf_table


def of_coins(true: float, tested: float, users: int, error_rate: float) -> float:
    """The best test of one coin against another, of all tests on the number of heads."""
    heads = np.arange(users + 1)
    true_pmf, tested_pmf = binom.pmf(heads, users, true), binom.pmf(heads, users, tested)
    log_ratios = binom.logpmf(heads, users, true) - binom.logpmf(heads, users, tested)
    cuts = np.exp(np.clip(log_ratios, -30.0, 30.0))[:, np.newaxis]
    return float(
        (np.minimum(true_pmf, cuts * tested_pmf).sum(axis=1) - cuts[:, 0] * error_rate).max()
    )


def as_law(heads: float) -> np.ndarray:
    return np.array([1.0 - heads, heads])


@pytest.mark.parametrize("users", [1, 7, 50, 400])
@pytest.mark.parametrize(("true", "tested"), [(0.5, 0.3), (0.02, 0.05), (0.4, 0.95), (0.9, 0.91)])
def test_no_test_is_better_than_the_likelihood_ratio(
    users: int, true: float, tested: float
) -> None:
    exact = of_coins(true, tested, users, 0.05)
    miss_rate = missed([(as_law(true), as_law(tested))], np.array([float(users)]), 0.05)
    assert exact - 0.012 <= miss_rate <= exact + 1e-9


def test_many_users_are_as_a_normal_shift() -> None:
    for shift in (0.5, 1.0, 2.0, 3.0):
        pair = as_law(0.4), as_law(0.4 + shift * np.sqrt(0.24 / 1e6))
        miss_rate = missed([pair], np.array([1e6]), 0.05)
        assert miss_rate == pytest.approx(norm.cdf(norm.ppf(0.95) - shift), abs=5e-3)


def test_parts_of_the_users_are_as_all_of_them() -> None:
    pair = as_law(0.3), as_law(0.35)
    joint_rate = missed([pair], np.array([300.0]), 0.05)
    split_rate = missed([pair, pair], np.array([100.0, 200.0]), 0.05)
    assert split_rate == pytest.approx(joint_rate, abs=1e-9)


def test_what_one_distribution_never_shows() -> None:
    # Heads, which the tested coin never shows, come up but once in 2^3 tosses.
    miss_rate = missed([(as_law(0.5), as_law(0.0))], np.array([3.0]), 0.05)
    assert miss_rate == pytest.approx(0.5**3 * 0.95, abs=2e-3)


def test_distributions_that_share_a_part_of_what_they_show() -> None:
    pair = np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.0, 0.5])
    assert missed([pair], np.array([100.0]), 0.05) == pytest.approx(0.0, abs=1e-12)
    assert missed([pair], np.array([1.0]), 0.05) == pytest.approx(0.45, abs=1e-3)


def test_lattices_are_not_larger_than_they_may_be() -> None:
    for users in (1e8, 1e9):
        pair = as_law(0.4), as_law(0.4 + 2.0 * np.sqrt(0.24 / users))
        miss_rate = missed([pair], np.array([users]), 0.05)
        assert 0.1 < miss_rate <= norm.cdf(norm.ppf(0.95) - 2.0) + 1e-3
    assert missed([pair], np.array([1e12]), 0.05) == 0.0


@pytest.mark.parametrize("assumption", [None, Assumption(), Assumption(geometric=True)])
@pytest.mark.parametrize("replacement", [True, False])
def test_the_mass_of_a_mixture_leads_to_its_sampled_ranks(
    assumption: Assumption | None, replacement: bool
) -> None:
    top = 0 if assumption is None else 12
    generators = Generators(Protocol(60, 9, replacement=replacement), assumption, top)
    generator_indices = generators.first
    weights = np.random.default_rng(1).dirichlet(np.ones(generator_indices.size), size=3)
    mass = generators.mass(weights, generator_indices)
    assert mass.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    sampled = mass @ pmf_table(9, np.arange(60), 59, replacement) @ hats(9)
    assert sampled == pytest.approx(weights @ generators.pmf[generator_indices], abs=1e-12)


def test_exact_ranks_leave_what_coins_leave() -> None:
    # With all items drawn, Recall@5 is a share of users: nothing but a coin's probability.
    users, share = 400, 0.2
    counts = np.zeros(30)
    counts[[2, 20]] = users * share, users * (1.0 - share)
    width = shortest(counts, Protocol(30, 29, replacement=False), "recall@5")
    grid = (np.arange(300) + 0.5) / 300
    miss_rates = np.array([of_coins(share, tested, users, 0.05) for tested in grid])
    exact = float(miss_rates.mean())
    assert 0.9 * exact <= width <= exact


@pytest.mark.matrix
@pytest.mark.parametrize("assumption", [None, Assumption()])
def test_intervals_are_not_shorter_on_average(assumption: Assumption | None) -> None:
    protocol, users = Protocol(500, 20), 800
    rng = np.random.default_rng(4)
    ranks = np.minimum(rng.geometric(0.02, size=4_000), 500)
    widths, shortest_widths = [], []
    for _ in range(8):
        drawn = protocol.draw(rng.choice(ranks, users), rng)
        counts = np.bincount(drawn - 1, minlength=21)
        identified = interval(counts, protocol, "recall@10", assumption=assumption)
        widths.append(identified.high - identified.low)
        shortest_widths.append(shortest(counts, protocol, "recall@10", assumption=assumption))
    assert 1.0 < np.mean(widths) / np.mean(shortest_widths) < 2.2
    assert np.std(shortest_widths) < 0.25 * np.mean(shortest_widths)


def test_what_can_be_decided_grows_with_users_and_negatives() -> None:
    better, worse = np.zeros((2, 400))
    better[[4, 199]] = worse[[29, 199]] = 0.3, 0.7
    power_by_m = {}
    for m in (10, 100, 399):
        kinds = np.array([[m, 1, 1, 400]])
        parts = bets.partition(kinds, np.ones(1), sm.metric("recall@10"), False)
        power_by_m[m] = [
            decidable(parts, None, 0.95, better, worse, users) for users in (50.0, 5e4)
        ]
        assert 0.05 <= power_by_m[m][0] < power_by_m[m][1] + 1e-9
    assert power_by_m[10][0] < power_by_m[100][0] < power_by_m[399][0]
    assert power_by_m[399][1] > 0.999
    assert power_by_m[10][0] < 0.15


def test_equal_recommenders_are_decided_as_often_as_errors_are_allowed() -> None:
    uniform = np.full(200, 1 / 200)
    parts = bets.partition(np.array([[20, 1, 1, 200]]), np.ones(1), sm.metric("ndcg@10"), True)
    assert decidable(parts, None, 0.95, uniform, uniform, 1e3) == pytest.approx(0.05, abs=0.01)


def test_several_relevant_items_are_refused() -> None:
    protocol = Protocol(50, 9, n_relevant=2)
    with pytest.raises(ValueError, match="n_relevant must be 1, got 2"):
        shortest(np.ones((2, 10)), protocol, "recall@10")

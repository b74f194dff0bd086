"""Fitted rank distributions against EM, general optimisers and what must hold at an optimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sampled_metrics import Protocol, estimators, metric, priors
from sampled_metrics.numerics import newton
from sampled_metrics.priors import maximum_entropy, maximum_likelihood
from tests.reference import plug_in

FITS = [maximum_likelihood, maximum_entropy]


def dense_law(protocol):
    return protocol.pmf(np.arange(1, protocol.n_items + 1))


def full(fitted, n):
    """Masses of all ranks."""
    if not isinstance(fitted.mass, dict):
        return fitted.mass
    mass = np.zeros(n)
    mass[np.array(list(fitted.mass)) - 1] = list(fitted.mass.values())
    return mass


def a_log(protocol, seed, users=500):
    rng = np.random.default_rng(seed)
    ranks = 1 + (protocol.n_items * rng.beta(0.4, 2.0, size=users)).astype(int)
    drawn = protocol.draw(np.minimum(ranks, protocol.n_items), rng)
    return np.bincount(drawn - 1, minlength=protocol.n_negatives + 1)


def expectation_maximization(pmf, counts, steps):
    """The slow twin (jin2021): each user is shared out among the ranks that may have been."""
    mass = np.full(len(pmf), 1 / len(pmf))
    for _ in range(steps):
        mass = mass * (pmf @ (counts / (mass @ pmf))) / counts.sum()
    return mass


@pytest.mark.some(1)
@pytest.mark.exhaustive
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_expectation_maximization_climbs_to_the_same_likelihood(replacement, seed):
    protocol = Protocol(60, 6, replacement=replacement)
    counts, pmf = a_log(protocol, seed), dense_law(protocol)
    fitted = maximum_likelihood(counts, protocol)
    mass = expectation_maximization(pmf, counts, 100_000)
    slow = counts @ np.log(mass @ pmf)
    assert fitted.log_likelihood >= slow - 1e-9
    assert (fitted.log_likelihood - slow) / counts.sum() < 1e-5


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "m"), [(40, 1), (300, 20), (3_541, 100), (9_000, 60)])
def test_no_rank_raises_the_likelihood(n, m, replacement):
    protocol = Protocol(n, m, replacement=replacement)
    counts = a_log(protocol, seed=n)
    fitted = maximum_likelihood(counts, protocol)
    pmf, mass = dense_law(protocol), full(fitted, n)
    assert mass.sum() == pytest.approx(1)
    np.testing.assert_allclose(mass @ pmf, fitted.marginal, atol=1e-12)
    assert fitted.log_likelihood == pytest.approx(counts @ np.log(mass @ pmf))
    # The derivative towards each rank, per user, bounds what any mixture of them could gain.
    slope = pmf @ (counts / (mass @ pmf)) / counts.sum() - 1
    assert slope.max() < 1e-6
    assert slope.max() == pytest.approx(fitted.gap, abs=1e-9)
    assert fitted.certified
    assert len(fitted.mass) <= m + 1


def test_a_law_that_some_ranks_have_is_fitted_exactly():
    protocol = Protocol(200, 6)
    pmf = protocol.pmf([1, 60, 150]).T @ [0.5, 0.3, 0.2]
    fitted = maximum_likelihood(1_000 * pmf, protocol)
    np.testing.assert_allclose(fitted.marginal, pmf, atol=1e-7)
    assert fitted.log_likelihood == pytest.approx(1_000 * pmf @ np.log(pmf))
    assert plug_in(fitted.mass, "auc", 200) == pytest.approx(
        metric("auc")([1, 60, 150], n_items=200) @ [0.5, 0.3, 0.2]
    )


def test_first_and_last_places_come_from_the_first_and_the_last_rank():
    fitted = maximum_likelihood([9, 0, 1], Protocol(50, 2))
    assert fitted.mass == pytest.approx({1: 0.9, 50: 0.1})


@pytest.mark.parametrize("replacement", [True, False])
def test_a_general_optimiser_finds_the_same_entropy(replacement):
    protocol, counts, weight = (
        Protocol(8, 3, replacement=replacement),
        np.array([7.0, 0.0, 4.0, 1.0]),
        5.0,
    )
    pmf, is_seen = dense_law(protocol), counts > 0

    def criterion(mass):
        q = (mass @ pmf)[is_seen]
        return -(counts[is_seen] @ np.log(q)) + weight * mass @ np.log(mass)

    optimum = minimize(
        criterion,
        np.full(8, 1 / 8),
        bounds=[(1e-12, 1)] * 8,
        constraints={"type": "eq", "fun": lambda mass: mass.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1_000},
    )
    fitted = maximum_entropy(counts, protocol, weight)
    assert criterion(fitted.mass) <= optimum.fun + 1e-10
    np.testing.assert_allclose(fitted.mass, optimum.x, atol=1e-5)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "m"), [(300, 20), (3_541, 100), (9_000, 60)])
@pytest.mark.parametrize("weight", [0.5, None])
def test_the_entropy_has_its_exponential_form(n, m, replacement, weight):
    protocol = Protocol(n, m, replacement=replacement)
    counts = a_log(protocol, seed=n)
    fitted = maximum_entropy(counts, protocol, weight)
    pmf = dense_law(protocol)
    np.testing.assert_allclose(fitted.mass @ pmf, fitted.marginal, atol=1e-12)
    # A concave criterion whose derivatives towards all ranks are equal is at its maximum.
    with np.errstate(divide="ignore"):
        slope = pmf @ (counts / fitted.marginal) - (weight or np.sqrt(500)) * np.log(fitted.mass)
    likely = fitted.mass > 1e-6
    np.testing.assert_allclose(slope[likely], slope[likely].mean(), atol=0.2)
    assert fitted.certified
    assert fitted.mass.sum() == pytest.approx(1)


def test_weight_goes_from_the_likeliest_to_the_most_even():
    protocol = Protocol(300, 20)
    counts = a_log(protocol, seed=4)
    best = maximum_likelihood(counts, protocol).log_likelihood
    weights = [1e-3, 1.0, 30.0, 1e3, 1e6]
    fits = [maximum_entropy(counts, protocol, weight) for weight in weights]
    likelihoods = [fitted.log_likelihood for fitted in fits]
    assert (np.diff(likelihoods) < 0).all()
    assert best - 0.05 < likelihoods[0] < best
    np.testing.assert_allclose(fits[-1].mass, 1 / 300, rtol=0.01)


def test_uniform_ranks_are_recognised():
    protocol = Protocol(300, 20)
    fitted = maximum_entropy(1_000 * dense_law(protocol).mean(axis=0), protocol)
    np.testing.assert_allclose(fitted.mass, 1 / 300, rtol=1e-5)


def test_several_relevant_items_have_the_law_of_one_among_the_irrelevant():
    counts = [40, 8, 3, 1]
    several, single = Protocol(52, 3, n_relevant=3), Protocol(50, 3)
    assert maximum_likelihood(counts, several).mass == maximum_likelihood(counts, single).mass
    # The third of three at rank 2 among the irrelevant is at rank 4 of all.
    estimate = plug_in({2: 1.0}, "ap", 52, position=3, n_relevant=3)
    assert estimate == pytest.approx(metric("ap").term(4, position=3, n_relevant=3))


@pytest.mark.parametrize("fit", FITS)
def test_a_fit_is_a_prior_of_the_corrections(fit):
    protocol = Protocol(300, 20)
    counts = a_log(protocol, seed=5)
    fitted, recall = fit(counts, protocol), metric("recall@10")
    corrected = estimators.bias_variance(recall, protocol, 0.01, prior=fitted.mass)
    mass = full(fitted, 300)
    bias = mass @ corrected.bias(np.arange(1, 301))
    naive = mass @ estimators.naive(recall, protocol).bias(np.arange(1, 301))
    assert abs(bias) < 0.01 < abs(naive)


def test_a_fit_that_is_stopped_says_so(monkeypatch):
    for module in (priors, newton):
        monkeypatch.setattr(module, "_STEPS", 1)
    protocol = Protocol(300, 20)
    counts = a_log(protocol, seed=6)
    with pytest.warns(RuntimeWarning, match="maximum likelihood did not converge"):
        assert not maximum_likelihood(counts, protocol).certified
    with pytest.warns(RuntimeWarning, match="maximum entropy did not converge"):
        assert not maximum_entropy(counts, protocol).certified


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("counts", "protocol", "message"),
    [
        ([1, 2], Protocol(50, 2), r"counts must have shape \(3,\), got \(2,\)"),
        ([], Protocol(50, 2), r"counts must have shape \(3,\), got \(0,\)"),
        ([1, -2, 3], Protocol(50, 2), "counts must be finite numbers >= 0, got -2"),
        ([1, np.nan, 3], Protocol(50, 2), "counts must be finite numbers >= 0, got nan"),
        ([0, 0, 0], Protocol(50, 2), "at least one user"),
        (["x", 0, 0], Protocol(50, 2), "counts must be numbers"),
        ([1, 2, 3], Protocol([50, 60, 70], 2), "n_items must be one catalogue size"),
        (
            [1, 2, 3],
            [Protocol(50, 2)],
            "must be one Protocol, got list",
        ),
    ],
)
def test_bad_input_is_named(fit, counts, protocol, message):
    with pytest.raises(ValueError, match=message):
        fit(counts, protocol)


@pytest.mark.parametrize("weight", [0, -1, np.nan, np.inf, "much"])
def test_a_weight_is_a_positive_number(weight):
    with pytest.raises(ValueError, match="weight must be a finite number > 0"):
        maximum_entropy([1, 2, 3], Protocol(50, 2), weight)


@given(
    st.lists(st.floats(1e-3, 1e6) | st.just(0.0), min_size=4, max_size=4).filter(sum),
    st.sampled_from(FITS),
    st.integers(5, 60),
    st.booleans(),
)
def test_any_counts_are_fitted(counts, fit, n, replacement):
    fitted = fit(counts, Protocol(n, 3, replacement=replacement))
    assert fitted.gap < 0.1 * priors.CERTIFIED
    mass = full(fitted, n)
    assert (mass >= 0).all()
    assert mass.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("counts", "protocol"),
    [
        ([501_520.02734375, 0.001, 1.25, 1.0], Protocol(5, 3, replacement=False)),
        (
            [501522.1638805411, 0.06850393977241062, 0.014702078536853458, 0.08661593102249021],
            Protocol(17, 3),
        ),
        (
            [
                0.21112552610764349,
                0.002356013378009098,
                0.008525192384142887,
                0.0,
                0.0,
                758683.998521019,
            ],
            Protocol(22, 5),
        ),
        ([0.09094396042040722, 0.0, 0.009879641702877945, 842760.2368752633], Protocol(5, 3)),
    ],
)
def test_few_users_beside_a_million_are_fitted_although_the_likelihood_hardly_moves(
    counts, protocol
):
    fitted = maximum_likelihood(counts, protocol)
    # The share of each sampled rank is fitted to as many digits as that of the others.
    pmf, mass = dense_law(protocol), full(fitted, protocol.n_items)
    slope = pmf @ np.divide(counts, mass @ pmf, out=np.zeros(len(counts)), where=mass @ pmf > 0)
    assert slope.max() / sum(counts) - 1 < 1e-9
    assert fitted.gap < 1e-9


def test_a_gap_of_more_than_a_tenth_of_what_is_certified_is_reported():
    given = {1: 1.0}, np.array([3.0, 0.0]), np.array([1.0, 0.0])
    assert priors._fitted(*given, 0.09e-6, "maximum likelihood").certified
    with pytest.warns(RuntimeWarning, match="did not converge"):
        assert priors._fitted(*given, 0.11e-6, "maximum likelihood").certified


@pytest.mark.parametrize("m", [47, 48, 49])
def test_the_likeliest_ranks_are_the_sampled_ones_where_nearly_all_negatives_are_drawn(m):
    counts = np.zeros(m + 1)
    counts[[0, 3, 10, m - 2]] = 1, 2, 1, 1
    fitted = maximum_likelihood(counts, Protocol(50, m, replacement=False))
    assert fitted.gap < 1e-6
    if m == 49:
        assert fitted.mass == pytest.approx({1: 0.2, 4: 0.4, 11: 0.2, 48: 0.2})

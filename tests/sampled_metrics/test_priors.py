"""Fitted rank distributions against general optimisers and what must hold at an optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sampled_metrics import Protocol, metric
from sampled_metrics.numerics import newton
from sampled_metrics.priors import maximum_entropy
from tests.reference import plug_in


def dense_law(protocol):
    return protocol.pmf(np.arange(1, protocol.n_items + 1))


def a_log(protocol, seed, users=500):
    rng = np.random.default_rng(seed)
    ranks = 1 + (protocol.n_items * rng.beta(0.4, 2.0, size=users)).astype(int)
    drawn = protocol.draw(np.minimum(ranks, protocol.n_items), rng)
    return np.bincount(drawn - 1, minlength=protocol.n_negatives + 1)


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
    pmf, best = dense_law(protocol), np.full(300, 1 / 300)
    for _ in range(20_000):  # expectation maximisation (jin2021)
        best = best * (pmf @ (counts / (best @ pmf))) / counts.sum()
    best = counts @ np.log(best @ pmf)
    weights = [1e-3, 1.0, 30.0, 1e3, 1e6]
    fits = [maximum_entropy(counts, protocol, weight) for weight in weights]
    likelihoods = [fitted.log_likelihood for fitted in fits]
    assert (np.diff(likelihoods) < 0).all()
    assert likelihoods[0] == pytest.approx(best, abs=0.05)
    np.testing.assert_allclose(fits[-1].mass, 1 / 300, rtol=0.01)


def test_several_relevant_items_have_the_law_of_one_among_the_irrelevant():
    counts = [40, 8, 3, 1]
    several, single = Protocol(52, 3, n_relevant=3), Protocol(50, 3)
    fits = [maximum_entropy(counts, protocol).mass for protocol in (several, single)]
    np.testing.assert_array_equal(*fits)
    # The third of three at rank 2 among the irrelevant is at rank 4 of all.
    estimate = plug_in({2: 1.0}, "ap", 52, position=3, n_relevant=3)
    assert estimate == pytest.approx(metric("ap").term(4, position=3, n_relevant=3))


def test_a_fit_that_is_stopped_says_so(monkeypatch):
    monkeypatch.setattr(newton, "_STEPS", 1)
    protocol = Protocol(300, 20)
    counts = a_log(protocol, seed=6)
    with pytest.warns(RuntimeWarning, match="maximum entropy did not converge"):
        assert not maximum_entropy(counts, protocol).certified


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
        ([1, 2, 3], [Protocol(50, 2)], "must be one Protocol, got list"),
    ],
)
def test_bad_input_is_named(counts, protocol, message):
    with pytest.raises(ValueError, match=message):
        maximum_entropy(counts, protocol)


@pytest.mark.parametrize("weight", [0, -1, np.nan, np.inf, "much"])
def test_a_weight_is_a_positive_number(weight):
    with pytest.raises(ValueError, match="weight must be a finite number > 0"):
        maximum_entropy([1, 2, 3], Protocol(50, 2), weight)

"""Fits of a population against expectation maximization, and their derivatives."""

import numpy as np
import pytest

from sampled_book.experiments.populations import maximum_likelihood
from sampled_metrics import Protocol, estimators, metric
from tests.reference import plug_in
from tests.sampled_metrics.test_priors import a_log


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

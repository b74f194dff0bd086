"""The population under which a log is the most likely."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from sampled_metrics import Protocol
from sampled_metrics.numerics.mixtures import likeliest
from sampled_metrics.priors import FittedPrior

#: Smaller weights of a fit are rounding.
_ROUNDING = 1e-6


def maximum_likelihood(counts: ArrayLike, protocol: Protocol) -> FittedPrior:
    """The distribution of true ranks under which the observed sampled ranks are the most likely
    (jin2021, wang2007), by an interior-point method over all ranks; one catalogue size. The
    derivative at every rank bounds the remaining gain.

    >>> fitted = maximum_likelihood([9, 0, 1], Protocol(n_items=50, n_negatives=2))
    >>> fitted.mass[[0, 49]].round(6).tolist(), fitted.certified
    ([0.9, 0.1], True)
    """
    users = np.asarray(counts, dtype=float)
    shares, pmfs = users / users.sum(), protocol.pmf(np.arange(1, int(protocol.n_items) + 1))
    support, mass = np.arange(len(pmfs)), np.zeros(len(pmfs))
    for _ in range(2):  # once more without the ranks that rounding has left
        seen = pmfs[support][:, shares > 0]
        only = shares[np.newaxis, shares > 0]
        weights = likeliest(seen.T, only, np.zeros((1, len(seen))), 1e-11)[0]
        support, kept = support[weights > _ROUNDING], weights[weights > _ROUNDING]
    mass[support] = kept / kept.sum()
    q = mass @ pmfs
    gap = float((pmfs[:, shares > 0] @ (shares / np.where(q > 0, q, 1.0))[shares > 0]).max()) - 1.0
    return FittedPrior(mass, float(np.sum(xlogy(users, q))), gap, q)

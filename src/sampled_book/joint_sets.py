"""What the sampled ranks of a user's relevant items, taken together, leave possible.

:func:`sampled_metrics.identification.interval` judges the positions of several relevant items one
by one. Where catalogues are so small that all sets of true ranks can be listed, the sets
themselves are judged here: what that would gain.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from sampled_metrics import Protocol, metric
from sampled_metrics.identification import chance, interval, quantile
from sampled_metrics.metrics import Metric
from sampled_metrics.numerics.mixtures import likeliest

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def sets_and_laws(protocol: Protocol) -> tuple[Counts, Counts, Array]:
    """All sets of true ranks, all outcomes, and the probability of each outcome of each set.

    Both as the irrelevant items, or sampled negatives, above the best, second best, ... item.
    What falls between two neighbours is multinomial, or multivariate hypergeometric.

    Examples
    --------
    >>> sets, outcomes, law = sets_and_laws(Protocol(5, 1, n_relevant=2))
    >>> sets[4].tolist(), outcomes.tolist(), law[4].round(3).tolist()
    ([1, 1], [[0, 0], [0, 1], [1, 1]], [0.667, 0.0, 0.333])
    """
    assert isinstance(protocol.n_items, int)
    m, k = protocol.n_negatives, protocol.n_relevant
    pool = protocol.n_items - k
    sets, outcomes = (
        np.array(list(combinations_with_replacement(range(most + 1), k))) for most in (pool, m)
    )
    log = np.zeros((len(sets), len(outcomes)))
    gaps, drawn = np.diff(sets, prepend=0, append=pool), np.diff(outcomes, prepend=0, append=m)
    for gap, draws in zip(gaps.T[:, :, np.newaxis], drawn.T, strict=True):
        if protocol.replacement:
            log += xlogy(draws, gap / pool) - gammaln(draws + 1)
        else:
            ways = gammaln(gap + 1) - gammaln(draws + 1) - gammaln(np.maximum(gap - draws, 0) + 1)
            log += np.where(draws <= gap, ways, -np.inf)
    log += gammaln(m + 1)
    if not protocol.replacement:
        log -= gammaln(pool + 1) - gammaln(pool - m + 1)
    return sets, outcomes, np.exp(log)


def exact_values(of: Metric, sets: Counts, n_items: int) -> Array:
    """The exact metric of each set of true ranks, given as irrelevant items above."""
    k = sets.shape[1]
    terms = [of.term(sets[:, j] + j + 1, j + 1, k, n_items) for j in range(k)]
    return np.asarray(np.sum(terms, axis=0))


def joint_interval(
    law: Array, values: Array, counts: Array, threshold: float, slopes: int = 24
) -> tuple[float, float]:
    """The metrics whose joint deviance is at most a threshold, and maybe a few more.

    As :func:`sampled_metrics.identification.interval` has it, of all sets of ranks: one user more
    at the first outcome for the upper end, one fewer for the lower.

    Parameters
    ----------
    law : ndarray of float, shape (sets, outcomes)
    values : ndarray of float, shape (sets,)
        The exact metric of each set.
    counts : ndarray of float, shape (outcomes,)
        Users with each outcome.
    threshold : float
    slopes : int
        How many tangents of the deviance are tried; with more the ends come nearer to it.
    """
    ends = [float(values.min()), float(values.max())]
    for side, sign in enumerate((1.0, -1.0)):
        moved = counts.copy()
        moved[0] = max(moved[0] - sign, 0.0)
        users = moved.sum()
        shares = moved / users
        steep = sign * np.append(0.0, np.geomspace(2.0, 40.0 * np.sqrt(users), slopes))
        cost = np.multiply.outer(steep / (2.0 * users), values)
        many = steep.size
        weights, _ = likeliest(
            np.repeat(law.T[np.newaxis], many, axis=0),
            np.repeat(shares[np.newaxis], many, axis=0),
            cost,
            np.ones((many, 1, len(law))),
            np.ones((many, 1)),
            np.full(many, 1e-3 / (2.0 * users)),
        )
        expected = weights / weights.sum(axis=1, keepdims=True) @ law
        likelihood = np.log(expected) @ shares
        bound = (cost - (shares / expected) @ law.T).min(axis=1) + 1.0 - likelihood
        # Lines below the deviance, by the dual: as sure as the solver is near for slope 0 alone.
        reach = (threshold - 2.0 * users * (bound + likelihood[0]))[1:] / -steep[1:]
        ends[side] = max(ends[0], reach.max()) if sign > 0 else min(ends[1], reach.min())
    return ends[0], ends[1]


def populations(sets: Counts) -> dict[str, Array]:
    """Probabilities of all sets of true ranks: some that users may have."""
    ranks = sets + np.arange(1, sets.shape[1] + 1)
    falling = np.prod(1.0 / ranks, axis=1)
    given = {
        "fewer users further down": falling,
        "all sets equally likely": np.ones(len(sets)),
        "side by side": falling * np.exp(-0.7 * (ranks[:, -1] - ranks[:, 0])),
        "one first, the others last": np.exp(-0.5 * ranks[:, 0] + 0.3 * ranks[:, -1]),
    }
    return {name: weight / weight.sum() for name, weight in given.items()}


def widths(protocol: Protocol, metrics: list[str], users: float) -> pd.DataFrame:
    """Widths of 95% intervals at expected counts: of sets, and of positions one by one.

    Columns population, metric, exact, joint, sum (as :func:`interval` has it), and free: the same
    with the threshold of a single position.
    """
    sets, outcomes, law = sets_and_laws(protocol)
    k, threshold = protocol.n_relevant, quantile(0.95)
    assert isinstance(protocol.n_items, int)
    rows = []
    for population, mass in populations(sets).items():
        shares = mass @ law
        each = [np.bincount(outcomes[:, j], users * shares) for j in range(k)]
        for of in map(metric, metrics):
            values = exact_values(of, sets, protocol.n_items)
            low, high = joint_interval(law, values, users * shares, threshold)
            alone = 1.0 - chance(threshold / k)
            by_position = [interval(each, protocol, of, level) for level in (0.95, alone)]
            found = [float(mass @ values), high - low, *(one.high - one.low for one in by_position)]
            rows.append((population, of.label, *found))
    return pd.DataFrame(rows, columns=["population", "metric", "exact", "joint", "sum", "free"])

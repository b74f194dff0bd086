"""A prior over distributions of true ranks, learned from recommenders with known exact ranks.

The published corrections assume a distribution of the true ranks, or fit one to a single log
(jin2021, li2023). Here the laboratory learned, from the exact ranks of the benchmark's
recommenders, how such distributions differ between logs, and between the recommenders of a log.
The top of the sampled ranks updates this prior, and any metric is read off the posterior.

A distribution belongs to an exponential family. The density of rank r among n is
proportional to exp(log(n) B(z) theta / 9) / r, where z = log(r) / log(n) and B is a natural cubic
spline. Wherever B theta is linear in z, the density is a power of r. Recommender i of a log has
theta_i = mean + u + v_i, where u, of covariance `between`, is shared by the log, and v_i has the
covariance `within`. Both are normal. Models that read sequences, and those that rank by
popularity, have another mean. The fit is the joint posterior mode, and errors come from Laplace's
approximation around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from ._threads import one_thread
from ._validate import FloatArray, IntArray
from .metrics import Metric
from .numerics.distributions import log_pmf, spread_ties

#: Knots of the spline in log(r) / log(n); its value at the last is 0.
KNOTS = (0.0, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0)
#: Each rank up to the first number is a cell; then there are so many cells for each factor of e.
SINGLE_RANKS, CELLS_PER_FACTOR = 64, 22
#: log(n) at which the spline's coefficients have their own scale.
_LOG_ITEMS = 9.0
#: Sampled ranks that are counted one by one, at least and at most, and the negatives for each.
_FEWEST, _MOST, _NEGATIVES_PER_RANK = 3, 8, 20
#: Ratio of the largest to the smallest number of candidates that share a likelihood.
_BIN = 1.1
#: Newton's steps stop when they promise a smaller rise of the log-posterior.
_ENOUGH, _STEPS = 1e-12, 200
#: Replace probabilities, and values of metrics, that are 0.
_TINY, _LEAST = 1e-300, 1e-100


class Prior(NamedTuple):
    """How theta varies: its mean, and covariances between logs and within a log.

    `families` holds what a family of recommenders adds to the mean. The mean may have a row for
    each recommender of a log, as from :meth:`of`.
    """

    mean: FloatArray
    between: FloatArray
    within: FloatArray
    families: Mapping[str, FloatArray]

    def of(self, families: Sequence[str]) -> Prior:
        """The prior of recommenders of these families; of an unknown one it is that of the others.

        >>> learned().of(["sequential", ""]).mean.shape
        (2, 6)
        """
        added = [self.families.get(name, np.zeros(len(self.within))) for name in families]
        return self._replace(mean=self.mean + np.array(added))


@cache
def stored() -> Mapping[str, Any]:
    """The content of ``learned_prior.json``: the prior, and the sources behind it."""
    content = files("sampled_metrics").joinpath("data/learned_prior.json").read_text()
    loaded: Mapping[str, Any] = json.loads(content)
    return loaded


def learned(without: str = "") -> Prior:
    """The prior that the laboratory learned from the benchmark's sources, all or `without` one.

    Only the source of the bundled log can be left out.

    >>> learned().mean.size, learned("movielens").within.shape
    (6, (6, 6))
    """
    content = stored()["without"][without] if without else stored()
    return Prior(
        np.array(content["mean"]),
        _symmetric(content["between"]),
        _symmetric(content["within"]),
        {name: np.array(added) for name, added in content["families"].items()},
    )


def _symmetric(lower: Sequence[float]) -> FloatArray:
    """A symmetric matrix from the rows of its lower triangle."""
    size = len(KNOTS) - 1
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = lower
    return np.asarray(matrix + np.tril(matrix, -1).T)


# --- cells of ranks -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """Cells of true ranks among `items`: narrow at the top, of one width in log(rank) below.

    >>> Cells(100).first[-3:], Cells(100).last[-3:]
    (array([89, 94, 98]), array([ 93,  97, 100]))
    """

    items: int

    @cached_property
    def first(self) -> IntArray:
        """The first rank of each cell."""
        single = min(self.items, SINGLE_RANKS)
        factors = int(np.ceil(CELLS_PER_FACTOR * np.log(self.items / single)))
        growth = np.exp(np.arange(factors) / CELLS_PER_FACTOR)
        deep = np.unique(np.round((single + 1) * growth).astype(np.int64))
        return np.concatenate([np.arange(1, single + 1), deep[deep <= self.items]])

    @cached_property
    def last(self) -> IntArray:
        """The last rank of each cell."""
        return np.append(self.first[1:] - 1, self.items)

    @cached_property
    def rank(self) -> IntArray:
        """The rank that stands for the cell: the geometric mean of both ends, rounded."""
        return np.asarray(np.round(np.sqrt(self.first * self.last.astype(float))), dtype=np.int64)

    @cached_property
    def base(self) -> FloatArray:
        """The logarithm of the mass of each cell for theta = 0, up to a constant."""
        return np.asarray(np.log((self.last - self.first + 1.0) / self.rank))

    @cached_property
    def basis(self) -> FloatArray:
        """Scaled values of the spline for unit coefficients, (cells, 6)."""
        log_items = np.log(self.items)
        splines = natural_spline(np.log(self.rank) / log_items)
        return np.asarray(splines[:, :-1] * (log_items / _LOG_ITEMS))

    def masses(self, theta: FloatArray) -> FloatArray:
        """The distribution over cells for each row of theta, (rows, cells)."""
        logits = self.base + theta @ self.basis.T
        mass = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def values(self, metric: Metric) -> FloatArray:
        """The metric at each cell; a cell that holds the cut-off counts the part above it."""
        k = min(metric.cutoff or self.items, self.items)
        counted = np.clip((k - self.first + 1.0) / (self.last - self.first + 1.0), 0.0, 1.0)
        return np.asarray(metric.term(np.minimum(self.rank, k), n_items=self.items) * counted)


def natural_spline(z: FloatArray) -> FloatArray:
    """The cardinal natural cubic splines of `KNOTS` at z, (z.size, knots).

    Column j is the spline that is 1 at knot j and 0 at all others. `scipy.interpolate` has it, but
    takes longer to import than this takes to compute.

    >>> natural_spline(np.array([0.0, 0.3])).round(9).tolist()[1]
    [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """
    knots, eye = np.array(KNOTS), np.eye(len(KNOTS))
    gaps = np.diff(knots)
    slopes = np.diff(eye, axis=0) / gaps[:, np.newaxis]
    system = np.diag((gaps[:-1] + gaps[1:]) / 3.0)
    system += np.diag(gaps[1:-1] / 6.0, 1) + np.diag(gaps[1:-1] / 6.0, -1)
    bends = np.zeros_like(eye)  # second derivatives at the knots; 0 at both ends
    bends[1:-1] = np.linalg.solve(system, np.diff(slopes, axis=0))
    segment = np.clip(np.searchsorted(knots, z, side="right") - 1, 0, gaps.size - 1)
    gap = gaps[segment][:, np.newaxis]
    upper = (z - knots[segment])[:, np.newaxis] / gap
    lower = 1.0 - upper
    bent = (lower**3 - lower) * bends[segment] + (upper**3 - upper) * bends[segment + 1]
    return np.asarray(lower * eye[segment] + upper * eye[segment + 1] + bent * gap**2 / 6.0)


# --- counts of sampled ranks ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counts:
    """Users of each recommender by outcome, (recommenders, outcomes), and what leads to outcomes.

    An outcome is a sampled rank near the top, or "more", in a group of users with one number of
    negatives and about as many candidates. `likelihood` holds the probability of each outcome in
    its group, given the cell of the true rank, (outcomes, cells). `group` is that of each outcome.
    """

    names: Sequence[str]
    cells: Cells
    group: IntArray
    likelihood: FloatArray
    users: FloatArray


def counted(
    users: Mapping[str, FloatArray],
    better: IntArray,
    tied: IntArray,
    negatives: IntArray,
    candidates: IntArray,
    replacement: bool,
) -> Counts:
    """The counts of a log.

    `better`, `tied`, `negatives` and `candidates` describe kinds of row; `users` has, for each
    recommender, how many users have a row of each kind. Ties with negatives are shared evenly.

    >>> kinds = np.arange(21)
    >>> same = np.ones(21, int)
    >>> counts = counted({"A": 1.0 * same}, kinds, 0 * same, 20 * same, 500 * same, True)
    >>> counts.users
    array([[ 1.,  1.,  1., 18.]])
    """
    total = np.sum([*users.values()], axis=0)
    cells = Cells(round(float(total @ candidates) / float(total.sum())))
    bins = np.round(np.log(candidates / candidates.min()) / np.log(_BIN)).astype(np.int64)
    kinds, index = np.unique(np.stack([negatives, bins]), axis=1, return_inverse=True)
    groups, likelihoods, columns = [], [], []
    for group, m in enumerate(kinds[0].tolist()):
        rows = np.flatnonzero((index.ravel() == group) & (total > 0))
        if not rows.size:
            continue
        pool = round(float(total[rows] @ candidates[rows]) / float(total[rows].sum())) - 1
        k = ranks_counted(m)
        likelihoods.append(outcome_probabilities(cells, m, pool, replacement))
        groups += [group] * (k + 1)
        parts = [
            spread_ties(better[rows], tied[rows], part[rows], m + 1) for part in users.values()
        ]
        columns.append([[*part[:k], part[k:].sum()] for part in parts])
    return Counts(
        [*users], cells, np.array(groups), np.concatenate(likelihoods), np.hstack(columns)
    )


def ranks_counted(negatives: int) -> int:
    """How many sampled ranks are counted one by one: a twentieth of the negatives, 3 to 8.

    Deeper ones say nothing of the top and would bend the curve there.

    >>> [ranks_counted(m) for m in (2, 20, 100, 1_000)]
    [2, 3, 5, 8]
    """
    return min(negatives, max(_FEWEST, min(_MOST, round(negatives / _NEGATIVES_PER_RANK))))


def outcome_probabilities(cells: Cells, negatives: int, pool: int, replacement: bool) -> FloatArray:
    """Probabilities of the sampled ranks 1 to k and of "more", given each cell, (k + 1, cells)."""
    above = np.minimum(cells.rank - 1, pool)
    x = np.arange(ranks_counted(negatives))[:, np.newaxis]
    draws = negatives if replacement else min(negatives, pool)
    top = np.exp(log_pmf(x, np.array(draws), above, np.array(pool), replacement))
    return np.concatenate([top, np.maximum(1.0 - top.sum(axis=0, keepdims=True), 0.0)])


# --- the posterior --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Posterior:
    """The joint posterior of the recommenders of a log, normal around its mode.

    `theta` (recommenders, 6) and `shared` (6) are the modes of theta_i and u. Given u, theta_i has
    the covariance `conditional[i]` and moves with u by `response[i]`; u has `shared_covariance`.
    """

    counts: Counts
    theta: FloatArray
    shared: FloatArray
    conditional: FloatArray
    response: FloatArray
    shared_covariance: FloatArray

    def logarithms(self, metric: Metric) -> tuple[FloatArray, FloatArray]:
        """The logarithm of the estimate for each recommender, and the covariance of their errors.

        The estimate of the mean over the log's own users is the mean of the metric given each
        user's outcome, at the mode of theta, divided by 1 + variance of its logarithm: at the mode
        it is too large by about this factor. The error has a second part, the variance of users'
        metrics given their outcomes. An estimate is 0, without an error, where no outcome that a
        user has could come from a rank that counts.
        """
        counts, cells = self.counts, self.counts.cells
        masses, value = cells.masses(self.theta), cells.values(metric)
        shares = counts.users / counts.users.sum(axis=1, keepdims=True)
        marginal = np.maximum(masses @ counts.likelihood.T, _TINY)
        mean, square = (
            (masses * part) @ counts.likelihood.T / marginal for part in (value, value**2)
        )
        level = np.einsum("io,io->i", shares, mean)
        log_level = np.log(level, where=level > 0, out=np.full_like(level, -np.inf))
        level = np.maximum(level, _LEAST)
        # d mean / d theta is the covariance of the metric and the basis given the outcome.
        weight = shares / marginal
        slope_by_cell = masses * (
            (weight @ counts.likelihood) * value - (weight * mean) @ counts.likelihood
        )
        slope = slope_by_cell @ cells.basis / level[:, np.newaxis]
        pulled = np.einsum("ij,ijk->ik", slope, self.response)
        covariance = pulled @ self.shared_covariance @ pulled.T
        diagonal = np.diag_indices_from(covariance)
        covariance[diagonal] += np.einsum("ij,ijk,ik->i", slope, self.conditional, slope)
        log_estimate = log_level - np.log1p(covariance[diagonal])
        spread = np.einsum("io,io->i", shares, np.maximum(square - mean**2, 0.0))
        covariance[diagonal] += spread / counts.users.sum(axis=1) / level**2
        return log_estimate, covariance


def log_posterior(
    counts: Counts, prior: Prior, theta: FloatArray, shared: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """The logarithm of the posterior up to a constant; and, for each recommender, the gradient of
    its log-likelihood, (recommenders, 6), and its expected information, (recommenders, 6, 6).
    """
    cells = counts.cells
    masses = cells.masses(theta)
    marginal = np.maximum(masses @ counts.likelihood.T, _TINY)
    products = masses[:, np.newaxis] * cells.basis.T
    slopes = products @ counts.likelihood.T
    slopes -= products.sum(axis=2)[:, :, np.newaxis] * marginal[:, np.newaxis]
    relative = slopes / marginal[:, np.newaxis]
    gradient = np.einsum("io,ijo->ij", counts.users, relative)
    group_users = np.zeros((len(theta), int(counts.group.max()) + 1))
    for outcome, group in enumerate(counts.group.tolist()):
        group_users[:, group] += counts.users[:, outcome]
    expected = group_users[:, counts.group] * marginal
    information = (relative * expected[:, np.newaxis]) @ relative.transpose(0, 2, 1)
    deviation = theta - prior.mean - shared
    value = float((counts.users * np.log(marginal)).sum())
    value -= 0.5 * float(np.einsum("ij,jk,ik->", deviation, np.linalg.inv(prior.within), deviation))
    value -= 0.5 * float(shared @ np.linalg.solve(prior.between, shared))
    return value, gradient, information


class Step(NamedTuple):
    """A Newton step of all theta and of u; and the posterior's parts, as in :class:`Posterior`."""

    theta: FloatArray
    shared: FloatArray
    promised: float
    conditional: FloatArray
    response: FloatArray
    shared_covariance: FloatArray


def newton_step(
    prior: Prior,
    theta: FloatArray,
    shared: FloatArray,
    gradient: FloatArray,
    information: FloatArray,
) -> Step:
    """A step for the log-posterior, from the gradient and information of the log-likelihoods.

    Given u the recommenders are independent, so that u is eliminated first.
    """
    within, between = np.linalg.inv(prior.within), np.linalg.inv(prior.between)
    pull = (theta - prior.mean - shared) @ within
    conditional = np.linalg.inv(information + within)
    response = conditional @ within
    slope, shared_slope = gradient - pull, pull.sum(axis=0) - between @ shared
    precision = between + len(theta) * within - within @ response.sum(axis=0)
    shared_covariance = np.linalg.inv(precision)
    joint_slope = shared_slope + np.einsum("ijk,ij->k", response, slope)
    shared_step = shared_covariance @ joint_slope
    step = np.einsum("ijk,ik->ij", conditional, slope) + response @ shared_step
    promised = float((slope * step).sum() + shared_slope @ shared_step)
    return Step(step, shared_step, promised, conditional, response, shared_covariance)


@one_thread
def fit(counts: Counts, prior: Prior) -> Posterior:
    """The joint posterior mode of all recommenders of a log, by Fisher scoring."""
    shared = np.zeros(len(prior.within))
    theta = prior.mean + np.zeros((len(counts.users), shared.size))
    value, *slopes = log_posterior(counts, prior, theta, shared)
    for _ in range(_STEPS):
        step = newton_step(prior, theta, shared, *slopes)
        size = 1.0
        while step.promised > _ENOUGH and size > 1e-6:
            moved = theta + size * step.theta, shared + size * step.shared
            new_value, *new_slopes = log_posterior(counts, prior, *moved)
            if new_value >= value + 1e-4 * size * step.promised:
                break
            size *= 0.5
        else:
            break
        (theta, shared), value, slopes = moved, new_value, new_slopes
    return Posterior(counts, theta, shared, *step[3:])

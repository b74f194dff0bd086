"""Distributions of the true ranks, fitted to the sampled ranks.

Instead of correcting each metric, fit a distribution of the true ranks and read any metric off it
(li2020, jin2021), or give it to a correction as a prior. Among the many distributions that fit,
maximum entropy picks one close to uniform.
"""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, xlogy

from ._threads import one_thread
from ._validate import FloatArray, IntArray, as_intp, as_written, user_counts
from .numerics.all_ranks import AllRanks, all_ranks
from .numerics.newton import damped_newton
from .numerics.quadrature import all_ranks as quadrature_ranks
from .protocol import Protocol, one_size

#: A fit is certified if no distribution has a criterion better by this much, per user.
CERTIFIED = 1e-6
#: A larger gap is warned of; smaller than `CERTIFIED` to allow for the rounding of other
#: processors.
_REPORTED = 0.1 * CERTIFIED
#: Gap at which iterations stop.
_ENOUGH = 1e-10
#: Replaces probabilities that rounding made 0 or negative.
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class FittedPrior:
    """A distribution of the true ranks that was fitted to sampled ranks.

    Attributes
    ----------
    mass : ndarray of float, shape (n_ranks,)
        Probability of every rank; can be a `prior` in ``estimators``.
    log_likelihood : float
        Of the observed outcomes, in nats, summed over the users.
    gap : float
        No distribution has a criterion that is larger by more than this, per user and in nats.
    marginal : ndarray of float, shape (m + 1,)
        The distribution of the sampled rank under `mass`.

    See Also
    --------
    maximum_entropy : Computes it.

    Examples
    --------
    >>> from sampled_metrics import Protocol
    >>> fitted = maximum_entropy([9, 0, 1], Protocol(n_items=50, n_negatives=2))
    >>> fitted.certified, fitted.marginal.round(3)
    (True, array([0.645, 0.211, 0.145]))
    """

    mass: FloatArray
    log_likelihood: float
    gap: float
    marginal: FloatArray = field(repr=False)

    @property
    def certified(self) -> bool:
        """Whether the gap is below 1e-6."""
        return self.gap < CERTIFIED


@one_thread
def maximum_entropy(
    counts: ArrayLike, protocol: Protocol, weight: float | None = None
) -> FittedPrior:
    r"""The most even distribution of true ranks that still makes the sampled ranks likely.

    It maximises the log-likelihood of the sample plus `weight` times the entropy, both in nats. The
    dual problem is smooth and convex in one multiplier for each observed outcome x,

    .. math:: p(r) \propto \exp\Big(\sum_x \lambda_x P(r, x)\Big), \qquad
              \lambda_x = \frac{c_x}{w\, (pP)_x},

    and is solved by Newton's method with sums over all ranks; the duality gap certifies the fit.
    (jin2021 takes squared distances from the observed shares instead of the likelihood.)

    Parameters
    ----------
    counts : array_like of float, shape (m + 1,)
        Users with 0, 1, ..., m sampled negatives above the item; they may be fractions.
    protocol : Protocol
        With one catalogue size. With several relevant items the counts are those of any one of
        them, and a rank counts the irrelevant items only: it runs over ``1..n - n_relevant + 1``.
    weight : float, optional
        Weight of the entropy, above 0 and finite; the square root of the number of users if
        omitted. A small weight approaches the likeliest distribution; one of the order of the
        number of users ignores the sample.

    Returns
    -------
    FittedPrior
        Its `mass` has a probability for each rank.

    Raises
    ------
    ValueError
        If `weight` is not above 0 and finite, the counts are negative, not finite, all zero or not
        m + 1, or there are several catalogue sizes.

    Warns
    -----
    RuntimeWarning
        If the gap could not be brought below 1e-7.

    See Also
    --------
    sampled_metrics.estimators.bias_variance : Takes it as a prior.

    Examples
    --------
    >>> from sampled_metrics import Protocol
    >>> fitted = maximum_entropy([900, 60, 40], Protocol(n_items=50, n_negatives=2))
    >>> fitted.mass.shape, fitted.certified, fitted.mass[[0, 9, 49]].round(3)
    ((50,), True, array([0.312, 0.011, 0.009]))
    """
    observed_counts, all_pmfs = _observed(counts, protocol)
    users = float(observed_counts.sum())
    if weight is None:
        weight = float(np.sqrt(users))
    if not isinstance(weight, numbers.Real) or not 0 < weight < np.inf:
        raise ValueError(f"weight must be a finite number > 0, got {as_written(weight)}")
    observed = np.flatnonzero(observed_counts)
    outcome_shares, pmfs = observed_counts[observed] / users, all_pmfs.only(observed)
    # Warm starts along a path of decreasing weights.
    path = np.geomspace(max(users, weight), weight, int(np.log10(max(users / weight, 1.0))) + 2)
    multipliers = np.ones(observed.size)
    # Most steps use quadrature; the last step and the certificate use all ranks.
    quadrature = _Quadrature.of(pmfs)
    for step in path:
        multipliers, mass, gap = _tilted(
            quadrature, outcome_shares, users / float(step), multipliers, 1e-3
        )
    multipliers, mass, gap = _tilted(
        quadrature, outcome_shares, users / weight, multipliers, _ENOUGH, last=True
    )
    if isinstance(quadrature, _Quadrature):
        multipliers, mass, gap = _tilted(pmfs, outcome_shares, users / weight, multipliers, _ENOUGH)
    q = np.maximum(all_pmfs.marginal(mass), 0.0)
    return _fitted(mass, observed_counts, q, gap * float(weight) / users)


class Expansion:
    r"""First-order influence of the sampled ranks on a fit of maximum entropy.

    By implicit differentiation of :math:`\lambda_x q_x = c_x / w` at a fixed number of users.
    `ranks`, `mass` and `rows` are the fit condensed by :func:`condensed`, and P at its ranks.

    >>> from sampled_metrics import Protocol
    >>> counts, protocol = np.array([900.0, 60, 40]), Protocol(n_items=50, n_negatives=2)
    >>> moves = Expansion(maximum_entropy(counts, protocol), counts, protocol)
    >>> moves.influence((moves.ranks == 1).astype(float)).round(3)
    array([ 0.167, -2.438, -0.096])
    """

    def __init__(
        self,
        fitted: FittedPrior,
        counts: ArrayLike,
        protocol: Protocol,
        weight: float | None = None,
    ) -> None:
        observed_counts, pmfs = _observed(counts, protocol)
        users = float(observed_counts.sum())
        self._seen = observed_counts / users
        self._worth = float(np.sqrt(users)) if weight is None else users / weight
        self.ranks, self.mass = condensed(fitted.mass)
        self.rows = rows = pmfs.rows(self.ranks - 1)
        q = self.mass @ rows
        # Posterior of the true rank given each outcome, and the outcomes that it predicts.
        self._from = np.divide((rows.T * self.mass), q[:, np.newaxis], where=q[:, np.newaxis] > 0,
                               out=np.zeros(rows.T.shape))  # fmt: skip
        leads = self._from @ rows - np.outer(q > 0, q)
        ratio = np.divide(self._seen, q, out=np.zeros_like(q), where=self._seen > 0)
        self._system = np.eye(q.size) + self._worth * leads * ratio

    def influence(self, target: FloatArray) -> FloatArray:
        """Derivative of the sum of `mass` times `target` in the share of each sampled rank.

        `target` (k,) or (k, several) at `ranks`; returns (m + 1,) or (m + 1, several) with mean 0
        over users.
        """
        derivative = np.linalg.solve(
            self._system, self._worth * (self._from @ (target - self.mass @ target))
        )
        return np.asarray(derivative - self._seen @ derivative)


def condensed(mass: FloatArray) -> tuple[IntArray, FloatArray]:
    """Merge ranks beyond the first 1,023 into bins of one percent; returns ranks and shares.

    >>> ranks, shares = condensed(np.full(5_000, 1 / 5_000))
    >>> ranks.size, int(ranks[1_022]), float(shares.sum().round(12))
    (1182, 1023, 1.0)
    """
    ranks = np.arange(1.0, mass.size + 1)
    bucket = as_intp(np.where(ranks <= 1024, ranks, 1024 + np.floor(np.log(ranks / 1024) * 100)))
    share = np.bincount(bucket, mass)
    middle = np.bincount(bucket, mass * ranks)[share > 0] / share[share > 0]
    return np.round(middle).astype(np.int64), share[share > 0] / share.sum()


@dataclass(frozen=True, eq=False)
class _Quadrature:
    """P at a few ranks, with quadrature weights."""

    matrix: FloatArray
    log_weights: FloatArray

    @staticmethod
    def of(pmfs: AllRanks) -> _Quadrature | AllRanks:
        """Quadrature for P at all ranks, or P itself if that saves nothing.

        The rule is for three times the degree: exponentials of the polynomials are steeper than
        these.
        """
        nodes, weights = quadrature_ranks(pmfs.pool + 1, 3 * pmfs.degree)
        if 2 * nodes.size > pmfs.pool:
            return pmfs
        return _Quadrature(pmfs.design.rows(nodes - 1.0)[:, pmfs.columns], np.log(weights))

    def expected(self, values: FloatArray) -> FloatArray:
        return np.asarray(self.matrix @ values)

    def marginal(self, mass: FloatArray) -> FloatArray:
        return np.asarray(mass @ self.matrix)

    def products(self, mass: FloatArray) -> FloatArray:
        rows = self.matrix * np.sqrt(mass)[:, np.newaxis]
        return np.asarray(rows.T @ rows)


def _tilted(
    pmfs: AllRanks | _Quadrature,
    outcome_shares: FloatArray,
    worth: float,
    start: FloatArray,
    tolerance: float,
    last: bool = False,
) -> tuple[FloatArray, FloatArray, float]:
    """Minimise the dual of entropy plus `worth` times the log-likelihood per user.

    Returns multipliers in units of `worth`, masses, and the duality gap. The gap is quadratic in
    the errors of the masses, so `last` adds one Newton step once it is below `tolerance`.
    """
    log_weights = pmfs.log_weights if isinstance(pmfs, _Quadrature) else 0.0
    gap, is_near = np.inf, False

    def dual(x: FloatArray) -> tuple[float, FloatArray]:
        tilt = worth * pmfs.expected(x) + log_weights
        top = float(tilt.max())
        mass = np.exp(tilt - top)
        total = float(mass.sum())
        barrier = worth * float(outcome_shares @ np.log(outcome_shares / x)) - worth
        return top + float(np.log(total)) + barrier, mass / total

    def slopes(x: FloatArray, value: float, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = np.maximum(pmfs.marginal(mass), _TINY)
        nonlocal gap, is_near
        entropy = float(np.sum(entr(mass) + mass * log_weights))
        gap = value - entropy - worth * float(outcome_shares @ np.log(q))
        is_near = gap < tolerance * worth
        covariance = pmfs.products(mass) - np.outer(q, q)
        hessian = worth**2 * covariance + np.diag(worth * outcome_shares / x**2)
        return (q - outcome_shares / x) * worth, hessian

    def unless_near(
        x: FloatArray, value: float, mass: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        derivatives = slopes(x, value, mass)
        return None if is_near else derivatives

    multipliers, value, mass = damped_newton(dual, unless_near, start, 1e-14 * worth, positive=True)
    if last and is_near:
        gradient, hessian = slopes(multipliers, value, mass)
        refined = multipliers - np.linalg.solve(hessian, gradient)
        if (refined > 0).all():
            multipliers = refined
            value, mass = dual(multipliers)
            slopes(multipliers, value, mass)  # for the gap
    return multipliers, mass, max(gap, 0.0)


def _observed(counts: ArrayLike, protocol: Protocol) -> tuple[FloatArray, AllRanks]:
    """The checked counts of the outcomes, and P at all ranks."""
    if not isinstance(protocol, Protocol):
        name = type(protocol).__name__
        raise ValueError(f"protocol must be one Protocol, got {name}")
    one_size(protocol)
    users = user_counts(counts)
    if users.shape != (protocol.n_outcomes,):
        raise ValueError(f"counts must have shape ({protocol.n_outcomes},), got {users.shape}")
    if not users.any():
        raise ValueError("counts must hold at least one user, got none")
    return users, all_ranks(protocol)


def _fitted(mass: FloatArray, counts: FloatArray, q: FloatArray, gap: float) -> FittedPrior:
    if gap >= _REPORTED:
        warnings.warn(
            "maximum entropy did not converge: the criterion may be "
            f"{gap:.1g} nats a user below the best",
            RuntimeWarning,
            stacklevel=3,
        )
    return FittedPrior(mass, float(np.sum(xlogy(counts, q))), gap, q)

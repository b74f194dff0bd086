"""The distribution of the true ranks, fitted to the sampled ranks themselves.

Instead of a correction for each metric, a distribution of the true ranks can be fitted to what
the sample shows and any metric read off it (li2020, jin2021), or be given to a correction as its
prior. Among the many distributions that fit, maximum likelihood picks the most likely, which has
few ranks, and maximum entropy the one that is closest to all ranks being alike.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ._threads import one_thread
from ._validate import FloatArray, IntArray, as_written, integer
from .bounds.identification import checked_counts
from .metrics import Metric
from .metrics import metric as parsed
from .numerics import distributions
from .numerics.all_ranks import AllRanks, all_ranks, local_maxima, spread
from .numerics.quadrature import all_ranks as quadrature_ranks
from .protocol import Protocol

#: A fit is certified if no distribution has a criterion better by this much, per user.
CERTIFIED = 1e-6
#: A larger gap is reported. A tenth, so that another processor's rounding leaves a fit certified.
_REPORTED = 0.1 * CERTIFIED
#: Where the iterations stop: they converge quadratically, and end in rounding.
_ENOUGH, _STEPS = 1e-10, 200
#: Below this a rise of the log-likelihood per user is rounding; so many steps may then follow
#: without a smaller gap.
_ROUNDING, _PATIENCE = 1e-15, 10
#: Below any probability that matters, and above what rounding leaves of zero.
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class FittedPrior:
    """A distribution of the true ranks.

    Attributes
    ----------
    mass : dict of int to float, or ndarray of float
        Probability of each rank that has any, or of each of the ranks; either is taken as
        `prior` by :mod:`sampled_metrics.estimators`.
    log_likelihood : float
        Of the sampled ranks, in nats: the sum over the users of the logarithm of the
        probability of their sampled rank.
    gap : float
        No distribution has a criterion, per user and in nats, that is larger by more than this.
    marginal : ndarray of float, shape (m + 1,)
        The law of the sampled rank that the distribution leads to.

    Examples
    --------
    >>> fitted = maximum_likelihood([9, 0, 1], Protocol(n_items=50, n_negatives=2))
    >>> fitted.certified, fitted.marginal.round(3)
    (True, array([0.9, 0. , 0.1]))
    """

    mass: dict[int, float] | FloatArray
    log_likelihood: float
    gap: float
    marginal: FloatArray = field(repr=False)

    @property
    def certified(self) -> bool:
        """Whether the gap is below 1e-6."""
        return self.gap < CERTIFIED


@one_thread
def maximum_likelihood(counts: ArrayLike, protocol: Protocol) -> FittedPrior:
    """The distribution of true ranks under which the observed sampled ranks are the most likely.

    The likelihood of a mixture is concave in the mixing distribution, and the best one has at
    most m + 1 ranks. Ranks at which the likelihood would rise the most are added, and all
    masses moved together by a Newton step whose quadratic problem is solved exactly (wang2007).
    The derivative towards every rank of the catalogue bounds what is left to gain.

    Parameters
    ----------
    counts : array_like of float, shape (m + 1,)
        Users with 0, 1, ..., m sampled negatives above the item; they may be fractions.
    protocol : Protocol
        With one catalogue size. With several relevant items the law is that of any one of them,
        and a rank counts the irrelevant items only: it runs over ``1..n - n_relevant + 1``.

    Returns
    -------
    FittedPrior

    Raises
    ------
    ValueError
        If the counts are negative, not finite, all zero or not m + 1, or there are several
        catalogue sizes.

    Warns
    -----
    RuntimeWarning
        If the gap could not be brought below 1e-7.

    Examples
    --------
    >>> fitted = maximum_likelihood([9, 0, 1], Protocol(n_items=50, n_negatives=2))
    >>> {rank: round(mass, 6) for rank, mass in fitted.mass.items()}
    {1: 0.9, 50: 0.1}
    """
    seen, law = _observed(counts, protocol)
    above = spread(law)[:: max(1, int(np.sqrt(law.m)) // 2)]
    above = np.union1d(above, [0, law.pool])
    # With nearly all negatives drawn few ranks, or one alone, lead to a sampled rank.
    never = np.flatnonzero((seen > 0) & (law.rows(above).max(axis=0) < 1e-200))
    above = np.union1d(above, np.round(never * (law.pool / law.m)).astype(np.int64))
    mass = np.full(above.size, 1.0 / above.size)
    best, waited = (np.inf, above, mass, seen), 0
    for _ in range(_STEPS):
        q = mass @ law.rows(above)
        slope = law.expected(_ratio(seen, q))
        gap = float(slope.max()) - 1.0
        waited = 0 if gap < best[0] else waited + 1
        if gap < best[0]:
            best = gap, above, mass, q
        if gap < _ENOUGH or waited == _PATIENCE:
            break
        new = np.setdiff1d(local_maxima(slope, 1.0), above)
        above, mass = np.append(above, new), np.append(mass, np.zeros(new.size))
        moved, seen_to_rise = _newton(law.rows(above), mass, seen)
        if moved is None:
            break
        waited = 0 if seen_to_rise else waited
        above, mass = above[moved > 0], moved[moved > 0]
    gap, above, mass, q = best
    order = np.argsort(above)
    ranks, shares = (above[order] + 1).tolist(), (mass[order] / mass.sum()).tolist()
    return _fitted(dict(zip(ranks, shares, strict=True)), counts, q, gap, "maximum likelihood")


def _newton(rows: FloatArray, mass: FloatArray, seen: FloatArray) -> tuple[FloatArray | None, bool]:
    """One Newton step for the masses of the ranks with the laws `rows`.

    Returns the new masses, or None without a solution, and whether the likelihood was seen to rise.
    A few users among a million have less weight than the likelihood has rounding errors: near the
    best masses the whole step is returned, and its gap says whether it is better.
    """
    q = mass @ rows
    root = np.sqrt(seen)
    # Minus the second-order expansion of the log-likelihood, per user, is half a square, up to a
    # constant. Half the square of the sum of the masses keeps that at 1: its slope is 1 there,
    # and so is, at the best masses, the slope of the likelihood.
    system = (root / np.where(seen > 0, q, 1.0))[:, np.newaxis] * rows.T
    try:
        from scipy.optimize import nnls  # takes as long to import as all the rest

        best, _ = nnls(
            np.concatenate([system, np.ones((1, mass.size))]),
            np.append(2.0 * root, 0.0),
            maxiter=30 * mass.size,
        )
    except RuntimeError:
        return None, False
    best /= best.sum()
    # The change of each probability relative to it, so that no large likelihoods are subtracted.
    change = np.divide((best - mass) @ rows, q, out=np.zeros_like(q), where=seen > 0)
    rise, step = float(seen @ change), 1.0
    while step > 1e-10 and rise > _ROUNDING:
        with np.errstate(divide="ignore"):  # a whole step may leave out a sampled rank
            risen = float(seen @ np.log1p(step * change))
        if risen >= 0.3 * step * rise:
            return np.asarray((1.0 - step) * mass + step * best), True
        step *= 0.5
    # No sampled rank loses more than half of its probability.
    step = min(1.0, 0.5 / max(-float(change.min()), 0.5))
    return np.asarray((1.0 - step) * mass + step * best), False


@one_thread
def maximum_entropy(
    counts: ArrayLike, protocol: Protocol, weight: float | None = None
) -> FittedPrior:
    r"""The most even distribution of true ranks that still makes the sampled ranks likely.

    It maximises the log-likelihood of the sample plus `weight` times the entropy, both in nats.
    The dual problem is smooth and convex in one multiplier for each sampled rank that was seen,

    .. math:: p(r) \propto \exp\Big(\sum_x \lambda_x P(r, x)\Big), \qquad
              \lambda_x = \frac{c_x}{w\, (pP)_x},

    and is solved by Newton's method with sums over all ranks; the criterion's values at both
    ends certify the fit. (jin2021 takes squared distances from the observed shares instead of
    the likelihood.)

    Parameters
    ----------
    counts, protocol
        As for :func:`maximum_likelihood`.
    weight : float, optional
        Weight of the entropy beside the logarithm of the likelihood, above 0 and finite: the square
        root of the number of users if omitted. A small one gives the masses of maximum likelihood,
        smeared; one of the order of the number of users forgets the sample.

    Returns
    -------
    FittedPrior
        Its `mass` has a probability for each rank.

    Raises
    ------
    ValueError
        If `weight` is not above 0 and finite, or as :func:`maximum_likelihood`.

    Warns
    -----
    RuntimeWarning
        If the gap could not be brought below 1e-7.

    Examples
    --------
    >>> fitted = maximum_entropy([900, 60, 40], Protocol(n_items=50, n_negatives=2))
    >>> fitted.mass.shape, fitted.certified, fitted.mass[[0, 9, 49]].round(3)
    ((50,), True, array([0.312, 0.011, 0.009]))
    """
    seen, law = _observed(counts, protocol)
    users = float(np.sum(np.asarray(counts, dtype=float)))
    if weight is None:
        weight = float(np.sqrt(users))
    if not isinstance(weight, numbers.Real) or not 0 < weight < np.inf:
        raise ValueError(f"weight must be a finite number > 0, got {as_written(weight)}")
    # The weights of a path on which each solution is a good start for the next.
    path = np.geomspace(max(users, weight), weight, int(np.log10(max(users / weight, 1.0))) + 2)
    multipliers = np.where(seen > 0, 1.0, 0.0)
    # Nearly all the way with sums over few ranks, and the last step, and the proof, with all.
    few = _Quadrature.of(law)
    for step in path:
        multipliers, mass, gap = _tilted(few, seen, users / float(step), multipliers, 1e-3)
    multipliers, mass, gap = _tilted(few, seen, users / weight, multipliers, _ENOUGH, last=True)
    if isinstance(few, _Quadrature):
        multipliers, mass, gap = _tilted(law, seen, users / weight, multipliers, _ENOUGH)
    q = np.maximum(law.marginal(mass), 0.0)
    return _fitted(mass, counts, q, gap * float(weight) / users, "maximum entropy")


class Expansion:
    r"""How a fit of maximum entropy moves with the sampled ranks that it is fitted to.

    To first order, with the number of users kept: from the condition on the multipliers,
    :math:`\lambda_x q_x = c_x / w`, by implicit differentiation.

    Parameters
    ----------
    fitted : FittedPrior
        As :func:`maximum_entropy` returns it.
    counts, protocol, weight
        What it was fitted to.

    Attributes
    ----------
    ranks : ndarray of int, shape (k,)
        All of the first 1,023, and beyond them one in each percent.
    mass : ndarray of float, shape (k,)
        The fit, moved to these ranks.
    rows : ndarray of float, shape (k, m + 1)
        The distribution of the sampled rank at these ranks.

    Examples
    --------
    >>> counts, protocol = np.array([900.0, 60, 40]), Protocol(n_items=50, n_negatives=2)
    >>> moves = Expansion(maximum_entropy(counts, protocol), counts, protocol)
    >>> first = (moves.ranks == 1).astype(float)
    >>> moves.influence(first).round(3)
    array([ 0.167, -2.438, -0.096])
    """

    def __init__(
        self,
        fitted: FittedPrior,
        counts: ArrayLike,
        protocol: Protocol,
        weight: float | None = None,
    ) -> None:
        self._seen, law = _observed(counts, protocol)
        users = float(np.sum(np.asarray(counts, dtype=float)))
        self._worth = float(np.sqrt(users)) if weight is None else users / weight
        self.ranks, self.mass = condensed(np.asarray(fitted.mass))
        self.rows = rows = law.rows(self.ranks - 1)
        q = self.mass @ rows
        # The ranks that a sampled rank comes from, and how they lead to the others.
        self._from = np.divide((rows.T * self.mass), q[:, np.newaxis], where=q[:, np.newaxis] > 0,
                               out=np.zeros(rows.T.shape))  # fmt: skip
        leads = self._from @ rows - np.outer(q > 0, q)
        self._system = np.eye(q.size) + self._worth * leads * _ratio(self._seen, q)

    def influence(self, target: FloatArray) -> FloatArray:
        """The derivative of the sum of `mass` times `target` in the share of each sampled rank.

        Parameters
        ----------
        target : ndarray of float, shape (k,) or (k, several)
            Values at `ranks`.

        Returns
        -------
        ndarray of float, shape (m + 1,) or (m + 1, several)
            Its mean over the users is 0.
        """
        found = np.linalg.solve(
            self._system, self._worth * (self._from @ (target - self.mass @ target))
        )
        return np.asarray(found - self._seen @ found)


def condensed(mass: FloatArray) -> tuple[IntArray, FloatArray]:
    """A distribution moved to fewer ranks: beyond the first 1,023 to one in each percent.

    Examples
    --------
    >>> ranks, shares = condensed(np.full(5_000, 1 / 5_000))
    >>> ranks.size, int(ranks[1_022]), float(shares.sum().round(12))
    (1182, 1023, 1.0)
    """
    ranks = np.arange(1.0, mass.size + 1)
    bucket = np.where(ranks <= 1024, ranks, 1024 + np.floor(np.log(ranks / 1024) * 100)).astype(int)
    share = np.bincount(bucket, mass)
    middle = np.bincount(bucket, mass * ranks)[share > 0] / share[share > 0]
    return np.round(middle).astype(np.int64), share[share > 0] / share.sum()


@dataclass(frozen=True, eq=False)
class _Quadrature:
    """The law at few ranks, each of which stands for as many as its weight."""

    law: FloatArray
    log_weights: FloatArray

    @staticmethod
    def of(law: AllRanks) -> _Quadrature | AllRanks:
        """What stands for the law at all ranks; the law itself where nothing would be saved.

        What is summed is the exponential of a polynomial of degree m: smooth, but steeper than
        the polynomial, so the rule is one for three times the degree.
        """
        nodes, weights = quadrature_ranks(law.pool + 1, 3 * law.m)
        if 2 * nodes.size > law.pool:
            return law
        rows = distributions.law(law.m, nodes - 1.0, law.pool, law.replacement)
        return _Quadrature(rows, np.log(weights))

    def expected(self, values: FloatArray) -> FloatArray:
        return np.asarray(self.law @ values)

    def marginal(self, mass: FloatArray) -> FloatArray:
        return np.asarray(mass @ self.law)

    def products(self, mass: FloatArray) -> FloatArray:
        rows = self.law * np.sqrt(mass)[:, np.newaxis]
        return np.asarray(rows.T @ rows)


def _tilted(
    law: AllRanks | _Quadrature,
    seen: FloatArray,
    worth: float,
    start: FloatArray,
    enough: float,
    last: bool = False,
) -> tuple[FloatArray, FloatArray, float]:
    """Minimise the dual for a log-likelihood per user that counts `worth` times the entropy.

    Multipliers are in units of `worth`. Returns them, the masses, and the duality gap. The gap is
    of the order of the square of the masses' errors, so `last` asks for one more step after it is
    below `enough`: convergence is quadratic, and only rounding errors are left.
    """
    on = seen > 0
    at = start.copy()
    log_weights = law.log_weights if isinstance(law, _Quadrature) else 0.0

    def dual(x: FloatArray) -> tuple[float, FloatArray]:
        tilt = worth * law.expected(x) + log_weights
        top = float(tilt.max())
        mass = np.exp(tilt - top)
        total = float(mass.sum())
        barrier = worth * float(seen[on] @ np.log(seen[on] / x[on])) - worth
        return top + float(np.log(total)) + barrier, mass / total

    value, mass = dual(at)
    finished = False
    for _ in range(_STEPS):
        q = np.maximum(law.marginal(mass), _TINY)
        gap = (
            value - _entropy(mass) - float(np.sum(mass * log_weights)) - worth * _mean_log(seen, q)
        )
        near = gap < enough * worth
        if finished or (near and not last):
            break
        gradient = (q[on] - seen[on] / at[on]) * worth
        covariance = law.products(mass)[np.ix_(on, on)] - np.outer(q[on], q[on])
        hessian = worth**2 * covariance + np.diag(worth * seen[on] / at[on] ** 2)
        step = np.zeros_like(at)
        step[on] = -np.linalg.solve(hessian, gradient)
        if near and (at[on] + step[on] > 0).all():
            at, finished = at + step, True
            value, mass = dual(at)
            continue
        slope = float(gradient @ step[on])
        if -slope < 1e-14 * worth:
            break
        shrinking = step < 0
        size = min(1.0, 0.9 * float(np.min(-at[shrinking] / step[shrinking], initial=np.inf)))
        while size > 1e-12:
            moved, new_mass = dual(at + size * step)
            if moved <= value + 1e-4 * size * slope:
                break
            size *= 0.5
        else:
            break
        at, value, mass = at + size * step, moved, new_mass
    return at, mass, max(gap, 0.0)


def plug_in(
    prior: FittedPrior | Mapping[int, float] | ArrayLike,
    metric: Metric | str,
    n_items: int,
    position: int = 1,
    n_relevant: int = 1,
) -> float:
    """The exact metric if the true ranks are distributed as `prior`.

    Parameters
    ----------
    prior : FittedPrior, mapping of int to float, or array_like of float, shape (n,)
        Probabilities of the ranks; with several relevant items a rank counts the irrelevant
        items only.
    metric : Metric or str
    n_items : int
        Items ranked, more than `n_relevant`.
    position, n_relevant : int
        Which of how many relevant items the prior is about; the result is its term.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the prior is empty, or has a rank that the catalogue has not.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> plug_in({1: 0.5, 4: 0.5}, metric("ap"), n_items=10)
    0.625
    """
    metric = parsed(metric)
    ranks, shares = listed(prior.mass if isinstance(prior, FittedPrior) else prior)
    if ranks.size == 0:
        raise ValueError("prior must hold at least one rank, got none")
    place = integer(position, "position", 1, n_relevant)
    return float(shares @ metric.term(ranks + (place - 1), place, n_relevant, n_items))


def listed(mass: Mapping[int, float] | ArrayLike) -> tuple[IntArray, FloatArray]:
    """The ranks that a distribution speaks of, and the probability of each.

    Examples
    --------
    >>> listed({1: 0.5, 4: 0.5}), listed([0.5, 0.5])
    ((array([1, 4]), array([0.5, 0.5])), (array([1, 2]), array([0.5, 0.5])))
    """
    if isinstance(mass, Mapping):
        return np.array(list(mass)), np.array(list(mass.values()), dtype=float)
    shares = np.asarray(mass, dtype=float)
    return np.arange(1, shares.size + 1), shares


def _observed(counts: ArrayLike, protocol: Protocol) -> tuple[FloatArray, AllRanks]:
    """Shares of the sampled ranks, and the law at all ranks."""
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be one Protocol, got {type(protocol).__name__}")
    if not isinstance(protocol.n_items, int):
        raise ValueError(
            f"n_items must be one number for a fit, got shape {protocol.n_items.shape}"
        )
    pool, m = int(protocol.pool), protocol.n_negatives
    one = Protocol(pool + 1, m, replacement=protocol.replacement)
    [(rows, _, users)] = checked_counts(counts, one)
    return rows[0] / users, all_ranks(pool, m, protocol.replacement)


def _ratio(seen: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(np.divide(seen, q, out=np.zeros_like(seen), where=seen > 0))


def _mean_log(seen: FloatArray, q: FloatArray) -> float:
    """Log-likelihood per user."""
    on = seen > 0
    with np.errstate(divide="ignore"):
        return float(seen[on] @ np.log(q[on]))


def _entropy(mass: FloatArray) -> float:
    positive = mass[mass > 0]
    return -float(positive @ np.log(positive))


def _fitted(
    mass: dict[int, float] | FloatArray, counts: ArrayLike, q: FloatArray, gap: float, name: str
) -> FittedPrior:
    given = np.asarray(counts, dtype=float)
    if gap >= _REPORTED:
        warnings.warn(
            f"{name} did not converge: the criterion may be {gap:.1g} nats a user below the best",
            RuntimeWarning,
            stacklevel=3,
        )
    return FittedPrior(mass, _mean_log(given, q), gap, q)

"""Maximum-likelihood mixtures of given distributions, with a linear cost.

Minimises ``cost @ w - sum(shares * log(pmfs @ w))`` over w >= 0 with a sum of 1, for many problems
at once, by Mehrotra's primal-dual interior-point method (mehrotra1992). The problem is
convex, so that any weights and multipliers bound its optimum.
``identification`` computes that bound itself and need not trust the
solver.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from .._validate import FloatArray

#: Largest number of steps.
_STEPS = 60
#: Fraction-to-the-boundary rule.
_SHORT = 0.995
#: Smallest target of the duality gap, as a share of the tolerance.
_AIM = 0.1
#: Share of a warm start that is spread evenly over all columns, to leave the boundary.
_MIXED = 1e-3
#: Least weight, to avoid division by 0.
_LEAST = 1e-200


def likeliest(
    pmfs: FloatArray,
    shares: FloatArray,
    cost: FloatArray,
    tolerance: float,
    warm_start: FloatArray | None = None,
) -> FloatArray:
    """Weights (problems, k) of the mixtures.

    A column of `pmfs` (cells, k) is a distribution; `shares` (problems, cells) are >= 0. Solutions
    are within `tolerance` of the optimum unless 60 steps do not suffice. `warm_start` may be
    feasible or not.

    Two coins, one of which always shows heads and the other every other time:

    >>> coins, shares = np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([[0.8, 0.2]])
    >>> likeliest(coins, shares, np.zeros((1, 2)), 1e-9).round(4)
    array([[0.6, 0.4]])
    """
    problems, k = cost.shape
    weights = np.full((problems, k), 1.0 / k)
    scale = np.maximum(shares.sum(axis=1, keepdims=True), 1e-6)
    below, least = 0.5, 0.1
    if warm_start is not None:  # away from the boundary, where steps are short
        weights = _MIXED * weights + (1.0 - _MIXED) * warm_start
        below = least = _MIXED
    slope = cost - shares / (weights @ pmfs.T) @ pmfs
    multiplier = slope.min(axis=1, keepdims=True) - below * scale
    state: tuple[FloatArray, ...]
    state = (weights, multiplier, np.maximum(slope - multiplier, least * scale))
    unsolved = np.arange(problems)
    for _ in range(_STEPS):
        is_solved, state = _step(pmfs, tolerance, shares[unsolved], cost[unsolved], *state)
        weights[unsolved] = state[0]
        unsolved, state = unsolved[~is_solved], tuple(array[~is_solved] for array in state)
        if not unsolved.size:
            break
    return weights


def _step(
    pmfs: FloatArray,
    tolerance: float,
    shares: FloatArray,
    cost: FloatArray,
    w: FloatArray,
    y: FloatArray,
    z: FloatArray,
) -> tuple[np.ndarray, tuple[FloatArray, ...]]:
    """One predictor-corrector step; which problems are solved, and the new iterates."""
    expected = w @ pmfs.T
    dual = cost - shares / expected @ pmfs - y - z
    primal = w.sum(axis=1, keepdims=True) - 1.0
    gap = (w * z).sum(axis=1)
    is_solved = (gap <= tolerance) & (np.abs(primal[:, 0]) <= 1e-9)
    is_solved &= np.abs(dual).max(axis=1) <= 3.0 * tolerance
    if is_solved.all():
        return is_solved, (w, y, z)
    inverse = _inverse_hessian(pmfs, np.sqrt(shares) / expected, (w / z)[:, np.newaxis])
    force = -dual - z
    ones, forced = inverse(np.stack([np.ones_like(w), force], axis=1)).swapaxes(0, 1)

    def direction(solved: FloatArray, target: FloatArray) -> tuple[FloatArray, ...]:
        dy = (-primal - solved.sum(axis=1, keepdims=True)) / ones.sum(axis=1, keepdims=True)
        dw = solved + ones * dy
        return dw, dy, -(target + z * dw) / w

    dw, _, dz = direction(forced, w * z)
    next_gap = ((w + _far(w, dw) * dw) * (z + _far(z, dz) * dz)).sum(axis=1)
    # Mehrotra's centring; a target far below the tolerance would be lost to rounding.
    centre = np.maximum(np.minimum(1.0, next_gap / gap) ** 3 * gap, _AIM * tolerance) / w.shape[1]
    correction = dw * dz - centre[:, np.newaxis]
    dw, dy, dz = direction(
        inverse((force - correction / w)[:, np.newaxis])[:, 0], w * z + correction
    )
    step_length = np.minimum(_far(w, dw), _far(z, dz))
    step_length = np.where(step_length < 1.0, _SHORT * step_length, 1.0)
    step_length[is_solved] = 0.0
    w = w + step_length * dw
    # Renormalise: near the optimum the sum drifts by rounding.
    w = w / w.sum(axis=1, keepdims=True)
    return is_solved, (
        np.maximum(w, _LEAST),
        y + step_length * dy,
        np.maximum(z + step_length * dz, _LEAST),
    )


def _inverse_hessian(
    pmfs: FloatArray, root: FloatArray, theta: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Products with (Hessian + Z/W)^-1, by Woodbury's formula: only a system over the cells.

    `root` (problems, cells) are square roots of the Hessian, `theta` (problems, 1, k) is W/Z.
    """
    n_problems, _, k = theta.shape
    system = ((pmfs * theta).reshape(-1, k) @ pmfs.T).reshape(n_problems, len(pmfs), len(pmfs))
    system *= root[:, :, np.newaxis] * root[:, np.newaxis]
    diagonal = np.arange(system.shape[1])
    ridge = 1e-15 * system[:, diagonal, diagonal].sum(axis=1)
    system[:, diagonal, diagonal] += 1.0 + ridge[:, np.newaxis]
    factors = list(map(_factor, system, ridge.tolist()))
    root = root[:, np.newaxis]

    def inverse(v: FloatArray) -> FloatArray:
        v = theta * v
        projected = v @ pmfs.T * root
        for problem, factor in enumerate(factors):
            projected[problem] = dpotrs(factor, projected[problem].T)[0].T
        return np.asarray(v - theta * (projected * root @ pmfs))

    return inverse


def _factor(system: FloatArray, ridge: float) -> FloatArray:
    """Cholesky factor, with a larger ridge until rounding leaves the matrix positive definite."""
    factor, failed = dpotrf(system.T, clean=False)  # Fortran order
    while failed and np.isfinite(ridge):
        ridge *= 10.0
        factor, failed = dpotrf(system + ridge * np.eye(len(system)), clean=False)
    return np.asarray(factor)


def _far(v: FloatArray, dv: FloatArray) -> FloatArray:
    """Largest step along `dv`, up to 1, that keeps `v` nonnegative; shape (problems, 1)."""
    return np.asarray(1.0 / np.maximum(1.0, (-dv / v).max(axis=1, keepdims=True)))

"""Maximum-likelihood mixtures of given distributions, with a linear cost.

Minimises ``cost @ w - sum(shares * log(laws @ w))`` over w >= 0 with ``rows @ w = right``, for many
problems at once, by Mehrotra's primal-dual interior-point method (mehrotra1992). The problem is
convex, so that any weights and multipliers bound its optimum.
``identification`` computes that bound itself and need not trust the
solver.
"""

from __future__ import annotations

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
    laws: FloatArray,
    shares: FloatArray,
    cost: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    near: float,
    begin: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Weights (problems, k) of the mixtures, and multipliers (problems, r) of the rows.

    A column of `laws` (cells, k) is a distribution, or 0 for a slack variable; `shares` (problems,
    cells) are >= 0, and the first of `rows` (r, k) sums the weights of the mixture. Solutions are
    within `near` of the optimum unless 60 steps do not suffice. `begin` is a warm start, feasible
    or not.

    Two coins, one of which always shows heads and the other every other time:

    >>> coins, one = np.array([[1.0, 0.5], [0.0, 0.5]]), np.ones((1, 2))
    >>> weights, _ = likeliest(coins, np.array([[0.8, 0.2]]), 0.0 * one, one, np.ones(1), 1e-9)
    >>> weights.round(4)
    array([[0.6, 0.4]])
    """
    problems, k = cost.shape
    weights, multipliers = np.full((problems, k), 1.0 / k), np.zeros((problems, right.size))
    scale = np.maximum(shares.sum(axis=1), 1e-6)
    below, least = 0.5, 0.1
    if begin is not None:  # away from the boundary, where steps are short
        weights = _MIXED * weights + (1.0 - _MIXED) * begin[0]
        multipliers[:, 1:] = begin[1][:, 1:]
        below = least = _MIXED
    slope = cost - shares / (weights @ laws.T) @ laws - multipliers @ rows
    multipliers[:, 0] = np.where(rows[0] > 0, slope, np.inf).min(axis=1) - below * scale
    slope -= multipliers[:, :1] * rows[0]
    state: tuple[FloatArray, ...]
    state = (weights, multipliers, np.maximum(slope, least * scale[:, np.newaxis]))
    left = np.arange(problems)
    for _ in range(_STEPS):
        done, state = _step(laws, rows, right, near, shares[left], cost[left], *state)
        weights[left], multipliers[left] = state[:2]
        left, state = left[~done], tuple(each[~done] for each in state)
        if not left.size:
            break
    return weights, multipliers


def _step(
    laws: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    near: float,
    shares: FloatArray,
    cost: FloatArray,
    w: FloatArray,
    y: FloatArray,
    z: FloatArray,
) -> tuple[np.ndarray, tuple[FloatArray, ...]]:
    """One predictor-corrector step; which problems are solved, and the new iterates."""
    k = w.shape[1]
    expected = w @ laws.T
    dual = cost - shares / expected @ laws - y @ rows - z
    primal = w @ rows.T - right
    gap = (w * z).sum(axis=1)
    done = (gap <= near) & (np.abs(primal).max(axis=1) <= 1e-9)
    done &= np.abs(dual).max(axis=1) <= 3.0 * near
    if done.all():
        return done, (w, y, z)
    theta = (w / z)[:, np.newaxis]
    # (Hessian + Z/W)^-1 by Woodbury's formula: only a system over the cells is solved.
    root = np.sqrt(shares) / expected
    system = ((laws * theta).reshape(-1, k) @ laws.T).reshape(len(w), len(laws), len(laws))
    system *= root[:, :, np.newaxis] * root[:, np.newaxis]
    diagonal = np.arange(system.shape[1])
    little = 1e-15 * system[:, diagonal, diagonal].sum(axis=1)
    system[:, diagonal, diagonal] += 1.0 + little[:, np.newaxis]
    factors = [_factor(each, more) for each, more in zip(system, little.tolist(), strict=True)]
    root = root[:, np.newaxis]

    def inverse(v: FloatArray) -> FloatArray:
        v = theta * v
        seen = v @ laws.T * root
        for at, factor in enumerate(factors):
            seen[at] = dpotrs(factor, seen[at].T)[0].T
        return np.asarray(v - theta * (seen * root @ laws))

    force = -dual - z
    across = np.broadcast_to(rows, (len(w), *rows.shape))
    pushed = inverse(np.concatenate([across, force[:, np.newaxis]], axis=1))
    across = pushed[:, :-1]
    schur = across @ rows.T
    # Singular where all weight is at one rank.
    diagonal = np.arange(right.size)
    schur[:, diagonal, diagonal] += 1e-15 * np.trace(schur, axis1=1, axis2=2)[:, np.newaxis]
    inner = np.asarray(np.linalg.inv(schur), dtype=float)

    def direction(pushed: FloatArray, target: FloatArray) -> tuple[FloatArray, ...]:
        dy = _along(inner, -primal - pushed @ rows.T)
        dw = pushed + _along(across.transpose(0, 2, 1), dy)
        return dw, dy, -(target + z * dw) / w

    dw, _, dz = direction(pushed[:, -1], w * z)
    ahead = ((w + _far(w, dw) * dw) * (z + _far(z, dz) * dz)).sum(axis=1)
    # Mehrotra's centring; a target far below the tolerance would be lost to rounding.
    centre = np.maximum(np.minimum(1.0, ahead / gap) ** 3 * gap, _AIM * near) / k
    more = dw * dz - centre[:, np.newaxis]
    dw, dy, dz = direction(inverse((force - more / w)[:, np.newaxis])[:, 0], w * z + more)
    far = np.minimum(_far(w, dw), _far(z, dz))
    far = np.where(far < 1.0, _SHORT * far, 1.0)
    far[done] = 0.0
    w = w + far * dw
    # Renormalise: near the optimum the sum drifts by rounding.
    w = w / (rows[0] * w).sum(axis=1, keepdims=True)
    return done, (np.maximum(w, _LEAST), y + far * dy, np.maximum(z + far * dz, _LEAST))


def _factor(system: FloatArray, little: float) -> FloatArray:
    """Cholesky factor, with a larger ridge until rounding leaves the matrix positive definite."""
    factor, failed = dpotrf(system.T, clean=False)  # Fortran order
    while failed and np.isfinite(little):
        little *= 10.0
        factor, failed = dpotrf(system + little * np.eye(len(system)), clean=False)
    return np.asarray(factor)


def _far(v: FloatArray, dv: FloatArray) -> FloatArray:
    """Largest step along `dv`, up to 1, that keeps `v` nonnegative; shape (problems, 1)."""
    return np.asarray(1.0 / np.maximum(1.0, (-dv / v).max(axis=1, keepdims=True)))


def _along(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray(np.matmul(matrices, vectors[:, :, np.newaxis])[:, :, 0])

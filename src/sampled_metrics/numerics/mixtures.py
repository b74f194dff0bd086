"""The likeliest mixture of given distributions, with a linear term beside the likelihood.

Minimised is ``cost @ w - sum(shares * log(laws @ w))`` over w >= 0 with ``rows @ w = right``, for
many such problems at once, by a primal-dual interior-point method with Mehrotra's predictor
(mehrotra1992). The programme is convex, so any weights and multipliers bound its optimum:
:func:`sampled_metrics.identification` does that with every rank, and does not trust the solver.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from .._validate import FloatArray

#: How many steps are taken at most.
_STEPS = 60
#: How much of the way to the boundary a step goes.
_SHORT = 0.995
#: What is aimed at, as a part of how far above its optimum a programme may stay.
_AIM = 0.1
#: How much of its weight a mixture that is begun with gives up to all columns alike.
_MIXED = 1e-3
#: Where a weight stays at least.
_LEAST = 1e-200


def likeliest(
    laws: FloatArray,
    shares: FloatArray,
    cost: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    near: FloatArray,
    begin: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Weights of the mixtures, and the multipliers of the rows.

    Parameters
    ----------
    laws : ndarray of float, shape (problems, cells, k)
        A distribution in each column; zeros where a weight is that of a slack variable.
    shares : ndarray of float, shape (problems, cells)
        Observed; not negative, and not all zero.
    cost : ndarray of float, shape (problems, k)
    rows : ndarray of float, shape (problems, r, k)
        The first one sums the weights of the mixture.
    right : ndarray of float, shape (problems, r)
    near : ndarray of float, shape (problems,)
        How far above its optimum each programme may stay.
    begin : tuple of ndarray, optional
        Weights and multipliers of programmes like these; none of them need fulfil the rows.

    Returns
    -------
    weights : ndarray of float, shape (problems, k)
    multipliers : ndarray of float, shape (problems, r)

    Examples
    --------
    Two coins, one of which always shows heads and the other every other time:

    >>> coins = np.array([[[1.0, 0.5], [0.0, 0.5]]])
    >>> free, one = np.zeros((1, 2)), np.ones((1, 1))
    >>> weights, _ = likeliest(coins, np.array([[0.8, 0.2]]), free, np.ones((1, 1, 2)), one, [1e-9])
    >>> weights.round(4)
    array([[0.6, 0.4]])
    """
    problems, _, k = laws.shape
    weights, multipliers = np.full((problems, k), 1.0 / k), np.zeros(right.shape)
    scale, near = np.maximum(shares.sum(axis=1), 1e-6), np.asarray(near)
    below, least = 0.5, 0.1
    if begin is not None:  # well within the boundary, or the first steps would be short
        weights = _MIXED * weights + (1.0 - _MIXED) * begin[0]
        multipliers[:, 1:] = begin[1][:, 1:]
        below = least = _MIXED
    slope = cost - _times(shares / _along(laws, weights), laws) - _times(multipliers, rows)
    multipliers[:, 0] = np.where(rows[:, 0] > 0, slope, np.inf).min(axis=1) - below * scale
    slope -= multipliers[:, :1] * rows[:, 0]
    duals = np.maximum(slope, least * scale[:, np.newaxis])
    left = np.arange(problems)
    given = (laws, shares, cost, rows, right, near)
    state = (weights, multipliers, duals)
    for _ in range(_STEPS):
        done, state = _step(*given, *state)
        if done.any():
            for whole, part in zip((weights, multipliers, duals), state, strict=True):
                whole[left[done]] = part[done]
            left = left[~done]
            if not left.size:
                break
            given = tuple(each[~done] for each in given)
            state = tuple(each[~done] for each in state)
    if left.size:  # as near as rounding lets them come
        weights[left], multipliers[left] = state[:2]
    return weights, multipliers


def _step(
    laws: FloatArray,
    shares: FloatArray,
    cost: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    near: FloatArray,
    w: FloatArray,
    y: FloatArray,
    z: FloatArray,
) -> tuple[np.ndarray, tuple[FloatArray, FloatArray, FloatArray]]:
    """Which problems are solved, and where a step leads the others."""
    k = w.shape[1]
    expected = _along(laws, w)
    dual = cost - _times(shares / expected, laws) - _times(y, rows) - z
    primal = _along(rows, w) - right
    gap = (w * z).sum(axis=1)
    done = (gap <= near) & (np.abs(primal).max(axis=1) <= 1e-9)
    done &= np.abs(dual).max(axis=1) <= 3.0 * near
    if done.all():
        return done, (w, y, z)
    theta = w / z
    # With H the Hessian, (H + Z/W)^-1 by Woodbury: only a system over the cells is solved.
    root, half = np.sqrt(shares) / expected, np.sqrt(theta)[:, np.newaxis]
    scaled: FloatArray = laws * half
    system = np.matmul(scaled, scaled.transpose(0, 2, 1))
    system *= root[:, :, np.newaxis] * root[:, np.newaxis]
    diagonal = np.arange(system.shape[1])
    little = 1e-15 * system[:, diagonal, diagonal].sum(axis=1)
    system[:, diagonal, diagonal] += 1.0 + little[:, np.newaxis]
    factors = [_factor(each, more) for each, more in zip(system, little.tolist(), strict=True)]

    def inverse(v: FloatArray) -> FloatArray:
        v = half * v
        seen = np.matmul(scaled, v.transpose(0, 2, 1)) * root[:, :, np.newaxis]
        for at, factor in enumerate(factors):
            seen[at] = dpotrs(factor, seen[at])[0]
        seen *= root[:, :, np.newaxis]
        return np.asarray(half * (v - np.matmul(seen.transpose(0, 2, 1), scaled)))

    force = -dual - z
    pushed = inverse(np.concatenate([rows, force[:, np.newaxis]], axis=1))
    across = pushed[:, :-1]
    schur = np.matmul(across, rows.transpose(0, 2, 1))
    if schur.shape[1] == 1:
        inner = 1.0 / schur
    else:
        # Nor need this one be, where all weight is at one rank.
        diagonal = np.arange(schur.shape[1])
        schur[:, diagonal, diagonal] += 1e-15 * np.trace(schur, axis1=1, axis2=2)[:, np.newaxis]
        inner = np.linalg.inv(schur)

    def direction(pushed: FloatArray, target: FloatArray) -> tuple[FloatArray, ...]:
        dy = _along(inner, -primal - _along(rows, pushed))
        dw = pushed + _times(dy, across)
        return dw, dy, -(target + z * dw) / w

    dw, _, dz = direction(pushed[:, -1], w * z)
    ahead = ((w + _far(w, dw) * dw) * (z + _far(z, dz) * dz)).sum(axis=1)
    # Never aimed much below what is wanted: rounding would have no room left.
    centre = np.maximum(np.minimum(1.0, ahead / gap) ** 3 * gap, _AIM * near) / k
    more = dw * dz - centre[:, np.newaxis]
    dw, dy, dz = direction(inverse((force - more / w)[:, np.newaxis])[:, 0], w * z + more)
    far = np.minimum(_far(w, dw), _far(z, dz))
    far = np.where(far < 1.0, _SHORT * far, 1.0)
    far[done] = 0.0
    w = w + far * dw
    # Near the optimum rounding would let the sum drift.
    w = w / (rows[:, 0] * w).sum(axis=1, keepdims=True)
    # A step that ends at 0 would have the next divide 0 by 0.
    return done, (np.maximum(w, _LEAST), y + far * dy, np.maximum(z + far * dz, _LEAST))


def _factor(system: FloatArray, little: float) -> FloatArray:
    """The Cholesky factor; rounding may leave a matrix a little short of positive definite."""
    factor, failed = dpotrf(system.T, clean=False)  # which is in Fortran's order
    while failed and np.isfinite(little):  # nothing helps where a number is missing
        little *= 10.0
        factor, failed = dpotrf(system + little * np.eye(len(system)), clean=False)
    return np.asarray(factor)


def _far(v: FloatArray, dv: FloatArray) -> FloatArray:
    """How far `v` can go along `dv` and stay positive, at most 1; shape (problems, 1)."""
    return np.asarray(1.0 / np.maximum(1.0, (-dv / v).max(axis=1, keepdims=True)))


def _along(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray(np.matmul(matrices, vectors[:, :, np.newaxis])[:, :, 0])


def _times(vectors: FloatArray, matrices: FloatArray) -> FloatArray:
    return np.asarray(np.matmul(vectors[:, np.newaxis], matrices)[:, 0])

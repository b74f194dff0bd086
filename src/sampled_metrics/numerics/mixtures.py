"""The likeliest mixture of given distributions, with a linear term beside the likelihood.

Minimised is ``cost @ w - sum(shares * log(laws @ w))`` over w >= 0 with ``rows @ w = right``, for
many such problems at once, by a primal-dual interior-point method with Mehrotra's predictor
(mehrotra1992). The programme is convex, so any weights and multipliers bound its optimum:
:func:`sampled_metrics.bounds.identification` does that with every rank, and does not trust the
solver.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from .._validate import FloatArray

#: Most steps.
_STEPS = 60
#: Share of the way to the boundary that a step may go.
_SHORT = 0.995
#: The smallest gap that is aimed at, as a share of the gap that is allowed.
_AIM = 0.1
#: Share of a starting mixture that is spread over all columns, so that none is at the boundary.
_MIXED = 1e-3
#: Least weight, so that none is divided by 0.
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
    """Weights of the mixtures, and the multipliers of the rows.

    Parameters
    ----------
    laws : ndarray of float, shape (cells, k)
        A distribution in each column; zeros where a weight is that of a slack variable.
    shares : ndarray of float, shape (problems, cells)
        Observed; not negative, and not all zero.
    cost : ndarray of float, shape (problems, k)
    rows : ndarray of float, shape (r, k)
        The first one sums the weights of the mixture.
    right : ndarray of float, shape (r,)
    near : float
        How far above its optimum each programme may stay, unless it takes more than 60 steps.
        Callers must not rely on it: bets are certified whatever the weights are.
    begin : tuple of ndarray, optional
        Weights and multipliers of programmes like these; none of them need fulfil the rows.

    Returns
    -------
    weights : ndarray of float, shape (problems, k)
    multipliers : ndarray of float, shape (problems, r)

    Examples
    --------
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
    if begin is not None:  # well within the boundary, or the first steps would be short
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
    """Which problems are solved, and where a step leads the others."""
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
    # With H the Hessian, (H + Z/W)^-1 by Woodbury: only a system over the cells is solved.
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
    # It need not be regular, where all weight is at one rank.
    diagonal = np.arange(right.size)
    schur[:, diagonal, diagonal] += 1e-15 * np.trace(schur, axis1=1, axis2=2)[:, np.newaxis]
    inner = np.asarray(np.linalg.inv(schur), dtype=float)

    def direction(pushed: FloatArray, target: FloatArray) -> tuple[FloatArray, ...]:
        dy = _along(inner, -primal - pushed @ rows.T)
        dw = pushed + _along(across.transpose(0, 2, 1), dy)
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
    w = w / (rows[0] * w).sum(axis=1, keepdims=True)
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

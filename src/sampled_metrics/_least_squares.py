"""The least-squares problems behind the corrections, reduced once to a triangular factor.

The weighted law and the weighted metric, a row for each true rank, are reduced block by block
to a triangle of the size of the sample, so that memory does not grow with the catalogue; all
corrections are then read off that triangle. Normal equations are never formed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import nnls

from ._validate import FloatArray
from .protocol import log_law

#: Entries of the weighted law held in memory at once.
_BLOCK = 1 << 19


@dataclass(frozen=True)
class System:
    """The problem of fitting ``law @ x`` to a target over a prior on the true ranks.

    Attributes
    ----------
    law : ndarray of float, shape (rows, m + 1)
        Triangular factor of the law, each row weighted by the root of the prior.
    target : ndarray of float, shape (rows,)
        The target in the same coordinates.
    marginal : ndarray of float, shape (m + 1,)
        Probability of each sampled rank under the prior.
    """

    law: FloatArray
    target: FloatArray
    marginal: FloatArray

    @cached_property
    def possible(self) -> np.ndarray:
        """Which sampled ranks can occur under the prior."""
        return np.asarray(self.marginal > 0)

    @cached_property
    def _scale(self) -> FloatArray:
        return np.sqrt(np.where(self.possible, self.marginal, 1.0))

    @cached_property
    def _scaled(self) -> FloatArray:
        """The law with each column scaled so that singular values are at most 1."""
        return np.asarray(np.where(self.possible, self.law / self._scale, 0.0))

    @cached_property
    def _svd(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Products of the left vectors with the target, singular values, right vectors as rows."""
        left, singular, right = np.linalg.svd(self._scaled, full_matrices=False)
        return left.T @ self.target, singular, right

    def solve(self, gamma: float) -> FloatArray:
        """Minimise squared bias plus gamma times variance, averaged over the prior."""
        products, s, right = self._svd
        gain = self._least_bias_gain() if gamma == 0 else s / ((1.0 - gamma) * s * s + gamma)
        solution = right.T @ (gain * products)
        # Rounding moves a singular value, and a product with the target, by about this much.
        rounding = np.finfo(float).eps * s.size * s[0]
        noise = rounding * (
            np.linalg.norm(gain**2 * products) + gain.max() * np.linalg.norm(self.target)
        )
        if noise > 0.1 * np.linalg.norm(solution):
            warnings.warn(
                f"with gamma {gamma:g} and {s.size - 1} negatives the problem is too "
                "ill-conditioned for the values to have correct digits and for their bias to be "
                "the least; a larger gamma, or a monotone estimator, is well determined",
                RuntimeWarning,
                stacklevel=4,
            )
        return self._filled(solution / self._scale)

    def _least_bias_gain(self) -> FloatArray:
        """Reciprocals of as many singular values as leave the least bias, and then zeros.

        Those below the rounding error of the law are noise; dividing by them adds bias.
        """
        products, s, right = self._svd
        inverse = 1.0 / np.where(s > 0, s, np.inf)
        solutions = np.cumsum(right.T * (inverse * products), axis=1)
        left = np.linalg.norm(self._scaled @ solutions - self.target[:, np.newaxis], axis=0)
        return np.where(np.arange(s.size) <= np.argmin(left), inverse, 0.0)

    def decreasing(self, nonnegative: bool) -> FloatArray:
        """Minimise squared bias over the vectors that never rise, and optionally stay >= 0."""
        law = np.where(self.possible, self.law, 0.0)
        # Column i of `steps` is what a step of 1 down after sampled rank i adds: ones up to i.
        steps = np.cumsum(law, axis=1)
        tries = 30 * steps.shape[1]
        if nonnegative:
            down, _ = nnls(steps, self.target, maxiter=tries)
        else:
            # The last value is free: the steps are fitted in what is orthogonal to it, then it.
            flat, steps = steps[:, -1], steps[:, :-1]
            unit = flat / np.linalg.norm(flat)
            apart = steps - np.outer(unit, unit @ steps)
            down, _ = nnls(apart, self.target - unit * (unit @ self.target), maxiter=tries)
            last = unit @ (self.target - steps @ down) / np.linalg.norm(flat)
            down = np.append(down, last)
        return self._filled(np.cumsum(down[::-1])[::-1])

    def _filled(self, values: FloatArray) -> FloatArray:
        """`values` with those of impossible sampled ranks taken from the nearest possible one."""
        at = np.arange(values.size)
        known = at[self.possible]
        nearest = known[np.argmin(np.abs(at[:, np.newaxis] - known), axis=1)]
        return np.asarray(values[nearest])


def reduce(
    nodes: FloatArray,
    weights: FloatArray,
    target: FloatArray,
    pool: int,
    m: int,
    replacement: bool,
) -> System:
    """Reduce the rows of a problem, one for each true rank in `nodes`, to a `System`."""
    counts, triangle = np.arange(m + 1), np.empty((0, m + 2))
    marginal = np.zeros(m + 1)
    rows = max(m + 2, _BLOCK // (m + 2))
    for start in range(0, nodes.size, rows):
        part = slice(start, start + rows)
        above = nodes[part, np.newaxis] - 1.0
        law = np.exp(log_law(counts, m, above, np.int64(pool), replacement))
        marginal += weights[part] @ law
        block = np.sqrt(weights[part])[:, np.newaxis] * np.column_stack([law, target[part]])
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, block]), mode="r"))
    return System(triangle[:, :-1], triangle[:, -1], marginal)

"""The least-squares problems behind the corrections, reduced once to a triangular factor.

The weighted law and the weighted metric, a row for each true rank, are reduced block by block
to a triangle of the size of the sample, so that memory does not grow with the catalogue; all
corrections are then read off that triangle. Normal equations are never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import nnls

from .._validate import FloatArray
from .distributions import law

#: Entries of the weighted law held in memory at once.
_BLOCK = 1 << 19


class IllConditionedError(ValueError):
    """The values of a correction have no digits that double precision can hold."""


@dataclass(frozen=True, eq=False)
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
        return np.asarray(np.sqrt(self.marginal[self.possible]))

    @cached_property
    def _scaled(self) -> FloatArray:
        """The law of the possible ranks, its columns scaled: singular values are at most 1."""
        return np.asarray(self.law[:, self.possible] / self._scale)

    @cached_property
    def _svd(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Products of the left vectors with the target, singular values, right vectors as rows."""
        left, singular, right = np.linalg.svd(self._scaled, full_matrices=False)
        return left.T @ self.target, singular, right

    def solve(self, gamma: float) -> FloatArray:
        """Minimise squared bias plus gamma times variance, averaged over the prior.

        Raises
        ------
        IllConditionedError
            If rounding may move the values by more than a hundredth of their size.
        """
        products, s, right = self._svd
        gain = self._least_bias_gain()[0] if gamma == 0 else s / ((1.0 - gamma) * s * s + gamma)
        solution = right.T @ (gain * products)
        # Rounding moves a singular value, and a product with the target, by about this much.
        rounding = np.finfo(float).eps * s.size * s[0]
        noise = rounding * (
            np.linalg.norm(gain**2 * products) + gain.max() * np.linalg.norm(self.target)
        )
        if not noise <= 0.01 * np.linalg.norm(solution):
            m = self.marginal.size - 1
            raise IllConditionedError(
                f"gamma must be larger than {gamma:g} with {m} negatives: the values of this "
                "correction would be so large and so close to cancelling that double precision "
                "cannot hold them; take a larger gamma, fewer negatives (least bias: up to about "
                "40) or a monotone estimator"
            )
        return self._filled(solution / self._scale)

    def _least_bias_gain(self) -> tuple[FloatArray, bool]:
        """Reciprocals of the singular values, zeros beyond those that leave no bias; if any do.

        A metric that is a polynomial of low degree in the rank, as AUC is, needs the first few
        directions only; what the others would add is rounding.
        """
        products, s, right = self._svd
        inverse = 1.0 / np.where(s > 0, s, np.inf)
        solutions = np.cumsum(right.T * (inverse * products), axis=1)
        left = np.linalg.norm(self._scaled @ solutions - self.target[:, np.newaxis], axis=0)
        unbiased = left <= 8 * s.size * np.finfo(float).eps * np.linalg.norm(self.target)
        needed = int(np.argmax(unbiased)) if unbiased.any() else s.size
        return np.where(np.arange(s.size) <= needed, inverse, 0.0), bool(unbiased.any())

    def decreasing(self, nonnegative: bool) -> FloatArray:
        """Minimise squared bias over the vectors that never rise, and optionally stay >= 0."""
        products, _, right = self._svd
        gain, unbiased = self._least_bias_gain()
        if unbiased:  # many vectors have no bias, to 16 digits: the shortest, if it never rises
            free = self._filled(right.T @ (gain * products) / self._scale)
            fallen = np.minimum.accumulate(np.maximum(free, 0.0) if nonnegative else free)
            if np.abs(fallen - free).max() <= 1e-6 * np.abs(free).max():
                return np.asarray(fallen)
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
        return self._filled(np.cumsum(down[::-1])[::-1][self.possible])

    def _filled(self, known: FloatArray) -> FloatArray:
        """The values of the possible sampled ranks, each other rank taking the nearest one's."""
        at = np.arange(self.possible.size)
        nearest = np.abs(at[:, np.newaxis] - at[self.possible]).argmin(axis=1)
        return np.asarray(known[nearest])


def reduce(
    nodes: FloatArray,
    weights: FloatArray,
    target: FloatArray,
    pool: int,
    m: int,
    replacement: bool,
) -> System:
    """Reduce the rows of a problem, one for each true rank in `nodes`, to a `System`."""
    triangle = np.empty((0, m + 2))
    marginal = np.zeros(m + 1)
    step = max(m + 2, _BLOCK // (m + 2))
    for start in range(0, nodes.size, step):
        part = slice(start, start + step)
        rows = law(m, nodes[part] - 1.0, pool, replacement)
        marginal += weights[part] @ rows
        block = np.sqrt(weights[part])[:, np.newaxis] * np.column_stack([rows, target[part]])
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, block]), mode="r"))
    return System(triangle[:, :-1], triangle[:, -1], marginal)

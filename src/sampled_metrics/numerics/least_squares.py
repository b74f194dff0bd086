"""The least-squares problems behind the corrections, reduced to the size of the sample.

The weighted rows of P and the metric are reduced in blocks, so that memory does not grow with the
catalogue: to a triangular factor, from which all corrections follow, or, where gamma makes them
well-conditioned, to the normal equations, which take a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._threads import one_thread
from .._validate import FloatArray
from .all_ranks import DesignRows

#: Entries of P held in memory at once.
_BLOCK = 1 << 19
#: P with at most so many entries is kept for other targets.
_FEW = 1 << 18
#: Values of gamma for which normal equations are solved. Singular values are at most 1, so that the
#: condition number is 1 / gamma: the smallest gamma leaves 12 digits.
_WELL_CONDITIONED = (1e-4, 10.0)


class IllConditionedError(ValueError):
    """Double precision cannot hold the values of a correction."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """P over a prior (true ranks `nodes`, probabilities `weights`), shared by the targets."""

    nodes: FloatArray
    weights: FloatArray
    design: DesignRows

    @property
    def n_outcomes(self) -> int:
        """Columns of P."""
        return self.design.n_outcomes

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of rows of P, with the slice of the nodes."""
        step = max(self.n_outcomes + 1, _BLOCK // (self.n_outcomes + 1))
        for start in range(0, self.nodes.size, step):
            block = slice(start, start + step)
            yield block, self.design.rows(self.nodes[block] - 1.0)

    @cached_property
    def _kept(self) -> dict[str, FloatArray]:
        """Cache of the products of P with itself, and of its rows if these are few."""
        return {}

    @cached_property
    def marginal(self) -> FloatArray:
        """Probability of each outcome."""
        probabilities = np.zeros(self.n_outcomes)
        for block, rows in self.blocks():
            probabilities += self.weights[block] @ rows
        return probabilities

    def products(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Prior-weighted P'P (columns, columns) and P' times each target; also sets `marginal`."""
        cache, roots = self._kept, np.sqrt(self.weights)
        if "rows" in cache:
            return cache["squares"], (roots * targets) @ cache["rows"]
        columns = self.n_outcomes
        squares, marginal = np.zeros((columns, columns)), np.zeros(columns)
        with_targets = np.zeros((len(targets), columns))
        for block, rows in self.blocks():
            marginal += self.weights[block] @ rows
            rows *= roots[block, np.newaxis]
            with_targets += (roots[block] * targets[:, block]) @ rows
            if "squares" not in cache:
                squares += rows.T @ rows
        self.__dict__.setdefault("marginal", marginal)
        if rows.size <= _FEW and len(rows) == self.nodes.size:
            cache["rows"] = rows
        return cache.setdefault("squares", squares), with_targets


@dataclass(frozen=True, eq=False)
class System:
    """The problem of fitting P x to a target, `at_nodes`, over a prior on the true ranks."""

    weighted_rows: WeightedRows
    at_nodes: FloatArray

    @cached_property
    def _triangle(self) -> FloatArray:
        """R of the QR decomposition of the weighted rows, with the target as the last column."""
        triangle = np.empty((0, self.weighted_rows.n_outcomes + 1))
        for block, rows in self.weighted_rows.blocks():
            stacked = np.column_stack([rows, self.at_nodes[block]])
            stacked *= np.sqrt(self.weighted_rows.weights[block])[:, np.newaxis]
            triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, stacked]), mode="r"))
        return triangle

    @property
    def _rows(self) -> FloatArray:
        return self._triangle[:, :-1]

    @property
    def _target(self) -> FloatArray:
        return self._triangle[:, -1]

    @cached_property
    def possible(self) -> np.ndarray:
        """Which outcomes can occur under the prior."""
        return np.asarray(self.weighted_rows.marginal > 0)

    @cached_property
    def _scale(self) -> FloatArray:
        return np.asarray(np.sqrt(self.weighted_rows.marginal[self.possible]))

    @cached_property
    def _scaled(self) -> FloatArray:
        """The columns of possible outcomes, scaled so that singular values are at most 1."""
        return np.asarray(self._rows[:, self.possible] / self._scale)

    @cached_property
    def _svd(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coordinates of the target in the left vectors, singular values, right vectors as rows."""
        left_vectors, singular_values, right_vectors = np.linalg.svd(
            self._scaled, full_matrices=False
        )
        return left_vectors.T @ self._target, singular_values, right_vectors

    def solve(self, gamma: float) -> FloatArray:
        """Minimise squared bias plus gamma times variance, averaged over the prior.

        Raises IllConditionedError if rounding may change the values by more than 1% of their size.
        """
        products, s, right_vectors = self._svd
        gain = self._least_bias_gain()[0] if gamma == 0 else s / ((1.0 - gamma) * s * s + gamma)
        solution = right_vectors.T @ (gain * products)
        # About the rounding error of a singular value and of a product with the target.
        rounding = np.finfo(float).eps * s.size * s[0]
        noise = rounding * (
            np.linalg.norm(gain**2 * products) + gain.max() * np.linalg.norm(self._target)
        )
        if not noise <= 0.01 * np.linalg.norm(solution):
            m = self.weighted_rows.n_outcomes - 1
            raise IllConditionedError(
                f"gamma must be larger than {gamma:g} with {m} negatives: the values of this "
                "correction would be so large and so close to cancelling that double precision "
                "cannot hold them; take a larger gamma, fewer negatives (least bias: up to about "
                "40) or a monotone estimator"
            )
        return self._filled(solution / self._scale)

    def _least_bias_gain(self) -> tuple[FloatArray, bool]:
        """Truncated inverse singular values, and whether the truncation leaves no bias.

        A metric that is a polynomial of low degree in the rank, such as AUC, needs only the first
        singular vectors; the others would add rounding errors.
        """
        products, s, right_vectors = self._svd
        inverse = 1.0 / np.where(s > 0, s, np.inf)
        solutions = np.cumsum(right_vectors.T * (inverse * products), axis=1)
        residuals = np.linalg.norm(self._scaled @ solutions - self._target[:, np.newaxis], axis=0)
        rounding = np.finfo(float).eps * np.linalg.norm(self._target)
        if not residuals.min() <= 8 * s.size * rounding:
            return inverse, False
        needed = int(np.argmax(residuals <= max(8 * residuals.min(), rounding)))
        return np.where(np.arange(s.size) <= needed, inverse, 0.0), True

    def decreasing(self, nonnegative: bool) -> FloatArray:
        """Minimise squared bias over the vectors that never rise, and optionally stay >= 0."""
        products, _, right_vectors = self._svd
        gain, unbiased = self._least_bias_gain()
        if unbiased:  # take the minimum-norm solution if it never rises
            free = self._filled(right_vectors.T @ (gain * products) / self._scale)
            fallen = np.minimum.accumulate(np.maximum(free, 0.0) if nonnegative else free)
            if np.abs(fallen - free).max() <= 1e-6 * np.abs(free).max():
                return np.asarray(fallen)
        from scipy.optimize import nnls  # takes as long to import as all the rest

        rows = np.where(self.possible, self._rows, 0.0)
        # Column i of `steps` is P times a vector of i + 1 ones and then zeros: a step down.
        steps = np.cumsum(rows, axis=1)
        max_steps = 30 * steps.shape[1]
        if nonnegative:
            down, _ = nnls(steps, self._target, maxiter=max_steps)
        else:
            # The last value is free: fit the steps orthogonally to its column, then the value.
            flat, steps = steps[:, -1], steps[:, :-1]
            unit = flat / np.linalg.norm(flat)
            orthogonal = steps - np.outer(unit, unit @ steps)
            down, _ = nnls(
                orthogonal, self._target - unit * (unit @ self._target), maxiter=max_steps
            )
            last = unit @ (self._target - steps @ down) / np.linalg.norm(flat)
            down = np.append(down, last)
        return self._filled(np.cumsum(down[::-1])[::-1][self.possible])

    def _filled(self, possible_values: FloatArray) -> FloatArray:
        """All values: an impossible outcome takes the value of the nearest possible one."""
        if self.possible.all():
            return possible_values
        outcomes = np.arange(self.possible.size)
        nearest = np.abs(outcomes[:, np.newaxis] - outcomes[self.possible]).argmin(axis=1)
        return np.asarray(possible_values[nearest])


@one_thread
def solve(systems: Sequence[System], gamma: float) -> list[FloatArray]:
    """:meth:`System.solve` for several targets with the same rows."""
    if not _WELL_CONDITIONED[0] <= gamma <= _WELL_CONDITIONED[1]:
        return [system.solve(gamma) for system in systems]
    targets = np.stack([system.at_nodes for system in systems])
    first = systems[0]
    squares, with_targets = first.weighted_rows.products(targets)
    if not first.possible.all():
        squares = squares[np.ix_(first.possible, first.possible)]
    matrix = (1.0 - gamma) * (squares / first._scale / first._scale[:, np.newaxis])
    matrix.flat[:: len(matrix) + 1] += gamma
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    right_sides = (with_targets[:, first.possible] / first._scale).T
    solutions = cho_solve(factor, right_sides, overwrite_b=True, check_finite=False).T
    # The test of `System.solve`, with upper bounds of the gain and the products.
    gain = 0.5 / np.sqrt(gamma * (1.0 - gamma)) if gamma < 0.5 else 1.0
    noise = np.finfo(float).eps * len(matrix) * (gain**2 + gain)
    noise = noise * np.sqrt(targets**2 @ first.weighted_rows.weights)
    return [
        system._filled(solution / first._scale)
        if rounding <= 0.01 * np.linalg.norm(solution)
        else system.solve(gamma)
        for system, solution, rounding in zip(systems, solutions, noise, strict=True)
    ]

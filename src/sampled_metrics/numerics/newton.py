"""Newton's method with backtracking, for smooth convex functions such as entropy duals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._validate import FloatArray

#: How many steps are taken at most: convergence is quadratic, and ends in rounding.
_STEPS = 200


def damped_newton(
    value_at: Callable[[FloatArray], tuple[float, FloatArray]],
    slopes_at: Callable[[FloatArray, float, FloatArray], tuple[FloatArray, FloatArray] | None],
    start: FloatArray,
    enough: float,
    positive: bool = False,
) -> tuple[FloatArray, float, FloatArray]:
    """Minimise a function whose value comes with something that its derivatives need, as masses.

    Parameters
    ----------
    value_at : callable
        From x to the value, and what comes with it.
    slopes_at : callable
        From x and both of these to the gradient and the Hessian, or None where x is good enough.
    start : ndarray of float, shape (k,)
    enough : float
        Stop where the quadratic expansion promises less than this.
    positive : bool
        Whether every entry of x must stay above 0.

    Returns
    -------
    x : ndarray of float, shape (k,)
    value : float
    with_it : ndarray of float

    Examples
    --------
    >>> square = lambda x: (float(np.sum(x**4)), x)
    >>> x, value, _ = damped_newton(square, lambda x, *_: (4 * x**3, np.diag(12 * x**2)),
    ...                             np.array([1.0, 2.0]), 1e-12)
    >>> value < 1e-11
    True
    """
    x = start
    value, with_it = value_at(x)
    for _ in range(_STEPS):
        slopes = slopes_at(x, value, with_it)
        if slopes is None:
            break
        gradient, hessian = slopes
        step = -np.linalg.solve(hessian, gradient)
        slope = float(gradient @ step)
        if -slope < enough:
            break
        shrinking = positive & (step < 0)
        size = min(1.0, 0.9 * float(np.min(-x[shrinking] / step[shrinking], initial=np.inf)))
        while size > 1e-12:
            moved, moved_with = value_at(x + size * step)
            if moved <= value + 1e-4 * size * slope:
                break
            size *= 0.5
        else:
            break
        x, value, with_it = x + size * step, moved, moved_with
    return x, value, with_it

"""Newton's method with backtracking, for smooth convex functions such as entropy duals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._validate import FloatArray

#: Largest number of steps; convergence is quadratic.
_STEPS = 200


def damped_newton(
    value_at: Callable[[FloatArray], tuple[float, FloatArray]],
    slopes_at: Callable[[FloatArray, float, FloatArray], tuple[FloatArray, FloatArray] | None],
    start: FloatArray,
    tolerance: float,
    positive: bool = False,
) -> tuple[FloatArray, float, FloatArray]:
    """Minimise a function; `value_at` returns the value and data that the derivatives need.

    `slopes_at` returns gradient and Hessian, or None to stop. Stops too when the quadratic model
    promises less than `tolerance`. With `positive`, every entry of x stays above 0.
    """
    x = start
    value, data = value_at(x)
    for _ in range(_STEPS):
        slopes = slopes_at(x, value, data)
        if slopes is None:
            break
        gradient, hessian = slopes
        step = -np.linalg.solve(hessian, gradient)
        slope = float(gradient @ step)
        if -slope < tolerance:
            break
        shrinking = positive & (step < 0)
        size = min(1.0, 0.9 * float(np.min(-x[shrinking] / step[shrinking], initial=np.inf)))
        while size > 1e-12:
            new_value, new_data = value_at(x + size * step)
            if new_value <= value + 1e-4 * size * slope:
                break
            size *= 0.5
        else:
            break
        x, value, data = x + size * step, new_value, new_data
    return x, value, data

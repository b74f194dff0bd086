"""Checks that every public function shares: one sentence that names the argument."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Return `value` as an int, or raise ValueError unless it is a whole number in [low, high]."""
    allowed = f"a whole number >= {low}" if high is None else f"a whole number in [{low}, {high}]"
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return int(value)


def integers(values: ArrayLike, name: str, low: int, high: ArrayLike | None = None) -> IntArray:
    """Return `values` as int64, or raise ValueError naming the first that is not in [low, high].

    Floats are accepted when they are whole; `high` broadcasts with `values`.
    """
    given = np.asarray(values)
    if given.dtype == object or given.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be whole numbers, got {as_written(values)}")
    if given.dtype.kind == "f":
        bad = ~np.isfinite(given) | (given != np.floor(given))
        if bad.any():
            raise ValueError(f"{name} must be whole numbers >= {low}, got {given[bad].flat[0]}")
    bad = given < low
    if bad.any():
        raise ValueError(f"{name} must be >= {low}, got {given[bad].flat[0]}")
    if high is not None:
        try:
            above, most, shown = np.broadcast_arrays(given > high, high, given)
        except ValueError:
            raise ValueError(
                f"{name} of shape {given.shape} does not broadcast with n_items of shape "
                f"{np.shape(high)}"
            ) from None
        if above.any():
            first = np.unravel_index(int(np.argmax(above)), above.shape)
            raise ValueError(f"{name} must be <= {most[first]}, got {shown[first]}")
    return given.astype(np.int64, copy=False)


def as_written(value: object) -> str:
    """A value as it is written, not as NumPy shows it, and no longer than a sentence bears."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "..."

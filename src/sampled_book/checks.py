"""Argument checks and array types of the laboratory. The library's own are private, so that a
change there does not reach the laboratory.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def as_written(value: object) -> str:
    """A value as it is written, cut to 60 characters.

    >>> as_written(np.float64(0.5)), as_written("x" * 70)[-6:]
    ('0.5', 'xxx...')
    """
    try:
        text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = f"a value of type {type(value).__name__} with too many digits to show"
    return text if len(text) <= 60 else text[:57] + "..."


def integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Return `value` as an int, or raise ValueError unless it is a whole number in [low, high]."""
    allowed = f"a whole number >= {low}" if high is None else f"a whole number in [{low}, {high}]"
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not is_whole or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, got {as_written(value)}")
    return int(value)


def integers(values: ArrayLike, name: str, low: int, high: int | None = None) -> IntArray:
    """Return `values` as int64, or raise ValueError naming the first that is not in [low, high]."""
    array = _array(values)
    if array.dtype.kind not in "iuf":
        huge = array.size and all(type(value) is int for value in array.flat)
        allowed = "below 2**63" if huge else "whole numbers"
        raise ValueError(f"{name} must be {allowed}, got {as_written(values)}")
    limits = {
        f"whole numbers >= {low}": ~np.isfinite(array) | (array != np.floor(array)),
        f">= {low}": array < low,
        "below 2**63": array.astype(np.float64) >= 2.0**63,
        f"<= {high}": array > (np.inf if high is None else high),
    }
    for allowed, is_bad in limits.items():
        if is_bad.any():
            raise ValueError(f"{name} must be {allowed}, got {as_written(array[is_bad].flat[0])}")
    return array.astype(np.int64, copy=False)


def floats(values: ArrayLike, name: str) -> FloatArray:
    """Return `values` as floats, or raise ValueError unless they are real numbers."""
    array = _array(values)
    if array.dtype.kind not in "biuf":  # objects, if a number is beyond all floats
        raise ValueError(f"{name} must hold real numbers, got {as_written(values)}")
    return array.astype(np.float64, copy=False)


def generator(rng: Any) -> np.random.Generator:
    """Return a generator as it is, and for a whole number the generator with that seed.

    >>> int(generator(1).integers(10))
    4
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if not isinstance(rng, numbers.Integral) or isinstance(rng, bool) or rng < 0:
        allowed = "a seed >= 0 or a numpy.random.Generator"
        raise ValueError(f"rng must be {allowed}, got {as_written(rng)}")
    return np.random.default_rng(int(rng))


def _array(values: ArrayLike) -> NDArray[Any]:
    """The values as an array; rows of unequal length are one object, which no check accepts."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.asarray(None)

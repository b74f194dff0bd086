"""Checks shared by the public functions; errors name the argument in one sentence."""

from __future__ import annotations

import numbers
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """`value` as an int; ValueError unless it is a whole number in [low, high]."""
    allowed = f"a whole number >= {low}" if high is None else f"a whole number in [{low}, {high}]"
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, got {as_written(value)}")
    return int(value)


def _array(values: ArrayLike) -> NDArray[Any]:
    """An array; of dtype object if rows differ in length, which callers refuse by dtype."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.asarray(None)


def integers(values: ArrayLike, name: str, low: int, high: ArrayLike | None = None) -> IntArray:
    """`values` as int64; ValueError naming the first that is not in [low, high].

    Whole floats are accepted; `high` broadcasts with `values`.
    """
    given = _array(values)
    if given.dtype.kind not in "iuf":
        huge = given.size and all(type(value) is int for value in given.flat)
        allowed = "below 2**63" if huge else "whole numbers"
        raise ValueError(f"{name} must be {allowed}, got {as_written(values)}")
    if given.dtype.kind == "f":
        bad = ~np.isfinite(given) | (given != np.floor(given))
        if bad.any():
            raise ValueError(f"{name} must be whole numbers >= {low}, got {given[bad].flat[0]}")
    bad = given < low
    if bad.any():
        raise ValueError(f"{name} must be >= {low}, got {given[bad].flat[0]}")
    bad = given >= (np.float64 if given.dtype.kind == "f" else np.uint64)(2**63)
    if given.dtype.kind != "i" and bad.any():
        raise ValueError(f"{name} must be below 2**63, got {as_written(given[bad].flat[0])}")
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


def floats(values: ArrayLike, name: str) -> FloatArray:
    """`values` as float64; ValueError unless they are real numbers."""
    given = _array(values)
    if given.dtype.kind not in "biuf":  # dtype object: a number too large for floats
        raise ValueError(f"{name} must hold real numbers, got {as_written(values)}")
    return given.astype(np.float64, copy=False)


def real_scores(values: ArrayLike, rows: Sequence[int] | IntArray | None = None) -> NDArray[Any]:
    """A matrix of real scores in its own type; infinities are allowed, NaN is not.

    `rows` are the row numbers for errors, from 0 if omitted.
    """
    given = _array(values)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"scores must be real numbers, got dtype {given.dtype}")
    if given.ndim != 2:
        raise ValueError(f"scores must be a matrix of numbers, got shape {given.shape}")
    undefined = np.isnan(given).any(axis=1)
    if undefined.any():
        row = int(np.argmax(undefined))
        raise ValueError(
            f"scores must not be NaN, got one in row {row if rows is None else rows[row]}"
        )
    return given


def generator(rng: Any) -> np.random.Generator:
    """A generator unchanged; for a whole number the generator with that seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if not isinstance(rng, numbers.Integral) or isinstance(rng, bool) or rng < 0:
        raise ValueError(
            f"rng must be a seed >= 0 or a numpy.random.Generator, got {as_written(rng)}"
        )
    return np.random.default_rng(int(rng))


def checked_confidence(value: Any, low: float = 0.0) -> float:
    """A confidence as a float; ValueError unless it is in (0, 1), or in [low, 1)."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not (0 < value < 1 and value >= low):
        allowed = f"[{low:g}, 1)" if low else "(0, 1)"
        raise ValueError(f"confidence must be a number in {allowed}, got {as_written(value)}")
    return float(value)


def checked_tolerance(value: Any) -> float:
    """A relative tolerance as a float; ValueError unless it is in [0, 1)."""
    known = isinstance(value, (float, int, np.floating)) and not isinstance(value, bool)
    if not known or not 0 <= value < 1:
        raise ValueError(f"relative_tolerance must be in [0, 1), got {as_written(value)}")
    return float(value)


def as_written(value: object) -> str:
    """A value for an error message: on one line, shortened, without NumPy's type name."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = f"a value of type {type(value).__name__} with too many digits to show"
    return shortened(" ".join(text.split()))


def printable(name: str) -> str:
    """A name on one line, with control characters and lone surrogates replaced.

    >>> printable("SVD \\x1b[31m\\n50")
    'SVD �[31m 50'
    """
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", " ".join(name.split())
    )


def span(values: NDArray[Any]) -> str:
    """The only value, or "<least to largest>"."""
    if not values.size:
        return "<none>"
    low, high = values.min(), values.max()
    return str(low) if low == high else f"<{low} to {high}>"


def shortened(text: str, most: int = 60) -> str:
    """The beginning of a text that is too long for a sentence."""
    return text if len(text) <= most else text[: most - 3] + "..."

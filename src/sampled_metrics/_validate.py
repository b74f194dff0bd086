"""Checks that every public function shares: one sentence that names the argument."""

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
    """Return `value` as an int, or raise ValueError unless it is a whole number in [low, high]."""
    allowed = f"a whole number >= {low}" if high is None else f"a whole number in [{low}, {high}]"
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, got {as_written(value)}")
    return int(value)


def integers(values: ArrayLike, name: str, low: int, high: ArrayLike | None = None) -> IntArray:
    """Return `values` as int64, or raise ValueError naming the first that is not in [low, high].

    Floats are accepted when they are whole; `high` broadcasts with `values`.
    """
    try:
        given = np.asarray(values)
    except ValueError:  # rows of unequal length
        given = np.asarray(None)
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
    """Return `values` as floats, or raise ValueError unless they are real numbers."""
    try:
        given = np.asarray(values)
    except ValueError:  # rows of unequal length
        given = np.asarray(None)
    if given.dtype.kind not in "biuf":  # objects, if a number is beyond all floats
        raise ValueError(f"{name} must hold real numbers, got {as_written(values)}")
    return given.astype(np.float64, copy=False)


def real_scores(values: ArrayLike, rows: Sequence[int] | IntArray | None = None) -> NDArray[Any]:
    """Return a matrix of scores in its own type: real numbers, infinite ones too, but no NaN.

    `rows` are the numbers of its rows in an error, from 0 if omitted.
    """
    try:
        given = np.asarray(values)
    except ValueError:  # rows of unequal length
        given = np.asarray(None)
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
    """Return a generator as it is, and for a whole number the generator with that seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if not isinstance(rng, numbers.Integral) or isinstance(rng, bool) or rng < 0:
        raise ValueError(
            f"rng must be a seed >= 0 or a numpy.random.Generator, got {as_written(rng)}"
        )
    return np.random.default_rng(int(rng))


def checked_tolerance(value: Any) -> float:
    """Return a relative tolerance as a float, or raise ValueError unless it is in [0, 1)."""
    known = isinstance(value, (float, int, np.floating)) and not isinstance(value, bool)
    if not known or not 0 <= value < 1:
        raise ValueError(f"relative_tolerance must be in [0, 1), got {as_written(value)}")
    return float(value)


def as_written(value: object) -> str:
    """A value as it is written, not as NumPy shows it, and no longer than a sentence bears."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = f"a value of type {type(value).__name__} with too many digits to show"
    return shortened(" ".join(text.split()))


def printable(name: str) -> str:
    """Put a name on one line and replace what no page or terminal should be sent.

    Examples
    --------
    >>> printable("SVD \\x1b[31m\\n50")
    'SVD �[31m 50'
    """
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", " ".join(name.split())
    )


def span(values: NDArray[Any]) -> str:
    """All values in a word: the one that they are, or from the least to the largest."""
    if not values.size:
        return "<none>"
    low, high = values.min(), values.max()
    return str(low) if low == high else f"<{low} to {high}>"


def shortened(text: str, most: int = 60) -> str:
    """A text on one line as it is, or its beginning if it is too long for a sentence."""
    return text if len(text) <= most else text[: most - 3] + "..."

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
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not is_whole or value < low or (high is not None and value > high):
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
    array = _array(values)
    if array.dtype.kind not in "iuf":
        is_too_large = array.size and all(type(value) is int for value in array.flat)
        allowed = "below 2**63" if is_too_large else "whole numbers"
        raise ValueError(f"{name} must be {allowed}, got {as_written(values)}")
    if array.dtype.kind == "f":
        is_invalid = ~np.isfinite(array) | (array != np.floor(array))
        if is_invalid.any():
            raise ValueError(
                f"{name} must be whole numbers >= {low}, got {array[is_invalid].flat[0]}"
            )
    is_invalid = array < low
    if is_invalid.any():
        raise ValueError(f"{name} must be >= {low}, got {array[is_invalid].flat[0]}")
    is_invalid = array >= (np.float64 if array.dtype.kind == "f" else np.uint64)(2**63)
    if array.dtype.kind != "i" and is_invalid.any():
        raise ValueError(f"{name} must be below 2**63, got {as_written(array[is_invalid].flat[0])}")
    if high is not None:
        try:
            is_above, limits, broadcast_values = np.broadcast_arrays(array > high, high, array)
        except ValueError:
            raise ValueError(
                f"{name} of shape {array.shape} does not broadcast with n_items of shape "
                f"{np.shape(high)}"
            ) from None
        if is_above.any():
            first_index = np.unravel_index(int(np.argmax(is_above)), is_above.shape)
            raise ValueError(
                f"{name} must be <= {limits[first_index]}, got {broadcast_values[first_index]}"
            )
    return array.astype(np.int64, copy=False)


def as_intp(values: NDArray[Any]) -> NDArray[np.intp]:
    """Whole numbers in the type of indices, which some functions of NumPy do not cast to."""
    return values.astype(np.intp, copy=False)


def floats(values: ArrayLike, name: str) -> FloatArray:
    """`values` as float64; ValueError unless they are real numbers."""
    array = _array(values)
    if array.dtype.kind not in "biuf":  # dtype object: a number too large for floats
        raise ValueError(f"{name} must hold real numbers, got {as_written(values)}")
    return array.astype(np.float64, copy=False)


def user_counts(values: Any) -> FloatArray:
    """Numbers of users as float64; ValueError unless they are finite and >= 0."""
    try:
        counts = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"counts must be numbers, got {as_written(values)}") from None
    invalid = counts[~(np.isfinite(counts) & (counts >= 0))]
    if invalid.size:
        raise ValueError(f"counts must be finite numbers >= 0, got {invalid[0]}")
    return counts


def real_scores(values: ArrayLike, rows: Sequence[int] | IntArray | None = None) -> NDArray[Any]:
    """A matrix of real scores in its own type; infinities are allowed, NaN is not.

    `rows` are the row numbers for errors, from 0 if omitted.
    """
    scores = _array(values)
    if scores.dtype.kind not in "iuf":
        raise ValueError(f"scores must be real numbers, got dtype {scores.dtype}")
    if scores.ndim != 2:
        raise ValueError(f"scores must be a matrix of numbers, got shape {scores.shape}")
    has_nan = np.isnan(scores).any(axis=1)
    if has_nan.any():
        row = int(np.argmax(has_nan))
        raise ValueError(
            f"scores must not be NaN, got one in row {row if rows is None else rows[row]}"
        )
    return scores


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
    is_number = isinstance(value, (float, int, np.floating)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1:
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


def shortened(text: str, max_length: int = 60) -> str:
    """The beginning of a text that is too long for a sentence."""
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


def unimported(library: str, problem: BaseException, sentence: str) -> ImportError:
    """The error about a library that is missing, in a sentence; or is there but broken, with why.

    >>> str(unimported("zarr", ModuleNotFoundError("gone", name="zarr"), "install zarr"))
    'install zarr'
    >>> str(unimported("pyarrow", ImportError("needs numpy 2"), "install pyarrow"))
    'pyarrow is installed but cannot be imported: needs numpy 2'
    """
    if isinstance(problem, ModuleNotFoundError) and problem.name == library:
        return ImportError(sentence)
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    reason = shortened(lines[0] if lines else type(problem).__name__, 200)
    return ImportError(f"{library} is installed but cannot be imported: {reason}")

"""Ranges as text, rounded outwards so that the printed range contains the computed one."""

from __future__ import annotations

import math

#: Relative rounding error below which an end counts as the nearest printable number.
_EXACT = 1e-9


def down(value: float, digits: int) -> float:
    """Round down to so many decimals."""
    scaled = value * 10.0**digits
    rounded = round(scaled)
    if abs(scaled - rounded) > _EXACT * max(1.0, abs(scaled)):
        rounded = math.floor(scaled)
    return round(rounded / 10.0**digits, max(digits, 0)) + 0.0  # no negative zero


def up(value: float, digits: int) -> float:
    """Round up to so many decimals."""
    return -down(-value, digits) + 0.0


def up_to_two_digits(number: float) -> int:
    """A number of users or the like, at least 1, rounded up to two digits.

    >>> up_to_two_digits(2_166_358), up_to_two_digits(34)
    (2200000, 34)
    """
    unit = int(10 ** max(math.floor(math.log10(number)) - 1, 0))
    return math.ceil(number / unit) * unit


def ends(low: float, high: float, digits: int = 3, *, signed: bool = False) -> tuple[str, str]:
    """Both ends of a range, rounded outwards; `signed` adds a plus, as for differences.

    >>> ends(-0.0004, 0.5, signed=True), ends(0, 0.0004, signed=True)
    (('−0.001', '+0.500'), ('0.000', '+0.001'))
    """
    first, last = (
        f"{end:{'+' if signed and end else ''}.{digits}f}".replace("-", "\N{MINUS SIGN}")
        for end in (down(low, digits), up(high, digits))
    )
    return first, last


def written(low: float, high: float, digits: int = 3, *, signed: bool = False) -> str:
    """A range as text, rounded outwards; empty if missing.

    >>> written(0.02766, 0.0281), written(float("nan"), float("nan"))
    ('0.027 to 0.029', '')
    """
    return "" if math.isnan(low) else " to ".join(ends(low, high, digits, signed=signed))

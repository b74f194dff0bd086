"""Ranges as text, rounded outwards: what is printed holds every value that was computed."""

from __future__ import annotations

import math

#: Ends that are nearer to a printable number than this share of its last digit are that number.
_EXACT = 1e-9


def down(value: float, digits: int) -> float:
    """Round to so many digits after the point, downwards.

    Examples
    --------
    >>> down(0.02766, 3), down(0.5, 3), down(0.1 + 0.2, 1), down(-0.0271, 3), down(-1e-17, 3)
    (0.027, 0.5, 0.3, -0.028, 0.0)
    """
    scaled = value * 10.0**digits
    whole = round(scaled)
    if abs(scaled - whole) > _EXACT * max(1.0, abs(scaled)):
        whole = math.floor(scaled)
    return round(whole / 10.0**digits, max(digits, 0)) + 0.0  # no negative zero


def up(value: float, digits: int) -> float:
    """Round to so many digits after the point, upwards.

    Examples
    --------
    >>> up(0.02711, 3), up(0.5, 3), up(0.1 + 0.2, 1), up(-0.0279, 3)
    (0.028, 0.5, 0.3, -0.027)
    """
    return -down(-value, digits) + 0.0


def ends(low: float, high: float, digits: int = 3, *, signed: bool = False) -> tuple[str, str]:
    """Write both ends of a range, rounded outwards.

    Parameters
    ----------
    low, high : float
    digits : int
        After the point.
    signed : bool
        Whether ends above 0 have a sign, as differences have.

    Examples
    --------
    >>> ends(0.02766, 0.0281), ends(-0.0004, 0.5, signed=True), ends(0, 0.0004, signed=True)
    (('0.027', '0.029'), ('−0.001', '+0.500'), ('0.000', '+0.001'))
    """
    first, last = (
        f"{end:{'+' if signed and end else ''}.{digits}f}".replace("-", "\N{MINUS SIGN}")
        for end in (down(low, digits), up(high, digits))
    )
    return first, last


def written(low: float, high: float, digits: int = 3, *, signed: bool = False) -> str:
    """Write a range, rounded outwards; nothing if it is missing.

    Examples
    --------
    >>> written(0.02766, 0.0281), written(float("nan"), float("nan"))
    ('0.027 to 0.029', '')
    """
    return "" if math.isnan(low) else " to ".join(ends(low, high, digits, signed=signed))

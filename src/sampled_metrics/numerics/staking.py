"""The batches and stakes of a race, which plans foresee."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._validate import FloatArray

#: Items in the first round.
FIRST_ITEMS = 16
#: Most test items for which several users share a call.
OWN_ITEMS = 4
#: The first batch has 64 users; a later one has a quarter of all users before it, but at least 64.
_USERS, _PART = 64, 4
#: The largest stake, as a fraction of the stake that could lose the whole wealth on one user. Each
#: further stake is half the one before.
_MOST = 0.8


def batches(n_users: int) -> Iterator[tuple[int, int]]:
    """Start and stop of each batch of users, as in a slice.

    >>> list(batches(150))
    [(0, 64), (64, 128), (128, 150)]
    """
    start = 0
    while start < n_users:
        stop = min(n_users, start + max(_USERS, start // _PART))
        yield start, stop
        start = stop


def stakes(n_users: int) -> FloatArray:
    """The stakes among which the wealth is divided, as fractions of the largest possible stake.

    The wealth grows fastest at a stake of about mean(d) / mean(d**2), which is unknown: hence
    several stakes. The smallest one suits the smallest mean difference that so many users can
    detect, which falls as 1 / sqrt(n_users).

    >>> stakes(100)
    array([0.8, 0.4, 0.2])
    """
    return _MOST * 2.0 ** -np.arange(1.0 + max(0, int(np.log2(0.4 * np.sqrt(n_users)))))

"""The assumption on the true ranks near the top: the deeper the rank, the fewer the users.

It is about all users of a catalogue size together, whatever their numbers of negatives and relevant
items. It need not hold for the users with some number of negatives: these may well be the users
with deep ranks. It is of the first 10 n / m ranks, those with fewer than ten negatives above them
on average; if the users of a log with one catalogue size have different numbers of negatives, m is
the smallest. Beyond these ranks anything is possible.
"""

from __future__ import annotations

from .._confidence import NONE
from .._validate import as_written

#: The name of the assumption in options. None stands for no assumption.
DECREASING = "decreasing"
#: The assumption in a sentence that begins with "that".
FEWER_USERS = "deeper ranks have fewer users, down to rank 10 × items / negatives"
#: Negatives above an item, on average, at the last of the ranks that it is about.
_NEGATIVES_ABOVE = 10


def top_ranks(n_items: int, n_negatives: int) -> int:
    """Number of the first ranks that the assumption is about.

    >>> top_ranks(1_000, 20), top_ranks(1_000, 5)
    (500, 1000)
    """
    return min(_NEGATIVES_ABOVE * n_items // n_negatives, n_items)


def checked_assumption(value: object) -> str | None:
    """An assumption by its name, or None; ValueError for anything else."""
    if value is None or (isinstance(value, str) and value == DECREASING):
        return value
    raise ValueError(f"assumption must be 'decreasing' or None, got {as_written(value)}")


def assumption_name(assumption: str | None) -> str:
    """The name of an assumption in results; "none" if nothing is assumed."""
    return NONE if assumption is None else "decreasing at the top"

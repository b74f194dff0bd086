"""What one is willing to assume of the true ranks near the top."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np

from .. import _promises
from .._validate import as_written


@dataclass(frozen=True)
class Assumption:
    """An assumption on the first true ranks: the deeper the rank, the fewer the users.

    The assumption is made of the users of each catalogue size, where these differ. Beyond the first
    ranks anything is possible. The range under a sharper assumption need not lie within the range
    under a weaker one, since each comes from bets of its own. Nor may one quote what two ranges
    have in common: each of them may miss the exact metric in 5% of the logs, and both together in
    up to 10%.

    Attributes
    ----------
    head : float
        The assumption is of the first ``head * n_items / n_negatives`` ranks, those with fewer
        than `head` negatives above them on average.
    steepness : float
        How many times fewer users, at most, there are at a rank of {2, 3} than at rank 1, at one
        of {4, ..., 7} than at one of {2, 3}, and so on while the ranks are among the first; at
        least 1, and infinite if the fall may be of any steepness.
    geometric : bool
        Whether the users at these ranks are moreover a mixture of geometric distributions that
        are cut off there: users of several kinds, and of each kind there are so many per cent
        fewer at every rank than at the one before. It is a sharper assumption, and true of fewer
        recommenders.

    Examples
    --------
    >>> from sampled_metrics import Assumption, Protocol
    >>> from sampled_metrics.bounds.identification import interval
    >>> print(Assumption())
    deeper ranks have fewer users, down to the rank with 10 negatives above it on average

    Of 2,000 users 700 have none of 20 negatives above their item, and 300 one. How many have it
    among the first ten of 1,000?

    >>> counts = [700, 300, 180, 130, 100, 80, 70, 60, 50, 45, 40, 35, 30, 30, 25, 25, 20, 20, 20]
    >>> counts, protocol = [*counts, 20, 20], Protocol(n_items=1_000, n_negatives=20)
    >>> for assumption in (Assumption(), Assumption(geometric=True)):
    ...     found = interval(counts, protocol, "recall@10", assumption=assumption)
    ...     print(round(found.low, 2), round(found.high, 2))
    0.1 0.3
    0.12 0.25
    """

    head: float = 10.0
    steepness: float = np.inf
    geometric: bool = False

    def __post_init__(self) -> None:
        for name, low in (("head", 0.0), ("steepness", 1.0)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not float(value) >= low or value == 0:
                raise ValueError(
                    f"{name} must be a number >= {max(low, 1e-9):g}, got {as_written(value)}"
                )
        if not isinstance(self.geometric, bool):
            raise ValueError(f"geometric must be True or False, got {as_written(self.geometric)}")

    def __str__(self) -> str:
        fall = ", in a mixture of geometric distributions" if self.geometric else ""
        if np.isfinite(self.steepness):
            fall += f", and at most {self.steepness:g} times fewer from one doubling to the next"
        return (
            f"deeper ranks have fewer users{fall}, down to the rank with {self.head:g} negatives "
            "above it on average"
        )


def assumption_name(assumption: Assumption | None) -> str:
    """The name of an assumption, as frames and verdicts give it.

    Examples
    --------
    >>> assumptions = None, Assumption(), Assumption(steepness=4.0)
    >>> [assumption_name(one) for one in assumptions]
    ['none', 'decreasing at the top', 'at most 4 times per doubling']
    """
    if assumption is None:
        return _promises.NONE
    names = [_promises.GEOMETRIC] if assumption.geometric else []
    if np.isfinite(assumption.steepness):
        names.append(_promises.AT_MOST.format(assumption.steepness))
    return ", ".join(names) or _promises.DECREASING

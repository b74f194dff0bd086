"""Assumptions on the true ranks near the top."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np

from .._confidence import NONE
from .._validate import FloatArray, IntArray, as_written


@dataclass(frozen=True)
class Assumption:
    """An assumption on the first true ranks: the deeper the rank, the fewer the users.

    It is about all users of a catalogue size together, whatever their numbers of negatives and
    relevant items. It need not hold for the users with some number of negatives: these may well be
    the users with deep ranks. Beyond the first ranks anything is possible. The interval under a
    sharper assumption need not lie within the interval under a weaker one, since each has its own
    bets. Do not quote their intersection: each interval misses the exact metric in up to 5% of the
    logs, both together in up to 10%.

    Parameters
    ----------
    head : float
        The assumption is of the first ``head * n_items / n_negatives`` ranks, those with fewer than
        `head` negatives above them on average; above 0. If the users of a log
        with one catalogue size have different `n_negatives`, it is the smallest.
    steepness : float
        The mean number of users per rank over ranks {2, 3} is at most this many times smaller than
        at rank 1, over {4, ..., 7} than over {2, 3}, and so on; at least 1, infinite for no limit.
    geometric : bool
        Whether the users at these ranks are also a mixture of geometric distributions cut off at
        the last of them: in each group of users, every rank has the same percentage fewer than the
        rank before. This sharper assumption is true of fewer recommenders.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    sampled_metrics.interval : Takes an assumption.

    Examples
    --------
    >>> from sampled_metrics import Assumption, Protocol
    >>> from sampled_metrics.bounds.identification import interval
    >>> print(Assumption())
    deeper ranks have fewer users, down to rank 10 × items / negatives

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
        for name, minimum, allowed in (("head", 0.0, "> 0"), ("steepness", 1.0, ">= 1")):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not float(value) >= minimum or value == 0:
                raise ValueError(f"{name} must be a number {allowed}, got {as_written(value)}")
        if not isinstance(self.geometric, bool):
            raise ValueError(f"geometric must be True or False, got {as_written(self.geometric)}")

    def __str__(self) -> str:
        limits = ", in a mixture of geometric distributions" if self.geometric else ""
        if np.isfinite(self.steepness):
            limits += f", at most {self.steepness:g} times fewer with each doubling of the rank"
        return (
            f"deeper ranks have fewer users{limits}, down to rank {self.head:g} × items / negatives"
        )

    @property
    def name(self) -> str:
        """Short name in tables and verdicts, such as "at most 4 times per doubling"."""
        names = ["mixture of geometrics"] if self.geometric else []
        if np.isfinite(self.steepness):
            names.append(f"at most {self.steepness:g} times per doubling")
        return ", ".join(names) or "decreasing at the top"

    def top(self, n_items: int, n_negatives: int) -> int:
        """Number of the first ranks that it is about.

        Examples
        --------
        >>> Assumption().top(1_000, 20), Assumption().top(1_000, 5)
        (500, 1000)
        """
        return int(min(self.head * n_items / n_negatives, n_items))

    def constraints(self, cumulative: FloatArray) -> FloatArray:
        """Rows whose product with a mixture of k populations is >= 0 if the steepness allows it.

        For each doubling after the first: its users less the fewest allowed. `cumulative` (k,
        doublings) has the share of each population's users before each of ``doublings``. Shape
        (constraints, k). For a population even over ranks 1 to 3, and one at rank 1 alone:

        >>> Assumption(steepness=4.0).constraints(np.array([[0.0, 1 / 3, 1.0], [0.0, 1.0, 1.0]]))
        array([[ 0.5, -0.5]])
        """
        if not np.isfinite(self.steepness) or cumulative.shape[1] < 3:
            return np.zeros((0, len(cumulative)))
        shares = np.diff(cumulative, axis=1)
        return np.asarray((shares[:, 1:] - 2.0 / self.steepness * shares[:, :-1]).T)


def checked_assumption(value: Assumption | str | None) -> Assumption | None:
    """An assumption by its name, or as it is; ValueError for anything else."""
    if value is None or isinstance(value, Assumption):
        return value
    if not isinstance(value, str) or value != "decreasing":
        raise ValueError(
            f"assumption must be an Assumption, 'decreasing' or None, got {as_written(value)}"
        )
    return Assumption()


def doublings(top: int) -> IntArray:
    """Ranks before each whole doubling {1}, {2, 3}, ... of the first `top`, and in all."""
    return np.asarray(2 ** np.arange(int(np.log2(top + 1)) + 1, dtype=np.int64) - 1)


def assumption_name(assumption: Assumption | None) -> str:
    """The name of an assumption; "none" if nothing is assumed."""
    return NONE if assumption is None else assumption.name

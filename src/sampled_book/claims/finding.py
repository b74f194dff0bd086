"""What a check of a published claim finds, and how the status of the claim follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from math import erfc, exp, pi, sqrt
from typing import Any, NamedTuple

from sampled_metrics import metric

REPRODUCED = "reproduced"
UNSTATED = "reproduced under a setting that the source does not state"
NOT_HERE = "not reproduced here"
CONTRADICTED = "contradicted"
STATUSES = (CONTRADICTED, NOT_HERE, UNSTATED, REPRODUCED)

#: Why a number of the authors' runs that ours do not give is not contradicted by them.
OWN_RUNS = "it is of the authors' own runs, whose settings are not all known"

#: A printed average over random runs agrees if it is less than this many standard errors away.
Z_LIMIT = 3.0


class Distance(NamedTuple):
    """Distance of a published number from its expected value, `z` in standard errors, and the
    probabilities of a distance beyond 2 and beyond 3 if the claim holds.
    """

    z: float
    beyond_2: float
    beyond_3: float


@dataclass(frozen=True)
class Finding:
    """What a check computed.

    `ours`: our value, as the ledger shows it. `holds`: whether the claim holds, under the source's
    own settings or under `setting`, one that the source does not state and the claim needs.
    `evidence`: the result under the source's settings, where that is not the claim. `distances`:
    from the exact values to a published average over runs, standard deviation, or count of runs.
    `unsettled`: why our computation cannot decide against the claim, because it is about the
    authors' own runs or data; empty for formulas, arithmetic, "always" and "never".
    """

    ours: str
    holds: bool
    setting: str = ""
    evidence: str = ""
    distances: tuple[Distance, ...] = ()
    unsettled: str = ""

    def __post_init__(self) -> None:
        if not self.ours:
            raise ValueError("a finding must show what was computed")
        if (self.setting or not self.holds) and not self.evidence:
            raise ValueError(f"a finding that is not plainly the claim needs evidence: {self}")

    def noted(self, note: str) -> Finding:
        """The finding with another sentence of evidence."""
        return replace(self, evidence=_joined(self.evidence, note))

    @property
    def status(self) -> str:
        """One of `STATUSES`."""
        if not self.holds:
            return NOT_HERE if self.unsettled else CONTRADICTED
        return UNSTATED if self.setting else REPRODUCED


@dataclass(frozen=True)
class Trial:
    """What one setting gives; an empty setting is what the source states."""

    ours: str
    holds: bool
    setting: str = ""
    distances: tuple[Distance, ...] = ()


def judge(*trials: Trial, note: str = "", unsettled: str = "") -> Finding:
    """The finding of the first trial that holds; the trials go from the stated setting outwards.

    `note` is evidence to show beside what the stated setting gives; `unsettled` says why the
    claim is not contradicted where no trial holds.
    """
    if trials[0].setting:
        raise ValueError("the first trial must be of what the source states")
    for trial in trials:
        if trial.holds:
            evidence = _joined(f"As stated: {trials[0].ours}.", note) if trial.setting else ""
            return Finding(trial.ours, True, trial.setting, evidence, trial.distances, unsettled)
    summary = f"We find {trials[0].ours}"
    if len(trials) > 1:
        summary += f" as stated, and {trials[-1].ours} if {trials[-1].setting}"
    evidence = _joined(f"{summary}.", note)
    return Finding(trials[-1].ours, False, "", evidence, trials[-1].distances, unsettled)


def judged(ours: str, holds: bool, note: str = "", unsettled: str = "") -> Finding:
    """The finding of a check that has one setting, the stated one; the rest as :func:`judge`."""
    return judge(Trial(ours, holds), note=note, unsettled=unsettled)


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


@dataclass(frozen=True)
class Printed:
    """A number as a paper prints it: its value and half a unit of its last digit."""

    value: float
    half_unit: float
    decimals: int

    @classmethod
    def parse(cls, text: str) -> Printed:
        """Read "0.990", "1,600" or "~5,000".

        >>> Printed.parse("0.990")
        Printed(value=0.99, half_unit=0.0005, decimals=3)
        """
        number = Decimal(text.strip().lstrip("~<>").replace(",", "").rstrip("%"))
        decimals = max(0, -int(number.as_tuple().exponent))
        return cls(float(number), 0.5 * 10.0**-decimals, decimals)

    def rounds_from(self, value: float) -> bool:
        """Whether `value`, rounded to the printed digits, is the printed number.

        >>> Printed.parse("1.58").rounds_from(1.58496), Printed.parse("1.58").rounds_from(1.5851)
        (True, False)
        """
        return abs(value - self.value) <= self.half_unit * (1 + 1e-9)

    def z(self, value: float, standard_error: float) -> float:
        """Standard errors between `value` and the nearest number that rounds to the printed one.

        >>> round(Printed.parse("0.63").z(0.66, 0.01), 9)
        2.5
        """
        gap = abs(value - self.value) - self.half_unit * (1 + 1e-9)
        if gap <= 0:
            return 0.0
        return float(gap / standard_error) if standard_error > 0 else float("inf")

    def distance(self, value: float, standard_error: float) -> Distance:
        """`z`, and what it may be by chance: a normal error and then the rounding.

        >>> found = Printed.parse("0.63").distance(0.66, 0.01)
        >>> [round(part, 3) for part in found]
        [2.5, 0.016, 0.001]
        """
        rounding = float(self.half_unit / standard_error) if standard_error > 0 else float("inf")
        chances = (_beyond(limit, rounding) for limit in (2.0, Z_LIMIT))
        return Distance(self.z(value, standard_error), *chances)


def _beyond(limit: float, rounding: float) -> float:
    """P(abs(N + U) > limit + rounding): N standard normal, U uniform on [-rounding, rounding]."""
    if rounding < 1e-9:
        return erfc(limit / sqrt(2))
    if rounding == float("inf"):
        return 0.0

    def tail(x: float) -> float:  # the integral of the normal's tail probability from x on
        return exp(-(x**2) / 2) / sqrt(2 * pi) - x * erfc(x / sqrt(2)) / 2

    return (tail(limit) - tail(limit + 2 * rounding)) / rounding


def made_by(
    settle: Callable[[Callable[..., Any]], Finding],
) -> Callable[[Callable[..., Any]], Callable[..., Finding]]:
    """Make a check of a function that looks at one case; `settle` has it look at every one.

    The function takes what tells the cases apart, and after that what the check takes.
    """

    def check_of(look: Callable[..., Any]) -> Callable[..., Finding]:
        def check(*args: Any, **claim_args: Any) -> Finding:
            return settle(lambda *case: look(*case, *args, **claim_args))

        check.__name__, check.__doc__ = look.__name__, look.__doc__
        check.__module__ = look.__module__
        return check

    return check_of


def read_list(published: str, separator: str = ",") -> list[str]:
    """Read "ap, ndcg"; or, by another sign, "X > Y".

    >>> read_list("ap, ndcg"), read_list("X > Y", ">")
    (['ap', 'ndcg'], ['X', 'Y'])
    """
    return [part.strip() for part in published.split(separator)]


def one_of(published: str, *words: str) -> None:
    """Refuse what is none of the words that a check knows."""
    if published not in words:
        raise ValueError(f"published must be {' or '.join(map(repr, words))}, got {published!r}")


def listed(values: Mapping[str, object], form: str = "") -> str:
    """Names and their values, for a reader.

    >>> listed({"X": 7.75, "Y": 8.84}, ".1f")
    'X 7.8, Y 8.8'
    """
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def by_metric(values: Mapping[str, object], form: str = "") -> str:
    """The same for metrics, each by the label that the book has for it."""
    return listed({metric(kind).label: value for kind, value in values.items()}, form)


def printed_pair(text: str) -> tuple[Printed, Printed]:
    """Read "0.990 ± 0.004".

    >>> [part.value for part in printed_pair("0.990 ± 0.004")]
    [0.99, 0.004]
    """
    mean, spread = text.split("±")
    return Printed.parse(mean), Printed.parse(spread)

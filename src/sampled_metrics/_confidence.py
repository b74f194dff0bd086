"""What a range or a verdict promises: how often it is right, under which assumption, and why.

The assumption is about the true ranks. The warrant says why the confidence holds if the assumption
does.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How often ranges and verdicts are right if nobody asks for another confidence.
CONFIDENCE = 0.95
#: The two-sided normal quantile of this confidence, to the two digits in common use.
NORMAL_QUANTILE = 1.96
#: No assumption on the true ranks.
NONE = "none"
#: No assumption either, but a statement of the log's users and not of a population.
OF_USERS = "none, of these users"
#: The condition of what needs no assumption on the true ranks.
WHATEVER = "whatever the ranks"
WHATEVER_OF_USERS = f"{WHATEVER}, and of these users alone"
#: By a theorem, for any number of users.
THEOREM = "theorem"
#: By the central limit theorem, for many users.
LARGE_SAMPLE = "large sample"
#: Calibrated on evaluations drawn from the benchmark's recommenders, whose exact ranks are known.
TRACK_RECORD = "track record"
#: What a track record assumes.
LIKE_BENCHMARK = "recommenders and data are like the benchmark's"
#: The verdict on a pair that a log does not decide.
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Assumed:
    """The setting *assumed* of a result: conditions, and the metrics whose ranges need none.

    >>> str(Assumed(("n_above is without bias",), ("auc",))), str(Assumed())
    ('that n_above is without bias; nothing for auc', 'nothing')
    """

    conditions: tuple[object, ...] = ()
    free_metrics: tuple[str, ...] = ()
    of_users: bool = False
    """Whether ranges that assume nothing are of the log's users, and not of a population."""

    @property
    def conditions_text(self) -> str:
        return "; ".join(f"that {condition}" for condition in self.conditions) or "nothing"

    def __str__(self) -> str:
        exempt = f"; nothing for {', '.join(self.free_metrics)}" if self.free_metrics else ""
        return self.conditions_text + exempt


def percent(confidence: float) -> str:
    """A confidence as a percentage.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * confidence:.4g}%"


def promise(assumption: str, warrant: str, confidence: float) -> str:
    """The confidence and the condition of a verdict, as printed beside it.

    >>> promise(NONE, THEOREM, 0.95), promise(NONE, LARGE_SAMPLE, 0.9)
    ('95% confidence, whatever the ranks', 'large sample, whatever the ranks')
    >>> promise(OF_USERS, THEOREM, 0.95)
    '95% confidence, whatever the ranks, and of these users alone'
    >>> print(promise("decreasing at the top", THEOREM, 0.9))
    90% confidence, if deeper ranks have fewer users
    """
    ground = f"{percent(confidence)} confidence" if warrant == THEOREM else warrant
    if assumption in (NONE, OF_USERS):
        return f"{ground}, {WHATEVER if assumption == NONE else WHATEVER_OF_USERS}"
    condition = assumption.replace("decreasing at the top", "deeper ranks have fewer users")
    return f"{ground}, if {condition}"

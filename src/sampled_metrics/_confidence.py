"""What a range or a verdict promises: how often it is right, under which assumption, and why.

:class:`~sampled_metrics.Assumption` names the assumptions. The warrant says why the confidence
holds if the assumption does.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How often ranges and verdicts are right if nobody asks for another confidence.
CONFIDENCE = 0.95
#: The two-sided normal quantile of this confidence, to the two digits in common use.
NORMAL_QUANTILE = 1.96
#: No assumption on the true ranks.
NONE = "none"
#: Proved for any number of users.
PROVED = "proved"
#: By the central limit theorem, for many users.
LARGE_SAMPLE = "large sample"
#: Calibrated on evaluations drawn from the benchmark's recommenders, whose exact ranks are known.
TRACK_RECORD = "track record"
#: What a track record assumes.
LIKE_BENCHMARK = "recommenders and data are like the benchmark's"


@dataclass(frozen=True)
class Assumed:
    """The setting *assumed* of a result: conditions, and the metrics whose ranges need none.

    >>> str(Assumed(("n_above is without bias",), ("auc",))), str(Assumed())
    ('that n_above is without bias; nothing for auc', 'nothing')
    """

    conditions: tuple[object, ...] = ()
    free_metrics: tuple[str, ...] = ()

    @property
    def conditions_text(self) -> str:
        return "; ".join(f"that {condition}" for condition in self.conditions) or "nothing"

    def __str__(self) -> str:
        exempt = f"; nothing for {', '.join(self.free_metrics)}" if self.free_metrics else ""
        return self.conditions_text + exempt


def promise(assumption: str, warrant: str) -> str:
    """The assumption and the warrant, as printed beside a verdict.

    >>> promise(NONE, PROVED), promise('decreasing at the top', PROVED)
    ('proved, no assumption on the ranks', 'proved, if decreasing at the top')
    """
    if assumption == NONE:
        return f"{warrant}, no assumption on the ranks"
    return f"{warrant}, if {assumption}"

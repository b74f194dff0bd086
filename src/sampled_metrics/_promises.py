"""The names of what a range or verdict rests on: an assumption on the true ranks, and a warrant.

:class:`~sampled_metrics.Assumption` names the assumptions. The warrant says why
the stated confidence is right if the assumption holds.
"""

from __future__ import annotations

#: How often ranges and verdicts are right if nobody asks for another confidence.
CONFIDENCE = 0.95
#: No assumption on the true ranks.
NONE = "none"
#: Proved for any number of users.
PROVED = "proved"
#: By the central limit theorem, for many users.
LARGE_SAMPLE = "large sample"


def promise(assumption: str, warrant: str) -> str:
    """The assumption and the warrant, as printed beside a verdict.

    >>> promise(NONE, PROVED), promise('decreasing at the top', PROVED)
    ('no assumption on the ranks; proved', 'decreasing at the top; proved')
    """
    return f"{'no assumption on the ranks' if assumption == NONE else assumption}; {warrant}"

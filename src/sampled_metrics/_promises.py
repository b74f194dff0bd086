"""The words for what a range or a verdict promises: its assumption and its warrant.

Assumptions have their names from :class:`~sampled_metrics.bounds.assumption.Assumption`. The
warrant says why a range or a verdict is right as often as the confidence says, where the assumption
holds.
"""

from __future__ import annotations

#: Nothing is assumed of the true ranks.
NONE = "none"
#: There is a proof for any number of users.
PROVED = "proved"
#: By the central limit theorem, so that it needs many users.
LARGE_SAMPLE = "large sample"


def promise(assumption: str, warrant: str) -> str:
    """The assumption and the warrant as they stand beside a verdict.

    Examples
    --------
    >>> promise(NONE, PROVED), promise('decreasing at the top', PROVED)
    ('no assumption on the ranks; proved', 'decreasing at the top; proved')
    """
    return f"{'no assumption on the ranks' if assumption == NONE else assumption}; {warrant}"

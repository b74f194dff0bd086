"""The words for what a range or a verdict promises: its assumption and its warrant.

The assumption is on the true ranks near the top. The warrant says why a range or a verdict is right
as often as the confidence says, where the assumption holds.
"""

from __future__ import annotations

#: Nothing is assumed of the true ranks.
NONE = "none"
#: Near the top, deeper ranks have fewer users.
DECREASING = "decreasing at the top"
#: Near the top, moreover, at most k times fewer users from one doubling of the rank to the next.
AT_MOST = "at most {:g} times per doubling"
#: Near the top, the users are a mixture of geometric distributions.
GEOMETRIC = "mixture of geometrics"

#: There is a proof for any number of users.
PROVED = "proved"
#: By the central limit theorem, so that it needs many users.
LARGE_SAMPLE = "large sample"


def promise(assumption: str, warrant: str) -> str:
    """The assumption and the warrant as they stand beside a verdict.

    Examples
    --------
    >>> promise(NONE, PROVED), promise(AT_MOST.format(4), PROVED)
    ('no assumption on the ranks; proved', 'at most 4 times per doubling; proved')
    """
    return f"{'no assumption on the ranks' if assumption == NONE else assumption}; {warrant}"

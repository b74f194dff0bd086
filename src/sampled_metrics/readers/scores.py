"""Counts of negatives above each relevant item, from a table of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .._validate import as_written
from ..log.columns import refuse_twice
from .candidates import KEY, checked_candidates, collapsed, count_above

if TYPE_CHECKING:
    import pandas as pd


def from_scores(
    rows: pd.DataFrame, *, duplicates: Literal["refuse", "keep", "collapse"] = "refuse"
) -> pd.DataFrame:
    """Count how many negatives scored above each relevant item, from the scores of all candidates.

    Parameters
    ----------
    rows : DataFrame
        A row for each candidate of each user: columns user, item, score (higher is better, may be
        infinite) and relevant (True or 1 for held-out items, False or 0 for negatives); optionally
        recommender.
    duplicates : {"refuse", "keep", "collapse"}
        How to treat an item that appears twice among a user's candidates, as after drawing with
        replacement. "keep" counts every copy. "collapse" counts it once, and a relevant item never
        as a negative, like software that stores scores by item (NCF, RecBole); given their number,
        the distinct negatives are a sample without replacement.

    Returns
    -------
    DataFrame
        For :func:`~sampled_metrics.read_log`: a row for each relevant item with the columns
        recommender, user, item, n_better, n_tied and n_negatives (of the user; distinct ones after
        "collapse"). Users without a relevant item are left out. Give the size of the catalogue to
        `read_log`. Except after "keep", ``attrs["replacement"]`` tells `read_log` that candidates
        are distinct. ``attrs["shared_negatives"]`` says whether most users have the same negatives
        as another user. A CSV file does not hold attrs.

    Raises
    ------
    ValueError
        If a column, user or item is missing, a score is NaN or not a number, `relevant` is not 0 or
        1, an item appears twice under "refuse" or with two scores under "collapse", `duplicates` is
        unknown, or there is no relevant item.

    See Also
    --------
    sampled_metrics.read_log : Read the rows that this function returns.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame(
    ...     {"user": 7, "item": ["a", "b", "c", "c"], "score": [0.5, 0.9, 0.5, 0.5],
    ...      "relevant": [1, 0, 0, 0]}
    ... )
    >>> from_scores(rows, duplicates="collapse")[["item", "n_better", "n_tied", "n_negatives"]]
      item  n_better  n_tied  n_negatives
    0    a         1       1            2
    """
    import pandas as pd

    if duplicates not in ("refuse", "keep", "collapse"):
        raise ValueError(
            f"duplicates must be 'refuse', 'keep' or 'collapse', got {as_written(duplicates)}"
        )
    if not isinstance(rows, pd.DataFrame):
        raise ValueError(f"rows must be a data frame, got {type(rows).__name__}")
    table = checked_candidates(rows, "the table")
    if duplicates == "collapse":
        table = collapsed(table)
    if duplicates == "refuse":
        refuse_twice(table, KEY, "the table", ": say whether to keep or collapse duplicates")
    counts = count_above(table, "the table")
    if duplicates == "keep":
        del counts.attrs["replacement"]
    return counts

"""Scores of candidates, counted into a log."""

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
        A row for each candidate of each user: columns user, item, score (higher is better,
        infinite ones allowed) and relevant (True or 1 for held-out items, False or 0 for
        negatives); optionally recommender.
    duplicates : {"refuse", "keep", "collapse"}
        What to do where an item stands twice among a user's candidates, as it may after negatives
        were drawn with replacement. "keep" counts each time; "collapse" counts it once, and a
        relevant item never as a negative. Software that keeps scores by item (NCF's, RecBole's)
        collapses; given how many negatives are left, they are then a sample without replacement.

    Returns
    -------
    DataFrame
        What :func:`~sampled_metrics.read_log` takes: columns recommender, user, item, n_better,
        n_tied and n_negatives, a row for each relevant item; n_negatives is the user's number of
        negatives, distinct ones after "collapse". Users without a relevant item are left out. The
        size of the catalogue is not in a table of candidates: give it to `read_log`. Candidates are
        distinct but after "keep": `read_log` finds that in ``attrs["replacement"]``, and in
        ``attrs["shared_negatives"]`` whether most users have a list of another user, which a CSV
        file does not hold.

    Raises
    ------
    ValueError
        If a column is missing, a user or an item is missing, a score is no number or NaN,
        `relevant` is not 0 or 1, `duplicates` is another word, an item stands twice under
        "refuse" or with two scores under "collapse", or there is no relevant item.

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

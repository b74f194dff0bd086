"""Recommendations and test interactions of the library RecTools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from .._validate import as_written
from ..log.columns import listed, need
from ..log.sources import Tabular, loaded
from .candidates import judged_run, real_column, scored_candidates

if TYPE_CHECKING:
    import pandas as pd


def rectools(
    reco: Tabular,
    interactions: Tabular,
    candidates: Tabular | None = None,
    *,
    unscored: Literal["refuse", "tied last"] = "refuse",
) -> pd.DataFrame:
    """Recommendations and test interactions as the library RecTools has them.

    Parameters
    ----------
    reco : DataFrame, or CSV or Parquet file
        Columns user_id, item_id and score, or rank (1 the best) where there is no score; with
        several models a column model, too. It must hold all candidates, not the first k alone:
        ask the model for as many items as there are.
    interactions : DataFrame, or CSV or Parquet file
        The test interactions: columns user_id and item_id, others being left out. An item that
        stands twice counts once. Ids are numbers or text, of one kind in all tables.
    candidates : DataFrame, or CSV or Parquet file, optional
        The negatives that were drawn: columns user_id and item_id, with or without the test items.
        The other items of `reco` are left out then. By default its items are the candidates.
    unscored : {"refuse", "tied last"}
        What to do with candidates that a model did not score. "tied last" puts them below the
        others and level with each other, as with models that recommend only what is similar to
        what the user knows; it needs `candidates`.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`.

    Raises
    ------
    ValueError
        If a column is missing, a row of `reco` stands twice, a candidate has no score under
        "refuse", or `reco` was cut at its best k items: under "tied last" that is where half of
        the lists that lack a candidate, or more, are as long as the longest, and differ.

    Examples
    --------
    >>> import pandas as pd
    >>> reco = pd.DataFrame({"user_id": 1, "item_id": [7, 8, 9], "rank": [1, 2, 3]})
    >>> rectools(reco, pd.DataFrame({"user_id": [1], "item_id": [8]}))
       recommender  user  item  n_better  n_tied  n_negatives
    0  recommender     1     8         1       0            2
    """
    import pandas as pd

    given, source = loaded(reco, "reco")
    rows = _renamed(given, source)
    if "score" not in rows:
        if "rank" not in rows:
            raise ValueError(
                f"{source} must have a column score or rank, got {listed(given.columns)}"
            )
        rows["score"] = -real_column(rows, "rank", source).astype(np.float64)
    tested = _renamed(*loaded(interactions, "interactions"))[["user", "item"]].drop_duplicates()
    if unscored not in ("refuse", "tied last"):
        raise ValueError(f"unscored must be 'refuse' or 'tied last', got {as_written(unscored)}")
    if candidates is not None:
        negatives = _renamed(*loaded(candidates, "candidates"))[["user", "item"]]
        wanted = pd.concat([tested, negatives]).drop_duplicates()
        rows = scored_candidates(rows, wanted, source, unscored)
    elif unscored == "tied last":
        raise ValueError("unscored must be 'refuse' without candidates: nobody knows how many tie")
    return judged_run(rows, tested, source)


def _renamed(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """A table of RecTools under a log's own names of columns."""
    names = {"user_id": "user", "item_id": "item", "model": "recommender"}
    renamed = frame.rename(columns=names)
    need(renamed, ["user", "item"], source, names)
    return renamed

"""Recommendations and test interactions of the library RecTools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from .._validate import as_written
from ..log.columns import listed, require_columns
from ..log.query_values import TopLists, top_lists
from ..log.tables import Tabular, loaded
from .candidates import judged_run, real_column, scored_candidates
from .trec import QUERY

if TYPE_CHECKING:
    import pandas as pd


def rectools(
    reco: Tabular,
    interactions: Tabular,
    candidates: Tabular | None = None,
    *,
    unscored: Literal["refuse", "tied last"] = "refuse",
    of_all: bool = False,
) -> pd.DataFrame | TopLists:
    """Read recommendations and test interactions of the library RecTools.

    Parameters
    ----------
    reco : DataFrame, or CSV or Parquet file
        Columns user_id, item_id and score, or rank (1 the best) if there is no score; with several
        models also model. It must hold all candidates, not only the first k: ask the model for as
        many items as there are.
    interactions : DataFrame, or CSV or Parquet file
        The test interactions: columns user_id and item_id; others are ignored, and duplicates count
        once. Ids are numbers or text, of the same type in all tables.
    candidates : DataFrame, or CSV or Parquet file, optional
        The negatives that were drawn: columns user_id and item_id, with or without the test items.
        Other items of `reco` are then ignored. By default all items of `reco` are candidates.
    unscored : {"refuse", "tied last"}
        How to treat candidates without a score. "tied last" puts them below all others, tied with
        each other, for models that recommend only items similar to the user's; needs `candidates`.
    of_all : bool, optional
        Whether `reco` holds the first items of the whole catalogue, cut at some rank, as for
        :func:`trec`.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; with `of_all` lists, as from :func:`trec`.

    Raises
    ------
    ValueError
        If a column is missing, a row of `reco` appears twice, a candidate has no score under
        "refuse", or `reco` seems to be cut at its best k items under "tied last": at least half of
        the lists that lack a candidate are as long as the longest list, and lists differ.

    See Also
    --------
    sampled_metrics.readers.from_scores : The same from the scores of any software.
    sampled_metrics.read_log : Read the rows that this function returns.

    Examples
    --------
    >>> import pandas as pd
    >>> reco = pd.DataFrame({"user_id": 1, "item_id": [7, 8, 9], "rank": [1, 2, 3]})
    >>> rectools(reco, pd.DataFrame({"user_id": [1], "item_id": [8]}))
       recommender  user  item  n_better  n_tied  n_negatives
    0  recommender     1     8         1       0            2
    """
    import pandas as pd

    recommendations, origin = loaded(reco, "reco")
    rows = _renamed(recommendations, origin)
    if "score" not in rows:
        if "rank" not in rows:
            raise ValueError(
                f"{origin} must have a column score or rank, got {listed(recommendations.columns)}"
            )
        rows["score"] = -real_column(rows, "rank", origin).astype(np.float64)
    tested = _renamed(*loaded(interactions, "interactions"))[["user", "item"]].drop_duplicates()
    if of_all:
        return _top_lists(rows, tested, origin)
    if unscored not in ("refuse", "tied last"):
        raise ValueError(f"unscored must be 'refuse' or 'tied last', got {as_written(unscored)}")
    if candidates is not None:
        negatives = _renamed(*loaded(candidates, "candidates"))[["user", "item"]]
        candidate_pairs = pd.concat([tested, negatives]).drop_duplicates()
        rows = scored_candidates(rows, candidate_pairs, origin, unscored)
    elif unscored == "tied last":
        raise ValueError("unscored must be 'refuse' without candidates: nobody knows how many tie")
    return judged_run(rows, tested, origin)


def _top_lists(rows: pd.DataFrame, tested: pd.DataFrame, origin: str) -> TopLists:
    if "recommender" not in rows:
        rows = rows.assign(recommender="recommender")
    return top_lists(
        rows.rename(columns=QUERY), tested.assign(rel=1.0).rename(columns=QUERY), origin
    )


def _renamed(frame: pd.DataFrame, origin: str) -> pd.DataFrame:
    """A table of RecTools with the column names of a log."""
    names = {"user_id": "user", "item_id": "item", "model": "recommender"}
    renamed = frame.rename(columns=names)
    require_columns(renamed, ["user", "item"], origin, names)
    return renamed

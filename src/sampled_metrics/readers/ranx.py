"""Runs and relevance judgements of the library ranx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .candidates import judged_run, real_column

if TYPE_CHECKING:
    import pandas as pd


def ranx(run: Any, qrels: Any, *, recommender: str | None = None) -> pd.DataFrame:
    """Read a ``Run`` and ``Qrels`` of the library ranx.

    Parameters
    ----------
    run : ranx.Run, or mapping of query to mapping of document to score
        The form of ``Run.to_dict()`` and ranx's JSON files.
    qrels : ranx.Qrels, or mapping of query to mapping of document to relevance
        A document is relevant if its relevance is at least 1, as in ranx.
    recommender : str, optional
        By default the run's name.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the query and item the document.

    Raises
    ------
    ValueError
        If an argument has another type, a score is not a number, or a relevant document is not in
        the run.

    See Also
    --------
    sampled_metrics.readers.trec : The same from files in TREC's formats.
    sampled_metrics.read_log : Read the rows that this function returns.

    Examples
    --------
    >>> ranx({"q1": {"d1": 0.1, "d2": 0.9}}, {"q1": {"d1": 1}}, recommender="bm25")
      recommender user item  n_better  n_tied  n_negatives
    0        bm25   q1   d1         1       0            1
    """
    rows = _nested(run, "run", "score")
    rows["recommender"] = recommender or getattr(run, "name", None) or "recommender"
    judged = _nested(qrels, "qrels", "relevance")
    judged["relevance"] = real_column(judged, "relevance", "qrels")
    return judged_run(rows, judged.loc[judged["relevance"] >= 1, ["user", "item"]], "run")


def _nested(mapping: Any, name: str, value: str) -> pd.DataFrame:
    """Rows of a mapping of user to mapping of item to value."""
    import pandas as pd

    table = mapping.to_dict() if hasattr(mapping, "to_dict") else mapping
    if not isinstance(table, Mapping) or not all(isinstance(v, Mapping) for v in table.values()):
        raise ValueError(
            f"{name} must map each query to a mapping of documents, got {type(mapping).__name__}"
        )
    rows = pd.DataFrame(
        [(user, item) for user, value_by_item in table.items() for item in value_by_item],
        columns=["user", "item"],
    )
    numbers = [number for value_by_item in table.values() for number in value_by_item.values()]
    rows[value] = pd.Series(numbers, dtype=object)  # pandas 2 refuses numbers too large for floats
    return rows

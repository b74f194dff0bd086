"""Is a new recommender better than the old one? For continuous integration."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._confidence import LARGE_SAMPLE, NONE, THEOREM, UNDECIDED, promise
from ._validate import as_written
from .evaluation.comparison import compare
from .log.columns import meaning
from .log.tables import loaded

if TYPE_CHECKING:
    import pandas as pd

    from .results import Comparison

#: Exit status by verdict; 2 is bad input.
STATUS = {"better": 0, "no worse": 0, "worse": 1, UNDECIDED: 3}
_LEAD = "undecided: a lead by track record decides nothing here"


def gate(
    old: str | Path | pd.DataFrame,
    new: str | Path | pd.DataFrame,
    metric: str,
    *,
    qrels: str | Path | None = None,
    queries_are_documents: bool | None = None,
    margin: float | None = None,
    **options: Any,
) -> tuple[str, Comparison]:
    """Compare two versions of a recommender or of a retriever.

    Parameters
    ----------
    old, new : str, Path or data frame
        A log of one recommender each, with the same users and the same columns; or a table of
        values by query each; or, with `qrels`, a TREC run each that lists the first documents of
        the whole corpus.
    metric : str
    qrels : str or Path, optional
        Relevance judgements, as for :func:`~sampled_metrics.readers.trec`.
    queries_are_documents : bool, optional
        Whether the document with a query's own id is the query, and no candidate.
    margin : float, optional
        In [0, 1): ask whether the new version is no worse by more than this.
    **options
        As for :func:`~sampled_metrics.read_log` (n_items, n_negatives, replacement, first_rank,
        anchors) and :func:`~sampled_metrics.compare` (assumption, confidence, progress).

    Returns
    -------
    verdict : {"better", "no worse", "worse", "undecided"}
        Of the new version, by a theorem or a large sample; with a margin "no worse", "worse" (by
        more than it) or "undecided". The lead of a track record decides nothing.
    comparison : Comparison

    Raises
    ------
    ValueError
        If a log has several recommenders, or the two have other users or columns.

    Examples
    --------
    >>> import pandas as pd
    >>> old = pd.DataFrame({"user": range(200), "rank": [30] * 200})
    >>> sizes = {"n_items": 1_000, "n_negatives": 100, "replacement": False}
    >>> verdict, comparison = gate(old, old.assign(rank=1), "auc", **sizes)
    >>> verdict, comparison.sentences[0]
    ('better', 'new beats old on AUC (95% confidence, whatever the ranks).')
    """
    if margin is not None and not (isinstance(margin, numbers.Real) and 0 <= margin < 1):
        raise ValueError(f"margin must be a number in [0, 1), got {as_written(margin)}")
    comparison = compare(
        _log(old, new, metric, (qrels, queries_are_documents), options), metric, **options
    )
    if len(comparison.frame) > 1:  # data sets, of which the first row is the mean
        comparison = replace(comparison, frame=comparison.frame.iloc[:1])
    row = comparison.frame.iloc[0]
    if margin is not None:
        verdict, note = _within(row, float(margin), comparison.settings)
        return verdict, replace(comparison, notes=(note, *comparison.notes))
    winner = str(row["verdict"]).partition(" ")[0]
    if row["verdict"] != UNDECIDED and row["warrant"] in (THEOREM, LARGE_SAMPLE):
        return {"new": "better", "old": "worse"}[winner], comparison
    if row["verdict"] != UNDECIDED:
        comparison = replace(comparison, notes=(_LEAD, *comparison.notes))
    return UNDECIDED, comparison


def _within(row: pd.Series, margin: float, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Whether the new version is worse by more than a margin, by either interval; and a note."""
    sign = 1.0 if row["first"] == "new" else -1.0
    verdict, ground, assumption = UNDECIDED, "", row["assumption"]
    if not assumption and settings["assumed"].conditions:
        assumption = "; ".join(map(str, settings["assumed"].conditions))
    for kind, warrant in (("student", LARGE_SAMPLE), ("possible", THEOREM)):
        low, high = sorted(sign * row[f"{kind}_{end}"] for end in ("low", "high"))
        if low > -margin or high < -margin:
            verdict = "no worse" if low > -margin else "worse"
            ground = f" ({promise(assumption or NONE, warrant, settings['confidence'])})"
    if verdict == UNDECIDED:
        return verdict, f"whether new is worse than old by more than {margin:g} is undecided"
    return verdict, f"new is {verdict} than old by more than {margin:g}{ground}"


def _log(
    old: Any, new: Any, metric: str, judged: tuple[Any, bool | None], options: dict[str, Any]
) -> Any:
    """The log of both versions, or their lists or values; takes what it reads from `options`."""
    import pandas as pd

    from .designs.options import checked_metrics
    from .log.query_values import query_values
    from .log.read import read_log

    of_log = ("n_items", "n_negatives", "replacement", "first_rank", "anchors")
    sizes = {name: options.pop(name, None) for name in of_log}
    if judged[0] is not None:
        from .readers.trec import versions

        return versions({"old": old, "new": new}, *judged)
    frames = [_one(tabular, name) for name, tabular in (("old", old), ("new", new))]
    names = [set(frame.columns) for frame in frames]
    if names[0] != names[1]:
        extra = sorted(map(str, names[0] ^ names[1]))
        raise ValueError(f"the new log must have the columns of the old one; differing: {extra}")
    joint = pd.concat(frames, ignore_index=True)
    if all(size is None for size in sizes.values()):
        values = query_values(joint, checked_metrics(metric, joint))
        if values is not None:
            return values
    return read_log(joint, **sizes)


def _one(tabular: Any, name: str) -> pd.DataFrame:
    """The log of one recommender, under a name that says which version it is."""
    frame, origin = loaded(tabular, f"the {name} log")
    columns = [column for column in frame.columns if meaning(column) == "recommender"]
    for column in columns:
        if frame[column].nunique() > 1:
            several = ", ".join(map(str, frame[column].unique()[:5]))
            raise ValueError(f"{origin} must have one recommender, got {several}")
    return frame.drop(columns=columns).assign(recommender=name)

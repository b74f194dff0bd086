"""Is a new recommender better than the old one? For continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._confidence import UNDECIDED
from .evaluation.comparison import compare
from .log.columns import meaning
from .log.sources import loaded

if TYPE_CHECKING:
    import pandas as pd

    from .results import Comparison

#: Exit status by verdict; 2 is bad input.
STATUS = {"better": 0, "worse": 1, UNDECIDED: 3}


def gate(
    old: str | Path | pd.DataFrame, new: str | Path | pd.DataFrame, metric: str, **options: Any
) -> tuple[str, Comparison]:
    """Compare the logs of two versions of a recommender.

    Parameters
    ----------
    old, new : str, Path or data frame
        A log of one recommender each, with the same users and the same columns.
    metric : str
    **options
        As for :func:`~sampled_metrics.read_log` (n_items, n_negatives, replacement) and
        :func:`~sampled_metrics.compare` (assumption, confidence, progress).

    Returns
    -------
    verdict : {"better", "worse", "undecided"}
        Of the new version. The comparison says whether its verdict has the confidence asked for,
        or is by a track record, and of which recommenders.
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
    import pandas as pd

    from .log.read import read_log

    frames = [_one(source, name) for name, source in (("old", old), ("new", new))]
    names = [set(frame.columns) for frame in frames]
    if names[0] != names[1]:
        only = sorted(map(str, names[0] ^ names[1]))
        raise ValueError(f"the new log must have the columns of the old one; differing: {only}")
    given = {key: options.pop(key, None) for key in ("n_items", "n_negatives", "replacement")}
    log = read_log(pd.concat(frames, ignore_index=True), **given)
    comparison = compare(log, metric, **options)
    (winner,) = comparison.frame["verdict"].str.extract(r"^(new|old) ", expand=False)
    return {"new": "better", "old": "worse"}.get(winner, UNDECIDED), comparison


def _one(source: Any, name: str) -> pd.DataFrame:
    """The log of one recommender, under a name that says which version it is."""
    frame, place = loaded(source, f"the {name} log")
    columns = [column for column in frame.columns if meaning(column) == "recommender"]
    for column in columns:
        if frame[column].nunique() > 1:
            several = ", ".join(map(str, frame[column].unique()[:5]))
            raise ValueError(f"{place} must have one recommender, got {several}")
    return frame.drop(columns=columns).assign(recommender=name)

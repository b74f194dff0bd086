"""Groups of users by how often their held-out item occurs in other data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..log.columns import labelled, log_names, require_columns, whole
from ..log.sources import Tabular, loaded

if TYPE_CHECKING:
    import pandas as pd


def popularity_bands(
    log: str | Path | Sequence[str | Path] | pd.DataFrame, counts: Tabular
) -> pd.DataFrame:
    """The rows of a log with a column popularity: in which third the user's held-out item is.

    The bands are thirds of the users, by how often the item occurs; users whose items occur equally
    often share a band. :ref:`Groups <howto-groups>` has an example.

    Parameters
    ----------
    log : what read_log takes
        With a column item, and one held-out item for each user.
    counts : str, Path or data frame
        Columns item and count, such as the item's interactions in the training set. Counts of one
        item add up, and an item without a row counts 0.

    Returns
    -------
    pandas.DataFrame
        For :func:`~sampled_metrics.read_log` with ``by="popularity"``.

    Raises
    ------
    ValueError
        If a column is missing, has gaps or holds other values than these, a user has several items,
        or no item of the log is in `counts`.

    See Also
    --------
    sampled_metrics.estimate : Takes the column of groups as `by`.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"user": [1, 2, 3, 4], "item": [*"abcd"], "rank": [1, 2, 1, 1]})
    >>> counts = pd.DataFrame({"item": [*"abc"], "count": [90, 5, 2_000]})
    >>> popularity_bands(rows, counts)["popularity"].tolist()
    ['6 to 90', 'at most 5 interactions', 'more than 90', 'at most 5 interactions']
    """
    import pandas as pd

    if isinstance(log, str) and log == "bundled":
        raise ValueError("log must have a column item, got bundled, which has none")
    (rows, name), (table, place) = loaded(log, "the log"), loaded(counts, "the counts")
    rows = rows.set_axis(log_names(rows.columns, name, ("user", "item")), axis=1)
    table = table.set_axis(log_names(table.columns, place, ("item",)), axis=1)
    require_columns(rows, ["user", "item"], name)
    require_columns(table, ["item", "count"], place)
    count_of = pd.Series(whole(table, "count", 0, place)).groupby(_items(table, place)).sum()
    users = pd.DataFrame({"user": labelled(rows, "user", name), "item": _items(rows, name)})
    users["count"] = users["item"].map(count_of)
    each = users.drop_duplicates(["user", "item"])
    if each["count"].isna().all() or each["user"].duplicated().any():
        raise ValueError(
            f"for bands of popularity each user must have one item, and {place} some of these "
            f"items, got {len(each):,} of {each['user'].nunique():,} users in {name}, and "
            f"{each['count'].count():,} of them in {place}"
        )
    edges = each["count"].fillna(0).quantile([1 / 3, 2 / 3], interpolation="lower").unique()
    first, *others = map(int, edges)
    labels = [f"at most {first:,} interactions"]
    labels += [f"{first + 1:,} to {edge:,}".removeprefix(f"{edge:,} to ") for edge in others]
    labels.append(f"more than {int(edges[-1]):,}")
    bands = np.searchsorted(edges, users["count"].fillna(0))
    return rows.assign(popularity=pd.Categorical([labels[band] for band in bands], labels))


def _items(frame: pd.DataFrame, source: str) -> pd.Series:
    """The items as text, since one file may have numbers and the other text."""
    return labelled(frame, "item", source).map(str)

"""The log of a sampled evaluation, read and checked, and the one bundled with the package.

A log has a row for each held-out item: how many of the sampled negatives scored above it and
how many the same. All that later modules need to know of an evaluation is in these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validate import as_written, shortened
from ..adaptive import Adaptive
from ..protocol import Protocol
from .columns import INPUT, check_columns, log_names, warn_ignored, whole
from .compact import COLUMNS, Log
from .rows import Sizes, log_of_frame, says_instances, warn_of_instances
from .scan import Scan
from .sources import Table, files, has_engine, is_dask, loaded, opened_dask

if TYPE_CHECKING:
    import pandas as pd

#: Columns of exact ranks.
_EXACT = ("n_candidates", "n_relevant", "n_better", "n_tied", "user")
#: Seed and number of negatives of the bundled log.
BUNDLED_NEGATIVES = 100
_REPLACEMENT_MISSING = (
    "replacement is missing: say whether one user's negatives may repeat (replacement=True, "
    "--replacement) or are distinct, as from random.sample or after duplicates were removed "
    "(replacement=False, --no-replacement); sampled-metrics audit tells it from the negatives"
)
#: Where the bundled log is.
BUNDLE = Path(__file__).parents[1] / "data"


def read_log(
    source: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    protocol: Protocol | Adaptive | None = None,
    shared_negatives: bool | None = None,
) -> Log:
    """Read and check the log of a sampled evaluation.

    Parameters
    ----------
    source : str, Path, sequence of these, or data frame of pandas, Polars, Arrow, Dask or Spark
        A CSV file (also .csv.gz), a Parquet file, several of them (a list, a folder, or a pattern
        such as ``"log/*.parquet"``), a data frame, or "bundled" for the log that comes with the
        package. Folders named as in recommender=ALS say a column. A row for each held-out item,
        with the columns

        - recommender: its name; may be missing if there is one only;
        - user: number or text;
        - either n_better and n_tied, the sampled negatives that scored above the item and the
          same, or rank, in [1, n_negatives + n_relevant], 1 the best, among the sampled
          negatives and the user's other relevant items;
        - item, optional: number or text of the held-out item;
        - instance, optional: number or text. Rows with the same recommender and user (and the
          same instance, if there is such a column) are the relevant items of one instance, ranked
          together among the same negatives; where each item was ranked among negatives of its
          own, number them here;
        - n_above, optional, >= 0: an estimate of how many irrelevant items of the catalogue are
          above the item, from negatives that are not drawn alike, as
          :func:`~sampled_metrics.readers.weighted.counts_above` makes it;
        - n_items, n_negatives, optional: as below, where they differ from user to user;
        - count, optional: how many users have this row. All rows of one `user` have the same count
          then, so that `user` is a kind of users with equal rows under every recommender. If there
          is no user, each row is of users of its own, and recommenders cannot be compared.

        The names that other libraries give these columns are understood: RecTools' user_id and
        model, RecBole's user_id:token, trec_eval's qid and run, also in upper case. Other columns
        are left out. A warning says both.
    n_items : int, optional
        Candidates of each instance, the relevant items included, more than `n_relevant`.
    n_negatives : int, optional
        Sampled negatives of each instance, at least 1.
    replacement : bool
        Whether negatives were drawn with replacement, so that one user's may repeat. After
        duplicates were removed they are distinct: given how many are left, they are a sample
        without replacement. :func:`~sampled_metrics.auditing.audit` tells it from the negatives.
        It may be left out where the log says it: a table from :mod:`sampled_metrics.readers`
        whose candidates are distinct; the bundled log, which was drawn without; and exact ranks,
        as of :func:`~sampled_metrics.ranking.files.rank`, where users have one held-out item:
        they are read as an evaluation that drew every negative once.
    protocol : Protocol or Adaptive, optional
        Says all three instead. If it has weights, or duplicates are collapsed, each user has one
        held-out item, and all have the same candidates but for that one; of the weights the order
        does not matter. Items that are left out for a user leave the others larger shares of the
        draws, which is not in what is possible. For an :class:`~sampled_metrics.Adaptive` design
        n_negatives is a column, how many were drawn for a user in the end; each user has one
        held-out item and the design's n_items, and no ties: break them at random while you draw.
    shared_negatives : bool, optional
        Whether users share their negatives, such as one list for all users. Then their sampled
        ranks are not independent, and no range or verdict is proved: `estimate` and `compare`
        refuse them. False if omitted, except for a table from
        :func:`~sampled_metrics.readers.from_scores` in which most users have the same negatives
        as another user. :func:`~sampled_metrics.auditing.audit` tells it from the negatives.

    Returns
    -------
    Log
        In memory a row takes a byte for up to 255 kinds of rows, and two bytes for up to 65,535.
        Users with several rows take one more byte for each recommender. DuckDB reads files and data
        frames of Dask a few rows at a time, within 600 MB. It sorts users with several rows in the
        temporary folder (TMPDIR) if they do not fit. Data frames of pandas, Polars and Arrow, and
        logs with a column count or n_above, take some fifty bytes a row while they are read. Spark
        counts the users of its data frame who have the same rows, and the log has one of each kind,
        with a column count. All rows come if there is a column item or instance.

    Raises
    ------
    ValueError
        If the file cannot be read or is cut short, is empty, lacks a column, has a misnamed one
        or two that may both be meant, holds what is no number or out of its range, or holds a row
        twice; if `replacement` is missing, or not what the log says; or if users have a row for
        each value of a column that is left out.
    ImportError
        If a file is given and DuckDB is not installed.

    Warns
    -----
    UserWarning
        Where a column is read by another name or left out, and where several rows of a user are
        read as relevant items that were ranked together though no column item, instance or
        position says so.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"user": [1, 2, 2], "item": [7, 7, 8], "rank": [3, 1, 5]})
    >>> log = read_log(rows, n_items=50, n_negatives=9, replacement=True)
    >>> log.frame[["user", "n_better", "position", "n_relevant"]]
       user  n_better  position  n_relevant
    0     1         2         1           1
    1     2         0         1           2
    2     2         3         2           2

    Three users whose item was first under A and second under B, and one with the reverse:

    >>> rows = {"user": [1, 1, 2, 2], "recommender": [*"ABAB"], "rank": [1, 2, 2, 1]}
    >>> rows = pd.DataFrame(rows).assign(count=[3, 3, 1, 1])
    >>> read_log(rows, n_items=50, n_negatives=9, replacement=True)
    Log(recommenders=2, users=4, rows=8, n_items=50, n_negatives=9, replacement=True)

    Two negatives were drawn for each of three users, and twice as many again while none was above:

    >>> from sampled_metrics import Adaptive
    >>> rows = {"user": [1, 2, 3], "n_negatives": [2, 8, 4], "n_better": [1, 0, 2], "n_tied": 0}
    >>> read_log(pd.DataFrame(rows), protocol=Adaptive(50, first=2, most=8)).protocol.stages
    (2, 4, 8)
    """
    for name, given in (("replacement", replacement), ("shared_negatives", shared_negatives)):
        if not isinstance(given, (bool, np.bool_, type(None))):
            raise ValueError(f"{name} must be True or False, got {as_written(given)}")
    if protocol is not None:
        others = {"n_items": n_items, "n_negatives": n_negatives, "replacement": replacement}
        for name, other in others.items():
            if other is not None:
                raise ValueError(
                    f"{name} must be left out with a protocol, got {as_written(other)}"
                )
        read = _by_design if isinstance(protocol, Adaptive) else _by_protocol
        log = read(source, protocol)
    elif isinstance(source, str) and source == "bundled":
        log = _bundled(n_items, n_negatives, replacement)
    else:
        log = _of_source(source, n_items, n_negatives, replacement)
    if shared_negatives is None:  # a reader may have seen it
        shared_negatives = getattr(source, "attrs", {}).get("shared_negatives", False)
    log.shared_negatives = bool(shared_negatives)
    return log


def _of_source(
    source: Any, n_items: int | None, n_negatives: int | None, replacement: bool | None
) -> Log:
    """The log in files or a data frame."""
    sizes = {"n_items": (n_items, 2), "n_negatives": (n_negatives, 1)}
    paths = files(source)
    if paths is None and not (is_dask(source) and has_engine()):
        frame, name = loaded(source, "the log")
        return _of_frame(frame, name, sizes, replacement)
    with opened_dask(source) if paths is None else paths.opened() as table:
        return _of_table(table, sizes, replacement)


def _by_design(source: Any, design: Any) -> Log:
    """The log of an adaptive design, each row of which is one of its outcomes."""
    try:
        log = read_log(source, n_items=design.n_items, replacement=design.replacement)
    except ValueError as problem:
        if str(problem).startswith("n_negatives is needed"):
            raise ValueError(
                "n_negatives must be a column of the log of an adaptive design: how many were "
                "drawn for each user in the end"
            ) from None
        raise
    if "n_above" in log.kinds:
        raise ValueError("n_above must be no column of the log of an adaptive design")
    if log.sizes is not None:
        raise ValueError("the log of an adaptive design must have one row for each user")
    tied, better, drawn = (log.kinds[name] for name in ("n_tied", "n_better", "n_negatives"))
    possible = set(zip(*(each.tolist() for each in design.outcomes), strict=True))
    bad = [pair not in possible for pair in zip(drawn.tolist(), better.tolist(), strict=True)]
    for kind in np.flatnonzero(bad | (tied > 0))[:1].tolist():
        at = next(i for i, codes in enumerate(log.codes) if (codes == kind + 1).any())
        user = log.users[int(np.argmax(log.codes[at] == kind + 1))]
        who = f"user {shortened(str(user))} of {shortened(log.recommenders[at])}"
        if tied[kind]:
            raise ValueError(
                f"n_tied must be 0 in the log of an adaptive design, got {tied[kind]} for {who}: "
                "whether a tied negative counted as above decided how many were drawn, and the "
                "log does not say it"
            )
        raise ValueError(
            f"n_negatives must be one of {design.stages}, with n_better one or more, if not 0 of "
            f"{design.most}, and no more than were drawn last, got {drawn[kind]} with "
            f"{better[kind]} for {who}"
        )
    log.protocol = design
    return log


def _by_protocol(source: Any, protocol: Any) -> Log:
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol or Adaptive, got {as_written(protocol)}")
    if not isinstance(protocol.n_items, int) or protocol.n_relevant > 1:
        raise ValueError(f"protocol must have one n_items and one relevant item, got {protocol!r}")
    items, m = protocol.n_items, protocol.n_negatives
    log = read_log(source, n_items=items, n_negatives=m, replacement=protocol.replacement)
    if protocol.uniform:
        return log
    kinds = log.counts
    for name, only in (("n_items", items), ("n_negatives", m), ("n_relevant", 1)):
        other = kinds.loc[kinds[name] != only, name]
        if other.size:
            raise ValueError(
                f"{name} must be {only} for all users, as the protocol says, got {other.iloc[0]}"
            )
    log.protocol = protocol
    return log


def _of_frame(frame: pd.DataFrame, name: str, sizes: Sizes, replacement: bool | None) -> Log:
    """The log in a data frame."""
    if set(_EXACT) <= set(frame.columns):
        frame, replacement = _of_exact_ranks(frame, name, replacement), False
    by_reader = frame.attrs.get("replacement")
    if replacement and by_reader is False:
        raise ValueError(
            f"replacement must be False for {name}, whose candidates are distinct, got True"
        )
    if replacement is None and by_reader is None:
        raise ValueError(_REPLACEMENT_MISSING)
    drawn_again = bool(by_reader if replacement is None else replacement)
    frame = frame.set_axis(_checked_names(frame.columns, name), axis=1)
    return log_of_frame(frame, name, sizes, drawn_again)


def _checked_names(columns: Iterable[Any], name: str) -> list[Any]:
    """The log's own names of columns, warning of others that are read as these or left out."""
    names = log_names(columns, name, INPUT)
    check_columns(names, name)
    warn_ignored(names, name, {*INPUT, *COLUMNS})
    return names


def _of_table(table: Table, sizes: Sizes, replacement: bool | None) -> Log:
    """The log in a table of DuckDB.

    Of whole numbers and text only a code for each row comes to memory. Other logs, and those of
    which something may be refused, come as they are.
    """
    if set(_EXACT) <= set(table.columns):
        return _of_frame(table.frame(), table.place, sizes, replacement)
    if replacement is None:
        raise ValueError(_REPLACEMENT_MISSING)
    names = _checked_names(table.columns, table.name)
    log = Scan(table, names, sizes, replacement).log()
    if log is None:
        frame = table.frame().set_axis(names, axis=1)
        return log_of_frame(frame, table.place, sizes, replacement)
    if log.sizes is not None and not says_instances(names):
        warn_of_instances(table.name, int(log.kinds["n_relevant"].max()))
    return log


def _of_exact_ranks(frame: pd.DataFrame, name: str, replacement: bool | None) -> pd.DataFrame:
    """The log that exact ranks are: of an evaluation that drew every negative once."""
    if replacement:
        raise ValueError(f"replacement must be False for the exact ranks in {name}, got True")
    relevant = whole(frame, "n_relevant", 1, name)
    if relevant.max() > 1:
        raise ValueError(
            f"{name} has exact ranks of users with up to {relevant.max()} held-out items: "
            "sampled-metrics rank --metrics prints their metrics"
        )
    items = whole(frame, "n_candidates", 2, name)
    kept = frame.drop(columns=[*_EXACT[:2], "relevant_better", "relevant_tied"], errors="ignore")
    return kept.assign(n_items=items, n_negatives=items - 1)


def _bundled(n_items: int | None, n_negatives: int | None, replacement: bool | None) -> Log:
    """The bundled log; the options may only repeat what it says itself."""
    import pandas as pd

    if replacement not in (None, False):
        raise ValueError(
            f"replacement must be False for the bundled log, which was drawn without, got "
            f"{as_written(replacement)}"
        )
    with np.load(BUNDLE / "log.npz") as bundle:
        names, items = bundle["names"], bundle["n_items"].astype(np.int64)
        counts = {name: bundle[name].ravel().astype(np.int64) for name in ("n_better", "n_tied")}
    labels = {
        "recommender": np.repeat(names, items.size),
        "user": np.tile(np.arange(items.size), len(names)),
    }
    sizes = {"n_items": np.tile(items, len(names)), "n_negatives": BUNDLED_NEGATIVES}
    rows = pd.DataFrame(labels | counts | sizes)
    return read_log(rows, n_items=n_items, n_negatives=n_negatives, replacement=False)

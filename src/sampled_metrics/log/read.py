"""Read and check the log of a sampled evaluation, or open the bundled one.

A log has a row for each held-out item: how many of its sampled negatives scored above it, and how
many the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._validate import as_written, integer
from ..metrics import Metric
from . import anchors as log_anchors
from .censored import counted, may_be_censored
from .columns import (
    INPUT,
    check_columns,
    listed,
    log_names,
    meaning,
    warn_ignored,
    whole,
    whole_numbers,
    without_negatives,
)
from .compact import ANCHOR_COLUMNS, COLUMNS, Censored, InBlocks, Log, Uniform
from .groups import groups_of
from .inspection import Drawn, not_independent
from .row_checks import Sizes, log_of_frame, warn_of_instances
from .scan import Scan
from .tables import Table, files, has_engine, is_dask, loaded, opened_dask

if TYPE_CHECKING:
    import pandas as pd

#: The column of a log whose users are ranked within blocks.
BLOCK = "block"
#: Columns by which a table of exact ranks is recognised.
_EXACT = ("n_candidates", "n_relevant", "n_better", "n_tied", "user")
#: Negatives of each user in the bundled log.
BUNDLED_NEGATIVES = 100
_REPLACEMENT_MISSING = (
    "replacement is missing: say whether one user's negatives may repeat (replacement=True, "
    "--replacement) or are distinct, as from random.sample or after duplicates were removed "
    "(replacement=False, --no-replacement); sampled-metrics audit tells it from the negatives"
)
#: Folder of the bundled log.
BUNDLE = Path(__file__).parents[1] / "data"


def read_log(
    tabular: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    first_rank: Literal[0, 1] | None = None,
    shared_negatives: bool | None = None,
    fixed_sample_size: bool = False,
    anchors: str | Metric | Sequence[str | Metric] | None = None,
    by: str | None = None,
) -> Log:
    """Read and check the log of a sampled evaluation.

    :ref:`How do I make a log? <howto-log>` shows how to get one, and lists every column.

    Parameters
    ----------
    tabular : str, Path, sequence of these, or data frame of pandas, Polars, Arrow, Dask or Spark
        A CSV file (also .csv.gz; with commas, tabs or semicolons), Parquet file, or file of JSON
        lines, or an array of ranks in a .npy file; several files (a list, a folder, or a pattern
        such as ``"log/*.parquet"``); a data frame; or "bundled". It has a row for each held-out
        item: recommender, user, and rank (">10" if it is only known to be beyond 10), or hit (0 or
        1), or n_better and n_tied, the sampled negatives above the item and tied with it.
    n_items : int, optional
        Candidates of each instance, the relevant items included; more than its relevant items.
    n_negatives : int, optional
        Sampled negatives of each instance, at least 1.
    replacement : bool
        Whether one user's negatives may repeat; False if duplicates were removed.
    first_rank : {0, 1}, optional
        The best rank in the log, whose column may then be called position; by default 1.
    shared_negatives : bool, optional
        Whether users share their negatives, such as one list for all users. `estimate` and
        `compare` then refuse the log. By default False, unless a reader's table shows otherwise.
    fixed_sample_size : bool, optional
        Whether n_negatives of each user was chosen before ranking. Without it, `estimate` and
        `compare` refuse a log that looks as if samples were enlarged until a negative was above.
    anchors : str, Metric or sequence of these, optional
        The metrics by which :ref:`anchors <howto-anchors>` were drawn, if the log has some.
    by : str, optional
        A column with the :ref:`group <howto-groups>` of each user.

    Returns
    -------
    Log

    Raises
    ------
    ValueError
        If a file cannot be read or is empty; a column is missing, misspelt or ambiguous; a value is
        out of range; a row appears twice; or `replacement` is missing or contradicts the log.
    ImportError
        If a file is given and DuckDB is not installed.

    Warns
    -----
    UserWarning
        If a column is read by an alias or ignored, or if several rows of a user are read as
        relevant items ranked together although there is no column item, instance or position.

    See Also
    --------
    sampled_metrics.readers.from_scores : Make such rows from the scores of all candidates.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"user": [1, 2, 2], "item": [7, 7, 8], "rank": [3, 1, 5]})
    >>> read_log(rows, n_items=50, n_negatives=9, replacement=True)
    Log(recommenders=1, users=2, rows=3, n_items=50, n_negatives=9, replacement=True)
    """
    _check_flags(replacement, shared_negatives, fixed_sample_size)
    if isinstance(tabular, str) and tabular == "bundled":
        tabular, replacement = _bundled(replacement), False
    attrs = getattr(tabular, "attrs", {})  # what readers record
    if first_rank is not None:
        tabular = _counted_from_one(tabular, first_rank)
    sizes = {"n_items": (n_items, 2), "n_negatives": (n_negatives, 1)}
    log = _of_tabular(tabular, sizes, replacement, by, anchors)
    return replace(
        log,
        shared_negatives=_are_shared(log, attrs, shared_negatives),
        fixed_sample_size=bool(fixed_sample_size),
        exact_values=attrs.get("exact_values", {}),
    )


def _counted_from_one(tabular: Any, first_rank: object) -> pd.DataFrame:
    """The rows of a log whose best rank is `first_rank`, with ranks from 1."""
    first, (frame, name) = integer(first_rank, "first_rank", 0, 1), loaded(tabular, "the log")
    columns = [column for column in frame if meaning(column) == "rank"]
    columns = columns or [column for column in frame if column == "position"]
    if len(columns) != 1:
        raise ValueError(
            f"first_rank must be left out without a column rank, got {first_rank} and the columns "
            f"{listed(frame.columns)}"
        )
    renamed = frame.rename(columns={columns[0]: "rank"})
    return renamed.assign(rank=whole_numbers(renamed, "rank", first, name) + 1 - first)


def _check_flags(replacement: object, shared_negatives: object, fixed_sample_size: object) -> None:
    """Refuse flags that are not truth values."""
    for name, flag in (
        ("replacement", replacement),
        ("shared_negatives", shared_negatives),
        ("fixed_sample_size", fixed_sample_size),
    ):
        if not isinstance(flag, (bool, np.bool_, type(None))):
            raise ValueError(f"{name} must be True or False, got {as_written(flag)}")


def _are_shared(log: Log, attrs: Mapping[str, Any], shared_negatives: bool | None) -> bool:
    """Whether users share their negatives: as told, else as the reader's record shows."""
    shown = "users have nearly the same negatives" if attrs.get("shared_negatives") else ""
    if isinstance(log.protocol, InBlocks):
        return False
    if "negatives" in attrs and not shown and isinstance(log.protocol, Uniform):
        shown = _not_independent(log, Drawn(*attrs["negatives"]))
    if shown and shared_negatives is False and not _is_complete(log):
        raise ValueError(f"shared_negatives must be True, got False: {shown}")
    return bool(shown if shared_negatives is None else shared_negatives)


def _of_tabular(
    tabular: Any, sizes: Sizes, replacement: bool | None, by: str | None, anchors: Any
) -> Log:
    """Read a log from files or a data frame; Dask frames by DuckDB if it is installed."""
    paths = files(tabular)
    if paths is None and not (is_dask(tabular) and has_engine()):
        frame, name = loaded(tabular, "the log")
        return _of_frame(frame, name, sizes, replacement, by, anchors)
    with opened_dask(tabular) if paths is None else paths.opened() as table:
        return _of_table(table, sizes, replacement, by, anchors)


def _is_complete(log: Log) -> bool:
    """Whether all irrelevant items were drawn for all users."""
    kinds = log.kinds
    return bool((kinds["n_negatives"] >= kinds["n_items"] - kinds["n_relevant"]).all())


def _not_independent(log: Log, seen: Drawn) -> str:
    """Why the negatives cannot be independent uniform draws, or ""; by the largest recommender."""
    if _is_complete(log):
        return ""
    first, kinds = log.kinds["position"] == 1, log.kinds
    lists = log.kind_counts[:, first]
    largest = lists[int(np.argmax(lists.sum(axis=1)))].astype(float)
    candidates = (kinds["n_items"] - kinds["n_relevant"])[first]
    return not_independent(seen, largest, kinds["n_negatives"][first], candidates, log.replacement)


def _of_frame(
    frame: pd.DataFrame,
    name: str,
    sizes: Sizes,
    replacement: bool | None,
    by: str | None,
    anchors: Any,
) -> Log:
    """Read a log from a data frame of pandas."""
    by = BLOCK if by is None and BLOCK in frame.columns else by
    if set(_EXACT) <= set(frame.columns):
        frame, replacement = _of_exact_ranks(frame, name, replacement), False
    by_reader = frame.attrs.get("replacement")
    if replacement and by_reader is False:
        raise ValueError(
            f"replacement must be False for {name}, whose candidates are distinct, got True"
        )
    samples = not without_negatives(map(meaning, frame.columns))
    if replacement is None and by_reader is None and samples:
        raise ValueError(_REPLACEMENT_MISSING)
    with_replacement = bool(by_reader if replacement is None else replacement)
    if (rows := counted(frame, name, sizes["n_negatives"][0])) is not None:
        log = _of_frame(rows, name, sizes, with_replacement, by, anchors)
        return replace(log, protocol=Censored(with_replacement))
    frame = frame.set_axis(_checked_names(frame.columns, name, by), axis=1)
    return _grouped(frame, name, sizes, with_replacement, by, anchors)


def _grouped(
    frame: pd.DataFrame, name: str, sizes: Sizes, replacement: bool, by: str | None, anchors: Any
) -> Log:
    """The log of a data frame whose columns have the names of a log, and the groups of users."""
    groups = None if by is None else groups_of(frame, by, name)
    if without_negatives(frame.columns):
        sizes = {**sizes, "n_negatives": (sizes["n_negatives"][0], 0)}
        frame = frame.assign(n_better=0, n_tied=0, n_negatives=0)
    if not ({*ANCHOR_COLUMNS} & {*frame.columns}):
        if anchors is not None:
            raise ValueError(f"anchors must be left out without a column exact_rank in {name}")
        return _with(groups, log_of_frame(frame, name, sizes, replacement))
    if by is not None:
        raise ValueError(f"by must be left out beside a column exact_rank, got {as_written(by)}")
    frame = log_anchors.checked(frame, name, anchors)
    log = log_of_frame(frame.drop(columns=[*ANCHOR_COLUMNS]), name, sizes, replacement)
    return log_anchors.attached(log, frame, name, anchors)


def _with(groups: pd.Series | None, log: Log) -> Log:
    """The log with a group for each user; groups that are blocks share their candidates."""
    if groups is None:
        return log
    protocol = InBlocks(log.replacement) if groups.name == BLOCK else log.protocol
    return replace(log, groups=groups.reindex(log.users), protocol=protocol)


def _checked_names(columns: Iterable[Any], name: str, by: str | None) -> list[Any]:
    """Column names with aliases replaced; warns of aliases and ignored columns."""
    names = log_names(columns, name, INPUT)
    if by is not None and (names.count(by) != 1 or meaning(by) or by in COLUMNS):
        raise ValueError(
            f"by must name one column of {name} with the group of each user, other than those that "
            f"every log may have, got {as_written(by)} and the columns {listed(columns)}"
        )
    check_columns([column for column in names if column != by], name)
    warn_ignored(names, name, [*INPUT, *COLUMNS, *filter(None, [by])])
    return names


def _of_table(
    table: Table, sizes: Sizes, replacement: bool | None, by: str | None, anchors: Any
) -> Log:
    """Read a log from a table of DuckDB.

    Plain whole numbers and text are scanned in blocks; other logs are loaded into a data frame.
    """
    by = BLOCK if by is None and BLOCK in table.columns else by
    is_text = any(
        sql_type == "VARCHAR" and meaning(column) == "rank"
        for column, sql_type in zip(table.columns, table.types, strict=True)
    )
    is_special = may_be_censored(table.columns, is_text) or set(_EXACT) <= set(table.columns)
    meanings = [meaning(column) for column in table.columns]
    is_special |= "exact_rank" in meanings or without_negatives(meanings)
    if is_special or anchors is not None:
        return _of_frame(table.frame(), table.location, sizes, replacement, by, anchors)
    if replacement is None:
        raise ValueError(_REPLACEMENT_MISSING)
    names = _checked_names(table.columns, table.name, by)
    scan = Scan(table, names, sizes, replacement)
    groups = None if by is None else scan.groups(by)
    log = scan.log()
    if log is None:
        frame = table.frame().set_axis(names, axis=1)
        return _grouped(frame, table.location, sizes, replacement, by, None)
    warn_of_instances(names, table.name, log)
    return _with(groups, log)


def _of_exact_ranks(frame: pd.DataFrame, name: str, replacement: bool | None) -> pd.DataFrame:
    """Exact ranks as the log of an evaluation that drew every negative once."""
    if replacement:
        raise ValueError(f"replacement must be False for the exact ranks in {name}, got True")
    if "stopped" in frame and frame["stopped"].any():
        raise ValueError(f"{name} has ranks that were not counted to the end (column stopped)")
    relevant = whole(frame, "n_relevant", 1, name)
    if relevant.max() > 1:
        raise ValueError(
            f"{name} has exact ranks of users with up to {relevant.max()} held-out items: "
            "sampled-metrics rank --metrics prints their metrics"
        )
    keys = {meaning(column) for column in frame.columns}
    if not keys & {"recommender", "instance"} and frame["user"].duplicated().any():
        raise ValueError(
            f"{name} has several exact ranks of a user and no column recommender: rank each "
            "recommender with its name, by sampled-metrics rank --name NAME"
        )
    items = whole(frame, "n_candidates", 2, name)
    dropped = [*_EXACT[:2], "relevant_better", "relevant_tied", "stopped"]
    rows = frame.drop(columns=dropped, errors="ignore")
    return rows.assign(n_items=items, n_negatives=items - 1)


def _bundled(replacement: bool | None) -> pd.DataFrame:
    """The rows of the bundled log; the option may only repeat what the log states."""
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
    frame = pd.DataFrame(labels | counts | sizes)
    frame.attrs["exact_values"] = json.loads((BUNDLE / "exact.json").read_text())
    return frame

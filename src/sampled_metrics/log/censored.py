"""Logs that know ranks only near the top: a hit or a miss, or ranks written as ">10"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validate import as_written
from .columns import meaning, refuse_first, size_column

if TYPE_CHECKING:
    import pandas as pd


def may_be_censored(columns: Iterable[Any], rank_is_text: bool) -> bool:
    """Whether a log has a column hit in place of ranks, or ranks that are no numbers."""
    meanings = {meaning(name) for name in columns}
    if "rank" in meanings:
        return rank_is_text
    return "hit" in {*columns} and not {"n_better", "n_tied"} & meanings


def counted(frame: pd.DataFrame, origin: str, n_negatives: int | None) -> pd.DataFrame | None:
    """The rows with n_better and n_tied, or None if all ranks are numbers.

    An item of rank ">k" has k negatives above; all others are counted as tied, as they may be above
    or below. A miss has rank ">1".
    """
    names = [name for name in frame if meaning(name) == "rank"]
    if not may_be_censored(frame.columns, bool(names) and frame[names[0]].dtype.kind in "OUT"):
        return None
    column = names[0] if names else "hit"
    if names and not any(isinstance(v, str) and v.lstrip()[:1] == ">" for v in frame[column]):
        return None
    text = frame[column].map(_rank if names else _of_hit)
    rule = "rank must be a whole number from 1, or such as >10" if names else "hit must be 0 or 1"
    refuse_first(
        ~text.str.fullmatch(r">?[1-9]\d{0,15}").to_numpy(dtype=bool),
        origin,
        lambda row: f"{rule}, got {as_written(frame[column].iloc[row])}",
    )
    sized = frame.rename(columns={n: "n_negatives" for n in frame if meaning(n) == "n_negatives"})
    m = np.broadcast_to(size_column(sized, "n_negatives", n_negatives, 1, origin), len(frame))
    is_beyond = text.str.startswith(">").to_numpy(dtype=bool)
    n_better = text.str.removeprefix(">").to_numpy(dtype=np.int64) - ~is_beyond
    n_tied = np.where(is_beyond, np.maximum(m - n_better, 0), 0)
    return frame.drop(columns=column).assign(n_better=n_better, n_tied=n_tied)


def _rank(value: object) -> str:
    """A rank as text without blanks; 5.0 as 5."""
    text = value if isinstance(value, str) else as_written(value)
    return text.replace(" ", "").removesuffix(".0")


def _of_hit(value: object) -> str:
    """The rank that a hit or a miss stands for."""
    return {"1": "1", "1.0": "1", "True": "1", "0": ">1", "0.0": ">1", "False": ">1"}.get(
        str(value), ""
    )

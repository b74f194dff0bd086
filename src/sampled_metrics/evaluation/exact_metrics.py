"""Exact metrics of the exact ranks of held-out items."""

from __future__ import annotations

from collections.abc import Sequence

from ..log.read import read_log
from ..metrics import metric
from ..ranking.intervals import refuse_beyond
from ..results import Ranks, Result
from .estimation import estimate


def of_ranks(ranks: Ranks, names: Sequence[str]) -> Result:
    """:meth:`~sampled_metrics.results.Ranks.metrics`.

    An evaluation that draws every negative once is exact.
    """
    stop_at = ranks.settings.get("stop_at")
    if stop_at is not None and (ranks.frame["stopped"]).any():
        refuse_beyond(stop_at, map(metric, names))
    rows, n_other_relevant = ranks.frame, ranks.frame["n_relevant"] - 1
    log = rows[["user", "item"]].assign(
        n_better=rows["n_better"] - rows["relevant_better"],
        n_tied=rows["n_tied"] - rows["relevant_tied"],
        n_items=rows["n_candidates"],
        n_negatives=rows["n_candidates"] - n_other_relevant - 1,
    )
    exact = estimate(read_log(log, replacement=False), names, identification=False).frame
    table = exact.rename(columns={"estimate": "value"})
    return Result(
        table[["metric", "value", "standard_error", "users"]], ranks.settings, ranks.notes
    )

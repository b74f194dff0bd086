"""Exact metrics of the exact ranks of held-out items."""

from __future__ import annotations

from collections.abc import Sequence

from ..log.read import read_log
from ..results import Ranks, Result
from .estimation import estimate_each


def of_ranks(ranks: Ranks, names: Sequence[str]) -> Result:
    """:meth:`~sampled_metrics.results.Ranks.metrics`.

    An evaluation that draws every negative once is exact.
    """
    rows, n_other_relevant = ranks.frame, ranks.frame["n_relevant"] - 1
    among_all = ranks.settings.get("among", "all") == "all"
    items = rows["n_candidates"] + (0 if among_all else n_other_relevant)
    better, tied = (
        rows[name] - (rows[f"relevant_{name[2:]}"] if among_all else 0)
        for name in ("n_better", "n_tied")
    )
    log = rows[["user", "item"]].assign(
        n_better=better, n_tied=tied, n_items=items, n_negatives=items - n_other_relevant - 1
    )
    estimates = estimate_each(read_log(log, replacement=False), names, estimators="naive").frame
    return Result(estimates[["metric", "value", "standard_error", "users"]], ranks.settings)

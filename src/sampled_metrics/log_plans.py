"""Plans that start from a log: how large an evaluation has to be for its recommenders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import _progress
from ._threads import one_thread
from ._validate import integer
from .evaluation.options import opened
from .log.compact import Log
from .metrics import Metric
from .metrics import metric as parsed
from .numerics.distributions import spread_ties
from .planning import ESTIMATORS, curve, for_all, for_pairs, rank_grid
from .protocol import Design, Protocol, steps, thinned
from .results import Plan, Result, source_of
from .sequential import rebinned

#: A log, or a source that :func:`~sampled_metrics.read_log` reads.
LogSource = Log | str | Path | Sequence[str | Path] | pd.DataFrame


@one_thread
def plan_log(
    log: LogSource,
    metric: Metric | str,
    *,
    replacement: bool | None = None,
    n_items: int | None = None,
    n_users: int | None = None,
    max_negatives: int | None = None,
    curves: bool = False,
    progress: bool = False,
    **options: Any,
) -> Plan:
    """Plan for each pair of recommenders of a log, as ``sampled-metrics plan`` does.

    The true ranks are taken to be as evenly distributed as the log allows
    (:func:`~sampled_metrics.priors.maximum_entropy`). Very different true ranks can lead to nearly
    the same log: see ``identification``.

    Parameters
    ----------
    log : Log, or what read_log takes
        From :func:`~sampled_metrics.read_log`, or a source that it can read with `replacement`
        alone; one relevant item for each user. The plan of an adaptive design is for as many
        negatives for each user as were drawn on average.
    metric : Metric or str
    replacement : bool
        As for :func:`~sampled_metrics.read_log`; not needed for a `Log`.
    n_items : int, optional
        Candidates of each user in the planned evaluation; by default the mean of the log. In a
        catalogue of another size, the share of candidates above each user's item stays the same.
    n_users : int, optional
        Users of the planned evaluation; by default those of the log.
    max_negatives : int, optional
        As for :func:`~sampled_metrics.plan`.
    curves : bool
        Whether to add the curves that the plan's page draws.
    progress : bool
        Show progress bars on the error stream.
    **options
        As for :func:`~sampled_metrics.plan`.

    Returns
    -------
    Plan
        Its tables have columns first and second, the recommenders, before those of
        :func:`~sampled_metrics.plan`.

    Raises
    ------
    ValueError
        If a user has several relevant items, the negatives are weighted, there are fewer than two
        recommenders or no two with different averages, or as
        :func:`~sampled_metrics.plan`.

    Warns
    -----
    UserWarning
        If two recommenders have equal averages: they have no order to plan for.

    Examples
    --------
    >>> result = plan_log("bundled", "auc", estimators="naive", max_negatives=1)
    >>> result.frame[["first", "second", "estimator", "users_needed"]].head(2)
      first second estimator  users_needed
    0     X      Y     naive            99
    1     X      Y     exact            96
    """
    log = opened(log, replacement)
    inputs = _Given.of(log, metric, n_items, n_users, max_negatives, progress)
    options |= {"max_negatives": inputs.max_negatives, "progress": progress}
    plan = for_all(inputs.ranks, inputs.metric, inputs.protocol, inputs.n_users, **options)
    source = source_of(log) | {
        "metric": inputs.metric.label,
        "planned": f"{inputs.n_users:,} users, {inputs.protocol.n_items:,} items, "
        f"{inputs.protocol.n_negatives:,} negatives",
        "confidence": f"{plan.settings['confidence']:g}",
    }
    curve_frame = pd.DataFrame()
    if curves:
        curve_frame = inputs.curves(
            estimators=options.get("estimators", ESTIMATORS), progress=progress
        )
    return replace(plan, notes=inputs.notes, curves=curve_frame, source=source)


@one_thread
def curve_log(
    log: LogSource,
    metric: Metric | str,
    *,
    replacement: bool | None = None,
    n_items: int | None = None,
    n_users: int | None = None,
    max_negatives: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Result:
    """The curves of a plan, as ``sampled-metrics plan --curve`` shows them.

    For each pair, negatives vary over 1, 2, 5, ... with the planned users, and users from a tenth
    to ten times as many with the log's negatives.
    """
    log = opened(log, replacement)
    inputs = _Given.of(log, metric, n_items, n_users, max_negatives, progress)
    return Result(inputs.curves(progress=progress, **options), notes=inputs.notes)


@dataclass(frozen=True)
class _Given:
    """The distributions and sizes that a plan takes from a log."""

    ranks: dict[str, dict[int, float]]
    metric: Metric
    protocol: Protocol
    n_users: int
    max_negatives: int
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        log: Log,
        metric: Metric | str,
        n_items: int | None,
        n_users: int | None,
        max_negatives: int | None,
        progress: bool,
    ) -> _Given:
        parsed_metric, rows = parsed(metric), log.counts
        if n_items is None:
            n_items = round(float((rows["n_items"] * rows["count"]).sum() / rows["count"].sum()))
        negatives_limit = (
            max(1, min(1_000, n_items - 1)) if max_negatives is None else max_negatives
        )
        n_negatives, largest = int(rows["n_negatives"].min()), int(rows["n_negatives"].max())
        notes: tuple[str, ...] = ()
        if n_negatives < largest:
            notes = (
                f"users have {n_negatives:,} to {largest:,} negatives: true ranks are fitted to "
                f"{n_negatives:,} of each, and the plan is for as many",
            )
        if log.design is not None:
            n_negatives = round(float(np.average(rows["n_negatives"], weights=rows["count"])))
            notes = (
                f"the plan is for {n_negatives:,} negatives, as many as the log has on average",
            )
        ranks = fitted(log, n_items, progress=progress)
        protocol = Protocol(n_items, n_negatives, replacement=log.replacement)
        users = log.n_users if n_users is None else n_users
        return cls(ranks, parsed_metric, protocol, users, negatives_limit, notes)

    def curves(self, **options: Any) -> pd.DataFrame:
        protocols = [replace(self.protocol, n_negatives=m) for m in steps(self.max_negatives)]
        grids: list[tuple[Any, Any]] = [(protocols, self.n_users)]
        grids.append((self.protocol, around(self.n_users)))
        parts = [for_pairs(curve, self.ranks, self.metric, *grid, **options) for grid in grids]
        return pd.concat(parts).drop_duplicates(ignore_index=True)


def around(n_users: int) -> list[int]:
    """Numbers of users from a tenth to ten times as many, at least 1."""
    factors = (0.1, 0.2, 0.5, 1, 2, 5, 10)
    return sorted({max(1, round(factor * n_users)) for factor in factors})


def fitted(log: Log, n_items: int, *, progress: bool = False) -> dict[str, dict[int, float]]:
    """The maximum-entropy distribution of true ranks of each recommender of a log.

    It is moved to the ranks of :func:`~sampled_metrics.planning.rank_grid` without changing its
    mean (linear binning). If users differ in the number of negatives, the fit is for the smallest
    number: a random subset of a user's negatives is a sample, too. Outcomes of an adaptive design
    are fitted as they are.
    """
    from . import priors  # its solvers take long to import, and no other function needs them

    if log.weighted:
        raise ValueError(f"the log must have negatives that are drawn alike here, got {log!r}")
    rows = log.counts
    if (rows["n_relevant"] > 1).any():
        raise ValueError(
            "a fit needs one relevant item for each user, and this log has users with "
            f"{int(rows['n_relevant'].max())}: give plan the RelevantSets of an exact evaluation"
        )
    design = log.design
    if design is not None:
        outcomes = design.places(rows["n_negatives"], rows["n_better"])
        rows = rows.assign(n_better=outcomes, n_negatives=design.most)
    negatives = int(rows["n_negatives"].min())
    min_items = 2 if log.replacement else negatives + 1
    n_items = integer(n_items, "n_items", min_items)
    protocol: Design = Protocol(n_items, negatives, replacement=log.replacement)
    if design is not None:
        protocol = replace(design, n_items=n_items)
    distributions, grid = {}, rank_grid(n_items)
    for name in _progress.bar(log.recommenders, desc="fit", unit="recommender", show=progress):
        counts = np.zeros(negatives + 1)
        recommender_rows = rows[rows["recommender"] == name]
        for m in recommender_rows["n_negatives"].unique().tolist():
            size_rows = recommender_rows[recommender_rows["n_negatives"] == m]
            better, tied, users = (
                size_rows[column].to_numpy() for column in ("n_better", "n_tied", "count")
            )
            counts += spread_ties(better, tied, users, m + 1) @ thinned(m, negatives)
        mass = np.asarray(priors.maximum_entropy(counts, protocol).mass)
        binned_mass = rebinned(mass, np.arange(1, mass.size + 1), grid)
        distributions[name] = dict(zip(grid.tolist(), binned_mass.tolist(), strict=True))
    return distributions

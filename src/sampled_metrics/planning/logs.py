"""The verb plan: how large an evaluation has to be.

It starts from distributions of true ranks, which are fitted to a log or given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .. import _progress
from .._confidence import CONFIDENCE
from .._threads import one_thread
from .._validate import FloatArray, as_written, integer
from ..designs.options import opened
from ..log.compact import Log
from ..log.sub_corpus import SubCorpus
from ..metrics import Metric
from ..metrics import metric as parsed
from ..numerics.distributions import spread_ties
from ..protocol import Adaptive, Design, Protocol, thinned
from ..results import Plan, source_of
from .pairs import ESTIMATORS, Population, for_all, rank_grid

#: A log, or a source that :func:`~sampled_metrics.read_log` reads.
LogSource = Log | str | Path | Sequence[str | Path] | pd.DataFrame


@one_thread
def plan(
    data: LogSource | Mapping[str, Population],
    metric: Metric | str,
    protocol: Protocol | None = None,
    n_users: int | None = None,
    *,
    replacement: bool | None = None,
    n_items: int | None = None,
    estimators: str | Sequence[str] = ESTIMATORS,
    confidence: float = CONFIDENCE,
    max_negatives: int | None = None,
    budget: int | None = None,
    progress: bool = False,
) -> Plan:
    """Find how many negatives or users give the right verdict with probability `confidence`.

    The plan is for each pair of recommenders, and starts from the distributions of their true
    ranks: given, or fitted to a log. A fit may be far off. :ref:`How many negatives and users do I
    need? <howto-plan>` says why, and describes every column.

    Parameters
    ----------
    data : Log, what read_log takes, or mapping of str to population
        Two recommenders or more, with one relevant item for each user in a log. A population is a
        mapping from true ranks to probabilities, an array of true ranks with the same users for all
        recommenders, :class:`~sampled_metrics.RankIntervals` or
        :class:`~sampled_metrics.RelevantSets` (a list of them if numbers of items differ).
    metric : Metric or str
    protocol : Protocol
        For populations: how the evaluation samples; one catalogue size, `n_relevant` = 1.
    n_users : int
        Users of the planned evaluation, at least 1; by default those of the log.
    replacement : bool
        As for :func:`~sampled_metrics.read_log`; not needed for a `Log`.
    n_items : int, optional
        With a log: candidates of each user in the planned evaluation; by default the log's mean.
    estimators : str or sequence of str
        Names such as "naive" or "bias-variance"; by default `ESTIMATORS`.
    confidence : float
        Probability of the right verdict to reach, in [0.5, 1).
    max_negatives : int, optional
        Most negatives to consider; by default 1,000 (100 for several relevant items), or all of a
        user's candidates if they are fewer. The time of a correction grows with its cube.
    budget : int, optional
        Scores that may be computed for one recommender, at least 1, to divide best.
    progress : bool
        Show progress bars on the error stream.

    Returns
    -------
    Plan
        Its frame has a row for each pair and estimator: *probability* of the right verdict,
        *negatives_needed*, *users_needed* and scores. Its `designs` are the cheapest evaluations.

    Raises
    ------
    ValueError
        If the log or the populations are not as above, no two averages differ, an estimator is
        unknown, a number is out of range, or an argument belongs to the other kind of data.

    See Also
    --------
    sampled_metrics.compare : The verdict that a log allows now.

    Examples
    --------
    >>> populations = {"A": {2: 0.3, 500: 0.7}, "B": {30: 0.6, 500: 0.4}}
    >>> result = plan(populations, "ndcg@10", Protocol(1_000, 100), n_users=50)
    >>> int(result.frame["negatives_needed"].min())
    33
    """
    inputs = _Inputs.of(data, metric, protocol, n_users, replacement, n_items, progress)
    planned = for_all(
        inputs.populations,
        inputs.metric,
        inputs.protocol,
        inputs.n_users,
        estimators=estimators,
        confidence=confidence,
        max_negatives=max_negatives,
        budget=budget,
        progress=progress,
    )
    source = inputs.source | {
        "metric": inputs.metric.label,
        "planned": f"{inputs.n_users:,} users, {planned.settings['n_items']:,} items, "
        f"{inputs.protocol.n_negatives:,} negatives",
        "confidence": f"{confidence:g}",
    }
    return replace(planned, notes=inputs.notes, source=source)


@dataclass(frozen=True)
class _Inputs:
    """The populations and sizes that a plan starts from."""

    populations: Mapping[str, Population]
    metric: Metric
    protocol: Protocol
    n_users: int
    notes: tuple[str, ...] = ()
    source: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        data: LogSource | Mapping[str, Population],
        metric: Metric | str,
        protocol: Protocol | None,
        n_users: int | None,
        replacement: bool | None,
        n_items: int | None,
        progress: bool,
    ) -> _Inputs:
        parsed_metric = parsed(metric)
        if not isinstance(data, Mapping):
            if protocol is not None:
                raise ValueError(
                    "protocol must be left out with a log, which states its own, got "
                    f"{protocol}: for another catalogue give n_items"
                )
            log = opened(data, replacement)
            if isinstance(log, SubCorpus):
                raise ValueError("a sub-corpus has no plan: only estimate and compare take one")
            return cls._of_log(log, parsed_metric, n_users, n_items, progress)
        for name in data:
            if not isinstance(name, str):
                raise ValueError(
                    "data must map the names of recommenders to their true ranks, as in "
                    f"{{'A': first, 'B': second}}, got the name {as_written(name)}"
                )
        for option, value in (("n_items", n_items), ("replacement", replacement)):
            if value is not None:
                raise ValueError(
                    f"{option} must be left out with populations, got {as_written(value)}: the "
                    "protocol gives it"
                )
        if protocol is None or n_users is None:
            missing = "protocol" if protocol is None else "n_users"
            raise ValueError(f"{missing} must be given with populations, got None")
        return cls(data, parsed_metric, protocol, n_users)

    @classmethod
    def _of_log(
        cls, log: Log, metric: Metric, n_users: int | None, n_items: int | None, progress: bool
    ) -> _Inputs:
        rows = log.counts
        if n_items is None:
            n_items = round(float((rows["n_items"] * rows["count"]).sum() / rows["count"].sum()))
        n_negatives, largest = int(rows["n_negatives"].min()), int(rows["n_negatives"].max())
        notes: tuple[str, ...] = ()
        if n_negatives < largest:
            notes = (
                f"users have {n_negatives:,} to {largest:,} negatives: true ranks are fitted to "
                f"{n_negatives:,} of each, and the plan is for as many",
            )
        if isinstance(log.protocol, Adaptive):
            n_negatives = round(float(np.average(rows["n_negatives"], weights=rows["count"])))
            notes = (
                f"the plan is for {n_negatives:,} negatives, as many as the log has on average",
            )
        ranks = fitted(log, n_items, progress=progress)
        protocol = Protocol(n_items, n_negatives, replacement=log.replacement)
        users = log.n_users if n_users is None else n_users
        return cls(ranks, metric, protocol, users, notes, source_of(log))


def fitted(log: Log, n_items: int, *, progress: bool = False) -> dict[str, dict[int, float]]:
    """The maximum-entropy distribution of true ranks of each recommender of a log.

    It is moved to the ranks of :func:`~sampled_metrics.planning.rank_grid` without changing its
    mean (linear binning). If users differ in the number of negatives, the fit is for the smallest
    number: a random subset of a user's negatives is a sample, too. Outcomes of an adaptive design
    are fitted as they are.
    """
    from .. import priors  # its solvers take long to import, and no other function needs them

    if not log.protocol.uniform:
        raise ValueError(
            "the log must have negatives drawn uniformly from all items for a plan or a fit, got "
            f"negatives drawn {log.protocol.drawn}"
        )
    rows = log.counts
    if (rows["n_relevant"] > 1).any():
        raise ValueError(
            "a fit needs one relevant item for each user, and this log has users with "
            f"{int(rows['n_relevant'].max())}: give plan the RelevantSets of an exact evaluation"
        )
    design = log.protocol
    if isinstance(design, Adaptive):
        outcomes = design.places(rows["n_negatives"], rows["n_better"])
        rows = rows.assign(n_better=outcomes, n_negatives=design.most)
    negatives = int(rows["n_negatives"].min())
    min_items = 2 if log.replacement else negatives + 1
    n_items = integer(n_items, "n_items", min_items)
    protocol: Design = Protocol(n_items, negatives, replacement=log.replacement)
    if isinstance(design, Adaptive):
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


def rebinned(masses: FloatArray, values: ArrayLike, grid: ArrayLike) -> FloatArray:
    """Move a distribution to a grid that covers it, without changing its mean (linear binning).

    Examples
    --------
    >>> rebinned(np.array([0.5, 0.5]), [0.0, 0.25], [0.0, 0.2, 0.4, 0.6])
    array([0.5  , 0.375, 0.125, 0.   ])
    """
    points, positions = np.asarray(grid), np.asarray(values)
    lower_index = np.clip(np.searchsorted(points, positions, side="right") - 1, 0, points.size - 2)
    share = np.clip(
        (positions - points[lower_index]) / (points[lower_index + 1] - points[lower_index]),
        0.0,
        1.0,
    )
    lower_masses = np.bincount(lower_index, masses * (1.0 - share), minlength=points.size)
    return np.asarray(
        lower_masses + np.bincount(lower_index + 1, masses * share, minlength=points.size)
    )

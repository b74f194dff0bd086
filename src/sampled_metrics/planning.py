"""The verb plan: how many negatives or users an evaluation needs for the right verdict.

A plan starts from the distributions of two recommenders' true ranks: given, or fitted to a log.
Users are drawn from them, and negatives for each user. A verdict is right if it names the order of
the exact metric, averaged over the distributions. An exact evaluation of a few users can be wrong
as well, so it has a row of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from . import _progress, priors
from . import estimators as corrections
from ._confidence import CONFIDENCE
from ._threads import one_thread
from ._validate import as_written, checked_confidence, integer
from .bounds.parts import MOST_NEGATIVES
from .designs.options import opened
from .evaluation.anchoring import plan_of_chosen
from .log.compact import BesideChosen, Log
from .log.sub_corpus import SubCorpus
from .metrics import Metric
from .metrics import metric as parsed
from .numerics.distributions import spread_ties
from .orders import Order, PopulationPair, Ranks, negatives_needed
from .protocol import Protocol, thinned_counts
from .results import Plan, Result, facts_of, table_of

#: A log, or a table that :func:`~sampled_metrics.read_log` reads.
LogSource = Log | str | Path | Sequence[str | Path] | pd.DataFrame

#: The estimators of a plan by default; gamma of bias-variance is ``default_gamma(n_users)``.
ESTIMATORS = ("naive", "rank estimate", "monotone", "bias-variance")

#: Row name of a full ranking.
EXACT = "exact"

#: Largest number of users, and largest count shown in a table.
_MOST_USERS, _MOST_COUNT = 10**12, 2**62


class _PlanRow(NamedTuple):
    first: str
    second: str
    estimator: str
    probability: float
    detectable: float
    negatives_needed: int | None
    scores_by_negatives: int | None
    users_needed: int | None
    scores_by_users: int | None


@one_thread
def plan(
    data: LogSource | Mapping[str, Ranks],
    metric: Metric | str,
    protocol: Protocol | None = None,
    n_users: int | None = None,
    *,
    replacement: bool | None = None,
    n_items: int | None = None,
    estimators: str | Sequence[str] = ESTIMATORS,
    confidence: float = CONFIDENCE,
    max_negatives: int | None = None,
    progress: bool = False,
) -> Result:
    """Find how many negatives or users give the right verdict with probability `confidence`.

    The plan is for each pair of recommenders, and starts from the distributions of their true
    ranks: given, or fitted to a log. A fit may be far off. :ref:`How many negatives and users do I
    need? <howto-plan>` says why, and describes every column.

    Parameters
    ----------
    data : Log, what read_log takes, or mapping of str to population
        Two recommenders or more, with one relevant item for each user in a log. A population is a
        mapping from true ranks to probabilities, or an array of true ranks with the same users for
        all recommenders.
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
        Most negatives to consider; by default 1,000, or all of a user's candidates if they are
        fewer. The time of a correction grows with its cube.
    progress : bool
        Show progress bars on the error stream.

    Returns
    -------
    Plan, or Result for a log with chosen items
        Its frame has a row for each pair and estimator: *probability* of the right verdict,
        *detectable* difference, *negatives_needed*, *users_needed* and scores. With chosen items it
        has the *width* of the interval by :ref:`anchors <howto-anchors>` and by fewer users.

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
    32
    """
    parsed_metric, log = parsed(metric), None
    populations: Mapping[str, Ranks]
    notes: tuple[str, ...] = ()
    if isinstance(data, Mapping):
        populations = data
        _check_arguments(data, protocol, n_users, n_items=n_items, replacement=replacement)
    else:
        log = _log(data, protocol, replacement)
        if isinstance(log.protocol, BesideChosen):
            other_size = n_items if n_items and (log.counts["n_items"] != n_items).any() else None
            _left_out(n_users=n_users, max_negatives=max_negatives, n_items=other_size)
            return plan_of_chosen(log, parsed_metric, checked_confidence(confidence))
        populations, protocol, notes = _from_log(log, n_items, progress)
        n_users = log.n_users if n_users is None else n_users
    assert protocol is not None
    users = integer(n_users, "n_users", 1, _MOST_USERS)
    pairs = _pairs(populations, parsed_metric, protocol)
    size, pool = (getattr(next(iter(pairs.values())), name) for name in ("n_items", "pool"))
    most = min(1_000, pool) if max_negatives is None else max_negatives
    most = integer(most, "max_negatives", 1, None if protocol.replacement else pool)
    names = _known(estimators)
    rows = []
    for pair_names, pair in _progress.bar(pairs.items(), desc="plan", unit="pair", show=progress):
        for name in names:
            order_at = cache(partial(_order, pair, name, protocol))
            rows.append(_sampled_row(pair_names, name, order_at, protocol, users, most, confidence))
        exact = pair.exact(users)
        needed, scores = exact.users(confidence), users * size
        rows.append(_plan_row(pair_names, EXACT, exact, confidence, size, needed, None, scores))
    settings = {"metric": parsed_metric.name, "n_items": size, "n_users": users}
    settings |= {"n_negatives": protocol.n_negatives, "max_negatives": most}
    facts = {} if log is None else facts_of(log)
    facts |= {
        "metric": parsed_metric.label,
        "planned": f"{users:,} users, {size:,} items, {protocol.n_negatives:,} negatives",
        "confidence": f"{confidence:g}",
    }
    frame = table_of(_PlanRow, rows)
    return Plan(frame, settings | {"confidence": confidence}, notes, facts=facts)


def _known(estimators: str | Sequence[str]) -> list[str]:
    names = [estimators] if isinstance(estimators, str) else list(estimators)
    if not names:
        raise ValueError("estimators must hold one name or more, got none")
    return [corrections.known(name) for name in names]


def _left_out(**options: int | None) -> None:
    """Refuse what has no meaning with chosen items."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} must be left out with chosen items, got {value}")


def _check_arguments(
    populations: Mapping[str, Ranks],
    protocol: Protocol | None,
    n_users: int | None,
    **of_log: object,
) -> None:
    """Refuse names that are no text, and arguments that populations lack or that a log has."""
    for name in populations:
        if not isinstance(name, str):
            raise ValueError(
                "data must map the names of recommenders to their true ranks, as in "
                f"{{'A': first, 'B': second}}, got the name {as_written(name)}"
            )
    for option, value in of_log.items():
        if value is not None:
            raise ValueError(
                f"{option} must be left out with populations, got {as_written(value)}: the "
                "protocol gives it"
            )
    if protocol is None or n_users is None:
        missing = "protocol" if protocol is None else "n_users"
        raise ValueError(f"{missing} must be given with populations, got None")


def _log(data: LogSource, protocol: Protocol | None, replacement: bool | None) -> Log:
    if protocol is not None:
        raise ValueError(
            f"protocol must be left out with a log, which states its own, got {protocol}: for "
            "another catalogue give n_items"
        )
    log = opened(data, [], replacement)
    if not isinstance(log, Log):
        kind = "a sub-corpus has" if isinstance(log, SubCorpus) else "values by query have"
        raise ValueError(f"{kind} no plan: only estimate and compare take one")
    return log


def _from_log(
    log: Log, n_items: int | None, progress: bool
) -> tuple[dict[str, dict[int, float]], Protocol, tuple[str, ...]]:
    """The populations fitted to a log, the planned protocol, and what to say of it."""
    rows, note = log.counts, ""
    if n_items is None:
        n_items = round(float(np.average(rows["n_items"], weights=rows["count"])))
    n_negatives, largest = int(rows["n_negatives"].min()), int(rows["n_negatives"].max())
    if n_negatives < largest:
        note = (
            f"users have {n_negatives:,} to {largest:,} negatives: true ranks are fitted to "
            f"{n_negatives:,} of each, and the plan is for as many"
        )
    protocol = Protocol(n_items, n_negatives, replacement=log.replacement)
    return fitted(log, n_items, progress=progress), protocol, (note,) if note else ()


def fitted(log: Log, n_items: int, *, progress: bool = False) -> dict[str, dict[int, float]]:
    """The maximum-entropy distribution of true ranks of each recommender of a log.

    If users differ in the number of negatives, the fit is for the smallest number: a random subset
    of a user's negatives is a sample, too.
    """
    if not log.protocol.uniform:
        raise ValueError(
            "the log must have negatives drawn uniformly from all items for a plan or a fit, got "
            f"negatives drawn {log.protocol.drawn}"
        )
    rows = log.counts
    if (rows["n_relevant"] > 1).any():
        raise ValueError(
            "a plan needs one relevant item for each user, and this log has users with "
            f"{int(rows['n_relevant'].max())}"
        )
    negatives = min(int(rows["n_negatives"].min()), MOST_NEGATIVES)
    min_items = 2 if log.replacement else negatives + 1
    n_items = integer(n_items, "n_items", min_items)
    protocol = Protocol(n_items, negatives, replacement=log.replacement)
    distributions = {}
    for name in _progress.bar(log.recommenders, desc="fit", unit="recommender", show=progress):
        counts = np.zeros(negatives + 1)
        recommender_rows = rows[rows["recommender"] == name]
        for m, size_rows in recommender_rows.groupby("n_negatives"):
            better, tied, users = (
                size_rows[column].to_numpy() for column in ("n_better", "n_tied", "count")
            )
            counts += thinned_counts(spread_ties(better, tied, users, m + 1), negatives)
        ranks, shares = priors.condensed(priors.maximum_entropy(counts, protocol).mass)
        distributions[name] = dict(zip(ranks.tolist(), shares.tolist(), strict=True))
    return distributions


def _pairs(
    populations: Mapping[str, Ranks], metric: Metric, protocol: Protocol
) -> dict[tuple[str, str], PopulationPair]:
    """The pairs that have an order; two equal exact averages are left out, with a warning."""
    if len(populations) < 2:
        raise ValueError(f"a plan needs two recommenders or more, got {len(populations)}")
    pairs = {}
    for first, second in combinations(populations, 2):
        pair = PopulationPair.of(populations[first], populations[second], metric, protocol)
        if pair.difference == 0:
            warnings.warn(
                f"{first} and {second} have the same {metric.label}: there is no order to plan for",
                stacklevel=3,
            )
        else:
            pairs[first, second] = pair
    if not pairs:
        raise ValueError(f"all recommenders have the same {metric.label}: there is no order")
    return pairs


def _order(
    pair: PopulationPair, name: str, protocol: Protocol, n_negatives: int, n_users: int
) -> Order:
    """The order of so many users with so many negatives each."""
    sampled = replace(protocol, n_negatives=n_negatives)
    gamma = corrections.default_gamma(n_users)
    return pair.order(corrections.by_name(name, pair.metric, sampled, gamma=gamma), n_users)


def _sampled_row(
    pair_names: tuple[str, str],
    name: str,
    order_at: Callable[[int, int], Order],
    protocol: Protocol,
    n_users: int,
    max_negatives: int,
    confidence: float,
) -> _PlanRow:
    """The row of an estimator; users are searched for where gamma depends on them."""
    m = protocol.n_negatives
    order = order_at(m, n_users)
    negatives = _fewest_reaching(
        lambda tried: order_at(tried, n_users), _steps(max_negatives), confidence
    )
    if name == "bias-variance":
        users = _fewest_reaching(partial(order_at, m), _steps(_MOST_USERS), confidence)
    else:
        users = order.users(confidence)
    scores = None if negatives is None else n_users * (negatives + 1)
    return _plan_row(pair_names, name, order, confidence, m + 1, users, negatives, scores)


def _plan_row(
    pair_names: tuple[str, str],
    name: str,
    order: Order,
    confidence: float,
    cost: int,
    users: int | None,
    negatives: int | None,
    scores: int | None,
) -> _PlanRow:
    """A row whose users take `cost` scores each; counts that are too large are missing."""
    if users is not None and users > _MOST_USERS:
        users = None
    counts = (negatives, scores, users, None if users is None else users * cost)
    shown = (None if count is None or count > _MOST_COUNT else count for count in counts)
    detectable = float(ndtri(confidence)) * order.sd
    return _PlanRow(*pair_names, name, order.probability, detectable, *shown)


def _steps(last: int) -> list[int]:
    """Numbers of negatives or users to try.

    >>> _steps(30)
    [1, 2, 5, 10, 20, 30]
    """
    decades = range(len(str(last)))
    return [
        step for power in decades for factor in (1, 2, 5) if (step := factor * 10**power) < last
    ] + [last]


def _fewest_reaching(
    order_at: Callable[[int], Order], grid: list[int], confidence: float
) -> int | None:
    """Fewest negatives, or users, from which on all steps of the grid keep the confidence."""
    fewest = grid[-1] + 1
    for step in reversed(grid):
        order = order_at(step)
        if order.z <= 0 or order.probability < confidence:
            return (
                negatives_needed(order_at, step, fewest, confidence) if fewest <= grid[-1] else None
            )
        fewest = step
    return fewest

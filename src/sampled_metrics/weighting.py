"""Logs of negatives that are not drawn alike: what can be said of the exact ranks.

A negative that had a chance of 1 in 50 to be drawn stands for 50 items. The sum of that over the
negatives above a held-out item estimates how many irrelevant items of the whole catalogue are
above it, without bias, whatever the design is, as long as each item that may be above has a chance
(horvitz1952). So it estimates without bias whatever is linear in the true rank, which of the
metrics here is AUC alone. A metric of the estimated rank, such as Recall@10, is biased for any
number of negatives short of all. What other metrics may be follows from the counts and the weights
alone (:mod:`sampled_metrics.bounds.weighted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from . import _ranges
from ._promises import LARGE_SAMPLE, NONE, PROVED
from ._validate import FloatArray, floats
from .bounds.assumption import Assumption, assumption_name
from .bounds.identification import IncompatibleError, interval
from .log.compact import Log
from .metrics import Metric
from .numerics.distributions import spread_ties
from .results import Comparison, Estimates


def counts_above(positive: ArrayLike, negatives: ArrayLike, inclusion: ArrayLike) -> FloatArray:
    """Estimate how many irrelevant items of the catalogue are above each held-out item.

    Each negative above it counts as one over its inclusion, and a tied one as half of that.

    Parameters
    ----------
    positive : array_like of float, shape (rows,)
        Score of each held-out item.
    negatives : array_like of float, shape (rows, m)
        Scores of its negatives; NaN where a row has fewer.
    inclusion : array_like of float, shape (rows, m)
        How often each of them is expected among the negatives, above 0, as
        :meth:`Protocol.inclusion <sampled_metrics.Protocol.inclusion>` says: m times the
        probability of a draw where an item drawn twice stands in the row twice, and otherwise the
        probability to be drawn at all.

    Returns
    -------
    ndarray of float, shape (rows,)
        At least 0; the column n_above of :func:`~sampled_metrics.log.read.read_log`.

    Raises
    ------
    ValueError
        If shapes differ, a positive is NaN, or an inclusion is not above 0.

    See Also
    --------
    sampled_metrics.Protocol.inclusion : From the weights of a sampler.

    Examples
    --------
    Two negatives are above: a popular item that is drawn 50 times of 100, and one drawn once.

    >>> counts_above([0.7], [[0.9, 0.8, 0.1]], [[0.5, 0.01, 0.2]])
    array([102.])
    """
    own, scores, chance = (
        floats(values, name)
        for values, name in (
            (positive, "positive"), (negatives, "negatives"), (inclusion, "inclusion"),
        )
    )  # fmt: skip
    if scores.ndim != 2 or own.shape != scores.shape[:1] or chance.shape != scores.shape:
        raise ValueError(
            "negatives and inclusion must have a row for each positive and the same shape, got "
            f"{scores.shape}, {chance.shape} and {own.shape}"
        )
    if np.isnan(own).any():
        raise ValueError(f"positive must not be NaN, got one in row {np.isnan(own).argmax()}")
    there = ~np.isnan(scores)
    bad = there & ~((chance > 0) & np.isfinite(chance))
    if bad.any():
        raise ValueError(f"inclusion must be > 0 where there is a negative, got {chance[bad][0]}")
    above = (scores > own[:, np.newaxis]) + 0.5 * (scores == own[:, np.newaxis])
    stands_for = np.divide(1.0, chance, out=np.zeros(chance.shape), where=there)
    return np.asarray((above * stands_for).sum(axis=1))


def estimated(
    log: Log,
    metrics: list[Metric],
    level: float,
    assumption: Assumption | None = None,
    identification: bool = True,
) -> Estimates:
    """What :func:`~sampled_metrics.evaluation.estimate` says of negatives not drawn alike.

    What is possible is left out without `identification`.

    Examples
    --------
    >>> from sampled_metrics.log.read import read_log
    >>> from sampled_metrics.metrics import metric
    >>> rows = {"user": [1, 2], "rank": [3, 1], "n_above": [30.0, 0.0]}
    >>> log = read_log(pd.DataFrame(rows), n_items=101, n_negatives=5, replacement=True)
    >>> estimated(log, [metric("auc")], 0.95).frame[["reported", "estimate", "standard_error"]]
       reported  estimate  standard_error
    0       0.8      0.85            0.15
    """
    rows, notes = [], []
    told = "n_above" in log.kinds
    counts = {} if log.protocol is None else {name: _counts(log, name) for name in log.recommenders}
    for of in metrics:
        for name in log.recommenders:
            row: tuple[float, ...] = (np.nan,) * 4
            quote, promised = "", ("", "")
            if told:
                reported, users = _mean(log, {name: _reported(log, of)})[0], log.users_of[name]
            else:
                users = int(counts[name].sum())
                ranks = np.arange(1, counts[name].size + 1)
                reported = float(counts[name] @ of(ranks, n_items=ranks.size)) / users
            if told and of.linear:
                value, error = _mean(log, {name: _auc(log)})
                reach = float(stdtrit(users - 1, 0.5 + level / 2)) * error
                ends = np.clip([value - reach, value + reach], 0.0, 1.0).tolist()
                row = (value, error, *(ends if identification else (np.nan, np.nan)))
                promised = (NONE, LARGE_SAMPLE) if identification else promised
                quote = f"{value:.4f} \u00b1 {error:.4f}"
            elif log.protocol is not None and identification:
                low, high, stands, said = _possible(log, name, counts[name], of, level, assumption)
                row, quote = (np.nan, np.nan, low, high), _ranges.written(low, high)
                promised = stands, PROVED
                notes += said
            rows.append((name, of.name, reported, *row, *promised, quote, users))
        if of.linear and log.protocol is not None and log.protocol.collapsed:
            notes.append(
                f"auc is reported as a share of the {log.protocol.n_negatives} draws: the log "
                "does not say how many of each user's were distinct"
            )
        if told and not of.linear:
            notes.append(
                f"{of.name} has no estimate: n_above estimates ranks without bias, and {of.name} "
                "is not linear in them"
            )
    columns = ["recommender", "metric", "reported", "estimate", "standard_error"]
    columns += ["possible_low", "possible_high", "assumption", "warrant", "quote", "users"]
    table = pd.DataFrame(rows, columns=columns)
    assumed = ["that n_above is without bias"] if told else []
    if log.protocol is not None:
        assumed.append("that all users' negatives are drawn from the same items but their own one")
        assumed += [f"that {assumption}"] if not table["assumption"].isin([NONE, ""]).all() else []
    settings = {"confidence": level, "assumed": "; ".join(assumed)}
    return Estimates(table, settings, tuple(dict.fromkeys(notes)))


def _possible(
    log: Log, name: str, counts: FloatArray, of: Metric, level: float, assumption: Assumption | None
) -> tuple[float, float, str, list[str]]:
    """What a metric may be, under which assumption, and why another one had to be dropped."""
    notes: list[str] = []
    for assumed in (assumption, None) if assumption is not None else (None,):
        try:
            found = interval(counts, log.protocol, of, level, assumption=assumed)  # type: ignore[arg-type]
            return found.low, found.high, assumption_name(assumed), notes
        except IncompatibleError as problem:
            if assumed is None:
                raise
            said = str(problem).replace("counts", f"the ranks of {name}")
            notes.append(f"nothing is assumed of {name}: {said}")
    raise AssertionError("nothing is assumed at last")


def _counts(log: Log, name: str) -> FloatArray:
    """Users with 0, 1, ..., m negatives above, those that tie spread over their places."""
    kinds = log.counts[log.counts["recommender"] == name]
    better, tied, count = (kinds[each].to_numpy() for each in ("n_better", "n_tied", "count"))
    rows = int(count.sum())
    if rows > log.users_of[name]:
        raise ValueError(
            "each user must have one held-out item where negatives are not drawn alike, but "
            f"{name} has {rows} rows of {log.users_of[name]} users"
        )
    assert log.protocol is not None
    return spread_ties(better, tied, count, log.protocol.n_outcomes)


def compared(log: Log, of: Metric, level: float) -> Comparison:
    """What :func:`~sampled_metrics.evaluation.compare` says of a log with a column n_above.

    The users' differences are tested, so that what two recommenders have in common, above all the
    same negatives, makes the test sharper. The notes have the correlation of the users' values.

    Examples
    --------
    >>> from sampled_metrics.log.read import read_log
    >>> from sampled_metrics.metrics import metric
    >>> rows = {"recommender": [*"AAABBB"], "user": [1, 2, 3] * 2, "rank": [3, 1, 2, 4, 2, 4]}
    >>> frame = pd.DataFrame(rows | {"n_above": [30.0, 0.0, 9.0, 50.0, 22.0, 30.0]})
    >>> log = read_log(frame, n_items=101, n_negatives=5, replacement=True)
    >>> compared(log, metric("auc"), 0.95).verdicts
    {('A', 'B'): 'A beats B'}
    """
    if "n_above" not in log.kinds:
        raise ValueError(
            "a comparison of negatives that are not drawn alike needs a log with a column n_above, "
            f"got {log!r}"
        )
    if not of.linear:
        raise ValueError(f"metric must be auc for a log with n_above, got {of.name!r}")
    if len(log.recommenders) < 2:
        raise ValueError(f"recommenders must be 2 or more to be compared, got {log.recommenders}")
    leader, *others = log.recommenders
    for number, name in enumerate(others, start=1):
        if log.difference(0, number)[0]:
            raise ValueError(
                f"recommenders must have the same users to be compared, but {leader} and {name} "
                "have not"
            )
    exact, naive, users = _auc(log), _reported(log, of), log.users_of[leader]
    pairs = list(combinations(log.recommenders, 2))
    each, notes = {}, []
    for one, two in pairs:
        value, error = _mean(log, {one: exact, two: -exact})
        p = 2.0 * float(stdtr(users - 1, -abs(value) / error)) if error else float(not value)
        each[one, two] = value, error, p
        first, second = (_mean(log, {name: exact})[1] for name in (one, two))
        if first and second:
            apart = np.hypot(first, second)
            rho = (apart**2 - error**2) / (2.0 * first * second)
            notes.append(
                f"{one} and {two}: users' values have a correlation of {rho:.2f}, so that the "
                f"difference has a standard error of {error:.4f}, and not {apart:.4f}"
            )
    left, verdicts = len(pairs), dict.fromkeys(pairs, "unknown")
    for pair in sorted(pairs, key=lambda pair: each[pair][2]):
        if each[pair][2] > (1.0 - level) / left:
            break
        better, worse = pair if each[pair][0] > 0 else pair[::-1]
        verdicts[pair] = f"{better} beats {worse}"
        left -= 1
    rows = []
    for one, two in pairs:
        value, error, _ = each[one, two]
        reach = float(stdtrit(users - 1, 1 - (1 - level) / (2 * len(pairs)))) * error
        known = verdicts[one, two] != "unknown"
        likely = "" if known or abs(value) <= reach else one if value > 0 else two
        reported = _mean(log, {one: naive, two: -naive})[0]
        row = one, two, reported, value, error, value - reach, value + reach, verdicts[one, two]
        promised = (NONE, LARGE_SAMPLE) if known else ("", "")
        rows.append((*row, *promised, np.inf if known else np.nan, likely, reach))
    columns = ["first", "second", "reported", "estimate", "standard_error", "possible_low"]
    columns += ["possible_high", "verdict", "assumption", "warrant", "steepness", "likely", "shown"]
    table = pd.DataFrame(rows, columns=columns)
    table["users_needed"] = pd.array([None] * len(rows), dtype="Int64")
    table["negatives_needed"] = ""
    settings = {"metric": of.name, "estimator": "n_above", "confidence": level}
    settings |= {"assumed": "that n_above is without bias", "warrant": LARGE_SAMPLE}
    return Comparison(table, settings, tuple(notes))


def _auc(log: Log) -> FloatArray:
    """AUC of the estimated ranks, for a row of each kind."""
    relevant, above = log.kinds["n_relevant"], log.kinds["n_above"]
    return np.asarray((1.0 - above / (log.kinds["n_items"] - relevant)) / relevant)


def _reported(log: Log, of: Metric) -> FloatArray:
    """The metric of a row of each kind, as a mean over the places that ties leave it."""
    columns = (log.kinds[name] for name in ("n_negatives", "n_relevant", "position"))
    shared = np.column_stack([*columns])
    value = np.zeros(len(shared))
    for drawn, many, at in np.unique(shared, axis=0).tolist():
        here = (shared == [drawn, many, at]).all(axis=1)
        table = of.term(np.arange(drawn + 1) + at, at, many, drawn + many)
        sums = np.append(0.0, np.cumsum(table))
        low, more = log.kinds["n_better"][here], log.kinds["n_tied"][here] + 1
        value[here] = (sums[low + more] - sums[low]) / more
    return value


def _mean(log: Log, values: Mapping[str, FloatArray]) -> tuple[float, float]:
    """The mean over users of the sums of rows' values, and its standard error."""
    name = next(iter(values))
    users, share = log.users_of[name], 1.0 / log.kinds["n_instances"]
    if users < 2:
        raise ValueError(f"users must be 2 or more for a standard error, got 1 of {name}")
    numbered = {log.recommenders.index(name): own * share for name, own in values.items()}
    parts = list(log.sums(numbered))
    mean = sum(float(many @ sums) for sums, many in parts) / users
    squares = sum(float(many @ (sums - mean) ** 2) for sums, many in parts)
    return mean, float(np.sqrt(squares / (users - 1) / users))

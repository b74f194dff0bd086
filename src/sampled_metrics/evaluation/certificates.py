"""Certificates of intervals: files that ``verify.py`` checks without this package.

A certificate holds the bets of one range as decimals; for a pair each stake is on two of them.
Rounding could violate an inequality, and a verifier that looks at some ranks only needs slack. So
each certificate y is raised by `_RAISED` over the number of users, which lowers the logarithm of
the wealth by about `_RAISED`, or for a pair by up to four times that. The range of the file is that
much wider than the printed one, and rounded outwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .. import verify
from .._confidence import NONE, THEOREM
from .._threads import one_thread
from .._validate import FloatArray, IntArray
from ..bounds import bets, identification
from ..bounds.assumption import Assumption, assumption_name
from ..bounds.generators import basis
from ..designs.judging import bet_weights
from ..designs.sample import Sample
from ..log.compact import Log
from ..metrics import Metric
from ..metrics import metric as parsed
from ..protocol import Adaptive, Weighted
from ..results import Comparison, Estimates

#: Certificates are raised by this over the number of users.
_RAISED = 0.02
#: Decimals of functions, of slopes and certificates, and of the ends of the range.
_FUNCTION, _PRICE, _END = 12, 15, 9
#: Weights of the bets under each assumption, the weakest first.
Weights = Mapping[Assumption | None, float]
#: Evidence beyond what an end needs, against rounding of logarithms.
_MARGIN = 1e-6


def encoded(estimates: Estimates, metric: str | None, recommender: str | None) -> bytes:
    """The file of one row of estimates."""
    frame, log = estimates.frame, estimates.log
    if log is None or "warrant" not in frame:
        raise ValueError(
            "a certificate needs the result of estimate, without by, on a log of sampled ranks"
        )
    for column, value in (("metric", metric and parsed(metric).name), ("recommender", recommender)):
        rows = frame if value is None else frame[frame[column] == value]
        values = list(frame[column].unique())
        if rows[column].nunique() != 1:
            raise ValueError(f"{column} must be one of {', '.join(values)} for a certificate")
        frame = rows
    row = frame.iloc[0]
    if row["warrant"] != THEOREM:
        raise ValueError(
            f"{row['metric']} has no interval by a theorem: no certificate can be written"
        )
    assumed = None if row["assumption"] == NONE else estimates.settings["assumed"].conditions[0]
    names, confidence = [row["recommender"]], estimates.settings["confidence"]
    found = content(log, parsed(row["metric"]), names, {assumed: 1.0}, confidence)
    return json.dumps(found).encode()


def encoded_pair(comparison: Comparison, first: str, second: str) -> bytes:
    """The file of the range of the first metric less the second."""
    log, assumptions, settings = comparison.log, comparison.assumptions, comparison.settings
    name = assumptions.get((first, second)) or assumptions.get((second, first))
    if log is None or name is None:
        raise ValueError(
            f"no sampled ranks of {first} and {second} were compared by one metric and without by"
        )
    assumed = [each for each in settings["assumed"].conditions if isinstance(each, Assumption)]
    weights = [*bet_weights(assumed[0] if assumed else None).items()]
    used = dict(weights[: [assumption_name(each) for each, _ in weights].index(name) + 1])
    metric, shared = parsed(settings["metric"]), (settings["confidence"], len(assumptions))
    return json.dumps(content(log, metric, [first, second], used, *shared)).encode()


@one_thread
def content(
    log: Log,
    metric: Metric,
    names: list[str],
    weights: Weights,
    confidence: float,
    n_ranges: int = 1,
) -> dict[str, Any]:
    """The content of a certificate, which was checked; ValueError out of its scope.

    The confidence is that of `n_ranges` ranges together.
    """
    sample, is_pair, assumption = Sample(log), len(names) == 2, [*weights][-1]
    _check_scope(sample, metric, names, assumption)
    needed = identification.log_evidence_needed(confidence, n_ranges)
    growth, users = needed * (bets.SUM_NEED if is_pair else 1.0), sample.users[names[0]]
    codes, counts = log.joint_counts(*names)
    kinds, ties = np.array(codes) - 1, np.stack([sample.better, sample.tied], axis=1)
    evidence: dict[int, bets.Evidence] = {}
    bet_rows, stakes = list[dict[str, Any]](), list[list[Any]]()
    for assumed, weight in weights.items():
        parts = sample.partition(metric, assumed)
        if not parts.parts:
            raise ValueError(f"metric must depend on the rank for a certificate, got {metric.name}")
        (part,) = parts.parts
        built = bets.build(parts, assumed, growth, max(sample.users.values()))
        functions = np.round(built.functions[0] @ basis(part.protocol).T, _FUNCTION)
        built = replace(built, slope=np.round(built.slope, _PRICE), functions=[functions])
        bounds = np.round(built.certificates[:, 0] + _RAISED / users, _PRICE)
        rows = [_tied(functions, above, tied, log.replacement) for above, tied in ties.tolist()]
        values = np.stack(rows, axis=1)[:, kinds]
        for side in (1, -1):
            places, scales, less = _stakes(built, bounds, side, is_pair)
            seen = values[places, np.arange(len(names))[:, np.newaxis]]
            gains = np.einsum("ij,ijk->jk", scales, seen) - less[:, np.newaxis]
            slope, mean = built.slope[places[0]] * scales[0], (scales * bounds[places]).sum(axis=0)
            signs, logs = np.full(less.size, side), np.log(gains) @ counts
            made = bets.Evidence.of(signs, slope, mean - less, logs, users, weight)
            evidence[side] = made.combined(evidence.get(side))
            share = _text(_floor(weight / less.size, _FUNCTION), _FUNCTION)
            columns = zip(less, (places + len(bet_rows)).T.tolist(), strict=True)
            stakes += [[share, _text(constant, _PRICE), place] for constant, place in columns]
        bet_rows += _bet_rows(built, bounds)
    span = parts.span(sample.share(names[0]))
    low, high = _interval(evidence, needed + _MARGIN, *span, is_pair)
    found: dict[str, Any] = {
        "format": verify.FORMAT,
        "settings": {
            "recommenders": [*names],
            "metric": metric.kind,
            "k": metric.k,
            "n_items": part.pool + 1,
            "n_negatives": part.m,
            "replacement": log.replacement,
            "confidence": _text(confidence, _FUNCTION),
            "alpha": _text(_floor(np.exp(-needed), _FUNCTION), _FUNCTION),
            "decreasing_to_rank": part.generators(assumption).top,
        },
        "counts": np.hstack([*ties[kinds], counts[:, np.newaxis]]).tolist(),
        "range": [_text(_floor(low, _END), _END), _text(0.0 - _floor(-high, _END), _END)],
        "bets": bet_rows,
        "stakes": stakes,
    }
    return _verified(found)


def _verified(found: dict[str, Any]) -> dict[str, Any]:
    try:
        verify.Certificate(found).check()
    except verify.RefusedError as problem:
        raise ValueError(f"this range cannot be certified: {problem}") from None
    return found


def _interval(
    evidence: Mapping[int, bets.Evidence],
    needed: float,
    least: float,
    most: float,
    is_pair: bool,
) -> tuple[float, float]:
    """The range of a metric in [least, most], or of the difference of two."""
    if is_pair:
        least, most = least - most, most - least
    low, high = evidence[1].end(1, needed, least, most), evidence[-1].end(-1, needed, most, least)
    if low > high:
        raise ValueError("the log contradicts the assumption at this confidence: no range is left")
    return low, high


def _stakes(
    built: bets.Bets, bounds: FloatArray, side: int, is_pair: bool
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The bets of each stake on one end, (recommenders, stakes), their factors, and a constant."""
    if not is_pair:
        places = np.flatnonzero(built.sign == side)[np.newaxis]
        return places, np.ones(places.shape), np.zeros(places.size)
    sums = bets.Sums.of(built, bounds, bounds)
    places = np.stack([sums.over, sums.under][::side])
    # Equal slopes: each bet is multiplied by the slope of the other.
    return places, built.slope[places[::-1]], _floor(sums.less * built.slope[sums.under], _PRICE)


def _bet_rows(built: bets.Bets, bounds: FloatArray) -> list[dict[str, Any]]:
    columns = zip(built.sign, built.slope, bounds, built.functions[0], strict=True)
    return [
        {
            "end": "low" if sign > 0 else "high",
            "slope": _text(slope, _PRICE),
            "bound": _text(bound, _PRICE),
            "function": [_text(value, _FUNCTION) for value in function],
        }
        for sign, slope, bound, function in columns
    ]


def _check_scope(
    sample: Sample, metric: Metric, names: list[str], assumption: Assumption | None
) -> None:
    """Name what a certificate does not cover."""
    log, users = sample.log, sample.users[names[0]]
    certified = dict.fromkeys([*verify.METRICS_WITH_CUTOFF, *verify.METRICS_WITHOUT])
    learns = assumption is not None and users >= bets.LEARNT_USERS and len(names) == 1
    refusals = {
        "negatives must be uniform and fixed": not log.protocol.uniform
        or isinstance(log.protocol, (Adaptive, Weighted)),
        "each user must have one row": not sample.one_row_per_user,
        "each user must have one relevant item": (sample.relevant > 1).any(),
        "users must not share their negatives": log.shared_negatives,
        "n_items must be the same for all users": np.ptp(sample.items) > 0,
        "n_negatives must be the same for all users": np.ptp(sample.negatives) > 0,
        "users must not have all negatives: their ranks are exact": sample.whole,
        f"the metric must be one of {', '.join(certified)}, got {metric.name},": (
            metric.kind not in certified
        ),
        "the metric must not be auc, whose range comes from other bets": metric.linear,
        f"names must have printable characters only, got {names!a},": not all(
            map(str.isprintable, names)
        ),
        "the assumption must be 'decreasing' or none": assumption not in (None, _plain(assumption)),
        f"there must be fewer than {bets.LEARNT_USERS:,} users under an assumption, since bets are "
        "learnt from so many": learns,
    }
    for sentence, applies in refusals.items():
        if applies:
            raise ValueError(f"{sentence} for a certificate")


def _plain(assumption: Assumption | None) -> Assumption | None:
    return None if assumption is None else Assumption(head=assumption.head)


def _tied(functions: np.ndarray, above: int, tied: int, replacement: bool) -> np.ndarray:
    """The values of bets on a row, as in :class:`~sampled_metrics.bounds.parts.Rows`."""
    values = functions[:, above : above + tied + 1]
    return np.asarray(values.min(axis=1) if replacement and tied > 1 else values.mean(axis=1))


def _floor(value: Any, digits: int) -> Any:
    return np.floor(value * 10.0**digits) / 10.0**digits


def _text(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"

"""Certificates of proved ranges: files that ``verify.py`` checks without this package.

A certificate holds the bets of one range as decimals. Rounding could violate an inequality, and a
verifier that looks at some ranks only needs slack. So each certificate y is raised by `_RAISED`
over the number of users, which lowers the logarithm of the wealth by about `_RAISED`. The range of
the file is that much wider than the printed one, and rounded outwards.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .. import verify
from .._confidence import NONE, PROVED
from .._threads import one_thread
from ..adaptive import Adaptive
from ..bounds import bets, identification
from ..bounds.assumption import Assumption
from ..bounds.generators import basis
from ..log.compact import Log
from ..metrics import Metric
from ..metrics import metric as parsed
from ..protocol import Weighted
from ..results import Estimates
from .sample import Sample

#: Certificates are raised by this over the number of users.
_RAISED = 0.02
#: Decimals of functions, of slopes and certificates, and of the ends of the range.
_FUNCTION, _PRICE, _END = 12, 15, 9
#: Evidence beyond what an end needs, against rounding of logarithms.
_MARGIN = 1e-6


def encoded(estimates: Estimates, metric: str | None, recommender: str | None) -> bytes:
    """The file of one row of estimates."""
    frame, log = estimates.frame, estimates.log
    if log is None or "warrant" not in frame:
        raise ValueError("a certificate needs the result of estimate on a log of sampled ranks")
    for column, value in (("metric", metric and parsed(metric).name), ("recommender", recommender)):
        rows = frame if value is None else frame[frame[column] == value]
        values = list(frame[column].unique())
        if rows[column].nunique() != 1:
            raise ValueError(f"{column} must be one of {', '.join(values)} for a certificate")
        frame = rows
    row = frame.iloc[0]
    if row["warrant"] != PROVED:
        raise ValueError(f"{row['metric']} has no proved range: no certificate can be written")
    assumed = None if row["assumption"] == NONE else estimates.settings["assumed"].conditions[0]
    confidence = estimates.settings["confidence"]
    found = content(log, parsed(row["metric"]), row["recommender"], assumed, confidence)
    return json.dumps(found, indent=None, separators=(", ", ": ")).encode()


@one_thread
def content(
    log: Log, metric: Metric, recommender: str, assumption: Assumption | None, confidence: float
) -> dict[str, Any]:
    """The content of a certificate, which was checked; ValueError out of its scope."""
    sample = Sample(log)
    _check_scope(sample, metric, recommender, assumption)
    users = sample.users[recommender]
    parts = sample.partition(metric, assumption)
    if not parts.parts:
        raise ValueError(f"metric must depend on the rank for a certificate, got {metric.name}")
    (part,) = parts.parts
    needed = identification.log_evidence_needed(confidence)
    built = bets.build(parts, assumption, needed, max(sample.users.values()))
    functions = np.round(built.functions[0] @ basis(part.protocol).T, _FUNCTION)
    slopes = np.round(built.slope, _PRICE)
    certificates = np.round(built.certificates[:, 0] + _RAISED / users, _PRICE)
    kinds = np.flatnonzero(sample.counts[recommender])
    counts = np.stack([sample.better, sample.tied, sample.counts[recommender]])[:, kinds]
    counts = np.rint(counts).astype(np.int64).T
    logs = np.log(
        [_tied(functions, above, tied, log.replacement) for above, tied, _ in counts.tolist()]
    )
    evidence = bets.Evidence.of(built.sign, slopes, certificates, counts[:, 2] @ logs, float(users))
    least, most = parts.span(sample.share(recommender))
    low = evidence.end(1, needed + _MARGIN, least, most)
    high = evidence.end(-1, needed + _MARGIN, most, least)
    if low > high:
        raise ValueError("the log contradicts the assumption at this confidence: no range is left")
    digits = 10.0**_END
    weight = np.floor(1e12 / (built.sign > 0).sum()) / 1e12
    found: dict[str, Any] = {
        "format": verify.FORMAT,
        "settings": {
            "recommender": recommender,
            "metric": metric.kind,
            "k": metric.k,
            "n_items": part.pool + 1,
            "n_negatives": part.m,
            "replacement": log.replacement,
            "confidence": _text(confidence, _FUNCTION),
            "alpha": _text(np.floor(np.exp(-needed) * 1e12) / 1e12, _FUNCTION),
            "decreasing_to_rank": part.generators(assumption).top,
        },
        "counts": counts.tolist(),
        "range": [
            _text(np.floor(max(low, 0.0) * digits) / digits, _END),
            _text(np.ceil(min(high, 1.0) * digits) / digits, _END),
        ],
        "bets": [
            {
                "end": "low" if sign > 0 else "high",
                "weight": _text(weight, _FUNCTION),
                "slope": _text(slope, _PRICE),
                "bound": _text(bound, _PRICE),
                "function": [_text(value, _FUNCTION) for value in function],
            }
            for sign, slope, bound, function in zip(
                built.sign, slopes, certificates, functions, strict=True
            )
        ],
    }
    try:
        verify.Certificate(found).check()
    except verify.RefusedError as problem:
        raise ValueError(f"this range cannot be certified: {problem}") from None
    return found


def _check_scope(
    sample: Sample, metric: Metric, recommender: str, assumption: Assumption | None
) -> None:
    """Name what a certificate does not cover."""
    log, users = sample.log, sample.users[recommender]
    learns = assumption is not None and users >= bets._LEARN
    refusals = {
        "negatives must be uniform and fixed": not log.protocol.uniform
        or isinstance(log.protocol, (Adaptive, Weighted)),
        "each user must have one row": not sample.one_row_per_user,
        "each user must have one relevant item": (sample.relevant > 1).any(),
        "users must not share their negatives": log.shared_negatives,
        "n_items must be the same for all users": np.ptp(sample.items) > 0,
        "n_negatives must be the same for all users": np.ptp(sample.negatives) > 0,
        "users must not have all negatives: their ranks are exact": sample.whole,
        "the metric must not be auc, whose range comes from other bets": metric.linear,
        "the assumption must be 'decreasing' or none": assumption not in (None, _plain(assumption)),
        f"there must be fewer than {bets._LEARN:,} users under an assumption, since bets are "
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


def _text(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"

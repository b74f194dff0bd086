"""How often estimates were right on real recommenders: the warrant "track record".

The numbers are in ``track_record.json``. The laboratory fits them to evaluations drawn from the
benchmark's exact ranks (``make evidence``), each time without one data set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..log.compact import Uniform
from ..metrics import Metric
from .sample import Sample
from .values import FITTED, Values

#: Odds from which an order is a verdict, and from which they are printed.
VERDICT, PRINTED = 0.95, 0.8
#: The largest odds that are printed: the benchmark has too few pairs to tell larger ones apart.
MOST = 0.99


class Record(NamedTuple):
    """What was fitted for a metric.

    `odds` holds a pair for each refit: the slope of a probit model in the standardised difference,
    and the share of the bias scale in the standard deviation that standardises it. `typical` holds
    this share for single estimates, and the lowest and highest typical error in such standard
    deviations.
    """

    odds: tuple[tuple[float, float], ...]
    typical: tuple[float, float, float]


@cache
def _stored() -> Mapping[str, Any]:
    content = files("sampled_metrics.evaluation").joinpath("track_record.json").read_text()
    stored: Mapping[str, Any] = json.loads(content)
    return stored


@cache
def records() -> dict[str, Record]:
    """The record of each metric by its name."""
    return {
        name: Record(tuple(map(tuple, fitted["odds"])), tuple(fitted["typical"]))
        for name, fitted in _stored()["metrics"].items()
    }


def of_log(
    values: Values, metric: Metric, estimator: str, *, has_default_gamma: bool
) -> tuple[Record | None, str]:
    """The record for estimates of a metric from a log; or None, and what the benchmark lacks."""
    reason = _missing(values.sample, metric, estimator, has_default_gamma)
    return (None, reason) if reason else (records()[metric.name], "")


def _missing(sample: Sample, metric: Metric, estimator: str, has_default_gamma: bool) -> str:
    stored = _stored()
    scope, log = stored["scope"], sample.log
    if not isinstance(log.protocol, Uniform) or log.shared_negatives:
        return "the benchmark has a fixed number of negatives, drawn uniformly for each user"
    if int(sample.relevant.max()) > 1 or not sample.one_row_per_user:
        return "the benchmark has one held-out item for each user"
    if metric.name not in stored["metrics"]:
        return f"the benchmark has {', '.join(stored['metrics'])}"
    if estimator != FITTED[0] or not has_default_gamma:
        return f"the benchmark has estimates by {FITTED[0]} with the default gamma"
    lower, upper = int(sample.negatives.min()), int(sample.negatives.max())
    if lower < upper:
        return f"users have {lower:,} to {upper:,} negatives; on the benchmark all have as many"
    measured = {
        "users": min(sample.users.values()),
        "negatives for each user": lower,
        "candidates": sample.mean_items,
        "candidates for each negative": sample.mean_items / lower,
    }
    for name, value in measured.items():
        least, most = scope[name]
        if not least <= value <= most:
            return f"the log has {value:,.4g} {name}; the benchmark has {least:,g} to {most:,g}"
    return ""


def odds(record: Record, difference: float, error: float, bias_scale: float) -> float:
    """The probability that a difference has the sign of its estimate; the smallest of all refits.

    `error` is its standard error, and `bias_scale` the root mean square bias of the estimator over
    true ranks.

    >>> round(odds(Record(((1.0, 0.0), (0.9, 0.1)), (0.1, -1.0, 2.0)), 0.02, 0.01, 0.05), 3)
    0.946
    """
    if difference == 0 or not np.isfinite(error):
        return 0.5
    probabilities = [
        float(ndtr(slope * abs(difference) / np.hypot(error, share * bias_scale)))
        for slope, share in record.odds
    ]
    return min(MOST, *probabilities)


def typical_range(
    record: Record, estimate: float, error: float, bias_scale: float
) -> tuple[float, float]:
    """Where the exact metric was in 95% of the benchmark's evaluations, seen from the estimate.

    >>> record = Record((), (0.1, -1.0, 2.0))
    >>> [round(end, 3) for end in typical_range(record, 0.03, 0.003, 0.04)]
    [0.025, 0.04]
    """
    share, lowest, highest = record.typical
    deviation = float(np.hypot(error, share * bias_scale))
    low, high = np.clip([estimate + lowest * deviation, estimate + highest * deviation], 0.0, 1.0)
    return float(low), float(high)

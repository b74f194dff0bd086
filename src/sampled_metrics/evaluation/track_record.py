"""How often estimates were right on real recommenders: the warrant "track record".

The numbers are in ``track_record.json``. The laboratory fits them to evaluations drawn from the
benchmark's exact ranks (``make evidence``): the probability that a pair is in the order of its
estimates several times, each time without one data set, and typical ranges to all of them. The
recommenders are neighbourhood methods, factorisations, linear models and popularity; none of them
is neural.
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

#: The probability from which an order is a verdict, and from which it is printed.
VERDICT, PRINTED = 0.95, 0.8
#: The largest probability that is printed: the benchmark has too few pairs to check larger ones.
MOST = 0.99


class Record(NamedTuple):
    """What was fitted for a metric.

    `probability` holds for each refit the slope a and the share c in
    Phi(a |d| / sqrt(s^2 + c^2 b^2)), the probability that a difference d with standard error s and
    bias scale b has the right sign.
    `typical` holds a share of its own for single estimates, and the two multiples of
    sqrt(s^2 + c^2 b^2) at which the range starts and ends.
    """

    probability: tuple[tuple[float, float], ...]
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
        name: Record(tuple(map(tuple, fitted["probability"])), tuple(fitted["typical"]))
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
        return f"users have {lower:,} to {upper:,} negatives; the benchmark's have the same number"
    measured = {
        "users": min(sample.users.values()),
        "negatives for each user": lower,
        "candidates": sample.mean_items,
        "candidates for each negative": sample.mean_items / lower,
    }
    for name, value in measured.items():
        least, most = scope[name]
        if not least <= value <= most:
            ends = f"{_written(least)} to {_written(most)}"
            return f"the log has {_written(value)} {name}; the benchmark has {ends}"
    return ""


def _written(number: float) -> str:
    """A whole number with its thousands separated, or a ratio with one decimal."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:,.1f}"


def probability(record: Record, difference: float, error: float, bias_scale: float) -> float:
    """The probability that a difference has the sign of its estimate; the smallest of all refits.

    `error` is its standard error, and `bias_scale` the root mean square bias of the estimator over
    true ranks.

    >>> round(probability(Record(((1.0, 0.0), (0.9, 0.1)), (0.1, -1.0, 2.0)), 0.02, 0.01, 0.05), 3)
    0.946
    """
    if difference == 0 or not np.isfinite(error):
        return 0.5
    probabilities = [
        float(ndtr(slope * abs(difference) / np.hypot(error, share * bias_scale)))
        for slope, share in record.probability
    ]
    return min(MOST, *probabilities)


def typical_range(
    record: Record, estimate: float, error: float, bias_scale: float
) -> tuple[float, float]:
    """The typical range around an estimate, clipped to [0, 1].

    >>> record = Record((), (0.1, -1.0, 2.0))
    >>> [round(end, 3) for end in typical_range(record, 0.03, 0.003, 0.04)]
    [0.025, 0.04]
    """
    share, lowest, highest = record.typical
    deviation = float(np.hypot(error, share * bias_scale))
    low, high = np.clip([estimate + lowest * deviation, estimate + highest * deviation], 0.0, 1.0)
    return float(low), float(high)

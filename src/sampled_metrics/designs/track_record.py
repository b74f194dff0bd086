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

from .._validate import shortened
from ..metrics import Metric
from .sample import Sample, UserMean
from .values import FITTED, Values

#: The probability from which an order is a verdict, and from which it is printed.
VERDICT, PRINTED = 0.95, 0.8
#: Why other designs have no record.
FIXED_NEGATIVES = "the benchmark has a fixed number of negatives, drawn uniformly for each user"
#: The largest probability that is printed: the benchmark has too few pairs to check larger ones.
MOST = 0.99


class Record(NamedTuple):
    """What was fitted for a metric, and on what.

    `probability` holds for each refit the slope a and the share c in
    Phi(a |d| / sqrt(s^2 + c^2 b^2)), the probability that a difference d with standard error s and
    bias scale b has the right sign.
    `typical` holds a share of its own for single estimates, and the two multiples of
    sqrt(s^2 + c^2 b^2) at which the range starts and ends.
    `estimates` holds the smallest and largest estimate, and `correlation` the largest correlation
    of users' values under two recommenders.
    """

    probability: tuple[tuple[float, float], ...]
    typical: tuple[float, float, float]
    estimates: tuple[float, float] = (0.0, 1.0)
    correlation: float = 1.0


@cache
def _stored() -> Mapping[str, Any]:
    content = files("sampled_metrics.designs").joinpath("track_record.json").read_text()
    stored: Mapping[str, Any] = json.loads(content)
    return stored


@cache
def records() -> dict[str, Record]:
    """The record of each metric by its name."""
    return {
        name: Record(
            tuple(map(tuple, fitted["probability"])),
            tuple(fitted["typical"]),
            tuple(fitted["estimates"]),
            fitted["correlation"],
        )
        for name, fitted in _stored()["metrics"].items()
    }


def of_log(
    values: Values, metric: Metric, estimator: str, *, has_default_gamma: bool
) -> tuple[Record | None, str]:
    """The record for estimates of a metric from a log; or None, and what the benchmark lacks."""
    reason = _missing(values.sample, metric, estimator, has_default_gamma)
    return (None, reason) if reason else (records()[_recorded(metric)], "")


def _recorded(metric: Metric) -> str:
    """The metric's name in the record: with one held-out item hit@k is recall@k."""
    return f"recall@{metric.k}" if metric.declaration.is_hit_rate else metric.name


def beyond(record: Record, sample: Sample, recommender: str, estimate: float) -> str:
    """How a recommender's level is outside the benchmark's, or ""."""
    is_first = (sample.better == 0) / (1.0 + sample.tied)
    share = float(sample.counts[recommender] @ is_first) / sample.users[recommender]
    least, most = _stored()["scope"]["share without a negative above"]
    if not least <= share <= most:
        return (
            f"{share:.0%} of the users of {shortened(recommender)} have no negative above "
            f"their item; the benchmark has {least:.0%} to {most:.0%}"
        )
    least, most = record.estimates
    if not least <= estimate <= most:
        return (
            f"the estimate for {shortened(recommender)} is {estimate:.3f}; the benchmark has "
            f"{least:.3f} to {most:.3f}"
        )
    return ""


def outside(
    record: Record, sample: Sample, means: Mapping[str, UserMean], difference_error: float
) -> str:
    """How a pair is outside the benchmark, in the level of one or in their likeness, or ""."""
    for name, mean in means.items():
        if reason := beyond(record, sample, name, mean.value):
            return reason
    first, second = (mean.error for mean in means.values())
    if not first * second:
        return ""
    correlation = (first**2 + second**2 - difference_error**2) / (2.0 * first * second)
    if correlation <= record.correlation:
        return ""
    return (
        f"users' values have a correlation of {correlation:.2f}, as of two versions of one model; "
        f"the benchmark's pairs have at most {record.correlation:.2f}"
    )


def _missing(sample: Sample, metric: Metric, estimator: str, has_default_gamma: bool) -> str:
    stored = _stored()
    scope, log = stored["scope"], sample.log
    if log.shared_negatives:
        return FIXED_NEGATIVES
    if int(sample.relevant.max()) > 1 or not sample.one_row_per_user:
        return "the benchmark has one held-out item for each user"
    if _recorded(metric) not in stored["metrics"]:
        return f"the benchmark has {', '.join(stored['metrics'])}"
    if estimator != FITTED[0] or not has_default_gamma:
        return f"the benchmark has estimates by {FITTED[0]} with the default gamma"
    lower, upper = int(sample.negatives.min()), int(sample.negatives.max())
    if lower < upper:
        return f"users have {lower:,} to {upper:,} negatives; the benchmark's have the same number"
    candidates = sample.items - sample.relevant + 1
    smallest, largest = int(candidates.min()), int(candidates.max())
    measured: list[tuple[str, float]] = [
        ("users", min(sample.users.values())),
        ("negatives for each user", lower),
        ("candidates", sample.mean_items),
        ("candidates for some users", smallest),
        ("candidates for some users", largest),
        ("times as many candidates for some users as for others", largest / smallest),
        ("candidates for each negative", sample.mean_items / lower),
    ]
    for name, value in measured:
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

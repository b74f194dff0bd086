"""How often estimates were right on real recommenders: the warrant "track record".

The numbers are in ``track_record.json``. The laboratory fits them to evaluations drawn from the
benchmark's exact ranks (``make evidence``). Data sets of some groups (sources) fit a model of the
error, the others calibrate it, with a theorem about a new source: hierarchical conformal prediction
for typical ranges (dunn2022, lee2023), conformal risk control for verdicts (angelopoulos2022).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from .._confidence import percent
from .._validate import FloatArray, shortened
from ..metrics import Metric
from . import power_law
from .power_law import PowerLaw
from .sample import Sample, UserMean
from .values import FITTED, Values

#: The probability from which an order is a verdict, and from which it is printed.
VERDICT, PRINTED = 0.95, 0.8
#: The largest probability that is printed: the benchmark has too few pairs to check larger ones.
MOST = 0.99
#: The confidence of typical ranges: how often they hold the exact value, averaged over sources.
TYPICAL = 0.95
#: Why other designs have no record.
FIXED_NEGATIVES = "the benchmark has a fixed number of negatives, drawn uniformly for each user"
#: The model of the error leaves out errors below this share of the metric.
LEAST_SPREAD = 0.01
#: How many times more negatives one user may have than another.
MOST_TIMES_NEGATIVES = 1.15


class Record(NamedTuple):
    """What was fitted for a metric and calibrated for a number of negatives.

    The centre of a range is the estimate times exp(w r + e b), with b and r as in :class:`Case`;
    `centre` is (w, e). The spread of its relative error is the root of the sum of squares of a
    times the estimate's relative standard error, and c times r; `spread` is (a, c), and `of_pairs`
    that of the difference of two logarithms. `typical` is the multiple of the spread for a typical
    range, `decided` the least strength of a verdict, infinite if there is none.
    `odds` lists strengths and, from each of these on, the share of pairs in the order of their
    estimates, averaged over sources, and that of the worst source. `estimates`, `firsts`
    and `exponents` are the smallest and largest values, `correlation` the largest correlation of
    users' values.
    """

    centre: tuple[float, float]
    spread: tuple[float, float]
    of_pairs: tuple[float, float]
    typical: float
    decided: float
    odds: tuple[tuple[float, float, float], ...]
    estimates: tuple[float, float]
    firsts: tuple[float, float]
    exponents: tuple[float, float]
    correlation: float


class Case(NamedTuple):
    """An estimate as the model of its error takes it, or an array of such estimates.

    `log_estimate` is its logarithm, `ratio` the logarithm of the power law's value relative to it
    (r), `exponent` that of the power law (b), and `error` the standard error.
    """

    log_estimate: Any
    ratio: Any
    exponent: Any
    error: Any

    @classmethod
    def of(cls, mean: UserMean, law: PowerLaw, metric: Metric) -> Case:
        return cls(*power_law.log_ratio(mean.value, law.value(metric)), law.exponent, mean.error)


def log_centre(case: Case, centre: tuple[float, float]) -> FloatArray:
    """The logarithm of the centre of a typical range."""
    return np.asarray(case.log_estimate + centre[0] * case.ratio + centre[1] * case.exponent)


def spread(case: Case, parameters: tuple[float, float]) -> FloatArray:
    """The scale of the error of a centre's logarithm."""
    relative_error = case.error / np.exp(case.log_estimate)
    return _root(parameters, relative_error, case.ratio)


def strength(
    first: Case,
    second: Case,
    error: Any,
    centre: tuple[float, float],
    parameters: tuple[float, float],
    sign: Any,
) -> FloatArray:
    """How clearly a pair is in the order of its estimates: a difference by its scale.

    The difference is that of the logarithms of the centres, times `sign` of the estimates'
    difference; so it is negative if centres have another order than estimates. `error` is the
    standard error of the estimates' difference, taken relative to their geometric mean.
    """
    gap = sign * (log_centre(first, centre) - log_centre(second, centre))
    level = np.exp(0.5 * (first.log_estimate + second.log_estimate))
    return np.asarray(gap / _root(parameters, error / level, 0.5 * (first.ratio + second.ratio)))


def _root(parameters: tuple[float, float], relative_error: Any, ratio: Any) -> FloatArray:
    squares = (parameters[0] * relative_error) ** 2 + (parameters[1] * ratio) ** 2
    return np.asarray(np.sqrt(squares + LEAST_SPREAD**2))


@cache
def _stored() -> Mapping[str, Any]:
    content = files("sampled_metrics.designs").joinpath("track_record.json").read_text()
    stored: Mapping[str, Any] = json.loads(content)
    return stored


def sources() -> int:
    """How many sources the figures rest on."""
    return int(_stored()["calibrating"])


def benchmark() -> str:
    """Whose track record it is: recommenders, data sets and sources, as counts."""
    stored = _stored()
    neural = f"{stored['neural']} of them neural" if stored["neural"] else "none of them neural"
    return (
        f"{stored['calibrating_recommenders']} recommenders, {neural}, on "
        f"{stored['calibrating_data']} data sets from {stored['calibrating']} sources"
    )


def _warrant(negatives: str) -> str:
    """Named only for numbers of negatives, as printed, that were calibrated by themselves."""
    by_negatives = next(iter(_stored()["metrics"].values()))["by_negatives"]
    return " (theorem)" if negatives in {f"{int(m):,}" for m in by_negatives} else ""


def typical_promise(negatives: str) -> str:
    """What a typical range promises, with so many negatives for each user."""
    return (
        f"calibrated on a benchmark with known exact values ({benchmark()}). At most "
        f"{percent(1.0 - TYPICAL)} of evaluations get a range that misses the exact value for the "
        "log's users, averaged over sources like the benchmark's and over repeated calibrations"
        f"{_warrant(negatives)}; those without a range count as right"
    )


def verdict_promise(metric: Metric, negatives: str) -> str:
    """What a verdict on a pair promises, and how often verdicts were wrong on sources left out."""
    observed = _stored()["metrics"][_recorded(metric)]["observed"]
    return (
        f"how often estimates that differed as clearly had the right order, on a benchmark with "
        f"known exact values ({benchmark()}). At most {percent(1.0 - TYPICAL)} of all pairs get a "
        f"wrong verdict by it, averaged over sources like the benchmark's{_warrant(negatives)}. "
        "Undecided pairs count as right there, so that of the verdicts perhaps twice as many are "
        f"wrong. Of {observed['verdicts']:,} verdicts on sources left out of the calibration, "
        f"{observed['wrong']:,} were"
    )


def recorded_metrics() -> list[str]:
    """The metrics that have a record."""
    return list(_stored()["metrics"])


def record(metric_name: str, n_negatives: int) -> Record:
    """The record of a metric for a number of negatives.

    Between two numbers of the benchmark the wider range, and the stricter verdict, of both.
    """
    fitted = _stored()["metrics"][metric_name]
    by_negatives = {int(m): values for m, values in fitted["by_negatives"].items()}
    numbers = sorted(by_negatives)
    place = bisect_left(numbers, n_negatives)
    used = numbers[place : place + 1]
    if used != [n_negatives]:
        used = numbers[max(place - 1, 0) : place + 1]
    parts = [by_negatives[m] for m in used]

    def largest(key: str) -> float:
        return max(np.inf if part[key] is None else float(part[key]) for part in parts)

    def ends(key: str) -> tuple[float, float]:
        return min(part[key][0] for part in parts), max(part[key][1] for part in parts)

    return Record(
        tuple(fitted["centre"]),
        tuple(fitted["spread"]),
        tuple(fitted["of_pairs"]),
        largest("typical"),
        largest("decided"),
        tuple(map(tuple, fitted["odds"])),
        ends("estimates"),
        ends("firsts"),
        ends("exponents"),
        largest("correlation"),
    )


def of_log(
    values: Values, metric: Metric, estimator: str, *, has_default_gamma: bool
) -> tuple[Record | None, str]:
    """The record for estimates of a metric from a log; or None, and what the benchmark lacks."""
    sample = values.sample
    reason = _missing(sample, metric, estimator, has_default_gamma)
    if reason:
        return None, reason
    return record(_recorded(metric), int(sample.negatives.min())), ""


def _recorded(metric: Metric) -> str:
    """The metric's name in the record, one name for metrics that are equal with one held-out item.

    >>> from ..metrics import metric
    >>> [_recorded(metric(name)) for name in ("hit@10", "mrr", "rr@5", "ndcg@1", "ndcg@5")]
    ['recall@10', 'ap', 'ap@5', 'recall@1', 'ndcg@5']
    """
    if metric.declaration.is_hit_rate or metric.cutoff == 1:
        return f"recall@{metric.cutoff}"
    return metric.name.replace("rr", "ap") if metric.kind == "rr" else metric.name


def beyond(record: Record, law: PowerLaw, recommender: str, estimate: float) -> str:
    """How a recommender's level is outside the benchmark's, or ""."""
    name = shortened(recommender)
    least, most = record.firsts
    if not least <= law.first <= most:
        return (
            f"{law.first:.0%} of the users of {name} have no negative above their item; the "
            f"benchmark has {least:.0%} to {most:.0%}"
        )
    least, most = record.estimates
    if not least <= estimate <= most:
        return (
            f"the estimate for {name} is {estimate:.3f}; the benchmark has {least:.3f} to "
            f"{most:.3f}"
        )
    least, most = record.exponents
    if not least <= law.exponent <= most:
        return (
            f"the share of users of {name} near the top grows as the rank to the power "
            f"{law.exponent:.2f}; the benchmark has {least:.2f} to {most:.2f}"
        )
    return ""


def outside(
    record: Record,
    laws: Mapping[str, PowerLaw],
    means: Mapping[str, UserMean],
    difference_error: float,
) -> str:
    """How a pair is outside the benchmark, in the level of one or in their likeness, or ""."""
    for name, mean in means.items():
        if reason := beyond(record, laws[name], name, mean.value):
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
    if upper > MOST_TIMES_NEGATIVES * lower:
        return (
            f"users have {lower:,} to {upper:,} negatives; the benchmark's have at most "
            f"{MOST_TIMES_NEGATIVES:g} times as many as others"
        )
    candidates = sample.items - sample.relevant + 1
    smallest, largest = int(candidates.min()), int(candidates.max())
    measured: list[tuple[str, float]] = [
        ("users", min(sample.users.values())),
        ("negatives for each user", lower),
        ("candidates", sample.mean_items),
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


def odds(record: Record, pair_strength: float) -> tuple[float, float]:
    """How often pairs of such strength were in the order of their estimates, by two counts.

    An average over sources, and the worst source. Missing where no share was calibrated.

    >>> from types import SimpleNamespace
    >>> odds(SimpleNamespace(odds=((0.0, 0.6, 0.5), (1.5, 0.93, 0.85))), 1.7)
    (0.93, 0.85)
    """
    reached = [values for at_least, *values in record.odds if pair_strength >= at_least]
    share, low = reached[-1] if reached else (np.nan, np.nan)
    return share, low


def is_decided(record: Record, pair_strength: float) -> bool:
    """Whether the record gives a verdict: by its threshold, and by the share of right orders."""
    return pair_strength >= record.decided and odds(record, pair_strength)[0] >= VERDICT


def typical_range(record: Record, case: Case, users: int) -> tuple[float, float]:
    """The typical range of a metric, at most 1; missing if too few groups calibrate it.

    A lower end of at most one user in all is 0.

    >>> from types import SimpleNamespace
    >>> record = SimpleNamespace(centre=(0.5, 0.0), spread=(1.0, 0.2), typical=2.0)
    >>> case = Case(np.log(0.05), 0.2, 0.4, 0.005)
    >>> [round(end, 3) for end in typical_range(record, case, 900)]
    [0.045, 0.069]
    """
    reach = record.typical * float(spread(case, record.spread))
    if not np.isfinite(reach):
        return np.nan, np.nan
    centre = float(log_centre(case, record.centre))
    low, high = np.minimum(np.exp([centre - reach, centre + reach]), 1.0)
    return float(low) if low * users > 1.0 else 0.0, float(high)

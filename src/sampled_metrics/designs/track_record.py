"""How often estimates were right on real recommenders: the warrant "track record".

The numbers are in ``track_record.json``. The laboratory counts them on evaluations drawn from the
benchmark's exact ranks (``make evidence``), each with a prior learned without the recommenders'
source. All sources calibrate: hierarchical conformal prediction for typical ranges (dunn2022,
lee2023), conformal risk control for verdicts (angelopoulos2022).
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
from .sample import Sample
from .values import LEARNED

#: The probability from which an order is printed.
PRINTED = 0.8
#: The largest probability that is printed: the benchmark has too few pairs to check larger ones.
MOST = 0.99
#: The confidence of typical ranges: how often they hold the exact value, averaged over sources.
TYPICAL = 0.95
#: Why other designs have no record.
FIXED_NEGATIVES = "the benchmark has a fixed number of negatives, drawn uniformly for each user"
#: What is added to errors of logarithms, as a root of squares: of estimates, and of differences.
#: Own errors leave out how far a prior can be wrong, which few logs need for the order of a pair.
BEYOND_ERROR, BEYOND_DIFFERENCE = 0.1, 0.01
#: What a lead counts where one of a pair reads sequences and the other does not: estimates of their
#: difference are wrong more often than of other pairs.
BETWEEN_FAMILIES = 0.4
#: Why models that predict ratings get no typical range.
RATINGS_MISSED = "of 480 ranges of models that predict ratings, 333 missed the exact value"
#: How many times more negatives one user may have than another.
MOST_TIMES_NEGATIVES = 1.15


class Record(NamedTuple):
    """What was calibrated for a metric and a number of negatives.

    `typical` is the multiple of an estimate's own error, on the logarithmic scale, for a typical
    range; `decided` the least strength of a verdict. Both are infinite if there is none. `odds`
    lists strengths and, from each of these on, the share of pairs in the order of their estimates,
    averaged over sources, and that of the worst source. `estimates` and `firsts` are the smallest
    and largest values.
    """

    typical: float
    decided: float
    odds: tuple[tuple[float, float, float], ...]
    estimates: tuple[float, float]
    firsts: tuple[float, float]


def spread(error: Any) -> FloatArray:
    """The scale of an estimate's error, from its own error on the logarithmic scale."""
    return np.asarray(np.hypot(error, BEYOND_ERROR))


def strength(lead: Any, error: Any, likeness: Any, is_between_families: Any) -> FloatArray:
    """How clearly one recommender leads: a difference of logarithms by the scale of its error.

    The metrics of two versions of one model hardly differ, whatever a sample says. So a lead counts
    in proportion to the standard deviation of the users' differences, (1 - likeness)^(1/2); a
    missing likeness counts as 0.
    """
    unlike = 1.0 - np.clip(np.nan_to_num(likeness), 0.0, 1.0)
    scale = np.sqrt(unlike) * np.where(is_between_families, BETWEEN_FAMILIES, 1.0)
    return np.asarray(scale * lead / np.hypot(error, BEYOND_DIFFERENCE))


@cache
def _stored() -> Mapping[str, Any]:
    content = files("sampled_metrics.designs").joinpath("track_record.json").read_text()
    stored: Mapping[str, Any] = json.loads(content)
    return stored


def sources() -> int:
    """How many sources the figures rest on."""
    return int(_stored()["sources"])


def benchmark() -> str:
    """Whose track record it is: recommenders, data sets and sources, as counts."""
    stored = _stored()
    neural = f"{stored['neural']} of them neural" if stored["neural"] else "none of them neural"
    return (
        f"{stored['recommenders']} recommenders, {neural}, on {len(stored['data'])} data sets from "
        f"{stored['sources']} sources"
    )


def typical_promise() -> str:
    """What a typical range promises."""
    return (
        f"calibrated on a benchmark with known exact values ({benchmark()}), so that at most "
        f"{percent(1.0 - TYPICAL)} of its recommenders get a range that misses the exact value for "
        "the log's users, averaged over its sources; those without a range count as right"
    )


def verdict_promise(metric: Metric) -> str:
    """What a verdict on a pair promises, and how often verdicts were wrong on sources left out."""
    observed = _stored()["metrics"][_recorded(metric)]["observed"]
    return (
        f"how often estimates that differed as clearly had the right order, on a benchmark with "
        f"known exact values ({benchmark()}), calibrated so that at most {percent(1.0 - TYPICAL)} "
        "of all its pairs get a wrong verdict, averaged over its sources; undecided pairs count as "
        f"right. Of {observed['verdicts']:,} verdicts on sources left out of the calibration, with "
        f"any number of negatives, {observed['wrong']:,} were wrong, of "
        f"{observed['sequential']:,} on models that read sequences {observed['wrong_sequential']:,}"
    )


def record(metric_name: str, n_negatives: int) -> Record:
    """The record of a metric for a number of negatives.

    Between two numbers of the benchmark the wider range, and the stricter verdict, of both.
    """
    fitted = _stored()["metrics"][metric_name]
    calibrated = fitted["by_negatives"]
    index = bisect_left([entry["negatives"][1] for entry in calibrated], n_negatives)
    entries = calibrated[index : index + 1]
    if not entries or n_negatives < entries[0]["negatives"][0]:
        entries = calibrated[max(index - 1, 0) : index + 1]

    def largest(key: str) -> float:
        return max(np.inf if entry[key] is None else float(entry[key]) for entry in entries)

    def ends(key: str) -> tuple[float, float]:
        return min(entry[key][0] for entry in entries), max(entry[key][1] for entry in entries)

    return Record(
        largest("typical"),
        largest("decided"),
        tuple(map(tuple, fitted["odds"])),
        ends("estimates"),
        ends("firsts"),
    )


def of_log(sample: Sample, metric: Metric, estimator: str) -> tuple[Record | None, str]:
    """The record for estimates of a metric from a log; or None, and what the benchmark lacks."""
    reason = _missing(sample, metric, estimator)
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
    return metric.name.replace("rr", "ap") if metric.base == "rr" else metric.name


def beyond(record: Record, first: float, recommender: str, estimate: float) -> str:
    """How a recommender's level is outside the benchmark's, or "".

    `first` is the share of users without a negative above.
    """
    name = shortened(recommender)
    low, high = record.firsts
    if not low <= first <= high:
        return (
            f"{first:.0%} of the users of {name} have no negative above their item; the "
            f"benchmark has {low:.0%} to {high:.0%}"
        )
    low, high = record.estimates
    if not low <= estimate <= high:
        return (
            f"the estimate for {name} is {estimate:.4f}; the benchmark has {low:.4f} to {high:.4f}"
        )
    return ""


def _missing(sample: Sample, metric: Metric, estimator: str) -> str:
    stored = _stored()
    scope, log = stored["scope"], sample.log
    if log.shared_negatives:
        return FIXED_NEGATIVES
    if int(sample.relevant.max()) > 1 or not sample.one_row_per_user:
        return "the benchmark has one held-out item for each user"
    if sample.ranks_are_ties:
        return (
            "most items that are not first tie with all negatives that are not above them, as "
            "where only hits are known: give a column hit, or ranks such as >5, for intervals of "
            "hits"
        )
    if _recorded(metric) not in stored["metrics"]:
        return f"the benchmark has {', '.join(stored['metrics'])}"
    if estimator != LEARNED:
        return f"the benchmark has estimates by {LEARNED}"
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
        low, high = scope[name]
        if not low <= value <= high:
            ends = f"{_written(low)} to {_written(high)}"
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


def typical_range(record: Record, estimate: float, error: float, users: int) -> tuple[float, float]:
    """The typical range of a metric, at most 1; missing if too few sources calibrate it.

    `error` is that of the logarithm. A lower end of at most one user in all is 0.

    >>> from types import SimpleNamespace
    >>> low, high = typical_range(SimpleNamespace(typical=2.0), 0.05, 0.1, 900)
    >>> round(low, 3), round(high, 3)
    (0.038, 0.066)
    """
    reach = record.typical * float(spread(error))
    if not np.isfinite(reach):
        return np.nan, np.nan
    low, high = estimate * np.exp(-reach), min(estimate * np.exp(reach), 1.0)
    return float(low) if low * users > 1.0 else 0.0, float(high)

"""The study of three recommenders, exactly: what Tables 3 and 4 and figure 6 would show.

All of it rests on the ranks bundled with the package, under each reading of section 9 that is
bundled: "as printed", and the settings that give Table 3. Recommender X starts from random
factors; the paper gives no seed, so what depends on X is computed for ten seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import stats

from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.estimators import Estimator

from ..data.datasets import bundled_variants
from .finding import Z_LIMIT, Distance, Printed

METRICS = ("recall@10", "ndcg@10", "ap", "auc")
N_NEGATIVES = 100  # krichene2020, section 6
RUNS = 100  # repetitions behind the sampled columns of Tables 3 and 4
N_USERS = 6040

PRINTED, REPRODUCED = "as printed", "as reproduced"
NUMERATOR = "scores are the numerator of eq. 30 alone"
NEIGHBOURS = (
    f"{NUMERATOR}; for Z, items are not their own neighbours and each item of the history keeps "
    "its 10 nearest"
)
#: What the paper leaves open about each recommender and the ledger's claims need.
SETTINGS = {
    "X": "the random start of X's factors",
    "Y": NUMERATOR,
    "Z": f"{NEIGHBOURS}; ties are broken at random",
}
LAST_PLACE = (
    f"{NEIGHBOURS}; ties in the sample are broken at random, and never put the item behind all of "
    "its ties"
)
WITHOUT = "negatives are drawn without replacement"

#: The corrected columns of Tables 3 and 4.
CORRECTED = ("rank estimate", "CLS", "BV 1", "BV 0.1", "BV 0.01", "BV 0.001")
COLUMNS = ("uncorrected", *CORRECTED)
#: Two methods that the paper does not describe and its table has.
NONNEGATIVE, ONE_MORE = "CLS, non-negative", "rank estimate, m + 1"


class Value(NamedTuple):
    """A metric in percent: its mean, and its standard deviation over runs."""

    mean: float
    sd: float


#: The ranks of each recommender and variant.
bundle = cache(bundled_variants)


def variants(recommender: str, reading: str) -> list[str]:
    """The bundled variants of a reading: one, or the ten seeds of X."""
    if recommender == "X":
        return [v for name, v in bundle() if name == "X" and (v == REPRODUCED or v[:4] == "seed")]
    return [reading]


@cache
def exact(recommender: str, variant: str) -> dict[str, Value]:
    """Mean of each metric in percent over ties broken at random, and its standard deviation."""
    intervals = bundle()[recommender, variant]
    first, last = intervals.ranks("optimistic"), intervals.ranks("pessimistic")
    rows: dict[str, Value] = {}
    for kind in METRICS:
        mean = intervals.evaluate(metric(kind), "mean")
        if kind == "auc":
            width = intervals.n_tied + 1
            variance = (width**2 - 1) / 12 / (intervals.n_candidates - 1.0) ** 2
        else:
            squares = np.cumsum(np.append(0.0, metric(kind)(np.arange(1, last.max() + 1)) ** 2))
            second = (squares[last] - squares[first - 1]) / (last - first + 1)
            variance = np.maximum(second - mean**2, 0.0)
        rows[kind] = Value(100 * mean.mean(), 100 * np.sqrt(variance.sum()) / variance.size)
    return rows


# --- what each method reports ---------------------------------------------------------------------


@cache
def mean_catalogue() -> int:
    """Candidates per user on average: the n that the paper's corrections turn out to be for."""
    return round(float(bundle()["Y", REPRODUCED].n_candidates.mean()))


@cache
def corrected(method: str, kind: str, n_items: int, n_negatives: int = N_NEGATIVES) -> Estimator:
    """The estimator of a column of Tables 3 and 4, for the binomial law as in section 5."""
    metric_, protocol = metric(kind), Protocol(n_items, n_negatives)
    if method == "uncorrected":
        return estimators.naive(metric_, protocol)
    if method.startswith("BV "):
        return estimators.bias_variance(metric_, protocol, float(method.removeprefix("BV ")))
    if method == ONE_MORE:
        ranks = 1 + np.arange(n_negatives + 1) * (n_items - 1) // (n_negatives + 1)
        return Estimator(metric_, protocol, metric_(ranks, n_items), method)
    if method == "rank estimate":
        return estimators.rank_estimate(metric_, protocol)
    return estimators.monotone(metric_, protocol, nonnegative=method == NONNEGATIVE)


# --- a run of the sampled evaluation --------------------------------------------------------------


class Moments(NamedTuple):
    """Sums over all users' distributions that give mean and variance of any estimator.

    Users are grouped by their number of candidates, to within 5%, because a correction may be
    for each user's own.
    """

    n_items: list[int]  # of each group
    first: np.ndarray  # (groups, m + 1): its share of the mean law
    second: np.ndarray  # (groups, m + 1, m + 1): its share of the mean of outer products


@cache
def moments(recommender: str, variant: str, replacement: bool) -> Moments:
    """Moments of the law over all users, negatives and ties drawn anew for every user and run."""
    intervals = bundle()[recommender, variant]
    pmfs, n = intervals.sampled_pmf(N_NEGATIVES, replacement), intervals.n_candidates
    group = np.floor(np.log(n / n.min()) / np.log(1.05)).astype(int)
    parts = [group == g for g in np.unique(group)]
    return Moments(
        [round(float(n[part].mean())) for part in parts],
        np.array([pmfs[part].sum(axis=0) for part in parts]) / n.size,
        np.array([pmfs[part].T @ pmfs[part] for part in parts]) / n.size,
    )


def expected_with(m: int, recommender: str, variant: str, kind: str) -> float:
    """Expected value with m negatives drawn without replacement, ties broken against the item.

    For X and Y, which have next to no ties.
    """
    intervals = bundle()[recommender, variant]
    estimator = estimators.naive(
        metric(kind), Protocol(intervals.n_candidates, m, replacement=False)
    )
    return float(estimator.expected(intervals.ranks("pessimistic")).mean())


@cache
def sampled(
    recommender: str,
    variant: str,
    replacement: bool = False,
    method: str = "uncorrected",
    each_n: bool = False,
) -> dict[str, Value]:
    """Expectation of each metric in percent as a method reports it, and the sd of one run.

    The correction is for each user's own number of candidates, or for their mean.
    """
    n_items, first, second = moments(recommender, variant, replacement)
    if method == "uncorrected" or not each_n:  # one vector serves all users
        n_items = [mean_catalogue()]
        first, second = first.sum(axis=0, keepdims=True), second.sum(axis=0, keepdims=True)
    rows: dict[str, Value] = {}
    for kind in METRICS:
        values = np.array([corrected(method, kind, n).values for n in n_items])
        mean = float((first * values).sum())
        square = float(np.einsum("gi,gij,gj", values, second, values, optimize=True))
        variance = max(float((first * values**2).sum()) - square, 0.0)
        rows[kind] = Value(100 * mean, 100 * np.sqrt(variance / N_USERS))
    return rows


def last_place_left_out(recommender: str, method: str = "uncorrected") -> float:
    """Points that expected AUC gains if the item is never put behind all its sampled ties.

    With K >= 1 tied negatives in the sample the item then has (K - 1) / 2 of them above it on
    average in place of K / 2. Every method reports an AUC that is linear in the number above.
    """
    slope = np.polyfit(
        np.arange(N_NEGATIVES + 1), corrected(method, "auc", mean_catalogue()).values, 1
    )[0]
    return float(-100 * slope * _seen_ties(recommender) / 2)


@cache
def _seen_ties(recommender: str) -> float:
    """The share of users with a tied negative in the sample."""
    intervals = bundle()[recommender, REPRODUCED]
    protocol = Protocol(intervals.n_candidates, N_NEGATIVES, replacement=False)
    return float(1 - protocol.pmf(intervals.n_tied + 1, counts=[0])[:, 0].mean())


# --- numbers that depend on X's seed --------------------------------------------------------------


def within_seeds(printed: Printed, values: list[float], error: float = 0.0) -> tuple[bool, float]:
    """Whether a printed value may be that of one more seed, and the t of that.

    The ten seeds give a prediction interval for an eleventh, at the level of `Z_LIMIT`; `error`
    is the standard error of the printed value about that of its own seed. A value that none of
    the ten reaches, its own error and rounding taken off, is not shown to be that of a seed.
    """
    t = printed.z(float(np.mean(values)), _spread(values, error))
    slack = printed.half_unit * (1 + 1e-9) + Z_LIMIT * error
    reached = min(values) - slack <= printed.value <= max(values) + slack
    return t < seeds_limit(len(values)) and reached, t


def distance_of_seeds(printed: Printed, values: list[float], error: float = 0.0) -> Distance:
    """How far a printed value is from one more seed's: the z that is as unlikely as its t."""
    distance = printed.distance(float(np.mean(values)), _spread(values, error))
    return distance._replace(z=float(stats.norm.isf(stats.t.sf(distance.z, len(values) - 1))))


def _spread(values: list[float], error: float) -> float:
    """Standard deviation of a prediction for one more seed."""
    return float(np.hypot(np.std(values, ddof=1) * np.sqrt(1 + 1 / len(values)), error))


def seeds_limit(n_seeds: int) -> float:
    """The t that corresponds to `Z_LIMIT` when a spread is known from so many seeds."""
    return float(stats.t.isf(stats.norm.sf(Z_LIMIT), n_seeds - 1))


def span(values: list[float], digits: int = 2) -> str:
    """Format a range, as in "7.43 to 7.72 over 10 seeds"."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f} over {len(values)} seeds"


def every_seed(reading: str, value: Callable[[str, str], float]) -> list[dict[str, float]]:
    """A value of X, Y and Z under a reading, for each seed of X."""
    fixed = {name: value(name, reading) for name in "YZ"}
    return [{"X": value("X", seed)} | fixed for seed in variants("X", reading)]

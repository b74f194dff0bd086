"""Statements about a new source of data, from sources whose exact metrics are known.

A *group* is a source: the data sets of one collection. Within a group evaluations are drawn, and
each has a score (how far its estimate is off) or a loss (the share of its pairs called wrongly).
If the groups and a new one are exchangeable, both functions here hold for the new one on average
over groups, whatever the distribution: :func:`quantile_over_groups` is the hierarchical conformal
quantile (dunn2022, lee2023), :func:`threshold_over_groups` the threshold of conformal risk control
(angelopoulos2022) with the group as its unit. ``simulated`` tries both on groups that we draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
import pandas as pd

from sampled_metrics._validate import FloatArray


def fewest_groups(confidence: float) -> int:
    """The fewest groups for which the quantile is finite.

    >>> [fewest_groups(confidence) for confidence in (0.9, 0.95)]
    [9, 19]
    """
    return ceil(round(confidence / (1.0 - confidence), 9))


def quantile_over_groups(
    scores: Sequence[FloatArray], weights: Sequence[FloatArray], confidence: float
) -> float:
    """The least score that a new group's evaluation exceeds at most as often as 1 - confidence.

    `scores` and `weights` have an array for each group; the weights of a group sum to 1. A group
    counts 1 / (groups + 1), and the rest counts as infinite. So it is infinite for fewer groups
    than ``fewest_groups`` says.

    >>> groups = [np.array([1.0, 2.0])] * 19
    >>> quantile_over_groups(groups, [np.array([0.5, 0.5])] * 19, 0.95)
    2.0
    >>> quantile_over_groups(groups[:18], [np.array([0.5, 0.5])] * 18, 0.95)
    inf
    """
    if not scores:
        return np.inf
    all_scores, all_weights = np.concatenate(scores), np.concatenate(weights)
    order = np.argsort(all_scores, kind="stable")
    reached = np.cumsum(all_weights[order])
    enough = confidence * (len(scores) + 1)
    index = int(np.searchsorted(reached, enough - 1e-9))
    return float(all_scores[order[index]]) if index < order.size else np.inf


def threshold_over_groups(
    strengths: Sequence[FloatArray],
    wrong: Sequence[FloatArray],
    weights: Sequence[FloatArray],
    error_rate: float,
) -> float:
    """The least threshold at which at most `error_rate` of all pairs of a new group are called
    wrongly, in expectation.

    A pair is called if its strength is at least the threshold. `wrong` says which pairs would be
    called wrongly; the weights of all pairs of a group sum to 1. Infinite if there is no such
    threshold.

    >>> strengths = [np.array([1.0, 3.0])] * 30
    >>> wrong = [np.array([True, False])] * 30
    >>> threshold_over_groups(strengths, wrong, [np.array([0.5, 0.5])] * 30, 0.05)
    3.0
    """
    allowed = error_rate * (len(strengths) + 1) - 1.0
    if allowed < -1e-9:
        return np.inf
    all_strengths = np.concatenate(strengths)
    losses = np.concatenate([w * np.asarray(part) for w, part in zip(weights, wrong, strict=True)])
    order = np.argsort(-all_strengths, kind="stable")
    ordered = all_strengths[order]
    # Pairs of equal strength are called together: only the last of them is a threshold.
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    called_wrongly = np.cumsum(losses[order])[is_last]
    allowed_thresholds = ordered[is_last][called_wrongly <= allowed + 1e-9]
    return float(allowed_thresholds[-1]) if allowed_thresholds.size else np.inf


def wrong_at_most(wrong: FloatArray, called: FloatArray, confidence: float) -> float:
    """The least share b for which "of the pairs called, at most b are wrong" is shown; or 1.

    `wrong` and `called` are shares of a group's pairs, of independent groups, by a threshold that
    none of them chose. If more were wrong, then bets against g = wrong - b called would lose on
    average: the mean over stakes s in (1/2, 1) of the product of 1 - s g has an expectation of at
    most 1, so it reaches 1 / (1 - confidence) with a probability of at most 1 - confidence.

    >>> called = np.full(24, 0.7)
    >>> round(wrong_at_most(np.zeros(24), called, 0.95), 2)
    0.24
    """
    stakes = 0.5 + (np.arange(100) + 0.5) / 200

    def has_evidence(share: float) -> bool:
        gains = 1.0 - stakes[:, np.newaxis] * (wrong - share * called)
        return bool(np.prod(gains, axis=1).mean() >= 1.0 / (1.0 - confidence))

    if not has_evidence(1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2.0
        low, high = (low, middle) if has_evidence(middle) else (middle, high)
    return high


def martingale(scores: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The evidence after each score that these do not come in a random order (vovk2003).

    Each score has a p-value from its place among those so far, ties broken at random. The evidence
    is what a bettor owns who bets on small p-values: the mean over e in (0, 1) of the product of
    e p^(e - 1). If any order is equally likely, it ever reaches 20 with a probability of at most
    5%, by Ville's inequality.

    >>> rng = np.random.default_rng(1)
    >>> bool(martingale(np.arange(20.0), rng)[-1] > 20 > martingale(-np.arange(20.0), rng).max())
    True
    """
    exponents = (np.arange(100) + 0.5) / 100
    p_values = []
    for number in range(1, len(scores) + 1):
        known, last = scores[:number], scores[number - 1]
        larger, equal = np.count_nonzero(known > last), np.count_nonzero(known == last)
        p_values.append((larger + rng.random() * equal) / number)
    gains = np.log(exponents) + (exponents - 1.0) * np.log(p_values)[:, np.newaxis]
    return np.asarray(np.exp(np.cumsum(gains, axis=0)).mean(axis=1))


def simulated(
    n_groups: int,
    n_evaluations: int,
    spread: str,
    shift: float,
    repeats: int,
    seed: int,
) -> pd.Series:
    """Coverage of the 95% quantile, and wrong calls at 5%, for a new group of a drawn hierarchy.

    Errors in a group are normal with a scale of the group's own: exp(N(0, 1/4)) if `spread` is
    "moderate"; ten times larger in one of ten groups if it is "outliers". The new group's errors
    are `shift` times as large. Each evaluation has one pair, called in the order of its estimated
    difference.
    """
    rng = np.random.default_rng(seed)
    covered, wrong_calls = np.empty(repeats), np.empty(repeats)
    weights = [np.full(n_evaluations, 1.0 / n_evaluations)] * n_groups
    for repeat in range(repeats):
        scales = np.exp(rng.normal(0.0, 0.5, n_groups + 1))
        if spread == "outliers":
            scales = np.where(rng.random(n_groups + 1) < 0.1, 10.0, 1.0)
        scales[-1] *= shift
        errors = scales[:, np.newaxis] * rng.normal(size=(n_groups + 1, n_evaluations))
        quantile = quantile_over_groups([*np.abs(errors[:-1])], weights, 0.95)
        covered[repeat] = np.mean(np.abs(errors[-1]) <= quantile)
        differences = rng.normal(0.0, 2.0, errors.shape)
        estimates = differences + errors
        strengths, wrong = np.abs(estimates), differences * estimates < 0
        threshold = threshold_over_groups([*strengths[:-1]], [*wrong[:-1]], weights, 0.05)
        wrong_calls[repeat] = np.mean(wrong[-1] & (strengths[-1] >= threshold))
    root = np.sqrt(repeats)
    return pd.Series(
        {
            "covered": covered.mean(),
            "covered_error": covered.std() / root,
            "wrong": wrong_calls.mean(),
            "wrong_error": wrong_calls.std() / root,
        }
    )

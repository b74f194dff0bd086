"""Computations of the chapter on several relevant items: simulated users, their spreads, joint
distributions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

import numpy as np
import pandas as pd

from sampled_metrics import Metric, Protocol
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.estimators import Estimator

from ..display.tables import Frame, Texts
from ..experiments.theory import variance_of_set


def drawn_users(
    n_items: int, sizes: Iterable[int], users: int, concentration: float, seed: int
) -> dict[int, IntArray]:
    """Random ranks of the relevant items of users with each number of them, concentrated near the
    top.

    >>> drawn_users(100, [2], 1, 3.0, seed=1)[2].shape
    (1, 2)
    """
    rng = np.random.default_rng(seed)
    weights = np.diff((np.arange(n_items + 1) / n_items) ** (1 / concentration))
    return {
        size: np.sort(
            [rng.choice(n_items, size, replace=False, p=weights) + 1 for _ in range(users)]
        )
        for size in sorted(sizes)
    }


def spreads(estimator: Estimator, sets: IntArray) -> tuple[float, float]:
    """The mean over users of the expected metric, and the standard deviation of the average over
    users relative to independent items of a user; NaN where the latter is 0.

    >>> from sampled_metrics import estimators, metric
    >>> auc = estimators.naive(metric("auc"), Protocol(12, 4, replacement=True, n_relevant=2))
    >>> mean, ratio = spreads(auc, np.array([[6, 7]]))
    >>> round(mean, 6), round(ratio, 6)
    (0.5, 1.414214)
    """
    places = list(enumerate(sets.T, start=1))
    true_variance = sum(variance_of_set(estimator, user_ranks) for user_ranks in sets)
    independent_variance = sum(float(estimator.variance(ranks, j).sum()) for j, ranks in places)
    mean = float(np.sum([estimator.expected(ranks, j) for j, ranks in places], axis=0).mean())
    return mean, sqrt(true_variance / independent_variance) if independent_variance > 0 else float(
        "nan"
    )


def joint_pmf(protocol: Protocol, pair: Sequence[int]) -> FloatArray:
    """Distribution of the negatives above each of two relevant items, rows for the better one.
    Given those above the worse item, those above the better one are a sample of them.
    """
    above = [rank - j for j, rank in enumerate(pair, start=1)]
    second = protocol.pmf(pair[1], 2)
    joint = np.zeros((second.size, second.size))
    for y in map(int, np.flatnonzero(second > 0)):
        drawn = Protocol(above[1] + 1, y, replacement=protocol.replacement) if y else None
        joint[: y + 1, y] = second[y] * (drawn.pmf(above[0] + 1) if drawn else np.ones(1))
    return joint


def shares_texts(means: Frame) -> Texts:
    """Least and largest ratio to the exact metric, uncorrected as a multiple and corrected in
    percent, for AP and for the others; and how often a correction is nearer. "ap_naive" and
    "ap_times" have the multiples of AP alone.

    >>> keys = pd.MultiIndex.from_tuples([("AP", 2), ("NDCG", 2)])
    >>> toy = pd.DataFrame({"exact": [0.1, 0.2], "uncorrected": [0.6, 0.3]}, keys)
    >>> toy["corrected"] = [0.05, 0.4]
    >>> texts = shares_texts(toy)
    >>> texts["naive_least"], texts["ap_most"], texts["bv_least"], texts["smaller"], texts["rows"]
    ((1.5, '.1f'), (50.0, '.0f'), (200.0, '.0f'), 1, 2)
    >>> texts["ap_naive_least"], texts["ap_naive_most"], texts["ap_times_most"]
    ((6.0, '.1f'), (6.0, '.1f'), (0.5, '.2f'))
    """
    naive = means["uncorrected"] / means["exact"]
    corrected = 100 * means["corrected"] / means["exact"]
    is_ap = corrected.index.get_level_values(0) == "AP"
    errors = (means[["uncorrected", "corrected"]].sub(means["exact"], axis=0)).abs()
    return {
        "naive_least": (round(float(naive.min()), 9), ".1f"),
        "naive_most": (round(float(naive.max()), 9), ".1f"),
        "ap_naive_least": (round(float(naive[is_ap].min()), 9), ".1f"),
        "ap_naive_most": (round(float(naive[is_ap].max()), 9), ".1f"),
        "ap_times_least": (float(corrected[is_ap].min()) / 100, ".2f"),
        "ap_times_most": (float(corrected[is_ap].max()) / 100, ".2f"),
        "ap_least": (float(corrected[is_ap].min()), ".0f"),
        "ap_most": (float(corrected[is_ap].max()), ".0f"),
        "bv_least": (float(corrected[~is_ap].min()), ".0f"),
        "bv_most": (float(corrected[~is_ap].max()), ".0f"),
        "smaller": int((errors["corrected"] < errors["uncorrected"]).sum()),
        "rows": len(means),
    }


def within_variance(recall: Estimator, instance: IntArray) -> float:
    """Variance of a user's sampled Recall@k, from the probability of each item to be within k. In
    one sample the deeper of two items is within k only if the other is, too. `recall` is the
    uncorrected estimator for as many relevant items; `instance` has increasing true ranks.
    """
    metric: Metric = recall.metric
    k, protocol, size = metric.k or 0, recall.protocol, len(instance)
    places = enumerate(instance, start=1)
    p_within = np.array([protocol.pmf(r, j)[: max(k - j + 1, 0)].sum() for j, r in places])
    pairs = (2 * np.arange(1, size + 1) - 1) @ p_within  # of each pair the deeper one counts
    return float(pairs / size**2 - (p_within.sum() / size) ** 2)


def auc_variance(instance: IntArray, protocol: Protocol) -> float:
    """Variance of a user's sampled AUC by its closed form."""
    n, m, size = protocol.n_items, protocol.n_negatives, len(instance)
    assert isinstance(n, int)
    q = (instance - np.arange(1, size + 1)) / (n - size)
    pairs = (np.minimum.outer(q, q) * (1 - np.maximum.outer(q, q))).sum()
    finite_factor = 1.0 if protocol.replacement else (n - size - m) / (n - size - 1)
    return float(pairs / (size**2 * m) * finite_factor)


def each_by_way(values: Mapping[tuple[str, str, int], float]) -> Frame:
    """A table of values by metric and number of items, a column for each way.

    >>> each_by_way({("exact", "AP", 2): 0.1, ("corrected", "AP", 2): 0.2}).iloc[0].to_dict()
    {'exact': 0.1, 'corrected': 0.2}
    """
    frame = pd.Series(values).unstack(level=0)
    return frame[list(dict.fromkeys(column for column, _, _ in values))]

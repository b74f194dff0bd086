"""Negatives as libraries draw them: the chances of hits, and a survey of code."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sampled_metrics import Protocol
from sampled_metrics._validate import FloatArray, IntArray

from ..data import datasets

#: Evaluations of public code as somebody read them, with the commit and the line that says so.
SURVEYED = datasets.BUNDLE / "surveyed_protocols.csv"


def hit_curves(
    counts: FloatArray, ranks: IntArray, m: int, k: int
) -> dict[str, dict[str, FloatArray]]:
    """Probability of an item at each true rank to be among the first k, by ranking and by sampler.
    One ranking is by the counts, the largest first; the other is unrelated to them.

    >>> counts = np.array([40.0, 20.0, 10.0, 5.0, 5.0])
    >>> {way: at.round(2) for way, at in hit_curves(counts, np.array([2]), 2, 1)["popular"].items()}
    {'uniform': array([0.5]), 'by ratings': array([0.11]), 'by ratings, distinct': array([0.08])}
    """
    orders = {
        "popular": -np.sort(-counts),
        "unrelated": np.random.default_rng(7).permutation(counts),
    }
    return {
        name: {
            "uniform": Protocol(counts.size, m, replacement=False).cdf(ranks)[:, k - 1],
            "by ratings": Protocol(counts.size, m, weights=weights).cdf(ranks)[:, k - 1],
            "by ratings, distinct": Protocol(
                counts.size, m, weights=weights, replacement=False
            ).cdf(ranks)[:, k - 1],
        }
        for name, weights in orders.items()
    }  # fmt: skip


def surveyed_defaults() -> pd.DataFrame:
    """How many surveyed codes, by their kind, rank all items by default, sample, do both (mixed) or
    do not rank at all (neither), and how many can sample, by default or on request.
    """
    rows = pd.read_csv(SURVEYED)
    ranking = rows["default"].replace({"rating": "neither", "none": "neither"})
    counts = pd.crosstab(rows["kind"], ranking)
    columns = ["all", "sampled", "mixed", "neither"]
    counts = counts.reindex(columns=columns, fill_value=0)
    can_sample = (rows["option_sampled"] == "yes").groupby(rows["kind"]).sum()
    return counts.assign(read=counts.sum(axis=1), **{"can sample": can_sample})

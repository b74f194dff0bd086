"""Negatives as libraries draw them: lists to audit, and what low ids get."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

from sampled_metrics import Protocol
from sampled_metrics._validate import FloatArray, IntArray

from ..data import datasets

#: Evaluations of public code as somebody read them, with the commit and the line that says so.
SURVEYED = datasets.BUNDLE / "surveyed_protocols.csv"
#: Ways to draw, and whether an audit should find that the draws are not uniform.
WAYS = {
    "uniform": False,
    "with replacement": False,
    "collapsed": False,
    "pooled": False,
    "popular": True,
    "popular, distinct": True,
    "one list": True,
    "in-batch": True,
    "low numbers": True,
}


def lists(
    sampler: str, seed: int, n_users: int = 200, n_items: int = 900, m: int = 40
) -> tuple[pd.DataFrame, int, pd.DataFrame]:
    """Negatives drawn in one of `WAYS`, the catalogue's size, and the positives of their users."""
    rng = np.random.default_rng(seed)
    liking = rng.permutation(1 / (1 + np.arange(n_items)))
    positive_matrix = rng.random((n_users, n_items)) < np.minimum(20 * liking, 0.8) + 0.005
    counts = positive_matrix.sum(axis=0).astype(float)
    shared_list = rng.choice(n_items, m, replace=False)
    held_out = np.array(
        [rng.choice(np.flatnonzero(is_positive)) for is_positive in positive_matrix]
    )
    samples = []
    for row, is_positive in enumerate(positive_matrix):
        pool = np.flatnonzero(~is_positive)
        weight = counts[pool]
        if sampler == "uniform":
            sample = rng.choice(pool, m, replace=False)
        elif sampler in ("with replacement", "collapsed"):
            sample = rng.choice(pool, m)
            sample = np.unique(sample) if sampler == "collapsed" else sample
        elif "popular" in sampler:
            sample = rng.choice(pool, m, replace="distinct" not in sampler, p=weight / weight.sum())
        elif sampler == "pooled":
            sample = rng.choice(pool, m * (1 + row % 3), replace=False)
        elif sampler == "one list":
            sample = shared_list[~is_positive[shared_list]]
        elif sampler == "in-batch":
            batch = held_out[row // m * m : row // m * m + m]
            sample = np.unique(batch[batch != held_out[row]])
        else:
            sample = lowest(rng.integers(0, n_items, 2 * m), m, is_positive)
        samples.append(sample)
    users, items = np.nonzero(positive_matrix)
    user = np.repeat(np.arange(n_users), [sample.size for sample in samples])
    negatives = pd.DataFrame({"user": user, "item": np.concatenate(samples)})
    return negatives, n_items, pd.DataFrame({"user": users, "item": items})


def lowest(draws: IntArray, m: int, is_known: NDArray[np.bool_]) -> IntArray:
    """Sort the distinct unseen draws and keep the first m, as some libraries do."""
    distinct = np.unique(draws)
    return np.asarray(distinct[~is_known[distinct]][:m])


def lowest_inclusion(n_items: int, m: int) -> FloatArray:
    """Probability of each item number to be among the m lowest distinct ones of 2 m uniform draws,
    without topping up where fewer than m are distinct.
    """
    inclusions = (
        chance * hit * different.sum(axis=0) for _, chance, hit, different in _below(n_items, m)
    )
    return np.asarray(sum(inclusions))


def _below(n_items: int, m: int) -> Iterator[tuple[int, FloatArray, FloatArray, FloatArray]]:
    """What 2 m uniform draws do below each number and at it.

    For each number of draws that may fall below: how many are left; for each item number, the
    chance of so many below it, and of it to be among those left; and, shape (m, n_items), the
    chances that those below are 0, 1, ..., m - 1 different ones.
    """
    lower = np.arange(n_items)
    different = np.zeros((m, n_items))
    different[0] = 1.0
    share = np.arange(m)[:, np.newaxis] / np.maximum(lower, 1)
    for draws in range(2 * m):
        rest = 2 * m - draws
        hit = -np.expm1(rest * np.log1p(-np.minimum(1.0 / (n_items - lower), 1.0 - 1e-16)))
        yield rest, binom.pmf(draws, 2 * m, lower / n_items), hit, different
        moved = different[:-1] * np.maximum(1.0 - share[:-1], 0.0)
        different *= np.minimum(share, 1.0)
        different[1:] += moved


def lowest_law(above: NDArray[np.bool_], m: int) -> FloatArray:
    """Distribution of how many of the m lowest distinct ones of 2 m uniform draws are above the
    held-out item: probabilities of 0, 1, ..., m.

    `above` (n,) says of each other candidate, by its number, whether it is above. Given the last
    number that is kept, the others are a sample without replacement of the lower ones: a mixture of
    hypergeometric distributions. No item is added where fewer than m are distinct.
    """
    n_items, counts = above.size, np.arange(m + 1)
    last_pmf = np.zeros((m, n_items))  # the last number kept, and how many lower ones are
    upwards = 1.0 / (n_items - np.arange(n_items))
    for rest, chance, hit, different in _below(n_items, m):
        last_pmf[m - 1] += chance * different[m - 1] * hit
        last_pmf[: m - 1] += chance * different[: m - 1] * upwards**rest
    pmf = np.zeros(m + 2)
    n_above: IntArray = np.cumsum(above) - above
    for n_lower, number in np.argwhere(last_pmf > 1e-18):
        conditional = (
            hypergeom.pmf(counts, number, n_above[number], n_lower) if n_lower else counts == 0
        )
        pmf[int(above[number]) :][: m + 1] += last_pmf[n_lower, number] * conditional
    return pmf[: m + 1]


def lowest_means(n_items: int, m: int, rank: int) -> dict[str, float]:
    """Mean sampled ranks if the items above have the lowest or the highest numbers, or a fair draw.

    >>> {name: round(mean, 2) for name, mean in lowest_means(200, 20, 30).items()}
    {'first': 6.29, 'last': 1.0, 'fair': 3.91}
    """
    numbers, above = np.arange(n_items - 1), rank - 1
    sides = {"first": numbers < above, "last": numbers >= n_items - 1 - above}
    means = {
        name: 1.0 + float(lowest_law(side, m) @ np.arange(m + 1)) for name, side in sides.items()
    }
    return means | {"fair": float(Protocol(n_items, m).mean(rank))}


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

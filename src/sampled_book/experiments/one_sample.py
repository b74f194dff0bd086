"""One sample of documents for all queries: its variance, the jackknife over documents, hubs, proofs
by blocks, and inferred AP.

Of n documents that are not kept on purpose a uniform sample S has m, without replacement. A query
has a set A_q of such documents above its relevant one; the sample shows x_q = |A_q & S|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np
import pandas as pd

from sampled_metrics._validate import FloatArray

from ..data.retrieval import Runs

Sample = Set[int]
Statistic = Callable[[Sample], float]


def covariance(above: int, other: int, overlap: int, n: int, m: int) -> float:
    """Covariance of x_q and x_q', for sets of these sizes and overlap (eq-os-covariance).

    >>> covariance(1, 1, 1, 2, 1), covariance(1, 1, 0, 2, 1)
    (0.25, -0.25)
    """
    return m * (n - m) / (n - 1) * (overlap / n - above * other / n**2)


def covariance_of_values(values: FloatArray, sizes: tuple[int, int, int], n: int, m: int) -> float:
    """Covariance of values[x_q] and values[x_q'], where `sizes` of A_q, A_q' and their overlap are
    given: a sum over the multivariate hypergeometric distribution.

    >>> covariance_of_values(np.array([1.0, 0.5]), (1, 1, 1), 2, 1)
    0.0625
    """
    first, second, both = sizes
    only, other = first - both, second - both
    rest = n - only - other - both
    joint = 0.0
    means = [0.0, 0.0]
    for i, j, k in product(range(only + 1), range(other + 1), range(both + 1)):
        if 0 <= m - i - j - k <= rest:
            ways = comb(only, i) * comb(other, j) * comb(both, k) * comb(rest, m - i - j - k)
            probability = ways / comb(n, m)
            joint += probability * values[i + k] * values[j + k]
            means[0] += probability * values[i + k]
            means[1] += probability * values[j + k]
    return float(joint - means[0] * means[1])


def design_effect(values: FloatArray, above: Sequence[Sample], n: int, m: int) -> float:
    """Variance of the mean of values[x_q] with one sample for all queries, over its variance with
    a sample for each.

    >>> design_effect(np.array([1.0, 0.5]), [{0}, {0}, {0}], 2, 1)
    3.0
    """
    table = [
        [covariance_of_values(values, (len(a), len(b), len(a & b)), n, m) for b in above]
        for a in above
    ]
    return float(np.sum(table) / np.trace(table))


def auc_design_effects(runs: Runs) -> FloatArray:
    """Design effects of the mean AUC of each model on a collection, exactly.

    In a sample AUC is a mean over documents, so that a sample's size does not matter: the
    covariance of two queries is that of their documents' shares of relevant documents below.
    """
    others = np.ones(runs.n_documents, dtype=bool)
    others[np.concatenate(runs.relevant)] = False
    n_relevant = np.array([found.size for found in runs.relevant])[:, np.newaxis]
    effects = []
    for places in runs.places:
        beaten = 1 - places[:, others] / n_relevant
        effects.append(beaten.mean(axis=0).var() * len(runs.relevant) ** 2
                       / beaten.var(axis=1).sum())  # fmt: skip
    return np.array(effects)


def unbiased_rr(n: int, m: int) -> FloatArray:
    """Values v(x), x = 0, 1, 2, of no bias for the reciprocal rank 1 / (1 + b) where at most two of
    the n documents are above: E C(x, k) is C(b, k) times a known factor, and 1 / (1 + b) is
    1 - C(b, 1) / 2 + C(b, 2) / 3 for these b.

    >>> unbiased_rr(8, 8).tolist()
    [1.0, 0.5, 0.3333333333333333]
    """
    x = np.arange(3)
    pairs = x * (x - 1) / 2
    return np.asarray(1 - x / 2 * n / m + pairs / 3 * n * (n - 1) / (m * (m - 1)))


def rr_statistic(above: Sequence[Sample], n: int, size: int) -> Statistic:
    """The mean over queries of :func:`unbiased_rr` of a sample of this size."""
    values = unbiased_rr(n, size)
    return lambda sample: float(np.mean([values[len(a & sample)] for a in above]))


def pure(order: int) -> Statistic:
    """A statistic whose Hoeffding decomposition has a component of this order alone: the product
    over pairs of documents 2i, 2i + 1 of 1, -1 or 0, as the first, the second, or both or neither
    are in the sample.

    >>> pure(2)({0, 3}), pure(2)({0, 1, 2})
    (-1.0, 0.0)
    """
    return lambda sample: float(
        np.prod([(2 * i in sample) - float(2 * i + 1 in sample) for i in range(order)])
    )


class Jackknife(NamedTuple):
    """Over all samples of m: the expectation of V, the variance of t over samples of m - 1, and
    that of the mean of the T_d.
    """

    expected: float
    smaller: float
    mean: float


def jackknife(statistic: Statistic, n: int, m: int) -> Jackknife:
    """Enumerate all samples; `statistic` takes samples of m - 1 (eq-os-jackknife).

    >>> [round(part, 9) for part in jackknife(lambda s: float(0 in s), 4, 2)]
    [0.1875, 0.1875, 0.0625]
    """
    estimates, totals = [], []
    for sample in combinations(range(n), m):
        left = np.array([statistic(set(sample) - {d}) for d in sample])
        estimates.append(left.mean())
        totals.append((1 - (m - 1) / n) * float(((left - left.mean()) ** 2).sum()))
    smaller = [statistic(set(sample)) for sample in combinations(range(n), m - 1)]
    return Jackknife(float(np.mean(totals)), float(np.var(smaller)), float(np.var(estimates)))


def jackknife_table(statistics: dict[str, Statistic], n: int, m: int) -> pd.DataFrame:
    """:func:`jackknife` of each statistic, with E V over the variance for m - 1."""
    rows = [
        {"Statistic": name, "E V": found.expected, "Variance, m − 1": found.smaller,
         "Variance, mean": found.mean, "Ratio": found.expected / found.smaller}
        for name, found in ((name, jackknife(each, n, m)) for name, each in statistics.items())
    ]  # fmt: skip
    return pd.DataFrame(rows)

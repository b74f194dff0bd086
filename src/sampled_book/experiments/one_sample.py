"""One sample of documents for all queries: its variance, and coverage where there is a hub.

Of n documents that are not kept on purpose a uniform sample S has m, without replacement. A query
has a set A_q of such documents above its relevant one; the sample shows x_q = |A_q & S|.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import product
from math import comb

import numpy as np
import pandas as pd
from scipy.special import stdtrit
from scipy.stats import multivariate_hypergeom

from sampled_metrics import metric
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.designs import corpus_values
from sampled_metrics.designs.jackknife import Evaluated

from ..data.retrieval import Runs

Sample = Set[int]


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


def hub_queries(n_queries: int, share: float) -> IntArray:
    """Numbers of queries with a hub above and not, in the rows, and with a document of their own
    above and not: a hub above this share of the queries, their own documents above half of each.

    >>> hub_queries(100, 0.9).tolist()
    [[45, 45], [5, 5]]
    """
    with_hub = round(share * n_queries)
    return np.array([[k - k // 2, k // 2] for k in (with_hub, n_queries - with_hub)])


def hub_coverage(
    queries: IntArray, n: int, m: int, confidence: float = 0.95
) -> tuple[float, float]:
    """How often intervals for the mean reciprocal rank hold the exact value, over all samples: that
    of the values of no bias (:func:`unbiased_rr`) by V alone, and the library's range.

    `queries` is from :func:`hub_queries`. The sample has the hub or not, and i of the documents of
    the first row of queries, j of those of the second, with the multivariate hypergeometric
    distribution.
    """
    truth = float((queries / np.array([[3, 2], [2, 1]])).sum() / queries.sum())
    unbiased, rr, n_queries = unbiased_rr(n, m - 1)[np.newaxis], metric("rr"), int(queries.sum())
    made = corpus_values.sampling(n, m - 1, None)
    log_likelihoods = np.array([
        made.log_likelihood(1, np.arange(3), each) for each in corpus_values.STEEPNESSES
    ])  # fmt: skip
    times, covered = float(stdtrit(m - 1, 0.5 + confidence / 2)), np.zeros(2)
    for hub, i, j, probability in _hub_samples(queries, n, m):
        alone = _hub_evaluated(unbiased, queries, hub, (i, j), n, m)
        is_inside = abs(alone.value - truth) <= times * np.sqrt(_textbook(alone))
        likeliest = np.argmax(log_likelihoods @ _hub_counts(queries, hub, (i, j)))
        steepness = corpus_values.STEEPNESSES[int(likeliest)]
        values = corpus_values.cached_values(rr, n, m - 1, (1,), n_queries, steepness, None)
        range_of = _hub_evaluated(values.rows[:, 0, :3], queries, hub, (i, j), n, m)
        floors = np.tile(values.variances[:, 0] / n_queries**2, (n_queries, 1))
        low, high = range_of._replace(floors=floors).range(confidence, population=True)
        covered += probability * np.array([is_inside, low <= truth <= high])
    return float(covered[0]), float(covered[1])


def _textbook(system: Evaluated) -> float:
    """V of the middle (eq-os-jackknife)."""
    left = system.by_document[:, 0]
    return float((1 - (left.size - 1) / system.n_others) * ((left - left.mean()) ** 2).sum())


def _hub_counts(queries: IntArray, hub: int, sampled: tuple[int, int]) -> IntArray:
    """Queries with 0, 1 and 2 sampled documents above."""
    counts = np.zeros(3, dtype=np.int64)
    for row, (x, drawn) in enumerate(((hub, sampled[0]), (0, sampled[1]))):
        counts[x + 1] += drawn
        counts[x] += int(queries[row].sum()) - drawn
    return counts


def _hub_samples(queries: IntArray, n: int, m: int) -> Iterator[tuple[int, int, int, float]]:
    """Whether the hub is sampled, numbers of the queries' own documents, and the probability."""
    own = queries[:, 0]
    drawn = np.array([*product(range(2), range(own[0] + 1), range(own[1] + 1))])
    drawn = drawn[drawn.sum(axis=1) <= m]
    groups = [1, *own, n - 1 - own.sum()]  # the hub, the queries' own documents, and others
    counts = np.column_stack([drawn, m - drawn.sum(axis=1)])
    chances = multivariate_hypergeom.pmf(counts, groups, m)
    is_likely = chances >= 1e-13  # all others together have a probability below 1e-9
    total = chances[is_likely].sum()  # 1 but for rounding and the rarest
    for (hub, i, j), chance in zip(drawn[is_likely].tolist(), chances[is_likely], strict=True):
        yield hub, i, j, float(chance / total)


def _hub_evaluated(
    rows: FloatArray, queries: IntArray, hub: int, sampled: tuple[int, int], n: int, m: int
) -> Evaluated:
    """The means without each sampled document: the hub, the queries' own ones, and others. `rows`
    are values for the counts 0 to 2, (columns, 3).
    """
    i, j = sampled

    def mean(has_hub: int, i: int, j: int) -> FloatArray:
        return np.asarray(rows @ _hub_counts(queries, has_hub, (i, j)) / queries.sum())

    parts = [(hub, mean(0, i, j)), (i, mean(hub, max(i - 1, 0), j)),
             (j, mean(hub, i, max(j - 1, 0))), (m - hub - i - j, mean(hub, i, j))]  # fmt: skip
    by_query = []
    for row, (x, drawn) in enumerate(((hub, i), (0, j))):
        for count, number in ((x + 1, drawn), (x, int(queries[row].sum()) - drawn)):
            change = rows[:, max(count - 1, 0)] - rows[:, count]
            by_query += [rows[:, count] + count / m * change] * number
    counts, means = zip(*parts, strict=True)
    by_document = np.repeat(np.array(means), counts, axis=0)
    none = np.zeros((len(by_query), len(rows)))
    return Evaluated(0.0, by_document, np.array(by_query), none, n)


def coverage_table(n: int, n_queries: int, shares: Sequence[float]) -> pd.DataFrame:
    """:func:`hub_coverage` for shares m/n, of a hub above nine of ten queries and without one."""
    rows = []
    for share in shares:
        m = round(share * n)
        hub, range_hub = hub_coverage(hub_queries(n_queries, 0.9), n, m)
        none, range_none = hub_coverage(hub_queries(n_queries, 0.0), n, m)
        rows.append({"share": m / n, "hub": hub, "none": none,
                     "range_hub": range_hub, "range_none": range_none})  # fmt: skip
    return pd.DataFrame(rows)

"""One sample of documents for all queries: its variance, the jackknife over documents, hubs, proofs
by blocks, and inferred AP.

Of n documents that are not kept on purpose a uniform sample S has m, without replacement. A query
has a set A_q of such documents above its relevant one; the sample shows x_q = |A_q & S|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln, stdtrit
from scipy.stats import hypergeom

from sampled_metrics import metric
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.designs import corpus_values
from sampled_metrics.designs.jackknife import Evaluated

from ..data.retrieval import Runs
from . import corpora

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
        low, high = range_of._replace(floors=floors).range(confidence, like=True)
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


def hub_errors(queries: IntArray, n: int, m: int) -> tuple[float, float]:
    """The mean of the jackknife's standard error and the standard deviation of the estimate, over
    all samples, for the values of :func:`hub_coverage`.
    """
    values, rows = unbiased_rr(n, m - 1)[np.newaxis], []
    for hub, i, j, probability in _hub_samples(queries, n, m):
        found = _hub_evaluated(values, queries, hub, (i, j), n, m)
        rows.append((probability, found.value, float(np.sqrt(_textbook(found)))))
    share, value, error = np.array(rows).T
    return float(share @ error), float(np.sqrt(share @ (value - share @ value) ** 2))


def _hub_samples(queries: IntArray, n: int, m: int) -> Iterator[tuple[int, int, int, float]]:
    """Whether the hub is sampled, numbers of the queries' own documents, and the probability."""
    own, found = queries[:, 0], []
    for hub, i, j in product(range(2), range(own[0] + 1), range(own[1] + 1)):
        rest = m - hub - i - j
        if not 0 <= rest <= n - 1 - own.sum():
            continue
        log = _log_choose(n - 1 - int(own.sum()), rest) - _log_choose(n, m)
        log += _log_choose(int(own[0]), i) + _log_choose(int(own[1]), j)
        if log >= -30:  # all others together have a probability below 1e-9
            found.append((hub, i, j, float(np.exp(log))))
    total = sum(probability for *_, probability in found)  # 1 but for rounding and the rarest
    return ((hub, i, j, probability / total) for hub, i, j, probability in found)


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


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


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


def block_half_width(n: int, m: int, size: int, confidence: float = 0.95) -> float:
    """Half the width of the interval of blocks of `size` documents, in units of the range of the
    values of a block (eq-os-blocks).
    """
    root = np.sqrt(np.log(2 / (1 - confidence)) * size / (2 * m))
    return float((1 + size * m / n) * root)


def _top_values(n: int, size: int) -> tuple[float, float]:
    """Values (for x = 0, for x > 0) of at least NDCG@10 in expectation at every rank.

    The first is 1, for rank 1; the second is as small as the other ranks allow.
    """
    b = np.arange(1, 10)
    none_above = hypergeom.pmf(0, n, b, size)
    needed = (1 / np.log2(b + 2) - none_above) / (1 - none_above)
    return 1.0, float(max(needed.max(), 0.0))


def block_bounds(n: int, m: int, above: int) -> dict[str, float]:
    """The proved upper bound of NDCG@10 with the best block size, if `above` documents are above
    the relevant one of every query and blocks show what is expected.
    """
    best = {"bound": np.inf, "size": 0}
    for size in _sizes(m):
        first, other = _top_values(n, size)
        none_above = float(hypergeom.pmf(0, n, above, size))
        bound = other + (first - other) * (none_above + block_half_width(n, m, size))
        if bound < best["bound"]:
            best = {"bound": bound, "size": size}
    return best


def _sizes(m: int) -> list[int]:
    return sorted({max(1, int(size)) for size in np.geomspace(1, m, 60)})


def lower_bound_room(n: int, m: int, *, independent: bool = False) -> float:
    """The most that a proved lower bound of NDCG@10 can be, in units of the values' range, for a
    system whose relevant documents are all first; below 0 it is no better than 0.

    Values of range R whose expectation is at most 0 where 10 documents are above have, for x = 0,
    at most R times the probability that a block has one of these. `independent`: as if blocks were
    independent draws.
    """
    room = -np.inf
    for size in _sizes(m):
        width = block_half_width(n, m, size)
        if independent:
            width /= 1 + size * m / n
        room = max(room, 1 - float(hypergeom.pmf(0, n, 10, size)) - width)
    return float(room)


def block_table(n: int, ratios: Sequence[int]) -> pd.DataFrame:
    """What blocks prove of NDCG@10: for each n/m the first rank, the same for all queries, at which
    the upper bound is below 1, with its block size, and whether a lower bound can be above 0.
    """
    rows = []
    for ratio in ratios:
        m = n // ratio
        low, high = 0, n  # the bound falls with the rank
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if block_bounds(n, m, middle)["bound"] < 1 else (middle, high)
        found = block_bounds(n, m, high)
        proved = found["bound"] < 1
        rows.append({
            "n/m": ratio, "m": m,
            "Block": int(found["size"]) if proved else pd.NA,
            "Upper bound below 1 from rank": f"{high + 1:,}" if proved else "never",
            "Lower bound above 0": "possible" if lower_bound_room(n, m) > 0 else "never",
        })  # fmt: skip
    return pd.DataFrame(rows)


#: What trec_eval adds to the counts of judged documents, so that none is a number, too.
EPSILON = 1e-5


def inferred_ap(judged: Sequence[int]) -> float:
    """Inferred AP of a ranking: for each document, from the first on, 1 if judged relevant, 0 if
    judged not relevant, -1 if in the pool that judgements are sampled from but not judged, and -2
    if outside the pool (eq-os-infap).

    >>> round(inferred_ap([1, 0, 1, -1, -1]), 3), round(inferred_ap([0, -1, -1, 1]), 3)
    (0.833, 0.25)
    """
    marks = np.asarray(judged)
    places = np.flatnonzero(marks == 1)
    above = [np.cumsum(mark)[places] - own
             for mark, own in ((marks == 1, 1), (marks == 0, 0), (marks >= -1, 1))]  # fmt: skip
    return _inferred(places + 1, *above)


def _inferred(rank: IntArray, relevant: IntArray, others: IntArray, pool: IntArray) -> float:
    """Inferred AP, of the ranks of the judged relevant documents and how many documents above are
    judged relevant, judged not relevant, and in the pool.
    """
    share = (relevant + EPSILON) / (relevant + others + 2 * EPSILON)
    return float(np.mean((1 + pool * share) / rank))


class Partial(NamedTuple):
    """Mean AP of each model, by what a sample shows; all but `exact` are (draws, models).

    `reported` and `corrected` are of the sub-corpus.
    """

    exact: FloatArray
    inferred: FloatArray
    reported: FloatArray
    corrected: FloatArray


def partial(runs: Runs, n_documents: int, draws: int, seed: int) -> Partial:
    """Estimate mean AP from judgements of so many random documents for each query, and from a
    sub-corpus of as many documents, every relevant one among them.

    A query without a judged relevant document has no inferred AP, and is left out of its mean.
    """
    always = np.zeros(runs.n_documents, dtype=bool)
    always[np.concatenate(runs.relevant)] = True
    n_others = runs.n_documents - int(always.sum())
    m = n_documents - int(always.sum())
    whole, n_queries = np.ones(runs.n_documents, dtype=bool), len(runs.relevant)
    known = [
        [(corpora.ranks(runs, i, q, whole), corpora.ranks(runs, i, q, always))
         for q in range(n_queries)]
        for i in range(len(runs.models))
    ]  # fmt: skip
    positions = np.unique(np.concatenate([kept for model in known for _, kept in model]))
    values = corpus_values.cached_values(
        metric("ap"), n_others, m, tuple(positions.tolist()), n_queries, 1.0, None
    )
    estimates, most = np.empty((3, draws, len(runs.models))), values.rows.shape[2] - 1
    for draw in range(draws):
        rng = np.random.default_rng([seed, n_documents, draw])
        corpus = corpora.uniform(runs, m, rng)
        judged = [rng.choice(runs.n_documents, n_documents, replace=False) for _ in known[0]]
        for i, model in enumerate(known):
            by_query = []
            for q, (rank, kept) in enumerate(model):
                x = corpora.ranks(runs, i, q, corpus) - kept
                value = values.rows[0, np.searchsorted(positions, kept), np.minimum(x, most)]
                place = np.arange(1, rank.size + 1)
                by_query.append([
                    _judged_ap(runs.places[i, q], runs.relevant[q], rank, judged[q]),
                    float((place / (kept + x)).mean()),
                    float((place * value).mean()),
                ])  # fmt: skip
            estimates[:, draw, i] = np.nanmean(by_query, axis=0)
    exact = [
        np.mean([(np.arange(1, rank.size + 1) / rank).mean() for rank, _ in model])
        for model in known
    ]
    return Partial(np.array(exact), *estimates)


def _judged_ap(
    places: NDArray[np.uint8], relevant: IntArray, rank: IntArray, judged: IntArray
) -> float:
    """Inferred AP of a query; NaN if no relevant document is judged. The pool is everything."""
    is_judged = np.zeros(places.size, dtype=bool)
    is_judged[judged] = True
    found = np.sort(places[relevant[is_judged[relevant]]])
    if not found.size:
        return float("nan")
    is_judged[relevant] = False
    others = np.cumsum(np.bincount(places[is_judged], minlength=rank.size + 1))
    return _inferred(rank[found], np.arange(found.size), others[found], rank[found] - 1)


def partial_table(found: Mapping[int, Partial]) -> pd.DataFrame:
    """Of :func:`partial` by number of documents: means over models and draws, with the root mean
    squared error.
    """
    rows = []
    for size, each in found.items():
        row: dict[str, object] = {"Documents": size}
        for name, values in (("Inferred AP", each.inferred),
                             ("Sub-corpus, reported", each.reported),
                             ("Sub-corpus, corrected", each.corrected)):  # fmt: skip
            error = float(np.sqrt(((values - each.exact) ** 2).mean()))
            row[name] = f"{values.mean():.3f} ± {error:.3f}"
        rows.append(row)
    return pd.DataFrame(rows)

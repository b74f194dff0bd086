"""What only the book asks of metrics, protocols, estimators and orders.

Sets of relevant items at known ranks, discounted gains of any kind, the best gamma where true ranks
are known, the metric of a fitted population, orders that rest on few users, and small cases in
which sampling reverses an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, RelevantSets, estimators, metric, priors
from sampled_metrics._threads import one_thread
from sampled_metrics._validate import FloatArray, IntArray, generator, integer, integers
from sampled_metrics.consistency import sign
from sampled_metrics.estimators import Estimator
from sampled_metrics.metrics import relevant_set
from sampled_metrics.protocol import one_size
from sampled_metrics.ranking.intervals import RankIntervals

#: Entries of a distribution of sampled ranks that are held at once.
_PROBABILITIES = 1 << 22
#: Leads that add up to less than this share of all leads are level up to rounding.
_TOLERANCE = 1e-12

#: An order that rests on fewer users than this is called a tie. If four users differ by the same
#: amount in the same direction, and all others do not differ, the difference of the means is two
#: standard errors.
HANDFUL = 5


def of_users(ranks: RankIntervals, users: Any) -> RankIntervals:
    """The rank intervals of some users: their positions, or a mask."""
    return RankIntervals(ranks.n_better[users], ranks.n_tied[users], ranks.n_candidates[users])


def users_behind(first: ArrayLike, second: ArrayLike) -> int:
    """The smallest number of users whose removal would undo the order of two recommenders, given
    each user's metric under both; 0 if the means are equal.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    ahead = sign(float(a.sum()), float(b.sum()))
    if ahead == 0:
        return 0
    lead = np.sort(ahead * (a - b))[::-1]
    remaining = lead.sum() - np.cumsum(lead)
    return int(np.argmax(remaining <= _TOLERANCE * np.abs(lead).sum())) + 1


@dataclass(frozen=True)
class Standing:
    """The order of recommenders, where one that rests on a handful of users counts as a tie.

    `means`: the metric of each recommender. `users`: for each pair, in the order of `means`, how
    many users its order rests on. `hits`: how many users have a value above 0, or are expected to;
    empty if unknown.
    """

    means: Mapping[str, float]
    users: Mapping[tuple[str, str], int]
    hits: Mapping[str, float] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((*self.means.items(), *self.users.items(), *self.hits.items()))

    @classmethod
    def from_values(
        cls, values: Mapping[str, ArrayLike], hits: Mapping[str, ArrayLike] | None = None
    ) -> Standing:
        """Make the standing from each user's metric, or its expectation over samples.

        `hits` is the probability that a user's value is above 0. An order in expectation then rests
        on no more users than are expected to have a value above 0 for the leading recommender.
        """
        table = {name: np.asarray(row, dtype=float) for name, row in values.items()}
        means = {name: float(row.mean()) for name, row in table.items()}
        scored = {name: float(np.sum(row)) for name, row in (hits or {}).items()}
        users = {}
        for a, b in combinations(table, 2):
            users[a, b] = users_behind(table[a], table[b])
            if scored:
                leader_hits = scored[a if means[a] >= means[b] else b]
                users[a, b] = min(users[a, b], int(leader_hits + 1e-9))
        return cls(means, users, scored)

    def order(self, first: str, second: str) -> int:
        """1 if the first is ahead, -1 if the second is, 0 if they are tied."""
        pair = (first, second) if (first, second) in self.users else (second, first)
        if self.users[pair] < HANDFUL:
            return 0
        return sign(self.means[first], self.means[second])

    @property
    def ranked(self) -> list[str]:
        """The names from the largest mean down."""
        return sorted(self.means, key=lambda name: -self.means[name])

    @property
    def spelled(self) -> str:
        """The order, as in "A > B = C"; ">" where all names before it are ahead of all after it."""
        names = self.ranked
        text = names[0]
        for i in range(1, len(names)):
            is_ahead = all(self.order(a, b) for a in names[:i] for b in names[i:])
            text += (" > " if is_ahead else " = ") + names[i]
        return text


def observed(ranks: ArrayLike) -> dict[int, float]:
    """The prior that gives each true rank its share of the observed `ranks`."""
    values, counts = np.unique(np.asarray(ranks), return_counts=True)
    return dict(zip(values.tolist(), (counts / counts.sum()).tolist(), strict=True))


def plug_in(
    prior: priors.FittedPrior | Mapping[int, float] | ArrayLike,
    ranking_metric: Metric | str,
    n_items: int,
    position: int = 1,
    n_relevant: int = 1,
) -> float:
    """The exact metric if the true ranks are distributed as `prior`: a fitted prior, probabilities
    by rank, or a vector over the ranks. With several relevant items the result is the term of
    the item at `position`, and its rank counts irrelevant items only.
    """
    mass = prior.mass if isinstance(prior, priors.FittedPrior) else prior
    by_rank = mass if isinstance(mass, Mapping) else dict(enumerate(np.asarray(mass), start=1))
    ranks, shares = np.array([*by_rank]), np.array([*by_rank.values()], dtype=float)
    terms = metric(ranking_metric).term(ranks + (position - 1), position, n_relevant, n_items)
    return float(shares @ terms)


def draw_set(
    protocol: Protocol, ranks: ArrayLike, rng: int | np.random.Generator, size: int | None = None
) -> IntArray:
    """Draw the sampled ranks of all relevant items of one instance from one sample, shape ([size,]
    n_relevant), increasing along the last axis. `ranks` are the distinct true ranks.
    """
    ordered, rng = _checked_set(protocol, ranks), generator(rng)
    above = np.diff(ordered - np.arange(1, ordered.size + 1), prepend=0)
    pool = int(protocol.pool)
    gaps = np.append(above, pool - above.sum())
    if protocol.replacement:
        drawn = rng.multinomial(protocol.n_negatives, gaps / pool, size)
    else:
        drawn = rng.multivariate_hypergeometric(
            gaps, protocol.n_negatives, size, method="marginals"
        )
    return np.cumsum(drawn[..., :-1], axis=-1) + np.arange(1, ordered.size + 1)


def draw_ranks(
    sets: RelevantSets,
    n_negatives: ArrayLike,
    rng: int | np.random.Generator,
    *,
    replacement: bool = False,
) -> IntArray:
    """Draw the negatives of every ranking once and break ties: one simulated run.

    Returns the rank of each relevant item among the negatives and the other relevant items,
    (n_rankings, n_relevant), in the order of the items. Other arguments and errors as
    :meth:`sampled_metrics.RelevantSets.pmf`.

    >>> draw_ranks(RelevantSets([[3, 0]] * 2, [[1, 0]] * 2, [[1, 0]] * 2, [8, 8]), 4, rng=1)
    array([[5, 1],
           [3, 1]])
    """
    places, draws_left = sets._places, sets._draws(n_negatives, replacement)
    relevant, rng = sets.n_better.shape[1], generator(rng)

    def draw(marked: IntArray) -> IntArray:
        """How many of the negatives left to draw are among the marked candidates left."""
        pool = places.total - passed
        if replacement:
            return np.asarray(rng.binomial(draws_left, marked / np.maximum(pool, 1)))
        return np.asarray(rng.hypergeometric(marked, pool - marked, draws_left))

    height = rng.random(sets.n_better.shape)
    # Ties: relevant items and decoys all get a random height, the lowest comes first.
    order = np.lexsort((height, sets.level))
    height = np.take_along_axis(height, order, axis=1)
    ranks = np.empty_like(sets.n_better)
    above, ties_left, items_left, passed = (np.zeros_like(draws_left) for _ in range(4))
    floor = np.zeros(draws_left.size)
    for j in range(relevant):
        opens_group = places.place[:, j] == 1
        above += np.where(opens_group, ties_left, 0)
        gap = np.where(opens_group, places.better[:, j] - passed, 0)
        n_drawn = draw(gap)
        passed, draws_left, above = passed + gap, draws_left - n_drawn, above + n_drawn
        gap = np.where(opens_group, places.tied[:, j], 0)
        n_drawn = draw(gap)
        passed, draws_left = passed + gap, draws_left - n_drawn
        ties_left = np.where(opens_group, n_drawn, ties_left)
        items_left = np.where(opens_group, places.tied[:, j], items_left)
        floor = np.where(opens_group, 0.0, floor)
        share = (height[:, j] - floor) / (1.0 - floor)
        if replacement:  # copies of one candidate share its place
            n_items = rng.binomial(items_left, share)
            share = n_items / np.maximum(items_left, 1)
            items_left = items_left - n_items
        n_drawn = rng.binomial(ties_left, share)
        above, ties_left, floor = above + n_drawn, ties_left - n_drawn, height[:, j]
        np.put_along_axis(ranks, order[:, j : j + 1], (above + j + 1)[:, np.newaxis], axis=1)
    return ranks


def untied(sets: RelevantSets, rng: int | np.random.Generator) -> RelevantSets:
    """The rankings with their ties broken at random.

    >>> untied(RelevantSets([[0, 0]], [[4, 4]], [[0, 0]], [8]), rng=1).n_better
    array([[3, 3]])
    """
    ranks = draw_ranks(sets, sets.n_irrelevant, rng)
    relevant_above = ranks.argsort(axis=1).argsort(axis=1)
    better = ranks - 1 - relevant_above
    return RelevantSets(better, np.zeros_like(better), relevant_above, sets.n_irrelevant)


def expected_differences(
    ranks: Mapping[str, ArrayLike], ranking_metric: Metric | str, *protocols: Protocol
) -> pd.DataFrame:
    """Whether sampling keeps the order of each pair of recommenders in expectation.

    `ranks` are the true ranks that each recommender gave the relevant item of the same instances.
    Columns first, second, n_negatives, exact (difference of the means of the metric), expected
    (difference of the expected sampled means) and consistent: whether these have one sign.

    >>> toy = {"A": [100] * 5, "C": [212, 2, 743, 5342, 1548]}
    >>> samples = [Protocol(10_000, m) for m in (99, 9_000)]
    >>> expected_differences(toy, "ap", *samples)[["n_negatives", "consistent"]]
       n_negatives  consistent
    0           99       False
    1         9000        True
    """
    parsed_metric, rows = metric(ranking_metric), []
    for protocol in protocols:
        estimator = estimators.naive(parsed_metric, protocol)
        exact = {
            name: float(parsed_metric(r, protocol.n_items).mean()) for name, r in ranks.items()
        }
        expected = {name: float(estimator.expected(r).mean()) for name, r in ranks.items()}
        for first, second in combinations(ranks, 2):
            differences = exact[first] - exact[second], expected[first] - expected[second]
            signs = [sign(means[first], means[second]) for means in (exact, expected)]
            rows.append((first, second, protocol.n_negatives, *differences, signs[0] == signs[1]))
    columns = ["first", "second", "n_negatives", "exact", "expected", "consistent"]
    return pd.DataFrame(rows, columns=columns)


def expected_of_set(estimator: Estimator, ranks: ArrayLike) -> float:
    """Exact expectation for one instance with several relevant items at distinct true ranks.

    The metric is a sum over the items. So the distribution of each item's own sampled rank is
    enough, although these ranks depend on one another.
    """
    return float(_alone(estimator, ranks, "expected"))


def variance_of_set(estimator: Estimator, ranks: ArrayLike) -> float:
    """Exact variance over the draws of negatives, for one instance with several relevant items.

    All items are ranked among one sample, so their terms are correlated. Every negative above one
    relevant item is equally likely to be above the next better item, too. The counts therefore form
    a Markov chain, and the sum of the terms so far is carried along it.
    """
    return float(_alone(estimator, ranks, "variance"))


def _alone(estimator: Estimator, ranks: ArrayLike, moment: str) -> Any:
    """A moment of one instance without ties, by :class:`sampled_metrics.RelevantSets`."""
    protocol = estimator.protocol
    ordered = _checked_set(protocol, ranks)[np.newaxis]
    position = np.arange(ordered.size)[np.newaxis]
    pool = np.array([protocol.pool])
    sets = RelevantSets(ordered - 1 - position, 0 * position, position, pool)
    compute = getattr(sets, moment)
    return compute(estimator, protocol.n_negatives, replacement=protocol.replacement)[0]


def _checked_set(protocol: Protocol, ranks: ArrayLike) -> IntArray:
    """The ranks of one instance's relevant items in order, or ValueError."""
    ordered = relevant_set(ranks)
    if ordered.size != protocol.n_relevant:
        raise ValueError(f"ranks must hold n_relevant = {protocol.n_relevant}, got {ordered.size}")
    return integers(ordered, "ranks", 1, one_size(protocol))


def expected_gain(
    sets: RelevantSets,
    gains: ArrayLike,
    discounts: ArrayLike,
    n_negatives: ArrayLike,
    *,
    replacement: bool = False,
) -> FloatArray:
    """Expected NDCG with any gains, shape (n_rankings, n_relevant), and discounts of ranks 1..k.

    Each relevant item adds its gain times the discount of its rank; the sum is divided by its value
    with the relevant items alone, in the order of their gains. LensKit 3, the software of
    ekstrand2017, takes ratings for gains and ``1 / max(1, log2(rank))`` for discounts
    (jarvelin2002). Ranks beyond k count nothing.
    """
    gain, discount = np.asarray(gains, dtype=float), np.asarray(discounts, dtype=float)
    relevant = sets.n_better.shape[1]
    best = -np.sort(-gain, axis=1)[:, : discount.size] @ discount[:relevant]
    padded = np.append(discount, np.zeros(relevant))
    values = np.stack([padded[j : j + discount.size] for j in range(relevant)])
    pmf = sets.pmf(n_negatives, discount.size, replacement=replacement)
    terms = np.einsum("ijx,jx->ij", pmf, values)
    # Relevant items of one level come in random order: each has the mean of their terms.
    order = np.argsort(sets.level, axis=1, kind="stable")
    level = np.take_along_axis(sets.level, order, axis=1)
    is_same_level = level[:, :, np.newaxis] == level[:, np.newaxis, :]
    mean_terms = (is_same_level * terms[:, np.newaxis, :]).sum(axis=2) / is_same_level.sum(axis=2)
    by_rank = np.take_along_axis(gain, order, axis=1)
    return np.asarray((by_rank * mean_terms).sum(axis=1) / best)


@dataclass(frozen=True)
class Counterexample:
    """Two recommenders that sampling orders wrongly in expectation: true ranks of one relevant item
    for each instance, and the means of the exact and of the expected sampled metric, for the
    better recommender first.
    """

    metric: Metric
    protocol: Protocol
    better: tuple[int, ...]
    worse: tuple[int, ...]
    exact: tuple[float, float]
    expected: tuple[float, float]


@one_thread
def counterexample(
    ranking_metric: Metric | str,
    *,
    n_items: int = 12,
    n_instances: int = 3,
    replacement: bool = True,
) -> Counterexample | None:
    """Search for the smallest case in which sampling reverses an order in expectation.

    Catalogues of 3, 4, ... items (60 at most) are tried in turn, each with 2, 3, ... instances (4
    at most), and each of these with 1, 2, ... negatives. From the first case with a reversal, the
    pair with the widest margin is returned; None if there is none. AUC never has one.
    """
    ranking_metric = metric(ranking_metric)
    largest = integer(n_items, "n_items", 3, 60)
    most_instances = integer(n_instances, "n_instances", 2, 4)
    for n in range(3, largest + 1):
        for size in range(2, most_instances + 1):
            lists = np.array(list(combinations_with_replacement(range(1, n + 1), size)))
            exact = ranking_metric(lists, n).mean(axis=1)
            for m in range(1, n):
                protocol = Protocol(n, m, replacement=replacement)
                expected = estimators.naive(ranking_metric, protocol).expected(lists).mean(axis=1)
                pair = _widest_reversal(exact, expected)
                if pair is not None:
                    i, j = pair
                    return Counterexample(
                        ranking_metric,
                        protocol,
                        tuple(lists[i].tolist()),
                        tuple(lists[j].tolist()),
                        (float(exact[i]), float(exact[j])),
                        (float(expected[i]), float(expected[j])),
                    )
    return None


def _widest_reversal(exact: FloatArray, expected: FloatArray) -> tuple[int, int] | None:
    """Indices (better, worse) of the reversed pair with the largest smaller margin, if any."""
    by_exact = np.argsort(-exact, kind="stable")
    exact, expected = exact[by_exact], expected[by_exact]
    best, widest = None, 1e-9
    for i in range(exact.size):
        margin = np.minimum(exact[i] - exact, expected - expected[i])
        j = int(np.argmax(margin))
        if margin[j] > widest:
            best, widest = (int(by_exact[i]), int(by_exact[j])), float(margin[j])
    return best


@dataclass(frozen=True)
class Moments:
    """Moments of corrections, vectors over the sampled ranks, over all evaluations.

    `mean` (recommenders, vectors): expectation of the average over users. `within`, of the same
    shape: a user's variance from evaluation to evaluation, averaged over users. `between` (vectors,
    recommenders, recommenders): covariance between users of their expectations.
    """

    mean: FloatArray
    within: FloatArray
    between: FloatArray


def moments(
    ranks: Sequence[RankIntervals], vectors: FloatArray, n_negatives: int, replacement: bool
) -> Moments:
    """Exact expectations and variances of corrections, columns (n_negatives + 1, vectors)."""
    users = ranks[0].n_candidates.size
    column_means = vectors.mean(axis=0)
    vectors = vectors - column_means  # centred first, so that constants have zero variance
    expected = np.empty((len(ranks), users, vectors.shape[1]))
    squares = np.empty((len(ranks), vectors.shape[1]))
    step = max(1, _PROBABILITIES // (n_negatives + 1))
    for row, intervals in enumerate(ranks):
        second_moments = np.zeros(vectors.shape[1])
        for start in range(0, users, step):
            part = slice(start, start + step)
            pmf = of_users(intervals, part).sampled_pmf(n_negatives, replacement)
            expected[row, part] = pmf @ vectors
            second_moments += (pmf @ vectors**2).sum(axis=0)
        squares[row] = second_moments / users
    within_variance = np.maximum(squares - (expected**2).mean(axis=1), 0.0)
    centred = expected - expected.mean(axis=1, keepdims=True)
    between = np.einsum("auk,buk->kab", centred, centred, optimize=True) / users
    return Moments(expected.mean(axis=1) + column_means, within_variance, between)

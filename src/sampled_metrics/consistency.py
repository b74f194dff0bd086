"""Does sampling keep the order of two recommenders (krichene2020, Definition 1)?

More negatives never raise a sampled metric, so its expectation falls as their number m grows. If
one recommender's smallest expectation between two values of m is above the other's largest, their
order cannot flip in between, and nothing there needs to be computed. This is how all flips are
found without trying every m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import combinations, combinations_with_replacement, pairwise

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ._threads import one_thread
from ._validate import FloatArray, IntArray, integer, integers
from .estimators import naive
from .metrics import Metric
from .metrics import metric as parsed
from .protocol import Protocol, by_negatives, checked

#: Two means that differ by less than this share of the larger one are equal up to rounding.
_TOLERANCE = 1e-12

#: With a cut-off and many users every number of negatives in turn costs less than a search: from
#: so many counts of all users on, and up to so many counts of all numbers of negatives.
_MANY, _LONG = 20_000, 100_000


def sign(first: float, second: float) -> int:
    """1 if `first` is the larger, -1 if `second` is, 0 if they agree to 12 digits.

    Examples
    --------
    >>> sign(0.2, 0.1), sign(0.1, 0.1), sign(0.1, 0.2)
    (1, 0, -1)
    """
    if abs(first - second) <= _TOLERANCE * max(abs(first), abs(second)):
        return 0
    return 1 if first > second else -1


#: An order that rests on fewer users than this is called a tie. If four users differ by the same
#: amount in the same direction, and all others do not differ, the difference of the means is two
#: standard errors.
HANDFUL = 5


def users_behind(first: ArrayLike, second: ArrayLike) -> int:
    """The smallest number of users whose removal would undo the order of two recommenders.

    Parameters
    ----------
    first, second : array_like of float, shape (n_users,)
        Metric of each recommender for the same users.

    Returns
    -------
    int
        0 if the means are equal.

    Raises
    ------
    ValueError
        If the shapes differ.

    See Also
    --------
    Standing : Orders in which a handful of users make a tie.

    Examples
    --------
    >>> users_behind([1.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.5]), users_behind([1, 1, 0], [0, 0, 1])
    (1, 1)
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"first and second must have one shape (n_users,), got {a.shape} and {b.shape}"
        )
    ahead = sign(float(a.sum()), float(b.sum()))
    if ahead == 0:
        return 0
    lead = np.sort(ahead * (a - b))[::-1]
    left = lead.sum() - np.cumsum(lead)
    return int(np.argmax(left <= _TOLERANCE * np.abs(lead).sum())) + 1


@dataclass(frozen=True)
class Standing:
    """The order of recommenders, where one that rests on a handful of users counts as a tie.

    Attributes
    ----------
    means : mapping of str to float
        The metric of each recommender.
    users : mapping of (str, str) to int
        For each pair, in the order of `means`, how many users its order rests on.
    hits : mapping of str to float
        How many users have a value above 0, or are expected to; empty if unknown.

    See Also
    --------
    users_behind : How many users an order rests on.

    Examples
    --------
    >>> few = Standing.of({"A": [1] * 6 + [0] * 3, "B": [0] * 6 + [1, 0, 0], "C": [0] * 9})
    >>> few.spelled, few.users["B", "C"], few.order("C", "A")
    ('A > B = C', 1, -1)
    """

    means: Mapping[str, float]
    users: Mapping[tuple[str, str], int]
    hits: Mapping[str, float] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((*self.means.items(), *self.users.items(), *self.hits.items()))

    @classmethod
    def of(
        cls, values: Mapping[str, ArrayLike], hits: Mapping[str, ArrayLike] | None = None
    ) -> Standing:
        """Make the standing from the values of each user.

        Parameters
        ----------
        values : mapping of str to array_like of float, shape (n_users,)
            Metric of each recommender, or its expectation over samples, for the same users.
        hits : mapping of str to array_like of float, shape (n_users,), optional
            Probability that a user's value is above 0. An order in expectation then rests on no
            more users than are expected to have a value above 0 for the leading recommender.

        Returns
        -------
        Standing

        Raises
        ------
        ValueError
            As :func:`users_behind`.
        """
        table = {name: np.asarray(row, dtype=float) for name, row in values.items()}
        means = {name: float(row.mean()) for name, row in table.items()}
        scored = {name: float(np.sum(row)) for name, row in (hits or {}).items()}
        users = {}
        for a, b in combinations(table, 2):
            users[a, b] = users_behind(table[a], table[b])
            if scored:
                most = scored[a if means[a] >= means[b] else b]
                users[a, b] = min(users[a, b], int(most + 1e-9))
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
            apart = all(self.order(a, b) for a in names[:i] for b in names[i:])
            text += (" > " if apart else " = ") + names[i]
        return text

    def keeps(self, other: Standing) -> bool:
        """Whether every pair that is not tied in the other standing has the same order here."""
        return all(
            self.order(a, b) == wanted for a, b in other.users if (wanted := other.order(a, b)) != 0
        )


def expected_differences(
    ranks: Mapping[str, ArrayLike],
    metric: Metric | str,
    protocol: Protocol | Sequence[Protocol],
) -> pd.DataFrame:
    """Tell for each pair of recommenders whether sampling keeps their order in expectation.

    Parameters
    ----------
    ranks : mapping of str to array_like of int, shape (n_instances,)
        True ranks that each recommender gave the relevant item of the same instances.
    metric : Metric or str
    protocol : Protocol or sequence of Protocol
        One for each number of negatives; they must not differ in anything else.

    Returns
    -------
    pandas.DataFrame
        Columns first, second, n_negatives, exact (difference of the means of the metric),
        expected (difference of the expected sampled means) and consistent (bool): whether the
        two differences have the same sign.

    Raises
    ------
    ValueError
        If fewer than two recommenders are given, their numbers of instances differ, a rank is
        not in the catalogue, or there are several relevant items.

    See Also
    --------
    order_by_negatives : The expected order for every number of negatives.
    sampled_metrics.verdicts.verdict : How often one sampled evaluation finds the exact order.

    Examples
    --------
    >>> toy = {"A": [100] * 5, "C": [212, 2, 743, 5342, 1548]}
    >>> samples = [Protocol(10_000, m) for m in (99, 9_000)]
    >>> expected_differences(toy, "ap", samples)[["n_negatives", "consistent"]]
       n_negatives  consistent
    0           99       False
    1         9000        True
    """
    metric, protocols = parsed(metric), by_negatives(protocol)
    n_items = protocols[0].n_items
    true = _checked(ranks, n_items)
    exact = {name: float(metric(r, n_items).mean()) for name, r in true.items()}
    rows = []
    for each in protocols:
        estimator = naive(metric, each)
        expected = {name: float(estimator.expected(r).mean()) for name, r in true.items()}
        for a, b in combinations(true, 2):
            same = sign(exact[a], exact[b]) == sign(expected[a], expected[b])
            differences = exact[a] - exact[b], expected[a] - expected[b]
            rows.append((a, b, each.n_negatives, *differences, same))
    columns = ["first", "second", "n_negatives", "exact", "expected", "consistent"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class OrderByNegatives:
    """The expected order of recommenders for every number of negatives in 1..n_negatives.

    Attributes
    ----------
    starts : tuple of int
        First number of negatives of each stretch of constant order; the first is 1.
    orders : tuple of str
        Expected order in each stretch, from the best to the worst, as in "B > A = C".
    exact : str
        Order under the exact metric.
    n_negatives : int
        Largest number of negatives examined.

    Examples
    --------
    >>> found = OrderByNegatives((1, 40, 300), ("A > B", "A = B", "B > A"), "B > A", 999)
    >>> found.flips, found.right_from, found.at(299)
    ((40, 300), 300, 'A = B')
    """

    starts: tuple[int, ...]
    orders: tuple[str, ...]
    exact: str
    n_negatives: int

    @property
    def flips(self) -> tuple[int, ...]:
        """Numbers of negatives at which the order differs from that with one fewer."""
        return self.starts[1:]

    @property
    def right_from(self) -> int | None:
        """Smallest m from which the order is the exact one up to `n_negatives`, or None."""
        return self.starts[-1] if self.orders[-1] == self.exact else None

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each stretch, with the columns first, last, order and right (bool).

        The stretch reaches from `first` to `last` negatives; right says whether its order is the
        exact one.
        """
        last = [*(start - 1 for start in self.starts[1:]), self.n_negatives]
        right = [found == self.exact for found in self.orders]
        return pd.DataFrame(
            {"first": self.starts, "last": last, "order": self.orders, "right": right}
        )

    def at(self, n_negatives: int) -> str:
        """Expected order at a number of negatives.

        Raises
        ------
        ValueError
            If `n_negatives` is outside the range that was examined.
        """
        m = integer(n_negatives, "n_negatives", 1, self.n_negatives)
        return self.orders[int(np.searchsorted(self.starts, m, side="right")) - 1]


def order_by_negatives(
    ranks: Mapping[str, ArrayLike], metric: Metric | str, protocol: Protocol
) -> OrderByNegatives:
    """Find every number of negatives at which the expected order of recommenders flips.

    Parameters
    ----------
    ranks : mapping of str to array_like of int, shape (n_instances,)
        True ranks that each recommender gave the relevant item of the same instances.
    metric : Metric or str
    protocol : Protocol
        Its `n_negatives` are the most to examine: 1, 2, ... up to these.

    Returns
    -------
    OrderByNegatives

    Raises
    ------
    ValueError
        As :func:`expected_differences`.

    See Also
    --------
    expected_differences : How far apart the recommenders are at some numbers of negatives.
    sampled_metrics.verdicts.negatives_needed : The same question for one evaluation.

    Examples
    --------
    >>> toy = {"A": [100] * 5, "B": [40, 40, 8437, 9266, 4482], "C": [212, 2, 743, 5342, 1548]}
    >>> found = order_by_negatives(toy, "ndcg", Protocol(10_000, 9_999))
    >>> found.flips, found.exact
    ((692,), 'C > A > B')
    >>> found.frame
       first  last      order  right
    0      1   691  A > C > B  False
    1    692  9999  C > A > B   True
    """
    metric, protocol = parsed(metric), checked(protocol, n_relevant=1)
    true = _checked(ranks, protocol.n_items)
    exact = {name: float(metric(r, protocol.n_items).mean()) for name, r in true.items()}

    def mean(ranks: IntArray, m: int) -> float:
        return float(naive(metric, replace(protocol, n_negatives=m)).expected(ranks).mean())

    means: dict[str, Callable[[int], float]]
    depth = metric.k or protocol.n_negatives + 1
    users = next(iter(true.values())).size
    many = depth * users > _MANY and depth * protocol.n_negatives < _LONG
    if many and not metric.linear:  # whose mean is the same for all, and needs no law
        of_all = {name: _mean_by_negatives(metric, ranks, protocol) for name, ranks in true.items()}
        means = {name: partial(_at, of) for name, of in of_all.items()}
    else:
        means = {name: cache(partial(mean, ranks)) for name, ranks in true.items()}
    pairs = list(combinations(true, 2))
    changes = {1}.union(*(_flips(means[a], means[b], protocol.n_negatives) for a, b in pairs))
    starts: list[int] = []
    orders: list[str] = []
    for m in sorted(changes):
        order = _spelled(list(true), {(a, b): sign(means[a](m), means[b](m)) for a, b in pairs})
        if not orders or order != orders[-1]:
            starts.append(m)
            orders.append(order)
    whole = _spelled(list(true), {(a, b): sign(exact[a], exact[b]) for a, b in pairs})
    return OrderByNegatives(tuple(starts), tuple(orders), whole, protocol.n_negatives)


def _at(means: FloatArray, m: int) -> float:
    return float(means[m - 1])


def _mean_by_negatives(metric: Metric, ranks: IntArray, protocol: Protocol) -> FloatArray:
    """Expected sampled metric, averaged, for 1, 2, ... negatives."""
    most, sizes = protocol.n_negatives, np.broadcast_arrays(protocol.above(ranks), protocol.pool)
    depth = min(metric.k or most + 1, most + 1)
    above, pool = (each.tobytes() for each in sizes)
    values = naive(metric, replace(protocol, n_items=most + 1)).values  # the same for fewer
    return _mean_laws(above, pool, most, depth, protocol.replacement) @ values[:depth]


@lru_cache(maxsize=8)  # for metrics of the same depth
def _mean_laws(above: bytes, pool: bytes, most: int, depth: int, replacement: bool) -> FloatArray:
    """Probabilities of the first counts, averaged over users, for 1, 2, ... negatives.

    The next negative is above the item with the share of those above among all that are left; sums
    of positive terms, which lose no digits. Only the counts that earn anything are followed.
    """
    over, left = (np.frombuffer(each, dtype=np.int64).astype(float) for each in (above, pool))
    over = np.repeat(over[np.newaxis], depth, axis=0)
    if not replacement:
        over = (over - np.arange(depth)[:, np.newaxis]).clip(0)
    law, up, under = np.zeros(over.shape), np.empty(over.shape), np.empty(over.shape)
    law[0] = 1.0
    found = np.empty((most, depth))
    for m in range(most):
        # Where fewer are left than are above, the count cannot be: its probability is 0 already.
        np.subtract(left, over, out=under)
        law /= left
        np.multiply(law, over, out=up)
        law *= under
        law[1:] += up[:-1]
        found[m] = law.mean(axis=1)
        if not replacement:
            left -= 1.0
    return found


def _flips(first: Callable[[int], float], second: Callable[[int], float], most: int) -> list[int]:
    """Every m in 2..most at which the order of two means that never rise is not that of m - 1."""

    def between(low: int, high: int) -> Iterator[int]:
        if sign(first(low), second(high)) == sign(first(high), second(low)):
            return
        if high - low == 1:
            if sign(first(low), second(low)) != sign(first(high), second(high)):
                yield high
            return
        middle = (low + high) // 2
        yield from between(low, middle)
        yield from between(middle, high)

    return list(between(1, most))


def _spelled(names: list[str], signs: Mapping[tuple[str, str], int]) -> str:
    """The order of `names` that the signs of its pairs amount to, as in "B > A = C"."""
    lead = dict.fromkeys(names, 0)
    for (a, b), sign in signs.items():
        lead[a] += sign
        lead[b] -= sign
    ranked = sorted(names, key=lambda name: -lead[name])
    text = ranked[0]
    for better, worse in pairwise(ranked):
        text += (" = " if lead[better] == lead[worse] else " > ") + worse
    return text


@dataclass(frozen=True)
class Counterexample:
    """Two recommenders that sampling orders wrongly in expectation.

    Attributes
    ----------
    metric : Metric
    protocol : Protocol
    better, worse : tuple of int
        True ranks of one relevant item for each instance.
    exact : tuple of float
        Mean of the metric for the better and for the worse: the first is larger.
    expected : tuple of float
        Mean of the expected sampled metric: the second is larger.
    """

    metric: Metric
    protocol: Protocol
    better: tuple[int, ...]
    worse: tuple[int, ...]
    exact: tuple[float, float]
    expected: tuple[float, float]


@one_thread
def counterexample(
    metric: Metric | str,
    *,
    n_items: int = 12,
    n_instances: int = 3,
    replacement: bool = True,
) -> Counterexample | None:
    """Search for the smallest case in which sampling reverses an order in expectation.

    Catalogues of 3, 4, ... items are tried in turn, each with 2, 3, ... instances, and each of
    these with 1, 2, ... negatives. From the first case with a reversal, the pair with the widest
    margin is returned.

    Parameters
    ----------
    metric : Metric or str
    n_items : int
        Largest catalogue to try, in [3, 60].
    n_instances : int
        Largest number of instances to try, in [2, 4].
    replacement : bool

    Returns
    -------
    Counterexample or None
        None if there is none up to that size. AUC never has one.

    Raises
    ------
    ValueError
        If a size is outside its range.

    See Also
    --------
    expected_differences : Whether sampling keeps a given order.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> found = counterexample(metric("ap"))
    >>> found.protocol.n_items, found.protocol.n_negatives, found.better, found.worse
    (3, 1, (1, 3, 3), (2, 2, 2))
    >>> counterexample(metric("auc"), n_items=6) is None
    True
    """
    metric = parsed(metric)
    largest = integer(n_items, "n_items", 3, 60)
    most = integer(n_instances, "n_instances", 2, 4)
    for n in range(3, largest + 1):
        for size in range(2, most + 1):
            lists = np.array(list(combinations_with_replacement(range(1, n + 1), size)))
            exact = metric(lists, n).mean(axis=1)
            for m in range(1, n):
                protocol = Protocol(n, m, replacement=replacement)
                expected = naive(metric, protocol).expected(lists).mean(axis=1)
                pair = _widest_reversal(exact, expected)
                if pair is not None:
                    i, j = pair
                    return Counterexample(
                        metric,
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


def _checked(ranks: Mapping[str, ArrayLike], items: int | IntArray) -> dict[str, IntArray]:
    """The ranks of every recommender, checked against the catalogue and one another."""
    if len(ranks) < 2:
        raise ValueError(f"ranks must hold at least two recommenders, got {len(ranks)}")
    true = {}
    for name, given in ranks.items():
        array = integers(given, f"ranks of {name}", 1, items)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"ranks of {name} must be a non-empty list, got shape {array.shape}")
        true[name] = array
    sizes = {name: array.size for name, array in true.items()}
    if len(set(sizes.values())) > 1 or (np.ndim(items) and set(sizes.values()) != {np.size(items)}):
        raise ValueError(
            f"ranks must hold the same number of instances for every recommender, got {sizes}"
            + (f" and {np.size(items)} in n_items" if np.ndim(items) else "")
        )
    return true

"""Does sampling keep the order of two recommenders (krichene2020, Definition 1)?

More negatives never raise a sampled metric, so that its expectation falls with their number m. If
one recommender's smallest expectation between two values of m exceeds the other's largest, their
order cannot flip in between. So all flips are found without trying every m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, integer, integers
from .estimators import naive
from .metrics import Metric
from .metrics import metric as parsed
from .protocol import Protocol, checked

#: Means that differ by less than this share of the larger one are equal up to rounding.
TOLERANCE = 1e-12

#: Adding negatives one by one is faster than a search if the cut-off times the users exceeds the
#: first number, and the cut-off times the negatives is below the second.
_MANY, _LONG = 20_000, 100_000


def sign(first: float, second: float) -> int:
    """Sign of `first` less `second`; 0 if they agree to 12 digits.

    >>> sign(0.2, 0.1), sign(0.1, 0.1), sign(0.1, 0.2)
    (1, 0, -1)
    """
    if abs(first - second) <= TOLERANCE * max(abs(first), abs(second)):
        return 0
    return 1 if first > second else -1


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

    See Also
    --------
    order_by_negatives : The function that returns it.

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
        """A row per stretch of n_negatives: first, last, order, and right (is it exact)."""
        last = [*(start - 1 for start in self.starts[1:]), self.n_negatives]
        is_right = [order == self.exact for order in self.orders]
        return pd.DataFrame(
            {"first": self.starts, "last": last, "order": self.orders, "right": is_right}
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
        If fewer than two recommenders are given, their numbers of instances differ, a rank is not
        in the catalogue, or there are several relevant items.

    See Also
    --------
    sampled_metrics.orders.order : How often one evaluation finds the right order.

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
    true_ranks = checked_ranks(ranks, protocol.n_items)
    exact = {name: float(metric(r, protocol.n_items).mean()) for name, r in true_ranks.items()}

    def mean(ranks: IntArray, m: int) -> float:
        return float(naive(metric, replace(protocol, n_negatives=m)).expected(ranks).mean())

    means: dict[str, Callable[[int], float]]
    depth = metric.k or protocol.n_negatives + 1
    users = next(iter(true_ranks.values())).size
    by_recursion = depth * users > _MANY and depth * protocol.n_negatives < _LONG
    if by_recursion and not metric.linear:  # the mean of a linear metric is constant
        means_by_name = {
            name: _mean_by_negatives(metric, ranks, protocol) for name, ranks in true_ranks.items()
        }
        means = {name: partial(_mean_at, means_by_m) for name, means_by_m in means_by_name.items()}
    else:
        means = {name: cache(partial(mean, ranks)) for name, ranks in true_ranks.items()}
    pairs = list(combinations(true_ranks, 2))
    changes = {1}.union(
        *(_flips(means[first], means[second], protocol.n_negatives) for first, second in pairs)
    )
    starts: list[int] = []
    orders: list[str] = []
    for m in sorted(changes):
        order = _spelled(
            list(true_ranks),
            {(first, second): sign(means[first](m), means[second](m)) for first, second in pairs},
        )
        if not orders or order != orders[-1]:
            starts.append(m)
            orders.append(order)
    exact_order = _spelled(
        list(true_ranks),
        {(first, second): sign(exact[first], exact[second]) for first, second in pairs},
    )
    return OrderByNegatives(tuple(starts), tuple(orders), exact_order, protocol.n_negatives)


def _mean_at(means: FloatArray, m: int) -> float:
    return float(means[m - 1])


def _mean_by_negatives(metric: Metric, ranks: IntArray, protocol: Protocol) -> FloatArray:
    """Mean over users of the expected sampled metric, for 1, 2, ... negatives."""
    max_negatives, sizes = (
        protocol.n_negatives,
        np.broadcast_arrays(protocol.above(ranks), protocol.pool),
    )
    depth = min(metric.k or max_negatives + 1, max_negatives + 1)
    above, pool = (counts.tobytes() for counts in sizes)
    values = naive(
        metric, replace(protocol, n_items=max_negatives + 1)
    ).values  # the same for fewer
    return _mean_pmfs(above, pool, max_negatives, depth, protocol.replacement) @ values[:depth]


@lru_cache(maxsize=8)  # for metrics of the same depth
def _mean_pmfs(
    above: bytes, pool: bytes, max_negatives: int, depth: int, replacement: bool
) -> FloatArray:
    """Probabilities of the first `depth` counts, averaged over users, for 1, 2, ... negatives.

    By recursion: the next negative is above the item with the share of such items among those left.
    All terms are positive, so that no digits cancel.
    """
    n_above, n_left = (
        np.frombuffer(buffer, dtype=np.int64).astype(float) for buffer in (above, pool)
    )
    n_above = np.repeat(n_above[np.newaxis], depth, axis=0)
    if not replacement:
        n_above = (n_above - np.arange(depth)[:, np.newaxis]).clip(0)
    pmfs, moved_up, n_below = (
        np.zeros(n_above.shape),
        np.empty(n_above.shape),
        np.empty(n_above.shape),
    )
    pmfs[0] = 1.0
    mean_pmfs = np.empty((max_negatives, depth))
    for m in range(max_negatives):
        # Impossible counts (fewer items left than above) have a probability of 0 already.
        np.subtract(n_left, n_above, out=n_below)
        pmfs /= n_left
        np.multiply(pmfs, n_above, out=moved_up)
        pmfs *= n_below
        pmfs[1:] += moved_up[:-1]
        mean_pmfs[m] = pmfs.mean(axis=1)
        if not replacement:
            n_left -= 1.0
    return mean_pmfs


def _flips(
    first: Callable[[int], float], second: Callable[[int], float], max_negatives: int
) -> list[int]:
    """Every m in 2..most at which the order differs from m - 1; both means never rise with m."""

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

    return list(between(1, max_negatives))


def _spelled(names: list[str], signs: Mapping[tuple[str, str], int]) -> str:
    """The order of the names, as in "B > A = C", from the signs of pairwise differences."""
    net_wins = dict.fromkeys(names, 0)
    for (first, second), sign in signs.items():
        net_wins[first] += sign
        net_wins[second] -= sign
    ranked = sorted(names, key=lambda name: -net_wins[name])
    text = ranked[0]
    for better, worse in pairwise(ranked):
        text += (" = " if net_wins[better] == net_wins[worse] else " > ") + worse
    return text


def checked_ranks(ranks: Mapping[str, ArrayLike], n_items: int | IntArray) -> dict[str, IntArray]:
    """The ranks of each recommender, checked against the catalogue and one another."""
    if len(ranks) < 2:
        raise ValueError(f"ranks must hold at least two recommenders, got {len(ranks)}")
    true_ranks = {}
    for name, values in ranks.items():
        array = integers(values, f"ranks of {name}", 1, n_items)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"ranks of {name} must be a non-empty list, got shape {array.shape}")
        true_ranks[name] = array
    sizes = {name: array.size for name, array in true_ranks.items()}
    if len(set(sizes.values())) > 1 or (
        np.ndim(n_items) and set(sizes.values()) != {np.size(n_items)}
    ):
        raise ValueError(
            f"ranks must hold the same number of instances for every recommender, got {sizes}"
            + (f" and {np.size(n_items)} in n_items" if np.ndim(n_items) else "")
        )
    return true_ranks

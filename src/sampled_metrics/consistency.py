"""Does sampling keep the order of two recommenders (krichene2020, Definition 1)?

The negatives drawn differ from one number of negatives to the next, but more of them never
raise a sampled metric: expectations fall as m grows. Between two numbers of negatives at which
the two recommenders' expectations do not overlap, no order can flip, and nothing in between
needs to be computed. That is how the flips are found exactly without trying every m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import combinations, combinations_with_replacement, pairwise

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from ._validate import FloatArray, IntArray, integer, integers
from .estimators import Estimator, naive
from .metrics import Metric
from .metrics import metric as parsed
from .numerics.differences import Differences, tabulated
from .protocol import Protocol

#: Differences of means below this share of the larger mean are rounding, not order.
_TOLERANCE = 1e-12


def order(first: float, second: float) -> int:
    """1 if `first` is the larger, -1 if `second` is, 0 if they agree to 12 digits.

    Examples
    --------
    >>> order(0.2, 0.1), order(0.1, 0.1), order(0.1, 0.2)
    (1, 0, -1)
    """
    if abs(first - second) <= _TOLERANCE * max(abs(first), abs(second)):
        return 0
    return 1 if first > second else -1


#: An order that rests on fewer users than this is called a tie. Four users who differ alike, all in
#: one direction, are two standard errors of a paired difference.
HANDFUL = 5


def users_behind(first: ArrayLike, second: ArrayLike) -> int:
    """The fewest users without whom two recommenders would not be in the order that they are in.

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
    sign = order(float(a.sum()), float(b.sum()))
    if sign == 0:
        return 0
    lead = np.sort(sign * (a - b))[::-1]
    left = lead.sum() - np.cumsum(lead)
    return int(np.argmax(left <= _TOLERANCE * np.abs(lead).sum())) + 1


@dataclass(frozen=True)
class Standing:
    """How recommenders stand to each other; an order that rests on a handful of users is a tie.

    Attributes
    ----------
    means : mapping of str to float
        The metric of each recommender.
    users : mapping of (str, str) to int
        For each pair, in the order of `means`, the users that its order rests on; see `of`.
    hits : mapping of str to float
        Users with a value above 0, or how many are expected; empty if that was not said.

    Examples
    --------
    >>> few = Standing.of({"A": [1] * 6 + [0] * 3, "B": [0] * 6 + [1, 0, 0], "C": [0] * 9})
    >>> few.spelled, few.users["B", "C"], few.order("C", "A")
    ('A > B = C', 1, -1)
    """

    means: Mapping[str, float]
    users: Mapping[tuple[str, str], int]
    hits: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, values: Mapping[str, ArrayLike], hits: Mapping[str, ArrayLike] | None = None
    ) -> Standing:
        """The standing by the users' own values.

        Parameters
        ----------
        values : mapping of str to array_like of float, shape (n_users,)
            Metric of each recommender, or its expectation over samples, for the same users.
        hits : mapping of str to array_like of float, shape (n_users,), optional
            Probability that a user's value is above 0. An order in expectation rests on no more
            users than have a value in one evaluation of the recommender that leads.

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
        return order(self.means[first], self.means[second])

    @property
    def ranked(self) -> list[str]:
        """The names from the largest mean down."""
        return sorted(self.means, key=lambda name: -self.means[name])

    @property
    def spelled(self) -> str:
        """The order, as in "A > B = C": where all before a place are ahead of all after it."""
        names = self.ranked
        text = names[0]
        for i in range(1, len(names)):
            apart = all(self.order(a, b) for a in names[:i] for b in names[i:])
            text += (" > " if apart else " = ") + names[i]
        return text

    def keeps(self, other: Standing) -> bool:
        """Whether every pair that is no tie in another standing is in the same order here."""
        return all(
            self.order(a, b) == sign for a, b in other.users if (sign := other.order(a, b)) != 0
        )


def verdicts(
    ranks: Mapping[str, ArrayLike],
    metric: Metric | str,
    n_items: ArrayLike,
    n_negatives: ArrayLike,
    replacement: bool = True,
) -> pd.DataFrame:
    """For each pair of recommenders and number of negatives: is the expected order right?

    Parameters
    ----------
    ranks : mapping of str to array_like of int, shape (n_instances,)
        True ranks that each recommender gave the relevant item of the same instances.
    metric : Metric or str
    n_items : int or array_like of int, shape (n_instances,)
        Candidates of each instance.
    n_negatives : int or array_like of int
        Numbers of negatives to judge.
    replacement : bool

    Returns
    -------
    pandas.DataFrame
        Columns first, second, n_negatives, exact (difference of the means of the metric),
        expected (difference of the expected sampled means) and consistent (bool): whether the
        two differences have the same sign.

    Raises
    ------
    ValueError
        If fewer than two recommenders are given, or their numbers of instances differ.

    Examples
    --------
    >>> from . import metric
    >>> toy = {"A": [100] * 5, "C": [212, 2, 743, 5342, 1548]}
    >>> verdicts(toy, metric("ap"), 10_000, [99, 9_000])[["n_negatives", "consistent"]]
       n_negatives  consistent
    0           99       False
    1         9000        True
    """
    metric = parsed(metric)
    true = _checked(ranks, n_items)
    exact = {name: float(metric(r, n_items).mean()) for name, r in true.items()}
    rows = []
    for m in np.atleast_1d(integers(n_negatives, "n_negatives", 1)).tolist():
        estimator = naive(metric, Protocol(_items(n_items), m, replacement=replacement))
        expected = {name: float(estimator.expected(r).mean()) for name, r in true.items()}
        for a, b in combinations(true, 2):
            same = order(exact[a], exact[b]) == order(expected[a], expected[b])
            rows.append((a, b, m, exact[a] - exact[b], expected[a] - expected[b], same))
    columns = ["first", "second", "n_negatives", "exact", "expected", "consistent"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class Ordering:
    """The expected order of two recommenders for every number of negatives in 1..m_max.

    Attributes
    ----------
    starts : tuple of int
        First number of negatives of each stretch of constant order; the first is 1.
    signs : tuple of int
        Order in each stretch, as :func:`order` gives it.
    exact : int
        Order of the exact metric.
    m_max : int
        Largest number of negatives examined.

    Examples
    --------
    >>> Ordering((1, 40, 300), (1, 0, -1), exact=-1, m_max=999).flips
    (40, 300)
    """

    starts: tuple[int, ...]
    signs: tuple[int, ...]
    exact: int
    m_max: int

    @property
    def flips(self) -> tuple[int, ...]:
        """Numbers of negatives at which the order differs from that with one fewer."""
        return self.starts[1:]

    @property
    def right_from(self) -> int | None:
        """Smallest m from which the order is the exact one up to `m_max`, or None.

        Examples
        --------
        >>> Ordering((1, 40, 300), (1, 0, -1), exact=-1, m_max=999).right_from
        300
        """
        return self.starts[-1] if self.signs[-1] == self.exact else None

    def at(self, n_negatives: int) -> int:
        """Expected order at a number of negatives in 1..m_max.

        Raises
        ------
        ValueError
            If `n_negatives` is outside that range.

        Examples
        --------
        >>> Ordering((1, 40, 300), (1, 0, -1), exact=-1, m_max=999).at(299)
        0
        """
        m = integer(n_negatives, "n_negatives", 1, self.m_max)
        return self.signs[int(np.searchsorted(self.starts, m, side="right")) - 1]


def ordering(
    first: ArrayLike,
    second: ArrayLike,
    metric: Metric | str,
    n_items: ArrayLike,
    m_max: int | None = None,
    replacement: bool = True,
) -> Ordering:
    """Find every number of negatives at which the expected order of two recommenders flips.

    Parameters
    ----------
    first, second : array_like of int, shape (n_instances,)
        True ranks of the relevant item of the same instances under each recommender.
    metric : Metric or str
    n_items : int or array_like of int, shape (n_instances,)
    m_max : int, optional
        Largest number of negatives to examine; the smallest ``n_items - 1`` if omitted.
    replacement : bool

    Returns
    -------
    Ordering

    Raises
    ------
    ValueError
        As :func:`verdicts`, or if `m_max` is below 1, or without replacement above
        ``n_items - 1``.

    Examples
    --------
    >>> from . import metric
    >>> a, c = [100] * 5, [212, 2, 743, 5342, 1548]
    >>> found = ordering(a, c, metric("ap"), 10_000)
    >>> found.flips, found.exact
    ((438,), -1)
    """
    metric = parsed(metric)
    true = _checked({"first": first, "second": second}, n_items)
    means = _means(true, metric, n_items, replacement)
    exact = order(*(float(metric(r, n_items).mean()) for r in true.values()))
    high = _m_max(m_max, n_items, replacement)
    return _ordering(means["first"], means["second"], exact, high)


def _m_max(m_max: int | None, n_items: ArrayLike, replacement: bool) -> int:
    """The largest number of negatives to examine, checked."""
    least = int(np.min(_items(n_items))) - 1
    return integer(least if m_max is None else m_max, "m_max", 1, None if replacement else least)


def _means(
    true: Mapping[str, IntArray], metric: Metric, n_items: ArrayLike, replacement: bool
) -> dict[str, Callable[[int], float]]:
    """For each recommender, its expected mean as a function of m that remembers its values."""
    items = _items(n_items)

    def mean(ranks: IntArray, m: int) -> float:
        return float(
            naive(metric, Protocol(items, m, replacement=replacement)).expected(ranks).mean()
        )

    return {name: cache(partial(mean, ranks)) for name, ranks in true.items()}


def _ordering(
    first: Callable[[int], float], second: Callable[[int], float], exact: int, high: int
) -> Ordering:
    """`ordering` of two expected means, which never rise with the number of negatives."""

    def changes(low: int, high: int) -> Iterator[int]:
        """Every m in (low, high] whose order is not that of m - 1, in increasing order."""
        if order(first(low), second(high)) == order(first(high), second(low)):
            return
        if high - low == 1:
            if order(first(low), second(low)) != order(first(high), second(high)):
                yield high
            return
        middle = (low + high) // 2
        yield from changes(low, middle)
        yield from changes(middle, high)

    starts = (1, *changes(1, high))
    return Ordering(starts, tuple(order(first(m), second(m)) for m in starts), exact, high)


def orders(
    ranks: Mapping[str, ArrayLike],
    metric: Metric | str,
    n_items: ArrayLike,
    m_max: int | None = None,
    replacement: bool = True,
) -> pd.DataFrame:
    """Give the expected order of all recommenders, stretch by stretch of the number of negatives.

    Parameters
    ----------
    ranks : mapping of str to array_like of int, shape (n_instances,)
        As for :func:`verdicts`; the others as for :func:`ordering`.

    Returns
    -------
    pandas.DataFrame
        Columns first, last (numbers of negatives at which a stretch begins and ends), order
        (names from the best to the worst, ``=`` between equals) and right (bool): whether every
        pair stands as under the exact metric.

    Raises
    ------
    ValueError
        As :func:`ordering`.

    Examples
    --------
    >>> from . import metric
    >>> toy = {"A": [100] * 5, "B": [40, 40, 8437, 9266, 4482], "C": [212, 2, 743, 5342, 1548]}
    >>> orders(toy, metric("ndcg"), 10_000)
       first  last      order  right
    0      1   691  A > C > B  False
    1    692  9999  C > A > B   True
    """
    metric = parsed(metric)
    true = _checked(ranks, n_items)
    end = _m_max(m_max, n_items, replacement)
    means = _means(true, metric, n_items, replacement)
    exact_means = {name: float(metric(r, n_items).mean()) for name, r in true.items()}
    exact = {(a, b): order(exact_means[a], exact_means[b]) for a, b in combinations(true, 2)}
    pairs = {(a, b): _ordering(means[a], means[b], exact[a, b], end) for a, b in exact}
    starts = sorted({start for found in pairs.values() for start in found.starts})
    rows = []
    for first, last in zip(starts, [*(start - 1 for start in starts[1:]), end], strict=True):
        signs = {pair: found.at(first) for pair, found in pairs.items()}
        rows.append((first, last, _spelled(list(true), signs), signs == exact))
    return pd.DataFrame(rows, columns=["first", "last", "order", "right"])


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


def counterexample(
    metric: Metric | str,
    n_items: int = 12,
    n_instances: int = 3,
    replacement: bool = True,
) -> Counterexample | None:
    """Search for the smallest case in which sampling reverses an order in expectation.

    Catalogues of 3, 4, ... items are tried in turn; for each, 2, 3, ... instances; for each,
    1, 2, ... negatives. Of the smallest case the pair with the widest margin is returned.

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
        None if there is none of that size, as for AUC, which is consistent.

    Raises
    ------
    ValueError
        If a size is outside its range.

    Examples
    --------
    >>> from . import metric
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


@dataclass(frozen=True)
class Verdict:
    """One sampled evaluation as the judge of two recommenders' order.

    Attributes
    ----------
    exact : float
        Average of the exact metric, first recommender less second; not 0.
    expected : float
        Expectation of the same difference in a sampled evaluation.
    sd : float
        Standard deviation of that difference from one evaluation to the next, at least 0.
    n_users : int
        Users that are averaged over.
    differences : Differences, optional
        What :func:`verdict` and :func:`sampled_metrics.planning.verdict` add: the distribution of
        the difference itself. Without it the difference is taken for normal, so never for a tie.
    n_together : int
        Users that `differences` is the sum over.

    Raises
    ------
    ValueError
        If `exact` is 0, so that there is no order to find, a number is not finite, `sd` is
        negative or `n_users` is below 1.

    Examples
    --------
    >>> Verdict(exact=-0.02, expected=-0.01, sd=0.01, n_users=100).z
    1.0
    """

    exact: float
    expected: float
    sd: float
    n_users: int
    differences: Differences | None = field(default=None, repr=False, compare=False)
    n_together: int = field(default=1, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("exact", "expected", "sd"):
            if not np.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}")
        if self.exact == 0:
            raise ValueError("exact must not be 0: two equal recommenders have no order to find")
        if self.sd < 0:
            raise ValueError(f"sd must be >= 0, got {self.sd}")
        integer(self.n_users, "n_users", 1)

    @property
    def z(self) -> float:
        """Expected difference in standard deviations; positive if it has the exact one's sign."""
        toward = float(np.sign(self.exact)) * self.expected
        if self.sd == 0:
            return float(np.sign(toward)) * np.inf if toward else 0.0
        return toward / self.sd

    @property
    def probability(self) -> float:
        """Share of sampled evaluations that find the exact order, as in krichene2020, Table 4.

        An evaluation in which the two are level has not found it. The rest, but for `ties`, finds
        the opposite order.

        Examples
        --------
        >>> round(Verdict(exact=-0.02, expected=-0.01, sd=0.01, n_users=100).probability, 4)
        0.8413
        """
        return self._chances[0]

    @property
    def ties(self) -> float:
        """Share of sampled evaluations in which the two recommenders are level.

        Examples
        --------
        Up to nine negatives, every item is in the sampled top ten:

        >>> from . import metric
        >>> recall = naive(metric("recall@10"), Protocol(n_items=1_000, n_negatives=9))
        >>> found = verdict([3] * 5, [700] * 5, recall)
        >>> found.probability, found.ties
        (0.0, 1.0)
        """
        return self._chances[1]

    @cached_property
    def _chances(self) -> tuple[float, float]:
        return self._with(self.n_users / self.n_together)

    def _with(self, times: float) -> tuple[float, float]:
        """Shares of evaluations that are right and that are level, with so many times the users."""
        if self.differences is not None:
            above, level = self.differences.chances(times)
            return (above if self.exact > 0 else max(1.0 - above - level, 0.0)), level
        z = self.z * np.sqrt(times * self.n_together / self.n_users) if self.z else 0.0
        return (float(ndtr(z)), 0.0) if self.sd or self.z else (0.0, 1.0)

    def users(self, confidence: float = 0.95) -> int | None:
        """Fewest users like these for which `probability` reaches `confidence`, or None.

        More users leave the expected difference as it is and divide its variance. None if the
        expected order is wrong: then more users make the wrong verdict surer.

        Users drawn at random (:func:`sampled_metrics.planning.verdict`) are counted one by one, a
        fixed set of them (:func:`verdict`) in whole copies of it; how many of a set would do that
        is enough itself, and everything without `differences`, is by the normal distribution.
        Where the values of an evaluation are few, `probability` is not quite monotone in the
        number of users: then the number given reaches `confidence` and one less does not.

        Parameters
        ----------
        confidence : float
            In [0.5, 1); at 0.5 the order has to be right in expectation.

        Raises
        ------
        ValueError
            If `confidence` is outside that range.

        Examples
        --------
        >>> Verdict(exact=-0.02, expected=-0.01, sd=0.01, n_users=100).users()
        271
        >>> Verdict(exact=-0.02, expected=0.01, sd=0.01, n_users=100).users() is None
        True
        """
        needed = _normal_quantile(confidence)
        if self.z <= 0:
            return None
        normal = max(1, int(np.ceil(self.n_users * (needed / self.z) ** 2)))
        if self.differences is None:
            return normal
        together = self.n_together

        def reached(copies: int) -> bool:
            return self._with(copies)[0] >= confidence

        high = max(1, -(-normal // together))
        low = high - 1 if reached(high) else high
        if low == high:
            while not reached(high):
                low, high = high, 2 * high
        else:
            while low and reached(low):
                low, high = low // 2, low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reached(middle) else (middle, high)
        return min(high * together, max(normal, 1)) if high == 1 else high * together


def verdict(first: ArrayLike, second: ArrayLike, estimator: Estimator) -> Verdict:
    """How often a sampled evaluation finds the order of two recommenders, without simulation.

    Negatives are drawn independently for every user and for the two recommenders: the variance
    of the difference of the averages is the sum of all users' variances over n_users**2. The
    distribution of the difference, and so the shares of right verdicts and of ties, is the
    convolution of all users' own: exact where the estimator's values lie on a lattice, such as
    those of Recall and AUC, and else, or where the difference is nearly normal, to about 0.001.

    Parameters
    ----------
    first, second : array_like of int, shape (n_users,)
        True ranks of the relevant item of the same users under each recommender.
    estimator : Estimator
        What the evaluation reports, under the protocol that it samples by; one relevant item.

    Returns
    -------
    Verdict

    Raises
    ------
    ValueError
        If the numbers of users differ, a rank is out of range, there are several relevant
        items, or the exact averages are equal.

    Examples
    --------
    >>> from . import metric
    >>> found = verdict([3] * 5, [8] * 5, naive(metric("ap"), Protocol(1_000, 200)))
    >>> round(found.probability, 2), round(found.ties, 2), found.users(0.99)
    (0.94, 0.02, 15)
    """
    protocol = estimator.protocol
    integer(protocol.n_relevant, "n_relevant", 1, 1)
    true = _checked({"first": first, "second": second}, protocol.n_items)
    one, two = true.values()
    exact = [float(estimator.metric(r, protocol.n_items).mean()) for r in (one, two)]
    values, laws, counts = tabulated(estimator, {1: one, -1: two})
    found = Differences(values, laws, counts)
    mean, variance, *_ = found.cumulants.tolist()
    sd = float(np.sqrt(variance)) / one.size
    return Verdict(_difference(*exact), mean / one.size, sd, one.size, found, one.size)


def _difference(first: float, second: float) -> float:
    """`first` less `second`, 0 where that is rounding and no order."""
    return first - second if order(first, second) else 0.0


def negatives_needed(
    verdict_at: Callable[[int], Verdict], low: int, high: int, confidence: float = 0.95
) -> int | None:
    """Number of negatives at which the verdict's probability crosses a level.

    The bracket is shrunk by straight lines through the normal quantile of the probability and,
    every third step, by bisection.

    Parameters
    ----------
    verdict_at : callable
        The verdict with so many negatives.
    low, high : int
        Numbers of negatives to search between, both included.
    confidence : float
        In [0.5, 1); at 0.5 the order has to be right in expectation.

    Returns
    -------
    int or None
        An m for which the level is reached and is not with m - 1, or `low` if it is reached
        there; None if it is not reached at `high`. It is the smallest such m where the level is
        crossed once; a correction's probability may rise and fall with m.

    Raises
    ------
    ValueError
        If `low` is below 1 or above `high`, or `confidence` out of range.

    Examples
    --------
    >>> from . import metric
    >>> recall = metric("recall@10")
    >>> negatives_needed(
    ...     lambda m: verdict([3] * 5, [300] * 5, naive(recall, Protocol(1_000, m))), 10, 900
    ... )
    31
    """
    needed = _normal_quantile(confidence)
    below, reached = integer(low, "low", 1), integer(high, "high", low)

    def excess_at(m: int) -> float:
        found = verdict_at(m)
        if found.z <= 0 or found.probability < confidence:
            return min(float(ndtri(found.probability)) - needed, -_TOLERANCE)
        return max(float(ndtri(found.probability)) - needed, 0.0)

    lack = excess_at(below)
    if lack >= 0:
        return below
    excess = excess_at(reached)
    if excess < 0:
        return None
    steps = 0
    while reached - below > 1:
        steps += 1  # every third is a bisection, lest lines creep along one side of a bend
        line = steps % 3 > 0 and np.isfinite(lack - excess)
        share = lack / (lack - excess) if line else 0.5
        middle = below + min(max(round(share * (reached - below)), 1), reached - below - 1)
        found = excess_at(middle)
        if found >= 0:
            reached, excess = middle, found
        else:
            below, lack = middle, found
    return reached


def _normal_quantile(confidence: float) -> float:
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence must be in [0.5, 1), got {confidence}")
    # At 0.5 the order has to be right: one that is merely not wrong is none.
    return max(float(ndtri(confidence)), float(np.finfo(float).tiny))


def _items(n_items: ArrayLike) -> int | np.ndarray:
    items = integers(n_items, "n_items", 2)
    return int(items) if items.ndim == 0 else items


def _checked(ranks: Mapping[str, ArrayLike], n_items: ArrayLike) -> dict[str, np.ndarray]:
    """The ranks of every recommender, checked against the catalogue and one another."""
    if len(ranks) < 2:
        raise ValueError(f"ranks must hold at least two recommenders, got {len(ranks)}")
    items = _items(n_items)
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

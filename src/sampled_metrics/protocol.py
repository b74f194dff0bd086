"""P: the distribution of the sampled rank, given the true one.

Rank m random negatives with the relevant item instead of the whole catalogue: the number of
them that land above it is binomial when they are drawn with replacement and hypergeometric
when not. Both distributions are computed by Loader's saddle-point expansion (loader2000), in
which nothing cancels, from whole numbers. So they are right to about 13 digits for catalogues of
1e9 items, where success probabilities in floating point would already lose 7 of those digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, as_written, generator, integer, integers
from .metrics import relevant_set
from .numerics.distributions import law, log_law


@dataclass(frozen=True, eq=False, repr=False)
class Protocol:
    """How negatives are sampled for one evaluation instance.

    Attributes
    ----------
    n_items : int or ndarray of int
        Candidates of an instance, the relevant ones included (the paper's n); more than
        `n_relevant`. An array holds a size for each instance and broadcasts with the ranks.
    n_negatives : int
        Irrelevant items that are sampled (the paper's m), at least 1.
    replacement : bool
        Whether an item may be drawn twice. The number of negatives above an item is then
        binomial, and otherwise hypergeometric.
    n_relevant : int
        Relevant items of the instance, all of them ranked with the sample; at least 1.

    Raises
    ------
    ValueError
        If a number is outside its range, or without replacement `n_negatives` exceeds the
        ``n_items - n_relevant`` negatives there are.

    See Also
    --------
    sampled_metrics.estimators.naive : What an evaluation by this protocol reports in expectation.
    sampled_metrics.ranking.RankIntervals.sampled_pmf : The same distribution for an item with ties.
    sampled_metrics.relevant_sets.RelevantSets : Several relevant items whose true ranks are known.

    Examples
    --------
    >>> protocol = Protocol(n_items=5, n_negatives=2)
    >>> protocol.pmf(3)
    array([0.25, 0.5 , 0.25])
    >>> without = Protocol(n_items=5, n_negatives=2, replacement=False)
    >>> without.pmf(3).round(4)
    array([0.1667, 0.6667, 0.1667])
    >>> without
    Protocol(n_items=5, n_negatives=2, replacement=False)
    """

    n_items: int | IntArray
    n_negatives: int
    _: KW_ONLY
    replacement: bool = True
    n_relevant: int = 1

    def __post_init__(self) -> None:
        relevant = integer(self.n_relevant, "n_relevant", 1)
        negatives = integer(self.n_negatives, "n_negatives", 1)
        items = integers(self.n_items, "n_items", relevant + 1)
        if not isinstance(self.replacement, (bool, np.bool_)):
            given = as_written(self.replacement)
            raise ValueError(f"replacement must be True or False, got {given}")
        if items.size == 0:
            raise ValueError("n_items must hold at least one catalogue size, got none")
        pool = int(items.min()) - relevant
        if not self.replacement and negatives > pool:
            raise ValueError(
                f"n_negatives must be <= {pool}, the irrelevant items there are, when sampling "
                f"without replacement, got {negatives}"
            )
        if int(items.max()) * negatives >= 2**62:
            raise ValueError(
                f"n_items * n_negatives must be < 2**62, got {items.max()} * {negatives}"
            )
        stored: int | IntArray = int(items) if items.ndim == 0 else items.copy()
        if not isinstance(stored, int):
            stored.setflags(write=False)
        object.__setattr__(self, "n_items", stored)
        object.__setattr__(self, "n_negatives", negatives)
        object.__setattr__(self, "n_relevant", relevant)
        object.__setattr__(self, "replacement", bool(self.replacement))

    def __repr__(self) -> str:
        sizes = np.asarray(self.n_items)
        items = str(self.n_items) if sizes.ndim == 0 else f"<{sizes.min()} to {sizes.max()}>"
        more = "" if self.replacement else ", replacement=False"
        more += "" if self.n_relevant == 1 else f", n_relevant={self.n_relevant}"
        return f"Protocol(n_items={items}, n_negatives={self.n_negatives}{more})"

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Protocol) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        """What makes two protocols the same, several catalogue sizes by their bytes."""
        sizes = self.n_items
        items = sizes if isinstance(sizes, int) else (sizes.shape, sizes.tobytes())
        return items, self.n_negatives, self.replacement, self.n_relevant

    @property
    def pool(self) -> IntArray:
        """Number of irrelevant items that negatives are drawn from."""
        return np.asarray(self.n_items, dtype=np.int64) - self.n_relevant

    def above(self, rank: ArrayLike, position: int = 1) -> IntArray:
        """Number of irrelevant items above the `position`-th best relevant item at true `rank`.

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True ranks; broadcasts with `n_items`.
        position : int
            Place among the relevant items, in [1, n_relevant].

        Returns
        -------
        ndarray of int, shape (...)
            In [0, n_items - n_relevant].

        Raises
        ------
        ValueError
            If a rank is fractional, below `position`, or leaves no place for the relevant
            items behind it.

        Examples
        --------
        >>> Protocol(n_items=10, n_negatives=3, n_relevant=2).above([4, 7], position=2)
        array([2, 5])
        """
        j = integer(position, "position", 1, self.n_relevant)
        last = np.asarray(self.n_items) - (self.n_relevant - j)
        return integers(rank, "rank", j, last) - j

    def logpmf(
        self, rank: ArrayLike, position: int = 1, counts: ArrayLike | None = None
    ) -> FloatArray:
        """Logarithm of :meth:`pmf`, finite where that underflows; same arguments and errors.

        Examples
        --------
        >>> rare = {"rank": 2, "counts": [100]}
        >>> protocol = Protocol(n_items=1_000_000_000, n_negatives=10_000)
        >>> protocol.pmf(**rare), protocol.logpmf(**rare).round(3)
        (array([0.]), array([-1515.529]))
        """
        if counts is None:
            x = np.arange(self.n_negatives + 1)
        else:
            x = integers(counts, "counts", 0, self.n_negatives)
        successes = self.above(rank, position)[..., np.newaxis]
        pool = self.pool[..., np.newaxis]
        return log_law(x, self.n_negatives, successes, pool, self.replacement)

    def pmf(
        self, rank: ArrayLike, position: int = 1, counts: ArrayLike | None = None
    ) -> FloatArray:
        """Probabilities of the number of negatives above the item (krichene2020, 4.3).

        The sampled rank of the item is `position` plus that number.

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True rank of the `position`-th best relevant item; broadcasts with `n_items`.
        position : int
            Its place among the relevant items, in [1, n_relevant].
        counts : array_like of int, shape (c,), optional
            Numbers of negatives to give the probability of; 0..n_negatives if omitted.

        Returns
        -------
        ndarray of float, shape (..., c)
            Relative error below 1e-12.

        Raises
        ------
        ValueError
            As :meth:`above`.

        Examples
        --------
        >>> Protocol(n_items=10_000, n_negatives=99).pmf(100, counts=[0]).round(6)
        array([0.373408])
        """
        if counts is None:
            return law(self.n_negatives, self.above(rank, position), self.pool, self.replacement)
        return np.asarray(np.exp(self.logpmf(rank, position, counts)))

    def cdf(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Probability of at most 0, 1, ..., m negatives above the item; shape (..., m + 1).

        A sum of positive terms from the left: the lower tail keeps its relative accuracy.
        Arguments and errors as :meth:`above`.

        Examples
        --------
        >>> Protocol(n_items=5, n_negatives=2).cdf(3)
        array([0.25, 0.75, 1.  ])
        """
        return np.minimum(np.cumsum(self.pmf(rank, position), axis=-1), 1.0)

    def sf(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Probability of more than 0, 1, ..., m negatives above the item; shape (..., m + 1).

        A sum of positive terms from the right: the upper tail keeps its relative accuracy.
        Arguments and errors as :meth:`above`.

        Examples
        --------
        >>> Protocol(n_items=5, n_negatives=2).sf(3)
        array([0.75, 0.25, 0.  ])
        """
        mass = self.pmf(rank, position)
        tail = np.cumsum(mass[..., :0:-1], axis=-1)[..., ::-1]
        return np.asarray(np.minimum(np.append(tail, np.zeros_like(mass[..., :1]), axis=-1), 1.0))

    def mean(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Expected sampled rank, ``position + m * above / pool``; shape (...).

        Arguments and errors as :meth:`above`.

        Examples
        --------
        >>> float(Protocol(n_items=10_000, n_negatives=99).mean(102))
        2.0
        """
        return np.asarray(position + self.n_negatives * self.above(rank, position) / self.pool)

    def variance(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Variance of the sampled rank; shape (...).

        Arguments and errors as :meth:`above`.

        Examples
        --------
        >>> float(Protocol(n_items=5, n_negatives=2).variance(3))
        0.5
        """
        above, pool = self.above(rank, position), self.pool
        binomial = self.n_negatives * (above / pool) * ((pool - above) / pool)
        if self.replacement:
            return np.asarray(binomial)
        # One irrelevant item, drawn once, leaves nothing to chance.
        return np.asarray(binomial * (pool - self.n_negatives) / np.maximum(pool - 1, 1))

    def draw(
        self,
        rank: ArrayLike,
        rng: int | np.random.Generator,
        size: int | tuple[int, ...] | None = None,
        position: int = 1,
    ) -> IntArray:
        """Draw sampled ranks.

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True ranks.
        rng : int or numpy.random.Generator
            A seed, or where the draws come from.
        size : int or tuple of int, optional
            Shape of the result; must end in the broadcast shape of `rank`, which it is if omitted.
        position : int
            Place among the relevant items. The ranks of several items depend on one another: use
            :meth:`draw_set` to draw them together.

        Returns
        -------
        ndarray of int
            In [position, position + n_negatives].

        Raises
        ------
        ValueError
            As :meth:`above`, if `size` does not end in the broadcast shape, or if `rng` is
            neither a seed nor a generator.

        See Also
        --------
        draw_set : Several relevant items from one sample.

        Examples
        --------
        >>> Protocol(n_items=10_000, n_negatives=99).draw([1, 5_000, 10_000], rng=0)
        array([  1,  51, 100])
        """
        above, pool, rng = self.above(rank, position), self.pool, generator(rng)
        if self.replacement:
            drawn = rng.binomial(self.n_negatives, above / pool, size)
        else:
            drawn = rng.hypergeometric(above, pool - above, self.n_negatives, size)
        return np.asarray(drawn, dtype=np.int64) + position

    def draw_set(
        self, ranks: ArrayLike, rng: int | np.random.Generator, size: int | None = None
    ) -> IntArray:
        """Draw the sampled ranks of all relevant items of one instance from one sample.

        Parameters
        ----------
        ranks : array_like of int, shape (n_relevant,)
            Their distinct true ranks.
        rng : int or numpy.random.Generator
            A seed, or where the draws come from.
        size : int, optional
            Number of samples of negatives.

        Returns
        -------
        ndarray of int, shape (n_relevant,) or (size, n_relevant)
            Increasing along the last axis.

        Raises
        ------
        ValueError
            As :meth:`checked_set`, or if `rng` is neither a seed nor a generator.

        See Also
        --------
        draw : One relevant item.

        Examples
        --------
        >>> Protocol(n_items=100, n_negatives=9, n_relevant=2).draw_set([2, 60], rng=0)
        array([1, 8])
        """
        ordered, rng = self.checked_set(ranks), generator(rng)
        above = np.diff(ordered - np.arange(1, ordered.size + 1), prepend=0)
        pool = int(self.pool)
        gaps = np.append(above, pool - above.sum())
        if self.replacement:
            drawn = rng.multinomial(self.n_negatives, gaps / pool, size)
        else:
            drawn = rng.multivariate_hypergeometric(
                gaps, self.n_negatives, size, method="marginals"
            )
        return np.cumsum(drawn[..., :-1], axis=-1) + np.arange(1, ordered.size + 1)

    def checked_set(self, ranks: ArrayLike) -> IntArray:
        """Return the ranks of one instance's relevant items in order, checked.

        Raises
        ------
        ValueError
            If they are not `n_relevant` distinct ranks in [1, n_items], or the protocol holds
            several catalogue sizes.

        Examples
        --------
        >>> Protocol(n_items=100, n_negatives=9, n_relevant=2).checked_set([60, 2])
        array([ 2, 60])
        """
        items = one_size(self)
        ordered = relevant_set(ranks)
        if ordered.size != self.n_relevant:
            raise ValueError(f"ranks must hold n_relevant = {self.n_relevant}, got {ordered.size}")
        return integers(ordered, "ranks", 1, items)


def checked(given: Protocol, *, n_relevant: int | None = None) -> Protocol:
    """Return a protocol as it is, or raise ValueError where there is something else.

    With `n_relevant`, the protocol must also be for as many relevant items.

    Examples
    --------
    >>> checked(Protocol(10_000, 99)).n_negatives
    99
    """
    if not isinstance(given, Protocol):
        raise ValueError(
            f"protocol must be a Protocol, as in Protocol(10_000, 99), got {as_written(given)}"
        )
    if n_relevant is not None and given.n_relevant != n_relevant:
        raise ValueError(
            f"protocol must be for n_relevant = {n_relevant} in each instance, got "
            f"{given.n_relevant}"
        )
    return given


def one_size(protocol: Protocol) -> int:
    """The catalogue size of a protocol that holds one, or ValueError.

    Examples
    --------
    >>> one_size(Protocol(10_000, 99))
    10000
    """
    if not isinstance(protocol.n_items, int):
        raise ValueError(
            f"n_items must be one catalogue size here, got shape {protocol.n_items.shape}"
        )
    return protocol.n_items


def by_negatives(given: Protocol | Sequence[Protocol]) -> list[Protocol]:
    """Return protocols of one relevant item that differ in n_negatives alone, the fewest first.

    Raises
    ------
    ValueError
        If there are none, one is no protocol or has several relevant items, or two differ in
        anything but `n_negatives`.

    Examples
    --------
    >>> [one.n_negatives for one in by_negatives([Protocol(50, 9), Protocol(50, 4)])]
    [4, 9]
    """
    several = [given] if isinstance(given, Protocol) or not isinstance(given, Sequence) else given
    protocols = {checked(one, n_relevant=1).n_negatives: one for one in several}
    if not protocols:
        raise ValueError("protocol must hold one Protocol or more, got none")
    first = next(iter(protocols.values()))
    for other in several:
        if replace(other, n_negatives=1) != replace(first, n_negatives=1):
            raise ValueError(f"protocols must differ in n_negatives alone, got {first} and {other}")
    return [protocols[m] for m in sorted(protocols)]


@lru_cache(maxsize=64)
def thinned(m: int, fewer: int) -> FloatArray:
    """Distribution of how many of any `fewer` of m negatives are above, for each number of the m.

    Of negatives drawn alike, with replacement or without, any so many are drawn alike too.

    Examples
    --------
    >>> thinned(3, 2)[1].round(4)  # one of three negatives is above
    array([0.3333, 0.6667, 0.    ])
    """
    return Protocol(m + 1, fewer, replacement=False).pmf(np.arange(1, m + 2))

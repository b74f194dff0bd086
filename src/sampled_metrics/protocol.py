"""P: the distribution of the sampled rank, given the true rank.

The number of m random negatives above an item is binomial if they are drawn with replacement and
hypergeometric if not. Both are computed from whole numbers (:mod:`.numerics.distributions`), to
about 13 digits even for catalogues of 1e9 items. Weighted negatives have a class of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlog1py, xlogy

from ._validate import FloatArray, IntArray, as_written, floats, generator, integer, integers, span
from .numerics import successive_sampling
from .numerics.distributions import log_pmf, pmf_table, polynomials

#: Entries of P held in memory at once.
_BLOCK = 1 << 20

#: Tables with at most so many entries are cached.
_CACHED = 1 << 20


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
    weights : ndarray of float, shape (n_items,), optional
        What each item's probability to be drawn is in proportion to, such as its number of
        ratings: finite and >= 0, in the order of one user's ranking, the best first. The relevant
        item, at whatever rank is asked for, is not drawn. With replacement the number of negatives
        above it is then binomial; without, each is drawn in proportion to the weights of those
        left, as by ``numpy.random.choice(..., replace=False, p=...)``. All items have the same
        weight if omitted. With weights there is one relevant item and one `n_items`.
    collapsed : bool
        Whether `n_negatives` are drawn with replacement and the distinct ones of them ranked, so
        that their number is random.

    Raises
    ------
    ValueError
        If a number is outside its range, without replacement `n_negatives` exceeds the
        ``n_items - n_relevant`` negatives there are or is not below the number of positive
        weights, or `collapsed` goes with ``replacement=False``.

    See Also
    --------
    sampled_metrics.estimators.naive : What an evaluation by this protocol reports in expectation.
    sampled_metrics.RelevantSets : Several relevant items whose true ranks are known.

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

    Twice as many ratings, drawn twice as often. Then the item at rank 3 has more negatives above:

    >>> by_ratings = Protocol(5, 2, weights=[4, 4, 9, 2, 2])
    >>> by_ratings.pmf(3).round(4)
    array([0.1111, 0.4444, 0.4444])
    """

    n_items: int | IntArray
    n_negatives: int
    _: KW_ONLY
    replacement: bool = True
    n_relevant: int = 1
    weights: FloatArray | None = None
    collapsed: bool = False

    #: Whether all items are equally likely to be drawn, and all drawn items are ranked.
    uniform: ClassVar[bool] = True

    def __new__(cls, *_: object, **options: Any) -> Protocol:
        """A :class:`Weighted` one if the negatives are not drawn uniformly or not all ranked."""
        return object.__new__(Weighted if cls is Protocol and _weighted(options) else cls)

    def __post_init__(self) -> None:
        for name in ("replacement", "collapsed"):
            if not isinstance(flag := getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {as_written(flag)}")
            object.__setattr__(self, name, bool(flag))
        self._check_sizes()
        self._check_weighted()

    def _check_sizes(self) -> None:
        """Check the numbers of items and negatives, and store them as whole numbers."""
        relevant = integer(self.n_relevant, "n_relevant", 1)
        negatives = integer(self.n_negatives, "n_negatives", 1)
        items = integers(self.n_items, "n_items", relevant + 1)
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

    def _check_weighted(self) -> None:
        """Check weights and collapsed, if there are any."""

    def __repr__(self) -> str:
        sizes = np.asarray(self.n_items)
        items = str(self.n_items) if sizes.ndim == 0 else f"<{sizes.min()} to {sizes.max()}>"
        options = "" if self.replacement else ", replacement=False"
        options += "" if self.n_relevant == 1 else f", n_relevant={self.n_relevant}"
        options += "" if self.weights is None else f", weights={span(self.weights)}"
        options += ", collapsed=True" if self.collapsed else ""
        return f"Protocol(n_items={items}, n_negatives={self.n_negatives}{options})"

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Protocol) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        """Identity of a protocol; arrays by their bytes."""
        sizes = self.n_items
        items = sizes if isinstance(sizes, int) else (sizes.shape, sizes.tobytes())
        weights = None if self.weights is None else self.weights.tobytes()
        return items, self.n_negatives, self.replacement, self.n_relevant, weights, self.collapsed

    @property
    def whole(self) -> bool:
        """Whether all irrelevant items are negatives, once each: sampled ranks are exact ranks."""
        return (
            self.uniform
            and not self.replacement
            and isinstance(self.n_items, int)
            and self.n_negatives == self.n_items - self.n_relevant
        )

    @property
    def n_outcomes(self) -> int:
        """Columns of P: sampled ranks of an item at a known position.

        >>> Protocol(n_items=10_000, n_negatives=99).n_outcomes
        100
        """
        return self.n_negatives + 1

    @property
    def pool(self) -> IntArray:
        """Irrelevant items, from which negatives are drawn uniformly, or ValueError."""
        drawn_alike(self)
        return np.asarray(self.n_items, dtype=np.int64) - self.n_relevant

    def above(self, rank: ArrayLike, position: int = 1) -> IntArray:
        """Number of irrelevant items above the item at true `rank`; broadcasts with `n_items`.

        Raises ValueError if a rank is fractional, below `position`, or leaves no place for the
        relevant items behind it.

        >>> Protocol(n_items=10, n_negatives=3, n_relevant=2).above([4, 7], position=2)
        array([2, 5])
        """
        j = integer(position, "position", 1, self.n_relevant)
        last = np.asarray(self.n_items) - (self.n_relevant - j)
        return integers(rank, "rank", j, last) - j

    def rows(self, above: np.ndarray) -> FloatArray:
        """Rows of P for numbers of irrelevant items above, (..., n_outcomes); nothing is checked.

        The numbers may be fractions if at least `n_negatives` + 17 irrelevant items are on either
        side: the probabilities are polynomials in them.

        >>> Protocol(n_items=5, n_negatives=2).rows(np.array([2.0]))
        array([[0.25, 0.5 , 0.25]])
        """
        return np.asarray(pmf_table(self.n_negatives, above, self.pool, self.replacement))

    def _polynomials(self, above: np.ndarray) -> FloatArray:
        """:meth:`rows` for any fractional numbers of items above: slower, with absolute errors.

        >>> Protocol(4, 2, replacement=False)._polynomials(np.array([0.5]))
        array([[ 0.625     ,  0.41666667, -0.04166667]])
        """
        return np.asarray(polynomials(self.n_negatives, above, self.pool, self.replacement))

    def blocks(
        self, rank: ArrayLike, position: int = 1, width: int | None = None
    ) -> Iterator[FloatArray]:
        """The first `width` columns of the rows at each rank in turn, in blocks of bounded size.

        >>> [block.shape for block in Protocol(10_000, 99).blocks(np.arange(1, 10_001), width=100)]
        [(10000, 100)]
        """
        above, width = self.above(rank, position), self.n_outcomes if width is None else width
        above, pool = (counts.ravel() for counts in np.broadcast_arrays(above, self.pool))
        step = max(1, _BLOCK // width)
        for start in range(0, above.size, step):
            block = slice(start, start + step)
            yield np.asarray(
                pmf_table(self.n_negatives, above[block], pool[block], self.replacement, width)
            )

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
        above, pool = self.above(rank, position), self.pool[..., np.newaxis]
        return log_pmf(x, self.n_negatives, above[..., np.newaxis], pool, self.replacement)

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
            Relative error below 1e-12; with weights or collapsed an absolute error below 1e-12,
            for up to some 500 negatives. Weights without replacement take time in proportion to
            n_items (about a second for 30,000).

        Raises
        ------
        ValueError
            As :meth:`above`, or if negatives are drawn by weights and collapsed.

        Examples
        --------
        >>> Protocol(n_items=10_000, n_negatives=99).pmf(100, counts=[0]).round(6)
        array([0.373408])
        """
        if counts is None:
            return self.rows(self.above(rank, position))
        return np.asarray(np.exp(self.logpmf(rank, position, counts)))

    def share(self, rank: ArrayLike) -> FloatArray:
        """Probability that one draw is above the item; shape (...).

        With weights this is a relative rank that counts each item by its weight. With replacement
        the expected metric is a function of it. One relevant item; arguments and errors as
        :meth:`above`.

        Examples
        --------
        >>> Protocol(5, 2, weights=[4, 4, 9, 2, 2]).share([1, 2, 3])
        array([0.        , 0.23529412, 0.66666667])
        """
        return np.asarray(self.above(rank) / (np.asarray(self.n_items) - self.n_relevant))

    def inclusion(self, rank: int) -> FloatArray:
        """Expected number of times that each item is among the negatives of the item at `rank`.

        :func:`~sampled_metrics.readers.counts_above` divides by it. With replacement it is
        ``n_negatives`` times the probability of a draw, otherwise the inclusion probability.

        Parameters
        ----------
        rank : int
            In [1, n_items]; one relevant item.

        Returns
        -------
        ndarray of float, shape (n_items,)
            In the order of the ranking; 0 for the relevant item.

        Raises
        ------
        ValueError
            As :meth:`above`, or if the protocol has several relevant items or catalogue sizes.

        Examples
        --------
        >>> Protocol(5, 2, weights=[4, 4, 9, 2, 2], replacement=False).inclusion(3).round(4)
        array([0.6333, 0.6333, 0.    , 0.3667, 0.3667])
        """
        if self.n_relevant > 1:
            raise ValueError(f"n_relevant must be 1 here, got {self.n_relevant}")
        weights = np.ones(one_number(self)) if self.weights is None else self.weights.copy()
        weights[self.above(integer(rank, "rank", 1))] = 0.0
        if not self.replacement:
            return successive_sampling.drawn_first(weights, self.n_negatives)
        chance = weights / weights.sum()
        if self.collapsed:
            return np.asarray(-np.expm1(xlog1py(self.n_negatives, -chance)))
        return np.asarray(self.n_negatives * chance)

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
        """Expected sampled rank, ``position + m * above / pool`` if drawn alike; shape (...).

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
        # A pool of one item has a variance of 0: avoid 0 / 0.
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
            Place among the relevant items. The ranks of several items depend on one another.

        Returns
        -------
        ndarray of int
            In [position, position + n_negatives].

        Raises
        ------
        ValueError
            As :meth:`above`, if `size` does not end in the broadcast shape, or if `rng` is
            neither a seed nor a generator.

        Examples
        --------
        >>> Protocol(n_items=10_000, n_negatives=99).draw([1, 5_000, 10_000], rng=0)
        array([  1,  51, 100])
        """
        n_above = self._drawn(self.above(rank, position), generator(rng), size)
        return np.asarray(n_above, dtype=np.int64) + position

    def _drawn(self, above: IntArray, rng: np.random.Generator, size: Any) -> Any:
        """Numbers of negatives above the item, drawn."""
        if self.replacement:
            return rng.binomial(self.n_negatives, above / self.pool, size)
        return rng.hypergeometric(above, self.pool - above, self.n_negatives, size)


class Weighted(Protocol):
    """A :class:`Protocol` with weights, or whose duplicates are collapsed, made by calling that.

    Most of it is computed from whole rows of P.

    >>> type(Protocol(5, 2, collapsed=True)).__name__
    'Weighted'
    """

    uniform = False

    def __new__(cls, *values: Any, **options: Any) -> Protocol:  # type: ignore[misc]
        """A uniform one where dataclasses.replace takes the weights away."""
        is_copied = not (values or options)  # copy and pickle set the fields later
        return (
            object.__new__(cls) if is_copied or _weighted(options) else Protocol(*values, **options)
        )

    def _check_weighted(self) -> None:
        if self.collapsed and not self.replacement:
            raise ValueError("collapsed must be False without replacement, got True")
        if self.collapsed and not isinstance(self.n_items, int):
            raise ValueError(
                f"n_items must be one number if collapsed, got shape {self.n_items.shape}"
            )
        if self.weights is None:
            return
        weights = np.array(floats(self.weights, "weights"))
        if self.n_relevant > 1:
            raise ValueError(f"n_relevant must be 1 with weights, got {self.n_relevant}")
        if weights.shape != (self.n_items,):
            raise ValueError(
                f"weights must have shape ({self.n_items},), one for each of n_items, got "
                f"{weights.shape}"
            )
        bad = ~np.isfinite(weights) | (weights < 0)
        if bad.any():
            raise ValueError(f"weights must be finite and >= 0, got {weights[bad][0]}")
        least = 1 if self.replacement else self.n_negatives
        if np.count_nonzero(weights) <= least:
            raise ValueError(
                f"weights must hold more than {least} above 0, got {np.count_nonzero(weights)}"
            )
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    def rows(self, above: np.ndarray) -> FloatArray:
        """Rows of P for whole numbers of irrelevant items above."""
        m = self.n_negatives
        distinct_above, row_index = np.unique(above, return_inverse=True)
        if self.weights is None:
            pool = int(self.n_items) - self.n_relevant
            p_distinct = successive_sampling.occupied(m, pool)
            n_distinct = np.flatnonzero(p_distinct > 0)
            pmfs = (
                p_distinct[n_distinct] @ pmf_table(n_distinct, n_above, pool, False, m + 1)
                for n_above in distinct_above.tolist()
            )
            pmf_rows = np.array(list(pmfs)).reshape(distinct_above.size, m + 1)
        elif self.collapsed:
            raise ValueError(
                "weights must be left out for the distribution of collapsed negatives: with both, "
                f"only inclusion is known, got {self!r}"
            )
        elif self.replacement:
            x, p = np.arange(m + 1), self.share(distinct_above + 1)[:, np.newaxis]
            log_binomial = gammaln(m + 1) - gammaln(x + 1) - gammaln(m - x + 1)
            pmf_rows = np.exp(log_binomial + xlogy(x, p) + xlog1py(m - x, -p))
        else:
            pmf_rows = successive_sampling.successive(self.weights, distinct_above, m)
        return np.asarray(pmf_rows[row_index.reshape(np.shape(above))])

    def blocks(
        self, rank: ArrayLike, position: int = 1, width: int | None = None
    ) -> Iterator[FloatArray]:
        """All rows in one block: those without replacement are computed together."""
        yield self.rows(self.above(rank, position).ravel())[:, :width]

    def logpmf(
        self, rank: ArrayLike, position: int = 1, counts: ArrayLike | None = None
    ) -> FloatArray:
        """Logarithm of :meth:`pmf`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.pmf(rank, position, counts)))

    def pmf(
        self, rank: ArrayLike, position: int = 1, counts: ArrayLike | None = None
    ) -> FloatArray:
        """As :meth:`Protocol.pmf`."""
        x = slice(None) if counts is None else integers(counts, "counts", 0, self.n_negatives)
        return np.asarray(self.rows(self.above(rank, position))[..., x])

    def share(self, rank: ArrayLike) -> FloatArray:
        """As :meth:`Protocol.share`, where the weight of the item itself is not drawn."""
        if self.weights is None:
            return super().share(rank)
        above, total = self.above(rank), np.append(0.0, np.cumsum(self.weights))
        return np.asarray(np.minimum(total[above] / (total[-1] - self.weights[above]), 1.0))

    def mean(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Expected sampled rank."""
        return position + self.pmf(rank, position) @ np.arange(self.n_negatives + 1.0)

    def variance(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Variance of the sampled rank."""
        mass, counts = self.pmf(rank, position), np.arange(self.n_negatives + 1.0)
        deviations = counts - (mass @ counts)[..., np.newaxis]
        return np.asarray((mass * deviations**2).sum(axis=-1))

    def _drawn(self, above: IntArray, rng: np.random.Generator, size: Any) -> Any:
        shape = above.shape if size is None else tuple(np.atleast_1d(size).tolist())
        cdf = np.minimum(np.cumsum(self.rows(above), axis=-1), 1.0)[..., :-1]
        return (rng.random((*shape, 1)) > np.broadcast_to(cdf, (*shape, self.n_negatives))).sum(-1)


def _weighted(options: Mapping[str, Any]) -> bool:
    """Whether keywords of :class:`Protocol` make it one of weighted or collapsed negatives."""
    return options.get("weights") is not None or bool(options.get("collapsed"))


def drawn_alike(protocol: Protocol) -> None:
    """Raise ValueError unless negatives are drawn uniformly and all ranked.

    >>> drawn_alike(Protocol(10_000, 99))
    """
    if not protocol.uniform:
        raise ValueError(
            f"protocol must draw negatives uniformly and rank all of them here, got {protocol!r}"
        )


def one_size(protocol: Protocol) -> int:
    """The catalogue size of a uniform protocol that has only one, or ValueError.

    >>> one_size(Protocol(10_000, 99))
    10000
    """
    drawn_alike(protocol)
    return one_number(protocol)


def one_number(protocol: Protocol) -> int:
    """The catalogue size of a protocol that has only one, or ValueError."""
    if not isinstance(protocol.n_items, int):
        raise ValueError(
            f"n_items must be one catalogue size here, got shape {protocol.n_items.shape}"
        )
    return protocol.n_items


def checked(protocol: object, *, n_relevant: int | None = None) -> Protocol:
    """The protocol, if it is a uniform one (for `n_relevant` items, if given), or ValueError.

    >>> checked(Protocol(10_000, 99)).n_negatives
    99
    """
    if not isinstance(protocol, Protocol):
        raise ValueError(
            f"protocol must be a Protocol, as in Protocol(10_000, 99), got {as_written(protocol)}"
        )
    drawn_alike(protocol)
    if n_relevant is not None and protocol.n_relevant != n_relevant:
        raise ValueError(
            f"protocol must be for n_relevant = {n_relevant} in each instance, got "
            f"{protocol.n_relevant}"
        )
    return protocol


def thinned(m: int, size: int) -> FloatArray:
    """Distribution of the number above among any `size` of m negatives, given the number of the m.

    Any subset of uniformly drawn negatives is uniformly drawn, with replacement or without.

    >>> thinned(3, 2)[1].round(4)  # one of three negatives is above
    array([0.3333, 0.6667, 0.    ])
    """
    table = _thinned if (m + 1) * (size + 1) <= _CACHED else _thinned.__wrapped__
    return table(m, size)


def thinned_counts(counts: FloatArray, size: int) -> FloatArray:
    """Users at each number above among any `size` of m negatives, given those among the m.

    >>> thinned_counts(np.array([0.0, 3.0, 0.0, 0.0]), 2).round(4)
    array([1., 2., 0.])
    """
    m, above = counts.size - 1, np.flatnonzero(counts)
    if m == size:
        return counts
    blocks = np.array_split(above, 1 + above.size * (size + 1) // _CACHED)
    return np.asarray(sum(counts[block] @ pmf_table(size, block, m, False) for block in blocks))


@lru_cache(maxsize=64)
def _thinned(m: int, size: int) -> FloatArray:
    return Protocol(m + 1, size, replacement=False).pmf(np.arange(1, m + 2))

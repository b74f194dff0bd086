"""What the sample cannot tell: the exact metrics that are compatible with the sampled ranks.

A sample of negatives shows the distribution of the sampled rank, q = p P, and not the distribution
p of the true ranks; many p have the same q, or one that the observed sample does not contradict.
How far the likelihood has to fall before the metric takes a value is that value's deviance, and
the values whose deviance is small are the interval. What is assumed of p narrows it: nothing, or a
:class:`Shape` near the top, where the sample sees little.

The likeliest p at each value of the metric are convex programmes. Each is solved on some ranks and
bounded by its dual on all of them, so that an interval contains the programme's own whatever the
solver did.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, chdtri

from . import _promises, unequal
from ._threads import one_thread
from ._validate import FloatArray, IntArray, as_written
from .metrics import Metric
from .metrics import metric as parsed
from .numerics.all_ranks import MOST_ITEMS, local_maxima
from .numerics.distributions import law
from .numerics.mixtures import likeliest
from .protocol import Protocol, drawn_alike, thinned

#: A sample is incompatible with its protocol, or with a shape, if it is as unlikely as this.
REFUTED = 1e-3
#: Of the chi-squared variable that the deviance of a value of the metric is judged by.
_FREEDOM = 2
#: Sampled ranks are put together in cells this wide, in standard deviations of a sampled rank.
_CELL = 0.75
#: Catalogue sizes that differ by at most this factor, positions and numbers of relevant items by
#: the next, are judged together; so are groups with a smaller share of the users than the last.
_ALIKE, _ALIKE_SETS, _FEW = 1.1, 2.0, 0.03
#: Ranks in a programme: per unit of the angle between ranks, and over the head.
_TAIL, _HEAD = 2, 24
#: Ranks that the bounds look at: all up to the first number, then so many per column.
_EVERY, _FINER = 4_096, 16
#: The steepest of geometric distributions, which is at the first rank alone, and how many.
_STEEPEST, _RATES = 40.0, 96
#: Deviances that a profile is drawn at.
LEVELS = (4.0, 12.0)
#: Deviance that a bound may lie below a profile before ranks are added: near the levels, away from
#: them, and where a line was drawn before. How often ranks are added, and how many for one part.
_NEAR, _AWAY, _NEARER, _ROUNDS, _MORE = 0.05, 0.5, 0.005, 8, 12
#: How near to its optimum a programme is solved, as a part of that.
_AIM = 0.1
#: How much of an interval's width either end may leave open, and lines that are drawn until then.
_ENOUGH, _TRIES = 0.005, 8
#: Nearer to its optimum rounding lets no programme come, in nats per user.
_ROUNDING = 3e-11
#: Problems solved at once.
_BATCH = 256
#: Users that stand for infinitely many: with more, rounding is what one sees.
_INFINITE = 1e8


class IncompatibleError(ValueError):
    """No distribution of true ranks leads to such sampled ranks."""


@dataclass(frozen=True)
class Shape:
    """An assumption on the first true ranks: the deeper the rank, the fewer the users.

    Beyond the first ranks anything is possible. What is possible under a sharper assumption need
    not lie within what is possible under a weaker one, since the likelihood is compared with the
    best of its own class, which a sharper assumption lowers too. Nor may one quote what the two
    have in common: each misses the exact metric in its own share of the samples, and both
    together in up to the sum of these.

    Attributes
    ----------
    head : float
        The assumption is of the first ``head * n_items / n_negatives`` ranks, those with fewer
        than `head` negatives above them on average.
    steepness : float
        How many times fewer users, at most, there are at a rank of {2, 3} than at rank 1, at one
        of {4, ..., 7} than at one of {2, 3}, and so on while the ranks are among the first; at
        least 1, and infinite if the fall may be of any steepness.
    geometric : bool
        Whether the users at these ranks are moreover a mixture of geometric distributions that
        are cut off there: users of several kinds, and of each kind there are so many per cent
        fewer at every rank than at the one before. It is a sharper assumption, and true of fewer
        recommenders.

    Examples
    --------
    >>> print(Shape())
    deeper ranks have fewer users, down to the rank with 10 negatives above it on average

    Of 2,000 users 700 have none of 20 negatives above their item, and 300 one. How many have it
    among the first ten of 1,000?

    >>> counts = [700, 300, 180, 130, 100, 80, 70, 60, 50, 45, 40, 35, 30, 30, 25, 25, 20, 20, 20]
    >>> counts, protocol = [*counts, 20, 20], Protocol(n_items=1_000, n_negatives=20)
    >>> for shape in (Shape(), Shape(geometric=True)):
    ...     found = interval(counts, protocol, "recall@10", shape=shape)
    ...     print(round(found.low, 2), round(found.high, 2))
    0.1 0.29
    0.13 0.24
    """

    head: float = 10.0
    steepness: float = np.inf
    geometric: bool = False

    def __post_init__(self) -> None:
        for name, low in (("head", 0.0), ("steepness", 1.0)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not float(value) >= low or value == 0:
                raise ValueError(
                    f"{name} must be a number >= {max(low, 1e-9):g}, got {as_written(value)}"
                )
        if not isinstance(self.geometric, bool):
            raise ValueError(f"geometric must be True or False, got {as_written(self.geometric)}")

    def __str__(self) -> str:
        fall = ", in a mixture of geometric distributions" if self.geometric else ""
        if np.isfinite(self.steepness):
            fall += f", and at most {self.steepness:g} times fewer from one doubling to the next"
        return (
            f"deeper ranks have fewer users{fall}, down to the rank with {self.head:g} negatives "
            "above it on average"
        )


def assumption_name(shape: Shape | None) -> str:
    """The name of an assumption, as frames and verdicts give it.

    Examples
    --------
    >>> [assumption_name(shape) for shape in (None, Shape(), Shape(steepness=4.0))]
    ['none', 'decreasing at the top', 'at most 4 times per doubling']
    """
    if shape is None:
        return _promises.NONE
    names = [_promises.GEOMETRIC] if shape.geometric else []
    if np.isfinite(shape.steepness):
        names.append(_promises.AT_MOST.format(shape.steepness))
    return ", ".join(names) or _promises.DECREASING


@dataclass(frozen=True, eq=False)
class Interval:
    """The exact metrics that are compatible with a sample.

    Attributes
    ----------
    low, high : float
        The smallest and the largest value, or a little beyond: see `gap`.
    confidence : float
        How often, in the long run, such an interval holds the exact metric, but for distributions
        that :func:`interval` names.
    gap : float
        How much further out either end may be than a compatible distribution that was found.
    at_low, at_high : dict of int to float
        Distributions of the true ranks near the two ends: users at each rank, as a share of all
        users. With several relevant items they sum to the number of them that the metric sees.

    Examples
    --------
    >>> found = interval([60, 30, 10], Protocol(n_items=50, n_negatives=2), "recall@10")
    >>> round(found.low, 2), round(found.high, 2), found.certified
    (0.0, 0.99, True)
    """

    low: float
    high: float
    confidence: float
    gap: float
    _masses: Callable[[float], dict[int, float]] = field(repr=False)

    @cached_property
    def at_low(self) -> dict[int, float]:
        return self._masses(-1.0)

    @cached_property
    def at_high(self) -> dict[int, float]:
        return self._masses(1.0)

    @property
    def certified(self) -> bool:
        """Whether the gap is below a hundredth of the interval's width, or below 1e-6."""
        return self.gap <= max(0.01 * (self.high - self.low), 1e-6)


@dataclass(frozen=True, eq=False)
class Fit:
    """How well the likeliest distribution of true ranks agrees with the sample.

    Attributes
    ----------
    deviance : float
        Twice the logarithm of the likelihood's ratio to that of the observed shares themselves,
        where sampled ranks are put together until five users are expected in each cell.
    cells : int
        Cells, less one for each part of the sample that is judged by itself.
    p_value : float
        Of a chi-squared variable with so many degrees of freedom: larger than the true one, since
        the distribution of true ranks was fitted.
    """

    deviance: float
    cells: int

    @property
    def p_value(self) -> float:
        return float(chdtrc(max(self.cells, 1), self.deviance))


@dataclass(frozen=True, eq=False)
class Profile:
    """How far the likelihood falls, at least, if the metric takes a value.

    Attributes
    ----------
    intercepts, slopes : ndarray of float, shape (k,)
        Lines below the profile deviance, which is convex in the metric.
    range : tuple of float
        The least and the most that the metric can be.
    gap : float
        How much further out either end may be, at the levels, than a distribution that was found.
    fit : Fit
    scores : list of list of ndarray
        For each level of the lower end, then of the upper one, and each part: for each cell of
        sampled ranks, how many times likelier it is, as a logarithm, under the best distribution
        than under the one where a line touches near the level.
    reached : tuple of ndarray of float, shape (k, 2)
        Towards the lower end and towards the upper one: values of distributions that were found,
        in order, and deviances that they have at most.

    Examples
    --------
    May half of 5,000 users have had their item among the first 50 of 1,000?

    >>> protocol, kinds = Protocol(n_items=1_000, n_negatives=99), np.array([[99, 1, 1, 1_000]])
    >>> true = np.random.default_rng(1).geometric(0.03, size=5_000)
    >>> drawn = np.bincount(protocol.draw(np.minimum(true, 1_000), 1) - 1, minlength=100)
    >>> parts = partition(kinds, np.array([5_000.0]), parsed("recall@50"), replacement=True)
    >>> (found,) = parts.programme(Shape()).profiles([parts.counts([drawn.astype(float)])])
    >>> bool(found.deviance(0.5) > quantile(0.95))  # not with 95% confidence
    True
    >>> low, high = found.interval(quantile(0.95))
    >>> bool(low < np.mean(true <= 50) < high)
    True
    """

    intercepts: FloatArray
    slopes: FloatArray
    range: tuple[float, float]
    gap: float
    fit: Fit
    scores: list[list[FloatArray]] = field(repr=False)
    reached: tuple[FloatArray, ...] = field(default=(), repr=False)

    def deviance(self, value: FloatArray) -> FloatArray:
        """The largest of the lines, and of 0, at each value."""
        lines = self.intercepts + np.multiply.outer(np.asarray(value), self.slopes)
        return np.asarray(np.maximum(lines.max(axis=-1, initial=0.0), 0.0))

    def interval(self, threshold: float) -> tuple[float, float]:
        """The values whose deviance is at most `threshold`, and maybe a few more."""
        with np.errstate(divide="ignore"):
            ends = (threshold - self.intercepts) / self.slopes
        low = max(ends[self.slopes < 0], default=self.range[0])
        high = min(ends[self.slopes > 0], default=self.range[1])
        return float(np.clip(low, *self.range)), float(np.clip(high, *self.range))


def difference(first: Profile, second: Profile, threshold: float) -> tuple[float, float]:
    """The differences of two metrics that are possible where two deviances share a threshold.

    Parameters
    ----------
    first, second : Profile
        Of two samples, taken as independent.
    threshold : float
        What the sum of the two deviances is at most.

    Returns
    -------
    low, high : float

    See Also
    --------
    meeting : Whether the first metric is above the second.

    Examples
    --------
    How far two recommenders may be apart if all that is known of each are two lines below its
    deviance, which falls to 0 where the metric is 0.4, and 0.3, and is 4 a twentieth away:

    >>> def known(middle):
    ...     ends = np.array([-80.0, 80.0])
    ...     return Profile(-middle * ends, ends, (0.0, 1.0), 0.0, Fit(0.0, 1), [])
    >>> low, high = difference(known(0.4), known(0.3), 4.0)
    >>> round(low, 3), round(high, 3)
    (0.05, 0.15)
    """
    parts = threshold * np.linspace(0.0, 1.0, 33)
    ends = [(first.interval(a), second.interval(threshold - a)) for a in parts.tolist()]
    return min(a[0] - b[1] for a, b in ends), max(a[1] - b[0] for a, b in ends)


def meeting(first: Profile, second: Profile) -> float:
    """The slope that best shows that the first metric is above the second; 0 if none does.

    It is that of the first profile, less its sign, and of the second one, where their sum is least
    among the values that the first may have from above and the second from below.

    See Also
    --------
    Programme.apart : What a slope shows.

    Examples
    --------
    The deviance of A falls up to 0.4, that of B rises from 0.3 on: they cannot be equal unless one
    of them pays, and the other way round nobody does.

    >>> a = Profile(np.array([32.0]), np.array([-80.0]), (0.0, 1.0), 0.0, Fit(0.0, 1), [])
    >>> b = Profile(np.array([-24.0]), np.array([80.0]), (0.0, 1.0), 0.0, Fit(0.0, 1), [])
    >>> meeting(a, b), meeting(b, a)
    (80.0, 0.0)
    """
    down, up = first.slopes < 0, second.slopes > 0
    a = np.append(first.intercepts[down], 0.0), np.append(first.slopes[down], 0.0)
    b = np.append(second.intercepts[up], 0.0), np.append(second.slopes[up], 0.0)
    corners = []
    for intercepts, slopes in (a, b):
        with np.errstate(divide="ignore", invalid="ignore"):
            at = -np.subtract.outer(intercepts, intercepts) / np.subtract.outer(slopes, slopes)
        corners.append(at[np.isfinite(at)])
    values = np.clip(np.concatenate(corners), max(first.range[0], second.range[0]), first.range[1])
    if not values.size:
        return 0.0
    falls = [(i + np.multiply.outer(values, s)).max(axis=1) for i, s in (a, b)]
    best = int(np.argmin(falls[0] + falls[1]))
    if falls[0][best] + falls[1][best] <= 0:
        return 0.0
    near = 1e-9 * (1.0 + abs(values[best]))
    sides = []
    for intercepts, slopes in (a, b):
        at = [int((intercepts + slopes * (values[best] + d)).argmax()) for d in (-near, near)]
        sides.append([abs(float(slopes[k])) for k in at])
    # Falling on the left and rising on the right: slopes that both have here.
    low, high = max(sides[0][1], sides[1][0]), min(sides[0][0], sides[1][1])
    return 0.5 * (low + high) if high >= low else max(low, high)


def together(first: Profile, second: Profile) -> float:
    """How far two likelihoods fall, at most, if the first metric is not above the second.

    Distributions that were found have such metrics, or mixtures of them: a mixture's deviance is
    at most that of its parts, in their shares.

    See Also
    --------
    Programme.apart : How far they fall at least.

    Examples
    --------
    A has 0.4 at no loss and 0.3 at one of 4, B has 0.3 at no loss: it costs 4 at most that A is not
    above B, and nothing that B is not above A.

    >>> none, fit = np.empty(0), Fit(0.0, 1)
    >>> a = np.array([[0.3, 4.0], [0.4, 0.0]]), np.array([[0.4, 0.0]])
    >>> b = np.array([[0.3, 0.0]]), np.array([[0.3, 0.0]])
    >>> a, b = (Profile(none, none, (0.0, 1.0), 0.0, fit, [], reached) for reached in (a, b))
    >>> together(a, b), together(b, a)
    (4.0, 0.0)
    """
    if not (first.reached and second.reached):
        return np.inf
    down, up = first.reached[0], second.reached[1]
    values = np.concatenate([down[:, 0], up[:, 0]])
    falls = np.interp(values, down[:, 0], down[:, 1], left=np.inf)
    return float((falls + np.interp(values, up[:, 0], up[:, 1], right=np.inf)).min())


def quantile(confidence: float) -> float:
    """The deviance that the true value of a metric has at most, so often.

    It is that of a chi-squared variable with two degrees of freedom. By Wilks' theorem one would
    do, and for most distributions of the true ranks it does. Where hardly another distribution has
    the same expected sample, and all that resemble it have more of the metric, or all less, the
    deviance is that of two or more directions at once (batlle2023), and one degree of freedom
    would have one interval in ten miss.

    Parameters
    ----------
    confidence : float
        In (0, 1).

    Returns
    -------
    float

    See Also
    --------
    chance : The other way round.

    Examples
    --------
    >>> round(quantile(0.95), 2)
    5.99
    """
    return float(chdtri(_FREEDOM, 1.0 - confidence))


def chance(deviance: float) -> float:
    """In what share of the samples, at most, the true value of a metric has such a deviance.

    See Also
    --------
    quantile : The other way round, with the reason.

    Examples
    --------
    >>> round(chance(5.99), 2)
    0.05
    """
    return float(chdtrc(_FREEDOM, deviance))


@one_thread
def interval(
    counts: ArrayLike | Sequence[ArrayLike],
    protocol: Protocol | Sequence[Protocol],
    metric: Metric | str,
    confidence: float = 0.95,
    users: float | None = None,
    *,
    shape: Shape | None = None,
) -> Interval:
    """The exact metrics that are compatible with the observed sampled ranks.

    A value of the metric is compatible if some distribution of the true ranks has that value and
    a likelihood whose deviance from the largest possible is at most :func:`quantile`. For the
    upper end one user more is taken to be at the first sampled rank, for the lower end one fewer,
    so that few users do not count as certainty. No theorem gives the quantile (batlle2023): it is
    one that holds by simulation, for the least favourable distributions of the true ranks that a
    search has found, and most others hold it with room to spare. It is too small for one that
    nobody needs: 100,000 users spread evenly over a list of 200 that is assumed to be decreasing
    as a whole (``Shape(head)`` with no fewer than `n_negatives`), of which 150 negatives make one
    interval in eight miss.

    Parameters
    ----------
    counts : array_like of float, shape (m + 1,) or (n_relevant, m + 1), or a sequence of such
        Users with 0, 1, ..., m sampled negatives above the item, with several relevant items a
        row for each position. They may be fractions, as of ties spread over the places they
        cover. A sequence has one array for each class of users.
    protocol : Protocol or sequence of Protocol
        With one catalogue size; as many as there are classes. One whose negatives are not drawn
        alike (:mod:`~sampled_metrics.unequal`) stands alone, for one relevant item: the interval
        then is of all sets of items that may be above, and holds the exact metric as often as
        `confidence` says for every distribution of the true ranks.
    metric : Metric or str
    confidence : float
        In (0, 1).
    users : float, optional
        Users that `counts`, then shares, stand for; ``inf`` leaves what even a hundred million
        users cannot tell. The sum of the counts if omitted.
    shape : Shape, optional
        What is assumed of the first true ranks; nothing if omitted. With several relevant items
        it is of the best one's, for metrics that look at no other, such as "hit@10" and "rr": the
        second best may well be rarer at rank 2 than further down where each item is likeliest at
        the top.

    Returns
    -------
    Interval
        Of the average metric over the users. With several relevant items the positions of one
        user may depend on each other in any way: the threshold is then as many times larger as
        the metric sees positions, and their terms are bounded one by one. In catalogues of 20 and
        30 items, where the sampled ranks of all of a user's items can be judged together, that
        is 1.1 to 2.7 times as wide as it need be. Users whose catalogues differ by up to a tenth
        may exchange places, and so may those of a class with few users.

    Raises
    ------
    ValueError
        If the counts are negative, not finite, all zero or of another shape than the protocol's,
        if `confidence` or `users` is out of range, if a shape is assumed of other relevant items
        than the best, or (:class:`IncompatibleError`) if no distribution of true ranks, or none
        of that shape, is compatible with the sample: its p-value is below 0.001.

    See Also
    --------
    sampled_metrics.evaluation.estimate : Takes a log, and knows which rows are of one user.
    sampled_metrics.priors.maximum_entropy : One distribution of those that are compatible.

    Examples
    --------
    How much of the catalogue's first ten ranks 99 negatives show:

    >>> protocol = Protocol(n_items=1_000, n_negatives=99)
    >>> true = np.random.default_rng(1).geometric(0.01, size=5_000)
    >>> drawn = np.bincount(protocol.draw(np.minimum(true, 1_000), 1) - 1, minlength=100)
    >>> found = interval(drawn, protocol, "recall@10")
    >>> round(found.low, 2), round(found.high, 2)  # the exact one is 0.096
    (0.03, 0.19)
    >>> found = interval(drawn, protocol, "recall@10", shape=Shape())
    >>> round(found.low, 2), round(found.high, 2)
    (0.09, 0.12)
    """
    metric = parsed(metric)
    if not isinstance(confidence, numbers.Real) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {as_written(confidence)}")
    if users is not None and (not isinstance(users, numbers.Real) or not users > 0):
        raise ValueError(f"users must be a number > 0, got {as_written(users)}")
    if isinstance(protocol, Protocol) and not protocol.uniform:
        return _of_unequal(counts, protocol, metric, float(confidence), users, shape)
    classes = checked_counts(counts, protocol)
    total = sum(users for _, _, users in classes)
    scale = 1.0 if users is None else min(float(users), _INFINITE) / total
    kinds = np.array(
        [
            (of.n_negatives, of.n_relevant, j + 1, int(of.n_items))
            for rows, of, _ in classes
            for j in range(len(rows))
        ]
    )
    vectors = [scale * row for rows, _, _ in classes for row in rows]
    weights = np.array([row.sum() for row in vectors])
    parts = partition(kinds, weights, metric, classes[0][1].replacement)
    sample = parts.counts(vectors)
    seen = max(np.unique(kinds[parts.part >= 0, 2]).size, 1)
    threshold = quantile(confidence) * seen
    programme = parts.programme(shape)
    (found,) = programme.profiles([sample], (threshold,))
    check_fit(found.fit, shape)
    low, high = found.interval(threshold)

    def masses(side: float) -> dict[int, float]:
        slope = found.slopes[found.slopes * side > 0]
        return programme.masses(sample, float(slope[0])) if slope.size else {}

    return Interval(low, high, float(confidence), found.gap, masses)


def _of_unequal(
    counts: ArrayLike,
    protocol: Protocol,
    metric: Metric,
    confidence: float,
    users: float | None,
    shape: Shape | None,
) -> Interval:
    """As :func:`interval`, of negatives that are not drawn alike."""
    if not isinstance(protocol.n_items, int) or protocol.n_relevant > 1:
        raise ValueError(
            "protocol must have one n_items and one relevant item where negatives are not drawn "
            f"alike, got {protocol!r}"
        )
    if shape is not None and (np.isfinite(shape.steepness) or shape.geometric):
        raise ValueError(
            "shape must have no steepness, and not be geometric, where negatives are not drawn "
            f"alike, got {shape!r}"
        )
    seen, m = _finite(counts), protocol.n_negatives
    if seen.shape != (m + 1,):
        raise ValueError(f"counts must have shape {(m + 1,)}, got {seen.shape}")
    if not seen.any():
        raise ValueError("counts must hold at least one user, got none")
    if users is not None:
        seen = seen * (min(float(users), _INFINITE) / seen.sum())
    head = 0 if shape is None else min(int(shape.head * protocol.n_items / m), protocol.n_items)
    starts = cells(m)[1:]
    # A band that no distribution respects may be the rare one that fails.
    for level in (confidence, 1.0 - REFUTED):
        band = unequal.band(seen, starts, level)
        found = unequal.ends(protocol, metric, starts, *band, head)
        if found is not None:
            sides = {-1.0: found.at_low, 1.0: found.at_high}
            return Interval(found.low, found.high, confidence, found.gap, sides.__getitem__)
    why = "the protocol at any true ranks" if shape is None else f"the assumption that {shape}"
    raise IncompatibleError(f"counts contradict {why}: p-value below {REFUTED:g}")


def check_fit(fit: Fit, shape: Shape | None, whose: str = "counts") -> None:
    """Refuse a sample that no distribution of true ranks, or none of a shape, explains.

    Parameters
    ----------
    fit : Fit
        Of the likeliest distribution.
    shape : Shape, optional
        What was assumed of it.
    whose : str
        What contradicts, for the message.

    Raises
    ------
    IncompatibleError
        If the p-value of the fit is below `REFUTED`.

    Examples
    --------
    >>> check_fit(Fit(deviance=11.0, cells=9), Shape())
    >>> check_fit(Fit(deviance=93.0, cells=4), None, "the ranks of B")
    Traceback (most recent call last):
    ...
    sampled_metrics.identification.IncompatibleError: the ranks of B contradict the protocol at \
any true ranks: deviance 93 on at most 4 degrees of freedom, p-value 3e-19
    """
    if fit.p_value < REFUTED:
        why = "the protocol at any true ranks" if shape is None else f"the assumption that {shape}"
        p_value = f"{fit.p_value:.1g}" if fit.p_value else "below 1e-300"
        raise IncompatibleError(
            f"{whose} contradict {why}: deviance {fit.deviance:.0f} on at most {fit.cells} "
            f"degrees of freedom, p-value {p_value}"
        )


def checked_counts(
    counts: ArrayLike | Sequence[ArrayLike], protocol: Protocol | Sequence[Protocol]
) -> list[tuple[FloatArray, Protocol, float]]:
    """The counts of each class of users as a row for each position, its protocol and its users.

    Raises
    ------
    ValueError
        As :func:`interval`; classes without users are left out.

    Examples
    --------
    >>> checked_counts([2, 1], Protocol(n_items=5, n_negatives=1))[0][2]
    3.0
    """
    if isinstance(protocol, Protocol):
        given: list[ArrayLike] = [counts]  # type: ignore[list-item]
        protocols = [protocol]
    else:
        given, protocols = list(counts), list(protocol)  # type: ignore[arg-type]
        if len(given) != len(protocols):
            raise ValueError(
                f"protocol must hold one for each of {len(given)} counts, got {len(protocols)}"
            )
        if len({each.replacement for each in protocols}) > 1:
            raise ValueError("replacement must be the same for all classes, got both")
    classes = []
    for each, of in zip(given, protocols, strict=True):
        drawn_alike(of)
        if not isinstance(of.n_items, int):
            raise ValueError(
                f"n_items must be one number for each class, got shape {of.n_items.shape}"
            )
        rows = _finite(each)
        columns, relevant = of.n_negatives + 1, of.n_relevant
        expected = (columns,) if relevant == 1 else (relevant, columns)
        if rows.shape != expected:
            raise ValueError(f"counts must have shape {expected}, got {rows.shape}")
        rows = rows.reshape(relevant, columns)
        users = float(rows[0].sum())
        if not np.allclose(rows.sum(axis=1), users, rtol=1e-9, atol=0):
            raise ValueError(
                f"counts must have the same sum at every position, got {rows.sum(axis=1).tolist()}"
            )
        if users > 0:
            classes.append((rows, of, users))
    if not classes:
        raise ValueError("counts must hold at least one user, got none")
    return classes


def _finite(counts: ArrayLike) -> FloatArray:
    try:
        rows = np.asarray(counts, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"counts must be numbers, got {as_written(counts)}") from None
    bad = rows[~(np.isfinite(rows) & (rows >= 0))]
    if bad.size:
        raise ValueError(f"counts must be finite numbers >= 0, got {bad[0]}")
    return rows


def partition(kinds: IntArray, weights: FloatArray, metric: Metric, replacement: bool) -> Partition:
    """Put what is alike together: parts of a sample that are judged by a likelihood of their own.

    Parameters
    ----------
    kinds : ndarray of int, shape (k, 4)
        Numbers of negatives and of relevant items, the position among these, and n_items.
    weights : ndarray of float, shape (k,)
        Users of each kind.
    metric : Metric
    replacement : bool

    Returns
    -------
    Partition

    Raises
    ------
    ValueError
        If a catalogue has more than `MOST_ITEMS` items.

    Examples
    --------
    Catalogues of 1,000 and 1,050 items are alike, one of 3,000 is a part of its own:

    >>> kinds = np.array([[99, 1, 1, 1_000], [99, 1, 1, 1_050], [99, 1, 1, 3_000]])
    >>> found = partition(kinds, np.array([500.0, 300.0, 200.0]), parsed("recall@10"), True)
    >>> found.part.tolist(), [round(part.share, 3) for part in found.parts]
    ([1, 1, 0], [0.2, 0.8])
    """
    negatives, relevant, position, items = kinds.T
    pools = items - relevant
    if pools.max() >= MOST_ITEMS:
        raise ValueError(
            f"n_items must be at most {MOST_ITEMS:,} for what is possible (leave it out), got "
            f"{int(items.max()):,}"
        )
    users = float(weights[position == 1].sum())
    # Whether a position counts does not depend on the size of the catalogue.
    pairs, pair = np.unique(kinds[:, 1:3], axis=0, return_inverse=True)
    largest = int(items.max())
    first = np.empty((len(pairs), 2))
    for r in np.unique(pairs[:, 0]).tolist():
        j = pairs[pairs[:, 0] == r, 1:]
        first[pairs[:, 0] == r] = metric.term(np.array([0, largest - r]) + j, j, r, largest)
    first = first[pair.ravel()]
    constant = first[:, 0] == first[:, 1]
    code = np.zeros(len(kinds), dtype=np.int64)
    columns = (
        (negatives, _ALIKE),
        (position, _ALIKE_SETS),
        (relevant, _ALIKE_SETS),
        (pools, _ALIKE),
    )
    for values, ratio in columns:
        split = np.zeros_like(code)
        for each in np.unique(code[~constant]):
            inside = (code == each) & ~constant
            split[inside] = _bins(values[inside], weights[inside] / weights.sum(), ratio)
        _, code = np.unique(np.stack([code, split]), axis=1, return_inverse=True)
        code = code.ravel()
    code[constant] = -1
    _, found = np.unique(code[~constant], return_inverse=True)
    code[~constant] = found.ravel()
    parts = []
    for each in range(code.max(initial=-1) + 1):
        inside = code == each
        corners = {
            (j, r)
            for j in (int(position[inside].min()), int(position[inside].max()))
            for r in (int(relevant[inside].min()), int(relevant[inside].max()))
        }
        sizes = sorted({int(pools[inside].min()), int(pools[inside].max())})
        m = int(negatives[inside].min())
        kept = tuple(sorted((min(j, r), r) for j, r in corners))
        share = float(weights[inside].sum()) / users
        parts.append(_Part(m, replacement, tuple(sizes), kept, metric, share))
    rest = float((weights[constant] * first[constant, 0]).sum()) / users
    ends = sorted(float(weights @ first[:, i]) / users for i in (0, 1))
    return Partition(parts, code, negatives, rest, (ends[0], ends[1]))


def _bins(values: IntArray, weights: FloatArray, ratio: float) -> IntArray:
    """Numbers for values that differ by at most a factor, or that few users have."""
    distinct, at = np.unique(values, return_inverse=True)
    at = at.ravel()
    share = np.bincount(at, weights)
    bins, top, inside = np.zeros(distinct.size, dtype=np.int64), distinct[-1], 0.0
    for i in range(distinct.size - 1, -1, -1):
        if top > ratio * distinct[i] and inside >= _FEW and share[: i + 1].sum() >= _FEW:
            bins[: i + 1] += 1
            top, inside = distinct[i], 0.0
        inside += share[i]
    return np.asarray(bins[at])


@lru_cache(maxsize=64)
def cells(n_negatives: int) -> IntArray:
    """The first sampled rank, counted from 0, of each cell: three quarters of a deviation wide.

    Examples
    --------
    >>> cells(20)
    array([ 0,  1,  2,  3,  4,  5,  6,  8, 10, 12, 14, 16, 17, 18, 19, 20])
    """
    found, x = [], 0
    while x <= n_negatives:
        found.append(x)
        x += max(1, round(_CELL * float(np.sqrt(x * (1.0 - x / n_negatives)))))
    starts = np.array(found)
    starts.setflags(write=False)
    return starts


@dataclass(frozen=True, eq=False)
class _Part:
    """Users, or their items, whose protocols are nearly the same.

    Attributes
    ----------
    m : int
        Negatives of each.
    replacement : bool
    pools : tuple of int
        The smallest and the largest number of irrelevant items, or the one there is.
    corners : tuple of (int, int)
        Positions and numbers of relevant items, the smallest and the largest of each.
    metric : Metric
    share : float
        Of the users: what the part counts for in the metric.
    """

    m: int
    replacement: bool
    pools: tuple[int, ...]
    corners: tuple[tuple[int, int], ...]
    metric: Metric
    share: float

    def terms(self, pool: int, above: IntArray) -> tuple[FloatArray, FloatArray]:
        """The least and the most that the metric's term is with `above` irrelevant items above."""
        found = [self.metric.term(above + j, j, r, pool + r) for j, r in self.corners]
        return np.min(found, axis=0), np.max(found, axis=0)


@dataclass(frozen=True, eq=False)
class _Columns:
    """Distributions that those of the true ranks of a part are mixtures of.

    Attributes
    ----------
    laws : ndarray of float, shape (k, cells)
        Of the sampled rank.
    low, high : ndarray of float, shape (k,)
        The least and the most that the metric is.
    falls : ndarray of float, shape (r, k)
        For each doubling of the rank but the last: the users in the next one less those in it
        times two over `steepness`, which must not be negative.
    last : ndarray of int, shape (k,)
        The last rank of each, less the position.
    head : ndarray of bool, shape (k,)
        Whether it is spread over all ranks down to there, or at that rank alone.
    rate : ndarray of float, shape (k,)
        Of the logarithm's fall from rank to rank where it is spread, 0 if evenly.
    first : ndarray of int
        Those that a programme begins with, `cover` among them.
    cover : ndarray of int
        Those where each cell is likeliest, so that none is impossible.
    """

    laws: FloatArray
    low: FloatArray
    high: FloatArray
    falls: FloatArray
    last: IntArray
    head: np.ndarray
    rate: FloatArray
    first: IntArray
    cover: IntArray


@lru_cache(maxsize=64)
def _at_ranks(pool: int, m: int, replacement: bool) -> tuple[IntArray, FloatArray]:
    """Irrelevant items above, as many as a bound looks at, and the law in cells there."""
    above = np.arange(min(pool, _EVERY) + 1)
    if pool > _EVERY:
        angles = np.linspace(0.0, np.pi, int(_FINER * _TAIL * np.pi * np.sqrt(m)) + 2)
        even = 0.5 * pool * (1.0 - np.cos(angles))
        ratios = np.geomspace(_EVERY, pool, int(50 * np.log(pool / _EVERY)) + 2)
        above = np.append(above, np.round(np.concatenate([even, ratios])).astype(np.int64))
        above = np.unique(above)
    found = np.add.reduceat(law(m, above, pool, replacement), cells(m), axis=1)
    found.setflags(write=False)
    return above, found


@lru_cache(maxsize=16)
def _mixed(
    pools: tuple[int, ...], m: int, replacement: bool, shape: Shape | None
) -> tuple[FloatArray, FloatArray, IntArray, np.ndarray, FloatArray, IntArray]:
    """What the columns of a part are for any metric: all but `low`, `high` and `first`."""
    found = [_of_pool(pool, m, replacement, shape) for pool in pools]
    laws = np.concatenate([one[0] for one in found])
    # Catalogues of one part are alike, but one may have a doubling more among its first ranks.
    most = max(len(one[1]) for one in found)
    falls = np.concatenate([np.pad(f, ((0, most - len(f)), (0, 0))) for _, f, *_ in found], 1)
    last, head, rate = (np.concatenate([one[i] for one in found]) for i in (2, 3, 4))
    cover = np.unique(laws.argmax(axis=0))
    for each in (laws, falls, last, head, rate, cover):
        each.setflags(write=False)
    return laws, falls, last, head, rate, cover


def _of_pool(
    pool: int, m: int, replacement: bool, shape: Shape | None
) -> tuple[FloatArray, FloatArray, IntArray, np.ndarray, FloatArray]:
    above, laws = _at_ranks(pool, m, replacement)
    last = _head(pool, m, shape)
    falls, inside = np.zeros((0, above.size)), above < last
    if not last or shape is None:
        return laws, falls, above, inside, np.zeros(above.size)
    ends = above[inside]  # of stretches of ranks, whose middle stands for them
    widths = np.diff(ends, prepend=-1)
    if (widths > 1).any():
        middles = ends - (widths - 1) // 2
        of_stretch = np.add.reduceat(law(m, middles, pool, replacement), cells(m), axis=1)
    else:
        of_stretch = laws[inside]
    even = np.cumsum(of_stretch * widths[:, np.newaxis], axis=0) / (ends + 1.0)[:, np.newaxis]
    rate, mixed = _spread(ends, shape)
    beyond = int((~inside).sum())
    falls = np.zeros((0, rate.size + beyond))
    doublings = int(np.log2(last + 1))
    if np.isfinite(shape.steepness) and doublings > 1:
        starts = 2 ** np.arange(doublings + 1) - 1.0
        within = np.clip((ends + 1.0)[:, np.newaxis] - starts, 0.0, None)
        users = -np.diff(within, axis=1) / (ends + 1.0)[:, np.newaxis]
        users = np.pad((users if mixed is None else mixed @ users).T, ((0, 0), (0, beyond)))
        falls = users[1:] - 2.0 / shape.steepness * users[:-1]
    down = ends if mixed is None else np.full(rate.size, ends[-1])
    return (
        np.concatenate([even if mixed is None else mixed @ even, laws[~inside]]),
        falls,
        np.concatenate([down, above[~inside]]),
        np.arange(rate.size + beyond) < rate.size,
        np.pad(rate, (0, beyond)),
    )


def _spread(ends: IntArray, shape: Shape) -> tuple[FloatArray, FloatArray | None]:
    """The rates of what is spread over the first ranks, as mixtures of what is spread evenly.

    Returns the rates, and a row for each with the weights of the even spreads down to each of
    `ends`, of geometric distributions that are cut off after the last one; None where these even
    spreads themselves are meant. Of all rates so many are taken that a mixture of two neighbours
    is nearly any that lies between.
    """
    if not shape.geometric:
        return np.zeros(ends.size), None
    size = ends[-1] + 1.0
    rate = np.append(np.geomspace(_STEEPEST, 0.1 / size, _RATES), 1e-9 / size)
    upto = np.expm1(-rate[:, np.newaxis] * (ends + 1.0)) / np.expm1(-rate * size)[:, np.newaxis]
    each = np.diff(upto, axis=1, prepend=0.0) / np.diff(ends, prepend=-1)
    drops = np.maximum(-np.diff(each, axis=1, append=0.0), 0.0)
    return rate, drops * (ends + 1.0)


def _head(pool: int, m: int, shape: Shape | None) -> int:
    """How many ranks an assumption is about; 0 if it says nothing."""
    last = 0 if shape is None else min(int(shape.head * (pool + 1) / m), pool + 1)
    return last if last >= 2 else 0


def _columns(part: _Part, shape: Shape | None) -> _Columns:
    *mixed, cover = _mixed(part.pools, part.m, part.replacement, shape)
    laws, falls, last, head, rate = mixed
    found = [_valued(part, pool, shape) for pool in part.pools]
    starts = np.cumsum([0, *(low.size for low, _, _ in found)])
    # Far from the top the columns of one catalogue are as good as those of another like it.
    near = 10.0 * (part.pools[-1] + 1) / part.m
    begin = [first + at for (_, _, first), at in zip(found, starts, strict=False)]
    begin[1:] = [first[last[first] < near] for first in begin[1:]]
    low, high = (np.concatenate([one[i] for one in found]) for i in (0, 1))
    first = np.unique(np.concatenate([*begin, cover]))
    return _Columns(laws, low, high, falls, last, head, rate, first, cover)


def _valued(part: _Part, pool: int, shape: Shape | None) -> tuple[FloatArray, FloatArray, IntArray]:
    """The least and the most that the metric is in each column, and those to begin with."""
    above, _ = _at_ranks(pool, part.m, part.replacement)
    low, high = part.terms(pool, above)
    angles = np.linspace(0.0, np.pi, int(_TAIL * np.pi * np.sqrt(part.m)) + 2)
    spread = np.concatenate([0.5 * pool * (1.0 - np.cos(angles)), np.geomspace(1, pool, _HEAD)])
    drops = np.argsort(np.diff(high), kind="stable")[:2]
    few = np.array([0, 1, 2, 3, *spread, *above[drops], *above[drops + 1]])
    few = np.clip(few, 0, pool)
    last = _head(pool, part.m, shape)
    if not last or shape is None:
        return low, high, np.unique(np.searchsorted(above, np.unique(np.round(few))))
    inside = above < last
    ends, every = above[inside], np.arange(last)
    means = [(np.cumsum(term) / (every + 1.0))[ends] for term in part.terms(pool, every)]
    rate, mixed = _spread(ends, shape)
    if mixed is not None:
        means = [mixed @ each for each in means]
        head_first = np.arange(0, rate.size, 4)
    else:
        steps = np.geomspace(1, last, _HEAD)
        head_first = np.searchsorted(
            ends, np.clip([*range(12), *steps - 1, *above[drops]], 0, ends[-1])
        )
    tail_first = np.searchsorted(above[~inside], [x for x in few if x > ends[-1]])
    tail_first = tail_first[tail_first < (~inside).sum()]
    return (
        np.concatenate([means[0], low[~inside]]),
        np.concatenate([means[1], high[~inside]]),
        np.unique(np.concatenate([head_first, means[0].size + tail_first]).astype(np.int64)),
    )


@dataclass(frozen=True, eq=False)
class Partition:
    """The parts of a sample, and which of them each kind of row belongs to, -1 if to none.

    The metric of those that belong to none does not depend on their rank; `rest` is their share.
    `range` is the least and the most that the metric can be.

    Examples
    --------
    Of 60 users with two negatives 30 have none above their item, 20 one and 10 both:

    >>> kinds = np.array([[2, 1, 1, 50]])
    >>> parts = partition(kinds, np.array([60.0]), parsed("recall@10"), replacement=True)
    >>> parts.counts([np.array([30.0, 20.0, 10.0])])
    [array([30., 20., 10.])]
    >>> type(parts.programme(Shape())).__name__, parts.range
    ('Programme', (0.0, 1.0))
    """

    parts: list[_Part]
    part: IntArray
    negatives: IntArray
    rest: float
    range: tuple[float, float]

    def counts(
        self, vectors: Sequence[FloatArray], kinds: Sequence[tuple[int, int]] | None = None
    ) -> list[FloatArray]:
        """Users of each part in cells of the sampled rank.

        Parameters
        ----------
        vectors : sequence of ndarray of float, shape (m + 1,)
            Users at each sampled rank.
        kinds : sequence of (int, int), optional
            The part and the number of negatives of each; those of the kinds if omitted.
        """
        found = [np.zeros(part.m + 1) for part in self.parts]
        given = zip(self.part.tolist(), self.negatives.tolist(), strict=True)
        for (at, m), vector in zip(given if kinds is None else kinds, vectors, strict=True):
            if at >= 0:
                fewest = self.parts[at].m
                found[at] += vector if m == fewest else vector @ thinned(m, fewest)
        return [
            np.add.reduceat(each, cells(part.m))
            for each, part in zip(found, self.parts, strict=True)
        ]

    def programme(self, shape: Shape | None = None, bases: _Bases | None = None) -> Programme:
        """The programmes of samples of these parts, under an assumption or none.

        What they have in common with those of other metrics is taken from `bases` and kept there.

        Raises
        ------
        ValueError
            If a shape is assumed of other relevant items than the best.
        """
        later = [corner for part in self.parts for corner in part.corners if corner[0] > 1]
        if shape is not None and later:
            raise ValueError(
                "shape must be None where the metric looks at more than the best relevant item: "
                f"deeper ranks may well have more users for item {later[0][0]} of {later[0][1]}"
            )
        # Where the metric costs nothing, it does not matter which metric it is.
        alike = tuple((part.m, part.replacement, part.pools) for part in self.parts)
        kept = {} if bases is None else bases.setdefault((shape, alike), {})
        return Programme(self, [_columns(part, shape) for part in self.parts], kept)


class Programme:
    """All likeliest mixtures of a partition: many samples, parts and slopes at once.

    Examples
    --------
    Does A, whose item is above both negatives for 540 of 600 users, beat B, where it is for 60?

    >>> kinds = np.array([[2, 1, 1, 50]])
    >>> parts = partition(kinds, np.array([600.0]), parsed("recall@25"), replacement=True)
    >>> a, b = ([np.array(users)] for users in ([540.0, 50, 10], [60.0, 200, 340]))
    >>> programme = parts.programme()
    >>> slope = meeting(*programme.profiles([a, b]))
    >>> (deviance,), _ = programme.apart([(a, b)], np.array([slope]))
    >>> bool(deviance > quantile(0.95))
    True
    """

    def __init__(
        self,
        partition: Partition,
        columns: list[_Columns],
        bases: dict[bytes, tuple[float, list[list[FloatArray]], _Solved]],
    ) -> None:
        self.partition, self.columns = partition, columns
        self.shares = np.array([part.share for part in partition.parts])
        #: How near they are, sides of samples, and their best mixtures where the metric is free.
        self._bases = bases

    @one_thread
    def profiles(
        self,
        samples: Sequence[list[FloatArray]],
        levels: Sequence[float] = LEVELS,
        rough: bool = False,
    ) -> list[Profile]:
        """The profile of each sample, from :meth:`Partition.counts`, and lines near the levels.

        For a single level lines are added until they leave hardly anything open there. Where only
        the slopes of the lines are of interest, these may lie further below it: `rough`.
        """
        if not self.columns:
            fit, none = Fit(0.0, 0), np.empty(0)
            return [Profile(none, none, self.partition.range, 0.0, fit, []) for _ in samples]
        of_each = [(sample, side) for sample in samples for side in (0, 1)]
        every, base = self._based(of_each, _AWAY if rough else _NEAR)
        signs, units = np.tile([1.0, -1.0], len(samples)), _units(every)
        tries = 1 if rough or len(levels) > 1 else _TRIES
        low, high = self.partition.range
        traces = [
            _Trace(sign, n, base.part([i]), self.partition)
            for i, (sign, n) in enumerate(zip(signs, units, strict=True))
        ]
        # Lines at the deviance of a level: it grows with the square of their slope, roughly.
        middle = float(np.median(levels))
        spread = np.sqrt(np.maximum(base.value - low, (high - low) / units) * (high - low) / units)
        slope = signs * np.sqrt(middle) / spread
        whole = list(range(len(every)))
        near, drawn = self._drawn(traces, every, whole, slope, base, _AWAY), []
        if len(levels) > 1:
            slope = np.array([one.towards(middle)[0] for one in traces])
            near = self._drawn(traces, every, whole, slope, near, _AWAY if rough else _NEAR)
        for level in levels:
            for _ in range(tries):
                ends = np.array([one.end(level) for one in traces])
                gaps = np.array([one.gap(level) for one in traces])
                enough = _ENOUGH * np.repeat(ends[1::2] - ends[::2], 2)
                far = np.array([one.far(level) for one in traces])
                left = np.flatnonzero(
                    (far | (tries > 1)) & (gaps > np.maximum(enough, 1e-7))
                ).tolist()
                aims = {i: traces[i].towards(level) for i in left}
                left = [i for i in left if aims[i][1] > 0]
                if not left:
                    break
                slope, close = np.array([aims[i] for i in left]).T
                again = self._drawn(
                    traces, every, left, slope, near.part(left), _AWAY if rough else close
                )
                near = again if len(left) == len(every) else near.updated(left, again)
            drawn.append(near)
        return [
            self._profile(traces[2 * i : 2 * i + 2], every[2 * i], levels, base, drawn, i)
            for i in range(len(samples))
        ]

    def _drawn(
        self,
        traces: list[_Trace],
        every: list[list[FloatArray]],
        some: list[int],
        slopes: FloatArray,
        begin: _Solved,
        near: FloatArray | float,
    ) -> _Solved:
        """The mixtures where lines of given slopes touch some profiles, added to these."""
        samples = [every[i] for i in some]
        nears = np.broadcast_to(near, slopes.shape)
        found = self._solved(samples, slopes / (2.0 * _units(samples)), begin, nears)
        for place, i in enumerate(some):
            traces[i].add(float(slopes[place]), found, place, bool(nears[place] <= _NEAR))
        return found

    @one_thread
    def apart(
        self,
        pairs: Sequence[tuple[list[FloatArray], list[FloatArray]]],
        slopes: FloatArray,
        rough: bool = False,
    ) -> tuple[FloatArray, list[list[list[FloatArray]]]]:
        """How far the likelihoods of two samples fall, at least, if the first is not above.

        The samples are taken as independent. Any slope bounds the sum of the two deviances from
        below, where the first metric is at most the second; the best one touches it, and lies
        further below where a `rough` look is enough.

        Returns
        -------
        deviances : ndarray of float, shape (pairs,)
        scores : list of list of list of ndarray
            As :attr:`Profile.scores`, for both samples of each pair.
        """
        of_each = [(one, i) for pair in pairs for i, one in enumerate(pair)]
        near = _AWAY if rough else _NEAR
        every, base = self._based(of_each, near)
        units = _units(every)
        signed = np.repeat(slopes, 2) * np.tile([1.0, -1.0], len(pairs))
        found = self._solved(every, signed / (2.0 * units), base, near)
        bounds = 2.0 * units * (found.bound + base.likelihood)
        both = [_scores(sample, base, found, i) for i, sample in enumerate(every)]
        return bounds[::2] + bounds[1::2], [both[i : i + 2] for i in range(0, len(both), 2)]

    def _based(
        self, sides: Sequence[tuple[list[FloatArray], int]], near: float
    ) -> tuple[list[list[FloatArray]], _Solved]:
        """The counts of sides of samples, and their best mixtures where the metric is free."""
        keys = [self._key(sample) for sample, _ in sides]
        known = self._bases
        new = {
            key: sample
            for key, (sample, _) in zip(keys, sides, strict=True)
            if key not in known or known[key][0] > near
        }
        if new:
            both = [side for sample in new.values() for side in self._sides(sample)]
            found = self._solved(both, np.zeros(len(both)), near=near)
            for i, key in enumerate(new):
                at = slice(2 * i, 2 * i + 2)
                known[key] = near, both[at], found.part(range(2 * i, 2 * i + 2))
        bases = [known[key][1:] for key in keys]
        every = [counts[side] for (counts, _), (_, side) in zip(bases, sides, strict=True)]
        parts = [one.part([side]) for (_, one), (_, side) in zip(bases, sides, strict=True)]
        base = _Solved.joined(parts)
        for i, (_, side) in enumerate(sides):
            each = zip(self.columns, self.shares, base.at[i], base.weights[i], strict=True)
            terms = [
                share * (w @ (one.high if side else one.low)[at]) for one, share, at, w in each
            ]
            base.value[i] = self.partition.rest + sum(terms)
        return every, base

    @staticmethod
    def _key(sample: list[FloatArray]) -> bytes:
        return b"".join(counts.tobytes() for counts in sample)

    def _sides(self, sample: list[FloatArray]) -> tuple[list[FloatArray], list[FloatArray]]:
        """The counts with one user fewer at the first sampled ranks, and with one more."""
        fewer, more = [c.copy() for c in sample], [c.copy() for c in sample]
        most = int(np.argmax([c.sum() for c in sample]))
        more[most][0] += 1.0
        before = np.cumsum(sample[most]) - sample[most]
        fewer[most] -= np.clip(1.0 - before, 0.0, sample[most])
        return (fewer if fewer[most].sum() > 0 else [c.copy() for c in sample]), more

    def _solved(
        self,
        samples: Sequence[list[FloatArray]],
        slopes: FloatArray,
        begin: _Solved | None = None,
        near: FloatArray | float = _NEAR,
    ) -> _Solved:
        """The likeliest mixtures of each sample where the metric costs so much a user.

        Each part of each sample is a problem of its own, of few columns: to the first ones, and to
        those that `begin` needs, the ones that its bound lacks are added.
        """
        parts, cells_ = len(self.columns), max(one.laws.shape[1] for one in self.columns)
        units, size = _units(samples), (len(samples), parts)
        shares = np.zeros((*size, cells_))
        for i, counts in enumerate(samples):
            for g, c in enumerate(counts):
                shares[i, g, : c.size] = c / units[i]
        # The side that is sought: the least metric where it costs, else the most.
        down = (slopes > 0) | ((slopes == 0) & (np.arange(len(samples)) % 2 == 0))
        targets = [(one.high, one.low) for one in self.columns]
        # How far below each part's optimum its bound may stay, and from it the programme.
        wide = near / (2.0 * units * parts)
        aim = np.repeat(np.maximum(_AIM * wide, _ROUNDING)[:, np.newaxis], parts, axis=1)
        at, weights, prices = np.empty((3, *size), dtype=object)
        for i, g in np.ndindex(size):
            at[i, g] = self.columns[g].first
            if begin is not None:
                there, known = begin.at[i][g], begin.weights[i][g]
                needed = there[known * units[i] > 0.1]  # columns with a tenth of a user
                at[i, g] = np.union1d(at[i, g], needed)
                weights[i, g], prices[i, g] = _moved(known, there, at[i, g]), begin.prices[i][g]
        value, likelihood, bound = np.zeros((3, *size))
        expected, todo = np.ones((*size, cells_)), list(np.ndindex(size))
        for left in range(_ROUNDS, -1, -1):
            self._mix(todo, at, weights, prices, shares, slopes, down, aim)
            lacking: dict[tuple[int, ...], IntArray] = {}
            for g, one in enumerate(self.columns):
                some = [i for i, part in todo if part == g]
                if not some:
                    continue
                seen = one.laws.shape[1]
                c = shares[some, g, :seen]
                e = np.array([weights[i, g] @ one.laws[at[i, g]] for i in some])
                gradients = (c / e) @ one.laws.T
                logs = (c * np.log(e)).sum(axis=1)
                for place, i in enumerate(some):
                    target = targets[g][int(down[i])]
                    gradient = slopes[i] * self.shares[g] * target - gradients[place]
                    price = np.maximum(prices[i, g][1 : 1 + len(one.falls)], 0.0)
                    if price.size:
                        gradient -= price @ one.falls
                    expected[i, g, :seen] = e[place]
                    value[i, g] = self.shares[g] * (weights[i, g] @ target[at[i, g]])
                    likelihood[i, g] = logs[place]
                    bound[i, g] = c[place].sum() - logs[place] + gradient.min()
                    enough = gradient[at[i, g]].min() - 0.1 * wide[i]
                    if left:
                        lacking[i, g] = local_maxima(-gradient, -enough, _MORE)
            lacks = slopes[:, np.newaxis] * value - likelihood - bound
            far = lacks.sum(axis=1) > parts * wide
            if not left or not far.any():
                break
            todo, before = [], todo
            for i, g in before:
                if not far[i] or lacks[i, g] <= 0.5 * wide[i]:
                    continue
                more = np.setdiff1d(lacking[i, g], at[i, g])
                if more.size:
                    kept = at[i, g]
                    if left == _ROUNDS:
                        kept = kept[weights[i, g] * units[i] > 0.1]
                        kept = np.union1d(kept, self.columns[g].cover)
                    there, at[i, g] = at[i, g], np.union1d(kept, more)
                    weights[i, g] = _moved(weights[i, g], there, at[i, g])
                elif aim[i, g] > _ROUNDING:
                    aim[i, g] = max(0.1 * aim[i, g], _ROUNDING)
                else:
                    continue
                todo.append((i, g))
            if not todo:
                break
        value, likelihood, bound = (x.sum(axis=1) for x in (value, likelihood, bound))
        return _Solved(
            value + self.partition.rest,
            likelihood,
            bound,
            expected,
            at.tolist(),
            weights.tolist(),
            prices.tolist(),
        )

    def _mix(
        self,
        todo: Sequence[tuple[int, ...]],
        at: np.ndarray,
        weights: np.ndarray,
        prices: np.ndarray,
        shares: FloatArray,
        slopes: FloatArray,
        down: np.ndarray,
        near: FloatArray,
    ) -> None:
        """New weights of the columns that are in use, and prices of sums, for parts of samples."""
        r = max(len(one.falls) for one in self.columns)
        for start in range(0, len(todo), _BATCH):
            some = todo[start : start + _BATCH]
            k = max(at[i, g].size for i, g in some)
            known = weights[some[0]] is not None  # of all or of none
            # A cell that a part lacks holds everything, and nobody is observed in it.
            laws = np.ones((len(some), shares.shape[2], k + r))
            laws[:, :, k:] = 0.0
            cost, begun = np.zeros((2, len(some), k + r))
            rows, right = np.zeros((len(some), 1 + r, k + r)), np.zeros((len(some), 1 + r))
            rows[:, 0, :k], right[:, 0] = 1.0, 1.0
            rows[:, 1 + np.arange(r), k + np.arange(r)] = -1.0
            right[:, 1:] = -1.0  # for rows that a part lacks
            for p, (i, g) in enumerate(some):
                one, used = self.columns[g], np.full(k, at[i, g][-1])
                used[: at[i, g].size] = at[i, g]
                laws[p, : one.laws.shape[1], :k] = one.laws[used].T
                rows[p, 1 : 1 + len(one.falls), :k] = one.falls[:, used]
                right[p, 1 : 1 + len(one.falls)] = 0.0
                cost[p, :k] = slopes[i] * self.shares[g] * (one.low if down[i] else one.high)[used]
                if known:
                    begun[p, : weights[i, g].size] = weights[i, g]
            of_sample, part = np.array(some).T
            begin = None
            if known:
                begun[:, k:] = np.maximum(
                    (rows[:, 1:, :k] @ begun[:, :k, np.newaxis])[:, :, 0], 0.0
                )
                begin = begun, np.array([prices[each] for each in some])
            found, multipliers = likeliest(
                laws, shares[of_sample, part], cost, rows, right, near[of_sample, part], begin
            )
            for (i, g), w, price in zip(some, found[:, :k], multipliers, strict=True):
                last = at[i, g].size - 1
                w = np.append(w[:last], w[last:].sum())
                weights[i, g], prices[i, g] = w / w.sum(), price

    def _profile(
        self,
        traces: list[_Trace],
        fewer: list[FloatArray],
        levels: Sequence[float],
        base: _Solved,
        drawn: list[_Solved],
        i: int,
    ) -> Profile:
        # The last lines, which lie nearest to the levels, come first.
        lines = np.array([line for one in traces for line in one.lines[::-1]])
        scores = [_scores(fewer, base, one, side) for side in (2 * i, 2 * i + 1) for one in drawn]
        gap = float(max(one.gap(level) for one in traces for level in levels))
        fit = self._fit(fewer, base.expected[2 * i])
        reached = tuple(one.reached_values() for one in traces)
        return Profile(lines[:, 0], lines[:, 1], self.partition.range, gap, fit, scores, reached)

    def masses(self, sample: list[FloatArray], slope: float) -> dict[int, float]:
        """Users at each rank where a line of that slope touches the profile of a sample."""
        if not self.columns:
            return {}
        # The lower end, whose lines fall, is that of the first side.
        both, side = self._sides(sample), int(slope > 0)
        units = _units(both)
        solved = self._solved(both, np.array([-slope, -slope]) / (2.0 * units))
        found: dict[int, float] = {}
        for g, one in enumerate(self.columns):
            position = self.partition.parts[g].corners[0][0]
            for at, weight in zip(solved.at[side][g], solved.weights[side][g], strict=True):
                if weight <= 1e-6:
                    continue
                last, mass = int(one.last[at]), self.shares[g] * float(weight)
                ranks = np.arange(last + 1) if one.head[at] else np.array([last])
                each = np.exp(-one.rate[at] * (ranks - ranks[0]))
                for above, share in zip(ranks.tolist(), (each / each.sum()).tolist(), strict=True):
                    found[above + position] = found.get(above + position, 0.0) + mass * share
        return dict(sorted(found.items()))

    def _fit(self, sample: list[FloatArray], expected: FloatArray) -> Fit:
        deviance, cells_ = 0.0, 0
        for c, e in zip(sample, expected, strict=True):
            users = float(c.sum())
            if users == 0:
                continue
            # Neighbours are put together until five users are expected.
            starts, wanted = [0], users * e[: c.size]
            for at in range(1, c.size):
                if wanted[starts[-1] : at].sum() >= 5.0 and wanted[at:].sum() >= 5.0:
                    starts.append(at)
            seen, wanted = np.add.reduceat(c, starts), np.add.reduceat(wanted, starts)
            some = seen > 0
            deviance += 2.0 * float((seen[some] * np.log(seen[some] / wanted[some])).sum())
            cells_ += seen.size - 1
        return Fit(max(deviance, 0.0), cells_)


def _moved(weights: FloatArray, before: IntArray, after: IntArray) -> FloatArray:
    """The weights of some columns as weights of others, which need not include them all."""
    _, old, new = np.intersect1d(before, after, assume_unique=True, return_indices=True)
    found = np.zeros(after.size)
    found[new] = weights[old]
    return np.asarray(found / found.sum())


def _units(samples: Sequence[list[FloatArray]]) -> FloatArray:
    """Users, or their items, in each sample."""
    return np.array([sum(float(c.sum()) for c in counts) for counts in samples])


def _scores(sample: list[FloatArray], base: _Solved, found: _Solved, i: int) -> list[FloatArray]:
    return [
        np.log(base.expected[i, g, : c.size] / found.expected[i, g, : c.size])
        for g, c in enumerate(sample)
    ]


#: For each assumption, and what the parts of a sample are but for the metric: what is common.
_Bases = dict[tuple[Shape | None, tuple[object, ...]], dict[bytes, Any]]


class _Trace:
    """What is known of one side of a profile deviance: lines below it and points above it.

    Parameters
    ----------
    sign : float
        1 for the lower end of the metric, -1 for the upper one.
    units : float
        Users.
    base : _Solved
        The likeliest mixture.
    partition : Partition
    """

    def __init__(self, sign: float, units: float, base: _Solved, partition: Partition) -> None:
        self.sign, self.units, self.partition = sign, units, partition
        #: The likelihood that a mixture has, and one that none exceeds.
        self.reached, self.most = float(base.likelihood[0]), -float(base.bound[0])
        #: Intercepts and slopes.
        self.lines: list[tuple[float, float]] = []
        #: How far out, deviance at most, and slope without its sign; the likeliest mixture first.
        self.points: list[tuple[float, float, float]] = []
        self._point(0.0, base, 0)
        #: Deviances where lines touch.
        self.touched: list[float] = []

    def _point(self, slope: float, found: _Solved, at: int) -> None:
        deviance = 2.0 * self.units * max(self.most - float(found.likelihood[at]), 0.0)
        self.points.append((-self.sign * float(found.value[at]), deviance, abs(slope)))

    def add(self, slope: float, found: _Solved, at: int, near: bool = True) -> None:
        """A line, and the point where it touches, or only nearly so."""
        least = 2.0 * self.units * (float(found.bound[at]) + self.reached)
        self.lines.append((least + slope * self.partition.rest, -slope))
        self._point(slope, found, at)
        if near:
            self.touched.append(self.points[-1][1])

    def end(self, level: float) -> float:
        """The value of the metric that no distribution of that deviance is beyond."""
        low, high = self.partition.range
        ends = [(level - intercept) / slope for intercept, slope in self.lines if slope]
        found = max(ends, default=low) if self.sign > 0 else min(ends, default=high)
        return min(max(found, low), high)

    def gap(self, level: float) -> float:
        """How far within that end a distribution has no larger deviance."""
        reached = [out for out, deviance, _ in self.points if deviance <= level]
        if not reached:
            return float(np.subtract(*self.partition.range[::-1]))
        # Deviance is convex: between two points it is below the line that joins them.
        for out, deviance, _ in self.points:
            for further, more, _ in self.points:
                if deviance <= level < more and further > out:
                    part = (level - deviance) / (more - deviance)
                    reached.append(out + part * (further - out))
        return max(-self.sign * self.end(level) - max(reached), 0.0)

    def reached_values(self) -> FloatArray:
        """Values of the metric, in order, and the deviances that they have at most."""
        found = np.array([(-self.sign * out, deviance) for out, deviance, _ in self.points])
        return np.asarray(found[np.argsort(found[:, 0])])

    def far(self, level: float) -> bool:
        """Whether no line touches within a fiftieth of the level."""
        return all(abs(deviance - level) > 0.02 * level for deviance in self.touched)

    def towards(self, level: float) -> tuple[float, float]:
        """The slope of a line that touches near a level, and how near it should be drawn.

        The slope has the sign of a cost. Where the profile is straight the line between two points
        touches it all the way: it is drawn again, nearer, and then no more (0). Such a line is
        sought as well where the last two slopes were both too steep, or both not steep enough.
        """
        inside = sorted((p for p in self.points if p[1] <= level), key=lambda p: p[2])
        below = inside[-1] if inside else self.points[0]
        above = min((p for p in self.points if p[1] > level), key=lambda p: p[1], default=None)
        if above is None:
            # The deviance grows with a power of the slope, 2 where nothing else is seen.
            power, before = 2.0, inside[-2] if len(inside) > 1 else below
            if 0 < before[2] < below[2] and before[1] > 0:
                power = np.log(below[1] / before[1]) / np.log(below[2] / before[2])
            further = 1.03 * level / max(below[1], 1e-3 * level)
            slope = below[2] * min(further ** (1.0 / max(power, 0.1)), 30.0)
        elif above[0] <= below[0] or (below[2] == 0 and above[1] < 1.5 * level):
            slope = above[2] * max(np.sqrt(0.97 * level / above[1]), 0.03)
        else:
            sides = [deviance > level for _, deviance, _ in self.points[1:]]
            slope = (above[1] - below[1]) / (above[0] - below[0])
            if len(set(sides[-2:])) > 1 or len(sides) < 3:
                slope = _between(below, above, level) or slope
            slope = min(max(slope, below[2]), above[2])
        drawn = sum(abs(slope - abs(of_line)) <= 1e-3 * slope for _, of_line in self.lines)
        return float(self.sign * slope), (_NEAR, _NEARER, 0.0)[min(drawn, 2)]


def _between(
    below: tuple[float, float, float], above: tuple[float, float, float], level: float
) -> float:
    """The slope at a level of the cubic through two points with given slopes; 0 if not convex."""
    span, rise = above[0] - below[0], above[1] - below[1]
    first, last = below[2] * span, above[2] * span
    square, cube = 3.0 * rise - 2.0 * first - last, first + last - 2.0 * rise
    if min(square, square + 3.0 * cube) < 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(30):
        t = 0.5 * (low + high)
        less = below[1] + t * (first + t * (square + t * cube)) < level
        low, high = (t, high) if less else (low, t)
    return (first + t * (2.0 * square + t * 3.0 * cube)) / span


@dataclass(frozen=True, eq=False)
class _Solved:
    """What the programmes of some samples found; `bound` is that of their dual."""

    value: FloatArray
    likelihood: FloatArray
    bound: FloatArray
    expected: FloatArray
    at: list[list[IntArray]]
    weights: list[list[FloatArray]]
    prices: list[list[FloatArray]]

    def part(self, samples: Iterable[int]) -> _Solved:
        """What was found for some of the samples."""
        each = list(samples)
        return _Solved(
            self.value[each],
            self.likelihood[each],
            self.bound[each],
            self.expected[each],
            [self.at[i] for i in each],
            [self.weights[i] for i in each],
            [self.prices[i] for i in each],
        )

    def updated(self, samples: Sequence[int], again: _Solved) -> _Solved:
        """What was found, where some of the samples have been solved again."""
        parts = [self.part([i]) for i in range(len(self.at))]
        for place, i in enumerate(samples):
            parts[i] = again.part([place])
        return _Solved.joined(parts)

    @classmethod
    def joined(cls, parts: Sequence[_Solved]) -> _Solved:
        """What was found for several samples, one after the other."""
        return cls(
            np.concatenate([p.value for p in parts]),
            np.concatenate([p.likelihood for p in parts]),
            np.concatenate([p.bound for p in parts]),
            np.concatenate([p.expected for p in parts]),
            [x for p in parts for x in p.at],
            [x for p in parts for x in p.weights],
            [x for p in parts for x in p.prices],
        )

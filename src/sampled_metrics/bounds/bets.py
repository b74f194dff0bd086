"""Bets that bound a metric: 95% for every population, by a proof.

Choose a positive function h of the sampled rank and a slope s >= 0 before looking at the log. The
certificate y is the largest value, over all generators of the assumption, of the expectation of h
less s times the metric. So the expectation of h under any population of the class is at most
y + s theta, theta being the population's metric. For N users with independent negatives the
inequality of arithmetic and geometric means gives

    E prod_i h(x_i) <= prod_i (y + s theta_i) <= (y + s theta)^N,

theta being the mean of the theta_i. Hence e(c) = prod_i h(x_i) / (y + s c)^N has expectation at
most 1 for every c that is at least theta, and by Markov's inequality it exceeds 40 in at most one
log of 40. It falls with c: the lower end of the interval is where it is 40, or a little more. From
above the slope is negative. The average of such e(c), over several h, is another one.

The best h for a guessed distribution of the sampled rank is the ratio of that distribution to its
likeliest fit within the class, with the metric's price added (larsson2024, wasserman2020). The
guesses are fixed in advance: `GUESSES`. A poor guess or a poor fit makes an interval wide, never
wrong, because the certificate is computed from whatever h it was.

A user may have several rows: of several relevant items, several instances, or two recommenders.
Then h is a sum over the rows, each with its own certificate. Expectations of sums need no
independence, so the rows of a user may depend on each other in any way.

An adaptive design draws up to m negatives in rounds and stops after the round in which one of them
is above the item. Its outcome takes the place of the sampled rank. Let the same user's negatives be
drawn on to m, and let X of them be above. They are exchangeable: given X, each order of them is as
likely as any other, and the outcome is a function of their order. So P = P_m K, where P_m is the
distribution of X for m fixed negatives and the matrix K (`generators.given_all`) does not depend on
the true rank. Hence the expectation of h is that of Kh, a function of X, and the proof uses P
nowhere else. Over the ranks it is a polynomial of degree m, with second differences of at most
m (m - 1) / (pool (pool - 1)) times those of Kh, so that a certificate over all ranks needs to look
at some only; its sums over ranks are those of P_m. No monotone likelihood ratio is asked for. A
design of one round has K = I, and is a fixed sample.

Users whose catalogues differ are judged in one, the largest. Imagine that irrelevant items are
added to a user's catalogue, all of them below the relevant one: neither its rank nor the metric
changes. A sample of the larger catalogue is the user's sample after some negatives have been
replaced by added items, and what is left of x negatives above is binomial or hypergeometric
whatever the true rank is. So h is replaced by its expectation given x. An adaptive sample cannot be
thinned like this: where an added item takes the place of the one negative above, the design would
have gone on. So it has one catalogue size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from .._validate import FloatArray, IntArray
from ..numerics.betting import crossing
from ..numerics.mixtures import likeliest
from .generators import Generators
from .parts import Part as Part
from .parts import Partition as Partition
from .parts import Rows as Rows
from .parts import partition as partition

if TYPE_CHECKING:
    from .assumption import Assumption

#: Populations that bets are made for, (a, b, part): of the users a part at ranks r in proportion to
#: (r + a n / m)^-b, the others evenly, so that no sampled rank ruins a bet. They are those of 101
#: such populations that, one after the other, made intervals of the benchmark's recommenders short.
GUESSES = (
    (0.1, 0.7, 1.0),
    (0.1, 0.0, 1.0),
    (0.02, 0.7, 1.0),
    (1.0, 1.0, 1.0),
    (3.0, 1.0, 0.1),
    (1.0, 1.5, 0.6),
    (1.0, 2.5, 0.99),
)
#: With so many users bets are made on learnt distributions too: on stretches of these shares of the
#: users, all but the first.
_LEARN = 50_000
_PARTS = np.diff([0.0, *(1.3 ** np.arange(-6.0, 1.0))])
#: Of a law that is learnt from half of the users so many users are of one that is guessed.
_GUESSED = 3.0
#: Sums of two bets have slopes for this part of the need. This part of their mean certificate is
#: taken away, but no more of their least value than the last.
SUM_NEED, _TAKEN, _LEFT = 0.15, 0.75, 0.95
#: Rough fits, each of which changes the slopes, and the most generators that one adds for a bet.
_ROUNDS, _MORE = 2, 30
#: How near their optimum the last fit and rough ones come, and what a certificate may lose, as
#: parts of what a user has to win.
_NEAR, _ROUGH, _SLACK = 0.01, 0.1, 0.02
#: Nearer to its optimum rounding lets no fit come.
_ROUNDING = 3e-11


@dataclass(frozen=True, eq=False)
class Bets:
    """Functions of the sampled rank, their slopes and their certificates.

    Attributes
    ----------
    partition : Partition
    sign : ndarray of int, shape (bets,)
        1 for bets that the metric is larger, -1 for bets that it is smaller.
    slope : ndarray of float, shape (bets,)
        Not negative.
    functions : list of ndarray of float, shape (bets, knots)
        For each part, straight lines between its knots.
    certificates : ndarray of float, shape (bets, kinds)
        For rows of each kind: the expectation of the weighted function, less the price of what the
        row adds to the metric, is at most this.
    """

    partition: Partition
    sign: IntArray
    slope: FloatArray
    functions: list[FloatArray]
    certificates: FloatArray

    def values(self, rows: Rows) -> FloatArray:
        """The weighted functions at rows of a sample; shape (bets, rows)."""
        found = np.ones((self.sign.size, rows.kind.size))
        for functions, seen in zip(self.functions, rows.seen(self.partition), strict=True):
            found[:, seen.rows] = seen.values(functions)
        return found * self.partition.weight[rows.kind]


def _guess(found: Generators, a: float, b: float, part: float) -> FloatArray:
    """The distribution of the sampled rank on the knots, of a population that is guessed."""
    n = found.pool + 1.0
    power = found.marginal(lambda rank: (rank + a * n / found.m) ** -b)
    return np.asarray(part * power + (1.0 - part) * found.marginal(np.ones_like))


def build(
    parts: Partition,
    assumption: Assumption | None,
    need: float,
    users: float,
    pmfs: Sequence[FloatArray] | None = None,
) -> Bets:
    """Bets on each guess, for and against the metric, whose slopes suit a number of users.

    Parameters
    ----------
    parts : Partition
    assumption : Assumption, optional
        What is assumed of the true ranks of each part; nothing if omitted.
    need : float
        Logarithm of the e-value that is wanted.
    users : float
    pmfs : sequence of ndarray of float, shape (guesses, knots), optional
        For each part, guesses of the sampled rank's distribution; by `GUESSES` if omitted.

    Returns
    -------
    Bets
        First those that the metric is larger, one for each guess, then the others.
    """
    if pmfs is None:  # the same for all logs of such users
        return _built(parts, assumption, need / users)
    made = _Building(parts, assumption, need / users, pmfs, (1, -1))
    return made.certified(made.slopes())


@lru_cache(maxsize=32)
def _built(parts: Partition, assumption: Assumption | None, target: float) -> Bets:
    made = _Building(parts, assumption, target, None, (1, -1))
    return made.certified(made.slopes())


def refutations(
    parts: Partition, assumption: Assumption | None, rows: Rows, counts: Sequence[FloatArray]
) -> list[float]:
    """How strongly samples speak against an assumption: logarithms of e-values.

    The users are split at random. From either half the distribution of the sampled rank is learnt,
    and the ratio to its likeliest fit within the assumption is a bet on the users of the other
    half. Nothing about them was looked at, so its expectation is at most 1, over samples and
    splits. The e-value is the average of the two. The split has a fixed seed, so that a log always
    gives the same answer.

    Parameters
    ----------
    parts : Partition
    assumption : Assumption or None
    rows : Rows
    counts : sequence of ndarray of float, shape (rows,)
        Users of each sample, each with one row.

    Returns
    -------
    list of float
    """
    if not parts.parts:
        return [0.0] * len(counts)
    key = parts.key, assumption, *(each.tobytes() for each in counts)
    if key not in rows.refuted:
        rows.refuted[key] = _refutations(parts, assumption, rows, counts)
    return rows.refuted[key]


def _refutations(
    parts: Partition, assumption: Assumption | None, rows: Rows, counts: Sequence[FloatArray]
) -> list[float]:
    rng = np.random.default_rng(0)
    halves = []
    for each in counts:
        whole = np.floor(each + rng.random(each.size)).astype(np.int64)
        first = rng.binomial(whole, 0.5)
        halves += [(first, whole - first), (whole - first, first)]
    pmfs = _observed(parts, assumption, rows, np.stack([learn for learn, _ in halves], axis=1))
    users = max(float(min(test.sum() for _, test in halves)), 1.0)
    made = _Building(parts, assumption, 1.0 / users, pmfs, (1,))
    none = np.zeros(len(halves))
    made.growth(none)  # adds generators
    bets = made.certified(none)
    logs, values = [], np.log(bets.values(rows))
    for bet, (_, test) in enumerate(halves):
        if not test.any():
            logs.append(0.0)
            continue
        mean = float(test @ bets.certificates[bet, rows.kind]) / test.sum()
        logs.append(float(test @ values[bet] - test.sum() * np.log(mean)))
    return [
        float(np.logaddexp(first, second) - np.log(2.0))
        for first, second in zip(logs[::2], logs[1::2], strict=True)
    ]


def _observed(
    parts: Partition, assumption: Assumption | None, rows: Rows, counts: np.ndarray
) -> list[FloatArray]:
    """The distribution of the sampled rank among some users, and a few that are guessed.

    A list by part, (samples, knots), of counts (rows, samples).
    """
    pmfs = []
    for one, seen in zip(parts.parts, rows.seen(parts), strict=True):
        prior = _GUESSED * _guess(one.generators(assumption), *GUESSES[0])
        found = prior + seen.observed(counts[seen.rows])
        pmfs.append(found / found.sum(axis=1, keepdims=True))
    return pmfs


def learnt(
    parts: Partition, assumption: Assumption | None, need: float, rows: Rows, counts: FloatArray
) -> Evidence | None:
    """Bets of many users, each with one row, on distributions that are learnt from other users.

    The guesses are never quite right, and the more users there are, the more that costs. So the
    users are put in a random order. Bets on a stretch of it are made for the distribution of those
    before. Nothing of the stretch was looked at, so their product is one bet, if the users are
    drawn from a population. Under an assumption no more is promised. If nothing is assumed, a range
    also holds for users whose ranks are fixed, and then the mean metric of a stretch is not that of
    all users. Nor is it where catalogue sizes differ, since a stretch has another mix of them. The
    order has a fixed seed, so that a log always gives the same answer.

    Parameters
    ----------
    parts : Partition
    assumption : Assumption or None
    need : float
        Logarithm of the e-value that is wanted.
    rows : Rows
    counts : ndarray of float, shape (rows,)

    Returns
    -------
    Evidence or None
        None of fewer than `_LEARN` users, of several kinds, if nothing is assumed, or if the metric
        does not depend on the rank.
    """
    if assumption is None or counts.sum() < _LEARN or len(parts.kinds) > 1 or not parts.parts:
        return None
    rng = np.random.default_rng(0)
    stretches = rng.multinomial(np.floor(counts + rng.random(counts.size)).astype(np.int64), _PARTS)
    past = np.cumsum(stretches, axis=1)[:, :-1]
    pmfs = _observed(parts, assumption, rows, past)
    target = need / float(counts.sum())
    fits = _Building(parts, assumption, target, pmfs, (1,)).fits()
    made = _Building(parts, assumption, target, fits, (1, -1))
    found = made.certified(made.slopes())
    logs, stretch = np.log(found.values(rows)), np.tile(np.arange(1, len(_PARTS)), 2)
    users = stretches.sum(axis=0)[stretch].astype(float)
    inside = stretches[:, stretch].T
    mean = found.certificates[:, 0]  # there is one kind
    same = np.zeros(users.size)
    return Evidence(
        found.sign, found.slope, mean, (logs * inside).sum(axis=1), users, same.astype(int), same
    )


class _Building:
    """The fits of all guesses, sides and parts."""

    def __init__(
        self,
        parts: Partition,
        assumption: Assumption | None,
        target: float,
        pmfs: Sequence[FloatArray] | None,
        signs: Sequence[int],
    ) -> None:
        self.partition, self.target = parts, target
        self.generators = [part.generators(assumption) for part in parts.parts]
        if pmfs is None:
            pmfs = [np.array([_guess(one, *each) for each in GUESSES]) for one in self.generators]
        self.sign = np.repeat(signs, len(pmfs[0]) if pmfs else 1)
        # One distribution for each bet and part.
        self.pmf = [np.tile(each, (len(signs), 1)) for each in pmfs]
        self.costs = [
            part.counted * self._metric(one, *part.place)
            for one, part in zip(self.generators, parts.parts, strict=True)
        ]
        of_part = parts.part >= 0
        mass = (parts.share * parts.weight)[of_part]
        self.shares = np.bincount(parts.part[of_part], mass, len(parts.parts))
        self.columns = [one.first for one in self.generators]
        self._warm_start: list[tuple[FloatArray, FloatArray] | None] = [None] * len(self.generators)

    def _term(self, above: IntArray, j: int, relevant: int, items: int) -> FloatArray:
        """What the item at a place adds; added items are below all of the user's own."""
        above = np.minimum(above, items - relevant)
        return np.asarray(self.partition.metric.term(above + j, j, relevant, items))

    def _metric(self, one: Generators, *place: int) -> FloatArray:
        """What the item at a place adds to the metric of each generator."""
        first = self._term(np.arange(max(one.top, 1)), *place)
        return one.metric(first, self._term(one.last, *place))

    def slopes(self) -> FloatArray:
        """The slopes at which a bet on a true guess would end the interval soonest.

        There it grows as fast as is wanted. We begin with a regression on the best slopes of 144
        set-ups: 3 metrics, catalogues of 300 to 50,000 items, 20 to 500 negatives, and 1,000 to a
        million users. It takes the mean metric if all true ranks were as likely beforehand, and
        how much larger the metric of the best rank is than that of users above all negatives.
        """
        metric, steep = np.zeros((2, self.sign.size))
        of_parts = zip(self.partition.parts, self.generators, self.shares, self.pmf, strict=True)
        for part, one, share, pmfs in of_parts:
            terms = part.counted * self._term(one.above, *part.place)
            expected = one.expected(terms)
            metric += share * (pmfs @ expected)
            steep += share * (pmfs @ expected) * terms.max() / max(expected[0], 1e-12)
        above = 2.4 * self.target**0.74 / np.maximum(metric, 1e-12)
        below = 2.2 * self.target**0.65 / np.maximum(steep, 1e-12) ** 0.65
        most = 20.0 / max(self.partition.span()[1], 1e-9)
        slope = np.minimum(np.where(self.sign > 0, above, below), most)
        power = np.where(self.sign > 0, 0.7, 0.5)  # growth is between linear and quadratic in it
        for _ in range(_ROUNDS):
            change = (self.target / np.maximum(self.growth(slope), 1e-300)) ** power
            slope = np.minimum(slope * np.clip(change, 0.1, 10.0), most)
        return np.asarray(slope)

    def growth(self, slope: FloatArray) -> FloatArray:
        """How fast each bet grows under its guess, by a rough fit.

        Generators that it has left out are added for the fits to come.
        """
        found = np.zeros(slope.size)
        for g, share in enumerate(self.shares):
            functions, prices = self._solve(g, slope, _ROUGH)
            found += share * (self.pmf[g] * np.log(functions)).sum(axis=1)
            values = functions @ self.generators[g].pmf.T - np.outer(
                self.sign * slope, self.costs[g]
            )
            values += prices @ self.generators[g].constraints
            here = values[:, self.columns[g]].max(axis=1) + _SLACK * self.target
            self._add(g, np.concatenate([*map(_peaks, values, here)]))
        return found

    def _solve(
        self, g: int, slope: FloatArray, near: float = _NEAR
    ) -> tuple[FloatArray, FloatArray]:
        """Functions of a part on its knots, and prices of its constraints."""
        one, used, pmfs = self.generators[g], self.columns[g], self.pmf[g]
        k, r = used.size, len(one.constraints)
        columns, rows = np.zeros((pmfs.shape[1], k + r)), np.zeros((1 + r, k + r))
        columns[:, :k], rows[0, :k], rows[1:, :k] = one.pmf[used].T, 1.0, one.constraints[:, used]
        rows[1:, k:] = -np.eye(r)
        cost = np.zeros((len(pmfs), k + r))
        cost[:, :k] = np.outer(self.sign * slope, self.costs[g][used])
        ends = max(near * self.target, _ROUNDING)
        right = np.eye(1 + r)[0]
        weights, prices = likeliest(columns, pmfs, cost, rows, right, ends, self._warm_start[g])
        self._warm_start[g] = weights, prices
        weights = weights[:, :k] / weights[:, :k].sum(axis=1, keepdims=True)
        return pmfs / (weights @ one.pmf[used]), np.maximum(prices[:, 1:], 0.0)

    def populations(self, slope: FloatArray) -> list[FloatArray]:
        """Weights of the generators in use, in each fit: for each part, (bets, generators)."""
        found = []
        for g, used in enumerate(self.columns):
            self._solve(g, slope)
            weights = self._warm_start[g][0][:, : used.size]  # type: ignore[index]
            found.append(weights / weights.sum(axis=1, keepdims=True))
        return found

    def fits(self) -> list[FloatArray]:
        """The distributions within the assumption that are nearest to those given."""
        none = np.zeros(self.sign.size)
        return [pmfs / self._solve(g, none)[0] for g, pmfs in enumerate(self.pmf)]

    def certified(self, slope: FloatArray) -> Bets:
        """The bets of some slopes, with certificates over all generators."""
        parts, slack = self.partition, _SLACK * self.target
        certificates = np.empty((slope.size, len(parts.kinds)))
        functions = []
        for g, one in enumerate(self.generators):
            found, prices = self._solve(g, slope)
            kinds = np.flatnonzero(parts.part == g)
            for (relevant, j, items), same in parts.distinct(kinds):
                counted = float(parts.counted[same[0]])
                metric = counted * self._metric(one, j, relevant, items)
                for b in range(slope.size):
                    cost = self.sign[b] * slope[b] * metric
                    bound = one.largest(found[b], cost, slack, prices[b])[0]
                    certificates[b, same] = bound / counted
            functions.append(found)
        for (relevant, j, items), same in parts.distinct(np.flatnonzero(parts.part < 0)):
            term = float(parts.metric.term(j, j, relevant, items))
            price = (self.sign * slope * term)[:, np.newaxis]
            certificates[:, same] = parts.weight[same] - price
        return Bets(parts, self.sign, slope, functions, certificates)

    def _add(self, g: int, more: IntArray) -> None:
        """More generators for the fits of a part, which go on where they were."""
        before, k = self.columns[g], self.columns[g].size
        self.columns[g] = np.union1d(before, more)
        weights, prices = self._warm_start[g]  # type: ignore[misc]
        moved = np.zeros((len(weights), self.columns[g].size + weights.shape[1] - k))
        moved[:, np.searchsorted(self.columns[g], before)] = weights[:, :k]
        moved[:, self.columns[g].size :] = weights[:, k:]
        self._warm_start[g] = moved, prices


def _peaks(values: FloatArray, above: float) -> IntArray:
    """The highest local maxima that are above a number."""
    rises = np.append(True, values[1:] >= values[:-1])
    falls = np.append(values[:-1] >= values[1:], True)
    found = np.flatnonzero(rises & falls & (values > above))
    return np.asarray(found[np.argsort(-values[found])[:_MORE]])


@dataclass(frozen=True, eq=False)
class Sums:
    """Bets that one metric is larger than another, on the sampled ranks of both.

    A bet that the first is larger, plus a bet that the second is smaller: at equal prices of the
    two metrics its expectation is at most the sum of the certificates, plus the price times the
    first metric less the second, however the ranks of a user depend on each other. A constant is
    taken away from both sides. That raises the stake: a sum of two bets moves half as much as
    either, so what is left of it must move more.

    Attributes
    ----------
    over, under : ndarray of int, shape (sums,)
        The bet on the first metric, and that on the second.
    ratio : ndarray of float, shape (sums,)
        What the second bet is multiplied by.
    slope, mean : ndarray of float, shape (sums,)
        Of the sum, as :class:`Evidence` has them.
    less : ndarray of float, shape (sums,)
        What is taken away.
    """

    over: IntArray
    under: IntArray
    ratio: FloatArray
    slope: FloatArray
    mean: FloatArray
    less: FloatArray

    @classmethod
    def of(cls, bets: Bets, first: FloatArray, second: FloatArray) -> Sums:
        """All sums, from the mean certificates of the users' rows with either recommender."""
        sides = np.flatnonzero(bets.sign > 0), np.flatnonzero(bets.sign < 0)
        over, under = (each.ravel() for each in np.meshgrid(*sides, indexing="ij"))
        ratio = bets.slope[over] / bets.slope[under]
        mean = first[over] + ratio * second[under]
        least = np.min([np.ones(bets.sign.size), *(each.min(axis=1) for each in bets.functions)], 0)
        less = np.minimum(_TAKEN * mean, _LEFT * (least[over] + ratio * least[under]))
        return cls(over, under, ratio, bets.slope[over], mean - less, less)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What some bets have won, as a function of the value that they were made against.

    Attributes
    ----------
    sign : ndarray of int, shape (bets,)
        1 for bets that the value is larger, -1 for bets that it is smaller.
    slope, mean : ndarray of float, shape (bets,)
        A user's bet is expected to be at most the mean, plus `sign` times slope times the value.
    logs : ndarray of float, shape (bets,)
        Sum over users of the logarithm of the bet.
    users : ndarray of float, shape (bets,)
        How many there are, so that bets on several parts of the users can be multiplied.
    group : ndarray of int, shape (bets,)
        Those of a sign and a group are multiplied, and what groups win is averaged.
    log_weight : ndarray of float, shape (bets,)
        Fixed beforehand. Multiplied over a group and then added up, weights are 1 or less.
    """

    sign: IntArray
    slope: FloatArray
    mean: FloatArray
    logs: FloatArray
    users: FloatArray
    group: IntArray
    log_weight: FloatArray

    @classmethod
    def of(
        cls,
        sign: IntArray,
        slope: FloatArray,
        mean: FloatArray,
        logs: FloatArray,
        users: float,
        weight: float = 1.0,
    ) -> Evidence:
        """Of bets on the same users, as many of each sign, with equal weights."""
        share = weight / max(int((sign == sign[0]).sum()), 1)
        size, group = logs.size, np.arange(logs.size)
        weights = np.full(size, np.log(share))
        return cls(sign, slope, mean, logs, np.full(size, float(users)), group, weights)

    def with_(self, other: Evidence | None, part: float | None = None) -> Evidence:
        """These bets and others, which have so large a part if any is given."""
        if other is None:
            return self
        own, its = (0.0, 0.0) if part is None else (np.log1p(-part), np.log(part))
        first = int(self.group.max(initial=-1)) + 1
        of_group = np.bincount(self.group)[self.group], np.bincount(other.group)[other.group]
        return Evidence(
            np.append(self.sign, other.sign),
            np.append(self.slope, other.slope),
            np.append(self.mean, other.mean),
            np.append(self.logs, other.logs),
            np.append(self.users, other.users),
            np.append(self.group, first + other.group),
            np.append(self.log_weight + own / of_group[0], other.log_weight + its / of_group[1]),
        )

    def against(self, sign: int, value: float, times: float = 1.0) -> float:
        """Logarithm of the average bet that the true value is beyond one."""
        of = self.sign == sign
        most = self.mean[of] + sign * self.slope[of] * value
        if (most <= 0).any():  # no bet has such an expectation
            return np.inf
        won = times * (self.logs[of] - self.users[of] * np.log(most)) + self.log_weight[of]
        groups, group = np.unique(self.group[of], return_inverse=True)
        wealth = np.bincount(group.ravel(), won, groups.size)
        best = wealth.max()
        return float(best + np.log(np.exp(wealth - best).sum()))

    def end(self, sign: int, need: float, near: float, far: float) -> float:
        """The value next to `near`, towards `far`, that the bets of a sign do not refute."""
        return crossing(lambda value: self.against(sign, value) - need, near, far)

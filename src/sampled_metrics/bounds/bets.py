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
guesses are fixed in advance: `parts.GUESSES`. A poor guess or a poor fit makes an interval wide,
never wrong, because the certificate is computed from whatever h it was.

A user may have several rows: of several relevant items, several instances, or two recommenders.
Then h is a sum over the rows, each with its own certificate. Expectations of sums need no
independence, so the rows of a user may depend on each other in any way.

Users whose catalogues differ are judged in one, the largest. Imagine that irrelevant items are
added to a user's catalogue, all of them below the relevant one: neither its rank nor the metric
changes. A sample of the larger catalogue is the user's sample after some negatives have been
replaced by added items, and what is left of x negatives above is binomial or hypergeometric
whatever the true rank is. So h is replaced by its expectation given x.

Numbers of negatives may depend on the true rank. Without an assumption each generator is a single
rank, the certificate holds for every rank and number of negatives, and nothing changes. Under an
assumption the certificate needs all users of a catalogue size, because the ranks of those with a
given number of negatives may increase. So the samples of these users are thinned to the fewest
negatives. The thinned sample is uniform whatever the user's number was: the expectation of h given
the true rank does not depend on it, and averages over all users of the size. The same is done with
users who have different numbers of relevant items, where the assumption is on the best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .._validate import FloatArray, IntArray, as_intp
from ..numerics.betting import crossing
from ..numerics.mixtures import likeliest
from .generators import Generators
from .parts import GUESSES, guess
from .parts import Part as Part
from .parts import Partition as Partition
from .parts import Rows as Rows
from .parts import partition as partition

#: From so many users on, bets are also made on learnt distributions. `_PARTS` are the shares of the
#: stretches; the first stretch is learnt from only.
LEARNT_USERS = 50_000
_PARTS = np.diff([0.0, *(1.3 ** np.arange(-6.0, 1.0))])
#: Pseudo-users of a guess, added to the counts that a distribution is learnt from.
_GUESSED = 3.0
#: Slopes in sums of two bets are made for this share of the need. The constant subtracted from a
#: sum is `_TAKEN` of its mean certificate, at most `_LEFT` of its least value.
SUM_NEED, _TAKEN, _LEFT = 0.15, 0.75, 0.95
#: Rough fits that update the slopes, and the most generators that one of them adds per bet.
_ROUNDS, _MORE = 2, 30
#: Tolerances of the last fit, of rough fits and of certificates, as shares of the growth needed per
#: user.
_NEAR, _ROUGH, _SLACK = 0.01, 0.1, 0.02
#: Smallest tolerance of a fit that rounding allows.
_ROUNDING = 3e-11


@dataclass(frozen=True, eq=False)
class Bets:
    """Functions of the sampled rank, their slopes and their certificates.

    For each bet: `sign` 1 that the metric is larger or -1 that it is smaller, `slope` >= 0, the
    values of `functions` at the knots of each part, (bets, knots), and `certificates` (bets,
    kinds): upper bounds of the expected weighted function less the price of the metric, for rows of
    each kind.
    """

    partition: Partition
    sign: IntArray
    slope: FloatArray
    functions: list[FloatArray]
    certificates: FloatArray

    def values(self, rows: Rows) -> FloatArray:
        """The weighted functions at the rows of a sample; shape (bets, rows)."""
        weighted_values = np.ones((self.sign.size, rows.kind.size))
        for functions, seen in zip(self.functions, rows.seen(self.partition), strict=True):
            weighted_values[:, seen.rows] = seen.values(functions)
        return weighted_values * self.partition.weight[rows.kind]


def build(
    parts: Partition,
    assumption: str | None,
    log_evidence_needed: float,
    users: float,
    pmfs: Sequence[FloatArray] | None = None,
) -> Bets:
    """Bets on each guess, first that the metric is larger, then that it is smaller.

    The slopes suit the number of users; `log_evidence_needed` is the logarithm of the e-value that
    an interval needs. `pmfs` (by part, (guesses, knots)) replace the partition's.
    """
    if pmfs is None:  # guesses are the same for all logs
        return _built(parts, assumption, log_evidence_needed / users)
    building = Building(parts, assumption, log_evidence_needed / users, pmfs, (1, -1))
    return building.bets(building.slopes())


@lru_cache(maxsize=32)
def _built(parts: Partition, assumption: str | None, growth_needed: float) -> Bets:
    building = Building(parts, assumption, growth_needed, None, (1, -1))
    return building.bets(building.slopes())


def refutations(
    parts: Partition, assumption: str | None, rows: Rows, counts: Sequence[FloatArray]
) -> list[float]:
    """Log e-values of samples against an assumption, by split likelihood ratios (wasserman2020).

    The users are split at random. The ratio of the distribution learnt from one half to its
    likeliest fit within the assumption is a bet on the other half. The bet does not depend on that
    half, so that its expectation is at most 1. The e-value is the average over both halves. The
    seed is fixed, so that a log always gives the same answer.
    """
    if not parts.parts:
        return [0.0] * len(counts)
    key = parts.key, assumption, *(sample_counts.tobytes() for sample_counts in counts)
    if key not in rows.refuted:
        rows.refuted[key] = _refutations(parts, assumption, rows, counts)
    return rows.refuted[key]


def _refutations(
    parts: Partition, assumption: str | None, rows: Rows, counts: Sequence[FloatArray]
) -> list[float]:
    rng = np.random.default_rng(0)
    halves = []
    for sample_counts in counts:
        rounded = np.floor(sample_counts + rng.random(sample_counts.size)).astype(np.int64)
        first = rng.binomial(rounded, 0.5)
        halves += [(first, rounded - first), (rounded - first, first)]
    pmfs = observed_pmfs(parts, assumption, rows, np.stack([learn for learn, _ in halves], axis=1))
    users = max(float(min(test.sum() for _, test in halves)), 1.0)
    building = Building(parts, assumption, 1.0 / users, pmfs, (1,))
    zero_slopes = np.zeros(len(halves))
    building.growth(zero_slopes)  # adds generators
    bets = building.bets(zero_slopes)
    logs, values = [], np.log(bets.values(rows))
    for bet_index, (_, test) in enumerate(halves):
        if not test.any():
            logs.append(0.0)
            continue
        mean = float(test @ bets.certificates[bet_index, rows.kind]) / test.sum()
        logs.append(float(test @ values[bet_index] - test.sum() * np.log(mean)))
    return [
        float(np.logaddexp(first, second) - np.log(2.0))
        for first, second in zip(logs[::2], logs[1::2], strict=True)
    ]


def observed_pmfs(
    parts: Partition, assumption: str | None, rows: Rows, counts: np.ndarray
) -> list[FloatArray]:
    """Distributions of the sampled rank, smoothed with a guess; by part, (samples, knots)."""
    pmfs = []
    for part, seen in zip(parts.parts, rows.seen(parts), strict=True):
        prior = _GUESSED * guess(part.generators(assumption), *GUESSES[0])
        smoothed = prior + seen.observed(counts[seen.rows])
        pmfs.append(smoothed / smoothed.sum(axis=1, keepdims=True))
    return pmfs


def learnt(
    parts: Partition,
    assumption: str | None,
    log_evidence_needed: float,
    rows: Rows,
    counts: FloatArray,
) -> Evidence | None:
    """Bets on distributions that are learnt from other users; None where they do not help or apply.

    The loss from imperfect guesses grows with the number of users. So the users are put in a random
    order, and bets on a stretch of it are made for the distribution of all users before. They do
    not depend on the stretch, so that their product is one bet, if the users are drawn from a
    population. Under an assumption the interval promises no more than that. If nothing is assumed
    it also promises the mean metric of fixed users, and a stretch has another mean; so it has if
    catalogue sizes differ. The seed is fixed, so that a log always gives the same answer.
    """
    if assumption is None or counts.sum() < LEARNT_USERS or len(parts.kinds) > 1 or not parts.parts:
        return None
    rng = np.random.default_rng(0)
    stretches = rng.multinomial(np.floor(counts + rng.random(counts.size)).astype(np.int64), _PARTS)
    past_counts = np.cumsum(stretches, axis=1)[:, :-1]
    pmfs = observed_pmfs(parts, assumption, rows, past_counts)
    growth_needed = log_evidence_needed / float(counts.sum())
    fits = Building(parts, assumption, growth_needed, pmfs, (1,)).fits()
    building = Building(parts, assumption, growth_needed, fits, (1, -1))
    bets = building.bets(building.slopes())
    logs, stretch = np.log(bets.values(rows)), np.tile(np.arange(1, len(_PARTS)), 2)
    users = stretches.sum(axis=0)[stretch].astype(float)
    stretch_counts = stretches[:, stretch].T
    mean = bets.certificates[:, 0]  # of the only kind
    zeros = np.zeros(users.size)
    return Evidence(
        bets.sign,
        bets.slope,
        mean,
        (logs * stretch_counts).sum(axis=1),
        users,
        zeros.astype(np.intp),
        zeros,
    )


class Building:
    """Solves the fits of all guesses, sides and parts, by column generation over generators."""

    def __init__(
        self,
        parts: Partition,
        assumption: str | None,
        growth_needed: float,
        pmfs: Sequence[FloatArray] | None,
        signs: Sequence[int],
    ) -> None:
        self.partition, self.growth_needed = parts, growth_needed
        self.generators = [part.generators(assumption) for part in parts.parts]
        if pmfs is None:
            pmfs = [parts.guesses(generators) for generators in self.generators]
        self.sign = np.repeat(signs, len(pmfs[0]) if pmfs else 1)
        # One distribution for each bet and part.
        self.pmf = [np.tile(guess, (len(signs), 1)) for guess in pmfs]
        self.costs = [
            part.counted * self._metric(generators, *part.numbers)
            for generators, part in zip(self.generators, parts.parts, strict=True)
        ]
        in_part = parts.part >= 0
        mass = (parts.share * parts.weight)[in_part]
        self.shares = np.bincount(as_intp(parts.part[in_part]), mass, len(parts.parts))
        self.columns = [generators.first for generators in self.generators]
        self._warm_start: list[FloatArray | None] = [None] * len(self.generators)

    def _term(self, above: IntArray, j: int, relevant: int, items: int) -> FloatArray:
        """Metric of an item with `above` items above, at most as many as the user has."""
        above = np.minimum(above, items - relevant)
        return np.asarray(self.partition.metric.term(above + j, j, relevant, items))

    def _metric(self, generators: Generators, *numbers: int) -> FloatArray:
        """The metric of each generator."""
        top_terms = self._term(np.arange(max(generators.top, 1)), *numbers)
        return generators.metric(top_terms, self._term(generators.last, *numbers))

    def slopes(self) -> FloatArray:
        """The slopes at which a bet on a true guess grows just as fast as is needed.

        Starts with a regression on the best slopes of 144 set-ups (3 metrics, 300 to 50,000 items,
        20 to 500 negatives, 1,000 to a million users). Predictors: the mean metric under a uniform
        prior, and the ratio of the metric at the best rank to that of users above all negatives.
        """
        metric, steepness = np.zeros((2, self.sign.size))
        by_part = zip(self.partition.parts, self.generators, self.shares, self.pmf, strict=True)
        for part, generators, share, pmfs in by_part:
            terms = part.counted * self._term(generators.last, *part.numbers)
            expected = generators.expected(terms)
            metric += share * (pmfs @ expected)
            steepness += share * (pmfs @ expected) * terms.max() / max(expected[0], 1e-12)
        above = 2.4 * self.growth_needed**0.74 / np.maximum(metric, 1e-12)
        below = 2.2 * self.growth_needed**0.65 / np.maximum(steepness, 1e-12) ** 0.65
        max_slope = 20.0 / max(self.partition.span()[1], 1e-9)
        slope = np.minimum(np.where(self.sign > 0, above, below), max_slope)
        exponent = np.where(self.sign > 0, 0.7, 0.5)  # growth is between linear and quadratic in it
        for _ in range(_ROUNDS):
            factor = (self.growth_needed / np.maximum(self.growth(slope), 1e-300)) ** exponent
            slope = np.minimum(slope * np.clip(factor, 0.1, 10.0), max_slope)
        return np.asarray(slope)

    def growth(self, slope: FloatArray) -> FloatArray:
        """Growth rate of each bet under its guess, by a rough fit; adds missing generators."""
        growth_rates = np.zeros(slope.size)
        for part_index, share in enumerate(self.shares):
            functions = self._solve(part_index, slope, _ROUGH)
            growth_rates += share * (self.pmf[part_index] * np.log(functions)).sum(axis=1)
            values = functions @ self.generators[part_index].pmf.T - np.outer(
                self.sign * slope, self.costs[part_index]
            )
            thresholds = (
                values[:, self.columns[part_index]].max(axis=1) + _SLACK * self.growth_needed
            )
            self._add(part_index, np.concatenate([*map(_peaks, values, thresholds)]))
        return growth_rates

    def _solve(self, part_index: int, slope: FloatArray, tolerance: float = _NEAR) -> FloatArray:
        """Functions of a part on its knots."""
        columns = self.generators[part_index].pmf[self.columns[part_index]]
        cost = np.outer(self.sign * slope, self.costs[part_index][self.columns[part_index]])
        tolerance = max(tolerance * self.growth_needed, _ROUNDING)
        pmfs = self.pmf[part_index]
        weights = likeliest(columns.T, pmfs, cost, tolerance, self._warm_start[part_index])
        self._warm_start[part_index] = weights
        return np.asarray(pmfs / (weights / weights.sum(axis=1, keepdims=True) @ columns))

    def fits(self) -> list[FloatArray]:
        """The distributions within the assumption that are nearest to the given ones."""
        zero_slopes = np.zeros(self.sign.size)
        return [
            pmfs / self._solve(part_index, zero_slopes) for part_index, pmfs in enumerate(self.pmf)
        ]

    def bets(self, slope: FloatArray) -> Bets:
        """Bets with the given slopes, certified over all generators."""
        parts, slack = self.partition, _SLACK * self.growth_needed
        certificates = np.empty((slope.size, len(parts.kinds)))
        functions = []
        for part_index, generators in enumerate(self.generators):
            part_functions = self._solve(part_index, slope)
            kinds = np.unique(parts.certificate_kind[parts.part == part_index])
            for (relevant, j, items), kind_indices in parts.distinct(kinds):
                counted = float(parts.counted[kind_indices[0]])
                metric = counted * self._metric(generators, j, relevant, items)
                for bet_index in range(slope.size):
                    cost = self.sign[bet_index] * slope[bet_index] * metric
                    bound = generators.largest(part_functions[bet_index], cost, slack)
                    certificates[bet_index, kind_indices] = bound / counted
            functions.append(part_functions)
        for (relevant, j, items), kind_indices in parts.distinct(np.flatnonzero(parts.part < 0)):
            term = float(parts.metric.term(j, j, relevant, items))
            price = (self.sign * slope * term)[:, np.newaxis]
            certificates[:, kind_indices] = parts.weight[kind_indices] - price
        certificates = certificates[:, parts.certificate_kind]
        return Bets(parts, self.sign, slope, functions, certificates)

    def _add(self, part_index: int, new_columns: IntArray) -> None:
        """Add generators to the fits of a part and extend its warm start."""
        old_columns, weights = self.columns[part_index], np.asarray(self._warm_start[part_index])
        self.columns[part_index] = np.union1d(old_columns, new_columns)
        extended = np.zeros((len(weights), self.columns[part_index].size))
        extended[:, np.searchsorted(self.columns[part_index], old_columns)] = weights
        self._warm_start[part_index] = extended


def _peaks(values: FloatArray, threshold: float) -> IntArray:
    """Places of the highest local maxima above a bound."""
    rises = np.append(True, values[1:] >= values[:-1])
    falls = np.append(values[:-1] >= values[1:], True)
    peaks = np.flatnonzero(rises & falls & (values > threshold))
    return np.asarray(peaks[np.argsort(-values[peaks])[:_MORE]])


@dataclass(frozen=True, eq=False)
class Sums:
    """Bets that one metric is larger than another, on both sampled ranks of each user.

    Each is a bet `larger` that the first metric is larger plus `ratio` times a bet `smaller` that
    the second is smaller, at equal prices. Its expectation is at most the sum of the certificates
    plus the price times the difference of the metrics, however a user's two ranks depend on each
    other. A sum moves half as much as its parts; subtracting a `constant` from both sides raises
    the stake.
    """

    larger: IntArray
    smaller: IntArray
    ratio: FloatArray
    slope: FloatArray
    mean: FloatArray
    constant: FloatArray

    @classmethod
    def of(cls, bets: Bets, first: FloatArray, second: FloatArray) -> Sums:
        """All pairs of bets, from mean certificates over users with either recommender."""
        sides = np.flatnonzero(bets.sign > 0), np.flatnonzero(bets.sign < 0)
        larger, smaller = (grid.ravel() for grid in np.meshgrid(*sides, indexing="ij"))
        ratio = bets.slope[larger] / bets.slope[smaller]
        mean = first[larger] + ratio * second[smaller]
        least = np.min([np.ones(bets.sign.size), *(rows.min(axis=1) for rows in bets.functions)], 0)
        constant = np.minimum(_TAKEN * mean, _LEFT * (least[larger] + ratio * least[smaller]))
        return cls(larger, smaller, ratio, bets.slope[larger], mean - constant, constant)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The wealth of bets as a function of the value that they were made against.

    For each bet: `sign` (1: the value is larger), its expectation per user, at most ``mean + sign *
    slope * value``, `logs`, the sum over users of its logarithm, and `users`. Bets of one sign and
    `group` are multiplied, on disjoint users; groups are averaged. `log_weight` is fixed in
    advance: multiplied over a group and then summed, weights are at most 1.
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
        """Bets on the same users, as many of each sign, with equal weights."""
        share = weight / max(int((sign == sign[0]).sum()), 1)
        size, group = logs.size, np.arange(logs.size)
        weights = np.full(size, np.log(share))
        return cls(sign, slope, mean, logs, np.full(size, float(users)), group, weights)

    def combined(self, added: Evidence | None, fraction: float | None = None) -> Evidence:
        """Both sets of bets; the others get the share `fraction` of the weight, if given."""
        if added is None:
            return self
        log_rest, log_fraction = (
            (0.0, 0.0) if fraction is None else (np.log1p(-fraction), np.log(fraction))
        )
        first_group = int(self.group.max(initial=-1)) + 1
        group_sizes = np.bincount(self.group)[self.group], np.bincount(added.group)[added.group]
        return Evidence(
            np.append(self.sign, added.sign),
            np.append(self.slope, added.slope),
            np.append(self.mean, added.mean),
            np.append(self.logs, added.logs),
            np.append(self.users, added.users),
            np.append(self.group, first_group + added.group),
            np.append(
                self.log_weight + log_rest / group_sizes[0],
                added.log_weight + log_fraction / group_sizes[1],
            ),
        )

    def against(self, sign: int, value: float) -> float:
        """Logarithm of the average wealth of bets that the true value is beyond `value`."""
        has_sign = self.sign == sign
        max_mean = self.mean[has_sign] + sign * self.slope[has_sign] * value
        if (max_mean <= 0).any():  # no bet has such an expectation
            return np.inf
        log_gains = (
            self.logs[has_sign]
            - self.users[has_sign] * np.log(max_mean)
            + self.log_weight[has_sign]
        )
        groups, group = np.unique(self.group[has_sign], return_inverse=True)
        log_wealth = np.bincount(group.ravel(), log_gains, groups.size)
        peak = log_wealth.max()
        return float(peak + np.log(np.exp(log_wealth - peak).sum()))

    def end(self, sign: int, log_evidence_needed: float, start: float, stop: float) -> float:
        """The value nearest to `start`, towards `stop`, that the bets of a sign do not refute."""
        return crossing(lambda value: self.against(sign, value) - log_evidence_needed, start, stop)

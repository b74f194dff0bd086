"""Statistics of a log: means over users with standard errors, and rows in the form of bets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, stdtr, stdtrit

from .._validate import FloatArray, IntArray, shortened
from ..adaptive import Adaptive
from ..bounds import bets
from ..bounds.assumption import Assumption
from ..log.compact import KIND, Log, equal_rows, tallied
from ..metrics import Metric
from ..numerics.distributions import spread_ties
from ..protocol import Protocol

#: Differences below this share of the largest value are rounding errors and set to 0.
_ROUNDING = 1e-13
#: Optional stopping is suspected if this many users with fewer negatives than others are expected
#: to have their item above all of them, but none has.
_STOPPED = 10.0


@dataclass(frozen=True, eq=False)
class UserMean:
    """A mean over users and its standard error.

    `parts` has for each recommender the value of a row of each kind; a user's value is their sum.
    """

    value: float
    users: int
    error: float
    parts: Mapping[str, FloatArray]

    def student(self, level: float) -> tuple[float, float, float]:
        """Student's interval, and the two-sided p-value against 0."""
        if self.error == 0:
            return self.value, self.value, float(self.value == 0)
        reach = float(stdtrit(self.users - 1, 0.5 + level / 2)) * self.error
        p_value = 2.0 * float(stdtr(self.users - 1, -abs(self.value) / self.error))
        return self.value - reach, self.value + reach, p_value

    def minus(self, other: UserMean) -> dict[str, FloatArray]:
        """The parts of the users' differences."""
        own, its = self.parts, other.parts
        names = dict.fromkeys([*own, *its])
        return {
            name: np.asarray(own.get(name, 0.0) - its.get(name, np.zeros(()))) for name in names
        }


class ProtocolClass(NamedTuple):
    """The kinds of row whose protocols differ at most in the catalogue size."""

    n_negatives: int
    n_relevant: int
    rows: IntArray
    """The kinds, ordered by catalogue size."""
    sizes: IntArray
    """The distinct sizes, ascending."""
    size: IntArray
    """Index into `sizes` of each kind."""


class Sample:
    """Statistics of a log, all of them sums over kinds of row.

    `better`, `tied`, `position`, `relevant`, `items` and `negatives` are the columns of the
    kinds, (kinds,); for an adaptive `design`, `better` are the places of its outcomes and
    `negatives` its `most`, since so many fixed negatives have as many outcomes. `place` and
    `many` describe ties of several relevant items with each other and negatives: the row's
    place among these, and their number; else 0. `counts` are each recommender's users per kind,
    shared evenly by a user's instances; `users` their totals; `mean_items` the mean catalogue
    size over rows, without the user's other relevant items; and `alone` says that no user has
    several rows.
    """

    def __init__(self, log: Log) -> None:
        self.log, self.names, self.replacement = log, log.recommenders, log.replacement
        self.counts, self.users, self.alone = log.user_counts, log.users_of, log.sizes is None
        self.design = log.design
        for name, users in self.users.items():
            if users < 2:
                raise ValueError(
                    f"users must be 2 or more for a standard error, got 1 of {shortened(name)}"
                )
        self.better, self.tied, self.position, self.relevant, self.items, self.negatives = (
            {**log.kinds, **log.outcomes()}[name] for name in KIND
        )
        self.place, self.many = log.kinds["tied_position"], log.kinds["tied_relevant"]
        rows = log.kind_counts.sum(axis=0)
        self.mean_items = round(float(rows @ (self.items - self.relevant + 1)) / float(rows.sum()))

    def check_independent(self, instead: str) -> None:
        """Refuse samples for which the proof of intervals and verdicts does not hold.

        Either users share their negatives, or samples were enlarged because of what they showed.
        The latter is recognised by repeatedly doubled n_negatives where only users with the largest
        number have no negative above their item, unless the log's reader was told otherwise.
        """
        if self.log.shared_negatives and (self.negatives < self.items - self.relevant).any():
            raise ValueError(
                "shared_negatives must be False for a range or a verdict, whose proof needs "
                f"negatives of its own for each user, got True: {instead}"
            )
        if self.log.fixed_sample_size:
            return
        numbers = np.unique(self.negatives)
        stopped = self.negatives < numbers[-1]
        # Expected number of users without a negative above, even for a random recommender.
        rows = self.log.kind_counts.sum(axis=0)
        expected = float((rows / (self.negatives + 1.0))[stopped].sum())
        doubled = numbers.size > 1 and (np.diff(numbers[:-1]) == numbers[:-2]).all()
        doubled &= numbers[-1] <= 2 * numbers[:-1].max(initial=0)
        if doubled and expected >= _STOPPED and (self.better[stopped] > 0).all():
            raise ValueError(
                "n_negatives must not depend on n_better for a range or a verdict, and here no "
                f"user with fewer than {numbers[-1]:,} negatives has an item above all of them, "
                "as if samples were doubled until one was above: if they were, read the log with "
                "protocol=sm.Adaptive(n_items, first, most) (--adaptive FIRST MOST); if their "
                "number was chosen before ranking, with fixed_sample_size=True "
                f"(--fixed-sample-size); {instead}"
            )

    @cached_property
    def classes(self) -> list[ProtocolClass]:
        """A class for each number of negatives and of relevant items."""
        of_kind, shared = equal_rows([self.negatives, self.relevant], self.better.size)
        found, order = [], np.lexsort((self.items, of_kind))
        groups = np.split(order, np.cumsum(np.bincount(of_kind))[:-1])
        for m, relevant, rows in zip(*(own.tolist() for own in shared), groups, strict=True):
            sizes, size = np.unique(self.items[rows], return_inverse=True)
            found.append(ProtocolClass(m, relevant, rows, sizes, size))
        return found

    @cached_property
    def whole(self) -> bool:
        """Whether every user has all negatives, so that sampled ranks are exact ranks."""
        return all(map(self.is_whole, self.classes))

    def is_whole(self, one: ProtocolClass) -> bool:
        """Whether each user of a class has all negatives, each once."""
        drawn = one.n_negatives + one.n_relevant
        return not self.replacement and self.design is None and int(one.sizes[-1]) == drawn

    def protocol(self, size: int, n_negatives: int, n_relevant: int) -> Protocol | Adaptive:
        """The protocol of instances with so many candidates, negatives and relevant items."""
        if self.design is not None:  # it has one size
            return self.design
        return Protocol(size, n_negatives, replacement=self.replacement, n_relevant=n_relevant)

    def mean(
        self, parts: Mapping[str, FloatArray], users: int, value: float | None = None
    ) -> UserMean:
        """The mean of users' values; or `value`, with the standard error of that mean."""
        mean = sum(float(self.counts[name] @ part) for name, part in parts.items()) / users
        error = self.error(parts, users, mean)
        return UserMean(mean if value is None else value, users, error, parts)

    def error(self, parts: Mapping[str, FloatArray], users: int, mean: float) -> float:
        """Standard error of the mean of users' values; 0 if it is only rounding."""
        scale, squares, largest = _largest(parts), 0.0, 0.0
        for values, counts in self.log.sums(parts):
            values = without_rounding(values, scale)
            squares += float(counts @ (values - mean) ** 2)
            largest = max(largest, float(np.abs(values).max()))
        error = float(np.sqrt(squares / (users - 1) / users))
        return 0.0 if error <= _ROUNDING * largest else error

    def tally(self, parts: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Distinct values of users, ascending, and the number of users with each."""
        scale = _largest(parts)
        return tallied((without_rounding(v, scale), users) for v, users in self.log.sums(parts))

    @cached_property
    def relevant_numbers(self) -> tuple[IntArray, IntArray]:
        """The distinct numbers of relevant items, and their index for each kind."""
        numbers, of_kind = np.unique(self.relevant, return_inverse=True)
        return numbers, of_kind

    def at_ranks(self, recommender: str, m: int, weights: FloatArray) -> FloatArray:
        """Users with m negatives at each sampled rank, (m + 1,), weighted by kind."""
        counts = self.counts[recommender] * weights
        here = (self.negatives == m) & (counts > 0)
        alone = here & (self.many == 0)
        found = spread_ties(self.better[alone], self.tied[alone], counts[alone], m + 1)
        for kinds, chances in self.tied_relevant(np.flatnonzero(here)):
            first = np.bincount(self.better[kinds], counts[kinds], m + 1)
            found += np.convolve(first[: m + 2 - chances.size], chances)
        return found

    def tied_relevant(self, kinds: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the kinds that tie with other relevant items, grouped by how they tie.

        With the distribution of the number of tied negatives above.
        """
        kinds = kinds[self.many[kinds] > 0]
        ways = np.stack([self.tied, self.place, self.many])[:, kinds]
        ways, way = np.unique(ways, axis=1, return_inverse=True)
        for number, order in enumerate(ways.T.tolist()):
            yield kinds[way.ravel() == number], above_among_ties(*order)

    @cached_property
    def bet_kinds(self) -> tuple[IntArray, IntArray]:
        """Distinct columns that bets use besides ranks, (k, 4), and the index of each kind."""
        columns = [self.negatives, self.relevant, self.position, self.items]
        of_kind, shared = equal_rows(columns, self.better.size)
        return np.column_stack(shared), of_kind

    @cached_property
    def populations(self) -> IntArray:
        """For each of `bet_kinds` the first one about whose users an assumption says the same.

        These are kinds of the best item, with one catalogue size, that some recommender has both.
        Recommenders with different numbers of negatives stay apart, if each has one.
        """
        shared, of_kind = self.bet_kinds
        label, best = np.arange(len(shared)), shared[:, 2] == 1
        users = [np.bincount(of_kind, own, label.size) for own in self.counts.values()]
        owned = [np.flatnonzero((own > 0) & best) for own in users]
        before = None
        while before is None or (label != before).any():
            before = label.copy()
            for kinds in owned:
                sizes, size = np.unique(shared[kinds, 3], return_inverse=True)
                first = np.full(sizes.size, label.size)
                np.minimum.at(first, size, label[kinds])
                label[kinds] = first[size]
        return label

    def notes_on_thinning(self, assumption: Assumption | None) -> list[str]:
        """Say that an assumption makes samples smaller, if so."""
        negatives = self.bet_kinds[0][:, 0]
        fewest, most = negatives.copy(), negatives.copy()
        np.minimum.at(fewest, self.populations, negatives)
        np.maximum.at(most, self.populations, negatives)
        wide = fewest < most
        if assumption is None or not wide.any():
            return []
        few, many = int(fewest[wide].min()), int(most[wide].max())
        return [
            f"users of one catalogue size have different numbers of negatives ({few:,} to "
            f"{many:,}): an assumption is about all of them, so under it their samples are cut to "
            f"the fewest negatives ({few:,}); with assumption=None all negatives are used"
        ]

    def partition(self, of: Metric, assumption: Assumption | None) -> bets.Partition:
        """The partition of the sample into parts that share bets on a metric."""
        shared, of_kind = self.bet_kinds
        weights = np.zeros(len(shared))
        for counts in self.counts.values():
            weights += np.bincount(of_kind, counts, len(shared))
        population = None if assumption is None else self.populations
        return bets.partition(shared, weights, of, self.replacement, self.design, population)

    @cached_property
    def bet_rows(self) -> bets.Rows:
        """The kinds of row in the form of bets, with ties broken at random."""
        of_kind = self.bet_kinds[1]
        if not self.tied.any():
            return bets.Rows(of_kind, self.better)
        starts, kind, above, share = self.broken_ties(np.arange(self.tied.size))
        return bets.Rows(of_kind[kind], above, starts, share)

    def broken_ties(self, kinds: IntArray) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """All ways of breaking the ties of some kinds, which are in ascending order.

        Returns the first way of each kind; and of each way its kind, negatives above, and
        probability.
        """
        many = self.tied[kinds] + 1
        starts = np.cumsum(many) - many
        kind, share = np.repeat(kinds, many), np.repeat(1.0 / many, many)
        above = self.better[kind] + np.arange(kind.size) - np.repeat(starts, many)
        for some, chances in self.tied_relevant(kinds):
            at = starts[np.searchsorted(kinds, some)]
            share[at[:, np.newaxis] + np.arange(chances.size)] = chances
        return starts, kind, above, share

    def evidence(self, made: bets.Bets, each: FloatArray, recommender: str) -> bets.Evidence:
        """The evidence of bets on a recommender's users, each with the sum of its rows' bets."""
        logs = np.empty(made.sign.size)
        for bet, values in enumerate(each):
            sums = self.log.sums({recommender: values})
            logs[bet] = sum(float(counts @ np.log(own)) for own, counts in sums)
        mean = made.certificates @ self.share(recommender)
        return bets.Evidence.of(made.sign, made.slope, mean, logs, self.users[recommender])

    def share(self, recommender: str) -> FloatArray:
        """The share of a recommender's users with a row of each of `bet_kinds`."""
        shared, of_kind = self.bet_kinds
        weights = self.counts[recommender] / self.users[recommender]
        return np.asarray(np.bincount(of_kind, weights, len(shared)), dtype=float)


def _largest(parts: Mapping[str, FloatArray]) -> float:
    return max(float(np.abs(part).max()) for part in parts.values())


def without_rounding(values: Any, scale: float) -> Any:
    """Set values to 0 that are rounding errors relative to `scale`."""
    return np.where(np.abs(values) <= _ROUNDING * scale, 0.0, values)


def difference(first: float, second: float) -> float:
    """First minus second; exactly 0 if they differ only by rounding."""
    return float(without_rounding(np.subtract(first, second), max(abs(first), abs(second))))


@lru_cache(maxsize=1 << 12)
def above_among_ties(tied: int, place: int, many: int) -> FloatArray:
    """Distribution of tied negatives above the `place`-th best of `many` tied relevant items.

    It is beta-binomial.
    """
    above, after = np.arange(tied + 1), many - place + 1
    found = betaln(above + place, tied - above + after) - betaln(place, after)
    found = np.exp(found - betaln(tied - above + 1, above + 1)) / (tied + 1)
    found.setflags(write=False)  # the cached array is shared
    return np.asarray(found)

"""Statistics of a log: means over users with standard errors, and rows in the form of bets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln, stdtr, stdtrit, xlogy

from .._validate import FloatArray, IntArray, as_intp, shortened
from ..bounds import bets
from ..bounds.parts import MOST_NEGATIVES
from ..log.compact import KIND, Log, equal_rows, tallied
from ..metrics import Metric
from ..numerics.distributions import spread_ties
from ..protocol import Protocol

#: Differences below this share of the largest value are rounding errors and set to 0.
_ROUNDING = 1e-13
#: Among fewer negatives all users may be first or last.
_FEW_NEGATIVES = 9
#: With fewer users first and last ranks alone are no sign of it.
_FEW_USERS = 20
#: Error rate of each test for optional stopping.
_STOPPED = 1e-6


@dataclass(frozen=True, eq=False)
class UserMean:
    """A mean over users and its standard error.

    `row_values` has for each recommender the value of a row of each kind; a user's value is
    their sum.
    """

    value: float
    users: int
    error: float
    row_values: Mapping[str, FloatArray]

    def student(self, confidence: float) -> tuple[float, float, float]:
        """Student's interval, and the two-sided p-value against 0."""
        if self.error == 0:
            return self.value, self.value, float(self.value == 0)
        half_width = float(stdtrit(self.users - 1, 0.5 + confidence / 2)) * self.error
        p_value = 2.0 * float(stdtr(self.users - 1, -abs(self.value) / self.error))
        return self.value - half_width, self.value + half_width, p_value

    def minus(self, second: UserMean) -> dict[str, FloatArray]:
        """The row values of the users' differences."""
        first_values, second_values = self.row_values, second.row_values
        names = dict.fromkeys([*first_values, *second_values])
        return {
            name: np.asarray(first_values.get(name, 0.0) - second_values.get(name, np.zeros(())))
            for name in names
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
    kinds, (kinds,). `place` and
    `many` describe ties of several relevant items with each other and negatives: the row's
    place among these, and their number; else 0. `one_item`: several draws tie, all of them copies
    of the only irrelevant item. `counts` are each recommender's users per kind, shared evenly by a
    user's instances; `users` their totals; `mean_items` the mean catalogue
    size over rows, without the user's other relevant items; and `one_row_per_user` says that no
    user has several rows.
    """

    def __init__(self, log: Log) -> None:
        self.log, self.names, self.replacement = log, log.recommenders, log.replacement
        self.counts, self.users = log.user_counts, log.users_of
        self.one_row_per_user = log.sizes is None
        for name, users in self.users.items():
            if users < 2:
                raise ValueError(
                    f"users must be 2 or more for a standard error, got 1 of {shortened(name)}"
                )
        columns = self.columns()
        self.better, self.tied, self.position, self.relevant, self.items, self.negatives = (
            columns[name] for name in KIND
        )
        self.place, self.many = log.kinds["tied_position"], log.kinds["tied_relevant"]
        self.one_item = (self.items - self.relevant == 1) & (self.tied > 1)
        rows = log.kind_counts.sum(axis=0)
        self.mean_items = round(float(rows @ (self.items - self.relevant + 1)) / float(rows.sum()))

    def units(self, recommender: str) -> int:
        """How many independent units a recommender's rows are of: its users."""
        return self.users[recommender]

    def columns(self) -> Mapping[str, Any]:
        """The columns of the kinds."""
        return self.log.kinds

    def cut_at(self, name: str) -> int | None:
        """The last rank of a recommender, if the log looks as if deeper ones were written as it.

        It is then far above n_negatives + 1, and at least twice as frequent as the rank before.
        """
        users = np.bincount(as_intp(self.better + self.tied), self.counts[name])
        last = int(np.flatnonzero(users)[-1])
        is_far_above = 2 * last < self.negatives.min()
        return last + 1 if is_far_above and 0 < 2 * users[last - 1] <= users[last] else None

    def check_ranks(self) -> None:
        """Refuse hits and misses that were written as first and last ranks."""
        above, m = self.better + self.tied, int(self.negatives.max())
        is_long = m >= _FEW_NEGATIVES and max(self.users.values()) >= _FEW_USERS
        is_hit_or_miss = all(
            np.unique(above[users > 0]).tolist() == [0, m] for users in self.counts.values()
        )
        if is_long and is_hit_or_miss and not self.tied.any():
            raise ValueError(
                f"rank must hold ranks, got 1 and {m + 1} alone, as if hits and misses were "
                "written as the first and the last rank: give a column hit instead"
            )

    def check_independent(self, instead: str) -> None:
        """Refuse samples for which the proof of intervals and verdicts does not hold.

        Either users share their negatives, or samples were enlarged because of what they showed
        (:meth:`enlarged`), unless the log's reader was told otherwise.
        """
        if self.log.shared_negatives and (self.negatives < self.items - self.relevant).any():
            raise ValueError(
                "shared_negatives must be False for an identification interval or a verdict, got "
                "True: the theorem needs independent uniform negatives for each user, and these "
                f"are shared, or from part of the catalogue; {instead}, readers.trec or ranx with "
                "corpus_size reads runs over one sub-corpus, and readers.from_scores with block "
                "a random partition into blocks"
            )
        if self.log.fixed_sample_size:
            return
        for name in self.names:
            if (enlarged := self.enlarged(name)) is None:
                continue
            max_m, users, first = enlarged
            raise ValueError(
                "n_negatives must not depend on n_better for an identification interval or a "
                f"verdict, but of {users:,.0f} users of {shortened(name)} with fewer than "
                f"{max_m:,} negatives {f'only {first:,.0f}' if first else 'none'} had no negative "
                "above the item, as if negatives were added until one was above: if "
                "n_negatives was chosen before ranking, with fixed_sample_size=True "
                f"(--fixed-sample-size); {instead}"
            )

    def enlarged(self, recommender: str) -> tuple[int, float, float] | None:
        """Whether samples seem to have been enlarged until a negative was above the item.

        If so, the largest number of negatives, the users with fewer, and those of them without a
        negative above. Enlarging leaves no such user (or few, if some were not enlarged). Each of
        two tests suspects a log of fixed numbers with a probability of at most `_STOPPED`:

        - If the recommender is no worse than a random one, users with fewer negatives are first
          with a probability of 1 / (m + 1) or more on average, ties broken at random. Let this be
          `expected` users in all. Then at most s are first with a probability of at most
          exp(s - expected - s log(s / expected)), by Chernoff's bound. A recommender may be worse
          than random, so that s must also be at most a tenth of `expected`.
        - If numbers do not depend on the true ranks, each user is at least as likely to be first as
          with the largest number. So if k users are first, all have the largest number with a
          probability of at most that of k users drawn at random without replacement.

        A user's instances may depend on each other and count together as one user. The second test
        is made of one row per user, and also counts tied negatives as above, as some rules do.
        """
        counts = self.counts[recommender] * (self.position == 1)
        max_m = int(self.negatives[counts > 0].max())
        is_most = self.negatives == max_m
        rest = self.negatives < np.minimum(max_m, self.items - self.relevant)
        expected = float((counts / (self.negatives + 1.0))[rest].sum())
        first = float((counts / (self.tied + 1.0))[rest & (self.better == 0)].sum())
        log_error = first - expected - float(xlogy(first, first / max(expected, 1e-300)))
        suspected = first <= expected / 10 and log_error <= np.log(_STOPPED)
        users, with_most = float(counts[rest].sum()), float(counts[is_most].sum())
        for above in (self.better, self.better + self.tied) if self.one_row_per_user else ():
            k = float(counts[is_most & (above == 0)].sum())
            if not counts[rest & (above == 0)].any():
                log_error = _log_binomial(with_most, k) - _log_binomial(with_most + users, k)
                suspected |= log_error <= np.log(_STOPPED)
        return (max_m, users, float(counts[rest & (self.better == 0)].sum())) if suspected else None

    def share_first(self, recommender: str) -> float:
        """The share of a recommender's users without a negative above, ties shared evenly."""
        first = (self.counts[recommender] / (self.tied + 1.0))[self.better == 0]
        return float(first.sum()) / self.users[recommender]

    def likeness(self, first: str, second: str) -> float:
        """The correlation of users' exact ranks by two recommenders, as shares of the catalogue.

        The noise of sampling is taken out of the variances. Missing if it is all that is seen.
        """
        share = (self.better + self.tied / 2.0) / self.negatives
        left = 1.0 if self.replacement else 1.0 - self.negatives / (self.items - self.relevant)
        noise = left * share * (1.0 - share) / np.maximum(self.negatives - 1, 1)
        users, variances = self.users[first], []
        means = [self.mean({name: share}, users) for name in (first, second)]
        for name, mean in zip((first, second), means, strict=True):
            variances.append(mean.error**2 - float(self.counts[name] @ noise) / users**2)
        difference = self.mean(means[0].minus(means[1]), users).error
        joint = (means[0].error ** 2 + means[1].error ** 2 - difference**2) / 2.0
        return float(joint / np.sqrt(np.prod(variances))) if min(variances) > 0 else np.nan

    @cached_property
    def ranks_are_ties(self) -> bool:
        """Whether most users of a recommender who are not first have equally many negatives above
        their item and tie with all others, as misses do where only hits are known."""
        is_tie = (self.tied > 1) & (self.better + self.tied == self.negatives)
        not_first = self.better + self.tied > 0
        above = self.better[is_tie]
        return any(
            np.bincount(above, counts[is_tie]).max(initial=0.0) > 0.5 * counts[not_first].sum()
            for counts in self.counts.values()
        )

    @cached_property
    def classes(self) -> list[ProtocolClass]:
        """A class for each number of negatives and of relevant items."""
        class_index, distinct_columns = equal_rows(
            [self.negatives, self.relevant], self.better.size
        )
        protocol_classes, order = [], np.lexsort((self.items, class_index))
        groups = np.split(order, np.cumsum(np.bincount(class_index))[:-1])
        for m, relevant, rows in zip(
            *(column.tolist() for column in distinct_columns), groups, strict=True
        ):
            sizes, size_index = np.unique(self.items[rows], return_inverse=True)
            protocol_classes.append(ProtocolClass(m, relevant, rows, sizes, size_index))
        return protocol_classes

    @cached_property
    def whole(self) -> bool:
        """Whether every user has all negatives, so that sampled ranks are exact ranks."""
        return all(map(self.is_whole, self.classes))

    def is_whole(self, protocol_class: ProtocolClass) -> bool:
        """Whether each user of a class has all negatives, each once."""
        n_ranked = protocol_class.n_negatives + protocol_class.n_relevant
        return not self.replacement and int(protocol_class.sizes[-1]) == n_ranked

    def protocol(self, size: int, n_negatives: int, n_relevant: int) -> Protocol:
        """The protocol of instances with so many candidates, negatives and relevant items."""
        return Protocol(size, n_negatives, replacement=self.replacement, n_relevant=n_relevant)

    def mean(
        self, row_values: Mapping[str, FloatArray], users: int, value: float | None = None
    ) -> UserMean:
        """The mean of users' values; or `value`, with the standard error of that mean."""
        mean = sum(float(self.counts[name] @ values) for name, values in row_values.items()) / users
        error = self.error(row_values, users, mean)
        return UserMean(mean if value is None else value, users, error, row_values)

    def error(self, row_values: Mapping[str, FloatArray], users: int, mean: float) -> float:
        """Standard error of the mean of users' values; 0 if it is only rounding."""
        scale, squares, largest = _largest(row_values), 0.0, 0.0
        for values, counts in self.log.user_sums(row_values):
            values = without_rounding(values, scale)
            squares += float(counts @ (values - mean) ** 2)
            largest = max(largest, float(np.abs(values).max()))
        error = float(np.sqrt(squares / (users - 1) / users))
        return 0.0 if error <= _ROUNDING * largest else error

    def tally(self, row_values: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Distinct values of users, ascending, and the number of users with each."""
        scale = _largest(row_values)
        return tallied(
            (without_rounding(values, scale), users)
            for values, users in self.log.user_sums(row_values)
        )

    @cached_property
    def relevant_numbers(self) -> tuple[IntArray, IntArray]:
        """The distinct numbers of relevant items, and their index for each kind."""
        numbers, number_index = np.unique(self.relevant, return_inverse=True)
        return numbers, number_index

    def at_ranks(self, recommender: str, m: int, weights: FloatArray) -> FloatArray:
        """Users with m negatives at each sampled rank, (m + 1,), weighted by kind."""
        counts = self.counts[recommender] * weights
        is_counted = (self.negatives == m) & (counts > 0)
        is_even = is_counted & (self.many == 0) & ~self.one_item
        rank_counts = spread_ties(self.better[is_even], self.tied[is_even], counts[is_even], m + 1)
        for kinds, pmf in self.tied_relevant(np.flatnonzero(is_counted)):
            first_counts = np.bincount(as_intp(self.better[kinds]), counts[kinds], m + 1)
            rank_counts += np.convolve(first_counts[: m + 2 - pmf.size], pmf)
        return rank_counts

    def tied_relevant(self, kinds: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the kinds with ties that have no uniform distribution, grouped by how they tie.

        With the distribution of the number of tied negatives above. They tie with other relevant
        items, or are copies of the only irrelevant item.
        """
        kinds = kinds[(self.many[kinds] > 0) | self.one_item[kinds]]
        ties = np.stack([self.tied, self.place, self.many, self.one_item])[:, kinds]
        ties, tie_index = np.unique(ties, axis=1, return_inverse=True)
        for tie_number, (tied, place, many, one_item) in enumerate(ties.T.tolist()):
            pmf = above_among_ties(1 if one_item else tied, max(place, 1), max(many, 1))
            if one_item:  # all above or none
                pmf = np.array([pmf[0], *[0.0] * (tied - 1), pmf[1]])
            yield kinds[tie_index.ravel() == tie_number], pmf

    @cached_property
    def bet_kinds(self) -> tuple[IntArray, IntArray]:
        """Distinct columns that bets use besides ranks, (k, 4), and the index of each kind."""
        columns = [self.negatives, self.relevant, self.position, self.items]
        bet_kind_index, distinct_columns = equal_rows(columns, self.better.size)
        return np.column_stack(distinct_columns), bet_kind_index

    @cached_property
    def populations(self) -> IntArray:
        """For each of `bet_kinds` the first one about whose users an assumption says the same.

        These are kinds of the best item, with one catalogue size, that some recommender has both.
        Recommenders with different numbers of negatives stay apart, if each has one.
        """
        bet_kinds, bet_kind_index = self.bet_kinds
        labels, is_best = np.arange(len(bet_kinds)), bet_kinds[:, 2] == 1
        users = [
            np.bincount(bet_kind_index, counts, labels.size) for counts in self.counts.values()
        ]
        best_kinds = [np.flatnonzero((counts > 0) & is_best) for counts in users]
        previous_labels = None
        while previous_labels is None or (labels != previous_labels).any():
            previous_labels = labels.copy()
            for kinds in best_kinds:
                sizes, size_index = np.unique(bet_kinds[kinds, 3], return_inverse=True)
                first_labels = np.full(sizes.size, labels.size)
                np.minimum.at(first_labels, size_index, labels[kinds])
                labels[kinds] = first_labels[size_index]
        return labels

    def notes_on_thinning(self, assumption: str | None) -> list[str]:
        """Say that an assumption makes samples smaller, if so."""
        negatives = self.bet_kinds[0][:, 0]
        max_m = int(negatives.max())
        if max_m > MOST_NEGATIVES and not self.whole:
            return [f"users have up to {max_m:,} negatives: bets use {MOST_NEGATIVES:,} of each"]
        fewest_negatives, most_negatives = negatives.copy(), negatives.copy()
        np.minimum.at(fewest_negatives, self.populations, negatives)
        np.maximum.at(most_negatives, self.populations, negatives)
        is_thinned = fewest_negatives < most_negatives
        if assumption is None or not is_thinned.any():
            return []
        lower = int(fewest_negatives[is_thinned].min())
        upper = int(most_negatives[is_thinned].max())
        return [
            f"users of one catalogue size have different numbers of negatives ({lower:,} to "
            f"{upper:,}): an assumption is about all of them, so under it their samples are cut to "
            f"the fewest negatives ({lower:,}); with assumption=None all negatives are used"
        ]

    def partition(self, metric: Metric, assumption: str | None) -> bets.Partition:
        """The partition of the sample into parts that share bets on a metric."""
        bet_kinds, bet_kind_index = self.bet_kinds
        weights = np.zeros(len(bet_kinds))
        for counts in self.counts.values():
            weights += np.bincount(bet_kind_index, counts, len(bet_kinds))
        population = None if assumption is None else self.populations
        return bets.partition(bet_kinds, weights, metric, self.replacement, population)

    @cached_property
    def bet_rows(self) -> bets.Rows:
        """The kinds of row in the form of bets, with ties broken at random.

        With replacement bets take the least value over the numbers of tied draws above.
        """
        bet_kind_index = self.bet_kinds[1]
        if not self.tied.any():
            return bets.Rows(bet_kind_index, self.better)
        starts, kind, above, probabilities = self.broken_ties(np.arange(self.tied.size))
        return bets.Rows(bet_kind_index[kind], above, starts, probabilities)

    def broken_ties(self, kinds: IntArray) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """All ways of breaking the ties of some kinds, which are in ascending order.

        Returns the first way of each kind; and of each way its kind, negatives above, and
        probability.
        """
        n_ways = as_intp(self.tied[kinds]) + 1
        starts = np.cumsum(n_ways) - n_ways
        kind, probabilities = np.repeat(kinds, n_ways), np.repeat(1.0 / n_ways, n_ways)
        above = self.better[kind] + np.arange(kind.size) - np.repeat(starts, n_ways)
        for tied_kinds, pmf in self.tied_relevant(kinds):
            tied_starts = starts[np.searchsorted(kinds, tied_kinds)]
            probabilities[tied_starts[:, np.newaxis] + np.arange(pmf.size)] = pmf
        return starts, kind, above, probabilities

    def evidence(
        self, built_bets: bets.Bets, bet_values: FloatArray, recommender: str
    ) -> bets.Evidence:
        """The evidence of bets on a recommender's users, each with the sum of its rows' bets."""
        log_wealth = np.empty(built_bets.sign.size)
        for bet_index, values in enumerate(bet_values):
            sums = self.log.user_sums({recommender: values})
            log_wealth[bet_index] = sum(
                float(counts @ np.log(user_sums)) for user_sums, counts in sums
            )
        mean = built_bets.certificates @ self.share(recommender)
        return bets.Evidence.of(
            built_bets.sign, built_bets.slope, mean, log_wealth, self.units(recommender)
        )

    def is_mixed(self, recommender: str) -> bool:
        """Whether bets that assume nothing are about the log's users, and not about a population.

        Certificates are averaged over the log's mix of numbers of negatives and of relevant items,
        on which the ranks may depend.
        """
        sizes = self.bet_kinds[0][self.share(recommender) > 0, :2]
        return bool((sizes != sizes[0]).any())

    def share(self, recommender: str) -> FloatArray:
        """The share of a recommender's users with a row of each of `bet_kinds`."""
        bet_kinds, bet_kind_index = self.bet_kinds
        weights = self.counts[recommender] / self.users[recommender]
        return np.asarray(np.bincount(bet_kind_index, weights, len(bet_kinds)), dtype=float)


def _log_binomial(n: float, k: float) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _largest(row_values: Mapping[str, FloatArray]) -> float:
    return max(float(np.abs(values).max()) for values in row_values.values())


def without_rounding(values: Any, scale: float) -> Any:
    """Set values to 0 that are rounding errors relative to `scale`."""
    return np.where(np.abs(values) <= _ROUNDING * scale, 0.0, values)


def difference(first: float, second: float) -> float:
    """First minus second; exactly 0 if they differ only by rounding."""
    return float(without_rounding(np.subtract(first, second), max(abs(first), abs(second))))


@lru_cache(maxsize=1 << 12)
def above_among_ties(tied: int, place: int, n_relevant: int) -> FloatArray:
    """Distribution of tied negatives above the `place`-th best of `n_relevant` tied relevant items.

    It is beta-binomial.
    """
    above, after = np.arange(tied + 1), n_relevant - place + 1
    pmf = betaln(above + place, tied - above + after) - betaln(place, after)
    pmf = np.exp(pmf - betaln(tied - above + 1, above + 1)) / (tied + 1)
    pmf.setflags(write=False)  # the cached array is shared
    return np.asarray(pmf)

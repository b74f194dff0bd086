"""Decide which recommender is better without computing all scores.

A race saves scores in two ways.

First, it drops users. A metric with a cut-off k is 0 for an item that k negatives outscore. So a
recommender scores a user's items in rounds, each as large as all earlier rounds together. As soon
as k negatives outscore the user's best test item, the recommender drops the user: the metric is
exactly 0, and this recommender scores nothing more for this user. For every other user it scores
all items. So each user's metric is exact, and needs neither a correction nor an assumption.

Second, it stops early. Users come in a random order, and after each batch a sequential test asks
whether the remaining users could still reverse the order of two recommenders A and B. The test is
a bet (waudbysmith2024). Let d be the metric of A less the metric of B for one user, N the number of
users, and S the sum of d over the first t users. The null hypothesis is that A is not better than B
on average over all N users. Under it, the remaining users have a mean d of at most
mu = -S / (N - t). The next user is drawn at random from the remaining ones, so given the past the
expectation of d is at most mu. Bet a stake lambda on A: each user then multiplies the wealth, which
starts at 1, by 1 + lambda (d - mu). The stake is small enough to keep the wealth positive. Under
the null hypothesis the wealth is therefore a nonnegative supermartingale. By Ville's inequality,
the probability that it ever reaches 1 / error is at most error. This bound covers all times
together, so the test may be checked after each batch, and stopped at any time.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _confidence, _progress
from ._confidence import CONFIDENCE
from ._files import put
from ._validate import (
    FloatArray,
    IntArray,
    as_written,
    checked_confidence,
    generator,
    integer,
    real_scores,
)
from .log.columns import refuse_twice
from .log.sources import Tabular, loaded
from .metrics import Metric
from .metrics import metric as parsed
from .numerics import arrays
from .numerics.staking import FIRST_ITEMS, OWN_ITEMS, batches, stakes
from .ranking.inputs import as_csr, load_train, users_and_items
from .ranking.job import Job
from .relevant_sets import RelevantSets
from .results import Race, table_of

#: Most comparisons (test items times scored items) held in memory at once.
_BLOCK = 1 << 22


class _PairRow(NamedTuple):
    first: str
    second: str
    verdict: str
    difference: float
    users: int
    wealth: float
    assumption: str
    warrant: str


def race(
    score: Mapping[str, Callable[[Any, Any], Any]],
    users: Any,
    items: Any,
    test: Tabular,
    train: Tabular | sp.sparray | None = None,
    *,
    metric: Metric | str = "ndcg@10",
    confidence: float = CONFIDENCE,
    budget: int | None = None,
    seed: int | np.random.Generator = 0,
    state: str | Path | None = None,
    progress: bool = False,
) -> Race:
    """Decide which recommender has the higher exact metric, without computing all scores.

    The race takes the users of `test` in random order, computes the exact metric of each, and stops
    when they decide the order. All verdicts are right with probability `confidence`, for any
    recommenders, users and metric: see :ref:`the theorem and its conditions <howto-race>`.

    Parameters
    ----------
    score : mapping of str to callable
        Maps the name of each recommender to a function of some rows of `users` and some rows of
        `items`, which returns the matrix of their scores, as for :func:`~sampled_metrics.rank`.
        Higher scores are better. Ties count as if broken at random.
    users, items : array_like or int
        An array with one row for each user (each item), such as its factors; or their number: the
        functions then get numbers counted from 0.
    test : DataFrame, or CSV or Parquet file
        Columns user and item: row numbers from 0. A user may have several test items.
    train : DataFrame, file or sparse matrix, optional
        Items that are not candidates for a user: columns user and item, or a SciPy sparse matrix
        (or its ``.npz`` file) with a row for each user and a column for each item.
    metric : Metric or str
        With a cut-off k, users are dropped early; without one, only stopping early saves scores.
    confidence : float
        Lower bound, in (0, 1), on the probability that all verdicts are right.
    budget : int, optional
        Largest number of scores to compute, summed over all recommenders; at least 1.
    seed : int or numpy.random.Generator
        Of the random orders. Choose it before you look at any result, and keep it.
    state : str or Path, optional
        A file with the values of the users so far, from which the same call resumes.
    progress : bool
        Show a progress bar on the error stream.

    Returns
    -------
    Race
        Its frame has a row for each pair, its `costs` a row for each recommender.

    Raises
    ------
    ValueError
        If there are fewer than two recommenders, a score is not a real number or differs from call
        to call, a user or an item does not exist, a row of `test` occurs twice, a test item is a
        training item, a user has no negatives, a number is out of its range, or `state` belongs to
        another race.

    See Also
    --------
    sampled_metrics.rank : The exact rank of each item.
    sampled_metrics.plan : How many scores a race is expected to take.

    Examples
    --------
    >>> def scorer(seed, spread):
    ...     noise = np.random.default_rng(seed).normal(0.0, spread, size=400)
    ...     return lambda users, items: -abs(items - (users * 5 + noise[users])[:, None])
    >>> test = pd.DataFrame({"user": range(400), "item": range(0, 2_000, 5)})
    >>> race({"near": scorer(1, 20), "far": scorer(2, 100)}, 400, 2_000, test).frame["verdict"][0]
    'near beats far'
    """
    parsed_metric, confidence = parsed(metric), checked_confidence(confidence)
    names = _names(score)
    if state is not None and not isinstance(state, (str, Path)):
        raise ValueError(f"state must be the path of a file, got {as_written(state)}")
    jobs = [Job.of(users, items, function, None, 0.0) for function in score.values()]
    rows, source = loaded(test, "test")
    user, item = users_and_items(rows, source, jobs[0].shape)
    refuse_twice(pd.DataFrame({"user": user, "item": item}), ["user", "item"], source)
    rng = generator(seed)
    seen = train if sp.issparse(train) else load_train(train, jobs[0].shape)
    field = _Field.of(user, item, seen, jobs[0].shape, rng)
    remaining = _Budget(np.inf if budget is None else integer(budget, "budget", 1))
    scorers = [
        _Scorer(name, job, field, parsed_metric, remaining)
        for name, job in zip(names, jobs, strict=True)
    ]
    state_file = _State(state, names, field, parsed_metric, confidence, remaining)
    pairs = [RacingPair(*pair, field.users.size) for pair in combinations(range(len(names)), 2)]
    bar = _progress.bar(total=field.users.size, desc="race", unit="user", show=progress)
    with bar:
        values = _values_until_decided(pairs, scorers, state_file, 1.0 - confidence, bar.update)
    return _result(names, pairs, values, scorers, field, parsed_metric, confidence)


def _names(score: Mapping[str, Callable[[Any, Any], Any]]) -> list[str]:
    """The names of the recommenders; ValueError unless there are two functions or more."""
    if not isinstance(score, Mapping) or len(score) < 2 or not all(map(callable, score.values())):
        got = len(score) if isinstance(score, Mapping) else type(score).__name__
        raise ValueError(f"score must map two names or more to functions, got {got}")
    names = [str(name) for name in score]
    if len(set(names)) < len(names):
        raise ValueError(f"score must map different names, got {as_written(names)}")
    return names


def _values_until_decided(
    pairs: Sequence[RacingPair],
    scorers: Sequence[_Scorer],
    state_file: _State,
    error_rate: float,
    report: Callable[[int], object],
) -> FloatArray:
    """Bet batch by batch until all pairs are decided, no user remains, or the budget is spent.

    Return the metric of each user and recommender, NaN where it was not computed.
    """
    field = scorers[0].field
    values, n_done = np.full((field.users.size, len(scorers)), np.nan), 0
    for start, stop in batches(field.users.size):
        open_scorers = {index for pair in pairs if pair.open for index in pair.both}
        if not open_scorers:
            break
        batch = np.arange(start, stop)
        if not state_file.read(values, batch, scorers):
            try:
                for index in sorted(open_scorers):
                    values[batch, index] = scorers[index].values(batch)
            except _BudgetSpentError:
                break
            field.reorder()
            state_file.write(values, stop, scorers)
        for pair in pairs:
            pair.bet(values, batch)
        _decide(pairs, error_rate)
        n_done = stop
        report(batch.size)
    return values[:n_done]


class _BudgetSpentError(Exception):
    """Raised when the next scores would exceed the budget."""


@dataclass
class _Budget:
    """The number of scores that the budget still allows."""

    scores_left: float

    def pay(self, scores: int) -> None:
        if scores > self.scores_left:
            raise _BudgetSpentError
        self.scores_left -= scores


@dataclass
class _Field:
    """The users in random order, their test items, and the items in the order of scoring.

    `seen` (n_users, n_items) is non-zero for training and test items, which are not negatives.
    `above` and `scored` (n_items,) count how often an item outscored, and was compared with, a test
    item.
    """

    users: IntArray
    test: list[IntArray]
    seen: Any
    order: IntArray
    above: FloatArray
    scored: FloatArray

    @classmethod
    def of(
        cls,
        user: IntArray,
        item: IntArray,
        train: Any,
        shape: tuple[int, int],
        rng: np.random.Generator,
    ) -> _Field:
        by_user = np.argsort(user, kind="stable")
        distinct, starts, owner = np.unique(user[by_user], return_index=True, return_inverse=True)
        test_items = np.split(item[by_user], starts[1:])
        entries = np.ones(item.size), (owner, item[by_user])
        seen = sp.csr_array(entries, shape=(distinct.size, shape[1]))
        if train is not None:
            train_items = as_csr(train, *shape)[distinct]
            overlap = train_items.multiply(seen).tocoo()
            if overlap.nnz:
                i = int(overlap.coords[0][0]), int(overlap.coords[1][0])
                raise ValueError(
                    f"test must hold no training item, got item {i[1]} of user {distinct[i[0]]}"
                )
            seen = seen + train_items
        full = np.diff(seen.indptr) >= shape[1]
        if full.any():
            raise ValueError(
                f"user {distinct[np.argmax(full)]} must have an item that is in neither test nor "
                "train, and has none"
            )
        permutation, order = rng.permutation(distinct.size), rng.permutation(shape[1])
        shuffled = [test_items[i] for i in permutation.tolist()]
        zeros = np.zeros(shape[1])
        return cls(distinct[permutation], shuffled, seen[permutation], order, zeros, zeros.copy())

    def reorder(self) -> None:
        """Score first the items that often outscored test items, so that users are dropped early.

        One more comparison at the average rate shrinks the rates of items with few comparisons.
        """
        usual = self.above.sum() / max(self.scored.sum(), 1.0)
        rate = (self.above + usual) / (self.scored + 1.0)
        self.order = self.order[np.argsort(-rate[self.order], kind="stable")]


@dataclass
class _Scorer:
    """Computes the exact metric of one recommender in rounds, and counts its scores."""

    name: str
    job: Job
    field: _Field
    metric: Metric
    budget: _Budget
    scores: int = 0

    def values(self, batch: IntArray) -> FloatArray:
        """The exact metric of each user of a batch; shape (users,)."""
        field, n_items = self.field, self.field.order.size
        test_items = [field.test[index] for index in batch.tolist()]
        n_test_items = np.array([block.size for block in test_items])
        first_entry = np.cumsum(n_test_items) - n_test_items
        owner = np.repeat(np.arange(batch.size), n_test_items)
        rows = self.job.users.rows(field.users[batch])
        if batch[0] == 0:
            self._try(rows, test_items[0])
        # Test items, best first. Items that outscore the best one outscore the others, too.
        own_scores = self._own(rows, batch, test_items)
        better, tied = np.zeros((2, own_scores.size), dtype=np.int64)
        active, start, size = np.arange(batch.size), 0, FIRST_ITEMS
        while active.size and start < n_items:
            place = np.full(batch.size, -1)
            place[active] = np.arange(active.size)
            entries = np.flatnonzero(place[owner] >= 0)
            entry_rows = place[owner[entries]]
            size = max(1, min(size, _BLOCK // entries.size))
            index = field.order[start : start + size]
            scores = self._scored(arrays.rows(rows, active), index, field.users[batch[active]])
            is_negative = field.seen[batch[active]][:, index].toarray() == 0
            block, own_score = scores[entry_rows], own_scores[entries, np.newaxis]
            is_above = (block > own_score) & is_negative[entry_rows]
            better[entries] += is_above.sum(axis=1)
            tied[entries] += ((block == own_score) & is_negative[entry_rows]).sum(axis=1)
            field.above[index] += is_above.sum(axis=0)
            field.scored[index] += is_negative[entry_rows].sum(axis=0)
            start += size
            size = start
            if self.metric.cutoff is not None:  # an item below so many adds nothing
                active = active[better[first_entry[active]] < self.metric.cutoff]
        return self._of_counts(batch, n_test_items, first_entry, own_scores, better, tied)

    def _own(self, rows: Any, batch: IntArray, test_items: Sequence[IntArray]) -> NDArray[Any]:
        """Scores of each user's test items, the highest first.

        A function scores all its users on all its items. A call for several users therefore also
        scores each of them on the test items of the others. If they have at most `OWN_ITEMS` test
        items together, these few extra scores are worth the calls saved.
        """
        own_scores, start = [], 0
        while start < batch.size:
            stop, total = start + 1, test_items[start].size
            while stop < batch.size and total + test_items[stop].size <= OWN_ITEMS:
                total += test_items[stop].size
                stop += 1
            users = self.field.users[batch[start:stop]]
            part = arrays.rows(rows, slice(start, stop))
            scores = self._scored(part, np.concatenate(test_items[start:stop]), users)
            ends = np.cumsum([user_items.size for user_items in test_items[start:stop]])
            for row, end, items in zip(scores, ends, test_items[start:stop], strict=True):
                own_scores.append(np.sort(row[end - items.size : end])[::-1])
            start = stop
        return np.concatenate(own_scores)

    def _try(self, rows: Any, items: IntArray) -> None:
        """Score the first users twice; refuse random scores, which have no exact metric."""
        rows = arrays.rows(rows, slice(0, OWN_ITEMS))
        users = self.field.users[:OWN_ITEMS]
        first_scores, second_scores = (self._scored(rows, items, users).tobytes() for _ in range(2))
        if first_scores != second_scores:
            raise ValueError(
                f"{self.name} must give the same scores at each call, got others for the same "
                "users and items: switch off dropout, or whatever it draws"
            )

    def _scored(self, rows: Any, items: IntArray, users: Sequence[int] | IntArray) -> NDArray[Any]:
        """Scores of some users and items, checked and counted; shape (users, items)."""
        shape = len(users), items.size
        self.budget.pay(shape[0] * shape[1])
        assert self.job.items is not None
        score: Any = self.job.score
        raw_scores = arrays.fetched(score(rows, self.job.items.rows(items)))
        self.scores += shape[0] * shape[1]
        try:
            scores = real_scores(raw_scores, users)
        except ValueError as problem:
            raise ValueError(f"{self.name}: {problem}") from None
        if scores.shape != shape:
            raise ValueError(f"{self.name}: scores must have shape {shape}, got {scores.shape}")
        return scores

    def _of_counts(
        self,
        batch: IntArray,
        n_test_items: IntArray,
        first_entry: IntArray,
        own_scores: FloatArray,
        better: IntArray,
        tied: IntArray,
    ) -> FloatArray:
        """The metric of each user, averaged over random orders of ties.

        The counts of a dropped user are incomplete, but large enough to make the metric exactly 0.
        """
        seen, values = self.field.seen, np.empty(batch.size)
        pool = self.field.order.size - np.diff(seen.indptr)[batch]
        for n_relevant in np.unique(n_test_items).tolist():
            batch_rows = np.flatnonzero(n_test_items == n_relevant)
            entries = first_entry[batch_rows][:, np.newaxis] + np.arange(n_relevant)
            tie_group = np.zeros((batch_rows.size, n_relevant), dtype=np.int64)
            ordered = own_scores[entries]  # compared, not subtracted: inf - inf is not 0
            tie_group[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
            sets = RelevantSets(better[entries], tied[entries], tie_group, pool[batch_rows])
            values[batch_rows] = sets.evaluate(self.metric)
        return values


class RacingPair:
    """The bets on either of two recommenders, and the verdict."""

    def __init__(self, first: int, second: int, n_users: int) -> None:
        self.both, self._n_users = (first, second), n_users
        self._shares = stakes(n_users)
        self._logs = np.zeros((2, self._shares.size))
        #: The largest log wealth so far, of the bets on the first and on the second.
        self.won = np.zeros(2)
        self.sum = 0.0
        self.users = 0
        #: 1 if the first is better, -1 if the second is, 0 if they are equal, else None.
        self.sign: int | None = None

    @property
    def open(self) -> bool:
        return self.sign is None

    def bet(self, values: FloatArray, batch: IntArray) -> None:
        """Bet on either recommender with the users of a batch."""
        if not self.open:
            return
        difference = values[batch, self.both[0]] - values[batch, self.both[1]]
        sum_before = self.sum + np.cumsum(difference) - difference
        users_left = self._n_users - batch
        for side, sign in enumerate((1.0, -1.0)):
            # Under the null hypothesis the remaining mean is at most this: mu in the module.
            mean_bound = -sign * sum_before / users_left
            stake = self._shares[:, np.newaxis] / (1.0 + np.maximum(mean_bound, 0.0))
            gain = stake * (sign * difference - np.maximum(mean_bound, -1.0))
            stake_logs = self._logs[side][:, np.newaxis] + np.cumsum(np.log1p(gain), axis=1)
            log_wealth = np.logaddexp.reduce(stake_logs, axis=0) - np.log(self._shares.size)
            # No mean is below -1: the remaining users cannot reverse the order.
            is_certain = bool((mean_bound < -1.0 - 1e-9).any())
            self.won[side] = np.inf if is_certain else max(self.won[side], float(log_wealth.max()))
            self._logs[side] = stake_logs[:, -1]
        self.sum += float(difference.sum())
        self.users = int(batch[-1]) + 1
        if self.users == self._n_users:  # no user remains: the order is known
            equal = abs(self.sum) <= 1e-12 * self._n_users
            self.sign = 0 if equal else int(np.sign(self.sum))
            self.won[:] = np.inf


def _decide(pairs: Sequence[RacingPair], error_rate: float) -> None:
    """Reach verdicts by Holm's method over two null hypotheses for each pair.

    The hypotheses are that the first is not better, and that the second is not better. A verdict
    rejects one of them. The other may be true, so it keeps its share of the error.
    """
    while True:
        open_pairs = [pair for pair in pairs if pair.open]
        log_evidence_needed = np.log((len(pairs) + len(open_pairs)) / error_rate)
        decided = [pair for pair in open_pairs if pair.won.max() >= log_evidence_needed]
        for pair in decided:
            pair.sign = 1 if pair.won[0] > pair.won[1] else -1
        if not decided:
            return


def _result(
    names: Sequence[str],
    pairs: Sequence[RacingPair],
    values: FloatArray,
    scorers: Sequence[_Scorer],
    field: _Field,
    metric: Metric,
    confidence: float,
) -> Race:
    rows = []
    for pair in pairs:
        first, second = (names[scorer_index] for scorer_index in pair.both)
        verdicts = {1: f"{first} beats {second}", -1: f"{second} beats {first}"}
        verdicts[0] = f"{first} and {second} are equal"
        verdict = _confidence.UNDECIDED if pair.sign is None else verdicts[pair.sign]
        mean = pair.sum / pair.users if pair.users else np.nan
        wealth, warrant = float(np.exp(pair.won.max())), (_confidence.NONE, _confidence.THEOREM)
        rows.append(_PairRow(first, second, verdict, mean, pair.users, wealth, *warrant))
    costs = []
    for scorer, users_values in zip(scorers, values.T, strict=True):
        known_values = users_values[~np.isnan(users_values)]
        cost = {
            "recommender": scorer.name,
            metric.name: float(known_values.mean()) if known_values.size else np.nan,
            "users": known_values.size,
            "scores": scorer.scores,
            "share": scorer.scores / (field.users.size * field.order.size),
        }
        costs.append(cost)
    settings = {
        "metric": metric.name,
        "confidence": confidence,
        "n_users": field.users.size,
        "n_items": field.order.size,
    }
    return Race(table_of(_PairRow, rows), settings, costs=pd.DataFrame(costs))


#: The arrays of a state file.
_STATE = ("mark", "values", "scores", "order", "above", "scored")


class _State:
    """The state file, from which an interrupted race resumes."""

    def __init__(
        self,
        path: str | Path | None,
        names: Sequence[str],
        field: _Field,
        metric: Metric,
        confidence: float,
        budget: _Budget,
    ) -> None:
        self._path, self._field = None if path is None else Path(path), field
        self._values, self._scores = np.empty((0, 0)), np.empty(0)
        inputs = (
            list(names),
            metric.name,
            confidence,
            field.seen.shape,
            [items.size for items in field.test],
        )
        mark = hashlib.sha256(repr(inputs).encode())
        seen = field.seen.indptr, field.seen.indices
        for part in (field.users, *field.test, field.order, *seen):
            mark.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        self._mark = mark.hexdigest()
        if self._path is None or not self._path.exists():
            return
        try:
            with np.load(io.BytesIO(self._path.read_bytes()), allow_pickle=False) as file:
                saved = {name: file[name] for name in _STATE}
        except Exception:  # whatever the reader of a damaged archive says
            raise ValueError(f"{self._path} must be the state of a race, and is not") from None
        if str(saved["mark"]) != self._mark:
            raise ValueError(
                f"{self._path} is the state of another race: name another file, or remove it"
            )
        self._values, self._scores = saved["values"], saved["scores"]
        field.order, field.above, field.scored = (saved[name] for name in _STATE[3:])
        budget.scores_left -= float(self._scores.sum())

    def read(self, values: FloatArray, batch: IntArray, scorers: Sequence[_Scorer]) -> bool:
        """Restore the values of a batch from the file; False if they are not there."""
        if batch[-1] >= len(self._values):
            return False
        values[batch] = self._values[batch]
        for scorer, scores in zip(scorers, self._scores.astype(np.int64).tolist(), strict=True):
            scorer.scores = scores
        return True

    def write(self, values: FloatArray, done: int, scorers: Sequence[_Scorer]) -> None:
        if self._path is None:
            return
        field, content = self._field, io.BytesIO()
        scores = np.array([scorer.scores for scorer in scorers], dtype=np.int64)
        state = np.array(self._mark), values[:done], scores, field.order, field.above, field.scored
        arrays: dict[str, Any] = dict(zip(_STATE, state, strict=True))
        np.savez(content, **arrays)
        try:
            put(self._path, content.getvalue())
        except OSError as problem:
            raise ValueError(f"{self._path} cannot be written: {problem.strerror}") from None

"""Score until it is decided: which recommender is better, with as few scores as possible.

A metric with a cut-off k is 0 for an item that k others outscore. So a user's items are scored in
rounds, each as large as all before it, until k of them are above the held-out item or none is left.
Either way the user's metric is then known exactly, and nothing has to be corrected or assumed. Most
users are finished after a few rounds.

Users come in a random order. After each batch of them, bets on the difference of two recommenders'
metrics say whether those who are left can still turn the order around (waudbysmith2024). Given the
users before, the next one is drawn at random from those left. If A is not better than B over all N
users and S is the sum of the differences of the first t, the differences of those left have a mean
of at most mu = -S / (N - t). A stake of lambda turns a capital of 1 into the product of
1 + lambda (d - mu), whose expectation is at most 1 for the next user whatever happened before. By
Ville's inequality it ever exceeds 1 / error with at most that probability. So one may look after
each batch, and stop when one likes.
"""

from __future__ import annotations

import hashlib
import io
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _arrays, _progress, _promises
from ._sharded import Job
from ._validate import FloatArray, IntArray, as_written, generator, integer, real_scores
from .io.files import put
from .io.logs import _loaded
from .io.readers import Table, _load_train, _pairs, _refuse_twice
from .metrics import Metric
from .metrics import metric as parsed
from .ranking import _as_csr
from .relevant_sets import RelevantSets
from .results import Race

#: Items of the first round.
_FIRST = 16
#: Users of the first batch, and what part of those before are in a later one.
_USERS, _PART = 64, 4
#: The largest stake, as a share of one that can lose everything; each other one is half of another.
_MOST = 0.8
#: Test items of users who are scored in one call for them, if they are several.
_OWN = 4
#: Scores held at once.
_BLOCK = 1 << 22


def race(
    score: Mapping[str, Callable[[Any, Any], Any]],
    users: Any,
    items: Any,
    test: Table,
    train: Table | sp.sparray | None = None,
    *,
    metric: Metric | str = "ndcg@10",
    confidence: float = 0.95,
    budget: int | None = None,
    seed: int | np.random.Generator = 0,
    state: str | Path | None = None,
    progress: bool = False,
) -> Race:
    """Find out which recommender is better on all items, and score no more than that takes.

    **Guarantee.** Whatever the recommenders, the users and the metric are, with a probability of at
    least `confidence` no verdict differs from the order of the exact metrics averaged over all
    users of `test`: the order that ranking all items for all of them would give. The probability is
    that of the random order of the users. Nothing is assumed of the ranks.

    Parameters
    ----------
    score : mapping of str to callable
        For each recommender a function that gets some rows of `users` and some of `items` and
        returns a matrix of all their scores, as for :func:`~sampled_metrics.io.readers.rank_files`.
        The highest is the best. Scores are compared as they are, and a user's value is the mean
        over all orders of equal ones.
    users, items : array_like or int
        A row for each, or how many there are: the functions then get numbers counted from 0.
    test : DataFrame, or CSV or Parquet file
        Columns user and item: rows of the two, counted from 0. A user may have several test items.
    train : DataFrame, file or sparse matrix, optional
        Items that are no candidates: columns user and item, or a matrix of SciPy (or its ``.npz``
        file) with a row for each user and a column for each item.
    metric : Metric or str
        With a cut-off users are left when that many items are above their own. Without one, every
        user who is looked at has all items scored.
    confidence : float
        In (0, 1), that all verdicts are right.
    budget : int, optional
        Scores of all recommenders together that may be computed, at least 1.
    seed : int or numpy.random.Generator
        Of the order of the users and of the items. Choose it before looking at any result.
    state : str or Path, optional
        A file that the values of finished users are written to after each batch. If it is there, a
        call with the same inputs goes on after them. The budget may differ; it counts the scores
        of the calls before, too. Whether the functions are the same cannot be seen.
    progress : bool
        Show a progress bar on the error stream.

    Returns
    -------
    Race
        Its frame has a row for each pair, with the columns

        - *first*, *second*, and *verdict*: "A beats B", "A and B are equal" where all users were
          ranked, or "unknown" where the budget was spent before
        - *difference* of the mean metrics, first less second, of the users who were looked at
        - *users*: how many these are
        - *wealth*: the most that bets on the better one were worth after any user, of 1 at first;
          infinite if no user who is left can turn the order around
        - *assumption* and *warrant*, as of :func:`~sampled_metrics.evaluation.compare`.

        Its `costs` have a row for each recommender: its mean metric, users, scores computed, and
        the share of the scores for ranking all items.

    Raises
    ------
    ValueError
        If there are fewer than two recommenders, a score is no real number or differs from call to
        call, a user or an item is not there, a row stands twice, a test item is a training item, a
        user has no other item, a number is out of its range, or `state` is of another race.

    See Also
    --------
    sampled_metrics.io.readers.rank_files : The exact rank of each item.
    sampled_metrics.planning.plan : How many scores a race will take, from a log.
    sampled_metrics.evaluation.compare : Verdicts on a log of sampled ranks.

    Notes
    -----
    The items that most often stood above the test items of earlier users come first. Their order,
    and whether users share it, changes what a race costs and nothing else.

    Several pairs share the error by Holm's rule. The two sides of a pair are two hypotheses, and a
    verdict rejects one of them, so that of m pairs with o undecided the wealth has to reach
    (m + o) / (1 - confidence).

    References
    ----------
    waudbysmith2024 : Betting on means, also of a finite population without replacement.

    Examples
    --------
    The first recommender puts a user's item around rank 40 of 2,000, the second around rank 200:

    >>> def scorer(seed, spread):
    ...     noise = np.random.default_rng(seed).normal(0.0, spread, size=400)
    ...     return lambda users, items: -abs(items - (users * 5 + noise[users])[:, None])
    >>> test = pd.DataFrame({"user": range(400), "item": range(0, 2_000, 5)})
    >>> found = race({"near": scorer(1, 20), "far": scorer(2, 100)}, 400, 2_000, test)
    >>> found.frame[["first", "second", "verdict"]]
      first second         verdict
    0  near    far  near beats far
    >>> bool(found.costs["share"].sum() < 0.3)
    True
    """
    of = parsed(metric)
    if not isinstance(score, Mapping) or len(score) < 2 or not all(map(callable, score.values())):
        raise ValueError(
            "score must map two names or more to functions, got "
            + (f"{len(score)}" if isinstance(score, Mapping) else type(score).__name__)
        )
    if not isinstance(confidence, numbers.Real) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {as_written(confidence)}")
    names = [str(name) for name in score]
    if len(set(names)) < len(names):
        raise ValueError(f"score must map different names, got {as_written(names)}")
    if state is not None and not isinstance(state, (str, Path)):
        raise ValueError(f"state must be the path of a file, got {as_written(state)}")
    jobs = [Job.of(users, items, each, None, 0.0) for each in score.values()]
    rows, source = _loaded(test, "test")
    user, item = _pairs(rows, source, jobs[0].shape)
    _refuse_twice(pd.DataFrame({"user": user, "item": item}), ["user", "item"], source)
    rng = generator(seed)
    seen = train if sp.issparse(train) else _load_train(train, jobs[0].shape)
    field = _Field.of(user, item, seen, jobs[0].shape, rng)
    spent = _Spent(np.inf if budget is None else integer(budget, "budget", 1))
    scorers = [_Scorer(name, job, field, of, spent) for name, job in zip(names, jobs, strict=True)]
    kept = _Kept.of(state, names, field, of, float(confidence), spent)
    pairs = [_Pair(*pair, field.users.size) for pair in combinations(range(len(names)), 2)]
    values = np.full((field.users.size, len(names)), np.nan)
    done = 0
    bar = _progress.bar(total=field.users.size, desc="race", unit="user", show=progress)
    with bar:
        for start, stop in _batches(field.users.size):
            if not any(pair.open for pair in pairs):
                break
            batch = np.arange(start, stop)
            needed = sorted({one for pair in pairs if pair.open for one in pair.both})
            if not kept.read(values, batch, scorers):
                try:
                    for one in needed:
                        values[batch, one] = scorers[one].values(batch)
                except _SpentError:
                    break
                field.reorder()
                kept.write(values, stop, scorers)
            for pair in pairs:
                pair.bet(values, batch)
            _decide(pairs, 1.0 - confidence)
            done = stop
            bar.update(batch.size)
    return _result(names, pairs, values[:done], scorers, field, of, float(confidence))


class _SpentError(Exception):
    """The next scores would exceed the budget."""


@dataclass
class _Spent:
    """How many scores may still be computed."""

    left: float

    def pay(self, scores: int) -> None:
        if scores > self.left:
            raise _SpentError
        self.left -= scores


@dataclass
class _Field:
    """Who is ranked among what, and in which order.

    Attributes
    ----------
    users : ndarray of int, shape (n_users,)
        Those with test items, in random order.
    test : list of ndarray of int
        The test items of each.
    seen : sparse matrix, shape (n_users, n_items)
        Items of each that are no negatives: of training or test.
    order : ndarray of int, shape (n_items,)
        In which items are scored.
    above, scored : ndarray of float, shape (n_items,)
        How often each item was above a test item, and how often it was scored.
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
        held = np.split(item[by_user], starts[1:])
        entries = np.ones(item.size), (owner, item[by_user])
        seen = sp.csr_array(entries, shape=(distinct.size, shape[1]))
        if train is not None:
            before = _as_csr(train, *shape)[distinct]
            both = before.multiply(seen).tocoo()
            if both.nnz:
                at = int(both.coords[0][0]), int(both.coords[1][0])
                raise ValueError(
                    f"test must hold no training item, got item {at[1]} of user {distinct[at[0]]}"
                )
            seen = seen + before
        none = np.diff(seen.indptr) >= shape[1]
        if none.any():
            raise ValueError(
                f"user {distinct[np.argmax(none)]} must have an item that is in neither test nor "
                "train, and has none"
            )
        place = rng.permutation(distinct.size)
        zeros = np.zeros(shape[1])
        return cls(
            distinct[place],
            [held[at] for at in place.tolist()],
            seen[place],
            rng.permutation(shape[1]),
            zeros,
            zeros.copy(),
        )

    def reorder(self) -> None:
        """Put the items first that were most often above."""
        usual = self.above.sum() / max(self.scored.sum(), 1.0)
        rate = (self.above + usual) / (self.scored + 1.0)
        self.order = self.order[np.argsort(-rate[self.order], kind="stable")]


class _Scorer:
    """A recommender's metric for some users, by as few scores as that takes."""

    def __init__(self, name: str, job: Job, field: _Field, of: Metric, spent: _Spent) -> None:
        self.name, self._job, self._field, self._of, self._spent = name, job, field, of, spent
        self.scores = 0
        #: An item with so many above it adds nothing to the metric.
        self._enough = 1 if of.kind == "accuracy" else of.k

    def values(self, batch: IntArray) -> FloatArray:
        """The metric of each user of a batch, exactly; shape (users,)."""
        field, n_items = self._field, self._field.order.size
        held = [field.test[at] for at in batch.tolist()]
        many = np.array([each.size for each in held])
        first = np.cumsum(many) - many
        owner = np.repeat(np.arange(batch.size), many)
        rows = self._job.users.rows(field.users[batch])
        if batch[0] == 0:
            self._try(rows, held[0])
        # A user's items by their scores, the best first: it is the last to have enough above it.
        own = self._own(rows, batch, held)
        better, tied = np.zeros((2, own.size), dtype=np.int64)
        active, start, size = np.arange(batch.size), 0, _FIRST
        while active.size and start < n_items:
            place = np.full(batch.size, -1)
            place[active] = np.arange(active.size)
            entries = np.flatnonzero(place[owner] >= 0)
            of_user = place[owner[entries]]
            size = max(1, min(size, _BLOCK // entries.size))
            at = field.order[start : start + size]
            found = self._scored(_arrays.rows(rows, active), at, field.users[batch[active]])
            usable = field.seen[batch[active]][:, at].toarray() == 0
            each, rank = found[of_user], own[entries, np.newaxis]
            above = (each > rank) & usable[of_user]
            better[entries] += above.sum(axis=1)
            tied[entries] += ((each == rank) & usable[of_user]).sum(axis=1)
            field.above[at] += above.sum(axis=0)
            field.scored[at] += usable[of_user].sum(axis=0)
            start += size
            size = start
            if self._enough is not None:
                active = active[better[first[active]] < self._enough]
        return self._of_counts(batch, many, first, own, better, tied)

    def _own(self, rows: Any, batch: IntArray, held: Sequence[IntArray]) -> NDArray[Any]:
        """Scores of each user's test items, the highest first.

        A function scores all pairs of what it gets, so users share a call only if they have few
        test items together: that spends some more scores, and saves most of the calls.
        """
        found, start = [], 0
        while start < batch.size:
            stop, total = start + 1, held[start].size
            while stop < batch.size and total + held[stop].size <= _OWN:
                total += held[stop].size
                stop += 1
            users = self._field.users[batch[start:stop]]
            scores = self._scored(
                _arrays.rows(rows, slice(start, stop)), np.concatenate(held[start:stop]), users
            )
            ends = np.cumsum([each.size for each in held[start:stop]])
            for row, end, items in zip(scores, ends, held[start:stop], strict=True):
                found.append(np.sort(row[end - items.size : end])[::-1])
            start = stop
        return np.concatenate(found)

    def _try(self, rows: Any, items: IntArray) -> None:
        """Refuse a function that draws: the exact metric would depend on when it is asked."""
        rows = _arrays.rows(rows, slice(0, _OWN))
        users = self._field.users[:_OWN]
        once, again = (self._scored(rows, items, users).tobytes() for _ in range(2))
        if once != again:
            raise ValueError(
                f"{self.name} must give the same scores at each call, got others for the same "
                "users and items: switch off dropout, or whatever it draws"
            )

    def _scored(self, rows: Any, items: IntArray, users: Sequence[int] | IntArray) -> NDArray[Any]:
        """Scores of some users and items, checked and counted; (users, items)."""
        shape = len(users), items.size
        self._spent.pay(shape[0] * shape[1])
        assert self._job.items is not None
        score: Any = self._job.score
        given = _arrays.fetched(score(rows, self._job.items.rows(items)))
        self.scores += shape[0] * shape[1]
        try:
            found = real_scores(given, users)
        except ValueError as problem:
            raise ValueError(f"{self.name}: {problem}") from None
        if found.shape != shape:
            raise ValueError(f"{self.name}: scores must have shape {shape}, got {found.shape}")
        return found

    def _of_counts(
        self,
        batch: IntArray,
        many: IntArray,
        first: IntArray,
        own: FloatArray,
        better: IntArray,
        tied: IntArray,
    ) -> FloatArray:
        """The metric, with ties broken at random; of users left early it is 0, as it is exactly."""
        seen, values = self._field.seen, np.empty(batch.size)
        pool = self._field.order.size - np.diff(seen.indptr)[batch]
        for relevant in np.unique(many).tolist():
            at = np.flatnonzero(many == relevant)
            entries = first[at][:, np.newaxis] + np.arange(relevant)
            level = np.zeros((at.size, relevant), dtype=np.int64)
            ordered = own[entries]  # no differences: two infinite scores have none
            level[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
            sets = RelevantSets(better[entries], tied[entries], level, pool[at])
            values[at] = sets.evaluate(self._of)
        return values


def _batches(n_users: int) -> Iterator[tuple[int, int]]:
    """The first user of each batch, and the one after its last.

    Examples
    --------
    >>> list(_batches(200))
    [(0, 64), (64, 128), (128, 192), (192, 200)]
    """
    start = 0
    while start < n_users:
        stop = min(n_users, start + max(_USERS, start // _PART))
        yield start, stop
        start = stop


def _stakes(n_users: int) -> FloatArray:
    """What is bet at once on differences of so many users, as shares of what can be bet.

    The best stake is about the mean of the differences over that of their squares. The smallest is
    for a mean that so many users can just show.

    Examples
    --------
    >>> _stakes(1_000)
    array([0.8, 0.4, 0.2, 0.1])
    """
    return _MOST * 2.0 ** -np.arange(1.0 + max(0, int(np.log2(0.4 * np.sqrt(n_users)))))


class _Pair:
    """Bets on which of two recommenders is better."""

    def __init__(self, first: int, second: int, n_users: int) -> None:
        self.both, self._n_users = (first, second), n_users
        self._shares = _stakes(n_users)
        self._logs = np.zeros((2, self._shares.size))
        self.won = np.zeros(2)
        self.sum = 0.0
        self.users = 0
        #: 1 if the first is better, -1 if the second is, 0 if they are equal, else None.
        self.sign: int | None = None

    @property
    def open(self) -> bool:
        return self.sign is None

    def bet(self, values: FloatArray, batch: IntArray) -> None:
        """Bet on the users of a batch, both ways."""
        if not self.open:
            return
        difference = values[batch, self.both[0]] - values[batch, self.both[1]]
        before = self.sum + np.cumsum(difference) - difference
        left = self._n_users - batch
        for side, sign in enumerate((1.0, -1.0)):
            # The most that the mean of those left can be if the side is not the better one.
            most = -sign * before / left
            stake = self._shares[:, np.newaxis] / (1.0 + np.maximum(most, 0.0))
            gain = stake * (sign * difference - np.maximum(most, -1.0))
            logs = self._logs[side][:, np.newaxis] + np.cumsum(np.log1p(gain), axis=1)
            wealth = np.logaddexp.reduce(logs, axis=0) - np.log(self._shares.size)
            certain = bool((most < -1.0 - 1e-9).any())
            self.won[side] = np.inf if certain else max(self.won[side], float(wealth.max()))
            self._logs[side] = logs[:, -1]
        self.sum += float(difference.sum())
        self.users = int(batch[-1]) + 1
        if self.users == self._n_users:  # all are known
            equal = abs(self.sum) <= 1e-12 * self._n_users
            self.sign = 0 if equal else int(np.sign(self.sum))
            self.won[:] = np.inf


def _decide(pairs: Sequence[_Pair], error: float) -> None:
    """Verdicts by Holm's rule over the two sides of each pair.

    A verdict says that one side of a pair is false. Its other side may still be true, so a decided
    pair frees a share of the error for one side and not for two.
    """
    while True:
        still = [pair for pair in pairs if pair.open]
        need = np.log((len(pairs) + len(still)) / error)
        found = [pair for pair in still if pair.won.max() >= need]
        for pair in found:
            pair.sign = 1 if pair.won[0] > pair.won[1] else -1
        if not found:
            return


def _result(
    names: Sequence[str],
    pairs: Sequence[_Pair],
    values: FloatArray,
    scorers: Sequence[_Scorer],
    field: _Field,
    of: Metric,
    confidence: float,
) -> Race:
    rows = []
    for pair in pairs:
        first, second = (names[at] for at in pair.both)
        verdict = {
            1: f"{first} beats {second}",
            -1: f"{second} beats {first}",
            0: f"{first} and {second} are equal",
            None: "unknown",
        }[pair.sign]
        rows.append(
            {
                "first": first,
                "second": second,
                "verdict": verdict,
                "difference": pair.sum / pair.users if pair.users else np.nan,
                "users": pair.users,
                "wealth": float(np.exp(pair.won.max())),
                "assumption": _promises.NONE,
                "warrant": _promises.PROVED,
            }
        )
    full, costs = field.users.size * field.order.size, []
    for at, one in enumerate(scorers):
        known = values[~np.isnan(values[:, at]), at]
        mean = float(known.mean()) if known.size else np.nan
        cost: dict[str, object] = {"recommender": one.name, of.name: mean, "users": known.size}
        costs.append(cost | {"scores": one.scores, "share": one.scores / full})
    settings = {
        "metric": of.name,
        "confidence": confidence,
        "n_users": field.users.size,
        "n_items": field.order.size,
    }
    return Race(pd.DataFrame(rows), settings, costs=pd.DataFrame(costs))


class _Kept:
    """The file that a race goes on from."""

    def __init__(self, path: Path | None, mark: str) -> None:
        self._path, self._mark = path, mark
        self._values, self._scores = np.empty((0, 0)), np.empty(0)

    @classmethod
    def of(
        cls,
        path: str | Path | None,
        names: Sequence[str],
        field: _Field,
        of: Metric,
        confidence: float,
        spent: _Spent,
    ) -> _Kept:
        said = list(names), of.name, confidence, field.seen.shape, [at.size for at in field.test]
        mark = hashlib.sha256(repr(said).encode())
        seen = field.seen.indptr, field.seen.indices
        for part in (field.users, *field.test, field.order, *seen):
            mark.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        kept = cls(None if path is None else Path(path), mark.hexdigest())
        kept._load(field, spent)
        return kept

    def _load(self, field: _Field, spent: _Spent) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            content = io.BytesIO(self._path.read_bytes())
            with np.load(content, allow_pickle=False) as found:
                mark, self._values = str(found["mark"]), found["values"]
                self._scores = found["scores"]
                order, above, scored = found["order"], found["above"], found["scored"]
        except Exception:  # whatever the reader of a damaged archive says
            raise ValueError(f"{self._path} must be the state of a race, and is not") from None
        if mark != self._mark:
            raise ValueError(
                f"{self._path} is the state of another race: name another file, or remove it"
            )
        field.order, field.above, field.scored = order, above, scored
        spent.left -= float(self._scores.sum())

    def read(self, values: FloatArray, batch: IntArray, scorers: Sequence[_Scorer]) -> bool:
        """Take the values of a batch from the file, if it has them."""
        if batch[-1] >= len(self._values):
            return False
        values[batch] = self._values[batch]
        for one, scores in zip(scorers, self._scores.astype(int).tolist(), strict=True):
            one.scores = scores
        return True

    def write(self, values: FloatArray, done: int, scorers: Sequence[_Scorer]) -> None:
        if self._path is None:
            return
        field, content = scorers[0]._field, io.BytesIO()
        np.savez(
            content,
            mark=np.array(self._mark),
            values=values[:done],
            scores=np.array([one.scores for one in scorers]),
            order=field.order,
            above=field.above,
            scored=field.scored,
        )
        try:
            put(self._path, content.getvalue())
        except OSError as problem:
            raise ValueError(f"{self._path} cannot be written: {problem.strerror}") from None

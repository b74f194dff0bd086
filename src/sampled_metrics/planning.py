"""How large a sampled evaluation has to be before its verdict on two recommenders can be trusted.

A plan starts from two distributions of true ranks, known or guessed: those of recommenders that
were ranked exactly before, or those fitted to a sampled log. Users are drawn from them, and
negatives for each user; the right verdict is the order of the exact metric's averages over the
distributions. So the exact evaluation of a few users can be wrong as well, and has its own row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from tqdm import tqdm

from . import estimators as corrections
from ._validate import FloatArray, IntArray, integer, integers
from .consistency import Verdict, negatives_needed, order
from .estimators import Estimator
from .logs import Log
from .metrics import Metric
from .protocol import Protocol, log_law

#: True ranks of users, or the probability of each rank that has any.
Ranks = ArrayLike | Mapping[int, float]

#: What a plan compares. Gamma of bias-variance is one over the root of the number of users, as in
#: :func:`~sampled_metrics.evaluation.estimate`.
ESTIMATORS: dict[str, Callable[[Metric, Protocol, int], Estimator]] = {
    "naive": lambda metric, protocol, users: corrections.naive(metric, protocol),
    "rank estimate": lambda metric, protocol, users: corrections.rank_estimate(metric, protocol),
    "monotone": lambda metric, protocol, users: corrections.monotone(metric, protocol),
    "bias-variance": lambda metric, protocol, users: corrections.bias_variance(
        metric, protocol, users**-0.5
    ),
}

#: Users of a plan, and counts that its tables show, at most.
_MOST_USERS, _MOST_COUNT = 10**12, 2**62

#: Name of the evaluation that ranks all items.
EXACT = "exact"


def verdict(first: Ranks, second: Ranks, estimator: Estimator, n_users: int) -> Verdict:
    """How often an evaluation of so many users finds the order of two distributions of ranks.

    Unlike :func:`sampled_metrics.consistency.verdict`, which judges one fixed set of users, the
    users are drawn too: the variance of one user's difference is that of its expectation from user
    to user and, on average over users, that of the two sampled values, whose negatives are
    independent.

    Parameters
    ----------
    first, second : array_like of int, shape (n,), or mapping of int to float
        The distributions of true ranks under each recommender. Two arrays are the ranks of the
        same users, who are drawn as pairs. A mapping gives the probabilities of the ranks that have
        any; a user's two ranks are then drawn independently, which overstates the variance where
        the recommenders do well for the same users.
    estimator : Estimator
        What the evaluation reports; one catalogue size, one relevant item.
    n_users : int
        Users that are averaged over, at least 1.

    Returns
    -------
    Verdict

    Raises
    ------
    ValueError
        If a distribution is empty, does not sum to 1 or has ranks out of range, two arrays differ
        in length, `n_users` is below 1, there are several relevant items or catalogue sizes, or
        the exact averages are equal.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> ap = corrections.naive(metric("ap"), Protocol(n_items=1_000, n_negatives=200))
    >>> found = verdict([3, 30], [8, 20], ap, n_users=100)
    >>> round(found.exact, 3), round(found.probability, 3), found.users()
    (0.096, 0.998, 33)
    """
    pair = _Pair.of(first, second, estimator.metric, _one_size(estimator.protocol))
    return pair.verdict(estimator, n_users)


def plan(
    first: Ranks,
    second: Ranks,
    metric: Metric,
    n_items: int,
    n_users: int,
    n_negatives: int = 100,
    *,
    estimators: Sequence[str] = tuple(ESTIMATORS),
    confidence: float = 0.95,
    max_negatives: int | None = None,
    replacement: bool = True,
    progress: bool = False,
) -> pd.DataFrame:
    """How many negatives, or how many users, until the verdict on two recommenders is right.

    Parameters
    ----------
    first, second : array_like of int, or mapping of int to float
        Distributions of true ranks in 1..n_items, as for :func:`verdict`.
    metric : Metric
    n_items : int
        Candidates of each user, the relevant item included; at least 3.
    n_users : int
        Users of the evaluation, at least 1.
    n_negatives : int
        Negatives per user that the evaluation has if only users are added.
    estimators : sequence of str
        Keys of :data:`ESTIMATORS`.
    confidence : float
        Probability of the right verdict to reach, in [0.5, 1).
    max_negatives : int, optional
        Most negatives to consider; by default 1,000, or ``n_items - 1`` if that is less. (The time
        that a correction takes grows with the cube.)
    replacement : bool
        Whether negatives are drawn with replacement.
    progress : bool
        Show a progress bar on the error stream.

    Returns
    -------
    pandas.DataFrame
        A row for each estimator and a last one, ``exact``, for ranking all items. Columns:
        estimator; probability (of the right verdict with `n_users` and `n_negatives`);
        negatives_needed (with `n_users`: the fewest from which on `confidence` is kept up to
        `max_negatives`, looked at in steps of 1, 2, 5, 10, ... and refined in the last of them; NA
        if it is not reached); scores_by_negatives (scores to compute for one recommender with
        these: users times negatives and 1); users_needed (with `n_negatives`; NA if the expected
        order is wrong, so that more users make the wrong verdict surer); scores_by_users. The
        scores of the row ``exact`` are users times `n_items`. Counts above 2**62 are NA.

    Raises
    ------
    ValueError
        As :func:`verdict`, or if an estimator is unknown or a number out of range.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> better, worse = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
    >>> found = plan(better, worse, metric("ndcg@10"), n_items=1_000, n_users=50)
    >>> found[["estimator", "probability", "negatives_needed", "users_needed"]].round(2)
           estimator  probability  negatives_needed  users_needed
    0          naive         0.49               246          <NA>
    1  rank estimate         1.00                47            13
    2       monotone         1.00                47            11
    3  bias-variance         1.00                32             9
    4          exact         1.00              <NA>             7
    """
    pair = _Pair.of(first, second, metric, integer(n_items, "n_items", 3))
    users = integer(n_users, "n_users", 1, _MOST_USERS)
    most = None if replacement else pair.n_items - 1
    drawn = integer(n_negatives, "n_negatives", 1, most)
    last = min(1_000, pair.n_items - 1) if max_negatives is None else max_negatives
    grid = steps(integer(last, "max_negatives", 1, most))
    names = _known(estimators)
    rows = []
    for name in tqdm(names, desc="plan", unit="estimator", disable=not progress):
        at = _Judged(pair, name, users, replacement)
        now = at(drawn)
        rows.append((name, now.probability, _kept_from(at, grid, confidence), now))
    full = pair.exact(users)
    rows.append((EXACT, full.probability, None, full))
    return _frame(rows, users, drawn, pair.n_items, confidence)


def curve(
    first: Ranks,
    second: Ranks,
    metric: Metric,
    n_items: int,
    n_users: ArrayLike,
    n_negatives: ArrayLike,
    *,
    estimators: Sequence[str] = tuple(ESTIMATORS),
    replacement: bool = True,
    progress: bool = False,
) -> pd.DataFrame:
    """Probability of the right verdict by the numbers of negatives and of users.

    Parameters
    ----------
    first, second, metric, n_items, estimators, replacement, progress
        As for :func:`plan`.
    n_users, n_negatives : int or array_like of int
        All their combinations are judged, each with its own gamma of bias-variance.

    Returns
    -------
    pandas.DataFrame
        Columns estimator, n_negatives (NA for ``exact``), n_users, probability and scores (to
        compute for one recommender).

    Raises
    ------
    ValueError
        As :func:`plan`.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> better, worse = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
    >>> curve(better, worse, metric("ap"), 1_000, 50, [10, 100], estimators=["naive"]).round(3)
      estimator  n_negatives  n_users  probability  scores
    0     naive           10       50        0.014     550
    1     naive          100       50        0.922    5050
    2     exact         <NA>       50        1.000   50000
    """
    pair = _Pair.of(first, second, metric, integer(n_items, "n_items", 3))
    users = np.unique(integers(n_users, "n_users", 1, _MOST_USERS)).tolist()
    negatives = np.unique(integers(n_negatives, "n_negatives", 1)).tolist()
    rows: list[tuple[str, int | None, int, float, int]] = []
    for name in tqdm(_known(estimators), desc="curve", unit="estimator", disable=not progress):
        for u in users:
            at = _Judged(pair, name, u, replacement)
            rows += [(name, m, u, at(m).probability, u * (m + 1)) for m in negatives]
    rows += [(EXACT, None, u, pair.exact(u).probability, u * pair.n_items) for u in users]
    if max(row[-1] for row in rows) > _MOST_COUNT:
        raise ValueError(f"n_users * n_items and n_users * n_negatives must be <= {_MOST_COUNT}")
    columns = ["estimator", "n_negatives", "n_users", "probability", "scores"]
    return pd.DataFrame(rows, columns=columns).astype({"n_negatives": "Int64"})


def steps(last: int) -> list[int]:
    """1, 2, 5, 10, 20, ... up to and with `last`, at least 1: where a plan looks.

    Examples
    --------
    >>> steps(30)
    [1, 2, 5, 10, 20, 30]
    """
    decades = range(len(str(last)))
    return [s for d in decades for f in (1, 2, 5) if (s := f * 10**d) < last] + [last]


def around(n_users: int) -> list[int]:
    """Numbers of users from a tenth to ten times as many, at least 1.

    Examples
    --------
    >>> around(30)
    [3, 6, 15, 30, 60, 150, 300]
    """
    factors = (0.1, 0.2, 0.5, 1, 2, 5, 10)
    return sorted({max(1, round(factor * n_users)) for factor in factors})


def fitted(log: Log, n_items: int, *, progress: bool = False) -> dict[str, dict[int, float]]:
    """For each recommender of a log the most even distribution of true ranks that fits it.

    It is that of :func:`~sampled_metrics.priors.maximum_entropy`, on fewer ranks: 1 to 100 each,
    and then every fiftieth part further on, the mass in between going to the two neighbours so that
    the mean stays. (The most likely distribution has a few ranks only, and a metric of the top
    ranks depends on whether one of them is there.) Users have the share of the candidates above
    their item that they have in the log, whatever the size of the catalogue. What is finer than
    the sampled ranks the log does not say: see :mod:`sampled_metrics.identification`.

    Parameters
    ----------
    log : Log
        From :func:`~sampled_metrics.logs.read_log`; one relevant item for each user. Where users
        differ in the number of negatives, the fit is to the law of as many of them as everyone
        has: of those, any so many are a sample of the same kind.
    n_items : int
        Candidates in the catalogue that is planned for, more than the log's negatives.
    progress : bool
        Show a progress bar on the error stream.

    Returns
    -------
    dict of str to dict of int to float
        Under the name of each recommender the ranks in 1..n_items that have any probability.

    Raises
    ------
    ValueError
        If a user has several relevant items, or there are not enough items.

    Examples
    --------
    >>> from sampled_metrics.logs import read_log
    >>> rows = pd.DataFrame({"user": [1, 2, 3, 4], "rank": [1, 1, 1, 5]})
    >>> found = fitted(read_log(rows, n_items=50, n_negatives=4), 101)
    >>> len(found["recommender"]), round(sum(found["recommender"].values()), 9)
    (101, 1.0)
    """
    from . import priors  # no other function here needs its solvers

    rows = log.frame
    if (rows["n_relevant"] > 1).any():
        raise ValueError("a plan needs a log with one relevant item for each user")
    negatives = int(rows["n_negatives"].min())
    least = 2 if log.replacement else negatives + 1
    protocol = Protocol(integer(n_items, "n_items", least), negatives, log.replacement)
    found, grid = {}, _grid(n_items)
    for name in tqdm(log.recommenders, desc="fit", unit="recommender", disable=not progress):
        counts = np.zeros(negatives + 1)
        own = rows[rows["recommender"] == name]
        for m in own["n_negatives"].unique().tolist():
            counts += _counts(own[own["n_negatives"] == m], m) @ _thinned(m, negatives)
        mass = np.asarray(priors.maximum_entropy(counts, protocol).mass)
        found[name] = dict(zip(grid.tolist(), _condensed(mass, grid).tolist(), strict=True))
    return found


def _counts(rows: pd.DataFrame, m: int) -> FloatArray:
    """Users with 0, 1, ..., m negatives above their item, in equal parts for each order of ties."""
    above, tied = rows["n_better"].to_numpy(), rows["n_tied"].to_numpy()
    changes = np.zeros(m + 2)
    np.add.at(changes, above, 1 / (tied + 1.0))
    np.add.at(changes, above + tied + 1, -1 / (tied + 1.0))
    return np.asarray(np.maximum(np.cumsum(changes)[:-1], 0.0))


def _thinned(m: int, fewer: int) -> FloatArray:
    """Law of how many of `fewer` negatives are above the item, given how many of the m are."""
    above = np.arange(m + 1)[:, np.newaxis]
    return np.asarray(np.exp(log_law(np.arange(fewer + 1), fewer, above, np.int64(m), False)))


def _grid(n_items: int) -> IntArray:
    """Ranks that are enough for a smooth distribution: all of the first, then fewer and fewer."""
    far = max(n_items, 101)
    points = np.geomspace(100, far, 2 + int(50 * np.log(far / 100)))
    near = np.concatenate([np.arange(1, 101), points.round().astype(np.int64), [n_items]])
    return np.unique(near[near <= n_items])


def _condensed(mass: FloatArray, grid: IntArray) -> FloatArray:
    """Masses of the ranks 1, 2, ... moved to those of the grid; sum and mean stay as they are."""
    ranks = np.arange(1, mass.size + 1)
    left = np.minimum(np.searchsorted(grid, ranks, side="right") - 1, grid.size - 2)
    share = (ranks - grid[left]) / (grid[left + 1] - grid[left])
    lower = np.bincount(left, mass * (1 - share), minlength=grid.size)
    return np.asarray(lower + np.bincount(left + 1, mass * share, minlength=grid.size))


def for_pairs(
    of: Callable[..., pd.DataFrame],
    ranks: Mapping[str, Ranks],
    metric: Metric,
    n_items: int,
    *arguments: Any,
    **options: Any,
) -> pd.DataFrame:
    """Call :func:`plan` or :func:`curve` for each pair of recommenders.

    Parameters
    ----------
    of : callable
        One of the two.
    ranks : mapping of str to array_like of int or mapping of int to float
        Distribution of each recommender, such as from :func:`fitted`.
    metric, n_items, *arguments, **options
        As for `of`.

    Returns
    -------
    pandas.DataFrame
        Columns first and second, the recommenders, before those of `of`.

    Raises
    ------
    ValueError
        If there are fewer than two recommenders or no two with different averages, and as `of`.

    Warns
    -----
    UserWarning
        If the exact averages of two recommenders are equal: they have no order to plan for.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> ranks = {"A": {1: 1.0}, "B": {9: 1.0}, "C": {2: 0.5, 70: 0.5}}
    >>> found = for_pairs(plan, ranks, metric("ap"), 100, 5, 10, estimators=["naive"])
    >>> found[["first", "second", "estimator", "negatives_needed"]].head(3)
      first second estimator  negatives_needed
    0     A      B     naive                 6
    1     A      B     exact              <NA>
    2     A      C     naive                 1
    """
    if len(ranks) < 2:
        raise ValueError(f"a plan needs two recommenders or more, got {len(ranks)}")
    tables = []
    for one, two in combinations(ranks, 2):
        if _Pair.of(ranks[one], ranks[two], metric, n_items).difference == 0:
            warnings.warn(
                f"{one} and {two} have the same {metric.label} in the distributions given: there "
                "is no order to plan for",
                stacklevel=2,
            )
            continue
        found = of(ranks[one], ranks[two], metric, n_items, *arguments, **options)
        found.insert(0, "first", one)
        found.insert(1, "second", two)
        tables.append(found)
    if not tables:
        raise ValueError(f"all recommenders have the same {metric.label}: there is no order")
    return pd.concat(tables, ignore_index=True)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two distributions of ranks: for each its ranks and their masses, and the users' pairs."""

    metric: Metric
    n_items: int
    ranks: tuple[IntArray, IntArray]
    masses: tuple[FloatArray, FloatArray]
    users: tuple[IntArray, IntArray] | None  # places of each user's two ranks; None: independent

    @classmethod
    def of(cls, first: Ranks, second: Ranks, metric: Metric, n_items: int) -> _Pair:
        given = {"first": first, "second": second}
        parts = [_distribution(ranks, name, n_items) for name, ranks in given.items()]
        ranks, masses, users = zip(*parts, strict=True)
        one, two = users
        together = None
        if one is not None and two is not None:
            if one.size != two.size:
                raise ValueError(
                    "first and second must hold the ranks of the same users, got "
                    f"{one.size} and {two.size}"
                )
            together = (one, two)
        return cls(metric, n_items, ranks, masses, together)

    @cached_property
    def values(self) -> tuple[FloatArray, FloatArray]:
        """The exact metric at the ranks of each."""
        one, two = (self.metric(ranks, self.n_items) for ranks in self.ranks)
        return one, two

    @cached_property
    def difference(self) -> float:
        """Of the exact metric's averages; 0 where it is rounding."""
        one, two = (float(m @ v) for m, v in zip(self.masses, self.values, strict=True))
        return one - two if order(one, two) else 0.0

    def judged(
        self, means: Sequence[FloatArray], variances: Sequence[FloatArray], n_users: int
    ) -> Verdict:
        """From the mean and variance of a reported value at the ranks of each."""
        users = integer(n_users, "n_users", 1)
        one, two = (float(m @ v) for m, v in zip(self.masses, means, strict=True))
        noise = sum(float(m @ v) for m, v in zip(self.masses, variances, strict=True))
        if self.users is not None:
            spread = float(np.var(means[0][self.users[0]] - means[1][self.users[1]]))
        else:
            spread = sum(
                float(m @ (v - m @ v) ** 2) for m, v in zip(self.masses, means, strict=True)
            )
        expected = one - two if order(one, two) else 0.0
        return Verdict(self.difference, expected, float(np.sqrt((spread + noise) / users)), users)

    def verdict(self, estimator: Estimator, n_users: int) -> Verdict:
        means, variances = zip(*(_moments(estimator, ranks) for ranks in self.ranks), strict=True)
        return self.judged(means, variances, n_users)

    def exact(self, n_users: int) -> Verdict:
        return self.judged(self.values, [np.zeros_like(v) for v in self.values], n_users)


@dataclass(frozen=True, eq=False)
class _Judged:
    """The verdict of one estimator as a function of the number of negatives."""

    pair: _Pair
    name: str
    n_users: int
    replacement: bool

    def __call__(self, n_negatives: int) -> Verdict:
        protocol = Protocol(self.pair.n_items, n_negatives, self.replacement)
        estimator = ESTIMATORS[self.name](self.pair.metric, protocol, self.n_users)
        return self.pair.verdict(estimator, self.n_users)


def _kept_from(at: Callable[[int], Verdict], grid: list[int], confidence: float) -> int | None:
    """Fewest negatives from which on the confidence is kept at every later step, or None."""
    kept = grid[-1] + 1
    for step in reversed(grid):
        found = at(step)
        if found.z <= 0 or found.probability < confidence:
            return negatives_needed(at, step, kept, confidence) if kept <= grid[-1] else None
        kept = step
    return kept


def _moments(estimator: Estimator, ranks: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the reported value at each rank, from one pass over their laws."""
    reach = int(np.max(np.nonzero(estimator.values)[0], initial=0)) + 1
    row, means, variances = estimator.values[:reach], [], []
    for law in estimator._law_blocks(ranks, 1, np.arange(reach)):
        means.append(law @ row)
        variances.append(np.maximum(law @ row**2 - means[-1] ** 2, 0.0))
    return np.concatenate(means), np.concatenate(variances)


def _frame(
    rows: Iterable[tuple[str, float, int | None, Verdict]],
    users: int,
    negatives: int,
    n_items: int,
    confidence: float,
) -> pd.DataFrame:
    """The table of a plan; `rows` give the verdict with `users` and `negatives` last."""
    table = []
    for name, probability, needed, now in rows:
        more = now.users(confidence)
        each = n_items if name == EXACT else negatives + 1
        by_negatives = None if needed is None else users * (needed + 1)
        if name == EXACT:
            by_negatives = users * n_items
        by_users = None if more is None else more * each
        found = (needed, by_negatives, more, by_users)
        shown = (None if c is None or c > _MOST_COUNT else c for c in found)
        table.append((name, probability, *shown))
    counts = ["negatives_needed", "scores_by_negatives", "users_needed", "scores_by_users"]
    frame = pd.DataFrame(table, columns=["estimator", "probability", *counts])
    return frame.astype(dict.fromkeys(counts, "Int64"))


def _known(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not names:
        raise ValueError(f"estimators must be a list of one name or more, got {names!r}")
    for name in names:
        if name not in ESTIMATORS:
            allowed = ", ".join(ESTIMATORS)
            raise ValueError(f"estimators must be among {allowed}, got {name!r}")
    return list(names)


def _one_size(protocol: Protocol) -> int:
    integer(protocol.n_relevant, "n_relevant", 1, 1)
    return integer(protocol.n_items, "n_items", 2)


def _distribution(
    given: Ranks, name: str, n_items: int
) -> tuple[IntArray, FloatArray, IntArray | None]:
    """Ranks, their masses and, of an array, the place of each user's rank among them."""
    if isinstance(given, Mapping):
        ranks = integers(np.array(list(given)), f"ranks of {name}", 1, n_items)
        masses = np.array(list(given.values()), dtype=float)
        if not (np.isfinite(masses) & (masses >= 0)).all() or abs(masses.sum() - 1) > 1e-9:
            raise ValueError(
                f"{name} must hold probabilities that sum to 1, got a sum of {masses.sum()}"
            )
        return ranks, masses, None
    array = np.asarray(given)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must be a list of ranks, got shape {array.shape}")
    whole = integers(array, f"ranks of {name}", 1, n_items)
    ranks, places, counts = np.unique(whole, return_inverse=True, return_counts=True)
    return ranks, counts / whole.size, places

"""How large a sampled evaluation has to be before its verdict on two recommenders can be trusted.

A plan starts from two distributions of true ranks, known or guessed: those of recommenders that
were ranked exactly before, or those fitted to a sampled log. Users are drawn from them, and
negatives for each user; the right verdict is the order of the exact metric's averages over the
distributions. So the exact evaluation of a few users can be wrong as well, and has its own row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from tqdm import tqdm

from . import estimators as corrections
from ._validate import FloatArray, IntArray, integer, integers
from .consistency import Verdict, negatives_needed, order
from .estimators import Estimator
from .metrics import Metric
from .protocol import Protocol

#: True ranks of users, or the probability of each rank that has any.
Ranks = ArrayLike | Mapping[int, float]

#: What a plan compares. Bias-variance has the gamma of :func:`estimators.choose_gamma` for so many
#: users of whose ranks nothing is known: 1 / n_users.
ESTIMATORS: dict[str, Callable[[Metric, Protocol, int], Estimator]] = {
    "naive": lambda metric, protocol, users: corrections.naive(metric, protocol),
    "rank estimate": lambda metric, protocol, users: corrections.rank_estimate(metric, protocol),
    "monotone": lambda metric, protocol, users: corrections.monotone(metric, protocol),
    "bias-variance": lambda metric, protocol, users: corrections.bias_variance(
        metric, protocol, 1.0 / users
    ),
}

#: Name of the evaluation that ranks all items.
EXACT = "exact"


def verdict(first: Ranks, second: Ranks, estimator: Estimator, n_users: int) -> Verdict:
    """How often an evaluation of so many users finds the order of two distributions of ranks.

    Unlike :func:`consistency.verdict`, which judges one fixed set of users, the users are drawn
    too: the variance of one user's difference is that of its expectation from user to user and,
    on average over users, that of the two sampled values, whose negatives are independent.

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
        scores of the row ``exact`` are users times `n_items`.

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
    3  bias-variance         1.00                25            10
    4          exact         1.00              <NA>             7
    """
    pair = _Pair.of(first, second, metric, integer(n_items, "n_items", 3))
    users = integer(n_users, "n_users", 1)
    most = None if replacement else pair.n_items - 1
    drawn = integer(n_negatives, "n_negatives", 1, most)
    last = min(1_000, pair.n_items - 1) if max_negatives is None else max_negatives
    steps = _steps(integer(last, "max_negatives", 1, most))
    names = _known(estimators)
    rows = []
    for name in tqdm(names, desc="plan", unit="estimator", disable=not progress):
        at = _Judged(pair, name, users, replacement)
        now = at(drawn)
        rows.append((name, now.probability, _kept_from(at, steps, confidence), now))
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
        All their combinations are judged. Gamma of bias-variance is 1 / n_users for each.

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
    users = np.unique(integers(n_users, "n_users", 1)).tolist()
    negatives = np.unique(integers(n_negatives, "n_negatives", 1)).tolist()
    rows: list[tuple[str, int | None, int, float, int]] = []
    for name in tqdm(_known(estimators), desc="curve", unit="estimator", disable=not progress):
        for u in users:
            at = _Judged(pair, name, u, replacement)
            rows += [(name, m, u, at(m).probability, u * (m + 1)) for m in negatives]
    rows += [(EXACT, None, u, pair.exact(u).probability, u * pair.n_items) for u in users]
    columns = ["estimator", "n_negatives", "n_users", "probability", "scores"]
    return pd.DataFrame(rows, columns=columns).astype({"n_negatives": "Int64"})


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
        means = [estimator.expected(ranks) for ranks in self.ranks]
        variances = [estimator.variance(ranks) for ranks in self.ranks]
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


def _steps(last: int) -> list[int]:
    """1, 2, 5, 10, 20, ... up to and with `last`."""
    decades = range(len(str(last)))
    return [s for d in decades for f in (1, 2, 5) if (s := f * 10**d) < last] + [last]


def _kept_from(at: Callable[[int], Verdict], steps: list[int], confidence: float) -> int | None:
    """Fewest negatives from which on the confidence is kept at every later step, or None."""
    kept = steps[-1] + 1
    for step in reversed(steps):
        found = at(step)
        if found.z <= 0 or found.probability < confidence:
            return negatives_needed(at, step, kept, confidence) if kept <= steps[-1] else None
        kept = step
    return kept


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
        table.append((name, probability, needed, by_negatives, more, by_users))
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

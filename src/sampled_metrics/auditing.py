"""Test whether logged negatives are uniform, as many as claimed, and without duplicates.

All corrections and bounds of this package rest on the distribution of the negatives. A sampler
that draws from part of the catalogue, prefers popular items, gives every user the same negatives
or lets positives in has another distribution, and the corrections are then wrong.

A user's candidates are all items except the user's positives. A draw's *place* is the number of
candidates before it in some order, plus a uniform number, divided by the number of candidates. If
the draw is uniform over the candidates, its place is uniform on (0, 1), whatever their number. So
one Kolmogorov-Smirnov test serves all users, and keeps its level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq

from . import _ranges
from ._confidence import CONFIDENCE
from ._threads import one_thread
from ._validate import (
    FloatArray,
    IntArray,
    checked_confidence,
    generator,
    integer,
    integers,
)
from .log.columns import labelled, log_names, need, warn_ignored, whole_numbers
from .log.sources import loaded
from .results import Audit, table_of

#: Default seed of the uniform numbers in the places.
SEED = 20_260
_DRAWS_PER_BIN = 10
#: Shorter lists are not compared: they may be nearly equal by chance.
_LONG = 5
#: A list nearly equals another if it shares at least this part of its negatives.
_OVERLAP = 0.8
#: Random orders of the items (minwise hashing).
_ORDERS = 8


@one_thread
def audit(
    negatives: str | Path | pd.DataFrame | ArrayLike,
    n_items: int,
    positives: Any = None,
    *,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    confidence: float = CONFIDENCE,
    rng: int | np.random.Generator = SEED,
) -> Audit:
    """Test whether logged negatives were drawn as claimed.

    Parameters
    ----------
    negatives : array_like of int, shape (n_users, m), or DataFrame, or CSV or Parquet file
        One row of negatives for each user; or columns user and item with one row for each draw.
        Items are numbered from 0. Column names are understood as by
        :func:`sampled_metrics.read_log`.
    n_items : int
        Size of the catalogue, in [2, 2**40].
    positives : sparse matrix (n_users, n_items), DataFrame, or CSV or Parquet file, optional
        Items that must not be among a user's negatives: training items and the held-out item. A
        matrix if `negatives` are an array, else columns user and item.
    n_negatives : int, optional
        The claimed number of negatives of each user, at least 1.
    replacement : bool, optional
        Whether negatives are claimed to be drawn with replacement. If True, the number of
        duplicates is tested; if False, one duplicate raises the alarm. By default True if any
        user's negative repeats; the result's settings say which.
    confidence : float
        Probability that none of the checks raises a false alarm, at least; in (0, 1). Each check
        has an equal share of the error (Bonferroni).
    rng : int or numpy.random.Generator, optional
        Seed or generator of the uniform numbers in the places.

    Returns
    -------
    Audit
        Its frame has a row for each check: check, statistic, p_value, alarm (bool) and finding (a
        sentence). Its property `sampler` sums up the findings in words. A p-value of 0 or 1 means
        that the claim excludes, or does not exclude, the finding.

        - *positives*, if given: draws that are positives of their user. One raises the alarm.
        - *duplicates*: draws that repeat a negative of their user; with replacement, pairs of equal
          draws of one user, tested by their Poisson distribution.
        - *lists*: users with at least five negatives, 80% of which are those of another user:
          shared or recycled lists, and negatives from the same batch. The p-value bounds the
          probability of so large an overlap (Chernoff).
        - *numbers*: users whose number of negatives is not `n_negatives`, or by default not the
          most common number. One raises the alarm. Exception: without replacement and without
          `n_negatives`, users may have fewer because duplicates were dropped; the p-value bounds
          the probability that any user has so few.
        - *items*: chi-square statistic of the counts of items (or of stretches of items, if there
          are fewer than ten draws for an item) over its expectation, 1 for uniform draws. Above 1,
          some items are preferred or users share negatives; below 1, draws avoid one another.
          Two-sided.
        - *order*: Kolmogorov-Smirnov distance of the places in the order of item numbers.
        - *popularity*, if there are positives: the same in the order of the number of positives.
          The finding includes the power of popularity that the draws are proportional to, with a
          95% interval.

        The Poisson and chi-square distributions, and so `confidence`, are asymptotic in the number
        of draws.

    Raises
    ------
    ValueError
        If there are no draws, an item is not in the catalogue, `positives` is missing a user's
        row, has another form or leaves a user without a candidate, or an option is outside its
        range.

    Examples
    --------
    >>> draws = np.random.default_rng(1).permuted(np.tile(np.arange(40), (200, 1)), axis=1)[:, :9]
    >>> result = audit(draws, 80)
    >>> result.frame[["check", "alarm"]]
            check  alarm
    0  duplicates  False
    1       lists  False
    2     numbers  False
    3       items   True
    4       order   True
    >>> result.frame["finding"].iloc[4]
    'half of the draws are among the first 24.5% of the candidates in the order of their numbers'
    >>> result.sampler
    'distinct negatives, low item numbers preferred'
    """
    n_items = integer(n_items, "n_items", 2, 2**40)
    if n_negatives is not None:
        n_negatives = integer(n_negatives, "n_negatives", 1, 2**62)
    error_rate = 1.0 - checked_confidence(confidence)
    rng = generator(rng)
    user, item, held, n_users = _draws(negatives, n_items, positives)
    if n_users * n_items >= 2**62:
        raise ValueError(f"n_items must be < 2**62 / users, got {n_items} with {n_users} users")
    keys = user * n_items + item
    known = _distinct(held[0] * n_items + held[1])
    is_positive = np.searchsorted(known, keys, "right") > np.searchsorted(known, keys)
    n_candidates = n_items - np.bincount(known // n_items, minlength=n_users)
    if (n_candidates[user] < 1).any():
        raise ValueError("positives must leave each user a candidate, got one with none")
    checks = [] if positives is None else [_positives(user, is_positive)]
    if replacement is None:
        replacement = _distinct(keys).size < keys.size
    checks.append(_duplicates(user, keys, n_candidates, replacement))
    lists, sharing = _lists(user, item, n_items)
    checks += [lists, _number(user, n_candidates, n_negatives, replacement)]
    drawn = keys[~is_positive]
    power, median = None, 0.5
    if drawn.size:
        checks.append(_items(drawn, known, n_items, n_candidates, replacement))
        place = _places(drawn, known, n_items, n_candidates, lambda item: item, rng)
        median = float(np.median(place))
        checks.append(_order("order", place, "in the order of their numbers"))
        if known.size:
            by_popularity = _by_popularity(known % n_items)
            place = _places(drawn, known, n_items, n_candidates, by_popularity, rng)
            check = _order("popularity", place, "with popular ones first")
            power = _power(drawn, known, n_items, n_candidates.size, replacement)
            more = "" if power is None else f"; {power}"
            checks.append(check._replace(finding=check.finding + more))
    frame = table_of(Check, checks)
    frame.insert(3, "alarm", frame["p_value"] <= error_rate / len(frame))
    sampler = _sampler(frame.set_index("check"), user, replacement, sharing, power, median)
    settings = {"n_items": n_items, "replacement": replacement, "confidence": float(confidence)}
    return Audit(frame, settings | {"sampler": sampler})


class Check(NamedTuple):
    """A row of the result, before the alarm is known."""

    check: str
    statistic: float
    p_value: float
    finding: str


def _distinct(values: IntArray) -> IntArray:
    """Sorted distinct values; several times as fast here as np.unique."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]])


def _positives(user: IntArray, is_positive: NDArray[np.bool_]) -> Check:
    count, users = int(is_positive.sum()), _distinct(user[is_positive]).size
    finding = (
        f"{users:,} of {_distinct(user).size:,} users have a positive among their negatives, "
        f"{count:,} of {user.size:,} draws in all"
        if count
        else "no positive is among the negatives of its user"
    )
    return Check("positives", float(count), float(not count), finding)


def _duplicates(user: IntArray, keys: IntArray, n_candidates: IntArray, replacement: bool) -> Check:
    distinct, times = np.unique(keys, return_counts=True)
    extra = keys.size - distinct.size
    # Pairs of draws of a user are equal with probability 1 / n_candidates, pairwise independently.
    draws = np.bincount(user, minlength=n_candidates.size)
    expected = float((draws * (draws - 1) / 2 / np.maximum(n_candidates, 1)).sum())
    if not replacement:
        finding = (
            f"{extra:,} of {keys.size:,} draws repeat a negative of their user, where "
            f"{expected:,.0f} pairs of draws would be equal with replacement"
        )
        return Check("duplicates", float(extra), float(not extra), finding)
    pairs = int((times * (times - 1) // 2).sum())
    p_value = _two_sided(stats.poisson(expected), pairs, pairs - 1)
    finding = (
        f"{pairs:,} pairs of equal draws of one user, {expected:,.0f} expected with replacement"
    )
    return Check("duplicates", float(pairs), p_value, finding)


def _two_sided(of: Any, value: float, below: float) -> float:
    """Two-sided p-value; `below` is the largest possible value below `value`."""
    return min(1.0, 2 * float(min(of.cdf(value), of.sf(below))))


def _lists(user: IntArray, item: IntArray, n_items: int) -> tuple[Check, str]:
    """Find users whose lists nearly equal another's (minwise hashing), and how they are shared.

    Two similar lists are likely to agree on their first item in some random order. Each user is
    compared with the first user that agrees on two consecutive orders.
    """
    keys = _distinct(user * n_items + item)
    own, code = np.unique(keys // n_items, return_inverse=True)[1], pd.factorize(keys % n_items)[0]
    sizes = np.bincount(own)
    starts, many = np.append(0, np.cumsum(sizes)[:-1]), int(code.max()) + 1
    rng = np.random.default_rng(SEED)
    heads = [np.minimum.reduceat(rng.permutation(many)[code], starts) for _ in range(_ORDERS)]
    have = own * many + code
    have.sort()
    most, partner = np.zeros(sizes.size, dtype=np.int64), np.arange(sizes.size)
    for one, two in pairwise(heads):
        _, first, group = np.unique(one * many + two, return_index=True, return_inverse=True)
        other = first[group]
        rows = np.flatnonzero(other[own] != own)
        wanted = other[own[rows]] * many + code[rows]
        held = have[np.minimum(np.searchsorted(have, wanted), have.size - 1)] == wanted
        overlap = np.bincount(own[rows], held, minlength=sizes.size).astype(np.int64)
        better = overlap > most
        most[better], partner[better] = overlap[better], other[better]
    equal = (most >= _OVERLAP * sizes) & (sizes >= _LONG)
    # Frequency of items in lists that do not nearly equal another.
    share = np.bincount(code[~equal[own]], minlength=many) / max(sizes.size, 1)
    share = np.maximum(share, sizes.mean() / n_items)
    mean = np.bincount(own, share[code], minlength=sizes.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(most > mean, most * np.log(most / mean) - most + mean, 0.0)
    bound[~equal] = 0.0
    pairs = sizes.size * (sizes.size - 1) / 2
    p_value = float(min(1.0, pairs * np.exp(-bound.max())))
    count = int(equal.sum())
    if not count:
        finding = f"no user has {_OVERLAP:.0%} of the negatives of another"
        return Check("lists", 0.0, p_value, finding), ""
    finding = (
        f"{count:,} of {sizes.size:,} users have {_OVERLAP:.0%} or more of the negatives of "
        "another, who comes before"
    )
    root = np.where(equal, partner, np.arange(sizes.size))
    while (root[root] != root).any():
        root = root[root]
    members = np.bincount(root, minlength=sizes.size)
    items = np.bincount(_distinct(root[own] * many + code) // many, minlength=sizes.size)
    groups = np.flatnonzero(members > 1)
    if groups.size == 1 and members.max() >= 0.95 * sizes.size:
        sharing = "one list for all users"
    elif np.median(np.abs(items[groups] / members[groups] - 1)) < 0.25:
        sharing = f"in-batch, {groups.size:,} batches of {np.median(members[groups]):,.0f}"
    else:
        sharing = f"lists shared by {count + groups.size:,} users in {groups.size:,} groups"
    return Check("lists", float(count), p_value, finding), sharing


@dataclass(frozen=True)
class _Power:
    """The power of popularity that the draws are proportional to, and its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value = f"{round(self.value, 2) + 0.0:.2f}"  # there is no negative zero
        fit = f"{value} ({_ranges.written(self.low, self.high, 2)})".replace("-", "\u2212")
        return f"as by popularity to the power {fit}"


def _power(
    drawn: IntArray, known: IntArray, n_items: int, n_users: int, replacement: bool
) -> _Power | None:
    """Fit the power so that the users' mean log-popularity is as expected (a score equation).

    Without replacement the inclusion probability of an item of weight w is approximated as
    1 - exp(-t w), with t such that a user's probabilities add up to the number drawn (rosen1972).
    """
    items, counts = np.unique(known % n_items, return_counts=True)
    kinds, times = np.unique(counts, return_counts=True)
    if kinds.size < 2:
        return None
    if not replacement:
        n_users = min(n_users, max(200, 400_000 // kinds.size))
    x = np.log(kinds / kinds.max())
    of_item = np.searchsorted(kinds, counts)

    def of(keys: IntArray) -> tuple[IntArray, IntArray]:
        """Users, and kinds of items, of those keys whose item is someone's positive."""
        keys = keys[keys // n_items < n_users]
        at = np.minimum(np.searchsorted(items, keys % n_items), items.size - 1)
        there = items[at] == keys % n_items
        return keys[there] // n_items, of_item[at[there]]

    (user, kind), (owner, held) = of(drawn), of(known)
    m = np.bincount(user, minlength=n_users).astype(float)
    mean = np.bincount(user, x[kind], minlength=n_users)
    some = m > 0
    if some.sum() < 2:
        return None

    def taken(values: FloatArray) -> FloatArray:
        """Of each user's positives: a sum over them, of values by kind or by positive."""
        each = values[held] if values.size == x.size else values
        return np.asarray(np.bincount(owner, each, minlength=n_users))

    def scores(power: float) -> FloatArray:
        w = np.exp(power * x)
        if replacement:
            expected = (times @ (x * w) - taken(x * w)) / np.maximum(times @ w - taken(w), 1e-300)
            return np.asarray((mean - m * expected)[some])
        full = m >= times.sum() - np.bincount(owner, minlength=n_users)
        t = m / np.maximum(times @ w - taken(w), 1e-300)
        for _ in range(30):
            stay = np.exp(-np.outer(t, w))
            left = np.exp(-t[owner] * w[held])
            gap = (1 - stay) @ times - np.bincount(owner, 1 - left, minlength=n_users) - m
            slope = stay @ (w * times) - np.bincount(owner, left * w[held], minlength=n_users)
            # Newton steps in log t, in which the gap is nearly linear.
            step = -gap / np.maximum(slope * t, 1e-300)
            t = np.where(full, t, t * np.exp(np.clip(step, -1, 1)))
            if np.abs(gap[some & ~full]).max(initial=0.0) < 1e-7 * m.max():
                break
        came = (1 - np.exp(-np.outer(t, w))) @ (x * times)
        came -= np.bincount(owner, (1 - np.exp(-t[owner] * w[held])) * x[held], minlength=n_users)
        return np.asarray(np.where(full, 0.0, mean - came)[some])

    low, high = -2.0, 4.0
    if scores(low).sum() <= 0 or scores(high).sum() >= 0:
        return None
    value = float(brentq(lambda power: scores(power).sum(), low, high, xtol=1e-4))
    slope = (scores(value + 1e-3).sum() - scores(value - 1e-3).sum()) / 2e-3
    reach = 1.96 * float(np.sqrt((scores(value) ** 2).sum()) / abs(slope))
    return _Power(value, value - reach, value + reach)


def _sampler(
    checks: pd.DataFrame,
    user: IntArray,
    replacement: bool,
    sharing: str,
    power: _Power | None,
    median: float,
) -> str:
    """The result in words."""
    alarm, statistic = checks["alarm"], checks["statistic"]
    draws = np.bincount(user)
    sizes = np.unique(draws[draws > 0])
    words = ["negatives with replacement" if replacement else "distinct negatives"]
    if sizes.size > 1:
        base = int(np.gcd.reduce(sizes))
        if base >= _LONG:
            words.append(f"pooled, {base:,} for each of several positives")
        elif not replacement and not alarm["lists"]:
            words.append("of differing numbers, as where duplicates are collapsed")
    if alarm.get("positives", False):
        words.append("positives among them")
    if alarm["lists"]:
        words.append(sharing)
    elif alarm.get("popularity", False) and statistic["popularity"] >= statistic["order"]:
        words.append("popular items preferred" if power is None else str(power))
    elif alarm.get("order", False):
        words.append(f"{'low' if median < 0.5 else 'high'} item numbers preferred")
    elif alarm.get("items", False):
        more = statistic["items"] > 1
        words.append("some items preferred" if more else "more even than by chance")
    elif "items" in alarm:
        words.append("uniform")
    return ", ".join(words)


def _number(
    user: IntArray, n_candidates: IntArray, claimed: int | None, replacement: bool
) -> Check:
    """Whether each user with a draw has the claimed, or else the most common, number."""
    draws = np.bincount(user, minlength=n_candidates.size)
    draws, n = draws[draws > 0], n_candidates[draws > 0]
    sizes, times = np.unique(draws, return_counts=True)
    usual = int(sizes[np.argmax(times)])
    wanted = np.full(draws.size, usual if claimed is None else claimed)
    if not replacement:  # nobody can have more than all candidates
        wanted = np.where(draws >= n, draws, wanted)
    others = int((draws != wanted).sum())
    p_value = float(not others)
    if others and claimed is None and not replacement:
        # Draw i repeats one of those before it with probability (i - 1) / n at most, so that the
        # number dropped is below a sum of such trials, and that below a binomial's tail beyond
        # its mean + 1 (Hoeffding 1956).
        m = int(sizes[-1])
        dropped = np.where(draws >= n, 0, m - draws)
        p = np.minimum((m - 1) / (2 * n), 1)
        tail = np.where(dropped >= m * p + 1, stats.binom.sf(dropped - 1, m, p), 1.0)
        p_value = min(1.0, float(tail.min()) * draws.size)
    finding = (
        f"each of {draws.size:,} users has {usual:,} negatives"
        if sizes.size == 1
        else f"users have {sizes[0]:,} to {sizes[-1]:,} negatives, {times.max():,} of "
        f"{draws.size:,} users {usual:,}"
    )
    if claimed is not None and others:
        finding += f", where {claimed:,} are said"
    return Check("numbers", float(others), p_value, finding)


def _items(
    drawn: IntArray, known: IntArray, n_items: int, n_candidates: IntArray, replacement: bool
) -> Check:
    """The chi-square statistic over its expectation, from exact means and variances by bin."""
    n_bins = min(n_items, max(2, drawn.size // _DRAWS_PER_BIN))
    size = np.diff(-(-np.arange(n_bins + 1) * n_items // n_bins))
    counts = np.bincount(drawn % n_items * n_bins // n_items, minlength=n_bins)
    draws = np.bincount(drawn // n_items, minlength=n_candidates.size).astype(np.float64)
    # The number of each user's positives in each bin.
    place, taken = np.unique(
        known // n_items * n_bins + known % n_items * n_bins // n_items, return_counts=True
    )
    owner, bin_ = place // n_bins, place % n_bins
    candidates = np.maximum(n_candidates, 1).astype(np.float64)
    spread = draws.copy()
    if not replacement:  # finite population correction
        spread *= np.maximum(candidates - draws, 0) / np.maximum(candidates - 1, 1)

    def taken_in(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(bin_, values, minlength=n_bins), dtype=np.float64)

    def mean(weight: FloatArray) -> FloatArray:
        share = weight / candidates
        return np.asarray(size * share.sum() - taken_in(share[owner] * taken))

    share = spread / candidates**2
    squares = size**2 * share.sum() + taken_in(share[owner] * (taken - 2.0 * size[bin_]) * taken)
    expected, variance = mean(draws), mean(spread) - squares
    open_ = expected > 1e-9
    ratio = float(((counts - expected)[open_] ** 2 / expected[open_]).sum())
    ratio /= max(float((variance[open_] / expected[open_]).sum()), 1e-300)
    freedom = max(int(open_.sum()) - 1, 1)
    p_value = _two_sided(stats.chi2(freedom), ratio * freedom, ratio * freedom)
    finding = (
        f"counts of {int(open_.sum()):,} {'items' if n_bins == n_items else 'stretches of items'} "
        f"vary {ratio:.3g} times as much as those of uniform draws"
    )
    return Check("items", ratio, p_value, finding)


def _places(
    drawn: IntArray,
    known: IntArray,
    n_items: int,
    n_candidates: IntArray,
    rank: Callable[[IntArray], IntArray],
    rng: np.random.Generator,
) -> FloatArray:
    """Place of each draw in (0, 1) among its user's candidates, in the order of `rank`."""
    user, at = drawn // n_items, rank(drawn % n_items)
    taken = np.sort(known // n_items * n_items + rank(known % n_items))
    before = np.searchsorted(taken, user * n_items + at) - np.searchsorted(taken, user * n_items)
    return np.asarray((at - before + rng.random(drawn.size)) / n_candidates[user])


def _by_popularity(positives: IntArray) -> Callable[[IntArray], IntArray]:
    """Rank of items by number of positives, then by item number, from 0."""
    items, counts = np.unique(positives, return_counts=True)
    ranks = np.empty(items.size, dtype=np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(items.size)

    def rank(item: IntArray) -> IntArray:
        at = np.searchsorted(items, item)  # positives with a lower number
        known = items[np.minimum(at, items.size - 1)] == item
        last = items.size + item - at  # items without positives come last
        return np.where(known, ranks[np.minimum(at, items.size - 1)], last)

    return rank


def _order(check: str, places: FloatArray, order: str) -> Check:
    test = stats.kstest(places, "uniform")
    finding = (
        f"half of the draws are among the first {np.median(places):.1%} of the candidates {order}"
    )
    return Check(check, float(test.statistic), float(test.pvalue), finding)


def _draws(
    negatives: Any, n_items: int, positives: Any
) -> tuple[IntArray, IntArray, tuple[IntArray, IntArray], int]:
    """User and item of each draw, users and items of the positives, and the number of users."""
    if not isinstance(negatives, (str, Path, pd.DataFrame)):
        table = integers(negatives, "negatives", 0, n_items - 1)
        if table.ndim != 2 or not table.size:
            raise ValueError(
                f"negatives must have a row for each user, got an array of shape {table.shape}"
            )
        user = np.repeat(np.arange(len(table)), table.shape[1])
        return user, table.ravel(), _matrix(positives, len(table), n_items), len(table)
    labels, item = _columns(negatives, "negatives", n_items)
    if positives is None:
        codes, users = pd.factorize(labels)
        return codes, item, (codes[:0], item[:0]), len(users)
    if not isinstance(positives, (str, Path, pd.DataFrame)):
        raise ValueError("positives must have columns user and item, as negatives do")
    own, held = _columns(positives, "positives", n_items)
    codes, users = pd.factorize(pd.concat([labels, own], ignore_index=True))
    return codes[: item.size], item, (codes[item.size :], held), len(users)


def _columns(given: Any, name: str, n_items: int) -> tuple[pd.Series, IntArray]:
    """The user labels and item numbers of a table, checked."""
    frame, source = loaded(given, name)
    frame = frame.set_axis(log_names(frame.columns, source, ("user", "item")), axis=1)
    need(frame, ("user", "item"), source)
    warn_ignored(frame.columns, source, ("user", "item"))
    item = whole_numbers(frame, "item", 0, source)
    if item.max() >= n_items:
        raise ValueError(f"item must be < n_items = {n_items}, got {item.max()} in {source}")
    user = labelled(frame, "user", source)
    assert user is not None  # the column is there
    return user, item


def _matrix(positives: Any, n_users: int, n_items: int) -> tuple[IntArray, IntArray]:
    """Rows and columns of the non-zero entries of a sparse matrix."""
    if positives is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    shape = getattr(positives, "shape", type(positives).__name__)
    if not sp.issparse(positives) or shape != (n_users, n_items):
        raise ValueError(
            f"positives must be a sparse matrix of shape ({n_users}, {n_items}), as negatives are "
            f"in rows, got {shape}"
        )
    matrix: Any = positives
    user, item = matrix.nonzero()
    return user.astype(np.int64), item.astype(np.int64)

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

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq

from . import _printed_ranges
from ._confidence import CONFIDENCE, NORMAL_QUANTILE
from ._threads import one_thread
from ._validate import (
    FloatArray,
    IntArray,
    as_intp,
    checked_confidence,
    generator,
    integer,
    integers,
)
from .log.columns import labelled, log_names, require_columns, warn_ignored, whole_numbers
from .log.formats import listed_negatives, lists
from .log.inspection import LONG, OVERLAP, never_drawn_exponent, overlap
from .log.sources import loaded
from .results import Audit, table_of

#: Default seed of the uniform numbers in the places.
SEED = 20_260
_DRAWS_PER_BIN = 10
#: How many times as often as uniform an item is drawn at most, if users own half of all items.
_OWN_ITEMS = 2.0


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

    :ref:`Are my negatives what they should be? <howto-audit>` describes each check.

    Parameters
    ----------
    negatives : array_like of int, shape (n_users, m), or DataFrame, or CSV or Parquet file
        One row of negatives for each user; or columns user and item with one row for each draw.
        Items are numbered from 0, or from 1 to `n_items`. Column names are understood as by
        :func:`sampled_metrics.read_log`. A column of lists, such as ReChorus' neg_items, holds
        the negatives. A file without a header may be one of NCF's negatives ((user,item) and
        negatives, by tabs) or of S3-Rec's (a user and items, by blanks).
    n_items : int
        Size of the catalogue, in [2, 2**40].
    positives : sparse matrix (n_users, n_items), DataFrame, or CSV or Parquet file, optional
        Items that must not be among a user's negatives: training items and the held-out item. A
        matrix if `negatives` are an array, else columns user and item, or a file as for negatives
        or of ratings (user, item, rating, time, by tabs). Empty if users own no items.
    n_negatives : int, optional
        The claimed number of negatives of each user, at least 1.
    replacement : bool, optional
        Whether negatives are claimed to be drawn with replacement. By default True if any user's
        negative repeats; the result's settings say which.
    confidence : float
        Probability that none of the checks raises a false alarm, at least; in (0, 1). Each check
        has an equal share of the error (Bonferroni). Asymptotic in the number of draws.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the uniform numbers in the places.

    Returns
    -------
    Audit
        Its frame has a row for each check: check, statistic, p_value, alarm (bool) and finding (a
        sentence). Its property `sampler` sums up the findings in words. A p-value of 0 or 1 means
        that the claim excludes, or does not exclude, the finding.

    Raises
    ------
    ValueError
        If there are no draws, an item is not in the catalogue, `positives` is missing a user's
        row, has another form or leaves a user without a candidate, or an option is outside its
        range.

    See Also
    --------
    sampled_metrics.read_log : Read the log whose negatives passed.
    sampled_metrics.Protocol : Weighted negatives, for a sampler that is not uniform.

    Examples
    --------
    Users who own no items draw from the first half of the catalogue:

    >>> draws = np.random.default_rng(1).permuted(np.tile(np.arange(40), (200, 1)), axis=1)[:, :9]
    >>> result = audit(draws, 80, positives=sp.csr_array((200, 80)))
    >>> result.alarms, result.sampler
    (('coverage', 'items', 'order'), 'distinct negatives, low item numbers preferred')
    """
    n_items = integer(n_items, "n_items", 2, 2**40)
    if n_negatives is not None:
        n_negatives = integer(n_negatives, "n_negatives", 1, 2**62)
    error_rate = 1.0 - checked_confidence(confidence)
    rng = generator(rng)
    user, item, positive_pairs, n_users = _draws(negatives, n_items, positives)
    if n_users * n_items >= 2**62:
        raise ValueError(f"n_items must be < 2**62 / users, got {n_items} with {n_users} users")
    keys = user.astype(np.int64, copy=False) * n_items + item
    owner = positive_pairs[0].astype(np.int64, copy=False)
    positive_keys = _distinct(owner * n_items + positive_pairs[1])
    is_positive = np.searchsorted(positive_keys, keys, "right") > np.searchsorted(
        positive_keys, keys
    )
    n_candidates = n_items - _counts(positive_keys // n_items, n_users)
    if (n_candidates[user] < 1).any():
        raise ValueError("positives must leave each user a candidate, got one with none")
    checks = [] if positives is None else [_positives(user, is_positive)]
    if replacement is None:
        replacement = _distinct(keys).size < keys.size
    checks.append(_duplicates(user, keys, n_candidates, replacement))
    lists, sharing = _lists(user, item, n_items)
    checks += [lists, _number(user, n_candidates, n_negatives, replacement)]
    drawn_keys = keys[~is_positive]
    power, median = None, 0.5
    if drawn_keys.size:
        items = _items(drawn_keys, positive_keys, n_items, n_candidates, replacement)
        places = _places(drawn_keys, positive_keys, n_items, n_candidates, lambda item: item, rng)
        median = float(np.median(places))
        order = _order("order", places, "in the order of their numbers")
        if positives is None:
            items = items._replace(p_value=_excess_of_items(drawn_keys % n_items, n_items))
            order = order._replace(p_value=_excess_of_ends(places))
        coverage = _coverage(drawn_keys, n_items, n_candidates, replacement, positives is None)
        checks += [coverage, items, order]
        if positive_keys.size:
            by_popularity = _by_popularity(positive_keys % n_items)
            places = _places(drawn_keys, positive_keys, n_items, n_candidates, by_popularity, rng)
            check = _order("popularity", places, "with popular ones first")
            power = _power(drawn_keys, positive_keys, n_items, n_candidates.size, replacement)
            power_text = "" if power is None else f"; {power}"
            checks.append(check._replace(finding=check.finding + power_text))
    frame = table_of(Check, checks)
    frame.insert(3, "alarm", frame["p_value"] <= error_rate / len(frame))
    sampler = _sampler(frame.set_index("check"), user, replacement, sharing, power, median)
    settings: dict[str, Any] = {"n_items": n_items, "replacement": replacement}
    settings["confidence"] = float(confidence)
    if positives is None:
        settings["positives"] = "not given"
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


def _counts(index: IntArray, size: int) -> IntArray:
    return np.bincount(as_intp(index), minlength=size).astype(np.int64, copy=False)


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
    distinct, counts = np.unique(keys, return_counts=True)
    n_repeats = keys.size - distinct.size
    # Pairs of draws of a user are equal with probability 1 / n_candidates, pairwise independently.
    n_draws = _counts(user, n_candidates.size)
    expected = float((n_draws * (n_draws - 1) / 2 / np.maximum(n_candidates, 1)).sum())
    if not replacement:
        finding = (
            f"{n_repeats:,} of {keys.size:,} draws repeat a negative of the same user; drawn with "
            f"replacement, about {expected:,.0f} pairs of draws would be equal"
        )
        return Check("duplicates", float(n_repeats), float(not n_repeats), finding)
    pairs = int((counts.astype(np.int64, copy=False) * (counts - 1) // 2).sum())
    p_value = _two_sided(stats.poisson(expected), pairs, pairs - 1)
    finding = (
        f"{pairs:,} pairs of equal draws of one user, {expected:,.0f} expected with replacement"
    )
    return Check("duplicates", float(pairs), p_value, finding)


def _coverage(
    drawn_keys: IntArray, n_items: int, n_candidates: IntArray, replacement: bool, any_own: bool
) -> Check:
    """Test how many items were never drawn; if `any_own`, half of the users may own an item."""
    n_distinct = _distinct(drawn_keys % n_items).size
    users, draws = np.unique(drawn_keys // n_items, return_counts=True)
    candidates = n_candidates[users].astype(float)
    with np.errstate(divide="ignore"):
        shares, times = (1.0 / candidates, draws) if replacement else (draws / candidates, 1)
        rates = np.minimum(-np.log1p(-shares) * times, 700.0)
    rate = float(rates.sum())
    size, rate = float(rates @ candidates) / rate, rate / (2.0 if any_own else 1.0)
    p_value = float(np.exp(-never_drawn_exponent(n_distinct, size, rate)))
    finding = (
        f"{n_items - n_distinct:,} of {n_items:,} items are never drawn; uniform draws leave out "
        f"at most {max(0.0, n_items + size * np.expm1(-rate)):,.0f} on average"
    )
    return Check("coverage", float(n_items - n_distinct), p_value, finding)


def _two_sided(distribution: Any, value: float, below: float) -> float:
    """Two-sided p-value; `below` is the largest possible value below `value`."""
    return min(1.0, 2 * float(min(distribution.cdf(value), distribution.sf(below))))


def _lists(user: IntArray, item: IntArray, n_items: int) -> tuple[Check, str]:
    """Find users whose lists nearly equal another's, and how they are shared."""
    keys = _distinct(user.astype(np.int64, copy=False) * n_items + item)
    user_index = np.unique(keys // n_items, return_inverse=True)[1]
    code = pd.factorize(keys % n_items)[0]
    sizes, _, partner, nearly_equal, p_value = overlap(user_index, code, n_items)
    n_codes = int(code.max()) + 1
    first_key = np.arange(sizes.size, dtype=np.int64) * n_codes  # of each user
    count = int(nearly_equal.sum())
    if not count:
        finding = f"no user has {OVERLAP:.0%} or more of the negatives of an earlier user"
        return Check("lists", 0.0, p_value, finding), ""
    finding = (
        f"{count:,} of {sizes.size:,} users have {OVERLAP:.0%} or more of the negatives of an "
        "earlier user"
    )
    root = np.where(nearly_equal, partner, np.arange(sizes.size))
    while (root[root] != root).any():
        root = root[root]
    members = np.bincount(root, minlength=sizes.size)
    items = _counts(_distinct(first_key[root[user_index]] + code) // n_codes, sizes.size)
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
        interval = _printed_ranges.written(self.low, self.high, 2)
        fit = f"{value} (95% interval {interval}; 0 is uniform)".replace("-", "\u2212")
        return f"drawn in proportion to popularity to the power {fit}"


def _power(
    drawn_keys: IntArray, positive_keys: IntArray, n_items: int, n_users: int, replacement: bool
) -> _Power | None:
    """Fit the power so that the users' mean log-popularity is as expected (a score equation).

    Without replacement the inclusion probability of an item of weight w is approximated as
    1 - exp(-t w), with t such that a user's probabilities add up to the number drawn (rosen1972).
    """
    items, counts = np.unique(positive_keys % n_items, return_counts=True)
    kinds, kind_sizes = np.unique(counts, return_counts=True)
    if kinds.size < 2:
        return None
    if not replacement:
        n_users = min(n_users, max(200, 400_000 // kinds.size))
    x = np.log(kinds / kinds.max())
    kind_of_item = np.searchsorted(kinds, counts)

    def of(keys: IntArray) -> tuple[IntArray, IntArray]:
        """Users, and kinds of items, of those keys whose item is someone's positive."""
        keys = keys[keys // n_items < n_users]
        item_index = np.minimum(np.searchsorted(items, keys % n_items), items.size - 1)
        has_positives = items[item_index] == keys % n_items
        return as_intp(keys[has_positives] // n_items), kind_of_item[item_index[has_positives]]

    (user, drawn_kind), (owner, positive_kind) = of(drawn_keys), of(positive_keys)
    m = np.bincount(user, minlength=n_users).astype(float)
    drawn_sum = np.bincount(user, x[drawn_kind], minlength=n_users)
    has_draws = m > 0
    if has_draws.sum() < 2:
        return None

    def taken(values: FloatArray) -> FloatArray:
        """Of each user's positives: a sum over them, of values by kind or by positive."""
        positive_values = values[positive_kind] if values.size == x.size else values
        return np.asarray(np.bincount(owner, positive_values, minlength=n_users))

    def scores(power: float) -> FloatArray:
        w = np.exp(power * x)
        if replacement:
            expected = (kind_sizes @ (x * w) - taken(x * w)) / np.maximum(
                kind_sizes @ w - taken(w), 1e-300
            )
            return np.asarray((drawn_sum - m * expected)[has_draws])
        is_exhausted = m >= kind_sizes.sum() - np.bincount(owner, minlength=n_users)
        t = m / np.maximum(kind_sizes @ w - taken(w), 1e-300)
        for _ in range(30):
            stay = np.exp(-np.outer(t, w))
            positive_stay = np.exp(-t[owner] * w[positive_kind])
            gap = (
                (1 - stay) @ kind_sizes
                - np.bincount(owner, 1 - positive_stay, minlength=n_users)
                - m
            )
            slope = stay @ (w * kind_sizes) - np.bincount(
                owner, positive_stay * w[positive_kind], minlength=n_users
            )
            # Newton steps in log t, in which the gap is nearly linear.
            step = -gap / np.maximum(slope * t, 1e-300)
            t = np.where(is_exhausted, t, t * np.exp(np.clip(step, -1, 1)))
            if np.abs(gap[has_draws & ~is_exhausted]).max(initial=0.0) < 1e-7 * m.max():
                break
        expected_sum = (1 - np.exp(-np.outer(t, w))) @ (x * kind_sizes)
        expected_sum -= np.bincount(
            owner, (1 - np.exp(-t[owner] * w[positive_kind])) * x[positive_kind], minlength=n_users
        )
        return np.asarray(np.where(is_exhausted, 0.0, drawn_sum - expected_sum)[has_draws])

    return _solved(scores)


def _solved(scores: Callable[[float], FloatArray]) -> _Power | None:
    """The power at which the users' scores sum to 0, with its interval; None if there is none."""
    low, high = -2.0, 4.0
    if scores(low).sum() <= 0 or scores(high).sum() >= 0:
        return None
    value = float(brentq(lambda power: scores(power).sum(), low, high, xtol=1e-4))
    slope = (scores(value + 1e-3).sum() - scores(value - 1e-3).sum()) / 2e-3
    standard_error = float(np.sqrt((scores(value) ** 2).sum()) / abs(slope))
    half_width = NORMAL_QUANTILE * standard_error
    return _Power(value, value - half_width, value + half_width)


def _sampler(
    checks: pd.DataFrame,
    user: IntArray,
    replacement: bool,
    sharing: str,
    power: _Power | None,
    median: float,
) -> str:
    """The result in words."""
    draws = np.bincount(user)
    sizes = np.unique(draws[draws > 0])
    words = ["negatives with replacement" if replacement else "distinct negatives"]
    if sizes.size > 1:
        common_size = int(np.gcd.reduce(sizes))
        if common_size >= LONG:
            words.append(f"pooled, {common_size:,} for each of several positives")
        elif not replacement and not checks["alarm"]["lists"]:
            words.append("of differing numbers, as where duplicates are collapsed")
    if checks["alarm"].get("positives", False):
        words.append("positives among them")
    return ", ".join([*words, *_preference(checks, sharing, power, median)])


def _preference(
    checks: pd.DataFrame, sharing: str, power: _Power | None, median: float
) -> Iterator[str]:
    """Which items the sampler prefers: the first finding that explains the later ones."""
    alarm, statistic = checks["alarm"], checks["statistic"]
    if alarm["lists"]:
        yield sharing
    elif alarm.get("popularity", False) and statistic["popularity"] >= statistic["order"]:
        yield "popular items preferred" if power is None else str(power)
    elif alarm.get("order", False):
        yield f"{'low' if median < 0.5 else 'high'} item numbers preferred"
    elif alarm.get("coverage", False):
        yield f"{statistic['coverage']:,.0f} items never drawn"
    elif alarm.get("items", False):
        yield "some items preferred" if statistic["items"] > 1 else "more even than by chance"
    elif "items" in alarm:
        yield "uniform"


def _number(
    user: IntArray, n_candidates: IntArray, claimed: int | None, replacement: bool
) -> Check:
    """Whether each user with a draw has the claimed, or else the most common, number."""
    draws = np.bincount(user, minlength=n_candidates.size)
    draws, n = draws[draws > 0], n_candidates[draws > 0]
    sizes, frequencies = np.unique(draws, return_counts=True)
    modal_size = int(sizes[np.argmax(frequencies)])
    expected_draws = np.full(draws.size, modal_size if claimed is None else claimed)
    if not replacement:  # nobody can have more than all candidates
        expected_draws = np.where(draws >= n, draws, expected_draws)
    n_deviating = int((draws != expected_draws).sum())
    p_value = float(not n_deviating)
    if n_deviating and claimed is None and not replacement:
        # Draw i repeats one of those before it with probability (i - 1) / n at most, so that the
        # number dropped is below a sum of such trials, and that below a binomial's tail beyond
        # its mean + 1 (Hoeffding 1956).
        m = int(sizes[-1])
        dropped = np.where(draws >= n, 0, m - draws)
        p = np.minimum((m - 1) / (2 * n), 1)
        tail = np.where(dropped >= m * p + 1, stats.binom.sf(dropped - 1, m, p), 1.0)
        p_value = min(1.0, float(tail.min()) * draws.size)
    finding = (
        f"each of {draws.size:,} users has {modal_size:,} negatives"
        if sizes.size == 1
        else f"users have {sizes[0]:,} to {sizes[-1]:,} negatives, {frequencies.max():,} of "
        f"{draws.size:,} users {modal_size:,}"
    )
    if claimed is not None and n_deviating:
        finding += f", where {claimed:,} are claimed"
    return Check("numbers", float(n_deviating), p_value, finding)


def _binned(item: IntArray, n_items: int) -> tuple[IntArray, IntArray]:
    """Draws of each item, or of each stretch of items if there are few draws, and the sizes."""
    n_bins = min(n_items, max(2, item.size // _DRAWS_PER_BIN))
    ends = -(-np.arange(n_bins + 1, dtype=np.int64) * n_items // n_bins)
    return _counts(item * n_bins // n_items, n_bins), np.diff(ends)


def _items(
    drawn_keys: IntArray,
    positive_keys: IntArray,
    n_items: int,
    n_candidates: IntArray,
    replacement: bool,
) -> Check:
    """The chi-square statistic over its expectation, from exact means and variances by bin."""
    counts, bin_sizes = _binned(drawn_keys % n_items, n_items)
    n_bins = counts.size
    draws = _counts(drawn_keys // n_items, n_candidates.size).astype(np.float64)
    # The number of each user's positives in each bin.
    cell, n_positives = np.unique(
        positive_keys // n_items * n_bins + positive_keys % n_items * n_bins // n_items,
        return_counts=True,
    )
    owner, bin_index = cell // n_bins, as_intp(cell % n_bins)
    candidates = np.maximum(n_candidates, 1).astype(np.float64)
    corrected_draws = draws.copy()
    if not replacement:  # finite population correction
        corrected_draws *= np.maximum(candidates - draws, 0) / np.maximum(candidates - 1, 1)

    def taken_in(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(bin_index, values, minlength=n_bins), dtype=np.float64)

    def mean(weight: FloatArray) -> FloatArray:
        share = weight / candidates
        return np.asarray(bin_sizes * share.sum() - taken_in(share[owner] * n_positives))

    share = corrected_draws / candidates**2
    squares = bin_sizes**2 * share.sum() + taken_in(
        share[owner] * (n_positives - 2.0 * bin_sizes[bin_index]) * n_positives
    )
    expected, variance = mean(draws), mean(corrected_draws) - squares
    usable = expected > 1e-9
    ratio = float(((counts - expected)[usable] ** 2 / expected[usable]).sum())
    ratio /= max(float((variance[usable] / expected[usable]).sum()), 1e-300)
    dof = max(int(usable.sum()) - 1, 1)
    p_value = _two_sided(stats.chi2(dof), ratio * dof, ratio * dof)
    finding = (
        f"the counts of {int(usable.sum()):,} "
        f"{'items' if n_bins == n_items else 'stretches of items'} have {ratio:.3g} times the "
        "variance that uniform draws have on average"
    )
    return Check("items", ratio, p_value, finding)


def _excess_of_items(item: IntArray, n_items: int) -> float:
    """p-value of the counts of stretches of items, each at most twice as likely as if uniform.

    Draws without replacement are negatively associated, so that binomial tails bound theirs.
    """
    counts, bin_sizes = _binned(item, n_items)
    chances = np.minimum(_OWN_ITEMS * bin_sizes / n_items, 1.0)
    return float(min(1.0, counts.size * stats.binom.sf(counts - 1, item.size, chances).min()))


def _excess_of_ends(places: FloatArray) -> float:
    """p-value of places whose density is at most twice the uniform one."""
    ordered, steps = np.sort(places), np.arange(places.size + 1) / places.size
    low = (steps[1:] - _OWN_ITEMS * ordered).max()
    high = (1.0 - steps[:-1] - _OWN_ITEMS * (1.0 - ordered)).max()
    distance = max(float(low), float(high), 0.0)
    return float(min(1.0, 2.0 * np.exp(-2.0 * places.size * distance**2)))


def _places(
    drawn_keys: IntArray,
    positive_keys: IntArray,
    n_items: int,
    n_candidates: IntArray,
    rank: Callable[[IntArray], IntArray],
    rng: np.random.Generator,
) -> FloatArray:
    """Place of each draw in (0, 1) among its user's candidates, in the order of `rank`."""
    user, item_ranks = drawn_keys // n_items, rank(drawn_keys % n_items)
    positive_rank_keys = np.sort(positive_keys // n_items * n_items + rank(positive_keys % n_items))
    before = np.searchsorted(positive_rank_keys, user * n_items + item_ranks) - np.searchsorted(
        positive_rank_keys, user * n_items
    )
    return np.asarray((item_ranks - before + rng.random(drawn_keys.size)) / n_candidates[user])


def _by_popularity(positives: IntArray) -> Callable[[IntArray], IntArray]:
    """Rank of items by number of positives, then by item number, from 0."""
    items, counts = np.unique(positives, return_counts=True)
    ranks = np.empty(items.size, dtype=np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(items.size)

    def rank(item: IntArray) -> IntArray:
        item_index = np.searchsorted(items, item)  # positives with a lower number
        has_positives = items[np.minimum(item_index, items.size - 1)] == item
        last = items.size + item - item_index  # items without positives come last
        return np.where(has_positives, ranks[np.minimum(item_index, items.size - 1)], last)

    return rank


def _order(check: str, places: FloatArray, order: str) -> Check:
    test = stats.kstest(places, "uniform")
    finding = (
        f"half of the draws are among the first {np.median(places):.1%} of the candidates {order} "
        "(uniform draws: 50%)"
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
    labels, item = _columns(negatives, "negatives")
    if positives is None:
        item = _from_zero([item], n_items, "negatives")[0]
        codes, users = pd.factorize(labels)
        return codes, item, (codes[:0], item[:0]), len(users)
    if not isinstance(positives, (str, Path, pd.DataFrame)):
        raise ValueError("positives must have columns user and item, as negatives do")
    positive_labels, positive_items = _columns(positives, "positives")
    item, positive_items = _from_zero([item, positive_items], n_items, "negatives and positives")
    codes, users = pd.factorize(pd.concat([labels, positive_labels], ignore_index=True))
    return codes[: item.size], item, (codes[item.size :], positive_items), len(users)


def _columns(table: Any, name: str) -> tuple[pd.Series, IntArray]:
    """The user labels and item numbers of a table, checked."""
    listed = None if isinstance(table, pd.DataFrame) else lists(Path(table))
    frame, source = loaded(table, name) if listed is None else (listed, str(table))
    if name == "negatives":
        frame = listed_negatives(frame, source)
    frame = frame.set_axis(log_names(frame.columns, source, ("user", "item")), axis=1)
    require_columns(frame, ("user", "item"), source)
    warn_ignored(frame.columns, source, ("user", "item"))
    item = whole_numbers(frame, "item", 0, source)
    user = labelled(frame, "user", source)
    assert user is not None  # the column is there
    return user, item


def _from_zero(tables: list[IntArray], n_items: int, source: str) -> list[IntArray]:
    """Item numbers from 0, where they count from 1 to n_items; refuse those beyond."""
    low, high = min(item.min() for item in tables), max(item.max() for item in tables)
    if low >= 1 and high == n_items:
        warnings.warn(f"items of {source} are read as numbered from 1", stacklevel=4)
        return [item - 1 for item in tables]
    if high >= n_items:
        raise ValueError(f"item must be < n_items = {n_items}, got {high} in {source}")
    return tables


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

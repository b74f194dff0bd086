"""Test whether logged negatives are uniform, as many as claimed, and without duplicates.

All corrections and bounds of this package rest on the distribution of the negatives. A sampler
that draws from part of the catalogue, prefers popular items, gives every user the same negatives
or lets positives in has another distribution, and the corrections are then wrong.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy import stats

from ._confidence import CONFIDENCE
from ._threads import one_thread
from ._validate import IntArray, checked_confidence, integer, integers
from .log.columns import labelled, log_names, require_columns, warn_ignored, whole_numbers
from .log.formats import listed_negatives, lists
from .log.tables import loaded
from .results import Audit

_DRAWS_PER_BIN = 10
#: How many times as often as uniform an item is drawn at most, if users own half of all items.
_OWN_ITEMS = 2.0

#: A row of the result, before the alarm is known.
Check = tuple[str, float, float, str]


@one_thread
def audit(
    negatives: str | Path | pd.DataFrame | ArrayLike,
    n_items: int,
    positives: Any = None,
    *,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    confidence: float = CONFIDENCE,
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
        Size of the catalogue, in [2, 10**9].
    positives : sparse matrix (n_users, n_items), DataFrame, or CSV or Parquet file, optional
        Items that must not be among a user's negatives: training items and the held-out item. A
        matrix, with users numbered from 0; or columns user and item, or a file as for negatives or
        of ratings (user, item, rating, time, by tabs). Empty if users own no items.
    n_negatives : int, optional
        The claimed number of negatives of each user, at least 1.
    replacement : bool, optional
        Whether negatives are claimed to be drawn with replacement. By default True if any user's
        negative repeats; the result's settings say which.
    confidence : float
        Probability that none of the checks raises a false alarm, at least; in (0, 1). Each check
        has an equal share of the error (Bonferroni). Asymptotic in the number of draws.

    Returns
    -------
    Audit
        Its frame has a row for each check: check, statistic, p_value, alarm (bool) and finding (a
        sentence). A p-value of 0 or 1 means that the claim excludes, or does not exclude, the
        finding.

    Raises
    ------
    ValueError
        If there are no draws, an item is not in the catalogue, `positives` has another form, has
        none of the users or leaves a user without a candidate, or an option is outside its range.

    See Also
    --------
    sampled_metrics.read_log : Read the log whose negatives passed.

    Examples
    --------
    Users who own no items draw from the first half of the catalogue:

    >>> draws = np.random.default_rng(1).permuted(np.tile(np.arange(40), (200, 1)), axis=1)[:, :9]
    >>> audit(draws, 80, positives=sp.csr_array((200, 80))).alarms
    ('items',)
    """
    n_items = integer(n_items, "n_items", 2, 10**9)
    if n_negatives is not None:
        n_negatives = integer(n_negatives, "n_negatives", 1, 2**62)
    error_rate = 1.0 - checked_confidence(confidence)
    drawn, owned = _tables(negatives, positives, n_items)
    user, owner = drawn["user"].to_numpy(), owned["user"].to_numpy()
    n_users = 1 + int(max(user.max(), owner.max(initial=0)))
    n_candidates = n_items - np.bincount(owner, minlength=n_users)
    if (n_candidates[user] < 1).any():
        raise ValueError("positives must leave each user a candidate, got one with none")
    keys = drawn["user"] * n_items + drawn["item"]
    is_owned = keys.isin(owned["user"] * n_items + owned["item"]).to_numpy()
    if replacement is None:
        replacement = bool(keys.duplicated().any())
    checks = [] if positives is None else [_positives(user, is_owned)]
    checks.append(_duplicates(user, keys, n_candidates, replacement))
    checks.append(_number(np.bincount(user)[np.unique(user)], n_negatives))
    if not is_owned.all():
        drawn, excess = drawn[~is_owned], positives is None
        checks.append(_items(drawn, owned, n_items, n_candidates, replacement, excess))
    frame = pd.DataFrame(checks, columns=["check", "statistic", "p_value", "finding"])
    frame.insert(3, "alarm", frame["p_value"] <= error_rate / len(frame))
    settings = {"n_items": n_items, "replacement": replacement, "confidence": float(confidence)}
    return Audit(frame, settings | ({} if positives is not None else {"positives": "not given"}))


def _positives(user: IntArray, is_owned: Any) -> Check:
    (users, n_users), drawn = (np.unique(x).size for x in (user[is_owned], user)), is_owned.sum()
    finding = f"{users:,} of {n_users:,} users have a positive among their negatives"
    return "positives", float(drawn), float(not drawn), f"{finding}, in {drawn:,} draws"


def _duplicates(user: IntArray, keys: pd.Series, n_candidates: Any, replacement: bool) -> Check:
    """Repeats; with replacement pairs of equal draws, whose number is about Poisson."""
    counts, draws = keys.value_counts().to_numpy(), np.bincount(user, minlength=n_candidates.size)
    pairs = int((counts * (counts - 1) // 2).sum())
    # Pairs of draws of a user are equal with probability 1 / n_candidates, pairwise independently.
    expected = float((draws * (draws - 1) / 2 / np.maximum(n_candidates, 1)).sum())
    finding = f"{pairs:,} pairs of equal draws of a user; {expected:,.0f} expected with replacement"
    p_value = _two_sided(stats.poisson(expected), pairs, pairs - 1) if replacement else not pairs
    return "duplicates", float(pairs), float(p_value), finding


def _number(draws: IntArray, claimed: int | None) -> Check:
    """Whether each user has the claimed number; without a claim there is no alarm."""
    low, high = draws.min(), draws.max()
    finding = f"{draws.size:,} users have {low:,}{f' to {high:,}' if low < high else ''} negatives"
    if claimed is None:
        return "numbers", 0.0, 1.0, finding
    wrong = int((draws != claimed).sum())
    return "numbers", float(wrong), float(not wrong), f"{finding}, where {claimed:,} are claimed"


def _two_sided(distribution: Any, value: float, below: float) -> float:
    """Two-sided p-value; `below` is the largest possible value below `value`."""
    return min(1.0, 2 * float(min(distribution.cdf(value), distribution.sf(below))))


def _items(
    drawn: pd.DataFrame,
    owned: pd.DataFrame,
    n_items: int,
    n_candidates: IntArray,
    replacement: bool,
    excess: bool,
) -> Check:
    """The chi-square statistic over its expectation, from exact means and variances.

    It is of the counts of stretches of items, the items with most owners first, with ten draws or
    more on average. With `excess` the p-value is that of stretches that are drawn too often: each
    at most twice as likely as if uniform. Draws without replacement are negatively associated, so
    that binomial tails bound theirs.
    """
    n_bins = min(n_items, max(2, len(drawn) // _DRAWS_PER_BIN))
    sizes = np.diff(-(-np.arange(n_bins + 1) * n_items // n_bins))
    bins, owned_bins = (
        _by_popularity(table["item"], owned["item"]) * n_bins // n_items for table in (drawn, owned)
    )
    entries = np.ones(len(owned)), (owned_bins, owned["user"])
    n_owned = sp.csr_array(entries, (n_bins, n_candidates.size))
    draws = np.bincount(drawn["user"], minlength=n_candidates.size).astype(float)
    pool = np.maximum(n_candidates, 1).astype(float)
    # More draws than candidates are duplicates.
    fraction = 0.0 if replacement else np.minimum((draws - 1) / np.maximum(pool - 1, 1), 1)
    share, noise = draws / pool, draws * (1 - fraction) / pool
    expected = sizes * share.sum() - n_owned @ share
    variance = sizes * noise.sum() - n_owned @ noise - sizes**2 * (noise / pool).sum()
    variance += 2 * sizes * (n_owned @ (noise / pool)) - n_owned.power(2) @ (noise / pool)
    usable, counts = expected > 1e-9, np.bincount(bins, minlength=n_bins)
    ratio = float(((counts - expected)[usable] ** 2 / expected[usable]).sum())
    ratio /= max(float((variance[usable] / expected[usable]).sum()), 1e-300)
    dof = max(int(usable.sum()) - 1, 1)
    p_value = _two_sided(stats.chi2(dof), ratio * dof, ratio * dof)
    if excess:
        chances = np.minimum(_OWN_ITEMS * sizes / n_items, 1.0)
        p_value = min(1.0, n_bins * stats.binom.sf(counts - 1, len(drawn), chances).min())
    cells = f"{n_bins:,} {'items' if n_bins == n_items else 'stretches of items'}"
    finding = f"the counts of {cells} have {ratio:.3g} times the variance of uniform draws"
    return "items", ratio, float(p_value), finding


def _by_popularity(item: pd.Series, owned: pd.Series) -> IntArray:
    """The places of items if those with most owners come first, and then all others, from 0."""
    items, counts = np.unique(owned, return_counts=True)
    rank = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
    index = np.searchsorted(items, item)  # owned items with a lower number
    is_owned = np.isin(item, items)
    return np.where(is_owned, np.append(rank, 0)[index], items.size + item - index)


def _tables(negatives: Any, positives: Any, n_items: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Users, numbered from 0, and items of the draws and of the positives."""
    if isinstance(negatives, (str, Path, pd.DataFrame)):
        drawn = _columns(negatives, "negatives")
    else:
        rows = integers(negatives, "negatives", 0, n_items - 1)
        if rows.ndim != 2 or not rows.size:
            raise ValueError(f"negatives must have a row for each user, got shape {rows.shape}")
        user = np.repeat(np.arange(len(rows)), rows.shape[1])
        drawn = pd.DataFrame({"user": user, "item": rows.ravel()})
    owned = drawn[:0]
    if sp.issparse(positives):
        owned = pd.DataFrame(dict(zip(("user", "item"), positives.nonzero(), strict=True)))
        if positives.shape != (shape := (drawn["user"].nunique(), n_items)):
            raise ValueError(f"positives must have shape {shape}, got {positives.shape}")
    elif positives is not None:
        owned = _columns(positives, "positives")
    pairs = pd.concat([drawn, owned])
    low, high = pairs["item"].min(), pairs["item"].max()
    if low >= 1 and high == n_items:
        warnings.warn("items are read as numbered from 1", stacklevel=4)
        pairs["item"] -= 1
    elif high >= n_items:
        raise ValueError(f"item must be < n_items = {n_items}, got {high}")
    pairs["user"] = pd.factorize(pairs["user"])[0]
    drawn, owned = pairs[: len(drawn)], pairs[len(drawn) :]
    if owned.empty or owned["user"].isin(drawn["user"]).any():
        return drawn, owned.drop_duplicates()
    raise ValueError("positives must have users of negatives, got none of them")


def _columns(table: Any, name: str) -> pd.DataFrame:
    """The user labels and item numbers of a table, checked."""
    listed = lists(Path(table)) if isinstance(table, (str, Path)) else None
    frame, origin = loaded(table, name) if listed is None else (listed, str(table))
    if name == "negatives":
        frame = listed_negatives(frame, origin)
    frame = frame.set_axis(log_names(frame.columns, origin, ("user", "item")), axis=1)
    require_columns(frame, ("user", "item"), origin)
    warn_ignored(frame.columns, origin, ("user", "item"))
    user = np.asarray(labelled(frame, "user", origin))
    return pd.DataFrame({"user": user, "item": whole_numbers(frame, "item", 0, origin)})

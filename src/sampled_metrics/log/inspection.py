"""What came in: scores of all items, a sample for each user, one sample for all, or cut lists.

All readers, `read_log`, `evaluate` and `RankMetric` ask here, so that no sample is taken
for all items, and no shared negatives for independent ones.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from .._validate import FloatArray, IntArray
from ..numerics.arrays import namespace, on_host

#: Seed of the random orders of items that lists are compared in.
_SEED = 20_260
#: Random orders of the items (minwise hashing).
_ORDERS = 8
#: A list nearly equals another if it shares at least this part of its negatives.
_OVERLAP = 0.8
#: Shorter lists are not compared: they may be nearly equal by chance.
_LONG = 5
#: Probability at most that independent uniform draws are taken for shared ones, for each test.
ERROR_RATE = 1e-6
#: Lists that a reader compares: as many in a row, for batches, and spread over all.
_COMPARED = 1_000
#: Part of the users with another's list from which on negatives count as shared.
_SHARED = 0.05
#: Part of the items that may be left out of all samples, such as those that nobody bought.
_NEVER_DRAWN = 0.1
#: Scores so far below zero stand for "no candidate" if most entries have them.
_FAR_BELOW = -1e3


def _overlap(list_index: IntArray, item: IntArray, n_items: int) -> tuple[NDArray[np.bool_], float]:
    """Which lists of distinct items nearly equal another, by comparing each with a similar one
    (minwise hashing); and Chernoff's bound on the probability of so large an overlap.

    `list_index` counts the lists from 0 in order; `item` is below `n_items`. Two similar lists are
    likely to agree on their first item in some random order. Each list is compared with the first
    that agrees on two consecutive orders. Lists of independent draws overlap by as many items as
    their frequencies tell.
    """
    code = np.unique(item, return_inverse=True)[1]
    sizes = np.bincount(list_index)
    starts, n_codes = np.append(0, np.cumsum(sizes)[:-1]), int(code.max()) + 1
    rng = np.random.default_rng(_SEED)
    minhashes = [
        np.minimum.reduceat(rng.permutation(n_codes)[code], starts, dtype=np.int64)
        for _ in range(_ORDERS)
    ]
    first_key = np.arange(sizes.size, dtype=np.int64) * n_codes
    list_keys = np.sort(first_key[list_index] + code)
    largest = np.zeros(sizes.size, dtype=np.int64)
    for minhash, next_minhash in pairwise(minhashes):
        _, first_lists, group = np.unique(
            minhash * n_codes + next_minhash, return_index=True, return_inverse=True
        )
        compared = first_lists[group]
        rows = np.flatnonzero(compared[list_index] != list_index)
        keys = first_key[compared[list_index[rows]]] + code[rows]
        nearest = np.minimum(np.searchsorted(list_keys, keys), list_keys.size - 1)
        common = np.bincount(
            list_index[rows], list_keys[nearest] == keys, minlength=sizes.size
        ).astype(np.int64)
        largest = np.maximum(largest, common)
    is_alike = (largest >= _OVERLAP * sizes) & (sizes >= _LONG)
    # How often items are in lists that are not like another.
    frequency = np.bincount(code[~is_alike[list_index]], minlength=n_codes) / max(sizes.size, 1)
    frequency = np.maximum(frequency, sizes.mean() / n_items)
    expected = np.bincount(list_index, frequency[code], minlength=sizes.size)
    exponents = np.where(is_alike, _exponent(largest, expected), 0.0)
    n_pairs = sizes.size * (sizes.size - 1) / 2
    p_value = float(min(1.0, n_pairs * np.exp(-exponents.max())))
    return is_alike, p_value


def _exponent(count: Any, mean: Any) -> FloatArray:
    """-log of Chernoff's bound on the probability that independent events number `count`."""
    count, mean = np.asarray(count, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = count * np.log(count / mean) - count + mean
    return np.where(count > mean, exponent, 0.0)


class Drawn(NamedTuple):
    """What a reader that knows the negatives tells `read_log`, which knows the catalogue."""

    n_distinct: int
    """Different items among the negatives of all users."""
    most_often: int
    """Users who have the most frequent of them, draws counted."""


def drawn(list_index: IntArray, item: IntArray) -> tuple[Drawn, bool]:
    """What the negatives of a recommender show, and whether many lists are like another's.

    Both arrays have an element for each draw, ordered by list.
    """
    if not item.size:
        return Drawn(0, 0), False
    counts = np.bincount(item)
    seen = Drawn(int(np.count_nonzero(counts)), int(counts.max()))
    labels = list_index[np.append(True, list_index[1:] != list_index[:-1])]
    if labels.size > 2 * _COMPARED:
        spread = labels[:: labels.size // _COMPARED]
        is_compared = np.isin(list_index, np.union1d(labels[:_COMPARED], spread))
        list_index, item = list_index[is_compared], item[is_compared]
    keys = np.unique(list_index.astype(np.int64) * counts.size + item)  # a draw may repeat
    index = np.unique(keys // counts.size, return_inverse=True)[1]
    is_alike, p_value = _overlap(index, keys % counts.size, seen.n_distinct)
    is_shared = p_value <= ERROR_RATE and is_alike.mean() > _SHARED
    return seen, bool(is_shared or _are_equal(index, keys % counts.size, seen.n_distinct))


def _are_equal(list_index: IntArray, item: IntArray, n_distinct: int) -> bool:
    """Whether most lists equal another, and not by chance."""
    sizes = np.bincount(list_index)
    starts = np.append(0, np.cumsum(sizes)[:-1])
    # Sums of random numbers identify sets of items.
    numbers = np.random.default_rng(_SEED).integers(2**63, size=int(item.max()) + 1)
    sums = np.add.reduceat(numbers.astype(np.uint64)[item], starts)
    _, code, counts = np.unique(sums, return_inverse=True, return_counts=True)
    is_repeated = counts[code.ravel()] > 1
    m = int(sizes.min())
    n_lists = gammaln(n_distinct + 1) - gammaln(m + 1) - gammaln(n_distinct - m + 1)
    by_chance = m < n_distinct and n_lists < np.log(sizes.size**2 / ERROR_RATE)
    return bool(is_repeated.mean() > 0.5 and not by_chance)


def never_drawn_exponent(n_distinct: int, n_items: float, rate: float) -> float:
    """-log of Chernoff's bound on the probability that draws hit at most `n_distinct` items.

    Each draws a candidate with probability 1 - exp(-rate) in all, and users have `n_items`
    candidates on average. If they differ, more items are drawn than if they are the same: the bound
    log(1 - p + p exp(-t)) is convex in the rate of an item, so it is largest where rates are all or
    nothing. Draws without replacement are negatively associated, which only helps.
    """
    hit, share = -np.expm1(-rate), n_distinct / n_items
    if share >= hit:
        return 0.0
    miss = (1.0 - share) * (np.log1p(-share) + rate)
    return float(n_items * (miss + (share * np.log(share / hit) if share else 0.0)))


def not_independent(
    seen: Drawn, lists: FloatArray, negatives: IntArray, candidates: IntArray, replacement: bool
) -> str:
    """Why these negatives are no independent uniform draws for each user, or "" if they may be.

    The arrays have an element for each kind of list: how many lists, their negatives, and the items
    that these were drawn from. Neither test depends on which items users own: whatever they are, a
    candidate is drawn with the probability that its list's numbers give, and others are not.
    """
    rates = -negatives * np.log1p(-1.0 / candidates) if replacement else np.empty(lists.size)
    if not replacement:
        with np.errstate(divide="ignore"):
            rates = np.minimum(-np.log1p(-negatives / candidates), 700.0)
    rate = float(lists @ rates)
    n_users, n_items = float(lists.sum()), float(lists @ (rates * candidates)) / rate
    expected = float(lists @ (negatives / candidates))
    exponent = float(_exponent(seen.most_often, expected))
    if candidates.max() * np.exp(-exponent) <= ERROR_RATE:
        return (
            f"one item is among the negatives of {seen.most_often:,} of {n_users:,.0f} users, "
            f"where {expected:,.0f} are expected of independent draws"
        )
    n_drawable = (1.0 - _NEVER_DRAWN) * n_items
    if np.exp(-never_drawn_exponent(seen.n_distinct, n_drawable, rate)) <= ERROR_RATE:
        return (
            f"only {seen.n_distinct:,} of {n_items:,.0f} items are among the negatives of "
            f"{n_users:,.0f} users, where independent draws hit about "
            f"{-n_items * np.expm1(-rate):,.0f}"
        )
    return ""


def refuse_sample(scores: Any, targets: NDArray[Any], mask: NDArray[np.bool_] | None) -> None:
    """Refuse a matrix of scores whose rows hold only a sample of the items, or the best k.

    Items that are no candidates have minus infinity, a number far below the scores, or False in
    `mask`. A relevant item among them was cut off. Few candidates, or as many in each row, are
    a sample; a mask of training items leaves most items, and unequal numbers. `targets` are columns
    or booleans.
    """
    xp: Any = namespace(scores) or np
    low, n_columns = float(xp.min(scores)), int(scores.shape[1])
    if mask is None and low > _FAR_BELOW:
        return
    is_unscored = np.zeros(tuple(map(int, scores.shape)), bool)
    if low <= _FAR_BELOW:
        is_unscored = on_host(scores == low)
    is_left_out = is_unscored if mask is None else is_unscored | ~mask
    middle = float(np.median(n_columns - np.count_nonzero(is_left_out, axis=1)))
    if middle < 0.5 * n_columns or low == -np.inf:
        _refuse_cut(is_unscored, targets, low)
    if not _are_few_or_equal(is_left_out):
        return
    words = ["False in mask"] * (mask is not None) + [f"{low:g}"] * bool(is_unscored.any())
    raise ValueError(
        f"scores must hold those of all items, got about {middle:,.0f} of {n_columns:,} in a row, "
        f"and {' or '.join(words)} elsewhere, as if a sample was scored: give each row its "
        "candidates alone, with protocol, or read them by readers.recbole_scores or from_scores; "
        f"if no other item is a candidate, say n_items={n_columns}"
    )


def _refuse_cut(is_unscored: NDArray[np.bool_], targets: NDArray[Any], low: float) -> None:
    """Refuse a relevant item without a score."""
    every_row = np.arange(len(targets))
    relevant = np.nonzero(targets) if targets.ndim == 2 else (every_row, targets)
    is_cut = is_unscored[relevant]
    if is_cut.any():
        raise ValueError(
            f"scores must hold those of the relevant items, got {low:g} for the one in row "
            f"{int(relevant[0][int(np.argmax(is_cut))])} ({np.count_nonzero(is_cut):,} of "
            f"{is_cut.size:,}), as in lists of the best k: score all items, or all candidates"
        )


def _are_few_or_equal(is_left_out: NDArray[np.bool_]) -> bool:
    """Whether rows have few candidates, or equally many and not the same."""
    n_rows, n_columns = is_left_out.shape
    n_candidates = n_columns - np.count_nonzero(is_left_out, axis=1)
    middle = float(np.median(n_candidates))
    if middle < 0.5 * n_columns:
        return True
    is_equal = n_rows > 1 and n_candidates.min() == n_candidates.max() and middle <= 0.9 * n_columns
    return bool(is_equal and not (is_left_out == is_left_out[0]).all())


def refuse_batch(n_columns: int, targets: IntArray) -> None:
    """Refuse a square matrix whose diagonal is relevant: each row's candidates are the batch's."""
    if targets.size == n_columns > 1 and (targets == np.arange(n_columns)).all():
        raise ValueError(
            f"scores must not be those of a batch, got {n_columns:,} rows and columns, with the "
            "diagonal relevant: the items of a batch are one sample for all its rows. If batches "
            "are a random partition of the items, each item once, say blocks=True with a protocol; "
            "batches of interactions repeat items by their popularity, and nothing of all items "
            f"follows; if these are all items, say n_items={n_columns}"
        )


def refuse_repeated(scores: Any, targets: Any, mask: Any) -> None:
    """Refuse a block in which an item stands twice, and what is no block."""
    matrix, columns = on_host(scores), on_host(targets)
    n = matrix.shape[0]
    if matrix.shape != (n, n) or not np.array_equal(columns, np.arange(n)):
        raise ValueError(
            "scores must be a square matrix with blocks=True, and targets 0, 1, ..., its diagonal, "
            f"got shape {matrix.shape}"
        )
    n_different = len(np.unique(matrix, axis=1).T)
    if mask is not None or n_different < n:
        repeated = "a mask" if mask is not None else f"{n_different:,} different columns of {n:,}"
        raise ValueError(
            f"blocks must hold each item once, got {repeated}, as in batches of interactions, "
            "whose items repeat by their popularity: no estimate of all items follows"
        )

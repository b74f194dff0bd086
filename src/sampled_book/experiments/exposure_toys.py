"""Smallest cases in which the exact metric of held-out items errs and the sampled one does not.

One user has several relevant items, and the log shows one of them. Everything is a fraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from math import comb


def depth(k: int, n_items: int, n_negatives: int) -> int:
    """The rank with k - 1 sampled negatives above it, about: k (n - 1) / m.

    >>> depth(10, 1001, 100), depth(10, 1001, 1000)
    (100, 10)
    """
    return round(k * (n_items - 1) / n_negatives)


@dataclass(frozen=True)
class Toy:
    """Two recommenders of one user whose true order the exact metric reverses and the sampled one
    keeps: ranks of the relevant items, the weights with which these are held out, and the values of
    both recommenders, better first, of Recall@k: true, exact, sampled, and exact at :func:`depth`.
    """

    n_items: int
    cutoff: int
    n_negatives: int
    weights: tuple[int, ...]
    better: tuple[int, ...]
    worse: tuple[int, ...]
    values: Mapping[str, tuple[Fraction, Fraction]]


def toy_values(
    ranks: Sequence[int], weights: Sequence[int], n_items: int, k: int, m: int, truth: str
) -> dict[str, Fraction]:
    """Recall@k of one user by hand: `ranks` of the relevant items among `n_items`, one of which is
    held out with a probability in proportion to its weight.
    """
    total, samples = sum(weights), comb(n_items - 1, m)
    places = ranks if truth == "true" else [r - sum(s < r for s in ranks) for r in ranks]

    def seen(hits: Iterable[int], scale: int = 1) -> Fraction:
        pairs = zip(hits, weights, strict=True)
        return sum((Fraction(hit * weight, scale * total) for hit, weight in pairs), Fraction(0))

    deep = depth(k, n_items, m)
    kept = [sum(comb(r - 1, j) * comb(n_items - r, m - j) for j in range(k)) for r in ranks]
    return {
        "true": Fraction(sum(place <= k for place in places), len(ranks)),
        "exact": seen(int(r <= k) for r in ranks),
        "sampled": seen(kept, samples),
        "deeper": seen(int(r <= deep) for r in ranks),
    }


def smallest_toy(truth: str = "true", most_weight: int = 4, most_items: int = 5) -> Toy | None:
    """The smallest toy by number of items, relevant items, largest weight, cutoff and negatives, of
    widest margin; None if there is none. One relevant item has a weight of up to `most_weight`, the
    others 1; `truth` is "true" or "alone", as in `complete_data.values`.
    """
    for n in range(3, most_items + 1):
        for relevant, heavy, k in product(range(2, n), range(1, most_weight + 1), range(1, n - 1)):
            weights = (heavy, *[1] * (relevant - 1))
            for m in range(k, n - 1):
                found = {
                    ranks: toy_values(ranks, weights, n, k, m, truth)
                    for ranks in permutations(range(1, n + 1), relevant)
                }
                best, widest = None, Fraction(0)
                for a, b in permutations(found, 2):
                    gaps = {key: found[a][key] - found[b][key] for key in found[a]}
                    margin = min(gaps["true"], -gaps["exact"], gaps["sampled"])
                    if margin > widest:
                        best, widest = (a, b), margin
                if best is not None:
                    first, second = (found[ranks] for ranks in best)
                    pairs = {key: (first[key], second[key]) for key in first}
                    return Toy(n, k, m, weights, *best, pairs)
    return None

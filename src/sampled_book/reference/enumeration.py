"""Slow, obvious twins of the laws: 50-digit and exact rational arithmetic, and enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb

import mpmath as mp
import numpy as np
from scipy import stats

DIGITS = 50


def exact_pmf(n: int, m: int, rank: int, replacement: bool) -> list[Fraction]:
    """P(x negatives above the item), x = 0..m, from krichene2020, section 4.3."""
    above, pool = rank - 1, n - 1
    if replacement:
        p = Fraction(above, pool)
        return [comb(m, x) * p**x * (1 - p) ** (m - x) for x in range(m + 1)]
    return [
        Fraction(comb(above, x) * comb(pool - above, m - x), comb(pool, m)) for x in range(m + 1)
    ]


def digits_pmf(n: int, m: int, rank: int, replacement: bool, x: int) -> mp.mpf:
    """One probability of the law to 50 digits, for catalogues too large for `exact_pmf`."""
    with mp.workdps(DIGITS):
        above, below = rank - 1, n - rank
        if replacement:
            p, q = mp.mpf(above) / (n - 1), mp.mpf(below) / (n - 1)
            return mp.binomial(m, x) * p**x * q ** (m - x)
        if x > above or m - x > below:
            return mp.mpf(0)
        return mp.binomial(above, x) * mp.binomial(below, m - x) / mp.binomial(n - 1, m)


def every_sample(ranks: list[int], n: int, m: int, replacement: bool) -> list[tuple[int, ...]]:
    """The relevant items' sampled ranks in every equally likely sample of m negatives."""
    negatives = sorted(set(range(1, n + 1)) - set(ranks))
    draws = product(negatives, repeat=m) if replacement else combinations(negatives, m)
    ordered = sorted(ranks)
    return [
        tuple(j + sum(item < rank for item in drawn) for j, rank in enumerate(ordered, start=1))
        for drawn in draws
    ]


def by_items(
    n: int, m: int, rank: int, replacement: bool, repetitions: int, seed: int
) -> np.ndarray:
    """Sampled ranks of an item, from so many samples that are drawn item by item."""
    rng = np.random.default_rng(seed)
    irrelevant = np.delete(np.arange(1, n + 1), rank - 1)
    samples = (rng.choice(irrelevant, m, replacement, shuffle=False) for _ in range(repetitions))
    return np.array([1 + np.count_nonzero(items < rank) for items in samples])


def chi_square(sampled_ranks: np.ndarray, pmf: np.ndarray) -> tuple[float, int, float]:
    """Pearson's statistic of ranks against a distribution, its cells, and the p-value.

    Ranks that are expected fewer than five times are pooled with the nearest that is not.
    """
    expected = sampled_ranks.size * pmf
    first, last = np.flatnonzero(expected >= 5)[[0, -1]]
    cell = np.clip(np.arange(pmf.size), first, last) - first
    pooled = np.bincount(cell, expected)
    observed = np.bincount(cell[sampled_ranks - 1], minlength=pooled.size)
    statistic = float(((observed - pooled) ** 2 / pooled).sum())
    return statistic, pooled.size, float(stats.chi2.sf(statistic, max(pooled.size - 1, 1)))


def ndcg_by_integral(pmf: list[Fraction]) -> mp.mpf:
    """Expected NDCG of a sampled rank as AP and a mixture of flatter reciprocals, 30 digits."""
    with mp.workdps(DIGITS - 20):
        mass = [mp.mpf(probability.numerator) / probability.denominator for probability in pmf]
        ap = sum(probability / (x + 1) for x, probability in enumerate(mass))
        tail = mp.quad(
            lambda angle: sum(
                probability / (1 + (x + 2) * mp.exp(-mp.pi * mp.tan(angle)))
                for x, probability in enumerate(mass)
            ),
            mp.linspace(-mp.pi / 2, mp.pi / 2, 9),
        )
        return mp.log(2) * (ap + tail / mp.pi)

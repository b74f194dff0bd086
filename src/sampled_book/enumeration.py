"""Slow, obvious twins of the laws: 50-digit and exact rational arithmetic, and enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb

import mpmath as mp

DIGITS = 50


def exact_law(n: int, m: int, rank: int, replacement: bool) -> list[Fraction]:
    """P(x negatives above the item), x = 0..m, from krichene2020, section 4.3."""
    above, pool = rank - 1, n - 1
    if replacement:
        p = Fraction(above, pool)
        return [comb(m, x) * p**x * (1 - p) ** (m - x) for x in range(m + 1)]
    return [
        Fraction(comb(above, x) * comb(pool - above, m - x), comb(pool, m)) for x in range(m + 1)
    ]


def digits_law(n: int, m: int, rank: int, replacement: bool, x: int) -> mp.mpf:
    """One probability of the law to 50 digits, for catalogues too large for `exact_law`."""
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

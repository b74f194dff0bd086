"""The assumption on true ranks as its docstring has it, rank by rank; nothing of the package."""

from functools import lru_cache

import numpy as np
from scipy.optimize import linprog


@lru_cache(maxsize=8)
def law(m, n, replacement, ranks=None):
    """P(x negatives above) of m, in row r - 1 for the rank r among n items: draw by draw."""
    x, above = np.arange(m + 1), np.arange(ranks or n)[:, np.newaxis]
    found = np.zeros((above.size, m + 1))
    found[:, 0] = 1.0
    for before in range(m):
        out = 0 if replacement else 1
        hit = np.clip((above - out * x) / (n - 1 - out * before), 0.0, 1.0)
        found, hits = found * (1.0 - hit), found * hit
        found[:, 1:] += hits[:, :-1]
    return found


def head(n, m, above=10):
    """How many ranks have fewer than `above` of m negatives above them on average, about."""
    return min(above * n // m, n)


def most(values, n, top, equal=None):
    """The largest mean of values over all populations, and one where it is.

    Down to the rank `top` deeper ranks have fewer users. `equal` is a matrix and what a
    population's product with it must be.
    """
    fall = (np.eye(n) - np.eye(n, k=1))[: max(top - 1, 0)]
    columns, right = [np.ones((n, 1))], [np.ones(1)]
    if equal is not None:
        columns.append(equal[0])
        right.append(equal[1])
    found = linprog(
        -values,
        A_ub=-fall if len(fall) else None,
        b_ub=np.zeros(len(fall)) if len(fall) else None,
        A_eq=np.concatenate(columns, axis=1).T,
        b_eq=np.concatenate(right),
        method="highs",
    )
    assert found.status == 0, found.message
    return -found.fun, found.x


def some(n, top, rng):
    """A population that an assumption allows, drawn at random."""
    return most(rng.normal(size=n) * rng.random(n) ** 3, n, top)[1]


def drawn(n, top, rng):
    """A mixture of three of them, and of an even one."""
    part = rng.dirichlet(np.full(4, 0.5))
    parts = [some(n, top, rng) for _ in range(3)]
    return part[:3] @ parts + part[3] / n


N = 400
#: Shares of users at some ranks of N; the others are spread evenly.
SPIKES = {
    "at rank 1": {1: 0.1},
    "all at rank 1": {1: 1.0},
    "at rank 10": {10: 0.1},
    "at rank 11": {11: 0.2},
    "at rank n": {N: 1.0},
    "two modes": {5: 0.3, 300: 0.7},
    "a few first, all others last": {1: 0.02, N: 0.98},
    "uniform": {},
}


def spiked(spikes):
    """A population of N ranks with so many of its users at some of them."""
    p = np.full(N, (1.0 - sum(spikes.values())) / N)
    for rank, share in spikes.items():
        p[rank - 1] += share
    return p


#: Fewer users at deeper ranks, for some of the first ranks or all.
FALLING = {
    "power law": 1.0 / np.arange(1, N + 1),
    "steep": 1.0 / np.arange(1, N + 1) ** 2,
    "rank 1": np.append(1.0, np.full(N - 1, 9.0 / (N - 1))),
    "flat to 10": np.append(np.full(10, 3.0), np.full(N - 10, 0.2)),
    "flat to 60": np.append(np.full(60, 1.0), np.full(N - 60, 0.01)),
    "first ranks, then far": np.append(np.full(20, 1.0), [*np.zeros(300), *np.ones(N - 320)]),
}

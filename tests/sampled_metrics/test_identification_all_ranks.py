"""Ends of intervals against linear programmes over all ranks, which bracket them on both sides.

The logarithm of each cell's probability is replaced by tangents, which lie above it, and HiGHS
solves what that leaves; tangents are added where its solution is, until the bracket is closed.
Nothing is shared with the package but the distribution of the sampled rank and its cells.
"""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, eye_array, hstack, vstack

from sampled_metrics import Protocol, identification, metric
from sampled_metrics.identification import Shape

THRESHOLD = 3.84


def must_not_be_negative(n, m, shape):
    """The docstring of Shape, written out as rows."""
    if shape is None:
        return csr_array((0, n))
    head = min(int(shape.head * n / m), n)
    rows = []
    for r in range(head - 1):
        rows.append({r: 1.0, r + 1: -1.0})
    if np.isfinite(shape.steepness):
        doublings = [range(2**k - 1, 2 ** (k + 1) - 1) for k in range(12)]
        doublings = [list(d) for d in doublings if d[-1] < head]
        for here, deeper in itertools.pairwise(doublings):
            row = {r: shape.steepness / len(deeper) for r in deeper}
            rows.append(row | {r: -1.0 / len(here) for r in here})
    at = [(i, r, value) for i, row in enumerate(rows) for r, value in row.items()]
    i, r, values = zip(*at, strict=True) if at else ([], [], [])
    return csr_array(coo_array((values, (i, r)), shape=(len(rows), n)))


class Programmes:
    """What is possible, by linear programmes, for counts in cells of one or more catalogues."""

    def __init__(self, sizes, m, shares, of, shape, counts, replacement=True):
        self.m, starts = m, identification.cells(m)
        self.laws = [
            np.add.reduceat(
                Protocol(n, m, replacement=replacement).pmf(np.arange(1, n + 1)), starts, axis=1
            )
            for n in sizes
        ]
        values = [share * of.vector(n) for n, share in zip(sizes, shares, strict=True)]
        self.values, self.counts = np.concatenate(values), np.concatenate(counts)
        blocks = [must_not_be_negative(n, m, shape) for n in sizes]
        rows = [hstack([csr_array((b.shape[0], n)) for n in sizes]).tolil() for b in blocks]
        sums, starts = np.zeros((len(sizes), sum(sizes))), np.cumsum([0, *sizes])
        law = np.zeros((sum(sizes), self.counts.size))
        for g, n in enumerate(sizes):
            at = slice(starts[g], starts[g] + n)
            rows[g][:, at], sums[g, at] = blocks[g], 1.0
            law[at, g * len(self.laws[g][0]) :][:, : len(self.laws[g][0])] = self.laws[g]
        self.shape, self.sums, self.law = csr_array(vstack(rows)), csr_array(sums), law
        self.seen = np.flatnonzero(self.counts > 0)
        share = np.concatenate([np.maximum(c, 0) / max(c.sum(), 1e-9) for c in counts])
        grid = np.geomspace(0.05, 20, 15)
        #: For each observed cell, where its logarithm has tangents.
        self.tangents = [list(np.minimum(share[j] * grid, 1.0)) for j in self.seen]

    def likelihood(self, p):
        return float(self.counts[self.seen] @ np.log((p @ self.law)[self.seen]))

    def solved(self, towards, least):
        """Most of `towards`, or of the likelihood if None, at a likelihood of `least` or more.

        The outer bound, and the distribution where it is.
        """
        k, cells, falls = self.law.shape[0], self.seen.size, self.shape.shape[0]
        c, one, none = self.counts[self.seen], eye_array(cells), csr_array((cells, cells))
        # Distributions, the probabilities of the observed cells, and their logarithms.
        law = csr_array(self.law[:, self.seen].T)
        equal = vstack(
            [
                hstack([self.sums, csr_array((self.sums.shape[0], 2 * cells))]),
                hstack([law, -one, none]),
            ]
        )
        right = np.append(np.ones(self.sums.shape[0]), np.zeros(cells))
        above = [np.zeros(k + cells), c] if towards is None else [towards, np.zeros(2 * cells)]
        for _ in range(60):
            # z_j - q_j / t <= log t - 1 for tangents at t.
            rows = [(i, t) for i, each in enumerate(self.tangents) for t in each]
            i, t = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
            each = np.arange(len(i))
            of_logs = coo_array((np.ones(len(i)), (each, i)), (len(i), cells))
            of_cells = coo_array((-1.0 / t, (each, i)), (len(i), cells))
            upper = [hstack([csr_array((len(i), k)), of_cells, of_logs])]
            limits = [np.log(t) - 1.0]
            if falls:
                upper.append(hstack([-self.shape, csr_array((falls, 2 * cells))]))
                limits.append(np.zeros(falls))
            if least is not None:
                upper.append(csr_array(np.append(np.zeros(k + cells), -c)[np.newaxis]))
                limits.append([-least])
            found = linprog(
                -np.concatenate(above),
                A_ub=vstack(upper),
                b_ub=np.concatenate(limits),
                A_eq=equal,
                b_eq=right,
                bounds=[(0, 1)] * (k + cells) + [(None, 0)] * cells,
                method="highs",
                options={
                    "primal_feasibility_tolerance": 1e-9,
                    "dual_feasibility_tolerance": 1e-9,
                },
            )
            assert found.status == 0, found.message
            p = np.maximum(found.x[:k], 0.0)
            q = np.maximum(p @ self.law, 1e-12)[self.seen]
            if c @ (found.x[k + cells :] - np.log(q)) < 1e-4:
                break
            for at, each in zip(self.tangents, q, strict=True):
                at.append(float(each))
        return -found.fun, p

    def end(self, sign):
        """The most of the metric (sign 1) or the least (-1): bounds from inside and outside."""
        above, best = self.solved(None, None)
        below = self.likelihood(best)
        outer, p = self.solved(sign * self.values, below - THRESHOLD / 2)
        # On the line from the likeliest to there the likelihood is concave.
        falls = above - np.array([below, self.likelihood(p)])
        part = min(1.0, (THRESHOLD / 2 - falls[0]) / max(falls[1] - falls[0], 1e-12))
        inner = part * (sign * self.values @ p) + (1 - part) * (sign * self.values @ best)
        return sorted([sign * inner, sign * outer])


def moved(counts, user):
    """The class with most users gets one more at the first sampled rank, or loses its first."""
    found = [np.array(c, dtype=float) for c in counts]
    c = found[int(np.argmax([each.sum() for each in found]))]
    if user > 0:
        c[0] += 1.0
    elif c.sum() > 1:
        left = 1.0
        for j in range(c.size):
            taken = min(left, c[j])
            c[j], left = c[j] - taken, left - taken
    return found


def brackets(sizes, m, counts, name, shape, replacement):
    """The least and the most of the metric, each between two values."""
    of, starts, ends = metric(name), identification.cells(m), []
    users = np.array([c.sum() for c in counts])
    in_cells = [np.add.reduceat(c, starts) for c in counts]
    for sign in (-1, 1):
        each = moved(in_cells, sign)
        solver = Programmes(sizes, m, users / users.sum(), of, shape, each, replacement)
        ends.append(solver.end(sign))
    return ends


def check(sizes, m, counts, name, shape, replacement=True):
    """Both ends are those of the linear programmes, or further out by the gap at most."""
    of, counts = metric(name), [np.asarray(c, dtype=float) for c in counts]
    kinds = np.array([[m, 1, 1, n] for n in sizes])
    users = np.array([c.sum() for c in counts])
    parts = identification.partition(kinds, users, of, replacement)
    assert sorted(parts.part.tolist()) == list(range(len(sizes)))
    (found,) = parts.programme(shape).profiles([parts.counts(counts)], (THRESHOLD,))
    low, high = found.interval(THRESHOLD)
    (low_outer, low_inner), (high_inner, high_outer) = brackets(
        sizes, m, counts, name, shape, replacement
    )
    assert max(low_inner - low_outer, high_outer - high_inner) < 1e-3  # they have converged
    assert low_outer - found.gap - 1e-3 <= low <= low_inner + 1e-6
    assert high_inner - 1e-6 <= high <= high_outer + found.gap + 1e-3
    assert found.gap <= max(0.02 * (high - low), 2e-3)


def drawn(n, m, users, seed, ranks=None):
    rng = np.random.default_rng(seed)
    if ranks is None:
        ranks = 1 + np.floor((n - 1) * rng.beta(0.4, 1.5, users)).astype(int)
    return np.bincount(Protocol(n, m).draw(np.asarray(ranks), rng) - 1, minlength=m + 1)


METRICS = ["recall@5", "ndcg@10", "ap", "auc", "rr"]
SHAPES = {"nothing": None, "decreasing": Shape(), "gently": Shape(steepness=2.0)}
DRAWN = [
    *((5, 5, 20, name) for name in METRICS),
    (40, 20, 200, "recall@5"),
    (40, 20, 200, "ap"),
    (200, 30, 120, "ndcg@10"),
    (60, 10, 300, "auc"),
    (60, 10, 300, "rr"),
]


@pytest.mark.parametrize(("users", "m", "n", "name"), DRAWN)
@pytest.mark.parametrize("shape", SHAPES)
def test_ends_of_drawn_logs(name, shape, users, m, n):
    check([n], m, [drawn(n, m, users, seed=users)], name, SHAPES[shape])


SPIKES = {
    "all at 1": (40, [1] * 40),
    "all at the last": (40, [200] * 40),
    "a tenth at 1, else at the last": (60, [1] * 6 + [200] * 54),
    "at the cut-off and beyond": (80, [5] * 20 + [6] * 60),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["recall@5", "ap"])
@pytest.mark.parametrize("kind", SPIKES)
def test_ends_of_users_at_few_ranks(kind, name, shape):
    users, ranks = SPIKES[kind]
    check([200], 20, [drawn(200, 20, users, 3, ranks)], name, SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["ap", "auc"])
@pytest.mark.parametrize("at", [0, 4, 20])
def test_ends_of_users_who_are_all_at_one_sampled_rank(at, name, shape):
    counts = np.zeros(21)
    counts[at] = 6
    check([200], 20, [counts], name, SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["ndcg@10", "ap"])
def test_ends_of_catalogues_of_several_sizes(name, shape):
    sizes, m = [20, 40, 80], 12
    counts = [drawn(n, m, users, n) for n, users in zip(sizes, (50, 30, 70), strict=True)]
    check(sizes, m, counts, name, SHAPES[shape])


@pytest.mark.parametrize("name", ["rr"])
@pytest.mark.parametrize("shape", SHAPES)
def test_ends_of_candidates_that_are_distinct_and_of_fractions_of_users(name, shape):
    n, m = 60, 15
    check([n], m, [drawn(n, m, 90, 4) / 3 + 0.01], name, SHAPES[shape], replacement=False)

"""Relevant items among random decoys: exact values against full enumeration, and laws by draws."""

import re
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import comb

import numpy as np
import pytest
from hypothesis import strategies as st

from sampled_metrics import Protocol, estimators, metric, tied_places
from sampled_metrics.relevant_sets import RelevantSets
from tests.reference import slow

FIVE = ["precision@3", "recall@3", "rr", "ap", "ndcg"]
CUT = ["precision@2", "recall@4", "rr@2", "ap@3", "ndcg@2", "hit@2", "accuracy", "auc"]


def sets_of(relevant, irrelevant):
    """One ranking from the scores of its relevant and of its irrelevant items."""
    negatives, positives = np.array(irrelevant), np.array(relevant)
    better, tied = negatives > positives[:, np.newaxis], negatives == positives[:, np.newaxis]
    level = np.unique(-positives, return_inverse=True)[1]
    return RelevantSets([better.sum(axis=1)], [tied.sum(axis=1)], [level], [len(irrelevant)])


def every_list(relevant, drawn):
    """Ranks of the relevant items in every order of the ties, all equally likely."""
    places = []
    n_placed = 0
    for score in sorted({*relevant, *drawn}, reverse=True):
        items = [i for i, s in enumerate(relevant) if s == score]
        slots = range(n_placed + 1, n_placed + 1 + len(items) + drawn.count(score))
        places.append([list(zip(items, p, strict=True)) for p in permutations(slots, len(items))])
        n_placed += len(slots)
    for chosen in product(*places):
        ranks = dict(pair for group in chosen for pair in group)
        yield tuple(ranks[i] for i in range(len(relevant)))


@cache
def enumerated(relevant, irrelevant, n, repeat=False):
    """Probability of every outcome: the ranks of the relevant items among n decoys."""
    if repeat:
        return _enumerated_copies(relevant, irrelevant, n)
    outcomes = Counter()
    for drawn in combinations(range(len(irrelevant)), n):
        lists = list(every_list(relevant, [irrelevant[i] for i in drawn]))
        for ranks in lists:
            outcomes[ranks] += Fraction(1, comb(len(irrelevant), n) * len(lists))
    assert sum(outcomes.values()) == 1
    return outcomes


def _enumerated_copies(relevant, irrelevant, n):
    """With replacement: every order of the items that have a score, then every n draws."""
    scores = [*relevant, *irrelevant]
    groups = [
        permutations([i for i, s in enumerate(scores) if s == score])
        for score in sorted(set(scores), reverse=True)
    ]
    orders = [[i for group in order for i in group] for order in product(*groups)]
    above = Counter()
    for order in orders:
        before = [order[: order.index(i)] for i in range(len(relevant))]
        above[tuple(tuple(sorted(items)) for items in before)] += Fraction(1, len(orders))
    outcomes = Counter()
    for drawn in product(range(len(irrelevant)), repeat=n):
        for items, share in above.items():
            ranks = tuple(
                1 + sum(j < len(relevant) for j in before)
                + sum(i + len(relevant) in before for i in drawn)
                for before in items
            )  # fmt: skip
            outcomes[ranks] += share * Fraction(1, len(irrelevant) ** n)
    assert sum(outcomes.values()) == 1
    return outcomes


def moments(name, outcomes, n):
    mean = sum(p * slow(name, ranks, len(ranks) + n) for ranks, p in outcomes.items())
    square = sum(p * slow(name, ranks, len(ranks) + n) ** 2 for ranks, p in outcomes.items())
    return float(mean), float(square - mean**2)


TIED = [
    ((3,), (1, 3, 3, 5, 3)),
    ((3, 3), (3, 3, 4, 1, 3)),
    ((2, 5, 2), (2, 5, 1, 6, 2)),
    ((4, 4, 4), (4, 4, 4, 5)),
    ((1, 2, 3), (0, 2, 2, 5, 3)),
]
UNTIED = [((1, 2), (0, 5, 6)), ((1, 3, 5), (0, 2, 2, 4, 6)), ((7,), (9, 9, 8, 1))]


@pytest.mark.some(15)
@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize(("relevant", "irrelevant"), TIED + UNTIED)
@pytest.mark.parametrize("name", FIVE + CUT)
def test_moments_by_enumeration_of_all_draws(relevant, irrelevant, name, repeat):
    sets, is_untied = sets_of(relevant, irrelevant), (relevant, irrelevant) in UNTIED
    for n in range(1, 4 if repeat else len(irrelevant) + 1):
        mean, variance = moments(name, enumerated(relevant, irrelevant, n, repeat), n)
        given = metric(name), n
        found = sets.expected(*given, replacement=repeat)[0]
        assert found == pytest.approx(mean, rel=1e-12, abs=1e-14)
        if is_untied:
            found = sets.variance(*given, replacement=repeat)[0]
            assert found == pytest.approx(variance, rel=1e-10, abs=1e-14)
    if not repeat:
        assert sets.evaluate(metric(name))[0] == pytest.approx(mean, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize(("relevant", "irrelevant"), TIED)
def test_probabilities_by_enumeration(relevant, irrelevant, repeat):
    n = 3
    outcomes = enumerated(relevant, irrelevant, n, repeat)
    pmf = sets_of(relevant, irrelevant).pmf(n, replacement=repeat)[0]
    for j in range(len(relevant)):
        counts = Counter()
        for r, p in outcomes.items():
            counts[sorted(r)[j] - 1 - j] += p
        assert pmf[j] == pytest.approx([float(counts[x]) for x in range(n + 1)], rel=1e-12)


scores = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@st.composite
def rankings(draw):
    return draw(scores), draw(st.lists(st.integers(0, 5), min_size=2, max_size=40))


def crowd_law(n, better, tied, total, place, size, replacement):
    """Law of the decoys above the place-th of several tied items, by the crowd's order."""
    pmf = [Fraction(0)] * (n + 1)
    for v in range(tied + 1):  # candidates of the crowd that come before the item
        order = comb(v + place - 1, place - 1) * comb(tied - v + size - place, size - place)
        for x in range(n + 1):
            above = better + v
            if replacement:
                chance = Fraction(comb(n, x) * above**x * (total - above) ** (n - x), total**n)
            else:
                chance = Fraction(comb(above, x) * comb(total - above, n - x), comb(total, n))
            pmf[x] += chance * Fraction(order, comb(tied + size, size))
    return [float(p) for p in pmf]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("better", "tied", "total"), [(3, 40, 60), (0, 50, 50), (30, 7, 45)])
def test_law_of_a_crowd_of_tied_items(better, tied, total, replacement):
    n, size = 25, 3
    sets = RelevantSets([[better] * size], [[tied] * size], [[0] * size], [total])
    pmf = sets.pmf(n, replacement=replacement)[0]
    for place in range(1, size + 1):
        slow_law = crowd_law(n, better, tied, total, place, size, replacement)
        assert np.allclose(pmf[place - 1], slow_law, rtol=0, atol=1e-13)


def test_law_of_many_decoys_is_accurate_where_it_is_cut():
    # Counts far below the mean have tiny probabilities; the recurrence must not lose them.
    sets = RelevantSets([[40, 900]], [[0, 0]], [[0, 1]], [1_500])
    protocol = Protocol(1_502, 700, replacement=False, n_relevant=2)
    pmf = sets.pmf(700, reach=30)[0]
    assert np.allclose(pmf[0], protocol.pmf(41, 1)[:30], rtol=1e-11, atol=0)
    assert np.allclose(pmf[1], protocol.pmf(902, 2)[:30], rtol=1e-11, atol=0)


def test_law_of_millions_of_candidates():
    # Nearly all candidates above the item, and a crowd tied with a large part of them.
    sets = RelevantSets([[0, 5, 5]], [[0, 3_000_000, 3_000_000]], [[0, 1, 1]], [4_000_000])
    pmf = sets.pmf(300, replacement=True)[0]
    assert np.allclose(pmf.sum(axis=1), 1, rtol=1e-12)
    tied = 300 * 0.75 * np.array([1, 2]) / 3
    mean = pmf @ np.arange(301)
    assert mean == pytest.approx([0.0, *(tied + 300 * 5 / 4e6)], rel=1e-11)


def many():
    """100 rankings of five relevant items with many ties, as scores of few values give them."""
    rng = np.random.default_rng(7)
    rows = [
        sets_of(rng.integers(2, 12, 5), np.sort(rng.integers(0, 12, 60 + i % 7)))
        for i in range(100)
    ]
    parts = [np.concatenate([getattr(row, name) for row in rows]) for name in (
        "n_better", "n_tied", "level", "n_irrelevant")]  # fmt: skip
    return RelevantSets(*parts)


@pytest.mark.exhaustive
def test_small_blocks_give_the_same(monkeypatch):
    sets = many()
    names = [metric(name) for name in ("ndcg@10", "ap", "precision@3")]
    untied = RelevantSets(
        np.sort(sets.n_better, axis=1), 0 * sets.n_tied, [range(5)] * 100, sets.n_irrelevant
    )

    def everything():
        return [
            sets.expected(names, 20),
            sets.expected(names, 20, replacement=True),
            untied.variance(names[0], 20)[np.newaxis],
            np.array([sets.evaluate(name) for name in names]),
            sets.pmf(20).reshape(5, -1),
        ]

    full_arrays = everything()
    monkeypatch.setattr(tied_places, "_BLOCK", 1_000)
    for full, blocked in zip(full_arrays, everything(), strict=True):
        assert np.allclose(full, blocked, rtol=1e-12, atol=1e-14)


def test_rankings_may_differ_in_the_number_of_decoys():
    sets = many()
    n = np.minimum(63, sets.n_irrelevant)
    for name in ("ap@10", "auc"):
        pooled = sets.expected(metric(name), n)
        for size in np.unique(n):
            rows = n == size
            counts = (sets.n_better, sets.n_tied, sets.level, sets.n_irrelevant)
            subset = RelevantSets(*(values[rows] for values in counts))
            separate = subset.expected(metric(name), int(size))
            assert np.allclose(pooled[rows], separate, rtol=1e-10, atol=1e-13)


GOOD = {"n_better": [[0, 3]], "n_tied": [[0, 1]], "level": [[0, 1]], "n_irrelevant": [8]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_better": [0, 3]}, "n_better must have shape (n_rankings, n_relevant), got (2,)"),
        ({"n_irrelevant": [8, 9]}, "n_irrelevant must have shape (1,), got (2,)"),
        ({"level": [[1, 2]]}, "level must be dense"),
        ({"level": [[0, 0]]}, "n_better must be equal for items of one level"),
        ({"level": [[1, 0]]}, "n_better must grow by at least the ties of the level before"),
        ({"n_irrelevant": [3]}, "n_better must not exceed n_irrelevant with the ties: got [0, 3]"),
    ],
)
def test_bad_rankings_are_refused(change, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        RelevantSets(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.expected(metric("ap"), -1), "n_negatives must be >= 0, got -1"),
        (lambda s: s.expected(metric("ap"), 9), "n_negatives must be <= 8, the irrelevant"),
        (lambda s: s.pmf([1, 2]), "n_negatives must be one number or have shape (1,)"),
        (lambda s: s.pmf(2, reach=0), "reach must be a whole number >= 1, got 0"),
        (lambda s: s.variance(metric("ap"), 2), "variance is for rankings without ties, got some"),
        (
            lambda s: s.expected(estimators.naive(metric("ap"), Protocol(10, 2, n_relevant=2)), 3),
            "the estimator must be for 2 relevant items and 3 negatives, got one for 2 and 2",
        ),
    ],
)
def test_bad_arguments_are_refused(call, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        call(RelevantSets(**GOOD))

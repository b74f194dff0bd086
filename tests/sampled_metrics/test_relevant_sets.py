"""Relevant items among random decoys: exact values against full enumeration, and laws by draws."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import comb, factorial, log2, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampled_metrics import Protocol, estimators, metric, tied_places
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.relevant_sets import RelevantSets

FIVE = ["precision@3", "recall@3", "rr", "ap", "ndcg"]
CUT = ["precision@2", "recall@4", "rr@2", "ap@3", "ndcg@2", "hit@2", "accuracy", "auc"]


def sets_of(relevant, irrelevant, weights=None):
    """One ranking from the scores of its relevant and of its irrelevant items."""
    weight = np.ones(len(irrelevant), int) if weights is None else np.array(weights)
    negatives, positives = np.array(irrelevant), np.array(relevant)
    better, tied = negatives > positives[:, np.newaxis], negatives == positives[:, np.newaxis]
    level = np.unique(-positives, return_inverse=True)[1]
    given = {}
    if weights is not None:
        given = {
            "weight_better": [better @ weight],
            "weight_tied": [tied @ weight],
            "weight_total": [weight.sum()],
        }
    counts = ([better.sum(axis=1)], [tied.sum(axis=1)], [level], [len(irrelevant)])
    return RelevantSets(*counts, **given)


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


def enumerated(relevant, irrelevant, n, weights=None):
    """Probability of every outcome: the ranks of the relevant items among n decoys."""
    weights = None if weights is None else tuple(weights)
    return _enumerated(tuple(relevant), tuple(irrelevant), n, weights)


@cache
def _enumerated(relevant, irrelevant, n, weights):
    if weights is not None:
        return _enumerated_copies(relevant, irrelevant, n, weights)
    outcomes: Counter[tuple[int, ...]] = Counter()
    for drawn in combinations(range(len(irrelevant)), n):
        lists = list(every_list(relevant, [irrelevant[i] for i in drawn]))
        for ranks in lists:
            outcomes[ranks] += Fraction(1, comb(len(irrelevant), n) * len(lists))
    assert sum(outcomes.values()) == 1
    return outcomes


def _enumerated_copies(relevant, irrelevant, n, weights):
    """With replacement: every order of the items that have a score, then every n draws."""
    scores, total = [*relevant, *irrelevant], sum(weights)
    groups = [
        permutations([i for i, s in enumerate(scores) if s == score])
        for score in sorted(set(scores), reverse=True)
    ]
    orders = [[i for group in order for i in group] for order in product(*groups)]
    above: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for order in orders:
        before = [order[: order.index(i)] for i in range(len(relevant))]
        above[tuple(tuple(sorted(items)) for items in before)] += Fraction(1, len(orders))
    outcomes: Counter[tuple[int, ...]] = Counter()
    for drawn in product(range(len(irrelevant)), repeat=n):
        chance = prod(Fraction(weights[i], total) for i in drawn)
        for items, share in above.items():
            ranks = tuple(
                1 + sum(j < len(relevant) for j in before)
                + sum(i + len(relevant) in before for i in drawn)
                for before in items
            )  # fmt: skip
            outcomes[ranks] += share * chance
    assert sum(outcomes.values()) == 1
    return outcomes


def slow(name, ranks, n_negatives):
    """The definitions of the metrics, from the list itself."""
    kind, _, cutoff = name.partition("@")
    total, length = len(ranks), len(ranks) + n_negatives
    k = int(cutoff) if cutoff else length
    hits = [place in ranks for place in range(1, length + 1)][:k]
    hits_so_far = [sum(hits[:i]) for i in range(1, len(hits) + 1)]
    first = next((i for i, hit in enumerate(hits, start=1) if hit), None)
    if kind == "precision":
        return Fraction(sum(hits), k)
    if kind == "recall":
        return Fraction(sum(hits), total)
    if kind == "hit":
        return Fraction(sum(hits) > 0)
    if kind == "accuracy":
        return Fraction(1 in ranks)
    if kind == "rr":
        return Fraction(1, first) if first else Fraction(0)
    if kind == "ap":
        parts = [Fraction(hits_so_far[i], i + 1) for i, hit in enumerate(hits) if hit]
        return sum(parts, Fraction(0)) / min(total, k)
    if kind == "ndcg":
        gain = [Fraction(1 / log2(i + 1)) for i in range(1, length + 1)]
        dcg = sum((g for g, hit in zip(gain, hits, strict=False) if hit), Fraction(0))
        return dcg / sum(gain[: min(total, k)])
    assert kind == "auc"
    pairs = [(r, d) for r in ranks for d in range(1, length + 1) if d not in ranks]
    return Fraction(sum(r < d for r, d in pairs), len(pairs))


def moments(name, outcomes, n):
    mean = sum(p * slow(name, ranks, n) for ranks, p in outcomes.items())
    square = sum(p * slow(name, ranks, n) ** 2 for ranks, p in outcomes.items())
    return float(mean), float(square - mean**2)


TIED = [
    ([3], [1, 3, 3, 5, 3], None),
    ([3, 3], [3, 3, 4, 1, 3], [2, 2, 5, 1, 2]),
    ([2, 5, 2], [2, 5, 1, 6, 2], [1, 3, 2, 2, 1]),
    ([4, 4, 4], [4, 4, 4, 5], [2, 2, 2, 3]),
    ([1, 2, 3], [0, 2, 2, 5, 3], [4, 3, 3, 0, 1]),
    ([1, 2], [0, 5, 6], [1, 1, 1]),
]


@pytest.mark.some(15)
@pytest.mark.parametrize(("relevant", "irrelevant", "weights"), TIED)
@pytest.mark.parametrize("name", FIVE + CUT)
def test_moments_by_enumeration_of_all_sets_of_decoys(relevant, irrelevant, weights, name):
    sets = sets_of(relevant, irrelevant)
    for n in range(1, len(irrelevant) + 1):
        mean, variance = moments(name, enumerated(relevant, irrelevant, n), n)
        assert sets.expected(metric(name), n)[0] == pytest.approx(mean, rel=1e-12, abs=1e-14)
        assert sets.variance(metric(name), n)[0] == pytest.approx(variance, rel=1e-10, abs=1e-14)
    assert sets.evaluate(metric(name))[0] == pytest.approx(mean, rel=1e-12, abs=1e-14)


@pytest.mark.some(12)
@pytest.mark.exhaustive
@pytest.mark.parametrize(("relevant", "irrelevant", "weights"), TIED)
@pytest.mark.parametrize("name", FIVE + CUT)
@pytest.mark.parametrize("weighted", [True, False])
def test_moments_by_enumeration_of_repeated_decoys(relevant, irrelevant, weights, name, weighted):
    ones = [1] * len(irrelevant)
    weights = weights or [2, 1, 1, 3, 1]
    sets, options = (
        sets_of(relevant, irrelevant, weights),
        {"replacement": True, "weighted": weighted},
    )
    for n in (1, 2, 3):
        outcomes = enumerated(relevant, irrelevant, n, weights if weighted else ones)
        mean, variance = moments(name, outcomes, n)
        given = (metric(name), n)
        assert sets.expected(*given, **options)[0] == pytest.approx(mean, rel=1e-12, abs=1e-14)
        assert sets.variance(*given, **options)[0] == pytest.approx(variance, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize(("relevant", "irrelevant", "weights"), TIED)
def test_probabilities_by_enumeration(relevant, irrelevant, weights):
    n = 3
    options = {} if weights is None else {"replacement": True, "weighted": True}
    sets = sets_of(relevant, irrelevant, weights)
    outcomes = enumerated(relevant, irrelevant, n, weights)
    places = range(len(relevant))
    pmf = sets.pmf(n, **options)[0]
    for j in places:
        counts = Counter()
        for r, p in outcomes.items():
            counts[sorted(r)[j] - 1 - j] += p
        assert pmf[j] == pytest.approx([float(counts[x]) for x in range(n + 1)], rel=1e-12)


scores = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@st.composite
def rankings(draw):
    return draw(scores), draw(st.lists(st.integers(0, 5), min_size=2, max_size=40))


@given(rankings(), st.sampled_from(FIVE + CUT))
def test_all_decoys_drawn_are_all_candidates(ranking, name):
    sets, n_negatives = sets_of(*ranking), len(ranking[1])
    chosen_metric = metric(name)
    assert sets.expected(chosen_metric, n_negatives) == pytest.approx(
        sets.evaluate(chosen_metric), rel=1e-11
    )


@given(rankings(), st.integers(1, 40))
def test_expected_auc_does_not_depend_on_the_decoys(ranking, n):
    sets = sets_of(*ranking)
    n = min(n, len(ranking[1]))
    exact = sets.evaluate(metric("auc"))
    assert sets.expected(metric("auc"), n) == pytest.approx(exact, rel=1e-11, abs=1e-13)
    repeated = sets.expected(metric("auc"), n, replacement=True)
    assert repeated == pytest.approx(exact, rel=1e-11, abs=1e-13)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 300), st.integers(1, 400))
def test_one_relevant_item_is_a_rank_interval(better, tied, worse, n):
    pool = better + tied + worse + 1
    n = min(n, pool)
    interval = RankIntervals([better], [tied], [pool + 1])
    sets = RelevantSets([[better]], [[tied]], [[0]], [pool])
    assert np.allclose(sets.pmf(n)[0], interval.sampled_pmf(n), rtol=0, atol=1e-12)
    mean = interval.evaluate(metric("ndcg@10"), "mean")
    assert sets.evaluate(metric("ndcg@10")) == pytest.approx(mean, rel=1e-12, abs=1e-15)


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


def test_law_of_weights_in_the_millions():
    # Nearly all weight above the item, and a crowd tied with a large part of it.
    weights = {"weight_better": [[0, 5, 5]], "weight_tied": [[0, 3_000_000, 3_000_000]]}
    sets = RelevantSets(
        [[0, 5, 5]], [[0, 2, 2]], [[0, 1, 1]], [9], weight_total=[4_000_000], **weights
    )
    pmf = sets.pmf(300, replacement=True, weighted=True)[0]
    assert np.allclose(pmf.sum(axis=1), 1, rtol=1e-12)
    mean = pmf @ np.arange(301)
    tied = 300 * 0.75 * np.array([1, 2]) / 3
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
    weights = {
        "weight_better": 3 * parts[0], "weight_tied": 3 * parts[1],
        "weight_total": 3 * parts[3],
    }  # fmt: skip
    return RelevantSets(*parts, **weights)


@pytest.mark.exhaustive
def test_small_blocks_give_the_same(monkeypatch):
    sets = many()
    names = [metric(name) for name in ("ndcg@10", "ap", "precision@3")]
    options = {"replacement": True, "weighted": True}

    def everything():
        return [
            sets.expected(names, 20),
            sets.expected(names, 20, **options),
            np.array([sets.variance(names[0], 20), sets.variance(names[0], 20, **options)]),
            np.array([sets.evaluate(name) for name in names]),
            sets.pmf(20).reshape(5, -1),
        ]

    full_arrays = everything()
    monkeypatch.setattr(tied_places, "_BLOCK", 1_000)
    for full, blocked in zip(full_arrays, everything(), strict=True):
        assert np.allclose(full, blocked, rtol=1e-12, atol=1e-14)


def test_equal_weights_are_draws_with_replacement():
    sets = many()
    for name in ("ndcg@10", "ap@5"):
        plain = [f(metric(name), 30, replacement=True) for f in (sets.expected, sets.variance)]
        weighed = [
            f(metric(name), 30, replacement=True, weighted=True)
            for f in (sets.expected, sets.variance)
        ]
        assert np.allclose(plain, weighed, rtol=1e-11, atol=1e-13)


def test_rankings_may_differ_in_the_number_of_decoys():
    sets = many()
    n = np.minimum(63, sets.n_irrelevant)
    for name in ("ap@10", "auc"):
        pooled = [sets.expected(metric(name), n), sets.variance(metric(name), n)]
        for size in np.unique(n):
            rows = n == size
            counts = (sets.n_better, sets.n_tied, sets.level, sets.n_irrelevant)
            subset = RelevantSets(*(values[rows] for values in counts))
            separate = [
                moment(metric(name), int(size)) for moment in (subset.expected, subset.variance)
            ]
            assert np.allclose(
                [values[rows] for values in pooled], separate, rtol=1e-10, atol=1e-13
            )


@settings(max_examples=10)
@given(st.permutations(range(4)))
def test_the_order_of_the_items_does_not_matter(order):
    relevant, irrelevant = [3, 7, 3, 5], [3, 3, 5, 7, 7, 8, 2, 1, 3]
    sets = sets_of(relevant, irrelevant)
    moved = sets_of([relevant[i] for i in order], irrelevant)
    for name in ("ap", "ndcg@3"):
        assert moved.expected(metric(name), 4) == pytest.approx(sets.expected(metric(name), 4))
        assert moved.variance(metric(name), 4) == pytest.approx(sets.variance(metric(name), 4))


# --- every small ranking: relevant items in tied groups, candidates in the cells around these


def patterns(n_relevant, max_candidates):
    """Sizes of tied groups, and counts of candidates: above a group, tied with it, ..., below."""
    for cuts in product([False, True], repeat=n_relevant - 1):
        ends = [i + 1 for i, cut in enumerate(cuts) if cut] + [n_relevant]
        sizes = tuple(b - a for a, b in zip([0, *ends], ends, strict=False))
        for cells in product(range(max_candidates + 1), repeat=2 * len(sizes) + 1):
            if 1 <= sum(cells) <= max_candidates:
                yield sizes, cells


@cache
def values_given(sizes, drawn):
    """Mean of each metric and of its square over the order of ties, given the decoys by cell."""
    relevant = [-(2 * g + 1) for g, size in enumerate(sizes) for _ in range(size)]
    scores = [-cell for cell, count in enumerate(drawn) for _ in range(count)]
    lists = Counter(tuple(sorted(ranks)) for ranks in every_list(relevant, scores))
    values = np.array([values_of(ranks, sum(drawn)) for ranks in lists])
    shares = np.array(list(lists.values())) / lists.total()
    return np.array([shares @ values, shares @ values**2])


@cache
def values_of(ranks, n):
    return [float(slow(name, ranks, n)) for name in SMALL]


@cache
def splits(n, cells):
    """All ways to draw n decoys from so many cells."""
    return [drawn for drawn in product(range(n + 1), repeat=cells) if sum(drawn) == n]


def enumerated_variance(sizes, cells, weights, n, repeat):
    """The variance of each metric; `weights` of the cells, equal for all items of one."""
    total = np.zeros((2, len(SMALL)))
    if not repeat:
        for drawn in splits(n, len(cells)):
            n_samples = prod(map(comb, cells, drawn))
            if n_samples:
                total += n_samples / comb(sum(cells), n) * values_given(sizes, drawn)
        return total[1] - total[0] ** 2
    # Every order of each tied group, as the numbers of candidates between its relevant items.
    ordered = [list(split_cells(cells[2 * g + 1], size)) for g, size in enumerate(sizes)]
    for gaps in product(*ordered):
        counts, unit = [], []
        for g, gap in enumerate(gaps):
            counts += [cells[2 * g], *gap]
            unit += [2 * g] + [2 * g + 1] * len(gap)
        counts.append(cells[-1])
        unit.append(2 * len(gaps))
        share = [
            weights[i] / max(cells[i], 1) * count for i, count in zip(unit, counts, strict=True)
        ]
        chance = prod(1 / comb(cells[2 * g + 1] + size, size) for g, size in enumerate(sizes))
        for drawn in splits(n, len(counts)):
            n_samples = factorial(n) * prod(c**d for c, d in zip(share, drawn, strict=True))
            if n_samples:
                p = chance * n_samples / prod(map(factorial, drawn)) / sum(weights) ** n
                values = np.array(values_of(untied_ranks(sizes, drawn), n))
                total += p * np.array([values, values**2])
    return total[1] - total[0] ** 2


def split_cells(count, size):
    """Ways to divide tied candidates into those before, between and after the relevant items."""
    return (gap for gap in product(range(count + 1), repeat=size + 1) if sum(gap) == count)


def untied_ranks(sizes, drawn):
    """Ranks of relevant items from the negatives above the first, between neighbours, ...

    Each group has the cell above it and then one gap more than it has items.
    """
    ranks, above, cells = [], 0, iter(drawn)
    for size in sizes:
        above += next(cells)
        for _ in range(size):
            above += next(cells)
            ranks.append(above + len(ranks) + 1)
        above += next(cells)
    return tuple(ranks)


def around(sizes, cells):
    """Candidates above each item and tied with it."""
    groups = [g for g, size in enumerate(sizes) for _ in range(size)]
    return [sum(cells[: 2 * g + 1]) for g in groups], [cells[2 * g + 1] for g in groups], groups


SMALL = ["ap", "recall@4", "ndcg@3", "rr", "hit@2", "auc"]


@pytest.mark.some(3)
@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["distinct", "replacement", "weighted"])
@pytest.mark.parametrize(("n_relevant", "most"), [(1, 4), (2, 4), (3, 3)])
def test_variance_of_every_small_ranking(n_relevant, most, how):
    rng = np.random.default_rng(3)
    cases = list(patterns(n_relevant, most))
    weights = [tuple(c * w for c, w in zip(cells, rng.integers(0, 3, len(cells)), strict=True))
               for _, cells in cases]  # fmt: skip
    weights = [w if any(w) else cells for w, (_, cells) in zip(weights, cases, strict=True)]
    counted, weighed = (
        [np.array(column) for column in zip(*rows, strict=True)]
        for rows in (
            [around(*case) for case in cases],
            [around(sizes, w) for (sizes, _), w in zip(cases, weights, strict=True)],
        )
    )
    pool = np.array([sum(cells) for _, cells in cases])
    columns = [*counted, pool, *weighed[:2], np.array([sum(w) for w in weights])]
    flags = {"replacement": how != "distinct", "weighted": how == "weighted"}
    for n in range(1, 4):
        rows = np.flatnonzero((pool >= n) | (how != "distinct"))
        expected = [
            enumerated_variance(
                *cases[i], weights[i] if how == "weighted" else cases[i][1], n, how != "distinct"
            )
            for i in rows
        ]
        sets = RelevantSets(*(column[rows] for column in columns))
        variances = [sets.variance(metric(name), n, **flags) for name in SMALL]
        assert np.allclose(np.transpose(variances), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("tied", [9, 25])
def test_variance_of_a_large_tie_with_replacement(tied):
    cells = (1, tied, 1, 2, 4)
    sizes = (2, 1)
    better, tied_counts, level = around(sizes, cells)
    sets = RelevantSets([better], [tied_counts], [level], [sum(cells)])
    variances = [sets.variance(metric(name), 3, replacement=True)[0] for name in SMALL]
    assert np.allclose(
        variances, enumerated_variance(sizes, cells, cells, 3, True), rtol=0, atol=1e-12
    )


def test_tied_candidates_of_unequal_weights_by_their_orders():
    # Tied with candidates of weights 8 and 1, two draws: by enumeration, and as RelevantSets says.
    outcomes = enumerated([3], [3, 3], 2, [8, 1])
    chances = [outcomes[x + 1,] for x in range(3)]
    assert [round(float(p), 3) for p in chances] == [0.467, 0.066, 0.467]
    orders = [order[: order.index(0)] for order in permutations([0, 8, 1])]
    untied = np.zeros((6, 1), dtype=int)
    columns = {"weight_better": [[sum(order)] for order in orders], "weight_tied": untied}
    sets = RelevantSets(
        [[len(order)] for order in orders], untied, untied, [2] * 6, weight_total=[9] * 6, **columns
    )
    pmf = sets.pmf(2, replacement=True, weighted=True).mean(axis=0)[0]
    assert pmf == pytest.approx([float(p) for p in chances], rel=1e-12)


def test_variance_of_items_with_nothing_above_them():
    sets = RelevantSets([[0, 0, 5]], [[0, 0, 0]], [[0, 1, 2]], [10])
    for name, expected, digits in (("ap", 0.0013273790, 10), ("recall@4", 0.021479, 6)):
        variance = sets.variance(metric(name), 4)[0]
        assert round(variance, digits) == expected


GOOD = {"n_better": [[0, 3]], "n_tied": [[0, 1]], "level": [[0, 1]], "n_irrelevant": [8]}
WEIGHTS = {"weight_better": [[0, 4]], "weight_tied": [[0, 1]], "weight_total": [9]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_better": [0, 3]}, "n_better must have shape (n_rankings, n_relevant), got (2,)"),
        ({"n_better": [[-1, 3]]}, "n_better must be >= 0, got -1"),
        ({"n_better": [[0, 2.5]]}, "n_better must be whole numbers >= 0, got 2.5"),
        ({"n_tied": [[0, 1, 1]]}, "n_tied must have shape (1, 2), got (1, 3)"),
        ({"n_irrelevant": [8, 9]}, "n_irrelevant must have shape (1,), got (2,)"),
        ({"n_irrelevant": [0]}, "n_irrelevant must be >= 1, got 0"),
        ({"level": [[1, 2]]}, "level must be dense"),
        ({"level": [[0, 2]]}, "level must be dense"),
        ({"level": [[0, 0]]}, "n_better must be equal for items of one level"),
        ({"level": [[1, 0]]}, "n_better must grow by at least the ties of the level before"),
        ({"n_irrelevant": [3]}, "n_better must not exceed n_irrelevant with the ties: got [0, 3]"),
        ({**WEIGHTS, "weight_better": [[0, -4]]}, "weight_better must be >= 0, got -4"),
        ({**WEIGHTS, "weight_total": [4]}, "weight_better must not exceed weight_total"),
        ({**WEIGHTS, "weight_total": None}, "must be given together"),
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
        (lambda s: s.variance(metric("ap"), [9]), "n_negatives must be <= 8, the irrelevant"),
        (lambda s: s.pmf(9), "n_negatives must be <= 8"),
        (lambda s: s.pmf([1, 2]), "n_negatives must be one number or have shape (1,)"),
        (lambda s: s.pmf(2, reach=0), "reach must be a whole number >= 1, got 0"),
        (lambda s: s.expected(metric("auc"), 0), "n_negatives must be >= 1 for auc, got 0"),
        (lambda s: s.expected(3, 2), "metric must be a name such as 'ndcg@10', got 3"),
        (lambda s: s.pmf(2, replacement=True, weighted=True), "weighted negatives need"),
        (
            lambda s: RelevantSets([[0]], [[2]], [[0]], [2], [[0]], [[9]], [9]).variance(
                "ap", 2, replacement=True, weighted=True
            ),
            "weight_tied must be a multiple of n_tied, since tied candidates must have equal "
            "weights, got 9 with n_tied 2 in ranking 0: if their weights differ, give each order",
        ),
        (
            lambda s: s.pmf(2, weighted=True),
            "must be drawn with replacement=True",
        ),
        (
            lambda s: s.expected(estimators.naive(metric("ap"), Protocol(10, 2, n_relevant=2)), 3),
            "the estimator must be for 2 relevant items and 3 negatives, got one for 2 and 2",
        ),
    ],
)
def test_bad_arguments_are_refused(call, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        call(RelevantSets(**GOOD))


def test_sets_print_in_one_line():
    sets = RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8])
    assert repr(sets) == "RelevantSets(rankings=1, relevant=2, n_irrelevant=8)"

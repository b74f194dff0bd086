"""What moved here from the library: against enumeration, fractions and brute force."""

import math
from collections import Counter
from dataclasses import fields
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sampled_book.experiments.theory import (
    HANDFUL,
    Standing,
    counterexample,
    draw_ranks,
    draw_set,
    expected_differences,
    expected_gain,
    expected_of_set,
    observed,
    plug_in,
    users_behind,
    variance_of_set,
)
from sampled_book.reference.enumeration import every_sample, exact_pmf
from sampled_metrics import Protocol, RelevantSets, metric
from sampled_metrics.consistency import sign
from sampled_metrics.estimators import bias_variance, least_bias, monotone, naive, rank_estimate
from tests.sampled_metrics.test_consistency import TOY
from tests.sampled_metrics.test_estimators import NAMES
from tests.sampled_metrics.test_protocol import _chi_square
from tests.sampled_metrics.test_relevant_sets import CUT, FIVE, TIED, enumerated, sets_of

LAWS = [True, False]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["ap", "ndcg", "recall@1", "recall@2", "ndcg@2"])
def test_counterexamples_in_rational_arithmetic(name, replacement):
    example = counterexample(metric(name), replacement=replacement)
    assert example is not None
    n, m = example.protocol.n_items, example.protocol.n_negatives
    exact = [Fraction(float(v)) for v in metric(name).vector(n)]
    sampled = [Fraction(float(v)) for v in metric(name).vector(m + 1)]

    def means(ranks):
        pmfs = [exact_pmf(n, m, r, replacement) for r in ranks]
        expected = sum(p * v for pmf in pmfs for p, v in zip(pmf, sampled, strict=True))
        return sum(exact[r - 1] for r in ranks) / len(ranks), Fraction(expected) / len(ranks)

    better, worse = means(example.better), means(example.worse)
    assert better[0] > worse[0]
    assert better[1] < worse[1]
    assert example.exact == pytest.approx((float(better[0]), float(worse[0])))
    assert example.expected == pytest.approx((float(better[1]), float(worse[1])))


def test_counterexample_is_the_smallest():
    example = counterexample(metric("recall@2"))
    assert example is not None
    assert (example.protocol.n_items, len(example.better), example.protocol.n_negatives) == (
        4,
        2,
        2,
    )
    # Nothing smaller: all pairs of 2 or 3 ranks of 3 items, every m.
    for size in (2, 3, 4):
        lists = list(combinations_with_replacement(range(1, 4), size))
        for m in (1, 2):
            expected = naive(metric("recall@2"), Protocol(3, m)).expected(lists).mean(axis=1)
            exact = metric("recall@2")(lists).mean(axis=1)
            for i in range(len(lists)):
                for j in range(len(lists)):
                    reversed_order = sign(exact[i], exact[j]) * sign(expected[i], expected[j])
                    assert reversed_order >= 0


def test_auc_has_no_counterexample():
    assert counterexample(metric("auc"), n_items=8, n_instances=3) is None


@pytest.mark.parametrize("name", ["ap", "recall@2", "ndcg@2"])
def test_counterexample_has_the_widest_margin(name):
    example = counterexample(metric(name))
    assert example is not None
    n = int(example.protocol.n_items)
    lists = list(combinations_with_replacement(range(1, n + 1), len(example.better)))
    exact = metric(name)(lists).mean(axis=1)
    expected = naive(metric(name), example.protocol).expected(lists).mean(axis=1)
    margins = [
        min(exact[i] - exact[j], expected[j] - expected[i])
        for i in range(len(lists))
        for j in range(len(lists))
    ]
    margin = min(example.exact[0] - example.exact[1], example.expected[1] - example.expected[0])
    assert margin == pytest.approx(max(margins), rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=7))
def test_the_users_behind_an_order_are_the_fewest_whose_absence_undoes_it(pairs):
    gaps = [a - b for a, b in pairs]
    lead = sum(gaps)
    needed = next(
        k
        for k in range(len(gaps) + 1)
        for remaining in combinations(gaps, len(gaps) - k)
        if (lead > 0 and sum(remaining) <= 0) or (lead < 0 and sum(remaining) >= 0) or lead == 0
    )
    first, second = zip(*pairs, strict=True)
    assert users_behind(first, second) == needed == users_behind(second, first)


def test_an_order_that_rests_on_a_handful_of_users_is_a_tie():
    few_hits, many_hits, no_hits = ([1.0] * n + [0.0] * (20 - n) for n in (HANDFUL - 1, HANDFUL, 0))
    standing = Standing.from_values({"few": few_hits, "none": no_hits, "many": many_hits})
    assert standing.users["few", "none"] == HANDFUL - 1
    assert [standing.order(*pair) for pair in (("few", "none"), ("many", "none"))] == [0, 1]
    # "many" is ahead of "none" alone, so no place in the line parts all before from all after.
    assert standing.spelled == "many = few = none"
    assert Standing.from_values({"none": no_hits, "many": many_hits}).spelled == "many > none"


def test_an_expected_order_rests_on_no_more_users_than_are_expected_to_have_a_hit():
    expected = {"a": np.full(1_000, 0.004), "b": np.full(1_000, 0.001)}
    assert Standing.from_values(expected).users["a", "b"] > HANDFUL
    standing = Standing.from_values(expected, expected)
    assert (standing.users["a", "b"], standing.order("a", "b")) == (4, 0)
    swapped = Standing.from_values(dict(reversed(expected.items())), expected)
    assert swapped.users["b", "a"] == 4


def test_a_standing_spells_its_order():
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    clear = Standing({"a": 0.3, "b": 0.2, "c": 0.1}, dict.fromkeys(pairs, 9))
    tied = Standing({"a": 0.3, "b": 0.1, "c": 0.2}, dict(zip(pairs, (9, 9, 1), strict=True)))
    assert (clear.spelled, tied.spelled) == ("a > b > c", "a > c = b")


@pytest.mark.some(30)
@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [[1, 2], [2, 5, 6], [4, 8], [7], [1, 4, 7, 8]])
def test_sets_by_enumerating_every_sample(name, ranks, replacement):
    # The items' sampled ranks are dependent; the sum of their own expectations is still exact.
    n, m = 8, 3
    samples = every_sample(ranks, n, m, replacement)
    values = [metric(name).of_set(list(sample), m + len(ranks)) for sample in samples]
    estimator = naive(metric(name), Protocol(n, m, replacement=replacement, n_relevant=len(ranks)))
    shuffled = ranks[::-1]
    assert expected_of_set(estimator, shuffled) == pytest.approx(math.fsum(values) / len(values))
    assert variance_of_set(estimator, shuffled) == pytest.approx(
        np.var(values), rel=1e-11, abs=1e-15
    )


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize(("n", "m"), [(8, 5), (10_000, 100), (10**9, 1_500)])
def test_variance_of_auc_of_a_set_in_closed_form(n, m, replacement):
    # The negatives above two items covary as m p_i (1 - p_j), less what is drawn already.
    ranks = np.array([1, 3, n // 2, n // 2 + 1, n])
    m, pool = m if replacement else min(m, n - 5), n - 5
    p = (ranks - np.arange(1, 6)) / pool
    factor = 1.0 if replacement else (pool - m) / max(pool - 1, 1)
    covariances = np.minimum.outer(p, p) * (1 - np.maximum.outer(p, p)) * factor
    estimator = naive(metric("auc"), Protocol(n, m, replacement=replacement, n_relevant=5))
    assert variance_of_set(estimator, ranks) == pytest.approx(
        covariances.sum() / (m * 25), rel=1e-10, abs=1e-15
    )


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("build", [least_bias, rank_estimate, monotone])
def test_sets_are_corrected_term_by_term(build, replacement):
    # Expectation over every sample of the corrected sum, although the ranks are dependent.
    ranks, n, m = [2, 5, 6], 9, 3
    estimator = build(metric("ap"), Protocol(n, m, replacement=replacement, n_relevant=3))
    samples = every_sample(ranks, n, m, replacement)
    totals = [
        sum(float(estimator(rank, position=j)) for j, rank in enumerate(sample, start=1))
        for sample in samples
    ]
    assert expected_of_set(estimator, ranks) == pytest.approx(np.mean(totals), rel=1e-12)


def test_observed_ranks_as_a_prior():
    ranks = [3, 3, 90, 400]
    protocol, dense_prior = Protocol(400, 12), np.zeros(400)
    np.add.at(dense_prior, np.array(ranks) - 1, 0.25)
    by_table = bias_variance(metric("ap"), protocol, 0.05, observed(ranks)).values
    by_vector = bias_variance(metric("ap"), protocol, 0.05, dense_prior).values
    assert np.array_equal(by_table, by_vector)
    assert not np.allclose(by_table, bias_variance(metric("ap"), protocol, 0.05).values)


@pytest.mark.parametrize("replacement", LAWS)
def test_sets_are_drawn_jointly(replacement):
    ranks, n, m = [2, 5, 6], 8, 3
    protocol = Protocol(n, m, replacement=replacement, n_relevant=3)
    draws = draw_set(protocol, ranks, np.random.default_rng(22), size=20_000)
    samples = Counter(every_sample(ranks, n, m, replacement))
    seen = Counter(map(tuple, draws.tolist()))
    assert set(seen) <= set(samples)
    keys = sorted(samples)
    pmf = np.array([samples[key] for key in keys]) / sum(samples.values())
    _chi_square(np.repeat(np.arange(len(keys)), [seen[key] for key in keys]), pmf)
    single = draw_set(protocol, ranks, np.random.default_rng(22))
    assert single.shape == (3,)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("relevant", "irrelevant"), TIED)
def test_gains_by_enumeration(relevant, irrelevant, replacement):
    n, k = 3, 4
    options = {"replacement": replacement}
    sets = sets_of(relevant, irrelevant)
    outcomes = enumerated(relevant, irrelevant, n, replacement)
    places = range(len(relevant))
    for i in places:  # one item alone gains: how often it is in the list
        in_list = float(sum(p for r, p in outcomes.items() if r[i] <= k))
        single_gain = expected_gain(sets, [np.eye(len(relevant))[i]], np.ones(k), n, **options)[0]
        assert single_gain == pytest.approx(in_list, rel=1e-12)
    gain = [5.0, 1.0, 3.0][: len(relevant)]
    discount = [Fraction(1 / max(1.0, math.log2(rank))) for rank in range(1, k + 1)]
    sums = [
        p * sum(Fraction(gain[i]) * discount[r[i] - 1] for i in places if r[i] <= k)
        for r, p in outcomes.items()
    ]
    ideal = sum(g * d for g, d in zip(sorted(gain, reverse=True), discount, strict=False))
    given = ([gain], np.array(discount, float), n)
    assert expected_gain(sets, *given, **options)[0] == pytest.approx(float(sum(sums) / ideal))


@given(
    st.sets(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(1, 50),
    st.sampled_from(FIVE + CUT),
    st.booleans(),
)
def test_without_ties_it_is_the_estimator_of_a_set(ranks, n, name, replacement):
    ordered = np.sort(list(ranks))
    protocol = Protocol(60, n, replacement=replacement, n_relevant=ordered.size)
    plain = naive(metric(name), protocol)
    sets = RelevantSets(
        [ordered - np.arange(1, ordered.size + 1)],
        [np.zeros_like(ordered)],
        [np.arange(ordered.size)],
        [60 - ordered.size],
    )
    options = {"replacement": replacement}
    mean, variance = expected_of_set(plain, ordered), variance_of_set(plain, ordered)
    for reported in (metric(name), plain):
        assert sets.expected(reported, n, **options)[0] == pytest.approx(mean, rel=1e-11, abs=1e-13)
        assert sets.variance(reported, n, **options)[0] == pytest.approx(
            variance, rel=1e-8, abs=1e-13
        )


@pytest.mark.parametrize("replacement", [False, True])
def test_draws_follow_the_enumerated_law_of_all_ranks_together(replacement):
    relevant, irrelevant = (2, 5, 2), (2, 5, 1, 6, 2)
    outcomes = enumerated(relevant, irrelevant, 3, replacement)
    runs = 20_000
    single = sets_of(relevant, irrelevant)
    sets = RelevantSets(
        *(np.repeat(getattr(single, field.name), runs, axis=0) for field in fields(single))
    )
    rng = np.random.default_rng(4)
    counted = Counter(map(tuple, draw_ranks(sets, 3, rng, replacement=replacement).tolist()))
    assert set(counted) <= set(outcomes)
    share = [float(p) * runs for p in outcomes.values()]
    assert chisquare([counted[r] for r in outcomes], share).pvalue > 1e-3


def test_expected_differences_of_the_toy():
    samples = [Protocol(10_000, m) for m in (99, 2_000, 3_000)]
    frame = expected_differences(TOY, "recall@10", *samples)
    assert list(frame.columns) == [
        "first",
        "second",
        "n_negatives",
        "exact",
        "expected",
        "consistent",
    ]
    assert len(frame) == 9
    rows = frame.set_index(["first", "second", "n_negatives"])
    assert rows.loc[("A", "C", 99), "exact"] == pytest.approx(-0.2)
    assert not rows.loc[("A", "C", 99), "consistent"]
    assert not rows.loc[("B", "C", 2_000), "consistent"]
    assert rows.loc[("B", "C", 3_000), "consistent"]
    # An exact tie that sampling breaks is an inconsistency too.
    assert rows.loc[("A", "B", 99), "exact"] == 0
    assert not rows.loc[("A", "B", 99), "consistent"]
    samples = [Protocol(10_000, m) for m in (1, 99, 9_999)]
    assert expected_differences(TOY, "auc", *samples)["consistent"].all()


def gain(gains, discounts):
    return expected_gain(RelevantSets([[0, 3]], [[0, 1]], [[0, 1]], [8]), gains, discounts, 2)


TWO = Protocol(10, 3, n_relevant=2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: counterexample(metric("ap"), n_items=2), "n_items must be"),
        (lambda: expected_of_set(naive("ap", TWO), [4, 4]), "distinct, got 4 more than once"),
        (lambda: variance_of_set(naive("ap", TWO), [4]), "ranks must hold n_relevant = 2, got 1"),
        (lambda: plug_in({11: 1.0}, metric("ap"), 10), "rank must be <= 10, got 11"),
        (lambda: draw_set(Protocol([10, 20], 3, n_relevant=2), [1, 2], 0), "one catalogue size"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError, match=said):
        call()

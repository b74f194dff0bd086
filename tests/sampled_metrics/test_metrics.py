"""The metrics against the paper's definitions, written out slowly, and against scikit-learn."""

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics import Metric, metric
from tests.reference import slow

pytestmark = pytest.mark.words

NAMES = [
    "auc",
    "precision@1",
    "precision@5",
    "recall@3",
    "recall@10",
    "ap",
    "ap@4",
    "ndcg",
    "ndcg@4",
    "rr",
    "rr@3",
    "hit@3",
    "accuracy",
]


ranked_lists = st.integers(3, 30).flatmap(
    lambda n: st.tuples(st.just(n), st.sets(st.integers(1, n), min_size=1, max_size=n - 1))
)


@pytest.mark.some(6)
@pytest.mark.parametrize("name", NAMES)
@given(case=ranked_lists)
def test_set_equals_the_definition(name, case):
    n, ranks = case
    assert metric(name).of_set(list(ranks), n_items=n) == pytest.approx(
        float(slow(name, tuple(ranks), n)), rel=1e-13, abs=1e-15
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_item_equals_the_set_of_it(name):
    m = metric(name)
    vector = m.vector(12)
    assert vector == pytest.approx([m.of_set([r], n_items=12) for r in range(1, 13)], abs=0)
    assert vector == pytest.approx([float(slow(name, (r,), 12)) for r in range(1, 13)], rel=1e-14)


def test_hand_computed_values():
    # krichene2020, eqs 7-13: rank 3 of 5.
    values = {name: float(metric(name)(3, n_items=5)) for name in NAMES}
    assert values["auc"] == 0.5
    assert values["precision@5"] == 0.2
    assert values["precision@1"] == 0.0
    assert values["recall@3"] == 1.0
    assert values["ap"] == values["rr"] == values["ap@4"] == pytest.approx(1 / 3)
    assert values["ndcg"] == values["ndcg@4"] == 0.5
    assert values["accuracy"] == 0.0
    # The paper's {3, 5}: AUC of 10 items by hand is 11/16, AP (1/3 + 2/5) / 2.
    assert Fraction(metric("auc").of_set([3, 5], 10)) == Fraction(11, 16)
    assert metric("ap").of_set([5, 3]) == pytest.approx(float(Fraction(11, 30)), rel=1e-15)


def test_per_instance_catalogue_sizes():
    auc = metric("auc")([2, 2], n_items=[3, 11])
    assert auc.tolist() == [0.5, 0.9]
    assert metric("auc")([1, 2, 3], n_items=[[3], [5]]).shape == (2, 3)


@pytest.mark.parametrize(
    ("given_name", "canonical"),
    [(" NDCG@10 ", "ndcg@10"), ("Auc", "auc"), ("AP", "ap"), ("Recall @ 010", "recall@10")],
)
def test_names_parse_in_any_case(given_name, canonical):
    assert metric(given_name).name == canonical
    assert metric(metric(given_name).name) == metric(given_name)


#: Names as in RecBole's recbole/evaluator/metrics.py, RecTools' rectools/metrics, ranx's
#: ranx/metrics, trec_eval's m_*.c and ir_measures' ir_measures/measures.
FROM_LIBRARIES = {
    "RecBole": "hit@10 mrr@10 map@10 recall@10 ndcg@10 precision@10",
    "RecTools": "HitRate@10 MRR@10 MAP@10 Recall@10 NDCG@10 Precision@10",
    "ranx": "hit_rate@10 mrr@10 map@10 recall@10 ndcg@10 precision@10",
    "trec_eval": "success_10 recip_rank map recall_10 ndcg_cut_10 P_10",
    "ir_measures": "Success@10 RR@10 AP@10 R@10 nDCG@10 P@10",
    "papers": "HR@10 MRR MAP Recall@10 NDCG@10 P@10",
    "PyKEEN and MTEB": "hits_at_10 inverse_harmonic_mean_rank map_at_10 recall_at_10 ndcg_at_10 "
    "precision_at_10",
    "link prediction": "Hits@10 MRR map recall@10 ndcg@10 precision@10",
}


def in_the_top(ranks, k):
    return [rank for rank in ranks if rank <= k]


@pytest.mark.parametrize("library", FROM_LIBRARIES)
def test_names_of_libraries_mean_what_they_mean_there(library):
    names = FROM_LIBRARIES[library].split()
    for ranks in ([3], [11], [2, 7], [4, 30, 31], [10, 12]):
        top = in_the_top(ranks, 10)
        cutoff_by_name = {name: 10 if name[-2:] == "10" else 100 for name in names}
        hit, rr, ap, recall, ndcg, precision = (metric(name).of_set(ranks) for name in names)
        assert hit == (1 if top else 0)
        seen = in_the_top(ranks, cutoff_by_name[names[1]])
        assert rr == (1 / seen[0] if seen else 0)
        seen = in_the_top(ranks, cutoff_by_name[names[2]])
        assert ap == pytest.approx(sum((j + 1) / r for j, r in enumerate(seen)) / len(ranks))
        assert recall == len(top) / len(ranks)
        assert precision == len(top) / 10
        ideal = sum(1 / math.log2(i + 1) for i in range(1, len(ranks) + 1))
        assert ndcg == pytest.approx(sum(1 / math.log2(r + 1) for r in top) / ideal)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ndgc@10", "metric 'ndgc' is unknown: did you mean 'ndcg'?"),
        (
            "",
            "metric '' is unknown: use one of auc, precision, recall, ap, ndcg, rr, hit, accuracy",
        ),
        ("f1@10", "metric 'f1' is unknown: use one of auc, "),
        ("map_cut_10", "metric 'map_cut' is unknown: use one of auc, "),  # divides by |R|
        ("x" * 10**6, f"metric 'x{'x' * 55}... is unknown"),
        ("ap@" + "9" * 5000, f"k must be a whole number below 10**18, got '9{'9' * 55}..."),
        ("recall", "metric 'recall' needs a cut-off, as in 'recall@10'"),
        ("auc@10", "metric 'auc@10' has a cut-off: auc takes none"),
        ("ndcg@0", "k must be a whole number >= 1, got 0"),
        ("ndcg@2.5", "k must be a whole number >= 1, got '2.5' in metric 'ndcg@2.5'"),
        (10, "metric must be a name such as 'ndcg@10', got 10"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(ValueError, match=_exactly_from(message)):
        metric(name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Metric("ndcg", 0), "k must be a whole number >= 1, got 0"),
        (lambda: Metric("recall"), "metric 'recall' needs a cut-off"),
        (lambda: metric("ap").of_set([], 10), "ranks must be a non-empty list of ranks"),
        (lambda: metric("ap").of_set([3, 3], 10), "ranks must be distinct, got 3 more than once"),
        (lambda: metric("ap").of_set([2, 11], 10), "rank must be <= 10, got 11"),
        (lambda: metric("auc").of_set([1, 2], n_items=2), "n_items must be >= 3, got 2"),
        (lambda: metric("ap").term(5, 3, 2), "position must be <= 2, got 3"),
        (lambda: metric("ap").term([1, 4], 2, 2), "rank must be >= position, got rank 1 for pos"),
        # The best of two relevant items cannot be last.
        (lambda: metric("ap").term(10, 1, 2, n_items=10), "rank must be <= 9, got 10"),
    ],
)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("ranks", "n_items", "message"),
    [
        (0, 10, "rank must be >= 1, got 0"),
        ([1, 11], 10, "rank must be <= 10, got 11"),
        (1.5, 10, "rank must be whole numbers >= 1, got 1.5"),
        (math.inf, 10, "rank must be whole numbers >= 1, got inf"),
        ([True], 10, r"rank must be whole numbers, got \[True\]"),
        ("r" * 1000, 10, r"rank must be whole numbers, got 'r{56}\.\.\.$"),
        ([1, 2, 3], [9, 9], r"rank of shape \(3,\) does not broadcast with n_items of shape"),
        (1, 1, "n_items must be >= 2, got 1"),
        (1, None, "n_items is needed by auc, got None"),
    ],
)
def test_bad_ranks(ranks, n_items, message):
    with pytest.raises(ValueError, match=message):
        metric("auc")(ranks, n_items=n_items)


def _exactly_from(message):
    """A pattern that matches `message` from its start, literally."""
    return "^" + re.escape(message)

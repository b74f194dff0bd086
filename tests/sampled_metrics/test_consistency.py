"""Definition 1 on the paper's toy, against brute force, and on cases small enough for a hand."""

from functools import cache

import numpy as np
import pytest

from sampled_metrics import Protocol, consistency, metric
from sampled_metrics.consistency import OrderByNegatives, order_by_negatives, sign
from sampled_metrics.estimators import naive
from sampled_metrics.orders import Order, negatives_needed, order
from tests.reference import exact_pmf

TOY = {
    "A": [100, 100, 100, 100, 100],
    "B": [40, 40, 8437, 9266, 4482],
    "C": [212, 2, 743, 5342, 1548],
}


#: The order of two recommenders, A and B, by the sign of A's mean less B's.
SPELLED = {1: "A > B", 0: "A = B", -1: "B > A"}


@cache
def expected_by_rank(name, n, m, replacement):
    """The expected metric of m negatives at each true rank."""
    return naive(metric(name), Protocol(n, m, replacement=replacement)).expected(
        np.arange(1, n + 1)
    )


def slow_orders(a, b, name, n, m_max, replacement):
    """Expected order at every m in 1..m_max, one after the other."""
    orders = []
    for m in range(1, m_max + 1):
        expected = expected_by_rank(name, n, m, replacement)
        order_sign = sign(*(expected[np.array(ranks) - 1].mean() for ranks in (a, b)))
        orders.append(SPELLED[order_sign])
    return orders


@pytest.mark.some(4)
@pytest.mark.exhaustive
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["auc", "ap", "ndcg@3", "recall@5"])
@pytest.mark.parametrize(
    ("a", "b"),
    [([3, 60], [10, 20]), ([1, 90, 90], [12, 30, 31]), ([5, 5], [5, 5]), ([2, 7], [99, 100])],
)
def test_order_by_negatives_equals_trying_every_m(a, b, name, replacement):
    n = 100
    protocol = Protocol(n, n - 1, replacement=replacement)
    order = order_by_negatives({"A": a, "B": b}, metric(name), protocol)
    slow = slow_orders(a, b, name, n, n - 1, replacement)
    assert [order.at(m) for m in range(1, n)] == slow
    assert order.flips == tuple(m for m in range(2, n) if slow[m - 1] != slow[m - 2])
    assert order.exact == SPELLED[sign(metric(name)(a, n).mean(), metric(name)(b, n).mean())]
    right_from = [m for m in range(1, n) if all(s == order.exact for s in slow[m - 1 :])]
    assert order.right_from == (right_from[0] if right_from else None)


def test_few_numbers_of_negatives_are_tried(monkeypatch):
    from sampled_metrics import consistency

    tried = []

    def counting(m, protocol):
        tried.append(protocol.n_negatives)
        return naive(m, protocol)

    monkeypatch.setattr(consistency, "naive", counting)
    pair = {name: TOY[name] for name in "BC"}
    order = order_by_negatives(pair, "ap", Protocol(10_000, 9_999))
    assert order.flips == (73, 281)
    # Once for each of the two recommenders.
    assert 2 * len(set(tried)) == len(tried) < 240


def test_orders_of_the_toy():
    table = order_by_negatives(TOY, "ap", Protocol(10_000, 9_999)).frame
    assert table["first"].tolist() == [1, 73, 281, 438, 954]
    assert table["last"].tolist() == [72, 280, 437, 953, 9_999]
    expected_orders = ["A > C > B", "A > B > C", "A > C > B", "C > A > B", "C > B > A"]
    assert table["order"].tolist() == expected_orders
    assert table["right"].tolist() == [False] * 4 + [True]


def test_sizes_by_instance():
    sizes = [100, 50, 80]
    protocol = Protocol(sizes, 49, replacement=False)
    order = order_by_negatives({"A": [1, 40, 70], "B": [20, 15, 20]}, "ap", protocol)
    for m in (1, 7, 49):
        estimator = naive(metric("ap"), Protocol(np.array(sizes), m, replacement=False))
        first = estimator.expected([1, 40, 70]).mean()
        assert order.at(m) == SPELLED[sign(first, estimator.expected([20, 15, 20]).mean())]


def test_order_of_nearly_equal_means():
    assert sign(1.0, 1.0 + 1e-13) == 0
    assert sign(0.0, 0.0) == 0
    assert sign(1e-200, 0.0) == 1
    assert sign(1.0, 1.0 + 1e-11) == -1


@pytest.mark.parametrize(
    ("ranks", "n_items", "message"),
    [
        ({"A": [1]}, 10, "ranks must hold at least two recommenders, got 1"),
        ({"A": [1], "B": [1, 2]}, 10, "the same number of instances for every recommender, got"),
        ({"A": [1, 2], "B": [1, 2]}, [10, 10, 10], "ranks of A of shape"),
        ({"A": [1], "B": [1]}, [10, 10, 10], "got {'A': 1, 'B': 1} and 3 in n_items"),
        ({"A": [1], "B": [11]}, 10, "ranks of B must be <= 10, got 11"),
    ],
)
def test_bad_ranks(ranks, n_items, message):
    with pytest.raises(ValueError, match=message):
        order_by_negatives(ranks, "ap", Protocol(n_items, 5))


def test_a_verdict_without_chance_is_right_or_wrong():
    assert Order(exact=0.1, expected=0.1, sd=0.0, n_users=5).probability == 1
    assert Order(exact=0.1, expected=-0.1, sd=0.0, n_users=5).probability == 0
    assert Order(exact=0.1, expected=0.1, sd=0.0, n_users=5).users() == 1
    # A metric that cannot tell two recommenders apart finds no order.
    tied_order = Order(exact=0.1, expected=0.0, sd=0.0, n_users=5)
    assert tied_order.users() is None
    assert tied_order.probability == 0


def test_negatives_needed_equals_trying_every_m():
    first, second = [2, 30, 31, 33], [8, 9, 10, 11]
    name = metric("ndcg")

    @cache
    def at(m):
        return order(first, second, naive(name, Protocol(60, m, replacement=False)))

    for confidence in (0.5, 0.6, 0.8, 0.9):
        slow = [m for m in range(1, 56) if at(m).probability >= confidence]
        assert negatives_needed(at, 1, 55, confidence) == (slow[0] if slow else None)
    assert negatives_needed(at, 55, 55, 0.6) == (55 if at(55).probability >= 0.6 else None)


@pytest.mark.parametrize("replacement", [True, False])
def test_an_evaluation_that_sees_no_difference_is_not_right(replacement):
    # Up to nine negatives everything is in the sampled top ten, for both recommenders.
    def at(m):
        protocol = Protocol(1_000, m, replacement=replacement)
        return order([3] * 5, [700] * 5, naive(metric("recall@10"), protocol))

    assert [at(m).z for m in range(1, 10)] == [0] * 9
    assert at(10).z > 0
    assert at(9).users(0.5) is None
    assert negatives_needed(at, 1, 9, 0.5) is None
    # With ten the order is right in expectation.
    assert at(9).probability == 0
    assert negatives_needed(at, 1, 900, 0.5) == 10


def test_a_permutation_of_the_users_has_no_exact_order():
    # The two averages differ in the last bit.
    first, second = [12, 1, 1, 4, 1, 20, 16], [1, 4, 16, 20, 12, 1, 1]
    assert metric("ap")(first).mean() != metric("ap")(second).mean()
    with pytest.raises(ValueError, match="exact must not be 0"):
        order(first, second, naive(metric("ap"), Protocol(60, 5)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: OrderByNegatives((1,), ("A > B",), "A > B", 9).at(10), r"in \[1, 9\], got 10"),
        (lambda e: order([1, 2], [2, 1], e), "exact must not be 0"),
        (lambda e: order([1], [61], e), "must be <= 60"),
        (lambda e: order([1], [2], e).users(0.4), r"a number in \[0.5, 1\), got 0.4"),
        (
            lambda e: order([1], [2], naive(e.metric, Protocol(60, 5, n_relevant=2))),
            "protocol must be for n_relevant = 1 in each instance, got 2",
        ),
        (lambda e: negatives_needed(lambda m: order([1], [2], e), 5, 4), "high must be"),
        (lambda e: negatives_needed(lambda m: order([1], [2], e), 1, 4, 1.0), "confidence"),
    ],
)
def test_bad_verdicts_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(naive(metric("ap"), Protocol(60, 5)))


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["recall@2", "ndcg@3"])
def test_with_many_users_the_flips_are_those_of_whole_fractions(monkeypatch, name, replacement):
    """One more negative at a time, as a cut-off and many users are computed."""
    monkeypatch.setattr(consistency, "_MANY", 0)
    ranks, n = {"A": [4, 4, 4, 30], "B": [1, 2, 38, 40], "C": [3, 5, 6, 20]}, 40
    order = consistency.order_by_negatives(ranks, name, Protocol(n, 30, replacement=replacement))
    orders = {}
    for m in range(1, 31):
        values = metric(name)(np.arange(1, m + 2), m + 1)
        means = {
            recommender: sum(
                float(q) * v
                for r in true_ranks
                for q, v in zip(exact_pmf(n, m, r, replacement), values, strict=True)
            )
            for recommender, true_ranks in ranks.items()
        }
        orders[m] = [consistency.sign(means[a], means[b]) for a, b in ("AB", "AC", "BC")]
    assert order.flips == tuple(m for m in range(2, 31) if orders[m] != orders[m - 1])
    assert order.flips

"""Comparisons of products against fractions, and ranks that no order of sums moves."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics.numerics.products import Bounds, radius, signs
from sampled_metrics.ranking import counting
from sampled_metrics.ranking import kernels as _compiled

from ..ranking.by_factors import ranks_by_factors

number = st.floats(-1e100, 1e100, allow_subnormal=True)


def exact(user, item):
    return sum(
        Fraction(user_factor) * Fraction(item_factor)
        for user_factor, item_factor in zip(user.tolist(), item.tolist(), strict=True)
    )


@given(st.lists(st.tuples(number, number, number), min_size=1, max_size=6))
def test_signs_are_those_of_exact_arithmetic(terms):
    user, item, other_item = np.array(terms).T
    difference = exact(user, item) - exact(user, other_item)
    expected = (difference > 0) - (difference < 0)
    assert signs(user[None], item[None], other_item[None]).tolist() == [expected]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 64])
def test_no_order_of_the_terms_leaves_the_radius(dtype, width):
    rng = np.random.default_rng(5)
    user, item = (rng.normal(size=width) * 10.0 ** rng.integers(-3, 4, width) for _ in range(2))
    user, item = user.astype(dtype), item.astype(dtype)
    bound = radius(dtype, width, *(np.linalg.norm(vector.astype(float)) for vector in (user, item)))
    for _ in range(50):
        order, total = rng.permutation(width), dtype(0)
        for term in user[order] * item[order]:
            total = dtype(total + term)
        assert abs(Fraction(float(total)) - exact(user, item)) <= Fraction(float(bound))


def slow_ranks(users, items, held_out):
    """How many items are above and level, by whole-number arithmetic."""
    counts = []
    for user, held_item in zip(users, held_out, strict=True):
        scores = [exact(user, item) for item in items]
        above = sum(score > scores[held_item] for score in scores)
        counts.append((above, scores.count(scores[held_item]) - 1))
    return counts


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("most", [2**20, 5])
@pytest.mark.parametrize("compiled", [False, True])
def test_ranks_are_those_of_exact_arithmetic(monkeypatch, dtype, most, compiled):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(_compiled, "WORTH", 0)
    # Items that are copies, that differ by a last bit, and that tie though they differ: a rounded
    # product would tell the first apart and not the others.
    rng = np.random.default_rng(6)
    users, items = (rng.normal(size=(rows, 7)).astype(dtype) for rows in (12, 60))
    users[:, 1], users[3] = users[:, 0], 0.0
    items[20:40] = items[:20]
    items[40:60] = items[:20]
    items[40:50, 2] = np.nextafter(items[40:50, 2], dtype(9))
    items[50:60, :2] = items[50:60, 1::-1]  # level, since the user's factors are
    held_out = rng.integers(0, 60, 12)
    monkeypatch.setattr(counting, "_MOST_PAIRS", most)
    intervals = ranks_by_factors(users, items, held_out, None)
    expected = slow_ranks(users, items, held_out)
    assert list(zip(intervals.n_better, intervals.n_tied, strict=True)) == expected
    assert sum(tied >= 2 for _, tied in expected) >= 5


def test_ranks_do_not_depend_on_how_the_product_is_summed(monkeypatch):
    rng = np.random.default_rng(7)
    users, items = (rng.normal(size=(rows, 16)).astype(np.float32) for rows in (40, 3000))
    items[1000:] = items[rng.integers(0, 1000, 2000)]
    items[2000:] *= np.float32(1 + 2e-7)
    held_out = rng.integers(0, 3000, 40)
    before = ranks_by_factors(users, items, held_out, None)
    multiply = np.matmul

    def otherwise(user_factors, item_factors, out):
        out[:] = sum(multiply(user_factors[:, k::5], item_factors[k::5]) for k in (3, 1, 4, 0, 2))

    monkeypatch.setattr(np, "matmul", otherwise)
    after = ranks_by_factors(users, items, held_out, None)
    assert before.n_better.tolist() == after.n_better.tolist()
    assert before.n_tied.tolist() == after.n_tied.tolist()
    assert after.n_tied.sum() > 20


def test_small_whole_numbers_need_no_second_look():
    integers = np.arange(-6.0, 6.0).reshape(4, 3)
    assert Bounds.of_matrices(integers, integers).exact
    assert not Bounds.of_matrices(integers, integers + 0.5).exact
    assert not Bounds.of_matrices(integers * 2.0**25, integers * 2.0**25).exact
    assert not Bounds.of_matrices(integers * 1e200, integers * 1e200).safe

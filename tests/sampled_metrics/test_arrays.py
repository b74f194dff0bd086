"""Scores and factors in arrays of other libraries: the same counts, none of them moved to NumPy."""

import importlib

import numpy as np
import pytest
import scipy.sparse as sp

from sampled_metrics.ranking import counting, factors
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.ranking.factors import exact_ranks_from_factors

LIBRARIES = ["array_api_strict", "torch"]


@pytest.fixture(params=LIBRARIES)
def xp(request):
    """An array library; PyTorch is in the tests' environment of the libraries alone."""
    if request.param == "torch":
        pytest.importorskip("torch")
    return importlib.import_module(request.param)


def cases(dtype, seed=4):
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(30, 5)), rng.normal(size=(300, 5))
    items[100:] = items[rng.integers(0, 100, 200)]  # ties abound
    owners = np.sort(rng.integers(0, 30, 45))
    held_out = rng.integers(0, 150, 45)
    seen = rng.random((30, 300)) < 0.3
    seen[:, :150] = False
    return users.astype(dtype), items.astype(dtype), owners, held_out, sp.csr_array(seen)


def same(intervals, expected):
    for name in ("n_better", "n_tied", "n_candidates"):
        assert getattr(intervals, name).tolist() == getattr(expected, name).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("entries", [2**25, 999])
def test_factors_of_another_library(monkeypatch, xp, dtype, entries):
    users, items, owners, held_out, seen = cases(dtype)
    expected = exact_ranks_from_factors(users, items, held_out, seen, users=owners)
    monkeypatch.setattr(counting, "_DEVICE_ENTRIES", entries)
    arrays = xp.asarray(users), xp.asarray(items)
    same(exact_ranks_from_factors(*arrays, held_out, seen, users=owners), expected)
    assert expected.n_tied.sum() > 40


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_scores_of_another_library(xp, dtype):
    users, items, owners, held_out, seen = cases("float64")
    scores = np.round((users @ items.T)[owners] * 8).astype(dtype)
    expected = exact_ranks(scores, held_out, seen[owners])
    score_array = xp.asarray(scores)
    same(exact_ranks(score_array, held_out, seen[owners]), expected)
    same(exact_ranks(lambda block: score_array[block, :], held_out, seen[owners]), expected)
    tolerant = exact_ranks(scores, held_out, None, relative_tolerance=0.3)
    same(exact_ranks(score_array, held_out, None, relative_tolerance=0.3), tolerant)
    assert tolerant.n_tied.sum() > expected.n_tied.sum() > 40


def test_bad_scores_of_another_library_are_refused(xp):
    scores = xp.asarray(np.array([[1.0, 2.0], [np.nan, 1.0]]))
    with pytest.raises(ValueError, match="scores must not be NaN, got one in row 1"):
        exact_ranks(scores, [0, 0], None)
    with pytest.raises(ValueError, match=r"scores must be real numbers, got dtype .*complex"):
        exact_ranks(xp.asarray(np.array([[1j, 2]])), [0], None)
    with pytest.raises(ValueError, match=r"one width, got shapes \(1, 1\) and \(1, 2\)"):
        exact_ranks_from_factors(xp.ones((1, 1)), xp.ones((1, 2)), [0], None)
    items = xp.asarray(np.array([[1.0, 1.0], [np.inf, 1.0]]))
    with pytest.raises(ValueError, match="scores must not be NaN, got one in row 1"):
        exact_ranks_from_factors(
            xp.asarray(np.array([[1.0, 1.0], [0.0, 1.0]])), items, [0, 0], None
        )


def test_a_device_that_rounds_the_factors_is_refused(monkeypatch, xp):
    users, items, owners, held_out, seen = cases("float32")
    arrays = xp.asarray(users), xp.asarray(items)
    real_namespace = arrays.namespace(arrays[1])

    class Coarse:
        def __getattr__(self, name):
            return getattr(real_namespace, name)

        def matmul(self, first_factor, second_factor):
            def rounded(x):  # to the 11 bits of TF32
                rounded_bits = np.asarray(x).view(np.uint32) + np.uint32(1 << 12)
                return xp.asarray((rounded_bits & np.uint32(0xFFFFE000)).view(np.float32))

            return real_namespace.matmul(rounded(first_factor), rounded(second_factor))

    monkeypatch.setattr(
        factors, "namespace", lambda x: None if isinstance(x, np.ndarray) else Coarse()
    )
    with pytest.raises(ValueError, match=r"multiplied in the precision of float32.*TF32"):
        exact_ranks_from_factors(*arrays, held_out, seen, users=owners)


def test_without_the_bridge_one_sentence_says_what_to_install(monkeypatch):
    import sys

    scores = importlib.import_module("array_api_strict").ones((1, 1))
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(
        ImportError, match=r"need array-api-compat: install sampled-metrics\[arrays\]"
    ):
        exact_ranks(scores, [0], None)

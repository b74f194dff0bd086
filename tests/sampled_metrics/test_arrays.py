"""Scores and factors in arrays of other libraries: the same counts, none of them moved to NumPy."""

import importlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sampled_metrics import rank
from sampled_metrics.ranking import counting
from sampled_metrics.ranking.exact import exact_ranks

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
@pytest.mark.parametrize("score", ["dot", "cosine", "euclidean"])
def test_rank_takes_factors_of_another_library(xp, dtype, score):
    users, items, owners, held_out, seen = cases(dtype)
    test = pd.DataFrame({"user": owners, "item": held_out}).drop_duplicates()
    expected = rank(users, items, test, seen, score=score).frame
    found = rank(xp.asarray(users), xp.asarray(items), test, seen, score=score).frame
    pd.testing.assert_frame_equal(found, expected)
    scores = users @ items.T
    of_scores = rank(xp.asarray(scores), None, test, seen).frame
    pd.testing.assert_frame_equal(of_scores, rank(scores, None, test, seen).frame)
    assert score == "cosine" or expected["n_tied"].sum() > 40


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("entries", [2**25, 999])
def test_scores_of_another_library(monkeypatch, xp, dtype, entries):
    monkeypatch.setattr(counting, "_DEVICE_ENTRIES", entries)
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


def test_without_the_bridge_one_sentence_says_what_to_install(monkeypatch):
    import sys

    scores = importlib.import_module("array_api_strict").ones((1, 1))
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(
        ImportError, match=r"need array-api-compat: install sampled-metrics\[arrays\]"
    ):
        exact_ranks(scores, [0], None)

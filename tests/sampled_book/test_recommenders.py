"""X, Y and Z against the paper's equations written out, and the bundled ranks against the data."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sampled_book.data import datasets, recommenders
from sampled_book.data.recommenders import (
    REPRODUCED,
    UNMASKED,
    VARIANTS,
    ItemBased,
    MatrixFactorisation,
    X,
    Y,
    rank_variant,
)
from sampled_metrics import metric
from sampled_metrics.log import read as logs
from sampled_metrics.ranking.intervals import RankIntervals
from tests.data import needs_data


def random_train(seed, users=12, items=7, density=0.4):
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random((users, items)) < density).astype(float))


def slow_scores(history, n_items, setting):
    """Eqs 27-30 of krichene2020, item by item, from a list of sets of items."""
    items = range(n_items)
    fans = [{u for u, h in enumerate(history) if i in h} for i in items]

    def squared_cosine(i, j):
        if not fans[i] or not fans[j] or (i == j and not setting.self_neighbour):
            return Fraction(0)
        return Fraction(len(fans[i] & fans[j]) ** 2, len(fans[i]) * len(fans[j]))

    def similarity(i, j):  # eq. 27
        return math.sqrt(squared_cosine(i, j)) ** setting.exponent

    def nearest(to):  # the items most similar to one, the lower number first
        return sorted(items, key=lambda i: (-squared_cosine(i, to), i))[: setting.neighbours]

    def kept(i, j):  # eq. 28
        among = i in nearest(j) if setting.keep == "column" else j in nearest(i)
        return similarity(i, j) if among else 0.0

    def score(h, i):
        row = [kept(i, j) for j in items]
        norm = math.sqrt(sum(s * s for s in row))  # eq. 29
        if norm == 0:
            return 0.0
        total = sum(row[j] / norm for j in h)
        return total / sum(s / norm for s in row) if setting.divide else total  # eq. 30

    return np.array([[score(h, i) for i in items] for h in history])


settings = st.builds(
    ItemBased,
    exponent=st.sampled_from([1, 2, 3]),
    neighbours=st.sampled_from([None, 1, 2, 4]),
    keep=st.sampled_from(["column", "row"]),
    self_neighbour=st.booleans(),
    divide=st.booleans(),
)


@given(settings, st.integers(0, 10**6))
def test_item_based_scores_are_the_papers_equations(setting, seed):
    train = random_train(seed)
    history = [set(train[[u]].nonzero()[1].tolist()) for u in range(train.shape[0])]
    got = setting.scores(train)(slice(0, len(history)))
    np.testing.assert_allclose(
        got, slow_scores(history, train.shape[1], setting), rtol=1e-12, atol=1e-15
    )


def test_the_denominator_of_eq_30_cancels_the_norm_of_eq_29():
    """As printed, eq. 29 has no effect on the predictions."""
    train = random_train(29)
    counts = (train.T @ train).toarray()
    cosine = counts / np.sqrt(np.outer(counts.diagonal(), counts.diagonal()))
    unnormalised = cosine**3 / (cosine**3).sum(axis=1, keepdims=True)
    printed = ItemBased(exponent=3, divide=True).weights(train)
    np.testing.assert_allclose(printed, unnormalised, rtol=1e-12)


def paper_loss(users, items, train, alpha, strength):
    """Krichene2020, section 9, as printed."""
    predicted = users @ items.T
    seen = train.toarray() > 0
    return (
        ((predicted[seen] - 1) ** 2).sum()
        + alpha * (predicted**2).sum()
        + strength * ((users**2).sum() + (items**2).sum())
    )


def library_loss(users, items, train, confidence, strength):
    """What `implicit` minimises (Hu et al. 2008), with one confidence for all observed pairs."""
    predicted = users @ items.T
    seen = train.toarray() > 0
    return (
        confidence * ((predicted[seen] - 1) ** 2).sum()
        + (predicted[~seen] ** 2).sum()
        + strength * ((users**2).sum() + (items**2).sum())
    )


@given(st.integers(0, 10**6), st.floats(0.01, 5), st.floats(0, 50))
def test_the_two_losses_differ_by_a_factor_and_a_constant(seed, alpha, strength):
    rng, train = np.random.default_rng(seed), random_train(seed)
    setting = MatrixFactorisation(alpha=alpha, regularization=strength)
    t = 1 / (1 + alpha)

    def difference():
        users, items = rng.normal(size=(12, 3)), rng.normal(size=(7, 3))
        papers = paper_loss(math.sqrt(t) * users, math.sqrt(t) * items, train, alpha, strength) / (
            alpha * t**2
        )
        librarys = library_loss(
            users, items, train, setting.confidence, setting.library_regularization
        )
        return papers - librarys, papers

    (first, size), (second, other_size) = difference(), difference()
    assert first == pytest.approx(second, abs=1e-10 * max(size, other_size))


def test_the_settings_of_x_are_those_of_the_paper():
    assert (X.n_factors, X.alpha, X.regularization) == (16, 0.2, 10)
    assert X.confidence == pytest.approx(6, rel=1e-15)
    assert X.library_regularization == pytest.approx(60, rel=1e-15)


def require_implicit():
    if not os.environ.get("CI"):
        pytest.importorskip("implicit")


def test_the_librarys_factors_minimise_the_papers_loss():
    """At a minimum the gradient of the paper's loss, taken by hand, vanishes."""
    require_implicit()
    train = random_train(3, users=60, items=40, density=0.3)
    setting = MatrixFactorisation(n_factors=4, alpha=0.2, regularization=0.5, iterations=400)
    scale = math.sqrt(1 / (1 + setting.alpha))
    users, items = (scale * factors for factors in setting.factors(train))
    predicted = users @ items.T
    pull = (train.toarray() > 0) * (predicted - 1) + setting.alpha * predicted
    gradient = pull @ items + setting.regularization * users
    assert np.abs(users).max() > 0.1  # not the minimum at zero
    assert np.abs(gradient).max() < 1e-4 * np.abs(pull @ items).max()


def test_training_items_are_candidates_only_where_the_variant_says_so():
    train = random_train(3)
    held_out = train.toarray().argmin(axis=1)
    split = datasets.Split(train, held_out, np.zeros((12, 0), int))
    n_unseen = 7 - np.diff(train.indptr)
    assert n_unseen.min() > 0
    assert rank_variant("Y", REPRODUCED, split).n_candidates.tolist() == n_unseen.tolist()
    assert rank_variant("Y", UNMASKED, split).n_candidates.tolist() == [7] * 12


# --- the bundled ranks


def bundled(recommender, variant=REPRODUCED):
    return datasets.bundled_variants()[recommender, variant]


def percent(intervals, name, ties="mean"):
    return 100 * intervals.evaluate(metric(name), ties).mean()


def test_every_variant_is_bundled():
    assert list(datasets.bundled_variants()) == list(VARIANTS)
    with np.load(datasets.BUNDLE / "ranks.npz") as bundle:
        assert bundle["seed"] == X.seed


@pytest.fixture(scope="module")
def split():
    return datasets.ncf_split()


@pytest.mark.matrix
@needs_data
@pytest.mark.parametrize("recommender", "YZ")
def test_y_and_z_come_out_as_bundled(split, recommender):
    """Their other readings are those of `make ranks ARGS=--check`."""
    fresh, expected = rank_variant(recommender, REPRODUCED, split), bundled(recommender)
    for name in ("n_better", "n_tied", "n_candidates"):
        assert (getattr(fresh, name) == getattr(expected, name)).all()


def spread(name):
    """Mean and standard deviation over the bundled seeds of X."""
    values = [percent(intervals, name) for intervals in datasets.bundled_seeds()]
    assert len(values) == 10
    return np.mean(values), np.std(values, ddof=1)


HEADLINES = ["recall@10", "ndcg@10", "ap", "auc"]


@pytest.mark.matrix
@needs_data
def test_x_comes_out_within_the_spread_of_seeds(split):
    require_implicit()
    fresh = rank_variant("X", REPRODUCED, split)
    assert (fresh.n_candidates == bundled("X").n_candidates).all()
    for name in HEADLINES:
        centre, width = spread(name)
        assert abs(percent(fresh, name) - centre) < 4 * width
    # The same seed on another processor: most users within a few ranks, unlike another seed's.
    moved = np.median(np.abs(fresh.n_better - bundled("X").n_better))
    assert moved < np.median(np.abs(bundled("X", "seed 1").n_better - bundled("X").n_better)) / 2


# --- the command


@pytest.fixture
def kept_again(monkeypatch):
    """The command with data and ranks that need no computing: those that are bundled."""
    monkeypatch.setattr(datasets, "ncf_split", lambda: None)
    monkeypatch.setattr(datasets, "count_facts", lambda _: datasets.bundled_counts())
    variants = datasets.bundled_variants()
    calls = []

    def of_variant(recommender, variant, split):
        calls.append((recommender, variant))
        return variants[recommender, variant]

    monkeypatch.setattr(recommenders, "rank_variant", of_variant)
    return variants, calls


def test_the_command_writes_what_the_package_reads(tmp_path, monkeypatch, capsys, kept_again):
    monkeypatch.setattr(recommenders, "VARIANTS", {("Y", REPRODUCED): Y})
    expected = bundled("Y")
    assert recommenders.main(["--output", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == [
        str(tmp_path / name) for name in ("ranks.npz", "counts.json", "log.npz")
    ]
    assert "100%" in captured.err  # the progress bar
    monkeypatch.setattr(datasets, "BUNDLE", tmp_path)
    assert (bundled("Y").n_better == expected.n_better).all()
    monkeypatch.setattr(logs, "BUNDLE", tmp_path)
    rows = logs.read_log("bundled").frame
    assert rows["recommender"].unique().tolist() == ["Y"]
    assert (rows["n_items"].to_numpy() == expected.n_candidates).all()


def test_the_check_leaves_the_bundle_alone_and_exits_with_1_where_it_differs(capsys, kept_again):
    variants, calls = kept_again
    assert recommenders.main(["--check"]) == 0
    assert capsys.readouterr().out == "The ranks of X, Y and Z came out as they are bundled.\n"
    # Of X only the first seed is compared.
    assert set(variants) - set(calls) == {
        ("X", v) for r, v in variants if r == "X" and v != REPRODUCED
    }
    divided = variants["Z", "divided"]
    variants["Z", "divided"] = RankIntervals(
        divided.n_better // 2, divided.n_tied, divided.n_candidates
    )
    before = (datasets.BUNDLE / "ranks.npz").read_bytes()
    assert recommenders.main(["--check"]) == 1
    assert "Z, divided: n_better must be as it is bundled" in capsys.readouterr().out
    assert (datasets.BUNDLE / "ranks.npz").read_bytes() == before

"""Ranks of files and frames against those of all scores."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import sampled_metrics as sm
from sampled_metrics.ranking import files as ranking_files
from sampled_metrics.ranking.exact import exact_ranks


def rank_files(*inputs, **options):
    """The table alone."""
    return sm.rank(*inputs, **options).frame


@pytest.fixture
def factors(tmp_path):
    """Files of factors, of training items, and of several test items for some users."""
    rng = np.random.default_rng(6)
    users, items = rng.integers(-2, 3, (9, 3)), rng.integers(-2, 3, (50, 3))
    seen = rng.random((9, 50)) < 0.2
    seen[:, :25] = False
    test = pd.DataFrame({"user": [8, 0, 8, 3, 8, 0], "item": [3, 4, 5, 6, 7, 24]})
    np.save(tmp_path / "U.npy", users.astype(float))
    np.save(tmp_path / "V.npy", items.astype(float))
    sp.save_npz(tmp_path / "train.npz", sp.csr_array(seen))
    test.to_csv(tmp_path / "test.csv", index=False)
    return users @ items.T, seen, test


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_of_factors_are_ranked_as_their_scores_are(tmp_path, factors, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    scores, seen, test = factors
    output = tmp_path / f"ranks.{suffix}"
    names = ("U.npy", "V.npy", "test.csv", "train.npz")
    frame = rank_files(*(tmp_path / name for name in names), output=output)
    user = test["user"].to_numpy()
    expected = exact_ranks(scores[user], test["item"], sp.csr_array(seen[user]))
    assert frame[["user", "item"]].equals(test)
    for name in ("n_better", "n_tied", "n_candidates"):
        assert frame[name].tolist() == getattr(expected, name).tolist()
    # The irrelevant ones alone: mask the user's other test items, too.
    other_items = [[i for i in test["item"][user == u] if i != item] for u, item in test.to_numpy()]
    masked = [
        [*np.flatnonzero(seen[u]), *user_items]
        for u, user_items in zip(user, other_items, strict=True)
    ]
    irrelevant = exact_ranks(scores[user], test["item"], masked)
    assert (frame["n_better"] - frame["relevant_better"]).tolist() == irrelevant.n_better.tolist()
    assert (frame["n_tied"] - frame["relevant_tied"]).tolist() == irrelevant.n_tied.tolist()
    assert frame["n_relevant"].tolist() == [3, 2, 3, 1, 3, 2]
    read = pd.read_csv(output) if suffix == "csv" else pd.read_parquet(output)
    pd.testing.assert_frame_equal(read, frame)
    assert not list(tmp_path.glob("*.part"))


def test_without_training_items_every_item_is_a_candidate(tmp_path, factors):
    frame = rank_files(tmp_path / "U.npy", tmp_path / "V.npy", tmp_path / "test.csv")
    assert (frame["n_candidates"] == 50).all()


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_training_items_may_be_pairs(tmp_path, factors, kind):
    names = ("U.npy", "V.npy", "test.csv", "train.npz")
    expected = rank_files(*(tmp_path / name for name in names))
    user, item = np.nonzero(factors[1])
    pairs = pd.DataFrame({"item": item, "when": 3, "user": user}).sample(frac=1.5, replace=True,
                                                                        random_state=1)  # fmt: skip
    pairs = pd.concat([pairs, pd.DataFrame({"user": user, "item": item, "when": 0})])
    train = pairs if kind == "frame" else tmp_path / f"train.{kind}"
    if kind == "csv":
        pairs.to_csv(train, index=False)
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        pairs.to_parquet(train, index=False)
    frame = rank_files(tmp_path / "U.npy", tmp_path / "V.npy", tmp_path / "test.csv", train)
    pd.testing.assert_frame_equal(frame, expected)


def spoil(folder, name, content):
    (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "U.npy").unlink(), "U.npy is missing: it must be a .npy file"),
        (lambda f: np.save(f / "U.npy", np.ones(3)), r"with a matrix, got: shape \(3,\)"),
        (
            lambda f: np.save(f / "U.npy", np.array([[None]]), allow_pickle=True),
            "U.npy must be a .npy file with a matrix, got: ",
        ),
        (
            lambda f: spoil(f, "U.npy", (f / "U.npy").read_bytes()[:-9]),
            "U.npy must be a .npy file with a matrix, got: ",
        ),
        (lambda f: np.save(f / "V.npy", np.ones((50, 2))), "must be matrices of one width"),
        (lambda f: (f / "train.npz").unlink(), "train.npz is missing"),
        (
            lambda f: spoil(f, "train.npz", (f / "train.npz").read_bytes()[:200]),
            "train.npz must be a sparse matrix of SciPy",
        ),
        (
            lambda f: sp.save_npz(f / "train.npz", sp.csr_array((9, 49))),
            r"train must have shape \(9, 50\)",
        ),
        (
            lambda f: spoil(f, "train.npz", b"user,item\n0,1\n"),
            "save_npz writes it, or a CSV or Parquet file with columns user and item$",
        ),
        (lambda f: spoil(f, "U.npy", b"user,item\n"), "matrix, got: a file of another format$"),
        (lambda f: spoil(f, "U.npy", b""), "matrix, got: an empty file$"),
        (
            lambda f: spoil(f, "U.npy", (f / "train.npz").read_bytes()),
            "matrix, got: a .npz or another archive$",
        ),
        (lambda f: spoil(f, "test.csv", b""), "test.csv must hold one row or more"),
        (lambda f: spoil(f, "test.csv", b"user,film\n1,2\n"), "one column item, got user, film"),
        (lambda f: spoil(f, "test.csv", b"user,item\n9,2\n"), "user must be < 9, the rows of"),
        (lambda f: spoil(f, "test.csv", b"user,item\n1,50\n"), "item must be < 50, the rows of"),
        (lambda f: spoil(f, "test.csv", b"user,item\n1,x\n"), "item must be a whole number"),
        (lambda f: spoil(f, "test.csv", b"user,item\n1,2\n1,2\n"), "user 1, item 2 twice"),
    ],
)
def test_a_bad_file_is_refused_and_nothing_is_written(tmp_path, factors, change, message):
    change(tmp_path)
    names = ("U.npy", "V.npy", "test.csv", "train.npz")
    with pytest.raises(ValueError, match=message) as refusal:
        rank_files(*(tmp_path / name for name in names), output=tmp_path / "ranks.csv")
    assert "\n" not in str(refusal.value)
    assert "pickle" not in str(refusal.value)
    assert not list(tmp_path.glob("ranks*"))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ranks.txt", "output must end in .csv or .parquet"),
        ("ranks", "output must end in .csv or .parquet, got"),
        ("no/ranks.csv", "cannot be written"),
        ("t.csv", "t.csv is an input, and would be overwritten"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_the_work(
    tmp_path, monkeypatch, output, message
):
    monkeypatch.setattr(ranking_files, "ranked", None)
    with pytest.raises(ValueError, match=message):
        rank_files(tmp_path / "U", tmp_path / "V", tmp_path / "t.csv", output=tmp_path / output)


def test_training_items_may_be_a_matrix_or_lists(tmp_path, factors):
    names = ("U.npy", "V.npy", "test.csv")
    expected = rank_files(*(tmp_path / name for name in names), tmp_path / "train.npz")
    _, seen, _ = factors
    lists = [np.flatnonzero(row).tolist() for row in seen]
    for train in (sp.csr_array(seen), sp.coo_matrix(seen), sp.csc_array(seen), lists):
        frame = rank_files(*(tmp_path / name for name in names), train)
        pd.testing.assert_frame_equal(frame, expected)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("user,film\n0,1\n", "train.csv must have one column item, got user, film"),
        ("user,item\n9,1\n", "user must be < 9, the rows of the user factors, got 9 in .*train"),
        ("user,item\n0,50\n", "item must be < 50, the rows of the item factors, got 50 in .*train"),
        ("user,item\n8,3\n", "held_out must not be a training item of its own user, got item 3"),
        (sp.csr_array((9, 49)), r"train must have shape \(9, 50\)"),
        ([[50]] + [[]] * 8, "train must hold items < n_items = 50, got 50"),
        (np.zeros((9, 50)), "train must be a sparse matrix or a sequence of item lists"),
        (7, "train must be a file or a data frame, got int"),
    ],
)
def test_other_training_items_are_refused(tmp_path, factors, train, message):
    if isinstance(train, str):
        (tmp_path / "train.csv").write_text(train)
        train = tmp_path / "train.csv"
    with pytest.raises(ValueError, match=message) as refusal:
        rank_files(*(tmp_path / name for name in ("U.npy", "V.npy", "test.csv")), train)
    assert "\n" not in str(refusal.value)

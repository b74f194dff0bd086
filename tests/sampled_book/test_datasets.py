"""Reading, fetching and refusing data. Downloads come from a server on this machine."""

import functools
import hashlib
import http.server
import io
import os
import re
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest
import scipy.sparse as sp

from sampled_book.data import datasets, other_kinds
from sampled_metrics.ranking.intervals import RankIntervals
from tests.data import needs_data

pytestmark = pytest.mark.words

LINES = [(1, 10, 5, 100), (1, 20, 3, 300), (1, 30, 4, 300), (2, 10, 1, 50), (2, 30, 2, 60)]


def ratings_file(separator):
    return "".join(separator.join(map(str, line)) + "\n" for line in LINES).encode()


@pytest.fixture
def small_release(monkeypatch):
    """MovieLens 1M shrunk to `LINES`; its archive's bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("ml-1m/ratings.dat", ratings_file("::"))
    pairs = b"1\t10\n1\t20\n1\t30\n2\t10\n2\t30\n"
    release = replace(
        datasets._RELEASES["1m"],
        archive_sha256=hashlib.sha256(packed.getvalue()).hexdigest(),
        n_ratings=5,
        n_users=2,
        n_items=3,
        pairs_sha256=hashlib.sha256(pairs).hexdigest(),
    )
    monkeypatch.setitem(datasets._RELEASES, "1m", release)
    return packed.getvalue()


@pytest.fixture
def local(tmp_path, monkeypatch):
    """An empty folder that SAMPLED_METRICS_DATA names."""
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path / "local"))
    return tmp_path / "local"


@pytest.fixture
def data_folder():
    """The folder with the real files, as it was named when the test began."""
    if not os.environ.get(datasets.FOLDER_VARIABLE):
        pytest.skip(f"reads the files in the folder that {datasets.FOLDER_VARIABLE} names")
    return Path(os.environ[datasets.FOLDER_VARIABLE])


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder behind both download addresses, and an empty cache."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setattr(datasets, "_NCF_URL", address)
        monkeypatch.setattr(datasets, "_MOVIELENS_URL", address)
        monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
        monkeypatch.delenv(datasets.FOLDER_VARIABLE, raising=False)
        yield folder
        server.shutdown()


def cached(served):
    folder = served.parent / "cache" / "sampled-metrics"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# --- MovieLens' own formats


@pytest.mark.parametrize(("release", "separator"), [("100k", "\t"), ("1m", "::"), ("10m", "::")])
def test_a_path_is_read_in_the_format_of_its_release(tmp_path, release, separator):
    path = tmp_path / "part"
    path.write_bytes(ratings_file(separator))
    ratings = datasets.movielens(release, path)
    assert ratings.columns.tolist() == ["user", "item", "rating", "timestamp"]
    assert [tuple(row) for row in ratings.to_numpy()] == LINES
    assert ratings["rating"].dtype == float


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1::2::3::4", "the last line is cut off"),
        (b"1::2::3::4::5\n", "a line does not have these four fields"),
        (b"1::2::x::4\n", "must hold lines user::item::rating::timestamp"),
        (b"1::2::6::4\n", r"a rating is not in \[0.5, 5\]"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, content, message):
    (tmp_path / "ratings.dat").write_bytes(content)
    with pytest.raises(ValueError, match=message) as refusal:
        datasets.movielens("1m", tmp_path / "ratings.dat")
    assert "ratings.dat must hold lines" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_local_folder_is_read_and_any_order_of_lines_is_accepted(local, small_release):
    (local / "ml-1m").mkdir(parents=True)
    path = local / "ml-1m" / "ratings.dat"
    path.write_bytes(ratings_file("::"))
    assert len(datasets.movielens("1m")) == 5
    path.write_bytes(b"".join(reversed(ratings_file("::").splitlines(keepends=True))))
    assert datasets.movielens("1m")["user"].tolist() == [2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("call", "path", "content", "said"),
    [
        (lambda: datasets.movielens("1m"), "ml-1m/ratings.dat",
         ratings_file("::").rpartition(b"2::30")[0],
         "must hold 5 ratings of 3 movies by 2 users, got 4"),
        (lambda: datasets.movielens("1m"), "ml-1m/ratings.dat",
         ratings_file("::").replace(b"2::10::", b"2::20::"),
         "pairs of .* with sha256 .*, got .* altered"),
        (lambda: datasets.movielens("100k"), "ml-100k/u.data", ratings_file("\t"),
         "u.data must hold 100,000 ratings .* with sha256 0641"),
    ],
)  # fmt: skip
def test_a_truncated_or_altered_file_is_refused(local, small_release, call, path, content, said):
    (local / path).parent.mkdir(parents=True)
    (local / path).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        call()


# --- downloads


def test_a_release_is_downloaded_checked_and_then_kept(served, small_release):
    (served / "ml-1m.zip").write_bytes(small_release)
    assert len(datasets.movielens("1m")) == 5
    (served / "ml-1m.zip").unlink()
    assert len(datasets.movielens("1m")) == 5
    assert cached(served) == ["ml-1m.zip"]
    (served / "ml-1m.zip").write_bytes(small_release)
    (served.parent / "cache/sampled-metrics/ml-1m.zip").write_bytes(b"half")  # is fetched again
    assert len(datasets.movielens("1m")) == 5


def test_an_altered_archive_is_refused_and_not_kept(served, small_release):
    (served / "ml-1m.zip").write_bytes(small_release[:-1] + b"x")
    expected = hashlib.sha256(small_release).hexdigest()
    with pytest.raises(ValueError, match=rf"ml-1m.zip.*expected sha256:{expected}"):
        datasets.movielens("1m")
    assert cached(served) == []


def test_a_download_that_fails_names_the_address_and_the_way_out(served):
    for call, name in [
        (datasets.ncf_split, "ml-1m.train.rating"),
        (lambda: datasets.movielens("100k"), "ml-100k.zip"),
    ]:
        with pytest.raises(ConnectionError, match=rf"{name} could not be downloaded .*folder"):
            call()
    assert cached(served) == []


def test_a_git_blob_id_is_what_git_says():
    # git's own examples: the empty file, and "test content\n" (Pro Git, section 10.2).
    assert datasets._blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert datasets._blob_id(b"test content\n") == "d670460b4b4aece5915caf5c68d12f560a9fe3e4"


# --- the split


@needs_data
def test_the_split_is_what_its_source_says():
    split = datasets.ncf_split()
    assert (split.n_users, split.n_items, split.train.nnz) == (6040, 3706, 994_169)
    assert split.negatives.shape == (6040, 99)
    assert set(np.unique(split.train.data)) == {1.0}
    users = np.arange(split.n_users)
    assert split.train[users, split.held_out].sum() == 0
    assert split.train[np.repeat(users, 99), split.negatives.ravel()].sum() == 0
    assert (split.n_items - np.diff(split.train.indptr)).mean() == pytest.approx(3541.4, abs=0.05)


@needs_data
@pytest.mark.parametrize("name", list(datasets._NCF_FILES))
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_a_damaged_split_is_refused(data_folder, local, name, damage):
    (local / "ncf-ml-1m").mkdir(parents=True)
    for file_name in datasets._NCF_FILES:
        content = (data_folder / "ncf-ml-1m" / file_name).read_bytes()
        if file_name == name and damage == "missing":
            continue
        if file_name == name and damage == "truncated":
            content = content[: len(content) // 2]
        if file_name == name and damage == "altered":
            content = content.replace(b"\n5\t", b"\n6\t", 1).replace(b"(5,", b"(6,", 1)
        (local / "ncf-ml-1m" / file_name).write_bytes(content)
    message = r"must (have git blob id|hold .*(pairs|held-out item|negatives))"
    with pytest.raises((ValueError, FileNotFoundError), match=f"{name}.*{message}") as refusal:
        datasets.ncf_split()
    assert "\n" not in str(refusal.value)


@needs_data
def test_the_split_numbers_movies_as_movielens_first_mentions_them(data_folder):
    part = datasets.movielens("1m", data_folder / "ml-1m-first-2999-users" / "ratings.dat")
    assert len(part) == 487_650
    first = part["item"].drop_duplicates().to_numpy()
    movies = datasets.ncf_movie_ids()
    assert (first == movies[: len(first)]).all()
    # The two are one data set: user u of the split is MovieLens' user u + 1.
    split = datasets.ncf_split()
    pairs = sp.csr_array(
        (np.ones(len(part)), (part["user"] - 1, pd.Index(movies).get_indexer(part["item"]))),
        shape=(2999, 3706),
    )
    held_out = sp.csr_array(
        (np.ones(2999), (np.arange(2999), split.held_out[:2999])), shape=(2999, 3706)
    )
    assert (pairs != split.train[:2999] + held_out).nnz == 0
    # Every held-out movie is one of the last, even where there are several.
    last = datasets._last_items(part).groupby("user")["item"].agg(set)
    assert all(movies[split.held_out[user - 1]] in items for user, items in last.items())


# --- facts and bundle


@needs_data
def test_the_bundled_counts_are_those_of_the_data():
    assert datasets.count_facts(datasets.ncf_split()) == datasets.bundled_counts()


def test_a_second_earlier_is_not_the_last_timestamp():
    ratings = pd.DataFrame({"user": [1, 1, 2, 2], "item": [5, 6, 5, 6], "timestamp": [8, 9, 9, 9]})
    assert datasets.several_at_last_timestamp(ratings).tolist() == [False, True]


def test_facts_are_counted_by_hand(monkeypatch):
    """User 1 ends on movies 20 and 30 together, and 30 is held out; user 2 ends on 30 alone."""
    monkeypatch.setattr(datasets, "TIMED_USERS", 2)
    ratings = pd.DataFrame(LINES, columns=["user", "item", "rating", "timestamp"])
    train = sp.csr_array([[1, 1, 0], [1, 0, 0]])
    split = datasets.Split(train, np.array([2, 1]), np.array([[1, 2], [2, 0]]))
    monkeypatch.setattr(datasets, "ncf_movie_ids", lambda: np.array([10, 20, 30]))
    assert datasets.count_facts(split, ratings) == {
        "held_out_among_own_negatives": (1, 2),
        "several_at_last_timestamp": (1, 2),
        "held_out_is_first_in_file_of_several": (0, 1),
        "held_out_is_last_in_file_of_several": (1, 1),
        "held_out_is_lowest_id_of_several": (0, 1),
        "held_out_is_highest_id_of_several": (1, 1),
    }


def test_the_bundle_reads_back_as_written_and_its_bytes_do_not_vary(tmp_path, monkeypatch):
    ranks = {
        ("Y", "as reproduced"): RankIntervals([0, 7], [1, 0], [5, 3706]),
        ("Y", "other"): RankIntervals([2, 2], [0, 0], [9, 9]),
    }
    written = datasets.write_bundle(ranks, {"fact": (1, 2)}, seed=4, folder=tmp_path / "a")
    rewritten = datasets.write_bundle(ranks, {"fact": (1, 2)}, seed=4, folder=tmp_path / "b")
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in rewritten]
    assert sorted(os.listdir(tmp_path / "a")) == ["counts.json", "ranks.npz"]
    monkeypatch.setattr(datasets, "BUNDLE", tmp_path / "a")
    assert datasets.bundled_counts() == {"fact": (1, 2)}
    (name,), (intervals,) = datasets.bundled_ranks().keys(), datasets.bundled_ranks().values()
    assert name == "Y"
    assert intervals.n_better.tolist() == [0, 7]
    assert intervals.n_tied.tolist() == [1, 0]
    assert intervals.n_candidates.tolist() == [5, 3706]
    assert list(datasets.bundled_variants()) == list(ranks)
    assert datasets.bundled_variants()["Y", "other"].n_better.tolist() == [2, 2]


def test_the_bundle_is_small_and_whole():
    # The modules that make the bundle stand in the same folder.
    files = [path for path in datasets.BUNDLE.iterdir() if path.is_file() and path.suffix != ".py"]
    assert sum(path.stat().st_size for path in files) < 850_000  # ranks, and logs drawn from them
    ranks = datasets.bundled_ranks()
    assert list(ranks) == ["X", "Y", "Z"]
    # One user's candidates are the same whoever ranks them; krichene2020 has about 3,541.
    n = ranks["X"].n_candidates
    assert n.shape == (6040,)
    assert all((intervals.n_candidates == n).all() for intervals in ranks.values())
    assert n.mean() == pytest.approx(3541.4, abs=0.05)


# --- ranks of one's own

HEADER = "recommender,user,n_better,n_tied,n_candidates\n"
GOOD = "A,u,0,2,9\nA,v,4,0,5\nB,v,1,0,5\nB,u,3,0,9\n"


@pytest.fixture
def table_of(tmp_path):
    def write(text):
        path = tmp_path / "ranks.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_table_of_ranks_is_read_with_users_in_one_order(table_of):
    for text in (HEADER + GOOD, "extra," + HEADER + "1," + GOOD.replace("\n", "\n1,")[:-2]):
        ranks = datasets.read_ranks(table_of(text))
        assert list(ranks) == ["A", "B"]
        assert ranks["A"].n_better.tolist() == [0, 4]
        assert ranks["A"].n_tied.tolist() == [2, 0]
        assert ranks["B"].n_better.tolist() == [3, 1]
        assert all(intervals.n_candidates.tolist() == [9, 5] for intervals in ranks.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must hold a table of ranks, got: No columns"),
        ("recommender,user,n_better,n_candidates\nA,1,1,3\n", "must have a column n_tied"),
        (HEADER + GOOD.replace("u,3,", "u,x,"), "n_better must be whole numbers, got"),
        (HEADER + GOOD.replace("u,3,", "u,9,"), "n_candidates must be >= n_better + n_tied + 1"),
        (HEADER + GOOD[:20], "must hold at least two recommenders, got 1"),
        (HEADER + GOOD + GOOD[-10:], "one row for each of its recommenders and users"),
        (HEADER + GOOD.replace("3,0,9", "3,0,8"), "same n_candidates for every recommender"),
    ],
)
def test_a_bad_table_of_ranks_is_refused(table_of, text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        datasets.read_ranks(table_of(text))


def test_no_file_of_movielens_is_in_the_package():
    paths = Path(datasets.__file__).parent.rglob("*")
    names = [path.name for path in paths if path != other_kinds.RATINGS]  # a folder of ranks
    theirs = [name for name in names if not name.endswith((".npz", ".json", ".csv.gz"))]
    assert not any(name.startswith(("ml-", "u.", "ratings")) for name in theirs)

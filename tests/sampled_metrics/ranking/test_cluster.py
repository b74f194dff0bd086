"""Ranks by shards and on a cluster, against one process and one count; and what may go wrong."""

import time
from concurrent.futures import CancelledError
from functools import partial, partialmethod
from pathlib import Path

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, Future, LocalCluster
from distributed.comm import CommClosedError

import sampled_metrics as sm
from sampled_metrics.cli import main
from sampled_metrics.ranking import blocks as _blocks
from sampled_metrics.ranking.blocks import Layout
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.ranking.job import Input, Job

N_USERS, N_ITEMS, WIDTH = 40, 230, 4


@pytest.fixture
def small_tasks(monkeypatch):
    """Ten blocks or so and four shards of what one task would do."""
    monkeypatch.setattr(_blocks, "_SHARD_BYTES", 60 * 5 * 8)
    monkeypatch.setattr(_blocks, "_BLOCK_ROWS", (8, 8))


@pytest.fixture
def small_calls(monkeypatch):
    """The same for functions, which are taken to cost as much as 64 factors."""
    monkeypatch.setattr(_blocks, "_SHARD_BYTES", 60 * 64 * 8)
    monkeypatch.setattr(_blocks, "_BLOCK_ROWS", (3, 3))


@pytest.fixture
def files(tmp_path):
    """Files of factors with ties, of training items, and of one to three test items a user."""
    rng = np.random.default_rng(3)
    users, items = rng.normal(size=(N_USERS, WIDTH)), rng.normal(size=(N_ITEMS, WIDTH))
    items[100:200] = items[:100]
    seen = rng.random((N_USERS, N_ITEMS)) < 0.2
    pairs = [(u, i) for u in range(N_USERS) for i in rng.choice(N_ITEMS, 1 + u % 3, replace=False)]
    test = pd.DataFrame(pairs, columns=["user", "item"]).sample(frac=1, random_state=2)
    seen[test["user"], test["item"]] = False
    np.save(tmp_path / "U.npy", users)
    np.save(tmp_path / "V.npy", items)
    sp.save_npz(tmp_path / "train.npz", sp.csr_array(seen))
    test.to_csv(tmp_path / "test.csv", index=False)
    return [str(tmp_path / name) for name in ("U.npy", "V.npy", "test.csv", "train.npz")]


@pytest.fixture(scope="module")
def client():
    """A scheduler and two workers within this process."""
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    )
    with cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


def scores_of(kind, users, items):
    """All scores as their definitions have them, users by items."""
    if kind == "euclidean":
        return -np.square(users[:, None] - items).sum(axis=2)
    scores = (users[:, None] * items).sum(axis=2)
    if kind == "cosine":
        scores /= np.linalg.norm(users, axis=1)[:, None] * np.linalg.norm(items, axis=1)
    return scores


@pytest.mark.parametrize("kind", ["dot", "cosine", "euclidean"])
def test_each_score_ranks_as_its_definition(small_tasks, files, kind):
    users, items = np.load(files[0]), np.load(files[1])
    test = pd.read_csv(files[2])
    frame = sm.rank(users, items, test, files[3], score=kind).frame
    seen = sp.load_npz(files[3])[test["user"]]
    scores = scores_of(kind, users, items)[test["user"]]
    expected = exact_ranks(scores, test["item"], seen, relative_tolerance=1e-9)
    assert frame["n_better"].tolist() == expected.n_better.tolist()
    assert frame["n_tied"].tolist() == expected.n_tied.tolist()
    assert frame["n_candidates"].tolist() == expected.n_candidates.tolist()
    assert (frame["n_tied"] > 0).sum() > 20


def test_a_function_and_a_stored_matrix_rank_as_factors_do(small_calls, files, tmp_path):
    users, items = np.load(files[0]), np.load(files[1])
    expected = sm.rank(*files).frame
    calls = []

    def score(some_users, some_items):
        calls.append((len(some_users), len(some_items)))
        return np.einsum("ud,id->ui", users[some_users], items[some_items]).round(12)

    frame = sm.rank(N_USERS, N_ITEMS, *files[2:], score=score).frame
    pd.testing.assert_frame_equal(frame, expected)
    assert max(n_items for _, n_items in calls) <= 60  # a shard
    np.save(tmp_path / "S.npy", (users[:, None] * items).sum(axis=2).round(12))
    frame = sm.rank(tmp_path / "S.npy", None, *files[2:]).frame
    pd.testing.assert_frame_equal(frame, expected)


def test_factors_in_parquet_and_zarr_rank_as_those_of_numpy(files, tmp_path):
    pytest.importorskip("pyarrow")
    items = np.load(files[1])
    pd.DataFrame(items, columns=list("abcd")).to_parquet(tmp_path / "V.parquet")
    expected = sm.rank(*files).frame
    frame = sm.rank(files[0], tmp_path / "V.parquet", *files[2:]).frame
    pd.testing.assert_frame_equal(frame, expected)
    # Zarr is not in the tests' environment: its plugin of pytest imports NumPy before conftest.py.
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(tmp_path / "V.zarr"), data=items, chunks=(50, 4))
    frame = sm.rank(files[0], tmp_path / "V.zarr", *files[2:]).frame
    pd.testing.assert_frame_equal(frame, expected)


def test_blocks_hold_whole_users_and_shards_all_items():
    rng = np.random.default_rng(2)
    users = np.sort(rng.integers(0, 10**6, 20_000))
    for n_items, width in [(100, 8), (10**6, 64), (10**8, 512)]:
        layout = Layout.of(users, n_items, width)
        ends = [0, *(block.stop for block in layout.blocks)]
        assert [block.start for block in layout.blocks] == ends[:-1]
        assert ends[-1] == users.size
        assert all(users[b.start - 1] < users[b.start] for b in layout.blocks[1:])
        assert [shard.stop for shard in layout.shards[:-1]] == [
            shard.start for shard in layout.shards[1:]
        ]
        assert (layout.shards[0].start, layout.shards[-1].stop) == (0, n_items)
        size = max(shard.stop - shard.start for shard in layout.shards)
        assert size * width * 8 <= _blocks._SHARD_BYTES + width * 8
    assert len(Layout.of(np.zeros(900, int), 100, 8).blocks) == 1  # one user cannot be split


@pytest.mark.parametrize("output", ["ranks.csv", "ranks.parquet"])
def test_a_cluster_counts_what_one_process_counts(small_tasks, files, tmp_path, client, output):
    expected = sm.rank(*files).frame
    ranked = sm.rank(*files, output=tmp_path / output, cluster=client)
    pd.testing.assert_frame_equal(ranked.frame, expected)
    read = pd.read_csv if output.endswith("csv") else pd.read_parquet
    pd.testing.assert_frame_equal(read(tmp_path / output), expected)


def noted(log, rows):
    """Rows of an array of Dask, of whose chunks the log has a line each."""
    with Path(log).open("a") as file:
        file.write(f"{len(rows)}\n")
    return rows


def watched(compute, lengths, *args, **kwargs):
    lengths += [len(array) for array in args if isinstance(array, dask.array.Array)]
    return compute(*args, **kwargs)


@pytest.mark.some(2)
@pytest.mark.processes
@pytest.mark.parametrize(
    "where", ["here", "cluster", pytest.param("local:1", marks=pytest.mark.matrix), "persisted"]
)
def test_arrays_of_dask_are_computed_by_rows(
    monkeypatch, small_tasks, files, tmp_path, client, where
):
    expected = sm.rank(*files).frame
    log = tmp_path / "log"
    users, items = (
        dask.array.from_array(np.load(path), chunks=(11, 2)).map_blocks(
            partial(noted, log), dtype=float, meta=np.zeros((0, 0))
        )
        for path in files[:2]
    )
    if where == "persisted":
        users, items = client.persist([users, items])
    lengths = []  # of arrays that are computed at a time
    for owner, use in [(dask.array.Array, "compute"), (Client, "compute")]:
        counted = partialmethod(partial(watched, getattr(owner, use), lengths))
        monkeypatch.setattr(owner, use, counted)
    monkeypatch.delattr(dask.array.Array, "__array__")  # by which NumPy computes the whole
    cluster = {"here": None, "local:1": where}.get(where, client)
    ranked = sm.rank(users, items, *files[2:], cluster=cluster, output=tmp_path / "ranks.csv")
    pd.testing.assert_frame_equal(ranked.frame, expected)
    assert max(map(int, log.read_text().split())) == 11
    assert N_ITEMS / 5 < max(lengths) < N_ITEMS / 3  # a shard


def test_what_is_wrong_with_an_array_of_dask_is_said(small_tasks, files, client):
    values = np.load(files[1])
    items = dask.array.from_array(values, chunks=(50, 4))
    values[33, 1] = np.nan
    bad = dask.array.from_array(values, chunks=(50, 4))
    for cluster in (None, client):
        with pytest.raises(ValueError, match="items must hold no NaN, got one in row 33, in the"):
            sm.rank(files[0], bad, *files[2:], cluster=cluster)
    with pytest.raises(ValueError, match="users must have rows of known number, got chunks of"):
        sm.rank(items[items[:, 0] > 0], items, *files[2:])


def drawn(users, items):
    return np.random.default_rng().random((len(users), len(items)))


def in_turn(calls, users, items):
    """A function whose scores depend on how often it was called."""
    calls.append(1)
    return np.add.outer(users * 1.0, items * 1e-3) + len(calls) // 4


@pytest.mark.parametrize("score", [drawn, partial(in_turn, [])])
def test_a_function_with_other_scores_at_another_call_is_refused(small_calls, files, client, score):
    for cluster in (None, client):
        with pytest.raises(ValueError, match="score must give the same scores at each") as refusal:
            sm.rank(N_USERS, N_ITEMS, *files[2:], score=score, cluster=cluster)
        assert "\n" not in str(refusal.value)


def test_a_function_with_other_digits_for_other_shapes_is_not_refused(small_calls, files):
    """Sums in an order of their own for each shape; two calls alike are equal, bit for bit."""
    users, items = np.load(files[0]), np.load(files[1])

    def score(some_users, some_items):
        noise = 1e-13 * (len(some_users) % 7 + len(some_items) % 5)
        return (users[some_users] @ items[some_items].T * (1 + noise)).round(9)

    frame = sm.rank(N_USERS, N_ITEMS, *files[2:], score=score).frame
    pd.testing.assert_frame_equal(frame, sm.rank(*files).frame)


def slowly(seconds, users, items):
    time.sleep(seconds * (len(items) > 16))
    return np.sin(np.add.outer(users * 7.0, items * 3.0))


@pytest.mark.some(2)
@pytest.mark.parametrize("ended", [CommClosedError("closed"), CancelledError("gone")])
@pytest.mark.parametrize("use", [(Future, "result"), (Client, "submit")])
def test_a_connection_that_ends_at_any_use_is_said(
    monkeypatch, small_calls, files, client, use, ended
):
    calls, original = [], getattr(*use)

    def once_lost(*args, **kwargs):
        calls.append(args)
        if len(calls) > 9:
            raise ended
        return original(*args, **kwargs)

    monkeypatch.setattr(*use, once_lost)
    with pytest.raises(ConnectionError, match=r"the scheduler at inproc://\S+ is gone"):
        sm.rank(N_USERS, N_ITEMS, *files[2:], score=partial(slowly, 0), cluster=client)


def options(files):
    names = ("--user-factors", "--item-factors", "--test", "--train")
    return [word for pair in zip(names, files, strict=True) for word in pair]


@pytest.mark.parametrize("name", ["U.npy", "V.npy"])
def test_nan_is_named_by_shard_and_row(small_tasks, files, tmp_path, client, name):
    values = np.load(tmp_path / name)
    values[33, 1] = np.nan
    np.save(tmp_path / name, values)
    row = r"items must hold no NaN, got one in row 33 of .*V\.npy, in the shard of rows 0 to 57"
    message = row if name == "V.npy" else r"users must hold no NaN, got one in row 33 of .*U\.npy"
    for cluster in (None, client):
        with pytest.raises(ValueError, match=message) as refusal:
            sm.rank(*files, cluster=cluster)
        assert "\n" not in str(refusal.value)


@pytest.mark.matrix
@pytest.mark.processes
def test_the_command_counts_on_workers_of_its_own(files, tmp_path, capsys):
    words = ["rank", *options(files), "--quiet", "--score", "cosine", "-o"]
    assert main([*words, str(tmp_path / "one.csv")]) == 0
    assert main([*words, str(tmp_path / "two.csv"), "--cluster", "local:2"]) == 0
    single, clustered = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("one", "two"))
    pd.testing.assert_frame_equal(single, clustered)
    assert f"{len(single)} ranks in " in capsys.readouterr().out
    assert main([*words, str(tmp_path / "no.csv"), "--cluster", "127.0.0.1:9"]) == 2
    message = capsys.readouterr().err
    assert (
        "cluster must be the address of a scheduler that answers, or local:N, got '127" in message
    )
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cluster": "local:0"}, "cluster must have one worker or more, got 'local:0'"),
        ({"items": None}, r"shape|held_out|item must be < 4, the rows of the item factors"),
        ({"items": None, "score": "cosine"}, "items must be given with a score"),
        ({"users": np.array([["a"]])}, "users must be real numbers, got dtype <U1"),
        ({"score": lambda u, i: np.ones((1, 1))}, r"scores must have shape \(40, 1\)|\(1, 1\)"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(files, change, message):
    arguments = {
        "users": files[0],
        "items": files[1],
        "test": files[2],
        "train": files[3],
        **change,
    }
    with pytest.raises(ValueError, match=message) as refusal:
        sm.rank(**arguments)
    assert "\n" not in str(refusal.value)


def test_arrays_in_memory_go_to_workers_of_this_machine_alone(files, client):
    users, items = np.load(files[0]), np.load(files[1])
    with pytest.raises(ValueError, match="users must be a file that every worker can read, got an"):
        sm.rank(users, items, *files[2:], cluster=client)


def test_a_source_says_where_a_file_is_missing():
    with pytest.raises(ValueError, match=r"no\.npy is missing: it must be a \.npy file"):
        Input.of("no.npy", "users")
    assert Job(Input("u", values=np.ones((3, 2))), None).shape == (3, 2)

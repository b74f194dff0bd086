"""A folder of data sets with an index: what is read, what is refused, and runs that resume."""

import gzip

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark, sources
from sampled_book.data.benchmark import RECOMMENDERS
from sampled_book.data.sequences import Sequences, read_sequences
from sampled_metrics.ranking.exact import exact_ranks

NAMES = ("Popular", "RP3beta", "Markov chain")


def users_of(seed, n_users=20, n_items=12):
    """Users' items from 1, every item somewhere."""
    rng = np.random.default_rng(seed)
    users = [(1 + rng.permutation(n_items)[: rng.integers(5, 9)]).tolist() for _ in range(n_users)]
    return [*users, list(range(1, n_items + 1))]


def text_of(users):
    return "".join(f"{u} {' '.join(map(str, items))}\n" for u, items in enumerate(users, 1))


def line_of(name, users, **changes):
    line = {
        "name": name,
        "group": name,
        "platform": name,
        "users": len(users),
        "items": len({item for items in users for item in items}),
        "interactions": sum(map(len, users)),
        "in_order": "yes",
        "repository": f"someone/{name}",
        "path": "data.txt",
    }
    return line | changes


@pytest.fixture
def folder(tmp_path):
    """A folder with two data sets, `shop` in order of time and `films` without."""
    path = tmp_path / "given"
    path.mkdir()
    lines = []
    for seed, (name, in_order) in enumerate({"shop": "yes", "films": "no"}.items()):
        users = users_of(seed, 20 + 10 * seed)
        (path / f"{name}.txt.gz").write_bytes(gzip.compress(text_of(users).encode()))
        lines.append(line_of(name, users, in_order=in_order))
    index(path, lines)
    return path


@pytest.fixture
def few(monkeypatch):
    """Recommenders that need no library of their own."""
    monkeypatch.setattr(benchmark, "RECOMMENDERS", {name: RECOMMENDERS[name] for name in NAMES})
    monkeypatch.setattr(benchmark, "version", lambda _: "0")


def index(path, lines):
    pd.DataFrame(lines).to_csv(path / "index.csv", index=False)


def lines_of(path):
    return pd.read_csv(path / "index.csv").to_dict("records")


def command(folder, *more):
    arguments = ["--data", str(folder), "--output", str(folder.parent / "out"), *more]
    return benchmark.main(arguments)


def bytes_in(path):
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


# --- what is read ---------------------------------------------------------------------------------


def test_without_an_order_in_time_a_users_items_are_shuffled(folder):
    found, problems = sources.read_index(folder)
    assert problems == []
    shop, films = found["shop"].read(), found["films"].read()
    expected = [item - 1 for items in users_of(0, 20) for item in items]
    assert shop.in_order
    assert shop.items.tolist() == expected
    plain = Sequences.from_users(users_of(1, 30))
    rows, shuffled_rows = (np.split(d.items, d.starts[1:-1]) for d in (plain, films))
    assert not films.in_order
    assert [sorted(row) for row in rows] == [sorted(row) for row in shuffled_rows]
    differ = [a.tolist() != b.tolist() for a, b in zip(rows, shuffled_rows, strict=True)]
    assert sum(differ) > 25
    assert found["films"].read().items.tolist() == films.items.tolist()


def test_some_users_are_ranked_and_all_are_learnt_from(folder, few, monkeypatch):
    monkeypatch.setattr(sources, "MOST_USERS", 7)
    assert command(folder) == 0
    out = folder.parent / "out"
    ranks, facts = benchmark.ranks("films", out), benchmark.facts("films", out)
    assert list(ranks) == ["Popular", "RP3beta"]  # no order, so no Markov chain
    assert list(benchmark.ranks("shop", out)) == list(NAMES)
    assert (facts["users"], facts["ranked users"], facts["in order"]) == (31, 7, False)
    learnt, held_out = sources.read_index(folder)[0]["films"].read().without_last(1)
    users = np.random.default_rng(benchmark.SEED).permutation(31)[:7]
    counts = np.bincount(learnt.items, minlength=12).astype(float)
    expected = exact_ranks(
        lambda b: np.tile(counts, (7, 1))[b], held_out[users], learnt.matrix[users]
    )
    for name in ("n_better", "n_tied", "n_candidates"):
        assert getattr(ranks["Popular"], name).tolist() == getattr(expected, name).tolist()


def test_an_interrupted_run_resumes_and_gives_the_same_bytes(folder, few, monkeypatch, capsys):
    assert command(folder) == 0
    whole = bytes_in(folder.parent / "out")
    for file in (folder.parent / "out").iterdir():
        file.unlink()
    learn, calls = benchmark.compute, []

    def interrupted(entry, data, *settings):
        calls.append(entry)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(entry, data, *settings)

    monkeypatch.setattr(benchmark, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        command(folder)
    assert set(bytes_in(folder.parent / "out")) < set(whole)
    capsys.readouterr()
    assert command(folder) == 0
    assert bytes_in(folder.parent / "out") == whole
    assert len(capsys.readouterr().out.splitlines()) == 5 - 2  # two were there
    assert len(calls) == 3 + 3


def test_untuned_recommenders_have_the_first_setting_and_the_same_users(folder, few, capsys):
    assert command(folder) == 0
    tuned, out = folder.parent / "out", folder.parent / "untuned"
    arguments = ["--data", str(folder), "--untuned", "--output", str(out)]
    assert benchmark.main(arguments) == 0
    whole = bytes_in(out)
    for name in ("shop", "films"):
        facts = benchmark.facts(name, out)
        assert facts["untuned"]
        assert facts["command"].endswith(f"--data {name} --untuned")
        assert "tuned on users" not in facts
        settings = {key: part["settings"] for key, part in facts["recommenders"].items()}
        assert settings["RP3beta"] == {"alpha": 0.6, "beta": 0.2}
        assert all(not part["validation ndcg@10"] for part in facts["recommenders"].values())
        ranks = [benchmark.ranks(name, path)["Popular"] for path in (tuned, out)]
        assert ranks[0].n_better.tolist() == ranks[1].n_better.tolist()
    source = sources.read_index(folder)[0]["films"].read()
    fresh, *_ = benchmark.compute(RECOMMENDERS["RP3beta"], source, {"alpha": 0.6, "beta": 0.2})
    assert benchmark.ranks("films", out)["RP3beta"].n_better.tolist() == fresh.n_better.tolist()
    capsys.readouterr()
    assert benchmark.main(arguments) == 0  # all is there
    assert capsys.readouterr().out == ""
    assert bytes_in(out) == whole


def test_a_walk_without_a_matrix_of_items_by_items_is_the_same_walk(monkeypatch):
    data = Sequences.from_users(users_of(4))
    users = np.arange(data.n_users)
    dense = RECOMMENDERS["RP3beta"].learn(data, alpha=0.6, beta=0.5)(users)
    monkeypatch.setattr("sampled_book.data.benchmark_recommenders.DENSE_BYTES", 8)
    by_step = RECOMMENDERS["RP3beta"].learn(data, alpha=0.6, beta=0.5)(users)
    assert np.allclose(dense, by_step, rtol=1e-13, atol=0)


def test_files_with_and_without_compression_are_read_from_a_folder(tmp_path, few):
    text = text_of(users_of(5))
    (tmp_path / "words.txt.gz").write_bytes(gzip.compress(b"ann tea milk 7\n"))
    assert read_sequences(tmp_path / "words.txt.gz").n_items == 3  # words stay words
    (tmp_path / "words.txt.gz").unlink()
    (tmp_path / "Plain.txt").write_text(text)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "packed_sample.txt.gz").write_bytes(b"")
    assert benchmark.main(["--data", str(tmp_path), "--output", str(tmp_path / "out")]) == 0
    plain, packed = (benchmark.ranks(name, tmp_path / "out") for name in ("plain", "packed"))
    assert plain["RP3beta"].n_better.tolist() == packed["RP3beta"].n_better.tolist()


# --- what is wrong with a folder ------------------------------------------------------------------


def cut(content):
    return content[:-20]


def repacked(change):
    def changed(content):
        lines = gzip.decompress(content).decode().splitlines()
        return gzip.compress("\n".join(change(lines)).encode())

    return changed


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, "films.txt.gz is missing"),
        (cut, "films.txt.gz must be a gzip file, got one that is cut off or altered"),
        (repacked(lambda lines: lines[:-1]), "must hold 31 users, 12 items, "),
        (repacked(lambda lines: [*lines, lines[0]]), "one line for each user, got two of user 1"),
        (repacked(lambda lines: [*lines[:3], "4 0 1 2", *lines[4:]]), "got '4 0 1 2' in line 4"),
        ({"in_order": "maybe"}, "films in"),
        ({"repository": "someone/shop"}, "films is the source of shop under another name"),
        ("no line", "films.txt.gz has no line in"),
    ],
)
def test_what_cannot_be_used_is_said_and_the_rest_is_ranked(folder, few, capsys, change, expected):
    path, (shop, films) = folder / "films.txt.gz", lines_of(folder)
    if change is None:
        path.unlink()
    elif callable(change):
        path.write_bytes(change(path.read_bytes()))
    elif change == "no line":
        index(folder, [shop])
    else:
        index(folder, [shop, films | change])
    assert command(folder) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert expected in said
    assert list(benchmark.ranks("shop", folder.parent / "out")) == list(NAMES)
    assert not (folder.parent / "out" / "films.npz").exists()


def test_users_with_one_item_are_left_out_and_said(folder, few, capsys):
    users = [*users_of(1, 30), [3], [5]]
    (folder / "films.txt.gz").write_bytes(gzip.compress(text_of(users).encode()))
    shop, _ = lines_of(folder)
    index(folder, [shop, line_of("films", users)])
    assert command(folder) == 0
    assert "films: 2 users with fewer than three items left out" in capsys.readouterr().out
    assert benchmark.facts("films", folder.parent / "out")["users"] == 31


# --- what is bundled ------------------------------------------------------------------------------

TABLE = sources.table().set_index("name")
ADDED = [name for name in TABLE.index if name not in benchmark.DATA]


def test_every_bundled_data_set_has_a_source_and_a_licence():
    assert set(TABLE.index) == {path.stem for path in benchmark.BUNDLE.glob("*.npz")}
    assert TABLE.index.is_unique
    for column in ("domain", "group", "platform", "path", "licence"):
        assert TABLE[column].ne("").all(), column
    assert TABLE.loc[TABLE["repository"].eq("")].index.tolist() == ["ml-100k"]
    assert not TABLE.duplicated(["repository", "path"]).any()
    for name, line in TABLE.iterrows():
        facts = benchmark.facts(name)
        for key in ("users", "items", "interactions"):
            assert facts[key] == line[key]
        assert facts["in order"] == (line["in_order"] == "yes")


@pytest.mark.parametrize("name", ADDED)
def test_bundled_ranks_of_a_source_are_whole(name):
    ranks, facts = benchmark.ranks(name), benchmark.facts(name)
    data = Sequences(
        np.arange(0), np.arange(1), facts["items"], facts["in order"], n_ranked=sources.MOST_USERS
    )
    assert list(ranks) == [label for label, entry in RECOMMENDERS.items() if entry.takes(data)]
    assert list(ranks) == list(facts["recommenders"])
    assert facts["ranked users"] == min(5_000, facts["users"])
    candidates = ranks["Popular"].n_candidates
    assert candidates.size == facts["ranked users"]
    assert candidates.max() <= facts["items"] - 2
    for label, intervals in ranks.items():
        assert intervals.n_candidates.tolist() == candidates.tolist()
        assert set(facts["recommenders"][label]) == {"settings", "validation ndcg@10", "grid"}
    random = ranks["Random"]  # whose ranks are uniform
    mean = ((random.n_better + 0.5) / candidates).mean()
    assert abs(mean - 0.5) < 5 / np.sqrt(12 * candidates.size)

"""What the kept ranks were made from is noted when they are compared, and any change is noticed."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = spec_from_file_location("ranks", ROOT / ".ci" / "ranks.py")
ranks = module_from_spec(_SPEC)
_SPEC.loader.exec_module(ranks)

#: A laboratory of one module, which reads ratings and compares their sum with what is kept.
TOY = '''"""Ranks of a toy."""
import os
from pathlib import Path


def main(arguments):
    """Compare."""
    assert arguments == ["--check"]
    from sampled_book import addition  # only where it is needed

    data = Path(os.environ["SAMPLED_METRICS_DATA"], "toy", "ratings.csv")
    kept = Path(__file__).with_name("kept.txt")
    return int(addition.total(data.read_text()) != int(kept.read_text()))
'''
ADDITION = "def total(text):\n    return sum(map(int, text.split()))\n"
FILES = {
    "src/sampled_book/__init__.py": "",
    "src/sampled_book/data/__init__.py": "",
    "src/sampled_book/data/toy.py": TOY,
    "src/sampled_book/addition.py": ADDITION,
    "src/sampled_book/unused.py": "raise ValueError",
    "src/sampled_book/data/kept.txt": "6",
    "data/toy/ratings.csv": "1 2 3",
    "data/toy/other.csv": "7",
    "constraints-study.txt": "numpy==2",
}


@pytest.fixture
def compared(tmp_path):
    """The toy, its folder of data, and the note of its comparison."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "ranks.py", tmp_path / ".ci")
    assert compare(tmp_path) == 0
    return tmp_path, tmp_path / "data", json.loads((tmp_path / ".ci" / "ranks.json").read_text())


def compare(root):
    """The exit status of the command that compares."""
    env = os.environ | {"PYTHONPATH": str(root / "src"), "SAMPLED_METRICS_DATA": str(root / "data")}
    command = [sys.executable, str(root / ".ci" / "ranks.py"), "compare", "toy"]
    return subprocess.run(command, env=env, check=False).returncode


def test_the_note_has_what_was_read_and_nothing_else(compared):
    root, data, note = compared
    kept = {"src/sampled_book/data/kept.txt", "data:toy/ratings.csv", "constraints-study.txt"}
    code = {
        f"src/sampled_book/{name}.py"
        for name in ("__init__", "addition", "data/__init__", "data/toy")
    }
    assert set(note["toy"]) == kept | code
    assert ranks.changed(note, root, data, ["toy"]) == {}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("src/sampled_book/addition.py", ADDITION.replace("int,", "float,"), None),
        ("src/sampled_book/data/toy.py", TOY.replace('"--check"', '"--check" '), ""),
        ("src/sampled_book/data/toy.py", TOY.replace("Compare.", "Compare the sum."), ""),
        ("src/sampled_book/data/toy.py", TOY + "\nmain.times = 1\n", None),
        ("src/sampled_book/unused.py", "", ""),
        ("src/sampled_book/data/kept.txt", "7", None),
        ("data/toy/ratings.csv", "1 2 3 ", "data:toy/ratings.csv"),
        ("data/toy/other.csv", "8", ""),
        ("constraints-study.txt", "numpy==3", None),
    ],
)
def test_a_change_is_noticed_if_it_can_matter(compared, file, text, said):
    root, data, note = compared
    (root / file).write_text(text)
    expected = file if said is None else said
    assert ranks.changed(note, root, data, ["toy"]) == ({"toy": [expected]} if expected else {})


def test_what_is_gone_or_was_never_compared_counts_as_changed(compared):
    root, data, note = compared
    assert ranks.changed(note, root, None, ["toy"]) == {"toy": ["data:toy/ratings.csv"]}
    (root / "src/sampled_book/addition.py").unlink()
    assert ranks.changed(note, root, data, ["toy", "new"]) == {
        "toy": ["src/sampled_book/addition.py"],
        "new": ["it has never been compared"],
    }


def test_ranks_that_come_out_otherwise_are_not_noted(compared):
    root, data, note = compared
    (root / "data/toy/ratings.csv").write_text("1 2 4")
    assert compare(root) == 1
    assert json.loads((root / ".ci" / "ranks.json").read_text()) == note
    (root / "src/sampled_book/data/kept.txt").write_text("7")
    assert compare(root) == 0
    again = json.loads((root / ".ci" / "ranks.json").read_text())
    assert {name for name in note["toy"] if again["toy"][name] != note["toy"][name]} == {
        "data:toy/ratings.csv",
        "src/sampled_book/data/kept.txt",
    }
    assert ranks.changed(again, root, data, ["toy"]) == {}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("recommenders", ["src/sampled_book/data/ranks.npz", "data:ncf-ml-1m/ml-1m.train.rating"]),
        ("study", ["src/sampled_book/data/decoys.npz", "data:ml-100k/u.data"]),
        ("benchmark", ["src/sampled_book/data/benchmark/lastfm.npz", "data:s3rec/LastFM.txt"]),
    ],
)
def test_the_repositorys_note_has_the_ranks_the_data_and_the_code(name, read):
    note = json.loads((ROOT / ".ci" / "ranks.json").read_text())
    assert set(note) == set(ranks.NAMES)
    assert note[name].keys() >= {*read, f"src/sampled_book/data/{name}.py", "constraints-study.txt"}
    noted = {each for each in note[name] if each.endswith(".py")}
    assert {each for each in noted if each.startswith("src/sampled_metrics/")}

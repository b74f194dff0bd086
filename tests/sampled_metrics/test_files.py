"""Writers leave every other file in the folder alone, whatever it is called."""

import secrets

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics._files import put, replacing
from sampled_metrics.cli import main


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def rank(folder, output):
    np.save(folder / "U.npy", np.eye(2))
    np.save(folder / "V.npy", np.ones((3, 2)))
    test = pd.DataFrame({"user": [0, 1], "item": [1, 2]})
    sm.rank(folder / "U.npy", folder / "V.npy", test, output=folder / output)


WRITERS = {
    "ranks.csv": rank,
    "text.json": lambda folder, name: put(folder / name, b"{}"),
    "table.csv": lambda folder, name: main(
        ["estimate", "bundled", "--metrics", "auc", "--no-identification", "-o", str(folder / name)]
    ),
    "toy": lambda folder, name: main(["example", str(folder / name)]),
}  # fmt: skip


@pytest.mark.parametrize("output", WRITERS)
def test_a_file_called_like_an_unfinished_output_is_left_alone(tmp_path, monkeypatch, output):
    monkeypatch.setattr("os.getpid", lambda: 77)
    names = iter(["taken", "taken", "free", "more", "most"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(names))
    user_files = [f"{output}.part", f".{output}.77.part", ".taken.part", ".part"]
    for name in user_files:
        (tmp_path / name).write_text(f"the user's {name}", encoding="utf-8")
    WRITERS[output](tmp_path, output)
    assert (tmp_path / output).exists()
    assert set(contents(tmp_path)) - {output, "U.npy", "V.npy"} == set(user_files)
    assert all(contents(tmp_path)[name] == f"the user's {name}".encode() for name in user_files)


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_what_was_there(tmp_path, problem):
    (tmp_path / "out").write_text("before")

    def fail(part):
        part.write_text("half")
        raise problem

    with pytest.raises(problem), replacing(tmp_path / "out") as part:
        fail(part)
    assert contents(tmp_path) == {"out": b"before"}


def test_a_link_is_followed_and_a_new_file_has_the_usual_permissions(tmp_path):
    usual, real, link = tmp_path / "usual", tmp_path / "real", tmp_path / "link"
    usual.touch()
    link.symlink_to(real)
    with replacing(link) as part:
        part.write_text("text")
    assert link.is_symlink()
    assert real.read_text() == "text"
    assert real.stat().st_mode == usual.stat().st_mode

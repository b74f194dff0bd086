"""Everything that README.md tells a user to paste works as pasted, and its figure is current."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from sampled_metrics.cli import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.M | re.S)


def command(start):
    """The one line of a fenced block that begins with `start`."""
    lines = [line for kind, text in BLOCKS if kind == "" for line in text.splitlines()]
    (matching_line,) = [line for line in lines if line.startswith(start)]
    return matching_line


def test_python_examples():
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert results.attempted >= 3
    assert results.failed == 0


def test_the_answers_are_what_the_commands_print(capsys):
    answers = [number for number, (kind, _) in enumerate(BLOCKS) if kind == "text"]
    assert len(answers) == 2
    for number in answers:
        assert main(shlex.split(BLOCKS[number - 1][1])[1:]) == 0
        assert capsys.readouterr().out == BLOCKS[number][1]


@pytest.mark.matrix
def test_papermill(tmp_path):
    arguments = shlex.split(command("papermill"))
    assert arguments[2] == "out.ipynb"
    arguments[:3] = [sys.executable, "-m", "papermill", arguments[1], str(tmp_path / "out.ipynb")]
    completed = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert '"n_negatives = 500' in (tmp_path / "out.ipynb").read_text(encoding="utf-8")


def test_the_figure_is_current(monkeypatch):
    (path,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    spec = spec_from_file_location("figure", ROOT / "book/figure.py")
    assert spec is not None
    assert spec.loader is not None
    figure = module_from_spec(spec)
    spec.loader.exec_module(figure)
    assert ROOT / path == figure.FIGURE
    made_from = (ROOT / path).read_text(encoding="utf-8").splitlines()[-1]
    assert figure.ingredients() in made_from, "run make book and make figure"
    # The same as a picture, for previews of links.
    picture = figure.PICTURE.read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert figure.ingredients().encode() in picture, "run make book and make figure"


def test_paths_named_exist():
    for path in re.findall(r"^\| `([^`]+)`", README, flags=re.M):
        assert [*ROOT.glob(path)], path
    for path in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / path).exists(), path


def test_no_machine_or_registry_is_named():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode or not listed.stdout:
        pytest.skip("not a git checkout")
    banned = re.compile("pypi" + r"\.org|" + "pythonhosted" + r"\.org|" + "registry.npm" + "js")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".txt", ".yml", ".toml", ".cff"} and path.is_file():
            assert not banned.search(path.read_text(encoding="utf-8")), os.fspath(path)

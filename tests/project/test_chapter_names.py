"""What points at a chapter still does after chapters are renumbered."""

import re
import subprocess
from pathlib import Path

import jupytext
import pytest

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
#: Tests of books that they make up, and this one.
MADE_UP = {
    f"tests/project/test_{name}.py" for name in ("build", "chapter_names", "pairs", "slides")
}
#: A path of a text or notebook; the place where files are described has NN for the number.
PATH = re.compile(r"book/(?:chapters|notebooks)/(?!NN_)(\w+)(?:\.(?:md|ipynb)\b|$)", re.M)
#: The chapter that a command runs, and the rest of its line.
COMMAND = re.compile(r"(?:\bCHAPTER=|build\.py chapter )(\w+)(.*)")


def texts():
    """The files of the repository that a person writes, by path; notebooks repeat the chapters."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.yml", "*.toml", "*.js", "Makefile", ".ci/*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    libraries = ("book/_static/mathjax/", "book/_static/reveal/")
    kept = [f for f in listed if f not in MADE_UP and not f.startswith(libraries)]
    return {f: (ROOT / f).read_text(encoding="utf-8") for f in kept if (ROOT / f).exists()}


def chapters():
    """The names of the chapters' files, and for each the parameters that its own cell assigns."""
    parameters = {}
    for path in (ROOT / "book/chapters").glob("*.md"):
        tagged = [
            cell.source
            for cell in jupytext.read(path).cells
            if "parameters" in cell.metadata.get("tags", [])
        ]
        parameters[path.stem] = set(re.findall(r"(?m)^(\w+) *=", "\n".join(tagged)))
    return parameters


def faults(texts, chapters):
    """What texts say of chapters that is not so."""
    for file, text in texts.items():
        for name in PATH.findall(text):
            if name not in chapters:
                yield f"{file}: there is no chapter {name}"
        for start, rest in COMMAND.findall(text):
            names = [name for name in chapters if name.startswith(start)]
            if len(names) != 1:
                yield f"{file}: {start} begins the names of {len(names)} chapters"
                continue
            for parameter in re.findall(r"-p (\w+)", rest):
                if parameter not in chapters[names[0]]:
                    yield f"{file}: {names[0]} has no parameter {parameter}"


def test_paths_and_commands_are_of_chapters_that_exist():
    assert list(faults(texts(), chapters())) == []


def test_what_points_at_chapters_is_found():
    """The patterns match where chapters are known to be named."""
    found = {file for file, text in texts().items() if PATH.search(text) or COMMAND.search(text)}
    assert {"README.md", "CONTRIBUTING.md", "Makefile", "_toc.yml", "book/build.py"} <= found

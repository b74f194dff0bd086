"""What points at a chapter still does after chapters are renumbered, and no text has its number."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import jupytext
import pytest
import yaml

import slides

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
#: A typed number or letter: not in a command, in the words of CONTRIBUTING, or of another book.
TYPED = re.compile(
    r"(?<!build\.py )(?<!Algorithms, )\b(?:[Cc]hapters?|[Aa]ppendi(?:x|ces))[\s~]+(?:\d+|[A-K])\b"
)


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
        for typed in TYPED.findall(text):
            yield f"{file}: {typed!r} is a typed number; point at the chapter's label"


def test_paths_and_commands_are_of_chapters_that_exist_and_no_number_is_typed():
    assert list(faults(texts(), chapters())) == []


def test_what_points_at_chapters_is_found():
    """The patterns match where chapters are known to be named."""
    found = {file for file, text in texts().items() if PATH.search(text) or COMMAND.search(text)}
    assert {"README.md", "CONTRIBUTING.md", "Makefile", "_toc.yml", "book/build.py"} <= found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("papermill book/notebooks/03_b.ipynb out.ipynb", "there is no chapter 03_b"),
        ("      - file: book/notebooks/03_b\n", "there is no chapter 03_b"),
        ("make chapter CHAPTER=03", "03 begins the names of 0 chapters"),
        ("#  (CHAPTER=0 ARGS='')", "0 begins the names of 2 chapters"),
        ("build.py chapter 01 -p n_user 5", "01_a has no parameter n_user"),
        ("as chapter 6 says", "'chapter 6' is a typed number; point at the chapter's label"),
        ("see Appendix\nE", "'Appendix\\nE' is a typed number; point at the chapter's label"),
    ],
)
def test_each_fault_is_found(text, fault):
    renumbered = {"01_a": {"n_items"}, "02_b": set()}
    assert list(faults({"file": text}, renumbered)) == [f"file: {fault}"]


def test_labels_are_of_chapters_that_exist():
    """The build refuses an unknown label as well, minutes later."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "book/chapters").glob("*.md")]
    pages += [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")]
    labels = set(re.findall(r"(?m)^\((ch-[\w-]+)\)=$", "\n".join(pages)))
    syllabus = (ROOT / "book/syllabus.md").read_text(encoding="utf-8")
    pointers = set(re.findall(r"\{ref\}`(?:[^`]*<)?(ch-[\w-]+)>?`", syllabus))
    pointers |= {
        claim["chapter"] for claim in yaml.safe_load((ROOT / "book/claims.yml").read_text())
    }
    assert pointers
    assert pointers <= labels


def test_the_lectures_and_the_syllabus_are_of_the_same_chapters():
    syllabus = (ROOT / "book/syllabus.md").read_text(encoding="utf-8")
    lectures = syllabus.partition("## Four lectures")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (.*?) \| (\{ref\}.*?) \|", lectures)
    labels = {title: re.findall(r"`(ch-[\w-]+)`", listed) for title, listed in rows}
    label_of = {
        path.stem.partition("_")[2]: re.search(
            r"(?m)^\((ch-[\w-]+)\)=$", path.read_text(encoding="utf-8")
        )[1]
        for path in (ROOT / "book/chapters").glob("[0-9]*.md")
    }
    assert labels == {
        one.title: [label_of[name] for name in one.chapters] for one in slides.LECTURES.values()
    }

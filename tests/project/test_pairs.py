"""The text and the notebook of a chapter: when they differ, and how they come into step."""

import os
import shutil
from pathlib import Path

import nbformat
import papermill
import pytest

import pairs

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
TEXT = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A chapter

```{code-cell} ipython3
:tags: [parameters]

n_items = 10  # items
```
"""


@pytest.fixture
def chapter(tmp_path):
    """A folder with a chapter's text and its notebook."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    texts, notebooks = tmp_path / "book" / "chapters", tmp_path / "book" / "notebooks"
    texts.mkdir(parents=True)
    notebooks.mkdir()
    (texts / "01_one.md").write_text(TEXT)
    pairs.sync(tmp_path)
    return texts / "01_one.md", notebooks / "01_one.ipynb"


def root_of(chapter):
    return chapter[0].parents[2]


def test_a_text_without_a_notebook_gets_one(chapter):
    assert pairs.faults(root_of(chapter)) == []
    cell = nbformat.read(chapter[1], as_version=4).cells[-1]
    assert cell.source == "n_items = 10  # items"
    assert cell.metadata.tags == ["parameters"]


@pytest.mark.parametrize("leading", [0, 1])
def test_the_newer_of_two_that_differ_leads(chapter, leading):
    edited, older = chapter[leading], chapter[1 - leading]
    edited.write_text(edited.read_text().replace("n_items = 10", "n_items = 20"))
    os.utime(older, (1, 1))
    assert pairs.faults(root_of(chapter)) == [
        "book/chapters/01_one.md and book/notebooks/01_one.ipynb differ"
    ]
    pairs.sync(root_of(chapter))
    assert pairs.faults(root_of(chapter)) == []
    assert "n_items = 20" in older.read_text()


def test_outputs_are_found_and_dropped_and_the_text_does_not_care(chapter):
    notebook = nbformat.read(chapter[1], as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="10")]
    nbformat.write(notebook, chapter[1])
    text = chapter[0].read_text()
    assert pairs.faults(root_of(chapter)) == ["book/notebooks/01_one.ipynb holds outputs"]
    pairs.strip(root_of(chapter))
    assert pairs.faults(root_of(chapter)) == []
    assert chapter[0].read_text() == text


def test_the_chapters_of_the_book_are_in_step_and_hold_no_outputs():
    assert pairs.faults(ROOT) == []


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "book" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_each_parameter_of_a_chapter_says_what_it_is(notebook):
    parameters = papermill.inspect_notebook(str(notebook))
    assert [name for name, details in parameters.items() if not details["help"]] == []

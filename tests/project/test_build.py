"""The build of the book, on a tiny one: what is executed again, what is refused, what is kept."""

import ast
import os

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from tqdm import tqdm

import build
from sampled_book.chapters.parameters import ParameterError

pytestmark = pytest.mark.words

CHECKED = """
from sampled_book.chapters.parameters import Integer, check
check(globals(), n_items=Integer("items", 2, 100))
"""


def write_chapter(root, name, *code, tags=()):
    """Write a chapter with a parameter, its check, and further cells."""
    cells = [
        new_markdown_cell(f"# Chapter {name}"),
        new_code_cell("n_items = 10  # items", metadata={"tags": ["parameters"]}),
        new_code_cell(CHECKED),
        *(new_code_cell(source, metadata={"tags": list(tags)}) for source in code),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = root / "book" / "notebooks" / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


@pytest.fixture
def book(tmp_path):
    """A book with a landing page, a chapter and a ledger."""
    for folder in ["book/notebooks", "src/package", "tests/claims", "requirements"]:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "book" / "index.md").write_text("# A book\n")
    (tmp_path / "book" / "claims.yml").write_text("[]\n")
    (tmp_path / "src" / "package" / "code.py").write_text("x = 1\n")
    (tmp_path / "requirements/project.txt").write_text("numpy==2.0\n")
    (tmp_path / "_config.yml").write_text("title: A book\nonly_build_toc_files: true\n")
    files = [{"file": f"book/notebooks/{name}"} for name in ("01_one", "ledger")]
    toc = {"format": "jb-book", "root": "book/index", "chapters": files}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(toc))
    write_chapter(tmp_path, "01_one", "n_items + 1")
    write_chapter(tmp_path, "ledger", "n_items + 2")
    return build.Book(tmp_path)


@pytest.fixture
def run(book, monkeypatch):
    """Build the book with nothing in the place of papermill and Jupyter Book.

    Returns a function that builds and returns the chapters that would have been executed.
    """
    executed = []

    def execute_stale(book, bar, chapters):
        for chapter, key in chapters.items():
            notebook = nbformat.read(chapter, as_version=4)
            notebook.metadata[build.STAMP] = {"key": key, "seconds": 1.0}
            book.executed(chapter).parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, book.executed(chapter))
            executed.append(chapter.stem)

    def make_site(source, output, *options):
        page = output / "_build" / "html" / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text((source / "book" / "index.md").read_text())

    monkeypatch.setattr(build, "execute_stale", execute_stale)
    monkeypatch.setattr(build, "make_site", make_site)

    def once():
        executed.clear()
        build.build_site(book)
        return list(executed)

    return once


def keys(book):
    return {chapter.stem: key for chapter, key in build.chapter_keys(book).items()}


def changed(book, before):
    return {name for name, key in keys(book).items() if key != before[name]}


def test_a_chapter_stays_fresh_when_only_times_caches_and_outputs_change(book):
    before = keys(book)
    os.utime(book.root / "src" / "package" / "code.py", (1, 1))
    cache = book.root / "src" / "package" / "__pycache__"
    cache.mkdir()
    (cache / "code.pyc").write_bytes(b"1")
    path = book.chapters()[0]
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="11")]
    nbformat.write(notebook, path)
    assert changed(book, before) == set()


def test_the_site_is_made_with_the_books_own_extensions(book):
    (book.root / "_config.yml").write_text("sphinx: {local_extensions: {tags: book}}\n")
    (book.root / "book" / "tags.py").write_text("x = 1\n")
    (book.root / "book" / "other.py").write_text("x = 1\n")
    build.stage(book, book.build / "stage", {})
    staged = book.build / "stage" / "book"
    assert [path.name for path in staged.glob("*.py")] == ["tags.py"]


@pytest.mark.parametrize(
    ("file", "stale"),
    [
        ("src/package/code.py", {"01_one", "ledger"}),
        ("src/package/new.csv", {"01_one", "ledger"}),
        ("requirements/project.txt", {"01_one", "ledger"}),
        ("book/claims.yml", {"ledger"}),
        ("tests/claims/test_new.py", set()),
        ("book/index.md", set()),
        ("tests/test_other.py", set()),
    ],
)
def test_a_chapter_goes_stale_with_the_content_of_what_it_is_made_from(book, file, stale):
    before = keys(book)
    (book.root / file).write_text("changed\n")
    assert changed(book, before) == stale


def test_a_file_that_is_renamed_or_removed_counts_as_a_change(book):
    code = book.root / "src" / "package" / "code.py"
    before = keys(book)
    code.rename(code.with_name("other.py"))
    assert changed(book, before) == {"01_one", "ledger"}


def test_only_what_changed_is_executed_again(book, run, capsys):
    assert run() == ["01_one", "ledger"]
    assert "(unchanged)" not in capsys.readouterr().out
    assert run() == []
    printed = capsys.readouterr().out
    assert printed.count("(unchanged)") == 2
    assert printed.endswith("Open _build/html/index.html\n")
    write_chapter(book.root, "01_one", "n_items + 5")
    assert run() == ["01_one"]


def test_the_site_is_made_again_only_when_needed(book, run):
    run()
    page = book.build / "html" / "index.html"
    first = page.stat().st_mtime_ns
    run()
    assert page.stat().st_mtime_ns == first
    page.write_text("overwritten by another program")
    run()
    assert page.read_text() == "# A book\n"
    (book.root / "book" / "index.md").write_text("# The book\n")
    run()
    assert page.read_text() == "# The book\n"


def test_a_site_that_cannot_be_made_leaves_the_last_one_in_place(book, run, monkeypatch):
    run()

    def fail(source, output, *options):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "make_site", fail)
    (book.root / "book" / "index.md").write_text("# The book\n")
    with pytest.raises(KeyboardInterrupt):
        run()
    assert (book.build / "html" / "index.html").read_text() == "# A book\n"
    assert sorted(p.name for p in book.build.iterdir()) == [
        "executed",
        "html",
        "site.json",
        "stage",
    ]


@pytest.mark.processes
def test_executing_leaves_the_committed_notebook_alone(book):
    chapter = book.chapters()[0]
    before = chapter.read_bytes()
    target = book.executed(chapter)
    build.execute(chapter, target, "key", {"n_items": 20})
    assert chapter.read_bytes() == before
    executed = nbformat.read(target, as_version=4)
    assert executed.cells[-1].outputs[0].data["text/plain"] == "21"
    assert "papermill" not in str(executed.metadata) + str([c.metadata for c in executed.cells])
    assert build.stamp(target)["key"] == "key"


@pytest.mark.processes
@pytest.mark.parametrize("tags", [(), ("raises-exception",)])
def test_a_chapter_with_an_error_is_refused_and_never_kept(book, tags):
    chapter = write_chapter(book.root, "01_one", "1 / 0", tags=tags)
    target = book.executed(chapter)
    with pytest.raises(build.ChapterError) as failure:
        build.execute(chapter, target, "key", {})
    assert str(failure.value) == "chapter 01_one failed: ZeroDivisionError: division by zero"
    assert list(target.parent.iterdir()) == []


@pytest.mark.processes
def test_all_chapters_run_in_parallel_and_every_failure_is_named(book, capsys):
    write_chapter(book.root, "01_one", "1 / 0")
    with pytest.raises(build.BuildError, match=r"^chapter 01_one failed: ZeroDivisionError"):
        build.build_site(book)
    assert build.stamp(book.root / "_build" / "executed" / "ledger.ipynb")
    assert "n_items" not in capsys.readouterr().out
    assert not (book.build / "html").exists()


@pytest.mark.matrix
def test_chapters_of_one_process_share_nothing_and_show_figures(book, monkeypatch):
    monkeypatch.setattr(build.os, "cpu_count", lambda: 1)
    leaves = "import builtins, os; builtins.left = os.environ['LEFT'] = ''"
    draws = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"
    write_chapter(book.root, "ledger", leaves, draws)
    looks = "import builtins, os; hasattr(builtins, 'left'), 'LEFT' in os.environ, os.getcwd()"
    write_chapter(book.root, "01_one", looks)
    with tqdm(disable=True) as bar:
        build.execute_stale(book, bar, build.chapter_keys(book))  # the ledger, which is last, first
    executed = nbformat.read(book.executed(book.chapters()[0]), as_version=4)
    folder = str(book.root / "book" / "notebooks")
    shown = executed.cells[-1].outputs[0].data["text/plain"]
    assert ast.literal_eval(shown) == (False, False, folder)
    drawn = nbformat.read(book.executed(book.chapters()[1]), as_version=4).cells[-1].outputs
    assert [output.output_type for output in drawn] == ["display_data"]
    assert "image/png" in drawn[0].data


@pytest.mark.matrix
def test_jupyter_book_fails_on_a_warning_and_succeeds_without(book):
    chapter = book.chapters()[0]
    build.execute(chapter, book.executed(chapter), "", {})
    replace = {chapter: book.executed(chapter)}
    (book.root / "book" / "index.md").write_text("# A book\n\nSee {ref}`nowhere`.\n")
    build.stage(book, book.build / "stage", replace)
    strict = ("-n", "-W", "--keep-going")
    with pytest.raises(build.BuildError, match="undefined label: 'nowhere'"):
        build.make_site(book.build / "stage", book.build / "a", *strict)
    (book.root / "book" / "index.md").write_text("# A book\n")
    build.stage(book, book.build / "stage", replace)
    build.make_site(book.build / "stage", book.build / "b", *strict)
    page = book.build / "b" / "_build" / "html" / "book" / "notebooks" / "01_one.html"
    assert "11" in page.read_text()


def test_a_chapter_that_is_listed_but_missing_is_named(book):
    (book.root / "book" / "notebooks" / "ledger.ipynb").unlink()
    with pytest.raises(build.BuildError, match=r"not exist: book/notebooks/ledger\.ipynb"):
        book.chapters()


@pytest.mark.processes
def test_one_chapter_runs_with_other_parameters(book, monkeypatch, capsys):
    monkeypatch.setattr(build, "make_site", lambda *args: None)
    build.run_chapter(book, "01", {"n_items": 50})
    executed = nbformat.read(book.build / "rerun" / "01_one.ipynb", as_version=4)
    assert executed.cells[-1].outputs[0].data["text/plain"] == "51"
    assert capsys.readouterr().out.splitlines() == [
        "The executed notebook is _build/rerun/01_one.ipynb",
        "Open _build/rerun/_build/html/book/notebooks/01_one.html",
    ]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("chapter", "parameters", "sentence"),
    [
        ("02", {}, "CHAPTER is '02', but must begin the name of one of 01_one, ledger"),
        (
            "01",
            {"n_item": 5},
            "unknown parameter n_item (did you mean n_items?), this chapter takes n_items",
        ),
        ("01", {"n_items": 1}, "n_items is 1, but must be a whole number from 2 to 100"),
    ],
)
def test_a_chapter_refuses_bad_parameters_in_one_sentence(book, chapter, parameters, sentence):
    with pytest.raises(ParameterError) as refusal:
        build.run_chapter(book, chapter, parameters)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500", 500),
        ("-1e3", -1000.0),
        ("[5, 10]", [5, 10]),
        ("['auc', 'ap']", ["auc", "ap"]),
    ],
)
def test_a_value_is_read_as_a_literal_or_else_as_text(text, value):
    assert build.literal(text) == value

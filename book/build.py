"""Build the book: execute the chapters that changed, in parallel, then make the site.

    python book/build.py site                        build _build/html
    python book/build.py chapter 03 -p n_items 500   run one chapter with other parameters

Chapters are executed by papermill into ``_build/executed`` and never into the committed notebooks.
An executed chapter is kept as long as what it was made from has the same content: its own cells,
the package, and the pinned environment.  The site is made from a copy of the book in which the
executed notebooks stand in for the committed ones, so that every page keeps its address.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import nbformat
import yaml
from tqdm import tqdm

import generated
import pairs
from sampled_book.chapters.parameters import ParameterError, refuse_unknown

# What a chapter is made from besides its own cells, the package and the environment.
INGREDIENTS = {"ledger": ["book/claims.yml"]}
STAMP = "sampled_metrics_build"


class BuildError(Exception):
    """The book cannot be built; the message says where and why."""


class ChapterError(BuildError):
    """A chapter stopped with an error: `kind` is its class, `trace` where it happened."""

    def __init__(self, chapter: str, kind: str, message: str, trace: str = "") -> None:
        super().__init__(chapter, kind, message, trace)
        self.chapter, self.kind, self.message, self.trace = chapter, kind, message, trace

    def __str__(self) -> str:
        return f"chapter {self.chapter} failed: {self.kind}: {self.message}"


@dataclass(frozen=True)
class Book:
    """A folder with ``_config.yml``, ``_toc.yml``, ``book`` and ``src``."""

    root: Path

    @property
    def build(self) -> Path:
        return self.root / "_build"

    def chapters(self) -> list[Path]:
        """Return the notebooks that the table of contents lists, in its order."""
        toc = yaml.safe_load((self.root / "_toc.yml").read_text(encoding="utf-8"))
        entries = [
            {"file": toc["root"]},
            *toc.get("chapters", []),
            *(c for p in toc.get("parts", []) for c in p["chapters"]),
        ]
        files = [self.root / entry["file"] for entry in entries]
        pages = [path for path in files if not path.with_suffix(".md").exists()]
        notebooks = [path.with_suffix(".ipynb") for path in pages]
        if missing := [str(p.relative_to(self.root)) for p in notebooks if not p.exists()]:
            raise BuildError(f"_toc.yml lists what does not exist: {', '.join(missing)}")
        return notebooks

    def executed(self, chapter: Path) -> Path:
        return self.build / "executed" / chapter.name


def digest(root: Path, paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of the files at and under `paths`."""
    files = {f for path in paths for f in ([path] if path.is_file() else path.rglob("*"))}
    total = hashlib.sha256()
    for file in sorted(files):
        if file.is_file() and "__pycache__" not in file.parts:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            total.update(f"{file.relative_to(root)}\0{content}\n".encode())
    return total.hexdigest()


def chapter_keys(book: Book) -> dict[Path, str]:
    """Return for each chapter a hash of all that its outputs depend on."""
    shared = digest(book.root, [book.root / "src", book.root / "requirements/project.txt"])
    keys = {}
    for chapter in book.chapters():
        cells = nbformat.read(chapter, as_version=4).cells
        cell_text = json.dumps([[c.cell_type, c.source, c.metadata] for c in cells], sort_keys=True)
        rest = digest(
            book.root, [book.root / ingredient for ingredient in INGREDIENTS.get(chapter.stem, [])]
        )
        parts = [cell_text, shared, rest, platform.python_version()]
        keys[chapter] = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return keys


def stamp(executed: Path) -> dict[str, Any]:
    """Return the key and the seconds with which an executed notebook was written, or nothing."""
    if not executed.exists():
        return {}
    return dict(json.loads(executed.read_text(encoding="utf-8"))["metadata"].get(STAMP, {}))


def execute(
    chapter: Path, target: Path, key: str, parameters: Mapping[str, Any], forked: bool = False
) -> float:
    """Execute a chapter, write it to `target` with its key, and return the seconds it took.

    A `forked` kernel starts sooner, where the process runs several chapters. Nothing is written
    when the chapter fails, and `target` is never half-written.
    """
    import papermill  # half a second, which a build with nothing to execute saves
    from papermill.exceptions import PapermillExecutionError

    import kernels

    logging.getLogger("papermill").setLevel(logging.ERROR)
    target.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        output = Path(scratch) / chapter.name
        try:
            papermill.execute_notebook(
                chapter,
                output,
                dict(parameters),
                cwd=chapter.parent,
                progress_bar=False,
                # The kernel would warn that it talks to us over the loopback unencrypted.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
                # What a cell prints is one output, however long the cell takes to print it.
                coalesce_streams=True,
                **(kernels.prepare() if forked else {}),
            )
        except PapermillExecutionError as error:
            trace = "\n".join(error.traceback)
            raise ChapterError(chapter.stem, error.ename, error.evalue, trace) from None
        seconds = time.monotonic() - started
        notebook = nbformat.read(output, as_version=4)
        refuse_errors(chapter.stem, notebook)
        clean(notebook)
        notebook.metadata[STAMP] = {"key": key, "seconds": round(seconds, 1)}
        nbformat.write(notebook, output)
        output.replace(target)
    return seconds


def refuse_errors(name: str, notebook: nbformat.NotebookNode) -> None:
    """Raise if any cell holds an error, though the run went on (as under ``raises-exception``)."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                trace = "\n".join(output.traceback)
                raise ChapterError(name, output.ename, output.evalue, trace)


def clean(notebook: nbformat.NotebookNode) -> None:
    """Drop what papermill notes about the run: times and paths of one machine."""
    for part in [notebook, *notebook.cells]:
        part.metadata.pop("papermill", None)


def ready() -> None:
    """Prepare a process that executes chapters.

    It and its kernels leave linear algebra to one thread, as chapters already share out the cores,
    and end with the build.
    """
    import kernels

    for library in ("OPENBLAS_NUM", "OMP_NUM", "MKL_NUM", "VECLIB_MAXIMUM"):
        os.environ.setdefault(f"{library}_THREADS", "1")
    kernels.end_with_parent()


def execute_stale(book: Book, bar: tqdm[Any], chapters: Mapping[Path, str]) -> None:
    """Execute chapters in parallel; all run to their end before the first failure is raised."""
    failures: list[ChapterError] = []
    # Fresh processes, since papermill changes the working directory of the one it runs in.
    with ProcessPoolExecutor(
        os.cpu_count(), mp_context=get_context("spawn"), initializer=ready
    ) as pool:
        # The last chapters take longest: begun first, they do not keep one core waiting at the end.
        jobs = [
            pool.submit(execute, chapter, book.executed(chapter), key, {}, forked=True)
            for chapter, key in reversed(list(chapters.items()))
        ]
        for job in as_completed(jobs):
            error = job.exception()
            if isinstance(error, ChapterError):
                failures.append(error)
            elif error:
                raise error
            bar.update()
    if failures:
        bar.close()
        for failure in failures:
            print(failure.trace, file=sys.stderr)
        raise BuildError("\n".join(map(str, failures)))


def stage(book: Book, folder: Path, replace: Mapping[Path, Path]) -> None:
    """Copy the book to `folder`, with other notebooks in place of some, and the generated pages.

    Execution is switched off.
    """
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns("chapters", "*.py", "__pycache__", ".ipynb_checkpoints")
    shutil.copytree(book.root / "book", folder / "book", ignore=left_out)
    # The extensions of the book's own are part of what the site is made from.
    config = yaml.safe_load((book.root / "_config.yml").read_text(encoding="utf-8"))
    for name, path in config.get("sphinx", {}).get("local_extensions", {}).items():
        shutil.copy2(book.root / path / f"{name}.py", folder / path)
    for chapter, executed in replace.items():
        shutil.copy2(executed, folder / chapter.relative_to(book.root))
    generated.add_pages(folder)
    shutil.copy2(book.root / "_toc.yml", folder)
    (folder / "llms.txt").write_text(generated.outline(folder), encoding="utf-8")
    config["execute"] = {"execute_notebooks": "off"}
    (folder / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")


def make_site(source: Path, output: Path, *options: str) -> None:
    """Run Jupyter Book on `source` into ``output/_build/html``, or raise with its warnings."""
    program = Path(sys.executable).with_name("jupyter-book")
    command = [str(program), "build", str(source), "--path-output", str(output), "-q", *options]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{done.stdout}\nthe site could not be built: see the warnings above")


def build_site(book: Book) -> None:
    """Bring the executed chapters and ``_build/html`` up to date, and say what was done."""
    keys = chapter_keys(book)
    stale = {c: k for c, k in keys.items() if stamp(book.executed(c)).get("key") != k}
    html, note, copy = book.build / "html", book.build / "site.json", book.build / "stage"
    with tqdm(total=len(stale) + 1, desc="Building the book", unit="step") as bar:
        if stale:
            execute_stale(book, bar, stale)
        stage(book, copy, {chapter: book.executed(chapter) for chapter in keys})
        key = digest(book.root, [copy, book.root / "src", book.root / "requirements/project.txt"])
        if not up_to_date(note, key, html):
            with tempfile.TemporaryDirectory(dir=book.build, prefix=".") as scratch:
                make_site(copy, Path(scratch), "-n", "-W", "--keep-going")
                shutil.rmtree(html, ignore_errors=True)
                (Path(scratch) / "_build" / "html").rename(html)
            note.write_text(json.dumps({"key": key, "html": digest(html, [html])}))
        bar.update()
    for chapter in keys:
        remark = "" if chapter in stale else "  (unchanged)"
        print(f"{chapter.stem:20}{stamp(book.executed(chapter))['seconds']:6.1f} s{remark}")
    print(f"Open {(html / 'index.html').relative_to(book.root)}")


def up_to_date(note: Path, key: str, html: Path) -> bool:
    """Whether the site was made from what `key` stands for and is still as it was made."""
    return note.exists() and json.loads(note.read_text()) == {
        "key": key,
        "html": digest(html, [html]),
    }


def run_chapter(book: Book, start: str, parameters: Mapping[str, Any]) -> None:
    """Run the chapter whose name begins with `start`; show where its notebook and its page are."""
    chapters = book.chapters()
    names = ", ".join(chapter.stem for chapter in chapters)
    matches = [chapter for chapter in chapters if start and chapter.stem.startswith(start)]
    if len(matches) != 1:
        raise ParameterError(f"CHAPTER is {start!r}, but must begin the name of one of {names}")
    (chapter,) = matches
    import papermill

    declared = list(papermill.inspect_notebook(str(chapter)))
    for name in parameters:
        refuse_unknown(name, declared)
    folder = book.build / "rerun"
    target = folder / chapter.name
    try:
        execute(chapter, target, "", parameters)
    except ChapterError as error:
        # The package refuses what it cannot do with a ValueError: a sentence, not a defect.
        if error.kind in (ParameterError.__name__, ValueError.__name__):
            raise ParameterError(error.message) from None
        print(error.trace, file=sys.stderr)
        raise
    print(f"The executed notebook is {target.relative_to(book.root)}")
    executed = {c: book.executed(c) for c in chapters if book.executed(c).exists()}
    stage(book, folder / "stage", executed | {chapter: target})
    make_site(folder / "stage", folder)
    page = folder / "_build" / "html" / chapter.relative_to(book.root).with_suffix(".html")
    print(f"Open {page.relative_to(book.root)}")


def literal(text: str) -> Any:
    """Read a parameter's value as papermill's ``-p`` does, and lists besides.

    >>> literal("500"), literal("[5, 10]"), literal("ndcg@10")
    (500, [5, 10], 'ndcg@10')
    """
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("site", help="execute what changed and build _build/html")
    chapter_parser = commands.add_parser("chapter", help="run one chapter with other parameters")
    chapter_parser.add_argument("name", nargs="?", default="", help="the chapter's number or name")
    chapter_parser.add_argument(
        "-p",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="set a parameter of the chapter",
    )
    options = parser.parse_args()
    book = Book(Path(__file__).resolve().parents[1])
    try:
        pairs.sync(book.root)
        if options.command == "site":
            build_site(book)
        else:
            values = {name: literal(value) for name, value in options.parameters}
            run_chapter(book, options.name, values)
    except ParameterError as error:
        print(error, file=sys.stderr)
        return 2
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Keep each chapter's text and notebook in step.

A chapter is edited as text, ``book/chapters/NN_name.md``, and run as the paired notebook,
``book/notebooks/NN_name.ipynb``, which is committed without outputs.

    python book/pairs.py check    say which pairs differ and which notebooks hold outputs
    python book/pairs.py sync     rewrite the older of two that differ, and drop the outputs
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import jupytext
import nbformat
from jupytext.cli import jupytext as run_jupytext
from jupytext.compare import NotebookDifference, compare_notebooks

ROOT = Path(__file__).resolve().parents[1]


def pairs(root: Path) -> list[tuple[Path, Path]]:
    """Return the text and the notebook of each chapter; one of the two may not exist yet."""
    texts, notebooks = root / "book" / "chapters", root / "book" / "notebooks"
    names = {path.stem for path in [*texts.glob("*.md"), *notebooks.glob("*.ipynb")]}
    return [(texts / f"{name}.md", notebooks / f"{name}.ipynb") for name in sorted(names)]


def differ(text: Path, notebook: Path) -> bool:
    """Whether text and notebook hold different cells, outputs aside."""
    if not (text.exists() and notebook.exists()):
        return True
    try:
        compare_notebooks(jupytext.read(notebook), jupytext.read(text), fmt="md:myst")
    except NotebookDifference:
        return True
    return False


def has_outputs(notebook: Path) -> bool:
    """Whether the notebook holds the results of a run."""
    cells = nbformat.read(notebook, as_version=4).cells
    return any(c.get("outputs") or c.get("execution_count") for c in cells)


def faults(root: Path) -> list[str]:
    """Say which pairs differ and which notebooks hold outputs."""
    messages = []
    for text, notebook in pairs(root):
        if differ(text, notebook):
            messages.append(f"{text.relative_to(root)} and {notebook.relative_to(root)} differ")
        elif has_outputs(notebook):
            messages.append(f"{notebook.relative_to(root)} holds outputs")
    return messages


def sync(root: Path) -> None:
    """Rewrite the older of each two that differ, or make the one that is missing."""
    for text, notebook in pairs(root):
        if differ(text, notebook):
            leading = text if text.exists() else notebook
            run_jupytext(["--sync", "--quiet", str(leading)])
            print(f"Brought {text.name} and {notebook.name} into step")


def strip(root: Path) -> None:
    """Drop the outputs from the notebooks."""
    for _, path in pairs(root):
        if has_outputs(path):
            notebook = nbformat.read(path, as_version=4)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = [], None
            jupytext.write(notebook, path)
            print(f"Dropped the outputs of {path.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["check", "sync"])
    if parser.parse_args().command == "sync":
        sync(ROOT)
        strip(ROOT)
    elif messages := faults(ROOT):
        sys.exit("\n".join([*messages, "`make sync` brings them into step"]))


if __name__ == "__main__":
    main()

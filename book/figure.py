"""The README's figure: the landing page's, taken from the executed page.

    python book/figure.py    write book/_static/fig-index.svg, after `make book`

The file names what it was made from, and a test fails when that has changed since.
"""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

import nbformat

from sampled_book.data import datasets
from sampled_book.display import figures
from sampled_metrics._files import put

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "book/_static/fig-index.svg"


def ingredients() -> str:
    """Return a hash of the page's code, the drawing function and the ranks that it draws."""
    page = nbformat.read(ROOT / "book/notebooks/index.ipynb", as_version=4)
    code = [cell.source for cell in page.cells if cell.cell_type == "code"]
    drawing = inspect.getsource(figures.expected_curves)
    ranks = (datasets.BUNDLE / "ranks.npz").read_bytes()
    return hashlib.sha256("\0".join([*code, drawing]).encode() + ranks).hexdigest()


def main() -> None:
    """Write the figure beside its place and put it there whole."""
    page = nbformat.read(ROOT / "_build/executed/index.ipynb", as_version=4)
    (drawn,) = [
        output.data["image/svg+xml"]
        for cell in page.cells
        for output in cell.get("outputs", [])
        if "image/svg+xml" in output.get("data", {})
    ]
    put(FIGURE, f"{drawn.rstrip()}\n<!-- made from {ingredients()} -->\n".encode())
    print(f"Wrote {FIGURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""The README's figure: the landing page's, taken from the executed page, and its picture.

    python book/figure.py    write book/_static/fig-index.svg and .png, after `make book`

Previews of links show the picture, since few of them take SVG. Each file names what it was made
from, and a test fails when that has changed since.
"""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from tempfile import TemporaryDirectory

import nbclient
import nbformat
from nbformat.v4 import new_code_cell

from sampled_book.data import datasets
from sampled_book.display import figures
from sampled_metrics._files import put

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book/notebooks/index.ipynb"
FIGURE = ROOT / "book/_static/fig-index.svg"
PICTURE = FIGURE.with_suffix(".png")


def ingredients() -> str:
    """Return a hash of the page's code, the drawing function and the ranks that it draws."""
    page = nbformat.read(PAGE, as_version=4)
    code = [cell.source for cell in page.cells if cell.cell_type == "code"]
    drawing = inspect.getsource(figures.expected_curves)
    ranks = (datasets.BUNDLE / "ranks.npz").read_bytes()
    return hashlib.sha256("\0".join([*code, drawing]).encode() + ranks).hexdigest()


def picture() -> bytes:
    """Return the figure as PNG, about 1,200 pixels wide, by running the page once more."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / PICTURE.name
        metadata = {"Software": None, "Comment": f"made from {ingredients()}"}
        page = nbformat.read(PAGE, as_version=4)
        save = f"figure.savefig({str(path)!r}, dpi=200, bbox_inches='tight', metadata={metadata})"
        page.cells.append(new_code_cell(save))
        # The kernel would warn that it talks to us over the loopback unencrypted.
        quiet = ["--IPKernelApp.log_level=CRITICAL"]
        nbclient.execute(page, cwd=str(PAGE.parent), extra_arguments=quiet)
        return path.read_bytes()


def main() -> None:
    """Write each file beside its place and put it there whole."""
    page = nbformat.read(ROOT / "_build/executed/index.ipynb", as_version=4)
    (drawn,) = [
        output.data["image/svg+xml"]
        for cell in page.cells
        for output in cell.get("outputs", [])
        if "image/svg+xml" in output.get("data", {})
    ]
    put(FIGURE, f"{drawn.rstrip()}\n<!-- made from {ingredients()} -->\n".encode())
    put(PICTURE, picture())
    for path in (FIGURE, PICTURE):
        print(f"Wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

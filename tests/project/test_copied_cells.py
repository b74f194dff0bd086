"""What a page shows runs: its visible cells, copied one by one into a fresh notebook."""

from __future__ import annotations

from pathlib import Path

import jupytext
import matplotlib
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "book/chapters").glob("*.md"))
# A reader sees what is folded, after a click, and not what is removed.
REMOVED = {"remove-cell", "remove-input"}


def visible_cells(chapter: Path) -> list[str]:
    """Return the code that a chapter's page shows, folded cells among it."""
    cells = jupytext.read(chapter).cells
    return [
        cell.source
        for cell in cells
        if cell.cell_type == "code" and not REMOVED & set(cell.metadata.get("tags", []))
    ]


@pytest.mark.once
@pytest.mark.pages
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_visible_cells_of_a_chapter_run_by_themselves(chapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    names = {"__name__": "__main__"}
    try:
        for number, source in enumerate(visible_cells(chapter), start=1):
            exec(compile(source, f"{chapter.stem}, visible cell {number}", "exec"), names)
    finally:
        plt.close("all")

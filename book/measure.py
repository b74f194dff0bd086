"""Print how long each chapter is, so that it stays short.

python book/measure.py    words, lines of code, tables and figures of each chapter; and, where
                          the site is built and a Chromium is there, how far down the first
                          figure starts at 1,300 pixels
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import jupytext
import yaml

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
CHROMIUM = "/usr/bin/chromium"
FIGURES = "article figure img, article .sm-widget, article .cell_output img"
FIRST = "all => Math.min(...all.map(e => e.getBoundingClientRect().top + scrollY))"


class Size(NamedTuple):
    """What a chapter holds; `longest` is its longest visible cell, in lines."""

    words: int
    visible: int
    longest: int
    hidden: int
    tables: int
    figures: int


def words(markdown: str) -> int:
    r"""Words of prose: without tables, maths, links' addresses and labels; a number is a word.

    >>> words("Rank *one* of {glue:text}`n`, see {ref}`ch-x`:\n\n$$\nx = 1\n$$ (eq-x)\n\n| a | b |")
    6
    """
    text = re.sub(r"\$\$.*?\$\$( \([\w-]+\))?", "", markdown, flags=re.S)
    text = re.sub(r"(?m)^(\||:\w+:|`{3,}|\([\w-]+\)=).*$", "", text)
    text = re.sub(r"\$[^$]+\$|\{[\w:-]+\}`[^`]*`", " x ", text)
    return len(re.findall(r"\w[\w'’.,@-]*", text))


def size(chapter: Path) -> Size:
    """Count a chapter's text, `book/chapters/NN_name.md`."""
    cells = jupytext.read(chapter).cells
    code = [(c.source, set(c.metadata.get("tags", [])), c) for c in cells if c.cell_type == "code"]
    lines = [(len(s.splitlines()), bool(tags & HIDDEN)) for s, tags, _ in code]
    shown = [count for count, hidden in lines if not hidden]
    prose = [c.source for c in cells if c.cell_type == "markdown"]
    return Size(
        sum(map(words, prose)),
        sum(shown),
        max(shown, default=0),
        sum(count for count, hidden in lines if hidden),
        sum(len(re.findall(r"\bTable\(|\{table\}", s)) for s in [*prose, *(s for s, _, _ in code)]),
        sum("figure" in c.metadata.get("mystnb", {}) for _, _, c in code),
    )


def first_figures(names: list[str]) -> dict[str, int]:
    """How many pixels down the first figure of each built page starts, if a browser is there."""
    pages = {name: SITE / f"book/notebooks/{name}.html" for name in names}
    pages = {name: page for name, page in pages.items() if page.exists()}
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if not (pages and Path(CHROMIUM).exists()):
        return {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        offsets = {}
        for name, path in pages.items():
            page.goto(path.as_uri())
            offsets[name] = page.eval_on_selector_all(FIGURES, FIRST)
        browser.close()
    return {name: y for name, y in offsets.items() if y is not None}


def main() -> None:
    """Print a line for each chapter, and their sums."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [Path(c["file"]).name for part in toc["parts"] for c in part["chapters"]]
    names = [name for name in files if (ROOT / f"book/chapters/{name}.md").exists()]
    sizes = {name: size(ROOT / f"book/chapters/{name}.md") for name in names}
    first_offsets = first_figures(names)
    print(f"{'':22}" + "".join(f"{column_name:>9}" for column_name in Size._fields) + "  figure at")
    for name, chapter_size in sizes.items():
        row = "".join(f"{value:9,}" for value in chapter_size)
        print(
            f"{name:22}{row}" + (f"{first_offsets[name]:8,.0f} px" if name in first_offsets else "")
        )
    numbered = [chapter_size for name, chapter_size in sizes.items() if name[0].isdigit()]
    total = [sum(column) for column in zip(*numbered, strict=True)]
    print(f"{'numbered chapters':22}" + "".join(f"{value:9,}" for value in total))


if __name__ == "__main__":
    main()

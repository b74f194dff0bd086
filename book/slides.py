"""Make the slides of four lectures from the built chapters: ``python book/slides.py``.

A slide shows what a chapter's page shows: its question, figures, equations, code with what it
printed, tables, exercises, and its last sections. The prose after them becomes the speaker's notes
(press S). Nothing is computed here, so ``make book`` comes first.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
SLIDES = ROOT / "_build" / "slides"
PAGES = "book/notebooks"
CHAPTERS = ROOT / "book" / "chapters"


@dataclass(frozen=True)
class Lecture:
    """What a lecture is about; chapters by their names, since their numbers may change."""

    title: str
    chapters: tuple[str, ...]
    goal: str
    """What students can do afterwards."""
    take_home: tuple[str, ...]


LECTURES = {
    "lecture-1": Lecture(
        "Why sampled metrics mislead",
        ("metrics", "inconsistency"),
        "construct two recommenders that sampling puts in the wrong order, and say which metric is "
        "safe",
        (
            "A sampled metric can put two recommenders in the wrong order, even in expectation. "
            "More users do not change that.",
            "AUC keeps its order under uniform sampling; other metrics need not.",
            "Rank all items if you can. If you sample, report AUC beside your metric.",
        ),
    ),
    "lecture-2": Lecture(
        "What a sampled metric measures",
        ("sampled_rank", "one_negative", "movielens"),
        "write down the distribution of the sampled rank, and say which ranks a sampled metric "
        "looks at",
        (
            "Given the true rank, the sampled rank is one more than a binomial or hypergeometric "
            "count.",
            "Sampled Recall@k among m of n items looks at ranks near k n/m, not at the first k.",
            "With one negative and one relevant item, a metric gives the order of AUC, or none.",
        ),
    ),
    "lecture-3": Lecture(
        "What a correction can do",
        ("correcting", "corrected_movielens"),
        "correct a sampled metric, and say how often one corrected evaluation is right",
        (
            "A correction reports another number for each sampled rank.",
            "The weight of the variance decides between a biased and a noisy estimate.",
            "One corrected evaluation may show the wrong winner. Quote a range beside the value.",
        ),
    ),
    "lecture-4": Lecture(
        "What a sample can still tell",
        ("your_log", "published"),
        "quote an exact metric as a range, with its assumption and its warrant",
        (
            "One log is consistent with many exact values. Quote all of them: the interval.",
            "An interval needs its assumption and its warrant beside it.",
            "If the intervals of two methods in a table overlap, treat their order as undecided.",
        ),
    ),
}
#: Sections whose whole text is on slides, and sections that are not.
SHOWN = ("So what should I do?", "Recap", "Is X better than Z?")
LEFT_OUT = ("Next", "Further reading", "Closed forms", "Two negatives, then m")
#: Lines that fit on a slide, at the size that slides.css sets.
LINES = 17
CHARACTERS = 78
FOLDED = {"tag_hide-cell", "tag_hide-input", "tag_hide-output", "tag_setup", "tag_parameters"}


class SlidesError(Exception):
    """The slides cannot be made; the message says why."""


@dataclass
class Slide:
    """The blocks of a slide, and what the speaker says to them."""

    title: str
    blocks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: float = 0

    def html(self) -> str:
        notes = f'<aside class="notes">{"".join(self.notes)}</aside>' if self.notes else ""
        return f"<section><h2>{self.title}</h2>{''.join(self.blocks)}{notes}</section>"


def moved(html: str, page: str) -> str:
    """Links and images of a page as they are reached from the slides.

    >>> moved('<img src="../../_images/a.svg">', "book/notebooks/01_metrics.html")
    '<img src="../html/_images/a.svg">'
    """

    def new_address(match: re.Match[str]) -> str:
        address = match[2]
        if address.startswith("#"):
            address = f"../html/{page}{address}"
        elif not re.match(r"\w+:", address):
            address = posixpath.normpath(
                posixpath.join("../html", posixpath.dirname(page), address)
            )
        return f'{match[1]}="{address}"'

    return re.sub(r'\b(src|href)="([^"]*)"', new_address, html)


def classes(block: Tag) -> set[str]:
    """The classes of an element."""
    return set(block.get_attribute_list("class"))


def height(block: Tag) -> float:
    """About how many lines of a slide a block takes.

    >>> height(BeautifulSoup("<pre>a\\nb</pre>", "html.parser").pre)
    2.5
    """
    if block.find("img") or is_widget(block):
        return LINES
    if block.name == "table" or block.find("table"):
        return len(block.find_all("tr")) * 1.4 + len(block.get_text()) / CHARACTERS / 4 + 1
    if "math" in classes(block):
        return 2.0 + 1.6 * block.get_text().count("\\\\")
    if block.name == "pre" or block.find("pre"):
        return len(block.get_text().strip().splitlines()) + 0.5
    return sum(-(-len(text) // CHARACTERS) for text in block.get_text().splitlines() if text) + 0.5


def is_widget(block: Tag) -> bool:
    """Whether a script draws the block when the page opens."""
    return "sm-widget" in classes(block)


def is_folded(block: Tag) -> bool:
    """Whether a page shows the block only after a click, or it is none of the lecture's matter."""
    return bool((FOLDED | {"dropdown"}) & classes(block))


def is_exercise(block: Tag) -> bool:
    """Whether a paragraph begins an exercise."""
    pattern = r"(Exercise )?\d+( \([^)]*\))?\."
    return block.name == "p" and re.match(pattern, block.get_text()) is not None


def is_equation(block: Tag | None) -> bool:
    """Whether a block is an equation on a line of its own."""
    return block is not None and "math" in classes(block)


def cleaned(article: Tag) -> Tag:
    """A page's article without the anchors and buttons that the theme adds."""
    for extra in article.select("a.headerlink, button, script, .section-number"):
        extra.decompose()
    return article


def pack(title: str, blocks: list[Tag], page: str) -> list[Slide]:
    """Slides of a section: what is shown in its order, and prose as notes to what is on the slide.

    Equations stand with the sentences around them, and an exercise as a whole. Set-up and checks
    are left out.
    """
    slides, pending, exercise = [Slide(title)], list[str](), list[Tag]()
    for index, block in enumerate(blocks):
        if FOLDED & classes(block) or not is_something(block):
            continue
        after = blocks[index + 1] if index + 1 < len(blocks) else None
        before = blocks[index - 1] if index else None
        if "dropdown" in classes(block):
            slides = added(slides, title, exercise, page) if exercise else slides
            slides[-1].notes += [*pending, moved(str(block), page)]
            pending, exercise = [], []
        elif exercise or is_exercise(block):
            exercise.append(block)
        elif block.name in ("p", "ul", "ol"):
            text = block.get_text().strip()
            if is_equation(after) and is_short(block):
                continue  # it will stand above the equation
            if is_equation(before) and text[:1].islower():
                slides[-1].blocks.append(moved(str(block), page))
                slides[-1].lines += height(block)
            elif not slides[-1].blocks or text.endswith(":"):
                pending.append(moved(str(block), page))
            else:
                slides[-1].notes.append(moved(str(block), page))
        else:
            is_led = is_equation(block) and before is not None and is_short(before)
            shown = [before, block] if before is not None and is_led else [block]
            slides = added(slides, title, shown, page)
            slides[-1].notes += pending
            pending = []
    slides = added(slides, title, exercise, page) if exercise else slides
    slides[-1].notes += pending
    return slides


def is_something(block: Tag) -> bool:
    """Whether there is anything to see or to read in a block."""
    return bool(block.get_text().strip() or block.find("img")) or is_widget(block)


def is_short(block: Tag) -> bool:
    """Whether a paragraph is short enough to stand above the equation that it introduces."""
    is_long = len(block.get_text()) > 8 * CHARACTERS
    return block.name == "p" and not is_exercise(block) and not is_long


def added(slides: list[Slide], title: str, blocks: list[Tag], page: str) -> list[Slide]:
    """The slides with blocks that stay together, on a new one if they would not fit."""
    lines = sum(map(height, blocks))
    if slides[-1].blocks and slides[-1].lines + lines > LINES:
        slides = [*slides, Slide(title)]
    slides[-1].blocks += [moved(str(block), page) for block in blocks]
    slides[-1].lines += lines
    return slides


def whole(title: str, blocks: list[Tag], page: str) -> list[Slide]:
    """Slides that show all that is not folded, prose too."""
    slides = [Slide(title)]
    for block in blocks:
        if not is_folded(block):
            slides = added(slides, title, [block], page)
    return slides


def children(tag: Tag) -> list[Tag]:
    """The elements directly within another."""
    return [child for child in tag.children if isinstance(child, Tag)]


def chapter_slides(path: Path) -> list[Slide]:
    """The slides of one chapter's page."""
    page = path.relative_to(SITE).as_posix()
    soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    article = soup.select_one("article section")
    heading = article.find("h1") if article else None
    if article is None or heading is None:
        raise SlidesError(f"{path} has no chapter: run make book")
    cleaned(article)
    title = heading.decode_contents()
    sections = [block for block in children(article) if block.name == "section"]
    opening = [b for b in children(article) if b.name not in ("section", "h1", "span")]
    text = [block for block in opening if block.name == "p"]
    first = next((i for i, b in enumerate(opening) if b.name != "p"), len(opening))
    slides = whole(title, [b for b in opening[:first] if b in text], page)
    slides += [s for s in pack(title, opening[first:], page) if s.blocks]
    for section in sections:
        head = section.find(["h2"])
        name = head.decode_contents() if head else title
        plain = head.get_text() if head else ""
        blocks = [b for b in children(section) if b.name not in ("h2", "span")]
        # A subsection is read as part of its section.
        blocks = [c for b in blocks for c in (children(b) if b.name == "section" else [b])]
        if plain in LEFT_OUT:
            continue
        made = whole(name, blocks, page) if plain in SHOWN else pack(name, blocks, page)
        shown = [slide for slide in made if slide.blocks]
        slides += shown or whole(name, blocks, page)
    return slides


def deck(lecture: Lecture, chapters: list[list[Slide]]) -> str:
    """The page of a lecture: a column of slides for each chapter, its goal first and its end."""
    title = escape(lecture.title)
    names = "".join(f"<li>{slides[0].title}</li>" for slides in chapters)
    ending = "".join(f"<li>{escape(sentence)}</li>" for sentence in lecture.take_home)
    columns = "\n".join(
        f"<section>{''.join(slide.html() for slide in slides)}</section>" for slides in chapters
    )
    static = "../html/_static"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="{static}/favicon.svg">
<link rel="stylesheet" href="{static}/reveal/reset.css">
<link rel="stylesheet" href="{static}/reveal/reveal.css">
<link rel="stylesheet" href="{static}/pygments.css">
<link rel="stylesheet" href="{static}/widgets/widgets.css">
<link rel="stylesheet" href="{static}/reveal/slides.css">
<script src="{static}/widgets/load.js"></script>
</head><body><div class="reveal"><div class="slides">
<section><h1>{title}</h1><p>After this lecture you can {escape(lecture.goal)}.</p><ol>{names}</ol>
<p><small>Arrow keys move. S opens the speaker's notes, O an overview, and ?print-pdf at the end of
the address a version to print.</small></p></section>
{columns}
<section><h2>To take home</h2><ul>{ending}</ul></section>
</div></div>
<script src="{static}/reveal/reveal.js"></script>
<script src="{static}/reveal/notes.js"></script>
<script src="{static}/reveal/slides.js"></script>
<script src="{static}/mathjax/tex-svg-full.js"></script>
</body></html>
"""


def page_of(chapter: str) -> Path:
    """The built page of a chapter, by its name without the number.

    The name comes from the source, since the site also has pages at addresses of earlier editions.
    """
    names = [p.stem for p in CHAPTERS.glob("*.md") if p.stem.partition("_")[2] == chapter]
    if len(names) != 1:
        raise SlidesError(f"there is no chapter {chapter} in {CHAPTERS}")
    page = SITE / PAGES / f"{names[0]}.html"
    if not page.exists():
        raise SlidesError(f"there is no page {page}: run make book")
    return page


def main() -> None:
    """Write the slides, and say where they are."""
    SLIDES.mkdir(parents=True, exist_ok=True)
    for name, lecture in LECTURES.items():
        slides = [chapter_slides(page_of(chapter)) for chapter in lecture.chapters]
        file = SLIDES / f"{name}.html"
        file.write_text(deck(lecture, slides), encoding="utf-8")
        print(f"{sum(map(len, slides)) + 2} slides: open {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

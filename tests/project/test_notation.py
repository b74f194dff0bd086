"""Every letter in the mathematics of a page is in the tables of the notation, once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.words

BOOK = Path(__file__).resolve().parents[2] / "book"
NOTATION = BOOK / "notation.md"
PAGES = sorted({*BOOK.glob("*.md"), *BOOK.glob("chapters/*.md"), *BOOK.glob("library/*.md")})

GREEK = (
    r"alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau"
    r"|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell"
)
#: What a reader sees as code, or as the file's settings.
CODE = re.compile(
    r"\A---\n.*?\n---\n|^(`{3,})(?!`|\{(?!code))\S.*?^\1$|`[^`\n]*`", re.DOTALL | re.MULTILINE
)
MATH = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\$)(.+?)(?<!\\)\$", re.DOTALL)
#: Words in an equation, names of functions and upright letters, such as the d of an integral.
WORDS = re.compile(
    r"\\(?:text|mathrm|operatorname|begin|end)(?![a-zA-Z])\*?\s*(?:\{[^}]*\}|[a-zA-Z])"
)
LETTER = re.compile(
    rf"(\\mathcal)\s*\{{?([A-Z])\}}?|\\({GREEK})(?![a-zA-Z])|\\[a-zA-Z]+|([a-zA-Z])"
)
#: How a row of the second table says that a page quotes the letters of a paper.
QUOTED = "(the paper's letter)"


def letters(text: str) -> set[str]:
    """The letters in the mathematics of a page: Greek ones by name, `cal P` for a script P."""
    found = set()
    for displayed, inline in MATH.findall(CODE.sub(" ", text)):
        math = WORDS.sub(" ", displayed or inline)
        for script, capital, greek, latin in LETTER.findall(math):
            found.add(f"cal {capital}" if script else greek or latin)
    return found - {""}


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose first line begins with `head`."""
    _, table = text.split(f"\n{head}", 1)
    lines = table.split("\n\n", 1)[0].splitlines()[2:]
    return [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in lines
        if line[:1] == "|"
    ]


def everywhere(text: str) -> set[str]:
    """The letters of the first table, which mean the same on all pages."""
    return set().union(*(letters(row[0]) for row in rows(text, "| Symbol |")))


def by_page(text: str) -> list[tuple[str, set[str], str]]:
    """The label of the page, the letters and the meaning of each row of the second table."""
    return [
        (page.split("`")[1], letters(cell), meaning)
        for page, cell, meaning in rows(text, "| Page |")
    ]


def undefined(page: str, notation: str) -> set[str]:
    """The letters of a page that are in neither table of the notation."""
    own = [found for label, found, _ in by_page(notation) if f"({label})=\n" in page]
    return letters(page) - everywhere(notation).union(*own)


NOTATION_TEXT = NOTATION.read_text(encoding="utf-8")
MADE_UP = """\
(notation)=

| Symbol | Meaning |
| :--- | :--- |
| $n$, $\\tilde r$ | items, and a sampled rank of the $s$ |

| Page | Letter | Meaning |
| :--- | :--- | :--- |
| {ref}`here` | $\\mathcal P$, $a$ | pool, and something |
"""


def test_the_parser_finds_an_undefined_letter() -> None:
    page = r"""(here)=

In $\tilde r_{a} \le n$ dollars, `$c$`, \$5 and \$6 there are no new letters. There are in
$$
\sum_{\text{all}} \mathcal{P}(n) \frac{\lambda}{\mathrm{E}[n]} \, \mathrm{d}n
+ \operatorname{log} n + \textstyle\kappa y
$$ (eq-of-b)

```{code-cell}
"$d$"
```

```{admonition} Solution
It is $nq$.
```
"""
    assert undefined(page, MADE_UP) == {"lambda", "kappa", "y", "q"}
    elsewhere = page.replace("(here)=", "(there)=")
    assert undefined(elsewhere, MADE_UP) == {"lambda", "kappa", "y", "q", "a", "cal P"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_letter_of_a_page_is_in_the_notation(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path == NOTATION:  # the second table defines letters of other pages
        text = text.split("\n| Page |")[0]
    assert not undefined(text, NOTATION_TEXT)


def test_a_row_of_one_page_is_used_there_and_is_no_letter_of_all_pages() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PAGES]
    texts = [text.split("\n| Page |")[0] for text in texts]
    seen: set[tuple[str, str]] = set()
    for label, found, meaning in by_page(NOTATION_TEXT):
        (page,) = (text for text in texts if f"({label})=\n" in text)
        assert found
        assert found <= letters(page), (label, found)
        assert QUOTED in meaning or not found & everywhere(NOTATION_TEXT), (label, found)
        assert not {(label, letter) for letter in found} & seen, (label, found)
        seen |= {(label, letter) for letter in found}

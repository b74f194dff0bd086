"""A Sphinx extension: number appendices by the letter that their file begins with.

Sphinx numbers the parts of a table of contents with digits only, and counts the figures of all
unnumbered pages together. An appendix ``X_name`` gets the number X here, and its figures, tables
and equations the numbers X.1, X.2, ...
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from docutils.nodes import reference


def letter(page: str) -> str:
    """Return the letter of an appendix; empty for any other page.

    >>> letter("book/notebooks/C_decoy_experiment"), letter("book/notebooks/01_metrics")
    ('C', '')
    """
    match = re.match(r"([A-Z])_", PurePosixPath(page).name)
    return match[1] if match else ""


def lettered(page: str, numbers: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Number what an appendix holds, anew from 1 and in the order that Sphinx gave it.

    >>> lettered("C_decoy_experiment", {"fig-b": (8,), "fig-a": (7,)})
    {'fig-a': ('C', 1), 'fig-b': ('C', 2)}
    """
    in_order = sorted(numbers, key=lambda name: numbers[name])
    return {name: (letter(page), i) for i, name in enumerate(in_order, start=1)}


def number_appendices(app: Any, env: Any) -> list[str]:
    """Put letters in place of the numbers that Sphinx gave; return the pages that changed."""
    pages = [page for page in env.all_docs if letter(page)]
    for page in pages:
        title_in_contents = next(env.tocs[page].findall(reference))
        for title in (title_in_contents, env.titles[page]):
            title["secnumber"] = (letter(page),)
        env.toc_secnumbers.setdefault(page, {})[""] = (letter(page),)
        for kind, numbers in env.toc_fignumbers.get(page, {}).items():
            env.toc_fignumbers[page][kind] = lettered(page, numbers)
    return pages


def setup(app: Any) -> dict[str, bool]:
    """Register the extension, to run after Sphinx has numbered all pages."""
    app.connect("env-get-updated", number_appendices, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

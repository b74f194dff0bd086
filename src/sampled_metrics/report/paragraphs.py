"""Sentences as lines that a terminal shows without breaking them."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable

#: The most characters of a line.
_WIDTH = 96


def paragraphs(sentences: Iterable[str]) -> str:
    """Each sentence in lines as wide as a narrow terminal, at most 96 characters.

    >>> print(paragraphs(["word " * 20 + "end", "next"]), end="")
    word word word word word word word word word word word word word word word word word word word
    word end
    next
    """
    width = _terminal_width()
    return "".join("\n".join(textwrap.wrap(sentence, width)) + "\n" for sentence in sentences)


def _terminal_width() -> int:
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (AttributeError, OSError, ValueError):  # no terminal
        return _WIDTH
    return min(columns, _WIDTH) if columns >= 20 else _WIDTH

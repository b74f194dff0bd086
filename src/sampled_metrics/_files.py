"""Write files atomically: a temporary file in the same folder is renamed when complete."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ._validate import shortened

#: Text formats of tables.
FORMATS = ("table", "json", "csv", "markdown")
#: Text format by file suffix.
SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".txt": "table"}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a temporary file to write; renamed to `path` at the end, removed on errors.

    Links are followed, so that the target is replaced and not the link.
    """
    target = path.resolve()
    part = _new(target.parent)
    try:
        yield part
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _new(folder: Path) -> Path:
    while True:
        part = folder / f".{secrets.token_hex(8)}.part"
        with suppress(FileExistsError):
            part.touch(exist_ok=False)
            return part


def put(path: Path, content: bytes) -> Path:
    """Write a file atomically, creating its folder if necessary; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        beside.write_bytes(content)
    return path


def named(path: object) -> str:
    """A path for an error message."""
    return shortened(str(path), 300)

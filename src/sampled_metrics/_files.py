"""How every file is written: beside its place, under a name of its own, and renamed when whole."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ._validate import shortened

#: Ways to write a table as text.
FORMATS = ("table", "json", "csv", "markdown")
#: The format of a file by how its name ends.
SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".txt": "table"}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a new, empty file to write to: renamed to `path` at the end, removed on errors.

    Its name is one that no file in the folder has. A link is followed.
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
    """Write a file beside the old one, make its folder if need be, and rename it; its path.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     put(Path(folder) / "new" / "a.txt", b"text").read_bytes()
    b'text'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        beside.write_bytes(content)
    return path


def named(path: object) -> str:
    """A path as messages show it."""
    return shortened(str(path), 300)

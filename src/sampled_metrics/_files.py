"""Files that are written atomically.

A file is written under a temporary name in the same folder, and renamed when complete.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

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
    temporary_path = _new(target.parent)
    try:
        yield temporary_path
        temporary_path.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary_path.unlink()
        raise


def _new(folder: Path) -> Path:
    while True:
        temporary_path = folder / f".{secrets.token_hex(8)}.part"
        with suppress(FileExistsError):
            temporary_path.touch(exist_ok=False)
            return temporary_path


def put(path: Path, content: bytes) -> Path:
    """Write a file atomically, creating its folder if necessary; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary_path:
        temporary_path.write_bytes(content)
    return path


def named(path: object) -> str:
    """A path for an error message."""
    return shortened(str(path), 300)


class OutputFiles:
    """The files that a command writes: all of them appear, complete, or none."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._targets: set[Path] = set()

    def add(self, path: Path, inputs: Sequence[str | Path | None] = ()) -> Path:
        """Check that a file can be written, and return the temporary path to write to."""
        target = path.resolve()
        if target.exists() and not target.is_file():
            raise ValueError(f"{path} must be a file to write to, not a folder or a device")
        if target in self._targets:
            raise ValueError(f"{path} is named for two outputs")
        if any(name is not None and Path(name).resolve() == target for name in inputs):
            raise ValueError(f"{path} is an input, and would be overwritten")
        try:
            temporary_path = self._open.enter_context(replacing(target))
        except OSError as problem:
            raise ValueError(f"{path} cannot be written: {problem.strerror}") from None
        self._targets.add(target)
        return temporary_path

    def __enter__(self) -> OutputFiles:
        return self

    def __exit__(self, *problem: Any) -> None:
        self._open.__exit__(*problem)

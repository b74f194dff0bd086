"""Whether what the ranks that are kept were made from has changed, and if so, to make them anew.

    python .ci/ranks.py changed          name what has changed; the exit status is 1 if anything has
    python .ci/ranks.py compare [NAME]   compute the ranks of NAME anew (of all, if none is named),
                                         compare them with those kept, and note what was read

To compute them takes gigabytes of packages and ten minutes, and finds the same again as long as
nothing has changed of what is read: the code that runs, the data, the pinned packages, and the
ranks that are kept.  `compare` writes these down in ranks.json, each by a digest, once the ranks
have come out as they are kept.  Nothing is listed by hand: the code is that of the modules which
the computation has imported, the data are the files that it has opened.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTE = Path(__file__).with_name("ranks.json")
#: What computes ranks and compares them: modules of sampled_book.data that take --check.
NAMES = ("recommenders", "study", "benchmark")
PINS = "constraints-study.txt"
FOLDER_VARIABLE = "SAMPLED_METRICS_DATA"

Note = Mapping[str, Mapping[str, str]]


def meaning(code: str) -> str:
    """What a module does, as text: without comments and docstrings, the same on every Python.

    >>> meaning("def f(x):\\n    'Add one.'\\n    return x + 1  # so") == meaning(
    ...     "def f(x):\\n\\n    return (x + 1)"
    ... )
    True
    >>> meaning("x = 1") == meaning("x = 2")
    False
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]

    def text(value: Any) -> str:
        if isinstance(value, ast.AST):  # what is empty is left out: newer Pythons have more fields
            parts = [(name, text(part)) for name, part in ast.iter_fields(value)]
            inside = ", ".join(f"{name}={part}" for name, part in parts if part not in ("", "[]"))
            return f"{type(value).__name__}({inside})"
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        return "" if value is None else repr(value)

    return text(tree)


def digest(path: Path) -> str:
    """A hash of a file: of what it does if it is a module, of its bytes if not."""
    content = path.read_bytes()
    if path.suffix == ".py":
        content = meaning(content.decode()).encode()
    return hashlib.sha256(content).hexdigest()


def place(name: str, root: Path, data: Path | None) -> Path | None:
    """Where the note's `name` is: in the repository, or after "data:" in the folder of the data."""
    if not name.startswith("data:"):
        return root / name
    return data / name.removeprefix("data:") if data else None


def changed(
    note: Note, root: Path, data: Path | None, names: Iterable[str] = NAMES
) -> dict[str, list[str]]:
    """For each name of which something has changed since its ranks were compared: what."""
    found = {}
    for name in names:
        read = note.get(name, {})
        now = {each: place(each, root, data) for each in read}
        other = [
            each
            for each, path in now.items()
            if path is None or not path.is_file() or digest(path) != read[each]
        ]
        if other or not read:
            found[name] = other or ["it has never been compared"]
    return found


class Watch:
    """The files that Python opens from now on."""

    def __init__(self) -> None:
        self.opened: set[Path] = set()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | os.PathLike):
            self.opened.add(Path(arguments[0]).absolute())

    def read(self, root: Path, data: Path) -> dict[str, str]:
        """By name the digest of each module imported and file opened, and of the pins."""
        modules = {Path(f) for m in [*sys.modules.values()] if (f := getattr(m, "__file__", None))}
        kept = {path for path in self.opened if path.suffix != ".pyc" and path.is_file()}
        names = {
            prefix + path.relative_to(where).as_posix(): path
            for where, prefix in ((root / "src", "src/"), (data, "data:"))
            for path in modules | kept
            if path.is_relative_to(where)
        }
        names[PINS] = root / PINS
        return {name: digest(path) for name, path in sorted(names.items())}


def compare(name: str, data: Path) -> bool:
    """Compute one anew in this process; if it comes out as it is kept, note what was read."""
    watch = Watch()
    if importlib.import_module(f"sampled_book.data.{name}").main(["--check"]):
        return False
    read = watch.read(ROOT, data)
    note = json.loads(NOTE.read_text(encoding="utf-8")) if NOTE.exists() else {}
    beside = NOTE.with_suffix(".new")
    beside.write_text(json.dumps(note | {name: read}, indent=1, sort_keys=True) + "\n")
    beside.replace(NOTE)
    return True


def main(command: str, *names: str) -> int:
    data = Path(os.environ[FOLDER_VARIABLE]).absolute() if FOLDER_VARIABLE in os.environ else None
    if command == "changed":
        note = json.loads(NOTE.read_text(encoding="utf-8")) if NOTE.exists() else {}
        found = changed(note, ROOT, data)
        for name, what in found.items():
            print(f"{name}: {', '.join(what)}")
        return int(bool(found))
    if data is None:
        sys.exit(f"{FOLDER_VARIABLE} must name the folder that holds the data")
    if len(names) == 1:
        return int(not compare(names[0], data))
    # A process for each: what one imports is not what another needs.
    again = [sys.executable, __file__, "compare"]
    return max([os.spawnv(os.P_WAIT, sys.executable, [*again, n]) for n in names or NAMES])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

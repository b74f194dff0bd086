"""How the commands of the laboratory write bundled files, or compare them with what is kept."""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics._files import put


def write_arrays(path: Path, **arrays: Any) -> Path:
    """Write a compressed file of arrays beside the old one and rename it; its path.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.load(write_arrays(Path(folder) / "a.npz", a=np.arange(3)))["a"]
    array([0, 1, 2])
    """
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return put(path, packed.getvalue())


def write_table(path: Path, table: pd.DataFrame, digits: int) -> Path:
    r"""Write a table with so many digits, compressed where the name ends in .gz; its path.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_table(Path(folder) / "a.csv", pd.DataFrame({"a": [1 / 3]}), 2).read_text()
    'a\n0.33\n'
    """
    packed = io.BytesIO()
    # Without the time of writing, the same table gives the same bytes.
    packing: Any = {"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None
    table.to_csv(packed, index=False, float_format=f"%.{digits}g", compression=packing)
    return put(path, packed.getvalue())


def write_json(path: Path, content: Any) -> Path:
    r"""Write values as JSON; its path.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "a.json", {"a": 1}).read_text()
    '{\n "a": 1\n}\n'
    """
    return put(path, (json.dumps(content, indent=1) + "\n").encode())


def parser(module: str, description: str | None, check: str = "") -> argparse.ArgumentParser:
    """The parser of a command: ``--output``, and ``--check`` where its help is given.

    >>> parser("sampled_book.data.study", "Compute.", "compare").parse_args(["--check"])
    Namespace(output=None, check=True)
    """
    command_parser = argparse.ArgumentParser(prog=module, description=description)
    command_parser.add_argument(
        "--output", type=Path, help="folder to write to; default: the package's"
    )
    if check:
        command_parser.add_argument("--check", action="store_true", help=check)
    return command_parser


def timed(name: str) -> Callable[[str], None]:
    """Print each task of a data set as it begins, with the processor seconds of those before."""
    start = time.process_time()
    return lambda task: print(f"{name}, {task}, {time.process_time() - start:.0f} s", flush=True)


def run(
    write: Callable[[], Iterable[object] | None],
    compare: Callable[[], list[str]] | None = None,
    success_text: str = "",
    extra: str = "",
) -> int:
    """Write a bundle and print the files, or, with `compare`, print a sentence for each difference
    from what is kept, or `success_text`. `extra` names the package's extra that installs a missing
    library. Returns the exit status: 2 if a library or the data cannot be had, 1 if there is a
    difference.

    >>> run(lambda: ["a.npz"]), run(list, lambda: ["a: others"]), run(list, list, "As kept.")
    a.npz
    a: others
    As kept.
    (0, 1, 0)
    """
    try:
        if compare is not None:
            differences = compare()
            print("\n".join(differences) or success_text)
            return int(bool(differences))
        for line in write() or ():
            print(line, flush=True)
    except (ImportError, OSError, ValueError) as problem:
        hint = f": install the extra {extra}" if extra and isinstance(problem, ImportError) else ""
        print(f"error: {problem}{hint}", file=sys.stderr)
        return 2
    return 0

"""Run a command with the terms of its matrix products added up in an order drawn from a seed.

    .venv/bin/python -m tests.rounding.run SEED COMMAND...

A machine runs only the OpenBLAS kernels of its own processor, and kernels differ in the order in
which they add.  A test that passes here and fails with some seed would fail on some processor: its
computation is ill-conditioned, decides a tie, or stops early, or its tolerance is tighter than the
accuracy that is promised.  `rounding.c` says what is permuted.  The same seed gives the same bits.

Needs Linux, a C compiler, and NumPy and SciPy from wheels with OpenBLAS.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("rounding.c")
BUILD = ROOT / "_build" / "rounding"

#: One product of each package, and whether both were permuted.
PROBE = """
import ctypes, sys
import numpy, scipy.linalg.blas
numpy.ones((4, 4)) @ numpy.full((4, 4), 2.0)
scipy.linalg.blas.dgemm(1.0, numpy.ones((4, 4)), numpy.full((4, 4), 2.0))
loaded = ctypes.CDLL(None)
sys.exit(not (loaded.rounding_calls_of_numpy() and loaded.rounding_calls_of_scipy()))
"""


class Unavailable(Exception):
    """Terms cannot be permuted on this machine; the message is a sentence that says why."""


def library(build: Path = BUILD) -> Path:
    """The compiled library, compiled first where it is not there yet."""
    if sys.platform != "linux":
        raise Unavailable("The terms of products are permuted on Linux only.")
    path = build / f"rounding-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}.so"
    if path.exists():
        return path
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        raise Unavailable(
            f"The terms of products are not permuted: there is no C compiler ({compiler[0]})."
        )
    build.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")  # several processes may compile at once
    options = ["-O2", "-shared", "-fPIC", "-Wall", "-Wextra"]
    command = [*compiler, *options, "-o", str(unfinished), str(SOURCE), "-ldl"]
    if subprocess.run(command, check=False).returncode:
        raise Unavailable(
            f"The terms of products are not permuted: {compiler[0]} does not compile {SOURCE.name}."
        )
    unfinished.replace(path)
    return path


def variables(seed: int, python: str = sys.executable) -> dict[str, str]:
    """The environment variables under which the products of a Python's packages are permuted."""
    settings = {
        "LD_PRELOAD": str(library()),
        "ROUNDING_SEED": str(seed),
        "OPENBLAS_NUM_THREADS": "1",
    }
    probe = subprocess.run(
        [python, "-c", PROBE], env=os.environ | settings, check=False, stderr=subprocess.DEVNULL
    )
    if probe.returncode:
        raise Unavailable(
            "The terms of products are not permuted: NumPy and SciPy do not come from wheels "
            "with OpenBLAS."
        )
    return settings


def main(seed: str, *command: str) -> None:
    if not seed.isdecimal() or not command:
        sys.exit(f"The seed must be a number >= 0, followed by a command; got {seed!r}.")
    try:
        settings = variables(int(seed))
    except Unavailable as why:
        sys.exit(str(why))
    os.execvpe(command[0], command, os.environ | settings)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))

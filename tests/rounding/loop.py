"""The library's numerical tests with the products' terms in many orders, on several kernels.

    make test-rounding
    make test-rounding ARGS='--seeds 1-4 --kernels Haswell -- tests/sampled_metrics/test_priors.py'

Each seed and kernel is a run of the tests; what has passed is kept in `_build/rounding`, and the
loop goes on where it was stopped.  A change of the library, its tests or the pinned packages begins
anew.  At the end the margins of the comparisons are reported (`margins.py`).
"""

import argparse
import hashlib
import os
import subprocess
import sys

from .margins import passed, report
from .run import BUILD, ROOT, Unavailable, variables

#: What decides whether a test passes.
MADE_FROM = ["src/sampled_metrics", "tests/sampled_metrics", "tests/rounding"]
ALSO = ["conftest.py", "pyproject.toml", "constraints.txt"]


def digest() -> str:
    """A digest of the library, its tests and the pinned packages."""
    found = hashlib.sha256()
    files = [path for folder in MADE_FROM for path in (ROOT / folder).rglob("*")]
    for path in sorted([*files, *(ROOT / name for name in ALSO)]):
        if path.is_file() and "__pycache__" not in path.parts:
            found.update(str(path.relative_to(ROOT)).encode() + b"\0")
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]


def numbers(text: str) -> list[int]:
    """The seeds that a text like 1-4,7 lists.

    Examples
    --------
    >>> numbers("1-4,7")
    [1, 2, 3, 4, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Run numerical tests with many orders of terms.")
    parser.add_argument("--seeds", type=numbers, default=numbers("1-16"))
    parser.add_argument("--kernels", nargs="+", default=["Haswell", "Nehalem"])
    parser.add_argument("--workers", default="logical", help="processes, as pytest -n takes them")
    parser.add_argument("tests", nargs="*", help="files or options for pytest, after --")
    given = parser.parse_args()
    tests = given.tests or ["tests/sampled_metrics", "src/sampled_metrics"]
    kept = BUILD / digest()
    failed, folders = [], []
    for seed in given.seeds:
        for kernel in given.kernels:
            folder = kept / f"{kernel}-{seed}"
            folders.append(folder)
            ended = folder / hashlib.sha256("\0".join(tests).encode()).hexdigest()[:12]
            if not ended.exists():
                command = [
                    *(sys.executable, "-m", "pytest", "-q", "-m", "numerical", *tests),
                    *("-n", given.workers, "--maxprocesses=8", "--dist=worksteal"),
                    f"--margins={folder}",
                ]
                try:
                    chosen = variables(seed) | {"OPENBLAS_CORETYPE": kernel}
                except Unavailable as why:
                    sys.exit(str(why))
                print(f"--- {kernel}, seed {seed}", flush=True)
                code = subprocess.run(
                    command, env=os.environ | chosen, cwd=ROOT, check=False
                ).returncode
                if code == 2:  # stopped by hand, or a test file could not be read
                    return code
                if code == 0 or (code == 5 and any(passed(folder))):  # 5: all had passed before
                    folder.mkdir(parents=True, exist_ok=True)
                    ended.touch()
                else:
                    failed.append(f"FAILED: {kernel}, seed {seed}")
            print(f"{kernel}, seed {seed}: {len(dict(passed(folder)))} tests passed", flush=True)
    text, above = report(folders)
    print("\n".join([text, *failed]))
    return int(bool(failed) or above > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Run a command with the library's default integer at 32 bits, as with NumPy 1.26 on Windows.

    .venv/bin/python -m tests.int32.run COMMAND...

Every Python that the command starts imports the library as `simulation.py` says, which also lists
what differs from a real platform.  A test that fails only here would fail under WebAssembly, and
mostly also on Windows with NumPy 1.26: name the type, np.int64 or np.intp, where the test fails.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIMULATION = Path(__file__).with_name("simulation.py")
BUILD = ROOT / "_build" / "int32"


def variables(build: Path = BUILD) -> dict[str, str]:
    """The environment variables under which each new Python simulates the default integer."""
    build.mkdir(parents=True, exist_ok=True)
    startup = f"import runpy\nrunpy.run_path({str(SIMULATION)!r})['install']()\n"
    unfinished = build / f"startup.{os.getpid()}"  # several processes may write at once
    unfinished.write_text(startup, encoding="utf-8")
    unfinished.replace(build / "sitecustomize.py")
    paths = [str(build), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def main(*command: str) -> None:
    if not command:
        sys.exit("A command is needed.")
    os.execvpe(command[0], command, os.environ | variables())


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Install a file of pins, and this project beside it, into a virtual environment.

    python .ci/install.py ENVIRONMENT PINS [SECTION]

The sections after SECTION are left out.

Nothing is resolved: a file of pins names all that is needed, so pip only fetches and checks hashes.
(With resolution, pip 23 refuses a file of hashes as soon as a package that another one asks for
with an extra has a newer release.)  `pip check` then says whether anything is missing.

An environment whose installation was interrupted holds a file ``unfinished``: the next run empties
it and starts afresh, with pip's cache of what was fetched.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 11)
#: Messages of pip, and their causes.
CAUSES = {
    "No space left on device": "the disk is full",
    "No matching distribution": "the package index was not reached, or lacks a pinned release",
    "ReadTimeout": "the package index did not answer in time",
    "Failed to establish a new connection": "the package index was not reached",
    "HASHES": "a package is not the one that was pinned",
}


class InstallError(Exception):
    """The environment cannot be installed; the message says why."""


def run(*command: str) -> None:
    """Run a command silently; an error says what its output means."""
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()] or ["no output"]
        errors = [line for line in lines if "ERROR" in line or "Error" in line] or lines
        known = [cause for words, cause in CAUSES.items() if words in done.stdout]
        last = errors[-1].strip().rstrip(".")
        raise InstallError(f"{known[0]} ({last})" if known else "\n".join([*lines[-20:], last]))


def install_pins(python: str, pins: Path) -> None:
    """Install the packages that a file pins, by a Python with pip."""
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    patience = ("--timeout", "60", "--retries", "8")
    quiet = ("--quiet", "--no-compile", "--no-deps")
    run(*pip, "install", *quiet, *patience, "--require-hashes", "-r", str(pins))


def upto(section: str, pins: str) -> str:
    """Return a text of pins without the sections after this one."""
    before, heading, after = pins.partition(f"\n# --- {section} ---\n")
    if not heading:
        raise InstallError(f"no section {section!r} in the file of pins")
    return before + heading + after.partition("\n# --- ")[0]


def install(environment: Path, pins: str) -> None:
    """Make a virtual environment with a text of pins and this project, or complete one."""
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        raise InstallError(f"Python {'.'.join(map(str, OLDEST))} or newer is needed, not {found}")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise InstallError(f"{sys.executable} has no venv (on Debian: python3-venv)") from None
    unfinished = environment / "unfinished"
    again = ["--clear"] if unfinished.exists() else []
    environment.mkdir(parents=True, exist_ok=True)
    unfinished.touch()
    run(sys.executable, "-m", "venv", *again, str(environment))
    unfinished.touch()
    python = str(environment / "bin" / "python")
    listed = environment / "pins.txt"
    listed.write_text(pins, encoding="utf-8")
    install_pins(python, listed)
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", "-e", ".")
    run(*pip, "check")
    unfinished.unlink(missing_ok=True)


def main() -> int:
    environment, pins, *section = sys.argv[1:]
    print(f"Installing the pinned packages into {environment}: a minute or more", flush=True)
    try:
        text = (ROOT / pins).read_text(encoding="utf-8")
        install(ROOT / environment, upto(*section, text) if section else text)
    except (InstallError, OSError) as why:
        print(f"{environment} was not installed: {why}.", file=sys.stderr)
        if (ROOT / environment / "unfinished").exists():
            print(
                "Run the same command again: what was fetched is not fetched again.",
                file=sys.stderr,
            )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

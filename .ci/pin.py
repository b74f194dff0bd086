"""Write the files of pins: every package the project needs, with hashes (needs uv).

constraints.txt has a section for each thing a reader may want, each adding to those before it:
what the book needs, what the tests need besides, then the benchmarks, then the browser test.  The
Makefile installs up to the section it needs.  All sections come from one resolution, so that
versions never conflict.  constraints-study.txt is for `make ranks` alone: LensKit brings several
gigabytes and needs an older pandas, so it has an environment of its own.  constraints-lowest.txt is
for `make test-lowest`: what the library asks for in the lowest versions that it takes.
constraints-lab.txt is what `make lab` needs besides the first section of constraints.txt.
constraints-peers.txt is for `make test-peers`: the libraries whose results are read.
constraints-graphs.txt is for `make graph-ranks` and `make test-graphs`: PyKEEN, whose PyTorch is
newer than the one that RecBole takes.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "book": ["book"],
    "test": ["book", "ranks", "parquet", "test"],
    "benchmarks": ["book", "ranks", "parquet", "test", "benchmarks"],
    "site": ["book", "ranks", "parquet", "test", "benchmarks", "site"],
}
HEADER = """\
# Written by `make constraints`; do not edit.  Python 3.11 to 3.13 on Linux and macOS.
# The Makefile installs the sections up to the one it needs, with pip's --require-hashes.
"""
STUDY = ["ranks", "study"]
STUDY_HEADER = """\
# Written by `make constraints`; do not edit.  Python 3.11 to 3.13 on Linux and macOS.
# For `make ranks`, in an environment of its own, with pip's --require-hashes.

"""
LOWEST = ["parquet", "report"]
#: What the tests of the library need besides.
TESTING = {"hypothesis", "mpmath", "pytest", "scikit-learn"}
#: Matplotlib's lowest version uses names that pyparsing has deprecated since.
BEFORE = ["pyparsing>=3.2,<3.3"]
LOWEST_HEADER = """\
# Written by `make constraints`; do not edit.  Python 3.11 on Linux and macOS.
# For `make test-lowest`, in an environment of its own, with pip's --require-hashes.

"""
LAB = ["book", "lab"]
LAB_HEADER = """\
# Written by `make constraints`; do not edit.  Python 3.11 to 3.13 on Linux and macOS.
# For `make lab`, after the first section of constraints.txt, with pip's --require-hashes.

"""
PEERS = ["parquet", "peers"]
PEERS_HEADER = """\
# Written by `make constraints`; do not edit.  Python 3.11 on Linux (x86-64).
# For `make test-peers`, in an environment of its own, with pip's --require-hashes.

"""
#: RecBole takes a version of Ray, and a PyTorch, that exist for few systems.
PEERS_SYSTEM = ("--no-universal", "--python-platform", "x86_64-manylinux_2_28")
#: What the Ray and the PyTorch that RecBole takes import without asking for it.
PEERS_BEFORE = ["setuptools<82", "six"]
GRAPHS = ["parquet", "graphs"]
GRAPHS_HEADER = """\
# Written by `make constraints`; do not edit.  Python 3.11 on Linux (x86-64).
# For `make graph-ranks` and `make test-graphs`, in an environment of its own, with pip's
# --require-hashes.

"""
# One line for a release: its name, version and marker; hashes follow on continuation lines.
RELEASE = re.compile(r"(?m)^(?=[a-z0-9])")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def resolve(extras: list[str], *options: str, besides: Sequence[str] = ()) -> list[str]:
    """Return the releases that the package with these extras needs, each with its hashes."""
    needed = [*PROJECT["build-system"]["requires"], *besides]
    command = [
        *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *("--generate-hashes", "--no-emit-index-url", "--no-annotate", "--no-header"),
        *("--only-binary", ":all:", *options, "pyproject.toml", "-"),
        *(f"--extra={extra}" for extra in extras),
    ]
    done = subprocess.run(
        command, cwd=ROOT, input="\n".join(needed), stdout=subprocess.PIPE, text=True, check=True
    )
    return [release.strip() for release in RELEASE.split(done.stdout) if release.strip()]


def version(release: str) -> str:
    """Return the name and version of a release."""
    return release.split(maxsplit=1)[0]


def testing() -> list[str]:
    """Return what the tests of the library need besides, as pyproject.toml asks for it."""
    extras = PROJECT["project"]["optional-dependencies"]
    lines = {line for extra in ("book", "test") for line in extras[extra]}
    return sorted(line for line in lines if re.split(r"[<>=!~]", line)[0] in TESTING)


def lowest() -> list[str]:
    """Return the lowest releases that the library takes, and what tests them."""
    return resolve(LOWEST, "--resolution", "lowest-direct", besides=[*testing(), *BEFORE])


def peers() -> list[str]:
    """Return the libraries whose results are read, and what tests the readers."""
    return resolve(PEERS, *PEERS_SYSTEM, besides=[*testing(), *PEERS_BEFORE])


def graphs() -> list[str]:
    """Return PyKEEN and OGB, and what tests their readers."""
    return resolve(GRAPHS, *PEERS_SYSTEM, besides=testing())


def lab(pins: Path) -> list[str]:
    """Return what JupyterLab needs beside the book, in the versions that are pinned already."""
    book, both = (resolve(extras, "--constraint", str(pins)) for extras in (["book"], LAB))
    return [release for release in both if release not in book]


def main() -> None:
    everything = resolve(SECTIONS["site"])
    pins = ROOT / "_build" / "pins.txt"
    pins.parent.mkdir(exist_ok=True)
    pins.write_text("\n".join(everything))
    text, left = HEADER, {version(release): release for release in everything}
    for section, extras in SECTIONS.items():
        # As all sections together need it: one alone may need a release on fewer systems.
        found = map(version, resolve(extras, "--constraint", str(pins)))
        releases = [left.pop(name) for name in found if name in left]
        text += f"\n# --- {section} ---\n" + "\n".join(releases) + "\n"
    if left:
        sys.exit(f"no section has {', '.join(left)}")
    (ROOT / "constraints.txt").write_text(text)
    (ROOT / "constraints-study.txt").write_text(STUDY_HEADER + "\n".join(resolve(STUDY)) + "\n")
    (ROOT / "constraints-lowest.txt").write_text(LOWEST_HEADER + "\n".join(lowest()) + "\n")
    (ROOT / "constraints-peers.txt").write_text(PEERS_HEADER + "\n".join(peers()) + "\n")
    (ROOT / "constraints-graphs.txt").write_text(GRAPHS_HEADER + "\n".join(graphs()) + "\n")
    (ROOT / "constraints-lab.txt").write_text(LAB_HEADER + "\n".join(lab(pins)) + "\n")


if __name__ == "__main__":
    main()

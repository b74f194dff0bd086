"""Write the files of pins: every package the project needs, with hashes (needs uv).

The sections of requirements/project.txt come from one resolution, so that their versions never
conflict; the Makefile installs the sections that it needs.  Each other file stands alone, and its
first lines say why.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEADER = """\
# Written by `make requirements`; do not edit.  Python {python}.
# {purpose}
"""
#: Each section adds to those before it.
SECTIONS = {
    "book": ["book"],
    "test": ["ranks", "parquet", "test"],
    "site": ["site"],
    "lab": ["lab"],
}
ANY = "3.11 to 3.13 on Linux and macOS"
PURPOSE = "The Makefile installs the sections that it needs, with pip's --require-hashes."
#: RecBole takes a version of Ray, and a PyTorch, that exist for few systems.
X86 = ("--no-universal", "--python-platform", "x86_64-manylinux_2_28")
#: What the tests of the library need besides.
TESTING = {"hypothesis", "mpmath", "pytest", "scikit-learn"}
#: For each file that stands alone: what it installs, for which systems, and why it stands alone.
ALONE = {
    "study": (
        ["ranks", "study"], [], (), ANY,
        "For `make ranks`: LensKit needs an older pandas, and brings gigabytes.",
    ),
    "lowest": (
        ["parquet", "report"],
        # Matplotlib's lowest version uses names that pyparsing has deprecated since.
        [*TESTING, "pyparsing>=3.2,<3.3"],
        ("--resolution", "lowest-direct"), "3.11 on Linux and macOS",
        "For `make test-lowest`: the lowest versions that the library takes.",
    ),
    "peers": (
        ["parquet", "peers"],
        # What the Ray and the PyTorch that RecBole takes import without asking for it.
        [*TESTING, "setuptools<82", "six"], X86, "3.11 on Linux (x86-64)",
        "For `make test-peers`: RecBole needs a PyTorch and a Ray of 2023.",
    ),
    "graphs": (
        ["parquet", "graphs"], [*TESTING], X86, "3.11 on Linux (x86-64)",
        "For `make graph-ranks` and `test-graphs`: libraries with a newer PyTorch than RecBole's.",
    ),
    "release": (
        ["release"], [], (), ANY,
        "For `make release-check`: needed by whoever publishes, and by nobody else.",
    ),
}  # fmt: skip
# One line for a release: its name, version and marker; hashes follow on continuation lines.
RELEASE = re.compile(r"(?m)^(?=[a-z0-9])")


def resolve(sets: Sequence[str], *options: str, besides: Sequence[str] = ()) -> list[str]:
    """Return the releases that extras and groups of the project need, each with its hashes."""
    groups = PROJECT["dependency-groups"]
    needed = [*PROJECT["build-system"]["requires"], *besides]
    command = [
        *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *("--generate-hashes", "--no-emit-index-url", "--no-annotate", "--no-header"),
        *("--only-binary", ":all:", *options, "pyproject.toml", "-"),
        *(f"--{'group' if name in groups else 'extra'}={name}" for name in sets),
    ]
    done = subprocess.run(
        command, cwd=ROOT, input="\n".join(needed), stdout=subprocess.PIPE, text=True, check=True
    )
    return [release.strip() for release in RELEASE.split(done.stdout) if release.strip()]


def version(release: str) -> str:
    """Return the name and version of a release."""
    return release.split(maxsplit=1)[0]


def bounded(name: str) -> str:
    """Return a package of the tests with the bound that pyproject.toml gives it."""
    asked = [*PROJECT["project"]["optional-dependencies"]["book"]]
    asked += PROJECT["dependency-groups"]["test"]
    return next((line for line in asked if re.split(r"[<>=!~]", line)[0] == name), name)


def shared() -> str:
    """Return the sections of project.txt."""
    everything = resolve([name for sets in SECTIONS.values() for name in sets])
    pins = ROOT / "_build" / "pins.txt"
    pins.parent.mkdir(exist_ok=True)
    pins.write_text("\n".join(everything))
    text, left = "", {version(release): release for release in everything}
    asked: list[str] = []
    for section, sets in SECTIONS.items():
        asked += sets
        # As all sections together need it: one alone may need a release on fewer systems.
        needed = map(version, resolve(asked, "--constraint", str(pins)))
        releases = [left.pop(name) for name in needed if name in left]
        text += f"\n# --- {section} ---\n" + "\n".join(releases) + "\n"
    if left:
        sys.exit(f"no section has {', '.join(left)}")
    return text


def main() -> None:
    header = HEADER.format(python=ANY, purpose=PURPOSE)
    (FOLDER / "project.txt").write_text(header + shared())
    for name, (sets, besides, options, python, purpose) in ALONE.items():
        found = resolve(sets, *options, besides=sorted(map(bounded, besides)))
        header = HEADER.format(python=python, purpose=purpose)
        (FOLDER / f"{name}.txt").write_text(header + "\n" + "\n".join(found) + "\n")


if __name__ == "__main__":
    main()

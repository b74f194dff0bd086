"""The project's own files agree: requirements, pins, environment, configuration, citation."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from jupyter_book import config as jupyter_book
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from threadpoolctl import threadpool_info

from build import Book

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text())
CONDA_NAMES = {
    "duckdb": "python-duckdb",
    "matplotlib": "matplotlib-base",  # the same without a window system
}


def requirements(*names):
    """What the package needs, with some extras and groups of its, and with what builds it."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"] | PROJECT["dependency-groups"]
    lists = [project["dependencies"], *(extras[name] for name in names)]
    return [*PROJECT["build-system"]["requires"], *(line for lines in lists for line in lines)]


def pins(name="constraints.txt"):
    """The releases of a file of pins by section, each as a requirement with its hashes."""
    current = []
    sections = {"": current}  # what comes before any heading
    for line in (ROOT / name).read_text().splitlines():
        if heading := re.fullmatch(r"# --- (\w+) ---", line):
            current = sections.setdefault(heading[1], [])
        elif line and not line.startswith(("#", " ")):
            current.append((Requirement(line.rstrip("\\")), []))
        elif line.startswith(" "):
            current[-1][1].append(line.strip(" \\"))
    return {heading: releases for heading, releases in sections.items() if releases}


@pytest.mark.parametrize("name", ["", "-study", "-lowest", "-peers", "-graphs", "-release"])
def test_every_release_is_pinned_and_hashed_and_names_no_host(name):
    name = f"constraints{name}.txt"
    text = (ROOT / name).read_text()
    assert "://" not in text
    for releases in pins(name).values():
        for release, hashes in releases:
            assert [clause.operator for clause in release.specifier] == ["=="], release
            assert hashes, release
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for h in hashes), release


def holds(pinned, line):
    """Whether the pins have what a line of pyproject.toml asks for."""
    requirement = Requirement(line)
    releases = [
        p for p in pinned if canonicalize_name(p.name) == canonicalize_name(requirement.name)
    ]
    assert releases, f"{line} is not pinned: run `make constraints`"
    for release in releases:
        (clause,) = release.specifier
        assert requirement.specifier.contains(clause.version), line


@pytest.mark.parametrize(
    ("section", "extras"),
    [
        ("book", ["book"]),
        ("test", ["book", "ranks", "test"]),
        ("benchmarks", ["book", "test", "benchmarks"]),
        ("site", ["book", "test", "site"]),
        ("lab", ["book", "lab"]),
    ],
)
def test_the_sections_hold_what_pyproject_asks_for(section, extras):
    sections = pins()
    assert list(sections) == ["book", "test", "benchmarks", "site", "lab"]
    upto = list(sections)[: list(sections).index(section) + 1]
    pinned = [release for name in upto for release, _ in sections[name]]
    for line in requirements(*extras):
        holds(pinned, line)


def test_make_ranks_has_pins_of_its_own():
    """LensKit brings gigabytes: no other command may install it."""
    pinned = [release for release, _ in pins("constraints-study.txt")[""]]
    for line in requirements("ranks", "study"):
        holds(pinned, line)
    everything = {release.name for part in pins().values() for release, _ in part}
    assert not everything & {"lenskit", "torch"}


def test_the_lowest_versions_are_those_of_pyproject():
    """`make test-lowest` runs on the very bounds that a reader is told."""
    pinned = {release.name: release for release, _ in pins("constraints-lowest.txt")[""]}
    needed = PROJECT["project"]["dependencies"]
    for extra in ("parquet", "report"):
        needed = [*needed, *PROJECT["project"]["optional-dependencies"][extra]]
    for requirement in map(Requirement, needed):
        (bound,) = requirement.specifier
        assert bound.operator == ">="
        assert pinned[requirement.name].specifier.contains(bound.version), requirement
    for line in PROJECT["build-system"]["requires"]:
        holds(pinned.values(), line)


@pytest.mark.parametrize("name", ["peers", "graphs"])
def test_the_peers_have_pins_of_their_own(name):
    """RecBole needs versions that the rest does not, PyKEEN others, and both gigabytes."""
    pinned = [release for release, _ in pins(f"constraints-{name}.txt")[""]]
    for line in requirements("parquet", name):
        holds(pinned, line)
    recipe = re.search(rf"(?m)^test-{name}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text())
    assert "pytest tests/peers" in recipe[1]
    assert "peers" not in (ROOT / ".ci/run").read_text()


def test_one_lock_holds_each_package_once():
    """What environments share comes from one resolution, so that versions never conflict."""
    names = [f"{release.name} {release.marker}" for part in pins().values() for release, _ in part]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["study", "lowest", "peers", "graphs"])
def test_a_lock_that_stands_alone_says_why(name):
    second = (ROOT / f"constraints-{name}.txt").read_text().splitlines()[1]
    assert re.fullmatch(r"# For `make [\w-]+`(?: and `[\w-]+`)?: \w.{20,}\.", second)


def test_the_conda_environment_is_that_of_pyproject():
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = [entry["pip"] for entry in entries if isinstance(entry, dict)]
    assert pip == ["-e ."]
    named = [Requirement(entry) for entry in entries if isinstance(entry, str)]
    listed = {entry.name: entry.specifier for entry in named}
    required = {r.name: r.specifier for r in map(Requirement, requirements("book", "ranks"))}
    required = {CONDA_NAMES.get(name, name): specifier for name, specifier in required.items()}
    python = SpecifierSet(PROJECT["project"]["requires-python"] + ",<3.14")
    assert listed == required | {"python": python, "pip": SpecifierSet()}


def unknown_keys(settings, schema, default, path=""):
    """The keys of a configuration that Jupyter Book would silently ignore."""
    unknown = []
    for key, value in settings.items():
        properties = (schema or {}).get("properties", {})
        defaults = default if isinstance(default, dict) else {}
        if key not in properties and key not in defaults:
            unknown.append(f"{path}{key}")
        elif isinstance(value, dict) and (properties.get(key, {}).get("properties")):
            unknown += unknown_keys(value, properties[key], defaults.get(key), f"{path}{key}.")
    return unknown


def book_settings():
    schema = json.loads(jupyter_book.PATH_JSON_SCHEMA.read_text())
    default = yaml.safe_load(jupyter_book.PATH_YAML_DEFAULT.read_text())
    return schema, default


def test_jupyter_book_knows_every_key_of_the_configuration():
    assert unknown_keys(CONFIG, *book_settings()) == []
    jupyter_book.validate_yaml(CONFIG, raise_on_errors=True)


def test_a_misspelt_key_is_found():
    misspelt = {"html": {"use_edit_page_buton": True}, "repositroy": {}}
    assert unknown_keys(misspelt, *book_settings()) == ["html.use_edit_page_buton", "repositroy"]


def test_the_buttons_come_from_the_one_address_and_survive_the_theme_options():
    address = "https://github.com/somebody/somewhere"
    moved = CONFIG | {"repository": CONFIG["repository"] | {"url": address}}
    final, _ = jupyter_book.get_final_config(
        user_yaml=moved, cli_config={"latex_individualpages": False}
    )
    options = final["html_theme_options"]
    assert options["repository_url"] == address
    assert options["launch_buttons"]["binderhub_url"]
    assert options["launch_buttons"]["colab_url"]
    assert options["use_download_button"]
    assert options["use_edit_page_button"]
    assert CONFIG["repository"]["url"] not in json.dumps(final)


def test_the_address_of_the_repository_is_written_in_one_place():
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    address = CONFIG["repository"]["url"].split("://")[1].encode()
    holders = [f for f in files if (ROOT / f).exists() and address in (ROOT / f).read_bytes()]
    assert holders == ["_config.yml"]


def test_a_page_loads_nothing_from_another_host():
    sphinx = CONFIG["sphinx"]["config"]
    assert sphinx["nb_ipywidgets_js"] == {}
    assert "://" not in sphinx["mathjax_path"]
    assert not {"sphinx_thebe", "sphinx.ext.intersphinx"} & set(sphinx["extensions"])


def test_the_table_of_contents_lists_every_notebook():
    notebooks = (ROOT / "book" / "notebooks").glob("*.ipynb")
    assert sorted(Book(ROOT).chapters()) == sorted(notebooks)


def test_the_citation_names_this_version_and_the_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
    titles = [reference["title"] for reference in citation["references"]]
    bibliography = (ROOT / "book" / "references.bib").read_text().replace("{N}", "N")
    assert len(titles) == 4
    assert all(title in bibliography for title in titles)


def test_the_library_never_imports_the_laboratory():
    for path in (ROOT / "src/sampled_metrics").rglob("*.py"):
        assert "sampled_book" not in path.read_text(encoding="utf-8"), path


def test_the_library_is_tested_without_the_laboratory():
    laboratory = re.compile(r"^\s*(from|import) (sampled_book|tests\.(data|sampled_book))\b", re.M)
    for path in [*(ROOT / "tests/sampled_metrics").rglob("*.py"), ROOT / "tests/reference.py"]:
        assert not laboratory.search(path.read_text(encoding="utf-8")), path


#: Rooms and modules of the library: each imports from those before it.
ORDER = [
    "_threads", "_validate", "_files", "_progress", "_arrays", "_confidence", "_ranges",
    "numerics", "metrics", "protocol", "adaptive", "estimators", "tied_places", "relevant_sets",
    "priors", "consistency", "differences", "verdicts", "log", "readers", "bounds", "results",
    "designs", "ranking", "verify", "evaluation", "loop", "exact_pairs", "sequential",
    "expected_races", "planning", "log_plans", "auditing", "published_tables", "example",
    "conformance", "gate", "report", "doctor", "cli_options", "cli",
]  # fmt: skip
#: What a result calls when it is asked for a page, a figure or metrics of exact ranks.
UPWARDS = {("results", "evaluation"), ("results", "report")}


def imports_of(path, package):
    """The modules of the library that a file imports, wherever in the file, but for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inside in ast.walk(node)
    }
    parts = path.relative_to(package).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in for_types:
            base = [*parts[: len(parts) - node.level + 1], *(node.module or "").split(".")]
            for name in node.names:
                yield next(part for part in [*base, name.name] if part)


def test_imports_go_one_way():
    package = ROOT / "src/sampled_metrics"
    rooms = {path.stem if path.is_file() else path.name for path in package.iterdir()}
    assert set(ORDER) <= rooms
    imports = set()
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        for imported in imports_of(path, package):
            if imported in ORDER and imported != room:
                imports.add((room, imported))
    upwards = {(a, b) for a, b in imports if ORDER.index(b) > ORDER.index(a)}
    assert upwards == UPWARDS


def test_no_file_is_too_long_to_read():
    for path in (ROOT / "src").rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 700, path


@pytest.mark.processes
def test_the_package_names_what_it_offers_and_loads_nothing_before():
    code = (
        "import sys, sampled_metrics as sm; assert 'numpy' not in sys.modules; "
        "assert dir(sm) == sm.__all__; print(sum(callable(getattr(sm, n)) for n in dir(sm)))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout == "26\n"


def test_every_library_has_one_thread(request):
    assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert request.node.get_closest_marker("numerical") is None


def test_the_readme_gives_the_two_commands():
    fenced = re.findall(r"(?ms)^```[^\n]*\n(.*?)^```", (ROOT / "README.md").read_text())
    lines = [line for block in fenced for line in block.splitlines()]
    for command in ("make book", "make test"):
        assert any(re.match(rf"{command}( |$)", line) for line in lines)

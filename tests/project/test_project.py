"""The project's own files agree: pins, environment, configuration, imports, README."""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
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


@pytest.mark.parametrize(
    "path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda p: p.stem
)
def test_every_release_is_pinned_and_hashed_and_names_no_host(path):
    text = path.read_text()
    assert "://" not in text
    releases = re.split(r"(?m)^(?=\w)", text)[1:]
    assert releases
    for release in releases:
        pinned, *hashes = release.partition("\n#")[0].strip().split("\\\n")
        assert [clause.operator for clause in Requirement(pinned).specifier] == ["=="], release
        assert hashes, release
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each.strip()) for each in hashes)


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


def test_the_library_never_imports_the_laboratory():
    for path in (ROOT / "src/sampled_metrics").rglob("*.py"):
        assert "sampled_book" not in path.read_text(encoding="utf-8"), path


def test_the_library_is_tested_without_the_laboratory():
    laboratory = re.compile(r"^\s*(from|import) (sampled_book|tests\.(data|sampled_book))\b", re.M)
    for path in [*(ROOT / "tests/sampled_metrics").rglob("*.py"), ROOT / "tests/reference.py"]:
        assert not laboratory.search(path.read_text(encoding="utf-8")), path


#: Rooms and modules of the library: each imports from those before it.
ORDER = [
    "_threads", "_validate", "_files", "_progress", "_confidence", "_printed_ranges", "numerics",
    "metrics", "protocol", "estimators", "tied_places", "relevant_sets", "priors", "learned_prior",
    "consistency",
    "orders", "log", "readers", "bounds", "results", "designs", "ranking",
    "evaluation", "planning", "auditing", "printed_rows",
    "published_corpora", "published_tables", "example", "gate", "report",
    "cli_options", "cli", "__main__",
]  # fmt: skip


def targets_of(path, package):
    """What a file imports of the library, wherever in the file, but for types alone, as parts."""
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
                yield tuple(part for part in [*base, name.name] if part)


def imports_of(path, package):
    """The rooms and modules of the library that a file imports."""
    return (target[0] for target in targets_of(path, package))


def test_imports_go_one_way():
    package = ROOT / "src/sampled_metrics"
    rooms = {path.stem if path.is_file() else path.name for path in package.iterdir()}
    assert set(ORDER) <= rooms
    imports = set()
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for imported in imports_of(path, package):
            if imported in ORDER and imported != room:
                imports.add((room, imported))
    assert not {(a, b) for a, b in imports if ORDER.index(b) > ORDER.index(a)}
    floors = dict.fromkeys(ORDER, 1)
    for room in floors:  # in order: those that a room imports have their floors
        below = [floors[imported] for importing, imported in imports if importing == room]
        floors[room] = 1 + max(below, default=0)
    assert max(floors.values()) <= 9, floors


def test_no_circle_of_files():
    package = ROOT / "src/sampled_metrics"
    files = {
        path.relative_to(package).with_suffix("").parts: path for path in package.rglob("*.py")
    }
    graph = {
        file: {
            next(
                each for each in (target, target[:-1], (*target[:-1], "__init__")) if each in files
            )
            for target in targets_of(path, package)
        }
        - {file}
        for file, path in files.items()
    }
    assert len(graph) > 50
    assert len([*TopologicalSorter(graph).static_order()]) == len(graph)  # or CycleError names them


#: Code lines, without docstrings, comments and blank lines: what is added is taken from elsewhere.
BUDGET = {"src/sampled_metrics": 16_265, "src/sampled_book": 13_000, "tests": 21_000,
          "benchmarks": 900}  # fmt: skip


def lines_of_code(text):
    """The lines that hold code."""
    documented = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and ast.get_docstring(node) is not None
        for number in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
             tokenize.ENDMARKER)  # fmt: skip
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return len(lines - documented)


@pytest.mark.parametrize("folder", BUDGET)
def test_code_keeps_to_its_budget(folder):
    sizes = [lines_of_code(p.read_text(encoding="utf-8")) for p in (ROOT / folder).rglob("*.py")]
    assert BUDGET[folder] - 1_500 < sum(sizes) <= BUDGET[folder], sum(sizes)


@pytest.mark.processes
def test_the_package_names_what_it_offers_and_loads_nothing_before():
    code = (
        "import sys, sampled_metrics as sm; assert 'numpy' not in sys.modules; "
        "assert dir(sm) == sm.__all__; [getattr(sm, name) for name in dir(sm)]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_library_has_one_thread(request):
    assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert request.node.get_closest_marker("numerical") is None


def test_the_readme_gives_the_two_commands():
    fenced = re.findall(r"(?ms)^```[^\n]*\n(.*?)^```", (ROOT / "README.md").read_text())
    lines = [line for block in fenced for line in block.splitlines()]
    for command in ("make book", "make test"):
        assert any(re.match(rf"{command}( |$)", line) for line in lines)


def inside(node):
    """What a function or class holds, but for functions and classes defined in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield child
            yield from inside(child)


def decisions(function):
    """One more than the branches, with `and`, `or`, conditional expressions, comprehensions."""
    loops, tests = (ast.For, ast.While), (ast.If, ast.IfExp, ast.Assert, ast.match_case)
    return 1 + sum(
        isinstance(node, (*loops, *tests, ast.ExceptHandler))
        + (len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0)
        + (1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0)
        for node in inside(function)
    )


def test_functions_fit_a_screen():
    for path in (ROOT / "src/sampled_metrics").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert decisions(node) <= 15, f"{path.name}, {node.name}"
                function = dedent("".join(lines[node.lineno - 1 : node.end_lineno]))
                assert lines_of_code(function) <= 60, f"{path.name}, {node.name}"

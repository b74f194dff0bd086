"""What the reference promises: examples for all that is public, and a core that stands alone."""

import ast
import doctest
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString

import generated
import sampled_metrics

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
STUB_FILE = ROOT / "src/sampled_metrics/__init__.pyi"
#: Each function and class of the reference, by its public name.
PUBLIC = [
    f"sampled_metrics.{name}"
    for name in generated.public_names((ROOT / "book/api.md").read_text(encoding="utf-8"))
]
#: Each name of the stub, modules included.
STUB = [
    f"sampled_metrics.{alias.asname}"
    for node in ast.parse(STUB_FILE.read_text()).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
]
MODULES = [
    name
    for module in pkgutil.walk_packages(sampled_metrics.__path__, "sampled_metrics.")
    if "._" not in (name := module.name)
]
#: What needs a library that only some users have.
OPTIONAL = {"sampled_metrics.report.figures"}


def named(path):
    """The function or class of a public name."""
    thing = sampled_metrics
    for part in path.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", PUBLIC)
def test_all_that_is_public_has_an_example(name):
    # A method may be shown by the example of its class, or of a class that it inherits from.
    thing = named(name)
    if isinstance(thing, type) and issubclass(thing, Exception):
        return
    doctests = doctest.DocTestFinder(exclude_empty=False).find(thing, name)
    shown = {test.name for test in doctests if test.examples}
    needed = {name} - shown
    if inspect.isclass(thing) and needed:
        members = vars(thing).items()
        needed = {
            f"{name}.{method}"
            for method, value in members
            if inspect.isfunction(value) and (method[0] != "_" or method == "__call__")
        }
    assert needed <= shown, f"without an example: {needed - shown}"


@pytest.mark.parametrize("name", PUBLIC)
def test_all_that_is_public_says_what_else_to_see(name):
    document = NumpyDocString(inspect.getdoc(named(name)))
    assert document["Examples"]
    assert document["See Also"]
    assert all(description for _, description in document["See Also"])


def test_the_reference_has_every_public_function_and_class():
    assert "sampled_metrics.estimate" in PUBLIC
    missing = {name for name in STUB if name not in PUBLIC and not inspect.ismodule(named(name))}
    assert missing == {"sampled_metrics.Estimator"}  # which is listed with the other estimators
    modules = {name for name in STUB if inspect.ismodule(named(name))}
    assert {name.rpartition(".")[0] for name in PUBLIC} == {"sampled_metrics", *modules}
    readers = sampled_metrics.readers.__all__
    assert {f"sampled_metrics.readers.{name}" for name in readers} <= set(PUBLIC)


def docstrings():
    """Each docstring of the package, by its file and name."""
    documented = ast.Module, ast.ClassDef, ast.FunctionDef
    for path in sorted((ROOT / "src/sampled_metrics").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, documented) and (text := ast.get_docstring(node)):
                yield f"{path.stem}.{getattr(node, 'name', '')}", text


def test_a_docstring_fits_a_screen():
    # Longer explanations stand on a page of the library, behind a link.
    long = {name: size for name, text in docstrings() if (size := len(text.splitlines())) > 60}
    assert not long


def test_docstrings_link_to_pages_of_the_library():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*/*.md")]
    labels = {label for text in pages for label in re.findall(r"(?m)^\(([\w-]+)\)=$", text)}
    links = {
        link for _, text in docstrings() for link in re.findall(r":ref:`[^<`]*<([^>]*)>`", text)
    }
    assert {"lib-guarantees", "howto-log"} <= links <= labels


@pytest.mark.processes
def test_the_package_needs_nothing_that_only_the_book_and_the_tests_use():
    absent = ["matplotlib", "IPython", "ipykernel", "sklearn", "mpmath", "hypothesis", "implicit"]
    modules = [name for name in MODULES if name not in OPTIONAL]
    code = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({absent}))\n"
        f"for name in {modules}: importlib.import_module(name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

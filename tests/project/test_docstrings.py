"""What the API reference promises: an example for every function, and a core that stands alone."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import sampled_metrics

MODULES = [m.name for m in pkgutil.iter_modules(sampled_metrics.__path__) if m.name[0] != "_"]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_has_an_example(name):
    # A method may be shown by the example of its class.
    module = importlib.import_module(f"sampled_metrics.{name}")
    found = doctest.DocTestFinder(exclude_empty=False).find(module)
    shown = {test.name for test in found if test.examples}
    for kind in vars(module).values():
        if not callable(kind) or getattr(kind, "__module__", "") != module.__name__:
            continue
        path = f"{module.__name__}.{kind.__name__}"
        functions = [path] if inspect.isfunction(kind) else []
        if inspect.isclass(kind) and not getattr(kind, "_is_protocol", False):
            members = [m for m in vars(kind) if not m.startswith("_") or m == "__call__"]
            methods = [m for m in members if inspect.isfunction(vars(kind)[m])]
            functions = [f"{path}.{m}" for m in methods if path not in shown]
        public = [f for f in functions if not f.split(".")[2].startswith("_")]
        commands = {f"sampled_metrics.{name}.main" for name in ("fits", "recommenders", "study")}
        assert set(public) <= shown | commands, f"without an example: {set(public) - shown}"


def test_the_package_needs_nothing_that_only_the_book_and_the_tests_use():
    absent = ["matplotlib", "IPython", "ipykernel", "sklearn", "mpmath", "hypothesis", "implicit"]
    modules = [f"sampled_metrics.{name}" for name in MODULES if name != "plots"]
    code = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({absent}))\n"
        f"for name in {modules}: importlib.import_module(name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

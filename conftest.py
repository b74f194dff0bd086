"""What holds of all tests and doctests: one thread, the same cases, and a mark for the numbers."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# One thread, as the tests share out the cores themselves; read when numpy is first imported.
assert "numpy" not in sys.modules
for library in ("OPENBLAS_NUM", "OMP_NUM", "MKL_NUM", "VECLIB_MAXIMUM"):
    os.environ[f"{library}_THREADS"] = "1"

from hypothesis import settings  # noqa: E402

# Property tests draw the same cases every time, so that a failure can be repeated.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

# What is about words, files and pages; all else is about numbers.
WORDS = [
    "test_build", "test_cli", "test_datasets", "test_docstrings", "test_fuzz", "test_html",
    "test_logs", "test_pairs", "test_parameters", "test_project", "test_readme", "test_tables",
]  # fmt: skip
# About numbers that no linear algebra went into, as a trace of the lines they run showed: on other
# processors they would be the same.
ALIKE = ["test_auditing", "test_figures", "test_metrics", "test_protocol", "test_ties"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shown", type=Path, help="folder to write what is shown of results to")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem not in WORDS + ALIKE:
            item.add_marker("numerical")


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Write a text to the folder named by --shown, where runs on several kernels are compared."""
    folder: Path | None = request.config.getoption("--shown")

    def to_folder(name: str, text: str) -> None:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")

    return to_folder

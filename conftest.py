"""What holds of all tests and doctests: one thread, the same cases, and their marks."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

# One thread, as the tests share out the cores themselves; read when numpy is first imported.
assert "numpy" not in sys.modules
for library in ("OPENBLAS_NUM", "OMP_NUM", "MKL_NUM", "VECLIB_MAXIMUM"):
    os.environ[f"{library}_THREADS"] = "1"

from hypothesis import settings  # noqa: E402

# Property tests draw the same cases every time, so that a failure can be repeated.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=20)
settings.load_profile("repeatable")
# More of them, for `make test-matrix`.
settings.register_profile("many", settings.get_profile("repeatable"), max_examples=60)

#: Marks of slow tests, which `make check` and the run with the lowest versions leave out.
SLOW = ("simulation", "processes", "exhaustive", "pages", "matrix")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shown", type=Path, help="folder to write what is shown of results to")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases = Counter(item.nodeid.partition("[")[0] for item in items)
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if some := item.get_closest_marker("some"):
            share = some.args[0] / cases[test]  # of cases; the first is among them
            if int((seen[test] - 1) * share) == int(seen[test] * share) and seen[test]:
                item.add_marker("matrix")
        seen[test] += 1
        if not item.get_closest_marker("words"):
            item.add_marker("numerical")
        if any(item.get_closest_marker(name) for name in SLOW):
            item.add_marker("once")


#: Seconds of processor time that a test outside the matrix may take, on a machine that takes
#: `UNIT` for `_unit`.
MOST_SECONDS, UNIT = 20.0, 0.12


def _unit() -> float:
    """Seconds of processor time of two million additions, here and now."""
    start = time.process_time()
    sum(i * i for i in range(2_000_000))
    return time.process_time() - start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that makes everyone wait."""
    start = time.process_time()
    yield
    seconds = time.process_time() - start
    is_slow = seconds > MOST_SECONDS and seconds > MOST_SECONDS * _unit() / UNIT
    if is_slow and not item.get_closest_marker("matrix"):
        pytest.fail(
            f"took {seconds:.0f} s of processor time, more than {MOST_SECONDS:.0f}: make it "
            "smaller, or mark it matrix"
        )


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Write a text to the folder named by --shown, where runs on several kernels are compared."""
    folder: Path | None = request.config.getoption("--shown")

    def to_folder(name: str, text: str) -> None:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")

    return to_folder

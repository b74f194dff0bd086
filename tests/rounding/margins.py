"""How near the tests' comparisons come to their tolerances.

    make test ROUNDING=3 ARGS='--margins=_build/margins/seed-3'
    .venv/bin/python -m tests.rounding.margins FOLDER...

With `--margins=FOLDER` each numerical test that passes is noted in the folder, with the margin of
each of its comparisons: the largest error divided by the tolerance, by line.  What is compared is
what `numpy.testing.assert_allclose`, `numpy.allclose` and `pytest.approx` are given in a file of
the tests; the outcome stays theirs.  A comparison without tolerance must be exact, and has no
margin.  Nor has one that finds a difference, as some tests want it to.  Inequalities written with
`<` are not seen.  Tests that the folder has already are not run again.

The report prints, over the folders of several seeds, the largest margins, and fails if one is above
a third.  Beside each it says how much of it moves with the seed: that part is rounding.  What does
not move is the error of an approximation, or of a sample in a test that draws.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TESTS = Path(__file__).resolve().parents[1]
#: The largest error over the seeds, as a share of the tolerance.
LARGEST = 1 / 3

Margins = dict[str, float]


@np.errstate(all="ignore")  # the outcome is the comparison's alone: warnings are errors here
def margin(actual: Any, desired: Any, rtol: float, atol: float) -> float | None:
    """The largest error in units of its tolerance; None where nothing has a tolerance.

    Examples
    --------
    >>> margin([1.0, 2.5], [1.0, 2.0], rtol=0.5, atol=0.0)
    0.5
    """
    try:
        found, wanted = np.asarray(actual, dtype=float), np.asarray(desired, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None  # text, None, rows of several lengths, integers beyond all floats
    tolerance = np.asarray(atol + rtol * np.abs(wanted))
    errors = np.abs(found - wanted) / tolerance
    # Infinite values and zeros are compared exactly.
    errors = errors[np.isfinite(errors) & np.isfinite(tolerance)]
    return float(errors.max()) if errors.size else None


def _line() -> str | None:
    """The line of a test from which a comparison was called, as `file:line`."""
    frame = sys._getframe(2)
    while frame:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(TESTS) and not path.is_relative_to(Path(__file__).parent):
            return f"{path.relative_to(TESTS)}:{frame.f_lineno}"
        if path.is_relative_to(TESTS.parent / "src"):
            return None  # the library compares, not a test
        frame = frame.f_back
    return None


@np.errstate(all="ignore")
def _approx_margin(wanted: Any, actual: Any) -> float | None:
    """The margin of a value beside what `pytest.approx` returned."""
    expected = wanted.expected
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            return None
        actual, expected = [actual[key] for key in expected], list(expected.values())
    try:
        actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None
    absolute = 1e-12 if wanted.abs is None else float(wanted.abs)
    relative = wanted.rel
    if relative is None:
        relative = 1e-6 if wanted.abs is None else 0.0
    # The larger of the two, where numpy adds them.
    tolerance = np.maximum(absolute, float(relative) * np.abs(expected))
    return margin(actual - expected, np.zeros_like(tolerance), 0.0, tolerance)


class Recorder:
    """A plugin of pytest that notes passed tests and the margins of their comparisons."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.margins: Margins | None = None  # of the test that runs, if it is numerical
        self.passed = {name for name, _ in passed(folder)}

    def note(self, found: float | None) -> None:
        line = _line() if found is not None and found <= 1 else None
        if line is not None and self.margins is not None:
            self.margins[line] = max(found, self.margins.get(line, 0.0))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take the calls of the three comparisons, and pass them on."""
        recorder = self
        assert_allclose, allclose = np.testing.assert_allclose, np.allclose

        @wraps(assert_allclose)
        def assert_allclose_noted(actual, desired, rtol=1e-7, atol=0, *args, **kwargs):
            __tracebackhide__ = True
            assert_allclose(actual, desired, rtol, atol, *args, **kwargs)
            if recorder.margins is not None:
                recorder.note(margin(actual, desired, rtol, atol))

        @wraps(allclose)
        def allclose_noted(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
            close = allclose(a, b, rtol, atol, equal_nan)
            if close and recorder.margins is not None:
                recorder.note(margin(a, b, rtol, atol))
            return close

        def noted(equal):
            def __eq__(wanted, actual):
                same = equal(wanted, actual)
                if same and recorder.margins is not None:
                    recorder.note(_approx_margin(wanted, actual))
                return same

            return __eq__

        # What approx returns has a class for each kind of value.
        kinds = {type(pytest.approx(one)) for one in (1.0, [1.0], {"a": 1.0}, np.ones(1))}
        equals = {kind: kind.__eq__ for kind in kinds}
        np.testing.assert_allclose, np.allclose = assert_allclose_noted, allclose_noted
        for kind in kinds:
            kind.__eq__ = noted(equals[kind])
        try:
            yield
        finally:
            np.testing.assert_allclose, np.allclose = assert_allclose, allclose
            for kind in kinds:
                kind.__eq__ = equals[kind]

    def pytest_configure(self) -> None:
        self._watching = self.watching()
        self._watching.__enter__()  # before a test file takes a function by its name

    def pytest_unconfigure(self) -> None:
        self._watching.__exit__(None, None, None)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        before = [item for item in items if item.nodeid in self.passed]
        if before:
            config.hook.pytest_deselected(items=before)
            items[:] = [item for item in items if item.nodeid not in self.passed]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item):
        if item.get_closest_marker("numerical") is None:
            return (yield)
        self.margins = {}
        try:
            result = yield
            self._write(item.nodeid, self.margins)
            return result
        finally:
            self.margins = None

    def _write(self, name: str, margins: Margins) -> None:
        """Add a line at once, so that what passed is kept when the run is stopped."""
        self.folder.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        with (self.folder / f"{worker}.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps([name, margins]) + "\n")


def passed(folder: Path) -> Iterator[tuple[str, Margins]]:
    """The tests that a folder notes, each with the margins of its comparisons."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                name, margins = json.loads(line)
            except json.JSONDecodeError:
                continue  # the run was stopped while it wrote
            yield name, margins


def report(folders: list[Path], most: int = 20) -> tuple[str, int]:
    """The largest margins over some runs, as text, and how many are above a third."""
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    for folder in folders:
        for name, margins in passed(folder):
            for line, found in margins.items():
                seen[line, name].append(found)
    worst = {}  # of each line, the test with the largest margin
    for (line, name), found in seen.items():
        if line not in worst or max(found) > max(worst[line][1]):
            worst[line] = name, found
    ordered = sorted(worst.items(), key=lambda one: -max(one[1][1]))
    above = sum(max(found) > LARGEST for _, (_, found) in ordered)
    lines = [
        f"{len(ordered)} comparisons with a tolerance in {len(folders)} runs; "
        f"in {above} the largest error is above a third of the tolerance",
        "error / tolerance    moved by the seed    where, and in which test",
    ]
    for line, (name, found) in ordered[: max(most, above)]:
        test = name.rpartition("::")[2]
        lines.append(f"{max(found):17.3f}    {max(found) - min(found):17.3f}    {line} {test}")
    return "\n".join(lines), above


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the largest margins over several runs.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--most", type=int, default=20, help="lines below a third to print")
    given = parser.parse_args()
    text, above = report(given.folders, given.most)
    print(text)
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())

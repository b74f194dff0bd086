"""The table of what other libraries make of the forty cases, and the page that shows it."""

import math
from pathlib import Path

import pandas as pd
import pytest

import generated
from sampled_book.experiments import conformance
from sampled_metrics.conformance import NOT_THERE, Case, cases

PAGE = Path(__file__).parents[2] / "book/library/conformance.md"
CASES = {case.name: case for case in cases()}
BUNDLED = conformance.bundled()


def right(case: Case, value: float) -> bool:
    """Whether a value is the exact answer, or a refusal of what has none."""
    if case.answer is None:
        return math.isnan(value)
    return value == pytest.approx(case.answer, abs=2e-6)


def test_each_library_was_tried_on_each_case_by_one_version() -> None:
    for _, rows in BUNDLED.groupby("library"):
        assert rows["case"].tolist() == list(CASES)
        assert rows["version"].nunique() == 1
    assert list(dict.fromkeys(BUNDLED["library"])) == list(conformance.LIBRARIES)


def test_the_results_name_the_values() -> None:
    for row in BUNDLED[BUNDLED["result"] != NOT_THERE].itertuples():
        case = CASES[row.case]
        if row.result == "refused":
            assert math.isnan(row.value)
        elif row.result == "differs":
            values = [case.answer, *case.conventions.values()]
            assert row.value not in [pytest.approx(value, abs=1e-7) for value in values]
        else:
            expected = case.answer if row.result == "exact" else case.conventions[row.result]
            assert row.value == pytest.approx(expected, abs=2e-6)
    assert BUNDLED.loc[BUNDLED["result"] == NOT_THERE, "value"].isna().all()


def test_scikit_learn_still_does_this(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--libraries", "scikit-learn", "--output", str(tmp_path)]
    assert conformance.main(arguments) == 0
    written = tmp_path / "conformance.csv"
    assert capsys.readouterr().out == f"{written}\n"
    found = pd.read_csv(written).drop(columns="version")
    pd.testing.assert_frame_equal(found, BUNDLED.drop(columns="version"), rtol=1e-8)


def test_a_library_that_cannot_be_imported_has_no_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> float:
        raise ModuleNotFoundError("No module named 'needed'")

    monkeypatch.setitem(conformance.LIBRARIES, "scikit-learn", broken)
    arguments = ["--libraries", "scikit-learn", "--output", str(tmp_path)]
    assert conformance.main(arguments) == 2
    assert "scikit-learn: ModuleNotFoundError: No module named 'needed'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_page_shows_for_each_library_how_many_cases_are_right() -> None:
    text = generated.with_results(PAGE.read_text(encoding="utf-8"))
    assert generated.RESULTS not in text
    lines = [line for line in text.splitlines() if line.startswith("| ") and line.count("|") == 6]
    shown: dict[tuple[str, str], str] = {}
    kinds: list[str] = []
    for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines):
        if cells[0] == "Library":
            kinds = [cell.lower() for cell in cells[1:]]
        elif not cells[0].startswith(":"):
            shown |= {(cells[0], kind): cell for kind, cell in zip(kinds, cells[1:], strict=True)}
    expected = {}
    names = BUNDLED["library"] + " " + BUNDLED["version"]
    for name, rows in BUNDLED.groupby(names):
        for kind in {case.kind for case in CASES.values()}:
            of_kind = [row for row in rows.itertuples() if CASES[row.case].kind == kind]
            asked = [row for row in of_kind if row.result != "not there"]
            n_right = sum(right(CASES[row.case], row.value) for row in asked)
            expected[name, kind] = f"{n_right} of {len(asked)}" if asked else "not there"
    assert {key: cell.partition(":")[0] for key, cell in shown.items()} == expected


SOURCES = conformance.sources()


def test_each_kind_in_which_a_library_differs_has_a_line_of_source_or_a_reason() -> None:
    differs = {
        (row.library, CASES[row.case].kind)
        for row in BUNDLED.itertuples()
        if row.result != NOT_THERE and not right(CASES[row.case], row.value)
    }
    explained = {
        (row.library, kind) for row in SOURCES.itertuples() for kind in row.kinds.split(";")
    }
    assert explained == differs
    linked = set(SOURCES.loc[SOURCES["source"] != "", "library"])
    assert linked == {library for library, _ in differs}
    assert list(dict.fromkeys(SOURCES["library"])) == list(conformance.LIBRARIES)


def test_the_page_lists_these_lines_under_the_library_and_its_version() -> None:
    text = generated.with_results(PAGE.read_text(encoding="utf-8"))
    assert generated.SOURCES not in text
    lines = text.splitlines()
    for name, version in BUNDLED.groupby("library")["version"].first().items():
        first = lines.index(f"- {name} {version}") + 1
        own = SOURCES[SOURCES["library"] == name]
        for line, row in zip(lines[first : first + len(own)], own.itertuples(), strict=True):
            assert line.startswith(f"  - {'[' if row.source else ''}{row.behaviour}")
            assert (row.source or row.reason) in line
        assert not lines[first + len(own)].startswith("  - ")


def test_a_cell_names_what_is_not_exact() -> None:
    table = conformance.by_kind(BUNDLED)
    assert table.loc["pytrec-eval-terrier", "missing"] == "3 of 3"
    assert table.loc["pytrec-eval-terrier", "cut-off"] == "5 of 6: 1 divided by R"
    assert table.loc["rectools", "ties"] == "not there"

"""Products whose terms are permuted: other last bits, and the same result where sums are exact."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rounding import loop, run
from tests.rounding.margins import margin, report

#: Each routine that NumPy or SciPy may call for these, on matrices with and without gaps.
PRODUCTS = """
import json, sys
import numpy as np
from scipy.linalg import blas

def products(draw, kind):
    a, b, wide = draw((7, 50)), draw((50, 6)), draw((50, 30))
    v, w = draw(50), draw(300)
    f, g = np.asfortranarray(a), np.asfortranarray(b)
    letter = "d" if kind is np.float64 else "s"
    gemm, gemv, dot = (getattr(blas, letter + name) for name in ("gemm", "gemv", "dot"))
    yield "gemm", a @ b, (a, b)
    yield "gemm, columns first", f @ g, (a, b)
    yield "gemm, transposed", b.T @ a.T, (b.T, a.T)
    yield "gemm, every third column", a @ wide[:, ::3], (a, wide[:, ::3])
    yield "gemm, some columns", a @ wide[:, 5:12], (a, wide[:, 5:12])
    yield "syrk", a @ a.T, (a, a.T)
    yield "syrk, transposed", b.T @ b, (b.T, b)
    yield "gemv", a @ v, (a, v)
    yield "gemv, columns first", f @ v, (a, v)
    yield "gemv, from the left", v @ b, (v, b)
    yield "gemv, every sixth", a @ w[::6], (a, w[::6])
    yield "dot", np.array([row @ v for row in a]), (a, v)
    yield "dot, every thirtieth", np.array([u @ v for u in wide.T]), (wide.T, v)
    yield "SciPy's gemm", gemm(1.0, f, g), (a, b)
    yield "SciPy's gemm, both transposed", gemm(1.0, g, f, trans_a=1, trans_b=1), (b.T, a.T)
    yield "SciPy's gemv", gemv(1.0, f, v), (a, v)
    yield "SciPy's gemv, transposed", gemv(1.0, g, v, trans=1), (b.T, v)
    yield "SciPy's dot", np.array([dot(row, v) for row in a]), (a, v)
    across = [dot(wide.ravel(), v, n=50, offx=i, incx=30) for i in range(30)]
    yield "SciPy's dot, every thirtieth", np.array(across), (wide.T, v)

rng = np.random.default_rng(1)
found = {}
for kind in (np.float64, np.float32):
    # Integers: every order of the terms has the same sum, which no other choice of terms has.
    def whole(shape):
        return rng.integers(-99, 100, shape).astype(kind)
    def real(shape):
        return rng.normal(size=shape).astype(kind)
    for name, product, (x, y) in products(whole, kind):
        wanted = x.astype(np.int64) @ y.astype(np.int64)
        assert np.array_equal(product, wanted), (name, kind)
    for name, product, (x, y) in products(real, kind):
        wanted = x.astype(np.longdouble) @ y.astype(np.longdouble)
        size = np.abs(x.astype(np.longdouble)) @ np.abs(y.astype(np.longdouble))
        assert (np.abs(product - wanted) <= 50 * np.finfo(kind).eps * size).all(), (name, kind)
        found[f"{name}, {kind.__name__}"] = np.asarray(product).tobytes().hex()
matrix, right = rng.normal(size=(40, 40)), rng.normal(size=(40, 3))
solved = np.linalg.solve(matrix, right)
assert np.abs(matrix @ solved - right).max() < 1e-10
assert np.abs(np.linalg.inv(matrix) @ matrix - np.eye(40)).max() < 1e-10
assert np.linalg.solve([[1.0]], [2.0]) == 2
found["solve"] = solved.tobytes().hex()
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def bits():
    """A function from a seed, or None for the plain order, to the bits of some products."""
    try:
        run.library()
        run.variables(0)
    except run.Unavailable as why:
        pytest.skip(str(why))

    def of(seed):
        kept = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        chosen = {"OPENBLAS_NUM_THREADS": "1"} if seed is None else run.variables(seed)
        command = [sys.executable, "-c", PRODUCTS]
        done = subprocess.run(
            command, env=kept | chosen, check=True, stdout=subprocess.PIPE, text=True
        )
        return json.loads(done.stdout)

    return of


def test_the_last_bits_change_with_the_seed_and_exact_sums_do_not(bits):
    plain, *seeded = [bits(seed) for seed in (None, 1, 2, 3, 4)]
    for name in plain:
        assert len({one[name] for one in (plain, *seeded)}) == 5, name


def test_a_seed_gives_the_same_bits_again(bits):
    assert bits(5) == bits(5)


def test_a_command_is_run_and_its_status_returned(bits, capfd):
    code = "import os; print(os.environ['ROUNDING_SEED']); raise SystemExit(7)"
    command = [sys.executable, "-m", "tests.rounding.run", "12", sys.executable, "-c", code]
    assert subprocess.run(command, cwd=run.ROOT, check=False).returncode == 7
    assert capfd.readouterr().out == "12\n"


@pytest.mark.parametrize("given", [[], ["3"], ["-1", "true"], ["x", "true"]])
def test_a_seed_and_a_command_are_needed(given):
    with pytest.raises(SystemExit, match="seed must be a number >= 0, followed by a command"):
        run.main(*(given or [""]))


def test_where_there_is_no_compiler_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(run.Unavailable, match=r"there is no C compiler \(no-such-compiler\)\.$"):
        run.library(tmp_path)


def test_where_the_compiler_fails_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(run.Unavailable, match=r"false does not compile rounding\.c\.$"):
        run.library(tmp_path)
    assert not list(tmp_path.iterdir())


def test_where_there_is_no_linux_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(run.Unavailable, match=r"on Linux only\.$"):
        run.library(tmp_path)


def test_where_products_are_not_openblas_s_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "library", lambda: tmp_path / "missing.so")
    monkeypatch.setattr(run, "PROBE", "raise SystemExit(1)")
    with pytest.raises(run.Unavailable, match=r"do not come from wheels with OpenBLAS\.$"):
        run.variables(1)
    monkeypatch.setattr(run, "library", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # what else goes wrong is no matter of the machine
        run.variables(1)


def test_make_runs_the_tests_with_a_seed_and_a_kernel():
    command = ["make", "-n", "test", "ROUNDING=3", "KERNEL=Haswell", "ARGS=-q"]
    done = subprocess.run(command, cwd=run.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    recipe = done.stdout.splitlines()[-1]
    assert recipe.startswith("OPENBLAS_CORETYPE=Haswell ")
    assert "python -m tests.rounding.run 3 " in recipe
    assert recipe.endswith(" -q")


@pytest.mark.parametrize(
    ("actual", "desired", "rtol", "atol", "wanted"),
    [
        ([1.0, 2.5], [1.0, 2.0], 0.5, 0.0, 0.5),
        ([1.0, -2.5], [1.0, -2.0], 0.0, 2.0, 0.25),
        ([1.0, 3.0], [1.0, 2.0], 0.25, 0.5, 1.0),
        ([1.0, 2.0], [1.0, 2.0], 0.0, 0.0, None),  # exact
        ([np_inf := float("inf"), 1.0], [np_inf, 1.5], 1.0, 0.0, 1 / 3),
        ([float("nan")], [float("nan")], 1.0, 0.0, None),
        ("text", "text", 1.0, 0.0, None),
    ],
)
def test_a_margin_is_the_largest_error_in_units_of_its_tolerance(
    actual, desired, rtol, atol, wanted
):
    assert margin(actual, desired, rtol, atol) == wanted


TESTED = """
import numpy as np
import pytest
from numpy.testing import assert_allclose


def compare(value):
    assert value == pytest.approx(2.0, abs=4.0)


def test_margins():
    assert_allclose([1.0, 2.0], [1.0, 2.5], rtol=0, atol=1.0)
    assert np.allclose(1.0, 1.5, rtol=0, atol=2.0)
    assert {"a": 1.0} == pytest.approx({"a": 1.1}, abs=1.0)
    assert [1.0, 2.0] == pytest.approx([1.0, 2.3], rel=1e-9, abs=1.0)
    assert np.array([1.0]) == pytest.approx(np.array([1.2]), rel=1.0)
    compare(3.0)
    compare(4.0)


def test_no_margins():
    assert not np.allclose(1.0, 2.0)
    assert pytest.approx(2.0) != 1.0
    assert "a" == pytest.approx("a")
    assert None == pytest.approx(None)
    assert_allclose(1.0, 1.0, rtol=0)
    assert_allclose([np.inf, np.nan], [np.inf, np.nan])
    assert [np.inf, 0.0] == pytest.approx([np.inf, 0.0], rel=0, abs=0)
    assert np.inf == pytest.approx(np.inf)
    assert 10**400 == pytest.approx(10**400, rel=0, abs=0)


def test_failing():
    assert_allclose(1.0, 3.0, atol=1.0)


def test_failing_approx():
    assert 1.0 == pytest.approx(3.0)
"""


def test_margins_are_noted_and_what_passed_is_not_run_again(tmp_path):
    # In the tests' folder, as only comparisons there are noted.
    tests = tmp_path / "tests"
    (tests / "rounding").mkdir(parents=True)
    for name in ("rounding/__init__.py", "rounding/margins.py", "__init__.py"):
        (tests / name).write_text((run.ROOT / "tests" / name).read_text())
    (tmp_path / "conftest.py").write_text((run.ROOT / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nmarkers =\n  numerical\n  once\n"
    )
    (tests / "test_some.py").write_text(TESTED)

    # A worker writes to a file of its own name, and this test may be one's.
    alone = {key: value for key, value in os.environ.items() if key != "PYTEST_XDIST_WORKER"}

    def again(*options):
        command = [sys.executable, "-m", "pytest", "-q", "--margins=kept", *options, "tests"]
        return subprocess.run(
            command, cwd=tmp_path, env=alone, check=False, stdout=subprocess.PIPE, text=True
        ).stdout

    plain = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests"],
        cwd=tmp_path, check=False, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    said = again()
    for one in (plain, said):
        assert "2 failed, 2 passed" in one
        assert "Max absolute difference among violations: 2." in one
    notes = dict(map(json.loads, (tmp_path / "kept/main.jsonl").read_text().splitlines()))
    lines = dict(enumerate(TESTED.splitlines(), 1))
    assert notes.pop("tests/test_some.py::test_no_margins") == {}
    (margins,) = notes.values()
    found = {lines[int(at.removeprefix("test_some.py:"))]: m for at, m in margins.items()}
    wanted = [0.5, 0.5, 0.25, 0.1, 0.3, 0.2 / 1.2]
    assert [found[line] for line in lines.values() if line in found] == pytest.approx(wanted)
    assert "2 failed, 2 deselected" in again()
    with (tmp_path / "kept/main.jsonl").open("a") as out:
        out.write('["tests/test_some.py::test_fail')  # stopped there
    assert "2 failed, 2 deselected" in again()


def test_the_report_has_the_largest_margin_of_each_line_and_how_much_a_seed_moves(tmp_path):
    for seed, at in enumerate([0.25, 0.5, 0.375]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        notes = [["a::one", {"a.py:3": at}], ["a::two", {"a.py:3": 0.125, "a.py:9": 0.25}]]
        (folder / "gw0.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    text, above = report([tmp_path / str(seed) for seed in range(3)])
    assert above == 1
    assert "2 comparisons with a tolerance in 3 runs; in 1 the largest error" in text
    rows = [line.split() for line in text.splitlines()[2:]]
    assert rows == [["0.500", "0.250", "a.py:3", "one"], ["0.250", "0.000", "a.py:9", "two"]]


def test_a_change_of_the_library_begins_anew(monkeypatch, tmp_path):
    for name in [*loop.ALSO, "src/sampled_metrics/a.py", "tests/sampled_metrics/b.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(loop, "ROOT", tmp_path)
    before = loop.digest()
    cache = tmp_path / "src/sampled_metrics/__pycache__/a.pyc"
    cache.parent.mkdir()
    cache.write_text("1")
    assert loop.digest() == before
    (tmp_path / "src/sampled_metrics/a.py").write_text("2")
    assert loop.digest() != before


def test_the_source_compiles_once(bits, tmp_path):
    made = run.library(tmp_path)
    first = made.stat().st_mtime_ns
    assert run.library(tmp_path).stat().st_mtime_ns == first
    assert [path.name for path in Path(tmp_path).iterdir()] == [made.name]


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """A function that runs the loop, and the runs of pytest that it began with what they were."""
    begun, ends = [], {}

    def run_tests(command, env, **_):
        kernel, seed = env["OPENBLAS_CORETYPE"], env["ROUNDING_SEED"]
        begun.append(f"{kernel}-{seed}")
        (margins,) = (each for each in command if each.startswith("--margins="))
        code, notes = ends.get(begun[-1], (0, '["a::one", {"a.py:3": 0.25}]\n'))
        folder = Path(margins.removeprefix("--margins="))
        assert folder.name == begun[-1]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.jsonl").write_text(notes)
        return subprocess.CompletedProcess(command, code)

    def of(*arguments, **ended):
        begun.clear()
        ends.clear()
        ends.update({name.replace("_", "-"): each for name, each in ended.items()})
        monkeypatch.setattr(sys, "argv", ["loop", *arguments])
        return loop.main(), list(begun)

    monkeypatch.setattr(loop, "BUILD", tmp_path)
    monkeypatch.setattr(loop, "digest", lambda: "0" * 12)
    monkeypatch.setattr(loop, "variables", lambda seed: {"ROUNDING_SEED": str(seed)})
    monkeypatch.setattr(loop.subprocess, "run", run_tests)
    return of


def test_the_loop_goes_on_where_it_was_stopped(runs, capsys):
    both = ["Haswell-1", "Nehalem-1", "Haswell-2", "Nehalem-2"]
    some = "--seeds", "1,2"
    assert runs(*some, Haswell_2=(2, "")) == (2, both[:3])  # stopped by hand
    assert runs(*some, Haswell_2=(1, '["a::one", {}]\n')) == (1, both[2:])
    assert "FAILED: Haswell, seed 2" in capsys.readouterr().out
    assert runs(*some) == (0, ["Haswell-2"])
    assert runs(*some) == (0, [])
    assert "1 comparisons with a tolerance in 4 runs; in 0" in capsys.readouterr().out
    assert runs(*some, "--kernels", "Zen") == (0, ["Zen-1", "Zen-2"])
    assert runs(*some, "--", "tests/other.py") == (0, both)  # other tests have not passed yet


def test_all_seeds_and_both_kernels_are_asked_for(runs):
    assert len(set(runs()[1])) == 32


def test_a_margin_above_a_third_fails_and_so_does_a_run_without_tests(runs, capsys):
    one = "--seeds", "1", "--kernels", "Haswell"
    wide = '["a::one", {"a.py:3": 0.5}]\n'
    assert runs(*one, Haswell_1=(0, wide))[0] == 1
    assert "in 1 the largest error is above a third" in capsys.readouterr().out
    assert runs(*one, "--", "tests/none.py", Haswell_1=(5, ""))[0] == 1
    assert "FAILED: Haswell, seed 1" in capsys.readouterr().out

"""Products whose terms are permuted: other last bits, and the same result where sums are exact."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from tests.rounding import run

pytestmark = [pytest.mark.words, pytest.mark.processes]

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
        permuted = run.variables(0)
    except run.Unavailable as why:
        pytest.skip(str(why))

    @cache
    def of(seed):
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        variables = {} if seed is None else permuted | {"ROUNDING_SEED": str(seed)}
        command = [sys.executable, "-c", PRODUCTS]
        completed = subprocess.run(
            command, env=environment | variables, check=True, stdout=subprocess.PIPE, text=True
        )
        return json.loads(completed.stdout)

    return of


def test_the_last_bits_change_with_the_seed_and_exact_sums_do_not(bits):
    plain, *seeded = [bits(seed) for seed in (None, 1, 2)]
    for name in plain:
        assert len({products[name] for products in (plain, *seeded)}) == 3, name


def test_a_seed_gives_the_same_bits_again(bits):
    assert bits(2) == bits.__wrapped__(2)


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

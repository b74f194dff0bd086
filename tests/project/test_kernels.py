"""Which of the other kernels' runs has the terms of its products in another order."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.rounding.run import Unavailable

ROOT = Path(__file__).parents[2]
_SPEC = spec_from_file_location("kernels", ROOT / ".ci" / "kernels.py")
kernels = module_from_spec(_SPEC)
_SPEC.loader.exec_module(kernels)


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """A function that runs the kernels of a processor and returns their commands and variables."""
    (tmp_path / "shown").mkdir()
    for number in range(100):
        (tmp_path / "shown" / str(number)).write_text("the same")
    done = []

    def run(command, env, **_):
        done.append((command, env))
        return SimpleNamespace(returncode=0)

    def seeded(seed, python):
        return {"LD_PRELOAD": "library.so", "ROUNDING_SEED": str(seed), "PROBED": python}

    monkeypatch.setattr(kernels, "write_tables", lambda *_: None)
    monkeypatch.setattr(kernels, "variables", seeded)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(subprocess, "check_output", lambda *_, **__: "Python 3.99")

    def of(chosen, *other):
        done.clear()
        monkeypatch.setattr(kernels, "to_run", lambda: chosen)
        assert kernels.main(tmp_path, *other) == 0
        return list(done)

    return of


def test_the_last_kernel_has_its_terms_in_another_order(runs, capsys):
    first, last = runs(["Nehalem", "Haswell"], "python3.99")
    assert first[1]["OPENBLAS_CORETYPE"] == "Nehalem"
    assert "LD_PRELOAD" not in first[1]
    assert last[1]["OPENBLAS_CORETYPE"] == "Haswell"
    assert last[1]["LD_PRELOAD"] == "library.so"
    assert last[1]["ROUNDING_SEED"] == "1"
    assert last[1]["PROBED"] == sys.executable
    assert last[0][last[0].index("-m", 3) + 1] == "numerical and not once"
    assert any(option.startswith("--margins=") for option in last[0])
    said = capsys.readouterr().out
    assert "Haswell, terms in the order of seed 1: numerical tests" in said
    assert "0 comparisons with a tolerance in 1 runs" in said


def test_a_single_run_is_the_last(runs):
    ((command, env),) = runs([], "python3.99")
    assert command[0] == env["PROBED"] == "python3.99"
    assert runs([]) == []


def test_where_terms_keep_their_order_the_kernel_is_run_and_a_sentence_says_why(
    runs, monkeypatch, capsys
):
    def refuse(*_):
        raise Unavailable("There is no compiler.")

    monkeypatch.setattr(kernels, "variables", refuse)
    _, last = runs(["Nehalem", "Haswell"])
    assert last[1]["OPENBLAS_CORETYPE"] == "Haswell"
    assert "LD_PRELOAD" not in last[1]
    said = capsys.readouterr().out
    assert "There is no compiler.\n" in said
    assert "order of seed" not in said

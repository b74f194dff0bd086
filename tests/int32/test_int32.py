"""The simulated default integer of 32 bits shows planted faults, and reaches the library only."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.int32 import run, simulation

pytestmark = pytest.mark.words

#: An expression that needs 64 bits; the same with its type named; what is wrong with the first, if
#: it is not just another number.
FAULTS = {
    "a number beyond the type": (
        "np.array([7]) < 2**40 // np.array([3])",
        "np.array([7]) < 2**40 // np.array([3], dtype=np.int64)",
        OverflowError,
    ),
    "int as a type": (
        "np.full(2, 2**40, dtype=int)",
        "np.full(2, 2**40, dtype=np.int64)",
        OverflowError,
    ),
    "a cast to int": (
        "(np.array([3, 70_000], dtype=np.int64).astype(int) ** 2)",
        "(np.array([3, 70_000], dtype=np.int64).astype(np.int64) ** 2)",
        None,
    ),
    "a product of ranges": (
        "np.arange(2**16, 2**16 + 2) * np.arange(2**16, 2**16 + 2)",
        "np.arange(2**16, 2**16 + 2) * np.arange(2**16, 2**16 + 2, dtype=np.int64)",
        None,
    ),
    "a sum of short integers": (
        "np.full(3, 2**30, dtype=np.int32).sum()",
        "np.full(3, 2**30, dtype=np.int32).sum(dtype=np.int64)",
        None,
    ),
    "running sums": (
        "np.cumsum([2**30, 2**30])",
        "np.cumsum([2**30, 2**30], dtype=np.int64)",
        None,
    ),
    "a product of counts": (
        "np.bincount([0] * 70_000) * 70_000",
        "np.bincount([0] * 70_000).astype(np.int64) * 70_000",
        None,
    ),
    "a product of indices": (
        "np.ones(70_001, dtype=np.int64).nonzero()[0] * 70_000",
        "np.ones(70_001, dtype=np.int64).nonzero()[0] * np.int64(70_000)",
        None,
    ),
    "repeats of 64 bits": (
        "np.repeat(np.arange(2), np.array([1, 2], dtype=np.int64))",
        "np.repeat(np.arange(2), np.array([1, 2], dtype=np.int64).astype(np.intp))",
        TypeError,
    ),
    "numbers of 64 bits to count": (
        "np.bincount(np.array([1, 2], dtype=np.int64))",
        "np.bincount(np.array([1, 2], dtype=np.int64).astype(np.intp, copy=False))",
        TypeError,
    ),
    "starts of 64 bits": (
        "np.add.reduceat(np.arange(3), np.array([0, 2], dtype=np.int64))",
        "np.add.reduceat(np.arange(3), np.array([0, 2], dtype=np.intp))",
        TypeError,
    ),
    "a shape of too many entries": (
        "np.unravel_index(np.array([5]), (2**16, 2**16))",
        "np.divmod(np.array([5]), 2**16)",
        ValueError,
    ),
}


def simulated(expression):
    namespace = dict(simulation.NAMES)
    exec(simulation.code(f"import numpy as np\nvalue = {expression}\n", "<planted>"), namespace)
    return namespace["value"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows_and_a_named_type_mends_it(fault):
    wrong, right, error = FAULTS[fault]
    wanted = eval(right, {"np": np})
    assert np.array_equal(eval(wrong, {"np": np}), wanted)
    assert np.array_equal(simulated(right), wanted)
    if error:
        with pytest.raises(error):
            simulated(wrong)
    else:
        with np.errstate(over="ignore"):
            assert not np.array_equal(simulated(wrong), wanted)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("np.array([1, 2])", "int32"),
        ("np.array([1, 2**31])", "int64"),  # as NumPy does where a value needs it
        ("np.array([1, np.int64(2)])", "int64"),
        ("np.append(np.zeros(1, dtype=np.int64), 0)", "int64"),
        ("np.zeros(2, int)", "int32"),
        ("np.where([True, False], 1, 0)", "int32"),
        ("np.ones(2, dtype=bool).cumsum()", "int32"),
        ("np.ones(2, dtype=np.uint8).sum()", "uint32"),
        ("np.zeros(2, dtype=np.int64).sum()", "int64"),
        ("np.add.reduceat(np.ones(2, dtype=np.int64), [0, 1])", "int64"),
        ("np.unique(np.ones(2, dtype=np.int64))", "int64"),
        ("np.unique(np.ones(2, dtype=np.int64), return_counts=True)[1]", "int32"),
        ("np.searchsorted(np.ones(2), np.ones(2))", "int32"),
        ("np.random.default_rng(1).permutation(3)", "int32"),
        ("np.random.default_rng(1).integers(3)", "int64"),
        ("__import__('pandas').factorize(np.ones(2))[0]", "int32"),
        ("np.arange(3.0)", "float64"),
    ],
)
def test_types_are_those_of_a_default_integer_of_32_bits(expression, kind):
    assert simulated(expression).dtype == kind


#: A log with its numbers of items and negatives given as options.
READ = """
import numpy, pandas
import sampled_metrics as sm
from sampled_metrics.log import columns
frame = pandas.DataFrame({"user": [5, 6, 7], "rank": [1, 2, 3]})
log = sm.read_log(frame, n_items=1000, n_negatives=10, replacement=False)
print(columns.np.arange(1).dtype, numpy.arange(1).dtype, log.frame["n_items"][0])
"""


@pytest.mark.processes
def test_the_library_and_nothing_else_has_32_bits_and_a_fault_planted_in_it_shows(tmp_path):
    source = run.ROOT / "src" / "sampled_metrics"
    planted = shutil.copytree(source, tmp_path / "sampled_metrics") / "log" / "columns.py"
    text = planted.read_text(encoding="utf-8")
    named = "np.array([integer(option, key, low, 2**62)], dtype=np.int64)"
    assert text.count(named) == 1
    planted.write_text(text.replace(named, named.replace(", dtype=np.int64", "")), encoding="utf-8")

    def completed(folder, *prefix):
        environment = os.environ | {"PYTHONPATH": str(folder)}
        command = [*prefix, sys.executable, "-c", READ]
        return subprocess.run(
            command, env=environment, cwd=run.ROOT, capture_output=True, text=True, check=False
        )

    simulating = [sys.executable, "-m", "tests.int32.run"]
    assert completed(tmp_path).stdout == "int64 int64 1000\n"
    assert completed(source.parent, *simulating).stdout == "int32 int64 1000\n"
    assert "OverflowError: Python integer" in completed(tmp_path, *simulating).stderr


def test_a_command_is_needed():
    with pytest.raises(SystemExit, match=r"A command is needed\."):
        run.main()

"""The library's tests on OpenBLAS's other kernels, and on the newest Python if it is another.

    .venv/bin/python .ci/kernels.py FOLDER [PYTHON]

FOLDER/shown holds what `make test ARGS=--shown=FOLDER/shown` wrote; PYTHON is the program of an
environment with another Python.  Every kernel runs the library's tests that are marked numerical,
the first of them all of the library's tests on the other Python instead; those that are marked once
are left to `make test`, as are the laboratory's.  The ledger's claims are computed on each: what
they and the README's commands show of the bundled results must be the same on all, to the digit.  A
kernel that cannot be run is named.

On the last kernel the terms of each product are added up in an order drawn from a seed
(tests/rounding), as if it were that of yet another processor, and the largest errors are printed as
shares of their tolerances.  Where the order cannot be changed, a sentence says so.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.rounding.margins import report  # noqa: E402
from tests.rounding.run import Unavailable, variables  # noqa: E402

#: The order in which the last kernel adds up; `make test-rounding` takes others.
SEED = 1
#: What a processor must have for a kernel.  Of the two without AVX one is enough.
NEEDS = {
    "Nehalem": {"sse4_2"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
}
#: What may depend on a kernel or on the Python: the library, and what the ledger shows.
TESTS = [
    "tests/sampled_metrics",
    "src/sampled_metrics",
    "tests/sampled_book/claims/test_claims.py::test_status_is_the_one_looked_at",
]
LOADED = """
import json, numpy, scipy.linalg, threadpoolctl
print(json.dumps([p["architecture"] for p in threadpoolctl.threadpool_info()
                  if p["internal_api"] == "openblas" and "scipy_openblas" in p["prefix"]]))
"""


def environment(kernel: str) -> dict[str, str]:
    """The environment in which OpenBLAS takes a kernel, or that of this processor for ""."""
    # What is computed from the data sets is compared with the bundle once, beside these runs.
    left_out = ("OPENBLAS_CORETYPE", "SAMPLED_METRICS_DATA", "CI")
    found = {key: value for key, value in os.environ.items() if key not in left_out}
    chosen = {"OPENBLAS_CORETYPE": kernel} if kernel else {}
    return found | {"OPENBLAS_NUM_THREADS": "1"} | chosen


def loaded(kernel: str) -> set[str]:
    """The kernels that NumPy's and SciPy's OpenBLAS take when they are asked for one."""
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(
        command, env=environment(kernel), stdout=subprocess.PIPE, text=True, check=True
    )
    return set(json.loads(done.stdout))


def to_run() -> list[str]:
    """The kernels to run besides this processor's own; a line for each that is not."""
    native, cpu = loaded(""), Path("/proc/cpuinfo")
    if not native or not cpu.exists():
        print("There are no OpenBLAS kernels to choose from on this machine.")
        return []
    flags = set(cpu.read_text().partition("flags")[2].partition("\n")[0].split())
    seen = {*native}
    print(f"This processor's kernel, which the tests are run with: {', '.join(sorted(native))}")
    chosen = []
    for kernel, needs in NEEDS.items():
        if missing := needs - flags:
            print(f"{kernel}: skipped, the processor has no {', '.join(sorted(missing))}")
            continue
        found = loaded(kernel)
        if len(found) != 1:
            sys.exit(f"{kernel}: NumPy and SciPy load different kernels, {sorted(found)}")
        if found <= seen:
            print(f"{kernel}: skipped, it is {', '.join(found)}, which is run already")
            continue
        if found != {kernel}:
            sys.exit(f"{kernel}: {', '.join(found)} is loaded instead")
        seen |= found
        chosen.append(kernel)
    return chosen


def shown_by_commands() -> list[str]:
    """The README's commands on the bundled log."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.startswith("sampled-metrics ") and "bundled" in line]
    assert found
    return found


def write_tables(python: str, env: dict[str, str], folder: Path) -> None:
    """Run the README's commands in an environment and keep what they print, side by side."""
    running = [
        subprocess.Popen(
            [python, "-m", "sampled_metrics", *shlex.split(line)[1:]],
            env=env, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for line in shown_by_commands()
    ]  # fmt: skip
    for number, command in enumerate(running):
        text, _ = command.communicate()
        if command.returncode:
            kernel = env.get("OPENBLAS_CORETYPE", "the own kernel")
            sys.exit(f"{shlex.join(command.args)} on {kernel} failed")
        (folder / f"command-{number + 1}").write_text(text, encoding="utf-8")


def differences(first: Path, second: Path) -> list[str]:
    """What is not the same in two folders of texts, with the lines that differ."""
    texts = [{p.name: p.read_text(encoding="utf-8") for p in f.iterdir()} for f in (first, second)]
    found = []
    for name in sorted(texts[0].keys() | texts[1].keys()):
        one, two = (text.get(name, "").splitlines() for text in texts)
        if one != two:
            lines = [f"    {a}\n    {b}" for a, b in zip(one, two, strict=False) if a != b]
            found.append(f"  {name}:\n" + "\n".join(lines or ["    lines are missing"]))
    return found


def main(folder: Path, other: str = "") -> int:
    own = folder / "shown"
    if not own.is_dir() or len(list(own.iterdir())) < 100:
        sys.exit(f"{own} must hold what the ledger shows: run the tests with --shown first")
    write_tables(sys.executable, environment(""), own)
    kernels = to_run() or ([""] if other else [])
    failed = []
    for place, kernel in enumerate(kernels):
        python = other if other and not place else sys.executable
        all_of_it = python != sys.executable
        version = subprocess.check_output([python, "-V"], text=True).strip()
        title = f"{version}, {kernel or 'this processor'}"
        env, margins = environment(kernel), []
        if kernel == kernels[-1]:
            try:
                env |= variables(SEED, python)
                margins = [folder / "margins"]
                title += f", terms in the order of seed {SEED}"
            except Unavailable as why:
                print(why)
        print(
            f"--- {title}: {'all' if all_of_it else 'numerical'} tests of the library", flush=True
        )
        shown = folder / f"shown-{kernel or 'other'}"
        # Here where the tests on the own Python did not: 3.11 would take half as long again.
        watched = all_of_it and sys.version_info < (3, 12)
        command = [
            *(python, "-m", "pytest", *TESTS, "-q", "-n", "logical", "--maxprocesses=8"),
            *("--dist=worksteal", f"--shown={shown}", "--hypothesis-profile=some"),
            *("-m", "not once" if all_of_it else "numerical and not once"),
            *(["--cov=sampled_metrics"] if watched else []),
            *(f"--margins={path}" for path in margins),
        ]
        env |= {"COVERAGE_CORE": "sysmon"} if watched else {}
        if subprocess.run(command, env=env, cwd=ROOT, check=False).returncode:
            failed.append(f"{title}: the tests failed")
        if margins:
            print(report(margins, most=5)[0])
        if shown.is_dir():
            write_tables(python, env, shown)
            if found := differences(own, shown):
                print("\n".join([f"shown otherwise than on this processor by {title}:", *found]))
                failed.append(f"{title}: {len(found)} results are shown otherwise")
            else:
                print(f"{len(list(shown.iterdir()))} results are shown the same.")
    print("\n".join(failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))

"""What is published: an archive of the sources and a wheel, each of which can be installed."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
SUFFIX = {"wheel": ".whl", "sdist": ".tar.gz"}


def python(*arguments, **options):
    completed = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, **options
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.fixture(scope="module", params=list(SUFFIX))
def built(request, tmp_path_factory):
    """An archive, built from the files of the repository."""
    folder = tmp_path_factory.mktemp(request.param)
    python("-m", "hatchling", "build", "-t", request.param, "-d", folder, cwd=ROOT)
    (archive,) = folder.iterdir()
    assert archive.name.endswith(SUFFIX[request.param])
    return archive


def contents(archive):
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    return [name.split("/", 1)[1] for name in tarfile.open(archive).getnames()]


@pytest.mark.processes
def test_it_holds_the_library_and_neither_the_laboratory_nor_mathjax(built):
    names = contents(built)
    inside = [name.removeprefix("src/") for name in names]
    for needed in ("__init__.py", "__init__.pyi", "py.typed", "data/log.npz"):
        assert f"sampled_metrics/{needed}" in inside
    assert not [name for name in names if "sampled_book" in name or "mathjax" in name]
    assert not [name for name in names if name.startswith(("book/", "benchmarks/"))]
    assert built.stat().st_size < 1_000_000


@pytest.mark.matrix
def test_it_installs_and_runs_from_elsewhere(built, tmp_path):
    python(
        *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--no-build-isolation", "--target", tmp_path / "site", built),
    )
    code = """
import sampled_metrics as sm
print(sm.__file__, sm.__version__)
print(sm.estimate("bundled", ["recall@10"]).to_html()[:5])
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    shown = python("-P", "-c", code, cwd=tmp_path, env=environment).splitlines()
    assert shown[0].startswith(str(tmp_path / "site"))
    assert shown[1].startswith("<")
    table = python(
        *("-P", "-m", "sampled_metrics", "estimate", "bundled", "--metrics", "recall@10"),
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert "recall@10" in table

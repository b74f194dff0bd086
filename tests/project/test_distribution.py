"""What is published: an archive of the sources and a wheel, each of which can be installed."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_SPEC = spec_from_file_location("owner", ROOT / ".ci" / "owner.py")
owner = module_from_spec(_SPEC)
_SPEC.loader.exec_module(owner)
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


@pytest.mark.parametrize("before", [[], ["first-owner"]])
def test_one_command_names_the_owner_everywhere(before):
    texts = {name: (ROOT / name).read_text() for name in owner.FILES}
    for name in [*before, "Somebody"]:
        texts = owner.with_owner(texts, name, "2027-01-31")
    address = "https://github.com/Somebody/sampled-metrics"
    assert yaml.safe_load(texts["_config.yml"])["repository"]["url"] == address
    project = tomllib.loads(texts["pyproject.toml"])["project"]
    assert project["urls"]["Repository"] == address
    assert project | {"urls": None} == PROJECT | {"urls": None}
    citation = yaml.safe_load(texts["CITATION.cff"])
    assert (citation["repository-code"], str(citation["date-released"])) == (address, "2027-01-31")
    assert (
        citation["references"] == yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    )
    assert not [name for name, text in texts.items() if "OWNER" in text or "first-owner" in text]


def test_the_recipe_for_conda_asks_for_what_the_package_asks_for():
    recipe = yaml.safe_load((ROOT / "packaging/conda/meta.yaml").read_text())
    assert recipe["package"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    needed = [line.replace("duckdb", "python-duckdb") for line in PROJECT["dependencies"]]
    needed.append(f"python{PROJECT['requires-python']}")
    assert sorted(line.replace(" ", "") for line in recipe["requirements"]["run"]) == sorted(needed)

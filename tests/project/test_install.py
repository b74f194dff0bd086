"""Environments hold what is pinned, whatever has been released since."""

import ast
import base64
import hashlib
import sys
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
_SPEC = spec_from_file_location("install", ROOT / ".ci" / "install.py")
install = module_from_spec(_SPEC)
_SPEC.loader.exec_module(install)


def wheel(folder, name, version, needs=()):
    """Write an empty wheel and return its pin with its hash."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f'version = "{version}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        "Provides-Extra: more\n" + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        record = ""
        for file, text in files.items():
            archive.writestr(file, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record += f"{file},sha256={digest.decode().rstrip('=')},{len(text)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def only_this_index(tmp_path, monkeypatch):
    """A folder that is the only package index there is, and where pip installs to."""
    folder = tmp_path / "an index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "installed"))
    return folder


def test_a_newer_release_of_what_is_asked_for_with_an_extra_changes_nothing(
    only_this_index, tmp_path
):
    """pip 23.2 resolves `asked[more]` to the newer release, for which there is no hash."""
    pins = tmp_path / "pins.txt"
    pins.write_text(
        wheel(only_this_index, "asks", "1.0", ["asked[more]>=1"])
        + wheel(only_this_index, "asked", "1.0")
    )
    wheel(only_this_index, "asked", "2.0")
    install.install_pins(sys.executable, pins)
    assert (tmp_path / "installed/asked.py").read_text() == 'version = "1.0"\n'


def test_a_release_that_is_not_the_pinned_one_is_one_sentence(only_this_index, tmp_path):
    pins = tmp_path / "pins.txt"
    pins.write_text(wheel(only_this_index, "asks", "1.0"))
    wheel(only_this_index, "asks", "1.0", ["another"])
    with pytest.raises(install.InstallError, match="is not the one that was pinned"):
        install.install_pins(sys.executable, pins)
    pins.write_text(f"elsewhere==1.0 --hash=sha256:{64 * '0'}\n")
    with pytest.raises(install.InstallError, match="not reached, or lacks a pinned release"):
        install.install_pins(sys.executable, pins)


def test_an_interrupted_installation_is_made_anew(tmp_path, monkeypatch):
    environment = tmp_path / "an environment"
    commands = []

    def interrupted(*command):
        commands.append(command)
        if "install" in command:
            raise KeyboardInterrupt

    monkeypatch.setattr(install, "run", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            install.install(environment, "")
    assert ["--clear" in command for command in commands if "venv" in command] == [False, True]
    monkeypatch.setattr(install, "run", lambda *command: commands.append(command))
    install.install(environment, "")
    assert "check" in commands[-1]
    install.install(environment, "")
    assert ["--clear" in c for c in commands if "venv" in c] == [False, True, True, False]


def test_an_older_python_is_one_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(install, "OLDEST", (4, 0))
    monkeypatch.setattr(
        sys, "argv", ["install.py", str(tmp_path / "new"), "requirements/study.txt"]
    )
    assert install.main() == 2
    assert "Python 4.0 or newer is needed, not 3." in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_sections_end_where_the_next_one_begins():
    text = "\n# --- book ---\na==1\n\n# --- test ---\nb==1\n"
    assert install.upto("book", text) == "\n# --- book ---\na==1\n"
    assert install.upto("test", text) == text
    with pytest.raises(install.InstallError, match="no section 'site'"):
        install.upto("site", text)


def test_an_older_python_can_read_the_sentence_that_refuses_it():
    ast.parse((ROOT / ".ci" / "install.py").read_text(), feature_version=(3, 6))

"""What a report of a bug needs to say of the machine: versions, linear algebra, threads."""

from __future__ import annotations

import os
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version

import scipy.linalg  # noqa: F401  loads SciPy's own BLAS, so that it is listed too
from threadpoolctl import threadpool_info

from ._validate import unimported

#: What libraries of linear algebra read of the environment.
_SET_BY_USERS = ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def report() -> str:
    """The lines that ``sampled-metrics doctor`` prints.

    >>> [line.split()[0] for line in report().splitlines()][:4]
    ['sampled-metrics', 'Python', 'system', 'processor']
    """
    lines = [
        ("sampled-metrics", version("sampled-metrics")),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("system", platform.platform()),
        ("processor", f"{platform.machine()}, {os.cpu_count()} cores"),
    ]
    needed = [line for line in requires("sampled-metrics") or [] if "book" not in line]
    names = sorted({_name(line) for line in needed})
    lines += [(name, found) for name in names if (found := _version(name))]
    for library in threadpool_info():
        kernel = f", kernel {library['architecture']}" if "architecture" in library else ""
        lines.append(
            (
                library["internal_api"],
                f"{library['version']}, {library['num_threads']} threads{kernel}",
            )
        )
    lines += [(name, os.environ[name]) for name in _SET_BY_USERS if name in os.environ]
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in lines)


def _name(requirement: str) -> str:
    """The package in a requirement such as ``numpy>=1.26; extra == "fast"``."""
    end = next((i for i, letter in enumerate(requirement) if letter in "<>=!~ ;["), None)
    return requirement[:end]


def _version(name: str) -> str | None:
    """The version of a package, and why it cannot be imported; None if it is missing."""
    try:
        found = version(name)
    except PackageNotFoundError:
        return None
    module = name.replace("-", "_")
    try:
        import_module(module)
    except Exception as problem:  # a broken library raises any
        return f"{found}, {unimported(module, problem, f'but there is no module {module}')}"
    return found

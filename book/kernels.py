"""Kernels forked from one process that has imported what the chapters import.

To start Python and import numpy, SciPy, pandas, matplotlib and the package takes a processor three
seconds, more than what many a chapter computes. Here they are imported once for all chapters. No
cell has run in the process that is forked, so chapters share nothing but modules.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

#: What is imported before the fork: what runs chapters, kernels, and what most chapters import.
MODULES = [
    "nbformat",
    "papermill",
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_svg",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "pandas",
    "scipy.optimize",
    "scipy.stats",
    "sampled_book.declared",
    "sampled_book.misleading",
    "sampled_book.tables",
    "sampled_metrics.identification",
    "sampled_metrics.evaluation",
]


def context() -> multiprocessing.context.BaseContext | None:
    """Where kernels can be forked, the context for processes that do so; else nothing.

    It is the processes of this context that can start kernels. macOS forks, too, but its linear
    algebra does not survive it.
    """
    if sys.platform != "linux":
        return None
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(MODULES)
    return found


class ForkedKernels(AsyncKernelManager):
    """Manages a kernel that is forked; for processes of :func:`context`."""

    async def _async_pre_start_kernel(self, **kw: Any) -> tuple[list[str], dict[str, Any]]:
        if self.provisioner is None:
            self.provisioner = _Forked(kernel_spec=self.kernel_spec, parent=self)
        return await super()._async_pre_start_kernel(**kw)


class _Forked(LocalProvisioner):
    """Starts the kernel, and otherwise does as with one that is a program."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        options = cmd[cmd.index("-f") :]  # after "python -m ipykernel_launcher"
        given = options, kwargs.get("cwd", Path.cwd()), kwargs.get("env", {})
        process = multiprocessing.get_context("forkserver").Process(target=_run, args=given)
        process.start()
        self.process, self.pid, self.cwd = _Program(process), process.pid, given[1]
        return self.connection_info


class _Program:
    """A process with the methods of `subprocess.Popen` that Jupyter uses."""

    stdin = stdout = stderr = None

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, signum: int) -> None:
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, signum)


def _run(options: list[str], cwd: Path, env: dict[str, str]) -> None:
    """Be a kernel, until told to shut down or left alone."""
    from ipykernel.kernelapp import IPKernelApp

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(env)
    os.chdir(cwd)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    IPKernelApp.launch_instance(argv=options)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

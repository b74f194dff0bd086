"""Kernels forked from one process that has imported what the chapters import.

To start Python and import numpy, SciPy, pandas, matplotlib and the package takes a processor three
seconds, more than what many a chapter computes. Here they are imported once for all chapters that a
process runs. No cell has run in what is forked, so chapters share nothing but modules.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from uuid import uuid4

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

#: What is imported before the fork: the kernel, and what most chapters import.
MODULES = [
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_svg",
    "matplotlib.pyplot",
    "myst_nb",
    "pandas",
    "scipy.optimize",
    "scipy.stats",
    "sampled_book.chapters.parameters",
    "sampled_book.chapters.inconsistency",
    "sampled_book.display.tables",
    "sampled_metrics.evaluation",
    "sampled_metrics.bounds.identification",
]


def prepare() -> dict[str, Any]:
    """Make this process one that can fork kernels, and return the options of nbclient for it.

    There are none, and kernels are programs as usual, but on Linux: macOS forks, too, but its
    linear algebra does not survive it.
    """
    if sys.platform != "linux":
        return {}
    # Matplotlib reads it when it is imported; a kernel sets it when it starts, which is later here.
    # What it names hooks into the kernel where it is imported, and so is not before the fork.
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    multiprocessing.get_context("forkserver").set_forkserver_preload(MODULES)
    return {"kernel_manager_class": ForkedKernels}


def end_with_parent() -> None:
    """Let this process end when the one that started it is gone."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class ForkedKernels(AsyncKernelManager):
    """Manages a kernel that is forked; after :func:`prepare`.

    It is reached by sockets in the file system. Free ports of TCP are chosen before the kernel
    binds them, and another kernel that starts at the same time may take them.
    """

    def __init__(self, **kwargs: Any) -> None:
        path = Path(tempfile.gettempdir()) / f"kernel-{uuid4().hex}"
        super().__init__(**kwargs, transport="ipc", ip=str(path))

    async def _async_pre_start_kernel(self, **kw: Any) -> tuple[list[str], dict[str, Any]]:
        if self.provisioner is None:
            self.provisioner = _Forked(kernel_spec=self.kernel_spec, parent=self)
        return await super()._async_pre_start_kernel(**kw)


class _Forked(LocalProvisioner):
    """Starts the kernel, and otherwise does as with one that is a program."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        options = cmd[cmd.index("-f") :]  # after "python -m ipykernel_launcher"
        run_args = options, kwargs.get("cwd", Path.cwd()), kwargs.get("env", {})
        process = multiprocessing.get_context("forkserver").Process(target=_run, args=run_args)
        process.start()
        self.process = _Program(process)  # type: ignore[assignment]  # as good as a Popen here
        self.pid, self.cwd = process.pid, run_args[1]
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
    end_with_parent()
    IPKernelApp.launch_instance(argv=options)

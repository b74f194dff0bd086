"""Progress of long computations, on a terminal or in a log file."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from tqdm import tqdm

#: Seconds before the bar appears, and between two lines if stderr is not a terminal.
_DELAY, _EVERY = 2.0, 5.0


class _Lines:
    """A stream that turns the redraws of a bar into lines, since a pipe keeps everything written.

    The last step is written once, although tqdm draws the bar again on closing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._steps = ""

    def write(self, text: str) -> None:
        steps = text.split(" [")[0].strip()  # without the time
        if steps and steps != self._steps:
            self._stream.write(text.strip() + "\n")
        self._steps = steps or self._steps

    def flush(self) -> None:
        self._stream.flush()


def bar(steps: Any = None, *, total: int | None = None, desc: str, unit: str, show: bool) -> Any:
    """A progress bar over `steps`, or `total` steps; lines every few seconds if not on a terminal.

    Nothing is shown in the first two seconds.
    """
    if sys.stderr is None or not show:
        return tqdm(steps, total=total, disable=True)
    options: dict[str, Any] = {"total": total, "desc": desc, "unit": unit, "delay": _DELAY}
    if sys.stderr.isatty():
        return tqdm(steps, **options)
    return tqdm(steps, **options, file=_Lines(sys.stderr), mininterval=_EVERY, ncols=80)

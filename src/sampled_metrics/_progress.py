"""Progress of long work, on a terminal and on a pipe."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from tqdm import tqdm

#: Seconds before anything is said, and between two lines on a pipe.
_DELAY, _EVERY = 2.0, 5.0


class _Lines:
    """A stream whose carriage returns start new lines, since a pipe keeps all that is written.

    The last step is said once, though a bar is drawn again when it ends.
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
    """A progress bar over `steps`, or over `total` of them; on a pipe a line every few seconds.

    Work of less than two seconds shows none.

    Examples
    --------
    >>> list(bar([1, 2], desc="count", unit="number", show=False))
    [1, 2]
    """
    if sys.stderr is None or not show:
        return tqdm(steps, total=total, disable=True)
    options: dict[str, Any] = {"total": total, "desc": desc, "unit": unit, "delay": _DELAY}
    if sys.stderr.isatty():
        return tqdm(steps, **options)
    return tqdm(steps, **options, file=_Lines(sys.stderr), mininterval=_EVERY, ncols=80)

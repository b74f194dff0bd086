"""Time and peak memory of one call, kept for the summary at the end of the run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Measured:
    """One call: what was measured (`what`), by which way (`way`), for n items."""

    topic: str
    what: str
    way: str
    n: int
    seconds: float
    peak: int


MEASURED = pytest.StashKey[list[Measured]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MEASURED] = []


def peak_memory(call: Callable[[], object]) -> int:
    """Bytes that `call` holds at most, beyond what was held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def measure(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that measures a call and keeps what it found."""

    def run(
        topic: str,
        what: str,
        way: str,
        n: int,
        call: Callable[[], object],
        before: Callable[[], None] = lambda: None,
        rounds: int = 3,
    ) -> None:
        benchmark.group = f"{topic}: {what}"
        before()
        peak = peak_memory(call)
        benchmark.extra_info["peak_bytes"] = peak
        benchmark.pedantic(call, setup=before, rounds=rounds)
        if benchmark.stats:  # there are none with --benchmark-disable
            # Whatever else the machine does can only add to the time.
            seconds = benchmark.stats.stats.min
            kept = Measured(topic, what, way, n, seconds, peak)
            request.config.stash[MEASURED].append(kept)

    return run


def growth(points: list[Measured]) -> float:
    """The exponent of n in time ~ n**e, by least squares on logarithms."""
    n, seconds = (np.log([getattr(p, name) for p in points]) for name in ("n", "seconds"))
    return float(np.polyfit(n, seconds, 1)[0])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    measured = config.stash[MEASURED]
    for topic in dict.fromkeys(m.topic for m in measured):
        rows = [m for m in measured if m.topic == topic]
        terminalreporter.section(topic)
        for line in table(rows) + growths(rows):
            terminalreporter.write_line(line)


def table(rows: list[Measured]) -> list[str]:
    """One line for each measurement, what is compared side by side; ratios are to ours."""
    whats = list(dict.fromkeys(m.what for m in rows))
    rows = sorted(rows, key=lambda m: (whats.index(m.what), m.n, m.way != "ours"))
    width = max(map(len, whats))
    ours = {(m.what, m.n): m for m in rows if m.way == "ours"}
    lines = []
    for m in rows:
        line = f"{m.what:{width}}  n = {m.n:13,}  {m.way:13} {1e3 * m.seconds:9.2f} ms"
        line += f" {m.peak / 2**20:9.1f} MiB"
        base = ours.get((m.what, m.n))
        if m.way != "ours" and base:
            line += f"  {m.seconds / base.seconds:7.2f} x time {m.peak / base.peak:7.2f} x memory"
        lines.append(line)
    return lines


def growths(rows: list[Measured]) -> list[str]:
    """Growth of each series that was measured at two sizes or more."""
    series: dict[tuple[str, str], list[Measured]] = {}
    for m in rows:
        series.setdefault((m.what, m.way), []).append(m)
    lines = []
    for (what, way), points in series.items():
        if len({p.n for p in points}) > 1:
            sizes = f"n = {min(p.n for p in points):,} to {max(p.n for p in points):,}"
            lines.append(f"growth of {what}, {way}: time ~ n^{growth(points):.2f}, {sizes}")
    return lines

"""Progress is shown of long work only: a bar on a terminal, and whole lines on a pipe."""

import io
import sys

import pytest
import tqdm

from sampled_metrics import _progress


class Clock:
    """A clock that goes on by so many seconds with each step."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


class Stream(io.StringIO):
    """An error stream that is a terminal or a pipe."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def clock(monkeypatch):
    fake_clock = Clock()
    monkeypatch.setattr(tqdm.std, "time", fake_clock)
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)  # no thread with a clock of its own
    return fake_clock


def shown(clock, monkeypatch, seconds, terminal, **options):
    """What is written of twenty steps that take so many seconds each."""
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    bar_options = {"desc": "count", "unit": "step", "show": True} | options
    for _ in _progress.bar(range(20), **bar_options):
        clock.now += seconds
    return stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_shows_nothing(clock, monkeypatch, terminal):
    assert shown(clock, monkeypatch, 0.05, terminal).strip() == ""


def test_long_work_has_a_line_every_few_seconds_on_a_pipe(clock, monkeypatch):
    text = shown(clock, monkeypatch, 1.0, False)
    lines = text.splitlines()
    assert 3 <= len(lines) <= 6  # of twenty seconds
    assert all(line.startswith("count: ") and len(line) <= 80 for line in lines)
    assert not {"\r", "\x1b"} & set(text)
    assert text.endswith("\n")
    steps = [int(line.split("| ")[1].split("/")[0]) for line in lines]
    assert steps == sorted(set(steps))
    assert steps[-1] == 20


def test_long_work_has_one_bar_on_a_terminal(clock, monkeypatch):
    text = shown(clock, monkeypatch, 1.0, True)
    assert text.count("\r") > 10
    assert text.count("\n") == 1


def test_nothing_is_shown_if_nobody_asks_or_nobody_can_see(clock, monkeypatch):
    assert shown(clock, monkeypatch, 10.0, True, show=False) == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert list(_progress.bar([1, 2], desc="count", unit="step", show=True)) == [1, 2]

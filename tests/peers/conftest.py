"""What the tests with other libraries share: a small data set, and what our naive value is."""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import readers

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "book/library"
# Else transformers takes book/kernels.py for the package of that name, and fails to load.
sys.path[:] = [path for path in sys.path if path != str(ROOT / "book")]
#: `make test-graphs` runs these: their libraries need a newer PyTorch than RecBole.
NEWER = {"test_lenskit.py", "test_lightning.py", "test_ogb.py", "test_pykeen.py"}
NEWER |= {"test_sentence_transformers.py"}
#: Each other file is run by `make test-peers` alone, so that no library is skipped in silence.
OLDER = {file.name for file in Path(__file__).parent.glob("test_*.py")} - NEWER
collect_ignore = sorted(NEWER if find_spec("recbole") else OLDER)


def pytest_configure(config):
    # Other libraries' warnings are shown, and are not ours to mend; our own stay errors.
    config.addinivalue_line("filterwarnings", "default")
    config.addinivalue_line("filterwarnings", "error:::(sampled_metrics|test_)")


@pytest.fixture(scope="session")
def ratings():
    """What 80 users rated of 300 items, popular ones more often; times are in order."""
    rng = np.random.default_rng(11)
    weights = 1.0 / np.arange(3, 303)
    rows = []
    for user in range(80):
        items = rng.choice(300, rng.integers(8, 25), replace=False, p=weights / weights.sum())
        rows += [(user, int(item), at) for at, item in enumerate(items)]
    return pd.DataFrame(rows, columns=["user", "item", "time"])


@pytest.fixture(scope="session")
def split(ratings):
    """Training and test ratings, the last of each user, and 50 negatives for each user."""
    rng = np.random.default_rng(12)
    last = ratings.groupby("user")["time"].transform("max") == ratings["time"]
    train, test = ratings[~last], ratings[last & ratings["item"].isin(ratings[~last]["item"])]
    known = ratings.groupby("user")["item"].agg(set)
    items = np.unique(train["item"])
    negatives = {
        user: rng.choice(np.setdiff1d(items, list(known[user])), 50, replace=False).tolist()
        for user in test["user"]
    }
    return train, test, negatives


@pytest.fixture(scope="session")
def naive():
    """The naive values of a table, by metric."""

    def of(found):
        return dict(zip(found.frame["metric"], found.frame["reported"], strict=True))

    return of


def lines_of(page, begins):
    """The block of a page of the library that begins with a text."""
    text = (PAGES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```\{code-block\} python\n(.*?)^```$", text)
    (lines,) = [block for block in blocks if block.startswith(begins)]
    return lines


@pytest.fixture(scope="session")
def shown():
    """A function that runs three lines of the page on libraries, with the metrics of a test."""

    def run(begins, metrics, **given):
        lines = lines_of("libraries.md", begins)
        lines, changed = re.subn(
            r"estimate\(log, \[.*?\]", f"estimate(log, {metrics}, identification=False", lines
        )
        assert changed == 1
        values = {"sm": sm, "readers": readers, **given}
        exec(lines, values)
        return values

    return run


@pytest.fixture(scope="session")
def added():
    """A function that runs three lines of the page on loops, as they are shown."""

    def run(begins, **given):
        values = {"np": np, "sm": sm, "readers": readers, **given}
        exec(lines_of("loop.md", begins), values)
        return values

    return run


@pytest.fixture(scope="session")
def column():
    """A column of a table, by metric."""

    def of(found, name):
        return dict(zip(found.frame["metric"], found.frame[name], strict=True))

    return of


@pytest.fixture(scope="session")
def corrected():
    """Asserts that ranges hold the exact metrics, and that estimates are twice as near."""

    def check(found, exact):
        rows = found.frame.set_index("metric")
        for name, value in exact.items():
            row = rows.loc[name]
            assert row["possible_low"] <= value <= row["possible_high"], name
            assert abs(row["estimate"] - value) < abs(row["reported"] - value) / 2, name

    return check


@pytest.fixture(scope="session")
def run_read():
    """A function that reads a run as a row of the page on small corpora says."""

    def read(begins, **given):
        text = (PAGES / "corpus.md").read_text(encoding="utf-8")
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {begins}")]
        expression = re.findall(r"`([^`]+)`", row.split(" | ")[1])[0]
        return eval(expression, {"json": json, **given})

    return read

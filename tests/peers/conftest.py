"""What the tests with other libraries share: a small data set, and what our naive value is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import readers
from sampled_metrics.results import Estimates

LIBRARIES = Path(__file__).parents[2] / "book/library/libraries.md"


def pytest_configure(config: pytest.Config) -> None:
    # Other libraries' warnings are shown, and are not ours to mend; our own stay errors.
    config.addinivalue_line("filterwarnings", "default")
    config.addinivalue_line("filterwarnings", "error:::(sampled_metrics|test_)")


@pytest.fixture(scope="session")
def ratings() -> pd.DataFrame:
    """What 80 users rated of 300 items, popular ones more often; times are in order."""
    rng = np.random.default_rng(11)
    weights = 1.0 / np.arange(3, 303)
    rows = []
    for user in range(80):
        items = rng.choice(300, rng.integers(8, 25), replace=False, p=weights / weights.sum())
        rows += [(user, int(item), at) for at, item in enumerate(items)]
    return pd.DataFrame(rows, columns=["user", "item", "time"])


@pytest.fixture(scope="session")
def split(ratings: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, dict[int, list[int]]]:
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
def naive() -> Callable[[Estimates], dict[str, float]]:
    """The naive values of a table, by metric."""

    def of(found: Estimates) -> dict[str, float]:
        rows = found.frame[found.frame["estimator"] == "naive"]
        return dict(zip(rows["metric"], rows["value"], strict=True))

    return of


@pytest.fixture(scope="session")
def shown() -> Callable[..., dict[str, Any]]:
    """A function that runs those three lines of the page that begin with a text."""
    blocks = re.findall(r"(?ms)^```\{code-block\} python\n(.*?)^```$", LIBRARIES.read_text())

    def run(begins: str, metrics: list[str], **given: Any) -> dict[str, Any]:
        (lines,) = [block for block in blocks if block.startswith(begins)]
        lines, changed = re.subn(r"estimate\(log, \[.*?\]", f"estimate(log, {metrics}", lines)
        assert changed == 1
        values = {"sm": sm, "readers": readers, **given}
        exec(lines, values)
        return values

    return run

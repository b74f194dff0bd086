"""Logs that are left to the reader of all rows."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.io.grids import Builder, UnusualError

NAMES = ("a", "b", "c")


def table(rng, users=300, kinds=40):
    """Rows of three recommenders, each of which lacks some users."""
    found = pd.DataFrame(
        {
            "recommender": np.repeat(NAMES, users),
            "user": np.tile(np.arange(users), 3) + 7,
            "x": rng.integers(0, kinds, 3 * users) * 3,
            "y": 5,
        }
    )
    found["z"] = found["x"] % 2
    return found.sample(frac=0.8, random_state=2)


def built(table, size=100, **options):
    builder = Builder(**options)
    for start in range(0, len(table), size):
        part = table.iloc[start : start + size]
        codes, names = pd.factorize(part["recommender"])
        columns = {name: part[name].to_numpy() for name in "xz"} | {"y": np.array([5])}
        builder.add(list(names), codes, part["user"].to_numpy(), columns)
    return builder


def test_what_is_no_grid():
    rows = table(np.random.default_rng(1))
    with pytest.raises(UnusualError):
        built(pd.concat([rows.iloc[:1], rows]))
    builder = built(pd.concat([rows, rows.iloc[:1]]))
    with pytest.raises(UnusualError):
        builder.log(builder.kinds, True)
    with pytest.raises(UnusualError):
        built(rows, first=10)
    with pytest.raises(UnusualError):
        built(rows.assign(user=rows["user"] * 2**30))
    with pytest.raises(UnusualError):
        built(rows.assign(user=rows["user"].astype("uint64") + np.uint64(2**63)), first=2**63)

"""Grids: kinds of rows by recommender and user, counted alone and together."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.io import grids
from sampled_metrics.io.grids import Builder, Grid, UnusualError, alike

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


@pytest.mark.parametrize("kinds", [40, 400, 40_000])
@pytest.mark.parametrize("pairs", [1 << 22, 0])
@pytest.mark.parametrize("options", [{}, {"first": 7, "last": 306, "rows": 720}])
def test_counts_are_those_of_the_rows(monkeypatch, kinds, pairs, options):
    monkeypatch.setattr(grids, "_PAIRS", pairs)
    monkeypatch.setattr(grids, "_BLOCK", 50)
    rows = table(np.random.default_rng(1), kinds=kinds)
    builder = built(rows, **options)
    grid = builder.grid(builder.kinds)
    assert grid.recommenders == tuple(rows["recommender"].unique())
    values = np.array([grid.kinds[name] for name in "xzy"]).T
    assert [*map(tuple, values)] == sorted(set(map(tuple, rows[["x", "z", "y"]].to_numpy())))
    kind = {tuple(row): at + 1 for at, row in enumerate(values.tolist())}
    wide = rows.assign(kind=[kind[tuple(row)] for row in rows[["x", "z", "y"]].to_numpy().tolist()])
    wide = wide.pivot(index="user", columns="recommender", values="kind").fillna(0).astype(int)
    assert grid.users == len(wide)
    for at, name in enumerate(grid.recommenders):
        expected = np.bincount(wide[name], minlength=len(values) + 1)[1:]
        assert grid.counts[at].tolist() == expected.tolist()
    for of in ((0, 1), (2, 0), (0, 1, 2)):
        own = wide[[grid.recommenders[i] for i in of]]
        expected = own[(own > 0).any(axis=1)].value_counts().to_dict()
        found = {}
        for together, counts in grid.together(*of):
            for *each, count in zip(*together, counts, strict=True):
                found[tuple(each)] = found.get(tuple(each), 0) + count
        assert found == expected
    differ = (wide[grid.recommenders[0]] > 0) != (wide[grid.recommenders[1]] > 0)
    assert grid.apart(0, 1) == (differ.sum(), differ.idxmax())
    assert grid.apart(2, 2) == (0, None)


def test_what_is_no_grid():
    rows = table(np.random.default_rng(1))
    with pytest.raises(UnusualError):
        built(pd.concat([rows.iloc[:1], rows]))
    builder = built(pd.concat([rows, rows.iloc[:1]]))
    with pytest.raises(UnusualError):
        builder.grid(builder.kinds)
    with pytest.raises(UnusualError):
        built(rows, first=10)
    with pytest.raises(UnusualError):
        built(rows.assign(user=rows["user"] * 2**30))
    with pytest.raises(UnusualError):
        built(rows.assign(user=rows["user"].astype("uint64") + np.uint64(2**63)), first=2**63)


@pytest.mark.parametrize("most", [1, 40, 2**20, 2**61])
def test_rows_are_of_one_kind_if_they_agree_in_all_columns(most):
    rng = np.random.default_rng(3)
    kinds = [*rng.integers(0, 5, (2, 6)), *rng.integers(0, most, (3, 6)), np.full(6, 7)]
    columns = np.array(kinds)[:, rng.integers(0, 6, 500)]
    kind, found = alike(list(columns))
    assert (np.array(found)[:, kind] == columns).all()
    assert np.array(found).T.tolist() == np.unique(columns, axis=1).T.tolist()


def test_a_grid_of_one_user():
    grid = Grid(("a",), 3, [np.array([0, 1], dtype=np.uint8)], {"x": np.array([9])})
    assert (grid.users, grid.counts.tolist()) == (1, [[1]])
    assert [(k[0].tolist(), c.tolist()) for k, c in grid.together(0)] == [([1], [1])]

"""Groups of users: the log of a group is that of its rows, and each user has one group."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Log, estimate
from sampled_metrics.log.groups import by_group
from sampled_metrics.log.read import read_log
from tests.sampled_metrics.log.test_compact import rows

SIZES = {"n_items": 1_000, "n_negatives": 9, "replacement": True}


def grouped_rows(items=1, users=200, weighted=False, text=False):
    table = rows(items, users, weighted)
    group = np.array(["jazz", "pop", "rock"])[table["user"] % 7 % 3]
    user = "u" + table["user"].astype(str) if text else table["user"]
    return table.assign(user=user, genre=group)


def same(first, second):
    """Whether two logs are equal, but for the order of recommenders and the type of labels."""
    order = [first.recommenders.index(name) for name in second.recommenders]
    codes = zip([first.codes[i] for i in order], second.codes, strict=True)
    assert [*map(str, first.users)] == [*map(str, second.users)]
    assert all(np.array_equal(one, other) for one, other in codes)
    assert (first.sizes is None) == (second.sizes is None)
    if second.sizes is not None:
        sizes = zip([first.sizes[i] for i in order], second.sizes, strict=True)
        assert all(np.array_equal(one, other) for one, other in sizes)
    assert first.kinds.keys() == second.kinds.keys()
    assert all(np.array_equal(first.kinds[name], second.kinds[name]) for name in second.kinds)
    assert (first.weights is None) == (second.weights is None)
    assert first.weights is None or np.array_equal(first.weights, second.weights)


@pytest.mark.parametrize("source", ["frame", "csv", "parquet"])
@pytest.mark.parametrize(
    ("items", "weighted", "text"),
    [(1, False, False), (1, False, True), (4, False, False), (4, True, False)],
)
def test_the_log_of_a_group_is_that_of_its_rows(tmp_path, source, items, weighted, text):
    table, path = grouped_rows(items, weighted=weighted, text=text), tmp_path / f"log.{source}"
    if source == "csv":
        table.to_csv(path, index=False)
    elif source == "parquet":
        table.to_parquet(path, index=False)
    sizes = {"n_negatives": 9, "replacement": True}
    log = read_log(table if source == "frame" else path, by="genre", **sizes)
    assert log.groups.name == "genre"
    assert [*log.groups.cat.categories] == ["jazz", "pop", "rock"]
    parts = dict(by_group(log))
    for label in parts:
        alone = table[table["genre"] == label].drop(columns="genre")
        same(parts[label], read_log(alone, **sizes))


def test_users_with_one_row_are_a_group_without_sizes():
    table = pd.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 1, 1], "rank": [1, 2, 3, 4],
                          "kind": ["several", "several", "one", "one"]})  # fmt: skip
    parts = dict(by_group(read_log(table, by="kind", **SIZES)))
    assert parts["several"].sizes is not None
    assert parts["one"].sizes is None
    assert parts["one"].frame["n_better"].tolist() == [2, 3]


def test_the_frame_of_a_log_has_the_groups():
    log = read_log(grouped_rows(1), n_negatives=9, replacement=True, by="genre")
    again = read_log(log.frame, replacement=True, by="genre")
    pd.testing.assert_series_equal(again.groups, log.groups)


def test_groups_may_be_numbers_in_order():
    table = pd.DataFrame({"user": [1, 2, 3], "rank": 1, "decade": [110, 20, 90]})
    assert read_log(table, by="decade", **SIZES).groups.cat.categories.tolist() == [
        "20",
        "90",
        "110",
    ]


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"age": ["old", None, "old", "old"]}, "age must not be missing, as it is in row 2 of "),
        ({"age": ["old", "new", "new", "new"]},
         "age must be the same in all rows of a user, since a user has one group, got 'old' and "
         "'new' for user 1 in row 3 of "),
        ({}, "by must name one column of .* with the group of each user, other than those that "
             "every log may have, got 'age' and the columns recommender, user, rank"),
    ],
)  # fmt: skip
def test_columns_of_groups_that_are_refused(tmp_path, kind, changes, message):
    table = pd.DataFrame({"recommender": [*"AABB"], "user": [1, 2, 1, 2], "rank": 1}).assign(
        **changes
    )
    source = {"frame": table, "csv": tmp_path / "log.csv", "parquet": tmp_path / "log.parquet"}
    table.to_csv(source["csv"], index=False)
    table.to_parquet(source["parquet"])
    with pytest.raises(ValueError, match=message):
        read_log(source[kind], by="age", **SIZES)


@pytest.mark.parametrize("by", ["rank", "model", "n_relevant", 3, ["age"]])
def test_no_column_that_every_log_may_have_groups_users(by):
    table = pd.DataFrame({"user": [1, 2], "rank": 1})
    with pytest.raises(ValueError, match="by must name one column of the log with the group"):
        read_log(table, by=by, **SIZES)


def test_a_log_must_have_been_read_with_its_groups():
    table = pd.DataFrame({"user": range(4), "rank": 1, "age": [*"abab"]})
    for log, end in (
        (
            read_log(table[["user", "rank"]], **SIZES),
            "by must be that of read_log, None, got 'sex': read the log with it",
        ),
        (read_log(table, by="age", **SIZES), "by must be that of read_log, age, got 'sex'"),
    ):
        assert isinstance(log, Log)
        with pytest.raises(ValueError, match="by must be that of read_log") as refused:
            estimate(log, by="sex")
        assert end in str(refused.value)

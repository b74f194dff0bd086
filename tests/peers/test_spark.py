"""Spark: logs in its data frames, counted by its own group-by (by hand: needs pyspark and Java)."""

import shutil

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="pip install pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

from pyspark.sql import SparkSession

import sampled_metrics as sm
from sampled_metrics.log import tables as _tables

SIZES = {"n_items": 480, "n_negatives": 9, "replacement": True}


@pytest.fixture(scope="module")
def spark():
    """An engine of its own, in one thread of this machine."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table():
    """A row of 3,000 users with each of two recommenders, mixed up."""
    rng = np.random.default_rng(5)
    ranks = {name: np.minimum(rng.geometric(p, 3000), 10) for name, p in (("A", 0.3), ("B", 0.2))}
    rows = pd.concat(
        pd.DataFrame({"recommender": name, "user": range(3000), "rank": own})
        for name, own in ranks.items()
    )
    return rows.sample(frac=1, random_state=1).reset_index(drop=True)


def together(table):
    """The same with two items of half as many users, whose ranks differ."""
    ranks = 2 * table["rank"].clip(upper=5) - table["user"] % 2
    return table.assign(user=table["user"] // 2, rank=ranks)


def same(found, expected):
    """Estimates and verdicts are those of all rows."""
    metrics = ["ndcg@5", "recall@1"]
    frames = [sm.estimate(log, metrics).frame for log in (found, expected)]
    pd.testing.assert_frame_equal(*frames)
    if len(expected.recommenders) > 1:
        frames = [sm.compare(log, "ndcg@5").frame for log in (found, expected)]
        pd.testing.assert_frame_equal(*frames)


def test_a_log_in_spark_is_counted_there(monkeypatch, spark, table):
    came = []
    of_spark = _tables._of_spark
    monkeypatch.setattr(
        _tables, "_of_spark", lambda frame: came.append(of_spark(frame)) or came[-1]
    )
    expected = sm.read_log(table, **SIZES)
    found = sm.read_log(spark.createDataFrame(table), **SIZES)
    same(found, expected)
    assert found.n_users == expected.n_users == 3000
    assert len(came[0]) <= 2 * 10 * 10  # not 6,000 rows, but those of the pairs of ranks


def test_several_rows_of_a_user_are_counted_there_too(spark, table):
    one = table[table["recommender"] == "A"].drop(columns="recommender")
    rows = together(one)
    with pytest.warns(UserWarning, match="2 rows of a user are read as relevant items"):
        expected = sm.read_log(rows, **SIZES)
    with pytest.warns(UserWarning, match="2 rows of a user are read as relevant items"):
        found = sm.read_log(spark.createDataFrame(rows), **SIZES)
    pd.testing.assert_frame_equal(found.counts, expected.counts)


def test_items_are_told_apart(spark, table):
    rows = together(table).assign(item=table["user"])
    found, expected = (sm.read_log(given, **SIZES) for given in (spark.createDataFrame(rows), rows))
    pd.testing.assert_frame_equal(found.counts, expected.counts)


@pytest.mark.parametrize("change", [{"rank": 99}, {"user": None}, {"note": range(6000)}])
def test_what_is_refused_or_warned_of_in_pandas_is_in_spark(spark, table, change):
    rows = table.assign(**change).astype({"user": "Int64"})
    frame = spark.createDataFrame(
        rows.astype(object).where(rows.notna(), None).to_numpy().tolist(),
        "recommender string, user long, rank long" + ", note long" * ("note" in change),
    )
    if "note" in change:
        with pytest.warns(UserWarning, match="note"):
            same(sm.read_log(frame, **SIZES), sm.read_log(table, **SIZES))
        return
    said = []
    for given in (rows, frame):
        with pytest.raises(ValueError, match=next(iter(change))) as problem:
            sm.read_log(given, **SIZES)
        said.append(str(problem.value).split(" in row")[0].split(",")[0])
    assert said[0].split(" got")[0][:30] == said[1].split(" got")[0][:30]

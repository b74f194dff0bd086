"""Files, frames and counts of the same rows give the same results."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import evaluation
from sampled_metrics.log import compact
from sampled_metrics.log import tables as _tables
from sampled_metrics.log.read import read_log
from tests.sampled_metrics.designs.logs import compare, estimate


def kinds_of_users(items):
    """A log of kinds of users who are alike under every recommender, and of each user alone."""
    rng, users = np.random.default_rng(11), 120
    kinds = pd.DataFrame(
        {
            "recommender": np.repeat(["A", "B", "C"], users * items),
            "user": np.tile(np.repeat(np.arange(users), items), 3),
            "item": np.tile(np.arange(items), 3 * users),
            "n_better": rng.binomial(9, rng.beta(0.5, 2.0, 3 * users * items)),
            "n_tied": 0,
        }
    )
    kinds["count"] = rng.integers(1, 4, users)[kinds["user"]]
    user_rows = kinds.loc[np.repeat(kinds.index, kinds["count"])].drop(columns="count")
    copy = user_rows.groupby(["recommender", "user", "item"]).cumcount()
    return kinds, user_rows.assign(user=1_000 * user_rows["user"] + copy)


@pytest.mark.some(2)
@pytest.mark.parametrize("items", [1, 2])
@pytest.mark.parametrize("way", ["one row", "monotone", "compare", "compare by bets"])
def test_a_count_is_so_many_rows(items, way):
    calls = {
        "one row": lambda log: evaluation.estimate(log, ["ndcg@3", "auc"]),
        "monotone": lambda log: evaluation.estimate(log, ["ndcg@3"], estimator="monotone"),
        "compare": lambda log: evaluation.compare(log, "ndcg@3"),
        "compare by bets": lambda log: evaluation.compare(log, "auc"),
    }
    counted, user_rows = kinds_of_users(items)
    sizes = {"n_items": 50, "n_negatives": 9, "replacement": True}
    from_counts, expected = (calls[way](read_log(table, **sizes)) for table in (counted, user_rows))
    assert from_counts.notes == expected.notes
    pd.testing.assert_frame_equal(from_counts.frame, expected.frame, rtol=1e-9)
    assert (from_counts.frame.select_dtypes("number").sum() != 0).any()


def test_counts_without_users_are_estimated_and_not_compared():
    counted, user_rows = kinds_of_users(1)
    sizes = {"n_items": 50, "n_negatives": 9, "replacement": True}
    count_rows = counted.groupby(["recommender", "n_better", "n_tied"], as_index=False)[
        "count"
    ].sum()
    log = read_log(count_rows, **sizes)
    # The prior is fitted to all recommenders, and their users are taken to be others here.
    others = user_rows.assign(user=user_rows["recommender"] + user_rows["user"].astype(str))
    from_counts, expected = (
        estimate(x, ["ndcg@3", "auc"]) for x in (log, read_log(others, **sizes))
    )
    pd.testing.assert_frame_equal(from_counts, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="a log with a column count needs a column user"):
        compare(log, "auc")


@pytest.mark.some(2)
@pytest.mark.parametrize("order", ["in order", "mixed up"])
@pytest.mark.parametrize("users", ["the same", "others"])
def test_files_with_several_rows_of_a_user_say_what_frames_say(tmp_path, monkeypatch, users, order):
    monkeypatch.setattr(_tables, "_ROWS", 97)
    monkeypatch.setattr(compact, "_BLOCK", 50)
    rng = np.random.default_rng(3)
    tables = []
    for name, better in (("one", 0.2), ("other", 0.4)):
        n_rows = rng.integers(1, 4, 300)
        ranks = np.concatenate([rng.choice(9, k, replace=False) for k in n_rows])
        columns = {"recommender": name, "user": np.repeat(np.arange(300), n_rows) + 7}
        ranks = np.where(rng.random(ranks.size) < better, ranks, 0)
        tables.append(pd.DataFrame(columns | {"n_better": ranks, "n_tied": rng.integers(0, 3)}))
    rows = pd.concat(tables, ignore_index=True).assign(n_negatives=12)
    rows["n_items"] = 50 + rows["user"] % 2
    rows = rows.drop_duplicates(["recommender", "user", "n_better"])
    rows = rows.assign(item=np.arange(len(rows)))
    if users == "others":
        rows = rows[~((rows["recommender"] == "one") & rows["user"].isin([20, 250]))]
    if order == "mixed up":
        rows = rows.sample(frac=1, random_state=1)
    rows.to_csv(tmp_path / "log.csv", index=False)
    log, in_memory = (read_log(source, replacement=True) for source in (tmp_path / "log.csv", rows))
    assert repr(log) == repr(in_memory)
    from_file, expected = (estimate(x, ["ndcg@3", "rr"]) for x in (log, in_memory))
    pd.testing.assert_frame_equal(from_file, expected, rtol=1e-9)
    if users == "the same":
        for options in ({}, {"estimator": "bias-variance, fitted prior"}):
            from_file, expected = (compare(x, "ndcg@3", **options) for x in (log, in_memory))
            pd.testing.assert_frame_equal(from_file, expected, rtol=1e-9)
        return
    messages = []
    for source in (log, in_memory):
        with pytest.raises(ValueError, match="must have the same users") as problem:
            compare(source, "ndcg@3")
        messages.append(str(problem.value))
    assert messages[0].split(", such as")[0] == messages[1].split(", such as")[0]
    pd.testing.assert_frame_equal(log.frame, in_memory.frame)

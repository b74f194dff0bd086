"""Groups of users and several metrics: each answer is that of its rows, at a corrected confidence.

That all hold together is Bonferroni's inequality; a simulation tries it on hostile populations.
"""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Protocol, compare, estimate, readers
from sampled_metrics.log.read import read_log
from tests.sampled_metrics.designs.logs import two

SIZES = {"n_items": 1_000, "n_negatives": 9, "replacement": True}
METRICS = ["recall@10", "auc"]


def grouped(users=300, n_groups=3, seed=1):
    rng = np.random.default_rng(seed)
    true = {"A": rng.integers(1, 200, users), "B": rng.integers(1, 900, users)}
    tables = [
        pd.DataFrame({"recommender": name, "user": range(users), "age": np.arange(users) % n_groups,
                      "rank": Protocol(1_000, 9).draw(ranks, rng)})
        for name, ranks in true.items()
    ]  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def test_estimates_of_a_group_are_those_of_its_rows_at_a_corrected_confidence():
    rows = grouped()
    result = estimate(read_log(rows, by="age", **SIZES), METRICS, by="age", confidence=0.9)
    assert result.frame.columns[0] == "group"
    assert list(result.frame["group"].unique()) == ["all", "0", "1", "2"]
    assert result.settings["confidence"] == 0.9
    assert result.settings["by"] == "age"
    for group, found in result.frame.groupby("group"):
        own = rows if group == "all" else rows[rows["age"].astype(str) == group]
        log = read_log(own.drop(columns="age"), **SIZES)
        alone = estimate(log, METRICS, confidence=1 - (1 - 0.9) / 4).frame
        pd.testing.assert_frame_equal(
            found.drop(columns="group").reset_index(drop=True), alone, check_exact=True
        )
    together = [note for note in result.notes if "hold together" in note]
    assert together == [
        "for each recommender and metric the intervals of all users and 3 groups hold together: "
        "each has an error rate of 0.1 / 4 (Bonferroni)"
    ]


def test_comparisons_by_several_metrics_are_those_at_a_corrected_confidence():
    rows = grouped(n_groups=2)
    result = compare(read_log(rows, by="age", **SIZES), METRICS, by="age")
    assert list(result.frame.columns[:4]) == ["group", "metric", "first", "second"]
    assert result.settings["metric"] == "recall@10, auc"
    for (group, name), found in result.frame.groupby(["group", "metric"]):
        own = rows if group == "all" else rows[rows["age"].astype(str) == group]
        alone = compare(read_log(own.drop(columns="age"), **SIZES), name, confidence=1 - 0.05 / 6)
        pd.testing.assert_frame_equal(
            found.drop(columns=["group", "metric"]).reset_index(drop=True), alone.frame
        )
        assert result.verdicts[group, name, "A", "B"] == alone.verdicts["A", "B"]
    assert "hold together: each has an error rate of 0.05 / 6 (Bonferroni)" in result.notes[-1]
    parts = result.by_metric()
    assert [*parts] == METRICS
    assert str(parts["auc"].settings["assumed"]) == "nothing"
    assert "deeper ranks" in str(parts["recall@10"].settings["assumed"])


def test_one_metric_in_a_list_is_that_metric():
    log = two([1, 2, 3, 1] * 20, [5, 4, 9, 1] * 20)
    found, alone = compare(log, ["auc"]), compare(log, "auc")
    pd.testing.assert_frame_equal(found.frame, alone.frame)
    assert found.settings == alone.settings
    assert [*found.by_metric()] == ["auc"]


def test_a_track_record_is_about_all_users():
    bundled = read_log("bundled").frame
    log = read_log(bundled.assign(half=bundled["user"] % 2), replacement=False, by="half")
    estimates = estimate(log, ["ndcg@10"], by="half").frame
    has_range = estimates["typical_low"].notna()
    assert has_range.groupby(estimates["group"]).all().to_dict() == {
        "all": True, "0": False, "1": False}  # fmt: skip
    whole = estimate(read_log(bundled, replacement=False), ["ndcg@10"]).frame
    of_all = estimates[estimates["group"] == "all"]
    for name in ("estimate", "standard_error", "typical_low", "typical_high"):
        assert of_all[name].tolist() == whole[name].tolist()
    # Verdicts by the record are those at the confidence asked for, and those of all users alone.
    compared, alone = compare(log, "ndcg@10", by="half"), compare("bundled", "ndcg@10")
    rows = compared.frame[compared.frame["group"] == "all"]
    assert "track record" in rows["warrant"].tolist()
    assert rows["warrant"].tolist() == alone.frame["warrant"].tolist()
    assert rows["verdict"].tolist() == alone.frame["verdict"].tolist()
    others = compared.frame[compared.frame["group"] != "all"]
    assert "track record" not in others["warrant"].tolist()
    assert others["probability"].isna().all()
    assert any("groups have no track record" in note for note in compared.notes)


def test_groups_that_are_too_small_are_named():
    rows = pd.DataFrame({"user": range(9), "rank": [1, 2, 3] * 3, "age": [*"aaaabbbbc"]})
    result = estimate(read_log(rows, by="age", **SIZES), ["auc"], by="age")
    assert result.frame["group"].tolist() == ["all", "a", "b"]
    assert "groups with fewer than 2 users of a recommender left out: c" in result.notes
    assert "each has an error rate of 0.05 / 3 (Bonferroni)" in result.notes[-1]
    log = read_log(rows.assign(age=range(9)), by="age", **SIZES)
    with pytest.raises(ValueError, match="by must name a column with groups of 2 users or more"):
        estimate(log, ["auc"], by="age")


def test_other_designs_have_groups():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"user": range(80), "n_better": rng.integers(1, 500, 80), "n_tied": 0,
                         "n_negatives": 999, "age": [*"ab"] * 40})  # fmt: skip
    log = read_log(rows, n_items=1_000, replacement=False, by="age")
    assert estimate(log, ["recall@10"], by="age").frame["users"].tolist() == [80, 40, 40]
    counted = pd.DataFrame({"rank": [1, 2, 3, 4], "count": [9, 8, 7, 6], "age": [*"abab"]})
    log = read_log(counted, by="age", **SIZES)
    assert estimate(log, ["auc"], by="age").frame["users"].tolist() == [30, 16, 14]


RUN = {q: {f"d{d}": 9.0 - d for d in range(1, 6)} for q in ("q1", "q2")}
CORPUS = readers.ranx(RUN, {q: {"d1": 1} for q in RUN}, corpus_size=100)
ROWS = pd.DataFrame({"recommender": [*"AB"] * 9, "user": np.repeat(range(9), 2), "rank": 1})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: estimate(CORPUS, ["rr"], by="age"),
            "by must be left out for a sub-corpus, got 'a",
        ),
        (
            lambda: compare(read_log(ROWS.assign(n_above=0.0), **SIZES), ["auc", "rr"]),
            "metric must be auc for a log with n_above, got 'rr'",
        ),
        (lambda: compare(read_log(ROWS, **SIZES), []), "metrics must hold one metric or more, got"),
        (
            lambda: estimate(
                read_log(ROWS[::2].assign(age=["all", "all", "b"] * 3), by="age", **SIZES),
                ["auc"],
                by="age",
            ),
            "none of them named 'all'",
        ),
    ],
)
def test_what_cannot_be_grouped_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

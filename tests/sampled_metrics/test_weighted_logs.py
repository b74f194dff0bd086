"""Logs with n_above: counts by hand, comparisons by their definition, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sampled_metrics as sm
from sampled_metrics import planning
from sampled_metrics.readers import counts_above


def test_counts_by_hand():
    counts = counts_above(
        [2.0, 1.0], [[3.0, 2.0, np.nan], [0.0, 1.5, 1.5]], [[0.5, 0.25, np.nan], [0.1, 0.2, 0.2]]
    )
    assert counts.tolist() == [2 + 2, 10]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([1.0], [[2.0, 1.0]], [[0.5]]), "must have a row for each positive and the same shape"),
        (([np.nan], [[2.0]], [[0.5]]), "positive must not be NaN, got one in row 0"),
        (([1.0], [[2.0]], [[0.0]]), "inclusion must be > 0 where there is a negative, got 0.0"),
    ],
)
def test_bad_counts_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        counts_above(*given)


def log_of(seed, users=80, lead=0.05):
    """Two recommenders of the same users and negatives, in an order that must be undone."""
    rng = np.random.default_rng(seed)
    above = rng.gamma(2.0, 20.0, users)
    rows = [
        pd.DataFrame(
            {
                "recommender": name, "user": rng.permutation(users),
                "n_better": rng.integers(0, 5, users), "n_tied": 0,
            }
        )
        for name in "AB"
    ]  # fmt: skip
    for frame, advantage in zip(rows, (0.0, lead), strict=True):
        noise = rng.normal(0, 2, users)
        frame["n_above"] = np.maximum(above[frame["user"]] + 400 * advantage + noise, 0)
    return pd.concat(rows)


def test_a_comparison_is_paired():
    rows = log_of(1)
    log = sm.read_log(rows, n_items=401, n_negatives=10, replacement=True)
    comparison = sm.compare(log, "auc")
    assert comparison.verdicts == {("A", "B"): "A beats B"}
    first_auc, second_auc = (
        1 - part.set_index("user")["n_above"].sort_index() / 400
        for _, part in rows.groupby("recommender")
    )
    row = comparison.frame.iloc[0]
    assert row["estimate"] == pytest.approx((first_auc - second_auc).mean())
    assert row["standard_error"] == pytest.approx((first_auc - second_auc).std() / np.sqrt(80))
    assert (row["assumption"], row["warrant"]) == ("none", "large sample")
    even = sm.read_log(log_of(2, lead=0.0), n_items=401, n_negatives=10, replacement=True)
    assert sm.compare(even, "auc").verdicts == {("A", "B"): "undecided"}


def test_a_log_keeps_its_column_in_the_order_of_its_rows():
    rows = log_of(3)
    log = sm.read_log(rows, n_items=401, n_negatives=10, replacement=True)
    log_counts = log.frame.set_index(["recommender", "user"])["n_above"].sort_index()
    row_counts = rows.set_index(["recommender", "user"])["n_above"].sort_index()
    pd.testing.assert_series_equal(log_counts, row_counts)
    reread = sm.read_log(log.frame, n_items=401, n_negatives=10, replacement=True)
    np.testing.assert_array_equal(reread.frame["n_above"], log.frame["n_above"])


def test_what_is_possible_is_a_share():
    rows = pd.DataFrame({"user": [1, 2], "rank": [1, 5], "n_above": [0.0, 90.0]})
    log = sm.read_log(rows, n_items=101, n_negatives=5, replacement=True)
    row = sm.estimate(log, ["auc"]).frame.iloc[0]
    assert (row["possible_low"], row["possible_high"]) == (0.0, 1.0)
    assert (row["assumption"], row["warrant"]) == ("none", "large sample")


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        (sm.estimate, {"gamma": 0.1}),
        (sm.compare, {"estimator": "naive"}),
        (sm.compare, {"gamma": 0.1}),
    ],
)
def test_an_option_that_means_nothing_here_is_refused(verb, option):
    log = sm.read_log(log_of(4), n_items=401, n_negatives=10, replacement=True)
    metric = ["auc"] if verb is sm.estimate else "auc"
    (name,) = option
    with pytest.raises(ValueError, match=f"{name} must be left out, got .* weighted negatives"):
        verb(log, metric, **option)


def test_what_is_for_negatives_drawn_alike_refuses_the_log():
    log = sm.read_log(log_of(4), n_items=401, n_negatives=10, replacement=True)
    with pytest.raises(ValueError, match="metric must be auc for a log with n_above"):
        sm.compare(log, "recall@10")
    with pytest.raises(ValueError, match="must have negatives drawn uniformly from all items"):
        planning.fitted(log, 401)
    with pytest.raises(ValueError, match="n_above must hold numbers >= 0, got -1"):
        sm.read_log(log_of(4).assign(n_above=-1.0), n_items=401, n_negatives=10, replacement=True)


def test_estimates_and_verdicts_by_hand():
    rows = {"recommender": [*"AAABBB"], "user": [1, 2, 3] * 2, "rank": [3, 1, 2, 4, 2, 4]}
    rows |= {"n_above": [30.0, 0.0, 9.0, 50.0, 22.0, 30.0]}
    log = sm.read_log(pd.DataFrame(rows), n_items=101, n_negatives=5, replacement=True)
    estimates = sm.estimate(log, ["auc"]).frame
    assert estimates["reported"].tolist() == pytest.approx([0.8, 8 / 15])  # 3 and 7 of 15 above
    assert estimates["estimate"].tolist() == pytest.approx([0.87, 0.66])
    assert estimates["standard_error"].tolist() == pytest.approx(
        [stats.sem([0.7, 1.0, 0.91]), stats.sem([0.5, 0.78, 0.7])]
    )
    compared = sm.compare(log, "auc")
    differences = np.array([0.2, 0.22, 0.21])
    expected = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    (row,) = compared.frame.itertuples()
    assert (row.possible_low, row.possible_high) == pytest.approx(tuple(expected))
    assert (row.student_low, row.student_high) == (row.possible_low, row.possible_high)
    assert (row.verdict, row.favoured) == ("A beats B", "")
    assert pd.isna([row.users_needed, row.probability]).all()


def test_recommenders_of_other_users_are_not_compared():
    rows = log_of(4)
    rows = rows[(rows["recommender"] == "A") | (rows["user"] != 7)]
    log = sm.read_log(rows, n_items=401, n_negatives=10, replacement=True)
    with pytest.raises(ValueError, match="A and B differ in 1, such as 7"):
        sm.compare(log, "auc")

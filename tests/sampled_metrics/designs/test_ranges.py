"""Ranges of estimates: what they hold, assume and quote."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import _printed_ranges, evaluation, metric
from sampled_metrics.designs import ranges
from sampled_metrics.log.read import read_log
from sampled_metrics.ranking.intervals import RankIntervals
from tests.sampled_metrics.designs.logs import compare, drawn, estimate, log_of


@pytest.mark.parametrize("distinct", [1, 2, 4])
def test_intervals_hold_however_many_items_the_tied_draws_are(distinct):
    # All of 20 items but `distinct` are below the relevant one, which ties with these.
    users, m, rng = 2_000, 30, np.random.default_rng(distinct)
    tied = rng.binomial(m, distinct / 19, users)
    rows = pd.DataFrame({"user": range(users), "n_better": 0, "n_tied": tied})
    log = read_log(rows, n_items=20, n_negatives=m, replacement=True)
    metrics = ["recall@1", "recall@2", "ap", "auc"]
    frame = evaluation.estimate(log, metrics, assumption=None).frame
    exact = [RankIntervals([0], [distinct], [20]).evaluate(name)[0] for name in metrics]
    assert (frame["possible_low"] <= exact).all()
    assert (frame["possible_high"] >= exact).all()


def test_a_shape_that_the_sample_contradicts_is_not_assumed():
    rng = np.random.default_rng(5)
    population = {
        "deep": np.full(300, 30),
        "A": np.minimum(rng.geometric(0.05, 300), 300),
        "B": np.minimum(rng.geometric(0.01, 300), 300),
    }
    log = drawn(population, 300, 300, 50, rng)
    estimates, free = (
        evaluation.estimate(log, ["recall@10"], assumption=s) for s in ("decreasing", None)
    )
    note, *others = estimates.notes
    assert note.startswith("the ranks of deep contradict the assumption that deeper ranks have fe")
    assert free.notes == tuple(others)
    assumed = estimates.frame.set_index("recommender")["assumption"].to_dict()
    assert assumed == {"deep": "none"} | dict.fromkeys("AB", "decreasing at the top")
    assert set(free.frame["assumption"]) == {"none"}
    ends = ["possible_low", "possible_high"]
    end_tables = [estimated.frame.set_index("recommender")[ends] for estimated in (estimates, free)]
    np.testing.assert_allclose(end_tables[0].loc["deep"], end_tables[1].loc["deep"], atol=1e-4)
    width = [estimated["possible_high"] - estimated["possible_low"] for estimated in end_tables]
    assert (width[0] < 0.9 * width[1])[["A", "B"]].all()
    compared = evaluation.compare(log, "recall@10")
    assert compared.notes[0] == note
    free = compare(log, "recall@10", assumption=None).set_index(["first", "second"])
    for row in compared.frame.itertuples():
        if "deep" in (row.first, row.second):
            free_row = free.loc[(row.first, row.second)]
            assert row.assumption in ("", "none")
            assert (row.verdict, row.assumption) == (free_row["verdict"], free_row["assumption"])
            # The bets that assume nothing have a smaller weight where more may be assumed.
            assert free_row["possible_low"] - 0.05 < row.possible_low < free_row["possible_low"]


def test_nothing_is_assumed_of_users_with_several_relevant_items():
    table = pd.DataFrame({"user": np.repeat(range(30), 2), "item": [0, 1] * 30})
    table["n_better"] = np.random.default_rng(1).integers(0, 10, 60)
    table["n_tied"] = 0
    log = read_log(table, n_items=100, n_negatives=9, replacement=True)
    estimates = [
        evaluation.estimate(log, ["recall@10"], assumption=s) for s in ("decreasing", None)
    ]
    assert estimates[0].settings["assumed"].conditions == ()
    assert set(estimates[0].frame["assumption"]) == {"none"}
    assert estimates[0].frame["warrant"].ne("").all()
    assert set(evaluation.estimate(log, ["auc"]).frame["warrant"]) == {"theorem"}  # by bets
    pd.testing.assert_frame_equal(estimates[0].frame, estimates[1].frame)
    with pytest.raises(ValueError, match="assumption must be 'decreasing' or None, got 'flat'"):
        evaluation.estimate(log, ["ap"], assumption="flat")


def test_what_is_possible_holds_the_exact_metric_of_the_population(population):
    log = drawn(population, 400, 300, 10, np.random.default_rng(7))
    table = estimate(log, ["recall@10", "auc"])
    assert table["recommender"].tolist() == ["X", "X", "Y", "Y", "Z", "Z"]
    for row in table.itertuples():
        exact = metric(row.metric)(population[row.recommender], 300).mean()
        assert row.possible_low <= exact <= row.possible_high
    auc, recall = (table[table["metric"] == metric_name] for metric_name in ("auc", "recall@10"))
    np.testing.assert_array_equal(auc["estimate"], auc["reported"])
    assert (auc["possible_high"] - auc["possible_low"]).max() < 0.12
    assert (recall["reported"] > recall["possible_high"]).all()
    bare = estimate(log, ["recall@10", "auc"], identification=False)
    columns = ["recommender", "metric", "reported", "estimate", "standard_error", "users"]
    pd.testing.assert_frame_equal(bare[columns], table[columns])
    # Without bias the range takes no time.
    unbiased = bare["metric"] == "auc"
    pd.testing.assert_frame_equal(bare[unbiased], table[unbiased])
    missing = bare[["possible_low", "possible_high"]].isna().all(axis=1) & (bare["quote"] == "")
    assert missing[~unbiased].all()
    assert (bare.loc[~unbiased, ["assumption", "warrant"]] == "").all(axis=None)


@pytest.mark.parametrize(
    ("given", "quote"),
    [
        ((0.25, 0.2, 0.3), "0.250 (0.200 to 0.300)"),
        ((0.0381, 0.0252, 0.0926), "0.038 (0.025 to 0.093)"),  # outwards
        ((0.35, 0.1 + 0.2, 0.5), "0.350 (0.300 to 0.500)"),  # ends that are printed exactly
        ((0.25, 0.25, 0.25), "0.250 (0.250 to 0.250)"),
        ((0.25, 0.26, 0.28), "0.260 to 0.280"),  # the interval excludes the estimate
        ((0.29, 0.26, 0.28), "0.260 to 0.280"),
        ((np.nan, 0.26, 0.28), "0.260 to 0.280"),  # there is no estimate
        ((0.25, np.nan, np.nan), ""),
    ],
)
def test_the_estimate_is_quoted_with_its_range(given, quote):
    value, *ends = given
    assert ranges.quoted(value, ranges.MetricInterval(*ends)) == quote


@pytest.mark.parametrize("name", ["auc", "recall@10"])
def test_a_quote_takes_the_confidence_that_was_asked_for(name):
    rows = pd.DataFrame({"user": range(4), "rank": [1, 1, 3, 20]})
    log = read_log(rows, n_items=1_000, n_negatives=50, replacement=True)
    for confidence in (0.95, 0.999):
        (row,) = estimate(log, [name], confidence=confidence).itertuples()
        written = _printed_ranges.written(row.possible_low, row.possible_high)
        assert row.quote == f"{row.estimate:.3f} ({written})"


def test_an_estimate_outside_its_range_is_not_quoted_and_a_note_says_so():
    # No exact rank of "deep" is within 10. The prior is fitted to "top" as well, which makes the
    # values at such sampled ranks negative.
    population = {"deep": np.full(300, 30), "top": np.tile(np.arange(1, 31), 10)}
    log = drawn(population, 300, 300, 50, np.random.default_rng(5))
    estimates = evaluation.estimate(log, ["recall@10"], estimator="bias-variance, fitted prior")
    deep, top = estimates.frame.itertuples()
    assert deep.estimate < deep.possible_low
    assert deep.quote == _printed_ranges.written(deep.possible_low, deep.possible_high)
    assert top.possible_low < top.estimate < top.possible_high
    assert top.quote.startswith(f"{top.estimate:.3f} (")
    outside = [note for note in estimates.notes if "is outside the 95% interval" in note]
    assert outside == [
        "the estimate of recall@10 for deep is outside the 95% interval, so it is wrong if the "
        "interval is right"
    ]


def test_an_inverted_log_is_named_and_quotes_nothing_below_zero():
    rng = np.random.default_rng(0)
    ranks = 1 + rng.binomial(100, rng.beta(8, 1.5, 800))
    for inverted in (True, False):
        log = log_of(ranks if inverted else 102 - ranks, n_items=2_000, n_negatives=100)
        found = evaluation.estimate(log, ["recall@10", "auc"])
        said = [note for note in found.notes if "may be inverted" in note]
        assert len(said) == inverted
        quotes = found.frame.set_index("metric")["quote"]
        assert not any("-" in quote for quote in quotes)
        assert quotes["recall@10"].startswith("0.000 (0.000") == inverted


def test_users_who_share_their_negatives_get_no_range():
    rows = pd.DataFrame({"user": range(60), "rank": [1, 3, 9] * 20})
    sizes = {"n_negatives": 20, "replacement": False, "shared_negatives": True}
    pair_rows = pd.concat([rows.assign(recommender=name) for name in "AB"])
    log, pair = (read_log(table, n_items=100, **sizes) for table in (rows, pair_rows))
    for call in (lambda: estimate(log, ["recall@10"]), lambda: compare(pair, "recall@10")):
        with pytest.raises(ValueError, match="shared_negatives must be False for an ident"):
            call()
    assert estimate(log, ["recall@10"], identification=False)["reported"].tolist() == [1.0]
    # Who ranks all items draws nothing.
    exact = read_log(rows, n_items=21, **sizes)
    assert estimate(exact, ["recall@10"])["warrant"].tolist() == ["theorem"]

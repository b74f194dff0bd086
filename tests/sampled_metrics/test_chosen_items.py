"""Logs with chosen items that are all scored, and uniform negatives from the others."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sampled_metrics as sm
from sampled_metrics.bounds import bets, chosen, identification
from sampled_metrics.designs.chosen import ChosenSample

N_ITEMS, N_CHOSEN, N_NEGATIVES = 60, 10, 12
ROW = {
    "recommender": "A",
    "n_chosen": N_CHOSEN,
    "n_negatives": N_NEGATIVES,
    "n_items": N_ITEMS,
    "n_tied": 0,
}


def rows_of(better, others, seed=0, replacement=False, **columns):
    """A log of users with `better` chosen items above, and so many of the `others`."""
    rng, n_others = np.random.default_rng(seed), N_ITEMS - 1 - N_CHOSEN
    others = np.asarray(others)
    if replacement:
        x = rng.binomial(N_NEGATIVES, others / n_others)
    else:
        x = rng.hypergeometric(others, n_others - others, N_NEGATIVES)
    counts = {"user": np.arange(others.size), "n_chosen_better": better, "n_better": x}
    return pd.DataFrame(ROW | counts | columns)


def read(frame, replacement=False):
    return sm.read_log(frame, replacement=replacement)


@pytest.mark.parametrize("name", ["ndcg@10", "rr", "recall@3"])
@pytest.mark.parametrize("replacement", [False, True])
def test_certificates_hold_for_every_number_of_others_above(name, replacement):
    """By enumeration, for users with different catalogues and numbers of negatives."""
    rng = np.random.default_rng(1)
    frame = rows_of(rng.integers(0, 6, 300), rng.integers(0, 4, 300), replacement=replacement)
    frame["n_items"] += np.repeat([0, 3], 150)
    frame.loc[:20, "n_negatives"] += 1
    sample = ChosenSample(read(frame, replacement))
    metric = chosen.AtPosition(*(getattr(sm.metric(name), key) for key in ("base", "k")))
    parts = sample.partition(metric, None)
    made = bets.build(parts, None, identification.log_evidence_needed(0.95), 300.0)
    for kind, (m, relevant, position, items) in enumerate(parts.kinds.tolist()):
        pool, x = items - relevant, np.arange(m + 1)
        values = made.values(bets.Rows(np.full(m + 1, kind), x))
        above = np.arange(pool + 1)
        if replacement:
            pmf = stats.binom.pmf(x, m, above[:, np.newaxis] / pool)
        else:
            pmf = stats.hypergeom.pmf(x, pool, above[:, np.newaxis], m)
        exact = sm.metric(name)(position + above)
        expected = values @ pmf.T - np.outer(made.sign * made.slope, exact)
        assert (expected <= made.certificates[:, [kind]] + 1e-9).all()
        assert (values > 0).all()


#: Numbers of chosen and of other items above that make the interval hard to hold.
HOSTILE = {
    "none": ([0, 1, 3], [0]),
    "one that is seldom drawn": ([0, 1, 9], [1]),
    "few or many": ([0], [0, 0, 0, 45]),
    "all below the chosen": ([10], [0, 20]),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("name", ["recall@10", "rr"])
def test_intervals_of_hostile_populations_miss_in_at_most_5_percent(case, name):
    pairs, users, misses, draws = [*product(*HOSTILE[case])], 240, 0, 60
    better, others = np.array(pairs * (users // len(pairs))).T
    exact = float(sm.metric(name)(1 + better + others).mean())
    for seed in range(draws):
        log = read(rows_of(better, others, seed))
        row = sm.estimate(log, [name]).frame.iloc[0]
        misses += not row["possible_low"] - 1e-12 <= exact <= row["possible_high"] + 1e-12
    # With 5% of misses, more than 8 of 60 have a probability of 0.002.
    assert misses <= 8


def test_intervals_are_of_the_users_of_the_log():
    """Of 500 users drawn from a heavy-tailed population, whose own metric is often missed."""
    n, size, population_missed = 500, 20, 0

    def drawn(rng, users):
        return np.minimum(1 + (2 * rng.pareto(0.8, users)).astype(int), n)

    exact = float(sm.metric("rr")(drawn(np.random.default_rng(0), 1_000_000)).mean())
    for seed in range(16):
        rng = np.random.default_rng(1_000 + seed)
        ranks = drawn(rng, 500)
        above = np.minimum(rng.binomial(ranks - 1, 0.95), size)
        others = ranks - 1 - above
        x = rng.hypergeometric(others, n - 1 - size - others, size)
        columns = {"n_chosen": size, "n_chosen_better": above, "n_better": x}
        columns |= {"n_negatives": size, "n_tied": 0, "n_items": n}
        frame = pd.DataFrame({"user": range(500)} | columns)
        found = sm.estimate(read(frame), ["rr", "auc"])
        row, of_auc = found.frame.to_dict("records")
        assert row["possible_low"] <= sm.metric("rr")(ranks).mean() <= row["possible_high"] + 1e-12
        population_missed += not row["possible_low"] <= exact <= row["possible_high"]
    assert population_missed > 2, "then the interval might promise more than it says"
    assert [row["assumption"], of_auc["assumption"]] == ["none, of these users", "none"]
    assert found.promises() == [
        "95% interval for rr: whatever the ranks, and of these users alone",
        "95% interval for auc: whatever the ranks",
    ]
    assert "whatever the ranks, and of these users alone" in found.methods()


def test_auc_is_estimated_without_bias():
    """The mean over all samples of 2 of 4 others, two of which are above."""
    values = []
    for drawn_above, times in ((0, 1), (1, 4), (2, 1)):  # of the 6 pairs of others
        row = {"user": [1, 2], "n_chosen": 3, "n_chosen_better": 1, "n_better": drawn_above}
        frame = pd.DataFrame(row | {"n_tied": 0, "n_negatives": 2, "n_items": 8})
        found = sm.estimate(read(frame), ["auc"]).frame.iloc[0]
        assert found["reported"] == found["estimate"]
        values += [found["estimate"]] * times
    assert np.mean(values) == pytest.approx(1 - 3 / 7)


def test_a_comparison_names_the_better_one():
    better = rows_of(np.zeros(400, int), np.zeros(400, int))
    worse = rows_of(np.full(400, 8), np.full(400, 20), recommender="B")
    result = sm.compare(read(pd.concat([better, worse])), "rr")
    assert result.verdicts == {("A", "B"): "A beats B"}
    of_users = "whatever the ranks, and of these users alone"
    assert result.sentences == [f"A beats B on RR (95% confidence, {of_users})."]
    assert result.promises() == [f"95% interval: {of_users}"]
    assert result.frame["assumption"].tolist() == ["none, of these users"]
    row = result.frame.iloc[0]
    assert np.isnan(row["estimate"])
    assert row["possible_low"] > 0
    assert row["possible_low"] <= 1 - 1 / 29 <= row["possible_high"]
    assert "nan" not in str(result)
    assert row["reported"] > 0.8


def test_a_log_returns_its_columns():
    frame = rows_of([0, 4, 2], [0, 0, 0])
    log = read(frame)
    columns = ["user", "n_chosen", "n_chosen_better", "n_better", "n_negatives", "n_items"]
    assert (log.frame[columns] == frame[columns]).all(axis=None)
    again = sm.read_log(
        log.frame.drop(columns=["instance", "position", "n_relevant"]), replacement=False
    )
    assert (again.frame == log.frame).all(axis=None)


def test_a_file_is_read_like_a_frame(tmp_path):
    frame = rows_of([0, 4, 2, 2], [0, 9, 30, 2])
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert (read(tmp_path / "log.csv").frame == read(frame).frame).all(axis=None)


def scores(seed=0, users=300):
    """Scores with ties of all items, a choice by other scores, and the rank with ties broken."""
    rng, rows, exact = np.random.default_rng(seed), [], []
    for user in range(users):
        score = rng.integers(0, 12, 30)
        chosen_items = np.argsort(rng.normal(size=29) - 0.3 * score[1:])[:8] + 1
        drawn = rng.choice(np.setdiff1d(np.arange(1, 30), chosen_items), 6, replace=False)
        for item in [0, *chosen_items, *drawn]:
            rows.append((user, item, score[item], item == 0, item in chosen_items))
        above, tied = (score > score[0]).sum(), (score == score[0]).sum() - 1
        exact.append(np.mean(1.0 - (above + np.arange(tied + 1)) / 29))
    columns = ["user", "item", "score", "relevant", "chosen"]
    return pd.DataFrame(rows, columns=columns), float(np.mean(exact))


def test_scores_of_chosen_items_become_a_log():
    rows, auc = scores()
    counts = sm.readers.from_scores(rows)
    log = sm.read_log(counts, n_items=30)
    assert (counts[["n_chosen", "n_negatives"]] == [8, 6]).all(axis=None)
    first = rows[rows["user"] == 7].set_index("item")
    held_out, row = first["score"][0], counts[counts["user"] == 7].iloc[0]
    for column, is_chosen in (("n_chosen_better", True), ("n_better", False)):
        each = first.loc[(first["chosen"] == is_chosen) & ~first["relevant"], "score"]
        assert (each > held_out).sum() <= row[column] <= (each >= held_out).sum()
    found = sm.estimate(log, ["auc"]).frame.iloc[0]
    assert abs(found["estimate"] - auc) < 4 * found["standard_error"] + 0.01
    assert sm.readers.from_scores(rows).equals(counts)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"n_chosen": 100}, "n_items must be above the number of relevant and chosen items, 101"),
        ({"n_chosen_better": 11}, "n_chosen_better must be <= n_chosen, got 11 and 10 in row 1"),
        ({"n_tied": 1}, "n_tied must be 0 beside n_chosen, got 1: before counting"),
        ({"n_negatives": 50}, "n_negatives must be <= 49, the irrelevant items beside the chosen"),
        ({"n_better": 13}, r"n_better \+ n_tied must be <= n_negatives = 12, got 13"),
        ({"n_above": 3}, "must have no column n_above beside n_chosen"),
        ({"n_chosen": -1}, "n_chosen must be >= 0, got -1"),
        ({"user": 1}, "must have one row for each user, got another one of 1"),
    ],
)
def test_impossible_counts_are_refused(columns, said):
    with pytest.raises(ValueError, match=said):
        read(rows_of([0, 1], [0, 0], **columns))


@pytest.mark.parametrize("missing", ["n_chosen", "n_chosen_better"])
def test_a_missing_column_is_named(missing):
    with pytest.raises(ValueError, match=f"a column {missing} beside n_chosen"):
        read(rows_of([0, 1], [0, 0]).drop(columns=missing))


SCORED = scores(users=2)[0]
AGAIN = SCORED[SCORED["chosen"]].head(1).assign(chosen=False)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda log: sm.estimate(log, gamma=0.1), "gamma must be left out, got 0.1"),
        (lambda log: sm.estimate(log, estimator="naive"), "there are no corrections with chosen"),
        (lambda log: sm.compare(log, "rr", estimator="naive"), "estimator must be left out"),
        (
            lambda _: sm.readers.from_scores(pd.concat([SCORED, AGAIN])),
            "must not be drawn as a negative too, got item .* of us",
        ),
        (lambda _: sm.readers.from_scores(SCORED.assign(chosen=2)), "chosen must be 0 or 1, got 2"),
        (
            lambda _: sm.readers.from_scores(pd.concat([SCORED, SCORED.head(1).assign(item=99)])),
            "hold out one for each user",
        ),
    ],
)
def test_what_chosen_items_exclude_is_refused(call, said):
    frames = [rows_of([0, 1], [0, 0], recommender=name) for name in "AB"]
    with pytest.raises(ValueError, match=said):
        call(read(pd.concat(frames)))

"""Users ranked within blocks: the same estimates, and errors and intervals over blocks."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sampled_metrics as sm
from sampled_metrics import readers
from sampled_metrics.numerics import betting

N, SIZE = 600, 40
BLOCKS = N // SIZE


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(3)
    queries = rng.normal(size=(N, 8))
    items = (queries + rng.normal(size=(N, 8))) * rng.lognormal(0, 0.5, (N, 1))
    return queries @ items.T


def table(scores, name="A"):
    """A row for each candidate of each query, all of its block."""
    user, item = np.divmod(np.arange(N * SIZE), SIZE)
    item += user // SIZE * SIZE
    return pd.DataFrame({"recommender": name, "user": user, "item": item, "batch": user // SIZE,
                         "score": scores[user, item], "relevant": user == item})  # fmt: skip


@pytest.fixture(scope="module")
def rows(scores):
    return readers.from_scores(table(scores), block="batch")


def blocks_of(scores):
    return [scores[start : start + SIZE, start : start + SIZE] for start in range(0, N, SIZE)]


def test_estimates_are_those_of_a_sample_and_errors_are_over_blocks(rows):
    names = ["rr", "recall@10", "auc"]
    found = sm.estimate(sm.read_log(rows, n_items=N), names)
    sampled = sm.read_log(rows.drop(columns="block"), n_items=N, replacement=False,
                          shared_negatives=True)  # fmt: skip
    plain = sm.estimate(sampled, names, identification=False).frame
    assert_allclose(found.frame[["reported", "estimate"]], plain[["reported", "estimate"]])
    assert found.frame["typical_low"].isna().all()
    assert f"over {BLOCKS} blocks of the {N} users" in found.notes[-1]
    means = 1 - rows.groupby("block")["n_better"].mean() / (SIZE - 1)
    auc = found.frame.iloc[2]
    assert_allclose(auc["standard_error"], means.std(ddof=1) / BLOCKS**0.5)
    ends = betting.interval(means.to_numpy(), 0.0, 1.0, 0.05)
    assert_allclose(auc[["possible_low", "possible_high"]].astype(float), ends)


@pytest.mark.parametrize("name", ["rr", "recall@10"])
def test_errors_agree_with_estimates_that_leave_a_block_out(name, rows):
    def value(kept):
        log = sm.read_log(kept, n_items=N, replacement=False)
        return sm.estimate(log, [name], identification=False, gamma=0.04).frame.iloc[0]

    left_out = [value(rows[rows["block"] != block])["estimate"] for block in range(BLOCKS)]
    jackknife = (BLOCKS - 1) / BLOCKS**0.5 * np.std(left_out)
    assert value(rows)["standard_error"] == pytest.approx(jackknife, rel=0.15)


def test_bets_are_on_the_mean_bet_of_a_block(rows):
    # Whoever copies each block loses nothing and learns nothing: the copies are other blocks.
    log = sm.read_log(rows, n_items=N)
    row = sm.estimate(log, ["recall@10"], assumption=None).frame.iloc[0]
    alone = rows.drop(columns="block")
    free = sm.read_log(alone, n_items=N, replacement=False, shared_negatives=False)
    independent = sm.estimate(free, ["recall@10"], assumption=None).frame.iloc[0]
    assert row["possible_low"] <= independent["possible_low"]
    assert row["possible_high"] >= independent["possible_high"]
    single = rows.assign(block=rows["user"])  # each user a block of its own
    singles = sm.estimate(sm.read_log(single, n_items=N, replacement=False), ["recall@10"],
                          assumption=None).frame.iloc[0]  # fmt: skip
    ends = ["possible_low", "possible_high"]
    assert_allclose(singles[ends].astype(float), independent[ends].astype(float), atol=1e-9)


def test_comparisons_are_over_blocks(scores):
    rng = np.random.default_rng(1)
    both = pd.concat([table(scores), table(scores + rng.normal(0, 9, scores.shape), "B")])
    log = sm.read_log(readers.from_scores(both, block="batch"), n_items=N)
    row = sm.compare(log, "auc").frame.iloc[0]
    counts = log.frame.pivot_table(index="block", columns="recommender", values="n_better")
    gaps = (counts["B"] - counts["A"]).to_numpy(float) / (SIZE - 1)
    assert_allclose(row["estimate"], gaps.mean())
    assert_allclose(row["standard_error"], gaps.std(ddof=1) / BLOCKS**0.5)
    assert_allclose([row["possible_low"], row["possible_high"]],
                    betting.interval(gaps, -1.0, 1.0, 0.05), atol=1e-9)  # fmt: skip
    ndcg = sm.compare(log, "ndcg@10").frame.iloc[0]
    assert ndcg["possible_low"] < ndcg["estimate"] < ndcg["possible_high"]


def test_one_block_has_an_estimate_and_no_interval(rows):
    one = sm.read_log(rows[rows["block"] == 0], n_items=N, replacement=False)
    found = sm.estimate(one, ["rr", "auc"])
    assert found.frame["estimate"].notna().all()
    assert found.frame[["standard_error", "possible_low"]].isna().all(axis=None)
    assert found.notes[-1].startswith("one block has no interval")
    two = pd.concat([rows[rows["block"] == 0], rows[rows["block"] == 0].assign(recommender="B")])
    with pytest.raises(ValueError, match="blocks must be 2 or more to compare"):
        sm.compare(sm.read_log(two, n_items=N, replacement=False), "auc")


def test_a_loop_and_files_give_the_same(scores, rows, tmp_path):
    expected = sm.estimate(sm.read_log(rows, n_items=N), ["rr"]).frame
    protocol = sm.Protocol(N, SIZE - 1, replacement=False)
    first, second = (sm.RankMetric("rr", protocol, blocks=True) for _ in range(2))
    for i, block in enumerate(blocks_of(scores)):
        (first, second)[i % 2].update(block, np.arange(SIZE))
    first.merge(second)
    rows.to_csv(tmp_path / "log.csv", index=False)
    read = sm.read_log(tmp_path / "log.csv", n_items=N, replacement=False)
    numbers = ["estimate", "standard_error", "possible_low", "possible_high"]
    for frame in (first.compute().frame, sm.estimate(read, ["rr"]).frame):
        assert_allclose(frame[numbers], expected[numbers], rtol=1e-9)
    links = readers.link_prediction(
        scores.diagonal(), [np.delete(block[i], i) for block in blocks_of(scores)
                            for i in range(SIZE)], block=np.arange(N) // SIZE)  # fmt: skip
    log = sm.read_log(links, n_items=N, replacement=False)
    assert_allclose(sm.estimate(log, ["rr"]).frame[numbers], expected[numbers], rtol=1e-9)


def refused(change):
    return lambda scores: readers.from_scores(change(table(scores)), block="batch")


def updated(columns, targets=None, **options):
    def act(scores):
        metric = sm.RankMetric("rr", sm.Protocol(N, SIZE - 1, replacement=False), blocks=True)
        metric.update(scores[:SIZE][:, columns], targets or np.arange(SIZE), **options)

    return act


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (refused(lambda rows: rows.assign(item=rows["item"] % 70)), "blocks must partition the "),
        (refused(lambda rows: rows[rows.index != 5]), "each user must be ranked among all items"),
        (updated([*range(SIZE - 1), 0]), "got 39 different columns of 40, as in batches of inter"),
        (updated([*range(SIZE)], mask=np.eye(SIZE) == 1), "got a mask, as in batches of"),
        (updated([*range(SIZE)], [1] * SIZE), "scores must be a square matrix with blocks=True"),
        (lambda _: sm.RankMetric("rr", blocks=True), "protocol must be given with blocks=True"),
        (lambda _: readers.link_prediction([1, 2], [[1], [2]], block=[0]), "a label for each of 2"),
    ],
)
def test_what_is_no_partition_is_refused(act, said, scores):
    with pytest.raises(ValueError, match=re.escape(said)):
        act(scores)

"""Logs that know ranks only near the top: a column hit, or ranks such as ">10"."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sampled_metrics as sm

N_ITEMS, M, USERS = 400, 19, 300
SIZES = {"n_items": N_ITEMS, "n_negatives": M}


def drawn(seed, replacement=False):
    rng = np.random.default_rng(seed)
    above = np.minimum(rng.geometric(0.02, USERS) - 1, N_ITEMS - 1)
    if replacement:
        return rng.binomial(M, above / (N_ITEMS - 1)) + 1
    return rng.hypergeometric(above, N_ITEMS - 1 - above, M) + 1


def cut(ranks, k):
    return [str(rank) if rank <= k else f">{k}" for rank in ranks]


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("k", "name"), [(1, "hit@1"), (1, "ndcg@10"), (5, "rr"), (5, "hit@10")])
def test_an_interval_holds_that_of_every_completion(k, name, replacement):
    # Whatever the unknown ranks are, the whole log allows no value that the cut one refutes.
    rng, ranks = np.random.default_rng(3), drawn(1, replacement)
    log = sm.read_log(pd.DataFrame({"user": range(USERS), "rank": cut(ranks, k)}),
                      replacement=replacement, **SIZES)  # fmt: skip
    cut_row = sm.estimate(log, [name], assumption=None).frame.iloc[0]
    others = np.where(ranks <= k, ranks, rng.integers(k + 1, M + 2, USERS))
    for whole in (ranks, others):
        rows = pd.DataFrame({"user": range(USERS), "rank": whole})
        full = sm.read_log(rows, replacement=replacement, **SIZES)
        row = sm.estimate(full, [name], assumption=None).frame.iloc[0]
        assert cut_row["possible_low"] <= row["possible_low"] + 1e-9
        assert cut_row["possible_high"] >= row["possible_high"] - 1e-9
        if name == f"hit@{k}":
            assert_allclose(cut_row["reported"], row["reported"])
    assert np.isnan(cut_row["estimate"])
    assert np.isnan(cut_row["reported"]) == (name != f"hit@{k}")


def test_a_cut_beyond_the_last_rank_loses_nothing():
    ranks = drawn(2)
    frames = [pd.DataFrame({"user": range(USERS), "rank": each}) for each in (ranks, cut(ranks, M))]
    rows = [sm.estimate(sm.read_log(frame, replacement=False, **SIZES), ["hit@5"]).frame
            for frame in frames]  # fmt: skip
    ends = ["reported", "possible_low", "possible_high"]
    assert_allclose(rows[0][ends], rows[1][ends])


def test_hits_are_ranks_beyond_one(tmp_path):
    hits = pd.concat(
        [pd.DataFrame({"user": range(USERS), "recommender": name, "hit": drawn(seed) == 1})
         for seed, name in enumerate("AB")]
    )  # fmt: skip
    as_ranks = hits.drop(columns="hit").assign(rank=np.where(hits["hit"], "1", ">1"))
    hits.astype({"hit": int}).to_csv(tmp_path / "hits.csv", index=False)
    as_ranks.to_csv(tmp_path / "ranks.csv", index=False)
    sources = (hits, as_ranks, tmp_path / "hits.csv", tmp_path / "ranks.csv")
    logs = [sm.read_log(source, replacement=False, **SIZES) for source in sources]
    frames = [sm.compare(log, "hit@1").frame for log in logs]
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0])
    shares = hits.groupby("recommender")["hit"].mean()
    assert_allclose(frames[0]["reported"], shares["A"] - shares["B"])


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"hit": [1, 2]}, {}, "hit must be 0 or 1, got 2"),
        ({"rank": ["1", "far"]}, {}, "rank must be a whole number >= 1, got 'far'"),
        ({"rank": [">5", "far"]}, {}, "rank must be a whole number from 1, or such as >10, got"),
        ({"rank": [">30", "1"]}, {}, "n_better + n_tied must be <= n_negatives = 19"),
        ({"hit": [1, 0]}, {"estimator": "naive"}, "estimator must be left out, got 'naive'"),
        ({"rank": np.repeat([1, 20], 30)}, {}, "rank must hold ranks, got 1 and 20 alone"),
    ],
)
def test_what_cannot_be_is_said(columns, options, said):
    frame = pd.DataFrame(columns).rename_axis("user").reset_index()
    with pytest.raises(ValueError, match=re.escape(said)):
        sm.estimate(sm.read_log(frame, replacement=False, **SIZES), ["hit@1"], **options)

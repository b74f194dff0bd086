"""Scores of candidates against counting row by row."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics import compare, estimate
from sampled_metrics.log.read import read_log
from sampled_metrics.readers import from_scores, recbole_scores

from .counts import COUNTS, as_dict, slow_counts

candidates = st.lists(
    st.tuples(
        st.sampled_from(["A", "B"]),
        st.integers(1, 3),
        st.integers(1, 6),
        st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf]),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[:3],
).filter(lambda rows: any(row[4] for row in rows))


@given(candidates)
def test_counts_equal_the_slow_ones(rows):
    with_relevant = {row[:2] for row in rows if row[4]}
    rows = [row for row in rows if row[:2] in with_relevant]
    frame = pd.DataFrame(rows, columns=["recommender", "user", "item", "score", "relevant"])
    assert as_dict(from_scores(frame)) == slow_counts(rows)
    assert as_dict(from_scores(frame.astype({"relevant": int}))) == slow_counts(rows)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "Int64", "UInt64"])
def test_whole_scores_of_every_width_are_counted_as_they_are(dtype):
    limits = np.iinfo(dtype.lower())
    extremes = [limits.min, limits.min + 1, limits.max // 2, limits.max - 1, limits.max]
    rng = np.random.default_rng(2)
    score = [extremes[i] for i in rng.integers(5, size=120)]
    rows = {"recommender": "A", "user": np.repeat(range(12), 10), "item": np.tile(range(10), 12)}
    frame = pd.DataFrame({**rows, "relevant": rng.random(120) < 0.3})
    frame["score"] = pd.array(np.array(score, dtype.lower()), dtype=dtype)
    columns = [frame[key] for key in ("recommender", "user", "item")]
    slow_rows = list(zip(*columns, score, frame["relevant"], strict=True))
    assert as_dict(from_scores(frame)) == slow_counts(slow_rows)
    if dtype in ("int64", "uint64"):
        recbole_frame = recbole_scores(np.array([extremes], dtype), [0], [3])
        assert recbole_frame[COUNTS].to_numpy().tolist() == [[1, 0, 4]]


def test_duplicates_are_refused_kept_or_collapsed():
    # By hand: item 2 drawn twice, level with the relevant item 1; and item 1 drawn as a negative.
    rows = pd.DataFrame(
        {"user": 5, "item": [1, 2, 2, 3, 1], "score": [4, 4, 4, 9, 4], "relevant": [1, 0, 0, 0, 0]}
    )
    with pytest.raises(ValueError, match="user 5, item 2 twice: say whether to"):
        from_scores(rows)
    repeated = from_scores(rows, duplicates="keep")
    assert repeated[["item", *COUNTS]].to_numpy().tolist() == [[1, 1, 2, 3]]
    collapsed = from_scores(rows, duplicates="collapse")
    assert collapsed[["item", *COUNTS]].to_numpy().tolist() == [[1, 1, 1, 2]]
    with pytest.raises(ValueError, match="one score, got 2 for item 2 of user 5"):
        from_scores(rows.assign(score=[4, 4, 5, 9, 4]), duplicates="collapse")


def test_draws_of_a_users_own_relevant_items_are_no_negatives():
    rng = np.random.default_rng(0)
    n_items, n_users, drawn = 20, 3_000, 10
    rank = np.where(rng.random(n_users) < 0.5, 1, rng.integers(1, n_items + 1, n_users))
    # The item's number is its rank; the sampler also draws the held-out item.
    item = np.c_[rank, rng.integers(1, n_items + 1, (n_users, drawn))]
    rows = pd.DataFrame({"user": np.repeat(np.arange(n_users), drawn + 1), "item": item.ravel()})
    rows = rows.assign(score=-rows["item"], relevant=np.tile(np.arange(drawn + 1) == 0, n_users))
    log = read_log(from_scores(rows, duplicates="keep"), n_items=n_items, replacement=True)
    assert not log.shared_negatives
    intervals = estimate(log, ["auc", "recall@1"], assumption=None).frame.set_index("metric")
    exact = {"auc": np.mean(1 - (rank - 1) / (n_items - 1)), "recall@1": np.mean(rank == 1)}
    for metric, value in exact.items():
        assert intervals["possible_low"][metric] <= value <= intervals["possible_high"][metric]


CUT = {"user": [1, 1, 2, 2, 3, 3], "item": [7, 8, 7, 9, 8, 9], "score": [2.0, 1.0] * 3,
       "relevant": [1, 0, 0, 0, 0, 0]}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"user": [1], "item": [1], "score": [1]}, "must have one column relevant, got user, item"),
        (
            {"user": [1], "item": [1], "score": [1], "relevant": [2]},
            "relevant must be 0 or 1, got 2",
        ),
        (
            {"user": [1], "item": [1], "score": ["x"], "relevant": [1]},
            "score must be a number, got",
        ),
        ({"user": [1], "item": [1], "score": [1], "relevant": [0]}, "must hold a relevant item"),
        (CUT, r"got none for user 2 of .* \(2 of 3 users\).*cut at the"),
        ([1, 2], "rows must be a data frame, got list"),
    ],
)
def test_a_bad_table_of_scores_is_refused_in_one_sentence(rows, message):
    with pytest.raises(ValueError, match=message) as refusal:
        from_scores(pd.DataFrame(rows) if isinstance(rows, dict) else rows)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match="duplicates must be 'refuse', 'keep' or 'collapse', got"):
        from_scores(pd.DataFrame(), duplicates="drop")


def reranked(n_queries, n_documents, k):
    """The first k of a retriever with the relevant document added, and exact RR."""
    rng = np.random.default_rng(6)
    first = rng.normal(size=(n_queries, n_documents))
    scores = 0.5 * first + rng.normal(size=first.shape)
    every, relevant = np.arange(n_queries), rng.integers(0, n_documents, n_queries)
    first[every, relevant] += 2
    scores[every, relevant] += 3
    frames = []
    for query, document in enumerate(relevant):
        kept = np.union1d(np.argsort(-first[query])[:k], document)
        frames.append(pd.DataFrame({"user": query, "item": kept, "score": scores[query, kept],
                                    "relevant": kept == document}))  # fmt: skip
    ranks = (scores > scores[every, relevant][:, np.newaxis]).sum(axis=1) + 1
    return pd.concat(frames), float(np.mean(1 / ranks))


def test_retrieved_candidates_are_asked_about_and_bound_from_above():
    rows, exact = reranked(60, 500, 20)
    with pytest.raises(ValueError, match="say candidates='retrieved' if so"):
        from_scores(rows)
    counts = from_scores(rows, candidates="uniform")
    reported = float(np.mean(1 / (counts["n_better"] + 1)))
    row = estimate(from_scores(rows, candidates="retrieved"), ["rr"]).frame.iloc[0]
    assert row["reported"] == pytest.approx(reported)
    assert row["possible_low"] == 0 < exact < reported < row["possible_high"]
    assert row["quote"].startswith(f"{reported:.3f} or less")
    two = pd.concat([rows.assign(recommender=name) for name in "AB"])
    pairs = compare(from_scores(two, candidates="retrieved"), "rr").frame
    assert pairs["verdict"].tolist() == ["undecided"]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"chosen": 1}, {}, "must hold drawn negatives beside the chosen items, got none"),
        ({}, {"candidates": "bm25"}, "candidates must be 'uniform' or 'retrieved', got 'bm25'"),
    ],
)
def test_what_candidates_may_be_is_said(columns, options, said):
    rows, _ = reranked(5, 50, 10)
    with pytest.raises(ValueError, match=said):
        from_scores(rows.assign(**columns), **options)

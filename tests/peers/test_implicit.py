"""implicit with negatives in NCF's format, ranked by implicit and by NCF's own evaluation."""

import heapq
from ast import literal_eval

import numpy as np
import pytest
from implicit.als import AlternatingLeastSquares
from implicit.evaluation import ranking_metrics_at_k, train_test_split
from scipy.sparse import csr_matrix


def ncf_metrics(held, items, scores):
    """Hit ratio and NDCG at 10 as NCF's evaluate.py computes them."""
    score_of = dict(zip([*items, held], scores, strict=True))
    top = heapq.nlargest(10, score_of, key=score_of.get)
    return float(held in top), np.log(2) / np.log(top.index(held) + 2) if held in top else 0.0


def test_negatives_of_ncf_in_the_three_lines_of_the_how_to(split, naive, shown):
    train, test, negatives = split
    # As in NCF's file test.negative: a line begins with the user and the held-out item, and
    # negatives were drawn with replacement.
    held = dict(zip(test["user"].tolist(), test["item"].tolist(), strict=True))
    lines = [
        "\t".join([f"({user},{held[user]})", *map(str, (*own[:-1], own[0]))])
        for user, own in negatives.items()
    ]
    fields = [line.split("\t") for line in lines]
    drawn = {literal_eval(first): [int(item) for item in own] for first, *own in fields}
    counts = np.ones(len(train)), (train["user"].to_numpy(), train["item"].to_numpy())
    model = AlternatingLeastSquares(factors=8, iterations=3, random_state=1, num_threads=1)
    model.fit(csr_matrix(counts, shape=(80, 300), dtype=np.float32), show_progress=False)
    of_users, of_items = model.user_factors, model.item_factors

    ran = shown("run = {u:", ["hit@10", "ndcg@10"], model=model, drawn=drawn, n_items=300)
    found, log = ran["found"], ran["log"]
    theirs = [ncf_metrics(i, m, of_items[[*m, i]] @ of_users[u]) for (u, i), m in drawn.items()]
    expected = dict(zip(("hit@10", "ndcg@10"), np.mean(theirs, axis=0), strict=True))
    assert naive(found) == pytest.approx(expected, abs=1e-12)
    assert 0 < expected["hit@10"] < 1
    assert log.frame["n_negatives"].unique().tolist() == [49]
    # implicit itself, asked for these candidates alone, puts the held-out item at the same place.
    for (user, item), own in drawn.items():
        items = np.unique([item, *own])
        best = model.recommend(user, None, N=50, filter_already_liked_items=False, items=items)[0]
        row = log.frame[log.frame["user"] == user].iloc[0]
        assert best.tolist().index(item) == row["n_better"]


def test_loop_ranks_all_items_as_implicits_evaluation_does(ratings, added, column):
    counts = np.ones(len(ratings)), (ratings["user"].to_numpy(), ratings["item"].to_numpy())
    train, test = train_test_split(csr_matrix(counts, dtype=np.float32), 0.8, random_state=4)
    model = AlternatingLeastSquares(factors=8, iterations=3, random_state=1, num_threads=1)
    model.fit(train, show_progress=False)
    found = added("users = np.flatnonzero", model=model, train=train, test=test)["found"]
    theirs = ranking_metrics_at_k(model, train, test, K=10, show_progress=False, num_threads=1)
    estimates = column(found, "estimate")
    assert estimates["ndcg@10"] == pytest.approx(theirs["ndcg"], abs=1e-12)
    assert column(found, "reported") == estimates
    assert test.getnnz(axis=1).max() > 1
    assert found.frame["users"].iloc[0] < 80  # the others have no item in the test
    # implicit's AUC takes what is not among the first ten as half right, and is another number.
    assert abs(estimates["auc"] - theirs["auc"]) > 0.01

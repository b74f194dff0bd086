"""Widths and coverage of intervals from anchors on ten data sets."""

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_book.data import sources
from sampled_book.experiments import anchors, chosen


@pytest.fixture(name="table", scope="module")
def table_fixture():
    return anchors.bundled()


def test_a_row_is_computed_again(table, monkeypatch):
    """The smallest data set with fewer draws, within their spread."""
    monkeypatch.setattr(anchors, "DRAWS", 40)
    name = "lastfm_RP3beta_item-cosine"
    keys = ["way", "metric"]
    new = anchors.widths(name, 0.1, ["ndcg@10"]).set_index(keys)
    of_name = (table["name"] == name) & (table["share"] == 0.1)
    old = table[of_name].set_index(keys).loc[new.index]
    ways = ["anchors", "fewer users"]
    assert new["width"].loc[ways].to_numpy() == pytest.approx(old["width"].loc[ways], rel=0.15)
    assert new["exact"].to_numpy() == pytest.approx(old["exact"], abs=1e-5)


def test_intervals_hold_in_at_least_94_percent_of_draws(table):
    assert table["covered"].min() >= 0.94
    assert table.groupby("way")["covered"].mean().min() >= 0.95


def test_anchors_are_a_fifth_as_wide_as_fewer_users_in_the_median(table):
    for share in (0.05, 0.1):
        ratios = anchors.ratios(table, share)["anchors"]
        assert len(ratios) == 10
        assert (ratios[["ndcg@10", "rr"]].median() <= 0.2).all()


@pytest.mark.parametrize("name", anchors.names())
def test_ranks_above_are_at_least_those_of_the_chosen_items(name):
    found = chosen.counts(name)
    assert (found["rank"] > found["better/100"]).all()
    share = anchors.lazy_share(name)
    is_open = found["better/100"] < 10
    assert is_open.mean() < share < is_open.mean() + 101 / found["n_items"].mean() + 0.01


@pytest.mark.simulation
@pytest.mark.parametrize("name", ["filmtrust", "flixster_monti", "mafengwo"])
@pytest.mark.parametrize("model", ["item cosine", "popularity"])
def test_lazy_ranks_equal_all_ranks_on_real_data_sets(name, model):
    """Item cosine, and popularity with its ties; the 50 most popular items are the candidates."""
    local, _ = sources.local()
    if name not in local:
        pytest.skip(f"{name} is not in the folder of data")
    data, held_out = local[name].read().without_last(1)
    matrix, users = data.matrix.astype(float), np.arange(min(data.n_users, 400))
    popular = np.asarray(matrix.sum(axis=0))
    scores = np.tile(popular, (users.size, 1))
    if model == "item cosine":
        lengths = np.sqrt(np.maximum(popular, 1))
        scores = matrix[users] @ ((matrix.T @ matrix).toarray() / lengths / lengths[:, None])
    test = pd.DataFrame({"user": users, "item": held_out[users]})
    seen, first = matrix[users], [np.argsort(-popular, kind="stable")[:50]] * users.size
    full = sm.rank(scores, None, test, seen)
    in_full = sm.exact_ranks(scores, held_out[users], seen)
    at_10 = ["ndcg@10", "recall@10", "rr@10", "ap@5"]
    lazily = {
        "candidates": sm.rank(scores, None, test, seen, stop_at=10, candidates=first),
        "in order": sm.rank(scores, None, test, seen, stop_at=10),
    }
    for way, ranks in lazily.items():
        assert ranks.frame["stopped"].mean() > 0.02, way
        found, expected = ranks.metrics(at_10).frame, full.metrics(at_10).frame
        assert found["value"].tolist() == expected["value"].tolist(), way
        assert found["standard_error"].to_numpy() == pytest.approx(expected["standard_error"])
    stopped = sm.exact_ranks(scores, held_out[users], seen, stop_at=10)
    for metric in at_10:
        assert stopped.evaluate(metric).tolist() == in_full.evaluate(metric).tolist()

"""Widths and coverage of intervals from anchors on ten data sets."""

import pytest

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

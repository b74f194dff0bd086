"""Tables that are printed twice: what is bundled, and what follows from it."""

import csv

import numpy as np
import pytest

import sampled_metrics as sm
from sampled_book.data import published

HALVES = ("sampled", "all")


def by_hand():
    """The printed numbers by data set, metric and half, then by method."""
    cells = {}
    with (published.DATA / "s3rec.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cell = cells.setdefault((row["dataset"], row["metric"], row["protocol"]), {})
            cell[row["method"]] = float(row["value"])
    return cells


def test_the_tables_are_whole():
    cells = by_hand()
    assert {half: sum(len(v) for k, v in cells.items() if k[2] == half) for half in HALVES} == {
        "sampled": 6 * 6 * 12, "all": 6 * 6 * 10,
    }  # fmt: skip
    assert len(published.cells("s3rec_improvements")) == 72


def test_orders_agree_with_a_count_by_hand():
    cells, reversed_ = by_hand(), 0
    for dataset, metric, half in cells:
        if half != "all" or metric not in published.BOTH:
            continue
        sampled, full = (cells[dataset, metric, h] for h in HALVES)
        names = sorted(full)
        x, y = (np.array([half[name] for name in names]) for half in (sampled, full))
        signs = np.sign(x[:, np.newaxis] - x) * np.sign(y[:, np.newaxis] - y)
        reversed_ += int((signs < 0).sum()) // 2
    assert int(published.orders()["reversed"].sum()) == reversed_


@pytest.mark.some(2)
@pytest.mark.parametrize("dataset", published.INTERACTIONS)
def test_every_row_can_be_one_list_of_ranks(dataset):
    bounds = sm.published(published.as_published(dataset), **published.settings(dataset),
                         replacement=False, metrics=["hit@1"], assumption=None)  # fmt: skip
    assert len(bounds.checks) == 10
    assert bounds.checks["possible"].all()


def test_the_row_that_is_two_models():
    rows = published.as_published("Yelp").query("method in ('BERT4Rec', 'SASRec')")
    bounds = sm.published(rows, **published.settings("Yelp"), replacement=False,
                         metrics=["hit@10"]).frame.set_index("method")  # fmt: skip
    exact = by_hand()["Yelp", "HR@10", "all"]
    inside = {
        name: row["low_decreasing"] <= exact[name] <= row["high_decreasing"]
        for name, row in bounds.iterrows()
    }
    assert inside == {"SASRec": True, "BERT4Rec": False}
    assert (bounds["low"] <= [exact[name] for name in bounds.index]).all()


def test_one_model_each_and_a_reversal():
    """Three models on Amazon Video Games, each trained once and evaluated both ways."""
    halves = {
        half: part.pivot(index="method", columns="metric", values="value").reset_index()
        for half, part in published.cells("games").groupby("protocol")
    }
    # A user has nine items, which are no candidates but for the one that is held out.
    table = sm.published(halves["sampled"], n_items=16_882 - 8, n_negatives=100, users=50_626,
                         replacement=False).frame  # fmt: skip
    exact = halves["all"].set_index("method").rename(columns=lambda name: sm.metric(name).name)
    keys = zip(table["method"], table["metric"], strict=True)
    bounds = table.assign(exact=[float(exact.loc[key]) for key in keys])
    bounds = bounds.set_index(["metric", "method"])
    for end in ("", "_decreasing"):
        assert (bounds[f"low{end}"] <= bounds["exact"]).all()
        assert (bounds["exact"] <= bounds[f"high{end}"]).all()
    for metric in ("hit@10", "ndcg@10"):
        gap = bounds.loc[(metric, "SASRec")] - bounds.loc[(metric, "Attention")]
        assert gap["printed"] > 0 > gap["exact"]

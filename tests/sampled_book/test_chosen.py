"""Chosen items of real rankings: counts by hand, and the intervals that are bundled."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

from sampled_book.experiments import chosen


def test_ranks_and_chosen_items_are_counted():
    """Item 0 is held out; 1, 2 and 3 score above it, 4 is no candidate; 3, 1 and 5 are chosen."""
    scores = np.array([[0.5, 0.9, 0.8, 0.7, 1.0, 0.1]])
    candidates = np.array([[True, True, True, True, False, True]])
    preference = np.array([[0.0, 0.8, 0.1, 0.9, 1.0, 0.7]])
    rng = np.random.default_rng(0)
    found = chosen.counted(scores, np.array([0]), candidates, preference, [1, 3], rng)
    assert {key: column.item() for key, column in found.items()} == {
        "n_items": 5, "rank": 4, "n_chosen/1": 1, "better/1": 1, "has/1": 0,
        "n_chosen/3": 3, "better/3": 2, "has/3": 0,
    }  # fmt: skip


def test_ties_of_the_held_out_item_are_broken_evenly():
    rows = 4_000
    scores, held_out = np.zeros((rows, 3)), np.zeros(rows, dtype=int)
    candidates, rng = np.ones((rows, 3), dtype=bool), np.random.default_rng(0)
    found = chosen.counted(scores, held_out, candidates, scores, [2], rng)
    assert np.abs(np.bincount(found["rank"])[1:] - rows / 3).max() < 4 * np.sqrt(rows * 2 / 9)
    assert (found["has/2"] == 1).all()


def test_logs_have_the_share_of_scores():
    found = chosen.counts("lastfm_RP3beta_item-cosine")
    rng = np.random.default_rng(0)
    scored = chosen.chosen_log(found, 100, 0.05, rng).eval("1 + n_chosen + n_negatives")
    uniform = chosen.uniform_log(found, 0.05, rng)["n_negatives"] + 1
    whole = chosen.whole_log(found, 0.05).eval("1 + n_negatives")
    budget = 0.05 * found["n_items"].sum()
    assert scored.sum() == pytest.approx(budget, rel=0.01)
    assert uniform.sum() == pytest.approx(budget, rel=0.01)
    assert whole.sum() == pytest.approx(budget, rel=0.02)


def test_one_pair_is_reversed_on_codex_s():
    """As the appendix on graphs says; by scipy's distribution of the negatives above."""
    table = chosen.expected("hit@10", [20, 50]).set_index(["graph", "m"])
    leads = table["expected large"] - table["expected small"]
    assert (table["exact large"] > table["exact small"]).all()
    assert (leads < 0).to_dict() == {
        ("codex-s", 20): True, ("codex-s", 50): False,
        ("fb15k-237", 20): False, ("fb15k-237", 50): False,
    }  # fmt: skip
    assert table.loc["fb15k-237", ["expected large", "expected small"]].to_numpy().min() > 0.95
    found = chosen.counts("codex-s_large_retrieved")
    among_ten = hypergeom(found["n_items"] - 1, found["rank"] - 1, 20).cdf(9).mean()
    assert table.loc[("codex-s", 20), "expected large"] == pytest.approx(among_ten)


@pytest.fixture(scope="module")
def bundled():
    return chosen.bundled()


def test_bundled_intervals_hold_the_exact_values(bundled):
    """One draw of each: of so many 95% intervals more than 5% may miss, but not twice as many."""
    theorem = bundled[bundled["way"] != "uniform, decreasing"]
    assert len(theorem) > 200
    assert theorem.eval("low <= exact + 1e-5 and exact <= high + 1e-5").mean() > 0.9


@pytest.mark.simulation
def test_a_bundled_row_is_computed_again(bundled):
    name, share = "codex-s_small_retrieved", 0.1
    again = chosen.intervals(name, share, ["rr"]).reset_index(drop=True)
    rows = bundled.query("name == @name and share == @share and metric == 'rr'")
    columns = ["low", "high", "exact", "complete"]
    pd.testing.assert_frame_equal(
        again[columns], rows[columns].reset_index(drop=True), atol=2e-5, rtol=0
    )

"""Rankers of few candidates: missing answers, and LLMRank's lists and tables."""

import json

import numpy as np
import pytest
from scipy.optimize import linprog

from sampled_book.data import datasets
from sampled_book.experiments import candidates
from sampled_metrics import published
from tests.data import needs_data

CUTOFFS = [1, 5, 10, 20]


@pytest.mark.parametrize("half_unit", [0.0, 5e-5, 5e-3])
def test_the_share_ranked_is_what_a_linear_programme_finds(half_unit):
    rng = np.random.default_rng(3)
    gain = 1 / np.log2(np.arange(1, 21) + 1)
    rows = np.array([np.where(np.arange(1, 21) <= k, gain, 0) for k in CUTOFFS])
    for _ in range(20):
        q = rng.dirichlet(np.full(20, 0.5)) * rng.uniform(0.3, 1)
        values = rows @ q
        low, high = candidates.share_ranked(values, CUTOFFS, half_unit)
        assert low <= q.sum() <= high
        limits = {"A_ub": np.vstack([rows, -rows])}
        limits["b_ub"] = np.concatenate([values + half_unit, half_unit - values])
        ends = [sign * linprog(np.full(20, sign), **limits).fun for sign in (1, -1)]
        if (np.diff(values, prepend=0) > 2 * half_unit).all():  # else an end need not be reached
            assert [low, high] == pytest.approx(ends, abs=1e-7)
        else:
            assert low <= ends[0] + 1e-7
            assert ends[1] <= high + 1e-7


def test_printed_averages_rise_with_the_cutoff_and_no_row_exceeds_all_users():
    rows = candidates.published_table()
    values = rows[[f"NDCG@{k}" for k in CUTOFFS]].map(lambda cell: float(cell.rstrip("%")))
    assert values.shape == (46, 4)
    assert (values.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    assert (candidates.add_share_ranked(rows)["least"] <= 1).all()
    # What stands in two pictures is printed alike in both.
    twice = rows[rows["method"].isin(["BM25", "UniSRec"]) & (rows["n_negatives"] == "19")]
    assert (twice.groupby(["dataset", "method"]).nunique()[list(values)] == 1).all(axis=None)


def test_rows_with_items_that_have_no_rank_are_those_that_no_list_of_ranks_has():
    rows = candidates.published_table().query("picture == 'tab-3' and dataset == 'ML-1M'")
    columns = ["method", *(f"NDCG@{k}" for k in CUTOFFS)]
    sizes = {"n_items": 3_706, "n_negatives": 19, "users": 10**9, "replacement": False}
    consistent = published(rows[columns], **sizes, metrics=["auc"]).checks["together"]
    max_share = candidates.add_share_ranked(rows)["most"]
    assert consistent.tolist() == (max_share >= 1).tolist()
    assert not consistent.all()


@pytest.mark.matrix
@needs_data
def test_the_bundled_counts_are_those_of_the_data(tmp_path, capsys):
    assert candidates.main(["--output", str(tmp_path)]) == 0
    written = tmp_path / "llmrank.json"
    assert capsys.readouterr().out == f"{written}\n"
    assert json.loads(written.read_text()) == candidates.bundled_lists()


@needs_data
def test_random_lists_are_a_sample_of_all_items_without_replacement():
    users, items = candidates.read_lists("random")
    split = datasets.ncf_split()
    assert sorted(users) == list(range(6040))
    assert items.shape == (6040, 100)
    is_train = split.train.toarray()
    seen = is_train[users[:, None], items].sum()
    # Each of a user's own items is in a uniform list with probability 100 / 3,706.
    expected = split.train.nnz * 100 / split.n_items
    assert abs(seen - expected) < 4 * np.sqrt(expected)

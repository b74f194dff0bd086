"""Runs of TREC: ranx's metrics of the files."""

import numpy as np
import pytest
from ranx import Qrels, Run, evaluate
from tests.trec import written

import sampled_metrics as sm
from sampled_metrics import readers


def test_files_in_three_lines(tmp_path, naive):
    run, qrels = written(tmp_path, 300, np.random.default_rng(4))

    rows = readers.trec(run, qrels)
    log = sm.read_log(rows, n_items=100_000, replacement=False)
    found = sm.estimate(log, ["ndcg@10", "rr"], identification=False)

    files = Qrels.from_file(str(qrels), kind="trec"), Run.from_file(str(run), kind="trec")
    reported = evaluate(*files, ["ndcg@10", "mrr"])
    expected = {"ndcg@10": reported["ndcg@10"], "rr": reported["mrr"]}
    assert naive(found) == pytest.approx(expected, abs=1e-12)
    assert set(rows["recommender"]) == {"bm25"}

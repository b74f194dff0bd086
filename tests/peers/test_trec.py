"""Runs of TREC: ranx's metrics of the files."""

import numpy as np
import pytest
from ranx import Qrels, Run, evaluate

import sampled_metrics as sm
from sampled_metrics.io import readers


def written(folder, n_queries, rng):
    """Files of a run, 100 documents for each query in order of their scores, and of judgements."""
    run, qrels = [], []
    for query in range(n_queries):
        documents = rng.choice(100_000, 100, replace=False)
        scores = np.sort(rng.normal(size=100))[::-1]
        held = documents[min(rng.geometric(0.05), 100) - 1]
        run += [
            f"q{query} Q0 doc{document} {rank} {score:.6f} bm25\n"
            for rank, (document, score) in enumerate(zip(documents, scores, strict=True), 1)
        ]
        qrels.append(f"q{query} 0 doc{held} 1\n")
    (folder / "run.trec").write_text("".join(run))
    (folder / "qrels.trec").write_text("".join(qrels))
    return folder / "run.trec", folder / "qrels.trec"


def test_files_in_three_lines(tmp_path, naive):
    run, qrels = written(tmp_path, 300, np.random.default_rng(4))

    rows = readers.trec(run, qrels)
    log = sm.read_log(rows, n_items=100_000, replacement=False)
    found = sm.estimate(log, ["ndcg@10", "rr"], estimators=["naive"], identification=False)

    files = Qrels.from_file(str(qrels), kind="trec"), Run.from_file(str(run), kind="trec")
    reported = evaluate(*files, ["ndcg@10", "mrr"])
    expected = {"ndcg@10": reported["ndcg@10"], "rr": reported["mrr"]}
    assert naive(found) == pytest.approx(expected, abs=1e-12)
    assert set(rows["recommender"]) == {"bm25"}

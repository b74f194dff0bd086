"""pytrec_eval and ir_measures on one corpus for all queries: their values, and ours."""

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from ir_measures import AP, RR, R, nDCG

import sampled_metrics as sm

MEASURES = {"ndcg@10": nDCG @ 10, "recall@100": R @ 100, "rr": RR, "ap": AP}


@pytest.fixture(scope="module")
def judged():
    """A run over 300 documents for 40 queries, with one to three relevant documents, graded."""
    rng = np.random.default_rng(9)
    documents = [f"d{i}" for i in range(300)]
    run, qrels = {}, {}
    for q in range(40):
        relevant = rng.choice(documents, rng.integers(1, 4), replace=False).tolist()
        qrels[f"q{q}"] = {document: int(rng.integers(1, 3)) for document in relevant}
        qrels[f"q{q}"]["d0" if "d0" not in relevant else "d1"] = 0
        scores = rng.normal(size=300).astype(np.float32)
        run[f"q{q}"] = {
            document: float(score) + 2.0 * (document in relevant)
            for document, score in zip(documents, scores, strict=True)
        }
    return run, qrels


def test_dictionaries_of_pytrec_eval(judged, column):
    run, qrels = judged
    names = {"ndcg@10": "ndcg_cut_10", "recall@100": "recall_100", "rr": "recip_rank", "ap": "map"}
    measured = pytrec_eval.RelevanceEvaluator(qrels, set(names.values())).evaluate(run)
    corpus = sm.readers.ranx(run, qrels, corpus_size=5_000)
    reported = column(sm.estimate(corpus, list(names)), "reported")
    for ours, theirs in names.items():
        expected = np.mean([values[theirs] for values in measured.values()])
        assert reported[ours] == pytest.approx(expected, abs=1e-12), ours


def test_frames_of_ir_measures(judged, run_read, column):
    run, qrels = judged
    scored = pd.DataFrame(
        [(q, d, score) for q, documents in run.items() for d, score in documents.items()],
        columns=["query_id", "doc_id", "score"],
    )
    relevant = pd.DataFrame(
        [(q, d, rel) for q, documents in qrels.items() for d, rel in documents.items()],
        columns=["query_id", "doc_id", "relevance"],
    )
    expected = ir_measures.calc_aggregate(list(MEASURES.values()), relevant, scored)
    read = run_read("data frames of ir_measures", run=scored)
    assert read == run
    judgements = run_read(
        "data frames of ir_measures", run=relevant.rename(columns={"relevance": "score"})
    )
    found = sm.estimate(sm.readers.ranx(read, judgements, corpus_size=5_000), list(MEASURES))
    reported = column(found, "reported")
    for ours, measure in MEASURES.items():
        assert reported[ours] == pytest.approx(expected[measure], abs=1e-12), ours

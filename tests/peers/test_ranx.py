"""ranx: its evaluation of a run, and ours."""

import numpy as np
import pytest
from ranx import Qrels, Run, evaluate

import sampled_metrics as sm
from sampled_metrics import readers

#: Ours, and what ranx calls them.
METRICS = {
    "recall@10": "recall@10",
    "ndcg@10": "ndcg@10",
    "rr@10": "mrr@10",
    "hit@10": "hit_rate@10",
}


@pytest.fixture(params=[1, 3])
def judged(request, split):
    """A run of random scores, and one or three relevant documents for each query."""
    _, test, negatives = split
    rng = np.random.default_rng(request.param)
    held = dict(zip(test["user"], test["item"], strict=True))
    run, qrels = {}, {}
    for user, own in negatives.items():
        documents = [f"d{item}" for item in (held[user], *own)]
        scores = rng.random(len(documents)) + 0.5 * (np.arange(len(documents)) < request.param)
        run[f"q{user}"] = dict(zip(documents, scores.tolist(), strict=True))
        qrels[f"q{user}"] = dict.fromkeys(documents[: request.param], 1)
        qrels[f"q{user}"][documents[-1]] = 0
    return Run(run, name="random"), Qrels(qrels)


def test_a_run_in_three_lines(judged, naive):
    run, qrels = judged

    rows = readers.ranx(run, qrels)
    log = sm.read_log(rows, n_items=300, replacement=False)
    found = sm.estimate(log, list(METRICS), identification=False)

    reported = evaluate(qrels, run, list(METRICS.values()))
    expected = {ours: reported[theirs] for ours, theirs in METRICS.items()}
    assert naive(found) == pytest.approx(expected, abs=1e-12)
    assert set(rows["recommender"]) == {"random"}
    assert 0 < expected["ndcg@10"] < 1


@pytest.mark.parametrize("suffix", ["json", "trec"])
def test_files_that_ranx_writes(judged, tmp_path, suffix):
    run, qrels = judged
    run.save(str(tmp_path / f"run.{suffix}"), kind=suffix)
    qrels.save(str(tmp_path / f"qrels.{suffix}"), kind=suffix)
    if suffix == "json":
        again = (
            Run.from_file(str(tmp_path / "run.json")),
            Qrels.from_file(str(tmp_path / "qrels.json")),
        )
        found = readers.ranx(*again, recommender="random")
    else:
        found = readers.trec(tmp_path / "run.trec", tmp_path / "qrels.trec")
    keys = ["user", "item"]
    ours = readers.ranx(run, qrels).sort_values(keys, ignore_index=True)
    assert found.sort_values(keys, ignore_index=True).equals(ours)

"""sentence-transformers: its evaluators, and ours (`make test-graphs`)."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import (
    InformationRetrievalEvaluator,
    RerankingEvaluator,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

import sampled_metrics as sm

WORDS = [f"w{number}" for number in range(150)]


@pytest.fixture(scope="module")
def texts():
    """600 documents of 12 words, and 90 queries of 5 words, 3 of them from the document."""
    rng = np.random.default_rng(7)
    corpus = {f"d{n}": " ".join(rng.choice(WORDS, 12)) for n in range(600)}
    queries = {
        f"q{n}": " ".join([*rng.choice(corpus[f"d{n}"].split(), 3), *rng.choice(WORDS, 2)])
        for n in range(90)
    }
    return corpus, queries


@pytest.fixture(scope="module")
def model(texts):
    corpus, queries = texts
    torch.manual_seed(3)
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, "w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    made = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=24)], device="cpu")
    loss = MultipleNegativesRankingLoss(made)
    optimizer = torch.optim.Adam(made.parameters(), lr=0.02)
    pairs = [list(queries.values()), [corpus[f"d{n}"] for n in range(len(queries))]]
    for _ in range(5):
        optimizer.zero_grad()
        loss([made.preprocess(side) for side in pairs], None).backward()
        optimizer.step()
    return made


def test_loop_ranks_the_corpus_as_the_evaluator_of_retrieval_does(texts, model, added, column):
    corpus, queries = texts
    relevant = {query: {f"d{n}", f"d{n + 90}"} for n, query in enumerate(queries)}
    evaluator = InformationRetrievalEvaluator(
        queries, corpus, relevant, map_at_k=[len(corpus)], precision_recall_at_k=[10]
    )
    reported = evaluator(model)
    given = {"model": model, "queries": queries, "corpus": corpus, "relevant_docs": relevant}
    found = added("embedded = ", **given)["found"]
    estimates = column(found, "estimate")
    names = {"recall@10": "recall@10", "ndcg@10": "ndcg@10", "ap": f"map@{len(corpus)}"}
    for ours, theirs in names.items():
        expected = reported[f"cosine_{theirs}"]
        assert estimates[ours] == pytest.approx(expected, abs=1e-12), ours
    assert column(found, "reported") == estimates
    assert 0.1 < estimates["ndcg@10"] < 0.9


def test_loop_corrects_what_the_evaluator_of_reranking_reports(
    texts, model, added, column, corrected
):
    corpus, queries = texts
    rng = np.random.default_rng(8)
    samples = []
    for n, query in enumerate(queries.values()):
        others = rng.choice(np.delete(np.arange(600), n), 50, replace=False)
        negative = [corpus[f"d{other}"] for other in others]
        samples.append({"query": query, "positive": [corpus[f"d{n}"]], "negative": negative})
    theirs = RerankingEvaluator(samples)(model)
    ndcg = added("ndcg = ", model=model, samples=samples, corpus=corpus)["ndcg"]
    found = ndcg.compute()
    expected = {"ndcg@10": theirs["ndcg@10"]}
    assert column(found, "reported") == pytest.approx(expected, abs=1e-12)
    # The evaluator of retrieval, which ranks all documents of the corpus.
    relevant = {query: {f"d{n}"} for n, query in enumerate(queries)}
    exact = InformationRetrievalEvaluator(queries, corpus, relevant)(model)["cosine_ndcg@10"]
    corrected(found, {"ndcg@10": exact})


def test_the_predictions_of_the_evaluator_are_a_run_over_one_corpus(
    texts, model, tmp_path, run_read, column
):
    corpus, queries = texts
    relevant = {query: {f"d{n}"} for n, query in enumerate(queries)}
    evaluator = InformationRetrievalEvaluator(
        queries, corpus, relevant, map_at_k=[len(corpus)], write_predictions=True
    )
    reported = evaluator(model, str(tmp_path))["cosine_ndcg@10"]
    (path,) = tmp_path.glob("*.jsonl")
    with path.open(encoding="utf-8") as file:
        run = run_read("predictions of an evaluator of sentence-transformers", file=file)
    qrels = {query: dict.fromkeys(documents, 1) for query, documents in relevant.items()}
    grown = sm.readers.ranx({"model": run}, qrels, corpus_size=[len(corpus), 6_000])
    found = sm.estimate(grown, ["ndcg@10"]).frame
    assert found["reported"].tolist() == pytest.approx([reported] * 2, abs=1e-12)
    assert found["estimate"][0] == found["reported"][0] > found["estimate"][1]
    with path.open(encoding="utf-8") as file:
        cut = [json.loads(line) for line in file]
    cut[0]["results"].pop()
    run[cut[0]["query_id"]] = {d["corpus_id"]: d["score"] for d in cut[0]["results"]}
    with pytest.raises(ValueError, match="must rank the whole sub-corpus"):
        sm.readers.ranx({"model": run}, qrels, corpus_size=6_000)

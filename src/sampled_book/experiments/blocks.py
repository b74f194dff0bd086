"""How often intervals over blocks hold on real rankings, each query among a block of documents.

Three models rank two collections: CoSQA's 1,000 queries for 6,267 functions, and for each of CISI's
1,460 documents its own first words, as a query for the rest of it (an inverse cloze task). Each
draw partitions the documents at random. ``python -m sampled_book.experiments.blocks`` prints the
table of the library's page on blocks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import sampled_metrics as sm
from sampled_metrics._validate import FloatArray, IntArray

from ..data import collections, retrieval

MODELS = ("BM25 k1=0.9 b=0.4", "TF-IDF", "LSA 100")
METRICS = ("rr", "ndcg@10", "recall@10")
SIZES, DRAWS = (20, 100), 400
#: Words at the start of a document that are taken for its query.
WORDS = 8


def ranked(name: str) -> tuple[dict[str, FloatArray], IntArray]:
    """Scores (queries, documents) by model, and the relevant document of each query."""
    collection = collections.read(name)
    documents, queries = collection.documents, collection.queries
    relevant = np.array([documents[0] for documents in collection.relevant])
    if name != "cosqa":
        words = [text.split() for text in documents]
        queries = [" ".join(text[:WORDS]) for text in words]
        documents = [" ".join(text[WORDS:]) for text in words]
        relevant = np.arange(len(documents))
    scores = retrieval.scores(*retrieval.counts(documents, queries))
    return {model: np.asarray(scores[model]) for model in MODELS}, relevant


def counted(score: FloatArray, relevant: IntArray, candidates: Any) -> tuple[IntArray, IntArray]:
    """Candidates above the relevant document, and tied with it; `candidates` marks its block."""
    own = np.take_along_axis(score, relevant[:, None], axis=1)
    is_tied = (score == own) & candidates
    return ((score > own) & candidates).sum(axis=1), is_tied.sum(axis=1) - 1


def log_of(
    scores: dict[str, FloatArray], relevant: IntArray, size: int, rng: np.random.Generator
) -> sm.Log:
    """The log of a random partition into blocks of `size` documents or one more."""
    n = next(iter(scores.values())).shape[1]
    block = rng.permutation(np.arange(n) % (n // size))
    own = block[relevant]
    candidates, tables = block == own[:, None], []
    for model, score in scores.items():
        better, tied = counted(score, relevant, candidates)
        columns = {"recommender": model, "user": range(len(own)), "block": own}
        columns |= {"n_better": better, "n_tied": tied, "n_negatives": candidates.sum(axis=1) - 1}
        tables.append(pd.DataFrame(columns))
    return sm.read_log(pd.concat(tables), n_items=n, replacement=False)


def exact(scores: dict[str, FloatArray], relevant: IntArray) -> dict[tuple[str, str], float]:
    """Exact metrics of the whole collection, by model and metric."""
    values: dict[tuple[str, str], float] = {}
    for model, score in scores.items():
        better, tied = counted(score, relevant, True)
        sizes = {"n_items": score.shape[1], "n_negatives": score.shape[1] - 1, "replacement": False}
        rows = pd.DataFrame({"user": range(len(relevant)), "n_better": better, "n_tied": tied})
        frame = sm.estimate(sm.read_log(rows, **sizes), METRICS).frame
        values |= {(model, metric): value for metric, value in frame[["metric", "estimate"]].values}
    return values


def drawn(
    scores: dict[str, FloatArray], relevant: IntArray, size: int, draws: int, seed: int = 0
) -> Iterator[pd.DataFrame]:
    """Estimates and intervals of as many random partitions."""
    for draw in range(draws):
        log = log_of(scores, relevant, size, np.random.default_rng([seed, size, draw]))
        n_blocks = next(iter(scores.values())).shape[1] // size
        yield sm.estimate(log, METRICS).frame.assign(blocks=n_blocks)


def summary(frames: pd.DataFrame, values: dict[tuple[str, str], float]) -> pd.DataFrame:
    """By model and metric: bias, errors, and the shares of draws in which intervals hold."""
    rows = []
    for (model, metric), value in values.items():
        frame = frames.query("recommender == @model and metric == @metric")
        mean = frame["estimate"].mean()
        half = stats.t.ppf(0.975, frame["blocks"] - 1) * frame["standard_error"]
        rows.append({
            "recommender": model, "metric": metric, "exact": value, "bias": mean - value,
            "error": frame["standard_error"].mean() / frame["estimate"].std(ddof=1),
            "interval holds exact": frame["possible_low"].le(value)
            .mul(frame["possible_high"].ge(value)).mean(),
            "errors hold mean": ((frame["estimate"] - mean).abs() <= half).mean(),
            "errors hold exact": ((frame["estimate"] - value).abs() <= half).mean(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def main() -> int:
    """Print the coverage on both collections, of each model and metric."""
    for name in ("cosqa", "cisi"):
        scores, relevant = ranked(name)
        values = exact(scores, relevant)
        for size in SIZES:
            frames = pd.concat(drawn(scores, relevant, size, DRAWS))
            print(f"{name}, blocks of {size}")
            print(summary(frames, values).round(3).to_string(index=False), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

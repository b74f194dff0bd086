"""How often ranges hold where one sub-corpus serves all queries, on hostile corpora.

    python benchmarks/sub_corpus.py [--samples 200] [--output benchmarks/sub_corpus.csv]
    python benchmarks/sub_corpus.py --collections --samples 20 --output benchmarks/collections.csv

A corpus has 5,000 documents and 60 queries with one relevant document each, and two systems. In
"hubs" 1% of the other documents stand far above their place for nine of ten queries, as general
documents do in dense retrieval; in "rare hubs" 0.1% do, so that many samples hold none of them. In
"clusters" the others are 200 groups of near duplicates with
nearly the same scores. In "no structure" scores are independent. We draw sub-corpora of 500 or
1,500 of the other documents. A range should hold the exact metric of these queries. The file has a
line for each corpus, metric and size: the numbers of samples whose ranges missed for either system
and for the difference; of wrong verdicts and of verdicts; the same of intervals that would take the
queries as independent (the standard error s/sqrt(Q) around the same estimate); and the mean of V
and the variance of the estimate over the samples.

With --collections the corpora are NPL and Cranfield, and the systems are eleven retrieval models
that rank every document. The file has a line for each collection, number of sampled documents and
metric: the ranges, how many missed the exact metric, how many estimates are more than two standard
errors off it, and the mean width of ranges; the mean absolute error of the reported and of the
estimated metric; and the pairs of models, of all samples together, that either puts in another
order than the whole collection does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_book.data import retrieval
from sampled_book.experiments import corpora
from sampled_metrics.designs.jackknife import totals

FILE = Path(__file__).with_name("sub_corpus.csv")
DOCUMENTS, QUERIES, SEED, CONFIDENCE = 5_000, 60, 1, 0.95
SHIFTS = {"A": 3.2, "B": 2.6}
CORPORA = ("no structure", "hubs", "rare hubs", "clusters")
METRICS = ("recall@10", "recall@100", "ndcg@10", "rr", "auc")
SIZES = (500, 1_500)


def corpus(kind: str) -> dict[str, np.ndarray]:
    """Scores of each system: queries by documents, the first documents being relevant."""
    rng, n_others = np.random.default_rng(SEED), DOCUMENTS - QUERIES
    hubs = rng.permutation(n_others) < n_others * (0.001 if kind == "rare hubs" else 0.01)
    groups = rng.integers(200, size=n_others)
    scores = {}
    for name, shift in SHIFTS.items():
        others = rng.normal(size=(QUERIES, n_others))
        if kind == "clusters":
            others = rng.normal(size=(QUERIES, 200))[:, groups] + 0.05 * others
        if kind.endswith("hubs"):
            others += 2.5 * hubs * (rng.random((QUERIES, 1)) < 0.9)
        known = rng.normal(size=(QUERIES, QUERIES))
        known += (shift + rng.normal(size=QUERIES)) * np.eye(QUERIES)
        scores[name] = np.hstack([known, others])
    return scores


def run(scores: np.ndarray, documents: np.ndarray) -> dict[str, dict[str, float]]:
    names = [f"d{i}" for i in documents]
    return {
        f"q{q}": dict(zip(names, row.tolist(), strict=True))
        for q, row in enumerate(scores[:, documents])
    }


def rows(n_samples: int) -> Iterator[dict[str, object]]:
    qrels = {f"q{q}": {f"d{q}": 1} for q in range(QUERIES)}
    for kind, n_sampled in product(CORPORA, SIZES):
        scores = corpus(kind)
        own = {name: np.diag(table)[:, np.newaxis] for name, table in scores.items()}
        ranks = {name: 1 + (scores[name] > own[name]).sum(axis=1) for name in scores}
        counts = {name: dict.fromkeys(("missed", "missed_difference", "wrong", "verdicts",
                  "missed_if_independent", "missed_difference_if_independent"), 0)
                  for name in METRICS}  # fmt: skip
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in METRICS}
        for seed in range(n_samples):
            rng = np.random.default_rng([SEED, n_sampled, seed])
            others = QUERIES + rng.choice(DOCUMENTS - QUERIES, n_sampled, replace=False)
            documents = np.concatenate([np.arange(QUERIES), others])
            runs = {name: run(table, documents) for name, table in scores.items()}
            sub = sm.readers.ranx(runs, qrels, corpus_size=DOCUMENTS)
            for name in METRICS:
                metric, count = sm.metric(name), counts[name]
                exact = {s: float(metric(r, DOCUMENTS).mean()) for s, r in ranks.items()}
                gap = exact["A"] - exact["B"]
                evaluated, _ = totals(sub, metric)
                pair = evaluated["A"].minus(evaluated["B"])
                for part, truth in [*((evaluated[s], exact[s]) for s in exact), (pair, gap)]:
                    low, high = part.range(CONFIDENCE)
                    width = 2.0 * np.sqrt(part.middle.variances[1])
                    suffix = "_difference" if part is pair else ""
                    count[f"missed{suffix}"] += not low <= truth <= high
                    independent = abs(part.middle.value - truth) > width
                    count[f"missed{suffix}_if_independent"] += independent
                    if part is pair:
                        sign = int(low > 0) - int(high < 0)
                        count["verdicts"] += sign != 0
                        count["wrong"] += sign * gap < 0
                found[name].append((pair.middle.value, pair.middle.variances[0]))
        for name in METRICS:
            values, variances = np.array(found[name]).T
            yield {
                "corpus": kind, "metric": name, "sampled": n_sampled, "samples": n_samples,
                **{key: int(value) for key, value in counts[name].items()},
                "mean_v": variances.mean(), "variance": values.var(ddof=1),
            }  # fmt: skip


def whole(runs: retrieval.Runs, model: int) -> tuple[np.ndarray, dict[str, dict[str, int]]]:
    """Scores that give a model's order: queries by documents, and the judgements."""
    scores = -2.0 * runs.places[model].astype(float)
    qrels = {}
    for q, relevant in enumerate(runs.relevant):
        scores[q, relevant] -= 1.0
        qrels[f"q{q}"] = {f"d{document}": 1 for document in relevant}
    return scores, qrels


def rows_of_collections(n_samples: int) -> Iterator[dict[str, object]]:
    for name, n_sampled in (("npl", 500), ("npl", 2_000), ("cranfield", 100), ("cranfield", 240)):
        runs, found = retrieval.bundled(name), []
        exact = corpora.averages(runs)
        for seed in range(n_samples):
            kept = corpora.uniform(runs, n_sampled, np.random.default_rng([SEED, seed]))
            systems = {}
            for i, model in enumerate(runs.models):
                scores, qrels = whole(runs, i)
                systems[model] = run(scores, np.flatnonzero(kept))
            sub = sm.readers.ranx(systems, qrels, corpus_size=runs.n_documents)
            found.append(sm.estimate(sub, list(exact)).frame.assign(sample=seed))
        table = pd.concat(found)
        truth = exact.stack().rename("truth").rename_axis(["recommender", "metric"])
        table = table.join(truth, on=["recommender", "metric"])
        for metric, part in table.groupby("metric", sort=False):
            is_in = part["truth"].between(part["possible_low"], part["possible_high"])
            off = (part["estimate"] - part["truth"]).abs()
            samples = [sample for _, sample in part.groupby("sample")]
            yield {
                "collection": name, "sampled": n_sampled, "metric": metric, "ranges": len(part),
                "missed": int((~is_in).sum()),
                "missed_by_two_errors": int((off > 2.0 * part["standard_error"]).sum()),
                "width": (part["possible_high"] - part["possible_low"]).mean(),
                "error_reported": (part["reported"] - part["truth"]).abs().mean(),
                "error_estimate": off.mean(),
                "pairs": 55 * len(samples),
                **{
                    f"reversed_{value}": sum(
                        corpora.reversals(one["truth"], one[value])[0] for one in samples
                    )
                    for value in ("reported", "estimate")
                },
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--output", type=Path, default=FILE)
    parser.add_argument("--collections", action="store_true")
    arguments = parser.parse_args()
    made = rows_of_collections if arguments.collections else rows
    table = pd.DataFrame(made(arguments.samples))
    table.to_csv(arguments.output, index=False, float_format="%.3g")
    print(table.to_string())


if __name__ == "__main__":
    main()

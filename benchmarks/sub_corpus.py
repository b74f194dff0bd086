"""How often ranges hold where one sub-corpus serves all queries, on hostile corpora.

    python benchmarks/sub_corpus.py [--samples 200] [--output benchmarks/sub_corpus.csv]
    python benchmarks/sub_corpus.py --collections --samples 30 --output benchmarks/collections.csv

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

With --collections the corpora are seven collections that thirteen retrieval models rank in full,
two of them made up from the judgements. Where all queries together leave no document to sample, 20
are drawn first. A tenth, a fifth and half of the documents that are relevant to no query are
drawn. The file has a line for each collection, share, metric and model: the exact metric, how many
ranges missed it, how many estimates are more than three standard errors off, the mean width of
ranges and standard error, and the mean absolute errors of the reported value and of the estimate.
The file of pairs counts pairs of models by their lead on the sub-corpus: how many are in another
order on the whole collection by the reported values and by the estimates; and of every tenth
sample how many pairs `compare` judged and decided, and how many verdicts were wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_book.data import retrieval
from sampled_metrics.designs.analysis import Request
from sampled_metrics.designs.jackknife import evaluated
from sampled_metrics.designs.one_sub_corpus import SubCorpusAnalysis
from sampled_metrics.log.sub_corpus import Order, SubCorpus

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


def judged(
    kind: str, scores: dict[str, np.ndarray], n_sampled: int, seed: int
) -> Iterator[dict[str, object]]:
    """Of one sample, for each metric: what is missed, for two systems and for their difference."""
    rng, n_others = np.random.default_rng([SEED, n_sampled, seed]), DOCUMENTS - QUERIES
    documents = np.r_[:QUERIES, QUERIES + rng.choice(n_others, n_sampled, replace=False)]
    runs = {
        name: {
            f"q{q}": {f"d{d}": score for d, score in zip(documents, row, strict=True)}
            for q, row in enumerate(table[:, documents].tolist())
        }
        for name, table in scores.items()
    }
    qrels = {f"q{q}": {f"d{q}": 1} for q in range(QUERIES)}
    sub = sm.readers.ranx(runs, qrels, corpus_size=DOCUMENTS)
    ranks = [1 + (t > np.diag(t)[:, np.newaxis]).sum(axis=1) for t in scores.values()]
    for metric in map(sm.metric, METRICS):
        exact = [float(metric(r, DOCUMENTS).mean()) for r in ranks]
        by_system = evaluated(sub, metric)
        systems = [by_system[name] for name in scores]
        pair, gap = systems[0].minus(systems[1]), exact[0] - exact[1]
        missed, independent = [], []
        for part, truth in zip([*systems, pair], [*exact, gap], strict=True):
            low, high = part.range(CONFIDENCE, population=part is pair or metric.cutoff is None)
            missed.append(not low <= truth <= high)
            width = 2.0 * part.by_query[:, 0].std(ddof=1) / np.sqrt(QUERIES)
            independent.append(abs(part.value - truth) > width)
        sign = int(low > 0) - int(high < 0)  # the pair is the last
        v = pair.by_document[:, 0].var(ddof=1) * (n_sampled - 1) ** 2 / n_sampled
        yield {
            "corpus": kind, "metric": metric.name, "sampled": n_sampled, "samples": 1,
            "missed": sum(missed[:2]), "missed_difference": missed[2],
            "wrong": sign * gap < 0, "verdicts": sign != 0,
            "missed_if_independent": sum(independent[:2]),
            "missed_difference_if_independent": independent[2],
            "mean_v": v * (1 - n_sampled / n_others), "variance": pair.value,
        }  # fmt: skip


def rows(n_samples: int) -> pd.DataFrame:
    """A row for each corpus, size and metric."""
    samples = list[dict[str, object]]()
    for kind in CORPORA:
        scores = corpus(kind)
        for n_sampled, seed in product(SIZES, range(n_samples)):
            samples += judged(kind, scores, n_sampled, seed)
    groups = pd.DataFrame(samples).groupby(["corpus", "metric", "sampled"], sort=False)
    moments = {"mean_v": groups["mean_v"].mean(), "variance": groups["variance"].var()}
    return groups.sum().assign(**moments).reset_index()


#: Collections, with the number of queries that are drawn first where all of them leave no document
#: that is relevant to none.
COLLECTIONS = {
    "npl": None, "cranfield": None, "lisa": None, "cosqa": None,
    "cisi": 20, "nfcorpus_test": 20, "cystic_fibrosis": 20,
}  # fmt: skip
SHARES = (0.1, 0.2, 0.5)
CUTOFFS = ("ndcg@10", "recall@10", "recall@100")
OF_COLLECTIONS = (*CUTOFFS, "rr")
#: Leads on the sub-corpus, as the lower ends of classes.
LEADS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
PAIRS = ("pairs", "reversed_reported", "reversed_estimate", "judged", "decided", "wrong")
#: How a collection's file sums up each column of its samples.
CELLS = {
    "exact": "first",
    **dict.fromkeys(("samples", "missed", "missed_by_three"), "sum"),
    **dict.fromkeys(("width", "standard_error", "error_reported", "error_estimate"), "mean"),
}


class Ranked:
    """Models that rank a collection, for some of its queries; relevant documents are kept."""

    def __init__(self, name: str, n_queries: int | None, cache: Path | None) -> None:
        runs = retrieval.ranked(name, cache)
        chosen = range(len(runs.relevant))
        if n_queries:
            rng = np.random.default_rng(SEED)
            chosen = np.sort(rng.choice(len(runs.relevant), n_queries, replace=False)).tolist()
        self.models, self.n_documents = runs.models, runs.n_documents
        self.relevant = [runs.relevant[q] for q in chosen]
        kept = np.zeros(runs.n_documents, dtype=bool)
        kept[np.concatenate(self.relevant)] = True
        self.n_kept = int(kept.sum())
        places = runs.places[:, chosen].astype(np.int64)
        self.others = places[:, :, ~kept]
        # Of each model and query, the places of relevant documents among the kept ones: those
        # relevant to other queries stand above them as the others do.
        self.positions = []
        for model in places:
            of_model = [
                above(np.delete(row, own)[np.delete(kept, own)], own.size)
                for row, own in zip(model, self.relevant, strict=True)
            ]
            self.positions.append([better + np.arange(1, better.size + 1) for better in of_model])

    def sub_corpus(self, drawn: np.ndarray) -> SubCorpus:
        """What a reader makes of runs over the kept documents and the drawn others."""
        orders = {}
        for model, name in enumerate(self.models):
            orders[name] = [
                [Order(position, above(better, position.size), np.ones(position.size), better)]
                for position, better in zip(
                    self.positions[model], self.others[model][:, drawn], strict=True
                )
            ]
        queries = tuple(f"q{q}" for q in range(len(self.relevant)))
        return SubCorpus(self.n_documents, self.n_kept, len(drawn), queries, orders)

    def exact(self, metric: sm.Metric) -> dict[str, float]:
        """The metric on the whole collection."""
        return {
            name: float(np.mean([
                metric.of_set(position + above(better, position.size), self.n_documents)
                for position, better in zip(self.positions[model], self.others[model], strict=True)
            ]))
            for model, name in enumerate(self.models)
        }  # fmt: skip


def above(better: np.ndarray, n_relevant: int) -> np.ndarray:
    """Documents above each relevant one, of how many relevant ones are above each document."""
    return np.cumsum(np.bincount(better, minlength=n_relevant + 1)[:n_relevant])


def rows_of_collection(
    name: str, share: float, n_samples: int, metrics: Sequence[str], cache: Path | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row for each metric and model, and one for each metric and class of leads."""
    ranked, samples, pairs = Ranked(name, COLLECTIONS[name], cache), [], []
    n_others = ranked.others.shape[2]
    n_sampled = round(share * n_others)
    for metric in map(sm.metric, metrics):
        exact, leads = ranked.exact(metric), np.zeros((len(LEADS), len(PAIRS)), dtype=int)
        for draw in range(n_samples):
            rng = np.random.default_rng([SEED, n_sampled, draw])
            sub = ranked.sub_corpus(rng.choice(n_others, n_sampled, replace=False))
            analysis = SubCorpusAnalysis(sub, Request([metric]))
            frame = analysis.estimates(progress=False).frame
            samples.append(frame.assign(exact=frame["recommender"].map(exact)))
            is_judged = metric.name in CUTOFFS[:2] and draw % 10 == 0
            decided = analysis.comparison(progress=False).frame if is_judged else None
            count_pairs(samples[-1], decided, leads)
        counts = dict(zip(PAIRS, leads.T, strict=True))
        head = {"collection": name, "share": share, "metric": metric.name, "lead": LEADS}
        pairs.append(pd.DataFrame(head | counts))
    table = pd.concat(samples).assign(collection=name, share=share, sampled=n_sampled, samples=1)
    is_in = table["exact"].between(table["possible_low"] - 1e-9, table["possible_high"] + 1e-9)
    off = (table["estimate"] - table["exact"]).abs()
    table = table.rename(columns={"recommender": "model"}).assign(
        missed=~is_in,
        width=table["possible_high"] - table["possible_low"],
        missed_by_three=off > 3.0 * table["standard_error"] + 1e-9,
        error_estimate=off,
        error_reported=(table["reported"] - table["exact"]).abs(),
    )
    cells = table.groupby(["collection", "share", "sampled", "metric", "model"], sort=False)
    return cells.agg(CELLS).reset_index(), pd.concat(pairs)


def count_pairs(frame: pd.DataFrame, decided: pd.DataFrame | None, leads: np.ndarray) -> None:
    """Add the pairs of models of one sample to the counts by lead."""
    reported, estimate, exact = frame[["reported", "estimate", "exact"]].to_numpy().T
    first, second = np.triu_indices(len(frame), 1)
    gap = exact[first] - exact[second]
    lead = reported[first] - reported[second]
    place = np.searchsorted(LEADS, np.abs(lead), side="right") - 1
    by_estimate = estimate[first] - estimate[second]
    columns = [np.ones(gap.size, dtype=bool), lead * gap < 0, by_estimate * gap < 0]
    if decided is not None:  # the pairs are in the same order
        verdict = (decided["possible_low"].to_numpy() > 0).astype(int)
        verdict -= (decided["possible_high"].to_numpy() < 0).astype(int)
        columns += [np.ones(gap.size, dtype=bool), verdict != 0, verdict * gap < 0]
    for column, is_true in enumerate(columns):
        np.add.at(leads[:, column], place[is_true], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--output", type=Path, default=FILE)
    parser.add_argument("--collections", nargs="*", choices=list(COLLECTIONS))
    parser.add_argument("--metrics", nargs="*", default=OF_COLLECTIONS)
    parser.add_argument("--shares", type=float, nargs="*", default=SHARES)
    parser.add_argument("--cache", type=Path, help="a folder for the rankings")
    arguments = parser.parse_args()
    if arguments.collections is None:
        table = rows(arguments.samples)
        table.to_csv(arguments.output, index=False, float_format="%.3g")
        print(table.to_string())
        return
    parts = []
    for name, share in product(arguments.collections or COLLECTIONS, arguments.shares):
        options = (arguments.samples, arguments.metrics, arguments.cache)
        parts.append(rows_of_collection(name, share, *options))
        cells, pairs = map(pd.concat, zip(*parts, strict=True))
        cells.to_csv(arguments.output, index=False, float_format="%.4g")
        of_pairs = arguments.output.with_name(f"{arguments.output.stem}_pairs.csv")
        pairs.to_csv(of_pairs, index=False)
        print(*(part.to_string() for part in parts[-1]), flush=True)


if __name__ == "__main__":
    main()

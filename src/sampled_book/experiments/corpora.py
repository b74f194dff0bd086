"""Retrieval models in reduced corpora: by how much metrics rise, and whether orders stay.

``python -m sampled_book.experiments.corpora`` copies what the chapter needs of the results of the
Massive Text Embedding Benchmark from the folder that ``SAMPLED_METRICS_DATA`` names.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

from sampled_metrics._validate import FloatArray, IntArray

from ..data import bundle, datasets
from ..data.retrieval import BUNDLE, Runs

#: Metrics that are compared: name and cutoff; a reciprocal rank has none.
METRICS = {"ndcg@10": 10, "recall@10": 10, "recall@100": 100, "rr": 0}
#: Columns of a model's scores that are bundled.
SCORES = ("ndcg_at_10", "recall_at_100")
#: Files of the results, and their git blob ids.
RESULTS = {
    "mteb.csv.gz": "ea441af277ed0459e05ae59af3737f107b3bb234",
    "sizes.csv": "a95ec38d423e6715372c487554b32f8f0e5982f5",
}


def ranks(runs: Runs, model: int, query: int, kept: NDArray[np.bool_]) -> IntArray:
    """Ranks of a query's relevant documents in a corpus, from the best on.

    `kept` says of each document whether the corpus has it; relevant documents count as kept.
    """
    relevant = runs.relevant[query]
    others = kept.copy()
    others[relevant] = False
    above = np.bincount(runs.places[model, query][others], minlength=relevant.size + 1)
    return np.cumsum(above)[: relevant.size] + np.arange(1, relevant.size + 1)


def value(metric_name: str, relevant_ranks: ArrayLike) -> float:
    """A metric of :data:`METRICS` of one query, of the ranks of all its relevant documents.

    >>> value("recall@10", [1, 11]), value("rr", [2, 5]), round(value("ndcg@10", [2]), 3)
    (0.5, 0.5, 0.631)
    """
    found, k = np.asarray(relevant_ranks), METRICS[metric_name]
    if metric_name == "rr":
        return float(1 / found.min())
    if metric_name.startswith("recall"):
        return float(np.mean(found <= k))
    gains = 1 / np.log2(found[found <= k] + 1)
    ideal = 1 / np.log2(np.arange(2, min(found.size, k) + 2))
    return float(gains.sum() / ideal.sum())


def averages(runs: Runs, kept: NDArray[np.bool_] | None = None) -> pd.DataFrame:
    """Means over the queries, a row for each model and a column for each metric.

    `kept` (documents,) says which documents the corpus has; by default all.
    """
    n_queries = len(runs.relevant)
    corpus = np.ones(runs.n_documents, dtype=bool) if kept is None else kept
    rows = []
    for model in range(len(runs.models)):
        found = [ranks(runs, model, query, corpus) for query in range(n_queries)]
        rows.append([np.mean([value(name, r) for r in found]) for name in METRICS])
    return pd.DataFrame(rows, index=pd.Index(runs.models, name="model"), columns=list(METRICS))


def by_query(
    runs: Runs, metric_name: str = "ndcg@10", kept: NDArray[np.bool_] | None = None
) -> FloatArray:
    """Values of a metric in a corpus, by default the whole collection: (models, queries)."""
    corpus = np.ones(runs.n_documents, dtype=bool) if kept is None else kept
    queries = range(len(runs.relevant))
    return np.array([
        [value(metric_name, ranks(runs, model, query, corpus)) for query in queries]
        for model in range(len(runs.models))
    ])  # fmt: skip


def expected(runs: Runs, sizes: Sequence[int], k: int = 10) -> pd.DataFrame:
    """Expected NDCG@k of a corpus that :func:`uniform` draws, exactly: a row for each model and a
    column for each number of others.

    A relevant document stands below a known number of documents that are always kept, and below a
    hypergeometric number of the others. NDCG is a sum over relevant documents, so the distribution
    of each one's rank is enough (eq-rc-growth).
    """
    always = np.zeros(runs.n_documents, dtype=bool)
    always[np.concatenate(runs.relevant)] = True
    n_others = runs.n_documents - int(always.sum())
    everything = np.ones(runs.n_documents, dtype=bool)
    gain = 1 / np.log2(np.arange(2, k + 2))
    means = []
    for model in range(len(runs.models)):
        total = np.zeros(len(sizes))
        for query, relevant in enumerate(runs.relevant):
            kept = ranks(runs, model, query, always)[:k]
            above = ranks(runs, model, query, everything)[:k] - kept
            pmf = hypergeom.pmf(
                np.arange(k), n_others, above[:, None, None], np.array(sizes)[:, None]
            )
            places = kept[:, None, None] + np.arange(k) - 1
            worth = np.where(places < k, gain[np.minimum(places, k - 1)], 0)
            total += (pmf * worth).sum(axis=(0, 2)) / gain[: min(relevant.size, k)].sum()
        means.append(total / len(runs.relevant))
    return pd.DataFrame(means, index=pd.Index(runs.models, name="model"), columns=list(sizes))


def design_effects(
    runs: Runs, n_others: int, draws: int, seed: int = 0, metric_name: str = "ndcg@10"
) -> FloatArray:
    """Variance of each model's mean with one uniform corpus for all queries, over its variance with
    a corpus drawn for each query; both are estimated from the same draws.
    """
    rng = np.random.default_rng(seed)
    values = np.array([
        by_query(runs, metric_name, uniform(runs, n_others, rng)) for _ in range(draws)
    ])  # fmt: skip
    separate = values.var(axis=0, ddof=1).mean(axis=1) / values.shape[2]
    return np.asarray(values.mean(axis=2).var(axis=0, ddof=1) / separate)


def fewer_queries(
    runs: Runs, n_queries: int, draws: int = 200, seed: int = 0, metric_name: str = "ndcg@10"
) -> float:
    """How many pairs of models so many random queries put in another order than all queries do, on
    average over draws. The corpus stays whole.
    """
    values, rng = by_query(runs, metric_name), np.random.default_rng(seed)
    everyone = values.mean(axis=1)
    some = (rng.choice(values.shape[1], n_queries, replace=False) for _ in range(draws))
    return float(np.mean([reversals(everyone, values[:, few].mean(axis=1))[0] for few in some]))


def paired_deviations(values: FloatArray) -> FloatArray:
    """Standard deviations over the queries of each pair's difference, of values (models, queries).

    >>> paired_deviations(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    array([1.])
    """
    i, j = np.triu_indices(values.shape[0], 1)
    return np.asarray((values[i] - values[j]).std(axis=1, ddof=1))


def uniform(runs: Runs, n_others: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A corpus of every document that is relevant to some query, and `n_others` uniform others."""
    kept = np.zeros(runs.n_documents, dtype=bool)
    kept[np.concatenate(runs.relevant)] = True
    others = np.flatnonzero(~kept)
    kept[rng.choice(others, n_others, replace=False)] = True
    return kept


def pool(runs: Runs, models: Sequence[str], depth: int) -> NDArray[np.bool_]:
    """A corpus of the first documents of some models and of the relevant ones, for all queries."""
    chosen = [runs.models.index(name) for name in models]
    kept = np.zeros(runs.n_documents, dtype=bool)
    kept[runs.top[chosen, :, :depth].ravel()] = True
    kept[np.concatenate(runs.relevant)] = True
    return kept


def reversals(first: ArrayLike, second: ArrayLike) -> tuple[int, int]:
    """How many pairs of models two lists of scores put in another order, and how many pairs there
    are; a tie in either is no pair.

    >>> reversals([0.1, 0.2, 0.3], [0.5, 0.4, 0.6])
    (1, 3)
    """
    a, b = (np.asarray(scores, dtype=np.float64) for scores in (first, second))
    i, j = np.triu_indices(a.size, 1)
    products = np.sign(a[i] - a[j]) * np.sign(b[i] - b[j])
    return int((products < 0).sum()), int((products != 0).sum())


def compared(exact: pd.DataFrame, reduced: pd.DataFrame) -> list[dict[str, Any]]:
    """Of each metric: by how much the models' means rise on average, least and most; how many of
    the pairs are in another order, and whether another model is the best.
    """
    rows = []
    for name in exact:
        rise = reduced[name] - exact[name]
        reversed_pairs, pairs = reversals(exact[name], reduced[name])
        other = bool(exact[name].idxmax() != reduced[name].idxmax())
        rows.append({"metric": name, "rise": rise.mean(), "least": rise.min(), "most": rise.max(),
                     "reversed": reversed_pairs, "pairs": pairs, "other_best": other})  # fmt: skip
    return rows


def uniform_table(
    runs: Runs, sizes: Iterable[int] = (200, 1_000, 3_000), draws: int = 20, seed: int = 0
) -> pd.DataFrame:
    """`compared` for drawn corpora: a row for each number of others, draw and metric.

    The draws of a size have seeds of their own, so that a table of one size agrees with one of all.
    """
    exact, rows = averages(runs), []
    for size in sizes:
        for draw in range(draws):
            kept = uniform(runs, size, np.random.default_rng([seed, size, draw]))
            corpus = {"others": size, "documents": int(kept.sum()), "draw": draw}
            rows += [corpus | row for row in compared(exact, averages(runs, kept))]
    return pd.DataFrame(rows)


def pool_table(
    runs: Runs,
    pools: dict[str, Sequence[str]],
    depths: Iterable[int] = (10, 30, 100),
) -> pd.DataFrame:
    """`compared` for pools of some models' first documents: a row for each pool, depth and
    metric; *documents* is the size of the corpus.
    """
    exact, rows = averages(runs), []
    for name, models in pools.items():
        for depth in depths:
            kept = pool(runs, models, depth)
            corpus = {"pool": name, "depth": depth, "documents": int(kept.sum())}
            rows += [corpus | row for row in compared(exact, averages(runs, kept))]
    return pd.DataFrame(rows)


def results() -> pd.DataFrame:
    """Bundled scores of embedding models: model, task, kind ("full", "nano" or "hard") and
    `SCORES`. The README beside the file names their source.
    """
    return pd.read_csv(BUNDLE / "mteb.csv.gz")


def sizes() -> pd.DataFrame:
    """Documents and queries of the thirteen data sets, in full and in NanoBEIR, as their pages and
    papers state them.
    """
    return pd.read_csv(BUNDLE / "sizes.csv")


def both(scores: pd.DataFrame, kind: str, score: str = "ndcg_at_10") -> pd.DataFrame:
    """Scores of models on tasks that have them in full and in a reduced corpus of a kind: task,
    model, full and reduced.
    """
    wide = scores.pivot(index=["task", "model"], columns="kind", values=score)
    wide.columns.name = None
    pairs = wide[["full", kind]].dropna().rename(columns={kind: "reduced"})
    return pairs.reset_index()


def gaps(scores: pd.DataFrame, kind: str, score: str = "ndcg_at_10") -> pd.DataFrame:
    """Pairs of models on each task, without ties: by how much the better one of the reduced corpus
    leads there (*reduced*), and on the whole one (*full*, negative if the order is reversed).
    """
    parts = []
    for task, part in both(scores, kind, score).groupby("task"):
        full, reduced = (part[column].to_numpy() for column in ("full", "reduced"))
        i, j = np.triu_indices(len(part), 1)
        lead = reduced[i] - reduced[j]
        signed = (full[i] - full[j]) * np.sign(lead)
        parts.append(pd.DataFrame({"task": task, "reduced": abs(lead), "full": signed}))
    every = pd.concat(parts, ignore_index=True)
    return every[(every["reduced"] > 0) & (every["full"] != 0)].reset_index(drop=True)


def gaps_of_means(scores: pd.DataFrame, kind: str, score: str = "ndcg_at_10") -> pd.DataFrame:
    """:func:`gaps` of the means over all tasks, of the models that have both scores on all."""
    means = of_means(scores, kind, score)
    long = means.rename(columns={"reduced": kind}).reset_index().melt(
        "model", var_name="kind", value_name=score
    )  # fmt: skip
    return gaps(long.assign(task="mean"), kind, score)


def reversed_by_gap(pairs: pd.DataFrame, edges: Sequence[float]) -> pd.DataFrame:
    """Of :func:`gaps`, by the lead on the reduced corpus, up to each edge: *low* (exclusive),
    *high*, pairs, how many are reversed, and their share.
    """
    rows = []
    for low, high in zip([0.0, *edges], [*edges, np.inf], strict=True):
        part = pairs[(pairs["reduced"] > low) & (pairs["reduced"] <= high)]
        wrong = int((part["full"] < 0).sum())
        share = wrong / len(part) if len(part) else np.nan
        rows.append({"low": low, "high": high, "pairs": len(part), "reversed": wrong,
                     "share": share})  # fmt: skip
    return pd.DataFrame(rows)


def by_task(scores: pd.DataFrame, kind: str, score: str = "ndcg_at_10") -> pd.DataFrame:
    """Of each task: models that have both scores, reversed pairs, pairs, the best model in full and
    in the reduced corpus, whether they differ, and the mean difference of the scores.
    """
    rows = []
    for task, part in both(scores, kind, score).groupby("task"):
        reversed_pairs, pairs = reversals(part["full"], part["reduced"])
        best, best_reduced = (
            str(part.set_index("model")[column].idxmax()) for column in ("full", "reduced")
        )
        rows.append({"task": task, "models": len(part), "reversed": reversed_pairs, "pairs": pairs,
                     "best": best, "best_reduced": best_reduced,
                     "differs": bool(best != best_reduced),
                     "difference": (part["reduced"] - part["full"]).mean()})  # fmt: skip
    return pd.DataFrame(rows)


def without_drops(scores: pd.DataFrame, kind: str, drop: float) -> pd.DataFrame:
    """Scores without the models, task by task, whose NDCG@10 in a reduced corpus of a kind is more
    than `drop` below their full one. Cutting documents cannot lower a value of the same queries, so
    a large drop suggests that the two runs had different settings.
    """
    pairs = both(scores, kind)
    dropped = pairs[pairs["full"] - pairs["reduced"] > drop].set_index(["task", "model"]).index
    return scores[~pd.MultiIndex.from_frame(scores[["task", "model"]]).isin(dropped)]


def of_means(scores: pd.DataFrame, kind: str, score: str = "ndcg_at_10") -> pd.DataFrame:
    """Means over the tasks of the models that have both scores on all of them: full and reduced."""
    pairs = both(scores, kind, score)
    n_tasks = pairs["task"].nunique()
    means = pairs.groupby("model")[["full", "reduced"]]
    return means.mean()[means.size() == n_tasks]


def chosen(scores: pd.DataFrame) -> pd.DataFrame:
    """What the chapter needs of all results: scores of models on tasks that have them in full and
    in a reduced corpus of the same split. NanoBEIR's queries of MSMARCO are from dev, and the hard
    negatives of MSMARCO belong to other queries, those of TREC's track.
    """
    of_msmarco = scores["task"] == "MSMARCO"
    other_split = (scores["kind"] == "full") & (scores["split"] != "dev")
    rows = scores[~(of_msmarco & (other_split | (scores["kind"] == "hard")))]
    rows = rows.dropna(subset=["ndcg_at_10"])
    both_kinds = pd.concat([
        rows[rows["kind"] == kind][["model", "task"]].merge(
            rows[rows["kind"] == "full"][["model", "task"]]
        )
        for kind in ("nano", "hard")
    ]).drop_duplicates()  # fmt: skip
    kept = rows.merge(both_kinds)[["model", "task", "kind", *SCORES]]
    return kept.sort_values(["task", "kind", "model"], ignore_index=True)


def write(folder: Path = BUNDLE) -> Iterable[Path]:
    """Write the bundled results and sizes; their paths."""
    content = {name: datasets.local_file("retrieval", name, blob) for name, blob in RESULTS.items()}
    yield bundle.write_table(folder / "mteb.csv.gz", chosen(_table(content["mteb.csv.gz"])), 6)
    yield bundle.write_table(folder / "sizes.csv", _table(content["sizes.csv"]), 9)


def _table(content: bytes) -> pd.DataFrame:
    packed = content[:2] == b"\x1f\x8b"
    return pd.read_csv(io.BytesIO(content), compression="gzip" if packed else None)


def main(argv: Sequence[str] | None = None) -> int:
    """Copy scores of embedding models on full and on reduced corpora into the package."""
    arguments = bundle.parser("sampled_book.experiments.corpora", main.__doc__).parse_args(argv)
    return bundle.run(lambda: write(arguments.output or BUNDLE))


if __name__ == "__main__":
    sys.exit(main())

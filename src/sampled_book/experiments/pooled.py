"""Scores on pooled corpora: how far they may lie above the full ones, for a model outside the pool.

A pooled corpus keeps the relevant documents and the first documents of some models. A score there
is an upper bound on the full score. The lower end that is tried here is a theorem if models are
exchangeable (:func:`left_out`), and has a track record beyond (:func:`widths`).

``python -m sampled_book.experiments.pooled`` writes that track record (:func:`table`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sampled_metrics._validate import FloatArray, IntArray

from ..data import bundle, collections, retrieval
from ..data.retrieval import BUNDLE, Runs

#: Metrics by row of :func:`scores`. A pool of depth 10 keeps each exact for the pool's models.
METRICS = ("ndcg@10", "recall@10", "rr@10")
#: How many times the losses of single models the unseen documents may take (:func:`widths`).
FACTOR = 3.0
#: Families of the bundled models, one letter for each model; of those that match words; of LSA.
FAMILIES = "TBBBDJLLLDF"
LEXICAL, LATENT = "TBDJ", "L"
#: Depths of the pools of :func:`table`, and the most queries of a collection.
DEPTHS, MOST_QUERIES = (10, 30, 100), 100


def scores(runs: Runs, depth: int, *, shared: bool = False) -> tuple[FloatArray, FloatArray]:
    """Scores on the corpora of all pools, (metrics, pools, models), and in full (metrics, models).

    Bit i of a pool's number says that it has the first `depth` documents of model i. Each query
    has its own corpus, or they share the union, with all relevant documents. Pool 0 has only the
    query's relevant documents.
    """
    if not 10 <= depth <= runs.top.shape[2]:
        raise ValueError(f"depth must be from 10 to {runs.top.shape[2]}, got {depth}")
    n_models = len(runs.models)
    of_query = np.zeros((len(runs.relevant), runs.n_documents), dtype=np.int64)
    for model in range(n_models):
        for row, first in zip(of_query, runs.top[model, :, :depth], strict=True):
            row[first] |= 1 << model
    if shared:
        of_query[:] = np.bitwise_or.reduce(of_query, axis=0)
        of_query[:, np.concatenate(runs.relevant)] = (1 << n_models) - 1
    total, exact = np.zeros((3, 1 << n_models, n_models)), np.zeros((3, n_models))
    for query, relevant in enumerate(runs.relevant):
        other = np.ones(runs.n_documents, dtype=bool)
        other[relevant] = False
        for model in range(n_models):
            places = runs.places[model, query, other].astype(np.int64)
            above = _above(places, of_query[query, other], min(relevant.size, 10), n_models)
            total[:, :, model] += _values(above, relevant.size)
            ranks = np.bincount(places, minlength=relevant.size)[: above.shape[1]].cumsum()
            exact[:, model] += _values(ranks[None], relevant.size)[:, 0]
    return total / len(runs.relevant), exact / len(runs.relevant)


def _above(places: IntArray, pools: IntArray, first: int, n_models: int) -> IntArray:
    """Documents above the first relevant ones in the corpus of each pool: (pools, first).

    A corpus lacks the documents whose models are all outside the pool: sums over subsets.
    """
    missing = np.zeros((1 << n_models, first), dtype=np.int64)
    shallow = places < first
    np.add.at(missing, (pools[shallow], places[shallow]), 1)
    missing = missing.cumsum(axis=1)
    for model in range(n_models):
        halves = missing.reshape(-1, 2, 1 << model, first)
        halves[:, 1] += halves[:, 0]
    return np.asarray(missing[-1] - missing[::-1])


def _values(above: IntArray, n_relevant: int) -> FloatArray:
    """The metrics of one query (metrics, corpora), of the others above its first relevant ones."""
    ranks = above + np.arange(1, above.shape[1] + 1)
    near = ranks <= 10
    ideal = (1 / np.log2(np.arange(2, min(ranks.shape[1], 10) + 2))).sum()
    gain = np.where(near, 1 / np.log2(ranks + 1), 0).sum(axis=1) / ideal
    return np.array([gain, near.sum(axis=1) / n_relevant, near[:, 0] / ranks[:, 0]])


def left_out(values: FloatArray, full: FloatArray) -> FloatArray:
    """Largest rise of a pool's model that is left out of the pool: (pools,).

    Of n + 1 models that are left out in turn, at most one rises by more than this number of the
    pool of the others: leaving out a second model only removes documents. So it covers the rise
    of an exchangeable model with probability n/(n + 1) or more.
    """
    pools, largest = np.arange(values.shape[0]), np.zeros(values.shape[0])
    for model in range(values.shape[1]):
        has = pools[pools >> model & 1 == 1]
        rise = values[has ^ 1 << model, model] - full[model]
        largest[has] = np.maximum(largest[has], rise)
    return largest


def singles(values: FloatArray) -> FloatArray:
    """Rises of each model as those of a pool are left out one by one, in sum: (pools, models).

    It measures the documents that only one model of the pool contributes, as the jackknife for
    unseen species does, and needs no full score.
    """
    pools, total = np.arange(values.shape[0]), np.zeros(values.shape)
    for model in range(values.shape[1]):
        has = pools[pools >> model & 1 == 1]
        total[has] += values[has ^ 1 << model] - values[has]
    return total


def widths(values: FloatArray, full: FloatArray, n_queries: int) -> FloatArray:
    """How far below its score on a pool's corpus a model's full score may lie: (pools, models).

    The larger of :func:`left_out` and `FACTOR` times :func:`singles`, and one query's worth more.
    """
    return np.maximum(left_out(values, full)[:, None], FACTOR * singles(values)) + 1 / n_queries


def contradicted(values: FloatArray, full: FloatArray, width: FloatArray) -> NDArray[np.bool_]:
    """Whether a pool's own models contradict such widths: one of them, left out, rises by more.

    A pool of one model has nothing to contradict them with.
    """
    pools, wrong = np.arange(values.shape[0]), np.zeros(values.shape[0], dtype=bool)
    for model in range(values.shape[1]):
        has = pools[(pools >> model & 1 == 1) & (pools != 1 << model)]
        rest = has ^ 1 << model
        wrong[has] |= values[rest, model] - full[model] > width[rest, model] + 1e-12
    return wrong


def record(runs: Runs, depth: int, families: str, *, shared: bool = False) -> pd.DataFrame:
    """Pools of 2 to 6 models and each model outside: a row for each metric, pool and model.

    `pool` and its `size`; `printed` score there, its `rise` over the full one, and the `width`;
    `relative`: some model of the pool has the same letter in `families`; `lexical`: an LSA model,
    and a pool of models that match words; `contradicted`.
    """
    parts, n_models = [], len(runs.models)
    has = np.arange(1 << n_models)[:, None] >> np.arange(n_models) & 1 == 1
    size = has.sum(axis=1)
    pools, models = np.nonzero(~has & ((size >= 2) & (size <= 6))[:, None])
    kin = np.array([[a == b for b in families] for a in families])
    is_other = np.array([family not in LEXICAL for family in families])
    is_latent = np.array([family in LATENT for family in families])
    lexical = is_latent[models] & ~(has @ is_other)[pools]
    for name, values, full in zip(METRICS, *scores(runs, depth, shared=shared), strict=True):
        width = widths(values, full, len(runs.relevant))
        parts.append(pd.DataFrame({
            "metric": name, "pool": pools, "size": size[pools], "model": models,
            "printed": values[pools, models], "rise": (values - full)[pools, models],
            "width": np.minimum(width, values)[pools, models],
            "left_out": left_out(values, full)[pools],
            "relative": (has @ kin)[pools, models], "lexical": lexical,
            "contradicted": contradicted(values, full, width)[pools],
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def counted(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Of :func:`record`, by metric and size of the pool (2, 3, or 4 to 6): pairs of a pool and a
    model outside, and those whose rise is at most the width (*held*); the same for models that
    have no relative inside (*foreign*) and of `lexical` ones; misses of LSA 20 (*weak*), lexical
    pairs whose pool is contradicted (*noticed*), and the median *width* over the printed score.
    """
    held, foreign = rows["rise"] <= rows["width"] + 1e-12, ~rows["relative"]
    lexical, weak = rows["lexical"], rows["model"] == names.index("LSA 20")
    columns = {
        "metric": rows["metric"], "size": np.minimum(rows["size"], 4), "pairs": 1, "held": held,
        "foreign": foreign, "foreign_held": foreign & held, "lexical": lexical,
        "lexical_held": lexical & held, "weak": weak & ~held,
        "noticed": lexical & rows["contradicted"],
    }  # fmt: skip
    groups = pd.DataFrame(columns).groupby(["metric", "size"], sort=False)
    share = (rows["width"] / rows["printed"].where(rows["printed"] > 0)).fillna(0)
    widths_by_group = share.groupby([columns["metric"], columns["size"]], sort=False)
    return groups.sum().assign(width=widths_by_group.median()).reset_index()


def table() -> pd.DataFrame:
    """The track record of :func:`widths` on seven collections, with thirteen models and up to 100
    queries: :func:`counted`, by collection and depth. Size 4 stands for 4 to 6.
    """
    return pd.read_csv(BUNDLE / "pooled.csv")


def worst(counts: pd.DataFrame) -> pd.DataFrame:
    """The worst collection in each column of :func:`table`, by depth, size and metric: the least
    shares that held, of all pairs, foreign and lexical ones, and the largest median width.
    """
    shares = counts[["depth", "size", "metric", "width"]].assign(
        held=counts["held"] / counts["pairs"],
        foreign=counts["foreign_held"] / counts["foreign"],
        lexical=counts["lexical_held"] / counts["lexical"],
    )
    return shares.groupby(["depth", "size", "metric"]).agg(
        held=("held", "min"), foreign=("foreign", "min"), lexical=("lexical", "min"),
        width=("width", "max"),
    )  # fmt: skip


def write(folder: Path = BUNDLE, cache: Path | None = None) -> Iterable[Path]:
    """Write the bundled table, of rankings that are kept in the folder `cache`; its path."""
    parts = []
    for name in collections.NAMES:
        runs = retrieval.ranked(name, cache)
        few = replace(
            runs, places=runs.places[:, :MOST_QUERIES], top=runs.top[:, :MOST_QUERIES],
            relevant=runs.relevant[:MOST_QUERIES],
        )  # fmt: skip
        for depth in DEPTHS:
            counts = counted(record(few, depth, FAMILIES + "SS"), runs.models)
            parts.append(counts.assign(collection=name, depth=depth))
    first = ["collection", "depth"]
    rows = pd.concat(parts)
    rows = rows[[*first, *rows.columns.drop(first)]]
    yield bundle.write_table(folder / "pooled.csv", rows, 4)


def main(argv: Sequence[str] | None = None) -> int:
    """Count how often the bounds on full scores held, on pools of seven collections."""
    parser = bundle.parser("sampled_book.experiments.pooled", main.__doc__)
    parser.add_argument("--cache", type=Path, help="folder that keeps the rankings")
    arguments = parser.parse_args(argv)
    return bundle.run(lambda: write(arguments.output or BUNDLE, arguments.cache))


if __name__ == "__main__":
    sys.exit(main())

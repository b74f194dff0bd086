"""Chosen items that are all scored, and uniform negatives beside them: how wide is the interval?

Files of counts, which :func:`counts` reads, have ranks and how many chosen items are above.
``python -m sampled_book.experiments.chosen sets`` ranks all items of `SETS` by a recommender of the
benchmark; the chosen items are the best of item cosine. The files of `GRAPHS` are of two models of
PyKEEN (DistMult with 64 and 16 numbers for an entity), which ranked all entities for each test
query; the chosen ones are the most frequent of the relation, or the best of the other model. The
code that trained these models is in commit 92387881.
``... widths`` then writes what :func:`bundled` reads: intervals from samples of these, from as many
uniform negatives, and from fewer users.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, datasets, sources
from ..data.benchmark_recommenders import RECOMMENDERS
from .graphs import SEED
from .theory import moments

BUNDLE = datasets.BUNDLE / "chosen"
FILE = BUNDLE / "widths.csv"
GRAPHS, MODELS = ("codex-s", "fb15k-237"), ("large", "small")
#: Data sets of the benchmark, and how many items are chosen for each user.
SETS = (
    *("ml-1m", "anime", "gowalla", "epinions", "citeulike_t", "pinterest", "allrecipes"),
    *("weeplaces", "yelp_hin", "lastfm"),
)
N_CHOSEN, MOST_USERS = 100, 5_000
#: Scores computed, as shares of all; of graphs half are of chosen entities.
SHARES = (0.01, 0.02, 0.05, 0.1)
METRICS = ("rr", "hit@10", "ndcg@10")
_BLOCK = 128


# --- ranks ----------------------------------------------------------------------------------------


def counted(
    scores: FloatArray,
    held_out: IntArray,
    is_candidate: np.ndarray,
    preference: FloatArray,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> dict[str, IntArray]:
    """The rank of each row's held-out item, and how many chosen items are above it, by size.

    `scores` and `preference` are (rows, items). The `sizes` items with the largest preference are
    chosen, of the candidates and without the held-out item. Ties are broken at random.
    """
    rows = np.arange(len(scores))
    place = rng.random(scores.shape)
    own, own_place = scores[rows, held_out][:, np.newaxis], place[rows, held_out][:, np.newaxis]
    is_other = is_candidate.copy()
    is_other[rows, held_out] = False
    is_above = ((scores > own) | ((scores == own) & (place > own_place))) & is_other
    order = np.argsort(-np.where(is_candidate, preference, -np.inf), axis=1, kind="stable")
    order = order[:, : max(sizes)]
    found = {"n_items": is_other.sum(axis=1) + 1, "rank": is_above.sum(axis=1) + 1}
    above, other = (np.take_along_axis(mask, order, axis=1) for mask in (is_above, is_other))
    for size in sizes:
        found[f"n_chosen/{size}"] = other[:, :size].sum(axis=1)
        found[f"better/{size}"] = above[:, :size].sum(axis=1)
        is_in = order[:, :size] == held_out[:, np.newaxis]
        found[f"has/{size}"] = is_in.any(axis=1).astype(np.int64)
    return found


def joined(parts: Sequence[Mapping[str, IntArray]]) -> dict[str, IntArray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def write(name: str, found: Mapping[str, IntArray], facts: Mapping[str, Any]) -> None:
    """Write the counts of one model, in a random order of the queries, and how they came about."""
    BUNDLE.mkdir(exist_ok=True)
    order = np.random.default_rng(SEED).permutation(found["rank"].size)
    arrays: dict[str, Any] = {
        key: column[order].astype(np.min_scalar_type(int(column.max())))
        for key, column in found.items()
    }
    np.savez_compressed(BUNDLE / f"{name}.npz", **arrays)
    (BUNDLE / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def counts(name: str) -> dict[str, IntArray]:
    """The counts of a model that were computed before, for each query."""
    with np.load(BUNDLE / f"{name}.npz") as arrays:
        return {key: arrays[key].astype(np.int64) for key in arrays.files}


# --- graphs ---------------------------------------------------------------------------------------


def expected(metric_name: str, sizes: Sequence[int]) -> pd.DataFrame:
    """Exact metric of both models of each graph, and its expectation with distinct negatives.

    Columns: graph, entities, queries, m, and exact and expected of each model. Negatives are drawn
    for each query alone, from its candidates.
    """
    rows, metric = [], sm.metric(metric_name)
    for name in GRAPHS:
        found = [counts(f"{name}_{model}_retrieved") for model in MODELS]
        ranks = [RankIntervals(c["rank"] - 1, 0 * c["rank"], c["n_items"]) for c in found]
        row = {
            "graph": name,
            "entities": found[0]["n_items"].max(),
            "queries": found[0]["rank"].size,
        }
        row |= {f"exact {model}": float(metric(each["rank"]).mean())
                for model, each in zip(MODELS, found, strict=True)}  # fmt: skip
        for m in sizes:
            means = moments(ranks, metric.vector(m + 1)[:, np.newaxis], m, False).mean[:, 0]
            sampled = {f"expected {model}": mean for model, mean in zip(MODELS, means, strict=True)}
            rows.append(row | {"m": m} | sampled)
    return pd.DataFrame(rows)


# --- data sets of the benchmark -------------------------------------------------------------------


def set_counts(name: str) -> tuple[str, dict[str, IntArray]]:
    """Rank all items by the best recommender of a data set of which item cosine chooses items.

    EASE, which needs another library, and relatives of item cosine are left out.
    """
    local, _ = sources.local()
    data = local[name].read() if name in local else benchmark.DATA[name]()
    tuned, exact = benchmark.facts(name)["recommenders"], benchmark.ranks(name)
    names = [each for each in ("ALS", "BPR", "PureSVD", "RP3beta", "User cosine") if each in exact]
    best = max(names, key=lambda each: exact[each].evaluate("ndcg@10").mean())
    learnt, held_out = data.without_last(1)
    scores, preference = (
        RECOMMENDERS[each].learn(learnt, **tuned[each]["settings"])
        for each in (best, "Item cosine")
    )
    rng, found = np.random.default_rng(SEED), []
    users = rng.permutation(data.n_users)[:MOST_USERS]
    for block in np.array_split(users, np.ceil(users.size / _BLOCK)):
        is_candidate = np.ones((block.size, data.n_items), dtype=bool)
        is_candidate[learnt.matrix[block].nonzero()] = False
        is_candidate[np.arange(block.size), held_out[block]] = True
        made, chosen = (np.asarray(each(block), dtype=float) for each in (scores, preference))
        part = counted(made, held_out[block], is_candidate, chosen, [N_CHOSEN], rng)
        found.append(part)
    return f"{name}_{best}_item-cosine".replace(" ", "-"), joined(found)


# --- intervals ------------------------------------------------------------------------------------


def chosen_log(found: Mapping[str, IntArray], size: int, share: float, rng: Any) -> pd.DataFrame:
    """The log of an evaluation that scores the chosen items and negatives from the others.

    All users have as many negatives as bring the scores to this share of all in the mean.
    """
    n, better = found["n_items"], found[f"better/{size}"]
    n_chosen = found[f"n_chosen/{size}"]
    others, above = n - 1 - n_chosen, found["rank"] - 1 - better
    m = round(share * float(n.mean())) - 1 - size
    columns = {"n_items": n, "n_chosen": n_chosen, "n_chosen_better": better, "n_negatives": m}
    x = rng.hypergeometric(above, others - above, m)
    return pd.DataFrame({"user": np.arange(n.size), "n_better": x, "n_tied": 0} | columns)


def uniform_log(found: Mapping[str, IntArray], share: float, rng: Any) -> pd.DataFrame:
    """The log of an evaluation with as many scores, all but one of uniform negatives."""
    n, above = found["n_items"], found["rank"] - 1
    m = round(share * float(n.mean())) - 1
    x = rng.hypergeometric(above, n - 1 - above, m)
    columns = {"n_items": n, "n_negatives": m, "n_better": x, "n_tied": 0}
    return pd.DataFrame({"user": np.arange(n.size)} | columns)


def whole_log(found: Mapping[str, IntArray], share: float) -> pd.DataFrame:
    """The log of an evaluation that ranks all items for the first `share` of the users."""
    users = max(2, round(share * found["rank"].size))
    n = found["n_items"][:users]
    columns = {"n_items": n, "n_negatives": n - 1, "n_better": found["rank"][:users] - 1}
    return pd.DataFrame({"user": np.arange(users), "n_tied": 0} | columns)


def intervals(name: str, share: float, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """95% intervals of a model's metrics by each way to compute this share of the scores.

    Columns: name, share, way, metric, exact, low, high; and of the chosen items `has`, the share of
    users whose held-out item is chosen, and `complete`, the share of those with an exact rank of at
    most 10 above whom every item is chosen. Where the share is less than the chosen items it is
    left out.
    """
    found = counts(name)
    sizes = sorted(int(key.partition("/")[2]) for key in found if key.startswith("better/"))
    size = sizes[0] if len(sizes) == 1 else sizes[SHARES.index(share)]
    mean_items = float(found["n_items"].mean())
    if share * mean_items < size + 10:
        return pd.DataFrame()
    rng = np.random.default_rng(SEED)
    ways = {
        "chosen": (chosen_log(found, size, share, rng), None),
        "uniform": (uniform_log(found, share, rng), None),
        "uniform, decreasing": (uniform_log(found, share, rng), "decreasing"),
        "fewer users": (whole_log(found, share), None),
    }
    is_top = found["rank"] <= 10
    complete = (found[f"better/{size}"] == found["rank"] - 1)[is_top].mean()
    has, exact = found[f"has/{size}"].mean(), [sm.metric(m)(found["rank"]).mean() for m in metrics]
    tables = []
    for way, (frame, assumption) in ways.items():
        log = sm.read_log(frame, replacement=False)
        ends = sm.estimate(log, metrics, assumption=assumption).frame
        ends = ends.rename(columns={"possible_low": "low", "possible_high": "high"})
        tables.append(ends.assign(way=way, metric=list(metrics), exact=exact))
    table = pd.concat(tables, ignore_index=True)
    table = table.assign(name=name, share=share, has=has, complete=complete, users=is_top.size)
    columns = ["name", "share", "way", "metric", "exact", "low", "high", "has", "complete", "users"]
    return table[columns]


def table(names: Sequence[str]) -> pd.DataFrame:
    """:func:`intervals` of some models for all shares."""
    parts = [intervals(name, share) for name in names for share in SHARES]
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def bundled() -> pd.DataFrame:
    """The table that was computed before."""
    return pd.read_csv(FILE)


def half_widths(table: pd.DataFrame, metric: str = "ndcg@10", share: float = 0.05) -> pd.DataFrame:
    """Half the width of each way's interval, with the exact value, by model and kind of choice."""
    rows = table[(table["metric"] == metric) & (table["share"] == share)]
    half = rows.assign(half=(rows["high"] - rows["low"]) / 2)
    wide = half.pivot(index=["name", "complete", "exact"], columns="way", values="half")
    return wide[["chosen", "uniform", "uniform, decreasing", "fewer users"]].reset_index()


def ratios(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """How wide the interval with chosen items is, as a multiple of that of fewer users.

    Columns: source, a graph or "data sets"; frequent, whether the most frequent entities were
    chosen; complete; ratio. A row for each model, choice and share.
    """
    parts = [half_widths(table, metric, share) for share in SHARES]
    rows = pd.concat([part for part in parts if len(part)], ignore_index=True)
    graph = rows["name"].str.partition("_")[0]
    return pd.DataFrame(
        {
            "source": graph.where(graph.isin(GRAPHS), "data sets"),
            "frequent": rows["name"].str.endswith("frequent"),
            "complete": rows["complete"],
            "ratio": rows["chosen"] / rows["fewer users"],
        }
    )


def main(arguments: Sequence[str]) -> None:
    """Compute what the first argument says, of the sets that follow, or of all."""
    kind, names = arguments[0], arguments[1:]
    if kind == "widths":
        every = sorted(path.stem for path in BUNDLE.glob("*.npz"))
        table(names or every).round(5).to_csv(FILE, index=False)
        return
    versions = {package: version(package) for package in ("numpy", "implicit")}
    for name in names or SETS:
        start = time.process_time()
        key, found = set_counts(name)
        seconds = round(time.process_time() - start)
        write(key, found, {"seed": SEED, "versions": versions, "processor seconds": seconds})
        print(key)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Slow, obvious twins of the library's distributions, and exact ranks to draw logs of.

The library is tested without its laboratory: nothing here imports it. The twins and the ranks are
single files of the laboratory that need nothing else of it.
"""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import log2
from pathlib import Path

import numpy as np
import pandas as pd

from sampled_metrics import metric
from sampled_metrics.ranking.intervals import RankIntervals

LABORATORY = Path(__file__).parents[1] / "src/sampled_book"
RANKS = LABORATORY / "data/ranks.npz"
_TWINS = runpy.run_path(str(LABORATORY / "reference/enumeration.py"))
DIGITS, digits_pmf = _TWINS["DIGITS"], _TWINS["digits_pmf"]
every_sample, exact_pmf = _TWINS["every_sample"], _TWINS["exact_pmf"]


@cache
def slow(name: str, ranks: tuple[int, ...], length: int) -> Fraction:
    """krichene2020, eqs 2-6, from the list itself: places of the relevant items, and its length."""
    kind, _, cutoff = name.partition("@")
    total = len(ranks)
    k = int(cutoff) if cutoff else length
    hits = [place in ranks for place in range(1, length + 1)][:k]
    hits_so_far = [sum(hits[:i]) for i in range(1, len(hits) + 1)]
    first = next((i for i, hit in enumerate(hits, start=1) if hit), None)
    if kind == "precision":
        return Fraction(sum(hits), k)
    if kind == "recall":
        return Fraction(sum(hits), total)
    if kind == "hit":
        return Fraction(sum(hits) > 0)
    if kind == "accuracy":
        return Fraction(1 in ranks)
    if kind == "rr":
        return Fraction(1, first) if first else Fraction(0)
    if kind == "ap":
        parts = [Fraction(hits_so_far[i], i + 1) for i, hit in enumerate(hits) if hit]
        return sum(parts, Fraction(0)) / min(total, k)
    if kind == "ndcg":
        gain = [Fraction(1 / log2(i + 1)) for i in range(1, length + 1)]
        dcg = sum((g for g, hit in zip(gain, hits, strict=False) if hit), Fraction(0))
        return dcg / sum(gain[: min(total, k)])
    assert kind == "auc"
    pairs = [(r, d) for r in ranks for d in range(1, length + 1) if d not in ranks]
    return Fraction(sum(r < d for r, d in pairs), len(pairs))


def bundled_ranks() -> dict[str, RankIntervals]:
    """Exact ranks of X, Y and Z on MovieLens 1M, from the laboratory's file."""
    with np.load(RANKS) as file:
        rows = {tuple(name): row for row, name in enumerate(file["names"].tolist())}
        columns = [file[name] for name in ("n_better", "n_tied", "n_candidates")]
    return {
        name: RankIntervals(*(column[rows[name, "as reproduced"]] for column in columns))
        for name in "XYZ"
    }


def plug_in(mass, metric_or_name, n_items: int, position: int = 1, n_relevant: int = 1) -> float:
    """The metric of a population: `mass` has the share of the users at each rank.

    With several relevant items it is what the item at a position adds, its rank being that among
    the irrelevant items.
    """
    terms = (
        share
        * float(metric(metric_or_name).term(rank + position - 1, position, n_relevant, n_items))
        for rank, share in mass.items()
    )
    return sum(terms)


def draw_log(
    ranks: Mapping[str, RankIntervals], n_negatives: int, rng: np.random.Generator
) -> pd.DataFrame:
    """The log of one sampled evaluation of known ranks, drawn without replacement."""
    parts = []
    for name, intervals in ranks.items():
        n_worse = intervals.n_candidates - 1 - intervals.n_better - intervals.n_tied
        counts = np.column_stack([intervals.n_better, intervals.n_tied, n_worse])
        drawn = np.array([rng.multivariate_hypergeometric(row, n_negatives) for row in counts])
        columns = {
            "n_better": drawn[:, 0],
            "n_tied": drawn[:, 1],
            "n_items": intervals.n_candidates,
        }
        parts.append(pd.DataFrame({"recommender": name, "user": np.arange(len(drawn)), **columns}))
    return pd.concat(parts, ignore_index=True).assign(n_negatives=n_negatives)


def write_log(ranks: Mapping[str, RankIntervals], n_negatives: int, folder: Path) -> None:
    """Write a drawn log in the form of the one that comes with the library."""
    rows = draw_log(ranks, n_negatives, np.random.default_rng(1))
    table = {
        name: rows[name].to_numpy(np.uint16).reshape(len(ranks), -1)
        for name in ("n_better", "n_tied", "n_items")
    }
    table["n_items"] = table["n_items"][0]
    np.savez_compressed(folder / "log.npz", names=np.array(list(ranks)), seed=1, **table)

"""Users drawn in proportion to what they can add, and ranked in full: how wide is the interval?

``python -m sampled_book.experiments.anchors`` writes what :func:`bundled` reads. The ranks, and how
many of 100 items chosen by item cosine are above, are those of :mod:`~.chosen` on ten data sets of
the benchmark. The intervals are for the mean over the data set's users; only anchors are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_metrics._validate import FloatArray
from sampled_metrics.bounds.anchors import Anchors, draw

from . import chosen
from .chosen import BUNDLE, N_CHOSEN, counts

FILE = BUNDLE / "anchors.csv"
#: Scores computed, as shares of all; draws of anchors; error rate of an interval.
SHARES, DRAWS, ERROR_RATE = (0.02, 0.05, 0.1, 0.2), 400, 0.05
METRICS = ("ndcg@10", "rr", "recall@10")


def names() -> list[str]:
    """The data sets with their recommender, for which item cosine chose items."""
    return sorted(path.stem for path in BUNDLE.glob("*_item-cosine.npz"))


def lazy_share(name: str, k: int = 10) -> float:
    """The share of all scores that exact metrics at k take: candidates, then all where needed."""
    found = counts(name)
    n, is_open = found["n_items"], found[f"better/{N_CHOSEN}"] < k
    first = found[f"n_chosen/{N_CHOSEN}"] + 1
    return float(np.where(is_open, n, first).sum() / n.sum())


def drawn(
    values: FloatArray,
    bounds: FloatArray,
    sizes: FloatArray,
    n_anchors: int,
    rng: np.random.Generator,
) -> tuple[float, float, bool, int]:
    """Estimate, width of the interval, whether it holds the mean, and how many were drawn."""
    order = draw(sizes, n_anchors, rng)
    anchors = Anchors.of(values[order], bounds[np.newaxis], sizes, order)
    low, high = anchors.interval(ERROR_RATE)
    holds = low - 1e-12 <= float(values.mean()) <= high + 1e-12
    return anchors.estimate, high - low, holds, order.size


def widths(name: str, share: float, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """Mean width and coverage over draws, by way: anchors, or fewer users with as many scores.

    *together*: anchors drawn by the largest of all metrics. Empty where the share is less than the
    chosen items.
    """
    found = counts(name)
    bound = found[f"better/{N_CHOSEN}"] + 1
    users, per_item = bound.size, (N_CHOSEN + 1) / found["n_items"].mean()
    n_anchors, n_whole = int(users * (share - per_item)), int(users * share)
    if n_anchors < 2:
        return pd.DataFrame()
    largest = {each: sm.metric(each)(bound) for each in metrics}
    together = np.maximum.reduce([*largest.values()])
    rng, rows = np.random.default_rng(1), []
    for each in metrics:
        values = sm.metric(each)(found["rank"])
        ways = {
            "anchors": (largest[each], largest[each], n_anchors),
            "together": (largest[each], together, n_anchors),
            "fewer users": (np.ones(users), np.ones(users), n_whole),
        }
        for way, (bounds, sizes, n_users) in ways.items():
            draws = pd.DataFrame(
                [drawn(values, bounds, sizes, n_users, rng) for _ in range(DRAWS)],
                columns=["estimate", "width", "holds", "drawn"],
            )
            errors = draws["estimate"] - values.mean()
            means = values.mean(), draws["width"].mean(), draws["holds"].mean()
            error, drawn_most = np.sqrt((errors**2).mean()), draws["drawn"].max()
            rows.append((name, share, way, each, *means, error, drawn_most, lazy_share(name)))
    columns = ["name", "share", "way", "metric", "exact", "width", "covered", "error", "drawn"]
    return pd.DataFrame(rows, columns=[*columns, "lazy"])


def bundled() -> pd.DataFrame:
    """The table that was computed before."""
    return pd.read_csv(FILE)


def curves(sets: Sequence[str], metric: str) -> pd.DataFrame:
    """Widths at each share of the scores by way, of the data sets whose names begin so.

    Ways: those of :func:`widths`, and *chosen* and *uniform* of :mod:`~.chosen`. Columns: set,
    share, way, width and lazy.
    """
    others = chosen.bundled().query("way in ['chosen', 'uniform']")
    others = others.assign(width=others["high"] - others["low"])
    table = pd.concat([bundled(), others]).query("metric == @metric")
    table["set"] = table["name"].str.rpartition("_")[0].str.rpartition("_")[0]
    table["lazy"] = table.groupby("name")["lazy"].transform("max")
    return table.loc[table["set"].isin(sets), ["set", "share", "way", "width", "lazy"]]


def ratios(table: pd.DataFrame, share: float = 0.05) -> pd.DataFrame:
    """The width of anchors as a multiple of that of fewer users, by data set and metric."""
    rows = table[table["share"] == share]
    wide = rows.pivot(index="name", columns=["way", "metric"], values="width")
    ways = ("anchors", "together")
    return pd.concat({way: wide[way] / wide["fewer users"] for way in ways}, axis=1)


def main() -> None:
    """Compute the table of all data sets and write it."""
    parts = [widths(name, share) for name in names() for share in SHARES]
    pd.concat([part for part in parts if len(part)]).round(5).to_csv(FILE, index=False)


if __name__ == "__main__":
    main()

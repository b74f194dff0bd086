"""How wide 95% intervals are for users with several held-out items, and with one of them.

    python benchmarks/several.py [--data ml-100k] [--seed 1]

The recommenders are those of the bundled study: five held-out items for each user, of which all are
ranked among the same 100 negatives, drawn with replacement. The second log keeps one of each user's
items, chosen at random; its metric is another one, of one relevant item. Ranges of several
items assume nothing of the ranks. Those of one item assume that deeper ranks have fewer users,
unless the log contradicts it. Column *held* says whether the range has the exact metric of the
log's users; for one item, of the item kept.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_book.data import study

METRICS, NEGATIVES = ["recall@10", "ndcg@10"], 100


def measured(data: str, seed: int) -> pd.DataFrame:
    """Both ranges and exact values for each recommender and metric."""
    found, rng = [], np.random.default_rng(seed)
    for name, sets in study.bundled_study(data).sets.items():
        above = sets.n_better + rng.integers(0, sets.n_tied + 1)
        users, items = above.shape
        # One catalogue size for all users, as the assumption is about the users of one size.
        others = round(float(sets.n_irrelevant.mean()))
        above = np.rint(others * above / sets.n_irrelevant[:, np.newaxis]).astype(int)
        draws = rng.integers(others, size=(users, 1, NEGATIVES))
        better = (draws < above[..., np.newaxis]).sum(axis=2)
        kept = np.arange(items) == rng.integers(items, size=(users, 1))
        for label, part in (("all", np.full_like(kept, True)), ("one", kept)):
            user, item = np.nonzero(part)
            rows = pd.DataFrame({"user": user, "item": item, "n_better": better[part], "n_tied": 0})
            n_items = others + int(part[0].sum())
            log = sm.read_log(rows, n_items=n_items, n_negatives=NEGATIVES, replacement=True)
            for row in sm.estimate(log, METRICS).frame.to_dict("records"):
                metric = sm.metric(row["metric"])
                one = metric(above[part] + 1, n_items) if label == "one" else None
                exact = float((sets.evaluate(metric) if one is None else one).mean())
                low, high = row["possible_low"], row["possible_high"]
                held = low - 1e-9 <= exact <= high + 1e-9
                found.append((name, label, metric.name, row["assumption"], low, high, exact, held))
    columns = ["recommender", "items", "metric", "assumption", "low", "high", "exact", "held"]
    return pd.DataFrame(found, columns=columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="ml-100k", help="a data set of the study")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(measured(given.data, given.seed).to_string(index=False, float_format="{:.4f}".format))


if __name__ == "__main__":
    main()

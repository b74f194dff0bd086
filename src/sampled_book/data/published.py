"""Tables that were printed twice: among sampled negatives, and among all items.

The numbers are in ``data/published``, whose README names the sources. S3-Rec's repository
(zhou2020) shows ten methods on six data sets both ways.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

import sampled_metrics as sm
from sampled_metrics import metric
from sampled_metrics._confidence import CONFIDENCE

DATA = Path(__file__).parent / "published"
#: The metrics that both halves of S3-Rec's tables have.
BOTH = ("HR@5", "NDCG@5", "HR@10", "NDCG@10")
#: Interactions in the data files of S3-Rec's repository; Meituan's are not public.
INTERACTIONS = {"Beauty": 198_502, "Sports": 296_337, "Toys": 167_597, "Yelp": 316_354,
                "LastFM": 52_551}  # fmt: skip
#: The authors' own method.
OURS = "S3Rec"


def cells(name: str = "s3rec") -> pd.DataFrame:
    """The printed numbers of a file, as text, a row each."""
    return pd.read_csv(DATA / f"{name}.csv", dtype=str, keep_default_na=False)


def pairs_of_halves(name: str = "s3rec") -> pd.DataFrame:
    """Numbers published in both halves: dataset, metric, method, sampled and all.

    >>> pairs_of_halves().shape
    (240, 5)
    """
    wide = cells(name).pivot(index=["dataset", "metric", "method"], columns="protocol",
                             values="value").dropna().reset_index()  # fmt: skip
    wide.columns.name = None
    return wide.astype({"sampled": float, "all": float})[
        ["dataset", "metric", "method", "sampled", "all"]
    ]


def orders() -> pd.DataFrame:
    """Differences of each two methods of S3-Rec in both halves, by data set and metric, and whether
    their orders are reversed.
    """
    rows = []
    for (dataset, metric_name), halves in pairs_of_halves().groupby(
        ["dataset", "metric"], sort=False
    ):
        method_rows = halves[["method", "sampled", "all"]].itertuples(index=False, name=None)
        for (first, sampled_a, exact_a), (second, sampled_b, exact_b) in combinations(
            method_rows, 2
        ):
            gaps = sampled_a - sampled_b, exact_a - exact_b
            rows.append((dataset, metric_name, first, second, *gaps, gaps[0] * gaps[1] < 0))
    columns = ["dataset", "metric", "first", "second", "sampled", "all", "reversed"]
    return pd.DataFrame(rows, columns=columns)


def settings(dataset: str) -> dict[str, Any]:
    """n_items, n_negatives and users of a data set of S3-Rec. A user's own items are not
    candidates, so their mean number is subtracted from the catalogue.
    """
    row = cells().query("dataset == @dataset").iloc[0]
    users = int(row["n_users"])
    items_per_user = round(INTERACTIONS[dataset] / users)
    return {
        "n_items": int(row["n_catalogue"]) - items_per_user + 1,
        "n_negatives": 99,
        "users": users,
    }


def as_published(dataset: str) -> pd.DataFrame:
    """The sampled half of S3-Rec's table of a data set, of the methods that are in both halves, as
    :func:`sampled_metrics.published` takes it.
    """
    rows = cells().query("dataset == @dataset")
    methods = rows.loc[rows["protocol"] == "all", "method"].unique()
    wide = rows[(rows["protocol"] == "sampled") & rows["method"].isin(methods)].pivot(
        index="method", columns="metric", values="value"
    )
    wide.columns.name = None
    return wide.loc[methods].reset_index()


def bounds(confidence: float = CONFIDENCE, **options: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Bounds and orders from the sampled halves of S3-Rec's tables, with a column for the exact
    half; options are those of :func:`sampled_metrics.published`. Meituan is
    left out: neither its users nor its items are published.
    """
    frames, order_frames = [], []
    for dataset in INTERACTIONS:
        table = sm.published(as_published(dataset).assign(dataset=dataset), **settings(dataset),
                             replacement=False, metrics=BOTH, confidence=confidence,
                             **options)  # fmt: skip
        frames.append(table.frame)
        order_frames.append(table.orders)
    frame = pd.concat(frames, ignore_index=True)
    halves = pairs_of_halves()
    halves["metric"] = halves["metric"].map(lambda name: metric(name).name)
    exact = halves.rename(columns={"all": "exact"}).drop(columns="sampled")
    with_exact = frame.merge(exact, on=["dataset", "method", "metric"])
    return with_exact, pd.concat(order_frames, ignore_index=True)

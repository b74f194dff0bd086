"""Tables and text values of the chapter on every correction, from the bundled evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy.stats import beta

from sampled_metrics import metric
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark
from ..display.tables import Frame, Texts, spelled
from ..experiments import evidence

Ranks = Mapping[str, Mapping[str, RankIntervals]]  # by data set and recommender
Facts = Mapping[str, Mapping[str, Any]]  # by data set, as from `benchmark.facts`

#: Processor seconds of a batch of 128 users in SASRec, as measured on one core.
BATCH = 0.16
KEYS = ["data", "metric", "m"]


def _recall(found: Mapping[str, RankIntervals]) -> dict[str, float]:
    """Exact Recall@10 of each recommender."""
    return {who: float(each.evaluate("recall@10").mean()) for who, each in found.items()}


def data_table(ranks: Ranks, facts: Facts) -> Frame:
    """The data sets: users, items, recommenders, Recall@10 and processor seconds.

    >>> ranks = {"ml-100k": benchmark.ranks("ml-100k")}
    >>> data_table(ranks, {name: benchmark.facts(name) for name in ranks})["Methods"].tolist()
    [12]
    """
    rows = []
    for name, found in ranks.items():
        values, texts = _recall(found), facts[name]
        best = max(values, key=lambda who: values[who])
        seconds = sum(
            sum(each["processor seconds"].values()) for each in texts["recommenders"].values()
        )
        sizes = texts["users"], texts["items"], len(found)
        rows.append((name, *sizes, values["Popular"], best, values[best], seconds))
    columns = ["Data", "Users $N$", "Items", "Methods", "Popular", "Best", "Recall@10", "Seconds"]
    return pd.DataFrame(rows, columns=columns)


def published_table(ranks: Ranks) -> Frame:
    """Recall@10 as published elsewhere, and here.

    >>> ranks = {name: benchmark.ranks(name) for name in benchmark.REPORTED}
    >>> published_table(ranks).columns.tolist()[2:5]
    ['Popular', 'Item cosine', 'EASE']
    """
    rows, shown = [], ("Popular", "Item cosine", "EASE")
    for name, printed in benchmark.REPORTED.items():
        found = _recall(ranks[name])
        best = max(found, key=lambda who: found[who])
        texts = "; ".join(
            f"{', '.join(f'{who} {value}' for who, value in values.items())} {{cite:p}}`{source}`"
            for source, values in printed.items()
        )
        rows.append((name, texts, *(found[who] for who in shown), best, found[best]))
    return pd.DataFrame(rows, columns=["Data", "Printed", *shown, "Best here", "Its value"])


def orders_table(orders: Frame) -> Frame:
    """How many pairs are ordered wrongly in expectation, over all data sets, without replacement.

    >>> rows = {"metric": ["auc"] * 2, "m": [20] * 2, "replacement": [False] * 2}
    >>> orders_table(pd.DataFrame(rows | {"reversed": [0, 1], "pairs": [3, 4]})).iloc[0].tolist()
    ['AUC', '1 of 7']
    """
    total = _reversed(orders)
    spelled = (total["reversed"].astype(str) + " of " + total["pairs"].astype(str)).unstack("m")
    spelled.index = [metric(of).label for of in spelled.index]
    table = spelled.rename_axis("Metric").reset_index()
    table.columns = ["Metric", *(f"m = {m}" for m in spelled.columns)]
    return table


def _reversed(orders: Frame) -> Frame:
    without = orders[~orders["replacement"]]
    return without.groupby(["metric", "m"], sort=False)[["reversed", "pairs"]].sum()


def fitted_table(drawn: Frame) -> Frame:
    """Errors and interval coverage of the corrections that are fitted to a log.

    >>> row = {"data": ["a"], "metric": ["recall@10"], "m": [20], "estimator": ["x"]}
    >>> ends = {"exact": [0.2], "value": [0.3], "low": [0.1], "high": [0.4]}
    >>> fitted_table(pd.DataFrame(row | ends)).round(3).to_dict("list")
    {'Correction': ['x'], 'RMSE, m = 20': [0.5], 'covers, m = 20': [1.0]}
    """
    held = drawn["exact"].between(drawn["low"], drawn["high"]).where(drawn["low"].notna())
    level = drawn.groupby(KEYS)["exact"].transform("mean")
    squares = ((drawn["value"] - drawn["exact"]) / level) ** 2
    each = drawn.assign(squares=squares, held=held.astype(float))
    recall = each[each["metric"] == "recall@10"]
    means = recall.groupby(["estimator", "m"])[["squares", "held"]].mean()
    means["squares"] **= 0.5
    table = means.unstack("m")
    table.columns = [
        f"{'RMSE' if what == 'squares' else 'covers'}, m = {m}" for what, m in table.columns
    ]
    return table.rename_axis("Correction").reset_index()


def errors_texts(summary: Frame, orders: Frame, ranks: Ranks, facts: Facts) -> Texts:
    """What the text says of errors, coverage and orders."""
    one = summary[~summary["replacement"]]
    biased = one[one["metric"] != "auc"]
    best = biased.loc[biased.groupby(KEYS)["rmse"].idxmin()]
    texts: Texts = {
        "all-cells": len(best),
        "all-cells-fitted": int((best["estimator"] == evidence.FITTED_PRIOR).sum()),
        "all-recommenders": sum(map(len, ranks.values())),
    }
    hundred = one[(one["m"] == 100) & (one["metric"] == "recall@10")]
    ways = {"naive": "naive", "fitted": evidence.FITTED_PRIOR, "monotone": "monotone"}
    for short, way in (ways | {"bv": "bias-variance"}).items():
        part = hundred[hundred["estimator"] == way]
        for column in ("wrong", "said_right", "said_wrong", "covered"):
            texts[f"all-{column}-{short}"] = f"{100 * part[column].mean():.0f}%"
        texts[f"all-covered-{short}-low"] = f"{100 * part['covered'].min():.0f}%"
        texts[f"all-share-{short}-low"] = f"{100 * part['share'].min():.0f}%"
        texts[f"all-share-{short}-high"] = f"{100 * part['share'].max():.0f}%"
    both = orders.pivot(index=KEYS, columns="replacement", values="wrong")
    texts["all-replacement"] = f"{100 * (both[True] - both[False]).abs().max():.1f}"
    batches = sum(-(-facts[name]["users"] // 128) for name in ranks if facts[name]["in order"])
    texts["all-batch"] = f"{BATCH:g}"
    texts["all-sasrec"] = f"{batches * 200 * BATCH / 3600:.0f}"
    recall = _reversed(orders).loc[("recall@10", 100)]
    return texts | {
        "all-reversed": int(recall["reversed"]),
        "all-pairs": int(recall["pairs"]),
    }


def verdicts_texts(verdicts: Frame, possible: Frame, ranks: Ranks) -> Texts:
    """What the text says of verdicts, of ranges, and of recommenders that rise with the rank."""
    said = verdicts[verdicts["right"].notna()]
    wrong = int((~said["right"].astype(bool)).sum())
    found = pd.concat(
        [evidence.shapes(each, 100).assign(data=name) for name, each in ranks.items()]
    )
    hundred = found[found["recommender"] != evidence.FLOOR]
    rising = hundred[hundred["rise"] > 2]
    names = [f"{row.recommender} on {row.data}" for row in rising.itertuples()]
    within = possible["exact"].between(possible["low"] - 1e-9, possible["high"] + 1e-9)
    held = {
        f"all-held-{short}": f"{int(within[kind].sum())} of {int(kind.sum())}"
        for short, what in (("nothing", "nothing"), ("shape", "decreasing"))
        for kind in [possible["assumed"] == what]
    }
    upper = float(beta.ppf(0.95, wrong + 1, len(said) - wrong))
    return {
        "all-said": f"{len(said):,}",
        "all-logs": int(verdicts["draw"].max()) + 1,
        "all-said-wrong": wrong,
        "all-judged": f"{len(verdicts):,}",
        "all-wrong-upper": spelled((upper, ".1%", "up")),
        "all-shapes": len(hundred),
        "all-rising": len(rising),
        "all-rising-names": "; ".join(names) or "none",
        "all-steepest": f"{hundred['steepest'].max():.1f}",
        **held,
    }

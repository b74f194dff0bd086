"""Tables and text values of the chapter on every correction, from the bundled evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy.stats import beta

from sampled_metrics import metric
from sampled_metrics._confidence import CONFIDENCE
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark
from ..display.tables import Frame, Texts, spelled
from ..experiments import evidence

Ranks = Mapping[str, Mapping[str, RankIntervals]]  # by data set and recommender
Facts = Mapping[str, Mapping[str, Any]]  # by data set, as from `benchmark.facts`

#: Processor seconds of a batch of 128 users in SASRec, as measured on one core.
BATCH = 0.16
KEYS = ["data", "metric", "m"]


def _recall(by_recommender: Mapping[str, RankIntervals]) -> dict[str, float]:
    """Exact Recall@10 of each recommender."""
    return {name: float(r.evaluate("recall@10").mean()) for name, r in by_recommender.items()}


def data_table(ranks: Ranks, facts: Facts) -> Frame:
    """The data sets: users, items, recommenders, Recall@10 and processor seconds.

    >>> ranks = {"ml-100k": benchmark.ranks("ml-100k")}
    >>> data_table(ranks, {name: benchmark.facts(name) for name in ranks})["Methods"].tolist()
    [12]
    """
    rows = []
    for name, by_recommender in ranks.items():
        values, data_facts = _recall(by_recommender), facts[name]
        best = max(values, key=lambda recommender: values[recommender])
        seconds = sum(
            sum(recommender_facts["processor seconds"].values())
            for recommender_facts in data_facts["recommenders"].values()
        )
        sizes = data_facts["users"], data_facts["items"], len(by_recommender)
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
    for name, published_by_source in benchmark.REPORTED.items():
        recalls = _recall(ranks[name])
        best = max(recalls, key=lambda key: recalls[key])
        published_text = "; ".join(
            f"{', '.join(f'{key} {value}' for key, value in values.items())} {{cite:p}}`{source}`"
            for source, values in published_by_source.items()
        )
        rows.append((name, published_text, *(recalls[key] for key in shown), best, recalls[best]))
    return pd.DataFrame(rows, columns=["Data", "Printed", *shown, "Best here", "Its value"])


def orders_table(orders: Frame) -> Frame:
    """How many pairs are ordered wrongly in expectation, over all data sets, without replacement.

    >>> rows = {"metric": ["auc"] * 2, "m": [20] * 2, "replacement": [False] * 2}
    >>> orders_table(pd.DataFrame(rows | {"reversed": [0, 1], "pairs": [3, 4]})).iloc[0].tolist()
    ['AUC', '1 of 7']
    """
    total = _reversed(orders)
    spelled = (total["reversed"].astype(str) + " of " + total["pairs"].astype(str)).unstack("m")
    spelled.index = [metric(metric_name).label for metric_name in spelled.index]
    table = spelled.rename_axis("Metric").reset_index()
    table.columns = ["Metric", *(f"m = {m}" for m in spelled.columns)]
    return table


def _reversed(orders: Frame) -> Frame:
    without_replacement = orders[~orders["replacement"]]
    return without_replacement.groupby(["metric", "m"], sort=False)[["reversed", "pairs"]].sum()


def errors_texts(summary: Frame, orders: Frame, ranks: Ranks, facts: Facts) -> Texts:
    """What the text says of errors, coverage and orders."""
    without_replacement = summary[~summary["replacement"]]
    biased = without_replacement[without_replacement["metric"] != "auc"]
    best = biased.loc[biased.groupby(KEYS)["rmse"].idxmin()]
    texts: Texts = {
        "all-cells": len(best),
        "all-cells-fitted": int((best["estimator"] == evidence.FITTED_PRIOR).sum()),
        "all-recommenders": sum(map(len, ranks.values())),
    }
    hundred = without_replacement[
        (without_replacement["m"] == 100) & (without_replacement["metric"] == "recall@10")
    ]
    estimator_by_key = {"naive": "naive", "fitted": evidence.FITTED_PRIOR, "monotone": "monotone"}
    for key, estimator in (estimator_by_key | {"bv": "bias-variance"}).items():
        rows = hundred[hundred["estimator"] == estimator]
        for column in ("wrong", "said_wrong", "covered"):
            texts[f"all-{column}-{key}"] = f"{100 * rows[column].mean():.0f}%"
        texts[f"all-covered-{key}-low"] = f"{100 * rows['covered'].min():.0f}%"
        texts[f"all-share-{key}-low"] = f"{100 * rows['share'].min():.0f}%"
        texts[f"all-share-{key}-high"] = f"{100 * rows['share'].max():.0f}%"
    wrong_by_replacement = orders.pivot(index=KEYS, columns="replacement", values="wrong")
    texts["all-replacement"] = (
        f"{100 * (wrong_by_replacement[True] - wrong_by_replacement[False]).abs().max():.1f}"
    )
    batches = sum(-(-facts[name]["users"] // 128) for name in ranks if facts[name]["in order"])
    texts["all-batch"] = f"{BATCH:g}"
    texts["all-sasrec"] = f"{batches * 200 * BATCH / 3600:.0f}"
    recall = _reversed(orders).loc[("recall@10", 100)]
    return texts | {"all-reversed": int(recall["reversed"]), "all-pairs": int(recall["pairs"])}


def verdicts_texts(verdicts: Frame, possible: Frame, ranks: Ranks) -> Texts:
    """What the text says of verdicts, of ranges, and of recommenders that rise with the rank."""
    decided = verdicts[verdicts["right"].notna()]
    wrong = int((~decided["right"].astype(bool)).sum())
    shapes = [evidence.shapes(part, 100).assign(data=name) for name, part in ranks.items()]
    all_shapes = pd.concat(shapes)
    recommender_shapes = all_shapes[all_shapes["recommender"] != evidence.FLOOR]
    rising = recommender_shapes[recommender_shapes["rise"] > 2]
    names = [f"{row.recommender} on {row.data}" for row in rising.itertuples()]
    is_inside = possible["exact"].between(possible["low"] - 1e-9, possible["high"] + 1e-9)
    held_texts = {
        f"all-held-{key}": f"{int(is_inside[has_assumption].sum())} of {int(has_assumption.sum())}"
        for key, assumption in (("nothing", "nothing"), ("shape", "decreasing"))
        for has_assumption in [possible["assumed"] == assumption]
    }
    upper = float(beta.ppf(CONFIDENCE, wrong + 1, len(decided) - wrong))
    return {
        "all-said": f"{len(decided):,}",
        "all-logs": int(verdicts["draw"].max()) + 1,
        "all-said-wrong": wrong,
        "all-judged": f"{len(verdicts):,}",
        "all-wrong-upper": spelled((upper, ".1%", "up")),
        "all-shapes": len(recommender_shapes),
        "all-rising": len(rising),
        "all-rising-names": "; ".join(names) or "none",
        **held_texts,
    }

"""The chapter on metrics: the value of each rank, and answers to its exercises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, metric
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Frame, Texts


def plot_worths(shapes: Iterable[Metric], ranks: Mapping[str, ArrayLike], n_items: int) -> Figure:
    """Plot each metric over all ranks, and below them where the items of each recommender are.

    >>> figure = plot_worths([metric("auc"), metric("ap")], {"A": [3, 5]}, 100)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['AUC', 'AP', 'A']
    """
    figure, ax = figures.panels(height=3.9)
    grid = np.unique(np.r_[1 : min(301, n_items + 1), np.geomspace(1, n_items, 400).astype(int)])
    places = {
        "auc": (n_items // 4, (8, 8), "left"),
        "ap": (2, (-4, -16), "right"),
        "ndcg": (30, (4, 8), "left"),
    }
    for parsed_metric in shapes:
        style = {"drawstyle": "steps-post"} if parsed_metric.k else {}
        width = 1 if parsed_metric.k else 2  # its zeros lie on those of AP
        ax.plot(grid, parsed_metric(grid, n_items), "k", lw=width, **style)
        rank, offset, alignment = places.get(
            parsed_metric.kind, ((parsed_metric.k or 0) + 1, (8, 66), "left")
        )
        height = float(parsed_metric(rank, n_items))
        ax.annotate(
            parsed_metric.label, (rank, height), offset, textcoords="offset points", ha=alignment
        )
    for depth, (name, mark) in enumerate(figures.greys(ranks).items(), 1):
        item_ranks, counts = np.unique(ranks[name], return_counts=True)
        line = np.full(item_ranks.size, -0.1 * depth)
        ax.plot(item_ranks, line, mark["marker"], color=mark["color"], ms=7)
        for rank in item_ranks[counts > 1]:
            times = f"×{counts[item_ranks == rank][0]}"
            ax.annotate(
                times, (rank, -0.1 * depth), (7, 0), textcoords="offset points", va="center"
            )
    figures.beside(ax, {name: -0.1 * i for i, name in enumerate(ranks, 1)}, color="black")
    ax.set(xscale="log", xlabel="rank of the relevant item", ylabel="value of the item")
    ax.set(ylim=(-0.4, 1.15), yticks=[0, 0.5, 1])
    return figure


def worth_texts(means: Frame, ranks: Mapping[str, Sequence[int]], n_items: int) -> Texts:
    """Text values on three recommenders and on the values of their ranks. `means` has a row for
    each recommender and a column for each metric; ranks beyond 100 are the tail. "share": the part
    of B's metric that its ranks in the tail hold.

    >>> import pandas as pd
    >>> means = pd.DataFrame({"AUC": [3, 2, 1], "AP": [0.1, 0.3, 0.2], "NDCG": [1, 3, 2]}, [*"ABC"])
    >>> texts = worth_texts(means, {"A": [10], "B": [3], "C": [5]}, 1_000)
    >>> texts["best_auc"], texts["best_others"], round(texts["step_ndcg"], 3)
    ('A', 'B', 0.369)
    """
    ap, ndcg = metric("ap"), metric("ndcg")
    tail = {
        parsed_metric.label: sum(float(parsed_metric(r)) for r in ranks["B"] if r > 100)
        / len(ranks["B"])
        for parsed_metric in (ap, ndcg)
    }
    top = means.idxmax()
    return {
        "best_auc": top["AUC"],
        "best_others": " and ".join(top.drop("AUC").unique()),
        "last": n_items,
        "step_auc": 1 / (n_items - 1),
        "step_ndcg": float(ndcg(1) - ndcg(2)),
        "ndcg_last": float(ndcg(n_items)),
        "ap_a": (means["AP"]["A"], ".6f"),
        "ap_b": (means["AP"]["B"], ".6f"),
        "hundred": (float(metric("auc")(min(100, n_items), n_items)), ".2f"),
        "share_ap": (tail["AP"] / means["AP"]["B"], ".1%"),
        "share_ndcg": (tail["NDCG"] / means["NDCG"]["B"], ".0%"),
    }


def film_texts(intervals: Mapping[str, RankIntervals]) -> Texts:
    """Text values on X, Y and Z: Recall@10, NDCG and AUC; the lead of Z in Recall@10 and of X in
    NDCG, with their standard errors over users, in percentage points; and the first cut-off k at
    which X has the higher Recall@k than Z.

    >>> even, uneven = (RankIntervals(above, [0, 0], [99, 99]) for above in ([5, 20], [0, 30]))
    >>> film_texts({"X": even, "Z": uneven})["passes"]
    21
    """
    users = next(iter(intervals.values())).n_candidates
    texts: Texts = {"users": users.size, "films": (float(users.mean()), ",.0f")}
    for name, recommender in intervals.items():
        for parsed_metric in map(metric, ("recall@10", "ndcg", "auc")):
            value = float(recommender.evaluate(parsed_metric).mean())
            form = ".2%" if parsed_metric.kind == "ndcg" else ".1%"
            texts[f"{name.lower()}_{parsed_metric.kind}"] = (value, form)
    for kind, first, second, form in (("ndcg", "X", "Z", ".2f"), ("recall@10", "Z", "X", ".1f")):
        gap = intervals[first].evaluate(kind) - intervals[second].evaluate(kind)
        key = kind.split("@")[0]
        texts[f"{key}_gap"] = (100 * float(gap.mean()), form)
        texts[f"{key}_error"] = (100 * float(gap.std(ddof=1)) / gap.size**0.5, form)
    texts["passes"] = next(
        k
        for k in range(1, int(users.max()) + 1)
        if intervals["X"].evaluate(f"recall@{k}").mean()
        > intervals["Z"].evaluate(f"recall@{k}").mean()
    )
    return texts


def worth_exercises(n_items: int) -> Texts:
    """Answers to the exercises on metrics. "half": the first rank worth at most a half; "steady":
    the first x at which items at 1 and x are worth less than at 3 and 4, or 0.

    >>> texts = worth_exercises(1_000)
    >>> texts["half_ap"], texts["half_recall"], texts["steady_recall"]
    (2, 11, 11)
    """
    metrics_by_name = {name: metric(name) for name in ("auc", "ap", "ndcg", "recall@10")}
    texts: Texts = {}
    for name, m in metrics_by_name.items():
        texts[f"half_{m.kind}"] = int(np.argmax(m.vector(n_items) <= 0.5)) + 1
        value, later_ranks = m.of_set([3, 4], n_items), range(5, n_items + 1)
        if m.of_set([1, n_items], n_items) < value:  # else never: the worth falls with the rank
            worse_ranks = (x for x in later_ranks if m.of_set([1, x], n_items) < value - 1e-12)
            texts[f"steady_{name.split('@')[0]}"] = next(worse_ranks)
    return texts

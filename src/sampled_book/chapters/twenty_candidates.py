"""Figures, tables and counts of the chapter on twenty candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from ..display import figures
from ..display.tables import Frame, Texts


def plot_first(
    first: NDArray[np.float64],
    k: int,
    n_candidates: int,
    exact: Mapping[str, float],
    reported: Mapping[str, float],
) -> Figure:
    r"""Plot how often an item comes first, by its true rank (n,), and the orders of recommenders by
    exact Recall@k and by the reported share of users whose item comes first.

    >>> shares = {"A": 0.1, "B": 0.2}, {"A": 0.4, "B": 0.3}
    >>> figure = plot_first(np.linspace(1, 0, 100), 10, 20, *shares)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['Recall@10', 'Recall@5', 'first\namong 20']
    """
    ranks, deep = np.arange(1, first.size + 1), round(first.size / n_candidates)
    figure, (left_ax, right_ax) = figures.panels(1, 2, height=3.6)
    left_ax.plot(ranks, first, color=figures.marks(["uncorrected"])["uncorrected"]["color"])
    for depth, style, height in ((k, "-", 0.06), (deep, ":", 0.9)):
        left_ax.plot(ranks, ranks <= depth, style, color="black", drawstyle="steps-post")
        left_ax.annotate(f"Recall@{depth}", (depth * 1.2, height), fontsize=10)
    left_ax.annotate(f"first\namong {n_candidates}", (1.2 * k, 0.36), fontsize=10)
    left_ax.set(xscale="log", xlabel="true rank", ylabel="probability of a hit")
    figures.slopes(right_ax, {f"Recall@{k}": exact, f"first among {n_candidates}": reported})
    return figure


def first_texts(exact: Mapping[str, float], reported: Mapping[str, float]) -> Texts:
    """Which recommender most often comes first, and its place by the exact metric.

    >>> first_texts({"A": 0.1, "B": 0.2}, {"A": 0.4, "B": 0.3})
    {'twenty_several': 'two', 'twenty_best': 'A', 'twenty_best_place': 'last'}
    """
    by_exact, by_first = (sorted(values, key=lambda k: -values[k]) for values in (exact, reported))
    place, size = by_exact.index(by_first[0]) + 1, len(by_exact)
    return {
        "twenty_several": {2: "two", 3: "three"}.get(size, str(size)),
        "twenty_best": by_first[0],
        "twenty_best_place": {1: "first as well", size: "last"}.get(place, f"number {place}"),
    }


def audit_table(lists: Mapping[str, Any], names: Mapping[str, str]) -> Frame:
    """Properties of lists of candidates: how many differ, repeated items, users' own films."""
    rows = {
        "different lists": "lists",
        "different films in them": "distinct",
        "films twice in a list": "repeated",
        "own films in the first 19, users": "users with own",
    }
    columns = {}
    for name, label in names.items():
        counts, p_value = lists[name], lists[name]["audit"]["items"]
        columns[label] = [
            *(f"{counts[key]:,}" for key in rows.values()),
            f"{counts['own'] / counts['users']:.2f}",
            f"{sum(counts['positions, single'][:20]):,}",
            f"{p_value:.2f}" if p_value > 0.001 else "< 0.001",
        ]
    last_labels = ["own films in the first 19, mean"]
    last_labels.append(f"test item in the first 20, of {lists['single']:,} users")
    last_labels.append("uniform over all films, p-value")
    return pd.DataFrame({"": [*rows, *last_labels], **columns})


def audit_texts(lists: Mapping[str, Any]) -> Texts:
    """What the text says of the three kinds of lists, beside their table."""
    random, popular, sasrec = lists["random"], lists["pop"], lists["sasrec"]
    users = random["users"]
    return {
        "twenty_single": lists["single"],
        "twenty_own": (random["own"] / users, ".2f"),
        "twenty_own_expected": (19 * lists["own"] / users / lists["items"], ".2f"),
        "twenty_own_users": random["users with own"],
        "twenty_users": users,
        "twenty_items": lists["items"],
        "twenty_popular": popular["popular"],
        "twenty_deepest": popular["deepest"],
        "twenty_pop_own": (popular["own"] / popular["users"], ".1f"),
        "twenty_sas_own": (sasrec["own"] / popular["users"], ".1f"),
    }


def plot_cost(costs: Frame) -> Figure:
    """Plot how often the verdict is right by the candidates of each user, at equal cost
    (:func:`~sampled_book.experiments.candidates.at_equal_cost`); the last row is exact.
    """
    by_size = costs[costs["estimator"] != "exact"].pivot(
        index="n_negatives", columns="estimator", values="probability"
    )
    exact_row, n_read = costs.iloc[-1], by_size.index.to_numpy() + 1
    figure, ax = figures.panels()
    ax.axhline(exact_row["probability"], color="black", linewidth=2.2)
    lines = {"reported": by_size["naive"], "corrected": by_size["bias-variance"]}
    figures.curves(ax, n_read, lines)
    ax.annotate(
        f"exact, {exact_row['n_users']} users", (n_read[0], exact_row["probability"] + 0.03)
    )
    ax.annotate("reported", (n_read[-3], by_size["naive"].iloc[-3] + 0.05))
    ax.annotate("corrected", (1.4 * n_read[2], by_size["bias-variance"].iloc[2]))
    ax.set(xscale="log", ylim=(-0.03, 1), xlabel="candidates of each user, at equal cost")
    ax.set_ylabel("share of right verdicts")
    return figure


def cost_texts(costs: Frame, sizes: Sequence[int]) -> Texts:
    """What the text says of few, of many and of all candidates at equal cost."""
    small_size, large_size = (min(sizes, key=lambda size: abs(size - of)) for of in (19, 99))
    of = costs.set_index(["estimator", "n_negatives"])
    naive, corrected, exact_row = (
        of.loc["naive"].loc[small_size],
        of.loc["bias-variance"],
        costs.iloc[-1],
    )
    best = corrected["probability"].idxmax()
    return {
        "twenty_exact_gap": (float(exact_row["expected"]), "+.4f"),
        "twenty_few": small_size + 1,
        "twenty_few_users": int(naive["n_users"]),
        "twenty_few_gap": (float(naive["expected"]), "+.3f"),
        "twenty_few_sd": (float(naive["sd"]), ".4f"),
        "twenty_few_right": (float(naive["probability"]), ".0%"),
        "twenty_few_corrected": (float(corrected["probability"][small_size]), ".0%"),
        "twenty_many": large_size + 1,
        "twenty_many_corrected": (float(corrected["probability"][large_size]), ".0%"),
        "twenty_best_size": int(best) + 1,
        "twenty_best_right": (float(corrected["probability"].max()), ".0%"),
        "twenty_whole_users": int(exact_row["n_users"]),
        "twenty_whole_right": (float(exact_row["probability"]), ".0%"),
    }


def cheapest_for_auc(ranks: ArrayLike, n_items: int) -> int:
    """Negatives of each user with which AUC has the least variance for a given number of candidates
    read.

    >>> cheapest_for_auc([1, 50, 100], 101)
    1
    """
    p = (np.asarray(ranks) - 1) / (n_items - 1)
    noise = float(np.mean(p * (1 - p)))
    return min(range(1, 100), key=lambda m: float((p.var() + noise / m) * (m + 1)))

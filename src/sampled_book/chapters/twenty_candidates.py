"""The figure and text values of the chapter on twenty candidates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..display import figures
from ..display.tables import Texts


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
    ['Recall@10', 'Recall@5', 'Hit@1\namong\n20']
    """
    ranks, deep = np.arange(1, first.size + 1), round(first.size / n_candidates)
    figure, (left_ax, right_ax) = figures.panels(1, 2, height=3.6)
    left_ax.plot(ranks, first, color="black", linewidth=2.2)
    for depth, style, height in ((k, "--", 0.06), (deep, ":", 0.9)):
        left_ax.plot(ranks, ranks <= depth, style, color="#5b5b5b", drawstyle="steps-post")
        left_ax.annotate(f"Recall@{depth}", (depth * 1.2, height), fontsize=10)
    place = max(round(first.size / n_candidates / 5), 1)
    left_ax.annotate(
        f"Hit@1\namong\n{n_candidates}",
        xy=(place, first[place - 1]),
        xytext=(1.3, 0.4),
        fontsize=10,
        arrowprops={"arrowstyle": "-", "color": "black", "linewidth": 1},
    )
    left_ax.set(xscale="log", xlabel="true rank", ylabel="probability of a hit")
    figures.slopes(right_ax, {f"Recall@{k}": exact, f"Hit@1 among {n_candidates}": reported})
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

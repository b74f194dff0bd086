"""Chapter 3: the distribution of the sampled rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Protocol, metric
from sampled_metrics.estimators import naive

from ..display import figures
from ..display.tables import Frame, Texts


def plot_sampled_ranks(protocol: Protocol, ranks: Iterable[int], top: int = 10) -> Figure:
    """Plot the distribution of the sampled rank at each true rank, the last the deepest: lines with
    replacement, dots without. A dotted line marks sampled rank `top`.

    >>> figure = plot_sampled_ranks(Protocol(1_000, 20), [5, 300])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['rank 5', 'rank 300']
    """
    figure, ax = figures.panels(height=3.3)
    places, deepest = np.arange(1, protocol.n_negatives + 2), 1
    shown = {f"rank {r:,}": r for r in ranks}
    with_replacement, without_replacement = (
        replace(protocol, replacement=replacement) for replacement in (True, False)
    )
    for (label, r), mark in zip(shown.items(), figures.marks(shown).values(), strict=True):
        mass, style = with_replacement.pmf(r), {"color": mark["color"]}
        ax.plot(places, mass, **style)
        ax.plot(places, without_replacement.pmf(r), ".", ms=5, **style)
        peak = int(mass.argmax())
        peak_position = (places[peak], mass[peak])
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # over the dotted line
        ax.annotate(label, peak_position, (8, 7), textcoords="offset points", bbox=box, **style)
        deepest = max(
            deepest, int(with_replacement.mean(r) + 4 * np.sqrt(with_replacement.variance(r)))
        )
    ax.axvline(top + 0.5, color="#5b5b5b", linestyle=":", linewidth=1)
    ax.set(xlabel="sampled rank", ylabel="probability", xlim=(0, deepest))
    return figure


def plot_expected(metrics: Sequence[str], n_items: int, sizes: Iterable[int], top: int) -> Figure:
    """Plot expected sampled metrics by the true rank for numbers of negatives, exact ones in black.

    >>> figure = plot_expected(["auc", "ap"], 1_000, [10, 100], 200)
    >>> [ax.get_title() for ax in figure.axes]
    ['AUC', 'AP']
    """
    ranks = np.arange(1, min(top, n_items) + 1)
    shown = np.unique(np.r_[ranks[:20], ranks[:: max(1, ranks.size // 300)]])
    protocols = {m: Protocol(n_items, m, replacement=True) for m in sizes}
    figure, axes = figures.grid(len(metrics), 2.8, sharex=True, sharey=True)
    for i, (ax, name) in enumerate(zip(axes, metrics, strict=True)):
        curves = {m: naive(name, protocol).expected(shown) for m, protocol in protocols.items()}
        figures.by_negatives(ax, shown, curves, metric(name)(shown, n_items))
        ax.set(title=metric(name).label, ylim=(-0.03, 1.05), xticks=[1, shown[-1] // 2, shown[-1]])
        ends = {str(line.get_label()): float(line.get_ydata()[-1]) for line in ax.lines}
        if metric(name).kind != "auc" and i % 2:
            figures.beside(ax, ends, x=1.03, gap=0.09, color="black", fontsize=10)
    figure.supxlabel("true rank", fontsize=12)
    return figure


def rank_texts(protocol: Protocol, rank: int) -> Texts:
    """Text values on one item and its sampled ranks.

    >>> texts = rank_texts(Protocol(10_000, 99), 60)
    >>> texts["above"], texts["list"], round(texts["mean"][0], 3)
    (59, 100, 1.584)
    """
    n, m = protocol.n_items, protocol.n_negatives
    assert isinstance(n, int)
    pmf, auc = protocol.pmf(rank), metric("auc")
    return {
        "n": n,
        "m": m,
        "rank": rank,
        "ten": 10 * rank,
        "p": (rank - 1) / (n - 1),
        "above": rank - 1,
        "others": n - 1,
        "list": m + 1,
        "first": (float(pmf[0]), ".0%"),
        "second": (float(pmf[1]), ".0%"),
        "none": (float(pmf[0]), ".3f"),
        "mean": (float(protocol.mean(rank)), ".2f"),
        "in_top": (float(protocol.cdf(10 * rank)[9]), ".0%"),
        "factor": ((n - 1 - m) / (n - 2), ".4f"),
        "too_large": float(protocol.sf(2)[1]),
        "auc_list": (float(auc(2, m + 1)), ".4f"),
        "auc_all": (float(auc(2, n)), ".4f"),
    }


def biases(ranks: Mapping[str, ArrayLike], n_items: int, sizes: Iterable[int]) -> Frame:
    """Bias of sampled Average Precision, a row for each number of negatives.

    >>> found = biases({"A": [2, 3]}, 3, [2])
    >>> found["m"].tolist(), found["A"].round(4).tolist()
    (['2'], [0.0417])
    """
    rows = []
    for m in sizes:
        estimator = naive("ap", Protocol(n_items, m, replacement=True))
        mean = {name: float(estimator.bias(r).mean()) for name, r in ranks.items()}
        rows.append({"m": f"{m:,}", **mean})
    return pd.DataFrame(rows)

"""The chapter on the sampled rank: the distribution of the sampled rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from sampled_metrics import Protocol, metric
from sampled_metrics.estimators import naive
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Texts


def plot_sampled_ranks(protocol: Protocol, ranks: Iterable[int], top: int = 10) -> Figure:
    """Plot the distribution of the sampled rank at up to three true ranks, the last the deepest, in
    black and grey: lines with replacement, dots without. A dotted line marks sampled rank `top`.

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
    greys = (("black", "-"), ("#444444", "--"), ("#777777", "-."))
    for (label, r), (colour, line) in zip(shown.items(), greys, strict=False):
        mass, style = with_replacement.pmf(r), {"color": colour}
        ax.plot(places, mass, linestyle=line, **style)
        ax.plot(places, without_replacement.pmf(r), ".", ms=5, **style)
        peak = int(mass.argmax())
        peak_position = (places[peak], mass[peak])
        offset, side = ((6, 8), "center") if places[peak] > 5 else ((8, 7), "left")  # of the axis
        ax.annotate(label, peak_position, offset, textcoords="offset points", ha=side, **style)
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
    figure.supylabel("expected metric", fontsize=12)
    return figure


def rank_texts(protocol: Protocol, rank: int, most: int) -> Texts:
    """Text values on one item and its sampled ranks, and from which rank on Recall@10 with `most`
    negatives is below 0.01.

    >>> texts = rank_texts(Protocol(10_000, 99), 60, 1_000)
    >>> texts["above"], texts["half"], round(texts["mean"][0], 3), texts["gone"]
    (59, 974, 1.584, 188)
    """
    n, m = protocol.n_items, protocol.n_negatives
    assert isinstance(n, int)
    pmf = protocol.pmf(rank)
    ranks = np.arange(1, n + 1)
    recall = naive("recall@10", protocol).expected(ranks)
    of_most = naive("recall@10", Protocol(n, most, replacement=True)).expected(ranks)
    return {
        "most": most,
        "gone": int(np.count_nonzero(of_most >= 0.01)) + 1,
        "n": n,
        "m": m,
        "rank": rank,
        "middle": 10 * rank,
        "deep": 50 * rank,
        "p": (rank - 1) / (n - 1),
        "above": rank - 1,
        "others": n - 1,
        "half": int(np.count_nonzero(recall >= 0.5)),
        "first": (float(pmf[0]), ".0%"),
        "mean": (float(protocol.mean(rank)), ".2f"),
        "factor": ((n - 1 - m) / (n - 2), ".3f"),
    }


def recommender_texts(recommenders: Mapping[str, RankIntervals], n_negatives: int) -> Texts:
    """How many times larger sampling makes each AP and Recall@10, and where it puts the median user
    of the first recommender. Negatives without replacement, ties averaged over their orders.

    >>> texts = recommender_texts({"X": RankIntervals([0, 2, 5], [0, 0, 0], [20, 20, 20])}, 12)
    >>> texts["median"], round(texts["median_mean"][0], 2), round(texts["ratio_X"][0], 2)
    (3, 2.26, 1.17)
    """
    texts: Texts = {}
    for name, intervals in recommenders.items():
        protocol = Protocol(intervals.n_candidates, n_negatives, replacement=False)
        pmf = intervals.sampled_pmf(n_negatives).mean(axis=0)
        for key, kind in (("ratio", "ap"), ("recall_ratio", "recall@10")):
            ratio = pmf @ naive(kind, protocol).values / intervals.evaluate(kind).mean()
            texts[f"{key}_{name}"] = (float(ratio), ".1f")
    first = next(iter(recommenders.values()))
    median, candidates = int(np.median(first.n_better + 1)), round(float(first.n_candidates.mean()))
    typical = Protocol(candidates, n_negatives, replacement=False)
    return texts | {
        "users": first.n_better.size,
        "median": median,
        "candidates": candidates,
        "median_in": (float(typical.cdf(median)[9]), ".0%"),
        "median_mean": (float(typical.mean(median)), ".1f"),
        "median_sd": (float(np.sqrt(typical.variance(median))), ".1f"),
    }

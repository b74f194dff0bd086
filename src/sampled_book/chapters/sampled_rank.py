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
from ..experiments import stretch


def plot_sampled_ranks(protocol: Protocol, ranks: Iterable[int], top: int = 10) -> Figure:
    """Plot the distribution of the sampled rank at up to three true ranks, the last the deepest, in
    black and grey: lines with replacement, marks without, where the probability is above 0.005. A
    dotted line ends the sampled top `top`.

    >>> figure = plot_sampled_ranks(Protocol(1_000, 20), [5, 300])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['rank 5', 'rank 300', 'top 10 ends here']
    """
    figure, ax = figures.panels(height=3.3)
    places, deepest = np.arange(1, protocol.n_negatives + 2), 1
    with_replacement, without_replacement = (
        replace(protocol, replacement=replacement) for replacement in (True, False)
    )
    for r, look in zip(ranks, figures.greys("123").values(), strict=False):
        mass, distinct = with_replacement.pmf(r), without_replacement.pmf(r)
        colour, peak = look["color"], int(mass.argmax())
        ax.plot(places, mass, linestyle=look["linestyle"], color=colour, linewidth=1.2)
        shown = np.where(distinct > 0.005, distinct, np.nan)
        ax.plot(places, shown, look["marker"], ms=6, mfc="none", color=colour)
        x, height, offset, side = places[peak], mass[peak], (9, 2), "left"
        if x > top:
            offset, side = (0, 10), "center"
        elif x > top / 2:  # beyond the dotted line
            x, height, offset = top + 0.9, 0.7 * height, (0, 0)
        style = {"textcoords": "offset points", "ha": side, "color": colour}
        ax.annotate(f"rank {r:,}", (x, height), offset, **style)
        spread = np.sqrt(with_replacement.variance(r))
        deepest = max(deepest, int(with_replacement.mean(r) + 4 * spread))
    ax.axvline(top + 0.5, color="#5b5b5b", linestyle=":", linewidth=1)
    ax.text(top + 0.9, 0.6, f"top {top} ends here", transform=ax.get_xaxis_transform())
    ax.set(xlabel="sampled rank", ylabel="probability", xlim=(0, deepest))
    return figure


def plot_expected(metrics: Sequence[str], n_items: int, sizes: Iterable[int], top: int) -> Figure:
    """Plot expected sampled metrics by the true rank for numbers of negatives, exact ones in black,
    and as thin lines those of the stretched rank.

    >>> figure = plot_expected(["auc", "ap"], 1_000, [10, 100], 200)
    >>> [ax.get_title() for ax in figure.axes]
    ['AUC', 'AP']
    """
    shown = np.unique(np.geomspace(1, min(top, n_items), 300).astype(int))
    protocols = {m: Protocol(n_items, m, replacement=True) for m in sizes}
    figure, axes = figures.grid(len(metrics), 2.8, sharex=True, sharey=True)
    for ax, name in zip(axes, metrics, strict=True):
        curves = {m: naive(name, protocol).expected(shown) for m, protocol in protocols.items()}
        figures.by_negatives(ax, shown, curves, metric(name)(shown, n_items))
        ax.set(title=metric(name).label, ylim=(-0.03, 1.08), xscale="log")
        if metric(name).base == "auc":
            ax.text(0.5, 0.5, "all curves coincide", transform=ax.transAxes, ha="center")
            continue
        lines = {str(line.get_label()): line for line in ax.lines}
        heights = dict(zip(lines, np.linspace(0.85, 0.25, len(lines)).tolist(), strict=True))
        figures.on_curves(ax, heights)
        for text in ax.texts:
            text.set_y(heights[text.get_text()])
        named = {text.get_text() for text in ax.texts}
        style = {"textcoords": "offset points", "ha": "right", "va": "top", "fontsize": 10}
        for label in [name for name in lines if name not in named]:  # curves that stay above
            ax.annotate(label, lines[label].get_xydata()[-1], (0, -3), **style)
        for m in protocols:
            ax.plot(shown, stretch.stretched(name, n_items, m, n_items)[shown - 1], "k-", lw=0.6)
    figure.supxlabel("true rank", fontsize=12)
    figure.supylabel("contribution of a user", fontsize=12)
    return figure


def rank_texts(protocol: Protocol, rank: int) -> Texts:
    """Text values on one item: how often it comes first, its mean sampled rank; and the last true
    rank that reaches the sampled top ten at least half of the time.

    >>> texts = rank_texts(Protocol(10_000, 99), 60)
    >>> texts["half"], round(texts["mean"][0], 3)
    (974, 1.584)
    """
    ranks = np.arange(1, int(np.max(protocol.n_items)) + 1)
    recall = naive("recall@10", protocol).expected(ranks)
    return {
        "half": int(np.count_nonzero(recall >= 0.5)),
        "first": (float(protocol.pmf(rank)[0]), ".0%"),
        "mean": (float(protocol.mean(rank)), ".2f"),
    }


def recommender_texts(recommenders: Mapping[str, RankIntervals], n_negatives: int) -> Texts:
    """How many times larger sampling makes each AP, and where it puts the median user
    of the first recommender. Negatives without replacement, ties averaged over their orders.

    >>> texts = recommender_texts({"X": RankIntervals([0, 2, 5], [0, 0, 0], [20, 20, 20])}, 12)
    >>> texts["median"], round(texts["median_mean"][0], 2), round(texts["ratio_X"][0], 2)
    (3, 2.26, 1.17)
    """
    texts: Texts = {}
    for name, intervals in recommenders.items():
        protocol = Protocol(intervals.n_candidates, n_negatives, replacement=False)
        pmf = intervals.sampled_pmf(n_negatives).mean(axis=0)
        ratio = pmf @ naive("ap", protocol).values / intervals.evaluate("ap").mean()
        texts[f"ratio_{name}"] = (float(ratio), ".1f")
    first = next(iter(recommenders.values()))
    median, candidates = int(np.median(first.n_better + 1)), round(float(first.n_candidates.mean()))
    typical = Protocol(candidates, n_negatives, replacement=False)
    return texts | {
        "median": median,
        "median_in": (float(typical.cdf(median)[9]), ".0%"),
        "median_mean": (float(typical.mean(median)), ".1f"),
        "median_sd": (float(np.sqrt(typical.variance(median))), ".1f"),
    }

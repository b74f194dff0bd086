"""Figures, tables and text values of the chapter on good items among random decoys, and of its
appendix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.stats import binom

from sampled_metrics import metric
from sampled_metrics.metrics import Metric
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark
from ..display import figures
from ..display.tables import Frame, Texts
from ..experiments import decoys, evidence, protocols

#: What ekstrand2017 publish for 95%: number of decoys, the rate as published, and as a number.
PRINTED = ((1_000, "g = 0.00001", 1e-5), (1_000, "1 in 10K", 1e-4), (100, "1 in 1000", 1e-3))


def without_good(ranks: RankIntervals, name: str, goodness: float) -> float:
    """Mean exact metric if good items above the test item, a share of all there, did not count.

    >>> steady = RankIntervals([1, 1, 1], [0, 0, 0], [3, 3, 3])
    >>> without_good(steady, "ap@3", 0.0), without_good(steady, "ap@3", 1.0)
    (0.5, 1.0)
    """
    return float(decoys.uncounted(ranks, metric(name), goodness).mean())


def at_most(share: float) -> str:
    """A share in percent for a claim "at most": rounded up to a digit after the point.

    >>> at_most(0.0071), at_most(0.07)
    ('0.8%', '7.0%')
    """
    return f"{math.ceil(round(1_000 * share, 9)) / 1_000:.1%}"


def break_even(behind: RankIntervals, ahead: RankIntervals, name: str) -> float:
    """Share of good items above the test items of the recommender that is behind at which it draws
    level with the other, if no item above the other's test items is good.

    >>> bold = RankIntervals([0, 2, 2], [0, 0, 0], [3, 3, 3])
    >>> steady = RankIntervals([1, 1, 1], [0, 0, 0], [3, 3, 3])
    >>> round(break_even(steady, bold, "ap@3"), 4)
    0.1111
    """
    goal = without_good(ahead, name, 0.0)
    return float(brentq(lambda g: without_good(behind, name, g) - goal, 0.0, 1.0))


def turn(behind: RankIntervals, ahead: RankIntervals, name: str) -> float:
    """Smallest equal share of good items, in whole percents, that puts the one behind ahead.

    >>> bold = RankIntervals([0, 2, 2], [0, 0, 0], [3, 3, 3])
    >>> steady = RankIntervals([1, 1, 1], [0, 0, 0], [3, 3, 3])
    >>> turn(steady, bold, "ap@3")
    0.26
    """
    shares = np.arange(1, 100) / 100
    gaps = [without_good(ahead, name, g) - without_good(behind, name, g) for g in shares]
    return float(next((g for g, gap in zip(shares, gaps, strict=True) if gap < -1e-12), np.nan))


def sampled_without_good(
    ranks: RankIntervals, parsed_metric: Metric, n_negatives: int, goodness: float
) -> float:
    """Mean expected sampled metric if good negatives did not count: each negative above the test
    item is good with probability g, independently. The metric needs a cut-off.

    >>> ranks = RankIntervals([0, 50], [0, 0], [101, 101])
    >>> sampled_without_good(ranks, metric("recall@1"), 1, 0.0)
    0.75
    >>> round(sampled_without_good(ranks, metric("recall@1"), 1, 0.1), 6)
    0.775
    """
    left = np.arange(parsed_metric.k or n_negatives + 1)
    above = np.arange(n_negatives + 1)[:, np.newaxis]
    worth = binom.pmf(left, above, 1 - goodness) @ parsed_metric(left + 1)
    return float((ranks.sampled_pmf(n_negatives) @ worth).mean())


def plot_break_even(ranks: Mapping[str, RankIntervals], name: str, largest: float = 0.32) -> Figure:
    """Plot the exact metric, in percent, against the share of good items above the test items, and
    the way from the last recommender's metric to the first one's curve.

    >>> bold = RankIntervals([0, 2, 2], [0, 0, 0], [3, 3, 3])
    >>> steady = RankIntervals([1, 1, 1], [0, 0, 0], [3, 3, 3])
    >>> figure = plot_break_even({"Steady": steady, "Bold": bold}, "ap@3")
    >>> figure.axes[0].texts[-1].get_text()
    'Steady at 11% = Bold at 0%'
    """
    figure, ax = figures.panels(height=3.6)
    shares = np.linspace(0, largest, 33)
    values = {
        key: [100 * without_good(intervals, name, g) for g in shares]
        for key, intervals in ranks.items()
    }
    figures.curves(ax, 100 * shares, values)
    ax.set(
        xlabel="probability that an item above is good (%)",
        ylabel=f"{metric(name).label} (%)",
        xlim=(0, 100 * largest),
    )
    figures.beside(ax, {key: line[-1] for key, line in values.items()}, fontweight="bold")
    behind, ahead = next(iter(ranks)), list(ranks)[-1]
    share, height = 100 * break_even(ranks[behind], ranks[ahead], name), values[ahead][0]
    ax.plot([0, share], [height, height], color="black", linestyle=":", linewidth=1.5)
    ax.plot(share, height, "o", ms=11, mfc="none", mec="black", mew=1.5)
    text = f"{behind} at {share:.0f}% = {ahead} at 0%"
    ax.annotate(text, (share, height), (6, -16), textcoords="offset points", va="top")
    return figure


def story_texts(
    ranks: Mapping[str, RankIntervals], name: str, goodness: float, n_negatives: int
) -> Texts:
    """What the text says of the first and the last recommender, exact without good items, and
    sampled with ten times the goodness among the items above.
    """
    behind, ahead = ranks[next(iter(ranks))], ranks[list(ranks)[-1]]
    sampled = partial(sampled_without_good, parsed_metric=metric(name), n_negatives=n_negatives)
    return {
        "even": (break_even(behind, ahead, name), ".0%"),
        "turn": (turn(behind, ahead, name), ".0%"),
        "half_ahead": (without_good(ahead, name, 0.5), ".1%"),
        "z_exact": (without_good(ahead, name, 0.0), ".1%"),
        "x_sampled_many": (sampled(behind, goodness=10 * goodness), ".1%"),
        "z_sampled_many": (sampled(ahead, goodness=10 * goodness), ".1%"),
    }


def _in_grey(ax: Axes, count: int) -> None:
    """Recolour the first curves: the colours of the palette are those of X, Y and Z."""
    shades = plt.get_cmap("Greys")(np.linspace(1.0, 0.45, count))
    for line, shade in zip(ax.get_lines()[:count], shades, strict=True):
        line.set_color(shade)


def plot_clean(confidence: float) -> Figure:
    """Plot the largest goodness at which a set is clean, and the published points.

    >>> figure = plot_clean(0.95)
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['90%', '95%']
    """
    figure, ax = figures.panels(height=4.2)
    sizes = np.unique(np.geomspace(1, 10_000, 60).round().astype(int))
    confidences = sorted({0.9, confidence})
    limits = {f"{100 * c:g}%": decoys.largest_goodness(sizes, c) for c in confidences}
    points = {text.removeprefix("g = "): (n, g) for n, text, g in reversed(PRINTED)}
    figures.clean_region(ax, sizes, limits, points, {"10% good": 0.1, "1% good": 0.01})
    _in_grey(ax, len(limits))
    ax.legend(loc="lower left")
    ax.set(xlabel="decoys m", ylabel="largest goodness g")
    return figure


def published_table() -> Frame:
    """Published rates for sets that are clean with 95% probability, beside the exact ones.

    >>> published_table()["Exact rate"].tolist()
    ['1 in 19,496', '1 in 19,496', '1 in 1,950']
    """
    rows = []
    for n, text, goodness in PRINTED:
        largest_goodness = float(decoys.largest_goodness(n, 0.95))
        clean = 1 - float(decoys.misclassified(n, goodness))
        rows.append(
            (n, text, f"{largest_goodness:.7f}", f"1 in {1 / largest_goodness:,.0f}", clean)
        )
    return pd.DataFrame(rows, columns=["m", "Published", "Exact g", "Exact rate", "Clean"])


def losses_table(
    sizes: Sequence[int], goodness: float, metrics: Sequence[str], n_test: int
) -> Frame:
    """Expected loss of a perfect recommender, by placement and number of decoys.

    >>> losses_table([100], 0.01, ["recall@10"], 5).round(3).to_numpy().tolist()[0]
    ['random', '100', 0.0]
    """
    parsed_metrics = [metric(name) for name in metrics]
    rows = []
    for placement, n in product(decoys.PLACEMENTS, sizes):
        pmf = decoys.pmf(n, goodness)
        values = [decoys.perfect(each, n, n_test, placement) for each in parsed_metrics]
        rows.append((placement, f"{n:,}", *(decoys.loss(pmf, value) for value in values)))
    labels = [parsed_metric.label for parsed_metric in parsed_metrics]
    return pd.DataFrame(rows, columns=["Good decoys", "m", *labels])


def plot_losses(n_decoys: int, metrics: Sequence[str], n_test: int) -> Figure:
    """Plot the loss of a perfect recommender against the expected number of good decoys.

    >>> figure = plot_losses(20, ["rr"], 2)
    >>> [ax.get_title() for ax in figure.axes]
    ['random', 'above']
    """
    figure, axes = figures.panels(1, 2, height=3.6, sharey=True)
    shares = np.geomspace(0.01, 100, 41) / n_decoys
    pmfs = [decoys.pmf(n_decoys, min(1.0, float(share))) for share in shares]
    for ax, placement in zip(axes, decoys.PLACEMENTS, strict=True):
        values = {
            metric(name).label: decoys.perfect(metric(name), n_decoys, n_test, placement)
            for name in metrics
        }
        lines = {label: [decoys.loss(pmf, v) for pmf in pmfs] for label, v in values.items()}
        figures.curves(ax, shares * n_decoys, lines)
        _in_grey(ax, len(lines))
        ax.set(xscale="log", title=placement, xlabel="good decoys, gm", ylim=(-0.02, 1.02))
    axes[0].set_ylabel("loss")
    axes[0].legend(loc="upper left")
    return figure


def real_table(goodness: Sequence[float], name: str = "recall@10") -> Frame:
    """Gain of the best recommender of each data set if good items above the test item did not
    count, for two shares of good items; the pairs of recommenders, and how many of these would
    change places for each share.
    """
    rows, parsed_metric, columns = [], metric(name), [protocols.ALL, "few", "many"]
    pairs = evidence.bundled("pairs").query("estimator == 'naive' and m == 100 and not replacement")
    for data in benchmark.DATA:
        ranks: Mapping[str, RankIntervals] = benchmark.ranks(data)
        values = {
            recommender: [without_good(intervals, name, g) for g in (0.0, *goodness)]
            for recommender, intervals in ranks.items()
        }
        frame = pd.DataFrame.from_dict(values, orient="index", columns=columns)
        best = str(frame[protocols.ALL].idxmax())
        n_reversed = protocols.reversed_orders(
            frame, pairs[pairs["data"] == data], parsed_metric.name
        )
        exact = values[best][0]
        gains = [value / exact - 1 for value in values[best][1:]]
        counts = (int(n_reversed[key]) for key in ("pairs", "few", "many"))
        rows.append((data, best, exact, *gains, *counts))
    shares = [f"ḡ = {100 * g:g}%" for g in goodness]
    counted = ["Pairs", *(f"Reversed, {share}" for share in shares)]
    return pd.DataFrame(rows, columns=["Data", "Best", parsed_metric.label, *shares, *counted])


def published_texts() -> Texts:
    """How rare good items must be for the published numbers of decoys, and how few decoys for 1%.

    >>> texts = published_texts()
    >>> round(texts["in_1000"][0]), texts["largest"]
    (19496, 5)
    """

    def one_in(size: int, confidence: float) -> tuple[float, str]:
        return 1 / float(decoys.largest_goodness(size, confidence)), ",.0f"

    return {
        "in_1000": one_in(1_000, 0.95),
        "in_100": one_in(100, 0.95),
        "in_90": one_in(1_000, 0.90),
        "in_90_100": one_in(100, 0.90),
        "in_half": one_in(1_000, 0.5),
        "goodness_99": (float(decoys.largest_goodness(1_000, 0.99)), ".8f"),
        "largest": decoys.largest_sample(0.01, 0.95),
        "largest_sturgeon": decoys.largest_sample(0.1, 0.95),
        "rr_10": (float(decoys.perfect(metric("rr"), 10)[10]), ".3f"),
    }


def losses_texts(losses: Frame, n_decoys: int, goodness: float, first: str, n_test: int) -> Texts:
    """What the text says of the first metric in :func:`losses_table`, and where one good decoy is
    expected.
    """
    parsed_metric = metric(first)
    loss_by_cell = losses.set_index(["Good decoys", "m"])[parsed_metric.label]
    losses_at_one = [
        decoys.loss(decoys.pmf(n, 1 / n), decoys.perfect(parsed_metric, n, n_test))
        for n in (10, 100, 1_000)
    ]
    return {
        "loss_label": parsed_metric.label,
        "loss_one": ", ".join(f"{value:.4f}" for value in losses_at_one),
        "left_random": (1 - float(loss_by_cell["random", f"{n_decoys:,}"]), ".2f"),
        "left_above": (1 - float(loss_by_cell["above", f"{n_decoys:,}"]), ".2f"),
    }

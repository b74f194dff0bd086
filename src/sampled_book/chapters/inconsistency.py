"""The chapter on reversals: orders of recommenders by the number of negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, metric
from sampled_metrics.consistency import OrderByNegatives, order_by_negatives, sign
from sampled_metrics.estimators import naive
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Frame, Texts
from ..experiments.theory import of_users

#: The recommenders of krichene2020, table 1: ranks of the one relevant item among 10,000.
TOY = {
    "A": [100, 100, 100, 100, 100],
    "B": [40, 40, 8437, 9266, 4482],
    "C": [212, 2, 743, 5342, 1548],
}


#: Three users, three items, one negative: the smallest catalogue in which sampling turns an order.
SMALLEST = {"Bold": [1, 3, 3], "Steady": [2, 2, 2]}


@dataclass(frozen=True)
class Course:
    """A sampled metric of some recommenders for more and more negatives: `expected` has a row for
    each number of negatives; `crossings` are (negatives, height) where one recommender passes
    another.
    """

    orders: OrderByNegatives
    expected: pd.DataFrame
    exact: Mapping[str, float]
    crossings: list[tuple[int, float]]

    def relative(self) -> Course:
        """The same as multiples of the mean of all recommenders, at each number of negatives."""
        mean = self.expected.mean(axis=1)
        exact = pd.Series(self.exact)
        crossings = [(m, height / float(mean[m])) for m, height in self.crossings]
        expected = self.expected.div(mean, axis=0)
        return Course(self.orders, expected, dict(exact / exact.mean()), crossings)


def course(
    ranks: Mapping[str, ArrayLike],
    metric_or_name: Metric | str,
    protocol: Protocol,
    points: int = 40,
) -> Course:
    """Expected metrics for 1 to as many negatives as the protocol has, at `points` numbers evenly
    spaced in logarithms, and at those where the order changes, and just before. `ranks` are of
    the same instances under each recommender.
    """
    parsed_metric = metric(metric_or_name)
    orders = order_by_negatives(ranks, parsed_metric, protocol)
    grid = np.geomspace(1, orders.n_negatives, points).astype(int).tolist()
    sizes = {*grid, orders.n_negatives, *orders.flips, *(m - 1 for m in orders.flips)}
    rows = {}
    for m in sorted(sizes):
        reported = naive(parsed_metric, replace(protocol, n_negatives=m))
        rows[m] = {name: float(reported.expected(r).mean()) for name, r in ranks.items()}
    expected = pd.DataFrame(rows).T
    exact = {name: float(parsed_metric(r, protocol.n_items).mean()) for name, r in ranks.items()}
    crossings = []
    for m in orders.flips:
        before, after = (expected.loc[size].to_dict() for size in (m - 1, m))
        for a, b in combinations(ranks, 2):
            if sign(before[a], before[b]) * sign(after[a], after[b]) < 0:
                crossings.append((m, (after[a] + after[b]) / 2))
    return Course(orders, expected, exact, crossings)


def plot_courses(courses: Mapping[str, Course], n_negatives: int, grey: bool = False) -> Figure:
    """Plot a panel for each metric: named curves, circles where they cross, named wedges at the
    exact values, a dotted line at `n_negatives`. `grey` leaves the colours to X, Y and Z.

    >>> toy = {"A": [100] * 5, "C": [212, 2, 743, 5342, 1548]}
    >>> whole = Protocol(10_000, 9_999, replacement=True)
    >>> figure = plot_courses({"NDCG": course(toy, "ndcg", whole, points=5)}, 99)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['A', 'C', 'A 0.15', 'C 0.21']
    """
    figure, axes = figures.grid(len(courses), 2.9)
    for ax, (label, shown_course) in zip(axes, courses.items(), strict=True):
        ax.axvline(n_negatives, color="#5b5b5b", linestyle=":", linewidth=1)
        curves = {str(name): shown_course.expected[name] for name in shown_course.expected}
        looks = figures.greys(curves) if grey else figures.marks(curves)
        looks = {name: {**look, "marker": ""} for name, look in looks.items()}  # circles have room
        figures.expected_curves(
            ax, shown_course.expected.index, curves, shown_course.exact, looks=looks
        )
        for m, height in shown_course.crossings:
            ax.plot(m, height, "o", ms=9, mfc="none", mec="black", mew=1.5)
        ax.set(title=label, xlabel="", ylim=(-0.06, 1.06))
        figures.on_gaps(ax, shown_course.expected.index, curves, looks)
        values = set(shown_course.exact.values())
        digits = 2 if len({round(value, 2) for value in values}) == len(values) else 4
        form = f"{{name}} {{height:.{digits}f}}"
        figures.beside(ax, shown_course.exact, x=1.16, gap=0.12, form=form, looks=looks)
    figure.supxlabel("negatives m", fontsize=12)
    figure.supylabel("expected metric", fontsize=12)
    return figure


def plot_smallest() -> Figure:
    """Plot AP of three ranks, exact and with one negative, and what it makes of Bold and Steady.

    >>> figure = plot_smallest()
    >>> [line.get_ydata().round(3).tolist() for line in figure.axes[1].lines]
    [[0.556, 0.667], [0.5, 0.75]]
    """
    ranks, exact = [1, 2, 3], metric("ap")
    sampled = naive(exact, Protocol(3, 1))
    figure, (left, right) = figures.panels(
        1, 2, height=2.6, sharey=True, gridspec_kw={"width_ratios": [1, 1.5]}
    )
    styles = {"sampled": ("--", "s", "#5b5b5b"), "exact": ("-", "o", "black")}
    for (label, (line, marker, colour)), values in zip(
        styles.items(), (sampled.expected(ranks), exact(ranks)), strict=True
    ):
        left.plot(ranks, values, linestyle=line, marker=marker, color=colour)
        y, va, ha = (8, "bottom", "left") if label != "exact" else (-8, "top", "right")
        figures.note(left, label, (2, values[1]), (6, y), color=colour, va=va, ha=ha)
    left.set(xticks=ranks, xlabel="true rank", ylabel="AP", ylim=(0.25, 1.05), xlim=(0.8, 3.2))
    for (name, own), face in zip(SMALLEST.items(), ("black", "white"), strict=True):
        ends = np.array([exact(own).mean(), sampled.expected(own).mean()])
        right.plot([0, 1], ends, marker="o", color="black", markerfacecolor=face)
        for x, end, alignment in ((0, ends[0], "right"), (1, ends[1], "left")):
            shift = 4 if (x == 1) == (name == "Steady") else -4  # the two orders differ
            offset, style = (8 if x else -8, shift), {"ha": alignment, "va": "center"}
            figures.note(right, f"{name} {end:.2f}", (x, end), offset, **style)
    right.set(xticks=[0, 1], xticklabels=["exact", "one negative"], xlim=(-0.7, 1.7))
    right.spines["left"].set_visible(False)
    right.tick_params(axis="y", length=0)
    right.grid(False, axis="x")
    return figure


def orders_table(courses: Mapping[str, Course], n_negatives: int) -> Frame:
    """Orders by each metric, best first: exact and sampled, and the least number of negatives from
    which the latter is right.

    >>> toy = {name: TOY[name] for name in "AC"}
    >>> found = {"NDCG": course(toy, "ndcg", Protocol(10_000, 9_999), points=5)}
    >>> orders_table(found, 99)["Right from m ="].tolist()
    [692]
    """
    columns = ["Metric", "Exact order", f"With {n_negatives} negatives", "Right from m ="]
    rows = [
        (
            label,
            *(order.replace(" ", "\N{NO-BREAK SPACE}") for order in orders),
            metric_course.orders.starts[-1],
        )
        for label, metric_course in courses.items()
        for orders in [(metric_course.orders.exact, metric_course.orders.at(n_negatives))]
    ]
    return pd.DataFrame(rows, columns=columns)


def averaged(intervals: RankIntervals, metric_or_name: Metric | str, n_negatives: int) -> float:
    """Expected sampled metric of one recommender, averaged over its users and all orders of ties;
    negatives without replacement.
    """
    estimator = naive(
        metric(metric_or_name), Protocol(intervals.n_candidates, n_negatives, replacement=False)
    )
    expected, is_tied = estimator.expected(intervals.ranks("optimistic")), intervals.n_tied > 0
    if is_tied.any():
        tied = of_users(intervals, is_tied)
        expected[is_tied] = tied.sampled_pmf(n_negatives) @ estimator.values
    return float(expected.mean())


def film_orders(
    intervals: Mapping[str, RankIntervals], metrics: Sequence[str], n_negatives: int
) -> Frame:
    r"""Recommenders with their metrics in percent, best first: exact, and expected with negatives
    drawn without replacement, both averaged over the orders of ties.

    >>> first, third = RankIntervals([0], [0], [9]), RankIntervals([2], [0], [9])
    >>> film_orders({"X": third, "Z": first}, ["recall@2"], 1)["Exact"].tolist()
    ['Z\xa0100.0 > X\xa00.0']
    """
    rows = []
    for parsed_metric in map(metric, metrics):
        exact = {name: float(r.evaluate(parsed_metric).mean()) for name, r in intervals.items()}
        sampled = {name: averaged(r, parsed_metric, n_negatives) for name, r in intervals.items()}
        orders = [
            " > ".join(
                f"{name}\N{NO-BREAK SPACE}{100 * value:.1f}"
                for name, value in sorted(values.items(), key=lambda item: -item[1])
            )
            for values in (exact, sampled)
        ]
        rows.append((parsed_metric.label, *orders))
    return pd.DataFrame(rows, columns=["Metric", "Exact", f"With {n_negatives} negatives"])


def film_texts(intervals: Mapping[str, RankIntervals], n_negatives: int) -> Texts:
    """Recall@10 of X, Y and Z, exact and sampled; and "depth", the first cut-off K whose exact
    Recall@K is at least the sampled Recall@10. "ten_n_over_m" uses the mean number of candidates.

    >>> near, far = (RankIntervals([above], [0], [99]) for above in (0, 20))
    >>> film_texts({"X": far, "Z": near}, 9)["depth_x"]
    21
    """
    candidates = next(iter(intervals.values())).n_candidates
    texts: Texts = {"ten_n_over_m": (10 * float(candidates.mean()) / n_negatives, ".0f")}
    for name, recommender in intervals.items():
        sampled = averaged(recommender, "recall@10", n_negatives)
        low, high = 0, int(recommender.n_candidates.max())
        while high - low > 1:  # Recall@K rises with K
            middle = (low + high) // 2
            reaches = recommender.evaluate(f"recall@{middle}").mean() >= sampled
            low, high = (low, middle) if reaches else (middle, high)
        texts[f"depth_{name.lower()}"] = high
        texts[f"exact_{name.lower()}"] = (recommender.evaluate("recall@10").mean(), ".1%")
        texts[f"sampled_{name.lower()}"] = (sampled, ".1%")
    return texts


def reversal_texts(ranks: Mapping[str, ArrayLike], runs: Frame, protocol: Protocol) -> Texts:
    """Text values on the reversal of A, B and C by AP. `runs` has simulated sampled AP, a row for
    each evaluation under `protocol`; "ap_BC" has the numbers of negatives, up to the whole
    catalogue, at which B and C change places.

    >>> runs = pd.DataFrame({"A": [0.6, 0.7], "B": [0.5, 0.5], "C": [0.5, 0.65]})
    >>> texts = reversal_texts(TOY, runs, Protocol(10_000, 99))
    >>> texts["ap_BC"], float(texts["wins"][0]), round(texts["exact_times"][0], 1)
    ('73 and 281', 1.0, 10.1)
    """
    whole = replace(protocol, n_negatives=int(np.min(protocol.n_items)) - 1)
    pair_orders = order_by_negatives({name: ranks[name] for name in "BC"}, "ap", whole)
    exact = {name: float(metric("ap")(ranks[name]).mean()) for name in "AC"}
    return {
        "m": protocol.n_negatives,
        "ap_BC": " and ".join(f"{size:,}" for size in pair_orders.flips) or "none",
        "wins": ((runs["A"] > runs["C"]).mean(), ".0%"),
        "exact_times": (exact["C"] / exact["A"], ".0f"),
    }

"""What the chapters on why sampled metrics mislead compute: orders by negatives, bends, ties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, metric
from sampled_metrics.consistency import OrderByNegatives, order_by_negatives, sign
from sampled_metrics.estimators import naive
from sampled_metrics.ranking import RankIntervals, Ties

from . import figures


@dataclass(frozen=True)
class Course:
    """A sampled metric of some recommenders for more and more negatives.

    Attributes
    ----------
    orders : OrderByNegatives
    expected : pandas.DataFrame
        Expected metric: a row for each number of negatives, a column for each recommender.
    exact : mapping of str to float
    crossings : list of (int, float)
        Numbers of negatives at which one recommender passes another, and the height there.
    """

    orders: OrderByNegatives
    expected: pd.DataFrame
    exact: Mapping[str, float]
    crossings: list[tuple[int, float]]

    def relative(self) -> Course:
        """The same as multiples of the mean of all recommenders, at each number of negatives."""
        level = self.expected.mean(axis=1)
        exact = pd.Series(self.exact)
        crossings = [(m, height / float(level[m])) for m, height in self.crossings]
        expected = self.expected.div(level, axis=0)
        return Course(self.orders, expected, dict(exact / exact.mean()), crossings)


def course(
    ranks: Mapping[str, ArrayLike], of: Metric | str, protocol: Protocol, points: int = 40
) -> Course:
    """Expected metrics for 1 to as many negatives as the protocol has.

    Parameters
    ----------
    ranks : mapping of str to array_like of int, shape (n_instances,)
        True ranks of the same instances under each recommender.
    of : Metric or str
    protocol : Protocol
    points : int
        Numbers of negatives, evenly spaced in logarithms; those at which the order changes, and
        the ones before, are added.

    Examples
    --------
    >>> toy = {"A": [100] * 5, "C": [212, 2, 743, 5342, 1548]}
    >>> found = course(toy, "ndcg", Protocol(10_000, 9_999, replacement=True), points=5)
    >>> found.expected.index.tolist(), [m for m, _ in found.crossings]
    ([1, 9, 99, 691, 692, 999, 9999], [692])
    """
    chosen = metric(of)
    orders = order_by_negatives(ranks, chosen, protocol)
    grid = np.geomspace(1, orders.n_negatives, points).astype(int).tolist()
    sizes = {*grid, orders.n_negatives, *orders.flips, *(m - 1 for m in orders.flips)}
    expected = pd.DataFrame(
        {
            m: {
                name: float(naive(chosen, replace(protocol, n_negatives=m)).expected(r).mean())
                for name, r in ranks.items()
            }
            for m in sorted(sizes)
        }
    ).T
    exact = {name: float(chosen(r, protocol.n_items).mean()) for name, r in ranks.items()}
    crossings = []
    for m in orders.flips:
        before, after = (expected.loc[size].to_dict() for size in (m - 1, m))
        for a, b in combinations(ranks, 2):
            if sign(before[a], before[b]) * sign(after[a], after[b]) < 0:
                crossings.append((m, (after[a] + after[b]) / 2))
    return Course(orders, expected, exact, crossings)


def draw(found: Mapping[str, Course], n_negatives: int, relative: bool = False) -> Figure:
    """Draw a panel for each metric: curves, circles where they cross, black exact values.

    Parameters
    ----------
    found : mapping of str to Course
        Under the name of each metric.
    n_negatives : int
        A dotted line.
    relative : bool
        Draw multiples of the mean of all recommenders, on an axis of their own for each metric.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> toy = {"A": [100] * 5, "C": [212, 2, 743, 5342, 1548]}
    >>> whole = Protocol(10_000, 9_999, replacement=True)
    >>> figure = draw({"NDCG": course(toy, "ndcg", whole, points=5)}, 99)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['A', 'C']
    >>> plt.close(figure)
    """
    shape = -(-len(found) // 2), min(2, len(found))
    figure, axes = figures.panels(*shape, height=2.9, squeeze=False)
    for ax, (label, each) in zip(axes.flat, found.items(), strict=False):
        of = each.relative() if relative else each
        ax.axvline(n_negatives, color="#5b5b5b", linestyle=":", linewidth=1)
        curves = {str(name): of.expected[name] for name in of.expected}
        figures.expected_curves(ax, of.expected.index, curves, of.exact)
        for m, height in of.crossings:
            ax.plot(m, height, "o", ms=9, mfc="none", mec="black", mew=1.5)
        ax.set(title=label, xlabel="")
        if not relative:
            ax.set_ylim(-0.06, 1.06)
        figures.beside(ax, of.exact, x=1.07, gap=0.12)
    for ax in axes.flat[len(found) :]:
        ax.remove()
    figure.supxlabel("negatives m", fontsize=12)
    if relative:
        figure.supylabel("multiple of the mean", fontsize=12)
    return figure


def not_linear(values: ArrayLike) -> float:
    """Share of the variance of a metric over its ranks that no straight line explains, 1 - R^2.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        The metric at ranks 1 to n, each as likely as any other.

    Returns
    -------
    float
        In [0, 1]; NaN where the metric is constant.

    Examples
    --------
    >>> round(not_linear([1.0, 0.5, 0.0]), 12), round(not_linear([1.0, 0.0, 0.0]), 3)
    (0.0, 0.25)
    >>> not_linear([1.0, 1.0, 1.0])
    nan
    """
    column = np.asarray(values, dtype=float)
    if np.ptp(column) <= 1e-12:
        return float("nan")
    centred = np.arange(column.size) - (column.size - 1) / 2
    slope = centred @ column / (centred @ centred)
    rest = column - column.mean() - slope * centred
    return float(rest @ rest / (column.size * column.var()))


def under_ties(
    intervals: RankIntervals, metrics: list[str], n_negatives: int, seed: int
) -> pd.DataFrame:
    """Exact and expected sampled metrics, in percent, under four ways to break ties.

    Negatives are drawn without replacement.

    Parameters
    ----------
    intervals : RankIntervals
    metrics : list of str
    n_negatives : int
    seed : int
        Of the one random breaking.

    Returns
    -------
    pandas.DataFrame
        Rows (policy, "exact" or "sampled"), a column for each metric.

    Examples
    --------
    >>> level = RankIntervals([0, 0], [9, 9], [10, 10])
    >>> under_ties(level, ["auc"], 3, seed=1).loc[["optimistic", "mean"], "AUC"].tolist()
    [100.0, 100.0, 50.0, 50.0]
    """
    n, chosen = intervals.n_candidates, [metric(name) for name in metrics]
    protocol = Protocol(n, n_negatives, replacement=False)
    law = intervals.sampled_pmf(n_negatives)
    rows = {}
    policies: tuple[Ties, ...] = ("optimistic", "random", "mean", "pessimistic")
    for policy in policies:
        whole = [intervals.evaluate(m, policy, seed).mean() for m in chosen]
        if policy == "mean":
            sample = [(law @ naive(m, protocol).values).mean() for m in chosen]
        else:
            ranks = intervals.ranks(policy, seed)
            sample = [naive(m, protocol).expected(ranks).mean() for m in chosen]
        rows[policy, "exact"], rows[policy, "sampled"] = whole, sample
    labels = [m.label for m in chosen]
    return 100 * pd.DataFrame.from_dict(rows, orient="index", columns=labels).set_axis(
        pd.MultiIndex.from_tuples(rows), axis=0
    )

"""What the chapters on why sampled metrics mislead compute: orders by negatives, bends, ties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, metric
from sampled_metrics.consistency import (
    OrderByNegatives,
    expected_differences,
    order_by_negatives,
    sign,
)
from sampled_metrics.estimators import naive
from sampled_metrics.ranking.exact import RankIntervals, RankTies

from ..data import datasets
from ..display import figures

#: A frame or a series: pandas' stubs cannot tell what its columns hold.
Frame = Any

#: The recommenders of krichene2020, table 1: ranks of the one relevant item among 10,000.
TOY = {
    "A": [100, 100, 100, 100, 100],
    "B": [40, 40, 8437, 9266, 4482],
    "C": [212, 2, 743, 5342, 1548],
}
Told = dict[str, Any]  # numbers for the text, as tables.glued takes them


# --- the worth of a rank --------------------------------------------------------------------------


def draw_worths(shapes: Iterable[Metric], ranks: Mapping[str, ArrayLike], n_items: int) -> Figure:
    """Draw each metric over all ranks, and below them where the items of each recommender are.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure = draw_worths([metric("auc"), metric("ap")], {"A": [3, 5]}, 100)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['AUC', 'AP', 'A']
    >>> plt.close(figure)
    """
    figure, ax = figures.panels(height=3.9)
    grid = np.unique(np.r_[1 : min(301, n_items + 1), np.geomspace(1, n_items, 400).astype(int)])
    places = {
        "auc": (n_items // 4, (8, 8), "left"),
        "ap": (2, (-4, -16), "right"),
        "ndcg": (30, (4, 8), "left"),
    }
    for m in shapes:
        style = {"drawstyle": "steps-post"} if m.k else {}
        ax.plot(grid, m(grid, n_items), "k", lw=2, **style)
        at, up, side = places.get(m.kind, (m.k or 1, (4, 30), "left"))
        height = float(m(at, n_items))
        ax.annotate(m.label, (at, height), up, textcoords="offset points", ha=side)
    for depth, (name, mark) in enumerate(figures.marks(ranks).items(), 1):
        found = np.asarray(ranks[name])
        line = np.full(found.size, -0.1 * depth)
        ax.plot(found, line, mark["marker"], color=mark["color"], ms=7)
    figures.beside(ax, {name: -0.1 * i for i, name in enumerate(ranks, 1)})
    ax.set(xscale="log", xlabel="rank of the relevant item", ylabel="worth")
    ax.set(ylim=(-0.4, 1.15), yticks=[0, 0.5, 1])
    return figure


def worth_told(means: Frame, ranks: Mapping[str, Sequence[int]], n_items: int) -> Told:
    """What the first chapter says of three recommenders and of the worth of their ranks.

    Parameters
    ----------
    means : pandas.DataFrame
        A row for each recommender, a column for each metric, among them AP and NDCG.
    ranks : mapping of str to sequence of int
        Of A, B and C; beyond rank 100 lies the tail.
    n_items : int

    Examples
    --------
    >>> means = pd.DataFrame({"AP": [0.1, 0.3, 0.2], "NDCG": [0.1, 0.2, 0.3]}, [*"ABC"])
    >>> told = worth_told(means, {"A": [10], "B": [3], "C": [5]}, 1_000)
    >>> told["best"], float(told["c_over_a"][0])
    ('B by AP; C by NDCG', 2.0)
    """
    ap, ndcg = metric("ap"), metric("ndcg")
    tail = {
        m.label: sum(float(m(r)) for r in ranks["B"] if r > 100) / len(ranks["B"])
        for m in (ap, ndcg)
    }
    top = means.idxmax()
    said = {name: [label for label in top.index if top[label] == name] for name in top.unique()}
    return {
        "best": "; ".join(f"{name} by {', '.join(labels)}" for name, labels in said.items()),
        "last": n_items,
        "ndcg_last": float(ndcg(n_items)),
        "ndcg_edge": float(ndcg(100)),
        "ratio_ap": (float(ap(1) / ap(2)), ".0f"),
        "ratio_ndcg": (float(ndcg(1) / ndcg(2)), ".2f"),
        "c_over_a": (means["AP"]["C"] / means["AP"]["A"], ".1f"),
        "ap_a": (means["AP"]["A"], ".6f"),
        "ap_b": (means["AP"]["B"], ".6f"),
        "tail_b": (tail["AP"], ".6f"),
        "share_ap": (tail["AP"] / means["AP"]["B"], ".1%"),
        "share_ndcg": (tail["NDCG"] / means["NDCG"]["B"], ".0%"),
    }


def worth_exercises(n_items: int) -> Told:
    """Answers to the exercises on metrics: first ranks of half the worth, and pairs of items.

    Under "half" the first rank worth at most a half; under "steady" the first x at which items at
    1 and x are worth less than at 3 and 4, 0 if there is none; and means of two recommenders, P
    and Q, on an instance with one relevant item and one with ten.

    Examples
    --------
    >>> told = worth_exercises(1_000)
    >>> told["half_ap"], told["half_recall"], told["steady_recall"], told["p_recall"]
    (2, 11, 11, (0.5, '.2f'))
    """
    chosen = {name: metric(name) for name in ("auc", "ap", "ndcg", "recall@10")}
    told: Told = {}
    for name, m in chosen.items():
        told[f"half_{m.kind}"] = int(np.argmax(m.vector(n_items) <= 0.5)) + 1
        value, others = m.of_set([3, 4], n_items), range(5, n_items + 1)
        if m.of_set([1, n_items], n_items) < value:  # else never: the worth falls with the rank
            less = (x for x in others if m.of_set([1, x], n_items) < value - 1e-12)
            told[f"steady_{name.split('@')[0]}"] = next(less)
    sets = {"p": [[1], [*range(11, 21)]], "q": [[11], [1, 2, 3, 4, *range(11, 17)]]}
    for who, kind in ((who, kind) for who in sets for kind in ("recall", "precision")):
        values = [metric(f"{kind}@10").of_set(each) for each in sets[who]]
        told[f"{who}_{kind}"] = (float(np.mean(values)), ".2f")
    return told


# --- orders by the number of negatives ------------------------------------------------------------


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


def under_ties(intervals: RankIntervals, metrics: list[str], n_negatives: int, seed: int) -> Frame:
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
        Rows (policy, "exact" or "sampled"), a column for each metric; `attrs` has `n_negatives`.

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
    policies: tuple[RankTies | Literal["mean"], ...] = (
        "optimistic",
        "random",
        "mean",
        "pessimistic",
    )
    for policy in policies:
        whole = [intervals.evaluate(m, policy, seed).mean() for m in chosen]
        if policy == "mean":
            sample = [(law @ naive(m, protocol).values).mean() for m in chosen]
        else:
            ranks = intervals.ranks(policy, seed)
            sample = [naive(m, protocol).expected(ranks).mean() for m in chosen]
        rows[policy, "exact"], rows[policy, "sampled"] = whole, sample
    labels = [m.label for m in chosen]
    found = 100 * pd.DataFrame.from_dict(rows, orient="index", columns=labels).set_axis(
        pd.MultiIndex.from_tuples(rows), axis=0
    )
    found.attrs["n_negatives"] = n_negatives
    return found


# --- the start page -------------------------------------------------------------------------------


def averaged(intervals: RankIntervals, of: Metric | str, n_negatives: int) -> float:
    """Expected sampled metric of one recommender, averaged over its users and all orders of ties.

    Negatives are drawn without replacement.

    Examples
    --------
    >>> averaged(RankIntervals([0, 0], [1, 0], [4, 4]), "recall@1", 3)  # first, or first or second
    0.75
    """
    estimator = naive(metric(of), Protocol(intervals.n_candidates, n_negatives, replacement=False))
    expected, tied = estimator.expected(intervals.ranks("optimistic")), intervals.n_tied > 0
    if tied.any():
        counts = intervals.n_better[tied], intervals.n_tied[tied], intervals.n_candidates[tied]
        expected[tied] = RankIntervals(*counts).sampled_pmf(n_negatives) @ estimator.values
    return float(expected.mean())


def opening(
    intervals: Mapping[str, RankIntervals], of: Metric | str, n_negatives: int, points: int = 20
) -> tuple[Frame, dict[str, float], Told]:
    """Recall of X, Y and Z in percent by the number of negatives, averaged over ties, and words.

    Parameters
    ----------
    intervals : mapping of str to RankIntervals
        Of "X" and "Z" at least, which one number of negatives puts in the right order.
    of : Metric or str
    n_negatives : int
        Of the text, at which the order of X and Z is wrong.
    points : int
        Numbers of negatives from 10 to as many as there can be.

    Returns
    -------
    expected : pandas.DataFrame
        A row for each number of negatives, a column for each recommender.
    exact : dict of str to float
    told : dict

    Examples
    --------
    >>> expected, exact, told = opening(datasets.bundled_ranks(), "recall@10", 100, points=3)
    >>> round(float(expected.loc[100, "Z"]), 2), round(exact["Z"], 2)
    (54.16, 9.42)
    """
    n = next(iter(intervals.values())).n_candidates
    whole = int(n.min()) - 1
    sizes = {*np.geomspace(10, whole, points).round().astype(int).tolist(), n_negatives}
    rows = {
        m: {name: 100 * averaged(each, of, m) for name, each in intervals.items()}
        for m in sorted(sizes)
    }
    exact = {name: 100 * float(each.evaluate(of).mean()) for name, each in intervals.items()}
    wrong, right = n_negatives, whole  # X is ahead of Z at the first and not at the second
    while right - wrong > 1:
        middle = (wrong + right) // 2
        if averaged(intervals["X"], of, middle) < averaged(intervals["Z"], of, middle):
            right = middle
        else:
            wrong = middle
    told: Told = {"m": n_negatives, "late": right, "users": n.size}
    told["candidates"] = (float(n.mean()), ",.0f")
    for name in "XZ":
        sampled = rows[n_negatives][name]
        told[f"exact_{name.lower()}"] = (exact[name], ".1f")
        told[f"sampled_{name.lower()}"] = (sampled, ".1f")
        told[f"ratio_{name.lower()}"] = (sampled / exact[name], ".0f")
    return pd.DataFrame.from_dict(rows, orient="index"), exact, told


# --- three recommenders on MovieLens --------------------------------------------------------------


def orders_table(found: Mapping[str, Course], n_negatives: int) -> Frame:
    """Orders by each metric, best first: exact and sampled, and from how many negatives right.

    Examples
    --------
    >>> toy = {name: TOY[name] for name in "AC"}
    >>> found = {"NDCG": course(toy, "ndcg", Protocol(10_000, 9_999), points=5)}
    >>> orders_table(found, 99)["Right from m ="].tolist()
    [692]
    """
    columns = ["Metric", "Exact order", f"With {n_negatives} negatives", "Right from m ="]
    rows = [
        (label, *(o.replace(" ", "\N{NO-BREAK SPACE}") for o in orders), each.orders.starts[-1])
        for label, each in found.items()
        for orders in [(each.orders.exact, each.orders.at(n_negatives))]
    ]
    return pd.DataFrame(rows, columns=columns)


def verdicts_told(
    ranks: Mapping[str, ArrayLike], found: Mapping[str, Course], protocol: Protocol
) -> Told:
    """Which pairs are in the wrong order in expectation, and which metric is right latest.

    Parameters
    ----------
    ranks : mapping of str to array_like of int, shape (n_users,)
    found : mapping of str to Course
        Under the label of each metric.
    protocol : Protocol

    Examples
    --------
    >>> toy = {name: TOY[name] for name in "AC"}
    >>> protocol = Protocol(10_000, 99)
    >>> found = {"NDCG": course(toy, "ndcg", Protocol(10_000, 9_999), points=5)}
    >>> told = verdicts_told(toy, found, protocol)
    >>> told["named"], told["slow_from"]
    ('A and C (NDCG)', 692)
    """
    named, judged = [], 0
    for label in found:
        pairs = expected_differences(ranks, label, protocol)
        judged += len(pairs)
        wrong = pairs[~pairs["consistent"]]
        named += [f"{row.first} and {row.second} ({label})" for row in wrong.itertuples()]
    starts = {label: each.orders.starts[-1] for label, each in found.items()}
    slow = max(starts, key=lambda label: starts[label])
    n = np.broadcast_to(protocol.n_items, np.shape(next(iter(ranks.values()))))
    return {
        "m": protocol.n_negatives,
        "users": n.size,
        "n_min": int(n.min()),
        "n_max": int(n.max()),
        "slow_metric": slow,
        "slow_from": starts[slow],
        "slow_share": (starts[slow] / n.mean(), ".0%"),
        "wrong": len(named),
        "judged": judged,
        "named": ", ".join(named) or "none",
    }


def start_told() -> Told:
    """How surely X misses the top ten of a large sample, and its starts that do so more than Y.

    From the bundled ranks of MovieLens 1M, negatives drawn without replacement.

    Examples
    --------
    >>> told = start_told()
    >>> 0 <= told["below"] <= told["seeds"]
    True
    """
    bundle, seeds = datasets.bundled_variants(), datasets.bundled_seeds()
    x, y = (bundle[name, "as reproduced"].n_better + 1 for name in "XY")
    ten, thousand = (
        naive("recall@10", Protocol(seeds[0].n_candidates, m, replacement=False))
        for m in (10, 1_000)
    )
    of_y = thousand.expected(y).mean()
    below = [bool(thousand.expected(each.n_better + 1).mean() < of_y) for each in seeds]
    missed = {f"miss_{k}": (1 - ten.expected(r).mean(), ".3%") for k, r in (("x", x), ("y", y))}
    return {"below": sum(below), "seeds": len(seeds), **missed}


def tie_spread(intervals: RankIntervals) -> float:
    """Standard deviation of the mean exact AUC over random breakings of the ties.

    Examples
    --------
    >>> round(tie_spread(RankIntervals([0], [1], [3])), 3)
    0.25
    """
    n = intervals.n_candidates
    variance = ((intervals.n_tied + 1.0) ** 2 - 1) / 12 / (n - 1.0) ** 2
    return float(np.sqrt(variance.sum()) / n.size)


def ties_told(
    intervals: Mapping[str, RankIntervals], loose: str, by_ties: Frame, seed: int
) -> Told:
    """What the ties of one recommender do to AUC, to Recall@10 and to the order of all.

    Parameters
    ----------
    intervals : mapping of str to RankIntervals
    loose : str
        The recommender with the ties.
    by_ties : pandas.DataFrame
        As from :func:`under_ties`, of `loose`.
    seed : int
        Of the random breaking.

    Examples
    --------
    >>> two = {"A": RankIntervals([0, 0], [9, 9], [20, 20])}
    >>> two["B"] = RankIntervals([14, 14], [0, 0], [20, 20])
    >>> told = ties_told(two, "A", under_ties(two["A"], ["auc", "recall@10"], 12, seed=1), seed=1)
    >>> told["order_optimistic"], told["many"]
    ('A > B', 0)
    """
    tied, m = intervals[loose], int(by_ties.attrs["n_negatives"])
    n, many = tied.n_candidates, tied.n_tied > 100
    auc, recall = by_ties["AUC"].xs("exact", level=1), by_ties["Recall@10"]
    share = float((tied.n_tied / n)[many].mean()) if many.any() else 0.0
    sampled = naive("recall@10", Protocol(n, m, replacement=False))
    orders = {}
    ways: tuple[Literal["optimistic", "random"], ...] = ("optimistic", "random")
    for way in ways:
        means = {
            name: sampled.expected(each.ranks(way, np.random.default_rng(seed))).mean()
            for name, each in intervals.items()
        }
        orders[f"order_{way}"] = " > ".join(sorted(means, key=lambda k: -means[k]))
    return {
        **orders,
        "loose": loose,
        "auc_low": (auc["pessimistic"], ".1f"),
        "auc_mean": (auc["mean"], ".1f"),
        "auc_high": (auc["optimistic"], ".1f"),
        "recall_move": (recall["optimistic", "exact"] - recall["pessimistic", "exact"], ".3f"),
        "sampled_low": (recall["pessimistic", "sampled"], ".1f"),
        "sampled_high": (recall["optimistic", "sampled"], ".1f"),
        "first_many": int((tied.n_better + 1)[many].min()) if many.any() else 1,
        "many": int(many.sum()),
        "tied_share": (share, ".0%"),
        "tie_sd": (100 * tie_spread(tied), ".2f"),
        "envelope": (100 * share * np.sqrt(many.sum() / 12) / n.size, ".2f"),
    }


def draw_buckets(
    ranks: Mapping[str, ArrayLike], tied: RankIntervals, name: str, seed: int
) -> Figure:
    """Where each recommender's ranks are, and where those of one are under three tie policies.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure = draw_buckets({"A": [1, 30]}, RankIntervals([0, 9], [0, 40], [60, 60]), "A", 1)
    >>> figure.axes[1].get_legend().get_title().get_text()
    'A, among its ties'
    >>> plt.close(figure)
    """
    most = tied.n_candidates.max()
    edges = [e for e in (10, 20, 50, 100, 200, 500, 1000, 2000) if e < most]
    ways: dict[str, Literal["optimistic", "random", "pessimistic"]] = {
        "first": "optimistic",
        "at random": "random",
        "last": "pessimistic",
    }
    drawn = {said: tied.ranks(way, np.random.default_rng(seed)) for said, way in ways.items()}
    figure, (above, below) = figures.panels(2, 1, height=2.8, sharex=True)
    figures.rank_buckets(above, ranks, edges).legend(loc="upper left")
    title = f"{name}, among its ties"
    figures.rank_buckets(below, drawn, edges).legend(loc="upper left", title=title)
    above.set_ylabel("users")
    below.set(xlabel="rank", ylabel="users")
    return figure


# --- the distribution of the sampled rank, and one negative ---------------------------------------


def draw_sampled_ranks(protocol: Protocol, ranks: Iterable[int], top: int = 10) -> Figure:
    """Draw the distribution of the sampled rank: lines with replacement, dots without.

    Parameters
    ----------
    protocol : Protocol
    ranks : iterable of int
        True ranks, a curve for each; the last is the deepest.
    top : int
        A dotted line behind this sampled rank.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure = draw_sampled_ranks(Protocol(1_000, 20), [5, 300])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['rank 5', 'rank 300']
    >>> plt.close(figure)
    """
    figure, ax = figures.panels(height=3.3)
    places, deepest = np.arange(1, protocol.n_negatives + 2), 1
    shown = {f"rank {r:,}": r for r in ranks}
    with_, without = (replace(protocol, replacement=way) for way in (True, False))
    for (label, r), mark in zip(shown.items(), figures.marks(shown).values(), strict=True):
        mass, style = with_.pmf(r), {"color": mark["color"]}
        ax.plot(places, mass, **style)
        ax.plot(places, without.pmf(r), ".", ms=5, **style)
        peak = int(mass.argmax())
        at = (places[peak], mass[peak])
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # over the dotted line
        ax.annotate(label, at, (8, 7), textcoords="offset points", bbox=box, **style)
        deepest = max(deepest, int(with_.mean(r) + 4 * np.sqrt(with_.variance(r))))
    ax.axvline(top + 0.5, color="#5b5b5b", linestyle=":", linewidth=1)
    ax.set(xlabel="sampled rank", ylabel="probability", xlim=(0, deepest))
    return figure


def draw_expected(metrics: Sequence[str], n_items: int, sizes: Iterable[int], top: int) -> Figure:
    """Draw expected sampled metrics by the true rank for numbers of negatives, exact ones in black.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure = draw_expected(["auc", "ap"], 1_000, [10, 100], 200)
    >>> [ax.get_title() for ax in figure.axes]
    ['AUC', 'AP']
    >>> plt.close(figure)
    """
    ranks = np.arange(1, min(top, n_items) + 1)
    shown = np.unique(np.r_[ranks[:20], ranks[:: max(1, ranks.size // 300)]])
    drawn = {m: Protocol(n_items, m, replacement=True) for m in sizes}
    figure, axes = figures.panels(
        -(-len(metrics) // 2), 2, height=2.8, sharex=True, sharey=True, squeeze=False
    )
    for ax, name in zip(axes.flat, metrics, strict=False):
        curves = {m: naive(name, each).expected(shown) for m, each in drawn.items()}
        figures.by_negatives(ax, shown, curves, metric(name)(shown, n_items))
        ax.set(title=metric(name).label, ylim=(-0.03, 1.05), xticks=[1, shown[-1] // 2, shown[-1]])
        ends = {str(line.get_label()): float(line.get_ydata()[-1]) for line in ax.lines}
        if metric(name).kind != "auc" and ax in axes[:, -1]:
            figures.beside(ax, ends, x=1.03, gap=0.09, color="black", fontsize=10)
    for ax in axes.flat[len(metrics) :]:
        ax.set_visible(False)
    figure.supxlabel("true rank", fontsize=12)
    return figure


def draw_bends(metrics: Sequence[str], n_items: int, sizes: Sequence[int]) -> Figure:
    """Draw expected sampled metrics, from 1 at the first rank to 0 at the last, by negatives.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure = draw_bends(["ap"], 1_000, [1, 10])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '10']
    >>> plt.close(figure)
    """
    grid = np.arange(1, n_items + 1)[:: max(1, n_items // 400)]
    figure, axes = figures.panels(
        -(-len(metrics) // 2), 2, height=2.8, sharex=True, sharey=True, squeeze=False
    )
    heights = np.linspace(0.75, 0.15, len(sizes))
    for ax, name in zip(axes.flat, metrics, strict=False):
        exact, curves = metric(name)(grid, n_items), {}
        for m in sizes:
            curve = naive(name, Protocol(n_items, m, replacement=True)).expected(grid)
            fall = curve[0] - curve[-1]
            curves[m] = (curve - curve[-1]) / (fall if fall > 1e-12 else np.nan)
        figures.by_negatives(ax, grid, curves, (exact - exact[-1]) / (exact[0] - exact[-1]))
        ax.set(title=metric(name).label, xticks=[1, n_items // 2, n_items])
        named = {f"m = {m:,}": float(h) for m, h in zip(sizes, heights, strict=True)}
        for text in figures.on_curves(ax, named).texts:
            text.set_text(text.get_text().removeprefix("m = "))
    for ax in axes.flat[len(metrics) :]:
        ax.set_visible(False)
    figure.supxlabel("true rank", fontsize=12)
    return figure


def limit_of_two(of: Metric | str) -> float:
    """Share of variance that no line explains of a metric's expectation with two negatives.

    In the limit of a large catalogue; the expectation is then a parabola in the rank.

    Examples
    --------
    >>> round(limit_of_two("recall@1"), 4), limit_of_two("auc")
    (0.0625, 0.0)
    """
    first, second, third = metric(of)([1, 2, 3], 3)
    bend = float(first - 2 * second + third)
    return bend**2 / (bend**2 + 15 * float(first - third) ** 2)


def rank_told(protocol: Protocol, rank: int) -> Told:
    """What the chapter on the sampled rank says of one item and of its sampled ranks.

    Examples
    --------
    >>> told = rank_told(Protocol(10_000, 99), 60)
    >>> told["above"], told["list"], round(told["mean"][0], 3)
    (59, 100, 1.584)
    """
    n, m = protocol.n_items, protocol.n_negatives
    assert isinstance(n, int)
    law, auc = protocol.pmf(rank), metric("auc")
    return {
        "n": n,
        "m": m,
        "rank": rank,
        "ten": 10 * rank,
        "p": (rank - 1) / (n - 1),
        "above": rank - 1,
        "others": n - 1,
        "list": m + 1,
        "first": (float(law[0]), ".0%"),
        "second": (float(law[1]), ".0%"),
        "none": (float(law[0]), ".3f"),
        "mean": (float(protocol.mean(rank)), ".2f"),
        "in_top": (float(protocol.cdf(10 * rank)[9]), ".0%"),
        "factor": ((n - 1 - m) / (n - 2), ".4f"),
        "too_large": float(protocol.sf(2)[1]),
        "auc_list": (float(auc(2, m + 1)), ".4f"),
        "auc_all": (float(auc(2, n)), ".4f"),
    }


def biases(ranks: Mapping[str, ArrayLike], n_items: int, sizes: Iterable[int]) -> Frame:
    """Bias of sampled Average Precision, a row for each number of negatives.

    Examples
    --------
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


def reversal_told(
    ranks: Mapping[str, ArrayLike], ap: Course, runs: Frame, protocol: Protocol
) -> Told:
    """What the chapter on the reversal says of A, B and C.

    Parameters
    ----------
    ranks : mapping of str to array_like of int
    ap : Course
        Of Average Precision.
    runs : pandas.DataFrame
        Simulated sampled AP: a row for each evaluation, a column for each recommender.
    protocol : Protocol
        That of the runs.

    Examples
    --------
    >>> protocol, whole = Protocol(10_000, 99), Protocol(10_000, 9_999)
    >>> runs = pd.DataFrame({"A": [0.6, 0.7], "B": [0.5, 0.5], "C": [0.5, 0.65]})
    >>> told = reversal_told(TOY, course(TOY, "ap", whole, points=9), runs, protocol)
    >>> told["ap_exact"], told["ap_sampled"], float(told["wins"][0])
    ('C > B > A', 'A > B > C', 1.0)
    """
    m, means = protocol.n_negatives, naive("ap", protocol)
    sampled = {name: float(means.expected(r).mean()) for name, r in ranks.items()}
    gap = ap.expected["B"] - ap.expected["A"]
    whole = replace(protocol, n_negatives=ap.orders.n_negatives)
    told: Told = {f"sampled_{name}": (value, ".2f") for name, value in sampled.items()}
    for name in ("ap", "ndcg", "recall@10"):
        for a, b in ("AB", "AC", "BC"):
            found = order_by_negatives({a: ranks[a], b: ranks[b]}, name, whole)
            flips = " and ".join(f"{size:,}" for size in found.flips) or "none"
            told[f"{name.split('@')[0]}_{a}{b}"] = flips
            if (name, a) == ("recall@10", "B"):
                told["recall_right"] = found.right_from or "none"
    return told | {
        "m": m,
        "n": protocol.n_items,
        "repetitions": len(runs),
        "ap_exact": ap.orders.exact,
        "ap_sampled": ap.orders.at(m),
        "wins": ((runs["A"] > runs["C"]).mean(), ".0%"),
        "lead": (float(gap.max()), ".4f"),
        "times": (sampled["A"] / sampled["B"], ".2f"),
        "exact_times": (ap.exact["C"] / ap.exact["A"], ".0f"),
    }


def reversal_exercises() -> Told:
    """Both sides of the smallest counterexample, and from where Recall@10 of A and B is right.

    Examples
    --------
    >>> reversal_exercises()["left_ap"][0] > reversal_exercises()["right_ap"][0]
    True
    """
    told: Told = {}
    for name in ("ap", "ndcg", "auc"):
        one, two, three = (float(value) for value in metric(name)([1, 2, 3], 3))
        told |= {f"left_{name}": (one + 2 * three, ".3f"), f"right_{name}": (3 * two, ".3f")}
    pair, drawn = {name: TOY[name] for name in "AB"}, Protocol(10_000, 9_999, replacement=False)
    return told | {"tie": order_by_negatives(pair, "recall@10", drawn).right_from}

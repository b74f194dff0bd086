"""The chapter on MovieLens: recommenders, their ties and their random starts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Protocol, metric
from sampled_metrics.estimators import naive
from sampled_metrics.ranking.intervals import RankIntervals, RankTies

from ..display import figures
from ..display.tables import Frame, Texts
from ..experiments.theory import expected_differences
from .inconsistency import Course


def under_ties(intervals: RankIntervals, metrics: list[str], n_negatives: int, seed: int) -> Frame:
    """Exact and expected sampled metrics, in percent, under four ways to break ties, of which
    `seed` makes one; negatives without replacement. Rows (policy, "exact" or "sampled"), a
    column for each metric; `attrs` has `n_negatives`.
    """
    n, parsed_metrics = intervals.n_candidates, [metric(name) for name in metrics]
    protocol = Protocol(n, n_negatives, replacement=False)
    pmf = intervals.sampled_pmf(n_negatives)
    reported = [naive(parsed_metric, protocol) for parsed_metric in parsed_metrics]
    policies: list[RankTies | Literal["mean"]] = ["optimistic", "random", "mean", "pessimistic"]
    rows = {}
    for policy in policies:
        rows[policy, "exact"] = [intervals.evaluate(m, policy, seed).mean() for m in parsed_metrics]
        if policy == "mean":
            sampled = [(pmf @ estimator.values).mean() for estimator in reported]
        else:
            ranks = intervals.ranks(policy, seed)
            sampled = [estimator.expected(ranks).mean() for estimator in reported]
        rows[policy, "sampled"] = sampled
    labels = [parsed_metric.label for parsed_metric in parsed_metrics]
    percents = 100 * pd.DataFrame.from_dict(rows, orient="index", columns=labels).set_axis(
        pd.MultiIndex.from_tuples(rows), axis=0
    )
    percents.attrs["n_negatives"] = n_negatives
    return percents


def verdicts_texts(
    ranks: Mapping[str, ArrayLike], courses: Mapping[str, Course], protocol: Protocol
) -> Texts:
    """Which pairs are ordered wrongly in expectation, and which metric needs the most negatives.

    >>> from sampled_book.chapters.inconsistency import TOY, course
    >>> toy = {name: TOY[name] for name in "AC"}
    >>> protocol = Protocol(10_000, 99)
    >>> found = {"NDCG": course(toy, "ndcg", Protocol(10_000, 9_999), points=5)}
    >>> texts = verdicts_texts(toy, found, protocol)
    >>> texts["wrong_by_metric"], texts["slow_from"]
    ('1 on NDCG', 692)
    """
    wrong_counts, judged = {}, 0
    for label in courses:
        pairs = expected_differences(ranks, label, protocol)
        judged += len(pairs)
        wrong_counts[label] = int((~pairs["consistent"]).sum())
    starts = {label: metric_course.orders.starts[-1] for label, metric_course in courses.items()}
    slow = max(starts, key=lambda label: starts[label])
    return {
        "m": protocol.n_negatives,
        "slow_metric": slow,
        "slow_from": starts[slow],
        "slow_share": (starts[slow] / float(np.mean(protocol.n_items)), ".0%"),
        "wrong": sum(wrong_counts.values()),
        "judged": judged,
        "wrong_by_metric": ", ".join(f"{k} on {label}" for label, k in wrong_counts.items() if k),
    }


def difference_texts(
    intervals: Mapping[str, RankIntervals], ranks: Mapping[str, ArrayLike]
) -> Texts:
    """Exact differences on Recall@10, in points, with standard errors over users; how many
    held-out films of each recommender are beyond rank 2,000; and its median rank.

    >>> two = {"A": RankIntervals([0, 0], [0, 0], [60, 60])}
    >>> two["B"] = RankIntervals([0, 30], [0, 0], [60, 60])
    >>> difference_texts(two, {"A": [1, 1], "B": [1, 2001]})  # doctest: +NORMALIZE_WHITESPACE
    {'differences': 'A − B 50.0 ± 50.0', 'beyond_a': 0, 'median_a': 1, 'beyond_b': 1,
     'median_b': 1001}
    """
    recall = {name: each.evaluate("recall@10", "mean") for name, each in intervals.items()}
    best_first = sorted(recall, key=lambda name: -recall[name].mean())
    written = []
    for a, b in combinations(best_first, 2):
        points = 100 * (recall[a] - recall[b])
        error = points.std(ddof=1) / np.sqrt(points.size)
        written.append(f"{a} \N{MINUS SIGN} {b} {points.mean():.1f} ± {error:.1f}")
    texts: Texts = {"differences": ", ".join(written)}
    for name, own in ranks.items():
        values = np.asarray(own)
        texts[f"beyond_{name.lower()}"] = int((values > 2_000).sum())
        texts[f"median_{name.lower()}"] = round(float(np.median(values)))
    return texts


def ties_table(by_ties: Frame) -> Frame:
    """The table of :func:`under_ties` with a row for each policy.

    >>> intervals = RankIntervals([0], [3], [9])
    >>> ties_table(under_ties(intervals, ["auc", "recall@10"], 5, seed=1))["Ties"].tolist()
    ['optimistic', 'random', 'mean', 'pessimistic']
    """
    auc, recall = by_ties["AUC"].unstack(), by_ties["Recall@10"].unstack()
    policies = list(dict.fromkeys(by_ties.index.get_level_values(0)))
    return pd.DataFrame(
        {
            "Ties": policies,
            "AUC, exact": auc["exact"].loc[policies].to_numpy(),
            "Recall@10, exact": recall["exact"].loc[policies].to_numpy(),
            "Recall@10, sampled": recall["sampled"].loc[policies].to_numpy(),
        }
    )


def plot_courses(courses: Mapping[str, Course], n_negatives: int) -> Figure:
    """Plot a panel for each metric: expected values by the number of negatives, as multiples of the
    mean of all recommenders. Wedges are exact values, labelled with the name and the value.

    >>> from sampled_book.chapters.inconsistency import TOY, course
    >>> toy = {name: TOY[name] for name in "AC"}
    >>> figure = plot_courses({"NDCG": course(toy, "ndcg", Protocol(10_000, 9_999), points=5)}, 99)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['692', 'A 15.0%', 'C 20.8%', 'm = 99']
    """
    figure, axes = figures.grid(len(courses), 2.9)
    for ax, (label, absolute) in zip(axes, courses.items(), strict=True):
        shown = absolute.relative()
        curves = {str(name): shown.expected[name] for name in shown.expected}
        figures.curves(ax, shown.expected.index, curves)
        ax.set(xscale="log", title=label)
        ax.axvline(n_negatives, color="#5b5b5b", linestyle=":", linewidth=1)
        for line in ax.lines:
            line.set_marker("")  # wedges name the curves
        for m, height in shown.crossings:
            ax.plot(m, height, "o", ms=9, mfc="none", mec="black", mew=1.5, zorder=5)
        if shown.crossings:
            last, height = max(shown.crossings)
            figures.note(ax, f"{last:,}", (last, height), (7, 0), va="center", fontsize=10)
        edge = {"transform": ax.get_yaxis_transform(), "clip_on": False, "markersize": 8}
        for name, mark in figures.marks(shown.exact).items():
            ax.plot(1.02, shown.exact[name], "<", color=mark["color"], **edge)
        names = {f"{k} {absolute.exact[k]:.1%}": height for k, height in shown.exact.items()}
        figures.beside(ax, names, x=1.07, gap=0.12)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes[-1].text(n_negatives, 0.35, f"m = {n_negatives:,}", ha="center", fontsize=10, bbox=box,
                  transform=axes[-1].get_xaxis_transform())  # fmt: skip
    figure.supxlabel("negatives m; wedges: exact", fontsize=12)
    figure.supylabel("multiple of the mean", fontsize=12)
    return figure


def tie_spread(intervals: RankIntervals) -> float:
    """Standard deviation of the mean exact AUC over random breakings of the ties."""
    n = intervals.n_candidates
    variance = ((intervals.n_tied + 1.0) ** 2 - 1) / 12 / (n - 1.0) ** 2
    return float(np.sqrt(variance.sum()) / n.size)


def ties_texts(
    intervals: Mapping[str, RankIntervals], loose: str, by_ties: Frame, seed: int
) -> Texts:
    """Effects of the ties of one recommender (`loose`) on AUC, Recall@10 and the order of all;
    `by_ties` is from :func:`under_ties`.

    >>> two = {"A": RankIntervals([0, 0], [9, 9], [20, 20])}
    >>> two["B"] = RankIntervals([14, 14], [0, 0], [20, 20])
    >>> texts = ties_texts(two, "A", under_ties(two["A"], ["auc", "recall@10"], 12, seed=1), seed=1)
    >>> texts["order_optimistic"], texts["many"]
    ('A > B', 0)
    """
    tied, m = intervals[loose], int(by_ties.attrs["n_negatives"])
    n, has_many_ties = tied.n_candidates, tied.n_tied > 100
    auc, recall = by_ties["AUC"].xs("exact", level=1), by_ties["Recall@10"]
    share = float((tied.n_tied / n)[has_many_ties].mean()) if has_many_ties.any() else 0.0
    sampled = naive("recall@10", Protocol(n, m, replacement=False))
    other = 100 * next(iter(intervals.values())).evaluate("auc").mean()
    low, high = auc["pessimistic"], auc["optimistic"]
    orders = {}
    policies: tuple[Literal["optimistic", "random"], ...] = ("optimistic", "random")
    for policy in policies:
        means = {
            name: sampled.expected(rank_intervals.ranks(policy, np.random.default_rng(seed))).mean()
            for name, rank_intervals in intervals.items()
        }
        orders[f"order_{policy}"] = " > ".join(sorted(means, key=lambda k: -means[k]))
    return {
        **orders,
        "loose": loose,
        "auc_other": (other, ".1f"),
        "win_share": ((other - low) / (high - low) if high > low else 1.0, ".0%", "down"),
        "sampled_low": (recall["pessimistic", "sampled"], ".1f"),
        "sampled_high": (recall["optimistic", "sampled"], ".1f"),
        "many": int(has_many_ties.sum()),
        "tied_share": (share, ".0%"),
        "tie_sd": (100 * tie_spread(tied), ".2f"),
    }


def plot_buckets(ranks: Mapping[str, ArrayLike], tied: RankIntervals, name: str) -> Figure:
    """Plot where each recommender's ranks are, and those of one under three tie policies.

    >>> figure = plot_buckets({"A": [1, 30]}, RankIntervals([0, 9], [0, 40], [60, 60]), "A")
    >>> figure.axes[1].get_legend().get_title().get_text()
    'A, among its ties'
    """
    max_rank = tied.n_candidates.max()
    edges = [edge for edge in (10, 20, 50, 100, 200, 500, 1000, 2000) if edge < max_rank]
    drawn = {
        "first": tied.ranks("optimistic"),
        "at random": np.asarray(ranks[name]),  # the draw of the panel above
        "last": tied.ranks("pessimistic"),
    }
    figure, (above, below) = figures.panels(2, 1, height=2.8, sharex=True)
    figures.rank_buckets(above, ranks, edges).legend(loc="upper left")
    title = f"{name}, among its ties"
    figures.rank_buckets(below, drawn, edges)
    colour = figures.marks(dict.fromkeys([*ranks, name]))[name]["color"]
    shades = ("white", colour, "#333333")
    for bars, shade in zip(below.containers, shades, strict=True):
        for bar in bars:
            bar.set(facecolor=shade, edgecolor=colour, hatch="")
    below.legend(loc="upper left", title=title)
    above.set_ylabel("users")
    below.set(xlabel="rank", ylabel="users")
    return figure

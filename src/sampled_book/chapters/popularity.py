"""Figures, tables and text values on popularity of the appendix on negatives."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import metric
from sampled_metrics.metrics import Metric
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark
from ..display import figures
from ..display.tables import Frame, Texts
from ..experiments import protocols
from . import instead


def of_best(bench: instead.Bench) -> Frame:
    """Popular's expected metric as a part of the best recommender's: a row for each data set, a
    column for each protocol, from the fewest uniform negatives to all items.

    >>> bench = instead.Bench()
    >>> of_best(bench).loc["lastfm", ["100 uniform", "all items"]].round(2).tolist()
    [0.49, 0.44]
    """
    parts = {}
    for name in bench.where:
        means = bench.means(name)
        parts[name] = means.loc[protocols.POPULAR] / means.max()
    return pd.DataFrame(parts).T


def plot_of_best(parts: Frame) -> Figure:
    """Plot a row of marks for each data set: darker for more uniform negatives, black for all
    items, hollow for negatives drawn by popularity.

    >>> columns = ["20 uniform", "100 uniform", "100 by popularity", "all items"]
    >>> figure = plot_of_best(pd.DataFrame([[0.9, 0.6, 0.3, 0.4]], ["one"], columns))
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['20 uniform', '100 uniform', 'all items', '100 by popularity']
    """
    uniform = [name for name in parts if str(name).endswith("uniform")]
    (drawn,) = (name for name in parts if str(name).endswith("by popularity"))
    shades = plt.get_cmap("Greys")(np.linspace(0.35, 0.75, len(uniform)))
    styles = {
        name: {"marker": marker, "color": shade}
        for name, marker, shade in zip(uniform, ("o", "s", "^", "v", "P"), shades, strict=False)
    }
    styles[protocols.ALL] = {"marker": "D", "color": "black"}
    styles[drawn] = {"marker": "o", "color": "black", "mfc": "none", "mew": 1.6}
    figure, ax = figures.panels(height=4.2)
    places = np.arange(len(parts))
    for name, style in styles.items():
        ax.plot(parts[name], places, linestyle="", label=name, markersize=9, **style)
    ax.set(yticks=places, yticklabels=list(parts.index), ylim=(len(parts) - 0.5, -0.5))
    ax.grid(axis="y", visible=False)
    ax.hlines(places, 0, 1, color="#dddddd", linewidth=0.6, zorder=0)
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)
    ax.set(xlabel="Popular / best recommender", xlim=(0, 1))
    return figure


def depth_table(bench: instead.Bench) -> Frame:
    """Popular's part of the best among negatives, in the list of k n / m of the catalogue, and in
    the list of k.

    >>> depth_table(instead.Bench()).set_index("Data").loc["yelp"].round(2).tolist()
    [2001.0, 0.49, 0.5, 0.19]
    """
    k, m = metric(bench.metric_name).k or 1, bench.n_negatives
    rows = []
    for name, effects in bench.cell("effects").groupby("data", sort=False):
        values = effects.set_index("recommender")[["sampled", "deep", "exact"]]
        parts = values.loc[protocols.POPULAR] / values.max()
        rows.append((name, round(k * bench.candidates[str(name)] / m), *parts))
    columns = ["Data", "k n / m", f"{k} of {m}", "k n / m of all", f"{k} of all"]
    return pd.DataFrame(rows, columns=columns)


def reversed_table(bench: instead.Bench) -> Frame:
    """Pairs of recommenders, and how many of them uniform negatives, without and with replacement,
    and negatives drawn by popularity (with replacement) order wrongly in expectation.

    >>> bench = instead.Bench()
    >>> bench.where = {"ml-1m": bench.where["ml-1m"]}  # one data set takes a second
    >>> reversed_table(bench).set_index("Data").loc["ml-1m"].tolist()
    [36, 1, 1, 7]
    """
    m, parsed_metric, rows = bench.n_negatives, metric(bench.metric_name), []
    worth = parsed_metric(np.arange(1, m + 2))
    for name, path in bench.where.items():
        means, ranks, pairs = bench.means(name), benchmark.ranks(name, path), bench.tables["pairs"]
        means["with replacement"] = {
            key: float((ranks[str(key)].sampled_pmf(m, replacement=True) @ worth).mean())
            for key in means.index
        }
        counts = protocols.reversed_orders(means, pairs[pairs["data"] == name], parsed_metric.name)
        shown = ("pairs", f"{m} uniform", "with replacement", f"{m} by popularity")
        rows.append((name, *(int(counts[key]) for key in shown)))
    columns = ["Data", "Pairs", "Uniform, distinct", "Uniform, with replacement", "By popularity"]
    return pd.DataFrame(rows, columns=columns)


def texts(bench: instead.Bench, parts: Frame, wrong: Frame) -> Texts:
    """What the text says of the figure and of the tables."""
    m = bench.n_negatives
    sampled, drawn = parts[f"{m} uniform"], parts[f"{m} by popularity"]
    exact, uniform = parts[protocols.ALL], [c for c in parts if str(c).endswith("uniform")]
    falls = (parts[[*uniform, protocols.ALL]].diff(axis=1).iloc[:, 1:] < 0).all(axis=1)
    rising = parts.loc[parts[uniform[-1]] < exact]
    counted: Texts = {
        "m": m,
        "falls": int(falls.sum()),
        "rising": ", ".join(rising.index),
        "rising_most": uniform[-1].removesuffix(" uniform"),
        "rising_from": ", ".join(f"{value:.0%}" for value in rising[uniform[-1]]),
        "rising_to": ", ".join(f"{value:.0%}" for value in rising[protocols.ALL]),
        "below": int((drawn < exact).sum()),
        "better": int((wrong["By popularity"] < wrong["Uniform, with replacement"]).sum()),
        "wrong_pairs": int(wrong["Pairs"].sum()),
        "wrong_distinct": int(wrong["Uniform, distinct"].sum()),
        "wrong_with": int(wrong["Uniform, with replacement"].sum()),
        "wrong_drawn": int(wrong["By popularity"].sum()),
    }
    for key, values in (("near", sampled), ("all", exact)):
        counted[f"{key}_low"] = (float(values.min()), ".0%")
        counted[f"{key}_high"] = (float(values.max()), ".0%")
    return counted


def depth_texts(ranks: Mapping[str, RankIntervals], name: str, n_negatives: int) -> Texts:
    """Which part of the ranking the list of k among negatives is about, and what the first and the
    last recommender have there and among the negatives.

    >>> toy = {"A": RankIntervals([0, 9], [0, 0], [41, 41])}
    >>> texts = depth_texts(toy, "recall@1", 4)
    >>> texts["deep"], texts["x_deep"]
    (10, (1.0, '.1%'))
    """
    parsed_metric = metric(name)
    recommenders = list(ranks.values())
    candidates = float(recommenders[-1].n_candidates.mean())
    deep = Metric(parsed_metric.base, round((parsed_metric.k or 1) * candidates / n_negatives))
    worth = parsed_metric(np.arange(1, n_negatives + 2))
    texts: Texts = {"candidates": round(candidates), "deep": deep.k}
    for key, each in (("x", recommenders[0]), ("z", recommenders[-1])):
        texts[f"{key}_deep"] = (float(each.evaluate(deep).mean()), ".1%")
        texts[f"{key}_sampled"] = (float((each.sampled_pmf(n_negatives) @ worth).mean()), ".1%")
    return texts

"""Figures, tables and text values of the chapter on reduced corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..data.retrieval import Runs
from ..display import figures
from ..display.tables import Frame
from ..experiments import corpora

GREY = "#8a8a8a"
#: Models of a cheap pool: one that matches words, and one that does not.
CHEAP = ("BM25 k1=0.9 b=0.4", "LSA 300")


def plot_answer(both: Frame, leads: Frame) -> Figure:
    """Plot scores on NanoBEIR against scores on the whole corpora (:func:`corpora.both`), and the
    share of reversed pairs by the lead on NanoBEIR (:func:`corpora.reversed_by_gap`).

    >>> both = pd.DataFrame({"task": ["NQ"], "full": [0.4], "reduced": [0.6]})
    >>> leads = pd.DataFrame({"low": [0, 0.01], "high": [0.01, np.inf], "pairs": [4, 9]})
    >>> figure = plot_answer(both, leads.assign(reversed=[1, 0], share=[0.25, 0.0]))
    >>> [text.get_text() for text in figure.axes[1].texts]
    ['1 of 4', '0 of 9']
    """
    figure, (left, right) = figures.panels(1, 2, height=3.3)
    left.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    left.plot(both["full"], both["reduced"], "o", color=GREY, ms=4, alpha=0.5, mew=0)
    means = both.groupby("task")[["full", "reduced"]].mean()
    left.plot(means["full"], means["reduced"], "ks", ms=6)
    rise = means["reduced"] - means["full"]
    arrow = {"arrowstyle": "-", "color": "black", "linewidth": 0.8, "shrinkB": 4}
    for task, place in ((rise.idxmax(), (0.02, 0.8)), (rise.idxmin(), (0.6, 0.35))):
        point = (means.loc[task, "full"], means.loc[task, "reduced"])
        left.annotate(task, point, place, fontsize=10, arrowprops=arrow)
    left.set(xlabel="NDCG@10, whole corpus", ylabel="NDCG@10, NanoBEIR", xlim=(0, 1), ylim=(0, 1))
    places, white = range(len(leads)), {"facecolor": "white", "edgecolor": "none", "pad": 1}
    right.barh(places, 100 * leads["share"], color=GREY, height=0.75)
    row: Any
    for y, row in enumerate(leads.itertuples()):
        label = f"{row.reversed} of {row.pairs:,}"
        right.annotate(label, (100 * row.share + 1, y), va="center", fontsize=10, bbox=white)
    right.axvline(50, color="black", linestyle=":", linewidth=1, zorder=0)
    right.set(xlabel="pairs reversed, in %", ylabel="lead on NanoBEIR, in points", xlim=(0, 75))
    right.set_yticks(places, [_range(row.low, row.high) for row in leads.itertuples()])
    right.invert_yaxis()
    right.grid(axis="y", visible=False)
    return figure


def _range(low: float, high: float) -> str:
    """A range of leads, in points: "0.5 to 1", "over 5".

    >>> _range(0, 0.005), _range(0.005, 0.01), _range(0.05, np.inf)
    ('to 0.5', '0.5 to 1', 'over 5')
    """
    if np.isinf(high):
        return f"over {100 * low:g}"
    return f"{100 * low:g} to {100 * high:g}" if low else f"to {100 * high:g}"


def plot_growth(expected: Frame, n_kept: int, named: Mapping[str, str]) -> Figure:
    """Plot expected metrics (:func:`corpora.expected`) against the documents of the corpus, and the
    lead of the second over the first of two `named` models, which are black, by line style.

    >>> expected = pd.DataFrame([[0.5, 0.2], [0.4, 0.3]], index=["a", "b"], columns=[0, 100])
    >>> figure = plot_growth(expected, 20, {"a": "-", "b": "--"})
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['a', 'b']
    >>> figure.axes[1].lines[0].get_ydata().round(1).tolist()
    [-10.0, 10.0]
    """
    figure, (ax, lead_ax) = figures.panels(1, 2, height=3.6)
    documents = np.array(expected.columns) + n_kept
    for model, row in expected.iterrows():
        if model not in named:
            ax.plot(documents, row, color="#c4c4c4", linewidth=1.4)
    for model, style in named.items():
        ax.plot(documents, expected.loc[model], style, color="black", linewidth=1.8)
    ax.set(ylabel="expected NDCG@10", ylim=(0, None))
    arrow = {"arrowstyle": "-", "color": "black", "linewidth": 0.8}
    first, second = named
    for name, place, at in ((first, (0.15, 0.06), len(documents) // 2), (second, (0.2, 0.93), 1)):
        point = (float(documents[at]), float(expected.loc[name].iloc[at]))
        ax.annotate(name, point, place, textcoords="axes fraction", arrowprops=arrow)
    lead_ax.plot(documents, 100 * (expected.loc[second] - expected.loc[first]), color="black")
    lead_ax.axhline(0, color=GREY, linewidth=1)
    lead_ax.set_ylabel(f"lead of {second}, points")
    for axes in (ax, lead_ax):
        axes.set(xlabel="documents of the corpus", xlim=(documents[0], documents[-1]))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def growth(expected: Frame, n_kept: int) -> pd.DataFrame:
    """The table of a growing corpus, from :func:`corpora.expected`; its last column is the whole.

    >>> expected = pd.DataFrame({0: [0.5, 0.4], 100: [0.2, 0.3]})
    >>> growth(expected, 20)["Reversed pairs"].tolist()
    [1, 0]
    """
    whole = expected.iloc[:, -1]
    return pd.DataFrame({
        "Documents": [size + n_kept for size in expected],
        "NDCG@10": expected.mean().to_numpy(),
        "Rise": [100 * (expected[size] - whole).mean() for size in expected],
        "Reversed pairs": [corpora.reversals(whole, expected[size])[0] for size in expected],
    })  # fmt: skip


def tasks(by_task: Frame, sizes: Frame) -> pd.DataFrame:
    """The table of data sets: a row for each, those that keep the smallest share first."""
    table = by_task.merge(sizes, on="task", validate="one_to_one")
    table = table.assign(share=table["documents_nano"] / table["documents"]).sort_values("share")
    return pd.DataFrame({
        "Data set": table["task"],
        "Documents kept": [f"{kept:,} of {full:,}" for kept, full in
                           zip(table["documents_nano"], table["documents"], strict=True)],
        "Rise": 100 * table["difference"],
        "Reversed pairs": [f"{wrong} of {pairs}" for wrong, pairs in
                           zip(table["reversed"], table["pairs"], strict=True)],
        "Best model": np.where(table["differs"], "differs", "the same"),
    })  # fmt: skip


def plans(
    runs: Runs, depths: Sequence[int], queries: Sequence[int], seed: int, draws: int = 20
) -> pd.DataFrame:
    """What some evaluations cost and get wrong: *plan*, *documents* that each model embeds,
    *rise* of NDCG@10 and *reversed* pairs, compared with all queries on the whole collection.

    Each pool is followed by uniform corpora of as many documents. Their reversed pairs are the mean
    over so many drawn corpora, as those of fewer queries are over drawn queries.
    """
    rows: list[tuple[str, int, float, float]] = []
    whole = runs.n_documents
    n_kept = np.unique(np.concatenate(runs.relevant)).size
    exact = corpora.by_query(runs).mean(axis=1)
    pools: Frame = corpora.pool_table(runs, {"cheap": CHEAP}, depths).query("metric == 'ndcg@10'")
    for row in pools.itertuples():
        size = round(row.documents)
        mean = corpora.expected(runs, [size - n_kept])[size - n_kept].to_numpy()
        drawn = corpora.uniform_table(runs, [size - n_kept], draws, seed)
        wrong = float(drawn.query("metric == 'ndcg@10'")["reversed"].mean())
        rows += [
            (f"pool: first {row.depth} of two models", size, row.rise, float(row.reversed)),
            ("uniform, as many", size, (mean - exact).mean(), wrong),
        ]
    for n in queries:
        wrong = corpora.fewer_queries(runs, n, seed=seed)
        rows.append((f"all documents, {n} queries", whole, 0.0, wrong))
    return pd.DataFrame(rows, columns=["plan", "documents", "rise", "reversed"])

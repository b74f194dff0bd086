"""How often verdicts are right, beside Table 4 of krichene2020."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import metric
from sampled_metrics._validate import FloatArray
from sampled_metrics.orders import Order

from ..display import figures
from ..display.tables import Frame, Texts
from .corrected_movielens import published_cells


def verdicts(computed: Frame, n_users: int) -> Frame:
    """The verdict on each pair of recommenders, by metric and column, samples independent for the
    two; `computed` is from :func:`one_evaluation`.
    """
    verdicts_by_key = {}
    for (label, column), cell in computed.groupby(level=[0, 1], sort=False):
        rows = cell.droplevel([0, 1])
        for a, b in combinations(rows.index, 2):
            gap = rows.loc[a] - rows.loc[b]
            sd = float(np.sqrt((rows.loc[[a, b], "sd"] ** 2).sum()))
            verdict = Order(float(gap["exact"]), float(gap["mean"]), sd, n_users)
            verdicts_by_key[f"{a}, {b}", label, column] = verdict
    series = pd.Series(verdicts_by_key)
    series.index.names = ["Pair", "Metric", "Column"]
    return series


def summed_probability(first: FloatArray, second: FloatArray, values: FloatArray) -> float:
    """Probability that the first of two recommenders reports more, plus half that of a tie, from
    the users' distributions of sampled ranks (users, ranks), by Gil-Pelaez's inversion formula.
    The sum is nearly normal: its characteristic function is negligible after 8 standard deviations.

    >>> bold, steady = np.array([[1.0, 0], [0, 1], [0, 1]]), np.full((300, 2), 0.5)
    >>> bold = np.repeat(bold, 100, axis=0)
    >>> round(summed_probability(bold, steady, np.array([1.0, 0.5])), 3) < 0.001
    True
    >>> round(summed_probability(steady, steady, np.array([1.0, 0.5])), 3)
    0.5
    """
    variance = sum((p @ values**2 - (p @ values) ** 2).sum() for p in (first, second))
    t = (np.arange(400) + 0.5) * (8 / 400) / np.sqrt(variance)  # frequencies of the sum
    log_phi = np.zeros(t.size, dtype=complex)
    for pmf, side in ((first, 1j), (second, -1j)):
        log_phi += np.log(pmf @ np.exp(side * np.outer(values, t))).sum(axis=0)
    return float(0.5 + (np.exp(log_phi).imag / t).sum() * (t[1] - t[0]) / np.pi)


def published_table_4() -> Frame:
    """Table 4 of krichene2020: how many of 100 evaluations are in the exact order, by pair."""
    counts = {}
    for text, args in published_cells("runs_in_order"):
        pair = f"{args['first']}, {args['second']}"
        counts[pair, metric(args["kind"]).label, args["column"]] = int(text)
    return pd.Series(counts)


def as_grid(values: Frame, columns: Iterable[str]) -> Frame:
    """A table of values by pair, metric and column: a row for each pair and metric, in their order.

    >>> keys = pd.MultiIndex.from_tuples([("X, Y", "AP", "CLS"), ("X, Y", "AP", "BV 1")])
    >>> as_grid(pd.Series([1, 2], keys), ["BV 1", "CLS"]).to_dict("index")
    {'AP  X, Y': {'BV 1': 2, 'CLS': 1}}
    """
    rows = {}
    for pair, label, _ in values.index:
        rows[f"{label}  {pair}"] = {c: values[pair, label, c] for c in columns}
    return pd.DataFrame(rows).T.infer_objects()


def plot_chances(chance: Frame, printed: Frame) -> Figure:
    r"""Plot how often verdicts are right, in percent, and below the published counts.

    >>> toy = pd.DataFrame({"CLS": {"AP  X, Y": 0.9}})
    >>> [text.get_text() for text in plot_chances(toy, toy * 100).axes[0].texts]
    ['90\n(90)']
    """
    texts = [
        [
            f"{100 * p:.0f}" + ("" if np.isnan(k) else f"\n({k:.0f})")
            for p, k in zip(*row, strict=True)
        ]
        for row in zip(chance.to_numpy(float), printed.to_numpy(float), strict=True)
    ]
    figure, ax = figures.panels(1, 1, height=0.62 + 0.54 * len(chance))
    figures.heat_map(ax, chance, texts, chance.index, chance.columns, (-0.15, 1.15))
    key = figure.colorbar(ax.collections[0], ax=ax, orientation="horizontal", aspect=40, pad=0.02)
    key.ax.set_xlim(0, 1)
    key.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    key.set_label("right verdicts in 100 evaluations (in brackets: published)", fontsize=11)
    key.outline.set_visible(False)
    return figure


def chances_texts(chance: Frame, gammas: Sequence[float]) -> Texts:
    """How often verdicts are right uncorrected and corrected, in percent. The second of `gammas` is
    that of the text, "low"; `mean_0_1` is the mean over pairs and metrics with gamma 0.1.

    >>> columns = ["uncorrected", "rank estimate", "BV 1", "BV 0.1"]
    >>> keys = pd.MultiIndex.from_product([["X, Z", "Y, Z"], ["AP"], columns])
    >>> chance = pd.Series([0.1, 0.3, 0.4, 0.9, 0.2, 0.3, 0.5, 0.7], keys)
    >>> texts = chances_texts(chance, [1, 0.1])
    >>> texts["low_first"], texts["mean_0_1"]
    ((90.0, '.1f', 'down'), (80.0, '.0f'))
    """
    label = chance.index[0][1]
    heavy, low = (f"BV {gammas[min(i, len(gammas) - 1)]:g}" for i in (0, 1))
    by_column = chance.unstack()
    is_auc = by_column.index.get_level_values(1) == "AUC"
    others = by_column[~is_auc]
    first = chance.index[0][0]
    texts: Texts = {
        "heavy_right": (100 * float(chance[first, label, heavy]), ".0f"),
        "low_first": (100 * float(chance[first, label, low]), ".1f", "down"),
        "sure_wrong": int((others["uncorrected"] < 0.01).sum()),
    }
    for gamma in gammas:
        mean = 100 * float(others[f"BV {gamma:g}"].mean())
        texts[f"mean_{gamma:g}".replace(".", "_")] = (mean, ".0f")
    return texts


def without_auc(values: Frame) -> Frame:
    """The rows on other metrics than AUC, or all if there are no others.

    >>> keys = pd.MultiIndex.from_tuples([("X, Y", "AP", "CLS"), ("X, Y", "AUC", "CLS")])
    >>> both = pd.Series([1, 2], keys)
    >>> without_auc(both).tolist(), without_auc(both[1:]).tolist()
    ([1], [2])
    """
    others = values[values.index.get_level_values(1) != "AUC"]
    return others if len(others) else values

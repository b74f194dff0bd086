"""Chapter 8: how often verdicts are right, beside Table 4 of krichene2020."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import metric
from sampled_metrics.verdicts import Verdict

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
            verdict = Verdict(float(gap["exact"]), float(gap["mean"]), sd, n_users)
            verdicts_by_key[f"{a}, {b}", label, column] = verdict
    series = pd.Series(verdicts_by_key)
    series.index.names = ["Pair", "Metric", "Column"]
    return series


def published_table_4() -> Frame:
    """Table 4 of krichene2020: how many of 100 evaluations are in the exact order, by pair."""
    return pd.Series(
        {
            (f"{args['first']}, {args['second']}", metric(args["kind"]).label, args["column"]): int(
                text
            )
            for text, args in published_cells("runs_in_order")
        }
    )


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
    return figure


def brief(users: float) -> str:
    """Format a number of users in at most five characters, "never" for NaN.

    >>> [brief(k) for k in (float("nan"), 2_108, 27_300, 3.2e6)]
    ['never', '2,108', '27k', '3M']
    """
    if users != users:
        return "never"
    if users < 1e4:
        return f"{users:,.0f}"
    return f"{users / 1e3:,.0f}k" if users < 1e6 else f"{users / 1e6:,.0f}M"


def plot_users(size: Frame) -> Figure:
    """Plot the users that each verdict needs.

    >>> toy = pd.DataFrame({"CLS": {"AP  X, Y": 45_000.0}})
    >>> [text.get_text() for text in plot_users(toy).axes[0].texts]
    ['45k']
    """
    texts = [[brief(k) for k in row] for row in size.to_numpy(float)]
    figure, ax = figures.panels(1, 1, height=0.62 + 0.32 * len(size))
    shades = np.log10(size.to_numpy(float))
    figures.heat_map(ax, shades, texts, size.index, size.columns, (0, 6), "viridis_r")
    return figure


def chances_texts(chance: Frame, printed: Frame, gammas: Sequence[float]) -> Texts:
    """How often verdicts are right uncorrected and corrected, computed and published (counts of
    100, NaN where missing). The second of `gammas` is that of the text.

    >>> columns = ["uncorrected", "rank estimate", "BV 1", "BV 0.1"]
    >>> keys = pd.MultiIndex.from_product([["X, Y"], ["AP"], columns])
    >>> chance, none = pd.Series([0.1, 0.3, 0.4, 0.9], keys), pd.Series([float("nan")] * 4, keys)
    >>> texts = chances_texts(chance, none, [1, 0.1])
    >>> texts["best"], int(texts["rank_better"]), texts["above"]
    ((90.0, '.0f'), 1, '')
    """
    pair, label, _ = chance.index[0]
    first_chances, low_column = chance[pair][label], f"BV {gammas[min(1, len(gammas) - 1)]:g}"
    keys = [key for key in dict.fromkeys(k[:2] for k in chance.index) if key[1] != "AUC"]
    better = [chance[(*key, "rank estimate")] > chance[(*key, "uncorrected")] for key in keys]
    names = ("above", "above_exact", "low_paper", "low_exact", "named", "strict")
    texts: Texts = dict.fromkeys(names, "")
    if printed.notna().any():
        counts, last = printed.unstack(), chance.index[-1][0]
        texts = {
            "above": int((counts[low_column] > 90).sum()),
            "above_exact": int((chance.unstack()[low_column] > 0.9).sum()),
            "low_paper": int(counts[low_column].min()),
            "low_exact": (100 * chance[(*counts[low_column].idxmin(), low_column)], ".0f"),
            "named": int(counts.loc[(last, "AP"), low_column])
            if (last, "AP") in counts.index
            else "",
            "strict": int((counts["rank estimate"] > counts["uncorrected"]).sum()),
        }
    return texts | {
        "pair": pair.replace(", ", " and "),
        "label": label,
        "plain": (100 * first_chances["uncorrected"], ".0f"),
        "rank": (100 * first_chances["rank estimate"], ".0f"),
        "best": (float(100 * first_chances.max()), ".0f"),
        "low": low_column,
        "cells": len(chance),
        "rank_better": sum(better),
        "rank_of": len(better),
    }

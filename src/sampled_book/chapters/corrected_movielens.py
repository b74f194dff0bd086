"""Corrections of sampled metrics on MovieLens, beside Table 3 of krichene2020."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import Protocol, metric
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Frame, Texts
from ..experiments.theory import moments
from .correcting import Makers


def one_evaluation(
    intervals: Mapping[str, RankIntervals],
    metrics: Iterable[str],
    makers: Makers,
    protocol: Protocol,
) -> Frame:
    """Exact metric, and mean and standard deviation of the report of one evaluation, by metric,
    estimator and recommender; nothing is simulated.

    Negatives are drawn anew for each user and recommender, without replacement and from the user's
    own candidates; ties are broken at random. Corrections (`makers`, from :func:`methods`) are made
    for `protocol`.
    """
    parsed_metrics = [metric(name) for name in metrics]
    keys = [(parsed_metric.label, column) for parsed_metric in parsed_metrics for column in makers]
    vectors = [make(each, protocol).values for each in parsed_metrics for make in makers.values()]
    ranks = list(intervals.values())
    found = moments(ranks, np.column_stack(vectors), protocol.n_negatives, False)
    sds = np.sqrt(found.within / ranks[0].n_better.size)
    rows = {}
    for (name, own), mean, sd in zip(intervals.items(), found.mean, sds, strict=True):
        exact = {each.label: float(own.evaluate(each).mean()) for each in parsed_metrics}
        for (label, column), *values in zip(keys, mean, sd, strict=True):
            rows[label, column, name] = (exact[label], *values)
    frame = pd.DataFrame(rows, index=["exact", "mean", "sd"]).T
    frame.index.names = ["Metric", "Column", "Of"]
    return frame


def published_table_3() -> Frame:
    """Table 3 of krichene2020, in percent: mean and sd of 100 evaluations, as in the ledger."""
    rows = {
        (metric(args["kind"]).label, args["column"], args["recommender"]): [
            *map(float, text.split("±"))
        ]
        for text, args in published_cells("sampled_cell")
    }
    return pd.DataFrame(rows, index=["mean", "sd"]).T


def distances(computed: Frame, printed: Frame, starts: Frame) -> Frame:
    """Distances in standard errors of published means and spreads of 100 evaluations from the exact
    ones of :func:`one_evaluation`; NaN where nothing is published. `starts` has X from other
    random starts: the published X is one more of them.
    """
    rounding = 0.01 / np.sqrt(12)
    published_rows = printed.reindex(computed.index)
    error, centre = np.hypot(computed["sd"] / 10, rounding), computed["mean"].copy()
    if len(starts):
        other_starts = starts["mean"].groupby(level=[0, 1])
        n_starts = other_starts.size().iloc[0]
        x = computed.index[computed.index.get_level_values(2) == "X"]
        centre[x] = other_starts.mean()[[key[:2] for key in x]].to_numpy()
        spread = other_starts.std()[[key[:2] for key in x]].to_numpy() * np.sqrt(1 + 1 / n_starts)
        error[x] = np.hypot(error[x], spread)
    sd_error = np.hypot(computed["sd"] / np.sqrt(198), rounding)
    z_scores = {
        "mean": (published_rows["mean"] - centre) / error,
        "sd": (published_rows["sd"] - computed["sd"]) / sd_error,
    }
    return pd.DataFrame(z_scores)


def order_shares(computed: Frame, starts: Frame) -> Frame:
    """Share of the starts of X with which the expected order, or its best, is the exact one;
    without starts X is the one of `computed`.
    """
    rows = {}
    starts_by_key = dict(list(starts.groupby(level=[0, 1], sort=False)))
    for key, cell in computed.groupby(level=[0, 1], sort=False):
        ours = cell.droplevel([0, 1])
        trials = [ours]
        if key in starts_by_key:
            rest = ours.drop("X")
            trials = [
                pd.concat([x.to_frame("X").T, rest]) for _, x in starts_by_key[key].iterrows()
            ]
        orders = [
            [trial[column].sort_values().index.to_list() for column in ("exact", "mean")]
            for trial in trials
        ]
        agreements = [(exact == mean, exact[-1] == mean[-1]) for exact, mean in orders]
        rows[key] = np.mean(agreements, axis=0)
    return pd.DataFrame(rows, index=["order", "best"]).T


def table_texts(
    computed: Frame, shares: Frame, gammas: Sequence[float], n_starts: int = 1
) -> Texts:
    """Text values on expectations: by how much the corrected ones are too low, and with how many of
    `n_starts` starts of X the order is right, from :func:`order_shares`. The second of `gammas` is
    that of the text.

    >>> keys = [("AP", c, u) for c in ("uncorrected", "CLS", "BV 1") for u in "AB"]
    >>> rows = pd.MultiIndex.from_tuples(keys, names=["Metric", "Column", "Of"])
    >>> numbers = [(5, 9, 1), (4, 9.5, 1), (5, 5.5, 1), (4, 4.0, 1), (5, 4.0, 1), (4, 2.0, 1)]
    >>> toy = pd.DataFrame(numbers, rows, ["exact", "mean", "sd"])
    >>> texts = table_texts(toy, order_shares(toy, toy.iloc[:0]), [1.0])
    >>> texts["wrong_plain"], texts["bias_most"], texts["order_least"]
    (1, (50.0, '.0f', 'up'), 1)
    """
    order = shares["order"].unstack()
    gamma = gammas[min(1, len(gammas) - 1)]
    shown = computed.loc[computed.index[0][0]].loc[f"BV {gamma:g}"]
    low = 100 * (1 - shown["mean"] / shown["exact"])
    light = [f"BV {g:g}" for g in gammas if g <= gamma]
    return {
        "wrong_plain": int((order["uncorrected"] < 0.5).sum()),
        "bias_least": (float(low.min()), ".0f", "down"),
        "bias_most": (float(low.max()), ".0f", "up"),
        "order_least": round(n_starts * float(order[light].to_numpy().min())),
    }


def plot_estimates(computed: Frame, columns: Sequence[str], label: str) -> Figure:
    """Plot estimates by one metric for each recommender, in percent, beside exact values.

    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A")])
    >>> toy = pd.DataFrame([(5.0, 4.0, 1.0)], rows, ["exact", "mean", "sd"])
    >>> figure = plot_estimates(toy, ["CLS"], "AP")
    >>> figure.axes[0].get_ylabel(), figure.axes[0].texts[0].get_text()
    ('AP, percent', 'A exact')
    """
    ours = computed.loc[label].unstack(level=0)
    exact = {name: float(ours["exact"].loc[name].dropna().iloc[0]) for name in ours.index}
    drawn = {
        name: (
            ours["mean"].loc[name].reindex(columns).to_numpy(),
            ours["sd"].loc[name].reindex(columns).to_numpy(),
        )
        for name in exact
    }
    figure, ax = figures.panels(1, 1, height=3.3)
    figures.estimates(ax, columns, drawn, exact)
    ax.margins(y=0.08)
    figures.beside(ax, {name: exact[name] for name in drawn}, x=1.01)
    for text, name in zip(ax.texts, sorted(exact, key=exact.__getitem__), strict=True):
        text.set_text(f"{name} exact")
    ax.set_ylabel(f"{label}, percent")
    return figure


def plot_table_3(
    computed: Frame, printed: Frame, z_scores: Frame, columns: Sequence[str]
) -> Figure:
    r"""Plot Table 3: in each cell the published mean above ours, coloured by their distance.

    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A")])
    >>> toy = pd.DataFrame([(4.0, 1.0)], rows, ["mean", "sd"])
    >>> plot_table_3(toy, toy + 0.5, toy, ["CLS"]).axes[0].texts[0].get_text()
    '4.50\n4.00'
    """
    keys = list(dict.fromkeys((label, recommender) for label, _, recommender in computed.index))
    ours, theirs, z = (
        np.array([[frame.at[(a, c, u), "mean"] for c in columns] for a, u in keys])
        for frame in (computed, printed, z_scores)
    )
    texts = [
        [f"{a:.2f}" if np.isnan(b) else f"{b:.2f}\n{a:.2f}" for a, b in zip(*row, strict=True)]
        for row in zip(ours, theirs, strict=True)
    ]
    figure, ax = figures.panels(1, 1, height=0.62 + 0.54 * len(keys))
    figures.heat_map(ax, z, texts, [f"{a} {u}" for a, u in keys], columns, (-6, 6), "RdBu")
    return figure


def published_cells(check: str) -> list[tuple[str, Mapping[str, str]]]:
    from ..claims import load

    return [
        (claim.published, claim.args) for claim in load() if claim.check == f"corrected.{check}"
    ]

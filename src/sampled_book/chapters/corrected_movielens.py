"""Chapter 7: corrections of sampled metrics on MovieLens, beside Table 3 of krichene2020."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, estimators, metric
from sampled_metrics.consistency import sign
from sampled_metrics.estimators import Estimator
from sampled_metrics.ranking.intervals import RankIntervals

from ..display import figures
from ..display.tables import Frame, Texts
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
    chosen = [metric(name) for name in metrics]
    keys = [(of.label, column) for of in chosen for column in makers]
    vectors = np.array([make(of, protocol).values for of in chosen for make in makers.values()]).T
    rows = {}
    for name, found in intervals.items():
        law = found.sampled_pmf(protocol.n_negatives)
        mean = law @ vectors
        sd = np.sqrt((law @ vectors**2 - mean**2).clip(0).sum(axis=0)) / len(law)
        exact = {of.label: float(found.evaluate(of, "mean").mean()) for of in chosen}
        for (label, column), *values in zip(keys, mean.mean(axis=0), sd, strict=True):
            rows[label, column, name] = (exact[label], *values)
    frame = pd.DataFrame(rows, index=["exact", "mean", "sd"]).T
    frame.index.names = ["Metric", "Column", "Of"]
    return frame


def expected_by_negatives(
    of: Metric | str,
    ranks: Mapping[str, ArrayLike],
    n_items: ArrayLike,
    sizes: Iterable[int],
    gamma: float | None = None,
) -> Frame:
    """Expected metric by number of negatives, uncorrected, or corrected by bias-variance with
    `gamma`. Negatives are drawn without replacement from each user's own candidates; the
    correction is made for their rounded mean, with replacement, as in krichene2020.
    """
    chosen, items = metric(of), np.asarray(n_items)
    rows = {}
    for size in sizes:
        sampling = Protocol(items, int(size), replacement=False)
        made = estimators.naive(chosen, sampling)
        if gamma is not None:
            assumed = Protocol(round(items.mean()), int(size), replacement=True)
            vector = estimators.bias_variance(chosen, assumed, gamma).values
            made = Estimator(chosen, sampling, vector)
        rows[int(size)] = {u: float(made.expected(r).mean()) for u, r in ranks.items()}
    return pd.DataFrame(rows).T


def first_right(
    of: Metric | str,
    ranks: Mapping[str, ArrayLike],
    n_items: ArrayLike,
    expected: Frame,
    gamma: float,
) -> int | None:
    """Least number of negatives from which a correction puts the first two recommenders in the
    exact order, by bisection between the numbers in `expected` (:func:`expected_by_negatives`);
    None if it is wrong at the last one.
    """
    both = dict(list(ranks.items())[:2])
    exact = [float(metric(of)(r, np.asarray(n_items)).mean()) for r in both.values()]

    def right(row: Frame) -> bool:
        return sign(*(row[name] for name in both)) == sign(*exact)

    sizes, held = list(expected.index), [right(row) for _, row in expected.iterrows()]
    if all(held):
        return int(sizes[0])
    if not held[-1]:
        return None
    wrong = max(i for i, each in enumerate(held) if not each)
    steps = range(sizes[wrong], sizes[wrong + 1] + 1)
    return steps[
        bisect_left(
            steps,
            True,
            key=lambda m: right(expected_by_negatives(of, both, n_items, [m], gamma).iloc[0]),
        )
    ]


def simulated(
    intervals: Mapping[str, RankIntervals],
    metrics: Iterable[str],
    makers: Makers,
    protocol: Protocol,
    repetitions: int,
    rng: np.random.Generator,
) -> Frame:
    """Simulated reports of evaluations: a row for each, a column as in :func:`one_evaluation`."""
    chosen = {of.label: of for of in map(metric, metrics)}
    columns = {}
    for name, found in intervals.items():
        shape = repetitions, found.n_candidates.size
        above = found.n_better + rng.integers(found.n_tied + 1, size=shape)
        below = found.n_candidates - 1 - above
        drawn = rng.hypergeometric(above, below, protocol.n_negatives)
        for label, of in chosen.items():
            for column, make in makers.items():
                columns[label, column, name] = make(of, protocol).values[drawn].mean(axis=1)
    return pd.DataFrame(columns)


def published_table_3() -> Frame:
    """Table 3 of krichene2020, in percent: mean and sd of 100 evaluations, as in the ledger."""
    rows = {
        (metric(of["kind"]).label, of["column"], of["recommender"]): [*map(float, text.split("±"))]
        for text, of in published_cells("sampled_cell")
    }
    return pd.DataFrame(rows, index=["mean", "sd"]).T


def distances(found: Frame, printed: Frame, starts: Frame) -> Frame:
    """Distances in standard errors of published means and spreads of 100 evaluations from the exact
    ones of :func:`one_evaluation`; NaN where nothing is published. `starts` has X from other
    random starts: the published X is one more of them.
    """
    rounding = 0.01 / np.sqrt(12)
    texts = printed.reindex(found.index)
    error, centre = np.hypot(found["sd"] / 10, rounding), found["mean"].copy()
    if len(starts):
        others = starts["mean"].groupby(level=[0, 1])
        size = others.size().iloc[0]
        x = found.index[found.index.get_level_values(2) == "X"]
        centre[x] = others.mean()[[key[:2] for key in x]].to_numpy()
        spread = others.std()[[key[:2] for key in x]].to_numpy() * np.sqrt(1 + 1 / size)
        error[x] = np.hypot(error[x], spread)
    of_sd = np.hypot(found["sd"] / np.sqrt(198), rounding)
    apart = {"mean": (texts["mean"] - centre) / error, "sd": (texts["sd"] - found["sd"]) / of_sd}
    return pd.DataFrame(apart)


def order_shares(found: Frame, starts: Frame) -> Frame:
    """Share of the starts of X with which the expected order, or its best, is the exact one;
    without starts X is the one of `found`.
    """
    rows = {}
    others = dict(list(starts.groupby(level=[0, 1], sort=False)))
    for key, cell in found.groupby(level=[0, 1], sort=False):
        ours = cell.droplevel([0, 1])
        trials = [ours]
        if key in others:
            rest = ours.drop("X")
            trials = [pd.concat([x.to_frame("X").T, rest]) for _, x in others[key].iterrows()]
        ends = [[t[by].sort_values().index.to_list() for by in ("exact", "mean")] for t in trials]
        held = [(exact == mean, exact[-1] == mean[-1]) for exact, mean in ends]
        rows[key] = np.mean(held, axis=0)
    return pd.DataFrame(rows, index=["order", "best"]).T


def table_texts(apart: Frame, found: Frame, shares: Frame) -> Texts:
    """Text values on Table 3: distances of published means, from :func:`distances`; where
    corrections are nearer; which orders hold, from :func:`order_shares`. Columns are in the
    order of the makers.

    >>> keys = [("AP", c, u) for c in ("uncorrected", "CLS") for u in "AB"]
    >>> rows = pd.MultiIndex.from_tuples(keys, names=["Metric", "Column", "Of"])
    >>> numbers = [(5, 9, 1), (4, 9.5, 1), (5, 5.5, 1), (4, 4.0, 1)]
    >>> toy = pd.DataFrame(numbers, rows, ["exact", "mean", "sd"])
    >>> apart = pd.DataFrame({"mean": [4.0, 0, 1, 1], "sd": [0.0, 1, -2, 0]}, rows)
    >>> texts = table_texts(apart, toy, order_shares(toy, toy.iloc[:0]))
    >>> texts["held"], texts["far"], texts["far_sd"], texts["nearer"], texts["wrong_plain"]
    (4, 1, (2.0, '.1f'), 2, 1)
    """
    held = apart.dropna()
    far, auc = held["mean"].abs(), held.index.get_level_values(0) == "AUC"
    order, best = shares["order"].unstack(), shares["best"].unstack()
    corrected = [column for column in order if column != "uncorrected"]
    off = (found["mean"] - found["exact"]).abs().unstack(level="Column")
    nearer = off[corrected].lt(off["uncorrected"] - 1e-9, axis=0)
    of_auc = nearer.index.get_level_values("Metric") == "AUC"
    return {
        "wrong_plain": int((order["uncorrected"] < 0.5).sum()),
        "n_metrics": len(order),
        "held": len(held),
        "far": int((far > 3).sum()),
        "far_auc": int((far > 3)[auc].sum()),
        "farthest": (float(far[~auc].max()), ".1f"),
        "others": int((~auc).sum()),
        "far_sd": (float(held["sd"].abs().max()), ".1f"),
        "best": (float(100 * best[corrected].drop("AUC", errors="ignore").min().min()), ".0f"),
        "nearer": int(nearer[~of_auc].to_numpy().sum()),
        "of_nearer": int(nearer[~of_auc].size),
        "auc_nearer": int(nearer[of_auc].to_numpy().sum()),
        "of_auc": int(nearer[of_auc].size),
    }


def plot_estimates(found: Frame, printed: Frame, columns: Sequence[str], label: str) -> Figure:
    """Plot estimates by one metric for each recommender, beside published ones, both in percent.

    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A")])
    >>> toy = pd.DataFrame([(5.0, 4.0, 1.0)], rows, ["exact", "mean", "sd"])
    >>> plot_estimates(toy, toy[["mean", "sd"]], ["CLS"], "AP").axes[0].get_ylabel()
    'AP, percent'
    """
    ours = found.loc[label].unstack(level=0)
    texts = printed.loc[label].unstack(level=0)["mean"]
    exact = {u: float(ours["exact"].loc[u].dropna().iloc[0]) for u in ours.index}
    drawn = {
        u: tuple(
            part.loc[u].reindex(columns).to_numpy() for part in (ours["mean"], ours["sd"], texts)
        )
        for u in exact
    }
    figure, ax = figures.panels(1, 1, height=3.8)
    figures.estimates(ax, columns, drawn, exact)
    figures.beside(ax, exact, x=1.01)
    ax.set_ylabel(f"{label}, percent")
    ax.legend(loc="upper left", ncols=3)
    return figure


def plot_table_3(found: Frame, printed: Frame, apart: Frame, columns: Sequence[str]) -> Figure:
    r"""Plot Table 3: in each cell the published mean above ours, coloured by their distance.

    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A")])
    >>> toy = pd.DataFrame([(4.0, 1.0)], rows, ["mean", "sd"])
    >>> plot_table_3(toy, toy + 0.5, toy, ["CLS"]).axes[0].texts[0].get_text()
    '4.50\n4.00'
    """
    keys = list(dict.fromkeys((label, of) for label, _, of in found.index))
    ours, theirs, z = (
        np.array([[frame.at[(a, c, u), "mean"] for c in columns] for a, u in keys])
        for frame in (found, printed, apart)
    )
    texts = [
        [f"{a:.2f}" if np.isnan(b) else f"{b:.2f}\n{a:.2f}" for a, b in zip(*row, strict=True)]
        for row in zip(ours, theirs, strict=True)
    ]
    figure, ax = figures.panels(1, 1, height=0.62 + 0.54 * len(keys))
    figures.heat_map(ax, z, texts, [f"{a} {u}" for a, u in keys], columns, (-6, 6), "RdBu")
    return figure


def table_exercises(
    found: Frame, n_items: int, n_negatives: int, key: tuple[str, str, str]
) -> Texts:
    """CLS over the rank estimate of Recall@10 with and without replacement, published and computed;
    and the evaluations that the mean of one cell (`key`) needs for an error of 0.1 percent.

    >>> key = ("Recall@10", "CLS", "Y")
    >>> toy = pd.DataFrame([(4.0, 0.25)], pd.MultiIndex.from_tuples([key]), ["mean", "sd"])
    >>> texts = table_exercises(toy, 3_659, 100, key)
    >>> texts["two_values"], texts["runs"]
    (366, 7)
    """
    with_, without = (
        estimators.monotone(
            metric("recall@10"), Protocol(n_items, n_negatives, replacement=way), nonnegative=True
        ).values[0]
        for way in (True, False)
    )
    texts = published_table_3().loc["Recall@10"]
    (a, a_sd), (b, b_sd) = texts.loc[("CLS", "Y")], texts.loc[("rank estimate", "Y")]
    ratio, noise = a / b, np.hypot(a_sd / a, b_sd / b) / 10
    sd = float(found.loc[key, "sd"])
    return {
        "two_values": (n_items - 1) // 10 + 1,
        "ratio": (ratio, ".4f"),
        "with_": (with_, ".4f"),
        "without": (without, ".4f"),
        "ratio_z": (abs(without - ratio) / (ratio * noise), ".1f"),
        "sd": (sd, ".2f"),
        "runs": int(np.ceil((sd / 0.1) ** 2)),
    }


def published_cells(check: str) -> list[tuple[str, Mapping[str, str]]]:
    from ..claims import load

    return [(c.published, c.args) for c in load() if c.check == f"corrected.{check}"]

"""Figures and tables of the appendix on identification: intervals, and values of corrections."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from sampled_metrics import Metric, Protocol, _confidence, metric
from sampled_metrics.bounds import bets
from sampled_metrics.bounds.assumption import DECREASING, assumption_name
from sampled_metrics.bounds.identification import Interval, interval, log_evidence_needed
from sampled_metrics.numerics.betting import interval as bets_on_mean

from ..display import figures
from ..display.tables import Frame, Texts, between

Counts = Mapping[str, NDArray[np.int64]]  # users of each recommender by negatives above their item
Ends = Mapping[tuple[str, str], Interval]  # by recommender and label of the metric
Values = Mapping[tuple[str, str, str], float]  # the same, and the correction
#: From so many users on, bets are learnt from other users, too.
MANY_USERS = bets.LEARNT_USERS


def _range(ends: Interval | None) -> str:
    return between(100 * ends.low, 100 * ends.high, 1) if ends else "refused"


def plot_inside(lines: Mapping[str, Mapping[str, float]], *bars: Mapping[str, Interval]) -> Figure:
    """Plot values line by line below each recommender's name, over their identification intervals.

    >>> figure = plot_inside({"A": {"exact": 0.2}})
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['A', 'exact']
    """
    height = sum(len(values) + 1 for values in lines.values())
    nan = float("nan")
    drawn = {
        name: {column: (value, nan, nan) for column, value in values.items()}
        for name, values in lines.items()
    }
    figure, ax = figures.panels(1, 1, height=1 + 0.23 * height)
    shown = [{name: (ends.low, ends.high) for name, ends in part.items()} for part in bars]
    figures.intervals(ax, drawn, *shown)
    return figure


def intervals_table(
    unshaped: Ends,
    shaped: Ends,
    exact: Mapping[tuple[str, str], float],
    values: Values,
    columns: list[str],
) -> Frame:
    """Ranges, the exact metric and what some corrections say, in percent, by metric and name."""
    rows = [
        {
            "": f"{key} {name}",
            "no assumption": _range(ends),
            assumption_name(DECREASING): _range(shaped.get((name, key))),
            "exact": 100 * exact[name, key],
            **{column: 100 * values[name, key, column] for column in columns},
        }
        for (name, key), ends in unshaped.items()
    ]
    return pd.DataFrame(rows)


def inside_texts(
    unshaped: Ends,
    exact: Mapping[tuple[str, str], float],
    values: Values,
    chosen: Mapping[str, Metric],
) -> Texts:
    """Which exact metrics and corrections lie in the identification intervals. `unshaped` assumes
    nothing; `values` are by correction, "uncorrected" among them.
    """

    def inside(key: tuple[str, str, str]) -> bool:
        return unshaped[key[:2]].low <= values[key] <= unshaped[key[:2]].high

    corrected_keys = [key for key in values if key[2] != "uncorrected"]
    naive = [k for k in values if k[2] == "uncorrected" and chosen[k[1]].base != "auc"]
    return {
        "id_held": int(sum(e.low <= exact[k] <= e.high for k, e in unshaped.items())),
        "id_of": len(unshaped),
        "id_inside": sum(map(inside, corrected_keys)),
        "id_first": next(iter(unshaped))[0],
        "id_others": len(corrected_keys),
        "id_refuted": sum(not inside(k) for k in naive),
        "id_naive": len(naive),
    }


def rare_texts(trials: int = 400, seed: int = 15) -> Texts:
    """False alarms of Student's test and of a bet where rare users reverse the order. A ranks 99
    items of 100 at 2 and the rest last, of 1,002; B all of them at 12. Their mean AUC is about
    equal, but twenty users seldom show it.

    >>> texts = rare_texts(trials=40)
    >>> texts["id_trials"], texts["id_bet"] <= texts["id_student"]
    (40, True)
    """
    rng, protocol = np.random.default_rng(seed), Protocol(1_002, 100)
    ranks_a = np.where(rng.random((trials, 20)) < 0.99, 2, 1_002)
    ranks_b = np.full((trials, 20), 12)
    drawn = (protocol.draw(ranks_b, rng) - protocol.draw(ranks_a, rng)) / 100
    error_rate = 1.0 - _confidence.CONFIDENCE
    intervals = [bets_on_mean(values, -1.0, 1.0, error_rate) for values in drawn]
    return {
        "id_trials": trials,
        "id_student": int((stats.ttest_1samp(drawn, 0, axis=1).pvalue <= error_rate).sum()),
        "id_bet": sum(low > 0 or high < 0 for low, high in intervals),
    }


def exercises(
    counts: NDArray[np.int64], ranks: NDArray[np.int64], protocol: Protocol, confidence: float
) -> Texts:
    """One negative by hand, a million items, and AUC's interval over that of Student."""
    n, m = protocol.n_items, protocol.n_negatives
    assert isinstance(n, int)
    single, recall = Protocol(n, 1, replacement=protocol.replacement), metric("recall@10")
    pmf = single.pmf(ranks).mean(axis=0)
    by_hand = min(1.0, float(pmf[0]) * (n - 1) / (n - 10))
    of_bets = interval(pmf, single, recall, users=inf).high
    assert abs(of_bets - by_hand) < 0.01
    large = Protocol(10**6, m, replacement=protocol.replacement)
    million = interval(counts, large, recall, confidence)
    auc = interval(counts, protocol, metric("auc"), confidence)
    x = np.repeat(np.arange(m + 1) / m, counts)
    student = stats.t.ppf(0.5 + confidence / 2, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size)
    normal = stats.norm.ppf(0.5 + confidence / 2)
    return {
        "id_one_low": (100 * by_hand, ".2f", "up"),
        "id_one": (100 * of_bets, ".2f", "up"),
        "id_million": _range(million),
        "id_first_cell": f"{100 * counts[0] / counts.sum():.1f}",
        "id_auc_ratio": f"{(auc.high - auc.low) / 2 / student:.2f}",
        "id_auc_price": f"{np.sqrt(2 * log_evidence_needed(confidence)) / normal:.2f}",
    }

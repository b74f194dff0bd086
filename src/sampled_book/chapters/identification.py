"""Figures and tables of the appendix on identification: intervals, and values of corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import inf

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from sampled_metrics import Metric, Protocol, _confidence, metric
from sampled_metrics.bounds import bets
from sampled_metrics.bounds.assumption import DECREASING, assumption_name
from sampled_metrics.bounds.identification import (
    Interval,
    interval,
    log_evidence_needed,
)
from sampled_metrics.numerics.betting import interval as bets_on_mean

from ..display import figures
from ..display.tables import Frame, Texts, between
from ..experiments.populations import decidable, shortest

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
    figures.intervals(
        ax,
        drawn,
        *({name: (ends.low, ends.high) for name, ends in intervals.items()} for intervals in bars),
    )
    return figure


def shortest_table(
    counts: Counts,
    protocol: Protocol,
    parsed_metric: Metric,
    confidence: float,
    unshaped: Ends,
    shaped: Ends,
) -> Frame:
    """Widths in percentage points beside the least that any interval can have on average."""
    rows = []
    for name in counts:
        for assumption, ends in ((None, unshaped), (DECREASING, shaped)):
            log_interval = ends.get((name, parsed_metric.label))
            if log_interval is None:  # the log contradicts the assumption
                continue
            least_width = shortest(counts[name], protocol, parsed_metric, confidence, assumption)
            cells = {
                "width": 100 * (log_interval.high - log_interval.low),
                "least": 100 * least_width,
            }
            cells["ratio"] = cells["width"] / cells["least"]
            rows.append({"": name, "assumption": assumption_name(assumption), **cells})
    return pd.DataFrame(rows)


def most_decided(
    ranks: Mapping[str, NDArray[np.int64]],
    protocol: Protocol,
    parsed_metric: Metric,
    confidence: float,
    sizes: Sequence[int],
) -> dict[str, list[float]]:
    """Bound on how often any method can decide between two recommenders, by assumption, in percent,
    for each number of negatives in `sizes`.

    >>> ranks = {"A": np.array([1, 40]), "B": np.array([30, 40])}
    >>> found = most_decided(ranks, Protocol(50, 4), metric("rr"), 0.95, [1, 4])
    >>> [round(share) for share in found["none"]]
    [5, 12]
    """
    n_items, (better, worse) = int(protocol.n_items), ranks.values()
    users = float(better.size)
    if parsed_metric(better, n_items).sum() < parsed_metric(worse, n_items).sum():
        better, worse = worse, better
    masses = [
        np.bincount(user_ranks - 1, minlength=n_items) / users for user_ranks in (better, worse)
    ]
    shares_by_assumption: dict[str, list[float]] = {}
    for assumption in (None, DECREASING):
        shares_by_assumption[assumption_name(assumption)] = [
            100.0 * decidable(masses, each, parsed_metric, confidence, users, assumption)
            for each in (replace(protocol, n_negatives=m) for m in sizes)
        ]
    return shares_by_assumption


def plot_decided(sizes: Sequence[int], shares: Mapping[str, Sequence[float]]) -> Figure:
    """Plot the bounds of :func:`most_decided` against the number of negatives.

    >>> figure = plot_decided([20, 100], {"none": [5.0, 6.0]})
    >>> len(figure.axes[0].lines)
    2
    """
    figure, ax = figures.panels(1, 1, height=3.4)
    looks = cycle(({"color": "#8a8a8a", "marker": "o"}, {"color": "black", "marker": "s"}))
    for (name, values), look in zip(shares.items(), looks, strict=False):
        ax.plot(sizes, values, ms=6, **look)
        label = name if name != _confidence.NONE else "no assumption"
        ax.annotate(label, (sizes[-1], values[-1]), (-4, 9), textcoords="offset points",
                    ha="right", fontsize=11, color=look["color"])  # fmt: skip
    ax.axhline(5.0, color="black", linestyle=":", linewidth=1.2)
    ax.set(xscale="log", xlabel="negatives", ylabel="evaluations decided, percent", ylim=(0, 105))
    ax.set_xticks(list(sizes), [f"{m:,}" for m in sizes])
    ax.minorticks_off()
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
    shaped: Ends,
    exact: Mapping[tuple[str, str], float],
    values: Values,
    chosen: Mapping[str, Metric],
) -> Texts:
    """Widths of the identification intervals, and which corrections lie in them. `unshaped` assumes
    nothing; `shaped` has a shape and may lack some keys; `values` are by correction,
    "uncorrected" among them; the first of the `chosen` metrics is that of the text.
    """
    names, label = list(dict.fromkeys(name for name, _ in unshaped)), next(iter(chosen))

    def inside(ends: Ends, key: tuple[str, str, str]) -> bool:
        return ends[key[:2]].low <= values[key] <= ends[key[:2]].high

    def widest(ends: Ends) -> str:
        return f"{100 * max(e.high - e.low for k, e in ends.items() if k[1] == label):.0f}"

    corrected_keys = [key for key in values if key[2] != "uncorrected"]
    naive = [k for k in values if k[2] == "uncorrected" and chosen[k[1]].kind != "auc"]
    beyond = {
        f"{column} of {key}"
        for recommender, key, column in corrected_keys
        if not inside(unshaped, (recommender, key, column))
    }
    first_values = [100 * values[k] for k in corrected_keys if k[:2] == (names[0], label)]
    exact_percents = [100 * exact[name, label] for name in names]
    n_held = sum(e.low <= exact[k] <= e.high for k, e in unshaped.items())
    return {
        "id_names": ", ".join(names),
        "id_label": label,
        "id_width": widest(unshaped),
        "id_spread": f"{max(exact_percents) - min(exact_percents):.1f}",
        "id_held": int(n_held),
        "id_shape_width": widest(shaped),
        "id_shape_inside": sum(k[:2] in shaped and inside(shaped, k) for k in corrected_keys),
        "id_of": len(unshaped),
        "id_inside": sum(inside(unshaped, k) for k in corrected_keys),
        "id_beyond": ", ".join(sorted(beyond)) or "none",
        "id_from": f"{min(first_values):.1f}",
        "id_to": f"{max(first_values):.1f}",
        "id_first": names[0],
        "id_others": len(corrected_keys),
        "id_refuted": sum(not inside(unshaped, k) for k in naive),
        "id_naive": len(naive),
    }


@dataclass(frozen=True)
class Bet:
    """Bets on one side of a metric, fixed before a log is looked at.

    `h` (m + 1, bets) is by the sampled negatives above the item; `slope` (bets,) is negative for
    bets that the metric is smaller; `certificate` (bets,) bounds the expectation of h less the
    slope times the metric at every true rank.
    """

    h: NDArray[np.float64]
    slope: NDArray[np.float64]
    certificate: NDArray[np.float64]

    def wealth(self, above: NDArray[np.int64], value: float) -> NDArray[np.float64]:
        """Wealth after each user of the average bet against a value; shape (users,)."""
        logs = np.log(self.h[above] / (self.certificate + self.slope * value)).cumsum(axis=0)
        return np.asarray(np.exp(logsumexp(logs, axis=1) - np.log(self.slope.size)))


def bets_against(
    parsed_metric: Metric,
    protocol: Protocol,
    users: int,
    confidence: float,
    sign: int,
    assumption: str | None,
) -> Bet:
    """The bets of :func:`~sampled_metrics.interval`: that the metric is
    larger (`sign` 1), which give the lower end, or smaller (-1). One catalogue size, one
    relevant item. The upper end is the value against which the average bet has won enough.

    The upper end is the value against which the average bet has won enough:
    >>> counts, protocol = np.array([60, 30, 10]), Protocol(50, 2)
    >>> bet = bets_against(metric("recall@10"), protocol, 100, 0.95, -1, DECREASING)
    >>> high = interval(counts, protocol, "recall@10", assumption=DECREASING).high
    >>> wealth = bet.wealth(np.repeat([0, 1, 2], counts), high)
    >>> bool(np.isclose(np.log(wealth[-1]), log_evidence_needed(0.95)))
    True
    """
    kind = [[protocol.n_negatives, 1, 1, protocol.n_items]]
    parts = bets.partition(
        np.array(kind), np.array([float(users)]), parsed_metric, protocol.replacement
    )
    built_bets = bets.build(parts, assumption, log_evidence_needed(confidence), users)
    x = np.arange(protocol.n_negatives + 1)
    has_sign = built_bets.sign == sign
    h = built_bets.values(bets.Rows(np.zeros_like(x), x))[has_sign].T
    return Bet(h, sign * built_bets.slope[has_sign], built_bets.certificates[has_sign, 0])


def plot_wealth(
    bet: Bet,
    ranks: NDArray[np.int64],
    protocol: Protocol,
    values: Mapping[str, float],
    threshold: float,
    logs: int,
    rng: np.random.Generator,
) -> tuple[Figure, dict[str, int]]:
    """Plot the wealth of a bet against each value over the users of several logs, a panel for each
    value; how many logs refute it. Each log has the users in another order; wealth of `threshold`
    refutes.
    """
    figure, axes = figures.panels(1, len(values), height=3.4, sharey=True)
    users = np.arange(1, ranks.size + 1)
    shown = np.unique(np.linspace(0, users.size - 1, 400).astype(int))
    n_refuting, shade = dict.fromkeys(values, 0), figures.MARKS[0]["color"]
    for _ in range(logs):
        above = protocol.draw(rng.permutation(ranks), rng) - 1
        for ax, (title, value) in zip(np.ravel(axes), values.items(), strict=True):
            wealth = bet.wealth(above, value)
            n_refuting[title] += int(wealth[-1] >= threshold)
            ax.plot(users[shown], wealth[shown], color=shade, linewidth=0.8, alpha=0.7)
    for ax, title in zip(np.ravel(axes), values, strict=True):
        ax.axhline(threshold, color="black", linestyle="--", linewidth=1.2)
        ax.axhline(1.0, color="black", linewidth=0.6)
        ax.set(yscale="log", ylim=(1e-6, 1e6), title=title, xlabel="users")
    np.ravel(axes)[0].set_ylabel("wealth")
    return figure, n_refuting


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

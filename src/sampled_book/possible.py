"""What the chapter on identification draws and tabulates: ranges, and where corrections fall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from sampled_metrics import Metric, Protocol, estimators, metric
from sampled_metrics.identification import IncompatibleError, Interval, Shape, interval

from . import figures
from .tables import between

#: A frame or a series: pandas' stubs cannot tell what its columns hold.
Frame = Any

Counts = Mapping[str, NDArray[np.int64]]  # users of each recommender by negatives above their item
Ends = Mapping[tuple[str, str], Interval]  # by recommender and label of the metric
Values = Mapping[tuple[str, str, str], float]  # the same, and the correction
Told = dict[str, Any]  # numbers for the text, as tables.glued takes them


def _range(ends: Interval | None) -> str:
    return between(100 * ends.low, 100 * ends.high, 1) if ends else "refused"


def draw_inside(lines: Mapping[str, Mapping[str, float]], *bars: Mapping[str, Interval]) -> Figure:
    """Draw values line by line below each recommender's name, over the ranges that are possible.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure = draw_inside({"A": {"exact": 0.2}})
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['A', 'exact']
    >>> plt.close(figure)
    """
    height = sum(len(values) + 1 for values in lines.values())
    nan = float("nan")
    drawn = {u: {k: (v, nan, nan) for k, v in values.items()} for u, values in lines.items()}
    figure, ax = figures.panels(1, 1, height=1 + 0.23 * height)
    figures.intervals(ax, drawn, *({u: (e.low, e.high) for u, e in each.items()} for each in bars))
    return figure


def draw_answer(
    counts: Counts,
    ranks: Mapping[str, NDArray[np.int64]],
    protocol: Protocol,
    of: Metric,
    confidence: float,
) -> Figure:
    """Draw the reported and the exact metric over what one log leaves possible, twice.

    The second, darker range assumes that near the top deeper ranks have fewer users; where the
    log refuses that, there is none.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> protocol = Protocol(50, 5)
    >>> counts = {"A": np.array([40, 20, 15, 10, 9, 6])}
    >>> figure = draw_answer(counts, {"A": np.arange(1, 51)}, protocol, metric("recall@5"), 0.95)
    >>> figure.axes[0].get_xlabel()
    'Recall@5'
    >>> plt.close(figure)
    """
    reported, n = estimators.naive(of, protocol).values, protocol.n_items
    bars: list[dict[str, Interval]] = [{}, {}]
    for bar, shape in zip(bars, (None, Shape()), strict=True):
        for name in counts:
            with suppress(IncompatibleError):
                bar[name] = interval(counts[name], protocol, of, confidence, shape=shape)
    lines = {
        name: {
            "reported": float(reported @ found / found.sum()),
            "exact": float(of(ranks[name], n_items=n).mean()),
        }
        for name, found in counts.items()
    }
    figure = draw_inside(lines, *bars)
    figure.axes[0].set_xlabel(of.label)
    return figure


def shape_table(
    counts: Counts,
    protocol: Protocol,
    of: Metric,
    confidence: float,
    found: Ends,
    shaped: Ends,
    steepness: Sequence[float],
) -> Frame:
    """Ranges in percent under each assumption, a row for each recommender."""
    rows = {}
    for name in counts:
        cells = {"nothing": found[name, of.label], "decreasing": shaped.get((name, of.label))}
        shapes = {"geometric": Shape(geometric=True)}
        shapes |= {f"at most {steep:g}": Shape(steepness=steep) for steep in steepness}
        for key, shape in shapes.items():
            cells[key] = None
            with suppress(IncompatibleError):
                cells[key] = interval(counts[name], protocol, of, confidence, shape=shape)
        rows[name] = {assumed: _range(ends) for assumed, ends in cells.items()}
    return pd.DataFrame(rows).T.reset_index(names="")


def intervals_table(
    found: Ends, shaped: Ends, exact: Mapping[tuple[str, str], float], values: Values, of: list[str]
) -> Frame:
    """Ranges, the exact metric and what some corrections say, in percent, by metric and name."""
    rows = [
        {
            "": f"{key} {name}",
            "possible": _range(ends),
            "decreasing": _range(shaped.get((name, key))),
            "exact": 100 * exact[name, key],
            **{column: 100 * values[name, key, column] for column in of},
        }
        for (name, key), ends in found.items()
    ]
    return pd.DataFrame(rows)


def inside_told(
    found: Ends,
    shaped: Ends,
    exact: Mapping[tuple[str, str], float],
    values: Values,
    chosen: Mapping[str, Metric],
) -> Told:
    """How wide the ranges are, and which corrections lie in them.

    Parameters
    ----------
    found, shaped : mapping of (str, str) to Interval
        With nothing assumed and with a shape; the latter may lack some.
    exact : mapping of (str, str) to float
    values : mapping of (str, str, str) to float
        Of each correction, "uncorrected" among them.
    chosen : mapping of str to Metric
        By label; the first is that of the text.
    """
    names, label = list(dict.fromkeys(name for name, _ in found)), next(iter(chosen))

    def inside(ends: Ends, key: tuple[str, str, str]) -> bool:
        return ends[key[:2]].low <= values[key] <= ends[key[:2]].high

    def widest(ends: Ends) -> str:
        return f"{100 * max(e.high - e.low for k, e in ends.items() if k[1] == label):.0f}"

    others = [key for key in values if key[2] != "uncorrected"]
    naive = [k for k in values if k[2] == "uncorrected" and chosen[k[1]].kind != "auc"]
    beyond = {
        f"{column} of {key}" for u, key, column in others if not inside(found, (u, key, column))
    }
    picked = [100 * values[k] for k in others if k[:2] == (names[0], label)]
    level = [100 * exact[name, label] for name in names]
    held = sum(e.low <= exact[k] <= e.high for k, e in found.items())
    return {
        "id_names": ", ".join(names),
        "id_label": label,
        "id_width": widest(found),
        "id_spread": f"{max(level) - min(level):.1f}",
        "id_held": int(held),
        "id_shape_width": widest(shaped),
        "id_shape_inside": sum(k[:2] in shaped and inside(shaped, k) for k in others),
        "id_of": len(found),
        "id_inside": sum(inside(found, k) for k in others),
        "id_beyond": ", ".join(sorted(beyond)) or "none",
        "id_from": f"{min(picked):.1f}",
        "id_to": f"{max(picked):.1f}",
        "id_first": names[0],
        "id_others": len(others),
        "id_refuted": sum(not inside(found, k) for k in naive),
        "id_naive": len(naive),
    }


def ends_told(ends: Interval, k: int, n_items: int) -> Told:
    """Where the two extreme distributions put the most users: beyond the cut-off k, and within.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> ends = SimpleNamespace(at_low={1: 0.2, 40: 0.8}, at_high={10: 0.3, 60: 0.7})
    >>> ends_told(ends, 10, 100)["id_jump"], ends_told(ends, 10, 100)["id_heavy_share"]
    (40, '30.0%')
    """
    jump = min((r for r in ends.at_low if r > k), default=n_items)
    heavy = max(ends.at_high, key=lambda r: ends.at_high[r] * (r <= k))
    return {
        "id_jump": int(jump),
        "id_jump_share": f"{100 * ends.at_low.get(jump, 0.0):.1f}%",
        "id_heavy": int(heavy),
        "id_heavy_share": f"{100 * ends.at_high[heavy]:.1f}%",
    }


def exercises(
    counts: NDArray[np.int64], ranks: NDArray[np.int64], protocol: Protocol, confidence: float
) -> Told:
    """One negative by hand, a million items, and AUC's interval over that of Student.

    Raises
    ------
    AssertionError
        If the largest Recall@10 that one negative leaves possible is not that of the argument.
    """
    n, m = protocol.n_items, protocol.n_negatives
    assert isinstance(n, int)
    single, recall = Protocol(n, 1, replacement=protocol.replacement), metric("recall@10")
    law = single.pmf(ranks).mean(axis=0)
    by_hand = min(1.0, float(law[0]) * (n - 1) / (n - 10))
    assert abs(interval(law, single, recall, users=inf).high - by_hand) < 1e-3
    large = Protocol(10**6, m, replacement=protocol.replacement)
    million = interval(counts, large, recall, confidence)
    auc = interval(counts, protocol, metric("auc"), confidence)
    x = np.repeat(np.arange(m + 1) / m, counts)
    student = stats.t.ppf(0.5 + confidence / 2, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size)
    return {
        "id_one": (by_hand, ".1%", "up"),
        "id_million": _range(million),
        "id_first_cell": f"{100 * counts[0] / counts.sum():.1f}",
        "id_auc_ratio": f"{(auc.high - auc.low) / 2 / student:.2f}",
    }

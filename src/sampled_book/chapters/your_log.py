"""What the chapter on one log computes: intervals and verdicts against exact values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import Protocol, _confidence, metric
from sampled_metrics.bounds.assumption import DECREASING, assumption_name, top_ranks
from sampled_metrics.bounds.identification import log_evidence_needed
from sampled_metrics.results import Comparison, Estimates

from ..data import datasets
from ..display import figures
from ..display.tables import Frame, Texts, between

Exact = Mapping[tuple[str, str], float]  # the metric of the true ranks, if they are known
_NAN = float("nan")


def exact_metrics(metrics: Sequence[str]) -> dict[tuple[str, str], float]:
    """Metrics of the true ranks behind the bundled log, by recommender and metric.

    >>> found = exact_metrics(["recall@10"])
    >>> sorted(found, key=found.get)
    [('X', 'recall@10'), ('Y', 'recall@10'), ('Z', 'recall@10')]
    """
    return {
        (name, metric(metric_name).name): float(true_ranks.evaluate(metric_name).mean())
        for name, true_ranks in datasets.bundled_ranks().items()
        for metric_name in dict.fromkeys(metrics)
    }


#: The assumptions in the chapter, by name.
SHAPES = {"no assumption": None, assumption_name(DECREASING): DECREASING}


def log_texts(frame: Frame, confidence: float, *, label: str) -> Texts:
    """Text values on a log's size and the confidence; `label` is the metric of the figure.

    >>> log = pd.DataFrame({"user": [1, 1, 2], "recommender": [*"ABA"], "n_better": [0, 0, 3]})
    >>> log["n_negatives"] = [99, 99, 50]
    >>> texts = log_texts(log, 0.95, label="AP")
    >>> texts["log_users"], texts["log_negatives"], texts["log_error"]
    (2, '50 to 99', '5%')
    """
    sizes = sorted({int(frame["n_negatives"].min()), int(frame["n_negatives"].max())})
    return {
        "log_users": int(frame["user"].nunique()),
        "log_negatives": " to ".join(f"{m:,}" for m in sizes),
        "log_first_label": label,
        "log_confidence": f"{100 * confidence:g}%",
        "log_error": f"{100 * (1 - confidence):g}%",
        "log_wanted": (float(np.exp(log_evidence_needed(confidence))), ".1f"),
    }


def _by_name(ranges: Mapping[str, Estimates]) -> dict[str, Frame]:
    return {name: estimates.frame.set_index("recommender") for name, estimates in ranges.items()}


def plot_ranges(ranges: Mapping[str, Estimates], exact: Exact, metric_name: str) -> Figure:
    """Plot each identification interval as a grey bar, by recommender, the darker the more it
    assumes; the exact metric, if known, as a line in the recommender's colour, and the reported one
    as a text with an arrow, since it usually lies far beyond the longest bar.

    >>> frame = pd.DataFrame({"recommender": ["A"], "reported": [0.5]})
    >>> found = Estimates.__new__(Estimates)
    >>> object.__setattr__(found, "frame", frame.assign(possible_low=0.1, possible_high=0.4))
    >>> figure = plot_ranges({"no assumption": found}, {("A", "ap"): 0.2}, "ap")
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['no assumption']
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['exact: A 0.200', 'reported: 0.500 →']
    """
    frames, greys = _by_name(ranges), ("#d9d9d9", "#7d7d7d")
    names = [str(name) for name in next(iter(frames.values())).index]
    figure, ax = figures.panels(height=1 + 0.26 * len(names) * (len(frames) + 1))
    places: list[float] = []
    right_end = 1.1 * max(float(frame["possible_high"].max()) for frame in frames.values())
    for i, (name, mark) in enumerate(figures.marks(names).items()):
        top = i * (len(frames) + 1.0)
        for place, (frame, grey) in enumerate(zip(frames.values(), greys, strict=False)):
            low, high = frame.loc[name, ["possible_low", "possible_high"]]
            ax.barh(top + place, high - low, 0.75, low, color=grey, linewidth=0)
            places.append(top + place)
        bottom, beside = top + len(frames) - 0.5, {"fontsize": 11, "va": "center"}
        if exact:
            value = exact[name, metric(metric_name).name]
            ax.plot([value] * 2, [top - 0.8, bottom], color=mark["color"], linewidth=2.5)
            text, anchor = f"exact: {name} {value:.3f}", (value, top - 0.75)
            figures.note(ax, text, anchor, (5, 0), color=mark["color"], **beside)
        reported = float(next(iter(frames.values())).loc[name, "reported"])
        if reported > right_end:
            text = f"reported: {reported:.3f} →"
            ax.text(right_end, bottom - 0.5, text, **beside, ha="right")
        else:
            ax.plot(reported, bottom - 0.5, "x", color="black", ms=8, mew=2)
            ax.text(reported, bottom, f"reported: {reported:.3f}", **beside, ha="center")
    ax.set_yticks(places, [name for _ in names for name in frames], fontsize=11)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, right_end), ylim=(places[-1] + 0.7, -1.4), xlabel=metric(metric_name).label)
    ax.grid(False, axis="y")
    return figure


def ranges_texts(ranges: Mapping[str, Estimates], exact: Exact, metric_name: str) -> Texts:
    """The widest recommender's intervals and exact metric, after a check that all intervals hold
    the truth; and whether those under the strongest assumption overlap.

    >>> frame = pd.DataFrame({"recommender": ["A", "B"], "reported": [0.5, 0.6]})
    >>> found = Estimates.__new__(Estimates)
    >>> ends = {"possible_low": [0.1, 0.3], "possible_high": [0.4, 0.5]}
    >>> object.__setattr__(found, "frame", frame.assign(**ends))
    >>> ranges_texts(dict.fromkeys("abc", found), {}, "ap")["log_overlap"]
    'They overlap: A 0.100 to 0.400, B 0.300 to 0.500.'
    """
    frames, names = _by_name(ranges), ("nothing", "decreasing")
    widest = next(iter(frames.values())).eval("possible_high - possible_low").idxmax()
    for frame in frames.values() if exact else ():
        true_values = np.array([exact[name, metric(metric_name).name] for name in frame.index])
        assert (frame["possible_low"] <= true_values).all()
        assert (true_values <= frame["possible_high"]).all()
    reported = next(iter(frames.values())).loc[widest, "reported"]
    texts = {"log_first_name": str(widest), "log_first_reported": f"{reported:.3f}"}
    for key, frame in zip(names, frames.values(), strict=False):
        low, high = frame.loc[widest, ["possible_low", "possible_high"]]
        texts[f"log_{key}"] = between(low, high)
    known = exact.get((str(widest), metric(metric_name).name))
    texts["log_first_exact"] = "not known here" if known is None else f"{known:.3f}"
    strongest = list(frames.values())[-1]
    all_overlap = strongest["possible_low"].max() <= strongest["possible_high"].min()
    listed = ", ".join(
        f"{name} {between(low, high)}"
        for name, low, high in strongest[["possible_low", "possible_high"]].itertuples()
    )
    texts["log_overlap"] = f"They {'overlap' if all_overlap else 'do not all overlap'}: {listed}."
    return texts


def top_texts(frame: Frame, replacement: bool) -> Texts:
    """What a first place in the sample says of the top ranks of the largest catalogue."""
    n_items, n_negatives = int(frame["n_items"].max()), int(frame["n_negatives"].min())
    protocol = Protocol(n_items, n_negatives, replacement=replacement)
    at_thirty = protocol.pmf(30)[0]
    return {
        "log_most_items": n_items,
        "log_first_thirty": (float(at_thirty), ".0%"),
        "log_top": top_ranks(n_items, n_negatives),
    }


def compare_table(verdicts: Mapping[str, Comparison], exact: Exact) -> Frame:
    """All pairs by all metrics: exact differences, their intervals, verdicts and what they rest on.

    The interval beside each verdict is by a theorem, also if the verdict is by track record.
    """
    rows = []
    for metric_name, comparison in verdicts.items():
        for row in comparison.frame.to_dict("records"):
            first, second, name = row["first"], row["second"], metric(metric_name).name
            ground = row["warrant"]
            if ground == _confidence.THEOREM:
                confidence = comparison.settings["confidence"]
                ground = _confidence.promise(row["assumption"], ground, confidence)
            rows.append(
                {
                    "": f"{metric(metric_name).label}: {first}, {second}",
                    "Exact": exact[first, name] - exact[second, name] if exact else _NAN,
                    "Interval": between(row["possible_low"], row["possible_high"], signed=True),
                    "Verdict": row["verdict"],
                    "Rests on": ground,
                }
            )
    shown = pd.DataFrame(rows)
    return shown if exact else shown.drop(columns="Exact")

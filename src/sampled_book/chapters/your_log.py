"""Computations of the chapter on a reader's own log: intervals, verdicts, and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from sampled_metrics import Protocol, _confidence, evaluation, metric, planning
from sampled_metrics.bounds.assumption import Assumption, assumption_name
from sampled_metrics.numerics.betting import interval
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


def shapes(steepness: float) -> dict[str, Assumption | None]:
    """The assumptions in the chapter, by name.

    >>> list(shapes(2.0))
    ['no assumption', 'decreasing at the top', 'at most 2 times per doubling']
    """
    shaped = Assumption(), Assumption(steepness=steepness)
    return {"no assumption": None} | {
        assumption_name(assumption): assumption for assumption in shaped
    }


def log_texts(
    frame: Frame, confidence: float, *, label: str, steepness: float, compared: str
) -> Texts:
    """Text values on a log's size and on the parameters; `label` is the metric of the figure,
    `compared` the one that pairs are compared by.

    >>> log = pd.DataFrame({"user": [1, 1, 2], "recommender": [*"ABA"]})
    >>> log["n_negatives"] = [99, 99, 50]
    >>> texts = log_texts(log, 0.95, label="AP", steepness=2.0, compared="AUC")
    >>> texts["log_users"], texts["log_names"], texts["log_negatives"], texts["log_error"]
    (2, 'A, B', '50 to 99', '5%')
    """
    sizes = sorted({int(frame["n_negatives"].min()), int(frame["n_negatives"].max())})
    return {
        "log_users": int(frame["user"].nunique()),
        "log_names": ", ".join(dict.fromkeys(frame["recommender"].astype(str))),
        "log_negatives": " to ".join(f"{m:,}" for m in sizes),
        "log_first_label": label,
        "log_steepness": f"{steepness:g}",
        "log_compared": compared,
        "log_confidence": f"{100 * confidence:g}%",
        "log_error": f"{100 * (1 - confidence):g}%",
    }


def _by_name(ranges: Mapping[str, Estimates]) -> dict[str, Frame]:
    return {name: estimates.frame.set_index("recommender") for name, estimates in ranges.items()}


def plot_ranges(ranges: Mapping[str, Estimates], exact: Exact, metric_name: str) -> Figure:
    """Plot the reported metric, the exact one if known, and each identification interval, by
    recommender.

    >>> frame = pd.DataFrame({"recommender": ["A"], "reported": [0.5]})
    >>> found = Estimates.__new__(Estimates)
    >>> object.__setattr__(found, "frame", frame.assign(possible_low=0.1, possible_high=0.4))
    >>> figure = plot_ranges({"no assumption": found}, {}, "ap")
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['A', 'reported', 'no assumption']
    """
    frames, lines = _by_name(ranges), {}
    for name, row in next(iter(frames.values())).iterrows():
        line = {"reported": (row["reported"], _NAN, _NAN)}
        if exact:
            line["exact"] = (exact[str(name), metric(metric_name).name], _NAN, _NAN)
        for assumed, frame in frames.items():
            low, high = frame.loc[name, ["possible_low", "possible_high"]]
            line[assumed] = (_NAN, low, high)
        lines[str(name)] = line
    figure, ax = figures.panels(height=1 + 0.24 * sum(len(bars) + 1 for bars in lines.values()))
    figures.intervals(ax, lines)
    ax.set_xlabel(metric(metric_name).label)
    return figure


def ranges_table(ranges: Mapping[str, Estimates], exact: Exact, metric_name: str) -> Frame:
    """Each range in words, a row for each recommender, and the exact metric."""
    frames = _by_name(ranges)
    names = list(next(iter(frames.values())).index)
    shown = pd.DataFrame({"": names})
    for assumed, frame in frames.items():
        ends = zip(frame["possible_low"], frame["possible_high"], strict=True)
        shown[assumed.capitalize()] = [between(low, high) for low, high in ends]
    if exact:
        shown["Exact"] = [exact[name, metric(metric_name).name] for name in names]
    return shown


def ranges_texts(ranges: Mapping[str, Estimates], exact: Exact, metric_name: str) -> Texts:
    """The widest recommender's intervals, after a check that all hold the truth."""
    frames, names = _by_name(ranges), ("nothing", "decreasing", "steep")
    widest = next(iter(frames.values())).eval("possible_high - possible_low").idxmax()
    for frame in frames.values() if exact else ():
        true_values = np.array([exact[name, metric(metric_name).name] for name in frame.index])
        assert (frame["possible_low"] <= true_values).all()
        assert (true_values <= frame["possible_high"]).all()
    texts = {"log_first_name": str(widest)}
    for key, frame in zip(names, frames.values(), strict=True):
        low, high = frame.loc[widest, ["possible_low", "possible_high"]]
        texts[f"log_{key}"] = between(low, high)
    return texts


def compare_table(verdicts: Mapping[str, Comparison], exact: Exact) -> Frame:
    """All pairs by all metrics: reported, estimated, exact differences, proved ranges, verdicts."""
    rows = []
    for metric_name, comparison in verdicts.items():
        for row in comparison.frame.to_dict("records"):
            first, second, name = row["first"], row["second"], metric(metric_name).name
            rows.append(
                {
                    "Metric": metric(metric_name).label,
                    "Pair": f"{first}, {second}",
                    "Reported": row["reported"],
                    "Estimate": row["estimate"],
                    "Exact": exact[first, name] - exact[second, name] if exact else _NAN,
                    "Proved": between(row["possible_low"], row["possible_high"], signed=True),
                    "Verdict": row["verdict"],
                    "Assumption": row["assumption"],
                    "Warrant": row["warrant"],
                }
            )
    shown = pd.DataFrame(rows)
    return shown if exact else shown.drop(columns="Exact")


def compare_texts(verdicts: Mapping[str, Comparison], compared: str, exact: Exact) -> Texts:
    """How many verdicts are decided, unknown and right, and how often the reported order is right;
    nothing on right and wrong where `exact` is empty. `compared` is the metric of the first four
    numbers.
    """
    compared_frame: Frame = verdicts[compared].frame
    all_pairs: Frame = pd.concat(
        [
            comparison.frame.assign(of=metric(metric_name).name)
            for metric_name, comparison in verdicts.items()
        ]
    )
    decided: Frame = all_pairs[all_pairs["verdict"] != evaluation.UNKNOWN]
    wrong = right = "The truth is not known here."
    if exact:
        name = metric(compared).name
        pairs = zip(compared_frame["first"], compared_frame["second"], strict=True)
        true_differences = [exact[first, name] - exact[second, name] for first, second in pairs]
        turned = int((np.sign(compared_frame["reported"]) != np.sign(true_differences)).sum())
        wrong = f"The reported order is wrong for {turned} of the {len(compared_frame)}."
        is_right = [
            r.verdict.startswith(f"{r.first} ") == (exact[r.first, r.of] > exact[r.second, r.of])
            for r in decided.itertuples()
        ]
        right = f"{sum(is_right)} of the {len(decided)} are right."
    opposite = np.sign(compared_frame["reported"]) != np.sign(compared_frame["estimate"])
    return {
        "log_pairs": len(compared_frame),
        "log_unknown": int((compared_frame["verdict"] == evaluation.UNKNOWN).sum()),
        "log_opposite": int(opposite.sum()),
        "log_given": len(decided),
        "log_all_pairs": len(all_pairs),
        "log_probable": int((decided["warrant"] == _confidence.TRACK_RECORD).sum()),
        "log_free": int((decided["assumption"] == _confidence.NONE).sum()),
        "log_wrong": wrong,
        "log_right": right,
    }


def rare_texts(trials: int = 400, seed: int = 15) -> Texts:
    """False alarms of Student's test and of a bet where rare users reverse the order. A ranks 99
    items of 100 at 2 and the rest last, of 1,002; B all of them at 12. Their mean AUC is about
    equal, but twenty users seldom show it.

    >>> texts = rare_texts(trials=40)
    >>> texts["log_trials"], texts["log_bet"] <= texts["log_student"]
    (40, True)
    """
    rng, protocol = np.random.default_rng(seed), Protocol(1_002, 100)
    ranks_a = np.where(rng.random((trials, 20)) < 0.99, 2, 1_002)
    ranks_b = np.full((trials, 20), 12)
    drawn = (protocol.draw(ranks_b, rng) - protocol.draw(ranks_a, rng)) / 100
    error_rate = 1.0 - _confidence.CONFIDENCE
    intervals = [interval(values, -1.0, 1.0, error_rate) for values in drawn]
    return {
        "log_trials": trials,
        "log_student": int((stats.ttest_1samp(drawn, 0, axis=1).pvalue <= error_rate).sum()),
        "log_bet": sum(low > 0 or high < 0 for low, high in intervals),
    }


def plan_table(plans: Frame, truly: Frame | None) -> Frame:
    """The plans of all pairs, and beside them, where known, what the true ranks give."""
    shown = pd.DataFrame(
        {
            "Pair": plans["first"] + ", " + plans["second"],
            "Estimator": plans["estimator"],
            "Right": plans["probability"],
            "m": plans["negatives_needed"],
            "Users": plans["users_needed"],
        }
    )
    if truly is not None:
        assert (truly[["first", "second"]] == plans[["first", "second"]]).all(axis=None)
        shown["Right, true"] = truly["probability"]
        shown["Users, true"] = truly["users_needed"]
    return shown


def plan_texts(plans: Frame, truly: Frame | None, scored: int) -> Texts:
    """Cost of ranking all items, and how far the plan is from the plan for the true ranks, both
    from :func:`sampled_metrics.planning.for_pairs`; `scored` items are scored by the plan.
    """
    naive = plans[plans["estimator"] == "naive"]
    full = plans[plans["estimator"] == "exact"]
    truth_text = "For a log of your own there is no truth to hold the plan against."
    if truly is not None:
        n_off = int((plans["users_needed"].isna() != truly["users_needed"].isna()).sum())
        truth_text = (
            f"In {n_off} of {len(plans)} rows the plan has a number of users where the true ranks "
            "have none, or the other way round."
        )
    scores = int(full["scores_by_negatives"].iloc[0])
    return {
        "log_naive_never": int(naive["users_needed"].isna().sum()),
        "log_full_scores": scores,
        "log_now_scores": scored,
        "log_full_ratio": (scores / scored, ".0f"),
        "log_full_users": int(full["users_needed"].max()),
        "log_plan_truth": truth_text,
    }


def plot_plan(
    first: Any, second: Any, metric_name: str, protocol: Protocol, n_users: int, max_negatives: int
) -> Figure:
    """Plot how often each estimator's verdict on a pair is right, by number of negatives up to
    `max_negatives`. The pair is given by ranks or distributions, as in
    :func:`sampled_metrics.planning.curve`.
    """
    sizes = planning.steps(max_negatives)
    protocols = [replace(protocol, n_negatives=m) for m in sizes]
    curve = planning.curve(first, second, metric(metric_name), protocols, n_users)
    sampled = curve[curve["n_negatives"].notna()].groupby("estimator", sort=False)
    figure, ax = figures.panels(height=3.6)
    lines = {str(name): part["probability"].to_numpy() for name, part in sampled}
    figures.curves(ax, sizes, lines)
    ax.axhline(curve["probability"].iloc[-1], color="black", linewidth=2.2, label="exact")
    ax.set(xscale="log", ylim=(-0.02, 1.04), xlabel="negatives per user", ylabel="probability")
    ax.legend()
    return figure

"""Tables and figures of the appendix on the track record."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import metric
from sampled_metrics._validate import FloatArray

from ..data import sources
from ..display import figures
from ..display.tables import Frame
from ..experiments import conformal, track_record
from ..experiments.learned_prior import FAMILY_OF, group_by_data

#: Groups, how many, and how many times as large the new group's errors are: what is simulated.
GROUPS, SHIFTS = (19, 32), (1.0, 2.0)
REPEATS = 400


@cache
def _tables() -> tuple[Frame, Frame]:
    """The bundled estimates and differences, which are in a hundred files."""
    estimates, differences = map(track_record.bundled, track_record.KINDS)
    return estimates, differences


def _evaluations(metric_name: str, n_negatives: int) -> tuple[Frame, Frame]:
    """The bundled estimates of a metric with so many negatives or one less, and their pairs."""
    estimates, pairs = track_record.of_metric(*_tables(), metric_name)
    return estimates[estimates["up_to"] == n_negatives], pairs[pairs["up_to"] == n_negatives]


def left_out(metric_names: tuple[str, ...]) -> Frame:
    """Each group judged without it, for some metrics, with all bundled evaluations."""
    tables = [track_record.left_out(*_tables(), name) for name in metric_names]
    return pd.concat(tables, ignore_index=True)


def by_platform(metric_name: str, n_negatives: int) -> tuple[float, float, int]:
    """The multiple of the scale and the threshold with platforms as the unit, and how many.

    Platforms join sources of one company.
    """
    platforms = sources.table().set_index("name")["platform"]
    own, pairs = (
        table.assign(group=table["data"].map(platforms))
        for table in _evaluations(metric_name, n_negatives)
    )
    return track_record.reach(own), track_record.decided(pairs), own["group"].nunique()


def summary(groups: Frame) -> Frame:
    """Means over sources, for each metric and number of negatives.

    `wrong_called` is the share of wrong verdicts among all verdicts, groups alike.
    """
    rows = []
    for (name, m), part in groups.groupby(["metric", "n_negatives"], sort=False):
        called = part[part["called"] > 0]
        row = {"metric": metric(str(name)).label, "m": m, "sources": len(part)}
        row |= {"holds": part["holds"].mean(), "worst": part["holds"].min()}
        row |= {"called": part["called"].mean(), "wrong": part["wrong"].mean()}
        row["wrong_called"] = called["wrong"].sum() / called["called"].sum()
        row["factor"] = float(np.exp(part["width"].median()))
        rows.append(row)
    return pd.DataFrame(rows)


def plot_sources(groups: Frame) -> Figure:
    """For each source: the share of ranges that hold, and the shares of pairs called and wrong.

    `groups` are of one metric and number of negatives.
    """
    ordered = groups.sort_values("called")
    figure, axes = figures.panels(1, 2, height=0.19 * len(ordered) + 1.0, sharey=True)
    places = range(len(ordered))
    axes[0].hlines(places, 0.0, ordered["called"], color="#c4c4c4", linewidth=1)
    axes[0].plot(ordered["called"], places, "o", color="#0b3c6f", markersize=4)
    axes[0].plot(ordered["wrong"], places, "x", color="#d1581a", markersize=5)
    axes[0].set(xlabel="share of all pairs", xlim=(-0.02, 1.02), yticks=list(places))
    axes[0].set_yticklabels(ordered["group"], fontsize=8)
    axes[0].set_title("called (dot), wrongly (cross)", fontsize=10)
    axes[1].plot(ordered["holds"], places, "o", color="#0b3c6f", markersize=4)
    axes[1].axvline(0.95, color="#999999", linewidth=1)
    axes[1].set(xlabel="share of typical ranges", xlim=(0.45, 1.02))
    axes[1].set_title("hold the exact value", fontsize=10)
    return figure


def kinds_table(rows: Frame) -> Frame:
    """What the record says of other kinds, from :func:`~judged_kinds.bundled`.

    A row for each kind and metric: how many typical ranges, and how many of them hold; pairs, those
    in the record's scope, verdicts, wrong ones; and the share of undecided pairs in scope that are
    in the order of their estimates.
    """
    table = []
    for (kind, name), part in rows.groupby(["kind", "metric"], sort=False):
        ranges, pairs = (part[part["what"] == what] for what in ("range", "pair"))
        said, verdicts = ranges[ranges["said"]], pairs[pairs["said"]]
        undecided = pairs[pairs["known"] & ~pairs["said"]]
        row = {"Kind": kind, "Metric": metric(str(name)).label, "Sets": part["data"].nunique()}
        row |= {"Models": len(ranges[["data", "first"]].drop_duplicates())}
        row |= {"Ranges": len(said), "Hold": said["right"].mean()}
        row |= {"Pairs": len(pairs), "In scope": int(pairs["known"].sum())}
        row |= {"Verdicts": len(verdicts), "Wrong": int((~verdicts["right"]).sum())}
        table.append(row | {"Right, undecided": undecided["right"].mean()})
    return pd.DataFrame(table)


def by_source(rows: Frame, kind: str) -> Frame:
    """Verdicts and typical ranges of one kind, from :func:`~judged_kinds.bundled`.

    `wrong` counts wrong verdicts, or ranges that miss. `of_said` is their share among verdicts or
    ranges, with all sources weighing alike, and `of_all` that among all pairs or estimates; `worst`
    is the largest of the latter of a source, `source` its name.
    """
    table = []
    own = rows[rows["kind"] == kind]
    own = own.assign(group=own["data"].map(group_by_data()), wrong=own["said"] & ~own["right"])
    for (what, name), part in own.groupby(["what", "metric"], sort=False):
        of_all = part.groupby("group")["wrong"].mean()
        said = part.groupby("group")["said"].mean()
        row = {"what": what, "metric": metric(str(name)).label, "sources": len(of_all)}
        row |= {"said": int(part["said"].sum()), "wrong": int(part["wrong"].sum())}
        row |= {"of_said": of_all.mean() / said.mean(), "of_all": of_all.mean()}
        table.append(row | {"worst": of_all.max(), "source": of_all.idxmax()})
    return pd.DataFrame(table)


def by_family(metric_names: tuple[str, ...], n_negatives: int) -> Frame:
    """Verdicts and ranges with and without a model that reads sequences, on sources left out.

    `called` and `wrong` are means over the sources; `z90` and `z95` are the multiples of the scale
    for typical ranges that the family's own recommenders calibrate.
    """
    rows = []
    for name in metric_names:
        own, pairs = track_record.judged_without(*_evaluations(name, n_negatives))
        is_of_family = own["recommender"].map(FAMILY_OF).eq("sequential")
        holds = track_record.scores(own) <= own["multiple"]
        own = own.assign(sequential=is_of_family, holds=holds)
        for label, is_sequential in (("one or two", True), ("none", False)):
            part, ranges = (table[table["sequential"] == is_sequential] for table in (pairs, own))
            weights, called = track_record.weights_of(part), part["called"].to_numpy(bool)
            wrong, share = called & ~part["right"].to_numpy(bool), float(weights @ called)
            row: dict[str, Any] = {"metric": metric(name).label, "sequential": label}
            row |= {"sources": part["group"].nunique(), "called": share / weights.sum()}
            row |= {"verdicts": int(called.sum()), "wrong": int(wrong.sum())}
            row["wrong_called"] = float(weights @ wrong) / share
            held = ranges.groupby("group")["holds"].mean()
            row |= {"holds": held.mean(), "worst": held.min()}
            rows.append(row | {f"z{q}": track_record.reach(ranges, q / 100) for q in (90, 95)})
    return pd.DataFrame(rows)


def wrong_verdicts(metric_names: tuple[str, ...], n_negatives: int) -> Frame:
    """What may be said of the verdicts given, by a threshold that other sources chose.

    Every fourth source chooses the threshold. `called` and `wrong` are means over the others, and
    `at_most` is the share of wrong ones among the verdicts that 95% confidence allows.
    """
    rows = []
    for name in metric_names:
        _, pairs = _evaluations(name, n_negatives)
        chooses = pairs["group"].isin(sorted(set(pairs["group"]))[::4])
        least, rest = track_record.least_sure(pairs[chooses]), pairs[~chooses]
        called = rest["strength"] >= least
        counted = rest.assign(called=called, wrong=called & ~rest["right"])
        by_data = counted.groupby(["group", "data"])[["called", "wrong"]].mean()
        shares = by_data.groupby("group").mean()
        row: dict[str, Any] = {"metric": metric(name).label, "sources": len(shares)}
        of_all, wrong = shares["called"].to_numpy(), shares["wrong"].to_numpy()
        row |= {"called": of_all.mean(), "wrong": wrong.mean() / of_all.mean()}
        rows.append(row | {"at_most": conformal.wrong_at_most(wrong, of_all, 0.95)})
    return pd.DataFrame(rows)


def arrivals(rows: Frame, metric_name: str, n_negatives: int) -> dict[str, FloatArray]:
    """Scores of one random recommender of each source, and then of recommenders of other kinds.

    `rows` are those of :func:`~judged_kinds.bundled`, whose recommenders come one by one, each on
    one random data set of a source.
    """
    estimates, _ = _evaluations(metric_name, n_negatives)
    estimates = estimates.assign(score=track_record.scores(estimates))
    by_model = estimates.groupby(["group", "data", "recommender"])["score"].mean().reset_index()
    rng = np.random.default_rng(1)
    shuffled = by_model.iloc[rng.permutation(len(by_model))].drop_duplicates("group")
    streams = {"the benchmark's sources": shuffled["score"].to_numpy()}
    own = rows[(rows["what"] == "range") & (rows["metric"] == metric_name)]
    for kind, name in (("neural", "then Mult-VAE"), ("ratings", "then predictors of ratings")):
        others = own[own["kind"] == kind].groupby(["data", "first"])["score"].mean().reset_index()
        others["group"] = others["data"].map(group_by_data())
        order = np.random.default_rng(3).permutation(len(others))
        others = others.iloc[order].drop_duplicates(["group", "first"])
        streams[name] = np.concatenate([shuffled["score"], others["score"]])
    return streams


def evidence(streams: dict[str, FloatArray], n_orders: int = 500) -> dict[str, FloatArray]:
    """The evidence against a random order after each arrival, averaged over orders of the sources,
    which come first, and of the others.
    """
    n_sources = min(map(len, streams.values()))
    sums = {name: np.zeros(scores.size) for name, scores in streams.items()}
    for seed, (name, scores) in product(range(n_orders), streams.items()):
        rng, rng_of_others = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        others = n_sources + rng_of_others.permutation(scores.size - n_sources)
        order = np.r_[rng.permutation(n_sources), others]
        sums[name] += conformal.martingale(scores[order], rng) / n_orders
    return sums


def plot_evidence(paths: dict[str, FloatArray]) -> Figure:
    """Plot what :func:`evidence` returns."""
    figure, axes = figures.panels(height=3.2)
    colors, styles = ("#5b5b5b", "#0b3c6f", "#d1581a"), ("-", "--", "-")
    base = min(map(len, paths.values()))
    for (name, values), color, style in zip(paths.items(), colors, styles, strict=True):
        first = 0 if len(values) == base else base - 1
        places = range(first + 1, len(values) + 1)
        axes.plot(places, values[first:], style, color=color, label=name)
    axes.axhline(20.0, color="#999999", linestyle=":", linewidth=1)
    axes.set(yscale="log", xlabel="arrivals", ylabel="mean evidence against a random order")
    axes.legend()
    return figure


def simulated() -> Frame:
    """Coverage and wrong verdicts for a new group of drawn hierarchies."""
    rows = []
    for spread in ("moderate", "outliers"):
        for n_groups in GROUPS:
            for shift in SHIFTS:
                found = conformal.simulated(n_groups, 40, spread, shift, REPEATS, seed=1)
                rows.append({"spread": spread, "groups": n_groups, "shift": shift, **found})
    return pd.DataFrame(rows)

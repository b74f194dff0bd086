"""Tables and figures of the appendix on the track record."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sampled_metrics import metric

from ..data import sources
from ..display import figures
from ..display.tables import Frame
from ..experiments import conformal, track_record

#: Groups, how many, and how many times as large the new group's errors are: what is simulated.
GROUPS, SHIFTS = (19, 32), (1.0, 2.0)
REPEATS = 400


def left_out(metric_names: tuple[str, ...]) -> Frame:
    """Each group judged without it, for some metrics, with all bundled evaluations."""
    estimates, differences = (track_record.bundled(kind) for kind in track_record.KINDS)
    tables = [track_record.left_out(estimates, differences, name) for name in metric_names]
    return pd.concat(tables, ignore_index=True)


def by_platform(metric_name: str, n_negatives: int) -> tuple[float, float, int]:
    """The multiple of the scale and the threshold with platforms as the unit, and how many.

    Platforms join sources of one company.
    """
    estimates, differences = (track_record.bundled(kind) for kind in track_record.KINDS)
    platforms = sources.table().set_index("name")["platform"]
    own, pairs = (
        table[table["up_to"] == n_negatives].assign(group=table["data"].map(platforms))
        for table in track_record.of_metric(estimates, differences, metric_name)
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


def simulated() -> Frame:
    """Coverage and wrong verdicts for a new group of drawn hierarchies."""
    rows = []
    for spread in ("moderate", "outliers"):
        for n_groups in GROUPS:
            for shift in SHIFTS:
                found = conformal.simulated(n_groups, 40, spread, shift, REPEATS, seed=1)
                rows.append({"spread": spread, "groups": n_groups, "shift": shift, **found})
    return pd.DataFrame(rows)

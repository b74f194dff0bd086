"""Checks of tables that print their results twice, among sampled and among all items."""

from __future__ import annotations

import pandas as pd

import sampled_metrics as sm

from ..data.published import OURS, cells, settings
from .finding import Finding, Printed, Trial, judge, judged, read_list


def _half(half: str, dataset: str | None = None) -> pd.DataFrame:
    """A row for each data set and metric of a half, in the order printed, a column a method."""
    rows = cells()[cells()["protocol"] == half]
    rows = rows if dataset is None else rows[rows["dataset"] == dataset]
    keys = ["dataset", "metric"]
    wide = rows.astype({"value": float}).pivot(index=keys, columns="method", values="value")
    return wide.reindex(pd.MultiIndex.from_frame(rows[keys].drop_duplicates()))


def improvements(published: str, half: str, dataset: str) -> Finding:
    """The improvements over the best other method, in percent, metric by metric as printed."""
    claimed = [Printed.parse(text) for text in read_list(published)]
    table = _half(half, dataset)
    own_values, best = table[OURS], table.drop(columns=OURS).max(axis=1)

    def trial(base: pd.Series, setting: str) -> Trial:
        percentages = (100.0 * (own_values - best) / base).tolist()
        fits = [
            printed.rounds_from(value) for printed, value in zip(claimed, percentages, strict=True)
        ]
        shown = ", ".join(f"{value:.2f}" for value in percentages)
        return Trial(shown, all(fits), setting)

    lower = "where the method is not the best, its own number is divided by"
    return judge(trial(best, ""), trial(best.where(own_values >= best, own_values), lower))


def best_cells(published: str, half: str) -> Finding:
    """On how many data sets and metrics the authors' method has the largest number, ties too."""
    table = _half(half)
    best = int((table[OURS] >= table.max(axis=1)).sum())
    return judged(f"{best} of {len(table)}", best == int(published))


def belongs(published: str, of: str, others: dict[str, str], dataset: str) -> Finding:
    """Whether a printed average can stand beside others of the same sampled ranks."""
    row = pd.DataFrame({"method": ["It"]} | {name: [text] for name, text in others.items()})
    table = sm.published(row.assign(**{of: published}), **settings(dataset), replacement=False)
    good = bool(table.checks["together"].item())
    sentence = f"{of} {published} {'can' if good else 'cannot'} stand beside the others"
    return judged(sentence, good, note=str(table.checks["finding"].item()))

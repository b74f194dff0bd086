"""Answers for all users and for each group of them, by several metrics, that hold together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from .._validate import as_written
from ..designs import Analysis, Request, analysis_of
from ..log.columns import listed
from ..log.compact import Log
from ..log.groups import by_group
from ..log.query_values import QueryValues
from ..results import ALL, Comparison, Estimates

_MEAN_OF_DATASETS = f"{ALL} is the mean over data sets, each of which counts the same"


def answers(
    log: Any, by: str | None, requests: Sequence[Request], ask: Callable[[Analysis], Any]
) -> Any:
    """The answers to requests of one confidence, for all users and for each group.

    The error rate is divided by the number of answers (Bonferroni).
    """
    if isinstance(log, QueryValues) and log.datasets is not None:
        by = "dataset"
    logs, left_out = ({ALL: log}, []) if by is None else _logs(log)
    n_answers, nominal = len(logs) * len(requests), requests[0].confidence
    if n_answers == 1:
        return ask(analysis_of(log, requests[0]))
    confidence, by_metric = 1.0 - (1.0 - nominal) / n_answers, dict[str, Any]()
    for request in requests:
        of_groups = {}
        for group, group_log in logs.items():
            adjusted = request._replace(confidence=confidence, nominal=nominal, record=group == ALL)
            try:
                of_groups[group] = ask(analysis_of(group_log, adjusted))
            except ValueError as problem:
                prefix = "" if group == ALL else f"{by} {group}: "
                raise ValueError(f"{prefix}{problem}") from None
        by_metric[request.metrics[0].name] = _of_groups(of_groups, by, nominal)
    result, *_ = by_metric.values()
    notes = [note for answer in by_metric.values() for note in answer.notes]
    scope = [] if by is None else [f"all users and {len(logs) - 1} groups"]
    if len(by_metric) > 1:
        scope.append(f"{len(by_metric)} metrics")
        result = _of_metrics(by_metric)
    subject = "for each recommender and metric the intervals"
    if isinstance(result, Comparison):
        subject = "the verdicts and intervals on all pairs"
    notes.append(
        f"{subject} of {' by '.join(scope)} hold together: each has an error rate of "
        f"{1.0 - nominal:.4g} / {n_answers} (Bonferroni)"
    )
    notes = [*dict.fromkeys(left_out + notes)]
    changes = {"log": None} if isinstance(result, Estimates) else {}
    return replace(result, notes=tuple(notes), **changes)


def _logs(log: Log | QueryValues) -> tuple[dict[str, Any], list[str]]:
    """The log of all users and of each group that has a standard error, and notes."""
    if isinstance(log, QueryValues):
        return {ALL: log.mean_of_datasets(), **log.by_dataset()}, [_MEAN_OF_DATASETS]
    assert log.groups is not None
    labels = log.groups.cat.categories
    group_logs = {
        label: group for label, group in by_group(log) if min(group.users_of.values()) > 1
    }
    if not group_logs or ALL in group_logs:
        raise ValueError(
            f"by must name a column with groups of 2 users or more, none of them named {ALL!r}, "
            f"got {as_written(log.groups.name)} with {listed(labels)}"
        )
    notes = ["groups have no track record: the benchmark has whole data sets"]
    if small := [label for label in labels if label not in group_logs]:
        notes.append(f"groups with fewer than 2 users of a recommender left out: {listed(small)}")
    return {ALL: log, **group_logs}, notes


def _of_groups(results: Mapping[str, Any], by: str | None, nominal: float) -> Any:
    """One result with a column for the group, if there are any."""
    of_all = results[ALL]
    if by is None:
        return replace(of_all, settings={**of_all.settings, "confidence": nominal})
    settings = {**of_all.settings, "confidence": nominal, "by": by}
    settings.pop("gamma", None)  # it depends on the number of users
    if "assumed" in settings:  # a group or all users may contradict an assumption
        all_assumed = [result.settings["assumed"] for result in results.values()]
        settings["assumed"] = max(all_assumed, key=lambda assumed: len(assumed.conditions))
    notes = [*of_all.notes]
    for group, result in results.items():
        notes += [f"{by} {group}: {note}" for note in result.notes if note not in of_all.notes]
    frames = [result.frame.assign(group=group) for group, result in results.items()]
    frame = pd.concat(frames, ignore_index=True)[["group", *of_all.frame]]
    return replace(of_all, frame=frame, settings=settings, notes=tuple(notes))


def _of_metrics(results: Mapping[str, Any]) -> Any:
    """One comparison with a column for the metric."""
    (first, *_), frames = (
        results.values(),
        [result.frame.assign(metric=name) for name, result in results.items()],
    )
    columns = [*first.frame]
    columns.insert(columns.index("first"), "metric")
    estimators = dict.fromkeys(result.settings.get("estimator", "") for result in results.values())
    settings = {**first.settings, "metric": ", ".join(results), "estimator": "; ".join(estimators)}
    frame = pd.concat(frames, ignore_index=True)[columns]
    return replace(first, frame=frame, settings=settings, parts=results)

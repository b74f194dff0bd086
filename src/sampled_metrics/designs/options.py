"""Checks of the options of `estimate` and `compare`."""

from __future__ import annotations

import difflib
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import estimators as corrections
from .. import learned_prior
from .._validate import as_written, shortened
from ..log.compact import Log
from ..log.query_values import QueryValues, named, query_values
from ..log.read import read_log
from ..log.sub_corpus import SubCorpus
from ..metrics import DEPTH_ERROR, Metric, recall_depth
from ..metrics import metric as parsed
from .sample import Sample
from .values import ESTIMATORS, FITTED, LEARNED, Values

if TYPE_CHECKING:
    import pandas as pd

SEQUENTIAL, RATINGS = "sequential", "ratings"
#: Names of recommenders by which their family can be guessed.
_NAMES = {
    SEQUENTIAL: re.compile(
        r"(?i).*(sasrec|[bB]ert4rec|gru4rec|caser|fpmc|narm|nextitnet|markov|transrec).*"
    ),
    "popularity": re.compile(r"(?i)(most|top)?[-_ ]?pop(ular|ularity|ular items)?"),
    RATINGS: re.compile(r"(?i).*(funk[-_ ]?svd|biased[-_ ]?mf|svd(pp|\+\+)|persmean|slopeone).*"),
}


def opened(
    log: Log | SubCorpus | QueryValues | str | Path | Sequence[str | Path] | pd.DataFrame,
    metrics: Sequence[Metric],
    replacement: bool | None,
    by: str | None = None,
) -> Log | SubCorpus | QueryValues:
    """A log, sub-corpus or values by query, read from a table if necessary."""
    if not isinstance(log, (Log, SubCorpus, QueryValues)):
        values = query_values(log, metrics)
        if values is None:
            return read_log(log, replacement=replacement, by=by)
        log = values
    if not isinstance(log, Log):
        kind = "a sub-corpus" if isinstance(log, SubCorpus) else "values by query"
        for name, option in (("by", by), ("replacement", replacement)):
            if option is not None:
                raise ValueError(f"{name} must be left out for {kind}, got {as_written(option)}")
        return log
    if replacement not in (None, log.replacement):
        raise ValueError(
            f"replacement must be {log.replacement} as in the log, got {as_written(replacement)}"
        )
    if by is not None and by != (of_log := None if log.groups is None else log.groups.name):
        raise ValueError(
            f"by must be that of read_log, {of_log}, got {as_written(by)}: read the log with it"
        )
    return log


def checked_metrics(
    metrics: str | Metric | Sequence[str | Metric], tabular: object = None
) -> list[Metric]:
    """Metrics by their names, among which may be those of a table of values by query."""
    if isinstance(metrics, (str, Metric)) or not isinstance(metrics, Iterable):
        metrics = [metrics]
    parsed_metrics = dict[Metric, None]()
    for metric in metrics:
        try:
            parsed_metrics[parsed(metric)] = None
        except ValueError as problem:
            parsed_metrics[named(metric, tabular, problem)] = None
    if not parsed_metrics:
        raise ValueError("metrics must hold one metric or more, got none")
    return list(parsed_metrics)


def checked_gamma(gamma: float | None, sample: Sample) -> float:
    if gamma is None:
        return corrections.default_gamma(max(sample.users.values()))
    if not isinstance(gamma, numbers.Real) or not 0 < gamma < np.inf:
        raise ValueError(f"gamma must be a finite number > 0, got {as_written(gamma)}")
    return float(gamma)


def check_estimator(name: str, allowed: Sequence[str], values: Values) -> None:
    """ValueError unless an estimator is one of `allowed` and fits the log."""
    if name not in ESTIMATORS:
        matches = difflib.get_close_matches(str(name), ESTIMATORS, n=1)
        hint = f"did you mean {matches[0]!r}?" if matches else f"use one of {', '.join(ESTIMATORS)}"
        raise ValueError(f"estimator {as_written(name)} is unknown: {hint}")
    if name not in allowed:
        raise ValueError(
            f"estimator {name!r} is for a fixed number of negatives, and not for "
            f"{values.sample.log.protocol!r}: use one of {', '.join(allowed)}"
        )
    if name == LEARNED and values.not_learned:
        raise ValueError(f"estimator {name!r} does not fit this log: {values.not_learned}")
    unavailable = (
        set(ESTIMATORS) - {LEARNED, "naive", "rank estimate"} if values.fits.too_large else FITTED
    )
    if name in unavailable and values.fits.unfit:
        raise ValueError(f"estimator {name!r} does not fit this log: {values.fits.unfit}")


def families(
    family: str | Mapping[str, str] | None, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The family of each recommender, and notes on those that may be wrong."""
    if family is None or isinstance(family, str):
        family = dict.fromkeys(names, family or "")
    for name in family:
        if name not in names:
            raise ValueError(f"family must name recommenders of the log, got {as_written(name)}")
    known_families, notes = list(learned_prior.learned().families), []
    for unknown in sorted({*family.values()} - {"", RATINGS, *known_families}):
        notes.append(
            f"family {unknown} has no mean of its own in the learned prior, as "
            f"{' and '.join(known_families)} have"
        )
    for name in names:
        likely = likely_family(name)
        if likely not in ("", RATINGS) and not family.get(name):
            notes.append(
                f"{shortened(name)} seems to be {likely}, for which estimates are off unless "
                f"family says so (--family {shortened(name)}={likely})"
            )
    return [family.get(name, "") for name in names], notes


def likely_family(name: str) -> str:
    """The family that a recommender's name suggests, or "".

    >>> likely_family("SASRec, 2 blocks"), likely_family("Popular music")
    ('sequential', '')
    """
    return next((family for family, words in _NAMES.items() if words.fullmatch(name)), "")


def notes_on(values: Values, estimator: str) -> list[str]:
    """Notes on the fit of an estimator."""
    lower, upper = values.fits.fewest, int(values.sample.negatives.max())
    if lower < upper and estimator in FITTED:
        return [
            f"users have {lower:,} to {upper:,} negatives: priors are fitted to {lower:,} of each"
        ]
    return []


def note_on_default(values: Values, estimator: str) -> list[str]:
    """Why the default estimator is not the usual one, if so."""
    if estimator not in ("bias-variance", "rank estimate"):
        return []
    prior = " without a fitted prior" if estimator == "bias-variance" else ""
    return [f"estimates are by {estimator}{prior}: {values.fits.unfit}"]


def notes_on_depth(sample: Sample, metrics: Sequence[Metric]) -> list[str]:
    """Which exact Recall each reported Recall measures, where the benchmark shows that it does.

    There all users have one relevant item and similar numbers of candidates.
    """
    m, counts = int(sample.negatives[0]), sum(sample.counts.values())
    is_alike = int(sample.items.max()) <= 3 * int(sample.items.min())
    if not is_alike or (sample.negatives != m).any() or int(sample.relevant.max()) > 1:
        return []
    mean_size = float(np.average(sample.items, weights=counts))
    notes = []
    for metric in metrics:
        if (depth := recall_depth(metric, mean_size, m)) is not None:
            notes.append(
                f"reported {metric.name} measures {metric.base}@{depth} of all items, in "
                f"expectation to within {DEPTH_ERROR:.0%} on the benchmark"
            )
    return notes


def note_on_exact_values(log: Log, metrics: Sequence[Metric]) -> list[str]:
    """The exact values, where they are known."""
    exact_names = [metric.name for metric in metrics if metric.name in log.exact_values]
    values = [
        f"{name} is {', '.join(f'{log.exact_values[name][key]:.4f}' for key in log.recommenders)}"
        for name in exact_names
    ]
    names = ", ".join(log.recommenders)
    return [f"here the exact value is known: {'; '.join(values)} ({names})"] if values else []

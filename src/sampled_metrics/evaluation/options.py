"""Checks of the options of `estimate` and `compare`."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import estimators as corrections
from .._validate import as_written
from ..bounds.assumption import Assumption
from ..log.compact import Log
from ..log.read import read_log
from ..metrics import Metric
from ..metrics import metric as parsed
from .sample import Sample
from .values import ADAPTIVE, ESTIMATORS, FITTED, Values

if TYPE_CHECKING:
    import pandas as pd


def opened(
    log: Log | str | Path | Sequence[str | Path] | pd.DataFrame, replacement: bool | None
) -> Log:
    """A log, read from its source if necessary."""
    if not isinstance(log, Log):
        return read_log(log, replacement=replacement)
    if replacement not in (None, log.replacement):
        raise ValueError(
            f"replacement must be {log.replacement} as in the log, got {as_written(replacement)}"
        )
    return log


def checked_metrics(given: Sequence[str | Metric]) -> list[Metric]:
    if isinstance(given, (str, Metric)):
        given = [given]
    wanted = dict.fromkeys(of if isinstance(of, Metric) else parsed(of) for of in given)
    if not wanted:
        raise ValueError("metrics must hold one metric or more, got none")
    return list(wanted)


def assumption_for(assumption: Assumption | None, sample: Sample, of: Metric) -> Assumption | None:
    """The assumption for a metric; None if it uses relevant items other than the best."""
    return assumption if of.best_only or int(sample.relevant.max()) <= 1 else None


def checked_gamma(given: float | None, sample: Sample) -> float:
    if given is None:
        return corrections.default_gamma(max(sample.users.values()))
    if not isinstance(given, numbers.Real) or not 0 < given < np.inf:
        raise ValueError(f"gamma must be a finite number > 0, got {as_written(given)}")
    return float(given)


def checked_estimators(given: Sequence[str] | str, values: Values) -> list[str]:
    """The estimators named; for "all", those that the log allows and that have an interval."""
    unfit, design = values.fits.unfit, values.sample.design
    allowed = ESTIMATORS if design is None else ADAPTIVE
    if given == "all":
        return [name for name in allowed[:-1] if not unfit or name not in FITTED]
    names = list(dict.fromkeys([given] if isinstance(given, str) else given))
    for name in names:
        if name not in ESTIMATORS:
            near = difflib.get_close_matches(str(name), ESTIMATORS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(ESTIMATORS)}"
            raise ValueError(f"estimator {as_written(name)} is unknown: {hint}")
        if name not in allowed:
            raise ValueError(
                f"estimator {name!r} is for a fixed number of negatives, and not for {design!r}: "
                f"use one of {', '.join(allowed)}"
            )
        if name in FITTED and unfit:
            raise ValueError(f"estimator {name!r} does not fit this log: {unfit}")
    if not names:
        raise ValueError("estimators must hold one name or more, got none")
    return names


def notes_on(names: Sequence[str], given: Sequence[str] | str, values: Values) -> list[str]:
    """What is left out of a table of estimators or of a fit, and why."""
    notes, unfit = [], values.fits.unfit
    if given == "all" and unfit:
        notes.append(f"{FITTED[0]}, and {FITTED[1]}, are left out: {unfit}")
    if given == "all" and values.sample.design is not None:
        fixed = ", ".join(name for name in ESTIMATORS if name not in ADAPTIVE)
        notes.append(f"{fixed} are left out: they are for a fixed number of negatives")
    fewest, most = values.fits.fewest, int(values.sample.negatives.max())
    if fewest < most and set(names) & set(FITTED):
        notes.append(
            f"users have {fewest:,} to {most:,} negatives: priors are fitted to {fewest:,} of each"
        )
    if FITTED[2] in names:
        notes.append(f"{FITTED[2]} has no standard error: from sample to sample its estimate jumps")
    return notes


def note_on_reported(sample: Sample) -> list[str]:
    """Why nothing is reported, if so."""
    if sample.design is None:
        return []
    first, most = sample.design.first, sample.design.most
    return [
        f"reported is left empty: ranks among {first:,} to {most:,} negatives, as many as an "
        "adaptive design drew for each user, are not averaged"
    ]


def refuse_if_weighted(log: Log, **options: object) -> None:
    """Refuse options of corrections, which weighted negatives do not have."""
    for name, given in options.items():
        if log.weighted and given is not None:
            raise ValueError(
                f"{name} must be left out, got {as_written(given)}: no correction is for "
                f"negatives that are not drawn alike, as those of {log!r}"
            )

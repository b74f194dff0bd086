"""Ways to read the study behind Tables 3 and 4: a choice wherever the paper leaves one.

Each claim is tried under what the paper states, whatever is chosen where it leaves a choice, and
then under the settings that turn out to be behind its tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from . import study
from .finding import OWN_RUNS, Finding, Trial, judge, made_by

PAIRS = ("XY", "XZ", "YZ")
STEP = 5  # negatives, along figure 6
RANDOM_START = study.SETTINGS["X"]
ONE_SIZE = f"corrections are for one n, {study.mean_catalogue():,}, the mean over users"
#: What the table needs of two methods and the text does not say.
UNSAID = {
    "CLS": (study.NONNEGATIVE, "CLS also requires values not below 0"),
    "rank estimate": (study.ONE_MORE, "the rank estimate divides by m + 1"),
}
BV_COLUMNS = tuple(column for column in study.CORRECTED if column.startswith("BV"))
AUC_APART = "AUC is left out, of which the uncorrected average is already unbiased"


class View(NamedTuple):
    """One way to read the study: a choice wherever the paper leaves one."""

    reading: str
    replacement: bool = False
    each_n: bool = False  # corrections are for each user's own n, not for the mean
    method: str | None = None  # in place of a column's own
    last_place: bool = False
    one_more: bool = False  # what depends on X is predicted for one more seed

    def value(self, recommender: str, variant: str, kind: str, column: str) -> study.Value:
        """What a run reports, in percent."""
        method = self.method or column
        reported = study.sampled(recommender, variant, self.replacement, method, self.each_n)[kind]
        if not self.last_place:
            return reported
        return reported._replace(
            mean=reported.mean + study.last_place_left_out(recommender, method)
        )

    def means(self, kind: str, column: str | None) -> list[dict[str, float]]:
        """Means of X, Y and Z for each seed of X: exact, or expected in a column."""
        if column is None:
            return study.every_seed(self.reading, lambda name, v: study.exact(name, v)[kind].mean)
        return study.every_seed(
            self.reading, lambda name, v: self.value(name, v, kind, column).mean
        )

    def both(self, kind: str, column: str) -> list[tuple[dict[str, float], dict[str, float]]]:
        """Exact and expected means of X, Y and Z for each seed of X."""
        return list(zip(self.means(kind, None), self.means(kind, column), strict=True))


#: Where the paper leaves open how negatives are drawn and what n a correction is for.
CHOICES = ((True, True), (True, False), (False, True), (False, False))
WITHOUT_CHOICES = ((False, True), (False, False))


class Step(NamedTuple):
    """A setting, and all views that leave open what it does not settle."""

    setting: str
    views: tuple[View, ...]


def view_steps(recommenders: str, column: str = "uncorrected", auc: bool = False) -> Iterator[Step]:
    """From what the paper states outwards, one setting more at a time."""
    # The text is about the recommenders of Table 3, and says that section 9 describes them.
    readings = (study.PRINTED, study.REPRODUCED)
    yield Step("", tuple(View(reading, *choice) for reading in readings for choice in CHOICES))
    own_setting = max(
        (study.SETTINGS[name] for name in recommenders if name in "YZ"), key=len, default=""
    )
    methods: list[tuple[str | None, str]] = [(None, "")]
    if column in UNSAID:
        methods.append(UNSAID[column])
    for last_place in [False, True] if auc and "Z" in recommenders else [False]:
        for method, method_text in methods:
            base = [study.LAST_PLACE if last_place else own_setting or RANDOM_START, method_text]
            for choices, extra_settings in (
                (CHOICES, []),
                (WITHOUT_CHOICES, [study.WITHOUT]),
                (WITHOUT_CHOICES[1:], [study.WITHOUT, ONE_SIZE]),
            ):
                setting = "; ".join(part for part in (*base, *extra_settings) if part)
                views = (View(study.REPRODUCED, *choice, method, last_place) for choice in choices)
                yield Step(setting, tuple(views))


def try_steps(steps: Iterator[Step], look: Callable[[View], Trial]) -> Finding:
    """Try a claim step by step; it holds if it does under all views of a step."""
    trials: list[Trial] = []
    for step in steps:
        trials.append(of_all_views(step, look))
        if trials[-1].holds:
            return judge(*trials, unsettled=OWN_RUNS)
    last = replace(trials[-1], setting="all settings behind Table 3 are taken")
    return judge(*trials[:-1], last, unsettled=OWN_RUNS)


def of_all_views(step: Step, look: Callable[[View], Trial]) -> Trial:
    """What the first view gives under which a claim fails; if there is none, what the last does."""
    for view in step.views:
        trial = look(view)
        if not trial.holds:
            break
    return replace(trial, setting=step.setting)


def tried_for(recommenders: str) -> Callable[..., Callable[..., Finding]]:
    """Make a check of what one view of the study gives, tried step by step."""
    return made_by(lambda look: try_steps(view_steps(recommenders), look))


def try_or_else(
    look: Callable[[View], Trial], setting: str, fallback: Callable[[View], Trial], **evidence: str
) -> Finding:
    """Try a claim under all that the paper states, and what it says under one setting more."""
    stated = next(view_steps("XYZ"))
    return judge(
        of_all_views(stated, look), of_all_views(Step(setting, stated.views), fallback), **evidence
    )


def exact_and_run(
    view: View, kinds: list[str], column: str
) -> Iterator[tuple[float, study.Value, study.Value]]:
    """The exact value, and what a run reports in a column and uncorrected.

    On each metric, for X, Y and Z and every seed of X.
    """
    for kind, name in itertools.product(kinds, "XYZ"):
        for variant in study.variants(name, view.reading):
            run, plain = (view.value(name, variant, kind, c) for c in (column, "uncorrected"))
            yield study.exact(name, variant)[kind].mean, run, plain

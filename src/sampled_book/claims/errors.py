"""Checks of what is said of error, bias, variance and significance of corrections."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from scipy import special

from sampled_metrics import Protocol, estimators, metric

from . import study
from .corrected import chances, pair_gaps, pair_name, seed_differences, thinned_pmf
from .finding import OWN_RUNS, Finding, Trial, judge, listed, read_list
from .study import COLUMNS, CORRECTED, PRINTED, REPRODUCED, SETTINGS
from .views import (
    BV_COLUMNS,
    PAIRS,
    STEP,
    Step,
    View,
    exact_and_run,
    of_all_views,
    tried_for,
    try_or_else,
)

# --- what sections 1, 5 and 7 say of error, bias and variance ------------------------------------


def _run_errors(view: View, kinds: list[str], column: str) -> np.ndarray:
    """Root mean squared errors of one run, of each of the rows."""
    rows = exact_and_run(view, kinds, column)
    return np.array([np.hypot(run.mean - true, run.sd) for true, run, _ in rows])


@tried_for("XYZ")
def better_estimate(view: View, published: str, kinds: list[str]) -> Trial:
    """Corrections whose root mean squared error in one run is below the uncorrected one's."""
    errors = {column: _run_errors(view, kinds, column) for column in COLUMNS}
    better = all((errors[column] < errors["uncorrected"]).all() for column in CORRECTED)
    text = listed({column: column_errors.mean() for column, column_errors in errors.items()}, ".2f")
    return Trial(f"mean error in points: {text}", better and published == "all")


@tried_for("XYZ")
def bias_depends_less(view: View, published: str, kinds: list[str]) -> Trial:
    """Corrections under which the bias differs less between the recommenders."""
    spread = {}
    for column in COLUMNS:
        spread[column] = 0.0
        for kind in kinds:
            seed_means = view.both(kind, column)
            gaps = [np.ptp([mean[name] - true[name] for name in true]) for true, mean in seed_means]
            spread[column] = max(spread[column], float(np.max(gaps)))
    text = listed(spread, ".1f")
    is_smaller = all(spread[column] < spread["uncorrected"] for column in CORRECTED)
    return Trial(f"biases differ by up to {text} points", is_smaller and published == "all")


@tried_for("XYZ")
def error_is(view: View, published: str, kinds: list[str]) -> Trial:
    """What most of the squared error of an uncorrected run is, of "bias" and "variance"."""
    shares = [
        (run.mean - true) ** 2 / ((run.mean - true) ** 2 + run.sd**2)
        for true, run, _ in exact_and_run(view, kinds, "uncorrected")
    ]
    dominant = "bias" if min(shares) > 0.5 else "variance" if max(shares) < 0.5 else "either"
    return Trial(f"{min(shares):.2%} or more of it is bias squared", dominant == published)


def cost_of_less_bias(published: str, kinds: list[str]) -> Finding:
    """Whether every correction has a "higher variance" than the uncorrected average.

    Measured in points; or else relative to the value that is reported.
    """

    def look(view: View, relative: bool) -> Trial:
        least = {
            column: min(
                run.sd / plain.sd / (run.mean / plain.mean if relative else 1.0)
                for _, run, plain in exact_and_run(view, kinds, column)
            )
            for column in CORRECTED
        }
        higher = min(least.values()) > 1 and published == "higher variance"
        measure = "relative standard deviation" if relative else "standard deviation"
        return Trial(f"smallest ratio of {measure}: {listed(least, '.2g')}", higher)

    return try_or_else(
        lambda view: look(view, False),
        "the standard deviation is taken relative to the value that is reported",
        lambda view: look(view, True),
    )


@tried_for("XYZ")
def bias_by_gamma(view: View, published: str, kinds: list[str]) -> Trial:
    """How the distance from the exact value changes as gamma is lowered, for X, Y and Z."""
    rows = [exact_and_run(view, kinds, column) for column in BV_COLUMNS]
    errors = np.array([[abs(run.mean - true) for true, run, _ in row] for row in rows])
    text = listed(dict(zip(BV_COLUMNS, errors.mean(axis=1), strict=True)), ".2f")
    falls = bool((np.diff(errors, axis=0) < 0).all())
    return Trial(f"mean distance in points: {text}", falls and published == "lower")


@tried_for("XYZ")
def best_gamma(view: View, published: str, kinds: list[str]) -> Trial:
    """Whether the gamma with the least squared error of the average over users is "below 1"."""
    errors = np.array([_run_errors(view, kinds, column) for column in BV_COLUMNS])
    best = sorted({BV_COLUMNS[i].removeprefix("BV ") for i in errors.argmin(axis=0)})
    text = f"gamma = {' or '.join(best)} has the least error over {study.N_USERS:,} users"
    return Trial(text, "1" not in best and published == "below 1")


def monotone_not_needed(published: str, kinds: list[str], column: str, m: int) -> Finding:
    """Whether the average over all users does without monotone values.

    Those of least bias, with few enough negatives that they can be computed; or else those of a
    BV method, against BV 1, whose values never rise.
    """

    def of_least_bias(view: View) -> Trial:
        deviations = []
        for kind in kinds:
            n = study.mean_catalogue()
            free = estimators.least_bias(metric(kind), Protocol(n, m))
            of_groups = study.moments("Y", view.reading, view.replacement).first
            pmf = of_groups.sum(axis=0) @ thinned_pmf(m)
            deviations.append(float(np.sqrt(pmf @ (free.values - pmf @ free.values) ** 2)))
        sd = 100 * min(deviations) / np.sqrt(study.N_USERS)
        text = f"with {m} negatives the average of Y by least bias has a sd of {sd:.2g} points"
        return Trial(text, sd < 1 and published == "not essential")

    def of_column(view: View) -> Trial:
        n = study.mean_catalogue()
        rises, falls = (
            [np.diff(study.corrected(method, kind, n).values) for kind in kinds]
            for method in (column, "BV 1")
        )
        errors = [_run_errors(view, kinds, method).mean() for method in (column, "BV 1")]
        text = f"mean error {errors[0]:.2f} points with {column}, {errors[1]:.2f} with BV 1"
        differ = all((d > 0).any() for d in rises) and all((d <= 1e-12).all() for d in falls)
        holds = differ and bool(errors[0] < errors[1]) and published == "not essential"
        return Trial(text, holds)

    return try_or_else(of_least_bias, "the variance is weighed too, as in section 5.3", of_column)


@tried_for("XYZ")
def gains_from_users(view: View, published: str, kinds: list[str], few: int) -> Trial:
    """Whether more users help the "corrected" averages most.

    By how much the root mean squared error falls from a few users like these to all 6,040.
    """
    falls, times = {}, np.sqrt(study.N_USERS / few)
    for column in COLUMNS:
        rows = [(run.mean - true, run.sd) for true, run, _ in exact_and_run(view, kinds, column)]
        ratios = [np.hypot(bias, sd) / np.hypot(bias, times * sd) for bias, sd in rows]
        falls[column] = 1 - float(np.mean(ratios))
    text = listed(falls, ".1%")
    corrected = all(falls[column] > falls["uncorrected"] for column in CORRECTED)
    return Trial(
        f"from {few} users to {study.N_USERS:,} the error falls by {text}",
        corrected and published == "corrected",
    )


# --- what is said of verdicts and significance ----------------------------------------------------


@tried_for("XYZ")
def agree_on_the_wrong(view: View, published: str, kinds: list[str]) -> Trial:
    """The least number of comparisons on which nearly all uncorrected runs agree, and are wrong."""
    of_kinds = {pair: c for pair, c in chances(view, "uncorrected").items() if pair[1] in kinds}
    wrong = [pair_name(*pair) for pair, chance in of_kinds.items() if chance < 0.001]
    text = f"{len(wrong)} of {len(of_kinds)}: {', '.join(wrong)}"
    return Trial(text, len(wrong) >= int(published))


def least_bias_observed(published: str, kinds: list[str]) -> Finding:
    """Whether section 6 shows a "high" variance of least bias: above the uncorrected metric's.

    The table's method of least bias is CLS; or else the one that tends to it, with the least gamma.
    """

    def look(view: View, column: str) -> Trial:
        ratios = [run.sd / plain.sd for _, run, plain in exact_and_run(view, kinds, column)]
        text = f"{column} {min(ratios):.2g} to {max(ratios):.2g} times the uncorrected sd"
        return Trial(text, min(ratios) > 1 and published == "high")

    return try_or_else(
        lambda view: look(view, "CLS"),
        "it is seen in what tends to least bias, bias-variance with gamma = 0.001",
        lambda view: look(view, "BV 0.001"),
        note="Neither table has the estimator of eq. 22 itself.",
        unsettled=OWN_RUNS,
    )


def low_bias_and_variance(published: str, kinds: list[str]) -> Finding:
    """Whether a column has a bias within a tenth of the exact value, and a spread within a tenth.

    Or else a bias within a tenth of the uncorrected metric's.
    """

    def look(view: View, baseline: str) -> Trial:
        rows = list(exact_and_run(view, kinds, published))
        errors = [abs(run.mean - true) for true, run, _ in rows]
        spread = max(run.sd / true for true, run, _ in rows)
        if baseline == "exact":
            bias = [error / true for error, (true, _, _) in zip(errors, rows, strict=True)]
            text = f"bias {min(bias):.0%} to {max(bias):.0%} of the exact value"
        else:
            plain = [abs(plain.mean - true) for true, _, plain in rows]
            bias = [error / scale for error, scale in zip(errors, plain, strict=True)]
            text = f"bias {min(bias):.1%} to {max(bias):.1%} of the {baseline} value's"
        text += f", standard deviation up to {spread:.1%} of the exact value"
        return Trial(text, max(bias) < 0.1 and spread < 0.1)

    return try_or_else(
        lambda view: look(view, "exact"),
        "low is meant against the uncorrected metrics, whose bias is far larger",
        lambda view: look(view, "uncorrected"),
        unsettled=OWN_RUNS,
    )


@tried_for("XYZ")
def less_biased(view: View, published: str, kinds: list[str]) -> Trial:
    """Whether a column's bias is less than the uncorrected metric's for each recommender."""
    rows = exact_and_run(view, kinds, published)
    errors = np.abs([(run.mean - true, plain.mean - true) for true, run, plain in rows])
    (low, plain_low), (high, plain_high) = errors.min(axis=0), errors.max(axis=0)
    text = f"{low:.1f} to {high:.1f} points, uncorrected {plain_low:.1f} to {plain_high:.1f}"
    return Trial(text, bool((errors[:, 0] < errors[:, 1]).all()))


def more_sources(published: str, kinds: list[str], column: str) -> Finding:
    """Whether drawing negatives makes a difference "harder" or "easier" to find.

    Found is that a difference is many standard errors from 0: those with the variance of negatives
    against those of the users alone.
    """

    def trial(reading: str, setting: str) -> Trial:
        shares, factors = [], []
        for kind in kinds:
            parts = {name: _variances(name, reading, kind, column) for name in "XYZ"}
            shares += [negatives / (users + negatives) for users, negatives in parts.values()]
            for pair in PAIRS:
                users, negatives = np.sum([parts[name] for name in pair], axis=0)
                factors.append(float(np.sqrt(users / (users + negatives))))
        text = (
            f"negatives are {min(shares):.0%} to {max(shares):.0%} of the variance of an average; "
            f"a difference is {min(factors):.2f} to {max(factors):.2f} as many standard errors"
        )
        verdict = "harder" if max(factors) < 1 else "easier" if min(factors) > 1 else "either"
        return Trial(text, verdict == published, setting)

    setting = max(SETTINGS.values(), key=len)
    return judge(trial(PRINTED, ""), trial(REPRODUCED, setting), unsettled=OWN_RUNS)


@cache
def _variances(name: str, reading: str, kind: str, column: str) -> tuple[float, float]:
    """Variance of a user's expected value over users, and of the value over negatives."""
    _, first, second = study.moments(name, study.variants(name, reading)[0], False)
    values = study.corrected(column, kind, study.mean_catalogue()).values
    pmf = first.sum(axis=0)
    square = float(values @ second.sum(axis=0) @ values)
    return square - float(pmf @ values) ** 2, float(pmf @ values**2) - square


def _all_gaps(view: View, kinds: list[str], column: str) -> np.ndarray:
    """Expected differences over their standard deviations, of all pairs, metrics and seeds of X."""
    return np.array(
        [gap for pair in PAIRS for kind in kinds for gap in pair_gaps(view, *pair, kind, column)]
    )


def _indicated(view: View, kinds: list[str], column: str, threshold: float) -> float:
    """How often a difference beyond so many standard deviations of a run has the right sign.

    The probability is averaged over pairs, metrics and seeds of X.
    """
    gaps = _all_gaps(view, kinds, column)
    right, wrong = special.ndtr(gaps - threshold), special.ndtr(-gaps - threshold)
    return float(np.mean(right / (right + wrong)))


@tried_for("XYZ")
def stronger_indication(view: View, published: str, kinds: list[str], level: float) -> Trial:
    """The corrections whose differences, once found, are right more often than uncorrected ones."""
    columns = CORRECTED if published == "all" else tuple(published.split(", "))
    shares = {column: _indicated(view, kinds, column, level) for column in COLUMNS}
    stronger = tuple(c for c in CORRECTED if shares[c] > shares["uncorrected"])
    return Trial(f"right in {listed(shares, '.1%')}", stronger == columns)


def indication(published: str, kinds: list[str], level: float) -> Finding:
    """Whether a difference that is found indicates the more, the lower gamma: "stronger".

    The probability that a difference beyond so many standard deviations of one run has the right
    sign, on average over pairs and metrics; or else that of an average over many runs.
    """

    def look(view: View, runs: str) -> Trial:
        right_shares = {
            column: _indicated(view, kinds, column, level)
            if runs == "one"
            else float(np.mean(_all_gaps(view, kinds, column) > 0))
            for column in BV_COLUMNS
        }
        text = listed(right_shares, ".1%")
        rises = all(b >= a for a, b in itertools.pairwise(right_shares.values()))
        return Trial(f"right in {text}", rises and published == "stronger")

    one_run = Step("", (View(REPRODUCED),))
    many_runs = "the experiment is rerun until the variance of the negatives has gone"
    return judge(
        of_all_views(one_run, lambda view: look(view, "one")),
        of_all_views(Step(many_runs, one_run.views), lambda view: look(view, "many")),
        unsettled=OWN_RUNS,
    )


@tried_for("XYZ")
def still_prone(view: View, published: str, kinds: list[str]) -> Trial:
    """The ways, of "variance, bias", in which some correction still fails on some comparison.

    By variance: right in expectation, and in less than 95% of runs. By bias: wrong in expectation.
    """
    cells = {
        (comparison, column): chance
        for column in CORRECTED
        for comparison, chance in chances(view, column).items()
        if comparison[1] in kinds
    }
    missed = sum(0.5 < chance < 0.95 for chance in cells.values())
    wrong = sum(chance < 0.5 for chance in cells.values())
    failures = [name for name, count in (("variance", missed), ("bias", wrong)) if count]
    text = f"of {len(cells)} cells {missed} by variance, {wrong} by bias"
    return Trial(text, ", ".join(failures) == published)


def metrics_in_state(published: str, column: str, m: int, state: str) -> Finding:
    """The metrics, as in "recall@10, ap", that m negatives leave "in order" or "out of order".

    For X and Y, in expectation, with one seed of X; or else Recall@10 alone, of the paper's figure.
    """
    named = read_list(published)

    def gap(kind: str) -> float:
        if column != "uncorrected":
            return -float(seed_differences(View(REPRODUCED), column, kind)[0][m // STEP - 1])
        x, y = (study.expected_with(m, name, REPRODUCED, kind) for name in "XY")
        return y - x

    gaps = {kind: gap(kind) for kind in named}
    in_state = [kind for kind in gaps if (gaps[kind] > 0) == (state == "in order")]
    labels = ", ".join(metric(kind).label for kind in in_state) or "none"
    text = f"{state} with m = {m:,}: {labels}"
    return judge(
        Trial(text, in_state == named),
        Trial(text, "recall@10" in in_state, "said of Recall@10 alone, as figure 6 of KDD 2020"),
        unsettled=OWN_RUNS,
    )

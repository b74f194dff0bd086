"""Checks of runs of the sampled evaluation: Tables 3 and 4, figure 6, and what is said of them.

Each claim is tried under what the paper states, whatever is chosen where it leaves a choice, and
then under the settings that turn out to be behind its tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.consistency import sign

from . import study
from .finding import (
    OWN_RUNS,
    Z_LIMIT,
    Distance,
    Finding,
    Printed,
    Trial,
    judge,
    listed,
    made_by,
    printed_pair,
    read_list,
)
from .study import (
    COLUMNS,
    CORRECTED,
    LAST_PLACE,
    METRICS,
    N_NEGATIVES,
    NONNEGATIVE,
    ONE_MORE,
    PRINTED,
    REPRODUCED,
    RUNS,
    SETTINGS,
    WITHOUT,
    Value,
    distance_of_seeds,
    every_seed,
    exact,
    sampled,
    span,
    within_seeds,
)
from .toy import average_and_spread, shown

PAIRS = ("XY", "XZ", "YZ")
STEP = 5  # negatives, along figure 6
RANDOM_START = SETTINGS["X"]
ONE_SIZE = f"corrections are for one n, {study.mean_catalogue():,}, the mean over users"
#: What the table needs of two methods and the text does not say.
UNSAID = {
    "CLS": (NONNEGATIVE, "CLS also requires values not below 0"),
    "rank estimate": (ONE_MORE, "the rank estimate divides by m + 1"),
}
BV_COLUMNS = tuple(column for column in CORRECTED if column.startswith("BV"))
AUC_APART = "AUC is left out, of which the uncorrected average is already unbiased"


class View(NamedTuple):
    """One way to read the study: a choice wherever the paper leaves one."""

    reading: str
    replacement: bool = False
    each_n: bool = False  # corrections are for each user's own n, not for the mean
    method: str | None = None  # in place of a column's own
    last_place: bool = False
    one_more: bool = False  # what depends on X is predicted for one more seed

    def value(self, recommender: str, variant: str, kind: str, column: str) -> Value:
        """What a run reports, in percent."""
        method = self.method or column
        found = sampled(recommender, variant, self.replacement, method, self.each_n)[kind]
        if not self.last_place:
            return found
        return found._replace(mean=found.mean + study.last_place_left_out(recommender, method))

    def means(self, kind: str, column: str | None) -> list[dict[str, float]]:
        """Means of X, Y and Z for each seed of X: exact, or expected in a column."""
        if column is None:
            return every_seed(self.reading, lambda name, v: exact(name, v)[kind].mean)
        return every_seed(self.reading, lambda name, v: self.value(name, v, kind, column).mean)

    def both(self, kind: str, column: str) -> list[tuple[dict[str, float], dict[str, float]]]:
        """Exact and expected means of X, Y and Z for each seed of X."""
        return list(zip(self.means(kind, None), self.means(kind, column), strict=True))


#: Where the paper leaves open how negatives are drawn and what n a correction is for.
CHOICES = tuple(itertools.product((True, False), repeat=2))
WITHOUT_CHOICES = ((False, True), (False, False))


class Step(NamedTuple):
    """A setting, and all views that leave open what it does not settle."""

    setting: str
    views: tuple[View, ...]


def _steps(recommenders: str, column: str = "uncorrected", auc: bool = False) -> Iterator[Step]:
    """From what the paper states outwards, one setting more at a time."""
    # The text is about the recommenders of Table 3, and says that section 9 describes them.
    yield Step(
        "",
        tuple(View(r, w, each) for r in (PRINTED, REPRODUCED) for w, each in CHOICES),
    )
    own = max((SETTINGS[name] for name in recommenders if name in "YZ"), key=len, default="")
    methods: list[tuple[str | None, str]] = [(None, "")]
    if column in UNSAID:
        methods.append(UNSAID[column])
    for last_place in [False, True] if auc and "Z" in recommenders else [False]:
        for method, said in methods:
            base = [LAST_PLACE if last_place else own or RANDOM_START, said]
            for choices, more in (
                (CHOICES, []),
                (WITHOUT_CHOICES, [WITHOUT]),
                (WITHOUT_CHOICES[1:], [WITHOUT, ONE_SIZE]),
            ):
                setting = "; ".join(part for part in (*base, *more) if part)
                views = (View(REPRODUCED, w, each, method, last_place) for w, each in choices)
                yield Step(setting, tuple(views))


def _tried(steps: Iterator[Step], look: Callable[[View], Trial]) -> Finding:
    """Try a claim step by step; it holds if it does under all views of a step."""
    trials: list[Trial] = []
    for step in steps:
        trials.append(_of_all(step, look))
        if trials[-1].holds:
            return judge(*trials, unsettled=OWN_RUNS)
    last = replace(trials[-1], setting="all settings behind Table 3 are taken")
    return judge(*trials[:-1], last, unsettled=OWN_RUNS)


def _of_all(step: Step, look: Callable[[View], Trial]) -> Trial:
    """What the first view gives under which a claim fails; if there is none, what the last does."""
    for view in step.views:
        trial = look(view)
        if not trial.holds:
            break
    return replace(trial, setting=step.setting)


def _tried_for(recommenders: str) -> Callable[..., Callable[..., Finding]]:
    """Make a check of what one view of the study gives, tried step by step."""
    return made_by(lambda look: _tried(_steps(recommenders), look))


def _or_else(
    look: Callable[[View], Trial], setting: str, other: Callable[[View], Trial], **evidence: str
) -> Finding:
    """Try a claim under all that the paper states, and what it says under one setting more."""
    stated = next(_steps("XYZ"))
    return judge(_of_all(stated, look), _of_all(Step(setting, stated.views), other), **evidence)


# --- Table 3 --------------------------------------------------------------------------------------


def sampled_cell(
    published: str, recommender: str, kind: str, column: str, given: str = ""
) -> Finding:
    """A cell of a sampled column of Table 3: average and standard deviation of 100 runs.

    `given` is the exact AUC that the table prints of X: what a run reports of AUC follows from
    it, whatever X's seed.
    """

    def look(view: View) -> Trial:
        if given and view.reading != PRINTED:
            return _look_given_auc(published, view, column, Printed.parse(given))
        if recommender == "X":
            return _look_at_seeds(published, view, kind, column)
        mean, sd = view.value(recommender, view.reading, kind, column)
        distances = average_and_spread(published, mean, sd**2, 3 * sd**4, RUNS)
        fits = max(distances).z < Z_LIMIT
        return Trial(shown(mean, sd, distances), fits, "", distances)

    finding = _tried(_steps(recommender, column, kind == "auc"), look)
    if given:  # no start of ours has it
        start = f"X's exact AUC is {given}, as the table prints it"
        finding = replace(finding, setting=finding.setting.replace(RANDOM_START, start))
    if LAST_PLACE not in finding.setting:
        return finding
    mean, sd = View(REPRODUCED).value(recommender, REPRODUCED, kind, column)
    return finding.noted(
        f"With every place of a tie equally likely: {mean:.2f} ± {sd:.2f}. That a place is left "
        "out is a guess, which no text confirms."
    )


def _look_at_seeds(published: str, view: View, kind: str, column: str) -> Trial:
    """The average may be that of one more seed; the spread is any seed's."""
    average, spread = printed_pair(published)
    variants = study.variants("X", view.reading)
    found = [view.value("X", variant, kind, column) for variant in variants]
    values, sd = [row.mean for row in found], float(np.mean([row.sd for row in found]))
    error = sd / np.sqrt(RUNS)
    distance = spread.distance(sd, error / np.sqrt(2))
    if view.reading == PRINTED:  # which says nothing of the seed: each must do
        near = sum(average.z(value, error) < Z_LIMIT for value in values)
        text = f"{near} of {len(values)} seeds are within {Z_LIMIT:.0f} standard errors"
        return Trial(text, near == len(values) and distance.z < Z_LIMIT, "", (distance,))
    fits, t = within_seeds(average, values, error)
    text = f"{span(values)}, each ± {sd:.2f} (t = {t:.1f}, z = {distance.z:.1f})"
    distances = (distance_of_seeds(average, values, error), distance)
    return Trial(text, fits and distance.z < Z_LIMIT, "", distances)


def _look_given_auc(published: str, view: View, column: str, true: Printed) -> Trial:
    """X's AUC from the exact one: the reported mean is a line in it, which ten seeds give."""
    variants = study.variants("X", view.reading)
    found = [view.value("X", variant, "auc", column) for variant in variants]
    line = np.polyfit([exact("X", v)["auc"].mean for v in variants], [f.mean for f in found], 1)
    mean, sd = float(np.polyval(line, true.value)), float(np.mean([row.sd for row in found]))
    average, spread = printed_pair(published)
    # The exact AUC is known to its printed digits.
    error = float(np.hypot(sd / np.sqrt(RUNS), line[0] * true.half_unit / np.sqrt(3)))
    distances = (
        average.distance(mean, error),
        spread.distance(sd, sd / np.sqrt(2 * RUNS)),
    )
    return Trial(shown(mean, sd, distances), max(distances).z < Z_LIMIT, "", distances)


def gammas_in_heads(published: str) -> Finding:
    """The weights of the BV columns, as in "1.0, 0.1", from the heads of Tables 3 and 4."""
    heads = [column.removeprefix("BV ") for column in BV_COLUMNS]
    same = [float(part) for part in published.split(",")] == [float(head) for head in heads]
    return judge(Trial(f"the columns are BV {', '.join(heads)}", same))


def gammas_of_columns(published: str, recommender: str, kind: str, cells: list[str]) -> Finding:
    """The weights of the BV columns, as in "1.0, 0.1", from a row of Table 3.

    Each of the cells must be that of its own weight.
    """
    claimed = [f"BV {float(part):g}" for part in published.split(",")]

    def fits(column: str, cell: str, view: View) -> bool:
        mean, sd = view.value(recommender, view.reading, kind, column)
        return max(average_and_spread(cell, mean, sd**2, 3 * sd**4, RUNS)).z < Z_LIMIT

    def look(view: View) -> Trial:
        wrong = []
        for column, cell in zip(claimed, cells, strict=True):
            found = [other for other in BV_COLUMNS if fits(other, cell, view)]
            if column not in found:
                wrong.append(f"{cell} is that of {', '.join(found) or 'none'}, not of {column}")
        return Trial("; ".join(wrong) or "each cell is that of its own gamma", not wrong)

    return _tried(_steps(recommender), look)


# --- Table 4 --------------------------------------------------------------------------------------


def runs_in_order(published: str, first: str, second: str, kind: str, column: str) -> Finding:
    """A cell of Table 4: how many of 100 runs order a pair as the exact metric does.

    The exact mean and variance of the difference, samples independent for the two recommenders,
    give the probability of a right order, and a binomial test holds the count against it. The
    count has to pass for every seed of X; or else for one more seed, whose probability is
    predicted from theirs.
    """
    count = int(published)

    def look(view: View) -> Trial:
        gaps = _gaps(view._replace(one_more=False), first, second, kind, column)
        predicted = _distance_of_count(count, _one_more(gaps) if first == "X" else gaps)
        each = (_distance_of_count(count, (gap,)) for gap in gaps)
        farthest = predicted.z if view.one_more else max(distance.z for distance in each)
        chance, p = np.mean(special.ndtr(gaps)), 2 * special.ndtr(-farthest)
        text = f"{RUNS * chance:.1f} of {RUNS} expected (p = {p:.2g})"
        return Trial(text, farthest < Z_LIMIT, "", (predicted,))

    def steps() -> Iterator[Step]:
        for step in _steps(first + second, column):
            yield step
            if first == "X" and step.setting:
                views = tuple(view._replace(one_more=True) for view in step.views)
                yield Step(f"{step.setting}; {RANDOM_START}", views)

    return _tried(steps(), look)


@cache
def _gaps(view: View, first: str, second: str, kind: str, column: str) -> tuple[float, ...]:
    """Expected difference the right way round over its standard deviation, for each seed of X."""
    gaps = []
    for a in study.variants(first, view.reading):
        for b in study.variants(second, view.reading):
            right = sign(exact(first, a)[kind].mean, exact(second, b)[kind].mean)
            one, two = view.value(first, a, kind, column), view.value(second, b, kind, column)
            gaps.append((one.mean - two.mean) * right / float(np.hypot(one.sd, two.sd)))
    return tuple(gaps)


def _one_more(gaps: tuple[float, ...], points: int = 200) -> tuple[float, ...]:
    """Equally likely gaps of one more seed, predicted from those of the others."""
    size, spread = len(gaps), np.std(gaps, ddof=1)
    quantiles = special.stdtrit(size - 1, (np.arange(points) + 0.5) / points)
    return tuple((np.mean(gaps) + quantiles * spread * np.sqrt(1 + 1 / size)).tolist())


def _distance_of_count(count: int, gaps: tuple[float, ...]) -> Distance:
    """Distance of a count of runs from what equally likely gaps give, as that of a normal."""
    z, beyond_2, beyond_3 = _counts(gaps)
    return Distance(float(z[count]), beyond_2, beyond_3)


@cache
def _counts(gaps: tuple[float, ...]) -> tuple[np.ndarray, float, float]:
    """Distances of all counts, and the probability of one beyond 2 or beyond 3."""
    every = np.arange(RUNS + 1)
    chance = np.clip(special.ndtr(gaps), 1e-12, 1 - 1e-12)  # else binom overflows
    law = stats.binom.pmf(every[:, None], RUNS, chance).mean(axis=1)
    below, above = np.cumsum(law), np.cumsum(law[::-1])[::-1]  # 1 - below would be rounding
    tail = np.clip(2 * np.minimum(below, above), 1e-300, 1)
    z = -special.ndtri(tail / 2)
    return z, float(law[z > 2].sum()), float(law[z > Z_LIMIT].sum())


def chances(view: View, column: str) -> dict[tuple[str, str], float]:
    """Probability of a right order for each pair and metric, on average over X's seeds."""
    return {
        (pair, kind): float(np.mean(special.ndtr(_gaps(view, *pair, kind, column))))
        for pair in PAIRS
        for kind in METRICS
    }


def _named(pair: str, kind: str) -> str:
    return f"{metric(kind).label} {pair[0]} vs {pair[1]}"


@cache
def _printed_counts(column: str) -> dict[tuple[str, str], int]:
    """A column of Table 4 as the paper prints it, for each pair and metric."""
    from . import load  # which imports this module

    return {
        (claim.args["first"] + claim.args["second"], claim.args["kind"]): int(claim.published)
        for claim in load()
        if claim.check == "corrected.runs_in_order" and claim.args["column"] == column
    }


def exceptions(published: str, column: str, level: float) -> Finding:
    """The comparisons in which a column is in order with no more than a probability.

    `published` is their number, or the one of them, as in "AP Y vs Z". What Table 4 itself prints
    of the column can decide against it.
    """

    def right(below: list[str]) -> bool:
        return len(below) == int(published) if published.isdigit() else below == [published]

    def look(view: View) -> Trial:
        found = {_named(*at): chance for at, chance in chances(view, column).items()}
        below = [name for name, chance in found.items() if chance <= level]
        named = sorted(found, key=lambda name: found[name])[:2]
        text = "lowest " + ", ".join(f"{name} {found[name]:.2%}" for name in named)
        if not published.isdigit() and published not in named:
            text += f"; {published} {found[published]:.2%}"
        return Trial(f"{len(below)} of {len(found)} at {level:.0%} or less; {text}", right(below))

    finding = _tried(_steps("XYZ"), look)
    printed = {_named(*at): count for at, count in _printed_counts(column).items()}
    low = {name: count for name, count in printed.items() if count <= 100 * level}
    if right([*low]):
        return finding
    text = ", ".join(f"{name} {count} of 100" for name, count in low.items())
    if not published.isdigit():
        text += f"; {published} has {printed[published]}"
    return replace(finding, unsettled="").noted(f"At {level:.0%} or less Table 4 prints {text}.")


@_tried_for("XYZ")
def most_effective(view: View, published: str) -> Trial:
    """The column that is in order with the highest probability, on average over Table 4."""
    found = {column: np.mean([*chances(view, column).values()]) for column in COLUMNS}
    text = listed(found, ".1%")
    return Trial(text, max(found, key=lambda column: found[column]) == published)


@_tried_for("XYZ")
def more_effective(view: View, published: str) -> Trial:
    """Which of two columns, as in "BV 0.1 > rank estimate", is in order more often on average."""
    first, second = read_list(published, ">")
    one, two = (np.mean([*chances(view, column).values()]) for column in (first, second))
    return Trial(f"{first} {one:.1%}, {second} {two:.1%}", bool(one > two))


def strictly_better(published: str, column: str) -> Finding:
    """In how many of the 12 comparisons a column is in order more often than the uncorrected.

    "all" for 12, or else for those that the uncorrected column does not already have right in
    every run. More often is by a thousandth of a run of 100 or more.
    """

    def look(view: View, able: bool) -> Trial:
        one, two = chances(view, column), chances(view, "uncorrected")
        rest = [at for at in one if not able or two[at] < 1 - 1e-5]
        better = [at for at in rest if one[at] > two[at] + 1e-5]
        equal = [_named(*at) for at in rest if abs(one[at] - two[at]) <= 1e-5]
        text = f"better in {len(better)} of {len(rest)}, equal on {', '.join(equal) or 'none'}"
        return Trial(text, len(better) == (len(rest) if published == "all" else int(published)))

    stated = _tried(_steps("XYZ"), lambda view: look(view, False))
    if stated.holds:
        return stated
    able = _tried(_steps("XYZ"), lambda view: look(view, True))
    ahead, plain = _printed_counts(column), _printed_counts("uncorrected")
    level = [_named(*at) for at in ahead if ahead[at] == plain[at]]
    note = f"Table 4 prints the same count for both on {', '.join(level)}."
    if not able.holds:
        return stated.noted(note)
    setting = "comparisons that the uncorrected metric has right in every run are left out"
    return replace(able, setting=f"{able.setting}; {setting}", evidence=stated.evidence).noted(note)


@_tried_for("XYZ")
def mistakes_resolved(view: View, published: str) -> Trial:
    """How many of the comparisons that the uncorrected column gets wrong each correction mends.

    A comparison is wrong if the right order has a probability below a half; "most" are more than
    half of them.
    """
    wrong = [at for at, chance in chances(view, "uncorrected").items() if chance < 0.5]
    mended = {column: sum(chances(view, column)[at] > 0.5 for at in wrong) for column in CORRECTED}
    text = listed(mended)
    most = all(2 * count > len(wrong) for count in mended.values())
    return Trial(f"of {len(wrong)} mistakes {text}", most and published == "most")


# --- what section 6.3 says of the expectations ----------------------------------------------------


#: Expectations that differ by less, in points, differ by rounding errors.
_ROUNDING = 1e-9


def closer_than_uncorrected(published: str, kinds: list[str]) -> Finding:
    """The methods whose expectation is closer to the exact value, for X, Y, Z and each metric."""
    columns = CORRECTED if published == "all" else tuple(published.split(", "))

    def look(view: View, kinds: list[str]) -> Trial:
        worse = []
        for kind, column in itertools.product(kinds, columns):
            errors, plain = _errors(view, kind, column), _errors(view, kind, "uncorrected")
            worse += [
                f"{column} on {metric(kind).label} of {name}"
                for name in "XYZ"
                if any(
                    one[name] > other[name] - _ROUNDING
                    for one, other in zip(errors, plain, strict=True)
                )
            ]
        text = f"not {', '.join(worse[:3])}" if worse else "all of them"
        more = f" and {len(worse) - 3} more" if len(worse) > 3 else ""
        return Trial(text + more, bool(kinds) and not worse)

    others = [kind for kind in kinds if kind != "auc"]
    return _or_else(lambda view: look(view, kinds), AUC_APART, lambda view: look(view, others))


def _errors(view: View, kind: str, column: str) -> list[dict[str, float]]:
    """Distance of the expectation from the exact value, in points, for each seed of X."""
    both = view.both(kind, column)
    return [{name: abs(mean[name] - true[name]) for name in true} for true, mean in both]


@_tried_for("XYZ")
def closest(view: View, published: str, kinds: list[str]) -> Trial:
    """The methods whose largest relative error in the cells of these metrics is the smallest."""
    named = set(read_list(published))
    worst = {
        column: max(abs(run.mean / true - 1) for true, run, _ in _rows(view, kinds, column))
        for column in COLUMNS
    }
    text = listed(worst, ".0%")
    smallest = sorted(COLUMNS, key=lambda column: worst[column])[: len(named)]
    return Trial(f"largest relative error: {text}", set(smallest) == named)


@_tried_for("XYZ")
def places_best(view: View, published: str, kinds: list[str]) -> Trial:
    """The recommender that every correction places first on each metric, for every seed of X."""
    found: dict[str, list[str]] = {}
    for kind, column in itertools.product(kinds, CORRECTED):
        for means in view.means(kind, column):
            best = max(means, key=lambda name: means[name])
            found.setdefault(best, []).append(f"{metric(kind).label} {column}")
    margin = min(
        (means[published] - max(v for n, v in means.items() if n != published), kind, column)
        for kind, column in itertools.product(kinds, CORRECTED)
        for means in view.means(kind, column)
    )
    closest_ = f"{metric(margin[1]).label} under {margin[2]}, {margin[0]:+.3f}"
    names = " or ".join(sorted(found))
    return Trial(f"{names}; closest on {closest_}", [*found] == [published])


def columns_in_order(published: str, pairs: list[str], kinds: list[str]) -> Finding:
    """The corrections whose expectations have these pairs in the right order on each metric."""

    def look(view: View) -> Trial:
        right = [
            column
            for column in CORRECTED
            if all(_pair_right(view, p, k, column) for p in pairs for k in kinds)
        ]
        return Trial(", ".join(right) or "none", right == published.split(", "))

    return _tried(_steps("".join(sorted({name for pair in pairs for name in pair}))), look)


def _pair_right(view: View, pair: str, kind: str, column: str) -> bool:
    """Whether the expected order of a pair is the exact one, for every seed of X."""
    a, b = pair[0], pair[1]
    both = view.both(kind, column)
    return all(sign(true[a], true[b]) == sign(mean[a], mean[b]) for true, mean in both)


@_tried_for("XYZ")
def order_identified_better(view: View, published: str, kinds: list[str]) -> Trial:
    """The corrections with more pairs in the right order than the uncorrected averages have."""
    counts = {
        column: sum(_pair_right(view, p, k, column) for p in PAIRS for k in kinds)
        for column in COLUMNS
    }
    total = len(PAIRS) * len(kinds)
    text = listed(counts)
    better = all(counts[column] > counts["uncorrected"] for column in CORRECTED)
    return Trial(f"of {total} pairs {text}", better and published == "all")


@_tried_for("XY")
def in_order_with(view: View, published: str, column: str, kind: str) -> Trial:
    """Whether so many negatives, as in "60" or "less than 60", put X and Y in the right order.

    A sample of fewer negatives is a part of one of 100, so its law follows from theirs. The
    expected difference is interpolated between multiples of five.
    """
    less, most = published.startswith("less than "), int(published.removeprefix("less than "))
    needed = []
    differences = _differences(view, column, kind)
    for true, gaps in zip(view.means(kind, None), differences, strict=True):
        ahead = np.append(-1.0, gaps * sign(true["X"], true["Y"]))
        last = int(np.flatnonzero(ahead <= 0).max())
        if last == len(gaps):
            return Trial(f"out of order at m = {N_NEGATIVES}", False)
        share = -ahead[last] / (ahead[last + 1] - ahead[last]) if last else 0.0
        needed.append(STEP * (last + float(share)))
    right = max(needed) < most if less else max(needed) <= most
    return Trial(f"from m = {span(needed, 0)} on", right)


@cache
def _differences(view: View, column: str, kind: str) -> np.ndarray:
    """Expected value of X less that of Y with 5, 10, ..., 100 negatives, a row for each seed."""
    sizes = range(STEP, N_NEGATIVES + 1, STEP)

    def means(name: str, variant: str) -> np.ndarray:
        n_items, law, _ = study.moments(name, variant, view.replacement)
        if not view.each_n:
            n_items, law = [study.mean_catalogue()], law.sum(axis=0, keepdims=True)
        values = [[study.corrected(column, kind, n, m).values for n in n_items] for m in sizes]
        return np.array(
            [(law @ _thinned(m) * each).sum() for m, each in zip(sizes, values, strict=True)]
        )

    y = means("Y", view.reading)
    return np.array([means("X", seed) - y for seed in study.variants("X", view.reading)])


@cache
def _thinned(m: int) -> np.ndarray:
    """Law of the number above among m of the 100 negatives, given the number above of all."""
    every = np.arange(N_NEGATIVES + 1)[:, None]
    return np.asarray(stats.hypergeom.pmf(np.arange(m + 1), N_NEGATIVES, every, m))


def equal_columns(published: str, column: str) -> Finding:
    """Two metrics, as in "recall@10 = ndcg@10", with the same values in a column, for all users."""
    first, second = read_list(published, "=")
    n = study.bundle()["Y", REPRODUCED].n_candidates
    for size in np.unique(n).tolist():
        one, two = (study.corrected(column, kind, size).values for kind in (first, second))
        if not np.array_equal(one, two):
            at = int(np.argmax(one != two))
            text = f"{one[at]:.4g} and {two[at]:.4g} at sampled rank {at + 1}, n = {size:,}"
            return judge(Trial(text, False))
    values = study.corrected(column, first, study.mean_catalogue()).values
    text = f"1 at sampled rank 1, 0 at the others, for n = {n.min():,} to {n.max():,}"
    return judge(Trial(text, bool(values[0] == 1 and not values[1:].any())))


# --- what sections 1, 5 and 7 say of error, bias and variance ------------------------------------


def _rows(view: View, kinds: list[str], column: str) -> Iterator[tuple[float, Value, Value]]:
    """The exact value, and what a run reports in a column and uncorrected.

    On each metric, for X, Y and Z and every seed of X.
    """
    for kind, name in itertools.product(kinds, "XYZ"):
        for variant in study.variants(name, view.reading):
            run, plain = (view.value(name, variant, kind, c) for c in (column, "uncorrected"))
            yield exact(name, variant)[kind].mean, run, plain


def _run_errors(view: View, kinds: list[str], column: str) -> np.ndarray:
    """Root mean squared errors of one run, of each of the rows."""
    rows = _rows(view, kinds, column)
    return np.array([np.hypot(run.mean - true, run.sd) for true, run, _ in rows])


@_tried_for("XYZ")
def better_estimate(view: View, published: str, kinds: list[str]) -> Trial:
    """Corrections whose root mean squared error in one run is below the uncorrected one's."""
    errors = {column: _run_errors(view, kinds, column) for column in COLUMNS}
    better = all((errors[column] < errors["uncorrected"]).all() for column in CORRECTED)
    text = listed({column: each.mean() for column, each in errors.items()}, ".2f")
    return Trial(f"mean error in points: {text}", better and published == "all")


@_tried_for("XYZ")
def bias_depends_less(view: View, published: str, kinds: list[str]) -> Trial:
    """Corrections under which the bias differs less between the recommenders."""
    spread = {}
    for column in COLUMNS:
        spread[column] = 0.0
        for kind in kinds:
            both = view.both(kind, column)
            gaps = [np.ptp([mean[name] - true[name] for name in true]) for true, mean in both]
            spread[column] = max(spread[column], float(np.max(gaps)))
    text = listed(spread, ".1f")
    less = all(spread[column] < spread["uncorrected"] for column in CORRECTED)
    return Trial(f"biases differ by up to {text} points", less and published == "all")


@_tried_for("XYZ")
def error_is(view: View, published: str, kinds: list[str]) -> Trial:
    """What most of the squared error of an uncorrected run is, of "bias" and "variance"."""
    shares = [
        (run.mean - true) ** 2 / ((run.mean - true) ** 2 + run.sd**2)
        for true, run, _ in _rows(view, kinds, "uncorrected")
    ]
    found = "bias" if min(shares) > 0.5 else "variance" if max(shares) < 0.5 else "either"
    return Trial(f"{min(shares):.2%} or more of it is bias squared", found == published)


def cost_of_less_bias(published: str, kinds: list[str]) -> Finding:
    """Whether every correction has a "higher variance" than the uncorrected average.

    Measured in points; or else relative to the value that is reported.
    """

    def look(view: View, relative: bool) -> Trial:
        ratios: dict[str, list[float]] = {}
        for column in CORRECTED:
            ratios[column] = [
                run.sd / plain.sd / (run.mean / plain.mean if relative else 1.0)
                for _, run, plain in _rows(view, kinds, column)
            ]
        higher = all(min(each) > 1 for each in ratios.values())
        text = listed({column: min(each) for column, each in ratios.items()}, ".2g")
        what = "relative standard deviation" if relative else "standard deviation"
        return Trial(f"smallest ratio of {what}: {text}", higher and published == "higher variance")

    return _or_else(
        lambda view: look(view, False),
        "the standard deviation is taken relative to the value that is reported",
        lambda view: look(view, True),
    )


@_tried_for("XYZ")
def bias_by_gamma(view: View, published: str, kinds: list[str]) -> Trial:
    """How the distance from the exact value changes as gamma is lowered, for X, Y and Z."""
    errors = np.array(
        [[abs(run.mean - true) for true, run, _ in _rows(view, kinds, c)] for c in BV_COLUMNS]
    )
    text = listed(dict(zip(BV_COLUMNS, errors.mean(axis=1), strict=True)), ".2f")
    falls = bool((np.diff(errors, axis=0) < 0).all())
    return Trial(f"mean distance in points: {text}", falls and published == "lower")


@_tried_for("XYZ")
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
        found = []
        for kind in kinds:
            n = study.mean_catalogue()
            free = estimators.least_bias(metric(kind), Protocol(n, m))
            law = study.moments("Y", view.reading, view.replacement).first.sum(axis=0) @ _thinned(m)
            found.append(float(np.sqrt(law @ (free.values - law @ free.values) ** 2)))
        sd = 100 * min(found) / np.sqrt(study.N_USERS)
        text = f"with {m} negatives the average of Y by least bias has a sd of {sd:.2g} points"
        return Trial(text, sd < 1 and published == "not essential")

    def of_column(view: View) -> Trial:
        rises, falls = (
            [np.diff(study.corrected(c, kind, study.mean_catalogue()).values) for kind in kinds]
            for c in (column, "BV 1")
        )
        errors = [_run_errors(view, kinds, c).mean() for c in (column, "BV 1")]
        text = f"mean error {errors[0]:.2f} points with {column}, {errors[1]:.2f} with BV 1"
        differ = all((d > 0).any() for d in rises) and all((d <= 1e-12).all() for d in falls)
        holds = differ and bool(errors[0] < errors[1]) and published == "not essential"
        return Trial(text, holds)

    return _or_else(of_least_bias, "the variance is weighed too, as in section 5.3", of_column)


@_tried_for("XYZ")
def gains_from_users(view: View, published: str, kinds: list[str], few: int) -> Trial:
    """Whether more users help the "corrected" averages most.

    By how much the root mean squared error falls from a few users like these to all 6,040.
    """
    falls = {}
    for column in COLUMNS:
        ratios = []
        for true, run, _ in _rows(view, kinds, column):
            bias = run.mean - true
            ratios.append(
                np.hypot(bias, run.sd) / np.hypot(bias, run.sd * np.sqrt(study.N_USERS / few))
            )
        falls[column] = 1 - float(np.mean(ratios))
    text = listed(falls, ".1%")
    corrected = all(falls[column] > falls["uncorrected"] for column in CORRECTED)
    return Trial(
        f"from {few} users to {study.N_USERS:,} the error falls by {text}",
        corrected and published == "corrected",
    )


# --- what is said of verdicts and significance ----------------------------------------------------


@_tried_for("XYZ")
def agree_on_the_wrong(view: View, published: str, kinds: list[str]) -> Trial:
    """The least number of comparisons on which nearly all uncorrected runs agree, and are wrong."""
    found = {at: c for at, c in chances(view, "uncorrected").items() if at[1] in kinds}
    wrong = [_named(*at) for at, chance in found.items() if chance < 0.001]
    return Trial(f"{len(wrong)} of {len(found)}: {', '.join(wrong)}", len(wrong) >= int(published))


def least_bias_observed(published: str, kinds: list[str]) -> Finding:
    """Whether section 6 shows a "high" variance of least bias: above the uncorrected metric's.

    The table's method of least bias is CLS; or else the one that tends to it, with the least gamma.
    """

    def look(column: str) -> Callable[[View], Trial]:
        def of(view: View) -> Trial:
            ratios = [run.sd / plain.sd for _, run, plain in _rows(view, kinds, column)]
            text = f"{column} {min(ratios):.2g} to {max(ratios):.2g} times the uncorrected sd"
            return Trial(text, min(ratios) > 1 and published == "high")

        return of

    return _or_else(
        look("CLS"),
        "it is seen in what tends to least bias, bias-variance with gamma = 0.001",
        look("BV 0.001"),
        note="Neither table has the estimator of eq. 22 itself.",
        unsettled=OWN_RUNS,
    )


def low_bias_and_variance(published: str, kinds: list[str]) -> Finding:
    """Whether a column has a bias within a tenth of the exact value, and a spread within a tenth.

    Or else a bias within a tenth of the uncorrected metric's.
    """

    def look(view: View, against: str) -> Trial:
        rows = list(_rows(view, kinds, published))
        base = [t if against == "exact" else abs(plain.mean - t) for t, _, plain in rows]
        bias = [abs(run.mean - t) / b for (t, run, _), b in zip(rows, base, strict=True)]
        spread = [run.sd / t for t, run, _ in rows]
        text = (
            f"bias {min(bias):.1%} to {max(bias):.1%} of the {against} value's"
            if against != "exact"
            else f"bias {min(bias):.0%} to {max(bias):.0%} of the exact value"
        )
        holds = max(bias) < 0.1 and max(spread) < 0.1
        return Trial(
            f"{text}, standard deviation up to {max(spread):.1%} of the exact value", holds
        )

    return _or_else(
        lambda view: look(view, "exact"),
        "low is meant against the uncorrected metrics, whose bias is far larger",
        lambda view: look(view, "uncorrected"),
        unsettled=OWN_RUNS,
    )


@_tried_for("XYZ")
def less_biased(view: View, published: str, kinds: list[str]) -> Trial:
    """Whether a column's bias is less than the uncorrected metric's for each recommender."""
    rows = _rows(view, kinds, published)
    both = np.abs([(run.mean - true, plain.mean - true) for true, run, plain in rows])
    (low, least), (high, most) = both.min(axis=0), both.max(axis=0)
    text = f"{low:.1f} to {high:.1f} points, uncorrected {least:.1f} to {most:.1f}"
    return Trial(text, bool((both[:, 0] < both[:, 1]).all()))


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
        found = "harder" if max(factors) < 1 else "easier" if min(factors) > 1 else "either"
        return Trial(text, found == published, setting)

    setting = max(SETTINGS.values(), key=len)
    return judge(trial(PRINTED, ""), trial(REPRODUCED, setting), unsettled=OWN_RUNS)


@cache
def _variances(name: str, reading: str, kind: str, column: str) -> tuple[float, float]:
    """Variance of a user's expected value over users, and of the value over negatives."""
    _, first, second = study.moments(name, study.variants(name, reading)[0], False)
    values = study.corrected(column, kind, study.mean_catalogue()).values
    law = first.sum(axis=0)
    square = float(values @ second.sum(axis=0) @ values)
    return square - float(law @ values) ** 2, float(law @ values**2) - square


def _indicated(view: View, kinds: list[str], column: str, level: float) -> float:
    """How often a difference beyond so many standard deviations of a run has the right sign.

    The probability is averaged over pairs, metrics and seeds of X.
    """
    gaps = np.array(
        [g for pair in PAIRS for kind in kinds for g in _gaps(view, *pair, kind, column)]
    )
    right, wrong = special.ndtr(gaps - level), special.ndtr(-gaps - level)
    return float(np.mean(right / (right + wrong)))


@_tried_for("XYZ")
def stronger_indication(view: View, published: str, kinds: list[str], level: float) -> Trial:
    """The corrections whose differences, once found, are right more often than uncorrected ones."""
    columns = CORRECTED if published == "all" else tuple(published.split(", "))
    found = {c: _indicated(view, kinds, c, level) for c in ("uncorrected", *CORRECTED)}
    text = listed(found, ".1%")
    stronger = tuple(c for c in CORRECTED if found[c] > found["uncorrected"])
    return Trial(f"right in {text}", stronger == columns)


def indication(published: str, kinds: list[str], level: float) -> Finding:
    """Whether a difference that is found indicates the more, the lower gamma: "stronger".

    The probability that a difference beyond so many standard deviations of one run has the right
    sign, on average over pairs and metrics; or else that of an average over many runs.
    """

    def look(view: View, runs: str) -> Trial:
        found = {}
        for column in BV_COLUMNS:
            if runs == "one":
                found[column] = _indicated(view, kinds, column, level)
                continue
            gaps = [g for pair in PAIRS for kind in kinds for g in _gaps(view, *pair, kind, column)]
            found[column] = float(np.mean(np.array(gaps) > 0))
        text = listed(found, ".1%")
        rises = all(b >= a for a, b in itertools.pairwise(found.values()))
        return Trial(f"right in {text}", rises and published == "stronger")

    one = Step("", (View(REPRODUCED),))
    many = "the experiment is rerun until the variance of the negatives has gone"
    return judge(
        _of_all(one, lambda view: look(view, "one")),
        _of_all(Step(many, one.views), lambda view: look(view, "many")),
        unsettled=OWN_RUNS,
    )


@_tried_for("XYZ")
def still_prone(view: View, published: str, kinds: list[str]) -> Trial:
    """The ways, of "variance, bias", in which some correction still fails on some comparison.

    By variance: right in expectation, and in less than 95% of runs. By bias: wrong in expectation.
    """
    cells = {
        (at, column): chance
        for column in CORRECTED
        for at, chance in chances(view, column).items()
        if at[1] in kinds
    }
    missed = sum(0.5 < chance < 0.95 for chance in cells.values())
    wrong = sum(chance < 0.5 for chance in cells.values())
    found = [name for name, count in (("variance", missed), ("bias", wrong)) if count]
    text = f"of {len(cells)} cells {missed} by variance, {wrong} by bias"
    return Trial(text, ", ".join(found) == published)


def metrics_in_state(published: str, column: str, m: int, state: str) -> Finding:
    """The metrics, as in "recall@10, ap", that m negatives leave "in order" or "out of order".

    For X and Y, in expectation, with one seed of X; or else Recall@10 alone, of the paper's figure.
    """
    named = read_list(published)

    def gap(kind: str) -> float:
        if column != "uncorrected":
            return -float(_differences(View(REPRODUCED), column, kind)[0][m // STEP - 1])
        x, y = (study.expected_with(m, name, REPRODUCED, kind) for name in "XY")
        return y - x

    gaps = {kind: gap(kind) for kind in named}
    found = [kind for kind, each in gaps.items() if (each > 0) == (state == "in order")]
    shown_ = ", ".join(metric(kind).label for kind in found) or "none"
    text = f"{state} with m = {m:,}: {shown_}"
    return judge(
        Trial(text, found == named),
        Trial(text, "recall@10" in found, "said of Recall@10 alone, as figure 6 of KDD 2020"),
        unsettled=OWN_RUNS,
    )

"""Checks of runs of the sampled evaluation: Tables 3 and 4, figure 6, and what is said of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from scipy import special, stats

from sampled_metrics import metric
from sampled_metrics.consistency import sign

from . import study
from .finding import (
    Z_LIMIT,
    Distance,
    Finding,
    Printed,
    Trial,
    judged,
    listed,
    printed_pair,
    read_list,
)
from .toy import average_and_spread, shown
from .views import (
    AUC_APART,
    BV_COLUMNS,
    PAIRS,
    RANDOM_START,
    STEP,
    Step,
    View,
    exact_and_run,
    tried_for,
    try_or_else,
    try_steps,
    view_steps,
)

# --- Table 3 --------------------------------------------------------------------------------------


def sampled_cell(
    published: str, recommender: str, kind: str, column: str, given: str = ""
) -> Finding:
    """A cell of a sampled column of Table 3: average and standard deviation of 100 runs.

    `given` is the exact AUC that the table prints of X: what a run reports of AUC follows from
    it, whatever X's seed.
    """

    def look(view: View) -> Trial:
        if given and view.reading != study.PRINTED:
            return _look_given_auc(published, view, column, Printed.parse(given))
        if recommender == "X":
            return _look_at_seeds(published, view, kind, column)
        mean, sd = view.value(recommender, view.reading, kind, column)
        distances = average_and_spread(published, mean, sd**2, 3 * sd**4, study.RUNS)
        fits = max(distances).z < Z_LIMIT
        return Trial(shown(mean, sd, distances), fits, "", distances)

    finding = try_steps(view_steps(recommender, column, kind == "auc"), look)
    if given:  # no start of ours has it
        start = f"X's exact AUC is {given}, as the table prints it"
        finding = replace(finding, setting=finding.setting.replace(RANDOM_START, start))
    if study.LAST_PLACE not in finding.setting:
        return finding
    mean, sd = View(study.REPRODUCED).value(recommender, study.REPRODUCED, kind, column)
    return finding.noted(
        f"With every place of a tie equally likely: {mean:.2f} ± {sd:.2f}. That a place is left "
        "out is a guess, which no text confirms."
    )


def _look_at_seeds(published: str, view: View, kind: str, column: str) -> Trial:
    """The average may be that of one more seed; the spread is any seed's."""
    average, spread = printed_pair(published)
    variants = study.variants("X", view.reading)
    runs = [view.value("X", variant, kind, column) for variant in variants]
    values, sd = [row.mean for row in runs], float(np.mean([row.sd for row in runs]))
    error = sd / np.sqrt(study.RUNS)
    distance = spread.distance(sd, error / np.sqrt(2))
    if view.reading == study.PRINTED:  # which says nothing of the seed: each must do
        n_near = sum(average.z(value, error) < Z_LIMIT for value in values)
        text = f"{n_near} of {len(values)} seeds are within {Z_LIMIT:.0f} standard errors"
        return Trial(text, n_near == len(values) and distance.z < Z_LIMIT, "", (distance,))
    fits, t = study.within_seeds(average, values, error)
    text = f"{study.span(values)}, each ± {sd:.2f} (t = {t:.1f}, z = {distance.z:.1f})"
    distances = (study.distance_of_seeds(average, values, error), distance)
    return Trial(text, fits and distance.z < Z_LIMIT, "", distances)


def _look_given_auc(published: str, view: View, column: str, exact_auc: Printed) -> Trial:
    """X's reported AUC from its exact AUC, by the line through the ten seeds."""
    variants = study.variants("X", view.reading)
    runs = [view.value("X", variant, "auc", column) for variant in variants]
    line = np.polyfit(
        [study.exact("X", seed)["auc"].mean for seed in variants], [run.mean for run in runs], 1
    )
    mean, sd = float(np.polyval(line, exact_auc.value)), float(np.mean([row.sd for row in runs]))
    average, spread = printed_pair(published)
    # The exact AUC is known to its printed digits.
    error = float(np.hypot(sd / np.sqrt(study.RUNS), line[0] * exact_auc.half_unit / np.sqrt(3)))
    distances = (average.distance(mean, error), spread.distance(sd, sd / np.sqrt(2 * study.RUNS)))
    return Trial(shown(mean, sd, distances), max(distances).z < Z_LIMIT, "", distances)


def gammas_in_heads(published: str) -> Finding:
    """The weights of the BV columns, as in "1.0, 0.1", from the heads of Tables 3 and 4."""
    labels = [column.removeprefix("BV ") for column in BV_COLUMNS]
    agrees = [float(part) for part in published.split(",")] == [float(label) for label in labels]
    return judged(f"the columns are BV {', '.join(labels)}", agrees)


def gammas_of_columns(published: str, recommender: str, kind: str, cells: list[str]) -> Finding:
    """The weights of the BV columns, as in "1.0, 0.1", from a row of Table 3.

    Each of the cells must be that of its own weight.
    """
    claimed = [f"BV {float(part):g}" for part in published.split(",")]

    def fits(column: str, cell: str, view: View) -> bool:
        mean, sd = view.value(recommender, view.reading, kind, column)
        return max(average_and_spread(cell, mean, sd**2, 3 * sd**4, study.RUNS)).z < Z_LIMIT

    def look(view: View) -> Trial:
        wrong = []
        for column, cell in zip(claimed, cells, strict=True):
            fitting = [candidate for candidate in BV_COLUMNS if fits(candidate, cell, view)]
            if column not in fitting:
                wrong.append(f"{cell} is that of {', '.join(fitting) or 'none'}, not of {column}")
        return Trial("; ".join(wrong) or "each cell is that of its own gamma", not wrong)

    return try_steps(view_steps(recommender), look)


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
        gaps = pair_gaps(view._replace(one_more=False), first, second, kind, column)
        predicted = _distance_of_count(count, _one_more(gaps) if first == "X" else gaps)
        distances = (_distance_of_count(count, (gap,)) for gap in gaps)
        farthest = predicted.z if view.one_more else max(distance.z for distance in distances)
        chance, p = np.mean(special.ndtr(gaps)), 2 * special.ndtr(-farthest)
        text = f"{study.RUNS * chance:.1f} of {study.RUNS} expected (p = {p:.2g})"
        return Trial(text, farthest < Z_LIMIT, "", (predicted,))

    def steps() -> Iterator[Step]:
        for step in view_steps(first + second, column):
            yield step
            if first == "X" and step.setting:
                views = tuple(view._replace(one_more=True) for view in step.views)
                yield Step(f"{step.setting}; {RANDOM_START}", views)

    return try_steps(steps(), look)


@cache
def pair_gaps(view: View, first: str, second: str, kind: str, column: str) -> tuple[float, ...]:
    """Expected difference in the exact direction over its standard deviation, by seed of X."""
    gaps = []
    for a in study.variants(first, view.reading):
        for b in study.variants(second, view.reading):
            direction = sign(study.exact(first, a)[kind].mean, study.exact(second, b)[kind].mean)
            run_a, run_b = view.value(first, a, kind, column), view.value(second, b, kind, column)
            gaps.append((run_a.mean - run_b.mean) * direction / float(np.hypot(run_a.sd, run_b.sd)))
    return tuple(gaps)


def _one_more(gaps: tuple[float, ...], points: int = 200) -> tuple[float, ...]:
    """Equally likely gaps of one more seed, predicted from those of the others."""
    size, spread = len(gaps), np.std(gaps, ddof=1)
    quantiles = special.stdtrit(size - 1, (np.arange(points) + 0.5) / points)
    return tuple((np.mean(gaps) + quantiles * spread * np.sqrt(1 + 1 / size)).tolist())


def _distance_of_count(count: int, gaps: tuple[float, ...]) -> Distance:
    """Distance of a count of runs from the expected count, as a normal score."""
    z, beyond_2, beyond_3 = _counts(gaps)
    return Distance(float(z[count]), beyond_2, beyond_3)


@cache
def _counts(gaps: tuple[float, ...]) -> tuple[np.ndarray, float, float]:
    """Distances of all counts, and the probability of one beyond 2 or beyond 3."""
    counts = np.arange(study.RUNS + 1)
    chance = np.clip(special.ndtr(gaps), 1e-12, 1 - 1e-12)  # else binom overflows
    pmf = stats.binom.pmf(counts[:, None], study.RUNS, chance).mean(axis=1)
    below, above = np.cumsum(pmf), np.cumsum(pmf[::-1])[::-1]  # 1 - below would be rounding
    tail = np.clip(2 * np.minimum(below, above), 1e-300, 1)
    z = -special.ndtri(tail / 2)
    return z, float(pmf[z > 2].sum()), float(pmf[z > Z_LIMIT].sum())


def chances(view: View, column: str) -> dict[tuple[str, str], float]:
    """Probability of a right order for each pair and metric, on average over X's seeds."""
    return {
        (pair, kind): float(np.mean(special.ndtr(pair_gaps(view, *pair, kind, column))))
        for pair in PAIRS
        for kind in study.METRICS
    }


def pair_name(pair: str, kind: str) -> str:
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
        chance_by_name = {pair_name(*pair): c for pair, c in chances(view, column).items()}
        below = [name for name, chance in chance_by_name.items() if chance <= level]
        lowest = sorted(chance_by_name, key=lambda name: chance_by_name[name])[:2]
        text = "lowest " + ", ".join(f"{name} {chance_by_name[name]:.2%}" for name in lowest)
        if not published.isdigit() and published not in lowest:
            text += f"; {published} {chance_by_name[published]:.2%}"
        count = f"{len(below)} of {len(chance_by_name)}"
        return Trial(f"{count} at {level:.0%} or less; {text}", right(below))

    finding = try_steps(view_steps("XYZ"), look)
    printed = {pair_name(*pair): count for pair, count in _printed_counts(column).items()}
    low = {name: count for name, count in printed.items() if count <= 100 * level}
    if right([*low]):
        return finding
    text = ", ".join(f"{name} {count} of 100" for name, count in low.items())
    if not published.isdigit():
        text += f"; {published} has {printed[published]}"
    return replace(finding, unsettled="").noted(f"At {level:.0%} or less Table 4 prints {text}.")


@tried_for("XYZ")
def most_effective(view: View, published: str) -> Trial:
    """The column that is in order with the highest probability, on average over Table 4."""
    mean_chances = {column: np.mean([*chances(view, column).values()]) for column in study.COLUMNS}
    text = listed(mean_chances, ".1%")
    return Trial(text, max(mean_chances, key=lambda column: mean_chances[column]) == published)


@tried_for("XYZ")
def more_effective(view: View, published: str) -> Trial:
    """Which of two columns, as in "BV 0.1 > rank estimate", is in order more often on average."""
    first, second = read_list(published, ">")
    first_chance, second_chance = (
        np.mean([*chances(view, column).values()]) for column in (first, second)
    )
    text = f"{first} {first_chance:.1%}, {second} {second_chance:.1%}"
    return Trial(text, bool(first_chance > second_chance))


def strictly_better(published: str, column: str) -> Finding:
    """In how many of the 12 comparisons a column is in order more often than the uncorrected.

    "all" for 12, or else for those that the uncorrected column does not already have right in
    every run. More often is by a thousandth of a run of 100 or more.
    """

    def look(view: View, able: bool) -> Trial:
        corrected = chances(view, column)
        gains = {
            comparison: corrected[comparison] - plain
            for comparison, plain in chances(view, "uncorrected").items()
            if not able or plain < 1 - 1e-5
        }
        n_better = sum(gain > 1e-5 for gain in gains.values())
        equal = [pair_name(*pair) for pair, gain in gains.items() if abs(gain) <= 1e-5]
        text = f"better in {n_better} of {len(gains)}, equal on {', '.join(equal) or 'none'}"
        return Trial(text, n_better == (len(gains) if published == "all" else int(published)))

    stated = try_steps(view_steps("XYZ"), lambda view: look(view, False))
    if stated.holds:
        return stated
    able = try_steps(view_steps("XYZ"), lambda view: look(view, True))
    column_counts, plain_counts = _printed_counts(column), _printed_counts("uncorrected")
    tied = [pair_name(*pair) for pair, n in column_counts.items() if n == plain_counts[pair]]
    note = f"Table 4 prints the same count for both on {', '.join(tied)}."
    if not able.holds:
        return stated.noted(note)
    setting = "comparisons that the uncorrected metric has right in every run are left out"
    return replace(able, setting=f"{able.setting}; {setting}", evidence=stated.evidence).noted(note)


@tried_for("XYZ")
def mistakes_resolved(view: View, published: str) -> Trial:
    """How many of the comparisons that the uncorrected column gets wrong each correction mends.

    A comparison is wrong if the right order has a probability below a half; "most" are more than
    half of them.
    """
    wrong = [pair for pair, chance in chances(view, "uncorrected").items() if chance < 0.5]
    mended = {
        column: sum(chances(view, column)[pair] > 0.5 for pair in wrong)
        for column in study.CORRECTED
    }
    text = listed(mended)
    most_mended = all(2 * count > len(wrong) for count in mended.values())
    return Trial(f"of {len(wrong)} mistakes {text}", most_mended and published == "most")


# --- what section 6.3 says of the expectations ----------------------------------------------------


#: Expectations that differ by less, in points, differ by rounding errors.
_ROUNDING = 1e-9


def closer_than_uncorrected(published: str, kinds: list[str]) -> Finding:
    """The methods whose expectation is closer to the exact value, for X, Y, Z and each metric."""
    columns = study.CORRECTED if published == "all" else tuple(published.split(", "))

    def look(view: View, kinds: list[str]) -> Trial:
        worse = []
        for kind, column in itertools.product(kinds, columns):
            errors, plain_errors = _errors(view, kind, column), _errors(view, kind, "uncorrected")
            worse += [
                f"{column} on {metric(kind).label} of {name}"
                for name in "XYZ"
                if any(
                    error[name] > plain_error[name] - _ROUNDING
                    for error, plain_error in zip(errors, plain_errors, strict=True)
                )
            ]
        text = f"not {', '.join(worse[:3])}" if worse else "all of them"
        remainder = f" and {len(worse) - 3} more" if len(worse) > 3 else ""
        return Trial(text + remainder, bool(kinds) and not worse)

    without_auc = [kind for kind in kinds if kind != "auc"]
    return try_or_else(
        lambda view: look(view, kinds), AUC_APART, lambda view: look(view, without_auc)
    )


def _errors(view: View, kind: str, column: str) -> list[dict[str, float]]:
    """Distance of the expectation from the exact value, in points, for each seed of X."""
    seed_means = view.both(kind, column)
    return [{name: abs(mean[name] - true[name]) for name in true} for true, mean in seed_means]


@tried_for("XYZ")
def closest(view: View, published: str, kinds: list[str]) -> Trial:
    """The methods whose largest relative error in the cells of these metrics is the smallest."""
    named = set(read_list(published))
    worst = {
        column: max(abs(run.mean / true - 1) for true, run, _ in exact_and_run(view, kinds, column))
        for column in study.COLUMNS
    }
    text = listed(worst, ".0%")
    smallest = sorted(study.COLUMNS, key=lambda column: worst[column])[: len(named)]
    return Trial(f"largest relative error: {text}", set(smallest) == named)


@tried_for("XYZ")
def places_best(view: View, published: str, kinds: list[str]) -> Trial:
    """The recommender that every correction places first on each metric, for every seed of X."""
    cells = [
        (kind, column, means)
        for kind, column in itertools.product(kinds, study.CORRECTED)
        for means in view.means(kind, column)
    ]
    winners = {max(means, key=means.__getitem__) for _, _, means in cells}
    margin, kind, column = min(
        (
            means[published] - max(means[rival] for rival in means if rival != published),
            kind,
            column,
        )
        for kind, column, means in cells
    )
    closest_ = f"{metric(kind).label} under {column}, {margin:+.3f}"
    return Trial(f"{' or '.join(sorted(winners))}; closest on {closest_}", winners == {published})


def columns_in_order(published: str, pairs: list[str], kinds: list[str]) -> Finding:
    """The corrections whose expectations have these pairs in the right order on each metric."""

    def look(view: View) -> Trial:
        right = [
            column
            for column in study.CORRECTED
            if all(_pair_right(view, p, kind, column) for p in pairs for kind in kinds)
        ]
        return Trial(", ".join(right) or "none", right == published.split(", "))

    return try_steps(view_steps("".join(sorted({name for pair in pairs for name in pair}))), look)


def _pair_right(view: View, pair: str, kind: str, column: str) -> bool:
    """Whether the expected order of a pair is the exact one, for every seed of X."""
    a, b = pair[0], pair[1]
    seed_means = view.both(kind, column)
    return all(sign(true[a], true[b]) == sign(mean[a], mean[b]) for true, mean in seed_means)


@tried_for("XYZ")
def order_identified_better(view: View, published: str, kinds: list[str]) -> Trial:
    """The corrections with more pairs in the right order than the uncorrected averages have."""
    counts = {
        column: sum(_pair_right(view, pair, kind, column) for pair in PAIRS for kind in kinds)
        for column in study.COLUMNS
    }
    total = len(PAIRS) * len(kinds)
    text = listed(counts)
    better = all(counts[column] > counts["uncorrected"] for column in study.CORRECTED)
    return Trial(f"of {total} pairs {text}", better and published == "all")


@tried_for("XY")
def in_order_with(view: View, published: str, column: str, kind: str) -> Trial:
    """Whether so many negatives, as in "60" or "less than 60", put X and Y in the right order.

    A sample of fewer negatives is a part of one of 100, so its law follows from theirs. The
    expected difference is interpolated between multiples of five.
    """
    is_below = published.startswith("less than ")
    claimed = int(published.removeprefix("less than "))
    needed = []
    differences = seed_differences(view, column, kind)
    for true, gaps in zip(view.means(kind, None), differences, strict=True):
        leads = np.append(-1.0, gaps * sign(true["X"], true["Y"]))
        last = int(np.flatnonzero(leads <= 0).max())
        if last == len(gaps):
            return Trial(f"out of order at m = {study.N_NEGATIVES}", False)
        share = -leads[last] / (leads[last + 1] - leads[last]) if last else 0.0
        needed.append(STEP * (last + float(share)))
    right = max(needed) < claimed if is_below else max(needed) <= claimed
    return Trial(f"from m = {study.span(needed, 0)} on", right)


@cache
def seed_differences(view: View, column: str, kind: str) -> np.ndarray:
    """Expected value of X less that of Y with 5, 10, ..., 100 negatives, a row for each seed."""
    sizes = range(STEP, study.N_NEGATIVES + 1, STEP)

    def means(name: str, variant: str) -> np.ndarray:
        n_items, pmfs, _ = study.moments(name, variant, view.replacement)
        if not view.each_n:
            n_items, pmfs = [study.mean_catalogue()], pmfs.sum(axis=0, keepdims=True)
        values = [[study.corrected(column, kind, n, m).values for n in n_items] for m in sizes]
        pairs = zip(sizes, values, strict=True)
        return np.array([(pmfs @ thinned_pmf(m) * vectors).sum() for m, vectors in pairs])

    y_means = means("Y", view.reading)
    return np.array([means("X", seed) - y_means for seed in study.variants("X", view.reading)])


@cache
def thinned_pmf(m: int) -> np.ndarray:
    """Distribution of the negatives above among m of the 100, given the number among all 100."""
    counts = np.arange(study.N_NEGATIVES + 1)[:, None]
    return np.asarray(stats.hypergeom.pmf(np.arange(m + 1), study.N_NEGATIVES, counts, m))


def equal_columns(published: str, column: str) -> Finding:
    """Two metrics, as in "recall@10 = ndcg@10", with the same values in a column, for all users."""
    first, second = read_list(published, "=")
    n = study.bundle()["Y", study.REPRODUCED].n_candidates
    for size in np.unique(n).tolist():
        values_a, values_b = (
            study.corrected(column, kind, size).values for kind in (first, second)
        )
        if not np.array_equal(values_a, values_b):
            x = int(np.argmax(values_a != values_b))
            text = f"{values_a[x]:.4g} and {values_b[x]:.4g} at sampled rank {x + 1}, n = {size:,}"
            return judged(text, False)
    values = study.corrected(column, first, study.mean_catalogue()).values
    text = f"1 at sampled rank 1, 0 at the others, for n = {n.min():,} to {n.max():,}"
    return judged(text, bool(values[0] == 1 and not values[1:].any()))

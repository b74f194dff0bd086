"""Checks of the study of three recommenders: Table 3 without corrections, figure 5, section 9.

The ranks and the moments they rest on are those of `study`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
from scipy import stats

from sampled_metrics import metric

from .finding import OWN_RUNS, Z_LIMIT, Finding, Printed, Trial, judge, judged, made_by, read_list
from .study import (
    METRICS,
    N_NEGATIVES,
    NEIGHBOURS,
    NUMERATOR,
    PRINTED,
    REPRODUCED,
    SETTINGS,
    bundle,
    distance_of_seeds,
    every_seed,
    exact,
    expected_with,
    sampled,
    seeds_limit,
    span,
    variants,
    within_seeds,
)
from .toy import ranking


def _of_seeds(printed: Printed, values: list[float], digits: int = 2) -> Finding:
    """Hold a printed number against that of ten seeds, whichever of them the paper had."""
    fits, t = within_seeds(printed, values)
    n_equal = sum(map(printed.rounds_from, values))
    stated = f"{n_equal} of {len(values)} seeds give the printed digits"
    return judge(
        Trial(stated, n_equal == len(values)),
        Trial(
            f"{span(values, digits)} (t = {t:.1f})",
            fits,
            SETTINGS["X"],
            (distance_of_seeds(printed, values),),
        ),
        unsettled=OWN_RUNS,
    )


def exact_cell(published: str, recommender: str, kind: str) -> Finding:
    """A cell of the exact column of Table 3, in percent."""
    printed = Printed.parse(published)
    if recommender == "X":
        return _of_seeds(printed, [exact("X", v)[kind].mean for v in variants("X", PRINTED)])

    def trial(variant: str, setting: str) -> Trial:
        mean, sd = exact(recommender, variant)[kind]
        # Where ties move the printed digits the cell is one draw of them.
        fits = printed.rounds_from(mean) or (sd > 0 and printed.z(mean, sd) < Z_LIMIT)
        return Trial(_with_ties(mean, sd), fits, setting)

    return judge(trial(PRINTED, ""), trial(REPRODUCED, SETTINGS[recommender]), unsettled=OWN_RUNS)


def _with_ties(mean: float, sd: float) -> str:
    return f"{mean:.2f}" + (f" ± {sd:.2f} over ties" if sd >= 0.005 else "")


def _means(kind: str, n_negatives: int | None, reading: str) -> list[dict[str, float]]:
    """Means of X, Y and Z under a reading, for each seed of X; exact, or expected when sampled."""

    def mean(name: str, variant: str) -> float:
        if n_negatives is None:
            return float(exact(name, variant)[kind].mean)
        if n_negatives != N_NEGATIVES:
            raise ValueError(f"n_negatives must be {N_NEGATIVES}, got {n_negatives}")
        return float(sampled(name, variant, False)[kind].mean)

    return every_seed(reading, mean)


def _both(kind: str, reading: str) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Exact and expected means under a reading, for each seed of X."""
    return list(zip(_means(kind, None, reading), _means(kind, N_NEGATIVES, reading), strict=True))


def _both_readings(trial_of: Callable[[str, str], Trial], recommenders: str) -> Finding:
    """Try a claim as section 9 is printed, then under the settings that give Table 3."""
    settings = [SETTINGS[name] for name in "YZ" if name in recommenders]
    # Z's settings begin with Y's.
    return judge(trial_of(PRINTED, ""), trial_of(REPRODUCED, settings[-1]), unsettled=OWN_RUNS)


#: Makes a check of what one reading gives of X, Y and Z.
_of_all_three = made_by(lambda trial: _both_readings(trial, "XYZ"))


def order_of(published: str, kinds: list[str], m: int | None = None) -> Finding:
    """The order, as in "Z > Y > X", on each of the metrics, for every seed of X."""
    names = [name for name in "XYZ" if name in published]

    def trial(reading: str, setting: str) -> Trial:
        orders = {
            metric(kind).label: {
                ranking({n: means[n] for n in names}) for means in _means(kind, m, reading)
            }
            for kind in kinds
        }
        text = "; ".join(f"{label} {' or '.join(sorted(o))}" for label, o in orders.items())
        return Trial(text, all(found == {published} for found in orders.values()), setting)

    return _both_readings(trial, "".join(names))


@_of_all_three
def best(
    reading: str, setting: str, published: str, kinds: list[str], m: int | None = None
) -> Trial:
    """The recommender with the highest value on each of the metrics, for every seed of X."""
    winners = {
        kind: {max(means, key=means.__getitem__) for means in _means(kind, m, reading)}
        for kind in kinds
    }
    text = "; ".join(
        f"{' or '.join(sorted(names))} on {metric(kind).label}" for kind, names in winners.items()
    )
    return Trial(text, all(names == {published} for names in winners.values()), setting)


@_of_all_three
def inconsistent(reading: str, setting: str, published: str) -> Trial:
    """The metrics on which sampling changes the order of the three, for every seed of X."""
    named = set(read_list(published))
    changed = {
        kind
        for kind in METRICS
        if all(ranking(exact_) != ranking(expected) for exact_, expected in _both(kind, reading))
    }
    shown = ", ".join(metric(kind).label for kind in METRICS if kind in changed) or "none"
    return Trial(f"the order changes on {shown}", changed == named, setting)


@_of_all_three
def bias_exceeds_spread(reading: str, setting: str, published: str, kinds: list[str]) -> Trial:
    """By how many standard deviations of one run the bias exceeds 0, at least."""
    least = float(published)
    ratios = [
        abs(row.mean - exact(name, variant)[kind].mean) / row.sd
        for name in "XYZ"
        for variant in variants(name, reading)
        for kind in kinds
        for row in [sampled(name, variant, False)[kind]]
    ]
    text = f"the bias is {min(ratios):.0f} to {max(ratios):.0f} standard deviations of a run"
    return Trial(text, min(ratios) > least, setting)


@_of_all_three
def bias_differs(reading: str, setting: str, published: str, kinds: list[str]) -> Trial:
    """What the bias depends on: "recommender" if those of X, Y and Z are an sd of a run apart."""
    least, texts = np.inf, []
    for kind in kinds:
        gaps = [[mean[n] - true[n] for n in "XYZ"] for true, mean in _both(kind, reading)]
        sd = max(sampled(n, variants(n, reading)[0], False)[kind].sd for n in "YZ")
        least = min(least, float(np.diff(np.sort(gaps, axis=1)).min() / sd))
        x, y, z = gaps[0]
        texts.append(f"{metric(kind).label} X {x:+.1f}, Y {y:+.1f}, Z {z:+.1f}")
    text = f"{'; '.join(texts)}; {least:.1f} sd apart or more"
    return Trial(text, least > 1 and published == "recommender", setting)


@_of_all_three
def low_spread(reading: str, setting: str, published: str) -> Trial:
    """That the standard deviation of every sampled value is less than this part, as in "1%"."""
    limit = Printed.parse(published).value / 100
    runs = [sampled(name, v, False) for name in "XYZ" for v in variants(name, reading)]
    parts = [row.sd / row.mean for run in runs for row in run.values()]
    return Trial(f"{min(parts):.2%} to {max(parts):.2%} of it", max(parts) < limit, setting)


@_of_all_three
def much_better(reading: str, setting: str, published: str, kind: str) -> Trial:
    """A first gap, as in "X - Y > Y - Z", that is larger than a second on a sampled metric."""
    first, second = ([n.strip() for n in side.split("-")] for side in published.split(">"))
    gaps = [
        (means[first[0]] - means[first[1]], means[second[0]] - means[second[1]])
        for means in _means(kind, N_NEGATIVES, reading)
    ]
    text = ", ".join(f"{min(g):.1f} to {max(g):.1f}" for g in zip(*gaps, strict=True))
    return Trial(f"points: {text}", all(a > b > 0 for a, b in gaps), setting)


def rank_distributions_differ(published: str) -> Finding:
    """The recommenders, as in "X, Y, Z", whose distributions of ranks differ from all others'."""
    names = read_list(published)
    ranks = {
        name: bundle()[name, variants(name, REPRODUCED)[0]].ranks("pessimistic") for name in names
    }
    gaps = {(a, b): stats.ks_2samp(ranks[a], ranks[b]).statistic for a, b in combinations(names, 2)}
    # Two samples of this size from one distribution are this far apart in 3 of 1,000 cases.
    limit = 1.8 / np.sqrt(ranks[names[0]].size / 2)
    text = ", ".join(f"{a} and {b} {gap:.3f}" for (a, b), gap in gaps.items())
    return judged(
        f"largest distance of the cumulative shares: {text} (by chance {limit:.3f})",
        min(gaps.values()) > limit,
        unsettled=OWN_RUNS,
    )


@_of_all_three
def intended_quantity(reading: str, setting: str, published: str, kind: str) -> Trial:
    """Whether a sampled metric, in expectation, is what its name says: "not" if off by half."""
    ratios = [mean[n] / true[n] for true, mean in _both(kind, reading) for n in "XYZ"]
    text = f"expected {min(ratios):.1f} to {max(ratios):.1f} times the exact value"
    return Trial(text, (min(ratios) > 1.5) == (published == "not"), setting)


def n_ranks(published: str, recommender: str) -> Finding:
    """How many ranks there are, one for each user."""
    size = bundle()[recommender, REPRODUCED].n_better.size
    return judged(f"{size:,}", size == Printed.parse(published).value)


def top_count(published: str, recommender: str, top: int) -> Finding:
    """How many of X's ranks are in the top so many: a count that moves with the seed."""
    counts = [
        float((bundle()[recommender, v].ranks("pessimistic") <= top).sum())
        for v in variants(recommender, PRINTED)
    ]
    return _of_seeds(Printed.parse(published), counts, digits=0)


def bottom_half_fewer_than(published: str, recommender: str) -> Finding:
    """Fewer of X's ranks than this are in the bottom half of the user's candidates."""
    counts = []
    for variant in variants(recommender, PRINTED):
        intervals = bundle()[recommender, variant]
        counts.append(float((2 * intervals.ranks("pessimistic") > intervals.n_candidates).sum()))
    return judged(span(counts, 0), max(counts) < Printed.parse(published).value, unsettled=OWN_RUNS)


def worst_bucket_more_than(published: str, recommender: str) -> Finding:
    """More ranks than this are in the worst bucket of figure 5, whose width the paper leaves out.

    The widest bucket that the text speaks of, the bottom half, is tried with ties broken at
    random; then the narrowest last bucket with ties broken against the held-out item.
    """
    claimed = Printed.parse(published).value
    intervals = bundle()[recommender, REPRODUCED]
    first, last = intervals.ranks("optimistic"), intervals.ranks("pessimistic")
    half = intervals.n_candidates // 2
    at_random = float(
        (np.clip(last - np.maximum(first - 1, half), 0, None) / (last - first + 1)).sum()
    )
    begins = int(np.sort(last)[::-1][int(claimed)])
    return judge(
        Trial(f"{at_random:,.0f} expected in the whole bottom half", at_random > claimed),
        Trial(
            f"over {claimed:,.0f} at ranks from {begins:,} on",
            begins > half.max(),
            f"{NEIGHBOURS}; ties are broken against the held-out item",
        ),
        unsettled=OWN_RUNS,
    )


def negatives_needed(published: str) -> Finding:
    """How many negatives put X and Y in the right order on Recall@10, to about the nearest five.

    The expected difference is interpolated between two m at which its sign differs. `published`
    may begin with "more than": that holds unless one more seed of X cannot need more.
    """
    low, high = 850, 1_000
    is_lower_bound = published.startswith("more than ")
    claimed = Printed.parse(published.removeprefix("more than "))

    def trial(reading: str, setting: str) -> Trial:
        gaps = np.array([_gaps(m, reading) for m in (low, high)])
        if (np.sign(gaps[0]) == np.sign(gaps[1])).any():
            is_wrong = gaps[0] > 0  # X, the worse, is ahead
            return Trial(
                f"in order at m = {low} for {int((~is_wrong).sum())} of {is_wrong.size} seeds",
                False,
            )
        needed = (low + (high - low) * gaps[0] / (gaps[0] - gaps[1])).round().tolist()
        t = within_seeds(claimed, needed)[1]
        fits = t < seeds_limit(len(needed))  # the printed number is round: it may be beyond all ten
        if is_lower_bound:
            n_above = sum(value > claimed.value for value in needed)
            above_text = (
                f"{n_above or 'none'} of them above, one more {'may' if fits else 'cannot'} be"
            )
            text = f"m = {span(needed, 0)}, {above_text} (t = {t:.1f})"
            return Trial(text, fits or n_above > 0, setting)
        return Trial(f"m = {span(needed, 0)} (t = {t:.1f})", fits, setting)

    setting = f"{NUMERATOR}; {SETTINGS['X']}"
    return judge(trial(PRINTED, ""), trial(REPRODUCED, setting), unsettled=OWN_RUNS)


@cache
def _gaps(m: int, reading: str) -> list[float]:
    """Expected Recall@10 of X less that of Y with m negatives, for each seed of X."""
    y = expected_with(m, "Y", reading, "recall@10")
    return [expected_with(m, "X", v, "recall@10") - y for v in variants("X", reading)]


def sampling_rate(published: str, m: int) -> Finding:
    """The share of a user's candidates that m negatives are, as in "1/3"."""
    numerator, denominator = published.split("/")
    n = bundle()["Y", REPRODUCED].n_candidates - 1
    rate, claimed = m / float(n.mean()), int(numerator) / int(denominator)
    agrees = round(rate, 1) == round(claimed, 1)
    return judged(f"{rate:.3f}, or 1/{1 / rate:.1f}: to one digit {rate:.1f}", agrees)


def equations_give_table(published: str, recommender: str) -> Finding:
    """The exact row of Table 3 from section 9: Recall@10, NDCG@10, AP, AUC.

    As section 9 is printed, and under the settings that give the row.
    """
    printed = [Printed.parse(part) for part in published.split(",")]

    def shown(variant: str) -> str:
        values = (exact(recommender, variant)[kind] for kind in METRICS)
        return ", ".join(_with_ties(*value) for value in values)

    if recommender == "X":
        seeds = {
            kind: [exact("X", v)[kind].mean for v in variants("X", PRINTED)] for kind in METRICS
        }
        fits = [within_seeds(p, seeds[k])[0] for p, k in zip(printed, METRICS, strict=True)]
        ranges = ", ".join(f"{min(v):.2f} to {max(v):.2f}" for v in seeds.values())
        return judge(
            Trial(f"{shown(REPRODUCED)} with one seed", False),
            Trial(f"{ranges} with ten", all(fits), SETTINGS["X"]),
            unsettled=OWN_RUNS,
        )

    def trial(variant: str, setting: str) -> Trial:
        table = exact(recommender, variant)
        fits = [
            cell.rounds_from(table[kind].mean) or cell.z(*table[kind]) < Z_LIMIT
            for cell, kind in zip(printed, METRICS, strict=True)
        ]
        return Trial(shown(variant), all(fits), setting)

    return judge(trial(PRINTED, ""), trial(REPRODUCED, SETTINGS[recommender]), unsettled=OWN_RUNS)


def dataset(published: str, what: str) -> Finding:
    """Size of the MovieLens 1M data, from the candidates of every user.

    What a user's candidates lack of the catalogue is the user's training items.
    """
    n_items = int(bundle()["Y", "training items ranked too"].n_candidates.max())
    n = bundle()["Y", REPRODUCED].n_candidates
    ratings = int((n_items - n).sum()) + n.size  # each user has one held-out item more
    value = {
        "users": n.size,
        "items": n_items,
        "ratings": ratings,
        "density": 100 * ratings / (n.size * n_items),
    }[what]
    printed = Printed.parse(published.removesuffix("M"))
    scale = 1e6 if published.endswith("M") else 1.0
    shown = f"{value:.3f}%" if what == "density" else f"{value:,}"
    return judged(shown, printed.rounds_from(value / scale))

"""Checks of the study of three recommenders: Tables 3 and 4, figures 5 and 6, section 9.

They rest on the ranks bundled with the package, under each reading of section 9 that is bundled:
"as printed", and the settings that give Table 3. Recommender X starts from random factors; the
paper gives no seed, so a claim about X is held against ten seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from sampled_metrics import Protocol, metric
from sampled_metrics.consistency import order
from sampled_metrics.datasets import bundled_variants
from sampled_metrics.estimators import naive
from sampled_metrics.ranking import RankIntervals

from .finding import Z_LIMIT, Finding, Printed, Trial, judge, printed_pair
from .toy import average_and_spread, ranking

METRICS = ("recall@10", "ndcg@10", "ap", "auc")
N_NEGATIVES = 100  # krichene2020, section 6
RUNS = 100  # repetitions behind the sampled columns of Tables 3 and 4

PRINTED, REPRODUCED = "as printed", "as reproduced"
NUMERATOR = "scores are the numerator of eq. 30 alone"
NEIGHBOURS = (
    f"{NUMERATOR}; for Z, items are not their own neighbours and each item of the history keeps "
    "its 10 nearest"
)
#: What the paper leaves open about each recommender and the ledger's claims need.
SETTINGS = {
    "X": "the random start of X's factors",
    "Y": NUMERATOR,
    "Z": f"{NEIGHBOURS}; ties are broken at random",
}
LAST_PLACE = (
    f"{NEIGHBOURS}; ties in the sample are broken at random, and never put the item behind all of "
    "its ties"
)
WITHOUT = "negatives are drawn without replacement"


class Value(NamedTuple):
    """A metric in percent: its mean, and the standard deviation that chance leaves it."""

    mean: float
    sd: float


@cache
def _bundle() -> dict[tuple[str, str], RankIntervals]:
    table = bundled_variants()
    return {
        (str(name), str(variant)): RankIntervals(
            rows["n_better"].to_numpy(), rows["n_tied"].to_numpy(), rows["n_candidates"].to_numpy()
        )
        for (name, variant), rows in table.groupby(["recommender", "variant"])
    }


def _variants(recommender: str, reading: str) -> list[str]:
    """The bundled variants of a reading: one, or the ten seeds of X."""
    if recommender == "X":
        return [v for name, v in _bundle() if name == "X" and (v == REPRODUCED or v[:4] == "seed")]
    return [reading]


@cache
def exact(recommender: str, variant: str) -> dict[str, Value]:
    """Mean of each metric in percent over ties broken at random, and its standard deviation."""
    intervals = _bundle()[recommender, variant]
    first, last = intervals.ranks("optimistic"), intervals.ranks("pessimistic")
    rows: dict[str, Value] = {}
    for kind in METRICS:
        mean = intervals.evaluate(metric(kind), "mean")
        if kind == "auc":
            width = intervals.n_tied + 1
            variance = (width**2 - 1) / 12 / (intervals.n_candidates - 1.0) ** 2
        else:
            squares = np.cumsum(np.append(0.0, metric(kind)(np.arange(1, last.max() + 1)) ** 2))
            second = (squares[last] - squares[first - 1]) / (last - first + 1)
            variance = np.maximum(second - mean**2, 0.0)
        rows[kind] = Value(100 * mean.mean(), 100 * np.sqrt(variance.sum()) / variance.size)
    return rows


@cache
def sampled(recommender: str, variant: str, replacement: bool) -> dict[str, Value]:
    """Expectation of each sampled metric in percent, and the standard deviation of one run.

    Negatives are drawn, and ties broken, anew for every user and run.
    """
    intervals = _bundle()[recommender, variant]
    law = _law(intervals, replacement)
    rows: dict[str, Value] = {}
    for kind in METRICS:
        values = naive(metric(kind), Protocol(1_000, N_NEGATIVES)).values
        mean = law @ values
        variance = law @ values**2 - mean**2
        rows[kind] = Value(100 * mean.mean(), 100 * np.sqrt(variance.sum()) / variance.size)
    return rows


def _law(intervals: RankIntervals, replacement: bool) -> np.ndarray:
    """Law of the number of negatives above each held-out item, ties broken at random.

    With replacement the sum over the tied ranks is an integral over the success probability,
    from half a rank before the first to half a rank behind the last, up to the error of the
    midpoint rule: 1e-4 for a pair of ties, below 1e-7 for the thousands that recommender Z has.
    """
    if not replacement:
        return intervals.sampled_pmf(N_NEGATIVES)
    n, m = intervals.n_candidates, N_NEGATIVES
    law = Protocol(n, m).pmf(intervals.ranks("optimistic"))
    tied = np.flatnonzero(intervals.n_tied)
    first, last = intervals.n_better[tied], (intervals.n_better + intervals.n_tied)[tied]
    low, high = (np.clip((end - 0.5) / (n[tied] - 1), 0, 1) for end in (first, last + 1))
    x = np.arange(m + 1)
    lower, upper = (special.betainc(x + 1, m - x + 1, end[:, None]) for end in (low, high))
    law[tied] = (upper - lower) / ((m + 1) * (high - low))[:, None]
    return law


def _last_place_left_out(recommender: str) -> float:
    """What it adds to expected sampled AUC, in points, never to put the item behind all its ties.

    With K >= 1 tied negatives in the sample the item then has (K - 1) / 2 of them above it on
    average in place of K / 2, and each negative above takes 1 / m off AUC.
    """
    tied = _bundle()[recommender, REPRODUCED]
    protocol = Protocol(tied.n_candidates, N_NEGATIVES, replacement=False)
    none = protocol.pmf(tied.n_tied + 1, counts=[0])[:, 0]
    return float(100 * (1 - none).mean() / (2 * N_NEGATIVES))


def _within_seeds(printed: Printed, values: list[float], error: float = 0.0) -> tuple[bool, float]:
    """Whether a printed value may be that of one more seed, and the t of that.

    The ten seeds give a prediction interval for an eleventh, at the level of `Z_LIMIT`; `error`
    is the standard error of the printed value about that of its own seed.
    """
    size = len(values)
    spread = float(np.std(values, ddof=1)) * np.sqrt(1 + 1 / size)
    t = printed.z(float(np.mean(values)), float(np.hypot(spread, error)))
    return t < seeds_limit(size), t


def seeds_limit(n_seeds: int) -> float:
    """The t that corresponds to `Z_LIMIT` when a spread is known from so many seeds."""
    return float(stats.t.isf(stats.norm.sf(Z_LIMIT), n_seeds - 1))


def _range(values: list[float], digits: int = 2) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f} over {len(values)} seeds"


def _of_seeds(printed: Printed, values: list[float], digits: int = 2) -> Finding:
    """Hold a printed number against that of ten seeds, whichever of them the paper had."""
    fits, t = _within_seeds(printed, values)
    same = sum(map(printed.rounds_from, values))
    stated = f"{same} of {len(values)} seeds give the printed digits"
    return judge(
        Trial(stated, same == len(values)),
        Trial(f"{_range(values, digits)} (t = {t:.1f})", fits, SETTINGS["X"]),
    )


def exact_cell(published: str, recommender: str, kind: str) -> Finding:
    """A cell of the exact column of Table 3, in percent."""
    printed = Printed.parse(published)
    if recommender == "X":
        return _of_seeds(printed, [exact("X", v)[kind].mean for v in _variants("X", PRINTED)])

    def trial(variant: str, setting: str) -> Trial:
        mean, sd = exact(recommender, variant)[kind]
        shown = f"{mean:.2f}" + (f" ± {sd:.2f} over ties" if sd >= 0.005 else "")
        # Where ties move the printed digits the cell is one draw of them.
        fits = printed.rounds_from(mean) or (sd > 0 and printed.z(mean, sd) < Z_LIMIT)
        return Trial(shown, fits, setting)

    return judge(trial(PRINTED, ""), trial(REPRODUCED, SETTINGS[recommender]))


def sampled_cell(published: str, recommender: str, kind: str) -> Finding:
    """A cell of the uncorrected column of Table 3: average and standard deviation of the runs."""
    if recommender == "X":
        return _sampled_cell_of_seeds(published, kind)

    def trial(variant: str, setting: str, replacement: bool, shift: float = 0.0) -> Trial:
        mean, sd = sampled(recommender, variant, replacement)[kind]
        fits, z = average_and_spread(published, mean + shift, sd**2, 3 * sd**4, RUNS)
        return Trial(
            f"{mean + shift:.2f} ± {sd:.2f} (z = {z[0]:.1f}, {z[1]:.1f})", fits, setting, z
        )

    own = SETTINGS[recommender]
    trials = [
        trial(PRINTED, "", False),
        trial(REPRODUCED, own, True),
        trial(REPRODUCED, f"{own}; {WITHOUT}", False),
    ]
    if (recommender, kind) != ("Z", "auc"):
        return judge(*trials)
    shift = _last_place_left_out(recommender)
    note = (
        f"With every place of a tie equally likely: {trials[-1].ours}. That a place is left out "
        "is a guess, which no text confirms."
    )
    return judge(*trials, trial(REPRODUCED, f"{LAST_PLACE}; {WITHOUT}", False, shift), note=note)


def _sampled_cell_of_seeds(published: str, kind: str) -> Finding:
    """`sampled_cell` of X: the average may be that of one more seed, the spread is any seed's."""
    average, spread = printed_pair(published)
    trials: list[Trial] = []
    for replacement, setting in ((True, SETTINGS["X"]), (False, f"{SETTINGS['X']}; {WITHOUT}")):
        found = [sampled("X", v, replacement)[kind] for v in _variants("X", PRINTED)]
        values, sds = [row.mean for row in found], [row.sd for row in found]
        sd = float(np.mean(sds))
        fits, t = _within_seeds(average, values, sd / np.sqrt(RUNS))
        z = spread.z(sd, sd / np.sqrt(2 * RUNS))
        if not trials:
            near = sum(average.z(value, sd / np.sqrt(RUNS)) < Z_LIMIT for value in values)
            stated = f"{near} of {len(values)} seeds are within {Z_LIMIT:.0f} standard errors"
            trials.append(Trial(stated, near == len(values) and z < Z_LIMIT))
        text = f"{_range(values)}, each ± {sd:.2f} (t = {t:.1f}, z = {z:.1f})"
        trials.append(Trial(text, fits and z < Z_LIMIT, setting))
    return judge(*trials)


def _means(kind: str, n_negatives: int | None, reading: str) -> list[dict[str, float]]:
    """Means of X, Y and Z under a reading, for each seed of X; exact, or expected when sampled."""

    def mean(name: str, variant: str) -> float:
        if n_negatives is None:
            return float(exact(name, variant)[kind].mean)
        if n_negatives != N_NEGATIVES:
            raise ValueError(f"n_negatives must be {N_NEGATIVES}, got {n_negatives}")
        return float(sampled(name, variant, False)[kind].mean)

    fixed = {name: mean(name, reading) for name in "YZ"}
    return [{"X": mean("X", seed)} | fixed for seed in _variants("X", reading)]


def _both_readings(trial_of: Callable[[str, str], Trial], recommenders: str) -> Finding:
    """Try a claim as section 9 is printed, then under the settings that give Table 3."""
    settings = [SETTINGS[name] for name in "YZ" if name in recommenders]
    # Z's settings begin with Y's.
    return judge(trial_of(PRINTED, ""), trial_of(REPRODUCED, settings[-1]))


def order_of(published: str, kinds: list[str], m: int | None = None) -> Finding:
    """The order, as in "Z > Y > X", on each of the metrics, for every seed of X."""
    names = [name for name in "XYZ" if name in published]

    def trial(reading: str, setting: str) -> Trial:
        found = {
            kind: sorted(
                {ranking({n: means[n] for n in names}) for means in _means(kind, m, reading)}
            )
            for kind in kinds
        }
        text = "; ".join(
            f"{metric(kind).label} {' or '.join(seen)}" for kind, seen in found.items()
        )
        return Trial(text, all(seen == [published] for seen in found.values()), setting)

    return _both_readings(trial, "".join(names))


def best(published: str, kinds: list[str], m: int | None = None) -> Finding:
    """The recommender with the highest value on each of the metrics, for every seed of X."""

    def trial(reading: str, setting: str) -> Trial:
        found = {
            kind: {
                max(means, key=lambda n, means=means: means[n])
                for means in _means(kind, m, reading)
            }
            for kind in kinds
        }
        text = "; ".join(
            f"{' or '.join(sorted(names))} on {metric(kind).label}" for kind, names in found.items()
        )
        return Trial(text, all(names == {published} for names in found.values()), setting)

    return _both_readings(trial, "XYZ")


def inconsistent(published: str) -> Finding:
    """The metrics on which sampling changes the order of the three, for every seed of X."""
    named = {part.strip() for part in published.split(",")}

    def trial(reading: str, setting: str) -> Trial:
        pairs = {
            kind: list(
                zip(_means(kind, None, reading), _means(kind, N_NEGATIVES, reading), strict=True)
            )
            for kind in METRICS
        }
        changed = {
            kind
            for kind, both in pairs.items()
            if all(ranking(exact_) != ranking(expected) for exact_, expected in both)
        }
        shown = ", ".join(metric(kind).label for kind in METRICS if kind in changed) or "none"
        return Trial(f"the order changes on {shown}", changed == named, setting)

    return _both_readings(trial, "XYZ")


def bias_exceeds_spread(published: str, kinds: list[str]) -> Finding:
    """By how many standard deviations of one run the bias exceeds 0, at least."""
    least = float(published)

    def trial(reading: str, setting: str) -> Trial:
        ratios = [
            abs(row.mean - exact(name, variant)[kind].mean) / row.sd
            for name in "XYZ"
            for variant in _variants(name, reading)
            for kind in kinds
            for row in [sampled(name, variant, False)[kind]]
        ]
        text = f"the bias is {min(ratios):.0f} to {max(ratios):.0f} standard deviations of a run"
        return Trial(text, min(ratios) > least, setting)

    return _both_readings(trial, "XYZ")


def runs_in_order(published: str, first: str, second: str, kind: str) -> Finding:
    """A cell of the uncorrected column of Table 4: runs of 100 that order a pair as exactly.

    Holds if, for every seed of X, a count as far out has a probability above that of `Z_LIMIT`.
    """
    count = int(published)

    def trial(reading: str, setting: str) -> Trial:
        chances, fits = [], []
        for a in _variants(first, reading):
            for b in _variants(second, reading):
                means = [exact(*key)[kind].mean for key in ((first, a), (second, b))]
                one, two = sampled(first, a, False)[kind], sampled(second, b, False)[kind]
                gap = (one.mean - two.mean) * order(*means)
                chance = float(stats.norm.cdf(gap / np.hypot(one.sd, two.sd)))
                tails = (
                    stats.binom.cdf(count, RUNS, chance),
                    stats.binom.sf(count - 1, RUNS, chance),
                )
                chances.append(RUNS * chance)
                fits.append(2 * min(tails) > 2 * stats.norm.sf(Z_LIMIT))
        text = f"{np.mean(chances):.1f} of 100 expected"
        return Trial(text, all(fits), setting)

    return _both_readings(trial, first + second)


def n_ranks(published: str, recommender: str) -> Finding:
    """How many ranks there are, one for each user."""
    size = _bundle()[recommender, REPRODUCED].n_better.size
    return judge(Trial(f"{size:,}", size == Printed.parse(published).value))


def top_count(published: str, recommender: str, top: int) -> Finding:
    """How many of X's ranks are in the top so many: a count that moves with the seed."""
    counts = [
        float((_bundle()[recommender, v].ranks("pessimistic") <= top).sum())
        for v in _variants(recommender, PRINTED)
    ]
    return _of_seeds(Printed.parse(published), counts, digits=0)


def bottom_half_fewer_than(published: str, recommender: str) -> Finding:
    """Fewer of X's ranks than this are in the bottom half of the user's candidates."""
    counts = []
    for variant in _variants(recommender, PRINTED):
        intervals = _bundle()[recommender, variant]
        counts.append(float((2 * intervals.ranks("pessimistic") > intervals.n_candidates).sum()))
    return judge(Trial(_range(counts, 0), max(counts) < Printed.parse(published).value))


def worst_bucket_more_than(published: str, recommender: str) -> Finding:
    """More ranks than this are in the worst bucket of figure 5, whose width the paper leaves out.

    The widest bucket that the text speaks of, the bottom half, is tried with ties broken at
    random; then the narrowest last bucket with ties broken against the held-out item.
    """
    claimed = Printed.parse(published).value
    intervals = _bundle()[recommender, REPRODUCED]
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
    )


def negatives_needed(published: str) -> Finding:
    """How many negatives put X and Y in the right order on Recall@10, to about the nearest five.

    The expected difference is interpolated between two m at which its sign differs. `published`
    may begin with "more than".
    """
    low, high = 850, 1_000
    more = published.startswith("more than ")
    claimed = Printed.parse(published.removeprefix("more than "))

    def trial(reading: str, setting: str) -> Trial:
        gaps = np.array([_gaps(m, reading) for m in (low, high)])
        if (np.sign(gaps[0]) == np.sign(gaps[1])).any():
            late = gaps[0] > 0  # X, the worse, is ahead
            return Trial(
                f"in order at m = {low} for {int((~late).sum())} of {late.size} seeds", False
            )
        needed = (low + (high - low) * gaps[0] / (gaps[0] - gaps[1])).round().tolist()
        fits, t = _within_seeds(claimed, needed)
        if more:
            return Trial(f"m = {_range(needed, 0)}", max(needed) > claimed.value, setting)
        return Trial(f"m = {_range(needed, 0)} (t = {t:.1f})", fits, setting)

    return judge(trial(PRINTED, ""), trial(REPRODUCED, f"{NUMERATOR}; {SETTINGS['X']}"))


@cache
def _gaps(m: int, reading: str) -> list[float]:
    """Expected Recall@10 of X less that of Y with m negatives, for each seed of X."""

    def mean(name: str, variant: str) -> float:
        intervals = _bundle()[name, variant]
        ranks = intervals.ranks("pessimistic")  # X and Y have next to no ties
        estimator = naive(metric("recall@10"), Protocol(intervals.n_candidates, m, False))
        return float(estimator.expected(ranks).mean())

    y = mean("Y", reading)
    return [mean("X", seed) - y for seed in _variants("X", reading)]


def sampling_rate(published: str, m: int) -> Finding:
    """The share of a user's candidates that m negatives are, as in "1/3"."""
    numerator, denominator = published.split("/")
    n = _bundle()["Y", REPRODUCED].n_candidates - 1
    rate, claimed = m / float(n.mean()), int(numerator) / int(denominator)
    same = round(rate, 1) == round(claimed, 1)
    return judge(Trial(f"{rate:.3f}, or 1/{1 / rate:.1f}: to one digit {rate:.1f}", same))


def equations_give_table(published: str, recommender: str) -> Finding:
    """The exact row of Table 3 from section 9 as printed: Recall@10, NDCG@10, AP, AUC."""
    printed = [Printed.parse(part) for part in published.split(",")]

    def shown(variant: str) -> str:
        values = exact(recommender, variant)
        return ", ".join(f"{values[kind].mean:.2f}" for kind in METRICS)

    if recommender == "X":
        fits = [
            _within_seeds(cell, [exact("X", v)[kind].mean for v in _variants("X", PRINTED)])[0]
            for cell, kind in zip(printed, METRICS, strict=True)
        ]
        return judge(
            Trial(f"{shown(REPRODUCED)} with one seed", False),
            Trial(f"{shown(REPRODUCED)} with one seed", all(fits), SETTINGS["X"]),
        )
    table = exact(recommender, PRINTED)
    fits = [
        cell.rounds_from(table[kind].mean) or cell.z(*table[kind]) < Z_LIMIT
        for cell, kind in zip(printed, METRICS, strict=True)
    ]
    note = f"The row is {shown(REPRODUCED)} if {SETTINGS[recommender]}."
    return judge(Trial(shown(PRINTED), all(fits)), note=note)


def dataset(published: str, what: str) -> Finding:
    """Size of the MovieLens 1M data, from the candidates of every user.

    What a user's candidates lack of the catalogue is the user's training items.
    """
    n_items = int(_bundle()["Y", "training items ranked too"].n_candidates.max())
    n = _bundle()["Y", REPRODUCED].n_candidates
    ratings = int((n_items - n).sum()) + n.size  # each user has one held-out item more
    found = {
        "users": n.size,
        "items": n_items,
        "ratings": ratings,
        "density": 100 * ratings / (n.size * n_items),
    }[what]
    printed = Printed.parse(published.removesuffix("M"))
    scale = 1e6 if published.endswith("M") else 1.0
    shown = f"{found:.3f}%" if what == "density" else f"{found:,}"
    return judge(Trial(shown, printed.rounds_from(found / scale)))

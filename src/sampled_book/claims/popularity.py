"""Checks of ekstrand2017's experiment: its data, and four recommenders among random decoys.

All of it rests on the study bundled with the package, for two data sets, and no decoy is drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from sampled_metrics import metric
from sampled_metrics._confidence import NORMAL_QUANTILE

from ..data.study import BUNDLED, standing
from ..experiments.theory import HANDFUL, Standing, untied
from .decoy_study import (
    FILTERS,
    IN_BOOK,
    LONG_LISTS,
    ORDER,
    PAIRS,
    RATED,
    SHORT,
    SHORT_LISTS,
    SOFTWARE,
    Case,
    Curves,
    Floats,
    check_of_each,
    curves,
    fraction_of,
    on_both_data_sets,
    on_both_definitions,
    standing_of_means,
    study,
    text_by_data,
)
from .finding import (
    OWN_RUNS,
    Finding,
    Printed,
    Trial,
    judge,
    judged,
    listed,
    made_by,
    one_of,
    read_list,
)

# --- the data -------------------------------------------------------------------------------------


def dataset(published: str, what: str) -> Finding:
    """A cell of Table 1 for MovieLens 100K, counted."""
    facts = study("ml-100k").facts
    density = 100 * facts["ratings"] / (facts["users"] * facts["items"])
    value = density if what == "density" else facts[what]
    scale = 1e3 if published.endswith("K") else 1.0
    shown = f"{value:.3f}%" if what == "density" else f"{value:,}"
    printed = Printed.parse(published.rstrip("K%"))
    return judged(shown, printed.rounds_from(value / scale))


def density_of_row(published: str, ratings: str, users: int, items: int) -> Finding:
    """The density that follows from the other cells of its row, whose ratings are rounded."""
    millions = Printed.parse(ratings.removesuffix("M"))
    ends = [
        1e8 * (millions.value + side * millions.half_unit) / (users * items) for side in (-1, 0, 1)
    ]
    printed = Printed.parse(published)
    return judged(
        f"{ends[1]:.3f}%, and from {ends[0]:.3f}% to {ends[2]:.3f}% with the rounding of the "
        "ratings",
        printed.rounds_from(ends[1]),
    )


def cell_of_row(
    published: str, what: str, density: str, ratings: str, users: int = 0, items: int = 0
) -> Finding:
    """A cell of Table 1 that the other cells of its row determine, within their rounding.

    `ratings` are those of the data set's own description, to the last one.
    """
    printed, share = Printed.parse(published.removesuffix("M")), Printed.parse(density)
    ends = [(share.value + side * share.half_unit) / 100 for side in (-1, 1)]
    if what == "ratings":
        low, high = (end * users * items / 1e6 for end in ends)
        holds = low - printed.half_unit <= printed.value <= high + printed.half_unit
        text = f"{low:.2f}M to {high:.2f}M"
    else:
        dimension, count = users or items, Printed.parse(ratings).value
        high, low = (count / (end * dimension) for end in ends)
        holds = low <= printed.value <= high
        text = f"{low:,.0f} to {high:,.0f}"
    return judged(f"{text}, from the other cells of the row", holds)


@check_of_each()
def mostly_unrated(data: str, published: str) -> Case:
    """That most pairs of user and item have no rating, as in "> 1/2" of them."""
    limit = fraction_of(published.removeprefix(">"))
    facts = study(data).facts
    share = 1 - facts["ratings"] / (facts["users"] * facts["items"])
    return share > limit, f"{share:.1%}"


def _rated(data: str) -> NDArray[np.int64]:
    """Items that each user has rated, in training or in test."""
    bundled = study(data)
    return np.asarray(bundled.facts["items"] - bundled.n_irrelevant)


@check_of_each()
def rated_per_user(data: str, published: str, share: float) -> Case:
    """That so large a share of the users has rated a number of items in a range, "10, 999"."""
    low, high = (int(part) for part in published.split(","))
    rated = _rated(data)
    inside = float(((rated >= low) & (rated <= high)).mean())
    return inside >= share, (
        f"{inside:.1%} of the users, the median being {np.median(rated):,.0f} and the extremes "
        f"{rated.min():,} and {rated.max():,}"
    )


def against_rated(published: str, one_in: int, items: int) -> Finding:
    """Whether a share of a catalogue is "low" or "high" beside what a typical user has rated."""
    one_of(published, "low", "high")
    good, medians = items / one_in, {data: float(np.median(_rated(data))) for data in BUNDLED}
    low, high = good < min(medians.values()), good > max(medians.values())
    typical = text_by_data({data: f"{number:g}" for data, number in medians.items()})
    text = f"{good:g} of {items:,} items; the median user has rated {typical}"
    trials = [Trial(text, {"low": low, "high": high}[published])]
    if published == "high":
        trials.append(Trial(text, low, "it is the demand that is high: the share is too low"))
    return judge(*trials)


@check_of_each()
def enough_ratings(data: str, published: str) -> Case:
    """That every user has so many ratings and more, so that the test sets can hold them all."""
    least = int(_rated(data).min())
    return least >= int(published), f"{least} ratings or more"


@check_of_each()
def mostly_unpopular(data: str, published: str) -> Case:
    """That most items have fewer ratings than the mean item, as in "> 1/2" of them."""
    limit = fraction_of(published.removeprefix(">"))
    counts = study(data).item_counts
    share = float((counts < counts.mean()).mean())
    return share > limit, f"{share:.1%} of {counts.size:,} items"


# --- popularity -----------------------------------------------------------------------------------


@check_of_each()
def separates(data: str, published: str) -> Case:
    """That Popular separates test items from unrated ones: its mean AUC is above, as in "> 3/4"."""
    limit = fraction_of(published.removeprefix(">"))
    auc = {
        name: float(sets.evaluate(metric("auc")).mean()) for name, sets in study(data).sets.items()
    }
    return auc["Popular"] > limit, listed(auc, ".3f")


@check_of_each()
def tested_more_often(data: str, published: str) -> Case:
    """The share of the test items that the most rated tenth of all items has, as in "> 1/10"."""
    limit = fraction_of(published.removeprefix(">"))
    bundled = study(data)
    share = float((bundled.popularity >= np.quantile(bundled.item_counts, 0.9)).mean())
    return share > limit, f"{share:.0%}"


def _none_as_popular(data: str, n: int) -> float:
    """Mean probability that no decoy of N has as many training ratings as a test item."""
    places = study(data).sets["Popular"]
    rivals, pool = places.n_better + places.n_tied, places.n_irrelevant[:, None]
    return float(hypergeom.pmf(0, pool, rivals, np.minimum(n, pool)).mean())


def no_rival(published: str, n: int, fewer: int) -> Finding:
    """That N decoys probably hold no item as popular as a test item: with more than this chance.

    Or, of fewer decoys, that they do not hold a given one.
    """
    limit = float(Printed.parse(published).value)

    def trial(chance: dict[str, float], size: int, setting: str) -> Trial:
        text = text_by_data({data: f"{p:.3f}" for data, p in chance.items()})
        return Trial(f"{text} for N = {size:,}", min(chance.values()) > limit, setting)

    largest_size = bisect_left(  # the chance falls with the number of decoys
        range(1, fewer + 1),
        True,
        key=lambda k: min(_none_as_popular(d, k) for d in BUNDLED) <= limit,
    )
    return judge(
        trial({d: _none_as_popular(d, n) for d in BUNDLED}, n, ""),
        trial(
            {d: 1 - fewer / float(study(d).n_irrelevant.min()) for d in BUNDLED},
            fewer,
            f"each such item by itself is meant, not all of them, and {fewer} decoys are drawn",
        ),
        note=f"It is more likely than not for up to {largest_size} decoys." if limit == 0.5 else "",
    )


@check_of_each()
def similar_in_full_set(data: str, published: str, within: float, share: float) -> Case:
    """That for such a share of the test items so many other items have about as many ratings."""
    claimed = int(published)
    bundled = study(data)
    counts, tested = np.sort(bundled.item_counts), bundled.popularity.ravel()
    last = np.searchsorted(counts, tested * (1 + within), "right")
    n_similar = last - np.searchsorted(counts, tested * (1 - within), "left") - 1
    share_similar = float((n_similar >= claimed).mean())
    text = f"{share_similar:.1%} of the test items, the median {np.median(n_similar):g}"
    return share_similar >= share, text


def better_predictor(published: str, n: int) -> Finding:
    """Whether popularity predicts test items "better" among N decoys than among all items."""
    sign = {"better": 1, "worse": -1}[published]

    def value(data: str, name: str, kind: str, size: int | None) -> float:
        sets = study(data).sets[name]
        if size is None:
            return float(sets.evaluate(metric(kind)).mean())
        return float(sets.expected(metric(kind), np.minimum(size, sets.n_irrelevant)).mean())

    def auc(data: str) -> Case:
        sampled, full = (value(data, "Popular", "auc", size) for size in (n, None))
        return sign * (sampled - full) > 1e-9, f"{sampled:.4f}, of all {full:.4f}"

    def lead(data: str) -> Case:
        sampled, full = (
            value(data, "Popular", "ndcg@10", size)
            - max(value(data, name, "ndcg@10", size) for name in RATED)
            for size in (n, None)
        )
        return sign * (sampled - full) > 1e-9, f"{sampled:.4f}, of all {full:.4f}"

    plain, ahead = on_both_data_sets(auc), on_both_data_sets(lead)
    return judge(
        Trial(f"AUC of Popular {plain.ours}", plain.holds),
        Trial(
            f"Popular's lead {ahead.ours}",
            ahead.holds,
            "it is measured by how far Popular is ahead of the next recommender on nDCG@10",
        ),
        note="Random decoys leave the expected AUC of every recommender as it is.",
    )


# --- the figures ----------------------------------------------------------------------------------


@made_by(on_both_definitions)
def peaks_at(data: str, definition: str, published: str, kind: str) -> Case:
    """Where the lead of Popular is largest: with the "fewest" decoys, with "all" or a "moderate"
    number of them.
    """
    kind_curves = curves(data, kind, definition)
    last = kind_curves.decoys.size - 1
    peaks = [int(np.argmax(kind_curves.behind(name))) for name in RATED]
    places = {"fewest" if i == 0 else "all" if i == last else "moderate" for i in peaks}
    return places == {published}, "N = " + ", ".join(f"{kind_curves.decoys[i]:,}" for i in peaks)


@made_by(on_both_definitions)
def wider_than_at_the_ends(data: str, definition: str, published: str, kind: str) -> Case:
    """That Popular's lead with so many decoys exceeds that with 5, and that with all items."""
    size = int(Printed.parse(published).value)
    kind_curves = curves(data, kind, definition)
    rows = {name: kind_curves.behind(name)[[0, kind_curves.index_of(size), -1]] for name in RATED}
    holds = all(a < b > c for a, b, c in rows.values())
    text = ", ".join(f"{name} {a:.3f}, {b:.3f}, {c:.3f}" for name, (a, b, c) in rows.items())
    return holds, text


@made_by(on_both_definitions)
def low_at(data: str, definition: str, published: str, end: str, kind: str) -> Case:
    """That Popular's lead at an end is low: less than this part of its peak, as in "< 1/2"."""
    limit, place = fraction_of(published.removeprefix("<")), {"5": 0, "all": -1}[end]
    kind_curves = curves(data, kind, definition)
    share = {
        name: float(kind_curves.behind(name)[place] / kind_curves.behind(name).max())
        for name in RATED
    }
    return max(share.values()) < limit, listed(share, ".0%") + " of the peak"


@made_by(on_both_definitions)
def fraction_rises(
    data: str, definition: str, published: str, kinds: list[str], at_least: float
) -> Case:
    """How the fraction of Popular's value moves as decoys get fewer: fairly consistently "up"."""
    sign = {"up": 1, "down": -1}[published]
    shares = [
        float((sign * np.diff(curves(data, kind, definition).fraction(name)[::-1]) > 0).mean())
        for kind in kinds
        for name in RATED
    ]
    return min(shares) >= at_least, f"at {min(shares):.0%} of the steps or more"


@made_by(on_both_definitions)
def opposite_ways(data: str, definition: str, published: str, kind: str) -> Case:
    """That from this N to all items the absolute lead falls and the proportional one grows."""
    size = int(Printed.parse(published).value)
    kind_curves = curves(data, kind, definition)
    i = kind_curves.index_of(size)
    rows = {}
    for name in RATED:
        both = kind_curves.behind(name), kind_curves.fraction(name)
        rows[name] = [curve[i] - curve[-1] for curve in both]
    holds = all(absolute > 0 and part > 0 for absolute, part in rows.values())
    text = ", ".join(f"{name} by {a:.3f} and {p:.3f}" for name, (a, p) in rows.items())
    return holds, text


def inflection_by_fraction(published: str, kind: str, factor: float) -> Finding:
    """Whether the curves' inflection points are at one fraction of the items: "not connected".

    On the logarithmic axis of the figures such a point is where a curve falls most steeply.
    """
    one_of(published, "connected", "not connected")

    def steepest(kind_curves: Curves, name: str) -> float:
        decoys = kind_curves.decoys[:-1]
        i = int(np.argmin(np.diff(kind_curves.values[name][:-1]) / np.diff(np.log(decoys))))
        return float(np.sqrt(decoys[i] * decoys[i + 1]))

    def trial(definition: str, setting: str) -> Trial:
        shares = {
            data: [
                steepest(curves(data, kind, definition), n) / float(study(data).n_irrelevant.mean())
                for n in ORDER
            ]
            for data in BUNDLED
        }
        ratios = [a / b for a, b in zip(*shares.values(), strict=True)]
        differ = all(max(r, 1 / r) > factor for r in ratios)
        text = text_by_data({d: ", ".join(f"{s:.1%}" for s in row) for d, row in shares.items()})
        return Trial(f"{text} of the unrated items", differ == (published[0] == "n"), setting)

    return judge(trial(IN_BOOK, ""), trial(SOFTWARE, SOFTWARE), unsettled=OWN_RUNS)


# --- verdicts -------------------------------------------------------------------------------------


def _reversed(data: str, kinds: tuple[str, ...]) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """Pairs that some number of decoys puts in the other order than all unrated items do.

    An order that rests on a handful of users is a tie, and none.
    """
    reversals: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for kind in kinds:
        definition = SOFTWARE if kind.startswith("software ") else IN_BOOK
        curve = curves(data, kind.removeprefix("software "), definition)
        for a, b in combinations(ORDER, 2):
            sign = np.array([stand.order(a, b) for stand in curve.stands])
            for n in curve.decoys[:-1][sign[:-1] * sign[-1] < 0]:
                reversals.setdefault((a, b), []).append((kind, int(n)))
    return reversals


@cache
def _values(data: str, name: str, kind: str, n: int | None) -> tuple[Floats, float]:
    """Expected value of each user, and the mean variance that drawing N decoys gives it.

    For the variance ties are broken at random, once.
    """
    bundled, metric_ = study(data), metric(kind)
    sets = bundled.sets[name]
    if n is None:
        return sets.evaluate(metric_), 0.0
    drawn = np.minimum(n, bundled.n_irrelevant)
    noise = untied(sets, rng=1).variance(metric_, drawn)
    return sets.expected(metric_, drawn), float(noise.mean())


def _z(data: str, a: str, b: str, kind: str, n: int | None) -> float:
    """Expected difference in standard errors of a paired difference, decoys drawn for each."""
    (first, first_noise), (second, second_noise) = (_values(data, name, kind, n) for name in (a, b))
    gap = first - second
    return float(gap.mean() / np.sqrt((gap.var(ddof=1) + first_noise + second_noise) / gap.size))


def order_kept(published: str, kinds: list[str]) -> Finding:
    """Whether random decoys "never" or "sometimes" change the order of two recommenders.

    It is said of what the authors ran, so what we ran does not contradict it.
    """
    one_of(published, "never", "sometimes")
    metric_names = (*(k for k in (*SHORT_LISTS, *LONG_LISTS) if k.split("@")[0] in kinds),)
    if "ndcg" in kinds:
        metric_names += tuple(f"software ndcg@{k}" for k in (10, 25, 100))
    reversals = {data: _reversed(data, metric_names) for data in BUNDLED}

    def shown(pairs: dict[str, list[str]]) -> str:
        return text_by_data({data: ", ".join(texts) or "no pair" for data, texts in pairs.items()})

    counted = {
        data: [
            f"{a} and {b} on {len({k for k, _ in places})} of {len(metric_names)} metrics"
            for (a, b), places in pairs.items()
        ]
        for data, pairs in reversals.items()
    }
    never = published == "never"
    clear = {data: _clearly(data, pairs) for data, pairs in reversals.items()}
    popular_first = not any("Popular" in pair for pairs in reversals.values() for pair in pairs)
    return judge(
        Trial(f"reversed are {shown(counted)}", (not any(reversals.values())) == never),
        Trial(
            f"on NDCG@10 {shown(clear)}",
            (not any(clear.values())) == never,
            "only differences of more than two standard errors count",
        ),
        note=("Popular is first throughout. " if popular_first else "")
        + f"An order that rests on fewer than {HANDFUL} users is a tie and left out.",
        unsettled=OWN_RUNS,
    )


def _clearly(data: str, reversals: dict[tuple[str, str], list[tuple[str, int]]]) -> list[str]:
    """Pairs reversed on NDCG@10 with more than two standard errors among few and among all."""
    texts = []
    for (a, b), places in reversals.items():
        sizes = [n for kind, n in places if kind == "ndcg@10"]
        if sizes and abs(z_all := _z(data, a, b, "ndcg@10", None)) > 2:
            n = min(sizes, key=lambda n: abs(np.log(n / 100)))
            if abs(z_sampled := _z(data, a, b, "ndcg@10", n)) > 2:
                z_text = f"{z_sampled:.1f} at N = {n} and {z_all:.1f} with all"
                texts.append(f"{a} less {b} is z = {z_text}")
    return texts


def significance_depends(published: str, kind: str, z: float = NORMAL_QUANTILE) -> Finding:
    """Whether a difference's significance "depends" on the number of decoys, for some pair."""
    sizes = (5, 20, 100, 500)

    def case(data: str) -> Case:
        rows = {
            (a, b): [_z(data, a, b, kind, n) for n in (*sizes, None)]
            for a, b in combinations(ORDER, 2)
        }
        varying = {pair: v for pair, v in rows.items() if min(map(abs, v)) < z < max(map(abs, v))}
        text = ", ".join(
            f"{a} less {b} {'/'.join(f'{x:.1f}' for x in v)}" for (a, b), v in varying.items()
        )
        return bool(varying) == (published == "depends"), text or "none"

    trial = on_both_data_sets(case)
    shown = f"z with {', '.join(map(str, sizes))} and all decoys: {trial.ours}"
    return judged(shown, trial.holds, unsettled=OWN_RUNS)


@check_of_each(OWN_RUNS)
def similar_patterns(data: str, published: str, at_least: float) -> Case:
    """The metrics of which the first two observations on nDCG hold, the first on lists of 10.

    Popular's lead is largest at neither end, and its proportion grows or stays level at so many of
    the steps to more decoys, over all recommenders that use the ratings. It is level, up to
    rounding, where a list holds all candidates.
    """
    holds, texts = True, []
    for kind in read_list(published):
        kind_curves = curves(data, kind)
        steps = np.array([np.diff(kind_curves.fraction(name)[::-1]) > -1e-12 for name in RATED])
        text = f"{metric(kind).label} {steps.mean():.0%}"
        holds &= bool(steps.mean() >= at_least)
        if kind.endswith("@10"):
            peaks = [int(np.argmax(kind_curves.behind(name))) for name in RATED]
            holds &= min(peaks) > 0 and max(peaks) < kind_curves.decoys.size - 1
            text += f" (N = {', '.join(f'{kind_curves.decoys[i]:,}' for i in peaks)})"
        texts.append(text)
    return holds, ", ".join(texts)


@made_by(on_both_definitions)
def advantage_among(
    data: str, definition: str, published: str, sizes: list[int], kinds: list[str]
) -> Case:
    """Whether decoys make Popular's relative lead over the filters smaller: it "decreases"."""
    sign = {"decreases": 1, "increases": -1}[published]
    rises = []
    for kind, name in product(kinds, FILTERS):
        kind_curves = curves(data, kind, definition)
        fraction = kind_curves.fraction(name)
        rises += [float(fraction[kind_curves.index_of(n)] - fraction[-1]) for n in sizes]
    shown = f"their fraction of Popular's value is {min(rises):+.3f} to {max(rises):+.3f}"
    return min(sign * r for r in rises) > 0, shown


def noise_of_decoys(published: str, sizes: list[int], kind: str) -> Finding:
    """The part of the variance of a mean over users that is due to decoys, as in "> 1/10"."""
    limit = fraction_of(published.removeprefix(">"))

    def trial(sizes: list[int], setting: str) -> Trial:
        least, texts = 1.0, {}
        for data in BUNDLED:
            parts = []
            for n in sizes:
                values = (_values(data, name, kind, n) for name in ORDER)
                row = [noise / (noise + float(mean.var(ddof=1))) for mean, noise in values]
                least = min(least, *row)
                parts.append(f"{min(row):.0%} to {max(row):.0%} at N = {n:,}")
            texts[data] = ", ".join(parts)
        return Trial(text_by_data(texts), least > limit, setting)

    smaller_sizes = sizes[:-1]
    return judge(
        trial(sizes, ""),
        trial(smaller_sizes, f"the decoys are {max(smaller_sizes)} or fewer"),
        unsettled=OWN_RUNS,
    )


@check_of_each()
def last_on_test_items(data: str, published: str, kind: str) -> Case:
    """The recommender that orders the test items alone worst, by the users' own ratings."""
    facts = study(data).facts["effectiveness"][kind]
    means = {name: facts[name][0] for name in ORDER}
    return min(means, key=lambda name: means[name]) == published, listed(means, ".3f")


@check_of_each()
def other_question(data: str, published: str, kind: str) -> Case:
    """Whether the test items alone say how items are found among all: "no", if orders differ."""
    one_of(published, "yes", "no")
    test_standing, full_standing = _test_items_alone(data), standing(study(data).sets, metric(kind))
    differ = [
        pair
        for pair in full_standing.users
        if test_standing.order(*pair) * full_standing.order(*pair) < 0
    ]
    return bool(differ) == (published == "no"), (
        f"{test_standing.spelled} on the test items, {full_standing.spelled} among all items"
    )


def _test_items_alone(data: str) -> Standing:
    """The standing by the share of test items' pairs that are in the users' order."""
    means = study(data).facts["effectiveness"][PAIRS]
    return standing_of_means(data, {name: np.array(means[name][:1]) for name in ORDER}, 0)


@check_of_each()
def without_ratings(data: str, published: str, kinds: list[str]) -> Case:
    """The value that metrics of the test items alone have for every recommender without ratings."""
    printed = Printed.parse(published)
    metrics = [metric(kind) for kind in kinds]
    values = np.array([sets.expected(metrics, 0) for sets in study(data).sets.values()])
    holds = bool(np.abs(values - printed.value).max() < 1e-12)
    return holds, f"{values.min():g} to {values.max():g}"


def most_reliable(
    published: str, sizes: list[int], kind: str, z: float = NORMAL_QUANTILE
) -> Finding:
    """The protocol that orders the most pairs significantly, and the same way on both data sets.

    Protocols are "test items", all items, and so many decoys; one that no other exceeds is it.
    """
    counts = {"test items": 0, "all items": 0} | {f"N = {n:,}": 0 for n in sizes}
    for a, b in combinations(ORDER, 2):
        gaps = [study(d).facts["effectiveness"][f"{PAIRS}, difference"] for d in BUNDLED]
        z_by_protocol = {
            "test items": [gap[f"{a} - {b}"][0] / gap[f"{a} - {b}"][1] for gap in gaps],
            "all items": [_z(d, a, b, kind, None) for d in BUNDLED],
        } | {f"N = {n:,}": [_z(d, a, b, kind, n) for d in BUNDLED] for n in sizes}
        for protocol, row in z_by_protocol.items():
            counts[protocol] += int(min(row) > z or max(row) < -z)
    return judged(
        f"pairs of {len(RATED) * len(ORDER) // 2}: " + listed(counts, "d"),
        counts[published] == max(counts.values()),
        unsettled="reliable may mean something else than an order that another data set confirms",
    )


@cache
def _among_all(data: str, kinds: tuple[str, ...]) -> dict[str, Standing]:
    return {kind: standing(study(data).sets, metric(kind)) for kind in kinds}


@check_of_each("it is of earlier studies, with other data")
def rank_consistent(data: str, published: str, kinds: list[str]) -> Case:
    """Whether two metrics order two recommenders alike: "mostly", that is not always."""
    one_of(published, "always", "mostly", "rarely")
    standings = _among_all(data, tuple(kinds))
    agreements = [
        signs[0] == signs[1]
        for pair in combinations(ORDER, 2)
        for first, second in combinations(standings.values(), 2)
        if 0 not in (signs := (first.order(*pair), second.order(*pair)))
    ]
    share = float(np.mean(agreements))
    word = "always" if share == 1 else "mostly" if share > 0.5 else "rarely"
    return word == published, f"{share:.1%} of {len(agreements)}"


def significant_by_metric(published: str, kinds: list[str], z: float = NORMAL_QUANTILE) -> Finding:
    """Whether two metrics with one order of two recommenders "differ" in its significance."""
    one_of(published, "differ", "agree")
    texts = []
    for data, (a, b) in product(BUNDLED, combinations(ORDER, 2)):
        row = {kind: _z(data, a, b, kind, None) for kind in kinds}
        for first, second in combinations(kinds, 2):
            weaker, stronger = sorted((first, second), key=lambda kind: abs(row[kind]))
            if row[weaker] * row[stronger] > 0 and abs(row[weaker]) < z < abs(row[stronger]):
                z_text = f"{row[weaker]:.1f} on {metric(weaker).label} and {row[stronger]:.1f} on "
                texts.append(f"{SHORT[data]}: {a} less {b} is z = {z_text}{metric(stronger).label}")
    text = f"{len(texts)} cases, as {texts[0]}" if texts else "none"
    return judged(text, bool(texts) == (published == "differ"))


@check_of_each(OWN_RUNS)
def clear_points(data: str, published: str, kinds: list[str], factor: float) -> Case:
    """Whether the numbers of decoys at which Popular's lead peaks are "one": within this factor."""
    one_of(published, "none", "one")
    peaks = [
        int(kind_curves.decoys[int(np.argmax(kind_curves.behind(name)))])
        for kind in kinds
        for kind_curves in [curves(data, kind)]
        for name in RATED
    ]
    differ = max(peaks) > factor * min(peaks)
    return differ == (published == "none"), f"N = {min(peaks):,} to {max(peaks):,}"


def popularity_bias(published: str, sizes: list[int], kind: str) -> Finding:
    """Whether decoys give Popular "more" of an advantage than all items, or "not more" of it.

    The advantage is its lead over each of the others, or that as a fraction of its own value.
    """
    claims_more = {"more": True, "not more": False}[published]

    def trial(relative: bool, setting: str) -> Trial:
        def case(data: str) -> Case:
            kind_curves = curves(data, kind)
            gaps = []
            for name in RATED:
                lead = -kind_curves.fraction(name) if relative else kind_curves.behind(name)
                gaps += [lead[kind_curves.index_of(n)] - lead[-1] for n in sizes]
            holds = min(gaps) > 0 if claims_more else max(gaps) <= 0
            return holds, f"{min(gaps):+.3f} to {max(gaps):+.3f}"

        outcome = on_both_data_sets(case)
        measure = "as a fraction of Popular's value" if relative else "absolute lead"
        return Trial(f"{measure}: {outcome.ours}", outcome.holds, setting)

    readings = trial(False, ""), trial(True, "")
    return judge(
        Trial(
            "; ".join(reading.ours for reading in readings),
            all(reading.holds for reading in readings),
        ),
        trial(False, "the advantage is Popular's absolute lead"),
        trial(True, "the advantage is relative to Popular's value"),
        note="The paper's own conclusion has the two apart.",
        unsettled=OWN_RUNS,
    )

"""Checks of the running example: Tables 1 and 2 and figure 2."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np

from sampled_metrics import Metric, Protocol, metric
from sampled_metrics.consistency import OrderByNegatives, order_by_negatives, sign
from sampled_metrics.estimators import naive

from .finding import (
    Z_LIMIT,
    Distance,
    Finding,
    Printed,
    Trial,
    by_metric,
    judge,
    judged,
    printed_pair,
    read_list,
)

N_ITEMS = 10_000
RANKS = {
    "A": [100, 100, 100, 100, 100],
    "B": [40, 40, 8437, 9266, 4482],
    "C": [212, 2, 743, 5342, 1548],
}
METRICS = ("auc", "ap", "ndcg", "recall@10")


@cache
def means(kind: str, m: int | None = None, replacement: bool = True) -> dict[str, float]:
    """Mean of the metric for each recommender: exact, or expected with m negatives."""
    if m is None:
        return {name: float(metric(kind)(r, N_ITEMS).mean()) for name, r in RANKS.items()}
    estimator = naive(metric(kind), Protocol(N_ITEMS, m, replacement=replacement))
    return {name: float(estimator.expected(r).mean()) for name, r in RANKS.items()}


def ranking(values: dict[str, float], level: float = 0.0) -> str:
    """Order of the recommenders, as in "C > A = B"; ties in alphabetical order.

    Neighbours tie if they agree to 12 digits, or differ by less than `level`.
    """
    names = sorted(values, key=lambda name: (-values[name], name))
    groups = [[names[0]]]
    for last, name in pairwise(names):
        a, b = values[last], values[name]
        if sign(a, b) == 0 or a - b < level:
            groups[-1].append(name)
        else:
            groups.append([name])
    return " > ".join(" = ".join(sorted(group)) for group in groups)


def exact_cell(published: str, recommender: str, kind: str) -> Finding:
    """A cell of Table 1, to the printed digits."""
    value = means(kind)[recommender]
    return judged(f"{value:.5f}", Printed.parse(published).rounds_from(value))


def average_and_spread(
    published: str, mean: float, variance: float, fourth: float, runs: int
) -> tuple[Distance, Distance]:
    """Distances of a published "mean ± sd" over runs from the exact moments of one run."""
    average, spread = printed_pair(published)
    sd = float(np.sqrt(variance))
    # Variance of a sample variance is (fourth - variance^2) / runs; the delta method for its root.
    # Where a run hardly ever differs from the others that says nothing; but by Markov's inequality
    # a sample standard deviation above 19 sd has a probability below 0.0027, that of `Z_LIMIT`.
    delta = np.sqrt(max(fourth - variance**2, 0.0) / runs) / (2 * sd) if sd > 0 else 0.0
    error_of_sd = min(delta, 18 * sd / Z_LIMIT)
    return average.distance(mean, sd / np.sqrt(runs)), spread.distance(sd, float(error_of_sd))


def shown(mean: float, sd: float, distances: tuple[Distance, ...], digits: int = 2) -> str:
    """Format moments and distances, as in "0.984 ± 0.004 (z = 0.1, 1.2)"."""
    z = ", ".join(f"{distance.z:.1f}" for distance in distances)
    return f"{mean:.{digits}f} ± {sd:.{digits}f} (z = {z})"


def _moments(kind: str, m: int, ranks: list[int], replacement: bool) -> tuple[float, float, float]:
    """Mean, variance and fourth central moment of a run: independent samples for each instance."""
    estimator = naive(metric(kind), Protocol(N_ITEMS, m, replacement=replacement))
    law = estimator.protocol.pmf(ranks)
    centred = estimator.values - (law @ estimator.values)[:, None]
    second, fourth = (law * centred**2).sum(axis=1), (law * centred**4).sum(axis=1)
    size = len(ranks)
    variance = float(second.sum()) / size**2
    excess = float((fourth - 3 * second**2).sum()) / size**4
    return float((law @ estimator.values).mean()), variance, excess + 3 * variance**2


def sampled_cell(published: str, recommender: str, kind: str, m: int, runs: int) -> Finding:
    """A cell of Table 2: average and standard deviation over runs, under both laws."""
    trials = {}
    for replacement in (True, False):
        mean, variance, fourth = _moments(kind, m, RANKS[recommender], replacement)
        distances = average_and_spread(published, mean, variance, fourth, runs)
        text = shown(mean, float(np.sqrt(variance)), distances, 4)
        trials[replacement] = Trial(text, max(distances).z < Z_LIMIT, "", distances)
    # The law is not stated beside the table, but it makes no difference that the digits show.
    with_replacement = trials[True]
    both_hold = with_replacement.holds and trials[False].holds
    return judge(
        replace(with_replacement, holds=both_hold),
        replace(with_replacement, setting="negatives drawn with replacement"),
    )


def order_of_three(
    published: str, kind: str, m: tuple[int, int] | None = None, level: float = 0.0
) -> Finding:
    """The order of the recommenders, as in "C > A = B": exact, or at every m from one to another.

    Where the strict order is another, values less than `level` apart are taken for equal.
    """
    sizes = [None] if m is None else sorted({*np.linspace(*m, 60).astype(int).tolist(), *m})

    def trial(level: float, setting: str) -> Trial:
        orders = sorted({ranking(means(kind, size), level) for size in sizes})
        return Trial(" or ".join(orders), orders == [published], setting)

    trials = [trial(0.0, "")]
    if level:
        trials.append(trial(level, _level(level)))
    return judge(*trials)


def _level(level: float) -> str:
    return f"values less than {level:g} apart are taken for equal"


def extreme(published: str, kinds: list[str], which: str, m: int | None = None) -> Finding:
    """The recommender with the highest or the lowest value on each of the metrics."""
    pick = {"highest": max, "lowest": min}[which]
    extremes = {}
    for kind in kinds:
        values = means(kind, m)
        extremes[kind] = pick(values, key=values.__getitem__)
    text = ", ".join(f"{name} on {metric(kind).label}" for kind, name in extremes.items())
    return judged(f"{which}: {text}", set(extremes.values()) == {published})


def times(published: str, kind: str, better: str, worse: str, m: int | None = None) -> Finding:
    """How many times one recommender's value is another's, rounded as printed."""
    values = means(kind, m)
    ratio = values[better] / values[worse]
    return judged(f"{ratio:.2f} times", Printed.parse(published).rounds_from(ratio))


def equal_values(published: str, kind: str, decimals: int) -> Finding:
    """Two recommenders, as in "A = B", with one value: strictly, or as Table 1 prints them."""
    first, second = read_list(published, "=")
    a, b = means(kind)[first], means(kind)[second]
    return judge(
        Trial(f"{first} {a:.6f}, {second} {b:.6f}", sign(a, b) == 0),
        Trial(
            f"{a:.{decimals}f} and {b:.{decimals}f}",
            round(a, decimals) == round(b, decimals),
            f"values rounded to the {decimals} decimals that Table 1 prints",
        ),
    )


def _pairs_kept(kind: str, m: int) -> int:
    """Pairs of recommenders whose expected order is the exact one."""
    exact, sampled = means(kind), means(kind, m)
    return sum(
        sign(exact[a], exact[b]) == sign(sampled[a], sampled[b]) for a, b in combinations(RANKS, 2)
    )


def pairs_in_order(published: str, kind: str, m: int) -> Finding:
    """How many of the three pairs sampling keeps in order."""
    n_kept = _pairs_kept(kind, m)
    text = f"{n_kept} of 3 pairs: {ranking(means(kind))} exactly, {ranking(means(kind, m))} sampled"
    return judged(text, n_kept == int(published))


def order_changes(published: str, kinds: list[str], m: int) -> Finding:
    """Whether sampling changes the order of the three "completely": no pair keeps its order."""
    n_kept = {kind: _pairs_kept(kind, m) for kind in kinds}
    text = ", ".join(f"{metric(kind).label} keeps {count}" for kind, count in n_kept.items())
    reordered = [metric(kind).label for kind, count in n_kept.items() if count == 0]
    claims_complete = published == "completely"
    return judge(
        Trial(f"of 3 pairs {text}", claims_complete and len(reordered) == len(kinds)),
        Trial(
            f"of 3 pairs {text}",
            claims_complete and bool(reordered) and all(count < 3 for count in n_kept.values()),
            f"said of {' and '.join(reordered)} alone; on the others the order changes in part",
        ),
    )


def disagrees(published: str, m: int) -> Finding:
    """The metrics, as in "ndcg, recall@10", whose expected order is not the exact one."""
    named = set(read_list(published))
    disagreeing = {kind for kind in METRICS if _pairs_kept(kind, m) < 3}
    orders = (
        f"{metric(kind).label} {ranking(means(kind))} exactly, {ranking(means(kind, m))} sampled"
        for kind in METRICS
        if kind in named
    )
    return judged("; ".join(orders), named <= disagreeing)


def consistent_metrics(published: str, sizes: list[int]) -> Finding:
    """The metrics that keep all three pairs in order at every one of these m."""
    consistent = [kind for kind in METRICS if all(_pairs_kept(kind, m) == 3 for m in sizes)]
    shown = ", ".join(metric(kind).label for kind in consistent) or "none"
    return judged(f"consistent: {shown}", consistent == read_list(published))


def independent_of_sample_size(published: str, sizes: list[int]) -> Finding:
    """The metrics whose expectation is the exact value whatever m."""
    fixed = [
        kind
        for kind in METRICS
        if all(
            sign(means(kind, m, replacement)[name], means(kind)[name]) == 0
            for m, replacement, name in product(sizes, (True, False), RANKS)
        )
    ]
    shown = ", ".join(metric(kind).label for kind in fixed) or "none"
    return judged(f"{shown}, at {len(sizes)} sample sizes under both laws", fixed == [published])


@cache
def _by_negatives(kind: str, names: str = "ABC", replacement: bool = True) -> OrderByNegatives:
    protocol = Protocol(N_ITEMS, N_ITEMS - 1, replacement=replacement)
    return order_by_negatives({name: RANKS[name] for name in names}, kind, protocol)


def order_depends_on_sample_size(published: str) -> Finding:
    """The metrics on which the order of the three changes with m."""
    changing = [kind for kind in METRICS if _by_negatives(kind).flips]
    shown = "; ".join(
        f"{metric(kind).label} at m = {', '.join(f'{m:,}' for m in _by_negatives(kind).flips)}"
        for kind in changing
    )
    return judged(f"flips of {shown}", changing == read_list(published))


def most_sensitive(published: str) -> Finding:
    """The metric on which the order changes at the most sample sizes."""
    flips = {kind: len(_by_negatives(kind).flips) for kind in METRICS}
    most_flipped = max(flips, key=lambda kind: flips[kind])
    text = by_metric(flips)
    ahead = sorted(flips.values())[-1] > sorted(flips.values())[-2]
    return judged(
        f"sample sizes at which the order changes: {text}", ahead and most_flipped == published
    )


def _settled(kind: str, level: float) -> int:
    """The smallest m from which the order, with a level of ties, is that of the exact values."""
    exact_order = ranking(means(kind), level)
    low, high = 1, N_ITEMS - 1  # right at the upper end, and flips are far apart near it
    while high - low > 1:
        middle = (low + high) // 2
        is_right = ranking(means(kind, middle), level) == exact_order
        low, high = (low, middle) if is_right else (middle, high)
    return high


def consistent_from(published: str, kind: str, level: float) -> Finding:
    """About how many negatives it takes, within a tenth, for every order to be right.

    A and B tie exactly, and sampled only with all negatives: they count as level when they are
    less than `level` apart.
    """
    claimed = Printed.parse(published).value

    def strict(replacement: bool) -> int:
        orders = [_by_negatives(kind, pair, replacement) for pair in ("AB", "AC", "BC")]
        return max(pair.right_from or N_ITEMS for pair in orders if "=" not in pair.exact)

    settled = _settled(kind, level)
    text = (
        f"m = {settled:,}; the two pairs that differ exactly are right from {strict(True):,} on "
        f"({strict(False):,} without replacement)"
    )
    return judged(text, abs(settled / claimed - 1) <= 0.1)


def bias_depends(published: str, kind: str, sizes: list[int]) -> Finding:
    """What the bias depends on, of "recommender" and "sample size"."""
    bias = np.array([[means(kind, m)[name] - means(kind)[name] for name in RANKS] for m in sizes])
    influences = []
    if (np.ptp(bias, axis=1) > 1e-9).all():
        influences.append("recommender")
    if (np.ptp(bias, axis=0) > 1e-9).all():
        influences.append("sample size")
    shown = "; ".join(
        f"m = {m}: " + ", ".join(f"{name} {b:+.3f}" for name, b in zip(RANKS, row, strict=True))
        for m, row in zip(sizes, bias, strict=True)
    )
    return judged(f"bias at {shown}", ", ".join(influences) == published)


def alike_at_small_samples(published: str, sizes: list[int]) -> Finding:
    """The order that all metrics which tell ranks apart give, at every one of these small m."""
    orders = {
        (metric(kind).label, m): ranking(means(kind, m))
        for kind in METRICS
        for m in sizes
        # While m < k a metric cut off at k sees every item and tells nothing apart.
        if _tells_apart(metric(kind), m)
    }
    distinct_orders = sorted(set(orders.values()))
    return judged(" or ".join(distinct_orders), distinct_orders == [published])


def _tells_apart(metric_: Metric, m: int) -> bool:
    return metric_.k is None or metric_.k <= m


def any_conclusion(published: str, kind: str) -> Finding:
    """The conclusions at some sample size: "any" of six orders, or of the two of each pair."""
    sizes = [1, *_by_negatives(kind).flips]
    orders = [ranking(means(kind, m)) for m in sizes]
    named = [order.split(" > ") for order in orders]
    pairs = {(a, b) for order in named for a, b in combinations(order, 2)}
    text = f"{len(set(orders))} of 6 orders: {', '.join(dict.fromkeys(orders))}"
    never = [name for name in RANKS if all(order[0] != name for order in named)]
    if never:
        text += f"; {' and '.join(never)} never first"
    return judge(
        Trial(text, published == "any" and len(set(orders)) == 6),
        Trial(
            f"{len(pairs)} of 6 conclusions on two of the three",
            published == "any" and len(pairs) == 6,
            "a conclusion is about two of the three",
        ),
    )


def similar_order(published: str, like: str) -> Finding:
    """Whether who is best for few and for many samples changes on a metric as on `like`."""

    def ends(kind: str) -> tuple[str, ...]:
        return tuple(ranking(means(kind, m))[0] for m in (10, N_ITEMS - 1))

    winners, like_winners = ends(published), ends(like)
    orders = [ranking(means(published, m)) for m in (1, *_by_negatives(published).flips)]
    text = f"{' then '.join(dict.fromkeys(orders))} on {metric(published).label}"
    return judged(text, len(set(orders)) > 1 and winners == like_winners)


def bias_is_why(published: str, kind: str, sizes: list[int]) -> Finding:
    """What the bias must depend on for the order to change, of "recommender, sample size".

    The bias is averaged over one of the two, and the order looked at again.
    """
    exact = np.array([means(kind)[name] for name in RANKS])
    bias = np.array([[means(kind, m)[name] for name in RANKS] for m in sizes]) - exact

    def orders(biases: np.ndarray) -> int:
        return len({ranking(dict(zip(RANKS, row, strict=True))) for row in exact + biases})

    averaged = {
        name: orders(np.broadcast_to(bias.mean(axis=axis, keepdims=True), bias.shape))
        for axis, name in ((1, "recommender"), (0, "sample size"))
    }
    necessary = [name for name, count in averaged.items() if count == 1 < orders(bias)]
    text = ", ".join(f"{count} averaged over the {name}s" for name, count in averaged.items())
    return judged(
        f"{orders(bias)} orders with the bias left in, {text}", ", ".join(necessary) == published
    )


def laws_alike(published: str, sizes: list[int]) -> Finding:
    """Whether results without replacement are "similar": the same orders, values 0.01 apart."""
    kinds = [kind for kind in METRICS if kind != "auc"]
    differences = {
        (abs(means(kind, m)[name] - means(kind, m, False)[name]), metric(kind).label, m)
        for kind in METRICS
        for m in sizes
        for name in RANKS
    }
    orders_agree = all(
        ranking(means(kind, m)) == ranking(means(kind, m, False)) for kind in kinds for m in sizes
    )
    largest, label, m = max(differences)
    text = f"{'the same' if orders_agree else 'other'} orders, values up to {largest:.4f} apart"
    return judged(
        f"{text} ({label}, m = {m})", published == "similar" and orders_agree and largest < 0.01
    )

"""Checks of the theory of random decoys: how many decoys the user would like, and their cost."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb, log10, prod

import numpy as np

from sampled_metrics import metric
from sampled_metrics.relevant_sets import RelevantSets

from ..experiments import decoys
from .algebra import Cases, checked, evaluate
from .finding import Finding, Printed, Trial, by_metric, judge, judged, one_of, read_list

#: What the paper takes from Miller: the share of items that are really good.
MILLER = 0.01


@checked("every set of good and bad decoys")
def set_probability(published: str, event: str) -> Cases:
    """A formula in g and N for the probability of an event, over every set of up to 6 decoys."""
    happens = {"no good decoy": lambda good: not any(good), "a good decoy": any}[event]
    for g, n in product([Fraction(1, 100), Fraction(1, 3), Fraction(9, 10)], range(1, 7)):
        sets = [good for good in product([0, 1], repeat=n) if happens(good)]
        probability = sum(prod(g if is_good else 1 - g for is_good in good) for good in sets)
        yield f"g = {g}, N = {n}", evaluate(published, g=g, N=n), Fraction(probability)


@checked("the package")
def required_goodness(published: str) -> Cases:
    """A formula in N and the confidence c for 1 - g, at which a set holds no good item."""
    for n, c in product([1, 10, 100, 1000], [0.5, 0.95, 0.999]):
        bad_share = 1 - float(decoys.largest_goodness(n, c))
        yield f"N = {n}, c = {c}", evaluate(published, N=n, c=c), bad_share


def _power(value: float) -> float:
    """The nearest power of ten."""
    return 10.0 ** round(log10(value))


def _near(published: float, value: float) -> bool:
    return abs(published / _power(value) - 1) < 1e-9


def goodness_at(published: str, n: int, confidence: float) -> Finding:
    """The largest goodness at which N decoys are clean: as printed, or to a power of ten."""
    value = float(decoys.largest_goodness(n, confidence))
    printed = Printed.parse(published)
    clean = 1 - float(decoys.misclassified(n, printed.value))
    shown = f"{value:.8f}"
    return judge(
        Trial(shown, printed.rounds_from(value)),
        Trial(
            f"{shown}, the nearest power of ten being {_power(value):.{printed.decimals}f}",
            _near(printed.value, value),
            "rounded to the nearest power of ten",
        ),
        note=f"At the printed goodness, which is 1 in {1 / printed.value:,.0f}, the set is clean "
        f"with probability {clean:.4f}.",
    )


def _one_in(text: str) -> float:
    """Parse "1 in 10K"."""
    number = text.removeprefix("1 in ")
    return Printed.parse(number.removesuffix("K")).value * (1e3 if number.endswith("K") else 1.0)


def one_in(published: str, n: int, confidence: float) -> Finding:
    """One item in how many may be good: as printed, or to a power of ten."""
    value, claimed = 1 / float(decoys.largest_goodness(n, confidence)), _one_in(published)
    clean = 1 - float(decoys.misclassified(n, 1 / claimed))
    shown = f"1 in {value:,.0f}"
    return judge(
        Trial(shown, round(value) == claimed),
        Trial(shown, _near(claimed, value), "rounded to the nearest power of ten"),
        note=f"At {published} the set is clean with probability {clean:.3f}.",
    )


def probably_clean(published: str, n: int) -> Finding:
    """That N random items hold a good one with a probability below one half, as in "< 1/2"."""
    limit = float(Fraction(published.removeprefix("<").strip()))
    probability = float(decoys.misclassified(n, MILLER))
    rare = float(decoys.largest_goodness(n, 1 - limit)) if limit > 0 else 0.0
    return judge(
        Trial(
            f"probability {probability:.5f} if {MILLER:.0%} of the items are good",
            probability < limit,
        ),
        Trial(
            f"probability below {published.removeprefix('<').strip()}",
            rare > 0,
            f"fewer than 1 in {1 / rare:,.0f} items are good" if rare else "no item is good",
        ),
    )


def below_the_adage(published: str, sizes: list[int], confidence: float) -> Finding:
    """That clean sets of these sizes need a smaller goodness than an adage says there is."""
    limits = {n: float(decoys.largest_goodness(n, confidence)) for n in sizes}
    share = Printed.parse(published).value / 100
    largest = decoys.largest_sample(share, confidence)
    text = ", ".join(f"{100 * g:.4f}% for N = {n}" for n, g in limits.items())
    holds = all(g < share for g in limits.values())
    return judged(f"{text}; at {published} a clean set has at most {largest} decoys", holds)


def users_differ(published: str, n: int, correlation: float, confidence: float) -> Finding:
    """That users who differ change the probability of a clean set by less than this factor."""
    p_equal, p_varied = (float(decoys.pmf(n, MILLER, rho)[0]) for rho in (0.0, correlation))
    factor = float(Printed.parse(published).value)
    shown = (
        f"{100 * p_equal:.4f}% of the sets are clean if all users like {MILLER:.0%} of the items, "
        f"and {p_varied:.0%} if that is their mean and two decoys of a user have a correlation of "
        f"{correlation:g}"
    )
    return judge(
        Trial(shown, max(p_equal, p_varied) < factor * min(p_equal, p_varied)),
        Trial(
            shown,
            max(p_equal, p_varied) < confidence,
            f"the analysis is its conclusion, that sets are not clean with {confidence:.0%} "
            "certainty",
        ),
    )


def one_at_a_time(published: str, n: int) -> Finding:
    """Whether each item of a test set has the "same" decoys above it as if it were alone.

    Every set of N decoys is drawn for test items and unrated items of all scores.
    """
    one_of(published, "same", "other")
    tests, unrated = (9, 6, 6, 1), (8, 7, 5, 4, 3, 2)
    gap = 0.0
    for score in tests:
        above = [sum(rival > score for rival in drawn) for drawn in combinations(unrated, n)]
        pmf = np.bincount(above, minlength=n + 1) / comb(len(unrated), n)
        better = sum(rival > score for rival in unrated)
        counts = [np.array([[above]]) for above in (better, 0, 0)]
        solo = RelevantSets(counts[0], counts[1], counts[2], np.array([len(unrated)])).pmf(n)[0, 0]
        gap = max(gap, float(np.abs(pmf - solo).max()))
    is_same = gap < 1e-12
    text = f"the distributions of {len(tests)} test items differ by {gap:.1g}"
    return judged(text if not is_same else "no difference", is_same == (published == "same"))


def size_depends_on(published: str, confidence: float) -> Finding:
    """What the largest clean set depends on, as in "size, prevalence"; a tenth is a difference.

    Prevalence may be the share of the items that are good, or their number.
    """
    claimed = read_list(published)
    pools, good = (10_000, 100_000, 1_000_000), (10, 100, 1000)

    def largest(n_good: int, pool: int) -> int:
        return decoys.largest_in_pool(n_good, pool, confidence)

    def trial(by_size: list[int], by_prevalence: list[int], setting: str) -> Trial:
        sizes = {"size": by_size, "prevalence": by_prevalence}
        factors = [name for name, n in sizes.items() if max(n) > 1.1 * min(n)]
        text = "; ".join(
            f"N = {', '.join(f'{n:,}' for n in values)} by {name}" for name, values in sizes.items()
        )
        return Trial(text, factors == claimed, setting)

    by_prevalence = [largest(count, pools[1]) for count in good]
    return judge(
        trial([largest(pool // 1000, pool) for pool in pools], by_prevalence, ""),
        trial(
            [largest(good[0], pool) for pool in pools],
            by_prevalence,
            "prevalence is the number of good items, not their share",
        ),
    )


def perfect_loses(published: str, n: int, goodness: float, n_test: int, placement: str) -> Finding:
    """The metrics on which good decoys make a perfect recommender lose to one without them."""
    names = read_list(published)
    pmf = decoys.pmf(n, goodness)
    lost = {
        name: decoys.loss(pmf, decoys.perfect(metric(name), n, n_test, placement)) for name in names
    }
    text = by_metric(lost, ".3f")
    return judged(f"loss of {text}", all(cost > 1e-3 for cost in lost.values()))

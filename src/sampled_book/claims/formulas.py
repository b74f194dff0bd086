"""Checks of printed formulas: each is evaluated as printed and held against its definition.

A formula stands in the ledger as a Python expression. It is evaluated in rational arithmetic,
and held against an enumeration of every equally likely sample and against the package.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product
from typing import Any

import mpmath as mp
import numpy as np

from sampled_metrics import Protocol, metric
from sampled_metrics.estimators import naive

from ..experiments.theory import expected_differences
from ..reference.enumeration import DIGITS, digits_pmf, every_sample, exact_pmf
from .algebra import Cases, checked, compared, evaluate, exact_metric, same
from .finding import Finding, Printed, Trial, judge, judged, read_list

#: Metrics that tell the first position from the second: those the paper calls reasonable.
TOP_AWARE = ("auc", "ap", "ndcg", "rr", "recall@1", "precision@1", "ap@3", "ndcg@3", "accuracy")


@checked("the package")
def metric_of_set(published: str, kind: str) -> Cases:
    """Eqs 2-6: the formula of a metric of several relevant items, on every set of up to 7 items."""
    for n in range(2, 8):
        items = [Fraction(i) for i in range(1, n + 1)]
        for size in range(1, n):
            for ranks in combinations(items, size):
                irrelevant = [item for item in items if item not in ranks]
                for k in [None] if kind == "auc" else range(1, n + 1):
                    cut = Fraction(k or n)
                    names = {"n": Fraction(n), "R": Fraction(size), "k": cut}
                    value = evaluate(published, ranks=ranks, others=irrelevant, **names)
                    metric_ = metric(kind if k is None else f"{kind}@{k}")
                    package_value = metric_.of_set([int(r) for r in ranks], n_items=n)
                    yield f"ranks {[int(r) for r in ranks]}, n = {n}, k = {k}", value, package_value


@checked("the formula for sets")
def metric_of_rank(published: str, kind: str, cutoff: bool) -> Cases:
    """Eqs 7-13: the formula for one relevant item is that for a set, with a set of one."""
    for n in range(2, 21):
        for k in range(1, n + 1) if cutoff else [None]:
            metric_ = metric(kind if k is None else f"{kind}@{k}")
            for r in range(1, n + 1):
                names = {"n": Fraction(n), "r": Fraction(r), "k": Fraction(k or n)}
                set_value = metric_.of_set([r], n_items=n)
                yield f"r = {r}, n = {n}, k = {k}", evaluate(published, **names), set_value


@checked("each other")
def equal_metrics(published: str) -> Cases:
    """Two metrics that are one for a single relevant item, as in "rr = ap" or "hit@k = recall@k".

    A first metric without a cut-off may equal a second with the cut-off n.
    """
    first, second = read_list(published, "=")
    for n in range(2, 21):
        for k in range(1, n + 1) if "@k" in published else [n]:
            a, b = (
                metric(side.replace("@k", f"@{k}").replace("@n", f"@{n}"))
                for side in (first, second)
            )
            for r in range(1, n + 1):
                yield f"r = {r}, n = {n}, k = {k}", float(a(r, n)), float(b(r, n))


def equal_metrics_of_sets(published: str) -> Finding:
    """Two metrics, as in "hit@k = recall@k", on every set of up to 6 items; or of one item."""
    first, second = read_list(published, "=")

    def trial(largest: int, setting: str) -> Trial:
        def cases() -> Cases:
            for n, size in product(range(2, 7), range(1, largest + 1)):
                # Fewer than all n items are relevant, or there is no set of this size.
                sets = combinations(range(1, n + 1), size) if size < n else ()
                for ranks, k in product(sets, range(1, n + 1)):
                    a, b = (
                        metric(side.replace("@k", f"@{k}")).of_set(ranks, n_items=n)
                        for side in (first, second)
                    )
                    yield f"ranks {list(ranks)}, k = {k}", a, b

        finding = compared(cases(), "each other")
        return Trial(finding.ours, finding.holds, setting)

    return judge(trial(5, ""), trial(1, "there is one relevant item"))


def rank_ratio(published: str, kind: str) -> Finding:
    """How many times rank 1 is worth rank 2."""
    value = float(metric(kind)(1)) / float(metric(kind)(2))
    return judged(f"{value:.4f}", Printed.parse(published).rounds_from(value))


def equal_steps(published: str, kind: str) -> Finding:
    """Two steps up a ranking of any size that are worth the same, as in "101 -> 100 = 2 -> 1"."""
    steps = [[int(rank) for rank in step.split("->")] for step in published.split("=")]
    for n in range(max(map(max, steps)), 2_000):
        (a, b), (c, d) = ([exact_metric(metric(kind), rank, n) for rank in step] for step in steps)
        if not same(b - a, d - c):
            gains = f"{float(b - a):.4g} and {float(d - c):.4g}"
            return judged(f"gains of {gains} at n = {n}", False)
    return judged("equal, exactly, for every n below 2,000", True)


@checked("the mean over instances")
def mean_over_instances(published: str) -> Cases:
    """Eq. 1: an evaluation reports the average over its instances."""
    for kind in ("auc", "ap", "recall@2", "precision@2"):
        for ranks in combinations_with_replacement(range(1, 7), 3):
            values = [exact_metric(metric(kind), r, 6) for r in ranks]
            package_value = float(metric(kind)(ranks, n_items=6).mean())
            yield f"{kind}, ranks {ranks}", evaluate(published, values=values, D=3), package_value


@checked("the package's verdicts")
def consistency_of_pairs(published: str, kind: str) -> Cases:
    """Eq. 14 says of each pair of recommenders what `expected_differences` says of it.

    The formula is asked of a pair in both orders, as the definition quantifies over all pairs.
    """
    n, m = 5, 2
    lists = list(combinations_with_replacement(range(1, n + 1), 2))
    exact = {ranks: sum(exact_metric(metric(kind), r, n) for r in ranks) for ranks in lists}
    values = [exact_metric(metric(kind), i, m + 1) for i in range(1, m + 2)]
    means = {
        r: sum(p * value for p, value in zip(exact_pmf(n, m, r, True), values, strict=True))
        for r in range(1, n + 1)
    }
    sampled = {ranks: sum(means[r] for r in ranks) for ranks in lists}
    for a, b in combinations(lists, 2):
        verdicts = [
            evaluate(published, exact=exact, expected=sampled, A=x, B=y)
            for x, y in ((a, b), (b, a))
        ]
        holds = expected_differences({"A": a, "B": b}, kind, Protocol(n, m))["consistent"].item()
        yield f"ranks {a} and {b}", int(all(verdicts)), int(holds)


@checked("a count of the n - 1 negatives")
def one_draw(published: str) -> Cases:
    """Eq. 15: the probability that one negative drawn at random is above rank r."""
    for n in range(2, 31):
        for r in range(1, n + 1):
            value = evaluate(published, n=Fraction(n), r=Fraction(r))
            yield f"r = {r}, n = {n}", value, _share_above(n, r)


def _share_above(n: int, r: int) -> Fraction:
    """The share of the negatives that are above rank r, by counting."""
    negatives = [item for item in range(1, n + 1) if item != r]
    return Fraction(sum(item < r for item in negatives), len(negatives))


def one_draw_at(published: str) -> Finding:
    """The probability that a draw is above the item at ranks 1 and n, as in "0, 1"."""
    claimed = [Fraction(part.strip()) for part in published.split(",")]
    for n in range(2, 21):
        shares = [_share_above(n, r) for r in (1, n)]
        if shares != claimed:
            text = f"{shares[0]} at rank 1 and {shares[1]} at rank {n} of {n}"
            return judged(text, False)
    return judged("by counting, for every n up to 20", True)


@cache
def _samples(n: int, m: int, r: int, replacement: bool) -> tuple[int, ...]:
    """The sampled rank in every equally likely sample."""
    return tuple(sampled_rank for (sampled_rank,) in every_sample([r], n, m, replacement))


def _average(value_of: Callable[[int], Any], ranks: Sequence[int]) -> Any:
    """The mean of a value over these sampled ranks, computed once for those that are the same."""
    total = sum(times * value_of(rank) for rank, times in Counter(ranks).items())
    return total / Fraction(len(ranks))


def _package(kind: str, n: int, m: int, r: int, replacement: bool = True) -> float:
    """The package's expectation of a sampled metric."""
    return float(naive(metric(kind), Protocol(n, m, replacement=replacement)).expected(r))


def _small_cases(replacement: bool, first_rank: int = 1) -> Iterator[tuple[int, int, int]]:
    """Every (n, m, r) small enough to enumerate its samples."""
    for n in range(2, 7):
        for m in range(1, 5 if replacement else n):
            for r in range(first_rank, n + 1):
                yield n, m, r


@checked("every sample, and the package")
def sampled_rank_law(published: str, replacement: bool) -> Cases:
    """The probability of i negatives above the item, against every sample and the package."""
    for n, m, r in _small_cases(replacement):
        ranks = _samples(n, m, r, replacement)
        package = Protocol(n, m, replacement=replacement).pmf(r)
        for i in range(m + 1):
            case = f"n = {n}, m = {m}, r = {r}, i = {i}"
            p = Fraction(r - 1, n - 1)
            value = evaluate(published, n=n, m=m, r=r, i=i, p=p)
            yield case, value, Fraction(ranks.count(i + 1), len(ranks))
            yield case, value, float(package[i])


@checked("every sample, and the package")
def mean_sampled_rank(published: str, replacement: bool) -> Cases:
    """The mean of the sampled rank, against the average over every sample and the package."""
    for n, m, r in _small_cases(replacement):
        ranks = _samples(n, m, r, replacement)
        value = evaluate(published, n=Fraction(n), m=m, r=r)
        case = f"n = {n}, m = {m}, r = {r}"
        yield case, value, Fraction(sum(ranks), len(ranks))
        package = Protocol(n, m, replacement=replacement).pmf(r)
        yield case, value, float(package @ np.arange(1, m + 2))


@checked("the average over every sample, and the package")
def expectation(published: str, replacement: bool) -> Cases:
    """Eq. 16: the expectation of a sampled metric, against the average over every sample."""
    for kind in ("auc", "ap", "ndcg", "recall@2", "precision@2"):
        for n, m, r in _small_cases(replacement):
            ranks = _samples(n, m, r, replacement)
            pmf = exact_pmf(n, m, r, replacement)

            def value_of(i: int, kind: str = kind, m: int = m) -> Any:
                return exact_metric(metric(kind), int(i), m + 1)

            def p_of(i: int, pmf: list[Fraction] = pmf) -> Fraction:
                return pmf[int(i) - 1]

            value = evaluate(published, p=p_of, M=value_of, m=m)
            average = _average(value_of, ranks)
            case = f"{kind}, n = {n}, m = {m}, r = {r}"
            yield case, value, average
            yield case, value, _package(kind, n, m, r, replacement)


@checked("every pair of samples")
def mean_of_expectations(published: str) -> Cases:
    """The expected average over instances is the average of the expectations.

    Two instances, sampled independently: every pair of their samples is equally likely.
    """
    n, m = 5, 2
    for kind in ("auc", "ap", "recall@1"):
        for ranks in combinations_with_replacement(range(1, n + 1), 2):
            values = [
                [exact_metric(metric(kind), s, m + 1) for s in _samples(n, m, r, True)]
                for r in ranks
            ]
            pairs = [Fraction(a + b, 2) for a, b in product(*values)]
            means = [sum(v) / len(v) for v in values]
            mean = sum(pairs) / len(pairs)
            yield f"{kind}, ranks {ranks}", evaluate(published, E=means, D=len(ranks)), mean


def expectation_depends_on(published: str) -> Finding:
    """The quantities, as in "r, m, n", that move the expected sampled average precision."""
    base = {"r": 20, "m": 50, "n": 1_000}
    moved = []
    for name in base:
        doubled = base | {name: base[name] * 2}
        a, b = (_package("ap", each["n"], each["m"], each["r"]) for each in (base, doubled))
        if not same(a, b):
            moved.append(name)
    return judged(", ".join(moved), set(read_list(published)) == set(moved))


def expected_metric(
    published: str, kind: str, replacement: bool = True, first_rank: int = 1, large: bool = False
) -> Finding:
    """A closed form of an expected sampled metric, against every sample and the package.

    With `large`, also against the sum of eq. 16 in 50-digit arithmetic at n = 10,000, m = 99.
    """

    def cases() -> Cases:
        cutoffs = range(1, 5) if kind in ("recall", "precision") else [None]
        for k in cutoffs:
            name = kind if k is None else f"{kind}@{k}"
            for n, m, r in _small_cases(replacement, first_rank):
                pmf = exact_pmf(n, m, r, replacement)
                names = _names(n, m, r, k)
                value = evaluate(published, cdf=lambda i, pmf=pmf: sum(pmf[: int(i) + 1]), **names)
                ranks = _samples(n, m, r, replacement)
                average = _average(partial(exact_metric, metric(name), n_items=m + 1), ranks)
                case = f"n = {n}, m = {m}, r = {r}" + (f", k = {k}" if k else "")
                yield case, value, average
                yield case, value, _package(name, n, m, r, replacement)
        if large:
            yield from _digits_cases(published, replacement)

    against = "every sample, and the package" + (", and 50 digits at n = 10,000" if large else "")
    return compared(cases(), against, _how_far_off(published) if kind == "ap" else "")


def _how_far_off(published: str) -> str:
    """By how much a form of expected AP is off at the size of the papers' example."""
    n, m, r = 10_000, 99, 100
    value = float(evaluate(published, **_names(n, m, r, None)))
    off = value / _package("ap", n, m, r) - 1
    return f"At n = 10,000, m = 99, r = 100 the formula is off by {off:+.1g} of the value."


def _names(n: int, m: int, r: int, k: int | None) -> dict[str, Any]:
    """The names that closed forms may use, as rationals."""
    return {
        "n": Fraction(n),
        "m": m,
        "r": Fraction(r),
        "k": k,
        "p": Fraction(r - 1, n - 1),
        "auc": Fraction(n - r, n - 1),
    }


def _digits_cases(published: str, replacement: bool) -> Cases:
    """Expected AP at n = 10,000 and m = 99: the formula and the sum of eq. 16 in 50 digits."""
    n, m = 10_000, 99
    with mp.workdps(DIGITS):
        for r in (2, 100, 5_000, 10_000):
            terms = (digits_pmf(n, m, r, replacement, x) / (x + 1) for x in range(m + 1))
            total = mp.fsum(terms)
            p, auc = mp.mpf(r - 1) / (n - 1), mp.mpf(n - r) / (n - 1)
            value = evaluate(published, n=mp.mpf(n), m=m, r=mp.mpf(r), p=p, auc=auc)
            if abs(value / total - 1) > mp.mpf(10) ** -40:
                yield f"n = {n}, m = {m}, r = {r}, 50 digits", value, total
            package = _package("ap", n, m, r, replacement)
            yield f"n = {n}, m = {m}, r = {r}", float(value), package


def constant_at_first_rank(published: str) -> Finding:
    """The sampled AP of an item at rank 1 is the same in every sample."""
    cases = [(n, m, w) for w in (True, False) for n, m, r in _small_cases(w) if r == 1]
    values = {Fraction(1, rank) for n, m, w in cases for rank in _samples(n, m, 1, w)}
    shown = ", ".join(map(str, sorted(values)))
    return judged(f"{shown} in every sample", values == {Fraction(published)})


def unbiased_auc(published: str, law: str) -> Finding:
    """The expected sampled AUC is the exact one under a law of the sampled rank.

    `law` is "binomial", "hypergeometric", or "two-point": all or none of the negatives above
    the item, a law with the same mean and no other likeness.
    """

    def law_of(n: int, m: int, r: int) -> list[Fraction]:
        if law == "two-point":
            p = Fraction(r - 1, n - 1)
            return [1 - p, *[Fraction(0)] * (m - 1), p]
        return exact_pmf(n, m, r, {"binomial": True, "hypergeometric": False}[law])

    def cases() -> Cases:
        for n in range(2, 13):
            for m in range(1, n):
                for r in range(1, n + 1):
                    value = evaluate(published, n=Fraction(n), r=r)
                    terms = enumerate(law_of(n, m, r))
                    mean = sum(p * Fraction(m - i, m) for i, p in terms)
                    yield f"n = {n}, m = {m}, r = {r}", value, mean

    return compared(cases(), f"the sum over the {law} law")


def proportional_when_auc_power_small(published: str) -> Finding:
    """Where AUC^(m+1) is near 0, expected sampled AP is near a constant times the printed form."""
    n, worst = 10_000, 0.0
    for m in (99, 999):
        ranks = np.array([r for r in range(2, n + 1, 7) if ((n - r) / (n - 1)) ** (m + 1) < 1e-3])
        expected = naive(metric("ap"), Protocol(n, m)).expected(ranks)
        form = np.array([float(evaluate(published, r=Fraction(int(r)))) for r in ranks])
        constant = (n - 1) / (m + 1)
        worst = max(worst, float(np.abs(expected / (form * constant) - 1).max()))
    return judged(f"within {worst:.1e} of it where AUC^(m+1) < 0.001", worst < 1.1e-3)


def samples_until_small(published: str, n_items: int = 10_000) -> Finding:
    """Negatives it takes until AUC^(m+1) < 0.01, for an item in the top so many ranks."""
    rank = int(published)
    needed = int(np.ceil(np.log(0.01) / np.log1p(-(rank - 1) / (n_items - 1)))) - 1
    top = int(np.ceil(np.log(0.01) / np.log1p(-9 / (n_items - 1)))) - 1
    text = (
        f"m = {needed:,} at rank {rank} and {top:,} at rank 10 of {n_items:,}, to fall below 0.01"
    )
    return judged(text, needed > 200)  # 200: the largest sample the paper finds in use


@checked("every sample, and the package")
def one_negative(published: str) -> Cases:
    """With one negative every metric's expectation is this function, linear in the rank."""
    for kind in (*TOP_AWARE, "recall@2", "precision@5"):
        for n in range(2, 8):
            for r in range(1, n + 1):

                def M(rank: int, kind: str = kind) -> Any:
                    return exact_metric(metric(kind), rank, 2)

                value = evaluate(published, n=Fraction(n), r=Fraction(r), M=M)
                for replacement in (True, False):
                    ranks = _samples(n, 1, r, replacement)
                    yield f"{kind}, n = {n}, r = {r}", value, _average(M, ranks)
                    yield f"{kind}, n = {n}, r = {r}", value, _package(kind, n, 1, r, replacement)


def same_law_with_and_without(published: str) -> Finding:
    """Number of negatives at which the two laws are one for every catalogue and rank."""
    m = int(published)
    for n in range(m + 1, 31):
        for r in range(1, n + 1):
            if exact_pmf(n, m, r, True) != exact_pmf(n, m, r, False):
                return judged(f"m = {m}: the laws differ at n = {n}, r = {r}", False)
    return judged("one law for every n up to 30 and every rank", True)


def constant_with_one_negative(published: str) -> Finding:
    """Metrics, as in "recall, precision" at cut-offs from 2 on, whose sampled value never moves."""
    for kind in read_list(published):
        for k in range(2, 8) if kind in ("recall", "precision") else [None]:
            ours = metric(kind if k is None else f"{kind}@{k}")
            values = naive(ours, Protocol(1_000, 1)).values
            if values[0] != values[1]:
                text = f"{ours.label} is {values[0]:.3g} at sampled rank 1, {values[1]:.3g} at 2"
                return judged(text, False)
    return judged("one value at both sampled ranks, for k = 2 to 7", True)


def prefers_first_position(published: str) -> Finding:
    """The sign, "<" or ">", of M(2) against M(1) for every metric that tells the two apart."""
    compare: dict[str, Callable[[float, float], bool]] = {"<": float.__lt__, ">": float.__gt__}
    sign = published.replace("M(2)", "").replace("M(1)", "").strip()
    wrong = [
        kind
        for kind in TOP_AWARE
        if not compare[sign](float(metric(kind)(2, 2)), float(metric(kind)(1, 2)))
    ]
    text = f"holds for {len(TOP_AWARE) - len(wrong)} of {len(TOP_AWARE)} metrics"
    return judged(text, not wrong)


def verdicts_agree(published: str, m: int = 1) -> Finding:
    """With m negatives every sensible metric orders any two recommenders as exact AUC does."""
    n, reference = 6, metric(published)
    lists = np.array(list(combinations_with_replacement(range(1, n + 1), 3)))
    exact = reference(lists, n).sum(axis=1).round(9)
    pairs = np.sign(exact[:, None] - exact)
    for kind in TOP_AWARE:
        mean = naive(metric(kind), Protocol(n, m)).expected(lists).sum(axis=1).round(9)
        differ = np.argwhere(np.sign(mean[:, None] - mean) != pairs)
        if differ.size:
            a, b = (tuple(lists[i].tolist()) for i in differ[0])
            text = f"{metric(kind).label} and {reference.label} order ranks {a} and {b} differently"
            return judged(f"{text} at m = {m}", False)
    return judged(f"{len(TOP_AWARE)} metrics agree on all {exact.size**2:,} pairs at n = {n}", True)


def metrics_draw_together(published: str) -> Finding:
    """The smaller the sample, the smaller the largest gap between rescaled expected metrics.

    The expected AUC, AP and NDCG are rescaled to run from 1 at the first rank to 0 at the last.
    """
    sizes = [int(part) for part in published.split(",")]
    n = 10_000
    ranks = np.unique(np.geomspace(1, n, 400).astype(int))
    gaps = []
    for m in sizes:
        curves = [
            naive(metric(kind), Protocol(n, m)).expected(ranks) for kind in ("auc", "ap", "ndcg")
        ]
        curves = [(curve - curve[-1]) / (curve[0] - curve[-1]) for curve in curves]
        gaps.append(max(float(np.abs(a - b).max()) for a, b in combinations(curves, 2)))
    text = ", ".join(f"{gap:.3f} at m = {m}" for gap, m in zip(gaps, sizes, strict=True))
    falls = all(b < a or (a == b == 0) for a, b in pairwise(gaps))
    return judged(f"largest gap {text}", falls)


@checked("every outcome")
def any_distribution(published: str, kind: str) -> Cases:
    """Eq. 18 where negatives have weights of their own, and where the ranks have any law at all."""

    def laws() -> Iterator[tuple[str, list[Fraction]]]:
        for n, m in ((5, 2), (5, 3), (6, 3)):
            weights = [Fraction(i * i + 1) for i in range(n - 1)]  # a draw of item i, by weight
            for r in range(1, n + 1):
                yield f"weighted draws, n = {n}, m = {m}, r = {r}", _weighted_law(weights, m, r)
        for parts in combinations_with_replacement(range(4), 4):
            if sum(parts):
                yield f"law {parts}", [Fraction(part, sum(parts)) for part in parts]

    for case, pmf in laws():
        for k in range(1, len(pmf) + 1):
            value = evaluate(
                published, k=Fraction(k), cdf=lambda i, pmf=pmf: sum(pmf[: int(i) + 1], Fraction(0))
            )
            metric_ = metric(f"{kind}@{k}")
            total = sum(
                (p * exact_metric(metric_, i, len(pmf)) for i, p in enumerate(pmf, 1)), Fraction(0)
            )
            yield f"{case}, k = {k}", value, total


def _weighted_law(weights: list[Fraction], m: int, r: int) -> list[Fraction]:
    """The law of the sampled rank where each negative is drawn by weight, with replacement.

    The first r - 1 of the negatives are above the item.
    """
    pmf, total = [Fraction(0)] * (m + 1), sum(weights)
    for drawn in product(range(len(weights)), repeat=m):
        chance = Fraction(1)
        for item in drawn:
            chance *= weights[item] / total
        pmf[sum(item < r - 1 for item in drawn)] += chance
    return pmf


def _recall_by_rank(n: int, m: int, k: int, replacement: bool) -> list[Fraction]:
    """Expected sampled Recall@k at every true rank."""
    return [sum(exact_pmf(n, m, r, replacement)[:k], Fraction(0)) for r in range(1, n + 1)]


def _is_linear(values: list[Fraction]) -> bool:
    return not any(a - 2 * b + c for a, b, c in zip(values, values[1:], values[2:], strict=False))


def cdf_argument(published: str, n: int = 8) -> Finding:
    """What a cut-off metric is, as in "inconsistent", if its expectation is not linear in the rank.

    It is consistent where its expectation rises with the metric and depends on nothing else.
    """

    def verdict(values: list[Fraction], k: int) -> str:
        high, low = set(values[:k]), set(values[k:])
        same = len(high) == len(low) == 1 and min(high) > max(low)
        return "consistent" if same else "inconsistent"

    def trial(largest: int, setting: str) -> Trial:
        counts: dict[str, int] = {}
        for replacement, m in product((True, False), range(1, largest + 1)):
            for k in range(1, min(m + 1, n)):
                values = _recall_by_rank(n, m, k, replacement)
                if not _is_linear(values):
                    name = verdict(values, k)
                    counts[name] = counts.get(name, 0) + 1
        text = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        return Trial(f"of those not linear at n = {n}: {text}", set(counts) == {published}, setting)

    return judge(
        trial(n - 1, ""),
        trial(n - 2, "the sample leaves out some of the items"),
        note="With all items, drawn without replacement, the metric is the exact one, whose "
        "expectation is not linear in the rank either.",
    )


def cdf_linear(published: str) -> Finding:
    """Whether the expectation of a cut-off metric is "linear" in the rank or "not linear"."""
    n, linear = 12, []
    for m in range(1, n):
        for k in range(1, m + 2):
            if _is_linear(_recall_by_rank(n, m, k, True)):
                linear.append((m, k))
    small = [(m, k) for m, k in linear if m >= 2 and k <= m]
    return judge(
        Trial(
            "linear at m = k = 1, and constant where k > m",
            published == "not linear" and not linear,
        ),
        Trial(
            "linear nowhere else, for n = 12 and every m",
            published == "not linear" and not small,
            "at least two negatives, and a cut-off no larger than their number",
        ),
    )


def graded_reversal(published: str, n: int, m: int) -> Finding:
    """Sampling reverses the order of two rankings on NDCG with these gains, as in "3, 1"."""
    gains = [int(part) for part in published.split(",")]
    ideal = sum(gain / np.log2(i + 2) for i, gain in enumerate(sorted(gains, reverse=True)))
    pool = n - len(gains)

    def exact(ranks: tuple[int, ...]) -> float:
        return float(sum(g / np.log2(r + 1) for g, r in zip(gains, ranks, strict=True)) / ideal)

    def expected(ranks: tuple[int, ...]) -> float:
        negatives = [r for r in range(1, n + 1) if r not in ranks]
        sampled_values = []
        for drawn in combinations(negatives, m):
            ordered = sorted((*ranks, *drawn))
            sampled_values.append(exact(tuple(ordered.index(r) + 1 for r in ranks)))
        return float(np.mean(sampled_values))

    places = list(permutations(range(1, n + 1), len(gains)))
    values = {ranks: (exact(ranks), expected(ranks)) for ranks in places}
    for a, b in product(places, places):
        (x, y), (u, v) = values[a], values[b]
        if x > u + 1e-9 and y < v - 1e-9:
            text = f"ranks {a} {x:.3f}, {b} {u:.3f}; expected with {m} of {pool} {y:.3f}, {v:.3f}"
            return judged(text, True)
    return judged(f"no two rankings of {n} are reversed with {m} of {pool}", False)

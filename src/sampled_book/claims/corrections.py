"""Checks of section 5, on corrections: its formulas (eqs 20-26), figure 4 and its statements.

The formulas are held against rational arithmetic and the package on all small cases.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import floor
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from scipy.optimize import isotonic_regression, lsq_linear

from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.estimators import Estimator
from sampled_metrics.relevant_sets import RelevantSets

from ..reference.enumeration import DIGITS, exact_pmf
from .algebra import Cases, checked, compared, evaluate, exact_metric
from .finding import Finding, Printed, Trial, by_metric, judge, judged, listed, read_list

#: Metrics whose values are rational.
KINDS = ("auc", "ap", "recall@2")
#: Methods of Table 3 and figure 4, as functions of a metric and a protocol.
METHODS: dict[str, Callable[..., Estimator]] = {
    "uncorrected": estimators.naive,
    "rank estimate": estimators.rank_estimate,
    "CLS": estimators.monotone,
    **{
        f"BV {gamma:g}": lambda of, protocol, gamma=gamma: estimators.bias_variance(
            of, protocol, gamma
        )
        for gamma in (1.0, 0.1, 0.01, 0.001)
    },
}


@cache
def _law(n_items: int, m: int) -> np.ndarray:
    """The binomial distribution of the sampled rank at every true rank."""
    return Protocol(n_items, m).pmf(np.arange(1, n_items + 1))


def _bias(method: str | Callable[..., Estimator], kind: str, n_items: int, m: int) -> np.ndarray:
    """Exact bias of a method at every rank."""
    metric_ = metric(kind)
    build = METHODS[method] if isinstance(method, str) else method
    return _law(n_items, m) @ build(metric_, Protocol(n_items, m)).values - metric_.vector(n_items)


# --- section 5.1 ----------------------------------------------------------------------------------


def _sizes(largest: int = 7) -> Iterator[tuple[int, int, bool]]:
    """Every n up to the largest, m below it, with and without replacement."""
    for n in range(2, largest + 1):
        for m in range(1, n):
            for replacement in (True, False):
                yield n, m, replacement


def unbiased_estimate(published: str, of: str) -> Finding:
    """The expectation of a function of the sampled rank s is p or r, under both laws."""

    def cases() -> Cases:
        for n, m, replacement in _sizes(9):
            for r in range(1, n + 1):
                pmf = exact_pmf(n, m, r, replacement)
                mean = sum(
                    prob * evaluate(published, s=x + 1, n=n, m=Fraction(m))
                    for x, prob in enumerate(pmf)
                )
                estimand = {"p": Fraction(r - 1, n - 1), "r": Fraction(r)}[of]
                yield f"n = {n}, m = {m}, r = {r}", mean, estimand

    return compared(cases(), f"{of}, on average over every sample")


@checked("every sampled rank")
def range_of_rank_estimate(published: str) -> Cases:
    """The lowest and the highest rank estimate, as in "1, n"."""
    formula = "1 + (n - 1) * (s - 1) / m"
    for n, m, _ in _sizes(9):
        estimates = [evaluate(formula, s=s, n=n, m=Fraction(m)) for s in range(1, m + 2)]
        for part, end in zip(published.split(","), (min(estimates), max(estimates)), strict=True):
            yield f"n = {n}, m = {m}", evaluate(part.strip(), n=n, m=m), end


@checked("the package")
def rank_estimate(published: str, rounding: str) -> Cases:
    """Eq. 20: the metric at the estimated rank, against the package."""
    for n, m, replacement in _sizes():
        for kind in KINDS:
            protocol = Protocol(n, m, replacement=replacement)
            ours = estimators.rank_estimate(metric(kind), protocol, rounding)

            def value(rank: Fraction, kind: str = kind, n: int = n) -> Any:
                low = floor(rank)
                high = min(low + 1, n)
                at_low, at_high = (exact_metric(metric(kind), r, n) for r in (low, high))
                share = rank - low if rounding == "linear" else 0
                return at_low + share * (at_high - at_low)

            for s in range(1, m + 2):
                case = f"{kind}, n = {n}, m = {m}, s = {s}"
                printed = evaluate(published, M=value, n=n, m=Fraction(m), s=s)
                yield case, printed, float(ours.values[s - 1])


def biased_by_rank_estimate(published: str) -> Finding:
    """The metrics of "auc, ap, ndcg, recall@2" whose rank estimate is biased at some rank.

    With n - 1 a multiple of m, so that nothing is rounded.
    """
    n, m = 13, 4
    worst = {
        kind: float(np.abs(METHODS["rank estimate"](metric(kind), Protocol(n, m)).bias(r)).max())
        for kind in ("auc", "ap", "ndcg", "recall@2")
        for r in [np.arange(1, n + 1)]
    }
    text = by_metric(worst, ".2g")
    biased = {kind for kind, bias in worst.items() if bias > 1e-9}
    named = set(read_list(published))
    return judged(f"largest bias at n = {n}, m = {m}: {text}", biased == named)


# --- eqs 21 to 26 ---------------------------------------------------------------------------------


class Problem(NamedTuple):
    """A small case of eq. 21: what to estimate, from which law, with which prior."""

    kind: str
    n: int
    m: int
    replacement: bool
    law: list[list[Fraction]]
    prior: list[Fraction]
    target: list[Any]

    @property
    def where(self) -> str:
        """A description of the case."""
        preposition = "with" if self.replacement else "without"
        prior = "a uniform" if len(set(self.prior)) == 1 else "another"
        return f"{self.kind}, n = {self.n}, m = {self.m}, {preposition} replacement, {prior} prior"

    def names(self, values: Any = None) -> dict[str, Any]:
        """The names that formulas may use; `values` are those of M-hat."""
        names: dict[str, Any] = {
            "ranks": range(1, self.n + 1),
            "sampled": range(1, self.m + 2),
            "p": lambda r: self.prior[r - 1],
            "P": lambda r, s: self.law[r - 1][s - 1],
            "M": lambda r: self.target[r - 1],
            "sqrt": lambda x: mp.sqrt(mp.mpf(x.numerator) / x.denominator),
        }
        if values is not None:

            def expected(r: int) -> Any:
                return sum(p * v for p, v in zip(self.law[r - 1], values, strict=True))

            def variance(r: int) -> Any:
                squares = sum(p * v**2 for p, v in zip(self.law[r - 1], values, strict=True))
                return squares - expected(r) ** 2

            names |= {"Mhat": lambda s: values[s - 1], "E": expected, "Var": variance}
        return names

    def package(self, gamma: Any) -> np.ndarray:
        """The values of the package's estimator."""
        protocol = Protocol(self.n, self.m, replacement=self.replacement)
        return _solution(self.kind, protocol, float(gamma), tuple(map(float, self.prior)))


@cache
def _solution(kind: str, protocol: Protocol, gamma: float, prior: tuple[float, ...]) -> np.ndarray:
    prior_pmf = np.array(prior) / sum(prior)
    return estimators.bias_variance(metric(kind), protocol, gamma, prior_pmf).values


@cache
def _problems() -> tuple[Problem, ...]:
    """Every n up to 5, m up to 3, both laws, and two priors."""
    return tuple(_each_problem())


def _each_problem() -> Iterator[Problem]:
    for n, m, replacement in _sizes(5):
        if m > 3:
            continue
        pmfs = [exact_pmf(n, m, r, replacement) for r in range(1, n + 1)]
        for weights in ([1] * n, list(range(n, 0, -1))):
            prior = [Fraction(w, sum(weights)) for w in weights]
            for kind in KINDS:
                exact_values = [exact_metric(metric(kind), r, n) for r in range(1, n + 1)]
                yield Problem(kind, n, m, replacement, pmfs, prior, exact_values)


@checked("the package's minimum", digits=9)
def objective(published: str, gamma: str = "0") -> Cases:
    """Eqs 21 and 24: the package's vector is where no step up or down lowers what is printed.

    A quadratic that is convex has its minimum where it changes alike both ways.
    """
    weight = Fraction(gamma)
    for problem in _problems():
        values = [Fraction(float(v)) for v in problem.package(weight)]
        objectives = []
        for s, sign in ((s, sign) for s in range(problem.m + 1) for sign in (1, -1)):
            moved = [v + sign * (i == s) for i, v in enumerate(values)]
            objectives.append(evaluate(published, **problem.names(moved), gamma=weight))
        for s, (raised, lowered) in enumerate(zip(objectives[::2], objectives[1::2], strict=True)):
            yield f"{problem.where}, value {s + 1}", float(raised), float(lowered)


#: Eqs 22, 23 and 25 as printed; a claim puts its own formula in the place of one of them.
PARTS = {
    "A": "sqrt(p(r)) * P(r, s)",
    "b": "sqrt(p(r)) * M(r)",
    "c": "sum(p(r) * P(r, s) for r in ranks)",
    "solution": "((1 - gamma) * A.T * A + gamma * diag(c))**-1 * A.T * b",
}


@checked("the package", digits=8)
def least_squares(published: str, part: str, gamma: str = "0") -> Cases:
    """Eqs 22, 23 and 25: the printed solution, in 50 digits, against the package's."""
    formulas = PARTS | {part: published}
    with mp.workdps(DIGITS):
        weight = mp.mpf(gamma)
        for problem in _problems():
            names, n, m = problem.names(), problem.n, problem.m

            def entry(name: str, r: int = 1, s: int = 1, names: Any = names) -> mp.mpf:
                value = evaluate(formulas[name], **names, r=r, s=s)
                if isinstance(value, Fraction):
                    return mp.mpf(value.numerator) / value.denominator
                return mp.mpf(value)

            a = mp.matrix(n, m + 1)
            for r, s in ((r, s) for r in range(1, n + 1) for s in range(1, m + 2)):
                a[r - 1, s - 1] = entry("A", r, s)
            b = mp.matrix([entry("b", r) for r in range(1, n + 1)])
            c = [entry("c", s=s) for s in range(1, m + 2)]
            solution = evaluate(formulas["solution"], A=a, b=b, c=c, diag=mp.diag, gamma=weight)
            for s, ours in enumerate(problem.package(weight)):
                yield f"{problem.where}, value {s + 1}", float(solution[s]), float(ours)


@checked("the package")
def posterior_mean(published: str) -> Cases:
    """Eq. 26: a form of the values at gamma = 1, against the package's."""
    for problem in _problems():

        def posterior(r: int, s: int, case: Problem = problem) -> Fraction:
            joint = [p * pmf[s - 1] for p, pmf in zip(case.prior, case.law, strict=True)]
            return joint[r - 1] / sum(joint)

        for s, ours in enumerate(problem.package(1), start=1):
            names = problem.names() | {"posterior": posterior, "s": s}
            yield f"{problem.where}, value {s}", evaluate(published, **names), float(ours)


@checked("the other objective")
def objective_at(published: str, gamma: str, other: str) -> Cases:
    """Eq. 24 at a gamma is another objective, for any vector."""
    for problem in _problems():
        values = [Fraction((7 * i * i) % 5 - 2, i + 1) for i in range(problem.m + 1)]
        names = problem.names(values) | {"gamma": Fraction(gamma)}
        yield problem.where, evaluate(published, **names), evaluate(other, **names)


def determined(published: str, n_items: int = 12) -> Finding:
    """Whether eq. 21's problem with m + 1 < n is "under-determined" or "over-determined"."""
    verdicts = set()
    for m in range(1, n_items - 1):
        pmfs = [exact_pmf(n_items, m, r, True) for r in range(1, n_items + 1)]
        unknowns, equations = m + 1, n_items
        independent = _rank(pmfs)
        if independent == unknowns < equations:
            verdicts.add("over-determined")
        elif independent < unknowns:
            verdicts.add("under-determined")
        else:
            verdicts.add("determined")
    text = (
        f"{' or '.join(sorted(verdicts))} at n = {n_items}: n equations, m + 1 unknowns, and one "
        "vector of least error, for every m < n - 1"
    )
    note = "What the paper concludes holds: in general no estimator is unbiased at every rank."
    return judged(text, verdicts == {published}, note=note)


def _rank(rows: list[list[Fraction]]) -> int:
    """Rank of a rational matrix, by elimination."""
    matrix, rank = [row[:] for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            continue
        matrix[rank], matrix[pivot] = matrix[pivot], matrix[rank]
        for i in range(rank + 1, len(matrix)):
            factor = matrix[i][column] / matrix[rank][column]
            matrix[i] = [a - factor * b for a, b in zip(matrix[i], matrix[rank], strict=True)]
        rank += 1
    return rank


def unbiased_with(published: str, kinds: list[str], largest: int = 7) -> Finding:
    """The numbers of negatives, "n - 1" or "1", from which each of these metrics can be unbiased.

    It can where M adds nothing to the column space of the law: exact rational ranks.
    """
    smallest_by_kind = {}
    for kind in kinds:
        smallest = set()
        for n in range(3, largest + 1):
            exact_values = [exact_metric(metric(kind), r, n) for r in range(1, n + 1)]
            for replacement in (True, False):
                for m in range(1, n):
                    pmfs = [exact_pmf(n, m, r, replacement) for r in range(1, n + 1)]
                    augmented = [
                        [*row, value] for row, value in zip(pmfs, exact_values, strict=True)
                    ]
                    if _rank(augmented) == _rank(pmfs):
                        smallest.add(m - (n - 1) if published == "n - 1" else m)
                        break
        smallest_by_kind[kind] = smallest
    claimed = {"n - 1": {0}, "1": {1}}[published]
    text = ", ".join(
        f"{metric(kind).label} {'from' if smallest == claimed else 'not only from'} m = {published}"
        for kind, smallest in smallest_by_kind.items()
    )
    return judged(
        f"{text}, for every n to {largest}", all(v == claimed for v in smallest_by_kind.values())
    )


def affine_with_one_negative(published: str) -> Finding:
    """With one negative every correction's expectation is a straight line in the rank, as AUC's."""
    n = 40
    ranks = np.arange(1, n + 1)
    metric_values = metric(published)(ranks, n)
    for name, method in METHODS.items():
        for kind in ("auc", "ap", "ndcg", "recall@5"):
            curve = method(metric(kind), Protocol(n, 1)).expected(ranks)
            fit = np.polyval(np.polyfit(metric_values, curve, 1), metric_values)
            if np.abs(fit - curve).max() > 1e-10:
                bend = np.abs(fit - curve).max()
                text = f"{name} of {metric(kind).label} is {bend:.2g} off a function of it"
                return judged(text, False)
    return judged(f"{len(METHODS)} methods, 4 metrics, at n = {n}", True)


# --- the monotone constraint ----------------------------------------------------------------------

N_ITEMS, N_NEGATIVES = 3_541, 100  # of Table 3


def monotone_constraint(published: str) -> Finding:
    """The printed constraint, on the least-bias vectors that do not rise with the sampled rank."""
    falls = []
    for kind in ("ap", "ndcg@10", "recall@10"):
        values = METHODS["CLS"](metric(kind), Protocol(N_ITEMS, N_NEGATIVES)).values
        held = (
            evaluate(published, Mhat=lambda i, v=values: v[i - 1], s=s)
            for s in range(1, N_NEGATIVES + 1)
        )
        falls.append(sum(not h for h in held))
    if max(falls) == 0:
        return judged("it holds for every step", True)
    pmfs, exact = _law(N_ITEMS, 10), metric("ap").vector(N_ITEMS)
    # A vector that never falls is a first value and steps up.
    steps = np.cumsum(pmfs[:, ::-1], axis=1)[:, ::-1]
    coefficients = lsq_linear(
        steps, exact, (np.append(-np.inf, np.zeros(10)), np.inf), method="bvls"
    ).x
    values = np.cumsum(coefficients)
    note = (
        "For AP with 10 negatives the least-bias vector under the constraint as printed goes from "
        f"{values[0]:.5f} to {values[-1]:.5f}; the mean of AP is {exact.mean():.5f}. Section 6.3 "
        "has the sign the other way round, which is right."
    )
    text = f"it fails where values fall, at {min(falls)} to {max(falls)} of {N_NEGATIVES} steps"
    return judged(text, False, note=note)


def isotonic(published: str, m: int = 10) -> Finding:
    """Whether the isotonic regression of the least-bias vector is the constrained solution."""
    metric_, protocol = metric("ap"), Protocol(N_ITEMS, m)
    ranks = np.arange(1, N_ITEMS + 1)
    constrained = METHODS["CLS"](metric_, protocol)
    free = estimators.least_bias(metric_, protocol)
    weights = protocol.pmf(ranks).mean(axis=0)
    fitted = isotonic_regression(free.values, weights=weights, increasing=False).x
    errors = [
        float(np.sqrt((estimator.bias(ranks) ** 2).mean()))
        for estimator in (constrained, Estimator(metric_, protocol, fitted))
    ]
    text = (
        f"root mean square bias of AP {errors[0]:.4f} for the constrained solution, "
        f"{errors[1]:.4f} for the isotonic regression of the free one, at m = {m}"
    )
    is_solution = bool(np.allclose(constrained.values, fitted, rtol=1e-6))
    note = (
        "Isotonic regression fits each value to its own observation; here the distribution of the "
        "sampled rank mixes the values. Least squares under the constraint is what is meant and "
        "what gives the column CLS of Table 3."
    )
    return judged(text, is_solution == (published == "isotonic regression"), note=note)


# --- sections 5.3 to 5.5 --------------------------------------------------------------------------


def high_variance(published: str, m: int, kinds: list[str]) -> Finding:
    """How the variance of least bias compares with the uncorrected metric's, over all ranks."""
    ranks = np.arange(1, N_ITEMS + 1)
    ratios = {}
    for kind in kinds:
        protocol = Protocol(N_ITEMS, m)
        free, plain = (
            np.sqrt(build(metric(kind), protocol).variance(ranks).mean())
            for build in (estimators.least_bias, estimators.naive)
        )
        ratios[kind] = float(free / plain)
    text = by_metric(ratios, ",.0f")
    verdict = "high" if min(ratios.values()) > 10 else "low"
    return judged(
        f"times the uncorrected standard deviation, m = {m}: {text}", verdict == published
    )


def criterion_improved(published: str, m: int, kinds: list[str]) -> Finding:
    """The criteria, of "bias, mean squared error", that a correction brings down over all ranks."""
    ranks = np.arange(1, N_ITEMS + 1)
    improved, shown = [], []
    for name, gamma, variance in (
        ("bias", 0.0, None),
        ("mean squared error", 1.0, Estimator.variance),
    ):
        ratios = []
        for kind in kinds:
            protocol = Protocol(N_ITEMS, m)
            correction = estimators.bias_variance(metric(kind), protocol, gamma)
            plain = estimators.naive(metric(kind), protocol)
            errors = [
                (
                    estimator.bias(ranks) ** 2 + (variance(estimator, ranks) if variance else 0.0)
                ).mean()
                for estimator in (correction, plain)
            ]
            ratios.append(float(errors[0] / errors[1]))
        shown.append(f"{name if variance else 'squared bias'} {max(ratios):.2%}")
        if max(ratios) < 1:
            improved.append(name)
    text = f"at most, of the uncorrected one, m = {m}: {', '.join(shown)}"
    return judged(text, improved == read_list(published))


def rate(published: str, m: int, n_items: int) -> Finding:
    """The sampling rate m / n in percent."""
    percent = 100 * m / n_items
    return judged(f"{percent:g}%", Printed.parse(published).rounds_from(percent))


FIGURE_4 = (10_000, 100)  # n and m


def _turns_of(names: Iterable[str]) -> dict[str, int]:
    """Number of turning points of the values of figure 4."""
    turns = {}
    for name in names:
        steps = np.diff(METHODS[name](metric("ap"), Protocol(*FIGURE_4)).values)
        signs = np.sign(steps[np.abs(steps) > 1e-9])
        turns[name] = int((np.diff(signs) != 0).sum())
    return turns


def oscillates(published: str) -> Finding:
    """With "lower" gamma the values of figure 4 turn more often; with the constraint never."""
    turns = _turns_of(METHODS)
    gamma_turns = [count for name, count in turns.items() if name.startswith("BV")]
    text = listed(turns)
    direction = (
        "lower" if all(a < b for a, b in pairwise(gamma_turns)) and not turns["CLS"] else "other"
    )
    return judged(f"turns: {text}", direction == published)


def in_aggregate(published: str) -> Finding:
    """Over all ranks of figure 4, the gammas that oscillate have the smaller squared bias."""
    names = [name for name in METHODS if name.startswith("BV") or name == "CLS"]
    turns = _turns_of(names)
    errors = {name: float(np.sqrt((_bias(name, "ap", *FIGURE_4) ** 2).mean())) for name in names}
    calm = min(errors[name] for name in names if turns[name] == 0)
    wild = max(errors[name] for name in names if turns[name] > 0)
    text = listed(errors, ".4f")
    return judged(f"root mean square bias {text}", (wild < calm) == (published == "no problem"))


def closer_in_expectation(published: str) -> Finding:
    """Corrections of figure 4 that are closer to the metric: at every rank, or else on average."""
    ranks = np.arange(1, FIGURE_4[0] + 1)
    bias_by_method = {name: np.abs(_bias(name, "ap", *FIGURE_4)) for name in METHODS}
    plain = bias_by_method.pop("uncorrected")
    farther = {name: ranks[biases > plain + 1e-12] for name, biases in bias_by_method.items()}
    text = "; ".join(
        f"{name} at rank {', '.join(map(str, farther_ranks[:3]))}"
        + (" and more" if farther_ranks.size > 3 else "")
        for name, farther_ranks in farther.items()
        if farther_ranks.size
    )
    means = ", ".join(
        f"{name} {np.sqrt((biases**2).mean()):.4f}" for name, biases in bias_by_method.items()
    )
    closer = all((biases**2).mean() < (plain**2).mean() for biases in bias_by_method.values())
    return judge(
        Trial(f"farther: {text or 'none'}", not text and published == "all"),
        Trial(
            f"root mean square bias {means}, uncorrected {np.sqrt((plain**2).mean()):.4f}",
            closer and published == "all",
            "bias is averaged over the ranks",
        ),
    )


def bias_with_samples(published: str, kinds: list[str], sizes: list[int]) -> Finding:
    """How the mean squared bias of every correction changes with more negatives."""
    corrections = [name for name in METHODS if name != "uncorrected"]
    errors = np.array(
        [
            [[(_bias(correction, kind, N_ITEMS, m) ** 2).mean() for m in sizes] for kind in kinds]
            for correction in corrections
        ]
    )
    verdict = "reduces" if (np.diff(errors, axis=-1) < 0).all() else "does not reduce"
    falls = (errors[..., -1] / errors[..., 0]).min(), (errors[..., -1] / errors[..., 0]).max()
    text = (
        f"from m = {sizes[0]} to {sizes[-1]:,} squared bias falls to between {falls[0]:.1%} and "
        f"{falls[1]:.1%}"
    )
    return judged(text, verdict == published)


def least_bias_with_samples(published: str, kinds: list[str], sizes: list[int]) -> Finding:
    """How the value of eq. 21 at its solution changes with more negatives."""
    errors = np.array(
        [
            [(_bias(estimators.least_bias, kind, N_ITEMS, m) ** 2).mean() for m in sizes]
            for kind in kinds
        ]
    )
    verdict = "lower" if (np.diff(errors) < 0).all() else "not lower"
    shown = ", ".join(f"{error:.2e} at m = {m}" for error, m in zip(errors[0], sizes, strict=True))
    return judged(f"{metric(kinds[0]).label} {shown}", verdict == published)


def bias_with_items(
    published: str, kinds: list[str], sizes: list[int], m: int, top: int
) -> Finding:
    """How the squared bias of every correction changes with more items, m kept.

    As eq. 21 averages it, over all ranks; or else over the top ranks.
    """
    corrections = [name for name in METHODS if name != "uncorrected"]
    bias = {(c, k): [_bias(c, k, n, m) ** 2 for n in sizes] for c in corrections for k in kinds}

    def trial(reach: int | None, setting: str) -> Trial:
        means = {case: [float(curve[:reach].mean()) for curve in row] for case, row in bias.items()}
        falling = [case for case, row in means.items() if any(b <= a for a, b in pairwise(row))]
        (c, k) = falling[0] if falling else ("CLS", kinds[0])
        row = ", ".join(f"{v:.2e} at n = {n:,}" for v, n in zip(means[c, k], sizes, strict=True))
        opening = (
            f"{len(falling)} of {len(means)} fall somewhere, as " if falling else "all rise, as "
        )
        text = f"{opening}{c} of {metric(k).label}: {row}"
        return Trial(text, not falling and published == "increases", setting)

    over_top = f"bias is averaged over the top {top} ranks, not over all as in eq. 21"
    return judge(trial(None, ""), trial(top, over_top))


# --- section 8 ------------------------------------------------------------------------------------


def general_case(
    published: str, kinds: list[str], n_items: int, n_relevant: int, m: int
) -> Finding:
    """What bias-variance vectors, one for each position, do for sets of ranks: "similar".

    Similar is that over all sets the bias is smaller than the uncorrected metric's.
    """
    protocol = Protocol(n_items, m, n_relevant=n_relevant)
    ranks = np.array([*itertools.combinations(range(n_items), n_relevant)])
    relevant_above = np.broadcast_to(np.arange(n_relevant), ranks.shape)
    irrelevant = np.full(len(ranks), n_items - n_relevant)
    sets = RelevantSets(ranks - relevant_above, np.zeros_like(ranks), relevant_above, irrelevant)
    ratios = {}
    for metric_ in map(metric, kinds):
        estimator_pair = [
            estimators.bias_variance(metric_, protocol, 0.1),
            estimators.naive(metric_, protocol),
        ]
        errors = sets.expected(estimator_pair, m, replacement=True) - sets.evaluate(metric_)
        corrected, plain = np.sqrt((errors**2).mean(axis=1))
        ratios[metric_.label] = float(corrected / plain)
    text = listed(ratios, ".0%")
    note = (
        "These metrics are sums over the relevant items, so that their expectation needs no "
        "independence; their variance does."
    )
    summary = f"bias left of the uncorrected metric's, {len(ranks):,} sets of {n_relevant}: {text}"
    return judged(summary, published == "similar" and max(ratios.values()) < 1, note=note)

"""Printed formulas: evaluated as printed, and held against what they should give, case by case.

A formula stands in the ledger as a Python expression and is evaluated in rational arithmetic
where it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from math import comb, isclose, log2
from types import CodeType
from typing import Any

from sampled_metrics import Metric

from .finding import Finding, judged, made_by


def evaluate(formula: str, **names: Any) -> Any:
    """Evaluate a printed formula with the given names and a few functions."""
    functions: dict[str, Any] = {
        "__builtins__": {},
        "sum": sum,
        "min": min,
        "log2": lambda x: log2(x),
        "comb": lambda a, b: Fraction(comb(int(a), int(b))),
        "count": lambda truths: Fraction(sum(bool(truth) for truth in truths)),
        "upto": lambda last: [Fraction(i) for i in range(1, int(last) + 1)],
    }
    return eval(_compiled(formula), functions | names)


@cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, "<printed>", "eval")


def same(first: Any, second: Any, digits: int = 12) -> bool:
    """Equal exactly where both are rational, else to this many digits."""
    if isinstance(first, (Fraction, int)) and isinstance(second, (Fraction, int)):
        return first == second
    return isclose(
        float(first), float(second), rel_tol=10.0**-digits, abs_tol=10.0 ** (-digits - 2)
    )


#: Each case of a formula: which it is, what the formula gives, and what that should be.
Cases = Iterator[tuple[str, Any, Any]]


def compared(cases: Cases, against: str, note: str = "", digits: int = 12) -> Finding:
    """Hold the pairs (printed formula, what it should be) against one another, case by case."""
    n_cases = 0
    for case, printed, expected in cases:
        if not same(printed, expected, digits):
            ours, theirs = float(expected), float(printed)
            return judged(
                f"{ours:.6g} at {case}, where the formula gives {theirs:.6g}", False, note=note
            )
        n_cases += 1
    if not n_cases:
        raise ValueError("no case was compared")
    return judged(f"equal in all {n_cases:,} cases, against {against}", True)


def checked(against: str, digits: int = 12) -> Callable[..., Callable[..., Finding]]:
    """Decorator: make a check of a generator of cases, as :func:`compared` takes them."""
    return made_by(lambda cases: compared(cases(), against, digits=digits))


def exact_metric(metric_: Metric, rank: int, n_items: int) -> Any:
    """The metric of one rank as a rational, or as a float for NDCG, straight from eqs 7-11."""
    if metric_.base == "auc":
        return Fraction(n_items - rank, n_items - 1)
    cut = 1 if metric_.base == "accuracy" else metric_.k
    inside = cut is None or rank <= cut
    if metric_.base == "ndcg":
        return inside / log2(rank + 1)
    if metric_.base in ("ap", "rr"):
        return Fraction(int(inside), rank)
    return Fraction(int(inside), cut if metric_.base == "precision" and cut else 1)

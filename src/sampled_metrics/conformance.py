"""Forty small cases that show what an evaluator of rankings does, each with the exact answer.

The cases are in ``data/conformance.json``, so that other languages can read them, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from .evaluation.estimation import estimate_each
from .log.read import read_log

#: Evaluators may compute in single precision.
_TOLERANCE = 1e-6
#: The result of a metric that an evaluator lacks.
NOT_THERE = "not there"

Evaluator = Callable[[list[list[float]], list[list[int]], list[list[int]], str], float]


class Case(NamedTuple):
    """One evaluation of a few users, and what is right.

    Attributes
    ----------
    name, kind : str
        What is tried: plain, users, ties, constant scorer, cut-off, missing, duplicates or numbers.
    metric : str
        As for :func:`~sampled_metrics.metric`.
    scores : list of list of float
        For each user, of the candidates; higher is better. Some are not finite.
    items : list of list of int
        For each user, the candidates that the scores belong to.
    relevant : list of list of int
        For each user, the relevant items.
    answer : float or None
        The mean over users who have a relevant item, and over all orders of tied candidates. None
        if the input has no answer: an evaluator should raise an error or return NaN.
    conventions : dict of str to float
        Other values that have a name of their own.
    why : str
        The answer in a sentence.
    """

    name: str
    kind: str
    metric: str
    scores: list[list[float]]
    items: list[list[int]]
    relevant: list[list[int]]
    answer: float | None
    conventions: dict[str, float]
    why: str


def cases() -> Iterator[Case]:
    """Yield the cases.

    >>> tied = next(case for case in cases() if case.kind == "ties")
    >>> tied.metric, tied.scores, tied.relevant, tied.answer
    ('rr', [[5.0, 5.0, 1.0, 0.0]], [[0]], 0.75)
    """
    for case in json.loads((files("sampled_metrics") / "data/conformance.json").read_text()):
        users = case.pop("users")
        scores = [[float(score) for score in user["scores"]] for user in users]
        items = [user.get("items", list(range(len(user["scores"])))) for user in users]
        yield Case(scores=scores, items=items, relevant=[u["relevant"] for u in users], **case)


def conformance(evaluate: Evaluator) -> pd.DataFrame:
    """Try an evaluator on all cases.

    Parameters
    ----------
    evaluate : callable
        Called as ``evaluate(scores, items, relevant, metric)`` with lists as in :class:`Case`, one
        for each user, it returns the metric's mean over users. What it raises counts as a refusal,
        except NotImplementedError, by which it says that it lacks the metric.

    Returns
    -------
    pandas.DataFrame
        A row for each case: case, kind, metric, answer (NaN if it should be refused), value (NaN if
        it was), result and error. The result is "exact"; "refused", which is right where there is
        no answer; "not there" if the evaluator lacks the metric; the name of a convention; or
        "differs". The error is what was raised.

    Examples
    --------
    An evaluator that breaks ties in favour of the relevant item, as many loops do:

    >>> def reciprocal_rank(scores, items, relevant, metric):
    ...     if metric != "rr":
    ...         raise NotImplementedError(metric)
    ...     ranks = [1 + sum(s > user[i] for s in user) for user, (i,) in zip(scores, relevant)]
    ...     return sum(1 / rank for rank in ranks) / len(ranks)
    >>> found = conformance(reciprocal_rank).set_index("case")
    >>> found.loc["constant scorer, relevant item last", ["answer", "value", "result"]].to_dict()
    {'answer': 0.4083333333333333, 'value': 1.0, 'result': 'best place'}
    """
    rows = []
    for case in cases():
        value, reason, lacking = math.nan, "", False
        try:
            value = float(evaluate(case.scores, case.items, case.relevant, case.metric))
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
            lacking = isinstance(problem, NotImplementedError)
        rows.append(
            {
                "case": case.name, "kind": case.kind, "metric": case.metric,
                "answer": math.nan if case.answer is None else case.answer,
                "value": value, "result": NOT_THERE if lacking else _result(case, value),
                "error": reason,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def exact(
    scores: list[list[float]], items: list[list[int]], relevant: list[list[int]], metric: str
) -> float:
    """Evaluate with this package: each user's candidates are all candidates.

    >>> exact([[5.0, 5.0, 1.0, 0.0]], [[0, 1, 2, 3]], [[0]], "rr")
    0.75
    """
    rows = []
    for user, (user_scores, user_items, user_relevant) in enumerate(
        zip(scores, items, relevant, strict=True)
    ):
        if len(set(user_items)) < len(user_items):
            raise ValueError(f"a candidate of user {user} is there twice")
        if any(map(math.isnan, user_scores)):
            raise ValueError(f"a score of user {user} is not a number")
        found = dict(zip(user_items, user_scores, strict=True))
        negatives = [score for item, score in found.items() if item not in user_relevant]
        for item in user_relevant:
            score = found.get(item)  # what has no score is below all others
            better = len(negatives) if score is None else sum(s > score for s in negatives)
            tied = 0 if score is None else sum(s == score for s in negatives)
            for copy in "ab":  # a log has at least two users
                rows.append((f"{user}{copy}", item, better, tied, len(negatives)))
    if not rows:
        raise ValueError("no user has a relevant item")
    frame = pd.DataFrame(rows, columns=["user", "item", "n_better", "n_tied", "n_negatives"])
    frame["n_items"] = frame["n_negatives"] + frame.groupby("user")["item"].transform("size")
    log = read_log(frame.assign(recommender="evaluated"), replacement=False)
    return float(estimate_each(log, [metric], estimators="naive").frame["value"].iloc[0])


def evaluator(name: str) -> Evaluator:
    """Import an evaluator by its name, such as ``package.module:function``."""
    module, _, function = name.partition(":")
    if not function:
        raise ValueError(f"evaluator must be MODULE:FUNCTION, got {name}")
    try:
        found: Evaluator = getattr(import_module(module), function)
    except (ImportError, AttributeError) as problem:
        raise ValueError(f"evaluator {name} cannot be imported: {problem}") from problem
    return found


def _result(case: Case, value: float) -> str:
    if math.isnan(value):
        return "refused"
    named = {} if case.answer is None else {"exact": case.answer}
    for name, right in (named | case.conventions).items():
        if math.isclose(value, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            return name
    return "differs"

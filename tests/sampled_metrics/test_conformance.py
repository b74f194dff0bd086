"""The forty cases: their answers by enumeration, and what evaluators are found to do."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from sampled_metrics.cli import main
from sampled_metrics.conformance import Case, cases, conformance, evaluator, exact

CASES = list(cases())


def discount(places: list[int]) -> mp.mpf:
    return mp.fsum(mp.log(2) / mp.log(place + 1) for place in places)


def value(metric: str, places: list[int], n_relevant: int, n_items: int) -> mp.mpf:
    """A metric of one ranked list by its definition: ascending places of the relevant items."""
    name, _, cutoff = metric.partition("@")
    k = int(cutoff or n_items)
    top = [place for place in places if place <= k]
    if name == "auc":
        above = [place - j for j, place in enumerate(places, start=1)]
        return 1 - mp.fsum(above) / (n_items - len(places)) / n_relevant
    return {
        "ndcg": lambda: discount(top) / discount(list(range(1, min(n_relevant, k) + 1))),
        "rr": lambda: mp.mpf(1) / top[0] if top else mp.mpf(0),
        "recall": lambda: mp.mpf(len(top)) / n_relevant,
        "hit": lambda: mp.mpf(len(top) > 0),
        "precision": lambda: mp.mpf(len(top)) / k,
        "ap": lambda: mp.fsum(mp.mpf(j) / p for j, p in enumerate(top, 1)) / min(n_relevant, k),
    }[name]()


def over_all_orders(case: Case, user: int) -> mp.mpf:
    """The mean over every order of all candidates that their scores allow."""
    scored = list(zip(case.scores[user], case.items[user], strict=True))
    groups = [
        [item for score, item in scored if score == level]
        for level in sorted({score for score, _ in scored}, reverse=True)
    ]
    values = []
    for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
        ranked = [item for order in orders for item in order]
        places = [p for p, item in enumerate(ranked, 1) if item in case.relevant[user]]
        values.append(value(case.metric, places, len(case.relevant[user]), len(ranked)))
    return mp.fsum(values) / len(values)


def test_there_are_forty_and_each_has_a_name_of_its_own() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_the_mean_over_all_orders_of_ties(case: Case) -> None:
    if case.answer is None:
        nan = any(math.isnan(score) for scores in case.scores for score in scores)
        twice = any(len(set(items)) < len(items) for items in case.items)
        assert nan or twice or not any(case.relevant)
        return
    with mp.workdps(50):
        users = [user for user, relevant in enumerate(case.relevant) if relevant]
        answer = mp.fsum(over_all_orders(case, user) for user in users) / len(users)
        assert abs(answer - case.answer) < 1e-15
    assert all(abs(case.answer - other) > 1e-3 for other in case.conventions.values())


def test_the_package_is_exact_on_all() -> None:
    found = conformance(exact)
    assert set(found["result"]) == {"exact", "refused"}
    assert (found["value"].isna() == found["answer"].isna()).all()


def optimistic(scores, items, relevant, metric):  # type: ignore[no-untyped-def]
    """Tied candidates stand below the relevant item; only reciprocal ranks."""
    if metric != "rr":
        raise NotImplementedError(metric)
    ranks = [
        1 + sum(score > of[names.index(item)] for score in of)
        for of, names, (item,) in zip(scores, items, relevant, strict=True)
    ]
    return sum(1 / rank for rank in ranks) / len(ranks)


@pytest.mark.parametrize(
    ("evaluate", "case", "result"),
    [
        (optimistic, "constant scorer, relevant item first", "best place"),
        (optimistic, "one relevant item, reciprocal rank", "exact"),
        (optimistic, "auc", "not there"),
        (lambda *_: None, "auc", "refused"),
        (lambda *_: 0.123, "auc", "differs"),
        (lambda *_: math.nan, "no user has a relevant item", "refused"),
        (lambda *_: 0.0, "no user has a relevant item", "counted as 0"),
    ],
)
def test_what_an_evaluator_does_is_named(
    evaluate: Callable[..., float], case: str, result: str
) -> None:
    assert conformance(evaluate).set_index("case").loc[case, "result"] == result


def by_one_argsort(scores, items, relevant, metric):  # type: ignore[no-untyped-def]
    """The common mistake: the order of the items is taken for their ranks."""
    values = []
    for of, names, wanted in zip(scores, items, relevant, strict=True):
        order = np.argsort(-np.array(of), kind="stable")
        places = sorted(1 + int(order[names.index(item)]) for item in wanted)
        values.append(value(metric, places, len(wanted), len(of)))
    return float(np.mean([float(each) for each in values]))


def test_one_argsort_for_two_is_found_on_plain_cases() -> None:
    found = conformance(by_one_argsort).set_index("case")
    assert (found.loc[found["kind"] == "plain", "result"] == "differs").all()
    assert found.loc["mean over users", "result"] == "differs"


def test_the_command_takes_a_function_from_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs.py").write_text("def evaluate(scores, items, relevant, metric): return 1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["conformance", "theirs:evaluate"]) == 1  # some values differ
    assert "best place" in capsys.readouterr().out
    assert main(["conformance", "theirs:evaluate", "-o", "table.csv"]) == 1
    assert main(["conformance", "sampled_metrics.conformance:exact"]) == 0
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 41
    assert lines[0] == "case,kind,metric,answer,value,result,error"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("theirs", "must be MODULE:FUNCTION, got theirs"),
        ("no_such_module:f", "no_such_module:f cannot be imported: No module named"),
        ("math:no_such_function", "cannot be imported: module 'math' has no attribute"),
    ],
)
def test_a_name_that_is_no_function_is_one_sentence(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="evaluator"):
        evaluator(name)
    assert main(["conformance", name]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1

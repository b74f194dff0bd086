"""The reports of the command line, as a browser shows them."""

from dataclasses import replace
from itertools import combinations

import pandas as pd
import pytest
from checks import faults, visit

from sampled_metrics import Protocol, metric, planning
from sampled_metrics._confidence import Assumed
from sampled_metrics.report.html import of_comparison, of_estimates, of_plan
from sampled_metrics.results import Comparison, Estimates

NAMES = ["ItemKNN", "<script>alert('x')</script> with a long name & an entity", "$x$ BPR-MF"]


def comparison():
    pair = {
        "first": NAMES[0], "second": NAMES[1], "reported": 0.02, "estimate": -0.01,
        "standard_error": 0.004, "student_low": -0.018, "student_high": -0.002,
        "possible_low": -0.02, "possible_high": 0.003,
        "verdict": "undecided", "assumption": "", "warrant": "",
        "favoured": NAMES[1], "probability": float("nan"), "detectable": 0.012,
        "users_needed": 12_345,
    }  # fmt: skip
    return Comparison(pd.DataFrame([pair]), {"metric": "auc"})


def one_row_each():
    """A page as commands write it: one row for each recommender and metric, and verdicts."""
    rows = [
        (
            *(name, "auc", 0.6, 0.4, 0.01, 0.3, 0.5, 0.1, 0.6),
            *("none", "theorem", "0.400 (0.100 to 0.600)", 1_000),
        )
        for name in NAMES
    ]
    columns = ["recommender", "metric", "reported", "estimate", "standard_error", "typical_low"]
    columns += ["typical_high", "possible_low", "possible_high", "assumption", "warrant", "quote"]
    columns.append("users")
    estimated = Estimates(pd.DataFrame(rows, columns=columns), {"assumed": Assumed()}, ("a note",))
    return of_estimates(estimated, {"auc": comparison()}, {"log": "log.csv", "users": 1_000})


def many():
    """A page of twelve recommenders with long names, whose verdicts are a wide table."""
    names = [f"recommender number {number}" for number in range(12)]
    pairs = [
        comparison().frame.assign(first=first, second=second, verdict=f"{first} beats {second}")
        for first, second in combinations(names, 2)
    ]
    return of_comparison(Comparison(pd.concat(pairs), {"metric": "auc"}), {"metric": "auc"})


def plan():
    ranks = {NAMES[0]: {2: 0.3, 90: 0.7}, NAMES[1]: {9: 0.6, 90: 0.4}}
    options = {"estimators": ["naive", "rank estimate"], "max_negatives": 50}
    plans = planning.plan(ranks, metric("ap"), Protocol(100, 10), 20, **options)
    return of_plan(replace(plans, facts={"log": "log.csv"}))


@pytest.fixture(scope="module")
def address(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    comparison_page = of_comparison(comparison(), {"metric": "auc"})
    pages = {"rows": one_row_each(), "comparison": comparison_page, "many": many(), "plan": plan()}
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return serve(folder)


def is_white_in_the_light(page, theme):
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (theme == "light")


@pytest.mark.parametrize("name", ["rows", "comparison", "many", "plan"])
def test_a_report_has_no_fault(context, address, name, tmp_path):
    with visit(context, f"{address}/{name}.html") as visited:
        assert faults(visited, themed=is_white_in_the_light) == []


def test_a_report_opens_from_a_file(context, address, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(one_row_each(), encoding="utf-8")
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("h1").inner_text() == "What a sampled evaluation says"
    first = page.locator("h2").first
    assert first.inner_text() == "Verdicts on AUC"
    assert first.bounding_box()["y"] < page.locator("img").first.bounding_box()["y"]
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    page.close()

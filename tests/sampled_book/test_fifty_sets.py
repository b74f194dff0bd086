"""What the appendix on how often sampling misleads says, in numbers and in words."""

from pathlib import Path
from statistics import mean, median, stdev

import pandas as pd
import pytest

from sampled_book.chapters import fifty_sets as chapter
from sampled_book.data import benchmark
from sampled_book.experiments import evidence, reversals

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bundled():
    return reversals.bundled()


def shares_by_source(table, kind, estimator, metric="ndcg@10"):
    """Shares of a metric with 100 negatives, source by source, in plain Python."""
    column = "reversed" if kind == "pairs" else f"{kind}_reversed"
    parts = {}
    for row in table.to_dict("records"):
        if (row["metric"], row["m"], row["estimator"]) == (metric, 100, estimator):
            parts.setdefault(row["group"], []).append(row[column] / row[kind])
    return {source: mean(values) for source, values in parts.items()}


def test_what_the_start_page_types(bundled):
    page = " ".join((ROOT / "book/chapters/index.md").read_text(encoding="utf-8").split())
    is_cell = (bundled["metric"] == "ndcg@10") & (bundled["m"] == 100)
    rows = bundled[is_cell & (bundled["estimator"] == "naive")]
    pairs, recommenders = rows["pairs"].sum(), rows["recommenders"].sum()
    assert chapter.texts(bundled)["mislead-count"] == f"{pairs:,}"
    assert f"We took {recommenders} tuned recommenders" in page
    for (name, m), cell in bundled[bundled["estimator"] == "naive"].groupby(["metric", "m"]):
        if m == 100 and name in ("ndcg@10", "recall@10"):
            by_source = (cell["reversed"] / cell["pairs"]).groupby(cell["group"]).mean()
            assert f"{by_source.min():.0%} to {by_source.max():.0%}" in page
    assert page.count("Recall@354") == 1  # elsewhere it is glued


def test_the_sentence_that_is_quoted(bundled):
    texts = chapter.texts(bundled)
    for kind in reversals.PAIRS:
        for key, estimator in (("", "naive"), ("-best", chapter.BEST)):
            share = mean(shares_by_source(bundled, kind, estimator).values())
            assert texts[f"mislead-{kind}{key}"] == f"{100 * share:.1f}%"
    values = list(shares_by_source(bundled, "pairs", "naive").values())
    assert texts["mislead-sources"] == str(len(values)) == str(bundled["group"].nunique())
    assert texts["mislead-sets"] == str(bundled["data"].nunique())
    cells = [
        row["pairs"]
        for row in bundled.to_dict("records")
        if (row["metric"], row["m"], row["estimator"]) == ("ndcg@10", 100, "naive")
    ]
    assert texts["mislead-count"] == f"{sum(cells):,}" == "2,213"
    for key, value in (("least", min(values)), ("median", median(values)), ("most", max(values))):
        assert texts[f"mislead-{key}"] == f"{100 * value:.1f}%"
    error = stdev(values) / len(values) ** 0.5
    assert texts["mislead-error"] == f"{100 * error:.1f}"


def test_one_evaluation_is_the_appendix_on_all_corrections():
    pairs = evidence.bundled("pairs", list(benchmark.DATA))
    table = chapter.one_evaluation(pairs).set_index("Value")
    summary = evidence.by_correction(evidence.bundled("errors", list(benchmark.DATA)), pairs)
    is_cell = (summary["metric"] == "recall@10") & (summary["m"] == 100) & ~summary["replacement"]
    wrong = summary[is_cell].groupby("estimator")["wrong"].mean()
    for label, name in (("naive", "reported value"), (chapter.BEST, chapter.BEST)):
        row = table.loc[name]
        assert row["Recall@10, one evaluation"] == pytest.approx(wrong[label])
        # The page: noise adds little to the errors of reported values, and more to corrected ones.
        for metric_name in ("Recall@10", "NDCG@10"):
            expected, once = row[f"{metric_name}, expected"], row[f"{metric_name}, one evaluation"]
            assert (once - expected < 0.01) == (label == "naive")
            assert once <= table.loc["reported value", f"{metric_name}, one evaluation"]


def test_expected_orders_of_a_made_up_pair():
    rows = {"data": "a", "metric": "recall@10", "estimator": "naive", "m": 100, "users": 9}
    rows |= {"replacement": False}
    first = rows | {"exact": 0.1, "expected": -0.2, "wrong": 0.75}
    second = rows | {"exact": -0.1, "expected": -0.2, "wrong": 0.25}
    few_users = first | {"users": 1}
    other = first | {"data": "b"}
    table = pd.DataFrame([first, second, few_users, other, first | {"metric": "ndcg@10"}])
    row = chapter.one_evaluation(table).iloc[0]
    assert row["Recall@10, expected"] == (0.5 + 1) / 2
    assert row["Recall@10, one evaluation"] == (0.5 + 0.75) / 2


def test_tuned_and_untuned_recommenders_are_compared_on_the_same_data_sets(bundled):
    untuned = reversals.bundled(reversals.UNTUNED)
    assert set(untuned["data"]) <= set(bundled["data"])
    table = chapter.tuning_table(bundled, untuned, "ndcg@10", 100)
    assert table["Recommenders"].tolist() == ["tuned", "untuned"] * 2
    same = bundled[bundled["data"].isin(untuned["data"])]
    rows = iter(table.to_dict("records"))
    for estimator in ("naive", chapter.BEST):
        for counts in (same, untuned):
            row = next(rows)
            for kind in ("wide", "pairs", "neighbours"):
                expected = mean(shares_by_source(counts, kind, estimator).values())
                assert row[chapter.SHORT[kind]] == pytest.approx(expected)
    reported = table[table["Value"] == "reported value"].set_index("Recommenders")["All pairs"]
    assert reported["untuned"] > reported["tuned"]  # as the page says
    recommenders = [t[t["m"] == 100].groupby("data")["recommenders"].max() for t in (same, untuned)]
    assert recommenders[0].to_dict() == recommenders[1].to_dict()

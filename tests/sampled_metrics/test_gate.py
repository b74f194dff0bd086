"""Exit statuses for continuous integration: better, worse, unknown, and alarms."""

import re

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Protocol, compare, read_log
from sampled_metrics.cli import main
from sampled_metrics.example import write_example
from sampled_metrics.gate import gate

SIZES = {"n_items": 480, "n_negatives": 50, "replacement": False}
FLAGS = ["--n-items", "480", "--n-negatives", "50", "--no-replacement", "--metric", "ndcg@10"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate") / "toy"
    write_example(folder)
    return folder


@pytest.mark.parametrize(
    ("old", "new", "verdict", "status"),
    [("old", "new", "better", 0), ("new", "old", "worse", 1), ("new", "new", "undecided", 3)],
)
def test_the_exit_status_is_the_verdict(toy, old, new, verdict, status, capsys):
    files = [str(toy / f"{name}.csv") for name in (old, new)]
    assert gate(*files, "ndcg@10", **SIZES)[0] == verdict
    assert main(["gate", *files, *FLAGS]) == status
    assert "on NDCG@10" in capsys.readouterr().out


def test_it_says_what_compare_says_of_one_log(toy):
    _, found = gate(toy / "old.csv", toy / "new.csv", "auc", **SIZES)
    whole = pd.read_csv(toy / "log.csv").replace({"recommender": {"B": "old", "A": "new"}})
    whole = whole.sort_values("recommender", ascending=False, kind="stable")
    expected = compare(read_log(whole, **SIZES), "auc")
    pd.testing.assert_frame_equal(found.frame, expected.frame)


def test_the_lead_of_a_track_record_decides_nothing(tmp_path, capsys):
    """Two models, of which the record says that the new one is probably better."""
    rng, n, m, users = np.random.default_rng(7), 3706, 100, 6000
    ranks = np.clip(np.ceil(np.exp(rng.normal(5.0, 1.7, users))).astype(int), 1, n)
    old, new = (
        pd.DataFrame({"user": range(users), "rank": 1 + rng.hypergeometric(r - 1, n - r, m)})
        for r in (ranks, rng.permutation(np.maximum(1, np.ceil(ranks * 0.8)).astype(int)))
    )
    sizes = {"n_items": n, "n_negatives": m, "replacement": False}
    verdict, comparison = gate(old, new, "ndcg@10", **sizes)
    assert comparison.frame["warrant"].item() == "track record"
    assert verdict == "undecided"
    for name, log in (("old", old), ("new", new)):
        log.to_csv(tmp_path / f"{name}.csv", index=False)
    command = ["gate", str(tmp_path / "old.csv"), str(tmp_path / "new.csv"), "--metric", "ndcg@10"]
    options = ["--n-items", str(n), "--n-negatives", str(m), "--no-replacement"]
    assert main([*command, *options]) == 3
    printed = capsys.readouterr()
    assert "probably beats" in printed.out
    assert "note: undecided: a lead by track record decides nothing here" in printed.err


@pytest.mark.parametrize(
    ("shift", "margin", "status"),
    [
        (0.3, None, 0),
        (-0.3, None, 1),
        (0.0, None, 3),
        (0.0, 0.2, 0),
        (0.0, 0.01, 3),
        (-0.35, 0.1, 1),
    ],
)
def test_values_by_query_with_and_without_a_margin(shift, margin, status, tmp_path):
    rng = np.random.default_rng(3)
    values = rng.uniform(0.4, 0.6, 60)
    for name, column in (("old", values), ("new", values + shift + rng.normal(0, 0.02, 60))):
        frame = pd.DataFrame({"query": range(60), "ndcg@10": column})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    command = ["gate", str(tmp_path / "old.csv"), str(tmp_path / "new.csv"), "--metric", "ndcg@10"]
    assert main(command + ([] if margin is None else ["--margin", str(margin)])) == status


def test_a_margin_names_its_assumption():
    true = np.random.default_rng(2).geometric(0.01, 2_000).clip(max=1_000)
    old = pd.DataFrame({"user": range(2_000), "rank": Protocol(1_000, 100).draw(true, 1)})
    sizes = {"n_items": 1_000, "n_negatives": 100, "replacement": True}
    for metric, condition in (("auc", "whatever the ranks"), ("hit@10", "if deeper ranks have")):
        verdict, comparison = gate(old, old.copy(), metric, margin=0.9, **sizes)
        assert verdict == "no worse"
        assert condition in comparison.notes[0]


def test_runs_over_the_whole_corpus(tmp_path):
    """The new run lists every relevant document, the old one none: recall@3 rises from 0 to 1."""
    for name, found in (("old", "x"), ("new", "gold")):
        lines = [f"q{q} Q0 {found}{q} 1 1.0 {name}\n" for q in range(40)]
        lines += [f"q{q} Q0 other{q} 2 0.5 {name}\n" for q in range(40)]
        lines += [f"q{q} Q0 third{q} 3 0.2 {name}\n" for q in range(40)]
        (tmp_path / name).write_text("".join(lines))
    (tmp_path / "qrels").write_text("".join(f"q{q} 0 gold{q} 1\n" for q in range(40)))
    files = [str(tmp_path / "old"), str(tmp_path / "new")]
    options = ["--qrels", str(tmp_path / "qrels"), "--metric", "recall@3"]
    assert main(["gate", *files, *options, "--of-all"]) == 0
    assert main(["gate", *files[::-1], *options, "--of-all"]) == 1
    assert main(["gate", *files, *options]) == 2
    # The document with a query's own id comes first: without it the relevant one does.
    for name, found in (("old", "x"), ("new", "gold")):
        lines = [f"q{q} Q0 q{q} 1 9.0 {name}\nq{q} Q0 {found}{q} 2 1.0 {name}\n" for q in range(40)]
        (tmp_path / name).write_text("".join(lines))
    options[-1] = "recall@1"
    assert main(["gate", *files, *options, "--of-all"]) == 2
    assert main(["gate", *files, *options, "--of-all", "--queries-are-documents"]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda old: old.assign(recommender=["A", "B"] * 150),
            "must have one recommender, got A, B",
        ),
        (lambda old: old.assign(count=1), r"must have the columns of the old one; .*'count'"),
        (lambda old: old.assign(user=old["user"] + 1), "user"),
        (lambda old: old.drop(columns="n_better"), "must have the columns"),
    ],
)
def test_logs_that_do_not_fit_are_one_sentence(toy, tmp_path, change, said, capsys):
    new = tmp_path / "new.csv"
    change(pd.read_csv(toy / "old.csv")).to_csv(new, index=False)
    assert main(["gate", str(toy / "old.csv"), str(new), *FLAGS]) == 2
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert error.count("\n") == 1


def test_an_alarm_stops_a_job_only_if_asked(toy, tmp_path, capsys):
    negatives = pd.read_csv(toy / "negatives.csv")
    skewed = tmp_path / "negatives.csv"
    negatives.assign(item=negatives["item"] // 2).to_csv(skewed, index=False)
    asked = ["--n-items", "500", "--positives", str(toy / "positives.csv"), "--fail-on", "alarm"]
    assert main(["audit", str(toy / "negatives.csv"), *asked]) == 0
    assert main(["audit", str(skewed), *asked]) == 1
    assert main(["audit", str(skewed), *asked[:4]]) == 0
    table = tmp_path / "table.csv"
    table.write_text("method,HR@1,NDCG@5\nA,0.300,0.250\n")
    sizes = ["--n-items", "500", "--n-negatives", "99", "--users", "1000", "--no-replacement"]
    assert main(["published", str(table), *sizes, "--fail-on", "alarm"]) == 1
    assert main(["published", str(table), *sizes]) == 0
    table.write_text("method,HR@1,NDCG@5\nA,0.250,0.300\n")
    assert main(["published", str(table), *sizes, "--fail-on", "alarm"]) == 0
    capsys.readouterr()

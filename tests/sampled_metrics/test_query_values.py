"""Exact metrics by query: tables of values, and lists of the first documents of the corpus."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import readers
from sampled_metrics.gate import gate
from sampled_metrics.log.query_values import query_values

QUERIES, DEPTH = 40, 10


def by_definition(metric, ranks):
    """Metrics of one relevant document, written out."""
    (rank,) = ranks
    kind, _, k = metric.partition("@")
    gain = {"recall": 1.0, "rr": 1.0 / rank, "ndcg": 1.0 / math.log2(rank + 1)}[kind]
    return gain if not k or rank <= int(k) else 0.0


@pytest.fixture(scope="module")
def true_ranks():
    rng = np.random.default_rng(4)
    z = rng.normal(1.2, 1.4, QUERIES)
    return {
        name: np.floor(np.exp(np.clip(z + rng.normal(shift, 0.6, QUERIES), 0, 9))).astype(int)
        for name, shift in (("old", 0.0), ("new", 0.3))
    }


def run_of(ranks):
    """The first `DEPTH` documents, best first; the relevant one of query q is "gold q"."""
    return {
        f"q{q}": [f"gold{q}" if place == rank else f"d{place}" for place in range(1, DEPTH + 1)]
        for q, rank in enumerate(ranks)
    }


@pytest.fixture(scope="module")
def lists(true_ranks):
    qrels = {f"q{q}": {f"gold{q}": 1} for q in range(QUERIES)}
    return readers.ranx(
        {name: run_of(ranks) for name, ranks in true_ranks.items()}, qrels, of_all=True
    )


@pytest.mark.parametrize("metric", ["recall@10", "ndcg@10", "recall@3", "rr", "recall@20"])
def test_lists_bound_the_metric_of_each_query(metric, lists, true_ranks):
    frame = sm.estimate(lists, [metric]).frame.set_index("recommender")
    for name, ranks in true_ranks.items():
        exact = np.mean([by_definition(metric, [rank]) for rank in ranks])
        row = frame.loc[name]
        assert row["reported"] - 1e-12 <= exact <= row["highest"] + 1e-12
        is_exact = metric not in ("rr", "recall@20")
        assert (row["highest"] - row["reported"] < 1e-12) == is_exact


def test_several_relevant_documents_by_enumeration():
    """The ends are the least and the most of all places that unlisted documents can have."""
    relevance, listed, corpus = {"a": 2.0, "b": 1.0, "c": 1.0}, ["x", "b", "y"], 7
    qrels = {"q": relevance, "p": {"z": 1}}
    runs = {"q": listed, "p": ["z", "w"]}
    for name in ("ndcg", "ndcg@4", "ap", "recall@5", "precision@5", "rr", "hit@1"):
        metric = sm.metric(name)
        values = []
        for places in itertools.permutations(range(4, corpus + 1), 2):
            ranks = {"b": 2, **dict(zip("ac", places, strict=True))}
            if metric.base == "ndcg":
                ideal = sorted(relevance.values(), reverse=True)[: metric.k]
                gain = sum(
                    relevance[d] / math.log2(r + 1)
                    for d, r in ranks.items()
                    if r <= (metric.k or corpus)
                )
                values.append(
                    gain / sum(g / math.log2(i + 1) for i, g in enumerate(ideal, start=1))
                )
            else:
                values.append(metric.of_set(list(ranks.values())))
        low, high = readers.ranx(runs, qrels, of_all=True).bounds(metric)["system"][:, 0]
        assert high == pytest.approx(max(values)), name
        assert low <= min(values) + 1e-12, name


def test_tables_of_values_in_three_forms(tmp_path):
    rng = np.random.default_rng(2)
    old = rng.beta(2, 1.5, 300)
    new = np.clip(old + rng.normal(0.08, 0.1, 300), 0, 1)
    wide = pd.DataFrame({"query": range(300), "old": old, "new": new})
    wide.to_csv(tmp_path / "values.csv", index=False)
    long = wide.melt("query", var_name="system", value_name="ndcg@10")
    columns = long.rename(columns={"ndcg@10": "value"}).assign(metric="ndcg@10")
    for table in (tmp_path / "values.csv", long, columns):
        row = sm.compare(table, "ndcg@10").frame.iloc[0]
        assert row["estimate"] == pytest.approx(np.mean(old - new))
        assert row["standard_error"] == pytest.approx(np.std(old - new, ddof=1) / 300**0.5)
        assert (row["verdict"], row["warrant"]) == ("new beats old", "theorem")
        assert row["possible_low"] < row["estimate"] < row["possible_high"]


@pytest.fixture
def judged():
    """What Ragas writes for two systems: a row for each question, a column for each metric."""
    rng = np.random.default_rng(5)
    return [
        pd.DataFrame({"user_input": [f"why {q}?" for q in range(60)], "response": "x",
                      "context_recall": rng.beta(2, 2, 60), "faithfulness": rng.beta(a, 2, 60)})
        for a in (1, 5)
    ]  # fmt: skip


def test_values_may_be_of_metrics_that_are_not_declared(judged, tmp_path):
    old, new = judged
    for name, frame in zip(("old", "new"), judged, strict=True):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    verdict, gated = gate(tmp_path / "old.csv", tmp_path / "new.csv", "faithfulness")
    both = pd.concat([old.assign(system="old"), new.assign(system="new")])
    wide = pd.DataFrame({"query": range(60), "old": old["faithfulness"],
                         "new": new["faithfulness"]})  # fmt: skip
    long = both.melt(["user_input", "system"], ["faithfulness", "context_recall"], "metric")
    for table in (both, wide, long):
        compared = sm.compare(table, "faithfulness")
        assert compared.sentences[0].startswith("new beats old on faithfulness (95% confidence")
        assert abs(compared.frame["estimate"].item()) == pytest.approx(
            (new["faithfulness"] - old["faithfulness"]).mean()
        )
    assert verdict == "better"
    assert gated.frame["verdict"].tolist() == ["new beats old"]
    names = ["faithfulness", "context_recall"]
    estimates = sm.estimate(old, names)
    assert estimates.frame["reported"].tolist() == pytest.approx(old[names].mean().tolist())
    assert "faithfulness" in estimates.to_html()
    with pytest.raises(ValueError, match="got faith and there faithfulness, context_recall"):
        sm.compare(long, "faith")
    with pytest.raises(ValueError, match="did you mean 'ndcg'"):
        sm.compare(wide, "nddg@10")


def test_mean_of_data_sets_counts_each_the_same():
    table = pd.DataFrame({"dataset": ["a"] * 90 + ["b"] * 10, "query": range(100)})
    table = table.assign(A=[0.2] * 90 + [1.0] * 10, B=0.1)
    frame = sm.compare(table, "rr").frame.set_index("group")
    assert frame["estimate"].to_dict() == pytest.approx({"all": 0.5, "a": 0.1, "b": 0.9})


def test_logs_are_no_tables_of_values():
    log = pd.DataFrame({"user": [1, 2], "rank": [1, 2]})
    assert query_values(log, [sm.metric("rr")]) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"A": [0.5, 1.5, 0.1]}, "in [0, 1], got 1.5"),
        ({"A": [np.nan, np.nan, 0.1]}, "2 queries or more with a value of every system, got 1"),
        ({"query": [1, 1, 2]}, "twice"),
        ({"B": [np.inf, 0.1, 0.2]}, "in [0, 1], got inf"),
    ],
)
def test_tables_refused(change, sentence):
    table = pd.DataFrame({"query": [1, 2, 3], "A": [0.1, 0.2, 0.3], "B": [0.3, 0.2, 0.1]})
    with pytest.raises(ValueError, match=r".") as refusal:
        sm.compare(table.assign(**change), "rr")
    assert sentence in str(refusal.value)


def test_a_missing_value_of_a_file_leaves_its_query_out(tmp_path):
    (tmp_path / "values.csv").write_text("query,faithfulness\na,0.5\nb,\nc,1.0\n")
    found = sm.estimate(tmp_path / "values.csv", ["faithfulness"])
    assert found.frame["reported"].tolist() == [0.75]
    assert "2 queries have a value of every system; 1 others are left out" in found.notes

"""Samples of ranks in graphs against enumeration, and the bundle; training is in tests/peers."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from sampled_book.experiments import graphs
from sampled_book.experiments.graphs import GRAPHS, MODELS
from sampled_metrics.metrics import metric
from sampled_metrics.ranking.intervals import RankIntervals


def enumerated(better, tied, items, m, name):
    """Mean of a metric over all samples of m of the other candidates and all orders of ties."""
    chosen_metric, values = metric(name), []
    for sample in combinations(range(items - 1), min(m, items - 1)):
        above = sum(i < better for i in sample)
        n_tied = sum(better <= i < better + tied for i in sample)
        values.append(
            np.mean(
                [
                    chosen_metric([above + j + 1], n_items=len(sample) + 1)[0]
                    for j in range(n_tied + 1)
                ]
            )
        )
    return np.mean(values)


@pytest.mark.parametrize("name", ["rr", "hit@1", "ndcg@3", "auc"])
def test_expectations_are_those_of_all_samples(name):
    cases = [(0, 0, 7), (2, 0, 7), (1, 3, 8), (0, 2, 3), (5, 1, 7), (0, 0, 2)]
    places = RankIntervals(*np.array(cases).T)
    for m in (1, 3, 5):
        slow = [enumerated(*case, m, name) for case in cases]
        assert graphs.expected(places, m, name) == pytest.approx(slow, abs=1e-12)


def test_filtering_may_leave_fewer_negatives():
    places = RankIntervals([0, 1], [0, 0], [4, 90])
    assert graphs.negatives(places, 10).tolist() == [3, 10]
    with pytest.raises(ValueError, match="n_negatives must be a whole number >= 1, got 0"):
        graphs.negatives(places, 0)


def test_adjusted_metrics_have_the_moments_of_a_random_order_taken_out():
    # All ranks of two predictions among 3 and 5 candidates are equally likely.
    rows = [graphs.adjusted([a, b], [2, 4]) for a, b in product(range(3), range(5))]
    means = {name: np.mean([row[name] for row in rows]) for name in rows[0]}
    assert means == pytest.approx({"AMR": 1, "AMRI": 0, "z": 0}, abs=1e-12)
    assert np.var([row["z"] for row in rows]) == pytest.approx(1)
    assert graphs.adjusted([0, 0], [2, 4])["AMRI"] == 1
    assert graphs.adjusted([2, 4], [2, 4])["AMRI"] == -1


@pytest.mark.parametrize("alike", [True, False])
def test_amri_is_auc_stretched_if_all_have_as_many_candidates_and_weighted_else(alike):
    rng = np.random.default_rng(7)
    items = np.full(50, 30) if alike else rng.integers(6, 60, 50)
    better = (rng.random(50) ** 3 * (items - 3)).astype(int)
    places = RankIntervals(better, rng.integers(0, 3, 50), items)
    auc = places.evaluate("auc")
    exact, sampled = graphs.adjustments(places)["AMRI"], graphs.adjustments(places, 5)["AMRI"]
    assert exact == pytest.approx(2 * np.average(auc, weights=items - 1) - 1)
    assert sampled == pytest.approx(2 * auc.mean() - 1)
    assert (abs(exact - sampled) < 1e-12) == alike


def test_reversals_are_the_pairs_whose_differences_have_other_signs():
    rows = [("g", name, "rr", 5, exact, sampled) for name, exact, sampled in
            (("A", 0.5, 0.6), ("B", 0.4, 0.7), ("C", 0.3, 0.5), ("D", 0.2, 0.55))]  # fmt: skip
    table = pd.DataFrame(rows, columns=["graph", "model", "metric", "m", "exact", "sampled"])
    found = graphs.reversals(table)
    assert found[["better", "worse"]].to_numpy().tolist() == [["A", "B"], ["C", "D"]]
    assert found["exact"].tolist() == pytest.approx([0.1, 0.1])
    assert found["sampled"].tolist() == pytest.approx([-0.1, -0.05])


def test_reversals_on_the_bundled_graphs_are_of_hits_among_twenty():
    rows = graphs.reversals(graphs.overview(["hit@10", "auc"], [5, 20]))
    assert set(zip(rows["metric"], rows["m"], strict=True)) == {("hit@10", 20)}
    assert (rows["exact"] > 0).all()
    assert (rows["sampled"] < 0).all()
    row = rows[(rows["graph"] == "umls") & (rows["m"] == 20)].iloc[0]
    assert (row["better"], row["worse"]) == ("ComplEx", "TransE")


def test_errors_of_differences_are_over_triples():
    rows = graphs.reversals(graphs.overview(["hit@10"], [20])).query("graph == 'umls'")
    row = graphs.with_errors(rows).iloc[0]
    better, worse = (graphs.ranks("umls")[row[key]] for key in ("better", "worse"))
    difference = graphs.expected(better, 20, "hit@10") - graphs.expected(worse, 20, "hit@10")
    triples = graphs.facts("umls")["test"]
    each = [(difference[i] + difference[triples + i]) / 2 for i in range(triples)]
    assert np.mean(each) == pytest.approx(row["sampled"])
    assert row["sampled error"] ** 2 * triples == pytest.approx(np.var(each, ddof=1))
    # A pair of a triple's predictions is not two independent ones: their errors differ.
    assert row["sampled error"] != pytest.approx(difference.std(ddof=1) / difference.size**0.5)
    assert graphs.with_errors(rows[:0]).empty


def test_auc_is_the_same_in_expectation_and_mrr_is_not():
    table = graphs.overview(["auc", "rr"], [5, 50])
    auc = table[table["metric"] == "auc"]
    assert auc["sampled"].to_numpy() == pytest.approx(auc["exact"].to_numpy(), abs=1e-12)
    rr = table[(table["metric"] == "rr") & (table["m"] == 5)]
    assert (rr["sampled"] > rr["exact"]).all()


# --- the bundle and its command -------------------------------------------------------------------


@pytest.mark.parametrize("graph", GRAPHS)
def test_bundled_ranks_are_whole(graph):
    ranks, facts = graphs.ranks(graph), graphs.facts(graph)
    assert list(ranks) == list(MODELS)
    sizes = [places.n_candidates for places in ranks.values()]
    assert all(np.array_equal(size, sizes[0]) for size in sizes)
    assert sizes[0].size == 2 * facts["test"]
    assert 2 <= sizes[0].min() <= sizes[0].max() <= facts["entities"]
    assert set(facts["versions"]) == {"numpy", "pykeen", "torch"}
    for name in MODELS:
        assert facts["models"][name]["settings"] == graphs.settings(graph, name)


SHAPE = {"entities": 9, "relations": 2, "training": 30, "validation": 3, "test": 3}


@pytest.fixture
def trained(monkeypatch):
    """Stands for PyKEEN: how often each model was asked for, and ranks that can be moved."""
    calls = []

    def compute(graph, name):
        calls.append((graph, name))
        settings = {"settings": graphs.settings(graph, name)}
        return RankIntervals([0, 3, 1, 0, 2, 5], [0, 1, 0, 0, 0, 0], [9, 9, 7, 9, 9, 8]), settings

    monkeypatch.setattr(graphs, "compute", compute)
    monkeypatch.setattr(graphs, "shape", lambda graph: dict(SHAPE))
    monkeypatch.setattr(graphs, "version", lambda name: "0")
    return calls


def test_the_command_trains_and_writes_all_models(trained, tmp_path, capsys):
    arguments = ["--graphs", "umls", "--output", str(tmp_path)]
    assert graphs.main(arguments) == 0
    assert trained == [("umls", name) for name in MODELS]
    assert capsys.readouterr().out.count("umls, ") == len(MODELS)
    assert list(graphs.ranks("umls", tmp_path)) == list(MODELS)
    assert graphs.facts("umls", tmp_path)["command"].endswith(
        "--graphs umls --output " + str(tmp_path)
    )

"""Retrieval models, and their metrics in reduced corpora."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_book.chapters import reduced_corpora
from sampled_book.data import collections, retrieval
from sampled_book.data.retrieval import Runs
from sampled_book.experiments import corpora
from sampled_metrics import metric, readers
from sampled_metrics.designs import one_sub_corpus
from sampled_metrics.log import pooled
from sampled_metrics.log.sub_corpus import Order
from tests.data import needs_data

DOCUMENTS = ["fast waves in tubes", "slow waves slow waves", "tubes", "mirrors and light"]


@pytest.fixture
def small():
    """Two models, two queries and thirty documents in random orders, with these orders."""
    rng = np.random.default_rng(4)
    orders = [[rng.permutation(30) for _ in range(2)] for _ in range(2)]
    relevant = [np.array([3, 11, 20]), np.array([7])]
    places = [
        [retrieval.places_of(*pair) for pair in zip(model, relevant, strict=True)]
        for model in orders
    ]
    return Runs(("a", "b"), np.array(places), np.array(orders)[:, :, :5], relevant), orders


def test_ranks_in_a_corpus_are_those_of_the_order_without_the_other_documents(small):
    runs, orders = small
    rng = np.random.default_rng(5)
    for _ in range(20):
        kept = rng.random(30) < 0.4
        for model in range(2):
            for query, relevant in enumerate(runs.relevant):
                corpus = [
                    document
                    for document in orders[model][query]
                    if kept[document] or document in relevant
                ]
                expected = [i for i, document in enumerate(corpus, 1) if document in relevant]
                assert corpora.ranks(runs, model, query, kept).tolist() == expected


@pytest.mark.parametrize("name", corpora.METRICS)
def test_metrics_are_those_of_the_library_or_of_their_definition(name):
    for found in ([1], [2, 5, 40], [11, 300], list(range(3, 30))):
        if name == "rr":
            expected = 1 / found[0]
        elif name.startswith("recall"):
            expected = sum(rank <= int(name[7:]) for rank in found) / len(found)
        else:
            ideal = sum(1 / math.log2(i + 1) for i in range(1, min(len(found), 10) + 1))
            expected = sum(1 / math.log2(rank + 1) for rank in found if rank <= 10) / ideal
        assert corpora.value(name, found) == pytest.approx(expected)
        if len(found) == 1:
            assert corpora.value(name, found) == pytest.approx(metric(name)(found[0], 400))


def test_a_reduced_corpus_never_lowers_a_metric(small):
    runs, _ = small
    exact = corpora.averages(runs)
    reduced = corpora.averages(runs, corpora.uniform(runs, 6, np.random.default_rng(1)))
    assert (reduced >= exact).all(axis=None)
    assert (reduced > exact).any(axis=None)
    pd.testing.assert_frame_equal(
        exact, corpora.averages(runs, corpora.uniform(runs, 26, np.random.default_rng(1)))
    )


def test_a_uniform_corpus_has_every_relevant_document_and_so_many_others(small):
    runs, _ = small
    kept = corpora.uniform(runs, 6, np.random.default_rng(1))
    assert kept.sum() == 4 + 6
    assert kept[[3, 7, 11, 20]].all()


def test_a_pool_of_all_models_leaves_their_first_documents_as_they_were(small):
    runs, orders = small
    kept = corpora.pool(runs, runs.models, 5)
    for model in range(2):
        for query, relevant in enumerate(runs.relevant):
            first = orders[model][query][:5]
            expected = [i for i, document in enumerate(first, 1) if document in relevant]
            found = corpora.ranks(runs, model, query, kept)
            assert found[found <= 5].tolist() == expected
    together = corpora.pool(runs, ["b"], 5)
    assert set(np.flatnonzero(together)) == {3, 7, 11, 20}.union(
        *(set(orders[1][query][:5]) for query in range(2))
    )


def test_reversed_pairs_are_counted_one_by_one():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 6, (2, 12))
    pairs = [(i, j) for i in range(12) for j in range(i) if a[i] != a[j] and b[i] != b[j]]
    wrong = sum((a[i] < a[j]) != (b[i] < b[j]) for i, j in pairs)
    assert corpora.reversals(a, b) == (wrong, len(pairs))


def test_bm25_and_likelihoods_are_their_definitions():
    documents, queries = retrieval.counts(DOCUMENTS, ["slow tube waves"])
    counts = documents.toarray()
    length, asked = counts.sum(axis=1), queries.toarray()[0]
    assert asked.sum() == 3
    bm25 = retrieval.bm25(documents, 1.2, 0.75).toarray()
    share = counts.sum(axis=0) / counts.sum()
    mixed = retrieval.dirichlet(documents, queries, 10.0)[0]
    linear = (queries @ retrieval.jelinek_mercer(documents, 0.4).T).toarray()[0]
    for d in range(4):
        likelihood = sum(
            asked[t] * math.log((counts[d, t] + 10 * share[t]) / (length[d] + 10))
            for t in np.flatnonzero(asked)
        )
        constant = sum(asked[t] * math.log(share[t]) for t in np.flatnonzero(asked))
        assert mixed[d] == pytest.approx(likelihood - constant)
        interpolated = sum(
            math.log(0.6 * counts[d, t] / length[d] + 0.4 * share[t]) - math.log(0.4 * share[t])
            for t in np.flatnonzero(asked)
        )
        assert linear[d] == pytest.approx(interpolated)
        for t in range(counts.shape[1]):
            n, tf = np.sum(counts[:, t] > 0), counts[d, t]
            idf = math.log(1 + (4 - n + 0.5) / (n + 0.5))
            norm = 1.2 * (0.25 + 0.75 * length[d] / length.mean())
            assert bm25[d, t] == pytest.approx(idf * tf * 2.2 / (tf + norm))


def test_feedback_adds_terms_of_the_first_documents():
    documents, queries = retrieval.counts(DOCUMENTS, ["slow"])
    first = retrieval.dirichlet(documents, queries)
    expanded = retrieval.feedback(documents, queries, first, n_documents=1).toarray()[0]
    counts = documents.toarray()[1] / 4
    assert expanded == pytest.approx(0.5 * queries.toarray()[0] + 0.5 * counts)


def test_fusion_adds_reciprocal_ranks():
    fused = retrieval.fuse([np.array([[3.0, 2, 1]]), np.array([[1.0, 3, 3]])])
    expected = [1 / 61 + 1 / 63, 1 / 62 + 1 / 61, 1 / 63 + 1 / 62]
    assert fused[0] == pytest.approx(expected)


def test_every_model_ranks_first_the_document_that_is_the_query():
    texts = [*DOCUMENTS, "glass mirrors bend rays", "slow clocks", "loud bells and tubes"]
    found = retrieval.scores(*retrieval.counts(texts, [texts[4]]), largest=5)
    assert len(found) == 11
    for name, matrix in found.items():
        assert matrix.shape == (1, 7), name
        assert retrieval.ordered(matrix[0])[0] == 4, name


@pytest.mark.parametrize(
    ("name", "queries", "documents", "pairs"),
    [("npl", 93, 11_426, 2_083), ("cranfield", 225, 1_400, 1_612)],
)
def test_bundled_places_fit_the_relevant_documents_and_the_first_ones(
    name, queries, documents, pairs
):
    runs = retrieval.bundled(name)
    assert runs.places.shape == (11, queries, documents)
    assert sum(map(len, runs.relevant)) == pairs
    for model in range(11):
        for query in range(0, queries, 7):
            relevant, places = runs.relevant[query], runs.places[model, query]
            assert sorted(places[relevant]) == list(range(relevant.size))
            top = runs.top[model, query].astype(int)
            above = np.cumsum(np.isin(top, relevant)) - np.isin(top, relevant)
            assert (places[top] == above).all()


@needs_data
def test_collections_are_read_whole():
    npl, cranfield = (collections.read(name) for name in ("npl", "cranfield"))
    assert [len(npl.documents), len(npl.queries), len(cranfield.documents)] == [11_426, 93, 1_400]
    assert npl.documents[-1].startswith("pattern detection and recognition")
    assert npl.queries[-1].startswith("HIGH FREQUENCY OSCILLATORS")
    assert cranfield.queries[0].startswith("what similarity laws")
    # Judgements that number the queries by their order: the first query's first document.
    assert 183 in cranfield.relevant[0]
    with pytest.raises(ValueError, match=r"name must be one of npl, cranfield, .*, got 'cacm'"):
        collections.read("cacm")


def test_places_of_more_relevant_documents_than_a_byte_counts():
    places = retrieval.places_of(np.arange(300)[::-1], np.arange(300))
    assert places.tolist() == list(range(300))[::-1]


def test_models_made_up_from_judgements_have_the_ndcg_they_are_given():
    rng = np.random.default_rng(3)
    relevant = [np.sort(rng.choice(400, 1 + query % 12, replace=False)) for query in range(60)]
    fusion, ease = rng.random((60, 400)), rng.gamma(2, 0.5, 60)
    for ndcg in (0.82, 0.9):
        made = retrieval.strong(fusion, relevant, ndcg, ease, np.random.default_rng(1))
        values = []
        for score, documents in zip(made, relevant, strict=True):
            ranks = [1 + np.sum(score > score[document]) for document in documents]
            values.append(corpora.value("ndcg@10", ranks))
        assert ndcg <= np.mean(values) < ndcg + 0.003


@needs_data
@pytest.mark.parametrize("name", ["cisi", "lisa", "cystic_fibrosis"])
def test_queries_and_documents_that_are_merely_numbered_alike_stay_apart(name):
    collection, rng = collections.read(name), np.random.default_rng(5)
    documents, queries = retrieval.counts(collection.documents, collection.queries)
    scores = (queries @ retrieval.bm25(documents, 1.2, 0.75).T).toarray()
    others = np.setdiff1d(np.arange(len(documents.indptr) - 1), np.concatenate(collection.relevant))
    ranked = np.setdiff1d(
        np.arange(scores.shape[1]), rng.choice(others, others.size * 3 // 4, False)
    )
    frames = []
    for prefix in ("", "query "):
        run = {
            f"{prefix}{q + 1}": {str(d + 1): float(row[d]) for d in ranked}
            for q, row in enumerate(scores)
        }
        qrels = dict(zip(run, ([str(d + 1) for d in r] for r in collection.relevant), strict=True))
        corpus = readers.ranx(run, qrels, corpus_size=scores.shape[1])
        assert corpus.own_id is None
        frames.append(sm.estimate(corpus, ["ndcg@10"]).frame)
    pd.testing.assert_frame_equal(*frames)


@needs_data
def test_bundled_rankings_of_cranfield_are_those_computed_anew():
    kept, anew = retrieval.bundled("cranfield"), retrieval.run("cranfield")
    assert kept.models == anew.models
    assert np.mean(kept.places != anew.places) < retrieval.TOLERANCE


@needs_data
def test_bundled_results_are_those_of_the_benchmark(tmp_path):
    for path in corpora.write(tmp_path):
        bundled = pd.read_csv(corpora.BUNDLE / path.name)
        pd.testing.assert_frame_equal(pd.read_csv(path), bundled)


def test_nanobeir_is_compared_by_the_split_of_its_queries():
    table = corpora.by_task(corpora.results(), "nano")
    assert len(table) == len(corpora.sizes()) == 13
    assert set(table["task"]) == set(corpora.sizes()["task"])
    scores = pd.DataFrame(
        [
            ("m", "MSMARCO", "full", "dev", 0.4),
            ("m", "MSMARCO", "full", "test", 0.7),
            ("m", "MSMARCO", "nano", "train", 0.6),
            ("m", "MSMARCO", "hard", "test", 0.7),
            ("m", "NQ", "full", "test", 0.5),
        ],
        columns=["model", "task", "kind", "split", "ndcg_at_10"],
    ).assign(recall_at_100=1.0)
    kept = corpora.chosen(scores)
    assert kept[["task", "kind", "ndcg_at_10"]].to_numpy().tolist() == [
        ["MSMARCO", "full", 0.4],
        ["MSMARCO", "nano", 0.6],
    ]


def test_orders_of_tasks_and_of_means_are_counted():
    scores = pd.DataFrame(
        [
            (model, task, kind, score)
            for task, rows in {
                "S": {"a": (0.1, 0.3), "b": (0.2, 0.21), "c": (0.3, 0.5)},
                "T": {"a": (0.1, 0.2), "b": (0.3, 0.3), "c": (0.2, 0.6)},
            }.items()
            for model, pair in rows.items()
            for kind, score in zip(("full", "nano"), pair, strict=True)
        ],
        columns=["model", "task", "kind", "ndcg_at_10"],
    )
    table = corpora.by_task(scores, "nano").set_index("task")
    assert table["reversed"].to_dict() == {"S": 1, "T": 1}
    assert table["differs"].to_dict() == {"S": False, "T": True}
    assert table.loc["S", "difference"] == pytest.approx(0.41 / 3)
    means = corpora.of_means(scores.query("model != 'c' or task != 'S'"), "nano")
    assert list(means.index) == ["a", "b"]


def test_models_whose_reduced_score_dropped_are_left_out_of_that_task_alone():
    rows = [
        (task, model, kind, score)
        for task, model, full, hard in (
            ("S", "a", 0.5, 0.44),
            ("S", "b", 0.5, 0.46),
            ("T", "a", 0.3, 0.9),
            ("T", "b", 0.3, 0.3),
        )
        for kind, score in (("full", full), ("hard", hard), ("nano", 0.1))
    ]
    scores = pd.DataFrame(rows, columns=["task", "model", "kind", "ndcg_at_10"])
    kept = corpora.without_drops(scores, "hard", 0.05)
    assert len(kept) == 9
    assert {*zip(kept["task"], kept["model"], strict=True)} == {("S", "b"), ("T", "a"), ("T", "b")}


def test_a_few_runs_of_other_settings_make_most_reversals_of_hard_negatives():
    scores = corpora.results()
    pairs = corpora.both(scores, "hard")
    low = pairs[pairs["reduced"] < pairs["full"] - 0.05]
    assert (len(low), low["model"].nunique()) == (66, 28)
    counts = []
    for part in (scores, corpora.without_drops(scores, "hard", 0.05)):
        tasks = corpora.by_task(part, "hard")
        counts.append(tasks[["reversed", "pairs"]].sum().tolist())
    assert counts == [[4_513, 45_386], [829, 34_685]]


def test_ranges_on_one_corpus_seldom_miss_and_no_verdict_was_wrong():
    folder = Path(__file__).parents[2] / "benchmarks"
    counted = pd.read_csv(folder / "collections.csv")
    assert (counted["missed"] <= 0.075 * counted["samples"]).all()
    assert pd.read_csv(folder / "collections_pairs.csv")["wrong"].sum() == 0


def test_leaders_are_right_as_often_as_counted():
    counted = pd.read_csv(Path(__file__).parents[2] / "benchmarks/collections_pairs.csv")
    for name, shares in one_sub_corpus.RIGHT.items():
        kind = "estimate" if name == "recall@100" else "reported"
        own = counted[counted["metric"] == name].groupby(["share", "lead"]).sum(numeric_only=True)
        right = 1 - (own[f"reversed_{kind}"] / own["pairs"]).unstack("lead")
        assert right.columns.tolist() == list(one_sub_corpus.LEADS)
        least = right.min().clip(upper=0.99)
        assert ((least - np.array(shares)).between(-1e-12, 0.01)).all()


def test_expected_ndcg_is_the_mean_over_all_corpora(small):
    runs, _ = small
    others = [d for d in range(30) if d not in {3, 7, 11, 20}]
    found = corpora.expected(runs, (0, 2, 26))
    for column, size in enumerate((0, 2, 26)):
        every = []
        for drawn in itertools.combinations(others, size):
            kept = np.zeros(30, dtype=bool)
            kept[[3, 7, 11, 20, *drawn]] = True
            every.append(corpora.averages(runs, kept)["ndcg@10"].to_numpy())
        assert found.iloc[:, column].to_numpy() == pytest.approx(np.mean(every, axis=0))


@pytest.mark.parametrize(("hubs", "effect"), [([1, 1, 1], 3), ([1, 1, 2], 1 / 3)])
def test_design_effects_of_the_toy_are_those_of_the_chapter(hubs, effect):
    relevant = [np.array([0])] * 3
    orders = [np.array([hub, 0, 3 - hub]) for hub in hubs]
    places = [retrieval.places_of(*pair) for pair in zip(orders, relevant, strict=True)]
    toy = Runs(("Steady",), np.array([places]), np.array([orders]), relevant)
    assert corpora.design_effects(toy, 1, 20, metric_name="rr") == pytest.approx([effect])


def test_all_queries_reverse_nothing_and_few_do(small):
    runs = retrieval.bundled("cranfield")
    assert corpora.fewer_queries(runs, 225, draws=2) == 0
    assert corpora.fewer_queries(runs, 10, draws=20) > corpora.fewer_queries(runs, 150, draws=20)
    assert corpora.by_query(small[0]).mean(axis=1) == pytest.approx(
        corpora.averages(small[0])["ndcg@10"].to_numpy()
    )


def test_gaps_hold_the_pairs_and_reversals_of_the_tasks():
    pairs = corpora.gaps(corpora.results(), "nano")
    table = corpora.by_task(corpora.results(), "nano")
    assert len(pairs) == table["pairs"].sum()
    assert (pairs["full"] < 0).sum() == table["reversed"].sum()
    edges = corpora.reversed_by_gap(pairs, (0.005, 0.05))
    assert edges["pairs"].sum() == len(pairs)
    assert edges["reversed"].sum() == table["reversed"].sum()
    assert edges["share"].is_monotonic_decreasing
    few = corpora.reversed_by_gap(pd.DataFrame({"reduced": [0.1, 0.2], "full": [-1, 1]}), (0.1,))
    assert few["share"].tolist() == [1, 0]


def test_plans_compare_pools_with_uniform_corpora_of_their_size():
    runs = retrieval.bundled("npl")
    plans = reduced_corpora.plans(runs, (30,), (93,), seed=0, draws=2)
    pool, drawn, everything = plans.itertuples(index=False)
    assert pool.documents == drawn.documents < everything.documents == 11_426
    assert 0 < pool.rise < drawn.rise
    assert (everything.rise, everything.reversed) == (0, 0)
    exact, rises, reversed_pairs = corpora.by_query(runs).mean(axis=1), [], []
    for draw in range(2):
        size = drawn.documents - 1_735
        kept = corpora.uniform(runs, size, np.random.default_rng([0, size, draw]))
        values = corpora.by_query(runs, kept=kept).mean(axis=1)
        rises.append((values - exact).mean())
        pairs = itertools.combinations(zip(exact, values, strict=True), 2)
        reversed_pairs.append(sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs))
    assert np.mean(rises) == pytest.approx(drawn.rise, abs=0.01)
    assert drawn.reversed == np.mean(reversed_pairs) > 0


def orders_over(runs, model, kept):
    """What a run of one model over a sub-corpus says of its best relevant documents."""
    relevant = np.isin(np.arange(runs.n_documents), np.concatenate(runs.relevant))
    sampled, by_query = kept & ~relevant, []
    for places, own in zip(runs.places[model], runs.relevant, strict=True):
        others = relevant & ~np.isin(np.arange(runs.n_documents), own)
        position, n_above = 1 + np.sum(places[others] == 0), np.sum(places[sampled] == 0)
        by_query.append([Order(np.array([position]), np.array([n_above]), own, places[sampled])])
    return by_query, int(relevant.sum()), int(sampled.sum())


def test_shallow_pools_are_noted_and_uniform_corpora_are_not():
    """On NPL, each system alone: 10 first documents of a model, or 969 uniform others."""
    runs, rng = retrieval.bundled("npl"), np.random.default_rng(4)
    noted = {"uniform": [], "pool": []}
    for number in (0, 5, 8):
        drawn = {
            "uniform": corpora.uniform(runs, 969, rng),
            "pool": corpora.pool(runs, [runs.models[number]], 10),
        }
        for kind, kept in drawn.items():
            for model in range(len(runs.models)):
                by_query, n_kept, n_sampled = orders_over(runs, model, kept)
                found = pooled.excess({"A": by_query}, n_kept, n_sampled)
                noted[kind].append(found > pooled.LIMIT)
    assert sum(noted["uniform"]) == 0
    assert np.mean(noted["pool"]) > 0.85

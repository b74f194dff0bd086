"""Scores on pooled corpora, and how far the full ones may lie below."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import retrieval
from sampled_book.data.retrieval import Runs, bundled
from sampled_book.experiments import corpora, pooled


@pytest.fixture
def small():
    """Four models with something in common, three queries, eighty documents."""
    rng = np.random.default_rng(7)
    relevant = [np.array([3, 40]), np.array([7]), np.arange(20, 33)]
    common = rng.normal(size=(3, 80))
    for query, documents in enumerate(relevant):
        common[query, documents] += 1.5
    orders = np.argsort(-(common + rng.normal(size=(4, 3, 80))), axis=2)
    places = [
        [retrieval.places_of(*pair) for pair in zip(model, relevant, strict=True)]
        for model in orders
    ]
    return Runs(tuple("abcd"), np.array(places), orders[:, :, :12], relevant)


def score(runs, name, model, kept):
    """A metric's mean, of ranks that are counted in the corpora (queries, documents)."""
    total = 0.0
    for query in range(len(runs.relevant)):
        found = corpora.ranks(runs, model, query, kept[query])
        if name == "rr@10":
            total += 1 / found[0] if found[0] <= 10 else 0
        else:
            total += corpora.value(name, found)
    return total / len(runs.relevant)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("depth", [10, 12])
def test_scores_are_those_of_the_corpus_of_each_pool(small, depth, shared):
    values, full = pooled.scores(small, depth, shared=shared)
    everything = np.ones((3, 80), dtype=bool)
    for row, name in enumerate(pooled.METRICS):
        for model in range(4):
            expected = score(small, name, model, everything)
            assert full[row, model] == pytest.approx(expected)
            for number in range(1, 16):
                chosen = [name for i, name in enumerate("abcd") if number >> i & 1]
                kept = corpora.pool(small, chosen, depth, by_query=not shared)
                kept = np.broadcast_to(kept, everything.shape)
                assert values[row, number, model] == pytest.approx(
                    score(small, name, model, kept)
                ), (name, number, model)


def test_a_models_own_pool_leaves_its_score_exact(small):
    values, full = pooled.scores(small, 10)
    for model in range(4):
        np.testing.assert_allclose(values[:, 1 << model, model], full[:, model])
    assert (values[:, 0] > full + 0.05).all(), "without a pool every score is too high"


def test_depths_short_of_the_metrics_are_refused(small):
    for depth in (9, 13):
        with pytest.raises(ValueError, match=f"depth must be from 10 to 12, got {depth}"):
            pooled.scores(small, depth)


def test_rises_of_models_left_out_are_counted_one_by_one(small):
    values, full = (part[0] for part in pooled.scores(small, 10))
    largest, sums = pooled.left_out(values, full), pooled.singles(values)
    for pool in range(16):
        members = [i for i in range(4) if pool >> i & 1]
        rises = [values[pool - 2**i, i] - full[i] for i in members]
        assert largest[pool] == pytest.approx(max(rises, default=0))
        for model in range(4):
            lost = [values[pool - 2**i, model] - values[pool, model] for i in members]
            assert sums[pool, model] == pytest.approx(sum(lost))


def test_of_models_left_out_in_turn_at_most_one_rises_by_more():
    rng, misses = np.random.default_rng(8), []
    for _ in range(40):
        # A corpus is a set of documents; a score falls with those of the model's own list in it.
        lists = rng.random((4, 12)) < 0.4
        inside = np.array([np.any(lists[[i for i in range(4) if p >> i & 1]], axis=0)
                           if p else np.zeros(12, dtype=bool) for p in range(16)])  # fmt: skip
        values = 1 - inside @ lists.T / 12
        full = 1 - lists.sum(axis=1) / 12
        limit = pooled.left_out(values, full)
        misses.append(sum(values[15 - 2**i, i] - full[i] > limit[15 - 2**i] for i in range(4)))
    assert set(misses) == {0, 1}


def test_a_pool_that_hides_nothing_is_not_contradicted_and_an_outsider_is():
    alike = np.array([[1.0] * 3] + [[0.5] * 3] * 7)
    full = np.full(3, 0.5)
    assert not pooled.contradicted(alike, full, pooled.widths(alike, full, 100)).any()
    outsider = alike.copy()
    outsider[1:4, 2] = 0.9  # pools of the first two models miss what the third ranks high
    wrong = pooled.contradicted(outsider, full, pooled.widths(outsider, full, 100))
    assert np.flatnonzero(wrong).tolist() == [7]


def test_the_record_on_cranfield():
    rows = pooled.record(bundled("cranfield"), 30, pooled.FAMILIES)
    rows = rows[rows["size"] >= 3]
    for _, part in rows.groupby("metric"):
        assert (part["rise"] > -1e-12).all()
        assert (part["rise"] <= part["width"]).mean() >= 0.95
        for size, pools in part.groupby("size"):
            held = pools["rise"] <= pools["left_out"] + 1e-12
            assert held.mean() >= size / (size + 1)
        assert (part["width"] / part["printed"]).median() <= 0.5


def test_a_pool_of_one_kind_says_little_about_another():
    values, full = (part[0] for part in pooled.scores(bundled("npl"), 30))
    width = pooled.widths(values, full, 93)
    lexical = [0, 1, 2, 3, 4, 5, 9]
    pools = [sum(1 << i for i in chosen) for chosen in itertools.combinations(lexical, 4)]
    latent = [6, 7, 8]
    held = (values - full <= width)[np.ix_(pools, latent)]
    assert held.mean() < 0.6
    assert not pooled.contradicted(values, full, width)[pools].any(), "and nothing warns"


def test_the_record_is_counted_by_size_of_the_pool():
    rows = pd.DataFrame(
        [
            # size, model, rise, width, printed, relative, lexical, contradicted
            (2, 0, 0.1, 0.2, 0.5, True, False, False),
            (4, 1, 0.3, 0.2, 0.4, False, True, False),
            (6, 0, 0.1, 0.1, 0.5, False, True, True),
            (5, 1, 0.0, 0.1, 0.0, True, False, True),
        ],
        columns=["size", "model", "rise", "width", "printed", "relative", "lexical",
                 "contradicted"],
    ).assign(metric="ndcg@10")  # fmt: skip
    two, more = pooled.counted(rows, ("a", "LSA 20")).to_dict("records")
    assert two == {
        "metric": "ndcg@10", "size": 2, "pairs": 1, "held": 1, "foreign": 0, "foreign_held": 0,
        "lexical": 0, "lexical_held": 0, "weak": 0, "noticed": 0, "width": 0.4,
    }  # fmt: skip
    assert more == {
        "metric": "ndcg@10", "size": 4, "pairs": 3, "held": 2, "foreign": 2, "foreign_held": 1,
        "lexical": 2, "lexical_held": 1, "weak": 1, "noticed": 1, "width": 0.2,
    }  # fmt: skip


def test_lexical_pairs_are_lsa_models_outside_pools_that_match_words(small):
    rows = pooled.record(small, 10, "TLBS").query("metric == 'ndcg@10'")
    assert {*zip(rows["pool"], rows["model"], rows["lexical"], strict=True)} == {
        (pool, model, (pool, model) == (0b0101, 1))
        for pool in range(16)
        for model in range(4)
        if pool.bit_count() in (2, 3) and not pool >> model & 1
    }


def test_the_bundled_record_counts_every_pool_and_keeps_what_the_page_says():
    table = pooled.table()
    assert len(table) == 7 * 3 * 3 * 3
    # Pools of 2, 3, and 4 to 6 of thirteen models, each with the models outside.
    for size, sizes in ((2, [2]), (3, [3]), (4, [4, 5, 6])):
        pairs = sum(math.comb(13, k) * (13 - k) for k in sizes)
        assert set(table.loc[table["size"] == size, "pairs"]) == {pairs}
        lexical = 3 * sum(math.comb(7, k) for k in sizes)
        assert set(table.loc[table["size"] == size, "lexical"]) == {lexical}
    for part in ("", "foreign_", "lexical_"):
        assert (table[part + "held"] <= table[part.rstrip("_") or "pairs"]).all()
    worst = pooled.worst(table)
    npl = table[(table["collection"] == "npl") & (table["depth"] == 30) & (table["size"] == 4)]
    share = (npl["lexical_held"] / npl["lexical"]).set_axis(npl["metric"])
    assert worst.loc[(30, 4, "ndcg@10"), "lexical"] <= share["ndcg@10"] < 0.7
    assert worst.loc[(30, 4), "held"].min() > 0.95


def test_the_table_has_the_record_of_the_first_queries_at_each_depth(small, tmp_path, monkeypatch):
    names = ("TF-IDF", "LSA 20", "BM25", "Strong 1")
    monkeypatch.setattr(pooled.collections, "NAMES", ("a", "b"))
    monkeypatch.setattr(
        pooled.retrieval, "ranked", lambda name, cache: replace(small, models=names)
    )
    monkeypatch.setattr(pooled, "DEPTHS", (10, 12))
    monkeypatch.setattr(pooled, "MOST_QUERIES", 2)
    monkeypatch.setattr(pooled, "FAMILIES", "TL")
    assert pooled.main(["--output", str(tmp_path)]) == 0
    written = pd.read_csv(tmp_path / "pooled.csv")
    assert list(written.columns) == list(pooled.table().columns)
    assert set(zip(written["collection"], written["depth"], strict=True)) == {
        (name, depth) for name in "ab" for depth in (10, 12)
    }
    few = replace(small, models=names, places=small.places[:, :2], top=small.top[:, :2],
                  relevant=small.relevant[:2])  # fmt: skip
    expected = pooled.counted(pooled.record(few, 12, "TLSS"), names)
    last = written[(written["collection"] == "b") & (written["depth"] == 12)]
    assert last["held"].tolist() == expected["held"].tolist()
    assert last["width"].to_numpy() == pytest.approx(expected["width"].to_numpy(), rel=1e-3)

"""Kinds of recommenders that the record was not calibrated on, judged by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sampled_book.chapters import track_record as chapter
from sampled_book.data import benchmark
from sampled_book.experiments import judged_kinds
from sampled_book.experiments.learned_prior import group_by_data
from sampled_book.experiments.track_record import drawn
from sampled_metrics.designs import track_record
from sampled_metrics.ranking.intervals import RankIntervals


def test_twins_are_versions_beside_the_model_whose_name_comes_before_the_comma():
    names = ["BPR", "BPR, another seed", "BPR, one epoch more", "ALS", "ALS, another seed"]
    pairs = judged_kinds.twins(dict.fromkeys(names))
    assert pairs == [[name.partition(",")[0], name] for name in names if "," in name]


def test_judged_rows_are_about_the_special_recommender_and_the_exact_order():
    ranks = benchmark.ranks("filmtrust")
    chosen = {name: ranks[name] for name in ("Item cosine", "Popular", "EASE")}
    log = drawn(chosen, 100, False, np.random.default_rng(1))
    rows = pd.DataFrame(judged_kinds.judged(log, chosen, {"EASE"}))
    ranges, pairs = (rows[rows["what"] == what] for what in ("range", "pair"))
    assert ranges["first"].tolist() == ["EASE"] * 2
    assert len(pairs) == 4
    assert ((pairs["first"] == "EASE") | (pairs["second"] == "EASE")).all()
    # A verdict is never on a pair outside the scope.
    assert not (pairs["said"] & ~pairs["known"]).any()


@pytest.mark.parametrize("kind", judged_kinds.KINDS)
def test_kinds_are_kept_apart_and_have_the_benchmarks_users(kind):
    folder = benchmark.BUNDLE / kind
    paths = sorted(folder.glob("*.npz"))
    if kind == "neural":  # sequential ones are in the record
        paths = [p for p in paths if benchmark.ranks(p.stem, folder).keys() - {"SASRec", "GRU4Rec"}]
    names = [path.stem for path in paths]
    assert names
    rows = judged_kinds.bundled()
    assert set(rows.loc[rows["kind"] == kind, "data"]) == set(names)
    for name in names:
        special = benchmark.ranks(name, folder)
        assert all(isinstance(part, RankIntervals) for part in special.values())
        if kind != "ratings":
            usual = next(iter(benchmark.ranks(name).values()))
            for part in special.values():
                np.testing.assert_array_equal(part.n_candidates, usual.n_candidates)


def test_decide_counts_mult_vae_twins_by_model_and_ranges_of_rating_predictors():
    text = Path(__file__).resolve().parents[2] / "book/library/decide.md"
    words = " ".join(text.read_text(encoding="utf-8").split())
    rows = judged_kinds.bundled()
    vae = rows[(rows["kind"] == "neural") & rows["said"]].assign(wrong=lambda t: ~t["right"])
    verdicts, ranges = (vae[vae["what"] == what] for what in ("pair", "range"))
    groups = ranges["data"].map(group_by_data())
    assert set(verdicts["first"]) | set(verdicts["second"]) > {"MultiVAE"} == set(ranges["first"])
    assert f"on {ranges['data'].nunique()} data sets from {groups.nunique()} sources" in words
    assert f"{verdicts['wrong'].sum()} of {len(verdicts)} verdicts were wrong" in words
    assert f"{ranges['wrong'].sum()} of {len(ranges)} ranges missed" in words
    by_source = chapter.by_source(rows, "neural").set_index(["what", "metric"])
    share = by_source.loc[("pair", "NDCG@10"), "of_said"]
    assert f"On NDCG@10 {share:.1%} of its verdicts were wrong" in words
    twins = rows[(rows["kind"] == "twins") & (rows["what"] == "pair")]
    said = twins[twins["said"]]
    halved = said[said["second"] == "ALS, half the factors"]
    rest = said.drop(halved.index)
    assert halved["right"].all()
    assert (~rest["right"]).sum() == 2
    assert f"{len(twins)} times. Only {len(said)} got a verdict" in words
    assert f"{len(halved)} of them on ALS with half its factors, all right" in words
    assert f"Of the other {len(rest)} two were wrong" in words
    ratings = rows[(rows["kind"] == "ratings") & (rows["what"] == "range") & rows["said"]]
    assert f"{(~ratings['right']).sum()} of {len(ratings)} typical ranges" in words
    assert (
        f"of {len(ratings)} ranges of models that predict ratings, {(~ratings['right']).sum()} "
        "missed the exact value"
    ) == track_record.RATINGS_MISSED


def test_the_counts_of_a_table_by_hand():
    rows = pd.DataFrame(
        {
            "kind": "neural", "metric": "ndcg@10", "what": ["range"] * 4 + ["pair"] * 5,
            "known": [True, True, False, True, True, True, True, False, True],
            "said": [True, True, False, True, True, False, True, False, False],
            "right": [True, False, False, True, True, False, False, True, True],
            "data": list("aabbaabba"), "first": list("ABABABABA"), "second": "",
        }
    )  # fmt: skip
    (row,) = chapter.kinds_table(rows).to_dict("records")
    assert (row["Ranges"], row["Hold"]) == (3, pytest.approx(2 / 3))
    assert (row["Pairs"], row["In scope"], row["Verdicts"], row["Wrong"]) == (5, 4, 2, 1)
    assert row["Right, undecided"] == pytest.approx(1 / 2)


def test_shares_of_a_kind_are_averaged_over_sources():
    rows = pd.DataFrame(
        {
            "kind": "neural", "metric": "ndcg@10", "what": "pair",
            "said": [True, True, True, True, False, True],
            "right": [False, True, True, True, False, True],
            "data": ["ml-100k", "ml_latest_small", "ml-100k", "ml-100k", "ml-100k", "lastfm"],
        }
    )  # fmt: skip
    (row,) = chapter.by_source(rows, "neural").to_dict("records")
    assert (row["sources"], row["said"], row["wrong"]) == (2, 5, 1)
    assert (row["of_said"], row["of_all"]) == (pytest.approx(0.1 / 0.9), 0.1)
    assert (row["worst"], row["source"]) == (0.2, "movielens")


def test_the_summary_averages_calibrating_sources():
    groups = pd.DataFrame(
        {
            "metric": "ndcg@10", "n_negatives": 100, "group": list("ab"),
            "holds": [1.0, 0.9], "called": [0.5, 0.0], "wrong": [0.05, 0.0],
            "width": [0.5, 0.7],
        }
    )  # fmt: skip
    (row,) = chapter.summary(groups).to_dict("records")
    assert (row["metric"], row["m"], row["sources"]) == ("NDCG@10", 100, 2)
    assert (row["holds"], row["worst"]) == (pytest.approx(0.95), 0.9)
    assert (row["called"], row["wrong"]) == (0.25, 0.025)
    assert row["wrong_called"] == pytest.approx(0.1)
    assert row["factor"] == pytest.approx(np.exp(0.6))

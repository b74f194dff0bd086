"""The track record is what its evaluations say, and says no more than they do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sampled_book.chapters import track_record as chapter
from sampled_book.data import benchmark, sources
from sampled_book.experiments import evidence
from sampled_book.experiments import track_record as evaluations
from sampled_book.experiments.conformal import fewest_groups
from sampled_book.experiments.learned_prior import FAMILY_OF
from sampled_metrics import learned_prior
from sampled_metrics.designs import track_record
from sampled_metrics.ranking.intervals import RankIntervals

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Estimates of NDCG@10, and the errors of their differences."""
    return tuple(
        table[table["metric"] == "ndcg@10"] for table in map(evaluations.bundled, evaluations.KINDS)
    )


@pytest.fixture(scope="module")
def left_out() -> pd.DataFrame:
    """Each group judged without it, on two metrics."""
    return chapter.left_out(("recall@10", "ndcg@10"))


def test_the_library_holds_what_the_evaluations_calibrate(tables):
    stored = track_record.record("ndcg@10", 100)
    own, pairs = (
        table[table["up_to"] == 100] for table in evaluations.of_metric(*tables, "ndcg@10")
    )
    assert evaluations.reach(own) == pytest.approx(stored.typical, abs=0.001)
    assert evaluations.decided(pairs) == pytest.approx(stored.decided, abs=0.001)


def test_the_scope_that_the_library_states_is_that_of_the_evaluations(tables):
    stored, estimates = track_record._stored(), tables[0]
    scope = stored["scope"]
    assert scope["users"] == [estimates["n_users"].min(), estimates["n_users"].max()]
    assert scope["negatives for each user"] == [19, 1_000]
    assert set(track_record._stored()["metrics"]) == set(evaluations.METRICS)
    names = {path.stem for path in benchmark.BUNDLE.glob("*.npz")}
    assert set(stored["data"]) == set(estimates["data"]) <= names
    listed = sources.table().set_index("name")["group"]
    assert stored["sources"] == len(set(listed[stored["data"]]))
    # No recommender is judged by a prior that was learned from its source.
    assert set(stored["data"]) == set(learned_prior.stored()["data"])


def test_evaluations_are_drawn_again_as_they_are_kept(tables):
    ((_, prior),) = evaluations.priors_without(["movielens"])
    drawn = next(evaluations.logs("ml-100k", evaluations.ranks_of("ml-100k"), 50, 1, prior))
    keys = [*evaluations.LOG, "metric"]
    columns = ["exact", "estimate", "error", "first"]
    for table, kept, names, compared in (
        (drawn[0], tables[0], ["recommender"], columns),
        (drawn[1], tables[1], ["first", "second"], ["error", "likeness"]),
    ):
        both = table[table["metric"] == "ndcg@10"].merge(
            kept, on=[*keys, *names], suffixes=("", "_kept")
        )
        assert len(both) == evaluations.GROUP
        for column in compared:
            np.testing.assert_allclose(both[column], both[f"{column}_kept"], rtol=1e-3, atol=1e-6)


def test_ranks_in_a_part_of_the_catalogue_are_hypergeometric():
    ranks = RankIntervals(*np.full((20_000, 3), [30, 10, 101]).T)
    users, rng = np.arange(20_000), np.random.default_rng(3)
    part = evaluations.thinned(ranks, users, 0.3, rng)
    assert (part.n_candidates == 31).all()
    # Means and variance of 30 draws from 100 of which 30 are above, and 10 tie.
    assert part.n_better.mean() == pytest.approx(9.0, abs=0.05)
    assert part.n_better.var() == pytest.approx(30 * 0.3 * 0.7 * 70 / 99, rel=0.05)
    assert part.n_tied.mean() == pytest.approx(3.0, abs=0.05)
    whole = evaluations.thinned(ranks, users[:2], 1.0, rng)
    assert whole.n_better.tolist() == [30, 30]


def test_the_prior_of_a_source_is_learned_from_the_others():
    """Learned without MovieLens, it is the one that the library keeps for its own log."""
    ((_, prior),) = evaluations.priors_without(["movielens"])
    kept = learned_prior.learned("movielens")
    for anew, stored in zip(prior[:3], kept[:3], strict=True):
        np.testing.assert_allclose(anew, stored, rtol=2e-5, atol=1e-9)
    assert prior.families.keys() == kept.families.keys()
    assert not np.allclose(prior.mean, learned_prior.learned().mean, rtol=1e-3)


@pytest.mark.parametrize("replacement", [False, True])
def test_users_may_have_different_numbers_of_negatives(replacement):
    ranks = {"A": RankIntervals(*np.full((9_000, 3), [30, 10, 101]).T)}
    numbers = np.tile([18, 20], 4_500)
    log = evaluations.drawn(ranks, numbers, replacement, np.random.default_rng(1))
    frame = log.frame
    for m in (18, 20):
        part = frame[frame["n_negatives"] == m]
        assert part["n_better"].mean() == pytest.approx(0.3 * m, abs=0.1)
        assert part["n_tied"].mean() == pytest.approx(0.1 * m, abs=0.1)
        without = (100 - m) / 99
        variance = m * 0.3 * 0.7 * (1.0 if replacement else without)
        assert part["n_better"].var() == pytest.approx(variance, rel=0.08)


def drawn_pairs(number: int, n_sources: int) -> pd.DataFrame:
    """Pairs whose differences of logarithms have normal errors of a known scale."""
    rng = np.random.default_rng(4)
    error = rng.uniform(0.05, 0.3, number)
    lead, off = rng.normal(0.0, 0.4, number), error * rng.normal(size=number)
    source = np.arange(number) % n_sources
    strengths = track_record.strength(np.abs(lead + off), error, 0.0, False)
    right = lead * (lead + off) > 0
    return pd.DataFrame({"data": source, "group": source, "strength": strengths, "right": right})


def test_scores_and_strengths_by_hand():
    rows = {"data": "a", "n_negatives": 100, "draw": 0, "metric": "ndcg@10"}
    table = pd.DataFrame(
        {**rows, "recommender": ["A", "B"], "exact": [0.1, 0.0], "estimate": [0.2, 0.05],
         "error": [0.3, 0.4], "n_users": 500}
    )  # fmt: skip
    expected = [np.log(2) / np.hypot(0.3, 0.1), np.log(0.05 * 500) / np.hypot(0.4, 0.1)]
    assert evaluations.scores(table) == pytest.approx(expected)
    both = {"first": ["B"], "second": ["A"], "error": 0.2, "group": "g", "likeness": 0.75}
    differences = pd.DataFrame(rows | both)
    (pair,) = evaluations.pairs_of(table, differences).itertuples()
    assert pair.strength == pytest.approx(0.5 * np.log(4) / np.hypot(0.2, 0.01))
    assert pair.right
    assert not pair.sequential
    named = {"A": "GRU4Rec"}
    table["recommender"], differences["second"] = table["recommender"].replace(named), "GRU4Rec"
    (between,) = evaluations.pairs_of(table, differences).itertuples()
    assert between.strength == pytest.approx(0.4 * pair.strength)
    assert between.sequential


def test_likenesses_are_correlations_of_exact_shares():
    rng, numbers = np.random.default_rng(3), np.resize([20, 50], 60_000)
    exact = rng.integers(0, 1_000, (3, numbers.size))
    exact[2] = np.where(rng.random(numbers.size) < 0.8, exact[0], exact[2])
    shares = rng.hypergeometric(exact, 1_000 - exact, numbers) / numbers
    found = evaluations.likenesses(shares, numbers, np.full(numbers.size, 1_001))
    np.testing.assert_allclose(found, [[1, 0, 0.8], [0, 1, 0], [0.8, 0, 1]], atol=0.03)


def test_the_least_sure_strength_by_hand():
    pairs = pd.DataFrame({"group": "g", "data": "d", "strength": np.arange(100.0), "right": True})
    pairs.loc[[2, 50], "right"] = False
    # From 3 on one of 97 is wrong, from 2 on two of 98; from 50 on it would be one of 50.
    assert evaluations.WRONG_VERDICTS == 0.015
    assert evaluations.least_sure(pairs) == 3.0
    assert evaluations.least_sure(pairs.assign(right=False)) == np.inf


def test_groups_and_sets_count_alike():
    table = pd.DataFrame({"group": list("aaaab"), "data": list("xxxyz")})
    weights = evaluations.weights_of(table)
    assert weights == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2, 1])


def test_odds_rise_and_are_shares_between_strengths():
    pairs = drawn_pairs(40_000, n_sources=24)
    steps, strengths = evaluations.odds(pairs), pairs["strength"]
    for (start, share, low), (end, *_) in zip(steps, [*steps[1:], (np.inf, 1, 1)], strict=True):
        here = (strengths >= start) & (strengths < end)
        assert share == pytest.approx(min(pairs["right"][here].mean(), 0.99), abs=0.02)
        assert low <= share
    assert [share for _, share, _ in steps] == sorted(share for _, share, _ in steps)


def test_the_record_holds_on_each_group_left_out(left_out):
    at_100 = left_out.query("metric == 'ndcg@10' and n_negatives == 100")
    assert len(at_100) == 32
    assert at_100["holds"].mean() >= 0.95
    assert at_100["holds"].min() >= 0.75
    assert np.exp(at_100["width"].median()) <= 1.8
    assert at_100["called"].mean() >= 0.62
    assert at_100["wrong"].sum() <= 0.02 * at_100["called"].sum()


def test_a_folder_with_few_sources_gives_no_theorem(tmp_path, capsys):
    for suffix in ("npz", "json"):
        kept = benchmark.BUNDLE / f"filmtrust.{suffix}"
        (tmp_path / kept.name).write_bytes(kept.read_bytes())
    (tmp_path / "sources.csv").write_text("name,group\nfilmtrust,films\n")
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    for kind in evaluations.KINDS:
        kept = evaluations.BUNDLE / f"filmtrust.{kind}.csv.gz"
        (evidence / kept.name).write_bytes(kept.read_bytes())
    assert evaluations.main(["--ranks", str(tmp_path), "--fit-only"]) == 0
    assert "no theorem: it takes 19 sources to calibrate, got 1" in capsys.readouterr().out
    stored = pd.read_json(tmp_path / "track_record.json", typ="series")
    assert stored["metrics"]["ndcg@10"]["by_negatives"][2]["typical"] is None
    assert evaluations.main(["--ranks", str(tmp_path / "none")]) == 2


def test_the_page_states_the_shares_that_are_counted(left_out):
    text = (ROOT / "book/library/decide.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\d+) \| (\w+@10) \| (\d+)% \| ([\d.]+)% \| (\d+) of ([\d,]+) \|$", text, flags=re.M
    )
    assert len(rows) == 4
    by_theorem = evidence.bundled("verdicts")
    shares = by_theorem["right"].notna().groupby([by_theorem["metric"], by_theorem["m"]]).mean()
    assert 0 < shares["recall@10", 100] < 0.01
    assert (
        "under 1% of them on Recall@10, and "
        f"{shares['ndcg@10', 100]:.0%} on NDCG@10; with 500 negatives "
        f"{shares['recall@10', 500]:.0%} and {shares['ndcg@10', 500]:.0%}."
    ) in " ".join(text.split())
    for m, label, decided, wrong_share, wrong, verdicts in rows:
        is_row = (left_out["metric"] == label.lower()) & (left_out["n_negatives"] == int(m))
        part = left_out[is_row]
        assert round(100 * part["called"].mean()) == int(decided)
        assert f"{part['wrong'].mean() / part['called'].mean():.1%}" == f"{wrong_share}%"
        assert part["verdicts"].sum() == int(verdicts.replace(",", ""))
        assert part["wrong_verdicts"].sum() == int(wrong)
    assert set(by_theorem.groupby(["metric", "m", "draw"]).size()) == {311}
    assert "311 pairs" in text
    right = by_theorem["right"].dropna()
    assert f"All {right.size} verdicts by a theorem were right" in " ".join(text.split())
    assert right.all()
    ndcg = left_out[left_out["metric"] == "ndcg@10"]
    worst = ndcg.groupby("n_negatives")["holds"].min()
    assert (
        f"{worst[200]:.0%} of the ranges of NDCG@10 held with 200 negatives, {worst[100]:.0%} with "
        f"100, {worst[50]:.0%} with 50, and {worst[20]:.0%} with 20"
    ) in " ".join(text.split())


def test_pages_that_quote_the_benchmark_quote_the_present_one():
    start, decide = (
        " ".join((ROOT / f"book/library/{name}.md").read_text(encoding="utf-8").split())
        for name in ("start", "decide")
    )
    assert f"on a benchmark of {track_record.benchmark()})" in start
    assert f"on {track_record.benchmark()}." in decide


def test_decide_has_the_verdicts_on_models_that_read_sequences(tables):
    own, pairs = (t[t["up_to"] == 100] for t in evaluations.of_metric(*tables, "ndcg@10"))
    verdicts = pd.concat(
        pairs[(pairs["group"] == group) & (pairs["strength"] >= evaluations.decided(rest))]
        for group in own["group"].unique()
        for rest in [pairs[pairs["group"] != group]]
    )
    sequential = [name for name, family in FAMILY_OF.items() if family == "sequential"]
    is_sequential = verdicts[["first", "second"]].isin(sequential).any(axis=1)
    wrong = ~verdicts["right"]
    by_family = chapter.by_family(("ndcg@10",), 100).set_index("sequential")
    reads_sequences = own["recommender"].isin(sequential)
    for family, is_row, is_verdict in (
        ("one or two", reads_sequences, is_sequential),
        ("none", ~reads_sequences, ~is_sequential),
    ):
        row = by_family.loc[family]
        assert (row["verdicts"], row["wrong"]) == (is_verdict.sum(), (wrong & is_verdict).sum())
        has_theorem = own.loc[is_row, "group"].nunique() >= fewest_groups(0.95)
        assert np.isfinite(row["z95"]) == has_theorem
        assert row["z90"] < row["z95"]
    words = " ".join((ROOT / "book/library/decide.md").read_text(encoding="utf-8").split())
    assert (
        f"of {is_sequential.sum()} verdicts on NDCG@10 with a sequential model "
        f"{(wrong & is_sequential).sum()} were wrong (others: {(wrong & ~is_sequential).sum()} of "
        f"{(~is_sequential).sum():,})"
    ) in words


def test_the_threshold_of_the_limit_is_chosen_by_other_sources(tables):
    _, pairs = evaluations.of_metric(*tables, "ndcg@10")
    pairs = pairs[pairs["up_to"] == 100]
    names = sorted(pairs["group"].unique())
    choosing = {name for number, name in enumerate(names) if number % 4 == 0}
    least = evaluations.least_sure(pairs[pairs["group"].isin(choosing)])
    called, wrong = [], []
    for name in names:
        if name not in choosing:
            by_data = [part for _, part in pairs[pairs["group"] == name].groupby("data")]
            is_called = [part["strength"] >= least for part in by_data]
            called.append(np.mean([part.mean() for part in is_called]))
            losses = zip(is_called, by_data, strict=True)
            wrong.append(np.mean([(c & ~part["right"]).mean() for c, part in losses]))
    (row,) = chapter.wrong_verdicts(("ndcg@10",), 100).to_dict("records")
    assert row["sources"] == len(called) == len(names) - len(choosing)
    assert row["called"] == pytest.approx(np.mean(called))
    assert row["wrong"] == pytest.approx(np.sum(wrong) / np.sum(called))
    assert row["wrong"] < row["at_most"] < 0.3

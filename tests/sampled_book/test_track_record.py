"""The track record is what its evaluations say, and says no more than they do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark
from sampled_book.experiments import evidence
from sampled_book.experiments import track_record as evaluations
from sampled_metrics.designs import track_record
from sampled_metrics.ranking.intervals import RankIntervals

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Estimates and pairs in the scope of the track record."""
    estimates = evaluations.bundled("typical")
    pairs = evaluations.pairs_of(estimates, evaluations.bundled("differences"))
    return evaluations.in_scope(estimates), evaluations.in_scope(pairs)


def test_the_library_holds_what_is_fitted_to_the_evaluations(tables):
    estimates, pairs = (table[table["metric"] == "ndcg@10"] for table in tables)
    fitted = evaluations.fitted(estimates, pairs)
    stored = track_record.records()["ndcg@10"]
    np.testing.assert_allclose(fitted.typical, stored.typical, rtol=1e-3)
    np.testing.assert_allclose(fitted.probability, stored.probability, rtol=0.02)


def test_the_scope_that_the_library_states_is_that_of_the_evaluations(tables):
    scope = track_record._stored()["scope"]
    assert scope["users"] == [tables[0]["n_users"].min(), tables[0]["n_users"].max()]
    assert scope["negatives for each user"] == [50, 500]
    most = (tables[0]["n_items"] / tables[0]["n_negatives"]).max()
    assert most <= scope["candidates for each negative"][1] <= most + 0.1
    assert set(track_record.records()) == set(evaluations.METRICS)


def test_evaluations_are_drawn_again_as_they_are_kept():
    cell = evaluations.Cell(50, 500, 0.3)
    drawn = next(evaluations.logs(benchmark.ranks("ml-100k"), cell))
    keys = [*evaluations.LOG, "metric"]
    for kind, table, names, columns in (
        ("typical", drawn[0], ["recommender"], ["exact", "estimate", "error", "bias_scale"]),
        ("differences", drawn[1], ["first", "second"], ["error"]),
    ):
        kept = evaluations.bundled(kind).query("data == 'ml-100k'")
        both = table.merge(kept, on=[*keys, *names], suffixes=("", "_kept"))
        assert len(both) == len(table) > 0
        for column in columns:
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


def test_the_fit_of_odds_finds_the_model_that_pairs_were_drawn_from():
    rng, number = np.random.default_rng(4), 40_000
    pairs = pd.DataFrame(
        {
            "data": "one", "n_negatives": 100, "n_users": 1, "share": 1.0, "metric": "ap",
            "estimate": rng.normal(0, 0.02, number), "error": rng.uniform(0.002, 0.02, number),
            "bias_scale": rng.uniform(0.0, 0.2, number),
        }
    )  # fmt: skip
    z = 0.8 * np.abs(pairs["estimate"]) / np.hypot(pairs["error"], 0.1 * pairs["bias_scale"])
    pairs["right"] = rng.normal(size=number) < z
    assert evaluations.fit_probability(pairs) == pytest.approx((0.8, 0.1), rel=0.08)


def test_typical_ranges_hold_95_percent_of_each_data_set_they_were_fitted_to(tables):
    estimates = tables[0][tables[0]["metric"] == "recall@10"]
    share, low, high = evaluations.fit_typical(estimates)
    deviations = np.hypot(estimates["error"], share * estimates["bias_scale"])
    ends = {"low": estimates["estimate"] + low * deviations}
    ends["high"] = estimates["estimate"] + high * deviations
    holds = evaluations.coverage(estimates.assign(**ends))["holds"]
    assert len(holds) == 6
    assert (holds >= 0.949).all()


def test_verdicts_and_coverage_by_hand():
    pairs = pd.DataFrame({"data": "a", "probability": [0.96, 0.99, 0.9, 0.7]})
    pairs["right"] = [True, False, True, True]
    (row,) = evaluations.verdicts(pairs).to_dict("records")
    assert (row["decided"], row["wrong"], row["probable"]) == (0.5, 0.5, 0.25)
    estimates = pd.DataFrame({"data": "a", "exact": [0.1, 0.3], "low": [-0.1, 0.1]})
    (row,) = evaluations.coverage(estimates.assign(high=0.2)).to_dict("records")
    assert (row["holds"], row["width"]) == (0.5, pytest.approx(0.15))


def test_odds_hold_on_the_data_set_left_out(tables):
    for metric_name, least_decided in (("recall@10", 0.45), ("ndcg@10", 0.25)):
        estimates, pairs = (table[table["metric"] == metric_name] for table in tables)
        judged, ranges = evaluations.held_out(estimates, pairs)
        main = evaluations.is_main(judged) & (judged["n_negatives"] == 100)
        verdicts = evaluations.verdicts(judged[main], "smallest")
        assert verdicts["decided"].mean() >= least_decided
        assert verdicts["wrong"].mean() <= 0.03
        assert (verdicts["wrong"] <= 0.05).all()
        main = evaluations.is_main(ranges) & (ranges["n_negatives"] == 100)
        holds = evaluations.coverage(ranges[main])["holds"]
        assert holds.mean() >= 0.92
        assert (holds >= 0.85).all()


def test_the_page_states_the_shares_that_are_counted(tables):
    page = (ROOT / "book/library/decide.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\d+) \| (\w+@10) \| ([^|]+) \| (\d+)% \| (\d+) of (\d+) \|$", page, flags=re.M
    )
    assert len(rows) == 4
    proved = evidence.bundled("verdicts")
    shares = proved["right"].notna().groupby([proved["metric"], proved["m"]]).mean()
    for m, label, share, decided, wrong, verdicts in rows:
        metric_name = label.lower()
        percent = round(100 * shares[metric_name, int(m)])
        assert share == (f"{percent}%" if percent else "under 1%")
        judged, _ = evaluations.held_out(*(t[t["metric"] == metric_name] for t in tables))
        part = judged[judged["n_negatives"] == int(m)]
        counts = evaluations.verdicts(part[evaluations.is_main(part)], "smallest")
        assert round(100 * counts["decided"].mean()) == int(decided)
        assert counts["verdicts"].sum() == int(verdicts)
        assert round((counts["wrong"] * counts["verdicts"]).sum()) == int(wrong)
    assert "311 pairs" in page
    assert set(proved.groupby(["metric", "m", "draw"]).size()) == {311}


def test_the_track_record_decides_all_proved_pairs(tables):
    """So the page does not add the shares of the two warrants."""
    proved = evidence.bundled("verdicts")
    proved = proved[proved["right"].notna() & (proved["m"] >= evaluations.FEWEST_NEGATIVES)]
    n_pairs = 0
    for metric_name, some in proved.groupby("metric"):
        pairs, _ = evaluations.held_out(*(t[t["metric"] == metric_name] for t in tables))
        pairs = pairs[evaluations.is_main(pairs)]
        for row in some.drop_duplicates(["data", "first", "second", "m"]).itertuples():
            same = pairs[(pairs["data"] == row.data) & (pairs["n_negatives"] == row.m)]
            names = {row.first, row.second}
            here = [{a, b} == names for a, b in zip(same["first"], same["second"], strict=True)]
            assert (same["smallest"][here] >= evaluations.VERDICT).all()
            n_pairs += sum(here)
    assert n_pairs > 100

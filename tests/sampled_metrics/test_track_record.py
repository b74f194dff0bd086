"""The track record: what it covers, its probabilities and typical ranges, and its verdicts."""

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import _confidence, _printed_ranges
from sampled_metrics.designs import Request, analysis_of, judging, track_record
from sampled_metrics.designs.sample import Sample
from sampled_metrics.designs.track_record import odds, record, typical_range
from sampled_metrics.evaluation import LEARNED, UNDECIDED

SCOPE = {
    "users": [200, 2_000],
    "negatives for each user": [20, 100],
    "candidates": [100, 1_000],
    "times as many candidates for some users as for others": [1, 2],
    "candidates for each negative": [1, 20],
}
AT_NEGATIVES = {
    "typical": 2.0, "decided": 2.0, "estimates": [0.0, 1.0], "firsts": [0.0, 0.6],
    "negatives": [50, 50],
}  # fmt: skip
FITTED_RECORD = {
    "odds": [[0.0, 0.6, 0.5], [1.0, 0.85, 0.7], [2.0, 0.97, 0.9]],
    "observed": {"verdicts": 200, "wrong": 3, "sequential": 40, "wrong_sequential": 1},
    "by_negatives": [{**AT_NEGATIVES, "negatives": [19, 20], "typical": 3.0, "decided": 1.5},
                     AT_NEGATIVES, {**AT_NEGATIVES, "negatives": [99, 100]}],
}  # fmt: skip
PROTOCOL = sm.Protocol(500, 50)


@pytest.fixture(autouse=True)
def _small_record(monkeypatch):
    """A record of three metrics in place of the benchmark's, whose numbers may change."""
    metrics = dict.fromkeys(("recall@3", "recall@10", "ndcg@10"), FITTED_RECORD)
    stored = {
        "scope": SCOPE, "metrics": metrics, "data": ["a", "b"], "sources": 2, "recommenders": 5,
        "neural": 0,
    }  # fmt: skip
    monkeypatch.setattr(track_record, "_stored", lambda: stored)


def rows_of(users=300, protocol=PROTOCOL, shares=(0.030, 0.027, 0.004), seed=1):
    """Sampled ranks under A, B and C, whose true ranks are geometric: C's are far deeper."""
    rng, tables = np.random.default_rng(seed), []
    for name, share in zip("ABC", shares, strict=False):
        true_ranks = np.minimum(rng.geometric(share, users), protocol.n_items)
        columns = {
            "recommender": name,
            "user": range(users),
            "rank": protocol.draw(true_ranks, rng),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def log_of(protocol=PROTOCOL, **options):
    return read(rows_of(protocol=protocol, **options), protocol)


def read(rows, protocol=PROTOCOL):
    sizes = {"n_items": protocol.n_items, "n_negatives": protocol.n_negatives}
    sizes = {name: size for name, size in sizes.items() if name not in rows}
    return sm.read_log(rows, **sizes, replacement=True)


def reason_of(log, metric="ndcg@10", estimator=LEARNED, gamma=None):
    """Why a log has no track record; empty if it has one."""
    analysis = analysis_of(log, Request([sm.metric(metric)], gamma))
    record, reason = analysis.record(sm.metric(metric), estimator)
    assert (record is None) == (reason != "")
    return reason


def two_items_each():
    rows = rows_of(shares=(0.03,)).assign(item=0)
    rows["rank"] = np.minimum(rows["rank"], 50)
    return read(pd.concat([rows, rows.assign(item=1, rank=rows["rank"] + 1)]))


def weighted():
    rows = pd.DataFrame({"user": range(300), "rank": [1, 2, 9] * 100, "n_above": 9.0})
    return read(rows)


def shared():
    rows = rows_of()
    sizes = {"n_items": 500, "n_negatives": 50}
    return sm.read_log(rows, **sizes, replacement=True, shared_negatives=True)


def unequal():
    rows = rows_of(protocol=sm.Protocol(500, 40))
    return read(rows.assign(n_negatives=40 + 4 * (rows["user"] % 3)))


def hits_as_ties():
    rows = rows_of(shares=(0.03,))
    miss = (rows.pop("rank") > 1).astype(int)
    return read(rows.assign(n_better=miss, n_tied=miss * (PROTOCOL.n_negatives - 1)))


FIXED = "the benchmark has a fixed number of negatives, drawn uniformly for each user"
BY_DEFAULT = f"the benchmark has estimates by {LEARNED}"


def test_a_log_like_the_benchmark_has_a_track_record():
    assert reason_of(log_of()) == ""
    rows = rows_of(shares=(0.03,))  # scores of 0 tie below items of many ranks
    better = np.minimum(rows.pop("rank") - 1, PROTOCOL.n_negatives - 2)
    ties = np.where(better > 0, PROTOCOL.n_negatives - better, 0)
    assert reason_of(read(rows.assign(n_better=better, n_tied=ties))) == ""
    for users in SCOPE["users"]:  # the ends are within the scope
        assert reason_of(log_of(users=users, shares=(0.03,))) == ""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (two_items_each, "the benchmark has one held-out item for each user"),
        (weighted, FIXED),
        (shared, FIXED),
        (
            unequal,
            "users have 40 to 48 negatives; the benchmark's have at most 1.15 times as many as "
            "others",
        ),
        (
            lambda: log_of(sm.Protocol(500, 24)),
            "the log has 20.8 candidates for each negative; the benchmark has 1 to 20",
        ),
        (
            lambda: log_of(sm.Protocol(1_001, 60)),
            "the log has 1,001 candidates; the benchmark has 100 to 1,000",
        ),
        (lambda: log_of(users=199), "the log has 199 users; the benchmark has 200 to 2,000"),
        (lambda: log_of(users=2_001), "the log has 2,001 users; the benchmark has 200 to 2,000"),
        (
            hits_as_ties,
            "most items that are not first tie with all negatives that are not above them, as "
            "where only hits are known: give a column hit, or ranks such as >5, for intervals of "
            "hits",
        ),
        (
            lambda: log_of(sm.Protocol(300, 19)),
            "the log has 19 negatives for each user; the benchmark has 20 to 100",
        ),
    ],
)
def test_the_reason_names_what_the_benchmark_lacks(log, reason):
    assert reason_of(log()) == reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"metric": "recall@11"}, "the benchmark has recall@3, recall@10, ndcg@10"),
        ({"estimator": "bias-variance"}, BY_DEFAULT),
        ({"estimator": "maximum entropy"}, BY_DEFAULT),
    ],
)
def test_other_metrics_and_estimators_have_no_track_record(options, reason):
    assert reason_of(log_of(shares=(0.03, 0.02)), **options) == reason


def test_a_note_says_why_there_are_no_odds_and_no_typical_ranges():
    log = log_of(users=150, shares=(0.030, 0.027))
    few = "the log has 150 users; the benchmark has 200 to 2,000"
    estimates = sm.estimate(log, ["ndcg@10", "recall@10", "auc"])
    assert estimates.notes[0] == f"no typical range for ndcg@10, recall@10: {few}"
    assert estimates.frame[["typical_low", "typical_high"]].isna().all(axis=None)
    assert "typical" not in estimates.shown
    assert not any(line.startswith("typical") for line in estimates.promises())
    compared = sm.compare(log, "ndcg@10")
    assert compared.notes == (f"no track record for ndcg@10 here: {few}",)
    row = compared.frame.iloc[0]
    assert (row["verdict"], row["favoured"]) == (UNDECIDED, "")
    assert np.isnan(row["probability"])
    assert "probability" not in compared.sentences[0]
    # AUC has no bias, and needs no track record.
    assert sm.compare(log, "auc").notes == ()


def test_odds_are_those_of_the_last_strength_reached():
    stored = record("ndcg@10", 50)
    assert odds(stored, 0.0) == odds(stored, 0.99) == (0.6, 0.5)
    assert odds(stored, 1.0) == (0.85, 0.7)
    assert odds(stored, 70.0) == (0.97, 0.9)
    assert np.isnan(odds(stored, np.nan)).all()


def test_between_two_numbers_of_negatives_the_wider_range_and_stricter_verdict_count():
    assert [record("ndcg@10", m).typical for m in (19, 20, 35, 50, 70)] == [3.0, 3.0, 3.0, 2.0, 2.0]
    assert [record("ndcg@10", m).decided for m in (19, 20, 35, 50)] == [1.5, 1.5, 2.0, 2.0]


def test_too_few_groups_give_no_range_and_no_verdict(monkeypatch):
    stored = track_record._stored()
    few = {**AT_NEGATIVES, "typical": None, "decided": None}
    metrics = {"ndcg@10": {**FITTED_RECORD, "by_negatives": [few]}}
    monkeypatch.setattr(track_record, "_stored", lambda: {**stored, "metrics": metrics})
    log = log_of(shares=(0.030, 0.027))
    frame = sm.estimate(log, ["ndcg@10"]).frame
    assert frame[["typical_low", "typical_high"]].isna().all(axis=None)
    assert record("ndcg@10", 50).decided == np.inf


def by_hand(estimate, error, multiple):
    """A typical range in plain arithmetic; the error is of the logarithm."""
    reach = multiple * np.sqrt(error**2 + 0.1**2)
    return estimate * np.exp(-reach), estimate * np.exp(reach)


def test_rows_hold_the_odds_and_ranges_of_their_estimates():
    log = log_of(shares=(0.030, 0.027))
    estimates = sm.estimate(log, ["ndcg@10", "auc"])
    by_metric = dict(iter(estimates.frame.groupby("metric", sort=False)))
    for row in by_metric["ndcg@10"].itertuples():
        expected = by_hand(row.estimate, row.standard_error / row.estimate, 2.0)
        assert (row.typical_low, row.typical_high) == pytest.approx(expected)
        written = _printed_ranges.written(row.typical_low, row.typical_high)
        assert written in estimates.shown["typical"].tolist()
    assert by_metric["auc"][["typical_low", "typical_high"]].isna().all(axis=None)
    promise = next(
        line for line in estimates.promises() if line.startswith("typical: calibrated on")
    )
    assert "5 recommenders, none of them neural, on 2 data sets from 2 sources" in promise
    # The difference of two logarithms knows what the recommenders share.
    (row,) = sm.compare(log, "ndcg@10").frame.itertuples()
    values = analysis_of(log, Request([sm.metric("ndcg@10")])).values
    logarithms, covariance = values.learned(sm.metric("ndcg@10"))
    error = np.sqrt(np.array([1.0, -1.0]) @ covariance @ [1.0, -1.0])
    assert error < np.sqrt(covariance.trace())
    pair_strength = abs(logarithms[0] - logarithms[1]) / np.hypot(error, 0.01)
    assert (row.probability, row.probability_low) == odds(record("ndcg@10", 50), pair_strength)
    assert row.estimate == pytest.approx(np.exp(logarithms[0]) - np.exp(logarithms[1]))
    # To first order the error of the difference of values is that of both logarithms, scaled.
    scaled = np.exp(logarithms) * [1.0, -1.0]
    assert row.standard_error == pytest.approx(np.sqrt(scaled @ covariance @ scaled))


def test_a_typical_range_is_at_most_1():
    stored = record("ndcg@10", 50)
    low, high = typical_range(stored, 0.9, 0.3, 900)
    assert 0.0 < low < high == 1.0


def test_a_range_that_reaches_one_user_in_all_starts_at_0():
    stored = record("ndcg@10", 50)
    low, high = by_hand(0.01, 0.4, 2.0)
    assert typical_range(stored, 0.01, 0.4, 1_000) == pytest.approx((low, high))
    assert typical_range(stored, 0.01, 0.4, int(1.0 / low)) == pytest.approx((0.0, high))


@pytest.mark.parametrize(
    ("confidence", "is_verdict"), [(0.5, True), (0.95, True), (0.951, False), (0.999, False)]
)
def test_a_verdict_by_the_record_has_no_more_confidence_than_the_record(confidence, is_verdict):
    undecided = judging.Verdict(0, -0.1, 0.2, detectable=0.1, users_needed=7)
    for gap in (0.05, -0.05):
        judged = judging.with_record(undecided, gap, confidence)
        assert judged.sign == is_verdict * np.sign(gap)
        assert (judged.low, judged.high) == (undecided.low, undecided.high)
        if not is_verdict:
            assert judged == undecided
    better, worse = ("B", "A") if is_verdict else ("", "")
    verdict = f"{better} probably beats {worse}" if is_verdict else UNDECIDED
    assert judged.sentence("A", "B") == verdict


@pytest.mark.parametrize(
    ("reached", "decides"), [(0.5, False), (1.2, False), (1.99, False), (2.0, True), (3.0, True)]
)
def test_a_pair_without_a_theorem_says_how_often_such_orders_were_right(
    monkeypatch, reached, decides
):
    monkeypatch.setattr(track_record, "strength", lambda *numbers: reached)
    log = log_of(shares=(0.030, 0.027))
    compared = sm.compare(log, "ndcg@10")
    (row,) = compared.frame.itertuples()
    given, low = odds(record("ndcg@10", 50), reached)
    assert (row.probability, row.probability_low) == (given, low)
    assert row.possible_low < 0 < row.possible_high
    ahead, behind = ("A", "B") if row.estimate > 0 else ("B", "A")
    assert row.favoured == (ahead if given >= 0.8 else "")
    if not decides:
        assert (row.verdict, row.assumption, row.warrant) == (UNDECIDED, "", "")
        assert (f"{ahead} leads, right in {given:.0%}" in compared.sentences[0]) == (given >= 0.8)
        return
    assert row.verdict == f"{ahead} probably beats {behind}"
    assert (row.assumption, row.warrant) == (_confidence.LIKE_BENCHMARK, "track record")
    assert compared.promises()[-1].endswith(
        " with any number of negatives, 3 were wrong, of 40 on models that read sequences 1"
    )
    # A larger confidence leaves the probability, and takes the verdict.
    (stricter,) = sm.compare(log, "ndcg@10", confidence=0.97).frame.itertuples()
    assert stricter.verdict == UNDECIDED
    assert (stricter.favoured, stricter.probability) == (ahead, given)


def test_equal_estimates_have_even_odds():
    rows = rows_of(shares=(0.03,))
    other = rows.assign(recommender="B", rank=rows["rank"].sample(frac=1.0, random_state=1).array)
    (row,) = sm.compare(read(pd.concat([rows, other])), "ndcg@10").frame.itertuples()
    assert (row.estimate, row.probability, row.favoured, row.verdict) == (0.0, 0.6, "", UNDECIDED)
    assert row.standard_error > 0


def test_a_pair_with_a_theorem_has_no_probability():
    table = sm.compare(log_of(users=600), "ndcg@10").frame.set_index(["first", "second"])
    for pair in (("A", "C"), ("B", "C")):
        row = table.loc[pair]
        assert (row["verdict"], row["warrant"]) == (f"{pair[0]} beats C", "theorem")
        assert np.isnan(row["probability"])
        assert row["favoured"] == ""
    assert table.loc[("A", "B"), "probability"] in (0.6, 0.85, 0.97)
    # If theorems decide all pairs, no track record is missed.
    decided = sm.compare(log_of(users=600, shares=(0.03, 0.004)), "recall@10", gamma=0.01)
    assert decided.frame["warrant"].tolist() == ["theorem"]
    assert not any("track record" in note for note in decided.notes)


def test_the_stored_record_is_in_order(monkeypatch):
    monkeypatch.undo()
    stored = track_record._stored()
    for low, high in stored["scope"].values():
        assert 0 < low < high
    assert stored["recommenders"] > len(stored["data"]) >= stored["sources"] > 19
    for name, calibrated in stored["metrics"].items():
        assert sm.metric(name).name == name
        strengths, shares, lows = zip(*calibrated["odds"], strict=True)
        assert list(strengths) == sorted(strengths)
        assert list(shares) == sorted(shares)
        assert all(
            low <= share <= track_record.MOST for low, share in zip(lows, shares, strict=True)
        )
        ends = [m for part in calibrated["by_negatives"] for m in part["negatives"]]
        assert ends == sorted(ends)
        for m in ends:
            at_m = record(name, m)
            assert at_m.typical > 0
            assert at_m.decided > 0
            assert at_m.estimates[0] < at_m.estimates[1] <= 1


def strong_log(share, users=1_500):
    """Of this share of the users the item is exactly first, as in link prediction."""
    rng, protocol = np.random.default_rng(3), sm.Protocol(500, 50)
    is_first = rng.random(users) < share
    ranks = np.where(is_first, 1, rng.integers(1, 501, users))
    return read(pd.DataFrame({"user": range(users), "rank": protocol.draw(ranks, rng)}), protocol)


def test_a_level_that_the_benchmark_lacks_has_no_typical_range():
    inside, outside = (sm.estimate(strong_log(share), ["ndcg@10"]) for share in (0.3, 0.8))
    assert inside.frame["typical_low"].notna().all()
    assert outside.frame["typical_low"].isna().all()
    note = next(note for note in outside.notes if "typical range" in note)
    assert "8" in note.partition("%")[0]
    assert note.endswith("have no negative above their item; the benchmark has 0% to 60%")


def test_an_estimate_above_the_benchmark_has_no_typical_range(monkeypatch):
    stored = track_record._stored()
    at_negatives = [{**AT_NEGATIVES, "estimates": (0.0, 0.01)}]
    low = {**stored["metrics"]["ndcg@10"], "by_negatives": at_negatives}
    monkeypatch.setattr(
        track_record, "_stored", lambda: {**stored, "metrics": stored["metrics"] | {"ndcg@10": low}}
    )
    found = sm.estimate(strong_log(0.3), ["ndcg@10", "recall@10"])
    assert found.frame["typical_low"].isna().tolist() == [True, False]
    assert any("the benchmark has 0.0000 to 0.0100" in note for note in found.notes)


def shares_log(likeness: float, negatives: list[int], replacement: bool, users: int = 40_000):
    """Two recommenders with exact ranks of a known correlation, among 1,001 candidates."""
    rng = np.random.default_rng(11)
    uniform = rng.random((3, users))
    is_copied = rng.random(users) < likeness  # then the correlation is the share of copies
    exact = np.round([uniform[0] * 999, np.where(is_copied, uniform[0], uniform[1]) * 999])
    numbers = np.resize(negatives, users)
    parts = []
    for name, above in zip(("A", "B"), exact.astype(int), strict=True):
        drawn = rng.binomial(numbers, above / 1_000) if replacement else None
        if drawn is None:
            drawn = rng.hypergeometric(above, 1_000 - above, numbers)
        columns = {"n_better": drawn, "n_negatives": numbers, "recommender": name}
        parts.append(pd.DataFrame({"user": np.arange(users)} | columns))
    rows = pd.concat(parts).assign(n_items=1_001, n_tied=0)
    return sm.read_log(rows, replacement=replacement)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("negatives", [[5], [20, 300]])
@pytest.mark.parametrize("likeness", [0.3, 0.9])
def test_the_likeness_is_the_correlation_of_exact_ranks(likeness, negatives, replacement):
    sample = Sample(shares_log(likeness, negatives, replacement))
    assert sample.likeness("A", "B") == pytest.approx(likeness, abs=0.02)


def test_a_constant_recommender_is_like_no_other():
    rows = shares_log(0.5, [20], False, 500).frame.assign(n_items=1_001)
    rows.loc[rows["recommender"] == "B", "n_better"] = 3
    assert np.isnan(Sample(sm.read_log(rows, replacement=False)).likeness("A", "B"))


def test_a_lead_counts_less_over_a_version_of_the_model_and_between_families():
    plain = track_record.strength(0.3, 0.1, 0.0, False)
    assert plain == pytest.approx(0.3 / np.hypot(0.1, 0.01))
    assert track_record.strength(0.3, 0.1, 0.75, False) == pytest.approx(plain / 2)
    assert track_record.strength(0.3, 0.1, 0.75, True) == pytest.approx(0.2 * plain)
    assert track_record.strength(0.3, 0.1, np.nan, False) == plain
    assert track_record.strength(0.3, 0.1, 1.1, False) == 0


def test_two_versions_of_one_model_get_no_verdict(monkeypatch):
    rng, rows = np.random.default_rng(5), rows_of(users=1_000)
    copy = rows[rows["recommender"] == "A"].copy()
    is_changed = rng.random(len(copy)) < 0.05  # a jittered copy of A
    copy.loc[is_changed, "rank"] = np.minimum(copy.loc[is_changed, "rank"] + 1, 51)
    log = read(pd.concat([rows, copy.assign(recommender="A2")]))
    seen = []
    strength = track_record.strength
    monkeypatch.setattr(
        track_record, "strength", lambda *values: seen.append(values) or strength(*values)
    )
    sm.compare(log, "ndcg@10")
    assert [likeness > 0.95 for *_, likeness, _ in seen] == [False, True, False]
    assert not any(is_between for *_, is_between in seen)
    seen.clear()
    sm.compare(log, "ndcg@10", family={"A": "sequential"})
    assert [bool(is_between) for *_, is_between in seen] == [True, True, False]
    seen.clear()
    named = log.frame.replace({"recommender": {"A": "SASRec"}})
    sm.compare(sm.read_log(named, replacement=False), "ndcg@10")
    assert sorted(bool(is_between) for *_, is_between in seen) == [False, True, True]


@pytest.mark.parametrize(
    ("name", "family", "has_range"),
    [
        ("A", None, True),
        ("A", {"A": "ratings"}, False),
        ("FunkSVD, 50 factors", None, False),
        ("SVD++", None, False),
        ("PureSVD", None, True),
        ("FunkSVD", {"FunkSVD": "factors"}, True),
    ],
)
def test_models_that_predict_ratings_get_no_typical_range(name, family, has_range):
    rows = rows_of().replace({"recommender": {"A": name}})
    result = sm.estimate(read(rows), ["ndcg@10"], family=family)
    low = result.frame.set_index("recommender")["typical_low"]
    assert np.isfinite(low[name]) == has_range
    assert np.isfinite(low["B"])
    assert any("333 missed" in note for note in result.notes) != has_range
    assert not any("ratings has no mean" in note for note in result.notes)


def test_catalogues_of_unlike_sizes_have_no_track_record():
    rows = pd.concat([rows_of().assign(n_items=500), rows_of(seed=2).assign(n_items=900)])
    mixed = rows.assign(user=np.arange(len(rows)) % 600)
    mixed["user"] = rows.groupby("recommender").cumcount().to_numpy()
    notes = sm.estimate(read(mixed, sm.Protocol(500, 50)), ["ndcg@10"]).notes
    assert not any("candidates for some users" in note for note in notes)
    mixed.loc[mixed["n_items"] == 900, "n_items"] = 1_000
    mixed.loc[mixed["n_items"] == 500, "n_items"] = 490
    notes = sm.estimate(read(mixed, sm.Protocol(500, 50)), ["ndcg@10"]).notes
    assert any("times as many candidates for some users as for others" in note for note in notes)


@pytest.mark.parametrize(
    ("metric", "equal"),
    [("hit@10", "recall@10"), ("mrr", "ap"), ("rr@10", "ap@10"), ("ndcg@1", "recall@1")]
    + [(f"{kind}@1", "recall@1") for kind in ("precision", "ap", "rr", "hit")]
    + [("accuracy", "recall@1")],
)
def test_metrics_that_one_held_out_item_makes_equal_have_one_record(metric, equal, monkeypatch):
    stored = track_record._stored()
    monkeypatch.setattr(
        track_record, "_stored", lambda: {**stored, "metrics": {equal: FITTED_RECORD}}
    )
    log = log_of(shares=(0.030, 0.027))
    columns = ["estimate", "typical_low", "typical_high"]
    of_one, of_other = (sm.estimate(log, [name]).frame[columns] for name in (metric, equal))
    assert of_other.notna().all(axis=None)
    pd.testing.assert_frame_equal(of_one, of_other)
    of_one, of_other = (sm.compare(log, name) for name in (metric, equal))
    assert of_other.frame["probability"].notna().all()
    assert (of_one.verdicts, of_one.promises()[1:]) == (of_other.verdicts, of_other.promises()[1:])
    assert of_one.frame["probability"].equals(of_other.frame["probability"])

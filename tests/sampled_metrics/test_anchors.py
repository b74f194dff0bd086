"""Logs with anchors: drawn by `anchors`, read by `read_log`, analysed by estimate and compare."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sampled_metrics as sm
from sampled_metrics.bounds.anchors import draw
from sampled_metrics.cli import main
from sampled_metrics.gate import gate

from .bounds.test_anchors import anchors_of

N_ITEMS, N_USERS = 2_000, 400
SIZES = {"n_items": N_ITEMS, "replacement": False}


def ranks_of(seed, users=N_USERS):
    drawn = 1 + (2 * np.random.default_rng(seed).pareto(0.8, users)).astype(int)
    return np.minimum(drawn, N_ITEMS)


def rows_of(ranks, seed=0, **columns):
    """Of 50 chosen items and 20 negatives from the others; the choice misses a tenth."""
    rng = np.random.default_rng(seed)
    above = np.minimum(rng.binomial(ranks - 1, 0.9), 50)
    others = ranks - 1 - above
    x = rng.hypergeometric(others, N_ITEMS - 51 - others, 20)
    counts = {"user": range(ranks.size), "n_chosen_better": above, "n_better": x}
    sizes = {"n_chosen": 50, "n_negatives": 20, "n_tied": 0}
    return pd.DataFrame(counts | sizes | columns)


def anchored(rows, ranks, metric, n, seed=1, **sizes):
    """The rows with the exact ranks of anchors."""
    drawn = sm.anchors(sm.read_log(rows, **(SIZES | sizes)), metric, n, seed)
    rows = rows.merge(drawn, on="user", how="left")
    return rows.assign(exact_rank=np.where(rows["draw"].notna(), ranks, np.nan))


@pytest.fixture(name="ranks")
def ranks_fixture():
    return ranks_of(1)


@pytest.fixture(name="rows")
def rows_fixture(ranks):
    return anchored(rows_of(ranks), ranks, "ndcg@10", 60)


def estimated(rows, metrics, anchors="ndcg@10", sizes=SIZES, **options):
    return sm.estimate(sm.read_log(rows, anchors=anchors, **sizes), metrics, **options).frame


def test_the_draw_does_not_depend_on_data_from_the_same_seed():
    ranks = 1 + np.random.default_rng(1).exponential(100, N_USERS).astype(int)
    drawn = sm.anchors(sm.read_log(rows_of(ranks), **SIZES), "auc", 50, seed=1)
    places = np.argsort(np.argsort(ranks))[drawn["user"]]
    assert 140 < places.mean() < 260


def test_an_interval_is_that_of_the_anchors_by_hand(ranks, rows):
    bound = sm.metric("ndcg@10")(1 + rows["n_chosen_better"] + rows["n_better"])
    order = rows.dropna().sort_values("draw").index.to_numpy()
    by_hand = anchors_of(bound, sm.metric("ndcg@10")(ranks), order)
    (row,) = estimated(rows, ["ndcg@10"]).to_dict("records")
    ends = row["possible_low"], row["possible_high"]
    assert ends == pytest.approx(by_hand.interval(0.05), abs=1e-9)
    assert row["estimate"] == pytest.approx(by_hand.estimate)
    assert row["reported"] == pytest.approx(bound.mean())
    assert (row["assumption"], row["warrant"]) == ("none, of these users", "theorem")
    (row,) = estimated(rows, ["ndcg@10"], population=True).to_dict("records")
    ends = row["possible_low"], row["possible_high"]
    assert ends == pytest.approx(by_hand.population_interval(0.05), abs=1e-9)
    assert row["assumption"] == "none"


def test_rows_in_any_order_and_from_a_file_give_the_same(rows, tmp_path):
    expected = estimated(rows, ["ndcg@10"])
    pd.testing.assert_frame_equal(estimated(rows.sample(frac=1.0), ["ndcg@10"]), expected)
    for text in ("", "u"):  # blanks are read as missing numbers or as text
        rows.assign(user=text + rows["user"].astype(str)).to_csv(tmp_path / "log.csv", index=False)
        frame = estimated(tmp_path / "log.csv", ["ndcg@10"])
        assert frame["quote"].tolist() == expected["quote"].tolist()


def test_chosen_items_alone_need_no_negatives(ranks):
    rows = rows_of(ranks).drop(columns=["n_better", "n_tied", "n_negatives"])
    log = sm.read_log(rows, n_items=N_ITEMS)
    with pytest.raises(ValueError, match="must have sampled negatives or anchors beside its"):
        sm.estimate(log, ["rr"])
    draws = sm.anchors(log, "rr", 60, 1)
    rows = rows.merge(draws, on="user", how="left")
    rows["exact_rank"] = np.where(rows["draw"].notna(), ranks, np.nan)
    (row,) = estimated(rows, ["rr"], "rr", {"n_items": N_ITEMS}).to_dict("records")
    assert row["possible_low"] < sm.metric("rr")(ranks).mean() < row["possible_high"]
    assert row["reported"] == pytest.approx((1 / (1 + rows["n_chosen_better"])).mean())


@pytest.mark.parametrize(("replacement", "known"), [(False, [0, 1, 2]), (True, [0, 1, 1])])
def test_a_repeated_negative_counts_once(replacement, known):
    rows = pd.DataFrame({"user": range(3), "rank": [1, 2, 3]})
    log = rows.assign(exact_rank=[1, 9, 9], draw=[1, 2, 3])
    sizes = {"n_items": 100, "n_negatives": 5, "replacement": replacement}
    reported = estimated(log, ["rr"], "rr", sizes)["reported"].item()
    assert reported == pytest.approx((1 / (1 + np.array(known))).mean())


def test_all_users_that_can_have_a_value_give_the_exact_metric(ranks):
    rows = anchored(rows_of(ranks), ranks, ["ndcg@10", "recall@10"], N_USERS)
    assert rows["draw"].notna().sum() < N_USERS
    frame = estimated(rows, ["ndcg@10", "recall@10", "ndcg@3"], ["ndcg@10", "recall@10"])
    for row in frame.to_dict("records"):
        exact = sm.metric(row["metric"])(ranks).mean()
        assert [row["estimate"], row["possible_low"], row["possible_high"]] == pytest.approx(
            [exact] * 3, abs=1e-14
        )


def test_other_metrics_that_the_sizes_bound_have_intervals(ranks, rows):
    """Recall@10 is at most log2(11) times the NDCG@10 of the largest bound."""
    (row,) = estimated(rows, ["recall@10"]).to_dict("records")
    above = rows["n_chosen_better"] + rows["n_better"]
    sizes = np.log2(11) * sm.metric("ndcg@10")(1 + above)
    largest = above[sizes > 0].max()
    sizes *= np.log2(2 + largest) / np.log2(11)
    order = rows.dropna().sort_values("draw").index.to_numpy()
    by_hand = anchors_of(sizes, ranks <= 10, order, (above < 10).to_numpy(dtype=float))
    ends = row["possible_low"], row["possible_high"]
    assert ends == pytest.approx(by_hand.interval(0.05), abs=1e-9)


@pytest.fixture(name="two")
def two_fixture():
    """Two recommenders with one draw, and their ranks."""
    ranks = {"A": ranks_of(1), "B": np.maximum(ranks_of(1) // 3, 1)}
    rows = [rows_of(one, recommender=name) for name, one in ranks.items()]
    rows = anchored(pd.concat(rows, ignore_index=True), np.concatenate([*ranks.values()]), "rr", 90)
    return rows, ranks


def test_two_recommenders_are_compared_on_one_draw(two):
    rows, ranks = two
    log = sm.read_log(rows, anchors="rr", **SIZES)
    result = sm.compare(log, "rr")
    (row,) = result.frame.to_dict("records")
    difference = np.diff([sm.metric("rr")(one).mean() for one in ranks.values()])[0]
    assert row["possible_low"] < -difference < row["possible_high"] < 0
    assert row["verdict"] == "B beats A"
    assert "whatever the ranks, and of these users alone" in result.sentences[0]
    assert "drawn in proportion to the largest possible RR" in result.methods()
    frames = [rows[rows["recommender"] == name] for name in "AB"]
    assert gate(*frames, "rr", anchors="rr", **SIZES)[0] == "better"
    with pytest.raises(ValueError, match="anchors is missing"):
        gate(*frames, "rr", **SIZES)


def test_what_is_undecided_asks_for_more_anchors(two):
    rows, ranks = two
    rows = pd.concat([rows_of(ranks["A"], recommender=name) for name in "AB"], ignore_index=True)
    rows = anchored(rows, np.tile(ranks["A"], 2), "rr", 20)
    (sentence,) = sm.compare(sm.read_log(rows, anchors="rr", **SIZES), "rr").sentences
    assert sentence.startswith("A or B on RR: undecided.")
    assert sentence.endswith("evaluate more anchors.")


def one_more(rows):
    return rows.assign(exact_rank=rows["exact_rank"].fillna(1))


def better(rows):
    above = rows["n_chosen_better"] + rows["n_better"]
    return rows.assign(exact_rank=rows["exact_rank"].mask(above > 0, above + rows["draw"] * 0))


def uniformly(rows):
    users = np.random.default_rng(1).permutation(N_USERS)[:200]
    draw = pd.Series(np.arange(1.0, users.size + 1), index=users)
    return rows.assign(draw=draw, exact_rank=draw * 0 + N_ITEMS)


def unbounded(rows):
    users = rows.index[rows["n_chosen_better"] >= 10][:1]
    draw = pd.Series([1.0], index=users)
    return rows.assign(draw=draw, exact_rank=draw * 0 + N_ITEMS)


BAD = {
    "no order": (lambda rows: rows.drop(columns="draw"), "a column draw beside exact_rank"),
    "no ranks": (lambda rows: rows.drop(columns="exact_rank"), "a column exact_rank beside draw"),
    "one without draw": (one_more, "must have both exact_rank and draw, or neither"),
    "better than scored items": (better, r"exact_rank must be >= \d+, with \d+ scored items"),
    "beyond n_items": (
        lambda rows: rows.assign(exact_rank=rows["exact_rank"] * 0 + 9_999),
        "and <= n_items = 2000, got 9999",
    ),
    "a gap": (
        lambda rows: rows.assign(draw=rows["draw"].replace(3, 77)),
        "draw must number the anchors of recommender from 1",
    ),
    "no user of the log": (
        lambda rows: pd.concat([rows, pd.DataFrame({"user": [-1], "exact_rank": 1, "draw": 61})]),
        "an anchor must be a user of the log",
    ),
    "two rows": (lambda rows: pd.concat([rows, rows]), "one row for each user"),
    "cannot be drawn": (unbounded, "must be drawn in proportion to the largest possible NDCG@10"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_no_anchors_can_be_is_refused(rows, name):
    change, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        estimated(change(rows), ["ndcg@10"])


def test_options_that_do_not_fit_are_refused(rows, two):
    plain = rows.drop(columns=["draw", "exact_rank"])
    with pytest.raises(ValueError, match="anchors is missing"):
        sm.read_log(rows, **SIZES)
    with pytest.raises(ValueError, match="anchors must be left out without a column exact_rank"):
        sm.read_log(plain, anchors="rr", **SIZES)
    with pytest.raises(ValueError, match="population must be False"):
        sm.estimate(sm.read_log(plain, **SIZES), ["rr"], population=True)
    with pytest.raises(ValueError, match="drawn by NDCG@10 do not bound RR: user"):
        estimated(rows, ["rr"])
    with pytest.raises(ValueError, match="in proportion to the largest possible RR, in the order"):
        estimated(uniformly(rows), ["rr"], "rr")
    with pytest.raises(ValueError, match="by must be left out"):
        sm.read_log(rows.assign(group="a"), anchors="ndcg@10", by="group", **SIZES)
    with pytest.raises(ValueError, match="gamma must be left out"):
        estimated(rows, ["ndcg@10"], gamma=0.1)
    both, _ = two
    is_second = both["recommender"] == "B"
    changed = both.assign(draw=both["draw"].where(~is_second, 91 - both["draw"]))
    with pytest.raises(ValueError, match="recommenders must have the same anchors"):
        sm.read_log(changed, anchors="rr", **SIZES)


def test_a_log_of_frequent_users_may_have_gaps():
    """Numbers of users that have no row cannot be drawn."""
    rows = pd.DataFrame({"user": np.arange(50) * 2, "rank": [1, 3] * 25})
    log = sm.read_log(rows, n_items=100, n_negatives=9, replacement=False)
    drawn = sm.anchors(log, "rr", 99, seed=0)
    assert sorted(drawn["user"]) == rows["user"].tolist()
    assert drawn["draw"].tolist() == [*range(1, 51)]


def test_the_commands_take_anchors(two, tmp_path, capsys):
    rows, _ = two
    paths = [tmp_path / f"{name}.csv" for name in ("both", "A", "B")]
    for path, names in zip(paths, ("AB", "A", "B"), strict=True):
        rows[rows["recommender"].isin([*names])].to_csv(path, index=False)
    options = ["--n-items", "2000", "--no-replacement", "--anchors", "rr"]
    assert main(["estimate", str(paths[0]), "--metrics", "rr", "--population", *options]) == 0
    assert capsys.readouterr().out.endswith("95% interval: whatever the ranks\n")
    assert main(["compare", str(paths[0]), "--metric", "rr", *options]) == 0
    assert capsys.readouterr().out.startswith("B beats A on RR (95% confidence, whatever")
    assert main(["gate", *map(str, paths[1:]), "--metric", "rr", *options]) == 0


def test_the_command_draws_what_the_function_does(ranks, tmp_path, capsys):
    rows = rows_of(ranks).drop(columns=["n_better", "n_tied", "n_negatives"])
    path, output = tmp_path / "log.csv", tmp_path / "anchors.csv"
    rows.to_csv(path, index=False)
    draw = ["anchors", str(path), "--metric", "rr", "ndcg@10", "--n-items", "2000"]
    assert main([*draw, "--n-anchors", "30", "--seed", "7", "-o", str(output)]) == 0
    drawn = sm.anchors(sm.read_log(rows, n_items=N_ITEMS), ["rr", "ndcg@10"], 30, 7)
    pd.testing.assert_frame_equal(pd.read_csv(output), drawn)
    for options, message in (
        (["--n-anchors", "0", "--seed", "1"], "--n-anchors must be a whole number >= 1, got 0"),
        (["--n-anchors", "9", "--seed", "-1"], "--seed must be a whole number >= 0, got -1"),
        (["--n-anchors", "9"], "--seed is missing"),
        (["--n-anchors", "9", "--seed", "1", "-o", str(path)], "is an input, and would be"),
        (
            ["--n-anchors", "9", "--seed", "1", "--n-negatives", "5"],
            "--n-negatives must agree with the column n_negatives, got 5 and 0",
        ),
    ):
        assert main([*draw, *options]) == 2
        assert message in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["anchors.csv", "log.csv"]


def notes_of(odds, seed, metrics=("ndcg@10", "recall@10"), chosen=0):
    """What is said of anchors beside 100 negatives; an item above is drawn with these odds."""
    ranks, rng = ranks_of(seed, 600), np.random.default_rng(seed)
    missed = rng.binomial(ranks - 1, 0.5) if chosen else ranks - 1
    above = np.minimum(ranks - 1 - missed, chosen)
    others = ranks - 1 - above
    draw = stats.nchypergeom_wallenius
    x = draw.rvs(N_ITEMS - 1 - chosen, others, 100, odds, random_state=rng)
    rows = pd.DataFrame({"user": range(600), "n_better": x, "n_tied": 0, "n_negatives": 100})
    if chosen:
        rows = rows.assign(n_chosen=chosen, n_chosen_better=above)
    log = sm.read_log(anchored(rows, ranks, "ndcg@10", 150, seed), anchors="ndcg@10", **SIZES)
    result = sm.estimate(log, metrics)
    assert result.notes[0].startswith("all items were ranked for 150 users")
    return result.notes[1:]


@pytest.mark.simulation
@pytest.mark.parametrize("chosen", [0, 30])
def test_anchors_agree_with_uniform_negatives_in_nine_of_ten_logs(chosen):
    """The note says at most 10%; of 30 logs more than 8 have a probability of 0.2%."""
    said = sum(bool(notes_of(1.0, seed, ["ndcg@10"], chosen)) for seed in range(30))
    assert said <= 8


@pytest.mark.parametrize("chosen", [0, 30])
def test_anchors_contradict_negatives_drawn_by_popularity(chosen):
    first, second = notes_of(20.0, 1, chosen=chosen)
    assert re.fullmatch(
        r"ndcg@10 of recommender is 0\.\d{3} to 0\.\d{3} by the anchors, but its possible range "
        r"without them is 0\.\d{3} to 0\.\d{3}: if the negatives were drawn as the log says"
        + " and deeper ranks have fewer users" * (not chosen)
        + ", at most 10% of logs have ranges so far apart",
        first,
    )
    assert second.startswith("recall@10 of recommender is ")


def test_anchors_contradict_the_record_alone():
    assert "its typical range without them is" in notes_of(4.0, 1)[0]


@pytest.mark.simulation
def test_anchors_of_a_sub_corpus_hold_where_a_hub_was_not_drawn():
    """60 queries, 300 documents; 180 were kept or drawn, and not d299, above 70% of answers."""
    rng, names = np.random.default_rng(4), [f"d{i}" for i in range(300)]
    judged = {f"q{i}": {f"d{i}": 1} for i in range(60)}
    scores = rng.normal(size=(60, 300))
    scores[np.arange(60), np.arange(60)] += 3
    scores[rng.random(60) < 0.7, 299] = 9.0
    own = scores[np.arange(60), np.arange(60)][:, None]
    ranks, in_part = ((scores[:, :size] > own).sum(axis=1) + 1 for size in (300, 180))
    exact = sm.metric("rr")(ranks).mean()
    run = {
        q: dict(zip(names[:180], row, strict=False)) for q, row in zip(judged, scores, strict=True)
    }
    range_of = sm.estimate(sm.readers.ranx({"A": run}, judged, corpus_size=300), ["rr"]).frame
    assert range_of["possible_low"].item() > exact
    rows = pd.DataFrame({"user": [*judged], "n_chosen": 179, "n_chosen_better": in_part - 1})
    log, sizes, missed, highs = sm.read_log(rows, n_items=300), {"n_items": 300}, 0, []
    for seed in range(200):
        drawn = rows.merge(sm.anchors(log, "rr", 30, seed), on="user", how="left")
        drawn["exact_rank"] = np.where(drawn["draw"].notna(), ranks, np.nan)
        (row,) = estimated(drawn, ["rr"], "rr", sizes).to_dict("records")
        assert row["reported"] == pytest.approx(sm.metric("rr")(in_part).mean())
        missed += not row["possible_low"] <= exact <= row["possible_high"]
        highs.append(row["possible_high"])
    assert stats.binomtest(missed, 200, 0.05, alternative="greater").pvalue > 1e-3, missed
    assert np.mean(highs) < range_of["possible_low"].item(), "anchors see the hub"


def test_a_plan_names_what_each_way_costs(ranks):
    rows = rows_of(ranks)
    frame = sm.plan(sm.read_log(rows, **SIZES), "recall@1").frame
    is_open = rows["n_chosen_better"] + rows["n_better"] == 0
    exact = is_open.sum() * N_ITEMS + (~is_open).sum() * 71
    assert frame.iloc[-1].tolist() == ["exact", is_open.sum(), exact, 0]
    for way, users, scores, _ in frame.iloc[:-1].itertuples(index=False):
        assert scores < exact
        assert users == (scores - N_USERS * 71 * (way == "anchors")) // N_ITEMS


def test_a_plan_from_anchors_foretells_their_widths(ranks, rows):
    bound = sm.metric("ndcg@10")(1 + rows["n_chosen_better"] + rows["n_better"])
    values, rng = sm.metric("ndcg@10")(ranks), np.random.default_rng(3)
    log = sm.read_log(rows, anchors="ndcg@10", **SIZES)
    pilot, widest = (sm.plan(each, "ndcg@10").frame for each in (log, replace(log, anchors=None)))
    for sizes, way in ((bound, "anchors"), (np.ones(N_USERS), "fewer users")):
        n = pilot.loc[pilot["way"] == way, "users"].iloc[-1]
        orders = [draw(sizes, n, rng) for _ in range(20)]
        ends = [anchors_of(sizes, values, order).interval(0.05) for order in orders]
        width = np.diff(ends).mean()
        planned, at_most = (
            table.loc[table["way"] == way, "width"].iloc[-1] for table in (pilot, widest)
        )
        assert planned == pytest.approx(width, rel=0.3)
        assert at_most > 0.95 * width


def test_a_plan_says_that_exact_ranking_is_as_cheap():
    rows = rows_of(np.random.default_rng(0).integers(1, N_ITEMS, N_USERS))
    result = sm.plan(sm.read_log(rows, **SIZES), "recall@1")
    assert result.frame["way"].tolist() == ["exact"]
    (note,) = result.notes
    assert note.endswith("and no interval from anchors costs less")
    for name, value in (("n_users", 9), ("max_negatives", 9), ("n_items", 999)):
        with pytest.raises(ValueError, match=f"{name} must be left out with chosen items, got 9"):
            sm.plan(sm.read_log(rows, **SIZES), "recall@1", **{name: value})

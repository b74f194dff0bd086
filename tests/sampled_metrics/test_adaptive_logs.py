"""Logs of adaptive designs: read, estimated, compared and planned from."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import priors
from sampled_metrics.cli import main
from sampled_metrics.estimators import bias_variance, default_gamma
from sampled_metrics.planning import fitted, plan
from sampled_metrics.results import source_of
from tests.sampled_metrics.designs.logs import estimate_each

from ..reference import bundled_ranks

SEED = 20260729
N_ITEMS = 3_700
DESIGN = sm.Adaptive(N_ITEMS, 20, 160, replacement=False)


def drawn(design, ranks, rng):
    """The rows of a log for the true ranks of each recommender."""
    tables = []
    for name, true_ranks in ranks.items():
        negatives, above = design.draw(true_ranks, rng)
        columns = {"n_negatives": negatives, "n_better": above, "n_tied": 0}
        tables.append(
            pd.DataFrame({"recommender": name, "user": np.arange(len(true_ranks)), **columns})
        )
    return pd.concat(tables, ignore_index=True)


def exact_ranks():
    """Ranks of X, Y and Z among films of MovieLens 1M, within catalogues of one size."""
    return {name: intervals.n_better + 1 for name, intervals in bundled_ranks().items()}


@pytest.fixture(scope="module")
def rows():
    return drawn(DESIGN, exact_ranks(), np.random.default_rng(SEED))


@pytest.fixture(scope="module")
def log(rows):
    return sm.read_log(rows, protocol=DESIGN)


def frequencies(rows, name, design):
    recommender_rows = rows[rows["recommender"] == name]
    places = design.places(recommender_rows["n_negatives"], recommender_rows["n_better"])
    return np.bincount(places, minlength=design.most + 1)


def test_the_log_keeps_its_design(rows, log):
    assert log.protocol == DESIGN
    columns = ["recommender", "user", "n_negatives", "n_better", "n_tied"]
    pd.testing.assert_frame_equal(
        log.frame[columns].reset_index(drop=True), rows[columns], check_dtype=False
    )
    assert source_of(log)["negatives"] == "20 to 160, without replacement"


def test_an_estimate_is_computed_from_the_distribution_of_outcomes(rows, log):
    # The criterion of bias-variance written down with P, the matrix of the design.
    gamma = default_gamma(6_040)
    table = estimate_each(log, ["recall@10", "auc"], ["bias-variance"])
    pmf = DESIGN.pmf(np.arange(1, N_ITEMS + 1))
    system = (1 - gamma) * pmf.T @ pmf + gamma * np.diag(pmf.sum(axis=0))
    for metric in ("recall@10", "auc"):
        exact = sm.metric(metric).vector(N_ITEMS)
        values = np.linalg.solve(system, pmf.T @ exact)
        for name in "XYZ":
            row = table[(table["recommender"] == name) & (table["metric"] == metric)].iloc[0]
            counts = frequencies(rows, name, DESIGN)
            user_values = np.repeat(values, counts)
            assert row["value"] == pytest.approx(user_values.mean(), rel=1e-6)
            error = user_values.std(ddof=1) / np.sqrt(user_values.size)
            assert row["standard_error"] == pytest.approx(error, rel=1e-6)


def test_the_estimate_of_a_recommender_is_by_the_fitted_prior(log):
    estimates = sm.estimate(log, ["recall@10"], identification=False)
    assert estimates.settings["estimator"] == "bias-variance, fitted prior"
    assert estimates.frame[["reported", "typical_low", "typical_high"]].isna().all(axis=None)
    assert any(note.startswith("no typical range for recall@10: ") for note in estimates.notes)


def test_a_fitted_prior_is_that_of_maximum_entropy(rows, log):
    names = ["bias-variance, fitted prior", "maximum entropy"]
    values = estimate_each(log, ["ndcg@10"], names).set_index(["recommender", "estimator"])["value"]
    total_counts = sum(frequencies(rows, name, DESIGN) for name in "XYZ")
    prior = priors.maximum_entropy(total_counts, DESIGN).mass
    estimator = bias_variance("ndcg@10", DESIGN, default_gamma(6_040), prior)
    exact = sm.metric("ndcg@10").vector(N_ITEMS)
    for name in "XYZ":
        counts = frequencies(rows, name, DESIGN)
        mean_value = counts @ estimator.values / counts.sum()
        assert values[name, "bias-variance, fitted prior"] == pytest.approx(mean_value, rel=2e-3)
        mass = priors.maximum_entropy(counts, DESIGN).mass
        assert values[name, "maximum entropy"] == pytest.approx(mass @ exact, rel=2e-3)


@pytest.mark.matrix
def test_standard_errors_are_the_spread_of_estimates():
    rng, tables = np.random.default_rng(SEED), []
    design = sm.Adaptive(500, 5, 40)
    p = 1 / np.arange(4.0, 504.0)
    ranks = rng.choice(500, size=(60, 400), p=p / p.sum()) + 1
    names = ["bias-variance", "bias-variance, fitted prior", "maximum entropy"]
    for true_ranks in ranks:
        drawn_log = sm.read_log(drawn(design, {"A": true_ranks}, rng), protocol=design)
        tables.append(estimate_each(drawn_log, ["ndcg@10"], names))
    for name in names:
        estimates = pd.concat(tables)
        estimates = estimates[estimates["estimator"] == name]
        assert estimates["standard_error"].mean() == pytest.approx(
            estimates["value"].std(), rel=0.3
        )


POPULATIONS = {
    "film ranks of X": lambda: np.bincount(exact_ranks()["X"] - 1, minlength=N_ITEMS) / 6_040,
    "film ranks of Z": lambda: np.bincount(exact_ranks()["Z"] - 1, minlength=N_ITEMS) / 6_040,
    "just within ten": lambda: np.eye(N_ITEMS)[9] * 0.3 + 0.7 / N_ITEMS,
    "just beyond ten": lambda: np.eye(N_ITEMS)[10] * 0.3 + 0.7 / N_ITEMS,
    "all at the blind spot": lambda: np.eye(N_ITEMS)[22],
}


@pytest.mark.some(2)
@pytest.mark.parametrize("users", [12, 400])
@pytest.mark.parametrize("kind", [*POPULATIONS, "falling"])
def test_ranges_hold_the_exact_metric(kind, users):
    # 5% of 40 are 2; 7 or more are missed once in 300 times where exactly 5% are wrong.
    is_decreasing = kind == "falling"
    p = (
        (np.arange(N_ITEMS, 0.0, -1.0) / np.arange(4.0, N_ITEMS + 4))
        if is_decreasing
        else POPULATIONS[kind]()
    )
    p /= p.sum()
    rng, missed, exact = np.random.default_rng(7), 0, p[:10].sum()
    for _ in range(40):
        ranks = 1 + rng.choice(N_ITEMS, size=users, p=p)
        drawn_log = sm.read_log(drawn(DESIGN, {"A": ranks}, rng), protocol=DESIGN)
        assumption = "decreasing" if is_decreasing else None
        row = sm.estimate(drawn_log, ["recall@10"], assumption=assumption).frame.iloc[0]
        missed += not row["possible_low"] - 1e-9 <= exact <= row["possible_high"] + 1e-9
        assert row["warrant"] == "theorem"
    assert missed < 7


def test_verdicts_hold_and_are_given():
    truth, comparisons = exact_ranks(), []
    rng = np.random.default_rng(SEED)
    for _ in range(3):
        users = rng.choice(6_040, size=6_040)
        ranks = {name: exact[users] for name, exact in truth.items()}
        one = sm.read_log(drawn(DESIGN, ranks, rng), protocol=DESIGN)
        comparisons.append(sm.compare(one, "auc"))
    better = {name: -exact.mean() for name, exact in truth.items()}  # AUC falls with the mean rank
    for comparison in comparisons:
        for (a, b), verdict in comparison.verdicts.items():
            one, other = sorted((a, b), key=better.__getitem__)[::-1]
            assert verdict in (f"{one} beats {other}", "undecided")
    last = comparisons[-1]
    assert set(last.frame["verdict"]) != {"undecided"}
    assert last.frame["reported"].isna().all()
    assert last.frame["probability"].isna().all()
    assert "nan" not in str(last)
    assert "reported is left empty" in " ".join(last.notes)


def test_differences_hold_the_exact_one():
    truth = exact_ranks()
    exact = (truth["X"] <= 10).mean() - (truth["Y"] <= 10).mean()
    rng, missed = np.random.default_rng(3), 0
    for _ in range(40):
        users = rng.choice(6_040, size=500)
        ranks = {name: truth[name][users] for name in "XY"}
        drawn_log = sm.read_log(drawn(DESIGN, ranks, rng), protocol=DESIGN)
        row = sm.compare(drawn_log, "recall@10", assumption=None).frame.iloc[0]
        missed += not row["possible_low"] <= exact <= row["possible_high"]
    assert missed < 7


def test_a_metric_that_is_the_same_at_all_ranks_has_no_winner(log):
    metric = f"recall@{N_ITEMS}"
    assert set(sm.compare(log, metric).frame["verdict"]) == {"undecided"}
    table = sm.estimate(log, [metric]).frame
    assert table[["estimate", "possible_low", "possible_high"]].to_numpy() == pytest.approx(1.0)


@pytest.mark.parametrize("replacement", [True, False])
def test_one_round_is_a_fixed_sample(replacement):
    design = sm.Adaptive(N_ITEMS, 30, 30, replacement=replacement)
    rows = drawn(design, {n: r[:800] for n, r in exact_ranks().items()}, np.random.default_rng(1))
    adaptive_log = sm.read_log(rows, protocol=design)
    fixed_log = sm.read_log(rows, n_items=N_ITEMS, replacement=replacement)
    without_assumption = partial(sm.estimate, assumption=None)
    for verb in (sm.estimate, without_assumption):
        ours, expected = (
            verb(sampled_log, ["ndcg@10", "auc"]) for sampled_log in (adaptive_log, fixed_log)
        )
        pd.testing.assert_frame_equal(ours.frame, expected.frame, check_exact=True)
        assert ours.notes == expected.notes
    for metric in ("ndcg@10", "auc"):
        ours, expected = (
            sm.compare(sampled_log, metric) for sampled_log in (adaptive_log, fixed_log)
        )
        pd.testing.assert_frame_equal(ours.frame, expected.frame, check_exact=True)
    assert fitted(adaptive_log, 2_000) == fitted(fixed_log, 2_000)


def test_a_plan_starts_from_the_fit_to_the_outcomes(rows, log):
    fits = fitted(log, N_ITEMS)
    for name in "XYZ":
        mass = priors.maximum_entropy(frequencies(rows, name, DESIGN), DESIGN).mass
        ranks, shares = np.array(list(fits[name].items())).T
        assert shares @ ranks == pytest.approx(mass @ np.arange(1, N_ITEMS + 1), rel=1e-3)
        assert shares[:50] == pytest.approx(mass[:50], rel=1e-9)
    planned = plan(log, "recall@10", estimators=["bias-variance"], max_negatives=20)
    mean = round(rows["n_negatives"].mean())
    assert f"the plan is for {mean} negatives" in planned.notes[0]
    assert f"{mean} negatives" in planned.source["planned"]


def test_a_count_of_users_stands_for_their_rows(rows, log):
    user_rows = rows[rows["recommender"] == "X"].drop(columns=["user", "recommender"])
    counted_rows = user_rows.value_counts().reset_index()
    counted_log = sm.read_log(counted_rows, protocol=DESIGN)
    table = sm.estimate(counted_log, ["rr"]).frame.drop(columns="recommender")
    # The prior is fitted to all recommenders of a log.
    alone = sm.read_log(rows[rows["recommender"] == "X"], protocol=DESIGN)
    expected = sm.estimate(alone, ["rr"]).frame.drop(columns="recommender")
    pd.testing.assert_frame_equal(table, expected, rtol=1e-9)


@pytest.fixture
def path(rows, tmp_path):
    first_rows = rows[rows["user"] < 400]
    first_rows.to_csv(tmp_path / "log.csv", index=False)
    return tmp_path / "log.csv"


OPTIONS = ["--n-items", str(N_ITEMS), "--adaptive", "20", "160", "--no-replacement", "--quiet"]


def test_the_commands_read_such_a_log(path, rows, capsys, tmp_path):
    page, first_rows = tmp_path / "page.html", rows[rows["user"] < 400]
    command = ["estimate", str(path), *OPTIONS, "--metrics", "rr", "--format", "json"]
    assert main([*command, "--report", str(page)]) == 0
    captured = capsys.readouterr()
    printed_rows = json.loads(captured.out)
    expected = sm.estimate(sm.read_log(first_rows, protocol=DESIGN), ["rr"]).frame
    assert [row["estimate"] for row in printed_rows] == pytest.approx(expected["estimate"].tolist())
    assert "reported is left empty" in captured.err
    assert ">nan<" not in page.read_text()
    assert main(["compare", str(path), *OPTIONS, "--metric", "auc"]) == 0
    assert "nan" not in capsys.readouterr().out
    plan = ["plan", "--from", str(path), *OPTIONS, "--metric", "auc", "--max-negatives", "5"]
    assert main([*plan, "--estimators", "naive"]) == 0
    assert "as many as the log has on average" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (["--n-items", str(N_ITEMS)], "error: --n-items is missing"),
        (["--no-replacement"], "error: --replacement is missing"),
    ],
)
def test_the_commands_say_what_is_missing(path, capsys, left_out, said):
    text = " ".join(OPTIONS).replace(" ".join(left_out), "")
    assert main(["estimate", str(path), *text.split()]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_an_unannounced_log_is_refused_with_a_way_out(rows):
    log = sm.read_log(rows, n_items=N_ITEMS, replacement=False)
    with pytest.raises(ValueError, match=r"protocol=sm.Adaptive\(.*--adaptive FIRST MOST"):
        sm.compare(log, "ndcg@10")
    with pytest.raises(ValueError, match=r"n_negatives must not depend on n_better.*Adaptive"):
        sm.estimate(log, ["ndcg@10"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_negatives": 40, "n_better": 0}, "got n_negatives 40 and n_better 0 for user 1 of A"),
        (
            {"n_negatives": 50, "n_better": 1},
            r"\(20, 40, 80, 160\).* got n_negatives 50 and n_better 1 for user 1 of A",
        ),
        ({"n_negatives": 40, "n_better": 21}, "last round.* got n_negatives 40 and n_better 21"),
        ({"n_negatives": 320, "n_better": 1}, "got n_negatives 320 and n_better 1"),
        (
            {"n_tied": 1},
            "n_tied must be 0 .*got 1 for user 1 of A: whether .* one random place among its ties",
        ),
        (
            {"n_items": 3_000},
            "n_items must agree with the column n_items, got 3700 and 3000 in row",
        ),
        ({"n_above": 3.0}, "n_above must be no column"),
        ({"user": 0, "n_negatives": 20, "n_better": 1}, "one row for each user"),
    ],
)
def test_rows_that_the_design_does_not_have_are_refused(change, said):
    rows = pd.DataFrame({
        "recommender": "A", "user": [0, 1, 2], "n_negatives": [20, 160, 40],
        "n_better": [3, 0, 2], "n_tied": 0, "n_items": N_ITEMS, "item": [1, 2, 3],
    })  # fmt: skip
    assert len(sm.read_log(rows, protocol=DESIGN).frame) == 3
    if "n_above" in change:
        rows["n_above"] = 5.0
    for name, value in change.items():
        rows.loc[1, name] = value
    with pytest.raises(ValueError, match=said):
        sm.read_log(rows, protocol=DESIGN)


def test_options_that_fit_no_adaptive_log_are_refused(rows, log):
    with pytest.raises(ValueError, match="'naive' is for a fixed number of negatives"):
        sm.estimate(log, ["rr"], estimator="naive")
    with pytest.raises(ValueError, match="'monotone' is for a fixed number of negatives"):
        sm.compare(log, "rr", estimator="monotone")
    with pytest.raises(ValueError, match="n_negatives must be a column"):
        sm.read_log(pd.DataFrame({"user": [0], "rank": [1]}), protocol=DESIGN)
    with pytest.raises(ValueError, match="n_items must be left out with a protocol"):
        sm.read_log(rows, n_items=N_ITEMS, protocol=DESIGN)
    shared = sm.read_log(rows, protocol=DESIGN, shared_negatives=True)
    with pytest.raises(ValueError, match="shared_negatives must be False"):
        sm.estimate(shared, ["rr"])

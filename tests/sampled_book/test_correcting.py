"""The chapters' computations on corrections, by other ways to the same numbers."""

import numpy as np
import pandas as pd
import pytest

from sampled_book.chapters import correcting, resolution, verdicts
from sampled_book.chapters.corrected_movielens import (
    distances,
    one_evaluation,
    order_shares,
    published_table_3,
)
from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.ranking.intervals import RankIntervals
from tests.data import simulated

TOY = {
    "A": RankIntervals(n_better=[0, 4, 20], n_tied=[0, 3, 0], n_candidates=[30, 40, 35]),
    "B": RankIntervals(n_better=[2, 9, 1], n_tied=[0, 0, 6], n_candidates=[30, 40, 35]),
}
ASKED = ["recall@3", "ap"], correcting.methods([0.1]), Protocol(35, 6, replacement=True)


def test_visible_shares_are_squared_singular_values():
    pmf = Protocol(60, 7, replacement=False).pmf(np.arange(1, 61))
    scaled = pmf / np.sqrt(60 * pmf.mean(axis=0))
    squares = np.linalg.svd(scaled, compute_uv=False) ** 2
    np.testing.assert_allclose(resolution.visible(60, 7), squares, rtol=1e-8)


def test_components_of_all_degrees_add_up_to_the_mean_square():
    coefficients = resolution.components("ndcg", 9, 8)
    assert (coefficients**2).sum() == pytest.approx(
        (metric("ndcg").vector(9) ** 2).mean(), rel=1e-12
    )


def test_least_bias_has_the_size_and_the_bias_of_the_components():
    protocol, c = Protocol(40, 5, replacement=False), resolution.components("ap", 40, 39)
    least = estimators.least_bias("ap", protocol)
    ((bias, _),) = correcting.root_mean_squares([least])
    assert bias**2 == pytest.approx((c[6:] ** 2).sum(), rel=1e-9)
    size = (c[:6] ** 2 / resolution.visible(40, 5)).sum()
    assert (least.values**2).mean() == pytest.approx(size, rel=1e-9)  # all sampled ranks alike


def test_passed_shares_are_those_of_the_estimator():
    protocol, c = Protocol(40, 5, replacement=False), resolution.components("ap", 40, 39)
    passed_shares = resolution.passed(resolution.visible(40, 5), 0.05)
    corrected = estimators.bias_variance("ap", protocol, 0.05)
    ((bias, _),) = correcting.root_mean_squares([corrected])
    expected = ((1 - passed_shares) ** 2 * c[:6] ** 2).sum() + (c[6:] ** 2).sum()
    assert bias**2 == pytest.approx(expected, rel=1e-9)


def test_errors_are_those_of_drawn_averages():
    protocol, ranks = Protocol(200, 10, replacement=True), np.array([1, 4, 30, 30])
    errors = correcting.errors_by_gamma("ap", protocol, {"A": ranks}, [4], [0.01, 0.5])
    rng = np.random.default_rng(1)
    for gamma in (0.01, 0.5):
        e = estimators.bias_variance("ap", protocol, gamma)
        drawn = e(protocol.draw(np.tile(ranks, (20_000, 1)), rng)).mean(axis=1)
        squares = (drawn - metric("ap")(ranks).mean()) ** 2
        error = squares.std() / np.sqrt(squares.size)
        assert abs(squares.mean() - errors["A", 4][gamma] ** 2) < 4 * error


def test_the_opening_holds_the_means_of_drawn_averages_in_percent():
    protocol, rng = Protocol(200, 10, replacement=True), np.random.default_rng(2)
    ranks = {"A": np.array([1, 4, 30, 30]), "B": np.array([90, 2, 150, 9])}
    texts = correcting.opening("recall@5", protocol, ranks)
    assert texts["users"] == 4
    reported = estimators.naive("recall@5", protocol)
    for name, true_ranks in ranks.items():
        rows = np.tile(true_ranks, (20_000, 1))
        values = 100 * reported(protocol.draw(rows, rng)).mean(axis=1)
        error = values.std() / np.sqrt(values.size)
        assert abs(values.mean() - texts[f"sampled_{name.lower()}"][0]) < 4 * error + 1e-9


def test_one_evaluation_has_the_moments_of_simulated_ones():
    moments = one_evaluation(TOY, *ASKED)
    runs = simulated(TOY, *ASKED, 20_000, np.random.default_rng(2))
    assert list(moments.index[:2]) == [
        ("Recall@3", "uncorrected", "A"),
        ("Recall@3", "rank estimate", "A"),
    ]
    for key, row in moments.iterrows():
        assert abs(runs[key].mean() - row["mean"]) <= 4.5 * row["sd"] / np.sqrt(20_000) + 1e-12
        assert runs[key].std() == pytest.approx(row["sd"], rel=0.03, abs=1e-12)
        kind = {"Recall@3": "recall@3", "AP": "ap"}[key[0]]
        assert row["exact"] == TOY[key[2]].evaluate(metric(kind), "mean").mean()


def test_verdicts_are_of_the_differences():
    moments = one_evaluation(TOY, *ASKED)
    judged = verdicts.verdicts(moments, 3)["A, B", "AP", "BV 0.1"]
    a, b = (moments.loc[("AP", "BV 0.1", name)] for name in "AB")
    assert judged.expected == a["mean"] - b["mean"]
    assert judged.sd**2 == pytest.approx(a["sd"] ** 2 + b["sd"] ** 2)
    assert len(verdicts.verdicts(moments, 3)) == 2 * 4


def test_printed_tables_have_every_cell():
    columns = set(correcting.methods([1, 0.1, 0.01, 0.001]))
    for printed, level in ((published_table_3(), 1), (verdicts.published_table_4(), 2)):
        assert len(printed) == 84
        assert not printed.index.duplicated().any()
        assert set(printed.index.get_level_values(level)) == columns


def test_the_printed_x_is_one_more_start():
    rows = pd.MultiIndex.from_tuples([("AP", "CLS", name) for name in "XY"])
    moments = pd.DataFrame({"mean": [3.0, 4.0], "sd": [0.1, 0.1]}, rows)
    printed = pd.DataFrame({"mean": [5.0, 4.02], "sd": [0.1, 0.1]}, rows)
    names = pd.MultiIndex.from_tuples([("AP", "CLS", f"X {i}") for i in range(3)])
    starts = pd.DataFrame({"mean": [4.0, 5.0, 6.0], "sd": [0.1, 0.1, 0.1]}, names)
    gaps = distances(moments, printed, starts)
    assert gaps.loc[("AP", "CLS", "X"), "mean"] == pytest.approx(0, abs=1e-12)
    assert gaps.loc[("AP", "CLS", "Y"), "mean"] == pytest.approx(
        0.02 / np.hypot(0.01, 0.01 / 12**0.5)
    )


def test_in_order_counts_the_starts():
    rows = pd.MultiIndex.from_tuples([("AP", "CLS", name) for name in "XYZ"])
    moments = pd.DataFrame({"exact": [1.0, 2.0, 3.0], "mean": [1.0, 2.0, 3.0]}, rows)
    names = pd.MultiIndex.from_tuples([("AP", "CLS", f"X {i}") for i in range(4)])
    starts = pd.DataFrame({"exact": [1.0] * 4, "mean": [1.5, 2.5, 3.5, 0.0]}, names)
    assert order_shares(moments, starts).loc[("AP", "CLS")].tolist() == [0.5, 0.75]
    assert order_shares(moments, starts.iloc[:0]).loc[("AP", "CLS")].tolist() == [1.0, 1.0]

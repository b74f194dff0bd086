"""The fitted corrections: what one evaluation reports, and the thousand that are bundled."""

import numpy as np
import pytest

from sampled_book import fits
from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.ranking import RankIntervals


def test_an_evaluation_by_hand():
    """All negatives are drawn, so that each sampled rank is the true one."""
    ranks = {"A": RankIntervals([0, 1, 4], [0, 0, 0], [7] * 3)}
    ranks["B"] = RankIntervals([6, 6, 0], [0, 0, 0], [7] * 3)
    names = [metric("auc"), metric("recall@2")]
    found = fits.evaluation(ranks, names, 6, np.random.default_rng(0))
    exact = [[r.evaluate(of, "mean").mean() for r in ranks.values()] for of in names]
    np.testing.assert_allclose(found[0], exact, atol=1e-5)  # the likeliest are the ranks themselves
    # The prior of both together, and a sampled rank that tells the true one: P is the identity.
    np.testing.assert_allclose(found[2], exact, atol=1e-9)
    # The most even distribution is pulled towards equal shares, whose AUC is one half.
    assert (np.abs(found[1, 0] - 0.5) < np.abs(np.array(exact[0]) - 0.5)).all()


def test_ties_are_broken_and_negatives_drawn_anew():
    ranks = {"A": RankIntervals([0] * 40, [20] * 40, [30] * 40)}
    rng = np.random.default_rng(1)
    auc = [metric("auc")]
    found = np.array([fits.evaluation(ranks, auc, 5, rng)[0, 0, 0] for _ in range(60)])
    exact = ranks["A"].evaluate(auc[0], "mean").mean()
    assert found.std() > 0.01
    assert abs(found.mean() - exact) < 4 * found.std() / np.sqrt(60)


def test_too_many_negatives_are_refused():
    ranks = {"A": RankIntervals([0], [0], [7])}
    with pytest.raises(ValueError, match=r"n_negatives must be a whole number in \[1, 6\], got 7"):
        fits.evaluation(ranks, [metric("auc")], 7, np.random.default_rng(0))


@pytest.fixture(scope="module")
def bundle():
    return fits.bundled_fits()


@pytest.mark.parametrize(("m", "draw"), [(10, 0), (30, 7), (100, 999)])
def test_the_bundle_is_what_is_simulated(bundle, m, draw):
    sets = fits.recommender_sets()
    for place, (name, recommenders) in enumerate(sets.items()):
        of_set = bundle[(bundle["set"] == name) & (bundle["m"] == m) & (bundle["draw"] == draw)]
        rng = np.random.default_rng([fits.SEED, place, m, draw])
        values = fits.evaluation(recommenders, [metric(x) for x in fits.METRICS], m, rng)
        np.testing.assert_allclose(of_set["value"].to_numpy(), values.ravel(), rtol=0, atol=5e-5)


def test_the_bundle_has_all_of_a_thousand_draws(bundle):
    assert sorted(set(bundle["m"])) == sorted(fits.SIZES)
    assert bundle.groupby(["set", "m", "metric", "by", "name"]).size().eq(fits.DRAWS).all()


def test_the_spread_of_auc_is_that_of_its_exact_variance(bundle):
    """Bias-variance leaves AUC all but as it is: its spread over the draws is known exactly."""
    one = bundle[(bundle["metric"] == "auc") & (bundle["by"] == "BV fitted") & (bundle["m"] == 100)]
    for name, ranks in fits.recommender_sets()["X, Y, Z"].items():
        law = ranks.sampled_pmf(100)
        n = round(float(ranks.n_candidates.mean()))
        values = estimators.naive(metric("auc"), Protocol(n, 100, replacement=False)).values
        spread = np.sqrt((law @ values**2 - (law @ values) ** 2).sum()) / law.shape[0]
        drawn = one[(one["set"] == "X, Y, Z") & (one["name"] == name)]["value"]
        assert drawn.std() == pytest.approx(spread, rel=0.1)
        assert drawn.mean() == pytest.approx(ranks.evaluate(metric("auc"), "mean").mean(), abs=1e-3)


def test_the_command_writes_what_the_package_reads(tmp_path, monkeypatch, capsys):
    few = {
        name: {
            of: RankIntervals(r.n_better[::20], r.n_tied[::20], r.n_candidates[::20])
            for of, r in recommenders.items()
        }
        for name, recommenders in fits.recommender_sets().items()
    }
    monkeypatch.setattr(fits, "recommender_sets", lambda: few)
    monkeypatch.setattr(fits, "SIZES", (10,))
    monkeypatch.setattr(fits, "DRAWS", 3)
    assert fits.main(["--output", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(tmp_path / "fits.npz")
    assert "100%" in captured.err
    monkeypatch.setattr(fits.datasets, "BUNDLE", tmp_path)
    table = fits.bundled_fits()
    for place, (name, recommenders) in enumerate(few.items()):
        for draw in range(3):
            rng = np.random.default_rng([fits.SEED, place, 10, draw])
            values = fits.evaluation(recommenders, [metric(m) for m in fits.METRICS], 10, rng)
            found = table[(table["set"] == name) & (table["draw"] == draw)]["value"].to_numpy()
            np.testing.assert_allclose(found, values.ravel(), rtol=0, atol=2e-5)
    assert set(table["m"]) == {10}

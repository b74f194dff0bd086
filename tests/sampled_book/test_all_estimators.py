"""Published estimators beside their authors' programs; and the comparison of all estimators."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import binom

from sampled_book.data import benchmark
from sampled_book.experiments import all_estimators, left_out
from sampled_book.experiments import learned_prior as laboratory
from sampled_book.experiments.all_estimators import Grid
from sampled_metrics import Protocol, estimators, learned_prior, metric

METRICS = ("recall@10", "ndcg@10", "ap")
#: What the authors' notebooks in estimator/ give for the sampled ranks of `shares`, with 100 as
#: their n, 3,599 as N, one repetition, NumPy in double precision for PyTorch and Clarabel for
#: MOSEK: Recall@10, NDCG@10 and AP. Repository
#: dli12/AAAI23-Towards-Reliable-Item-Sampling-for-Recommendation-Evaluation,
#: commit 42f55585289ac197e09b0baba4fa5482aff0ee06.
AUTHORS = {
    "MES": (0.04585903954587926, 0.020431390168732654, 0.02258947652027363),
    "MLE": (0.04367510009282375, 0.019064869892001925, 0.021963254643316367),
    "BV_MES": (0.04233972430913539, 0.018330174860664218, 0.021488066199508913),
    "MN_MES": (0.04607000043926661, 0.020507512027944246, 0.02286992235234294),
}


@pytest.fixture(scope="module")
def shares():
    """Shares of the sampled ranks that EASE would have on LastFM without noise, rounded."""
    ranks = benchmark.ranks("lastfm")["EASE"]
    above = np.rint(99 * ranks.n_better / (ranks.n_candidates - 1)).astype(int)
    return np.bincount(above, minlength=100) / above.size


def test_the_authors_programs_give_the_same_values(shares):
    grid = Grid.of(Protocol(3_599, 99))
    values = grid.values(METRICS)
    mass = all_estimators.squared_entropy(grid, shares)
    ours = {
        "MES": mass @ values,
        "MLE": all_estimators.expectation_maximisation(grid, shares) @ values,
        "BV_MES": shares @ all_estimators.corrected(grid, mass, values),
        "MN_MES": shares @ all_estimators.corrected(grid, mass, values, 1_090),
    }
    for name, theirs in AUTHORS.items():
        np.testing.assert_allclose(ours[name], theirs, atol=1e-11, err_msg=name)


def test_maximum_entropy_has_the_smallest_squared_distance():
    protocol = Protocol(12, 3)
    observed = np.array([0.5, 0.3, 0.2, 0.0])
    rows = protocol.pmf(np.arange(1, 13))

    def criterion(p):
        return 4 * np.sum(observed * (p @ rows - observed) ** 2) + 0.01 * np.sum(p * np.log(p))

    slow = minimize(
        criterion,
        np.full(12, 1 / 12),
        bounds=[(1e-12, 1)] * 12,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1_000},
    )
    mass = all_estimators.squared_entropy(Grid.of(protocol), observed)
    np.testing.assert_allclose(mass, slow.x, atol=1e-5)


def test_few_ranks_sum_to_what_all_ranks_do(shares):
    protocol = Protocol(3_599, 99, replacement=False)
    every = np.arange(1.0, 3_600.0)
    results = []
    for grid in (Grid.of(protocol), Grid(every, np.ones(3_599), protocol.rows(every - 1))):
        values = grid.values(METRICS)
        mass = all_estimators.squared_entropy(grid, shares)
        likely = all_estimators.expectation_maximisation(grid, shares)
        corrected = all_estimators.corrected(grid, mass, values, 1_090)
        results.append([mass @ values, likely @ values, shares @ corrected])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-11)


def test_bias_variance_is_the_library_estimator():
    protocol = Protocol(60, 4, replacement=False)
    grid, prior = Grid.of(protocol), np.arange(60, 0, -1) / 1_830
    ours = all_estimators.corrected(grid, prior, grid.values(["ndcg@10"]))[:, 0]
    theirs = estimators.bias_variance("ndcg@10", protocol, all_estimators.GAMMA, prior).values
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_a_power_law_is_found_from_its_expected_sample():
    share, exponent, m, items = 0.9, 0.35, 50, 2_000

    def chance(x):
        """By substitution of t = (rank / items)^exponent, without a pole."""
        return share * quad(lambda t: binom.pmf(x, m, t ** (1 / exponent)), 0, 1, epsabs=1e-12)[0]

    first = [chance(x) for x in range(3)]
    rest = (1 - sum(first)) / (m - 2)
    value = all_estimators.power_law(np.array([*first, *[rest] * (m - 2)]), items, "recall@10")
    assert value == pytest.approx(share * (10 / items) ** exponent, rel=1e-8)


def test_the_oracle_uses_the_others_exact_ranks_and_its_own_log():
    """Of a single recommender it is the learned prior; ranks of its own do not matter."""
    ranks, prior = benchmark.ranks("kuairec"), learned_prior.learned()
    log = next(log for log in left_out.drawn("kuairec", ranks) if log.n_negatives == 50)

    def parts(names, own):
        better = {name: log.better[name] for name in names}
        counts = left_out.counts_of(better, 50, log.sizes, log.replacement)
        exact = laboratory.exact_counts({name: ranks[own.get(name, name)] for name in names})
        return counts, exact

    counts, exact = parts(["EASE"], {})
    alone = learned_prior.fit(counts, prior).logarithms(metric("ap"))[0]
    assert np.log(all_estimators.informed(counts, exact, prior)[0, 2]) == pytest.approx(alone[0])
    three = ["EASE", "BPR", "Popular"]
    first, own, others = (
        all_estimators.informed(*parts(three, changed), prior)[0]
        for changed in ({}, {"EASE": "Popular"}, {"BPR": "Popular"})
    )
    np.testing.assert_allclose(own, first, rtol=1e-9)
    assert (np.abs(others / first - 1) > 5e-4).all()


def test_a_source_is_judged_as_bundled(monkeypatch):
    monkeypatch.setattr(left_out, "SIZES", (20, 50))
    counts, groups = laboratory.bundled_counts(), laboratory.group_by_data()
    rest = {name: part for name, part in counts.items() if groups[name] != groups["filmtrust"]}
    prior = laboratory.learn(rest, groups)
    anew = all_estimators.judged("filmtrust", benchmark.ranks("filmtrust"), prior)
    kept = all_estimators.bundled()
    kept = kept[(kept["data"] == "filmtrust") & kept["n_negatives"].isin([20, 50])]
    keys = [*all_estimators._LOG]
    both = anew.merge(kept, on=keys, suffixes=("", "_kept"), validate="one_to_one")
    assert len(both) == len(anew) == 2 * 2 * 3 * 8
    for column in ("off", "square"):
        np.testing.assert_allclose(both[column], both[f"{column}_kept"], rtol=1e-3, atol=1e-4)
    # On another processor a pair with nearly equal estimates may change its order.
    changed = (both["right"] - both["right_kept"]).abs()
    assert changed.max() < 1.5 / 36
    assert (changed > 1e-4).sum() <= 3


def test_the_learned_prior_has_the_smallest_error_that_a_log_allows():
    """As Appendix I and the chapter on MovieLens say."""
    table = all_estimators.summary(all_estimators.bundled())
    assert {*table["estimator"]} == {*all_estimators.ESTIMATORS}
    wide = table.pivot(index=["metric", "whole", "n_negatives"], columns="estimator", values="rms")
    rivals = wide.drop(columns=[all_estimators.LEARNED, all_estimators.ORACLE])
    assert (wide[all_estimators.LEARNED] < rivals.min(axis=1)).all()
    assert wide.notna().all(axis=None)


def test_errors_count_small_values_as_three_users():
    exact = np.array([0.2, 0.1, 0.05, 0.05])
    off, square, right = all_estimators._errors(np.array([0.2, -1.0, 0.02, 0.0]), exact, 100)
    expected = np.log([1.0, 0.3, 0.6, 0.6])
    assert (off, square) == pytest.approx((expected.mean(), (expected**2).mean()))
    assert right == pytest.approx(3 / 5)


def test_decide_says_how_many_pairs_the_default_puts_in_the_wrong_order():
    rows = all_estimators.bundled()
    rows = rows[(rows["n_negatives"] == 100) & (rows["metric"] == "recall@10")]
    by_data = rows.groupby(["estimator", "group", "data"])["right"].mean()
    wrong = 1 - by_data.groupby(["estimator", "group"]).mean().groupby("estimator").mean()
    decide = benchmark.BUNDLE.parents[3] / "book/library/decide.md"
    assert (
        f"{wrong['learned prior']:.0%} of the pairs on Recall@10 are in the wrong order, and "
        f"{wrong['reported']:.0%} as reported"
    ) in " ".join(decide.read_text(encoding="utf-8").split())

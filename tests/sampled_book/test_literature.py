"""Estimators of the literature, beside the authors' own programs and slow solvers."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from sampled_book.data import benchmark
from sampled_book.experiments import literature, literature_errors
from sampled_book.experiments.literature import Grid
from sampled_metrics import Protocol, estimators, priors

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
#: Hit ratios at the ranks that sampled k = 1, 2, 5, 10, 20, 50 of 100 (or ten times k of 1,000)
#: map to, by the mapping: tables 3 and 4 of li2020 for MultiVAE, as in README.md of repository
#: dli12/KDD20-On-Sampling-Top-K-Recommendation-Evaluation,
#: commit 37295451a4c6fa57044d77620db1ba83401277d7. By items and by n.
HIT_RATIOS = {
    (3_706, 100): {
        "linear": (0.0007, 0.1116, 0.3745, 0.6048, 0.7952, 0.9671),
        "bound": (0.0442, 0.1700, 0.4050, 0.6204, 0.8012, 0.9682),
        "beta 1": (0.1116, 0.2185, 0.4334, 0.6323, 0.8050, 0.9684),
        "beta 0.5": (0.0829, 0.2012, 0.4209, 0.6258, 0.8028, 0.9682),
    },
    (3_706, 1_000): {
        "linear": (0.0957, 0.2099, 0.4286, 0.6296, 0.8040, 0.9682),
        "bound": (0.0998, 0.2124, 0.4306, 0.6303, 0.8043, 0.9682),
        "beta 1": (0.1116, 0.2185, 0.4334, 0.6316, 0.8050, 0.9684),
        "beta 0.5": (0.1089, 0.2174, 0.4318, 0.6316, 0.8046, 0.9684),
    },
    (25_815, 100): {
        "linear": (0.0002, 0.3129, 0.6044, 0.7698, 0.8902, 0.9752),
        "bound": (0.2006, 0.3879, 0.6308, 0.7789, 0.8933, 0.9755),
        "beta 1": (0.3111, 0.4450, 0.6518, 0.7853, 0.8952, 0.9755),
        "beta 0.5": (0.2691, 0.4194, 0.6417, 0.7820, 0.8941, 0.9755),
    },
    (25_815, 1_000): {
        "linear": (0.2929, 0.4349, 0.6476, 0.7838, 0.8948, 0.9755),
        "bound": (0.3005, 0.4407, 0.6494, 0.7846, 0.8950, 0.9755),
        "beta 1": (0.3111, 0.4450, 0.6518, 0.7853, 0.8952, 0.9755),
        "beta 0.5": (0.3070, 0.4434, 0.6507, 0.7850, 0.8951, 0.9755),
    },
}
METRICS = ("recall@10", "ndcg@10", "ap")


@pytest.fixture(scope="module")
def shares():
    """Shares of the sampled ranks that EASE would have on LastFM without noise, rounded."""
    ranks = benchmark.ranks("lastfm")["EASE"]
    above = np.rint(99 * ranks.n_better / (ranks.n_candidates - 1)).astype(int)
    return np.bincount(above, minlength=100) / above.size


def test_the_authors_programs_give_the_same_values(shares):
    grid = Grid.of(Protocol(3_599, 99))
    values = np.column_stack([grid.values(name) for name in METRICS])
    mass, _ = literature.squared_entropy(grid, shares)
    ours = {
        "MES": mass @ values,
        "MLE": literature.expectation_maximisation(grid, shares) @ values,
        "BV_MES": shares @ literature.bias_variance(grid, mass, values),
        "MN_MES": shares @ literature.multinomial(grid, mass, values, 1_090),
    }
    for name, theirs in AUTHORS.items():
        np.testing.assert_allclose(ours[name], theirs, atol=1e-11, err_msg=name)


def test_maximum_entropy_has_the_smallest_squared_distance():
    protocol = Protocol(12, 3)
    observed = np.array([0.5, 0.3, 0.2, 0.0])
    rows = protocol.pmf(np.arange(1, 13))

    def criterion(p):
        q = p @ rows
        return 4 * np.sum(observed * (q - observed) ** 2) + 0.01 * np.sum(p * np.log(p))

    slow = minimize(
        criterion,
        np.full(12, 1 / 12),
        bounds=[(1e-12, 1)] * 12,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1_000},
    )
    mass, _ = literature.squared_entropy(Grid.of(protocol), observed)
    assert criterion(mass) <= slow.fun + 1e-12
    np.testing.assert_allclose(mass, slow.x, atol=1e-5)


def test_few_ranks_sum_to_what_all_ranks_do(shares):
    protocol = Protocol(3_599, 99, replacement=False)
    every = np.arange(1.0, 3_600.0)
    results = []
    for grid in (Grid.of(protocol), Grid(every, np.ones(3_599), protocol.rows(every - 1))):
        values = np.column_stack([grid.values(name) for name in METRICS])
        mass, _ = literature.squared_entropy(grid, shares)
        likely = literature.expectation_maximisation(grid, shares)
        corrected = literature.multinomial(grid, mass, values, 1_090)
        results.append([mass @ values, likely @ values, shares @ corrected])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-11)


def test_bias_variance_is_the_library_estimator():
    protocol = Protocol(60, 4, replacement=False)
    grid = Grid.of(protocol)
    prior = np.arange(60, 0, -1) / 1_830
    ours = literature.bias_variance(grid, prior, grid.values("ndcg@10"), 0.05)
    theirs = estimators.bias_variance("ndcg@10", protocol, 0.05, prior).values
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_the_multinomial_estimator_has_the_least_error():
    """Its criterion, written out with the variance at each rank, increases in any direction."""
    grid = Grid.of(Protocol(30, 3))
    prior = np.arange(30, 0, -1) / 465
    values, users = grid.values("recall@10"), 40

    def criterion(estimator):
        mean = grid.rows @ estimator
        variance = grid.rows @ estimator**2 - mean**2
        return prior @ (mean - values) ** 2 + variance.sum() / users

    best = literature.multinomial(grid, prior, values, users)
    rng = np.random.default_rng(5)
    for step in rng.normal(0, 1e-3, (20, 4)):
        assert criterion(best + step) > criterion(best)


def test_many_steps_of_expectation_maximisation_reach_weighted_maximum_likelihood():
    protocol = Protocol(40, 4)
    weighted = literature.discounted(np.array([0.4, 0.2, 0.2, 0.1, 0.1]))
    mass = literature.expectation_maximisation(Grid.of(protocol), weighted, 100_000)
    best = priors.maximum_likelihood(weighted, protocol)
    np.testing.assert_allclose(mass @ protocol.pmf(np.arange(1, 41)), best.marginal, atol=1e-6)


@pytest.mark.parametrize("n_items", [3_706, 25_815])
def test_published_hit_ratios_increase_with_the_ranks_that_k_maps_to(n_items):
    k = np.array([1, 2, 5, 10, 20, 50])
    points = []
    for (items, n), rows in HIT_RATIOS.items():
        for name, hit_ratios in rows.items() if items == n_items else ():
            ranks = literature.MAPPINGS[name](k * n / 100, n_items, n - 1)
            points += zip(ranks, hit_ratios, strict=True)
    ranks, hit_ratios = np.array(points).T
    # The authors round, so that ranks within 1 of each other can change places.
    later = ranks[:, np.newaxis] > ranks + 1
    assert (hit_ratios[:, np.newaxis] - hit_ratios)[later].min() >= 0
    same = np.abs(ranks[:, np.newaxis] - ranks) < 0.01
    assert np.abs(hit_ratios[:, np.newaxis] - hit_ratios)[same].max() < 1e-3


def test_mapped_recall_is_exact_for_the_population_of_the_mapping():
    """The beta distribution with parameters 1 and 1 has equally many users at all ranks."""
    uniform, depths = np.full(101, 1 / 101), np.arange(5_001)
    recall = literature.mapped_recall(uniform, 5_000, depths, "beta 1")
    np.testing.assert_allclose(recall, depths / 5_000, atol=1 / 5_000)


@pytest.mark.simulation
def test_bundled_errors_are_those_of_a_new_computation():
    table = literature_errors.bundled()
    assert set(table["data"]) == {path.stem for path in benchmark.BUNDLE.glob("*.npz")}
    stored = table[table["data"] == "camra2011"].drop(columns="data").reset_index(drop=True)
    anew = literature_errors.errors(benchmark.ranks("camra2011"))
    # Other processors may round a draw of negatives or a fit otherwise.
    pd.testing.assert_frame_equal(stored, anew, rtol=1e-3, atol=1e-4)


def test_errors_are_those_of_values_written_out():
    """Two recommenders, one log: errors and order by hand from the same draws."""
    ranks = {name: benchmark.ranks("camra2011")[name] for name in ("Popular", "EASE")}
    table = literature_errors.errors(ranks, judged=1, averaged=1).set_index(["metric", "estimator"])
    rng = np.random.default_rng(literature_errors.SEED)
    miss, values = [], []
    for each in ranks.values():
        above = each.n_better + rng.integers(each.n_tied + 1)
        drawn = rng.hypergeometric(above, each.n_candidates - 1 - above, 100)
        values.append((drawn < 10).mean())
        miss.append(values[-1] - each.evaluate("recall@10").mean())
    exact = np.subtract(values, miss)
    row = table.loc["recall@10", "naive"]
    assert row["share"] == pytest.approx(np.sqrt(np.mean(np.square(miss))) / exact.mean())
    assert row["bias"] == pytest.approx(np.mean(miss) / exact.mean())
    assert row["wrong"] == float((values[0] > values[1]) != (exact[0] > exact[1]))
    # With one log, its prior is the average prior.
    assert table.loc["ap", "BV_MES"].tolist() == table.loc["ap", "BV_MES, averaged"].tolist()

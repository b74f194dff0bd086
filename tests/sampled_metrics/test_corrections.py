"""The corrections against dense twins, identities and enumeration."""

from math import comb

import mpmath
import numpy as np
import pytest
from scipy.optimize import lsq_linear

from sampled_metrics import Protocol, estimators, evaluation, metric
from sampled_metrics.estimators import (
    IllConditionedError,
    bias_variance,
    default_gamma,
    least_bias,
    monotone,
    naive,
    rank_estimate,
)
from sampled_metrics.numerics import least_squares, quadrature

LAWS = [True, False]


def dense(protocol, j, m, prior):
    """The paper's A, b and c (krichene2020, eqs 23 and 25), every rank a row."""
    relevant = protocol.n_relevant
    ranks = np.arange(j, int(protocol.n_items) - (relevant - j) + 1)
    p = np.full(ranks.size, 1 / ranks.size) if prior is None else prior
    pmf = protocol.pmf(ranks, j)
    terms = m.term(ranks, j, relevant, protocol.n_items)
    return np.sqrt(p)[:, None] * pmf, np.sqrt(p) * terms, p @ pmf


def dense_bias_variance(protocol, j, m, gamma, prior):
    a, b, c = dense(protocol, j, m, prior)
    if gamma == 1:
        return a.T @ b / c
    if gamma > 1:
        return np.linalg.solve((1 - gamma) * a.T @ a + gamma * np.diag(c), a.T @ b)
    rows = np.vstack([np.sqrt(1 - gamma) * a, np.diag(np.sqrt(gamma * c))])
    return np.linalg.lstsq(rows, np.append(b / np.sqrt(1 - gamma), 0 * c), rcond=None)[0]


def objective(values, a, b, c, gamma):
    """Squared bias plus gamma times variance, averaged over the prior."""
    mean = a @ values
    return float(((mean - b) ** 2).sum() + gamma * (c @ values**2 - (mean**2).sum()))


def geometric(n):
    p = 0.999 ** np.arange(n)
    return p / p.sum()


def setting(n, m, weighted, relevant, replacement):
    """A row of SETTINGS as a protocol, with no more negatives than there are, and a prior."""
    if not replacement:
        m = min(m, n - relevant)
    prior = geometric(n - relevant + 1) if weighted else None
    return Protocol(n, m, replacement=replacement, n_relevant=relevant), prior


SETTINGS = [
    (300, 10, "ap", False, 1),
    (3_541, 100, "recall@10", False, 1),
    (3_541, 100, "ndcg@10", True, 1),
    (4_000, 100, "ndcg", False, 1),
    (3_000, 40, "recall@500", False, 1),
    (2_000, 150, "rr@20", True, 1),
    (1_000, 30, "ap", False, 4),
    (800, 60, "ndcg@10", True, 3),
    (500, 20, "precision@5", False, 2),
    (1_500, 20, "recall@250", False, 3),
    (101, 100, "ap@10", False, 1),
]


@pytest.mark.some(29)
@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("gamma", [1e-3, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("n", "m", "name", "weighted", "relevant"), SETTINGS)
def test_bias_variance_equals_the_dense_twin(n, m, name, weighted, relevant, gamma, replacement):
    protocol, prior = setting(n, m, weighted, relevant, replacement)
    values = np.atleast_2d(bias_variance(metric(name), protocol, gamma, prior).values)
    for j in range(1, relevant + 1):
        twin = dense_bias_variance(protocol, j, metric(name), gamma, prior)
        assert values[j - 1] == pytest.approx(twin, rel=0, abs=1e-9 * np.abs(twin).max())


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("gamma", [0.0, 1e-9])
@pytest.mark.parametrize(("n", "m", "name", "weighted", "relevant"), SETTINGS)
def test_small_gamma_attains_the_least_objective(
    n, m, name, weighted, relevant, gamma, replacement
):
    protocol, prior = setting(n, m, weighted, relevant, replacement)
    everything = not replacement and n - relevant == m  # the sample is the catalogue
    if gamma == 0 and m > 40 and not everything:
        with pytest.raises(IllConditionedError, match=f"larger than 0 with {m} negatives"):
            bias_variance(metric(name), protocol, gamma, prior)
        return
    values = np.atleast_2d(bias_variance(metric(name), protocol, gamma, prior).values)
    for j in range(1, relevant + 1):
        a, b, c = dense(protocol, j, metric(name), prior)
        twin = dense_bias_variance(protocol, j, metric(name), gamma, prior)
        ours, theirs = (objective(v, a, b, c, gamma) for v in (values[j - 1], twin))
        # Without variance to weigh, directions that the law shrinks by 1e12 carry rounding back.
        assert ours <= theirs * (1 + (1e-7 if gamma == 0 else 1e-9)) + 1e-22


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize(
    ("n", "m", "name", "weighted", "relevant"),
    [s for s in SETTINGS if s[0] <= 3_541 and s[1] <= 100],
)
def test_monotone_equals_bounded_least_squares(
    n, m, name, weighted, relevant, nonnegative, replacement
):
    protocol, prior = setting(n, m, weighted, relevant, replacement)
    values = np.atleast_2d(monotone(metric(name), protocol, nonnegative, prior).values)
    for j, row in enumerate(values, start=1):
        assert (np.diff(row) <= 1e-13).all()
        assert not nonnegative or row[-1] >= 0
        a, b, c = dense(protocol, j, metric(name), prior)
        low = np.append(np.zeros(protocol.n_negatives), 0 if nonnegative else -np.inf)
        twin = lsq_linear(np.cumsum(a, axis=1), b, (low, np.inf), method="bvls", tol=1e-14)
        values_twin = np.cumsum(twin.x[::-1])[::-1]
        ours, theirs = (objective(v, a, b, c, 0.0) for v in (row, values_twin))
        assert ours <= theirs * (1 + 1e-8) + 1e-18
        # Optimality without a twin: no step down can be added or taken back to any gain.
        slope = np.cumsum(a, axis=1).T @ (a @ row - b)
        down = -np.diff(row, append=0.0)
        scale = np.abs(b).max() * 1e-9
        assert (slope[:-1] >= -scale).all()
        assert slope[:-1] @ down[:-1] == pytest.approx(0, abs=scale)
        assert (nonnegative and row[-1] == 0) or slope[-1] == pytest.approx(0, abs=scale)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize(("n", "m"), [(10**6, 100), (10**9, 10), (10**9, 300)])
@pytest.mark.parametrize("name", ["recall@10", "ndcg", "recall@100000"])
def test_few_nodes_are_enough_for_large_catalogues(monkeypatch, n, m, name, replacement):
    protocol = Protocol(n, m, replacement=replacement)
    values = bias_variance(metric(name), protocol, 1e-3).values
    count_nodes = quadrature._count
    monkeypatch.setattr(quadrature, "_count", lambda *args: 2 * count_nodes(*args) + 15)
    estimators._forget()
    assert values == pytest.approx(
        bias_variance(metric(name), protocol, 1e-3).values, rel=0, abs=1e-9 * np.abs(values).max()
    )
    estimators._forget()


@pytest.mark.parametrize("replacement", LAWS)
def test_gamma_zero_is_least_bias_and_one_the_posterior_mean(replacement):
    protocol, ranks = Protocol(200, 8, replacement=replacement), np.arange(1, 201)
    for name in ("ap", "recall@10"):
        least = least_bias(metric(name), protocol)
        assert np.array_equal(least.values, bias_variance(metric(name), protocol, 0).values)
        a, b, _ = dense(protocol, 1, metric(name), None)
        assert least.values == pytest.approx(np.linalg.lstsq(a, b, rcond=None)[0], rel=1e-7)
        pmf = protocol.pmf(ranks)
        posterior = (pmf.T @ metric(name)(ranks)) / pmf.sum(axis=0)
        assert bias_variance(metric(name), protocol, 1).values == pytest.approx(posterior)


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("m", [1, 7, 100])
def test_least_bias_leaves_auc_unchanged(m, replacement):
    protocol = Protocol(5_000, m, replacement=replacement)
    least = least_bias(metric("auc"), protocol)
    assert least.bias([1, 40, 5_000]) == pytest.approx(np.zeros(3), abs=1e-12)
    assert monotone(metric("auc"), protocol).bias([1, 40, 5_000]) == pytest.approx(
        np.zeros(3), abs=1e-8
    )
    assert least.values == pytest.approx(naive(metric("auc"), protocol).values, abs=1e-6)
    for nonnegative in (True, False):  # of all that have no bias, the one on every processor
        falling = monotone(metric("auc"), protocol, nonnegative).values
        assert falling == pytest.approx(naive(metric("auc"), protocol).values, abs=1e-6)


def test_many_negatives_leave_auc_no_bias_either():
    # Directions are taken until the bias is rounding, not until it is 8 n times the last digit.
    bias = least_bias(metric("auc"), Protocol(5_000, 300)).bias([1, 40, 2_500, 5_000])
    assert bias == pytest.approx(np.zeros(4), abs=1e-12)


@pytest.mark.parametrize("name", ["ap", "ndcg@5", "recall@3", "auc"])
def test_sampling_everything_returns_the_metric(name):
    n = 40
    protocol = Protocol(n, n - 1, replacement=False)
    exact = metric(name).vector(n)
    assert least_bias(metric(name), protocol).values == pytest.approx(exact, abs=1e-12)
    assert monotone(metric(name), protocol).values == pytest.approx(exact, abs=1e-12)
    assert rank_estimate(metric(name), protocol).values == pytest.approx(exact, abs=1e-15)
    assert bias_variance(metric(name), protocol, 0.3).values == pytest.approx(exact, abs=1e-15)
    uniform = np.full(n, 1 / n)  # the same, by the equations
    assert bias_variance(metric(name), protocol, 0.3, uniform).values == pytest.approx(exact)
    assert monotone(metric(name), protocol, prior=uniform).values == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("relevant", [1, 2])
def test_exact_ranks_need_no_equations(monkeypatch, relevant):
    monkeypatch.setattr(Protocol, "rows", None)  # would have 4 * 10^8 entries
    protocol = Protocol(20_000 + relevant, 20_000, replacement=False, n_relevant=relevant)
    for estimator in (
        bias_variance(metric("ndcg@10"), protocol, 0.1),
        least_bias(metric("ndcg@10"), protocol),
        monotone(metric("ndcg@10"), protocol),
    ):
        assert (estimator.values == naive(metric("ndcg@10"), protocol).values).all()


@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize("rank", [1, 30, 200])
@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0])
def test_a_certain_rank_returns_its_value(rank, gamma, replacement):
    protocol = Protocol(200, 9, replacement=replacement)
    for prior in ({rank: 1.0}, np.eye(200)[rank - 1]):
        values = bias_variance(metric("ap"), protocol, gamma, prior).values
        assert values == pytest.approx(np.full(10, 1 / rank), rel=1e-9)


def test_rank_estimate_by_hand():
    # n = 11, m = 4: the estimates are 1, 3.5, 6, 8.5 and 11.
    protocol = Protocol(11, 4)
    floor = rank_estimate(metric("ap"), protocol).values
    assert floor == pytest.approx([1, 1 / 3, 1 / 6, 1 / 8, 1 / 11])
    linear = rank_estimate(metric("ap"), protocol, rounding="linear").values
    assert linear == pytest.approx([1, (1 / 3 + 1 / 4) / 2, 1 / 6, (1 / 8 + 1 / 9) / 2, 1 / 11])
    auc = rank_estimate(metric("auc"), protocol, rounding="linear")
    assert auc.bias([1, 5, 11]) == pytest.approx(np.zeros(3), abs=1e-15)


def test_rank_estimate_of_several_items_by_hand():
    # Ten irrelevant items: the best is taken for rank 1, 3.5, ..., 11, the other one further.
    protocol = Protocol(12, 4, n_relevant=2)
    best, second = 2 * rank_estimate(metric("ap"), protocol).values
    assert best == pytest.approx([1, 1 / 3, 1 / 6, 1 / 8, 1 / 11])
    assert second == pytest.approx([2 / 2, 2 / 4, 2 / 7, 2 / 9, 2 / 12])
    best, second = 2 * rank_estimate(metric("ap"), protocol, rounding="linear").values
    assert best == pytest.approx([1, (1 / 3 + 1 / 4) / 2, 1 / 6, (1 / 8 + 1 / 9) / 2, 1 / 11])
    assert second == pytest.approx([1, 1 / 4 + 1 / 5, 2 / 7, 1 / 9 + 1 / 10, 2 / 12])


def test_a_prior_may_miss_one_by_rounding_alone():
    protocol, equal = Protocol(10, 3), np.full(10, 0.1)
    uniform = bias_variance(metric("ap"), protocol, 0.1).values
    nearly = bias_variance(metric("ap"), protocol, 0.1, equal * (1 + 1e-12)).values
    assert nearly == pytest.approx(uniform)
    with pytest.raises(ValueError, match=r"prior must sum to 1, got a sum of 1\.00001"):
        bias_variance(metric("ap"), protocol, 0.1, equal * 1.00001)


def test_blocks_of_ranks_do_not_change_the_result(monkeypatch):
    values = bias_variance(metric("ap"), Protocol(900, 20), 0.1).values
    monkeypatch.setattr(least_squares, "_BLOCK", 100)
    estimators._forget()
    assert bias_variance(metric("ap"), Protocol(900, 20), 0.1).values == pytest.approx(values)
    estimators._forget()


def test_values_may_be_negative_unless_asked_not_to_be():
    free = monotone(metric("recall@10"), Protocol(1_000, 20)).values
    assert free[-1] < 0
    bound = monotone(metric("recall@10"), Protocol(1_000, 20), nonnegative=True).values
    assert bound[-1] == 0


def test_results_are_cached(monkeypatch):
    protocol = Protocol(5_000, 30)
    first = bias_variance(metric("ap"), protocol, 0.1).values
    monkeypatch.setattr(Protocol, "rows", None)
    assert np.array_equal(first, bias_variance(metric("ap"), Protocol(5_000, 30), 0.1).values)
    assert bias_variance(metric("ap"), protocol, 0.2).values.shape == (31,)


@pytest.mark.some(2)
@pytest.mark.parametrize("replacement", LAWS)
@pytest.mark.parametrize(("name", "m"), [("recall@10", 10), ("ndcg", 25), ("recall@10", 35)])
def test_least_bias_by_arithmetic_of_sixty_digits(name, m, replacement):
    n = 90
    least, objective_of = least_bias_in_digits(metric(name), n, m, replacement)
    ours = least_bias(metric(name), Protocol(n, m, replacement=replacement)).values
    assert objective_of(ours) <= objective_of(least) * (1 + 1e-9)
    exact = np.array(least, dtype=float)
    assert np.linalg.norm(ours - exact) <= 1e-3 * np.linalg.norm(exact)


def least_bias_in_digits(parsed_metric, n, m, replacement):
    """The solution of the normal equations, and the mean squared bias of any values."""
    mpmath.mp.dps = 60

    def law(above):
        pool = n - 1
        if not replacement:
            n_samples = comb(pool, m)
            sample_counts = [comb(above, x) * comb(pool - above, m - x) for x in range(m + 1)]
            return [mpmath.mpf(count) / n_samples for count in sample_counts]
        sample_counts = [comb(m, x) * above**x * (pool - above) ** (m - x) for x in range(m + 1)]
        return [mpmath.mpf(count) / pool**m for count in sample_counts]

    rows = mpmath.matrix([law(r - 1) for r in range(1, n + 1)])
    exact_values = mpmath.matrix([mpmath.mpf(float(v)) for v in parsed_metric.vector(n)])
    least = mpmath.lu_solve(rows.T * rows, rows.T * exact_values)

    def objective_of(values):
        deviations = rows * mpmath.matrix([mpmath.mpf(v) for v in values]) - exact_values
        return (deviations.T * deviations)[0] / n

    return list(least), objective_of


def test_a_prior_under_which_some_sampled_ranks_cannot_occur():
    # Four of nine negatives above at most: the other values are the nearest one's.
    estimator = least_bias(metric("ap"), Protocol(30, 9, replacement=False), {1: 0.5, 5: 0.5})
    assert estimator.bias([1, 5]) == pytest.approx(np.zeros(2), abs=1e-12)
    assert (estimator.values[5:] == estimator.values[4]).all()


SMALL = Protocol(10, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bias_variance("ap", SMALL, -0.1), "gamma must be a finite number >= 0, got -0.1"),
        (lambda: bias_variance("ap", SMALL, np.nan), "gamma must be a finite number >= 0, got nan"),
        (lambda: bias_variance("ap", SMALL, np.inf), "gamma must be a finite number >= 0, got inf"),
        (lambda: bias_variance("ap", SMALL, "low"), "a finite number >= 0, got 'low'"),
        (lambda: least_bias("ap", SMALL, np.full(9, 1 / 9)), r"have shape \(10,\), got \(9,\)"),
        (lambda: least_bias("ap", SMALL, np.full(10, 0.2)), "sum to 1, got a sum of 2.0"),
        (lambda: least_bias("ap", SMALL, [-0.1, 1.1, *[0] * 8]), "finite numbers >= 0, got -0.1"),
        (lambda: least_bias("ap", SMALL, [np.nan, 1, *[0] * 8]), "finite numbers >= 0, got nan"),
        (lambda: least_bias("ap", SMALL, {11: 1.0}), "ranks of the prior must be <= 10, got 11"),
        (lambda: least_bias("ap", SMALL, {2: 0.5}), "prior must sum to 1, got a sum of 0.5"),
        (lambda: rank_estimate("ap", SMALL, "up"), "must be 'floor' or 'linear', got 'up'"),
        (lambda: least_bias("ap", Protocol([10, 20], 3)), "n_items must be one catalogue size"),
        (lambda: default_gamma(0), "n_users must be a whole number >= 1, got 0"),
        (lambda: bias_variance("ap", SMALL, 0.1)(5), "sampled_ranks must be <= 4, got 5"),
        (lambda: estimators.by_name("bias", "ap", SMALL), "'bias' is unknown: use one of naive, r"),
        (lambda: estimators.by_name("least-bias", "ap", SMALL), "did you mean 'least bias'"),
        (lambda: estimators.by_name("bias-variance", "ap", SMALL), "gamma is needed for 'bias-va"),
        (lambda: bias_variance("ap", Protocol(10_000, 100), 1e-30), "larger than 1e-30 with 100 n"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_estimators_by_name():
    protocol = Protocol(60, 5)
    estimator_by_name = {
        "naive": estimators.naive("ap", protocol),
        "rank estimate": estimators.rank_estimate("ap", protocol),
        "least bias": estimators.least_bias("ap", protocol),
        "monotone": estimators.monotone("ap", protocol),
        "bias-variance": estimators.bias_variance("ap", protocol, 0.1),
    }
    names = (evaluation.LEARNED, *estimator_by_name, *evaluation.FITTED)
    assert names == evaluation.ESTIMATORS
    for name, expected in estimator_by_name.items():
        estimator = estimators.by_name(name, "ap", protocol, gamma=0.1)
        assert estimator.name == expected.name
        assert estimator.values.tolist() == expected.values.tolist()

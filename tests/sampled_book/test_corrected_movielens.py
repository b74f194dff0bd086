"""How often verdicts on MovieLens are right, by simulation and by inversion."""

import numpy as np
import pytest
from scipy import stats

from sampled_book.chapters import corrected_movielens, correcting, verdicts
from sampled_book.data import datasets
from sampled_metrics import Protocol, metric
from sampled_metrics.orders import Order
from tests.data import simulated

METRICS, GAMMAS = ["recall@10", "ndcg@10", "ap", "auc"], [1.0, 0.1, 0.01, 0.001]


@pytest.fixture(scope="module")
def setting():
    """The ranks, and what the chapter computes from them."""
    intervals = datasets.bundled_ranks()
    n = next(iter(intervals.values())).n_candidates
    asked = METRICS, correcting.methods(GAMMAS, nonnegative=True)
    protocol = Protocol(round(n.mean()), 100, replacement=True)
    moments = corrected_movielens.one_evaluation(intervals, *asked, protocol)
    return intervals, asked, protocol, moments, verdicts.verdicts(moments, n.size)


@pytest.mark.simulation
def test_simulated_evaluations_have_these_means_and_right_orders(setting):
    intervals, asked, protocol, moments, judged = setting
    repetitions = 100
    runs = simulated(intervals, *asked, protocol, repetitions, np.random.default_rng(1))
    error = moments["sd"] / np.sqrt(repetitions)
    assert ((runs.mean()[moments.index] - moments["mean"]).abs() <= 5 * error + 1e-12).all()
    p_values = []
    for (pair, label, column), each in judged.items():
        first, second = (runs[label, column, name] for name in pair.split(", "))
        right = int((np.sign(first - second) == np.sign(each.exact)).sum())
        p_values.append(stats.binomtest(right, repetitions, min(each.probability, 1.0)).pvalue)
    assert min(p_values) * len(p_values) > 1e-3


@pytest.mark.parametrize("column", ["rank estimate", "BV 0.1"])
def test_the_normal_approximation_is_close_to_the_exact_distribution(setting, column):
    """Against the inversion of the characteristic function, from the users' own distributions."""
    intervals, (_, makers), protocol, _, judged = setting
    recall = metric("recall@10")
    values = makers[column](recall, protocol).values
    exact = verdicts.summed_probability(
        *(intervals[name].sampled_pmf(100) for name in "YX"), values
    )
    normal = judged["X, Y", "Recall@10", column]
    assert normal.exact < 0
    assert normal.probability == pytest.approx(exact, abs=0.01)


def test_the_number_of_users_gives_the_probability_asked_for(setting):
    *_, judged = setting
    for each in judged:
        users = each.users(0.95)
        assert (users is None) == (each.z <= 0)
        if users is not None:
            sd = each.sd * np.sqrt(each.n_users / users)
            again = Order(each.exact, each.expected, sd, users)
            assert again.probability >= 0.95 - 1e-9

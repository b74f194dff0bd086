"""Exact for some users or sampled for all: the errors against draws of users and of decoys."""

import numpy as np
import pytest

from sampled_book.costs import at_equal_cost
from sampled_metrics import metric
from sampled_metrics.relevant_sets import RelevantSets


@pytest.mark.parametrize("name", ["ndcg@10", "auc"])
def test_errors_are_those_of_many_evaluations(name):
    rng = np.random.default_rng(12)
    n_users, n, m = 30, 200, 40
    better = np.minimum(rng.geometric(0.02, (n_users, 1)) - 1, n)
    places = RelevantSets(better, 0 * better, 0 * better, np.full(n_users, n))
    of = metric(name)
    (row,) = at_equal_cost({"A": places}, of, m).itertuples()
    assert row.users == round(n_users * (m + 1) / (n + 1)) == 6
    exact = of(better[:, 0] + 1, n_items=n + 1)
    assert row.exact == pytest.approx(exact.mean())
    few = np.array([rng.permutation(exact)[:6].mean() for _ in range(20_000)]) - exact.mean()
    assert row.exact_error == pytest.approx(np.sqrt(np.mean(few**2)), rel=0.03)
    above = rng.hypergeometric(better[:, 0], n - better[:, 0], m, size=(20_000, n_users))
    found = of(above + 1, n_items=m + 1).mean(axis=1)
    assert row.sampled == pytest.approx(found.mean(), abs=0.002)
    assert row.sampled_error == pytest.approx(
        np.sqrt(np.mean((found - exact.mean()) ** 2)), rel=0.03
    )
    assert (row.exact_error < row.sampled_error) == (name == "ndcg@10")


def test_too_few_decoys_to_pay_for_one_user_are_refused():
    places = RelevantSets([[3]], [[0]], [[0]], [1000])
    with pytest.raises(ValueError, match="n_decoys must be more to pay for all items of one user"):
        at_equal_cost({"A": places}, metric("auc"), 5)

"""Sets of true ranks, judged together, against enumeration and against a single item's interval."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import chdtri

from sampled_book.enumeration import every_sample
from sampled_book.joint_sets import (
    exact_values,
    joint_interval,
    populations,
    sets_and_laws,
    widths,
)
from sampled_metrics import Protocol, metric
from sampled_metrics.identification import interval

THRESHOLD = float(chdtri(2, 0.05))


@pytest.mark.parametrize("replacement", [True, False])
def test_the_law_of_every_set_is_that_of_all_its_samples(replacement: bool) -> None:
    n, m, k = 7, 2, 3
    sets, outcomes, law = sets_and_laws(Protocol(n, m, replacement=replacement, n_relevant=k))
    assert len(sets) == 35
    for above, row in zip(sets.tolist(), law, strict=True):
        ranks = [a + j for j, a in enumerate(above, start=1)]
        samples = every_sample(ranks, n, m, replacement)
        seen = Counter(tuple(r - j for j, r in enumerate(s, start=1)) for s in samples)
        for outcome, p in zip(outcomes.tolist(), row, strict=True):
            assert p == pytest.approx(seen[tuple(outcome)] / len(samples), abs=1e-12)


def test_the_values_are_those_of_the_sets() -> None:
    sets, _, _ = sets_and_laws(Protocol(6, 1, n_relevant=2))
    for name in ("ndcg@3", "ap", "auc"):
        for above, value in zip(sets, exact_values(metric(name), sets, 6), strict=True):
            assert value == pytest.approx(metric(name).of_set(np.add(above, [1, 2]), 6))


@pytest.mark.parametrize("name", ["recall@3", "ap"])
def test_of_one_item_it_is_the_interval_of_one_item(name: str) -> None:
    protocol = Protocol(30, 4, replacement=False)
    sets, _, law = sets_and_laws(protocol)
    counts = np.array([200.0, 90.0, 60.0, 40.0, 10.0])
    found = interval(counts, protocol, name)
    values = exact_values(metric(name), sets, 30)
    low, high = joint_interval(law, values, counts, THRESHOLD, slopes=100)
    assert (low, high) == pytest.approx((found.low, found.high), abs=3e-3)


def test_sets_taken_together_leave_less_possible_and_the_truth_among_it() -> None:
    protocol = Protocol(14, 3, replacement=False, n_relevant=2)
    sets, _, law = sets_and_laws(protocol)
    values = exact_values(metric("ap"), sets, 14)
    for mass in populations(sets).values():
        low, high = joint_interval(law, values, 500 * mass @ law, THRESHOLD)
        assert low < mass @ values < high
    found = widths(protocol, ["recall@2", "ap"], 500.0)
    assert (found["joint"] < found["sum"]).all()
    assert (found["free"] < found["sum"]).all()

"""What the chapters' numbers are made of, against definitions, enumeration and counts by hand."""

from collections import Counter

import numpy as np
import pytest

from sampled_book.chapters import correcting, movielens, one_negative, several_items
from sampled_book.reference.enumeration import every_sample, exact_pmf
from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.ranking.intervals import RankIntervals


def test_errors_over_all_ranks_are_those_of_each_rank():
    protocol = Protocol(40, 6, replacement=False)
    naive_estimators = [estimators.naive(name, protocol) for name in ("ap", "recall@2")]
    for e, errors in zip(
        naive_estimators, correcting.root_mean_squares(naive_estimators), strict=True
    ):
        bias2, noise = [], []
        for r in range(1, 41):
            pmf = np.array(exact_pmf(40, 6, r, False), dtype=float)
            mean = pmf @ e.values
            bias2.append((mean - float(e.metric(r, 40))) ** 2)
            noise.append(pmf @ (e.values - mean) ** 2)
        assert errors == pytest.approx(np.sqrt([np.mean(bias2), np.mean(noise)]), rel=1e-12)


def test_two_negatives_leave_a_parabola():
    """In a large catalogue: the unexplained shares that the chapter derives by hand."""
    ranks = np.arange(1, 4_001)
    for name, by_hand in (("ap", 1 / 61), ("ndcg", 0.0149), ("recall@1", 1 / 16)):
        curve = estimators.naive(name, Protocol(4_000, 2, replacement=True)).expected(ranks)
        assert one_negative.not_linear(curve) == pytest.approx(by_hand, rel=2e-3)


def test_the_spread_of_ties_is_that_of_all_their_places():
    intervals = RankIntervals([0, 2], [2, 1], [6, 5])
    values = [(metric("auc")(a, 6) + metric("auc")(b, 5)) / 2 for a in (1, 2, 3) for b in (3, 4)]
    assert movielens.tie_spread(intervals) == pytest.approx(np.std(values))


@pytest.mark.parametrize("replacement", [True, False])
def test_joint_laws_and_closed_variances_are_those_of_every_sample(replacement):
    n, m, ranks = 8, 3, [2, 5]
    protocol = Protocol(n, m, replacement=replacement, n_relevant=2)
    tally = Counter(every_sample(ranks, n, m, replacement))
    joint = several_items.joint_pmf(protocol, ranks)
    for (a, b), count in tally.items():
        assert joint[a - 1, b - 2] == pytest.approx(count / tally.total())
    assert joint.sum() == pytest.approx(1)
    for name, variance in (
        ("auc", several_items.auc_variance(np.array(ranks), protocol)),
        (
            "recall@2",
            several_items.within_variance(estimators.naive("recall@2", protocol), np.array(ranks)),
        ),
    ):
        e = estimators.naive(name, protocol)
        values = {key: e.values[0][key[0] - 1] + e.values[1][key[1] - 2] for key in tally}
        drawn = [values[key] for key, count in tally.items() for _ in range(count)]
        assert variance == pytest.approx(np.var(drawn), rel=1e-12)

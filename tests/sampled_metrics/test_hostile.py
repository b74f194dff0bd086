"""Populations made to break an interval: several catalogue sizes, and ranks at the edge of a shape.

``benchmarks/hostile.csv`` counts more of them, with more logs.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import sampled_metrics as sm
from sampled_metrics import Protocol, metric
from sampled_metrics.bounds.identification import IncompatibleError, interval

SIZES = np.geomspace(60, 300, 16).round().astype(int)


def allowed(logs):
    """So many of 95% intervals miss at most, in 999 of 1,000 such tests."""
    return binom.ppf(0.999, logs, 0.05)


@pytest.mark.simulation
def test_ranges_miss_in_at_most_5_percent_where_catalogues_differ_in_size():
    n, logs, missed = np.resize(SIZES, 1_000), 6, 0
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        ranks = 1 + rng.binomial(10, 10 / (n - 1))  # everyone's item is at true rank 11
        frame = pd.DataFrame({"user": range(1_000), "rank": ranks, "n_items": n})
        log = sm.read_log(frame, n_negatives=10, replacement=True)
        missed += sm.estimate(log, ["recall@10"], assumption=None).frame["possible_low"][0] > 0
    assert missed <= allowed(logs)


def half_last(n, upto):
    return {n: 0.5, **dict.fromkeys(range(1, upto + 1), 0.5 / upto)}


#: Users, negatives, whether they may repeat, shares by true rank, metric, assumption and logs.
POPULATIONS = {
    "all at 11": (1_000, 10, False, lambda n: {11: 1.0}, "recall@10", None, 6),
    "11 or last": (1_000, 10, True, lambda n: {11: 0.5, n: 0.5}, "ndcg@10", None, 6),
    "even, or last": (16_000, 15, True, lambda n: half_last(n, n // 3), "ndcg@10", "decreasing", 8),
}


@pytest.mark.some(1)
@pytest.mark.simulation
@pytest.mark.parametrize("name", POPULATIONS)
def test_intervals_of_hostile_populations_miss_in_at_most_5_percent(name):
    users, m, replacement, shares, metric_name, assumption, logs = POPULATIONS[name]
    protocols = [Protocol(int(n), m, replacement=replacement) for n in SIZES]
    pmfs, exact = [], []
    for protocol in protocols:
        p = shares(protocol.n_items)
        ranks, weights = np.array(list(p)), np.array(list(p.values()))
        pmfs.append(weights @ protocol.pmf(ranks))
        exact.append(weights @ metric(metric_name)(ranks, n_items=protocol.n_items))
    users_per_size, rng, missed = users // len(SIZES), np.random.default_rng(5), 0
    for _ in range(logs):
        counts = [rng.multinomial(users_per_size, pmf / pmf.sum()) for pmf in pmfs]
        try:
            bounds = interval(counts, protocols, metric_name, assumption=assumption)
        except IncompatibleError:
            missed += 1
        else:
            missed += not bounds.low - 1e-9 <= np.mean(exact) <= bounds.high + 1e-9
    assert missed <= allowed(logs)


@pytest.mark.parametrize(
    ("n", "m", "last", "share", "users", "replacement"),
    [
        # 10% are in the first ten, and all others at the first rank below those of the assumption.
        (60_000, 20, 10, 0.9, 1e6, True),
        (1_000_000, 99, 10, 0.9, 1e6, True),
        # As many at every rank but the last ones.
        (20_000, 10, 2**14 - 1, 0.0, 3e7, False),
    ],
)
def test_a_log_is_not_refused_where_the_assumption_just_holds(
    n, m, last, share, users, replacement
):
    protocol = Protocol(n, m, replacement=replacement)
    ranks = np.append(np.arange(1, last + 1), 10 * n // m + 1 if share else n)
    weights = np.append(np.full(last, (1.0 - share) / last), share)
    bounds = interval(
        weights @ protocol.pmf(ranks), protocol, "recall@10", users=users, assumption="decreasing"
    )
    assert bounds.low - 1e-9 <= weights @ (ranks <= 10) <= bounds.high + 1e-9


@pytest.mark.simulation
def test_the_worse_of_two_recommenders_rarely_wins_where_catalogues_differ_in_size():
    # A's items are at rank 11, B's at rank 1 for one user in 50, and last for the others. The
    # negatives above A's item are above B's too, where that is last.
    m, users, logs, wrong = 10, 1_000, 4, 0
    n, is_first = np.resize(SIZES, users), np.arange(users) % 50 == 0
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        ranks = {"A": 1 + rng.binomial(m, 10 / (n - 1)), "B": np.where(is_first, 1, m + 1)}
        rows = [
            pd.DataFrame(
                {"recommender": recommender, "user": range(users), "rank": r, "n_items": n}
            )
            for recommender, r in ranks.items()
        ]
        log = sm.read_log(pd.concat(rows), n_negatives=m, replacement=True)
        comparison = sm.compare(log, "recall@10", assumption=None)
        wrong += comparison.verdicts["A", "B"] == "A beats B"
    assert wrong <= allowed(logs)

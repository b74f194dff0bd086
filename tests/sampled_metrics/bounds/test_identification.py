"""Intervals against linear programmes, closed forms and simulated logs, also hostile ones."""

import numpy as np
import pytest

from sampled_metrics import Protocol, metric
from sampled_metrics.bounds import bets, identification
from sampled_metrics.bounds.identification import interval, log_evidence_needed

from . import populations

METRICS = ["recall@3", "ndcg@10", "ap", "auc"]


def a_log(protocol, seed, users=500):
    rng = np.random.default_rng(seed)
    ranks = 1 + (protocol.n_items * rng.beta(0.4, 2.0, size=users)).astype(int)
    drawn = protocol.draw(np.minimum(ranks, protocol.n_items), rng)
    return np.bincount(drawn - 1, minlength=protocol.n_negatives + 1).astype(float)


def same_distribution(p, name, assumption, m, replacement):
    """The least and the most of a metric over populations whose sampled ranks are those of p."""
    n, values = p.size, metric(name).vector(p.size)
    pmfs = populations.law(m, n, replacement)
    top = 0 if assumption is None else populations.head(n, m)
    equal = pmfs, p @ pmfs
    low, high = (populations.most(sign * values, n, top, equal)[0] for sign in (-1, 1))
    return -low, high


SHAPES = [None, "decreasing"]


@pytest.mark.some(3)
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("assumption", SHAPES)
def test_endless_users_leave_what_linear_programmes_find(assumption, name, replacement):
    n, m, rng = 20, 4, np.random.default_rng(5)
    protocol, top = Protocol(n, m, replacement=replacement), 0
    if assumption is not None:
        top = populations.head(n, m)
    for _ in range(3):
        hostile, even = populations.drawn(n, top, rng), 1.0 / np.arange(2, n + 2)
        for p, margin in ((hostile, 0.16), (even / even.sum(), 0.03)):
            pmf = np.clip(p @ populations.law(m, n, replacement), 0.0, None)
            low, high = same_distribution(p, name, assumption, m, replacement)
            bounds = interval(pmf, protocol, name, users=np.inf, assumption=assumption)
            assert low - margin <= bounds.low <= low + 1e-7
            assert high - 1e-7 <= bounds.high <= high + margin


def test_one_negative_tells_the_mean_rank_and_nothing_else():
    # With m = 1 only the mean of (r - 1) / (n - 1) is known. Recall@k is largest with its share w
    # at rank k and the rest at rank n, where w (k - 1) / (n - 1) + 1 - w is that mean.
    n, k, mean = 101, 11, 0.4
    bounds = interval([1 - mean, mean], Protocol(n, 1), f"recall@{k}", users=np.inf)
    assert bounds.low == pytest.approx(0.0, abs=1e-9)
    assert bounds.high == pytest.approx((1 - mean) / (1 - 10 / 100), abs=5e-4)


def test_two_negatives_by_hand():
    # Nothing at ranks 2 to 10, as little as possible at rank 1: rank 11 gives the most first
    # places for its share of the others. Its law is (0.64, 0.32, 0.04)'s kind: p = 10 / 49.
    p, q = 10 / 49, 39 / 49
    middle = 0.3 / (2 * p * q)
    last = 0.1 - middle * p * p
    bounds = interval([6, 3, 1], Protocol(50, 2), "recall@10", users=np.inf)
    # A hundred million users leave sqrt(2 log(40) / 1e8) / (2 p q), about 8e-4.
    assert bounds.low == pytest.approx(1 - middle - last, abs=1.5e-3)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "m"), [(50, 3), (3_541, 100), (500_000, 30)])
def test_auc_is_a_point_up_to_the_users(n, m, replacement):
    protocol = Protocol(n, m, replacement=replacement)
    counts = a_log(protocol, seed=m)
    bounds = interval(counts, protocol, "auc")
    x = np.repeat(np.arange(m + 1) / m, counts.astype(int))
    # The best bet for a known spread wins 40 where the normal distribution is so far from its mean.
    normal = np.sqrt(2 * np.log(40)) * x.std() / np.sqrt(x.size)
    assert 1 - x.mean() - 1.5 * normal < bounds.low < 1 - x.mean() - 0.9 * normal
    assert 1 - x.mean() + 0.9 * normal < bounds.high < 1 - x.mean() + 1.5 * normal


N, POPULATIONS, FALLING = populations.N, populations.SPIKES, populations.FALLING


def ends_of(samples, kinds, share, parsed_metric, assumption):
    """Both ends for samples of users with one row each, and how many are refuted.

    A sample has counts of the sampled ranks for each kind.
    """
    samples = [np.concatenate(sample) for sample in samples]
    users, kinds = samples[0].sum(), np.array(kinds)
    parts = bets.partition(kinds, users * np.array(share), parsed_metric, True)
    outcomes_by_kind = [np.arange(m + 1) for m in kinds[:, 0]]
    rows = bets.Rows(
        np.repeat(
            np.arange(len(outcomes_by_kind)), [outcomes.size for outcomes in outcomes_by_kind]
        ),
        np.concatenate(outcomes_by_kind),
    )
    built_bets, ends = bets.build(parts, assumption, log_evidence_needed(0.95), users), []
    log_values = np.log(built_bets.values(rows))
    for sample in samples:
        mean = built_bets.certificates @ parts.share
        evidence = bets.Evidence.of(
            built_bets.sign, built_bets.slope, mean, log_values @ sample, users
        )
        try:
            ends.append(identification.unrefuted(evidence, 0.95, parts.span(), assumption))
        except identification.IncompatibleError:
            ends.append((np.nan, np.nan))
    log_e_values = np.array(bets.refutations(parts, assumption, rows, samples))
    is_refuted = (log_e_values > np.log(1.0 / identification.REFUTED)) | np.isnan(ends).any(axis=1)
    return np.array(ends).T, int(is_refuted.sum())


def missed(p, users, m, name, assumption, samples=60, seed=11):
    """How many of the intervals of simulated samples do not hold the exact metric."""
    rng, parsed_metric = np.random.default_rng(seed), metric(name)
    pmf = np.clip(p @ Protocol(N, m).pmf(np.arange(1, N + 1)), 0, None)
    counts = rng.multinomial(users, pmf / pmf.sum(), size=samples).astype(float)
    (low, high), refused = ends_of(
        [[sample_counts] for sample_counts in counts],
        [[m, 1, 1, N]],
        [1.0],
        parsed_metric,
        assumption,
    )
    exact = p @ parsed_metric.vector(N)
    return ((low > exact + 1e-9) | (high < exact - 1e-9)).sum(), refused


@pytest.mark.some(4)
@pytest.mark.simulation
@pytest.mark.parametrize(("users", "name", "m"), [(50, "ndcg@10", 60), (2_000, "recall@10", 20)])
@pytest.mark.parametrize("spikes", POPULATIONS)
def test_intervals_by_chance_hold_the_exact_metric_of_hostile_populations(spikes, users, name, m):
    # One or none is wrong, where 3 of 60 may be; 15% wrong would show as 5 or more in 96% of cases.
    wrong, refused = missed(populations.spiked(POPULATIONS[spikes]), users, m, name, None)
    assert wrong < 5
    assert refused <= 1


@pytest.mark.some(3)
@pytest.mark.simulation
@pytest.mark.parametrize(("users", "name", "m"), [(50, "recall@10", 20), (2_000, "ndcg@10", 60)])
@pytest.mark.parametrize("kind", FALLING)
def test_intervals_by_chance_hold_the_exact_metric_where_the_shape_does(kind, users, name, m):
    wrong, refused = missed(FALLING[kind] / FALLING[kind].sum(), users, m, name, "decreasing")
    assert wrong < 5
    assert refused <= 1


def test_a_sample_that_no_ranks_explain_is_refused():
    # The number of negatives above an item spreads: 1,000 users cannot all have 50 of 100.
    counts = np.zeros(101)
    counts[50] = 1_000
    with pytest.raises(identification.IncompatibleError, match="contradict the protocol"):
        interval(counts, Protocol(10_000, 100), "ap")
    assert interval(counts / 200, Protocol(10_000, 100), "ap").low > 0


def test_a_sample_that_contradicts_a_shape_is_refused_with_the_evidence():
    protocol = Protocol(10_000, 100)
    ranks = np.repeat([600, 9_000], 1_500)  # six negatives above, on average
    counts = np.bincount(protocol.draw(ranks, np.random.default_rng(2)) - 1, minlength=101)
    assert interval(counts, protocol, "ndcg@10").low == pytest.approx(0, abs=1e-3)
    with pytest.raises(identification.IncompatibleError, match=r"p-value at most \de-"):
        interval(counts, protocol, "ndcg@10", assumption="decreasing")


def test_users_of_one_catalogue_size_may_be_given_in_classes():
    protocol = Protocol(300, 20)
    first, second = a_log(protocol, seed=8), a_log(protocol, seed=9, users=90)
    joined = interval(first + second, protocol, "ndcg")
    split = interval([first, second, 0 * first], [protocol] * 3, "ndcg")
    assert [split.low, split.high] == pytest.approx([joined.low, joined.high], abs=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
def test_many_catalogue_sizes_hold_every_distribution(replacement):
    rng = np.random.default_rng(11)
    protocols = [Protocol(n, 8, replacement=replacement) for n in range(60, 240, 4)]
    ranks = [
        1 + (protocol.n_items * rng.beta(0.5, 3.0, size=5)).astype(int) for protocol in protocols
    ]
    expected_counts = [
        5 * protocol.pmf(r).mean(axis=0) for protocol, r in zip(protocols, ranks, strict=True)
    ]
    for name in ("recall@10", "ap"):
        values = [
            metric(name)(r, n_items=protocol.n_items)
            for protocol, r in zip(protocols, ranks, strict=True)
        ]
        bounds = interval(expected_counts, protocols, name, users=1e5)
        assert bounds.low <= np.mean(values) <= bounds.high


def test_users_with_a_few_more_negatives_count_as_if_they_had_as_few_over_and_over():
    ranks = np.array([1, 3, 8, 30, 77])
    smaller, larger = Protocol(100, 20), Protocol(100, 21)
    expected_counts = [100 * smaller.pmf(ranks).mean(axis=0), 300 * larger.pmf(ranks).mean(axis=0)]
    joint_bounds, single_bounds = (
        interval(expected_counts, [smaller, larger], "ap"),
        interval(4 * expected_counts[0], smaller, "ap"),
    )
    # On average over which ones are left out, which is a little better than leaving some out.
    assert single_bounds.low <= joint_bounds.low <= single_bounds.low + 0.01
    assert single_bounds.high - 0.01 <= joint_bounds.high <= single_bounds.high


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["ndcg@5", "ap", "rr", "recall@5", "auc"])
def test_several_relevant_items(name, replacement):
    protocol = Protocol(60, 5, replacement=replacement, n_relevant=3)
    rng = np.random.default_rng(13)
    sets = [sorted(rng.choice(np.arange(1, 41), 3, replace=False)) for _ in range(50)]
    pmfs = np.array([[protocol.pmf(ranks[j - 1], j) for j in (1, 2, 3)] for ranks in sets]).mean(
        axis=0
    )
    exact = np.mean([metric(name).of_set(ranks, n_items=60) for ranks in sets])
    for users in (500, 1e6):
        bounds = interval(pmfs, protocol, name, users=users)
        assert bounds.low - 1e-7 <= exact <= bounds.high + 1e-7


def test_a_shape_is_of_the_best_item_alone():
    protocol = Protocol(60, 5, n_relevant=2)
    counts = np.array([[70, 20, 6, 2, 1, 1], [10, 20, 30, 20, 10, 10]])
    assert (
        interval(counts, protocol, "rr", assumption="decreasing").assumption
        == "decreasing at the top"
    )
    # All of the best at one deep rank contradict it.
    with pytest.raises(identification.IncompatibleError, match="the assumption that deeper"):
        interval([[0, 0, 9_000, 0, 0, 0]] * 2, Protocol(60_000, 5, n_relevant=2), "rr",
                 assumption="decreasing")  # fmt: skip
    with pytest.raises(ValueError, match="deeper ranks may well have more users for item 2 of 2"):
        interval(counts, protocol, "ap", assumption="decreasing")


def test_a_metric_that_is_the_same_for_every_rank_is_a_point():
    bounds = interval([5, 3, 1], Protocol(9, 2), "recall@10")
    assert (bounds.low, bounds.high) == pytest.approx((1.0, 1.0), abs=1e-11)


GOOD = [6, 3, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [6, 3]}, r"counts must have shape \(3,\), got \(2,\)"),
        ({"counts": [6, -3, 1]}, "counts must be finite numbers >= 0, got -3"),
        ({"counts": [6, np.nan, 1]}, "counts must be finite numbers >= 0, got nan"),
        ({"counts": [0, 0, 0]}, "at least one user"),
        ({"counts": [GOOD, GOOD]}, r"counts must have shape \(3,\)"),
        ({"counts": [GOOD], "protocol": []}, "must hold one for each of 1 counts, got 0"),
        (
            {
                "counts": [GOOD] * 2,
                "protocol": [Protocol(50, 2), Protocol(50, 2, replacement=False)],
            },
            "replacement must be the same",
        ),
        ({"protocol": Protocol([50, 60, 70], 2)}, r"n_items must be one catalogue size .* \(3,\)"),
        ({"protocol": Protocol(30_000_000, 2)}, "n_items must be at most 20,000,000"),
        ({"assumption": "flat"}, "assumption must be 'decreasing' or None, got 'flat'"),
        ({"confidence": 1.0}, r"confidence must be a number in \(0, 1\), got 1.0"),
        ({"users": 0}, "users must be a number > 0, got 0"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"counts": GOOD, "protocol": Protocol(50, 2), "metric": metric("ap")}
    with pytest.raises(ValueError, match=message):
        interval(**(given | change))

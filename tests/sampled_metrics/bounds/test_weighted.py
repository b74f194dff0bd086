"""What is possible with weights: every set of items above, hostile populations, other designs."""

import math
from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import linprog

import sampled_metrics as sm
from sampled_metrics import _printed_ranges
from sampled_metrics.bounds import weighted as unequal
from sampled_metrics.bounds.assumption import Assumption
from sampled_metrics.bounds.identification import IncompatibleError, interval
from sampled_metrics.log.compact import Uniform

WEIGHTS = {
    "spread": [9.0, 4.0, 2.0, 1.0, 1.0, 0.5],
    "one heavy": [40.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    "a zero": [5.0, 3.0, 3.0, 1.0, 1.0, 0.0],
}
WAYS = {
    "replacement": {},
    "distinct": {"replacement": False},
    "collapsed": {"collapsed": True},
}


def every_law(weights, m, scheme):
    """For each relevant item and set of items above: its size, and the law of those drawn."""
    n = len(weights)
    for item in range(n):
        other_items = [i for i in range(n) if i != item]
        other_weights = np.array([weights[i] for i in other_items])
        if scheme == "distinct":
            draws = list(permutations(range(n - 1), m))
            probabilities = []
            for draw in draws:
                weight_left, probability = other_weights.sum(), 1.0
                for i in draw:
                    probability *= other_weights[i] / weight_left if weight_left > 1e-12 else 0.0
                    weight_left -= other_weights[i]
                probabilities.append(probability)
        else:
            draws = list(product(range(n - 1), repeat=m))
            probabilities = [
                np.prod(other_weights[list(draw)] / other_weights.sum()) for draw in draws
            ]
        for size in range(n):
            for above in combinations(range(n - 1), size):
                items_above = set(above)
                pmf = np.zeros(m + 1)
                for draw, probability in zip(draws, probabilities, strict=True):
                    drawn_items = set(draw) if scheme == "collapsed" else draw
                    pmf[sum(i in items_above for i in drawn_items)] += probability
                yield size, pmf


@pytest.fixture(scope="module", params=list(product(WAYS, WEIGHTS)), ids=" ".join)
def enumerated(request):
    scheme, kind = request.param
    weights = WEIGHTS[kind]
    sizes, pmfs = zip(*every_law(weights, 3, scheme), strict=True)
    protocol = sm.Protocol(6, 3, weights=weights, **WAYS[scheme])
    return scheme, protocol, np.array(sizes), np.array(pmfs)


def test_between_is_what_all_sets_of_items_above_have(enumerated):
    scheme, protocol, sizes, pmfs = enumerated
    starts = np.arange(1, 4)
    lower, upper = unequal._between(protocol, np.arange(1, 7), starts)
    shares = np.cumsum(pmfs, axis=1)[:, :3]
    for size in range(6):
        low, high = (extreme(shares[sizes == size], axis=0) for extreme in (np.min, np.max))
        if scheme == "collapsed":
            assert (lower[size] <= low + 1e-12).all()
            assert (upper[size] >= high - 1e-12).all()
            assert upper[size, 0] == pytest.approx(high[0], abs=1e-12)
        else:
            np.testing.assert_allclose(lower[size], low, atol=1e-11)
            np.testing.assert_allclose(upper[size], high, atol=1e-11)


def programme(shares, values, below, above):
    """The least and the most that mixtures of given laws within a band have."""
    rows, limits = np.concatenate([shares.T, -shares.T]), np.concatenate([above, -below])
    ones = np.ones((1, values.size))
    solutions = [
        linprog(sign * values, A_ub=rows, b_ub=limits, A_eq=ones, b_eq=[1.0]) for sign in (1, -1)
    ]
    return None if solutions[0].status == 2 else (solutions[0].fun, -solutions[1].fun)


@pytest.mark.some(5)
@pytest.mark.exhaustive
@pytest.mark.parametrize("metric", ["recall@2", "ndcg@3", "ap", "auc"])
def test_ranges_hold_all_mixtures_over_all_sets(enumerated, metric):
    scheme, protocol, sizes, pmfs = enumerated
    shares, parsed_metric, starts = (
        np.cumsum(pmfs, axis=1)[:, :3],
        sm.metric(metric),
        np.arange(1, 4),
    )
    values, rng = parsed_metric(sizes + 1, n_items=6), np.random.default_rng(3)
    for _ in range(5):
        mixture = rng.dirichlet(np.full(len(pmfs), 0.02))
        half_width = rng.choice([1e-6, 0.03, 0.1])
        observed = mixture @ shares
        below, above = np.clip(observed - half_width, 0, 1), np.clip(observed + half_width, 0, 1)
        low, high = programme(shares, values, below, above)
        bounds = unequal.ends(protocol, parsed_metric, starts, below, above)
        assert bounds[0] <= low + 1e-7
        assert bounds[1] >= high - 1e-7
        if scheme == "replacement":
            # Nothing but shares of the weight that no set has are added to what is possible.
            share_ranges = [
                (size_shares.min(), size_shares.max())
                for size_shares in (share_of(sizes, pmfs, size) for size in range(6))
            ]
            share_grids = [np.linspace(*share_range, 400) for share_range in share_ranges]
            grid_cdfs = stats.binom.cdf([0, 1, 2], 3, np.concatenate(share_grids)[:, np.newaxis])
            grid_values = np.repeat(parsed_metric(np.arange(1, 7), n_items=6), 400)
            low, high = programme(grid_cdfs, grid_values, below, above)
            assert low - bounds[0] < 2e-3
            assert bounds[1] - high < 2e-3


def share_of(sizes, pmfs, n_above):
    return np.clip(1.0 - np.cbrt(pmfs[sizes == n_above, 0]), 0.0, 1.0)  # three draws


def hostile(n, weights, m, seed):
    """Populations at the edge of what is possible: ranks, and protocols in the order of each."""
    heavy, light = np.sort(weights)[::-1], np.sort(weights)
    mixed = np.random.default_rng(seed).permutation(weights)
    for ranks in ([10], [11], [1, 2], [1, n], [5, 10, 11, 40], [n // 2]):
        for order in (heavy, light, mixed):
            yield np.array(ranks), order


@pytest.mark.some(2)
@pytest.mark.simulation
@pytest.mark.parametrize("users", [50, 2_000])
@pytest.mark.parametrize("way", WAYS)
def test_ranges_hold_the_exact_metric_of_hostile_populations(way, users):
    n, m = 60, 12
    weights = np.ceil(300 / np.arange(1, n + 1))
    rng = np.random.default_rng(users)
    held, metric = [], sm.metric("recall@10")
    for ranks, order in hostile(n, weights, m, 1):
        protocol = sm.Protocol(n, m, weights=order, **WAYS[way])
        pmfs = protocol.pmf(ranks)
        for _ in range(3):
            counts = np.zeros(m + 1)
            rank_indices = rng.integers(0, ranks.size, users)  # the users are a sample too
            for pmf, n_users in zip(
                pmfs, np.bincount(rank_indices, minlength=ranks.size), strict=True
            ):
                counts += rng.multinomial(n_users, pmf / pmf.sum())
            exact = float(metric(ranks, n_items=n).mean())
            bounds = interval(counts, protocol, metric)
            held.append(bounds.low - 1e-9 <= exact <= bounds.high + 1e-9)
    assert np.mean(held) >= 0.95


def test_the_order_of_the_weights_does_not_matter():
    rng = np.random.default_rng(2)
    weights, counts = rng.gamma(1.0, 10.0, 200), rng.integers(0, 9, 21)
    bounds = interval(counts, sm.Protocol(200, 20, weights=weights), "ndcg@10")
    permuted_bounds = interval(
        counts, sm.Protocol(200, 20, weights=rng.permutation(weights)), "ndcg@10"
    )
    assert (bounds.low, bounds.high) == pytest.approx(
        (permuted_bounds.low, permuted_bounds.high), abs=1e-9
    )


@pytest.mark.parametrize("replacement", [True, False])
def test_equal_weights_are_no_weights(replacement):
    protocol = sm.Protocol(300, 30, replacement=replacement)
    expected_counts = protocol.pmf(
        np.minimum(np.random.default_rng(1).geometric(0.03, 4_000), 300)
    ).sum(axis=0)
    weighted = sm.Protocol(300, 30, weights=np.full(300, 7.0), replacement=replacement)
    weighted_bounds, uniform_bounds = (
        interval(expected_counts, weighted, "recall@20"),
        interval(expected_counts, protocol, "recall@20"),
    )
    # A band is wider than the likelihood's region, but of the same thing.
    assert weighted_bounds.low <= uniform_bounds.low + 1e-3
    assert weighted_bounds.high >= uniform_bounds.high - 1e-3
    assert weighted_bounds.high - weighted_bounds.low < 1.6 * (
        uniform_bounds.high - uniform_bounds.low
    )


def test_a_band_holds_all_shares_as_often_as_it_says():
    pmf = np.array([0.02, 0.1, 0.3, 0.4, 0.15, 0.03])
    starts, true_shares = np.arange(1, 6), np.cumsum(pmf)[:-1]
    draws = np.random.default_rng(7).multinomial(40, pmf, 4_000)
    n_held = 0
    for sample_counts in draws:
        cumulative = np.cumsum(sample_counts)[starts - 1].astype(float)
        below, above = unequal.band(cumulative, cumulative, 40.0, 0.9)
        n_held += bool(((below <= true_shares) & (true_shares <= above)).all())
    assert n_held / 4_000 >= 0.9
    below, above = unequal.band(np.array([3.0]), np.array([3.0]), 10.0, 0.95)
    exact = stats.binomtest(3, 10).proportion_ci(1 - 2 * (1 - math.exp(-0.025)), method="exact")
    assert (below[0], above[0]) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("users", [2, 10, 1_000])
def test_a_band_holds_the_mean_probability_of_given_users_who_differ(users):
    # One user has the probability s and the others none, so that a count of 1 has probability s.
    # The mean, s / users, is missed only if s is below this.
    below, _ = unequal.band(np.array([1.0]), np.array([1.0]), users, 0.95)
    assert users * below[0] <= 0.025
    least = stats.binomtest(1, users).proportion_ci(0.95, method="exact").low
    assert users * least > 0.025


def test_a_band_counts_users_in_parts_to_the_worse_side():
    # Three users have none above, and one ties with one negative: 3.5 of 10.
    half, three, four = np.array([3.5]), np.array([3.0]), np.array([4.0])
    below, above = unequal.band(half, half, 10.0, 0.9)
    assert below == unequal.band(three, three, 10.0, 0.9)[0]
    assert above == unequal.band(four, four, 10.0, 0.9)[1]
    # Sums of thirds that miss a whole number by rounding are that number.
    for wrong in (four - 1e-12, four + 1e-12):
        assert unequal.band(wrong, wrong, 10.0, 0.9) == unequal.band(four, four, 10.0, 0.9)


@pytest.mark.parametrize("top", [0, 300])
def test_columns_of_a_stretch_hold_every_rank_in_it(top):
    n, starts, metric = 900, np.array([1, 3, 5]), sm.metric("ndcg")
    protocol = sm.Protocol(n, 5, weights=1 + np.arange(n) % 7, replacement=False)
    lower, upper = unequal._between(protocol, np.arange(1, n + 1), starts)
    values = metric.vector(n)
    columns = unequal._columns(protocol, metric, tuple(starts.tolist()), top)
    assert top < len(columns.least) < n
    for rank in range(top, n):  # a column has less of what is below, and more of what is above
        is_inside = (columns.least <= lower[rank]).all(axis=1) & (columns.most >= upper[rank]).all(
            axis=1
        )
        for end, compare in zip(columns.values, (np.less_equal, np.greater_equal), strict=True):
            assert (is_inside & compare(end, values[rank]))[top:].any()


def test_an_assumption_narrows_and_is_refused_with_its_evidence():
    n, m = 400, 20
    weights = np.sort(np.random.default_rng(1).gamma(0.5, 40.0, n) + 0.1)[::-1]
    protocol = sm.Protocol(n, m, weights=weights)
    expected_counts = protocol.pmf(
        np.minimum(np.random.default_rng(3).geometric(0.02, 900), n)
    ).sum(axis=0)
    free, shaped = (
        interval(expected_counts, protocol, "recall@10", assumption=assumption)
        for assumption in (None, Assumption())
    )
    assert free.low <= shaped.low
    assert shaped.high < free.high
    even = sm.Protocol(n, m, weights=np.linspace(1.1, 1.0, n))
    with pytest.raises(IncompatibleError, match="counts contradict the assumption that deeper"):
        interval(2_000 * even.pmf(40), even, "ap", assumption=Assumption())


def test_counts_that_no_ranks_lead_to_are_refused():
    protocol = sm.Protocol(50, 10, weights=np.arange(1.0, 51))
    split = np.where(np.arange(11) % 2, 0.0, 500.0)
    with pytest.raises(IncompatibleError, match="counts contradict the protocol at any true ranks"):
        interval(1_000 * split, protocol, "recall@10")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"counts": [1, 2]}, r"counts must have shape \(3,\), got \(2,\)"),
        ({"counts": [0, 0, 0]}, "counts must hold at least one user"),
        (
            {"assumption": Assumption(steepness=2)},
            "without other options for weighted negatives",
        ),
        (
            {"protocol": sm.Protocol(9, 2, n_relevant=2, collapsed=True)},
            "must have one n_items and one relevant item",
        ),
    ],
)
def test_what_is_refused(given, said):
    arguments = {"counts": [3, 2, 1], "protocol": sm.Protocol(9, 2, weights=np.arange(9.0))}
    with pytest.raises(ValueError, match=said):
        interval(**arguments | {"metric": "recall@3"} | given)


def test_a_catalogue_whose_ranks_are_looked_at_in_stretches():
    n, m = 3_000, 10
    weights = np.ceil(2_000 / np.arange(1, n + 1))
    protocol = sm.Protocol(n, m, weights=weights, replacement=False)
    ranks = np.array([3, 40, 700, 2_500])
    pmf = protocol.pmf(ranks).mean(axis=0)
    for metric in ("auc", "ndcg@500"):
        parsed = sm.metric(metric)
        solution = interval(pmf, protocol, parsed, users=np.inf)
        exact = float(parsed(ranks, n_items=n).mean())
        assert solution.low <= exact <= solution.high
        starts, shares = np.arange(1, m + 1), np.cumsum(pmf)[:-1]
        below, above = shares - 1e-4, shares + 1e-4
        low, high = unequal.ends(protocol, parsed, starts, below, above)
        # Every rank has a column of its own here.
        lower, upper = unequal._between(protocol, np.arange(1, n + 1), starts)
        rows = np.concatenate([lower.T, -upper.T])
        for sign, end in ((1, low), (-1, -high)):
            solution = linprog(sign * parsed.vector(n), A_ub=rows, b_ub=np.append(above, -below),
                            A_eq=np.ones((1, n)), b_eq=[1.0])  # fmt: skip
            assert solution.fun - 0.03 <= end <= solution.fun + 1e-7


def of_log(protocol, users=300, **extra_columns):
    true_ranks = np.minimum(np.random.default_rng(1).geometric(0.03, users), protocol.n_items)
    rows = {"user": np.arange(users), "rank": protocol.draw(true_ranks, 2)}
    return sm.read_log(pd.DataFrame(rows | extra_columns), protocol=protocol), true_ranks


@pytest.mark.parametrize("way", WAYS)
def test_an_estimate_of_a_log_says_what_is_possible(way):
    protocol = sm.Protocol(200, 20, weights=300 / np.arange(1.0, 201), **WAYS[way])
    log, true_ranks = of_log(protocol)
    estimates = sm.estimate(log, ["recall@10", "auc"], assumption=None)
    ranks = log.frame["n_better"] + 1
    for row, name in zip(estimates.frame.itertuples(), ["recall@10", "auc"], strict=True):
        metric = sm.metric(name)
        assert row.reported == pytest.approx(metric(ranks, n_items=21).mean())
        bounds = interval(np.bincount(ranks - 1, minlength=21), protocol, name)
        assert (row.possible_low, row.possible_high) == (bounds.low, bounds.high)
        assert row.possible_low <= metric(true_ranks, n_items=200).mean() <= row.possible_high
        assert np.isnan(row.estimate)
        assert row.quote == _printed_ranges.written(bounds.low, bounds.high)
    assert "all users' negatives are drawn from the same items" in estimates.summary()
    mentions_draws = "auc is reported as a share of the 20 draws" in estimates.summary()
    assert mentions_draws == protocol.collapsed


def test_a_log_with_n_above_keeps_its_auc():
    log, _ = of_log(sm.Protocol(200, 20, weights=300 / np.arange(1.0, 201)), n_above=7.0)
    frame = sm.estimate(log, ["auc", "recall@10"]).frame
    assert frame["estimate"][0] == pytest.approx(1 - 7 / 199)
    assert frame["possible_low"].notna().all()
    assert np.isnan(frame["estimate"][1])


def test_an_assumption_that_a_log_contradicts_is_dropped_with_a_note():
    protocol = sm.Protocol(400, 20, weights=np.linspace(1.1, 1.0, 400))
    rows = {"user": range(2_000), "rank": protocol.draw(np.full(2_000, 40), 1)}
    estimates = sm.estimate(sm.read_log(pd.DataFrame(rows), protocol=protocol), ["recall@10"])
    assert (
        "the ranks of recommender contradict the assumption that deeper ranks have fewer"
        in estimates.notes[0]
    )
    assert estimates.frame["possible_low"].notna().all()


def test_logs_that_do_not_fit_their_protocol_are_refused():
    protocol = sm.Protocol(200, 20, weights=300 / np.arange(1.0, 201))
    rows = pd.DataFrame({"user": [1, 2], "rank": [1, 2]})
    with pytest.raises(ValueError, match="n_items must be left out with a protocol, got 200"):
        sm.read_log(rows, n_items=200, protocol=protocol)
    with pytest.raises(ValueError, match="n_negatives must agree with the column"):
        sm.read_log(rows.assign(n_negatives=[20, 19]), protocol=protocol)
    several_rows = pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 5], "rank": [1, 2, 2]})
    with pytest.raises(ValueError, match="n_relevant must be 1 for all users"):
        sm.read_log(several_rows, protocol=protocol)
    instance_log = sm.read_log(several_rows.assign(instance=[1, 2, 3]), protocol=protocol)
    with pytest.raises(ValueError, match="each user must have one held-out item"):
        sm.estimate(instance_log)
    log = sm.read_log(rows, protocol=protocol)
    with pytest.raises(ValueError, match="needs a log with a column n_above"):
        sm.compare(log, "auc")
    uniform = sm.read_log(rows, protocol=sm.Protocol(200, 20, replacement=False))
    assert uniform.protocol == Uniform(replacement=False)


@pytest.mark.parametrize("tied", range(1, 8))
def test_ties_are_bounded_for_all_copies(tied):
    starts = np.arange(1, 12)
    place, n_tied = np.array([2]), np.array([tied])
    lower, upper = unequal.fewer_above(place, n_tied, starts, True)
    even = unequal.fewer_above(place, n_tied, starts, False)[0]
    np.testing.assert_allclose(even[0], np.clip((starts - 2) / (tied + 1), 0, 1))
    assert (lower <= even + 1e-12).all()
    assert (even <= upper + 1e-12).all()
    shares = np.zeros((0, starts.size))
    for copies in partitions(tied, tied):
        # The item takes any place among the different items it ties with, in any order.
        above = [
            sum(order[:place]) + 2
            for order in permutations(copies)
            for place in range(len(copies) + 1)
        ]
        share_fewer = (np.array(above)[:, np.newaxis] < starts).mean(axis=0)
        shares = np.append(shares, [share_fewer], axis=0)
    assert (lower <= shares + 1e-12).all()
    assert (shares <= upper + 1e-12).all()


def partitions(total, largest):
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


@pytest.mark.parametrize("way", WAYS)
def test_weighted_negatives_with_ties_keep_the_exact_metric(way):
    # Each held-out item ties with the most popular item only: rank 1 or 2.
    n, m, users = 60, 15, 2_000
    weights = np.ones(n)
    weights[0] = 200
    protocol = sm.Protocol(n, m, weights=weights, **WAYS[way])
    for seed in range(3):
        draws = np.random.default_rng(seed).binomial(m, 200 / 258, users)
        tied = draws if way == "replacement" else np.minimum(draws, 1)
        rows = pd.DataFrame({"user": range(users), "n_better": 0, "n_tied": tied})
        log = sm.read_log(rows, protocol=protocol)
        frame = sm.estimate(log, ["rr", "recall@1"], assumption=None).frame
        exact = np.array([0.75, 0.5])
        assert (frame["possible_low"] <= exact).all()
        assert (exact <= frame["possible_high"]).all()


def test_all_metrics_fall_with_the_rank():
    ranks = np.arange(1, 101)
    for name in ("recall@7", "hit@7", "precision@7", "ndcg@7", "ndcg", "ap", "ap@7", "rr", "auc"):
        assert (np.diff(sm.metric(name)(ranks, n_items=100)) <= 1e-15).all(), name


def test_uniform_draws_that_collapse_leave_little_open_with_many_negatives():
    protocol = sm.Protocol(40, 60, collapsed=True)
    ranks = np.array([1, 4, 12])
    pmf = protocol.pmf(ranks).mean(axis=0)
    bounds = interval(pmf, protocol, "recall@8", users=np.inf)
    assert bounds.low <= 2 / 3 <= bounds.high
    assert bounds.high - bounds.low < 0.02

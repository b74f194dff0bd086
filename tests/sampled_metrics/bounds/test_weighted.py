"""What is possible with weights: every set of items above, hostile populations, other designs."""

from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import linprog

import sampled_metrics as sm
from sampled_metrics import _ranges
from sampled_metrics.bounds import weighted as unequal
from sampled_metrics.bounds.assumption import Assumption
from sampled_metrics.bounds.identification import IncompatibleError, interval

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


def every_law(weights, m, way):
    """For each relevant item and set of items above: its size, and the law of those drawn."""
    n = len(weights)
    for own in range(n):
        others = [i for i in range(n) if i != own]
        w = np.array([weights[i] for i in others])
        if way == "distinct":
            draws = list(permutations(range(n - 1), m))
            chances = []
            for each in draws:
                left, chance = w.sum(), 1.0
                for i in each:
                    chance *= w[i] / left if left > 1e-12 else 0.0
                    left -= w[i]
                chances.append(chance)
        else:
            draws = list(product(range(n - 1), repeat=m))
            chances = [np.prod(w[list(each)] / w.sum()) for each in draws]
        for size in range(n):
            for above in combinations(range(n - 1), size):
                inside = set(above)
                law = np.zeros(m + 1)
                for each, chance in zip(draws, chances, strict=True):
                    seen = set(each) if way == "collapsed" else each
                    law[sum(i in inside for i in seen)] += chance
                yield size, law


@pytest.fixture(scope="module", params=list(product(WAYS, WEIGHTS)), ids=" ".join)
def enumerated(request):
    way, kind = request.param
    weights = WEIGHTS[kind]
    sizes, laws = zip(*every_law(weights, 3, way), strict=True)
    protocol = sm.Protocol(6, 3, weights=weights, **WAYS[way])
    return way, protocol, np.array(sizes), np.array(laws)


def test_between_is_what_all_sets_of_items_above_have(enumerated):
    way, protocol, sizes, laws = enumerated
    starts = np.arange(1, 4)
    least, most = unequal._between(protocol, np.arange(1, 7), starts)
    shares = np.cumsum(laws, axis=1)[:, :3]
    for size in range(6):
        low, high = (f(shares[sizes == size], axis=0) for f in (np.min, np.max))
        if way == "collapsed":
            assert (least[size] <= low + 1e-12).all()
            assert (most[size] >= high - 1e-12).all()
            assert most[size, 0] == pytest.approx(high[0], abs=1e-12)
        else:
            np.testing.assert_allclose(least[size], low, atol=1e-11)
            np.testing.assert_allclose(most[size], high, atol=1e-11)


def programme(shares, values, below, above):
    """The least and the most that mixtures of given laws within a band have."""
    rows, right = np.concatenate([shares.T, -shares.T]), np.concatenate([above, -below])
    every = np.ones((1, values.size))
    found = [
        linprog(sign * values, A_ub=rows, b_ub=right, A_eq=every, b_eq=[1.0]) for sign in (1, -1)
    ]
    return None if found[0].status == 2 else (found[0].fun, -found[1].fun)


@pytest.mark.some(5)
@pytest.mark.exhaustive
@pytest.mark.parametrize("metric", ["recall@2", "ndcg@3", "ap", "auc"])
def test_ranges_hold_all_mixtures_over_all_sets(enumerated, metric):
    way, protocol, sizes, laws = enumerated
    shares, of, starts = np.cumsum(laws, axis=1)[:, :3], sm.metric(metric), np.arange(1, 4)
    values, rng = of(sizes + 1, n_items=6), np.random.default_rng(3)
    for _ in range(5):
        true = rng.dirichlet(np.full(len(laws), 0.02))
        reach = rng.choice([1e-6, 0.03, 0.1])
        seen = true @ shares
        below, above = np.clip(seen - reach, 0, 1), np.clip(seen + reach, 0, 1)
        low, high = programme(shares, values, below, above)
        found = unequal.ends(protocol, of, starts, below, above)
        assert found[0] <= low + 1e-7
        assert found[1] >= high - 1e-7
        if way == "replacement":
            # Nothing but shares of the weight that no set has are added to what is possible.
            ends = [(q.min(), q.max()) for q in (share_of(sizes, laws, a) for a in range(6))]
            fine = [np.linspace(*end, 400) for end in ends]
            dense = stats.binom.cdf([0, 1, 2], 3, np.concatenate(fine)[:, np.newaxis])
            inside = np.repeat(of(np.arange(1, 7), n_items=6), 400)
            low, high = programme(dense, inside, below, above)
            assert low - found[0] < 2e-3
            assert found[1] - high < 2e-3


def share_of(sizes, laws, above):
    return np.clip(1.0 - np.cbrt(laws[sizes == above, 0]), 0.0, 1.0)  # three draws


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
    held, of = [], sm.metric("recall@10")
    for ranks, order in hostile(n, weights, m, 1):
        protocol = sm.Protocol(n, m, weights=order, **WAYS[way])
        laws = protocol.pmf(ranks)
        for _ in range(3):
            counts = np.zeros(m + 1)
            where = rng.integers(0, ranks.size, users)  # the users are a sample too
            for law, many in zip(laws, np.bincount(where, minlength=ranks.size), strict=True):
                counts += rng.multinomial(many, law / law.sum())
            exact = float(of(ranks, n_items=n).mean())
            found = interval(counts, protocol, of)
            held.append(found.low - 1e-9 <= exact <= found.high + 1e-9)
    assert np.mean(held) >= 0.95


def test_the_order_of_the_weights_does_not_matter():
    rng = np.random.default_rng(2)
    weights, counts = rng.gamma(1.0, 10.0, 200), rng.integers(0, 9, 21)
    one = interval(counts, sm.Protocol(200, 20, weights=weights), "ndcg@10")
    two = interval(counts, sm.Protocol(200, 20, weights=rng.permutation(weights)), "ndcg@10")
    assert (one.low, one.high) == pytest.approx((two.low, two.high), abs=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
def test_equal_weights_are_no_weights(replacement):
    protocol = sm.Protocol(300, 30, replacement=replacement)
    law = protocol.pmf(np.minimum(np.random.default_rng(1).geometric(0.03, 4_000), 300)).sum(axis=0)
    same = sm.Protocol(300, 30, weights=np.full(300, 7.0), replacement=replacement)
    found, plain = interval(law, same, "recall@20"), interval(law, protocol, "recall@20")
    # A band is wider than the likelihood's region, but of the same thing.
    assert found.low <= plain.low + 1e-3
    assert found.high >= plain.high - 1e-3
    assert found.high - found.low < 1.6 * (plain.high - plain.low)


def test_a_band_holds_all_shares_as_often_as_it_says():
    law = np.array([0.02, 0.1, 0.3, 0.4, 0.15, 0.03])
    starts, true = np.arange(1, 6), np.cumsum(law)[:-1]
    draws = np.random.default_rng(7).multinomial(40, law, 4_000)
    held = 0
    for users in draws:
        fewer = np.cumsum(users)[starts - 1].astype(float)
        below, above = unequal.band(fewer, fewer, 40.0, 0.9)
        held += bool(((below <= true) & (true <= above)).all())
    assert held / 4_000 >= 0.9
    below, above = unequal.band(np.array([3.0]), np.array([3.0]), 10.0, 0.95)
    exact = stats.binomtest(3, 10).proportion_ci(0.95, method="exact")
    assert (below[0], above[0]) == pytest.approx((exact.low, exact.high))


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
    n, starts, of = 900, np.array([1, 3, 5]), sm.metric("ndcg")
    protocol = sm.Protocol(n, 5, weights=1 + np.arange(n) % 7, replacement=False)
    least, most = unequal._between(protocol, np.arange(1, n + 1), starts)
    values = of.vector(n)
    columns = unequal._columns(protocol, of, tuple(starts.tolist()), top)
    assert top < len(columns.least) < n
    for rank in range(top, n):  # a column has less of what is below, and more of what is above
        holds = (columns.least <= least[rank]).all(axis=1) & (columns.most >= most[rank]).all(
            axis=1
        )
        for end, better in zip(columns.values, (np.less_equal, np.greater_equal), strict=True):
            assert (holds & better(end, values[rank]))[top:].any()


def test_an_assumption_narrows_and_is_refused_with_its_evidence():
    n, m = 400, 20
    order = np.sort(np.random.default_rng(1).gamma(0.5, 40.0, n) + 0.1)[::-1]
    protocol = sm.Protocol(n, m, weights=order)
    law = protocol.pmf(np.minimum(np.random.default_rng(3).geometric(0.02, 900), n)).sum(axis=0)
    free, shaped = (
        interval(law, protocol, "recall@10", assumption=s) for s in (None, Assumption())
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
            "assumption must have no steepness, and not be geometric,",
        ),
        ({"protocol": sm.Protocol(9, 2, n_relevant=2, collapsed=True)}, "one relevant item where"),
    ],
)
def test_what_is_refused(given, said):
    asked = {"counts": [3, 2, 1], "protocol": sm.Protocol(9, 2, weights=np.arange(9.0))}
    with pytest.raises(ValueError, match=said):
        interval(**asked | {"metric": "recall@3"} | given)


def test_a_catalogue_whose_ranks_are_looked_at_in_stretches():
    n, m = 3_000, 10
    weights = np.ceil(2_000 / np.arange(1, n + 1))
    protocol = sm.Protocol(n, m, weights=weights, replacement=False)
    ranks = np.array([3, 40, 700, 2_500])
    law = protocol.pmf(ranks).mean(axis=0)
    for metric in ("auc", "ndcg@500"):
        of = sm.metric(metric)
        found = interval(law, protocol, of, users=np.inf)
        exact = float(of(ranks, n_items=n).mean())
        assert found.low <= exact <= found.high
        starts, shares = np.arange(1, m + 1), np.cumsum(law)[:-1]
        below, above = shares - 1e-4, shares + 1e-4
        low, high = unequal.ends(protocol, of, starts, below, above)
        # Every rank has a column of its own here.
        least, most = unequal._between(protocol, np.arange(1, n + 1), starts)
        rows = np.concatenate([least.T, -most.T])
        for sign, end in ((1, low), (-1, -high)):
            found = linprog(sign * of.vector(n), A_ub=rows, b_ub=np.append(above, -below),
                            A_eq=np.ones((1, n)), b_eq=[1.0])  # fmt: skip
            assert found.fun - 0.03 <= end <= found.fun + 1e-7


def of_log(protocol, users=300, **more):
    true = np.minimum(np.random.default_rng(1).geometric(0.03, users), protocol.n_items)
    rows = {"user": np.arange(users), "rank": protocol.draw(true, 2)}
    return sm.read_log(pd.DataFrame(rows | more), protocol=protocol), true


@pytest.mark.parametrize("way", WAYS)
def test_an_estimate_of_a_log_says_what_is_possible(way):
    protocol = sm.Protocol(200, 20, weights=300 / np.arange(1.0, 201), **WAYS[way])
    log, true = of_log(protocol)
    found = sm.estimate(log, ["recall@10", "auc"], assumption=None)
    ranks = log.frame["n_better"] + 1
    for row, name in zip(found.frame.itertuples(), ["recall@10", "auc"], strict=True):
        of = sm.metric(name)
        assert row.reported == pytest.approx(of(ranks, n_items=21).mean())
        direct = interval(np.bincount(ranks - 1, minlength=21), protocol, name)
        assert (row.possible_low, row.possible_high) == (direct.low, direct.high)
        assert row.possible_low <= of(true, n_items=200).mean() <= row.possible_high
        assert np.isnan(row.estimate)
        assert row.quote == _ranges.written(direct.low, direct.high)
    assert "all users' negatives are drawn from the same items" in found.summary()
    said = "auc is reported as a share of the 20 draws" in found.summary()
    assert said == protocol.collapsed


def test_a_log_with_n_above_keeps_its_auc():
    log, _ = of_log(sm.Protocol(200, 20, weights=300 / np.arange(1.0, 201)), n_above=7.0)
    found = sm.estimate(log, ["auc", "recall@10"]).frame
    assert found["estimate"][0] == pytest.approx(1 - 7 / 199)
    assert found["possible_low"].notna().all()
    assert np.isnan(found["estimate"][1])


def test_an_assumption_that_a_log_contradicts_is_dropped_with_a_note():
    protocol = sm.Protocol(400, 20, weights=np.linspace(1.1, 1.0, 400))
    rows = {"user": range(2_000), "rank": protocol.draw(np.full(2_000, 40), 1)}
    found = sm.estimate(sm.read_log(pd.DataFrame(rows), protocol=protocol), ["recall@10"])
    assert (
        "the ranks of recommender contradict the assumption that deeper ranks have fewer"
        in found.notes[0]
    )
    assert found.frame["possible_low"].notna().all()


def test_logs_that_do_not_fit_their_protocol_are_refused():
    protocol = sm.Protocol(200, 20, weights=300 / np.arange(1.0, 201))
    rows = pd.DataFrame({"user": [1, 2], "rank": [1, 2]})
    with pytest.raises(ValueError, match="n_items must be left out with a protocol, got 200"):
        sm.read_log(rows, n_items=200, protocol=protocol)
    with pytest.raises(ValueError, match="n_negatives must be"):
        sm.read_log(rows.assign(n_negatives=[20, 19]), protocol=protocol)
    several = pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 5], "rank": [1, 2, 2]})
    with pytest.raises(ValueError, match="n_relevant must be 1 for all users"):
        sm.read_log(several, protocol=protocol)
    apart = sm.read_log(several.assign(instance=[1, 2, 3]), protocol=protocol)
    with pytest.raises(ValueError, match="each user must have one held-out item"):
        sm.estimate(apart)
    log = sm.read_log(rows, protocol=protocol)
    with pytest.raises(ValueError, match="needs a log with a column n_above"):
        sm.compare(log, "auc")
    uniform = sm.read_log(rows, protocol=sm.Protocol(200, 20, replacement=False))
    assert uniform.protocol is None
    assert not uniform.replacement


@pytest.mark.parametrize("tied", range(1, 8))
def test_ties_are_bounded_for_all_copies(tied):
    starts = np.arange(1, 12)
    place, none = np.array([2]), np.array([tied])
    least, most = unequal.fewer_above(place, none, starts, True)
    even = unequal.fewer_above(place, none, starts, False)[0]
    np.testing.assert_allclose(even[0], np.clip((starts - 2) / (tied + 1), 0, 1))
    assert (least <= even + 1e-12).all()
    assert (even <= most + 1e-12).all()
    found = np.zeros((0, starts.size))
    for copies in partitions(tied, tied):
        # The item takes any place among the different items it ties with, in any order.
        above = [
            sum(order[:place]) + 2
            for order in permutations(copies)
            for place in range(len(copies) + 1)
        ]
        fewer = (np.array(above)[:, np.newaxis] < starts).mean(axis=0)
        found = np.append(found, [fewer], axis=0)
    assert (least <= found + 1e-12).all()
    assert (found <= most + 1e-12).all()


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
        found = sm.estimate(log, ["rr", "recall@1"], assumption=None).frame
        exact = np.array([0.75, 0.5])
        assert (found["possible_low"] <= exact).all()
        assert (exact <= found["possible_high"]).all()


def test_all_metrics_fall_with_the_rank():
    ranks = np.arange(1, 101)
    for name in ("recall@7", "hit@7", "precision@7", "ndcg@7", "ndcg", "ap", "ap@7", "rr", "auc"):
        assert (np.diff(sm.metric(name)(ranks, n_items=100)) <= 1e-15).all(), name


def test_uniform_draws_that_collapse_leave_little_open_with_many_negatives():
    protocol = sm.Protocol(40, 60, collapsed=True)
    ranks = np.array([1, 4, 12])
    law = protocol.pmf(ranks).mean(axis=0)
    found = interval(law, protocol, "recall@8", users=np.inf)
    assert found.low <= 2 / 3 <= found.high
    assert found.high - found.low < 0.02

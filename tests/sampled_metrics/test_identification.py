"""Intervals against dense programmes, closed forms and simulated logs."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import beta

from sampled_metrics import Protocol, identification, metric
from sampled_metrics.identification import interval
from sampled_metrics.numerics.all_ranks import all_ranks

METRICS = ["recall@10", "ndcg@10", "ap", "ndcg", "auc"]


def dense_law(protocol):
    return protocol.pmf(np.arange(1, protocol.n_items + 1))


def textbook_region(counts, error):
    """Functionals of the sampled rank's law, their lower and upper limits: from the docstring."""
    m, users = len(counts) - 1, sum(counts)
    rows = [*np.eye(m + 1), *([1.0] * (k + 1) + [0.0] * (m - k) for k in range(1, m - 1))]
    each = error / 2 / len(rows)
    low, high = [], []
    for row in rows:
        k = float(np.dot(row, counts))
        low.append(beta.ppf(each / 2, k, users - k + 1) if k > 0 else 0.0)
        high.append(beta.ppf(1 - each / 2, k + 1, users - k) if k < users else 1.0)
    x = np.repeat(np.arange(m + 1) / m, counts)
    log = np.log(2 / (error / 4))
    far = np.sqrt(2 * x.var(ddof=1) * log / users) + 7 * log / (3 * (users - 1))
    return np.array([*rows, np.arange(m + 1) / m]), [*low, x.mean() - far], [*high, x.mean() + far]


def dense_programme(law, values, functionals, low, high):
    """Smallest and largest value over all ranks at once, without any column generation."""
    shown = functionals @ law.T
    found = [
        linprog(
            sign * values,
            A_ub=np.concatenate([shown, -shown]),
            b_ub=np.concatenate([high, -np.asarray(low)]),
            A_eq=np.ones((1, len(values))),
            b_eq=[1.0],
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        for sign in (1.0, -1.0)
    ]
    return found[0].fun, -found[1].fun


def a_log(protocol, seed, users=500):
    rng = np.random.default_rng(seed)
    ranks = 1 + (protocol.n_items * rng.beta(0.4, 2.0, size=users)).astype(int)
    drawn = protocol.draw(np.minimum(ranks, protocol.n_items), rng)
    return np.bincount(drawn - 1, minlength=protocol.n_negatives + 1)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("n", "m"), [(40, 1), (40, 2), (300, 20), (900, 40)])
def test_the_dense_programme_over_all_ranks_agrees(n, m, name, replacement):
    protocol = Protocol(n, m, replacement)
    counts = a_log(protocol, seed=n + m)
    found = interval(counts, protocol, metric(name), confidence=0.9)
    law, region = dense_law(protocol), textbook_region(counts, 0.1)
    low, high = dense_programme(law, metric(name).vector(n), *region)
    assert found.low == pytest.approx(low, abs=1e-7)
    assert found.high == pytest.approx(high, abs=1e-7)
    assert found.certified


@pytest.mark.parametrize("replacement", [True, False])
def test_the_dense_programme_agrees_where_the_law_is_kept_as_polynomials(replacement):
    protocol = Protocol(2_000, 60, replacement)
    assert all_ranks(1_999, 60, replacement)._matrix is None
    counts = a_log(protocol, seed=3, users=2_000)
    found = interval(counts, protocol, metric("ndcg@10"))
    region = textbook_region(counts, 0.05)
    low, high = dense_programme(dense_law(protocol), metric("ndcg@10").vector(2_000), *region)
    assert [found.low, found.high] == pytest.approx([low, high], abs=1e-7)


def test_one_negative_tells_the_mean_rank_and_nothing_else():
    # With m = 1 only the mean of (r - 1) / (n - 1) is known. Recall@k is largest with its share w
    # at rank k and the rest at rank n, where w (k - 1) / (n - 1) + 1 - w is that mean.
    n, k, mean = 101, 11, 0.4
    protocol, shares = Protocol(n, 1), [1 - mean, mean]
    found = interval(shares, protocol, metric(f"recall@{k}"), users=np.inf)
    assert found.low == 0.0
    assert found.high == pytest.approx((1 - mean) / (1 - 10 / 100), abs=1e-9)
    assert found.at_high == pytest.approx({11: 2 / 3, 101: 1 / 3})


def test_two_negatives_by_hand():
    # Nothing at ranks 2 to 10, as little as possible at rank 1: rank 11 gives the most first
    # places for its share of the others. Its law is (0.64, 0.32, 0.04)'s kind: p = 10 / 49.
    p, q = 10 / 49, 39 / 49
    middle = 0.3 / (2 * p * q)
    last = 0.1 - middle * p * p
    found = interval([6, 3, 1], Protocol(50, 2), metric("recall@10"), users=np.inf)
    assert found.low == pytest.approx(1 - middle - last, abs=1e-9)
    assert found.at_low == pytest.approx({1: 1 - middle - last, 11: middle, 50: last})


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "m"), [(50, 3), (3_541, 100), (5_000, 30)])
def test_auc_is_a_point_up_to_the_users(n, m, replacement):
    protocol = Protocol(n, m, replacement)
    counts = a_log(protocol, seed=m)
    ranks = 1 + ((n - 1) * beta(0.5, 3.0).ppf(np.arange(1, 200) / 200)).astype(int)
    law = protocol.pmf(ranks).mean(axis=0)
    exact = metric("auc")(ranks, n_items=n).mean()
    found = interval(law, protocol, metric("auc"), users=np.inf)
    assert [found.low, found.high] == pytest.approx([exact, exact], abs=1e-6)
    found = interval(counts, protocol, metric("auc"))
    x = np.repeat(np.arange(m + 1) / m, counts)
    # Wider than the normal interval, for it holds for any distribution; but of its order.
    normal = 1.96 * x.std() / np.sqrt(x.size)
    assert found.low <= 1 - x.mean() - normal
    assert found.high >= 1 - x.mean() + normal
    assert found.high - found.low < 8 * normal


@given(st.integers(0, 10**6), st.sampled_from(METRICS), st.booleans())
def test_every_distribution_is_inside_the_interval_of_its_own_law(seed, name, replacement):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(12, 400)), int(rng.integers(1, 11))
    protocol = Protocol(n, m, replacement)
    mass = rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-3, 1)))
    exact = mass @ metric(name).vector(n)
    for users in (30.0, np.inf):
        found = interval(mass @ dense_law(protocol), protocol, metric(name), users=users)
        assert found.low - 1e-9 <= exact <= found.high + 1e-9


def test_the_ends_are_reached_by_distributions_that_are_compatible():
    protocol = Protocol(300, 20)
    counts = a_log(protocol, seed=5)
    found = interval(counts, protocol, metric("ap"))
    functionals, low, high = textbook_region(counts, 0.05)
    for masses, end in ((found.at_low, found.low), (found.at_high, found.high)):
        ranks, mass = np.array(list(masses)), np.array(list(masses.values()))
        assert mass.sum() == pytest.approx(1)
        assert mass @ metric("ap")(ranks) == pytest.approx(end, abs=1e-7)
        shown = functionals @ (mass @ protocol.pmf(ranks))
        assert (shown >= np.array(low) - 1e-8).all()
        assert (shown <= np.array(high) + 1e-8).all()


def test_less_confidence_and_more_users_narrow_it():
    protocol = Protocol(300, 20)
    counts = a_log(protocol, seed=6)
    sure, unsure = (interval(counts, protocol, metric("ap"), c) for c in (0.99, 0.5))
    assert sure.low < unsure.low < unsure.high < sure.high
    law = protocol.pmf([2, 20, 150]).mean(axis=0)
    several = [interval(law, protocol, metric("ap"), users=u) for u in (1e2, 1e4, 1e6, np.inf)]
    assert (np.diff([found.low for found in several]) > 0).all()
    assert (np.diff([found.high for found in several]) < 0).all()


def _in_region(counts, law, error):
    """Whether the textbook region of each log (rows of counts) holds the law."""
    m, users = law.size - 1, int(counts[0].sum())
    sums = np.cumsum(np.eye(m + 1), axis=0)[1 : m - 1]
    rows = np.concatenate([np.eye(m + 1), sums])
    k, each = np.arange(users + 1), error / 2 / len(rows)
    low = np.nan_to_num(beta.ppf(each / 2, k, users - k + 1), nan=0.0)
    high = np.nan_to_num(beta.ppf(1 - each / 2, k + 1, users - k), nan=1.0)
    seen, truth = (counts @ rows.T).astype(int), rows @ law
    inside = ((low[seen] <= truth + 1e-12) & (truth - 1e-12 <= high[seen])).all(axis=1)
    x, log = np.arange(m + 1) / m, np.log(8 / error)
    mean = counts @ x / users
    variance = (counts @ x**2 / users - mean**2) * users / (users - 1)
    far = np.sqrt(2 * np.maximum(variance, 0) * log / users) + 7 * log / (3 * (users - 1))
    return inside & (np.abs(mean - law @ x) <= far)


N = 300
SHAPES = {
    "like X, Y and Z": lambda rng, size: 1 + (N * rng.beta(0.5, 4.0, size=size)).astype(int),
    "uniform": lambda rng, size: rng.integers(1, N + 1, size=size),
    "nearly always first": lambda rng, size: np.where(rng.random(size) < 0.004, N, 1),
    "two ranks": lambda rng, size: np.where(rng.random(size) < 0.5, 10, 11),
    "all alike": lambda rng, size: np.full(size, 11),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fixed", [True, False])
def test_the_region_holds_the_law_and_so_the_interval_the_metric(shape, fixed):
    rng = np.random.default_rng(16)
    protocol, users, logs = Protocol(N, 20), 200, 1_000
    population = SHAPES[shape](rng, users if fixed else 100_000)
    law = np.zeros(21)
    for rank, share in zip(*np.unique(population, return_counts=True), strict=True):
        law += share / population.size * protocol.pmf(rank)
    ranks = population if fixed else rng.choice(population, (logs, users))
    drawn = protocol.draw(ranks, rng, size=(logs, users)) - 1
    counts = np.array([np.bincount(each, minlength=21) for each in drawn])
    # Where the region holds the law, the interval holds its metric; it may elsewhere, too.
    assert _in_region(counts, law, error=0.05).mean() >= 0.95


@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_holds_the_exact_metric(shape):
    # What the test above relies on, seen rather than believed.
    rng = np.random.default_rng(17)
    protocol, users = Protocol(N, 20), 200
    ranks = SHAPES[shape](rng, users)
    for _ in range(8):
        counts = np.bincount(protocol.draw(ranks, rng) - 1, minlength=21)
        found = interval(counts, protocol, metric("recall@10"))
        assert found.low <= metric("recall@10")(ranks).mean() <= found.high


def test_a_sample_that_no_ranks_explain_is_refused():
    # The number of negatives above an item spreads: 1,000 users cannot all have 50 of 100.
    counts = np.zeros(101)
    counts[50] = 1_000
    with pytest.raises(ValueError, match="not compatible with the protocol"):
        interval(counts, Protocol(10_000, 100), metric("ap"))
    assert interval(counts / 500, Protocol(10_000, 100), metric("ap")).low > 0


def test_users_of_one_catalogue_size_may_be_given_in_classes():
    protocol = Protocol(300, 20)
    first, second = a_log(protocol, seed=8), a_log(protocol, seed=9, users=90)
    whole = interval(first + second, protocol, metric("ndcg"))
    split = interval([first, second, 0 * first], [protocol] * 3, metric("ndcg"))
    assert [split.low, split.high] == pytest.approx([whole.low, whole.high], abs=1e-12)


def test_two_catalogue_sizes_by_the_dense_programme():
    sizes, m, name = (60, 90), 4, "ap"
    protocols = [Protocol(n, m) for n in sizes]
    counts = [a_log(p, seed=10, users=u) for p, u in zip(protocols, (300, 100), strict=True)]
    found = interval(counts, protocols, metric(name))
    functionals, low, high = textbook_region(counts[0] + counts[1], 0.05)
    law = np.concatenate([dense_law(p) for p in protocols])
    values = np.concatenate([metric(name).vector(n) for n in sizes])
    # The classes' shares are known: they are functionals of the joint distribution.
    belongs = np.repeat(np.eye(2), sizes, axis=0)
    law = np.concatenate([law, belongs], axis=1)
    joint = np.zeros((len(low) + 2, m + 3))
    joint[: len(low), : m + 1], joint[len(low) :, m + 1 :] = functionals, np.eye(2)
    shares = [0.75, 0.25]
    ends = dense_programme(law, values, joint, [*low, *shares], [*high, *shares])
    assert [found.low, found.high] == pytest.approx(ends, abs=1e-7)


@pytest.mark.parametrize("replacement", [True, False])
def test_many_catalogue_sizes_share_bins_and_hold_every_distribution(replacement):
    rng = np.random.default_rng(11)
    protocols = [Protocol(n, 8, replacement) for n in range(80, 120)]
    ranks = [1 + (p.n_items * rng.beta(0.5, 3.0, size=5)).astype(int) for p in protocols]
    laws = [5 * p.pmf(r).mean(axis=0) for p, r in zip(protocols, ranks, strict=True)]
    for name in ("recall@10", "ap", "auc"):
        values = [metric(name)(r, n_items=p.n_items) for p, r in zip(protocols, ranks, strict=True)]
        found = interval(laws, protocols, metric(name), users=1e6)
        assert found.certified
        assert found.low <= np.mean(values) <= found.high
    assert found.high - found.low < 0.01


def test_two_numbers_of_negatives_add_up():
    few, many = Protocol(100, 3), Protocol(100, 9)
    counts = a_log(few, seed=12, users=100), a_log(many, seed=12, users=300)
    found = interval(counts, [few, many], metric("ap"), confidence=0.9)
    parts = [interval(c, p, metric("ap"), 0.95) for c, p in zip(counts, (few, many), strict=True)]
    assert found.low == pytest.approx(0.25 * parts[0].low + 0.75 * parts[1].low)
    assert found.high == pytest.approx(0.25 * parts[0].high + 0.75 * parts[1].high)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["ndcg@5", "ap", "rr", "recall@5", "auc"])
def test_several_relevant_items(name, replacement):
    protocol = Protocol(60, 5, replacement, n_relevant=3)
    rng = np.random.default_rng(13)
    sets = [sorted(rng.choice(np.arange(1, 41), 3, replace=False)) for _ in range(50)]
    laws = np.array([[protocol.pmf(ranks[j - 1], j) for j in (1, 2, 3)] for ranks in sets]).mean(
        axis=0
    )
    exact = np.mean([metric(name).of_set(ranks, n_items=60) for ranks in sets])
    for users in (500, np.inf):
        found = interval(laws, protocol, metric(name), users=users)
        assert found.low - 1e-7 <= exact <= found.high + 1e-7
    if name == "auc":
        assert found.high - found.low < 1e-6


def test_a_metric_that_sees_only_the_best_item_keeps_the_whole_confidence():
    protocol = Protocol(60, 5, n_relevant=2)
    counts = np.array([[70, 20, 6, 2, 1, 1], [10, 20, 30, 20, 10, 10]])
    found = interval(counts, protocol, metric("rr"))
    alone = interval(counts[0], Protocol(59, 5), metric("rr"))
    assert [found.low, found.high] == pytest.approx([alone.low, alone.high], abs=1e-9)


def test_a_metric_that_is_the_same_for_every_rank_is_a_point():
    found = interval([5, 3, 1], Protocol(9, 2), metric("recall@10"))
    assert (found.low, found.high, found.gap) == (1.0, 1.0, 0.0)


def test_an_unfinished_programme_says_so_and_is_valid(monkeypatch):
    protocol = Protocol(2_000, 40)
    counts = a_log(protocol, seed=14)
    whole = interval(counts, protocol, metric("ap"))
    monkeypatch.setattr(identification, "_ROUNDS", 1)
    with pytest.warns(RuntimeWarning, match="too wide"):
        rough = interval(counts, protocol, metric("ap"))
    assert not rough.certified
    assert rough.low <= whole.low
    assert rough.high >= whole.high


GOOD = [6, 3, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [6, 3]}, r"counts must have shape \(3,\), got \(2,\)"),
        ({"counts": []}, r"counts must have shape \(3,\), got \(0,\)"),
        ({"counts": [6, -3, 1]}, "counts must be finite numbers >= 0, got -3"),
        ({"counts": [6, np.nan, 1]}, "counts must be finite numbers >= 0, got nan"),
        ({"counts": [6, np.inf, 1]}, "counts must be finite numbers >= 0, got inf"),
        ({"counts": [0, 0, 0]}, "at least one user"),
        ({"counts": ["a", "b", "c"]}, "counts must be numbers"),
        ({"counts": [GOOD, GOOD]}, r"counts must have shape \(3,\)"),
        ({"counts": [GOOD], "protocol": []}, "as many, got 1 and 0"),
        ({"counts": [], "protocol": []}, "at least one user"),
        ({"protocol": Protocol([50, 60, 70], 2)}, r"n_items must be one number .* \(3,\)"),
        ({"confidence": 1.0}, r"confidence must be a number in \(0, 1\), got 1.0"),
        ({"confidence": "high"}, "confidence must be a number"),
        ({"confidence": np.nan}, "confidence must be a number"),
        ({"users": 0}, "users must be a number > 0, got 0"),
        ({"users": np.nan}, "users must be a number > 0, got nan"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"counts": GOOD, "protocol": Protocol(50, 2), "metric": metric("ap")}
    with pytest.raises(ValueError, match=message):
        interval(**(given | change))


def test_positions_must_count_the_same_users():
    protocol = Protocol(50, 2, n_relevant=2)
    with pytest.raises(ValueError, match="the same sum at every position"):
        interval([[5, 3, 1], [1, 3, 4]], protocol, metric("ap"))


@given(st.lists(st.floats(max_value=1e9), max_size=4))
def test_any_list_gives_an_interval_or_a_sentence(counts):
    message = "counts "
    try:
        found = interval(counts, Protocol(30, 2), metric("ap"))
    except ValueError as error:
        message = str(error)
    else:
        assert 0 <= found.low <= found.high <= 1
        assert found.certified
    assert message.startswith("counts ")


@pytest.mark.parametrize("users", [3, 12, 40])
def test_bands_of_fractional_counts_hold_the_mean(users):
    # The sum of independent parts 0, 1/2 and 1, exactly: whole numbers of halves.
    error, sums = 0.1, np.arange(2 * users + 1) / 2
    bands = identification.clopper_pearson(sums, users, error / 2)
    for half, one in product([0.0, 0.05, 0.3, 0.6, 0.95], [0.0, 0.01, 0.2, 0.4]):
        if half + one > 1:
            continue
        law = np.ones(1)
        for _ in range(users):
            law = np.convolve(law, [1 - half - one, half, one])
        mean = half / 2 + one
        held = (bands[:, 0] <= mean + 1e-12) & (mean - 1e-12 <= bands[:, 1])
        assert law[held].sum() >= 1 - error


def test_the_level_is_halved_where_users_are_spread_over_ranks():
    protocol = Protocol(n_items=50, n_negatives=2)
    for counts, level in [([60, 30, 10], 0.025 / 3), ([60, 30.5, 9.5], 0.0125 / 3)]:
        (problem,) = identification._problems(
            identification.checked_counts(counts, protocol), metric("ap")
        )
        region = identification._region(problem, 100.0, 0.05)
        bands = identification.clopper_pearson(np.array(counts, dtype=float), 100.0, level)
        np.testing.assert_allclose(region.bands[:3], bands, rtol=1e-12)

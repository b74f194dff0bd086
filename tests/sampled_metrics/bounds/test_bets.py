"""Bets by their theorem: certificates over whole classes, expectations over all outcomes."""

from dataclasses import replace
from itertools import combinations, product
from math import factorial, prod

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Protocol, metric, read_log
from sampled_metrics.bounds import assumption as assumption_module
from sampled_metrics.bounds import bets, identification
from sampled_metrics.bounds.generators import knots
from sampled_metrics.designs import judging
from sampled_metrics.designs.sample import Sample

from . import populations

#: The assumption by name, and how many negatives are above the last of its ranks, here.
SHAPES, ABOVE = {"nothing": None, "decreasing": "decreasing"}, 3


@pytest.fixture(autouse=True)
def _ends_early(monkeypatch):
    """The assumption ends within catalogues that are small enough for a test."""
    monkeypatch.setattr(assumption_module, "_NEGATIVES_ABOVE", ABOVE)
    bets._built.cache_clear()
    yield
    bets._built.cache_clear()


def head(assumption, n, m, above=ABOVE):
    return 0 if assumption is None else populations.head(n, m, above)


def one_part(n, m, name, replacement, users=300.0):
    kinds = np.array([[m, 1, 1, n]])
    return bets.partition(kinds, np.array([users]), metric(name), replacement)


def values_of(built_bets, m, part=0):
    """The functions at all sampled ranks; shape (bets, m + 1)."""
    values = [
        np.interp(np.arange(m + 1), knots(m), knot_values)
        for knot_values in built_bets.functions[part]
    ]
    return np.array(values)


def certified(built_bets, m, n, name, replacement, top, kind=0, pool=None):
    """How much less the certificates are than the largest expectation less its price, by HiGHS."""
    pmfs, values = populations.law(m, pool or n, replacement)[:n], metric(name).vector(n)
    excess = []
    for function, sign, slope, certificate in zip(
        values_of(built_bets, m),
        built_bets.sign,
        built_bets.slope,
        built_bets.certificates[:, kind],
        strict=True,
    ):
        highest, _ = populations.most(pmfs @ function - sign * slope * values, n, top)
        excess.append(highest - certificate)
    return np.array(excess)


CATALOGUES = [(12, 3, True), (40, 5, True), (40, 5, False), (150, 20, False)]


@pytest.mark.some(5)
@pytest.mark.parametrize(("n", "m", "replacement"), CATALOGUES)
@pytest.mark.parametrize("name", ["recall@3", "ndcg@10", "auc"])
@pytest.mark.parametrize("kind", SHAPES)
def test_no_population_of_the_class_is_above_a_certificate(kind, name, n, m, replacement):
    assumption = SHAPES[kind]
    built_bets = bets.build(one_part(n, m, name, replacement), assumption, np.log(40.0), 300.0)
    assert built_bets.sign.tolist() == [1] * len(bets.GUESSES) + [-1] * len(bets.GUESSES)
    assert (built_bets.slope >= 0).all()
    excess = certified(built_bets, m, n, name, replacement, head(assumption, n, m))
    assert excess.max() <= 1e-9
    # Nor is it far above them, or bets would win little: a part of what a user has to win.
    assert excess.min() >= -0.1 * np.log(40.0) / 300.0


@pytest.mark.some(2)
@pytest.mark.parametrize(("n", "m", "replacement"), CATALOGUES[:3])
@pytest.mark.parametrize("kind", SHAPES)
def test_a_certificate_holds_whatever_function_was_fitted(kind, n, m, replacement, monkeypatch):
    assumption, rng = SHAPES[kind], np.random.default_rng(n)
    for name in ("recall@3", "ap"):
        building = bets.Building(one_part(n, m, name, replacement), assumption, 0.01, None, (1, -1))
        functions = rng.exponential(size=(building.sign.size, knots(m).size)) + 1e-3
        monkeypatch.setattr(bets.Building, "_solve", lambda *_, made=functions: made)
        built_bets = building.bets(rng.exponential(size=building.sign.size))
        top = head(assumption, n, m)
        assert certified(built_bets, m, n, name, replacement, top).max() <= 1e-9


def tied_rows(draws, replacement):
    """Rows with negatives above ("+") and level ("="), and the package's own rows of such a log."""
    kind, x, starts, share = [], [], [], []
    above, tied = np.array([[draw.count("+"), draw.count("=")] for draw in draws]).T
    for n_above, n_tied in zip(above, tied, strict=True):
        starts.append(len(x))
        x += range(n_above, n_above + n_tied + 1)
        kind += [0] * (n_tied + 1)
        share += [1.0 / (n_tied + 1)] * (n_tied + 1)
    rows = bets.Rows(*(np.array(column) for column in (kind, x, starts, share)))
    assert rows.kind.tolist() == [0] * len(draws)
    frame = pd.DataFrame({"user": range(len(draws)), "n_better": above, "n_tied": tied})
    log = read_log(frame, n_items=10, n_negatives=4, replacement=replacement)
    return rows, Sample(log)


def test_ties_are_broken_at_random():
    # Of 9 negatives 3 are above and 4 level; the row gives what its places give on average.
    m, n, parts = 4, 10, one_part(10, 4, "ndcg@5", False)
    built_bets = bets.build(parts, None, np.log(40.0), 50.0)
    draws = list(combinations("+++====--", m))
    rows, sample = tied_rows(draws, False)
    expected = built_bets.values(rows).mean(axis=1)
    pmf = populations.law(m, n, False)[3:8].mean(axis=0)  # ranks 4 to 8 alike
    np.testing.assert_allclose(expected, values_of(built_bets, m) @ pmf, rtol=0, atol=1e-12)
    counts = sample.counts[sample.names[0]]
    assert built_bets.values(sample.bet_rows) @ counts == pytest.approx(
        expected * len(draws), abs=1e-9
    )


@pytest.mark.parametrize("items", ["=--------", "+==------", "====-----", "++======="])
def test_tied_negatives_that_may_be_one_item_drawn_twice_win_nothing_more(items):
    # A random order of the items has all draws of one tied item above, or none.
    m, n, name = 4, 10, "rr"
    built_bets = bets.build(one_part(n, m, name, True), None, np.log(40.0), 50.0)
    draws = list(product(items, repeat=m))
    rows, sample = tied_rows(draws, True)
    above, tied = items.count("+"), items.count("=")
    truth = np.mean([1.0 / (1 + above + k) for k in range(tied + 1)])
    expected = built_bets.values(rows).mean(axis=1)
    upper_bounds = built_bets.certificates[:, 0] + built_bets.sign * built_bets.slope * truth
    assert (expected <= upper_bounds + 1e-12).all()
    counts = sample.counts[sample.names[0]]
    assert built_bets.values(sample.bet_rows) @ counts == pytest.approx(
        expected * len(draws), abs=1e-9
    )
    # One tied draw, or none, loses nothing.
    single_ties = ["+--+", "=---", "++=-"]
    rows, _ = tied_rows(single_ties, True)
    function, places = values_of(built_bets, m), [slice(2, 3), slice(0, 2), slice(2, 4)]
    averages = np.array([function[:, place].mean(axis=1) for place in places]).T
    np.testing.assert_allclose(built_bets.values(rows), averages, rtol=0, atol=1e-12)


def outcomes(pmfs):
    """All sampled ranks of several users, and the probability of each."""
    for x in product(*(range(pmf.size) for pmf in pmfs)):
        probability = float(np.prod([pmf[n_above] for pmf, n_above in zip(pmfs, x, strict=True)]))
        if probability > 0:
            yield np.array(x), probability


def expectations(pmfs, kinds, built_bets, truth):
    """Expected e-values for and against the truth, by interval's own sums."""
    users, e_values = len(pmfs), np.zeros(2)
    for x, probability in outcomes(pmfs):
        logs = np.log(built_bets.values(bets.Rows(kinds, x))).sum(axis=1)
        mean = built_bets.certificates[:, kinds].mean(axis=1)
        evidence = bets.Evidence.of(built_bets.sign, built_bets.slope, mean, logs, float(users))
        e_values += probability * np.exp([evidence.against(sign, truth) for sign in (1, -1)])
    return e_values


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["recall@2", "ap", "auc"])
@pytest.mark.parametrize(("m", "used"), [(2, 2), (3, 2)])  # of three negatives any two are used
def test_with_nothing_assumed_users_at_any_ranks_are_expected_to_win_nothing(
    m, used, name, replacement, monkeypatch
):
    n, users = 7, 3
    monkeypatch.setattr("sampled_metrics.bounds.parts.MOST_NEGATIVES", used)
    built_bets = bets.build(one_part(n, m, name, replacement, users), None, np.log(4.0), users)
    pmfs, values = populations.law(m, n, replacement), metric(name).vector(n)
    largest = 0.0
    for ranks in [(0, 0, 0), (1, 1, 1), (2, 2, 2), (6, 6, 6), (0, 3, 6), (1, 2, 5), (0, 0, 6)]:
        ranks = np.array(ranks)
        e_values = expectations(
            pmfs[ranks], np.zeros(3, dtype=int), built_bets, values[ranks].mean()
        )
        assert (e_values <= 1.0 + 1e-12).all()
        largest = max(largest, e_values.max())
    assert largest > 0.9  # there is one that makes the most of it


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", list(SHAPES)[1:])
@pytest.mark.parametrize("name", ["recall@2", "ndcg", "auc"])
def test_populations_that_an_assumption_allows_are_expected_to_win_nothing(name, kind):
    n, m, users, assumption = 24, 3, 3, SHAPES[kind]
    built_bets = bets.build(one_part(n, m, name, True, users), assumption, np.log(4.0), users)
    pmfs, values = populations.law(m, n, True), metric(name).vector(n)
    rng, largest, top = np.random.default_rng(1), 0.0, head(assumption, n, m)
    functions = values_of(built_bets, m)
    worst = [
        populations.most(pmfs @ function - signed_slope * values, n, top)[1]
        for function, signed_slope in zip(
            functions, built_bets.sign * built_bets.slope, strict=True
        )
    ]
    for p in [*worst, *(populations.drawn(n, top, rng) for _ in range(4))]:
        marginal = np.clip(p @ pmfs, 0.0, None)
        e_values = expectations(
            [marginal] * users, np.zeros(users, dtype=int), built_bets, p @ values
        )
        assert (e_values <= 1.0 + 1e-9).all()
        largest = max(largest, e_values.max())
    assert largest > 0.8


def of_log(frame, name, assumption=None, **protocol):
    """What the package makes of a log: its sample, and bets as `estimate` has them."""
    log = read_log(frame, **protocol)
    sample = Sample(log)
    parts = sample.partition(metric(name), assumption)
    users = max(sample.users.values())
    return sample, bets.build(parts, assumption, np.log(4.0), users)


@pytest.mark.parametrize("name", ["recall@2", "ndcg@3", "ap", "rr"])
def test_users_with_several_relevant_items_are_expected_to_win_nothing(name):
    # The items of a user are compared with the same negatives.
    n, m, parsed_metric = 7, 2, metric(name)
    sets, built_bets, largest = [(1, 4), (2, 7)], None, 0.0
    for rank_sets in (sets, [(1, 2), (1, 2)], [(2, 3), (6, 7)]):
        above_by_user = []
        for ranks in rank_sets:
            pool = [r for r in range(1, n + 1) if r not in ranks]
            draws = list(product(pool, repeat=m))
            above_by_user.append(
                [[sum(d < r for d in user_draw) for r in ranks] for user_draw in draws]
            )
        truth = np.mean([parsed_metric.of_set(list(ranks), n_items=n) for ranks in rank_sets])
        expected, probabilities = np.zeros(2), {}
        for outcome in product(*above_by_user):
            key = tuple(tuple(user_draw) for user_draw in outcome)
            probabilities[key] = probabilities.get(key, 0.0) + 1.0 / np.prod(
                [len(d) for d in above_by_user]
            )
        for key, probability in probabilities.items():
            rows = [
                {"user": user, "item": j, "n_better": x, "n_tied": 0}
                for user, user_draw in enumerate(key)
                for j, x in enumerate(user_draw)
            ]
            sample, built_bets = of_log(pd.DataFrame(rows), name, n_items=n, n_negatives=m,
                                  replacement=True)  # fmt: skip
            evidence = sample.evidence(
                built_bets, built_bets.values(sample.bet_rows), sample.names[0]
            )
            expected += probability * np.exp([evidence.against(sign, truth) for sign in (1, -1)])
        assert (expected <= 1.0 + 1e-9).all()
        largest = max(largest, expected.max())
    assert largest > 0.5


@pytest.mark.parametrize("name", ["recall@2", "ap"])
def test_counts_of_several_relevant_items_are_expected_to_win_nothing(name, monkeypatch):
    # As `interval` has them, which does not know which rows are of one user.
    n, m, parsed_metric, ranks = 7, 2, metric(name), (1, 4)
    pool = [r for r in range(1, n + 1) if r not in ranks]
    above_by_draw = [
        [sum(negative < r for negative in negatives) for r in ranks]
        for negatives in product(pool, repeat=m)
    ]
    truth, expected = parsed_metric.of_set(list(ranks), n_items=n), np.zeros(2)
    recorded, evidence_by_counts = [], {}
    monkeypatch.setattr(
        identification, "unrefuted", lambda evidence, *_: (recorded.append(evidence), (0.0, 1.0))[1]
    )
    for users in product(above_by_draw, repeat=2):
        counts = np.zeros((2, m + 1))
        for above in users:
            counts[[0, 1], above] += 1
        if counts.tobytes() not in evidence_by_counts:
            identification.interval(counts, Protocol(n, m, n_relevant=2), name)
            evidence_by_counts[counts.tobytes()] = recorded[-1]
        counts_evidence = evidence_by_counts[counts.tobytes()]
        expected += (
            np.exp([counts_evidence.against(sign, truth) for sign in (1, -1)])
            / len(above_by_draw) ** 2
        )
    assert len(recorded) < 100
    assert (expected <= 1.0 + 1e-9).all()
    assert expected.max() > 1e-3


#: How the sampled ranks of two recommenders may depend on each other.
TOGETHER = ("alone", "alike", "opposite")


def coupled(first, second, dependence):
    """Joint probabilities of two sampled ranks: of one uniform number, or of two."""
    if dependence == "alone":
        return np.outer(first, second)
    if dependence == "opposite":
        return coupled(first, second[::-1], "alike")[:, ::-1]
    first_cdf, second_cdf = (np.append(0.0, np.cumsum(pmf)) for pmf in (first, second))
    lower = np.maximum.outer(first_cdf[:-1], second_cdf[:-1])
    return np.clip(np.minimum.outer(first_cdf[1:], second_cdf[1:]) - lower, 0.0, None)


@pytest.mark.some(2)
@pytest.mark.parametrize("how", TOGETHER)
@pytest.mark.parametrize(("kind", "name"), [("nothing", "recall@2"), ("decreasing", "ndcg@3")])
def test_pairs_are_expected_to_win_nothing_however_they_depend(kind, name, how):
    n, m, users, assumption = 12, 2, 2, SHAPES[kind]
    pmfs, values, top = populations.law(m, n, True), metric(name).vector(n), head(assumption, n, m)
    rng, evidence_by_key = np.random.default_rng(2), {}
    for case in range(3):
        if assumption is None:  # users at fixed ranks
            ranks = [([0, 0], [1, 11]), ([2, 2], [0, 5]), ([11, 3], [0, 0])][case]
            first_users, second_users = (np.eye(n)[r] for r in ranks)
        else:
            first_users, second_users = (
                np.tile(populations.drawn(n, top, rng), (users, 1)) for _ in "AB"
            )
        joint_pmfs = [
            coupled(p @ pmfs, q @ pmfs, how) for p, q in zip(first_users, second_users, strict=True)
        ]
        truth = float((first_users.mean(axis=0) - second_users.mean(axis=0)) @ values)
        expected = np.zeros(2)
        cells = [np.argwhere(joint_pmf > 1e-15) for joint_pmf in joint_pmfs]
        for drawn in product(*cells):
            probability = np.prod(
                [joint_pmf[tuple(x)] for joint_pmf, x in zip(joint_pmfs, drawn, strict=True)]
            )
            key = tuple(sorted(map(tuple, drawn)))
            if key not in evidence_by_key:
                frame = pd.DataFrame(
                    {"recommender": ["A", "A", "B", "B"], "user": [1, 2, 1, 2],
                     "rank": [1 + drawn[0][0], 1 + drawn[1][0], 1 + drawn[0][1], 1 + drawn[1][1]]}
                )  # fmt: skip
                log = read_log(frame, n_items=n, n_negatives=m, replacement=True)
                judge = judging.Judge(Sample(log), metric(name), [("A", "B")], 0.5)
                evidence = judge.evidence(assumption, [("A", "B")], 1.0)
                evidence_by_key[key] = evidence["A", "B"], evidence["B", "A"]
            first_evidence, second_evidence = evidence_by_key[key]
            expected += probability * np.exp(
                [first_evidence.against(1, truth), second_evidence.against(1, -truth)]
            )
        assert (expected <= 1.0 + 1e-9).all()


ERROR = 0.98 * 0.05  # the rest is for assumptions that are refuted and true


def three_recommenders(users=60):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"recommender": np.repeat(["A", "B", "C"], users), "user": np.tile(range(users), 3),
         "rank": 1 + rng.binomial(5, np.repeat([0.1, 0.2, 0.4], users))}
    )  # fmt: skip
    log = read_log(frame, n_items=30, n_negatives=5, replacement=True)
    pairs = [("A", "B"), ("A", "C"), ("B", "C")]
    return judging.Judge(Sample(log), metric("recall@5"), pairs, 0.95), pairs


def test_bets_with_and_without_an_assumption_are_added_up():
    judge, pairs = three_recommenders(300)
    weights = judging.WEIGHTS
    assert sum(weights.values()) <= 1.0 + 1e-12
    stage_evidence = {assumption: judge.evidence(assumption, pairs, 1.0) for assumption in weights}
    stages = []
    for assumption, weight in weights.items():
        stages.append(assumption)
        intervals, _ = judge.under(assumption, pairs, weight)
        for pair, pair_interval in intervals.items():
            for direction, end in ((pair, pair_interval.low), (pair[::-1], -pair_interval.high)):
                if abs(end) < 1:
                    logs = [
                        np.log(weights[stage]) + stage_evidence[stage][direction].against(1, end)
                        for stage in stages
                    ]
                    total = np.logaddexp.reduce(logs)
                    assert total == pytest.approx(np.log(2 * 3 / ERROR), abs=1e-6)


class Split:
    """Stands for a random generator: users of each row that are in the first half."""

    def __init__(self, first):
        self.first = first

    def random(self, size):
        return np.full(size, 0.5)

    def binomial(self, total, share):
        assert share == 0.5
        assert (np.asarray(self.first) <= total).all()
        return np.array(self.first)


@pytest.mark.parametrize("kind", SHAPES)
def test_what_refutes_an_assumption_is_expected_to_win_nothing(kind, monkeypatch):
    n, m, users, assumption = 15, 2, 3, SHAPES[kind]
    parts, rows = one_part(n, m, "rr", True, users), bets.Rows(np.zeros(3, int), np.arange(3))
    pmfs, top, rng = populations.law(m, n, True), head(assumption, n, m), np.random.default_rng(3)
    e_value_by_counts = {}

    def refuted(counts):
        """Expected e-value over all ways to split the users."""
        if counts not in e_value_by_counts:
            total = 0.0
            for first_half in product(*(range(count + 1) for count in counts)):
                n_ways = np.prod([len(list(combinations(range(count), f)))
                                for count, f in zip(counts, first_half, strict=True)])  # fmt: skip
                monkeypatch.setattr(np.random, "default_rng", lambda *_, f=first_half: Split(f))
                (log_e_value,) = bets.refutations(
                    parts, assumption, rows, [np.array(counts, dtype=float)]
                )
                total += n_ways * np.exp(log_e_value) / 2.0 ** sum(counts)
            e_value_by_counts[counts] = total
        return e_value_by_counts[counts]

    cases = [np.tile(populations.drawn(n, top, rng), (users, 1)) for _ in range(4)]
    if assumption is None:
        cases += [np.eye(n)[list(ranks)] for ranks in ((0, 0, 0), (7, 7, 7), (0, 7, 14), (3, 3, 9))]
    for user_pmfs in cases:
        expected = 0.0
        for x, probability in outcomes(np.clip(user_pmfs @ pmfs, 0.0, None)):
            expected += probability * refuted(tuple(np.bincount(x, minlength=m + 1).tolist()))
        assert expected <= 1.0 + 1e-9


def test_samples_that_contradict_are_refuted_and_others_are_not(monkeypatch):
    monkeypatch.setattr(assumption_module, "_NEGATIVES_ABOVE", 10)
    m, n = 20, 1_000
    parts, rows = one_part(n, m, "rr", True), bets.Rows(np.zeros(m + 1, int), np.arange(m + 1))
    pmfs, users = populations.law(m, n, True), 2_000
    ranks = np.arange(1, n + 1)
    falling = 1.0 / (ranks + 20.0)
    middle, point_counts = np.where((ranks > 200) & (ranks < 300), 1.0, 0.0), np.zeros(m + 1)
    point_counts[10] = users  # the number above spreads: so nobody can be alone there
    rounded_counts = [np.round(users * p @ pmfs / p.sum()) for p in (falling, middle)]
    sample = [*rounded_counts, point_counts]
    free = bets.refutations(parts, None, rows, sample)
    shaped = bets.refutations(parts, "decreasing", rows, sample)
    assert max(free[:2]) < np.log(20.0)
    assert free[2] > 100
    assert shaped[0] < np.log(20.0)
    assert min(shaped[1:]) > 100
    # Half of the users is enough to learn from: few more users are needed than for a known one.
    fewer_counts = np.round(sample[1] / 8)
    assert bets.refutations(parts, "decreasing", rows, [fewer_counts])[0] > np.log(1e3)


class Order(Split):
    """Stands for a random order: users of each row in each stretch."""

    def multinomial(self, total, shares):
        assert np.sum(shares) == pytest.approx(1.0)
        assert (np.sum(self.first, axis=1) == total).all()
        return np.array(self.first)


def stretches(count, n_stretches):
    """All ways to share users among stretches."""
    if n_stretches == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in stretches(count - first, n_stretches - 1):
            yield (first, *rest)


def test_bets_that_are_learnt_from_other_users_are_expected_to_win_nothing(monkeypatch):
    n, m, users, assumption, parsed_metric = 15, 2, 3, "decreasing", metric("ndcg@5")
    parts = one_part(n, m, parsed_metric.name, True, users)
    rows = bets.Rows(np.zeros(m + 1, int), np.arange(m + 1))
    pmfs, top, rng = populations.law(m, n, True), head(assumption, n, m), np.random.default_rng(3)
    shares = np.array([0.4, 0.35, 0.25])
    monkeypatch.setattr(bets, "_PARTS", shares)
    monkeypatch.setattr(bets, "LEARNT_USERS", 0)
    bets_by_counts = {}

    def won(counts):
        """Bets for each way to put the users in order, and its probability."""
        if counts not in bets_by_counts:
            bets_by_counts[counts] = []
            for split in product(*(stretches(count, shares.size) for count in counts)):
                n_orders = [factorial(sum(s)) / prod(map(factorial, s)) for s in split]
                probability = prod(n_orders) * prod(shares ** np.sum(split, axis=0))
                monkeypatch.setattr(
                    np.random, "default_rng", lambda *_, order_users=split: Order(order_users)
                )
                evidence = bets.learnt(
                    parts, assumption, np.log(4.0), rows, np.array(counts, dtype=float)
                )
                # A stretch without users, which no log of so many has, has won nothing.
                mean = np.where(evidence.users > 0, evidence.mean, 1e3)
                bets_by_counts[counts].append((replace(evidence, mean=mean), probability))
        return bets_by_counts[counts]

    largest = 0.0
    for p in [populations.drawn(n, top, rng) for _ in range(3)]:
        truth, expected = p @ parsed_metric.vector(n), np.zeros(2)
        for x, probability in outcomes([np.clip(p @ pmfs, 0.0, None)] * users):
            for evidence, order_probability in won(tuple(np.bincount(x, minlength=m + 1).tolist())):
                expected += (
                    probability
                    * order_probability
                    * np.exp([evidence.against(s, truth) for s in (1, -1)])
                )
        assert (expected <= 1.0 + 1e-9).all()
        largest = max(largest, expected.max())
    assert largest > 0.9
    assert sum(order_probability for _, order_probability in won((1, 1, 1))) == pytest.approx(1.0)

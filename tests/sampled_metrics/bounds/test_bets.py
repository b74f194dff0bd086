"""Bets by their theorem: certificates over whole classes, expectations over all outcomes."""

from dataclasses import replace
from itertools import combinations, product
from math import factorial, prod

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Protocol, metric, read_log
from sampled_metrics.bounds import bets, identification
from sampled_metrics.bounds.assumption import Assumption
from sampled_metrics.bounds.generators import knots
from sampled_metrics.evaluation import judging
from sampled_metrics.evaluation.sample import Sample

from . import populations

SHAPES = {
    "nothing": None,
    "decreasing": Assumption(3.0),
    "steep": Assumption(3.0, 2.0),
    "geometric": Assumption(3.0, geometric=True),
    "steep and geometric": Assumption(3.0, 2.0, geometric=True),
}


def head(assumption, n, m):
    return 0 if assumption is None else populations.head(assumption, n, m)


def one_part(n, m, name, replacement, users=300.0):
    kinds = np.array([[m, 1, 1, n]])
    return bets.partition(kinds, np.array([users]), metric(name), replacement)


def values_of(made, m, part=0):
    """The functions at all sampled ranks; shape (bets, m + 1)."""
    lines = [np.interp(np.arange(m + 1), knots(m), each) for each in made.functions[part]]
    return np.array(lines)


def certified(made, m, n, name, replacement, assumption, kind=0, pool=None):
    """How much less the certificates are than the largest expectation less its price, by HiGHS."""
    law, values = populations.law(m, pool or n, replacement)[:n], metric(name).vector(n)
    found = []
    for function, sign, slope, certificate in zip(
        values_of(made, m), made.sign, made.slope, made.certificates[:, kind], strict=True
    ):
        highest, _ = populations.most(
            law @ function - sign * slope * values, assumption, n, head(assumption, n, m)
        )
        found.append(highest - certificate)
    return np.array(found)


CATALOGUES = [(12, 3, True), (40, 5, True), (40, 5, False), (150, 20, False)]


@pytest.mark.some(16)
@pytest.mark.parametrize(("n", "m", "replacement"), CATALOGUES)
@pytest.mark.parametrize("name", ["recall@3", "ndcg@10", "auc"])
@pytest.mark.parametrize("kind", SHAPES)
def test_no_population_of_the_class_is_above_a_certificate(kind, name, n, m, replacement):
    assumption = SHAPES[kind]
    made = bets.build(one_part(n, m, name, replacement), assumption, np.log(40.0), 300.0)
    assert made.sign.tolist() == [1] * len(bets.GUESSES) + [-1] * len(bets.GUESSES)
    assert (made.slope >= 0).all()
    above = certified(made, m, n, name, replacement, assumption)
    assert above.max() <= 1e-9
    # Nor is it far above them, or bets would win little: a part of what a user has to win.
    assert above.min() >= -0.1 * np.log(40.0) / 300.0


@pytest.mark.some(4)
@pytest.mark.parametrize(("n", "m", "replacement"), CATALOGUES[:3])
@pytest.mark.parametrize("kind", SHAPES)
def test_a_certificate_holds_whatever_function_was_fitted(kind, n, m, replacement, monkeypatch):
    assumption, rng = SHAPES[kind], np.random.default_rng(n)

    def anything(self, g, slope):
        doublings = len(self.generators[g].constraints)
        functions = rng.exponential(size=(slope.size, knots(m).size)) + 1e-3
        return functions, rng.exponential(0.3, size=(slope.size, doublings))

    monkeypatch.setattr(bets._Building, "_solve", anything)
    for name in ("recall@3", "ap"):
        building = bets._Building(
            one_part(n, m, name, replacement), assumption, 0.01, None, (1, -1)
        )
        # `certified` asks once; what it had is what it returns.
        solved = [anything(building, 0, building.sign)]
        monkeypatch.setattr(bets._Building, "_solve", lambda *_, solved=solved: solved[0])
        made = building.certified(rng.exponential(size=building.sign.size))
        assert certified(made, m, n, name, replacement, assumption).max() <= 1e-9


@pytest.mark.parametrize("kind", SHAPES)
def test_populations_drawn_at_random_are_not_above_a_certificate(kind):
    # As the test before the last, by no optimiser: so neither can hide a mistake of the other.
    n, m, assumption, rng = 60, 6, SHAPES[kind], np.random.default_rng(3)
    made = bets.build(one_part(n, m, "ndcg@10", True), assumption, np.log(40.0), 100.0)
    expected = populations.law(m, n, True) @ values_of(made, m).T
    top, values = head(assumption, n, m), metric("ndcg@10").vector(n)
    for _ in range(200):
        p = rng.dirichlet(np.full(n, 0.1))
        if assumption is not None:
            weight = rng.random()
            if assumption.geometric:
                rates = rng.exponential(1.0, 3) * [0.01, 0.1, 0.5]
                p[:top] = rng.dirichlet(np.ones(3)) @ np.exp(-np.outer(rates, np.arange(top)))
            else:
                p[:top] = np.sort(p[:top])[::-1]
                for start in 2 ** np.arange(1, 6) - 1:
                    if np.isfinite(assumption.steepness) and 2 * start < top:
                        here, deeper = p[start // 2 : start], p[start : min(2 * start + 1, top)]
                        if deeper.mean() < here.mean() / assumption.steepness:
                            deeper[:] = here.min() if here.min() > 0 else 0.0
            p[:top] *= weight / p[:top].sum()
            p[top:] *= (1.0 - weight) / p[top:].sum()
            rows = populations.not_negative(assumption, n, top)
            if (rows @ p).min() < 0:
                continue
        worth = p @ expected - made.sign * made.slope * (p @ values)
        assert (worth <= made.certificates[:, 0] + 1e-9).all()


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["auc", "ap", "recall@5"])
def test_a_smaller_catalogue_is_judged_as_a_part_of_the_largest(name, replacement):
    m, fewer, sizes = 7, 5, [40, 42, 43]
    kinds = np.array([[m if n == 42 else fewer, 1, 1, n] for n in sizes])
    joined = bets.Partition(  # 7 negatives are not within a tenth of 5
        [bets.Part(Protocol(43, fewer, replacement=replacement), (40, m), 39, 1, 1, 1)],
        np.zeros(3, dtype=int), kinds,
        np.full(3, 1 / 3), np.ones(3, dtype=int), np.arange(3), metric(name),
    )  # fmt: skip
    largest = populations.law(fewer, 43, replacement)
    lines = np.array([np.interp(np.arange(fewer + 1), knots(fewer), e) for e in np.eye(6)])
    for kind, (own, _, _, n) in enumerate(kinds.tolist()):
        x = np.arange(own + 1)
        (seen,) = bets.Rows(np.full(x.size, kind), x).seen(joined)
        assert seen.rows.tolist() == x.tolist()
        expected = populations.law(own, n, replacement) @ seen.values(np.eye(6)).T
        np.testing.assert_allclose(expected, largest[:n] @ lines.T, rtol=0, atol=1e-12)


@pytest.mark.some(7)
@pytest.mark.parametrize("upto", [3.0, 20.0])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", ["auc", "ndcg@5"])
def test_certificates_hold_for_every_size_of_a_part(name, kind, upto):
    # The assumption may end within all catalogues, or be of all ranks of each.
    m, sizes, assumption = 6, [60, 62, 65], SHAPES[kind]
    if assumption is not None:
        assumption = replace(assumption, head=upto)
    kinds = np.array([[m, 1, 1, n] for n in sizes])
    parts = bets.partition(kinds, np.ones(3), metric(name), False)
    assert len(parts.parts) == 1
    made = bets.build(parts, assumption, np.log(40.0), 200.0)
    for kind_, n in enumerate(sizes):
        above = certified(made, m, n, name, False, assumption, kind_, 65)
        assert above.max() <= 1e-9


def tied_rows(draws, replacement):
    """Rows with negatives above ("+") and level ("="), and the package's own rows of such a log."""
    kind, x, starts, share = [], [], [], []
    above, tied = np.array([[each.count("+"), each.count("=")] for each in draws]).T
    for a, t in zip(above, tied, strict=True):
        starts.append(len(x))
        x += range(a, a + t + 1)
        kind += [0] * (t + 1)
        share += [1.0 / (t + 1)] * (t + 1)
    rows = bets.Rows(*(np.array(v) for v in (kind, x, starts, share)))
    assert rows.kind.tolist() == [0] * len(draws)
    frame = pd.DataFrame({"user": range(len(draws)), "n_better": above, "n_tied": tied})
    log = read_log(frame, n_items=10, n_negatives=4, replacement=replacement)
    return rows, Sample(log)


def test_ties_are_broken_at_random():
    # Of 9 negatives 3 are above and 4 level; the row gives what its places give on average.
    m, n, parts = 4, 10, one_part(10, 4, "ndcg@5", False)
    made = bets.build(parts, None, np.log(40.0), 50.0)
    draws = list(combinations("+++====--", m))
    rows, sample = tied_rows(draws, False)
    expected = made.values(rows).mean(axis=1)
    law = populations.law(m, n, False)[3:8].mean(axis=0)  # ranks 4 to 8 alike
    np.testing.assert_allclose(expected, values_of(made, m) @ law, rtol=0, atol=1e-12)
    counts = sample.counts[sample.names[0]]
    assert made.values(sample.bet_rows) @ counts == pytest.approx(expected * len(draws), abs=1e-9)


@pytest.mark.parametrize("items", ["=--------", "+==------", "====-----", "++======="])
def test_tied_negatives_that_may_be_one_item_drawn_twice_win_nothing_more(items):
    # A random order of the items has all draws of one tied item above, or none.
    m, n, name = 4, 10, "rr"
    made = bets.build(one_part(n, m, name, True), None, np.log(40.0), 50.0)
    draws = list(product(items, repeat=m))
    rows, sample = tied_rows(draws, True)
    above, tied = items.count("+"), items.count("=")
    truth = np.mean([1.0 / (1 + above + k) for k in range(tied + 1)])
    expected = made.values(rows).mean(axis=1)
    most = made.certificates[:, 0] + made.sign * made.slope * truth
    assert (expected <= most + 1e-12).all()
    counts = sample.counts[sample.names[0]]
    assert made.values(sample.bet_rows) @ counts == pytest.approx(expected * len(draws), abs=1e-9)
    # One tied draw, or none, loses nothing.
    few = ["+--+", "=---", "++=-"]
    rows, _ = tied_rows(few, True)
    function, places = values_of(made, m), [slice(2, 3), slice(0, 2), slice(2, 4)]
    plain = np.array([function[:, each].mean(axis=1) for each in places]).T
    np.testing.assert_allclose(made.values(rows), plain, rtol=0, atol=1e-12)


def outcomes(laws):
    """All sampled ranks of several users, and the probability of each."""
    for x in product(*(range(law.size) for law in laws)):
        chance = float(np.prod([law[at] for law, at in zip(laws, x, strict=True)]))
        if chance > 0:
            yield np.array(x), chance


def expectations(laws, kinds, made, truth):
    """Expected e-values for and against the truth, by interval's own sums."""
    users, found = len(laws), np.zeros(2)
    for x, chance in outcomes(laws):
        logs = np.log(made.values(bets.Rows(kinds, x))).sum(axis=1)
        mean = made.certificates[:, kinds].mean(axis=1)
        evidence = bets.Evidence.of(made.sign, made.slope, mean, logs, float(users))
        found += chance * np.exp([evidence.against(sign, truth) for sign in (1, -1)])
    return found


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", ["recall@2", "ap", "auc"])
def test_with_nothing_assumed_users_at_any_ranks_are_expected_to_win_nothing(name, replacement):
    n, m, users = 7, 2, 3
    made = bets.build(one_part(n, m, name, replacement, users), None, np.log(4.0), users)
    law, values = populations.law(m, n, replacement), metric(name).vector(n)
    most = 0.0
    for ranks in [(0, 0, 0), (1, 1, 1), (2, 2, 2), (6, 6, 6), (0, 3, 6), (1, 2, 5), (0, 0, 6)]:
        ranks = np.array(ranks)
        found = expectations(law[ranks], np.zeros(3, dtype=int), made, values[ranks].mean())
        assert (found <= 1.0 + 1e-12).all()
        most = max(most, found.max())
    assert most > 0.9  # there is one that makes the most of it


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", list(SHAPES)[1:])
@pytest.mark.parametrize("name", ["recall@2", "ndcg", "auc"])
def test_populations_that_an_assumption_allows_are_expected_to_win_nothing(name, kind):
    n, m, users, assumption = 24, 3, 3, SHAPES[kind]
    made = bets.build(one_part(n, m, name, True, users), assumption, np.log(4.0), users)
    law, values = populations.law(m, n, True), metric(name).vector(n)
    rng, most, top = np.random.default_rng(1), 0.0, head(assumption, n, m)
    functions = values_of(made, m)
    worst = [
        populations.most(law @ f - s * values, assumption, n, top)[1]
        for f, s in zip(functions, made.sign * made.slope, strict=True)
    ]
    for p in [*worst, *(populations.drawn(assumption, n, top, rng) for _ in range(4))]:
        q = np.clip(p @ law, 0.0, None)
        found = expectations([q] * users, np.zeros(users, dtype=int), made, p @ values)
        assert (found <= 1.0 + 1e-9).all()
        most = max(most, found.max())
    assert most > 0.8


@pytest.mark.parametrize("replacement", [True, False])
def test_users_with_catalogues_of_their_own_are_expected_to_win_nothing(replacement):
    m, sizes, of = 2, [7, 8, 30], metric("auc")
    kinds = np.array([[m, 1, 1, n] for n in sizes])
    parts = bets.partition(kinds, np.ones(3), of, replacement)
    made = bets.build(parts, None, np.log(4.0), 3.0)
    assert len(parts.parts) == 3
    joined = bets.Partition(
        [bets.Part(Protocol(30, m, replacement=replacement), (7, m), 6, 1, 1, 1)],
        np.zeros(3, dtype=int),
        kinds,
        parts.share,
        parts.counted,
        parts.certified,
        of,
    )
    for one in (made, bets.build(joined, None, np.log(4.0), 3.0)):
        for ranks in [(1, 1, 1), (7, 8, 30), (1, 8, 11), (3, 2, 1)]:
            laws = [
                populations.law(m, n, replacement)[r - 1] for n, r in zip(sizes, ranks, strict=True)
            ]
            truth = np.mean([of(r, n_items=n) for r, n in zip(ranks, sizes, strict=True)])
            assert (expectations(laws, np.arange(3), one, truth) <= 1.0 + 1e-12).all()


def of_log(frame, of, assumption=None, **protocol):
    """What the package makes of a log: its sample, and bets as `estimate` has them."""
    log = read_log(frame, **protocol)
    sample = Sample(log)
    parts = sample.partition(metric(of), assumption)
    users = max(sample.users.values())
    return sample, bets.build(parts, assumption, np.log(4.0), users)


@pytest.mark.parametrize("name", ["recall@2", "ndcg@3", "ap", "rr"])
def test_users_with_several_relevant_items_are_expected_to_win_nothing(name):
    # The items of a user are compared with the same negatives.
    n, m, of = 7, 2, metric(name)
    sets, made, most = [(1, 4), (2, 7)], None, 0.0
    for truth_of in (sets, [(1, 2), (1, 2)], [(2, 3), (6, 7)]):
        drawn = []
        for ranks in truth_of:
            pool = [r for r in range(1, n + 1) if r not in ranks]
            every = list(product(pool, repeat=m))
            drawn.append([[sum(d < r for d in each) for r in ranks] for each in every])
        truth = np.mean([of.of_set(list(ranks), n_items=n) for ranks in truth_of])
        expected, sums = np.zeros(2), {}
        for outcome in product(*drawn):
            key = tuple(tuple(each) for each in outcome)
            sums[key] = sums.get(key, 0.0) + 1.0 / np.prod([len(d) for d in drawn])
        for key, chance in sums.items():
            rows = [
                {"user": user, "item": j, "n_better": x, "n_tied": 0}
                for user, each in enumerate(key)
                for j, x in enumerate(each)
            ]
            sample, made = of_log(pd.DataFrame(rows), name, n_items=n, n_negatives=m,
                                  replacement=True)  # fmt: skip
            evidence = sample.evidence(made, made.values(sample.bet_rows), sample.names[0])
            expected += chance * np.exp([evidence.against(sign, truth) for sign in (1, -1)])
        assert (expected <= 1.0 + 1e-9).all()
        most = max(most, expected.max())
    assert most > 0.5


@pytest.mark.parametrize("name", ["recall@2", "ap"])
def test_counts_of_several_relevant_items_are_expected_to_win_nothing(name, monkeypatch):
    # As `interval` has them, which does not know which rows are of one user.
    n, m, of, ranks = 7, 2, metric(name), (1, 4)
    pool = [r for r in range(1, n + 1) if r not in ranks]
    each = [[sum(d < r for d in negatives) for r in ranks] for negatives in product(pool, repeat=m)]
    truth, expected = of.of_set(list(ranks), n_items=n), np.zeros(2)
    won, found = [], {}
    monkeypatch.setattr(
        identification, "unrefuted", lambda evidence, *_: (won.append(evidence), (0.0, 1.0))[1]
    )
    for users in product(each, repeat=2):
        counts = np.zeros((2, m + 1))
        for above in users:
            counts[[0, 1], above] += 1
        if counts.tobytes() not in found:
            identification.interval(counts, Protocol(n, m, n_relevant=2), name)
            found[counts.tobytes()] = won[-1]
        one = found[counts.tobytes()]
        expected += np.exp([one.against(sign, truth) for sign in (1, -1)]) / len(each) ** 2
    assert len(won) < 100
    assert (expected <= 1.0 + 1e-9).all()
    assert expected.max() > 1e-3


#: How the sampled ranks of two recommenders may depend on each other.
TOGETHER = ("alone", "alike", "opposite")


def coupled(first, second, how):
    """Joint probabilities of two sampled ranks: of one uniform number, or of two."""
    if how == "alone":
        return np.outer(first, second)
    if how == "opposite":
        return coupled(first, second[::-1], "alike")[:, ::-1]
    one, two = (np.append(0.0, np.cumsum(each)) for each in (first, second))
    least = np.maximum.outer(one[:-1], two[:-1])
    return np.clip(np.minimum.outer(one[1:], two[1:]) - least, 0.0, None)


@pytest.mark.parametrize("how", TOGETHER)
@pytest.mark.parametrize(("kind", "name"), [("nothing", "recall@2"), ("decreasing", "ndcg@3")])
def test_pairs_are_expected_to_win_nothing_however_they_depend(kind, name, how):
    n, m, users, assumption = 12, 2, 2, SHAPES[kind]
    law, values, top = populations.law(m, n, True), metric(name).vector(n), head(assumption, n, m)
    rng, cached = np.random.default_rng(2), {}
    for case in range(3):
        if assumption is None:  # users at fixed ranks
            ranks = [([0, 0], [1, 11]), ([2, 2], [0, 5]), ([11, 3], [0, 0])][case]
            a, b = (np.eye(n)[r] for r in ranks)
        else:
            a, b = (np.tile(populations.drawn(assumption, n, top, rng), (users, 1)) for _ in "AB")
        joint = [coupled(p @ law, q @ law, how) for p, q in zip(a, b, strict=True)]
        truth = float((a.mean(axis=0) - b.mean(axis=0)) @ values)
        expected = np.zeros(2)
        cells = [np.argwhere(each > 1e-15) for each in joint]
        for at in product(*cells):
            chance = np.prod([each[tuple(x)] for each, x in zip(joint, at, strict=True)])
            key = tuple(sorted(map(tuple, at)))
            if key not in cached:
                frame = pd.DataFrame(
                    {"recommender": ["A", "A", "B", "B"], "user": [1, 2, 1, 2],
                     "rank": [1 + at[0][0], 1 + at[1][0], 1 + at[0][1], 1 + at[1][1]]}
                )  # fmt: skip
                log = read_log(frame, n_items=n, n_negatives=m, replacement=True)
                judge = judging.Judge(Sample(log), metric(name), [("A", "B")], 0.5)
                won = judge.evidence(assumption, [("A", "B")], 1.0)
                cached[key] = won["A", "B"], won["B", "A"]
            one, two = cached[key]
            expected += chance * np.exp([one.against(1, truth), two.against(1, -truth)])
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


def test_what_all_ranges_of_pairs_need_together():
    judge, pairs = three_recommenders()
    found, _ = judge.under(None, pairs, 0.25)
    won = judge.evidence(None, pairs, 1.0)
    inside = 0
    for pair, one in found.items():
        for way, end in ((pair, one.low), (pair[::-1], -one.high)):
            if abs(end) < 1:
                # Six sides share the error, and these bets have a quarter of what is staked.
                e = np.exp(won[way].against(1, end))
                assert 0.25 * e == pytest.approx(2 * 3 / ERROR, rel=1e-6)
                inside += 1
    assert inside >= 2


def test_bets_under_several_assumptions_are_added_up():
    judge, pairs = three_recommenders(300)
    ways = judging.bet_weights(Assumption())
    assert list(ways)[:2] == [None, Assumption()]
    assert {assumption.steepness for assumption in list(ways)[2:]} == set(judging.STEEPNESS)
    # One of the falls is the gentlest that is true: its bets count beside those of the first two.
    assert all(ways[None] + ways[Assumption()] + ways[k] <= 1.0 + 1e-12 for k in list(ways)[2:])
    gentle = list(ways)[2]
    stages = [None, Assumption(), gentle]
    won = [judge.evidence(assumption, pairs, 1.0) for assumption in stages]
    for upto, assumption in enumerate(stages):
        judged, _ = judge.under(assumption, pairs, ways[assumption], keep=upto < 2)
        for pair, one in judged.items():
            for way, end in ((pair, one.low), (pair[::-1], -one.high)):
                if abs(end) < 1:
                    staked = zip(stages[: upto + 1], won, strict=False)
                    logs = [np.log(ways[s]) + w[way].against(1, end) for s, w in staked]
                    total = np.logaddexp.reduce(logs)
                    assert total == pytest.approx(np.log(2 * 3 / ERROR), abs=1e-6)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_an_end_is_where_bets_have_won_what_each_of_two_sides_needs(confidence):
    evidence = bets.Evidence(
        np.array([1, 1, -1]), np.array([0.4, 1.5, 0.7]), np.array([0.96, 0.9, 1.3]),
        np.array([8.0, 14.0, 3.0]), np.full(3, 60.0), np.arange(3),
        np.log([0.75, 0.25, 0.5]),
    )  # fmt: skip
    low, high = identification.unrefuted(evidence, confidence, (0.0, 1.0), None)
    for sign, end in ((1, low), (-1, high)):
        of = evidence.sign == sign
        price = evidence.mean[of] + sign * evidence.slope[of] * end
        wealth = np.exp(evidence.log_weight[of]) @ (np.exp(evidence.logs[of]) / price**60)
        assert 0 < end < 1
        assert wealth == pytest.approx(2.0 / (0.98 * (1.0 - confidence)), rel=1e-6)
        # A bet on the other side of the end has won more, and one inside less.
        for further, more in ((end - sign * 0.01, True), (end + sign * 0.01, False)):
            assert (evidence.against(sign, further) > np.log(wealth)) == more


class Split:
    """Stands for a random generator: users of each row that are in the first half."""

    def __init__(self, first):
        self.first = first

    def random(self, size):
        return np.full(size, 0.5)

    def binomial(self, whole, share):
        assert share == 0.5
        assert (np.asarray(self.first) <= whole).all()
        return np.array(self.first)


@pytest.mark.parametrize("kind", ["nothing", "decreasing", "steep", "geometric"])
def test_what_refutes_an_assumption_is_expected_to_win_nothing(kind, monkeypatch):
    n, m, users, assumption = 15, 2, 3, SHAPES[kind]
    parts, rows = one_part(n, m, "rr", True, users), bets.Rows(np.zeros(3, int), np.arange(3))
    law, top, rng = populations.law(m, n, True), head(assumption, n, m), np.random.default_rng(3)
    known = {}

    def refuted(counts):
        """Expected e-value over all ways to split the users."""
        if counts not in known:
            total = 0.0
            for first in product(*(range(c + 1) for c in counts)):
                ways = np.prod([len(list(combinations(range(c), f)))
                                for c, f in zip(counts, first, strict=True)])  # fmt: skip
                monkeypatch.setattr(np.random, "default_rng", lambda *_, f=first: Split(f))
                (log,) = bets.refutations(parts, assumption, rows, [np.array(counts, dtype=float)])
                total += ways * np.exp(log) / 2.0 ** sum(counts)
            known[counts] = total
        return known[counts]

    tried = [np.tile(populations.drawn(assumption, n, top, rng), (users, 1)) for _ in range(4)]
    if assumption is None:
        tried += [np.eye(n)[list(ranks)] for ranks in ((0, 0, 0), (7, 7, 7), (0, 7, 14), (3, 3, 9))]
    for each in tried:
        expected = 0.0
        for x, chance in outcomes(np.clip(each @ law, 0.0, None)):
            expected += chance * refuted(tuple(np.bincount(x, minlength=m + 1).tolist()))
        assert expected <= 1.0 + 1e-9


def test_samples_that_contradict_are_refuted_and_others_are_not():
    m, n = 20, 1_000
    parts, rows = one_part(n, m, "rr", True), bets.Rows(np.zeros(m + 1, int), np.arange(m + 1))
    law, users = populations.law(m, n, True), 2_000
    ranks = np.arange(1, n + 1)
    falling = 1.0 / (ranks + 20.0)
    middle, one = np.where((ranks > 200) & (ranks < 300), 1.0, 0.0), np.zeros(m + 1)
    one[10] = users  # the number above spreads: so nobody can be alone there
    rounded = [np.round(users * p @ law / p.sum()) for p in (falling, middle)]
    sample = [*rounded, one]
    free = bets.refutations(parts, None, rows, sample)
    shaped = bets.refutations(parts, Assumption(), rows, sample)
    steep = bets.refutations(parts, Assumption(steepness=1.05), rows, sample)
    assert max(free[:2]) < np.log(20.0)
    assert free[2] > 100
    assert shaped[0] < np.log(20.0)
    assert min(shaped[1:]) > 100
    assert min(steep) > np.log(1e3)  # it falls by more than 5% from one doubling to the next
    # Half of the users is enough to learn from: few more users are needed than for a known one.
    few = np.round(sample[1] / 8)
    assert bets.refutations(parts, Assumption(), rows, [few])[0] > np.log(1e3)


def test_nothing_is_refuted_where_the_metric_is_the_same_for_all_ranks():
    parts = one_part(9, 4, "recall@10", True)
    assert parts.parts == []
    rows = bets.Rows(np.zeros(5, int), np.arange(5))
    assert bets.refutations(parts, None, rows, [np.ones(5), np.ones(5)]) == [0.0, 0.0]


def test_parts_hold_what_is_alike():
    kinds = np.array([[9, 1, 1, 100], [9, 1, 1, 105], [9, 1, 1, 300], [10, 1, 1, 300],
                      [9, 2, 1, 300], [9, 2, 2, 300], [4, 1, 1, 300], [9, 1, 1, 310]])  # fmt: skip
    weights = np.full(8, 10.0)
    found = bets.partition(kinds, weights, metric("ap"), True)
    groups = [np.flatnonzero(found.part == g).tolist() for g in range(len(found.parts))]
    assert sorted(groups) == [[0, 1], [2, 4, 5, 7], [3], [6]]
    for part, group in zip(found.parts, groups, strict=True):
        of = kinds[group]
        assert part.m == of[:, 0].min()
        assert part.pool == (of[:, 3] - of[:, 1]).max()
        assert part.fewest == (of[:, 3] - of[:, 1]).min()
        items, negatives = part.shallowest
        assert items / negatives == (of[:, 3] / of[:, 0]).min()
    # Each user has the same share, and each item that counts an equal part of the user's sum.
    np.testing.assert_allclose(found.share, np.full(8, 1.0 / 7.0))
    np.testing.assert_allclose(found.weight, [1, 1, 1, 1, 0.5, 0.5, 1, 1])


class Order(Split):
    """Stands for a random order: users of each row in each stretch."""

    def multinomial(self, whole, shares):
        assert np.sum(shares) == pytest.approx(1.0)
        assert (np.sum(self.first, axis=1) == whole).all()
        return np.array(self.first)


def stretches(count, many):
    """All ways to share users among stretches."""
    if many == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in stretches(count - first, many - 1):
            yield (first, *rest)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["decreasing", "steep", "geometric"])
def test_bets_that_are_learnt_from_other_users_are_expected_to_win_nothing(kind, monkeypatch):
    n, m, users, assumption, of = 15, 2, 3, SHAPES[kind], metric("ndcg@5")
    parts = one_part(n, m, of.name, True, users)
    rows = bets.Rows(np.zeros(m + 1, int), np.arange(m + 1))
    law, top, rng = populations.law(m, n, True), head(assumption, n, m), np.random.default_rng(3)
    shares = np.array([0.4, 0.35, 0.25])
    monkeypatch.setattr(bets, "_PARTS", shares)
    monkeypatch.setattr(bets, "_LEARN", 0)
    known = {}

    def won(counts):
        """Bets for each way to put the users in order, and its probability."""
        if counts not in known:
            known[counts] = []
            for each in product(*(stretches(c, shares.size) for c in counts)):
                ways = [factorial(sum(s)) / prod(map(factorial, s)) for s in each]
                chance = prod(ways) * prod(shares ** np.sum(each, axis=0))
                monkeypatch.setattr(np.random, "default_rng", lambda *_, e=each: Order(e))
                one = bets.learnt(
                    parts, assumption, np.log(4.0), rows, np.array(counts, dtype=float)
                )
                # A stretch without users, which no log of so many has, has won nothing.
                mean = np.where(one.users > 0, one.mean, 1e3)
                known[counts].append((replace(one, mean=mean), chance))
        return known[counts]

    most = 0.0
    for p in [populations.drawn(assumption, n, top, rng) for _ in range(3)]:
        truth, expected = p @ of.vector(n), np.zeros(2)
        for x, chance in outcomes([np.clip(p @ law, 0.0, None)] * users):
            for one, part in won(tuple(np.bincount(x, minlength=m + 1).tolist())):
                expected += chance * part * np.exp([one.against(s, truth) for s in (1, -1)])
        assert (expected <= 1.0 + 1e-9).all()
        most = max(most, expected.max())
    assert most > 0.9
    assert sum(part for _, part in won((1, 1, 1))) == pytest.approx(1.0)


def test_bets_that_are_learnt_shorten_ranges_of_many_users(monkeypatch):
    m, n = 20, 1_000
    ranks = np.arange(1.0, n + 1)
    law = (np.exp(-ranks / 30.0) + 0.01) @ populations.law(m, n, True)
    counts = np.round(1_000_000 * law / law.sum())
    found = identification.interval(counts, Protocol(n, m), "recall@10", assumption=Assumption())
    monkeypatch.setattr(bets, "_LEARN", np.inf)
    guessed = identification.interval(counts, Protocol(n, m), "recall@10", assumption=Assumption())
    assert found.high - found.low < 0.98 * (guessed.high - guessed.low)

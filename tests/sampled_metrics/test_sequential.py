"""Races: exact values from few scores, verdicts that are right at any time, and runs that go on."""

import importlib
from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import binom

import sampled_metrics as sm
from sampled_metrics import planning
from sampled_metrics.planning.races import expected_scores
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.sequential import RacingPair, _decide, race


def by_table(scores):
    """A recommender whose scores are a table."""
    return lambda users, items: scores[np.ix_(users, items)]


class Counted:
    """A recommender that keeps count of its scores, and can fail at one of its calls."""

    def __init__(self, scores, fails_at=None):
        self.table, self.fails_at = scores, fails_at
        self.scores, self.calls, self.users = 0, 0, set()

    def __call__(self, users, items):
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("the machine was switched off")
        self.scores += users.size * items.size
        self.users.update(users.tolist())
        return self.table[np.ix_(users, items)]


def recommender(held, strength, seed, n_items=300):
    """Scores of normal noise, to which the user's item adds a strength."""
    scores = np.random.default_rng(seed).normal(size=(held.size, n_items))
    scores[np.arange(held.size), held] += strength
    return scores


def problem(n_users=600, n_items=300, strengths=(2.5, 1.0)):
    held = np.random.default_rng(7).integers(n_items, size=n_users)
    test = pd.DataFrame({"user": np.arange(n_users), "item": held})
    return test, [
        recommender(held, strength, seed, n_items) for seed, strength in enumerate(strengths)
    ]


# The metric of each user, from its definition


def defined(kind, k, ranks, n_candidates):
    """A metric by the ranks of the relevant items."""
    ranks, n_relevant = sorted(ranks), len(ranks)
    k = n_candidates if k is None else k
    inside = [(j, rank) for j, rank in enumerate(ranks, 1) if rank <= k]
    if kind == "ndcg":
        ideal = sum(1 / np.log2(1 + rank) for rank in range(1, min(n_relevant, k) + 1))
        return sum(1 / np.log2(1 + rank) for _, rank in inside) / ideal
    if kind == "ap":
        return sum(j / rank for j, rank in inside) / min(n_relevant, k)
    if kind == "auc":
        below = [n_candidates - rank - (n_relevant - j) for j, rank in inside]
        return sum(below) / (n_relevant * (n_candidates - n_relevant))
    if kind == "rr":
        return 1 / ranks[0] if ranks[0] <= k else 0.0
    if kind == "hit":
        return float(ranks[0] <= k)
    return len(inside) / {"recall": n_relevant, "precision": k}[kind]


def enumerated(kind, k, scores, relevant, candidates):
    """The mean over all orders of tied candidates: each group's relevant places, in every way."""
    places = []
    for score in set(scores[relevant].tolist()):
        above = int((scores[candidates] > score).sum())
        tied = int((scores[candidates] == score).sum())
        n_relevant = int((scores[relevant] == score).sum())
        places.append(list(combinations(range(above + 1, above + tied + 1), n_relevant)))
    values = [defined(kind, k, sum(ranks, ()), candidates.size) for ranks in product(*places)]
    return float(np.mean(values))


@pytest.mark.some(6)
@pytest.mark.parametrize("n_relevant", [1, 3])
@pytest.mark.parametrize(
    "name",
    ["ndcg@3", "ndcg", "recall@4", "precision@3", "ap", "ap@5", "rr", "rr@3", "hit@2", "auc"],
)
def test_the_value_of_each_user_is_exact(name, n_relevant):
    rng = np.random.default_rng(3)
    kind, _, k = name.partition("@")
    n_items = 60
    for user in range(6):
        scores = rng.integers(0, 35, size=(1, n_items)).astype(float)
        other_scores = rng.normal(size=(1, n_items))
        order = rng.permutation(n_items)
        relevant = order[:n_relevant]
        # The last user has fewer other items than the cut-off.
        train = order[n_relevant : n_relevant + 12] if user < 5 else order[n_relevant + 1 :]
        candidates = np.setdiff1d(np.arange(n_items), train)
        test = pd.DataFrame({"user": 0, "item": relevant})
        seen = pd.DataFrame({"user": 0, "item": train})
        models = {"A": by_table(scores), "B": by_table(other_scores)}
        raced = race(models, 1, n_items, test, seen, metric=name, seed=user)
        values = [
            enumerated(kind, int(k) if k else None, table[0], relevant, candidates)
            for table in (scores, other_scores)
        ]
        assert raced.costs[name].to_numpy() == pytest.approx(values, abs=1e-12)
        assert raced.frame["difference"][0] == pytest.approx(values[0] - values[1], abs=1e-12)


def test_users_with_different_numbers_of_items():
    rng = np.random.default_rng(5)
    tables = [rng.integers(0, 50, size=(40, 90)).astype(float) for _ in range(2)]
    relevant = [rng.permutation(90)[: rng.integers(1, 7)] for _ in range(40)]
    rows = [(user, item) for user, items in enumerate(relevant) for item in items]
    test = pd.DataFrame(rows, columns=["user", "item"]).sample(frac=1, random_state=0)
    raced = race(dict(zip("AB", map(by_table, tables), strict=True)), 40, 90, test, metric="ap@5")
    for table, mean in zip(tables, raced.costs["ap@5"], strict=True):
        values = [
            enumerated("ap", 5, table[user], items, np.arange(90))
            for user, items in enumerate(relevant)
        ]
        assert mean == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize("train", ["frame", "file", "matrix"])
def test_training_items_in_any_form(train, tmp_path):
    test, tables = problem(50, 40)
    seen = np.random.default_rng(1).random((50, 40)) < 0.3
    seen[np.arange(50), test["item"]] = False
    train_by_form = {
        "frame": pd.DataFrame(np.argwhere(seen), columns=["user", "item"]),
        "file": tmp_path / "train.npz",
        "matrix": sp.csr_matrix(seen),
    }
    sp.save_npz(train_by_form["file"], train_by_form["matrix"])
    models = dict(zip("AB", map(by_table, tables), strict=True))
    raced = race(models, 50, 40, test, train_by_form[train], metric="rr")
    for table, mean in zip(tables, raced.costs["rr"], strict=True):
        item_scores = table[np.arange(50), test["item"]][:, np.newaxis]
        assert mean == pytest.approx(np.mean(1 / (1 + ((table > item_scores) & ~seen).sum(axis=1))))


def test_infinite_scores_are_tied():
    """Recommenders give what they cannot score the lowest of all scores."""
    test = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 2]})
    unknown, normal = np.full((2, 9), -np.inf), np.random.default_rng(0).normal(size=(2, 9))
    raced = race({"A": by_table(unknown), "B": by_table(normal)}, 2, 9, test, metric="recall@3")
    assert raced.costs["recall@3"][0] == pytest.approx(3 / 9)


@pytest.mark.parametrize("kind", ["float32", "int64", "array_api_strict", "torch", "lists"])
def test_scores_of_any_type(kind):
    test, tables = problem(80)
    rounded = [np.round(10 * table) for table in tables]
    expected = race(dict(zip("AB", map(by_table, rounded), strict=True)), 80, 300, test)
    if kind in ("float32", "int64"):
        models = [by_table(table.astype(kind)) for table in rounded]
    elif kind == "lists":
        models = [
            lambda users, items, t=table: t[np.ix_(users, items)].tolist() for table in rounded
        ]
    else:
        xp = pytest.importorskip(kind)
        models = [
            lambda users, items, t=table: xp.asarray(t[np.ix_(users, items)]) for table in rounded
        ]
    raced = race(dict(zip("AB", models, strict=True)), 80, 300, test)
    pd.testing.assert_frame_equal(raced.frame, expected.frame)
    pd.testing.assert_frame_equal(raced.costs, expected.costs)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_factors_of_another_library(library):
    if library == "torch":
        pytest.importorskip("torch")
    xp = importlib.import_module(library)
    rng = np.random.default_rng(0)
    users, items = rng.integers(-9, 9, (70, 4)), rng.integers(-9, 9, (200, 4))
    test = pd.DataFrame({"user": range(70), "item": range(70)})
    models = {"A": lambda u, i: u @ i.T, "B": lambda u, i: (u + 1) @ i.T}
    floats = [xp.asarray(factors.astype(float)) for factors in (users, items)]
    raced = race(models, *floats, test, metric="ndcg")
    expected = race(models, users, items, test, metric="ndcg")
    pd.testing.assert_frame_equal(raced.costs, expected.costs)


# The bets


def orders(values):
    return np.array(list(permutations(values)))


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "differences",
    [
        (1, 1, 1, -1, -1, -1),
        (1, -0.2, -0.2, -0.2, -0.2, -0.2),
        (-1, 0.2, 0.2, 0.2, 0.2, 0.2),
        (1, 0.5, -0.1, -0.7, -0.7, 0),
        (0.3, 0.3, 0.3, -1, -0.2, -0.1),
        (1, 1, -1, -1, -1, -1),
    ],
)
def test_the_expected_wealth_never_exceeds_one(differences):
    """Over all orders of six users, of whom the first recommender is no better on average."""
    assert sum(differences) < 1e-12
    wealth, max_wealth = [], []
    for order in orders(differences):
        pair = RacingPair(0, 1, order.size)
        values = np.column_stack([order, np.zeros(order.size)])
        means = []
        for user in range(order.size - 1):
            pair.bet(values, np.array([user]))
            means.append(np.exp(pair._logs[0]).mean())
        wealth.append(means)
        max_wealth.append(np.exp(pair.won[0]))
    assert (np.mean(wealth, axis=0) <= 1 + 1e-12).all()
    for threshold in (1.2, 1.5, 2, 3, 5):  # Ville's inequality
        assert np.mean(np.array(max_wealth) >= threshold) <= 1 / threshold


@pytest.mark.parametrize("shift", [0.3, -0.3])
def test_batches_change_no_wealth(shift):
    order = np.clip(np.random.default_rng(4).normal(shift, 0.5, size=50), -1, 1)
    values = np.column_stack([order, np.zeros(order.size)])
    batched, stepwise = RacingPair(0, 1, 90), RacingPair(0, 1, 90)
    batched.bet(values, np.arange(50))
    for user in range(50):
        stepwise.bet(values, np.array([user]))
    assert batched.won == pytest.approx(stepwise.won)
    assert batched._logs == pytest.approx(stepwise._logs)
    assert batched.won.argmax() == (0 if shift > 0 else 1)


def settled(values, error_rate):
    """The signs of all pairs of columns as soon as they are decided, and after how many users."""
    n_users, n_models = values.shape
    pairs = [RacingPair(*models, n_users) for models in combinations(range(n_models), 2)]
    for start in range(0, n_users, 40):
        if any(pair.open for pair in pairs):
            for pair in pairs:
                pair.bet(values, np.arange(start, min(start + 40, n_users)))
            _decide(pairs, error_rate)
    return [pair.sign for pair in pairs], [pair.users for pair in pairs]


SIZE = 200
POPULATIONS = {
    "half and half": np.repeat([1.0, -1.0], SIZE // 2),
    "spikes": np.repeat([1.0, -10 / 190], [10, 190]),
    "one spike": np.repeat([1.0, -1 / 199], [1, 199]),
    "spikes of a worse one": np.repeat([1.0, -10.2 / 190], [10, 190]),
    "slightly worse": np.linspace(-1, 1, SIZE) - 0.002,
    "mostly level": np.repeat([1.0, -1.0, 0.0], [5, 5, 190]),
    "slightly worse, few": np.repeat([1.0, -1.0, 0.0], [9, 10, 181]),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("name", POPULATIONS)
def test_hostile_populations_have_no_more_wrong_verdicts(name, side):
    """Verdicts that the first is better than the second (or the second than the first)."""
    repetitions, error, rng = 400, 0.2, np.random.default_rng(11)
    differences = np.clip(POPULATIONS[name], -1, 1) * side
    truth = 0 if abs(differences.sum()) < 1e-9 else int(np.sign(differences.sum()))
    wrong = 0
    for _ in range(repetitions):
        values = np.column_stack([rng.permutation(differences), np.zeros(SIZE)])
        wrong += settled(values, error)[0] != [truth]
    assert wrong <= binom.ppf(0.999, repetitions, error)


def test_all_users_settle_the_order():
    """Nobody is left who could turn it around, whatever was won before."""
    values = np.column_stack([np.tile([0.6, 0.4], 50), np.full(100, 0.5)])
    assert settled(values, 1e-6) == ([0], [100])
    values[7, 0] += 1e-6
    assert settled(values, 1e-6) == ([1], [100])


def test_a_lead_that_cannot_be_lost_is_certain():
    pair = RacingPair(0, 1, 100)
    values = np.column_stack([np.ones(80), np.zeros(80)])
    pair.bet(values, np.arange(51))  # before the last of these, 50 of 100 were won
    assert np.isfinite(pair.won[0])
    pair.bet(values, np.arange(51, 80))
    assert np.isinf(pair.won[0])
    assert pair.won[1] == 0  # the other side never had more than it began with


def test_several_recommenders_share_the_error():
    """Three of four are equal on average: none of their pairs may be decided too often."""
    repetitions, error_rate, rng = 400, 0.2, np.random.default_rng(2)
    level, better = np.repeat([1.0, 0.0], [30, 170]), np.repeat([1.0, 0.0], [120, 80])
    wrong = decided = 0
    for _ in range(repetitions):
        values = np.column_stack(
            [rng.permutation(column) for column in (level, level, level, better)]
        )
        signs, users = settled(values, error_rate)
        equal, clear = (
            [signs[pair_index] for pair_index in (0, 1, 3)],
            [signs[pair_index] for pair_index in (2, 4, 5)],
        )
        wrong += any(equal) or clear != [-1, -1, -1]
        decided += max(users[pair_index] for pair_index in (2, 4, 5)) < SIZE
    assert wrong <= binom.ppf(0.999, repetitions, error_rate)
    assert decided > 0.9 * repetitions


def test_a_decided_pair_frees_the_share_of_one_side():
    """Its other side may be true: of m pairs with o open, 1 / error must be won (m + o) times."""
    error_rate = 0.05
    for wealth, expected in ((11.1 / error_rate, 1), (10.9 / error_rate, None)):
        pairs = [RacingPair(0, rival, 1000) for rival in range(1, 7)]
        pairs[0].won[1] = np.log(12.1 / error_rate)
        pairs[1].won[0] = np.log(wealth)
        _decide(pairs, error_rate)
        assert [pair.sign for pair in pairs] == [-1, expected, None, None, None, None]


# The race


def test_a_race_ranks_few_and_says_what_it_cost():
    test, tables = problem()
    models = {name: Counted(table) for name, table in zip("AB", tables, strict=True)}
    raced = race(models, 600, 300, test)
    row = raced.frame.iloc[0]
    assert row["verdict"] == "A beats B"
    assert 64 <= row["users"] < 600
    assert row["wealth"] >= 40
    assert (row["assumption"], row["warrant"]) == ("none", "theorem")
    assert raced.costs["scores"].tolist() == [models[name].scores for name in "AB"]
    assert raced.costs["share"].tolist() == [models[name].scores / 180_000 for name in "AB"]
    assert raced.costs["users"].tolist() == [row["users"]] * 2
    difference = raced.costs["ndcg@10"][0] - raced.costs["ndcg@10"][1]
    assert row["difference"] == pytest.approx(difference)
    sentence = (
        f"A beats B on NDCG@10 (95% confidence, whatever the ranks), by {row['users']} of 600"
    )
    assert raced.sentences == [sentence + " users."]
    assert "share" in raced.summary()


def test_equal_recommenders_take_all_users():
    test, tables = problem(150)
    raced = race({"A": by_table(tables[0]), "B": by_table(tables[0])}, 150, 300, test)
    assert raced.frame[["verdict", "users"]].values.tolist() == [["A and B are equal", 150]]


def test_the_order_of_all_users_is_exact():
    test, tables = problem(150, strengths=(1.0, 1.0))
    raced = race(dict(zip("AB", map(by_table, tables), strict=True)), 150, 300, test, metric="ap")
    exact = []
    for table in tables:
        item_scores = table[np.arange(150), test["item"]][:, np.newaxis]
        exact.append(np.mean(1 / (1 + (table > item_scores).sum(axis=1))))
    assert raced.frame["users"][0] == 150
    assert raced.frame["verdict"][0] == ("A beats B" if exact[0] > exact[1] else "B beats A")
    assert raced.costs["ap"].to_numpy() == pytest.approx(exact)


def test_decided_recommenders_are_left_out():
    """The worst of three is out of every open pair once it lost to both."""
    test, tables = problem(strengths=(3.0, 3.0, 0.0))
    raced = race(dict(zip("ABC", map(by_table, tables), strict=True)), 600, 300, test)
    users = raced.costs.set_index("recommender")["users"]
    assert users["C"] < users["A"] == users["B"]
    pairs = raced.frame.set_index(["first", "second"])["users"]
    assert users["C"] == max(pairs["A", "C"], pairs["B", "C"])
    assert raced.frame["verdict"].tolist()[1:] == ["A beats C", "B beats C"]


def test_no_budget_is_exceeded_and_only_whole_batches_count(tmp_path):
    """A batch that was begun would favour users who take few scores."""
    test, tables = problem(strengths=(1.5, 1.4))
    state = tmp_path / "all.npz"
    models = dict(zip("AB", map(by_table, tables), strict=True))
    unlimited = race(models, 600, 300, test, metric="ndcg@3", state=state)
    with np.load(state) as saved:
        values = saved["values"]
    users_by_budget = []
    for budget in (1, 500, 20_000, 40_000, 70_000, int(unlimited.costs["scores"].sum())):
        counted = {name: Counted(table) for name, table in zip("AB", tables, strict=True)}
        raced = race(counted, 600, 300, test, metric="ndcg@3", budget=budget)
        assert sum(counter.scores for counter in counted.values()) <= budget
        assert raced.costs["scores"].sum() == sum(counter.scores for counter in counted.values())
        users = int(raced.frame["users"][0])
        users_by_budget.append(users)
        if users:
            means = values[:users].mean(axis=0)
            assert raced.costs["ndcg@3"].to_numpy() == pytest.approx(means)
        if users < unlimited.frame["users"][0]:
            assert raced.frame["verdict"][0] == "undecided"
            assert "A or B: undecided" in raced.sentences[0]
    assert users_by_budget[0] == 0
    assert users_by_budget[-1] == unlimited.frame["users"][0]
    assert len(set(users_by_budget)) > 3


@pytest.mark.parametrize("fails_at", [1, 40, 75])
def test_a_killed_race_goes_on(fails_at, tmp_path):
    test, tables = problem(strengths=(1.5, 1.4, 1.5))
    state = tmp_path / "race.npz"
    expected = race(dict(zip("ABC", map(by_table, tables), strict=True)), 600, 300, test)
    killed = {name: by_table(table) for name, table in zip("ABC", tables, strict=True)}
    killed["B"] = Counted(tables[1], fails_at)
    with pytest.raises(RuntimeError, match="switched off"):
        race(killed, 600, 300, test, state=state)
    n_done = 0
    if state.exists():
        with np.load(state) as saved:
            n_done = len(saved["values"])
    counted = {name: Counted(table) for name, table in zip("ABC", tables, strict=True)}
    resumed = race(counted, 600, 300, test, state=state)
    pd.testing.assert_frame_equal(resumed.frame, expected.frame)
    pd.testing.assert_frame_equal(resumed.costs, expected.costs)
    assert len(counted["A"].users) == resumed.costs["users"][0] - n_done
    rerun = {name: Counted(table) for name, table in zip("ABC", tables, strict=True)}
    pd.testing.assert_frame_equal(race(rerun, 600, 300, test, state=state).frame, expected.frame)
    assert not sum(counter.scores for counter in rerun.values())


def test_a_race_goes_on_with_a_larger_budget(tmp_path):
    test, tables = problem()
    models, state = dict(zip("AB", map(by_table, tables), strict=True)), tmp_path / "race.npz"
    short = race(models, 600, 300, test, budget=20_000, state=state)
    assert short.frame["verdict"][0] == "undecided"
    resumed = race(models, 600, 300, test, state=state)
    pd.testing.assert_frame_equal(resumed.frame, race(models, 600, 300, test).frame)


def test_a_state_of_another_race_is_refused(tmp_path):
    test, tables = problem(100)
    models, state = dict(zip("AB", map(by_table, tables), strict=True)), tmp_path / "race.npz"
    train = pd.DataFrame(
        {"user": [0, 1], "item": [(test["item"][user] + 1) % 300 for user in (0, 1)]}
    )
    race(models, 100, 300, test, train, state=state)
    changes = [
        {"seed": 1},
        {"metric": "ap"},
        {"confidence": 0.9},
        {"test": test[:99]},
        {"test": test.assign(item=(test["item"] + 7) % 300)},
        {"train": train[:1]},
        {"score": {"A": models["A"], "C": models["B"]}},
        {"items": 299, "test": test.assign(item=test["item"].clip(upper=298))},
    ]
    usual = {"score": models, "users": 100, "items": 300, "test": test, "train": train}
    for change in changes:
        with pytest.raises(ValueError, match="is the state of another race: name another file"):
            race(**(usual | change), state=state)
    race(**usual, state=state)


@pytest.mark.parametrize("content", [b"", b"not a state", None])
def test_a_damaged_state_is_refused(content, tmp_path):
    test, tables = problem(100)
    models, state = dict(zip("AB", map(by_table, tables), strict=True)), tmp_path / "race.npz"
    race(models, 100, 300, test, state=state)
    saved = state.read_bytes()
    state.write_bytes(saved[: len(saved) // 2] if content is None else content)
    with pytest.raises(ValueError, match=r"race.npz must be the state of a race, and is not"):
        race(models, 100, 300, test, state=state)


TEST, TABLES = problem(30, 40)
USUAL = {
    "score": {"A": by_table(TABLES[0]), "B": by_table(TABLES[1])},
    "users": 30,
    "items": 40,
    "test": TEST,
}


def drawing():
    rng = np.random.default_rng(0)
    return lambda users, items: rng.normal(size=(users.size, items.size))


def with_second(function):
    return {"score": USUAL["score"] | {"B": function}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"score": by_table(TABLES[0])}, "score must map two names or more to functions, got func"),
        ({"score": {"A": by_table(TABLES[0])}}, "two names or more to functions, got 1"),
        ({"score": {1: print, "1": print}}, r"score must map different names, got \['1', '1'\]"),
        (with_second(5), "score must map two names or more to functions, got 2"),
        (with_second(lambda u, i: np.ones((i.size, u.size))), r"shape \(4, 1\)"),
        (with_second(lambda u, i: np.ones(u.size)), "B: scores must be a matrix of numbers"),
        (with_second(lambda u, i: None), "B: scores must be real numbers, got dtype object"),
        (with_second(lambda u, i: np.full((u.size, i.size), "x")), "B: scores must be real numb"),
        (with_second(lambda u, i: [[1.0]] + [[1.0, 2.0]] * 3), "B: scores must be real numbers"),
        (
            with_second(lambda u, i: np.where(u[:, np.newaxis] == 7, np.nan, 1.0) + 0.0 * i),
            "B: scores must not be NaN, got one in row 7",
        ),
        (with_second(drawing()), "B must give the same scores at each call"),
        ({"confidence": 1}, r"confidence must be a number in \(0, 1\), got 1"),
        ({"confidence": "0.9"}, r"confidence must be a number in \(0, 1\), got '0.9'"),
        ({"budget": 0}, "budget must be a whole number >= 1, got 0"),
        ({"seed": -1}, "seed >= 0"),
        ({"metric": "ndgc@10"}, "did you mean 'ndcg'"),
        ({"state": 5}, "state must be the path of a file, got 5"),
        ({"items": None}, "items must be given"),
        ({"users": 20}, "user must be < 20"),
        ({"test": TEST[:0]}, "test must hold one row or more, got none"),
        ({"test": pd.concat([TEST, TEST])}, "each item must occur only once for a user"),
        ({"train": TEST}, r"test must hold no training item, got item \d+ of user 0"),
        ({"train": sp.csr_array((30, 41))}, r"train must have shape \(30, 40\)"),
        (
            {"train": pd.DataFrame({"user": 3, "item": np.delete(np.arange(40), TEST["item"][3])})},
            "user 3 must have an item that is in neither test nor train, and has none",
        ),
    ],
)  # fmt: skip
def test_errors(given, said):
    with pytest.raises(ValueError, match=said) as caught:
        race(**(USUAL | given))
    assert "\n" not in str(caught.value)


# What a race is expected to take


def with_ranks(ranks, n_items, rng):
    """Scores that put item 0 of each user at a rank, and the others in random order."""
    places = rng.permuted(np.tile(np.arange(n_items - 1), (ranks.size, 1)), axis=1) + 1
    places += places >= ranks[:, np.newaxis]
    return -np.column_stack([ranks, places])


@pytest.mark.some(1)
@pytest.mark.parametrize("metric", ["ndcg@10", "rr"])
@pytest.mark.parametrize("medians", [(5, 40), (20, 45)])
def test_a_plan_foresees_races(metric, medians):
    """The medians of eleven races take at most twice as much as expected, and at least half."""
    n_users, n_items, rng = 1_000, 300, np.random.default_rng(4)
    ranks = np.arange(1, n_items + 1)
    pmfs = [np.exp(-np.abs(np.log(ranks / median))) / ranks for median in medians]
    pmfs = [pmf / pmf.sum() for pmf in pmfs]
    populations = [dict(zip(ranks.tolist(), pmf.tolist(), strict=True)) for pmf in pmfs]
    protocol = sm.Protocol(n_items, 50)
    planned = planning.plan_pair(
        *populations, metric, protocol, n_users, estimators="naive", sequential=True
    )
    assert planned.frame["estimator"].tolist() == ["naive", "race", "exact"]
    foreseen = planned.frame.set_index("estimator").loc["race"]
    test, outcomes = pd.DataFrame({"user": range(n_users), "item": 0}), []
    for seed in range(11):
        drawn = [rng.choice(ranks, size=n_users, p=pmf) for pmf in pmfs]
        models = [by_table(with_ranks(user_ranks, n_items, rng)) for user_ranks in drawn]
        raced = race(dict(zip("AB", models, strict=True)), n_users, n_items, test, metric=metric,
                     seed=seed)  # fmt: skip
        outcomes.append((raced.frame["users"][0], raced.costs["scores"].mean()))
    users, scores = np.median(outcomes, axis=0)
    assert 0.5 < foreseen["users_needed"] / users < 2
    assert 0.5 < foreseen["scores_by_users"] / scores < 2
    share = foreseen["scores_by_users"] / (n_users * n_items)
    assert f"about {foreseen['users_needed']:.0f} of 1,000 users" in planned.sentences[0]
    assert f"{100 * share:.2g}% of the scores that ranking all items" in planned.sentences[0]
    assert "race: decides the order" in planned.summary().replace("\n", " ")


def test_scores_are_foreseen_exactly_for_random_order():
    """The expected scores of one user at each rank, against races of many such users."""
    n_users, n_items, rng = 400, 200, np.random.default_rng(0)
    test = pd.DataFrame({"user": range(n_users), "item": 0})
    for rank in (1, 12, 60):
        table = with_ranks(np.full(n_users, rank), n_items, rng)
        raced = race({"A": by_table(table), "B": by_table(table)}, n_users, n_items, test)
        expected = expected_scores(sm.metric("ndcg@10"), [rank - 1], n_items)[0]
        assert raced.costs["scores"][0] / n_users == pytest.approx(expected, rel=0.05)


def test_paired_ranks_and_sets_are_followed_together():
    """The same difference of all users takes fewer of them than independent ranks do."""
    rng = np.random.default_rng(1)
    better = rng.integers(1, 100, size=2_000)
    worse = better + rng.integers(0, 3, size=2_000)
    protocol, options = sm.Protocol(500, 50), {"estimators": "naive", "sequential": True}
    arguments = "ndcg@10", protocol, 2_000
    paired = planning.plan_pair(better, worse, *arguments, **options).frame.iloc[1]
    populations = [
        dict(zip(*np.unique(ranks, return_counts=True), strict=True)) for ranks in (better, worse)
    ]
    populations = [
        {int(rank): count / 2_000 for rank, count in counts.items()} for counts in populations
    ]
    independent = planning.plan_pair(*populations, *arguments, **options).frame.iloc[1]
    intervals = [
        RankIntervals(ranks - 1, np.zeros(2_000, int), np.full(2_000, 500))
        for ranks in (better, worse)
    ]
    exact = planning.plan_pair(*intervals, *arguments, **options).frame.iloc[1]
    assert paired["users_needed"] < 0.5 * independent["users_needed"]
    assert exact["users_needed"] == paired["users_needed"]
    assert exact["scores_by_users"] == pytest.approx(paired["scores_by_users"], rel=1e-6)


def test_pairs_share_the_error_of_a_planned_race():
    populations = {"A": {1: 0.5, 100: 0.5}, "B": {1: 0.3, 100: 0.7}, "C": {1: 0.2, 100: 0.8}}
    arguments = "rr", sm.Protocol(200, 5), 2_000
    options = {"estimators": "naive", "max_negatives": 5}
    all_pairs = planning.for_all(populations, *arguments, **options, sequential=True).frame
    rows = all_pairs[all_pairs["estimator"] == "race"]
    assert rows[["first", "second"]].values.tolist() == [["A", "B"], ["A", "C"], ["B", "C"]]
    pair = populations["B"], populations["C"]
    users = {
        n: planning.plan_pair(*pair, *arguments, **options, sequential=n).frame["users_needed"][1]
        for n in (1, 3, 99)
    }
    assert rows["users_needed"].iloc[-1] == users[3]
    assert users[1] <= users[3] < users[99]


@pytest.mark.parametrize("bad", [0, -2, 1.5, "yes"])
def test_errors_of_a_planned_race(bad):
    better, worse, protocol = {1: 1.0}, {5: 1.0}, sm.Protocol(50, 10)
    with pytest.raises(ValueError, match="sequential must be a whole number >= 1, got"):
        planning.plan_pair(better, worse, "rr", protocol, 100, sequential=bad)
    with pytest.raises(ValueError, match="sequential must be False for two equal averages"):
        planning.plan_pair(better, better, "rr", protocol, 100, sequential=True)


def test_it_is_a_function_of_the_package():
    assert sm.race is race

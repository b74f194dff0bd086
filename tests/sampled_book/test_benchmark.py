"""The benchmark's recommenders against their definitions on small data, and what is bundled."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from sampled_book.data import benchmark
from sampled_book.data.benchmark import DATA, RECOMMENDERS, Entry
from sampled_book.data.sequences import Sequences, read_sequences
from sampled_metrics.ranking.intervals import RankIntervals

USERS = [[4, 2, 7, 1], [2, 7, 9, 4, 1], [7, 2, 1], [9, 4, 2, 1], [1, 9, 7]]


def small(seed=3, users=40, items=15):
    rng = np.random.default_rng(seed)
    return Sequences.from_users(
        [rng.permutation(items)[: rng.integers(3, 9)] for _ in range(users)]
    )


def test_a_repeated_item_counts_once_and_short_users_are_left_out():
    data = Sequences.from_users([[5, 5, 6, 5, 8], [1, 1, 2], [8, 6, 5]])
    assert data.items.tolist() == [0, 1, 2, 2, 1, 0]
    assert data.starts.tolist() == [0, 3, 6]
    with pytest.raises(ValueError, match="three items"):
        Sequences.from_users([[1, 2], [3, 3, 4]])


def test_last_items_are_cut_off_and_the_first_of_them_is_held_out():
    data = Sequences.from_users(USERS)
    numbers = {item: i for i, item in enumerate(sorted({i for user in USERS for i in user}))}
    for n in (1, 2):
        shorter, held_out = data.without_last(n)
        assert held_out.tolist() == [numbers[user[-n]] for user in USERS]
        rows = [shorter.items[a:b].tolist() for a, b in zip(*_ends(shorter), strict=True)]
        assert rows == [[numbers[item] for item in user[:-n]] for user in USERS]


def _ends(data):
    return data.starts[:-1], data.starts[1:]


def test_items_can_be_chosen_and_older_ones_weigh_less():
    data = Sequences.from_users(USERS)  # items 1, 2, 4, 7, 9
    part = data.among(np.array([1, 3]))
    assert part.items.tolist() == [0, 1, 0, 1, 1, 0, 0, 1]
    assert np.diff(part.starts).tolist() == [2, 2, 2, 1, 1]
    assert data.aged(0.5).toarray()[1].tolist() == [1.0, 0.0625, 0.5, 0.125, 0.25]
    assert (data.matrix.toarray() > 0).sum() == data.items.size


def brute_force(name, data, settings):
    """Scores of all users for all items from the definition, in loops."""
    histories = [data.items[a:b].tolist() for a, b in zip(*_ends(data), strict=True)]
    items = range(data.n_items)
    count = Counter(item for history in histories for item in history)
    if name == "Popular":
        return [[count[i] for i in items] for _ in histories]
    if name == "Markov chain":
        steps = Counter(step for h in histories for step in pairwise(h))
        share = settings["smoothing"] / sum(count.values())
        return [[steps[h[-1], i] + share * count[i] for i in items] for h in histories]
    assert name == "RP3beta"
    alpha, beta = settings["alpha"], settings["beta"]

    def walk(j, i):
        through = sum((1 / len(h)) ** alpha for h in histories if i in h and j in h)
        return (1 / count[j]) ** alpha * through / count[i] ** beta if count[i] else 0.0

    return [[sum(walk(j, i) for j in h) for i in items] for h in histories]


@pytest.mark.parametrize("name", ["Popular", "Markov chain", "RP3beta"])
def test_scores_are_those_of_the_definition(name):
    data, entry = small(), RECOMMENDERS[name]
    for settings in benchmark.settings_of(entry.grid):
        scores = entry.learn(data, **settings)(np.arange(data.n_users))
        assert np.allclose(scores, brute_force(name, data, settings), rtol=1e-12)


def test_pure_svd_of_full_rank_gives_the_matrix_back():
    data = small(items=6)
    users = np.arange(data.n_users)
    full = RECOMMENDERS["PureSVD"].learn(data, factors=100)(users)  # one less than full
    values = np.linalg.svd(data.matrix.toarray(), compute_uv=False)
    error = np.linalg.norm(full - data.matrix.toarray())
    assert math.isclose(error, values[-1], rel_tol=1e-9)


def test_ranks_are_those_of_the_test_items_among_items_that_are_not_the_users_own():
    data = small()
    learnt, held_out = data.without_last(1)
    intervals, *_ = benchmark.compute(RECOMMENDERS["Popular"], data)
    counts = np.bincount(learnt.items, minlength=data.n_items)
    for row, user in enumerate(np.random.default_rng(benchmark.SEED).permutation(data.n_users)):
        seen = set(learnt.items[learnt.starts[user] : learnt.starts[user + 1]])
        rival_counts = [
            counts[i] for i in range(data.n_items) if i not in seen and i != held_out[user]
        ]
        held_out_count = counts[held_out[user]]
        assert intervals.n_better[row] == sum(count > held_out_count for count in rival_counts)
        assert intervals.n_tied[row] == sum(count == held_out_count for count in rival_counts)
        assert intervals.n_candidates[row] == len(rival_counts) + 1


def test_the_setting_that_ranks_the_validation_items_best_is_taken():
    data = small()

    def known_or_not(train, good):
        _, validation = data.without_last(2)
        if train.items.size == data.items.size - data.n_users:  # the validation items are in it
            return lambda users: np.zeros((users.size, data.n_items))
        hot = np.eye(data.n_items)[validation]
        return lambda users: hot[users] * (good - 1)

    entry = Entry(known_or_not, {"good": (0.0, 2.0, 1.0)})
    _, facts, _ = benchmark.compute(entry, data)
    assert facts["settings"] == {"good": 2.0}
    assert facts["validation ndcg@10"]["good 2"] == 1.0


def test_items_may_be_words_and_users_of_three_have_a_test_item(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("ann tea milk 7\n\nbob 7 tea\ncy milk tea 7 tea jam\n", encoding="utf-8")
    data = read_sequences(path)
    assert (data.n_users, data.n_items) == (2, 4)  # bob has two items
    held_out = data.without_last(1)[1]
    names = sorted(["tea", "milk", "7", "jam"])
    assert [names[item] for item in held_out] == ["7", "jam"]
    path.write_text("1 30 4 500\n2 4 30 7\n")
    assert read_sequences(path).items.tolist() == [2, 0, 3, 0, 2, 1]  # numbers by size


def test_a_user_who_has_every_other_item_has_nothing_above():
    data = Sequences.from_users([[0, 1, 2], [0, 1, 2, 3]])
    learnt, held_out = data.without_last(1)
    entry = RECOMMENDERS["Popular"]
    scores = entry.learn(learnt)
    shares = benchmark.popularity_above(entry, scores, learnt, held_out, np.array([1]))
    assert shares.tolist() == [[0.0], [0.0]]


# --- what is bundled ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_bundled_ranks_are_whole(name):
    ranks, facts = benchmark.ranks(name), benchmark.facts(name)
    assert set(ranks) == set(facts["recommenders"])
    missing = set() if facts["in order"] else {"Markov chain", "Recent cosine"}
    assert set(ranks) == set(RECOMMENDERS) - missing
    for intervals in ranks.values():
        assert intervals.n_better.size == facts["users"]
        assert intervals.n_candidates.max() < facts["items"]
    users = benchmark.shares_above(name).groupby("recommender")["users"].sum()
    assert set(users.index) == set(ranks)
    assert np.allclose(users, facts["users"], rtol=1e-3)
    n_interactions = (facts["items"] - next(iter(ranks.values())).n_candidates + 1).sum()
    assert n_interactions == facts["interactions"]


def test_a_moved_rank_is_told(tmp_path):
    data = small()
    intervals, record, _ = benchmark.compute(RECOMMENDERS["Popular"], data)
    moved = RankIntervals(
        intervals.n_better + (np.arange(40) == 7), intervals.n_tied, intervals.n_candidates + 1
    )
    facts = benchmark.shape(data) | {"recommenders": {"Popular": record}}
    benchmark.write("toy", {"Popular": intervals}, facts, {}, tmp_path)
    assert benchmark.differences("toy", data, ["Popular"], tmp_path) == []
    benchmark.write("toy", {"Popular": moved}, facts, {}, tmp_path)
    assert benchmark.differences("toy", data, ["Popular"], tmp_path) == [
        "toy, Popular: ranks differ for 1 users"
    ]
    facts["users"] = 41
    benchmark.write("toy", {"Popular": intervals}, facts, {}, tmp_path)
    assert benchmark.differences("toy", data, ["Popular"], tmp_path) == [
        "toy: users must be 41, got 40"
    ]

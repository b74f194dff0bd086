"""The experiment of ekstrand2017: its split, its places, and what is bundled of it."""

from dataclasses import fields
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_book.data import _lenskit, datasets, study
from sampled_book.data.study import (
    RECOMMENDERS,
    WeighedSets,
    bundled_study,
    place,
    place_all,
    rank_effectiveness,
    software_discounts,
    split,
    statistics,
)
from tests.data import needs_data


def random_ratings(seed, n_users=12, n_items=9, density=0.6):
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < density)
    rating = rng.integers(1, 11, user.size) / 2
    return pd.DataFrame({"user": 100 + user, "item": 7 * item, "rating": rating})


# --- the split


@given(seed=st.integers(0, 10**6), n_sets=st.integers(1, 4), n_test=st.integers(1, 5))
def test_the_split_is_what_the_paper_describes(seed, n_sets, n_test):
    ratings = random_ratings(seed)
    sets = split(ratings, np.random.default_rng(seed), n_sets=n_sets, n_test=n_test)
    names = np.unique(ratings["user"])
    sizes = ratings.groupby("user").size().reindex(names).to_numpy()
    # Every user with enough ratings is in one set, the others are reported.
    assert sorted(sets.users) == np.flatnonzero(sizes >= n_test).tolist()
    assert sets.left_out.tolist() == names[sizes < n_test].tolist()
    assert np.ptp(np.bincount(sets.part, minlength=n_sets)) <= 1
    # Test items are the user's own, each once; the gains are their ratings.
    rating_by_pair = {(u, i): r for u, i, r, _ in sets.ratings.itertuples(index=False)}
    for user, items, gains in zip(sets.users, sets.test_items, sets.gains, strict=True):
        assert len(set(items)) == n_test
        assert [rating_by_pair[user, i] for i in items] == gains.tolist()
    # Training lacks the test ratings of the set, and nothing else.
    for part in range(n_sets):
        train = sets.training(part)
        inside = sets.part == part
        tests = {
            (u, i)
            for u, items in zip(sets.users[inside], sets.test_items[inside], strict=True)
            for i in items
        }
        assert set(zip(train["user"], train["item"], strict=True)) == set(rating_by_pair) - tests
        assert len(train) == len(rating_by_pair) - len(tests)


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_the_rows():
    ratings = random_ratings(1)
    sets = split(ratings, np.random.default_rng(3), n_sets=2, n_test=3)
    shuffled = ratings.sample(frac=1, random_state=0)
    same_sets = split(shuffled, np.random.default_rng(3), n_sets=2, n_test=3)
    other_sets = split(ratings, np.random.default_rng(4), n_sets=2, n_test=3)
    assert (sets.users == same_sets.users).all()
    assert (sets.test_items == same_sets.test_items).all()
    assert (sets.test_items != other_sets.test_items).any()


def test_each_rating_of_a_user_is_as_likely_to_be_a_test_rating():
    ratings = pd.DataFrame({"user": np.repeat(range(400), 8), "item": [*range(8)] * 400})
    sets = split(ratings.assign(rating=3.0), np.random.default_rng(0))
    counts = np.bincount(sets.test_items.ravel(), minlength=8)
    assert np.abs(counts - 250).max() < 4 * np.sqrt(400 * 5 / 8 * 3 / 8)


# --- where test items stand


def places_by_hand(scores, test_items, rated, popularity):
    """One comparison after another."""
    columns = {field.name: [] for field in fields(WeighedSets)}
    for row, items, is_rated in zip(scores, test_items, rated, strict=True):
        decoys = [i for i in range(len(row)) if not is_rated[i]]
        distinct_scores = sorted({row[i] for i in items}, reverse=True)
        above = [[d for d in decoys if row[d] > row[i]] for i in items]
        level = [[d for d in decoys if row[d] == row[i]] for i in items]
        columns["n_better"].append([len(a) for a in above])
        columns["n_tied"].append([len(a) for a in level])
        columns["level"].append([distinct_scores.index(row[i]) for i in items])
        columns["n_irrelevant"].append(len(decoys))
        columns["weight_better"].append([sum(popularity[d] for d in a) for a in above])
        columns["weight_tied"].append([sum(popularity[d] for d in a) for a in level])
        columns["weight_total"].append(sum(popularity[d] for d in decoys))
    return columns


@given(seed=st.integers(0, 10**6), n_scores=st.integers(1, 12))
def test_places_are_those_counted_by_hand(seed, n_scores):
    rng = np.random.default_rng(seed)
    scores = rng.integers(n_scores, size=(4, 10)).astype(float)  # few scores, so many ties
    test_items = np.array([rng.choice(9, 3, replace=False) for _ in range(4)])
    rated = rng.random((4, 10)) < 0.3
    np.put_along_axis(rated, test_items, True, axis=1)
    rated[:, 9] = False  # a decoy for everyone
    popularity = rng.integers(1, 50, size=10)
    places = place(scores, test_items, rated, popularity)
    for name, expected in places_by_hand(scores, test_items, rated, popularity).items():
        assert getattr(places, name).tolist() == expected, name


def test_items_masked_by_minus_infinity_are_not_level_with_others():
    places = place([[5, 3, -np.inf, -np.inf]], [[1]], [[0, 1, 0, 0]], [5, 2, 3, 1])
    assert (places.n_better.tolist(), places.n_tied.tolist()) == ([[1]], [[0]])


def test_scores_within_the_tolerance_are_level():
    scores = [[1.0, 1.0 + 1e-7, 1.0 - 1e-7, 1.1, -1.0, -1.0 - 1e-7]]
    rated = [[1, 0, 0, 0, 1, 0]]
    strict = place(scores, [[0, 4]], rated, np.ones(6, int))
    loose = place(scores, [[0, 4]], rated, np.ones(6, int), relative_tolerance=1e-6)
    assert (strict.n_better.tolist(), strict.n_tied.tolist()) == ([[2, 3]], [[0, 0]])
    assert (loose.n_better.tolist(), loose.n_tied.tolist()) == ([[1, 3]], [[2, 1]])


def test_levels_stay_consistent_where_a_chain_of_near_scores_runs():
    """Each is level with the next, so all are: a place between two of them does not exist."""
    scores = [[1.0, 1.0 - 0.8e-6, 1.0 - 1.6e-6, 0.5]]
    places = place(scores, [[0, 2]], [[1, 0, 1, 0]], [1, 1, 1, 1], relative_tolerance=1e-6)
    assert (places.level.tolist(), places.n_tied.tolist()) == ([[0, 0]], [[1, 1]])


def by_training_count(name, train, users, n_items, seed):
    return np.tile(np.bincount(train["item"], minlength=n_items).astype(float), (len(users), 1))


def test_recommenders_see_training_ratings_alone_and_rank_unrated_items_alone():
    ratings = random_ratings(5, n_users=30)
    sets = split(ratings, np.random.default_rng(0), n_sets=3, n_test=2)
    seen = []

    def scorer(name, train, users, n_items, seed):
        seen.append((len(train), users.tolist(), n_items))
        return by_training_count(name, train, users, n_items, seed)

    places, popularity = place_all(sets, "Popular", 0, scorer)
    sizes = np.bincount(sets.part)
    assert [s[0] for s in seen] == [len(ratings) - 2 * size for size in sizes]
    assert np.concatenate([s[1] for s in seen]).tolist() == sets.users.tolist()
    rated = ratings.groupby("user").size().to_numpy()[sets.users]
    assert places.n_irrelevant.tolist() == (sets.n_items - rated).tolist()
    for row, part in enumerate(sets.part):
        counts = np.bincount(sets.training(part)["item"], minlength=sets.n_items)
        assert popularity[row].tolist() == counts[sets.test_items[row]].tolist()
        rated_items = sets.ratings.loc[sets.ratings["user"] == sets.users[row], "item"]
        assert places.weight_total[row] == counts.sum() - counts[rated_items].sum()


# --- the test items alone


@given(seed=st.integers(0, 10**6), n_levels=st.integers(1, 4))
def test_rank_effectiveness_is_the_mean_over_orders_of_level_items(seed, n_levels):
    rng = np.random.default_rng(seed)
    gains = rng.integers(1, 6, size=(1, 4)).astype(float)
    level = np.unique(rng.integers(n_levels, size=4), return_inverse=True)[1].reshape(1, 4)
    discount = 1 / np.log2(np.arange(2, 6))
    orders = [o for o in permutations(range(4)) if (np.diff(level[0, list(o)]) >= 0).all()]
    ideal = -np.sort(-gains[0]) @ discount
    ndcg, concordant = rank_effectiveness(level, gains, discount)
    assert ndcg[0] == pytest.approx(
        np.mean([gains[0, list(o)] @ discount for o in orders]) / ideal, rel=1e-12
    )
    agree = [
        np.mean([o.index(i) < o.index(j) for o in orders]) if gains[0, i] > gains[0, j]
        else np.mean([o.index(j) < o.index(i) for o in orders])
        for i, j in combinations(range(4), 2)
        if gains[0, i] != gains[0, j]
    ]  # fmt: skip
    if agree:
        assert concordant[0] == pytest.approx(np.mean(agree), rel=1e-12)
    else:
        assert np.isnan(concordant[0])


def test_the_softwares_discounts_are_those_of_jarvelin2002():
    assert software_discounts(8)[[0, 1, 3, 7]].tolist() == [1, 1, 0.5, pytest.approx(1 / 3)]


# --- the bundle

STUDIES = {data: bundled_study(data) for data in study.BUNDLED}


def test_the_bundle_is_small_and_holds_counts_alone():
    files = [datasets.BUNDLE / name for name in ("decoys.npz", "decoys.json")]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    with np.load(files[0]) as bundle:
        assert all(bundle[name].dtype.kind == "u" for name in bundle.files)  # ratings may be halves


@pytest.mark.parametrize("data", STUDIES)
def test_the_bundle_agrees_with_itself(data):
    bundled = STUDIES[data]
    assert bundled.recommenders == RECOMMENDERS
    assert np.bincount(bundled.part).size == 5
    assert np.ptp(np.bincount(bundled.part)) <= 1
    assert bundled.item_counts.sum() == bundled.facts["ratings"]
    assert bundled.item_counts.size == bundled.facts["items"]
    assert (np.diff(bundled.item_counts) <= 0).all()
    # Each unrated pair of a user and an item: all of them less those that are rated.
    assert (
        bundled.n_irrelevant.sum()
        == bundled.n_users * bundled.facts["items"] - bundled.facts["ratings"]
    )
    for name, values in bundled.facts["spread"].items():
        recomputed = statistics(bundled.sets[name])
        assert {kind: seeds[0] for kind, seeds in values.items()} == pytest.approx(recomputed)
        assert {len(seeds) for seeds in values.values()} == {5 if name in _lenskit.SEEDED else 1}


@pytest.mark.parametrize("data", STUDIES)
def test_popular_ranks_by_training_ratings(data):
    """What stands above a test item under Popular has more ratings than it; ties have as many."""
    bundled, places = STUDIES[data], STUDIES[data].sets["Popular"]
    assert (places.weight_better >= places.n_better * (bundled.popularity + 1)).all()
    assert (places.weight_tied == places.n_tied * bundled.popularity).all()
    order = np.argsort(-bundled.popularity, axis=1, kind="stable")
    levels = np.take_along_axis(places.level, order, axis=1)
    assert (np.diff(levels, axis=1) >= 0).all()


def ratings_of(data):
    if data == "ml-100k":
        return datasets.movielens("100k")
    return datasets.first_ratings().query(f"user <= {datasets.TIMED_USERS}")


def twin(recommender, train, n_items):
    """Popular and PersMean without LensKit: one score for an item, the same for every user."""
    counts = np.bincount(train["item"], minlength=n_items)
    if recommender == "Popular":
        return counts.astype(float)
    sums = np.bincount(train["item"], train["rating"], minlength=n_items)
    overall = train["rating"].sum() / len(train)
    return np.where(counts > 0, sums / np.maximum(counts, 1), overall)


@pytest.mark.matrix
@needs_data
@pytest.mark.parametrize(
    ("data", "recommender"),
    [("ml-100k", "Popular"), ("ml-100k", "PersMean"), ("ml-1m-2998", "PersMean")],
)
def test_popular_and_persmean_come_out_as_bundled(data, recommender):
    bundled = STUDIES[data]
    sets = split(ratings_of(data), np.random.default_rng(study.SPLIT_SEED))
    assert (sets.part == bundled.part).all()
    assert len(sets.ratings) == bundled.facts["ratings"]
    rated = sets.ratings.groupby("user")["item"].apply(np.asarray)
    places = bundled.sets[recommender]
    for part in range(5):
        train = sets.training(part)
        scores = twin(recommender, train, sets.n_items)
        counts = np.bincount(train["item"], minlength=sets.n_items)
        for row in np.flatnonzero(sets.part == part):
            items = sets.test_items[row]
            decoy = np.ones(sets.n_items, dtype=bool)
            decoy[rated[sets.users[row]]] = False
            above = scores[decoy][:, None] > scores[items]
            level = scores[decoy][:, None] == scores[items]
            assert bundled.popularity[row].tolist() == counts[items].tolist()
            assert places.n_irrelevant[row] == decoy.sum()
            assert places.weight_total[row] == counts[decoy].sum()
            assert places.n_better[row].tolist() == above.sum(axis=0).tolist()
            assert places.n_tied[row].tolist() == level.sum(axis=0).tolist()
            assert places.weight_better[row].tolist() == (counts[decoy] @ above).tolist()
            assert places.weight_tied[row].tolist() == (counts[decoy] @ level).tolist()
            levels = np.unique(-scores[items], return_inverse=True)[1]
            assert places.level[row].tolist() == levels.tolist()


@needs_data
@pytest.mark.parametrize("data", STUDIES)
def test_facts_that_need_ratings_come_out_as_bundled(data):
    bundled = STUDIES[data]
    sets = split(ratings_of(data), np.random.default_rng(study.SPLIT_SEED))
    facts = bundled.facts["effectiveness"]
    for name, places in bundled.sets.items():
        ndcg, concordant = rank_effectiveness(places.level, sets.gains, software_discounts(5))
        assert facts["software ndcg"][name][0] == pytest.approx(ndcg.mean(), rel=1e-10)
        assert facts["concordant pairs"][name][0] == pytest.approx(
            np.nanmean(concordant), rel=1e-10
        )
    # The software's nDCG in a list of 10 with all unrated items, item by item.
    places, discounts = bundled.sets["Popular"], np.append(software_discounts(10), np.zeros(10**4))
    sums = np.concatenate(([0.0], np.cumsum(discounts)))
    relevant_above = (places.level[:, None, :] < places.level[:, :, None]).sum(axis=2)
    tied = (places.level[:, None, :] == places.level[:, :, None]).sum(axis=2) - 1 + places.n_tied
    first = places.n_better + relevant_above
    gained = sets.gains * (sums[first + tied + 1] - sums[first]) / (tied + 1)
    value = gained.sum(axis=1) / (-np.sort(-sets.gains, axis=1) @ discounts[:5])
    software_ndcg = bundled.facts["software"]["ndcg@10"]["Popular"][-1]
    assert software_ndcg[0] == pytest.approx(value.mean(), rel=1e-10)
    assert software_ndcg[1] == pytest.approx(value.std(ddof=1) / np.sqrt(value.size), rel=1e-10)


# --- LensKit


def random_train(shape, density):
    pytest.importorskip("lenskit", reason="LensKit is not installed: see make ranks")
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random(shape) < density)
    return pd.DataFrame({"user": user, "item": item, "rating": rng.integers(1, 11, user.size) / 2})


def test_means_are_exact_where_lenskit_rounds():
    """The mean of c half stars is a multiple of 1 / (2 c), so float32 suffices to find it."""
    train = random_train((400, 60), 0.3)
    scores = _lenskit.scores("PersMean", train, np.arange(3), 61, 0)
    for i in range(60):
        ratings = train.loc[train["item"] == i, "rating"]
        mean = sum(map(Fraction, ratings)) / len(ratings)
        assert scores[0, i] == float(mean)
    assert scores[0, 60] == train["rating"].mean()
    counts = _lenskit.scores("Popular", train, np.arange(3), 61, 0)
    assert counts[2].tolist() == np.bincount(train["item"], minlength=61).tolist()


# --- the command


@pytest.fixture
def small(monkeypatch):
    """The command on a small data set, with scores that need no library."""

    def scorer(name, train, users, n_items, seed):
        table = by_training_count(name, train, users, n_items, seed)
        if name in _lenskit.SEEDED:
            noise = np.random.default_rng([seed, len(name)])
            table = table + noise.normal(0, 0.3, table.shape)
        return table

    ratings = random_ratings(3, n_users=80, n_items=30, density=0.5)
    sparse_user = pd.DataFrame({"user": 999, "item": [0, 7], "rating": 3.0})
    monkeypatch.setattr(study, "_ratings", lambda data: pd.concat([ratings, sparse_user]))
    monkeypatch.setattr(_lenskit, "scores", scorer)
    monkeypatch.setattr(study, "decoy_grid", lambda largest: np.array([5, 10]))
    return scorer


def test_the_command_writes_what_the_package_reads_and_then_finds_no_difference(
    small, tmp_path, capsys
):
    assert study.main(["--output", str(tmp_path), "--data", "ml-100k"]) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == [str(tmp_path / name) for name in ("decoys.npz", "decoys.json")]
    assert "ml-100k: 1 users with fewer than 5 ratings are left out" in captured.err
    assert bundled_study("ml-100k", tmp_path).facts["left_out"] == 1
    assert study.main(["--output", str(tmp_path), "--data", "ml-100k", "--check"]) == 0
    assert capsys.readouterr().out == "The study came out as it is kept.\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["decoys.json", "decoys.npz"]


def test_the_check_says_what_differs(small, tmp_path, monkeypatch, capsys):
    assert study.main(["--output", str(tmp_path), "--data", "ml-100k"]) == 0
    capsys.readouterr()

    def worse(name, train, users, n_items, seed):
        table = small(name, train, users, n_items, seed)
        return -table if name in ("PersMean", "FunkSVD") else table

    monkeypatch.setattr(_lenskit, "scores", worse)
    assert study.main(["--output", str(tmp_path), "--data", "ml-100k", "--check"]) == 1
    printed = capsys.readouterr().out
    assert "ml-100k: PersMean: n_better must be as it is kept" in printed
    assert "ml-100k: FunkSVD: auc must be within " in printed
    assert "Popular" not in printed
    assert "Item-Item" not in printed

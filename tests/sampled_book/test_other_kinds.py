"""Rating predictors and near-twins: ranks by hand, and what is bundled."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark, other_kinds
from sampled_book.data.benchmark_recommenders import Entry
from sampled_book.data.other_kinds import RATED, RATINGS, TWIN_DATA, TWIN_MODELS, TWINS
from sampled_book.data.sequences import Sequences
from tests.data import needs_data

#: Each user's items in order of time, with their ratings; the last is held out.
RATINGS_BY_USER = {2: "B3 C4 A5", 3: "A4 B1 D5", 5: "E5 C2 A3", 6: "A5 B2 E1", 9: "B4 C3 F2"}
#: How many of the four candidates are above the held-out item, and level with it, by hand. Without
#: damping the means of A to F are 4.5, 2.5, 3, 3.3, 5 and 3.3; nobody's known ratings are of D or
#: F. With five ratings of 3.3 they are 25.5/7, 26.5/9, 25.5/8, 3.3, 21.5/6 and 3.3.
UNDAMPED = [(1, 0), (1, 1), (0, 0), (0, 0), (2, 1)]
DAMPED = [(0, 0), (1, 1), (0, 0), (0, 0), (2, 1)]


def table():
    rows = [
        (user, "ABCDEF".index(word[0]) + 10, int(word[1]), 100 * user + time)
        for user, words in RATINGS_BY_USER.items()
        for time, word in enumerate(words.split())
    ]
    return pd.DataFrame(rows, columns=["user", "item", "rating", "timestamp"])


def means(name, train, users, n_items, seed):
    """Stands for LensKit: mean ratings, of an item without ratings that of all."""
    ratings = {}
    for item, rating in zip(train["item"], train["rating"], strict=True):
        ratings.setdefault(item, []).append(Fraction(rating))
    everything = [Fraction(rating) for rating in train["rating"]]
    lists = [ratings.get(item, everything) for item in range(n_items)]
    return np.tile([float(sum(values) / len(values)) for values in lists], (len(users), 1))


def test_ratings_are_in_order_of_time_and_level_times_in_order_of_the_file():
    ratings = table()
    data, matrix = other_kinds.rated(ratings.sample(frac=1, random_state=3))
    assert data.items.tolist() == [*(1, 2, 0), *(0, 1, 3), *(4, 2, 0), *(0, 1, 4), *(1, 2, 5)]
    assert matrix.toarray()[1].tolist() == [4, 1, 0, 5, 0, 0]
    level, _ = other_kinds.rated(ratings.assign(timestamp=0))
    assert level.items.tolist() == data.items.tolist()
    assert data.in_order


@pytest.mark.parametrize("drop", [14, None])
def test_ratings_of_which_some_cannot_be_used_are_refused(drop):
    ratings = table()
    bad = pd.concat([ratings, ratings[:1]]) if drop is None else ratings.drop(index=drop)
    with pytest.raises(
        ValueError, match=f"of {len(bad)} ratings only {15 if drop is None else 12}"
    ):
        other_kinds.rated(bad)


@pytest.mark.parametrize(("name", "ranks"), [("PersMean", UNDAMPED), ("PersMean, damped", DAMPED)])
def test_the_ranks_of_a_small_matrix_by_hand(name, ranks):
    data, matrix = other_kinds.rated(table())
    ((entry, _),) = other_kinds.predictors(matrix, [name], means).values()
    intervals = benchmark.compute(entry, data, {})[0]
    order = np.random.default_rng(benchmark.SEED).permutation(5)
    found = zip(intervals.n_better.tolist(), intervals.n_tied.tolist(), strict=True)
    assert list(found) == [ranks[user] for user in order]
    assert intervals.n_candidates.tolist() == [4] * 5


def test_a_predictor_learns_no_rating_of_a_test_item():
    trains = []
    data, matrix = other_kinds.rated(table())

    def scorer(name, train, users, n_items, seed):
        trains.append((name, train, seed))
        return means(name, train, users, n_items, seed)

    for entry, _ in other_kinds.predictors(matrix, scorer=scorer).values():
        benchmark.compute(entry, data, {})
    known = [
        (user, "ABCDEF".index(word[0]), int(word[1]))
        for user, words in enumerate(RATINGS_BY_USER.values())
        for word in words.split()[:2]
    ]
    assert [name for name, *_ in trains] == ["PersMean", "Item-Item", "FunkSVD"]
    for _, train, seed in trains:
        assert list(train[["user", "item", "rating"]].itertuples(index=False, name=None)) == known
        assert seed == benchmark.SEED


# --- the command


@pytest.fixture
def shop(monkeypatch):
    """Sequences, a recommender whose scores follow from its settings, and how often it learnt."""
    rng, learnt = np.random.default_rng(4), []
    data = Sequences.from_users([rng.permutation(12)[:5].tolist() for _ in range(9)])

    def entries(**settings):
        def learn(data):
            learnt.append(settings)
            scores = np.random.default_rng(settings["seed"]).random((data.n_users, data.n_items))
            return lambda users: scores[users]

        return {"Model": (Entry(learn, {}), settings)}

    monkeypatch.setattr(benchmark, "version", lambda _: "0")
    return data, entries, learnt


def test_ranks_that_are_there_are_not_computed_again(shop, tmp_path):
    data, entries, learnt = shop

    def files():
        return [(tmp_path / f"shop.{ending}").read_bytes() for ending in ("npz", "json")]

    (line,) = other_kinds.rank("shop", data, entries(seed=1), tmp_path)
    assert line.startswith("shop, Model: NDCG@10 0.")
    first = files()
    (line,) = other_kinds.rank("shop", data, entries(seed=1), tmp_path)
    assert line.endswith("already there")
    assert (len(learnt), files()) == (1, first)
    assert not list(tmp_path.glob("*shares*"))
    list(other_kinds.rank("shop", data, entries(seed=2), tmp_path))  # another setting
    assert files()[0] != first[0]
    (tmp_path / "shop.json").unlink()  # stopped between the two files
    list(other_kinds.rank("shop", data, entries(seed=1), tmp_path))
    assert files() == first
    assert [settings["seed"] for settings in learnt] == [1, 2, 1]


# --- what is bundled


@needs_data
@pytest.mark.parametrize("name", RATED)
def test_bundled_ranks_of_the_damped_means_come_out_again(name):
    data, matrix = other_kinds.rated(RATED[name]())
    ((entry, _),) = other_kinds.predictors(matrix, ["PersMean, damped"]).values()
    fresh = benchmark.compute(entry, data, {})[0]
    assert benchmark.moved(fresh, benchmark.ranks(name, RATINGS)["PersMean, damped"]) == 0


def test_bundled_ranks_are_of_the_benchmarks_users_and_kept_apart():
    for folder, names in ((RATINGS, RATED), (TWINS, TWIN_DATA)):
        assert {path.stem for path in folder.glob("*.npz")} == set(names)
        for name in names:
            ranks, facts = benchmark.ranks(name, folder), benchmark.facts(name, folder)
            assert list(ranks) == list(facts["recommenders"])
            candidates = next(iter(ranks.values())).n_candidates
            assert candidates.size == facts["users"] == facts["ranked users"]
            assert facts["interactions"] == (facts["items"] - candidates + 1).sum()
            assert all((r.n_candidates == candidates).all() for r in ranks.values())
            if name in TWIN_DATA:
                assert (candidates == benchmark.ranks(name)["Popular"].n_candidates).all()
    kinds = {*other_kinds.PREDICTORS}
    kinds |= {f"{model}, {part}" for model in TWIN_MODELS for part in TWIN_MODELS[model]}
    for path in benchmark.BUNDLE.glob("*.npz"):
        assert not kinds & benchmark.ranks(path.stem).keys()
    assert set(benchmark.every()) <= {path.stem for path in benchmark.BUNDLE.glob("*.npz")}
    files = [file for folder in (RATINGS, TWINS) for file in folder.iterdir()]
    assert sum(file.stat().st_size for file in files) < 300_000


@pytest.mark.parametrize("name", TWIN_DATA)
def test_a_twin_is_the_benchmarks_model_with_one_setting_changed(name):
    ranks, facts = benchmark.ranks(name, TWINS), benchmark.facts(name, TWINS)["recommenders"]
    tuned = benchmark.facts(name)["recommenders"]
    for label, versions in ranks.items():
        model, _, version = label.partition(", ")
        changed = facts[label]["settings"].items() - tuned[model]["settings"].items()
        if version:
            assert len(changed) == 1
            assert benchmark.moved(ranks[model], versions) > 0
        else:
            # Trained on another processor, the models are as good as the same.
            assert not changed
            both = np.log([part.n_better + 1 for part in (versions, benchmark.ranks(name)[model])])
            assert np.corrcoef(both)[0, 1] > 0.95


def test_twins_are_many_and_mostly_of_nearly_equal_metrics():
    gaps = []
    for name in TWIN_DATA:
        values = {k: r.evaluate("ndcg@10").mean() for k, r in benchmark.ranks(name, TWINS).items()}
        for label, value in values.items():
            if "," in label:
                gaps.append(abs(np.log(value / values[label.partition(",")[0]])))
    assert len(gaps) == 50
    assert np.median(gaps) < 0.05

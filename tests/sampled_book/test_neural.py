"""Neural recommenders: what they learn from, when they stop, how they are ranked, what is bundled.

The models themselves are tested in tests/peers, by test_sasrec.py and test_multvae.py.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from sampled_book.data import benchmark, neural
from sampled_book.data.sequences import Sequences, read_sequences


def drawn(seed=3, users=30, items=40, longest=17):
    rng = np.random.default_rng(seed)
    return [rng.permutation(items)[: rng.integers(3, longest)].tolist() for _ in range(users)]


def rows_of(data):
    return [data.items[a:b].tolist() for a, b in pairwise(data.starts)]


@pytest.mark.parametrize(("length", "offset"), [(50, 7), (5, 0), (5, 2), (5, 4), (1, 0)])
def test_windows_hold_each_item_with_the_next_one_and_cut_long_rows_alone(length, offset):
    data = Sequences.from_users(drawn())
    expected = []
    for row in rows_of(data):
        pairs = [(item + 1, later + 1) for item, later in pairwise(row)]
        first = length - offset if len(pairs) > length else length
        cuts = [0, *range(first, len(pairs), length), len(pairs)]
        expected += [pairs[a:b] for a, b in pairwise(cuts)]
    inputs, targets = neural.windows(data, length, offset)
    assert inputs.shape == targets.shape == (len(expected), length)
    for shown, nexts, pairs in zip(inputs, targets, expected, strict=True):
        filled = np.zeros((length, 2), dtype=int)
        filled[: len(pairs)] = pairs
        assert np.array_equal(np.stack([shown, nexts], axis=1), filled)


def test_a_model_is_shown_the_last_items_in_order():
    data, users = Sequences.from_users(drawn()), np.array([4, 0, 29])
    items, sizes = neural.latest(data, users, 6)
    for user, row, size in zip(users, items, sizes, strict=True):
        tail = [item + 1 for item in rows_of(data)[user]][-6:]
        assert row.tolist() == tail + [0] * (6 - len(tail))
        assert size == len(tail)


def test_training_ends_when_the_value_no_longer_rises():
    values = iter([0.1, 0.3, 0.2, *[0.3] * 50])
    kept = []
    facts = neural.until_no_rise(
        lambda: 2,
        lambda: next(values),
        lambda: kept.append(1),
        lambda best, since: since * best > 2,
    )
    rounds = 2 + 7  # the first for which 0.3 of the rounds since is more than 2
    assert (facts["epochs"], facts["best epoch"], len(kept)) == (2 * rounds, 4, 2)
    assert facts["validation ndcg@10"] == {"best": 0.3, "final": 0.3}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A file of sequences, and calls of a model that stands for the neural ones: its scores are of
    few digits, so that some are level.
    """
    path = tmp_path / "shop.txt"
    path.write_text("\n".join(" ".join(map(str, [0, *row])) for row in drawn()))
    calls = []

    class Scorer:
        def __init__(self, n_items):
            self.n_items, self.facts = n_items, {"training": {"epochs": 3}}

        def __call__(self, users):
            rows = [np.random.default_rng(user).integers(4, size=self.n_items) for user in users]
            return np.asarray(rows, dtype=np.float32)

    def learn(name, data, **settings):
        calls.append((name, rows_of(data), settings))
        return Scorer(data.n_items)

    for name, entry in neural.ENTRIES.items():
        monkeypatch.setitem(neural.ENTRIES, name, replace(entry, learn=partial(learn, name)))
    monkeypatch.setattr(benchmark, "version", lambda _: "0")
    return path, calls


def test_ranks_are_of_the_benchmarks_users_and_candidates_and_are_computed_once(
    shop, tmp_path, capsys
):
    path, calls = shop
    out = tmp_path / "out"
    arguments = ["--data", str(path), "--output", str(out)]
    assert neural.main([*arguments, "--models", "SASRec"]) == 0
    assert neural.main(arguments) == 0
    # What is there is not trained again.
    assert [call[0] for call in calls] == ["SASRec", "GRU4Rec", "MultiVAE"]
    rows = rows_of(read_sequences(path))
    assert calls[0][1:] == ([row[:-1] for row in rows], neural.SETTINGS["SASRec"])
    ranks = benchmark.ranks("shop", out)
    order = np.random.default_rng(benchmark.SEED).permutation(len(rows))
    n_items = 1 + max(max(row) for row in rows)
    for place, user in enumerate(order):
        *own, test_item = rows[user]
        scores = np.random.default_rng(user).integers(4, size=n_items)
        rivals = sorted(scores[[i for i in range(n_items) if i not in rows[user]]])
        n_below = np.searchsorted(rivals, scores[test_item], "left")
        n_not_above = np.searchsorted(rivals, scores[test_item], "right")
        for intervals in ranks.values():
            assert intervals.n_better[place] == len(rivals) - n_not_above
            assert intervals.n_tied[place] == n_not_above - n_below
            assert intervals.n_candidates[place] == n_items - len(own)
    facts = benchmark.facts("shop", out)
    popular = benchmark.compute(benchmark.RECOMMENDERS["Popular"], read_sequences(path))[0]
    for model, known in facts["recommenders"].items():
        value = ranks[model].evaluate("ndcg@10").mean()
        assert known["training"] == {"epochs": 3}
        assert known["test ndcg@10"] == pytest.approx(value, abs=1e-5)
        assert known["below Popular"] == (value < popular.evaluate("ndcg@10").mean())
    whole = (out / "shop.json").read_bytes()
    capsys.readouterr()
    assert neural.main(arguments) == 0
    assert (out / "shop.json").read_bytes() == whole
    n_worse = sum(known["below Popular"] for known in facts["recommenders"].values())
    assert capsys.readouterr().out.count("below Popular: ") == n_worse


# --- what is bundled ------------------------------------------------------------------------------

BUNDLED = sorted(path.stem for path in neural.BUNDLE.glob("*.npz"))


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_neural_ranks_are_of_the_benchmarks_users_and_candidates(name):
    ranks, facts = benchmark.ranks(name, neural.BUNDLE), benchmark.facts(name, neural.BUNDLE)
    assert name in neural.DATA
    assert set(ranks) == set(facts["recommenders"])
    assert facts["in order"]
    for model, known in facts["recommenders"].items():
        is_of_recbole = "recbole" in known["versions"]  # SASRec too where it was better
        assert known["settings"] == neural.SETTINGS[model] or (model == "SASRec" and is_of_recbole)
        assert known["training"]["best epoch"] <= known["training"]["epochs"]
        value = ranks[model].evaluate("ndcg@10").mean()
        assert known["test ndcg@10"] == pytest.approx(value, abs=1e-5)
        assert known["below Popular"] == (value < facts["test ndcg@10 of Popular"])
        is_below = f"{model} on {name}" in neural.below_popular()
        assert is_below == known["below Popular"]
    if (benchmark.BUNDLE / f"{name}.npz").exists():
        popular = benchmark.ranks(name)["Popular"]
        baseline = popular.evaluate("ndcg@10").mean()
        assert facts["test ndcg@10 of Popular"] == pytest.approx(baseline, abs=1e-5)
        for intervals in ranks.values():
            assert np.array_equal(intervals.n_candidates, popular.n_candidates)


def test_only_one_data_set_has_neural_recommenders_below_popular():
    below = {name.partition(" on ")[2] for name in neural.below_popular()}
    appendix = benchmark.BUNDLE.parents[3] / "book/chapters/M_track_record.md"
    assert below == {"foursquare_nyc"}
    assert set(neural.below_popular()) == {
        f"{model} on foursquare_nyc" for model in neural.SETTINGS
    }
    assert "All neural recommenders on foursquare_nyc, and no other one, have a lower" in (
        appendix.read_text(encoding="utf-8")
    )

"""Ranks that are counted only as far as a metric at k needs them, against ranks of all items."""

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm

METRICS = ["ndcg@5", "recall@5", "ap@5", "rr@3", "precision@5", "hit@2", "accuracy"]
N_USERS, N_ITEMS = 40, 300


def _places(user):
    """Half of the users have items at the top only, or beside deeper ones."""
    return [0, 1, 3, 40, 200] if user % 2 else [8, 40, 100, 200]


@pytest.fixture(name="inputs", params=["many ties", "factors"])
def inputs_fixture(request):
    """Scores by a function or factors, one to four test items of a user, training items."""
    rng = np.random.default_rng(4)
    if request.param == "many ties":
        scores = rng.integers(0, 40, (N_USERS, N_ITEMS))
        options = {"users": N_USERS, "items": N_ITEMS, "score": lambda u, i: scores[np.ix_(u, i)]}
    else:
        users, items = rng.normal(size=(N_USERS, 6)), rng.normal(size=(N_ITEMS, 6))
        items[10:20] = items[0]  # equal factors tie
        options, scores = {"users": users, "items": items}, users @ items.T
    order = np.argsort(-scores, axis=1, kind="stable")
    pairs = [
        (user, order[user, place])
        for user in range(N_USERS)
        for place in rng.choice(_places(user), rng.integers(1, 4), replace=False)
    ]
    test = pd.DataFrame(pairs, columns=["user", "item"]).sample(frac=1.0, random_state=1)
    own = test.groupby("user")["item"].agg(set)
    train = [sorted({*rng.integers(0, N_ITEMS, 20).tolist()} - own[u]) for u in range(N_USERS)]
    candidates = [
        np.r_[order[user, 2:25:2], rng.integers(0, N_ITEMS, 5), train[user][:2]]
        for user in range(N_USERS)
    ]
    candidates[0] = []
    return options | {"test": test, "train": train}, candidates


@pytest.mark.parametrize("first", ["candidates", "items in order"])
def test_metrics_are_equal_to_the_last_bit(inputs, first):
    options, candidates = inputs
    full = sm.rank(**options)
    lazy = sm.rank(**options, stop_at=5, candidates=candidates if first == "candidates" else None)
    assert lazy.metrics(METRICS).frame.equals(full.metrics(METRICS).frame)
    is_stopped = lazy.frame["stopped"]
    assert 0.1 < is_stopped.mean() < 0.9
    counts = ["user", "item", "n_better", "n_tied", "n_candidates"]
    assert lazy.frame.loc[~is_stopped, counts].equals(full.frame.loc[~is_stopped, counts])
    stopped = lazy.frame["n_better"][is_stopped]
    assert (stopped >= 5).all()
    assert (stopped <= full.frame["n_better"][is_stopped]).all()


def test_fewer_items_are_scored():
    rng, scored = np.random.default_rng(1), []
    scores = rng.normal(size=(30, 1_000))

    def score(users, items):
        scored.append(users.size * items.size)
        return scores[np.ix_(users, items)]

    item = np.argsort(-scores, axis=1)[np.arange(30), np.repeat([0, 500], 15)]
    test = pd.DataFrame({"user": range(30), "item": item})
    candidates = np.argsort(-scores, axis=1)[:, 100:150]
    ranks = sm.rank(30, 1_000, test, score=score, stop_at=10, candidates=[*candidates])
    assert ranks.notes == ("15,765 scores, 53% of all, for metrics at 10",)
    assert sum(scored) < 20_000
    assert ranks.frame["stopped"].tolist() == [False] * 15 + [True] * 15


def test_what_was_not_counted_is_refused(inputs, tmp_path):
    options, candidates = inputs
    ranks = sm.rank(**options, stop_at=5, candidates=candidates)
    for name in ("ndcg@6", "rr", "auc"):
        with pytest.raises(ValueError, match=f"a cut-off of at most stop_at = 5, got {name}"):
            ranks.metrics([name])
    with pytest.raises(ValueError, match="not counted to the end"):
        sm.read_log(ranks.frame)
    for other in ({"output": tmp_path / "ranks.csv"}, {"cluster": "local:2"}):
        with pytest.raises(ValueError, match="must be left out with stop_at"):
            sm.rank(**options, stop_at=5, **other)
    with pytest.raises(ValueError, match="candidates must be left out without stop_at"):
        sm.rank(**options, candidates=candidates)
    with pytest.raises(ValueError, match="stop_at must be a whole number >= 1"):
        sm.rank(**options, stop_at=0)

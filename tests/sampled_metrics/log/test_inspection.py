"""Independent draws pass for independent, and shared ones never do, wherever they come in."""

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import estimate, read_log
from sampled_metrics.log.inspection import never_drawn_exponent
from sampled_metrics.readers import from_scores, link_prediction, ranx


def rows_of(negatives, held_out=None, seed=0):
    """A table of candidates: a list of negatives and a held-out item for each user."""
    rng = np.random.default_rng(seed)
    held_out = np.full(len(negatives), -1) if held_out is None else held_out
    lists = [np.r_[item, drawn] for item, drawn in zip(held_out, negatives, strict=True)]
    sizes = [len(items) for items in lists]
    item = np.concatenate(lists)
    is_relevant = np.concatenate([np.arange(size) == 0 for size in sizes])
    return pd.DataFrame(
        {"user": np.repeat(np.arange(len(lists)), sizes), "item": item,
         "score": rng.normal(size=item.size), "relevant": is_relevant}
    )  # fmt: skip


def independent(rng, n_users, n_items, m, owned=0):
    """Distinct negatives of each user, none of the user's own items, of which some are popular."""
    popularity = rng.pareto(1.0, n_items)
    keys = rng.exponential(size=(n_users, n_items))
    if owned:
        own = np.argsort(rng.exponential(size=keys.shape) / popularity, axis=1)[:, :owned]
        np.put_along_axis(keys, own, np.inf, axis=1)
    return np.argpartition(keys, m - 1, axis=1)[:, :m]


@pytest.mark.parametrize(
    ("n_users", "n_items", "m", "owned"),
    [(300, 120, 100, 0), (300, 120, 100, 15), (40, 5_000, 100, 0), (2_000, 400, 99, 100),
     (500, 2_000, 5, 50), (1_500, 200, 20, 60), (6, 30, 10, 0), (2_500, 60, 50, 5)],
)  # fmt: skip
def test_independent_draws_are_never_taken_for_shared(n_users, n_items, m, owned):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = from_scores(rows_of(independent(rng, n_users, n_items, m, owned)))
        assert not rows.attrs["shared_negatives"]
        log = read_log(rows, n_items=n_items - owned + 1)
        assert not log.shared_negatives


def test_independent_draws_with_replacement_are_never_taken_for_shared():
    for seed, (n_users, n_items, m) in enumerate([(500, 100, 200), (2_000, 3_000, 50)]):
        draws = np.random.default_rng(seed).integers(0, n_items, (n_users, m))
        rows = from_scores(rows_of(draws), duplicates="keep")
        assert not read_log(rows, n_items=n_items + 1, replacement=True).shared_negatives


def replaced(rng, pool, share, n_items, n_users):
    """One list for all users, of which each user has a share drawn anew."""
    lists = []
    for _ in range(n_users):
        kept = rng.choice(pool, round((1 - share) * pool.size), replace=False)
        others = np.setdiff1d(np.arange(n_items), kept)
        lists.append(np.r_[kept, rng.choice(others, pool.size - kept.size, replace=False)])
    return lists


def in_batch(n_users, n_items, size, rng):
    """The held-out items of the batch, but the user's own."""
    held_out = np.concatenate(
        [rng.choice(n_items, size, replace=False) for _ in range(n_users // size)]
    )
    batches = held_out.reshape(-1, size)
    return held_out, [np.delete(batch, i) for batch in batches for i in range(size)]


SHARED = {
    "one list": lambda rng: replaced(rng, rng.permutation(3_000)[:100], 0, 3_000, 400),
    "5% replaced": lambda rng: replaced(rng, rng.permutation(3_000)[:100], 0.05, 3_000, 400),
    "half replaced": lambda rng: replaced(rng, rng.permutation(3_000)[:100], 0.5, 3_000, 400),
    "90% replaced": lambda rng: replaced(rng, rng.permutation(3_000)[:100], 0.9, 3_000, 400),
    "ten users": lambda rng: replaced(rng, rng.permutation(3_000)[:100], 0.05, 3_000, 10),
    "own items removed": lambda rng: [
        pool[rng.random(100) > 0.05] for pool in [rng.permutation(3_000)[:100]] for _ in range(400)
    ],
    "samples of one list": lambda rng: [
        rng.choice(pool, 100, replace=False)
        for pool in [rng.permutation(3_000)[:150]]
        for _ in range(400)
    ],
    "half of the catalogue": lambda rng: independent(rng, 400, 1_500, 100),
    "a list for every twenty": lambda rng: [
        pool for pool in independent(rng, 40, 3_000, 100) for _ in range(20)
    ],
}


@pytest.mark.parametrize("design", SHARED)
def test_shared_negatives_are_seen_and_their_intervals_refused(design):
    rows = from_scores(rows_of(SHARED[design](np.random.default_rng(1))))
    log = read_log(rows, n_items=3_001)
    assert log.shared_negatives
    with pytest.raises(ValueError, match="shared_negatives must be False for an identification"):
        estimate(log, ["auc"])
    assert estimate(log, ["auc"], identification=False).frame["estimate"].notna().all()
    with pytest.raises(ValueError, match="shared_negatives must be True, got False"):
        read_log(rows, n_items=3_001, shared_negatives=False)


@pytest.mark.parametrize("n_users", [200, 2_000])
def test_negatives_of_a_batch_are_shared(n_users):
    held_out, negatives = in_batch(n_users, 3_000, 50, np.random.default_rng(2))
    rows = from_scores(rows_of(negatives, held_out))
    assert read_log(rows, n_items=3_000).shared_negatives


def test_a_run_over_one_corpus_is_one_sample_for_all_queries():
    rng = np.random.default_rng(3)
    documents = [f"d{i}" for i in range(150)]
    run = {
        f"q{i}": dict(zip(documents, rng.normal(size=150).tolist(), strict=True)) for i in range(50)
    }
    rows = ranx(run, {f"q{i}": {f"d{i}": 1} for i in range(50)})
    assert read_log(rows, n_items=5_000).shared_negatives
    complete = read_log(rows, n_items=150)  # all documents were ranked
    assert estimate(complete, ["auc"]).frame["warrant"].notna().all()


def test_edges_with_one_list_share_their_negatives():
    rng = np.random.default_rng(4)
    positives, nodes = rng.normal(size=300), rng.normal(size=2_000)
    one_list = link_prediction(positives, nodes[:40])
    repeated = link_prediction(positives, np.tile(nodes[:40], (300, 1)))
    own = link_prediction(positives, rng.normal(size=(300, 40)))
    of_nodes = link_prediction(positives, nodes[independent(rng, 300, 2_000, 40)])
    rounded = link_prediction(positives, rng.integers(0, 30, (300, 40)))
    assert one_list.attrs["shared_negatives"]
    assert repeated.attrs["shared_negatives"]
    for rows in (own, of_nodes, rounded):
        assert not rows.attrs["shared_negatives"]


def test_the_bound_on_items_never_drawn_holds_against_enumeration():
    # One draw of 1 of 6 items by each of 4 users: the number of maps onto at most d items.
    n_items, n_users = 6, 4
    draws = np.stack(np.meshgrid(*[np.arange(n_items)] * n_users)).reshape(n_users, -1)
    distinct = np.array([np.unique(column).size for column in draws.T])
    rate = -n_users * np.log1p(-1 / n_items)
    for d in range(1, n_users + 1):
        probability = np.mean(distinct <= d)
        assert np.exp(-never_drawn_exponent(d, n_items, rate)) >= probability - 1e-12

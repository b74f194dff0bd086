"""What an evaluator of PyKEEN holds, against its triples."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from sampled_metrics.evaluation import estimate
from sampled_metrics.log.read import read_log
from sampled_metrics.published_tables import published
from sampled_metrics.readers import pykeen, pykeen_metrics

from .counts import Tensor, rows_of

ASKED, KNOWN = [(0, 0, 1), (2, 0, 1)], np.array([[0, 0, 3], [4, 0, 1]])


def evaluator(sampled=True, **changes):
    """What PyKEEN's evaluators hold after two batches of one triple; ranks as floats and whole."""
    ranks_by_side = defaultdict(list)
    ranks = {"head": ([2, 1], [2, 3]), "tail": ([1, 3], [1, 3])}
    for side, (first, last) in ranks.items():
        for optimistic, pessimistic in zip(first, last, strict=True):
            ranks_by_side[side, "optimistic"].append(np.array([optimistic]))
            ranks_by_side[side, "pessimistic"].append(np.array([pessimistic]))
            ranks_by_side[side, "realistic"].append(
                np.array([(optimistic + pessimistic) / 2], np.float32)
            )
    sizes = {"head": [np.array([3])] * 2, "tail": [np.array([3])] * 2}
    drawn = {"head": np.array([[1, 3], [3, 1]]), "tail": np.array([[0, 4], [0, 2]])}
    sampling = {"negative_samples": drawn, "num_entities": 5} if sampled else {}
    index_by_triple = {triple: i for i, triple in enumerate(ASKED)}
    attributes = {
        "ranks": ranks_by_side,
        "num_candidates": sizes,
        "triple_to_index": index_by_triple,
        **sampling,
        **changes,
    }
    return SimpleNamespace(**attributes)


def test_ranks_of_pykeen_are_two_instances_of_a_triple():
    rows = pykeen(evaluator(), recommender="RotatE")
    assert rows[["user", "instance"]].to_numpy().tolist() == [
        [0, "head"], [1, "head"], [0, "tail"], [1, "tail"],
    ]  # fmt: skip
    assert rows_of(rows) == [[1, 0, 2], [0, 2, 2], [0, 0, 2], [2, 0, 2]]
    log = read_log(rows, n_items=5)
    assert not log.replacement
    estimates = estimate(log, ["hit@1", "auc"], identification=False)
    user_values = [np.mean([0, 1]), np.mean([1 / 3, 0])]
    assert estimates.frame["reported"].tolist() == pytest.approx([np.mean(user_values), 0.5])
    assert estimates.frame["users"].tolist() == [2, 2]


def test_candidates_are_what_filtering_leaves():
    # Heads of (?, 0, 1) are 0, 2 and 4: two others are filtered. Tails of (0, 0, ?) are 1 and 3.
    expected = [3, 3, 4, 5]
    for known_triples in (KNOWN, [KNOWN[:1], Tensor(KNOWN[1:])], (KNOWN, np.array(ASKED))):
        assert pykeen(evaluator(), known=known_triples)["n_items"].tolist() == expected


def test_ranks_among_all_entities_are_an_evaluation_that_drew_every_negative():
    rows = pykeen(evaluator(sampled=False))
    assert rows["n_items"].tolist() == [3] * 4
    log = read_log(rows)
    assert (log.frame["n_negatives"] == 2).all()


def test_predictions_without_a_negative_are_left_out_and_named():
    one_sided = evaluator(sampled=False)
    one_sided.num_candidates["tail"] = [np.array([1]), np.array([3])]
    with pytest.warns(UserWarning, match="1 of 4 predictions are left out: filtering leaves"):
        rows = pykeen(one_sided)
    assert rows[["user", "instance"]].to_numpy().tolist() == [[0, "head"], [1, "head"], [1, "tail"]]


def test_what_is_no_evaluator_with_ranks_is_refused():
    with pytest.raises(ValueError, match="clear_on_finalize=False, and evaluate"):
        pykeen(evaluator(ranks={}))
    with pytest.raises(ValueError, match="got object without"):
        pykeen(object())
    with pytest.raises(ValueError, match="known must be omitted for ranks among all"):
        pykeen(evaluator(sampled=False), known=KNOWN)
    repeated = {"head": np.array([[1, 1], [3, 1]]), "tail": np.array([[0, 4], [0, 2]])}
    with pytest.raises(ValueError, match=r"one twice for 1 of 2 triples \(head\).*negatives = 2"):
        pykeen(evaluator(negative_samples=repeated))
    with pytest.raises(ValueError, match=r"got 2 ranks of 1 triples"):
        pykeen(evaluator(triple_to_index={ASKED[0]: 0}), known=KNOWN)
    with pytest.raises(ValueError, match=r"of shape \(n, 3\), got shapes \[\(2,\)\]"):
        pykeen(evaluator(), known=np.array([1, 2]))


def test_averages_of_pykeen_are_a_row_of_a_published_table():
    ranks, m = np.array([1, 3, 11, 2, 1, 7] * 50), 10  # sampled ranks
    flat = {
        "both.realistic.hits_at_1": (ranks == 1).mean(),
        "both.realistic.hits_at_10": (ranks <= 10).mean(),
        "both.realistic.adjusted_hits_at_10": 0.4,
        "both.realistic.inverse_harmonic_mean_rank": (1 / ranks).mean(),
        "both.realistic.adjusted_arithmetic_mean_rank_index": 1 - (ranks.mean() - 1) / (m / 2),
        "head.realistic.hits_at_10": 0.25,
        "head.optimistic.hits_at_10": 0.25,
        "head.pessimistic.hits_at_10": 0.25,
    }
    flat |= {  # no ties
        key.replace("realistic", policy): value
        for key, value in flat.items()
        for policy in ("optimistic", "pessimistic")
        if key.startswith("both")
    }
    row = pykeen_metrics(SimpleNamespace(to_flat_dict=lambda: flat), method="ComplEx")
    assert row.columns.tolist() == ["method", "HR@1", "HR@10", "MRR", "AUC"]
    assert row["AUC"].item() == f"{1 - (ranks - 1).mean() / m:.6f}"
    table_bounds = published(row, n_items=100, n_negatives=m, users=ranks.size, replacement=False)
    assert table_bounds.checks["together"].all()
    low, high = table_bounds.frame.set_index("metric").loc["auc", ["low", "high"]]
    assert low < float(row["AUC"].item()) < high
    assert pykeen_metrics(flat, side="head").to_dict("list") == {
        "method": ["method"], "HR@10": ["0.250000"],
    }  # fmt: skip
    with pytest.raises(ValueError, match="metric of side 'tail', got both"):
        pykeen_metrics(flat, side="tail")


def test_averages_of_pykeen_with_ties_are_ranges_of_what_averaging_over_ties_gives():
    rng, users, m = np.random.default_rng(1), 300, 20
    better = rng.integers(0, 4, users)
    tied = rng.integers(0, 12, users)
    ranks = {"optimistic": better + 1, "pessimistic": better + tied + 1}
    ranks["realistic"] = better + 1 + tied / 2
    averaged = {f"HR@{k}": np.clip((k - better) / (tied + 1), 0, 1).mean() for k in (1, 3, 10)}
    averaged["MRR"] = np.mean([(1 / np.arange(b + 1, b + t + 2)).mean()
                               for b, t in zip(better, tied, strict=True)])  # fmt: skip
    averaged["AUC"] = (1 - (better + tied / 2) / m).mean()
    flat = {}
    for policy, places in ranks.items():
        for k in (1, 3, 10):
            flat[f"both.{policy}.hits_at_{k}"] = (places <= k).mean()
        flat[f"both.{policy}.inverse_harmonic_mean_rank"] = (1 / places).mean()
        index = 1 - (places.mean() - 1) / (m / 2)
        flat[f"both.{policy}.adjusted_arithmetic_mean_rank_index"] = index
    widths = []
    for policies in (["realistic"], ["optimistic", "pessimistic"], ["optimistic"], list(ranks)):
        some = {key: value for key, value in flat.items() if key.split(".")[1] in policies}
        row = pykeen_metrics(some).iloc[0]
        ends = {name: [*map(float, row[name].split(" to "))] for name in averaged}
        for name, value in averaged.items():
            assert ends[name][0] - 1e-6 <= value <= ends[name][-1] + 1e-6
        widths.append(sum(each[-1] - each[0] for each in ends.values()))
        bounds = published(pykeen_metrics(some), n_items=500, n_negatives=m, users=users,
                           replacement=False, assumption=None)  # fmt: skip
        assert bounds.checks["together"].all()
    assert widths[3] < min(widths[:3])
    assert ends["AUC"] == [pytest.approx(averaged["AUC"], abs=1e-6)]

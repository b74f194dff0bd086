"""Metrics in a loop: exact ranks of the same scores, whatever the batches, and refused input."""

import pickle
from itertools import permutations

import array_api_strict as xp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import sampled_metrics as sm
from tests.reference import slow

USERS, ITEMS = 60, 40
RNG = np.random.default_rng(5)
#: Integers, so that many scores tie.
SCORES = RNG.integers(0, 15, (USERS, ITEMS)).astype(np.float32)
TARGETS = RNG.integers(0, ITEMS, USERS)
MARKED = np.zeros((USERS, ITEMS), dtype=int)
MARKED[np.arange(USERS), TARGETS] = 1
MASK = RNG.random((USERS, ITEMS)) < 0.8
MASK[np.arange(USERS), TARGETS] = True
RELEVANT = RNG.random((USERS, ITEMS)) < 0.1
RELEVANT[np.arange(USERS), TARGETS] = True
#: Two relevant items in each row, and a score that is not a number in row 7.
SEVERAL = np.zeros((USERS, ITEMS), dtype=bool)
SEVERAL[:, :2] = True
WITH_NAN = SCORES.copy()
WITH_NAN[7, 3] = np.nan
#: The relevant item is the only candidate.
ONLY = np.zeros_like(MASK)
ONLY[np.arange(USERS), TARGETS] = True
NAMES = ["ndcg@10", "rr", "recall@5", "ap", "auc"]


def ranks_by_sorting(row, mask=None):
    """Items above, tied and in all, counted one by one."""
    kept = [j for j in range(ITEMS) if mask is None or mask[row, j]]
    own = SCORES[row, TARGETS[row]]
    above = sum(bool(SCORES[row, j] > own) for j in kept)
    return above, sum(bool(SCORES[row, j] == own) for j in kept) - 1, len(kept)


def filled(name, sizes, **options):
    measure = sm.RankMetric(name)
    for start, stop in zip(np.cumsum([0, *sizes[:-1]]), np.cumsum(sizes), strict=True):
        rows = slice(int(start), int(stop))
        measure.update(SCORES[rows], TARGETS[rows], **{k: v[rows] for k, v in options.items()})
    return measure


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mask", [None, MASK])
def test_it_is_the_mean_over_ties_of_ranks_counted_one_by_one(name, mask):
    measure = filled(name, [USERS], **({} if mask is None else {"mask": mask}))
    expected = []
    for row in range(USERS):
        above, tied, n = ranks_by_sorting(row, mask)
        places = above + 1 + np.arange(tied + 1)
        expected.append(np.mean(np.atleast_1d(sm.metric(name)(places, n))))
    row = measure.compute().frame.iloc[0]
    assert row["estimate"] == pytest.approx(np.mean(expected), rel=1e-14)
    assert row["users"] == USERS


@pytest.mark.parametrize("sizes", [[60], [1] * 60, [7, 30, 23]])
def test_batches_and_workers_change_no_digit(sizes):
    whole = filled("ndcg@10", [60], mask=MASK)
    parts = filled("ndcg@10", sizes, mask=MASK)
    assert parts.kinds == whole.kinds
    half, other = sm.RankMetric("ndcg@10"), sm.RankMetric("ndcg@10")
    half.update(SCORES[:25], TARGETS[:25], MASK[:25])
    other.update(SCORES[25:], TARGETS[25:], MASK[25:])
    half.merge(pickle.loads(pickle.dumps(other)))
    assert half.kinds == whole.kinds
    assert half.compute().frame.equals(whole.compute().frame)
    half.reset()
    assert not half.kinds
    half.update(SCORES[:, :9], np.zeros(60, dtype=int))
    assert half.kinds.total() == 60


def test_sampled_ranks_are_estimated_as_their_log_is():
    protocol = sm.Protocol(500, ITEMS - 1, replacement=False)
    measure = sm.RankMetric("ndcg@10", protocol)
    measure.update(SCORES, TARGETS)
    counted = [ranks_by_sorting(row)[:2] for row in range(USERS)]
    frame = pd.DataFrame(counted, columns=["n_better", "n_tied"]).assign(user=range(USERS))
    sizes = {"n_items": 500, "n_negatives": ITEMS - 1, "replacement": False}
    log = sm.read_log(frame.assign(recommender="model"), **sizes)
    expected = sm.estimate(log, ["ndcg@10"]).frame.iloc[0]
    found = measure.compute().frame.iloc[0]
    assert found["reported"] == pytest.approx(expected["reported"], rel=1e-14)
    assert found["possible_low"] == pytest.approx(expected["possible_low"], abs=1e-6)
    assert found["possible_high"] == pytest.approx(expected["possible_high"], abs=1e-6)


def test_arrays_of_other_libraries_give_the_same_counts():
    measure = sm.RankMetric("rr")
    measure.update(xp.asarray(SCORES), TARGETS)
    assert measure.kinds == filled("rr", [USERS]).kinds
    several = sm.RankMetric("ap")
    several.update(xp.asarray(SCORES), RELEVANT)
    plain = sm.RankMetric("ap")
    plain.update(SCORES, RELEVANT)
    assert several.kinds == plain.kinds


def over_orders(name, scores, relevant):
    """The mean of a metric over every order of the items that their scores allow."""
    orders = permutations(range(len(scores)))
    allowed = [order for order in orders if (np.diff(scores[list(order)]) <= 0).all()]
    places = [tuple(p for p, item in enumerate(order, 1) if relevant[item]) for order in allowed]
    return float(np.mean([float(slow(name, p, len(scores))) for p in places]))


@pytest.mark.parametrize(
    "name", ["ndcg@3", "ndcg@9", "rr", "recall@2", "hit@2", "precision@2", "ap", "ap@2", "auc"]
)
def test_ties_are_averaged_over_all_their_orders(name):
    rng = np.random.default_rng(8)
    scores = rng.integers(0, 3, (25, 6))
    relevant = rng.permuted(np.tile(np.arange(6), (25, 1)), axis=1) < rng.integers(1, 5, (25, 1))
    scores[:2] = 1  # of a constant scorer
    measure = sm.RankMetric(name)
    measure.update(scores, relevant)
    expected = np.mean([over_orders(name, *row) for row in zip(scores, relevant, strict=True)])
    assert measure.compute().frame["estimate"].iloc[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scores": SCORES[0]}, "scores must have a row for each user.*got shape .40,"),
        (
            {"scores": SCORES[:, :9], "targets": TARGETS % 9},
            "scores must have 40 columns again, got 9",
        ),
        ({"scores": SCORES.astype(str)}, "scores must be real numbers, got dtype <U32"),
        ({"targets": TARGETS[:9]}, "targets must be a column for each of 60 rows.*shape .9,"),
        ({"targets": np.full(USERS, ITEMS)}, r"targets must be .*39.*, got 40"),
        ({"targets": TARGETS - ITEMS}, "targets must be >= 0, got -"),
        ({"targets": RELEVANT[:, :9]}, "targets must be columns, or booleans of shape .60, 40"),
        (
            {"targets": np.zeros_like(RELEVANT)},
            "targets must mark one item or more in each row, got 0 in row 0",
        ),
        ({"targets": np.ones_like(RELEVANT)}, "irrelevant candidates in each row, got none in 0"),
        ({"scores": WITH_NAN, "targets": SEVERAL}, "scores must not be NaN, got one in row 7"),
        ({"mask": np.zeros_like(MASK)}, "mask must keep targets, got False for column .* row 0"),
        ({"mask": ONLY}, "scores must have irrelevant candidates in each row, got none in 0"),
        ({"targets": RELEVANT, "mask": ~RELEVANT}, "mask must keep relevant items.* row 0"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(change, said):
    measure = filled("rr", [USERS])
    before = measure.kinds.copy()
    given = {"scores": SCORES, "targets": TARGETS, "mask": None} | change
    with pytest.raises(ValueError, match=said) as problem:
        measure.update(**given)
    assert "\n" not in str(problem.value)
    assert measure.kinds == before


def merged(other):
    """Merge into a state, which a refusal must leave as it was."""
    measure = filled("rr", [9])
    before = measure.kinds.copy()
    try:
        measure.merge(other)
    finally:
        assert measure.kinds == before


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sm.RankMetric("rr", sm.Protocol([5, 6], 2)), "one n_items"),
        (lambda: sm.RankMetric("rr").compute(), "must have seen two users, got 0"),
        (lambda: merged(filled("ap", [9])), "other must have the metric .*rr.*, got .*ap"),
        (lambda: merged(sm.RankMetric("rr", sm.Protocol(500, 39))), "must have the protocol None"),
        (lambda: filled("rr", [9]).merge(3), "must be a RankMetric, got int"),
        (
            lambda: sm.RankMetric("rr", sm.Protocol(500, 99)).update(SCORES, TARGETS),
            "scores must have 100 columns, a relevant item and 99 negatives, got 40",
        ),
        (
            lambda: sm.RankMetric("rr", sm.Protocol(500, 39)).update(SCORES, TARGETS, MASK),
            "mask must be left out with a protocol",
        ),
        (
            lambda: sm.RankMetric("rr", sm.Protocol(500, 39)).update(SCORES, RELEVANT),
            "targets must mark one item, with a protocol, in each row, got",
        ),
        (lambda: sm.evaluate({}, TARGETS), "scores must have a recommender, got none"),
        (
            lambda: sm.evaluate({"A": SCORES, "B": SCORES[:9]}, TARGETS),
            "^B: targets must be a column for each of 9 rows",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_evaluate_is_the_loop_at_once_and_can_be_compared():
    better = SCORES.copy()
    better[np.arange(USERS), TARGETS] += 6
    found = sm.evaluate({"old": SCORES, "new": better}, TARGETS, mask=MASK, metrics=["rr", "auc"])
    table = found.frame.set_index(["recommender", "metric"])["estimate"]
    alone = filled("rr", [USERS], mask=MASK).compute().frame["estimate"].iloc[0]
    assert table["old", "rr"] == pytest.approx(alone, rel=1e-14)
    assert found.log is not None
    assert sm.compare(found.log, "auc").verdicts == {("old", "new"): "new beats old"}


class Qrels:
    """As in ranx: judgements, or a run, that become mappings."""

    def __init__(self, values):
        self.values = values

    def to_dict(self):
        return self.values


#: The same scores in long form, by the names that other software gives, and one by one.
LONG = pd.DataFrame(
    [(u, i, SCORES[u, i], int(i == TARGETS[u])) for u in range(USERS) for i in range(ITEMS)],
    columns=["userID", "itemID", "prediction", "label"],
)
RUN = {f"u{u}": {f"i{i}": float(SCORES[u, i]) for i in range(ITEMS)} for u in range(USERS)}
JUDGED = {f"u{u}": {f"i{TARGETS[u]}": 1.0} for u in range(USERS)}
RECO = LONG.set_axis(["user_id", "item_id", "score", "label"], axis=1)
TESTED = RECO.loc[RECO["label"] == 1, ["user_id", "item_id"]]
#: Distinct scores, whose ranks have no ties.
DISTINCT = SCORES + np.arange(ITEMS, dtype=np.float32) / 100
OWN = DISTINCT[np.arange(USERS), TARGETS][:, np.newaxis]
ABOVE = (DISTINCT > OWN).sum(axis=1)
EXACT = sm.Protocol(ITEMS, ITEMS - 1, replacement=False)


@pytest.mark.parametrize(
    ("given", "targets", "options"),
    [
        (SCORES, pd.Series(TARGETS), {}),
        (SCORES.tolist(), TARGETS.tolist(), {}),
        (SCORES, MARKED, {}),
        (SCORES, MARKED == 1, {}),
        (SCORES, sp.csr_array(MARKED), {}),
        (LONG, None, {"n_items": ITEMS}),
        (pa.Table.from_pandas(LONG), None, {"n_items": ITEMS}),
        (LONG, None, {"protocol": EXACT}),
        (RUN, JUDGED, {"n_items": ITEMS}),
        (Qrels(RUN), Qrels(JUDGED), {"n_items": ITEMS}),
        ({"A": RUN, "B": Qrels(RUN)}, JUDGED, {"n_items": ITEMS}),
        (RECO[["user_id", "item_id", "score"]], TESTED, {"n_items": ITEMS}),
    ],
)
def test_evaluate_takes_scores_in_all_forms(given, targets, options):
    expected = sm.evaluate(SCORES, TARGETS, metrics=NAMES).frame
    frame = sm.evaluate(given, targets, metrics=NAMES, **options).frame
    for _, rows in frame.groupby("recommender"):
        for column in ("reported", "estimate", "possible_low", "possible_high"):
            assert rows[column].to_numpy() == pytest.approx(expected[column].to_numpy(), abs=1e-6)
    assert frame["recommender"].nunique() == 1 + ("A" in list(frame["recommender"]))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (ABOVE + 1, {"protocol": EXACT}),
        (ABOVE, {"protocol": EXACT, "first_rank": 0}),
        ({"A": xp.asarray(ABOVE + 1), "B": ABOVE + 1}, {"protocol": EXACT, "first_rank": 1}),
        (pd.DataFrame({"user": range(USERS), "position": ABOVE}), {"first_rank": 0}),
        (pd.DataFrame({"uid": range(USERS), "position": ABOVE + 1}), {"first_rank": 1}),
        (pd.DataFrame({"user": range(USERS), "rank": ABOVE + 1}), {}),
        (dict(enumerate((ABOVE + 1).tolist())), {}),
        ({"user": range(USERS), "rank": ABOVE + 1}, {"first_rank": 1}),
        (pd.DataFrame({"user": range(USERS), "n_better": ABOVE, "n_tied": 0}), {}),
        (
            pd.DataFrame({"user": range(USERS), "rank": ABOVE + 1}).assign(
                n_items=ITEMS, n_negatives=ITEMS - 1
            ),
            {"replacement": False, "protocol": None},
        ),
    ],
)
def test_evaluate_takes_ranks_in_all_forms(given, options):
    expected = sm.evaluate(DISTINCT, TARGETS, metrics=NAMES).frame["estimate"].to_numpy()
    frame = sm.evaluate(given, metrics=NAMES, **{"protocol": EXACT, **options}).frame
    for _, rows in frame.groupby("recommender"):
        assert rows["estimate"].to_numpy() == pytest.approx(expected, rel=1e-12)


def test_a_sample_of_scores_is_estimated_not_taken_as_exact():
    rng = np.random.default_rng(3)
    kept = LONG["label"].eq(1) | (rng.random(len(LONG)) < 0.5)
    found = sm.evaluate(LONG[kept], n_items=ITEMS, metrics=["ndcg@10"])
    counts = sm.readers.from_scores(
        LONG[kept].set_axis(["user", "item", "score", "relevant"], axis=1)
    )
    expected = sm.estimate(sm.read_log(counts, n_items=ITEMS), ["ndcg@10"]).frame.iloc[0]
    row = found.frame.iloc[0]
    assert row["reported"] == expected["reported"] > row["estimate"] == expected["estimate"]
    shared = {"A": RUN, "B": RUN}
    with pytest.raises(ValueError, match="shared_negatives"):  # all users have the same items
        sm.evaluate(shared, JUDGED, n_items=500)


POSITIONS = pd.DataFrame({"user": range(USERS), "position": ABOVE})


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (ABOVE + 1, {}, "protocol is needed for ranks"),
        (ABOVE, {"protocol": EXACT}, "rank must be >= 1, got 0"),
        (SCORES, {"protocol": EXACT}, "ranks of the same users, got ..60, 40"),
        ({"A": ABOVE, "B": ABOVE[:9]}, {"protocol": EXACT}, "the same users, got ..60,., .9,."),
        (POSITIONS, {"protocol": EXACT}, "first_rank must be 0 or 1, the best position, got None"),
        (POSITIONS, {"protocol": EXACT, "first_rank": 1}, "rank must be >= 1, got 0"),
        (LONG, {}, "n_items is needed"),
        (LONG, {"n_items": ITEMS, "first_rank": 0}, "scores must have one column rank"),
        (LONG, {"n_items": ITEMS, "protocol": EXACT}, "n_items must be left out with a protocol"),
        (LONG, {"n_items": ITEMS, "mask": MASK}, "mask must be left out with other forms"),
        (LONG.drop(columns="label"), {"n_items": ITEMS}, "must have one column relevant"),
        (SCORES, {"targets": TARGETS, "n_items": 9}, "n_items must be the 40 columns of"),
        (SCORES, {"targets": TARGETS, "first_rank": 0}, "first_rank must be left out with a matr"),
    ],
)
def test_evaluate_refuses_what_it_would_have_to_guess(given, options, said):
    with pytest.raises(ValueError, match=said) as problem:
        sm.evaluate(given, **options)
    assert "\n" not in str(problem.value)


def sampled_matrix(filling, lowest, most):
    """Scores of between `lowest` and `most` items in each row, and the column of the relevant."""
    rng = np.random.default_rng(7)
    scores, target = rng.normal(size=(50, 200)), rng.integers(0, 200, 50)
    keys = rng.random(scores.shape)
    keys[np.arange(50), target] = 0
    place = keys.argsort(axis=1).argsort(axis=1)
    return np.where(place < rng.integers(lowest, most + 1, (50, 1)), scores, filling), target


@pytest.mark.parametrize("filling", [-np.inf, -1e9, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize(("lowest", "most"), [(21, 21), (18, 21), (150, 150)])
def test_a_matrix_with_a_sample_in_each_row_is_not_taken_for_all_items(filling, lowest, most):
    scores, target = sampled_matrix(filling, lowest, most)
    with pytest.raises(ValueError, match=r"must hold those of all items, got about .* of 200"):
        sm.evaluate(scores, target)
    with pytest.raises(ValueError, match="False in mask elsewhere, as if a sample was scored"):
        sm.evaluate(np.where(scores == filling, 0, scores), target, mask=scores != filling)
    metric = sm.RankMetric("recall@10")
    with pytest.raises(ValueError, match="scores must hold those of all items"):
        metric.update(xp.asarray(scores), target)
    assert not metric.kinds
    stated = sm.evaluate(scores, target, mask=scores != filling, n_items=200, metrics=["recall@10"])
    own = scores[np.arange(50), target]
    assert stated.frame["estimate"].item() == np.mean((scores > own[:, None]).sum(axis=1) < 10)


def test_scores_of_all_items_stay_exact():
    rng = np.random.default_rng(8)
    scores, target = rng.normal(size=(50, 200)), rng.integers(0, 200, 50)
    rank = 1 + (scores > scores[np.arange(50), target][:, None]).sum(axis=1)

    def recall(matrix, **options):
        return float(
            sm.evaluate(matrix, target, metrics=["recall@10"], **options).frame["estimate"][0]
        )

    assert recall(scores) == np.mean(rank <= 10)
    training = rng.random(scores.shape) < rng.random((50, 1)) * 0.4
    training[np.arange(50), target] = False
    masked = np.where(training, -np.inf, scores)
    rest = 1 + (masked > scores[np.arange(50), target][:, None]).sum(axis=1)
    assert recall(masked) == recall(scores, mask=~training) == np.mean(rest <= 10)
    padded = np.c_[scores, np.full(50, -np.inf)]  # a column for padding is no sample
    assert recall(padded) == np.mean(rank <= 10)
    sparse = np.where(rng.random(scores.shape) < 0.9, 0.0, scores)  # most items tie at zero
    ties = (sparse == sparse[np.arange(50), target][:, None]).sum(axis=1)
    above = (sparse > sparse[np.arange(50), target][:, None]).sum(axis=1)
    expected = np.mean(np.clip(10 - above, 0, ties) / ties)
    assert recall(sparse) == pytest.approx(expected, rel=1e-12)


def test_lists_of_the_best_k_and_batches_are_refused():
    rng = np.random.default_rng(9)
    scores, target = rng.normal(size=(50, 200)), rng.integers(0, 200, 50)
    best = scores.argsort(axis=1).argsort(axis=1) >= 190
    with pytest.raises(ValueError, match="as in lists of the best k"):
        sm.evaluate(np.where(best, scores, -np.inf), target)
    batch, own = rng.normal(size=(64, 64)), np.arange(64)
    for protocol in (None, sm.Protocol(5_000, 63, replacement=False)):
        with pytest.raises(ValueError, match="items of a batch are one sample for all its rows"):
            sm.evaluate(batch, own, protocol)
    exact = np.mean((batch > batch.diagonal()[:, None]).sum(axis=1) < 10)
    stated = sm.evaluate(batch, own, n_items=64, metrics=["recall@10"])
    by_protocol = sm.evaluate(
        batch, own, sm.Protocol(64, 63, replacement=False), metrics=["recall@10"]
    )
    assert stated.frame["estimate"][0] == by_protocol.frame["estimate"][0] == exact
    metric = sm.RankMetric("recall@10", n_items=64)
    metric.update(batch, own)
    assert metric.compute().frame["estimate"][0] == exact


def test_pandas_objects_are_aligned_by_their_index():
    rng = np.random.default_rng(10)
    users = [f"u{i}" for i in range(80)]
    order, protocol = rng.permutation(80), sm.Protocol(1_000, 50, replacement=False)
    first = rng.integers(1, 52, 80)
    second = np.minimum(first + (rng.random(80) < 0.3), 51)
    tables = [
        sm.compare(
            sm.evaluate(
                {"A": pd.Series(first, users), "B": pd.Series(second, users).iloc[rows]},
                protocol=protocol,
                metrics=["auc"],
            ).log,
            "auc",
        ).frame
        for rows in (slice(None), order)
    ]
    pd.testing.assert_frame_equal(*tables)
    scores, target = rng.normal(size=(80, 300)), rng.integers(0, 300, 80)
    rows = [
        sm.evaluate(
            pd.DataFrame(scores, users), pd.Series(target, users).iloc[rows], metrics=["rr"]
        )
        for rows in (slice(None), order)
    ]
    assert rows[0].frame["estimate"].equals(rows[1].frame["estimate"])
    with pytest.raises(ValueError, match="must have the users of the other arguments in its index"):
        sm.evaluate(pd.DataFrame(scores, users), pd.Series(target), metrics=["rr"])


def test_lists_of_targets_are_refused():
    with pytest.raises(ValueError, match="lists of 1 to 2 columns: mark the relevant items"):
        sm.evaluate(SCORES[:2], [[0], [1, 2]])
    with pytest.raises(ValueError, match="got a sparse matrix"):
        sm.evaluate(sp.csr_array(MARKED), TARGETS)


def test_ranks_in_a_sparse_matrix_are_the_exact_ranks():
    """As of LightFM's predict_rank: several test items a user, and 0 is the best rank."""
    rng = np.random.default_rng(13)
    user, item = np.nonzero(rng.random((40, 30)) < 0.1)
    rank = np.concatenate([rng.choice(30, n, replace=False) for n in np.bincount(user) if n])
    ranks = sp.csr_array((rank.astype(np.float32), (user, item)), shape=(40, 30))
    given = {"A": ranks, "B": ranks}
    frame = sm.evaluate(given, n_items=30, first_rank=0, metrics=["rr", "precision@5"]).frame
    users = [rank[user == each] for each in np.unique(user)]
    reciprocal = np.mean([1 / (1 + own.min()) for own in users])
    precision = np.mean([(own < 5).sum() / 5 for own in users])
    assert frame["estimate"].tolist() == pytest.approx([reciprocal, precision] * 2)
    with pytest.raises(ValueError, match="a sparse matrix: ranks among all items, as of LightFM"):
        sm.evaluate({"A": ranks, "B": ABOVE}, n_items=30, first_rank=0)
    with pytest.raises(ValueError, match="evaluate takes a sparse matrix of ranks"):
        sm.read_log(ranks, n_items=30, n_negatives=29, replacement=False)


def test_judgements_may_be_sets_lists_or_one_document():
    rng = np.random.default_rng(12)
    documents = [f"d{i}" for i in range(20)]
    run = {
        f"q{i}": dict(zip(documents, rng.permutation(20).tolist(), strict=True)) for i in range(30)
    }
    ranked = {query: sorted(found, key=lambda d: -found[d]) for query, found in run.items()}
    forms = [{"d3": 1}, {"d3"}, ["d3"], "d3"]
    values = {
        sm.evaluate(given, dict.fromkeys(run, form), n_items=20, metrics=["rr"]).frame["estimate"][
            0
        ]
        for form in forms
        for given in (run, ranked)
    }
    assert len(values) == 1

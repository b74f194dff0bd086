"""Estimates from a log: by hand, by enumeration, and by estimators of other protocols."""

import tracemalloc
from collections import Counter
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import Protocol, estimators, evaluation, metric
from sampled_metrics.evaluation import ESTIMATORS, FITTED, UNDECIDED
from sampled_metrics.log.read import read_log
from sampled_metrics.ranking.intervals import RankIntervals
from tests.reference import bundled_ranks, draw_log
from tests.sampled_metrics.designs.logs import compare, estimate, estimate_each, log_of, two, values

PLAIN = [name for name in ESTIMATORS[1:] if name not in FITTED]


def test_naive_by_hand():
    (row,) = estimate_each(log_of([1, 3, 2]), ["recall@2"], estimators=["naive"]).itertuples()
    assert row.value == pytest.approx(2 / 3)
    # Values 1, 0, 1: a variance of 1/3 between users. Student's 97.5% point for 2 is 4.302653.
    assert row.standard_error == pytest.approx(1 / 3)
    assert row.low == pytest.approx(2 / 3 - 4.302653 / 3, abs=1e-6)
    assert row.high == pytest.approx(2 / 3 + 4.302653 / 3, abs=1e-6)
    assert row.users == 3


def test_ties_are_averaged_over_their_order():
    table = pd.DataFrame({"user": [1, 2], "n_better": [1, 0], "n_tied": [2, 0]})
    log = read_log(table, n_items=50, n_negatives=9, replacement=True)
    by_hand = ((1 / 2 + 1 / 3 + 1 / 4) / 3 + 1) / 2
    assert values(log, "ap", "naive")[0] == pytest.approx(by_hand)


def enumerated(parsed_metric, scores, negatives):
    """Mean of a metric over all orders of equal scores, by putting the items in each order."""
    labels = [(s, True) for s in scores] + [(s, False) for s in negatives]
    count_by_ranks = Counter()
    for order in permutations(range(len(labels))):
        ranked = sorted(order, key=lambda i: -labels[i][0])  # stable: ties as in `order`
        count_by_ranks[tuple(place for place, i in enumerate(ranked, start=1) if labels[i][1])] += 1
    values = [parsed_metric.of_set(ranks, n_items=len(labels)) for ranks in count_by_ranks]
    return np.average(values, weights=list(count_by_ranks.values()))


@pytest.mark.parametrize("name", ["ap", "ndcg@3", "recall@2", "auc", "rr", "precision@3"])
def test_tied_relevant_items_are_averaged_over_their_order(name):
    users = {
        "u": ([5, 5, 2], [5, 5, 3, 1]),
        "v": ([4, 3, 3], [9, 4, 3, 1]),
        "w": ([7, 6, 5], [8, 7, 1, 1]),
    }
    rows, expected = [], []
    for user, (scores, negatives) in users.items():
        above = [sum(x > s for x in negatives) for s in scores]
        level = [sum(x == s for x in negatives) for s in scores]
        rows += [(user, i, a, t) for i, (a, t) in enumerate(zip(above, level, strict=True))]
        expected.append(enumerated(metric(name), scores, negatives))
    table = pd.DataFrame(rows, columns=["user", "item", "n_better", "n_tied"])
    log = read_log(table, n_items=40, n_negatives=4, replacement=True)
    assert values(log, name, "naive")[0] == pytest.approx(np.mean(expected), rel=1e-12)


def test_instances_of_a_user_are_averaged_before_users_are():
    table = pd.DataFrame({"user": [1, 1, 2], "instance": [1, 2, 1], "rank": [1, 4, 2]})
    (row,) = estimate_each(
        read_log(table, n_items=50, n_negatives=9, replacement=True), ["ap"], estimators=["naive"]
    ).itertuples()
    one, two = (1 + 1 / 4) / 2, 1 / 2
    assert row.value == pytest.approx((one + two) / 2)
    assert row.standard_error == pytest.approx(abs(one - two) / 2)
    assert row.users == 2


@pytest.mark.parametrize("of", ["recall@3", "ap", "auc"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_user_has_the_estimator_of_its_own_protocol(of, name):
    # Users differ in catalogue, negatives and relevant items; each has an estimator of its own.
    users = {"a": (60, 9, [2, 5]), "b": (50, 9, [3]), "c": (60, 7, [1]), "d": (90, 7, [8])}
    rows = [(user, n, m, r, r) for user, (n, m, ranks) in users.items() for r in ranks]
    table = pd.DataFrame(rows, columns=["user", "n_items", "n_negatives", "rank", "item"])
    expected = []
    for n, m, ranks in users.values():
        protocol = Protocol(n, m, n_relevant=len(ranks))
        estimator = {
            "naive": estimators.naive,
            "rank estimate": estimators.rank_estimate,
            "least bias": estimators.least_bias,
            "monotone": estimators.monotone,
            "bias-variance": lambda of, p: estimators.bias_variance(of, p, 1 / 2),
        }[name](metric(of), protocol)
        expected.append(sum(float(estimator(r, j)) for j, r in enumerate(ranks, start=1)))
    assert values(read_log(table, replacement=True), of, name)[0] == pytest.approx(
        np.mean(expected), rel=1e-9
    )


CORRECTIONS = {
    "naive": estimators.naive,
    "rank estimate": estimators.rank_estimate,
    "monotone": estimators.monotone,
    "bias-variance": lambda of, protocol: estimators.bias_variance(of, protocol, 1e-3),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("of", ["recall@10", "ap"])
@pytest.mark.parametrize(
    ("name", "share"), [*zip(CORRECTIONS, [1e-9, 1e-9, 0.01, 1e-6], strict=True)]
)
def test_many_sizes_of_the_catalogue_cost_no_accuracy(of, name, share):
    # Over a hundred sizes: corrections are interpolated between a few of them.
    intervals = bundled_ranks()["Y"]
    user_index = np.sort(np.unique(intervals.n_candidates, return_index=True)[1])[::7]
    ranks = RankIntervals(
        intervals.n_better[user_index],
        intervals.n_tied[user_index],
        intervals.n_candidates[user_index],
    )
    rows = draw_log({"Y": ranks}, 30, np.random.default_rng(3))
    assert rows["n_items"].nunique() > 100
    log = read_log(rows, replacement=False)
    table = estimate_each(log, [of], estimators=[name], gamma=1e-3)
    user_values = []
    for user in rows.itertuples():
        protocol = Protocol(user.n_items, 30, replacement=False)
        places = np.arange(user.n_better, user.n_better + user.n_tied + 1)
        user_values.append(CORRECTIONS[name](metric(of), protocol).values[places].mean())
    error = abs(table["value"][0] - np.mean(user_values)) / table["standard_error"][0]
    assert error < (0.01 if name == "monotone" else 1e-6)


LOG = log_of([1, 3, 2])
#: All users at the middle of 99 negatives, where a binomial count would spread.
MIDDLE = log_of([50] * 200, n_items=1_000, n_negatives=99)
CONTRADICT = "the ranks of {} contradict the protocol at any true ranks: .* check n_items"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimate(LOG, ["nddg@10"]), "did you mean 'ndcg'"),
        (lambda: estimate(LOG, ["ap"], estimator="naiv"), "did you mean 'naive'"),
        (lambda: estimate(LOG, ["ap"], confidence=95), "confidence must be a number in"),
        (lambda: estimate(LOG, ["ap"], gamma=0), "gamma must be a finite number > 0"),
        (lambda: estimate(log_of([1]), ["ap"]), "users must be 2 or more"),
        (lambda: compare(LOG, "ap"), "recommenders must be 2 or more to be compared"),
        (lambda: compare(two([1, 2, 3], [1, 2]), "ap"), "A and B differ in 1, such as 2"),
        (lambda: estimate(LOG.frame, ["ap"]), "replacement is missing: say whether"),
        (lambda: estimate(LOG, replacement=False), "replacement must be True as in the log"),
        (lambda: estimate(MIDDLE, ["ap"]), CONTRADICT.format("recommender")),
        (
            lambda: compare(
                pd.concat([MIDDLE.frame.assign(recommender=name) for name in "AB"]),
                "ap",
                replacement=MIDDLE.replacement,
            ),
            CONTRADICT.format("A"),
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ({"user": [1, 2], "rank": [1, 3]}, {"n_items": 30_000_000}, "a user has 30,000,000 items"),
        (
            {"user": [1, 2, 3], "rank": [1, 2, 3], "n_items": [11, 5, 5], "n_negatives": [9, 3, 3]},
            {"replacement": False},
            "a user has 9 negatives, and a fit is for the mean of n_items, 7",
        ),
    ],
)
def test_a_prior_that_does_not_fit_is_said(columns, options, reason):
    sizes = {} if "n_items" in columns else {"n_items": 50, "n_negatives": 9}
    log = read_log(pd.DataFrame(columns), **({"replacement": True} | sizes | options))
    estimates = evaluation.estimate(log, ["ap"], identification=False, gamma=0.1)
    assert estimates.settings["estimator"] == "bias-variance"
    note = estimates.notes[0]
    assert note.startswith("estimates are by bias-variance without a fitted prior: ")
    assert reason in note
    with pytest.raises(ValueError, match=f"'maximum entropy' does not fit this log: {reason}"):
        values(log, "ap", "maximum entropy")


@pytest.mark.parametrize("n_relevant", [1, 2])
@pytest.mark.parametrize("name", ["recall@1", "hit@1", "ndcg@1", "rr@1", "auc"])
def test_draws_that_tie_are_copies_if_there_is_one_other_item(name, n_relevant):
    users, m = 300, 5
    rows = pd.DataFrame({"user": np.repeat(range(users), n_relevant), "n_better": 0, "n_tied": m})
    rows["item"] = np.tile(range(n_relevant), users)
    log = read_log(rows, n_items=1 + n_relevant, n_negatives=m, replacement=True)
    items = range(n_relevant + 1)  # the last one is irrelevant, and all tie
    values = [
        metric(name).of_set([1 + order.index(i) for i in range(n_relevant)], 1 + n_relevant)
        for order in permutations(items)
    ]
    row = evaluation.estimate(log, [name], assumption=None).frame.iloc[0]
    assert row[["reported", "estimate"]].tolist() == pytest.approx([np.mean(values)] * 2)
    assert row["possible_low"] <= np.mean(values) <= row["possible_high"]
    assert row["possible_high"] - row["possible_low"] < 0.05


def dependent_log():
    """Two recommenders whose ranks depend on each other, and on each other within a user."""
    rng, rows = np.random.default_rng(6), []
    for user in range(80):
        taste = rng.beta(1, 3)
        for name, shift in (("A", 0.0), ("B", 0.1)):
            ranks = rng.binomial(7, min(taste + shift, 1.0), 1 + user % 2).tolist()
            rows += [(name, user, i, x, int(rng.integers(0, 3))) for i, x in enumerate(ranks)]
    columns = ["recommender", "user", "item", "n_better", "n_tied"]
    table = pd.DataFrame(rows, columns=columns)
    return read_log(table, n_items=200, n_negatives=9, replacement=True)


def test_the_row_of_a_recommender_is_that_of_its_estimator():
    log = log_of([1, 3, 2, 10, 1, 7])
    rows = estimate(log, ["ap", "auc"])
    all_estimates = estimate_each(log, ["ap", "auc"], ESTIMATORS).set_index(["metric", "estimator"])
    names = ("learned prior", "naive")
    for row, name in zip(rows.itertuples(), names, strict=True):
        assert row.reported == all_estimates.loc[(row.metric, "naive"), "value"]
        assert row.estimate == all_estimates.loc[(row.metric, name), "value"]
        assert row.standard_error == all_estimates.loc[(row.metric, name), "standard_error"]
    (auc,) = (row for row in rows.itertuples() if row.metric == "auc")
    low, high = all_estimates.loc[("auc", "naive"), ["low", "high"]]
    # Six users of whom few are far from the rest: Student's interval promises less.
    assert 0 <= auc.possible_low < auc.estimate < auc.possible_high <= 1
    assert 0.7 * (high - low) < auc.possible_high - auc.possible_low < 1.3 * (high - low)


def test_rounding_is_no_difference_and_no_error():
    rng = np.random.default_rng(4)
    ranks = rng.integers(1, 12, 199)
    table = pd.concat(
        pd.DataFrame({"recommender": name, "user": range(199), "rank": order})
        for name, order in (("A", ranks), ("B", rng.permutation(ranks)), ("C", ranks[::-1]))
    )
    log = read_log(table, n_items=500, n_negatives=11, replacement=True)
    for of in ("ndcg", "auc"):  # AUC has a Student's interval
        comparisons = compare(log, of)
        assert (comparisons[["reported", "estimate"]] == 0).all(axis=None)
        assert (comparisons["verdict"] == UNDECIDED).all()
        assert (comparisons["favoured"] == "").all()
    equal_log = log_of([1] * 30, n_items=500, n_negatives=11)
    errors = estimate_each(equal_log, ["ndcg@10"], ESTIMATORS[1:])["standard_error"]
    assert (errors == 0).all()
    # The learned prior knows how far the top of 30 equal sampled ranks is from that of all items.
    (error,) = estimate_each(equal_log, ["ndcg@10"], ["learned prior"])["standard_error"]
    assert error > 0


def test_ranks_that_were_cut_are_named():
    rng = np.random.default_rng(0)
    ranks = 1 + rng.binomial(50, rng.beta(0.7, 2, 800))
    estimate(log_of(ranks, n_items=1_000, n_negatives=50), ["recall@10"])  # is possible
    cut = log_of(np.minimum(ranks, 11), n_items=1_000, n_negatives=50)
    message = "rank 11 is the last and has many users, as if all ranks beyond 10 were written as 11"
    with pytest.raises(ValueError, match=message):
        estimate(cut, ["recall@10"])


def pair(n, **columns):
    """Rows of A and B for the same n users."""
    rows = {"recommender": np.repeat(["A", "B"], n), "user": np.tile(range(n), 2)}
    return pd.DataFrame(rows).assign(**columns)


FEW, REPEATED = [1, 2, 1] * 3 + [1] * 9, {"n_negatives": 9, "replacement": True}
EDGES = {
    "two users": two([1, 3], [2, 10]),
    "two users alike": two([1, 1], [10, 10]),
    "one negative": read_log(pair(9, rank=FEW), n_items=50, n_negatives=1, replacement=True),
    "two items": read_log(pair(9, rank=FEW), n_items=2, n_negatives=1, replacement=False),
    "exact ranks": read_log(
        pair(20, rank=[*range(1, 21), *[1] * 20]), n_items=20, n_negatives=19, replacement=False
    ),
    "all tied": read_log(pair(9, n_better=0, n_tied=9), n_items=50, **REPEATED),
    "a catalogue for each user": read_log(
        pair(40, rank=[1, 4, 2, 9] * 20, n_items=[*range(20, 820, 20)] * 2), **REPEATED
    ),
    "one to three items": dependent_log(),
}


#: Edges at which all items are ranked, and the naive metric has no bias.
WHOLE = ("two items", "exact ranks")


@pytest.mark.some(7)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("of", ["auc", "recall@10", "ap"])
@pytest.mark.parametrize("edge", EDGES)
def test_a_log_at_the_edge_has_numbers_and_no_warning(edge, of):
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        for assumption in ("decreasing", None):
            estimates = evaluation.estimate(EDGES[edge], [of], assumption=assumption)
            comparison = evaluation.compare(EDGES[edge], of, assumption=assumption)
            # Nothing here is like the benchmark: typical ranges and probability are missing.
            typical = ["typical_low", "typical_high"]
            probability = ["probability", "probability_low"]
            student = ["student_low", "student_high"]
            assert estimates.frame[typical].isna().all(axis=None)
            assert comparison.frame[probability].isna().all(axis=None)
            assert comparison.frame[student].isna().all(axis=None) or of == "auc" or edge in WHOLE
            needed = ["users_needed"]
            for table in (
                estimates.frame.drop(columns=typical),
                comparison.frame.drop(columns=[*needed, *probability, *student]),
            ):
                assert np.isfinite(table.select_dtypes("number").to_numpy()).all()
            assert (estimates.frame["possible_low"] <= estimates.frame["possible_high"]).all()
            (row,) = comparison.frame.itertuples()
            assert row.possible_low <= row.possible_high
            assert "nan" not in estimates.summary() + comparison.summary()
    if edge == "exact ranks" and of == "recall@10":
        # What was sampled is what there is, and users who differ in the metric tell.
        assert row.verdict == "B beats A"
        assert row.estimate == row.reported == -0.5


def test_memory_does_not_grow_with_users_times_negatives():
    rng, n_items, m = np.random.default_rng(4), 1_000_001, 100_000
    true_ranks = 1 + (n_items * rng.random(3_000) ** 5).astype(int)
    above = rng.hypergeometric(true_ranks - 1, n_items - true_ranks, m)
    rows = pd.DataFrame({"user": range(3_000), "n_better": above, "n_tied": 0, "n_negatives": m})
    log = read_log(rows, n_items=n_items, replacement=False)
    tracemalloc.start()
    try:
        found = evaluation.estimate(log, ["hit@20"], identification=False)
        ranks = evaluation.estimate(
            log, ["hit@20"], identification=False, estimator="rank estimate"
        )
        assert tracemalloc.get_traced_memory()[1] < 2**29
    finally:
        tracemalloc.stop()
    # The estimated rank is floor(1 + 10 above), up to 20 with at most one negative above.
    assert ranks.frame["estimate"].item() == pytest.approx((above <= 1).mean())
    row, exact = found.frame.iloc[0], (true_ranks <= 20).mean()
    assert abs(row["estimate"] - exact) < 3 * row["standard_error"]
    with pytest.raises(ValueError, match="'bias-variance' does not fit this log: a user has 100,0"):
        estimate(log, ["hit@20"], estimator="bias-variance")


def depths(log, metrics=("recall@10", "hit@20", "recall@5", "ndcg@10"), **options):
    notes = evaluation.estimate(log, list(metrics), identification=False, **options).notes
    return [note.split(" of all items")[0] for note in notes if " measures " in note]


@pytest.mark.parametrize("replacement", [True, False])
def test_a_note_says_which_exact_recall_is_measured(replacement):
    """Among 100 of 2,000 negatives one in 20 is drawn: 10 of those above are 200 in full."""
    users = {"user": np.arange(40), "rank": np.arange(40) % 30 + 1}
    sizes = {"n_items": 2_001, "replacement": replacement}
    log = read_log(pd.DataFrame(users), n_negatives=100, **sizes)
    assert depths(log) == [
        "reported recall@10 measures recall@200",
        "reported hit@20 measures hit@400",
    ]
    several = pd.DataFrame(users | {"half": np.arange(40) % 2})
    grouped = read_log(several, n_negatives=100, by="half", **sizes)
    assert depths(grouped, by="half") == depths(log)
    assert not depths(read_log(pd.DataFrame(users), n_negatives=49, **sizes))
    assert not depths(read_log(pd.DataFrame(users), n_negatives=201, **sizes))


@pytest.mark.parametrize(
    "columns",
    [
        {"n_items": [1_001, 3_004] * 20, "n_negatives": 100},  # catalogues too different
        {"n_items": 2_001, "n_negatives": [99, 100] * 20},
    ],
)
def test_users_who_are_evaluated_differently_have_no_common_depth(columns):
    table = pd.DataFrame({"user": np.arange(40), "rank": np.arange(40) % 30 + 1} | columns)
    assert not depths(read_log(table, replacement=False))
    table[list(columns)] = [2_001, 100]
    assert len(depths(read_log(table, replacement=False))) == 2

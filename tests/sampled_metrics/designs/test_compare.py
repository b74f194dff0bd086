"""Verdicts on pairs of recommenders, by enumeration and over simulated logs."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sampled_metrics as sm
from sampled_metrics import Protocol, RelevantSets, evaluation, metric
from sampled_metrics.designs import values as row_values
from sampled_metrics.designs.sample import Sample
from sampled_metrics.designs.values import Values
from sampled_metrics.evaluation import UNDECIDED
from sampled_metrics.log.read import read_log
from sampled_metrics.numerics import betting
from tests.sampled_metrics.designs.logs import compare, drawn, two


def test_differences_are_paired_by_user():
    log = two([1, 2, 4, 3], [2, 4, 4, 10])
    (row,) = compare(log, "auc").itertuples()
    # Of 9 negatives the second has 1, 2, 0 and 7 more above.
    differences = np.array([1, 2, 0, 7]) / 9
    assert row.estimate == row.reported == pytest.approx(differences.mean())
    assert row.standard_error == pytest.approx(differences.std(ddof=1) / 2)
    low, high = betting.interval(differences, -1.0, 1.0, 0.05)
    assert (row.possible_low, row.possible_high) == pytest.approx((low, high))
    assert row.detectable == pytest.approx((high - low) / 2)
    student = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    assert (row.student_low, row.student_high) == pytest.approx(tuple(student))
    assert student.low < 0 < student.high
    assert (row.verdict, row.favoured) == (UNDECIDED, "")


@pytest.mark.parametrize("name", [None, "bias-variance", "maximum entropy"])
def test_students_interval_is_left_out_for_estimators_with_a_bias(name):
    log = two([1, 2, 4, 3], [2, 4, 4, 10])
    for of in ("auc", "ap"):
        row = compare(log, of, estimator=name).iloc[0]
        is_unbiased = of == "auc" and name is None
        assert row[["student_low", "student_high"]].notna().tolist() == [is_unbiased] * 2


def test_verdicts_by_bets_are_adjusted_for_the_pairs():
    # Ten users of whom B is 9 and C is 4 places of 9 behind A.
    names, ranks = np.repeat(["A", "B", "C"], 10), np.repeat([1, 10, 5], 10)
    rows = {"recommender": names, "user": [*range(10)] * 3, "rank": ranks}
    log = read_log(pd.DataFrame(rows), n_items=10, n_negatives=9, replacement=False)
    stakes = [0.9 * 1.2**-k for k in range(8)]  # the last below 0.9 / root of 10
    by_pair = {}
    for pair, difference in {("A", "B"): 1, ("A", "C"): 4 / 9, ("B", "C"): 5 / 9}.items():
        by_pair[pair] = 2 / np.mean([(1 + t * difference) ** 10 for t in stakes])  # two sides
    first, second, third = sorted(by_pair, key=by_pair.get)
    assert [by_pair[pair] for pair in (first, second, third)] == sorted(by_pair.values())
    for error_rate, decided in [
        (0.99 * 3 * by_pair[first], set()),
        (1.01 * 3 * by_pair[first], {first}),
        (0.99 * 3 * by_pair[third], {first, second}),
        (1.01 * 3 * by_pair[third], {first, second, third}),
    ]:
        table = compare(log, "auc", confidence=1 - error_rate)
        decided_rows = table[table["verdict"] != UNDECIDED]
        assert set(zip(decided_rows["first"], decided_rows["second"], strict=True)) == decided, (
            error_rate
        )
    assert table["verdict"].tolist() == ["A beats B", "A beats C", "C beats B"]


def test_users_of_equal_auc_by_chance_are_no_verdict():
    # A is at rank 2 of 1,002, in 1 of 100 cases at the last, and B always at 12. No sample of 20
    # or 50 users without one of the cases can know of them.
    rng, protocol = np.random.default_rng(1), Protocol(1_002, 100)
    for users in (20, 50):
        drawn = {"A": protocol.draw(np.full(users, 2), rng)}
        drawn["B"] = protocol.draw(np.full(users, 12), rng)
        tables = [
            pd.DataFrame({"recommender": name, "user": range(users), "rank": ranks})
            for name, ranks in drawn.items()
        ]
        (row,) = compare(
            read_log(pd.concat(tables), n_items=1_002, n_negatives=100, replacement=True), "auc"
        ).itertuples()
        assert row.estimate > 2.5 * row.standard_error
        # Student's interval of so few users excludes 0, and this is no verdict.
        assert (row.verdict, row.assumption, row.favoured) == (UNDECIDED, "", "A")
        assert row.possible_low < 0 < row.student_low
        assert row.possible_high > 0


@pytest.mark.some(2)
@pytest.mark.simulation
@pytest.mark.parametrize("of", ["auc", "recall@10", "recall@50"])
def test_nothing_beside_a_verdict_contradicts_it(population, of):
    rng, verdicts = np.random.default_rng(8), set()
    truth = {name: metric(of)(ranks, 300).mean() for name, ranks in population.items()}
    for users, m, name in [(60, 5, None), (1_000, 60, "naive"), (60, 5, "maximum entropy")]:
        comparison = evaluation.compare(drawn(population, users, 300, m, rng), of, estimator=name)
        for row, sentence in zip(comparison.frame.itertuples(), comparison.sentences, strict=True):
            # The logs of 60 users are too small for a track record, and "naive" has none.
            assert row.warrant != "track record"
            assert np.isnan(row.probability)
            verdicts.add(is_decided := row.verdict != UNDECIDED)
            # An end of 0 beside a verdict is not possible itself.
            assert is_decided == (row.possible_low >= 0 or row.possible_high <= 0)
            assert not is_decided or row.verdict.startswith(row.first) == (row.possible_low >= 0)
            assert row.possible_low <= truth[row.first] - truth[row.second] <= row.possible_high
            assert is_decided == (row.assumption != "")
            assert is_decided == (row.warrant != "")
            assert not is_decided or row.favoured == ""
            assert not is_decided or pd.isna(row.users_needed)
            assert row.favoured in ("", row.first if row.estimate > 0 else row.second)
            assert of == "auc" or row.favoured == ""  # no estimate of recall is without bias
            assert row.detectable > 0
            assert pd.isna(row.users_needed) or row.users_needed > users
            assert sentence.startswith(row.verdict) == is_decided
            assert (": undecided" in sentence) != is_decided
            assert (" paired interval favours " in sentence) == (row.favoured != "")
    assert of == "recall@10" or verdicts == {False, True}


@pytest.mark.parametrize("name", ["auc", "ap", "recall@1", "recall@28", "recall@44", "recall@45"])
def test_a_metric_is_unbiased_if_it_is_so_by_the_definition_at_every_rank_and_size(name):
    rng, users = np.random.default_rng(2), 300
    sizes = rng.integers(30, 46, users)
    table = pd.DataFrame({"user": range(users), "n_items": sizes, "rank": 1})
    log = read_log(table, n_negatives=28, replacement=False)
    values = Values(Sample(log), 0.1)
    ends = np.array([naive_bias(size, 28, metric(name)) for size in np.unique(sizes)])
    assert values.unbiased(metric(name)) == (np.abs(ends).max() < 1e-9)


def naive_bias(n_items, n_negatives, parsed_metric):
    """The least and the largest bias of the naive metric over all ranks, from the definition."""
    ranks = np.arange(1, n_items + 1)
    sampled = np.arange(n_negatives + 1)
    pmf = stats.hypergeom(n_items - 1, (ranks - 1)[:, np.newaxis], n_negatives).pmf(sampled)
    bias = pmf @ parsed_metric(sampled + 1, n_negatives + 1) - parsed_metric(ranks, n_items)
    return bias.min(), bias.max()


def test_nothing_beside_a_verdict_counts_ties_as_half_right():
    # Up to nine negatives everything is a hit: no evaluation finds an order.
    (row,) = compare(two([1, 2, 5], [3, 1, 2]), "recall@10", estimator="naive").to_dict("records")
    assert row["verdict"] == UNDECIDED
    assert (row["estimate"], row["standard_error"], row["favoured"]) == (0, 0, "")


def test_an_unknown_order_by_auc_takes_about_as_many_users_as_it_says():
    rng, protocol = np.random.default_rng(3), Protocol(1_000, 100)
    true_ranks = [1 + rng.binomial(999, rng.beta(1, shape, 300)) for shape in (6.0, 5.2)]

    def found(times):
        drawn = [protocol.draw(np.tile(ranks, times), rng) for ranks in true_ranks]
        users = [*range(300 * times)] * 2
        rows = {"recommender": np.repeat(["A", "B"], 300 * times), "user": users}
        table = pd.DataFrame(rows | {"rank": np.concatenate(drawn)})
        log = read_log(table, n_items=1_000, n_negatives=100, replacement=True)
        return evaluation.compare(log, "auc")

    comparison = found(1)
    (users,) = comparison.frame["users_needed"]
    written = -(-users // 100) * 100  # rounded up to two digits
    assert 1_000 < users < 10_000
    assert comparison.sentences[0].endswith(
        f" confidence, evaluate about {written:,} users like these."
    )
    assert found(-(-users // 600)).verdicts["A", "B"] == UNDECIDED
    assert found(-(-users // 200)).verdicts["A", "B"] == "A beats B"


@pytest.mark.parametrize("n_relevant", [1, 2])
@pytest.mark.parametrize("kind", ["recall", "precision", "rr", "ap", "ndcg", "hit"])
def test_with_replacement_unbiased_values_are_linear_or_there_is_one_irrelevant_item(
    kind, n_relevant
):
    # Then it does not matter which tied draws are copies of one item.
    for pool, m, k in product(range(2, 7), range(1, 8), range(1, 9)):
        protocol = Protocol(pool + n_relevant, m, replacement=True, n_relevant=n_relevant)
        if row_values.is_unbiased(metric(f"{kind}@{k}"), protocol):
            j = np.arange(1, n_relevant + 1)[:, np.newaxis]
            values = metric(f"{kind}@{k}").term(np.arange(m + 1) + j, j, n_relevant, m + n_relevant)
            assert np.abs(np.diff(values, 2, axis=1)).max(initial=0.0) < 1e-12


def test_a_recommender_that_always_ties_beats_one_that_is_first_for_fewer_than_half():
    first = np.arange(300) < 120
    a = pd.DataFrame({"recommender": "A", "user": range(300), "n_better": 0, "n_tied": 5})
    b = a.assign(recommender="B", n_better=np.where(first, 0, 5), n_tied=0)
    log = read_log(pd.concat([a, b]), n_items=2, n_negatives=5, replacement=True)
    assert evaluation.compare(log, "recall@1").verdicts == {("A", "B"): "A beats B"}


@pytest.mark.parametrize("name", ["auc", "recall@2", "precision@9"])
def test_a_metric_of_several_items_is_unbiased_if_it_is_so_for_every_set(name):
    protocol, parsed_metric = Protocol(14, 5, n_relevant=2), metric(name)
    table = pd.DataFrame({"user": [1, 1, 2, 2], "rank": [3, 4, 3, 4], "item": [3, 4, 3, 4]})
    log = read_log(table, n_items=14, n_negatives=5, replacement=True)
    values = Values(Sample(log), 0.1)
    ranks = np.array(list(combinations(range(1, 15), 2)))
    zero = np.zeros_like(ranks)
    places = np.tile([0, 1], (len(ranks), 1))
    sets = RelevantSets(ranks - [1, 2], zero, places, np.full(len(ranks), 12))
    bias = sets.expected(parsed_metric, protocol.n_negatives, replacement=True)
    bias -= [parsed_metric.of_set(rank_pair, 14) for rank_pair in ranks]
    assert values.unbiased(parsed_metric) == (np.abs(bias).max() < 1e-9)


def test_a_difference_beyond_any_bias_is_a_verdict():
    rng = np.random.default_rng(5)
    population = {"A": np.full(50, 200), "B": rng.integers(1, 5, 50)}
    log = drawn(population, 300, 300, 50, rng)
    (row,) = compare(log, "recall@10").itertuples()
    assert (row.verdict, row.assumption) == ("B beats A", "none")
    assert row.warrant == "theorem"
    assert compare(log, "auc")[["assumption", "warrant"]].values.tolist() == [["none", "theorem"]]
    assert row.possible_high < 0


def test_significance_is_no_verdict_where_bias_could_explain_it():
    # The naive difference is one of 30 standard errors, and wrong: all of A's ranks are beyond 10.
    rng = np.random.default_rng(6)
    population = {"A": np.full(100, 25), "B": np.append(np.full(30, 5), np.full(70, 290))}
    log = drawn(population, 400, 300, 10, rng)
    (row,) = compare(log, "recall@10", estimator="naive").itertuples()
    assert row.estimate > 20 * row.standard_error
    # The order of the estimates is false here. It is no verdict, and nothing is favoured.
    assert (row.verdict, row.assumption, row.favoured) == (UNDECIDED, "", "")
    assert row.possible_low < 0 < row.possible_high
    (entropy_row,) = compare(log, "recall@10", estimator="maximum entropy").itertuples()
    assert entropy_row.reported == row.reported == row.estimate > 0
    assert (entropy_row.possible_low, entropy_row.verdict) == (row.possible_low, row.verdict)


def test_a_difference_is_printed_in_the_direction_of_its_verdict():
    # B's item is always first, A's always last: AUC 1 and 0, B minus A +1.
    rows = pd.DataFrame({"recommender": ["A"] * 99 + ["B"] * 99, "user": [*range(99)] * 2,
                         "rank": [10] * 99 + [1] * 99})  # fmt: skip
    sampled = {"n_items": 1_000, "n_negatives": 9, "replacement": True}
    compared = evaluation.compare(read_log(rows, **sampled), "auc")
    assert compared.verdicts == {("A", "B"): "B beats A"}
    assert compared.frame["estimate"].tolist() == [-1.0]
    (row,) = compared.shown.to_dict("records")
    assert (row["difference"], row["reported"]) == ("B minus A", "+1.0000")
    assert row["95% interval"] == "+0.876 to +1.000"


@pytest.mark.parametrize("few", [20, 40])
def test_what_assumes_nothing_is_of_these_users_where_numbers_of_negatives_differ(few):
    """Certificates are averaged over the log's mix of numbers, on which ranks may depend."""
    rng, users = np.random.default_rng(1), 600
    negatives = np.where(np.arange(users) % 2, 40, few)
    frames = [
        pd.DataFrame({"recommender": name, "user": range(users), "n_negatives": negatives})
        for name in "AB"
    ]
    above = [np.zeros(users, int), rng.binomial(negatives, 0.6)]
    rows = pd.concat([f.assign(rank=1 + x) for f, x in zip(frames, above, strict=True)])
    log = sm.read_log(rows, n_items=100, replacement=True, fixed_sample_size=True)
    ground = "whatever the ranks" + ", and of these users alone" * (few < 40)
    estimates = sm.estimate(log, ["recall@10"], assumption=None)
    compared = sm.compare(log, "recall@10")
    assert estimates.promises()[0] == f"95% interval: {ground}"
    assert compared.sentences == [f"A beats B on Recall@10 (95% confidence, {ground})."]
    assert sm.compare(log, "recall@10", assumption=None).promises() == [f"95% interval: {ground}"]
    expected = "none, of these users" if few < 40 else "none"
    for frame in (estimates.frame, compared.frame):
        assert set(frame["assumption"]) == {expected}
    assert set(sm.estimate(log, ["auc"]).frame["assumption"]) == {"none"}  # bets on users' values

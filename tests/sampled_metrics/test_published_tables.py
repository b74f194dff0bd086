"""Published tables: bounds against other programmes and enumeration, coverage, and refusals."""

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import sampled_metrics as sm
from sampled_metrics import Protocol, metric, priors
from sampled_metrics.bounds.averages import _expectations, contrasts
from sampled_metrics.printed_rows import _number

MANY = 10**15  # so many users that only rounding is left


def table(**columns):
    frame = pd.DataFrame({name.replace("_", "@"): cells for name, cells in columns.items()})
    return frame.assign(method=list("ABC")[: len(frame)])


def printed(mass, protocol, names, digits=15):
    """A table of what an evaluation of infinitely many users would print."""
    q = np.asarray(mass) @ protocol.pmf(np.arange(1, protocol.n_items + 1))
    cells = {name: [f"{metric(name).vector(q.size) @ q:.{digits}f}"] for name in names}
    return pd.DataFrame({"method": ["A"]} | cells)


def test_the_two_ends_of_the_book():
    # In exact fractions: chapter "Identification intervals".
    mass = np.zeros(50)
    mass[[0, 10, 49]] = 3 / 200, 2401 / 2600, 4 / 65
    protocol = Protocol(50, 2)
    rows = printed(mass, protocol, ["HR@1", "HR@2"])
    bounds = sm.published(rows, n_items=50, n_negatives=2, users=MANY, replacement=True,
                         metrics=["recall@10"], assumption=None).frame  # fmt: skip
    assert_allclose(bounds[["low", "high"]], [[3 / 200, 179 / 200]], atol=2e-5)


def test_a_method_under_two_protocols_is_one_population():
    # By one linear programme over all true ranks, the equalities of both rows at once.
    n, mass = 60, np.random.default_rng(4).dirichlet(np.full(60, 0.3))
    protocols = [Protocol(n, m) for m in (5, 2)]
    parts = [printed(mass, protocol, ["HR@1"]) for protocol in protocols]
    rows = pd.concat(parts).assign(n_negatives=[5, 2])
    sizes = {"n_items": n, "users": MANY, "replacement": True, "assumption": None}
    bounds = sm.published(rows, metrics=["recall@10", "rr"], **sizes)
    equalities = [p.pmf(np.arange(1, n + 1))[:, 0] for p in protocols] + [np.ones(n)]
    for name, of_metric in bounds.frame.groupby("metric"):
        cost = metric(name).vector(n)
        values = [sign * linprog(sign * cost, A_eq=equalities, b_eq=np.array(equalities) @ mass).fun
                  for sign in (1, -1)]  # fmt: skip
        assert_allclose(of_metric[["low", "high"]], [values] * 2, atol=2e-4)
        assert of_metric["n_negatives"].tolist() == [2, 5]
    swapped = rows.assign(n_negatives=[2, 5])
    (finding,) = sm.published(swapped, **sizes).notes
    assert re.search("among 2.* among 5 contradict any true ranks", finding)


def test_a_mean_rank_is_an_auc():
    rows = pd.DataFrame({"method": ["A", "B"], "HR@1": ["0.77", "-"], "Mean Ranks": ["3.94", "6"]})
    sizes = {"n_items": 500, "n_negatives": 100, "users": 1_000, "replacement": True}
    bounds = sm.published(rows, **sizes)
    cells = rows.assign(AUC=["0.9706", "0.95"]).drop(columns="Mean Ranks")
    expected = sm.published(cells, **sizes).frame
    assert_allclose(bounds.frame.query("metric == 'auc'")["printed"], [0.9706, 0.95])
    assert_allclose(bounds.frame["low"], expected["low"], atol=2e-3)
    assert bounds.notes == ("the mean rank is read as AUC, which is 1 - (mean rank - 1) / "
                            "n_negatives",)  # fmt: skip


def test_the_assumption_is_that_of_its_definition():
    n, m, n_top = 40, 20, 20
    protocol, names = Protocol(n, m, replacement=False), ["HR@1", "HR@3", "NDCG@3", "MRR"]
    mass = 1.0 / np.arange(3, n + 3)
    mass /= mass.sum()
    rows = printed(mass, protocol, names)
    chosen_metric = metric("recall@2")
    bounds = sm.published(rows, n_items=n, n_negatives=m, users=MANY, replacement=False,
                         metrics=[chosen_metric]).frame.iloc[0]  # fmt: skip
    # In the shares of the ranks themselves, with their inequalities.
    pmf = protocol.pmf(np.arange(1, n + 1))
    equalities = np.vstack([np.ones(n), *(metric(name).vector(m + 1) @ pmf.T for name in names)])
    inequalities = np.eye(n)[1:n_top] - np.eye(n)[: n_top - 1]
    ends = [
        sign
        * linprog(
            sign * chosen_metric.vector(n),
            inequalities,
            np.zeros(len(inequalities)),
            equalities,
            equalities @ mass,
        ).fun
        for sign in (1, -1)
    ]
    names = ("low_decreasing", "high_decreasing")
    assert_allclose(bounds[list(names)].astype(float), ends, atol=2e-5)
    assert bounds["low"] <= ends[0] + 1e-6
    assert bounds["high"] >= ends[1] - 1e-6
    assert bounds["high"] - bounds["low"] > 1.2 * (ends[1] - ends[0])  # an assumption that helps


HOSTILE = {
    "all first": {1: 1.0},
    "just behind": {1: 0.2, 11: 0.8},
    "all last": {300: 1.0},
    "far apart": {1: 0.05, 150: 0.95},
    "even": dict.fromkeys(range(1, 301), 1 / 300),
}


@pytest.mark.parametrize("users", [40, 2_000])
@pytest.mark.parametrize("shares", HOSTILE.values(), ids=HOSTILE)
def test_all_expectations_are_covered_at_once(shares, users):
    protocol, names = Protocol(300, 20), ["HR@1", "HR@5", "NDCG@5", "HR@10", "NDCG@10", "MRR"]
    rng, draws = np.random.default_rng(7), 400
    ranks = np.resize(np.repeat(list(shares), np.ceil(np.array(list(shares.values())) * users)
                                .astype(int)), users)  # fmt: skip
    metrics = tuple(map(metric, names))
    values = np.stack([printed_metric.vector(21) for printed_metric in metrics])
    averaged = contrasts(metrics) @ values
    truth = averaged @ protocol.pmf(ranks).mean(axis=0)
    nats = np.log(2 * len(averaged) / 0.2)  # 80% confidence
    seen = np.stack([np.bincount(protocol.draw(ranks, rng) - 1, minlength=21) / users
                     for _ in range(draws)])  # fmt: skip
    means = (seen @ averaged.T).ravel()
    low, high = _expectations(np.tile(averaged, (draws, 1)), means, means, users, nats)
    outside = (np.tile(truth, draws) < low - 1e-12) | (np.tile(truth, draws) > high + 1e-12)
    missed = int(outside.reshape(draws, -1).any(axis=1).sum())
    assert missed <= 0.2 * draws


def test_the_region_is_not_much_wider_than_it_must_be():
    # The exact interval of Clopper and Pearson for 300 of 1,000 at the same level.
    from scipy.stats import beta

    error_rate, hit, share = 0.001, np.array([[1.0, 0.0]]), np.array([0.3])
    low, high = _expectations(hit, share, share, 1_000, np.log(2 / error_rate))
    exact = beta.ppf(error_rate / 2, 300, 701), beta.ppf(1 - error_rate / 2, 301, 700)
    assert low[0] <= exact[0]
    assert high[0] >= exact[1]
    assert high[0] - low[0] < 1.25 * (exact[1] - exact[0])


@pytest.mark.some(1)
@pytest.mark.parametrize("replacement", [True, False])
def test_bounds_hold_the_exact_metrics_of_drawn_tables(replacement):
    rng = np.random.default_rng(3)
    protocol = Protocol(500, 40, replacement=replacement)
    names = ["HR@1", "HR@5", "HR@10", "NDCG@5", "NDCG@10", "MRR"]
    ranks = {name: np.minimum(rng.geometric(share, 800), 500)
             for name, share in (("A", 0.06), ("B", 0.05), ("C", 0.002))}  # fmt: skip
    drawn = [protocol.draw(r, rng) for r in ranks.values()]
    cells = {
        metric_name: [f"{metric(metric_name)(x).mean():.4f}" for x in drawn]
        for metric_name in names
    }
    rows = pd.DataFrame({"Model": list(ranks)} | cells)
    published = sm.published(rows, n_items=500, n_negatives=40, users=800, replacement=replacement)
    exact = [metric(metric_name)(ranks[name]).mean()
             for name, metric_name in published.frame[["method", "metric"]].to_numpy()]  # fmt: skip
    for end in ("", "_decreasing"):
        low, high = published.frame[f"low{end}"], published.frame[f"high{end}"]
        assert ((low <= exact) & (exact <= high)).all()
    guess = np.abs(published.frame["guess"] - exact)
    assert guess.mean() < 0.25 * np.abs(published.frame["printed"] - exact).mean()
    truth = dict(zip(zip(published.frame["method"], published.frame["metric"], strict=True), exact,
                     strict=True))  # fmt: skip
    settled = published.orders[published.orders["assumption"] != ""]
    for row in settled.itertuples():
        ahead, behind = row.verdict.split(" beats ")
        assert truth[ahead, row.metric] > truth[behind, row.metric]
    assert len(settled)
    assert (published.orders["verdict"] == "undecided").any()


def test_auc_is_known_and_settles_an_order():
    published = sm.published(table(AUC=["0.7000", "0.9000"]), n_items=1_000, n_negatives=99,
                         users=5_000, replacement=True)  # fmt: skip
    assert published.orders["verdict"].tolist() == ["B beats A"]
    assert published.orders[["assumption", "warrant"]].values.tolist() == [["none", "theorem"]]
    assert (published.frame["high"] - published.frame["low"] < 0.06).all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"HR_1": ["0.300"], "NDCG_5": ["0.250"]}, "HIT@1 0.3|NDCG@5 0.25"),
        ({"HR_5": ["0.50"], "HR_10": ["0.40"]}, "Hit@5 0.5|Hit@10 0.4"),
        ({"HR_10": ["0.5000"], "NDCG_10": ["0.1400"]}, "Hit@10 0.5|NDCG@10 0.14"),
        ({"HR_1": ["0.100"], "HR_2": ["0.900"], "MRR": ["0.60"]}, "at once"),
    ],
)
def test_numbers_that_no_sampled_ranks_have(cells, said):
    published = sm.published(
        table(**cells), n_items=500, n_negatives=99, users=10_000, replacement=True
    )
    assert not published.checks["together"].item()
    assert not published.checks["possible"].item()
    assert published.frame[["low", "high", "guess"]].isna().all(axis=None)
    for part in said.split("|"):
        assert part.lower() in published.notes[0].lower()


def test_hits_that_are_no_whole_number_are_named_and_bounded():
    cells = {"HR_10": ["0.1234", "0.1228", "0.123"]}  # 7.03, 7.00 and 6.98 to 7.04 of 57 users
    published = sm.published(
        table(**cells), n_items=500, n_negatives=99, users=57, replacement=True, metrics=["rr"]
    )
    assert published.checks["together"].all()
    said = "A: Hit@10 0.1234 is no number of hits among 57 users, unless ties or runs were averaged"
    assert published.checks["finding"].tolist() == [said, "", ""]
    assert said in published.notes
    assert published.frame[["low", "high"]].notna().all(axis=None)


def test_hits_averaged_over_ties_are_possible_and_bounded():
    users, m, n = 60, 20, 200
    for seed in range(12):
        rng = np.random.default_rng(seed)
        above, tied = rng.integers(0, 3, users), rng.integers(0, 40, users)
        x = rng.hypergeometric(above, n - 1 - above, m)
        t = rng.hypergeometric(tied, n - 1 - above - tied, m - x)
        exact = {k: np.clip((k - above) / (tied + 1), 0, 1).mean() for k in (1, 10)}
        hits = {f"HR@{k}": [f"{np.clip((k - x) / (t + 1), 0, 1).mean():.4f}"] for k in (1, 10)}
        published = sm.published(pd.DataFrame({"method": ["A"]} | hits), n_items=n, n_negatives=m,
                                 users=users, replacement=False, assumption=None)  # fmt: skip
        assert published.checks[["together", "possible"]].all(axis=None)
        for k, (low, high) in zip(exact, published.frame[["low", "high"]].to_numpy(), strict=True):
            assert low <= exact[k] <= high


def test_upper_ends_hold_for_the_smallest_number_of_candidates():
    users, heavy = 6_040, 604
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = np.full(users, 3_600)
        n[:heavy] = rng.integers(1_500, 2_000, heavy)
        ranks = np.where(np.arange(users) < heavy, 10, n)
        x = rng.hypergeometric(ranks - 1, n - ranks, 99)
        rows = table(HR_1=[f"{(x < 1).mean():.4f}"], HR_10=[f"{(x < 10).mean():.4f}"])
        frame = sm.published(rows, n_items=int(n.min()), n_negatives=99, users=users,
                             replacement=False, metrics=["hit@10", "rr", "auc"],
                             assumption=None).frame  # fmt: skip
        exact = [(ranks <= 10).mean(), (1 / ranks).mean(), ((n - ranks) / (n - 1)).mean()]
        assert (frame["high"] >= exact).all()


def test_numbers_that_belong_together_up_to_rounding_pass():
    # All hits at sampled rank 1: HR@1 = NDCG@5 to the digit, and 0.2504 rounds to .250.
    published = sm.published(table(HR_1=[".250"], NDCG_5=["0.2504"]), n_items=500, n_negatives=99,
                         users=10_000, replacement=True)  # fmt: skip
    assert published.checks["together"].item()


@pytest.mark.parametrize(
    ("column", "cell"),
    [("Hits@10", "0.444"), ("H@10", "44.4%"), ("hits_at_10", "0.444"), ("Precision@10", "0.0444")],
)
def test_hits_and_precision_say_the_same_of_one_relevant_item(column, cell):
    options = {"n_items": 1_000, "n_negatives": 100, "users": 500, "replacement": False}
    right, bounds = (
        sm.published(
            pd.DataFrame({"method": ["A"], name: [value]}), metrics=["recall@5"], **options
        )
        for name, value in (("HR@10", "0.444"), (column, cell))
    )
    assert not bounds.notes
    ends = ["low", "high"]
    assert_allclose(bounds.frame[ends], right.frame[ends], rtol=1e-9)


def test_numbers_that_no_true_ranks_lead_to():
    # One negative above the item of every user: no rank of 1,000 does that.
    cells = {"HR_1": ["0.000"], "HR_2": ["1.000"]}
    published = sm.published(table(**cells), n_items=1_000, n_negatives=99, users=5_000,
                         replacement=True)  # fmt: skip
    assert published.checks["together"].item()
    assert not published.checks["possible"].item()
    assert "contradict any true ranks" in published.notes[0]
    # With few users chance may.
    of_two_users = sm.published(
        table(**cells), n_items=1_000, n_negatives=99, users=2, replacement=True
    )
    assert of_two_users.checks["possible"].item()


def test_a_shape_that_the_numbers_contradict_is_refused():
    mass = np.zeros(1_000)
    mass[29] = 1.0  # all users at rank 30
    rows = printed(mass, Protocol(1_000, 99), ["HR@1", "HR@3", "HR@5", "HR@10"], 4)
    published = sm.published(rows, n_items=1_000, n_negatives=99, users=10**5, replacement=True)
    assert published.checks["possible"].item()
    assert not published.checks["decreasing"].item()
    assert "contradict the assumption that deeper ranks have fewer users" in published.notes[0]
    assert np.isnan(published.frame["low_decreasing"].iloc[0])
    assert published.frame["low"].notna().all()


def test_the_guess_is_the_most_even_distribution():
    # With all sampled ranks printed and endless users it is the fit to the sampled ranks.
    n, m, users = 60, 4, 10**9
    mass = np.random.default_rng(2).dirichlet(np.ones(n))
    protocol = Protocol(n, m)
    rows = printed(mass, protocol, [f"HR@{k}" for k in range(1, m + 1)])
    bounds = sm.published(rows, n_items=n, n_negatives=m, users=users, replacement=True,
                         metrics=["recall@10", "ndcg@10"], assumption=None).frame  # fmt: skip
    q = mass @ protocol.pmf(np.arange(1, n + 1))
    fitted = priors.maximum_entropy(users * q, protocol).mass
    expected = [fitted @ metric(metric_name).vector(n) for metric_name in ("recall@10", "ndcg@10")]
    assert_allclose(bounds["guess"], expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("cell", "value", "half"),
    [("0.250", 0.25, 5e-4), (".25", 0.25, 5e-3), ("25.0%", 0.25, 5e-4), ("2.5e-1", 0.25, 5e-3),
     ("**0.1*", 0.1, 0.05), (0.125, 0.125, 5e-4), ("1", 1.0, 0.5)],
)  # fmt: skip
def test_digits_say_how_far_a_number_was_rounded(cell, value, half):
    assert _number(cell, "it") == pytest.approx((value, half))


@pytest.mark.parametrize(
    ("cells", "options", "said"),
    [
        ({"HR_10": ["60.3"]}, {}, "must be in [0, 1], got '60.3': write percentages as 25.0%"),
        (
            {"HR_10": ["0.5±0.1"]},
            {},
            "HIT@10 of A must be a published number".replace("HIT", "Hit"),
        ),
        ({"HR_10": ["0.5"], "Hit_10": ["0.5"]}, {}, "two columns for Hit@10"),
        ({"note": ["x"]}, {}, "needs a column of a metric"),
        ({"mr": ["52"]}, {"n_negatives": 50}, "the mean rank of A must be in [1, 51], got '52'"),
        ({"HR_10": ["0.5"], "users": ["many"]}, {}, "users of A must be a whole number"),
        ({"HR_10": ["0.5"], "users": ["1" * 5_000]}, {}, "users of A must be a whole number in"),
        ({"HR_10": ["0.5"]}, {"n_items": None}, "n_items is needed"),
        ({"HR_10": ["0.5"]}, {"n_items": 50, "replacement": False}, "n_negatives must be <= 49"),
        ({"HR_10": ["0.5"]}, {"replacement": None}, "replacement must be True or False"),
        ({"HR_10": ["0.5"]}, {"confidence": 1}, "confidence must be a number in (0, 1)"),
        ({"HR_10": ["0.5"]}, {"metrics": ["nddg@10"]}, "did you mean 'ndcg'"),
    ],
)
def test_what_cannot_be_read_is_said(cells, options, said):
    settings = {"n_items": 500, "n_negatives": 99, "users": 100, "replacement": True} | options
    with pytest.raises(ValueError, match=re.escape(said)):
        sm.published(table(**cells), **settings)


def test_a_file_is_read_as_text(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("Model,Data set,Hit Ratio@10,source,Users\nA,X,0.500,[1],100\nB,X,-,[2],100\n"
                    "A,Y,0.50,[1],\n", encoding="utf-8")  # fmt: skip
    published = sm.published(path, n_items=500, n_negatives=99, users=10**6, replacement=True)
    assert published.frame[["dataset", "method"]].to_numpy().tolist() == [["X", "A"], ["Y", "A"]]
    assert "columns left out, as they are no metric: source" in published.notes
    assert "B on X is left out: it has no number" in published.notes
    width = published.frame["high"] - published.frame["low"]
    assert width[0] > width[1]  # 100 users, or a million and two digits
    for text, message in (("", "CSV file"), ("a,HR@1\nA,0.1\nA,0.2\n", "two rows for A")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            sm.published(path, n_items=500, n_negatives=99, users=9, replacement=True)
    with pytest.raises(ValueError, match="cannot be read"):
        sm.published(tmp_path / "none.csv", n_items=500, replacement=True)


def test_the_result_prints_and_draws():
    rows = table(HR_10=["0.500", "0.400"], MRR=["0.250", "0.200"]).assign(dataset="X")
    published = sm.published(rows, n_items=500, n_negatives=99, users=1_000, replacement=True)
    assert max(map(len, published.summary().splitlines())) <= 100
    assert published.plot("MRR").axes[0].get_xlabel() == "RR"
    with pytest.raises(ValueError, match="must be one of the table"):
        published.plot("auc")


SHARED = {"system": ["A", "B"], "NDCG@10": ["0.62", "61.5%"], "queries": ["50", "50"],
          "documents": ["5,035"] * 2, "of": ["2,681,468"] * 2}  # fmt: skip


def shared(kind="uniform", **cells):
    return pd.DataFrame(SHARED | {"corpus": [kind] * 2} | cells)


@pytest.mark.parametrize(
    ("kind", "highs", "says"),
    [
        ("uniform", [0.625, 0.6155], "--corpus-size 2681468"),
        ("pooled", [0.625, 0.6155], "nothing follows if judgements were dropped"),
        ("unknown", [1, 1], "not even an upper bound"),
    ],
)
def test_a_row_of_a_shared_corpus_says_what_it_proves(kind, highs, says):
    found = sm.published(shared(kind, AUC=[".9", ".8"]))
    scores = found.frame[found.frame["metric"] == "ndcg@10"]
    assert scores["low"].tolist() == [0, 0]
    assert_allclose(scores["high"], highs)
    assert found.frame.loc[found.frame["metric"] == "auc", "high"].tolist() == [1, 1]
    assert found.frame["proves"].str.contains(says).all()
    assert says in " ".join(found.summary().split())
    assert found.orders["verdict"].tolist() == ["undecided"] * 2
    assert says in found.to_html()
    assert found.plot("ndcg@10").axes[0].get_xlabel() == "NDCG@10"


def most_varied(means, n_queries, levels):
    """The largest standard error over all lists of values with these means, by enumeration."""
    lists = [
        np.array(values)
        for values in product(levels, repeat=n_queries)
        if np.mean(values) == pytest.approx(means[0])
    ]
    others = [
        np.array(values)
        for values in product(levels, repeat=n_queries)
        if np.mean(values) == pytest.approx(means[-1])
    ]
    single = max(values.std(ddof=1) for values in lists)
    paired = max((x - y).std(ddof=1) for x in lists for y in others)
    return single / n_queries**0.5, paired / n_queries**0.5


@pytest.mark.parametrize("means", [(0.75, 0.5), (0.5, 0.25), (0.75, 0.75), (1.0, 0.25)])
def test_errors_over_queries_are_the_largest_that_the_means_allow(means):
    cells = {"Hit@1": [f"{mean:.12f}" for mean in means], "queries": ["4"] * 2}
    rows = shared(**cells).drop(columns="NDCG@10")
    found = sm.published(rows)
    single, paired = most_varied(means, 4, (0, 0.5, 1))
    assert found.frame["largest_error"].iloc[0] == pytest.approx(single, abs=1e-5)
    assert found.orders["largest_error"].item() == pytest.approx(paired, abs=1e-5)
    assert found.orders["lead"].item() == pytest.approx(means[0] - means[1])


def test_rounded_numbers_allow_the_errors_of_what_they_were_rounded_from():
    values = [1, 1, 0, 0.13]  # mean .5325, printed .5
    found = sm.published(shared(**{"NDCG@10": [".5", ".9"], "queries": ["4"] * 2}))
    most = max(
        sm.published(shared(**{"NDCG@10": [f"{v:.9f}", ".9"], "queries": ["4"] * 2}))
        .frame["largest_error"].iloc[0]
        for v in np.linspace(0.45, 0.55, 21)
    )  # fmt: skip
    assert found.frame["largest_error"].iloc[0] == pytest.approx(most)
    assert found.frame["largest_error"].iloc[0] >= np.std(values, ddof=1) / 2


def test_rows_on_different_corpora_are_not_compared():
    for other in ({"queries": ["50", "60"]}, {"corpus": ["pooled", "uniform"]}):
        assert sm.published(shared(**other)).orders.empty


def test_a_table_may_have_a_row_for_each_number(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(
        "method,metric,value,queries,documents,of,corpus\nA,ndcg@10,0.62,50,5035,2681468,pooled\n"
        "A,RR,0.7,50,5035,2681468,pooled\nB,ndcg@10,61.5%,50,5035,2681468,pooled\n"
    )
    wide = sm.published(shared("pooled", RR=["0.7", "-"]).rename(columns={"system": "method"}))
    pd.testing.assert_frame_equal(sm.published(path).frame, wide.frame)
    path.write_text(path.read_text() + "A,RR,0.7,50,5035,2681468,pooled\n")
    with pytest.raises(ValueError, match="has two rows for RR, A, 50"):
        sm.published(path)


@pytest.mark.parametrize(
    ("cells", "options", "said"),
    [
        ({"corpus": ["random", "pooled"]}, {}, "corpus of A must be uniform, pooled or unknown"),
        ({"of": ["5035"] * 2}, {}, "corpus_size of A must exceed its 5,035 documents, got 5,035"),
        ({"documents": [""] * 2}, {}, "documents is needed for A: give a column documents"),
        ({"queries": [""] * 2}, {}, "users is needed for A: give it (--users), or a column users"),
        ({}, {"n_items": 9}, "n_items must be left out for one corpus that all queries share"),
        ({}, {"replacement": False}, "replacement must be left out for one corpus"),
        ({}, {"metrics": ["rr"]}, "metrics must be in the table for one shared corpus, got rr"),
    ],
)
def test_what_a_shared_corpus_cannot_be_is_said(cells, options, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        sm.published(shared(**cells), **options)


def test_a_published_recall_has_the_depth_that_it_measures():
    """Of 2,000 items 100 are drawn: ten of these are 200 of all on average."""
    rows = table(HR_10=["0.50", "-"], NDCG_10=["0.30", "0.25"], Recall_20=["0.60", "0.55"])
    sizes = {"n_items": 2_001, "users": 500, "replacement": False}
    found = sm.published(rows, n_negatives=100, **sizes)
    depths = found.frame.set_index(["method", "metric"])["depth"]
    assert depths.dropna().to_dict() == {
        ("A", "hit@10"): 200,
        ("A", "recall@20"): 400,
        ("B", "recall@20"): 400,
    }
    assert "depth: the published number measures" in found.summary()
    few = sm.published(rows, n_negatives=30, **sizes)
    assert few.frame["depth"].isna().all()
    assert "depth" not in few.summary()

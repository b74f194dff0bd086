"""Published tables: bounds against other programmes and enumeration, coverage, and refusals."""

import os
import re
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import sampled_metrics as sm
from sampled_metrics import Assumption, Protocol, metric, priors
from sampled_metrics.bounds.averages import _expectations, _Programme, contrasts
from sampled_metrics.published_tables import _number

MANY = 10**15  # so many users that only rounding is left


def table(**columns):
    found = pd.DataFrame({name.replace("_", "@"): cells for name, cells in columns.items()})
    return found.assign(method=list("ABC")[: len(found)])


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
    found = sm.published(rows, n_items=50, n_negatives=2, users=MANY, replacement=True,
                         metrics=["recall@10"], assumption=None).frame  # fmt: skip
    assert_allclose(found[["low", "high"]], [[3 / 200, 179 / 200]], atol=2e-5)


def by_vertices(rows, target, low, high):
    """The least of the target over all vertices: some columns, and as many ends less one."""
    best = np.inf
    for tight in range(len(rows) + 1):
        for at, sides in product(
            combinations(range(len(rows)), tight), product((0, 1), repeat=tight)
        ):
            ends = [1.0, *((low, high)[side][i] for i, side in zip(at, sides, strict=True))]
            for support in combinations(range(rows.shape[1]), tight + 1):
                system = np.vstack([np.ones(tight + 1), rows[np.ix_(at, support)]])
                if abs(np.linalg.det(system)) < 1e-12:
                    continue
                weights = np.linalg.solve(system, ends)
                values = rows[:, support] @ weights
                inside = (values >= low - 1e-9) & (values <= high + 1e-9)
                if (weights >= -1e-9).all() and inside.all():
                    best = min(best, float(target[list(support)] @ weights))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_a_programme_agrees_with_all_its_vertices(seed):
    rng = np.random.default_rng(seed)
    rows, target = rng.random((3, 7)), rng.random(7)
    middle = rows @ rng.dirichlet(np.ones(7)) + rng.normal(0, 0.25, 3) * (seed % 2)
    low, high = middle - 0.02, middle + 0.02
    expected = by_vertices(rows, target, low, high)
    found = _Programme(rows, np.zeros((0, 7)), np.array([0])).least(target, low, high)
    assert found == pytest.approx(expected, abs=5e-6)  # both infinite where nothing is possible
    assert found <= expected + 1e-12
    feasible = _Programme(rows, np.zeros((0, 7)), np.array([0])).feasible(low, high)
    assert feasible == np.isfinite(expected)


@pytest.mark.parametrize("steepness", [np.inf, 3.0])
def test_a_shape_is_that_of_its_definition(steepness):
    n, m, head = 40, 8, 20
    protocol, names = Protocol(n, m, replacement=False), ["HR@1", "HR@3", "NDCG@3", "MRR"]
    mass = 1.0 / np.arange(3, n + 3)
    mass /= mass.sum()
    assumption = Assumption(head * m / n, steepness)
    rows = printed(mass, protocol, names)
    of = metric("recall@2")
    found = sm.published(rows, n_items=n, n_negatives=m, users=MANY, replacement=False,
                         metrics=[of], assumption=assumption).frame.iloc[0]  # fmt: skip
    # In the shares of the ranks themselves, with their inequalities.
    law = protocol.pmf(np.arange(1, n + 1))
    equal = np.vstack([np.ones(n), *(metric(name).vector(m + 1) @ law.T for name in names)])
    falls = np.eye(n)[1:head] - np.eye(n)[: head - 1]
    if np.isfinite(steepness):
        ends = [2**i for i in range(6) if 2**i - 1 <= head]
        means = np.stack([(np.arange(1, n + 1) >= a) & (np.arange(1, n + 1) < 2 * a)
                          for a in ends[:-1]]) / np.array(ends[:-1])[:, np.newaxis]  # fmt: skip
        falls = np.vstack([falls, means[:-1] - steepness * means[1:]])
    ends = [
        sign * linprog(sign * of.vector(n), falls, np.zeros(len(falls)), equal, equal @ mass).fun
        for sign in (1, -1)
    ]
    names = ("low_decreasing", "high_decreasing")
    assert_allclose(found[list(names)].astype(float), ends, atol=2e-5)
    assert found["low"] <= ends[0] + 1e-6
    assert found["high"] >= ends[1] - 1e-6
    assert found["high"] - found["low"] > 1.2 * (ends[1] - ends[0])  # an assumption that helps


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
    values = np.stack([of.vector(21) for of in metrics])
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

    level, hit, at = 0.001, np.array([[1.0, 0.0]]), np.array([0.3])
    low, high = _expectations(hit, at, at, 1_000, np.log(2 / level))
    exact = beta.ppf(level / 2, 300, 701), beta.ppf(1 - level / 2, 301, 700)
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
    cells = {of: [f"{metric(of)(x).mean():.4f}" for x in drawn] for of in names}
    rows = pd.DataFrame({"Model": list(ranks)} | cells)
    found = sm.published(rows, n_items=500, n_negatives=40, users=800, replacement=replacement)
    exact = [metric(of)(ranks[name]).mean()
             for name, of in found.frame[["method", "metric"]].to_numpy()]  # fmt: skip
    for end in ("", "_decreasing", "_steep"):
        low, high = found.frame[f"low{end}"], found.frame[f"high{end}"]
        assert ((low <= exact) & (exact <= high)).all()
    guess = np.abs(found.frame["guess"] - exact)
    assert guess.mean() < 0.25 * np.abs(found.frame["printed"] - exact).mean()
    truth = dict(zip(zip(found.frame["method"], found.frame["metric"], strict=True), exact,
                     strict=True))  # fmt: skip
    settled = found.orders[found.orders["assumption"] != ""]
    for row in settled.itertuples():
        ahead, behind = row.verdict.split(" beats ")
        assert truth[ahead, row.metric] > truth[behind, row.metric]
    assert len(settled)
    assert (found.orders["verdict"] == "unknown").any()


def test_auc_is_known_and_settles_an_order():
    found = sm.published(table(AUC=["0.7000", "0.9000"]), n_items=1_000, n_negatives=99,
                         users=5_000, replacement=True)  # fmt: skip
    assert found.orders["verdict"].tolist() == ["B beats A"]
    assert found.orders[["assumption", "warrant"]].values.tolist() == [["none", "proved"]]
    assert (found.frame["high"] - found.frame["low"] < 0.06).all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"HR_1": ["0.300"], "NDCG_5": ["0.250"]}, "HIT@1 0.3|NDCG@5 0.25"),
        ({"HR_5": ["0.50"], "HR_10": ["0.40"]}, "Hit@5 0.5|Hit@10 0.4"),
        ({"HR_10": ["0.5000"], "NDCG_10": ["0.1400"]}, "Hit@10 0.5|NDCG@10 0.14"),
        ({"HR_10": ["0.1234"]}, "no number of hits among 57 users"),
        ({"HR_1": ["0.100"], "HR_2": ["0.900"], "MRR": ["0.60"]}, "at once"),
    ],
)
def test_numbers_that_no_sampled_ranks_have(cells, said):
    users = 57 if "0.1234" in str(cells) else 10_000
    found = sm.published(table(**cells), n_items=500, n_negatives=99, users=users, replacement=True)
    assert not found.checks["together"].item()
    assert not found.checks["possible"].item()
    assert found.frame[["low", "high", "guess"]].isna().all(axis=None)
    for part in said.split("|"):
        assert part.lower() in found.notes[0].lower()


def test_numbers_that_belong_together_up_to_rounding_pass():
    # All hits at sampled rank 1: HR@1 = NDCG@5 to the digit, and 0.2504 rounds to .250.
    found = sm.published(table(HR_1=[".250"], NDCG_5=["0.2504"]), n_items=500, n_negatives=99,
                         users=10_000, replacement=True)  # fmt: skip
    assert found.checks["together"].item()


def test_numbers_that_no_true_ranks_lead_to():
    # One negative above the item of every user: no rank of 1,000 does that.
    cells = {"HR_1": ["0.000"], "HR_2": ["1.000"]}
    found = sm.published(table(**cells), n_items=1_000, n_negatives=99, users=5_000,
                         replacement=True)  # fmt: skip
    assert found.checks["together"].item()
    assert not found.checks["possible"].item()
    assert "contradict any true ranks" in found.notes[0]
    # With few users chance may.
    few = sm.published(table(**cells), n_items=1_000, n_negatives=99, users=2, replacement=True)
    assert few.checks["possible"].item()


def test_a_shape_that_the_numbers_contradict_is_refused():
    mass = np.zeros(1_000)
    mass[29] = 1.0  # all users at rank 30
    rows = printed(mass, Protocol(1_000, 99), ["HR@1", "HR@3", "HR@5", "HR@10"], 4)
    found = sm.published(rows, n_items=1_000, n_negatives=99, users=10**5, replacement=True)
    assert found.checks["possible"].item()
    assert not found.checks["decreasing"].item()
    assert "contradict the assumption that deeper ranks have fewer users" in found.notes[0]
    assert np.isnan(found.frame["low_decreasing"].iloc[0])
    assert found.frame["low"].notna().all()


def test_the_guess_is_the_most_even_distribution():
    # With all sampled ranks printed and endless users it is the fit to the sampled ranks.
    n, m, users = 60, 4, 10**9
    mass = np.random.default_rng(2).dirichlet(np.ones(n))
    protocol = Protocol(n, m)
    rows = printed(mass, protocol, [f"HR@{k}" for k in range(1, m + 1)])
    found = sm.published(rows, n_items=n, n_negatives=m, users=users, replacement=True,
                         metrics=["recall@10", "ndcg@10"], assumption=None).frame  # fmt: skip
    q = mass @ protocol.pmf(np.arange(1, n + 1))
    fitted = priors.maximum_entropy(users * q, protocol).mass
    expected = [fitted @ metric(of).vector(n) for of in ("recall@10", "ndcg@10")]
    assert_allclose(found["guess"], expected, rtol=1e-3)


def test_more_digits_and_more_users_bound_more():
    sizes = {"n_items": 1_000, "n_negatives": 99, "replacement": True, "metrics": ["recall@10"]}
    widths = []
    for cell, users in (("0.50", 10**9), ("0.500", 10**9), ("0.500", 10**3)):
        found = sm.published(table(HR_10=[cell]), users=users, **sizes).frame
        widths.append(float(found["high_decreasing"].iloc[0] - found["low_decreasing"].iloc[0]))
    assert widths[1] < widths[0]
    assert widths[1] < widths[2]


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
        ({"HR_10": ["-0.1"]}, {}, "must be a printed number"),
        ({"HR_10": ["0.5±0.1"]}, {}, "HIT@10 of A must be a printed number".replace("HIT", "Hit")),
        ({"HR_10": ["0.5"], "Hit_10": ["0.5"]}, {}, "two columns for Hit@10"),
        ({"note": ["x"]}, {}, "needs a column of a metric"),
        ({"HR_10": ["-"]}, {}, "must hold one number"),
        ({"HR_0": ["0.5"]}, {}, "k must be a whole number"),
        ({"HR_10": ["0.5"], "users": ["many"]}, {}, "users of A must be a whole number"),
        ({"HR_10": ["0.5"]}, {"users": 10**20}, "users must be a whole number in [1, 10000"),
        ({"HR_10": ["0.5"], "users": ["1" * 20]}, {}, "users of A must be a whole number in [1, 1"),
        ({"HR_10": ["0.5"], "users": ["1" * 5_000]}, {}, "users of A must be a whole number in"),
        ({"HR_10": ["0.5"]}, {"n_items": 10**20}, "n_items must be a whole number in [1, 46"),
        ({"HR_10": ["0.5"]}, {"n_items": None}, "n_items is needed"),
        ({"HR_10": ["0.5"]}, {"n_items": 50, "replacement": False}, "n_negatives must be <= 49"),
        ({"HR_10": ["0.5"]}, {"replacement": None}, "replacement must be True or False"),
        ({"HR_10": ["0.5"]}, {"confidence": 1}, "confidence must be a number in (0, 1)"),
        ({"HR_10": ["0.5"]}, {"assumption": "flat"}, "assumption must be"),
        ({"HR_10": ["0.5"]}, {"metrics": ["nddg@10"]}, "did you mean 'ndcg'"),
    ],
)
def test_what_cannot_be_read_is_said(cells, options, said):
    given = {"n_items": 500, "n_negatives": 99, "users": 100, "replacement": True} | options
    with pytest.raises(ValueError, match=re.escape(said)):
        sm.published(table(**cells), **given)


def test_a_file_is_read_as_text(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("Model,Data set,Hit Ratio@10,source,Users\nA,X,0.500,[1],100\nB,X,-,[2],100\n"
                    "A,Y,0.50,[1],\n", encoding="utf-8")  # fmt: skip
    found = sm.published(path, n_items=500, n_negatives=99, users=10**6, replacement=True)
    assert found.frame[["dataset", "method"]].to_numpy().tolist() == [["X", "A"], ["Y", "A"]]
    assert "columns left out, as they are no metric: source" in found.notes
    assert "B on X is left out: no number is printed" in found.notes
    width = found.frame["high"] - found.frame["low"]
    assert width[0] > width[1]  # 100 users, or a million and two digits
    for bad, said in (("", "CSV file"), ("a,HR@1\nA,0.1\nA,0.2\n", "two rows for A")):
        path.write_text(bad, encoding="utf-8")
        with pytest.raises(ValueError, match=said):
            sm.published(path, n_items=500, n_negatives=99, users=9, replacement=True)
    with pytest.raises(ValueError, match="cannot be read"):
        sm.published(tmp_path / "none.csv", n_items=500, replacement=True)


def test_a_pipe_is_not_waited_for_in_silence(tmp_path, monkeypatch):
    monkeypatch.setattr("sampled_metrics._files._WAIT", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe must be a pipe that a program writes to, got"):
        sm.published(tmp_path / "pipe", replacement=True)
    with pytest.raises(ValueError, match="null must be a file or a pipe, got a terminal or"):
        sm.published(os.devnull, replacement=True)


def test_the_result_prints_and_draws():
    rows = table(HR_10=["0.500", "0.400"], MRR=["0.250", "0.200"]).assign(dataset="X")
    found = sm.published(rows, n_items=500, n_negatives=99, users=1_000, replacement=True)
    assert max(map(len, found.summary().splitlines())) <= 100
    assert "X, hit@10: " in found.summary()
    assert "tabular" in found.to_latex()
    assert found.to_html().count("<td") >= 4 * 8
    (ax,) = found.plot("MRR").axes
    assert ax.get_xlabel() == "RR"
    with pytest.raises(ValueError, match="must be one of the table"):
        found.plot("auc")

"""The widgets: what they compute is what the package computes, and they work by keyboard."""

import gzip

import numpy as np
import pandas as pd
import pytest
from checks import faults, visit
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq, linprog
from scipy.special import xlogy

from sampled_book.chapters.corrected_movielens import one_evaluation
from sampled_book.data.datasets import bundled_ranks
from sampled_book.display import widgets
from sampled_book.experiments import stretch
from sampled_metrics import (
    Protocol,
    _printed_ranges,
    compare,
    consistency,
    estimate,
    estimators,
    metric,
    priors,
    read_log,
)

SCRIPTS = widgets.FOLDER
NAMES = [
    "weight",
    "podium",
    "reversal",
    "draw",
    "line",
    "ties",
    "correct",
    "repeat",
    "several",
    "assume",
    "table",
]
PAGE = """<!doctype html>
<html lang="en"><head><title>Widgets</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/widgets.css"><script src="/load.js"></script>
<style>* {{ box-sizing: border-box }} body {{ margin: 0; color: #000; background: #fff }}
main {{ max-width: 720px; margin: 0 auto }}</style>
</head><body><main><h1>Widgets</h1>{roots}</main></body></html>"""
FIND = "sampledMetrics.reversal(name, 10000, m, true, sampledMetrics.generator(3), 500)"
METRICS = ["auc", "ap", "ndcg", "recall@1", "recall@10", "ndcg@10", "ap@5"]


@pytest.fixture(scope="module")
def address(serve, tmp_path_factory):
    """A page with every widget, and the scripts beside it."""
    folder = tmp_path_factory.mktemp("widgets")
    for path in SCRIPTS.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    roots = "".join(f'<div class="sm-widget" data-widget="{name}"></div>' for name in NAMES)
    (folder / "page.html").write_text(PAGE.format(roots=roots), encoding="utf-8")
    return f"{serve(folder)}/page.html"


@pytest.fixture(scope="module")
def page(context, address):
    with visit(context, address) as visited:
        ready(visited.page)
        yield visited.page
        assert visited.heard == []


def computed(page, function, *cases):
    """What a function of the scripts returns for each tuple of arguments."""
    call = f"cases => cases.map(c => sampledMetrics.{function}(...c))"
    return page.evaluate(call, [list(case) for case in cases])


def ready(page):
    """All widgets are there, and have said what they compute."""
    page.wait_for_function(f"document.querySelectorAll('[data-ready]').length == {len(NAMES)}")
    page.wait_for_function(
        """() => [...document.querySelectorAll('.sm-said')].every(
            e => e.textContent && !e.textContent.startsWith('Calculating'))"""
    )


def protocols():
    sizes = [(2, 1), (5, 2), (12, 11), (300, 99), (10_000, 99), (10_000, 1_000), (10**9, 200)]
    return [
        Protocol(n, m, replacement=replacement) for n, m in sizes for replacement in (True, False)
    ]


def some_ranks(n):
    return np.unique([1, 2, 3, n // 3 + 1, n // 2 + 1, n - 1, n][: 7 if n > 3 else 2])


@pytest.mark.parametrize("protocol", protocols(), ids=str)
def test_the_distribution_and_expectations_are_those_of_the_package(page, protocol):
    n, m, replacement = protocol.n_items, protocol.n_negatives, protocol.replacement
    ranks = some_ranks(n)
    for rank, script_values in zip(
        ranks.tolist(),
        page.evaluate(
            "c => c.map(a => [...sampledMetrics.pmf(...a)])",
            [[r, n, m, replacement] for r in ranks.tolist()],
        ),
        strict=True,
    ):
        np.testing.assert_allclose(script_values, protocol.pmf(rank), rtol=1e-9, atol=1e-280)
    for name in METRICS:
        naive = estimators.naive(metric(name), protocol)
        script_values = computed(
            page, "expected", *[(name, r, n, m, replacement) for r in ranks.tolist()]
        )
        np.testing.assert_allclose(script_values, naive.expected(ranks), rtol=1e-9, atol=1e-12)
        exact = computed(page, "value", *[(name, r, n) for r in ranks.tolist()])
        np.testing.assert_allclose(exact, metric(name)(ranks, n), rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(3_541, 100), (20_000, 20), (100_000, 2_000), (101, 100)])
def test_the_metric_of_a_stretched_rank_is_that_of_the_laboratory(page, n, m):
    ranks = np.unique([1, 2, 10, 11, *np.geomspace(1, n, 40).astype(int)])
    for name in ("recall@10", "recall@1", "ndcg@10", "rr", "auc"):
        cases = [(name, r, n, m) for r in ranks.tolist()]
        curve = stretch.stretched(name, n, m, n)
        np.testing.assert_allclose(
            computed(page, "stretched", *cases), curve[ranks - 1], rtol=1e-12
        )
    for k in (1, 5, 10):
        assert computed(page, "depth", (k, n, m)) == [
            stretch.stretched(f"recall@{k}", n, m, n).sum()
        ]


def test_the_weights_name_the_depth_of_the_sampled_metric(page):
    root = page.locator("[data-widget=weight]")
    assert "exact Recall@354" in said(page, "weight")
    root.locator("fieldset").get_by_text("100,000").click()
    assert "exact Recall@10,000" in said(page, "weight")
    root.locator("fieldset").get_by_text("AUC").click()
    assert "exact AUC on average" in said(page, "weight")


@pytest.fixture(scope="module")
def sampled_laws():
    """For each recommender and number of negatives the mean law of its users' sampled ranks."""
    return {
        (recommender, m): intervals.sampled_pmf(m).mean(axis=0)
        for recommender, intervals in bundled_ranks().items()
        for m in (3, 100, 1_392)
    }


@pytest.mark.parametrize("name", ["recall@10", "ndcg@10", "auc"])
def test_metrics_of_the_bundled_recommenders_are_those_of_the_package(page, sampled_laws, name):
    for recommender, intervals in bundled_ranks().items():
        for m in (3, 100, 1_392):
            protocol = Protocol(intervals.n_candidates, m, replacement=False)
            naive = estimators.naive(metric(name), protocol)
            mean = sampled_laws[recommender, m] @ naive.values
            ends = [
                naive.expected(intervals.ranks(t)).mean() for t in ("optimistic", "pessimistic")
            ]
            script_values = page.evaluate(
                """([name, k, m]) => ["mean", "optimistic", "pessimistic"].map(
                    ties => sampledMetrics.ofTied(name, sampledMetrics.bundled()[k], ties, m))""",
                [name, recommender, m],
            )
            np.testing.assert_allclose(script_values, [mean, *ends], rtol=1e-9)
        script_values = page.evaluate(
            """([name, k]) => ["mean", "optimistic", "pessimistic"].map(
                ties => sampledMetrics.ofTied(name, sampledMetrics.bundled()[k], ties))""",
            [name, recommender],
        )
        exact = [intervals.evaluate(name, t).mean() for t in ("mean", "optimistic", "pessimistic")]
        np.testing.assert_allclose(script_values, exact, rtol=1e-9)


@pytest.mark.parametrize("name", ["ap", "recall@10", "ndcg@10"])
@pytest.mark.parametrize(("n", "m", "way"), [(400, 20, True), (400, 20, False), (2_000, 100, True)])
def test_corrections_are_those_of_the_package(page, name, n, m, way):
    protocol, ranks = Protocol(n, m, replacement=way), np.arange(1, n + 1)
    script_values = page.evaluate(
        """([name, n, m, way, gammas]) => {
            const system = sampledMetrics.system(name, n, m, way);
            return gammas.map(gamma => {
                const values = sampledMetrics.biasVariance(system, gamma);
                const both = sampledMetrics.moments(system, values);
                const { bias, noise } = sampledMetrics.errors(system, both);
                return [[...values], [...both.mean], [...both.variance], bias, noise];
            });
        }""",
        [name, n, m, way, [1.0, 0.03, 1e-4]],
    )
    for gamma, (values, mean, variance, bias, noise) in zip(
        [1.0, 0.03, 1e-4], script_values, strict=True
    ):
        estimator = estimators.bias_variance(metric(name), protocol, gamma)
        # Values of rare sampled ranks have as many digits as the system is well-conditioned.
        np.testing.assert_allclose(values, estimator.values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(mean, estimator.expected(ranks), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variance, estimator.variance(ranks), rtol=1e-9, atol=1e-9)
        assert bias == pytest.approx(
            np.sqrt((estimator.bias(ranks) ** 2).mean()), rel=1e-9, abs=1e-9
        )
        assert noise == pytest.approx(np.sqrt(estimator.variance(ranks).mean()), rel=1e-9, abs=1e-9)


def spread_over_ties(intervals):
    """The share of users at each true rank, ties spread evenly over their places."""
    places = [
        np.arange(a, a + t + 1) for a, t in zip(intervals.n_better, intervals.n_tied, strict=True)
    ]
    weights = np.concatenate([np.full(p.size, 1 / p.size) for p in places]) / len(places)
    return np.bincount(np.concatenate(places), weights, minlength=intervals.n_candidates.max())


@pytest.mark.parametrize("name", ["ap", "recall@10"])
def test_the_error_of_an_average_is_that_of_the_package(page, name):
    gammas = [1.0, 0.03, 1e-3]
    script_values = page.evaluate(
        """([name, gammas]) => {
            const data = sampledMetrics.bundled(), n = Math.max(...data.X.n);
            const system = sampledMetrics.system(name, n, 30, true);
            return Object.values(data).map(ranks => {
                const users = sampledMetrics.population(system, sampledMetrics.shares(ranks, n));
                return gammas.map(gamma => sampledMetrics.ofAverage(
                    users, sampledMetrics.biasVariance(system, gamma)));
            });
        }""",
        [name, gammas],
    )
    for intervals, by_gamma in zip(bundled_ranks().values(), script_values, strict=True):
        shares = spread_over_ties(intervals)
        protocol, ranks = Protocol(shares.size, 30, replacement=True), np.arange(1, shares.size + 1)
        for gamma, average in zip(gammas, by_gamma, strict=True):
            estimator = estimators.bias_variance(metric(name), protocol, gamma)
            bias, variance = shares @ estimator.bias(ranks), shares @ estimator.variance(ranks)
            assert average["bias"] == pytest.approx(bias, rel=1e-7, abs=1e-9)
            assert average["sd"] == pytest.approx(np.sqrt(variance), rel=1e-7)


WIN = """([name, m, n, gamma, runs]) => {
    const data = Object.values(sampledMetrics.bundled());
    const laws = data.map(each => sampledMetrics.laws(each, m));
    const values = gamma === null ? sampledMetrics.naive(name, m)
        : sampledMetrics.biasVariance(sampledMetrics.system(name, n, m, true), gamma);
    const averages = laws.map(each => sampledMetrics.expectedAverage(each, values));
    const random = sampledMetrics.generator(3);
    const run = () => laws.map(each => sampledMetrics.evaluation(each, values, random));
    return {
        averages,
        wins: data.map((_, i) => sampledMetrics.probabilityOfWin(averages, i)),
        runs: Array.from({length: runs}, run).map(all => all.map(one => [one.mean, one.error])),
    };
}"""


@pytest.mark.parametrize(("name", "m"), [("recall@10", 100), ("ap", 30)])
@pytest.mark.parametrize("corrected", [False, True])
def test_an_evaluation_names_the_best_as_often_as_in_theory(page, name, m, corrected):
    intervals = bundled_ranks()
    n_users = len(next(iter(intervals.values())).n_candidates)
    gamma = estimators.default_gamma(n_users)

    def make(of, protocol):
        naive, correction = estimators.naive, estimators.bias_variance
        return correction(of, protocol, gamma) if corrected else naive(of, protocol)

    n = round(float(next(iter(intervals.values())).n_candidates.mean()))
    protocol = Protocol(n, m, replacement=True)
    package = one_evaluation(intervals, [name], {"made": make}, protocol)
    script = page.evaluate(WIN, [name, m, n, gamma if corrected else None, 150])
    mean, sd = package["mean"].to_numpy(), package["sd"].to_numpy()
    np.testing.assert_allclose([a["mean"] for a in script["averages"]], mean, rtol=1e-8)
    np.testing.assert_allclose([a["sd"] for a in script["averages"]], sd, rtol=1e-6)
    for i, win in enumerate(script["wins"]):
        others = [j for j in range(3) if j != i]

        def density(t, i=i, others=others):
            return stats.norm.pdf(t, mean[i], sd[i]) * np.prod(
                stats.norm.cdf(t, mean[others], sd[others])
            )

        middle = mean[i] - 8 * sd[i], mean[i] + 8 * sd[i]
        assert win == pytest.approx(quad(density, *middle, limit=200)[0], abs=2e-6)
    simulated = np.array(script["runs"])
    z = (simulated[..., 0].mean(axis=0) - mean) / (sd / np.sqrt(150))
    assert np.abs(z).max() < 4.5
    ratio = simulated[..., 0].var(axis=0, ddof=1) / sd**2
    assert (np.abs(ratio - 1) < 4.5 * np.sqrt(2 / 149)).all()
    wins = np.bincount(simulated[..., 0].argmax(axis=1), minlength=3)
    tests = [
        stats.binomtest(int(k), 150, min(max(p, 0), 1)).pvalue
        for k, p in zip(wins, script["wins"], strict=True)
    ]
    assert min(tests) > 1e-4
    # The reported standard error holds the spread between users as well.
    assert (simulated[..., 1].mean(axis=0) > sd).all()


SETS = [([1, 2, 3], 12, 4), ([2, 7, 12], 12, 9), ([12, 60, 400], 1_000, 48), ([4, 5], 300, 20)]


@pytest.mark.parametrize(("ranks", "n", "m"), SETS)
@pytest.mark.parametrize("replacement", [True, False])
def test_terms_of_several_items_are_those_of_the_package(page, ranks, n, m, replacement):
    relevant, places = len(ranks), [*enumerate(ranks, start=1)]
    protocol = Protocol(n, m, replacement=replacement, n_relevant=relevant)
    for name in ["auc", "ap", "ndcg", "recall@10", "ndcg@2", "ap@2"]:
        naive = estimators.naive(metric(name), protocol)
        exact = computed(page, "term", *[(name, r, j, relevant, n) for j, r in places])
        assert sum(exact) == pytest.approx(metric(name).of_set(ranks, n), rel=1e-12)
        sampled = computed(
            page, "expectedTerm", *[(name, r, j, relevant, n, m, replacement) for j, r in places]
        )
        package = [float(naive.expected(r, j)) for j, r in places]
        np.testing.assert_allclose(sampled, package, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 10, 100])
def test_what_no_line_explains_is_as_a_fit_leaves_it(page, m):
    ranks, n = np.arange(1, 1_001), 1_000
    for name in ("ap", "ndcg", "recall@1", "recall@10"):
        values = estimators.naive(metric(name), Protocol(n, m, replacement=True)).expected(ranks)
        (unexplained,) = computed(page, "unlinear", (values.tolist(),))
        if np.ptp(values) < 1e-12:
            assert unexplained is None or np.isnan(unexplained)
            continue
        residual = values - np.polynomial.Polynomial.fit(ranks, values, 1)(ranks)
        assert unexplained == pytest.approx(residual.var() / values.var(), rel=1e-9, abs=1e-14)


def test_a_reversal_is_one_and_auc_has_none(page):
    for name, m in (("ap", 99), ("recall@10", 99), ("ndcg", 20)):
        case = page.evaluate(f"([name, m]) => {FIND}", [name, m])
        pair = {"better": case["better"], "worse": case["worse"]}
        protocol = Protocol(10_000, m, replacement=True)
        order = consistency.order_by_negatives(pair, name, protocol)
        assert order.exact == "better > worse"
        assert order.at(m) == "worse > better"
    assert page.evaluate(f"([name, m]) => {FIND}", ["auc", 99]) is None


def by_definition(case, target, head=0):
    """The ends of a target over all true ranks, by SciPy's programmes on every one of them."""
    n, m, users = case["n"], case["m"], case["users"]
    protocol, ranks = Protocol(n, m, replacement=case["replacement"]), np.arange(1, n + 1)
    printed_metrics = {metric(name): text for name, text in case["cells"].items()}
    # A mixture of even distributions over the first 1, ..., head ranks, and of single ranks.
    parts = np.eye(n)
    parts[:head, :head] = np.triu(1.0 / np.arange(1, head + 1) * np.ones((head, 1)))
    low, high, above, rows = [], [], [], []
    for parsed_metric, text in printed_metrics.items():
        value, half = float(text), 0.5 * 10.0 ** -len(text.partition(".")[2])
        pair = max(value - half, 0), min(value + half, 1)
        low.append(pair[0])
        high.append(pair[1])
        above.append(parsed_metric.vector(m + 1))
        rows.append(estimators.naive(parsed_metric, protocol).expected(ranks) @ parts)
    kinds = [
        (parsed_metric.base.replace("hit", "recall"), parsed_metric.k)
        for parsed_metric in printed_metrics
    ]
    for i, first in enumerate(kinds):
        for j, second in enumerate(kinds):
            between = (
                [k for kind, k in kinds if kind == first[0] and k and first[1] < k < second[1]]
                if (first[1] and second[1] and first[0] == second[0])
                else []
            )
            neighbours = (
                first[0] == second[0]
                and first[1]
                and second[1]
                and first[1] < second[1]
                and not between
            )
            if neighbours or (first[0] == "ndcg" and second == ("recall", first[1])):
                low.append(low[j] - high[i])
                high.append(high[j] - low[i])
                above.append(above[j] - above[i])
                rows.append(rows[j] - rows[i])
    nats = np.log(2 * len(rows) / 0.05)

    def entropy(b, a):
        return users * float(xlogy(a, a / b) + xlogy(1 - a, (1 - a) / (1 - b))) - nats

    for i, values in enumerate(above):
        least, width = values.min(), np.ptp(values)
        a, b = np.clip((np.array([low[i], high[i]]) - least) / width, 0, 1)
        lower_end = brentq(entropy, 1e-300, a, (a,)) if a > 0 else 0.0
        upper_end = brentq(entropy, b, 1 - 1e-16, (b,)) if b < 1 else 1.0
        low[i], high[i] = least + width * lower_end, least + width * upper_end
    matrix, right = np.vstack([np.array(rows), -np.array(rows)]), np.append(high, -np.array(low))
    interval = []
    for sign in (1, -1):
        cost = sign * metric(target)(ranks, n) @ parts
        tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        solution = linprog(
            cost, matrix, right, np.ones((1, n)), [1.0], method="highs", options=tight
        )
        if solution.status == 2:
            return None
        interval.append(sign * solution.fun)
    return interval


CASES = [
    {"n": 400, "m": 20, "users": 5_000, "cells": {"recall@1": "0.31", "recall@10": "0.915"}},
    {"n": 400, "m": 99, "users": 943, "cells": {"recall@10": "0.470", "ndcg@10": "0.291"}},
    {"n": 300, "m": 50, "users": 10**6, "cells": {"mrr": "0.351", "ndcg@5": "0.362"}},
]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case["cells"]))
def test_bounds_of_printed_metrics_are_those_of_all_ranks(page, case, replacement):
    case = case | {"replacement": replacement, "targets": ["recall@10", "ndcg@10", "mrr"]}
    ((published),) = computed(page, "published", (case,))
    assert published["together"]
    top_ranks = min(int(10 * case["n"] / case["m"]), case["n"])
    for bounds, head in zip(published["bounds"], [0, top_ranks], strict=True):
        for name in case["targets"]:
            interval = by_definition(case, name, head)
            if interval is None:
                assert bounds is None
            else:
                np.testing.assert_allclose(bounds[name], interval, atol=2e-9)


def test_ranges_are_rounded_outwards_as_the_package_rounds_them(page):
    rng = np.random.default_rng(4)
    ends = np.sort(np.concatenate([rng.random((60, 2)), 1e-3 * rng.random((60, 2))])).tolist()
    ends += [[0.02766, 0.0281], [0.1 + 0.2, 0.5], [-1e-17, 1 - 1e-16], [0, 1], [-0.0004, 0.0004]]
    shown_ends = page.evaluate(
        """ends => ends.map((pair) => [...sampledMetrics.ui.outward(pair, 3),
            ...sampledMetrics.ui.outward(pair, 1, "%")])""",
        ends,
    )
    for (low, high), said in zip(ends, shown_ends, strict=True):
        percents = [f"{end}%" for end in _printed_ranges.ends(100 * low, 100 * high, 1)]
        assert said == [*_printed_ranges.ends(low, high), *percents]


def test_numbers_that_cannot_be_are_refused(page):
    sizes = {"n": 1_000, "m": 99, "users": 2_000, "replacement": False, "targets": ["recall@10"]}
    cases = [
        ({"recall@10": "0.400", "ndcg@10": "0.402"}, False),  # more NDCG than hits
        ({"recall@1": "0.500", "recall@10": "0.498"}, False),
        ({"recall@1": "0.900", "recall@10": "0.999"}, True),
        # Half of the users at sampled rank 1 and none in the next nine: no true ranks do that.
        ({"recall@1": "0.500", "recall@10": "0.500"}, True),
    ]
    published = computed(page, "published", *[(sizes | {"cells": cells},) for cells, _ in cases])
    assert [answer["together"] for answer in published] == [
        is_plausible for _, is_plausible in cases
    ]
    assert [answer["bounds"][0] is not None for answer in published] == [False, False, True, True]
    impossible = sizes | {"m": 5, "cells": {"recall@1": "0.010", "recall@3": "0.990"}}
    ((published),) = computed(page, "published", (impossible,))
    assert published["together"]
    assert published["bounds"] == [None, None]


@pytest.mark.parametrize("way", [True, False])
def test_negatives_are_drawn_from_all_others_alike(page, way):
    places = page.evaluate(
        """way => {
            const random = sampledMetrics.generator(5);
            const draw = () => sampledMetrics.drawn(4, 10, 3, way, random);
            return Array.from({length: 4000}, draw);
        }""",
        way,
    )
    counts = np.bincount(np.ravel(places), minlength=11)
    assert counts[[0, 4]].tolist() == [0, 0]
    assert np.abs(np.delete(counts[1:], 3) - 12_000 / 9).max() < 5 * np.sqrt(12_000 / 9)
    assert way or all(len(set(sample)) == 3 for sample in places)


@pytest.fixture(scope="module")
def log_of_100():
    """Sampled ranks that the widget on assumptions was computed from, and their protocol."""
    protocol, _, sampled = widgets.drawn(100)
    return protocol, sampled


@pytest.mark.parametrize("name", widgets.METRICS)
def test_what_a_prior_says_is_what_the_package_says(page, log_of_100, name):
    protocol, sampled = log_of_100
    users = sampled["X"].size
    counts = {recommender: np.bincount(r - 1, minlength=101) for recommender, r in sampled.items()}
    fit = priors.maximum_entropy(sum(counts.values()), protocol)
    gamma = estimators.default_gamma(users)
    values = estimators.bias_variance(metric(name), protocol, gamma, fit.mass).values
    held = page.evaluate(f"() => sampledMetrics.possible['{name}'][100]")
    for recommender, numbers in held.items():
        value, low, high = numbers["prior"]["log"]["value"]
        # The package moves the prior's users to fewer ranks first.
        assert value == pytest.approx(counts[recommender] @ values / users, rel=2e-3)
        assert low < value < high
    rows = {"recommender": [], "user": [], "rank": []}
    for recommender, ranks in sampled.items():
        rows["recommender"] += [recommender] * users
        rows["user"] += range(users)
        rows["rank"] += ranks.tolist()
    log = read_log(pd.DataFrame(rows), n_items=protocol.n_items, n_negatives=100, replacement=True)
    estimates = estimate(log, [name], estimator=widgets.PRIOR, identification=False).frame
    for row in estimates.itertuples():
        numbers = held[row.recommender]["prior"]["log"]["value"]
        reach = stats.t.ppf(0.975, users - 1) * row.standard_error
        ends = [row.estimate, row.estimate - reach, row.estimate + reach]
        np.testing.assert_allclose(numbers, ends, rtol=0, atol=1e-9)
    judged = compare(log, name, estimator=widgets.PRIOR, assumption=None).frame
    # Beyond two standard errors either way, which leaves out the bias.
    ahead = sorted(
        (row.first, row.second) if row.estimate > 0 else (row.second, row.first)
        for row in judged.itertuples()
        if abs(row.estimate) > stats.t.ppf(0.975, users - 1) * row.standard_error
    )
    assert ahead == sorted(
        (recommender, second)
        for recommender, numbers in held.items()
        for second in numbers["prior"]["log"]["ahead"]
    )


def test_scripts_are_small():
    packed = [len(gzip.compress(path.read_bytes(), 9)) for path in SCRIPTS.glob("*.js")]
    assert sum(packed) < 150_000


def test_the_widgets_have_no_fault(context, address):
    with visit(context, address) as visited:
        ready(visited.page)
        assert faults(visited) == []


def said(page, name):
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    return page.locator(f"[data-widget={name}] .sm-said").inner_text()


@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_widget_works_by_keyboard(page, name):
    """Every control can be reached by Tab, and the keys of each change what is said."""
    root = page.locator(f"[data-widget={name}]")
    first = root.locator("input, button, [tabindex]").first
    first.focus()
    reached = page.evaluate(
        """name => [...document.querySelector(`[data-widget=${name}]`)
            .querySelectorAll('input, button, [tabindex]')]
            .filter(e => e.type !== 'radio' || e.checked).length""",
        name,
    )
    seen = 1
    for _ in range(reached - 1):
        page.keyboard.press("Tab")
        seen += page.evaluate(f"() => !!document.activeElement.closest('[data-widget={name}]')")
    assert seen == reached
    before = said(page, name)
    for slider in root.locator("input[type=range]").all():
        slider.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
    for choice in root.locator("fieldset").all():
        choice.locator("input:checked").focus()
        page.keyboard.press("ArrowRight")
    assert said(page, name) != before


def test_a_table_is_typed(page):
    root = page.locator("[data-widget=table]")
    root.get_by_label("Items n").focus()
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.type") == "radio"
    field = root.get_by_label("HR@10", exact=True)
    field.focus()
    for typed, answer in (
        ("0.1", "Not plausible"),
        ("much", "must be as printed"),
        ("47%", "Plausible"),
    ):
        page.keyboard.press("Control+A")
        page.keyboard.type(typed)
        page.wait_for_function(
            """answer => document.querySelector('[data-widget=table] .sm-said').textContent
                .includes(answer)""",
            arg=answer,
        )


def test_ranks_are_moved_by_keyboard_and_by_touch(page):
    root = page.locator("[data-widget=reversal]")
    dot = root.locator("[role=slider]").first
    dot.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    said(page, "reversal")
    assert dot.get_attribute("aria-valuenow") == "2"
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 200, y)
    page.mouse.up()
    said(page, "reversal")
    assert int(dot.get_attribute("aria-valuenow")) > 10


def test_nothing_moves_while_a_widget_fills(browser, address):
    """The place of each widget is kept before its script has run."""
    for width in (1_280, 390):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.route("**/load.js", lambda route: route.abort())
        page.goto(address)
        heights = "() => [...document.querySelectorAll('.sm-widget')].map(e => e.offsetHeight)"
        before = page.evaluate(heights)
        page.unroute("**/load.js")
        page.goto(address)
        ready(page)
        page.wait_for_timeout(300)
        after = page.evaluate(heights)
        page.close()
        assert dict(zip(NAMES, after, strict=True)) == dict(zip(NAMES, before, strict=True)), width

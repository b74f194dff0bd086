"""The widgets: what they compute is what the package computes, and they work by keyboard."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from checks import faults, visit

from sampled_book import widgets
from sampled_book.datasets import bundled_ranks
from sampled_metrics import Protocol, consistency, estimators, metric

SCRIPTS = widgets.FOLDER
NAMES = ["podium", "reversal", "draw", "line", "ties", "correct", "assume"]
PAGE = """<!doctype html>
<html lang="en"><head><title>Widgets</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/widgets.css"><script src="/load.js"></script>
<style>* {{ box-sizing: border-box }} body {{ margin: 0; color: #000; background: #fff }}
main {{ max-width: 720px; margin: 0 auto }}</style>
</head><body><main><h1>Widgets</h1>{roots}</main></body></html>"""
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
    with visit(context, address) as found:
        found.page.wait_for_function(
            f"document.querySelectorAll('[data-ready]').length == {len(NAMES)}"
        )
        yield found.page
        assert found.heard == []


def computed(page, function, *cases):
    """What a function of the scripts returns for each tuple of arguments."""
    call = f"cases => cases.map(c => sampledMetrics.{function}(...c))"
    return page.evaluate(call, [list(case) for case in cases])


def protocols():
    sizes = [(2, 1), (5, 2), (12, 11), (300, 99), (10_000, 99), (10_000, 1_000), (10**9, 200)]
    return [Protocol(n, m, replacement=way) for n, m in sizes for way in (True, False)]


def some_ranks(n):
    return np.unique([1, 2, 3, n // 3 + 1, n // 2 + 1, n - 1, n][: 7 if n > 3 else 2])


@pytest.mark.parametrize("protocol", protocols(), ids=str)
def test_the_distribution_and_expectations_are_those_of_the_package(page, protocol):
    n, m, way = protocol.n_items, protocol.n_negatives, protocol.replacement
    ranks = some_ranks(n)
    for rank, found in zip(
        ranks.tolist(),
        page.evaluate(
            "c => c.map(a => [...sampledMetrics.pmf(...a)])",
            [[r, n, m, way] for r in ranks.tolist()],
        ),
        strict=True,
    ):
        np.testing.assert_allclose(found, protocol.pmf(rank), rtol=1e-9, atol=1e-280)
    for name in METRICS:
        naive = estimators.naive(metric(name), protocol)
        found = computed(page, "expected", *[(name, r, n, m, way) for r in ranks.tolist()])
        np.testing.assert_allclose(found, naive.expected(ranks), rtol=1e-9, atol=1e-12)
        exact = computed(page, "value", *[(name, r, n) for r in ranks.tolist()])
        np.testing.assert_allclose(exact, metric(name)(ranks, n), rtol=1e-12)


@pytest.mark.parametrize("name", ["recall@10", "ndcg@10", "auc"])
def test_metrics_of_the_bundled_recommenders_are_those_of_the_package(page, name):
    for recommender, intervals in bundled_ranks().items():
        for m in (3, 100, 1_392):
            protocol = Protocol(intervals.n_candidates, m, replacement=False)
            naive = estimators.naive(metric(name), protocol)
            mean = (intervals.sampled_pmf(m) @ naive.values).mean()
            ends = [
                naive.expected(intervals.ranks(t)).mean() for t in ("optimistic", "pessimistic")
            ]
            found = page.evaluate(
                """([name, k, m]) => ["mean", "optimistic", "pessimistic"].map(
                    ties => sampledMetrics.ofTied(name, sampledMetrics.bundled()[k], ties, m))""",
                [name, recommender, m],
            )
            np.testing.assert_allclose(found, [mean, *ends], rtol=1e-9)
        found = page.evaluate(
            """([name, k]) => ["mean", "optimistic", "pessimistic"].map(
                ties => sampledMetrics.ofTied(name, sampledMetrics.bundled()[k], ties))""",
            [name, recommender],
        )
        wanted = [intervals.evaluate(name, t).mean() for t in ("mean", "optimistic", "pessimistic")]
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", ["ap", "recall@10", "ndcg@10"])
@pytest.mark.parametrize(("n", "m", "way"), [(400, 20, True), (400, 20, False), (2_000, 100, True)])
def test_corrections_are_those_of_the_package(page, name, n, m, way):
    protocol, ranks = Protocol(n, m, replacement=way), np.arange(1, n + 1)
    found = page.evaluate(
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
    for gamma, (values, mean, variance, bias, noise) in zip([1.0, 0.03, 1e-4], found, strict=True):
        built = estimators.bias_variance(metric(name), protocol, gamma)
        # Values of rare sampled ranks have as many digits as the system is well-conditioned.
        np.testing.assert_allclose(values, built.values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(mean, built.expected(ranks), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variance, built.variance(ranks), rtol=1e-9, atol=1e-9)
        assert bias == pytest.approx(np.sqrt((built.bias(ranks) ** 2).mean()), rel=1e-9, abs=1e-9)
        assert noise == pytest.approx(np.sqrt(built.variance(ranks).mean()), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("m", [1, 2, 10, 100])
def test_what_no_line_explains_is_as_a_fit_leaves_it(page, m):
    ranks, n = np.arange(1, 1_001), 1_000
    for name in ("ap", "ndcg", "recall@1", "recall@10"):
        values = estimators.naive(metric(name), Protocol(n, m, replacement=True)).expected(ranks)
        (found,) = computed(page, "unlinear", (values.tolist(),))
        if np.ptp(values) < 1e-12:
            assert found is None or np.isnan(found)
            continue
        residual = values - np.polynomial.Polynomial.fit(ranks, values, 1)(ranks)
        assert found == pytest.approx(residual.var() / values.var(), rel=1e-9, abs=1e-14)


def test_a_reversal_is_one_and_auc_has_none(page):
    for name, m in (("ap", 99), ("recall@10", 99), ("ndcg", 20)):
        case = page.evaluate(
            "([name, m]) => sampledMetrics.reversal(name, 10000, m, true, sampledMetrics.generator(3))",
            [name, m],
        )
        pair = {"better": case["better"], "worse": case["worse"]}
        protocol = Protocol(10_000, m, replacement=True)
        found = consistency.order_by_negatives(pair, name, protocol)
        assert found.exact == "better > worse"
        assert found.at(m) == "worse > better"
    assert (
        page.evaluate(
            "() => sampledMetrics.reversal('auc', 10000, 99, true, sampledMetrics.generator(3), 300)"
        )
        is None
    )


@pytest.mark.parametrize("way", [True, False])
def test_negatives_are_drawn_from_all_others_alike(page, way):
    places = page.evaluate(
        """way => { const random = sampledMetrics.generator(5);
            return Array.from({length: 4000}, () => sampledMetrics.drawn(4, 10, 3, way, random)); }""",
        way,
    )
    counts = np.bincount(np.ravel(places), minlength=11)
    assert counts[[0, 4]].tolist() == [0, 0]
    assert np.abs(np.delete(counts[1:], 3) - 12_000 / 9).max() < 5 * np.sqrt(12_000 / 9)
    assert way or all(len(set(each)) == 3 for each in places)


def test_the_bundled_data_are_those_of_the_package():
    def held(name):
        text = (SCRIPTS / f"{name}.js").read_text(encoding="utf-8")
        return json.loads(
            text.removeprefix(f"window.sampledMetrics.{name} = ").rstrip().rstrip(";")
        )

    assert held("ranks") == widgets.ranks()
    ranges = held("possible")
    assert list(ranges) == list(widgets.METRICS)
    assert [list(each) for each in ranges.values()] == [list(map(str, widgets.NEGATIVES))] * 2


def test_scripts_are_small():
    packed = [len(gzip.compress(path.read_bytes(), 9)) for path in SCRIPTS.glob("*.js")]
    assert sum(packed) < 150_000


def test_the_widgets_have_no_fault(context, address):
    with visit(context, address) as found:
        found.page.wait_for_function(
            f"document.querySelectorAll('[data-ready]').length == {len(NAMES)}"
        )
        assert faults(found) == []


def said(page, name):
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    return page.locator(f"[data-widget={name}] .sm-said").inner_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_widget_works_by_keyboard(page, name):
    """Every control can be reached by Tab, and the keys of each change what is said."""
    root = page.locator(f"[data-widget={name}]")
    first = root.locator("input, button, [tabindex]").first
    first.focus()
    reached = page.evaluate(
        """name => [...document.querySelectorAll(`[data-widget=${name}] :is(input, button, [tabindex])`)]
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
        page.wait_for_function(f"document.querySelectorAll('[data-ready]').length == {len(NAMES)}")
        page.wait_for_timeout(300)
        after = page.evaluate(heights)
        page.close()
        assert dict(zip(NAMES, after, strict=True)) == dict(zip(NAMES, before, strict=True)), width

"""Every page of the built site, at desktop and phone width, in the light and the dark theme."""

import re
from pathlib import Path

import pytest
import yaml
from checks import faults, show, visit

SITE = Path(__file__).parents[3] / "_build" / "html"
CONFIG = yaml.safe_load((SITE.parents[1] / "_config.yml").read_text(encoding="utf-8"))
#: Addresses of earlier editions, whose pages only lead on.
MOVED = {f"{old}.html" for old in CONFIG["sphinx"]["config"]["moved_pages"]}
PAGES = sorted(
    {
        path.relative_to(SITE).as_posix()
        for path in SITE.rglob("*.html")
        if "_static" not in path.parts and path not in (SITE / "index.html", SITE / "404.html")
    }
    - MOVED
)


@pytest.fixture(scope="session")
def address(serve):
    return serve(SITE)


def test_the_site_is_built():
    assert len(PAGES) > 5, "no site in _build/html: run `make book` first"


def test_the_front_door_leads_to_the_landing_page(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/index.html")
    page.wait_for_url(f"{address}/book/notebooks/index.html")
    page.close()


#: How far down the first figure of a chapter may begin, in pixels at desktop width.
FIRST = 1_100
#: The longest line of each element that hides a part of some line, by what selects them.
CUT_OFF = """selector => [...document.querySelectorAll(selector)]
    .filter(e => e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1)
    .map(e => e.id || e.textContent.split('\\n').sort((a, b) => b.length - a.length)[0])"""


def has_its_first_figure_near_the_top_and_nothing_cut_off(page):
    """As a chapter is opened, with what it folds away still folded."""
    show(page, 1280, "light")
    tops = page.eval_on_selector_all(
        "article figure img, article .sm-widget, article .cell_output img",
        "all => all.map(e => e.getBoundingClientRect()).filter(r => r.height > 0)"
        ".map(r => r.top + scrollY)",
    )
    assert tops
    assert min(tops) <= FIRST
    assert page.evaluate(CUT_OFF, "article pre") == []
    show(page, 360, "light")
    assert page.evaluate(CUT_OFF, "article div.math") == []


def follows_the_theme(page, theme):
    assert page.evaluate("document.documentElement.dataset.theme") == theme


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_fault(context, address, looked, name):
    chapter = re.fullmatch(r"book/notebooks/\d\d_\w+\.html", name)
    first = has_its_first_figure_near_the_top_and_nothing_cut_off if chapter else str
    with visit(context, f"{address}/{name}", first) as visited:
        assert faults(visited, looked, follows_the_theme) == []

"""The chapters are there, and what a reader searches for is found."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from test_pages import PAGES, SITE

CHAPTERS = sorted(
    Path(page).name for page in PAGES if re.fullmatch(r"book/notebooks/\d\d_\w+\.html", page)
)
GLOSSARY = Path(__file__).parents[3] / "book" / "glossary.md"


@pytest.fixture(scope="module")
def address(serve):
    return serve(SITE)


@pytest.fixture
def page(context):
    opened = context.new_page()
    yield opened
    opened.close()


def test_the_chapters_are_built():
    written = (GLOSSARY.parent / "chapters").glob("[0-9][0-9]_*.md")
    assert sorted(f"{path.stem}.html" for path in written) == CHAPTERS


def terms():
    """What the glossary says of each of its terms, as one types them."""
    lines = GLOSSARY.read_text(encoding="utf-8")
    entries = re.findall(r"((?:^[^\s`{#(:].*\n)+)((?:^  .*\n)+)", lines, re.M)
    return {
        re.split(r"[,(]", term)[0].strip(): entry
        for heads, entry in entries
        for term in heads.splitlines()
    }


def first_found(page, address, word):
    """The page that the search puts first."""
    page.goto(f"{address}/search.html?q={quote(word)}")
    page.wait_for_selector("#search-results li a")
    first = page.locator("#search-results li a").first.get_attribute("href")
    return first.split("#")[0].split("?")[0]


#: Whether a search has shown all that it found.
FINISHED = "document.querySelector('#search-results h2')?.innerText === 'Search Results'"
#: The page that a further search on the open page of a search puts first, once it has finished.
AGAIN = """async word => {
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;  // for which it would load every page found
    const results = document.getElementById('search-results');
    results.replaceChildren();
    Search.performSearch(word);
    while (results.querySelector('h2').innerText !== 'Search Results')
        await new Promise(wake => setTimeout(wake, 5));
    return results.querySelector('li a')?.getAttribute('href') ?? 'nothing';
}"""


def leads(first, entry):
    """Whether a page is the glossary, or one that the entry names."""
    labels = re.findall(r"\{ref\}`(?:[^<`]*<)?([a-z0-9-]+)", entry)
    named = ["book/glossary.html", *map(_page_of, labels)]
    return any(first.endswith(name) for name in named)


#: What people ask, in words, and the page that answers it.
QUESTIONS = {
    "which correction": "book/library/correction.html",
    "how many negatives": "book/library/plan.html",
    "rank all items": "book/library/rank.html",
    "sm.estimate": "book/api/estimate.html",
    "read_log": "book/api/read_log.html",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_search_leads_to_the_page_that_answers(page, address, question):
    assert first_found(page, address, question).endswith(QUESTIONS[question])


@pytest.mark.parametrize("name", PAGES)
def test_a_reader_who_lands_on_a_page_can_search_from_it(browser, address, name):
    landed = browser.new_page()  # nothing is cached, and nothing was searched before
    errors = []
    landed.on("pageerror", lambda error: errors.append(str(error)))
    try:
        landed.goto(f"{address}/{name}")
        landed.keyboard.press("Control+k")
        landed.keyboard.type("which correction")
        landed.keyboard.press("Enter")
        first = landed.locator("#search-results li a").first
        first.wait_for(timeout=10_000)
        landed.wait_for_function(FINISHED)  # results that come later move this one
        with landed.expect_navigation(wait_until="domcontentloaded"):
            first.click()
        assert landed.title().startswith("Which correction?")
        assert errors == []
    finally:
        landed.close()


def test_a_wrong_address_leads_to_the_first_page(page, address):
    page.goto(f"{address}/404.html")
    assert page.title().startswith("No such page")
    page.click("#home")
    page.wait_for_url(f"{address}/book/notebooks/index.html")


def test_every_term_of_the_glossary_is_found(page, address):
    entries = terms()
    assert len(entries) > 30
    assert first_found(page, address, "AUC")
    page.wait_for_function("document.querySelector('#search-results h2').innerText != 'Searching'")
    first_pages = {term: page.evaluate(AGAIN, term).split("#")[0].split("?")[0] for term in entries}
    assert {
        term: link for term, link in first_pages.items() if not leads(link, entries[term])
    } == {}


def _page_of(label):
    """The page that a label stands on."""
    for path in Path(GLOSSARY.parent).rglob("*.md"):
        if f"({label})=" in path.read_text(encoding="utf-8").splitlines():
            return f"{path.stem}.html"
    raise AssertionError(f"no page has the label {label}")

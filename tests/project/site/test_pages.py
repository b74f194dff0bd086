"""Every page of the built site, at desktop and phone width, in the light and the dark theme."""

from __future__ import annotations

from pathlib import Path

import pytest
from checks import faults, show, visit

SITE = Path(__file__).parents[3] / "_build" / "html"
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts and path != SITE / "index.html"
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


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_fault(context, address, passed, name):
    with visit(context, f"{address}/{name}") as found:
        for theme in ("light", "dark"):
            show(found.page, 1280, theme)
            assert found.page.evaluate("document.documentElement.dataset.theme") == theme
        assert faults(found, passed) == []

"""Every page of the built site says what it is to those who only read its head."""

import re
from pathlib import Path

import pytest
import yaml
from test_pages import PAGES, SITE

import site_metadata

CONFIG = yaml.safe_load((Path(__file__).parents[3] / "_config.yml").read_text())
ADDRESS = site_metadata.site_address(CONFIG["repository"]["url"])
#: Pages that Sphinx makes without a source.
MADE = {"search.html", "genindex.html", "py-modindex.html"}


def told(page):
    """What the Open Graph tags of a page say, by name."""
    head = (SITE / page).read_text(encoding="utf-8").partition("</head>")[0]
    return dict(re.findall(r'<meta property="(og:[\w:]+)" content="([^"]*)"', head))


@pytest.mark.parametrize("page", sorted(set(PAGES) - MADE))
def test_a_page_has_a_title_an_image_and_an_address_if_the_site_has(page):
    tags = told(page)
    assert tags["og:title"]
    image = tags["og:image"]
    path = SITE / image.removeprefix(ADDRESS) if ADDRESS else (SITE / page).parent / image
    assert path.is_file()
    assert tags.get("og:url") == (f"{ADDRESS}{page}" if ADDRESS else None)


def test_nearly_every_chapter_and_page_of_the_library_is_described():
    pages = [page for page in PAGES if re.match("book/(notebooks|library)/", page)]
    described = [page for page in pages if len(told(page).get("og:description", "")) > 30]
    assert len(described) > 0.9 * len(pages)


def test_the_site_map_exists_if_the_site_has_an_address():
    assert (SITE / "sitemap.xml").exists() == bool(ADDRESS)

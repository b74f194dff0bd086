"""What previews of links and search engines are told, on a tiny site with and without an owner."""

import re
from html.parser import HTMLParser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urljoin

import pytest
import yaml
from sphinx.application import Sphinx
from sphinx.errors import ConfigError
from sphinx.util.docutils import docutils_namespace

import site_metadata

pytestmark = pytest.mark.words

ROOT = Path(__file__).parents[2]
HOME = "https://somebody.github.io/sampled-metrics/"
INDEX = """The book
========

.. note:: Not this.

Read <this> & "that"; it is :math:`\\gamma`.

.. toctree::

   folder/page
"""
PAGE = f"""A page
======

.. meta::
   :description: Its own.

{"Many words. " * 40}
"""


class Head(HTMLParser):
    """What the tags of a page's head say, by their names."""

    def __init__(self, path):
        super().__init__()
        self.tags = {}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = {key: value or "" for key, value in attrs}
        if tag == "meta" and (name := given.get("property") or given.get("name")):
            self.tags.setdefault(name, []).append(given.get("content", ""))
        if tag == "link" and given.get("rel") == "canonical":
            self.tags.setdefault("canonical", []).append(given["href"])


@pytest.fixture
def build(tmp_path):
    """Build two pages by the extension, with the repository at an address; the site's folder."""

    def build(repository, **settings):
        (tmp_path / "folder").mkdir()
        (tmp_path / "index.rst").write_text(INDEX)
        (tmp_path / "folder" / "page.rst").write_text(PAGE)
        overrides = {
            "extensions": ["site_metadata"],
            "html_theme": "sphinx_book_theme",
            "smartquotes": False,
            "html_title": "Sampled Metrics",
            "html_theme_options": {"repository_url": repository},
        }
        site = tmp_path / "site"
        with docutils_namespace():
            app = Sphinx(
                tmp_path, None, site, tmp_path / "trees", "html", overrides | settings, status=None
            )
            app.build()
        return site

    return build


def owners_address(owner):
    """The address of the site as `.ci/owner.py` writes it into the citation."""
    spec = spec_from_file_location("owner", ROOT / ".ci" / "owner.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    texts = {name: (ROOT / name).read_text() for name in module.FILES}
    citation = module.with_owner(texts, owner, "2027-01-31")["CITATION.cff"]
    return re.findall(r"(?m)^url: (.*)$", citation)[-1]


def test_the_address_follows_from_the_repository_as_the_citations_does():
    repository = "https://github.com/Some-Body/sampled-metrics"
    assert site_metadata.site_address(repository) == owners_address("Some-Body")
    assert site_metadata.site_address(f"{repository}/") == owners_address("Some-Body")
    assert site_metadata.site_address("https://example.org/group/sampled-metrics") == ""


@pytest.mark.parametrize("owner", [site_metadata.PLACEHOLDER, "Somebody"])
def test_notebooks_are_launched_only_from_a_repository_with_an_owner(owner):
    address = f"https://github.com/{owner}/sampled-metrics"
    options = {"repository_url": address, "launch_buttons": {"colab_url": "https://a.test"}}
    config = SimpleNamespace(html_theme_options=options, html_baseurl="")
    site_metadata.set_address(None, config)
    assert ("launch_buttons" in options) == (owner != site_metadata.PLACEHOLDER)
    assert options["repository_url"] == address


def test_with_an_owner_the_tags_and_the_site_map_are_absolute(build):
    site = build("https://github.com/Somebody/sampled-metrics")
    for path in ("index.html", "folder/page.html"):
        tags = Head(site / path).tags
        assert tags["canonical"] == tags["og:url"] == [urljoin(HOME, path)]
        assert tags["og:image"] == [urljoin(HOME, "_static/fig-index.png")]
    listed = re.findall("<loc>(.*)</loc>", (site / "sitemap.xml").read_text())
    assert listed == [urljoin(HOME, "folder/page.html"), urljoin(HOME, "index.html")]


def test_the_title_and_how_the_text_begins_are_told(build):
    site = build("")
    tags = Head(site / "index.html").tags
    assert tags["og:title"] == ["The book"]
    assert tags["og:site_name"] == ["Sampled Metrics"]
    assert tags["og:description"] == tags["description"] == ['Read <this> & "that"; it is gamma.']
    tags = Head(site / "folder" / "page.html").tags
    (told,) = tags["og:description"]
    assert told.startswith("Many words. Many")
    assert 150 < len(told) <= site_metadata.LONGEST
    assert told.endswith(" …")
    assert tags["description"] == ["Its own."]
    assert not {name for name in Head(site / "search.html").tags if name.startswith("og:")}


def test_an_old_address_leads_to_where_the_page_is_now(build):
    site = build("", moved_pages={"old": "folder/page", "folder/older": "index"})
    assert '<meta http-equiv="refresh" content="0; url=folder/page.html">' in (
        (site / "old.html").read_text()
    )
    assert '<a href="../index.html">The book</a>' in (site / "folder" / "older.html").read_text()


def test_a_page_that_is_there_cannot_have_moved(build):
    with pytest.raises(ConfigError, match="leads away from index, which is a page"):
        build("", moved_pages={"index": "folder/page", "old": "in another part of the book"})


def test_the_books_own_old_addresses_lead_to_chapters():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    for old, new in config["sphinx"]["config"]["moved_pages"].items():
        assert (ROOT / f"{new}.ipynb").exists()
        assert not (ROOT / f"{old}.ipynb").exists()

"""A Sphinx extension: tags for previews and search engines, and old addresses that lead on.

Previews work from any address; a canonical address and a site map need the site's own. It follows
from the address of the repository in ``_config.yml``: until the owner is known, there is neither.
Nothing is fetched, and no page needs these tags to be read.
"""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

#: The account in an address that is not one yet.
PLACEHOLDER = "OWNER"
#: What a preview shows: the landing page's figure, which ``book/figure.py`` writes.
IMAGE = "_static/fig-index.png"
IMAGE_TEXT = "Recall@10 of three recommenders, against the number of sampled negatives."
#: Previews cut a description at about so many characters.
LONGEST = 200


def site_address(repository: str) -> str:
    """Return the address of the site that GitHub makes from a repository, or nothing.

    >>> site_address("https://github.com/Somebody/sampled-metrics")
    'https://somebody.github.io/sampled-metrics/'
    >>> site_address(f"https://github.com/{PLACEHOLDER}/sampled-metrics")
    ''
    """
    match = re.fullmatch(r"https://github\.com/([^/]+)/([^/]+)/?", repository)
    if match is None or match[1] == PLACEHOLDER:
        return ""
    return f"https://{match[1].lower()}.github.io/{match[2]}/"


def set_address(_: Sphinx, config: Config) -> None:
    """Let Sphinx write canonical addresses, unless the configuration names another.

    Buttons that launch a notebook elsewhere lead nowhere until the owner is known.
    """
    repository = config.html_theme_options.get("repository_url", "")
    if PLACEHOLDER in repository.split("/"):
        config.html_theme_options.pop("launch_buttons", None)
    config.html_baseurl = config.html_baseurl or site_address(repository)


def description(page: nodes.document) -> str:
    """Return how the first paragraph of a page begins that stands in no box, list or table."""
    for paragraph in page.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            # Formulas are TeX: gamma reads better than \gamma where nothing sets it.
            text = " ".join(paragraph.astext().replace("\\", "").split())
            return textwrap.shorten(text, LONGEST, placeholder=" …")
    return ""


def add_tags(
    app: Sphinx, name: str, _: str, context: dict[str, Any], page: nodes.document | None
) -> None:
    """Add the tags of a page that has a source."""
    if page is None:
        return
    base = app.config.html_baseurl
    about = description(page)
    tags = {
        "og:type": "article",
        "og:site_name": app.config.html_title,
        "og:title": app.env.titles[name].astext(),
        "og:description": about,
        # The protocol wants a whole address; a relative one is ignored and does no harm.
        "og:image": f"{base}{IMAGE}" if base else context["pathto"](IMAGE, resource=True),
        "og:image:alt": IMAGE_TEXT,
        "og:url": context.get("pageurl", "") if base else "",
    }
    lines = [_tag("property", key, text) for key, text in tags.items() if text]
    lines.append(_tag("name", "twitter:card", "summary_large_image"))
    if about and 'name="description"' not in context["metatags"]:
        lines.append(_tag("name", "description", about))
    context["metatags"] += "\n" + "\n".join(lines)


def _tag(kind: str, name: str, content: str) -> str:
    return f'<meta {kind}="{name}" content="{escape(content)}" />'


def write_site_map(app: Sphinx, problem: Exception | None) -> None:
    """Write the addresses of all pages for search engines, once the site has an address."""
    base = app.config.html_baseurl
    if problem is not None or not base or app.builder.format != "html":
        return
    pages = sorted(app.builder.get_target_uri(name) for name in app.env.found_docs)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
        *(f"<url><loc>{escape(base + page)}</loc></url>" for page in pages),
        "</urlset>",
    ]
    Path(app.outdir, "sitemap.xml").write_text("\n".join(lines) + "\n", encoding="utf-8")


#: A page without a script: browsers follow the tag, and whoever does not has the link.
MOVED = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<meta http-equiv="refresh" content="0; url={target}">
<link rel="canonical" href="{target}">
<p>This page has moved: <a href="{target}">{title}</a></p>
</html>
"""


def write_moved_pages(app: Sphinx, problem: Exception | None) -> None:
    """Write a page that leads on for each address of an earlier edition, as `moved_pages` says."""
    if problem is not None or app.builder.format != "html":
        return
    for old, new in app.config.moved_pages.items():
        if new not in app.env.found_docs:
            continue  # a part of the book is built
        if old in app.env.found_docs:
            raise ConfigError(f"moved_pages leads away from {old}, which is a page")
        target = app.builder.get_relative_uri(old, new)
        title = escape(app.env.titles[new].astext())
        page = Path(app.outdir, app.builder.get_target_uri(old))
        page.write_text(MOVED.format(target=target, title=title), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", set_address)
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", write_site_map)
    app.add_config_value("moved_pages", {}, "html", dict)
    app.connect("build-finished", write_moved_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
